//! Lists of stored bundles that clients of the control API read: a slice at a time, so that the owner of the stack never
//! walks all of them in one turn, and page by page, each beginning where the last one ended.

use crate::clock;
use crate::node::Node;
use farlink_bpa::app::{BundleStatus, Sum};
use farlink_stack::{CursorId, Stack};
use std::collections::VecDeque;

/// Lists that are read, or may be gone on with; the one that was not read for the longest time is ended for another, those
/// whose page has ended before others.
const MOST: usize = 16;
/// Bundles of one slice.
const SLICE: usize = 256;

/// One list.
#[derive(Debug)]
struct List {
    number: u64,
    cursor: CursorId,
    /// Bundles up to this number are left out: nobody remembers where they are.
    behind: u64,
    /// The last bundle told.
    last: u64,
    /// Its page has ended.
    ended: bool,
}

/// All of them, the one read last behind.
#[derive(Debug, Default)]
pub struct Lists {
    open: VecDeque<List>,
    last: u64,
}

impl Lists {
    /// A list of what comes behind a bundle in order of arrival; its number.
    fn begin(&mut self, stack: &mut Stack, after: u64) -> u64 {
        self.last += 1;
        let number = self.last;
        let before = self.open.iter().position(|list| list.ended && list.last == after && after > 0);
        let list = match before.and_then(|at| self.open.remove(at)) {
            Some(list) => List { number, ended: false, ..list },
            None => List { number, cursor: stack.begin_list(), behind: after, last: after, ended: false },
        };
        self.open.push_back(list);
        if self.open.len() > MOST {
            // A client that went away in the middle has ended none, and reads none.
            let gives_way = self.open.iter().position(|list| list.ended).unwrap_or(0);
            if let Some(list) = self.open.remove(gives_way) {
                stack.end_list(list.cursor);
            }
        }
        number
    }
    /// A list that is read now.
    fn get(&mut self, number: u64) -> Option<&mut List> {
        let at = self.open.iter().position(|list| list.number == number)?;
        let list = self.open.remove(at)?;
        self.open.push_back(list);
        self.open.back_mut()
    }
    /// A list that nobody goes on with.
    fn end(&mut self, stack: &mut Stack, number: u64) {
        if let Some(list) = self.open.iter().position(|list| list.number == number).and_then(|at| self.open.remove(at))
        {
            stack.end_list(list.cursor);
        }
    }
}

impl Node {
    /// Begins a list of the bundles behind this one in order of arrival, 0: of all; its number, for the next slices.
    pub fn begin_list(&mut self, after: u64) -> u64 {
        self.lists.begin(&mut self.stack, after)
    }
    /// The next bundles of a list, `limit` at most, and whether there may be more; `None`: others are read instead.
    pub fn next_bundles(&mut self, list: u64, limit: usize) -> Option<(Vec<BundleStatus>, bool)> {
        let List { cursor, behind, last, .. } = self.lists.get(list)?;
        let (rows, more) = self.stack.page(clock::now(), *cursor, *behind, limit.min(SLICE));
        *last = rows.last().map_or(*last, |row| row.handle.0);
        Some((rows, more))
    }
    /// The next bundles of a list in sums, and whether there are more; `None`: others are read instead.
    pub fn next_sums(&mut self, list: u64) -> Option<(Vec<Sum>, bool)> {
        let cursor = self.lists.get(list)?.cursor;
        Some(self.stack.sums(clock::now(), cursor))
    }
    /// A page of a list has ended, or the list itself.
    pub fn end_list(&mut self, list: u64, more: bool) {
        match self.lists.get(list).filter(|_| more) {
            Some(list) => list.ended = true,
            None => self.lists.end(&mut self.stack, list),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_in_use_outlives_abandoned_lists() {
        let mut stack = Stack::new(farlink_stack::Config::new(farlink_base::EndpointId::ipn(1, 0))).unwrap();
        let mut lists = Lists::default();
        let long = lists.begin(&mut stack, 0);
        for n in 0..200 {
            assert!(lists.get(long).is_some(), "after {n} others");
            let other = lists.begin(&mut stack, 0);
            assert!(lists.get(other).is_some(), "the newest is there");
            lists.get(other).unwrap().ended = n % 3 != 0;
            assert!(lists.open.len() <= MOST);
        }
        // One that is gone on with takes no other's place.
        (lists.get(long).unwrap().last, lists.get(long).unwrap().ended) = (77, true);
        let on = lists.begin(&mut stack, 77);
        assert!(lists.get(on).is_some_and(|list| list.behind == 0 && !list.ended) && lists.get(long).is_none());
        for number in lists.open.iter().map(|list| list.number).collect::<Vec<_>>() {
            lists.end(&mut stack, number);
        }
        assert_eq!(stack.begin_list(), farlink_stack::CursorId(0), "no cursor is left behind");
    }
}
