//! Compaction: reads the live records of the emptiest file, checks them and writes them again at the end of the log.
//! Once the copies are durable the file has no live record left and is removed.

use super::record::{Loc, RecordHeader, decode_whole};
use super::segment::Owner;
use super::{BundleState, LogStore, Op};
use alloc::vec::Vec;
use bytes::Bytes;
use farlink_base::store::{DiskAction, DiskError, Output};
use farlink_base::{Instant, Sink};

/// Longest run of dead bytes between two live records that is read along rather than skipped.
const GAP: u64 = 64 * 1024;

/// A live record on its way to a newer file.
#[derive(Debug)]
pub(super) struct RecordCopy {
    pub owner: Owner,
    pub from: Loc,
    pub header: RecordHeader,
    pub bytes: Bytes,
}

/// The file being emptied.
#[derive(Debug)]
pub(super) struct Compaction {
    victim: u32,
    /// Offset before which all records were handled.
    cursor: u64,
    /// The read under way: its operation, its offset, and the records in it. The operation number distinguishes it from a
    /// read of an abandoned compaction.
    reading: Option<(u64, u64, Vec<(u64, u64)>)>,
    /// Copies that are not durable yet.
    copying: u32,
}

impl LogStore {
    /// Starts the next read, if compaction is needed and no step is under way.
    pub(super) fn compact(&mut self, now: Instant, out: &mut impl Sink<Output>) {
        // Copies need room.
        if self.trouble.refusal(now).is_some() || self.trouble.is_full() {
            return;
        }
        if self.compaction.is_none() {
            self.compaction = self.choose().map(|victim| Compaction { victim, cursor: 0, reading: None, copying: 0 });
        }
        let Some(compaction) = &mut self.compaction else { return };
        // One window at a time bounds the memory and the room that copies take.
        if compaction.reading.is_some() || compaction.copying > 0 {
            return;
        }
        let victim = compaction.victim;
        let next = self.segments.get(victim).and_then(|segment| {
            let mut records = segment.records.range(compaction.cursor..).map(|(at, (_, size))| (*at, *size));
            let first = records.next()?;
            let (mut end, mut batch) = (first.0 + first.1, Vec::from([first]));
            // Adjacent records share a read; a large gap or a full window ends it.
            for (at, size) in records {
                if at > end + GAP || at + size > first.0 + self.config.read_bytes {
                    break;
                }
                end = at + size;
                batch.push((at, size));
            }
            Some((first.0, end, batch))
        });
        // No live record is left behind the cursor.
        let Some((start, end, batch)) = next else {
            self.end_compaction();
            return self.compact(now, out);
        };
        compaction.cursor = end;
        // The number that `disk` gives to its next operation.
        compaction.reading = Some((self.next_op + 1, start, batch));
        self.segments.begin(victim);
        let action = DiskAction::Read { file: victim, offset: start, len: end - start };
        self.disk(Op::CompactionRead { file: victim }, action, out);
    }
    /// Ends or abandons the compaction; the next call of `compact` looks for another file at once.
    pub(super) fn end_compaction(&mut self) {
        self.compaction = None;
        self.look = true;
    }
    /// Picks the file to compact, if one is worth it now.
    fn choose(&mut self) -> Option<u32> {
        // On a full disk the only goal is a file that can be emptied into the reserve.
        if self.reserve.is_wanted() {
            return if core::mem::take(&mut self.look) { self.vacant() } else { None };
        }
        let (bytes, live, garbage) = (self.segments.bytes, self.segments.live, self.segments.garbage());
        let capacity = self.config.capacity;
        // Many small files cost more than their garbage: allowed are 64 more than twice the number of full files.
        let files_max = 64 + 2 * (bytes / self.config.segment_bytes) as usize;
        // Minimum share of garbage, in 1/256, that makes a file worth compacting now.
        let crowded = self.segments.len() > files_max;
        let least = if self.queue.blocked {
            1
        } else if bytes > capacity / 4 * 3 && garbage > capacity / 16 {
            32
        } else if garbage > live + 4 * self.config.segment_bytes {
            64
        } else {
            // A nearly empty file costs next to nothing to compact.
            224
        };
        // Files are compared again once garbage grew by an eighth of a file. The growth counts from the least amount
        // since the last comparison: garbage that went with removed files must not delay the next one.
        self.look_at = self.look_at.min(garbage + self.config.segment_bytes / 8);
        if least > 1 && !crowded && !self.look && garbage < self.look_at {
            return None;
        }
        self.look = false;
        self.look_at = garbage + self.config.segment_bytes / 8;
        // A longer file holds one large record, and is removed without compaction once that record is dead.
        let longest = 2 * self.config.segment_bytes;
        match self.segments.victim(longest).filter(|(_, share)| *share >= least) {
            Some((file, _)) => Some(file),
            None if crowded => self.segments.smallest(longest),
            None => None,
        }
    }

