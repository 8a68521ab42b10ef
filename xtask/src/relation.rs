//! `cargo xtask relation`: random histories of honest nodes, a relay and a stranger who uses their bundles' identities.
//! The trial is in `core/stack/tests/relation`, of which the tests run a few histories.

use crate::{Chore, tools};
use anyhow::{Result, bail};
use std::process::Command;

/// The chore.
pub const CHORE: Chore = Chore {
    name: "relation",
    usage: "[--histories N] [--seed N] [--jobs N] [--failures N] | --replay HISTORY",
    help: "Runs random histories: no honest bundle is acknowledged and lost, none delivered changed.\n\
           \n\
           Two honest nodes, with a relay between them or without, and a stranger who copies, alters and precedes their\n\
           bundles; crashes, delayed commits, losses and contacts. The seeds are N (0) and the N (10000) that follow; a\n\
           campaign goes on at the next seed. The first failures (1) are shrunk and printed with the command that runs\n\
           them again. Builds with `--profile quick`.",
    run,
};

fn run(arguments: &[String]) -> Result<()> {
    let mut words = tools::Arguments::new(arguments);
    let mut program = match words.word("--replay")? {
        Some(history) => vec!["--replay".to_string(), history.to_string()],
        None => Vec::new(),
    };
    if program.is_empty() {
        for (name, default) in [("--histories", 10_000), ("--seed", 0), ("--jobs", 2), ("--failures", 1)] {
            program.extend([name.to_string(), words.number(name, default)?.to_string()]);
        }
    }
    if let Some(extra) = words.rest()?.first() {
        bail!("`{extra}` is not an argument of relation");
    }
    let what = ["build", "--profile", "quick", "--package", "farlink-stack", "--example", "relation"];
    tools::run(tools::cargo().args(what))?;
    if !Command::new(tools::target().join("quick/examples/relation")).args(program).status()?.success() {
        bail!("what must hold did not");
    }
    Ok(())
}
