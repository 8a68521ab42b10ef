//! `cargo xtask simfuzz`: simulates random networks with random faults; every bundle that a node accepted must arrive,
//! once and in time. The networks and the invariants are in `sim/tests/simfuzz`; the tests run a few of them.

mod check;
mod planted;

use crate::{Chore, tools};
use anyhow::{Result, bail};
use std::path::PathBuf;
use std::process::Command;

pub use check::check;

/// The chore `cargo xtask simfuzz`.
pub const CHORE: Chore = Chore {
    name: "simfuzz",
    usage: "[--runs N] [--seed N] [--jobs N] [--throngs] [--twice] [--all] | --replay FILE [--twice] | --check | --planted [--only WORDS]",
    help: "Simulates random networks with faults: nothing kept is lost, comes twice or too late.\n\
           \n\
           Nodes restart, links fail, clocks are wrong and neighbours lie in the first minutes of each of N runs (1000, of\n\
           which one in sixteen is a crowd); afterwards all is well, and what was kept must arrive where the router sees to\n\
           that. The seeds are N (1) and those that follow. --throngs: other networks, of\n\
           nodes that are many and have much for each other. --twice: each run again, with the same trace. With the first\n\
           failure the smallest network that fails so is written to a file, and --replay runs it again; with --all the\n\
           others are run, too, and the seeds that failed are listed. Builds with `--profile quick`; FARLINK_SIMFUZZ names a ready\n\
           program. --check: what `make test` runs. --planted: defects are planted one by one, in a copy of the tree, each of\n\
           which one of the networks must find; prints the table of docs/decisions/0031-fault-injection.md.",
    run,
};

fn run(arguments: &[String]) -> Result<()> {
    match FuzzRequest::read(arguments)? {
        FuzzRequest::Check => check(),
        FuzzRequest::Planted(only) => planted::run(&only),
        FuzzRequest::Program(words) => {
            let mut command = Command::new(program()?);
            command.args(words).arg("--out").arg(tools::target().join("simfuzz"));
            if !command.status()?.success() {
                bail!("what must hold did not");
            }
            Ok(())
        }
    }
}

/// Task of the chore.
#[derive(PartialEq, Debug)]
enum FuzzRequest {
    Check,
    /// Plants defects whose name contains these words.
    Planted(String),
    /// Runs the program with these arguments.
    Program(Vec<String>),
}

impl FuzzRequest {
    /// Parses the words after the chore's name.
    ///
    /// # Errors
    /// Unknown words, or words that exclude each other.
    fn read(words: &[String]) -> Result<FuzzRequest> {
        let mut arguments = tools::Arguments::new(words);
        let wanted = if arguments.flag("--check") {
            FuzzRequest::Check
        } else if arguments.flag("--planted") {
            FuzzRequest::Planted(arguments.word("--only")?.unwrap_or("").to_string())
        } else {
            FuzzRequest::Program(of_program(&mut arguments)?)
        };
        // Words that remain belong to another task than the chosen one.
        match arguments.rest()?.first() {
            Some(extra) => bail!("`{extra}` is not an argument of simfuzz"),
            None => Ok(wanted),
        }
    }
}

/// Takes the words that are arguments of the program `simfuzz`.
fn of_program(arguments: &mut tools::Arguments<'_>) -> Result<Vec<String>> {
    let twice = arguments.flag("--twice").then(|| "--twice".to_string());
    if let Some(file) = arguments.word("--replay")? {
        return Ok(["--replay", file].map(String::from).into_iter().chain(twice).collect());
    }
    let mut words: Vec<String> = Vec::new();
    for (name, default) in [("--runs", 1000), ("--seed", 1), ("--jobs", 2)] {
        words.extend([name.to_string(), arguments.number(name, default)?.to_string()]);
    }
    let flags = ["--throngs", "--all"].into_iter().filter(|name| arguments.flag(name)).map(String::from);
    words.extend(flags);
    words.extend(twice);
    Ok(words)
}

fn program() -> Result<PathBuf> {
    if let Some(ready) = std::env::var_os("FARLINK_SIMFUZZ") {
        return Ok(ready.into());
    }
    let what = ["build", "--profile", "quick", "--package", "farlink-sim", "--example", "simfuzz"];
    tools::run(tools::cargo().args(what))?;
    Ok(tools::target().join("quick/examples/simfuzz"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<FuzzRequest> {
        let words: Vec<String> = line.split_whitespace().map(String::from).collect();
        FuzzRequest::read(&words)
    }

    #[test]
    fn meaningless_options_are_refused() {
        assert_eq!(read("--check").unwrap(), FuzzRequest::Check);
        assert_eq!(read("--planted --only custody").unwrap(), FuzzRequest::Planted("custody".into()));
        let words = |line: &str| FuzzRequest::Program(line.split(' ').map(String::from).collect());
        assert_eq!(read("--replay a.toml --twice").unwrap(), words("--replay a.toml --twice"));
        assert_eq!(read("--throngs --seed 7").unwrap(), words("--runs 1000 --seed 7 --jobs 2 --throngs"));
        for wrong in [
            "--check --runs 5",
            "--check --planted",
            "--planted --seed 3",
            "--planted custody",
            "--only custody",
            "--replay a.toml --seed 4",
            "--seed",
            "--seed x",
            "--fast",
            "7",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
