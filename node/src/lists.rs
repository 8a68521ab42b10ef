//! Lists of stored bundles for clients of the control API.
//!
//! A list is read in slices, so that the owner of the stack never walks all bundles in one turn, and in pages, each of
//! which starts where the last one ended.

use crate::clock;
use crate::node::Node;
use farlink_bpa::app::{BundleStatus, Sum};
use farlink_stack::{CursorId, Stack};
use std::collections::VecDeque;

/// Most open lists. A further one ends the list read least recently among those whose page is finished; if there is
/// none, the list read least recently of all.
const MOST: usize = 16;
/// Most bundles of one slice.
const SLICE: usize = 256;

/// List being read by a client.
#[derive(Debug)]
struct List {
    number: u64,
    cursor: CursorId,
    /// Bundles up to this number are skipped: the client continues a list whose cursor no longer exists.
    behind: u64,
    /// Last bundle returned.
    last: u64,
    /// Whether the client has read a whole page, and may continue later.
    ended: bool,
}

/// Open lists, the most recently read at the end.
#[derive(Debug, Default)]
pub struct Lists {
    open: VecDeque<List>,
    last: u64,
}

impl Lists {
    /// Opens a list of the bundles after `after`, in order of arrival; returns its number.
    fn begin(&mut self, stack: &mut Stack, after: u64) -> u64 {
        self.last += 1;
        let number = self.last;
        // A request for the bundles after the last of a finished page continues that list.
        let before = self.open.iter().position(|list| list.ended && list.last == after && after > 0);
        let list = match before.and_then(|at| self.open.remove(at)) {
            Some(list) => List { number, ended: false, ..list },
            None => List { number, cursor: stack.begin_list(), behind: after, last: after, ended: false },
        };
        self.open.push_back(list);
        if self.open.len() > MOST {
            // If no list has a finished page, the one read least recently gives way: probably its client disconnected
            // within a page.
            let gives_way = self.open.iter().position(|list| list.ended).unwrap_or(0);
            if let Some(list) = self.open.remove(gives_way) {
                stack.end_list(list.cursor);
            }
        }
        number
    }
    /// Finds a list and marks it as the most recently read.
    fn get(&mut self, number: u64) -> Option<&mut List> {
        let at = self.open.iter().position(|list| list.number == number)?;
        let list = self.open.remove(at)?;
        self.open.push_back(list);
        self.open.back_mut()
    }
    /// Closes a list.
    fn end(&mut self, stack: &mut Stack, number: u64) {
        if let Some(list) = self.open.iter().position(|list| list.number == number).and_then(|at| self.open.remove(at))
        {
            stack.end_list(list.cursor);
        }
    }
}

impl Node {
    /// Opens a list of the bundles after `after` (0: all), in order of arrival; returns its number for the next calls.
    pub fn begin_list(&mut self, after: u64) -> u64 {
        self.lists.begin(&mut self.stack, after)
    }
    /// Next bundles of a list, at most `limit`, and whether there may be more; `None` if the list gave way to others.
    pub fn next_bundles(&mut self, list: u64, limit: usize) -> Option<(Vec<BundleStatus>, bool)> {
        let List { cursor, behind, last, .. } = self.lists.get(list)?;
        let (rows, more) = self.stack.page(clock::now(), *cursor, *behind, limit.min(SLICE));
        *last = rows.last().map_or(*last, |row| row.handle.0);
        Some((rows, more))
    }
    /// Sums of the next bundles of a list, and whether there are more; `None` if the list gave way to others.
    pub fn next_sums(&mut self, list: u64) -> Option<(Vec<Sum>, bool)> {
        let cursor = self.lists.get(list)?.cursor;
        Some(self.stack.sums(clock::now(), cursor))
    }
    /// Ends a page, or the whole list if no more bundles follow.
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
        // Continuing a list reuses its entry, so no other list is ended.
        (lists.get(long).unwrap().last, lists.get(long).unwrap().ended) = (77, true);
        let on = lists.begin(&mut stack, 77);
        assert!(lists.get(on).is_some_and(|list| list.behind == 0 && !list.ended) && lists.get(long).is_none());
        for number in lists.open.iter().map(|list| list.number).collect::<Vec<_>>() {
            lists.end(&mut stack, number);
        }
        assert_eq!(stack.begin_list(), farlink_stack::CursorId(0), "no cursor is left behind");
    }
}
