//! Administrative records (RFC 5050 6.1): status reports, custody signals, and aggregate custody signals
//! (CCSDS 734.2-B-1). A record's first byte is its type and whether it is about a fragment.

use super::names;
use super::wire::{Reader, put_sdnv};
use crate::head::Stop;
use crate::v7::Status;
use crate::{BundleId, CreationTimestamp, EndpointId, Profile, StatusItem, reason};
use alloc::vec::Vec;
use farlink_base::{BundleMeta, Bytes, DtnTime, Malformed};

const STATUS_REPORT: u8 = 1;
const CUSTODY_SIGNAL: u8 = 2;
const AGGREGATE_SIGNAL: u8 = 4;
/// Record type of policy signals: ours. RFC 5050 6.1 keeps it for later, and nobody gave it a meaning since.
const SIGNAL: u8 = 15;
/// The record is about a fragment.
const FRAGMENT: u8 = 1;

const SHORT: &str = "the record ends too early";

/// A bundle status report (RFC 5050 6.1.1).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StatusReport {
    /// The node received the bundle.
    pub received: StatusItem,
    /// The node took custody of it.
    pub accepted: StatusItem,
    /// The node forwarded it.
    pub forwarded: StatusItem,
    /// The node delivered it.
    pub delivered: StatusItem,
    /// The node deleted it.
    pub deleted: StatusItem,
    /// Why: the codes up to 8 are those of [`crate::reason`].
    pub reason: u8,
    /// The bundle it is about; its time is in whole seconds.
    pub subject: BundleId,
}
impl StatusReport {
    /// Every assertion, in the order of their flags.
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

/// A custody signal (RFC 5050 6.1.2).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CustodySignal {
    /// Whether custody was taken.
    pub succeeded: bool,
    /// Why ([`custody_reason`]).
    pub reason: u8,
    /// When it was made.
    pub time: DtnTime,
    /// The bundle it is about; its time is in whole seconds.
    pub subject: BundleId,
}

/// Numbers of custody transfers, one after the other. Never walk over them: one signal may name them all.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fill {
    /// The first one.
    pub first: u64,
    /// The last one.
    pub last: u64,
}

/// An aggregate custody signal (CCSDS 734.2-B-1).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AggregateSignal {
    /// Whether custody was taken.
    pub succeeded: bool,
    /// Why ([`custody_reason`]).
    pub reason: u8,
    /// Which numbers it is about, lowest first.
    pub fills: Vec<Fill>,
}

/// What an administrative bundle says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Record {
    /// A status report.
    Report(StatusReport),
    /// A custody signal.
    Custody(CustodySignal),
    /// An aggregate custody signal.
    Aggregate(AggregateSignal),
    /// A policy's message to its like at a neighbour.
    Signal(Bytes),
    /// Another record.
    Other {
        /// Record type code.
        kind: u8,
        /// What follows its first byte.
        content: Bytes,
    },
}

/// What a reason of custody signals means (RFC 5050 6.1.2).
pub fn custody_reason(code: u8) -> &'static str {
    match code {
        0 | 4..=8 => reason_text(code),
        3 => "redundant reception",
        _ => "reserved",
    }
}
/// What a reason of status reports means (RFC 5050 6.1.1).
fn reason_text(code: u8) -> &'static str {
    match code {
        5 => "destination endpoint ID unintelligible",
        0..=8 => reason::text(u64::from(code)),
        _ => "reserved",
    }
}
impl StatusReport {
    /// What its reason means.
    pub fn reason_text(&self) -> &'static str {
        reason_text(self.reason)
    }
}

/// The code of BPv6 for a reason of [`crate::reason`]: what came later is said with what there was.
// 5050-5.6-2
fn old_reason(code: u64) -> u8 {
    match code {
        0..=8 => code as u8,
        reason::BLOCK_UNSUPPORTED => reason::BLOCK_UNINTELLIGIBLE as u8,
        reason::TRAFFIC_PARED => reason::DEPLETED_STORAGE as u8,
        _ => reason::NONE as u8,
    }
}

/// Appends a DTN time: seconds, then nanoseconds (RFC 5050 6.1).
fn put_time(out: &mut Vec<u8>, time: DtnTime) {
    put_sdnv(out, time.as_millis() / 1000);
    put_sdnv(out, time.as_millis() % 1000 * 1_000_000);
}

