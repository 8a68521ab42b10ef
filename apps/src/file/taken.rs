//! List of received bundles with the digests of their payloads: a file with one line for each, which is compacted when
//! it grows long.

use super::hex;
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;
use sha2::{Digest, Sha256};
use std::collections::{HashMap, VecDeque};
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

/// Number of bundles remembered: several times the bundles that a node delivers before the first acceptance (its
/// window), and so may deliver again after a crash.
const REMEMBERED: usize = 8192;
/// Number of lines above which the file is compacted, as a multiple of [`REMEMBERED`].
const GARBAGE: usize = 4;

/// Bytes reserved for the list in advance, so that it can grow when received data has filled the disk. A group needs
/// less.
const ROOM: u64 = 64 << 10;

/// Source endpoint ID, creation time (DTN ms) and sequence number of a bundle.
pub type BundleIdentity = (String, u64, u64);

/// SHA-256 of a payload, which distinguishes bundles that share an identity.
pub type PayloadDigest = [u8; 32];

/// Record of a received bundle, besides its identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TakenRecord {
    /// Number of the bundle's file; `None` if it was a piece of a file.
    pub number: Option<u64>,
    /// Digest of the bundle's payload; `None` in lists of earlier versions.
    pub content: Option<PayloadDigest>,
}

/// Reader that computes the SHA-256 of the payload.
pub struct Digesting<R> {
    from: R,
    hash: Sha256,
}
impl<R> Digesting<R> {
    /// Creates a reader that hashes everything read from `from`.
    pub fn new(from: R) -> Digesting<R> {
        Digesting { from, hash: Sha256::new() }
    }
    /// SHA-256 of everything read so far.
    pub fn content(self) -> PayloadDigest {
        self.hash.finalize().into()
    }
}
impl<R: Read> Read for Digesting<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.from.read(buffer)?;
        self.hash.update(&buffer[..n]);
        Ok(n)
    }
}

/// File in which the list is kept.
pub struct TakenList {
    path: PathBuf,
    file: File,
    /// Offset up to which space is reserved.
    room: u64,
}

/// Lines to write to the list.
pub enum TakenLines {
    /// Append these lines.
    More(String),
    /// Replace the whole file by these lines.
    Anew(String),
}
impl Default for TakenLines {
    fn default() -> TakenLines {
        TakenLines::More(String::new())
    }
}

/// Bundles received most recently, in this run and earlier ones.
pub struct TakenBundles {
    /// Whether the list is kept in a file, too.
    listed: bool,
    lines: usize,
    known: HashMap<BundleIdentity, Vec<TakenRecord>>,
    /// Remembered bundles, in order of reception.
    order: VecDeque<(BundleIdentity, TakenRecord)>,
    /// Lines that are not yet written.
    waiting: String,
}

impl TakenBundles {
    /// Reads the list of the folder, or creates it; without a folder, returns an empty list without a file.
    pub fn open(out: Option<&Path>) -> io::Result<(TakenBundles, Option<TakenList>)> {
        let (known, order) = (HashMap::new(), VecDeque::new());
        let mut taken = TakenBundles { listed: out.is_some(), lines: 0, known, order, waiting: String::new() };
        let Some(out) = out else { return Ok((taken, None)) };
        let path = out.join(".taken");
        let text = match std::fs::read(&path) {
            Err(why) if why.kind() == ErrorKind::NotFound => Vec::new(),
            text => text?,
        };
        // An incomplete last line was never synced by the run that was killed: drop it.
        let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let file = append(&path)?;
        file.set_len(whole as u64)?;
        let text = String::from_utf8_lossy(&text[..whole]);
        for (identity, record) in text.lines().filter_map(parse) {
            taken.remember(identity, record);
        }
        taken.lines = text.lines().count();
        let mut list = TakenList { path, file, room: 0 };
        list.set_room_aside()?;
        Ok((taken, Some(list)))
    }
    /// Whether no bundle is remembered.
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }
    /// Records of received bundles with this identity; their payloads differ.
    pub fn of(&self, identity: &BundleIdentity) -> &[TakenRecord] {
        self.known.get(identity).map_or(&[], Vec::as_slice)
    }
    /// Adds the digest to the record of a bundle that an earlier version received.
    pub fn learn(&mut self, identity: &BundleIdentity, old: TakenRecord, content: PayloadDigest) {
        let learnt = TakenRecord { content: Some(content), ..old };
        let known = self.known.get_mut(identity).into_iter().flatten();
        let listed = self.order.iter_mut().filter(|(other, _)| other == identity).map(|(_, record)| record);
        known.chain(listed).filter(|record| **record == old).for_each(|record| *record = learnt);
    }
    /// File numbers of the remembered bundles that were saved as files of their own, not as pieces of one.
    pub fn numbers(&self) -> impl Iterator<Item = u64> + '_ {
        self.order.iter().filter_map(|(_, record)| record.number)
    }
    /// Remembers a bundle. The record becomes durable once [`TakenList::write`] has written the next
    /// [`TakenBundles::lines`].
    pub fn note(&mut self, identity: BundleIdentity, record: TakenRecord) {
        if self.listed {
            self.waiting.push_str(&line(&identity, record));
            self.lines += 1;
        }
        self.remember(identity, record);
    }
    fn remember(&mut self, identity: BundleIdentity, record: TakenRecord) {
        let known = self.known.entry(identity.clone()).or_default();
        if known.iter().all(|other| other.content != record.content) {
            known.push(record);
            self.order.push_back((identity, record));
        }
        if self.order.len() > REMEMBERED
            && let Some((oldest, record)) = self.order.pop_front()
            && let Some(known) = self.known.get_mut(&oldest)
        {
            known.retain(|other| *other != record);
            if known.is_empty() {
                self.known.remove(&oldest);
            }
        }
    }
    /// Takes the lines that must be written for everything recorded so far.
    pub fn lines(&mut self) -> TakenLines {
        let more = std::mem::take(&mut self.waiting);
        if self.lines <= GARBAGE * REMEMBERED {
            return TakenLines::More(more);
        }
        self.lines = self.order.len();
        TakenLines::Anew(self.order.iter().map(|(identity, record)| line(identity, *record)).collect())
    }
}

