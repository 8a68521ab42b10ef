//! Canonical blocks (RFC 5050 4.5.2) and the meaning of known types.

use super::names::{self, NameTable};
use super::wire::{FieldReader, only_sdnv, put_sdnv};
use crate::EndpointId;
use crate::cbor::ByteSink;
use crate::head::HeadError;
use alloc::vec::Vec;
use core::ops::Range;
use farlink_base::sdnv;

/// Block processing control flags (RFC 5050 4.3).
pub mod block_flags {
    /// Replicate the block in every fragment.
    pub const REPLICATE: u64 = 0x01;
    /// Report if the block cannot be processed.
    pub const REPORT: u64 = 0x02;
    /// Delete the bundle if the block cannot be processed.
    pub const DELETE_BUNDLE: u64 = 0x04;
    /// Marks the last block of the bundle.
    pub const LAST: u64 = 0x08;
    /// Discard the block if it cannot be processed.
    pub const DISCARD: u64 = 0x10;
    /// The block was forwarded without being processed.
    pub const UNPROCESSED: u64 = 0x20;
    /// The block contains endpoint ID references.
    pub const REFERENCES: u64 = 0x40;
}
use block_flags::*;

/// Block type codes.
pub mod kind {
    /// Payload block (RFC 5050 4.5.3).
    pub const PAYLOAD: u8 = 1;
    /// Bundle authentication block (RFC 6257).
    pub const AUTHENTICATION: u8 = 2;
    /// Payload integrity block (RFC 6257).
    pub const INTEGRITY: u8 = 3;
    /// Payload confidentiality block (RFC 6257).
    pub const CONFIDENTIALITY: u8 = 4;
    /// Previous hop insertion block (RFC 6259).
    pub const PREVIOUS_HOP: u8 = 5;
    /// Metadata extension block (RFC 6258).
    pub const METADATA: u8 = 8;
    /// Extension security block (RFC 6257).
    pub const EXTENSION_SECURITY: u8 = 9;
    /// Custody transfer enhancement (CCSDS 734.2-B-1).
    pub const CUSTODY: u8 = 10;
    /// Extended class of service (ION, draft-irtf-dtnrg-ecos).
    pub const SERVICE: u8 = 19;
    /// Bundle age block (ION), in microseconds.
    pub const AGE: u8 = 20;
    /// Permits of spray-and-wait (ION).
    pub const PERMITS: u8 = 21;
    /// Labels of the router and of the congestion control (Farlink's private block).
    pub const LABELS: u8 = 240;
    /// Mark that a node on the path received the bundle from an unconfigured neighbour (Farlink's private block).
    pub const UNVOUCHED: u8 = 241;
}

/// Extended class of service (draft-irtf-dtnrg-ecos).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ExtendedClass {
    /// Flags: 1 critical, 2 best effort, 4 flow label present, 8 reliable.
    pub flags: u8,
    /// Ordinal within the priority, higher first.
    pub ordinal: u8,
    /// Flow label; 0 for none.
    pub label: u64,
}
impl ExtendedClass {
    /// Critical: send a copy over every plausible route.
    pub const CRITICAL: u8 = 1;
    /// Best effort: the bundle may be lost on the way, unless [`ExtendedClass::RELIABLE`] is set, too (ION: reliable
    /// streaming).
    pub const BEST_EFFORT: u8 = 2;
    /// A flow label is present.
    pub const LABEL: u8 = 4;
    /// Reliable: the bundle must not be lost.
    pub const RELIABLE: u8 = 8;
}

/// Parsed content of an extension block.
#[allow(missing_docs, reason = "field names that say all have no docs")]
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Meaning {
    /// Previous hop; null if the block is malformed or contradicts itself (RFC 6259 3.3).
    PreviousHop(EndpointId),
    /// Bundle age, µs.
    Age(u64),
    /// Extended class of service.
    Service(ExtendedClass),
    /// Labels of the router and of the congestion control.
    Labels([u32; 2]),
    /// Mark that a node on the path received the bundle from an unconfigured neighbour.
    Unvouched,
    /// Custody transfer number and the custodian who assigned it; valid while that node has custody.
    Custody {
        /// Number assigned by the custodian.
        id: u64,
        custodian: EndpointId,
    },
    /// Unknown type, or data that does not parse.
    Unknown,
}

