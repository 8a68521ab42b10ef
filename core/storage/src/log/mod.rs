//! The durable store: a log of checksummed records over numbered files.
//!
//! Bundles that arrive during a commit are gathered, written with one vectored write and made durable with one sync;
//! only then are they reported `Stored`. Under load, the next group is written while the last is being synced; groups
//! are answered in order. A deletion writes a small record. Space comes back when a file has no live record left, or
//! by copying the live records of the emptiest file into the newest one. A few emptied files are kept and written over
//! (recycled), which a disk does faster than growing new ones. The store judges no lifetimes: the agent expires bundles
//! by residence time and deletes them here, because a stepped clock must not empty a store.

mod commit;
mod compact;
mod config;
mod failure;
mod groups;
mod header;
mod load;
mod record;
mod recover;
mod reserve;
mod scan;
mod segment;
mod spill;

pub use config::Config;
pub use header::{FORMAT, FORMAT_BYTES, format_of};

use crate::quota::Quotas;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use commit::CommitQueue;
use compact::Compaction;
use failure::Trouble;
use farlink_base::store::{BundleStore, DiskAction, DiskAnswer, DiskDone, DiskError, DiskOp};
use farlink_base::store::{Input, Output, Remembered, Usage};
use farlink_base::{BundleHandle, DtnTime, Instant, Refusal, Sink};
use groups::Groups;
use load::Loads;
use record::{BundleDraft, Loc, META_MAX};
use recover::Recovery;
use reserve::Reserve;
use segment::Segments;
use spill::{EarlySpills, Spills};

/// A bundle that was put and not deleted.
#[derive(Debug)]
struct KeptBundle {
    state: BundleState,
    /// Spills that its payload refers to.
    spills: Option<Box<[u64]>>,
    size: u64,
    quota: u64,
}
#[derive(Debug)]
enum BundleState {
    /// Waits for the next commit group.
    Waiting(Box<BundleDraft>),
    /// Is being committed.
    Writing(Box<BundleDraft>),
    /// Is durable at this place.
    Disk(Loc),
}

/// Dead records of a bundle on disk.
#[derive(Clone, Copy, Debug, Default)]
struct Copies {
    count: u32,
    /// The file that holds all these records, if they are in one known file.
    file: Option<u32>,
}
impl Copies {
    fn add(&mut self, file: Option<u32>) {
        self.join(Copies { count: 1, file });
    }
    fn join(&mut self, more: Copies) {
        self.file = match (self.count, more.count) {
            (0, _) => more.file,
            (_, 0) => self.file,
            // Records in two files, or in an unknown one, leave `None`, and later records cannot change that.
            _ => self.file.filter(|file| more.file == Some(*file)),
        };
        self.count += more.count;
    }
}

/// Memory of a deleted bundle: kept while its records could resurrect it or its delivery is remembered.
#[derive(Debug, Default)]
struct Gone {
    /// Place of the durable delete record, if there is one.
    loc: Option<Loc>,
    copies: Copies,
    remember: Option<Remembered>,
    /// Whether a delete record waits for the next group.
    queued: bool,
    /// Whether `Deleted` must be answered after the commit.
    answer: bool,
}

/// Purpose of a disk operation under way.
#[derive(Debug)]
enum Op {
    List,
    Create(u32),
    /// Write of the group with this number.
    Write(u64),
    Sync(u64),
    RecoveryRead,
    RecoverySettle(u32),
    /// Rewrite of records that an earlier run may not have synced.
    RecoveryWrite,
    RecoverySync,
    /// Read that begins at `start` and covers one record for each job.
    LoadRead {
        jobs: Vec<u64>,
        file: u32,
        start: u64,
    },
    CompactionRead {
        file: u32,
    },
    Remove(u32),
    /// Removal of a kept file of this length, bytes.
    RemoveKept(u32, u64),
    Reserve(u32),
}

#[derive(Debug)]
enum StorePhase {
    Closed,
    Recovering(Box<Recovery>),
    Open,
}

