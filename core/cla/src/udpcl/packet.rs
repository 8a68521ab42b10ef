//! Encoding of datagrams: messages, whose first octet shows their type, and the extension maps of UDPCLv2
//! (draft-ietf-dtn-udpcl-04).

use crate::cbor::{self, ARRAY, BYTES, MAP, NEGATIVE, TEXT, UINT};
use alloc::string::String;
use alloc::vec::Vec;
use farlink_base::{Payload, PayloadReader};

/// Keepalive: four zero octets, which refresh address translators (RFC 7122 3.4).
pub const KEEPALIVE: [u8; 4] = [0; 4];

/// Longest node ID read, bytes.
const NODE_ID_MAX: u64 = 255;

/// Keys of extension items (draft-ietf-dtn-udpcl section 3.5).
mod key {
    pub const TRANSFER: u64 = 2;
    pub const SENDER_LISTEN: u64 = 3;
    pub const SENDER_NODE_ID: u64 = 4;
    pub const PEER_PROBE: u64 = 6;
    pub const PEER_CONFIRMATION: u64 = 7;
    /// Largest value in the head of a key, because keys are 16-bit signed integers.
    pub const GREATEST: u64 = 0x7fff;
}

/// Type of a message, which its first octet shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MessageKind {
    /// Zeros up to the end of the packet.
    Padding,
    /// A bundle: of version 6, or the CBOR array of version 7.
    Bundle,
    /// A DTLS record.
    Dtls,
    /// An extension map.
    Map,
    /// An unassigned first octet.
    Unused,
}
impl MessageKind {
    /// Type of the message that starts with this octet.
    pub fn of(first: u8) -> MessageKind {
        match first {
            0x00 => MessageKind::Padding,
            0x06 | 0x80..=0x9f => MessageKind::Bundle,
            0x14..=0x1a | 0x20..=0x3f => MessageKind::Dtls,
            0xa0..=0xbf => MessageKind::Map,
            _ => MessageKind::Unused,
        }
    }
}

/// One segment of a transfer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TransferSegment {
    /// Transfer number, chosen by the sender.
    pub id: u64,
    /// Length of the whole transfer, bytes; `None` if this segment is the whole transfer.
    pub total: Option<u64>,
    /// Offset of the segment's data in the transfer, bytes.
    pub offset: u64,
    /// Data of the segment.
    pub data: Payload,
}

/// A probe, which asks whether a peer receives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Probe {
    /// Number that identifies a series of probes.
    pub nonce: u64,
    /// Number of the probe within the series.
    pub sequence: u64,
    /// Time to wait for further probes before answering, ms.
    pub delay_ms: u64,
}

/// Items of one extension map that this node knows; others are ignored.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Extensions {
    /// Segment of a transfer.
    pub transfer: Option<TransferSegment>,
    /// Time during which the sender listens at its source address, ms.
    pub listens_ms: Option<u64>,
    /// Node ID of the sender.
    pub node_id: Option<String>,
    /// Request for a confirmation.
    pub probe: Option<Probe>,
    /// Nonce of the probe that is confirmed.
    pub confirmation: Option<u64>,
}