/// Endpoint ID references of one block, checked.
#[derive(Clone)]
pub(super) struct References<'a> {
    bytes: &'a [u8],
    pub count: u64,
}
impl<'a> References<'a> {
    fn read(reader: &mut FieldReader<'a>, bytes: &'a [u8], names: NameTable<'_>) -> Result<Self, HeadError> {
        let count = reader.sdnv()?;
        let start = reader.position();
        // Nothing is allocated for `count`: a peer may state a large one and send few references.
        for _ in 0..count {
            let at = reader.position();
            let pair = (reader.sdnv()?, reader.sdnv()?);
            names.check(pair).or_else(|reason| reader.bad_at(at, reason))?;
        }
        Ok(References { bytes: &bytes[start..reader.position()], count })
    }
    /// Endpoint IDs of the first `most` references; malformed ones are skipped.
    pub fn endpoints(&self, names: NameTable<'_>, most: usize) -> Vec<EndpointId> {
        let mut reader = FieldReader::closed(self.bytes, 0, "");
        let mut next = || Some((reader.sdnv().ok()?, reader.sdnv().ok()?));
        core::iter::from_fn(&mut next).take(most).filter_map(|pair| names.endpoint(pair).ok()).collect()
    }
}

/// Header of a canonical block, up to its data.
pub(super) struct Start<'a> {
    pub kind: u8,
    pub flags: u64,
    /// Position of the last byte of the flags, which holds the lowest seven bits.
    pub flags_at: usize,
    pub references: Option<References<'a>>,
    /// Length of the data, bytes.
    pub len: u64,
    /// Position of the block's first byte.
    pub at: usize,
}
impl<'a> Start<'a> {
    /// Reads a block's header; `bytes` is the reader's input.
    pub fn read(reader: &mut FieldReader<'a>, bytes: &'a [u8], names: NameTable<'_>) -> Result<Self, HeadError> {
        let at = reader.position();
        let (kind, flags) = (reader.byte()?, reader.sdnv()?);
        let flags_at = reader.position() - 1;
        let references = match flags & REFERENCES {
            0 => None,
            _ if kind == kind::PAYLOAD => return reader.bad_at(at, "a payload block that refers to endpoint IDs"),
            _ => Some(References::read(reader, bytes, names)?),
        };
        Ok(Start { kind, flags, flags_at, references, len: reader.sdnv()?, at })
    }
}

/// Extension block in place, not copied.
pub(super) struct Block<'a> {
    pub start: Start<'a>,
    pub data: &'a [u8],
    pub meaning: Meaning,
    pub span: Range<usize>,
}
impl<'a> Block<'a> {
    /// Reads the rest of an extension block.
    pub fn read(start: Start<'a>, reader: &mut FieldReader<'a>, names: NameTable<'_>) -> Result<Self, HeadError> {
        let data = reader.take(start.len)?;
        let meaning = meaning(&start, data, names);
        let span = start.at..reader.position();
        Ok(Block { start, data, meaning, span })
    }
    /// Bit that stands for this kind of hop-written block; 0 for a block that hops do not write.
    pub fn of_hops(&self) -> u8 {
        match self.meaning {
            Meaning::PreviousHop(_) => 1,
            Meaning::Age(_) => 2,
            Meaning::Labels(_) => 4,
            Meaning::Custody { .. } => 8,
            Meaning::Unvouched => 16,
            _ => 0,
        }
    }
}

fn meaning(start: &Start<'_>, data: &[u8], names: NameTable<'_>) -> Meaning {
    let known = match start.kind {
        kind::PREVIOUS_HOP => Some(Meaning::PreviousHop(previous_hop(start, data, names))),
        kind::AGE => only_sdnv(data).map(Meaning::Age),
        kind::SERVICE => service(data).map(Meaning::Service),
        kind::LABELS => labels(data).map(Meaning::Labels),
        kind::UNVOUCHED => (data == [1]).then_some(Meaning::Unvouched),
        kind::CUSTODY => custody(data, names),
        _ => None,
    };
    known.unwrap_or(Meaning::Unknown)
}

