//! Local delivery (RFC 9171 5.7): registrations, deliveries and their answers; reassembly (5.9).

use crate::agent::{Agent, Step};
use crate::app::{AppInput, AppOutput, Delivery, DeliveryId, RegistrationId};
use crate::held::Place;
use crate::io::Output;
use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::cmp::Reverse;
use farlink_base::{BundleHandle, DeleteReason, Event, Instant, NodeId, Priority, Refusal, Sink, store};
use farlink_bundle::{Bundle, EndpointId, Reassembly};

/// Node number that stands for "this node" (RFC 9758 3.4.2).
const LOCAL_NODE: u64 = u32::MAX as u64;

/// One endpoint of this node.
#[derive(Default)]
pub(crate) struct Endpoint {
    /// Who receives there.
    pub registrations: Vec<RegistrationId>,
    /// Bundles nobody took yet, most urgent first.
    pub waiting: BTreeSet<(Reverse<Priority>, BundleHandle)>,
}

/// One registration.
pub(crate) struct Registration {
    pub endpoint: EndpointId,
    pub window: u32,
    pub in_flight: u32,
}

impl Agent {
    pub(crate) fn on_app<S: Sink<Output>>(&mut self, now: Instant, input: AppInput, out: &mut S) {
        match input {
            AppInput::Register { registration, endpoint, window } => {
                let result = self.register(registration, &endpoint, window);
                out.push(Output::App(AppOutput::Registered { registration, result }));
            }
            AppInput::Unregister { registration } => self.unregister(registration),
            AppInput::Send { request, bundle } => self.on_send(now, request, bundle, out),
            AppInput::DeliveryDone { registration, delivery, taken } => {
                self.on_delivery_done(now, registration, delivery, taken, out);
            }
        }
    }

    /// What an endpoint given by an application means here; `None` when it is another node's.
    pub(crate) fn local_endpoint(&mut self, endpoint: &EndpointId) -> Option<EndpointId> {
        match endpoint {
            EndpointId::Null => Some(EndpointId::Null),
            EndpointId::Ipn { node: LOCAL_NODE, service } => {
                let node = self.settings.node_ids.iter().find_map(EndpointId::ipn_node)?;
                Some(EndpointId::Ipn { node, service: *service })
            }
            EndpointId::Dtn { node, demux } if node.is_empty() => {
                self.settings.node_ids.iter().find_map(|id| match id {
                    EndpointId::Dtn { node, .. } => Some(EndpointId::Dtn { node: node.clone(), demux: demux.clone() }),
                    _ => None,
                })
            }
            EndpointId::Unknown { .. } => None,
            other => {
                let node = self.names.node(other);
                (node != NodeId::NULL && self.is_local(node)).then(|| other.clone())
            }
        }
    }

    fn register(&mut self, id: RegistrationId, wanted: &EndpointId, window: u32) -> Result<EndpointId, Refusal> {
        if self.registrations.len() >= self.settings.limits.registrations {
            return Err(Refusal::NoResources);
        }
        let endpoint = self.local_endpoint(wanted).filter(|e| !e.is_null()).ok_or(Refusal::Unknown)?;
        let registration = Registration { endpoint: endpoint.clone(), window: window.max(1), in_flight: 0 };
        self.registrations.insert(id, registration);
        self.endpoints.entry(endpoint.clone()).or_default().registrations.push(id);
        self.steps.push_back(Step::Deliver(endpoint.clone()));
        Ok(endpoint)
    }

    fn unregister(&mut self, id: RegistrationId) {
        let Some(registration) = self.registrations.remove(&id) else { return };
        let unanswered: Vec<BundleHandle> = self
            .bundles
            .iter()
            .filter(|(_, held)| match held.place {
                Place::Delivering { delivery } => self.deliveries.get(&delivery).is_some_and(|(r, _)| *r == id),
                _ => false,
            })
            .map(|(handle, _)| *handle)
            .collect();
        for handle in unanswered {
            self.put_back(handle);
        }
        if let Some(endpoint) = self.endpoints.get_mut(&registration.endpoint) {
            endpoint.registrations.retain(|r| *r != id);
            if endpoint.registrations.is_empty() && endpoint.waiting.is_empty() {
                self.endpoints.remove(&registration.endpoint);
            } else {
                self.steps.push_back(Step::Deliver(registration.endpoint));
            }
        }
    }

