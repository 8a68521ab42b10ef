//! Administrative records: status reports (RFC 9171 6.1); others are kept as encoded.

use crate::cbor::{ARRAY, CborReader, put_head, put_uint};
use crate::eid_wire::EidCodec;
use crate::fields::read_creation;
use crate::{BundleId, CreationTimestamp, EndpointId, Profile};
use alloc::vec::Vec;
use farlink_base::{Bytes, DtnTime, Malformed};

/// Record type of status reports (RFC 9713).
const STATUS_REPORT: u64 = 1;

/// Status report reason codes (RFC 9171 9.5, RFC 9172 11.2).
pub mod reason {
    macro_rules! codes {
        ($($name:ident = $code:literal, $text:literal;)*) => {
            $(#[doc = $text] pub const $name: u64 = $code;)*
            /// Meaning of a reason code, for people.
            pub fn text(code: u64) -> &'static str {
                match code {
                    $($code => $text,)*
                    255 => "reserved",
                    _ => "unassigned reason",
                }
            }
        };
    }
    codes! {
        NONE = 0, "no additional information";
        LIFETIME_EXPIRED = 1, "lifetime expired";
        UNIDIRECTIONAL = 2, "forwarded over a unidirectional link";
        CANCELLED = 3, "transmission cancelled";
        DEPLETED_STORAGE = 4, "depleted storage";
        DESTINATION_UNAVAILABLE = 5, "destination endpoint unavailable";
        NO_ROUTE = 6, "no known route to the destination";
        NO_TIMELY_CONTACT = 7, "no timely contact with the next node";
        BLOCK_UNINTELLIGIBLE = 8, "block unintelligible";
        HOP_LIMIT = 9, "hop limit exceeded";
        TRAFFIC_PARED = 10, "traffic pared";
        BLOCK_UNSUPPORTED = 11, "block unsupported";
        MISSING_SECURITY = 12, "missing security operation";
        UNKNOWN_SECURITY = 13, "unknown security operation";
        UNEXPECTED_SECURITY = 14, "unexpected security operation";
        FAILED_SECURITY = 15, "failed security operation";
        CONFLICTING_SECURITY = 16, "conflicting security operation";
    }
}

/// Assertion of a status report.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StatusItem {
    /// Whether the event happened.
    pub asserted: bool,
    /// Time of the event, if the subject bundle requested times.
    pub time: Option<DtnTime>,
}
impl StatusItem {
    /// Asserts the event, with its time if the subject bundle requested times (unknown for a node without clock).
    pub const fn at(time: Option<DtnTime>) -> Self {
        StatusItem { asserted: true, time }
    }
}

/// Bundle status report (RFC 9171 6.1.1).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StatusReport {
    /// Assertion that the node received the bundle.
    pub received: StatusItem,
    /// Assertion that the node forwarded the bundle.
    pub forwarded: StatusItem,
    /// Assertion that the node delivered the bundle.
    pub delivered: StatusItem,
    /// Assertion that the node deleted the bundle.
    pub deleted: StatusItem,
    /// Reason code of the report ([`reason`]).
    pub reason: u64,
    /// Source of the subject bundle.
    pub source: EndpointId,
    /// Creation timestamp of the subject bundle.
    pub creation: CreationTimestamp,
    /// Fragment offset and payload length, if the subject is a fragment.
    pub fragment: Option<(u64, u64)>,
}
impl StatusReport {
    /// Creates a report about a bundle, without assertions.
    pub fn about(subject: BundleId, reason: u64) -> Self {
        let BundleId { source, creation, fragment } = subject;
        let none = StatusItem::default();
        StatusReport {
            received: none,
            forwarded: none,
            delivered: none,
            deleted: none,
            reason,
            source,
            creation,
            fragment,
        }
    }
    /// Identity of the subject bundle.
    pub fn subject(&self) -> BundleId {
        BundleId { source: self.source.clone(), creation: self.creation, fragment: self.fragment }
    }
}

/// Administrative record of a bundle's payload.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AdministrativeRecord {
    /// Status report, type 1.
    Status(StatusReport),
    /// Record of another type, with its content as encoded.
    Unknown {
        /// Record type code.
        kind: u64,
        /// Encoded content, one CBOR item.
        content: Bytes,
    },
}

impl AdministrativeRecord {
    /// Encodes the record as the payload of an administrative bundle.
    // 9171-6.1-1, 9171-6.1-2, 9171-6.1-3
    pub fn encode(&self) -> Bytes {
        let mut out = Vec::with_capacity(48);
        put_head(&mut out, ARRAY, 2);
        match self {
            AdministrativeRecord::Status(report) => {
                put_uint(&mut out, STATUS_REPORT);
                encode_report(report, &mut out);
            }
            AdministrativeRecord::Unknown { kind, content } => {
                put_uint(&mut out, *kind);
                out.extend_from_slice(content);
            }
        }
        Bytes::from(out)
    }

