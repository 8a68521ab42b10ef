//! Packet sockets with virtio-net headers: complete frames of an interface, including unsegmented super-packets, many
//! per system call, or through a ring of memory shared with the kernel ([`PacketRing`]).

mod ring;

pub use ring::PacketRing;

use crate::{check, context};
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// Length of the virtio-net header before each frame, bytes.
pub const VNET_HEADER: usize = 10;

/// Most frames per system call.
pub const BATCH: usize = 64;
/// Bytes reserved per frame: a 64 kB IP packet with Ethernet and virtio-net headers.
pub const FRAME_MAX: usize = 65_536 + 128;

const ETH_P_ALL: u16 = 0x0003;
/// `PACKET_IGNORE_OUTGOING` of linux/if_packet.h, like the constants below.
const PACKET_IGNORE_OUTGOING: libc::c_int = 23;
const PACKET_QDISC_BYPASS: libc::c_int = 20;
const PACKET_STATISTICS: libc::c_int = 6;
/// `SKF_AD_OFF + SKF_AD_VLAN_TAG_PRESENT` of linux/filter.h.
const VLAN_TAG_PRESENT: u32 = (-0x1000_i32 + 48) as u32;

/// A packet socket bound to one interface.
#[derive(Debug)]
pub struct PacketSocket {
    fd: OwnedFd,
    receive_buffer: usize,
}

impl PacketSocket {
    /// Opens a socket on interface `index` of the calling thread's network namespace. It receives every arriving frame,
    /// but not those it sends. `buffer` is the size requested for the receive and send buffers, bytes.
    pub fn open(index: u32, buffer: usize) -> io::Result<Self> {
        Self::open_bound(index, buffer, |_| Ok(())).map(|(socket, ())| socket)
    }

    /// Like [`PacketSocket::open`], but received frames are in a ring of `ring` bytes.
    pub fn open_with_ring(index: u32, buffer: usize, ring: usize) -> io::Result<(Self, PacketRing)> {
        // The ring is set up before the socket is bound: from then on the kernel writes frames into it.
        Self::open_bound(index, buffer, |fd| PacketRing::new(fd, ring))
    }

    fn open_bound<T>(
        index: u32,
        buffer: usize,
        prepare: impl FnOnce(&OwnedFd) -> io::Result<T>,
    ) -> io::Result<(Self, T)> {
        let kind = libc::SOCK_RAW | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        // Protocol 0: no frame arrives before the socket is configured and bound.
        // SAFETY: socket takes no pointers.
        let fd = check(unsafe { libc::socket(libc::AF_PACKET, kind, 0) }).map_err(|e| context(e, "packet socket"))?;
        // SAFETY: the descriptor is new and owned by nobody else.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        set_option(&fd, libc::SOL_PACKET, libc::PACKET_VNET_HDR, &1i32).map_err(|e| context(e, "PACKET_VNET_HDR"))?;
        set_option(&fd, libc::SOL_PACKET, PACKET_IGNORE_OUTGOING, &1i32)?;
        set_option(&fd, libc::SOL_PACKET, PACKET_QDISC_BYPASS, &1i32)?;
        // Time stamps let a late reader reconstruct when each frame was sent.
        set_option(&fd, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, &1i32)?;
        let receive_buffer = set_buffer(&fd, buffer)?;
        let prepared = prepare(&fd)?;
        // SAFETY: sockaddr_ll and packet_mreq are plain old data; all zeros is a value of them.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = ETH_P_ALL.to_be();
        address.sll_ifindex = index as i32;
        // SAFETY: address is a whole sockaddr_ll and its size is given.
        check(unsafe {
            libc::bind(fd.as_raw_fd(), (&raw const address).cast(), size_of::<libc::sockaddr_ll>() as libc::socklen_t)
        })
        .map_err(|e| context(e, "binding the packet socket"))?;
        // SAFETY: as above.
        let mut membership: libc::packet_mreq = unsafe { std::mem::zeroed() };
        membership.mr_ifindex = index as i32;
        membership.mr_type = libc::PACKET_MR_PROMISC as u16;
        set_option(&fd, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &membership)?;
        Ok((PacketSocket { fd, receive_buffer }, prepared))
    }

