//! Batched datagrams: segmentation offload and receive coalescing (UDP_SEGMENT, UDP_GRO), several messages per system
//! call, and large buffers, with plain calls as the fallback.
//!
//! A *batch* is a sequence of datagrams laid end to end, each `stride` bytes long except the last.

use bytes::BytesMut;
use std::cell::Cell;
use std::io::{self, IoSlice};
use std::mem::{MaybeUninit, size_of, zeroed};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

/// Most bytes per message: IPv4's limit on the payload of a UDP datagram.
pub const MESSAGE_MAX: usize = 65_507;
/// Most datagrams that the kernel segments one message into (UDP_MAX_SEGMENTS before Linux 6.9).
const SEGMENTS_MAX: usize = 64;
/// Messages per `sendmmsg` and `recvmmsg`.
const BATCH: usize = 32;
/// Most pieces per message (IOV_MAX is 1024).
const PIECES_MAX: usize = 1000;

/// Non-blocking UDP socket.
#[derive(Debug)]
pub struct DatagramSocket {
    socket: UdpSocket,
    /// Largest stride for which the kernel segments; 0 without offload.
    segment_max: Cell<usize>,
    coalesces: bool,
}

/// A received message: one datagram, or several coalesced by the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// Address of the sender.
    pub from: SocketAddr,
    /// Length in bytes.
    pub len: usize,
    /// Length of each datagram except the last.
    pub stride: usize,
}

/// Requests receive and send buffers of this size, bytes: with CAP_NET_ADMIN beyond the system's limit, otherwise up to
/// it.
pub fn grow_buffers(socket: &UdpSocket, bytes: usize) {
    let wanted = i32::try_from(bytes).unwrap_or(i32::MAX);
    for (force, plain) in [(libc::SO_RCVBUFFORCE, libc::SO_RCVBUF), (libc::SO_SNDBUFFORCE, libc::SO_SNDBUF)] {
        if set_option(socket, libc::SOL_SOCKET, force, wanted).is_err() {
            let _ = set_option(socket, libc::SOL_SOCKET, plain, wanted);
        }
    }
}

/// Lets routers cut datagrams that are larger than their networks take, instead of having them refused.
///
/// # Errors
/// System call errors.
pub fn allow_fragments(socket: &UdpSocket) -> io::Result<()> {
    match socket.local_addr()? {
        SocketAddr::V4(_) => set_option(socket, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_DONT),
        SocketAddr::V6(_) => set_option(socket, libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, libc::IP_PMTUDISC_DONT),
    }
}

/// Largest IP packet, in bytes, that the path to a connected socket's peer is known to take; `None` if unknown.
pub fn path_mtu(socket: &UdpSocket) -> Option<u32> {
    let (level, option) = match socket.peer_addr().ok()? {
        SocketAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_MTU),
        SocketAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_MTU),
    };
    let (mut mtu, mut length) = (0i32, size_of::<i32>() as libc::socklen_t);
    // SAFETY: the pointers are valid for the call, and the length is that of the value.
    let result = unsafe { libc::getsockopt(socket.as_raw_fd(), level, option, (&raw mut mtu).cast(), &raw mut length) };
    u32::try_from(mtu).ok().filter(|mtu| result == 0 && *mtu > 0)
}

impl DatagramSocket {
    /// Binds a socket. `offload` requests segmentation and coalescing, if the kernel has them; `buffer` is the size
    /// requested for receive and send buffers, bytes.
    ///
    /// # Errors
    /// System call errors such as "address in use".
    pub fn bind(at: &SocketAddr, offload: bool, buffer: usize) -> io::Result<DatagramSocket> {
        let socket = UdpSocket::bind(at)?;
        socket.set_nonblocking(true)?;
        grow_buffers(&socket, buffer);
        let coalesces = offload && set_option(&socket, libc::SOL_UDP, libc::UDP_GRO, 1).is_ok();
        let segments = offload && set_option(&socket, libc::SOL_UDP, libc::UDP_SEGMENT, 0).is_ok();
        Ok(DatagramSocket { socket, segment_max: Cell::new(if segments { MESSAGE_MAX } else { 0 }), coalesces })
    }
    /// Local address of the socket.
    ///
    /// # Errors
    /// System call errors.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }
    /// Whether the kernel coalesces arriving datagrams.
    pub fn coalesces(&self) -> bool {
        self.coalesces
    }
    /// Whether the kernel segments messages.
    pub fn segments(&self) -> bool {
        self.segment_max.get() > 0
    }

