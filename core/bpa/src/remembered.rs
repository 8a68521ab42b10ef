//! A bounded memory of delivered bundles, so that none is delivered twice.

use alloc::collections::VecDeque;
use farlink_base::{Set, set};

/// Remembers the newest identities; the oldest are forgotten first.
pub struct Deliveries {
    known: Set<u128>,
    order: VecDeque<u128>,
    capacity: usize,
}

impl Deliveries {
    /// Remembers up to `capacity` identities.
    pub fn new(capacity: usize, seed: u64) -> Self {
        Deliveries { known: set(seed), order: VecDeque::new(), capacity }
    }
    /// Whether this bundle was delivered.
    pub fn contains(&self, fingerprint: u128) -> bool {
        self.known.contains(&fingerprint)
    }
    /// Remembers one.
    pub fn insert(&mut self, fingerprint: u128) {
        if self.capacity == 0 || !self.known.insert(fingerprint) {
            return;
        }
        self.order.push_back(fingerprint);
        if self.order.len() > self.capacity {
            if let Some(oldest) = self.order.pop_front() {
                self.known.remove(&oldest);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_is_forgotten_first() {
        let mut memory = Deliveries::new(2, 0);
        for fingerprint in [1, 2, 2, 3] {
            memory.insert(fingerprint);
        }
        assert!(!memory.contains(1) && memory.contains(2) && memory.contains(3));
    }
}
