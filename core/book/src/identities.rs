//! Index of held bundles by identity. Anonymous bundles have no identity (RFC 9171 4.2.3).

use crate::buckets::{BucketKey, Buckets};
use crate::held::Held;
use crate::lists::Slots;
use crate::pages::NIL;

/// Buckets of entries, chained by [`Held::chain`].
#[derive(Debug)]
pub(crate) struct Identities {
    buckets: Buckets,
    count: u32,
}

/// Bits of an identity's hash that are kept in the entry: they rule out most other entries of a bucket without access
/// to the bundle, and from 65,536 buckets on they also decide the split.
fn tag(hash: u64) -> u16 {
    (hash >> TAG) as u16
}
const TAG: u32 = 16;

impl Identities {
    pub const fn new() -> Self {
        Identities { buckets: Buckets::new(), count: 0 }
    }
    /// Entry with this identity; all its bits are compared.
    pub fn find<'a>(&self, slots: &'a Slots, key: BucketKey, id: u128) -> Option<&'a Held> {
        let hash = key.identity(id);
        let mut at = self.buckets.find(hash);
        while at != NIL {
            let held = &slots[at];
            // The tag rules out nearly all others without access to the bundle's memory.
            if held.tag == tag(hash) && held.bundle.id == id {
                return Some(held);
            }
            at = held.chain;
        }
        None
    }
    /// Adds an entry, unless its bundle is anonymous.
    pub fn insert(&mut self, slots: &mut Slots, key: BucketKey, slot: u32) {
        if slots[slot].bundle.is_anonymous() {
            return;
        }
        self.count += 1;
        if let Some((from, to)) = self.buckets.grow(self.count) {
            self.split(slots, key, from, to);
        }
        let hash = key.identity(slots[slot].bundle.id);
        let place = self.buckets.place(hash);
        let held = &mut slots[slot];
        (held.tag, held.chain) = (tag(hash), self.buckets.head(place));
        self.buckets.set(place, slot);
    }
    /// Splits a bucket's entries between itself and a new bucket, by the next binary digit of their hashes.
    fn split(&mut self, slots: &mut Slots, key: BucketKey, from: u32, to: u32) {
        let digit = to.ilog2();
        let mut at = self.buckets.head(from);
        self.buckets.set(from, NIL);
        while at != NIL {
            let held = &slots[at];
            // A tag of 16 bits holds the digits from `TAG` on, so large tables split without hashing again.
            let hash = if digit < TAG { key.identity(held.bundle.id) } else { u64::from(held.tag) << TAG };
            let place = if hash >> digit & 1 == 1 { to } else { from };
            let next = core::mem::replace(&mut slots[at].chain, self.buckets.head(place));
            self.buckets.set(place, at);
            at = next;
        }
    }
    /// Removes an entry.
    pub fn remove(&mut self, slots: &mut Slots, key: BucketKey, slot: u32) {
        let held = &slots[slot];
        if held.bundle.is_anonymous() {
            return;
        }
        let (place, after) = (self.buckets.place(key.identity(held.bundle.id)), held.chain);
        let mut at = self.buckets.head(place);
        // The predecessor is found by a walk from the bucket's head, because entries have no link back.
        if at == slot {
            self.buckets.set(place, after);
        } else {
            while slots[at].chain != slot {
                at = slots[at].chain;
            }
            slots[at].chain = after;
        }
        self.count -= 1;
    }
    /// Checks that each entry with an identity is in its bucket exactly once, and no other entry is.
    pub fn audit(&self, slots: &Slots, key: BucketKey) {
        let mut count = 0;
        for place in 0..self.buckets.len() {
            let mut at = self.buckets.head(place);
            while at != NIL {
                let held = &slots[at];
                let hash = key.identity(held.bundle.id);
                assert_eq!((self.buckets.place(hash), tag(hash)), (place, held.tag), "place of an identity");
                assert!(!held.bundle.is_anonymous(), "anonymous bundles have no identity");
                (count, at) = (count + 1, held.chain);
                assert!(count <= self.count, "a bucket of identities goes round");
            }
        }
        let named = slots.iter().filter(|(_, held)| !held.bundle.is_anonymous()).count();
        assert_eq!((count, named), (self.count, self.count as usize), "identities");
    }
}
