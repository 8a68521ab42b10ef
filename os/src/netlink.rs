//! Requests of rtnetlink(7) for the testbed: create a pair of interfaces across namespaces, and set addresses,
//! permanent neighbours, routes, MTU and state.

use crate::{check, context};
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// `RTAX_CC_ALGO` of linux/rtnetlink.h: name of the congestion control among the metrics of a route.
const RTAX_CC_ALGO: u16 = 16;
/// `IFLA_STATS64` of linux/if_link.h.
const IFLA_STATS64: u16 = 23;
const NLMSG_HEADER: usize = 16;
const INTERFACE_HEADER: usize = 16;
const NLA_F_NESTED: u16 = 1 << 15;
/// `VETH_INFO_PEER` of linux/veth.h.
const VETH_INFO_PEER: u16 = 1;
/// `IFLA_GSO_MAX_SEGS` of linux/if_link.h.
const IFLA_GSO_MAX_SEGS: u16 = 40;
/// `IFA_F_NODAD` of linux/if_addr.h: usable at once, no duplicate address detection.
const IFA_F_NODAD: u8 = 0x02;

/// Hardware address of an Ethernet interface.
pub type Mac = [u8; 6];

/// An rtnetlink socket of the network namespace it was opened in.
#[derive(Debug)]
pub struct Netlink {
    socket: OwnedFd,
    sequence: u32,
}

/// State of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Index of the interface in its namespace.
    pub index: u32,
    /// Hardware address of the interface.
    pub mac: Mac,
    /// Whether the interface has a carrier and is up.
    pub running: bool,
    /// Largest IP packet in bytes.
    pub mtu: u32,
    /// Whether a bridge, a bond or the like takes the interface's frames.
    pub is_member: bool,
    /// Packets sent to the interface and dropped because the other end of its pair had no room for them.
    pub dropped: u64,
}

impl Netlink {
    /// Opens a socket in the calling thread's network namespace.
    pub fn open() -> io::Result<Self> {
        // SAFETY: socket takes no pointers.
        let fd = check(unsafe { libc::socket(libc::AF_NETLINK, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) })
            .map_err(|e| context(e, "netlink socket"))?;
        // SAFETY: the descriptor is new and owned by nobody else.
        Ok(Netlink { socket: unsafe { OwnedFd::from_raw_fd(fd) }, sequence: 0 })
    }

    /// Creates a pair of connected Ethernet interfaces in this namespace.
    pub fn create_veth(&mut self, name: &str, peer: &str) -> io::Result<()> {
        self.create_pair(name, |_| {}, peer, |_| {})
    }

    /// Creates a pair of connected Ethernet interfaces: `name` in this namespace, `peer` in another one; `mtu` is for
    /// both, `mac` for `peer`. Creating an interface in place costs 3 ms, moving it there 40 ms.
    pub fn create_veth_to(
        &mut self,
        name: &str,
        peer: &str,
        namespace: BorrowedFd<'_>,
        mac: Mac,
        mtu: u32,
    ) -> io::Result<()> {
        let mtu = mtu.to_ne_bytes();
        let far = |m: &mut RequestBody| {
            m.attribute(libc::IFLA_NET_NS_FD, &namespace.as_raw_fd().to_ne_bytes());
            m.attribute(libc::IFLA_ADDRESS, &mac);
            m.attribute(libc::IFLA_MTU, &mtu);
        };
        self.create_pair(name, |m| m.attribute(libc::IFLA_MTU, &mtu), peer, far)
    }

    fn create_pair(
        &mut self,
        name: &str,
        near: impl FnOnce(&mut RequestBody),
        peer: &str,
        far: impl FnOnce(&mut RequestBody),
    ) -> io::Result<()> {
        let mut m = RequestBody::link(0, 0, 0);
        m.text(libc::IFLA_IFNAME, name);
        near(&mut m);
        m.nest(libc::IFLA_LINKINFO, |m| {
            m.text(libc::IFLA_INFO_KIND, "veth");
            m.nest(libc::IFLA_INFO_DATA, |m| {
                m.nest(VETH_INFO_PEER, |m| {
                    m.bytes.extend_from_slice(&[0; INTERFACE_HEADER]);
                    m.text(libc::IFLA_IFNAME, peer);
                    far(m);
                });
            });
        });
        let flags = libc::NLM_F_CREATE | libc::NLM_F_EXCL;
        self.request(libc::RTM_NEWLINK, flags, m, &format!("making interfaces {name} and {peer}")).map(drop)
    }

