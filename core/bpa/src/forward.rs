//! Forwarding (RFC 9171 5.4): from a link's queue to its convergence layer, at the link's pace and
//! within its contacts; fragmentation (5.8).

use crate::agent::{Agent, Sending, Step, Timer};
use crate::held::Place;
use crate::io::Output;
use crate::link::{Link, QueueEntry};
use crate::settings::LinkSettings;
use alloc::boxed::Box;
use alloc::string::String;
use farlink_base::layer::SendId;
use farlink_base::{
    BundleHandle, DeleteReason, Duration, Event, Instant, LinkId, NodeId, Payload, Refusal, Sink, store,
};
use farlink_bundle::{Bundle, EndpointId, fragment};
use farlink_routing::{ContactChange, Outcome, Question};

/// Bundles of one link read from the store ahead of their turn.
const LOADS_AHEAD: usize = 8;
/// Queue places looked at for a bundle that still fits the contact.
const FIT_SCAN: usize = 64;
/// A contact's remainder smaller than this is left unused rather than filled with a fragment.
const FRAGMENT_MIN: u64 = 4096;

impl Agent {
    /// Moves bundles from a link's queue to its layer while both allow it.
    pub(crate) fn pump<S: Sink<Output>>(&mut self, now: Instant, link: LinkId, out: &mut S) {
        while self.pump_one(now, link, out) {}
    }

    fn pump_one<S: Sink<Output>>(&mut self, now: Instant, link: LinkId, out: &mut S) -> bool {
        let Some(l) = self.links.get_mut(&link) else { return false };
        if !l.ready || !l.is_up(now) || (l.queue.is_empty() && l.loaded.is_empty()) {
            return false;
        }
        if l.may_send_at() > now {
            if !l.pace_armed {
                l.pace_armed = true;
                let at = l.may_send_at();
                self.timers.arm(at, Timer::Pace(link));
            }
            return false;
        }
        if let Some((handle, entry)) = l.loaded.pop_front() {
            self.transmit(now, link, handle, entry, out);
            return true;
        }
        if l.loading.len() >= LOADS_AHEAD {
            return false;
        }
        let Some(key) = Self::next_fitting(l, now) else {
            return self.fill_contact(now, link, out);
        };
        let Some(entry) = l.dequeue(&key) else { return false };
        self.leave_queue(key.bundle, entry, link);
        let handle = key.bundle;
        let stored = self.bundles.get(&handle).is_some_and(|h| h.loaded.is_none() && h.bundle.payload.is_stored());
        if stored {
            if let Some(l) = self.links.get_mut(&link) {
                l.loading.insert(handle, entry);
            }
            out.push(Output::Store(store::Input::Load { bundle: handle }));
        } else {
            self.transmit(now, link, handle, entry, out);
        }
        true
    }

    /// The most urgent queued bundle that fits what is left of the contact.
    fn next_fitting(link: &Link, now: Instant) -> Option<crate::link::QueueKey> {
        let Some(room) = link.room_in_contact(now) else {
            return link.queue.keys().next().copied();
        };
        link.queue.iter().take(FIT_SCAN).find(|(_, entry)| entry.size <= room).map(|(key, _)| *key)
    }

    fn leave_queue(&mut self, handle: BundleHandle, entry: QueueEntry, link: LinkId) {
        if entry.copy.is_some() {
            return;
        }
        let Some(held) = self.bundles.get_mut(&handle) else { return };
        if let Place::Queued { until: Some(key), .. } = held.place {
            self.timers.cancel(key);
        }
        held.place = Place::Loading { link };
    }

    /// Nothing queued fits the rest of the contact whole: cut the first bundle that may be cut.
    fn fill_contact<S: Sink<Output>>(&mut self, now: Instant, link: LinkId, out: &mut S) -> bool {
        let Some(l) = self.links.get(&link) else { return false };
        let room = l.room_in_contact(now).unwrap_or(0);
        let first = l.queue.iter().find(|(_, e)| e.copy.is_none()).map(|(k, _)| k.bundle);
        let Some(handle) = first else { return false };
        let Some(held) = self.bundles.get(&handle) else { return false };
        let overhead = held.view.size - held.view.payload_size + 64;
        if !held.view.may_fragment || room < overhead + FRAGMENT_MIN {
            return false;
        }
        let first_payload = room - overhead;
        if first_payload >= held.view.payload_size {
            return false;
        }
        let view = held.view.clone();
        self.unlink(handle);
        self.tell_router_outcome(now, &view, Outcome::Failed { link });
        self.cut(now, handle, first_payload, out)
    }

