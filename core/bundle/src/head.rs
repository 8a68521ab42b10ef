//! Parser of all blocks before the payload, in one pass over a contiguous slice (RFC 9171 4.3). It fills both
//! representations of a bundle: [`crate::Bundle`] and [`crate::v7`].

use crate::cbor::{BREAK, CborReader, head_len};
use crate::check::PayloadCheck;
use crate::fields::{BlockStart, read_block_start, read_data, read_end, read_primary};
use crate::{BlockData, BlockFlags, BundleFlags, CrcType, Primary, Profile};
use alloc::vec::Vec;
use core::ops::Range;
use farlink_base::{Accel, Bytes, BytesMut, Chunk, DtnTime, Malformed, Payload};

/// Maximum length of the bytes before the payload. It bounds the work for a bundle that is not yet checked; peers send
/// less than a tenth of it.
pub const MAX_HEAD_BYTES: usize = 64 << 10;
/// Part of [`MAX_HEAD_BYTES`] reserved for blocks that hops write, so that the next node accepts every bundle that this
/// one accepts.
pub(crate) const HOP_BYTES: usize = 4 << 10;
/// Maximum number of extension blocks in a bundle, not counting those that hops write.
pub const MAX_EXTENSION_BLOCKS: usize = 128;

/// Bytes examined after a payload; a valid end has fewer.
const TAIL: usize = 16;

pub(crate) const NOT_A_BUNDLE: &str = "a BPv7 bundle begins with the byte 9f";

/// Error of parsing a head.
pub(crate) enum HeadError {
    /// The bytes end too early; more bytes may help.
    Short(Malformed),
    /// Malformed; more bytes cannot help.
    Bad(Malformed),
}
impl HeadError {
    pub(crate) fn error(self) -> Malformed {
        match self {
            HeadError::Short(error) | HeadError::Bad(error) => error,
        }
    }
}
impl From<Malformed> for HeadError {
    fn from(error: Malformed) -> HeadError {
        HeadError::Bad(error)
    }
}

/// Calls `read` with the first chunk of the rope; if that is too short, again with a copy of the bytes in memory. Each
/// input is limited to [`MAX_HEAD_BYTES`].
pub(crate) fn with_head<T>(
    rope: &Payload,
    mut read: impl FnMut(&[u8]) -> Result<T, HeadError>,
) -> Result<T, HeadError> {
    let first = match rope.chunks().first() {
        Some(Chunk::Bytes(bytes)) => &bytes[..bytes.len().min(MAX_HEAD_BYTES)],
        Some(_) => {
            return Err(HeadError::Bad(Malformed { offset: 0, reason: "the bundle's first block is not in memory" }));
        }
        None => return Err(HeadError::Short(Malformed { offset: 0, reason: "no bytes at all" })),
    };
    match read(first) {
        Err(HeadError::Short(_)) if first.len() < MAX_HEAD_BYTES && (first.len() as u64) < rope.len() => {}
        Err(HeadError::Short(error)) if first.len() == MAX_HEAD_BYTES => return Err(too_long(error)),
        other => return other,
    }
    // The head is spread over several chunks: copy it once and parse again.
    let gathered = gather(rope);
    match read(&gathered) {
        Err(HeadError::Short(error)) if gathered.len() == MAX_HEAD_BYTES => Err(too_long(error)),
        // The rest of the head is not in memory: more bytes cannot help.
        Err(HeadError::Short(error)) if (gathered.len() as u64) < rope.len() => Err(HeadError::Bad(error)),
        other => other,
    }
}

/// Replaces the bytes in the range `at` of a bundle; all bytes up to the end of the replacement become one chunk.
pub(crate) fn spliced(bundle: &Payload, at: Range<usize>, with: &[u8]) -> Payload {
    let mut head = BytesMut::zeroed(at.start);
    bundle.copy_to(0, &mut head);
    head.extend_from_slice(with);
    let mut spliced = Payload::from(head.freeze());
    spliced.append(bundle.slice(at.end as u64, u64::MAX));
    spliced
}

fn too_long(error: Malformed) -> HeadError {
    HeadError::Bad(Malformed { reason: "the blocks before the payload are longer than 64 KiB", ..error })
}

