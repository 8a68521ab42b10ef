//! Random networks with random faults: `cargo xtask simfuzz` builds and runs it. Prints what it did; with the first
//! failure the smallest network that fails so, as a file, and the command that runs it again.

#[path = "../tests/simfuzz/mod.rs"]
mod simfuzz;

use farlink_scenario::Scenario;
use simfuzz::Run;
use simfuzz::draft::Draft;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

const YEAR_S: f64 = 365.25 * 86_400.0;

struct Wanted {
    seed: u64,
    runs: u64,
    jobs: u64,
    twice: bool,
    /// Goes on after a failure, and tells of all in the end.
    all: bool,
    out: PathBuf,
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let value = |name: &str| words.iter().position(|word| word == name).and_then(|at| words.get(at + 1));
    let number = |name: &str, default: u64| value(name).and_then(|text| text.parse().ok()).unwrap_or(default);
    if let Some(file) = value("--replay") {
        return replay(Path::new(file));
    }
    let wanted = Wanted {
        seed: number("--seed", 1),
        runs: number("--runs", 100),
        jobs: number("--jobs", 1).max(1),
        twice: words.iter().any(|word| word == "--twice"),
        all: words.iter().any(|word| word == "--all"),
        out: value("--out").map_or_else(std::env::temp_dir, PathBuf::from),
    };
    if words.iter().any(|word| word == "--print") {
        print!("{}", Draft::of(wanted.seed).text());
        return ExitCode::SUCCESS;
    }
    fuzz(&wanted)
}

fn replay(file: &Path) -> ExitCode {
    let run = match Scenario::load(file) {
        Ok(scenario) => simfuzz::watch(&scenario),
        Err(errors) => {
            errors.iter().for_each(|error| eprintln!("{error}"));
            return ExitCode::FAILURE;
        }
    };
    println!("{} bundle-hops, {} faults, trace {:016x}", run.hops, run.faults, run.trace);
    run.complaints.iter().for_each(|complaint| println!("  {complaint}"));
    if run.complaints.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn fuzz(wanted: &Wanted) -> ExitCode {
    let (next, failed) = (AtomicU64::new(0), AtomicBool::new(false));
    let all = Mutex::new((Run::default(), Vec::new()));
    let begun = Instant::now();
    let work = || {
        while !failed.load(Ordering::Relaxed) {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= wanted.runs {
                return;
            }
            let seed = wanted.seed + number;
            let draft = Draft::of(seed);
            let mut run = simfuzz::run(&draft);
            if wanted.twice && simfuzz::run(&draft) != run {
                run.complaints.push("the same seed gave another run".into());
            }
            let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
            let (sum, failures) = &mut *all;
            (sum.hops, sum.faults) = (sum.hops + run.hops, sum.faults + run.faults);
            sum.lost += run.lost;
            (sum.delivered, sum.node_s) = (sum.delivered + run.delivered, sum.node_s + run.node_s);
            if !run.complaints.is_empty() {
                failures.push((seed, run.complaints));
                failed.store(!wanted.all, Ordering::Relaxed);
            }
        }
    };
    std::thread::scope(|scope| (0..wanted.jobs).for_each(|_| drop(scope.spawn(work))));
    let (sum, mut failures) = all.into_inner().unwrap_or_else(PoisonError::into_inner);
    let (wall_s, done) = (begun.elapsed().as_secs_f64(), next.load(Ordering::Relaxed).min(wanted.runs));
    println!(
        "simfuzz: seeds from {}, {done} runs{}: {} bundle-hops, {} faults, {} bundles delivered, {} lost where that may be, \
         {:.2} node-years in {wall_s:.0} s \
         ({:.0} times real time), {} violations",
        wanted.seed,
        if wanted.twice { ", each twice with the same trace" } else { "" },
        sum.hops,
        sum.faults,
        sum.delivered,
        sum.lost,
        sum.node_s / YEAR_S,
        sum.node_s / wall_s,
        failures.len()
    );
    failures.sort();
    if wanted.all {
        failures.iter().for_each(|(seed, complaints)| println!("seed {seed}: {}", complaints[0]));
        return if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    match failures.into_iter().next() {
        None => ExitCode::SUCCESS,
        Some((seed, complaints)) => {
            tell(wanted, seed, &complaints);
            ExitCode::FAILURE
        }
    }
}

/// What did not hold with a seed, and the smallest network of which that is true.
fn tell(wanted: &Wanted, seed: u64, complaints: &[String]) {
    println!("\nseed {seed}:");
    complaints.iter().for_each(|complaint| println!("  {complaint}"));
    let small = simfuzz::shrunk(Draft::of(seed), simfuzz::run);
    let file = wanted.out.join(format!("simfuzz-{seed}.toml"));
    println!("the smallest network that fails so:");
    simfuzz::run(&small).complaints.iter().for_each(|complaint| println!("  {complaint}"));
    match std::fs::create_dir_all(&wanted.out).and_then(|()| std::fs::write(&file, small.text())) {
        Ok(()) => println!("again with: cargo xtask simfuzz --replay {}", file.display()),
        Err(error) => println!("{}: {error}\n{}", file.display(), small.text()),
    }
}
