//! File headers: each has two copies of the store's state at the time the file was made.

use super::record::FieldReader;
use bytes::{BufMut, Bytes, BytesMut};
use farlink_base::Accel;

/// Length of a short file header: two copies, end to end.
pub(super) const SHORT_HEADER: u64 = 2 * HEADER_COPY;
/// Length of a long file header: a copy, the rest of its page, and another copy.
pub(super) const LONG_HEADER: u64 = PAGE + HEADER_COPY;
/// Unit of loss on a disk, bytes: the two copies of a long header lie in different pages.
const PAGE: u64 = 4096;
const HEADER_COPY: u64 = 64;
const FILE_MAGIC: &[u8; 8] = b"FarlinkS";
/// Format that is written; formats from [`VERSION_ONCE`] on are read. Records of format 3 have another digest of their
/// content than those of format 4.
const VERSION: u32 = 4;
/// Format whose files were never written over and whose records name no file.
const VERSION_ONCE: u32 = 1;
/// Flag of a recycled file, which was made of an emptied one.
const REMADE: u32 = 1;

/// State of the store when the file was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct FileHeader {
    pub file: u32,
    pub salt: u64,
    pub sequence: u64,
    pub last_bundle: u64,
    pub counter: u64,
    /// Every file with a lower number was durable as a whole.
    pub clean_below: u32,
    /// Offset of the first record: both copies and the gap between them.
    pub len: u32,
    /// Whether the file is recycled: the bytes of an emptied file may follow its own.
    pub remade: bool,
    /// Whether the file's records do not name their file.
    pub nameless: bool,
}
impl FileHeader {
    pub fn encode(&self, accel: &Accel, out: &mut BytesMut) {
        let start = out.len();
        out.put_slice(FILE_MAGIC);
        out.put_u32_le(VERSION);
        out.put_u32_le(self.file);
        for value in [self.salt, self.sequence, self.last_bundle, self.counter] {
            out.put_u64_le(value);
        }
        out.put_u32_le(self.clean_below);
        out.put_u32_le(self.len);
        out.put_u32_le(if self.remade { REMADE } else { 0 });
        let crc = (accel.crc32c)(0, &out[start..]);
        out.put_u32_le(crc);
        let copy = Bytes::copy_from_slice(&out[start..]);
        // The gap puts the second copy of a long header at the start of the next page.
        out.put_bytes(0, (u64::from(self.len).saturating_sub(SHORT_HEADER)) as usize);
        out.put_slice(&copy);
    }
    /// Reads the header of this file, and whether both copies are whole. If the header of a recycled file never reached
    /// the disk, returns that of the file it was made of.
    pub fn decode(accel: &Accel, bytes: &[u8], file: u32) -> Option<(FileHeader, bool)> {
        let copy = |at: usize| Self::decode_copy(accel, bytes.get(at..at + HEADER_COPY as usize)?);
        let second = |len: u32| copy(len as usize - HEADER_COPY as usize);
        let first = copy(0);
        if let Some(first) = first.filter(|header| header.file == file) {
            return Some((first, second(first.len) == Some(first)));
        }
        // Without the first copy the length is unknown: try both places of the second.
        let seconds = [SHORT_HEADER, LONG_HEADER].map(|len| second(len as u32).filter(|h| u64::from(h.len) == len));
        let found = || first.into_iter().chain(seconds.into_iter().flatten());
        Some((found().find(|header| header.file == file).or_else(|| found().next())?, false))
    }
    fn decode_copy(accel: &Accel, copy: &[u8]) -> Option<FileHeader> {
        let version = copy_version(accel, copy).filter(|version| (VERSION_ONCE..=VERSION).contains(version))?;
        let mut f = FieldReader(copy);
        f.take(12)?;
        let (file, salt, sequence) = (f.u32()?, f.u64()?, f.u64()?);
        let (last_bundle, counter, clean_below) = (f.u64()?, f.u64()?, f.u32()?);
        // Files of earlier versions have 0 here.
        let len = f.u32()?.clamp(SHORT_HEADER as u32, LONG_HEADER as u32);
        let (remade, nameless) = (f.u32()? & REMADE != 0, version == VERSION_ONCE);
        Some(FileHeader { file, salt, sequence, last_bundle, counter, clean_below, len, remade, nameless })
    }
}

