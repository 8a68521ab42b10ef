//! Lists threaded through the slots of the book: each entry is in the list of all entries by arrival, in that of its
//! destination and in that of its expiry bucket. Each list costs an entry two numbers.
//!
//! The owner of a list keeps only the slot of its head; the head's `prev` is the tail. The tail's `next` is not a slot
//! (its upper bit is set) but a value of the owner, which moves along when the tail changes: the lists of destinations
//! in one bucket are chained by it.

use crate::held::{Held, ListLinks};
use crate::pages::{NIL, Pool};

/// Slots with the entries of the book; the first page has 8.
pub(crate) type Slots = Pool<Held, 3>;

/// One of the three lists through each entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Thread {
    Arrival,
    Towards,
    Expiry,
}

const END: u32 = 1 << 31;

/// Whether this `next` marks the end of a list.
#[inline]
pub(crate) const fn is_end(next: u32) -> bool {
    next & END != 0
}
/// Value that the owner stored at the end of a list: a slot or [`NIL`].
pub(crate) const fn written(end: u32) -> u32 {
    if end == NIL { NIL } else { end & !END }
}
/// Mark for the end of a list that stores this value, a slot or [`NIL`].
pub(crate) const fn end_with(slot: u32) -> u32 {
    slot | END
}

impl Slots {
    /// Links of an entry in one of its lists.
    #[inline]
    pub fn links(&self, thread: Thread, slot: u32) -> ListLinks {
        self[slot].links[thread as usize]
    }
    #[inline]
    pub fn links_mut(&mut self, thread: Thread, slot: u32) -> &mut ListLinks {
        &mut self[slot].links[thread as usize]
    }
    /// Starts a list with one entry; `end` is the mark of its end.
    pub fn begin(&mut self, thread: Thread, slot: u32, end: u32) {
        *self.links_mut(thread, slot) = ListLinks { prev: slot, next: end };
    }
    /// Appends an entry to the list with this head.
    pub fn push_back(&mut self, thread: Thread, head: u32, slot: u32) {
        // The head's `prev` is the tail. The old tail's `next` holds the owner's value, which moves to the new tail.
        let tail = core::mem::replace(&mut self.links_mut(thread, head).prev, slot);
        let end = core::mem::replace(&mut self.links_mut(thread, tail).next, slot);
        *self.links_mut(thread, slot) = ListLinks { prev: tail, next: end };
    }
    /// Whether an entry is neither head nor tail of its list. Then it can be removed without the list's head.
    pub fn is_inner(&self, thread: Thread, slot: u32) -> bool {
        let links = self.links(thread, slot);
        !is_end(links.next) && !is_end(self.links(thread, links.prev).next)
    }
    /// Removes an entry from the list that begins with `head`; for an inner entry `head` may be [`NIL`]. Returns the
    /// new head, or the mark of the end if the list is now empty.
    pub fn unlink(&mut self, thread: Thread, head: u32, slot: u32) -> u32 {
        let ListLinks { prev, next } = core::mem::replace(self.links_mut(thread, slot), ListLinks::NONE);
        // The head's predecessor is the tail, which the next head takes over.
        if head == slot {
            if !is_end(next) {
                self.links_mut(thread, next).prev = prev;
            }
            return next;
        }
        self.links_mut(thread, prev).next = next;
        // An entry without a successor was the tail, and the head must point to the new tail.
        self.links_mut(thread, if is_end(next) { head } else { next }).prev = prev;
        head
    }
    /// Iterates over the list that begins with `head`; over nothing if that is [`NIL`].
    pub fn walk(&self, thread: Thread, head: u32) -> ListWalk<'_> {
        ListWalk { slots: self, thread, at: head }
    }
    /// Checks a list's links; returns its length.
    pub fn audit_list(&self, thread: Thread, head: u32) -> usize {
        let (mut count, mut before) = (0, NIL);
        for held in self.walk(thread, head) {
            // A list that does not begin with its head has lost entries.
            assert_eq!(before == NIL, held.slot == head, "{thread:?}: the head comes first");
            assert!(before == NIL || self.links(thread, held.slot).prev == before, "{thread:?}: prev");
            (count, before) = (count + 1, held.slot);
            assert!(count <= self.len() as usize, "{thread:?} goes round");
        }
        assert!(head == NIL || self.links(thread, head).prev == before, "{thread:?}: the head knows the tail");
        count
    }
}

/// Iterator over one list, from its head.
pub(crate) struct ListWalk<'a> {
    slots: &'a Slots,
    thread: Thread,
    at: u32,
}
impl<'a> Iterator for ListWalk<'a> {
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
