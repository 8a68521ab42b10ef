//! Parts that most nodes never need: made when they are first written to.

use alloc::boxed::Box;
use core::fmt;
use core::ops::{Deref, DerefMut};

/// What can be read before there is any of it.
pub trait Empty: Sized + 'static {
    /// What one is made from: a seed, a bound, nothing.
    type From: Copy;
    /// One with nothing in it, that all read who have none of their own.
    const EMPTY: &'static Self;
    /// A new one, with nothing in it.
    fn make(from: Self::From) -> Self;
}

/// A value that takes a pointer until it is first borrowed to be changed; until then it reads as
/// empty. Once made it stays, so that what is busy makes nothing anew.
pub struct Lazy<T: Empty> {
    made: Option<Box<T>>,
    from: T::From,
}

impl<T: Empty> Lazy<T> {
    /// Not made yet; it will be from this.
    pub const fn new(from: T::From) -> Self {
        Lazy { made: None, from }
    }
    /// The value, if there is one: to take from it what may not be there.
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
        let from = self.from;
        self.made.get_or_insert_with(|| Box::new(T::make(from)))
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
    struct List {
        most: usize,
        items: Vec<u32>,
    }
    impl Empty for List {
        type From = usize;
        const EMPTY: &'static Self = &List { most: 0, items: Vec::new() };
        fn make(most: usize) -> Self {
            List { most, items: Vec::new() }
        }
    }

    #[test]
    fn it_reads_as_empty_and_is_made_when_it_is_first_written_to() {
        let mut list: Lazy<List> = Lazy::new(7);
        assert!(list.items.is_empty() && list.made().is_none());
        list.items.push(3);
        assert_eq!((list.most, &list.items[..]), (7, &[3][..]));
        assert!(list.made().is_some());
        assert_eq!(size_of::<Lazy<List>>(), 2 * size_of::<usize>());
    }
}
