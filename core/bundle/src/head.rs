//! Everything before the payload, walked once from one contiguous slice (RFC 9171 4.3). Both views
//! of a bundle are filled by this walk: [`crate::Bundle`] and [`crate::v7`].

use crate::cbor::{BREAK, Reader, head_len};
use crate::check::Check;
use crate::fields::{BlockStart, read_block_start, read_data, read_end, read_primary};
use crate::{BlockData, BlockFlags, BundleFlags, CrcType, Primary, Profile};
use alloc::vec::Vec;
use core::ops::Range;
use farlink_base::{Accel, Bytes, BytesMut, Chunk, DtnTime, Malformed, Payload};

/// Most bytes before the payload's: no peer sends a tenth of it, and it bounds what one bundle costs
/// before it is checked.
pub const MAX_HEAD_BYTES: usize = 64 << 10;
/// Those of them that are left to what hops write: what one node takes, the next one takes too.
pub(crate) const HOP_BYTES: usize = 4 << 10;
/// Most extension blocks of one bundle, besides those that hops write.
pub const MAX_EXTENSION_BLOCKS: usize = 128;

/// Bytes looked at behind a payload: a byte more than its end has is one too many.
const TAIL: usize = 16;

pub(crate) const NOT_A_BUNDLE: &str = "a BPv7 bundle begins with the byte 9f";

/// Why a head was not read.
pub(crate) enum Stop {
    /// The bytes end too early: more of them may help.
    Short(Malformed),
    /// Nothing helps.
    Bad(Malformed),
}
impl Stop {
    pub(crate) fn error(self) -> Malformed {
        match self {
            Stop::Short(error) | Stop::Bad(error) => error,
        }
    }
}
impl From<Malformed> for Stop {
    fn from(error: Malformed) -> Stop {
        Stop::Bad(error)
    }
}

/// Calls `read` with the first bytes of the rope: those of its first chunk, and where they do not
/// suffice, a copy of those in memory, both up to [`MAX_HEAD_BYTES`].
pub(crate) fn with_head<T>(rope: &Payload, mut read: impl FnMut(&[u8]) -> Result<T, Stop>) -> Result<T, Stop> {
    let first = match rope.chunks().first() {
        Some(Chunk::Bytes(bytes)) => &bytes[..bytes.len().min(MAX_HEAD_BYTES)],
        Some(_) => return Err(Stop::Bad(Malformed { offset: 0, reason: "the bundle's first block is not in memory" })),
        None => return Err(Stop::Short(Malformed { offset: 0, reason: "no bytes at all" })),
    };
    match read(first) {
        Err(Stop::Short(_)) if first.len() < MAX_HEAD_BYTES && (first.len() as u64) < rope.len() => {}
        Err(Stop::Short(error)) if first.len() == MAX_HEAD_BYTES => return Err(too_long(error)),
        other => return other,
    }
    let gathered = gather(rope);
    match read(&gathered) {
        Err(Stop::Short(error)) if gathered.len() == MAX_HEAD_BYTES => Err(too_long(error)),
        Err(Stop::Short(error)) if (gathered.len() as u64) < rope.len() => Err(Stop::Bad(error)),
        other => other,
    }
}

/// The bundle with other bytes in place of some of its head: all up to their end in one piece.
pub(crate) fn spliced(bundle: &Payload, at: Range<usize>, with: &[u8]) -> Payload {
    let mut head = BytesMut::zeroed(at.start);
    bundle.copy_to(0, &mut head);
    head.extend_from_slice(with);
    let mut spliced = Payload::from(head.freeze());
    spliced.append(bundle.slice(at.end as u64, u64::MAX));
    spliced
}

fn too_long(error: Malformed) -> Stop {
    Stop::Bad(Malformed { reason: "the blocks before the payload are longer than 64 KiB", ..error })
}

