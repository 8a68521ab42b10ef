//! Administrative records (RFC 5050 6.1): status reports, custody signals, and aggregate custody signals (CCSDS
//! 734.2-B-1). The first byte holds the type and the fragment flag.

use super::names;
use super::wire::{FieldReader, put_sdnv};
use crate::head::HeadError;
use crate::v7::StatusAssertion;
use crate::{BundleId, CreationTimestamp, EndpointId, Profile, StatusItem, reason};
use alloc::vec::Vec;
use farlink_base::{BundleMeta, Bytes, DtnTime, Malformed};

const STATUS_REPORT: u8 = 1;
const CUSTODY_SIGNAL: u8 = 2;
const AGGREGATE_SIGNAL: u8 = 4;
/// Record type of policy signals, chosen by Farlink: RFC 5050 6.1 reserves it, and it was never assigned.
const SIGNAL: u8 = 15;
/// Flag: the subject is a fragment.
const FRAGMENT: u8 = 1;

const SHORT: &str = "the record ends too early";

/// Bundle status report (RFC 5050 6.1.1).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StatusReport {
    /// Assertion that the node received the bundle.
    pub received: StatusItem,
    /// Assertion that the node took custody.
    pub accepted: StatusItem,
    /// Assertion that the node forwarded the bundle.
    pub forwarded: StatusItem,
    /// Assertion that the node delivered the bundle.
    pub delivered: StatusItem,
    /// Assertion that the node deleted the bundle.
    pub deleted: StatusItem,
    /// Reason code; codes up to 8 are those of [`crate::reason`].
    pub reason: u8,
    /// Identity of the subject bundle, with its time in whole seconds.
    pub subject: BundleId,
}
impl StatusReport {
    /// Assertions with their names, in the order of their flags.
    pub fn items(&self) -> [(&'static str, StatusItem); 5] {
        [
            ("received", self.received),
            ("custody accepted", self.accepted),
            ("forwarded", self.forwarded),
            ("delivered", self.delivered),
            ("deleted", self.deleted),
        ]
    }
}

/// Custody signal (RFC 5050 6.1.2).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CustodySignal {
    /// Whether custody was accepted.
    pub succeeded: bool,
    /// Reason code of the signal ([`custody_reason`]).
    pub reason: u8,
    /// Time of the signal.
    pub time: DtnTime,
    /// Identity of the subject bundle, with its time in whole seconds.
    pub subject: BundleId,
}

/// Range of custody transfer numbers. Never iterate over one: a single signal may cover all numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CustodyFill {
    /// First number of the range.
    pub first: u64,
    /// Last number of the range.
    pub last: u64,
}

/// Aggregate custody signal (CCSDS 734.2-B-1).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AggregateSignal {
    /// Whether custody was accepted.
    pub succeeded: bool,
    /// Reason code of the signal ([`custody_reason`]).
    pub reason: u8,
    /// Ranges of numbers covered, lowest first.
    pub fills: Vec<CustodyFill>,
}

/// Parsed administrative record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ParsedRecord {
    /// Bundle status report.
    Report(StatusReport),
    /// Custody signal about one bundle.
    Custody(CustodySignal),
    /// Custody signal about ranges of numbers.
    Aggregate(AggregateSignal),
    /// Message of a policy to its counterpart at a neighbour.
    Signal(Bytes),
    /// Record of another type.
    Other {
        /// Record type code.
        kind: u8,
        /// Bytes after the first one.
        content: Bytes,
    },
}

/// Meaning of a reason of custody signals (RFC 5050 6.1.2).
pub fn custody_reason(code: u8) -> &'static str {
    match code {
        0 | 4..=8 => reason_text(code),
        3 => "redundant reception",
        _ => "reserved",
    }
}
/// Meaning of a reason of status reports (RFC 5050 6.1.1).
fn reason_text(code: u8) -> &'static str {
    match code {
        5 => "destination endpoint ID unintelligible",
        0..=8 => reason::text(u64::from(code)),
        _ => "reserved",
    }
}
impl StatusReport {
    /// Meaning of the reason code.
    pub fn reason_text(&self) -> &'static str {
        reason_text(self.reason)
    }
}