impl Extensions {
    /// Reads a map and nothing beyond it. A known item with a malformed value is ignored.
    ///
    /// # Errors
    ///
    /// The reason why the map is malformed or truncated; the rest of the packet cannot be read then.
    pub fn read(reader: &mut PayloadReader<'_>) -> Result<Extensions, &'static str> {
        const NO_MAP: &str = "a malformed extension map";
        let Some((MAP, count)) = cbor::head(reader) else { return Err(NO_MAP) };
        let (mut known, mut seen, mut left) = (Extensions::default(), 0u32, count);
        loop {
            match &mut left {
                Some(0) => break,
                Some(more) => *more -= 1,
                None if cbor::is_break(reader) => break,
                None => {}
            }
            let key = match cbor::head(reader) {
                Some((UINT | NEGATIVE, Some(key))) if key > key::GREATEST => return Err("an extension key too large"),
                Some((UINT, Some(key))) => key,
                // All known keys are positive.
                Some((NEGATIVE, Some(_))) => u64::MAX,
                _ => return Err(NO_MAP),
            };
            let bit = 1u32.checked_shl(u32::try_from(key).unwrap_or(u32::MAX)).unwrap_or(0);
            if seen & bit != 0 {
                return Err("an extension twice in one map");
            }
            seen |= bit;
            let mut value = reader.clone();
            cbor::skip(reader).ok_or(NO_MAP)?;
            known.item(key, &mut value);
        }
        Ok(known)
    }
    fn item(&mut self, key: u64, value: &mut PayloadReader<'_>) {
        match key {
            key::TRANSFER => self.transfer = segment(value),
            key::SENDER_LISTEN => self.listens_ms = cbor::uint(value),
            key::SENDER_NODE_ID => self.node_id = text(value),
            key::PEER_PROBE => self.probe = probe(value),
            key::PEER_CONFIRMATION => self.confirmation = confirmation(value),
            _ => {}
        }
    }
}

/// Reads the head of an array; `None` unless its length is one of `counts`.
fn array(value: &mut PayloadReader<'_>, counts: &[u64]) -> Option<u64> {
    match cbor::head(value)? {
        (ARRAY, Some(count)) if counts.contains(&count) => Some(count),
        _ => None,
    }
}
fn segment(value: &mut PayloadReader<'_>) -> Option<TransferSegment> {
    let count = array(value, &[2, 4])?;
    let id = cbor::uint(value)?;
    let (total, offset) = if count == 4 { (Some(cbor::uint(value)?), cbor::uint(value)?) } else { (None, 0) };
    Some(TransferSegment { id, total, offset, data: cbor::string(value, BYTES)? })
}
fn text(value: &mut PayloadReader<'_>) -> Option<String> {
    let text = cbor::string(value, TEXT).filter(|text| text.len() <= NODE_ID_MAX)?;
    core::str::from_utf8(&text.to_bytes()?).ok().map(String::from)
}
fn probe(value: &mut PayloadReader<'_>) -> Option<Probe> {
    array(value, &[3])?;
    Some(Probe { nonce: cbor::uint(value)?, sequence: cbor::uint(value)?, delay_ms: cbor::uint(value)? })
}
fn confirmation(value: &mut PayloadReader<'_>) -> Option<u64> {
    array(value, &[2])?;
    cbor::uint(value)
}

/// Head of a packet with one segment, and the length of the data that must follow it up to the end of the packet.
/// `room`: longest packet, bytes.
pub fn segment_head(id: u64, total: u64, offset: u64, room: u64) -> (Vec<u8>, u64) {
    let mut head = Vec::with_capacity(40);
    cbor::put(&mut head, MAP, 1);
    cbor::put(&mut head, UINT, key::TRANSFER);
    cbor::put(&mut head, ARRAY, 4);
    cbor::put(&mut head, UINT, id);
    cbor::put(&mut head, UINT, total);
    cbor::put(&mut head, UINT, offset);
    let room = room.saturating_sub(head.len() as u64);
    let fits = room.saturating_sub(cbor::head_len(room) as u64).max(1);
    // One more byte of data may fit, because the head was computed for `room` and shorter data can have a shorter head.
    let fits = if fits + 1 + cbor::head_len(fits + 1) as u64 <= room { fits + 1 } else { fits };
    let len = fits.min(total.saturating_sub(offset));
    cbor::put(&mut head, BYTES, len);
    (head, len)
}
/// Packet that announces that its sender listens for `listens_ms`, and its node ID unless that is empty.
pub fn announcement(listens_ms: u64, node_id: &str) -> Vec<u8> {
    let mut packet = Vec::with_capacity(16 + node_id.len());
    cbor::put(&mut packet, MAP, if node_id.is_empty() { 1 } else { 2 });
    cbor::put(&mut packet, UINT, key::SENDER_LISTEN);
    cbor::put(&mut packet, UINT, listens_ms);
    if !node_id.is_empty() {
        cbor::put(&mut packet, UINT, key::SENDER_NODE_ID);
        cbor::put(&mut packet, TEXT, node_id.len() as u64);
        packet.extend_from_slice(node_id.as_bytes());
    }
    packet
}
/// Packet with a probe.
pub fn probe_packet(probe: Probe) -> Vec<u8> {
    let mut packet = Vec::with_capacity(32);
    cbor::put(&mut packet, MAP, 1);
    cbor::put(&mut packet, UINT, key::PEER_PROBE);
    cbor::put(&mut packet, ARRAY, 3);
    [probe.nonce, probe.sequence, probe.delay_ms].into_iter().for_each(|value| cbor::put(&mut packet, UINT, value));
    packet
}
/// Packet that confirms the probe with this nonce and sequence number.
pub fn confirmation_packet(nonce: u64, sequence: u64) -> Vec<u8> {
    let mut packet = Vec::with_capacity(32);
    cbor::put(&mut packet, MAP, 1);
    cbor::put(&mut packet, UINT, key::PEER_CONFIRMATION);
    cbor::put(&mut packet, ARRAY, 2);
    cbor::put(&mut packet, UINT, nonce);
    cbor::put(&mut packet, ARRAY, 2);
    cbor::put(&mut packet, UINT, sequence);
    cbor::put(&mut packet, UINT, 0);
    packet
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> Result<(Extensions, u64), &'static str> {
        let rope = Payload::from(bytes.to_vec());
        let mut reader = rope.reader();
        Extensions::read(&mut reader).map(|known| (known, reader.position()))
    }