    /// Size of the receive buffer granted by the kernel, bytes.
    pub fn receive_buffer(&self) -> usize {
        self.receive_buffer
    }

    /// Receives at most [`BATCH`] frames; `WouldBlock` if no frame waits.
    pub fn receive(&self, batch: &mut FrameBatch) -> io::Result<usize> {
        batch.count = 0;
        let mut controls = [const { StampBuffer([0; CONTROL]) }; BATCH];
        let mut pieces = [const { libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 } }; BATCH];
        // SAFETY: mmsghdr is plain old data; all zeros is a value of it.
        let mut messages: [libc::mmsghdr; BATCH] = unsafe { std::mem::zeroed() };
        let frames = batch.frames.chunks_exact_mut(FRAME_MAX);
        for (((frame, piece), message), control) in frames.zip(&mut pieces).zip(&mut messages).zip(&mut controls) {
            *piece = libc::iovec { iov_base: frame.as_mut_ptr().cast(), iov_len: FRAME_MAX };
            message.msg_hdr.msg_iov = piece;
            message.msg_hdr.msg_iovlen = 1;
            message.msg_hdr.msg_control = control.0.as_mut_ptr().cast();
            message.msg_hdr.msg_controllen = CONTROL as _;
        }
        // SAFETY: each message names one piece and one control buffer with its size, each piece
        // names FRAME_MAX bytes of `batch.frames` that no other piece names; all outlive the call.
        let count = check(unsafe {
            libc::recvmmsg(
                self.fd.as_raw_fd(),
                messages.as_mut_ptr(),
                BATCH as libc::c_uint,
                // C libraries disagree about the sign of these flags.
                libc::MSG_DONTWAIT as _,
                std::ptr::null_mut(),
            )
        })? as usize;
        let now = crate::monotonic_ns();
        let wall = crate::realtime_ns();
        for (index, message) in messages[..count].iter().enumerate() {
            batch.lengths[index] = (message.msg_len as usize).min(FRAME_MAX);
            let age = stamp(&message.msg_hdr).map_or(0, |sent| wall.saturating_sub(sent));
            // Bounded, as a step of the wall clock must not date frames into the past.
            batch.sent_ns[index] = now - age.min(STAMP_AGE_MAX_NS).min(now);
        }
        batch.count = count;
        Ok(count)
    }

    /// Sends at most [`BATCH`] frames, each in pieces that together are a virtio-net header and a frame. Returns the
    /// number the kernel accepted, in order.
    pub fn send(&self, frames: &[&[IoSlice<'_>]]) -> io::Result<usize> {
        // SAFETY: mmsghdr is plain old data; all zeros is a value of it.
        let mut messages: [libc::mmsghdr; BATCH] = unsafe { std::mem::zeroed() };
        let count = frames.len().min(BATCH);
        for (pieces, message) in frames.iter().zip(&mut messages) {
            // An IoSlice has the layout of iovec on Unix, as its documentation guarantees.
            message.msg_hdr.msg_iov = pieces.as_ptr().cast_mut().cast();
            message.msg_hdr.msg_iovlen = pieces.len() as _;
        }
        // SAFETY: the first `count` messages name pieces that name the caller's slices, which
        // outlive the call and which sendmmsg only reads.
        let sent = check(unsafe {
            libc::sendmmsg(self.fd.as_raw_fd(), messages.as_mut_ptr(), count as libc::c_uint, libc::MSG_DONTWAIT as _)
        })?;
        Ok(sent as usize)
    }

    /// Drops frames with a VLAN tag, which the kernel would hand over without the tag.
    pub fn refuse_vlan_tags(&self) -> io::Result<()> {
        let instruction = |code, jf, k| libc::sock_filter { code, jt: 0, jf, k };
        let mut program = [
            // Loads whether there is a tag, jumps over the next instruction if so.
            instruction((libc::BPF_LD | libc::BPF_B | libc::BPF_ABS) as u16, 0, VLAN_TAG_PRESENT),
            instruction((libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16, 1, 0),
            instruction(libc::BPF_RET as u16, 0, u32::MAX),
            instruction(libc::BPF_RET as u16, 0, 0),
        ];
        let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
        set_option(&self.fd, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &filter)
    }

    /// Returns and clears an error that the kernel has recorded, such as that of an interface that went down.
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        Ok(rustix::net::sockopt::socket_error(&self.fd)?.err().map(Into::into))
    }

    /// Frames dropped by the kernel since the last call because the receive buffer was full.
    pub fn take_drops(&self) -> io::Result<u64> {
        // `tpacket_stats`, and for rings `tpacket_stats_v3`: frames, of which dropped, and times that the ring was full.
        let mut statistics = [0u32; 3];
        let mut length = size_of_val(&statistics) as libc::socklen_t;
        // SAFETY: both structs are u32 numbers, at most three; the room and its length are given.
        check(unsafe {
            libc::getsockopt(
                self.fd.as_raw_fd(),
                libc::SOL_PACKET,
                PACKET_STATISTICS,
                statistics.as_mut_ptr().cast(),
                &raw mut length,
            )
        })?;
        Ok(u64::from(statistics[1]))
    }
}

impl AsFd for PacketSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Buffer for the frames of one [`PacketSocket::receive`].
#[derive(Debug)]
pub struct FrameBatch {
    frames: Vec<u8>,
    lengths: [usize; BATCH],
    sent_ns: [u64; BATCH],
    count: usize,
}

impl FrameBatch {
    /// Buffer for [`BATCH`] frames, about 4 MB.
    pub fn new() -> Self {
        FrameBatch { frames: vec![0; BATCH * FRAME_MAX], lengths: [0; BATCH], sent_ns: [0; BATCH], count: 0 }
    }

    /// Frames of the last receive, with virtio-net header, and the monotonic time, ns, at which the other end sent
    /// each.
    pub fn frames(&mut self) -> impl Iterator<Item = (&mut [u8], u64)> {
        self.frames
            .chunks_exact_mut(FRAME_MAX)
            .zip(self.lengths)
            .zip(self.sent_ns)
            .take(self.count)
            .map(|((frame, length), sent_ns)| (&mut frame[..length], sent_ns))
            .filter(|(frame, _)| frame.len() > VNET_HEADER)
    }
}

impl Default for FrameBatch {
    fn default() -> Self {
        FrameBatch::new()
    }
}

/// Bytes for one time stamp control message.
const CONTROL: usize = 64;
/// Largest plausible age of a received frame, ns; a larger one means that the wall clock stepped.
const STAMP_AGE_MAX_NS: u64 = 1_000_000_000;

#[repr(C, align(8))]
struct StampBuffer([u8; CONTROL]);

/// Wall clock time stamp of a frame, ns since 1970.
fn stamp(header: &libc::msghdr) -> Option<u64> {
    // SAFETY: the kernel has set msg_controllen to what it wrote to the buffer msg_control names;
    // CMSG_FIRSTHDR gives null when that is less than a header.
    let control = unsafe { libc::CMSG_FIRSTHDR(header).as_ref() }?;
    let right = control.cmsg_level == libc::SOL_SOCKET && control.cmsg_type == libc::SCM_TIMESTAMPNS;
    let whole = control.cmsg_len as usize >= size_of::<libc::cmsghdr>() + size_of::<libc::timespec>();
    (right && whole).then(|| {
        // SAFETY: a time stamp's data is one timespec, whose length was checked.
        let time = unsafe { libc::CMSG_DATA(control).cast::<libc::timespec>().read_unaligned() };
        (time.tv_sec as u64).saturating_mul(1_000_000_000).saturating_add(time.tv_nsec as u64)
    })
}

fn set_option<T>(fd: &OwnedFd, level: libc::c_int, name: libc::c_int, value: &T) -> io::Result<()> {
    // SAFETY: value is a whole T and its size is given; the kernel only reads it.
    check(unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            level,
            name,
            std::ptr::from_ref(value).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    })
    .map(drop)
}

