//! The forgetting disk as a mounted file system (FUSE).
//!
//! One thread answers the kernel, one request after the other. The kernel caches nothing, so every write arrives here
//! and every read sees the state of this tree.

use super::disk::{Change, Disk, Node};
use crate::random::Random;
use anyhow::{Context, Result};
use fuser::{
    BackgroundSession, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, LockOwner,
    MountOption, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry,
    ReplyOpen, ReplyStatfs, ReplyWrite, Request, TimeOrNow, WriteFlags,
};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

/// Longest sync, so that a power cut can hit one in progress.
const SYNC_MAX: Duration = Duration::from_millis(3);
/// Blocks shown as free.
const BLOCKS: u64 = 1 << 20;

/// A forgetting disk, mounted until dropped.
pub struct Mount {
    disk: Arc<Mutex<Disk>>,
    path: PathBuf,
    _session: BackgroundSession,
}
impl Mount {
    /// Mounts an empty disk at `path`, creating the folder if absent.
    ///
    /// # Errors
    /// When this machine or user cannot mount FUSE file systems.
    pub fn new(path: &Path, seed: u64) -> Result<Mount> {
        std::fs::create_dir_all(path)?;
        let disk = Arc::new(Mutex::new(Disk::new()));
        let served = Served { disk: disk.clone(), pauses: Mutex::new(Random::new(seed)) };
        let mut config = fuser::Config::default();
        config.mount_options = vec![MountOption::FSName("forgetting".into()), MountOption::DefaultPermissions];
        let session = fuser::spawn_mount(served, path, &config).context(
            "mounting the forgetting file system\nhint: it needs /dev/fuse, and root or the program fusermount3",
        )?;
        Ok(Mount { disk, path: path.to_path_buf(), _session: session })
    }
    /// Lets both names of a rename survive together from now on.
    pub fn rename_whole(&self) {
        lock(&self.disk).renames_whole = true;
    }
    /// Mount point.
    pub fn path(&self) -> &Path {
        &self.path
    }
    /// Cuts the power of a disk whose process has ended; returns the bytes and names that were not synced.
    ///
    /// # Errors
    /// When the file system does not answer.
    pub fn cut(&self, random: &mut Random) -> Result<(u64, u64)> {
        // Requests are answered in order, so an answer now follows all requests of the ended process.
        std::fs::metadata(self.path.join("-"))
            .err()
            .filter(|why| why.kind() == std::io::ErrorKind::NotFound)
            .context("the forgetting file system does not answer")?;
        let mut disk = lock(&self.disk);
        let unsynced = disk.unsynced();
        *disk = disk.power_cut(random);
        Ok(unsynced)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Served {
    disk: Arc<Mutex<Disk>>,
    pauses: Mutex<Random>,
}
impl Served {
    fn attributes(disk: &Disk, number: u64) -> Option<FileAttr> {
        let (kind, size, perm) = match disk.node(number)? {
            Node::Folder(_) => (FileType::Directory, 0, 0o700),
            Node::File(bytes) => (FileType::RegularFile, bytes.now.len() as u64, 0o600),
        };
        let then = SystemTime::UNIX_EPOCH;
        let nlink = if kind == FileType::Directory { 2 } else { disk.links(number) };
        Some(FileAttr {
            ino: INodeNo(number),
            size,
            blocks: size.div_ceil(512),
            atime: then,
            mtime: then,
            ctime: then,
            crtime: then,
            kind,
            perm,
            nlink,
            uid: rustix::process::getuid().as_raw(),
            gid: rustix::process::getgid().as_raw(),
            rdev: 0,
            blksize: 4096,
            flags: 0,
        })
    }
    fn make(&self, folder: INodeNo, name: &OsStr, is_folder: bool) -> Result<FileAttr, Errno> {
        let mut disk = lock(&self.disk);
        let name = name.to_str().ok_or(Errno::EINVAL)?;
        let number = disk.make(folder.0, name, is_folder).ok_or(Errno::EEXIST)?;
        Self::attributes(&disk, number).ok_or(Errno::EIO)
    }
    fn unname(&self, folder: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        answer(name.to_str().is_some_and(|name| lock(&self.disk).unname(folder.0, name)), Errno::ENOENT, reply);
    }
    fn sync(&self, number: INodeNo, reply: ReplyEmpty) {
        // A random delay, so that concurrent commits overlap.
        let pause = lock(&self.pauses).below(SYNC_MAX.as_micros() as u64);
        std::thread::sleep(Duration::from_micros(pause));
        answer(lock(&self.disk).sync(number.0), Errno::ENOENT, reply);
    }
}
fn answer(well: bool, else_: Errno, reply: ReplyEmpty) {
    if well { reply.ok() } else { reply.error(else_) }
}

impl Filesystem for Served {
    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let disk = lock(&self.disk);
        let number = name.to_str().and_then(|name| disk.find(parent.0, name));
        match number.and_then(|number| Self::attributes(&disk, number)) {
            Some(found) => reply.entry(&Duration::ZERO, &found, Generation(0)),
            None => reply.error(Errno::ENOENT),
        }
    }
    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match Self::attributes(&lock(&self.disk), ino.0) {
            Some(found) => reply.attr(&Duration::ZERO, &found),
            None => reply.error(Errno::ENOENT),
        }
    }
    fn setattr(
        &self,
        _: &Request,
        ino: INodeNo,
        _mode: Option<u32>,
        _uid: Option<u32>,
        _gid: Option<u32>,
        size: Option<u64>,
        _atime: Option<TimeOrNow>,
        _mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        _fh: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<fuser::BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let mut disk = lock(&self.disk);
        if let Some(size) = size {
            disk.change(ino.0, Change::Length(size as usize));
        }
        match Self::attributes(&disk, ino.0) {
            Some(found) => reply.attr(&Duration::ZERO, &found),
            None => reply.error(Errno::ENOENT),
        }
    }
    fn mkdir(&self, _: &Request, parent: INodeNo, name: &OsStr, _mode: u32, _umask: u32, reply: ReplyEntry) {
        match self.make(parent, name, true) {
            Ok(made) => reply.entry(&Duration::ZERO, &made, Generation(0)),
            Err(why) => reply.error(why),
        }
    }
    fn create(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        _mode: u32,
        _umask: u32,
        _flags: i32,
        reply: ReplyCreate,
    ) {
        match self.make(parent, name, false) {
            Ok(made) => {
                // Direct I/O: the kernel must not cache pages (see the module's head).
                reply.created(&Duration::ZERO, &made, Generation(0), FileHandle(0), FopenFlags::FOPEN_DIRECT_IO);
            }
            Err(why) => reply.error(why),
        }
    }
    fn open(&self, _: &Request, _ino: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        reply.opened(FileHandle(0), FopenFlags::FOPEN_DIRECT_IO);
    }
    fn read(
        &self,
        _: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        match lock(&self.disk).node(ino.0) {
            Some(Node::File(bytes)) => {
                let from = (offset as usize).min(bytes.now.len());
                reply.data(&bytes.now[from..(from + size as usize).min(bytes.now.len())]);
            }
            _ => reply.error(Errno::ENOENT),
        }
    }
    fn write(
        &self,
        _: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        data: &[u8],
        _write: WriteFlags,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        if lock(&self.disk).change(ino.0, Change::Write(offset as usize, data.to_vec())) {
            reply.written(data.len() as u32);
        } else {
            reply.error(Errno::ENOENT);
        }
    }
    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.unname(parent, name, reply);
    }
    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.unname(parent, name, reply);
    }
    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        to: INodeNo,
        new: &OsStr,
        _: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let (Some(name), Some(new)) = (name.to_str(), new.to_str()) else { return reply.error(Errno::EINVAL) };
        answer(lock(&self.disk).rename((parent.0, name), (to.0, new)), Errno::ENOENT, reply);
    }
    // close(2) promises no durability.
    fn flush(&self, _: &Request, _ino: INodeNo, _fh: FileHandle, _owner: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }
    fn fsync(&self, _: &Request, ino: INodeNo, _fh: FileHandle, _datasync: bool, reply: ReplyEmpty) {
        self.sync(ino, reply);
    }
    fn fsyncdir(&self, _: &Request, ino: INodeNo, _fh: FileHandle, _datasync: bool, reply: ReplyEmpty) {
        self.sync(ino, reply);
    }
    fn readdir(&self, _: &Request, ino: INodeNo, _fh: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let disk = lock(&self.disk);
        let Some(Node::Folder(names)) = disk.node(ino.0) else { return reply.error(Errno::ENOTDIR) };
        // Every listing of a folder begins with these two.
        let dots = [(".", ino.0), ("..", ino.0)].map(|(name, number)| (name.to_string(), number));
        let all = dots.into_iter().chain(names.now.iter().map(|(name, number)| (name.clone(), *number)));
        for (at, (name, number)) in all.enumerate().skip(offset as usize) {
            let kind = match disk.node(number) {
                Some(Node::File(_)) => FileType::RegularFile,
                _ => FileType::Directory,
            };
            if reply.add(INodeNo(number), at as u64 + 1, kind, name) {
                break;
            }
        }
        reply.ok();
    }
    fn statfs(&self, _: &Request, _ino: INodeNo, reply: ReplyStatfs) {
        reply.statfs(BLOCKS, BLOCKS, BLOCKS, BLOCKS, BLOCKS, 4096, 255, 4096);
    }
}
