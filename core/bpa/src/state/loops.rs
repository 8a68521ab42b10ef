//! Bundles that come back: a routing loop forwards a bundle without a hop count as fast as its links allow until its
//! lifetime ends. Forwarded bundles are remembered for a while, so that a return is recognised even after the bundle
//! has left; each return is delayed for twice as long as the one before, from 1 s to 64 s.
//!
//! Anyone can write an identity. Bundles that no link vouches for are therefore remembered apart, where they neither
//! delay vouched ones nor evict them from the table, and among them only the same content counts as a return (decision
//! 0035).

use alloc::vec::Vec;
use core::time::Duration;
use farlink_base::{BundleMeta, Instant};

/// Most vouched bundles remembered, in 256 KiB. A bundle evicted before it returns is forwarded at once.
const VOUCHED_MAX: usize = 1 << 14;
/// Most other bundles remembered, in 128 KiB.
const STRANGE_MAX: usize = 1 << 13;
/// Initial number of slots, doubled up to the table's bound whenever there is no slot for an entry.
const SLOTS_MIN: usize = 1 << 6;
/// Slots in one group. An entry's hash selects the group; any slot of it may hold the entry.
const WAYS: usize = 4;
/// Time without a return after which a bundle counts as not looping: twice the 256 s that a loop of four nodes takes if
/// each delays the bundle by the longest delay, 64 s.
const REMEMBERED: Duration = Duration::from_secs(512);

#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    /// Hash from [`known_by`]; 0: free slot.
    tag: u64,
    /// Time at which the bundle was last forwarded, s.
    at_s: u32,
    returns: u8,
}
impl Slot {
    fn is_recent(&self, now: Instant) -> bool {
        u64::from(seconds(now).saturating_sub(self.at_s)) < REMEMBERED.as_secs()
    }
}
fn seconds(at: Instant) -> u32 {
    u32::try_from(at.as_nanos() / 1_000_000_000).unwrap_or(u32::MAX)
}

/// Recently forwarded bundles without a hop count: either the vouched ones or the others.
#[derive(Debug)]
struct LoopTable {
    slots: Vec<Slot>,
    used: usize,
    most: usize,
    /// Whether entries of bundles that have returned may be replaced, too. True in the table of bundles that no link
    /// vouches for: a sender that sends each bundle twice would otherwise occupy all of it.
    yields: bool,
}

/// Recently forwarded bundles without a hop count: vouched ones, and others.
#[derive(Debug)]
pub(crate) struct Loops([LoopTable; 2]);

