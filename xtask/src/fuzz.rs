//! `cargo xtask fuzz`: libFuzzer over the parsers, on the stable toolchain.
//!
//! Targets are the binaries of `tests/fuzz` (a workspace of its own). New inputs are kept under `target/fuzz/corpus`;
//! inputs worth keeping are copied to `tests/fuzz/corpus/<target>`, which the ordinary tests replay.

use crate::{Chore, tools};
use anyhow::{Context, Result, bail, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;

pub const CHORE: Chore = Chore {
    name: "fuzz",
    usage: "[TARGET...] [--seconds N]",
    help: "Fuzzes every parser, or those named, for N seconds each (60).",
    run,
};

/// Coverage feedback for libFuzzer from the stable compiler. A single codegen unit, since the counters of several would
/// not be joined.
const FLAGS: &str = "--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1 -Cdebug-assertions -Coverflow-checks";
const INPUT_MAX: u32 = 65_536;
/// Time after which an input counts as hanging, s. libFuzzer reads the wall clock, so a busy machine makes shorter
/// limits unreliable; the targets check those by processor time.
const HANG_S: u32 = 60;
/// Memory limit of a target, MiB: no parser may exceed it.
const MEMORY_MAX: u32 = 512;

fn run(arguments: &[String]) -> Result<()> {
    let mut arguments = tools::Arguments::new(arguments);
    let seconds = arguments.number("--seconds", 60)?;
    let wanted = arguments.rest()?;
    let folder = tools::root().join("tests/fuzz");
    let known = targets(&folder)?;
    for name in &wanted {
        ensure!(known.iter().any(|target| target == name), "`{name}` is not a target; there are: {}", known.join(", "));
    }
    let chosen: Vec<&String> = known.iter().filter(|t| wanted.is_empty() || wanted.contains(&t.as_str())).collect();
    let binaries = build(&folder)?;
    // A finding in one target does not stop the others.
    let mut failed = Vec::new();
    for (number, target) in chosen.iter().enumerate() {
        println!("\n== {}/{} {target}: {seconds} s", number + 1, chosen.len());
        if let Err(error) = fuzz(&folder, &binaries, target, seconds) {
            println!("{error:#}");
            failed.push(target.as_str());
        }
    }
    if failed.is_empty() {
        println!("\nfuzz: {} targets, {seconds} s each, nothing found", chosen.len());
        return Ok(());
    }
    bail!("found something in: {}; the inputs are in tests/fuzz/artifacts", failed.join(", "))
}

/// Names of the binaries of the fuzz workspace.
fn targets(folder: &Path) -> Result<Vec<String>> {
    let metadata = tools::metadata(folder).context("tests/fuzz has no workspace")?;
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let targets = packages.flat_map(|package| package["targets"].as_array().into_iter().flatten());
    let is_binary = |target: &&serde_json::Value| target["kind"][0].as_str() == Some("bin");
    let names = targets.filter(is_binary).filter_map(|target| target["name"].as_str().map(String::from));
    Ok(names.collect())
}

/// Builds all targets; returns their folder.
fn build(folder: &Path) -> Result<PathBuf> {
    let version = tools::output(Command::new("rustc").current_dir(tools::root()).arg("-vV"))?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: ")).context("rustc names no host")?;
    let output = tools::root().join("target/fuzz/build");
    let mut command = tools::cargo();
    // With --target, the flags apply to the targets and not to build scripts.
    command.current_dir(folder).args(["build", "--release", "--bins", "--target", host]);
    command.env("RUSTFLAGS", FLAGS).env("CARGO_TARGET_DIR", &output);
    tools::run(&mut command).context("hint: libFuzzer is C++; `scripts/bootstrap` installs a compiler")?;
    Ok(output.join(host).join("release"))
}

fn fuzz(folder: &Path, binaries: &Path, target: &str, seconds: u64) -> Result<()> {
    let found = tools::root().join("target/fuzz/corpus").join(target);
    let kept = folder.join("corpus").join(target);
    let artifacts = folder.join("artifacts").join(target);
    for path in [&found, &artifacts] {
        std::fs::create_dir_all(path)?;
    }
    let mut command = Command::new(binaries.join(target));
    // The first corpus folder receives new inputs, the second one is only read.
    command.current_dir(folder).arg(&found);
    if kept.is_dir() {
        command.arg(&kept);
    }
    command.args([
        format!("-max_total_time={seconds}"),
        format!("-max_len={INPUT_MAX}"),
        format!("-rss_limit_mb={MEMORY_MAX}"),
        format!("-timeout={HANG_S}"),
        "-print_final_stats=1".into(),
        format!("-artifact_prefix={}/", artifacts.display()),
    ]);
    tools::run(&mut command)
}
