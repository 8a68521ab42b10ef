//! Administrative records as payloads (RFC 9171 6.1), about bundles the engine knows.

use crate::cbor::{Reader, put_bytes};
use crate::{AdministrativeRecord, StatusItem, StatusReport};
use alloc::vec::Vec;
use farlink_base::{BundleMeta, Bytes, DtnTime, Facts, Malformed};

/// Record type of policy signals: private use (RFC 9713).
const SIGNAL: u64 = 65_000;

/// What a status report asserts (RFC 9171 6.1.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Status {
    /// The node received the bundle.
    Received,
    /// The node forwarded it.
    Forwarded,
    /// The node delivered it.
    Delivered,
    /// The node deleted it.
    Deleted,
}

/// What an administrative bundle says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Record {
    /// A status report.
    Report(StatusReport),
    /// A policy's message to its like at a neighbour.
    Signal(Bytes),
    /// Another record; its content is one CBOR item.
    Other {
        /// Record type code.
        kind: u64,
        /// The content as encoded.
        content: Bytes,
    },
}

/// A status report as the payload of an administrative bundle. `reason` is one of
/// [`crate::reason`]; a bundle that asks for times is told one, though it be that of a node without clock, and any other
/// none (RFC 9171 6.1.1).
// 9171-6.1.1-5, 9171-6.2-1
pub fn status_report(about: &BundleMeta, which: Status, reason: u64, time: Option<DtnTime>) -> Bytes {
    let mut report = StatusReport::about(about.identity(), reason);
    let item = match which {
        Status::Received => &mut report.received,
        Status::Forwarded => &mut report.forwarded,
        Status::Delivered => &mut report.delivered,
        Status::Deleted => &mut report.deleted,
    };
    *item = StatusItem::at(about.facts.has(Facts::STATUS_TIME).then(|| time.unwrap_or(DtnTime::UNKNOWN)));
    AdministrativeRecord::Status(report).encode()
}

/// A policy's message as the payload of an administrative bundle.
pub fn signal(content: &[u8]) -> Bytes {
    let mut item = Vec::with_capacity(content.len() + 9);
    put_bytes(&mut item, content);
    AdministrativeRecord::Unknown { kind: SIGNAL, content: Bytes::from(item) }.encode()
}

/// Reads the payload of an administrative bundle.
///
/// # Errors
/// What is wrong with it, and where.
pub fn record(payload: &[u8]) -> Result<Record, Malformed> {
    Ok(match AdministrativeRecord::decode(payload)? {
        AdministrativeRecord::Status(report) => Record::Report(report),
        AdministrativeRecord::Unknown { kind: SIGNAL, content } => {
            let mut reader = Reader::new(&content, 0, false);
            let bytes = reader.bytes()?;
            reader.finish("bytes after a signal")?;
            Record::Signal(content.slice_ref(bytes))
        }
        AdministrativeRecord::Unknown { kind, content } => Record::Other { kind, content },
    })
}
