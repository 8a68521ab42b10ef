//! Lists threaded through the slots of the book: each entry is in the list of all by arrival, in
//! that of its destination and in that of its bucket of expiry, at no cost but two numbers each.
//!
//! Who owns a list keeps the slot of its head only: the head's `prev` is the tail. The tail's `next`
//! is no slot (its upper bit is set) and moves along when the tail changes, so that an owner may
//! write something into it: the lists of destinations of one bucket are chained by it.

use crate::held::{Held, Links};
use crate::pages::{NIL, Pool};

/// The entries of the book; 8 in the first page.
pub(crate) type Slots = Pool<Held, 3>;

/// Which list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Thread {
    Arrival,
    Towards,
    Expiry,
}

const END: u32 = 1 << 31;

/// Whether this `next` is the end of a list.
#[inline]
pub(crate) const fn is_end(next: u32) -> bool {
    next & END != 0
}
/// What an owner wrote at the end of a list: a slot or [`NIL`].
pub(crate) const fn written(end: u32) -> u32 {
    if end == NIL { NIL } else { end & !END }
}
/// The end of a list with this slot, or [`NIL`], written into it.
pub(crate) const fn end_with(slot: u32) -> u32 {
    slot | END
}

impl Slots {
    /// The neighbours of an entry in one of its lists.
    #[inline]
    pub fn links(&self, thread: Thread, slot: u32) -> Links {
        self[slot].links[thread as usize]
    }
    #[inline]
    pub fn links_mut(&mut self, thread: Thread, slot: u32) -> &mut Links {
        &mut self[slot].links[thread as usize]
    }
    /// Begins a list of one.
    pub fn begin(&mut self, thread: Thread, slot: u32, end: u32) {
        *self.links_mut(thread, slot) = Links { prev: slot, next: end };
    }
    /// Adds an entry to the list with this head.
    pub fn push_back(&mut self, thread: Thread, head: u32, slot: u32) {
        let tail = core::mem::replace(&mut self.links_mut(thread, head).prev, slot);
        let end = core::mem::replace(&mut self.links_mut(thread, tail).next, slot);
        *self.links_mut(thread, slot) = Links { prev: tail, next: end };
    }
    /// Whether an entry is neither head nor tail of its list, so that its owner need not be found.
    pub fn is_inner(&self, thread: Thread, slot: u32) -> bool {
        let links = self.links(thread, slot);
        !is_end(links.next) && !is_end(self.links(thread, links.prev).next)
    }
    /// Takes an entry out; `head` is the list's head, or [`NIL`] for an inner one. The head that the
    /// list has then; of a list of one its end.
    pub fn unlink(&mut self, thread: Thread, head: u32, slot: u32) -> u32 {
        let Links { prev, next } = core::mem::replace(self.links_mut(thread, slot), Links::NONE);
        if head == slot {
            if !is_end(next) {
                self.links_mut(thread, next).prev = prev;
            }
            return next;
        }
        self.links_mut(thread, prev).next = next;
        self.links_mut(thread, if is_end(next) { head } else { next }).prev = prev;
        head
    }
    /// The entries of the list with this head (or none, for [`NIL`]).
    pub fn walk(&self, thread: Thread, head: u32) -> Walk<'_> {
        Walk { slots: self, thread, at: head }
    }
    /// Checks a list's links; how many entries it has.
    pub fn audit_list(&self, thread: Thread, head: u32) -> usize {
        let (mut count, mut before) = (0, NIL);
        for held in self.walk(thread, head) {
            assert_eq!(before == NIL, held.slot == head, "{thread:?}: the head comes first");
            assert!(before == NIL || self.links(thread, held.slot).prev == before, "{thread:?}: prev");
            (count, before) = (count + 1, held.slot);
            assert!(count <= self.len() as usize, "{thread:?} goes round");
        }
        assert!(head == NIL || self.links(thread, head).prev == before, "{thread:?}: the head knows the tail");
        count
    }
}

/// Entries of one list, from its head.
pub(crate) struct Walk<'a> {
    slots: &'a Slots,
    thread: Thread,
    at: u32,
}
impl<'a> Iterator for Walk<'a> {
    type Item = &'a Held;
    fn next(&mut self) -> Option<&'a Held> {
        if is_end(self.at) {
            return None;
        }
        let held = &self.slots[self.at];
        self.at = held.links[self.thread as usize].next;
        Some(held)
    }
}
