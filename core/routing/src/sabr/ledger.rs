//! Ledger of bookings: by bundle, and by contact in order of urgency, so that no query visits all bookings.

use super::Route;
use super::booking::Booked;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use farlink_base::{Instant, NodeId, Priority};
use farlink_book::Handle;

/// Booking of one next hop of a bundle.
#[derive(Debug)]
struct Booking {
    contacts: Box<[u32]>,
    volume: u64,
    priority: Priority,
    /// Position in the order of all bookings.
    number: u64,
    arrival: Instant,
}

/// Bookings of one node.
#[derive(Debug)]
pub(super) struct BookingLedger {
    /// Volume taken of each contact.
    pub booked: Booked,
    /// Bookings by bundle and next hop: a critical bundle has several.
    legs: BTreeMap<(Handle, NodeId), Booking>,
    /// Bookings by contact, the least urgent first; equally urgent ones in the order of booking.
    on: BTreeMap<(u32, Priority, u64), Handle>,
    last: u64,
}

impl BookingLedger {
    /// No bookings; `seed` keys the map of volumes.
    pub fn new(seed: u64) -> Self {
        BookingLedger { booked: Booked::new(seed), legs: BTreeMap::new(), on: BTreeMap::new(), last: 0 }
    }
    /// Number of next hops with a booking.
    pub fn len(&self) -> usize {
        self.legs.len()
    }
    /// Books a route of a bundle that has no booking for the same next hop.
    pub fn book(&mut self, bundle: Handle, route: &Route, priority: Priority, arrival: Instant) {
        // A link outside the plan has no volume to book.
        let planned = route.path.iter().any(|hop| hop.contact.is_some());
        let Some(next_hop) = route.next_hop().filter(|_| planned) else { return };
        self.booked.book(route, priority);
        self.last += 1;
        let contacts: Box<[u32]> = route.path.iter().filter_map(|hop| hop.contact).collect();
        for contact in &contacts {
            self.on.insert((*contact, priority, self.last), bundle);
        }
        let booking = Booking { contacts, volume: route.volume, priority, number: self.last, arrival };
        self.legs.insert((bundle, next_hop), booking);
    }
    /// Cancels a bundle's bookings for the next hops that `to` accepts, and frees their volume.
    pub fn release(&mut self, bundle: Handle, to: impl Fn(NodeId) -> bool) {
        for booking in self.take(bundle, to) {
            for contact in booking.contacts {
                self.booked.release(contact, booking.volume, booking.priority);
            }
        }
    }
    /// Removes a bundle's bookings for the next hops that `to` accepts; their volume was used and stays taken.
    pub fn use_up(&mut self, bundle: Handle, to: impl Fn(NodeId) -> bool) {
        drop(self.take(bundle, to));
    }
    fn take(&mut self, bundle: Handle, to: impl Fn(NodeId) -> bool) -> Vec<Booking> {
        if self.legs.is_empty() {
            return Vec::new();
        }
        let all = (bundle, NodeId(0))..=(bundle, NodeId(u64::MAX));
        let keys: Vec<_> = self.legs.range(all).map(|(key, _)| *key).filter(|(_, hop)| to(*hop)).collect();
        let taken: Vec<Booking> = keys.iter().filter_map(|key| self.legs.remove(key)).collect();
        for booking in &taken {
            for contact in &booking.contacts {
                self.on.remove(&(*contact, booking.priority, booking.number));
            }
        }
        taken
    }
    /// The latest of the least urgent bundles with a booking on a contact, if less urgent than `than`.
    pub fn least(&self, contact: u32, than: Priority) -> Option<Handle> {
        let levels = Priority::ALL.into_iter().filter(|level| *level < than);
        levels.into_iter().find_map(|level| {
            let range = (contact, level, 0)..=(contact, level, u64::MAX);
            self.on.range(range).next_back().map(|(_, bundle)| *bundle)
        })
    }
    /// The most urgent and earliest bundle with a booking on a contact.
    pub fn first_on(&self, contact: u32) -> Option<Handle> {
        Priority::ALL.into_iter().rev().find_map(|level| {
            let range = (contact, level, 0)..=(contact, level, u64::MAX);
            self.on.range(range).next().map(|(_, bundle)| *bundle)
        })
    }
    /// Earliest arrival among a bundle's bookings, with the contacts of that route; `None` without a booking.
    pub fn arrival(&self, bundle: Handle) -> Option<(Instant, &[u32])> {
        let all = (bundle, NodeId(0))..=(bundle, NodeId(u64::MAX));
        let first = self.legs.range(all).map(|(_, booking)| booking).min_by_key(|booking| booking.arrival)?;
        Some((first.arrival, &first.contacts))
    }
}