    /// Sends a batch. Returns the bytes sent, always whole datagrams, and the error that stopped it, if any.
    pub fn send_batch(&self, to: &SocketAddr, stride: usize, pieces: &[IoSlice<'_>]) -> (usize, io::Result<()>) {
        let stride = stride.clamp(1, MESSAGE_MAX);
        let mut cursor = PieceCursor { pieces, index: 0, inside: 0 };
        let mut left: usize = pieces.iter().map(|piece| piece.len()).sum();
        let mut sent = 0;
        while left > 0 {
            let before = cursor;
            let result = if stride <= self.segment_max.get() && left > stride {
                self.send_segmented(to, stride, left, &mut cursor)
            } else {
                self.send_plain(to, stride, left, &mut cursor)
            };
            match result {
                Ok(n) => {
                    sent += n;
                    left -= n;
                    if cursor.position_differs(&before, n) {
                        cursor = before;
                        cursor.skip(n);
                    }
                }
                Err(error) if stride <= self.segment_max.get() && left > stride && not_offloadable(&error) => {
                    // The path or device cannot segment at this stride, and so at no larger one; with EIO, at none.
                    self.segment_max.set(if error.raw_os_error() == Some(libc::EIO) { 0 } else { stride - 1 });
                    cursor = before;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => cursor = before,
                Err(error) => return (sent, Err(error)),
            }
        }
        (sent, Ok(()))
    }

    /// Sends one message that the kernel segments.
    fn send_segmented(
        &self,
        to: &SocketAddr,
        stride: usize,
        left: usize,
        cursor: &mut PieceCursor<'_>,
    ) -> io::Result<usize> {
        let datagrams = SEGMENTS_MAX.min(MESSAGE_MAX / stride).max(1);
        let mut vectors = Vec::with_capacity(2 * datagrams + 2);
        let mut taken = 0;
        for _ in 0..datagrams {
            let mark = (vectors.len(), *cursor);
            let n = cursor.take(stride.min(left - taken), &mut vectors);
            if vectors.len() > PIECES_MAX && taken > 0 {
                vectors.truncate(mark.0);
                *cursor = mark.1;
                break;
            }
            taken += n;
            if taken == left {
                break;
            }
        }
        let (mut address, length) = encode(to);
        let mut control = ControlBuffer::new();
        // SAFETY: zero is a valid msghdr; every pointer put in outlives the call.
        let mut message: libc::msghdr = unsafe { zeroed() };
        message.msg_name = (&raw mut address).cast();
        message.msg_namelen = length;
        message.msg_iov = vectors.as_mut_ptr();
        message.msg_iovlen = vectors.len() as _;
        if taken > stride {
            control.put_u16(&mut message, libc::SOL_UDP, libc::UDP_SEGMENT, stride as u16);
        }
        // SAFETY: the message's pointers are valid for the call.
        let n = unsafe { libc::sendmsg(self.socket.as_raw_fd(), &message, libc::MSG_NOSIGNAL) };
        if n < 0 { Err(io::Error::last_os_error()) } else { Ok(taken) }
    }

    /// Sends up to [`BATCH`] datagrams with one call.
    fn send_plain(
        &self,
        to: &SocketAddr,
        stride: usize,
        left: usize,
        cursor: &mut PieceCursor<'_>,
    ) -> io::Result<usize> {
        let (mut address, length) = encode(to);
        let mut vectors: Vec<libc::iovec> = Vec::with_capacity(3 * BATCH);
        let mut parts = Vec::with_capacity(BATCH);
        let mut taken = 0;
        while taken < left && parts.len() < BATCH {
            let first = vectors.len();
            let n = cursor.take(stride.min(left - taken), &mut vectors);
            parts.push((first, vectors.len() - first, n));
            taken += n;
        }
        let mut headers: Vec<libc::mmsghdr> = parts
            .iter()
            .map(|(first, count, _)| {
                // SAFETY: zero is a valid mmsghdr; `vectors` and `address` outlive the call and are not moved.
                let mut header: libc::mmsghdr = unsafe { zeroed() };
                header.msg_hdr.msg_name = (&raw mut address).cast();
                header.msg_hdr.msg_namelen = length;
                header.msg_hdr.msg_iov = vectors.as_mut_ptr().wrapping_add(*first);
                header.msg_hdr.msg_iovlen = *count as _;
                header
            })
            .collect();
        let flags = libc::MSG_NOSIGNAL as _;
        // SAFETY: the headers' pointers are valid for the call.
        let n = unsafe { libc::sendmmsg(self.socket.as_raw_fd(), headers.as_mut_ptr(), headers.len() as u32, flags) };
        if n < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(parts.iter().take(n as usize).map(|(_, _, n)| n).sum())
    }

    /// Receives one message into the spare capacity of `buffer`; with less than [`MESSAGE_MAX`] bytes it may be
    /// truncated.
    ///
    /// # Errors
    /// `WouldBlock` if nothing is available.
    pub fn receive(&self, buffer: &mut BytesMut) -> io::Result<Received> {
        let spare = buffer.spare_capacity_mut();
        let mut vector =
            libc::iovec { iov_base: spare.as_mut_ptr().cast(), iov_len: spare.len().min(MESSAGE_MAX + 28) };
        // SAFETY: zero is a valid sockaddr_storage and msghdr.
        let (mut address, mut message): (libc::sockaddr_storage, libc::msghdr) = unsafe { (zeroed(), zeroed()) };
        let mut control = ControlBuffer::new();
        message.msg_name = (&raw mut address).cast();
        message.msg_namelen = size_of::<libc::sockaddr_storage>() as u32;
        message.msg_iov = &raw mut vector;
        message.msg_iovlen = 1;
        control.offer(&mut message);
        // SAFETY: the message's pointers are valid for the call.
        let n = unsafe { libc::recvmsg(self.socket.as_raw_fd(), &raw mut message, 0) };
        if n < 0 {
            return Err(io::Error::last_os_error());
        }
        let len = n as usize;
        let length = buffer.len() + len;
        // SAFETY: the kernel wrote `len` bytes at the start of the spare capacity.
        unsafe { buffer.set_len(length) };
        let stride = segment_size(&message).unwrap_or(len);
        let from = decode(&address).ok_or(io::ErrorKind::InvalidData)?;
        Ok(Received { from, len, stride })
    }

    /// Receives up to 32 messages with one call, for traffic that the kernel does not coalesce.
    ///
    /// # Errors
    /// `WouldBlock` if nothing is available.
    pub fn receive_batch(&self, batch: &mut DatagramSlots, mut each: impl FnMut(Received, &[u8])) -> io::Result<usize> {
        let mut controls: [ControlBuffer; BATCH] = std::array::from_fn(|_| ControlBuffer::new());
        // SAFETY: zero is valid for these plain structures.
        let (mut addresses, mut headers): ([libc::sockaddr_storage; BATCH], [libc::mmsghdr; BATCH]) =
            unsafe { (zeroed(), zeroed()) };
        let mut vectors: [libc::iovec; BATCH] = std::array::from_fn(|i| libc::iovec {
            iov_base: batch.memory.as_mut_ptr().wrapping_add(i * SLOT).cast(),
            iov_len: SLOT,
        });
        for i in 0..BATCH {
            let message = &mut headers[i].msg_hdr;
            message.msg_name = (&raw mut addresses[i]).cast();
            message.msg_namelen = size_of::<libc::sockaddr_storage>() as u32;
            message.msg_iov = &raw mut vectors[i];
            message.msg_iovlen = 1;
            controls[i].offer(message);
        }
        let (none, flags) = (std::ptr::null_mut(), libc::MSG_DONTWAIT as _);
        // SAFETY: every pointer in the headers is valid for the call.
        let n = unsafe { libc::recvmmsg(self.socket.as_raw_fd(), headers.as_mut_ptr(), BATCH as u32, flags, none) };
        if n < 0 {
            return Err(io::Error::last_os_error());
        }
        for i in 0..n as usize {
            let len = (headers[i].msg_len as usize).min(SLOT);
            let stride = segment_size(&headers[i].msg_hdr).unwrap_or(len);
            if let Some(from) = decode(&addresses[i]) {
                each(Received { from, len, stride }, &batch.memory[i * SLOT..i * SLOT + len]);
            }
        }
        Ok(n as usize)
    }
}
impl AsFd for DatagramSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

const SLOT: usize = 65_536;

/// Buffer for [`DatagramSocket::receive_batch`], reused by each call.
pub struct DatagramSlots {
    memory: Vec<u8>,
}
impl Default for DatagramSlots {
    fn default() -> Self {
        // Zeroed lazily by the kernel: pages never touched cost nothing.
        DatagramSlots { memory: vec![0; SLOT * BATCH] }
    }
}

/// Position within the pieces of a batch.
#[derive(Clone, Copy)]
struct PieceCursor<'a> {
    pieces: &'a [IoSlice<'a>],
    index: usize,
    inside: usize,
}
impl PieceCursor<'_> {
    /// Appends vectors for the next `want` bytes; returns the number of bytes found.
    fn take(&mut self, want: usize, vectors: &mut Vec<libc::iovec>) -> usize {
        let mut left = want;
        while left > 0 {
            let Some(piece) = self.pieces.get(self.index) else { break };
            let here = (piece.len() - self.inside).min(left);
            if here > 0 {
                let start = piece[self.inside..].as_ptr().cast_mut();
                vectors.push(libc::iovec { iov_base: start.cast(), iov_len: here });
            }
            self.advance(here, piece.len());
            left -= here;
        }
        want - left
    }
    fn advance(&mut self, n: usize, len: usize) {
        self.inside += n;
        if self.inside == len {
            self.index += 1;
            self.inside = 0;
        }
    }
    fn skip(&mut self, mut n: usize) {
        while n > 0 {
            let Some(piece) = self.pieces.get(self.index) else { return };
            let here = (piece.len() - self.inside).min(n);
            self.advance(here, piece.len());
            n -= here;
        }
    }
    /// Whether the position is not `n` bytes after `start`: the kernel accepted only part of the datagrams.
    fn position_differs(&self, start: &Self, n: usize) -> bool {
        let mut expected = *start;
        expected.skip(n);
        (expected.index, expected.inside) != (self.index, self.inside)
    }
}

