//! Blocks that begin and never continue.

use super::{Case, Outcome, Target};
use crate::attack::wire::{datagrams, ltp, stranger};
use crate::random::Random;
use anyhow::Result;

/// Sessions opened per second: 100,000 in six seconds; 1,000,000 with `--limit-time 60`.
const PER_SECOND: f64 = 100_000.0 / 6.0;

pub const CASE: Case = Case {
    name: "ltp-opens",
    what: "First segments, 1 kB each, of LTP blocks that never go on, 17,000 a second, from ten engines.",
    run,
};

fn run(target: &Target) -> Result<Outcome> {
    let (socket, mut random) = (datagrams(stranger(1))?, Random::new(2));
    let mut sent = 0u64;
    for number in target.paced((target.lasts.as_secs_f64() * PER_SECOND) as u64) {
        let segment = ltp::data(100 + number % 10, random.next() >> 34, 0, &[0x9f; 1000]);
        sent += u64::from(socket.send_to(&segment, target.ltp).is_ok());
    }
    target.hold();
    Ok(Outcome::of(format!("{sent} sessions")))
}
