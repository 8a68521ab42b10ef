//! State of TCP connections in a network namespace, by sock_diag(7). It reads only.

use crate::{check, context};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{FromRawFd, OwnedFd};

/// `SOCK_DIAG_BY_FAMILY` of linux/sock_diag.h.
const SOCK_DIAG_BY_FAMILY: u16 = 20;
/// `INET_DIAG_INFO` of linux/inet_diag.h: an attribute with `tcp_info`.
const INET_DIAG_INFO: u16 = 2;
/// Bit of the state "established" (net/tcp_states.h).
const ESTABLISHED: u32 = 1 << 1;
const NLMSG_HEADER: usize = 16;
/// `inet_diag_msg` without attributes.
const MESSAGE: usize = 72;
/// Most connections that one reading returns, and most packets from the kernel that it reads.
const CONNECTIONS: usize = 1024;
const PACKETS: usize = 64;

/// One established TCP connection.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Connection {
    /// Address of the other end.
    pub peer: IpAddr,
    /// Smoothed round-trip time, µs.
    pub round_trip_us: u32,
    /// Congestion window, bytes.
    pub window: u64,
    /// Segments sent again since the connection began.
    pub retransmitted: u32,
    /// Rate at which data was delivered to the peer lately, bytes a second.
    pub delivery_rate: u64,
    /// Bytes that the peer has acknowledged.
    pub acknowledged: u64,
}

/// A sock_diag socket of the network namespace it was opened in.
#[derive(Debug)]
pub struct SockDiag {
    socket: OwnedFd,
    sequence: u32,
}

impl SockDiag {
    /// Opens a socket in the calling thread's network namespace.
    ///
    /// # Errors
    /// When the kernel has no sock_diag.
    pub fn open() -> io::Result<Self> {
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // SAFETY: socket takes no pointers.
        let fd = check(unsafe { libc::socket(libc::AF_NETLINK, kind, libc::NETLINK_SOCK_DIAG) })
            .map_err(|e| context(e, "sock_diag socket"))?;
        // SAFETY: the descriptor is new and owned by nobody else.
        Ok(SockDiag { socket: unsafe { OwnedFd::from_raw_fd(fd) }, sequence: 0 })
    }

    /// Reads the established connections of both IP versions; those beyond a bound are left out.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn connections(&mut self) -> io::Result<Vec<Connection>> {
        let mut found = Vec::new();
        for family in [libc::AF_INET, libc::AF_INET6] {
            self.dump(family as u8, &mut found).map_err(|e| context(e, "reading TCP connections"))?;
        }
        Ok(found)
    }

    fn dump(&mut self, family: u8, found: &mut Vec<Connection>) -> io::Result<()> {
        self.sequence += 1;
        rustix::net::send(&self.socket, &request(family, self.sequence), rustix::net::SendFlags::empty())?;
        let mut buffer = vec![0u8; 1 << 16];
        // Reads never have to wait: the first packet of a dump is ready when the request returns, and each further one
        // when its predecessor was read.
        for _ in 0..PACKETS {
            let received = rustix::net::recv(&self.socket, &mut buffer[..], rustix::net::RecvFlags::empty());
            let length = match received {
                Ok((length, _)) => length,
                Err(rustix::io::Errno::AGAIN) => return Ok(()),
                Err(e) => return Err(e.into()),
            };
            if parse(&buffer[..length], self.sequence, found)? {
                return Ok(());
            }
        }
        Ok(())
    }
}

/// Request for all established TCP connections of a family (`inet_diag_req_v2`).
fn request(family: u8, sequence: u32) -> Vec<u8> {
    let mut packet = Vec::with_capacity(NLMSG_HEADER + 56);
    packet.extend_from_slice(&(NLMSG_HEADER as u32 + 56).to_ne_bytes());
    packet.extend_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    packet.extend_from_slice(&((libc::NLM_F_REQUEST | libc::NLM_F_DUMP) as u16).to_ne_bytes());
    packet.extend_from_slice(&sequence.to_ne_bytes());
    packet.extend_from_slice(&[0; 4]);
    packet.extend_from_slice(&[family, libc::IPPROTO_TCP as u8, 1 << (INET_DIAG_INFO - 1), 0]);
    packet.extend_from_slice(&ESTABLISHED.to_ne_bytes());
    packet.resize(NLMSG_HEADER + 56, 0);
    packet
}

