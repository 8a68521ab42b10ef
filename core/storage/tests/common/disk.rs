//! Simulated files with a cache in front. A power cut keeps everything synced and any part of the rest: whole writes,
//! single sectors of them, or nothing, in any order.

use farlink_base::Rng;
use farlink_base::store::{DiskAction, DiskAnswer, DiskError, DiskOp};
use std::collections::{BTreeMap, BTreeSet};

const SECTOR: usize = 512;

#[derive(Clone, Default)]
pub struct SimFile {
    /// Content as a read sees it.
    pub cache: Vec<u8>,
    /// End of the bytes written since the file was made; the rest is old content of the file that was reused for it.
    pub end: u64,
    durable: Vec<u8>,
    /// Whether the directory entry is durable.
    entered: bool,
    /// Writes not durable yet.
    pending: Vec<(u64, Vec<u8>)>,
}

#[derive(Clone, Debug, Default)]
pub struct SimDisk {
    pub files: BTreeMap<u32, SimFile>,
    /// Removed files that are kept to be written over.
    pub kept: BTreeMap<u32, SimFile>,
    /// Operations performed so far.
    pub count: u64,
    /// Range of operations that fail, and their error.
    pub fail: Option<(core::ops::Range<u64>, DiskError)>,
    /// Bytes that fit into its files; `None` is no limit.
    pub space: Option<u64>,
    /// Whether a full disk is reported by the sync instead of the write.
    pub tells_late: bool,
    /// Error of all reservations, if any.
    pub reserves_fail: Option<DiskError>,
    /// Length of a reservation, whatever length was requested.
    pub reserves: Option<u64>,
    /// Bytes reserved by an earlier run.
    pub left: u64,
    /// Files made of the reserve.
    pub reserves_used: usize,
    /// Numbers given to files of this run.
    pub numbers: BTreeSet<u32>,
    /// File that cannot be read from an offset on, and the offset.
    pub unreadable: Option<(u32, u64)>,
    /// Whether a settled file is still read from the cache.
    pub remembers: bool,
    /// Changes of the files, if they are counted.
    pub touched: Option<Touch>,
}

/// Changes of a disk.
#[derive(Clone, Debug, Default)]
pub struct Touch {
    pub writes: usize,
    pub made: usize,
    pub removed: usize,
    /// Number of files that had not been read when a file was written, summed over all writes.
    pub unread: usize,
    read: BTreeSet<u32>,
}

fn write_at(file: &mut Vec<u8>, offset: u64, bytes: &[u8]) {
    let end = offset as usize + bytes.len();
    if file.len() < end {
        file.resize(end, 0);
    }
    file[offset as usize..end].copy_from_slice(bytes);
}
fn file_of(action: &DiskAction) -> Option<u32> {
    match action {
        DiskAction::List => None,
        DiskAction::Create { file, .. }
        | DiskAction::Write { file, .. }
        | DiskAction::Sync { file }
        | DiskAction::Settle { file }
        | DiskAction::Read { file, .. }
        | DiskAction::Truncate { file, .. }
        | DiskAction::Remove { file, .. }
        | DiskAction::Reserve { file, .. } => Some(*file),
    }
}

/// Prints lengths, and hashes of the content without the zeros at its end.
impl std::fmt::Debug for SimFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let SimFile { cache, durable, end, entered, pending } = self;
        let short = |bytes: &[u8]| {
            let used = bytes
                .chunks(64)
                .rposition(|part| part != &[0; 64][..part.len()])
                .map_or(0, |last| bytes.len().min(64 * last + 64));
            (bytes.len(), farlink_base::hash128(&[&bytes[..used]]))
        };
        let pending: Vec<_> = pending.iter().map(|(offset, bytes)| (offset, short(bytes))).collect();
        let parts = (short(cache), short(durable), end, entered, pending);
        f.debug_tuple("SimFile").field(&parts).finish()
    }
}

impl SimFile {
    /// Whether a read sees bytes that no sync will write to the disk.
    pub fn shows_what_is_lost(&self) -> bool {
        self.pending.is_empty() && self.cache != self.durable
    }
    /// Damages the durable content, and the cache with it.
    pub fn damage(&mut self, how: impl Fn(&mut [u8])) {
        how(&mut self.cache);
        how(&mut self.durable);
    }
    /// Drops content that is only in the cache.
    fn forget(&mut self) {
        self.cache.clone_from(&self.durable);
    }
}

