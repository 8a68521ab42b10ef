//! Heads of the buckets of a hash table, which are split one at a time (linear hashing, Litwin 1980): adding an entry
//! never moves more than one bucket. Entries of a bucket are chained through the slots.

use crate::pages::{NIL, Pages};
use farlink_base::{NodeId, Rng};

/// Secret key of the placement in buckets, so that senders cannot aim at one bucket. The identities alone would not do:
/// they are the same on all nodes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BucketKey(u64);

impl BucketKey {
    pub fn new(seed: u64) -> BucketKey {
        BucketKey(Rng::new(seed).next_u64())
    }
    /// Hash of a bundle identity.
    #[inline]
    pub fn identity(self, id: u128) -> u64 {
        fold(id as u64 ^ self.0, (id >> 64) as u64 ^ self.0.rotate_left(32))
    }
    /// Hash of a node number.
    #[inline]
    pub fn node(self, node: NodeId) -> u64 {
        fold(node.0 ^ self.0, self.0.rotate_left(32) ^ 0x9E37_79B9_7F4A_7C15)
    }
}

/// Multiplies two numbers and combines both halves of the product, as in wyhash and foldhash.
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

/// First slots of all buckets.
#[derive(Debug)]
pub(crate) struct Buckets {
    heads: Pages<u32, 4>,
    count: u32,
}

impl Buckets {
    pub const fn new() -> Self {
        Buckets { heads: Pages::new(), count: 0 }
    }
    /// Number of buckets.
    pub fn len(&self) -> u32 {
        self.count
    }
    /// Number of the bucket for a hash; at least one bucket must exist.
    #[inline]
    pub fn place(&self, hash: u64) -> u32 {
        // This mask has as many bits as the number of buckets.
        let low = u32::MAX >> self.count.leading_zeros();
        let place = hash as u32 & low;
        // If that bucket does not exist yet, its entries are still in the one it will be split from.
        if place < self.count { place } else { place & (low >> 1) }
    }
    /// First slot of a bucket; [`NIL`] if the bucket is empty.
    #[inline]
    pub fn head(&self, place: u32) -> u32 {
        self.heads[place]
    }
    /// First slot of the bucket for a hash; [`NIL`] if the bucket is empty.
    #[inline]
    pub fn find(&self, hash: u64) -> u32 {
        if self.count == 0 { NIL } else { self.heads[self.place(hash)] }
    }
    /// Sets the first slot of a bucket.
    pub fn set(&mut self, place: u32, head: u32) {
        self.heads[place] = head;
    }
    /// Adds a bucket if there are fewer buckets than `entries`. Returns the numbers of the bucket to be split and of
    /// the new one; `None` if no bucket was added, or if the new one is the first.
    pub fn grow(&mut self, entries: u32) -> Option<(u32, u32)> {
        if entries <= self.count {
            return None;
        }
        if self.count == self.heads.len() {
            self.heads.grow(|_| NIL);
        }
        let new = self.count;
        self.count += 1;
        (new > 0).then(|| (new - (1 << new.ilog2()), new))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_bucket_splits_one_other() {
        let (key, mut buckets) = (BucketKey::new(3), Buckets::new());
        let hashes: alloc::vec::Vec<u64> = (0..2000).map(|node| key.node(NodeId::ipn(node))).collect();
        for entries in 1..1500 {
            let before: alloc::vec::Vec<u32> =
                // `place` requires a bucket, and the first one is added by the call of `grow` for one entry.
                hashes.iter().map(|h| if entries == 1 { 0 } else { buckets.place(*h) }).collect();
            let (from, new) = buckets.grow(entries).unwrap_or((0, 0));
            for (hash, before) in hashes.iter().zip(before) {
                let place = buckets.place(*hash);
                assert!(place == before || before == from && place == new);
            }
            assert_eq!(buckets.grow(entries), None);
        }
    }

    #[test]
    fn the_seed_places() {
        let (one, two) = (BucketKey::new(1), BucketKey::new(2));
        let low =
            |key: BucketKey| (0..64u128).map(|id| key.identity(id << 64 | 5) & 1023).collect::<alloc::vec::Vec<_>>();
        assert_ne!(low(one), low(two));
        let mut distinct = low(one);
        // Identities that differ in their upper half only must not share a bucket.
        distinct.sort_unstable();
        distinct.dedup();
        assert!(distinct.len() > 50, "{}", distinct.len());
    }
}
