//! Record format: record headers, their meta parts and data, each with its own checksum.
//!
//! A file is a header and records end to end. The header has two copies, so that one flipped byte costs nothing; in
//! all but small files they lie a page apart, so that a lost page costs no more than its content. A record is a
//! 48-byte header, its meta part (index entry, head, tail, checksums of the data) and its data (payload bytes). Every
//! record header carries the store's salt: payload bytes that look like a record, placed there by the sender of a
//! bundle, are not mistaken for one when reading resynchronises after damage. It also carries the number of its file:
//! files are written over once their content is gone, and numbers are not used again, so that a recycled file's old
//! content is not mistaken for its new content.

use alloc::boxed::Box;
use alloc::vec::Vec;
use bytes::{BufMut, Bytes, BytesMut};
use farlink_base::store::{IndexEntry, Remembered};
use farlink_base::{Accel, BundleHandle, Chunk, DtnTime, Extent, Payload, Priority};

/// Bytes of data per checksum, so that a part of it can be read and checked.
pub(super) const CHUNK: u64 = 256 * 1024;
/// Length of a record header.
pub(super) const RECORD_HEADER: u64 = 48;
/// Longest meta part, bytes; bounds the reads of recovery.
pub(super) const META_MAX: u64 = 16 << 20;
pub(super) const RECORD_MAGIC: &[u8; 4] = b"FLr1";

/// Place of a record and the lengths of its parts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Loc {
    pub file: u32,
    pub offset: u64,
    pub meta: u32,
    pub data: u64,
}
impl Loc {
    /// Length of the whole record, bytes.
    pub fn size(&self) -> u64 {
        RECORD_HEADER + u64::from(self.meta) + self.data
    }
    /// Offset of its data in the file.
    pub fn data_offset(&self) -> u64 {
        self.offset + RECORD_HEADER + u64::from(self.meta)
    }
}

/// Kind of a record; the numbers are part of the format.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(super) enum RecordKind {
    Bundle = 1,
    Delete = 2,
    Counter = 3,
    Spill = 4,
}

/// The fixed part of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct RecordHeader {
    pub kind: RecordKind,
    /// File it was written to; 0 in records of format 1, which name none.
    pub file: u32,
    pub salt: u64,
    pub sequence: u64,
    pub meta: u32,
    pub meta_crc: u32,
    pub data: u64,
}
impl RecordHeader {
    /// The header's 48 bytes.
    pub fn encode(&self, accel: &Accel) -> [u8; RECORD_HEADER as usize] {
        let mut b = [0; RECORD_HEADER as usize];
        b[0..4].copy_from_slice(RECORD_MAGIC);
        b[4] = self.kind as u8;
        b[8..16].copy_from_slice(&self.salt.to_le_bytes());
        b[16..24].copy_from_slice(&self.sequence.to_le_bytes());
        b[24..28].copy_from_slice(&self.meta.to_le_bytes());
        b[28..32].copy_from_slice(&self.meta_crc.to_le_bytes());
        b[32..40].copy_from_slice(&self.data.to_le_bytes());
        b[40..44].copy_from_slice(&self.file.to_le_bytes());
        let crc = (accel.crc32c)(0, &b[..44]);
        b[44..48].copy_from_slice(&crc.to_le_bytes());
        b
    }
    /// Decodes a header at the start of `bytes`, which were read from `file`; a known `salt` must match.
    pub fn decode(accel: &Accel, salt: Option<u64>, file: u32, bytes: &[u8]) -> Option<RecordHeader> {
        let bytes = bytes.get(..RECORD_HEADER as usize)?;
        let mut f = FieldReader(bytes);
        if f.take(4)? != RECORD_MAGIC {
            return None;
        }
        let kind = match f.u8()? {
            1 => RecordKind::Bundle,
            2 => RecordKind::Delete,
            3 => RecordKind::Counter,
            4 => RecordKind::Spill,
            _ => return None,
        };
        f.take(3)?;
        let mut header = RecordHeader {
            kind,
            file,
            salt: f.u64()?,
            sequence: f.u64()?,
            meta: f.u32()?,
            meta_crc: f.u32()?,
            data: f.u64()?,
        };
        header.file = f.u32()?;
        let whole = f.u32()? == (accel.crc32c)(0, &bytes[..44]);
        // Records of format 1 name no file (0).
        let here = header.file == file || header.file == 0;
        let ours = here && salt.is_none_or(|salt| salt == header.salt) && u64::from(header.meta) <= META_MAX;
        (whole && ours).then_some(header)
    }
    /// Place of the record, given the place of its header.
    pub fn loc(&self, file: u32, offset: u64) -> Loc {
        Loc { file, offset, meta: self.meta, data: self.data }
    }
}

