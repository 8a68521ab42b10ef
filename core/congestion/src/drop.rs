//! Drop policies: the least urgent bundles make room, by age, size or at random.
//!
//! The reference policies of the congestion studies (A. Lindgren, K. Phanse: "Evaluation of Queueing Policies and
//! Forwarding Strategies for Routing in Intermittently Connected Networks", COMSWARE 2006). They evict bundles that
//! other nodes rely on, so they suit networks with many copies; `none` suits the others.

use crate::control::Control;
use farlink_base::{Param, Refusal, Rng};
use farlink_book::{Actions, CopyOffer, EventMask, Held, Node, Peer, PolicyEvent, Why};

/// Bits of a bundle's position in the order of eviction within its class of service; the bundle numbers and lengths from
/// which positions are made need fewer.
const PLACE_BITS: u32 = 60;
/// Highest position.
const LAST: u64 = (1 << PLACE_BITS) - 1;

/// Order of eviction within a class of service.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DropOrder {
    /// Longest kept first: first in, first out.
    Oldest,
    /// Latest arrival first.
    Youngest,
    /// Random, drawn again for each eviction.
    Random,
    /// Largest first; among equals the oldest.
    Largest,
}

/// Control that evicts the least urgent bundles, those of one class in a given order, but none more urgent than the
/// newcomer.
#[derive(Clone, Copy, Debug)]
pub struct DropPolicy {
    first: DropOrder,
    full: f64,
    copies: f64,
    seed: u64,
    /// Number of evictions so far, which changes the random order.
    victims: u64,
}

impl DropPolicy {
    /// Parameters of the control.
    pub const PARAMS: &'static [Param] = &[
        Param {
            name: "full",
            help: "Usable share of the store; at 1 other bundles are evicted for space, below 1 newcomers are refused.",
            unit: "",
            default: 1.0,
            min: 0.01,
            max: 1.0,
        },
        Param {
            name: "copies_until",
            help: "No copies are sent while the store is fuller than this share.",
            unit: "",
            default: 1.0,
            min: 0.0,
            max: 1.0,
        },
    ];

    /// Control with values of [`DropPolicy::PARAMS`].
    pub fn new(first: DropOrder, params: &[f64], seed: u64) -> Self {
        let param = |index: usize| params.get(index).copied().unwrap_or(1.0);
        DropPolicy { first, full: param(0), copies: param(1), seed, victims: 0 }
    }
}

/// Worth of a bundle at this position within its class. Bits of non-negative floats are ordered like the floats, so
/// each position has a worth of its own; a sum would round.
fn worth(class: u8, place: u64) -> f64 {
    f64::from_bits(u64::from(class) << PLACE_BITS | place.min(LAST))
}

