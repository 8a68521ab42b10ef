//! Values that most nodes never need, allocated on first write.

use alloc::boxed::Box;
use core::fmt;
use core::ops::{Deref, DerefMut};

/// Type with a constant empty value, which can be read before a value is allocated.
pub trait Empty: Sized + 'static {
    /// Argument of the constructor: a seed, a bound, or nothing.
    type From: Copy;
    /// Empty value that is read until one is allocated.
    const EMPTY: &'static Self;
    /// Allocates a new, empty value.
    fn make(from: Self::From) -> Self;
}

/// Value that takes only a pointer and the constructor's argument until it is first borrowed mutably; until then it
/// reads as empty. It stays allocated from then on, so that a value in frequent use is allocated only once.
pub struct Lazy<T: Empty> {
    made: Option<Box<T>>,
    from: T::From,
}

impl<T: Empty> Lazy<T> {
    /// Empty value, to be allocated with this argument when needed.
    pub const fn new(from: T::From) -> Self {
        Lazy { made: None, from }
    }
    /// The value if it is allocated; for changes such as removals, which an empty value does not need.
    pub fn made(&mut self) -> Option<&mut T> {
        self.made.as_deref_mut()
    }
}
impl<T: Empty> Default for Lazy<T>
where
    T::From: Default,
{
    fn default() -> Self {
        Lazy::new(T::From::default())
    }
}
impl<T: Empty> Deref for Lazy<T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        self.made.as_deref().unwrap_or(T::EMPTY)
    }
}
impl<T: Empty> DerefMut for Lazy<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        self.made.get_or_insert_with(|| Box::new(T::make(self.from)))
    }
}
impl<T: Empty + fmt::Debug> fmt::Debug for Lazy<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[derive(Debug)]
    struct BoundedList {
        most: usize,
        items: Vec<u32>,
    }
    impl Empty for BoundedList {
        type From = usize;
        const EMPTY: &'static Self = &BoundedList { most: 0, items: Vec::new() };
        fn make(most: usize) -> Self {
            BoundedList { most, items: Vec::new() }
        }
    }

    #[test]
    fn lazy_value_is_made_on_write() {
        let mut list: Lazy<BoundedList> = Lazy::new(7);
        assert!(list.items.is_empty() && list.made().is_none());
        list.items.push(3);
        assert_eq!((list.most, &list.items[..]), (7, &[3][..]));
        assert!(list.made().is_some());
        assert_eq!(size_of::<Lazy<BoundedList>>(), 2 * size_of::<usize>());
    }
}
