//! Bytes of the disk kept for what gives back more of it.
//!
//! A full disk takes no records of deletions either, nor the header of a new file, without which the newest may not go:
//! a store in one file would stay full for ever. So some bytes are kept from the start. Where the disk is full the next
//! file is made of them: it takes records of deletions, and what little still lives in a file that may go then. Bundles are
//! refused until as many bytes are kept again, which also tells that there is room.

use super::{LogStore, Op};
use farlink_base::store::{DiskAction, DiskAnswer, DiskError, Output};
use farlink_base::{Instant, Refusal, Sink};

/// Whether something is kept for a full disk, and when to try again.
#[derive(Debug)]
pub(super) struct Reserve {
    /// Nothing is ever kept: the store is small, or its disk never fills.
    never: bool,
    asked: bool,
    /// The disk takes nothing: the next file is made of what is kept, if that helps.
    needed: bool,
    /// It was, or could not be kept: nothing but small records is written until as much is kept again.
    wanted: bool,
    /// The file made of it takes no more deletions.
    used_up: bool,
    retry_at: Option<Instant>,
    failures: u32,
}
impl Reserve {
    /// Of so many bytes.
    pub fn new(bytes: u64) -> Reserve {
        Reserve {
            never: bytes == 0,
            asked: false,
            needed: false,
            wanted: false,
            used_up: false,
            retry_at: None,
            failures: 0,
        }
    }
    /// Whether the disk is full and nothing is kept.
    pub fn is_wanted(&self) -> bool {
        self.wanted
    }
    /// Whether it is, and what was kept has no more room for deletions.
    pub fn is_used_up(&self) -> bool {
        self.wanted && self.used_up
    }
    /// The disk takes nothing, or takes something again.
    pub fn need(&mut self, needed: bool) {
        self.needed = needed;
    }
    /// There may be room again.
    pub fn hurry(&mut self, now: Instant) {
        self.retry_at = self.retry_at.map(|at| at.min(now));
    }
    /// When to try again to keep something.
    pub fn retry_at(&self) -> Option<Instant> {
        self.retry_at
    }
    fn may_ask(&self, now: Instant) -> bool {
        !self.never && !self.asked && self.retry_at.is_none_or(|at| at <= now)
    }
}

impl LogStore {
    /// Keeps bytes of the disk where none are kept.
    pub(super) fn keep_reserve(&mut self, now: Instant, out: &mut impl Sink<Output>) {
        if self.segments.reserve.is_some() || !self.reserve.may_ask(now) {
            return;
        }
        (self.reserve.asked, self.reserve.retry_at) = (true, None);
        let (file, bytes) = (self.segments.next, self.config.reserve_bytes);
        self.segments.next = file.saturating_add(1);
        self.disk(Op::Reserve(file), DiskAction::Reserve { file, bytes }, out);
    }
    pub(super) fn reserved(
        &mut self,
        now: Instant,
        file: u32,
        result: Result<DiskAnswer, DiskError>,
        out: &mut impl Sink<Output>,
    ) {
        // A full disk is looked at now and then, not with each input: there may be many files.
        self.look = true;
        let never = result == Ok(DiskAnswer::Done);
        self.reserve = Reserve { never, asked: false, ..self.reserve };
        match result {
            Ok(answer) => {
                if let DiskAnswer::Kept(bytes) = answer {
                    self.segments.keep_reserve(file, bytes);
                }
                (self.reserve.wanted, self.reserve.failures) = (false, 0);
            }
            Err(error) => {
                self.reserve.retry_at = Some(now + self.config.retry * (1 << self.reserve.failures.min(4)));
                self.reserve.failures += 1;
                if error == DiskError::Full {
                    self.drop_spares(out);
                    self.refuse_all(file, out);
                }
            }
        }
    }
    fn refuse_all(&mut self, file: u32, out: &mut impl Sink<Output>) {
        if !core::mem::replace(&mut self.reserve.wanted, true) {
            self.report_failure(file, out);
            self.refuse_waiting(Refusal::NoResources, out);
        }
    }
    /// What was kept, for the next file of a full disk: where records of deletions wait, or the newest file, empty, for another.
    pub(super) fn take_reserve(&mut self, now: Instant, out: &mut impl Sink<Output>) -> Option<u32> {
        if !self.reserve.needed {
            return None;
        }
        self.end_compaction();
        self.queue.drop_copies();
        let nothing_small = !self.queue.has_small();
        if nothing_small && !self.segments.empty.contains(&self.segments.newest_durable) {
            return None;
        }
        let file = self.segments.take_reserve()?;
        (self.reserve.needed, self.reserve.wanted, self.reserve.used_up) = (false, true, false);
        self.refuse_waiting(Refusal::NoResources, out);
        if nothing_small {
            self.queue.push_counter(now, self.counter);
        }
        Some(file)
    }
    /// Whether the file grows no longer: it was made of what was kept for a full disk, and the disk is full.
    pub(super) fn is_cramped(&self, file: u32) -> bool {
        self.reserve.is_wanted() && self.segments.get(file).is_some_and(|segment| segment.reserved)
    }
    /// Whether a record that ends at `end` finds room in such a file: the last quarter is for what is moved out of others.
    pub(super) fn fits_reserved(&self, file: u32, end: u64, copy: bool) -> bool {
        let size = self.segments.get(file).map_or(0, |segment| segment.size);
        end <= if copy { size } else { size / 4 * 3 }
    }
    /// What is next found no room there.
    pub(super) fn reserve_used_up(&mut self) {
        self.reserve.used_up = true;
        if let Some(copy) = self.queue.pop_copy() {
            self.copy_finished(copy.from.file);
        }
    }
    /// Bytes of live records that may be moved into what is kept, or was.
    fn reserved_room(&self) -> u64 {
        let active = self.segments.active.and_then(|file| self.segments.get(file)).filter(|segment| segment.reserved);
        active.map_or(0, |segment| segment.size.saturating_sub(segment.len.max(segment.size / 4 * 3)))
    }
    /// The file to be emptied where the disk is full.
    pub(super) fn vacant(&self) -> Option<u32> {
        self.segments.vacant(self.reserved_room(), self.config.reserve_bytes)
    }
}
