//! Reassembly of one part of a block from runs of contiguous data, which are joined at the end. Missing data takes no
//! memory.

use super::ranges::RangeSet;
use alloc::collections::BTreeMap;
use farlink_base::{Chunk, Payload};

/// Length below which a segment is copied to the end of the preceding data, bytes: a chunk of its own in the rope would
/// cost about as much.
const SHORT: u64 = 128;
/// Memory that a chunk of a rope takes besides its data, bytes; doubled, because a growing list may have twice the
/// capacity that it uses.
const PIECE_COST: u64 = 2 * size_of::<Chunk>() as u64;
/// Memory of a run of received data besides its chunks, bytes.
const RUN_COST: u64 = 256;

/// Received data of one part of a block.
#[derive(Default, Debug)]
pub(super) struct Assembly {
    received: RangeSet,
    /// The run that grew last, and its offset; all other runs are in `runs`.
    run: Payload,
    run_start: u64,
    runs: BTreeMap<u64, Payload>,
    held: u64,
    pieces: usize,
}

impl Assembly {
    /// Ranges of the part that were received, including data that [`Assembly::take`] has removed since.
    pub(super) fn received(&self) -> &RangeSet {
        &self.received
    }
    pub(super) fn held(&self) -> u64 {
        self.held
    }
    /// Approximate memory use: the bytes held and the cost of their fragmentation.
    pub(super) fn weight(&self) -> u64 {
        let pieces = (self.pieces + self.run.chunks().len()) as u64;
        self.held + PIECE_COST * pieces + RUN_COST * self.received.runs().len() as u64
    }
    /// Adds `data` at `offset`; where it overlaps, the first data wins. Returns the number of new bytes.
    pub(super) fn insert(&mut self, offset: u64, data: Payload) -> u64 {
        let end = offset + data.len();
        if offset >= self.received.end() {
            self.received.insert(offset, end);
            let new = data.len();
            self.put(offset, data);
            return new;
        }
        let gaps: alloc::vec::Vec<_> = self.received.gaps(offset, end).collect();
        let mut new = 0;
        for (from, to) in gaps {
            new += to - from;
            self.put(from, data.slice(from - offset, to - from));
        }
        self.received.insert(offset, end);
        new
    }
    fn put(&mut self, offset: u64, data: Payload) {
        self.held += data.len();
        if offset != self.run_start + self.run.len() {
            self.rest();
            self.run_start = offset;
        }
        if data.len() < SHORT { self.run.gather(data) } else { self.run.append(data) }
    }
    /// Moves the growing run to `runs`.
    fn rest(&mut self) {
        let run = core::mem::take(&mut self.run);
        if !run.is_empty() {
            self.pieces += run.chunks().len();
            self.runs.insert(self.run_start, run);
        }
    }
    /// Takes the bytes `start..end`; all of them must have been received and not taken.
    pub(super) fn take(&mut self, start: u64, end: u64) -> Payload {
        self.rest();
        let mut out = Payload::new();
        let mut rest = self.runs.split_off(&start);
        // The run that contains `start` may begin before it.
        if let Some((at, run)) = self.runs.pop_last() {
            let (before, inside) = (run.slice(0, start - at), run.slice(start - at, u64::MAX));
            if !before.is_empty() {
                self.runs.insert(at, before);
            }
            if !inside.is_empty() {
                rest.insert(start, inside);
            }
        }
        for (at, run) in rest {
            let keep = (end.max(at) - at).min(run.len());
            out.append(run.slice(0, keep));
            if keep < run.len() {
                self.runs.insert(at + keep, run.slice(keep, u64::MAX));
            }
        }
        self.held -= out.len();
        self.count();
        contiguous(out)
    }
    /// Copies held bytes out of the receive buffers that they share.
    pub(super) fn unshare(&mut self) {
        self.run = self.run.own();
        self.runs.values_mut().for_each(|run| *run = run.own());
        self.count();
    }
    fn count(&mut self) {
        self.pieces = self.runs.values().map(|run| run.chunks().len()).sum();
    }
    /// Drops all bytes held.
    pub(super) fn clear(&mut self) {
        self.run = Payload::new();
        self.runs.clear();
        (self.held, self.pieces) = (0, 0);
    }
}

/// Copies a rope of several chunks into a single one, which keeps no receive buffer alive.
fn contiguous(rope: Payload) -> Payload {
    if rope.chunks().len() <= 1 { rope } else { rope.own() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn overlapping_segments_in_any_order_assemble(
            pieces in proptest::collection::vec((0u64..900, 1u64..300), 0..40),
            cut in 0u64..1000,
        ) {
            let block: Vec<u8> = (0..1000u32).map(|i| (i * 7 % 251) as u8).collect();
            let mut assembly = Assembly::default();
            let mut new = 0;
            let all = pieces.iter().copied().chain((0..10).map(|i| (i * 100, 100)));
            for (at, len) in all {
                let len = len.min(1000 - at);
                new += assembly.insert(at, Payload::from(block[at as usize..(at + len) as usize].to_vec()));
                prop_assert_eq!(assembly.held(), new);
                prop_assert_eq!(assembly.received().total(), new);
            }
            prop_assert_eq!(new, 1000);
            let head = assembly.take(0, cut);
            let tail = assembly.take(cut, 1000);
            prop_assert_eq!(head.to_bytes().unwrap(), &block[..cut as usize]);
            prop_assert_eq!(tail.to_bytes().unwrap(), &block[cut as usize..]);
            prop_assert_eq!(assembly.held(), 0);
        }
    }

    #[test]
    fn segment_cost_is_near_data_length() {
        let mut assembly = Assembly::default();
        let buffer = Payload::from(alloc::vec![7; 60_000]);
        (0..20_000).for_each(|at| assert_eq!(assembly.insert(at, buffer.slice(at * 3, 1)), 1));
        assert!(assembly.weight() < 22_000, "{}", assembly.weight());
        let pieces: usize = assembly.run.chunks().len();
        assert!(pieces <= 6, "{pieces}");
        // Out of order, each segment is a run of its own.
        (0..100).for_each(|at| assert_eq!(assembly.insert(30_000 + at * 2, buffer.slice(0, 1)), 1));
        assert!(assembly.weight() > 20_000 + 100 * (RUN_COST + PIECE_COST));
        assembly.unshare();
        assert_eq!(assembly.take(0, 20_000).len(), 20_000);
        assert_eq!(assembly.weight() - 100, 101 * RUN_COST + 100 * PIECE_COST);
        assembly.clear();
        assert_eq!(assembly.held(), 0);
    }

    #[test]
    fn fills_keep_length_and_bytes_join() {
        let fill = Payload::fill(3, 5000);
        let mut assembly = Assembly::default();
        for i in (0..5).rev() {
            assembly.insert(i * 1000, fill.slice(i * 1000, 1000));
        }
        let whole = assembly.take(0, 5000);
        assert!(whole.is_fill() && whole.chunks().len() == 1);
        for i in 0..3u64 {
            assembly.insert(5000 + i * (1 << 20), Payload::from(alloc::vec![i as u8; 1 << 20]));
            assembly.insert(5000 + (3 + i) * (1 << 20), Payload::from(alloc::vec![3; 1 << 20]));
        }
        let lengths: Vec<_> = assembly.take(5000, 5000 + (6 << 20)).chunks().iter().map(|c| c.len()).collect();
        assert_eq!(lengths, [1 << 20; 6]);
    }
}