/// BPv6 code for a reason of [`crate::reason`]. Of the reasons added by BPv7, two map to the nearest old one, the
/// others to "no additional information".
// 5050-5.6-2
fn old_reason(code: u64) -> u8 {
    match code {
        0..=8 => code as u8,
        reason::BLOCK_UNSUPPORTED => reason::BLOCK_UNINTELLIGIBLE as u8,
        reason::TRAFFIC_PARED => reason::DEPLETED_STORAGE as u8,
        _ => reason::NONE as u8,
    }
}

/// Appends a DTN time as seconds and nanoseconds (RFC 5050 6.1).
fn put_time(out: &mut Vec<u8>, time: DtnTime) {
    put_sdnv(out, time.as_millis() / 1000);
    put_sdnv(out, time.as_millis() % 1000 * 1_000_000);
}

/// Encodes a status report as the payload of an administrative bundle. `reason` is one of [`crate::reason`]. A report
/// always contains a time; 0 for a node without clock.
// 5050-5.4-10, 5050-6.2-1, 5050-6.2-2
pub fn status_report(about: &BundleMeta, which: StatusAssertion, reason: u64, time: Option<DtnTime>) -> Bytes {
    let flag = match which {
        StatusAssertion::Received => 1,
        StatusAssertion::Forwarded => 4,
        StatusAssertion::Delivered => 8,
        StatusAssertion::Deleted => 16,
    };
    let identity = about.identity();
    let mut out = Vec::with_capacity(48);
    let fragment = if identity.fragment.is_some() { FRAGMENT } else { 0 };
    out.extend_from_slice(&[STATUS_REPORT << 4 | fragment, flag, old_reason(reason)]);
    if let Some((offset, len)) = identity.fragment {
        put_sdnv(&mut out, offset);
        put_sdnv(&mut out, len);
    }
    put_time(&mut out, time.unwrap_or(DtnTime::UNKNOWN));
    put_sdnv(&mut out, about.created_ms / 1000);
    put_sdnv(&mut out, about.sequence);
    let source = names::text(&identity.source);
    put_sdnv(&mut out, source.len() as u64);
    out.extend_from_slice(source.as_bytes());
    Bytes::from(out)
}

/// Encodes a policy's message as the payload of an administrative bundle.
pub fn signal(content: &[u8]) -> Bytes {
    let mut out = Vec::with_capacity(content.len() + 1);
    out.push(SIGNAL << 4);
    out.extend_from_slice(content);
    Bytes::from(out)
}

/// Parses the payload of an administrative bundle.
///
/// # Errors
/// The record is malformed; the error names the rule and the offset.
pub fn record(payload: &[u8]) -> Result<ParsedRecord, Malformed> {
    let mut reader = FieldReader::closed(payload, 0, SHORT);
    read_record(&mut reader, payload).map_err(HeadError::error)
}

fn read_record(reader: &mut FieldReader<'_>, payload: &[u8]) -> Result<ParsedRecord, HeadError> {
    let first = reader.byte()?;
    let fragment = first & FRAGMENT != 0;
    let record = match first >> 4 {
        STATUS_REPORT => ParsedRecord::Report(read_report(reader, fragment)?),
        CUSTODY_SIGNAL => {
            let status = reader.byte()?;
            let place = read_place(reader, fragment)?;
            let time = read_time(reader)?;
            let subject = read_subject(reader, place)?;
            ParsedRecord::Custody(CustodySignal { succeeded: status & 0x80 != 0, reason: status & 0x7f, time, subject })
        }
        AGGREGATE_SIGNAL => {
            let status = reader.byte()?;
            let fills = read_fills(reader)?;
            ParsedRecord::Aggregate(AggregateSignal { succeeded: status & 0x80 != 0, reason: status & 0x7f, fills })
        }
        SIGNAL => return Ok(ParsedRecord::Signal(Bytes::copy_from_slice(&payload[1..]))),
        kind => return Ok(ParsedRecord::Other { kind, content: Bytes::copy_from_slice(&payload[1..]) }),
    };
    if reader.is_at_end() { Ok(record) } else { reader.bad("bytes after an administrative record") }
}

fn read_report(reader: &mut FieldReader<'_>, fragment: bool) -> Result<StatusReport, HeadError> {
    let (flags, reason) = (reader.byte()?, reader.byte()?);
    let place = read_place(reader, fragment)?;
    let mut items = [StatusItem::default(); 5];
    for (bit, item) in items.iter_mut().enumerate() {
        if flags >> bit & 1 != 0 {
            let time = read_time(reader)?;
            // A node without clock writes time 0.
            *item = StatusItem::at(Some(time).filter(|time| *time != DtnTime::UNKNOWN));
        }
    }
    let [received, accepted, forwarded, delivered, deleted] = items;
    let subject = read_subject(reader, place)?;
    Ok(StatusReport { received, accepted, forwarded, delivered, deleted, reason, subject })
}

