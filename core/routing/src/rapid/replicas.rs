//! Who holds which bundle, and how soon each of them may be expected to deliver it, as nodes tell
//! each other.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use farlink_base::NodeId;
use farlink_book::Reporters;

/// Bundles known; of more those are forgotten of which nothing was heard longest.
const BUNDLES_MAX: usize = 4096;
/// The highest rate that makes sense, 1/s: nobody meets anybody more often than once a second, nor is expected to.
const RATE_MAX: f64 = 1.0;
/// Holders known of each.
const HOLDERS_MAX: usize = 32;

/// What a node expects of its copy.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Copy {
    /// Who has it.
    pub holder: NodeId,
    /// One by the time, in s, until it delivers it; 0: never, or it has it no more.
    pub rate: f64,
    /// When it said so, ms on this process's clock.
    pub said_ms: i64,
}

#[derive(Debug)]
struct Known {
    copies: Vec<Copy>,
    changed: u64,
}

/// All copies known.
#[derive(Default, Debug)]
pub struct Replicas {
    known: BTreeMap<u128, Known>,
    order: BTreeSet<(u64, u128)>,
    tellers: Reporters<u128>,
}

impl Replicas {
    /// Notes what a node says of its copy, where that is newer. It is told on where it is new, or a
    /// quarter away from what was told: `change` counts that. `teller`: who says so here.
    pub fn learn(&mut self, id: u128, copy: Copy, teller: NodeId, change: &mut u64) {
        if !(0.0..=RATE_MAX).contains(&copy.rate) {
            return;
        }
        if !self.known.contains_key(&id) {
            if self.known.len() >= BUNDLES_MAX {
                self.forget_one();
            }
            self.order.insert((*change, id));
            self.known.insert(id, Known { copies: Vec::new(), changed: *change });
        }
        self.tellers.note(id, teller);
        let Some(known) = self.known.get_mut(&id) else { return };
        let room = known.copies.len() < HOLDERS_MAX;
        match known.copies.iter_mut().find(|known| known.holder == copy.holder) {
            // Of two words of one moment, that it is gone is the later.
            Some(before) if (before.said_ms, copy.rate > 0.0) >= (copy.said_ms, true) => return,
            Some(before) => {
                let far = (before.rate - copy.rate).abs() > 0.25 * before.rate;
                *before = Copy { rate: if far { copy.rate } else { before.rate }, ..copy };
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
    /// Room for one: of whoever told of more than half of all, what it did not tell of for longest; else what nobody did.
    fn forget_one(&mut self) {
        let flood = self.tellers.loser().filter(|_| self.tellers.most() > BUNDLES_MAX / 2);
        if let Some(id) = flood.or(self.order.first().map(|(_, id)| *id)) {
            self.forget(id);
        }
    }
    /// It arrived: nothing more is to be known of it.
    pub fn forget(&mut self, id: u128) {
        self.tellers.forget(id);
        if let Some(known) = self.known.remove(&id) {
            self.order.remove(&(known.changed, id));
        }
    }
    /// How soon the holders but these two may be expected to deliver it, taken together.
    pub fn rate(&self, id: u128, but: [NodeId; 2]) -> f64 {
        let copies = self.known.get(&id).map_or(&[][..], |known| &known.copies);
        copies.iter().filter(|copy| !but.contains(&copy.holder)).map(|copy| copy.rate).sum()
    }
    /// What changed since then, the newest first.
    pub fn since(&self, since: u64) -> impl Iterator<Item = (u128, &Copy)> {
        let changed = self.order.iter().rev().take_while(move |(changed, _)| *changed > since);
        changed
            .flat_map(|(_, id)| self.known.get(id).into_iter().flat_map(|known| known.copies.iter().map(|c| (*id, c))))
    }
    /// How many bundles are known.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        assert_eq!(self.known.len(), self.order.len());
        self.known.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copy(holder: u64, rate: f64, said_ms: i64) -> Copy {
        Copy { holder: NodeId(holder), rate, said_ms }
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
        assert_eq!((replicas.len(), replicas.tellers.len()), (BUNDLES_MAX, BUNDLES_MAX));
        assert!((0..100).all(|id| replicas.rate(id, NOBODY) == 0.5), "what another told of stays");
        replicas.forget(7);
        assert_eq!((replicas.len(), replicas.tellers.len()), (BUNDLES_MAX - 1, BUNDLES_MAX - 1));
    }
}
