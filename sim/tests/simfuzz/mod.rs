//! Random networks with random faults, and the invariants they must keep; used by the tests on a small scale and by
//! `cargo xtask simfuzz` in full.

mod cables;
mod crowds;
pub mod draft;
mod nodes;
mod shrink;
pub mod watch;
mod ways;

use draft::Draft;
use farlink_scenario::Scenario;
use farlink_sim::World;
use std::panic::{AssertUnwindSafe, catch_unwind};
use watch::Watch;

/// Result of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Run {
    pub hops: u64,
    pub faults: u64,
    pub delivered: u64,
    /// Bundles lost where that is permitted.
    pub lost: u64,
    pub node_s: f64,
    pub trace: u64,
    /// Violated invariants.
    pub complaints: Vec<String>,
}

/// Runs a scenario and checks it.
pub fn watch(scenario: &Scenario) -> Run {
    watch_as(scenario, scenario)
}

/// Runs a scenario and checks it as if it were `as_if`: differences between them act as defects of the nodes.
pub fn watch_as(scenario: &Scenario, as_if: &Scenario) -> Run {
    let run = || {
        let world = World::new(scenario, Watch::new(as_if)).map_err(|error| error.to_string())?;
        let (outcome, mut watch) = world.run();
        watch.ended(outcome.ended);
        let mut complaints = watch.complaints;
        if outcome.stopped {
            complaints.push("it was stopped: there is no end to it, or to what is wrong".into());
        }
        let damaged = outcome.traffic.iter().filter(|traffic| traffic.damaged > 0);
        complaints.extend(damaged.map(|traffic| format!("{} of {} are damaged", traffic.damaged, traffic.name)));
        Ok::<Run, String>(Run {
            hops: watch.hops,
            lost: watch.lost,
            faults: outcome.faults,
            delivered: outcome.traffic.iter().map(|traffic| traffic.delivered).sum(),
            node_s: outcome.ended.as_secs_f64() * scenario.nodes.len() as f64,
            trace: outcome.trace,
            complaints,
        })
    };
    // A panic is a finding like any other, and must be shrunk, too.
    let ended = catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string)).unwrap_or_default();
        Err(format!("panicked: {text}"))
    });
    ended.unwrap_or_else(|complaint| Run { complaints: vec![complaint], ..Run::default() })
}

/// Runs a draft; an invalid scenario counts as a violation.
pub fn run(draft: &Draft) -> Run {
    match Scenario::parse(&draft.text()) {
        Ok(scenario) => watch(&scenario),
        Err(errors) => Run { complaints: vec![format!("no scenario: {}", errors[0])], ..Run::default() },
    }
}

/// Runs something once, or twice and compares the results.
pub fn as_often(twice: bool, run: impl Fn() -> Run) -> Run {
    let mut first = run();
    if twice && run() != first {
        first.complaints.push("the same seed gave another run".into());
    }
    first
}

fn kind(run: &Run) -> Option<String> {
    // Without times and names: a smaller network must fail with the same complaint.
    let first = run.complaints.first()?;
    let words = first.split(": ").last().unwrap_or(first);
    Some(words.chars().filter(|c| c.is_alphabetic() || *c == ' ').collect::<String>())
}

/// The smallest network that fails like this one under `run`.
pub fn shrunk(draft: Draft, run: impl Fn(&Draft) -> Run) -> Draft {
    let wanted = kind(&run(&draft));
    draft.shrunk(|less| kind(&run(less)) == wanted)
}