/// Parses a previous hop: one reference, or two strings (RFC 6259 2); both must agree (3.3).
fn previous_hop(start: &Start<'_>, data: &[u8], names: NameTable<'_>) -> EndpointId {
    let referred = match &start.references {
        Some(references) if references.count == 1 => references.endpoints(names, 1).pop(),
        Some(_) => return EndpointId::Null,
        None => None,
    };
    let named = data.strip_suffix(&[0]).and_then(|strings| {
        let end = strings.iter().position(|byte| *byte == 0)?;
        let (scheme, part) = (&strings[..end], &strings[end + 1..]);
        if part.contains(&0) { None } else { names::from_parts(scheme, part, names.profile).ok() }
    });
    match (referred, named) {
        (Some(one), None) if data.is_empty() => one,
        (None, Some(one)) => one,
        (Some(one), Some(other)) if one == other => one,
        _ => EndpointId::Null,
    }
}

fn service(data: &[u8]) -> Option<ExtendedClass> {
    let (&[flags, ordinal], rest) = data.split_first_chunk()?;
    let label = match (flags & ExtendedClass::LABEL, rest) {
        (0, []) => 0,
        (0, _) => return None,
        (_, label) => only_sdnv(label)?,
    };
    Some(ExtendedClass { flags, ordinal, label })
}

fn labels(data: &[u8]) -> Option<[u32; 2]> {
    let (router, used) = sdnv::decode(data).ok()?;
    let control = only_sdnv(&data[used..])?;
    Some([u32::try_from(router).ok()?, u32::try_from(control).ok()?])
}

/// Parses a custody block: the number, then the custodian's text without terminator (CCSDS 734.2-B-1).
fn custody(data: &[u8], names: NameTable<'_>) -> Option<Meaning> {
    let (id, used) = sdnv::decode(data).ok()?;
    let custodian = names::from_text(&data[used..], names.profile).ok()?;
    Some(Meaning::Custody { id, custodian })
}

/// Encodes the data of a custody block.
pub(super) fn custody_data(number: u64, custodian: &EndpointId) -> Vec<u8> {
    let name = names::text(custodian);
    let mut data = Vec::with_capacity(sdnv::LEN_MAX + name.len());
    put_sdnv(&mut data, number);
    data.extend_from_slice(name.as_bytes());
    data
}

/// Appends an extension block without endpoint ID references.
pub(super) fn put_block(kind: u8, flags: u64, data: &[u8], out: &mut impl ByteSink) {
    out.byte(kind);
    // A written block has no references; the caller flags the last block.
    put_sdnv(out, flags & !(REFERENCES | LAST));
    put_sdnv(out, data.len() as u64);
    out.put(data);
}
/// Encodes the data of an age block; the age is in ms.
pub(super) fn age_data(age_ms: u64) -> Vec<u8> {
    let mut data = Vec::with_capacity(sdnv::LEN_MAX);
    // ION's block counts microseconds.
    put_sdnv(&mut data, age_ms.saturating_mul(1000));
    data
}
/// Encodes the data of a labels block.
pub(super) fn labels_data(labels: [u32; 2]) -> Vec<u8> {
    let mut data = Vec::with_capacity(10);
    labels.iter().for_each(|label| put_sdnv(&mut data, u64::from(*label)));
    data
}
/// Encodes the data of a previous hop insertion block: two strings (RFC 6259 2). `None` if BPv6 cannot express the
/// node.
pub(super) fn previous_hop_data(node: &EndpointId) -> Option<Vec<u8>> {
    let (scheme, part) = names::may_be_given(node).then(|| names::parts(node))??;
    let mut data = Vec::with_capacity(scheme.len() + part.len() + 2);
    for text in [scheme, part] {
        data.extend_from_slice(text.as_bytes());
        data.push(0);
    }
    Some(data)
}
