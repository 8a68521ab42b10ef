//! Direct I/O (O_DIRECT) for long writes: spares the kernel from copying and caching the bytes and writing them back
//! later, which on a fast disk costs more than the rest of a store's work.

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use std::fs::File;
use std::io::{self, IoSlice};
use std::os::unix::fs::FileExt;

/// Alignment of offsets, lengths and memory: the largest that common disks and file systems require.
pub(crate) const BLOCK: usize = 4096;
/// Shortest direct write, bytes; shorter ones have too few blocks to be worth it.
const LEAST: usize = 64 << 10;
/// Most bytes per write.
const ROOM: usize = 1 << 20;

/// State of direct I/O.
#[derive(Debug, Default)]
pub(crate) struct Direct {
    /// Buffer that is a block longer than [`ROOM`], so that an aligned part can be used; allocated by the first write.
    room: Vec<u8>,
    /// Set if the file system does not support direct I/O.
    pub refused: bool,
}

impl Direct {
    /// Checks with an existing file whether the file system supports direct I/O.
    pub fn probe(file: &File) -> Direct {
        let refused = set_direct(file, true).is_err();
        let _ = set_direct(file, false);
        Direct { refused, ..Direct::default() }
    }
    /// Whether a write of this length uses direct I/O.
    pub fn is_for(&self, len: usize) -> bool {
        !self.refused && len >= LEAST
    }
    /// Writes the slices in sequence at `offset`: whole blocks directly, the rest through the page cache.
    ///
    /// # Errors
    /// System call errors; some of the bytes may have been written.
    pub fn write(&mut self, file: &File, mut offset: u64, mut slices: &mut [IoSlice<'_>]) -> io::Result<()> {
        if self.room.is_empty() {
            self.room = vec![0; ROOM + BLOCK];
        }
        let begin = self.room.as_ptr().align_offset(BLOCK).min(BLOCK);
        let room = &mut self.room[begin..begin + ROOM];
        let mut left: usize = slices.iter().map(|slice| slice.len()).sum();
        while left > 0 {
            // O_DIRECT needs aligned offsets: first the bytes up to the next block boundary (-offset mod BLOCK).
            let before = (offset as usize).wrapping_neg() % BLOCK;
            let (len, whole) = match (before, left / BLOCK * BLOCK) {
                (0, 0) => (left, false),
                (0, blocks) => (blocks.min(ROOM), true),
                (before, _) => (before.min(left), false),
            };
            let part = &mut room[..len];
            gather(&mut slices, part);
            let mut written = 0;
            if whole && !self.refused {
                self.refused = set_direct(file, true).is_err();
                let done = write_blocks(file, offset, part, &mut self.refused);
                set_direct(file, false)?;
                written = done?;
            }
            file.write_all_at(&part[written..], offset + written as u64)?;
            offset += len as u64;
            left -= len;
        }
        Ok(())
    }
}

/// Last `len` bytes of the slices, or all of them.
pub(crate) fn last_bytes(slices: &[IoSlice<'_>], len: usize) -> Vec<u8> {
    let mut parts = Vec::new();
    let mut left = len;
    for slice in slices.iter().rev() {
        let part = &slice[slice.len() - left.min(slice.len())..];
        left -= part.len();
        parts.push(part);
    }
    parts.into_iter().rev().flatten().copied().collect()
}

fn set_direct(file: &File, direct: bool) -> io::Result<()> {
    let mut flags = fcntl_getfl(file)?;
    flags.set(OFlags::DIRECT, direct);
    Ok(fcntl_setfl(file, flags)?)
}

/// Fills `part` from the slices and advances them.
fn gather(slices: &mut &mut [IoSlice<'_>], part: &mut [u8]) {
    let mut filled = 0;
    while let Some(first) = slices.first().filter(|_| filled < part.len()) {
        let n = first.len().min(part.len() - filled);
        part[filled..filled + n].copy_from_slice(&first[..n]);
        filled += n;
        IoSlice::advance_slices(slices, n);
    }
}

/// Writes whole blocks; returns the bytes written. The caller writes the rest through the page cache. If the file
/// system requires a larger alignment than [`BLOCK`], nothing is written and `refused` is set.
fn write_blocks(file: &File, offset: u64, part: &[u8], refused: &mut bool) -> io::Result<usize> {
    let mut done = 0;
    while done < part.len() {
        match file.write_at(&part[done..], offset + done as u64) {
            Ok(n) if n >= BLOCK => done += n / BLOCK * BLOCK,
            Ok(_) => break,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                *refused = true;
                break;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::OpenOptions;

    /// Writes pieces to a file; returns its content and the expected content.
    fn written(name: &str, direct: &mut Direct, offset: usize, pieces: &[usize]) -> (Vec<u8>, Vec<u8>) {
        let path = std::env::temp_dir().join(format!("farlink-direct-{name}-{}", std::process::id()));
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(&path).unwrap();
        let before: Vec<u8> = (0..offset).map(|at| at as u8).collect();
        file.write_all_at(&before, 0).unwrap();
        let bytes: Vec<u8> = (0..pieces.iter().sum::<usize>()).map(|at| (at * 7 / 3) as u8).collect();
        let (mut slices, mut at) = (Vec::new(), 0);
        for len in pieces {
            slices.push(IoSlice::new(&bytes[at..at + len]));
            at += len;
        }
        direct.write(&file, offset as u64, &mut slices).unwrap();
        let found = std::fs::read(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        (found, [before, bytes].concat())
    }

    #[test]
    fn direct_writes_match_their_input() {
        let mut direct = Direct::default();
        for offset in [0, 1, 4095, 4096, 5000, 100_001] {
            for pieces in [&[65_536][..], &[1], &[70_000, 1, 0, 4096, 3], &[3 << 20, 17], &[4096; 100]] {
                let (found, expected) = written("same", &mut direct, offset, pieces);
                assert!(found == expected, "{offset} {pieces:?}");
            }
        }
    }

    #[test]
    fn refused_direct_io_falls_back() {
        let mut direct = Direct { refused: true, ..Direct::default() };
        assert!(!direct.is_for(ROOM) && Direct::default().is_for(ROOM) && !Direct::default().is_for(1000));
        let (found, expected) = written("refused", &mut direct, 77, &[200_000]);
        assert!(found == expected);
    }

    #[test]
    fn tail_comes_from_last_slices() {
        let slices = [&b"abc"[..], b"", b"defg"].map(IoSlice::new);
        let last = |len| last_bytes(&slices, len);
        assert_eq!([last(0), last(3), last(6), last(9)], [&b""[..], b"efg", b"bcdefg", b"abcdefg"]);
    }

    #[test]
    fn full_device_is_an_error() {
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let why = write_blocks(&full, 0, &[0; BLOCK], &mut false).unwrap_err();
        assert_eq!(why.kind(), io::ErrorKind::StorageFull);
    }
}
