//! Bytes kept per source, bounded: no hostile or broken source can fill the store for all.

use alloc::collections::BTreeMap;

/// Bytes kept for each quota key, all under the same limit.
#[derive(Debug)]
pub(crate) struct Quotas {
    limit: u64,
    used: BTreeMap<u64, u64>,
}
impl Quotas {
    /// Limits every key to `limit` bytes.
    pub(crate) fn new(limit: u64) -> Self {
        Quotas { limit, used: BTreeMap::new() }
    }
    /// Whether `key` may keep `bytes` more.
    pub(crate) fn allows(&self, key: u64, bytes: u64) -> bool {
        self.used(key).saturating_add(bytes) <= self.limit
    }
    /// Counts bytes to `key`.
    pub(crate) fn add(&mut self, key: u64, bytes: u64) {
        *self.used.entry(key).or_insert(0) += bytes;
    }
    /// Subtracts bytes from `key`; a key without bytes costs no memory.
    pub(crate) fn remove(&mut self, key: u64, bytes: u64) {
        if let Some(used) = self.used.get_mut(&key) {
            *used = used.saturating_sub(bytes);
            if *used == 0 {
                self.used.remove(&key);
            }
        }
    }
    /// Bytes counted to `key`.
    pub(crate) fn used(&self, key: u64) -> u64 {
        self.used.get(&key).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quota_limits_key_until_empty() {
        let mut quotas = Quotas::new(100);
        quotas.add(7, 60);
        // Each key has a limit of its own.
        assert!(quotas.allows(7, 40) && !quotas.allows(7, 41) && quotas.allows(8, 100));
        quotas.remove(7, 60);
        assert_eq!(quotas.used(7), 0);
        assert!(quotas.used.is_empty());
        // A removal beyond the balance must not wrap around.
        quotas.remove(7, 1);
        assert!(!quotas.allows(7, u64::MAX));
    }
}
