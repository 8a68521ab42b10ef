//! Table of files: their lengths and live records, the files that may be removed, and those kept to be recycled.

use super::header::SHORT_HEADER;
use super::record::Loc;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use farlink_base::BundleHandle;

/// Owner of a live record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Owner {
    /// A kept bundle.
    Bundle(BundleHandle),
    /// A delete record that still matters.
    Delete(BundleHandle),
    /// Part of a spill: its number, and the part's offset in it.
    Spill(u64, u64),
}

/// One file.
#[derive(Debug, Default)]
pub(super) struct LogSegment {
    /// Bytes taken by the header and by records, written or in flight.
    pub len: u64,
    /// Length of the file, bytes; may exceed `len` in a recycled file.
    pub size: u64,
    pub salt: u64,
    /// Whether all its records name their file, so that it may be written over.
    pub named: bool,
    /// Number of records of bundles and spills added, not counting copies.
    pub bundles: u64,
    /// Whether the file was made of the reserve, so that it does not grow while the disk is full.
    pub reserved: bool,
    /// Bytes of live records.
    pub live: u64,
    /// Live records by offset: owner and size.
    pub records: BTreeMap<u64, (Owner, u64)>,
    /// Bundles with a dead record in this file; their delete records are needed until the file is removed.
    pub dead: Vec<BundleHandle>,
    /// Whether the file takes no more records.
    pub sealed: bool,
    /// Whether a write or sync of the file failed, or recovery found unfinished data in it. Recovery must check the
    /// data of its records, and compaction takes it first.
    pub suspect: bool,
    /// Operations and loads under way.
    pub busy: u32,
    /// Whether a `Remove` is under way.
    pub removing: bool,
    /// Whether the file could not be read; compaction then skips it until the next start.
    pub unreadable: bool,
    /// Whether the file is never touched: nothing in it is recognised, or it has numbers that a newer salt uses too.
    pub foreign: bool,
}
impl LogSegment {
    fn compactable(&self, longest: u64) -> bool {
        let idle = self.sealed && !self.removing && self.size <= longest;
        idle && !self.unreadable && !self.foreign && !self.records.is_empty()
    }
}

/// An emptied file that is kept to be recycled.
#[derive(Clone, Copy, Debug)]
struct Spare {
    len: u64,
    /// Whether the disk confirmed that the file was kept; only then may it be taken.
    ready: bool,
}

