//! Index of all held bundles, by handle, identity, destination, arrival and end of lifetime.
//!
//! Entries live in slots, with three lists threaded through them. No operation takes long: every table grows by a page
//! (`pages`), a bucket (`buckets`) or a run (`calendar`).

use crate::buckets::BucketKey;
use crate::calendar::Calendar;
use crate::cursors::Cursors;
use crate::destinations::Destinations;
use crate::held::{Handle, Held, New, RetentionConstraint};
use crate::identities::Identities;
use crate::lists::{Slots, Thread, is_end};
use crate::pages::NIL;
use alloc::boxed::Box;
use farlink_base::{Instant, NodeId, Priority, Rng};

const ARRIVAL: Thread = Thread::Arrival;

/// Cursor over the bundles in order of arrival; stays valid when bundles are removed. IDs of closed cursors are reused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CursorId(pub u32);

/// All bundles held by a node.
#[derive(Debug)]
pub struct Book {
    slots: Slots,
    identities: Identities,
    destinations: Destinations,
    calendar: Calendar,
    cursors: Option<Box<Cursors>>,
    /// Slot of the oldest entry.
    oldest: u32,
    key: BucketKey,
    last: u64,
    bytes: u64,
    /// Number of entries per class of service.
    classes: [u32; Priority::ALL.len()],
    /// Whether the order of arrival equals the order of numbers; false after a bundle arrived with a number of an
    /// earlier run.
    in_order: bool,
}

