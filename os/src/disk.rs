//! Numbered files of a store: vectored writes, data synced together with its directory entry, reads into new memory,
//! files kept for reuse, and a lock against other processes.
//!
//! After [`DiskFiles::sync`] (or [`Syncing::run`], on another thread) returns, data and name of the file are on the
//! device; after [`DiskFiles::remove`] and [`DiskFiles::syncing_names`], a removed file stays removed. Both hold
//! through power loss, as far as the device is honest about flushes.

use crate::direct::{BLOCK, Direct, last_bytes};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice};
use std::os::unix::fs::{DirBuilderExt, FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Most slices per `pwritev` (IOV_MAX).
const SLICES_MAX: usize = 1024;
/// Most files kept open; others are reopened when needed.
const OPEN_MAX: usize = 64;
/// Suffix of file names.
const SUFFIX: &str = ".farlink";
/// Suffix of the names of files kept for reuse.
const KEPT: &str = ".kept";
/// Name of the file reserved for a full disk; it is kept for the next run, which may find the disk full.
const RESERVE: &str = "reserve.kept";
const LOCK: &str = "lock";

/// Files `NNNNNNNNNN.farlink` of one folder, locked against other processes.
#[derive(Debug)]
pub struct DiskFiles {
    entries: Arc<Entries>,
    /// Holds the lock until dropped; the kernel releases it however the process ends.
    _lock: File,
    open: BTreeMap<u32, Arc<File>>,
    /// Files written since their last sync; they stay open, so that no write error is missed.
    written: BTreeSet<u32>,
    /// Bytes allocated to each file that was created from a kept file.
    room: BTreeMap<u32, u64>,
    /// End of the last write to a file in `room`.
    end: Option<WriteEnd>,
    /// Number of the reserved file.
    reserved: Option<u32>,
    direct: Direct,
    /// Whether files kept by an earlier run were removed.
    tidy: bool,
}

/// End of a write, with the bytes that its last, incomplete block holds; the next direct write repeats them.
#[derive(Debug)]
struct WriteEnd {
    file: u32,
    offset: u64,
    bytes: Vec<u8>,
}

/// Directory entries of a folder, with the number of changes made to them, and the number of those that are durable.
#[derive(Debug)]
struct Entries {
    dir: PathBuf,
    folder: File,
    changes: AtomicU64,
    synced: AtomicU64,
}
impl Entries {
    /// Counts a change; call it after the change, or a concurrent sync would count it as durable.
    fn changed(&self) {
        self.changes.fetch_add(1, Ordering::Release);
    }
    fn sync(&self) -> io::Result<()> {
        let changes = self.changes.load(Ordering::Acquire);
        if self.synced.load(Ordering::Acquire) < changes {
            self.folder.sync_all()?;
            self.synced.fetch_max(changes, Ordering::AcqRel);
        }
        Ok(())
    }
    /// Whether the folder is still at its path.
    fn is_in_place(&self) -> io::Result<bool> {
        let (ours, there) = (self.folder.metadata()?, std::fs::metadata(&self.dir));
        Ok(there.is_ok_and(|there| (there.dev(), there.ino()) == (ours.dev(), ours.ino())))
    }
}

/// A pending sync of earlier writes and changes.
#[derive(Debug)]
pub struct Syncing {
    file: Option<(Arc<File>, PathBuf)>,
    entries: Arc<Entries>,
}
impl Syncing {
    /// Performs the sync.
    ///
    /// # Errors
    /// As for [`DiskFiles::sync`].
    pub fn run(self) -> io::Result<()> {
        let Some((file, path)) = self.file else { return self.entries.sync() };
        file.sync_data()?;
        self.entries.sync()?;
        if file.metadata()?.nlink() > 0 && self.entries.is_in_place()? {
            return Ok(());
        }
        let what = format!("{} was removed or moved while the node uses it", path.display());
        Err(io::Error::new(io::ErrorKind::NotFound, what))
    }
}

impl DiskFiles {
    /// Opens and locks the folder, creating it if absent.
    ///
    /// # Errors
    /// If the folder cannot be created or opened; `WouldBlock` if another process holds the lock.
    pub fn open(dir: &Path) -> io::Result<DiskFiles> {
        let doing = |what: &str| format!("{what} {}", dir.display());
        // Created for the owner only: bundles are private.
        make_folder(dir).map_err(|e| crate::context(e, &doing("making the store folder")))?;
        let folder = File::open(dir).map_err(|e| crate::context(e, &doing("opening the store folder")))?;
        let lock = open_regular(OpenOptions::new().write(true).create(true).truncate(false), &dir.join(LOCK))
            .map_err(|e| crate::context(e, &doing("opening the lock of the store folder")))?;
        rustix::fs::flock(&lock, rustix::fs::FlockOperation::NonBlockingLockExclusive).map_err(|e| {
            let error = io::Error::from(e);
            if error.kind() == io::ErrorKind::WouldBlock {
                let text = format!(
                    "the store {} is in use by another process\nhint: stop the other node, or give this one its \
                     own store folder",
                    dir.display()
                );
                return io::Error::new(io::ErrorKind::WouldBlock, text);
            }
            crate::context(error, &doing("locking the store folder"))
        })?;
        let direct = Direct::probe(&lock);
        // Directory entries of a killed run may not be durable: the first sync covers them.
        let (changes, synced) = (AtomicU64::new(1), AtomicU64::new(0));
        let files = DiskFiles {
            entries: Arc::new(Entries { dir: dir.to_path_buf(), folder, changes, synced }),
            _lock: lock,
            open: BTreeMap::new(),
            written: BTreeSet::new(),
            room: BTreeMap::new(),
            end: None,
            reserved: None,
            direct,
            tidy: false,
        };
        Ok(files)
    }
    /// Removes files that an earlier run kept for reuse, before the first change: a run that only reads removes
    /// nothing. The reserved file stays.
    fn remove_kept(&mut self) -> io::Result<()> {
        if self.tidy {
            return Ok(());
        }
        for entry in std::fs::read_dir(&self.entries.dir)? {
            let name = entry?.file_name();
            if name.to_str().and_then(|name| name.strip_suffix(KEPT)).is_some_and(|n| n.parse::<u32>().is_ok()) {
                std::fs::remove_file(self.entries.dir.join(name))?;
            }
        }
        self.tidy = true;
        Ok(())
    }
    /// Whether long writes use direct I/O, which some file systems do not support.
    pub fn is_direct(&self) -> bool {
        !self.direct.refused
    }
    /// Path of the folder.
    pub fn dir(&self) -> &Path {
        &self.entries.dir
    }
    /// Path of a file.
    pub fn path(&self, file: u32) -> PathBuf {
        self.entries.dir.join(format!("{file:010}{SUFFIX}"))
    }
    fn kept_path(&self, file: u32) -> PathBuf {
        if self.reserved == Some(file) {
            return self.entries.dir.join(RESERVE);
        }
        self.entries.dir.join(format!("{file:010}{KEPT}"))
    }
    fn file(&mut self, file: u32) -> io::Result<&Arc<File>> {
        if !self.open.contains_key(&file) {
            let opened = open_regular(OpenOptions::new().read(true).write(true), &self.path(file))?;
            self.hold(file, opened);
        }
        self.open.get(&file).ok_or_else(|| io::ErrorKind::NotFound.into())
    }
    fn hold(&mut self, file: u32, opened: File) {
        if self.open.len() >= OPEN_MAX
            && let Some(oldest) = self.open.keys().find(|other| !self.written.contains(other)).copied()
        {
            self.open.remove(&oldest);
        }
        self.open.insert(file, Arc::new(opened));
    }

    /// Numbers and lengths of all files, by ascending number.
    ///
    /// # Errors
    /// If the folder cannot be read.
    pub fn list(&self) -> io::Result<Vec<(u32, u64)>> {
        let mut files = Vec::new();
        for entry in std::fs::read_dir(&self.entries.dir)? {
            let entry = entry?;
            let name = entry.file_name();
            let number = name.to_str().and_then(|name| name.strip_suffix(SUFFIX)).and_then(|n| n.parse().ok());
            if let Some(number) = number {
                files.push((number, entry.metadata()?.len()));
            }
        }
        files.sort_unstable();
        Ok(files)
    }
    /// Creates a file, reusing the kept file `of` if there is one; returns the bytes allocated to it, 0 for a new file.
    /// Durable with the next [`DiskFiles::sync`].
    ///
    /// # Errors
    /// If the file exists, or there is no space.
    pub fn create(&mut self, file: u32, of: Option<u32>) -> io::Result<u64> {
        self.remove_kept()?;
        let path = self.path(file);
        let mut opening = OpenOptions::new();
        opening.read(true).write(true);
        if let Some(kept) = of.map(|of| self.kept_path(of)).filter(|kept| kept.exists() && !path.exists()) {
            self.reserved = self.reserved.filter(|reserved| of != Some(*reserved));
            let renamed = std::fs::rename(&kept, &path);
            self.entries.changed();
            let made = renamed.and_then(|()| open_regular(&opening, &path));
            if let Ok((made, len)) = made.and_then(|made| made.metadata().map(|data| (made, data.len()))) {
                self.hold(file, made);
                self.room.insert(file, len);
                return Ok(len);
            }
            let _ = std::fs::remove_file(&kept);
        }
        let made = opening.create_new(true).open(path)?;
        self.entries.changed();
        self.hold(file, made);
        Ok(0)
    }
    /// Writes the slices in sequence at `offset`; the call may change the slices.
    ///
    /// # Errors
    /// System call errors; some of the bytes may have been written.
    pub fn write(&mut self, file: u32, offset: u64, slices: &mut [IoSlice<'_>]) -> io::Result<()> {
        self.written.insert(file);
        let end = self.end.take().filter(|end| end.file == file && end.offset == offset);
        let room = self.room.get(&file).copied().unwrap_or(0);
        let before = if offset.is_multiple_of(BLOCK as u64) { Some(Vec::new()) } else { end.map(|end| end.bytes) };
        let to = offset + slices.iter().map(|slice| slice.len() as u64).sum::<u64>();
        match before {
            Some(before) if to.next_multiple_of(BLOCK as u64) <= room => {
                self.write_over(file, offset, &before, slices, to)
            }
            _ => self.write_on(file, offset, slices),
        }
    }
    /// Writes within the allocated bytes of a reused file: whole blocks, the first one completed by `before`, the last
    /// one by zeros, so that nothing needs to be read first.
    fn write_over(&mut self, file: u32, offset: u64, before: &[u8], slices: &[IoSlice<'_>], to: u64) -> io::Result<()> {
        let block = BLOCK as u64;
        let zeros = [0; BLOCK];
        let pad = (to.next_multiple_of(block) - to) as usize;
        let mut whole = Vec::with_capacity(slices.len() + 2);
        whole.push(IoSlice::new(before));
        whole.extend_from_slice(slices);
        let bytes = last_bytes(&whole, (to % block) as usize);
        whole.push(IoSlice::new(&zeros[..pad]));
        let from = offset - before.len() as u64;
        if self.direct.refused {
            self.write_on(file, from, &mut whole)?;
        } else {
            let target = self.file(file)?.clone();
            self.direct.write(&target, from, &mut whole)?;
        }
        self.end = Some(WriteEnd { file, offset: to, bytes });
        Ok(())
    }
    fn write_on(&mut self, file: u32, mut offset: u64, mut slices: &mut [IoSlice<'_>]) -> io::Result<()> {
        if self.direct.is_for(slices.iter().map(|slice| slice.len()).sum()) {
            self.file(file)?;
            let target = self.open.get(&file).ok_or(io::ErrorKind::NotFound)?;
            return self.direct.write(target, offset, slices);
        }
        let target = self.file(file)?;
        IoSlice::advance_slices(&mut slices, 0);
        while !slices.is_empty() {
            let n = match rustix::io::pwritev(target, &slices[..slices.len().min(SLICES_MAX)], offset) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => n,
                Err(rustix::io::Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            };
            offset += n as u64;
            IoSlice::advance_slices(&mut slices, n);
        }
        Ok(())
    }
    /// Makes everything written to the file and its directory entry durable.
    ///
    /// # Errors
    /// If some of the data may not be durable, or the file or folder was removed, as an unlinked file vanishes with
    /// this process. A second sync proves nothing: write the data again, to another file.
    pub fn sync(&mut self, file: u32) -> io::Result<()> {
        self.syncing(file)?.run()
    }
    /// Prepares a sync of everything written so far, for another thread.
    ///
    /// # Errors
    /// If the file cannot be opened.
    pub fn syncing(&mut self, file: u32) -> io::Result<Syncing> {
        let opened = self.file(file)?.clone();
        // The pending sync holds the file open, so that it sees write errors.
        self.written.remove(&file);
        Ok(Syncing { file: Some((opened, self.path(file))), entries: self.entries.clone() })
    }
    /// Syncs data of an earlier run and drops it from the page cache, so that later reads come from the device. After a
    /// failed sync, the cache may hold clean pages that never reached the device.
    ///
    /// # Errors
    /// As for [`DiskFiles::sync`]; the cache is dropped in any case.
    pub fn settle(&mut self, file: u32) -> io::Result<()> {
        let synced = self.sync(file);
        rustix::fs::fadvise(self.file(file)?, 0, None, rustix::fs::Advice::DontNeed)?;
        synced
    }
    /// Reads `len` bytes from `offset`, or fewer at the end of the file.
    ///
    /// # Errors
    /// System call errors.
    pub fn read(&mut self, file: u32, offset: u64, len: u64) -> io::Result<Bytes> {
        let source = self.file(file)?;
        let end = source.metadata()?.len().min(offset.saturating_add(len));
        let mut bytes = vec![0; usize::try_from(end.saturating_sub(offset)).unwrap_or(0)];
        source.read_exact_at(&mut bytes, offset)?;
        Ok(bytes.into())
    }
    /// Truncates the file to `len` bytes.
    ///
    /// # Errors
    /// System call errors.
    pub fn truncate(&mut self, file: u32, len: u64) -> io::Result<()> {
        self.written.insert(file);
        self.file(file)?.set_len(len)
    }
    /// With `keep`, keeps the file for reuse by [`DiskFiles::create`] and returns its length. Otherwise, or if that
    /// fails, deletes the file, or a kept file of this number, and returns `None`. Durable once
    /// [`DiskFiles::syncing_names`] has run. A missing file is no error.
    ///
    /// # Errors
    /// If the file may reappear.
    pub fn remove(&mut self, file: u32, keep: bool) -> io::Result<Option<u64>> {
        self.remove_kept()?;
        self.open.remove(&file);
        self.written.remove(&file);
        self.room.remove(&file);
        let (path, kept) = (self.path(file), self.kept_path(file));
        if keep && std::fs::rename(&path, &kept).is_ok() {
            self.entries.changed();
            if let Ok(data) = std::fs::metadata(&kept) {
                return Ok(Some(data.len()));
            }
        }
        for path in [path, kept] {
            match std::fs::remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => self.entries.changed(),
            }
        }
        Ok(None)
    }
    /// Reserves a kept file of this many bytes, all written, for [`DiskFiles::create`] on a full disk. Reuses the
    /// reserved file of an earlier run, which may remain shorter if the disk is full. Returns its length.
    ///
    /// # Errors
    /// System call errors; then no file is reserved. `AlreadyExists` if this run has reserved one.
    pub fn reserve(&mut self, file: u32, bytes: u64) -> io::Result<u64> {
        self.remove_kept()?;
        let path = self.entries.dir.join(RESERVE);
        if self.reserved.is_some_and(|reserved| self.kept_path(reserved).exists()) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let made = open_regular(OpenOptions::new().write(true).create(true).truncate(false), &path)?;
        self.entries.changed();
        // Bytes written by an earlier run are not written again: on some file systems that needs space.
        let before = made.metadata()?.len().min(bytes) / BLOCK as u64 * BLOCK as u64;
        let filled = made
            .set_len(before)
            .and_then(|()| fill(&made, before, bytes))
            .and_then(|()| made.sync_data())
            .and_then(|()| self.entries.sync());
        let len = match filled {
            Ok(()) => bytes,
            Err(_) if before > 0 && made.set_len(before).is_ok() => before,
            Err(why) => {
                let _ = std::fs::remove_file(&path);
                return Err(why);
            }
        };
        self.reserved = Some(file);
        Ok(len)
    }
    /// Prepares a sync of the directory entries.
    pub fn syncing_names(&self) -> Syncing {
        Syncing { file: None, entries: self.entries.clone() }
    }
}

/// Opens a regular file and refuses anything else: opening or reading a pipe might block for ever.
///
/// # Errors
/// `InvalidInput` with the actual type, or as for [`OpenOptions::open`].
pub fn open_regular(opening: &OpenOptions, path: &Path) -> io::Result<File> {
    use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
    let opened = opening.clone().custom_flags(OFlags::NONBLOCK.bits() as i32).open(path);
    // ENXIO: a pipe without a reader, or a socket.
    let is_none = |why: &io::Error| why.raw_os_error() == Some(rustix::io::Errno::NXIO.raw_os_error());
    let kind = match &opened {
        Err(why) if !is_none(why) => return opened,
        Err(_) => path.metadata()?.file_type(),
        Ok(file) => file.metadata()?.file_type(),
    };
    let what = match kind {
        _ if kind.is_file() => {
            let file = opened?;
            fcntl_setfl(&file, fcntl_getfl(&file)? - OFlags::NONBLOCK)?;
            return Ok(file);
        }
        _ if kind.is_fifo() => "a named pipe",
        _ if kind.is_socket() => "a socket",
        _ if kind.is_dir() => "a folder",
        _ => "a device",
    };
    let text = format!("it is {what}, not a regular file\nhint: move it away; a store consists of regular files");
    Err(io::Error::new(io::ErrorKind::InvalidInput, text))
}

/// Opens a regular file for writing, or makes one; refuses anything else, symbolic links included.
///
/// # Errors
/// As for [`OpenOptions::open`]; `InvalidInput` if it is no regular file.
pub fn open_own(path: &Path) -> io::Result<File> {
    use rustix::fs::OFlags;
    let flags = OFlags::NONBLOCK | OFlags::NOFOLLOW;
    let mut opening = OpenOptions::new();
    let file = opening.write(true).create(true).truncate(false).custom_flags(flags.bits() as i32).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file"));
    }
    Ok(file)
}

/// Bytes that the files of a folder may take: those they take now, and those free on their disk. Also the largest file
/// size permitted to this process. The folder need not exist.
///
/// # Errors
/// System call errors.
pub fn room(dir: &Path) -> io::Result<(u64, u64)> {
    let absolute = std::path::absolute(dir)?;
    let there = absolute.ancestors().find(|folder| folder.exists()).unwrap_or(Path::new("/"));
    let disk = rustix::fs::statvfs(there)?;
    let mut room = free(disk.f_blocks, disk.f_bavail, disk.f_frsize);
    if there == absolute {
        for entry in std::fs::read_dir(dir)? {
            room = room.saturating_add(entry?.metadata().map_or(0, |data| data.len()));
        }
    }
    let longest = rustix::process::getrlimit(rustix::process::Resource::Fsize).current;
    Ok((room, longest.unwrap_or(u64::MAX)))
}

/// Free bytes and size of the disk of a folder, which need not exist; `None` if the disk does not tell.
pub fn space(dir: &Path) -> Option<(u64, u64)> {
    let absolute = std::path::absolute(dir).ok()?;
    let disk = rustix::fs::statvfs(absolute.ancestors().find(|folder| folder.exists())?).ok()?;
    let bytes = |blocks: u64| blocks.saturating_mul(disk.f_frsize);
    (disk.f_blocks > 0).then(|| (bytes(disk.f_bavail), bytes(disk.f_blocks)))
}

/// Checks that this user could write a file, or make it; where `with_folders`, also the folders it needs.
///
/// # Errors
/// If it, or the folder that would hold it, is missing, no folder, or not this user's to write.
pub fn could_write(path: &Path, with_folders: bool) -> io::Result<()> {
    use rustix::fs::{Access, access};
    let path = std::path::absolute(path)?;
    let within = Access::WRITE_OK | Access::EXEC_OK;
    // What this user may not look into is no missing file, but what lies below a file is one.
    let exists = |path: &Path| match path.try_exists() {
        Err(why) if why.kind() == io::ErrorKind::NotADirectory => Ok(false),
        found => found,
    };
    if exists(&path)? {
        return Ok(access(&path, if path.is_dir() { within } else { Access::WRITE_OK })?);
    }
    for folder in path.ancestors().skip(1) {
        match exists(folder)? {
            true if folder.is_dir() => return Ok(access(folder, within)?),
            true => return Err(io::ErrorKind::NotADirectory.into()),
            false if with_folders => {}
            false => break,
        }
    }
    Err(io::Error::new(io::ErrorKind::NotFound, "its folder does not exist"))
}

/// Free bytes of a disk. One that reports no blocks at all, as some in memory do, counts as unlimited.
fn free(blocks: u64, available: u64, block: u64) -> u64 {
    if blocks == 0 { u64::MAX } else { available.saturating_mul(block) }
}

/// Fills a file with zeros up to `bytes`, if there is space for all of them. Allocates first where the file system
/// supports it, so that a failed attempt does not fill the disk for others.
fn fill(file: &File, from: u64, bytes: u64) -> io::Result<()> {
    if from == bytes {
        return Ok(());
    }
    use rustix::io::Errno;
    match rustix::fs::fallocate(file, rustix::fs::FallocateFlags::empty(), from, bytes - from) {
        Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    let zeros = vec![0; 64 * 1024];
    (from..bytes).step_by(zeros.len()).try_for_each(|at| {
        let len = (bytes - at).min(zeros.len() as u64) as usize;
        file.write_all_at(&zeros[..len], at)
    })
}

/// Creates a folder and its missing parents, with durable directory entries.
fn make_folder(dir: &Path) -> io::Result<()> {
    let absolute = std::path::absolute(dir)?;
    let mut above: Vec<&Path> = Vec::new();
    for folder in absolute.ancestors().skip(1) {
        above.push(folder);
        if folder.exists() {
            break;
        }
    }
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    above.into_iter().try_for_each(|folder| match File::open(folder).and_then(|folder| folder.sync_all()) {
        // A folder with execute permission only cannot be opened for a sync.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        other => other,
    })
}

/// Whether the error means that the disk, or the user's quota, is full.
pub fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Folder that is removed after the test.
    struct TestFolder(PathBuf);
    impl TestFolder {
        fn new(name: &str) -> TestFolder {
            let dir = std::env::temp_dir().join(format!("farlink-disk-{name}-{}", std::process::id()));
            let _ = std::fs::remove_dir_all(&dir);
            TestFolder(dir)
        }
    }
    impl Drop for TestFolder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }
    fn write(files: &mut DiskFiles, file: u32, offset: u64, parts: &[&[u8]]) -> io::Result<()> {
        files.write(file, offset, &mut parts.iter().map(|p| IoSlice::new(p)).collect::<Vec<_>>())
    }

    #[test]
    fn files_are_written_listed_and_removed() {
        let folder = TestFolder::new("plain");
        let mut files = DiskFiles::open(&folder.0).unwrap();
        files.create(7, None).unwrap();
        assert!(files.create(7, None).is_err(), "never over what exists");
        write(&mut files, 7, 0, &[b"hello ", b"", b"disk"]).unwrap();
        write(&mut files, 7, 6, &[b"D"]).unwrap();
        files.sync(7).unwrap();
        assert_eq!(files.read(7, 0, 100).unwrap(), &b"hello Disk"[..]);
        assert_eq!(files.read(7, 6, 2).unwrap(), &b"Di"[..]);
        assert_eq!(files.read(7, 60, 2).unwrap().len(), 0);
        files.create(3, None).unwrap();
        files.truncate(7, 4).unwrap();
        std::fs::write(folder.0.join("notes.txt"), "not ours").unwrap();
        assert_eq!(files.list().unwrap(), [(3, 0), (7, 4)]);
        assert_eq!(files.remove(7, false).unwrap(), None);
        assert_eq!(files.remove(7, true).unwrap(), None, "there is none");
        assert_eq!(files.list().unwrap(), [(3, 0)]);
        assert!(files.read(7, 0, 1).is_err());
    }

    #[test]
    fn reserve_is_hidden_until_renamed() {
        let folder = TestFolder::new("reserved");
        let mut files = DiskFiles::open(&folder.0).unwrap();
        files.reserve(5, 100_000).unwrap();
        let kept = files.kept_path(5);
        let blocks = std::fs::metadata(&kept).unwrap().blocks();
        assert!(blocks * 512 >= 100_000 && files.list().unwrap().is_empty(), "{blocks} blocks");
        assert!(files.reserve(5, 10).is_err(), "not twice");
        // The next run reuses the reserved file, shortened or extended: it may find the disk full.
        for wanted in [100_000, 30_000, 100_000] {
            let inode = std::fs::metadata(&kept).unwrap().ino();
            drop(files);
            files = DiskFiles::open(&folder.0).unwrap();
            files.reserve(5, wanted).unwrap();
            let data = std::fs::metadata(&kept).unwrap();
            assert_eq!((data.ino(), data.len()), (inode, wanted));
        }
        drop(files);
        files = DiskFiles::open(&folder.0).unwrap();
        let left = files.reserve(5, 1 << 62).unwrap();
        assert_eq!(
            (left, std::fs::metadata(&kept).unwrap().len()),
            (98_304, 98_304),
            "more is not to be had: they stay"
        );
        files.remove(5, false).unwrap();
        assert!(!kept.exists(), "let go");
        files.reserve(5, 100_000).unwrap();
        assert_eq!((files.create(6, Some(5)).unwrap(), kept.exists()), (100_000, false));
        assert_eq!(files.read(6, 99_990, 100).unwrap(), &[0; 10][..]);
        assert!(files.reserve(7, 1 << 62).is_err() && !files.kept_path(7).exists(), "longer than any file");
        let (before, longest) = room(&folder.0).unwrap();
        assert!(before >= 100_000 && longest >= 100_000, "{before} {longest}");
        assert!(room(&folder.0.join("not/there")).unwrap().0 > 0);
        assert_eq!((free(0, 0, 4096), free(9, 0, 4096), free(9, 2, 4096)), (u64::MAX, 0, 8192));
    }

    #[test]
    fn unlinked_file_is_not_durable() {
        let folder = TestFolder::new("gone");
        let mut files = DiskFiles::open(&folder.0).unwrap();
        let private = std::fs::metadata(&folder.0).unwrap().mode() & 0o777;
        assert_eq!(private, 0o700);
        for file in [1, 2, 3] {
            files.create(file, None).unwrap();
            write(&mut files, file, 0, &[b"kept"]).unwrap();
            files.sync(file).unwrap();
        }
        std::fs::remove_file(files.path(1)).unwrap();
        write(&mut files, 1, 4, &[b"lost"]).unwrap();
        assert_eq!(files.sync(1).unwrap_err().kind(), io::ErrorKind::NotFound);
        let aside = folder.0.with_extension("aside");
        std::fs::rename(&folder.0, &aside).unwrap();
        write(&mut files, 2, 4, &[b"elsewhere"]).unwrap();
        assert!(files.sync(2).unwrap_err().to_string().contains("was removed or moved"));
        std::fs::rename(&aside, &folder.0).unwrap();
        write(&mut files, 2, 4, &[b"back"]).unwrap();
        files.sync(2).unwrap();
        std::fs::remove_dir_all(&folder.0).unwrap();
        std::fs::create_dir(&folder.0).unwrap();
        write(&mut files, 3, 4, &[b"another folder"]).unwrap();
        assert!(files.sync(3).is_err() && files.create(4, None).is_ok() && files.sync(4).is_err());
    }

    #[test]
    fn irregular_files_are_refused_without_waiting() {
        let folder = TestFolder::new("pipes");
        let mut files = DiskFiles::open(&folder.0).unwrap();
        for (n, path) in [files.path(1), folder.0.join(RESERVE)].into_iter().enumerate() {
            let made = std::process::Command::new("mkfifo").arg(&path).status().unwrap();
            assert!(made.success(), "{n}");
        }
        let _socket = std::os::unix::net::UnixListener::bind(files.path(2)).unwrap();
        for (file, what) in [(1, "a named pipe"), (2, "a socket")] {
            let why = files.read(file, 0, 1).unwrap_err();
            let said = why.to_string();
            assert!(said.contains(&format!("it is {what}, not a regular file\nhint: ")), "{said}");
        }
        for (path, what) in [(&folder.0, "a folder"), (&PathBuf::from("/dev/null"), "a device")] {
            let why = open_regular(OpenOptions::new().read(true), path).unwrap_err();
            assert!(why.kind() == io::ErrorKind::InvalidInput && why.to_string().contains(what), "{why}");
        }
        assert_eq!(files.reserve(9, 4096).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        let missing = open_regular(OpenOptions::new().read(true), &folder.0.join("none")).unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
        drop(files);
        std::fs::remove_file(folder.0.join(LOCK)).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(folder.0.join(LOCK)).status().unwrap().success());
        let refused = DiskFiles::open(&folder.0).unwrap_err().to_string();
        assert!(refused.contains("lock of the store folder") && refused.contains("a named pipe"), "{refused}");
    }

    #[test]
    fn sync_covers_data_and_earlier_names() {
        let folder = TestFolder::new("names");
        let mut files = DiskFiles::open(&folder.0).unwrap();
        let unsure = |files: &DiskFiles| {
            let Entries { changes, synced, .. } = &*files.entries;
            synced.load(Ordering::Relaxed) < changes.load(Ordering::Relaxed)
        };
        assert!(unsure(&files), "what a run that was killed left");
        for (file, of) in [(1, None), (2, Some(1))] {
            files.create(file, of).unwrap();
            write(&mut files, file, 0, &[b"kept"]).unwrap();
            assert!(unsure(&files), "file {file} was made");
            files.sync(file).unwrap();
            assert!(!unsure(&files));
            files.remove(file, file == 1).unwrap();
            assert!(unsure(&files), "file {file} was removed");
            files.syncing_names().run().unwrap();
            assert!(!unsure(&files));
        }
        files.reserve(9, 10_000).unwrap();
        assert!(!unsure(&files), "what is kept for a full disk has its name");
        // /dev/null has a name but cannot be synced.
        let null = Arc::new(File::open("/dev/null").unwrap());
        let syncing = Syncing { file: Some((null, "/dev/null".into())), entries: files.entries.clone() };
        assert_eq!(syncing.run().unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }

    #[test]
    fn replaced_file_may_shrink_or_grow() {
        const LEN: usize = 300_000;
        let folder = TestFolder::new("kept");
        let mut files = DiskFiles::open(&folder.0).unwrap();
        for (file, steps) in [&[5000, 70_000, 1, 4095, 3, 100_000][..], &[4096, 1, 8191], &[1; 50], &[299_000, 2000, 7]]
            .into_iter()
            .enumerate()
        {
            let (old, new) = (2 * file as u32 + 1, 2 * file as u32 + 2);
            files.create(old, None).unwrap();
            write(&mut files, old, 0, &[&[9; LEN]]).unwrap();
            files.sync(old).unwrap();
            assert_eq!(files.remove(old, true).unwrap(), Some(LEN as u64));
            assert!(files.read(old, 0, 1).is_err() && files.list().unwrap().iter().all(|(file, _)| *file != old));
            assert_eq!(files.create(new, Some(old)).unwrap(), LEN as u64);
            let mut written = Vec::new();
            for (n, len) in steps.iter().enumerate() {
                let part = vec![n as u8; *len];
                let (first, second) = part.split_at(len / 3);
                write(&mut files, new, written.len() as u64, &[first, second]).unwrap();
                written.extend_from_slice(&part);
                files.sync(new).unwrap();
                let found = files.read(new, 0, 1 << 20).unwrap();
                assert!(found[..written.len()] == written, "{steps:?}, {n}");
                let rest = &found[written.len()..];
                assert!(rest.iter().all(|byte| [0, 9].contains(byte)), "{steps:?}, {n}");
                assert_eq!(found.len(), LEN.max(written.len()), "no longer than what was written");
            }
        }
        // Only for a write that continues the previous one are the preceding bytes of its block known; this write does
        // not continue it.
        write(&mut files, 2, 10, &[b"elsewhere"]).unwrap();
        assert_eq!(files.read(2, 9, 11).unwrap(), &b"\0elsewhere\0"[..]);
        files.remove(2, true).unwrap();
        files.remove(2, false).unwrap();
        assert_eq!(files.create(2, Some(2)).unwrap(), 0, "what is dropped is not kept");
        files.remove(4, true).unwrap();
        drop(files);
        let mut files = DiskFiles::open(&folder.0).unwrap();
        assert_eq!(files.create(9, Some(4)).unwrap(), 0, "what an earlier run kept is no more");
        assert!(!std::fs::read_dir(&folder.0).unwrap().any(|f| f.unwrap().path().extension() == Some("kept".as_ref())));
    }

    #[test]
    fn sync_runs_beside_writes() {
        let folder = TestFolder::new("threads");
        let mut files = DiskFiles::open(&folder.0).unwrap();
        files.create(1, None).unwrap();
        for n in 0..20u64 {
            write(&mut files, 1, n * 5000, &[&[n as u8; 5000]]).unwrap();
            let syncing = files.syncing(1).unwrap();
            let thread = std::thread::spawn(move || syncing.run());
            write(&mut files, 1, 200_000 + n * 5000, &[&[n as u8; 5000]]).unwrap();
            thread.join().unwrap().unwrap();
        }
        let syncing = files.syncing(1).unwrap();
        std::fs::remove_file(files.path(1)).unwrap();
        assert_eq!(syncing.run().unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    /// Whether the beginning of the file is in the page cache; `None` if the file system does not report it.
    fn is_cached(path: &Path) -> Option<bool> {
        let (file, mut byte) = (File::open(path).unwrap(), [0; 1]);
        let read =
            rustix::io::preadv2(&file, &mut [io::IoSliceMut::new(&mut byte)], 0, rustix::io::ReadWriteFlags::NOWAIT);
        match read {
            Ok(_) => Some(true),
            Err(rustix::io::Errno::AGAIN) => Some(false),
            Err(_) => None,
        }
    }

    #[test]
    fn settled_bytes_leave_page_cache() {
        const TMPFS: u64 = 0x0102_1994;
        let folder = TestFolder::new("settled");
        let mut files = DiskFiles::open(&folder.0).unwrap();
        files.create(1, None).unwrap();
        write(&mut files, 1, 0, &[&[7; 5000]]).unwrap();
        let path = files.path(1);
        let cached = is_cached(&path);
        files.settle(1).unwrap();
        if cached == Some(true) && rustix::fs::statfs(&path).unwrap().f_type as u64 != TMPFS {
            assert_eq!(is_cached(&path), Some(false));
        }
        assert_eq!(files.read(1, 0, 1 << 20).unwrap(), [7; 5000][..]);
        std::fs::remove_file(path).unwrap();
        assert_eq!(files.settle(1).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!(files.settle(2).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn slices_beyond_iov_max_are_written() {
        let folder = TestFolder::new("slices");
        let mut files = DiskFiles::open(&folder.0).unwrap();
        files.create(1, None).unwrap();
        let pieces: Vec<[u8; 3]> = (0..3000u32).map(|n| [n as u8, (n >> 8) as u8, 7]).collect();
        let slices: Vec<&[u8]> = pieces.iter().map(|p| &p[..]).collect();
        write(&mut files, 1, 10, &slices).unwrap();
        assert_eq!(files.read(1, 10, 1 << 20).unwrap(), pieces.concat());
    }

    #[test]
    fn more_files_than_open_limit_work() {
        let folder = TestFolder::new("many");
        let mut files = DiskFiles::open(&folder.0).unwrap();
        for file in 1..=200 {
            files.create(file, None).unwrap();
            write(&mut files, file, 0, &[&file.to_le_bytes()]).unwrap();
            files.sync(file).unwrap();
        }
        for file in 1..=200 {
            assert_eq!(files.read(file, 0, 4).unwrap(), &file.to_le_bytes()[..]);
        }
        assert!(files.open.len() <= OPEN_MAX);
    }

    #[test]
    fn store_lock_excludes_other_nodes() {
        let folder = TestFolder::new("lock");
        let first = DiskFiles::open(&folder.0).unwrap();
        let refused = DiskFiles::open(&folder.0).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::WouldBlock);
        assert!(refused.to_string().contains("hint:"), "{refused}");
        drop(first);
        DiskFiles::open(&folder.0).unwrap();
    }

    #[test]
    fn full_device_is_recognized() {
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let error = rustix::io::pwritev(&full, &[IoSlice::new(b"x")], 0).map_err(io::Error::from).unwrap_err();
        assert!(is_full(&error));
        assert!(!is_full(&io::Error::other("x")));
    }
}
