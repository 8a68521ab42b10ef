//! Answers that policies written in Python may give.

use crate::errors::mistake;
use farlink_base::Instant;
use farlink_book as book;
use farlink_book::{Held, LabelSplit};
use pyo3::prelude::*;

/// Converts seconds since the start of the run to an instant.
///
/// # Errors
/// If the number is negative or not finite.
pub fn instant(seconds: f64) -> PyResult<Instant> {
    if !seconds.is_finite() || seconds < 0.0 {
        return Err(mistake(format!("{seconds} is no moment\nhint: give seconds from the start of the run")));
    }
    // Rounded, so that an instant survives the conversion to seconds and back.
    Ok(Instant((seconds * 1e9).round() as u64))
}

/// Converts seconds since the start of the run to a future instant. A past one is refused: the engine would repeat the
/// question at once, forever.
///
/// # Errors
/// If the number is negative, not finite, or not after `now`.
pub fn later(seconds: f64, now: Instant) -> PyResult<Instant> {
    let at = instant(seconds)?;
    if at <= now {
        let hint = "give one to come, or None for when something changes";
        return Err(mistake(format!("{seconds} is not after now, {}\nhint: {hint}", now.as_secs_f64())));
    }
    Ok(at)
}

/// Answer of a router that has no route yet: the engine asks again at this time, or when something changes.
#[pyclass(frozen, get_all, module = "farlink")]
pub struct Wait {
    /// Time in seconds since the start of the run; None for when something changes.
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
    /// Instant of the next question; `Instant::MAX` if only a change causes one.
    ///
    /// # Errors
    /// If the time is not in the future.
    pub fn until(&self, now: Instant) -> PyResult<Instant> {
        self.until.map_or(Ok(Instant::MAX), |until| later(until, now))
    }
}

/// Offer of a bundle to a neighbour, with its rank and labels.
#[pyclass(frozen, get_all, module = "farlink")]
#[derive(Clone)]
pub struct CopyOffer {
    /// Rank among the offers, lowest first; None for the order of arrival.
    rank: Option<u64>,
    /// True if a copy stays at this node.
    keep: bool,
    /// Part of the policy's label that stays at this node; None to leave it unchanged, if a copy stays.
    ours: Option<u32>,
    /// Part of the policy's label that travels with the copy; None for the default split.
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
    /// Converts a router's offer for a control written in Python.
    pub fn of(node: &book::Node<'_>, want: &book::CopyOffer) -> CopyOffer {
        // Router and control have a label each; a policy sees only its own.
        let LabelSplit { ours, theirs } = want.labels[node.side as usize];
        CopyOffer { rank: Some(want.rank), keep: want.keep, ours: Some(ours), theirs: Some(theirs) }
    }
    /// Converts the offer for the engine. The other policy's label is split as in `before`, unless `keep` differs.
    pub fn engine(&self, node: &book::Node<'_>, held: &Held, before: Option<&book::CopyOffer>) -> book::CopyOffer {
        let rank = self.rank.unwrap_or(held.number);
        let mut want = if self.keep { book::CopyOffer::copy(held, rank) } else { book::CopyOffer::give(held, rank) };
        // The meaning of a split depends on `keep`: if a control changes that, the router's split no longer applies.
        if let Some(before) = before.filter(|before| before.keep == self.keep) {
            want.labels = before.labels;
        }
        let own = &mut want.labels[node.side as usize];
        own.ours = self.ours.unwrap_or(own.ours);
        own.theirs = self.theirs.unwrap_or(own.theirs);
        want
    }
}
