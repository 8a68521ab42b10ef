//! A configured neighbour that sends custody signals and reports about bundles that it never had. All nodes take
//! custody and send compressed reports.

use super::reports::{amplified, received_by_victim};
use super::{Case, Outcome, Target};
use crate::attack::stage::LIAR;
use crate::attack::wire::bundle::{Bundle, put, put_endpoint};
use anyhow::Result;
use std::time::Duration;

/// Custody signals for bundles that were never sent.
pub const SIGNALS: Case = Case {
    name: "custody-signals",
    what: "A configured neighbour says a thousand times a second, also in another's name, that it took or refused \
           custody of all bundles there are, in one run, in 30,000, of 4,000 counters or beside 15,000 other things, and reports \
           them.",
    run: signals,
};
/// Requests for compressed reports to third parties.
pub const REPORTS: Case = Case {
    name: "compressed-reports",
    what: "A configured neighbour asks for compressed reports of 30,000 bundles, each in another's name, half of them \
           to an application of the neighbour that asked for none.",
    run: reports,
};

/// Administrative record flag (RFC 9171 section 4.2.3).
const RECORD: u64 = 2;
/// Record type of custody signals (CCSDS 734.6-O-1).
const CUSTODY: u64 = 13;
// Record and block type of compressed reports.
const REPORTING: u64 = 14;
fn signals(target: &Target) -> Result<Outcome> {
    let (sent, bytes) = target.offer_from(LIAR.0, 1000 * target.lasts.as_secs().max(1), signal);
    Ok(Outcome::of(format!("{sent} signals, {} MB", bytes / 1_000_000)))
}

/// Signal of one of seven kinds, by its number.
fn signal(number: u64) -> Vec<u8> {
    let mut record = Vec::new();
    put(&mut record, 4, 2);
    put(&mut record, 0, if number % 7 == 6 { REPORTING } else { CUSTODY });
    // Keys that the node does not know, without any bundle.
    let others = if number % 7 == 1 { 15_000 } else { 0 };
    put(&mut record, 5, 1 + others);
    for other in 0..others {
        put(&mut record, 0, 100 + other);
        put(&mut record, 4, 0);
    }
    // Disposition 1 is accepted, -1 is refused.
    let (major, value) = if number.is_multiple_of(2) { (0, 1) } else { (1, 0) };
    put(&mut record, major, value);
    let counters = if number % 7 == 4 { 4_000 } else { 1 };
    put(&mut record, 4, counters);
    for counter in 1..=counters {
        put(&mut record, 4, 3);
        put(&mut record, 0, counter);
        match number % 7 {
            // One run for each bundle, with a gap after it: no compression.
            2 => {
                put(&mut record, 0, number);
                put(&mut record, 4, 60_001);
                record.extend([1; 60_001]);
            }
            // A run beyond the largest sequence number.
            3 => [5, u64::MAX].iter().for_each(|value| put(&mut record, 0, *value)),
            // All sequence numbers in one run.
            _ => [0, u64::MAX].iter().for_each(|value| put(&mut record, 0, *value)),
        }
    }
    let source = if number % 7 == 5 { "ipn:2.0" } else { "ipn:66.0" };
    Bundle { source: source.into(), flags: RECORD, ..Bundle::new("ipn:1.0", number) }.with(&record)
}

fn reports(target: &Target) -> Result<Outcome> {
    let received = received_by_victim(target)?;
    let (sent, bytes) = target.offer_from(LIAR.0, 30_000, |number| {
        let mut block = Vec::new();
        put(&mut block, 4, 5);
        // Sequence number and counter far from the previous ones, so that runs cannot be joined; all reports requested.
        [number << 40, number, 0x3f].iter().for_each(|value| put(&mut block, 0, *value));
        put_endpoint(&mut block, &format!("ipn:{}.1", 1000 + number));
        // Half of the requests name an application that never asked for reports.
        let other = format!("ipn:2.{}", 1000 + number);
        put_endpoint(&mut block, if number % 2 == 0 { "ipn:2.99" } else { &other });
        let mut bundle = Bundle::new("ipn:404.1", number);
        bundle.extension = Some((REPORTING, block));
        // The lifetime ends soon: a deletion is reported, too.
        bundle.lifetime = Duration::from_secs(1);
        bundle.with(b"x")
    });
    Ok(amplified(sent, bytes, &received))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_cover_everything() {
        let bytes = signal(0);
        assert!(bytes.windows(9).any(|part| part == [0x82, 13, 0xa1, 1, 0x81, 0x83, 1, 0, 0x1b]));
        let refused = signal(3);
        assert!(refused.windows(4).any(|part| part == [13, 0xa1, 0x20, 0x81]));
        assert!((1..=4).all(|number| number == 3 || signal(number).len() > 50_000));
    }
}
