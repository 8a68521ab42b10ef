//! A first-in-first-out buffer: the newcomer is worth more than what has been kept longest.
//!
//! The reference policy of the congestion studies. It gives up bundles other nodes rely on, so it
//! is for networks where copies are many; `none` is for those where they are not.

use crate::control::{Control, Overflow, StoreView};
use alloc::vec::Vec;
use farlink_base::{BundleView, Instant, Param, Proposal, Refusal};

/// Deletes the least urgent, longest kept first.
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

impl Control for DropOldest {
    fn name(&self) -> &'static str {
        "drop-oldest"
    }
    fn params(&self) -> &'static [Param] {
        Self::PARAMS
    }

    fn admit(&mut self, _now: Instant, bundle: &BundleView, store: &StoreView) -> Result<(), Refusal> {
        let most = store.capacity as f64 * self.full;
        if bundle.size as f64 > most {
            return Err(Refusal::TooLarge);
        }
        // Up to the whole store, overflow makes room; a smaller share is kept by refusing.
        if self.full < 1.0 && store.bytes.saturating_add(bundle.size) as f64 > most {
            return Err(Refusal::NoResources);
        }
        Ok(())
    }

    fn allow(&mut self, _now: Instant, _bundle: &BundleView, proposal: &Proposal, store: &StoreView) -> bool {
        !matches!(proposal, Proposal::Copy { .. }) || store.bytes as f64 <= store.capacity as f64 * self.copies
    }

    fn on_overflow(
        &mut self,
        _now: Instant,
        need: u64,
        stored: &mut dyn Iterator<Item = BundleView>,
        out: &mut Vec<Overflow>,
    ) {
        let mut candidates: Vec<BundleView> = stored.collect();
        candidates.sort_by_key(|b| (b.priority, b.received, b.bundle));
        let mut freed = 0u64;
        for bundle in &candidates {
            if freed >= need {
                break;
            }
            freed = freed.saturating_add(bundle.size);
            out.push(Overflow::Drop(bundle.bundle));
        }
        if freed < need {
            out.clear();
            out.push(Overflow::Refuse);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farlink_base::{BundleHandle, LinkId, NodeId, Priority};

    fn bundle(handle: u64, received: u64, priority: Priority) -> BundleView {
        BundleView {
            bundle: BundleHandle(handle),
            source: NodeId(1),
            destination: NodeId(2),
            size: 100,
            payload_size: 60,
            priority,
            received: Instant(received),
            expires: Instant::MAX,
            hops: 0,
            received_from: None,
            excluded: Vec::new(),
            may_fragment: true,
            critical: false,
            copies: 1,
        }
    }

    fn overflow(need: u64) -> Vec<Overflow> {
        let stored = [
            bundle(1, 5, Priority::Normal),
            bundle(2, 1, Priority::Normal),
            bundle(3, 0, Priority::Expedited),
            bundle(4, 9, Priority::Bulk),
        ];
        let mut out = Vec::new();
        DropOldest::new(&[]).on_overflow(Instant(10), need, &mut stored.into_iter(), &mut out);
        out
    }

    #[test]
    fn the_least_urgent_and_oldest_make_room_and_no_more_than_needed() {
        let drop = |handle| Overflow::Drop(BundleHandle(handle));
        assert_eq!(overflow(100), [drop(4)]);
        assert_eq!(overflow(150), [drop(4), drop(2)]);
        assert_eq!(overflow(400), [drop(4), drop(2), drop(1), drop(3)]);
        assert_eq!(overflow(401), [Overflow::Refuse], "nothing is deleted in vain");
    }

    #[test]
    fn shares_of_the_store_are_kept() {
        let mut control = DropOldest::new(&[0.5, 0.25]);
        let store = |bytes| StoreView { bytes, capacity: 1000, bundles: 1 };
        let newcomer = bundle(1, 0, Priority::Normal);
        assert_eq!(control.admit(Instant(0), &newcomer, &store(400)), Ok(()));
        assert_eq!(control.admit(Instant(0), &newcomer, &store(401)), Err(Refusal::NoResources));
        let copy = Proposal::Copy { link: LinkId(0), next_hop: NodeId(2), split: 1 };
        assert!(control.allow(Instant(0), &newcomer, &copy, &store(250)));
        assert!(!control.allow(Instant(0), &newcomer, &copy, &store(251)));
        let whole = StoreView { bytes: 0, capacity: 50, bundles: 0 };
        assert_eq!(DropOldest::new(&[]).admit(Instant(0), &newcomer, &whole), Err(Refusal::TooLarge));
    }
}
