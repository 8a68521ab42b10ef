//! When held bundles expire: buckets of 2^24 ns (16.8 ms), each a list of its bundles. A bucket is
//! looked at when all of it is over, so that each bundle is taken once and never passed over; a
//! bundle is up to one bucket late. Who sends or delivers compares its end exactly.
//!
//! The buckets in use stand in order, in runs of at most 64. That costs 8 bytes a bucket where a
//! library's map costs 30: many bundles have a bucket of their own.

use crate::lists::{Slots, Thread, is_end};
use crate::pages::NIL;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use farlink_base::Instant;

const EXPIRY: Thread = Thread::Expiry;
/// Most buckets of one run.
const RUN_MAX: usize = 64;
/// Binary digits of a bucket's width in ns.
const WIDTH: u32 = 24;

/// The bucket of an instant.
fn bucket(expires: Instant) -> u64 {
    expires.as_nanos() >> WIDTH
}
/// The last instant of a bucket.
fn end(bucket: u64) -> Instant {
    Instant::from_nanos(bucket << WIDTH | ((1 << WIDTH) - 1))
}

/// One bucket in use.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    /// How far it is after the least that its run may have.
    after: u32,
    /// Its first entry.
    head: u32,
}

/// The order of lifetimes.
#[derive(Debug)]
pub(crate) struct Calendar {
    /// Runs by the least bucket that each may have. None is empty, none has a bucket 2^32 after its
    /// least (2.3 years).
    runs: BTreeMap<u64, Vec<Bucket>>,
    /// When the earliest bucket is over, or never: asked much more often than it changes.
    next: Instant,
}

/// Where a bucket is, or belongs, in a run.
fn place(run: &[Bucket], after: u32) -> Result<usize, usize> {
    match run.last() {
        Some(last) if last.after < after => Err(run.len()),
        _ => run.binary_search_by_key(&after, |bucket| bucket.after),
    }
}

impl Calendar {
    pub const fn new() -> Self {
        Calendar { runs: BTreeMap::new(), next: Instant::MAX }
    }
    /// The run that has a bucket, or should, and how far it is after the least of that.
    fn run_of(&self, wanted: u64) -> (u64, u32) {
        let least = self.runs.range(..=wanted).next_back().map_or(0, |(least, _)| *least);
        u32::try_from(wanted - least).map_or((wanted, 0), |after| (least, after))
    }
    /// Adds an entry, unless it never expires.
    pub fn insert(&mut self, slots: &mut Slots, slot: u32) {
        let expires = slots[slot].expires;
        if expires == Instant::MAX {
            return;
        }
        self.next = self.next.min(end(bucket(expires)));
        let (least, after) = self.run_of(bucket(expires));
        let new = Bucket { after, head: slot };
        let run = self.runs.entry(least).or_default();
        match place(run, after) {
            Ok(i) => return slots.push_back(EXPIRY, run[i].head, slot),
            Err(i) if run.len() < RUN_MAX => put(run, i, new),
            Err(i) => self.put_in_full(least, i, new),
        }
        slots.begin(EXPIRY, slot, NIL);
    }
    /// Adds a bucket to a full run: a new run begins with it if this is the last, else with half of
    /// the run.
    fn put_in_full(&mut self, least: u64, i: usize, new: Bucket) {
        let is_last = self.runs.last_key_value().is_some_and(|(last, _)| *last == least);
        let Some(run) = self.runs.get_mut(&least) else { return };
        let at = if is_last && i == run.len() { i } else { run.len() / 2 };
        let mut upper = run.split_off(at);
        if i < at {
            put(run, i, new);
        } else {
            put(&mut upper, i - at, new);
        }
        run.shrink_to(at + SPARE);
        let first = upper[0].after;
        upper.iter_mut().for_each(|bucket| bucket.after -= first);
        self.runs.insert(least + u64::from(first), upper);
    }
    /// Takes an entry out, if it is in.
    pub fn remove(&mut self, slots: &mut Slots, slot: u32) {
        if !slots[slot].is_armed() {
            return;
        }
        if slots.is_inner(EXPIRY, slot) {
            slots.unlink(EXPIRY, NIL, slot);
            return;
        }
        let (least, after) = self.run_of(bucket(slots[slot].expires));
        if let Some(Ok(i)) = self.runs.get(&least).map(|run| place(run, after)) {
            self.cut(slots, least, i, slot);
        }
    }
    /// Takes the head or tail of bucket `i` of a run out.
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
        if i == 0 {
            self.next = self.first().map_or(Instant::MAX, |(_, _, end)| end);
        }
    }
    /// The earliest run, its first bucket's head, and when that is over.
    fn first(&self) -> Option<(u64, u32, Instant)> {
        let (&least, run) = self.runs.first_key_value()?;
        let first = run.first()?;
        Some((least, first.head, end(least + u64::from(first.after))))
    }
    /// When the earliest bucket is over.
    #[inline]
    pub fn next(&self) -> Option<Instant> {
        (self.next < Instant::MAX).then_some(self.next)
    }
    /// Takes an entry out that has expired.
    pub fn pop(&mut self, slots: &mut Slots, now: Instant) -> Option<u32> {
        if self.next > now {
            return None;
        }
        let (least, head, _) = self.first()?;
        self.cut(slots, least, 0, head);
        Some(head)
    }
    /// Checks the order of runs and buckets, and that each entry is in its own.
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

/// Room for so many buckets is added to a run at a time.
const SPARE: usize = 8;

/// Adds a bucket to a run.
fn put(run: &mut Vec<Bucket>, i: usize, bucket: Bucket) {
    if run.len() == run.capacity() {
        run.reserve_exact(SPARE);
    }
    run.insert(i, bucket);
}
