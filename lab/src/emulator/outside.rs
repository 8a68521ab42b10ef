//! Machines outside the testbed, behind an interface of this machine: the testbed asks for their hardware address, and
//! answers their own address resolution at once, which a delay of seconds would let fail.

use farlink_os::netlink::{Mac, Netlink};
use farlink_os::packet::{FrameBatch, PacketSocket, VNET_HEADER};
use std::io::{self, IoSlice};
use std::net::Ipv4Addr;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
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

/// A port's interface to a machine outside.
#[derive(Debug)]
pub struct OutsidePort {
    machine: OutsideMachine,
    /// Socket in the interface's network namespace.
    netlink: Mutex<Netlink>,
    /// Claim on the interface, which another run cannot have.
    _claim: UnixListener,
    /// Whether the machine sent with another hardware address.
    other_hardware: AtomicBool,
}

impl OutsidePort {
    /// Claims the interface of this number for a machine; call it in the interface's network namespace.
    ///
    /// # Errors
    /// If another run has it, and errors of the sockets.
    pub fn claim(index: u32, machine: OutsideMachine) -> io::Result<OutsidePort> {
        // The kernel keeps these names apart by network namespace, and forgets them with the process.
        let name = SocketAddr::from_abstract_name(format!("farlink-interface-{index}"))?;
        let claim = UnixListener::bind_addr(&name)?;
        let (netlink, other_hardware) = (Mutex::new(Netlink::open()?), AtomicBool::new(false));
        Ok(OutsidePort { machine, netlink, _claim: claim, other_hardware })
    }

    /// Whether the interface of this name is gone or has no carrier.
    pub fn is_unplugged(&self, name: &str) -> bool {
        let Ok(mut netlink) = self.netlink.lock() else { return false };
        netlink.interface(name).is_ok_and(|found| found.is_none_or(|interface| !interface.running))
    }

    /// Notes the hardware address of a frame's sender, without virtio-net header.
    pub fn note_sender(&self, frame: &[u8]) {
        if self.machine.has_other_hardware(frame) {
            self.other_hardware.store(true, Ordering::Relaxed);
        }
    }

    /// Whether the machine sent with another hardware address than at first.
    pub fn has_other_hardware(&self) -> bool {
        self.other_hardware.load(Ordering::Relaxed)
    }

    /// As [`OutsideMachine::answer`].
    pub fn answer(&self, frame: &[u8]) -> Option<Vec<u8>> {
        self.machine.answer(frame)
    }

    /// As [`OutsideMachine::sends_over_link`].
    pub fn sends_over_link(&self, frame: &[u8]) -> bool {
        self.machine.sends_over_link(frame)
    }
}

/// A machine at the end of an emulated link, as the emulator's port sees it.
#[derive(Clone, Debug)]
pub struct OutsideMachine {
    /// Hardware address of the machine, to which frames are sent.
    pub own: Mac,
    /// Addresses of the machine.
    pub own_addresses: Vec<Ipv4Addr>,
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

    /// Whether a frame of one of the machine's addresses comes from another hardware address.
    fn has_other_hardware(&self, frame: &[u8]) -> bool {
        let sender = match frame.get(12..14) {
            Some([0x08, 0x00]) => frame.get(26..30),
            Some(kind) if kind == ETHERTYPE_ARP => frame.get(28..32),
            _ => return false,
        };
        let sender = sender.and_then(|address| <[u8; 4]>::try_from(address).ok()).map(Ipv4Addr::from);
        sender.is_some_and(|address| self.own_addresses.contains(&address)) && frame[6..12] != self.own
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
                let usable = |mac: &Mac| mac[0] & 1 == 0 && *mac != Mac::default() && *mac != own;
                let is_machine = |(mac, from, _): &(Mac, Ipv4Addr, Ipv4Addr)| *from == address && usable(mac);
                if let Some((mac, ..)) = answers.into_iter().find(is_machine) {
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
        let [neighbour_addresses, own_addresses] = [1, 2].map(|last| vec![Ipv4Addr::new(10, 0, 0, last)]);
        OutsideMachine { own: BOARD, own_addresses, neighbour: NEIGHBOUR, neighbour_addresses }
    }

    #[test]
    fn other_hardware_address_of_machine_is_noticed() {
        let frame = |from: Mac, address: u8| {
            let mut frame = [&NEIGHBOUR[..], &from, &[8, 0], &[0; 20]].concat();
            frame[26..30].copy_from_slice(&[10, 0, 0, address]);
            frame
        };
        let other = [2, 0, 0, 0, 0, 10];
        assert!(!machine().has_other_hardware(&frame(BOARD, 2)));
        assert!(machine().has_other_hardware(&frame(other, 2)));
        assert!(!machine().has_other_hardware(&frame(other, 3)), "another machine at the same switch");
        let address = |last| Ipv4Addr::new(10, 0, 0, last);
        let request = arp(REQUEST, BROADCAST, other, address(2), Mac::default(), address(1));
        assert!(machine().has_other_hardware(&request[VNET_HEADER..]));
        assert!(!machine().has_other_hardware(&request[VNET_HEADER..VNET_HEADER + 30]));
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