/// The durable store. [`Config`] holds its bounds; `log/record.rs` begins with its format.
#[derive(Debug)]
pub struct LogStore {
    config: Config,
    phase: StorePhase,
    salt: u64,
    sequence: u64,
    counter: u64,
    last_bundle: u64,
    next_op: u64,
    ops: BTreeMap<u64, Op>,
    segments: Segments,
    kept: BTreeMap<BundleHandle, KeptBundle>,
    kept_bytes: u64,
    quotas: Quotas,
    gone: BTreeMap<BundleHandle, Gone>,
    /// Dead records on disk of bundles without a delete record.
    stale: BTreeMap<BundleHandle, Copies>,
    /// Deleted bundles whose delivery is remembered.
    remembered: BTreeSet<BundleHandle>,
    /// Latest wall time at which a bundle was stored.
    wall: Option<DtnTime>,
    spills: Spills,
    early: Option<Box<EarlySpills>>,
    queue: CommitQueue,
    groups: Groups,
    /// The file being created.
    creating: Option<u32>,
    loads: Loads,
    compaction: Option<Compaction>,
    /// Whether to look for a file to compact at once; else once garbage reaches `look_at` bytes.
    look: bool,
    look_at: u64,
    trouble: Trouble,
    reserve: Reserve,
}

impl LogStore {
    /// Releases memory that only a busy time needed.
    pub fn rest(&mut self) {
        self.queue.rest();
        self.loads.rest();
        self.groups.rest();
    }
    /// Bytes that a bundle takes in a store beyond its encoded length, for record header, index entry and checksums;
    /// without the headers of its spilled parts.
    pub const RECORD_BYTES: u64 = 192;
    /// Bytes of bundles and their records that fit into files of `capacity` bytes; the rest is for compaction and
    /// delete records.
    pub const fn room_in(capacity: u64) -> u64 {
        capacity / 8 * 7 / 32 * 31
    }
    /// Makes a store that does nothing before [`Input::Open`].
    pub fn new(config: Config) -> Self {
        let config = config.bounded();
        LogStore {
            salt: 0,
            quotas: Quotas::new(config.quota_bytes),
            config,
            phase: StorePhase::Closed,
            sequence: 1,
            counter: 0,
            last_bundle: 0,
            next_op: 0,
            ops: BTreeMap::new(),
            segments: Segments::new(),
            kept: BTreeMap::new(),
            kept_bytes: 0,
            gone: BTreeMap::new(),
            stale: BTreeMap::new(),
            remembered: BTreeSet::new(),
            wall: None,
            spills: Spills::default(),
            early: None,
            queue: CommitQueue::default(),
            groups: Groups::default(),
            creating: None,
            loads: Loads::default(),
            compaction: None,
            look: false,
            look_at: 0,
            trouble: Trouble::default(),
            reserve: Reserve::new(config.reserve_bytes),
        }
    }

    fn is_open(&self) -> bool {
        matches!(self.phase, StorePhase::Open)
    }
    /// Emits a disk operation and remembers its purpose.
    fn disk(&mut self, op: Op, action: DiskAction, out: &mut impl Sink<Output>) {
        self.next_op += 1;
        self.ops.insert(self.next_op, op);
        out.push(Output::Disk(DiskOp { id: self.next_op, action }));
    }
    fn next_sequence(&mut self) -> u64 {
        self.sequence += 1;
        self.sequence - 1
    }

