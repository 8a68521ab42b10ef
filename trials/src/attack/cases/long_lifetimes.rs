//! Bundles with a lifetime of 31 years.

use super::{Case, Outcome, Target};
use crate::attack::wire::bundle::Bundle;
use anyhow::Result;
use std::time::Duration;

pub const CASE: Case = Case {
    name: "long-lifetimes",
    what: "2,700 bundles of 300 kB to nowhere that live for 31 years: three times what the store takes.",
    run,
};

fn run(target: &Target) -> Result<Outcome> {
    let payload = vec![0x55; 300_000];
    let (sent, bytes) = target.offer(2700, |number| {
        let mut bundle = Bundle::new("ipn:404.1", number);
        bundle.lifetime = Duration::from_secs(31 * 365 * 86_400);
        bundle.with(&payload)
    });
    Ok(Outcome::of(format!("{sent} bundles, {} MB", bytes / 1_000_000)))
}
