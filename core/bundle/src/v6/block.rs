//! Canonical blocks (RFC 5050 4.5.2) and what those mean that this node knows.

use super::names::{self, Names};
use super::wire::{Reader, only_sdnv, put_sdnv};
use crate::EndpointId;
use crate::cbor::Out;
use crate::head::Stop;
use alloc::vec::Vec;
use core::ops::Range;
use farlink_base::sdnv;

/// Block processing control flags (RFC 5050 4.3).
pub mod block_flags {
    /// Replicate in every fragment.
    pub const REPLICATE: u64 = 0x01;
    /// Report if the block cannot be processed.
    pub const REPORT: u64 = 0x02;
    /// Delete the bundle if the block cannot be processed.
    pub const DELETE_BUNDLE: u64 = 0x04;
    /// The last block.
    pub const LAST: u64 = 0x08;
    /// Discard the block if it cannot be processed.
    pub const DISCARD: u64 = 0x10;
    /// It was forwarded without being processed.
    pub const UNPROCESSED: u64 = 0x20;
    /// It refers to endpoint IDs.
    pub const REFERENCES: u64 = 0x40;
}
use block_flags::*;

/// Block type codes.
pub mod kind {
    /// Payload (RFC 5050 4.5.3).
    pub const PAYLOAD: u8 = 1;
    /// Bundle authentication (RFC 6257).
    pub const AUTHENTICATION: u8 = 2;
    /// Payload integrity (RFC 6257).
    pub const INTEGRITY: u8 = 3;
    /// Payload confidentiality (RFC 6257).
    pub const CONFIDENTIALITY: u8 = 4;
    /// Previous hop insertion (RFC 6259).
    pub const PREVIOUS_HOP: u8 = 5;
    /// Metadata (RFC 6258).
    pub const METADATA: u8 = 8;
    /// Extension security (RFC 6257).
    pub const EXTENSION_SECURITY: u8 = 9;
    /// Custody transfer enhancement (CCSDS 734.2-B-1).
    pub const CUSTODY: u8 = 10;
    /// Extended class of service (ION, draft-irtf-dtnrg-ecos).
    pub const SERVICE: u8 = 19;
    /// Bundle age (ION), microseconds.
    pub const AGE: u8 = 20;
    /// Permits of spray-and-wait (ION).
    pub const PERMITS: u8 = 21;
    /// Labels of the router and of the congestion control: ours, private use.
    pub const LABELS: u8 = 240;
    /// Nobody vouches for the bundle: ours, private use.
    pub const UNVOUCHED: u8 = 241;
}

/// Extended class of service (draft-irtf-dtnrg-ecos).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Service {
    /// 1 critical, 2 best effort, 4 flow label present, 8 reliable.
    pub flags: u8,
    /// Order within the priority, higher first.
    pub ordinal: u8,
    /// Label of its flow; 0 for none.
    pub label: u64,
}
impl Service {
    /// A copy over every plausible route.
    pub const CRITICAL: u8 = 1;
    /// It may be lost on the way, unless [`Service::RELIABLE`] says that it is a stream only.
    pub const BEST_EFFORT: u8 = 2;
    /// There is a label.
    pub const LABEL: u8 = 4;
    /// It must not be lost.
    pub const RELIABLE: u8 = 8;
}

/// What an extension block means here.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Meaning {
    /// The node it came from; null where the block contradicts itself (RFC 6259 3.3).
    PreviousHop(EndpointId),
    /// Age, µs.
    Age(u64),
    /// Extended class of service.
    Service(Service),
    /// Labels.
    Labels([u32; 2]),
    /// A node on the way had the bundle from a neighbour nobody configured.
    Unvouched,
    /// Number of a custody transfer, and the custodian who gave it; valid while that one has custody.
    Custody {
        /// The custodian's number of the bundle.
        id: u64,
        /// The custodian.
        custodian: EndpointId,
    },
    /// Nothing this node understands.
    Unknown,
}

/// The pairs of endpoint ID references of one block, checked.
#[derive(Clone)]
pub(super) struct References<'a> {
    bytes: &'a [u8],
    pub count: u64,
}
impl<'a> References<'a> {
    fn read(reader: &mut Reader<'a>, bytes: &'a [u8], names: Names<'_>) -> Result<Self, Stop> {
        let count = reader.sdnv()?;
        let start = reader.position();
        for _ in 0..count {
            let at = reader.position();
            let pair = (reader.sdnv()?, reader.sdnv()?);
            names.check(pair).or_else(|reason| reader.bad_at(at, reason))?;
        }
        Ok(References { bytes: &bytes[start..reader.position()], count })
    }
    /// The first of them, up to `most`.
    pub fn endpoints(&self, names: Names<'_>, most: usize) -> Vec<EndpointId> {
        let mut reader = Reader::closed(self.bytes, 0, "");
        let mut next = || Some((reader.sdnv().ok()?, reader.sdnv().ok()?));
        core::iter::from_fn(&mut next).take(most).filter_map(|pair| names.endpoint(pair).ok()).collect()
    }
}

