//! Requests and results of route searches.

use super::profile::Profile;
use crate::PlanTime;
use crate::plan_index::GroupId;
use alloc::vec::Vec;
use farlink_base::{DataRate, LinkId, NodeId, Priority};

/// Request for a route.
#[derive(Clone, Copy, Debug)]
pub struct Query<'a> {
    /// Node that has the bundle.
    pub from: NodeId,
    /// Node to reach.
    pub to: NodeId,
    /// Earliest departure.
    pub at: PlanTime,
    /// Size of the encoded bundle, bytes.
    pub size: u64,
    /// Latest arrival.
    pub expires: PlanTime,
    /// Class of service.
    pub priority: Priority,
    /// Neighbours excluded as first hop.
    pub excluded: &'a [NodeId],
    /// Rules for overheads and margins.
    pub profile: Profile,
}
impl Query<'_> {
    /// Request without deadline, at normal priority, in the exact profile.
    pub fn new(from: NodeId, to: NodeId, at: PlanTime, size: u64) -> Self {
        Query {
            from,
            to,
            at,
            size,
            expires: PlanTime::MAX,
            priority: Priority::Normal,
            excluded: &[],
            profile: Profile::Exact,
        }
    }
}

/// A hop of a route.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Hop {
    /// Index of the contact in the plan; `None` for a link outside the plan.
    pub contact: Option<u32>,
    /// Transmitting node.
    pub from: NodeId,
    /// Receiving node.
    pub to: NodeId,
    /// Departure of the first byte.
    pub start: PlanTime,
    /// Arrival of the last byte.
    pub arrival: PlanTime,
}

/// A route of one bundle.
#[derive(Clone, PartialEq, Debug)]
pub struct Route {
    /// Hops in order; empty if the bundle is at its destination.
    pub path: Vec<Hop>,
    /// Arrival of the whole bundle.
    pub arrival: PlanTime,
    /// End of the contact that ends first.
    pub until: PlanTime,
    /// Bytes taken of every contact.
    pub volume: u64,
    /// Link outside the plan with which it begins, if any.
    pub outside: Option<LinkId>,
}
impl Route {
    /// Number of hops.
    pub fn hops(&self) -> usize {
        self.path.len()
    }
    /// First contact, if the first hop uses the plan.
    pub fn first_contact(&self) -> Option<u32> {
        self.path.first()?.contact
    }
    /// First neighbour (the entry node).
    pub fn next_hop(&self) -> Option<NodeId> {
        self.path.first().map(|hop| hop.to)
    }
}

/// A link outside the plan that is up and may be the first hop.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct OutsideLink {
    /// Local link number.
    pub link: LinkId,
    /// Neighbour at its other end.
    pub peer: NodeId,
    /// Rate of the link, if known.
    pub rate: Option<DataRate>,
    /// Time until which it stays up; [`PlanTime::MAX`] without a known end.
    pub until: PlanTime,
}

/// Origin of a search.
pub struct Origin<'a> {
    /// All identifiers of this node.
    pub nodes: &'a [NodeId],
    /// Time from which contacts of a group may be the first hop; `None` for unusable groups.
    pub usable: &'a dyn Fn(GroupId) -> Option<PlanTime>,
    /// Links outside the plan.
    pub outside: &'a [OutsideLink],
}
