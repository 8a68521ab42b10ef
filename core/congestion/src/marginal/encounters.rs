//! Meeting times of nodes, from which the worth of a copy follows where nothing is planned. A meeting reported by a
//! neighbour counts as one hop older.

use super::value::Rates;
use alloc::collections::BTreeMap;
use farlink_base::{Instant, NodeId};
use farlink_book::Reporters;

/// Maximum number of nodes remembered.
pub(super) const NODES_MAX: usize = 1024;
/// A node of which no meeting is known counts as met this long before this node's start, s.
const BEFORE_S: f64 = 20_000.0;

/// Source of the knowledge about a node, the least certain first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum By {
    /// Reported by a neighbour.
    Report,
    /// Met, but with a merely claimed name.
    Claim,
    /// Met by this node.
    Itself,
}

/// Time of a node's last meeting, s on this node's clock.
#[derive(Clone, Copy, Debug)]
struct LastMeeting {
    at_s: f64,
    by: By,
}

/// Last meeting of each node, with this node or with a neighbour that reported it.
#[derive(Clone, Debug, Default)]
pub(super) struct Encounters {
    met: BTreeMap<NodeId, LastMeeting>,
    /// Reporters of nodes that this node never met.
    reporters: Reporters<NodeId>,
    /// Mean rate over all known nodes, as of the last meeting, 1/s.
    mean: f64,
}

pub(super) fn seconds(now: Instant) -> f64 {
    now.as_secs_f64()
}

