//! What is received: files put together of pieces, and bundles as files of their own. It lasts from
//! [`Shelf::settle`] on, which waits for the disk once for all that was taken before; what comes twice counts once.
//!
//! A bundle is `.bundle-N.new` until its identity and number are in the list of those taken, then `bundle-N`: whatever is
//! killed in between, [`Shelf::open`] gives it its name, or throws it away where it will come again.

use super::part::Part;
use super::taken::Taken;
use super::{Header, Received, decode, each_piece};
use anyhow::{Context, bail};
use farlink_aap2::proto::{BundleAdu, adu_flag};
use farlink_base::EndpointId;
use rustix::fs::{FlockOperation, flock, syncfs};
use rustix::io::Errno;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

/// So many files are synced one by one; more together with all of their file system.
const FEW: usize = 4;
/// Unfinished files kept open beyond a group; of more, each is opened anew.
const OPEN_MAX: usize = 64;
/// Bundles up to this long are written at once.
const AT_ONCE: u64 = 1 << 20;

/// Where what is received goes.
pub struct Shelf {
    out: Option<Folder>,
    taken: Taken,
    /// A run before took something, and nothing new came since: it may not have told the node of all of it.
    resumed: bool,
    parts: BTreeMap<String, Part>,
    numbered: u64,
    /// Taken, and not yet sure to last.
    waiting: Vec<Waiting>,
    /// Payload bytes of those.
    bytes: u64,
}

struct Folder {
    path: PathBuf,
    /// Nobody else receives there as long as it is open.
    lock: File,
}

enum Waiting {
    /// Ready to be told.
    Told(Received),
    Bundle {
        number: u64,
        file: File,
        source: String,
        bytes: u64,
    },
    /// A piece of a file.
    Piece(String),
}

