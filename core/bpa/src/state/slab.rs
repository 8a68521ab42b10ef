//! Slab: values in numbered slots, which are stored in pages. Growth adds a page and moves no values, so no call takes
//! long.

use alloc::boxed::Box;
use alloc::vec::Vec;

/// Number that refers to no slot.
pub(crate) const NIL: u32 = u32::MAX;
const PAGE: usize = 16;

/// Values in numbered slots; free slots are reused.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    pages: Vec<Box<[SlotPlace<T>; PAGE]>>,
    free: u32,
    used: u32,
}
#[derive(Debug)]
enum SlotPlace<T> {
    Free(u32),
    Used(T),
}

impl<T> Slab<T> {
    pub const fn new() -> Self {
        Slab { pages: Vec::new(), free: NIL, used: 0 }
    }
    #[cfg(any(test, feature = "audit"))]
    pub fn len(&self) -> usize {
        self.used as usize
    }
    /// Stores a value and returns the number of its slot.
    pub fn insert(&mut self, value: T) -> u32 {
        if self.free == NIL {
            let first = (self.pages.len() * PAGE) as u32;
            let next = |i: usize| if i + 1 == PAGE { NIL } else { first + i as u32 + 1 };
            self.pages.push(Box::new(core::array::from_fn(|i| SlotPlace::Free(next(i)))));
            self.free = first;
        }
        let at = self.free;
        let place = &mut self.pages[at as usize / PAGE][at as usize % PAGE];
        if let SlotPlace::Free(next) = *place {
            self.free = next;
        }
        *place = SlotPlace::Used(value);
        self.used += 1;
        at
    }
    pub fn get(&self, at: u32) -> Option<&T> {
        match self.pages.get(at as usize / PAGE)?.get(at as usize % PAGE)? {
            SlotPlace::Used(value) => Some(value),
            SlotPlace::Free(_) => None,
        }
    }
    pub fn get_mut(&mut self, at: u32) -> Option<&mut T> {
        match self.pages.get_mut(at as usize / PAGE)?.get_mut(at as usize % PAGE)? {
            SlotPlace::Used(value) => Some(value),
            SlotPlace::Free(_) => None,
        }
    }
    pub fn remove(&mut self, at: u32) -> Option<T> {
        let place = self.pages.get_mut(at as usize / PAGE)?.get_mut(at as usize % PAGE)?;
        if matches!(place, SlotPlace::Free(_)) {
            return None;
        }
        let SlotPlace::Used(value) = core::mem::replace(place, SlotPlace::Free(self.free)) else { return None };
        self.free = at;
        self.used -= 1;
        if self.used == 0 {
            // A burst must not occupy its pages for good.
            *self = Slab::new();
        }
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn freed_slab_places_are_reused() {
        let mut slab = Slab::new();
        let places: Vec<u32> = (0..40).map(|n| slab.insert(n)).collect();
        assert_eq!(places, (0..40).collect::<Vec<_>>());
        assert_eq!((slab.remove(7), slab.remove(7), slab.len()), (Some(7), None, 39));
        assert_eq!(slab.insert(99), 7);
        *slab.get_mut(7).unwrap() += 1;
        assert_eq!((slab.get(7), slab.get(40), slab.get(NIL)), (Some(&100), None, None));
        for place in places {
            slab.remove(place);
        }
        assert_eq!((slab.len(), slab.pages.len()), (0, 0));
    }
}
