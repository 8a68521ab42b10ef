//! Bytes of a block being sent: all are in memory, or, of a bundle given in parts, only those that leave next. Lost
//! data is then requested again, so that a session of any length costs a few megabytes.

use alloc::boxed::Box;
use farlink_base::layer::{SendId, WINDOW};
use farlink_base::{Chunk, Payload};

/// Most bytes that are requested beyond those sent.
const AHEAD: u64 = 2 * WINDOW;
/// Most bytes of a bundle given in parts that are in memory: those requested ahead, those sent last, and a range to
/// retransmit.
const HELD_MAX: u64 = AHEAD + 3 * WINDOW;

/// Bytes of a block.
#[derive(Debug)]
pub(super) struct BlockSource {
    len: u64,
    /// Contiguous bytes, from offset `start` on.
    run: Payload,
    start: u64,
    cursor: RopeCursor,
    streamed: Option<Box<Streamed>>,
}

/// State of a bundle given in parts, which is not entirely in memory.
#[derive(Debug)]
struct Streamed {
    send: SendId,
    /// End of the range requested so far.
    wanted: u64,
    /// Number of bytes that the age update added. Requests refer to the stored bundle, which does not have these bytes.
    grown: u64,
    /// Bytes requested for retransmission, which begin at `again_start`.
    again: Payload,
    again_start: u64,
    /// Start of the range to retransmit, and start of the pending request for it.
    asked_again: Option<(u64, u64)>,
    /// First bytes as they were sent, with the updated age, which the stored bundle lacks.
    stamped: Payload,
}

/// Use of bytes that the agent returned for a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Given {
    /// To be sent for the first time.
    Fresh,
    Again,
    Nothing,
}

impl BlockSource {
    /// Creates the source of a block of `len` bytes, none of which are in memory yet. `streamed`: the only bundle of
    /// the block, if its further bytes must be requested.
    pub(super) fn new(len: u64, streamed: Option<SendId>) -> BlockSource {
        let streamed = streamed.map(|send| {
            let (again, stamped) = Default::default();
            Box::new(Streamed { send, wanted: 0, grown: 0, again, again_start: 0, asked_again: None, stamped })
        });
        BlockSource { len, run: Payload::new(), start: 0, cursor: RopeCursor::default(), streamed }
    }
    /// Source with the whole block in memory.
    #[cfg(test)]
    pub(super) fn whole(block: Payload) -> BlockSource {
        let mut source = BlockSource::new(block.len(), None);
        source.begin(block, 0);
        source
    }
    /// Appends the bytes of the next bundle, to which the age update added `grown` bytes.
    pub(super) fn begin(&mut self, bytes: Payload, grown: u64) {
        self.len += grown;
        if let Some(streamed) = &mut self.streamed {
            (streamed.wanted, streamed.grown) = (bytes.len(), grown);
            // The age update changes the first chunk only.
            if let [first, _, ..] = bytes.chunks() {
                streamed.stamped.push(first.clone());
            }
        }
        self.run.append(bytes);
    }
    /// Removes bytes of an expired bundle from the length of the block.
    pub(super) fn leave_out(&mut self, bytes: u64) {
        // A bundle given in parts is the only one of its block.
        self.len = if self.streamed.is_some() { 0 } else { self.len - bytes };
    }
    /// End of the contiguous bytes in memory, as an offset in the block.
    pub(super) fn end(&self) -> u64 {
        self.start + self.run.len()
    }
    pub(super) fn len(&self) -> u64 {
        self.len
    }
    /// Upper bound of the memory that the block takes, bytes.
    pub(super) fn weight(&self) -> u64 {
        if self.streamed.is_some() { self.len.min(HELD_MAX) } else { self.len }
    }
    /// The bundle whose bytes must be requested; `None` if all are in memory.
    pub(super) fn send(&self) -> Option<SendId> {
        self.streamed.as_ref().map(|streamed| streamed.send)
    }
    /// The bytes of the block; `None` if its bundle is given in parts.
    pub(super) fn block(&self) -> Option<Payload> {
        self.streamed.is_none().then(|| self.run.clone())
    }
    /// Whether the bytes from `from` on are in memory: `len` of them, or up to the end of the block.
    pub(super) fn has(&self, from: u64, len: u64) -> bool {
        let Some(streamed) = &self.streamed else { return true };
        let end = self.len.min(from + len);
        let inside = |start: u64, run: &Payload| start <= from && end <= start + run.len();
        inside(self.start, &self.run) || inside(streamed.again_start, &streamed.again)
    }
    /// Appends bytes that are in memory to `out`.
    pub(super) fn copy(&mut self, from: u64, len: u64, out: &mut Payload) {
        if let Some(streamed) = &self.streamed
            && (from < self.start || from + len > self.start + self.run.len())
        {
            out.append(streamed.again.slice(from - streamed.again_start.min(from), len));
            return;
        }
        self.cursor.copy(&self.run, from - self.start, len, out);
    }
    /// Drops bytes sent before `sent`, if they can be requested again.
    pub(super) fn passed(&mut self, sent: u64) {
        let done = sent.saturating_sub(self.start);
        // Keep the latest bytes, because they are retransmitted most often.
        if self.streamed.is_some() && done >= WINDOW / 4 {
            self.run = self.run.slice(done - WINDOW / 16, u64::MAX);
            self.start = sent - WINDOW / 16;
            self.cursor = RopeCursor::default();
        }
    }
    /// Next range to request once the bytes up to `sent` have left: first byte and length.
    pub(super) fn want_ahead(&mut self, sent: u64) -> Option<(u64, u64)> {
        let streamed = self.streamed.as_mut()?;
        if streamed.wanted >= self.len.min(sent + AHEAD) {
            return None;
        }
        let (from, len) = (streamed.wanted, WINDOW.min(self.len - streamed.wanted));
        streamed.wanted += len;
        Some((from - streamed.grown, len))
    }
    /// Range to request for a retransmission from `from` on, up to `end` at most: first byte and length. `None` while a
    /// request is pending.
    pub(super) fn want_again(&mut self, from: u64, end: u64) -> Option<(u64, u64)> {
        let streamed = self.streamed.as_mut().filter(|streamed| streamed.asked_again.is_none())?;
        let asked = from.max(streamed.stamped.len());
        streamed.asked_again = Some((from, asked));
        Some((asked - streamed.grown, WINDOW.min(end.min(self.len).max(asked + 1) - asked)))
    }
    pub(super) fn give(&mut self, from: u64, part: Payload) -> Given {
        let Some(streamed) = &mut self.streamed else { return Given::Nothing };
        let from = from.saturating_add(streamed.grown);
        if from == self.start + self.run.len() && from + part.len() <= streamed.wanted {
            self.run.append(part);
            return Given::Fresh;
        }
        let Some((start, _)) = streamed.asked_again.filter(|(_, asked)| *asked == from) else { return Given::Nothing };
        let mut again = streamed.stamped.slice(start.min(from), from - start);
        again.append(part);
        (streamed.again, streamed.again_start, streamed.asked_again) = (again, start, None);
        Given::Again
    }
    #[cfg(test)]
    pub(super) fn held(&self) -> u64 {
        self.run.len() + self.streamed.as_ref().map_or(0, |streamed| streamed.again.len())
    }
}

