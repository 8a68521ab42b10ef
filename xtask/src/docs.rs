//! `cargo xtask docs`: writes the reference pages that are generated from code.
//!
//! Each page has a test in its crate named `reference_is_up_to_date`, which compares the page, or writes
//! it if `FARLINK_BLESS` is set; `conformance.md` belongs to the chore of that name. `make test` compares; this chore
//! writes.

use crate::{Chore, conformance, tools};
use anyhow::Result;

pub const CHORE: Chore =
    Chore { name: "docs", usage: "", help: "Writes the reference pages that are generated from code.", run: |_| run() };

/// Crates that generate reference pages.
const CRATES: [&str; 6] =
    ["farlink-scenario", "farlink-report", "farlink-node", "farlink-orbits", "farlink-campaign", "farlink-one"];

fn run() -> Result<()> {
    let mut command = tools::cargo();
    command.env("FARLINK_BLESS", "1").args(["test", "--quiet", "--lib"]);
    for name in CRATES {
        command.args(["-p", name]);
    }
    tools::run(command.arg("reference_is_up_to_date"))?;
    conformance::write(&tools::root())?;
    println!("docs/reference is up to date");
    Ok(())
}
