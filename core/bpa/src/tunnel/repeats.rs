//! Times at which bundles are sent again because no answer came.

use alloc::collections::{BTreeMap, BTreeSet};
use farlink_base::Instant;

/// Times at which bundles are sent again, one for each bundle number.
#[derive(Debug, Default)]
pub(crate) struct Repeats {
    at: BTreeSet<(Instant, u64)>,
    of: BTreeMap<u64, Instant>,
}
impl Repeats {
    pub fn at(&mut self, number: u64, at: Instant) {
        // Otherwise the bundle's earlier time would remain in `at` and come due, too.
        self.stop(number);
        self.at.insert((at, number));
        self.of.insert(number, at);
    }
    pub(super) fn stop(&mut self, number: u64) {
        if let Some(at) = self.of.remove(&number) {
            self.at.remove(&(at, number));
        }
    }
    pub fn next(&self) -> Option<Instant> {
        self.at.first().map(|(at, _)| *at)
    }
    /// Takes the number of a bundle that is due to be sent again.
    pub fn pop(&mut self, now: Instant) -> Option<u64> {
        let (_, number) = self.at.first().copied().filter(|(at, _)| *at <= now)?;
        self.stop(number);
        Some(number)
    }
    pub fn due(&self, number: u64) -> Option<Instant> {
        self.of.get(&number).copied()
    }
    #[cfg(feature = "audit")]
    pub fn numbers(&self) -> impl Iterator<Item = u64> + '_ {
        self.of.keys().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_is_due_once() {
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
