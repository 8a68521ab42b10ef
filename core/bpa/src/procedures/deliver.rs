//! Local delivery (RFC 9171 5.7): registrations, deliveries and their answers.
//!
//! Owns the retention constraint `Deliver`. The registrations and the bundles for each are in `deliveries`.

use crate::agent::Agent;
use crate::app::{AppInput, AppOutput, Delivery, DeliveryId, RegistrationId};
use crate::context::Context;
use crate::edge::{Record, Status};
use crate::io::Output;
use crate::state::deliveries::Share;
use crate::work::Step;
use alloc::vec::Vec;
use farlink_base::{BundleHandle, DeleteReason, EndpointId, Event, Facts, NodeId, Refusal, Sink};
use farlink_book::{Flags, Handle, Held, RetentionConstraint, Why};

/// Divisor of the reserved room. The quotient bounds the unanswered bytes of a registration that gets bundles through
/// that room, so that several applications share it.
const UNANSWERED_PART: u64 = 4;

impl Agent {
    /// Refuses a request of an application.
    pub(crate) fn refuse_app<S: Sink<Output>>(input: AppInput, reason: Refusal, out: &mut S) {
        match input {
            AppInput::Register { registration, .. } => {
                out.push(Output::App(AppOutput::Registered { registration, result: Err(reason) }));
            }
            AppInput::Send { request, .. } => {
                out.push(Output::App(AppOutput::SendResult { request, result: Err(reason) }));
            }
            // These requests have no answer, and nothing is registered or delivered before the store is open.
            AppInput::Unregister { .. } | AppInput::DeliveryDone { .. } => {}
        }
    }

    pub(crate) fn on_app<S: Sink<Output>>(&mut self, cx: &mut Context<'_, S>, input: AppInput) {
        match input {
            AppInput::Register { registration, endpoint, window } => {
                let result = self.register(registration, &endpoint, window);
                cx.out.push(Output::App(AppOutput::Registered { registration, result }));
            }
            AppInput::Unregister { registration } => self.unregister(registration),
            AppInput::Send { request, bundle } => self.on_send(cx, request, bundle),
            AppInput::DeliveryDone { registration, delivery, taken } => {
                self.on_delivery_done(cx, registration, delivery, taken);
            }
        }
    }

    /// Source endpoint that an application requested, with this node's name in place of `ipn:!` or an empty dtn node
    /// name; `None` if it belongs to another node or to a group.
    // 9171-5.2-2, 5050-5.2-4
    pub(super) fn local_endpoint(&self, endpoint: &EndpointId) -> Option<EndpointId> {
        match endpoint {
            EndpointId::Null => Some(EndpointId::Null),
            // RFC 9171 4.2.5.2: a source is a singleton endpoint.
            group if !group.is_singleton() => None,
            EndpointId::Ipn { node: EndpointId::LOCAL_NODE, service } => {
                let node = self.settings.node_ids.iter().find_map(EndpointId::ipn_node)?;
                Some(EndpointId::ipn(node, *service))
            }
            EndpointId::Dtn(name) if name.node().is_empty() => {
                self.settings.node_ids.iter().find_map(|id| id.at_demux(name.demux()))
            }
            other => {
                let node = other.node();
                (node != NodeId::NULL && self.is_local(node)).then(|| other.clone())
            }
        }
    }

    /// Endpoint in whose queue a bundle for this node waits: its destination in the form of [`EndpointId::canonical`].
    fn mailbox(&self, held: &Held) -> EndpointId {
        let destination = &held.bundle.destination;
        destination.canonical(&self.settings.node_ids).unwrap_or_else(|| destination.clone())
    }