/// Format number of a whole header copy. Every format begins a copy with the magic and its number, makes it 64 bytes
/// long and ends it with a checksum of the rest, so a newer format can be distinguished from damage.
fn copy_version(accel: &Accel, copy: &[u8]) -> Option<u32> {
    let mut f = FieldReader(copy.get(..HEADER_COPY as usize)?);
    if f.take(8)? != FILE_MAGIC {
        return None;
    }
    let version = f.u32()?;
    f.take(HEADER_COPY as usize - 16)?;
    (f.u32()? == (accel.crc32c)(0, &copy[..HEADER_COPY as usize - 4])).then_some(version)
}

/// Highest store format among the whole header copies at the start of a file; `None` if no copy is whole.
pub fn format_of(accel: &Accel, bytes: &[u8]) -> Option<u32> {
    let copies = [0, HEADER_COPY as usize, PAGE as usize];
    copies.into_iter().filter_map(|at| copy_version(accel, bytes.get(at..)?)).max()
}
/// Bytes at the start of a file that [`format_of`] reads.
pub const FORMAT_BYTES: u64 = LONG_HEADER;
/// Newest store format that this program reads; it is also the one it writes.
pub const FORMAT: u32 = VERSION;

#[cfg(test)]
mod tests {
    use super::super::record::{Encoder, decode_whole};
    use super::*;

    fn accel() -> Accel {
        Accel::default()
    }

    #[test]
    fn file_header_survives_one_flipped_byte() {
        for len in [SHORT_HEADER, LONG_HEADER] {
            let header = FileHeader {
                file: 7,
                salt: 9,
                sequence: 3,
                last_bundle: 4,
                counter: 5,
                clean_below: 6,
                len: len as u32,
                remade: len == LONG_HEADER,
                nameless: false,
            };
            let mut bytes = BytesMut::new();
            header.encode(&accel(), &mut bytes);
            assert_eq!(bytes.len() as u64, len);
            assert_eq!(FileHeader::decode(&accel(), &bytes, 7), Some((header, true)));
            let copies = (0..HEADER_COPY).chain(len - HEADER_COPY..len);
            for at in copies.map(|at| at as usize) {
                bytes[at] ^= 0x40;
                assert_eq!(FileHeader::decode(&accel(), &bytes, 7), Some((header, false)), "byte {at}");
                bytes[at] ^= 0x40;
            }
            // One copy is enough.
            bytes[..(len - HEADER_COPY) as usize].fill(0);
            assert_eq!(FileHeader::decode(&accel(), &bytes, 7), Some((header, false)));
            assert_eq!(FileHeader::decode(&accel(), &bytes[..63], 7), None);
        }
    }

    #[test]
    fn recycled_header_survives_single_copy() {
        let headers = [7, 12].map(|file| {
            let header = FileHeader { file, salt: 9, len: LONG_HEADER as u32, ..FileHeader::default() };
            let mut bytes = BytesMut::new();
            header.encode(&accel(), &mut bytes);
            (header, bytes)
        });
        let [(before, old), (own, new)] = headers;
        let decode = |bytes: &[u8]| FileHeader::decode(&accel(), bytes, 12);
        assert_eq!(decode(&old), Some((before, false)), "the header of the original file");
        // A write may reach the disk in either order: the new copy before or behind the old one.
        let half = PAGE as usize;
        assert_eq!(decode(&[&new[..half], &old[half..]].concat()), Some((own, false)));
        assert_eq!(decode(&[&old[..half], &new[half..]].concat()), Some((own, false)));
        assert_eq!(decode(&new), Some((own, true)));
    }

    #[test]
    fn records_of_older_format_read() {
        let header = FileHeader { file: 7, salt: 9, len: SHORT_HEADER as u32, ..FileHeader::default() };
        let (mut bytes, mut record) = (BytesMut::new(), BytesMut::new());
        header.encode(&accel(), &mut bytes);
        for copy in bytes.chunks_mut(HEADER_COPY as usize) {
            copy[8] = VERSION_ONCE as u8;
            let crc = (accel().crc32c)(0, &copy[..60]);
            copy[60..].copy_from_slice(&crc.to_le_bytes());
        }
        assert_eq!(FileHeader::decode(&accel(), &bytes, 7), Some((FileHeader { nameless: true, ..header }, true)));
        // File number 0: the record names no file, as formats before 2 wrote it.
        Encoder { accel: &accel(), salt: 9, file: 0, out: &mut record }.counter(1, 5);
        assert!(decode_whole(&accel(), 9, 7, &record).is_some());
    }
}
