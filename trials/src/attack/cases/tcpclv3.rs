//! Peers that speak only TCPCLv3, at a layer that speaks nothing else. The honest neighbour speaks TCPCLv3, too.

use super::{Case, Outcome, Target};
use crate::attack::stage::LIAR;
use crate::attack::wire::bundle::Bundle;
use crate::attack::wire::tcpclv3::{END, KEEPALIVE, REFUSE, START, Session, ack, length, segment_head};
use crate::attack::wire::{PATIENCE, stranger};
use anyhow::Result;

/// A claimed node ID.
pub const CLAIMED: Case = Case {
    name: "tcpclv3-claimed-identity",
    what: "A stranger says in its contact header that it is the neighbour, and acknowledges every bundle it gets.",
    run: claimed,
};
/// Transfers that never end.
pub const UNFINISHED: Case = Case {
    name: "tcpclv3-unfinished",
    what: "Eight strangers say that a bundle of 1 GiB comes for an application here, and send all but its end.",
    run: unfinished,
};
/// Valid and invalid messages in quick succession.
pub const NOISE: Case = Case {
    name: "tcpclv3-noise",
    what: "A configured neighbour sends keepalives by the million, segments of nothing, and by turns refusals and \
           acknowledgments of bundles that it never got, lengths of 2^63 bytes, and halves of segments.",
    run: noise,
};

const SEGMENT: u64 = 256 << 10;
const WHOLE: u64 = 1 << 30;

fn claimed(target: &Target) -> Result<Outcome> {
    let (mut sessions, mut taken) = (0, 0);
    while !target.over() {
        if let Ok(mut session) = Session::open(stranger(1), target.old, "ipn:2.0") {
            sessions += 1;
            let _ = take(target, &mut session, &mut taken);
        }
        std::thread::sleep(PATIENCE / 10);
    }
    Ok(Outcome::of(format!("{sessions} sessions, {taken} bundles taken"))
        .unless(taken == 0, || format!("{taken} bundles for the neighbour were taken")))
}
fn take(target: &Target, session: &mut Session, taken: &mut u64) -> std::io::Result<()> {
    let mut bytes = 0;
    while !target.over() {
        let Some((flags, length)) = session.segment()? else { continue };
        bytes = if flags & START != 0 { length } else { bytes + length };
        session.acknowledge(bytes)?;
        *taken += u64::from(flags & END != 0);
    }
    Ok(())
}

fn unfinished(target: &Target) -> Result<Outcome> {
    let strangers = (1..=8u8).map(|number| {
        let target = target.clone();
        std::thread::spawn(move || one(&target, number))
    });
    let sent: u64 = strangers.collect::<Vec<_>>().into_iter().filter_map(|stranger| stranger.join().ok()).sum();
    Ok(Outcome::of(format!("{} MB sent", sent / 1_000_000)))
}
fn one(target: &Target, number: u8) -> u64 {
    let name = format!("ipn:{}.0", 66 + u64::from(number));
    let Ok(mut session) = Session::open(stranger(number), target.old, &name) else {
        target.hold();
        return 0;
    };
    let head = Bundle::new("ipn:1.77", number.into()).head(WHOLE);
    // The announced length includes the 0xff that ends the bundle.
    let whole = WHOLE + head.len() as u64 + 1;
    let first = [length(whole), segment_head(START, head.len() as u64), head].concat();
    let next = [segment_head(0, SEGMENT), vec![0x55; SEGMENT as usize]].concat();
    let mut sent = 0;
    if session.push(&first, target.end()) {
        while sent + SEGMENT < WHOLE && session.push(&next, target.end()) {
            sent += SEGMENT;
        }
    }
    target.hold();
    sent
}

fn noise(target: &Target) -> Result<Outcome> {
    let begun = segment_head(START, 10);
    let bursts: [Vec<u8>; 8] = [
        vec![KEEPALIVE; 60_000],
        // A bundle of ten bytes followed by empty segments.
        [begun.clone(), vec![0x55; 10], segment_head(0, 0).repeat(20_000)].concat(),
        vec![REFUSE; 1000],
        ack(1 << 40).repeat(1000),
        length(1 << 63),
        [length(u64::MAX), segment_head(START, u64::MAX)].concat(),
        // Empty bundles, one after the other.
        segment_head(START | END, 0).repeat(20_000),
        // A segment of ten bytes that stops after three.
        [begun, vec![0x55; 3]].concat(),
    ];
    let (mut sessions, mut bytes) = (0, 0);
    while !target.over() {
        let Ok(mut session) = Session::open(LIAR.0, target.old, "ipn:66.0") else {
            std::thread::sleep(PATIENCE / 10);
            continue;
        };
        let burst = &bursts[sessions % bursts.len()];
        sessions += 1;
        for _ in 0..20 {
            if !session.push(burst, target.end()) {
                break;
            }
            bytes += burst.len();
        }
        std::thread::sleep(PATIENCE / 100);
    }
    Ok(Outcome::of(format!("{sessions} sessions, {} MB", bytes / 1_000_000)))
}