impl Book {
    /// Empty book; `seed` keys the placement of entries in buckets.
    pub fn new(seed: u64) -> Self {
        Book {
            slots: Slots::new(),
            identities: Identities::new(),
            destinations: Destinations::new(),
            calendar: Calendar::new(),
            cursors: None,
            oldest: NIL,
            key: BucketKey::new(seed),
            last: 0,
            bytes: 0,
            classes: [0; Priority::ALL.len()],
            in_order: true,
        }
    }
    /// Number of bundles held.
    pub fn len(&self) -> usize {
        self.slots.len() as usize
    }
    /// Whether no bundle is held.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Frees surplus memory if no bundle is held. For idle times: freeing much takes milliseconds.
    pub fn rest(&mut self) {
        if self.is_empty() && self.slots.slots() > 0 {
            self.slots = Slots::new();
            self.identities = Identities::new();
            self.destinations = Destinations::new();
            self.calendar = Calendar::new();
        }
    }
    /// Sum of the bundles' encoded lengths, bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
    /// Highest bundle number used so far.
    pub fn last_number(&self) -> u64 {
        self.last
    }
    /// Marks numbers up to this one as used; the next new bundle gets a higher one.
    pub fn skip_to(&mut self, number: u64) {
        self.last = self.last.max(number);
    }
    /// Looks up an entry by handle; `None` once the bundle left.
    #[inline]
    pub fn get(&self, bundle: Handle) -> Option<&Held> {
        self.slots.get(bundle.slot).filter(|held| held.number as u32 == bundle.stamp)
    }
    /// Looks up an entry by handle, for changes to its labels, previous node, counts and flags. Its number and times
    /// must not be changed, nor its bundle, except for the place (memory or disk) of the payload's bytes.
    /// [`Book::rearm`] changes the expiry.
    #[inline]
    pub fn get_mut(&mut self, bundle: Handle) -> Option<&mut Held> {
        self.get(bundle)?;
        Some(&mut self.slots[bundle.slot])
    }
    /// Looks up an entry by identity; anonymous bundles are not found.
    pub fn find(&self, id: u128) -> Option<&Held> {
        self.identities.find(&self.slots, self.key, id)
    }
    /// Looks up an entry by number, for operators; examines all entries.
    pub fn by_number(&self, number: u64) -> Option<&Held> {
        self.all().find(|held| held.number == number)
    }
    /// Entries in order of arrival, oldest first.
    pub fn all(&self) -> impl Iterator<Item = &Held> {
        self.slots.walk(ARRIVAL, self.oldest)
    }
    /// Whether all bundles have the same class of service and arrived in the order of their numbers.
    pub fn is_even(&self) -> bool {
        self.in_order && self.classes.iter().filter(|count| **count > 0).count() <= 1
    }
    /// Entries for a destination node, oldest first.
    pub fn to(&self, destination: NodeId) -> impl Iterator<Item = &Held> {
        self.slots.walk(Thread::Towards, self.destinations.find(&self.slots, self.key, destination))
    }
    /// Next bundle in order of arrival for the same destination node; `None` at the end.
    pub fn next_to(&self, bundle: Handle) -> Option<Handle> {
        let next = self.slots.links(Thread::Towards, self.get(bundle)?.slot).next;
        (!is_end(next)).then(|| self.slots[next].handle())
    }
    /// Draws a random entry; `None` from an empty book. The draw is uniform, unless the book is nearly empty and was
    /// much fuller: then it may be one of the 256 oldest.
    pub fn draw(&self, rng: &mut Rng) -> Option<&Held> {
        const TRIES: usize = 64;
        const WALK: u64 = 256;
        if self.is_empty() {
            return None;
        }
        // Drawing slots keeps the cost constant; walking would not.
        let slots = u64::from(self.slots.slots());
        // Each try finds an entry with the probability that a slot is in use.
        let drawn = (0..TRIES).find_map(|_| self.slots.get(rng.below(slots) as u32));
        drawn.or_else(|| self.all().nth(rng.below(WALK.min(self.len() as u64)) as usize))
    }
    /// Adds a bundle as the last in order of arrival, whatever its number. The caller ensures that neither its identity
    /// nor a number it brings is in the book.
    pub fn keep(&mut self, new: New) -> Handle {
        debug_assert!(new.bundle.is_anonymous() || self.find(new.bundle.id).is_none(), "it is held already");
        // Numbers are never used twice, so a stale handle finds nothing.
        let number = new.number.unwrap_or(self.last + 1);
        // A book that became empty starts a new order.
        self.in_order = number > self.last && (self.in_order || self.is_empty());
        self.last = self.last.max(number);
        self.classes[usize::from(new.bundle.priority.number())] += 1;
        let held = Held::newcomer(New { number: Some(number), ..new });
        self.bytes += held.size();
        let slot = self.slots.insert(held);
        self.slots[slot].slot = slot;
        // An empty list has no head to append to.
        if self.oldest == NIL {
            self.slots.begin(ARRIVAL, slot, NIL);
            self.oldest = slot;
        } else {
            self.slots.push_back(ARRIVAL, self.oldest, slot);
        }
        self.identities.insert(&mut self.slots, self.key, slot);
        self.destinations.insert(&mut self.slots, self.key, slot);
        self.calendar.insert(&mut self.slots, slot);
        self.slots[slot].handle()
    }
    /// Adds a retention constraint.
    pub fn hold(&mut self, bundle: Handle, reason: RetentionConstraint) {
        if let Some(held) = self.get_mut(bundle) {
            held.reasons = held.reasons.with(reason);
        }
    }
    /// Removes a retention constraint. Returns true if it was the last one, so that the bundle must leave.
    #[must_use]
    pub fn release(&mut self, bundle: Handle, reason: RetentionConstraint) -> bool {
        let Some(held) = self.get_mut(bundle) else { return false };
        let had = held.reasons.has(reason);
        held.reasons = held.reasons.without(reason);
        had && held.reasons.is_empty()
    }
    /// Removes a bundle, whatever its constraints, and returns its entry.
    pub fn remove(&mut self, bundle: Handle) -> Option<Held> {
        let marked = self.get(bundle)?.marked;
        let slot = bundle.slot;
        // Only marked entries have cursors, so others cost nothing here.
        if let Some(cursors) = self.cursors.as_mut().filter(|_| marked) {
            // The oldest entry's `prev` is the tail of the list, not a predecessor.
            let before = if slot == self.oldest { NIL } else { self.slots.links(ARRIVAL, slot).prev };
            cursors.fall_back(&mut self.slots, slot, before);
        }
        self.identities.remove(&mut self.slots, self.key, slot);
        self.destinations.remove(&mut self.slots, self.key, slot);
        self.calendar.remove(&mut self.slots, slot);
        let oldest = self.slots.unlink(ARRIVAL, self.oldest, slot);
        self.oldest = if is_end(oldest) { NIL } else { oldest };
        let held = self.slots.remove(slot)?;
        self.bytes -= held.size();
        self.classes[usize::from(held.bundle.priority.number())] -= 1;
        Some(held)
    }
    /// Time at which [`Book::pop_expired`] may return a bundle: the end of the earliest bucket of expiries, at most
    /// 16.8 ms after its first bundle expires. `None` if no bundle expires.
    #[inline]
    pub fn next_expiry(&self) -> Option<Instant> {
        self.calendar.next()
    }
    /// Takes an expired bundle out of the order of expiries; it stays in the book. The caller removes it, or puts it
    /// back with [`Book::rearm`].
    pub fn pop_expired(&mut self, now: Instant) -> Option<Handle> {
        let slot = self.calendar.pop(&mut self.slots, now)?;
        Some(self.slots[slot].handle())
    }
    /// Changes a bundle's expiry, and puts the bundle back into the order of expiries if it was taken out.
    pub fn rearm(&mut self, bundle: Handle, expires: Instant) {
        if self.get(bundle).is_some() {
            self.calendar.remove(&mut self.slots, bundle.slot);
            self.slots[bundle.slot].expires = expires;
            self.calendar.insert(&mut self.slots, bundle.slot);
        }
    }
    /// Opens a cursor before the oldest bundle.
    pub fn open_cursor(&mut self) -> CursorId {
        let cursors = self.cursors.get_or_insert_with(|| Box::new(Cursors::new()));
        CursorId(cursors.open(&mut self.slots))
    }
    /// Number of open cursors.
    pub fn cursors(&self) -> usize {
        self.cursors.as_ref().map_or(0, |cursors| cursors.len())
    }
    /// Closes a cursor; its number may be used again.
    pub fn close_cursor(&mut self, cursor: CursorId) {
        if let Some(cursors) = &mut self.cursors {
            cursors.close(&mut self.slots, cursor.0);
        }
    }
    /// Moves a cursor before the oldest bundle.
    pub fn rewind(&mut self, cursor: CursorId) {
        if let Some(cursors) = &mut self.cursors {
            cursors.go(&mut self.slots, cursor.0, NIL);
        }
    }
    /// Moves a cursor to the next bundle in order of arrival and returns that; `None` at the end, until more arrive. A
    /// cursor stands on the bundle it returned last, or, once that left, on the bundle before it.
    pub fn advance(&mut self, cursor: CursorId) -> Option<Handle> {
        let next = self.ahead(cursor)?;
        self.stand(cursor, next);
        Some(next)
    }
    /// Bundle that [`Book::advance`] would return, without moving the cursor.
    #[inline]
    pub fn ahead(&self, cursor: CursorId) -> Option<Handle> {
        let next = match self.cursors.as_ref()?.slot(cursor.0)? {
            // Before the oldest bundle, the next one is the oldest.
            NIL => self.oldest,
            slot => self.slots.links(ARRIVAL, slot).next,
        };
        (!is_end(next)).then(|| self.slots[next].handle())
    }
    /// Bundle that arrived next after this one; `None` if this one is the newest.
    #[inline]
    pub fn after(&self, bundle: Handle) -> Option<Handle> {
        let next = self.slots.links(ARRIVAL, self.get(bundle)?.slot).next;
        (!is_end(next)).then(|| self.slots[next].handle())
    }
    /// Moves a cursor to a bundle, if the bundle is held.
    pub fn stand(&mut self, cursor: CursorId, bundle: Handle) {
        if let (Some(slot), Some(cursors)) = (self.get(bundle).map(|held| held.slot), &mut self.cursors) {
            cursors.go(&mut self.slots, cursor.0, slot);
        }
    }
    /// Checks every list and index against every entry, for tests and debug builds.
    ///
    /// # Panics
    /// On any inconsistency.
    pub fn audit(&self) {
        self.slots.audit();
        for (slot, held) in self.slots.iter() {
            assert!(held.slot == slot && held.number <= self.last, "an entry knows its slot");
        }
        assert_eq!(self.bytes, self.all().map(Held::size).sum::<u64>(), "bytes");
        assert_eq!(self.slots.audit_list(ARRIVAL, self.oldest), self.len(), "entries by arrival");
        assert!(!self.in_order || self.all().map(|held| held.number).is_sorted(), "numbers by arrival");
        let of = |class: &Priority| self.all().filter(|held| held.bundle.priority == *class).count() as u32;
        assert_eq!(self.classes.as_slice(), Priority::ALL.each_ref().map(of), "entries of each class");
        self.identities.audit(&self.slots, self.key);
        self.destinations.audit(&self.slots, self.key);
        self.calendar.audit(&self.slots);
        match &self.cursors {
            Some(cursors) => cursors.audit(&self.slots),
            None => assert!(self.all().all(|held| !held.marked)),
        }
    }
}
