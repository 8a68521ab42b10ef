//! Arrays that grow by a page and never move their elements: growth copies no more than the table of pages.
//!
//! Pages start small, so that a small book stays small, and grow with the array: 16 pages of `1 << FIRST` elements, 16
//! of twice that, and so on, five sizes in all; all later pages have 32 times the size of the first. So growth beyond
//! the first 16 pages leaves at most a ninth of the space empty.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ops::{Index, IndexMut};

/// Number that stands for no slot.
pub(crate) const NIL: u32 = u32::MAX;
/// Most slots of one array, because lists use the upper bit of a slot's number.
pub(crate) const SLOTS_MAX: u32 = 1 << 31;

/// Base-2 logarithm of the number of pages of each size below the largest.
const LANE: u32 = 4;
/// Number of page sizes below the largest.
const TIERS: u32 = 5;

/// Array in pages; each of the first pages has `1 << FIRST` elements.
#[derive(Debug)]
pub(crate) struct Pages<T, const FIRST: u32> {
    pages: Vec<Box<[T]>>,
    len: u32,
}

impl<T, const FIRST: u32> Pages<T, FIRST> {
    pub const fn new() -> Self {
        Pages { pages: Vec::new(), len: 0 }
    }
    /// Number of elements.
    pub fn len(&self) -> u32 {
        self.len
    }
    /// Page of the element with this index, and its place there.
    #[inline]
    const fn place(index: u32) -> (usize, usize) {
        // The pages of each size begin at a power of two, so that a logarithm finds the size.
        let at = index as usize + (1 << (FIRST + LANE));
        let tier = at.ilog2() - (FIRST + LANE);
        let (tier, from) = if tier < TIERS { (tier, 1 << at.ilog2()) } else { (TIERS, 1 << (FIRST + LANE + TIERS)) };
        let size = FIRST + tier;
        (((tier as usize) << LANE) + ((at - from) >> size), at & ((1 << size) - 1))
    }
    /// Adds a page; `make` gives the element for each index.
    pub fn grow(&mut self, make: impl FnMut(u32) -> T) {
        let tier = (self.pages.len() as u32 >> LANE).min(TIERS);
        let end = self.len + (1 << (FIRST + tier));
        // The upper bit of a slot number marks the end of a list.
        assert!(end <= SLOTS_MAX, "an array of the book is full");
        // Growing by one eighth keeps the table of pages small beside the pages.
        if self.pages.len() == self.pages.capacity() {
            self.pages.reserve_exact(1 + self.pages.len() / 8);
        }
        self.pages.push((self.len..end).map(make).collect());
        self.len = end;
    }
    /// Element with this index, if it exists.
    #[inline]
    pub fn get(&self, index: u32) -> Option<&T> {
        let (page, place) = Self::place(index);
        self.pages.get(page)?.get(place)
    }
}
impl<T, const FIRST: u32> Index<u32> for Pages<T, FIRST> {
    type Output = T;
    #[inline]
    fn index(&self, index: u32) -> &T {
        let (page, place) = Self::place(index);
        &self.pages[page][place]
    }
}
impl<T, const FIRST: u32> IndexMut<u32> for Pages<T, FIRST> {
    #[inline]
    fn index_mut(&mut self, index: u32) -> &mut T {
        let (page, place) = Self::place(index);
        &mut self.pages[page][place]
    }
}

/// Least number of slots of an emptied pool whose pages are freed; a smaller pool would allocate them again for the
/// next bundle. [`MANY`] is the most, which bounds the time of freeing.
const FEW: u32 = 64;
const MANY: u32 = 4096;

/// A slot: in use, or free with the number of the next free slot.
#[derive(Debug)]
enum PoolSlot<T> {
    Used(T),
    Free(u32),
}

/// Elements in slots. Each element keeps its slot until it is removed; free slots are reused.
#[derive(Debug)]
pub(crate) struct Pool<T, const FIRST: u32> {
    slots: Pages<PoolSlot<T>, FIRST>,
    free: u32,
    used: u32,
}