    #[test]
    fn every_first_octet_has_its_class() {
        let of = |kind| (0..=255u8).filter(|first| MessageKind::of(*first) == kind).collect::<Vec<u8>>();
        assert_eq!(of(MessageKind::Padding), [0]);
        assert_eq!(of(MessageKind::Bundle), [6].into_iter().chain(0x80..=0x9f).collect::<Vec<u8>>());
        assert_eq!(of(MessageKind::Dtls), (0x14..=0x1a).chain(0x20..=0x3f).collect::<Vec<u8>>());
        assert_eq!(of(MessageKind::Map), (0xa0..=0xbf).collect::<Vec<u8>>());
        assert_eq!(of(MessageKind::Unused).len(), 256 - 1 - 33 - 39 - 32);
    }

    #[test]
    fn extension_packets_round_trip() {
        let whole = b"\xa1\x02\x82\x19\x01\x2c\x45hello";
        let (known, used) = read(whole).unwrap();
        let data = Payload::from(&b"hello"[..]);
        assert_eq!(known.transfer, Some(TransferSegment { id: 300, total: None, offset: 0, data }));
        assert_eq!(used, whole.len() as u64);
        let (known, _) = read(&announcement(15_000, "ipn:1.0")).unwrap();
        assert_eq!((known.listens_ms, known.node_id.as_deref()), (Some(15_000), Some("ipn:1.0")));
        assert_eq!(read(&announcement(1, "")).unwrap().0.listens_ms, Some(1));
        let probe = Probe { nonce: u64::MAX, sequence: 7, delay_ms: 0 };
        assert_eq!(read(&probe_packet(probe)).unwrap().0.probe, Some(probe));
        assert_eq!(read(&confirmation_packet(99, 7)).unwrap().0.confirmation, Some(99));
    }

    #[test]
    fn segments_fill_packets_and_rejoin() {
        for room in 64u64..700 {
            let (total, id) = (70_000, 1 << 40);
            let mut at = 0;
            while at < total {
                let (head, len) = segment_head(id, total, at, room);
                let packet = head.len() as u64 + len;
                assert!(packet <= room, "{packet} B in {room} B");
                assert!(packet + 1 >= room || at + len == total, "{packet} B of {room} B");
                let mut bytes = head;
                bytes.resize(bytes.len() + len as usize, 7);
                let segment = read(&bytes).unwrap().0.transfer.unwrap();
                assert_eq!((segment.id, segment.total, segment.offset, segment.data.len()), (id, Some(total), at, len));
                at += len;
            }
            assert_eq!(at, total);
        }
    }

    #[test]
    fn unknown_extension_items_are_ignored() {
        let heard = |bytes: &[u8]| read(bytes).unwrap().0;
        // Unknown keys 0, 100 and -32768, with values of every type.
        assert_eq!(heard(b"\xa4\x00\x81\xf6\x18\x64\xa1\x01\x02\x39\x7f\xff\x7f\x61a\xff\x03\x05").listens_ms, Some(5));
        // Malformed transfers: no array, three items, text for data, a negative number, a tag.
        for wrong in [&b"\x05"[..], b"\x83\x01\x02\x41a", b"\x82\x01\x61a", b"\x82\x20\x41a", b"\xc1\x82\x01\x41a"] {
            let known = heard(&[b"\xa2\x02", wrong, b"\x03\x05"].concat());
            assert_eq!((known.transfer, known.listens_ms), (None, Some(5)), "{wrong:02x?}");
        }
        assert_eq!(heard(b"\xa1\x04\x62\xff\xff").node_id, None, "not UTF-8");
        assert_eq!(
            heard(&[b"\xa1\x04\x79\x01\x00", &[b'a'; 256][..]].concat()).node_id,
            None,
            "longer than NODE_ID_MAX"
        );
        assert_eq!(heard(b"\xbf\x03\x05\xff").listens_ms, Some(5), "a map of indefinite length");
        assert_eq!(heard(b"\xa0"), Extensions::default());
    }

    #[test]
    fn malformed_map_is_an_error() {
        let map = b"\xa3\x02\x82\x05\x43abc\x03\x19\x75\x30\x04\x67ipn:1.0";
        assert!(read(map).is_ok());
        for cut in 0..map.len() {
            assert!(read(&map[..cut]).is_err(), "cut to {cut} B");
        }
        for wrong in [
            &b"\x01"[..],
            b"\xa1\x61a\x01",
            b"\xa1\x19\x80\x00\x01",
            b"\xa1\x39\x80\x00\x01",
            b"\xa2\x03\x05\x03\x05",
            b"\xbb\xff\xff\xff\xff\xff\xff\xff\xff\x03\x05",
        ] {
            assert!(read(wrong).is_err(), "{wrong:02x?}");
        }
    }
}
