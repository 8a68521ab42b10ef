//! Storage of received data: each bundle, and each file reassembled from pieces, in a file. Data is durable once
//! [`Shelf::finish`] returns, which waits for one sync of everything received before [`Shelf::begin`]. Repeated
//! deliveries are dropped. A repetition has the identity and the payload of an earlier bundle; identity alone proves
//! nothing, since senders choose it.
//!
//! A bundle is stored as `.bundle-N.new` until it is in the list of received bundles, then as `bundle-N`. After a crash
//! in between, [`Shelf::open`] renames the file if it is listed, and else removes it, since the node will deliver the
//! bundle again.

use super::part::PartialFile;
use super::settle::{SettleBatch, Settler, arriving, name_bundle, named};
use super::taken::{BundleIdentity, Digesting, PayloadDigest, TakenBundles, TakenRecord};
use super::{Header, Received, decode, each_piece};
use anyhow::{Context, bail};
use farlink_aap2::proto::{BundleAdu, adu_flag};
use farlink_base::EndpointId;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Cursor, ErrorKind, Read, Seek, Write};
use std::os::fd::BorrowedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Maximum number of unfinished files kept open between groups; others are reopened when needed.
const OPEN_MAX: usize = 64;
/// Longest payload that is written with one call, in bytes.
const AT_ONCE: u64 = 1 << 20;

/// Destination of received data: a folder, or, without a folder, the caller.
pub struct Shelf {
    out: Option<OutputFolder>,
    taken: TakenBundles,
    /// Whether an earlier run received bundles and nothing new has arrived since. The node may repeat deliveries that
    /// the earlier run recorded and did not accept.
    resumed: bool,
    parts: BTreeMap<String, PartialFile>,
    numbered: u64,
    /// Deliveries received since the last [`Shelf::begin`].
    waiting: Vec<PendingReceipt>,
    /// Payload bytes of `waiting`.
    bytes: u64,
    /// Files of the bundles in `waiting`, by number.
    files: Vec<(u64, File)>,
    /// Group of deliveries that is being synced.
    settling: Option<Vec<PendingReceipt>>,
}

struct OutputFolder {
    path: PathBuf,
    settler: Settler,
}

enum PendingReceipt {
    /// Event ready for the caller.
    Told(Received),
    Bundle {
        number: u64,
        source: String,
        bytes: u64,
    },
    /// Piece of the file with this ID.
    Piece(String),
}

