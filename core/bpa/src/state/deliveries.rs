//! Registrations, their queues, and unanswered deliveries. Decides nothing about bundles.

use crate::app::{DeliveryId, RegistrationId};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::cmp::Reverse;
use farlink_base::{Empty, EndpointId, Priority};
use farlink_book::{Book, Handle, Held};

/// Place in a queue of deliveries: most urgent first, then in order of arrival.
type DeliveryPlace = (Reverse<Priority>, u64);

/// One endpoint, with its registrations and the bundles that wait for any of them. A group's bundles wait in a queue of
/// each member instead.
#[derive(Debug, Default)]
struct Endpoint {
    registrations: Vec<RegistrationId>,
    waiting: BTreeMap<DeliveryPlace, Handle>,
}

/// One registration of an application.
#[derive(Debug)]
pub(crate) struct Registration {
    pub endpoint: EndpointId,
    window: u32,
    /// Deliveries that are unanswered, or taken but not yet durably remembered.
    in_flight: u32,
    pub open: BTreeSet<DeliveryId>,
    /// Payload bytes of the open deliveries.
    bytes: u64,
    /// Bundles of a group that wait for this member.
    pub waiting: BTreeMap<DeliveryPlace, Handle>,
}

/// State of a group's bundle for one member.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Share {
    /// Still to be delivered.
    Owed,
    /// Still to be delivered; the member may have received it before.
    Again,
    /// Delivered to the member.
    Had,
}

/// An unanswered delivery.
#[derive(Clone, Copy, Debug)]
struct Open {
    registration: RegistrationId,
    bundle: Handle,
    bytes: u64,
}

/// Divisor of the bound on unanswered bytes; the quotient is the bound of one registration.
const REGISTRATION_PART: u64 = 4;

/// Number of members, present and departed, remembered with a group's bundle at which departed ones are dropped; twice
/// the present members if that is more.
const GONE_MAX: usize = 16;