impl Encounters {
    /// Records a meeting with a node; `sure` if its identity is certain. Without space, a reported node is forgotten,
    /// or else one that only claimed its name, or else the one met longest ago.
    pub fn meet(&mut self, node: NodeId, at_s: f64, sure: bool) {
        if self.met.len() >= NODES_MAX && !self.met.contains_key(&node) && !self.evict_reported() {
            let order = |a: &LastMeeting, b: &LastMeeting| a.by.cmp(&b.by).then(a.at_s.total_cmp(&b.at_s));
            let first = self.met.iter().min_by(|a, b| order(a.1, b.1)).map(|(node, met)| (*node, met.by));
            // A mere claim must not displace a node that was met.
            match first {
                Some((_, By::Itself)) if !sure => return,
                Some((first, _)) => drop(self.met.remove(&first)),
                None => {}
            }
        }
        let by = if sure { By::Itself } else { By::Claim };
        // A certain identity stays certain.
        let by = self.met.get(&node).map_or(by, |known| known.by.max(by));
        self.met.insert(node, LastMeeting { at_s, by });
        self.reporters.forget(node);
    }
    /// Records a reported meeting; of several, the latest counts. A full table evicts an entry of the reporter with
    /// most entries, never a node that this node met.
    pub fn note_report(&mut self, node: NodeId, at_s: f64, reporter: NodeId) {
        if let Some(known) = self.met.get_mut(&node) {
            known.at_s = known.at_s.max(at_s);
            // Nodes that were met are not subject to eviction by reporter.
            if known.by == By::Report {
                self.reporters.note(node, reporter);
            }
        } else if self.met.len() < NODES_MAX || self.evict_reported() {
            self.met.insert(node, LastMeeting { at_s, by: By::Report });
            self.reporters.note(node, reporter);
        }
    }
    /// Makes space by forgetting a reported node. Returns whether one was forgotten.
    fn evict_reported(&mut self) -> bool {
        let Some(loser) = self.reporters.loser() else { return false };
        self.reporters.forget(loser);
        self.met.remove(&loser).is_some()
    }
    /// Recomputes the mean rate.
    pub fn settle(&mut self, now: Instant, hop_s: f64) {
        let sum: f64 = self.met.values().map(|met| 1.0 / (hop_s + (seconds(now) - met.at_s).max(0.0))).sum();
        self.mean = if self.met.is_empty() { 0.0 } else { sum / self.met.len() as f64 };
    }
    /// Rates of meeting this destination and an average node, 1/s.
    pub fn rates(&self, to: NodeId, now: Instant, hop_s: f64) -> Rates {
        let met = self.met.get(&to).map_or(-BEFORE_S, |met| met.at_s);
        let own = 1.0 / (hop_s + (seconds(now) - met).max(0.0));
        Rates { own, others: if self.mean > 0.0 { self.mean } else { own } }
    }
    /// The nodes met last, with the seconds since.
    pub fn latest(&self, now: Instant, most: usize) -> alloc::vec::Vec<(NodeId, u32)> {
        let age = |at: f64| (seconds(now) - at).clamp(0.0, f64::from(u32::MAX)) as u32;
        let mut latest: alloc::vec::Vec<_> = self.met.iter().map(|(node, met)| (*node, age(met.at_s))).collect();
        latest.sort_by_key(|(node, age)| (*age, *node));
        latest.truncate(most);
        latest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Instant = Instant(3_600_000_000_000);

    #[test]
    fn later_meeting_predicts_earlier_delivery() {
        let mut met = Encounters::default();
        met.note_report(NodeId(2), 3_000.0, NodeId(7));
        met.note_report(NodeId(3), 600.0, NodeId(7));
        // An older report must not replace a newer one.
        met.note_report(NodeId(2), 100.0, NodeId(7));
        met.settle(HOUR, 600.0);
        let rate = |node| met.rates(NodeId(node), HOUR, 600.0).own;
        assert_eq!((rate(2), rate(3)), (1.0 / 1_200.0, 1.0 / 3_600.0));
        assert_eq!(rate(4), 1.0 / 24_200.0, "never reported");
        assert_eq!(met.rates(NodeId(4), HOUR, 600.0).others, f64::midpoint(1.0 / 1_200.0, 1.0 / 3_600.0));
        assert_eq!(met.latest(HOUR, 1), [(NodeId(2), 600)]);
    }

    #[test]
    fn reports_displace_only_reports() {
        let (mut met, liar) = (Encounters::default(), NodeId(3));
        met.meet(NodeId(1), 1.0, true);
        met.meet(NodeId(2), 2.0, false);
        (10..60).for_each(|node| met.note_report(NodeId(node), 5.0, NodeId(4)));
        (1_000..9_000).for_each(|node| met.note_report(NodeId(node), 9_000.0, liar));
        let known = |met: &Encounters, node| met.met.contains_key(&NodeId(node));
        assert_eq!(met.met.len(), NODES_MAX);
        assert!((10..60).chain([1, 2, 8_999]).all(|node| known(&met, node)), "entries of other reporters stay");
        assert!(!known(&met, 1_000), "the oldest of the flood leaves");
        met.note_report(NodeId(99), 6.0, NodeId(4));
        assert!(known(&met, 99), "and honest reports find space");
    }

    #[test]
    fn met_node_displaces_least_trusted() {
        let mut met = Encounters::default();
        met.meet(NodeId(9_999), 10.0, true);
        (0..1_000).for_each(|node| met.meet(NodeId(20_000 + node), 30.0, false));
        (0..100).for_each(|node| met.note_report(NodeId(40_000 + node), 40.0, NodeId(4)));
        assert_eq!((met.met.len(), met.reporters.len()), (NODES_MAX, NODES_MAX - 1_001));
        (0..500).for_each(|node| met.meet(NodeId(10_000 + node), 20.0, true));
        assert_eq!((met.met.len(), met.reporters.len()), (NODES_MAX, 0));
        let known = |met: &Encounters, node| met.met.contains_key(&NodeId(node));
        assert!(known(&met, 9_999) && (10_000..10_500).all(|node| known(&met, node)));
        (0..2_000).for_each(|node| met.meet(NodeId(50_000 + node), 50.0, true));
        assert!(!known(&met, 9_999), "all were met: the one met longest ago leaves");
        met.meet(NodeId(7), 90.0, false);
        met.note_report(NodeId(8), 90.0, NodeId(4));
        assert!(!known(&met, 7) && !known(&met, 8), "neither a claim nor a report displaces a node that was met");
    }
}
