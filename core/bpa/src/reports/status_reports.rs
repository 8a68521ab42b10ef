//! Status reports (RFC 9171 5.1, 6.1): only if configured, never about administrative records, and at most a configured
//! number a second.

use crate::agent::Agent;
use crate::context::Context;
use crate::edge::{Draft, Fate, Status};
use crate::io::Output;
use farlink_base::{BundleMeta, DeleteReason, EndpointId, Facts, Payload, Priority, Sink};
use farlink_book::Handle;

/// Lifetime of administrative records, ms: one day.
const LIFETIME_MS: u64 = 86_400_000;

/// Event of a compressed report that corresponds to a status report; `None` for a block that could not be processed.
fn fate_of(status: Status, reason: DeleteReason) -> Option<Fate> {
    match status {
        Status::Received if reason != DeleteReason::Done => None,
        Status::Received => Some(Fate::Received),
        Status::Forwarded => Some(Fate::Forwarded),
        Status::Delivered => Some(Fate::Delivered),
        Status::Deleted => Some(Fate::Deleted),
    }
}

impl Agent {
    /// Sends the reports about a held bundle that it requests.
    pub(crate) fn report<S: Sink<Output>>(
        &mut self,
        cx: &mut Context<'_, S>,
        bundle: Handle,
        status: Status,
        reason: DeleteReason,
    ) {
        let Some(meta) = self.book.get(bundle).map(|held| held.bundle.clone()) else { return };
        self.report_about(cx, &meta, status, reason);
    }

    /// Sends the reports about a bundle, held or not, that it requests. Returns whether a status report was made.
    pub(crate) fn report_about<S: Sink<Output>>(
        &mut self,
        cx: &mut Context<'_, S>,
        meta: &BundleMeta,
        status: Status,
        reason: DeleteReason,
    ) -> bool {
        if let Some(fate) = fate_of(status, reason).filter(|_| self.reports.compressed.is_some()) {
            self.report_compressed(cx.now, meta, fate, cx.edge);
        }
        let flag = match status {
            // Blocks that could not be processed are reported regardless of the bundle's requests.
            Status::Received if reason != DeleteReason::Done => 0,
            Status::Received => Facts::REPORT_RECEPTION,
            Status::Forwarded => Facts::REPORT_FORWARDING,
            Status::Delivered => Facts::REPORT_DELIVERY,
            Status::Deleted => Facts::REPORT_DELETION,
        };
        // 9171-5.1-1
        self.settings.node.status_reports && self.report_if(cx, meta, flag, status, reason)
    }

    /// Makes a status report if the bundle requests all of `flag`, even if status reports are disabled; none is made
    /// before the store is open or beyond the rate limit. Returns whether one was made; none is
    /// without room for it.
    pub(crate) fn report_if<S: Sink<Output>>(
        &mut self,
        cx: &mut Context<'_, S>,
        meta: &BundleMeta,
        flag: u32,
        status: Status,
        reason: DeleteReason,
    ) -> bool {
        // A report is a new bundle and needs a sequence number; unused numbers are known only once the store was read.
        if !self.open || !meta.wants_report(flag) || !self.reports.allow(cx.now) {
            return false;
        }
        let at = if meta.facts.has(Facts::STATUS_TIME) { self.wall_clock.utc_at(cx.now) } else { None };
        let payload = cx.edge.status_report(meta, status, reason, at);
        let to = meta.report_to().clone();
        self.send_record(cx, to, meta.version, Facts(Facts::ADMIN), payload, Priority::Normal)
    }

    /// Sends an administrative record. Returns false if it could not be made or has no room.
    // 9171-6.2-2, 5050-5.1-1, 5050-6.2-3
    pub(crate) fn send_record<S: Sink<Output>>(
        &mut self,
        cx: &mut Context<'_, S>,
        destination: EndpointId,
        version: u8,
        facts: Facts,
        payload: Payload,
        priority: Priority,
    ) -> bool {
        let Some(creation) = self.next_creation(cx, &self.node_id()) else { return false };
        let draft = Draft {
            version,
            source: self.node_id(),
            destination,
            report_to: EndpointId::Null,
            facts,
            lifetime_ms: LIFETIME_MS,
            priority,
            hop_limit: 0,
            compressed: None,
        };
        // A full store loses reports before data: nothing is evicted for them.
        let taken = self.taken().saturating_add(self.bounds.newcomer);
        let free = self.settings.capacity_bytes.saturating_sub(taken);
        let made = self.make_new(cx, draft, creation, payload);
        let fits = made.ok().filter(|meta| meta.size() <= free);
        fits.is_some_and(|meta| self.create(cx, meta, None).is_ok())
    }
}
