//! A bundle that is kept in pieces while it arrives, because its peer counts acknowledged bytes as held here if the
//! transfer breaks (RFC 9174 3.2, RFC 7242 4.1). Each piece is a fragment of its own (RFC 9171 5.8), made of bytes
//! that passed, once those are on disk. The last stretch gives no piece: with it the whole bundle is here.
//!
//! The module decides where pieces end, and makes the pieces; the agent decides their fate.

use crate::edge::{Opening, Piece};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::ops::Range;
use farlink_base::{BundleMeta, HopState, Payload};
use farlink_bundle::Encoded;

/// Each piece is at least 1/`SHARE` of the payload before it, so that even a long bundle gives few pieces.
const SHARE: u64 = 16;

/// Makes the fragment with this range of a payload.
pub(crate) type Cut<'a> = &'a dyn Fn(&BundleMeta, &HopState, Range<u64>) -> Option<Box<dyn Piece>>;

/// A piece whose bytes have passed and are on their way to disk.
#[derive(Debug)]
struct Passed {
    range: Range<u64>,
    piece: Box<dyn Piece>,
}

/// A complete piece, encoded as if it had arrived as a fragment.
#[derive(Debug)]
pub(crate) struct Kept {
    /// Range of the arriving bundle that the peer may count as kept with this piece; bytes before it belong to earlier
    /// pieces.
    pub promises: Range<u64>,
    pub encoded: Encoded,
}

/// The pieces of one arriving bundle.
#[derive(Debug)]
pub(crate) struct Pieces {
    meta: BundleMeta,
    hop: HopState,
    payload_at: u64,
    least: u64,
    /// Bytes of the bundle that passed.
    passed: u64,
    /// The piece that is passing.
    passing: Option<Passed>,
    /// Pieces whose bytes all passed.
    ready: VecDeque<Passed>,
    /// Ends of the pieces whose bytes have not all left for the disk, as offsets in the bundle.
    ends: VecDeque<u64>,
}

impl Pieces {
    /// Starts keeping pieces of a bundle whose head has come; `None`: it must come whole, or is too short.
    pub fn of(opening: &Opening, least: u64) -> Option<Pieces> {
        let Opening { meta, hop, payload_at, .. } = opening;
        let (meta, hop, payload_at) = (meta.clone(), hop.clone(), (*payload_at)?);
        let (ready, ends) = (VecDeque::new(), VecDeque::new());
        let cuttable = meta.may_fragment() && meta.payload.len() > least;
        cuttable.then_some(Pieces { meta, hop, payload_at, least, passed: 0, passing: None, ready, ends })
    }
    /// Begins the next piece at offset `start` of the payload, unless only the last stretch is left.
    fn begin(&mut self, start: u64, cut: Cut<'_>) {
        let end = start.saturating_add(self.least.max(start / SHARE).max(1));
        // The last stretch needs no piece: the whole bundle is here by then.
        if end >= self.meta.payload.len() {
            return;
        }
        if let Some(piece) = cut(&self.meta, &self.hop, start..end) {
            self.passing = Some(Passed { range: start..end, piece });
            self.ends.push_back(self.payload_at + end);
        }
    }
    /// Takes the next bytes of the bundle.
    pub fn pass(&mut self, part: &Payload, cut: Cut<'_>) {
        if part.is_empty() {
            return;
        }
        if self.passed == 0 {
            self.begin(0, cut);
        }
        let (start, end) = (self.passed, self.passed.saturating_add(part.len()));
        self.passed = end;
        while let Some(passing) = &mut self.passing {
            let Range { start: first, end: last } = passing.range;
            let from = (self.payload_at + first).max(start);
            let to = (self.payload_at + last).min(end);
            if from < to {
                passing.piece.pass(&part.slice(from - start, to - from));
            }
            if end < self.payload_at + last {
                return;
            }
            self.ready.extend(self.passing.take());
            self.begin(last, cut);
        }
    }
    /// Number of bytes from this offset in the bundle to the end of their piece; `None`: no piece ends later.
    pub fn until_end(&self, offset: u64) -> Option<u64> {
        self.ends.front().map(|end| end.saturating_sub(offset))
    }
    /// Records that all bytes up to this offset left for the disk; returns whether a piece ends there.
    pub fn left(&mut self, offset: u64) -> bool {
        self.ends.pop_front_if(|end| *end <= offset).is_some()
    }
    /// Returns the pieces whose bytes are all in `rope`, the part of the bundle that is on disk.
    pub fn complete(&mut self, rope: &Payload) -> Vec<Kept> {
        let (at, mut out) = (self.payload_at, Vec::new());
        while let Some(Passed { range, piece }) = self.ready.pop_front_if(|ready| at + ready.range.end <= rope.len()) {
            let payload = rope.slice(at + range.start, range.end - range.start);
            // The first piece also promises the bytes before the payload, which the fragment's own head stands for.
            let first = if range.start == 0 { 0 } else { at + range.start };
            out.push(Kept { promises: first..at + range.end, encoded: piece.finish(payload) });
        }
        out
    }
}
