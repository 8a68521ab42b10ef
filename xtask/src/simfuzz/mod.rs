//! `cargo xtask simfuzz`: random networks with random faults, simulated; what a node said it keeps arrives, once and in
//! time. The networks and what must hold are in `sim/tests/simfuzz`, of which the tests run a few.

mod check;
mod planted;

use crate::{Chore, tools};
use anyhow::{Result, bail};
use std::path::PathBuf;
use std::process::Command;

pub use check::check;

/// The chore.
pub const CHORE: Chore = Chore {
    name: "simfuzz",
    usage: "[--runs N] [--seed N] [--jobs N] [--throngs] [--twice] [--all] | --replay FILE | --check | --planted [--only WORDS]",
    help: "Simulates random networks with faults: nothing kept is lost, comes twice or too late.\n\
           \n\
           Nodes restart, links fail, clocks are wrong and neighbours lie in the first minutes of each of N runs (1000, of\n\
           which one in sixteen is a crowd); afterwards all is well, and what was kept must arrive where the router sees to\n\
           that. The seeds are N (1) and those that follow. --throngs: other networks, of\n\
           nodes that are many and have much for each other. --twice: each run again, with the same trace. With the first\n\
           failure the smallest network that fails so is written to a file, and --replay runs it again; with --all the\n\
           others are run, too, and the seeds that failed are listed. Builds with `--profile quick`; FARLINK_SIMFUZZ names a ready\n\
           program. --check: what `make test` runs. --planted: defects are planted one by one, in a copy of the tree, each of\n\
           which one of the networks must find; prints the table of docs/decisions/0031-faults.md.",
    run,
};

fn run(arguments: &[String]) -> Result<()> {
    let mut arguments = tools::Arguments::new(arguments);
    if arguments.flag("--check") {
        return check();
    }
    if arguments.flag("--planted") {
        return planted::run(arguments.word("--only")?.unwrap_or(""));
    }
    let replay = arguments.word("--replay")?.map(String::from);
    let (runs, seed) = (arguments.number("--runs", 1000)?, arguments.number("--seed", 1)?);
    let jobs = arguments.number("--jobs", 2)?;
    let flags = ["--throngs", "--twice", "--all"].map(|name| arguments.flag(name).then_some(name));
    if let Some(extra) = arguments.rest()?.first() {
        bail!("`{extra}` is not an argument of simfuzz");
    }
    let mut command = Command::new(program()?);
    if let Some(file) = replay {
        command.arg("--replay").arg(file);
    } else {
        command.args(["--runs", &runs.to_string(), "--seed", &seed.to_string(), "--jobs", &jobs.to_string()]);
        command.args(flags.into_iter().flatten()).arg("--out").arg(tools::target().join("simfuzz"));
    }
    if !command.status()?.success() {
        bail!("what must hold did not");
    }
    Ok(())
}

fn program() -> Result<PathBuf> {
    if let Some(ready) = std::env::var_os("FARLINK_SIMFUZZ") {
        return Ok(ready.into());
    }
    let what = ["build", "--profile", "quick", "--package", "farlink-sim", "--example", "simfuzz"];
    tools::run(tools::cargo().args(what))?;
    Ok(tools::target().join("quick/examples/simfuzz"))
}
