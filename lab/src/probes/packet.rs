//! Parser of a frame's headers, up to the payload of TCP or UDP.

use farlink_os::packet::VNET_HEADER;
use std::net::{IpAddr, SocketAddr};

const ETHERNET: usize = 14;
/// Mask of the more-fragments flag and the fragment offset in the IPv4 header.
const FRAGMENT: u16 = 0x3fff;
/// Value of the next-header field before an IPv6 fragment header.
const V6_FRAGMENT: u8 = 44;
/// Length of the fixed IPv6 header, in bytes.
const V6_HEADER: usize = 40;
const TCP: u8 = 6;
const UDP: u8 = 17;
/// Segmentation type of a super-packet of UDP datagrams.
const GSO_UDP: u8 = 5;

/// Payload of a frame, with its addresses and transport.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Packet<'a> {
    pub from: SocketAddr,
    pub to: SocketAddr,
    pub transport: Transport,
    pub payload: &'a [u8],
}

/// Fields of the transport header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Transport {
    Tcp {
        sequence: u32,
        begins: bool,
        /// Whether the segment carries a FIN: no bytes follow the payload.
        ends: bool,
        resets: bool,
    },
    /// Consecutive datagrams of `stride` bytes; the last may be shorter.
    Udp { stride: usize },
}

impl<'a> Packet<'a> {
    /// Reads a frame that starts with the virtio-net header. `None` for anything but TCP and UDP, and for fragments of
    /// IP packets: all but the first have no ports.
    pub fn read(frame: &'a [u8]) -> Option<Packet<'a>> {
        let (virtio, ethernet) = frame.split_at_checked(VNET_HEADER)?;
        let ip = ethernet.get(ETHERNET..)?;
        let (from, to, protocol, rest) = match u16_at(ethernet, 12)? {
            0x0800 => ip_v4(ip)?,
            0x86dd => ip_v6(ip)?,
            _ => return None,
        };
        let ports = [u16_at(rest, 0)?, u16_at(rest, 2)?];
        let (transport, header) = match protocol {
            TCP => {
                let flags = *rest.get(13)?;
                let sequence = rest.get(4..8)?.try_into().map(u32::from_be_bytes).ok()?;
                // FIN is 1, SYN 2, RST 4 (RFC 9293 section 3.1).
                let (begins, ends, resets) = (flags & 2 != 0, flags & 1 != 0, flags & 4 != 0);
                (Transport::Tcp { sequence, begins, ends, resets }, usize::from(*rest.get(12)? >> 4) * 4)
            }
            UDP => {
                // `gso_size` of the virtio-net header, which the kernel writes in host byte order.
                let size = usize::from(u16::from_ne_bytes([virtio[4], virtio[5]]));
                let stride = if virtio[1] == GSO_UDP && size > 0 { size } else { usize::MAX };
                (Transport::Udp { stride }, 8)
            }
            _ => return None,
        };
        let (from, to) = (SocketAddr::new(from, ports[0]), SocketAddr::new(to, ports[1]));
        Some(Packet { from, to, transport, payload: rest.get(header..)? })
    }

    /// Length of the IP packet if the frame is a fragment, in bytes; 0 for other frames.
    pub fn fragment_bytes(frame: &[u8]) -> usize {
        let Some(ip) = frame.get(VNET_HEADER + ETHERNET..) else { return 0 };
        match u16_at(frame, VNET_HEADER + 12) {
            Some(0x0800) if u16_at(ip, 6).is_some_and(|place| place & FRAGMENT != 0) => {
                u16_at(ip, 2).unwrap_or(0).into()
            }
            // The length field does not count the fixed header.
            Some(0x86dd) if ip.get(6) == Some(&V6_FRAGMENT) => V6_HEADER + usize::from(u16_at(ip, 4).unwrap_or(0)),
            _ => 0,
        }
    }

    /// Splits the payload into datagrams.
    pub fn datagrams(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let stride = if let Transport::Udp { stride } = self.transport { stride } else { usize::MAX };
        self.payload.chunks(stride)
    }
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..at + 2)?.try_into().map(u16::from_be_bytes).ok()
}
type IpContent<'a> = (IpAddr, IpAddr, u8, &'a [u8]);

