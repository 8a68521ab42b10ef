//! Syncs received data to disk in a thread of its own, while the next deliveries are read.

use super::taken::{TakenLines, TakenList};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{CWD, RenameFlags, fstatfs, renameat_with, syncfs};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

/// Maximum number of files that are synced one by one; for more, the whole file system is synced.
const FEW: usize = 4;
/// Type number of FUSE file systems, to which Linux passes `fsync` on, but not `syncfs`.
const OF_PROGRAMS: u64 = 0x6573_5546;

/// Pieces of one file that are written and not yet durable.
pub struct WrittenPieces {
    /// File with the data.
    pub data: Arc<File>,
    /// Journal in which to record the pieces once they are on disk.
    pub journal: Arc<File>,
    /// Lines to append to the journal.
    pub lines: Vec<u8>,
}

/// Group of received data that is synced together.
#[derive(Default)]
pub struct SettleBatch {
    /// Files of bundles, with their numbers.
    pub bundles: Vec<(u64, File)>,
    /// Pieces of files under reassembly.
    pub pieces: Vec<WrittenPieces>,
    /// Lines to write to the list of received bundles.
    pub lines: TakenLines,
}
impl SettleBatch {
    /// Syncs the whole group: first the data, then journals, then the list. Fails if the folder or a file was removed.
    pub fn make_last(&mut self, path: &Path, folder: &File, list: &mut TakenList) -> io::Result<()> {
        let few = if fstatfs(folder)?.f_type as u64 == OF_PROGRAMS { usize::MAX } else { FEW };
        if self.bundles.len() + self.pieces.len() > few {
            syncfs(folder)?;
        } else if !self.bundles.is_empty() || !self.pieces.is_empty() {
            self.bundles.iter().try_for_each(|(_, file)| file.sync_data())?;
            self.pieces.iter().try_for_each(|pieces| pieces.data.sync_data())?;
            // Syncing a file does not make its directory entry durable.
            folder.sync_all()?;
        }
        // A removed file or folder is lost once this process ends, even if it was synced.
        let (ours, there) = (folder.metadata()?, std::fs::metadata(path)?);
        let mut is_there = (ours.dev(), ours.ino()) == (there.dev(), there.ino());
        for pieces in &self.pieces {
            is_there &= pieces.data.metadata()?.nlink() > 0 && pieces.journal.metadata()?.nlink() > 0;
        }
        if !is_there {
            return Err(io::Error::new(
                ErrorKind::NotFound,
                "the folder, or a file in it, was removed or moved meanwhile",
            ));
        }
        self.pieces.iter().try_for_each(|pieces| (&*pieces.journal).write_all(&pieces.lines))?;
        match self.pieces.len() > few {
            true => syncfs(folder)?,
            false => self.pieces.iter().try_for_each(|pieces| pieces.journal.sync_data())?,
        }
        list.write(&self.lines)
    }
    /// Renames the bundles to their final names, in order; returns the paths.
    pub fn name(&self, folder: &Path) -> io::Result<Vec<PathBuf>> {
        self.bundles.iter().map(|(number, _)| name_bundle(folder, *number)).collect()
    }
}

/// Thread that syncs groups and names their bundles.
pub struct Settler {
    batches: Option<Sender<SettleBatch>>,
    results: Receiver<io::Result<Vec<PathBuf>>>,
    done: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}
impl Settler {
    /// Starts the thread for a folder and the list in it. The thread ends with the first group that fails, so that no
    /// later group is recorded.
    pub fn start(path: PathBuf, folder: Arc<File>, mut list: TakenList) -> io::Result<Settler> {
        let (batches, inbox) = channel::<SettleBatch>();
        let (outbox, results) = channel();
        let done = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let wake = done.clone();
        let thread = std::thread::Builder::new().name("settle".into()).spawn(move || {
            while let Ok(mut batch) = inbox.recv() {
                let named = batch.make_last(&path, &folder, &mut list).and_then(|()| batch.name(&path));
                let failed = named.is_err();
                let over = outbox.send(named).is_err() || failed;
                // Wakes a receiver that polls both the node and this thread.
                let _ = rustix::io::write(&*wake, &1u64.to_ne_bytes());
                if over {
                    return;
                }
            }
        })?;
        Ok(Settler { batches: Some(batches), results, done, thread: Some(thread) })
    }
    /// Starts to sync a group; call [`Settler::wait`] before the next one.
    pub fn begin(&self, batch: SettleBatch) -> io::Result<()> {
        let sent = self.batches.as_ref().is_some_and(|batches| batches.send(batch).is_ok());
        if sent { Ok(()) } else { Err(io::Error::other("the thread that syncs ended")) }
    }
    /// Waits until the group is on disk; returns the final paths of its bundles.
    pub fn wait(&self) -> io::Result<Vec<PathBuf>> {
        let named = self.results.recv().map_err(|_| io::Error::other("the thread that syncs ended"))?;
        let _ = rustix::io::read(&*self.done, &mut [0; 8]);
        named
    }
    /// Descriptor that becomes readable once the group is on disk, or has failed.
    pub fn done(&self) -> BorrowedFd<'_> {
        self.done.as_fd()
    }
}
impl Drop for Settler {
    fn drop(&mut self) {
        // Closing the channel ends the thread.
        self.batches = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Temporary path of a bundle, until it is durable.
pub fn arriving(out: &Path, number: u64) -> PathBuf {
    out.join(format!(".bundle-{number}.new"))
}
/// Renames a bundle from its temporary to its final path, or that of the next free number; returns the path.
pub fn name_bundle(out: &Path, number: u64) -> io::Result<PathBuf> {
    rename_numbered(&arriving(out, number), number, |number| named(out, number))
}
/// Final path of a bundle with this number.
pub fn named(out: &Path, number: u64) -> PathBuf {
    out.join(format!("bundle-{number}"))
}
/// Renames a file to a free name among `place(first)`, `place(first + 1)` and so on; returns the path.
///
/// Probes in doubling steps, then by bisection: for the n-th file of one name, O(log n) probes. With gaps, the name
/// found need not be the lowest free one.
pub fn rename_numbered(from: &Path, first: u64, place: impl Fn(u64) -> PathBuf) -> io::Result<PathBuf> {
    let mut number = first;
    loop {
        let path = place(number);
        match rename_to_free(from, &path) {
            // The name exists, perhaps only since the probe: search on from it.
            Err(why) if why.kind() == ErrorKind::AlreadyExists => {
                number = free_number(number, |number| place(number).symlink_metadata().is_ok());
            }
            renamed => return renamed.map(|()| path),
        }
    }
}
/// Finds a free number above `taken` with O(log n) probes if n numbers in a row are taken.
fn free_number(mut taken: u64, is_taken: impl Fn(u64) -> bool) -> u64 {
    let mut step = 1;
    while is_taken(taken.saturating_add(step)) {
        taken = taken.saturating_add(step);
        step *= 2;
    }
    let mut free = taken.saturating_add(step);
    while free - taken > 1 {
        let middle = taken + (free - taken) / 2;
        if is_taken(middle) { taken = middle } else { free = middle }
    }
    free
}
/// Renames a file without replacing another.
fn rename_to_free(from: &Path, to: &Path) -> io::Result<()> {
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // The file system does not support RENAME_NOREPLACE: check first, which leaves a short race.
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => match to.symlink_metadata() {
            Ok(_) => Err(ErrorKind::AlreadyExists.into()),
            Err(_) => std::fs::rename(from, to),
        },
        renamed => Ok(renamed?),
    }
}

#[cfg(test)]
mod tests {
    use super::super::taken::TakenBundles;
    use super::*;

