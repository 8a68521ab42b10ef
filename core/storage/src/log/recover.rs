//! Recovery of bundles and deliveries that earlier runs kept.
//!
//! Files are read newest first: the newest header states below which file everything was durable, so only the data of
//! the last files are checked byte by byte. Records are matched by bundle and sequence, whatever their order. A file
//! that may hold bytes not yet durable is settled before it is read, and its records are rewritten and synced before
//! they are reported: bytes that a killed run left in the cache become durable or are not found.
//!
//! Reading an unreadable file is retried until it succeeds: nothing is written to any file while one is unread. A
//! store with a file of a newer format stays closed.

mod again;

use super::header::FileHeader;
use super::record::{BundleMeta, DeleteMeta, Loc, Meta};
use super::scan::{Find, Scan};
use super::segment::{LogSegment, Owner};
use super::{BundleState, Gone, KeptBundle, LogStore, Op, StorePhase};
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use farlink_base::store::{DiskAction, DiskAnswer, DiskError, Output, Remembered};
use farlink_base::{Accel, BundleHandle, DtnTime, Instant, Rng, Sink};

/// Recovered bundles and deliveries reported per call; the rest follow on `Wake`.
const REPORTED_AT_ONCE: usize = 1000;

/// Size of the gap in the numbers of bundles, records and spills left for each file in which nothing can be recognised.
const UNREAD: u64 = 1 << 32;

/// Recovery under way.
#[derive(Debug, Default)]
pub(super) struct Recovery {
    /// Whether the list of files arrived.
    listed: bool,
    /// Files not read yet, newest last, with their lengths.
    files: Vec<(u32, u64)>,
    /// Files with a damaged header, read after the salts of all others are known, so that the result does not depend
    /// on the order of reading. Each with its length and the index of the next salt to try.
    postponed: Vec<(u32, u64, usize)>,
    scan: Option<Scan>,
    /// Index of the salt to try after the current one.
    trying: Option<usize>,
    /// Salts found, that of the newest file first, each with the lowest `last_bundle` of its files' headers: bundles of
    /// earlier salts have no higher numbers.
    salts: Vec<(u64, u64)>,
    /// File being settled.
    settling: Option<u32>,
    /// Files that were settled, each with the end of its last record.
    settled: BTreeMap<u32, u64>,
    again: Option<again::Again>,
    clean_below: Option<u32>,
    found: BTreeMap<BundleHandle, RecoveredRecord>,
    deletes: BTreeMap<BundleHandle, (u64, Loc, Option<Remembered>)>,
    all_looked_at: bool,
    deliveries: VecDeque<Remembered>,
    bundles: VecDeque<RecoveredRecord>,
    wake_at: Option<Instant>,
    reporting: bool,
    /// Whether a file has a newer format.
    newer: bool,
}
impl Recovery {
    pub fn next_timeout(&self) -> Option<Instant> {
        self.wake_at
    }
    /// Whether the file that begins with `bytes` must wait until the salts of the others are known.
    fn postpones(&self, scan: &Scan, accel: &Accel, bytes: &[u8]) -> bool {
        let first = scan.next_read().is_some_and(|(at, _)| at == 0);
        let nameless = || FileHeader::decode(accel, bytes, scan.file).is_none();
        first && !self.all_looked_at && nameless() && super::format_of(accel, bytes).is_none()
    }
    /// Highest bundle number that can belong to `salt`: numbers above it were used under the salt that replaced it.
    fn numbers_end(&self, salt: u64) -> u64 {
        let newer = self.salts.iter().take_while(|(other, _)| *other != salt);
        newer.map(|(_, first)| *first).min().unwrap_or(u64::MAX)
    }
    fn learn(&mut self, salt: u64, last_bundle: u64) {
        match self.salts.iter_mut().find(|(other, _)| *other == salt) {
            Some((_, first)) => *first = (*first).min(last_bundle),
            None => self.salts.push((salt, last_bundle)),
        }
    }
}
#[derive(Debug)]
struct RecoveredRecord {
    sequence: u64,
    loc: Loc,
    meta: BundleMeta,
}