/// Requests buffers of this size: beyond the system's limit if permitted, else up to it. Returns the size of the
/// receive buffer granted.
fn set_buffer(fd: &OwnedFd, bytes: usize) -> io::Result<usize> {
    let value = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX);
    for (forced, plain) in [(libc::SO_RCVBUFFORCE, libc::SO_RCVBUF), (libc::SO_SNDBUFFORCE, libc::SO_SNDBUF)] {
        set_option(fd, libc::SOL_SOCKET, forced, &value)
            .or_else(|_| set_option(fd, libc::SOL_SOCKET, plain, &value))?;
    }
    let granted = rustix::net::sockopt::socket_recv_buffer_size(fd)?;
    Ok(granted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::namespace::NetworkNamespace;
    use crate::netlink::Netlink;

    #[test]
    fn frames_cross_veth_pair_with_header() {
        let host = match NetworkNamespace::create() {
            Ok(host) => host,
            Err(e) => return println!("skipped: the kernel refuses a network namespace: {e}"),
        };
        host.within(|| {
            let mut netlink = Netlink::open()?;
            netlink.create_veth("left", "right")?;
            let left = netlink.interface("left")?.unwrap().index;
            let right = netlink.interface("right")?.unwrap().index;
            netlink.set_up(left, true)?;
            netlink.set_up(right, true)?;
            let (a, b) = (PacketSocket::open(left, 1 << 20)?, PacketSocket::open(right, 1 << 20)?);
            assert!(a.receive_buffer() > 0);
            let mut frame = vec![0u8; VNET_HEADER];
            frame.extend_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x88, 0xb5]);
            let slices = [b"one", b"two", &b""[..]].map(|body| [IoSlice::new(&frame), IoSlice::new(body)]);
            let frames: Vec<&[IoSlice<'_>]> = slices.iter().map(|pieces| &pieces[..]).collect();
            let mut batch = FrameBatch::new();
            let mut late = true;
            // The kernel enables time stamps a moment after the request.
            for _ in 0..40 {
                assert_eq!(a.send(&frames)?, 3);
                let sent = crate::monotonic_ns();
                std::thread::sleep(std::time::Duration::from_millis(50));
                let mut seen = Vec::new();
                while b.receive(&mut batch).is_ok() {
                    // The kernel's own neighbour discovery also crosses the pair.
                    let ours = batch.frames().filter(|(f, _)| f[VNET_HEADER..][12..14] == [0x88, 0xb5]);
                    seen.extend(ours.map(|(f, at)| (f[VNET_HEADER..].to_vec(), at)));
                }
                assert_eq!(seen.len(), 3);
                assert!(seen[0].0.ends_with(b"one") && seen[1].0.ends_with(b"two"));
                late = seen.iter().any(|(_, at)| *at > sent + 40_000_000);
                if !late {
                    break;
                }
            }
            assert!(!late, "frames are stamped when sent, not when read");
            assert_eq!(b.take_drops()?, 0);
            // The sender does not receive its own frames, only those of the kernel.
            while a.receive(&mut batch).is_ok() {
                assert!(batch.frames().all(|(f, _)| f[VNET_HEADER..][12..14] != [0x88, 0xb5]));
            }
            assert_eq!(a.receive(&mut batch).map_err(|e| e.kind()), Err(io::ErrorKind::WouldBlock));
            Ok(())
        })
        .unwrap();
    }
}
