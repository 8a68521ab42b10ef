//! Who met whom when: what a copy is worth where nothing is planned. A meeting that somebody met told of
//! is a hop older than it was.

use super::value::Rates;
use alloc::collections::BTreeMap;
use core::cmp::Ordering::Equal;
use farlink_base::{Instant, NodeId};

/// Nodes remembered at most.
pub(super) const NODES_MAX: usize = 1024;
/// How long ago whoever was never heard of counts as met when the node begins, s.
const BEFORE_S: f64 = 20_000.0;

/// When a node was met last: on this node's clock, s.
#[derive(Clone, Copy, Debug)]
struct Met {
    at_s: f64,
    /// Whether this node ever met it itself.
    itself: bool,
}

/// When each node was met last, or somebody who met it.
#[derive(Clone, Debug, Default)]
pub(super) struct Encounters {
    met: BTreeMap<NodeId, Met>,
    /// Mean rate over all nodes known, as of the last meeting.
    mean: f64,
}

pub(super) fn seconds(now: Instant) -> f64 {
    now.as_secs_f64()
}

impl Encounters {
    /// A node is met. Where there is no room, one that was only told of is forgotten.
    pub fn meet(&mut self, node: NodeId, at_s: f64) {
        if self.met.len() >= NODES_MAX && !self.met.contains_key(&node) {
            let oldest = self
                .met
                .iter()
                .min_by(|a, b| (a.1.itself, a.1.at_s).partial_cmp(&(b.1.itself, b.1.at_s)).unwrap_or(Equal));
            let oldest = oldest.map(|(node, _)| *node);
            oldest.map(|node| self.met.remove(&node));
        }
        self.met.insert(node, Met { at_s, itself: true });
    }
    /// Somebody tells of a meeting; the latest counts. It pushes nothing out.
    pub fn hear(&mut self, node: NodeId, at_s: f64) {
        if let Some(known) = self.met.get_mut(&node) {
            known.at_s = known.at_s.max(at_s);
        } else if self.met.len() < NODES_MAX {
            self.met.insert(node, Met { at_s, itself: false });
        }
    }
    /// Computes the mean rate anew.
    pub fn settle(&mut self, now: Instant, hop_s: f64) {
        let sum: f64 = self.met.values().map(|met| 1.0 / (hop_s + (seconds(now) - met.at_s).max(0.0))).sum();
        self.mean = if self.met.is_empty() { 0.0 } else { sum / self.met.len() as f64 };
    }
    /// Rates of meeting this destination, and anybody.
    pub fn rates(&self, to: NodeId, now: Instant, hop_s: f64) -> Rates {
        let met = self.met.get(&to).map_or(-BEFORE_S, |met| met.at_s);
        let own = 1.0 / (hop_s + (seconds(now) - met).max(0.0));
        Rates { own, others: if self.mean > 0.0 { self.mean } else { own } }
    }
    /// Those met last, with the seconds since.
    pub fn told(&self, now: Instant, most: usize) -> alloc::vec::Vec<(NodeId, u32)> {
        let age = |at: f64| (seconds(now) - at).clamp(0.0, f64::from(u32::MAX)) as u32;
        let mut told: alloc::vec::Vec<_> = self.met.iter().map(|(node, met)| (*node, age(met.at_s))).collect();
        told.sort_by_key(|(node, age)| (*age, *node));
        told.truncate(most);
        told
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Instant = Instant(3_600_000_000_000);

    #[test]
    fn whoever_met_the_destination_later_meets_it_again_sooner() {
        let mut met = Encounters::default();
        met.hear(NodeId(2), 3_000.0);
        met.hear(NodeId(3), 600.0);
        met.hear(NodeId(2), 100.0);
        met.settle(HOUR, 600.0);
        let rate = |node| met.rates(NodeId(node), HOUR, 600.0).own;
        assert_eq!((rate(2), rate(3)), (1.0 / 1_200.0, 1.0 / 3_600.0));
        assert_eq!(rate(4), 1.0 / 24_200.0, "never heard of");
        assert_eq!(met.rates(NodeId(4), HOUR, 600.0).others, f64::midpoint(1.0 / 1_200.0, 1.0 / 3_600.0));
        assert_eq!(met.told(HOUR, 1), [(NodeId(2), 600)]);
    }

    #[test]
    fn who_is_told_of_pushes_nobody_out_and_who_is_met_those_told_of() {
        let mut met = Encounters::default();
        for node in 1..=5_000 {
            met.hear(NodeId(node), 9_000.0);
        }
        met.meet(NodeId(9_999), 10.0);
        for node in 10_000..10_500 {
            met.meet(NodeId(node), 20.0);
            met.hear(NodeId(node + 10_000), 30_000.0);
        }
        assert_eq!(met.met.len(), NODES_MAX);
        let known = [9_999, 10_000, 10_499, 20_000].map(|node| met.met.contains_key(&NodeId(node)));
        assert_eq!(known, [true, true, true, false]);
    }
}
