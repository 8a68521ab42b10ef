//! What no node can know: how many hold a bundle, and how often it was forwarded. Agents tell it what
//! they do; policies that are registered for it ask.

use farlink_bpa::Oracle;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

#[derive(Clone, Copy, Default)]
struct Bundle {
    copies: u64,
    forwards: u64,
}

/// Bundles that somebody holds, by identity; never walked.
#[derive(Default)]
struct Bundles {
    known: HashMap<u128, Bundle>,
    /// Of all in `known` together.
    forwards: u64,
}

/// The oracle of one run; each node has a clone.
#[derive(Clone, Default)]
pub(crate) struct Network(Arc<Mutex<Bundles>>);

impl Network {
    fn bundles(&self) -> MutexGuard<'_, Bundles> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
    fn of(&self, id: u128) -> Bundle {
        self.bundles().known.get(&id).copied().unwrap_or_default()
    }
}

impl Oracle for Network {
    fn copies(&self, id: u128) -> u64 {
        self.of(id).copies
    }
    fn forwards(&self, id: u128) -> u64 {
        self.of(id).forwards
    }
    /// Over the bundles that somebody holds.
    fn mean_forwards(&self) -> f64 {
        let bundles = self.bundles();
        if bundles.known.is_empty() { 0.0 } else { bundles.forwards as f64 / bundles.known.len() as f64 }
    }
    fn kept(&mut self, id: u128) {
        self.bundles().known.entry(id).or_default().copies += 1;
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
        let Some(bundle) = bundles.known.get_mut(&id) else { return };
        bundle.copies -= 1;
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
    fn clones_know_the_same_and_what_nobody_holds_counts_no_more() {
        let network = Network::default();
        let mut nodes = [(); 3].map(|()| network.clone());
        nodes[0].kept(7);
        nodes[1].kept(7);
        nodes[0].forwarded(7);
        nodes[0].gone(7);
        nodes[2].kept(8);
        nodes[1].forwarded(7);
        nodes[1].forwarded(9);
        assert_eq!((nodes[2].copies(7), nodes[2].forwards(7), nodes[2].mean_forwards()), (1, 2, 1.0));
        nodes[1].gone(7);
        nodes[1].gone(7);
        assert_eq!((nodes[2].copies(7), nodes[2].forwards(7), nodes[2].mean_forwards()), (0, 0, 0.0));
    }
}
