//! Who receives here, what waits for whom, and what is with applications unanswered. Decides nothing about bundles.

use crate::app::{DeliveryId, RegistrationId};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::cmp::Reverse;
use farlink_base::{Empty, EndpointId, Priority};
use farlink_book::{Book, Handle, Held};

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
pub(crate) struct Registration {
    pub endpoint: EndpointId,
    window: u32,
    /// Handed over and not answered, or answered and not durably remembered.
    in_flight: u32,
    pub open: BTreeSet<DeliveryId>,
    /// Payload bytes of those.
    bytes: u64,
    /// What a member of a group is to have next.
    pub waiting: BTreeMap<Place, Handle>,
}

/// What a member of a group has of a bundle.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Share {
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

/// Members that left are remembered with a bundle up to so many, or as many as are there.
const GONE_MAX: usize = 16;

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
    pub fn register(&mut self, id: RegistrationId, endpoint: EndpointId, window: u32) {
        let (window, open, waiting) = (window.max(1), BTreeSet::new(), BTreeMap::new());
        let registration = Registration { endpoint: endpoint.clone(), window, in_flight: 0, open, bytes: 0, waiting };
        self.registrations.insert(id, registration);
        self.endpoints.entry(endpoint).or_default().registrations.push(id);
    }
    /// Takes a registration away.
    pub fn unregister(&mut self, id: RegistrationId) -> Option<Registration> {
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
    pub fn line_up(&mut self, endpoint: EndpointId, held: &Held) {
        let endpoint = self.endpoints.entry(endpoint).or_default();
        endpoint.waiting.insert(place(held), held.handle());
    }
    /// Takes a bundle out of its line.
    pub fn step_out(&mut self, endpoint: &EndpointId, held: &Held) {
        if let Some(there) = self.endpoints.get_mut(endpoint) {
            there.waiting.remove(&place(held));
        }
        self.tidy(endpoint);
    }
    /// The next delivery at an endpoint, if a registration has room: in its window, and in the bytes that all may
    /// leave unanswered and its part of them. Each may have one bundle, however long.
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
        // Several share the work: whoever has the fewest gets the next.
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
    /// Opens a registration's window by one; gives its endpoint.
    pub fn open_window(&mut self, registration: RegistrationId) -> Option<EndpointId> {
        let r = self.registrations.get_mut(&registration)?;
        r.in_flight = r.in_flight.saturating_sub(1);
        Some(r.endpoint.clone())
    }
    /// Payload bytes of deliveries that are not answered.
    pub fn unanswered_bytes(&self) -> u64 {
        self.open_bytes
    }
    /// To whom a delivery went that is not answered, and its bundle.
    pub fn unanswered(&self, delivery: DeliveryId) -> Option<(RegistrationId, Handle)> {
        self.open.get(&delivery).map(|open| (open.registration, open.bundle))
    }
    /// Whether the bundle of a delivery is held still.
    pub fn is_held(&self, bundle: Handle, delivery: DeliveryId) -> bool {
        self.of.contains(&(bundle, delivery))
    }
    /// A bundle leaves. Its bytes are on their way to applications that may not read them for long: the window stays
    /// taken, and the bytes counted, until they answer.
    pub fn let_go(&mut self, bundle: Handle) {
        for delivery in self.open_of(bundle).collect::<Vec<_>>() {
            self.of.remove(&(bundle, delivery));
        }
    }
    /// A registration's window opens by one when the store has forgotten this record.
    pub fn release_with(&mut self, number: u64, registration: RegistrationId) {
        self.releasing.insert(number, registration);
    }
    /// The store has forgotten a record: whose window opens.
    pub fn released(&mut self, number: u64) -> Option<RegistrationId> {
        self.releasing.remove(&number)
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
        if shares.len() >= group.registrations.len().saturating_mul(2).max(GONE_MAX) {
            // Members come and go; of those that went it matters only whether one had it.
            let gone_had =
                shares.iter().find(|(id, share)| **share == Share::Had && !self.registrations.contains_key(id));
            let gone_had = gone_had.map(|(id, _)| *id);
            shares.retain(|id, _| self.registrations.contains_key(id) || Some(*id) == gone_had);
        }
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
    pub fn set_share(&mut self, bundle: Handle, member: RegistrationId, to: Share) {
        if let Some(share) = self.shares.get_mut(&bundle).and_then(|shares| shares.get_mut(&member)) {
            *share = to;
        }
    }
    /// Whether some member of a group here has this of a bundle, and is a member still if it is to have it.
    pub fn has_share(&self, bundle: Handle, which: impl Fn(RegistrationId, Share) -> bool) -> bool {
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
    pub fn unshare(&mut self, held: &Held) {
        for (id, _) in self.shares.remove(&held.handle()).into_iter().flatten() {
            if let Some(r) = self.registrations.get_mut(&id) {
                r.waiting.remove(&place(held));
            }
        }
    }
    /// How many members, of now and before, are remembered with bundles for groups.
    #[cfg(feature = "audit")]
    pub fn members(&self) -> usize {
        self.shares.values().map(BTreeMap::len).sum()
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
    pub fn has_listener(&self, endpoint: &EndpointId) -> bool {
        self.endpoints.get(endpoint).is_some_and(|e| !e.registrations.is_empty())
    }
    /// Whether somebody there takes what comes: nothing waits, and so much more would leave at most so much unanswered.
    pub fn has_reader(&self, endpoint: &EndpointId, bytes: u64, most: u64) -> bool {
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
    /// Endpoints that somebody receives at, or where something waits.
    #[cfg(feature = "audit")]
    pub fn endpoints(&self) -> usize {
        self.endpoints.len()
    }
    pub fn len(&self) -> usize {
        self.registrations.len()
    }
}
