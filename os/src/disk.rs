//! The numbered files of a store: vectored writes, data made durable with its directory entry,
//! reads into fresh memory, one process at a time.
//!
//! What [`DiskFiles::sync`] returned from is on the device, the file's name included; what
//! [`DiskFiles::remove`] returned from stays removed. Both hold through power loss as far as the
//! device keeps its promises.

use crate::direct::Direct;
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Slices per `pwritev` (IOV_MAX).
const SLICES_MAX: usize = 1024;
/// Files held open; others are opened again when needed.
const OPEN_MAX: usize = 64;
/// Every file's name ends so.
const SUFFIX: &str = ".farlink";
const LOCK: &str = "lock";

/// The files `NNNNNNNNNN.farlink` of one folder, locked against other processes.
#[derive(Debug)]
pub struct DiskFiles {
    dir: PathBuf,
    folder: File,
    /// Holds the lock until dropped; the kernel frees it however the process ends.
    _lock: File,
    open: BTreeMap<u32, File>,
    /// Files written since their last sync; they stay open so that no error is missed.
    written: BTreeSet<u32>,
    /// Directory entries may not be durable: at first, those of a run that was killed.
    entries_changed: bool,
    direct: Direct,
}

impl DiskFiles {
    /// Opens the folder, which is made if absent, and locks it.
    ///
    /// # Errors
    /// When it cannot be made or opened; `WouldBlock` when another process has it.
    pub fn open(dir: &Path) -> io::Result<DiskFiles> {
        let doing = |what: &str| format!("{what} {}", dir.display());
        // What others sent is nobody's business on this machine.
        make_folder(dir).map_err(|e| crate::context(e, &doing("making the store folder")))?;
        let folder = File::open(dir).map_err(|e| crate::context(e, &doing("opening the store folder")))?;
        let lock = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .open(dir.join(LOCK))
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
        Ok(DiskFiles {
            dir: dir.to_path_buf(),
            folder,
            _lock: lock,
            open: BTreeMap::new(),
            written: BTreeSet::new(),
            entries_changed: true,
            direct,
        })
    }
    /// Whether long writes go around the page cache; some file systems do not do it.
    pub fn is_direct(&self) -> bool {
        !self.direct.refused
    }
    /// The folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }
    /// Where a file is.
    pub fn path(&self, file: u32) -> PathBuf {
        self.dir.join(format!("{file:010}{SUFFIX}"))
    }
    fn file(&mut self, file: u32) -> io::Result<&File> {
        if !self.open.contains_key(&file) {
            let opened = OpenOptions::new().read(true).write(true).open(self.path(file))?;
            self.keep(file, opened);
        }
        self.open.get(&file).ok_or_else(|| io::ErrorKind::NotFound.into())
    }
    fn keep(&mut self, file: u32, opened: File) {
        if self.open.len() >= OPEN_MAX
            && let Some(oldest) = self.open.keys().find(|other| !self.written.contains(other)).copied()
        {
            self.open.remove(&oldest);
        }
        self.open.insert(file, opened);
    }

    /// Numbers and lengths of all files, in ascending order.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn list(&self) -> io::Result<Vec<(u32, u64)>> {
        let mut files = Vec::new();
        for entry in std::fs::read_dir(&self.dir)? {
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
    /// Makes an empty file; durable with the next [`DiskFiles::sync`].
    ///
    /// # Errors
    /// When it exists, or there is no space for it.
    pub fn create(&mut self, file: u32) -> io::Result<()> {
        let made = OpenOptions::new().read(true).write(true).create_new(true).open(self.path(file))?;
        self.entries_changed = true;
        self.keep(file, made);
        Ok(())
    }
    /// Writes the slices end to end at `offset`. They are advanced over what was written.
    ///
    /// # Errors
    /// What the kernel says; some of the bytes may have been written.
    pub fn write(&mut self, file: u32, mut offset: u64, mut slices: &mut [IoSlice<'_>]) -> io::Result<()> {
        self.written.insert(file);
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
    /// Makes everything written to the file, and its directory entry, durable.
    ///
    /// # Errors
    /// When it is unknown what of it is durable, or the file or the folder was removed meanwhile: what
    /// has no name any more goes with this process. Syncing once more proves nothing: write it again,
    /// elsewhere.
    pub fn sync(&mut self, file: u32) -> io::Result<()> {
        self.file(file)?.sync_data()?;
        self.sync_entries()?;
        let named = self.file(file)?.metadata()?.nlink() > 0;
        if !named || !self.is_in_place()? {
            self.open.remove(&file);
            self.written.remove(&file);
            let what = format!("{} was removed or moved while the node uses it", self.path(file).display());
            return Err(io::Error::new(io::ErrorKind::NotFound, what));
        }
        self.written.remove(&file);
        Ok(())
    }
    /// Whether the folder is still where it was.
    fn is_in_place(&self) -> io::Result<bool> {
        let (ours, there) = (self.folder.metadata()?, std::fs::metadata(&self.dir));
        Ok(there.is_ok_and(|there| (there.dev(), there.ino()) == (ours.dev(), ours.ino())))
    }
    fn sync_entries(&mut self) -> io::Result<()> {
        if self.entries_changed {
            self.folder.sync_all()?;
            self.entries_changed = false;
        }
        Ok(())
    }
    /// Reads up to `len` bytes from `offset`; fewer at the end of the file.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn read(&mut self, file: u32, offset: u64, len: u64) -> io::Result<Bytes> {
        let source = self.file(file)?;
        let end = source.metadata()?.len().min(offset.saturating_add(len));
        let mut bytes = vec![0; usize::try_from(end.saturating_sub(offset)).unwrap_or(0)];
        source.read_exact_at(&mut bytes, offset)?;
        Ok(bytes.into())
    }
    /// Cuts the file to `len` bytes.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn truncate(&mut self, file: u32, len: u64) -> io::Result<()> {
        self.written.insert(file);
        self.file(file)?.set_len(len)
    }
    /// Deletes the file for good; one that does not exist is deleted already.
    ///
    /// # Errors
    /// When it may come back.
    pub fn remove(&mut self, file: u32) -> io::Result<()> {
        self.open.remove(&file);
        self.written.remove(&file);
        match std::fs::remove_file(self.path(file)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => self.entries_changed = true,
        }
        self.sync_entries()
    }
}

/// Makes a folder and those above it, as far as they are absent, their names durable.
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
        // Nobody can sync a folder that may be entered and not read.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        other => other,
    })
}

