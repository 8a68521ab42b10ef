//! Index of held bundles by destination node. A bucket holds destinations, not bundles: each destination is a list of
//! its bundles, and the lists of one bucket are chained through their ends. So a bucket with a million bundles for one
//! node splits as fast as any, and a destination costs nothing beyond its bucket's head.

use crate::buckets::{BucketKey, Buckets};
use crate::lists::{Slots, Thread, end_with, is_end, written};
use crate::pages::NIL;
use farlink_base::NodeId;

const TOWARDS: Thread = Thread::Towards;

/// Buckets of destinations.
#[derive(Debug)]
pub(crate) struct Destinations {
    buckets: Buckets,
    count: u32,
}

impl Destinations {
    pub const fn new() -> Self {
        Destinations { buckets: Buckets::new(), count: 0 }
    }
    /// Head of the next list in the same bucket, or [`NIL`].
    fn after(slots: &Slots, head: u32) -> u32 {
        written(slots.links(TOWARDS, slots.links(TOWARDS, head).prev).next)
    }
    /// The oldest entry for a node, or [`NIL`].
    pub fn find(&self, slots: &Slots, key: BucketKey, node: NodeId) -> u32 {
        let mut head = self.buckets.find(key.node(node));
        while head != NIL && slots[head].destination() != node {
            head = Self::after(slots, head);
        }
        head
    }
    /// Adds an entry to its destination's list.
    pub fn insert(&mut self, slots: &mut Slots, key: BucketKey, slot: u32) {
        let node = slots[slot].destination();
        let head = self.find(slots, key, node);
        if head != NIL {
            return slots.push_back(TOWARDS, head, slot);
        }
        self.count += 1;
        if let Some((from, to)) = self.buckets.grow(self.count) {
            self.split(slots, key, from, to);
        }
        let place = self.buckets.place(key.node(node));
        slots.begin(TOWARDS, slot, end_with(self.buckets.head(place)));
        // The new destination becomes the first of its bucket; the end of its list refers to the one that was first.
        self.buckets.set(place, slot);
    }
    /// Splits a bucket's destinations between itself and a new one.
    fn split(&mut self, slots: &mut Slots, key: BucketKey, from: u32, to: u32) {
        let mut head = self.buckets.head(from);
        self.buckets.set(from, NIL);
        while head != NIL {
            let place = self.buckets.place(key.node(slots[head].destination()));
            debug_assert!(place == from || place == to);
            let tail = slots.links(TOWARDS, head).prev;
            let end = end_with(self.buckets.head(place));
            self.buckets.set(place, head);
            head = written(core::mem::replace(&mut slots.links_mut(TOWARDS, tail).next, end));
        }
    }
    /// Removes an entry from its destination's list.
    pub fn remove(&mut self, slots: &mut Slots, key: BucketKey, slot: u32) {
        // The bucket refers only to the head and end of a list, which stay if an inner entry is removed.
        if slots.is_inner(TOWARDS, slot) {
            slots.unlink(TOWARDS, NIL, slot);
            return;
        }
        let place = self.buckets.place(key.node(slots[slot].destination()));
        let (mut head, mut before) = (self.buckets.head(place), NIL);
        loop {
            let tail = slots.links(TOWARDS, head).prev;
            if head == slot || tail == slot {
                break;
            }
            (before, head) = (tail, written(slots.links(TOWARDS, tail).next));
        }
        // `before` is the tail of the list that refers to this one; [`NIL`] if the bucket does.
        let mut now = slots.unlink(TOWARDS, head, slot);
        // The list is now empty: its end holds the head of the next list.
        if is_end(now) {
            self.count -= 1;
            now = written(now);
        }
        match before {
            NIL => self.buckets.set(place, now),
            tail => slots.links_mut(TOWARDS, tail).next = end_with(now),
        }
    }
    /// Checks that each entry is in the list of its destination, and each list in its bucket.
    pub fn audit(&self, slots: &Slots, key: BucketKey) {
        let (mut entries, mut lists) = (0, 0);
        for place in 0..self.buckets.len() {
            let mut head = self.buckets.head(place);
            while head != NIL {
                let node = slots[head].destination();
                assert_eq!(self.buckets.place(key.node(node)), place, "place of a destination");
                assert_eq!(self.find(slots, key, node), head, "a destination has one list");
                assert!(slots.walk(TOWARDS, head).all(|held| held.destination() == node));
                entries += slots.audit_list(TOWARDS, head);
                (lists, head) = (lists + 1, Self::after(slots, head));
                assert!(lists <= self.count, "a bucket of destinations goes round");
            }
        }
        assert_eq!((entries, lists), (slots.len() as usize, self.count), "destinations");
    }
}