/// All files.
#[derive(Debug, Default)]
pub(super) struct Segments {
    table: BTreeMap<u32, LogSegment>,
    /// The file that records are added to.
    pub active: Option<u32>,
    /// Number of the next file.
    pub next: u32,
    /// Newest file with a durable header. The counter and the last numbers are in its header, so older files may be
    /// removed.
    pub newest_durable: u32,
    /// Bytes of all files.
    pub bytes: u64,
    /// Bytes of all live records.
    pub live: u64,
    /// Sealed files without live records.
    pub empty: BTreeSet<u32>,
    /// Files kept to be recycled, by their former numbers.
    spares: BTreeMap<u32, Spare>,
    /// The file reserved for a full disk, and its length.
    pub reserve: Option<(u32, u64)>,
    /// Number of files recycled so far.
    pub written_over: u64,
}
impl Segments {
    /// No files; the first will have number 1.
    pub fn new() -> Segments {
        Segments { next: 1, ..Segments::default() }
    }
    pub fn get(&self, file: u32) -> Option<&LogSegment> {
        self.table.get(&file)
    }
    pub fn get_mut(&mut self, file: u32) -> Option<&mut LogSegment> {
        self.table.get_mut(&file)
    }
    pub fn iter(&self) -> impl Iterator<Item = (u32, &LogSegment)> {
        self.table.iter().map(|(file, segment)| (*file, segment))
    }
    pub fn len(&self) -> usize {
        self.table.len()
    }
    /// Adds a file.
    pub fn insert(&mut self, file: u32, segment: LogSegment) {
        self.bytes += segment.size;
        self.next = self.next.max(file.saturating_add(1));
        self.table.insert(file, segment);
    }
    /// Removes a file; returns the bundles with dead records in it.
    pub fn remove(&mut self, file: u32) -> Vec<BundleHandle> {
        self.empty.remove(&file);
        let Some(segment) = self.table.remove(&file) else { return Vec::new() };
        self.bytes -= segment.size;
        self.live -= segment.live;
        segment.dead
    }
    /// Counts `bytes` to be written at the end of the file, which then has `bundles` records of bundles and spills.
    pub fn extend(&mut self, file: u32, bytes: u64, bundles: u64) {
        if let Some(segment) = self.table.get_mut(&file) {
            segment.len += bytes;
            segment.bundles = bundles;
            // A recycled file has the bytes already.
            let more = segment.len.saturating_sub(segment.size);
            segment.size += more;
            self.bytes += more;
        }
    }
    /// Bytes by which the file must grow to hold records up to `len`.
    pub fn growth(&self, file: u32, len: u64) -> u64 {
        len.saturating_sub(self.table.get(&file).map_or(0, |segment| segment.size))
    }
    /// Whether a file about to be removed may be kept instead: fewer than `most` are kept, its length is between half
    /// and all of `segment_bytes`, its records name it, no operation on it failed, and the store is at most half full.
    pub fn may_keep(&self, file: u32, most: usize, segment_bytes: u64, capacity: u64) -> bool {
        let fits = |s: &LogSegment| s.named && !s.suspect && (segment_bytes / 2..=segment_bytes).contains(&s.size);
        self.spares.len() < most && self.bytes <= capacity / 2 && self.table.get(&file).is_some_and(fits)
    }
    /// Marks a file as a spare to be recycled instead of removed; [`Self::kept`] confirms it.
    pub fn keep(&mut self, file: u32) {
        self.spares.insert(file, Spare { len: 0, ready: false });
    }
    /// Records that a file was kept, with its length; `None`: it was removed after all.
    pub fn kept(&mut self, file: u32, len: Option<u64>) {
        match (self.spares.get_mut(&file), len) {
            (Some(spare), Some(len)) => {
                (spare.len, spare.ready) = (len, true);
                self.bytes += len;
            }
            _ => _ = self.spares.remove(&file),
        }
    }
    /// Takes a file kept to be recycled out of the table; returns its number and length.
    pub fn take_spare(&mut self) -> Option<(u32, u64)> {
        let (file, spare) = self.spares.iter().find(|(_, spare)| spare.ready)?;
        let (file, len) = (*file, spare.len);
        self.spares.remove(&file);
        self.bytes -= len;
        Some((file, len))
    }
    /// Adds the file reserved for a full disk.
    pub fn keep_reserve(&mut self, file: u32, bytes: u64) {
        self.bytes += bytes;
        self.reserve = Some((file, bytes));
    }
    /// Takes the reserved file out of the table; returns its number.
    pub fn take_reserve(&mut self) -> Option<u32> {
        let (file, bytes) = self.reserve.take()?;
        self.bytes -= bytes;
        Some(file)
    }
    /// Records the length of a file that was made of a kept one.
    pub fn remade(&mut self, file: u32, len: u64) {
        if let Some(segment) = self.table.get_mut(&file) {
            segment.size = len;
            self.bytes += len;
            self.written_over += 1;
        }
    }
    /// Bytes of kept and reserved files.
    fn spare_bytes(&self) -> u64 {
        self.spares.values().map(|spare| spare.len).chain(self.reserve.map(|(_, bytes)| bytes)).sum()
    }
    /// Makes a record live.
    pub fn add(&mut self, loc: Loc, owner: Owner) {
        if let Some(segment) = self.table.get_mut(&loc.file) {
            segment.records.insert(loc.offset, (owner, loc.size()));
            segment.live += loc.size();
            self.live += loc.size();
            self.empty.remove(&loc.file);
        }
    }
    /// Makes a record dead.
    pub fn release(&mut self, file: u32, offset: u64) {
        let Some(segment) = self.table.get_mut(&file) else { return };
        if let Some((_, size)) = segment.records.remove(&offset) {
            segment.live -= size;
            self.live -= size;
            if segment.sealed && segment.records.is_empty() && !segment.foreign {
                self.empty.insert(file);
            }
        }
    }
    /// Records a dead record of the bundle in the file.
    pub fn add_dead(&mut self, file: u32, bundle: BundleHandle) {
        if let Some(segment) = self.table.get_mut(&file) {
            segment.dead.push(bundle);
        }
    }
    /// Closes the file for more records.
    pub fn seal(&mut self, file: u32) {
        if self.active == Some(file) {
            self.active = None;
        }
        if let Some(segment) = self.table.get_mut(&file) {
            segment.sealed = true;
            if segment.records.is_empty() && !segment.foreign {
                self.empty.insert(file);
            }
        }
    }
    /// Number below which every file is durable as a whole; at most `next`.
    pub fn clean_below(&self, next: u32) -> u32 {
        self.table.iter().find(|(_, s)| s.suspect).map_or(next, |(file, _)| next.min(*file))
    }
    /// Records the start of an operation or load on the file.
    pub fn begin(&mut self, file: u32) {
        if let Some(segment) = self.table.get_mut(&file) {
            segment.busy += 1;
        }
    }
    /// Records the end of an operation or load on the file.
    pub fn end(&mut self, file: u32) {
        if let Some(segment) = self.table.get_mut(&file) {
            segment.busy = segment.busy.saturating_sub(1);
        }
    }
    /// Empty files that may be removed now: not busy, and not the newest durable one.
    pub fn removable(&self) -> Vec<u32> {
        let may = |file: &&u32| {
            **file != self.newest_durable && self.table.get(file).is_some_and(|s| s.busy == 0 && !s.removing)
        };
        self.empty.iter().filter(may).copied().collect()
    }
    /// Bytes that compaction could free.
    pub fn garbage(&self) -> u64 {
        self.bytes.saturating_sub(self.live).saturating_sub(self.spare_bytes())
    }
    /// The sealed file most worth compacting, with its share of garbage in 1/256; suspect files first. Files longer
    /// than `longest` are left out: they hold one large record, and are removed without compaction once it is dead.
    pub fn victim(&self, longest: u64) -> Option<(u32, u64)> {
        self.iter()
            .filter(|(_, s)| s.compactable(longest))
            .map(|(file, s)| {
                let waste = s.size.saturating_sub(s.live).saturating_sub(SHORT_HEADER);
                // 256 of 256: a suspect file comes before any other.
                (file, if s.suspect { 256 } else { waste * 256 / s.size.max(1) })
            })
            .max_by_key(|(file, share)| (*share, core::cmp::Reverse(*file)))
    }
    /// The sealed file with the least live data that frees more than `least` bytes of a full disk and whose live
    /// records fit into `room`.
    pub fn vacant(&self, room: u64, least: u64) -> Option<u32> {
        let gives = |s: &LogSegment| s.live <= room && s.size.saturating_sub(s.live) > least;
        let vacant = self.iter().filter(|(_, s)| s.compactable(u64::MAX) && gives(s));
        vacant.min_by_key(|(_, s)| s.live).map(|(file, _)| file)
    }
    /// The sealed file of at most `longest` bytes with the least live data; merging such files bounds their number.
    pub fn smallest(&self, longest: u64) -> Option<u32> {
        self.iter().filter(|(_, s)| s.compactable(longest)).min_by_key(|(_, s)| s.live).map(|(file, _)| file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loc(file: u32, offset: u64, data: u64) -> Loc {
        Loc { file, offset, meta: 52, data }
    }

    #[test]
    fn only_sealed_empty_idle_files_go() {
        let mut segments = Segments::default();
        segments.insert(1, LogSegment { len: 1000, size: 1000, ..LogSegment::default() });
        segments.active = Some(1);
        segments.add(loc(1, 128, 100), Owner::Bundle(BundleHandle(5)));
        assert_eq!((segments.bytes, segments.live, segments.garbage()), (1000, 200, 800));
        segments.release(1, 128);
        assert!(segments.empty.is_empty(), "still active");
        segments.newest_durable = 1;
        segments.seal(1);
        assert!(segments.removable().is_empty(), "no newer durable file");
        segments.newest_durable = 2;
        segments.begin(1);
        assert!(segments.removable().is_empty(), "busy");
        segments.end(1);
        segments.add_dead(1, BundleHandle(5));
        assert_eq!(segments.removable(), [1]);
        assert_eq!(segments.remove(1), [BundleHandle(5)]);
        assert_eq!((segments.bytes, segments.live), (0, 0));
    }

    #[test]
    fn kept_files_are_bounded_and_count() {
        let mut segments = Segments::new();
        for file in 1..=4 {
            let size = if file == 4 { 400 } else { 1000 };
            segments.insert(file, LogSegment { len: size, size, named: file != 2, ..LogSegment::default() });
        }
        let may = |segments: &Segments, file| segments.may_keep(file, 2, 1000, 10_000);
        assert!(!may(&segments, 2), "records that do not name their file");
        assert!(!may(&segments, 4), "short");
        assert!(!segments.may_keep(1, 2, 1000, 6000), "more than half full");
        assert!(!segments.may_keep(1, 2, 900, 10_000), "long");
        segments.get_mut(3).unwrap().suspect = true;
        assert!(!may(&segments, 3), "its content may not have reached the disk");
        segments.get_mut(3).unwrap().suspect = false;
        for file in [1, 3] {
            assert!(may(&segments, file));
            segments.keep(file);
            segments.remove(file);
        }
        assert!(segments.bytes == 1400 && segments.take_spare().is_none(), "not gone for good yet");
        segments.kept(3, Some(1000));
        segments.kept(1, None);
        assert_eq!((segments.bytes, segments.garbage()), (2400, 1400));
        segments.insert(5, LogSegment::default());
        assert_eq!((segments.take_spare(), segments.take_spare(), segments.bytes), (Some((3, 1000)), None, 1400));
        segments.remade(5, 1000);
        segments.extend(5, 800, 2);
        assert_eq!((segments.bytes, segments.growth(5, 900), segments.growth(5, 1200)), (2400, 0, 200));
        segments.extend(5, 300, 3);
        assert_eq!(segments.bytes, 2500);
    }

    #[test]
    fn suspect_then_emptiest_file_compacted() {
        let mut segments = Segments { newest_durable: 9, ..Segments::default() };
        for (file, data) in [(1, 800), (2, 300), (3, 600)] {
            segments.insert(file, LogSegment { len: 1000, size: 1000, sealed: true, ..LogSegment::default() });
            segments.add(loc(file, 128, data), Owner::Delete(BundleHandle(1)));
        }
        assert_eq!(segments.victim(9999).map(|(file, _)| file), Some(2));
        assert_eq!(segments.smallest(9999), Some(2));
        assert_eq!(segments.clean_below(4), 4);
        segments.get_mut(1).unwrap().suspect = true;
        assert_eq!(segments.victim(9999), Some((1, 256)));
        assert_eq!(segments.clean_below(4), 1);
    }
}
