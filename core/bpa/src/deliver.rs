//! Local delivery (RFC 9171 5.7): registrations, deliveries and their answers; reassembly (5.9).
//!
//! Owns the reason `Deliver`.

use crate::agent::{Agent, Step, deleted};
use crate::app::{AppInput, AppOutput, Delivery, DeliveryId, RegistrationId};
use crate::edge::{Edge, Record, Status};
use crate::fragments::Joined;
use crate::io::Output;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cmp::Reverse;
use farlink_base::{
    BundleHandle, DeleteReason, Empty, EndpointId, Event, Facts, Instant, NodeId, Payload, PeerId, Priority, Refusal,
    Sink,
};
use farlink_book::{Book, Flags, Handle, Held, New, Reason, Reasons, Why};

/// Place in an endpoint's line: most urgent first, then first come.
type Place = (Reverse<Priority>, u64);

/// One endpoint: who receives there, and what nobody took yet. In a group each has a line of its own.
#[derive(Debug, Default)]
struct Endpoint {
    registrations: Vec<RegistrationId>,
    waiting: BTreeMap<Place, Handle>,
}

/// One registration.
#[derive(Debug)]
struct Registration {
    endpoint: EndpointId,
    window: u32,
    /// Handed over and not answered, or answered and not durably remembered.
    in_flight: u32,
    open: BTreeSet<DeliveryId>,
    /// Payload bytes of those.
    bytes: u64,
    /// What a member of a group is to have next.
    waiting: BTreeMap<Place, Handle>,
}

/// What a member of a group has of a bundle.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Share {
    /// It is to have it.
    Owed,
    /// It is to have it, and perhaps saw it.
    Again,
    /// It has it.
    Had,
}

/// A delivery that is not answered.
#[derive(Clone, Copy, Debug)]
struct Open {
    registration: RegistrationId,
    bundle: Handle,
    /// Bytes of its payload.
    bytes: u64,
}

/// One registration has so large a part, as a divisor, of the bytes that all may leave unanswered.
const REGISTRATION_PART: u64 = 4;

/// One registration that is waited for leaves so large a part, as a divisor, of the room kept free unanswered.
const UNANSWERED_PART: u64 = 4;

/// Endpoints, registrations and deliveries of one node.
#[derive(Debug)]
pub(crate) struct Deliveries {
    endpoints: BTreeMap<EndpointId, Endpoint>,
    registrations: BTreeMap<RegistrationId, Registration>,
    open: BTreeMap<DeliveryId, Open>,
    /// Payload bytes of those.
    open_bytes: u64,
    /// The deliveries of each bundle that is with applications, and held still.
    of: BTreeSet<(Handle, DeliveryId)>,
    /// Who has, or is to have, held bundles for groups with members here.
    shares: BTreeMap<Handle, BTreeMap<RegistrationId, Share>>,
    /// Taken by an application; its window opens when the store has forgotten the bundle.
    releasing: BTreeMap<u64, RegistrationId>,
    last: u64,
}
impl Deliveries {
    const fn new() -> Self {
        Deliveries {
            endpoints: BTreeMap::new(),
            registrations: BTreeMap::new(),
            open: BTreeMap::new(),
            open_bytes: 0,
            of: BTreeSet::new(),
            shares: BTreeMap::new(),
            releasing: BTreeMap::new(),
            last: 0,
        }
    }
}
/// A relay delivers nothing.
impl Empty for Deliveries {
    type From = ();
    const EMPTY: &'static Self = &Deliveries::new();
    fn make((): ()) -> Self {
        Deliveries::new()
    }
}

fn place(held: &Held) -> Place {
    (Reverse(held.bundle.priority), held.number)
}

