//! Datagrams that are not LTP segments.

use super::{Case, Outcome, Target};
use crate::attack::wire::{datagrams, stranger};
use crate::random::Random;
use anyhow::Result;

pub const CASE: Case = Case {
    name: "datagram-garbage",
    what: "11.5 MB of datagrams that are no LTP, from twenty addresses (see what is logged).",
    run,
};

fn run(target: &Target) -> Result<Outcome> {
    let sockets = (1..=20).map(|number| datagrams(stranger(number))).collect::<Result<Vec<_>, _>>()?;
    let mut random = Random::new(3);
    let mut sent = 0u64;
    for number in target.paced(115_000) {
        let mut datagram: Vec<u8> = (0..13).flat_map(|_| random.next().to_le_bytes()).collect();
        // Segment type 5 is undefined (RFC 5326 section 3.1.1), so every datagram is malformed.
        datagram[0] = 5;
        sent += sockets[number as usize % 20].send_to(&datagram[..100], target.ltp).unwrap_or(0) as u64;
    }
    target.hold();
    Ok(Outcome::of(format!("{:.1} MB", sent as f64 / 1e6)))
}
