//! TCP segments of captured frames, as seen from one end of their connection.

use std::net::{IpAddr, SocketAddr};

const ETHERNET: usize = 14;
const TCP: u8 = 6;
// Flags of the TCP header (RFC 9293 section 3.1).
const FIN: u8 = 1;
const SYN: u8 = 2;
const RESET: u8 = 4;
// Option that gives the maximum segment size, and its length.
const MAXIMUM_SEGMENT: (u8, u8) = (2, 4);

/// A TCP segment as seen at one end of its connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SegmentSeen {
    /// Time in nanoseconds from any origin.
    pub time_ns: u64,
    /// Whether the end sent it; otherwise the end received it.
    pub is_sent: bool,
    /// Sequence number of its first byte.
    pub sequence: u32,
    /// Number of the next byte that its sender expects.
    pub acknowledgment: u32,
    /// Bytes of data; super-packets of segmentation offload hold several segments.
    pub payload: u32,
    /// Whether the segment only acknowledges: it has no data and no SYN, FIN or RST flag.
    pub is_ack_only: bool,
}

/// A segment with its addresses and the facts by which connections are told apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ReadSegment {
    pub from: SocketAddr,
    pub to: SocketAddr,
    pub segment: SegmentSeen,
    /// `Some` for a segment that opens a connection, with its maximum segment size if given; `None` for all others.
    pub opens: Option<Option<u16>>,
    /// Bytes of TCP options, which take room in every segment.
    pub options: u32,
}

impl ReadSegment {
    /// Reads an Ethernet frame; `None` for anything but TCP, and for fragments of IP packets.
    pub fn read(time_ns: u64, is_sent: bool, frame: &[u8]) -> Option<ReadSegment> {
        let ip = frame.get(ETHERNET..)?;
        let (from, to, tcp, length) = match u16_at(frame, 12)? {
            0x0800 => ip_v4(ip)?,
            0x86dd => ip_v6(ip)?,
            _ => return None,
        };
        let (header, flags) = (usize::from(*tcp.get(12)? >> 4) * 4, *tcp.get(13)?);
        let options = tcp.get(20..header)?;
        // The data may have been cut off in the capture, so its length is that of the IP header.
        let payload = u32::try_from(length.checked_sub(header)?).ok()?;
        let segment = SegmentSeen {
            time_ns,
            is_sent,
            sequence: u32_at(tcp, 4)?,
            acknowledgment: u32_at(tcp, 8)?,
            payload,
            is_ack_only: payload == 0 && flags & (FIN | SYN | RESET) == 0,
        };
        Some(ReadSegment {
            from: SocketAddr::new(from, u16_at(tcp, 0)?),
            to: SocketAddr::new(to, u16_at(tcp, 2)?),
            segment,
            opens: (flags & SYN != 0).then(|| maximum_segment(options)),
            options: options.len() as u32,
        })
    }
}

fn maximum_segment(mut options: &[u8]) -> Option<u16> {
    loop {
        match options {
            // The end of the list, and padding (RFC 9293 section 3.2).
            [0, ..] | [] => return None,
            [1, rest @ ..] => options = rest,
            [kind, length, rest @ ..] if (*kind, *length) == MAXIMUM_SEGMENT => return u16_at(rest, 0),
            [_, length, ..] => options = options.get(usize::from((*length).max(2))..)?,
            [_] => return None,
        }
    }
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..at + 2)?.try_into().map(u16::from_be_bytes).ok()
}
fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4)?.try_into().map(u32::from_be_bytes).ok()
}

/// Source, destination, TCP header and data as captured, and their original length by the IP header.
type TcpContent<'a> = (IpAddr, IpAddr, &'a [u8], usize);

fn ip_v4(ip: &[u8]) -> Option<TcpContent<'_>> {
    let header = usize::from(ip.first()? & 0xf) * 4;
    let address = |at: usize| ip.get(at..at + 4)?.try_into().map(|bytes: [u8; 4]| IpAddr::from(bytes)).ok();
    // More-fragments flag and offset: later fragments have no ports.
    if *ip.get(9)? != TCP || u16_at(ip, 6)? & 0x3fff != 0 {
        return None;
    }
    let (rest, total) = (ip.get(header..)?, usize::from(u16_at(ip, 2)?));
    // Super-packets of more than 64 kB have length 0.
    let length = if total == 0 { rest.len() } else { total.checked_sub(header)? };
    Some((address(12)?, address(16)?, rest, length))
}