    fn put(&mut self, now: Instant, bundle: BundleHandle, draft: BundleDraft, out: &mut impl Sink<Output>) {
        self.last_bundle = self.last_bundle.max(bundle.0);
        if draft.index.stored_at.is_some() {
            self.wall = draft.index.stored_at;
        }
        if let Err(reason) = self.admit(now, bundle, &draft) {
            out.push(Output::Refused { bundle, reason });
            return;
        }
        let (size, quota) = (draft.bundle_len(), draft.index.quota);
        self.kept_bytes += size;
        self.quotas.add(quota, size);
        let spills = self.spills.take(&draft.pieces, &mut self.quotas);
        self.queue.push_put(now, bundle, draft.record_len());
        self.kept.insert(bundle, KeptBundle { state: BundleState::Waiting(Box::new(draft)), spills, size, quota });
    }
    fn admit(&self, now: Instant, bundle: BundleHandle, draft: &BundleDraft) -> Result<(), Refusal> {
        // Head and tail may take half of the longest meta part. 100,000 pieces of 25 bytes each, and the checksums, fit
        // into the other half.
        let record = draft.record_len();
        if self.kept.contains_key(&bundle) {
            return Err(Refusal::Duplicate);
        }
        if draft.head.len() as u64 + draft.tail.len() as u64 > META_MAX / 2 || draft.pieces.len() > 100_000 {
            return Err(Refusal::TooLarge);
        }
        if !self.spills.cover(&draft.pieces) {
            return Err(Refusal::NotAcceptable);
        }
        // Spilled bytes were charged when they were spilled.
        let counted = self.spills.counted(&draft.pieces, draft.index.quota);
        if !self.quotas.allows(draft.index.quota, draft.bundle_len().saturating_sub(counted)) {
            return Err(Refusal::NoResources);
        }
        self.room_for(record)?;
        self.refusal(now).map_or(Ok(()), Err)
    }
    /// Reason why the disk takes no bundles at `now`, if any.
    fn refusal(&self, now: Instant) -> Option<Refusal> {
        if self.reserve.is_wanted() { Some(Refusal::NoResources) } else { self.trouble.refusal(now) }
    }
    /// Checks that `bytes` more live bytes leave compaction room to work.
    fn room_for(&self, bytes: u64) -> Result<(), Refusal> {
        let live = self.segments.live.saturating_add(self.queue.waiting_bytes());
        if live.saturating_add(bytes) > self.config.live_max() { Err(Refusal::NoResources) } else { Ok(()) }
    }

    fn delete(
        &mut self,
        now: Instant,
        bundle: BundleHandle,
        remember: Option<Remembered>,
        out: &mut impl Sink<Output>,
    ) {
        self.last_bundle = self.last_bundle.max(bundle.0);
        let mut copies = Copies::default();
        if let Some(kept) = self.forget(bundle) {
            match kept.state {
                BundleState::Waiting(draft) => {
                    // The bundle was forwarded before it was written: the promise of `Stored` holds without the
                    // record.
                    self.queue.cancel(draft.record_len());
                    out.push(Output::Stored { bundle, payload: None });
                }
                // The commit under way answers `Stored` when it ends.
                BundleState::Writing(_) => copies.add(None),
                BundleState::Disk(loc) => {
                    self.segments.release(loc.file, loc.offset);
                    self.segments.add_dead(loc.file, bundle);
                    copies.add(Some(loc.file));
                }
            }
        }
        copies.join(self.stale.remove(&bundle).unwrap_or_default());
        if remember.is_none() {
            // Losing this deletion only brings the bundle back, so nothing waits for the disk.
            out.push(Output::Deleted { bundle });
            if copies.count == 0 {
                return;
            }
        }
        let gone = self.gone.entry(bundle).or_default();
        gone.copies.join(copies);
        if let Some(remembered) = remember {
            gone.remember = Some(remembered);
            self.remembered.insert(bundle);
            gone.answer = true;
        }
        if !core::mem::replace(&mut gone.queued, true) {
            self.queue.push_delete(now, bundle);
        }
        // The delivery is not final before `Deleted`, so its record does not wait for others.
        if remember.is_some() {
            self.queue.urge(now);
        }
        self.bound_memory();
    }
    /// Takes a bundle out of the index, the totals and its spills.
    fn forget(&mut self, bundle: BundleHandle) -> Option<KeptBundle> {
        let kept = self.kept.remove(&bundle)?;
        self.kept_bytes -= kept.size;
        self.quotas.remove(kept.quota, kept.size);
        for spill in kept.spills.iter().flatten() {
            self.spills.release(*spill, &mut self.segments, &mut self.quotas);
        }
        Some(kept)
    }
    /// Forgets the oldest deliveries beyond the bound, as the agent does.
    fn bound_memory(&mut self) {
        while self.remembered.len() > self.config.remembered
            && let Some(oldest) = self.remembered.first().copied()
        {
            self.forget_delivery(oldest);
        }
    }
    fn forget_delivery(&mut self, bundle: BundleHandle) {
        self.remembered.remove(&bundle);
        if let Some(gone) = self.gone.get_mut(&bundle) {
            gone.remember = None;
            self.settle(bundle);
        }
    }
    /// Forgets a deleted bundle once nothing needs its memory. Dead records in the same file as the delete record do
    /// not need it any longer: a file is removed as a whole, so they cannot outlast it.
    fn settle(&mut self, bundle: BundleHandle) {
        let Some(gone) = self.gone.get(&bundle) else { return };
        let beside = gone.loc.is_some_and(|loc| gone.copies.file == Some(loc.file));
        if (gone.copies.count > 0 && !beside) || gone.remember.is_some() || gone.answer {
            return;
        }
        if let Some(loc) = gone.loc {
            self.segments.release(loc.file, loc.offset);
        }
        self.gone.remove(&bundle);
    }
    /// Counts down the dead records of a bundle after a file with one was removed.
    fn drop_copy(&mut self, bundle: BundleHandle) {
        if let Some(gone) = self.gone.get_mut(&bundle).filter(|gone| gone.copies.count > 0) {
            gone.copies.count -= 1;
            self.settle(bundle);
        } else if let Some(copies) = self.stale.get_mut(&bundle) {
            copies.count -= 1;
            if copies.count == 0 {
                self.stale.remove(&bundle);
            }
        }
    }