    /// A delivery that was not answered goes back to its endpoint, marked as possibly seen.
    fn put_back(&mut self, handle: BundleHandle) {
        let Some(held) = self.bundles.get_mut(&handle) else { return };
        if let Place::Delivering { delivery } = held.place {
            self.deliveries.remove(&delivery);
        }
        held.place = Place::ForDelivery;
        held.recovered = true;
        let place = (Reverse(held.view.priority), handle);
        self.endpoints.entry(held.bundle.primary.destination.clone()).or_default().waiting.insert(place);
    }

    /// RFC 9171 5.7: a bundle for this node.
    pub(crate) fn deliver_locally<S: Sink<Output>>(&mut self, now: Instant, handle: BundleHandle, out: &mut S) {
        let Some(held) = self.bundles.get_mut(&handle) else { return };
        if held.bundle.primary.fragment.is_some() {
            held.place = Place::Fragment;
            if held.bundle.payload.is_stored() {
                out.push(Output::Store(store::Input::Load { bundle: handle }));
            } else {
                self.add_fragment(now, handle, out);
            }
            return;
        }
        if held.bundle.is_administrative() && self.take_administrative(now, handle, out) {
            self.report_delivery(now, handle, out);
            return self.release(now, handle, DeleteReason::Done, None, out);
        }
        let Some(held) = self.bundles.get_mut(&handle) else { return };
        held.place = Place::ForDelivery;
        if held.durable {
            self.await_delivery(handle);
        }
    }
    /// A durable bundle takes its place among those its endpoint waits for. One that is not durable
    /// yet would be delivered twice without a mark: its node dies, forgets it, and gets it again.
    pub(crate) fn await_delivery(&mut self, handle: BundleHandle) {
        let Some(held) = self.bundles.get(&handle) else { return };
        let destination = held.bundle.primary.destination.clone();
        let place = (Reverse(held.view.priority), handle);
        self.endpoints.entry(destination.clone()).or_default().waiting.insert(place);
        self.steps.push_back(Step::Deliver(destination));
    }

    /// Hands waiting bundles to registrations that have room.
    pub(crate) fn pump_deliveries<S: Sink<Output>>(&mut self, _now: Instant, endpoint: &EndpointId, out: &mut S) {
        loop {
            let Some(e) = self.endpoints.get_mut(endpoint) else { return };
            let free = e
                .registrations
                .iter()
                .copied()
                .find(|id| self.registrations.get(id).is_some_and(|r| r.in_flight < r.window));
            let (Some(registration), Some(place)) = (free, e.waiting.first().copied()) else { return };
            e.waiting.remove(&place);
            let handle = place.1;
            let delivery = DeliveryId(self.next_delivery);
            self.next_delivery += 1;
            let Some(held) = self.bundles.get_mut(&handle) else { continue };
            held.place = Place::Delivering { delivery };
            if let Some(r) = self.registrations.get_mut(&registration) {
                r.in_flight += 1;
            }
            self.deliveries.insert(delivery, (registration, handle));
            if held.bundle.payload.is_stored() && held.loaded.is_none() {
                out.push(Output::Store(store::Input::Load { bundle: handle }));
            } else {
                self.hand_over(handle, out);
            }
        }
    }

    /// Gives a delivery, its payload being in memory, to the application.
    pub(crate) fn hand_over<S: Sink<Output>>(&mut self, handle: BundleHandle, out: &mut S) {
        let Some(held) = self.bundles.get_mut(&handle) else { return };
        let Place::Delivering { delivery } = held.place else { return };
        let Some((registration, _)) = self.deliveries.get(&delivery).copied() else { return };
        let primary = &held.bundle.primary;
        let bundle = Delivery {
            source: primary.source.clone(),
            destination: primary.destination.clone(),
            creation: primary.creation,
            lifetime_ms: primary.lifetime_ms,
            flags: primary.flags.0,
            redelivered: held.recovered,
            payload: held.loaded.take().unwrap_or_else(|| held.bundle.payload.clone()),
        };
        out.push(Output::App(AppOutput::Deliver { registration, delivery, bundle }));
    }