/// Copies the first bytes of the rope, up to the limit of heads or to the first chunk not in memory.
fn gather(rope: &Payload) -> Bytes {
    let resident = rope.chunks().iter().take_while(|chunk| matches!(chunk, Chunk::Bytes(_)));
    let len = resident.map(Chunk::len).sum::<u64>().min(MAX_HEAD_BYTES as u64);
    let mut out = BytesMut::zeroed(len as usize);
    rope.copy_to(0, &mut out);
    out.freeze()
}

/// Extension block in place, not copied.
pub(crate) struct Block<'a> {
    pub(crate) fields: BlockStart,
    /// Block-type-specific data, as encoded.
    pub(crate) data: &'a [u8],
    /// Parsed data; `None` for unknown types.
    pub(crate) meaning: Option<BlockData>,
    /// Byte range of the block in the bundle.
    pub(crate) span: Range<usize>,
}

/// Parsed head of a bundle, up to the payload's first byte. Positions are offsets into the bundle.
pub(crate) struct BundleHead {
    pub(crate) primary: Primary,
    pub(crate) primary_end: usize,
    pub(crate) payload_block: usize,
    pub(crate) payload_flags: BlockFlags,
    pub(crate) payload_crc: CrcType,
    /// Whether the payload block is an array of indefinite length.
    pub(crate) payload_open: bool,
    /// Whether this node would encode the payload block's head identically.
    pub(crate) canonical: bool,
    pub(crate) data: usize,
    pub(crate) data_len: u64,
}

impl BundleHead {
    /// Parses a head and passes each extension block to `visit`.
    pub(crate) fn parse<'a>(
        bytes: &'a [u8],
        profile: Profile,
        accel: &Accel,
        visit: &mut impl FnMut(Block<'a>),
    ) -> Result<BundleHead, HeadError> {
        let reader = CborReader::new(bytes, 0, profile == Profile::Strict);
        let mut walk = HeadWalk {
            reader,
            bytes,
            profile,
            accel,
            numbers: BlockNumbers::default(),
            blocks: 0,
            hop_bytes: 0,
            labels: false,
            unvouched: false,
            once: 0,
            reports: false,
            integrity: false,
        };
        walk.head(visit)
            .map_err(|error| if walk.reader.ran_short() { HeadError::Short(error) } else { HeadError::Bad(error) })
    }

    /// Check of the payload and the bytes after it.
    pub(crate) fn check(&self, bytes: &[u8], accel: &Accel) -> PayloadCheck {
        let how = (self.payload_crc, self.payload_open);
        PayloadCheck::new(how, &bytes[self.payload_block..self.data], self.data as u64, self.data_len, accel)
    }

    /// Payload of a rope that holds the whole bundle, and the value of its CRC, which is checked if every byte is in
    /// memory. Bytes after the bundle are an error.
    pub(crate) fn payload(&self, rope: &Payload, bytes: &[u8], accel: &Accel) -> Result<(Payload, u32), Malformed> {
        let Some(end) = (self.data as u64).checked_add(self.data_len).filter(|end| *end < rope.len()) else {
            return Err(Malformed { offset: rope.len(), reason: "the payload is longer than the received bytes" });
        };
        let payload = rope.slice(self.data as u64, self.data_len);
        if let [Chunk::Bytes(all)] = rope.chunks() {
            // Fast path: head and payload are one slice and pass the CRC in one call.
            let (block, tail) = all.split_at(end as usize);
            let how = (self.payload_crc, self.payload_open);
            let check = PayloadCheck::whole(how, &block[self.payload_block..], self.data as u64, self.data_len, accel);
            return Ok((payload, check.finish(&tail[..tail.len().min(TAIL)])?));
        }
        let mut tail = [0u8; TAIL];
        let copied = rope.copy_to(end, &mut tail);
        let mut check = self.check(bytes, accel);
        check.update_rope(&payload);
        Ok((payload, check.finish(&tail[..copied])?))
    }
}

