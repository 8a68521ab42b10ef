//! One block: its bytes are read in order; bytes after a gap are kept until the gap is filled.

use crate::ltp::segment::{SERVICE_AGGREGATE, SERVICE_BUNDLE};
use crate::reading::{HEAD_BYTES, Passing, Reading};
use crate::sdnv;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use farlink_base::{FindEnd, Instant};

/// Memory of a piece besides its bytes, bytes.
const PIECE_COST: u64 = 64;

/// Amounts of data kept, over all blocks.
#[derive(Debug)]
pub(super) struct PiecesHeld {
    /// Bytes of heads and pieces, with the cost of their fragmentation.
    pub bytes: u64,
    pub pieces: usize,
}

/// Contiguous data after a gap.
#[derive(Debug)]
struct Piece {
    end: u64,
    /// Times at which the first and the last byte of the piece passed.
    times: (Instant, Instant),
    /// Bytes of the piece; empty if only their number matters.
    bytes: Vec<u8>,
}

/// Item of a block that the next byte belongs to.
#[derive(Debug)]
enum Item<E> {
    /// The next byte begins a bundle, or the mark before one.
    Next,
    /// A client service number, which marks an item of an aggregate.
    Mark(Vec<u8>),
    /// A bundle.
    Bundle(E, Passing),
}

#[derive(Debug)]
pub(super) struct BlockReading<E> {
    service: u64,
    /// Length of the block; `None` until its end has passed.
    end: Option<u64>,
    /// Number of bytes read in order.
    read: u64,
    item: Item<E>,
    /// Data after gaps, by its offset; the pieces do not overlap.
    ahead: BTreeMap<u64, Piece>,
}

impl<E: FindEnd> BlockReading<E> {
    pub const fn new(service: u64) -> Self {
        BlockReading { service, end: None, read: 0, item: Item::Next, ahead: BTreeMap::new() }
    }
    pub fn ends_at(&mut self, end: u64) {
        self.end = Some(end);
    }
    /// Whether the whole block was read.
    pub fn is_over(&self) -> bool {
        self.end.is_some_and(|end| self.read >= end)
    }

