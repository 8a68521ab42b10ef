//! Walks over bundles to route the waiting ones again: over all bundles, or over those for one node. They proceed one
//! bundle at a time. Requests that come during a walk over all bundles lead to one more walk.

use alloc::collections::VecDeque;
use farlink_base::NodeId;
use farlink_book::{Book, CursorId, Handle};

/// Walks in progress.
#[derive(Debug, Default)]
pub(crate) struct RerouteScan {
    all: Option<CursorId>,
    again: bool,
    /// Destinations of the walks over bundles for one node, and the bundle last visited in each.
    towards: VecDeque<(NodeId, Option<Handle>)>,
}

impl RerouteScan {
    /// Requests a walk over all bundles.
    pub fn all(&mut self, book: &mut Book) {
        match self.all {
            Some(_) => self.again = true,
            None => self.all = Some(book.open_cursor()),
        }
    }
    /// Requests a walk over the bundles for one node.
    pub fn to(&mut self, node: NodeId) {
        if node != NodeId::NULL && !self.towards.contains(&(node, None)) {
            self.towards.push_back((node, None));
        }
    }
    /// Whether no walk is in progress.
    pub fn is_idle(&self) -> bool {
        self.all.is_none() && self.towards.is_empty()
    }
    /// Next bundle to route. `None` ends one walk; others may go on ([`RerouteScan::is_idle`]).
    pub fn next(&mut self, book: &mut Book) -> Option<Handle> {
        if let Some((node, at)) = self.towards.front_mut() {
            // If the bundle last visited has left, the walk starts over: those before it have left too, or found a
            // route.
            let next = match at.filter(|at| book.get(*at).is_some()) {
                Some(at) => book.next_to(at),
                None => book.to(*node).next().map(farlink_book::Held::handle),
            };
            match next {
                Some(next) => *at = Some(next),
                None => drop(self.towards.pop_front()),
            }
            return next;
        }
        let cursor = self.all?;
        let next = book.advance(cursor);
        if next.is_none() && core::mem::take(&mut self.again) {
            book.rewind(cursor);
            return book.advance(cursor);
        }
        if next.is_none() {
            book.close_cursor(cursor);
            self.all = None;
        }
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::book_with;
    use farlink_base::Priority;

    fn walk(scan: &mut RerouteScan, book: &mut Book) -> alloc::vec::Vec<u64> {
        let mut seen = alloc::vec::Vec::new();
        while !scan.is_idle() {
            seen.extend(scan.next(book).and_then(|bundle| book.get(bundle)).map(|held| held.number));
        }
        seen
    }

    #[test]
    fn scan_visits_each_bundle_once() {
        let (mut book, handles) = book_with(&[Priority::Normal; 3]);
        let mut scan = RerouteScan::default();
        scan.to(NodeId::ipn(9));
        scan.to(NodeId::ipn(9));
        scan.to(NodeId::ipn(8));
        assert_eq!(walk(&mut scan, &mut book), [1, 2, 3]);
        scan.all(&mut book);
        // Two requests during a walk lead to one more walk.
        assert_eq!(scan.next(&mut book), Some(handles[0]));
        scan.all(&mut book);
        scan.all(&mut book);
        let _ = book.remove(handles[1]);
        assert_eq!(walk(&mut scan, &mut book), [3, 1, 3]);
    }
}
