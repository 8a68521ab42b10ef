//! Messages on the wire (RFC 9174 4 and 5): parsed in place from a rope, written into a vector.

use alloc::string::String;
use alloc::vec::Vec;
use farlink_base::{PayloadReader, Refusal};

/// First bytes of a contact header.
pub const MAGIC: [u8; 4] = *b"dtn!";
/// Version number in the contact header.
pub const VERSION: u8 = 4;
/// Contact header flag: the sender supports TLS.
pub const CAN_TLS: u8 = 1;
/// Most bytes of the extension items in one message, and of a node ID; they bound the memory for a message.
pub const MAX_EXTENSION_BYTES: u32 = 4096;
const MAX_NODE_ID_BYTES: u16 = 2048;

/// Message types.
pub mod kind {
    pub const XFER_SEGMENT: u8 = 1;
    pub const XFER_ACK: u8 = 2;
    pub const XFER_REFUSE: u8 = 3;
    pub const KEEPALIVE: u8 = 4;
    pub const SESS_TERM: u8 = 5;
    pub const MSG_REJECT: u8 = 6;
    pub const SESS_INIT: u8 = 7;
}
/// Segment flag: last segment of a transfer.
pub const END: u8 = 1;
/// Segment flag: first segment of a transfer.
pub const START: u8 = 2;
/// SESS_TERM flag: the message is a reply.
pub const REPLY: u8 = 1;
/// Extension flag: a receiver that does not know the item must reject the session or transfer.
const CRITICAL: u8 = 1;
/// Transfer extension with the length of the whole transfer.
const TRANSFER_LENGTH: u16 = 1;
/// Session extension of Farlink, of a type for private use (RFC 9174 8.3): the sender keeps the acknowledged part of a
/// broken transfer. The value distinguishes it from other uses of the same type.
const KEEPS_PARTS: (u16, &[u8]) = (0xfa71, b"farlink parts");

/// Reasons of SESS_TERM.
pub mod term {
    pub const UNKNOWN: u8 = 0;
    pub const IDLE: u8 = 1;
    pub const VERSION: u8 = 2;
    pub const BUSY: u8 = 3;
    pub const CONTACT_FAILURE: u8 = 4;
    pub const EXHAUSTED: u8 = 5;
}
/// Reasons of XFER_REFUSE.
pub mod refuse {
    pub const COMPLETED: u8 = 1;
    pub const NO_RESOURCES: u8 = 2;
    pub const RETRANSMIT: u8 = 3;
    pub const NOT_ACCEPTABLE: u8 = 4;
    pub const EXTENSION: u8 = 5;
    pub const TERMINATING: u8 = 6;
}
/// Reasons of MSG_REJECT.
pub mod reject {
    pub const UNKNOWN_TYPE: u8 = 1;
    pub const UNEXPECTED: u8 = 3;
}

/// XFER_REFUSE code that conveys a refusal.
pub fn refuse_code(reason: Refusal) -> u8 {
    match reason {
        Refusal::Duplicate => refuse::COMPLETED,
        Refusal::NotOpen | Refusal::NoResources | Refusal::StoreFailed | Refusal::Damaged => refuse::NO_RESOURCES,
        // "Some issue with the content or length of the transfer data" (RFC 9174 5.2.4).
        Refusal::TooLarge | Refusal::NotAcceptable | Refusal::Expired | Refusal::Unknown => refuse::NOT_ACCEPTABLE,
        Refusal::Terminating => refuse::TERMINATING,
    }
}
/// Refusal reason for an XFER_REFUSE code; `None` if the peer asks for retransmission. Unassigned codes count as lack
/// of resources.
pub fn refusal_of(code: u8) -> Option<Refusal> {
    match code {
        refuse::COMPLETED => Some(Refusal::Duplicate),
        refuse::RETRANSMIT => None,
        refuse::NOT_ACCEPTABLE | refuse::EXTENSION => Some(Refusal::NotAcceptable),
        refuse::TERMINATING => Some(Refusal::Terminating),
        _ => Some(Refusal::NoResources),
    }
}