    /// Takes data at an offset; bytes that passed before are ignored.
    ///
    /// # Errors
    ///
    /// The reason why the rest of the block cannot be read.
    pub fn push(
        &mut self,
        now: Instant,
        offset: u64,
        bytes: &[u8],
        held: &mut PiecesHeld,
        each: &mut dyn FnMut(Reading<'_>),
    ) -> Result<(), &'static str> {
        let end = offset + bytes.len() as u64;
        // Nearly all segments continue the block without a gap.
        if offset == self.read && self.ahead.is_empty() {
            return self.read((now, now), bytes, held, each);
        }
        let mut at = offset.max(self.read);
        while at < end {
            // Skip bytes that are in a piece already: of repeated data the first copy stays.
            let before = self.ahead.range(..=at).next_back().map(|(_, piece)| piece.end).filter(|end| *end > at);
            if let Some(covered) = before {
                at = covered;
                continue;
            }
            let next = self.ahead.range(at..).next().map_or(end, |(start, _)| *start).min(end);
            self.keep(now, at, &bytes[(at - offset) as usize..(next - offset) as usize], held);
            at = next;
        }
        self.catch_up(held, each)
    }
    /// Keeps data after a gap that does not overlap other pieces.
    fn keep(&mut self, now: Instant, at: u64, bytes: &[u8], held: &mut PiecesHeld) {
        let end = at + bytes.len() as u64;
        if self.is_opaque(at, end) {
            // Extend the last piece, so that one long payload with gaps is few pieces.
            if let Some((_, before)) = self.ahead.range_mut(..at).next_back()
                && before.end == at
                && before.bytes.is_empty()
            {
                before.end = end;
                before.times = (before.times.0.min(now), before.times.1.max(now));
                return;
            }
        }
        let bytes = if self.is_opaque(at, end) { Vec::new() } else { bytes.to_vec() };
        held.pieces += 1;
        held.bytes += bytes.len() as u64 + PIECE_COST;
        self.ahead.insert(at, Piece { end, times: (now, now), bytes });
    }
    /// Whether the values of these bytes do not matter, so that counting them suffices.
    fn is_opaque(&self, start: u64, end: u64) -> bool {
        let Item::Bundle(extent, passing) = &self.item else { return false };
        // Short strings of the primary block are opaque, too, but they belong to the head that is kept.
        let head_end = self.read.saturating_sub(passing.length).saturating_add(HEAD_BYTES as u64);
        start >= head_end && end <= self.read.saturating_add(extent.opaque())
    }
    /// Reads the pieces that continue the bytes read so far.
    fn catch_up(&mut self, held: &mut PiecesHeld, each: &mut dyn FnMut(Reading<'_>)) -> Result<(), &'static str> {
        while let Some(first) = self.ahead.first_entry().filter(|first| *first.key() == self.read) {
            let piece = first.remove();
            release(&piece, held);
            if piece.bytes.is_empty() {
                let count = piece.end - self.read;
                if let Item::Bundle(extent, passing) = &mut self.item {
                    extent.pass(count);
                    passing.pass(piece.times, count);
                }
                self.read = piece.end;
                self.bundle_over(held, each);
            } else {
                self.read(piece.times, &piece.bytes, held, each)?;
            }
        }
        Ok(())
    }
    /// Reads bytes that continue those read so far.
    fn read(
        &mut self,
        times: (Instant, Instant),
        mut bytes: &[u8],
        held: &mut PiecesHeld,
        each: &mut dyn FnMut(Reading<'_>),
    ) -> Result<(), &'static str> {
        while let Some(first) = bytes.first() {
            let mut count = 1;
            match &mut self.item {
                Item::Next => {
                    let bundle = || Item::Bundle(E::default(), Passing::new(times.0));
                    self.item = match self.service {
                        SERVICE_BUNDLE => bundle(),
                        SERVICE_AGGREGATE => Item::Mark(Vec::new()),
                        _ => return Err("a block of another client service"),
                    };
                    continue;
                }
                Item::Mark(mark) => {
                    mark.push(*first);
                    if *first < 0x80 {
                        let service = sdnv::decode(mark).map(|(service, _)| service);
                        if service != Ok(SERVICE_BUNDLE) {
                            return Err("an item of another client service in an aggregate");
                        }
                        self.item = Item::Bundle(E::default(), Passing::new(times.0));
                    } else if mark.len() == sdnv::LEN_MAX {
                        return Err("a mark of more than 64 bits in an aggregate");
                    }
                }
                Item::Bundle(extent, passing) => {
                    count = extent.read(bytes)?;
                    let before = passing.head.len();
                    passing.take(times, &bytes[..count]);
                    held.bytes += (passing.head.len() - before) as u64;
                    // Without progress the loop would not end.
                    if count == 0 && !extent.is_over() {
                        return Err("a bundle whose end cannot be found");
                    }
                }
            }
            self.read += count as u64;
            bytes = &bytes[count..];
            self.bundle_over(held, each);
        }
        Ok(())
    }
    /// Reports the bundle if its last byte was read.
    fn bundle_over(&mut self, held: &mut PiecesHeld, each: &mut dyn FnMut(Reading<'_>)) {
        if let Item::Bundle(extent, passing) = &self.item
            && extent.is_over()
        {
            each(Reading::Bundle(passing.passage()));
            held.bytes -= passing.head.len() as u64;
            self.item = Item::Next;
        }
    }

    /// Reports a bundle under way as cut short, and releases the bytes kept. Returns the number of bytes that were kept
    /// but not read.
    pub fn close(self, held: &mut PiecesHeld, each: &mut dyn FnMut(Reading<'_>)) -> u64 {
        if let Item::Bundle(_, passing) = &self.item
            && passing.length > 0
        {
            each(Reading::Cut(passing.passage()));
            held.bytes -= passing.head.len() as u64;
        }
        self.ahead.values().for_each(|piece| release(piece, held));
        self.ahead.iter().map(|(start, piece)| piece.end - start).sum()
    }
}

fn release(piece: &Piece, held: &mut PiecesHeld) {
    held.pieces -= 1;
    held.bytes -= piece.bytes.len() as u64 + PIECE_COST;
}
