//! TAP interfaces: exchange Ethernet frames of up to 64 kB between a host and this process.

use crate::{check, context};
use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;

/// Length of the virtio-net header before each frame, bytes.
pub const VNET_HEADER: usize = 10;

/// `TUNSETCARRIER` of linux/if_tun.h, `_IOW('T', 226, int)`.
const TUNSETCARRIER: libc::c_ulong = 0x4004_54e2;
/// `TUN_F_USO4 | TUN_F_USO6`: UDP segmentation, since Linux 6.2.
const TUN_F_USO: libc::c_uint = 0x20 | 0x40;

/// A TAP interface, removed on drop.
#[derive(Debug)]
pub struct Tap {
    file: File,
    udp_segmentation: bool,
}

impl Tap {
    /// Creates an interface in the calling thread's network namespace. Frames have a virtio-net header and may be
    /// super-packets, not segmented to the MTU.
    pub fn create(name: &str) -> io::Result<Tap> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NONBLOCK)
            .open("/dev/net/tun")
            .map_err(|e| context(e, "/dev/net/tun"))?;
        let mut request = interface_request(name)?;
        request.ifr_ifru.ifru_flags = (libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_VNET_HDR) as libc::c_short;
        // SAFETY: request is a whole ifreq that outlives the call.
        check(unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &raw const request) })
            .map_err(|e| context(e, &format!("making TAP interface {name}")))?;
        let header = VNET_HEADER as libc::c_int;
        // SAFETY: TUNSETVNETHDRSZ reads one int.
        check(unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETVNETHDRSZ, &raw const header) })?;
        let tcp = libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6;
        let udp_segmentation = offload(&file, tcp | TUN_F_USO).is_ok();
        if !udp_segmentation {
            offload(&file, tcp).map_err(|e| context(e, "TUNSETOFFLOAD"))?;
        }
        Ok(Tap { file, udp_segmentation })
    }

    /// Whether UDP super-packets also pass unsegmented.
    pub fn udp_segmentation(&self) -> bool {
        self.udp_segmentation
    }

    /// Sets the carrier, as if a cable were plugged or unplugged.
    pub fn set_carrier(&self, on: bool) -> io::Result<()> {
        let value = libc::c_int::from(on);
        // SAFETY: TUNSETCARRIER reads one int.
        check(unsafe { libc::ioctl(self.file.as_raw_fd(), TUNSETCARRIER, &raw const value) }).map(drop)
    }

    /// Receives one frame with its header; `WouldBlock` if there is none.
    pub fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        (&self.file).read(buffer)
    }

    /// Sends one frame with its header, in pieces, to the host.
    pub fn send(&self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        (&self.file).write_vectored(pieces)
    }
}

impl AsFd for Tap {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

fn interface_request(name: &str) -> io::Result<libc::ifreq> {
    if name.is_empty() || name.len() >= libc::IFNAMSIZ {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("interface name `{name}`: 1 to 15 bytes")));
    }
    // SAFETY: ifreq is plain old data; all zeros is a value of it.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (slot, byte) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *slot = byte as libc::c_char;
    }
    Ok(request)
}

fn offload(file: &File, flags: libc::c_uint) -> io::Result<()> {
    // SAFETY: TUNSETOFFLOAD takes its flags by value.
    check(unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETOFFLOAD, libc::c_ulong::from(flags)) }).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::namespace::NetworkNamespace;
    use crate::netlink::Netlink;

    #[test]
    fn names_too_long_are_refused() {
        assert!(interface_request("").is_err());
        assert!(interface_request("sixteen-bytes-ab").is_err());
    }

    #[test]
    fn tap_receives_frames_and_shows_carrier() {
        let host = match NetworkNamespace::create() {
            Ok(host) => host,
            Err(e) => return println!("skipped: the kernel refuses a network namespace: {e}"),
        };
        let tap = match host.within(|| Tap::create("cable")) {
            Ok(tap) => tap,
            Err(e) => return println!("skipped: the kernel refuses a TAP interface: {e}"),
        };
        host.within(|| {
            let mut netlink = Netlink::open()?;
            let index = netlink.interface("cable")?.unwrap().index;
            netlink.add_address(index, "10.1.2.1".parse().unwrap(), 24)?;
            netlink.set_up(index, true)?;
            netlink.add_neighbour(index, "10.1.2.2".parse().unwrap(), [2, 0, 0, 0, 0, 2])?;
            assert!(netlink.interface("cable")?.unwrap().running);
            let socket = std::net::UdpSocket::bind("10.1.2.1:0")?;
            socket.send_to(b"hello", "10.1.2.2:9")?;
            let mut buffer = vec![0u8; 70_000];
            let found = (0..20).any(|_| {
                matches!(tap.receive(&mut buffer), Ok(n) if buffer[..n].ends_with(b"hello") && buffer[10..16] == [2, 0, 0, 0, 0, 2])
            });
            assert!(found);
            tap.set_carrier(false)?;
            assert!(!netlink.interface("cable")?.unwrap().running);
            tap.set_carrier(true)
        })
        .unwrap();
    }
}
