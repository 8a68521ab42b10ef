//! What is received: files put together of pieces, and bundles as files of their own. It lasts from
//! [`Shelf::finish`] on, which waits for the disk once for all that was taken before [`Shelf::begin`]; what comes
//! twice counts once. Two bundles of one identity are the same only where their payloads are, too: who can send can write
//! any identity, and a node delivers both.
//!
//! A bundle is `.bundle-N.new` until its identity and number are in the list of those taken, then `bundle-N`: whatever is
//! killed in between, [`Shelf::open`] gives it its name, or throws it away where it will come again.

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

/// Unfinished files kept open beyond a group; of more, each is opened anew.
const OPEN_MAX: usize = 64;
/// Bundles up to this long are written at once.
const AT_ONCE: u64 = 1 << 20;

/// Where what is received goes.
pub struct Shelf {
    out: Option<OutputFolder>,
    taken: TakenBundles,
    /// A run before took something, and nothing new came since: it may not have told the node of all of it.
    resumed: bool,
    parts: BTreeMap<String, PartialFile>,
    numbered: u64,
    /// Taken, and not yet sure to last.
    waiting: Vec<PendingReceipt>,
    /// Payload bytes of those.
    bytes: u64,
    /// What of them are files of their own.
    files: Vec<(u64, File)>,
    /// What is made to last now.
    settling: Option<Vec<PendingReceipt>>,
}

struct OutputFolder {
    path: PathBuf,
    settler: Settler,
}

enum PendingReceipt {
    /// Ready to be told.
    Told(Received),
    Bundle {
        number: u64,
        source: String,
        bytes: u64,
    },
    /// A piece of a file.
    Piece(String),
}

impl Shelf {
    /// A folder that nobody else receives into, or none: then payloads are handed on.
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
    /// What a run before was killed in the middle of: bundles it had promised to keep get their names, files that were
    /// whole theirs.
    fn tidy(&mut self) -> io::Result<()> {
        let Some(OutputFolder { path, .. }) = &self.out else { return Ok(()) };
        let promised: Vec<u64> = self.taken.numbers().collect();
        let (mut left, mut highest) = (Vec::new(), 0);
        for entry in std::fs::read_dir(path)? {
            let name = entry?.file_name();
            let Some(name) = name.to_str() else { continue };
            // Files are called as their senders wish: higher numbers are none of ours.
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
    /// Keeps a delivery, whose payload is read as it comes, unless it came before.
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
    /// Reads the payload of a bundle whose identity is known. Returns it if the payload differs from those received before;
    /// a long one is kept in an unnamed file meanwhile.
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
                // Read on: a repetition needs no space on disk.
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
    /// True if a bundle with this identity and payload was received before.
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
            // An earlier version recorded no digest, and the file is gone or was part of another: it counts as the same.
            if there.is_none_or(|there| there == content) {
                return true;
            }
        }
        false
    }
    /// One that is no part of a file: `read` is the beginning of its payload.
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
            // Half of it is of no use: it comes again.
            let _ = std::fs::remove_file(arriving(out, self.numbered));
            return Err(why);
        }
        self.files.push((self.numbered, file));
        Ok(PendingReceipt::Bundle { number: self.numbered, source, bytes })
    }
    fn piece(&mut self, header: Header, data: &mut impl Read) -> io::Result<PendingReceipt> {
        let id = header.id.clone();
        if let (false, Some(out)) = (self.parts.contains_key(&id), &self.out) {
            self.parts.insert(id.clone(), PartialFile::open(&out.path, &id)?);
        }
        if let Some(part) = self.parts.get_mut(&id) {
            part.put(header, data)?;
        }
        Ok(PendingReceipt::Piece(id))
    }
    /// Payload bytes of what was taken since the last [`Shelf::begin`].
    pub fn unsettled(&self) -> u64 {
        self.bytes
    }
    /// Files that are whole and have no name yet.
    pub fn whole(&self) -> usize {
        self.parts.values().filter(|part| part.complete()).count()
    }
    /// Begins to make last all that was taken; what was begun before must be finished.
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
    /// Files that pieces were taken of.
    fn pieces_waiting(&self) -> BTreeSet<String> {
        let piece = |one: &PendingReceipt| if let PendingReceipt::Piece(id) = one { Some(id.clone()) } else { None };
        self.waiting.iter().filter_map(piece).collect()
    }
    /// Whether something was begun and not finished.
    pub fn is_settling(&self) -> bool {
        self.settling.is_some()
    }
    /// Can be read once what was begun can be finished without waiting.
    pub fn done(&self) -> Option<BorrowedFd<'_>> {
        self.out.as_ref().filter(|_| self.is_settling()).map(|out| out.settler.done())
    }
    /// Waits until what was begun is on disk; what the caller should hear of it.
    pub fn finish(&mut self) -> anyhow::Result<Vec<Received>> {
        let Some(mut settling) = self.settling.take() else { return Ok(Vec::new()) };
        let named = self.out.as_ref().map_or(Ok(Vec::new()), |out| out.settler.wait());
        let mut paths = named.context("what was received cannot be made to last")?.into_iter();
        // A file is whole once its last piece lasts: one that was not promised would come again, for none.
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
            // All that is known of the others is on disk.
            self.parts.retain(|id, _| unpromised.contains(id));
        }
        if self.waiting.capacity() == 0 {
            // Its room serves the next.
            self.waiting = settling;
        }
        Ok(told)
    }
}