/// Offset of the next complete record header of this file at or after `from`.
pub(super) fn find_header(accel: &Accel, salt: Option<u64>, file: u32, bytes: &[u8], from: usize) -> Option<usize> {
    let last = bytes.len().checked_sub(RECORD_HEADER as usize)?;
    let mut at = from;
    while at <= last {
        at += bytes[at..=last].iter().position(|b| *b == RECORD_MAGIC[0])?;
        // Bytes of a payload may begin like a record; salt and checksum decide.
        if bytes[at..].starts_with(RECORD_MAGIC) && RecordHeader::decode(accel, salt, file, &bytes[at..]).is_some() {
            return Some(at);
        }
        at += 1;
    }
    None
}

/// A part of a payload as listed in a bundle record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum PayloadPiece {
    /// The next bytes of the record's own data.
    Inline { len: u64 },
    /// Bytes of a spill.
    Spill { spill: u64, offset: u64, len: u64 },
    /// A pattern ([`Chunk::Fill`]).
    Fill { seed: u64, offset: u64, len: u64 },
}

/// Lists the parts of a payload; `None` if it refers to extents that are no spill.
pub(super) fn pieces(payload: &Payload) -> Option<Vec<PayloadPiece>> {
    let mut out: Vec<PayloadPiece> = Vec::with_capacity(1);
    for chunk in payload.chunks() {
        match (chunk, out.last_mut()) {
            (Chunk::Bytes(bytes), Some(PayloadPiece::Inline { len })) => *len += bytes.len() as u64,
            (Chunk::Bytes(bytes), _) => out.push(PayloadPiece::Inline { len: bytes.len() as u64 }),
            (Chunk::Fill { seed, offset, len }, _) => {
                out.push(PayloadPiece::Fill { seed: *seed, offset: *offset, len: *len });
            }
            (Chunk::Stored { extent, len }, _) => {
                let spill = extent.record.checked_sub(Extent::SPILL)?;
                out.push(PayloadPiece::Spill { spill, offset: extent.offset, len: *len });
            }
        }
    }
    Some(out)
}

/// A bundle that is not written yet.
#[derive(Clone, Debug)]
pub(super) struct BundleDraft {
    pub index: IndexEntry,
    pub head: Bytes,
    pub payload: Payload,
    pub pieces: Vec<PayloadPiece>,
    pub tail: Bytes,
    /// Failed commits of this bundle.
    pub attempts: u8,
}
impl BundleDraft {
    /// Length of its record.
    pub fn record_len(&self) -> u64 {
        let data = self.payload.resident_len();
        let (head, tail) = (self.head.len() as u64, self.tail.len() as u64);
        RECORD_HEADER + bundle_meta_len(head, tail, self.pieces.len(), data) + data
    }
    /// Length of the bundle.
    pub fn bundle_len(&self) -> u64 {
        self.head.len() as u64 + self.payload.len() + self.tail.len() as u64
    }
}

/// Meta part of a bundle record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct BundleMeta {
    pub bundle: BundleHandle,
    pub index: IndexEntry,
    pub pieces: Vec<PayloadPiece>,
    pub crcs: Box<[u32]>,
    pub head: Bytes,
    pub tail: Bytes,
}
/// Meta part of a delete record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct DeleteMeta {
    pub bundle: BundleHandle,
    pub remember: Option<Remembered>,
}
/// Meta part of a spill record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct SpillMeta {
    pub spill: u64,
    pub start: u64,
    pub crcs: Box<[u32]>,
}

const BUNDLE_FIXED: u64 = 8 + 4 + 1 + 1 + 4 * 8 + 16 + 8 + 3 * 4;
const PIECE: u64 = 1 + 3 * 8;
const DELETE_META: u64 = 8 + 1 + 16 + 8 + 8;
/// Bit of a bundle or delete record's field mask: the record has a digest of format 3, which can no longer be compared.
/// Records of earlier formats have none.
const HAS_OLD_DIGEST: u8 = 4;
/// Bit of a bundle or delete record's field mask: the record has a digest.
const HAS_DIGEST: u8 = 16;
/// Bit of a bundle record's field mask: the field for the time of storing holds the operating time, not wall time.
const HAS_RAN: u8 = 8;