    fn register(&mut self, id: RegistrationId, wanted: &EndpointId, window: u32) -> Result<EndpointId, Refusal> {
        if self.deliveries.len() >= self.settings.limits.registrations {
            return Err(Refusal::NoResources);
        }
        let endpoint = wanted.canonical(&self.settings.node_ids).ok_or(Refusal::Unknown)?;
        self.deliveries.register(id, endpoint.clone(), window);
        if !endpoint.is_singleton() {
            // Members that register later get bundles that arrived earlier.
            self.outbound.reroute_scan.to(endpoint.node());
        }
        self.work.push(Step::Deliver(endpoint.clone()));
        Ok(endpoint)
    }

    fn unregister(&mut self, id: RegistrationId) {
        let Some(gone) = self.deliveries.unregister(id) else { return };
        let mut forsaken: Vec<Handle> = gone.waiting.into_values().collect();
        for delivery in gone.open {
            if !gone.endpoint.is_singleton() {
                forsaken.extend(self.deliveries.bundle_of(delivery));
            }
            self.put_back(delivery, true);
        }
        if !forsaken.is_empty() {
            self.work.push(Step::Forsake(forsaken));
        }
        self.work.push(Step::Deliver(gone.endpoint));
    }

    /// Ends a delivery without success and reopens its window. With `line_up` the bundle returns to its queue, marked
    /// as possibly received before.
    // 9171-5.7-4, 9171-5.7-5, 5050-3.1-3
    pub(crate) fn put_back(&mut self, delivery: DeliveryId, line_up: bool) {
        let Some((registration, bundle)) = self.deliveries.end(delivery) else { return };
        if line_up {
            if let Some(held) = self.book.get_mut(bundle).filter(|held| held.has(RetentionConstraint::Deliver)) {
                held.flags.set(Flags::SEEN_BEFORE, true);
            }
            self.deliveries.set_share(bundle, registration, Share::Again);
            self.await_delivery(bundle);
        }
        let endpoint = self.deliveries.open_window(registration);
        self.work.extend(endpoint.map(Step::Deliver));
    }

    /// Delivers a bundle addressed to this node (RFC 9171 5.7): joins a fragment, opens an outer bundle, consumes a
    /// record, or queues the bundle for its endpoint.
    // 9171-5.3-1, 9171-5.7-1, 5050-5.3-1, 5050-5.7-1
    pub(super) fn deliver_locally<S: Sink<Output>>(&mut self, cx: &mut Context<'_, S>, bundle: Handle) {
        let Some(held) = self.book.get(bundle) else { return };
        if held.bundle.facts.has(Facts::SEALED) {
            // RFC 9172 5.1.1: the destination discards a bundle whose payload it cannot decrypt.
            return self.depart(cx, bundle, Why::Deleted(DeleteReason::UnknownSecurity), None);
        }
        if held.bundle.fragment().is_some() {
            return self.join(cx, bundle);
        }
        if self.comes_through_tunnel(held) {
            return self.open_outer(bundle, cx.out);
        }
        if held.bundle.is_administrative() && self.take_record(cx, bundle) {
            return self.depart(cx, bundle, Why::Delivered, None);
        }
        self.book.hold(bundle, RetentionConstraint::Deliver);
        let last = self.book.release(bundle, RetentionConstraint::Route);
        debug_assert!(!last, "it is to be delivered");
        self.await_delivery(bundle);
    }

    /// Consumes an administrative record that no application is to receive: a custody signal, a hello, a record that
    /// cannot be parsed, or one for the node ID itself if no application is registered there. Returns whether it was
    /// consumed.
    fn take_record<S: Sink<Output>>(&mut self, cx: &mut Context<'_, S>, bundle: Handle) -> bool {
        let Some(held) = self.book.get(bundle) else { return false };
        let destination = &self.mailbox(held);
        let record = match cx.edge.record(&held.bundle) {
            Record::Custody(signals) if destination.is_node_id() && self.deals_in_custody() => {
                return self.on_custody_signal(bundle, signals, cx.out);
            }
            record => record,
        };
        match record {
            Record::Other | Record::Custody(_) => {
                !self.deliveries.has_listener(destination) && destination.is_node_id()
            }
            Record::Hello(_) => true,
            // A payload on disk is not parsed here, but delivered to the registered application.
            Record::Unreadable => !held.bundle.payload.is_stored(),
        }
    }

