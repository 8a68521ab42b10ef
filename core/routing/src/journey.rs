//! Earliest paths between nodes over the contacts of a plan, regardless of booked volume. Routers book contacts
//! ([`crate::sabr`]); this module only searches.

use crate::PlanTime;
use crate::plan_index::{PlacedContact, PlanIndex};
use alloc::collections::{BTreeMap, BinaryHeap};
use core::cmp::Reverse;

/// Maximum number of nodes examined in one search.
const LOOKED_MAX: usize = 4096;

/// Path with the earliest arrival between two nodes; times in nanoseconds of plan time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PlannedJourney {
    /// Departure from the first node.
    pub departs: u64,
    /// Latest departure from the first node over the same first contact.
    pub departs_by: u64,
    /// Arrival at the last node.
    pub arrives: u64,
}

impl PlanIndex {
    /// Index of a node among the nodes of the plan, in order of their numbers.
    pub fn place_of(&self, node: farlink_base::NodeId) -> Option<u32> {
        self.place(node)
    }
    /// Number of nodes in the plan.
    pub fn node_count(&self) -> u32 {
        self.nodes.len() as u32
    }
    /// Path with the earliest arrival for `size` bytes between two nodes, given by index, departing at `at` or later
    /// and avoiding the nodes `avoid`. `None` if there is no such path or the search examines too many nodes.
    pub fn journey(&self, from: u32, to: u32, at: u64, size: u64, avoid: &[u32]) -> Option<PlannedJourney> {
        let here = PlannedJourney { departs: at, departs_by: u64::MAX, arrives: at };
        let mut best = BTreeMap::from([(from, here)]);
        // Dijkstra by arrival: a later arrival never departs earlier.
        let mut open = BinaryHeap::from([Reverse((at, from))]);
        let mut looked = 0;
        while let Some(Reverse((reached, place))) = open.pop() {
            // An entry is outdated, and skipped, if an earlier arrival at its node was found since.
            let Some(way) = best.get(&place).copied().filter(|way| way.arrives == reached) else { continue };
            if place == to {
                return Some(way);
            }
            // A plan of any size costs a bounded search.
            looked += 1;
            if looked > LOOKED_MAX {
                return None;
            }
            for (next, contacts) in self.leading_from(place, reached).filter(|(next, _)| !avoid.contains(next)) {
                let Some((start, by, arrives)) = first_that_fits(contacts, reached, size) else { continue };
                if best.get(&next).is_some_and(|known| known.arrives <= arrives) {
                    continue;
                }
                // The first contact of the journey sets its departure.
                let (departs, departs_by) = if place == from { (start, by) } else { (way.departs, way.departs_by) };
                best.insert(next, PlannedJourney { departs, departs_by, arrives });
                open.push(Reverse((arrives, next)));
            }
        }
        None
    }
    /// Neighbours of a node in the plan, each with its contacts from the first that ends after `at`.
    fn leading_from(&self, place: u32, at: u64) -> impl Iterator<Item = (u32, &[PlacedContact])> {
        let from = self.nodes.get(place as usize).copied();
        let groups = from.into_iter().flat_map(|node| self.groups_from(node));
        groups.filter_map(move |group| {
            let contacts = &self.contacts(group)[self.first_after(group, PlanTime(at))..];
            Some((self.place(self.ends(group).1)?, contacts))
        })
    }
    /// End of the contact in which `from` may transmit to `to` at `at`; `None` if no contact runs then.
    pub fn contact_end(&self, from: u32, to: u32, at: u64) -> Option<u64> {
        let there = self.leading_from(from, at).filter(|(next, _)| *next == to);
        // Contacts are in order of start, so later ones have not begun.
        let running = there.flat_map(|(_, contacts)| contacts.iter().take_while(|contact| contact.start <= at));
        running.map(|contact| contact.end).filter(|end| *end > at).max()
    }
}

/// The first contact that carries `size` bytes: departure, latest departure and arrival.
fn first_that_fits(edges: &[PlacedContact], from: u64, size: u64) -> Option<(u64, u64, u64)> {
    edges.iter().find_map(|edge| {
        // The whole bundle must leave before the contact ends.
        let lasts = u64::try_from(edge.rate.time_for(size).as_nanos()).unwrap_or(u64::MAX);
        let (start, by) = (from.max(edge.start), edge.end.saturating_sub(lasts));
        (start <= by).then(|| (start, by, start.saturating_add(lasts).saturating_add(edge.delay)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use farlink_base::NodeId;

    fn index() -> PlanIndex {
        let text = "contact 1 2 +10..+20 rate 10 B/s delay 1 s\ncontact 2 4 +15..+30 rate 10 B/s delay 1 s\n\
                    contact 1 3 +40..+50 rate 10 B/s delay 1 s\ncontact 3 4 +45..+60 rate 10 B/s delay 1 s";
        PlanIndex::new(crate::contact_plan::parse(text).unwrap().plan)
    }
    const S: u64 = 1_000_000_000;

    #[test]
    fn earliest_journey_avoids_given_nodes() {
        let index = index();
        let [one, two, three, four] = [1, 2, 3, 4].map(|n| index.place_of(NodeId(n)).unwrap());
        // 10 B at 10 B/s: one second per contact, and one of light.
        let way = index.journey(one, four, 0, 10, &[]).unwrap();
        assert_eq!(way, PlannedJourney { departs: 10 * S, departs_by: 19 * S, arrives: 17 * S });
        let way = index.journey(one, four, 0, 10, &[two]).unwrap();
        assert_eq!(way, PlannedJourney { departs: 40 * S, departs_by: 49 * S, arrives: 47 * S });
        assert_eq!(index.journey(one, four, 0, 10, &[two, three]), None);
        assert_eq!(index.journey(one, four, 20 * S, 10, &[]).map(|way| way.departs), Some(40 * S), "the first is over");
        assert_eq!(index.journey(one, four, 0, 101, &[two]), None, "too long for any contact");
        assert_eq!(index.journey(four, one, 0, 1, &[]), None, "nothing leads back");
        assert_eq!(index.journey(one, one, 7, 1, &[]).map(|way| way.arrives), Some(7));
    }

    #[test]
    fn a_running_contact_has_an_end() {
        let index = index();
        let [one, two] = [1, 2].map(|n| index.place_of(NodeId(n)).unwrap());
        assert_eq!(index.contact_end(one, two, 10 * S), Some(20 * S));
        // A contact includes its start and excludes its end.
        assert_eq!((index.contact_end(one, two, 9 * S), index.contact_end(one, two, 20 * S)), (None, None));
        assert_eq!(index.contact_end(two, one, 15 * S), None);
    }
}
