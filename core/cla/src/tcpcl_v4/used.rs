//! Set of the transfer IDs that a peer has used in a session; each may be used once (RFC 9174 5.2.1).

use alloc::collections::BTreeMap;

/// Most runs remembered. If there are more, the two lowest merge, and the numbers between them count as used. Genuine
/// peers count up, and need a single run.
const RUNS_MAX: usize = 256;

/// Set of transfer IDs, stored as runs of consecutive numbers.
#[derive(Debug, Default)]
pub struct UsedIds {
    /// Last number of each run, by the run's first number.
    runs: BTreeMap<u64, u64>,
}

impl UsedIds {
    /// Records a number; returns whether it is new.
    // 9174-5.2.1-1
    pub fn insert(&mut self, id: u64) -> bool {
        let below = self.runs.range(..=id).next_back().map(|(first, last)| (*first, *last));
        if below.is_some_and(|(_, last)| last >= id) {
            return false;
        }
        let first = below.filter(|(_, last)| last + 1 == id).map_or(id, |(first, _)| first);
        let last = id.checked_add(1).and_then(|next| self.runs.remove(&next)).unwrap_or(id);
        self.runs.insert(first, last);
        if self.runs.len() > RUNS_MAX
            && let (Some((first, _)), Some((_, last))) = (self.runs.pop_first(), self.runs.pop_first())
        {
            self.runs.insert(first, last);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    /// Keeps 9174-5.2.1-1.
    #[test]
    fn each_transfer_id_is_new_once() {
        let mut used = UsedIds::default();
        for id in [5, 3, 4, u64::MAX, 0, u64::MAX - 1, 7] {
            assert!(used.insert(id), "{id}");
            assert!(!used.insert(id), "{id}");
        }
        let runs: Vec<(u64, u64)> = used.runs.into_iter().collect();
        assert_eq!(runs, [(0, 0), (3, 5), (7, 7), (u64::MAX - 1, u64::MAX)]);
    }

    #[test]
    fn random_transfer_ids_use_bounded_memory() {
        let mut used = UsedIds::default();
        let ids = || (0..10_000u64).map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        for id in ids() {
            used.insert(id);
        }
        assert!(used.runs.len() <= RUNS_MAX);
        assert!(ids().all(|id| !used.insert(id)));
    }
}