    /// Queues a bundle for its endpoint once it is durable. If it were delivered earlier and the node crashed before
    /// the commit, the node would receive it again and deliver it without marking the delivery as a repetition.
    // 9171-5.7-4, 9171-5.7-5, 5050-3.1-3, 5050-3.1-5, 5050-5.7-4
    pub(crate) fn await_delivery(&mut self, bundle: Handle) {
        let Some(held) = self.book.get(bundle) else { return };
        if held.bundle.is_for_group() {
            return self.await_members(bundle);
        }
        if !held.has(RetentionConstraint::Deliver) || self.deliveries.is_open(bundle) || !self.is_durable(held) {
            return;
        }
        if self.comes_through_tunnel(held) {
            return self.work.push(Step::Outer(bundle));
        }
        let endpoint = self.mailbox(held);
        self.deliveries.line_up(endpoint.clone(), held);
        self.work.push(Step::Deliver(endpoint));
    }

    /// Whether an application here waits for a bundle and may receive it through reserved room: its queue is empty, and
    /// its unanswered deliveries take little of that room. An application that does not read therefore takes none of
    /// it.
    pub(super) fn is_awaited(&self, held: &Held) -> bool {
        let most = self.settings.limits.reserved_bytes / UNANSWERED_PART;
        self.deliveries.has_reader(&self.mailbox(held), held.bundle.payload.len(), most)
    }

    fn next_delivery(&mut self, endpoint: &EndpointId) -> Option<(RegistrationId, DeliveryId, Handle)> {
        // Payloads of unanswered deliveries occupy memory like those of bundles that wait for links, so the same bound
        // applies.
        self.deliveries.next(&self.book, endpoint, self.settings.limits.memory_bytes)
    }

    /// Delivers one waiting bundle to a registration with room, and queues itself again.
    // 9171-5.7-3, 5050-3.1-4, 5050-5.7-3
    pub(crate) fn pump_deliveries<S: Sink<Output>>(&mut self, cx: &mut Context<'_, S>, endpoint: &EndpointId) {
        let Some((registration, delivery, bundle)) = self.next_delivery(endpoint) else { return };
        self.work.push(Step::Deliver(endpoint.clone()));
        let Some(held) = self.book.get(bundle) else { return };
        // The lifetime may have ended while the bundle waited (RFC 9171 5.5).
        if held.expires <= cx.now {
            let why = Why::Deleted(self.over(cx.now, held));
            // The application never gets this delivery, so its answer would never free the window.
            self.put_back(delivery, false);
            return self.depart(cx, bundle, why, None);
        }
        let meta = &held.bundle;
        let again = self.deliveries.has_share(bundle, |id, share| (id, share) == (registration, Share::Again));
        let bundle = Delivery {
            source: meta.source.clone(),
            destination: meta.destination.clone(),
            creation: meta.creation(),
            lifetime_ms: meta.lifetime_ms,
            facts: meta.facts,
            redelivered: again || held.flags.has(Flags::SEEN_BEFORE),
            payload: meta.payload.clone(),
        };
        let (meta, guarded) = (meta.clone(), cx.edge.guards(meta));
        let output = AppOutput::Deliver { registration, delivery, bundle };
        cx.out.push(if guarded { Output::Open { output, bundle: meta } } else { Output::App(output) });
    }

    /// Deletes a bundle whose delivery was stopped by the verification of its security blocks (RFC 9172 5.1).
    pub(crate) fn on_insecure<S: Sink<Output>>(
        &mut self,
        cx: &mut Context<'_, S>,
        delivery: DeliveryId,
        reason: DeleteReason,
    ) {
        let Some(bundle) = self.deliveries.bundle_of(delivery) else { return };
        self.put_back(delivery, false);
        self.depart(cx, bundle, Why::Deleted(reason), None);
    }

