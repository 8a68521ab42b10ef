//! Bundles known to have arrived: bounded, each until its lifetime is over, and no teller pushes out what
//! others told.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use farlink_base::{Instant, NodeId};

/// What is known of one that arrived.
#[derive(Clone, Copy, Debug)]
struct Arrival {
    /// Forgotten then.
    until: Instant,
    /// Who told; null: this node saw it itself.
    teller: NodeId,
    /// In order of learning.
    number: u64,
}

/// One that arrived, as it is told on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known {
    pub id: u128,
    /// Forgotten then.
    pub until: Instant,
    /// Whether this node saw it arrive, rather than heard of it: of a destination only that is proof.
    pub seen: bool,
}

/// Identities of bundles that arrived.
#[derive(Debug)]
pub(super) struct Arrived {
    known: BTreeMap<u128, Arrival>,
    by_number: BTreeMap<u64, u128>,
    by_teller: BTreeMap<NodeId, BTreeSet<(Instant, u128)>>,
    learnt: u64,
    most: usize,
}

impl Arrived {
    /// None; at most so many are known.
    pub fn new(most: usize) -> Self {
        let (known, by_number, by_teller) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Arrived { known, by_number, by_teller, learnt: 0, most }
    }
    /// Whether it is known to have arrived.
    pub fn has(&self, id: u128) -> bool {
        self.known.contains_key(&id)
    }
    /// Remembers one until then; whether that is new, as it is of one that was heard of and now is seen.
    pub fn learn(&mut self, id: u128, until: Instant, teller: NodeId) -> bool {
        let heard = self.known.get(&id).map(|known| known.teller != NodeId::NULL);
        if self.most == 0 || heard.is_some_and(|heard| !heard || teller != NodeId::NULL) {
            return false;
        }
        self.forget(id);
        if self.known.len() >= self.most {
            self.forget_one();
        }
        self.learnt += 1;
        self.known.insert(id, Arrival { until, teller, number: self.learnt });
        self.by_number.insert(self.learnt, id);
        self.by_teller.entry(teller).or_default().insert((until, id));
        true
    }
    /// Room for one: the first to expire of whoever told most.
    fn forget_one(&mut self) {
        let longest = self.by_teller.values().max_by_key(|told| told.len());
        if let Some((_, id)) = longest.and_then(|told| told.first()).copied() {
            self.forget(id);
        }
    }
    fn forget(&mut self, id: u128) {
        let Some(Arrival { until, teller, number }) = self.known.remove(&id) else { return };
        self.by_number.remove(&number);
        if let Some(told) = self.by_teller.get_mut(&teller) {
            told.remove(&(until, id));
            if told.is_empty() {
                self.by_teller.remove(&teller);
            }
        }
    }
    /// Forgets those whose time is over.
    pub fn expire(&mut self, now: Instant) {
        let over = self.by_teller.values().flat_map(|told| told.iter().take_while(|(until, _)| *until <= now));
        for id in over.map(|(_, id)| *id).collect::<Vec<_>>() {
            self.forget(id);
        }
    }
    /// The newest, newest first, but for what this node told.
    pub fn newest(&self, but: NodeId) -> impl Iterator<Item = Known> {
        let known = self.by_number.values().rev().filter_map(|id| Some((*id, self.known.get(id)?)));
        let others = known.filter(move |(_, arrival)| but == NodeId::NULL || arrival.teller != but);
        others.map(|(id, arrival)| Known { id, until: arrival.until, seen: arrival.teller == NodeId::NULL })
    }
    /// How many are known.
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
        assert_eq!((arrived.by_number.len(), arrived.by_teller.len()), (100, 2));
    }

    #[test]
    fn newest_living_acks_are_sent() {
        let mut arrived = Arrived::new(10);
        arrived.learn(1, Instant(10), NodeId(2));
        arrived.learn(2, Instant(20), NodeId(3));
        arrived.learn(3, Instant(30), NodeId::NULL);
        let told = |arrived: &Arrived, to| arrived.newest(NodeId(to)).map(|known| known.id).collect::<Vec<_>>();
        assert_eq!((told(&arrived, 9), told(&arrived, 2)), (alloc::vec![3, 2, 1], alloc::vec![3, 2]));
        assert!(
            arrived.learn(1, Instant(10), NodeId::NULL) && !arrived.learn(1, Instant(10), NodeId(2)),
            "now it is seen"
        );
        let seen: Vec<_> = arrived.newest(NodeId(9)).map(|known| (known.id, known.seen)).collect();
        assert_eq!(seen, [(1, true), (3, true), (2, false)]);
        arrived.expire(Instant(20));
        assert_eq!(told(&arrived, 9), [3]);
        assert_eq!((arrived.by_number.len(), arrived.by_teller.len()), (1, 1));
        assert!(!Arrived::new(0).learn(1, Instant(10), NodeId(2)));
    }
}
