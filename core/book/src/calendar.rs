//! Index of held bundles by expiry: buckets of 2^24 ns (16.8 ms), each a list of its bundles. A bucket is processed
//! only after its end, so that each bundle is taken once and none is skipped; a bundle is taken at most one bucket
//! late. Sending and delivery compare the expiry exactly.
//!
//! Buckets in use are kept in order, in runs of at most 64. That costs 8 bytes per bucket instead of the 30 of a
//! library's map, and many bundles have a bucket of their own.

use crate::lists::{Slots, Thread, is_end};
use crate::pages::NIL;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use farlink_base::Instant;

const EXPIRY: Thread = Thread::Expiry;
/// Most buckets per run.
const RUN_MAX: usize = 64;
/// Base-2 logarithm of a bucket's width in ns.
const WIDTH: u32 = 24;

/// Number of the bucket that contains an instant.
fn bucket(expires: Instant) -> u64 {
    expires.as_nanos() >> WIDTH
}
/// Last instant of a bucket.
fn end(bucket: u64) -> Instant {
    Instant::from_nanos(bucket << WIDTH | ((1 << WIDTH) - 1))
}

/// A bucket in use.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    /// Distance from the lower bound of the bucket's run, in buckets.
    after: u32,
    /// Slot of the bucket's first entry.
    head: u32,
}

/// The order of held bundles by expiry.
#[derive(Debug)]
pub(crate) struct Calendar {
    /// Runs by their lower bounds. No run is empty, and none spans 2^32 buckets (2.3 years).
    runs: BTreeMap<u64, Vec<Bucket>>,
    /// End of the earliest bucket, `Instant::MAX` without one; cached because it is read far more often than it
    /// changes.
    next: Instant,
}

/// Index of a bucket in a run, or, as the error, the index at which it belongs.
fn place(run: &[Bucket], after: u32) -> Result<usize, usize> {
    // New buckets usually come last: try that before the search.
    match run.last() {
        Some(last) if last.after < after => Err(run.len()),
        _ => run.binary_search_by_key(&after, |bucket| bucket.after),
    }
}

