//! Compressed reports (CCSDS 734.6-O-1): events of bundles that request them, and the signals that carry them.

use crate::agent::Agent;
use crate::context::Context;
use crate::edge::{Asked, Draft, Edge, Fate, Item};
use crate::io::Output;
use crate::patterns::matches_any;
use crate::reports::compressed::{ReportItem, signals};
use alloc::vec::Vec;
use farlink_base::{BundleMeta, EndpointId, Event, Facts, Instant, Priority, Sink};
use farlink_book::Handle;

impl Agent {
    /// Gathers an event of a bundle for the receiver named in its compressed reporting block, if the block requests it
    /// and the settings permit the receiver.
    pub(crate) fn report_compressed(&mut self, now: Instant, meta: &BundleMeta, fate: Fate, edge: &dyn Edge) {
        let Some(compressed) = &self.reports.compressed else { return };
        if meta.is_administrative() || meta.is_anonymous() || meta.fragment().is_some() {
            return;
        }
        let Some(Asked { number, sequence, asks, source, report_to }) = edge.asked(meta) else { return };
        if asks & fate.flag() == 0 || report_to.is_null() || !matches_any(&compressed.settings.to, &report_to) {
            return;
        }
        // Counter 0 exists once for each destination, so its reports name the destination; other counters need none.
        let destination = if sequence == 0 { meta.destination.clone() } else { EndpointId::Null };
        if let Some(compressed) = &mut self.reports.compressed {
            compressed.gather(now, report_to, Item { fate, sequence, destination, source }, number);
        }
    }
    /// Gathers an event of a held bundle, like [`Agent::report_compressed`].
    pub(crate) fn report_compressed_of(&mut self, now: Instant, bundle: Handle, fate: Fate, edge: &dyn Edge) {
        if self.reports.compressed.is_none() {
            return;
        }
        if let Some(meta) = self.book.get(bundle).map(|held| held.bundle.clone()) {
            self.report_compressed(now, &meta, fate, edge);
        }
    }

    /// Sends the gathered reports of one receiver. They are lost if there is no room.
    pub(crate) fn send_compressed<S: Sink<Output>>(
        &mut self,
        cx: &mut Context<'_, S>,
        (to, items, bundles): (EndpointId, Vec<ReportItem>, u64),
    ) {
        let me = self.node_id();
        let mut left = bundles;
        for items in signals(&items) {
            let payload = cx.edge.compressed_report(&items, &[&to, &me]);
            let facts = Facts(Facts::ADMIN | Facts::NO_FRAGMENT);
            let Some(payload) = payload else { return };
            if self.send_record(cx, to.clone(), 7, facts, payload, Priority::Normal) {
                self.event(cx.out, Event::ReportsCompressed { to: to.node(), bundles: core::mem::take(&mut left) });
            }
        }
    }

    /// Number and flags of the compressed reporting block that a new bundle gets in place of its status report
    /// requests; `None` if it gets no such block.
    pub(crate) fn asks_compressed(&mut self, now: Instant, draft: &Draft) -> Option<(u64, u64)> {
        let facts = draft.facts;
        if draft.version < 7 || draft.report_to.is_null() || draft.source.is_null() {
            return None;
        }
        let start = self.wall_clock.utc_at(now).map_or_else(|| self.rng.next_u64() >> 2, |utc| utc.0 << 20);
        let compressed = self.reports.compressed.as_mut()?;
        let asks = REQUESTS.iter().filter(|(fact, _)| facts.has(*fact)).fold(0, |all, (_, fate)| all | fate.flag());
        if asks == 0 || !matches_any(&compressed.settings.request, &draft.destination) {
            return None;
        }
        let number = compressed.next.unwrap_or(start.max(1));
        compressed.next = Some(number.wrapping_add(1).max(1));
        Some((number, asks))
    }
}

/// Status report requests and the corresponding events.
const REQUESTS: [(u32, Fate); 4] = [
    (Facts::REPORT_RECEPTION, Fate::Received),
    (Facts::REPORT_FORWARDING, Fate::Forwarded),
    (Facts::REPORT_DELIVERY, Fate::Delivered),
    (Facts::REPORT_DELETION, Fate::Deleted),
];
