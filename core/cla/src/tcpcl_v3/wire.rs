//! Messages of version 3 (RFC 7242 4 and 5): parsed in place from a rope, written into a vector.

use crate::sdnv;
use crate::tcpcl_v4::wire::{END, MAGIC, NoMessage, START, refuse, term};
use alloc::string::String;
use alloc::vec::Vec;
use farlink_base::{PayloadReader, Refusal};

/// Version number in the contact header.
pub(crate) const VERSION: u8 = 3;
/// Longest endpoint ID read or written, bytes; bounds the memory for a contact header.
const EID_MAX: u64 = 2048;

/// Flags of the contact header (RFC 7242 4.1).
pub(super) mod can {
    /// The sender acknowledges segments.
    pub const ACKS: u8 = 1;
    /// The sender keeps the acknowledged part of a broken transfer (RFC 7242 4.1: reactive fragmentation).
    pub const PARTS: u8 = 2;
    /// The sender may refuse bundles.
    pub const REFUSALS: u8 = 4;
    /// The sender asks for LENGTH messages.
    pub const LENGTHS: u8 = 8;
}
/// Message types: the upper half of a message's first byte.
mod kind {
    pub const DATA_SEGMENT: u8 = 1;
    pub const ACK_SEGMENT: u8 = 2;
    pub const REFUSE_BUNDLE: u8 = 3;
    pub const KEEPALIVE: u8 = 4;
    pub const SHUTDOWN: u8 = 5;
    pub const LENGTH: u8 = 6;
}
/// Flag of SHUTDOWN: a reason follows.
const REASON: u8 = 2;
/// Flag of SHUTDOWN: a reconnection delay follows.
const DELAY: u8 = 1;

/// The complete KEEPALIVE message.
pub(super) const KEEPALIVE: u8 = kind::KEEPALIVE << 4;

/// REFUSE_BUNDLE code (RFC 7242 5.4) for a refusal code of version 4.
pub(super) const fn refusal_code(code: u8) -> u8 {
    match code {
        refuse::COMPLETED => 1,
        refuse::NO_RESOURCES | refuse::TERMINATING => 2,
        refuse::RETRANSMIT => 3,
        _ => 0,
    }
}
/// Refusal reason for a REFUSE_BUNDLE code; `None` if the peer asks for retransmission. Unassigned codes count as lack
/// of resources.
pub(super) const fn refusal_of(code: u8) -> Option<Refusal> {
    match code {
        0 => Some(Refusal::NotAcceptable),
        1 => Some(Refusal::Duplicate),
        3 => None,
        _ => Some(Refusal::NoResources),
    }
}
/// SHUTDOWN code (RFC 7242 6.1) for a termination code of version 4; `None` for a regular end.
const fn shutdown_code(code: u8) -> Option<u8> {
    match code {
        term::IDLE => Some(0),
        term::VERSION => Some(1),
        // RFC 7242 6.1 demands a reason for a premature end; of its three codes, only "busy" fits these terminations.
        term::BUSY | term::CONTACT_FAILURE | term::EXHAUSTED => Some(2),
        _ => None,
    }
}

/// Contact header after the magic bytes and the version (RFC 7242 4.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ContactHeader {
    pub flags: u8,
    /// Offered keepalive interval, s.
    pub keepalive: u16,
    pub eid: String,
}

/// One message, or the head of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum V3Message {
    /// Head of a segment with `len` bytes of data.
    Segment {
        flags: u8,
        len: u64,
    },
    /// Number of bytes acknowledged, of the first bundle that is not answered.
    Ack(u64),
    /// Refusal of the first bundle that is not answered, with this code.
    Refuse(u8),
    Keepalive,
    /// End of the session: reason, and seconds during which the peer wants no connection, 0 for ever.
    Shutdown {
        reason: Option<u8>,
        delay_s: Option<u64>,
    },
    /// Length of the next bundle, bytes.
    Length(u64),
}

