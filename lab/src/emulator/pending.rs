//! Frames in flight, in one region of memory reserved at the start, released in order of arrival time.

use farlink_os::memory::Region;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::io;

// Size of the chunks that are filled with frames one after another. An emptied chunk is reused before an untouched one,
// so that memory use follows the bytes in flight.
const CHUNK: usize = 1 << 20;
// A region has at least this many chunks, unless they would be smaller than the least: a quiet link with 16 MiB then
// occupies only 256 KiB.
const CHUNKS: usize = 64;
// Smallest size of a chunk; it holds any frame.
const CHUNK_LEAST: usize = 256 << 10;

/// Frame in flight, with its place in the memory region.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct DueFrame {
    /// Due time at the far host, in monotonic nanoseconds.
    pub at: u64,
    /// Number of the frame in order of entry, which decides between equal times.
    sequence: u64,
    offset: u32,
    length: u32,
}

impl DueFrame {
    /// Length of the frame, virtio-net header included.
    pub fn length(self) -> usize {
        self.length as usize
    }

    fn range(self) -> std::ops::Range<usize> {
        self.offset as usize..(self.offset + self.length) as usize
    }
}

/// Queue of the frames in flight.
#[derive(Debug)]
pub struct Pending {
    region: Region,
    /// Bytes per chunk.
    chunk: usize,
    /// Number of frames in each chunk used so far.
    frames: Vec<u32>,
    /// Number of chunks that fit the region.
    most: usize,
    /// Emptied chunks, the most recent last.
    free: Vec<usize>,
    /// Chunk being filled, and the bytes used in it.
    current: usize,
    filled: usize,
    entered: u64,
    /// Frames due in order of entry: nearly all.
    in_order: VecDeque<DueFrame>,
    /// Frames that overtake earlier ones.
    early: BinaryHeap<Reverse<DueFrame>>,
    bytes: usize,
}

impl Pending {
    /// Reserves address space of `capacity` bytes for frames (at most 4 GiB); memory is allocated as frames fill it.
    pub fn new(capacity: usize) -> io::Result<Self> {
        let capacity = capacity.clamp(1, u32::MAX as usize);
        let region = Region::reserve(capacity)?;
        let chunk = (capacity / CHUNKS).clamp(CHUNK_LEAST, CHUNK).min(capacity);
        Ok(Pending {
            region,
            chunk,
            frames: vec![0],
            most: capacity / chunk,
            free: Vec::new(),
            current: 0,
            filled: 0,
            entered: 0,
            in_order: VecDeque::new(),
            early: BinaryHeap::new(),
            bytes: 0,
        })
    }

    /// Adds a frame of `length` bytes, filled by `write`, that is due at `at` (monotonic, ns). Returns false if there
    /// is no room.
    pub fn push(&mut self, at: u64, length: usize, write: impl FnOnce(&mut [u8])) -> bool {
        let Some(offset) = self.allocate(length) else { return false };
        let due = DueFrame { at, sequence: self.entered, offset: offset as u32, length: length as u32 };
        self.entered += 1;
        write(&mut self.region[due.range()]);
        // Without jitter packets are due in order of entry, and a queue is cheaper than a heap.
        if self.in_order.back().is_none_or(|last| last.at <= at) {
            self.in_order.push_back(due);
        } else {
            self.early.push(Reverse(due));
        }
        self.bytes += length;
        true
    }

    /// Allocates room in the current chunk, or in the next if it does not fit; returns its offset in the region.
    fn allocate(&mut self, length: usize) -> Option<usize> {
        if length > self.chunk {
            return None;
        }
        if self.filled + length > self.chunk {
            self.current = match self.free.pop() {
                Some(chunk) => chunk,
                None if self.frames.len() < self.most => {
                    self.frames.push(0);
                    let chunk = self.frames.len() - 1;
                    // Populates all pages at once: a page fault for each would cost more than its frames. Older kernels
                    // cannot.
                    let _ = self.region.populate(chunk * self.chunk..(chunk + 1) * self.chunk);
                    chunk
                }
                None => return None,
            };
            self.filled = 0;
        }
        let offset = self.current * self.chunk + self.filled;
        self.filled += length;
        self.frames[self.current] += 1;
        Some(offset)
    }

    pub fn next(&self) -> Option<DueFrame> {
        match (self.in_order.front(), self.early.peek()) {
            (Some(a), Some(Reverse(b))) => Some(*a.min(b)),
            (Some(a), None) => Some(*a),
            (None, b) => b.map(|r| r.0),
        }
    }