/// Result that the sender sees when its bundle is refused for this reason; `Ok` if it may treat the bundle as kept.
/// XFER_REFUSE has few codes, so reasons lose detail.
pub fn sender_result(why: Refusal) -> Result<(), Refusal> {
    let heard = refusal_of(refuse_code(why)).filter(|heard| *heard != Refusal::Duplicate);
    heard.map_or(Ok(()), Err)
}

/// Contents of SESS_INIT (RFC 9174 4.6).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionInit {
    /// Keepalive interval, s.
    pub keepalive_s: u16,
    /// Largest segment accepted, bytes.
    pub segment_mru: u64,
    /// Largest bundle accepted, bytes.
    pub transfer_mru: u64,
    /// Node ID of the sender.
    pub node_id: String,
    /// Whether the message has a critical extension that this node does not know.
    pub critical: bool,
    /// Whether the sender keeps the acknowledged part of a broken transfer, and relies on the peer to do so, too.
    pub keeps_parts: bool,
}

/// Head of a transfer segment (RFC 9174 5.2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentHead {
    /// Flags: [`START`] and [`END`].
    pub flags: u8,
    /// Transfer ID.
    pub id: u64,
    /// Length of the whole transfer, bytes, if announced.
    pub total: Option<u64>,
    /// Whether an extension makes the transfer unacceptable: unknown and critical, or malformed.
    pub unacceptable: bool,
    /// Length of the data that follows, bytes.
    pub len: u64,
}

/// One message, or the head of a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum V4Message {
    /// Head of a segment; its data follows.
    Segment(SegmentHead),
    Ack {
        id: u64,
        acked: u64,
        /// Whether the peer marks the acknowledgment as the transfer's last.
        last: bool,
    },
    Refuse {
        reason: u8,
        id: u64,
    },
    Keepalive,
    Term {
        reply: bool,
        reason: u8,
    },
    Reject {
        reason: u8,
        kind: u8,
    },
    Init(SessionInit),
}

/// Reason why no message could be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoMessage {
    /// The message is incomplete.
    Incomplete,
    /// The message type is unassigned; this is its number.
    UnknownType(u8),
    /// The message is too large or inconsistent, for this reason.
    Broken(&'static str),
}

// 9174-2.1-1
struct FieldReader<'a, 'b>(&'a mut PayloadReader<'b>);
impl FieldReader<'_, '_> {
    fn array<const N: usize>(&mut self) -> Result<[u8; N], NoMessage> {
        let mut bytes = [0; N];
        if self.0.read_exact(&mut bytes) { Ok(bytes) } else { Err(NoMessage::Incomplete) }
    }
    fn u8(&mut self) -> Result<u8, NoMessage> {
        self.0.read_u8().ok_or(NoMessage::Incomplete)
    }
    fn u16(&mut self) -> Result<u16, NoMessage> {
        self.array().map(u16::from_be_bytes)
    }
    fn u32(&mut self) -> Result<u32, NoMessage> {
        self.array().map(u32::from_be_bytes)
    }
    fn u64(&mut self) -> Result<u64, NoMessage> {
        self.array().map(u64::from_be_bytes)
    }
    /// Reads `len` bytes.
    fn bytes(&mut self, len: usize) -> Result<Vec<u8>, NoMessage> {
        // Allocate nothing for bytes that have not arrived.
        if self.0.remaining() < len as u64 {
            return Err(NoMessage::Incomplete);
        }
        let mut bytes = alloc::vec![0; len];
        if self.0.read_exact(&mut bytes) { Ok(bytes) } else { Err(NoMessage::Incomplete) }
    }
}

