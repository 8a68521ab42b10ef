//! Who met whom when: what a copy is worth where nothing is planned. A meeting that somebody met told of
//! is a hop older than it was.

use super::value::Rates;
use alloc::collections::BTreeMap;
use farlink_base::{Instant, NodeId};

/// Nodes remembered at most.
pub(super) const NODES_MAX: usize = 1024;
/// How long ago whoever was never heard of counts as met when the node begins, s.
const BEFORE_S: f64 = 20_000.0;

/// When each node was met last, or somebody who met it: on this node's clock, s.
#[derive(Clone, Debug, Default)]
pub(super) struct Encounters {
    met: BTreeMap<NodeId, f64>,
    /// Mean rate over all nodes known, as of the last meeting.
    mean: f64,
}

pub(super) fn seconds(now: Instant) -> f64 {
    now.as_secs_f64()
}

impl Encounters {
    /// Notes that a node was met so long ago, at first or at second hand; the latest counts.
    pub fn note(&mut self, node: NodeId, at_s: f64) {
        if let Some(known) = self.met.get_mut(&node) {
            *known = known.max(at_s);
        } else if self.met.len() < NODES_MAX || self.forget_before(at_s) {
            self.met.insert(node, at_s);
        }
    }
    /// Forgets who was met longest ago, if that is before.
    fn forget_before(&mut self, at_s: f64) -> bool {
        let oldest = self.met.iter().min_by(|a, b| a.1.total_cmp(b.1)).map(|(node, at)| (*node, *at));
        let Some((node, _)) = oldest.filter(|(_, at)| *at < at_s) else { return false };
        self.met.remove(&node);
        true
    }
    /// Computes the mean rate anew.
    pub fn settle(&mut self, now: Instant, hop_s: f64) {
        let sum: f64 = self.met.values().map(|at| 1.0 / (hop_s + seconds(now) - at)).sum();
        self.mean = if self.met.is_empty() { 0.0 } else { sum / self.met.len() as f64 };
    }
    /// Rates of meeting this destination, and anybody.
    pub fn rates(&self, to: NodeId, now: Instant, hop_s: f64) -> Rates {
        let met = self.met.get(&to).copied().unwrap_or(-BEFORE_S);
        let own = 1.0 / (hop_s + (seconds(now) - met).max(0.0));
        Rates { own, others: if self.mean > 0.0 { self.mean } else { own } }
    }
    /// Those met last, with the seconds since.
    pub fn told(&self, now: Instant, most: usize) -> alloc::vec::Vec<(NodeId, u32)> {
        let age = |at: f64| (seconds(now) - at).clamp(0.0, f64::from(u32::MAX)) as u32;
        let mut told: alloc::vec::Vec<_> = self.met.iter().map(|(node, at)| (*node, age(*at))).collect();
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
        met.note(NodeId(2), 3_000.0);
        met.note(NodeId(3), 600.0);
        met.note(NodeId(2), 100.0);
        met.settle(HOUR, 600.0);
        let rate = |node| met.rates(NodeId(node), HOUR, 600.0).own;
        assert_eq!((rate(2), rate(3)), (1.0 / 1_200.0, 1.0 / 3_600.0));
        assert_eq!(rate(4), 1.0 / 24_200.0, "never heard of");
        assert_eq!(met.rates(NodeId(4), HOUR, 600.0).others, f64::midpoint(1.0 / 1_200.0, 1.0 / 3_600.0));
        assert_eq!(met.told(HOUR, 1), [(NodeId(2), 600)]);
    }

    #[test]
    fn no_more_nodes_are_known_than_there_is_room_for() {
        let mut met = Encounters::default();
        for node in 0..5_000 {
            met.note(NodeId(node + 1), node as f64);
        }
        assert_eq!(met.met.len(), NODES_MAX);
        assert!(met.met.contains_key(&NodeId(5_000)));
        met.note(NodeId(9_999), 0.0);
        assert!(!met.met.contains_key(&NodeId(9_999)), "older than all that are known");
    }
}