impl Deliveries {
    fn register(&mut self, id: RegistrationId, endpoint: EndpointId, window: u32) {
        let (window, open, waiting) = (window.max(1), BTreeSet::new(), BTreeMap::new());
        let registration = Registration { endpoint: endpoint.clone(), window, in_flight: 0, open, bytes: 0, waiting };
        self.registrations.insert(id, registration);
        self.endpoints.entry(endpoint).or_default().registrations.push(id);
    }
    /// Takes a registration away.
    fn unregister(&mut self, id: RegistrationId) -> Option<Registration> {
        let registration = self.registrations.remove(&id)?;
        if let Some(endpoint) = self.endpoints.get_mut(&registration.endpoint) {
            endpoint.registrations.retain(|r| *r != id);
        }
        self.tidy(&registration.endpoint);
        Some(registration)
    }
    /// Endpoints nobody uses leave nothing.
    fn tidy(&mut self, endpoint: &EndpointId) {
        if self.endpoints.get(endpoint).is_some_and(|e| e.registrations.is_empty() && e.waiting.is_empty()) {
            self.endpoints.remove(endpoint);
        }
    }
    fn line_up(&mut self, endpoint: EndpointId, held: &Held) {
        let endpoint = self.endpoints.entry(endpoint).or_default();
        endpoint.waiting.insert(place(held), held.handle());
    }
    /// Takes a bundle out of its line.
    fn step_out(&mut self, endpoint: &EndpointId, held: &Held) {
        if let Some(there) = self.endpoints.get_mut(endpoint) {
            there.waiting.remove(&place(held));
        }
        self.tidy(endpoint);
    }
    /// The next delivery at an endpoint, if a registration has room: in its window, and in the bytes that all may
    /// leave unanswered and its part of them. Each may have one bundle, however long.
    fn next(
        &mut self,
        book: &Book,
        endpoint: &EndpointId,
        bytes_max: u64,
    ) -> Option<(RegistrationId, DeliveryId, Handle)> {
        let e = self.endpoints.get_mut(endpoint)?;
        let (open_bytes, part) = (self.open_bytes, bytes_max / REGISTRATION_PART);
        let fits = |r: &Registration, bytes: u64| {
            open_bytes.saturating_add(bytes) <= bytes_max && r.bytes.saturating_add(bytes) <= part
        };
        let first = |id: &RegistrationId| {
            let r = self.registrations.get(id).filter(|r| r.in_flight < r.window)?;
            let (place, bundle) = r.waiting.first_key_value().or(e.waiting.first_key_value())?;
            let bytes = book.get(*bundle).map_or(0, |held| held.bundle.payload.len());
            (r.open.is_empty() || fits(r, bytes)).then_some((*id, *place, *bundle, bytes))
        };
        let (registration, place, bundle, bytes) = e.registrations.iter().find_map(first)?;
        self.last += 1;
        let delivery = DeliveryId(self.last);
        if let Some(r) = self.registrations.get_mut(&registration) {
            r.in_flight += 1;
            r.open.insert(delivery);
            r.bytes += bytes;
            r.waiting.remove(&place);
        }
        e.waiting.remove(&place);
        self.open.insert(delivery, Open { registration, bundle, bytes });
        self.open_bytes += bytes;
        self.of.insert((bundle, delivery));
        Some((registration, delivery, bundle))
    }
    /// A delivery to no application, but to this node itself.
    pub fn open_inside(&mut self, bundle: Handle, bytes: u64) -> DeliveryId {
        self.last += 1;
        let delivery = DeliveryId(self.last);
        self.open.insert(delivery, Open { registration: RegistrationId::TUNNEL, bundle, bytes });
        self.open_bytes += bytes;
        self.of.insert((bundle, delivery));
        delivery
    }
    /// Ends a delivery; its window stays taken.
    fn end(&mut self, delivery: DeliveryId) -> Option<(RegistrationId, Handle)> {
        let Open { registration, bundle, bytes } = self.open.remove(&delivery)?;
        self.of.remove(&(bundle, delivery));
        self.open_bytes -= bytes;
        if let Some(r) = self.registrations.get_mut(&registration) {
            r.open.remove(&delivery);
            r.bytes -= bytes;
        }
        Some((registration, bundle))
    }
    /// Opens a registration's window by one; gives its endpoint.
    fn open_window(&mut self, registration: RegistrationId) -> Option<EndpointId> {
        let r = self.registrations.get_mut(&registration)?;
        r.in_flight = r.in_flight.saturating_sub(1);
        Some(r.endpoint.clone())
    }
    /// Payload bytes of deliveries that are not answered.
    pub fn unanswered(&self) -> u64 {
        self.open_bytes
    }
    /// The bundle of a delivery.
    pub fn bundle_of(&self, delivery: DeliveryId) -> Option<Handle> {
        self.open.get(&delivery).map(|open| open.bundle)
    }
    /// Whether a bundle is with an application.
    pub fn is_open(&self, bundle: Handle) -> bool {
        self.open_of(bundle).next().is_some()
    }
    /// The deliveries of a bundle that are not answered.
    fn open_of(&self, bundle: Handle) -> impl Iterator<Item = DeliveryId> + '_ {
        let all = (bundle, DeliveryId(0))..=(bundle, DeliveryId(u64::MAX));
        self.of.range(all).map(|(_, delivery)| *delivery)
    }
    /// Notes who is in the group a bundle is for, and puts a durable one into the line of each that is to have it.
    /// Whether there is one.
    pub fn share(&mut self, held: &Held, durable: bool) -> bool {
        let bundle = held.handle();
        let Some(group) = self.endpoints.get(&held.bundle.destination) else { return false };
        let open = self.open_of(bundle).filter_map(|delivery| self.open.get(&delivery));
        let open: Vec<RegistrationId> = open.map(|open| open.registration).collect();
        let shares = self.shares.entry(bundle).or_default();
        let mut owed = false;
        for id in &group.registrations {
            let share = *shares.entry(*id).or_insert(Share::Owed);
            let Some(r) = self.registrations.get_mut(id).filter(|_| share != Share::Had) else { continue };
            owed = true;
            if durable && !open.contains(id) {
                r.waiting.insert(place(held), bundle);
            }
        }
        owed
    }
    /// Changes what a member has of a bundle for its group.
    fn set_share(&mut self, bundle: Handle, member: RegistrationId, to: Share) {
        if let Some(share) = self.shares.get_mut(&bundle).and_then(|shares| shares.get_mut(&member)) {
            *share = to;
        }
    }
    /// Whether some member of a group here has this of a bundle, and is a member still if it is to have it.
    fn has_share(&self, bundle: Handle, which: impl Fn(RegistrationId, Share) -> bool) -> bool {
        self.shares.get(&bundle).is_some_and(|shares| shares.iter().any(|(id, share)| which(*id, *share)))
    }
    /// Whether a member of a group here is still to have a bundle.
    pub fn owes(&self, bundle: Handle) -> bool {
        self.has_share(bundle, |id, share| share != Share::Had && self.registrations.contains_key(&id))
    }
    /// Whether a member of a group here had a bundle.
    pub fn was_had(&self, bundle: Handle) -> bool {
        self.has_share(bundle, |_, share| share == Share::Had)
    }
    /// A bundle for a group leaves.
    fn unshare(&mut self, held: &Held) {
        for (id, _) in self.shares.remove(&held.handle()).into_iter().flatten() {
            if let Some(r) = self.registrations.get_mut(&id) {
                r.waiting.remove(&place(held));
            }
        }
    }
    /// Bundles for groups with members here.
    #[cfg(feature = "audit")]
    pub fn shared(&self) -> impl Iterator<Item = Handle> + '_ {
        self.shares.keys().copied()
    }
    /// Whether it is one of those.
    #[cfg(feature = "audit")]
    pub fn is_shared(&self, bundle: Handle) -> bool {
        self.shares.contains_key(&bundle)
    }
    /// Whether anybody receives there.
    fn has_listener(&self, endpoint: &EndpointId) -> bool {
        self.endpoints.get(endpoint).is_some_and(|e| !e.registrations.is_empty())
    }
    /// Whether somebody there takes what comes: nothing waits, and so much more would leave at most so much unanswered.
    fn has_reader(&self, endpoint: &EndpointId, bytes: u64, most: u64) -> bool {
        let Some(e) = self.endpoints.get(endpoint).filter(|e| e.waiting.is_empty()) else { return false };
        e.registrations
            .iter()
            .filter_map(|id| self.registrations.get(id))
            .any(|r| r.waiting.is_empty() && (r.open.is_empty() || r.bytes.saturating_add(bytes) <= most))
    }
    /// Endpoints somebody registered.
    pub fn registered(&self) -> impl Iterator<Item = &EndpointId> {
        self.registrations.values().map(|r| &r.endpoint)
    }
    /// Bundles in line or with an application.
    #[cfg(feature = "audit")]
    pub fn bundles(&self) -> usize {
        let lines = self.endpoints.values().map(|endpoint| endpoint.waiting.len());
        let own = self.registrations.values().map(|registration| registration.waiting.len());
        self.of.len() + lines.chain(own).sum::<usize>()
    }
    fn len(&self) -> usize {
        self.registrations.len()
    }
}

