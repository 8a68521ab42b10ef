//! From bytes to a [`Bundle`] (RFC 9171 4).
//!
//! Blocks before the payload are parsed from one contiguous slice; the payload is cut out of the
//! rope without being touched, but for its CRC.

use crate::cbor::{BREAK, Reader, skip_item};
use crate::crc::BlockCrc;
use crate::{
    BlockData, BlockFlags, Bundle, BundleFlags, CrcType, CreationTimestamp, EndpointId, ExtensionBlock, FragmentInfo,
    HopCount, Primary, Profile, QualityOfService,
};
use alloc::vec::Vec;
use farlink_base::{Accel, Bytes, BytesMut, Chunk, DtnTime, Malformed, Payload, Priority};

/// Most bytes before the payload's: no peer sends a tenth of it, and it bounds what one bundle costs
/// before it is checked.
pub const MAX_HEAD_BYTES: usize = 64 << 10;
/// Most extension blocks of one bundle.
pub const MAX_EXTENSION_BLOCKS: usize = 128;

/// Reads one whole bundle. The payload becomes a sub-rope of `rope` and is not copied; where part
/// of it is not in memory (stored or fill), its CRC is taken on trust.
pub fn decode(rope: &Payload, profile: Profile, accel: &Accel) -> Result<Bundle, Malformed> {
    let first = match rope.chunks().first() {
        Some(Chunk::Bytes(bytes)) => bytes,
        Some(_) => return Err(Malformed { offset: 0, reason: "the bundle's first block is not in memory" }),
        None => return Err(Malformed { offset: 0, reason: "no bytes at all" }),
    };
    let mut short = false;
    match Head::parse(&first[..first.len().min(MAX_HEAD_BYTES)], profile, accel, &mut short) {
        Ok(head) => head.finish(rope, first, profile, accel),
        Err(error) if !short => Err(error),
        Err(error) if first.len() >= MAX_HEAD_BYTES => Err(too_long(error)),
        Err(error) if first.len() as u64 == rope.len() => Err(error),
        Err(_) => {
            let gathered = gather(rope);
            let head = Head::parse(&gathered, profile, accel, &mut short)
                .map_err(|error| if gathered.len() >= MAX_HEAD_BYTES { too_long(error) } else { error })?;
            head.finish(rope, &gathered, profile, accel)
        }
    }
}

fn too_long(error: Malformed) -> Malformed {
    Malformed { reason: "the blocks before the payload are longer than 64 KiB", ..error }
}

/// The first bytes of the rope, up to the head's limit or to what is not in memory.
fn gather(rope: &Payload) -> Bytes {
    let resident = rope.chunks().iter().take_while(|chunk| matches!(chunk, Chunk::Bytes(_)));
    let len = resident.map(Chunk::len).sum::<u64>().min(MAX_HEAD_BYTES as u64);
    let mut out = BytesMut::zeroed(len as usize);
    rope.copy_to(0, &mut out);
    out.freeze()
}

/// Reads a bundle back from the three parts [`Bundle::encode`] made of it; the payload may be on
/// disk.
pub fn decode_parts(
    head: &Bytes,
    payload: Payload,
    tail: &Bytes,
    profile: Profile,
    accel: &Accel,
) -> Result<Bundle, Malformed> {
    let mut rope = Payload::from(head.clone());
    rope.append(payload);
    rope.push_bytes(tail.clone());
    decode(&rope, profile, accel)
}

/// Length of the first complete bundle in the rope, found by walking its CBOR; `None` when its end
/// is not there yet. The bundle is not checked: [`decode`] does that.
pub fn decode_prefix(rope: &Payload) -> Result<Option<u64>, Malformed> {
    let mut reader = rope.reader();
    match reader.clone().read_u8() {
        None => return Ok(None),
        Some(0x9f) => {}
        Some(_) => return Err(Malformed { offset: 0, reason: NOT_A_BUNDLE }),
    }
    match skip_item(&mut reader) {
        Ok(true) => Ok(Some(reader.position())),
        Ok(false) => Ok(None),
        Err(reason) => Err(Malformed { offset: reader.position(), reason }),
    }
}

const NOT_A_BUNDLE: &str = "a BPv7 bundle begins with the byte 9f";

/// Everything up to the payload's first byte; positions are offsets into the bundle.
struct Head {
    primary: Primary,
    primary_end: usize,
    extensions: Vec<ExtensionBlock>,
    /// Where each extension block ends, which is where the next begins.
    ends: [u16; MAX_EXTENSION_BLOCKS],
    payload_block: usize,
    payload_flags: BlockFlags,
    payload_crc: CrcType,
    /// Whether the payload block's head is as this node would write it.
    canonical: bool,
    data: usize,
    data_len: u64,
}