/// Whether the error says that there is no space (or none left to this user).
pub fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder that goes with the test.
    struct Folder(PathBuf);
    impl Folder {
        fn new(name: &str) -> Folder {
            let dir = std::env::temp_dir().join(format!("farlink-disk-{name}-{}", std::process::id()));
            let _ = std::fs::remove_dir_all(&dir);
            Folder(dir)
        }
    }
    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }
    fn write(files: &mut DiskFiles, file: u32, offset: u64, parts: &[&[u8]]) -> io::Result<()> {
        files.write(file, offset, &mut parts.iter().map(|p| IoSlice::new(p)).collect::<Vec<_>>())
    }

    #[test]
    fn what_is_written_is_read_listed_and_removed() {
        let folder = Folder::new("plain");
        let mut files = DiskFiles::open(&folder.0).unwrap();
        files.create(7).unwrap();
        assert!(files.create(7).is_err(), "never over what exists");
        write(&mut files, 7, 0, &[b"hello ", b"", b"disk"]).unwrap();
        write(&mut files, 7, 6, &[b"D"]).unwrap();
        files.sync(7).unwrap();
        assert_eq!(files.read(7, 0, 100).unwrap(), &b"hello Disk"[..]);
        assert_eq!(files.read(7, 6, 2).unwrap(), &b"Di"[..]);
        assert_eq!(files.read(7, 60, 2).unwrap().len(), 0);
        files.create(3).unwrap();
        files.truncate(7, 4).unwrap();
        std::fs::write(folder.0.join("notes.txt"), "not ours").unwrap();
        assert_eq!(files.list().unwrap(), [(3, 0), (7, 4)]);
        files.remove(7).unwrap();
        files.remove(7).unwrap();
        assert_eq!(files.list().unwrap(), [(3, 0)]);
        assert!(files.read(7, 0, 1).is_err());
    }

    #[test]
    fn what_has_no_name_any_more_is_not_durable() {
        let folder = Folder::new("gone");
        let mut files = DiskFiles::open(&folder.0).unwrap();
        let private = std::fs::metadata(&folder.0).unwrap().mode() & 0o777;
        assert_eq!(private, 0o700);
        for file in [1, 2, 3] {
            files.create(file).unwrap();
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
        assert!(files.sync(3).is_err() && files.create(4).is_ok() && files.sync(4).is_err());
    }

    #[test]
    fn more_slices_than_one_call_takes_are_written_whole() {
        let folder = Folder::new("slices");
        let mut files = DiskFiles::open(&folder.0).unwrap();
        files.create(1).unwrap();
        let pieces: Vec<[u8; 3]> = (0..3000u32).map(|n| [n as u8, (n >> 8) as u8, 7]).collect();
        let slices: Vec<&[u8]> = pieces.iter().map(|p| &p[..]).collect();
        write(&mut files, 1, 10, &slices).unwrap();
        assert_eq!(files.read(1, 10, 1 << 20).unwrap(), pieces.concat());
    }

    #[test]
    fn more_files_than_stay_open_can_be_used() {
        let folder = Folder::new("many");
        let mut files = DiskFiles::open(&folder.0).unwrap();
        for file in 1..=200 {
            files.create(file).unwrap();
            write(&mut files, file, 0, &[&file.to_le_bytes()]).unwrap();
            files.sync(file).unwrap();
        }
        for file in 1..=200 {
            assert_eq!(files.read(file, 0, 4).unwrap(), &file.to_le_bytes()[..]);
        }
        assert!(files.open.len() <= OPEN_MAX);
    }

    #[test]
    fn two_nodes_never_share_a_store() {
        let folder = Folder::new("lock");
        let first = DiskFiles::open(&folder.0).unwrap();
        let refused = DiskFiles::open(&folder.0).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::WouldBlock);
        assert!(refused.to_string().contains("hint:"), "{refused}");
        drop(first);
        DiskFiles::open(&folder.0).unwrap();
    }

    #[test]
    fn a_full_device_says_so() {
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let error = rustix::io::pwritev(&full, &[IoSlice::new(b"x")], 0).map_err(io::Error::from).unwrap_err();
        assert!(is_full(&error));
        assert!(!is_full(&io::Error::other("x")));
    }
}