/// Position in a rope, so that reading in order does not pass its chunks from the start each time.
#[derive(Clone, Copy, Default, Debug)]
struct RopeCursor {
    chunk: usize,
    /// Offset of the chunk in the rope.
    start: u64,
}
impl RopeCursor {
    fn copy(&mut self, rope: &Payload, offset: u64, length: u64, out: &mut Payload) {
        if offset < self.start {
            *self = RopeCursor::default();
        }
        let (mut at, end) = (offset, offset + length);
        while let Some(chunk) = rope.chunks().get(self.chunk) {
            let chunk_end = self.start + chunk.len();
            if at < chunk_end {
                let (inside, n) = (at - self.start, end.min(chunk_end) - at);
                out.push(match chunk {
                    Chunk::Bytes(bytes) => Chunk::Bytes(bytes.slice(inside as usize..(inside + n) as usize)),
                    Chunk::Fill { seed, offset, .. } => Chunk::Fill { seed: *seed, offset: offset + inside, len: n },
                    Chunk::Stored { extent, .. } => {
                        let mut extent = *extent;
                        extent.offset += inside;
                        Chunk::Stored { extent, len: n }
                    }
                });
                at += n;
            }
            if at == end {
                return;
            }
            self.chunk += 1;
            self.start = chunk_end;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_block_reads_nothing() {
        let mut source = BlockSource::whole(Payload::fill(1, 5 * WINDOW));
        assert!(source.has(4 * WINDOW, WINDOW) && source.send().is_none());
        source.passed(3 * WINDOW);
        assert_eq!((source.held(), source.want_ahead(0), source.want_again(0, 9)), (5 * WINDOW, None, None));
        assert_eq!(source.give(5 * WINDOW, Payload::fill(1, 1)), Given::Nothing);
    }

    #[test]
    fn streamed_block_keeps_only_needed_data() {
        let total = 9 * WINDOW + 5;
        let whole = Payload::fill(1, total);
        let mut source = BlockSource::new(total, Some(SendId(1)));
        source.begin(whole.slice(0, 70_000), 0);
        let (mut sent, mut out) = (0, Payload::new());
        while sent < total {
            while let Some((from, len)) = source.want_ahead(sent) {
                assert_eq!(source.give(from, whole.slice(from, len)), Given::Fresh);
            }
            let n = 1300.min(total - sent);
            assert!(source.has(sent, n));
            source.copy(sent, n, &mut out);
            sent += n;
            source.passed(sent);
            assert!(source.held() + WINDOW <= source.weight(), "{} held", source.held());
        }
        assert_eq!(out, whole);
        assert!(!source.has(5000, 1));
        assert_eq!(source.want_again(5000, 6000), Some((5000, 1000)));
        assert_eq!(source.want_again(5000, 6000), None, "already requested");
        assert_eq!(source.give(4000, whole.slice(4000, 1000)), Given::Nothing);
        assert_eq!(source.give(5000, whole.slice(5000, 1000)), Given::Again);
        let mut again = Payload::new();
        source.copy(5100, 400, &mut again);
        assert_eq!(again, whole.slice(5100, 400));
        assert!(source.has(5900, 100) && !source.has(5900, 101));
    }
}
