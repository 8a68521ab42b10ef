//! Random histories, run one after the other; a failing one is shrunk.

use super::history::History;
use super::ledger::Violation;

/// A history that broke a promise.
pub struct Failure {
    pub seed: u64,
    pub violation: Violation,
    /// The smallest history found that breaks it so.
    pub history: History,
}
impl Failure {
    /// The history as a command that runs it again.
    pub fn report(&self) -> String {
        let Failure { seed, violation, history } = self;
        format!("seed {seed}: {violation}\n  {history}\n  replay: cargo xtask relation --replay '{history}'")
    }
}

/// Runs the history of a seed; a failure is shrunk.
pub fn try_seed(seed: u64) -> Option<Failure> {
    try_history(seed, History::random(seed))
}

/// Runs a history of a seed; a failure is shrunk.
pub fn try_history(seed: u64, history: History) -> Option<Failure> {
    let violation = history.run().err()?;
    let history = history.shrunk(&violation);
    let violation = history.run().err().unwrap_or(violation);
    Some(Failure { seed, violation, history })
}