impl Shelf {
    /// A folder that nobody else receives into, or none: then payloads are handed on.
    pub fn open(out: Option<&Path>) -> anyhow::Result<Shelf> {
        let out = out.map(Folder::open).transpose()?;
        let path = out.as_ref().map(|out| out.path.as_path());
        let taken = Taken::open(path).context("the list of bundles that were taken, `.taken`")?;
        let (resumed, numbered) = (!taken.is_empty(), taken.numbers().max().unwrap_or(0));
        let (parts, waiting, bytes) = (BTreeMap::new(), Vec::new(), 0);
        let mut shelf = Shelf { out, taken, resumed, parts, numbered, waiting, bytes };
        shelf.tidy()?;
        Ok(shelf)
    }
    /// What a run before was killed in the middle of: bundles it had promised to keep get their names, files that were
    /// whole theirs.
    fn tidy(&mut self) -> io::Result<()> {
        let Some(Folder { path, .. }) = &self.out else { return Ok(()) };
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
                let part = Part::open(path, id)?;
                if part.complete() {
                    self.waiting.push(Waiting::Piece(id.to_string()));
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
        let known = self.taken.knows(&identity);
        self.resumed &= known;
        if known && (self.resumed || may_be_repeated(adu)) {
            each_piece(payload, adu.payload_length, |_| Ok(()))?;
            return Ok(());
        }
        let (header, read) = decode(payload, adu.payload_length)?;
        let waiting = match header {
            Some(header) if self.out.is_some() => self.piece(header, payload)?,
            Some(header) => {
                let (source, bytes, piece_of) = (adu.src_eid.clone(), header.bytes, Some(header.name));
                let mut data = Vec::new();
                payload.read_to_end(&mut data)?;
                Waiting::Told(Received::Bundle { source, bytes, payload: data, path: None, piece_of })
            }
            None => self.bundle(adu, read, payload)?,
        };
        let number = if let Waiting::Bundle { number, .. } = waiting { Some(number) } else { None };
        self.taken.note(identity, number);
        self.bytes += adu.payload_length;
        self.waiting.push(waiting);
        Ok(())
    }
    /// One that is no part of a file: `read` is the beginning of its payload.
    fn bundle(&mut self, adu: &BundleAdu, mut read: Vec<u8>, rest: &mut impl Read) -> io::Result<Waiting> {
        let (source, bytes) = (adu.src_eid.clone(), adu.payload_length);
        let Some(out) = self.out.as_ref().map(|out| &out.path) else {
            rest.read_to_end(&mut read)?;
            return Ok(Waiting::Told(Received::Bundle { source, bytes, payload: read, path: None, piece_of: None }));
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
        Ok(Waiting::Bundle { number: self.numbered, file, source, bytes })
    }
    fn piece(&mut self, header: Header, data: &mut impl Read) -> io::Result<Waiting> {
        let id = header.id.clone();
        if let (false, Some(out)) = (self.parts.contains_key(&id), &self.out) {
            self.parts.insert(id.clone(), Part::open(&out.path, &id)?);
        }
        if let Some(part) = self.parts.get_mut(&id) {
            part.put(header, data)?;
        }
        Ok(Waiting::Piece(id))
    }
    /// Payload bytes of what was taken and is not yet sure to last.
    pub fn unsettled(&self) -> u64 {
        self.bytes
    }
    /// Files that are whole and have no name yet.
    pub fn whole(&self) -> usize {
        self.parts.values().filter(|part| part.complete()).count()
    }
    /// Waits until all that was taken is on disk; what the caller should hear of it.
    pub fn settle(&mut self) -> anyhow::Result<Vec<Received>> {
        let mut waiting = std::mem::take(&mut self.waiting);
        self.bytes = 0;
        self.sync(&waiting).context("what was received cannot be made to last")?;
        self.taken.write().context("the list of bundles that were taken, `.taken`")?;
        let mut told = Vec::new();
        for one in waiting.drain(..) {
            match (one, &self.out) {
                (Waiting::Told(received), _) => told.push(received),
                (Waiting::Bundle { number, source, bytes, .. }, Some(out)) => {
                    let path = Some(name_bundle(&out.path, number)?);
                    told.push(Received::Bundle { source, bytes, payload: Vec::new(), path, piece_of: None });
                }
                (Waiting::Piece(id), Some(out)) => {
                    if self.parts.get(&id).is_some_and(Part::complete)
                        && let Some(part) = self.parts.remove(&id)
                    {
                        told.push(part.finish(&out.path, &id)?);
                    }
                }
                (Waiting::Bundle { .. } | Waiting::Piece(_), None) => {}
            }
        }
        if self.parts.len() > OPEN_MAX {
            // All that is known of them is on disk.
            self.parts.clear();
        }
        // Its room serves the next.
        self.waiting = waiting;
        Ok(told)
    }
    /// Waits for the disk, once for many files.
    fn sync(&mut self, waiting: &[Waiting]) -> io::Result<()> {
        let Some(Folder { lock, .. }) = &self.out else { return Ok(()) };
        let (mut bundles, mut pieces) = (Vec::new(), BTreeSet::new());
        for one in waiting {
            match one {
                Waiting::Bundle { file, .. } => bundles.push(file),
                Waiting::Piece(id) => _ = pieces.insert(id),
                _ => {}
            }
        }
        let mut parts: Vec<&mut Part> =
            self.parts.iter_mut().filter_map(|(id, part)| pieces.contains(id).then_some(part)).collect();
        if bundles.len() + parts.len() > FEW {
            syncfs(lock)?;
        } else if !waiting.is_empty() {
            bundles.iter().try_for_each(|file| file.sync_data())?;
            parts.iter().try_for_each(|part| part.sync())?;
            // Their names, too.
            lock.sync_all()?;
        }
        parts.iter_mut().try_for_each(|part| part.note_pieces())?;
        match parts.len() > FEW {
            true => Ok(syncfs(lock)?),
            false => parts.iter().try_for_each(|part| part.sync_journal()),
        }
    }
}

impl Folder {
    fn open(path: &Path) -> anyhow::Result<Folder> {
        let folder = || format!("the folder {}", path.display());
        std::fs::create_dir_all(path).with_context(folder)?;
        let lock = File::open(path).with_context(folder)?;
        // A file system without locks has none.
        if flock(&lock, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK) {
            bail!("somebody else receives into {}\nhint: --out names a folder for each receiver", path.display());
        }
        Ok(Folder { path: path.to_path_buf(), lock })
    }
}

/// Whether a bundle may have come before: the node says so, or it is for a group. Who comes back to one is a new member,
/// who has all that is held, and nothing of it is marked.
fn may_be_repeated(adu: &BundleAdu) -> bool {
    let is_for_group = || adu.dst_eid.parse::<EndpointId>().is_ok_and(|group| !group.is_singleton());
    adu.adu_flags.contains(&adu_flag::REDELIVERED) || is_for_group()
}

/// Where a bundle is until it is sure to last.
fn arriving(out: &Path, number: u64) -> PathBuf {
    out.join(format!(".bundle-{number}.new"))
}
/// Gives such a bundle its name, or the next that is free.
fn name_bundle(out: &Path, number: u64) -> io::Result<PathBuf> {
    let mut name = number;
    let place = loop {
        let place = out.join(format!("bundle-{name}"));
        // Nor is anything put where somebody's link leads nowhere.
        if place.symlink_metadata().is_err() {
            break place;
        }
        name += 1;
    };
    std::fs::rename(arriving(out, number), &place)?;
    Ok(place)
}

#[cfg(test)]
mod tests;
