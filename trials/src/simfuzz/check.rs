//! The random networks of `make test`: a hundred networks, each in two processes whose traces must be equal, and
//! throngs (sparse nodes with many bundles, so that hops are cheap). Together they must reach a million hops and ten
//! thousand faults. The program is the one that the tests have built.

use crate::tools;
use anyhow::{Context, Result, bail, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Networks that run in two processes, from seed 0.
const TWICE: u64 = 100;
/// Throngs, from seed 0.
const THRONGS: u64 = 16;
/// Successful transmissions between nodes that all networks together must reach.
const HOPS_LEAST: u64 = 1_000_000;
/// Faults that all networks together must reach.
const FAULTS_LEAST: u64 = 10_000;

/// Runs all networks of `make test`.
///
/// # Errors
/// Violations, networks whose two traces differ, or too few hops or faults.
pub fn check() -> Result<()> {
    // Built with the tests: building one package alone would select other features and rebuild everything.
    tools::run(tools::cargo().args(["test", "--quiet", "--workspace", "--no-run"]))?;
    let (program, folder) = (tools::target().join("debug/examples/simfuzz"), tools::target().join("simfuzz"));
    std::fs::create_dir_all(&folder)?;
    let first = traces(&program, TWICE, &[], folder.join("first.traces"))?;
    let second = traces(&program, TWICE, &[], folder.join("second.traces"))?;
    if let Some((one, other)) = first.iter().zip(&second).find(|(one, other)| one != other) {
        bail!("two processes differ in a network (seed, trace, hops, faults): `{one}` and `{other}`");
    }
    println!("simfuzz: {} networks have the same trace in another process", first.len());
    let throngs = traces(&program, THRONGS, &["--throngs"], folder.join("throngs.traces"))?;
    let [hops, faults] = first.iter().chain(&throngs).fold([0, 0], |[hops, faults], line| {
        let [more_hops, more_faults] = counted(line);
        [hops + more_hops, faults + more_faults]
    });
    println!("simfuzz: {hops} bundle-hops and {faults} faults in all, 0 violations");
    ensure!(hops >= HOPS_LEAST, "{HOPS_LEAST} bundle-hops are wanted");
    ensure!(faults >= FAULTS_LEAST, "{FAULTS_LEAST} faults are wanted");
    Ok(())
}

/// Runs `runs` networks from seed 0; returns a line for each: seed, trace, hops, faults.
fn traces(program: &Path, runs: u64, kind: &[&str], file: PathBuf) -> Result<Vec<String>> {
    let jobs = std::thread::available_parallelism().map_or(1, usize::from).to_string();
    let mut command = Command::new(program);
    command.args(kind).args(["--seed", "0", "--runs", &runs.to_string(), "--jobs", &jobs, "--out"]);
    // Leftovers of an earlier run must not pass for results of this one.
    command.arg(tools::target().join("simfuzz")).arg("--traces").arg(&file);
    forget(&file)?;
    tools::run(&mut command).context("what must hold did not")?;
    let text = std::fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
    whole(&text, runs).with_context(|| format!("the traces in {}", file.display()))
}

/// Removes the output of an earlier run, which a program that fails would leave in place.
///
/// # Errors
/// When the file exists and cannot be removed.
pub fn forget(file: &Path) -> Result<()> {
    match std::fs::remove_file(file) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", file.display()))
        }
        _ => Ok(()),
    }
}

/// Lines of traces, one for each of `runs` seeds from 0, in order.
///
/// # Errors
/// When a seed is missing, or there are more lines.
pub fn whole(traces: &str, runs: u64) -> Result<Vec<String>> {
    let lines: Vec<String> = traces.lines().map(String::from).collect();
    let seed = |line: &String| line.split(' ').next().and_then(|word| word.parse().ok());
    let wrong = (0..runs).zip(&lines).find(|(wanted, line)| seed(line) != Some(*wanted));
    ensure!(wrong.is_none(), "the line of seed {} is missing", wrong.map_or(0, |(wanted, _)| wanted));
    ensure!(lines.len() as u64 == runs, "{} lines, of {runs} networks", lines.len());
    Ok(lines)
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
    fn hops_and_faults_are_parsed() {
        assert_eq!(counted("7 00ff00ff00ff00ff 120 9"), [120, 9]);
        assert_eq!(counted(""), [0, 0]);
    }

    #[test]
    fn each_seed_has_one_trace() {
        let line = |seed: u64| format!("{seed} 00ff 3 4\n");
        let of = |seeds: &[u64]| seeds.iter().map(|seed| line(*seed)).collect::<String>();
        assert_eq!(whole(&of(&[0, 1, 2]), 3).unwrap().len(), 3);
        for (wrong, says) in [
            (of(&[0, 1]), "2 lines, of 3"),
            (of(&[0, 2, 1]), "seed 1 is missing"),
            (of(&[0, 1, 2, 3]), "4 lines, of 3"),
            (String::new(), "0 lines, of 3"),
        ] {
            assert!(whole(&wrong, 3).unwrap_err().to_string().contains(says), "{wrong}");
        }
    }

    #[test]
    fn earlier_output_is_removed() {
        let file = std::env::temp_dir().join(format!("farlink-forget-{}", std::process::id()));
        std::fs::write(&file, "0 00ff 3 4\n").unwrap();
        forget(&file).unwrap();
        assert!(!file.exists());
        forget(&file).unwrap();
    }
}
