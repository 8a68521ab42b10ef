//! `cargo xtask profile`: instructions that a node executes for each bundle that it forwards.
//!
//! It runs `core/stack/examples/relay.rs`, a node between two others in memory, under callgrind. Callgrind counts
//! instructions, which do not depend on the machine's load; system calls are not included.

use crate::{Chore, tools};
use anyhow::{Context, Result, bail};
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// The chore `cargo xtask profile`.
pub const CHORE: Chore = Chore {
    name: "profile",
    usage: "[--functions N]",
    help: "Counts the instructions for each bundle that a node passes on, by crate and function.\n\
           \n\
           Counts with callgrind where valgrind is installed; without it, only the time of a processor is shown. The\n\
           figures of docs/explanation/performance.md are made so.",
    run,
};

/// Forwarded bundles: layer, payload bytes, number.
const PATHS: [(&str, u64, u64); 3] = [("tcpclv4", 1000, 10_000), ("tcpclv4", 100_000, 500), ("ltp", 1000, 8000)];
/// Crates shown in each table.
const CRATES: usize = 12;

fn run(arguments: &[String]) -> Result<()> {
    let mut arguments = tools::Arguments::new(arguments);
    let functions = arguments.number("--functions", 25)? as usize;
    if let Some(extra) = arguments.rest()?.first() {
        bail!("`{extra}` is not an argument of profile");
    }
    let build = ["build", "--profile", "quick", "--package", "farlink-stack", "--example", "relay"];
    tools::run(tools::cargo().args(build))?;
    let (program, folder) = (tools::target().join("quick/examples/relay"), tools::target().join("profile"));
    std::fs::create_dir_all(&folder)?;
    let valgrind = Command::new("valgrind").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    let counts = valgrind.is_ok_and(|status| status.success());
    if !counts {
        eprintln!("valgrind is not installed: no instructions are counted");
    }
    for (layer, size, bundles) in PATHS {
        let [size_text, bundles_text] = [size, bundles].map(|number| number.to_string());
        let words = [layer, &size_text, &bundles_text];
        // Without callgrind the program measures processor time by itself.
        if !counts {
            print!("{}", tools::output(Command::new(&program).args(words))?);
            continue;
        }
        let file = folder.join(format!("{layer}-{size}.callgrind"));
        let mut command = Command::new("valgrind");
        // Only `relay_turn` is counted: start and end of the program are not the node's work.
        command.args(["--tool=callgrind", "--collect-atstart=no", "--toggle-collect=*relay_turn*"]);
        command.arg(format!("--callgrind-out-file={}", file.display())).arg(&program).args(words).arg("counted");
        tools::output(&mut command)?;
        print!("{}", table((layer, size, bundles), &read(&file)?, functions));
    }
    Ok(())
}

fn read(file: &Path) -> Result<BTreeMap<String, u64>> {
    let text = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
    Ok(costs(&text))
}

/// Instructions of each function itself, from a callgrind file.
fn costs(text: &str) -> BTreeMap<String, u64> {
    let (mut names, mut costs, mut current, mut called) = (HashMap::new(), BTreeMap::new(), String::new(), false);
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("fn=") {
            current = function(name, &mut names);
        } else if let Some(name) = line.strip_prefix("cfn=") {
            function(name, &mut names);
        } else if line.starts_with("calls=") {
            // The next line has the cost of the call, which is counted in the called function.
            called = true;
        } else if line.starts_with(|first: char| first.is_ascii_digit() || "+-*".contains(first))
            && !std::mem::take(&mut called)
            && let Some(cost) = line.split(' ').nth(1).and_then(|cost| cost.parse::<u64>().ok())
        {
            *costs.entry(current.clone()).or_default() += cost;
        }
    }
    costs
}
/// Resolves a callgrind name: the first use has a number and the name, later ones only the number.
fn function(said: &str, names: &mut HashMap<String, String>) -> String {
    match said.split_once(' ') {
        Some((number, name)) => {
            names.insert(number.into(), name.into());
            name.into()
        }
        None => names.get(said).cloned().unwrap_or_default(),
    }
}
/// Crate of a function; functions of the system's library have no path.
fn crate_of(name: &str) -> &str {
    let path = name.trim_start_matches(['<', '&', '[', '(']);
    path.split_once("::").map_or("libc", |(first, _)| if first == "__rustc" { "libc" } else { first })
}

fn table((layer, size, bundles): (&str, u64, u64), costs: &BTreeMap<String, u64>, functions: usize) -> String {
    let total: u64 = costs.values().sum();
    let mut crates: BTreeMap<&str, u64> = BTreeMap::new();
    costs.iter().for_each(|(name, cost)| *crates.entry(crate_of(name)).or_default() += cost);
    let mut text = format!("\n{layer}, {size} B: {} instructions for each bundle\n\n", total / bundles);
    let mut rows = |head: &str, mut all: Vec<(&str, u64)>, most: usize| {
        let _ = write!(text, "| {head} | instructions | of all |\n|---|---|---|\n");
        all.sort_by_key(|(name, cost)| (std::cmp::Reverse(*cost), *name));
        for (name, cost) in all.into_iter().take(most) {
            let part = 100.0 * cost as f64 / total.max(1) as f64;
            let _ = writeln!(text, "| {name} | {} | {part:.1} % |", cost / bundles);
        }
        text.push('\n');
    };
    rows("crate", crates.into_iter().collect(), CRATES);
    rows("function", costs.iter().map(|(name, cost)| (name.as_str(), *cost)).collect(), functions);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "events: Ir\nob=(1) relay\nfl=(1) ???\nfn=(1) farlink_bpa::agent::Agent::handle\n0 300\n\
                        cfn=(2) malloc\ncalls=3 0\n0 900\n+4 100\nfn=(2)\n7 90\n* 10\n\
                        fn=(3) <farlink_stack::edge::BpV7 as farlink_stack::edge::Codec>::read\n0 500\ntotals: 1000\n";

    #[test]
    fn self_time_excludes_callees() {
        let costs = costs(FILE);
        assert_eq!(costs["farlink_bpa::agent::Agent::handle"], 400);
        assert_eq!(costs["malloc"], 100);
        assert_eq!(costs.values().sum::<u64>(), 1000);
    }

    #[test]
    fn crates_are_sorted_by_cost() {
        assert_eq!(crate_of("<&farlink_base::payload::Payload as core::fmt::Debug>::fmt"), "farlink_base");
        assert_eq!(crate_of("__rustc::__rust_alloc"), "libc");
        let text = table(("ltp", 1000, 10), &costs(FILE), 1);
        assert!(text.contains("ltp, 1000 B: 100 instructions for each bundle"), "{text}");
        assert!(
            text.contains("| farlink_stack | 50 | 50.0 % |\n| farlink_bpa | 40 | 40.0 % |\n| libc | 10 |"),
            "{text}"
        );
        assert!(text.ends_with("Codec>::read | 50 | 50.0 % |\n\n"), "{text}");
    }
}
