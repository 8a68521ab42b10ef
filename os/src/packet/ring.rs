//! Ring of memory blocks that the kernel fills with received frames (`TPACKET_V3`): frames are taken without system
//! calls, many at a time.

use super::{STAMP_AGE_MAX_NS, VNET_HEADER, set_option};
use crate::context;
use std::io;
use std::mem::offset_of;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

/// Bytes of a block, which holds at least 15 of the longest frames. Smaller blocks were measured to cost half more.
const BLOCK: usize = 1 << 20;
/// Time after which the kernel hands over a block that is not full, ms: the least it accepts.
const RETIRE_MS: u32 = 1;

/// Receive ring of a packet socket.
#[derive(Debug)]
pub struct PacketRing {
    start: NonNull<u8>,
    blocks: usize,
    next: usize,
}

// SAFETY: the mapping belongs to this value alone; the kernel writes only blocks that it owns by their status word.
unsafe impl Send for PacketRing {}

impl PacketRing {
    /// Sets up a ring of about `bytes` on a socket that is not bound yet.
    pub(super) fn new(fd: &OwnedFd, bytes: usize) -> io::Result<PacketRing> {
        let version = libc::tpacket_versions::TPACKET_V3 as libc::c_int;
        set_option(fd, libc::SOL_PACKET, libc::PACKET_VERSION, &version).map_err(|e| context(e, "TPACKET_V3"))?;
        let blocks = bytes.div_ceil(BLOCK).max(4);
        // SAFETY: tpacket_req3 is plain old data; all zeros is a value of it.
        let mut request: libc::tpacket_req3 = unsafe { std::mem::zeroed() };
        (request.tp_block_size, request.tp_block_nr) = (BLOCK as u32, blocks as u32);
        (request.tp_frame_size, request.tp_frame_nr) = (BLOCK as u32, blocks as u32);
        request.tp_retire_blk_tov = RETIRE_MS;
        set_option(fd, libc::SOL_PACKET, libc::PACKET_RX_RING, &request).map_err(|e| context(e, "PACKET_RX_RING"))?;
        let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_POPULATE);
        // SAFETY: a shared mapping of the ring at an address of the kernel's choice touches nothing of ours.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), blocks * BLOCK, protection, flags, fd.as_raw_fd(), 0) };
        if start == libc::MAP_FAILED {
            return Err(context(io::Error::last_os_error(), "mapping the receive ring"));
        }
        let start: NonNull<u8> = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        // Not excluded from forks: the emulator, which reads the ring, runs in a forked process.
        Ok(PacketRing { start, blocks, next: 0 })
    }

    /// Takes the frames of the next block, if the kernel has finished one: calls `each` with virtio-net header and
    /// frame, and with the monotonic time, ns, at which the other end sent it. Returns the number of frames, and how
    /// many of them were longer than the kernel kept; `each` does not get these. `None` if no block is finished.
    pub fn take(&mut self, mut each: impl FnMut(&[u8], u64)) -> Option<(usize, usize)> {
        // SAFETY: `next` is below `blocks`, so the block is inside the mapping.
        let block = unsafe { self.start.add(self.next * BLOCK) };
        let head = block.cast::<libc::tpacket_block_desc>();
        // SAFETY: the status word is an aligned u32 inside the block; kernel and program access it atomically.
        let status = unsafe {
            let field = &raw mut (*head.as_ptr()).hdr.bh1.block_status;
            AtomicU32::from_ptr(field)
        };
        // Acquire makes all writes of the kernel to the block visible.
        if status.load(Ordering::Acquire) & libc::TP_STATUS_USER == 0 {
            return None;
        }
        // SAFETY: the block is ours until its status is given back; its header was written by the kernel.
        let (count, first) = unsafe {
            let h1 = &(*head.as_ptr()).hdr.bh1;
            (h1.num_pkts as usize, h1.offset_to_first_pkt as usize)
        };
        let (now, wall) = (crate::monotonic_ns(), crate::realtime_ns());
        let (mut at, mut cut) = (first, 0);
        for _ in 0..count {
            let Some(frame) = RingFrame::read(block, at) else { break };
            // Bounded, as a step of the wall clock must not date frames into the past.
            let age = wall.saturating_sub(frame.stamp_ns).min(STAMP_AGE_MAX_NS).min(now);
            if frame.whole {
                // SAFETY: the range was checked to be inside the block, which is ours until its status is given back.
                let bytes = unsafe { std::slice::from_raw_parts(block.add(frame.start).as_ptr(), frame.length) };
                each(bytes, now - age);
            } else {
                cut += 1;
            }
            at += frame.next;
        }
        self.next = (self.next + 1) % self.blocks;
        // Released: all reads of the block are over when the kernel sees it.
        status.store(libc::TP_STATUS_KERNEL, Ordering::Release);
        Some((count, cut))
    }
}