/// Reads the messages of one packet; returns whether the dump is complete.
fn parse(mut packet: &[u8], sequence: u32, found: &mut Vec<Connection>) -> io::Result<bool> {
    while let Some(header) = packet.first_chunk::<NLMSG_HEADER>() {
        let length = (word(header, 0).unwrap_or(0) as usize).min(packet.len());
        if length < NLMSG_HEADER {
            break;
        }
        let (message, kind) = (&packet[NLMSG_HEADER..length], u16::from_ne_bytes([header[4], header[5]]));
        packet = &packet[length.next_multiple_of(4).min(packet.len())..];
        // Skips messages of an earlier dump, whose reading stopped at the bound.
        if word(header, 8) != Some(sequence) {
            continue;
        }
        match i32::from(kind) {
            libc::NLMSG_DONE => return Ok(true),
            libc::NLMSG_ERROR => {
                let code = word(message, 0).unwrap_or(0) as i32;
                return if code == 0 { Ok(true) } else { Err(io::Error::from_raw_os_error(-code)) };
            }
            _ if found.len() < CONNECTIONS => found.extend(connection(message)),
            _ => {}
        }
    }
    Ok(false)
}

/// One `inet_diag_msg` with its `tcp_info`.
fn connection(message: &[u8]) -> Option<Connection> {
    let (head, mut rest) = message.split_at_checked(MESSAGE)?;
    // Address of the destination, after ports and source in `inet_diag_sockid`.
    let octets: [u8; 16] = head.get(24..40)?.try_into().ok()?;
    let peer = match i32::from(head[0]) {
        libc::AF_INET => Ipv4Addr::from(*octets.first_chunk::<4>()?).into(),
        _ => Ipv6Addr::from(octets).to_canonical(),
    };
    while let Some(header) = rest.first_chunk::<4>() {
        let length = usize::from(u16::from_ne_bytes([header[0], header[1]]));
        let kind = u16::from_ne_bytes([header[2], header[3]]);
        let value = rest.get(4..length)?;
        if kind == INET_DIAG_INFO {
            // Offsets in `tcp_info` of linux/tcp.h.
            let (cwnd, segment) = (word(value, 80)?, word(value, 16)?);
            return Some(Connection {
                peer,
                round_trip_us: word(value, 68)?,
                window: u64::from(cwnd) * u64::from(segment),
                retransmitted: word(value, 100)?,
                // Older kernels send a `tcp_info` without these two fields.
                acknowledged: long(value, 120).unwrap_or(0),
                delivery_rate: long(value, 160).unwrap_or(0),
            });
        }
        rest = rest.get(length.next_multiple_of(4)..)?;
    }
    None
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn long(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn connection_over_loopback_is_found() {
        let listener = TcpListener::bind("127.0.0.7:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        client.write_all(&[7; 5000]).unwrap();
        server.read_exact(&mut [0; 5000]).unwrap();
        let found = match SockDiag::open().and_then(|mut diag| diag.connections()) {
            Ok(found) => found,
            Err(e) => return println!("skipped: the kernel has no sock_diag: {e}"),
        };
        let peer: IpAddr = "127.0.0.7".parse().unwrap();
        let own: Vec<&Connection> = found.iter().filter(|connection| connection.peer == peer).collect();
        assert!(own.iter().any(|c| c.window > 0 && c.round_trip_us > 0 && c.acknowledged >= 5000), "{found:?}");
    }

    #[test]
    fn damaged_packets_are_no_connections() {
        let mut found = Vec::new();
        for length in 0..200 {
            let mut packet = vec![0xff; length];
            assert!(!parse(&packet, 7, &mut found).unwrap());
            packet.fill(0);
            assert!(!parse(&packet, 7, &mut found).unwrap());
            assert_eq!(connection(&packet), None);
        }
        assert!(found.is_empty());
        // NLMSG_ERROR must become an error; NLMSG_DONE completes the dump.
        let mut refused = request(2, 7);
        refused[4..6].copy_from_slice(&(libc::NLMSG_ERROR as u16).to_ne_bytes());
        refused[16..20].copy_from_slice(&(-libc::EPERM).to_ne_bytes());
        assert_eq!(parse(&refused, 7, &mut found).unwrap_err().raw_os_error(), Some(libc::EPERM));
        refused[4..6].copy_from_slice(&(libc::NLMSG_DONE as u16).to_ne_bytes());
        assert!(parse(&refused, 7, &mut found).unwrap());
    }
}
