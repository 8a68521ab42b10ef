//! Malformed bundles.

use super::{Case, Outcome, Target};
use crate::attack::wire::bundle::Bundle;
use crate::random::Random;
use anyhow::Result;

pub const CASE: Case = Case {
    name: "malformed",
    what: "50,000 bundles each with a byte changed or its end cut off, one after the other.",
    run,
};

fn run(target: &Target) -> Result<Outcome> {
    let mut random = Random::new(4);
    let (sent, _) = target.offer(50_000, |number| {
        let mut bytes = Bundle::new("ipn:404.1", number).with(&[0x55; 200]);
        let at = random.below(bytes.len() as u64 - 1) as usize + 1;
        match random.below(3) {
            0 => bytes.truncate(at),
            // Flips hit the first 61 bytes: the headers and a little payload.
            _ => bytes[at.min(60)] ^= 1 << random.below(8),
        }
        bytes
    });
    Ok(Outcome::of(format!("{sent} bundles")))
}
