//! Random networks with random faults, built and run by `cargo xtask simfuzz`. Prints a summary; after the first
//! failure also the smallest network that fails alike, as a file, and the command that repeats it.

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

struct RunRequest {
    /// Makes the network of a seed.
    draft: fn(u64) -> Draft,
    seed: u64,
    runs: u64,
    jobs: u64,
    twice: bool,
    /// Continues after a failure and lists all failures at the end.
    all: bool,
    /// Prints the first failure without shrinking its network.
    unshrunk: bool,
    /// File for one line per seed: its trace, hops and faults.
    traces: Option<PathBuf>,
    out: PathBuf,
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let value = |name: &str| words.iter().position(|word| word == name).and_then(|at| words.get(at + 1));
    let number = |name: &str, default: u64| value(name).and_then(|text| text.parse().ok()).unwrap_or(default);
    let has = |name: &str| words.iter().any(|word| word == name);
    if let Some(file) = value("--replay") {
        return replay(Path::new(file), has("--twice"));
    }
    let wanted = RunRequest {
        draft: if has("--throngs") { Draft::throng } else { Draft::of },
        seed: number("--seed", 1),
        runs: number("--runs", 100),
        jobs: number("--jobs", 1).max(1),
        twice: has("--twice"),
        all: has("--all"),
        unshrunk: has("--unshrunk"),
        traces: value("--traces").map(PathBuf::from),
        out: value("--out").map_or_else(std::env::temp_dir, PathBuf::from),
    };
    if has("--print") {
        print!("{}", (wanted.draft)(wanted.seed).text());
        return ExitCode::SUCCESS;
    }
    fuzz(&wanted)
}

fn replay(file: &Path, twice: bool) -> ExitCode {
    let run = match Scenario::load(file) {
        Ok(scenario) => simfuzz::as_often(twice, || simfuzz::watch(&scenario)),
        Err(errors) => {
            errors.iter().for_each(|error| eprintln!("{error}"));
            return ExitCode::FAILURE;
        }
    };
    println!("{} bundle-hops, {} faults, trace {:016x}", run.hops, run.faults, run.trace);
    run.complaints.iter().for_each(|complaint| println!("  {complaint}"));
    if run.complaints.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Totals of all runs.
#[derive(Default)]
struct RunSum {
    of: Run,
    done: u64,
    failures: Vec<(u64, Vec<String>)>,
    traces: Vec<(u64, String)>,
}

impl RunSum {
    fn add(&mut self, seed: u64, run: Run) {
        let Run { hops, faults, delivered, lost, node_s, trace, complaints } = run;
        self.done += 1;
        (self.of.hops, self.of.faults) = (self.of.hops + hops, self.of.faults + faults);
        (self.of.delivered, self.of.lost) = (self.of.delivered + delivered, self.of.lost + lost);
        self.of.node_s += node_s;
        self.traces.push((seed, format!("{seed} {trace:016x} {hops} {faults}\n")));
        if !complaints.is_empty() {
            self.failures.push((seed, complaints));
        }
    }
    fn print(&self, wanted: &RunRequest, wall_s: f64) {
        let Run { hops, faults, delivered, lost, node_s, .. } = self.of;
        println!(
            "simfuzz: seeds from {}, {} runs{}: {hops} bundle-hops, {faults} faults, {delivered} bundles delivered, \
             {lost} lost where that may be, {:.2} node-years in {wall_s:.0} s ({:.0} times real time), {} violations",
            wanted.seed,
            self.done,
            if wanted.twice { ", each twice with the same trace" } else { "" },
            node_s / YEAR_S,
            node_s / wall_s,
            self.failures.len()
        );
    }
}

fn run(wanted: &RunRequest, draft: &Draft) -> Run {
    simfuzz::as_often(wanted.twice, || simfuzz::run(draft))
}

fn fuzz(wanted: &RunRequest) -> ExitCode {
    let (next, failed) = (AtomicU64::new(0), AtomicBool::new(false));
    let all = Mutex::new(RunSum::default());
    let begun = Instant::now();
    let work = || {
        // Relaxed suffices: a run begun after another's failure costs time and changes nothing.
        while !failed.load(Ordering::Relaxed) {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= wanted.runs {
                return;
            }
            let seed = wanted.seed + number;
            let run = run(wanted, &(wanted.draft)(seed));
            failed.fetch_or(!wanted.all && !run.complaints.is_empty(), Ordering::Relaxed);
            all.lock().unwrap_or_else(PoisonError::into_inner).add(seed, run);
        }
    };
    std::thread::scope(|scope| (0..wanted.jobs).for_each(|_| drop(scope.spawn(work))));
    let mut sum = all.into_inner().unwrap_or_else(PoisonError::into_inner);
    sum.print(wanted, begun.elapsed().as_secs_f64());
    sum.failures.sort();
    if wanted.all {
        sum.failures.iter().for_each(|(seed, complaints)| println!("seed {seed}: {}", complaints[0]));
    } else if let Some((seed, complaints)) = sum.failures.first() {
        tell(wanted, *seed, complaints);
    }
    let kept = keep_traces(wanted, &mut sum.traces);
    if sum.failures.is_empty() && kept { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn keep_traces(wanted: &RunRequest, traces: &mut [(u64, String)]) -> bool {
    // Threads end in any order; sorted, the traces of two runs can be compared. Returns whether the file was written.
    let Some(file) = &wanted.traces else { return true };
    traces.sort();
    let text: String = traces.iter().map(|(_, line)| line.as_str()).collect();
    let written = std::fs::write(file, text);
    written.map_err(|error| println!("{}: {error}", file.display())).is_ok()
}

fn tell(wanted: &RunRequest, seed: u64, complaints: &[String]) {
    // Shrinking keeps the first complaint only: the others may follow from it.
    println!("\nseed {seed}:");
    complaints.iter().for_each(|complaint| println!("  {complaint}"));
    if wanted.unshrunk {
        return;
    }
    let small = simfuzz::shrunk((wanted.draft)(seed), |less| run(wanted, less));
    let file = wanted.out.join(format!("simfuzz-{seed}.toml"));
    // An absolute path, so that the command works in every folder.
    let file = std::path::absolute(&file).unwrap_or(file);
    let twice = if wanted.twice { " --twice" } else { "" };
    println!("the smallest network that fails so:");
    run(wanted, &small).complaints.iter().for_each(|complaint| println!("  {complaint}"));
    match std::fs::create_dir_all(&wanted.out).and_then(|()| std::fs::write(&file, small.text())) {
        Ok(()) => println!("again with: cargo xtask simfuzz --replay {}{twice}", file.display()),
        Err(error) => println!("{}: {error}\n{}", file.display(), small.text()),
    }
}
