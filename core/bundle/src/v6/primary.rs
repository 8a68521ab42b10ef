//! Primary block (RFC 5050 4.5.1), with and without dictionary (RFC 6260).

use super::names::NameTable;
use super::wire::{FieldReader, put_sdnv};
use crate::cbor::ByteSink;
use crate::head::{HeadError, MAX_HEAD_BYTES};
use crate::{CreationTimestamp, EndpointId, FragmentInfo, PeekedIdentity, Profile};
use core::ops::Range;
use farlink_base::{DtnTime, Malformed, Priority, sdnv};

/// Protocol version, the first byte of a bundle.
pub(super) const VERSION: u8 = 6;

/// Bundle processing control flags (RFC 5050 4.2).
pub mod flags {
    /// The bundle is a fragment of another.
    pub const FRAGMENT: u64 = 0x1;
    /// The payload is an administrative record.
    pub const ADMIN: u64 = 0x2;
    /// The bundle must not be fragmented.
    pub const NO_FRAGMENT: u64 = 0x4;
    /// Custody transfer is requested.
    pub const CUSTODY: u64 = 0x8;
    /// The destination is a singleton.
    pub const SINGLETON: u64 = 0x10;
    /// The application asks for an acknowledgment.
    pub const APP_ACK: u64 = 0x20;
    /// A report of reception is requested.
    pub const REPORT_RECEPTION: u64 = 0x4000;
    /// A report of custody acceptance is requested.
    pub const REPORT_CUSTODY: u64 = 0x8000;
    /// A report of forwarding is requested.
    pub const REPORT_FORWARDING: u64 = 0x1_0000;
    /// A report of delivery is requested.
    pub const REPORT_DELIVERY: u64 = 0x2_0000;
    /// A report of deletion is requested.
    pub const REPORT_DELETION: u64 = 0x4_0000;
    /// Mask of all report requests.
    pub const REPORTS: u64 = REPORT_RECEPTION | REPORT_CUSTODY | REPORT_FORWARDING | REPORT_DELIVERY | REPORT_DELETION;
    /// Position of the two bits of the class of service.
    pub(crate) const PRIORITY_SHIFT: u32 = 7;
    /// Mask of the class of service.
    pub const PRIORITY: u64 = 3 << PRIORITY_SHIFT;
}

/// Parsed primary block.
#[allow(missing_docs, reason = "field names that say all have no docs")]
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Primary {
    /// Bundle processing control flags ([`flags`]).
    pub flags: u64,
    pub destination: EndpointId,
    pub source: EndpointId,
    /// Report-to endpoint; null for none.
    pub report_to: EndpointId,
    /// Current custodian; null for none.
    pub custodian: EndpointId,
    /// Creation timestamp, in whole seconds.
    pub creation: CreationTimestamp,
    pub lifetime_s: u64,
    /// Length of the dictionary, bytes; 0: endpoint IDs are numbers (RFC 6260).
    pub dictionary_len: u64,
    /// Position of a fragment; set exactly when the fragment flag is.
    pub fragment: Option<FragmentInfo>,
}
impl Primary {
    /// Class of service from the flags.
    pub fn priority(&self) -> Priority {
        Priority::from_number((self.flags >> flags::PRIORITY_SHIFT & 3) as u8)
    }
    /// Whether all of these flags are set.
    pub fn has(&self, bits: u64) -> bool {
        self.flags & bits == bits
    }
}

/// Positions of the parts of a primary block in the bundle.
#[derive(Clone)]
pub(super) struct Layout {
    /// Position of the first endpoint ID.
    pub endpoints: usize,
    /// Range of the custodian's reference.
    pub custodian: Range<usize>,
    /// Position of the dictionary's length.
    pub dictionary_len: usize,
    /// Range of the dictionary.
    pub dictionary: Range<usize>,
}