fn crc_table(data: u64) -> u64 {
    4 * data.div_ceil(CHUNK)
}
/// Length of the meta part of a bundle record.
pub(super) fn bundle_meta_len(head: u64, tail: u64, pieces: usize, data: u64) -> u64 {
    BUNDLE_FIXED + PIECE * pieces as u64 + crc_table(data) + head + tail
}
/// Length of a delete record.
pub(super) const DELETE_RECORD: u64 = RECORD_HEADER + DELETE_META;
/// Length of a counter record.
pub(super) const COUNTER_RECORD: u64 = RECORD_HEADER + 8;
/// Length of a spill record for this much data.
pub(super) fn spill_record_len(data: u64) -> u64 {
    RECORD_HEADER + 16 + crc_table(data) + data
}

/// Writes records into a buffer.
pub(super) struct Encoder<'a> {
    pub accel: &'a Accel,
    pub salt: u64,
    /// File the records are for.
    pub file: u32,
    pub out: &'a mut BytesMut,
}
impl Encoder<'_> {
    fn record(&mut self, kind: RecordKind, sequence: u64, data: u64, meta: impl FnOnce(&mut BytesMut)) -> RecordHeader {
        let start = self.out.len();
        // The header is filled in once the meta part's length and checksum are known.
        self.out.put_bytes(0, RECORD_HEADER as usize);
        let meta_start = self.out.len();
        meta(self.out);
        let meta = &self.out[meta_start..];
        let header = RecordHeader {
            kind,
            file: self.file,
            salt: self.salt,
            sequence,
            meta: meta.len() as u32,
            meta_crc: (self.accel.crc32c)(0, meta),
            data,
        };
        self.out[start..meta_start].copy_from_slice(&header.encode(self.accel));
        header
    }
    /// Encodes a bundle record; the payload's bytes in memory follow as its data.
    pub fn bundle(&mut self, sequence: u64, bundle: BundleHandle, draft: &BundleDraft) -> RecordHeader {
        let accel = self.accel;
        let BundleDraft { index, head, payload, pieces, tail, .. } = draft;
        self.record(RecordKind::Bundle, sequence, payload.resident_len(), |out| {
            out.put_u64_le(bundle.0);
            out.put_u32_le(index.flags);
            out.put_u8(index.priority.number());
            // One field holds either time: wall time wins.
            let ran = index.ran_ms.filter(|_| index.stored_at.is_none());
            let has = u8::from(index.expires.is_some()) | u8::from(index.stored_at.is_some()) << 1;
            out.put_u8(has | HAS_DIGEST | ran.map_or(0, |_| HAS_RAN));
            out.put_u64_le(index.expires.unwrap_or_default().0);
            out.put_u64_le(index.stored_at.map_or(ran.unwrap_or(0), |time| time.0));
            out.put_u64_le(index.age_ms);
            out.put_u64_le(index.quota);
            out.put_u128_le(index.fingerprint);
            out.put_u64_le(index.digest);
            out.put_u32_le(head.len() as u32);
            out.put_u32_le(tail.len() as u32);
            out.put_u32_le(pieces.len() as u32);
            for piece in pieces {
                let (kind, a, b, len) = match *piece {
                    PayloadPiece::Inline { len } => (0, 0, 0, len),
                    PayloadPiece::Spill { spill, offset, len } => (1, spill, offset, len),
                    PayloadPiece::Fill { seed, offset, len } => (2, seed, offset, len),
                };
                out.put_u8(kind);
                out.put_u64_le(a);
                out.put_u64_le(b);
                out.put_u64_le(len);
            }
            put_crcs(accel, payload, out);
            out.put_slice(head);
            out.put_slice(tail);
        })
    }
    /// Encodes a delete record, with the delivery to remember if there is one.
    pub fn delete(&mut self, sequence: u64, bundle: BundleHandle, remember: Option<Remembered>) -> RecordHeader {
        self.record(RecordKind::Delete, sequence, 0, |out| {
            out.put_u64_le(bundle.0);
            out.put_u8(u8::from(remember.is_some()) | HAS_DIGEST);
            out.put_u128_le(remember.map_or(0, |r| r.fingerprint));
            out.put_u64_le(remember.map_or(0, |r| r.until.0));
            out.put_u64_le(remember.map_or(0, |r| r.content));
        })
    }
    /// Encodes a counter record.
    pub fn counter(&mut self, sequence: u64, value: u64) -> RecordHeader {
        self.record(RecordKind::Counter, sequence, 0, |out| out.put_u64_le(value))
    }
    /// Encodes a spill record's header and meta part; the data follow.
    pub fn spill(&mut self, sequence: u64, spill: u64, start: u64, data: &Payload) -> RecordHeader {
        let accel = self.accel;
        self.record(RecordKind::Spill, sequence, data.len(), |out| {
            out.put_u64_le(spill);
            out.put_u64_le(start);
            put_crcs(accel, data, out);
        })
    }
}