    fn disk_done(&mut self, now: Instant, done: DiskDone, out: &mut impl Sink<Output>) {
        let Some(op) = self.ops.remove(&done.id) else { return };
        match op {
            Op::List => self.listed(now, done.result, out),
            Op::RecoveryRead => self.recovery_read(now, done.result, out),
            Op::RecoverySettle(file) => self.recovery_settled(now, file, done.result, out),
            Op::RecoveryWrite => self.written_again(now, done.result, false, out),
            Op::RecoverySync => self.written_again(now, done.result, true, out),
            Op::Create(file) => self.created(now, file, done.result, out),
            Op::Write(group) => self.group_answered(now, group, done.result, false, out),
            Op::Sync(group) => self.group_answered(now, group, done.result, true, out),
            Op::LoadRead { jobs, file, start } => self.load_read(&jobs, (file, start), data(done.result), out),
            Op::CompactionRead { file } => {
                self.segments.end(file);
                self.compaction_read(now, done.id, data(done.result), out);
            }
            Op::Remove(file) => self.removed(now, file, done.result, out),
            Op::RemoveKept(file, bytes) => self.removed_kept(now, file, bytes, done.result.is_ok(), out),
            Op::Reserve(file) => self.reserved(now, file, done.result, out),
        }
    }
    /// Starts every operation that may start now.
    fn pump(&mut self, now: Instant, out: &mut impl Sink<Output>) {
        if self.is_open() {
            self.remove_files(now, out);
            self.keep_reserve(now, out);
            self.compact(now, out);
            self.start_loads(out);
            self.start_group(now, out);
        }
    }
}

/// Bytes of a finished read; any other answer is an I/O error.
fn data(result: Result<DiskAnswer, DiskError>) -> Result<bytes::Bytes, DiskError> {
    match result {
        Ok(DiskAnswer::Data(bytes)) => Ok(bytes),
        Ok(_) => Err(DiskError::Io),
        Err(error) => Err(error),
    }
}

