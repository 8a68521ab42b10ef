//! Finding what earlier runs kept.
//!
//! Files are read newest first: the newest header tells below which file everything was durable, so
//! only the last files' data are checked byte by byte. Records are matched by bundle and sequence,
//! whatever their order. A file that may hold bytes not yet durable is settled before it is read: what
//! a killed run left in the cache becomes durable, or is not found.

use super::header::FileHeader;
use super::record::{BundleMeta, DeleteMeta, Loc, Meta};
use super::scan::{Find, Scan};
use super::segment::{Owner, Segment};
use super::{Gone, Kept, LogStore, Op, Phase, State};
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use farlink_base::store::{DiskAction, DiskAnswer, DiskError, Output, Remembered};
use farlink_base::{Accel, BundleHandle, DtnTime, Instant, Rng, Sink};

/// Recovered bundles and deliveries told at once; the rest follow on `Wake`.
const TOLD_AT_ONCE: usize = 1000;

/// Tries after the first for a read that fails.
const READ_ATTEMPTS: u8 = 2;
/// Numbers left unused after a file that could not be read.
const UNREAD: u64 = 1 << 32;

/// Recovery under way.
#[derive(Debug, Default)]
pub(super) struct Recovery {
    /// Files not read yet, the newest last.
    files: Vec<(u32, u64)>,
    /// Files whose header is damaged, read when another has told the salt: what is found in them
    /// must not depend on when one looks.
    postponed: Vec<(u32, u64)>,
    scan: Option<Scan>,
    salt: Option<u64>,
    clean_below: Option<u32>,
    found: BTreeMap<BundleHandle, Found>,
    deletes: BTreeMap<BundleHandle, (u64, Loc, Option<Remembered>)>,
    all_looked_at: bool,
    read_attempts: u8,
    deliveries: VecDeque<Remembered>,
    bundles: VecDeque<Found>,
    wake_at: Option<Instant>,
    telling: bool,
}
impl Recovery {
    pub fn next_timeout(&self) -> Option<Instant> {
        self.wake_at
    }
    /// Whether the file that begins with `bytes` must wait until another has told the salt.
    fn postpones(&self, scan: &Scan, accel: &Accel, bytes: &[u8]) -> bool {
        let first = scan.next_read().is_some_and(|(at, _)| at == 0);
        first && self.salt.is_none() && !self.all_looked_at && FileHeader::decode(accel, bytes, scan.file).is_none()
    }
}
#[derive(Debug)]
struct Found {
    sequence: u64,
    loc: Loc,
    meta: BundleMeta,
}

