//! `cargo xtask sim-speed`: cost of simulations, for large versions of the scenarios in `sim/tests/speed.rs`.

#[path = "../../sim/tests/speed/scenarios.rs"]
mod scenarios;

use crate::{Chore, tools};
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The chore `cargo xtask sim-speed`.
pub const CHORE: Chore = Chore {
    name: "sim-speed",
    usage: "[--limit SECONDS]",
    help: "Simulates large scenarios; prints wall time, happenings per second and peak memory of each.\n\
           \n\
           Builds with `--profile quick` first; FARLINK_BIN names a ready binary instead. A run that takes longer\n\
           than the limit (300 s) is ended and shown as such. The wall times aimed at are those of a machine with\n\
           two free processors.",
    run,
};

/// Name and text of a scenario, and the target for its wall time, if any, s.
type SpeedRow = (&'static str, fn() -> String, Option<f64>);

const ROWS: [SpeedRow; 5] = [
    ("1,000 contacts, 2 bundles", || scenarios::contacts(1000), Some(0.1)),
    ("3 nodes, 365 days, 3,650 bundles", || scenarios::days(365), Some(2.0)),
    ("20,000 paced bundles, 2 hops", || scenarios::paced(20_000), Some(5.0)),
    ("50 nodes, epidemic, 12 h", || scenarios::saturated(50, 720, "full"), None),
    ("the same, whole bundles", || scenarios::saturated(50, 720, "message"), None),
];

/// Cost of a run.
struct SpeedOutcome {
    wall_s: f64,
    memory_bytes: u64,
    /// Whether the run ended within the limit.
    ended: bool,
}

fn run(arguments: &[String]) -> Result<()> {
    let mut arguments = tools::Arguments::new(arguments);
    let limit = Duration::from_secs(arguments.number("--limit", 300)?);
    if let Some(extra) = arguments.rest()?.first() {
        bail!("`{extra}` is not an argument of sim-speed");
    }
    let farlink = tools::farlink()?;
    let folder = tools::target().join("sim-speed");
    std::fs::create_dir_all(&folder)?;
    println!("| scenario | wall time | aimed at | happenings | per second | peak memory |\n|---|---|---|---|---|---|");
    for (number, (name, text, aim)) in ROWS.iter().enumerate() {
        let file = folder.join(format!("{number}.toml"));
        std::fs::write(&file, text())?;
        let out = folder.join(format!("{number}-run"));
        let mut command = Command::new(&farlink);
        command.arg("run").arg(&file).args(["--in", "sim", "--json", "--force", "--out"]).arg(&out);
        let outcome = watch(&mut command, limit)?;
        println!("{}", row(name, *aim, &outcome, happenings(&out)));
    }
    Ok(())
}

/// Runs a command to its end or to the limit, and watches its memory meanwhile.
fn watch(command: &mut Command, limit: Duration) -> Result<SpeedOutcome> {
    let shown = tools::shown(command);
    let mut child = command.stdout(Stdio::null()).spawn().with_context(|| format!("cannot run `{shown}`"))?;
    let (begun, mut memory_bytes) = (Instant::now(), 0);
    // Memory is read before the end is noticed: afterwards the process is gone.
    loop {
        memory_bytes = memory_bytes.max(peak_memory(&child).unwrap_or(0));
        let wall_s = begun.elapsed().as_secs_f64();
        if let Some(status) = child.try_wait()? {
            if !status.success() {
                bail!("`{shown}` failed ({status})");
            }
            return Ok(SpeedOutcome { wall_s, memory_bytes, ended: true });
        }
        if begun.elapsed() > limit {
            child.kill()?;
            child.wait()?;
            return Ok(SpeedOutcome { wall_s, memory_bytes, ended: false });
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Peak resident memory of a process so far, bytes.
fn peak_memory(child: &Child) -> Option<u64> {
    peak_of(&std::fs::read_to_string(format!("/proc/{}/status", child.id())).ok()?)
}

fn peak_of(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}

/// Number of simulation events, from the notes of a run's manifest.
fn happenings(run: &Path) -> Option<u64> {
    let path: PathBuf = run.join("manifest.json");
    let manifest: Value = serde_json::from_str(&std::fs::read_to_string(path).ok()?).ok()?;
    manifest["validity"]["notes"].as_array()?.iter().filter_map(Value::as_str).find_map(noted)
}

fn noted(note: &str) -> Option<u64> {
    let (before, _) = note.split_once(" happenings")?;
    before.rsplit(' ').next()?.parse().ok()
}

fn row(name: &str, aim: Option<f64>, outcome: &SpeedOutcome, happenings: Option<u64>) -> String {
    let happenings = happenings.filter(|_| outcome.ended);
    let count = happenings.map_or("-".into(), |count| count.to_string());
    let rate = happenings.map_or("-".into(), |count| format!("{:.0}", count as f64 / outcome.wall_s));
    let aim = aim.map_or("-".into(), |seconds| format!("{seconds} s"));
    // A run that was cut has no counts, only a lower bound of its time.
    let longer = if outcome.ended { "" } else { "> " };
    let memory = outcome.memory_bytes as f64 / 1e6;
    format!("| {name} | {longer}{:.2} s | {aim} | {count} | {rate} | {memory:.0} MB |", outcome.wall_s)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_marks_missing_measurements() {
        let ended = SpeedOutcome { wall_s: 2.0, memory_bytes: 7_000_000, ended: true };
        assert_eq!(row("x", Some(0.5), &ended, Some(1000)), "| x | 2.00 s | 0.5 s | 1000 | 500 | 7 MB |");
        let cut = SpeedOutcome { ended: false, ..ended };
        assert_eq!(row("x", None, &cut, Some(1000)), "| x | > 2.00 s | - | - | - | 7 MB |");
    }

    #[test]
    fn memory_and_events_are_parsed() {
        assert_eq!(peak_of("Name:\tx\nVmHWM:\t  1024 kB\n"), Some(1 << 20));
        assert_eq!(noted("Trace hash 00ff of 7048 happenings: the same again."), Some(7048));
        assert_eq!(noted("something else"), None);
    }
}
