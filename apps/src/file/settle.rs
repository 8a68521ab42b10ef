//! Makes what was received last, in a thread of its own: while that waits for the disk, the next is taken in.

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

/// So many files are synced one by one; more together with all of their file system.
const FEW: usize = 4;
/// What Linux calls file systems of programs (FUSE). It tells them of one file to sync, and not of all.
const OF_PROGRAMS: u64 = 0x6573_5546;

/// Pieces of one file that were written.
pub struct WrittenPieces {
    /// What they were written to.
    pub data: Arc<File>,
    /// Where they are noted, once they are on disk.
    pub journal: Arc<File>,
    /// The lines for that.
    pub lines: Vec<u8>,
}

/// What lasts together.
#[derive(Default)]
pub struct SettleBatch {
    /// Bundles that are files, with their numbers.
    pub bundles: Vec<(u64, File)>,
    /// Pieces of other files.
    pub pieces: Vec<WrittenPieces>,
    /// Lines for the list of what was taken.
    pub lines: TakenLines,
}
impl SettleBatch {
    /// Waits until all of it is on disk; once for many files.
    pub fn make_last(&mut self, path: &Path, folder: &File, list: &mut TakenList) -> io::Result<()> {
        let few = if fstatfs(folder)?.f_type as u64 == OF_PROGRAMS { usize::MAX } else { FEW };
        if self.bundles.len() + self.pieces.len() > few {
            syncfs(folder)?;
        } else if !self.bundles.is_empty() || !self.pieces.is_empty() {
            self.bundles.iter().try_for_each(|(_, file)| file.sync_data())?;
            self.pieces.iter().try_for_each(|pieces| pieces.data.sync_data())?;
            // Their names, too.
            folder.sync_all()?;
        }
        // What is written to a file without a name goes with this process.
        let (ours, there) = (folder.metadata()?, std::fs::metadata(path)?);
        let mut is_there = (ours.dev(), ours.ino()) == (there.dev(), there.ino());
        for pieces in &self.pieces {
            is_there &= pieces.data.metadata()?.nlink() > 0 && pieces.journal.metadata()?.nlink() > 0;
        }
        if !is_there {
            return Err(io::Error::new(ErrorKind::NotFound, "it, or a file in it, was removed or moved meanwhile"));
        }
        self.pieces.iter().try_for_each(|pieces| (&*pieces.journal).write_all(&pieces.lines))?;
        match self.pieces.len() > few {
            true => syncfs(folder)?,
            false => self.pieces.iter().try_for_each(|pieces| pieces.journal.sync_data())?,
        }
        list.write(&self.lines)
    }
    /// Gives its bundles their names, in order.
    pub fn name(&self, folder: &Path) -> io::Result<Vec<PathBuf>> {
        self.bundles.iter().map(|(number, _)| name_bundle(folder, *number)).collect()
    }
}

/// The thread that does both.
pub struct Settler {
    batches: Option<Sender<SettleBatch>>,
    results: Receiver<io::Result<Vec<PathBuf>>>,
    done: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}
impl Settler {
    /// Starts it for a folder and the list in it. It ends with the first batch that does not last: nothing is made to last
    /// behind that.
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
                let _ = rustix::io::write(&*wake, &1u64.to_ne_bytes());
                if over {
                    return;
                }
            }
        })?;
        Ok(Settler { batches: Some(batches), results, done, thread: Some(thread) })
    }
    /// Hands it a batch; [`Settler::wait`] before the next.
    pub fn begin(&self, batch: SettleBatch) -> io::Result<()> {
        let sent = self.batches.as_ref().is_some_and(|batches| batches.send(batch).is_ok());
        if sent { Ok(()) } else { Err(io::Error::other("the thread that syncs ended")) }
    }
    /// Waits until the batch is on disk; what its bundles are called.
    pub fn wait(&self) -> io::Result<Vec<PathBuf>> {
        let named = self.results.recv().map_err(|_| io::Error::other("the thread that syncs ended"))?;
        let _ = rustix::io::read(&*self.done, &mut [0; 8]);
        named
    }
    /// Can be read once a batch is on disk.
    pub fn done(&self) -> BorrowedFd<'_> {
        self.done.as_fd()
    }
}
impl Drop for Settler {
    fn drop(&mut self) {
        self.batches = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Where a bundle is until it is sure to last.
pub fn arriving(out: &Path, number: u64) -> PathBuf {
    out.join(format!(".bundle-{number}.new"))
}
/// Gives such a bundle its name, or the next that is free.
pub fn name_bundle(out: &Path, number: u64) -> io::Result<PathBuf> {
    rename_numbered(&arriving(out, number), number, |number| named(out, number))
}
/// Path of a bundle that has arrived whole.
pub fn named(out: &Path, number: u64) -> PathBuf {
    out.join(format!("bundle-{number}"))
}
/// Renames a file to the first free name found among `place(first)`, `place(first + 1)` and so on.
///
/// Probes in doubling steps, then halves the last one, so that the n-th file of one name costs O(log n) probes. Where
/// names in between were removed it may find a free one behind the lowest.
pub fn rename_numbered(from: &Path, first: u64, place: impl Fn(u64) -> PathBuf) -> io::Result<PathBuf> {
    let mut number = first;
    loop {
        let path = place(number);
        match rename_to_free(from, &path) {
            // Whoever took a name since it was looked for is met here, and looked past.
            Err(why) if why.kind() == ErrorKind::AlreadyExists => {
                number = free_number(number, |number| place(number).symlink_metadata().is_ok());
            }
            renamed => return renamed.map(|()| path),
        }
    }
}
/// A number above `taken` that is free, found by O(log n) questions where n in a row are taken.
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
/// Renames a file, and never over another.
fn rename_to_free(from: &Path, to: &Path) -> io::Result<()> {
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // A file system that cannot promise it.
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

    /// One after the other is on disk, and where one cannot be, nothing that comes after it is begun.
    #[test]
    fn unsynced_file_stays_unrecorded() {
        // It can be written, and not synced.
        let never = || File::options().read(true).append(true).open("/dev/null").unwrap();
        for broken in ["bundle", "piece", "journal", "none"] {
            let dir = tempfile::tempdir().unwrap();
            let open = |name: &str, broken: bool| match broken {
                true => never(),
                false => File::options().create(true).append(true).open(dir.path().join(name)).unwrap(),
            };
            let list = TakenBundles::open(Some(dir.path())).unwrap().1.unwrap();
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
            // Nothing is made to last behind it.
            let next = SettleBatch { lines: TakenLines::More("1 3 ipn:1.9\n".into()), ..SettleBatch::default() };
            let lasts = settler.begin(next).and_then(|()| settler.wait().map(drop)).is_ok();
            assert_eq!(lasts, broken == "none", "{broken}");
        }
    }
}