    /// Moves frames that are due at `now` to the end of `out`, in order, until it holds `most` frames. Their bytes stay
    /// valid until [`Pending::release`].
    pub fn take_due(&mut self, now: u64, most: usize, out: &mut Vec<DueFrame>) {
        while out.len() < most {
            let Some(next) = self.next().filter(|d| d.at <= now) else { return };
            if self.in_order.front() == Some(&next) {
                self.in_order.pop_front();
            } else {
                self.early.pop();
            }
            out.push(next);
        }
    }

    pub fn bytes_of(&self, due: DueFrame) -> &[u8] {
        &self.region[due.range()]
    }

    /// Releases the memory of a frame.
    pub fn release(&mut self, due: DueFrame) {
        self.bytes -= due.length as usize;
        let chunk = due.offset as usize / self.chunk;
        self.frames[chunk] -= 1;
        match self.frames[chunk] {
            // The chunk that is being filled is used again from its start.
            0 if chunk == self.current => self.filled = 0,
            0 => self.free.push(chunk),
            _ => {}
        }
    }

    /// Number of bytes in flight.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(pending: &mut Pending, now: u64) -> Vec<(u64, Vec<u8>)> {
        let mut due = Vec::new();
        pending.take_due(now, usize::MAX, &mut due);
        let taken = due.iter().map(|d| (d.at, pending.bytes_of(*d).to_vec())).collect();
        due.into_iter().for_each(|d| pending.release(d));
        taken
    }

    #[test]
    fn frames_leave_by_time_then_entry() {
        let mut pending = Pending::new(1000).unwrap();
        for (at, byte) in [(30, 1), (10, 2), (30, 3), (20, 4), (10, 5)] {
            assert!(pending.push(at, 10, |b| b.fill(byte)));
        }
        assert_eq!(pending.next().unwrap().at, 10);
        assert_eq!(take(&mut pending, 5), []);
        let order: Vec<u8> = take(&mut pending, 30).iter().map(|t| t.1[0]).collect();
        assert_eq!(order, [2, 5, 4, 1, 3]);
        assert_eq!(pending.bytes(), 0);
    }

    #[test]
    fn full_queue_refuses_and_keeps_frames() {
        let mut pending = Pending::new(10_000).unwrap();
        let mut expected: VecDeque<(u64, u8)> = VecDeque::new();
        let (mut refused, mut x) = (0, 12345u64);
        for step in 0..20_000u64 {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let length = 1 + (x >> 33) as usize % 1500;
            let fill = step as u8;
            if pending.push(step, length, |b| b.fill(fill)) {
                expected.push_back((step, fill));
            } else {
                refused += 1;
            }
            if x >> 60 > 6 {
                let until = step.saturating_sub(3);
                for (at, bytes) in take(&mut pending, until) {
                    let (want_at, want) = expected.pop_front().unwrap();
                    assert_eq!(at, want_at);
                    assert!(bytes.iter().all(|b| *b == want));
                }
            }
        }
        assert!(refused > 0 && expected.len() < 100, "{refused} {}", expected.len());
    }

    #[test]
    fn memory_use_follows_bytes_in_flight() {
        // 1 Gbit/s times 2 s: 250 MB in packets of 1500 bytes, plus the bookkeeping of each.
        const DELAY_NS: u64 = 2_000_000_000;
        let mut pending = Pending::new(600 << 20).unwrap();
        let (mut due, mut most) = (Vec::new(), 0);
        for packet in 0..400_000u64 {
            let now = packet * 12_000;
            assert!(pending.push(now + DELAY_NS, 1526, |bytes| bytes[0] = packet as u8));
            pending.take_due(now, usize::MAX, &mut due);
            due.drain(..).for_each(|due| pending.release(due));
            most = most.max(pending.bytes());
        }
        let index = pending.in_order.capacity() * std::mem::size_of::<DueFrame>();
        let used = pending.frames.len() * CHUNK + index;
        assert!(most > 250_000_000 && used * 10 <= most * 12, "{used} bytes for {most}");
    }

    #[test]
    fn oversized_frame_is_refused() {
        let mut pending = Pending::new(100).unwrap();
        assert!(!pending.push(1, 101, |_| {}));
        assert!(pending.push(1, 100, |_| {}));
        assert!(!pending.push(1, 1, |_| {}));
        take(&mut pending, 1);
        assert!(pending.push(1, 100, |_| {}));
    }
}