/// Reads the next message; of a segment, only the head. On an error the caller restores the reader's position.
// 9174-5.2.3-2, 9174-6.1-10
pub fn read_message(reader: &mut PayloadReader<'_>) -> Result<V4Message, NoMessage> {
    let mut fields = FieldReader(reader);
    Ok(match fields.u8()? {
        kind::XFER_SEGMENT => V4Message::Segment(read_segment(&mut fields)?),
        kind::XFER_ACK => {
            let last = fields.u8()? & END != 0;
            V4Message::Ack { id: fields.u64()?, acked: fields.u64()?, last }
        }
        kind::XFER_REFUSE => V4Message::Refuse { reason: fields.u8()?, id: fields.u64()? },
        kind::KEEPALIVE => V4Message::Keepalive,
        kind::SESS_TERM => V4Message::Term { reply: fields.u8()? & REPLY != 0, reason: fields.u8()? },
        kind::MSG_REJECT => V4Message::Reject { reason: fields.u8()?, kind: fields.u8()? },
        kind::SESS_INIT => V4Message::Init(read_init(&mut fields)?),
        other => return Err(NoMessage::UnknownType(other)),
    })
}

// 9174-4.6-4, 9174-4.8-3, 9174-4.8-5
fn read_init(fields: &mut FieldReader<'_, '_>) -> Result<SessionInit, NoMessage> {
    let keepalive_s = fields.u16()?;
    let (segment_mru, transfer_mru) = (fields.u64()?, fields.u64()?);
    let len = fields.u16()?;
    if len > MAX_NODE_ID_BYTES {
        return Err(NoMessage::Broken("a node ID longer than 2048 bytes"));
    }
    let node_id = fields.bytes(usize::from(len))?;
    let node_id = String::from_utf8(node_id).or(Err(NoMessage::Broken("a node ID that is not UTF-8")))?;
    let extensions = read_extensions(fields)?;
    let (mut critical, mut keeps_parts) = (false, false);
    each_extension(&extensions, |flags, kind, value| match (kind, value) == KEEPS_PARTS {
        true => keeps_parts = true,
        false => critical |= flags & CRITICAL != 0,
    })
    .ok_or(NoMessage::Broken("session extension items that do not fill their list"))?;
    Ok(SessionInit { keepalive_s, segment_mru, transfer_mru, node_id, critical, keeps_parts })
}

// 9174-5.2.2-2, 9174-5.2.2-3, 9174-5.2.5-3, 9174-5.2.5-4, 9174-5.2.5-5, 9174-5.2.5.1-1, 9174-5.2.5.1-3
fn read_segment(fields: &mut FieldReader<'_, '_>) -> Result<SegmentHead, NoMessage> {
    let flags = fields.u8()?;
    let id = fields.u64()?;
    let (mut total, mut unacceptable) = (None, false);
    if flags & START != 0 {
        let extensions = read_extensions(fields)?;
        let well_formed = each_extension(&extensions, |flags, kind, value| match (kind, <[u8; 8]>::try_from(value)) {
            (TRANSFER_LENGTH, Ok(length)) if total.is_none() => total = Some(u64::from_be_bytes(length)),
            (TRANSFER_LENGTH, _) => unacceptable = true,
            _ => unacceptable |= flags & CRITICAL != 0,
        });
        unacceptable |= well_formed.is_none();
    }
    Ok(SegmentHead { flags, id, total, unacceptable, len: fields.u64()? })
}

fn read_extensions(fields: &mut FieldReader<'_, '_>) -> Result<Vec<u8>, NoMessage> {
    let len = fields.u32()?;
    // Check before anything is allocated.
    if len > MAX_EXTENSION_BYTES {
        return Err(NoMessage::Broken("extension items of more than 4096 bytes"));
    }
    fields.bytes(len as usize)
}

