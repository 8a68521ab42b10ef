//! Queue of bytes that is consumed from the front; each chunk is touched once, however many there are. Short chunks are
//! copied together, so that many small messages make one chunk.

use alloc::collections::VecDeque;
use farlink_base::{Bytes, BytesMut, Chunk, Payload};

/// Length below which ropes are copied, bytes: sharing a shorter one costs more than copying.
pub const SHORT: u64 = 4096;
/// Size of a chunk that short ropes are copied into, bytes.
const PIECE: usize = 64 << 10;

/// Bytes in order, pushed at the back and taken from the front.
#[derive(Debug, Default)]
pub struct ChunkQueue {
    chunks: VecDeque<Chunk>,
    /// Chunk being filled with copies; it follows all of `chunks`.
    copied: BytesMut,
    len: u64,
}
impl ChunkQueue {
    pub fn len(&self) -> u64 {
        self.len
    }
    /// Whether the queue holds no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
    /// Appends bytes without copying.
    pub fn push_bytes(&mut self, bytes: Bytes) {
        if !bytes.is_empty() {
            self.end_copy();
            self.len += bytes.len() as u64;
            self.chunks.push_back(Chunk::Bytes(bytes));
        }
    }
    /// Appends a rope without copying.
    pub fn push(&mut self, rope: &Payload) {
        self.end_copy();
        self.len += rope.len();
        self.chunks.extend(rope.chunks().iter().cloned());
    }
    /// Appends a copy of bytes.
    pub fn copy(&mut self, bytes: &[u8]) {
        if self.copied.capacity() - self.copied.len() < bytes.len() {
            self.end_copy();
            // Grow with the content, because most queues are short.
            let room = (2 * self.len as usize).clamp(256, PIECE).max(bytes.len());
            self.copied.reserve(room);
        }
        self.copied.extend_from_slice(bytes);
        self.len += bytes.len() as u64;
    }
    /// Appends a rope, copied if it is short and in memory.
    pub fn copy_rope(&mut self, rope: &Payload) {
        // Fills and stored extents cannot be copied.
        if rope.len() >= SHORT || rope.resident_len() < rope.len() {
            return self.push(rope);
        }
        for chunk in rope.chunks() {
            if let Chunk::Bytes(bytes) = chunk {
                self.copy(bytes);
            }
        }
    }
    fn end_copy(&mut self) {
        if !self.copied.is_empty() {
            self.chunks.push_back(Chunk::Bytes(self.copied.split().freeze()));
        }
    }
    /// Takes the first `n` bytes, or all if there are fewer.
    pub fn take(&mut self, n: u64) -> Payload {
        self.end_copy();
        if n >= self.len {
            // An empty queue keeps no memory.
            self.copied = BytesMut::new();
        }
        let mut out = Payload::new();
        while out.len() < n {
            let Some(chunk) = self.chunks.pop_front() else { break };
            let need = n - out.len();
            if chunk.len() > need {
                let mut rest = Payload::new();
                rest.push(chunk);
                out.append(rest.split_to(need));
                rest.chunks().iter().rev().for_each(|chunk| self.chunks.push_front(chunk.clone()));
            } else {
                out.push(chunk);
            }
        }
        self.len -= out.len();
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_across_and_inside_chunks() {
        let mut queue = ChunkQueue::default();
        queue.push_bytes(Bytes::from_static(b"abc"));
        queue.push_bytes(Bytes::new());
        queue.push(&Payload::from(&b"defgh"[..]));
        assert_eq!(queue.take(2).to_bytes().unwrap(), "ab");
        assert_eq!(queue.take(4).to_bytes().unwrap(), "cdef");
        assert_eq!((queue.len(), queue.take(9).to_bytes().unwrap()), (2, Bytes::from_static(b"gh")));
        assert!(queue.is_empty() && queue.take(1).is_empty());
    }

    #[test]
    fn short_chunks_are_merged() {
        let mut queue = ChunkQueue::default();
        let mut all = alloc::vec::Vec::new();
        for n in 0..100u8 {
            queue.copy(&[n; 7]);
            let mut short = Payload::from(alloc::vec![n; 500]);
            short.push_bytes(Bytes::from(alloc::vec![n; 30]));
            queue.copy_rope(&short);
            all.extend(core::iter::repeat_n(n, 537));
        }
        let long = Payload::from(alloc::vec![7; SHORT as usize]);
        queue.copy_rope(&long);
        queue.copy(&[8]);
        all.extend(core::iter::repeat_n(7, SHORT as usize).chain([8]));
        assert_eq!(queue.len(), all.len() as u64);
        let first = queue.take(1000);
        let mut rest = queue.take(u64::MAX);
        assert!(rest.chunks().len() < 20, "{} pieces", rest.chunks().len());
        assert!(rest.chunks().contains(&long.chunks()[0]), "shared");
        let mut back = first;
        back.append(core::mem::take(&mut rest));
        assert_eq!(back.to_bytes().unwrap(), all);
        assert!(queue.is_empty() && queue.copied.capacity() == 0);
        queue.copy_rope(&Payload::fill(3, 100));
        assert!(queue.take(100).is_fill(), "a fill stays a fill");
    }
}