    /// Replaces a bundle by two fragments; false when it cannot be cut there.
    pub(crate) fn cut<S: Sink<Output>>(&mut self, now: Instant, handle: BundleHandle, first: u64, out: &mut S) -> bool {
        let Some(held) = self.bundles.get(&handle) else { return false };
        let from = held.view.received_from;
        let (received, expires, age_ms) = (held.received, held.view.expires, held.age_ms);
        if held.bundle.payload.is_stored() && held.loaded.is_none() {
            // The pieces are records of their own: their bytes must be in memory.
            if let Some(held) = self.bundles.get_mut(&handle) {
                held.place = Place::Cutting { first };
            }
            out.push(Output::Store(store::Input::Load { bundle: handle }));
            return true;
        }
        let mut whole = held.bundle.clone();
        if let Some(loaded) = &held.loaded {
            whole.payload = loaded.clone();
        }
        let Some((head, tail)) = fragment(&whole, first) else {
            self.steps.push_back(Step::Dispatch(handle));
            return false;
        };
        for mut piece in [head, tail] {
            piece.seal(&self.settings.accel);
            let size = piece.encoded_len();
            let view = self.view(now, &piece, size, from, expires.since(now));
            let fingerprint = piece.id().fingerprint();
            let into = self.keep(now, piece, view, fingerprint, age_ms);
            if let Some(held) = self.bundles.get_mut(&into) {
                held.received = received;
            }
            self.event_seen(into, out);
            self.event(out, Event::Fragmented { bundle: handle, into });
            self.put(now, into, out);
            self.steps.push_back(Step::Dispatch(into));
        }
        self.release(now, handle, DeleteReason::Done, None, out);
        true
    }

    /// RFC 9171 5.4 step 4: changes the bundle for this hop and hands it over.
    fn transmit<S: Sink<Output>>(
        &mut self,
        now: Instant,
        link: LinkId,
        handle: BundleHandle,
        entry: QueueEntry,
        out: &mut S,
    ) {
        let Some(bundle) = self.outgoing(now, handle) else { return };
        let id = SendId(self.next_send);
        self.next_send += 1;
        if let Some(held) = self.bundles.get_mut(&handle) {
            held.loaded = None;
            if entry.copy.is_none() {
                held.place = Place::InFlight { link, send: id };
            }
        }
        self.sends.insert(id, Sending { bundle: handle, link, next_hop: entry.next_hop, copy: entry.copy });
        if let Some(l) = self.links.get_mut(&link) {
            l.in_flight += 1;
            l.charge(now, entry.size);
        }
        let reliable = bundle.qos().is_none_or(|q| q.flags & 0x01 == 0);
        self.event(out, Event::Transmitting { bundle: handle, link });
        out.push(Output::Send { link, id, bundle: Box::new(bundle), reliable });
    }

    /// The bundle as it leaves: previous node, age and hop count brought up to date.
    fn outgoing(&self, now: Instant, handle: BundleHandle) -> Option<Bundle> {
        let held = self.bundles.get(&handle)?;
        let mut bundle = held.bundle.clone();
        if let Some(loaded) = &held.loaded {
            bundle.payload = loaded.clone();
        }
        // RFC 9171 4.4.1: none at the source.
        if self.settings.previous_node_block && held.view.received_from.is_some() {
            bundle.set_previous_node(self.node_id());
        }
        if let Some(age_ms) = held.age_ms {
            bundle.set_age(self.age_now_ms(now, held.received, age_ms));
        }
        bundle.increment_hop();
        Some(bundle)
    }

    pub(crate) fn on_sent<S: Sink<Output>>(&mut self, now: Instant, id: SendId, out: &mut S) {
        let Some(sending) = self.sends.remove(&id) else { return };
        let Sending { bundle: handle, link, copy, .. } = sending;
        if let Some(l) = self.links.get_mut(&link) {
            l.in_flight = l.in_flight.saturating_sub(1);
        }
        self.event(out, Event::Forwarded { bundle: handle, link });
        let Some(held) = self.bundles.get_mut(&handle) else { return };
        let view = held.view.clone();
        if let Some(split) = copy {
            held.view.copies = held.view.copies.saturating_sub(split).max(1);
        }
        self.tell_router_outcome(now, &view, Outcome::Sent { link });
        self.report_forwarding(now, handle, out);
        if copy.is_none() {
            self.release(now, handle, DeleteReason::Done, None, out);
        }
    }

    pub(crate) fn on_send_failed<S: Sink<Output>>(
        &mut self,
        now: Instant,
        id: SendId,
        refused: Option<Refusal>,
        out: &mut S,
    ) {
        if refused == Some(Refusal::Duplicate) {
            return self.on_sent(now, id, out);
        }
        let Some(sending) = self.sends.remove(&id) else { return };
        let Sending { bundle: handle, link, next_hop, copy } = sending;
        if let Some(l) = self.links.get_mut(&link) {
            l.in_flight = l.in_flight.saturating_sub(1);
        }
        self.event(out, Event::ForwardFailed { bundle: handle, link });
        let Some(held) = self.bundles.get_mut(&handle) else { return };
        held.failures += 1;
        let view = held.view.clone();
        if copy.is_some() {
            held.given.retain(|n| *n != next_hop);
        } else {
            held.place = Place::New;
        }
        if refused == Some(Refusal::TooLarge) && copy.is_none() && self.halve(now, handle, link, out) {
            return;
        }
        let Some(held) = self.bundles.get_mut(&handle) else { return };
        // A refusal means the neighbour will not have it now; a lost session says nothing of it,
        // unless it happens again and again.
        let try_others = refused.is_some() || held.failures > 3;
        if try_others && !held.view.excluded.contains(&next_hop) {
            held.view.excluded.push(next_hop);
        }
        self.tell_router_outcome(now, &view, Outcome::Failed { link });
        if copy.is_none() {
            self.steps.push_back(Step::Dispatch(handle));
        }
    }

