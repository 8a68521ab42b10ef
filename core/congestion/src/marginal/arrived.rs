//! Bundles known to be delivered. Their number is bounded, each is remembered until its lifetime ends, and a flood of
//! reports evicts only entries of its reporter.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use farlink_base::{Instant, NodeId};

/// Knowledge of a delivered bundle.
#[derive(Clone, Copy, Debug)]
struct ArrivalReport {
    /// Time at which the report is forgotten.
    until: Instant,
    /// Reporter; null if this node saw the delivery itself.
    reporter: NodeId,
    /// Position in the order of learning.
    number: u64,
}

/// A delivered bundle in a report to others.
#[derive(Clone, Copy, Debug)]
pub(super) struct KnownArrival {
    pub id: u128,
    /// Time at which the report is forgotten.
    pub until: Instant,
    /// Whether this node saw the delivery; only a destination's own observation is proof.
    pub seen: bool,
}

/// Identities of delivered bundles.
#[derive(Debug)]
pub(super) struct Arrived {
    known: BTreeMap<u128, ArrivalReport>,
    by_number: BTreeMap<u64, u128>,
    by_reporter: BTreeMap<NodeId, BTreeSet<(Instant, u128)>>,
    learnt: u64,
    most: usize,
}

impl Arrived {
    /// Empty table for at most `most` bundles.
    pub fn new(most: usize) -> Self {
        let (known, by_number, by_reporter) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Arrived { known, by_number, by_reporter, learnt: 0, most }
    }
    /// Whether the bundle is known to be delivered.
    pub fn has(&self, id: u128) -> bool {
        self.known.contains_key(&id)
    }
    /// Remembers a delivery until the given time. Returns whether the delivery is new: not known at all, or known from
    /// reports only and now seen by this node.
    pub fn learn(&mut self, id: u128, until: Instant, reporter: NodeId) -> bool {
        let heard = self.known.get(&id).map(|known| known.reporter != NodeId::NULL);
        if self.most == 0 || heard.is_some_and(|heard| !heard || reporter != NodeId::NULL) {
            return false;
        }
        self.forget(id);
        if self.known.len() >= self.most {
            self.forget_one();
        }
        self.learnt += 1;
        self.known.insert(id, ArrivalReport { until, reporter, number: self.learnt });
        self.by_number.insert(self.learnt, id);
        self.by_reporter.entry(reporter).or_default().insert((until, id));
        true
    }
    /// Makes space: evicts an entry of the reporter with the most entries, the one that expires first.
    fn forget_one(&mut self) {
        let longest = self.by_reporter.values().max_by_key(|told| told.len());
        if let Some((_, id)) = longest.and_then(|told| told.first()).copied() {
            self.forget(id);
        }
    }
    fn forget(&mut self, id: u128) {
        let Some(ArrivalReport { until, reporter, number }) = self.known.remove(&id) else { return };
        self.by_number.remove(&number);
        if let Some(told) = self.by_reporter.get_mut(&reporter) {
            told.remove(&(until, id));
            if told.is_empty() {
                self.by_reporter.remove(&reporter);
            }
        }
    }
    /// Forgets entries whose time is over.
    pub fn expire(&mut self, now: Instant) {
        // Entries of a reporter are ordered by time, so each scan ends early.
        let over = self.by_reporter.values().flat_map(|told| told.iter().take_while(|(until, _)| *until <= now));
        for id in over.map(|(_, id)| *id).collect::<Vec<_>>() {
            self.forget(id);
        }
    }
    /// The latest deliveries first, without those that `but` reported.
    pub fn newest(&self, but: NodeId) -> impl Iterator<Item = KnownArrival> {
        let known = self.by_number.values().rev().filter_map(|id| Some((*id, self.known.get(id)?)));
        let others = known.filter(move |(_, arrival)| but == NodeId::NULL || arrival.reporter != but);
        others.map(|(id, arrival)| KnownArrival { id, until: arrival.until, seen: arrival.reporter == NodeId::NULL })
    }
    /// Number of known deliveries.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.known.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reporter_flood_evicts_its_own() {
        let mut arrived = Arrived::new(100);
        let later = Instant(1_000);
        for id in 0..40 {
            assert!(arrived.learn(id, later, NodeId::NULL) && !arrived.learn(id, later, NodeId(2)));
        }
        for id in 1_000..100_000 {
            arrived.learn(id, later, NodeId(3));
        }
        assert_eq!(arrived.len(), 100);
        assert!((0..40).all(|id| arrived.has(id)) && arrived.has(99_999) && !arrived.has(1_000));
        assert_eq!((arrived.by_number.len(), arrived.by_reporter.len()), (100, 2));
    }

    #[test]
    fn newest_living_acks_are_sent() {
        let mut arrived = Arrived::new(10);
        arrived.learn(1, Instant(10), NodeId(2));
        arrived.learn(2, Instant(20), NodeId(3));
        arrived.learn(3, Instant(30), NodeId::NULL);
        let told = |arrived: &Arrived, to| arrived.newest(NodeId(to)).map(|known| known.id).collect::<Vec<_>>();
        assert_eq!((told(&arrived, 9), told(&arrived, 2)), (alloc::vec![3, 2, 1], alloc::vec![3, 2]));
        // An observation replaces a report of the same delivery.
        assert!(
            arrived.learn(1, Instant(10), NodeId::NULL) && !arrived.learn(1, Instant(10), NodeId(2)),
            "now it is seen"
        );
        let seen: Vec<_> = arrived.newest(NodeId(9)).map(|known| (known.id, known.seen)).collect();
        assert_eq!(seen, [(1, true), (3, true), (2, false)]);
        arrived.expire(Instant(20));
        assert_eq!(told(&arrived, 9), [3]);
        assert_eq!((arrived.by_number.len(), arrived.by_reporter.len()), (1, 1));
        assert!(!Arrived::new(0).learn(1, Instant(10), NodeId(2)));
    }
}