/// Appends the checksums of the rope's bytes in memory, one for each [`CHUNK`].
fn put_crcs(accel: &Accel, data: &Payload, out: &mut BytesMut) {
    let mut summing = ChunkSums::default();
    for chunk in data.chunks() {
        if let Chunk::Bytes(bytes) = chunk {
            summing.add(accel, bytes, |crc| out.put_u32_le(crc));
        }
    }
    if let Some(crc) = summing.finish() {
        out.put_u32_le(crc);
    }
}

/// A running checksum, cut at every [`CHUNK`].
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct ChunkSums {
    crc: u32,
    filled: u64,
}
impl ChunkSums {
    /// Continues over `bytes` and passes each full chunk's checksum to `each`.
    pub fn add(&mut self, accel: &Accel, mut bytes: &[u8], mut each: impl FnMut(u32)) {
        while !bytes.is_empty() {
            let n = ((CHUNK - self.filled) as usize).min(bytes.len());
            self.crc = (accel.crc32c)(self.crc, &bytes[..n]);
            self.filled += n as u64;
            bytes = &bytes[n..];
            if self.filled == CHUNK {
                each(self.crc);
                *self = ChunkSums::default();
            }
        }
    }
    /// Checksum of the last, short chunk; `None` if all chunks were full.
    pub fn finish(self) -> Option<u32> {
        (self.filled > 0).then_some(self.crc)
    }
}

/// Whether `bytes`, which start at a chunk boundary, have these checksums.
pub(super) fn chunks_match(accel: &Accel, bytes: &[u8], crcs: &[u32]) -> bool {
    bytes.len().div_ceil(CHUNK as usize) == crcs.len()
        && bytes.chunks(CHUNK as usize).zip(crcs).all(|(chunk, crc)| (accel.crc32c)(0, chunk) == *crc)
}

/// A decoded meta part.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Meta {
    Bundle(BundleMeta),
    Delete(DeleteMeta),
    Counter(u64),
    Spill(SpillMeta),
}
impl Meta {
    /// Decodes the meta part of a record whose header was read; `None` if it is damaged. Head and tail are copied, so
    /// that they do not keep the read buffer alive.
    pub fn decode(accel: &Accel, header: &RecordHeader, bytes: &[u8]) -> Option<Meta> {
        let bytes = bytes.get(..header.meta as usize)?;
        if (accel.crc32c)(0, bytes) != header.meta_crc {
            return None;
        }
        let mut f = FieldReader(bytes);
        Some(match header.kind {
            RecordKind::Bundle => Meta::Bundle(f.bundle(header.data)?),
            RecordKind::Delete => Meta::Delete(f.delete()?),
            RecordKind::Counter => Meta::Counter(f.u64()?),
            RecordKind::Spill => {
                Meta::Spill(SpillMeta { spill: f.u64()?, start: f.u64()?, crcs: f.crcs(header.data)? })
            }
        })
    }
    /// The bundle that the record concerns, if any.
    pub fn bundle(&self) -> Option<BundleHandle> {
        match self {
            Meta::Bundle(meta) => Some(meta.bundle),
            Meta::Delete(meta) => Some(meta.bundle),
            Meta::Counter(_) | Meta::Spill(_) => None,
        }
    }
    /// Checksums of the data.
    pub fn crcs(&self) -> &[u32] {
        match self {
            Meta::Bundle(meta) => &meta.crcs,
            Meta::Spill(meta) => &meta.crcs,
            Meta::Delete(_) | Meta::Counter(_) => &[],
        }
    }
}
/// Decodes one whole, undamaged record of this file.
pub(super) fn decode_whole(accel: &Accel, salt: u64, file: u32, bytes: &[u8]) -> Option<(RecordHeader, Meta)> {
    let header = RecordHeader::decode(accel, Some(salt), file, bytes)?;
    let meta = Meta::decode(accel, &header, bytes.get(RECORD_HEADER as usize..)?)?;
    let data = bytes.get(RECORD_HEADER as usize + header.meta as usize..)?;
    (data.len() as u64 == header.data && chunks_match(accel, data, meta.crcs())).then_some((header, meta))
}

