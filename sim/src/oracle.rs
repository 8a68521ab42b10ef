//! Oracle: network-wide knowledge that no node can have, such as copies and forwards of each bundle. Agents report to
//! it; policies that are registered for it query it.

use farlink_bpa::Oracle;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

#[derive(Default)]
struct OracleBundle {
    copies: u64,
    forwards: u64,
    /// Nodes that hold or held the bundle.
    seen: HashSet<u32>,
}

/// Bundles that some node holds, by identity; never iterated.
#[derive(Default)]
struct Bundles {
    known: HashMap<u128, OracleBundle>,
    /// Sum over all known bundles.
    forwards: u64,
}

/// Oracle of one run, as one of its nodes sees it.
#[derive(Default)]
pub(crate) struct Network {
    bundles: Arc<Mutex<Bundles>>,
    node: u32,
    nodes: u64,
}

impl Network {
    pub(crate) fn of_nodes(nodes: usize) -> Network {
        Network { nodes: nodes as u64, ..Network::default() }
    }
    pub(crate) fn at(&self, node: usize) -> Network {
        Network { bundles: self.bundles.clone(), node: node as u32, nodes: self.nodes }
    }
    fn bundles(&self) -> MutexGuard<'_, Bundles> {
        self.bundles.lock().unwrap_or_else(PoisonError::into_inner)
    }
    fn of(&self, id: u128, what: impl Fn(&OracleBundle) -> u64) -> u64 {
        self.bundles().known.get(&id).map_or(0, what)
    }
}

impl Oracle for Network {
    fn copies(&self, id: u128) -> u64 {
        self.of(id, |bundle| bundle.copies)
    }
    fn forwards(&self, id: u128) -> u64 {
        self.of(id, |bundle| bundle.forwards)
    }
    /// Number of nodes that hold or held the bundle, without its source.
    fn seen(&self, id: u128) -> u64 {
        self.of(id, |bundle| (bundle.seen.len() as u64).saturating_sub(1))
    }
    fn nodes(&self) -> u64 {
        self.nodes
    }
    /// Mean over the bundles that some node holds.
    fn mean_forwards(&self) -> f64 {
        let bundles = self.bundles();
        if bundles.known.is_empty() { 0.0 } else { bundles.forwards as f64 / bundles.known.len() as f64 }
    }
    fn kept(&mut self, id: u128) {
        let mut bundles = self.bundles();
        let bundle = bundles.known.entry(id).or_default();
        bundle.copies += 1;
        bundle.seen.insert(self.node);
    }
    fn forwarded(&mut self, id: u128) {
        let mut bundles = self.bundles();
        if let Some(bundle) = bundles.known.get_mut(&id) {
            bundle.forwards += 1;
            bundles.forwards += 1;
        }
    }
    fn gone(&mut self, id: u128) {
        let mut bundles = self.bundles();
        // A second deletion of a bundle is ignored.
        let Some(bundle) = bundles.known.get_mut(&id) else { return };
        bundle.copies -= 1;
        // A bundle without copies no longer counts in the mean.
        if bundle.copies == 0 {
            let forwards = bundle.forwards;
            bundles.known.remove(&id);
            bundles.forwards -= forwards;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oracle_is_shared_and_forgets_deleted() {
        let network = Network::of_nodes(3);
        let mut nodes = [0, 1, 2].map(|node| network.at(node));
        nodes[0].kept(7);
        nodes[1].kept(7);
        nodes[0].forwarded(7);
        nodes[0].gone(7);
        nodes[2].kept(8);
        nodes[1].forwarded(7);
        nodes[1].forwarded(9);
        assert_eq!((nodes[2].copies(7), nodes[2].forwards(7), nodes[2].mean_forwards()), (1, 2, 1.0));
        assert_eq!((nodes[2].seen(7), nodes[2].seen(8), nodes[2].seen(9), nodes[1].nodes()), (1, 0, 0, 3));
        nodes[1].gone(7);
        nodes[1].gone(7);
        assert_eq!((nodes[2].copies(7), nodes[2].forwards(7), nodes[2].mean_forwards()), (0, 0, 0.0));
    }
}
