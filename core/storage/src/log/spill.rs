//! Spills: bytes of arriving bundles, written as they come and taken over by a `Put` later.
//!
//! A spill that could not be written ends at once: its records become garbage and its space is free. Only its number
//! is remembered until the agent drops it.

use super::LogStore;
use super::commit::SpillWrite;
use super::record::{Loc, PayloadPiece, spill_record_len};
use super::segment::{Owner, Segments};
use crate::quota::Quotas;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use farlink_base::store::Output;
use farlink_base::{Chunk, Extent, Instant, Payload, Refusal, Sink};

/// One record of a spill.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct SpillPart {
    /// Offset of its first byte in the spill.
    pub start: u64,
    pub loc: Loc,
}

/// Bytes of one arriving bundle on disk.
#[derive(Debug, Default)]
pub(super) struct Spill {
    /// Number at the agent, until a bundle refers to the spill.
    agent: Option<u64>,
    /// Quota key that its bytes count to, until a bundle refers to the spill.
    quota: u64,
    /// Bytes appended so far, durable or not.
    len: u64,
    /// Durable records by the offset of their first byte.
    parts: BTreeMap<u64, Loc>,
    /// Bundles that refer to it.
    holders: u32,
}
impl Spill {
    /// Records that hold `offset .. offset + len`; `None` if any of these bytes is missing.
    pub fn parts(&self, offset: u64, len: u64) -> Option<Vec<SpillPart>> {
        // Offsets come from extents that were read from disk: they may overflow.
        let end = offset.checked_add(len)?;
        let first = self.parts.range(..=offset).next_back().map_or(offset, |(start, _)| *start);
        let (mut at, mut found) = (offset, Vec::new());
        for (&start, &loc) in self.parts.range(first..end) {
            if start > at {
                return None;
            }
            if start + loc.data > at {
                found.push(SpillPart { start, loc });
                at = start + loc.data;
            }
        }
        (at >= end).then_some(found)
    }
}