impl Calendar {
    pub const fn new() -> Self {
        Calendar { runs: BTreeMap::new(), next: Instant::MAX }
    }
    /// Lower bound of the run that has or would get a bucket, and the bucket's distance from it.
    fn run_of(&self, wanted: u64) -> (u64, u32) {
        let least = self.runs.range(..=wanted).next_back().map_or(0, |(least, _)| *least);
        u32::try_from(wanted - least).map_or((wanted, 0), |after| (least, after))
    }
    /// Adds an entry, unless it never expires.
    pub fn insert(&mut self, slots: &mut Slots, slot: u32) {
        let expires = slots[slot].expires;
        // Bundles that never expire are in no list, so they never wake the node.
        if expires == Instant::MAX {
            return;
        }
        self.next = self.next.min(end(bucket(expires)));
        let (least, after) = self.run_of(bucket(expires));
        let new = Bucket { after, head: slot };
        let run = self.runs.entry(least).or_default();
        match place(run, after) {
            // If the bucket exists, its list gets longer but the run does not.
            Ok(i) => return slots.push_back(EXPIRY, run[i].head, slot),
            Err(i) if run.len() < RUN_MAX => put(run, i, new),
            Err(i) => self.put_in_full(least, i, new),
        }
        slots.begin(EXPIRY, slot, NIL);
    }
    /// Adds a bucket to a full run. If the bucket comes after all others, it begins a new run; else the run is halved.
    fn put_in_full(&mut self, least: u64, i: usize, new: Bucket) {
        let is_last = self.runs.last_key_value().is_some_and(|(last, _)| *last == least);
        let Some(run) = self.runs.get_mut(&least) else { return };
        // Buckets that are added in order must not leave half-empty runs behind.
        let at = if is_last && i == run.len() { i } else { run.len() / 2 };
        let mut upper = run.split_off(at);
        if i < at {
            put(run, i, new);
        } else {
            put(&mut upper, i - at, new);
        }
        // A halved run frees the memory of its upper half.
        run.shrink_to(at + SPARE);
        // The upper half counts from its own first bucket.
        let first = upper[0].after;
        upper.iter_mut().for_each(|bucket| bucket.after -= first);
        self.runs.insert(least + u64::from(first), upper);
    }
    /// Removes an entry, if it is in the calendar.
    pub fn remove(&mut self, slots: &mut Slots, slot: u32) {
        if !slots[slot].is_armed() {
            return;
        }
        // A bucket refers only to the head and tail of its list, so removing an inner entry leaves the bucket as it is.
        if slots.is_inner(EXPIRY, slot) {
            slots.unlink(EXPIRY, NIL, slot);
            return;
        }
        let (least, after) = self.run_of(bucket(slots[slot].expires));
        if let Some(Ok(i)) = self.runs.get(&least).map(|run| place(run, after)) {
            self.cut(slots, least, i, slot);
        }
    }
    /// Removes the head or tail of bucket `i` of a run.
    fn cut(&mut self, slots: &mut Slots, least: u64, i: usize, slot: u32) {
        let Some(run) = self.runs.get_mut(&least) else { return };
        let head = slots.unlink(EXPIRY, run[i].head, slot);
        if !is_end(head) {
            run[i].head = head;
            return;
        }
        run.remove(i);
        if run.is_empty() {
            self.runs.remove(&least);
        } else if run.capacity() > 2 * run.len() + SPARE {
            run.shrink_to(run.len() + SPARE);
        }
        // Only the first bucket of a run can be the earliest.
        if i == 0 {
            self.next = self.first().map_or(Instant::MAX, |(_, _, end)| end);
        }
    }
    /// Lower bound of the earliest run, first entry of its first bucket, and end of that bucket.
    fn first(&self) -> Option<(u64, u32, Instant)> {
        let (&least, run) = self.runs.first_key_value()?;
        let first = run.first()?;
        Some((least, first.head, end(least + u64::from(first.after))))
    }
    /// End of the earliest bucket; `None` without buckets.
    #[inline]
    pub fn next(&self) -> Option<Instant> {
        (self.next < Instant::MAX).then_some(self.next)
    }
    /// Removes an entry whose bucket is over; `None` if no bucket is over.
    pub fn pop(&mut self, slots: &mut Slots, now: Instant) -> Option<u32> {
        // `next` is the last instant of the earliest bucket: all its bundles have expired by then.
        if self.next > now {
            return None;
        }
        let (least, head, _) = self.first()?;
        self.cut(slots, least, 0, head);
        Some(head)
    }
    /// Checks the order of runs and buckets, and the bucket of each entry.
    pub fn audit(&self, slots: &Slots) {
        let (mut entries, mut least) = (0, 0);
        assert_eq!(self.next(), self.first().map(|(_, _, end)| end), "the earliest bucket of the calendar");
        for (&from, run) in &self.runs {
            assert!(from >= least && !run.is_empty() && run.len() <= RUN_MAX, "runs of the calendar");
            least = from;
            for &Bucket { after, head } in run {
                let now = from + u64::from(after);
                assert!(now >= least, "buckets in order");
                assert!(slots.walk(EXPIRY, head).all(|held| bucket(held.expires) == now && held.is_armed()));
                entries += slots.audit_list(EXPIRY, head);
                least = now + 1;
            }
        }
        assert_eq!(entries, slots.iter().filter(|(_, held)| held.is_armed()).count(), "entries of the calendar");
    }
}

/// Buckets by which the allocation of a run grows.
const SPARE: usize = 8;

/// Inserts a bucket into a run.
fn put(run: &mut Vec<Bucket>, i: usize, bucket: Bucket) {
    if run.len() == run.capacity() {
        run.reserve_exact(SPARE);
    }
    run.insert(i, bucket);
}
