//! Machines outside the testbed, behind an interface of this machine: the testbed asks for their hardware address, and
//! answers their own address resolution at once, which a delay of seconds would let fail.

use farlink_os::netlink::Mac;
use farlink_os::packet::{FrameBatch, PacketSocket, VNET_HEADER};
use std::io::{self, IoSlice};
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

/// Longest wait for a machine to answer: a switch may need seconds to forward the first frames of a port.
const ANSWER_MAX: Duration = Duration::from_secs(8);
/// Interval of the requests.
const REQUEST_INTERVAL: Duration = Duration::from_millis(400);
const BUFFER: usize = 1 << 20;

const BROADCAST: Mac = [0xff; 6];
const ETHERNET_HEADER: usize = 14;
const ETHERTYPE_ARP: [u8; 2] = [0x08, 0x06];
// Hardware type Ethernet, protocol type IPv4, and the lengths of their addresses (RFC 826).
const ARP_FIXED: [u8; 6] = [0, 1, 8, 0, 6, 4];
const ARP_LENGTH: usize = 28;
const REQUEST: u8 = 1;
const REPLY: u8 = 2;

/// A machine at the end of an emulated link, as the emulator's port sees it.
#[derive(Clone, Debug)]
pub struct OutsideMachine {
    /// Hardware address of the link's other end, for which the machine's frames are meant.
    pub neighbour: Mac,
    /// Addresses of the link's other end.
    pub neighbour_addresses: Vec<Ipv4Addr>,
}

impl OutsideMachine {
    /// Whether a frame of the machine, without virtio-net header, is for the link's other end. Broadcasts and frames
    /// for others stay off the link, since a direct cable would not carry what a switch sends to all its ports.
    pub fn sends_over_link(&self, frame: &[u8]) -> bool {
        frame.get(..6) == Some(&self.neighbour) && frame.get(12..14) != Some(&ETHERTYPE_ARP)
    }

    /// Answer to an ARP request for the link's other end, with virtio-net header; `None` for every other frame.
    pub fn answer(&self, frame: &[u8]) -> Option<Vec<u8>> {
        let (sender, sender_address, wanted) = parse_arp(frame, REQUEST)?;
        self.neighbour_addresses
            .contains(&wanted)
            .then(|| arp(REPLY, sender, self.neighbour, wanted, sender, sender_address))
    }
}

/// Asks the machine behind an interface for its hardware address; call it in the interface's network namespace. `own`
/// is the interface's hardware address.
///
/// # Errors
/// `NotFound` without an answer; errors of the packet socket.
pub fn hardware_address(index: u32, own: Mac, address: Ipv4Addr) -> io::Result<Mac> {
    let socket = PacketSocket::open(index, BUFFER)?;
    // A probe (RFC 5227 2.1.1) names no sender's address, so that the machine learns nothing wrong from it.
    let request = arp(REQUEST, BROADCAST, own, Ipv4Addr::UNSPECIFIED, Mac::default(), address);
    let mut batch = FrameBatch::new();
    let begun = Instant::now();
    let mut sent: Option<Instant> = None;
    while begun.elapsed() < ANSWER_MAX {
        if sent.is_none_or(|sent| sent.elapsed() >= REQUEST_INTERVAL) {
            sent = Some(Instant::now());
            socket.send(&[&[IoSlice::new(&request)]])?;
        }
        match socket.receive(&mut batch) {
            Ok(_) => {
                let answers = batch.frames().filter_map(|(frame, _)| parse_arp(frame.get(VNET_HEADER..)?, REPLY));
                if let Some((mac, ..)) = answers.into_iter().find(|(_, from, _)| *from == address) {
                    return Ok(mac);
                }
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                std::thread::sleep(Duration::from_millis(5));
            }
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::new(io::ErrorKind::NotFound, format!("no machine answers at {address}")))
}

/// An ARP frame with an empty virtio-net header.
fn arp(operation: u8, to: Mac, from: Mac, from_address: Ipv4Addr, target: Mac, wanted: Ipv4Addr) -> Vec<u8> {
    let mut frame = vec![0; VNET_HEADER];
    frame.extend_from_slice(&to);
    frame.extend_from_slice(&from);
    frame.extend_from_slice(&ETHERTYPE_ARP);
    frame.extend_from_slice(&ARP_FIXED);
    frame.extend_from_slice(&[0, operation]);
    frame.extend_from_slice(&from);
    frame.extend_from_slice(&from_address.octets());
    frame.extend_from_slice(&target);
    frame.extend_from_slice(&wanted.octets());
    frame
}

/// Sender's hardware address, sender's address and target's address of an ARP frame of this operation, without
/// virtio-net header.
fn parse_arp(frame: &[u8], operation: u8) -> Option<(Mac, Ipv4Addr, Ipv4Addr)> {
    let body = frame.get(ETHERNET_HEADER..ETHERNET_HEADER + ARP_LENGTH)?;
    if frame[12..14] != ETHERTYPE_ARP || body[..6] != ARP_FIXED || body[6..8] != [0, operation] {
        return None;
    }
    let address = |at: usize| <[u8; 4]>::try_from(&body[at..at + 4]).map(Ipv4Addr::from).ok();
    Some((body[8..14].try_into().ok()?, address(14)?, address(24)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOARD: Mac = [2, 0, 0, 0, 0, 9];
    const NEIGHBOUR: Mac = [2, 0, 0, 0, 0, 1];

    fn machine() -> OutsideMachine {
        OutsideMachine { neighbour: NEIGHBOUR, neighbour_addresses: vec![Ipv4Addr::new(10, 0, 0, 1)] }
    }

    #[test]
    fn requests_for_neighbour_are_answered() {
        let (own, other) = (Ipv4Addr::new(10, 0, 0, 2), Ipv4Addr::new(10, 0, 0, 1));
        let request = arp(REQUEST, BROADCAST, BOARD, own, Mac::default(), other);
        let reply = machine().answer(&request[VNET_HEADER..]).unwrap();
        assert_eq!(reply[VNET_HEADER..VNET_HEADER + 6], BOARD);
        assert_eq!(parse_arp(&reply[VNET_HEADER..], REPLY), Some((NEIGHBOUR, other, own)));
        let for_others = arp(REQUEST, BROADCAST, BOARD, own, Mac::default(), Ipv4Addr::new(10, 0, 0, 3));
        assert_eq!(machine().answer(&for_others[VNET_HEADER..]), None);
        assert_eq!(machine().answer(&reply[VNET_HEADER..]), None, "a reply needs none");
        for length in 0..request.len() - VNET_HEADER {
            assert_eq!(machine().answer(&request[VNET_HEADER..VNET_HEADER + length]), None);
        }
    }

    #[test]
    fn only_frames_for_neighbour_cross_link() {
        let frame = |to: Mac, kind: [u8; 2]| [&to[..], &BOARD, &kind, &[0; 50]].concat();
        assert!(machine().sends_over_link(&frame(NEIGHBOUR, [8, 0])));
        assert!(machine().sends_over_link(&frame(NEIGHBOUR, [0x86, 0xdd])));
        assert!(!machine().sends_over_link(&frame(NEIGHBOUR, ETHERTYPE_ARP)));
        assert!(!machine().sends_over_link(&frame(BROADCAST, [8, 0])));
        assert!(!machine().sends_over_link(&NEIGHBOUR[..5]));
    }
}
