//! Passive reader of TCPCL; the contact header shows whether the version is 4 or 3.

use super::wire::{self, NoMessage, V4Message};
use crate::reading::{StreamFormat, StreamReading, StreamStep, stream_reader};
use crate::tcpcl_v3;
use farlink_base::PayloadReader;

/// First bytes of TLS records: change of cipher, alert, handshake, application data (RFC 8446 5.1). Without TLS,
/// SESS_INIT comes in their place and begins with a 7.
const TLS_RECORDS: core::ops::RangeInclusive<u8> = 20..=23;

stream_reader! {
    /// Passive reader of one direction of a session; both sides may send bundles, each in its direction.
    TcpclReader, TcpclFormat
}
impl TcpclReader {
    /// Creates a reader of a connection from its first byte on.
    pub const fn new() -> Self {
        TcpclReader(StreamReading::new(TcpclFormat::Contact))
    }
}
impl Default for TcpclReader {
    fn default() -> Self {
        TcpclReader::new()
    }
}

/// Part of a session that comes next in its bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum TcpclFormat {
    /// Contact header of either version.
    Contact,
    /// SESS_INIT, or TLS if `can_tls`: the sender of this direction offered it.
    Start { can_tls: bool },
    /// Messages of version 4.
    Four,
    /// Messages of version 3.
    Three,
}

impl TcpclFormat {
    fn contact(&mut self, reader: &mut PayloadReader<'_>) -> Result<StreamStep, NoMessage> {
        let mut header = [0; 5];
        let have = reader.remaining().min(5) as usize;
        if !reader.read_exact(&mut header[..have]) {
            return Err(NoMessage::Incomplete);
        }
        let magic = have.min(4);
        if header[..magic] != wire::MAGIC[..magic] {
            let enciphered = TLS_RECORDS.contains(&header[0]);
            return Ok(if enciphered { StreamStep::Enciphered } else { StreamStep::Over("no contact header") });
        }
        if have < 5 {
            return Err(NoMessage::Incomplete);
        }
        *self = match header[4] {
            tcpcl_v3::VERSION => {
                tcpcl_v3::reading::contact(reader)?;
                TcpclFormat::Three
            }
            wire::VERSION => {
                let flags = reader.read_u8().ok_or(NoMessage::Incomplete)?;
                TcpclFormat::Start { can_tls: flags & wire::CAN_TLS != 0 }
            }
            _ => return Ok(StreamStep::Over("a contact header of another version")),
        };
        Ok(StreamStep::Message)
    }
}

