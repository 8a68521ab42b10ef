//! Random histories of honest nodes and a stranger: `cargo xtask relation` builds and runs it.

#[path = "../tests/relation/mod.rs"]
mod relation;

use relation::campaign::try_seed;
use relation::history::History;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let value = |name: &str| words.iter().position(|word| word == name).and_then(|at| words.get(at + 1));
    let number = |name: &str, default: u64| value(name).and_then(|text| text.parse().ok()).unwrap_or(default);
    if let Some(text) = value("--replay") {
        let Some(history) = History::parse(text) else {
            eprintln!("`{text}` is not a history");
            return ExitCode::FAILURE;
        };
        return match history.run() {
            Ok(()) => ExitCode::SUCCESS,
            Err(violation) => {
                println!("{violation}");
                ExitCode::FAILURE
            }
        };
    }
    let (seed, histories) = (number("--seed", 0), number("--histories", 10_000));
    let (jobs, most) = (number("--jobs", 2).max(1), number("--failures", 1));
    let (next, failed) = (AtomicU64::new(seed), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                loop {
                    let seed_of_run = next.fetch_add(1, Ordering::Relaxed);
                    if seed_of_run >= seed + histories || failed.load(Ordering::Relaxed) >= most {
                        return;
                    }
                    if let Some(failure) = try_seed(seed_of_run) {
                        failed.fetch_add(1, Ordering::Relaxed);
                        println!("{}", failure.report());
                    }
                }
            });
        }
    });
    let failed = failed.into_inner();
    let run = next.into_inner().min(seed + histories) - seed;
    println!("relation: {run} histories from seed {seed}, {failed} violations");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