/// The first bytes of the rope, up to the head's limit or to what is not in memory.
fn gather(rope: &Payload) -> Bytes {
    let resident = rope.chunks().iter().take_while(|chunk| matches!(chunk, Chunk::Bytes(_)));
    let len = resident.map(Chunk::len).sum::<u64>().min(MAX_HEAD_BYTES as u64);
    let mut out = BytesMut::zeroed(len as usize);
    rope.copy_to(0, &mut out);
    out.freeze()
}

/// One extension block where it lies.
pub(crate) struct Block<'a> {
    pub(crate) fields: BlockStart,
    /// Its block-type-specific data as encoded.
    pub(crate) data: &'a [u8],
    /// What the data means; `None` where this node does not understand it.
    pub(crate) meaning: Option<BlockData>,
    /// Where the block lies in the bundle.
    pub(crate) span: Range<usize>,
}

/// Everything up to the payload's first byte; positions are offsets into the bundle.
pub(crate) struct Head {
    pub(crate) primary: Primary,
    pub(crate) primary_end: usize,
    pub(crate) payload_block: usize,
    pub(crate) payload_flags: BlockFlags,
    pub(crate) payload_crc: CrcType,
    /// Whether the payload block is an array of indefinite length.
    pub(crate) payload_open: bool,
    /// Whether the payload block's head is as this node would write it.
    pub(crate) canonical: bool,
    pub(crate) data: usize,
    pub(crate) data_len: u64,
}

impl Head {
    /// Reads a head and shows each extension block to `visit`.
    pub(crate) fn parse<'a>(
        bytes: &'a [u8],
        profile: Profile,
        accel: &Accel,
        visit: &mut impl FnMut(Block<'a>),
    ) -> Result<Head, Stop> {
        let reader = Reader::new(bytes, 0, profile == Profile::Strict);
        let mut walk = Walk {
            reader,
            bytes,
            profile,
            accel,
            numbers: Numbers::default(),
            blocks: 0,
            hop_bytes: 0,
            labels: false,
            unvouched: false,
            once: 0,
            reports: false,
            integrity: false,
        };
        walk.head(visit).map_err(|error| if walk.reader.ran_short() { Stop::Short(error) } else { Stop::Bad(error) })
    }

    /// What checks the payload and what follows it.
    pub(crate) fn check(&self, bytes: &[u8], accel: &Accel) -> Check {
        let how = (self.payload_crc, self.payload_open);
        Check::new(how, &bytes[self.payload_block..self.data], self.data as u64, self.data_len, accel)
    }

    /// The payload in a rope that holds the whole bundle, its CRC checked where every byte is in
    /// memory, and the CRC's value. Nothing may follow.
    pub(crate) fn payload(&self, rope: &Payload, bytes: &[u8], accel: &Accel) -> Result<(Payload, u32), Malformed> {
        let Some(end) = (self.data as u64).checked_add(self.data_len).filter(|end| *end < rope.len()) else {
            return Err(Malformed { offset: rope.len(), reason: "the payload is longer than the bytes that came" });
        };
        let payload = rope.slice(self.data as u64, self.data_len);
        if let [Chunk::Bytes(all)] = rope.chunks() {
            // Head and payload pass at once. Both ends are places in it.
            let (block, tail) = all.split_at(end as usize);
            let how = (self.payload_crc, self.payload_open);
            let check = Check::whole(how, &block[self.payload_block..], self.data as u64, self.data_len, accel);
            return Ok((payload, check.finish(&tail[..tail.len().min(TAIL)])?));
        }
        let mut tail = [0u8; TAIL];
        let copied = rope.copy_to(end, &mut tail);
        let mut check = self.check(bytes, accel);
        check.update_rope(&payload);
        Ok((payload, check.finish(&tail[..copied])?))
    }
}

/// Block numbers met so far; few bundles have one above 63.
#[derive(Default)]
pub(crate) struct Numbers {
    low: u64,
    high: Vec<u64>,
}
impl Numbers {
    /// Notes a number; whether it is new.
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
    /// The smallest number from 2 up that was not met; notes it.
    pub(crate) fn take_free(&mut self) -> u64 {
        let mut free = u64::from((self.low | 3).trailing_ones());
        while !self.insert(free) {
            free += 1;
        }
        free
    }
}

