//! Bundles queued for links: one list per link, priority and contact, in order of arrival.
//!
//! Owns the retention constraint `Queue`. A list is released as a whole if its contact is over, its link is down or
//! removed, or all routes are reconsidered; its bundles are then routed again, a few at a time.

use crate::state::slab::{NIL, Slab};
use alloc::collections::{BTreeMap, VecDeque};
use core::cmp::Reverse;
use farlink_base::{Instant, LinkId, Priority, TimerKey};
use farlink_book::{Book, Handle, Held, NextHop, RetentionConstraint};

/// Most entries examined from the front of a list to find the place of a bundle that is queued again.
const BACK_SCAN: usize = 64;

/// Order of lists in a link's queue: most urgent first, then earliest contact.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct ListKey {
    priority: Reverse<Priority>,
    not_before: Instant,
    until: Instant,
}

/// A bundle's place in one list.
#[derive(Debug)]
struct QueueEntry {
    bundle: Handle,
    list: u32,
    prev: u32,
    next: u32,
    /// Next place of the same bundle in another list.
    sibling: u32,
    /// Whether a copy leaves and the bundle stays here.
    copy: bool,
}

#[derive(Debug)]
struct List {
    link: LinkId,
    key: ListKey,
    first: u32,
    last: u32,
    timer: Option<TimerKey>,
    /// Whether the list was released, so that its bundles are routed again.
    loose: bool,
    bundles: u64,
    bytes: u64,
}

#[derive(Debug, Default)]
struct LinkQueue {
    lists: BTreeMap<ListKey, u32>,
    bundles: u64,
    bytes: u64,
}
impl LinkQueue {
    fn forget(&mut self, key: &ListKey, bundles: u64, bytes: u64) {
        self.lists.remove(key);
        self.bundles -= bundles;
        self.bytes -= bytes;
    }
}

/// Identifies a list for its timer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ListId(u32);

/// A bundle taken from a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Taken {
    /// Handle of the bundle.
    pub bundle: Handle,
    /// Whether a copy leaves and the bundle stays here.
    pub copy: bool,
    /// Link of the queue.
    pub link: LinkId,
    /// Timer of the list if it is empty now, to be cancelled.
    pub timer: Option<TimerKey>,
}

/// The queues of all links.
#[derive(Debug)]
pub(crate) struct Queues {
    legs: Slab<QueueEntry>,
    lists: Slab<List>,
    links: BTreeMap<LinkId, LinkQueue>,
    /// Released lists, whose bundles are to be routed again.
    loose: VecDeque<u32>,
}

