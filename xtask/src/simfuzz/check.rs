//! What `make test` runs of random networks: a hundred twice, in two processes, with the same traces; and throngs, whose
//! hops cost little, until there are a million hops and ten thousand faults. The program is the one the tests have built.

use crate::tools;
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Networks that are run in two processes.
const TWICE: &[&str] = &["--seed", "0", "--runs", "100"];
/// Networks for the number.
const THRONGS: &[&str] = &["--throngs", "--seed", "0", "--runs", "16"];
/// Transmissions of a bundle from node to node that arrived, of all networks; each counts once.
const HOPS_LEAST: u64 = 1_000_000;
/// Faults that came to pass.
const FAULTS_LEAST: u64 = 10_000;

/// Runs them.
///
/// # Errors
/// What did not hold, networks whose two traces differ, or too little of what was wanted.
pub fn check() -> Result<()> {
    // As the tests build it: for one package alone other features would be chosen, and all of it built again.
    tools::run(tools::cargo().args(["build", "--quiet", "--workspace", "--example", "simfuzz"]))?;
    let (program, folder) = (tools::target().join("debug/examples/simfuzz"), tools::target().join("simfuzz"));
    std::fs::create_dir_all(&folder)?;
    let first = traces(&program, TWICE, folder.join("first.traces"))?;
    let second = traces(&program, TWICE, folder.join("second.traces"))?;
    let same = first.iter().filter(|line| second.contains(line)).count();
    println!("simfuzz: {same} of {} networks have the same trace in another process", first.len());
    let other = first.iter().find(|line| !second.contains(line));
    ensure!(other.is_none() && same == second.len(), "two runs of a seed differ; first: {other:?}");
    let throngs = traces(&program, THRONGS, folder.join("throngs.traces"))?;
    let [hops, faults] = first.iter().chain(&throngs).fold([0, 0], |[hops, faults], line| {
        let [more_hops, more_faults] = counted(line);
        [hops + more_hops, faults + more_faults]
    });
    println!("simfuzz: {hops} bundle-hops and {faults} faults in all, 0 violations");
    ensure!(hops >= HOPS_LEAST, "{HOPS_LEAST} bundle-hops are wanted");
    ensure!(faults >= FAULTS_LEAST, "{FAULTS_LEAST} faults are wanted");
    Ok(())
}

/// A line of each network: seed, trace, hops, faults.
fn traces(program: &Path, networks: &[&str], file: PathBuf) -> Result<Vec<String>> {
    let jobs = std::thread::available_parallelism().map_or(1, usize::from).to_string();
    let mut command = Command::new(program);
    command.args(networks).args(["--jobs", &jobs, "--out"]).arg(tools::target().join("simfuzz"));
    tools::run(command.arg("--traces").arg(&file)).context("what must hold did not")?;
    let text = std::fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
    Ok(text.lines().map(String::from).collect())
}

/// Hops and faults of a line.
fn counted(line: &str) -> [u64; 2] {
    let mut words = line.split(' ').skip(2).map(|word| word.parse().unwrap_or(0));
    [(); 2].map(|()| words.next().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hops_and_faults_stand_behind_seed_and_trace() {
        assert_eq!(counted("7 00ff00ff00ff00ff 120 9"), [120, 9]);
        assert_eq!(counted(""), [0, 0]);
    }
}
