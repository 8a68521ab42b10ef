//! Random networks with random faults keep what must hold; `cargo xtask simfuzz` runs many more.

#[path = "simfuzz/mod.rs"]
mod simfuzz;

use farlink_scenario::Scenario;
use simfuzz::Run;
use simfuzz::draft::Draft;

/// Runs a network whose durable stores forget everything, as nobody expects.
fn with_forgetting_stores(draft: &Draft) -> Run {
    let parse = |text: &str| Scenario::parse(text).unwrap_or_else(|errors| panic!("{errors:#?}"));
    let forgets = draft.text().replace("store = \"durable\"", "store = \"memory\"");
    simfuzz::watch_as(&parse(&forgets), &parse(&draft.text()))
}

#[test]
fn stores_that_forget_are_found_and_the_network_that_shows_it_is_small() {
    let found = (0..30).map(Draft::of).find(|draft| {
        let run = with_forgetting_stores(draft);
        run.complaints.iter().any(|complaint| complaint.contains("had it no more as it started"))
    });
    let small = simfuzz::shrunk(found.expect("one of thirty networks shows it"), with_forgetting_stores);
    let nodes = small.nodes.iter().filter(|node| !node.is_empty()).count();
    assert!(nodes <= 3 && small.faults.len() <= 3 && small.traffic.len() == 1, "{}", small.text());
    assert!(!with_forgetting_stores(&small).complaints.is_empty() && simfuzz::run(&small).complaints.is_empty());
}

#[test]
fn random_networks_with_faults_lose_nothing() {
    let (mut hops, mut faults) = (0, 0);
    for seed in 0..30 {
        let draft = Draft::of(seed);
        let run = simfuzz::run(&draft);
        assert!(run.complaints.is_empty(), "cargo xtask simfuzz --seed {seed} --runs 1\n{}", run.complaints.join("\n"));
        (hops, faults) = (hops + run.hops, faults + run.faults);
    }
    assert!(hops > 2000 && faults > 600, "{hops} hops, {faults} faults");
}

#[test]
fn the_same_seed_is_the_same_run() {
    for seed in 100..105 {
        let draft = Draft::of(seed);
        assert_eq!(simfuzz::run(&draft), simfuzz::run(&draft), "seed {seed}");
    }
}
