//! Administrative records as payloads (RFC 9171 6.1), about bundles of the engine.

use crate::cbor::{CborReader, put_bytes};
use crate::{AdministrativeRecord, StatusItem, StatusReport};
use alloc::vec::Vec;
use farlink_base::{BundleMeta, Bytes, DtnTime, Facts, Malformed};

/// Record type of policy signals: private use (RFC 9713).
const SIGNAL: u64 = 65_000;

/// Event asserted by a status report (RFC 9171 6.1.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StatusAssertion {
    /// Reception of the bundle.
    Received,
    /// Forwarding of the bundle.
    Forwarded,
    /// Delivery of the bundle.
    Delivered,
    /// Deletion of the bundle.
    Deleted,
}

/// Parsed administrative record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ParsedRecord {
    /// Bundle status report.
    Report(StatusReport),
    /// Message of a policy to its counterpart at a neighbour.
    Signal(Bytes),
    /// Record of another type; its content is one CBOR item.
    Other {
        /// Record type code.
        kind: u64,
        /// Content, as encoded.
        content: Bytes,
    },
}

/// Encodes a status report as the payload of an administrative bundle. `reason` is one of [`crate::reason`]. A time is
/// included only if the bundle requests times (RFC 9171 6.1.1); it is 0 for a node without clock.
// 9171-6.1.1-5, 9171-6.2-1
pub fn status_report(about: &BundleMeta, which: StatusAssertion, reason: u64, time: Option<DtnTime>) -> Bytes {
    let mut report = StatusReport::about(about.identity(), reason);
    let item = match which {
        StatusAssertion::Received => &mut report.received,
        StatusAssertion::Forwarded => &mut report.forwarded,
        StatusAssertion::Delivered => &mut report.delivered,
        StatusAssertion::Deleted => &mut report.deleted,
    };
    *item = StatusItem::at(about.facts.has(Facts::STATUS_TIME).then(|| time.unwrap_or(DtnTime::UNKNOWN)));
    AdministrativeRecord::Status(report).encode()
}

/// Encodes a policy's message as the payload of an administrative bundle.
pub fn signal(content: &[u8]) -> Bytes {
    let mut item = Vec::with_capacity(content.len() + 9);
    put_bytes(&mut item, content);
    AdministrativeRecord::Unknown { kind: SIGNAL, content: Bytes::from(item) }.encode()
}

/// Parses the payload of an administrative bundle.
///
/// # Errors
/// The record is malformed; the error names the rule and the offset.
pub fn record(payload: &[u8]) -> Result<ParsedRecord, Malformed> {
    Ok(match AdministrativeRecord::decode(payload)? {
        AdministrativeRecord::Status(report) => ParsedRecord::Report(report),
        AdministrativeRecord::Unknown { kind: SIGNAL, content } => {
            let mut reader = CborReader::new(&content, 0, false);
            let bytes = reader.bytes()?;
            reader.finish("bytes after a signal")?;
            ParsedRecord::Signal(content.slice_ref(bytes))
        }
        AdministrativeRecord::Unknown { kind, content } => ParsedRecord::Other { kind, content },
    })
}