impl Drop for PacketRing {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and no reference into it outlives self.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.blocks * BLOCK) };
    }
}

/// Position of one frame in a block.
struct RingFrame {
    start: usize,
    length: usize,
    next: usize,
    stamp_ns: u64,
    whole: bool,
}

impl RingFrame {
    /// Reads the header at `at`; `None` if it points outside the block.
    fn read(block: NonNull<u8>, at: usize) -> Option<RingFrame> {
        if at.checked_add(size_of::<libc::tpacket3_hdr>())? > BLOCK
            || !at.is_multiple_of(align_of::<libc::tpacket3_hdr>())
        {
            return None;
        }
        // SAFETY: the header is aligned and inside the block, which the kernel has finished writing.
        let header = unsafe { block.add(at).cast::<libc::tpacket3_hdr>().as_ref() };
        let start = at.checked_add(usize::from(header.tp_mac))?.checked_sub(VNET_HEADER)?;
        let length = header.tp_snaplen as usize + VNET_HEADER;
        let inside = start.checked_add(length)? <= BLOCK;
        inside.then(|| RingFrame {
            start,
            length,
            next: header.tp_next_offset as usize,
            stamp_ns: u64::from(header.tp_sec).saturating_mul(1_000_000_000) + u64::from(header.tp_nsec),
            whole: header.tp_snaplen == header.tp_len,
        })
    }
}

// The status word is read at a fixed place of the block's header (linux/if_packet.h).
const _: () = assert!(offset_of!(libc::tpacket_block_desc, hdr) == 8);

#[cfg(test)]
mod tests {
    use super::super::PacketSocket;
    use super::*;
    use crate::namespace::NetworkNamespace;
    use crate::netlink::Netlink;
    use std::io::IoSlice;

    #[test]
    fn ring_gives_each_frame_once_and_stamped() {
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
            let a = PacketSocket::open(left, 1 << 20)?;
            let (b, mut ring) = PacketSocket::open_with_ring(right, 1 << 20, 32 * BLOCK)?;
            let mut head = vec![0u8; VNET_HEADER];
            head.extend_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x88, 0xb5]);
            let (mut seen, mut late) = (Vec::new(), 0);
            // More frames than the ring holds, so that blocks are reused.
            for number in 0..6000u32 {
                let body = [number.to_be_bytes(); 250].concat();
                a.send(&[&[IoSlice::new(&head), IoSlice::new(&body)]])?;
                let sent = crate::monotonic_ns();
                if number % 500 == 499 {
                    std::thread::sleep(std::time::Duration::from_millis(20));
                    while let Some((_, cut)) = ring.take(|frame, at| {
                        // The kernel's own neighbour discovery also crosses the pair.
                        if frame[VNET_HEADER..][12..14] == [0x88, 0xb5] {
                            seen.push(u32::from_be_bytes(frame[VNET_HEADER + 14..][..4].try_into().unwrap()));
                            assert_eq!(frame.len(), head.len() + 1000);
                            late += usize::from(at > sent + 15_000_000);
                        }
                    }) {
                        assert_eq!(cut, 0);
                    }
                }
            }
            assert!(seen.is_sorted_by(|a, b| a < b), "in order, each once");
            // A reader that stalls for some milliseconds loses frames, and the kernel counts them.
            assert_eq!(seen.len() as u64 + b.take_drops()?, 6000);
            assert!(late < 600, "frames are stamped when sent, not when read: {late}");
            assert!(ring.take(|_, _| {}).is_none());
            Ok(())
        })
        .unwrap();
    }
}
