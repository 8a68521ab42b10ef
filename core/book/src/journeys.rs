//! Queries of a congestion control to the contact plan: the earliest time at which a bundle at one node could be at
//! another.

use farlink_base::{Instant, NodeId};

/// The earliest route of a bundle between two nodes over planned contacts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Journey {
    /// Departure from the first node.
    pub departs: Instant,
    /// Latest possible departure by the same first contact.
    pub departs_by: Instant,
    /// Arrival at the last node.
    pub arrives: Instant,
}

/// A contact plan on a node's clock.
pub trait Journeys {
    /// Version number that changes with the plan and with the clock that maps the plan to this node's time.
    fn edition(&self) -> u64;
    /// Number of nodes in the plan.
    fn nodes(&self) -> u32;
    /// Index of a node in order of node numbers, the same wherever the plan is the same.
    fn place(&self, node: NodeId) -> Option<u32>;
    /// Earliest route of `size` bytes between two indices, not before `at` and through none of `avoid`; `None` if
    /// the plan has no such route.
    fn journey(&self, from: u32, to: u32, at: Instant, size: u64, avoid: &[u32]) -> Option<Journey>;
    /// End of the contact in which `from` can send to `to` now; `None` without such a contact.
    fn contact_end(&self, from: u32, to: u32, now: Instant) -> Option<Instant>;
}