    /// Removes an interface, and the other end of a pair.
    pub fn delete(&mut self, index: u32) -> io::Result<()> {
        self.request(libc::RTM_DELLINK, 0, RequestBody::link(index, 0, 0), "removing an interface").map(drop)
    }

    /// Finds an interface by name; `None` if it does not exist.
    pub fn interface(&mut self, name: &str) -> io::Result<Option<Interface>> {
        let mut m = RequestBody::link(0, 0, 0);
        m.text(libc::IFLA_IFNAME, name);
        match self.request(libc::RTM_GETLINK, 0, m, "looking for an interface") {
            Ok(reply) => Ok(parse_interface(&reply)),
            Err(e) if e.kind() == io::ErrorKind::NotFound || e.to_string().contains("No such device") => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Brings an interface up or down.
    pub fn set_up(&mut self, index: u32, up: bool) -> io::Result<()> {
        let flag = libc::IFF_UP as u32;
        let m = RequestBody::link(index, if up { flag } else { 0 }, flag);
        self.request(libc::RTM_NEWLINK, 0, m, "bringing an interface up").map(drop)
    }

    /// Sets the MTU: the largest IP packet, bytes.
    pub fn set_mtu(&mut self, index: u32, mtu: u32) -> io::Result<()> {
        let mut m = RequestBody::link(index, 0, 0);
        m.attribute(libc::IFLA_MTU, &mtu.to_ne_bytes());
        self.request(libc::RTM_NEWLINK, 0, m, &format!("setting MTU {mtu}")).map(drop)
    }

    /// Lets an interface send no super-packets: the kernel cuts them into packets of the MTU before.
    pub fn refuse_super_packets(&mut self, index: u32) -> io::Result<()> {
        let mut m = RequestBody::link(index, 0, 0);
        m.attribute(IFLA_GSO_MAX_SEGS, &1u32.to_ne_bytes());
        self.request(libc::RTM_NEWLINK, 0, m, "refusing super-packets").map(drop)
    }

    /// Sets the hardware address.
    pub fn set_mac(&mut self, index: u32, mac: Mac) -> io::Result<()> {
        let mut m = RequestBody::link(index, 0, 0);
        m.attribute(libc::IFLA_ADDRESS, &mac);
        self.request(libc::RTM_NEWLINK, 0, m, "setting a hardware address").map(drop)
    }

    /// Adds an address to an interface, usable at once.
    pub fn add_address(&mut self, index: u32, address: IpAddr, prefix: u8) -> io::Result<()> {
        let (family, octets) = family_and_octets(address);
        let mut m = RequestBody::default();
        m.bytes.extend_from_slice(&[family, prefix, IFA_F_NODAD, 0]);
        m.bytes.extend_from_slice(&index.to_ne_bytes());
        m.attribute(libc::IFA_LOCAL, &octets);
        m.attribute(libc::IFA_ADDRESS, &octets);
        let flags = libc::NLM_F_CREATE | libc::NLM_F_REPLACE;
        self.request(libc::RTM_NEWADDR, flags, m, &format!("adding address {address}/{prefix}")).map(drop)
    }

    /// Sets a permanent hardware address for a neighbour: with a delay of seconds, the kernel's address resolution
    /// (three attempts, one second apart) would time out.
    pub fn add_neighbour(&mut self, index: u32, address: IpAddr, mac: Mac) -> io::Result<()> {
        let (family, octets) = family_and_octets(address);
        let mut m = RequestBody::default();
        m.bytes.extend_from_slice(&[family, 0, 0, 0]);
        m.bytes.extend_from_slice(&index.to_ne_bytes());
        m.bytes.extend_from_slice(&libc::NUD_PERMANENT.to_ne_bytes());
        m.bytes.extend_from_slice(&[0, 0]);
        m.attribute(libc::NDA_DST, &octets);
        m.attribute(libc::NDA_LLADDR, &mac);
        let flags = libc::NLM_F_CREATE | libc::NLM_F_REPLACE;
        self.request(libc::RTM_NEWNEIGH, flags, m, &format!("adding neighbour {address}")).map(drop)
    }

    /// Adds a route to a network through a neighbour; TCP connections over it have the congestion control given, by its
    /// kernel name.
    pub fn add_route(&mut self, network: IpAddr, prefix: u8, via: IpAddr, control: Option<&str>) -> io::Result<()> {
        let (family, octets) = family_and_octets(network);
        let mut m = RequestBody::default();
        m.bytes.extend_from_slice(&[family, prefix, 0, 0, libc::RT_TABLE_MAIN]);
        m.bytes.extend_from_slice(&[libc::RTPROT_STATIC, libc::RT_SCOPE_UNIVERSE, libc::RTN_UNICAST]);
        m.bytes.extend_from_slice(&[0; 4]);
        m.attribute(libc::RTA_DST, &octets);
        m.attribute(libc::RTA_GATEWAY, &family_and_octets(via).1);
        if let Some(control) = control {
            m.nest(libc::RTA_METRICS, |metrics| metrics.text(RTAX_CC_ALGO, control));
        }
        let flags = libc::NLM_F_CREATE | libc::NLM_F_REPLACE;
        self.request(libc::RTM_NEWROUTE, flags, m, &format!("adding a route to {network}/{prefix}")).map(drop)
    }

    /// Sets the TCP congestion control, by its kernel name, for connections with a neighbour. Unlike the default of a
    /// network namespace, a route may name any control that the kernel has.
    pub fn set_congestion_control(&mut self, index: u32, neighbour: IpAddr, control: &str) -> io::Result<()> {
        let (family, octets) = family_and_octets(neighbour);
        let mut m = RequestBody::default();
        m.bytes.extend_from_slice(&[family, (octets.len() * 8) as u8, 0, 0, libc::RT_TABLE_MAIN]);
        m.bytes.extend_from_slice(&[libc::RTPROT_STATIC, libc::RT_SCOPE_LINK, libc::RTN_UNICAST]);
        m.bytes.extend_from_slice(&[0; 4]);
        m.attribute(libc::RTA_DST, &octets);
        m.attribute(libc::RTA_OIF, &index.to_ne_bytes());
        m.nest(libc::RTA_METRICS, |metrics| metrics.text(RTAX_CC_ALGO, control));
        let flags = libc::NLM_F_CREATE | libc::NLM_F_REPLACE;
        let doing = format!("TCP congestion control `{control}` towards {neighbour}");
        self.request(libc::RTM_NEWROUTE, flags, m, &doing).map(drop)
    }

    /// Sends a request and waits for its response or acknowledgment; returns the response's body.
    fn request(&mut self, kind: u16, flags: libc::c_int, m: RequestBody, doing: &str) -> io::Result<Vec<u8>> {
        self.exchange(kind, flags, m).map_err(|e| context(e, doing))
    }

    fn exchange(&mut self, kind: u16, flags: libc::c_int, m: RequestBody) -> io::Result<Vec<u8>> {
        self.sequence += 1;
        let acknowledge = if kind == libc::RTM_GETLINK { 0 } else { libc::NLM_F_ACK };
        let mut packet = Vec::with_capacity(NLMSG_HEADER + m.bytes.len());
        packet.extend_from_slice(&((NLMSG_HEADER + m.bytes.len()) as u32).to_ne_bytes());
        packet.extend_from_slice(&kind.to_ne_bytes());
        packet.extend_from_slice(&((libc::NLM_F_REQUEST | acknowledge | flags) as u16).to_ne_bytes());
        packet.extend_from_slice(&self.sequence.to_ne_bytes());
        packet.extend_from_slice(&[0; 4]);
        packet.extend_from_slice(&m.bytes);
        rustix::net::send(&self.socket, &packet, rustix::net::SendFlags::empty())?;
        loop {
            let mut buffer = vec![0u8; 65536];
            let (length, _) = rustix::net::recv(&self.socket, &mut buffer[..], rustix::net::RecvFlags::empty())?;
            let Some((sequence, answer)) = parse_answer(&buffer[..length]) else { continue };
            if sequence == self.sequence {
                return answer;
            }
        }
    }
}

/// Sequence number of a response, with its body or error.
fn parse_answer(bytes: &[u8]) -> Option<(u32, io::Result<Vec<u8>>)> {
    let length = u32::from_ne_bytes(bytes.get(0..4)?.try_into().ok()?) as usize;
    let kind = u16::from_ne_bytes(bytes.get(4..6)?.try_into().ok()?);
    let sequence = u32::from_ne_bytes(bytes.get(8..12)?.try_into().ok()?);
    let body = bytes.get(NLMSG_HEADER..length.min(bytes.len()))?;
    if i32::from(kind) != libc::NLMSG_ERROR {
        return Some((sequence, Ok(body.to_vec())));
    }
    let code = i32::from_ne_bytes(body.get(0..4)?.try_into().ok()?);
    let answer = if code == 0 { Ok(Vec::new()) } else { Err(io::Error::from_raw_os_error(-code)) };
    Some((sequence, answer))
}

fn parse_interface(body: &[u8]) -> Option<Interface> {
    let index = i32::from_ne_bytes(body.get(4..8)?.try_into().ok()?) as u32;
    let flags = u32::from_ne_bytes(body.get(8..12)?.try_into().ok()?);
    let (mut mac, mut dropped, mut mtu, mut is_member) = (Mac::default(), 0, 0, false);
    let mut rest = body.get(INTERFACE_HEADER..)?;
    while rest.len() >= 4 {
        let length = usize::from(u16::from_ne_bytes([rest[0], rest[1]]));
        let kind = u16::from_ne_bytes([rest[2], rest[3]]);
        if length < 4 || length > rest.len() {
            break;
        }
        if kind == libc::IFLA_ADDRESS && length == 10 {
            mac.copy_from_slice(&rest[4..10]);
        }
        if let (libc::IFLA_MTU, Some(number)) = (kind, rest[..length].get(4..8)) {
            mtu = u32::from_ne_bytes(number.try_into().unwrap_or_default());
        }
        is_member |= kind == libc::IFLA_MASTER;
        // `tx_dropped` is the eighth number of rtnl_link_stats64.
        if let (IFLA_STATS64, Some(number)) = (kind, rest[..length].get(4 + 7 * 8..4 + 8 * 8)) {
            dropped = u64::from_ne_bytes(number.try_into().unwrap_or_default());
        }
        rest = &rest[length.next_multiple_of(4).min(rest.len())..];
    }
    Some(Interface { index, mac, running: flags & libc::IFF_RUNNING as u32 != 0, mtu, is_member, dropped })
}

/// Whether an interface of the calling thread's network namespace has an IPv4 address.
///
/// # Errors
/// Errors of the system calls.
pub fn has_address(interface: &str) -> io::Result<bool> {
    let socket = std::net::UdpSocket::bind((std::net::Ipv4Addr::UNSPECIFIED, 0))?;
    // SAFETY: ifreq is plain old data; all zeros is a value of it.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    let room = request.ifr_name.len() - 1;
    for (to, from) in request.ifr_name.iter_mut().take(room).zip(interface.bytes()) {
        *to = from as libc::c_char;
    }
    // C libraries disagree about the type of the request's number.
    // SAFETY: the request lives for the call; the kernel reads the name and writes an address of its own length.
    match check(unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFADDR as _, &raw mut request) }) {
        Ok(_) => Ok(true),
        Err(error) if error.raw_os_error() == Some(libc::EADDRNOTAVAIL) => Ok(false),
        Err(error) => Err(context(error, &format!("asking for the address of {interface}"))),
    }
}