    /// Decodes the payload of an administrative bundle.
    // 9171-6.1-1, 9171-6.1-2, 9171-6.1-3
    pub fn decode(payload: &[u8]) -> Result<AdministrativeRecord, Malformed> {
        let mut reader = CborReader::new(payload, 0, false);
        let two = "an administrative record is an array of two items";
        let record = reader.list_of(2, two, |reader| {
            Ok(match reader.uint()? {
                STATUS_REPORT => AdministrativeRecord::Status(read_report(reader)?),
                kind => AdministrativeRecord::Unknown { kind, content: Bytes::copy_from_slice(reader.item()?) },
            })
        })?;
        reader.finish("bytes after an administrative record")?;
        Ok(record)
    }
}

// 9171-6.1.1-1, 9171-6.1.1-2, 9171-6.1.1-3, 9171-6.1.1-4, 9171-6.1.1-5, 9171-6.1.1-6, 9171-6.1.1-7
// 9171-6.1.1-8, 9171-6.1.1-9, 9171-6.1.1-10, 9171-6.1.1-11, 9171-6.1.1-12, 9171-6.1.1-13, 9171-6.1.1-14
fn encode_report(report: &StatusReport, out: &mut Vec<u8>) {
    put_head(out, ARRAY, if report.fragment.is_some() { 6 } else { 4 });
    put_head(out, ARRAY, 4);
    for item in [report.received, report.forwarded, report.delivered, report.deleted] {
        // RFC 9171 6.1.1: an item without assertion has no time.
        let time = item.time.filter(|_| item.asserted);
        put_head(out, ARRAY, 1 + u64::from(time.is_some()));
        out.push(if item.asserted { 0xf5 } else { 0xf4 });
        if let Some(time) = time {
            put_uint(out, time.as_millis());
        }
    }
    put_uint(out, report.reason);
    report.source.encode(out);
    put_head(out, ARRAY, 2);
    put_uint(out, report.creation.time.as_millis());
    put_uint(out, report.creation.sequence);
    // 9171-6.2-1
    if let Some((offset, len)) = report.fragment {
        put_uint(out, offset);
        put_uint(out, len);
    }
}

fn read_report(reader: &mut CborReader<'_>) -> Result<StatusReport, Malformed> {
    let start = reader.position();
    reader.list(|reader, items| {
        if items != 4 && items != 6 {
            return reader.error_at(start, "a status report is an array of four or six items");
        }
        let [received, forwarded, delivered, deleted] = read_items(reader)?;
        let reason = reader.uint()?;
        let source = EndpointId::read(reader, Profile::Permissive)?;
        let creation = read_creation(reader)?;
        let fragment = if items == 6 { Some((reader.uint()?, reader.uint()?)) } else { None };
        Ok(StatusReport { received, forwarded, delivered, deleted, reason, source, creation, fragment })
    })
}

/// Reads the four assertions; later standards may append more.
fn read_items(reader: &mut CborReader<'_>) -> Result<[StatusItem; 4], Malformed> {
    let start = reader.position();
    reader.list(|reader, count| {
        if count < 4 {
            return reader.error_at(start, "a status report has at least four assertions");
        }
        let mut items = [StatusItem::default(); 4];
        items.iter_mut().try_for_each(|item| read_item(reader).map(|read| *item = read))?;
        // Assertions of later standards are skipped.
        (4..count).try_for_each(|_| reader.item().map(drop))?;
        Ok(items)
    })
}

