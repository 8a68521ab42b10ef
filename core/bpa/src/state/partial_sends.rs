//! Bundles that leave in fragments (RFC 9171 5.8): the bytes of their payload still to be sent.
//!
//! Fragmentation is lazy: a fragment is encoded from its bundle and a range when it is handed over, so that it needs no
//! record and no admission.

use crate::state::ranges::Ranges;
use alloc::collections::BTreeMap;
use core::ops::Range;
use farlink_book::{Book, Flags, Handle};

#[derive(Debug)]
struct Cut {
    /// Payload bytes that no transmission has taken.
    left: Ranges,
    /// Most payload bytes of a fragment.
    piece_max: u64,
    /// Most payload bytes of the next fragment.
    next_max: u64,
}

/// State of all bundles that leave in fragments.
#[derive(Debug, Default)]
pub(crate) struct PartialSends {
    cuts: BTreeMap<Handle, Cut>,
}

impl PartialSends {
    /// Lets a bundle leave in fragments of at most this many payload bytes; an earlier, lower bound stays.
    pub fn limit(&mut self, book: &mut Book, bundle: Handle, piece_max: u64) {
        let Some(held) = book.get_mut(bundle) else { return };
        held.flags.set(Flags::ASIDE, true);
        let len = held.bundle.payload.len();
        let whole = || Cut { left: Ranges::of(0..len), piece_max, next_max: u64::MAX };
        let cut = self.cuts.entry(bundle).or_insert_with(whole);
        cut.piece_max = cut.piece_max.min(piece_max.max(1));
    }
    /// Lets a bundle leave in fragments, the next of at most this many payload bytes.
    pub fn limit_next(&mut self, book: &mut Book, bundle: Handle, next_max: u64) {
        // All later fragments may have any length.
        self.limit(book, bundle, u64::MAX);
        if let Some(cut) = self.cuts.get_mut(&bundle) {
            cut.next_max = next_max.max(1);
        }
    }
    /// Whether a bundle leaves in fragments.
    pub fn has(&self, bundle: Handle) -> bool {
        self.cuts.contains_key(&bundle)
    }
    /// Payload range of the next fragment, at most `room` bytes; `None` if the bundle leaves whole or nothing of it is
    /// left.
    pub fn next(&self, bundle: Handle, room: u64) -> Option<Range<u64>> {
        let cut = self.cuts.get(&bundle)?;
        let first = cut.left.first()?;
        // At least one byte, so that every transmission makes progress.
        let len = (first.end - first.start).min(cut.piece_max).min(cut.next_max).min(room.max(1));
        Some(first.start..first.start + len)
    }
    /// Payload bytes still to be sent; `None` if the bundle leaves whole.
    pub fn left(&self, bundle: Handle) -> Option<u64> {
        self.cuts.get(&bundle).map(|cut| cut.left.len())
    }
    /// Removes the range that a transmission takes. Returns whether more is left.
    pub fn take(&mut self, bundle: Handle, range: &Range<u64>) -> bool {
        let Some(cut) = self.cuts.get_mut(&bundle) else { return false };
        cut.left.remove(range.clone());
        cut.next_max = u64::MAX;
        !cut.left.is_empty()
    }
    /// Gives back the range of a failed fragment, to be sent again.
    pub fn give_back(&mut self, bundle: Handle, range: &Range<u64>) {
        if let Some(cut) = self.cuts.get_mut(&bundle) {
            cut.left.insert(range.clone());
        }
    }
    /// Starts over: all of the bundle is to be sent, in fragments as before.
    pub fn begin_anew(&mut self, book: &Book, bundle: Handle) {
        if let (Some(cut), Some(held)) = (self.cuts.get_mut(&bundle), book.get(bundle)) {
            cut.left = Ranges::of(0..held.bundle.payload.len());
        }
    }
    #[cfg(feature = "audit")]
    pub fn len(&self) -> usize {
        self.cuts.len()
    }
    pub fn forget(&mut self, bundle: Handle) {
        self.cuts.remove(&bundle);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::book_with;
    use farlink_base::Priority;

    #[test]
    fn failed_parts_are_sent_again() {
        let (mut book, handles) = book_with(&[Priority::Normal]);
        let (mut partial, bundle) = (PartialSends::default(), handles[0]);
        assert_eq!(partial.next(bundle, 10), None, "whole");
        // 60 does not divide the payload of 100 bytes: the last fragment is shorter.
        partial.limit(&mut book, bundle, 60);
        let first = partial.next(bundle, u64::MAX).unwrap();
        assert_eq!(first, 0..60);
        assert!(partial.take(bundle, &first));
        assert_eq!(partial.next(bundle, 25), Some(60..85));
        assert!(partial.take(bundle, &(60..85)));
        partial.give_back(bundle, &first);
        partial.limit(&mut book, bundle, 30);
        assert_eq!((partial.next(bundle, u64::MAX), partial.left(bundle)), (Some(0..30), Some(75)));
        assert!(partial.take(bundle, &(0..30)) && partial.take(bundle, &(30..60)));
        assert!(!partial.take(bundle, &(85..100)), "nothing is left");
        partial.limit_next(&mut book, bundle, 7);
        partial.begin_anew(&book, bundle);
        assert_eq!(partial.next(bundle, u64::MAX), Some(0..7));
        partial.take(bundle, &(0..7));
        assert_eq!(partial.next(bundle, u64::MAX), Some(7..37), "only the next one is so short");
        partial.begin_anew(&book, bundle);
        assert_eq!(partial.left(bundle), Some(100));
        partial.forget(bundle);
        assert!(!partial.has(bundle));
    }
}