fn family_and_octets(address: IpAddr) -> (u8, Vec<u8>) {
    match address {
        IpAddr::V4(a) => (libc::AF_INET as u8, a.octets().to_vec()),
        IpAddr::V6(a) => (libc::AF_INET6 as u8, a.octets().to_vec()),
    }
}

/// Body of a request: a fixed header, then attributes.
#[derive(Default)]
struct RequestBody {
    bytes: Vec<u8>,
}

impl RequestBody {
    fn link(index: u32, flags: u32, change: u32) -> Self {
        let mut bytes = vec![0u8; 4];
        bytes.extend_from_slice(&index.to_ne_bytes());
        bytes.extend_from_slice(&flags.to_ne_bytes());
        bytes.extend_from_slice(&change.to_ne_bytes());
        RequestBody { bytes }
    }

    fn attribute(&mut self, kind: u16, value: &[u8]) {
        self.bytes.extend_from_slice(&((4 + value.len()) as u16).to_ne_bytes());
        self.bytes.extend_from_slice(&kind.to_ne_bytes());
        self.bytes.extend_from_slice(value);
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }

    fn text(&mut self, kind: u16, value: &str) {
        let mut bytes = value.as_bytes().to_vec();
        bytes.push(0);
        self.attribute(kind, &bytes);
    }

