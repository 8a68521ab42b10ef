//! `cargo xtask relation`: runs histories of honest nodes, a relay, and an attacker who sends other bundles under their
//! bundles' identities; random histories, or all of a small world. The trial is in `core/stack/tests/relation`; the
//! tests run a few histories.

mod planted;

use crate::{Chore, tools};
use anyhow::{Result, bail};
use std::process::Command;

pub const CHORE: Chore = Chore {
    name: "relation",
    usage: "[--histories N] [--seed N] [--jobs N] [--failures N] | --exhaustive [--events N] [...] | --planted | --replay HISTORY",
    help: "Runs histories: no honest bundle is acknowledged and lost, none delivered changed.\n\
           \n\
           Two honest nodes, with a relay between them or without, and a stranger who copies, alters and precedes their\n\
           bundles; crashes, delayed commits, losses and contacts. The seeds are N (0) and the N (10000) that follow; a\n\
           campaign goes on at the next seed. The first failures (1) are shrunk and printed with the command that runs\n\
           them again. Builds with `--profile quick`.\n\
           \n\
           --exhaustive: all histories of up to N (7) events of two neighbours and two bundles; equal states are met once.\n\
           What may happen how often: --bundles (2), --forgeries (1), --crashes (1), --downs (1), --losses (1), --parts (2),\n\
           --waits (1). --alterations A,B: those forgeries alone. --setup \"nodes=2 durable=1 version=7 narrow=0 power=0\": that\n\
           world alone. --unmerged: every history is gone on from. --outcomes: what comes of them. --all: goes on after a\n\
           violation.\n\
           \n\
           --planted [--only WORDS]: defects planted one by one in a copy of the tree, which all histories of few events have\n\
           to find. Prints the table of docs/decisions/0037-random-history-tests.md.",
    run,
};

fn run(arguments: &[String]) -> Result<()> {
    let mut words = tools::Arguments::new(arguments);
    if words.flag("--planted") {
        let only = words.word("--only")?.unwrap_or("").to_string();
        nothing_else(&words.rest()?)?;
        return planted::run(&only);
    }
    // Arguments are checked before the build, which takes minutes.
    let program = of_program(&mut words)?;
    nothing_else(&words.rest()?)?;
    let what = ["build", "--profile", "quick", "--package", "farlink-stack", "--example", "relation"];
    tools::run(tools::cargo().args(what))?;
    if !Command::new(tools::target().join("quick/examples/relation")).args(program).status()?.success() {
        bail!("what must hold did not");
    }
    Ok(())
}

fn nothing_else(rest: &[&str]) -> Result<()> {
    match rest.first() {
        Some(extra) => bail!("`{extra}` is not an argument of relation"),
        None => Ok(()),
    }
}

/// Takes the words that are arguments of the program `relation`.
fn of_program(words: &mut tools::Arguments<'_>) -> Result<Vec<String>> {
    // A replayed history determines all settings, so no other argument is passed on.
    if let Some(history) = words.word("--replay")? {
        return Ok(vec!["--replay".to_string(), history.to_string()]);
    }
    let mut program = Vec::new();
    if words.flag("--exhaustive") {
        program.push("--exhaustive".to_string());
        let numbers = ["--bundles", "--forgeries", "--crashes", "--downs", "--losses", "--parts", "--waits"];
        for name in ["--events", "--jobs", "--alterations", "--setup"].into_iter().chain(numbers) {
            if let Some(value) = words.word(name)? {
                program.extend([name.to_string(), value.to_string()]);
            }
        }
        let flags = ["--unmerged", "--outcomes", "--all"].into_iter().filter(|name| words.flag(name));
        program.extend(flags.map(String::from));
        return Ok(program);
    }
    for (name, default) in [("--histories", 10_000), ("--seed", 0), ("--jobs", 2), ("--failures", 1)] {
        program.extend([name.to_string(), words.number(name, default)?.to_string()]);
    }
    Ok(program)
}
