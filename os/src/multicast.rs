//! UDP sockets for announcements by multicast and broadcast, on one interface or on those the kernel chooses, with
//! several sockets per port.

use crate::context;
use rustix::net::netdevice::name_to_index;
use rustix::net::{AddressFamily, SocketFlags, SocketType, ipproto, sockopt};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsRawFd, OwnedFd};

/// Opens a non-blocking socket that may share its port, and joins the groups of its address family. Datagrams to a
/// group have a hop limit of 1 and also reach sockets of this machine. With an `interface`, only that one is used, in
/// both directions.
///
/// # Errors
/// System call errors, with the interface or group they concern.
pub fn open(at: &SocketAddr, groups: &[IpAddr], interface: Option<&str>) -> io::Result<UdpSocket> {
    let family = if at.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(family, SocketType::DGRAM, flags, Some(ipproto::UDP))?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    let index = match interface {
        Some(name) => {
            bind_to_device(&socket, name).map_err(|why| context(why, &format!("interface {name}")))?;
            name_to_index(&socket, name)?
        }
        None => 0,
    };
    if at.is_ipv4() {
        sockopt::set_socket_broadcast(&socket, true)?;
        sockopt::set_ip_multicast_ttl(&socket, 1)?;
        if index > 0 {
            let any = Ipv4Addr::UNSPECIFIED;
            sockopt::set_ip_multicast_if_with_ifindex(&socket, &any, &any, index)?;
        }
    } else {
        // IPv4 has a socket of its own.
        sockopt::set_ipv6_v6only(&socket, true)?;
        sockopt::set_ipv6_multicast_hops(&socket, 1)?;
        if index > 0 {
            sockopt::set_ipv6_multicast_if(&socket, index)?;
        }
    }
    rustix::net::bind(&socket, at)?;
    for group in groups.iter().filter(|group| group.is_multicast() && group.is_ipv4() == at.is_ipv4()) {
        let joined = match group {
            IpAddr::V4(group) => {
                sockopt::set_ip_add_membership_with_ifindex(&socket, group, &Ipv4Addr::UNSPECIFIED, index)
            }
            IpAddr::V6(group) => sockopt::set_ipv6_add_membership(&socket, group, index),
        };
        joined.map_err(|why| context(why.into(), &format!("joining {group}")))?;
    }
    Ok(UdpSocket::from(socket))
}

/// Restricts the socket to this interface (SO_BINDTODEVICE, socket(7)).
fn bind_to_device(socket: &OwnedFd, name: &str) -> io::Result<()> {
    let length = libc::socklen_t::try_from(name.len()).unwrap_or(libc::socklen_t::MAX);
    // SAFETY: the kernel reads `length` bytes of a name that outlives the call.
    let result = unsafe {
        libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_BINDTODEVICE, name.as_ptr().cast(), length)
    };
    crate::check(result).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    const GROUP: IpAddr = IpAddr::V4(Ipv4Addr::new(224, 0, 0, 26));

    /// Datagram that arrives within a second, if any.
    fn heard(socket: &UdpSocket) -> Option<Vec<u8>> {
        let (begun, mut bytes) = (Instant::now(), [0; 100]);
        while begun.elapsed() < Duration::from_secs(1) {
            if let Ok((n, _)) = socket.recv_from(&mut bytes) {
                return Some(bytes[..n].to_vec());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        None
    }

    #[test]
    fn sockets_sharing_port_receive_multicast() {
        let first = open(&"0.0.0.0:0".parse().unwrap(), &[GROUP], Some("lo")).unwrap();
        let port = first.local_addr().unwrap().port();
        let at = SocketAddr::from(([0, 0, 0, 0], port));
        let second = open(&at, &[GROUP], Some("lo")).unwrap();
        first.send_to(b"here", SocketAddr::new(GROUP, port)).unwrap();
        assert_eq!([heard(&first), heard(&second)], [Some(b"here".to_vec()), Some(b"here".to_vec())]);
    }

    #[test]
    fn ipv6_group_joins_named_interface() {
        let Ok(first) = open(&"[::]:0".parse().unwrap(), &["ff02::1".parse().unwrap()], Some("lo")) else {
            // The machine has no IPv6.
            return;
        };
        let port = first.local_addr().unwrap().port();
        if first.send_to(b"six", format!("[ff02::1]:{port}")).is_ok() {
            assert_eq!(heard(&first), Some(b"six".to_vec()));
        }
    }

    #[test]
    fn missing_interface_is_named() {
        let why = open(&"0.0.0.0:0".parse().unwrap(), &[GROUP], Some("nosuch0")).unwrap_err();
        assert!(why.to_string().contains("interface nosuch0"), "{why}");
    }
}
