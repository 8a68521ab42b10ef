//! When each of some bundles is sent again, if nobody says anything before.

use alloc::collections::{BTreeMap, BTreeSet};
use farlink_base::Instant;

/// When bundles are sent again without a signal: at one moment each.
#[derive(Debug, Default)]
pub(crate) struct Repeats {
    at: BTreeSet<(Instant, u64)>,
    of: BTreeMap<u64, Instant>,
}
impl Repeats {
    /// At this moment.
    pub fn at(&mut self, number: u64, at: Instant) {
        self.stop(number);
        self.at.insert((at, number));
        self.of.insert(number, at);
    }
    /// Not at all.
    pub(super) fn stop(&mut self, number: u64) {
        if let Some(at) = self.of.remove(&number) {
            self.at.remove(&(at, number));
        }
    }
    /// The next moment.
    pub fn next(&self) -> Option<Instant> {
        self.at.first().map(|(at, _)| *at)
    }
    /// Takes one whose moment has come.
    pub fn pop(&mut self, now: Instant) -> Option<u64> {
        let (_, number) = self.at.first().copied().filter(|(at, _)| *at <= now)?;
        self.stop(number);
        Some(number)
    }
    /// When one is.
    pub fn due(&self, number: u64) -> Option<Instant> {
        self.of.get(&number).copied()
    }
    /// Which are.
    #[cfg(feature = "audit")]
    pub fn numbers(&self) -> impl Iterator<Item = u64> + '_ {
        self.of.keys().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_bundle_repeats_once_per_deadline() {
        let mut repeats = Repeats::default();
        repeats.at(1, Instant(5));
        repeats.at(2, Instant(3));
        repeats.at(1, Instant(9));
        repeats.at(3, Instant(4));
        repeats.stop(3);
        assert_eq!((repeats.next(), repeats.due(1), repeats.due(3)), (Some(Instant(3)), Some(Instant(9)), None));
        assert_eq!([2, 3, 9, 9].map(|at| repeats.pop(Instant(at))), [None, Some(2), Some(1), None]);
        assert_eq!(repeats.next(), None);
    }
}
