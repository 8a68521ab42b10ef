//! Lists of stored bundles that clients of the control API read: a slice at a time, so that the owner of the stack never
//! walks all of them in one turn, and page by page, each beginning where the last one ended.

use crate::clock;
use crate::node::Node;
use farlink_bpa::app::{BundleStatus, Sum};
use farlink_stack::{CursorId, Stack};
use std::collections::VecDeque;

/// Lists that are read, or may be gone on with; the one begun first is ended for another.
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

/// All of them.
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
        if self.open.len() > MOST
            && let Some(first) = self.open.pop_front()
        {
            stack.end_list(first.cursor);
        }
        number
    }
    fn get(&mut self, number: u64) -> Option<&mut List> {
        self.open.iter_mut().find(|list| list.number == number)
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