impl Shelf {
    /// Opens a folder for exclusive use and completes the work of an earlier run there; without a folder, payloads are
    /// passed to the caller.
    pub fn open(out: Option<&Path>) -> anyhow::Result<Shelf> {
        let lock = out.map(lock).transpose()?;
        let (taken, list) = TakenBundles::open(out).context("the list of bundles that were taken, `.taken`")?;
        let out = match (out, lock, list) {
            (Some(path), Some(lock), Some(list)) => {
                let path = path.to_path_buf();
                Some(OutputFolder { settler: Settler::start(path.clone(), Arc::new(lock), list)?, path })
            }
            _ => None,
        };
        let (resumed, numbered) = (!taken.is_empty(), taken.numbers().max().unwrap_or(0));
        let mut shelf = Shelf {
            out,
            taken,
            resumed,
            parts: BTreeMap::new(),
            numbered,
            waiting: Vec::new(),
            bytes: 0,
            files: Vec::new(),
            settling: None,
        };
        shelf.tidy()?;
        Ok(shelf)
    }
    /// Completes the work of a run that was killed: renames listed bundles, removes others, and queues complete files.
    fn tidy(&mut self) -> io::Result<()> {
        let Some(OutputFolder { path, .. }) = &self.out else { return Ok(()) };
        let promised: Vec<u64> = self.taken.numbers().collect();
        let (mut left, mut highest) = (Vec::new(), 0);
        for entry in std::fs::read_dir(path)? {
            let name = entry?.file_name();
            let Some(name) = name.to_str() else { continue };
            // A sender may name its file `bundle-N`. This receiver never counts beyond 32 bits, so a longer number is
            // such a name, and must not raise the counter.
            if let Some(number) = name.strip_prefix("bundle-").and_then(|number| number.parse::<u32>().ok()) {
                highest = highest.max(u64::from(number));
            } else if let Some(number) = name.strip_prefix(".bundle-").and_then(|rest| rest.strip_suffix(".new")) {
                left.extend(number.parse::<u64>());
            } else if let Some(id) = name.strip_prefix('.').and_then(|rest| rest.strip_suffix(".journal"))
                && path.join(format!(".{id}.part")).exists()
            {
                let part = PartialFile::open(path, id)?;
                if part.complete() {
                    self.waiting.push(PendingReceipt::Piece(id.to_string()));
                    self.parts.insert(id.to_string(), part);
                }
            }
        }
        for number in left {
            match promised.contains(&number) {
                true => drop(name_bundle(path, number)?),
                false => std::fs::remove_file(arriving(path, number))?,
            }
        }
        self.numbered = self.numbered.max(highest);
        Ok(())
    }
    /// Stores a delivery while its payload arrives, unless it is a repetition, and reads all of the payload.
    pub fn take(&mut self, adu: &BundleAdu, payload: &mut impl Read) -> anyhow::Result<()> {
        let identity = (adu.src_eid.clone(), adu.creation_timestamp_ms, adu.sequence_number);
        let known = !self.taken.of(&identity).is_empty();
        if known && (self.resumed || may_be_repeated(adu)) {
            let Some(mut other) = self.unless_repeated(&identity, adu.payload_length, payload)? else { return Ok(()) };
            self.resumed = false;
            return self.keep(adu, identity, &mut other);
        }
        self.resumed = false;
        self.keep(adu, identity, payload)
    }
    fn keep(&mut self, adu: &BundleAdu, identity: BundleIdentity, payload: &mut impl Read) -> anyhow::Result<()> {
        let mut payload = Digesting::new(payload);
        let (header, read) = decode(&mut payload, adu.payload_length)?;
        let waiting = match header {
            Some(header) if self.out.is_some() => self.piece(header, &mut payload)?,
            Some(header) => {
                let (source, bytes, piece_of) = (adu.src_eid.clone(), header.bytes, Some(header.name));
                let redelivered = is_marked(adu);
                let mut data = Vec::new();
                payload.read_to_end(&mut data)?;
                PendingReceipt::Told(Received::Bundle {
                    source,
                    bytes,
                    payload: data,
                    path: None,
                    piece_of,
                    redelivered,
                })
            }
            None => self.bundle(adu, read, &mut payload)?,
        };
        let number = if let PendingReceipt::Bundle { number, .. } = waiting { Some(number) } else { None };
        self.taken.note(identity, TakenRecord { number, content: Some(payload.content()) });
        self.bytes += adu.payload_length;
        self.waiting.push(waiting);
        Ok(())
    }
    /// Reads the payload of a bundle whose identity is known, and returns it if it differs from those received before;
    /// `None` if it is a repetition. A long payload is kept in an unnamed file meanwhile.
    fn unless_repeated(
        &mut self,
        identity: &BundleIdentity,
        bytes: u64,
        payload: &mut impl Read,
    ) -> io::Result<Option<Box<dyn Read>>> {
        let mut payload = Digesting::new(payload);
        let Some(out) = self.out.as_ref().map(|out| &out.path).filter(|_| bytes > AT_ONCE) else {
            let mut data = Vec::new();
            payload.read_to_end(&mut data)?;
            let repeated = self.is_taken(identity, payload.content());
            return Ok((!repeated).then(|| Box::new(Cursor::new(data)) as Box<dyn Read>));
        };
        let mut file = without_name(out);
        each_piece(&mut payload, bytes, |piece| {
            if let Some(why) = file.as_mut().ok().and_then(|file| file.write_all(piece).err()) {
                // Reads on after a failure: if the payload is a repetition, it needs no space on disk.
                file = Err(why);
            }
            Ok(())
        })?;
        if self.is_taken(identity, payload.content()) {
            return Ok(None);
        }
        let mut file = file?;
        file.rewind()?;
        Ok(Some(Box::new(file)))
    }
    /// Whether a bundle with this identity and payload was received before.
    fn is_taken(&mut self, identity: &BundleIdentity, content: PayloadDigest) -> bool {
        for record in self.taken.of(identity).to_vec() {
            let there = match (record, &self.out) {
                (TakenRecord { content: Some(known), .. }, _) => Some(known),
                (TakenRecord { number: Some(number), content: None }, Some(out)) => {
                    let there = content_of(&named(&out.path, number)).ok();
                    there.inspect(|there| self.taken.learn(identity, record, *there))
                }
                _ => None,
            };
            // Without a digest (lists of earlier versions) and without the file, the bundle counts as the same.
            if there.is_none_or(|there| there == content) {
                return true;
            }
        }
        false
    }
    /// Stores a bundle that is not a piece of a file; `read` is the beginning of its payload, `rest` the remainder.
    fn bundle(&mut self, adu: &BundleAdu, mut read: Vec<u8>, rest: &mut impl Read) -> io::Result<PendingReceipt> {
        let (source, bytes) = (adu.src_eid.clone(), adu.payload_length);
        let Some(out) = self.out.as_ref().map(|out| &out.path) else {
            rest.read_to_end(&mut read)?;
            let (path, piece_of, redelivered) = (None, None, is_marked(adu));
            return Ok(PendingReceipt::Told(Received::Bundle {
                source,
                bytes,
                payload: read,
                path,
                piece_of,
                redelivered,
            }));
        };
        if bytes <= AT_ONCE {
            rest.read_to_end(&mut read)?;
        }
        let mut file = loop {
            self.numbered += 1;
            match File::create_new(arriving(out, self.numbered)) {
                Err(why) if why.kind() == ErrorKind::AlreadyExists => {}
                made => break made?,
            }
        };
        let written = file.write_all(&read).and_then(|()| match bytes <= AT_ONCE {
            true => Ok(()),
            false => each_piece(rest, bytes, |piece| file.write_all(piece)),
        });
        if let Err(why) = written {
            // The file is incomplete, and the node will deliver the bundle again.
            let _ = std::fs::remove_file(arriving(out, self.numbered));
            return Err(why);
        }
        self.files.push((self.numbered, file));
        Ok(PendingReceipt::Bundle { number: self.numbered, source, bytes })
    }
    fn piece(&mut self, header: Header, data: &mut impl Read) -> io::Result<PendingReceipt> {
        let id = header.id.clone();
        // An empty piece that arrives after its file was finished would begin a new file that nothing completes.
        if header.bytes == 0 && header.total.is_none() {
            return Ok(PendingReceipt::Piece(id));
        }
        if let (false, Some(out)) = (self.parts.contains_key(&id), &self.out) {
            self.parts.insert(id.clone(), PartialFile::open(&out.path, &id)?);
        }
        if let Some(part) = self.parts.get_mut(&id) {
            part.put(header, data)?;
        }
        Ok(PendingReceipt::Piece(id))
    }
    /// Payload bytes received since the last [`Shelf::begin`].
    pub fn unsettled(&self) -> u64 {
        self.bytes
    }
    /// Number of complete files that do not yet have their final name.
    pub fn whole(&self) -> usize {
        self.parts.values().filter(|part| part.complete()).count()
    }
    /// Starts to sync everything received, as one group; the previous group must be finished.
    pub fn begin(&mut self) -> anyhow::Result<()> {
        self.bytes = 0;
        let batch = self.batch();
        if let Some(out) = &self.out {
            out.settler.begin(batch)?;
        }
        self.settling = Some(std::mem::take(&mut self.waiting));
        Ok(())
    }
    fn batch(&mut self) -> SettleBatch {
        let pieces = self.pieces_waiting();
        let parts = self.parts.iter_mut().filter(|(id, _)| pieces.contains(*id));
        let pieces = parts.map(|(_, part)| part.pieces()).collect();
        SettleBatch { bundles: std::mem::take(&mut self.files), pieces, lines: self.taken.lines() }
    }
    /// IDs of files with pieces received since the last [`Shelf::begin`].
    fn pieces_waiting(&self) -> BTreeSet<String> {
        let piece = |one: &PendingReceipt| if let PendingReceipt::Piece(id) = one { Some(id.clone()) } else { None };
        self.waiting.iter().filter_map(piece).collect()
    }
    /// Whether a group is being synced.
    pub fn is_settling(&self) -> bool {
        self.settling.is_some()
    }
    /// Descriptor that becomes readable once [`Shelf::finish`] will not block; `None` if nothing is being synced.
    pub fn done(&self) -> Option<BorrowedFd<'_>> {
        self.out.as_ref().filter(|_| self.is_settling()).map(|out| out.settler.done())
    }
    /// Waits until the group is on disk, and gives bundles and complete files their final names. Returns the events for
    /// the caller.
    pub fn finish(&mut self) -> anyhow::Result<Vec<Received>> {
        let Some(mut settling) = self.settling.take() else { return Ok(Vec::new()) };
        let named = self.out.as_ref().map_or(Ok(Vec::new()), |out| out.settler.wait());
        let mut paths = named.context("received data cannot be stored durably")?.into_iter();
        // A file gets its name only once all of its pieces are durable: a piece that a crash loses is delivered again,
        // and must still find the unfinished file.
        let (mut told, unpromised) = (Vec::new(), self.pieces_waiting());
        for one in settling.drain(..) {
            match (one, &self.out) {
                (PendingReceipt::Told(received), _) => told.push(received),
                (PendingReceipt::Bundle { source, bytes, .. }, _) => {
                    told.push(Received::Bundle {
                        source,
                        bytes,
                        payload: Vec::new(),
                        path: paths.next(),
                        piece_of: None,
                        redelivered: false,
                    });
                }
                (PendingReceipt::Piece(id), Some(out)) => {
                    if !unpromised.contains(&id)
                        && self.parts.get(&id).is_some_and(PartialFile::complete)
                        && let Some(part) = self.parts.remove(&id)
                    {
                        told.push(part.finish(&out.path, &id)?);
                    }
                }
                (PendingReceipt::Piece(_), None) => {}
            }
        }
        if self.parts.len() > OPEN_MAX {
            // Closed files lose no progress: `open` restores it from their journals.
            self.parts.retain(|id, _| unpromised.contains(id));
        }
        if self.waiting.capacity() == 0 {
            // Reuses the allocation of the drained vector for the next group.
            self.waiting = settling;
        }
        Ok(told)
    }
}