    fn nest(&mut self, kind: u16, fill: impl FnOnce(&mut RequestBody)) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&[0; 2]);
        self.bytes.extend_from_slice(&(kind | NLA_F_NESTED).to_ne_bytes());
        fill(self);
        let length = (self.bytes.len() - start) as u16;
        self.bytes[start..start + 2].copy_from_slice(&length.to_ne_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::namespace::NetworkNamespace;
    use std::os::fd::AsFd;

    #[test]
    fn attributes_are_aligned_and_nested() {
        let mut m = RequestBody::default();
        m.nest(1, |m| m.text(2, "abc"));
        m.attribute(3, &[9]);
        let expected: [u8; 20] = [12, 0, 1, 0x80, 8, 0, 2, 0, b'a', b'b', b'c', 0, 5, 0, 3, 0, 9, 0, 0, 0];
        if cfg!(target_endian = "little") {
            assert_eq!(m.bytes, expected);
        }
    }

    #[test]
    fn truncated_answers_are_ignored() {
        assert!(parse_answer(&[0; 3]).is_none());
        assert!(parse_interface(&[0; 3]).is_none());
    }

    #[test]
    fn veth_pair_spans_namespaces_with_addresses() {
        let hosts = NetworkNamespace::create().and_then(|a| Ok((a, NetworkNamespace::create()?)));
        let (a, b) = match hosts {
            Ok(hosts) => hosts,
            Err(e) => return println!("skipped: the kernel refuses a network namespace: {e}"),
        };
        let address: IpAddr = "10.1.2.1".parse().unwrap();
        a.within(|| {
            let mut netlink = Netlink::open()?;
            netlink.create_veth_to("left", "right", b.as_fd(), [2, 0, 0, 0, 0, 2], 1400)?;
            let left = netlink.interface("left")?.unwrap().index;
            netlink.set_mac(left, [2, 0, 0, 0, 0, 1])?;
            netlink.set_mtu(left, 1300)?;
            netlink.add_address(left, address, 30)?;
            netlink.set_up(left, true)?;
            netlink.add_neighbour(left, "10.1.2.2".parse().unwrap(), [2, 0, 0, 0, 0, 2])?;
            netlink.add_route("10.9.0.0".parse().unwrap(), 16, "10.1.2.2".parse().unwrap(), None)?;
            assert_eq!(netlink.interface("left")?.unwrap().mac, [2, 0, 0, 0, 0, 1]);
            assert_eq!(netlink.interface("right")?, None);
            std::net::UdpSocket::bind((address, 0)).map(drop)
        })
        .unwrap();
        let found = b.within(|| Netlink::open()?.interface("right")).unwrap();
        assert!(found.is_some_and(|i| !i.running && i.mac == [2, 0, 0, 0, 0, 2]));
    }
}
