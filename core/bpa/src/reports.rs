//! Status reports (RFC 9171 5.1, 6.1): only where configured, never about administrative records,
//! at most so many a second.

use crate::agent::Agent;
use crate::edge::{Draft, Edge, Fate, Status};
use crate::io::Output;
use core::time::Duration;
use farlink_base::{BundleMeta, DeleteReason, EndpointId, Facts, Instant, Payload, Priority, Sink};
use farlink_book::Handle;

/// Lifetime of reports, ms.
const LIFETIME_MS: u64 = 86_400_000;

/// The same in short. That a block could not be processed has no word there.
fn fate_of(status: Status, reason: DeleteReason) -> Option<Fate> {
    match status {
        Status::Received if reason != DeleteReason::Done => None,
        Status::Received => Some(Fate::Received),
        Status::Forwarded => Some(Fate::Forwarded),
        Status::Delivered => Some(Fate::Delivered),
        Status::Deleted => Some(Fate::Deleted),
    }
}

/// Reports made lately.
#[derive(Debug)]
pub(crate) struct Reports {
    per_second: u32,
    second: Instant,
    made: u32,
}

impl Reports {
    /// At most so many a second.
    pub fn new(per_second: u32) -> Self {
        Reports { per_second, second: Instant::ZERO, made: 0 }
    }
    pub(crate) fn allow(&mut self, now: Instant) -> bool {
        if now.since(self.second) >= Duration::from_secs(1) {
            (self.second, self.made) = (now, 0);
        }
        self.made = self.made.saturating_add(1);
        self.made <= self.per_second
    }
}

impl Agent {
    /// Reports about a bundle, if its source asked for it.
    pub(crate) fn report<S: Sink<Output>>(
        &mut self,
        now: Instant,
        bundle: Handle,
        status: Status,
        reason: DeleteReason,
        edge: &mut dyn Edge,
        out: &mut S,
    ) {
        let Some(meta) = self.book.get(bundle).map(|held| held.bundle.clone()) else { return };
        self.report_about(now, &meta, status, reason, edge, out);
    }

    /// The same of one that is not held; whether it does.
    pub(crate) fn report_about<S: Sink<Output>>(
        &mut self,
        now: Instant,
        meta: &BundleMeta,
        status: Status,
        reason: DeleteReason,
        edge: &mut dyn Edge,
        out: &mut S,
    ) -> bool {
        if let Some(fate) = fate_of(status, reason).filter(|_| self.compressed.is_some()) {
            self.report_compressed(now, meta, fate, edge);
        }
        let flag = match status {
            // Blocks that could not be processed are reported whatever the bundle asks for.
            Status::Received if reason != DeleteReason::Done => 0,
            Status::Received => Facts::REPORT_RECEPTION,
            Status::Forwarded => Facts::REPORT_FORWARDING,
            Status::Delivered => Facts::REPORT_DELIVERY,
            Status::Deleted => Facts::REPORT_DELETION,
        };
        // 9171-5.1-1
        self.settings.node.status_reports && self.report_if(now, meta, flag, status, reason, edge, out)
    }

    /// The same, also where reports are not made otherwise; whether the bundle asks for all of these.
    pub(crate) fn report_if<S: Sink<Output>>(
        &mut self,
        now: Instant,
        meta: &BundleMeta,
        flag: u32,
        status: Status,
        reason: DeleteReason,
        edge: &mut dyn Edge,
        out: &mut S,
    ) -> bool {
        // Before the store has said which numbers are taken, nothing new has one.
        if !self.open || !meta.wants_report(flag) || !self.reports.allow(now) {
            return false;
        }
        let at = if meta.facts.has(Facts::STATUS_TIME) { self.wall.utc_at(now) } else { None };
        let payload = edge.status_report(meta, status, reason, at);
        let to = meta.report_to().clone();
        self.send_record(now, to, meta.version, Facts(Facts::ADMIN), payload, Priority::Normal, edge, out);
        true
    }

    /// Sends an administrative record; whether there was room for it.
    // 9171-6.2-2, 5050-5.1-1, 5050-6.2-3
    pub(crate) fn send_record<S: Sink<Output>>(
        &mut self,
        now: Instant,
        destination: EndpointId,
        version: u8,
        facts: Facts,
        payload: Payload,
        priority: Priority,
        edge: &mut dyn Edge,
        out: &mut S,
    ) -> bool {
        let Some(creation) = self.next_creation(now, &self.node_id(), out) else { return false };
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
        // A full store loses reports before it loses data: nothing makes room for them.
        let taken = self.taken().saturating_add(self.newcomer);
        let free = self.settings.capacity_bytes.saturating_sub(taken);
        let made = self.make_new(now, draft, creation, payload, edge, out);
        let fits = made.ok().filter(|meta| meta.size() <= free);
        fits.is_some_and(|meta| self.create(now, meta, None, edge, out).is_ok())
    }
}
