//! Passive reader of LTP: finds bundles in the red and green parts of blocks, even if segments are reordered or
//! repeated and a block has several bundles.

mod block;

use super::segment::{self, SegmentContent, SessionId};
use crate::reading::{PassiveReader, Reading};
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use block::{BlockReading, PiecesHeld};
use farlink_base::{FindEnd, Instant};

/// Most sessions that are followed or remembered as finished; beyond them the oldest is dropped. Bundles of 5,000 B at
/// 1 Gbit/s over a round trip of 4 s take 100,000.
pub const SESSIONS_MAX: usize = 1 << 17;
/// Most bytes kept, over all sessions: heads of bundles, and data after gaps with the cost of its fragmentation.
pub const BYTES_MAX: u64 = 64 << 20;
/// Most pieces of data after gaps that are kept, over all sessions.
pub const PIECES_MAX: usize = 1 << 18;

/// Passive reader of the datagrams from one host to another. `E` finds the end of a bundle in a block of several.
#[derive(Debug)]
pub struct LtpReader<E> {
    /// Blocks under way, by session; `None` marks a finished one, so that its repeated segments do not begin a new one.
    sessions: BTreeMap<SessionId, Option<Box<BlockReading<E>>>>,
    /// Sessions in the order in which they began.
    order: VecDeque<SessionId>,
    held: PiecesHeld,
    unread: u64,
}

impl<E: FindEnd> LtpReader<E> {
    /// Creates a reader that has seen no datagram.
    pub const fn new() -> Self {
        LtpReader {
            sessions: BTreeMap::new(),
            order: VecDeque::new(),
            held: PiecesHeld { bytes: 0, pieces: 0 },
            unread: 0,
        }
    }
    /// Number of sessions under way.
    pub fn sessions(&self) -> usize {
        self.sessions.values().flatten().count()
    }
    /// Number of bytes kept, with the cost of their fragmentation.
    pub const fn held_bytes(&self) -> u64 {
        self.held.bytes
    }

    fn segment(
        &mut self,
        now: Instant,
        datagram: &[u8],
        each: &mut dyn FnMut(Reading<'_>),
    ) -> Result<(), &'static str> {
        let view = segment::parse(datagram, datagram.len() as u64).map_err(|error| error.reason)?;
        let id = view.session;
        match view.content {
            SegmentContent::Data { data, at } => {
                let bytes = &datagram[at..at + data.length as usize];
                if !self.sessions.contains_key(&id) {
                    while self.sessions.len() >= SESSIONS_MAX && self.forget_oldest(each) {}
                    self.order.push_back(id);
                    self.sessions.insert(id, Some(Box::new(BlockReading::new(data.service))));
                }
                let Some(Some(block)) = self.sessions.get_mut(&id) else { return Ok(()) };
                if data.ends_block() {
                    block.ends_at(data.end());
                }
                let lost = block.push(now, data.offset, bytes, &mut self.held, each);
                if lost.is_err() || block.is_over() {
                    self.finish(id, each);
                }
                while (self.held.bytes > BYTES_MAX || self.held.pieces > PIECES_MAX) && self.forget_oldest(each) {}
                lost
            }
            SegmentContent::Cancel { by_sender: true, .. } => {
                self.finish(id, each);
                Ok(())
            }
            _ => Ok(()),
        }
    }
    /// Ends the reading of a block, and remembers that it is finished.
    fn finish(&mut self, id: SessionId, each: &mut dyn FnMut(Reading<'_>)) {
        if let Some(place) = self.sessions.get_mut(&id)
            && let Some(block) = place.take()
        {
            self.unread = self.unread.saturating_add(block.close(&mut self.held, each));
        }
    }
    /// Forgets the session that began first, finished or not; returns whether there was one.
    fn forget_oldest(&mut self, each: &mut dyn FnMut(Reading<'_>)) -> bool {
        let Some(oldest) = self.order.pop_front() else { return false };
        if matches!(self.sessions.get(&oldest), Some(Some(_))) {
            self.finish(oldest, each);
            each(Reading::Lost("more sessions, or more data after gaps, than are followed"));
        }
        self.sessions.remove(&oldest);
        true
    }
}
impl<E: FindEnd> Default for LtpReader<E> {
    fn default() -> Self {
        LtpReader::new()
    }
}

impl<E: FindEnd> PassiveReader for LtpReader<E> {
    fn push(&mut self, now: Instant, bytes: &[u8], each: &mut dyn FnMut(Reading<'_>)) {
        // Four zero bytes are a keepalive for address translators (RFC 7122).
        if bytes == [0; 4] {
            return;
        }
        if let Err(reason) = self.segment(now, bytes, each) {
            self.unread = self.unread.saturating_add(bytes.len() as u64);
            each(Reading::Lost(reason));
        }
    }
    fn end(&mut self, each: &mut dyn FnMut(Reading<'_>)) {
        for id in core::mem::take(&mut self.order) {
            self.finish(id, each);
        }
        self.sessions.clear();
    }
    fn unread(&self) -> u64 {
        self.unread
    }
}

#[cfg(test)]
mod tests;