fn read_u8(reader: &mut PayloadReader<'_>) -> Result<u8, NoMessage> {
    reader.read_u8().ok_or(NoMessage::Incomplete)
}
fn read_sdnv(reader: &mut PayloadReader<'_>) -> Result<u64, NoMessage> {
    let (mut bytes, mut len) = ([0; sdnv::LEN_MAX], 0);
    for byte in &mut bytes {
        *byte = read_u8(reader)?;
        len += 1;
        // The last byte of an SDNV has its high bit clear (RFC 6256 2).
        if *byte < 0x80 {
            break;
        }
    }
    sdnv::decode(&bytes[..len]).map(|(value, _)| value).or(Err(NoMessage::Broken("a number of more than 64 bits")))
}
fn put_sdnv(out: &mut Vec<u8>, value: u64) {
    let mut bytes = [0; sdnv::LEN_MAX];
    let len = sdnv::encode(value, &mut bytes);
    out.extend_from_slice(&bytes[..len]);
}

/// Reads a contact header from after its version. On an error the caller restores the reader's position.
pub(super) fn read_contact(reader: &mut PayloadReader<'_>) -> Result<ContactHeader, NoMessage> {
    let mut head = [0; 3];
    if !reader.read_exact(&mut head) {
        return Err(NoMessage::Incomplete);
    }
    let len = read_sdnv(reader)?;
    if len > EID_MAX {
        return Err(NoMessage::Broken("an endpoint ID longer than 2048 bytes"));
    }
    if reader.remaining() < len {
        return Err(NoMessage::Incomplete);
    }
    let mut eid = alloc::vec![0; len as usize];
    if !reader.read_exact(&mut eid) {
        return Err(NoMessage::Incomplete);
    }
    let eid = String::from_utf8(eid).or(Err(NoMessage::Broken("an endpoint ID that is not UTF-8")))?;
    Ok(ContactHeader { flags: head[0], keepalive: u16::from_be_bytes([head[1], head[2]]), eid })
}
/// Reads the next message; of a segment, only the head. On an error the caller restores the reader's position.
pub(super) fn read_message(reader: &mut PayloadReader<'_>) -> Result<V3Message, NoMessage> {
    let first = read_u8(reader)?;
    Ok(match first >> 4 {
        kind::DATA_SEGMENT => V3Message::Segment { flags: first & (START | END), len: read_sdnv(reader)? },
        kind::ACK_SEGMENT => V3Message::Ack(read_sdnv(reader)?),
        kind::REFUSE_BUNDLE => V3Message::Refuse(first & 0xf),
        kind::KEEPALIVE => V3Message::Keepalive,
        kind::SHUTDOWN => V3Message::Shutdown {
            reason: if first & REASON == 0 { None } else { Some(read_u8(reader)?) },
            delay_s: if first & DELAY == 0 { None } else { Some(read_sdnv(reader)?) },
        },
        kind::LENGTH => V3Message::Length(read_sdnv(reader)?),
        _ => return Err(NoMessage::UnknownType(first)),
    })
}