impl StreamFormat for TcpclFormat {
    fn next(&mut self, reader: &mut PayloadReader<'_>) -> Result<StreamStep, NoMessage> {
        match self {
            TcpclFormat::Contact => return self.contact(reader),
            TcpclFormat::Three => return tcpcl_v3::reading::message(reader),
            TcpclFormat::Start { can_tls } => {
                let first = reader.clone().read_u8().ok_or(NoMessage::Incomplete)?;
                if *can_tls && TLS_RECORDS.contains(&first) {
                    return Ok(StreamStep::Enciphered);
                }
                *self = TcpclFormat::Four;
            }
            TcpclFormat::Four => {}
        }
        Ok(match wire::read_message(reader)? {
            V4Message::Segment(head) => {
                let (starts, ends) = (head.flags & wire::START != 0, head.flags & wire::END != 0);
                StreamStep::Data { id: head.id, starts, ends, len: head.len }
            }
            V4Message::Ack { .. }
            | V4Message::Refuse { .. }
            | V4Message::Keepalive
            | V4Message::Term { .. }
            | V4Message::Reject { .. }
            | V4Message::Init(_) => StreamStep::Message,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reading::{PassiveReader, Reading};
    use alloc::string::String;
    use alloc::vec::Vec;
    use farlink_base::Instant;
    use wire::{END, START};

    /// Finding of a reader, in a form to compare.
    #[derive(PartialEq, Debug)]
    enum Found {
        Bundle(Vec<u8>, u64, u64),
        Cut(u64),
        Enciphered,
        Lost,
    }
    use Found::{Bundle, Cut, Enciphered, Lost};

    /// Findings of a reader to which the pieces pass at times 0, 1, 2 and so on, and the number of bytes not read.
    fn read(pieces: &[&[u8]]) -> (Vec<Found>, u64) {
        let (mut reader, mut found) = (TcpclReader::new(), Vec::new());
        let mut each = |reading: Reading<'_>| {
            found.push(match reading {
                Reading::Bundle(passage) => {
                    assert_eq!(passage.length, passage.head.len() as u64);
                    Bundle(passage.head.to_vec(), passage.first.0, passage.last.0)
                }
                Reading::Cut(passage) => Cut(passage.length),
                Reading::Enciphered => Enciphered,
                Reading::Lost(_) => Lost,
            });
        };
        (0..).zip(pieces).for_each(|(at, piece)| reader.push(Instant(at), piece, &mut each));
        reader.end(&mut each);
        (found, reader.unread())
    }
    fn segment(flags: u8, id: u64, data: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        let total = (flags & START != 0).then_some(9);
        wire::put_segment(&mut out, flags, id, total, data.len() as u64);
        [out.as_slice(), data].concat()
    }
    /// Contact header and SESS_INIT.
    fn start(can_tls: bool) -> Vec<u8> {
        let (mut out, node_id) = (Vec::new(), String::from("ipn:1.0"));
        wire::put_contact_header(&mut out, can_tls);
        let init = wire::SessionInit {
            keepalive_s: 30,
            segment_mru: 9,
            transfer_mru: 9,
            node_id,
            critical: false,
            keeps_parts: true,
        };
        wire::put_init(&mut out, &init);
        out
    }

    #[test]
    fn transfers_pass_between_other_messages() {
        let mut other = Vec::new();
        wire::put_ack(&mut other, END, 7, 100);
        other.push(wire::kind::KEEPALIVE);
        wire::put_refuse(&mut other, 1, 8);
        wire::put_term(&mut other, 0, 1);
        let (first, second) = (segment(START, 3, b"ab"), segment(0, 3, b"c"));
        let (last, next) = (segment(END, 3, b""), segment(START | END, 4, b"next"));
        let pieces: [&[u8]; 9] =
            [&start(true), &first, &other, &second, &other, &last, &other, &next[..20], &next[20..]];
        let bundles = [Bundle(b"abc".to_vec(), 1, 5), Bundle(b"next".to_vec(), 8, 8)];
        assert_eq!(read(&pieces), (bundles.into(), 0));
    }

    #[test]
    fn refused_transfer_is_cut_by_the_next() {
        let pieces: [&[u8]; 5] = [
            &start(false),
            &segment(START, 3, b"abcd"),
            &segment(START | END, 4, b"whole"),
            &segment(0, 3, b"a segment after its transfer was given up"),
            &segment(START, 5, b"last"),
        ];
        assert_eq!(read(&pieces), ([Cut(4), Bundle(b"whole".to_vec(), 2, 2), Lost, Cut(4)].into(), 41));
    }

    #[test]
    fn tls_is_reported_once() {
        let mut contact = Vec::new();
        wire::put_contact_header(&mut contact, true);
        assert_eq!(read(&[&contact, &[22, 3, 1, 0, 9], &[23; 40]]), ([Enciphered].into(), 45));
        assert_eq!(read(&[&[22, 3, 1, 0, 9]]), ([Enciphered].into(), 5));
        // A side that cannot do TLS sends no TLS record.
        contact[5] = 0;
        assert_eq!(read(&[&contact, &[22, 3, 1, 0, 9]]).0, [Lost]);
    }

    #[test]
    fn version_three_passes_too() {
        let mut contact = b"dtn!\x03\0\0\x1e\x07ipn:1.0".to_vec();
        let mut rest = Vec::new();
        tcpcl_v3::wire::put_length(&mut rest, 5);
        tcpcl_v3::wire::put_segment(&mut rest, START, 2);
        rest.extend_from_slice(b"ab");
        tcpcl_v3::wire::put_ack(&mut rest, 300);
        tcpcl_v3::wire::put_segment(&mut rest, END, 3);
        rest.extend_from_slice(b"cde");
        contact.extend_from_slice(&rest);
        // A message may be cut at any byte.
        let pieces: Vec<&[u8]> = contact.chunks(1).collect();
        let (found, unread) = read(&pieces);
        assert!(unread == 0 && matches!(&found[..], [Bundle(bytes, ..)] if bytes == b"abcde"), "{found:?}");
    }

    #[test]
    fn other_protocols_stay_unread() {
        for wrong in [&b"GET / HTTP/1.0\r\n"[..], b"dtn!\x05\0", b"dtnx"] {
            let (found, unread) = read(&[wrong, b"more"]);
            assert_eq!(found, [Lost], "{wrong:?}");
            assert!(unread >= 4);
        }
        let mut absurd = start(false);
        absurd.extend_from_slice(&[wire::kind::XFER_SEGMENT, START, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, 0, 0, 0]);
        assert_eq!(read(&[&absurd, b"more"]), ([Lost].into(), 4 + 14));
    }
}