impl<T, const FIRST: u32> Pool<T, FIRST> {
    pub const fn new() -> Self {
        Pool { slots: Pages::new(), free: NIL, used: 0 }
    }
    /// Number of slots in use.
    pub fn len(&self) -> u32 {
        self.used
    }
    /// Number of slots, free ones included.
    pub fn slots(&self) -> u32 {
        self.slots.len()
    }
    /// Inserts an element; returns its slot.
    pub fn insert(&mut self, thing: T) -> u32 {
        // A new page links all of its slots as free, in order.
        if self.free == NIL {
            let first = self.slots.len();
            self.slots.grow(|slot| PoolSlot::Free(slot + 1));
            let last = self.slots.len() - 1;
            self.slots[last] = PoolSlot::Free(NIL);
            self.free = first;
        }
        let slot = self.free;
        if let PoolSlot::Free(next) = core::mem::replace(&mut self.slots[slot], PoolSlot::Used(thing)) {
            self.free = next;
        }
        self.used += 1;
        slot
    }
    /// Removes and returns the element in a slot.
    pub fn remove(&mut self, slot: u32) -> Option<T> {
        self.get(slot)?;
        match core::mem::replace(&mut self.slots[slot], PoolSlot::Free(self.free)) {
            PoolSlot::Used(thing) => {
                self.free = slot;
                self.used -= 1;
                // Pages are freed only all at once, when no slot is in use.
                if self.used == 0 && (FEW..=MANY).contains(&self.slots.len()) {
                    *self = Pool::new();
                }
                Some(thing)
            }
            PoolSlot::Free(_) => None,
        }
    }
    /// The element in a slot.
    #[inline]
    pub fn get(&self, slot: u32) -> Option<&T> {
        match self.slots.get(slot) {
            Some(PoolSlot::Used(thing)) => Some(thing),
            _ => None,
        }
    }
    /// All elements with their slots.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        (0..self.slots()).filter_map(|slot| Some((slot, self.get(slot)?)))
    }
    /// Checks that every slot is either in use or in the list of free ones.
    pub fn audit(&self) {
        assert_eq!(self.iter().count(), self.used as usize, "slots in use");
        let (mut free, mut at) = (0, self.free);
        while at != NIL {
            let PoolSlot::Free(next) = self.slots[at] else { panic!("slot {at} is in use and free") };
            (free, at) = (free + 1, next);
            assert!(free <= self.slots(), "free slots go round");
        }
        assert_eq!(free + self.used, self.slots(), "slots lost");
    }
}
impl<T, const FIRST: u32> Index<u32> for Pool<T, FIRST> {
    type Output = T;
    #[inline]
    fn index(&self, slot: u32) -> &T {
        match &self.slots[slot] {
            PoolSlot::Used(thing) => thing,
            PoolSlot::Free(_) => panic!("slot {slot} of the book is free"),
        }
    }
}
impl<T, const FIRST: u32> IndexMut<u32> for Pool<T, FIRST> {
    #[inline]
    fn index_mut(&mut self, slot: u32) -> &mut T {
        match &mut self.slots[slot] {
            PoolSlot::Used(thing) => thing,
            PoolSlot::Free(_) => panic!("slot {slot} of the book is free"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::held::Held;

    #[test]
    fn every_index_has_its_place() {
        let mut pages: Pages<u32, 3> = Pages::new();
        while pages.len() < 20_000 {
            let before = pages.len();
            pages.grow(|index| index);
            assert!(pages.len() - before <= 256.min(8.max(before / 8)), "a page is small beside the rest");
        }
        assert!((0..pages.len()).all(|index| pages[index] == index));
        assert!(pages.get(pages.len()).is_none() && pages.get(NIL).is_none());
    }

    #[test]
    fn slots_are_used_again() {
        let mut pool: Pool<u8, 2> = Pool::new();
        assert!(pool.get(0).is_none() && pool.remove(3).is_none());
        let slots: Vec<u32> = (0..9).map(|thing| pool.insert(thing)).collect();
        assert_eq!((pool.remove(slots[4]), pool.remove(slots[4])), (Some(4), None));
        assert_eq!(pool.insert(40), slots[4]);
        assert_eq!(pool.iter().map(|(_, thing)| *thing).collect::<Vec<_>>(), [0, 1, 2, 3, 40, 5, 6, 7, 8]);
        pool.audit();
    }

    #[test]
    fn empty_pools_release_pages_within_limit() {
        // Two bounds: a few slots would soon be needed again, and releasing many would stall the caller.
        for (things, left) in [(5, 8), (500, 0), (10_000, 10_000)] {
            let mut pool: Pool<u32, 2> = Pool::new();
            let slots: Vec<u32> = (0..things).map(|thing| pool.insert(thing)).collect();
            slots.iter().for_each(|slot| assert!(pool.remove(*slot).is_some()));
            assert!(pool.len() == 0 && pool.slots() >= left && (left > 0 || pool.slots() == 0));
            assert!(slots.iter().all(|slot| pool.get(*slot).is_none() && pool.remove(*slot).is_none()));
            assert_eq!(pool.insert(7), if left > 0 { slots[things as usize - 1] } else { 0 });
            pool.audit();
        }
    }

    #[test]
    fn free_slot_costs_one_entry() {
        assert_eq!(size_of::<PoolSlot<Held>>(), size_of::<Held>());
    }
}
