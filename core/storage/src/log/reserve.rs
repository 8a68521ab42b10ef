//! Disk space reserved for deletions on a full disk.
//!
//! A full disk takes neither delete records nor the header of a new file, without which the newest file may not be
//! removed: a store with a single file would stay full for ever. So some space is reserved from the start. When the
//! disk is full, the next file is made of it: it takes delete records and the few live records of a file that can be
//! removed then. Bundles are refused until the same space is reserved again, which also shows that the disk has room.

use super::{LogStore, Op};
use farlink_base::store::{DiskAction, DiskAnswer, DiskError, Output};
use farlink_base::{Instant, Refusal, Sink};

/// State of the reserve, and when to retry reserving.
#[derive(Debug)]
pub(super) struct Reserve {
    /// Whether nothing is ever reserved, because no reserve is configured or the driver's disk never fills.
    never: bool,
    asked: bool,
    /// Whether the disk is full, so that the next file is made of the reserve if that helps.
    needed: bool,
    /// Whether the reserve was used or could not be made; only small records are written until it exists again.
    wanted: bool,
    /// Whether the file made of the reserve has no room for more deletions.
    used_up: bool,
    retry_at: Option<Instant>,
    failures: u32,
}
impl Reserve {
    /// State before the first reservation; with `bytes` 0 nothing is ever reserved.
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
    /// Whether the reserve was used or could not be made, so that bundles are refused.
    pub fn is_wanted(&self) -> bool {
        self.wanted
    }
    /// Whether the reserve was used, and the file made of it has no room for more deletions.
    pub fn is_used_up(&self) -> bool {
        self.wanted && self.used_up
    }
    /// Records whether the disk is full.
    pub fn need(&mut self, needed: bool) {
        self.needed = needed;
    }
    /// Lets a waiting retry happen at once, because there may be room again.
    pub fn hurry(&mut self, now: Instant) {
        self.retry_at = self.retry_at.map(|at| at.min(now));
    }
    /// Time of the next attempt to reserve, if the last one failed.
    pub fn retry_at(&self) -> Option<Instant> {
        self.retry_at
    }
    fn may_ask(&self, now: Instant) -> bool {
        !self.never && !self.asked && self.retry_at.is_none_or(|at| at <= now)
    }
}

impl LogStore {
    /// Asks for disk space if none is reserved and no retry has to wait.
    pub(super) fn keep_reserve(&mut self, now: Instant, out: &mut impl Sink<Output>) {
        if self.segments.reserve.is_some() || !self.reserve.may_ask(now) {
            return;
        }
        (self.reserve.asked, self.reserve.retry_at) = (true, None);
        let (file, bytes) = (self.segments.next, self.config.reserve_bytes);
        // The number is used up even if the reservation fails: numbers are never used twice.
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
        // Look for a file to vacate once per attempt, not with each input: there may be many files.
        self.look = true;
        // `Done` instead of `Kept`: the driver's disk never fills.
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
                // At most 16 times `retry`: a disk that stays full is tried rarely, but freed space is still noticed.
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
    /// Takes the reserve for the next file of a full disk, if small records wait, or if the newest file is empty and
    /// could be removed once there is a newer one. Refuses all waiting bundles.
    pub(super) fn take_reserve(&mut self, now: Instant, out: &mut impl Sink<Output>) -> Option<u32> {
        if !self.reserve.needed {
            return None;
        }
        self.end_compaction();
        self.queue.drop_copies();
        // `end_compaction` and `drop_copies` above left no copies, so small records are deletions and counters.
        let nothing_small = !self.queue.has_small();
        if nothing_small && !self.segments.empty.contains(&self.segments.newest_durable) {
            return None;
        }
        let file = self.segments.take_reserve()?;
        (self.reserve.needed, self.reserve.wanted, self.reserve.used_up) = (false, true, false);
        self.refuse_waiting(Refusal::NoResources, out);
        if nothing_small {
            // A counter record gives the new file a first commit, after which the empty file before it may be removed.
            self.queue.push_counter(now, self.counter);
        }
        Some(file)
    }
    /// Whether the file may not grow: it was made of the reserve, and the disk is full.
    pub(super) fn is_cramped(&self, file: u32) -> bool {
        self.reserve.is_wanted() && self.segments.get(file).is_some_and(|segment| segment.reserved)
    }
    /// Whether a record that ends at `end` fits into the file made of the reserve. The last quarter is for records
    /// moved out of other files (`copy`).
    pub(super) fn fits_reserved(&self, file: u32, end: u64, copy: bool) -> bool {
        let size = self.segments.get(file).map_or(0, |segment| segment.size);
        end <= if copy { size } else { size / 4 * 3 }
    }
    /// Records that the file made from the reserve has no room for the next record; drops that record if it is a copy.
    pub(super) fn reserve_used_up(&mut self) {
        self.reserve.used_up = true;
        // The copy at the head of the queue would block every later attempt.
        if let Some(copy) = self.queue.pop_copy() {
            self.copy_finished(copy.from.file);
        }
    }
    /// Bytes of live records that the file made of the reserve can still take.
    fn reserved_room(&self) -> u64 {
        let active = self.segments.active.and_then(|file| self.segments.get(file)).filter(|segment| segment.reserved);
        active.map_or(0, |segment| segment.size.saturating_sub(segment.len.max(segment.size / 4 * 3)))
    }
    /// The file to vacate on a full disk, if any.
    pub(super) fn vacant(&self) -> Option<u32> {
        self.segments.vacant(self.reserved_room(), self.config.reserve_bytes)
    }
}