/// A status report as the payload of an administrative bundle. `reason` is one of [`crate::reason`]. A report always
/// says when; a node without clock says 0.
// 5050-5.4-10, 5050-6.2-1, 5050-6.2-2
pub fn status_report(about: &BundleMeta, which: Status, reason: u64, time: Option<DtnTime>) -> Bytes {
    let flag = match which {
        Status::Received => 1,
        Status::Forwarded => 4,
        Status::Delivered => 8,
        Status::Deleted => 16,
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

/// A policy's message as the payload of an administrative bundle.
pub fn signal(content: &[u8]) -> Bytes {
    let mut out = Vec::with_capacity(content.len() + 1);
    out.push(SIGNAL << 4);
    out.extend_from_slice(content);
    Bytes::from(out)
}

/// Reads the payload of an administrative bundle.
///
/// # Errors
/// What is wrong with it, and where.
pub fn record(payload: &[u8]) -> Result<Record, Malformed> {
    let mut reader = Reader::closed(payload, 0, SHORT);
    read_record(&mut reader, payload).map_err(Stop::error)
}

fn read_record(reader: &mut Reader<'_>, payload: &[u8]) -> Result<Record, Stop> {
    let first = reader.byte()?;
    let fragment = first & FRAGMENT != 0;
    let record = match first >> 4 {
        STATUS_REPORT => Record::Report(read_report(reader, fragment)?),
        CUSTODY_SIGNAL => {
            let status = reader.byte()?;
            let place = read_place(reader, fragment)?;
            let time = read_time(reader)?;
            let subject = read_subject(reader, place)?;
            Record::Custody(CustodySignal { succeeded: status & 0x80 != 0, reason: status & 0x7f, time, subject })
        }
        AGGREGATE_SIGNAL => {
            let status = reader.byte()?;
            let fills = read_fills(reader)?;
            Record::Aggregate(AggregateSignal { succeeded: status & 0x80 != 0, reason: status & 0x7f, fills })
        }
        SIGNAL => return Ok(Record::Signal(Bytes::copy_from_slice(&payload[1..]))),
        kind => return Ok(Record::Other { kind, content: Bytes::copy_from_slice(&payload[1..]) }),
    };
    if reader.is_at_end() { Ok(record) } else { reader.bad("bytes after an administrative record") }
}

fn read_report(reader: &mut Reader<'_>, fragment: bool) -> Result<StatusReport, Stop> {
    let (flags, reason) = (reader.byte()?, reader.byte()?);
    let place = read_place(reader, fragment)?;
    let mut items = [StatusItem::default(); 5];
    for (bit, item) in items.iter_mut().enumerate() {
        if flags >> bit & 1 != 0 {
            let time = read_time(reader)?;
            *item = StatusItem::at(Some(time).filter(|time| *time != DtnTime::UNKNOWN));
        }
    }
    let [received, accepted, forwarded, delivered, deleted] = items;
    let subject = read_subject(reader, place)?;
    Ok(StatusReport { received, accepted, forwarded, delivered, deleted, reason, subject })
}

fn read_place(reader: &mut Reader<'_>, fragment: bool) -> Result<Option<(u64, u64)>, Stop> {
    if fragment { Ok(Some((reader.sdnv()?, reader.sdnv()?))) } else { Ok(None) }
}

/// RFC 5050 6.1: seconds and nanoseconds since the year 2000.
fn read_time(reader: &mut Reader<'_>) -> Result<DtnTime, Stop> {
    let (seconds, nanoseconds) = (reader.sdnv()?, reader.sdnv()?);
    let time = seconds.checked_mul(1000).and_then(|ms| ms.checked_add(nanoseconds / 1_000_000));
    time.map_or_else(|| reader.bad("a time that never comes"), |ms| Ok(DtnTime(ms)))
}

/// Creation timestamp and source of the bundle a record is about.
fn read_subject(reader: &mut Reader<'_>, fragment: Option<(u64, u64)>) -> Result<BundleId, Stop> {
    let (seconds, sequence) = (reader.sdnv()?, reader.sdnv()?);
    let Some(ms) = seconds.checked_mul(1000) else { return reader.bad("a creation time that never comes") };
    let len = reader.sdnv()?;
    let at = reader.position();
    let source = names::from_text(reader.take(len)?, Profile::Permissive);
    let source: EndpointId = source.or_else(|reason| reader.bad_at(at, reason))?;
    Ok(BundleId { source, creation: CreationTimestamp { time: DtnTime(ms), sequence }, fragment })
}

/// CCSDS 734.2-B-1: each fill begins so far after the last number of the one before, and has so many numbers.
fn read_fills(reader: &mut Reader<'_>) -> Result<Vec<Fill>, Stop> {
    let mut fills = Vec::new();
    let mut end = 0u64;
    while !reader.is_at_end() {
        let at = reader.position();
        let (delta, len) = (reader.sdnv()?, reader.sdnv()?);
        // Only the first may begin where it is counted from.
        if len == 0 || (delta == 0 && !fills.is_empty()) {
            return reader.bad_at(at, "a fill without numbers of its own");
        }
        let fill = end.checked_add(delta).and_then(|first| Some(Fill { first, last: first.checked_add(len - 1)? }));
        let Some(fill) = fill else { return reader.bad_at(at, "a fill beyond 64 bits") };
        end = fill.last;
        fills.push(fill);
    }
    Ok(fills)
}

impl AggregateSignal {
    /// The signal as the payload of an administrative bundle. Fills are in order and apart.
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
    /// The signal as the payload of an administrative bundle.
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