impl Agent {
    pub(crate) fn on_app<S: Sink<Output>>(&mut self, now: Instant, input: AppInput, edge: &mut dyn Edge, out: &mut S) {
        match input {
            AppInput::Register { registration, endpoint, window } => {
                let result = self.register(registration, &endpoint, window);
                out.push(Output::App(AppOutput::Registered { registration, result }));
            }
            AppInput::Unregister { registration } => self.unregister(registration),
            AppInput::Send { request, bundle } => self.on_send(now, request, bundle, edge, out),
            AppInput::DeliveryDone { registration, delivery, taken } => {
                self.on_delivery_done(now, registration, delivery, taken, edge, out);
            }
        }
    }

    /// What an endpoint given by an application means here; `None` when it is another node's.
    // 9171-5.2-2, 5050-5.2-4
    pub(crate) fn local_endpoint(&self, endpoint: &EndpointId) -> Option<EndpointId> {
        match endpoint {
            EndpointId::Null => Some(EndpointId::Null),
            // RFC 9171 4.2.5.2: a source is one node's.
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

    /// Where a bundle for this node waits: its destination by the one name it has here.
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
            // What came before is for members that come later too.
            self.sweeps.to(endpoint.node());
        }
        self.steps.push_back(Step::Deliver(endpoint.clone()));
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
            self.steps.push_back(Step::Forsake(forsaken));
        }
        self.steps.push_back(Step::Deliver(gone.endpoint));
    }

    /// A delivery that was not answered goes back to its line, marked as possibly seen where it was.
    // 9171-5.7-4, 9171-5.7-5, 5050-3.1-3
    pub(crate) fn put_back(&mut self, delivery: DeliveryId, line_up: bool) {
        let Some((registration, bundle)) = self.deliveries.end(delivery) else { return };
        if line_up {
            if let Some(held) = self.book.get_mut(bundle).filter(|held| held.has(Reason::Deliver)) {
                held.flags.set(Flags::SEEN_BEFORE, true);
            }
            self.deliveries.set_share(bundle, registration, Share::Again);
            self.await_delivery(bundle);
        }
        let endpoint = self.deliveries.open_window(registration);
        self.steps.extend(endpoint.map(Step::Deliver));
    }

    /// RFC 9171 5.7: a bundle for this node.
    // 9171-5.3-1, 9171-5.7-1, 5050-5.3-1, 5050-5.7-1
    pub(crate) fn deliver_locally<S: Sink<Output>>(
        &mut self,
        now: Instant,
        bundle: Handle,
        edge: &mut dyn Edge,
        out: &mut S,
    ) {
        let Some(held) = self.book.get(bundle) else { return };
        if held.bundle.facts.has(Facts::SEALED) {
            // RFC 9172 3.8: what is enciphered is no payload to hand out; a relay passes it on untouched.
            return self.depart(now, bundle, deleted(DeleteReason::UnknownSecurity), None, edge, out);
        }
        if held.bundle.fragment().is_some() {
            return self.join(now, bundle, edge, out);
        }
        if self.comes_through_tunnel(held) {
            return self.open_outer(bundle, out);
        }
        if held.bundle.is_administrative() && self.take_record(bundle, edge, out) {
            self.report(now, bundle, Status::Delivered, DeleteReason::Done, edge, out);
            return self.depart(now, bundle, Why::Delivered, None, edge, out);
        }
        self.book.hold(bundle, Reason::Deliver);
        let last = self.book.release(bundle, Reason::Route);
        debug_assert!(!last, "it is to be delivered");
        self.await_delivery(bundle);
    }

    /// An administrative record nobody here listens for, or that nobody can read, is done with.
    fn take_record<S: Sink<Output>>(&mut self, bundle: Handle, edge: &mut dyn Edge, out: &mut S) -> bool {
        let Some(held) = self.book.get(bundle) else { return false };
        let destination = &self.mailbox(held);
        let record = match edge.record(&held.bundle) {
            Record::Custody(signals) if destination.is_node_id() && self.custody.is_some() => {
                return self.hear_custody(bundle, signals, out);
            }
            record => record,
        };
        match record {
            Record::Other | Record::Custody(_) => {
                !self.deliveries.has_listener(destination) && destination.is_node_id()
            }
            Record::Hello(_) => true,
            // Its payload may be on disk: whoever registered reads it.
            Record::Unreadable => !held.bundle.payload.is_stored(),
        }
    }

    /// A durable bundle takes its place among those its endpoint waits for. One that is not durable
    /// yet would be delivered twice without a mark: its node dies, forgets it, and gets it again.
    // 9171-5.7-4, 9171-5.7-5, 5050-3.1-3, 5050-3.1-5, 5050-5.7-4
    pub(crate) fn await_delivery(&mut self, bundle: Handle) {
        let Some(held) = self.book.get(bundle) else { return };
        if held.bundle.is_for_group() {
            return self.await_members(bundle);
        }
        if !held.has(Reason::Deliver) || self.deliveries.is_open(bundle) || !self.is_durable(held) {
            return;
        }
        if self.comes_through_tunnel(held) {
            return self.steps.push_back(Step::Outer(bundle));
        }
        let endpoint = self.mailbox(held);
        self.deliveries.line_up(endpoint.clone(), held);
        self.steps.push_back(Step::Deliver(endpoint));
    }

    /// A whole is durable when all its parts are.
    pub(crate) fn is_durable(&self, held: &Held) -> bool {
        let parts = self.fragments.parts(held.handle());
        held.flags.has(Flags::DURABLE)
            && parts.iter().all(|part| self.book.get(*part).is_some_and(|held| held.flags.has(Flags::DURABLE)))
    }

    /// A bundle became durable: perhaps a whole waited for it.
    pub(crate) fn durable_part(&mut self, part: Handle) {
        if self.book.get(part).is_some_and(|held| held.has(Reason::Whole)) {
            if let Some(whole) = self.fragments.whole_of(part) {
                self.await_delivery(whole);
            }
        }
    }

    /// Whether an application here waits for a bundle: it takes what comes, and has not left more than a part of the
    /// room that is kept free unanswered. One that does not read is to fill none of it.
    pub(crate) fn is_awaited(&self, held: &Held) -> bool {
        let most = self.settings.limits.reserved_bytes / UNANSWERED_PART;
        self.deliveries.has_reader(&self.mailbox(held), held.bundle.payload.len(), most)
    }

    fn next_delivery(&mut self, endpoint: &EndpointId) -> Option<(RegistrationId, DeliveryId, Handle)> {
        // What nobody answers is in memory, as are the payloads of bundles that wait for links.
        self.deliveries.next(&self.book, endpoint, self.settings.limits.memory_bytes)
    }

    /// Hands one waiting bundle to a registration that has room; then comes again.
    // 9171-5.7-3, 5050-3.1-4, 5050-5.7-3
    pub(crate) fn pump_deliveries<S: Sink<Output>>(
        &mut self,
        now: Instant,
        endpoint: &EndpointId,
        edge: &mut dyn Edge,
        out: &mut S,
    ) {
        let Some((registration, delivery, bundle)) = self.next_delivery(endpoint) else { return };
        self.steps.push_back(Step::Deliver(endpoint.clone()));
        let Some(held) = self.book.get(bundle) else { return };
        if held.expires <= now {
            return self.depart(now, bundle, deleted(self.over(now, held)), None, edge, out);
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
        let (meta, guarded) = (meta.clone(), edge.guards(meta));
        let output = AppOutput::Deliver { registration, delivery, bundle };
        out.push(if guarded { Output::Open { output, bundle: meta } } else { Output::App(output) });
    }

    /// A delivery was stopped by what its bundle's security blocks say (RFC 9172 5.1).
    pub(crate) fn on_insecure<S: Sink<Output>>(
        &mut self,
        now: Instant,
        delivery: DeliveryId,
        reason: DeleteReason,
        edge: &mut dyn Edge,
        out: &mut S,
    ) {
        let Some(bundle) = self.deliveries.bundle_of(delivery) else { return };
        self.put_back(delivery, false);
        self.depart(now, bundle, deleted(reason), None, edge, out);
    }

    fn on_delivery_done<S: Sink<Output>>(
        &mut self,
        now: Instant,
        registration: RegistrationId,
        delivery: DeliveryId,
        taken: bool,
        edge: &mut dyn Edge,
        out: &mut S,
    ) {
        let Some(open) = self.deliveries.open.get(&delivery).copied() else { return };
        let bundle = open.bundle;
        if open.registration != registration {
            return;
        }
        if !taken || !self.deliveries.of.contains(&(bundle, delivery)) {
            self.put_back(delivery, true);
            return;
        }
        self.deliveries.end(delivery);
        self.event(out, Event::Delivered { bundle: self.number(bundle) });
        // One report for all members of a group here: it is about this node.
        if !self.deliveries.was_had(bundle) {
            self.report(now, bundle, Status::Delivered, DeleteReason::Done, edge, out);
        }
        let Some(held) = self.book.get(bundle) else { return };
        if held.bundle.is_for_group() {
            self.deliveries.set_share(bundle, registration, Share::Had);
            let endpoint = self.deliveries.open_window(registration);
            self.steps.extend(endpoint.map(Step::Deliver));
            return self.settle_members(now, bundle, edge, out);
        }
        let (remember, anonymous) = (self.remembrance(now, held), held.bundle.is_anonymous());
        let record = self.fragments.parts(bundle).first().and_then(|part| self.book.get(*part)).unwrap_or(held);
        // The window opens again only once the delivery is durably remembered: a crash then repeats
        // at most what is in the window.
        if self.settings.durable {
            self.deliveries.releasing.insert(record.number, registration);
        } else {
            let endpoint = self.deliveries.open_window(registration);
            self.steps.extend(endpoint.map(Step::Deliver));
        }
        self.depart(now, bundle, Why::Delivered, Some(remember).filter(|_| !anonymous), edge, out);
    }

    /// The store forgot a bundle (and remembers its delivery).
    pub(crate) fn on_deleted(&mut self, bundle: BundleHandle) {
        let releasing = self.deliveries.made().and_then(|deliveries| deliveries.releasing.remove(&bundle.0));
        let Some(registration) = releasing else { return };
        let endpoint = self.deliveries.open_window(registration);
        self.steps.extend(endpoint.map(Step::Deliver));
    }

    /// A bundle leaves: it is in no line and with no application any more.
    pub(crate) fn withdraw(&mut self, bundle: Handle) {
        let Some(held) = self.book.get(bundle).filter(|held| held.has(Reason::Deliver) || held.bundle.is_for_group())
        else {
            return;
        };
        let endpoint = self.mailbox(held);
        let Some(deliveries) = self.deliveries.made() else { return };
        deliveries.step_out(&endpoint, held);
        deliveries.unshare(held);
        // Its bytes are on their way to applications that may not read them for long: the window stays taken, and
        // the bytes counted, until they answer.
        for delivery in deliveries.open_of(bundle).collect::<Vec<_>>() {
            deliveries.of.remove(&(bundle, delivery));
        }
    }

    /// RFC 9171 5.9: a fragment for this node.
    // 9171-5.7-1, 5050-5.7-1
    fn join<S: Sink<Output>>(&mut self, now: Instant, bundle: Handle, edge: &mut dyn Edge, out: &mut S) {
        let joined = self.fragments.add(&mut self.book, bundle);
        match joined {
            Joined::Redundant => return self.depart(now, bundle, Why::Forwarded, None, edge, out),
            Joined::Waiting | Joined::Complete { .. } => {}
        }
        let last = self.book.release(bundle, Reason::Route);
        debug_assert!(!last, "it waits for the others");
        if let Joined::Complete { first, payload, expires, parts } = joined {
            self.reassemble(now, first, payload, expires, parts, edge, out);
        }
    }

    /// The whole is an entry that refers to its parts; it has no record of its own.
    // 9171-5.9-1, 5050-5.9-1
    fn reassemble<S: Sink<Output>>(
        &mut self,
        now: Instant,
        first: Handle,
        payload: Payload,
        expires: Instant,
        parts: Vec<Handle>,
        edge: &mut dyn Edge,
        out: &mut S,
    ) {
        let Some(held) = self.book.get(first) else { return };
        let (from, hops, born, seen_before) = (held.from, held.hops, held.born, held.flags.has(Flags::SEEN_BEFORE));
        let made = edge.whole(&held.bundle.clone(), payload);
        let whole = made.ok().filter(|whole| self.book.find(whole.id).is_none());
        let Some(whole) = whole else {
            for part in parts {
                self.depart(now, part, Why::Forwarded, None, edge, out);
            }
            return;
        };
        let mut flags = Flags(Flags::DURABLE | Flags::VIRTUAL);
        flags.set(Flags::SEEN_BEFORE, seen_before);
        let handle = self.keep(
            New {
                bundle: Arc::new(whole),
                number: None,
                born,
                expires,
                from,
                hops,
                labels: [0; 2],
                reasons: Reasons::of(&[Reason::Route]),
                flags,
            },
            out,
        );
        self.fragments.refer(handle, parts);
        self.event(out, Event::Reassembled { bundle: self.number(handle) });
        self.steps.push_back(Step::Dispatch(handle));
        let _: PeerId = from;
    }
}
