//! Cost of simulations in events and samples instead of seconds, so that a slow machine fails no test; `cargo xtask
//! sim-speed` measures the time of the same scenarios in full.

mod scenarios;

use farlink_base::store::Usage;
use farlink_base::{Event, Instant};
use farlink_scenario::Scenario;
use farlink_sim::{Observer, Outcome, World};

/// Counter of events and samples.
#[derive(Default)]
struct SpeedCounts {
    received: u64,
    samples: u64,
}
impl Observer for SpeedCounts {
    fn event(&mut self, _at: Instant, _node: usize, event: &Event) {
        self.received += u64::from(matches!(event, Event::Received { .. }));
    }
    fn node_sample(&mut self, _at: Instant, node: usize, _usage: &Usage) {
        self.samples += u64::from(node == 0);
    }
}

fn run(text: &str) -> (Outcome, SpeedCounts) {
    let scenario = Scenario::parse(text).unwrap_or_else(|errors| panic!("{errors:#?}"));
    World::new(&scenario, SpeedCounts::default()).unwrap().run()
}

fn delivered(outcome: &Outcome) -> u64 {
    outcome.traffic.iter().map(|traffic| traffic.delivered).sum()
}

#[test]
fn idle_contact_costs_few_events() {
    let few = run(&scenarios::contacts(20)).0;
    let (many, seen) = run(&scenarios::contacts(60));
    assert_eq!((delivered(&few), delivered(&many)), (2, 2));
    // Each edge costs a carrier event and the alarms of both nodes.
    let each = (many.happenings - few.happenings) as f64 / 40.0;
    assert!(each <= 6.0, "{each} happenings a contact");
    assert!(seen.samples <= 1002);
}

#[test]
fn longer_run_keeps_sample_count() {
    let (short, long) = (run(&scenarios::days(2)), run(&scenarios::days(6)));
    assert_eq!((delivered(&short.0), delivered(&long.0)), (18, 60), "two come after the last pass of two days");
    assert_eq!((short.1.samples, long.1.samples), (1002, 1002), "a thousand intervals, both ends, and the end again");
}

#[test]
fn bundle_cost_is_independent_of_count() {
    let (few, many) = (run(&scenarios::paced(100)).0, run(&scenarios::paced(1000)).0);
    assert_eq!((delivered(&few), delivered(&many)), (100, 1000));
    let each = (many.happenings - few.happenings) as f64 / 900.0;
    assert!(each <= 14.0, "{each} happenings a bundle over two hops");
}

#[test]
fn waiting_sender_costs_nothing() {
    // Two bundles fill the first node's store; twelve more wait in its application.
    let (few, many) = (run(&scenarios::full(100)).0, run(&scenarios::full(1000)).0);
    assert_eq!((few.traffic[0].created, many.traffic[0].created), (2, 2));
    assert_eq!(few.traffic[0].refused, many.traffic[0].refused);
    assert!(many.happenings < few.happenings + 20, "{} and {} happenings", few.happenings, many.happenings);
}

#[test]
fn random_meetings_replay_exactly() {
    for fidelity in ["full", "message"] {
        let text = scenarios::saturated(6, 100, fidelity);
        let (first, seen) = run(&text);
        let arrived = delivered(&first);
        assert!(arrived > 3 && seen.received > 2 * arrived, "{arrived} bundles of {} copies", seen.received);
        assert_eq!(run(&text).0, first);
    }
}