impl TakenList {
    /// Reserves space for the list: even on a full disk, received bundles must be recorded, or the node would deliver
    /// them again and again.
    fn set_room_aside(&mut self) -> io::Result<()> {
        let length = self.file.metadata()?.len();
        if length + ROOM / 2 > self.room {
            match fallocate(&self.file, FallocateFlags::KEEP_SIZE, length, ROOM) {
                Ok(()) => self.room = length + ROOM,
                // The disk is full: the next write tries the reservation again.
                Err(Errno::NOSPC | Errno::DQUOT) => {}
                // The file system does not support reservations.
                Err(_) => self.room = u64::MAX,
            }
        }
        Ok(())
    }
    /// Writes lines and waits until they are on disk.
    pub fn write(&mut self, lines: &TakenLines) -> io::Result<()> {
        match lines {
            TakenLines::More(lines) if lines.is_empty() => {}
            TakenLines::More(lines) => {
                self.file.write_all(lines.as_bytes())?;
                self.file.sync_data()?;
            }
            TakenLines::Anew(text) => {
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

/// Formats one line of the list: creation time, sequence number, source, file number (`-` for no file), payload digest.
/// Earlier versions wrote no digest, and nothing in place of `-`.
fn line((source, time, sequence): &BundleIdentity, TakenRecord { number, content }: TakenRecord) -> String {
    let number = number.map_or_else(|| "-".to_string(), |number| number.to_string());
    match content {
        Some(content) => format!("{time} {sequence} {source} {number} {}\n", hex(&content)),
        None => format!("{time} {sequence} {source} {number}\n"),
    }
}

fn parse(line: &str) -> Option<(BundleIdentity, TakenRecord)> {
    let mut words = line.split(' ');
    let (time, sequence) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    let source = words.next()?.to_string();
    let number = match words.next() {
        None | Some("-") => None,
        Some(number) => Some(number.parse::<u32>().ok()?.into()),
    };
    let content = match words.next() {
        None => None,
        Some(digits) => Some(content(digits)?),
    };
    Some(((source, time, sequence), TakenRecord { number, content }))
}
fn content(digits: &str) -> Option<PayloadDigest> {
    let (pairs, []) = digits.as_bytes().as_chunks::<2>() else { return None };
    let byte = |pair: &[u8; 2]| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok();
    pairs.iter().map(byte).collect::<Option<Vec<u8>>>()?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    fn identity(n: u64) -> BundleIdentity {
        (format!("ipn:{}.9", n % 3), n, n * 7)
    }
    fn record(number: Option<u64>) -> TakenRecord {
        TakenRecord { number, content: Some([number.unwrap_or(99) as u8; 32]) }
    }
    /// Remembered bundles with the file of their list.
    struct TakenFixture(TakenBundles, TakenList);
    impl TakenFixture {
        fn write(&mut self) -> io::Result<()> {
            self.1.write(&self.0.lines())
        }
    }
    impl std::ops::Deref for TakenFixture {
        type Target = TakenBundles;
        fn deref(&self) -> &TakenBundles {
            &self.0
        }
    }
    impl std::ops::DerefMut for TakenFixture {
        fn deref_mut(&mut self) -> &mut TakenBundles {
            &mut self.0
        }
    }
    fn knows(taken: &TakenBundles, n: u64) -> bool {
        !taken.of(&identity(n)).is_empty()
    }
    fn open(dir: &tempfile::TempDir) -> TakenFixture {
        let (taken, list) = TakenBundles::open(Some(dir.path())).unwrap();
        TakenFixture(taken, list.unwrap())
    }

    #[test]
    fn only_committed_lines_survive() {
        let dir = tempfile::tempdir().unwrap();
        let mut taken = open(&dir);
        assert!(taken.is_empty());
        taken.note(identity(1), record(None));
        taken.note(identity(2), record(Some(5)));
        taken.write().unwrap();
        taken.note(identity(3), record(Some(6)));
        assert!(knows(&taken, 3), "this process knows");
        let after = open(&dir);
        let known: Vec<bool> = (1..=3).map(|n| knows(&after, n)).collect();
        assert_eq!((known, after.numbers().collect::<Vec<_>>()), (vec![true, true, false], vec![5]));
    }

    #[test]
    fn unsynced_lines_are_not_promised() {
        let file = OpenOptions::new().append(true).open("/dev/null").unwrap();
        let mut list = TakenList { path: "/dev/null".into(), file, room: u64::MAX };
        assert!(list.write(&TakenLines::More("1 2 ipn:1.9\n".into())).is_err());
    }

    #[test]
    fn compaction_keeps_the_latest_entries() {
        let dir = tempfile::tempdir().unwrap();
        let mut taken = open(&dir);
        let many = (2 * GARBAGE * REMEMBERED) as u64;
        for n in 0..many {
            taken.note(identity(n), record(Some(n)));
            if n % 1000 == 0 {
                taken.write().unwrap();
            }
        }
        taken.write().unwrap();
        let after = open(&dir);
        let length = std::fs::read_to_string(dir.path().join(".taken")).unwrap().lines().count();
        assert!(length <= GARBAGE * REMEMBERED + 1000 && after.order.len() == REMEMBERED, "{length} lines");
        for n in [many - 1, many - REMEMBERED as u64] {
            assert!(knows(&after, n), "{n}");
        }
        assert!(!knows(&after, 0) && after.numbers().last() == Some(many - 1));
        assert!(!dir.path().join(".taken.new").exists());
    }

    #[test]
    fn log_space_is_reserved_ahead() {
        let dir = tempfile::tempdir().unwrap();
        let mut taken = open(&dir);
        let aside = || {
            let file = std::fs::metadata(dir.path().join(".taken")).unwrap();
            (file.blocks() * 512).saturating_sub(file.len())
        };
        if aside() == 0 {
            return; // The file system does not support reservations.
        }
        for n in 0..5000 {
            taken.note(identity(n), record(Some(n)));
            taken.write().unwrap();
            assert!(aside() >= ROOM / 2 - 100, "{n}: {}", aside());
        }
        drop(taken);
        assert!(knows(&open(&dir), 4999), "what is set aside is no part of it");
    }

    #[test]
    fn remembered_contents_are_distinguished() {
        let dir = tempfile::tempdir().unwrap();
        let mut taken = open(&dir);
        let with = |byte: u8, number| TakenRecord { number, content: Some([byte; 32]) };
        for record in [with(0, None), with(0xfe, Some(3)), with(0, Some(4))] {
            taken.note(identity(1), record);
        }
        taken.write().unwrap();
        assert_eq!(open(&dir).of(&identity(1)), [with(0, None), with(0xfe, Some(3))], "each content once");
        // Earlier versions wrote no digest: their lines must stay readable.
        std::fs::write(dir.path().join(".taken"), "1 7 ipn:1.9 5\n2 14 ipn:2.9\n").unwrap();
        let mut taken = open(&dir);
        let old = TakenRecord { number: Some(5), content: None };
        assert_eq!(taken.of(&identity(1)), [old]);
        assert_eq!(taken.of(&identity(2)), [TakenRecord { number: None, content: None }]);
        taken.learn(&identity(1), old, [5; 32]);
        assert_eq!(taken.of(&identity(1)), [with(5, Some(5))]);
        for n in 3..3 + REMEMBERED as u64 {
            taken.note(identity(n), record(None));
        }
        assert!(!knows(&taken, 1) && !knows(&taken, 2) && taken.known.len() == REMEMBERED);
    }

    #[test]
    fn truncated_line_damages_no_other() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(".taken");
        let whole = line(&identity(1), record(None)) + &line(&identity(2), record(Some(1234)));
        for cut in 0..whole.len() {
            std::fs::write(&path, &whole[..cut]).unwrap();
            let mut taken = open(&dir);
            taken.note(identity(3), record(None));
            taken.write().unwrap();
            let after = open(&dir);
            assert!(knows(&after, 3), "{:?}", &whole[..cut]);
            assert_eq!(knows(&after, 1), cut > whole.find('\n').unwrap(), "{:?}", &whole[..cut]);
            assert!(!knows(&after, 2) && after.numbers().next().is_none(), "{:?}", &whole[..cut]);
        }
        std::fs::write(
            &path,
            b"\xff\xfe 7\n1 2\n1 2 a x\n\n18446744073709551616 1 a\n1 2 a 3 0f\n1 2 a 4294967296\n1 2 ipn:1.9\n",
        )
        .unwrap();
        assert_eq!(open(&dir).order.len(), 1, "nonsense is passed over");
    }
}