/// The fields every canonical block begins with (RFC 9171 4.3.2).
struct BlockStart {
    kind: u64,
    number: u64,
    flags: BlockFlags,
    crc: CrcType,
}

impl Head {
    fn parse(bytes: &[u8], profile: Profile, accel: &Accel, short: &mut bool) -> Result<Head, Malformed> {
        let mut reader = Reader::new(bytes, 0, profile == Profile::Strict);
        let result = Self::read(&mut reader, bytes, profile, accel);
        *short = reader.ran_short();
        result
    }

    fn read(reader: &mut Reader<'_>, bytes: &[u8], profile: Profile, accel: &Accel) -> Result<Head, Malformed> {
        match reader.take(1)? {
            [0x9f] => {}
            [6] => return reader.error_at(0, "the first byte is that of a BPv6 bundle"),
            _ => return reader.error_at(0, NOT_A_BUNDLE),
        }
        let primary = read_primary(reader, bytes, profile, accel)?;
        let mut head = Head {
            primary,
            primary_end: reader.position(),
            extensions: Vec::new(),
            ends: [0; MAX_EXTENSION_BLOCKS],
            payload_block: 0,
            payload_flags: BlockFlags(0),
            payload_crc: CrcType::None,
            canonical: true,
            data: 0,
            data_len: 0,
        };
        loop {
            let start = reader.position();
            if reader.peek() == Some(BREAK) {
                return reader.error("the bundle has no payload block");
            }
            reader.take_lax();
            let block = read_block_start(reader, profile)?;
            if block.number == 1 {
                head.payload_block = start;
                head.payload_flags = block.flags;
                head.payload_crc = block.crc;
                head.data_len = reader.bytes_head()?;
                head.canonical = !reader.take_lax();
                head.data = reader.position();
                return Ok(head);
            }
            if head.extensions.len() == MAX_EXTENSION_BLOCKS {
                return reader.error_at(start, "more than 128 extension blocks");
            }
            head.read_extension(reader, bytes, start, block, profile, accel)?;
        }
    }

    /// One extension block after its first four fields.
    fn read_extension(
        &mut self,
        reader: &mut Reader<'_>,
        bytes: &[u8],
        start: usize,
        block: BlockStart,
        profile: Profile,
        accel: &Accel,
    ) -> Result<(), Malformed> {
        let BlockStart { kind, number, flags, crc } = block;
        if self.extensions.iter().any(|other| other.number == number) {
            return reader.error_at(start, "two blocks with the same number");
        }
        let data = reader.bytes()?;
        let data_at = reader.position() - data.len();
        read_crc(reader, bytes, start, crc, accel)?;
        // RFC 9171 4.4.1 to 4.4.3: at most one of each.
        if matches!(kind, 6 | 7 | 10) && self.extensions.iter().any(|other| other.kind == kind) {
            return reader.error_at(start, "a second block of a type that may occur once");
        }
        let data = read_data(kind, data, data_at as u64, profile)?;
        self.ends[self.extensions.len()] = reader.position() as u16;
        self.extensions.push(ExtensionBlock { kind, number, flags, crc, data, raw: None });
        Ok(())
    }

    /// The payload, what follows it, and the rules that need the whole bundle.
    fn finish(mut self, rope: &Payload, bytes: &[u8], profile: Profile, accel: &Accel) -> Result<Bundle, Malformed> {
        let data = self.data as u64;
        let Some(end) = data.checked_add(self.data_len).filter(|end| *end < rope.len()) else {
            return Err(Malformed { offset: rope.len(), reason: "the payload is longer than the bytes that came" });
        };
        let mut tail = [0u8; 16];
        let copied = rope.copy_to(end, &mut tail);
        let mut reader = Reader::new(&tail[..copied], end, profile == Profile::Strict);
        let payload = rope.slice(data, self.data_len);
        let value = self.read_payload_crc(&mut reader, &bytes[self.payload_block..self.data], &payload, accel)?;
        match reader.take(1)? {
            [BREAK] => {}
            _ => return reader.error_at(reader.position() - 1, "the payload block is not the last one"),
        }
        if reader.offset() != rope.len() {
            return reader.error("bytes after the end of the bundle");
        }
        self.check(profile)?;
        // A copy of the head's few bytes, so that a bundle whose payload went to disk does not keep
        // alive the large buffer it arrived in.
        let raw = Bytes::copy_from_slice(&bytes[..self.payload_block]);
        let mut start = self.primary_end;
        for (block, end) in self.extensions.iter_mut().zip(&self.ends) {
            block.raw = Some(raw.slice(start..usize::from(*end)));
            start = usize::from(*end);
        }
        Ok(Bundle {
            primary_raw: Some(raw.slice(1..self.primary_end)),
            primary: self.primary,
            extensions: self.extensions,
            payload_flags: self.payload_flags,
            payload_crc: self.payload_crc,
            payload_crc_value: value.filter(|_| self.canonical),
            payload,
        })
    }

