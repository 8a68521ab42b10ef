//! `cargo xtask bench links`: how long many hosts and links of the testbed take to come up, and how punctually their
//! links open and close.

use crate::tools;
use anyhow::{Result, bail};
use std::process::Command;

/// Builds and runs `lab/examples/many_links`.
pub fn run(arguments: &[String]) -> Result<()> {
    let mut arguments = tools::Arguments::new(arguments);
    let sizes = [("--hosts", 200), ("--links", 400), ("--changes", 1000)];
    let sizes = sizes.map(|(name, default)| arguments.number(name, default));
    if let Some(extra) = arguments.rest()?.first() {
        bail!("`{extra}` is not an argument of bench links");
    }
    let what = ["build", "--profile", "quick", "--package", "farlink-lab", "--example", "many_links"];
    tools::run(tools::cargo().args(what))?;
    let mut program = Command::new(tools::target().join("quick/examples/many_links"));
    for size in sizes {
        program.arg(size?.to_string());
    }
    tools::run(&mut program)
}
