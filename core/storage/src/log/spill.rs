//! Bytes of bundles that are still arriving: written as they come, taken by a `Put` later.

use super::LogStore;
use super::commit::Arriving;
use super::record::{Loc, Piece, SPILL_EXTENT, spill_record_len};
use super::segment::{Owner, Segments};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use farlink_base::store::Output;
use farlink_base::{Chunk, Extent, Instant, Payload, Sink};

/// One record of a spill.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Part {
    /// Offset of its first byte in the spill.
    pub start: u64,
    pub loc: Loc,
}

/// One arriving bundle's bytes on disk.
#[derive(Debug, Default)]
pub(super) struct Spill {
    /// The agent's number, until a bundle took it.
    agent: Option<u64>,
    /// Bytes given so far.
    len: u64,
    /// Durable records by first byte.
    parts: BTreeMap<u64, Loc>,
    /// Bundles that refer to it.
    holders: u32,
}
impl Spill {
    /// The records that hold `offset .. offset + len`; `None` when some of it is missing.
    pub fn parts(&self, offset: u64, len: u64) -> Option<Vec<Part>> {
        let end = offset.checked_add(len)?;
        let first = self.parts.range(..=offset).next_back().map_or(offset, |(start, _)| *start);
        let (mut at, mut found) = (offset, Vec::new());
        for (&start, &loc) in self.parts.range(first..end) {
            if start > at {
                return None;
            }
            if start + loc.data > at {
                found.push(Part { start, loc });
                at = start + loc.data;
            }
        }
        (at >= end).then_some(found)
    }
}

/// All spills.
#[derive(Debug, Default)]
pub(super) struct Spills {
    table: BTreeMap<u32, Spill>,
    by_agent: BTreeMap<u64, u32>,
    last: u32,
}
impl Spills {
    pub fn get(&self, spill: u32) -> Option<&Spill> {
        self.table.get(&spill)
    }
    /// Numbers up to this one were used by earlier runs.
    pub fn skip_to(&mut self, spill: u32) {
        self.last = self.last.max(spill);
    }
    fn number(&mut self) -> u32 {
        loop {
            self.last = (self.last + 1) % SPILL_EXTENT;
            if !self.table.contains_key(&self.last) {
                return self.last;
            }
        }
    }
    /// Appends `len` bytes to the agent's spill: its number here and their offset.
    fn append(&mut self, agent: u64, len: u64) -> (u32, u64) {
        let number = match self.by_agent.get(&agent) {
            Some(number) => *number,
            None => {
                let number = self.number();
                self.by_agent.insert(agent, number);
                self.table.insert(number, Spill { agent: Some(agent), ..Spill::default() });
                number
            }
        };
        let start = self.table.get_mut(&number).map_or(0, |spill| {
            spill.len += len;
            spill.len - len
        });
        (number, start)
    }
    /// Whether all bytes the pieces refer to are durable.
    pub fn cover(&self, pieces: &[Piece]) -> bool {
        pieces.iter().all(|piece| match piece {
            Piece::Spill { spill, offset, len } => {
                self.table.get(spill).is_some_and(|s| s.parts(*offset, *len).is_some())
            }
            _ => true,
        })
    }
    /// A bundle refers to the pieces' spills from now on.
    pub fn take(&mut self, pieces: &[Piece]) -> Option<Box<[u32]>> {
        let numbers: Vec<u32> = pieces
            .iter()
            .filter_map(|piece| if let Piece::Spill { spill, .. } = piece { Some(*spill) } else { None })
            .collect();
        for number in &numbers {
            if let Some(spill) = self.table.get_mut(number) {
                spill.holders += 1;
                if let Some(agent) = spill.agent.take() {
                    self.by_agent.remove(&agent);
                }
            }
        }
        (!numbers.is_empty()).then(|| numbers.into_boxed_slice())
    }
    /// A bundle refers to it no longer.
    pub fn release(&mut self, number: u32, segments: &mut Segments) {
        let Some(spill) = self.table.get_mut(&number) else { return };
        spill.holders = spill.holders.saturating_sub(1);
        if spill.holders == 0 {
            self.drop(number, segments);
        }
    }
    /// The agent gave up the bundle that was arriving.
    pub fn abandon(&mut self, agent: u64, segments: &mut Segments) {
        if let Some(number) = self.by_agent.remove(&agent) {
            self.drop(number, segments);
        }
    }
    fn drop(&mut self, number: u32, segments: &mut Segments) {
        if let Some(spill) = self.table.remove(&number) {
            spill.parts.values().for_each(|loc| segments.release(loc.file, loc.offset));
        }
    }
    /// Whether a record of it may still be written.
    pub fn wants(&self, number: u32) -> bool {
        self.table.contains_key(&number)
    }
    /// A record is durable; tells whether the spill still matters.
    pub fn committed(&mut self, number: u32, start: u64, loc: Loc, segments: &mut Segments) -> bool {
        let Some(spill) = self.table.get_mut(&number) else { return false };
        spill.parts.insert(start, loc);
        segments.add(loc, Owner::Spill(number, start));
        true
    }
    /// The record that begins at `start` is damaged.
    pub fn lose(&mut self, number: u32, start: u64) {
        if let Some(spill) = self.table.get_mut(&number) {
            spill.parts.remove(&start);
        }
    }
    /// Where the record that begins at `start` is.
    pub fn loc(&self, number: u32, start: u64) -> Option<Loc> {
        self.table.get(&number)?.parts.get(&start).copied()
    }
    /// The record was copied.
    pub fn moved(&mut self, number: u32, start: u64, loc: Loc) {
        if let Some(spill) = self.table.get_mut(&number) {
            spill.parts.insert(start, loc);
        }
    }
    /// Recovery found a record; of two copies the first found stays.
    pub fn found(&mut self, number: u32, start: u64, loc: Loc) {
        self.skip_to(number);
        let spill = self.table.entry(number).or_default();
        spill.len = spill.len.max(start + loc.data);
        spill.parts.entry(start).or_insert(loc);
    }
    /// Recovery is over: spills no bundle refers to are garbage, the others are live.
    pub fn settle(&mut self, segments: &mut Segments) {
        self.table.retain(|_, spill| spill.holders > 0);
        for (number, spill) in &self.table {
            for (start, loc) in &spill.parts {
                segments.add(*loc, Owner::Spill(*number, *start));
            }
        }
    }
}