#[derive(Debug, Default)]
pub(super) struct Spills {
    table: BTreeMap<u64, Spill>,
    /// Store's number by the agent's number; `None` if the spill failed.
    by_agent: BTreeMap<u64, Option<u64>>,
    last: u64,
}
impl Spills {
    pub fn get(&self, spill: u64) -> Option<&Spill> {
        self.table.get(&spill)
    }
    /// Marks numbers up to this one as used by earlier runs.
    pub fn skip_to(&mut self, spill: u64) {
        // Extents mark spill numbers with that bit.
        self.last = self.last.max(spill & !Extent::SPILL);
    }
    /// Skips `count` numbers, which may have been used.
    pub fn skip(&mut self, count: u64) {
        self.skip_to(self.last.saturating_add(count).min(!Extent::SPILL));
    }
    /// Marks the spill numbers in a recovered bundle record as used.
    pub fn skip_past(&mut self, pieces: &[PayloadPiece]) {
        for piece in pieces {
            if let PayloadPiece::Spill { spill, .. } = piece {
                self.skip_to(*spill);
            }
        }
    }
    /// Whether the agent's spill failed and was not dropped since.
    fn has_failed(&self, agent: u64) -> bool {
        self.by_agent.get(&agent) == Some(&None)
    }
    /// Appends `len` bytes to the agent's spill. Returns the spill's number here and the offset of the bytes.
    fn append(&mut self, agent: u64, quota: u64, len: u64, quotas: &mut Quotas) -> (u64, u64) {
        let number = match self.by_agent.get(&agent).copied().flatten() {
            Some(number) => number,
            None => {
                self.last += 1;
                self.by_agent.insert(agent, Some(self.last));
                self.table.insert(self.last, Spill { agent: Some(agent), quota, ..Spill::default() });
                self.last
            }
        };
        let start = self.table.get_mut(&number).map_or(0, |spill| {
            quotas.add(spill.quota, len);
            spill.len += len;
            spill.len - len
        });
        (number, start)
    }
    /// Ends a spill that cannot be kept; the agent must still drop it.
    pub fn fail(&mut self, agent: u64, segments: &mut Segments, quotas: &mut Quotas) {
        if let Some(number) = self.by_agent.insert(agent, None).flatten() {
            self.drop(number, segments, quotas);
        }
    }
    /// Bytes of the pieces' spills that already count to `quota`.
    pub fn counted(&self, pieces: &[PayloadPiece], quota: u64) -> u64 {
        let spills = pieces.iter().filter_map(|piece| match piece {
            PayloadPiece::Spill { spill, .. } => self.table.get(spill),
            _ => None,
        });
        spills.filter(|spill| spill.agent.is_some() && spill.quota == quota).map(|spill| spill.len).sum()
    }
    /// Whether all spilled bytes that the pieces refer to are durable.
    pub fn cover(&self, pieces: &[PayloadPiece]) -> bool {
        pieces.iter().all(|piece| match piece {
            PayloadPiece::Spill { spill, offset, len } => {
                self.table.get(spill).is_some_and(|s| s.parts(*offset, *len).is_some())
            }
            _ => true,
        })
    }
    /// Adds a bundle that refers to the pieces' spills. Returns their numbers, each once.
    pub fn take(&mut self, pieces: &[PayloadPiece], quotas: &mut Quotas) -> Option<Box<[u64]>> {
        let mut numbers: Vec<u64> = pieces
            .iter()
            .filter_map(|piece| if let PayloadPiece::Spill { spill, .. } = piece { Some(*spill) } else { None })
            .collect();
        numbers.sort_unstable();
        // A payload may refer to a spill in several pieces, but holds it once.
        numbers.dedup();
        for number in &numbers {
            if let Some(spill) = self.table.get_mut(number) {
                spill.holders += 1;
                // The bundle's size counts to the quota from now on.
                if let Some(agent) = spill.agent.take() {
                    self.by_agent.remove(&agent);
                    quotas.remove(spill.quota, spill.len);
                }
            }
        }
        (!numbers.is_empty()).then(|| numbers.into_boxed_slice())
    }
    /// Removes a bundle's reference; the last one frees the spill.
    pub fn release(&mut self, number: u64, segments: &mut Segments, quotas: &mut Quotas) {
        let Some(spill) = self.table.get_mut(&number) else { return };
        spill.holders = spill.holders.saturating_sub(1);
        if spill.holders == 0 {
            self.drop(number, segments, quotas);
        }
    }
    /// Drops a spill whose bundle was given up.
    pub fn abandon(&mut self, agent: u64, segments: &mut Segments, quotas: &mut Quotas) {
        if let Some(number) = self.by_agent.remove(&agent).flatten() {
            self.drop(number, segments, quotas);
        }
    }
    fn drop(&mut self, number: u64, segments: &mut Segments, quotas: &mut Quotas) {
        if let Some(spill) = self.table.remove(&number) {
            if spill.agent.is_some() {
                quotas.remove(spill.quota, spill.len);
            }
            spill.parts.values().for_each(|loc| segments.release(loc.file, loc.offset));
        }
    }
    /// Whether a record of the spill may still be written.
    pub fn wants(&self, number: u64) -> bool {
        self.table.contains_key(&number)
    }
    /// Adds a durable record. Returns whether the spill still exists.
    pub fn committed(&mut self, number: u64, start: u64, loc: Loc, segments: &mut Segments) -> bool {
        let Some(spill) = self.table.get_mut(&number) else { return false };
        spill.parts.insert(start, loc);
        segments.add(loc, Owner::Spill(number, start));
        true
    }
    /// Forgets the damaged record that begins at `start`.
    pub fn lose(&mut self, number: u64, start: u64) {
        if let Some(spill) = self.table.get_mut(&number) {
            spill.parts.remove(&start);
        }
    }
    /// Place of the record that begins at `start`.
    pub fn loc(&self, number: u64, start: u64) -> Option<Loc> {
        self.table.get(&number)?.parts.get(&start).copied()
    }
    /// Records a record's place after compaction copied it.
    pub fn moved(&mut self, number: u64, start: u64, loc: Loc) {
        if let Some(spill) = self.table.get_mut(&number) {
            spill.parts.insert(start, loc);
        }
    }
    /// Adds a recovered record; of two records of the same bytes, the first one stays.
    pub fn found(&mut self, number: u64, start: u64, loc: Loc) {
        self.skip_to(number);
        let spill = self.table.entry(number).or_default();
        spill.len = spill.len.max(start + loc.data);
        spill.parts.entry(start).or_insert(loc);
    }
    /// Ends recovery: spills without a bundle become garbage, the records of the others live.
    pub fn settle(&mut self, segments: &mut Segments) {
        self.table.retain(|_, spill| spill.holders > 0);
        for (number, spill) in &self.table {
            for (start, loc) in &spill.parts {
                segments.add(*loc, Owner::Spill(*number, *start));
            }
        }
    }
}

/// Parts of spills that come while the store is read: which numbers are in use is known only afterwards.
#[derive(Debug, Default)]
pub(super) struct EarlySpills {
    /// The agent's number of the spill, its quota key and its bytes.
    parts: Vec<(u64, u64, Payload)>,
}
impl EarlySpills {
    pub fn push(&mut self, agent: u64, quota: u64, data: Payload) {
        self.parts.push((agent, quota, data));
    }
    /// Drops a spill whose bundle was given up.
    pub fn abandon(&mut self, agent: u64) {
        self.parts.retain(|(of, ..)| *of != agent);
    }
}

/// Extent by which a payload refers to a spill's bytes.
pub(super) fn extents(spill: u64, offset: u64, len: u64) -> Chunk {
    Chunk::Stored { extent: Extent { record: Extent::SPILL | spill, offset }, len }
}