impl LogStore {
    pub(super) fn open(&mut self, out: &mut impl Sink<Output>) {
        if matches!(self.phase, StorePhase::Closed) {
            self.phase = StorePhase::Recovering(Box::default());
            self.disk(Op::List, DiskAction::List, out);
        }
    }
    pub(super) fn recovery_wake(&mut self, now: Instant, out: &mut impl Sink<Output>) {
        let StorePhase::Recovering(recovery) = &mut self.phase else { return };
        if recovery.wake_at.is_none_or(|at| at > now) {
            return;
        }
        recovery.wake_at = None;
        match recovery.settling {
            _ if recovery.reporting => self.report_recovered(now, out),
            _ if recovery.again.is_some() => self.write_again(now, out),
            _ if !recovery.listed => self.disk(Op::List, DiskAction::List, out),
            Some(file) => self.disk(Op::RecoverySettle(file), DiskAction::Settle { file }, out),
            None => self.scan_on(now, out),
        }
    }
    /// Retries the same operation after a pause, because the disk failed.
    fn ask_again(&mut self, now: Instant, file: u32, out: &mut impl Sink<Output>) {
        if let StorePhase::Recovering(recovery) = &mut self.phase {
            recovery.wake_at = Some(now + self.config.retry * 10);
        }
        self.report_failure(file, out);
    }
    pub(super) fn listed(&mut self, now: Instant, result: Result<DiskAnswer, DiskError>, out: &mut impl Sink<Output>) {
        let StorePhase::Recovering(recovery) = &mut self.phase else { return };
        let Ok(DiskAnswer::Files(mut files)) = result else {
            return self.ask_again(now, 0, out);
        };
        files.sort_unstable();
        recovery.listed = true;
        for (file, len) in &files {
            self.segments.insert(*file, LogSegment { len: *len, size: *len, sealed: true, ..LogSegment::default() });
        }
        recovery.files = files;
        self.scan_on(now, out);
    }
    /// Reads the next window of the current file, or begins the next file.
    fn scan_on(&mut self, now: Instant, out: &mut impl Sink<Output>) {
        let StorePhase::Recovering(recovery) = &mut self.phase else { return };
        loop {
            if let Some(scan) = &recovery.scan {
                if let Some((offset, len)) = scan.next_read() {
                    let file = scan.file;
                    self.disk(Op::RecoveryRead, DiskAction::Read { file, offset, len }, out);
                    return;
                }
                // A salt counts only if something was recognised with it.
                let salt = scan.salt.filter(|_| scan.ours);
                if let (Some(segment), Some(salt)) = (self.segments.get_mut(scan.file), salt) {
                    segment.salt = salt;
                } else if let Some(next) = recovery.trying.take().filter(|next| *next < recovery.salts.len()) {
                    recovery.postponed.push((scan.file, scan.len, next));
                } else if let Some(segment) = self.segments.get_mut(scan.file)
                    && scan.content
                {
                    segment.foreign = true;
                    // The file's numbers are unknown: leave a gap that covers any it may have used.
                    self.last_bundle = self.last_bundle.saturating_add(UNREAD);
                    self.sequence = self.sequence.saturating_add(UNREAD);
                    self.spills.skip(UNREAD);
                }
            }
            let next = recovery.files.pop().map(|(file, len)| (file, len, None)).or_else(|| {
                recovery.all_looked_at = true;
                let (file, len, salt) = recovery.postponed.pop()?;
                recovery.trying = Some(salt + 1);
                Some((file, len, recovery.salts.get(salt).map(|(salt, _)| *salt)))
            });
            let Some((file, len, salt)) = next else { return self.write_again(now, out) };
            let first = recovery.salts.first().map(|(salt, _)| *salt);
            recovery.scan = Some(Scan::new(file, len, salt.or(first), self.config.read_bytes));
            // Only files from `clean_below` on may hold bytes that are not durable; an empty file holds none.
            if len > 0 && file >= recovery.clean_below.unwrap_or(0) && !recovery.settled.contains_key(&file) {
                recovery.settling = Some(file);
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
        if matches!(&self.phase, StorePhase::Recovering(recovery) if recovery.again.is_some()) {
            return self.read_back(now, result, out);
        }
        // The recovery leaves `self` while its records are sorted into the store's tables.
        let StorePhase::Recovering(mut recovery) = core::mem::replace(&mut self.phase, StorePhase::Closed) else {
            return;
        };
        if let Some(mut scan) = recovery.scan.take() {
            match result {
                Ok(DiskAnswer::Data(bytes)) if recovery.postpones(&scan, &self.config.accel, &bytes) => {
                    recovery.postponed.push((scan.file, scan.len, 0));
                    self.phase = StorePhase::Recovering(recovery);
                    return self.scan_on(now, out);
                }
                Ok(DiskAnswer::Data(bytes)) => {
                    let accel = self.config.accel;
                    scan.take(&accel, &bytes, |scan, find| self.sort_in(&mut recovery, scan, find, out));
                }
                _ => {
                    let file = scan.file;
                    recovery.scan = Some(scan);
                    self.phase = StorePhase::Recovering(recovery);
                    return self.ask_again(now, file, out);
                }
            }
            if recovery.newer {
                // Reading stops here: only the newer program knows the content.
                self.phase = StorePhase::Recovering(recovery);
                return;
            }
            recovery.scan = Some(scan);
        }
        self.phase = StorePhase::Recovering(recovery);
        self.scan_on(now, out);
    }
    fn sort_in(&mut self, recovery: &mut Recovery, scan: &mut Scan, find: Find, out: &mut impl Sink<Output>) {
        let file = scan.file;
        match find {
            Find::Newer => {
                recovery.newer = true;
                self.report_failure(file, out);
            }
            Find::Header(header) => {
                recovery.learn(header.salt, header.last_bundle);
                // The first header read is the newest, so its statement is the latest.
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
                // The end of the last record bounds the rewrite.
                if let Some(end) = recovery.settled.get_mut(&file) {
                    *end = (*end).max(loc.offset + loc.size());
                }
                let number = meta.bundle().map_or(0, |bundle| bundle.0);
                if number > scan.salt.map_or(u64::MAX, |salt| recovery.numbers_end(salt)) {
                    // Another bundle has this number under a newer salt; the record stays where it is.
                    self.report_damage(file, loc.offset, loc.size(), out);
                    if let Some(segment) = self.segments.get_mut(file) {
                        segment.foreign = true;
                    }
                    return;
                }
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
                        // The record's spills may be gone. Their numbers stay used: if a copy of the record appeared
                        // later, it would otherwise refer to another bundle's bytes.
                        self.spills.skip_past(&meta.pieces);
                        if whole {
                            self.sort_bundle(recovery, RecoveredRecord { sequence, loc, meta });
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
    fn sort_bundle(&mut self, recovery: &mut Recovery, found: RecoveredRecord) {
        let bundle = found.meta.bundle;
        // Records come in any order: only the one with the highest sequence lives, unless a later deletion kills it.
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

    /// Continues with a file once it is settled.
    pub(super) fn recovery_settled(
        &mut self,
        now: Instant,
        file: u32,
        result: Result<DiskAnswer, DiskError>,
        out: &mut impl Sink<Output>,
    ) {
        if result.is_err() {
            return self.ask_again(now, file, out);
        }
        if let StorePhase::Recovering(recovery) = &mut self.phase {
            recovery.settling = None;
            recovery.settled.insert(file, 0);
        }
        self.scan_on(now, out);
    }

    fn finish_recovery(&mut self, now: Instant, out: &mut impl Sink<Output>) {
        let StorePhase::Recovering(mut recovery) = core::mem::replace(&mut self.phase, StorePhase::Closed) else {
            return;
        };
        // Without any salt, a new one is drawn; the next file's number makes it differ from that of a file whose
        // header never reached the disk.
        self.salt = recovery
            .salts
            .first()
            .map(|(salt, _)| *salt)
            .unwrap_or_else(|| Rng::stream(self.config.seed, self.segments.next.into()).next_u64());
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
        // Spills no bundle refers to are garbage only after all bundles are adopted.
        self.spills.settle(&mut self.segments);
        for file in self.segments.iter().map(|(file, _)| file).collect::<Vec<_>>() {
            self.segments.seal(file);
        }
        recovery.deliveries = self.gone.values().filter_map(|gone| gone.remember).collect();
        // Most urgent first: bundles reported first are routed first.
        recovery.bundles.make_contiguous().sort_by_key(|found| {
            let index = &found.meta.index;
            (core::cmp::Reverse(index.priority), index.expires.unwrap_or(DtnTime(u64::MAX)), found.meta.bundle)
        });
        recovery.reporting = true;
        self.look = true;
        self.phase = StorePhase::Recovering(recovery);
        self.report_recovered(now, out);
    }
    fn adopt(
        &mut self,
        bundle: BundleHandle,
        found: RecoveredRecord,
        recovery: &mut Recovery,
        out: &mut impl Sink<Output>,
    ) {
        let RecoveredRecord { loc, meta, .. } = &found;
        // A bundle without all of its spills cannot be delivered.
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
        self.kept.insert(bundle, KeptBundle { state: BundleState::Disk(*loc), spills, size, quota });
        self.segments.add(*loc, Owner::Bundle(bundle));
        recovery.bundles.push_back(found);
    }
    /// Reports recovered deliveries and bundles to the agent, [`REPORTED_AT_ONCE`] per call.
    fn report_recovered(&mut self, now: Instant, out: &mut impl Sink<Output>) {
        let StorePhase::Recovering(recovery) = &mut self.phase else { return };
        for _ in 0..REPORTED_AT_ONCE {
            if let Some(delivery) = recovery.deliveries.pop_front() {
                out.push(Output::RecoveredDelivery(delivery));
            } else if let Some(RecoveredRecord { meta, .. }) = recovery.bundles.pop_front() {
                let payload = super::commit::stored_rope(&meta.pieces, meta.bundle);
                let BundleMeta { bundle, index, head, tail, .. } = meta;
                out.push(Output::Recovered { bundle, index: Box::new(index), head, payload, tail });
            } else {
                out.push(Output::Opened { counter: self.counter, last_bundle: self.last_bundle, secret: self.salt });
                self.phase = StorePhase::Open;
                self.spill_early(now, out);
                return;
            }
        }
        recovery.wake_at = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use super::super::Config;
    use super::*;
    use bytes::Bytes;

    const BUNDLE: BundleHandle = BundleHandle(7);

    /// A store of three files, and a recovery without findings.
    fn begun() -> (LogStore, Recovery) {
        let mut store = LogStore::new(Config::new(1 << 30));
        for file in 1..=3 {
            store.segments.insert(file, LogSegment { len: 1000, size: 1000, ..LogSegment::default() });
        }
        (store, Recovery::default())
    }
    fn loc(file: u32) -> Loc {
        Loc { file, offset: 128, meta: 100, data: 10 }
    }
    fn bundle(sequence: u64, file: u32) -> RecoveredRecord {
        let index = crate::log::tests::plain_index();
        let (head, tail) = (Bytes::new(), Bytes::new());
        let meta = BundleMeta { bundle: BUNDLE, index, pieces: Vec::new(), crcs: Box::default(), head, tail };
        RecoveredRecord { sequence, loc: loc(file), meta }
    }
    fn delete(store: &mut LogStore, recovery: &mut Recovery, sequence: u64, file: u32) {
        store.sort_delete(recovery, sequence, loc(file), DeleteMeta { bundle: BUNDLE, remember: None });
    }
    /// Files with dead records of the bundle, and the number of these records according to the store.
    fn dead(store: &LogStore) -> (Vec<u32>, u32) {
        let files = store.segments.iter().filter(|(_, segment)| segment.dead == [BUNDLE]);
        (files.map(|(file, _)| file).collect(), store.stale.get(&BUNDLE).map_or(0, |copies| copies.count))
    }

    #[test]
    fn newer_salt_ends_older_numbers() {
        let mut recovery = Recovery::default();
        // Headers of the newest file first, as recovery reads them.
        for (salt, last_bundle) in [(9, 50), (9, 10), (7, 30), (7, 3)] {
            recovery.learn(salt, last_bundle);
        }
        assert_eq!((recovery.numbers_end(9), recovery.numbers_end(7)), (u64::MAX, 10));
    }
    #[test]
    fn older_record_dies_in_any_order() {
        for newer_first in [true, false] {
            let (mut store, mut recovery) = begun();
            let mut records = [bundle(5, 1), bundle(6, 2)];
            if newer_first {
                records.reverse();
            }
            for record in records {
                store.sort_bundle(&mut recovery, record);
            }
            assert_eq!(dead(&store), (Vec::from([1]), 1));
            assert_eq!(recovery.found[&BUNDLE].sequence, 6);
        }
    }
    #[test]
    fn newer_deletion_counts_in_any_order() {
        let remember = Some(Remembered { fingerprint: 1, until: DtnTime(2), content: 3 });
        for newer_first in [true, false] {
            let (mut store, mut recovery) = begun();
            let mut deletions = [(5, 1, None), (6, 2, remember)];
            if newer_first {
                deletions.reverse();
            }
            for (sequence, file, remember) in deletions {
                store.sort_delete(&mut recovery, sequence, loc(file), DeleteMeta { bundle: BUNDLE, remember });
            }
            assert_eq!(recovery.deletes[&BUNDLE], (6, loc(2), remember));
            assert_eq!(store.last_bundle, BUNDLE.0);
        }
    }
    #[test]
    fn deletion_kills_record_in_any_order() {
        for deletion_first in [true, false] {
            let (mut store, mut recovery) = begun();
            if deletion_first {
                delete(&mut store, &mut recovery, 6, 2);
            }
            store.sort_bundle(&mut recovery, bundle(5, 1));
            if !deletion_first {
                delete(&mut store, &mut recovery, 6, 2);
            }
            assert_eq!(dead(&store), (Vec::from([1]), 1));
            assert!(recovery.found.is_empty());
        }
    }
}
