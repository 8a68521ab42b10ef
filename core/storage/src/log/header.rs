//! What a file begins with: a header in two copies, which says what the store knew when the file was made.

use super::record::Fields;
use bytes::{BufMut, Bytes, BytesMut};
use farlink_base::Accel;

/// Length of a file header: two copies, end to end.
pub(super) const SHORT_HEADER: u64 = 2 * HEADER_COPY;
/// Length of a file header: a copy, the rest of its page, and another copy.
pub(super) const LONG_HEADER: u64 = PAGE + HEADER_COPY;
/// What a disk loses at once.
const PAGE: u64 = 4096;
const HEADER_COPY: u64 = 64;
const FILE_MAGIC: &[u8; 8] = b"FarlinkS";
/// The format that is written; those from [`VERSION_ONCE`] on are read. Records of format 3 have a digest of what they keep.
const VERSION: u32 = 3;
/// Files of this version were never written over, and the records in them name no file.
const VERSION_ONCE: u32 = 1;
/// Flag of a file that was made of another.
const REMADE: u32 = 1;

/// What a file says of the store at the time it was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct FileHeader {
    pub file: u32,
    pub salt: u64,
    pub sequence: u64,
    pub last_bundle: u64,
    pub counter: u64,
    /// Every file numbered below was durable as a whole.
    pub clean_below: u32,
    /// Length of both copies with what is between them: where the records begin.
    pub len: u32,
    /// It was made of another file, whose bytes follow its own.
    pub remade: bool,
    /// Its records do not say which file they are of.
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
        out.put_bytes(0, (u64::from(self.len).saturating_sub(SHORT_HEADER)) as usize);
        out.put_slice(&copy);
    }
    /// The header of this file, and whether both copies are whole; or that of the file it was made of, where its own
    /// never reached the disk.
    pub fn decode(accel: &Accel, bytes: &[u8], file: u32) -> Option<(FileHeader, bool)> {
        let copy = |at: usize| Self::decode_copy(accel, bytes.get(at..at + HEADER_COPY as usize)?);
        let second = |len: u32| copy(len as usize - HEADER_COPY as usize);
        let first = copy(0);
        if let Some(first) = first.filter(|header| header.file == file) {
            return Some((first, second(first.len) == Some(first)));
        }
        let seconds = [SHORT_HEADER, LONG_HEADER].map(|len| second(len as u32).filter(|h| u64::from(h.len) == len));
        let found = || first.into_iter().chain(seconds.into_iter().flatten());
        Some((found().find(|header| header.file == file).or_else(|| found().next())?, false))
    }
    fn decode_copy(accel: &Accel, copy: &[u8]) -> Option<FileHeader> {
        let version = copy_version(accel, copy).filter(|version| (VERSION_ONCE..=VERSION).contains(version))?;
        let mut f = Fields(copy);
        f.take(12)?;
        let (file, salt, sequence) = (f.u32()?, f.u64()?, f.u64()?);
        let (last_bundle, counter, clean_below) = (f.u64()?, f.u64()?, f.u32()?);
        // Files of earlier versions say 0.
        let len = f.u32()?.clamp(SHORT_HEADER as u32, LONG_HEADER as u32);
        let (remade, nameless) = (f.u32()? & REMADE != 0, version == VERSION_ONCE);
        Some(FileHeader { file, salt, sequence, last_bundle, counter, clean_below, len, remade, nameless })
    }
}

/// The format of a whole copy of a header. Every format begins a copy with the magic and its number, makes it 64 bytes
/// long, and ends it with the checksum of the rest: so a newer one is told from damage.
fn copy_version(accel: &Accel, copy: &[u8]) -> Option<u32> {
    let mut f = Fields(copy.get(..HEADER_COPY as usize)?);
    if f.take(8)? != FILE_MAGIC {
        return None;
    }
    let version = f.u32()?;
    f.take(HEADER_COPY as usize - 16)?;
    (f.u32()? == (accel.crc32c)(0, &copy[..HEADER_COPY as usize - 4])).then_some(version)
}

/// Highest store format among the whole header copies that a file begins with; `None` where no copy is whole.
pub fn format_of(accel: &Accel, bytes: &[u8]) -> Option<u32> {
    let copies = [0, HEADER_COPY as usize, PAGE as usize];
    copies.into_iter().filter_map(|at| copy_version(accel, bytes.get(at..)?)).max()
}
/// Bytes at the beginning of a file that [`format_of`] looks at.
pub const FORMAT_BYTES: u64 = LONG_HEADER;
/// Newest store format that this program reads; it is the one that is written.
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
        assert_eq!(decode(&old), Some((before, false)), "the header of what it was");
        let half = PAGE as usize;
        assert_eq!(decode(&[&new[..half], &old[half..]].concat()), Some((own, false)));
        assert_eq!(decode(&[&old[..half], &new[half..]].concat()), Some((own, false)));
        assert_eq!(decode(&new), Some((own, true)));
    }

    #[test]
    fn records_of_older_format_are_read() {
        let header = FileHeader { file: 7, salt: 9, len: SHORT_HEADER as u32, ..FileHeader::default() };
        let (mut bytes, mut record) = (BytesMut::new(), BytesMut::new());
        header.encode(&accel(), &mut bytes);
        for copy in bytes.chunks_mut(HEADER_COPY as usize) {
            copy[8] = VERSION_ONCE as u8;
            let crc = (accel().crc32c)(0, &copy[..60]);
            copy[60..].copy_from_slice(&crc.to_le_bytes());
        }
        assert_eq!(FileHeader::decode(&accel(), &bytes, 7), Some((FileHeader { nameless: true, ..header }, true)));
        Encoder { accel: &accel(), salt: 9, file: 0, out: &mut record }.counter(1, 5);
        assert!(decode_whole(&accel(), 9, 7, &record).is_some());
    }
}
