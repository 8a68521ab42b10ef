//! Defects planted one by one in a copy of the tree; all histories of a few events must find each of them. Prints the
//! table of docs/decisions/0037-random-history-tests.md.

use crate::tools;
use anyhow::{Context, Result, bail};
use farlink_trials::mutants::{self, Tree};
use std::process::Command;

/// World of two neighbours with stores in memory.
const MEMORY: &str = "nodes=2 durable=0 version=7 narrow=0 power=0";
// Stores on disk.
const DURABLE: &str = "nodes=2 durable=1 version=7 narrow=0 power=0";
// Stores on disk, where a crash is a power cut.
const POWER: &str = "nodes=2 durable=1 version=7 narrow=0 power=1";
// A link that cuts bundles into fragments.
const NARROW: &str = "nodes=2 durable=0 version=7 narrow=1 power=0";
/// Most events of a history.
const EVENTS: &str = "5";

/// Mutations, each with a world in which it shows.
const PLANTED: &[(&str, &str)] = &[
    ("an identity alone is a bundle that is held", DURABLE),
    ("an identity alone is a bundle that was delivered", MEMORY),
    ("payloads are not compared", DURABLE),
    ("a stranger's bundle displaces one that somebody vouches for", DURABLE),
    ("a stranger's bundle stays where one comes that somebody vouches for", DURABLE),
    ("a stranger's fragments are joined with others", NARROW),
    ("what begins to arrive is not compared with what is here", MEMORY),
    ("what begins to arrive is not compared with what was delivered", MEMORY),
    ("accept before the store", DURABLE),
    ("commit without sync", POWER),
    ("acknowledge before the sync", POWER),
];

/// Plants the defects whose name contains `only`.
///
/// # Errors
/// Defects that no history shows, and build errors.
pub fn run(only: &str) -> Result<()> {
    let tree = Tree::new(&tools::root())?;
    let mut missed = Vec::new();
    println!("| planted | found | shortest history |\n|---|---|---|");
    for (name, world) in PLANTED.iter().filter(|(name, _)| name.contains(only)) {
        let mutant = mutants::named(name).with_context(|| format!("no mutation is called `{name}`"))?;
        let found = tree.with(mutant, |tree| find(tree, name, world))?;
        match found {
            Some((said, history)) => println!("| {name} | {said} | `{history}` |"),
            None => {
                println!("| {name} | nothing | |");
                missed.push(*name);
            }
        }
    }
    if missed.is_empty() { Ok(()) } else { bail!("not found: {}", missed.join("; ")) }
}

/// Builds the mutated copy; returns the violation and the history that causes it.
fn find(tree: &Tree, name: &str, world: &str) -> Result<Option<(String, String)>> {
    // The exhaustive run takes longer than the build, so optimizing pays.
    let quicker = ["--config", "profile.dev.opt-level=1", "--config", "profile.dev.debug=0"];
    let build = [&["build", "-p", "farlink-stack", "--example", "relation"][..], &quicker].concat();
    if !tree.cargo(&build, true)? {
        bail!("`{name}` does not compile");
    }
    let mut command = Command::new(tree.target().join("debug/examples/relation"));
    command.args(["--exhaustive", "--events", EVENTS, "--setup", world]);
    if world == POWER {
        command.args(["--parts", "2"]);
    }
    let output = command.output()?;
    Ok(first(&String::from_utf8_lossy(&output.stdout)))
}

/// First violation in the program's output, with its history.
fn first(said: &str) -> Option<(String, String)> {
    let lines: Vec<&str> = said.lines().collect();
    let at = lines.iter().position(|line| line.trim_start().starts_with("replay: "))?;
    // The violation stands on the line before its history.
    let history = lines[at].split('\'').nth(1)?;
    Some((lines[at.checked_sub(1)?].trim().to_string(), history.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_and_mutations_of_identity_match() {
        for (name, _) in PLANTED {
            assert!(mutants::named(name).is_some(), "{name}");
        }
        assert!(mutants::of_identity().all(|name| PLANTED.iter().any(|(row, _)| *row == name)));
    }

    #[test]
    fn first_violation_is_parsed() {
        let said = "exhaustive: nodes=2: 3 events\n  bundle 0 is lost\n  replay: cargo xtask relation --replay 'nodes=2 send:0'\n";
        assert_eq!(first(said), Some(("bundle 0 is lost".into(), "nodes=2 send:0".into())));
        assert_eq!(first("exhaustive: nodes=2: 3 events, 0 violations\n"), None);
    }
}
