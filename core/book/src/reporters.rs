//! Attribution of the entries of a bounded table to the peers that reported them, so that a flood evicts only its
//! sender's entries.

use crate::peers::{Identity, Peer};
use alloc::collections::{BTreeMap, BTreeSet};
use farlink_base::NodeId;

/// Peer that reported each entry of a table, and the order of the reports. When the table is full, the peer with the
/// most entries loses the one that it has not repeated for longest ([`Reporters::loser`]).
#[derive(Clone, Debug)]
pub struct Reporters<K> {
    by_key: BTreeMap<K, (NodeId, u64)>,
    by_reporter: BTreeMap<NodeId, BTreeSet<(u64, K)>>,
    count: u64,
}

impl<K> Default for Reporters<K> {
    fn default() -> Self {
        Reporters { by_key: BTreeMap::new(), by_reporter: BTreeMap::new(), count: 0 }
    }
}

impl<K: Ord + Copy> Reporters<K> {
    /// Node under which a neighbour's reports are counted. Unauthenticated neighbours share the null node, however many
    /// names they claim.
    pub fn name(peer: &Peer) -> NodeId {
        if peer.identity() >= Identity::Address { peer.node } else { NodeId::NULL }
    }
    /// Notes that `reporter` reported an entry. An entry of another peer passes to `reporter` only if `reporter` has
    /// fewer: a peer that repeats everything must not have everything evicted.
    pub fn note(&mut self, key: K, reporter: NodeId) {
        if let Some((before, _)) = self.by_key.get(&key).copied() {
            // The peer with fewer entries is believed to know the entry first-hand.
            if before != reporter && self.of(reporter) >= self.of(before) {
                return;
            }
            self.forget(key);
        }
        // The count orders the entries of one reporter by their last report.
        self.count += 1;
        self.by_key.insert(key, (reporter, self.count));
        self.by_reporter.entry(reporter).or_default().insert((self.count, key));
    }
    /// Removes an entry that has left the table, or that this node now knows first-hand.
    pub fn forget(&mut self, key: K) {
        let Some((reporter, number)) = self.by_key.remove(&key) else { return };
        if let Some(all) = self.by_reporter.get_mut(&reporter) {
            all.remove(&(number, key));
            if all.is_empty() {
                self.by_reporter.remove(&reporter);
            }
        }
    }
    /// Removes the entries for which `stays` is false, because they have left the table.
    pub fn retain(&mut self, mut stays: impl FnMut(&K) -> bool) {
        let gone: alloc::vec::Vec<K> = self.by_key.keys().filter(|key| !stays(key)).copied().collect();
        gone.into_iter().for_each(|key| self.forget(key));
    }
    /// Entry to evict from a full table; `None` if nothing was reported.
    pub fn loser(&self) -> Option<K> {
        // The reporter with the most entries pays for the space.
        let longest = self.by_reporter.values().max_by_key(|entries| entries.len())?;
        longest.first().map(|(_, key)| *key)
    }
    /// Whether the entry was reported.
    pub fn has(&self, key: K) -> bool {
        self.by_key.contains_key(&key)
    }
    /// Number of entries of the peer that has most.
    pub fn most(&self) -> usize {
        self.by_reporter.values().map(BTreeSet::len).max().unwrap_or(0)
    }
    /// Number of reported entries.
    pub fn len(&self) -> usize {
        self.by_key.len()
    }
    /// Whether there are no reported entries.
    pub fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }
    fn of(&self, reporter: NodeId) -> usize {
        self.by_reporter.get(&reporter).map_or(0, BTreeSet::len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peers::{Origin, Peers};
    use farlink_base::EndpointId;

    const HONEST: NodeId = NodeId(2);
    const LIAR: NodeId = NodeId(3);

    /// Notes a report in a table of at most a hundred entries.
    fn report(reporters: &mut Reporters<u64>, key: u64, reporter: NodeId) {
        if reporters.len() >= 100 && !reporters.by_key.contains_key(&key) {
            let loser = reporters.loser().unwrap();
            reporters.forget(loser);
        }
        reporters.note(key, reporter);
    }

    #[test]
    fn flood_evicts_its_own() {
        let mut reporters = Reporters::default();
        (0..40).for_each(|key| report(&mut reporters, key, HONEST));
        // The flood outgrows the table many times over.
        (1_000..90_000).for_each(|key| report(&mut reporters, key, LIAR));
        assert!((0..40).all(|key| reporters.by_key.contains_key(&key)));
        assert_eq!((reporters.len(), reporters.most(), reporters.by_reporter.len()), (100, 60, 2));
        assert!(reporters.by_key.contains_key(&89_999) && !reporters.by_key.contains_key(&1_000));
    }

    #[test]
    fn repeating_takes_over_from_larger_reporter() {
        let mut reporters = Reporters::default();
        (0..40).for_each(|key| report(&mut reporters, key, HONEST));
        (100..140).for_each(|key| report(&mut reporters, key, LIAR));
        (0..40).for_each(|key| report(&mut reporters, key, LIAR));
        (1_000..9_000).for_each(|key| report(&mut reporters, key, LIAR));
        assert!((0..40).all(|key| reporters.by_key.get(&key).is_some_and(|(reporter, _)| *reporter == HONEST)));
        // A peer without entries takes over one of the largest reporter.
        report(&mut reporters, 8_999, NodeId(4));
        assert_eq!(
            reporters.by_key[&8_999].0,
            NodeId(4),
            "it has no other entry, so it is taken to know this one first-hand"
        );
    }

    #[test]
    fn repeated_entry_leaves_last() {
        let mut reporters = Reporters::default();
        [1, 2, 3, 1].into_iter().for_each(|key| reporters.note(key, LIAR));
        assert_eq!(reporters.loser(), Some(2));
        reporters.retain(|key| *key == 1);
        reporters.forget(7);
        assert_eq!((reporters.loser(), reporters.len()), (Some(1), 1));
        reporters.forget(1);
        assert!(
            reporters.loser().is_none()
                && reporters.is_empty()
                && reporters.by_reporter.is_empty()
                && reporters.most() == 0
        );
    }

    #[test]
    fn unauthenticated_peers_are_one_reporter() {
        let mut peers = Peers::new(0);
        let mut name = |number, identity| {
            let id = peers.add(Origin::Came);
            peers.learn(id, EndpointId::ipn(number, 0), identity);
            Reporters::<u64>::name(peers.get(id).unwrap())
        };
        assert_eq!((name(5, Identity::Claimed), name(6, Identity::Claimed)), (NodeId::NULL, NodeId::NULL));
        assert_eq!((name(7, Identity::Address), name(8, Identity::Proven)), (NodeId(7), NodeId(8)));
    }
}