impl Control for DropPolicy {
    fn hears(&self) -> EventMask {
        if self.first == DropOrder::Random { EventMask::GONE } else { EventMask::NOTHING }
    }
    fn on(&mut self, _node: &Node<'_>, event: &PolicyEvent<'_>, _out: &mut Actions) {
        self.victims += u64::from(matches!(event, PolicyEvent::Gone { why: Why::Overflow, .. }));
    }
    fn admit(&self, node: &Node<'_>, new: &Held) -> Result<f64, Refusal> {
        let most = node.capacity as f64 * self.full;
        // No eviction could ever make enough space.
        if new.size() as f64 > most {
            return Err(Refusal::TooLarge);
        }
        // At a share of 1 eviction makes space; a smaller share is enforced by refusing newcomers.
        if self.full < 1.0 && node.book.bytes().saturating_add(new.size()) as f64 > most {
            return Err(Refusal::NoResources);
        }
        // The worth is just above that of the newcomer's class: bundles of the same class may be evicted for it, more
        // urgent ones may not.
        Ok(worth(new.bundle.priority.number() + 1, 0))
    }
    fn worth(&self, _node: &Node<'_>, held: &Held) -> Option<f64> {
        let place = match self.first {
            DropOrder::Oldest => held.number,
            DropOrder::Youngest => LAST.saturating_sub(held.number),
            DropOrder::Random => Rng::stream(self.seed ^ self.victims, held.number).next_u64() & LAST,
            DropOrder::Largest => LAST.saturating_sub(held.size()),
        };
        Some(worth(held.bundle.priority.number(), place))
    }
    fn keeps_newest(&self) -> bool {
        self.first == DropOrder::Oldest
    }
    fn allow(&self, node: &Node<'_>, _peer: &Peer, _held: &Held, want: Option<CopyOffer>) -> Option<CopyOffer> {
        // A bundle that is given away frees space, so only copies are stopped.
        let too_full = node.book.bytes() as f64 > node.capacity as f64 * self.copies;
        want.filter(|want| !want.keep || !too_full)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::ControlSite;
    use alloc::collections::BTreeSet;
    use alloc::vec;
    use farlink_base::Priority;

    fn drop(first: DropOrder) -> DropPolicy {
        DropPolicy::new(first, &[], 7)
    }

    #[test]
    fn least_urgent_oldest_make_room() {
        let mut site = ControlSite::new(400);
        // Two of one class, so that age decides between them, and one each above and below it.
        let order = [Priority::Normal, Priority::Normal, Priority::Expedited, Priority::Bulk];
        let [older, newer, urgent, bulk] = order.map(|priority| site.keep_with(9, 100, |b, _| b.priority = priority));
        let control = drop(DropOrder::Oldest);
        let victims = |need, priority| site.victims(&control, need, |b, _| b.priority = priority);
        assert_eq!(victims(100, Priority::Normal), Some(vec![bulk]));
        assert_eq!(victims(150, Priority::Normal), Some(vec![bulk, older]));
        assert_eq!(victims(300, Priority::Normal), Some(vec![bulk, older, newer]));
        assert_eq!(victims(400, Priority::Normal), None, "no more urgent bundle, and no useless eviction");
        assert_eq!(victims(400, Priority::Expedited), Some(vec![bulk, older, newer, urgent]));
        // One bulk bundle is not enough.
        assert_eq!(victims(200, Priority::Bulk), None);
    }

    #[test]
    fn youngest_or_largest_goes_first() {
        let mut site = ControlSite::new(1000);
        let sizes = [200, 300, 300, 100];
        let [second, large, as_large, small] = sizes.map(|size| site.keep(9, size));
        assert_eq!(site.fits(&drop(DropOrder::Youngest), 350), Some(vec![small, as_large]));
        assert_eq!(site.fits(&drop(DropOrder::Largest), 750), Some(vec![large, as_large, second]));
        let bulk = site.keep_with(9, 100, |b, _| b.priority = Priority::Bulk);
        for first in [DropOrder::Youngest, DropOrder::Largest, DropOrder::Random, DropOrder::Oldest] {
            assert_eq!(site.fits(&drop(first), 90), Some(vec![bulk]), "{first:?}: the least urgent");
            let refused = site.victims(&drop(first), 250, |b, _| b.priority = Priority::Bulk);
            assert_eq!(refused, None, "{first:?}: nothing more urgent");
        }
    }

    #[test]
    fn last_shard_numbers_make_room() {
        for first in [DropOrder::Oldest, DropOrder::Youngest, DropOrder::Random, DropOrder::Largest] {
            let mut site = ControlSite::new(200);
            // Each of 64 shards numbers up to 2^47 bundles.
            site.keep_with(9, 100, |_, new| new.number = Some(63 << 47));
            site.keep_with(9, 100, |_, new| new.number = Some((63 << 47) + 1));
            let room = |priority| site.victims(&drop(first), 100, |b, _| b.priority = priority).map(|all| all.len());
            assert_eq!(room(Priority::Normal), Some(1), "{first:?}");
            assert_eq!(room(Priority::Bulk), None, "{first:?}");
        }
    }

    #[test]
    fn random_order_differs_each_time() {
        let mut site = ControlSite::new(1000);
        let bundles = [(); 10].map(|()| site.keep(9, 100));
        let mut control = drop(DropOrder::Random);
        let (mut seen, mut times) = (BTreeSet::new(), [0; 10]);
        for _ in 0..1000 {
            let victims = site.fits(&control, 100).unwrap();
            seen.extend(victims.iter().copied());
            times[bundles.iter().position(|bundle| *bundle == victims[0]).unwrap()] += 1;
            control.on(
                &site.node(),
                &PolicyEvent::Gone { bundle: victims[0], why: Why::Overflow },
                &mut Actions::default(),
            );
            control.on(
                &site.node(),
                &PolicyEvent::Gone { bundle: victims[0], why: Why::Delivered },
                &mut Actions::default(),
            );
        }
        assert!(seen.len() == 10 && times.iter().all(|times| (60..150).contains(times)), "{times:?}");
        assert_eq!(site.fits(&control, 100), site.fits(&control, 100), "asking changes nothing");
        let worth = |seed| DropPolicy::new(DropOrder::Random, &[], seed).worth(&site.node(), site.held(bundles[0]));
        assert_ne!(worth(7), worth(8), "each node draws for itself");
    }

    #[test]
    fn shares_of_the_store_are_kept() {
        let control = DropPolicy::new(DropOrder::Oldest, &[0.5, 0.25], 7);
        let mut site = ControlSite::new(1000);
        let bundle = site.keep(9, 250);
        let admit = |site: &ControlSite, size| control.admit(&site.node(), &site.newcomer(size)).map(|_| ());
        assert_eq!(admit(&site, 250), Ok(()));
        assert_eq!(admit(&site, 251), Err(Refusal::NoResources));
        assert_eq!(admit(&site, 501), Err(Refusal::TooLarge));
        let peer = site.meet(2);
        let allow =
            |site: &ControlSite, want| control.allow(&site.node(), site.peer(peer), site.held(bundle), Some(want));
        let copy = CopyOffer::copy(site.held(bundle), 0);
        assert_eq!(allow(&site, copy), Some(copy));
        site.keep(9, 1);
        assert_eq!(allow(&site, copy), None);
        assert!(allow(&site, CopyOffer::give(site.held(bundle), 0)).is_some(), "to its destination always");
    }
}
