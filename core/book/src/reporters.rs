//! Attribution of the entries of a bounded table to the peers that reported them, so that a flood evicts only its
//! sender's entries.

use crate::peers::{Identity, Peer};
use alloc::collections::{BTreeMap, BTreeSet};
use farlink_base::NodeId;

/// Reporter and order of each reported entry of a table. When the table is full, the peer with the most entries loses
/// the one it has not repeated for longest ([`Reporters::loser`]).
#[derive(Clone, Debug)]
pub struct Reporters<K> {
    told: BTreeMap<K, (NodeId, u64)>,
    by_teller: BTreeMap<NodeId, BTreeSet<(u64, K)>>,
    count: u64,
}

impl<K> Default for Reporters<K> {
    fn default() -> Self {
        Reporters { told: BTreeMap::new(), by_teller: BTreeMap::new(), count: 0 }
    }
}

impl<K: Ord + Copy> Reporters<K> {
    /// Name under which a neighbour reports. Unauthenticated neighbours share the null node, however many names they
    /// claim.
    pub fn name(peer: &Peer) -> NodeId {
        if peer.identity() >= Identity::Address { peer.node } else { NodeId::NULL }
    }
    /// Notes that a peer reported an entry. The entry of another peer changes hands only to a peer with fewer
    /// entries: otherwise a peer that repeats everything could have everything evicted.
    pub fn note(&mut self, key: K, teller: NodeId) {
        if let Some((before, _)) = self.told.get(&key).copied() {
            // The peer with fewer entries is believed to know the entry first-hand.
            if before != teller && self.of(teller) >= self.of(before) {
                return;
            }
            self.forget(key);
        }
        // The count orders the entries of one reporter by their last report.
        self.count += 1;
        self.told.insert(key, (teller, self.count));
        self.by_teller.entry(teller).or_default().insert((self.count, key));
    }
    /// Removes an entry that left the table or that this node now knows first-hand.
    pub fn forget(&mut self, key: K) {
        let Some((teller, number)) = self.told.remove(&key) else { return };
        if let Some(all) = self.by_teller.get_mut(&teller) {
            all.remove(&(number, key));
            if all.is_empty() {
                self.by_teller.remove(&teller);
            }
        }
    }
    /// Removes the entries that left the table.
    pub fn retain(&mut self, mut stays: impl FnMut(&K) -> bool) {
        let gone: alloc::vec::Vec<K> = self.told.keys().filter(|key| !stays(key)).copied().collect();
        gone.into_iter().for_each(|key| self.forget(key));
    }
    /// Entry to evict from a full table; `None` if nothing was reported.
    pub fn loser(&self) -> Option<K> {
        // The reporter with the most entries pays for the space.
        let longest = self.by_teller.values().max_by_key(|told| told.len())?;
        longest.first().map(|(_, key)| *key)
    }
    /// Whether the entry was reported.
    pub fn has(&self, key: K) -> bool {
        self.told.contains_key(&key)
    }
    /// Number of entries of the peer that reported most.
    pub fn most(&self) -> usize {
        self.by_teller.values().map(BTreeSet::len).max().unwrap_or(0)
    }
    /// Number of reported entries.
    pub fn len(&self) -> usize {
        self.told.len()
    }
    /// Whether there are no reported entries.
    pub fn is_empty(&self) -> bool {
        self.told.is_empty()
    }
    fn of(&self, teller: NodeId) -> usize {
        self.by_teller.get(&teller).map_or(0, BTreeSet::len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peers::{Origin, Peers};
    use farlink_base::EndpointId;

    const HONEST: NodeId = NodeId(2);
    const LIAR: NodeId = NodeId(3);

    /// A table of a hundred.
    fn tell(tellers: &mut Reporters<u64>, key: u64, teller: NodeId) {
        if tellers.len() >= 100 && !tellers.told.contains_key(&key) {
            let loser = tellers.loser().unwrap();
            tellers.forget(loser);
        }
        tellers.note(key, teller);
    }

    #[test]
    fn flood_evicts_its_own() {
        let mut tellers = Reporters::default();
        (0..40).for_each(|key| tell(&mut tellers, key, HONEST));
        // The flood outgrows the table many times over.
        (1_000..90_000).for_each(|key| tell(&mut tellers, key, LIAR));
        assert!((0..40).all(|key| tellers.told.contains_key(&key)));
        assert_eq!((tellers.len(), tellers.most(), tellers.by_teller.len()), (100, 60, 2));
        assert!(tellers.told.contains_key(&89_999) && !tellers.told.contains_key(&1_000));
    }

    #[test]
    fn repeating_takes_over_from_larger_reporter() {
        let mut tellers = Reporters::default();
        (0..40).for_each(|key| tell(&mut tellers, key, HONEST));
        (100..140).for_each(|key| tell(&mut tellers, key, LIAR));
        (0..40).for_each(|key| tell(&mut tellers, key, LIAR));
        (1_000..9_000).for_each(|key| tell(&mut tellers, key, LIAR));
        assert!((0..40).all(|key| tellers.told.get(&key).is_some_and(|(teller, _)| *teller == HONEST)));
        // A peer without entries takes over one of the largest reporter.
        tell(&mut tellers, 8_999, NodeId(4));
        assert_eq!(tellers.told[&8_999].0, NodeId(4), "it told nothing else, and is believed to know it itself");
    }

    #[test]
    fn repeated_entry_leaves_last() {
        let mut tellers = Reporters::default();
        [1, 2, 3, 1].into_iter().for_each(|key| tellers.note(key, LIAR));
        assert_eq!(tellers.loser(), Some(2));
        tellers.retain(|key| *key == 1);
        tellers.forget(7);
        assert_eq!((tellers.loser(), tellers.len()), (Some(1), 1));
        tellers.forget(1);
        assert!(tellers.loser().is_none() && tellers.is_empty() && tellers.by_teller.is_empty() && tellers.most() == 0);
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