    #[test]
    fn same_names_cost_few_probes() {
        use std::cell::Cell;
        let (mut there, mut most) = (std::collections::BTreeSet::from([0u64]), 0);
        for _ in 1..20_000 {
            let probes = Cell::new(0u64);
            let number = free_number(0, |number| {
                probes.set(probes.get() + 1);
                there.contains(&number)
            });
            assert!(there.insert(number), "{number} is taken");
            most = most.max(probes.get());
        }
        assert!(most <= 2 * 15, "{most} probes for one name");
        assert_eq!(there.last(), Some(&19_999), "no number is left out");
        (1_000..2_000).for_each(|gone| assert!(there.remove(&gone)));
        assert!(!there.contains(&free_number(0, |number| there.contains(&number))), "gaps do not mislead it");
    }

    #[test]
    fn numbered_names_rise_without_replacing() {
        let dir = tempfile::tempdir().unwrap();
        for n in 0..70u64 {
            let from = dir.path().join("new");
            std::fs::write(&from, n.to_string()).unwrap();
            let place = |number| dir.path().join(format!("name.{number}"));
            assert_eq!(rename_numbered(&from, 0, place).unwrap(), place(n));
        }
        for n in 0..70u64 {
            assert_eq!(std::fs::read_to_string(dir.path().join(format!("name.{n}"))).unwrap(), n.to_string());
        }
    }

    #[test]
    fn unsynced_file_stays_unrecorded() {
        // Data, journal, list and names become durable in this order; a failure stops all later steps.
        // /dev/null can be written but not synced.
        let never = || File::options().read(true).append(true).open("/dev/null").unwrap();
        for broken in ["bundle", "piece", "journal", "none"] {
            let dir = tempfile::tempdir().unwrap();
            let open = |name: &str, broken: bool| match broken {
                true => never(),
                false => File::options().create(true).append(true).open(dir.path().join(name)).unwrap(),
            };
            let list = TakenBundles::open(Some(dir.path())).unwrap().1.unwrap();
            // `broken` is the step at which syncing fails.
            let folder = Arc::new(File::open(dir.path()).unwrap());
            let bundle = open(".bundle-1.new", false);
            let bundles = vec![(1, if broken == "bundle" { never() } else { bundle })];
            let (data, journal) = (open(".a.part", broken == "piece"), open(".a.journal", broken == "journal"));
            let pieces =
                vec![WrittenPieces { data: Arc::new(data), journal: Arc::new(journal), lines: b"piece\n".to_vec() }];
            let settler = Settler::start(dir.path().to_path_buf(), folder, list).unwrap();
            settler.begin(SettleBatch { bundles, pieces, lines: TakenLines::More("1 2 ipn:1.9 1\n".into()) }).unwrap();
            assert_eq!(settler.wait().is_ok(), broken == "none", "{broken}");
            let length = |name: &str| std::fs::metadata(dir.path().join(name)).map_or(0, |file| file.len());
            let (noted, listed) = (length(".a.journal") > 0, length(".taken") > 0);
            let named = dir.path().join("bundle-1").exists();
            let (all, none) = ([true; 3], [false; 3]);
            assert_eq!([noted, listed, named], if broken == "none" { all } else { none }, "{broken}");
            // The thread ended with the first failure: no later group may be recorded.
            let next = SettleBatch { lines: TakenLines::More("1 3 ipn:1.9\n".into()), ..SettleBatch::default() };
            let lasts = settler.begin(next).and_then(|()| settler.wait().map(drop)).is_ok();
            assert_eq!(lasts, broken == "none", "{broken}");
        }
    }
}
