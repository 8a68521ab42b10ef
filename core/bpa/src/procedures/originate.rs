//! Bundles that originate here (RFC 9171 5.2): requests of applications and records of this node.

use crate::agent::Agent;
use crate::app::{AppOutput, RequestId, SendRequest};
use crate::context::Context;
use crate::edge::Draft;
use crate::io::Output;
use crate::state::pending_commits::Debt;
use crate::work::Step;
use alloc::sync::Arc;
use core::time::Duration;
use farlink_base::{
    BundleId, BundleMeta, CreationTimestamp, EndpointId, Event, Facts, HopState, Payload, PeerId, Refusal, Sink, store,
};

impl Agent {
    /// RFC 9171 5.2: an application's request to send.
    // 9171-5.2-2, 5050-5.2-4
    pub(super) fn on_send<S: Sink<Output>>(
        &mut self,
        cx: &mut Context<'_, S>,
        request: RequestId,
        wanted: SendRequest,
    ) {
        let refuse = |agent: &Self, reason, out: &mut S| {
            agent.event_refused(None, None, reason, out);
            out.push(Output::App(AppOutput::SendResult { request, result: Err(reason) }));
        };
        let Some(source) = self.local_endpoint(&wanted.source) else {
            return refuse(self, if self.terminating { Refusal::Terminating } else { Refusal::Unknown }, cx.out);
        };
        if self.terminating {
            return refuse(self, Refusal::Terminating, cx.out);
        }
        if wanted.destination.is_null() {
            return refuse(self, Refusal::NotAcceptable, cx.out);
        }
        // RFC 5050 5.2 step 1: a request that cannot be honoured is refused.
        if wanted.facts.has(Facts::CUSTODY) && !self.asks_for_custody(&source, &wanted) {
            return refuse(self, Refusal::NotAcceptable, cx.out);
        }
        let Some(creation) = self.next_creation(cx, &source) else {
            if self.creation.wait(request, wanted).is_err() {
                refuse(self, Refusal::NoResources, cx.out);
            }
            return;
        };
        let (mut draft, payload) = self.draft(source, wanted);
        if draft.destination.is_null() {
            return refuse(self, Refusal::NotAcceptable, cx.out);
        }
        draft.compressed = self.asks_compressed(cx.now, &draft);
        // The compressed reports replace individual ones.
        if draft.compressed.is_some() {
            draft.facts.0 &= !(Facts::REPORTS | Facts::STATUS_TIME);
        }
        let made = self.make_new(cx, draft, creation, payload);
        if let Err(reason) = made.and_then(|meta| self.create(cx, meta, Some(request))) {
            refuse(self, reason, cx.out);
        }
    }

    /// Form of an endpoint for other nodes: `ipn:!.n`, "this node", never leaves (RFC 9758 5.4). Null if this node has
    /// no name of that scheme.
    // 9758-5.4-1, 9758-5.4-2, 9758-5.4-4
    fn seen_outside(&self, endpoint: EndpointId) -> EndpointId {
        if endpoint.is_here() { endpoint.canonical(&self.settings.node_ids).unwrap_or_default() } else { endpoint }
    }

    /// Draft of a requested bundle, and its payload.
    pub(super) fn draft(&self, source: EndpointId, wanted: SendRequest) -> (Draft, Payload) {
        let unreliable = if wanted.reliable { 0 } else { Facts::UNRELIABLE };
        let custody = if self.asks_for_custody(&source, &wanted) { Facts::CUSTODY } else { 0 };
        let draft = Draft {
            version: self.settings.version,
            source,
            destination: self.seen_outside(wanted.destination),
            report_to: self.seen_outside(wanted.report_to),
            facts: Facts(wanted.facts.0 & (Facts::REQUESTS | Facts::CRITICAL) | unreliable | custody),
            lifetime_ms: wanted.lifetime_ms,
            priority: wanted.priority,
            hop_limit: if wanted.hop_limit == 0 { self.settings.node.hop_limit } else { wanted.hop_limit },
            compressed: None,
        };
        (draft, wanted.payload)
    }

    /// Admits a bundle made here.
    // 9171-5.2-1, 5050-5.2-3
    pub(crate) fn create<S: Sink<Output>>(
        &mut self,
        cx: &mut Context<'_, S>,
        mut meta: BundleMeta,
        request: Option<RequestId>,
    ) -> Result<(), Refusal> {
        let now = cx.now;
        if self.settings.durable && !meta.is_anonymous() {
            // Its payload may have left memory when the bundle returns and has to be compared.
            meta.digest = cx.edge.digest(&meta);
        }
        let mut new = self.newcomer(now, Arc::new(meta), PeerId::NONE, &HopState::default());
        new.expires = now + self.lifetime_here(Duration::from_millis(new.bundle.lifetime_ms));
        if new.bundle.facts.has(Facts::CUSTODY) && !self.takes_custody(&new) {
            return Err(Refusal::NoResources);
        }
        self.make_room(cx, &new)?;
        let record = new.bundle.is_administrative();
        let handle = self.take_in(cx, new, &HopState::default(), request.map(Debt::Request));
        // Records between nodes are not listed as created: no application waits for them.
        if !record {
            self.event(cx.out, Event::Created { bundle: self.number(handle) });
        }
        self.notify_kept(now, handle, None);
        self.work.push(Step::Dispatch(handle));
        Ok(())
    }

    /// A creation timestamp for a local source; `None` while numbers are being reserved on disk. Timestamps that a
    /// neighbour used under that source's name are skipped.
    pub(crate) fn next_creation<S: Sink<Output>>(
        &mut self,
        cx: &mut Context<'_, S>,
        source: &EndpointId,
    ) -> Option<CreationTimestamp> {
        loop {
            let creation = self.next_timestamp(cx)?;
            let id = BundleId { source: source.clone(), creation, fragment: None };
            if source.is_null() || self.book.find(id.fingerprint()).is_none() {
                return Some(creation);
            }
        }
    }

    /// A new bundle with an unused identity. A version that encodes timestamps differently may map two to one, which
    /// shows only in the finished bundle: such timestamps are skipped, too.
    // 5050-4.5.1-1
    pub(crate) fn make_new<S: Sink<Output>>(
        &mut self,
        cx: &mut Context<'_, S>,
        draft: Draft,
        creation: CreationTimestamp,
        payload: Payload,
    ) -> Result<BundleMeta, Refusal> {
        let mut made = cx.edge.make(draft.clone(), creation, payload.clone())?;
        while !made.is_anonymous() && self.book.find(made.id).is_some() {
            let creation = self.next_creation(cx, &draft.source).ok_or(Refusal::NoResources)?;
            made = cx.edge.make(draft.clone(), creation, payload.clone())?;
        }
        cx.edge.protect(made)
    }

    /// A creation timestamp that no other bundle from here has.
    fn next_timestamp<S: Sink<Output>>(&mut self, cx: &mut Context<'_, S>) -> Option<CreationTimestamp> {
        let next = self.creation.next(self.wall_clock.utc_at(cx.now));
        let Some(value) = next.reserve else { return next.timestamp };
        self.reserve(value, cx.out);
        next.timestamp.or_else(|| self.creation.next(self.wall_clock.utc_at(cx.now)).timestamp)
    }

    /// Reserves sequence numbers, on disk if the store is durable.
    pub(crate) fn reserve<S: Sink<Output>>(&mut self, value: u64, out: &mut S) {
        if self.settings.durable {
            out.push(Output::Store(store::Input::SetCounter { value }));
        } else {
            self.creation.reserved(value);
        }
    }
}