    /// Reads the payload block's CRC and checks it where every byte is in memory.
    fn read_payload_crc(
        &self,
        reader: &mut Reader<'_>,
        block_head: &[u8],
        payload: &Payload,
        accel: &Accel,
    ) -> Result<Option<u32>, Malformed> {
        let width = self.payload_crc.width();
        if width == 0 {
            return Ok(None);
        }
        let start = reader.position();
        let found = reader.bytes()?;
        if found.len() != width {
            return reader.error_at(start, CRC_WIDTH);
        }
        let value = found.iter().fold(0u32, |value, byte| value << 8 | u32::from(*byte));
        let computed = payload_block_crc(self.payload_crc, block_head, payload, accel);
        if computed.is_some_and(|computed| computed != value) {
            return reader.error_at(start, "the payload block's CRC is wrong");
        }
        Ok(Some(value))
    }

    /// Rules over several fields and blocks.
    fn check(&self, profile: Profile) -> Result<(), Malformed> {
        let strict = profile == Profile::Strict;
        let primary = &self.primary;
        let flags = primary.flags;
        let fail = |reason| Err(Malformed { offset: 1, reason });
        let anonymous = primary.source.is_null();
        // RFC 9171 4.2.3.
        if anonymous && !flags.has(BundleFlags::NO_FRAGMENT) {
            return fail("an anonymous bundle that may be fragmented");
        }
        if strict && (anonymous || flags.has(BundleFlags::ADMIN)) {
            if flags.0 & BundleFlags::REPORTS != 0 {
                return fail("an anonymous or administrative bundle that asks for reports");
            }
            let reported = self.extensions.iter().map(|block| block.flags).chain([self.payload_flags]);
            if reported.into_iter().any(|flags| flags.has(BlockFlags::REPORT)) {
                return fail("an anonymous or administrative bundle with a block that asks for reports");
            }
        }
        if strict && flags.has(BundleFlags::FRAGMENT | BundleFlags::NO_FRAGMENT) {
            return fail("a fragment of a bundle that must not be fragmented");
        }
        if let Some(fragment) = primary.fragment
            && fragment.offset.checked_add(self.data_len).is_none_or(|end| end > fragment.total)
        {
            return fail("a fragment that reaches beyond the original payload");
        }
        // RFC 9171 4.4.2. The examples of RFC 9173 break it themselves.
        if strict && primary.creation.time == DtnTime::UNKNOWN && !self.extensions.iter().any(|block| block.kind == 7) {
            return fail("a bundle without creation time needs a bundle age block");
        }
        // RFC 9171 4.3.1: the primary block is protected by a CRC or by a BIB (RFC 9172 3.7).
        if strict && primary.crc == CrcType::None && !self.extensions.iter().any(protects_primary) {
            return fail("the primary block has neither a CRC nor an integrity block");
        }
        Ok(())
    }
}

const CRC_WIDTH: &str = "a CRC of the wrong length";

/// Whether this is a block integrity block with the primary block (number 0) among its targets.
fn protects_primary(block: &ExtensionBlock) -> bool {
    let BlockData::Unknown(data) = &block.data else { return false };
    let mut reader = Reader::new(data, 0, false);
    let targets = if block.kind == 11 { reader.array().unwrap_or(0) } else { 0 };
    (0..targets).map_while(|_| reader.uint().ok()).any(|target| target == 0)
}

fn read_primary(reader: &mut Reader<'_>, bytes: &[u8], profile: Profile, accel: &Accel) -> Result<Primary, Malformed> {
    let start = reader.position();
    let items = reader.array()?;
    let version = reader.position();
    if reader.uint()? != 7 {
        return reader.error_at(version, "the bundle protocol version is not 7");
    }
    let flags = BundleFlags(reader.uint()?);
    let crc = read_crc_type(reader)?;
    let fragmented = flags.has(BundleFlags::FRAGMENT);
    if items != 8 + 2 * u64::from(fragmented) + u64::from(crc != CrcType::None) {
        return reader.error_at(start, "the primary block's length contradicts its flags and CRC type");
    }
    let destination = EndpointId::read(reader, profile)?;
    let source = EndpointId::read(reader, profile)?;
    let report_to = EndpointId::read(reader, profile)?;
    reader.array_of(2, "a creation timestamp is an array of two integers")?;
    let creation = CreationTimestamp { time: DtnTime(reader.uint()?), sequence: reader.uint()? };
    let lifetime_ms = reader.uint()?;
    let fragment = match fragmented {
        true => Some(FragmentInfo { offset: reader.uint()?, total: reader.uint()? }),
        false => None,
    };
    read_crc(reader, bytes, start, crc, accel)?;
    Ok(Primary { flags, crc, destination, source, report_to, creation, lifetime_ms, fragment })
}