/// Calls `item(flags, type, value)` for each extension item; `None` if the items do not fill the list exactly.
// 9174-4.8-1, 9174-5.2.5-1
fn each_extension(mut list: &[u8], mut item: impl FnMut(u8, u16, &[u8])) -> Option<()> {
    while !list.is_empty() {
        let (head, rest) = list.split_first_chunk::<5>()?;
        let len = usize::from(u16::from_be_bytes([head[3], head[4]]));
        item(head[0], u16::from_be_bytes([head[1], head[2]]), rest.get(..len)?);
        list = &rest[len..];
    }
    Some(())
}

/// Appends a contact header.
// 9174-4.2-1, 9174-4.2-2, 9174-4.3-2
pub fn put_contact_header(out: &mut Vec<u8>, can_tls: bool) {
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&[VERSION, if can_tls { CAN_TLS } else { 0 }]);
}
/// Appends a SESS_INIT, whose only extension is [`KEEPS_PARTS`].
// 9174-4.6-4, 9174-4.8-1, 9174-4.8-2
pub fn put_init(out: &mut Vec<u8>, init: &SessionInit) {
    out.push(kind::SESS_INIT);
    out.extend_from_slice(&init.keepalive_s.to_be_bytes());
    out.extend_from_slice(&init.segment_mru.to_be_bytes());
    out.extend_from_slice(&init.transfer_mru.to_be_bytes());
    let node_id = &init.node_id.as_bytes()[..init.node_id.len().min(usize::from(MAX_NODE_ID_BYTES))];
    out.extend_from_slice(&(node_id.len() as u16).to_be_bytes());
    out.extend_from_slice(node_id);
    let (kind, value) = KEEPS_PARTS;
    let item = if init.keeps_parts { 5 + value.len() } else { 0 };
    out.extend_from_slice(&(item as u32).to_be_bytes());
    if init.keeps_parts {
        out.push(0);
        out.extend_from_slice(&kind.to_be_bytes());
        out.extend_from_slice(&(value.len() as u16).to_be_bytes());
        out.extend_from_slice(value);
    }
}
/// Appends a segment without its data; `total` is written only into a first segment.
// 9174-2.1-1, 9174-5.2.2-1, 9174-5.2.2-3, 9174-5.2.5-1, 9174-5.2.5-2, 9174-5.2.5.1-1, 9174-5.2.5.1-3
pub fn put_segment(out: &mut Vec<u8>, flags: u8, id: u64, total: Option<u64>, len: u64) {
    out.extend_from_slice(&[kind::XFER_SEGMENT, flags]);
    out.extend_from_slice(&id.to_be_bytes());
    if flags & START != 0 {
        out.extend_from_slice(&(if total.is_some() { 13u32 } else { 0 }).to_be_bytes());
        if let Some(total) = total {
            out.push(0);
            out.extend_from_slice(&TRANSFER_LENGTH.to_be_bytes());
            out.extend_from_slice(&8u16.to_be_bytes());
            out.extend_from_slice(&total.to_be_bytes());
        }
    }
    out.extend_from_slice(&len.to_be_bytes());
}
/// Appends an XFER_ACK, whose flags are those of the segment, whatever they mean (RFC 9174 5.2.3).
// 9174-5.2.3-4
pub fn put_ack(out: &mut Vec<u8>, flags: u8, id: u64, acked: u64) {
    out.extend_from_slice(&[kind::XFER_ACK, flags]);
    out.extend_from_slice(&id.to_be_bytes());
    out.extend_from_slice(&acked.to_be_bytes());
}
pub fn put_refuse(out: &mut Vec<u8>, reason: u8, id: u64) {
    out.extend_from_slice(&[kind::XFER_REFUSE, reason]);
    out.extend_from_slice(&id.to_be_bytes());
}
// 9174-6.1-9
pub fn put_term(out: &mut Vec<u8>, flags: u8, reason: u8) {
    out.extend_from_slice(&[kind::SESS_TERM, flags, reason]);
}
pub fn put_reject(out: &mut Vec<u8>, reason: u8, message: u8) {
    out.extend_from_slice(&[kind::MSG_REJECT, reason, message]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use farlink_base::Payload;

    fn read(bytes: &[u8]) -> Result<V4Message, NoMessage> {
        read_message(&mut Payload::from(bytes.to_vec()).reader())
    }

    /// Keeps 9174-2.1-1, 9174-4.6-4, 9174-5.2.2-3.
    #[test]
    fn v4_messages_round_trip() {
        let init = SessionInit {
            keepalive_s: 30,
            segment_mru: 1 << 16,
            transfer_mru: 1 << 20,
            node_id: "ipn:1.0".into(),
            critical: false,
            keeps_parts: false,
        };
        let parts = SessionInit { keeps_parts: true, ..init.clone() };
        let segment = SegmentHead { flags: START, id: 7, total: Some(500), unacceptable: false, len: 9 };
        let cases = [
            V4Message::Init(init.clone()),
            V4Message::Init(parts),
            V4Message::Segment(segment),
            V4Message::Ack { id: 3, acked: 9, last: true },
            V4Message::Refuse { reason: 2, id: 3 },
            V4Message::Term { reply: true, reason: 1 },
            V4Message::Reject { reason: 1, kind: 0xee },
        ];
        for message in cases {
            let mut out = Vec::new();
            match &message {
                V4Message::Init(init) => put_init(&mut out, init),
                V4Message::Segment(s) => put_segment(&mut out, s.flags, s.id, s.total, s.len),
                V4Message::Ack { id, acked, last } => put_ack(&mut out, u8::from(*last), *id, *acked),
                V4Message::Refuse { reason, id } => put_refuse(&mut out, *reason, *id),
                V4Message::Term { reason, .. } => put_term(&mut out, REPLY, *reason),
                V4Message::Reject { reason, kind } => put_reject(&mut out, *reason, *kind),
                V4Message::Keepalive => {}
            }
            assert_eq!(read(&out), Ok(message));
            assert!((0..out.len()).all(|cut| read(&out[..cut]) == Err(NoMessage::Incomplete)));
        }
    }

    /// Keeps 9174-5.2.5-1, 9174-5.2.5-3, 9174-5.2.5-4, 9174-5.2.5-5, 9174-5.2.5.1-1, 9174-5.2.5.1-3.
    #[test]
    fn extension_items_are_bounded_and_judged() {
        let item = |flags: u8, kind: u8, value: &[u8]| {
            let mut item = alloc::vec![flags, 0, kind, 0, value.len() as u8];
            item.extend_from_slice(value);
            item
        };
        let with = |list: Vec<u8>| {
            let mut out = alloc::vec![kind::XFER_SEGMENT, START];
            out.extend_from_slice(&[0; 8]);
            out.extend_from_slice(&(list.len() as u32).to_be_bytes());
            out.extend_from_slice(&list);
            out.extend_from_slice(&[0; 8]);
            match read(&out) {
                Ok(V4Message::Segment(head)) => (head.total, head.unacceptable),
                other => panic!("{other:?}"),
            }
        };
        let length = item(0, 1, &[0, 0, 0, 0, 0, 0, 1, 0]);
        assert_eq!(with(length.clone()), (Some(256), false));
        assert_eq!(with([length.clone(), length].concat()), (Some(256), true), "repeated");
        assert_eq!(with(item(0, 9, &[1])), (None, false));
        assert_eq!(with(item(CRITICAL, 9, &[1])), (None, true));
        assert_eq!(with(item(0xfe, 9, &[1])), (None, false), "the other bits are ignored");
        assert_eq!(with(item(0xfe, 1, &[0, 0, 0, 0, 0, 0, 1, 0])), (Some(256), false));
        assert_eq!(with(alloc::vec![0, 0, 9, 0, 200]), (None, true), "does not fill its list");
        let bomb = [&[1, START][..], &[0; 8], &[0xff; 4]].concat();
        assert!(matches!(read(&bomb), Err(NoMessage::Broken(_))));
    }
}