    /// The neighbour takes no bundle of this size: cuts it in two (RFC 9171 5.8). Halves that are
    /// still too large come here again.
    fn halve<S: Sink<Output>>(&mut self, now: Instant, handle: BundleHandle, link: LinkId, out: &mut S) -> bool {
        let Some(view) = self.bundles.get(&handle).map(|h| h.view.clone()) else { return false };
        if !view.may_fragment || view.payload_size < 2 * FRAGMENT_MIN {
            return false;
        }
        self.tell_router_outcome(now, &view, Outcome::Failed { link });
        self.cut(now, handle, view.payload_size / 2, out)
    }

    /// A payload is in memory again.
    pub(crate) fn on_loaded<S: Sink<Output>>(
        &mut self,
        now: Instant,
        handle: BundleHandle,
        result: Result<Payload, Refusal>,
        out: &mut S,
    ) {
        let Ok(payload) = result else {
            // Damaged on disk: it cannot be sent or delivered any more.
            return self.delete(now, handle, DeleteReason::DepletedStorage, out);
        };
        let Some(held) = self.bundles.get_mut(&handle) else { return };
        held.loaded = Some(payload);
        match held.place {
            Place::Delivering { .. } => return self.hand_over(handle, out),
            Place::Fragment => return self.add_fragment(now, handle, out),
            Place::Cutting { first } => {
                held.place = Place::New;
                self.cut(now, handle, first, out);
                return;
            }
            _ => {}
        }
        for l in self.links.values_mut() {
            if let Some(entry) = l.loading.remove(&handle) {
                l.loaded.push_back((handle, entry));
                self.steps.push_back(Step::Pump(l.id));
            }
        }
    }

    pub(crate) fn on_carrier<S: Sink<Output>>(&mut self, now: Instant, link: LinkId, up: bool, out: &mut S) {
        if let Some(l) = self.links.get_mut(&link) {
            l.carrier = up;
        }
        self.tell_links(now, out);
    }

    pub(crate) fn on_peer_up<S: Sink<Output>>(
        &mut self,
        now: Instant,
        link: LinkId,
        node_id: Option<String>,
        node: Option<NodeId>,
        out: &mut S,
    ) {
        if !link.is_dynamic() || self.links.contains_key(&link) {
            return;
        }
        let dynamic = self.links.keys().filter(|l| l.is_dynamic()).count();
        if dynamic >= self.settings.limits.dynamic_links {
            return;
        }
        let peer = match (&node_id, node) {
            (Some(text), _) => text.parse::<EndpointId>().unwrap_or(EndpointId::Null),
            (None, Some(node)) => self.names.endpoint(node),
            (None, None) => EndpointId::Null,
        };
        let settings = LinkSettings {
            link,
            name: node_id.unwrap_or_else(|| alloc::format!("{}", link.0)),
            peer: peer.clone(),
            rate: None,
            one_way_delay: Duration::ZERO,
            wire_bytes_per_million: 1_000_000,
        };
        let node = self.names.node(&peer);
        self.links.insert(link, Box::new(Link::new(&settings, node)));
        self.tell_links(now, out);
    }

    pub(crate) fn on_peer_down<S: Sink<Output>>(&mut self, now: Instant, link: LinkId, out: &mut S) {
        if !link.is_dynamic() {
            return;
        }
        let Some(l) = self.links.remove(&link) else { return };
        let entries = l.queue.keys().map(|k| k.bundle);
        for handle in entries.chain(l.loading.keys().copied()).chain(l.loaded.iter().map(|(b, _)| *b)) {
            if let Some(held) = self.bundles.get_mut(&handle) {
                if matches!(held.place, Place::Queued { .. } | Place::Loading { .. }) {
                    held.place = Place::New;
                    self.steps.push_back(Step::Dispatch(handle));
                }
            }
        }
        if l.said_up {
            self.event(out, Event::LinkDown { link });
            self.router.on_contact(now, ContactChange::Down { peer: l.peer, link }, &mut self.router_said);
        }
    }

    /// Offers stored bundles to a neighbour that came up (replicating routers).
    pub(crate) fn offer_stored(&mut self, now: Instant, peer: NodeId, link: LinkId) {
        if !self.router.replicates() {
            return;
        }
        let waiting: alloc::vec::Vec<BundleHandle> = self.waiting.iter().copied().collect();
        let mut proposals = alloc::vec::Vec::new();
        for handle in waiting {
            let Some(held) = self.bundles.get(&handle) else { continue };
            proposals.clear();
            self.router.propose(now, Question::Peer { peer, link, bundle: &held.view }, &mut proposals);
            if !proposals.is_empty() {
                self.steps.push_back(Step::Dispatch(handle));
            }
        }
    }
}