struct Walk<'a, 'b> {
    reader: Reader<'a>,
    bytes: &'a [u8],
    profile: Profile,
    accel: &'b Accel,
    numbers: Numbers,
    /// Blocks that no hop writes.
    blocks: usize,
    /// Bytes of what hops write.
    hop_bytes: usize,
    /// Whether labels were met.
    labels: bool,
    /// Whether a block was met that says that nobody vouches for the bundle.
    unvouched: bool,
    /// Types 6, 7 and 10 that were met, as bits.
    once: u16,
    /// Whether a block asks for reports.
    reports: bool,
    /// Whether an integrity block protects the primary block.
    integrity: bool,
}

impl<'a> Walk<'a, '_> {
    // 9171-4.1-1, 9171-4.1-3, 9171-4.1-4, 9171-4.1-5, 9171-4.1-6, 9171-4.3.2-4
    fn head(&mut self, visit: &mut impl FnMut(Block<'a>)) -> Result<Head, Malformed> {
        match self.reader.take(1)? {
            [0x9f] => {}
            [6] => return self.reader.error_at(0, "the first byte is that of a BPv6 bundle"),
            _ => return self.reader.error_at(0, NOT_A_BUNDLE),
        }
        let primary = read_primary(&mut self.reader, self.bytes, self.profile, self.accel)?;
        let primary_end = self.reader.position();
        if let Some(place) = primary.fragment {
            self.hop_bytes += (head_len(place.offset) + head_len(place.total)) as usize;
        }
        loop {
            let start = self.reader.position();
            if self.reader.peek() == Some(BREAK) {
                return self.reader.error("the bundle has no payload block");
            }
            self.reader.take_lax();
            let fields = read_block_start(&mut self.reader, self.profile)?;
            self.reports |= fields.flags.has(BlockFlags::REPORT);
            if fields.number != 1 {
                visit(self.extension(start, fields)?);
                continue;
            }
            let data_len = self.reader.bytes_head()?;
            if start - self.hop_bytes > MAX_HEAD_BYTES - HOP_BYTES {
                return self.reader.error_at(start, "the blocks before the payload leave no room for hops in 64 KiB");
            }
            self.check(&primary, data_len)?;
            return Ok(Head {
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

    /// One extension block after its first four fields.
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

    /// Rules over several fields and blocks.
    fn check(&self, primary: &Primary, data_len: u64) -> Result<(), Malformed> {
        let strict = self.profile == Profile::Strict;
        let flags = primary.flags;
        let fail = |reason| Err(Malformed { offset: 1, reason });
        let anonymous = primary.source.is_null();
        // RFC 9171 4.2.3.
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
            // Anonymous bundles have no identity: the fragments of two would become one.
            if anonymous {
                return fail("a fragment of an anonymous bundle");
            }
            // RFC 9171 5.8: each fragment has some of the payload.
            if data_len == 0 {
                return fail("a fragment without payload");
            }
            if fragment.offset.checked_add(data_len).is_none_or(|end| end > fragment.total) {
                return fail("a fragment that reaches beyond the original payload");
            }
        }
        // RFC 9171 4.4.2. The examples of RFC 9173 break it themselves.
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

/// Whether this data of a block integrity block names the primary block (number 0) as a target.
fn protects_primary(data: &[u8]) -> bool {
    targets(data, 0)
}

/// Whether this data of a security block names the block of this number as a target (RFC 9172 3.6).
pub(crate) fn targets(data: &[u8], number: u64) -> bool {
    let mut reader = Reader::new(data, 0, false);
    let mut named = false;
    // What is wrong further on takes nothing back.
    let _ = reader
        .list(|reader, targets| (0..targets).try_for_each(|_| reader.uint().map(|target| named |= target == number)));
    named
}