impl LogStore {
    pub(super) fn spill(&mut self, now: Instant, spill: u64, quota: u64, data: Payload, out: &mut impl Sink<Output>) {
        if self.spills.has_failed(spill) {
            return;
        }
        // Patterns and extents take no memory: nothing to spill.
        if data.resident_len() < data.len() || data.is_empty() {
            out.push(Output::Spilled { spill, result: Ok(data) });
            return;
        }
        let record = spill_record_len(data.len());
        // Spilled bytes are bounded like bundles; otherwise arrivals could fill the store.
        let allowed = if self.quotas.allows(quota, data.len()) { Ok(()) } else { Err(Refusal::NoResources) };
        let refusal = allowed.and_then(|()| self.room_for(record)).err().or_else(|| self.refusal(now));
        if let Some(reason) = refusal {
            return self.refuse_spill(spill, reason, out);
        }
        let (number, start) = self.spills.append(spill, quota, data.len(), &mut self.quotas);
        self.queue.push_spill(now, SpillWrite { agent: spill, number, start, data, attempts: 0 });
    }
    /// Takes the parts that came while the store was read.
    pub(super) fn spill_early(&mut self, now: Instant, out: &mut impl Sink<Output>) {
        for (spill, quota, data) in self.early.take().into_iter().flat_map(|early| early.parts) {
            self.spill(now, spill, quota, data, out);
        }
    }
    fn refuse_spill(&mut self, agent: u64, reason: Refusal, out: &mut impl Sink<Output>) {
        self.spills.fail(agent, &mut self.segments, &mut self.quotas);
        out.push(Output::Spilled { spill: agent, result: Err(reason) });
    }
    /// Drops a part that will not be written, and its spill.
    pub(super) fn spill_failed(&mut self, arriving: &SpillWrite, reason: Refusal, out: &mut impl Sink<Output>) {
        self.queue.cancel(arriving.record_len());
        if self.spills.get(arriving.number).is_some_and(|spill| spill.agent.is_some()) {
            self.refuse_spill(arriving.agent, reason, out);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_found_whole_or_never() {
        let mut spill = Spill::default();
        let loc = |offset, data| Loc { file: 1, offset, meta: 16, data };
        spill.parts.insert(0, loc(0, 10));
        spill.parts.insert(10, loc(100, 10));
        spill.parts.insert(25, loc(200, 10));
        // The third record leaves a hole between 20 and 25.
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
    fn spill_lives_until_last_holder_leaves() {
        let (mut spills, mut segments, mut quotas) = (Spills::default(), Segments::default(), Quotas::new(100));
        let (number, start) = spills.append(77, 5, 10, &mut quotas);
        assert_eq!((start, quotas.used(5)), (0, 10));
        let loc = Loc { file: 1, offset: 128, meta: 16, data: 10 };
        assert!(spills.committed(number, 0, loc, &mut segments));
        let pieces = [PayloadPiece::Spill { spill: number, offset: 2, len: 8 }];
        assert!(spills.cover(&pieces));
        assert_eq!((spills.counted(&pieces, 5), spills.counted(&pieces, 6)), (10, 0));
        let held = spills.take(&pieces, &mut quotas).unwrap();
        assert_eq!((quotas.used(5), spills.counted(&pieces, 5)), (0, 0), "the bundle counts from now on");
        spills.abandon(77, &mut segments, &mut quotas);
        assert!(spills.wants(number), "a bundle took it");
        spills.release(held[0], &mut segments, &mut quotas);
        assert!(!spills.wants(number));
        assert!(!spills.cover(&pieces));
    }

    #[test]
    fn failed_spill_leaves_only_its_number() {
        let (mut spills, mut segments, mut quotas) = (Spills::default(), Segments::default(), Quotas::new(100));
        let (first, _) = spills.append(77, 5, 10, &mut quotas);
        spills.append(77, 5, 10, &mut quotas);
        spills.fail(77, &mut segments, &mut quotas);
        assert!(spills.has_failed(77) && !spills.wants(first) && quotas.used(5) == 0);
        spills.abandon(77, &mut segments, &mut quotas);
        assert!(!spills.has_failed(77));
        let (second, start) = spills.append(77, 5, 10, &mut quotas);
        assert!(second != first && start == 0, "a new spill under the same number");
    }

    #[test]
    fn bundle_holds_each_spill_once() {
        let (mut spills, mut segments, mut quotas) = (Spills::default(), Segments::default(), Quotas::new(100));
        let numbers = [1, 2].map(|agent| spills.append(agent, 0, 10, &mut quotas).0);
        let piece = |spill| PayloadPiece::Spill { spill, offset: 0, len: 1 };
        // A payload may use one spill in several pieces and in any order, but holds it once.
        let held = spills.take(&[piece(numbers[1]), piece(numbers[0]), piece(numbers[1])], &mut quotas).unwrap();
        assert_eq!(*held, numbers);
        held.iter().for_each(|number| spills.release(*number, &mut segments, &mut quotas));
        assert!(!numbers.iter().any(|number| spills.wants(*number)));
    }

    #[test]
    fn spill_numbers_of_records_stay_used() {
        let (mut spills, mut quotas) = (Spills::default(), Quotas::new(100));
        spills.skip_past(&[PayloadPiece::Inline { len: 3 }, PayloadPiece::Spill { spill: 41, offset: 0, len: 1 }]);
        assert_eq!(spills.append(1, 0, 1, &mut quotas).0, 42);
        spills.skip(100);
        assert_eq!(spills.append(2, 0, 1, &mut quotas).0, 143);
    }
}