fn read_crc_type(reader: &mut Reader<'_>) -> Result<CrcType, Malformed> {
    Ok(match reader.uint_to(2, "a CRC type other than 0, 1 and 2")? {
        0 => CrcType::None,
        1 => CrcType::Crc16,
        _ => CrcType::Crc32c,
    })
}

fn read_block_start(reader: &mut Reader<'_>, profile: Profile) -> Result<BlockStart, Malformed> {
    let start = reader.position();
    let items = reader.array()?;
    let (kind, number) = (reader.uint()?, reader.uint()?);
    let flags = BlockFlags(reader.uint()?);
    let crc = read_crc_type(reader)?;
    if items != 5 + u64::from(crc != CrcType::None) {
        return reader.error_at(start, "a block's length contradicts its CRC type");
    }
    if number == 0 {
        return reader.error_at(start, "block number 0 is the primary block's");
    }
    // RFC 9171 4.3.3: the payload block has type 1 and number 1.
    if (kind == 1) != (number == 1) {
        return reader.error_at(start, "type 1 and block number 1 both mean the payload block");
    }
    if kind == 0 && profile == Profile::Strict {
        return reader.error_at(start, "block type 0 is reserved");
    }
    Ok(BlockStart { kind, number, flags, crc })
}

/// Reads and checks the CRC of the block that began at `start`.
fn read_crc(reader: &mut Reader<'_>, bytes: &[u8], start: usize, crc: CrcType, accel: &Accel) -> Result<(), Malformed> {
    let width = crc.width();
    if width == 0 {
        return Ok(());
    }
    let at = reader.position();
    let found = reader.bytes()?;
    if found.len() != width {
        return reader.error_at(at, CRC_WIDTH);
    }
    let mut computed = BlockCrc::new(crc);
    computed.update(&bytes[start..reader.position() - width], accel);
    computed.update(&[0; 4][..width], accel);
    let value = found.iter().fold(0u32, |value, byte| value << 8 | u32::from(*byte));
    if computed.value() == value { Ok(()) } else { reader.error_at(at, "a block's CRC is wrong") }
}

/// CRC of a payload block from its head and its data; `None` when the data is not all in memory.
pub(crate) fn payload_block_crc(crc: CrcType, head: &[u8], payload: &Payload, accel: &Accel) -> Option<u32> {
    let mut computed = BlockCrc::new(crc);
    computed.update(head, accel);
    for chunk in payload.chunks() {
        let Chunk::Bytes(bytes) = chunk else { return None };
        computed.update(bytes, accel);
    }
    let width = crc.width();
    let mut end = [0u8; 5];
    end[0] = 0x40 | width as u8;
    computed.update(&end[..1 + width], accel);
    Some(computed.value())
}

/// What the block-type-specific data means (RFC 9171 4.4).
fn read_data(kind: u64, data: &[u8], offset: u64, profile: Profile) -> Result<BlockData, Malformed> {
    let mut reader = Reader::new(data, offset, profile == Profile::Strict);
    let parsed = match kind {
        6 => BlockData::PreviousNode(EndpointId::read(&mut reader, profile)?),
        7 => BlockData::Age(reader.uint()?),
        10 => BlockData::HopCount(read_hop_count(&mut reader)?),
        // Private codes may mean something else to whoever sent them.
        193 | 240 => return Ok(read_private(kind, data).unwrap_or_else(|| unknown(data))),
        _ => return Ok(unknown(data)),
    };
    reader.finish("bytes after the data of an extension block")?;
    Ok(parsed)
}

fn unknown(data: &[u8]) -> BlockData {
    BlockData::Unknown(Bytes::copy_from_slice(data))
}

fn read_hop_count(reader: &mut Reader<'_>) -> Result<HopCount, Malformed> {
    reader.array_of(2, "a hop count is an array of two integers")?;
    let at = reader.position();
    match reader.uint()? {
        limit @ 1..=255 => Ok(HopCount { limit: limit as u8, count: reader.uint()? }),
        _ => reader.error_at(at, "a hop limit is 1 to 255"),
    }
}

fn read_private(kind: u64, data: &[u8]) -> Option<BlockData> {
    let mut reader = Reader::new(data, 0, false);
    let parsed = if kind == 240 {
        BlockData::Copies(u32::try_from(reader.uint().ok()?).ok()?)
    } else {
        reader.array_of(4, "").ok()?;
        let flags = reader.uint().ok()?;
        let priority = Priority::from_number(u8::try_from(reader.uint().ok()?).ok()?);
        let ordinal = u8::try_from(reader.uint().ok()?).ok()?;
        BlockData::QualityOfService(QualityOfService { flags, priority, ordinal, label: reader.uint().ok()? })
    };
    reader.is_at_end().then_some(parsed)
}
