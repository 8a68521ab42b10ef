//! Bundles that come back: a loop of routes forwards a bundle that counts no hops as fast as its links go, until its lifetime
//! ends. What was forwarded lately is remembered, so that a return is known though the bundle was let go; each one is
//! held back for twice as long as the one before, from a second to 64 s.

use crate::agent::Agent;
use crate::waits::back_off;
use alloc::vec::Vec;
use core::time::Duration;
use farlink_base::{BundleMeta, Event, Facts, Instant, Sink};
use farlink_book::Handle;

/// Bundles remembered at most: 384 KiB. A bundle that others push out before it is back is forwarded at once.
const SLOTS_MAX: usize = 1 << 14;
/// As many are made with the first; twice as many whenever they are full.
const SLOTS_MIN: usize = 1 << 6;
/// A bundle that is not back within this time was not in a loop: twice the longest that four nodes hold it back.
const REMEMBERED: Duration = Duration::from_secs(512);

#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    /// Part of the identity; 0: free.
    tag: u64,
    /// When it was forwarded last.
    at: Instant,
    returns: u8,
}

/// Bundles without a hop count that were forwarded lately, by their identity.
#[derive(Debug, Default)]
pub(crate) struct Loops {
    slots: Vec<Slot>,
    used: usize,
}

/// By what a bundle is known when it comes back: its identity, and where it goes, which no node changes.
pub(crate) fn known_by(bundle: &BundleMeta) -> u128 {
    bundle.id ^ u128::from(bundle.destination_node().0)
}
fn tag(id: u128) -> u64 {
    ((id >> 64) as u64 ^ id as u64).max(1)
}

impl Loops {
    /// None was forwarded yet.
    pub const NONE: Loops = Loops { slots: Vec::new(), used: 0 };
    fn place(&self, tag: u64) -> usize {
        (tag.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as usize & self.slots.len().wrapping_sub(1)
    }
    /// A bundle was forwarded.
    pub fn forwarded(&mut self, id: u128, now: Instant) {
        if self.used >= self.slots.len() && self.slots.len() < SLOTS_MAX {
            self.grow();
        }
        let tag = tag(id);
        let at = self.place(tag);
        let slot = &mut self.slots[at];
        let recent = slot.tag != 0 && now.since(slot.at) < REMEMBERED;
        if slot.tag == tag {
            slot.at = now;
        } else if !recent || slot.returns == 0 {
            // One that is known to come back stays for as long as it does.
            self.used += usize::from(slot.tag == 0);
            *slot = Slot { tag, at: now, returns: 0 };
        }
    }
    /// A bundle comes: whether it was forwarded lately, and then how often it came back, this time included.
    pub fn returned(&mut self, id: u128, now: Instant) -> Option<u8> {
        if self.slots.is_empty() {
            return None;
        }
        let tag = tag(id);
        let at = self.place(tag);
        let slot = self.slots.get_mut(at)?;
        if slot.tag != tag || now.since(slot.at) >= REMEMBERED {
            return None;
        }
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

impl Agent {
    /// Whether loops of this bundle end by nothing but its lifetime. Routers that make copies know who had one.
    pub(crate) fn may_loop(&self, bundle: &BundleMeta) -> bool {
        !bundle.facts.has(Facts::HOPS) && !bundle.is_anonymous() && !self.policies.offers()
    }
    /// A bundle came that this node may have forwarded: then it is held back before it is routed. Whether it is.
    pub(crate) fn hold_back_return<S: Sink<crate::io::Output>>(
        &mut self,
        now: Instant,
        bundle: Handle,
        out: &mut S,
    ) -> bool {
        let Some(held) = self.book.get(bundle).filter(|held| self.may_loop(&held.bundle)) else { return false };
        let (id, number) = (known_by(&held.bundle), held.name());
        let Some(returns) = self.remembered.loops_met().and_then(|loops| loops.returned(id, now)) else { return false };
        self.waits.hold_back(&mut self.book, bundle, now + back_off(returns), returns);
        self.event(out, Event::Returned { bundle: number });
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant(seconds * 1_000_000_000)
    }

    #[test]
    fn returns_are_counted_and_memory_is_bounded() {
        let mut loops = Loops::default();
        assert_eq!(loops.returned(7, at(0)), None);
        loops.forwarded(7, at(0));
        assert_eq!(loops.slots.len(), SLOTS_MIN);
        assert_eq!(
            [loops.returned(7, at(1)), loops.returned(7, at(2)), loops.returned(8, at(2))],
            [Some(1), Some(2), None]
        );
        for id in 100..1_000_000 {
            loops.forwarded(id, at(3));
        }
        assert_eq!(loops.slots.len(), SLOTS_MAX);
        assert_eq!(loops.returned(7, at(4)), Some(3), "one that comes back is pushed out by none that does not");
        assert!(size_of::<Slot>() * SLOTS_MAX <= 384 << 10);
        assert_eq!(loops.returned(7, at(600)), None, "that was no loop");
    }
}