/// Block numbers seen so far; few bundles have one above 63.
#[derive(Default)]
pub(crate) struct BlockNumbers {
    low: u64,
    high: Vec<u64>,
}
impl BlockNumbers {
    /// Adds a number. Returns whether it is new.
    pub(crate) fn insert(&mut self, number: u64) -> bool {
        if number < 64 {
            let new = self.low & 1 << number == 0;
            self.low |= 1 << number;
            return new;
        }
        let new = !self.high.contains(&number);
        if new {
            self.high.push(number);
        }
        new
    }
    /// Returns the smallest unused number, at least 2, and marks it as used.
    pub(crate) fn take_free(&mut self) -> u64 {
        // Numbers 0 and 1 are those of the primary and the payload block.
        let mut free = u64::from((self.low | 3).trailing_ones());
        while !self.insert(free) {
            free += 1;
        }
        free
    }
}

struct HeadWalk<'a, 'b> {
    reader: CborReader<'a>,
    bytes: &'a [u8],
    profile: Profile,
    accel: &'b Accel,
    numbers: BlockNumbers,
    /// Number of extension blocks other than those that hops write.
    blocks: usize,
    /// Bytes of blocks that hops write.
    hop_bytes: usize,
    /// Whether a labels block was seen.
    labels: bool,
    /// Whether an unvouched block was seen.
    unvouched: bool,
    /// Bit set of the types 6, 7 and 10 seen.
    once: u16,
    /// Whether some block requests reports.
    reports: bool,
    /// Whether an integrity block protects the primary block.
    integrity: bool,
}

