//! The bytes of one part of a block while it arrives: ropes of what came in order, joined at the
//! end. Nothing is allocated for what is missing.

use super::ranges::Ranges;
use alloc::collections::BTreeMap;
use bytes::BytesMut;
use farlink_base::{Chunk, Payload};

/// Ropes longer than this stay in pieces of this many bytes when they are joined.
const PIECE_BYTES: u64 = 1 << 20;

/// What arrived of one part of a block.
#[derive(Default)]
pub(super) struct Assembly {
    received: Ranges,
    /// The run that grows now, and where it begins; older runs rest in `runs`.
    run: Payload,
    run_start: u64,
    runs: BTreeMap<u64, Payload>,
    held: u64,
}

impl Assembly {
    /// Which positions arrived (also those taken out since).
    pub(super) fn received(&self) -> &Ranges {
        &self.received
    }
    /// Bytes held.
    pub(super) fn held(&self) -> u64 {
        self.held
    }
    /// Adds `data` at `offset`; of overlaps the first bytes win. Returns the bytes that were new.
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
        if offset == self.run_start + self.run.len() {
            self.run.append(data);
            return;
        }
        let finished = core::mem::replace(&mut self.run, data);
        if !finished.is_empty() {
            self.runs.insert(self.run_start, finished);
        }
        self.run_start = offset;
    }
    /// Takes the bytes `start..end` out; all of them must have arrived and none be taken before.
    pub(super) fn take(&mut self, start: u64, end: u64) -> Payload {
        let last = core::mem::take(&mut self.run);
        if !last.is_empty() {
            self.runs.insert(self.run_start, last);
        }
        let mut out = Payload::new();
        let mut rest = self.runs.split_off(&start);
        // The run that holds `start` may begin before it.
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
        contiguous(out)
    }
    /// Lets go of the receive buffers that the bytes held came in.
    pub(super) fn unshare(&mut self) {
        self.run = self.run.own();
        self.runs.values_mut().for_each(|run| *run = run.own());
    }
    /// Drops all bytes held.
    pub(super) fn clear(&mut self) {
        self.run = Payload::new();
        self.runs.clear();
        self.held = 0;
    }
}

/// Copies a rope of many small pieces in memory into few large ones: what is kept no longer pins the
/// receive buffers, and whoever reads it next walks one chunk.
fn contiguous(rope: Payload) -> Payload {
    if rope.chunks().len() <= 1 || rope.is_fill() || rope.is_stored() {
        return rope;
    }
    let mut out = Payload::new();
    let mut left = rope.len();
    let mut piece = BytesMut::new();
    for chunk in rope.chunks() {
        let Chunk::Bytes(bytes) = chunk else { continue };
        let mut bytes = &bytes[..];
        while !bytes.is_empty() {
            if piece.capacity() == 0 {
                piece = BytesMut::with_capacity(left.min(PIECE_BYTES) as usize);
            }
            let room = (left.min(PIECE_BYTES) as usize - piece.len()).min(bytes.len());
            piece.extend_from_slice(&bytes[..room]);
            bytes = &bytes[room..];
            if piece.len() as u64 == left.min(PIECE_BYTES) {
                left -= piece.len() as u64;
                out.push_bytes(core::mem::take(&mut piece).freeze());
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_order_with_overlaps_gives_the_block(
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
    fn fills_pass_through_by_length_and_bytes_are_joined() {
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
