//! Fragments of which the rest never comes.

use super::{Case, Outcome, Target};
use crate::attack::wire::bundle::Bundle;
use anyhow::Result;

/// The case.
pub const CASE: Case = Case {
    name: "fragments",
    what: "20,000 fragments of 2 kB for an application here, each of another bundle of 1 GB that never completes.",
    run,
};

fn run(target: &Target) -> Result<Outcome> {
    let (sent, _) = target.offer(20_000, |number| {
        let mut bundle = Bundle::new("ipn:1.24", number);
        bundle.fragment = Some((number % 7 * 2000, 1_000_000_000));
        bundle.with(&[0x55; 2000])
    });
    Ok(Outcome::of(format!("{sent} fragments")))
}