fn not_offloadable(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EINVAL | libc::EIO | libc::EMSGSIZE | libc::EOPNOTSUPP | libc::ENOPROTOOPT)
    )
}

fn set_option(socket: &UdpSocket, level: i32, option: i32, value: i32) -> io::Result<()> {
    // SAFETY: the pointer and length describe `value`.
    let result = unsafe {
        libc::setsockopt(socket.as_raw_fd(), level, option, (&raw const value).cast(), size_of::<i32>() as u32)
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Buffer for one small control message, aligned as the kernel requires.
#[repr(C, align(8))]
struct ControlBuffer([MaybeUninit<u8>; 64]);
impl ControlBuffer {
    fn new() -> Self {
        ControlBuffer([MaybeUninit::uninit(); 64])
    }
    /// Makes this the control buffer of a message.
    fn offer(&mut self, message: &mut libc::msghdr) {
        message.msg_control = self.0.as_mut_ptr().cast();
        message.msg_controllen = self.0.len() as _;
    }
    fn put_u16(&mut self, message: &mut libc::msghdr, level: i32, kind: i32, value: u16) {
        self.0 = [MaybeUninit::zeroed(); 64];
        self.offer(message);
        // SAFETY: 64 zeroed bytes hold one header and two bytes of data.
        unsafe {
            message.msg_controllen = libc::CMSG_SPACE(size_of::<u16>() as u32) as _;
            let header = libc::CMSG_FIRSTHDR(message);
            (*header).cmsg_level = level;
            (*header).cmsg_type = kind;
            (*header).cmsg_len = libc::CMSG_LEN(size_of::<u16>() as u32) as _;
            libc::CMSG_DATA(header).cast::<u16>().write_unaligned(value);
        }
    }
}

/// Datagram length that the kernel reports for a coalesced message.
fn segment_size(message: &libc::msghdr) -> Option<usize> {
    // SAFETY: the kernel filled the control buffer and its length.
    unsafe {
        let mut header = libc::CMSG_FIRSTHDR(message);
        while !header.is_null() {
            if (*header).cmsg_level == libc::SOL_UDP && (*header).cmsg_type == libc::UDP_GRO {
                let size = libc::CMSG_DATA(header).cast::<i32>().read_unaligned();
                return usize::try_from(size).ok().filter(|size| *size > 0);
            }
            header = libc::CMSG_NXTHDR(message, header);
        }
    }
    None
}

fn encode(address: &SocketAddr) -> (libc::sockaddr_storage, libc::socklen_t) {
    // SAFETY: zero is a valid sockaddr_storage, large and aligned enough for each family.
    let mut storage: libc::sockaddr_storage = unsafe { zeroed() };
    let length = match address {
        SocketAddr::V4(v4) => {
            let out = (&raw mut storage).cast::<libc::sockaddr_in>();
            // SAFETY: see above.
            unsafe {
                (*out).sin_family = libc::AF_INET as _;
                (*out).sin_port = v4.port().to_be();
                (*out).sin_addr.s_addr = u32::from_ne_bytes(v4.ip().octets());
            }
            size_of::<libc::sockaddr_in>()
        }
        SocketAddr::V6(v6) => {
            let out = (&raw mut storage).cast::<libc::sockaddr_in6>();
            // SAFETY: see above.
            unsafe {
                (*out).sin6_family = libc::AF_INET6 as _;
                (*out).sin6_port = v6.port().to_be();
                (*out).sin6_addr.s6_addr = v6.ip().octets();
                (*out).sin6_flowinfo = v6.flowinfo();
                (*out).sin6_scope_id = v6.scope_id();
            }
            size_of::<libc::sockaddr_in6>()
        }
    };
    (storage, length as libc::socklen_t)
}

fn decode(storage: &libc::sockaddr_storage) -> Option<SocketAddr> {
    match i32::from(storage.ss_family) {
        libc::AF_INET => {
            // SAFETY: for this family the kernel writes a sockaddr_in.
            let v4 = unsafe { &*(&raw const *storage).cast::<libc::sockaddr_in>() };
            let ip = Ipv4Addr::from(v4.sin_addr.s_addr.to_ne_bytes());
            Some(SocketAddrV4::new(ip, u16::from_be(v4.sin_port)).into())
        }
        libc::AF_INET6 => {
            // SAFETY: for this family the kernel writes a sockaddr_in6.
            let v6 = unsafe { &*(&raw const *storage).cast::<libc::sockaddr_in6>() };
            let ip = Ipv6Addr::from(v6.sin6_addr.s6_addr);
            Some(SocketAddrV6::new(ip, u16::from_be(v6.sin6_port), v6.sin6_flowinfo, v6.sin6_scope_id).into())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(offload: bool, v6: bool) -> (DatagramSocket, DatagramSocket) {
        let at: SocketAddr = if v6 { "[::1]:0".parse().unwrap() } else { "127.0.0.1:0".parse().unwrap() };
        let make = || DatagramSocket::bind(&at, offload, 4 << 20).unwrap();
        (make(), make())
    }
    /// Receives everything available, split into datagrams.
    fn drain(socket: &DatagramSocket) -> Vec<Vec<u8>> {
        let mut out = Vec::new();
        let mut buffer = BytesMut::new();
        loop {
            buffer.clear();
            buffer.reserve(SLOT);
            match socket.receive(&mut buffer) {
                Ok(got) => out.extend(buffer[..got.len].chunks(got.stride.max(1)).map(<[u8]>::to_vec)),
                Err(why) if why.kind() == io::ErrorKind::WouldBlock => return out,
                Err(why) => panic!("{why}"),
            }
        }
    }
    fn train(bytes: usize) -> Vec<u8> {
        (0..bytes).map(|i| (i * 7 + i / 251) as u8).collect()
    }

    #[test]
    fn batch_arrives_with_and_without_offload() {
        for (offload, v6) in [(true, false), (false, false), (true, true)] {
            let (a, b) = pair(offload, v6);
            let bytes = train(1000 * 130 + 17);
            // The boundaries of the pieces are not those of the datagrams.
            let pieces: Vec<_> = bytes.chunks(333).map(IoSlice::new).collect();
            let (sent, result) = a.send_batch(&b.local_addr().unwrap(), 1000, &pieces);
            result.unwrap();
            assert_eq!(sent, bytes.len());
            let want: Vec<_> = bytes.chunks(1000).map(<[u8]>::to_vec).collect();
            assert_eq!(drain(&b), want, "offload {offload}");
        }
    }

    #[test]
    fn batches_give_the_same_datagrams() {
        let (a, b) = pair(false, false);
        let bytes = train(700 * 40);
        a.send_batch(&b.local_addr().unwrap(), 700, &[IoSlice::new(&bytes)]).1.unwrap();
        let mut got = Vec::new();
        let mut batch = DatagramSlots::default();
        while let Ok(n) = b.receive_batch(&mut batch, |message, data| {
            assert_eq!(message.from, a.local_addr().unwrap());
            got.push(data.to_vec());
        }) {
            assert!(n > 0);
        }
        assert_eq!(got, bytes.chunks(700).map(<[u8]>::to_vec).collect::<Vec<_>>());
    }

    #[test]
    fn oversized_segments_fall_back() {
        let (a, b) = pair(true, false);
        // The kernel cannot take two datagrams of 40,000 B as one message, which exceeds loopback's MTU of 65,536 B.
        let bytes = train(80_000);
        let (sent, result) = a.send_batch(&b.local_addr().unwrap(), 40_000, &[IoSlice::new(&bytes)]);
        result.unwrap();
        assert_eq!((sent, drain(&b).len()), (80_000, 2));
    }

    #[test]
    fn empty_and_unreachable_datagrams_are_harmless() {
        let (a, b) = pair(true, false);
        let target = b.local_addr().unwrap();
        UdpSocket::bind("127.0.0.1:0").unwrap().send_to(&[], target).unwrap();
        assert_eq!(drain(&b), Vec::<Vec<u8>>::new());
        drop(b);
        for _ in 0..3 {
            let _ = a.send_batch(&target, 10, &[IoSlice::new(b"nobody")]);
        }
        let (_, c) = pair(true, false);
        a.send_batch(&c.local_addr().unwrap(), 10, &[IoSlice::new(b"somebody")]).1.unwrap();
        assert_eq!(drain(&c), [b"somebody".to_vec()]);
    }
}
