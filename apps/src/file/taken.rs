//! Which bundles were taken: a file that gets a line for each, and is written anew once it is long.

use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;
use std::collections::{HashSet, VecDeque};
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

/// Identities remembered: several times what a node has in hand for one receiver, and so may deliver again.
const REMEMBERED: usize = 8192;
/// Lines of the file, as a multiple of those, after which it is written anew.
const GARBAGE: usize = 4;

/// Bytes of the file that are set aside before what is received fills the disk: more than the lines of a group.
const ROOM: u64 = 64 << 10;

/// Source, creation time (DTN ms) and sequence number of a bundle.
pub type Identity = (String, u64, u64);

/// The file they are in.
pub struct List {
    path: PathBuf,
    file: File,
    /// The end of what is set aside for it.
    room: u64,
}

/// What is to be written into it.
pub enum Lines {
    /// Behind what is there.
    More(String),
    /// In place of it.
    Anew(String),
}
impl Default for Lines {
    fn default() -> Lines {
        Lines::More(String::new())
    }
}

/// The last bundles taken, in this run and those before.
pub struct Taken {
    /// Whether anything outlives the process.
    listed: bool,
    lines: usize,
    known: HashSet<Identity>,
    /// The same in order, with the numbers of those that are files.
    order: VecDeque<(Identity, Option<u64>)>,
    /// Lines to be written.
    waiting: String,
}

impl Taken {
    /// Reads what the runs before took, where there is a folder, and gives the list there.
    pub fn open(out: Option<&Path>) -> io::Result<(Taken, Option<List>)> {
        let (known, order) = (HashSet::new(), VecDeque::new());
        let mut taken = Taken { listed: out.is_some(), lines: 0, known, order, waiting: String::new() };
        let Some(out) = out else { return Ok((taken, None)) };
        let path = out.join(".taken");
        let text = match std::fs::read(&path) {
            Err(why) if why.kind() == ErrorKind::NotFound => Vec::new(),
            text => text?,
        };
        // A run that died as it wrote promised nothing of the line it was at.
        let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let file = append(&path)?;
        file.set_len(whole as u64)?;
        let text = String::from_utf8_lossy(&text[..whole]);
        for (identity, number) in text.lines().filter_map(parse) {
            taken.remember(identity, number);
        }
        taken.lines = text.lines().count();
        let mut list = List { path, file, room: 0 };
        list.set_room_aside()?;
        Ok((taken, Some(list)))
    }
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }
    /// Whether a bundle is one of them.
    pub fn knows(&self, identity: &Identity) -> bool {
        self.known.contains(identity)
    }
    /// Numbers of those that are files.
    pub fn numbers(&self) -> impl Iterator<Item = u64> + '_ {
        self.order.iter().filter_map(|(_, number)| *number)
    }
    /// Another was taken; [`List::write`] of the next [`Taken::lines`] makes it last.
    pub fn note(&mut self, identity: Identity, number: Option<u64>) {
        if self.listed {
            self.waiting.push_str(&line(&identity, number));
            self.lines += 1;
        }
        self.remember(identity, number);
    }
    fn remember(&mut self, identity: Identity, number: Option<u64>) {
        if self.known.insert(identity.clone()) {
            self.order.push_back((identity, number));
        }
        if self.order.len() > REMEMBERED
            && let Some((oldest, _)) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
    }
    /// What to write of all that was noted so far.
    pub fn lines(&mut self) -> Lines {
        let more = std::mem::take(&mut self.waiting);
        if self.lines <= GARBAGE * REMEMBERED {
            return Lines::More(more);
        }
        self.lines = self.order.len();
        Lines::Anew(self.order.iter().map(|(identity, number)| line(identity, *number)).collect())
    }
}

impl List {
    /// Where the disk is full, what was received before must still be promised, or it would come again and again.
    fn set_room_aside(&mut self) -> io::Result<()> {
        let length = self.file.metadata()?.len();
        if length + ROOM / 2 > self.room {
            match fallocate(&self.file, FallocateFlags::KEEP_SIZE, length, ROOM) {
                Ok(()) => self.room = length + ROOM,
                // There may be room later.
                Err(Errno::NOSPC | Errno::DQUOT) => {}
                // A file system that cannot.
                Err(_) => self.room = u64::MAX,
            }
        }
        Ok(())
    }
    /// Writes lines, and waits until they are on disk.
    pub fn write(&mut self, lines: &Lines) -> io::Result<()> {
        match lines {
            Lines::More(lines) if lines.is_empty() => {}
            Lines::More(lines) => {
                self.file.write_all(lines.as_bytes())?;
                self.file.sync_data()?;
            }
            Lines::Anew(text) => {
                let fresh = self.path.with_file_name(".taken.new");
                let mut whole = File::create(&fresh)?;
                whole.write_all(text.as_bytes())?;
                whole.sync_all()?;
                std::fs::rename(&fresh, &self.path)?;
                (self.file, self.room) = (append(&self.path)?, 0);
                if let Some(folder) = self.path.parent() {
                    File::open(folder)?.sync_all()?;
                }
            }
        }
        self.set_room_aside()
    }
}