/// SHA-256 of a file.
fn content_of(path: &Path) -> io::Result<PayloadDigest> {
    if !path.symlink_metadata()?.is_file() {
        return Err(ErrorKind::NotFound.into());
    }
    let mut file = Digesting::new(File::open(path)?);
    each_piece(&mut file, u64::MAX, |_| Ok(()))?;
    Ok(file.content())
}
/// A new file without a name, gone when it is closed. Bundles are numbered from 1, so number 0 is free; a file left by a crash
/// is removed at the next start.
fn without_name(out: &Path) -> io::Result<File> {
    let path = arriving(out, 0);
    let file = File::options().read(true).write(true).create_new(true).open(&path)?;
    std::fs::remove_file(&path)?;
    Ok(file)
}

/// Opens the folder, which is made if absent: nobody else receives there as long as it is open.
fn lock(path: &Path) -> anyhow::Result<File> {
    let folder = || format!("the folder {}", path.display());
    std::fs::create_dir_all(path).with_context(folder)?;
    let lock = File::open(path).with_context(folder)?;
    last_with_those_above(path).with_context(folder)?;
    // A file system without locks has none.
    if flock(&lock, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK) {
        bail!("somebody else receives into {}\nhint: --out names a folder for each receiver", path.display());
    }
    Ok(lock)
}

/// Makes the name of a folder last, which may just have been made, and those above it on its file system.
fn last_with_those_above(path: &Path) -> io::Result<()> {
    let absolute = std::path::absolute(path)?;
    let device = std::fs::metadata(&absolute)?.dev();
    for above in absolute.ancestors().skip(1) {
        match File::open(above) {
            // Nobody can sync a folder that may be entered and not read.
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

/// Whether a bundle may have come before: the node says so, or it is for a group. Who comes back to one is a new member,
/// who has all that is held, and nothing of it is marked.
fn may_be_repeated(adu: &BundleAdu) -> bool {
    let is_for_group = || adu.dst_eid.parse::<EndpointId>().is_ok_and(|group| !group.is_singleton());
    is_marked(adu) || is_for_group()
}
/// Whether the node says that it may have been delivered before.
fn is_marked(adu: &BundleAdu) -> bool {
    adu.adu_flags.contains(&adu_flag::REDELIVERED)
}

#[cfg(test)]
mod tests;