fn read_item(reader: &mut CborReader<'_>) -> Result<StatusItem, Malformed> {
    let start = reader.position();
    reader.list(|reader, fields| {
        if fields != 1 && fields != 2 {
            return reader.error_at(start, "a status assertion is an array of one or two items");
        }
        let asserted = reader.boolean()?;
        let time = if fields == 2 { Some(DtnTime(reader.uint()?)) } else { None };
        // RFC 9171 6.1.1: the time belongs to an asserted event; without one it is meaningless.
        Ok(StatusItem { asserted, time: time.filter(|_| asserted) })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subject(fragment: Option<(u64, u64)>) -> BundleId {
        let creation = CreationTimestamp { time: DtnTime(799_000_000_000), sequence: 4 };
        BundleId { source: EndpointId::dtn("a", "b"), creation, fragment }
    }

    /// Keeps 9171-6.1-1, 9171-6.1.1-2, 9171-6.1.1-7, 9171-6.1.1-8, 9171-6.1.1-9, 9171-6.1.1-10.
    /// Keeps 9171-6.1.1-11, 9171-6.1.1-12, 9171-6.1.1-13, 9171-6.1.1-14.
    #[test]
    fn status_reports_round_trip() {
        for fragment in [None, Some((5, 7))] {
            for time in [None, Some(DtnTime(9))] {
                let mut report = StatusReport::about(subject(fragment), reason::LIFETIME_EXPIRED);
                report.deleted = StatusItem::at(time);
                report.received = StatusItem::at(time);
                assert_eq!(report.subject(), subject(fragment));
                let record = AdministrativeRecord::Status(report);
                assert_eq!(AdministrativeRecord::decode(&record.encode()), Ok(record));
            }
        }
    }

    /// Keeps 9171-6.1-1, 9171-6.1-2, 9171-6.1-3, 9171-6.1.1-1, 9171-6.1.1-2, 9171-6.1.1-3, 9171-6.1.1-4.
    /// Keeps 9171-6.1.1-5, 9171-6.1.1-6, 9171-6.1.1-7, 9171-6.1.1-8, 9171-6.1.1-9, 9171-6.1.1-10.
    /// Keeps 9171-6.1.1-11, 9171-6.1.1-12, 9171-6.1.1-13, 9171-6.1.1-14, 9171-6.2-1.
    #[test]
    fn status_report_encoding_is_exact() {
        let mut report = StatusReport::about(subject(None), reason::LIFETIME_EXPIRED);
        report.received = StatusItem::at(None);
        report.deleted = StatusItem::at(Some(DtnTime(9)));
        let time = 799_000_000_000u64.to_be_bytes();
        let about = [b"\x82\x01\x65//a/b\x82\x1b", &time[..], &[4]].concat();
        let items = [0x84, 0x81, 0xf5, 0x81, 0xf4, 0x81, 0xf4, 0x82, 0xf5, 9];
        let wire = |report: StatusReport| AdministrativeRecord::Status(report).encode();
        assert_eq!(wire(report.clone())[..], [&[0x82, 1, 0x84], &items[..], &[1], &about].concat());
        report.fragment = Some((5, 7));
        assert_eq!(wire(report)[..], [&[0x82, 1, 0x86], &items[..], &[1], &about, &[5, 7]].concat());
    }

    /// Keeps 9171-6.1.1-5.
    #[test]
    fn time_of_unasserted_status_is_dropped() {
        let mut report = StatusReport::about(subject(None), reason::NONE);
        report.received = StatusItem::at(Some(DtnTime(9)));
        let record = AdministrativeRecord::Status(report.clone());
        let mut wire = record.encode().to_vec();
        let asserted = wire.iter().position(|byte| *byte == 0xf5).unwrap();
        wire[asserted] = 0xf4;
        report.received = StatusItem::default();
        let read = AdministrativeRecord::decode(&wire).unwrap();
        assert_eq!(read, AdministrativeRecord::Status(report));
        assert_eq!(AdministrativeRecord::decode(&read.encode()), Ok(read.clone()));
        // An assertion that is not made is encoded without its time.
        let AdministrativeRecord::Status(mut other) = read.clone() else { panic!("a report") };
        other.deleted = StatusItem { asserted: false, time: Some(DtnTime(9)) };
        assert_eq!(AdministrativeRecord::Status(other).encode(), read.encode());
    }

    /// Keeps 9171-6.1-2, 9171-6.1-3.
    #[test]
    fn unknown_records_round_trip_truncation_fails() {
        let record = AdministrativeRecord::Unknown { kind: 64_512, content: Bytes::from_static(&[0x82, 1, 2]) };
        assert_eq!(AdministrativeRecord::decode(&record.encode()), Ok(record.clone()));
        // An array that claims 2^64 - 1 assertions.
        let bomb = [0x82, 1, 0x84, 0x9b, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff];
        assert!(AdministrativeRecord::decode(&bomb).is_err());
        let whole = record.encode();
        assert!((0..whole.len()).all(|cut| AdministrativeRecord::decode(&whole[..cut]).is_err()));
    }

    #[test]
    fn records_with_indefinite_arrays_decode() {
        let mut report = StatusReport::about(subject(None), reason::NONE);
        report.received = StatusItem::at(Some(DtnTime(9)));
        let record = AdministrativeRecord::Status(report);
        // The record, its report, the assertions and the first assertion become arrays of indefinite length.
        let wire = record.encode();
        let (assertions, rest) = wire[7..].split_at(6);
        assert_eq!((&wire[..7], assertions), (&[0x82, 1, 0x84, 0x84, 0x82, 0xf5, 9][..], &[0x81, 0xf4].repeat(3)[..]));
        let open = [&[0x9f, 1, 0x9f, 0x9f, 0x9f, 0xf5, 9, 0xff], assertions, &[0xff], rest, &[0xff, 0xff]].concat();
        assert_eq!(AdministrativeRecord::decode(&open), Ok(record.clone()), "{wire:02x?}");
    }

    #[test]
    fn reason_codes_have_text() {
        assert_eq!(reason::text(reason::HOP_LIMIT), "hop limit exceeded");
        assert_eq!(reason::text(99), "unassigned reason");
    }
}
