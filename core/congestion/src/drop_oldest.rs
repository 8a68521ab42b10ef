//! A first-in-first-out buffer: the newcomer is worth more than what has been kept longest.
//!
//! The reference policy of the congestion studies. It gives up bundles other nodes rely on, so it
//! is for networks where copies are many; `none` is for those where they are not.

use crate::control::Control;
use farlink_base::{Param, Refusal};
use farlink_book::{Held, Node, Peer, Want};

/// More bundles than any node numbers; numbers below it are exact in an `f64`.
const LEVEL: f64 = (1u64 << 50) as f64;

/// Deletes the least urgent, longest kept first; nothing more urgent than the newcomer.
#[derive(Clone, Copy, Debug)]
pub struct DropOldest {
    full: f64,
    copies: f64,
}

impl DropOldest {
    /// Parameters.
    pub const PARAMS: &'static [Param] = &[
        Param {
            name: "full",
            help: "Share of the store that may be used; what would go beyond makes room or is refused.",
            unit: "",
            default: 1.0,
            min: 0.01,
            max: 1.0,
        },
        Param {
            name: "copies_until",
            help: "No copies are handed out while the store is fuller than this share.",
            unit: "",
            default: 1.0,
            min: 0.0,
            max: 1.0,
        },
    ];

    /// `params` are values of [`DropOldest::PARAMS`].
    pub fn new(params: &[f64]) -> Self {
        let param = |index: usize| params.get(index).copied().unwrap_or(1.0);
        DropOldest { full: param(0), copies: param(1) }
    }
}

fn level(held: &Held) -> f64 {
    f64::from(held.bundle.priority.number()) * LEVEL
}

impl Control for DropOldest {
    fn admit(&self, node: &Node<'_>, new: &Held) -> Result<f64, Refusal> {
        let most = node.capacity as f64 * self.full;
        if new.size() as f64 > most {
            return Err(Refusal::TooLarge);
        }
        // Up to the whole store, overflow makes room; a smaller share is kept by refusing.
        if self.full < 1.0 && node.book.bytes().saturating_add(new.size()) as f64 > most {
            return Err(Refusal::NoResources);
        }
        Ok(level(new) + LEVEL)
    }
    fn worth(&self, _node: &Node<'_>, held: &Held) -> Option<f64> {
        Some(level(held) + held.number as f64)
    }
    fn keeps_newest(&self) -> bool {
        true
    }
    fn allow(&self, node: &Node<'_>, _peer: &Peer, _held: &Held, want: Option<Want>) -> Option<Want> {
        let too_full = node.book.bytes() as f64 > node.capacity as f64 * self.copies;
        want.filter(|want| !want.keep || !too_full)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Site;
    use alloc::vec;
    use farlink_base::Priority;

    #[test]
    fn the_least_urgent_and_oldest_make_room_and_no_more_than_needed() {
        let mut site = Site::new(400);
        let order = [Priority::Normal, Priority::Normal, Priority::Expedited, Priority::Bulk];
        let [older, newer, urgent, bulk] = order.map(|priority| site.keep_with(9, 100, |b, _| b.priority = priority));
        let control = DropOldest::new(&[]);
        let victims = |need, priority| site.victims(&control, need, |b, _| b.priority = priority);
        assert_eq!(victims(100, Priority::Normal), Some(vec![bulk]));
        assert_eq!(victims(150, Priority::Normal), Some(vec![bulk, older]));
        assert_eq!(victims(300, Priority::Normal), Some(vec![bulk, older, newer]));
        assert_eq!(victims(400, Priority::Normal), None, "nothing more urgent, and nothing in vain");
        assert_eq!(victims(400, Priority::Expedited), Some(vec![bulk, older, newer, urgent]));
        assert_eq!(victims(200, Priority::Bulk), None);
    }

    #[test]
    fn shares_of_the_store_are_kept() {
        let control = DropOldest::new(&[0.5, 0.25]);
        let mut site = Site::new(1000);
        let bundle = site.keep(9, 250);
        let admit = |site: &Site, size| control.admit(&site.node(), &site.newcomer(size)).map(|_| ());
        assert_eq!(admit(&site, 250), Ok(()));
        assert_eq!(admit(&site, 251), Err(Refusal::NoResources));
        assert_eq!(admit(&site, 501), Err(Refusal::TooLarge));
        let peer = site.meet(2);
        let allow = |site: &Site, want| control.allow(&site.node(), site.peer(peer), site.held(bundle), Some(want));
        let copy = Want::copy(site.held(bundle), 0);
        assert_eq!(allow(&site, copy), Some(copy));
        site.keep(9, 1);
        assert_eq!(allow(&site, copy), None);
        assert!(allow(&site, Want::give(site.held(bundle), 0)).is_some(), "to its destination always");
    }
}
