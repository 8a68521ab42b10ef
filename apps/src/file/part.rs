//! File under reassembly: `.ID.part` holds its bytes, `.ID.journal` the headers of the pieces received.

use super::settle::{WrittenPieces, rename_numbered};
use super::{Header, Received, each_piece, hex};
use crate::clock;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Longest name of a file, in bytes: file systems allow 255, and a number may be appended.
const NAME_MAX: usize = 200;

/// File under reassembly, with the pieces received so far.
pub struct PartialFile {
    data: Arc<File>,
    journal: Arc<File>,
    have: BTreeMap<u64, u64>,
    last: Option<Header>,
    /// Lines to append to the journal once the bytes of these pieces are on disk.
    waiting: Vec<u8>,
    began: farlink_base::Instant,
}

impl PartialFile {
    /// Opens the unfinished file with this ID, or creates it.
    pub fn open(out: &Path, id: &str) -> io::Result<PartialFile> {
        let path = |kind: &str| out.join(format!(".{id}.{kind}"));
        if !path("part").exists() {
            // A journal without the data is meaningless.
            let _ = std::fs::remove_file(path("journal"));
        }
        let text = std::fs::read_to_string(path("journal")).unwrap_or_default();
        let data = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path("part"))?;
        let journal = OpenOptions::new().read(true).append(true).create(true).open(path("journal"))?;
        let (have, last, waiting) = (BTreeMap::new(), None, Vec::new());
        let (data, journal) = (Arc::new(data), Arc::new(journal));
        let mut part = PartialFile { data, journal, have, last, waiting, began: clock::now() };
        // Ends a torn last line, so that the next line stays readable.
        if !text.is_empty() && !text.ends_with('\n') {
            part.waiting.push(b'\n');
        }
        // A torn last line, left by a kill, does not parse: the node delivers its piece again.
        for header in text.lines().filter_map(|line| serde_json::from_str::<Header>(line).ok()) {
            part.note(header);
        }
        Ok(part)
    }
    fn note(&mut self, header: Header) {
        // A repeated piece may differ in length: the longest one counts.
        let length = self.have.entry(header.offset).or_default();
        *length = header.bytes.max(*length);
        if header.total.is_some() {
            self.last = Some(header);
        }
    }
    /// Writes a piece as it arrives. The piece is durable once the result of [`PartialFile::pieces`] is synced.
    pub fn put(&mut self, header: Header, data: &mut impl Read) -> io::Result<()> {
        let mut at = header.offset;
        each_piece(data, header.bytes, |piece| {
            self.data.write_all_at(piece, at)?;
            at += piece.len() as u64;
            Ok(())
        })?;
        serde_json::to_writer(&mut self.waiting, &header)?;
        self.waiting.push(b'\n');
        self.note(header);
        Ok(())
    }
    /// Takes the pieces that were written and are not yet in the journal.
    pub fn pieces(&mut self) -> WrittenPieces {
        let lines = std::mem::take(&mut self.waiting);
        WrittenPieces { data: self.data.clone(), journal: self.journal.clone(), lines }
    }
    /// Whether every byte has arrived.
    pub fn complete(&self) -> bool {
        let Some(total) = self.last.as_ref().and_then(|header| header.total) else { return false };
        let mut reached = 0;
        for (offset, length) in &self.have {
            if *offset > reached {
                return false;
            }
            reached = reached.max(offset + length);
        }
        reached >= total
    }
    /// Computes the file's digest, renames the file to its final name, and removes the journal. The file is kept even
    /// if the digest differs from the sender's.
    pub fn finish(self, out: &Path, id: &str) -> io::Result<Received> {
        let header = self.last.clone().unwrap_or_default();
        let bytes = header.total.unwrap_or_default();
        // A forged piece may have extended the file beyond its end.
        self.data.set_len(bytes)?;
        let sha256 = digest(&self.data)?;
        self.data.sync_all()?;
        let path = name(&out.join(format!(".{id}.part")), out, &header.name)?;
        // The rename must be durable before the journal is removed: a crash that undoes it needs the journal.
        File::open(out)?.sync_all()?;
        let _ = std::fs::remove_file(out.join(format!(".{id}.journal")));
        Ok(Received::File {
            verified: header.sha256.as_deref() == Some(&sha256),
            name: header.name,
            path,
            bytes,
            sha256,
            seconds: clock::now().since(self.began).as_secs_f64(),
        })
    }
}

fn digest(mut file: &File) -> io::Result<String> {
    let mut hash = Sha256::new();
    file.seek(SeekFrom::Start(0))?;
    each_piece(&mut file, u64::MAX, |piece| {
        hash.update(piece);
        Ok(())
    })?;
    Ok(hex(&hash.finalize()))
}

/// Renames a file to a free name in the folder. The name derives from the sender's, but cannot lead out of the folder.
fn name(from: &Path, out: &Path, name: &str) -> io::Result<PathBuf> {
    let plain = Path::new(name).file_name().map(|name| name.to_string_lossy().into_owned());
    let plain = plain.map(|name| name.trim_start_matches('.').replace(char::is_control, "_"));
    let mut plain = plain.filter(|name| !name.is_empty()).unwrap_or_else(|| "file".into());
    let end = (0..=NAME_MAX.min(plain.len())).rev().find(|at| plain.is_char_boundary(*at)).unwrap_or_default();
    plain.truncate(end);
    rename_numbered(from, 0, |number| match number {
        0 => out.join(&plain),
        _ => out.join(format!("{plain}.{number}")),
    })
}
