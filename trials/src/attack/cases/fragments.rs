//! Fragments whose other parts never arrive.

use super::{Case, Outcome, Target};
use crate::attack::wire::bundle::Bundle;
use anyhow::Result;

pub const CASE: Case = Case {
    name: "fragments",
    what: "20,000 fragments of 40 kB for an application here, each of another bundle of 1 GB that never completes.",
    run,
};

fn run(target: &Target) -> Result<Outcome> {
    let payload = vec![0x55; 40_000];
    let (sent, bytes) = target.offer(20_000, |number| {
        let mut bundle = Bundle::new("ipn:1.24", number);
        bundle.fragment = Some((number % 7 * 40_000, 1_000_000_000));
        bundle.with(&payload)
    });
    Ok(Outcome::of(format!("{sent} fragments, {} MB", bytes / 1_000_000)))
}
