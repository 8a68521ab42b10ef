//! What a policy written in Python answers.

use crate::errors::mistake;
use farlink_base::Instant;
use farlink_book as book;
use farlink_book::{Held, LabelSplit};
use pyo3::prelude::*;

/// A moment, in seconds from the start of the run.
///
/// # Errors
/// What is no moment.
pub fn instant(seconds: f64) -> PyResult<Instant> {
    if !seconds.is_finite() || seconds < 0.0 {
        return Err(mistake(format!("{seconds} is no moment\nhint: give seconds from the start of the run")));
    }
    // Rounded: what was a moment of the engine and came back as seconds is the same moment.
    Ok(Instant((seconds * 1e9).round() as u64))
}

/// A moment to come; at one that is over nothing would change, and it would be asked for again at once, for ever.
///
/// # Errors
/// What is no moment, or not after `now`.
pub fn later(seconds: f64, now: Instant) -> PyResult<Instant> {
    let at = instant(seconds)?;
    if at <= now {
        let hint = "give one to come, or None for when something changes";
        return Err(mistake(format!("{seconds} is not after now, {}\nhint: {hint}", now.as_secs_f64())));
    }
    Ok(at)
}

/// No way yet: ask again then, or when something changes.
#[pyclass(frozen, get_all, module = "farlink")]
pub struct Wait {
    /// Seconds from the start of the run; None: when something changes.
    until: Option<f64>,
}
#[pymethods]
impl Wait {
    #[new]
    #[pyo3(signature = (until = None))]
    fn new(until: Option<f64>) -> Wait {
        Wait { until }
    }
    fn __repr__(&self) -> String {
        self.until.map_or("Wait()".into(), |until| format!("Wait({until})"))
    }
}
impl Wait {
    /// Until when.
    ///
    /// # Errors
    /// Where that is no moment to come.
    pub fn until(&self, now: Instant) -> PyResult<Instant> {
        self.until.map_or(Ok(Instant::MAX), |until| later(until, now))
    }
}

/// That a neighbour should get a bundle, and how.
#[pyclass(frozen, get_all, module = "farlink")]
#[derive(Clone)]
pub struct CopyOffer {
    /// Least first; None: in order of arrival.
    rank: Option<u64>,
    /// Whether a copy stays here.
    keep: bool,
    /// The part of the policy's label that stays; None: as it is, where a copy stays.
    ours: Option<u32>,
    /// The part that travels.
    theirs: Option<u32>,
}
#[pymethods]
impl CopyOffer {
    #[new]
    #[pyo3(signature = (rank = None, keep = true, ours = None, theirs = None))]
    fn new(rank: Option<u64>, keep: bool, ours: Option<u32>, theirs: Option<u32>) -> CopyOffer {
        CopyOffer { rank, keep, ours, theirs }
    }
    fn __repr__(&self) -> String {
        format!("CopyOffer(rank={:?}, keep={})", self.rank, if self.keep { "True" } else { "False" })
    }
}
impl CopyOffer {
    /// As a control sees what the router wants.
    pub fn of(node: &book::Node<'_>, want: &book::CopyOffer) -> CopyOffer {
        let LabelSplit { ours, theirs } = want.labels[node.side as usize];
        CopyOffer { rank: Some(want.rank), keep: want.keep, ours: Some(ours), theirs: Some(theirs) }
    }
    /// As the engine knows it; of the other policy's label as `before` says.
    pub fn engine(&self, node: &book::Node<'_>, held: &Held, before: Option<&book::CopyOffer>) -> book::CopyOffer {
        let rank = self.rank.unwrap_or(held.number);
        let mut want = if self.keep { book::CopyOffer::copy(held, rank) } else { book::CopyOffer::give(held, rank) };
        if let Some(before) = before.filter(|before| before.keep == self.keep) {
            want.labels = before.labels;
        }
        let own = &mut want.labels[node.side as usize];
        own.ours = self.ours.unwrap_or(own.ours);
        own.theirs = self.theirs.unwrap_or(own.theirs);
        want
    }
}