    pub(super) fn compaction_read(
        &mut self,
        now: Instant,
        op: u64,
        result: Result<Bytes, DiskError>,
        out: &mut impl Sink<Output>,
    ) {
        let Some(compaction) = &mut self.compaction else { return };
        let Some((_, start, batch)) = compaction.reading.take_if(|(reading, ..)| *reading == op) else { return };
        let victim = compaction.victim;
        let salt = self.salt_of(victim);
        let Ok(bytes) = result else {
            self.end_compaction();
            // Without this mark `choose` would pick the same file again.
            if let Some(segment) = self.segments.get_mut(victim) {
                segment.unreadable = true;
            }
            self.report_failure(victim, out);
            return;
        };
        for (at, size) in batch {
            let Some(owner) = self.owner(victim, at) else { continue };
            let range = (at - start) as usize..(at - start + size) as usize;
            let record = (range.end <= bytes.len()).then(|| bytes.slice(range));
            // The checksums are verified before the copy: damage must not be copied under a new header.
            let header = record.as_ref().and_then(|record| decode_whole(&self.config.accel, salt, victim, record));
            match (record, header) {
                (Some(bytes), Some((header, _))) => {
                    if !self.forgettable(owner) {
                        let from = header.loc(victim, at);
                        // On a full disk copies are written before deletions: once all are written, their file can be
                        // removed.
                        let first = self.reserve.is_wanted();
                        self.queue.push_copy(now, RecordCopy { owner, from, header, bytes }, first);
                        if let Some(compaction) = &mut self.compaction {
                            compaction.copying += 1;
                        }
                    }
                }
                _ => self.lose(now, owner, victim, at, size, out),
            }
        }
    }
    /// Salt of a file's records; for an unknown file, that of new files.
    pub(super) fn salt_of(&self, file: u32) -> u64 {
        self.segments.get(file).map_or(self.salt, |segment| segment.salt)
    }
    fn owner(&self, file: u32, offset: u64) -> Option<Owner> {
        Some(self.segments.get(file)?.records.get(&offset)?.0)
    }
    /// Forgets a remembered delivery once its time is over. Returns whether the record is no longer needed.
    fn forgettable(&mut self, owner: Owner) -> bool {
        let Owner::Delete(bundle) = owner else { return false };
        let until = self.gone.get(&bundle).and_then(|gone| gone.remember).map(|remember| remember.until);
        if let (Some(until), Some(wall)) = (until, self.wall)
            && until < wall
        {
            self.forget_delivery(bundle);
        }
        !self.gone.contains_key(&bundle)
    }
    /// Handles a live record that turned out to be damaged.
    fn lose(&mut self, now: Instant, owner: Owner, file: u32, offset: u64, size: u64, out: &mut impl Sink<Output>) {
        self.report_damage(file, offset, size, out);
        self.segments.release(file, offset);
        if let Some(segment) = self.segments.get_mut(file) {
            segment.suspect = true;
        }
        match owner {
            Owner::Bundle(bundle) => {
                self.forget(bundle);
            }
            // The deletion is known from memory, so its record is written again.
            Owner::Delete(bundle) => {
                if let Some(gone) = self.gone.get_mut(&bundle) {
                    gone.loc = None;
                    if !core::mem::replace(&mut gone.queued, true) {
                        self.queue.push_delete(now, bundle);
                    }
                }
            }
            Owner::Spill(spill, start) => self.spills.lose(spill, start),
        }
    }

    /// Whether the record is still live where it was read.
    pub(super) fn copy_matters(&self, copy: &RecordCopy) -> bool {
        match copy.owner {
            Owner::Bundle(bundle) => self
                .kept
                .get(&bundle)
                .is_some_and(|kept| matches!(kept.state, BundleState::Disk(loc) if loc == copy.from)),
            Owner::Delete(bundle) => self.gone.get(&bundle).is_some_and(|gone| gone.loc == Some(copy.from)),
            Owner::Spill(spill, start) => self.spills.loc(spill, start) == Some(copy.from),
        }
    }
    /// Counts down the outstanding copies of a compaction.
    pub(super) fn copy_finished(&mut self, victim: u32) {
        if let Some(compaction) = self.compaction.as_mut().filter(|c| c.victim == victim) {
            compaction.copying = compaction.copying.saturating_sub(1);
        }
    }
    pub(super) fn copy_committed(&mut self, copy: RecordCopy, to: Loc) {
        self.copy_finished(copy.from.file);
        if !self.copy_matters(&copy) {
            // `draw_small` already counted this dead copy.
            if let Owner::Bundle(bundle) = copy.owner {
                self.segments.add_dead(to.file, bundle);
            }
            return;
        }
        match copy.owner {
            Owner::Bundle(bundle) => {
                self.segments.add_dead(copy.from.file, bundle);
                if let Some(kept) = self.kept.get_mut(&bundle) {
                    kept.state = BundleState::Disk(to);
                }
            }
            Owner::Delete(bundle) => {
                if let Some(gone) = self.gone.get_mut(&bundle) {
                    gone.loc = Some(to);
                }
            }
            Owner::Spill(spill, start) => self.spills.moved(spill, start, to),
        }
        self.segments.add(to, copy.owner);
        self.segments.release(copy.from.file, copy.from.offset);
    }
}