fn ip_v4(ip: &[u8]) -> Option<IpContent<'_>> {
    let header = usize::from(ip.first()? & 0xf) * 4;
    let address = |at: usize| ip.get(at..at + 4)?.try_into().map(|bytes: [u8; 4]| IpAddr::from(bytes)).ok();
    if u16_at(ip, 6)? & FRAGMENT != 0 {
        return None;
    }
    let rest = within(ip, header, u16_at(ip, 2)?.into())?;
    Some((address(12)?, address(16)?, *ip.get(9)?, rest))
}
fn ip_v6(ip: &[u8]) -> Option<IpContent<'_>> {
    let address = |at: usize| ip.get(at..at + 16)?.try_into().map(|bytes: [u8; 16]| IpAddr::from(bytes)).ok();
    // The caller ignores packets with extension headers, such as that of fragments, as neither TCP nor UDP.
    let length = usize::from(u16_at(ip, 4)?);
    let rest = within(ip, 40, if length == 0 { 0 } else { 40 + length })?;
    Some((address(8)?, address(24)?, *ip.get(6)?, rest))
}
/// Content of an IP packet, without padding behind it. The length field is 0 in super-packets of more than 64 kB.
fn within(ip: &[u8], header: usize, total: usize) -> Option<&[u8]> {
    let end = if total == 0 { ip.len() } else { total.min(ip.len()) };
    ip.get(header..end)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Builds an IPv4 frame with a payload, and padding behind it.
    pub fn frame(protocol: u8, ports: [u16; 2], header: &[u8], payload: &[u8]) -> Vec<u8> {
        let transport = [&ports[0].to_be_bytes()[..], &ports[1].to_be_bytes(), header, payload].concat();
        let mut ip = [0x45, 0, 0, 0, 0, 1, 0x40, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        ip[2..4].copy_from_slice(&((20 + transport.len()) as u16).to_be_bytes());
        let ethernet = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
        [&[0; VNET_HEADER][..], &ethernet, &ip, &transport, &[0; 6]].concat()
    }
    /// Builds a frame with a TCP segment.
    pub fn segment(ports: [u16; 2], sequence: u32, flags: u8, payload: &[u8]) -> Vec<u8> {
        let mut header = [0; 16];
        header[..4].copy_from_slice(&sequence.to_be_bytes());
        (header[8], header[9]) = (0x50, flags);
        frame(TCP, ports, &header, payload)
    }

    #[test]
    fn payloads_are_found_without_padding() {
        let tcp = segment([4556, 40_000], 77, 0x12, b"bytes");
        let packet = Packet::read(&tcp).unwrap();
        assert_eq!((packet.from, packet.to), ("10.0.0.1:4556".parse().unwrap(), "10.0.0.2:40000".parse().unwrap()));
        assert_eq!(packet.transport, Transport::Tcp { sequence: 77, begins: true, ends: false, resets: false });
        assert_eq!(packet.payload, b"bytes");
        let mut udp = frame(UDP, [1113, 1113], &[0; 4], b"abcabcab");
        assert_eq!(Packet::read(&udp).unwrap().datagrams().collect::<Vec<_>>(), [b"abcabcab"]);
        udp[1] = GSO_UDP;
        udp[4..6].copy_from_slice(&3u16.to_ne_bytes());
        let datagrams: Vec<_> = Packet::read(&udp).unwrap().datagrams().collect();
        assert_eq!(datagrams, [&b"abc"[..], b"abc", b"ab"]);
    }

    #[test]
    fn other_frames_are_passed_over() {
        let whole = segment([1, 2], 3, 0, b"x");
        for cut in 0..whole.len() - 7 {
            let _ = Packet::read(&whole[..cut]);
        }
        for (at, byte) in [(VNET_HEADER + 12, 9), (VNET_HEADER + ETHERNET + 9, 1), (VNET_HEADER + ETHERNET + 6, 0x20)] {
            let mut other = whole.clone();
            other[at] = byte;
            assert_eq!(Packet::read(&other), None);
            assert_eq!(Packet::fragment_bytes(&other) > 0, byte == 0x20);
        }
        let mut ip = [0; 48];
        (ip[0], ip[5], ip[6]) = (0x60, 8, UDP);
        ip[40..44].copy_from_slice(&[0, 9, 0, 8]);
        let v6 = [&[0; VNET_HEADER + 12][..], &[0x86, 0xdd], &ip].concat();
        let packet = Packet::read(&v6).unwrap();
        assert_eq!((packet.from.port(), packet.to.port(), packet.payload), (9, 8, &b""[..]));
        assert_eq!(Packet::fragment_bytes(&v6), 0);
        let mut fragment = v6.clone();
        fragment[VNET_HEADER + ETHERNET + 6] = V6_FRAGMENT;
        assert_eq!((Packet::read(&fragment), Packet::fragment_bytes(&fragment)), (None, 48));
    }
}
