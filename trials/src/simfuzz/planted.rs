//! Defects planted one by one in a copy of the tree, one for each invariant. Random networks must find each of them.
//! Prints the table of docs/decisions/0031-fault-injection.md.

use super::check::{forget, whole};
use crate::mutants::{self, Tree};
use crate::tools;
use anyhow::{Context, Result, bail};
use std::path::Path;
use std::process::Command;

/// Networks that run until one shows the defect.
const RUNS: &str = "100";
/// Networks that run twice where two processes must differ.
const RUNS_TWICE: u64 = 30;

/// An invariant, the mutation that breaks it, and words of the expected complaint.
struct Planted {
    holds: &'static str,
    mutant: &'static str,
    says: &'static str,
}
const fn row(holds: &'static str, mutant: &'static str, says: &'static str) -> Planted {
    Planted { holds, mutant, says }
}
/// Stands for the complaint about a defect that shows only as a difference between the traces of two processes.
const DIFFERS: &str = "another trace";

const PLANTED: &[Planted] = &[
    row("what a durable store said it keeps is there after a restart", "commit without sync", "had it no more"),
    row("the same, of what is acknowledged", "accept before the store", "had it no more"),
    row("no accepted bundle is lost", "what failed does not go again", "let go of the last copy"),
    row("no accepted bundle is lost where it is refused", "a refused bundle was confirmed", "let go of the last copy"),
    row("custody is conserved", "custody holds nothing", "let go of the last copy"),
    row("none is delivered twice", "what was delivered is not known again", "which it took at"),
    row("nor after a restart", "a delivery is not remembered", "which it took at"),
    row("none is delivered after its lifetime", "bundles live ten minutes longer", "which lived until"),
    row("nor there still", "lifetimes stand still while a node is down", "still, which lived until"),
    row("none makes more hops than it may", "hops are not counted", "hops of at most"),
    row("the urgent leave first", "urgent bundles wait like others", "waited for the same link"),
    row("none expires before its lifetime ends", "bundles live half as long", "and lives until"),
    row("none is given up for another reason", "who failed three times is given up", "up: HopLimit"),
    row("what arrives is what was sent", "pieces are cut beside their place", "are damaged"),
    row("a store keeps no more than it may", "a node has no bound", "of at most"),
    row("nor of anybody more than a quota says", "a quota counts one in two", "more than the quota"),
    row("a store has what is there, and nothing else", "one bundle in eight stays in the store", "and keeps"),
    row("what arrived is let go", "one bundle in eight stays when it has left", "which arrived"),
    row("networks drain when contacts return", "who was not reached is hardly called again", "all is well"),
    row("a run ends", "nobody waits after a refusal", "no end to it"),
    row("the same seed is the same run", "timers depend on where a link lies in memory", DIFFERS),
];

/// Plants the defects whose name contains `only`.
///
/// # Errors
/// Defects that no network shows, or that cause another complaint, and build errors.
pub fn run(only: &str) -> Result<()> {
    let root = tools::root();
    let rows: Vec<&Planted> = PLANTED.iter().filter(|row| row.mutant.contains(only)).collect();
    let tree = Tree::new(&root)?;
    println!("| what must hold | planted | seed | runs | what is said first |\n|---|---|---|---|---|");
    let mut missed = Vec::new();
    for row in rows {
        let mutant = mutants::named(row.mutant).with_context(|| format!("no mutation is called `{}`", row.mutant))?;
        let found = tree.with(mutant, |tree| find(tree, row))?;
        let Some((seed, said)) = found else {
            println!("| {} | {} | - | {RUNS} | nothing |", row.holds, row.mutant);
            missed.push(row.mutant);
            continue;
        };
        println!("| {} | {} | {seed} | {} | {said} |", row.holds, row.mutant, seed + 1);
        missed.extend((!said.contains(row.says)).then_some(row.mutant));
    }
    if missed.is_empty() { Ok(()) } else { bail!("not found by what should: {}", missed.join("; ")) }
}

/// Builds the mutated copy; returns the seed that shows the defect, and the complaint.
fn find(tree: &Tree, row: &Planted) -> Result<Option<(u64, String)>> {
    if !tree.cargo(&["build", "-p", "farlink-sim", "--example", "simfuzz"], true)? {
        bail!("`{}` does not compile", row.mutant);
    }
    let program = tree.target().join("debug/examples/simfuzz");
    if row.says == DIFFERS { differs(tree, &program) } else { complains(&program) }
}

/// First network with a complaint, and that complaint.
fn complains(program: &Path) -> Result<Option<(u64, String)>> {
    let mut command = Command::new(program);
    // One job and no shrinking: the first seed is the same on every machine.
    let output = command.args(["--seed", "0", "--runs", RUNS, "--jobs", "1", "--unshrunk"]).output()?;
    Ok(first(&String::from_utf8_lossy(&output.stdout)))
}

/// Seed and first complaint, without its time, of the first failure in a program's output.
fn first(said: &str) -> Option<(u64, String)> {
    let mut lines = said.lines().skip_while(|line| !line.starts_with("seed "));
    let seed = lines.next()?.strip_prefix("seed ")?.trim_end_matches(':').parse().ok()?;
    let complaint = lines.next()?.trim();
    Some((seed, complaint.split_once(" s: ").map_or(complaint, |(_, what)| what).to_string()))
}

/// First network whose trace differs between two processes.
fn differs(tree: &Tree, program: &Path) -> Result<Option<(u64, String)>> {
    let mut lines = Vec::new();
    for name in ["planted-1.traces", "planted-2.traces"] {
        let file = tree.target().join(name);
        forget(&file)?;
        let mut command = Command::new(program);
        command.args(["--seed", "0", "--runs", &RUNS_TWICE.to_string(), "--all", "--traces"]).arg(&file).output()?;
        let text = std::fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        lines.push(whole(&text, RUNS_TWICE).with_context(|| format!("the traces in {}", file.display()))?);
    }
    let mut pairs = lines[0].iter().zip(&lines[1]);
    let other = pairs.find(|(one, other)| one != other).and_then(|(one, _)| one.split(' ').next()?.parse().ok());
    Ok(other.map(|seed| (seed, format!("{DIFFERS} in another process"))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_and_network_mutations_match() {
        for row in PLANTED {
            assert!(mutants::named(row.mutant).is_some(), "{}", row.mutant);
        }
        let is_known = |name: &str| PLANTED.iter().any(|row| row.mutant == name);
        assert!(mutants::networks().all(is_known));
    }

    #[test]
    fn first_failure_is_parsed() {
        let said = "simfuzz: seeds from 0, 4 runs: ...\n\nseed 3:\n  12.500000 s: n1 took (1, 2) again\n  next\n";
        assert_eq!(first(said), Some((3, "n1 took (1, 2) again".into())));
        assert_eq!(first("simfuzz: seeds from 0, 300 runs, 0 violations\n"), None);
    }
}
