//! The table of files: how long each is, what in it is live, which may be removed, and which of those are kept to be
//! written over.

use super::header::SHORT_HEADER;
use super::record::Loc;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use farlink_base::BundleHandle;

/// Whose record it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Owner {
    /// A kept bundle.
    Bundle(BundleHandle),
    /// A delete record that still matters.
    Delete(BundleHandle),
    /// Part of a spill, starting at this offset of it.
    Spill(u64, u64),
}

/// One file.
#[derive(Debug, Default)]
pub(super) struct Segment {
    /// Bytes given to records, written or in flight.
    pub len: u64,
    /// Bytes of the file: more, where it was made of another.
    pub size: u64,
    /// The salt of its records.
    pub salt: u64,
    /// All records in it name their file: it may be written over.
    pub named: bool,
    /// Records of bundles and spills that were added, copies not counted.
    pub bundles: u64,
    /// It was made of what was kept for a full disk: while that is full it grows no longer.
    pub reserved: bool,
    /// Bytes of live records.
    pub live: u64,
    /// Live records by offset: owner and size.
    pub records: BTreeMap<u64, (Owner, u64)>,
    /// Bundles of which a dead record is here: their delete records are needed until this file goes.
    pub dead: Vec<BundleHandle>,
    /// Nothing is added any more.
    pub sealed: bool,
    /// A write or sync of it failed, or unfinished data were found in it: recovery must check the
    /// data of its records, and it is compacted first.
    pub suspect: bool,
    /// Operations and loads under way.
    pub busy: u32,
    /// A `Remove` is under way.
    pub removing: bool,
    /// It could not be read: compaction leaves it alone until the next start.
    pub unreadable: bool,
    /// Not a file of this store, as far as can be told: never touched.
    pub foreign: bool,
}
impl Segment {
    fn compactable(&self, longest: u64) -> bool {
        let idle = self.sealed && !self.removing && self.size <= longest;
        idle && !self.unreadable && !self.foreign && !self.records.is_empty()
    }
}

/// A file that is kept to be written over.
#[derive(Clone, Copy, Debug)]
struct Spare {
    len: u64,
    /// What was in it is gone for good.
    ready: bool,
}

