//! What searches are asked, and what they answer.

use super::profile::Profile;
use crate::PlanTime;
use crate::plan_index::GroupId;
use alloc::vec::Vec;
use farlink_base::{DataRate, LinkId, NodeId, Priority};

/// What to find a route for.
#[derive(Clone, Copy, Debug)]
pub struct Query<'a> {
    /// Where the bundle is.
    pub from: NodeId,
    /// Where it shall go.
    pub to: NodeId,
    /// From when on.
    pub at: PlanTime,
    /// Size of the encoded bundle, bytes.
    pub size: u64,
    /// It must arrive by then.
    pub expires: PlanTime,
    /// Class of service.
    pub priority: Priority,
    /// Neighbours not to be used as first hop.
    pub excluded: &'a [NodeId],
    /// Overhead and margins.
    pub profile: Profile,
}
impl Query<'_> {
    /// A query without deadline, at normal priority, in the exact profile.
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

/// One hop of a route.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Hop {
    /// Index of the contact in the plan; `None` is a link outside the plan.
    pub contact: Option<u32>,
    /// Transmitting node.
    pub from: NodeId,
    /// Receiving node.
    pub to: NodeId,
    /// The first byte leaves.
    pub start: PlanTime,
    /// The last byte arrives.
    pub arrival: PlanTime,
}

/// A route for one bundle.
#[derive(Clone, PartialEq, Debug)]
pub struct Route {
    /// The hops in order; none when the bundle is where it shall go.
    pub path: Vec<Hop>,
    /// When the whole bundle has arrived.
    pub arrival: PlanTime,
    /// End of the contact of the route that ends first.
    pub until: PlanTime,
    /// Bytes it takes of every contact.
    pub volume: u64,
    /// The link outside the plan it begins with, if it does.
    pub outside: Option<LinkId>,
}
impl Route {
    /// Number of hops.
    pub fn hops(&self) -> usize {
        self.path.len()
    }
    /// The first contact, when the first hop is one of the plan.
    pub fn first_contact(&self) -> Option<u32> {
        self.path.first()?.contact
    }
    /// The neighbour it begins with (the entry node).
    pub fn next_hop(&self) -> Option<NodeId> {
        self.path.first().map(|hop| hop.to)
    }
}

/// A link outside the plan, up now: the first hop may use it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct OutsideLink {
    /// Which.
    pub link: LinkId,
    /// The neighbour.
    pub peer: NodeId,
    /// How fast, where known.
    pub rate: Option<DataRate>,
    /// Until when, where known.
    pub until: PlanTime,
}

/// Where a search begins.
pub struct Origin<'a> {
    /// All identifiers of this node.
    pub nodes: &'a [NodeId],
    /// From which start on this node can use the contacts of a group of its own; `None`: none.
    pub usable: &'a dyn Fn(GroupId) -> Option<PlanTime>,
    /// Links outside the plan.
    pub outside: &'a [OutsideLink],
}