fn read_place(reader: &mut FieldReader<'_>, fragment: bool) -> Result<Option<(u64, u64)>, HeadError> {
    if fragment { Ok(Some((reader.sdnv()?, reader.sdnv()?))) } else { Ok(None) }
}

/// Reads a DTN time: seconds and nanoseconds since the year 2000 (RFC 5050 6.1).
fn read_time(reader: &mut FieldReader<'_>) -> Result<DtnTime, HeadError> {
    let (seconds, nanoseconds) = (reader.sdnv()?, reader.sdnv()?);
    let time = seconds.checked_mul(1000).and_then(|ms| ms.checked_add(nanoseconds / 1_000_000));
    time.map_or_else(|| reader.bad("a time out of range"), |ms| Ok(DtnTime(ms)))
}

/// Reads the creation timestamp and source of the subject bundle.
fn read_subject(reader: &mut FieldReader<'_>, fragment: Option<(u64, u64)>) -> Result<BundleId, HeadError> {
    let (seconds, sequence) = (reader.sdnv()?, reader.sdnv()?);
    let Some(ms) = seconds.checked_mul(1000) else { return reader.bad("a creation time out of range") };
    let len = reader.sdnv()?;
    let at = reader.position();
    let source = names::from_text(reader.take(len)?, Profile::Permissive);
    let source: EndpointId = source.or_else(|reason| reader.bad_at(at, reason))?;
    Ok(BundleId { source, creation: CreationTimestamp { time: DtnTime(ms), sequence }, fragment })
}

/// Reads fills (CCSDS 734.2-B-1): each is the distance from the last number of the previous fill, and a count.
fn read_fills(reader: &mut FieldReader<'_>) -> Result<Vec<CustodyFill>, HeadError> {
    let mut fills = Vec::new();
    let mut end = 0u64;
    while !reader.is_at_end() {
        let at = reader.position();
        let (delta, len) = (reader.sdnv()?, reader.sdnv()?);
        // Only the first fill may have distance 0; later ones would overlap their predecessor.
        if len == 0 || (delta == 0 && !fills.is_empty()) {
            return reader.bad_at(at, "a fill that is empty or overlaps the one before");
        }
        let fill =
            end.checked_add(delta).and_then(|first| Some(CustodyFill { first, last: first.checked_add(len - 1)? }));
        let Some(fill) = fill else { return reader.bad_at(at, "a fill beyond 64 bits") };
        end = fill.last;
        fills.push(fill);
    }
    Ok(fills)
}

impl AggregateSignal {
    /// Encodes the signal as the payload of an administrative bundle. Fills must be in order and disjoint.
    pub fn encode(&self) -> Bytes {
        let mut out = Vec::with_capacity(2 + 4 * self.fills.len());
        out.extend_from_slice(&[AGGREGATE_SIGNAL << 4, u8::from(self.succeeded) << 7 | self.reason & 0x7f]);
        let mut end = 0;
        for fill in &self.fills {
            put_sdnv(&mut out, fill.first.saturating_sub(end));
            put_sdnv(&mut out, fill.last.saturating_sub(fill.first).saturating_add(1));
            end = fill.last;
        }
        Bytes::from(out)
    }
}

impl CustodySignal {
    /// Encodes the signal as the payload of an administrative bundle.
    pub fn encode(&self) -> Bytes {
        let mut out = Vec::with_capacity(48);
        let BundleId { source, creation, fragment } = &self.subject;
        out.push(CUSTODY_SIGNAL << 4 | u8::from(fragment.is_some()));
        out.push(u8::from(self.succeeded) << 7 | self.reason & 0x7f);
        for place in fragment.iter().flat_map(|(offset, len)| [*offset, *len]) {
            put_sdnv(&mut out, place);
        }
        put_time(&mut out, self.time);
        put_sdnv(&mut out, creation.time.as_millis() / 1000);
        put_sdnv(&mut out, creation.sequence);
        let source = names::text(source);
        put_sdnv(&mut out, source.len() as u64);
        out.extend_from_slice(source.as_bytes());
        Bytes::from(out)
    }
}