/// All files.
#[derive(Debug, Default)]
pub(super) struct Segments {
    table: BTreeMap<u32, Segment>,
    /// The file that records are added to.
    pub active: Option<u32>,
    /// Number of the next file.
    pub next: u32,
    /// The newest file whose header is durable. Counter and numbers are in its header, so older
    /// files may go.
    pub newest_durable: u32,
    /// Bytes of all files.
    pub bytes: u64,
    /// Bytes of all live records.
    pub live: u64,
    /// Sealed files without live records.
    pub empty: BTreeSet<u32>,
    /// Files kept, by the numbers they had.
    spares: BTreeMap<u32, Spare>,
    /// The file kept for a full disk, and its bytes.
    pub reserve: Option<(u32, u64)>,
    /// Files made of kept ones so far.
    pub written_over: u64,
}
impl Segments {
    /// No files; the first will be number 1.
    pub fn new() -> Segments {
        Segments { next: 1, ..Segments::default() }
    }
    pub fn get(&self, file: u32) -> Option<&Segment> {
        self.table.get(&file)
    }
    pub fn get_mut(&mut self, file: u32) -> Option<&mut Segment> {
        self.table.get_mut(&file)
    }
    pub fn iter(&self) -> impl Iterator<Item = (u32, &Segment)> {
        self.table.iter().map(|(file, segment)| (*file, segment))
    }
    pub fn len(&self) -> usize {
        self.table.len()
    }
    /// Adds a file of `len` bytes.
    pub fn insert(&mut self, file: u32, segment: Segment) {
        self.bytes += segment.size;
        self.next = self.next.max(file.saturating_add(1));
        self.table.insert(file, segment);
    }
    /// Takes the file out of the table; gives back the bundles with dead records in it.
    pub fn remove(&mut self, file: u32) -> Vec<BundleHandle> {
        self.empty.remove(&file);
        let Some(segment) = self.table.remove(&file) else { return Vec::new() };
        self.bytes -= segment.size;
        self.live -= segment.live;
        segment.dead
    }
    /// Gives `bytes` more of the file to records, `bundles` of which are of bundles and spills then.
    pub fn extend(&mut self, file: u32, bytes: u64, bundles: u64) {
        if let Some(segment) = self.table.get_mut(&file) {
            segment.len += bytes;
            segment.bundles = bundles;
            let more = segment.len.saturating_sub(segment.size);
            segment.size += more;
            self.bytes += more;
        }
    }
    /// By how much the file must grow to hold records up to `len`.
    pub fn growth(&self, file: u32, len: u64) -> u64 {
        len.saturating_sub(self.table.get(&file).map_or(0, |segment| segment.size))
    }
    /// Whether the file, which is removed next, may be kept: there are fewer than `most` already, it is neither short nor
    /// long, and the store is not half full.
    pub fn may_keep(&self, file: u32, most: usize, segment_bytes: u64, capacity: u64) -> bool {
        let fits = |s: &Segment| s.named && !s.suspect && (segment_bytes / 2..=segment_bytes).contains(&s.size);
        self.spares.len() < most && self.bytes <= capacity / 2 && self.table.get(&file).is_some_and(fits)
    }
    /// The file is about to be kept.
    pub fn keep(&mut self, file: u32) {
        self.spares.insert(file, Spare { len: 0, ready: false });
    }
    /// It is kept, with so many bytes, or gone.
    pub fn kept(&mut self, file: u32, len: Option<u64>) {
        match (self.spares.get_mut(&file), len) {
            (Some(spare), Some(len)) => {
                (spare.len, spare.ready) = (len, true);
                self.bytes += len;
            }
            _ => _ = self.spares.remove(&file),
        }
    }
    /// A kept file, which is one no longer, and its bytes.
    pub fn take_spare(&mut self) -> Option<(u32, u64)> {
        let (file, spare) = self.spares.iter().find(|(_, spare)| spare.ready)?;
        let (file, len) = (*file, spare.len);
        self.spares.remove(&file);
        self.bytes -= len;
        Some((file, len))
    }
    /// So many bytes are kept for a full disk.
    pub fn keep_reserve(&mut self, file: u32, bytes: u64) {
        self.bytes += bytes;
        self.reserve = Some((file, bytes));
    }
    /// They are no longer: the file they are.
    pub fn take_reserve(&mut self) -> Option<u32> {
        let (file, bytes) = self.reserve.take()?;
        self.bytes -= bytes;
        Some(file)
    }
    /// The file was made of a kept one, which had so many bytes.
    pub fn remade(&mut self, file: u32, len: u64) {
        if let Some(segment) = self.table.get_mut(&file) {
            segment.size = len;
            self.bytes += len;
            self.written_over += 1;
        }
    }
    /// Bytes of kept files.
    fn spare_bytes(&self) -> u64 {
        self.spares.values().map(|spare| spare.len).chain(self.reserve.map(|(_, bytes)| bytes)).sum()
    }
    /// A record became live.
    pub fn add(&mut self, loc: Loc, owner: Owner) {
        if let Some(segment) = self.table.get_mut(&loc.file) {
            segment.records.insert(loc.offset, (owner, loc.size()));
            segment.live += loc.size();
            self.live += loc.size();
            self.empty.remove(&loc.file);
        }
    }
    /// A record is live no longer.
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
    /// A dead record of the bundle is in the file.
    pub fn add_dead(&mut self, file: u32, bundle: BundleHandle) {
        if let Some(segment) = self.table.get_mut(&file) {
            segment.dead.push(bundle);
        }
    }
    /// Nothing is added to the file any more.
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
    /// Every file below this one is known to be durable as a whole.
    pub fn clean_below(&self, next: u32) -> u32 {
        self.table.iter().find(|(_, s)| s.suspect).map_or(next, |(file, _)| next.min(*file))
    }
    /// An operation or load on the file begins.
    pub fn begin(&mut self, file: u32) {
        if let Some(segment) = self.table.get_mut(&file) {
            segment.busy += 1;
        }
    }
    /// It ended.
    pub fn end(&mut self, file: u32) {
        if let Some(segment) = self.table.get_mut(&file) {
            segment.busy = segment.busy.saturating_sub(1);
        }
    }
    /// The files that may be removed now: what a newer one is durable after, and what never was durable.
    pub fn removable(&self) -> Vec<u32> {
        let may = |file: &&u32| {
            **file != self.newest_durable && self.table.get(file).is_some_and(|s| s.busy == 0 && !s.removing)
        };
        self.empty.iter().filter(may).copied().collect()
    }
    /// Bytes that compaction could win.
    pub fn garbage(&self) -> u64 {
        self.bytes.saturating_sub(self.live).saturating_sub(self.spare_bytes())
    }
    /// The sealed file that pays most to compact, and the share of it that is garbage in 1/256.
    /// Files in doubt come first.
    /// Files over `longest` hold one large record and go when it dies.
    pub fn victim(&self, longest: u64) -> Option<(u32, u64)> {
        self.iter()
            .filter(|(_, s)| s.compactable(longest))
            .map(|(file, s)| {
                let waste = s.size.saturating_sub(s.live).saturating_sub(SHORT_HEADER);
                (file, if s.suspect { 256 } else { waste * 256 / s.size.max(1) })
            })
            .max_by_key(|(file, share)| (*share, core::cmp::Reverse(*file)))
    }
    /// The sealed file that is given up for least where the disk is full: what lives in it finds `room` elsewhere, and more
    /// than `least` bytes become free.
    pub fn vacant(&self, room: u64, least: u64) -> Option<u32> {
        let gives = |s: &Segment| s.live <= room && s.size.saturating_sub(s.live) > least;
        let vacant = self.iter().filter(|(_, s)| s.compactable(u64::MAX) && gives(s));
        vacant.min_by_key(|(_, s)| s.live).map(|(file, _)| file)
    }
    /// The smallest sealed file: merging it with others keeps the number of files bounded.
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
        segments.insert(1, Segment { len: 1000, size: 1000, ..Segment::default() });
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
            segments.insert(file, Segment { len: size, size, named: file != 2, ..Segment::default() });
        }
        let may = |segments: &Segments, file| segments.may_keep(file, 2, 1000, 10_000);
        assert!(!may(&segments, 2), "records that do not say whose they are");
        assert!(!may(&segments, 4), "short");
        assert!(!segments.may_keep(1, 2, 1000, 6000), "more than half full");
        assert!(!segments.may_keep(1, 2, 900, 10_000), "long");
        segments.get_mut(3).unwrap().suspect = true;
        assert!(!may(&segments, 3), "what was written to it may not have reached the disk");
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
        segments.insert(5, Segment::default());
        assert_eq!((segments.take_spare(), segments.take_spare(), segments.bytes), (Some((3, 1000)), None, 1400));
        segments.remade(5, 1000);
        segments.extend(5, 800, 2);
        assert_eq!((segments.bytes, segments.growth(5, 900), segments.growth(5, 1200)), (2400, 0, 200));
        segments.extend(5, 300, 3);
        assert_eq!(segments.bytes, 2500);
    }

    #[test]
    fn suspect_then_emptiest_file_is_compacted() {
        let mut segments = Segments { newest_durable: 9, ..Segments::default() };
        for (file, data) in [(1, 800), (2, 300), (3, 600)] {
            segments.insert(file, Segment { len: 1000, size: 1000, sealed: true, ..Segment::default() });
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