impl LogStore {
    pub(super) fn open(&mut self, out: &mut impl Sink<Output>) {
        if matches!(self.phase, Phase::Closed) {
            self.phase = Phase::Recovering(Box::default());
            self.disk(Op::List, DiskAction::List, out);
        }
    }
    pub(super) fn recovery_wake(&mut self, now: Instant, out: &mut impl Sink<Output>) {
        let Phase::Recovering(recovery) = &mut self.phase else { return };
        if recovery.wake_at.is_none_or(|at| at > now) {
            return;
        }
        recovery.wake_at = None;
        if recovery.telling {
            self.tell(now, out);
        } else {
            self.disk(Op::List, DiskAction::List, out);
        }
    }
    pub(super) fn listed(&mut self, now: Instant, result: Result<DiskAnswer, DiskError>, out: &mut impl Sink<Output>) {
        let Phase::Recovering(recovery) = &mut self.phase else { return };
        let Ok(DiskAnswer::Files(mut files)) = result else {
            recovery.wake_at = Some(now + self.config.retry * 10);
            self.report_failure(0, out);
            return;
        };
        files.sort_unstable();
        for (file, len) in &files {
            self.segments.insert(*file, Segment { len: *len, size: *len, sealed: true, ..Segment::default() });
        }
        recovery.files = files;
        self.scan_on(now, out);
    }
    /// Reads on, in this file or the next.
    fn scan_on(&mut self, now: Instant, out: &mut impl Sink<Output>) {
        let Phase::Recovering(recovery) = &mut self.phase else { return };
        loop {
            if let Some(scan) = &recovery.scan {
                if let Some((offset, len)) = scan.next_read() {
                    let file = scan.file;
                    self.disk(Op::RecoveryRead, DiskAction::Read { file, offset, len }, out);
                    return;
                }
                if let Some(segment) = self.segments.get_mut(scan.file) {
                    segment.foreign |= scan.content && !scan.ours;
                }
            }
            let next = recovery.files.pop().or_else(|| {
                recovery.all_looked_at = true;
                recovery.postponed.pop()
            });
            let Some((file, len)) = next else { return self.finish_recovery(now, out) };
            recovery.scan = Some(Scan::new(file, len, self.config.read_bytes));
            if len > 0 && file >= recovery.clean_below.unwrap_or(0) {
                return self.disk(Op::RecoverySettle(file), DiskAction::Settle { file }, out);
            }
        }
    }
    pub(super) fn recovery_read(
        &mut self,
        now: Instant,
        result: Result<DiskAnswer, DiskError>,
        out: &mut impl Sink<Output>,
    ) {
        // Taken apart while its records are sorted in.
        let Phase::Recovering(mut recovery) = core::mem::replace(&mut self.phase, Phase::Closed) else { return };
        if let Some(mut scan) = recovery.scan.take() {
            match result {
                Ok(DiskAnswer::Data(bytes)) if recovery.postpones(&scan, &self.config.accel, &bytes) => {
                    recovery.postponed.push((scan.file, scan.len));
                    self.phase = Phase::Recovering(recovery);
                    return self.scan_on(now, out);
                }
                Ok(DiskAnswer::Data(bytes)) => {
                    let (accel, mut salt) = (self.config.accel, recovery.salt);
                    scan.take(&accel, &mut salt, &bytes, |scan, find| self.sort_in(&mut recovery, scan, find, out));
                    recovery.salt = salt;
                    recovery.read_attempts = 0;
                }
                _ if recovery.read_attempts < READ_ATTEMPTS => recovery.read_attempts += 1,
                _ => {
                    recovery.read_attempts = 0;
                    self.report_failure(scan.file, out);
                    // What is there may come back one day: its file is kept, its numbers not reused.
                    if let Some(segment) = self.segments.get_mut(scan.file) {
                        segment.foreign = true;
                    }
                    self.last_bundle += UNREAD;
                    self.sequence += UNREAD;
                    self.spills.skip(UNREAD);
                    scan.unreadable(|scan, find| self.sort_in(&mut recovery, scan, find, out));
                }
            }
            recovery.scan = Some(scan);
        }
        self.phase = Phase::Recovering(recovery);
        self.scan_on(now, out);
    }
    fn sort_in(&mut self, recovery: &mut Recovery, scan: &mut Scan, find: Find, out: &mut impl Sink<Output>) {
        let file = scan.file;
        match find {
            Find::Header(header) => {
                let clean = *recovery.clean_below.get_or_insert(header.clean_below.min(file));
                scan.verify = file >= clean;
                self.sequence = self.sequence.max(header.sequence);
                self.counter = self.counter.max(header.counter);
                self.last_bundle = self.last_bundle.max(header.last_bundle);
                self.segments.newest_durable = self.segments.newest_durable.max(file);
                if let Some(segment) = self.segments.get_mut(file) {
                    segment.named = !header.nameless;
                }
            }
            Find::Damage { offset, len } => self.report_damage(file, offset, len, out),
            Find::Record { sequence, loc, meta, whole } => {
                self.sequence = self.sequence.max(sequence + 1);
                if !whole {
                    self.report_damage(file, loc.offset, loc.size(), out);
                    if let Some(segment) = self.segments.get_mut(file) {
                        segment.suspect = true;
                    }
                }
                match meta {
                    Meta::Bundle(meta) => {
                        self.last_bundle = self.last_bundle.max(meta.bundle.0);
                        // Its spills may be gone: should it come back, another's bytes must not be
                        // there under the same number.
                        self.spills.skip_past(&meta.pieces);
                        if whole {
                            self.sort_bundle(recovery, Found { sequence, loc, meta });
                        }
                    }
                    Meta::Delete(meta) => self.sort_delete(recovery, sequence, loc, meta),
                    Meta::Counter(value) => self.counter = self.counter.max(value),
                    Meta::Spill(meta) if whole => self.spills.found(meta.spill, meta.start, loc),
                    Meta::Spill(meta) => self.spills.skip_to(meta.spill),
                }
            }
        }
    }
    fn sort_bundle(&mut self, recovery: &mut Recovery, found: Found) {
        let bundle = found.meta.bundle;
        let newest = recovery.found.get(&bundle).map(|other| other.sequence);
        let deleted = recovery.deletes.get(&bundle).map(|(sequence, ..)| *sequence);
        if deleted.is_some_and(|at| at > found.sequence) || newest.is_some_and(|at| at >= found.sequence) {
            self.dead_copy(bundle, found.loc.file);
        } else if let Some(before) = recovery.found.insert(bundle, found) {
            self.dead_copy(bundle, before.loc.file);
        }
    }
    fn sort_delete(&mut self, recovery: &mut Recovery, sequence: u64, loc: Loc, meta: DeleteMeta) {
        self.last_bundle = self.last_bundle.max(meta.bundle.0);
        if recovery.deletes.get(&meta.bundle).is_some_and(|(other, ..)| *other >= sequence) {
            return;
        }
        recovery.deletes.insert(meta.bundle, (sequence, loc, meta.remember));
        if let Some(found) = recovery.found.get(&meta.bundle).filter(|found| found.sequence < sequence) {
            let file = found.loc.file;
            recovery.found.remove(&meta.bundle);
            self.dead_copy(meta.bundle, file);
        }
    }
    fn dead_copy(&mut self, bundle: BundleHandle, file: u32) {
        self.segments.add_dead(file, bundle);
        self.stale.entry(bundle).or_default().add(Some(file));
    }

