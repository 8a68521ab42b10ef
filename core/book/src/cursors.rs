//! Cursors: positions in the order of arrival that stay valid when bundles leave.
//!
//! Cursors on the same bundle share a *stand*. When the bundle leaves, its stand moves to the bundle before it; if that
//! has a stand, the smaller of the two joins the larger. So no bundle knows its cursors, a bundle without cursors costs
//! nothing, and thousands of cursors at the end of the book cost nothing when bundles come and leave there.

use crate::held::ListLinks;
use crate::lists::Slots;
use crate::pages::{NIL, Pool};
use alloc::collections::BTreeMap;

/// A cursor: its stand, and the cursors before and after it on that stand.
#[derive(Debug)]
struct BookCursor {
    stand: u32,
    beside: ListLinks,
}

/// A stand: all cursors on one entry.
#[derive(Debug)]
struct Stand {
    /// Slot of the entry; [`NIL`] for the position before the oldest.
    slot: u32,
    first: u32,
    count: u32,
}

/// All cursors of a book.
#[derive(Debug)]
pub(crate) struct Cursors {
    cursors: Pool<BookCursor, 2>,
    stands: Pool<Stand, 2>,
    by_slot: BTreeMap<u32, u32>,
}

impl Cursors {
    pub const fn new() -> Self {
        Cursors { cursors: Pool::new(), stands: Pool::new(), by_slot: BTreeMap::new() }
    }
    /// Opens a cursor before the oldest entry.
    pub fn open(&mut self, slots: &mut Slots) -> u32 {
        let cursor = self.cursors.insert(BookCursor { stand: NIL, beside: ListLinks::NONE });
        self.enter(slots, cursor, NIL);
        cursor
    }
    /// Number of cursors.
    pub fn len(&self) -> usize {
        self.cursors.len() as usize
    }
    /// Closes a cursor.
    pub fn close(&mut self, slots: &mut Slots, cursor: u32) {
        if self.cursors.get(cursor).is_some() {
            self.leave(slots, cursor);
            self.cursors.remove(cursor);
        }
    }
    /// Slot of the entry on which a cursor stands, [`NIL`] before the oldest; `None` if there is no such cursor.
    pub fn slot(&self, cursor: u32) -> Option<u32> {
        Some(self.stands[self.cursors.get(cursor)?.stand].slot)
    }
    /// Moves a cursor to an entry, or, with [`NIL`], before the oldest.
    pub fn go(&mut self, slots: &mut Slots, cursor: u32, slot: u32) {
        let Some(here) = self.slot(cursor).filter(|here| *here != slot) else { return };
        let stand = self.cursors[cursor].stand;
        if self.stands[stand].count > 1 || self.by_slot.contains_key(&slot) {
            self.leave(slots, cursor);
            return self.enter(slots, cursor, slot);
        }
        // The cursor is alone on its stand and `slot` has no stand: the stand moves with the cursor.
        self.by_slot.remove(&here);
        if here != NIL {
            slots[here].marked = false;
        }
        self.stands[stand].slot = slot;
        self.register(slots, stand, slot);
    }
    /// Moves the cursors of an entry that leaves to the entry `before`.
    pub fn fall_back(&mut self, slots: &mut Slots, slot: u32, before: u32) {
        let Some(falls) = self.by_slot.remove(&slot) else { return };
        slots[slot].marked = false;
        let Some(&stays) = self.by_slot.get(&before) else {
            self.stands[falls].slot = before;
            return self.register(slots, falls, before);
        };
        // Joining the smaller stand to the larger bounds the moves of each cursor.
        let (small, large) =
            if self.stands[falls].count < self.stands[stays].count { (falls, stays) } else { (stays, falls) };
        let mut at = self.stands[small].first;
        while at != NIL {
            // `join` overwrites the link to the next cursor.
            let next = self.cursors[at].beside.next;
            self.join(at, large);
            at = next;
        }
        self.stands.remove(small);
        // Either stand may be the merged one, so it is registered again.
        self.stands[large].slot = before;
        self.register(slots, large, before);
    }
    /// Assigns a stand to an entry.
    fn register(&mut self, slots: &mut Slots, stand: u32, slot: u32) {
        self.by_slot.insert(slot, stand);
        if slot != NIL {
            slots[slot].marked = true;
        }
    }
    /// Puts a cursor that has no stand on an entry.
    fn enter(&mut self, slots: &mut Slots, cursor: u32, slot: u32) {
        let stand = match self.by_slot.get(&slot) {
            Some(&stand) => stand,
            None => {
                let stand = self.stands.insert(Stand { slot, first: NIL, count: 0 });
                self.register(slots, stand, slot);
                stand
            }
        };
        self.join(cursor, stand);
    }
    /// Adds a cursor to a stand.
    fn join(&mut self, cursor: u32, stand: u32) {
        let onto = &mut self.stands[stand];
        let next = core::mem::replace(&mut onto.first, cursor);
        onto.count += 1;
        self.cursors[cursor] = BookCursor { stand, beside: ListLinks { prev: NIL, next } };
        if next != NIL {
            self.cursors[next].beside.prev = cursor;
        }
    }
    /// Takes a cursor off its stand, which is removed with its last cursor.
    fn leave(&mut self, slots: &mut Slots, cursor: u32) {
        let BookCursor { stand, beside: ListLinks { prev, next } } = self.cursors[cursor];
        if next != NIL {
            self.cursors[next].beside.prev = prev;
        }
        let from = &mut self.stands[stand];
        from.count -= 1;
        match prev {
            NIL => from.first = next,
            prev => self.cursors[prev].beside.next = next,
        }
        // An entry without cursors is not marked.
        if self.stands[stand].count == 0 {
            let slot = self.stands[stand].slot;
            self.stands.remove(stand);
            self.by_slot.remove(&slot);
            if slot != NIL {
                slots[slot].marked = false;
            }
        }
    }
    /// Checks that each cursor is on a stand and each stand on a marked entry.
    pub fn audit(&self, slots: &Slots) {
        self.cursors.audit();
        self.stands.audit();
        let mut count = 0;
        for (&slot, &stand) in &self.by_slot {
            assert_eq!(self.stands[stand].slot, slot, "slot of a stand");
            assert!(slot == NIL || slots[slot].marked, "an entry with cursors is marked");
            let (mut here, mut at, mut before) = (0, self.stands[stand].first, NIL);
            while at != NIL {
                let cursor = &self.cursors[at];
                assert_eq!((cursor.stand, cursor.beside.prev), (stand, before), "cursors of a stand");
                (here, before, at) = (here + 1, at, cursor.beside.next);
            }
            assert!(here == self.stands[stand].count && here > 0, "a stand's count");
            count += here;
        }
        assert_eq!((count, self.by_slot.len()), (self.cursors.len(), self.stands.len() as usize), "cursors");
        let marked = slots.iter().filter(|(_, held)| held.marked).count();
        assert_eq!(marked, self.by_slot.keys().filter(|slot| **slot != NIL).count(), "entries marked in vain");
    }
}
