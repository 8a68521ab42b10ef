//! Bundles with endpoints never seen before.

use super::{Case, Outcome, Target};
use crate::attack::wire::bundle::Bundle;
use anyhow::Result;

pub const CASE: Case = Case {
    name: "many-endpoints",
    what: "100,000 bundles whose source, destination and report-to are new names, dtn://rN.../.",
    run,
};

fn run(target: &Target) -> Result<Outcome> {
    let (sent, _) = target.offer(100_000, |number| {
        let mut bundle = Bundle::new(&format!("dtn://r{number}d/x"), number);
        bundle.source = format!("dtn://r{number}s/x");
        bundle.report_to = format!("dtn://r{number}r/x");
        bundle.with(b"x")
    });
    Ok(Outcome::of(format!("{sent} bundles")))
}
