//! Parsing of block fields (RFC 9171 4.3 and 4.4).

use crate::cbor::CborReader;
use crate::crc::BlockCrc;
use crate::eid_wire::EidCodec;
use crate::{
    BlockData, BlockFlags, BundleFlags, CrcType, CreationTimestamp, EndpointId, FragmentInfo, HopCount, Primary,
    Profile, QualityOfService,
};
use farlink_base::{Accel, DtnTime, Malformed, Priority};

pub(crate) const CRC_WIDTH: &str = "a CRC of the wrong length";

/// First fields of every canonical block (RFC 9171 4.3.2).
#[derive(Clone, Copy)]
pub(crate) struct BlockStart {
    pub(crate) kind: u64,
    pub(crate) number: u64,
    pub(crate) flags: BlockFlags,
    pub(crate) crc: CrcType,
    /// Whether the block is an array of indefinite length.
    pub(crate) open: bool,
}

/// Reads the primary block (RFC 9171 4.3.1) and checks its CRC.
// 9171-4.2.2-1, 9171-4.3.1-1, 9171-4.3.1-4, 9171-4.3.1-5, 9171-4.3.1-8, 9171-4.3.1-9, 9171-4.3.1-10
// 9171-4.3.1-11, 9171-4.3.1-12
pub(crate) fn read_primary(
    reader: &mut CborReader<'_>,
    bytes: &[u8],
    profile: Profile,
    accel: &Accel,
) -> Result<Primary, Malformed> {
    let start = reader.position();
    let items = reader.array_or_open()?;
    let version = reader.position();
    if reader.uint()? != 7 {
        return reader.error_at(version, "the bundle protocol version is not 7");
    }
    let flags = BundleFlags(reader.uint()?);
    let crc = read_crc_type(reader)?;
    let fragmented = flags.has(BundleFlags::FRAGMENT);
    let wanted = 8 + 2 * u64::from(fragmented) + u64::from(crc != CrcType::None);
    if items.is_some_and(|items| items != wanted) {
        return reader.error_at(start, "the primary block's length contradicts its flags and CRC type");
    }
    let destination = EndpointId::read(reader, profile)?;
    let source = EndpointId::read(reader, profile)?;
    let report_to = EndpointId::read(reader, profile)?;
    let creation = read_creation(reader)?;
    let lifetime_ms = reader.uint()?;
    let fragment = match fragmented {
        true => Some(FragmentInfo { offset: reader.uint()?, total: reader.uint()? }),
        false => None,
    };
    read_end(reader, bytes, start, (crc, items.is_none()), accel)?;
    Ok(Primary { flags, crc, destination, source, report_to, creation, lifetime_ms, fragment })
}

/// Reads a creation timestamp (RFC 9171 4.2.7).
// 9171-4.2.6-1, 9171-4.2.7-1
pub(crate) fn read_creation(reader: &mut CborReader<'_>) -> Result<CreationTimestamp, Malformed> {
    reader.list_of(2, "a creation timestamp is an array of two integers", |reader| {
        Ok(CreationTimestamp { time: DtnTime(reader.uint()?), sequence: reader.uint()? })
    })
}

// 9171-4.2.1-1
pub(crate) fn read_crc_type(reader: &mut CborReader<'_>) -> Result<CrcType, Malformed> {
    Ok(match reader.uint_to(2, "a CRC type other than 0, 1 and 2")? {
        0 => CrcType::None,
        1 => CrcType::Crc16,
        _ => CrcType::Crc32c,
    })
}

// 9171-4.1-7, 9171-4.3.2-1, 9171-4.3.2-2, 9171-4.3.2-3
pub(crate) fn read_block_start(reader: &mut CborReader<'_>, profile: Profile) -> Result<BlockStart, Malformed> {
    let start = reader.position();
    let items = reader.array_or_open()?;
    let (kind, number) = (reader.uint()?, reader.uint()?);
    let flags = BlockFlags(reader.uint()?);
    let crc = read_crc_type(reader)?;
    if items.is_some_and(|items| items != 5 + u64::from(crc != CrcType::None)) {
        return reader.error_at(start, "a block's length contradicts its CRC type");
    }
    if number == 0 {
        return reader.error_at(start, "block number 0 is the primary block's");
    }
    // RFC 9171 4.3.2: the payload block has type 1 and number 1.
    if (kind == 1) != (number == 1) {
        return reader.error_at(start, "type 1 and block number 1 both mean the payload block");
    }
    if kind == 0 && profile == Profile::Strict {
        return reader.error_at(start, "block type 0 is reserved");
    }
    Ok(BlockStart { kind, number, flags, crc, open: items.is_none() })
}

