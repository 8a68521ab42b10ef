//! Queries of a congestion control to the contact plan: how early a bundle at one node could be at another.

use farlink_base::{Instant, NodeId};

/// Path of a bundle between two nodes over planned contacts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Journey {
    /// Departure from the first node.
    pub departs: Instant,
    /// Latest possible departure by the same first contact.
    pub departs_by: Instant,
    /// Arrival at the last node.
    pub arrives: Instant,
}

/// A contact plan mapped to a node's clock. Nodes are given by their index in the plan.
pub trait Journeys {
    /// Number that changes with the plan, and with the clock that maps it to this node's time.
    fn edition(&self) -> u64;
    /// Number of nodes in the plan; 0 while there is no plan, or no clock to map it.
    fn nodes(&self) -> u32;
    /// Index of a node, in order of node numbers, so that equal plans have equal indexes everywhere; `None` if the plan
    /// does not name the node.
    fn place(&self, node: NodeId) -> Option<u32>;
    /// Path with the earliest arrival for `size` bytes between two nodes, departing at `at` or later and avoiding the
    /// nodes `avoid`. `None` if there is no such path or the search examines too many nodes.
    fn journey(&self, from: u32, to: u32, at: Instant, size: u64, avoid: &[u32]) -> Option<Journey>;
    /// End of the contact in which `from` can send to `to` now; `None` without such a contact.
    fn contact_end(&self, from: u32, to: u32, now: Instant) -> Option<Instant>;
}