/// Reads a primary block from the beginning of a bundle.
// 5050-4-2
pub(super) fn read_primary(reader: &mut FieldReader<'_>, profile: Profile) -> Result<(Primary, Layout), HeadError> {
    match reader.byte()? {
        VERSION => {}
        0x9f => return reader.bad_at(0, "the first byte is that of a BPv7 bundle"),
        _ => return reader.bad_at(0, "a BPv6 bundle begins with the byte 06"),
    }
    let flags = reader.sdnv()?;
    let len = reader.sdnv()?;
    if len > MAX_HEAD_BYTES as u64 {
        return reader.bad("the primary block is longer than 64 KiB");
    }
    // Positions in the layout are offsets into the bundle, not into the block.
    let base = reader.offset();
    let mut part = FieldReader::closed(reader.take(len)?, base, "the primary block is shorter than its fields");
    let at = |part: &FieldReader<'_>| part.offset() as usize;
    let endpoints = at(&part);
    let mut pairs = [(0, 0); 4];
    let mut custodian = endpoints..endpoints;
    for pair in &mut pairs {
        custodian.start = at(&part);
        *pair = (part.sdnv()?, part.sdnv()?);
        custodian.end = at(&part);
    }
    let (seconds, sequence, lifetime_s) = (part.sdnv()?, part.sdnv()?, part.sdnv()?);
    let dictionary_at = at(&part);
    let dictionary_len = part.sdnv()?;
    let start = at(&part);
    let dictionary = part.take(dictionary_len)?;
    let layout = Layout { endpoints, custodian, dictionary_len: dictionary_at, dictionary: start..at(&part) };
    if dictionary.last().is_some_and(|last| *last != 0) {
        return part.bad("a dictionary that does not end with a zero byte");
    }
    let fragment = match flags & flags::FRAGMENT {
        0 => None,
        _ => Some(FragmentInfo { offset: part.sdnv()?, total: part.sdnv()? }),
    };
    if !part.is_at_end() {
        return part.bad("the primary block is longer than its fields");
    }
    // The engine counts milliseconds, which overflow for the largest number of seconds.
    let Some(time) = seconds.checked_mul(1000) else { return part.bad_at(0, "a creation time out of range") };
    let names = NameTable { dictionary, profile };
    let endpoint = |pair| names.endpoint(pair).or_else(|reason| part.bad_at(0, reason));
    let primary = Primary {
        flags,
        destination: endpoint(pairs[0])?,
        source: endpoint(pairs[1])?,
        report_to: endpoint(pairs[2])?,
        custodian: endpoint(pairs[3])?,
        creation: CreationTimestamp { time: DtnTime(time), sequence },
        lifetime_s,
        dictionary_len,
        fragment,
    };
    Ok((primary, layout))
}

/// Reads the identity of a bundle from its first bytes.
pub(crate) fn peek_identity(head: &[u8]) -> Result<PeekedIdentity, Malformed> {
    let (primary, _) = read_primary(&mut FieldReader::open(head), Profile::Permissive).map_err(HeadError::error)?;
    let fragment_offset = primary.fragment.map(|fragment| fragment.offset);
    Ok(PeekedIdentity { version: VERSION, source: primary.source, creation: primary.creation, fragment_offset })
}

/// Appends a primary block around `rest`, its fields from destination to dictionary.
// 5050-5.8-3
pub(super) fn put_primary(flags: u64, rest: &[&[u8]], fragment: Option<FragmentInfo>, out: &mut impl ByteSink) {
    let place = fragment.map(|place| [place.offset, place.total]);
    let place = place.as_ref().map_or(&[][..], |place| &place[..]);
    let len = rest.iter().map(|part| part.len()).sum::<usize>();
    let len = len + place.iter().map(|number| sdnv::len(*number)).sum::<usize>();
    out.byte(VERSION);
    put_sdnv(out, flags);
    put_sdnv(out, len as u64);
    rest.iter().for_each(|part| out.put(part));
    place.iter().for_each(|number| put_sdnv(out, *number));
}