    fn on_delivery_done<S: Sink<Output>>(
        &mut self,
        cx: &mut Context<'_, S>,
        registration: RegistrationId,
        delivery: DeliveryId,
        taken: bool,
    ) {
        let Some((_, bundle)) = self.deliveries.unanswered(delivery).filter(|(to, _)| *to == registration) else {
            return;
        };
        if !taken || !self.deliveries.is_held(bundle, delivery) {
            self.put_back(delivery, true);
            return;
        }
        self.deliveries.end(delivery);
        self.event(cx.out, Event::Delivered { bundle: self.number(bundle) });
        // One report suffices for all members of a group here, because it is about this node.
        if !self.deliveries.was_had(bundle) {
            self.report(cx, bundle, Status::Delivered, DeleteReason::Done);
        }
        let Some(held) = self.book.get(bundle) else { return };
        if held.bundle.is_for_group() {
            self.deliveries.set_share(bundle, registration, Share::Had);
            let endpoint = self.deliveries.open_window(registration);
            self.work.extend(endpoint.map(Step::Deliver));
            return self.settle_members(cx, bundle);
        }
        let (remember, anonymous) = (self.remembrance(cx.now, held, cx.edge), held.bundle.is_anonymous());
        let record = self.fragments.parts(bundle).first().and_then(|part| self.book.get(*part)).unwrap_or(held);
        // The window reopens only once the delivery is durably remembered: a crash then repeats at most one window.
        if self.settings.durable {
            self.deliveries.release_with(record.number, registration);
        } else {
            let endpoint = self.deliveries.open_window(registration);
            self.work.extend(endpoint.map(Step::Deliver));
        }
        let pieces = self.pieces_of(held);
        self.depart(cx, bundle, Why::Delivered, Some(remember).filter(|_| !anonymous));
        // Waiting fragments of the delivered bundle would otherwise stay until they expire.
        for piece in pieces {
            self.depart(cx, piece, Why::Forwarded, None);
        }
    }

    /// Waiting fragments that a whole bundle replaces: those that no link vouches for, and, if a link vouches for the
    /// whole, those that do not differ from it.
    fn pieces_of(&self, whole: &Held) -> Vec<Handle> {
        let strange = self.is_unvouched(whole.handle());
        let mut pieces = self.fragments.of(whole.bundle.original_id());
        pieces.retain(|piece| {
            let Some((held, at)) = self.book.get(*piece).and_then(|held| Some((held, held.bundle.fragment()?))) else {
                return false;
            };
            let is_its = || {
                let range = whole.bundle.payload.slice(at.offset, held.bundle.payload.len());
                at.total == whole.bundle.payload.len() && range.same(&held.bundle.payload) != Some(false)
            };
            held.flags.has(Flags::STRANGE) || (!strange && is_its())
        });
        pieces
    }

    /// Reopens the delivery window that waits for the deletion of this record in the store.
    pub(super) fn on_deleted(&mut self, bundle: BundleHandle) {
        let releasing = self.deliveries.made().and_then(|deliveries| deliveries.released(bundle.0));
        let Some(registration) = releasing else { return };
        let endpoint = self.deliveries.open_window(registration);
        self.work.extend(endpoint.map(Step::Deliver));
    }

    /// Removes a departing bundle from the queues of all applications and detaches it from their deliveries.
    pub(super) fn withdraw(&mut self, bundle: Handle) {
        let Some(held) =
            self.book.get(bundle).filter(|held| held.has(RetentionConstraint::Deliver) || held.bundle.is_for_group())
        else {
            return;
        };
        let endpoint = self.mailbox(held);
        let Some(deliveries) = self.deliveries.made() else { return };
        deliveries.step_out(&endpoint, held);
        deliveries.unshare(held);
        deliveries.let_go(bundle);
    }
}