impl Queues {
    pub const fn new() -> Self {
        Queues { legs: Slab::new(), lists: Slab::new(), links: BTreeMap::new(), loose: VecDeque::new() }
    }
    /// Number and bytes of bundles queued for a link.
    pub fn of(&self, link: LinkId) -> (u64, u64) {
        self.links.get(&link).map_or((0, 0), |queue| (queue.bundles, queue.bytes))
    }
    /// Adds a bundle to a link's queue. Returns the list if it is new; it then needs a timer at `leg.until`.
    pub fn put(&mut self, book: &mut Book, bundle: Handle, leg: NextHop, copy: bool) -> Option<ListId> {
        let held = book.get(bundle)?;
        let (size, sibling) = (held.size(), held.leg);
        // Bundles of one contact share a list, so that its end releases them together.
        let key = ListKey { priority: Reverse(held.bundle.priority), not_before: leg.not_before, until: leg.until };
        let queue = self.links.entry(leg.link).or_default();
        let mut begun = None;
        let list = *queue.lists.entry(key).or_insert_with(|| {
            let id = self.lists.insert(List {
                link: leg.link,
                key,
                first: NIL,
                last: NIL,
                timer: None,
                loose: false,
                bundles: 0,
                bytes: 0,
            });
            begun = Some(ListId(id));
            id
        });
        queue.bundles += 1;
        queue.bytes += size;
        if let Some(list) = self.lists.get_mut(list) {
            list.bundles += 1;
            list.bytes += size;
        }
        let entry = QueueEntry { bundle, list, prev: NIL, next: NIL, sibling, copy };
        let at = self.legs.insert(entry);
        self.thread(list, at, bundle, book);
        if let Some(held) = book.get_mut(bundle) {
            held.leg = at;
        }
        book.hold(bundle, RetentionConstraint::Queue);
        begun
    }
    /// Links a place into its list: at the end, or further ahead if the bundle is older than the last one.
    fn thread(&mut self, list: u32, at: u32, bundle: Handle, book: &Book) {
        let number = |handle: Handle| book.get(handle).map_or(u64::MAX, |held| held.number);
        let Some((first, last)) = self.lists.get(list).map(|l| (l.first, l.last)) else { return };
        let own = number(bundle);
        let newest = self.legs.get(last).is_none_or(|leg| number(leg.bundle) < own);
        let after = |at: &u32| self.legs.get(*at).map(|leg| leg.next);
        // A bundle that is queued again is among the oldest, so a short scan from the front suffices.
        let among = (!newest).then(|| {
            let mut ahead = core::iter::successors(Some(first), after).take(BACK_SCAN);
            ahead.find(|at| self.legs.get(*at).is_some_and(|leg| own < number(leg.bundle)))
        });
        let next = among.flatten();
        let prev = next.and_then(|next| self.legs.get(next)).map_or(last, |leg| leg.prev);
        let next = next.unwrap_or(NIL);
        if let Some(entry) = self.legs.get_mut(at) {
            (entry.prev, entry.next) = (prev, next);
        }
        self.join(list, prev, next, at, at);
    }
    /// Sets the links of adjacent entries of a list: `after` is to follow `prev`, and `before` is to precede `next`.
    fn join(&mut self, list: u32, prev: u32, next: u32, after: u32, before: u32) {
        match self.legs.get_mut(prev) {
            Some(entry) => entry.next = after,
            None => {
                if let Some(l) = self.lists.get_mut(list) {
                    l.first = after;
                }
            }
        }
        match self.legs.get_mut(next) {
            Some(entry) => entry.prev = before,
            None => {
                if let Some(l) = self.lists.get_mut(list) {
                    l.last = before;
                }
            }
        }
    }
    pub fn set_timer(&mut self, list: ListId, timer: TimerKey) {
        if let Some(list) = self.lists.get_mut(list.0) {
            list.timer = Some(timer);
        }
    }
    /// Place of the first bundle of a link's queue, most urgent first, that `fits`; at most `look` places are examined.
    pub fn first(&self, link: LinkId, book: &Book, look: usize, fits: impl Fn(&Held, bool) -> bool) -> Option<u32> {
        let queue = self.links.get(&link)?;
        let mut left = look;
        for list in queue.lists.values() {
            let mut at = self.lists.get(*list)?.first;
            while let Some(entry) = self.legs.get(at) {
                if left == 0 {
                    return None;
                }
                left -= 1;
                if book.get(entry.bundle).is_some_and(|held| fits(held, entry.copy)) {
                    return Some(at);
                }
                at = entry.next;
            }
        }
        None
    }
    /// Removes a place from its list.
    pub fn take(&mut self, book: &mut Book, leg: u32) -> Option<Taken> {
        let entry = self.legs.remove(leg)?;
        self.join(entry.list, entry.prev, entry.next, entry.next, entry.prev);
        self.unchain(book, &entry, leg);
        let size = book.get(entry.bundle).map_or(0, Held::size);
        let list = self.lists.get_mut(entry.list)?;
        list.bundles -= 1;
        list.bytes -= size;
        let (link, loose, empty, key) = (list.link, list.loose, list.first == NIL, list.key);
        let mut timer = None;
        // A released list was subtracted from its link's sums before.
        if !loose {
            if let Some(queue) = self.links.get_mut(&link) {
                queue.bundles -= 1;
                queue.bytes -= size;
                // The timer of an empty list would wake the node for nothing.
                if empty {
                    queue.lists.remove(&key);
                    timer = self.lists.remove(entry.list).and_then(|list| list.timer);
                }
            }
        }
        Some(Taken { bundle: entry.bundle, copy: entry.copy, link, timer })
    }
    /// Removes a place from the chain of its bundle's places.
    fn unchain(&mut self, book: &mut Book, entry: &QueueEntry, leg: u32) {
        let Some(held) = book.get_mut(entry.bundle) else { return };
        if held.leg == leg {
            held.leg = entry.sibling;
        } else {
            let mut at = held.leg;
            while let Some(other) = self.legs.get_mut(at) {
                if other.sibling == leg {
                    other.sibling = entry.sibling;
                    break;
                }
                at = other.sibling;
            }
        }
        if held.leg == NIL {
            // If no other constraint is left, a copy is leaving now or its list was released: the caller handles both.
            let _ = book.release(entry.bundle, RetentionConstraint::Queue);
        }
    }
    /// Removes one place of a bundle from its list; call until it returns `None`.
    pub fn take_of(&mut self, book: &mut Book, bundle: Handle) -> Option<Taken> {
        let leg = book.get(bundle)?.leg;
        if leg == NIL { None } else { self.take(book, leg) }
    }
    /// Link that a bundle is queued for, and the earliest time of departure there; `None` if it is in no queue or its
    /// list was released.
    pub fn leg_of(&self, held: &Held) -> Option<(LinkId, Instant)> {
        // A released list belongs to no contact any more.
        let list = self.legs.get(held.leg)?.list;
        self.lists.get(list).filter(|list| !list.loose).map(|list| (list.link, list.key.not_before))
    }
    /// Releases a list whose contact is over.
    pub fn let_go(&mut self, list: ListId) {
        let Some(l) = self.lists.get_mut(list.0).filter(|l| !l.loose) else { return };
        l.loose = true;
        l.timer = None;
        if let Some(queue) = self.links.get_mut(&l.link) {
            queue.forget(&l.key, l.bundles, l.bytes);
        }
        self.loose.push_back(list.0);
    }
    /// Releases all lists of a link. Returns their timers, to be cancelled.
    pub fn let_link_go(&mut self, link: LinkId) -> alloc::vec::Vec<TimerKey> {
        let Some(queue) = self.links.remove(&link) else { return alloc::vec::Vec::new() };
        let mut timers = alloc::vec::Vec::new();
        // No walk over the bundles: `take_loose` returns them singly, within the budget.
        for list in queue.lists.into_values() {
            if let Some(l) = self.lists.get_mut(list) {
                l.loose = true;
                timers.extend(l.timer.take());
                self.loose.push_back(list);
            }
        }
        timers
    }
    /// Takes one bundle from a released list.
    pub fn take_loose(&mut self, book: &mut Book) -> Option<Taken> {
        while let Some(list) = self.loose.front().copied() {
            let first = self.lists.get(list).map_or(NIL, |l| l.first);
            if first == NIL {
                self.lists.remove(list);
                self.loose.pop_front();
                continue;
            }
            return self.take(book, first);
        }
        None
    }
    /// Whether bundles of released lists wait to be routed again.
    pub(super) fn has_loose(&self) -> bool {
        !self.loose.is_empty()
    }
    /// Number of a bundle's places in lists.
    #[cfg(feature = "audit")]
    pub fn legs_of(&self, held: &Held) -> usize {
        core::iter::successors(self.legs.get(held.leg), |leg| self.legs.get(leg.sibling)).count()
    }
    #[cfg(feature = "audit")]
    pub fn lists(&self) -> usize {
        self.lists.len()
    }
    #[cfg(any(test, feature = "audit"))]
    pub fn len(&self) -> usize {
        self.legs.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{book_with, leg};
    use alloc::vec::Vec;

    fn order(queues: &mut Queues, book: &mut Book, link: u32) -> Vec<u64> {
        let mut out = Vec::new();
        while let Some(first) = queues.first(LinkId(link), book, 64, |_, _| true) {
            let taken = queues.take(book, first).unwrap();
            out.push(book.get(taken.bundle).unwrap().number);
        }
        out
    }

    #[test]
    fn queue_orders_by_priority_contact_arrival() {
        use Priority::{Bulk, Expedited, Normal};
        let (mut book, handles) = book_with(&[Normal, Bulk, Expedited, Normal, Normal]);
        let mut queues = Queues::new();
        // Index of each bundle and begin of its contact.
        for (n, at) in [(0, 5), (1, 0), (2, 9), (3, 5), (4, 1)] {
            queues.put(&mut book, handles[n], leg(0, at, u64::MAX), false);
        }
        assert_eq!(queues.of(LinkId(0)).0, 5);
        assert_eq!(order(&mut queues, &mut book, 0), [3, 5, 1, 4, 2]);
        assert_eq!(queues.of(LinkId(0)), (0, 0));
        assert_eq!((queues.len(), queues.lists.len()), (0, 0));
        assert!(handles.iter().all(|h| !book.get(*h).unwrap().has(RetentionConstraint::Queue)));
    }

    #[test]
    fn returned_bundle_keeps_its_place() {
        let (mut book, handles) = book_with(&[Priority::Normal; 3]);
        let mut queues = Queues::new();
        for handle in &handles[1..] {
            queues.put(&mut book, *handle, leg(0, 0, 9), false);
        }
        queues.put(&mut book, handles[0], leg(0, 0, 9), false);
        let second = queues.first(LinkId(0), &book, 64, |held, _| held.number == 2).unwrap();
        assert_eq!(queues.take(&mut book, second).map(|t| t.bundle), Some(handles[1]));
        assert!(queues.first(LinkId(0), &book, 1, |held, _| held.number == 3).is_none(), "looks at one only");
        assert_eq!(order(&mut queues, &mut book, 0), [1, 3]);
    }

    #[test]
    fn bundle_leaves_several_queues_singly() {
        let (mut book, handles) = book_with(&[Priority::Normal]);
        let mut queues = Queues::new();
        assert!(queues.put(&mut book, handles[0], leg(0, 0, 9), false).is_some());
        assert!(queues.put(&mut book, handles[0], leg(1, 0, 9), true).is_some());
        let first = queues.first(LinkId(0), &book, 64, |_, _| true).unwrap();
        assert_eq!(queues.take(&mut book, first).map(|t| t.copy), Some(false));
        assert!(book.get(handles[0]).unwrap().has(RetentionConstraint::Queue));
        assert_eq!(queues.take_of(&mut book, handles[0]).map(|t| (t.copy, t.link)), Some((true, LinkId(1))));
        assert!(!book.get(handles[0]).unwrap().has(RetentionConstraint::Queue));
        assert_eq!(queues.take_of(&mut book, handles[0]), None);
    }

    #[test]
    fn released_lists_return_bundles_singly() {
        let (mut book, handles) = book_with(&[Priority::Normal; 4]);
        let mut queues = Queues::new();
        let list = queues.put(&mut book, handles[0], leg(0, 0, 9), false).unwrap();
        queues.put(&mut book, handles[1], leg(0, 0, 9), false);
        queues.put(&mut book, handles[2], leg(0, 0, 20), false);
        queues.put(&mut book, handles[3], leg(1, 0, 20), false);
        queues.let_go(list);
        assert_eq!(queues.of(LinkId(0)).0, 1);
        assert_eq!(queues.take_of(&mut book, handles[0]).map(|t| t.bundle), Some(handles[0]));
        assert_eq!(queues.take_loose(&mut book).map(|t| t.bundle), Some(handles[1]));
        assert_eq!(queues.take_loose(&mut book), None);
        assert!(queues.let_link_go(LinkId(0)).is_empty() && queues.has_loose());
        assert_eq!(queues.take_loose(&mut book).map(|t| t.bundle), Some(handles[2]));
        assert_eq!((queues.take_loose(&mut book), queues.len()), (None, 1));
    }
}
