//! Known copies of bundles, with the delivery rate of each holder, as nodes report them.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use farlink_base::NodeId;
use farlink_book::Reporters;

/// Maximum number of bundles known; `forget_one` makes space.
const BUNDLES_MAX: usize = 4096;
/// Highest plausible rate, 1/s: no two nodes meet more than once a second.
const RATE_MAX: f64 = 1.0;
/// Maximum number of holders known per bundle.
const HOLDERS_MAX: usize = 32;

/// A copy of a bundle at another node.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct KnownCopy {
    /// Node that has the copy.
    pub holder: NodeId,
    /// Inverse of the expected time to delivery, 1/s; 0 if the holder will never deliver it or dropped its copy.
    pub rate: f64,
    /// Time of the report, ms on this process's clock.
    pub said_ms: i64,
}

#[derive(Debug)]
struct BundleCopies {
    copies: Vec<KnownCopy>,
    changed: u64,
}

/// All known copies, by bundle.
#[derive(Default, Debug)]
pub struct Replicas {
    known: BTreeMap<u128, BundleCopies>,
    order: BTreeSet<(u64, u128)>,
    reporters: Reporters<u128>,
}

impl Replicas {
    /// Learns a copy, if the report is newer than the known one. If the copy is new, or its rate differs by more than a
    /// quarter from the rate relayed before, `change` is incremented, so that the copy is relayed. `reporter` is the
    /// node that sent the report.
    pub fn learn(&mut self, id: u128, copy: KnownCopy, reporter: NodeId, change: &mut u64) {
        if !(0.0..=RATE_MAX).contains(&copy.rate) {
            return;
        }
        if !self.known.contains_key(&id) {
            if self.known.len() >= BUNDLES_MAX {
                self.forget_one();
            }
            self.order.insert((*change, id));
            self.known.insert(id, BundleCopies { copies: Vec::new(), changed: *change });
        }
        self.reporters.note(id, reporter);
        let Some(known) = self.known.get_mut(&id) else { return };
        let room = known.copies.len() < HOLDERS_MAX;
        match known.copies.iter_mut().find(|known| known.holder == copy.holder) {
            // On equal timestamps a removal wins.
            Some(before) if (before.said_ms, copy.rate > 0.0) >= (copy.said_ms, true) => return,
            Some(before) => {
                let far = (before.rate - copy.rate).abs() > 0.25 * before.rate;
                *before = KnownCopy { rate: if far { copy.rate } else { before.rate }, ..copy };
                if !far {
                    return;
                }
            }
            None if room => known.copies.push(copy),
            None => return,
        }
        *change += 1;
        self.order.remove(&(known.changed, id));
        known.changed = *change;
        self.order.insert((*change, id));
    }
    /// Makes space: evicts the oldest entry of a reporter with more than half of all, or else the oldest.
    fn forget_one(&mut self) {
        // A reporter of at most half of the entries does not flood the table.
        let flood = self.reporters.loser().filter(|_| self.reporters.most() > BUNDLES_MAX / 2);
        if let Some(id) = flood.or(self.order.first().map(|(_, id)| *id)) {
            self.forget(id);
        }
    }
    /// Forgets a bundle that was delivered.
    pub fn forget(&mut self, id: u128) {
        self.reporters.forget(id);
        if let Some(known) = self.known.remove(&id) {
            self.order.remove(&(known.changed, id));
        }
    }
    /// Sum of the delivery rates of all holders except these two, 1/s.
    pub fn rate(&self, id: u128, but: [NodeId; 2]) -> f64 {
        let copies = self.known.get(&id).map_or(&[][..], |known| &known.copies);
        copies.iter().filter(|copy| !but.contains(&copy.holder)).map(|copy| copy.rate).sum()
    }
    /// Copies of the bundles whose copies changed after `since`, the latest first.
    pub fn since(&self, since: u64) -> impl Iterator<Item = (u128, &KnownCopy)> {
        let changed = self.order.iter().rev().take_while(move |(changed, _)| *changed > since);
        changed
            .flat_map(|(_, id)| self.known.get(id).into_iter().flat_map(|known| known.copies.iter().map(|c| (*id, c))))
    }
    /// Number of known bundles.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        assert_eq!(self.known.len(), self.order.len());
        self.known.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copy(holder: u64, rate: f64, said_ms: i64) -> KnownCopy {
        KnownCopy { holder: NodeId(holder), rate, said_ms }
    }
    const NOBODY: [NodeId; 2] = [NodeId::NULL; 2];
    const TELLER: NodeId = NodeId(2);

    #[test]
    fn newest_report_of_each_holder_counts() {
        let (mut replicas, mut change) = (Replicas::default(), 0);
        for (word, sum, changes) in [
            (copy(2, 0.0, 0), 0.0, 1),
            (copy(2, 0.5, 1), 0.5, 2),
            (copy(3, 0.25, 1), 0.75, 3),
            (copy(2, 1.0, 1), 0.75, 3),
            (copy(2, 0.6, 2), 0.75, 3),
            (copy(2, 1.0, 3), 1.25, 4),
            (copy(2, f64::NAN, 9), 1.25, 4),
            (copy(2, -1.0, 9), 1.25, 4),
            (copy(2, 1.001, 9), 1.25, 4),
            (copy(2, f64::MAX, 9), 1.25, 4),
            (copy(2, 0.0, 4), 0.25, 5),
        ] {
            replicas.learn(7, word, TELLER, &mut change);
            assert_eq!((replicas.rate(7, NOBODY), change), (sum, changes), "{word:?}");
        }
        assert_eq!(replicas.rate(7, [NodeId(3), NodeId::NULL]), 0.0);
        replicas.learn(8, copy(4, 0.5, 1), TELLER, &mut change);
        let told = |since| replicas.since(since).map(|(id, copy)| (id, copy.holder.0)).collect::<Vec<_>>();
        assert_eq!((told(0), told(5)), ([(8, 4), (7, 2), (7, 3)].into(), [(8, 4)].into()));
        replicas.forget(7);
        assert_eq!((replicas.rate(7, NOBODY), replicas.len()), (0.0, 1));
    }

    #[test]
    fn tables_are_bounded() {
        let (mut replicas, mut change) = (Replicas::default(), 0);
        for id in 0..5000 {
            // The last bundle has more holders than are remembered.
            let holders = if id == 4999 { 100 } else { 1 };
            (1..=holders).for_each(|n| replicas.learn(id, copy(n, 1.0, 1), TELLER, &mut change));
        }
        assert_eq!((replicas.len(), replicas.rate(4999, NOBODY)), (BUNDLES_MAX, HOLDERS_MAX as f64));
        assert_eq!((replicas.rate(903, NOBODY), replicas.rate(904, NOBODY)), (0.0, 1.0), "the oldest are forgotten");
    }

    #[test]
    fn reporter_above_half_evicts_its_own() {
        let (mut replicas, mut change) = (Replicas::default(), 0);
        (0..100).for_each(|id| replicas.learn(id, copy(5, 0.5, 1), NodeId(4), &mut change));
        (1_000..60_000).for_each(|id| replicas.learn(id, copy(6, 1.0, 1), NodeId(3), &mut change));
        assert_eq!((replicas.len(), replicas.reporters.len()), (BUNDLES_MAX, BUNDLES_MAX));
        assert!((0..100).all(|id| replicas.rate(id, NOBODY) == 0.5), "entries of the other reporter stay");
        replicas.forget(7);
        assert_eq!((replicas.len(), replicas.reporters.len()), (BUNDLES_MAX - 1, BUNDLES_MAX - 1));
    }
}
