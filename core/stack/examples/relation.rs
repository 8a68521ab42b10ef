//! Runs histories of honest nodes and an attacker: random ones, or all histories of a small world. `cargo xtask
//! relation` builds and runs this program.

#[path = "../tests/relation/mod.rs"]
mod relation;

use relation::campaign::try_seed;
use relation::exhaust::{Bounds, Search};
use relation::forgery::Alteration;
use relation::history::{History, Setup};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};

struct Words(Vec<String>);
impl Words {
    fn has(&self, name: &str) -> bool {
        self.0.iter().any(|word| word == name)
    }
    fn value(&self, name: &str) -> Option<&String> {
        self.0.iter().position(|word| word == name).and_then(|at| self.0.get(at + 1))
    }
    fn number(&self, name: &str, default: u64) -> u64 {
        self.value(name).and_then(|text| text.parse().ok()).unwrap_or(default)
    }
}

fn main() -> ExitCode {
    let words = Words(std::env::args().skip(1).collect());
    let held = match words.value("--replay") {
        Some(history) => replay(history),
        None if words.has("--exhaustive") => exhaust(&words),
        None => random(&words),
    };
    if held { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn replay(text: &str) -> bool {
    let Some(history) = History::parse(text) else {
        eprintln!("`{text}` is not a history");
        return false;
    };
    let result = history.run();
    if let Err(violation) = &result {
        println!("{violation}");
    }
    result.is_ok()
}

fn random(words: &Words) -> bool {
    let (seed, histories) = (words.number("--seed", 0), words.number("--histories", 10_000));
    let (jobs, most) = (words.number("--jobs", 2).max(1), words.number("--failures", 1));
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
    failed == 0
}

/// Runs all histories of up to this many events, for each setup.
fn exhaust(words: &Words) -> bool {
    let small = Bounds::SMALL;
    let most = |name: &str, default: usize| words.number(name, default as u64) as usize;
    let bounds = Bounds {
        bundles: words.number("--bundles", small.bundles.into()) as u8,
        forgeries: most("--forgeries", small.forgeries),
        crashes: most("--crashes", small.crashes),
        downs: most("--downs", small.downs),
        losses: most("--losses", small.losses),
        parts: most("--parts", small.parts),
        waits: most("--waits", small.waits),
    };
    let named = |name: &str| Alteration::named(name).unwrap_or_else(|| panic!("`{name}` is not an alteration"));
    let alterations = match words.value("--alterations") {
        Some(names) => names.split(',').map(named).collect(),
        None => Alteration::ALL.to_vec(),
    };
    let setups = match words.value("--setup") {
        Some(text) => vec![History::parse(text).expect("a setup as histories begin with").setup],
        None => Setup::small().to_vec(),
    };
    let mut held = true;
    for setup in setups {
        let search = Search {
            setup,
            events: most("--events", 7),
            bounds,
            alterations: alterations.clone(),
            merge: !words.has("--unmerged"),
            jobs: most("--jobs", 2),
            all: words.has("--all"),
            progress: true,
        };
        let report = search.run();
        let begin = History { setup, steps: Vec::new() };
        println!(
            "exhaustive:{begin}: {} events: {} states, {} runs ({} merged, {} of them later) for {} histories, \
             {} outcomes, {} violations, {:.0} s; by events {:?}",
            report.states.len() - 1,
            report.all_states(),
            report.runs,
            report.merged,
            report.later,
            report.orders,
            report.outcomes.len(),
            report.violated,
            report.seconds,
            report.states,
        );
        for (history, violation) in &report.violations {
            println!("  {violation}\n  replay: cargo xtask relation --replay '{history}'");
        }
        if words.has("--outcomes") {
            report.outcomes.iter().for_each(|outcome| println!("  outcome {outcome}"));
        }
        match search.compare(&report) {
            Ok(0) => {}
            Ok(steps) => println!("  {steps} steps from pairs of histories of one state come to the same"),
            Err(why) => {
                println!("  {why}");
                held = false;
            }
        }
        held &= report.violations.is_empty();
    }
    held
}
