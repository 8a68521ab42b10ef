//! Rows of `cargo xtask bench sim` at small size: they run, and a seed replays them.

use farlink_scenario::Scenario;
use farlink_sim::{Outcome, Silent, World};

#[path = "../../trials/src/bench/cells.rs"]
#[allow(dead_code, reason = "marks are for the table")]
mod cells;
#[path = "../../trials/src/bench/sky.rs"]
#[allow(dead_code, reason = "marks are for the table")]
mod sky;

fn run(text: &str) -> Outcome {
    let scenario = Scenario::parse(text).unwrap_or_else(|errors| panic!("{errors:?}\n{text}"));
    let [one, other] = [(); 2].map(|()| World::new(&scenario, Silent).unwrap().run().0);
    assert_eq!(one, other, "the same seed");
    one
}
fn created(outcome: &Outcome) -> u64 {
    outcome.traffic.iter().map(|traffic| traffic.created).sum()
}

#[test]
fn walkers_meet_and_forward_bundles() {
    for cell in &cells::CELLS {
        let small = cells::Cell { nodes: 40, duration_s: 900, interval: [1.0, 30.0], range: 150, ..*cell };
        let outcome = run(&cells::scenario(&small));
        let radio = &outcome.radios[0];
        assert!(radio.contacts > 0 && radio.counted.sent > 0 && created(&outcome) > 0, "{}", cell.name);
    }
}

#[test]
fn station_flows_cross_satellites() {
    for sky in [&sky::SKIES[0], &sky::SKIES[2]] {
        let small = sky::Sky { planes: 12, per_plane: 12, duration_s: 600, flows: 20, ..*sky };
        let outcome = run(&small.scenario());
        assert_eq!(created(&outcome), 20, "{}", sky.name);
        assert!(outcome.radios.iter().all(|radio| radio.contacts > 0), "{}: {:?}", sky.name, outcome.radios);
        assert!(outcome.traffic.iter().any(|traffic| traffic.delivered > 0), "{}", sky.name);
    }
}