/// Endpoints, registrations and deliveries of one node.
#[derive(Debug)]
pub(crate) struct Deliveries {
    endpoints: BTreeMap<EndpointId, Endpoint>,
    registrations: BTreeMap<RegistrationId, Registration>,
    open: BTreeMap<DeliveryId, Open>,
    /// Payload bytes of the open deliveries.
    open_bytes: u64,
    /// Unanswered deliveries of each bundle that is still held.
    of: BTreeSet<(Handle, DeliveryId)>,
    /// State of each held group bundle for each member here.
    shares: BTreeMap<Handle, BTreeMap<RegistrationId, Share>>,
    /// Registrations whose window opens by one when the store has deleted the record of this number.
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
// Allocated on first use: a node without applications has no deliveries.
impl Empty for Deliveries {
    type From = ();
    const EMPTY: &'static Self = &Deliveries::new();
    fn make((): ()) -> Self {
        Deliveries::new()
    }
}

fn place(held: &Held) -> DeliveryPlace {
    (Reverse(held.bundle.priority), held.number)
}

impl Deliveries {
    pub fn register(&mut self, id: RegistrationId, endpoint: EndpointId, window: u32) {
        // A window of 0 would never receive anything.
        let (window, open, waiting) = (window.max(1), BTreeSet::new(), BTreeMap::new());
        let registration = Registration { endpoint: endpoint.clone(), window, in_flight: 0, open, bytes: 0, waiting };
        self.registrations.insert(id, registration);
        self.endpoints.entry(endpoint).or_default().registrations.push(id);
    }
    /// Removes a registration.
    pub fn unregister(&mut self, id: RegistrationId) -> Option<Registration> {
        let registration = self.registrations.remove(&id)?;
        if let Some(endpoint) = self.endpoints.get_mut(&registration.endpoint) {
            endpoint.registrations.retain(|r| *r != id);
        }
        self.tidy(&registration.endpoint);
        Some(registration)
    }
    /// Removes an endpoint without registrations and waiting bundles.
    fn tidy(&mut self, endpoint: &EndpointId) {
        if self.endpoints.get(endpoint).is_some_and(|e| e.registrations.is_empty() && e.waiting.is_empty()) {
            self.endpoints.remove(endpoint);
        }
    }
    pub fn line_up(&mut self, endpoint: EndpointId, held: &Held) {
        let endpoint = self.endpoints.entry(endpoint).or_default();
        endpoint.waiting.insert(place(held), held.handle());
    }
    /// Removes a bundle from its queue.
    pub fn step_out(&mut self, endpoint: &EndpointId, held: &Held) {
        if let Some(there) = self.endpoints.get_mut(endpoint) {
            there.waiting.remove(&place(held));
        }
        self.tidy(endpoint);
    }
    /// Begins the next delivery at an endpoint, if a registration has room: its window is open, and neither its own
    /// unanswered bytes nor those of all registrations exceed their bounds. A registration without unanswered
    /// deliveries may have one bundle of any length.
    pub fn next(
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
            (r.open.is_empty() || fits(r, bytes)).then_some((r.in_flight, (*id, *place, *bundle, bytes)))
        };
        // Several registrations share the work: the one with the fewest open deliveries is next.
        let ready = e.registrations.iter().filter_map(first).min_by_key(|(in_flight, _)| *in_flight);
        let (_, (registration, place, bundle, bytes)) = ready?;
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
    /// Begins a delivery to this node itself instead of an application.
    pub fn open_inside(&mut self, bundle: Handle, bytes: u64) -> DeliveryId {
        self.last += 1;
        let delivery = DeliveryId(self.last);
        // No window limits such a delivery, but its payload counts as unanswered.
        self.open.insert(delivery, Open { registration: RegistrationId::TUNNEL, bundle, bytes });
        self.open_bytes += bytes;
        self.of.insert((bundle, delivery));
        delivery
    }
    /// Ends a delivery. The registration's window stays as it is until [`Self::open_window`].
    pub fn end(&mut self, delivery: DeliveryId) -> Option<(RegistrationId, Handle)> {
        let Open { registration, bundle, bytes } = self.open.remove(&delivery)?;
        self.of.remove(&(bundle, delivery));
        self.open_bytes -= bytes;
        if let Some(r) = self.registrations.get_mut(&registration) {
            r.open.remove(&delivery);
            r.bytes -= bytes;
        }
        Some((registration, bundle))
    }
    /// Opens a registration's window by one and returns its endpoint.
    pub fn open_window(&mut self, registration: RegistrationId) -> Option<EndpointId> {
        // A registration that ended meanwhile has no window to open.
        let r = self.registrations.get_mut(&registration)?;
        r.in_flight = r.in_flight.saturating_sub(1);
        Some(r.endpoint.clone())
    }
    /// Payload bytes of unanswered deliveries.
    pub fn unanswered_bytes(&self) -> u64 {
        self.open_bytes
    }
    /// Registration and bundle of an unanswered delivery.
    pub fn unanswered(&self, delivery: DeliveryId) -> Option<(RegistrationId, Handle)> {
        self.open.get(&delivery).map(|open| (open.registration, open.bundle))
    }
    /// Whether a delivery is of this bundle and the bundle is still held.
    pub fn is_held(&self, bundle: Handle, delivery: DeliveryId) -> bool {
        self.of.contains(&(bundle, delivery))
    }
    /// Detaches a departing bundle from its deliveries. Its bytes may still wait for the application to read them, so
    /// each delivery keeps its place in the window, and its bytes count, until the application answers.
    pub fn let_go(&mut self, bundle: Handle) {
        for delivery in self.open_of(bundle).collect::<Vec<_>>() {
            self.of.remove(&(bundle, delivery));
        }
    }
    /// Lets a registration's window open by one when the store has deleted the record of this number.
    pub fn release_with(&mut self, number: u64, registration: RegistrationId) {
        self.releasing.insert(number, registration);
    }
    /// Takes the registration whose window opens with the deletion of this record.
    pub fn released(&mut self, number: u64) -> Option<RegistrationId> {
        self.releasing.remove(&number)
    }
    pub fn bundle_of(&self, delivery: DeliveryId) -> Option<Handle> {
        self.open.get(&delivery).map(|open| open.bundle)
    }
    /// Whether a held bundle has an unanswered delivery.
    pub fn is_open(&self, bundle: Handle) -> bool {
        self.open_of(bundle).next().is_some()
    }
    /// Unanswered deliveries of a bundle.
    fn open_of(&self, bundle: Handle) -> impl Iterator<Item = DeliveryId> + '_ {
        let all = (bundle, DeliveryId(0))..=(bundle, DeliveryId(u64::MAX));
        self.of.range(all).map(|(_, delivery)| *delivery)
    }
    /// Notes the current members of a bundle's group, and queues the bundle, once it is durable, for each member that
    /// lacks it. Returns whether any member lacks it.
    pub fn share(&mut self, held: &Held, durable: bool) -> bool {
        let bundle = held.handle();
        let Some(group) = self.endpoints.get(&held.bundle.destination) else { return false };
        let open = self.open_of(bundle).filter_map(|delivery| self.open.get(&delivery));
        let open: Vec<RegistrationId> = open.map(|open| open.registration).collect();
        let shares = self.shares.entry(bundle).or_default();
        if shares.len() >= group.registrations.len().saturating_mul(2).max(GONE_MAX) {
            // Of the departed members it matters only whether any has received the bundle, so one of those suffices.
            let gone_had =
                shares.iter().find(|(id, share)| **share == Share::Had && !self.registrations.contains_key(id));
            let gone_had = gone_had.map(|(id, _)| *id);
            shares.retain(|id, _| self.registrations.contains_key(id) || Some(*id) == gone_had);
        }
        // A member that joins may be one that left: registrations have no names.
        let seen = shares.iter().any(|(id, share)| *share != Share::Owed && !self.registrations.contains_key(id));
        let (mut owed, first) = (false, if seen { Share::Again } else { Share::Owed });
        for id in &group.registrations {
            let share = *shares.entry(*id).or_insert(first);
            let Some(r) = self.registrations.get_mut(id).filter(|_| share != Share::Had) else { continue };
            owed = true;
            if durable && !open.contains(id) {
                r.waiting.insert(place(held), bundle);
            }
        }
        owed
    }
    /// Changes the state of a group's bundle for one member.
    pub fn set_share(&mut self, bundle: Handle, member: RegistrationId, to: Share) {
        if let Some(share) = self.shares.get_mut(&bundle).and_then(|shares| shares.get_mut(&member)) {
            *share = to;
        }
    }
    /// Whether `which` is true of the bundle's state for any member, present or departed.
    pub fn has_share(&self, bundle: Handle, which: impl Fn(RegistrationId, Share) -> bool) -> bool {
        self.shares.get(&bundle).is_some_and(|shares| shares.iter().any(|(id, share)| which(*id, *share)))
    }
    /// Whether any present member still lacks a bundle.
    pub fn owes(&self, bundle: Handle) -> bool {
        self.has_share(bundle, |id, share| share != Share::Had && self.registrations.contains_key(&id))
    }
    /// Whether any member here, present or departed, has received the bundle.
    pub fn was_had(&self, bundle: Handle) -> bool {
        self.has_share(bundle, |_, share| share == Share::Had)
    }
    /// Removes a group's bundle from the queues of all members, and forgets which of them have received it.
    pub fn unshare(&mut self, held: &Held) {
        for (id, _) in self.shares.remove(&held.handle()).into_iter().flatten() {
            if let Some(r) = self.registrations.get_mut(&id) {
                r.waiting.remove(&place(held));
            }
        }
    }
    /// Number of states of group bundles, for present and departed members.
    #[cfg(feature = "audit")]
    pub fn members(&self) -> usize {
        self.shares.values().map(BTreeMap::len).sum()
    }
    /// Held group bundles with a state for any member here.
    #[cfg(feature = "audit")]
    pub fn shared(&self) -> impl Iterator<Item = Handle> + '_ {
        self.shares.keys().copied()
    }
    /// Whether a group's bundle has a state for any member here.
    #[cfg(feature = "audit")]
    pub fn is_shared(&self, bundle: Handle) -> bool {
        self.shares.contains_key(&bundle)
    }
    /// Whether any application is registered at an endpoint.
    pub fn has_listener(&self, endpoint: &EndpointId) -> bool {
        self.endpoints.get(endpoint).is_some_and(|e| !e.registrations.is_empty())
    }
    /// Whether an application at the endpoint keeps up: no bundle waits, and this one would leave at most `most` of its
    /// bytes unanswered.
    pub fn has_reader(&self, endpoint: &EndpointId, bytes: u64, most: u64) -> bool {
        let Some(e) = self.endpoints.get(endpoint).filter(|e| e.waiting.is_empty()) else { return false };
        e.registrations
            .iter()
            .filter_map(|id| self.registrations.get(id))
            // One unanswered delivery of any length is always allowed, as in `next`.
            .any(|r| r.waiting.is_empty() && (r.open.is_empty() || r.bytes.saturating_add(bytes) <= most))
    }
    /// Endpoints with a registration.
    pub fn registered(&self) -> impl Iterator<Item = &EndpointId> {
        self.registrations.values().map(|r| &r.endpoint)
    }
    /// Entries of bundles in queues, and unanswered deliveries of held bundles.
    #[cfg(feature = "audit")]
    pub fn bundles(&self) -> usize {
        let lines = self.endpoints.values().map(|endpoint| endpoint.waiting.len());
        let own = self.registrations.values().map(|registration| registration.waiting.len());
        self.of.len() + lines.chain(own).sum::<usize>()
    }
    #[cfg(feature = "audit")]
    pub fn endpoints(&self) -> usize {
        self.endpoints.len()
    }
    pub fn len(&self) -> usize {
        self.registrations.len()
    }
}
