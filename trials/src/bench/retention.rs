//! `cargo xtask bench retention`: checks the testbed's retention probe against relays of known times.

use crate::tools;
use anyhow::{Result, bail};
use std::path::PathBuf;
use std::process::Command;

/// Builds and runs `lab/examples/retention`.
pub fn run(arguments: &[String]) -> Result<()> {
    let mut arguments = tools::Arguments::new(arguments);
    let only = arguments.word("--only")?.unwrap_or_default();
    if let Some(extra) = arguments.rest()?.first() {
        bail!("`{extra}` is not an argument of bench retention");
    }
    tools::run(Command::new(program()?).arg(only))
}

fn program() -> Result<PathBuf> {
    let what = ["build", "--profile", "quick", "--package", "farlink-lab", "--example", "retention"];
    tools::run(tools::cargo().args(what))?;
    Ok(tools::target().join("quick/examples/retention"))
}