/// The extents a spill's bytes are known by.
pub(super) fn extents(spill: u32, offset: u64, len: u64) -> Chunk {
    Chunk::Stored { extent: Extent { file: SPILL_EXTENT | spill, offset }, len }
}

impl LogStore {
    pub(super) fn spill(&mut self, now: Instant, spill: u64, data: Payload, out: &mut impl Sink<Output>) {
        // Patterns and extents take no memory: they are as good as spilled.
        if data.resident_len() < data.len() || data.is_empty() {
            out.push(Output::Spilled { spill, result: Ok(data) });
            return;
        }
        let record = spill_record_len(data.len());
        let refusal = self.room_for(record).err().or_else(|| self.trouble.refusal(now));
        if let Some(reason) = refusal {
            out.push(Output::Spilled { spill, result: Err(reason) });
            return;
        }
        let (number, start) = self.spills.append(spill, data.len());
        self.queue.push_spill(now, Arriving { agent: spill, number, start, data });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_found_whole_or_not_at_all() {
        let mut spill = Spill::default();
        let loc = |offset, data| Loc { file: 1, offset, meta: 16, data };
        spill.parts.insert(0, loc(0, 10));
        spill.parts.insert(10, loc(100, 10));
        spill.parts.insert(25, loc(200, 10));
        let starts = |offset, len| spill.parts(offset, len).map(|p| p.iter().map(|p| p.start).collect::<Vec<_>>());
        assert_eq!(starts(0, 20), Some(alloc::vec![0, 10]));
        assert_eq!(starts(3, 2), Some(alloc::vec![0]));
        assert_eq!(starts(10, 10), Some(alloc::vec![10]));
        assert_eq!(starts(26, 9), Some(alloc::vec![25]));
        assert_eq!(starts(15, 15), None, "a hole");
        assert_eq!(starts(30, 10), None, "past the end");
        assert_eq!(starts(0, u64::MAX), None);
    }

    #[test]
    fn a_spill_lives_until_its_last_holder_is_gone() {
        let (mut spills, mut segments) = (Spills::default(), Segments::default());
        let (number, start) = spills.append(77, 10);
        assert_eq!(start, 0);
        let loc = Loc { file: 1, offset: 128, meta: 16, data: 10 };
        assert!(spills.committed(number, 0, loc, &mut segments));
        let pieces = [Piece::Spill { spill: number, offset: 2, len: 8 }];
        assert!(spills.cover(&pieces));
        let held = spills.take(&pieces).unwrap();
        spills.abandon(77, &mut segments);
        assert!(spills.wants(number), "a bundle took it");
        spills.release(held[0], &mut segments);
        assert!(!spills.wants(number));
        assert!(!spills.cover(&pieces));
    }
}