impl<'a> HeadWalk<'a, '_> {
    // 9171-4.1-1, 9171-4.1-3, 9171-4.1-4, 9171-4.1-5, 9171-4.1-6, 9171-4.3.2-4
    fn head(&mut self, visit: &mut impl FnMut(Block<'a>)) -> Result<BundleHead, Malformed> {
        match self.reader.take(1)? {
            [0x9f] => {}
            [6] => return self.reader.error_at(0, "the first byte is that of a BPv6 bundle"),
            _ => return self.reader.error_at(0, NOT_A_BUNDLE),
        }
        let primary = read_primary(&mut self.reader, self.bytes, self.profile, self.accel)?;
        let primary_end = self.reader.position();
        if let Some(place) = primary.fragment {
            // Offset and total length were added by the node that fragmented the bundle, so they do not count against
            // the source's limit.
            self.hop_bytes += (head_len(place.offset) + head_len(place.total)) as usize;
        }
        loop {
            let start = self.reader.position();
            if self.reader.peek() == Some(BREAK) {
                return self.reader.error("the bundle has no payload block");
            }
            // Forget longer heads of earlier blocks: only the payload block's matter below.
            self.reader.take_lax();
            let fields = read_block_start(&mut self.reader, self.profile)?;
            self.reports |= fields.flags.has(BlockFlags::REPORT);
            if fields.number != 1 {
                visit(self.extension(start, fields)?);
                continue;
            }
            let data_len = self.reader.bytes_head()?;
            // Hop-written bytes do not count, so that the limit stays the same from node to node.
            if start - self.hop_bytes > MAX_HEAD_BYTES - HOP_BYTES {
                return self.reader.error_at(start, "the blocks before the payload leave no room for hops in 64 KiB");
            }
            self.check(&primary, data_len)?;
            return Ok(BundleHead {
                primary,
                primary_end,
                payload_block: start,
                payload_flags: fields.flags,
                payload_crc: fields.crc,
                payload_open: fields.open,
                canonical: !self.reader.take_lax() && !fields.open,
                data: self.reader.position(),
                data_len,
            });
        }
    }

    /// Parses an extension block after its first four fields.
    fn extension(&mut self, start: usize, fields: BlockStart) -> Result<Block<'a>, Malformed> {
        if !self.numbers.insert(fields.number) {
            return self.reader.error_at(start, "two blocks with the same number");
        }
        let data = self.reader.bytes()?;
        let data_at = self.reader.position() - data.len();
        read_end(&mut self.reader, self.bytes, start, (fields.crc, fields.open), self.accel)?;
        match fields.kind {
            // RFC 9171 4.4.1 to 4.4.3: at most one of each.
            // 9171-4.4.1-3, 9171-4.4.2-3, 9171-4.4.3-5
            kind @ (6 | 7 | 10) if self.once & 1 << kind != 0 => {
                return self.reader.error_at(start, "a second block of a type that may occur once");
            }
            kind @ (6 | 7 | 10) => self.once |= 1 << kind,
            11 => self.integrity |= protects_primary(data),
            _ => {}
        }
        let meaning = read_data(fields.kind, data, data_at as u64, self.profile)?;
        let span = start..self.reader.position();
        // Hops write at most one labels block and one unvouched block: a second one counts against the limit of the
        // source's blocks.
        let of_hops = match &meaning {
            Some(BlockData::PreviousNode(_) | BlockData::Age(_) | BlockData::HopCount(_)) => true,
            Some(BlockData::Labels(_)) => !core::mem::replace(&mut self.labels, true),
            Some(BlockData::Unvouched) => !core::mem::replace(&mut self.unvouched, true),
            Some(BlockData::QualityOfService(_) | BlockData::Unknown(_)) | None => false,
        };
        if of_hops {
            self.hop_bytes += span.len();
        } else if self.blocks == MAX_EXTENSION_BLOCKS {
            return self.reader.error_at(start, "more than 128 extension blocks");
        } else {
            self.blocks += 1;
        }
        Ok(Block { fields, data, meaning, span })
    }

    /// Checks rules over several fields and blocks.
    fn check(&self, primary: &Primary, data_len: u64) -> Result<(), Malformed> {
        let strict = self.profile == Profile::Strict;
        let flags = primary.flags;
        let fail = |reason| Err(Malformed { offset: 1, reason });
        let anonymous = primary.source.is_null();
        // RFC 9171 4.2.3: without an identity its fragments could not be joined.
        // 9171-4.2.3-2
        if anonymous && !flags.has(BundleFlags::NO_FRAGMENT) {
            return fail("an anonymous bundle that may be fragmented");
        }
        // 9171-4.2.3-1, 9171-4.2.3-2, 9171-4.2.4-3
        if strict && (anonymous || flags.has(BundleFlags::ADMIN)) {
            if flags.0 & BundleFlags::REPORTS != 0 {
                return fail("an anonymous or administrative bundle that asks for reports");
            }
            if self.reports {
                return fail("an anonymous or administrative bundle with a block that asks for reports");
            }
        }
        if strict && flags.has(BundleFlags::FRAGMENT | BundleFlags::NO_FRAGMENT) {
            return fail("a fragment of a bundle that must not be fragmented");
        }
        if let Some(fragment) = primary.fragment {
            // Anonymous bundles have no identity: fragments of different ones would be joined.
            if anonymous {
                return fail("a fragment of an anonymous bundle");
            }
            // RFC 9171 5.8: no fragment is empty.
            if data_len == 0 {
                return fail("a fragment without payload");
            }
            if fragment.offset.checked_add(data_len).is_none_or(|end| end > fragment.total) {
                return fail("a fragment that reaches beyond the original payload");
            }
        }
        // RFC 9171 4.4.2. The examples of RFC 9173 violate it themselves.
        // 9171-4.4.2-2
        if strict && primary.creation.time == DtnTime::UNKNOWN && self.once & 1 << 7 == 0 {
            return fail("a bundle without creation time needs a bundle age block");
        }
        // RFC 9171 4.3.1: the primary block is protected by a CRC or by a BIB (RFC 9172 3.7).
        // 9171-4.3.1-6, 9171-4.3.1-13
        if strict && primary.crc == CrcType::None && !self.integrity {
            return fail("the primary block has neither a CRC nor an integrity block");
        }
        Ok(())
    }
}

/// Whether this data of a block integrity block has the primary block (number 0) as a target.
fn protects_primary(data: &[u8]) -> bool {
    targets(data, 0)
}

/// Whether this data of a security block has the block of this number as a target (RFC 9172 3.6).
pub(crate) fn targets(data: &[u8], number: u64) -> bool {
    let mut reader = CborReader::new(data, 0, false);
    let mut named = false;
    // Targets read before an error still count.
    let _ = reader
        .list(|reader, targets| (0..targets).try_for_each(|_| reader.uint().map(|target| named |= target == number)));
    named
}
