//! Read buffers of sockets; their memory is reused once every slice of it is dropped.

use bytes::{Bytes, BytesMut};
use std::collections::VecDeque;

/// Bytes of one piece of memory: four reads of full length.
pub const PIECE: usize = 1 << 20;

/// Pool of read buffers, which hands data on as [`Bytes`] without a copy.
#[derive(Debug)]
pub struct Buffers {
    current: BytesMut,
    used: VecDeque<BytesMut>,
    /// Most pieces kept for reuse.
    kept: usize,
}

impl Buffers {
    /// Creates a pool that keeps this many pieces.
    pub fn keeping(kept: usize) -> Buffers {
        Buffers { current: BytesMut::new(), used: VecDeque::new(), kept }
    }
    /// Returns the current buffer, which is empty after [`Buffers::take`], with a capacity of at least `room` bytes (at
    /// most 1 MiB).
    pub fn spare(&mut self, room: usize) -> &mut BytesMut {
        if self.current.capacity() < room {
            let full = std::mem::take(&mut self.current);
            if full.capacity() > 0 || !self.used.is_empty() {
                self.used.push_back(full);
            }
            self.current = self.reclaim().unwrap_or_else(|| BytesMut::with_capacity(PIECE));
            while self.used.len() > self.kept {
                self.used.pop_front();
            }
        }
        &mut self.current
    }
    /// Pieces known to the pool: the current one, and those kept or still referenced.
    pub fn pieces(&self) -> usize {
        self.used.len() + 1
    }
    /// Frees unreferenced pieces; the next burst may be smaller.
    pub fn give_back(&mut self) {
        self.used.retain_mut(|piece| !piece.try_reclaim(PIECE));
    }
    /// Removes the data that was read into the buffer.
    pub fn take(&mut self) -> Bytes {
        self.current.split().freeze()
    }
    /// Finds a piece without live slices.
    fn reclaim(&mut self) -> Option<BytesMut> {
        // A few tries only: most pieces of a burst are still referenced, and the oldest are freed first.
        for _ in 0..self.used.len().min(4) {
            let mut piece = self.used.pop_front()?;
            if piece.try_reclaim(PIECE) {
                return Some(piece);
            }
            self.used.push_back(piece);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(buffers: &mut Buffers, byte: u8) -> Bytes {
        let spare = buffers.spare(PIECE / 4);
        spare.extend_from_slice(&vec![byte; PIECE / 4]);
        buffers.take()
    }

    #[test]
    fn buffer_is_reused_after_slices_drop() {
        let mut buffers = Buffers::keeping(64);
        let held: Vec<_> = (0..40).map(|i| fill(&mut buffers, i)).collect();
        for (i, bytes) in held.iter().enumerate() {
            assert!(bytes.iter().all(|b| *b == i as u8));
        }
        drop(held);
        let mut addresses = std::collections::BTreeSet::new();
        for i in 0..1000 {
            addresses.insert(fill(&mut buffers, i as u8).as_ptr() as usize);
        }
        assert!(addresses.len() <= 60, "{} places", addresses.len());
        drop(fill(&mut buffers, 1));
        buffers.give_back();
        assert_eq!(buffers.pieces(), 1, "those beyond the current one are kept for nothing");
        let third = |buffers: &mut Buffers| {
            buffers.spare(PIECE / 3).extend_from_slice(&[7; PIECE / 3]);
            buffers.take()
        };
        let parts: Vec<_> = (0..4).map(|_| third(&mut buffers)).collect();
        buffers.give_back();
        assert_eq!(buffers.pieces(), 2, "slices keep their piece");
        drop(parts);
        buffers.give_back();
        assert_eq!(buffers.pieces(), 1);
        let mut few = Buffers::keeping(4);
        drop((0..400).map(|i| fill(&mut few, i as u8)).collect::<Vec<_>>());
        assert!(few.used.len() <= 4, "{} pieces", few.used.len());
    }
}
