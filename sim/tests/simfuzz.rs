//! Random networks with random faults, checked against invariants; `cargo xtask simfuzz` runs many more.

#[path = "simfuzz/mod.rs"]
mod simfuzz;

use farlink_scenario::Scenario;
use simfuzz::Run;
use simfuzz::draft::Draft;
use std::sync::atomic::{AtomicU64, Ordering};

fn with_forgetting_stores(draft: &Draft) -> Run {
    // Durable stores become memory stores, which the checks do not expect.
    let parse = |text: &str| Scenario::parse(text).unwrap_or_else(|errors| panic!("{errors:#?}"));
    // Custody requires a durable store.
    let forgets = draft.text().replace("store = \"durable\"", "store = \"memory\"").replace("custody = \"ask\"", "");
    simfuzz::watch_as(&parse(&forgets), &parse(&draft.text()))
}

#[test]
fn forgetful_store_is_found_and_shrunk() {
    // Thirty seeds suffice: most networks have durable stores and restarts.
    let found = (0..30).map(Draft::of).find(|draft| {
        let run = with_forgetting_stores(draft);
        run.complaints.iter().any(|complaint| complaint.contains("had it no more as it started"))
    });
    let small = simfuzz::shrunk(found.expect("one of thirty networks shows it"), with_forgetting_stores);
    let nodes = small.nodes.iter().filter(|node| !node.is_empty()).count();
    assert!(nodes <= 3 && small.faults.len() <= 3 && small.traffic.len() == 1, "{}", small.text());
    assert!(!with_forgetting_stores(&small).complaints.is_empty() && simfuzz::run(&small).complaints.is_empty());
}

fn all(flag: &str, seeds: impl Iterator<Item = u64>, draft: impl Fn(u64) -> Draft + Sync) -> (u64, u64) {
    // Runs all seeds of a kind, given by its flag, on up to eight threads; returns hops and faults.
    let seeds: Vec<u64> = seeds.collect();
    let [next, hops, faults] = [(); 3].map(|()| AtomicU64::new(0));
    let work = || {
        while let Some(seed) = seeds.get(next.fetch_add(1, Ordering::Relaxed) as usize) {
            let run = simfuzz::run(&draft(*seed));
            let again = format!("cargo xtask simfuzz --seed {seed} --runs 1{flag}");
            assert!(run.complaints.is_empty(), "{again}\n{}", run.complaints.join("\n"));
            hops.fetch_add(run.hops, Ordering::Relaxed);
            faults.fetch_add(run.faults, Ordering::Relaxed);
        }
    };
    let jobs = std::thread::available_parallelism().map_or(1, usize::from).min(8);
    std::thread::scope(|scope| (0..jobs).for_each(|_| drop(scope.spawn(work))));
    (hops.into_inner(), faults.into_inner())
}

#[test]
fn faulty_networks_lose_nothing() {
    let (hops, faults) = all("", (0..48).filter(|seed| seed % 16 < 15), Draft::of);
    assert!(hops > 5000 && faults > 1000, "{hops} hops, {faults} faults");
}

#[test]
fn faulty_crowds_lose_nothing() {
    let (hops, faults) = all("", (0..CROWDS).map(|n| 16 * n + 15), Draft::of);
    assert!(hops > 50_000 && faults > 150, "{hops} hops, {faults} faults");
}
/// Number of crowds in the test: few, because an unoptimized build is slow. `cargo xtask simfuzz` runs more.
const CROWDS: u64 = 3;

#[test]
fn faulty_throngs_lose_nothing() {
    let (hops, faults) = all(" --throngs", [8, 15].into_iter(), Draft::throng);
    assert!(hops > 30_000 && faults > 800, "{hops} hops, {faults} faults");
}

#[test]
fn run_replays_from_seed() {
    let twice = |seed| {
        let draft = Draft::of(seed);
        assert_eq!(simfuzz::run(&draft), simfuzz::run(&draft), "seed {seed}");
        draft
    };
    all(" --twice", (100..106).chain([15]), twice);
}

#[test]
fn nondeterministic_network_is_found_and_shrunk() {
    let times = AtomicU64::new(0);
    // A run of this network differs from the one before as long as the network has a fault.
    let restless = |draft: &Draft| {
        simfuzz::as_often(true, || {
            let next = if draft.faults.is_empty() { 0 } else { times.fetch_add(1, Ordering::Relaxed) };
            Run { trace: next, ..Run::default() }
        })
    };
    let draft = (0..9).map(Draft::of).find(|draft| draft.faults.len() > 5).unwrap();
    assert_eq!(restless(&draft).complaints, ["the same seed gave another run"]);
    let small = simfuzz::shrunk(draft, restless);
    assert_eq!((small.faults.len(), small.traffic.len()), (1, 0), "{}", small.text());
}