/// A canonical block up to its data.
pub(super) struct Start<'a> {
    pub kind: u8,
    pub flags: u64,
    /// Position of the last byte of its flags: the lowest seven bits.
    pub flags_at: usize,
    pub references: Option<References<'a>>,
    /// Bytes of its data.
    pub len: u64,
    /// Where it begins.
    pub at: usize,
}
impl<'a> Start<'a> {
    /// Reads what comes before a block's data; `bytes` is what the reader reads.
    pub fn read(reader: &mut Reader<'a>, bytes: &'a [u8], names: Names<'_>) -> Result<Self, Stop> {
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

/// One extension block where it lies.
pub(super) struct Block<'a> {
    pub start: Start<'a>,
    pub data: &'a [u8],
    pub meaning: Meaning,
    pub span: Range<usize>,
}
impl<'a> Block<'a> {
    /// The rest of an extension block.
    pub fn read(start: Start<'a>, reader: &mut Reader<'a>, names: Names<'_>) -> Result<Self, Stop> {
        let data = reader.take(start.len)?;
        let meaning = meaning(&start, data, names);
        let span = start.at..reader.position();
        Ok(Block { start, data, meaning, span })
    }
    /// A bit for each kind of block that hops write: each one writes its own, or another value. 0: no such block.
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

fn meaning(start: &Start<'_>, data: &[u8], names: Names<'_>) -> Meaning {
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

/// RFC 6259 2: one reference, or two strings; both (3.3) must say the same.
fn previous_hop(start: &Start<'_>, data: &[u8], names: Names<'_>) -> EndpointId {
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

fn service(data: &[u8]) -> Option<Service> {
    let (&[flags, ordinal], rest) = data.split_first_chunk()?;
    let label = match (flags & Service::LABEL, rest) {
        (0, []) => 0,
        (0, _) => return None,
        (_, label) => only_sdnv(label)?,
    };
    Some(Service { flags, ordinal, label })
}

fn labels(data: &[u8]) -> Option<[u32; 2]> {
    let (router, used) = sdnv::decode(data).ok()?;
    let control = only_sdnv(&data[used..])?;
    Some([u32::try_from(router).ok()?, u32::try_from(control).ok()?])
}

/// CCSDS 734.2-B-1: the number, then the custodian's text without an end mark.
fn custody(data: &[u8], names: Names<'_>) -> Option<Meaning> {
    let (id, used) = sdnv::decode(data).ok()?;
    let custodian = names::from_text(&data[used..], names.profile).ok()?;
    Some(Meaning::Custody { id, custodian })
}

/// Data of a custody block: the number, and who gave it.
pub(super) fn custody_data(number: u64, custodian: &EndpointId) -> Vec<u8> {
    let name = names::text(custodian);
    let mut data = Vec::with_capacity(sdnv::LEN_MAX + name.len());
    put_sdnv(&mut data, number);
    data.extend_from_slice(name.as_bytes());
    data
}

/// Appends an extension block without references.
pub(super) fn put_block(kind: u8, flags: u64, data: &[u8], out: &mut impl Out) {
    out.byte(kind);
    put_sdnv(out, flags & !(REFERENCES | LAST));
    put_sdnv(out, data.len() as u64);
    out.put(data);
}
/// Data of an age block; the age in ms.
pub(super) fn age_data(age_ms: u64) -> Vec<u8> {
    let mut data = Vec::with_capacity(sdnv::LEN_MAX);
    put_sdnv(&mut data, age_ms.saturating_mul(1000));
    data
}
/// Data of a block of labels.
pub(super) fn labels_data(labels: [u32; 2]) -> Vec<u8> {
    let mut data = Vec::with_capacity(10);
    labels.iter().for_each(|label| put_sdnv(&mut data, u64::from(*label)));
    data
}
/// Data of a previous hop insertion block: two strings (RFC 6259 2); `None` where BPv6 cannot say who it is.
pub(super) fn previous_hop_data(node: &EndpointId) -> Option<Vec<u8>> {
    let (scheme, part) = names::may_be_given(node).then(|| names::parts(node))??;
    let mut data = Vec::with_capacity(scheme.len() + part.len() + 2);
    for text in [scheme, part] {
        data.extend_from_slice(text.as_bytes());
        data.push(0);
    }
    Some(data)
}
