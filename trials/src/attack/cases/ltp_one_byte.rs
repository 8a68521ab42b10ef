//! Blocks of which a single byte arrives.

use super::{Case, Outcome, Target};
use crate::attack::wire::{datagrams, ltp, stranger};
use crate::random::Random;
use anyhow::Result;

/// One-byte blocks with the neighbour's engine number.
pub const HONEST_ENGINE: Case = Case {
    name: "ltp-one-byte",
    what: "130,000 one-byte LTP segments of as many sessions from a wrong address, with the neighbour's engine number.",
    run: |target| run(target, |_| 3),
};
/// One-byte blocks with many engine numbers.
pub const OTHER_ENGINES: Case = Case {
    name: "ltp-one-byte-engines",
    what: "The same with 130,000 other engine numbers.",
    run: |target| run(target, |number| 1000 + number),
};

fn run(target: &Target, engine: fn(u64) -> u64) -> Result<Outcome> {
    let (socket, mut random) = (datagrams(stranger(1))?, Random::new(1));
    let mut sent = 0u64;
    for number in target.paced(130_000) {
        // Random session numbers of 30 bits: they hardly ever repeat.
        let segment = ltp::data(engine(number), random.next() >> 34, 0, b"x");
        sent += u64::from(socket.send_to(&segment, target.ltp).is_ok());
    }
    target.hold();
    Ok(Outcome::of(format!("{sent} segments")))
}