fn ip_v6(ip: &[u8]) -> Option<TcpContent<'_>> {
    const HEADER: usize = 40;
    let address = |at: usize| ip.get(at..at + 16)?.try_into().map(|bytes: [u8; 16]| IpAddr::from(bytes)).ok();
    if *ip.get(6)? != TCP {
        return None;
    }
    let (rest, length) = (ip.get(HEADER..)?, usize::from(u16_at(ip, 4)?));
    Some((address(8)?, address(24)?, rest, if length == 0 { rest.len() } else { length }))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A frame over IPv4 from 10.0.0.1 to 10.0.0.2, or back, with padding behind it.
    pub fn frame(back: bool, numbers: (u32, u32), flags: u8, options: &[u8], payload: usize) -> Vec<u8> {
        let (mut ports, mut hosts) = ([4556u16, 40_000], [1, 2]);
        if back {
            ports.reverse();
            hosts.reverse();
        }
        let mut tcp = ports.map(u16::to_be_bytes).concat();
        tcp.extend([numbers.0.to_be_bytes(), numbers.1.to_be_bytes()].concat());
        tcp.extend([((20 + options.len()) as u8 / 4) << 4, flags, 1, 0, 0, 0, 0, 0]);
        tcp.extend(options);
        tcp.resize(tcp.len() + payload, 9);
        let mut ip = vec![0x45, 0, 0, 0, 0, 1, 0x40, 0, 64, TCP, 0, 0, 10, 0, 0, hosts[0], 10, 0, 0, hosts[1]];
        ip[2..4].copy_from_slice(&((20 + tcp.len()) as u16).to_be_bytes());
        [&[0; 12][..], &[8, 0], &ip, &tcp, &[0; 6]].concat()
    }

    #[test]
    fn segments_are_read_without_padding() {
        let read = ReadSegment::read(5, true, &frame(false, (77, 99), 0x18, &[1; 12], 100)).unwrap();
        assert_eq!((read.from, read.to), ("10.0.0.1:4556".parse().unwrap(), "10.0.0.2:40000".parse().unwrap()));
        let expected = SegmentSeen {
            time_ns: 5,
            is_sent: true,
            sequence: 77,
            acknowledgment: 99,
            payload: 100,
            is_ack_only: false,
        };
        assert_eq!((read.segment, read.opens, read.options), (expected, None, 12));
        let ack = ReadSegment::read(5, false, &frame(true, (1, 2), 0x10, &[], 0)).unwrap();
        assert!(ack.segment.is_ack_only && ack.from.port() == 40_000);
        let end = ReadSegment::read(5, false, &frame(true, (1, 2), 0x11, &[], 0)).unwrap();
        assert!(!end.segment.is_ack_only, "it ends the connection");
    }

    #[test]
    fn opening_segment_gives_its_maximum() {
        let opens = |options: &[u8]| ReadSegment::read(0, true, &frame(false, (1, 0), SYN, options, 0)).unwrap().opens;
        assert_eq!(opens(&[1, 1, 4, 2, 2, 4, 5, 180, 0, 0, 0, 0]), Some(Some(1460)));
        assert_eq!([opens(&[]), opens(&[8, 10, 0, 0]), opens(&[9, 0, 9, 0])], [Some(None); 3]);
    }

    #[test]
    fn other_frames_are_no_segments() {
        let whole = frame(false, (77, 99), 0x18, &[1; 12], 3);
        for cut in 0..ETHERNET + 52 {
            assert_eq!(ReadSegment::read(0, true, &whole[..cut]), None, "{cut}");
        }
        for (at, byte) in [(12, 9), (ETHERNET + 9, 17), (ETHERNET + 6, 0x20), (ETHERNET + 3, 19)] {
            let mut other = whole.clone();
            other[at] = byte;
            assert_eq!(ReadSegment::read(0, true, &other), None, "{at}");
        }
    }
}
