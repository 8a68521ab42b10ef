//! A rope taken from the front: each chunk is touched once, however many there are.

use alloc::collections::VecDeque;
use farlink_base::{Bytes, Chunk, Payload};

/// Bytes in order, pushed at the back, taken from the front.
#[derive(Debug, Default)]
pub struct ChunkQueue {
    chunks: VecDeque<Chunk>,
    len: u64,
}
impl ChunkQueue {
    /// Bytes in it.
    pub fn len(&self) -> u64 {
        self.len
    }
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
    /// Appends bytes in memory.
    pub fn push_bytes(&mut self, bytes: Bytes) {
        if !bytes.is_empty() {
            self.len += bytes.len() as u64;
            self.chunks.push_back(Chunk::Bytes(bytes));
        }
    }
    /// Appends a rope.
    pub fn push(&mut self, rope: &Payload) {
        self.len += rope.len();
        self.chunks.extend(rope.chunks().iter().cloned());
    }
    /// Takes the first `n` bytes, fewer when there are fewer.
    pub fn take(&mut self, n: u64) -> Payload {
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
}
