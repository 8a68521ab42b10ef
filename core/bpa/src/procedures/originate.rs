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
    /// Takes an application's request to send a bundle (RFC 9171 5.2).
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
        // A request for custody that cannot be honoured is refused (RFC 5050 5.2 step 1).
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

    /// Form of an endpoint in bundles: `ipn:!.n` means "this node" and never leaves it (RFC 9758 5.4), so this node's
    /// name replaces it. Null if this node has no name of that scheme.
    // 9758-5.4-1, 9758-5.4-2, 9758-5.4-4
    fn seen_outside(&self, endpoint: EndpointId) -> EndpointId {
        if endpoint.is_here() { endpoint.canonical(&self.settings.node_ids).unwrap_or_default() } else { endpoint }
    }

    /// Draft and payload of a requested bundle.
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

    /// Admits a bundle made here, keeps it and dispatches it. `request`: the application's request, to be answered.
    // 9171-5.2-1, 5050-5.2-3
    pub(crate) fn create<S: Sink<Output>>(
        &mut self,
        cx: &mut Context<'_, S>,
        mut meta: BundleMeta,
        request: Option<RequestId>,
    ) -> Result<(), Refusal> {
        let now = cx.now;
        if self.settings.durable && !meta.is_anonymous() {
            // The payload may have left memory by the time the bundle comes back and has to be compared.
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
        // Administrative records cause no `Created` event: no application requested them.
        if !record {
            self.event(cx.out, Event::Created { bundle: self.number(handle) });
        }
        self.notify_kept(now, handle, None);
        self.work.push(Step::Dispatch(handle));
        Ok(())
    }

    /// Creation timestamp for a local source; `None` while numbers are being reserved on disk. Timestamps of held
    /// bundles that name the same source are skipped.
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

    /// Makes a new bundle with an identity that no held bundle has, and protects it. A version that encodes timestamps
    /// differently may map two to one identity, which shows only in the finished bundle: such timestamps are skipped,
    /// too.
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

    /// Creation timestamp that no other bundle made here has; `None` while numbers are being reserved on disk.
    fn next_timestamp<S: Sink<Output>>(&mut self, cx: &mut Context<'_, S>) -> Option<CreationTimestamp> {
        let next = self.creation.next(self.wall_clock.utc_at(cx.now));
        let Some(value) = next.reserve else { return next.timestamp };
        self.reserve(value, cx.out);
        next.timestamp.or_else(|| self.creation.next(self.wall_clock.utc_at(cx.now)).timestamp)
    }

    /// Reserves sequence numbers up to `value`, on disk if the store is durable.
    pub(crate) fn reserve<S: Sink<Output>>(&mut self, value: u64, out: &mut S) {
        if self.settings.durable {
            out.push(Output::Store(store::Input::SetCounter { value }));
        } else {
            self.creation.reserved(value);
        }
    }
}
