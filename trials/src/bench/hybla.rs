//! `cargo xtask bench hybla`: plain flows of each TCP through a long link with losses, in the testbed and in
//! simulation.

use crate::tools;
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// Congestion controls by the words of scenarios; the last is compared with the first.
const CONTROLS: [&str; 3] = ["newreno", "cubic", "hybla"];
/// Least ratio of the bytes received with Hybla to those with NewReno.
const LEAST: f64 = 5.0;

/// Runs all flows and prints the rate of each.
pub fn run(arguments: &[String]) -> Result<()> {
    let mut arguments = tools::Arguments::new(arguments);
    let runs = arguments.number("--runs", 3)?;
    let seconds = arguments.number("--seconds", 25)?;
    if let Some(extra) = arguments.rest()?.first() {
        bail!("`{extra}` is not an argument of bench hybla");
    }
    let farlink = std::path::absolute(tools::farlink()?)?;
    let doctor = |what: &str| Command::new(&farlink).args(["doctor", what, "hybla"]).output();
    let installed = doctor("--install")?;
    let told = String::from_utf8_lossy(&installed.stdout).trim().to_string();
    if !installed.status.success() {
        bail!("{}", String::from_utf8_lossy(&installed.stderr).trim());
    }
    println!("{told}\n");
    let result = measure(&farlink, runs, seconds);
    // Only an object that this run registered is removed: one registered before may be in use.
    if told.contains("is registered as") {
        doctor("--remove")?;
    }
    result
}

fn measure(farlink: &Path, runs: u64, seconds: u64) -> Result<()> {
    println!("| world | control | kbit/s, each run | sent again | to Reno |\n|---|---|---|---|---|");
    let mut least = f64::MAX;
    for world in ["lab", "sim"] {
        let mut reno = 0.0;
        for control in CONTROLS {
            let (mut rates, mut again, mut name) = (Vec::new(), 0, String::new());
            for seed in 1..=runs {
                let flow = flow(farlink, world, control, seed, seconds)?;
                rates.push(flow["received_bytes"].as_f64().unwrap_or(0.0) * 8.0 / seconds as f64 / 1e3);
                again += flow["retransmitted"].as_u64().unwrap_or(0);
                name = flow["congestion"].as_str().unwrap_or_default().to_string();
            }
            let mean = rates.iter().sum::<f64>() / rates.len().max(1) as f64;
            if control == CONTROLS[0] {
                reno = mean;
            }
            let ratio = mean / f64::max(reno, 1e-9);
            if control == CONTROLS[2] {
                least = least.min(ratio);
            }
            let rates: Vec<String> = rates.iter().map(|rate| format!("{rate:.0}")).collect();
            println!("| {world} | {name} | {} | {again} | {ratio:.1} |", rates.join(", "));
        }
    }
    println!("\n10 Mbit/s, 600 ms round trip, 1 % of packets lost, {seconds} s, seeds 1 to {runs}.");
    println!("Hybla carried at least {least:.1} times what Reno did; {LEAST} are wanted.");
    if least < LEAST {
        bail!("Hybla carried {least:.1} times what Reno did, not {LEAST}");
    }
    Ok(())
}

/// Result of the flow, from the run's manifest.
fn flow(farlink: &Path, world: &str, control: &str, seed: u64, seconds: u64) -> Result<Value> {
    let folder = tempfile::tempdir()?;
    let text = format!(
        "name = \"hybla\"\nseed = {seed}\nduration = \"{seconds} s\"\n[node_defaults]\ntcp = {{ congestion = \"{control}\" }}\n\
         [[node]]\nname = \"a\"\nid = \"ipn:1.0\"\n[[node]]\nname = \"b\"\nid = \"ipn:2.0\"\n\
         [[link]]\nname = \"geo\"\nbetween = [\"a\", \"b\"]\nlayer = \"ltp\"\nrate = \"10 Mbit/s\"\ndelay = \"300 ms\"\n\
         loss = \"1 %\"\n[[flow]]\nname = \"bulk\"\nfrom = \"a\"\nto = \"b\"\n"
    );
    std::fs::write(folder.path().join("scenario.toml"), text)?;
    let mut command = Command::new(farlink);
    command.current_dir(folder.path()).args(["run", "scenario.toml", "--in", world, "--out", "run"]);
    let output = command.output()?;
    if !output.status.success() {
        bail!("`{}` failed: {}", tools::shown(&command), String::from_utf8_lossy(&output.stderr));
    }
    let manifest: Value = serde_json::from_str(&std::fs::read_to_string(folder.path().join("run/manifest.json"))?)?;
    let flow = manifest["flows"].get(0).context("the manifest has no flow")?;
    match flow["failure"].as_str() {
        Some(failure) => bail!("{failure}"),
        None => Ok(flow.clone()),
    }
}