/// Reads little-endian fields from the front.
pub(super) struct FieldReader<'a>(pub &'a [u8]);
impl<'a> FieldReader<'a> {
    pub fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(n)?;
        self.0 = rest;
        Some(taken)
    }
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }
    fn u8(&mut self) -> Option<u8> {
        Some(self.array::<1>()?[0])
    }
    pub fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.array()?))
    }
    pub fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.array()?))
    }
    fn u128(&mut self) -> Option<u128> {
        Some(u128::from_le_bytes(self.array()?))
    }
    fn crcs(&mut self, data: u64) -> Option<Box<[u32]>> {
        let table = self.take(usize::try_from(crc_table(data)).ok()?)?;
        Some(table.as_chunks::<4>().0.iter().map(|c| u32::from_le_bytes(*c)).collect())
    }
    fn bundle(&mut self, data: u64) -> Option<BundleMeta> {
        let bundle = BundleHandle(self.u64()?);
        let flags = self.u32()?;
        let priority = Priority::from_number(self.u8()?);
        let has = self.u8()?;
        let (expires, stored_at) = (DtnTime(self.u64()?), DtnTime(self.u64()?));
        let index = IndexEntry {
            priority,
            expires: (has & 1 != 0).then_some(expires),
            stored_at: (has & 2 != 0).then_some(stored_at),
            ran_ms: (has & HAS_RAN != 0).then_some(stored_at.0),
            age_ms: self.u64()?,
            quota: self.u64()?,
            fingerprint: self.u128()?,
            flags,
            digest: self.digest(has)?,
        };
        let (head, tail, count) = (self.u32()? as usize, self.u32()? as usize, self.u32()? as usize);
        // A damaged count must not reserve more memory than the bytes could hold.
        let mut pieces = Vec::with_capacity(count.min(self.0.len() / PIECE as usize));
        for _ in 0..count {
            let (kind, a, b, len) = (self.u8()?, self.u64()?, self.u64()?, self.u64()?);
            pieces.push(match kind {
                0 => PayloadPiece::Inline { len },
                1 => PayloadPiece::Spill { spill: a, offset: b, len },
                2 => PayloadPiece::Fill { seed: a, offset: b, len },
                _ => return None,
            });
        }
        let crcs = self.crcs(data)?;
        let head = Bytes::copy_from_slice(self.take(head)?);
        let tail = Bytes::copy_from_slice(self.take(tail)?);
        Some(BundleMeta { bundle, index, pieces, crcs, head, tail })
    }
    /// Reads the digest if the record's field mask has one; 0 without one, or for one of format 3.
    fn digest(&mut self, has: u8) -> Option<u64> {
        let field = if has & (HAS_DIGEST | HAS_OLD_DIGEST) != 0 { self.u64()? } else { 0 };
        Some(if has & HAS_DIGEST != 0 { field } else { 0 })
    }
    fn delete(&mut self) -> Option<DeleteMeta> {
        let bundle = BundleHandle(self.u64()?);
        let has = self.u8()?;
        let (fingerprint, until) = (self.u128()?, DtnTime(self.u64()?));
        let content = self.digest(has)?;
        let remembered = Remembered { fingerprint, until, content };
        Some(DeleteMeta { bundle, remember: (has & 1 != 0).then_some(remembered) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farlink_base::Rng;

    fn accel() -> Accel {
        Accel::default()
    }
    fn index(rng: &mut Rng) -> IndexEntry {
        let time = rng.chance(0.7).then(|| rng.next_u64());
        let (stored_at, ran_ms) = if rng.chance(0.7) { (time.map(DtnTime), None) } else { (None, time) };
        IndexEntry {
            priority: Priority::from_number(rng.below(3) as u8),
            expires: rng.chance(0.5).then(|| DtnTime(rng.next_u64())),
            stored_at,
            ran_ms,
            age_ms: rng.next_u64(),
            quota: rng.next_u64(),
            fingerprint: u128::from(rng.next_u64()) << 64 | u128::from(rng.next_u64()),
            flags: rng.next_u64() as u32,
            digest: rng.next_u64(),
        }
    }

    #[test]
    fn digest_of_format_3_is_unknown() {
        let remembered = Remembered { fingerprint: 7, until: DtnTime(9), content: 11 };
        let mut out = BytesMut::new();
        Encoder { accel: &accel(), salt: 9, file: 7, out: &mut out }.delete(1, BundleHandle(5), Some(remembered));
        let mut meta = out[RECORD_HEADER as usize..].to_vec();
        let read = |meta: &[u8]| FieldReader(meta).delete().and_then(|meta| meta.remember);
        assert_eq!(read(&meta), Some(remembered));
        assert_eq!(meta[8], 1 | HAS_DIGEST, "behind the bundle's number");
        meta[8] = 1 | HAS_OLD_DIGEST;
        assert_eq!(read(&meta), Some(Remembered { content: 0, ..remembered }));
    }

    #[test]
    fn encoded_records_decode_with_predicted_length() {
        let mut rng = Rng::new(5);
        for _ in 0..200 {
            let mut payload = Payload::new();
            // Up to three checksum chunks.
            let data: Vec<u8> = (0..rng.below(700_000)).map(|n| n as u8).collect();
            payload.push_bytes(data.clone().into());
            payload.push(Chunk::Fill { seed: 2, offset: 1, len: rng.below(9) });
            let extent = Extent { record: Extent::SPILL | 3, offset: 8 };
            payload.push(Chunk::Stored { extent, len: rng.below(9) });
            let (head, tail) = (alloc::vec![1; rng.below(200) as usize], alloc::vec![2; rng.below(9) as usize]);
            let (parts, entry) = (pieces(&payload).unwrap(), index(&mut rng));
            let mut out = BytesMut::new();
            let accel = accel();
            let mut encoder = Encoder { accel: &accel, salt: 77, file: 6, out: &mut out };
            let draft = BundleDraft {
                index: entry,
                head: head.clone().into(),
                payload,
                pieces: parts.clone(),
                tail: tail.clone().into(),
                attempts: 0,
            };
            let header = encoder.bundle(11, BundleHandle(4), &draft);
            out.put_slice(&data);
            assert_eq!(out.len() as u64, draft.record_len());
            let (again, meta) = decode_whole(&accel, 77, 6, &out).unwrap();
            let Meta::Bundle(meta) = meta else { unreachable!() };
            assert_eq!((again, meta.index, meta.pieces), (header, entry, parts));
            assert_eq!((&meta.head[..], &meta.tail[..]), (&head[..], &tail[..]));
            assert!(decode_whole(&accel, 78, 6, &out).is_none(), "another store's salt");
            assert!(decode_whole(&accel, 77, 7, &out).is_none(), "another file's record");
        }
    }

    #[test]
    fn small_records_detect_any_flipped_byte() {
        let accel = accel();
        let remember = Some(Remembered { fingerprint: 1 << 100, until: DtnTime(9), content: 7 });
        let mut out = BytesMut::new();
        let mut encoder = Encoder { accel: &accel, salt: 1, file: 6, out: &mut out };
        encoder.delete(5, BundleHandle(6), remember);
        assert_eq!(out.len() as u64, DELETE_RECORD);
        let decoded = decode_whole(&accel, 1, 6, &out).unwrap();
        assert_eq!(decoded.1, Meta::Delete(DeleteMeta { bundle: BundleHandle(6), remember }));
        for at in 0..out.len() {
            out[at] ^= 1;
            assert_eq!(decode_whole(&accel, 1, 6, &out), None, "byte {at}");
            out[at] ^= 1;
        }
        let data = Payload::from(&b"spilled"[..]);
        let mut out = BytesMut::new();
        let mut encoder = Encoder { accel: &accel, salt: 1, file: 6, out: &mut out };
        encoder.counter(1, 42);
        encoder.spill(2, 3, 4, &data);
        assert_eq!(out.len() as u64 + 7, COUNTER_RECORD + spill_record_len(7));
        assert_eq!(find_header(&accel, Some(1), 6, &out, 1), Some(COUNTER_RECORD as usize));
        assert_eq!(find_header(&accel, Some(2), 6, &out, 0), None);
    }

    #[test]
    fn foreign_extents_are_not_taken() {
        let mut payload = Payload::new();
        payload.push(Chunk::Stored { extent: Extent { record: 3, offset: 0 }, len: 1 });
        assert_eq!(pieces(&payload), None);
    }
}