/// Appends a contact header.
pub(super) fn put_contact(out: &mut Vec<u8>, flags: u8, keepalive: u16, eid: &str) {
    let eid = &eid.as_bytes()[..eid.len().min(EID_MAX as usize)];
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&[VERSION, flags]);
    out.extend_from_slice(&keepalive.to_be_bytes());
    put_sdnv(out, eid.len() as u64);
    out.extend_from_slice(eid);
}
/// Appends a DATA_SEGMENT without its data.
pub(crate) fn put_segment(out: &mut Vec<u8>, flags: u8, len: u64) {
    out.push(kind::DATA_SEGMENT << 4 | flags);
    put_sdnv(out, len);
}
/// Appends a LENGTH message.
pub(crate) fn put_length(out: &mut Vec<u8>, total: u64) {
    out.push(kind::LENGTH << 4);
    put_sdnv(out, total);
}
pub(crate) fn put_ack(out: &mut Vec<u8>, acked: u64) {
    out.push(kind::ACK_SEGMENT << 4);
    put_sdnv(out, acked);
}
/// Appends a REFUSE_BUNDLE for a refusal code of version 4.
pub(crate) fn put_refuse(out: &mut Vec<u8>, code: u8) {
    out.push(kind::REFUSE_BUNDLE << 4 | refusal_code(code));
}
/// Appends a SHUTDOWN for a termination code of version 4.
// 7242-4-4, 7242-6.1-2, 7242-6.1-5
pub(super) fn put_shutdown(out: &mut Vec<u8>, code: u8) {
    match shutdown_code(code) {
        Some(reason) => out.extend_from_slice(&[kind::SHUTDOWN << 4 | REASON, reason]),
        None => out.push(kind::SHUTDOWN << 4),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farlink_base::Payload;

    fn read(bytes: &[u8]) -> Result<V3Message, NoMessage> {
        read_message(&mut Payload::from(bytes.to_vec()).reader())
    }

    #[test]
    fn v3_messages_round_trip() {
        let long = u64::MAX;
        let put = |write: &dyn Fn(&mut Vec<u8>)| {
            let mut out = Vec::new();
            write(&mut out);
            out
        };
        let cases = [
            (put(&|out| put_segment(out, START | END, 300)), V3Message::Segment { flags: 3, len: 300 }),
            (put(&|out| put_segment(out, 0, long)), V3Message::Segment { flags: 0, len: long }),
            (put(&|out| put_ack(out, 127)), V3Message::Ack(127)),
            (put(&|out| put_length(out, 128)), V3Message::Length(128)),
            (put(&|out| put_refuse(out, refuse::NO_RESOURCES)), V3Message::Refuse(2)),
            (put(&|out| put_shutdown(out, term::UNKNOWN)), V3Message::Shutdown { reason: None, delay_s: None }),
            (put(&|out| put_shutdown(out, term::IDLE)), V3Message::Shutdown { reason: Some(0), delay_s: None }),
            (alloc::vec![0x53, 0, 0x3c], V3Message::Shutdown { reason: Some(0), delay_s: Some(60) }),
            (alloc::vec![0x51, 0x81, 0], V3Message::Shutdown { reason: None, delay_s: Some(128) }),
            (alloc::vec![KEEPALIVE], V3Message::Keepalive),
        ];
        for (bytes, message) in cases {
            assert_eq!(read(&bytes), Ok(message));
            assert!((0..bytes.len()).all(|cut| read(&bytes[..cut]) == Err(NoMessage::Incomplete)), "{message:?}");
        }
    }

    #[test]
    fn numbers_exceeding_64_bits_fail() {
        for first in [0x10, 0x20, 0x51, 0x60] {
            let bomb = [&[first][..], &[0x80; 10], &[1]].concat();
            assert!(matches!(read(&bomb), Err(NoMessage::Broken(_))), "{first:#x}");
            assert!(matches!(read(&[&[first][..], &[0xff; 9], &[0x7f]].concat()), Err(NoMessage::Broken(_))));
        }
        for first in [0x00, 0x0f, 0x70, 0x80, 0xf0] {
            assert_eq!(read(&[first, 1]), Err(NoMessage::UnknownType(first)));
        }
    }

    #[test]
    fn contact_headers_round_trip_within_bounds() {
        let mut out = Vec::new();
        put_contact(&mut out, 0x0d, 15, "ipn:1.0");
        let contact = |bytes: &[u8]| read_contact(&mut Payload::from(bytes.to_vec()).reader());
        assert_eq!(contact(&out[5..]), Ok(ContactHeader { flags: 0x0d, keepalive: 15, eid: "ipn:1.0".into() }));
        assert!((5..out.len()).all(|cut| contact(&out[5..cut]) == Err(NoMessage::Incomplete)));
        assert!(matches!(contact(&[0, 0, 0, 0x90, 1]), Err(NoMessage::Broken(_))), "2049 bytes");
        assert_eq!(contact(&[0, 0, 0, 0x90, 0]), Err(NoMessage::Incomplete), "2048 bytes");
        assert!(matches!(contact(&[0, 0, 0, 1, 0xff]), Err(NoMessage::Broken(_))), "not a text");
        assert!(matches!(contact(&[[0; 3].as_slice(), &[0xff; 10]].concat()), Err(NoMessage::Broken(_))));
    }

    #[test]
    fn refusal_reasons_round_trip() {
        for (code, heard) in [
            (refuse::COMPLETED, Some(Refusal::Duplicate)),
            (refuse::NO_RESOURCES, Some(Refusal::NoResources)),
            (refuse::TERMINATING, Some(Refusal::NoResources)),
            (refuse::RETRANSMIT, None),
            (refuse::NOT_ACCEPTABLE, Some(Refusal::NotAcceptable)),
            (refuse::EXTENSION, Some(Refusal::NotAcceptable)),
        ] {
            assert_eq!(refusal_of(refusal_code(code)), heard, "{code}");
        }
        assert_eq!(refusal_of(9), Some(Refusal::NoResources), "unassigned");
    }
}
