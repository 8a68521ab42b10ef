//! Booked volume per contact and priority.
//!
//! A contact is a first-in-first-out pipe: booked volume occupies it from its start, so the next bundle's first byte
//! leaves at `max(ready, start + booked / rate)`, and its last must leave by the end. A bundle sees only bookings of
//! its own or a higher priority (the maximum transmission volume of CCSDS 734.3-B-1).

use super::Route;
use farlink_base::{DataRate, Duration, Map, Priority, map};

use crate::{PlanIndex, PlanTime};

/// Volume that a node knows to be taken from the contacts of a shared plan.
#[derive(Clone, Debug)]
pub struct Booked {
    /// Bytes per contact; entry `p` is the volume that bundles of priority `p` see.
    bytes: Map<u32, [u64; 3]>,
}

impl Default for Booked {
    fn default() -> Self {
        Booked::new(0)
    }
}

impl Booked {
    /// No bookings; `seed` keys the map.
    pub fn new(seed: u64) -> Self {
        Booked { bytes: map(seed) }
    }
    /// Bytes of a contact that are taken for bundles of this priority.
    pub fn bytes(&self, contact: u32, priority: Priority) -> u64 {
        if self.bytes.is_empty() {
            return 0;
        }
        self.bytes.get(&contact).map_or(0, |levels| levels[usize::from(priority.number())])
    }
    /// Books every contact of a route for a bundle of this priority.
    pub fn book(&mut self, route: &Route, priority: Priority) {
        for contact in route.path.iter().filter_map(|hop| hop.contact) {
            self.add(contact, route.volume, priority);
        }
    }
    /// Books `volume` bytes of one contact.
    pub fn add(&mut self, contact: u32, volume: u64, priority: Priority) {
        // Lower priorities see the booking, higher ones do not.
        let levels = self.bytes.entry(contact).or_default();
        for level in &mut levels[..=usize::from(priority.number())] {
            *level = level.saturating_add(volume);
        }
    }
    /// Frees `volume` booked bytes of one contact.
    pub fn release(&mut self, contact: u32, volume: u64, priority: Priority) {
        let Some(levels) = self.bytes.get_mut(&contact) else { return };
        for level in &mut levels[..=usize::from(priority.number())] {
            *level = level.saturating_sub(volume);
        }
        if *levels == [0; 3] {
            self.bytes.remove(&contact);
        }
    }
    /// Marks the volume that a running contact could have carried until `now` as gone.
    pub fn pass(&mut self, index: &PlanIndex, contact: u32, now: PlanTime) {
        let Some(c) = index.contact(contact).filter(|c| c.start < now) else { return };
        let gone = volume_until(c.rate, now.min(c.end).since(c.start));
        let levels = self.bytes.entry(contact).or_default();
        for level in levels {
            *level = (*level).max(gone);
        }
    }
    /// Whether bundles of this and higher priorities have booked more of a contact than it can carry.
    pub fn is_overbooked(&self, index: &PlanIndex, contact: u32, priority: Priority) -> bool {
        let Some(c) = index.contact(contact) else { return false };
        self.bytes(contact, priority) > c.rate.volume_in(c.end.since(c.start))
    }
    /// Forgets contacts that are over.
    pub fn forget_before(&mut self, index: &PlanIndex, now: PlanTime) {
        self.bytes.retain(|contact, _| index.contact(*contact).is_some_and(|c| c.end > now));
    }
    /// Number of contacts with bookings.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }
    /// Whether nothing is booked.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }
}

/// Bytes whose transmission fills `time`, rounded up so that no part of a contact is booked twice.
fn volume_until(rate: DataRate, time: Duration) -> u64 {
    let bytes = rate.volume_in(time);
    if rate.time_for(bytes) < time { bytes.saturating_add(1) } else { bytes }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> PlanIndex {
        PlanIndex::new(crate::contact_plan::parse("contact 1 2 +0..+20 rate 10 B/s").unwrap().plan)
    }

    #[test]
    fn priorities_see_their_own_and_higher() {
        let mut booked = Booked::default();
        booked.add(0, 10, Priority::Normal);
        booked.add(0, 5, Priority::Expedited);
        let seen = Priority::ALL.map(|p| booked.bytes(0, p));
        assert_eq!(seen, [15, 15, 5]);
        booked.release(0, 10, Priority::Normal);
        booked.release(0, 5, Priority::Expedited);
        assert!(booked.is_empty());
    }

    #[test]
    fn passed_time_cannot_be_booked() {
        let (plan, mut booked) = (plan(), Booked::default());
        booked.pass(&plan, 0, PlanTime::from_secs(7));
        assert_eq!(booked.bytes(0, Priority::Expedited), 70);
        // Time never goes back, whatever order it is reported in.
        booked.pass(&plan, 0, PlanTime::from_secs(3));
        assert_eq!(booked.bytes(0, Priority::Expedited), 70);
        // 70 B have passed: 140 B more exceed the 200 B of the contact.
        booked.add(0, 140, Priority::Bulk);
        assert!(booked.is_overbooked(&plan, 0, Priority::Bulk));
        assert!(!booked.is_overbooked(&plan, 0, Priority::Normal));
        booked.forget_before(&plan, PlanTime::from_secs(20));
        assert_eq!(booked.len(), 0);
    }
}
