//! What a contact plan promises, as a congestion control may ask it: when something that is at a node
//! now could be at another.

use farlink_base::{Instant, NodeId};

/// The earliest way of one bundle from node to node over planned contacts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Journey {
    /// When it leaves the first node.
    pub departs: Instant,
    /// When it could leave that node at the latest by the same first contact.
    pub departs_by: Instant,
    /// When it is there.
    pub arrives: Instant,
}

/// A contact plan on a node's clock.
pub trait Journeys {
    /// Another number after each change of the plan or of the clock that places it.
    fn edition(&self) -> u64;
    /// Nodes of the plan.
    fn nodes(&self) -> u32;
    /// A node's place among them, in order of their numbers: the same wherever the plan is the same.
    fn place(&self, node: NodeId) -> Option<u32>;
    /// The earliest way of so many bytes from place to place, not before `at`, and through none of the
    /// places to be avoided; `None`: there is none.
    fn journey(&self, from: u32, to: u32, at: Instant, size: u64, avoid: &[u32]) -> Option<Journey>;
    /// When the contact in which the one can send to the other now is over; `None`: there is none now.
    fn contact_end(&self, from: u32, to: u32, now: Instant) -> Option<Instant>;
}
