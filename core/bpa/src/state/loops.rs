//! Bundles that come back: a loop of routes forwards a bundle that counts no hops as fast as its links go, until its lifetime
//! ends. What was forwarded lately is remembered, so that a return is known though the bundle was let go; each one is
//! held back for twice as long as the one before, from a second to 64 s.
//!
//! Anybody can write an identity: what returns is the same content (decision 0035), and what nobody vouches for is
//! remembered apart, so that strangers make none but strangers' bundles wait, and push out none but theirs.

use alloc::vec::Vec;
use core::time::Duration;
use farlink_base::{BundleMeta, Instant};

/// Bundles remembered at most that somebody vouched for: 256 KiB. One that others push out before it is back is
/// forwarded at once.
const VOUCHED_MAX: usize = 1 << 14;
/// The same of those that nobody vouched for: 128 KiB.
const STRANGE_MAX: usize = 1 << 13;
/// As many are made with the first; twice as many whenever they are full.
const SLOTS_MIN: usize = 1 << 6;
/// A bundle that is not back within this time was not in a loop: twice the longest that four nodes hold it back.
const REMEMBERED: Duration = Duration::from_secs(512);

#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    /// Hash from [`known_by`]; 0: free slot.
    tag: u64,
    /// When it was forwarded last, in seconds.
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

/// Bundles without a hop count that were forwarded lately.
#[derive(Debug)]
struct Table {
    slots: Vec<Slot>,
    used: usize,
    most: usize,
    /// True if entries that have returned may be replaced, too. Otherwise a sender who sends each bundle twice would occupy
    /// the whole table.
    yields: bool,
}

/// Bundles without a hop count that were forwarded lately: those that somebody vouched for, and the others.
#[derive(Debug)]
pub(crate) struct Loops([Table; 2]);

/// Hash of the fields that no node changes and of the payload's digest, which is keyed: without the node's key nobody can make
/// two bundles collide. `digest` is 0 for a payload that may differ on each round.
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
    let mix = |sum: u64, number: u64| {
        let mixed = (sum ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed ^ mixed >> 29
    };
    numbers.into_iter().chain(place).chain(ends).fold(digest, mix).max(1)
}

impl Table {
    const fn new(most: usize, yields: bool) -> Table {
        Table { slots: Vec::new(), used: 0, most, yields }
    }
    fn place(&self, tag: u64) -> usize {
        (tag.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as usize & self.slots.len().wrapping_sub(1)
    }
    fn forwarded(&mut self, tag: u64, now: Instant) {
        if self.used >= self.slots.len() && self.slots.len() < self.most {
            self.grow();
        }
        let (at, yields) = (self.place(tag), self.yields);
        let slot = &mut self.slots[at];
        let recent = slot.tag != 0 && slot.is_recent(now);
        if slot.tag == tag {
            slot.at_s = seconds(now);
        } else if !recent || slot.returns == 0 || yields {
            self.used += usize::from(slot.tag == 0);
            *slot = Slot { tag, at_s: seconds(now), returns: 0 };
        }
    }
    fn returned(&mut self, tag: u64, now: Instant) -> Option<u8> {
        if self.slots.is_empty() {
            return None;
        }
        let at = self.place(tag);
        let slot = self.slots.get_mut(at).filter(|slot| slot.tag == tag && slot.is_recent(now))?;
        slot.returns = slot.returns.saturating_add(1);
        Some(slot.returns)
    }
    fn grow(&mut self) {
        let slots = (self.slots.len() * 2).max(SLOTS_MIN);
        let before = core::mem::replace(&mut self.slots, alloc::vec![Slot::default(); slots]);
        self.used = 0;
        for slot in before.into_iter().filter(|slot| slot.tag != 0) {
            let at = self.place(slot.tag);
            self.used += usize::from(self.slots[at].tag == 0);
            self.slots[at] = slot;
        }
    }
}

impl Loops {
    /// None was forwarded yet.
    pub const NONE: Loops = Loops([Table::new(VOUCHED_MAX, false), Table::new(STRANGE_MAX, true)]);
    /// A bundle was forwarded; `strange`: nobody vouched for it.
    pub fn forwarded(&mut self, tag: u64, strange: bool, now: Instant) {
        self.0[usize::from(strange)].forwarded(tag, now);
    }
    /// A bundle comes: whether it was forwarded lately, and then how often it came back, this time included.
    pub fn returned(&mut self, tag: u64, strange: bool, now: Instant) -> Option<u8> {
        self.0[usize::from(strange)].returned(tag, now)
    }
    /// Whether any of those is remembered.
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
    fn returns_counted_with_bounded_memory() {
        for (strange, most) in [(false, VOUCHED_MAX), (true, STRANGE_MAX)] {
            let mut loops = Loops::NONE;
            assert_eq!(loops.returned(7, strange, at(0)), None);
            loops.forwarded(7, strange, at(0));
            assert_eq!(loops.0[usize::from(strange)].slots.len(), SLOTS_MIN);
            assert_eq!(loops.returned(7, !strange, at(1)), None, "strangers and others are told apart");
            let returns = [7, 7, 8].map(|tag| loops.returned(tag, strange, at(2)));
            assert_eq!(returns, [Some(1), Some(2), None]);
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
    fn strangers_repeats_evict_strangers_only() {
        let mut loops = Loops::NONE;
        loops.forwarded(7, false, at(0));
        for tag in 1_000_000..1_100_000 {
            loops.forwarded(tag, true, at(1));
            assert_eq!(loops.returned(tag, true, at(1)), Some(1), "each finds a place among strangers");
        }
        assert_eq!(loops.returned(7, false, at(2)), Some(1));
    }
}