/// Hash of a bundle's immutable fields and of `digest`, a digest of its payload; 0: the payload may differ in each
/// round. With a keyed digest nobody can make two bundles collide.
pub(crate) fn known_by(meta: &BundleMeta, digest: u64) -> u64 {
    let place = meta.fragment().map_or([0; 2], |place| [place.offset + 1, place.total]);
    let endpoints = [&meta.source, &meta.destination, meta.report_to()];
    let numbers = [
        u64::from(meta.version),
        meta.created_ms,
        meta.sequence,
        meta.lifetime_ms,
        u64::from(meta.facts.0 & crate::state::content::primary_facts(meta.version)),
        meta.payload.len(),
    ];
    let ends = endpoints.into_iter().flat_map(|endpoint| [endpoint.node().0, endpoint.service_number()]);
    numbers.into_iter().chain(place).chain(ends).fold(digest, mix).max(1)
}
/// Adds a number to a hash without a key.
pub(crate) fn mix(sum: u64, number: u64) -> u64 {
    // The golden ratio's fraction in 64 bits: its multiples spread evenly (Fibonacci hashing).
    let mixed = (sum ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ mixed >> 29
}

impl LoopTable {
    const fn new(most: usize, yields: bool) -> LoopTable {
        LoopTable { slots: Vec::new(), used: 0, most, yields }
    }
    /// Slots of the group in which an entry with this hash belongs.
    fn places(&self, tag: u64) -> core::ops::Range<usize> {
        // The upper bits of the product are the well mixed ones.
        let group =
            (tag.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as usize & (self.slots.len() / WAYS).wrapping_sub(1);
        group * WAYS..group * WAYS + WAYS
    }
    fn find(&mut self, tag: u64, now: Instant) -> Option<&mut Slot> {
        let places = self.places(tag);
        self.slots.get_mut(places)?.iter_mut().find(|slot| slot.tag == tag && slot.is_recent(now))
    }
    fn forwarded(&mut self, tag: u64, now: Instant) {
        if let Some(slot) = self.find(tag, now) {
            slot.at_s = seconds(now);
            return;
        }
        let slot = Slot { tag, at_s: seconds(now), returns: 0 };
        if self.used >= self.slots.len() && self.slots.len() < self.most {
            self.grow(now);
        }
        // In a larger table fewer entries share the same group of slots.
        while !self.put(slot, now) && self.slots.len() < self.most {
            self.grow(now);
        }
    }
    /// Replaces an outdated entry of the group, else the oldest that has not returned: an entry that has returned is
    /// evidence of a loop and outlives others. Returns false if no entry may go.
    fn put(&mut self, new: Slot, now: Instant) -> bool {
        let (places, yields) = (self.places(new.tag), self.yields);
        let group = self.slots.get_mut(places).into_iter().flatten();
        let may_go = group.filter(|slot| !slot.is_recent(now) || slot.returns == 0 || yields);
        let Some(slot) = may_go.min_by_key(|slot| (slot.tag != 0, slot.is_recent(now), slot.returns > 0, slot.at_s))
        else {
            return false;
        };
        self.used += usize::from(slot.tag == 0);
        *slot = new;
        true
    }
    fn returned(&mut self, tag: u64, now: Instant) -> Option<u8> {
        let slot = self.find(tag, now)?;
        slot.returns = slot.returns.saturating_add(1);
        Some(slot.returns)
    }
    fn grow(&mut self, now: Instant) {
        let slots = (self.slots.len() * 2).max(SLOTS_MIN);
        // An entry's place depends on the number of slots, so all move when it doubles.
        let before = core::mem::replace(&mut self.slots, alloc::vec![Slot::default(); slots]);
        self.used = 0;
        for slot in before.into_iter().filter(|slot| slot.tag != 0) {
            self.put(slot, now);
        }
    }
}

impl Loops {
    /// Empty tables, which have no memory allocated.
    pub const NONE: Loops = Loops([LoopTable::new(VOUCHED_MAX, false), LoopTable::new(STRANGE_MAX, true)]);
    /// Notes that a bundle was forwarded; `strange`: no link vouches for the bundle.
    pub fn forwarded(&mut self, tag: u64, strange: bool, now: Instant) {
        self.0[usize::from(strange)].forwarded(tag, now);
    }
    /// Notes an arrival. Returns the number of the bundle's returns, including this one; `None` if it was not forwarded
    /// recently.
    pub fn returned(&mut self, tag: u64, strange: bool, now: Instant) -> Option<u8> {
        self.0[usize::from(strange)].returned(tag, now)
    }
    /// Whether any bundle was ever remembered; `strange`: any that no link vouches for.
    pub fn knows_any(&self, strange: bool) -> bool {
        !self.0[usize::from(strange)].slots.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant(seconds * 1_000_000_000)
    }

    #[test]
    fn loop_memory_is_bounded() {
        for (strange, most) in [(false, VOUCHED_MAX), (true, STRANGE_MAX)] {
            let mut loops = Loops::NONE;
            assert_eq!(loops.returned(7, strange, at(0)), None);
            loops.forwarded(7, strange, at(0));
            assert_eq!(loops.0[usize::from(strange)].slots.len(), SLOTS_MIN);
            assert_eq!(loops.returned(7, !strange, at(1)), None, "strangers and others are told apart");
            let returns = [7, 7, 8].map(|tag| loops.returned(tag, strange, at(2)));
            assert_eq!(returns, [Some(1), Some(2), None]);
            // A million other bundles must not evict a vouched one that returned.
            for id in 100..1_000_000 {
                loops.forwarded(id, strange, at(3));
            }
            assert_eq!(loops.0[usize::from(strange)].slots.len(), most);
            if !strange {
                let third = loops.returned(7, strange, at(4));
                assert_eq!(third, Some(3), "one that comes back is pushed out by none that does not");
                assert_eq!(loops.returned(7, strange, at(600)), None, "that was no loop");
            }
        }
        assert!(size_of::<Slot>() * (VOUCHED_MAX + STRANGE_MAX) <= 384 << 10);
    }

    #[test]
    fn every_loop_of_hundreds_is_noticed() {
        let mut loops = Loops::NONE;
        for tag in 1..500 {
            loops.forwarded(tag, false, at(0));
            assert_eq!(loops.returned(tag, false, at(0)), Some(1), "{tag}");
        }
        assert!((1..500).all(|tag| loops.returned(tag, false, at(1)) == Some(2)));
        assert!(loops.0[0].slots.len() <= 1 << 12, "{} slots", loops.0[0].slots.len());
    }

    #[test]
    fn strangers_evict_only_strangers() {
        let mut loops = Loops::NONE;
        loops.forwarded(7, false, at(0));
        for tag in 1_000_000..1_100_000 {
            loops.forwarded(tag, true, at(1));
            assert_eq!(loops.returned(tag, true, at(1)), Some(1), "each finds a place among strangers");
        }
        assert_eq!(loops.returned(7, false, at(2)), Some(1));
    }
}