fn append(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).open(path)
}

/// Time, sequence number, source, and the number of its file where it is one.
fn line((source, time, sequence): &Identity, number: Option<u64>) -> String {
    match number {
        Some(number) => format!("{time} {sequence} {source} {number}\n"),
        None => format!("{time} {sequence} {source}\n"),
    }
}

fn parse(line: &str) -> Option<(Identity, Option<u64>)> {
    let mut words = line.split(' ');
    let (time, sequence) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    let (source, number) = (words.next()?.to_string(), words.next());
    let number = number.map(|number| number.parse().ok());
    (number != Some(None)).then_some(((source, time, sequence), number.flatten()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    fn identity(n: u64) -> Identity {
        (format!("ipn:{}.9", n % 3), n, n * 7)
    }
    /// The list and what is known of it.
    struct Both(Taken, List);
    impl Both {
        fn write(&mut self) -> io::Result<()> {
            self.1.write(&self.0.lines())
        }
    }
    impl std::ops::Deref for Both {
        type Target = Taken;
        fn deref(&self) -> &Taken {
            &self.0
        }
    }
    impl std::ops::DerefMut for Both {
        fn deref_mut(&mut self) -> &mut Taken {
            &mut self.0
        }
    }
    fn open(dir: &tempfile::TempDir) -> Both {
        let (taken, list) = Taken::open(Some(dir.path())).unwrap();
        Both(taken, list.unwrap())
    }

    #[test]
    fn what_was_written_outlives_the_process_and_what_was_not_does_not() {
        let dir = tempfile::tempdir().unwrap();
        let mut taken = open(&dir);
        assert!(taken.is_empty());
        taken.note(identity(1), None);
        taken.note(identity(2), Some(5));
        taken.write().unwrap();
        taken.note(identity(3), Some(6));
        assert!(taken.knows(&identity(3)), "this process knows");
        let after = open(&dir);
        let known: Vec<bool> = (1..=3).map(|n| after.knows(&identity(n))).collect();
        assert_eq!((known, after.numbers().collect::<Vec<_>>()), (vec![true, true, false], vec![5]));
    }

    #[test]
    fn lines_that_cannot_be_synced_are_not_promised() {
        let file = OpenOptions::new().append(true).open("/dev/null").unwrap();
        let mut list = List { path: "/dev/null".into(), file, room: u64::MAX };
        assert!(list.write(&Lines::More("1 2 ipn:1.9\n".into())).is_err());
    }

    #[test]
    fn the_file_stays_short_and_the_last_are_known() {
        let dir = tempfile::tempdir().unwrap();
        let mut taken = open(&dir);
        let many = (2 * GARBAGE * REMEMBERED) as u64;
        for n in 0..many {
            taken.note(identity(n), Some(n));
            if n % 1000 == 0 {
                taken.write().unwrap();
            }
        }
        taken.write().unwrap();
        let after = open(&dir);
        let length = std::fs::read_to_string(dir.path().join(".taken")).unwrap().lines().count();
        assert!(length <= GARBAGE * REMEMBERED + 1000 && after.order.len() == REMEMBERED, "{length} lines");
        for n in [many - 1, many - REMEMBERED as u64] {
            assert!(after.knows(&identity(n)), "{n}");
        }
        assert!(!after.knows(&identity(0)) && after.numbers().last() == Some(many - 1));
        assert!(!dir.path().join(".taken.new").exists());
    }

    #[test]
    fn there_is_room_for_the_next_lines_before_the_disk_is_full() {
        let dir = tempfile::tempdir().unwrap();
        let mut taken = open(&dir);
        let aside = || {
            let file = std::fs::metadata(dir.path().join(".taken")).unwrap();
            (file.blocks() * 512).saturating_sub(file.len())
        };
        if aside() == 0 {
            return; // A file system that cannot.
        }
        for n in 0..5000 {
            taken.note(identity(n), Some(n));
            taken.write().unwrap();
            assert!(aside() >= ROOM / 2 - 100, "{n}: {}", aside());
        }
        drop(taken);
        assert!(open(&dir).knows(&identity(4999)), "what is set aside is no part of it");
    }

    #[test]
    fn a_line_cut_anywhere_takes_no_other_with_it_and_says_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(".taken");
        let whole = line(&identity(1), None) + &line(&identity(2), Some(1234));
        for cut in 0..whole.len() {
            std::fs::write(&path, &whole[..cut]).unwrap();
            let mut taken = open(&dir);
            taken.note(identity(3), None);
            taken.write().unwrap();
            let after = open(&dir);
            assert!(after.knows(&identity(3)), "{:?}", &whole[..cut]);
            assert_eq!(after.knows(&identity(1)), cut > whole.find('\n').unwrap(), "{:?}", &whole[..cut]);
            assert!(!after.knows(&identity(2)) && after.numbers().next().is_none(), "{:?}", &whole[..cut]);
        }
        std::fs::write(&path, b"\xff\xfe 7\n1 2\n1 2 a x\n\n18446744073709551616 1 a\n1 2 ipn:1.9\n").unwrap();
        assert_eq!(open(&dir).order.len(), 1, "nonsense is passed over");
    }
}