impl BundleStore for LogStore {
    fn handle(&mut self, now: Instant, input: Input, out: &mut impl Sink<Output>) {
        match input {
            Input::Open => self.open(out),
            Input::Wake => self.recovery_wake(now, out),
            Input::Put { bundle, index, head, payload, tail } => match record::pieces(&payload) {
                Some(pieces) => {
                    self.put(now, bundle, BundleDraft { index: *index, head, payload, pieces, tail, attempts: 0 }, out);
                }
                None => out.push(Output::Refused { bundle, reason: Refusal::NotAcceptable }),
            },
            Input::Spill { spill, quota, data } if self.is_open() => self.spill(now, spill, quota, data, out),
            Input::Spill { spill, quota, data } => self.early.get_or_insert_default().push(spill, quota, data),
            Input::DropSpill { spill } if !self.is_open() => {
                if let Some(early) = &mut self.early {
                    early.abandon(spill);
                }
            }
            Input::DropSpill { spill } => self.spills.abandon(spill, &mut self.segments, &mut self.quotas),
            Input::Delete { bundle, remember } => self.delete(now, bundle, remember, out),
            Input::Load { load, payload } => self.load(load, &payload, out),
            Input::SetCounter { value } => {
                self.counter = self.counter.max(value);
                self.queue.push_counter(now, value);
            }
            Input::DiskDone(done) => self.disk_done(now, done, out),
        }
        self.pump(now, out);
    }
    fn next_timeout(&self) -> Option<Instant> {
        match &self.phase {
            StorePhase::Closed => None,
            StorePhase::Recovering(recovery) => recovery.next_timeout(),
            StorePhase::Open => {
                let waits = [self.commit_at(), self.trouble.remove_at(&self.segments), self.reserve.retry_at()];
                waits.into_iter().flatten().min()
            }
        }
    }
    fn usage(&self) -> Usage {
        Usage {
            bundles: self.kept.len() as u64,
            bytes: self.kept_bytes,
            file_bytes: self.segments.bytes,
            capacity: self.config.capacity,
            commits: self.groups.begun(),
            written_over: self.segments.written_over,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use farlink_base::store::IndexEntry;
    use farlink_base::{Payload, Priority};

    /// Gives a store an input and performs its disk operations, waits included; the first `failing` syncs fail.
    fn handle(store: &mut LogStore, input: Input, mut failing: usize) {
        let (mut out, mut now) = (Vec::new(), Instant::ZERO);
        store.handle(now, input, &mut out);
        loop {
            let op = out.iter().position(|output| matches!(output, Output::Disk(_))).map(|at| out.remove(at));
            let Some(Output::Disk(op)) = op else {
                let Some(at) = store.next_timeout() else { return };
                now = now.max(at);
                store.handle(now, Input::Wake, &mut out);
                continue;
            };
            let result = match op.action {
                DiskAction::List => Ok(DiskAnswer::Files(Vec::new())),
                DiskAction::Sync { .. } if failing > 0 => {
                    failing -= 1;
                    Err(DiskError::Io)
                }
                _ => Ok(DiskAnswer::Done),
            };
            store.handle(now, Input::DiskDone(DiskDone { id: op.id, result }), &mut out);
        }
    }
    /// Index of a bundle without expiry, age or quota.
    pub(super) fn plain_index() -> IndexEntry {
        IndexEntry {
            priority: Priority::from_number(1),
            expires: None,
            stored_at: None,
            ran_ms: None,
            age_ms: 0,
            quota: 0,
            fingerprint: 0,
            flags: 0,
            digest: 0,
        }
    }
    fn open() -> LogStore {
        let mut store = LogStore::new(Config::new(1 << 30));
        handle(&mut store, Input::Open, 0);
        store
    }
    fn put(store: &mut LogStore, number: u64, failing: usize) {
        let index = plain_index();
        let (bundle, head, tail) = (BundleHandle(number), Bytes::from_static(b"head"), Bytes::new());
        let payload = Payload::from(&b"payload"[..]);
        handle(store, Input::Put { bundle, index: Box::new(index), head, payload, tail }, failing);
    }

    #[test]
    fn copies_span_one_or_several_files() {
        // A delete record may be removed with its file only if no other file has a record of the bundle.
        let mut copies = Copies::default();
        copies.add(Some(1));
        copies.add(Some(1));
        assert_eq!((copies.count, copies.file), (2, Some(1)));
        for more in [Some(2), Some(1), None] {
            let mut joined = copies;
            joined.add(more);
            assert_eq!((joined.count, joined.file), (3, more.filter(|file| *file == 1)));
            joined.add(Some(1));
            assert_eq!(joined.file, more.filter(|file| *file == 1), "not known again");
        }
    }

    #[test]
    fn bundles_deleted_inplace_take_no_memory() {
        let mut store = open();
        for number in 1..20 {
            put(&mut store, number, 0);
            // The delete record lies in the bundle's own file. Both are removed together, so the deletion need not be
            // remembered.
            handle(&mut store, Input::Delete { bundle: BundleHandle(number), remember: None }, 0);
        }
        assert!(store.kept.is_empty() && store.gone.is_empty() && store.stale.is_empty());
        assert_eq!(store.segments.live, 0);
    }

    #[test]
    fn dead_record_goes_with_its_file() {
        let mut store = open();
        // One failed sync: the bundle is written again to another file.
        put(&mut store, 1, 1);
        assert!(matches!(store.kept[&BundleHandle(1)].state, BundleState::Disk(_)), "it is written again");
        assert_eq!(store.segments.len(), 1, "the file that failed is gone");
        assert!(store.stale.is_empty());
    }
}
