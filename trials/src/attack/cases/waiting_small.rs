//! Small waiting bundles amid junk.

use super::{Case, Outcome, Target};
use crate::attack::wire::bundle::Bundle;
use anyhow::Result;

pub const CASE: Case = Case {
    name: "waiting-small",
    what: "10,000 bundles of 1 kB to nowhere, each behind 60 kB that is no bundle: what waits must not keep the rest.",
    run,
};

fn run(target: &Target) -> Result<Outcome> {
    let junk = vec![0xff; 60_000];
    let (sent, bytes) = target.offer(20_000, |number| match number % 2 {
        0 => junk.clone(),
        _ => Bundle::new("ipn:404.1", number).with(&[0x55; 1000]),
    });
    Ok(Outcome::of(format!("{} bundles in {} MB", sent / 2, bytes / 1_000_000)))
}