/// Reads the end of the block that began at `start`: its CRC, which is checked, and, if it is `open`, its break, which
/// the CRC covers too (RFC 9171 4.3.1, 4.3.2).
// 9171-4.2.2-1, 9171-4.2.2-2, 9171-4.3.1-14, 9171-4.3.1-15, 9171-4.3.2-5, 9171-5.6-2
pub(crate) fn read_end(
    reader: &mut CborReader<'_>,
    bytes: &[u8],
    start: usize,
    (crc, open): (CrcType, bool),
    accel: &Accel,
) -> Result<(), Malformed> {
    let width = crc.width();
    if width == 0 {
        return reader.array_end(open);
    }
    let at = reader.position();
    let found = reader.bytes()?;
    if found.len() != width {
        return reader.error_at(at, CRC_WIDTH);
    }
    let end = reader.position();
    reader.array_end(open)?;
    let computed = BlockCrc::of_block(crc, &bytes[start..reader.position()], end - start, accel);
    let value = found.iter().fold(0u32, |value, byte| value << 8 | u32::from(*byte));
    if computed == value { Ok(()) } else { reader.error_at(at, "a block's CRC is wrong") }
}

/// Parses block-type-specific data (RFC 9171 4.4); `None` for unknown types.
// 9171-4.2.8-1, 9171-4.4-1, 9171-4.4.2-1
pub(crate) fn read_data(kind: u64, data: &[u8], offset: u64, profile: Profile) -> Result<Option<BlockData>, Malformed> {
    let mut reader = CborReader::new(data, offset, profile == Profile::Strict);
    let parsed = match kind {
        6 => BlockData::PreviousNode(EndpointId::read(&mut reader, profile)?),
        7 => BlockData::Age(reader.uint()?),
        10 => BlockData::HopCount(read_hop_count(&mut reader)?),
        // Other implementations may use private codes differently: data that does not parse is an unknown block, not an
        // error.
        193 | 240 | 241 => return Ok(read_private(kind, data)),
        _ => return Ok(None),
    };
    reader.finish("bytes after the data of an extension block")?;
    Ok(Some(parsed))
}

// 9171-4.4.3-1, 9171-4.4.3-2, 9171-4.4.3-3, 9171-4.4.3-4
fn read_hop_count(reader: &mut CborReader<'_>) -> Result<HopCount, Malformed> {
    reader.list_of(2, "a hop count is an array of two integers", |reader| {
        let at = reader.position();
        match reader.uint()? {
            limit @ 1..=255 => Ok(HopCount { limit: limit as u8, count: reader.uint()? }),
            _ => reader.error_at(at, "a hop limit is 1 to 255"),
        }
    })
}

fn read_private(kind: u64, data: &[u8]) -> Option<BlockData> {
    let mut reader = CborReader::new(data, 0, false);
    let parsed = if kind == 241 {
        if reader.uint().ok()? != 1 {
            return None;
        }
        BlockData::Unvouched
    } else if kind == 240 {
        let pair = reader.list_of(2, "", |reader| Ok([reader.uint()?, reader.uint()?])).ok()?;
        BlockData::Labels([u32::try_from(pair[0]).ok()?, u32::try_from(pair[1]).ok()?])
    } else {
        let four = |reader: &mut CborReader<'_>| Ok([reader.uint()?, reader.uint()?, reader.uint()?, reader.uint()?]);
        let [flags, priority, ordinal, label] = reader.list_of(4, "", four).ok()?;
        let priority = Priority::from_number(u8::try_from(priority).ok()?);
        BlockData::QualityOfService(QualityOfService { flags, priority, ordinal: u8::try_from(ordinal).ok()?, label })
    };
    reader.is_at_end().then_some(parsed)
}