impl SimDisk {
    /// Takes one of the outstanding operations, in any order that syncs allow.
    pub fn choose(&self, outstanding: &mut Vec<DiskOp>, rng: &mut Rng) -> Option<DiskOp> {
        let is_sync = |op: &DiskOp| matches!(op.action, DiskAction::Sync { .. });
        let allowed: Vec<usize> = (0..outstanding.len())
            .filter(|&n| {
                outstanding[..n].iter().all(|before| {
                    // An operation after a sync may be performed before it.
                    file_of(&before.action) != file_of(&outstanding[n].action) || !is_sync(&outstanding[n])
                })
            })
            .collect();
        if allowed.is_empty() {
            return None;
        }
        Some(outstanding.remove(allowed[rng.below(allowed.len() as u64) as usize]))
    }
    pub fn perform(&mut self, action: DiskAction, rng: &mut Rng) -> Result<DiskAnswer, DiskError> {
        self.count += 1;
        self.watch(&action);
        if let DiskAction::Create { file, .. } | DiskAction::Reserve { file, .. } = action {
            assert!(self.numbers.insert(file), "file {file} was there before");
        }
        let failing = self.fail.as_ref().filter(|(range, _)| range.contains(&self.count)).map(|(_, error)| *error);
        if let Some(error) = failing {
            self.fail_at(action, rng);
            return Err(error);
        }
        if let DiskAction::Read { file, offset, len } = action
            && self.unreadable.is_some_and(|(bad, from)| bad == file && offset + len > from)
        {
            return Err(DiskError::Io);
        }
        if let Some(error) = self.no_room(&action) {
            if self.tells_late || matches!(action, DiskAction::Reserve { .. }) {
                self.fail_at(action, rng);
            }
            return Err(error);
        }
        match action {
            DiskAction::List => {
                // Real directories are listed in no useful order.
                let files = self.files.iter().rev().map(|(n, f)| (*n, f.cache.len() as u64)).collect();
                return Ok(DiskAnswer::Files(files));
            }
            DiskAction::Create { file, of } => {
                let made = of.and_then(|of| self.kept.remove(&of)).unwrap_or_default();
                let len = made.cache.len() as u64;
                self.reserves_used += usize::from(len > 0 && made.end == 0);
                assert!(
                    self.files.insert(file, SimFile { entered: false, end: 0, ..made }).is_none(),
                    "file {file} exists"
                );
                return Ok(if len > 0 { DiskAnswer::Kept(len) } else { DiskAnswer::Done });
            }
            DiskAction::Write { file, offset, data } => {
                let file = self.files.get_mut(&file).expect("written before it was made");
                let bytes = data.to_bytes().expect("no extents in a write").to_vec();
                write_at(&mut file.cache, offset, &bytes);
                file.end = file.end.max(offset + bytes.len() as u64);
                file.pending.push((offset, bytes));
            }
            DiskAction::Sync { file } => {
                let file = self.files.get_mut(&file).expect("exists");
                for (offset, bytes) in file.pending.drain(..) {
                    write_at(&mut file.durable, offset, &bytes);
                }
                file.entered = true;
            }
            DiskAction::Settle { file } => {
                self.perform(DiskAction::Sync { file }, rng)?;
                if !self.remembers {
                    self.files.get_mut(&file).expect("exists").forget();
                }
            }
            DiskAction::Read { file, offset, len } => {
                let file = &self.files.get(&file).expect("read of a removed file").cache;
                let start = (offset as usize).min(file.len());
                let end = (offset + len).min(file.len() as u64) as usize;
                return Ok(DiskAnswer::Data(file[start..end].to_vec().into()));
            }
            DiskAction::Truncate { file, len } => {
                self.files.get_mut(&file).expect("exists").cache.truncate(len as usize);
            }
            DiskAction::Remove { file, keep } => {
                self.kept.remove(&file);
                if let Some(removed) = self.files.remove(&file).filter(|_| keep) {
                    let len = removed.cache.len() as u64;
                    self.kept.insert(file, removed);
                    return Ok(DiskAnswer::Kept(len));
                }
            }
            DiskAction::Reserve { file, bytes } => {
                let bytes = self.reserves.unwrap_or(bytes);
                self.left = 0;
                let zeros = vec![0; bytes as usize];
                self.kept.insert(file, SimFile { cache: zeros.clone(), durable: zeros, ..SimFile::default() });
                return Ok(DiskAnswer::Kept(bytes));
            }
        }
        Ok(DiskAnswer::Done)
    }
    fn watch(&mut self, action: &DiskAction) {
        let Some(touched) = &mut self.touched else { return };
        match action {
            DiskAction::Read { file, .. } => {
                touched.read.insert(*file);
            }
            DiskAction::Write { .. } => {
                // A file counts as read after any read of it, since recovery does not read all data of durable files.
                let unread = |(file, f): &(&u32, &SimFile)| !f.cache.is_empty() && !touched.read.contains(file);
                touched.unread += self.files.iter().filter(unread).count();
                touched.writes += 1;
            }
            DiskAction::Create { .. } | DiskAction::Reserve { .. } => touched.made += 1,
            DiskAction::Remove { .. } | DiskAction::Truncate { .. } => touched.removed += 1,
            DiskAction::List | DiskAction::Sync { .. } | DiskAction::Settle { .. } => {}
        }
    }
    /// Content of its files.
    pub fn image(&self) -> BTreeMap<u32, Vec<u8>> {
        self.files.iter().map(|(number, file)| (*number, file.cache.clone())).collect()
    }
    /// Error of an operation that finds no space.
    fn no_room(&self, action: &DiskAction) -> Option<DiskError> {
        let more = match action {
            DiskAction::Reserve { bytes, .. } => {
                if let Some(error) = self.reserves_fail {
                    return Some(error);
                }
                self.reserves.unwrap_or(*bytes).saturating_sub(self.left)
            }
            DiskAction::Write { file, offset, data } if !self.tells_late => {
                (offset + data.len()).saturating_sub(self.files.get(file).map_or(0, |f| f.cache.len() as u64))
            }
            // The cache took more than there is space for.
            DiskAction::Sync { file } if self.tells_late => {
                let made_longer = self.files.get(file).is_some_and(|f| f.cache.len() > f.durable.len());
                u64::from(made_longer)
            }
            _ => 0,
        };
        (more > 0 && self.space.is_some_and(|space| self.len() + more > space)).then_some(DiskError::Full)
    }
    /// Side effects that a failed operation may have had.
    fn fail_at(&mut self, action: DiskAction, rng: &mut Rng) {
        match action {
            DiskAction::Write { file, offset, data } => {
                let bytes = data.to_bytes().expect("no extents in a write");
                let done = bytes.slice(..rng.below(bytes.len() as u64 + 1) as usize).to_vec();
                if let Some(file) = self.files.get_mut(&file) {
                    write_at(&mut file.cache, offset, &done);
                    file.pending.push((offset, done));
                }
            }
            // The kernel marks the pages clean; whether they reached the disk is unknown.
            DiskAction::Sync { file } => {
                if let Some(file) = self.files.get_mut(&file) {
                    for (offset, bytes) in file.pending.drain(..) {
                        tear(&mut file.durable, offset, &bytes, rng);
                    }
                }
            }
            DiskAction::Settle { file } => {
                self.fail_at(DiskAction::Sync { file }, rng);
                if let Some(file) = self.files.get_mut(&file) {
                    file.forget();
                }
            }
            DiskAction::Reserve { .. } => self.left = 0,
            DiskAction::Create { file, of } => {
                let made = of.and_then(|of| self.kept.remove(&of)).unwrap_or_default();
                if rng.chance(0.5) {
                    self.files.insert(file, SimFile { entered: false, end: 0, ..made });
                }
            }
            _ => {}
        }
    }
    /// The disk as it is found after a power cut.
    pub fn power_cut(&self, outstanding: &[DiskOp], rng: &mut Rng) -> SimDisk {
        let mut disk = self.clone();
        // Operations under way may have been performed or not.
        for op in outstanding {
            let touched = file_of(&op.action).is_none_or(|file| disk.files.contains_key(&file));
            let creates = matches!(op.action, DiskAction::Create { .. });
            if touched && !creates && rng.chance(0.3) {
                if let DiskAction::Sync { .. } = op.action {
                    disk.fail_at(op.action.clone(), rng);
                } else {
                    disk.fail = None;
                    let _ = disk.perform(op.action.clone(), rng);
                }
            }
        }
        disk.begin_next_run();
        disk.files.retain(|_, file| file.entered || rng.chance(0.5));
        for file in disk.files.values_mut() {
            let mut pending = std::mem::take(&mut file.pending);
            // Pending writes reach the disk in any order.
            while !pending.is_empty() {
                let (offset, bytes) = pending.remove(rng.below(pending.len() as u64) as usize);
                tear(&mut file.durable, offset, &bytes, rng);
            }
            file.cache = file.durable.clone();
            file.entered = true;
        }
        disk
    }
    /// Kept files are of no use to the next run; the reserve is.
    fn begin_next_run(&mut self) {
        let reserved = self.kept.values().filter(|file| file.end == 0).map(|file| file.cache.len() as u64);
        self.left += reserved.sum::<u64>();
        self.kept.clear();
        self.numbers.clear();
        (self.count, self.fail) = (0, None);
    }
    /// The disk as the next process finds it after `kill -9`: nothing in the cache is lost.
    pub fn killed(&self) -> SimDisk {
        let mut disk = self.clone();
        disk.begin_next_run();
        disk
    }
    pub fn len(&self) -> u64 {
        self.files.values().chain(self.kept.values()).map(|f| f.cache.len() as u64).sum::<u64>() + self.left
    }
}

/// Writes all, some sectors, or none of the bytes; the rest reads as zeros or as before.
fn tear(file: &mut Vec<u8>, offset: u64, bytes: &[u8], rng: &mut Rng) {
    match rng.below(4) {
        0 => write_at(file, offset, bytes),
        1 => {}
        _ => {
            let (mut at, end) = (offset as usize, offset as usize + bytes.len());
            while at < end {
                let next = ((at / SECTOR + 1) * SECTOR).min(end);
                if rng.chance(0.5) {
                    write_at(file, at as u64, &bytes[at - offset as usize..next - offset as usize]);
                }
                at = next;
            }
        }
    }
}