    /// A file can be read.
    pub(super) fn recovery_settled(
        &mut self,
        now: Instant,
        file: u32,
        result: Result<DiskAnswer, DiskError>,
        out: &mut impl Sink<Output>,
    ) {
        if result.is_err() {
            if let Some(segment) = self.segments.get_mut(file) {
                segment.suspect = true;
            }
            self.report_failure(file, out);
        }
        self.scan_on(now, out);
    }

    fn finish_recovery(&mut self, now: Instant, out: &mut impl Sink<Output>) {
        let Phase::Recovering(mut recovery) = core::mem::replace(&mut self.phase, Phase::Closed) else { return };
        // A new store's salt differs from that of a file whose header never reached the disk.
        self.salt =
            recovery.salt.unwrap_or_else(|| Rng::stream(self.config.seed, self.segments.next.into()).next_u64());
        for (bundle, (_, loc, remember)) in core::mem::take(&mut recovery.deletes) {
            let copies = self.stale.remove(&bundle).unwrap_or_default();
            self.gone.insert(bundle, Gone { loc: Some(loc), copies, remember, ..Gone::default() });
            self.segments.add(loc, Owner::Delete(bundle));
            self.remembered.extend(remember.map(|_| bundle));
            self.settle(bundle);
        }
        self.bound_memory();
        for (bundle, found) in core::mem::take(&mut recovery.found) {
            self.adopt(bundle, found, &mut recovery, out);
        }
        self.spills.settle(&mut self.segments);
        for file in self.segments.iter().map(|(file, _)| file).collect::<Vec<_>>() {
            self.segments.seal(file);
        }
        recovery.deliveries = self.gone.values().filter_map(|gone| gone.remember).collect();
        // The most urgent first: what is told first is routed first.
        recovery.bundles.make_contiguous().sort_by_key(|found| {
            let index = &found.meta.index;
            (core::cmp::Reverse(index.priority), index.expires.unwrap_or(DtnTime(u64::MAX)), found.meta.bundle)
        });
        recovery.telling = true;
        self.look = true;
        self.phase = Phase::Recovering(recovery);
        self.tell(now, out);
    }
    fn adopt(&mut self, bundle: BundleHandle, found: Found, recovery: &mut Recovery, out: &mut impl Sink<Output>) {
        let Found { loc, meta, .. } = &found;
        if !self.spills.cover(&meta.pieces) {
            self.report_damage(loc.file, loc.offset, loc.size(), out);
            self.dead_copy(bundle, loc.file);
            return;
        }
        let payload: u64 = super::commit::stored_rope(&meta.pieces, bundle).len();
        let size = meta.head.len() as u64 + payload + meta.tail.len() as u64;
        let quota = meta.index.quota;
        self.quotas.add(quota, size);
        self.kept_bytes += size;
        self.wall = self.wall.max(meta.index.stored_at);
        let spills = self.spills.take(&meta.pieces, &mut self.quotas);
        self.kept.insert(bundle, Kept { state: State::Disk(*loc), spills, size, quota });
        self.segments.add(*loc, Owner::Bundle(bundle));
        recovery.bundles.push_back(found);
    }
    /// Tells the agent what was found, a bounded number at a time.
    fn tell(&mut self, now: Instant, out: &mut impl Sink<Output>) {
        let Phase::Recovering(recovery) = &mut self.phase else { return };
        for _ in 0..TOLD_AT_ONCE {
            if let Some(delivery) = recovery.deliveries.pop_front() {
                out.push(Output::RecoveredDelivery(delivery));
            } else if let Some(Found { meta, .. }) = recovery.bundles.pop_front() {
                let payload = super::commit::stored_rope(&meta.pieces, meta.bundle);
                let BundleMeta { bundle, index, head, tail, .. } = meta;
                out.push(Output::Recovered { bundle, index: Box::new(index), head, payload, tail });
            } else {
                out.push(Output::Opened { counter: self.counter, last_bundle: self.last_bundle, secret: self.salt });
                self.phase = Phase::Open;
                return;
            }
        }
        recovery.wake_at = Some(now);
    }
}
