//! A file put together from pieces that arrive in any order, some repeatedly.

use super::ranges::Ranges;
use super::stamp::read_piece;
use anyhow::{Context, Result, bail};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Length of a list entry, bytes: offsets of a piece's first byte and of the byte after its last, 8 bytes each,
/// big-endian.
const NOTE: usize = 16;

/// File under reassembly.
pub struct PiecedFile {
    path: PathBuf,
    file: File,
    length: u64,
    have: Ranges,
    /// List of the pieces, for a later receiver.
    list: Option<File>,
}

impl PiecedFile {
    /// Creates the file; pieces are expected up to `length` bytes.
    ///
    /// # Errors
    /// If it cannot be created.
    pub fn create(path: &Path, length: u64) -> std::io::Result<PiecedFile> {
        Ok(PiecedFile { path: path.into(), file: File::create(path)?, length, have: Ranges::default(), list: None })
    }
    /// Opens the file with the pieces that an earlier receiver noted in `PATH.pieces`, and notes further ones there.
    ///
    /// # Errors
    /// If one of the two can be neither opened nor created.
    pub fn resume(path: &Path, length: u64) -> std::io::Result<PiecedFile> {
        let open = |path: &Path| File::options().read(true).write(true).create(true).truncate(false).open(path);
        let mut list = path.as_os_str().to_os_string();
        list.push(".pieces");
        let (mut list, mut have, mut known) = (open(Path::new(&list))?, Ranges::default(), Vec::new());
        list.read_to_end(&mut known)?;
        let whole = known.len() / NOTE * NOTE;
        for note in known[..whole].chunks_exact(NOTE) {
            let number = |at: usize| note[at..at + 8].iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
            have.add(number(0)..number(8).min(length));
        }
        // The last entry is incomplete if the receiver was killed while it wrote.
        list.set_len(whole as u64)?;
        list.seek(SeekFrom::End(0))?;
        Ok(PiecedFile { path: path.into(), file: open(path)?, length, have, list: Some(list) })
    }
    /// Writes the piece in a payload.
    ///
    /// # Errors
    /// If the payload is no piece, the piece ends beyond the file's length, or the file cannot be written.
    pub fn add(&mut self, payload: &[u8]) -> Result<()> {
        let Some((offset, piece)) = read_piece(payload) else {
            bail!("a bundle of {} B is no piece of a file\nhint: send with --file", payload.len())
        };
        let end = offset.checked_add(piece.len() as u64).filter(|end| *end <= self.length);
        let Some(end) = end else {
            let size = self.length;
            bail!("a piece at {offset} ends beyond {size} B\nhint: --file-size is the length of the file that is sent")
        };
        self.file.write_all_at(piece, offset).with_context(|| format!("{} cannot be written", self.path.display()))?;
        self.have.add(offset..end);
        if let Some(list) = &mut self.list {
            let note = [offset.to_be_bytes(), end.to_be_bytes()].concat();
            list.write_all(&note).with_context(|| format!("{}.pieces cannot be written", self.path.display()))?;
        }
        Ok(())
    }
    /// Whether every byte is there.
    pub fn is_complete(&self) -> bool {
        self.have.covers(self.length)
    }
}

#[cfg(test)]
mod tests {
    use super::super::stamp::{PIECE_STAMP, filler, write_offset};
    use super::*;

    fn piece(whole: &[u8], offset: usize, length: usize) -> Vec<u8> {
        let mut payload = vec![0; PIECE_STAMP];
        write_offset(&mut payload, offset as u64);
        payload.extend(&whole[offset..whole.len().min(offset + length)]);
        payload
    }

    #[test]
    fn pieces_in_any_order_make_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let whole = filler(10_007);
        let mut random = farlink_base::Rng::new(6);
        let mut file = PiecedFile::create(&path, whole.len() as u64).unwrap();
        let mut left: Vec<usize> = (0..whole.len()).step_by(100).collect();
        let mut written = Vec::new();
        while !left.is_empty() {
            assert!(!file.is_complete());
            written.push(left.swap_remove(random.below(left.len() as u64) as usize));
            file.add(&piece(&whole, written[written.len() - 1], 100)).unwrap();
            // Some come again, as after a retransmission.
            if random.chance(0.5) {
                file.add(&piece(&whole, written[random.below(written.len() as u64) as usize], 100)).unwrap();
            }
        }
        assert!(file.is_complete() && std::fs::read(&path).unwrap() == whole);
    }

    #[test]
    fn later_receiver_goes_on_with_pieces() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let whole = filler(1000);
        let receive = |from: usize, to: usize| {
            let mut file = PiecedFile::resume(&path, 1000).unwrap();
            (from..to).step_by(100).for_each(|at| file.add(&piece(&whole, at, 100)).unwrap());
            file.is_complete()
        };
        assert!(!receive(400, 700) && !receive(700, 1000));
        // The receiver is killed while it writes an entry.
        let list = folder.path().join("file.pieces");
        let mut notes = std::fs::read(&list).unwrap();
        assert_eq!(notes.len(), 6 * NOTE);
        notes.extend([0; NOTE - 1]);
        std::fs::write(&list, notes).unwrap();
        assert!(!receive(0, 300) && receive(300, 400));
        assert_eq!(std::fs::read(&path).unwrap(), whole);
    }

    #[test]
    fn other_payloads_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let mut file = PiecedFile::create(&folder.path().join("file"), 100).unwrap();
        assert!(file.add(b"text").unwrap_err().to_string().contains("no piece of a file\nhint: "));
        for offset in [1, 101, u64::MAX] {
            let mut payload = vec![0; PIECE_STAMP + 100];
            write_offset(&mut payload, offset);
            let why = file.add(&payload).unwrap_err().to_string();
            assert!(why.contains(&format!("a piece at {offset} ends beyond 100 B\nhint: ")), "{why}");
        }
        assert!(!file.is_complete());
        assert!(PiecedFile::create(folder.path(), 1).is_err());
        assert!(PiecedFile::create(&folder.path().join("empty"), 0).unwrap().is_complete());
    }
}
