//! `cargo xtask bench`: measures everything on this machine and writes the table of the README.

use crate::{Chore, tools};
use anyhow::{Result, bail};
use std::process::Command;

/// The chore.
pub const CHORE: Chore = Chore {
    name: "bench",
    usage: "[--runs N]",
    help: "Runs `farlink bench suite` and writes the table of the README.\n\
           \n\
           Builds with `--profile quick` (what `make demo` runs) first; FARLINK_BIN names a ready binary instead.",
    run,
};

fn run(arguments: &[String]) -> Result<()> {
    let mut arguments = tools::Arguments::new(arguments);
    let runs = arguments.number("--runs", 3)?;
    if let Some(extra) = arguments.rest()?.first() {
        bail!("`{extra}` is not an argument of bench");
    }
    let mut suite = Command::new(tools::farlink()?);
    suite.args(["bench", "suite", "--runs", &runs.to_string(), "--write"]).arg(tools::root().join("README.md"));
    tools::run(&mut suite)
}
