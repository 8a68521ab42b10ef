//! The simulated side: every event of every node, as the real node would write it.

use farlink_base::{DtnTime, Event, EventClass, Instant};
use farlink_events::EventNames;
use farlink_scenario::Scenario;
use farlink_sim::{Observer, World};

/// Result of a simulation.
pub struct Simulated {
    /// Event lines of each node.
    pub lines: Vec<Vec<String>>,
    /// The simulator's own hash of the run.
    pub trace: u64,
}

struct Recorder {
    start_utc_ns: u64,
    names: Vec<EventNames>,
    lines: Vec<Vec<String>>,
}
impl Observer for Recorder {
    fn wants(&self, _: EventClass) -> bool {
        true
    }
    fn event(&mut self, at: Instant, node: usize, event: &Event) {
        self.lines[node].push(self.names[node].json(at, self.start_utc_ns + at.0, event));
        // A deleted bundle's identity is dropped only after its line is written.
        self.names[node].after(event);
    }
}

/// Simulates a scenario, which must have an epoch.
pub fn run(scenario: &Scenario) -> Simulated {
    let names = |index: usize| {
        let links = scenario.ends_of(index).iter().map(|end| scenario.links[end.link].name.clone()).collect();
        EventNames::new(scenario.nodes[index].ids[0].clone(), links)
    };
    let count = scenario.nodes.len();
    let start_utc_ns = scenario.epoch.map(DtnTime::as_unix_ms).expect("an epoch") * 1_000_000;
    let recorder = Recorder { start_utc_ns, names: (0..count).map(names).collect(), lines: vec![Vec::new(); count] };
    let world = World::new(scenario, recorder).unwrap_or_else(|why| panic!("{}: {why}", scenario.name));
    let (outcome, recorder) = world.run();
    Simulated { lines: recorder.lines, trace: outcome.trace }
}
