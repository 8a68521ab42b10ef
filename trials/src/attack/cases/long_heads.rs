//! Bundles that consist almost entirely of headers.

use super::{Case, Outcome, Target};
use crate::attack::wire::bundle::Bundle;
use anyhow::Result;

pub const CASE: Case = Case {
    name: "long-heads",
    what: "6,000 bundles to nowhere, each of one byte behind an unknown block of 55 kB.",
    run,
};

fn run(target: &Target) -> Result<Outcome> {
    let (sent, bytes) = target.offer(6000, |number| {
        let mut bundle = Bundle::new("ipn:404.1", number);
        bundle.extension = Some((200, vec![0x55; 55_000]));
        bundle.with(&[0x55])
    });
    Ok(Outcome::of(format!("{sent} bundles, {} MB", bytes / 1_000_000)))
}