/// SHA-256 of a regular file; other kinds are an error.
fn content_of(path: &Path) -> io::Result<PayloadDigest> {
    if !path.symlink_metadata()?.is_file() {
        return Err(ErrorKind::NotFound.into());
    }
    let mut file = Digesting::new(File::open(path)?);
    each_piece(&mut file, u64::MAX, |_| Ok(()))?;
    Ok(file.content())
}
/// Creates an unnamed file, which vanishes when it is closed. It briefly has the name of bundle number 0, which is
/// free, since bundles are numbered from 1; the next start removes a file that a crash leaves.
fn without_name(out: &Path) -> io::Result<File> {
    let path = arriving(out, 0);
    let file = File::options().read(true).write(true).create_new(true).open(&path)?;
    std::fs::remove_file(&path)?;
    Ok(file)
}

/// Opens and locks the folder, creating it if absent, so that no other receiver can use it meanwhile.
fn lock(path: &Path) -> anyhow::Result<File> {
    let folder = || format!("the folder {}", path.display());
    std::fs::create_dir_all(path).with_context(folder)?;
    let lock = File::open(path).with_context(folder)?;
    last_with_those_above(path).with_context(folder)?;
    // Other errors mean that the file system does not support locks, and are ignored.
    if flock(&lock, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK) {
        bail!("another receiver uses {}\nhint: give each receiver a folder of its own with --out", path.display());
    }
    Ok(lock)
}

/// Makes the directory entries of a folder and of its parents on the same file system durable: they may be new.
fn last_with_those_above(path: &Path) -> io::Result<()> {
    let absolute = std::path::absolute(path)?;
    let device = std::fs::metadata(&absolute)?.dev();
    for above in absolute.ancestors().skip(1) {
        match File::open(above) {
            // A folder with execute permission only cannot be opened for a sync.
            Err(why) if why.kind() == ErrorKind::PermissionDenied => {}
            opened => {
                let opened = opened?;
                if opened.metadata()?.dev() != device {
                    break;
                }
                opened.sync_all()?;
            }
        }
    }
    Ok(())
}

/// Whether a bundle may be a repetition: the node marks it so, or it is for a group. A member that rejoins a group gets
/// all bundles that the node holds, unmarked.
fn may_be_repeated(adu: &BundleAdu) -> bool {
    let is_for_group = || adu.dst_eid.parse::<EndpointId>().is_ok_and(|group| !group.is_singleton());
    is_marked(adu) || is_for_group()
}
/// Whether the node marks the delivery as possibly repeated.
fn is_marked(adu: &BundleAdu) -> bool {
    adu.adu_flags.contains(&adu_flag::REDELIVERED)
}

#[cfg(test)]
mod tests;
