//! Bundles that are to leave over links: queued, offered, in transmission, in fragments, or waiting to be routed again.

use crate::state::backoff::Backoff;
use crate::state::offers::Offers;
use crate::state::partial_sends::PartialSends;
use crate::state::queues::Queues;
use crate::state::reroute_scan::RerouteScan;
use crate::state::transmissions::Transmissions;
use crate::state::waits::Waits;
use farlink_base::{Instant, Lazy};
use farlink_book::Handle;

/// The owners of outbound state.
#[derive(Debug)]
pub(crate) struct Outbound {
    pub queues: Queues,
    pub offers: Lazy<Offers>,
    pub transmissions: Transmissions,
    pub partial_sends: PartialSends,
    pub waits: Waits,
    pub backoff: Lazy<Backoff>,
    pub reroute_scan: RerouteScan,
}

impl Outbound {
    pub fn new() -> Self {
        Outbound {
            queues: Queues::new(),
            offers: Lazy::default(),
            transmissions: Transmissions::default(),
            partial_sends: PartialSends::default(),
            waits: Waits::default(),
            backoff: Lazy::default(),
            reroute_scan: RerouteScan::default(),
        }
    }
    /// Whether work is left that can be done now: bundles of released lists, rerouting, offers.
    pub fn has_work(&self) -> bool {
        self.queues.has_loose() || !self.reroute_scan.is_idle() || !self.offers.is_idle()
    }
    /// Time at which the next waiting bundle is to be routed again.
    pub fn next(&self) -> Option<Instant> {
        Instant::earliest([self.waits.next(), self.backoff.next()])
    }
    /// Takes a bundle whose wait has ended.
    pub fn pop_due(&mut self, now: Instant) -> Option<Handle> {
        if let Some(bundle) = self.waits.pop(now) {
            return Some(bundle);
        }
        let bundle = self.backoff.made()?.pop(now)?;
        // The refusals are forgotten, so that routing tries the neighbour that had no room again.
        self.waits.forgive(bundle);
        Some(bundle)
    }
    /// Causes newly arrived bundles to be considered for all neighbours with an offer.
    pub fn wake_offers(&mut self) {
        if let Some(offers) = self.offers.made() {
            offers.wake_all();
        }
    }
    /// Removes a departing bundle from the tables of partial sends, waits and backoffs.
    pub fn forget(&mut self, bundle: Handle) {
        self.partial_sends.forget(bundle);
        self.waits.forget(bundle);
        if let Some(backoff) = self.backoff.made() {
            backoff.leave(bundle);
        }
    }
}