    fn on_delivery_done<S: Sink<Output>>(
        &mut self,
        now: Instant,
        registration: RegistrationId,
        delivery: DeliveryId,
        taken: bool,
        out: &mut S,
    ) {
        let Some((owner, handle)) = self.deliveries.get(&delivery).copied() else { return };
        if owner != registration {
            return;
        }
        let Some(endpoint) = self.registrations.get(&registration).map(|r| r.endpoint.clone()) else { return };
        if !taken {
            self.put_back(handle);
            if let Some(r) = self.registrations.get_mut(&registration) {
                r.in_flight = r.in_flight.saturating_sub(1);
            }
            return self.steps.push_back(Step::Deliver(endpoint));
        }
        self.deliveries.remove(&delivery);
        self.event(out, Event::Delivered { bundle: handle });
        self.report_delivery(now, handle, out);
        let Some(held) = self.bundles.get_mut(&handle) else { return };
        held.place = Place::New;
        let remember = {
            let held = &self.bundles[&handle];
            self.remembered(now, held)
        };
        self.delivered.insert(remember.fingerprint);
        // The window opens again only once the delivery is durably remembered: a crash then repeats
        // at most what is in the window.
        self.releasing.insert(handle, registration);
        self.release(now, handle, DeleteReason::Done, Some(remember), out);
    }

    /// The store forgot a bundle (and remembers its delivery).
    pub(crate) fn on_deleted(&mut self, handle: BundleHandle) {
        let Some(registration) = self.releasing.remove(&handle) else { return };
        if let Some(r) = self.registrations.get_mut(&registration) {
            r.in_flight = r.in_flight.saturating_sub(1);
            self.steps.push_back(Step::Deliver(r.endpoint.clone()));
        }
    }

    /// RFC 9171 5.9: a fragment for this node.
    pub(crate) fn add_fragment<S: Sink<Output>>(&mut self, now: Instant, handle: BundleHandle, out: &mut S) {
        let Some(held) = self.bundles.get_mut(&handle) else { return };
        let mut piece = held.bundle.clone();
        if let Some(loaded) = held.loaded.take() {
            piece.payload = loaded;
        }
        let (expires, from) = (held.view.expires, held.view.received_from);
        match self.reassembler.add(handle, piece, expires) {
            Reassembly::Waiting => {}
            Reassembly::Redundant => self.release(now, handle, DeleteReason::Done, None, out),
            Reassembly::Refused(_) => {
                if let Some(held) = self.bundles.get_mut(&handle) {
                    held.place = Place::New;
                }
                self.delete(now, handle, DeleteReason::DepletedStorage, out);
            }
            Reassembly::Complete { bundle, keys } => {
                self.on_reassembled(now, bundle, from, expires, out);
                for key in keys {
                    if let Some(held) = self.bundles.get_mut(&key) {
                        held.place = Place::New;
                    }
                    self.release(now, key, DeleteReason::Done, None, out);
                }
            }
        }
    }

    fn on_reassembled<S: Sink<Output>>(
        &mut self,
        now: Instant,
        bundle: Box<Bundle>,
        from: Option<NodeId>,
        expires: Instant,
        out: &mut S,
    ) {
        let fingerprint = bundle.id().fingerprint();
        if self.delivered.contains(fingerprint) || self.by_fingerprint.contains_key(&fingerprint) {
            return;
        }
        let size = bundle.encoded_len();
        let view = self.view(now, &bundle, size, from, expires.since(now));
        let age_ms = bundle.age_ms();
        let whole = self.keep(now, *bundle, view, fingerprint, age_ms);
        self.event_seen(whole, out);
        self.event(out, Event::Reassembled { bundle: whole });
        self.put(now, whole, out);
        self.steps.push_back(Step::Dispatch(whole));
    }
}
