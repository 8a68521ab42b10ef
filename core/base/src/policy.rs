//! What routers and congestion controls see and say. Their traits are in `core/routing` and
//! `core/congestion`; they meet only in the agent, through these types.

use crate::id::{BundleHandle, LinkId, NodeId};
use crate::time::Instant;
use alloc::vec::Vec;

/// Class of service of a bundle.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Priority {
    /// Lowest: file transfers.
    Bulk,
    /// The default.
    #[default]
    Normal,
    /// Highest: commands.
    Expedited,
}
impl Priority {
    /// All, lowest first.
    pub const ALL: [Priority; 3] = [Priority::Bulk, Priority::Normal, Priority::Expedited];
    /// 0, 1, 2 (the numbers of BPv6 and of ION's QoS block).
    pub const fn number(self) -> u8 {
        self as u8
    }
    /// From 0, 1, 2; larger numbers count as expedited.
    pub const fn from_number(number: u8) -> Priority {
        match number {
            0 => Priority::Bulk,
            1 => Priority::Normal,
            _ => Priority::Expedited,
        }
    }
}

/// What a policy may know of a bundle.
#[derive(Clone, Debug, PartialEq)]
pub struct BundleView {
    /// Its number in this node.
    pub bundle: BundleHandle,
    /// Source node.
    pub source: NodeId,
    /// Destination node.
    pub destination: NodeId,
    /// Whole encoded bundle, in bytes.
    pub size: u64,
    /// Payload bytes.
    pub payload_size: u64,
    /// Class of service.
    pub priority: Priority,
    /// When it was received or created here.
    pub received: Instant,
    /// When its lifetime ends.
    pub expires: Instant,
    /// Nodes it crossed so far, when it carries a hop count.
    pub hops: u64,
    /// The neighbour it came from.
    pub received_from: Option<NodeId>,
    /// Neighbours that refused it or failed for it since it was last moved.
    pub excluded: Vec<NodeId>,
    /// Whether it may be cut into fragments.
    pub may_fragment: bool,
    /// Whether a copy should go over every plausible route.
    pub critical: bool,
    /// Copies this node may still give away, where a replicating router keeps count.
    pub copies: u32,
}

/// What a router wants done with a bundle, in order of preference.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Proposal {
    /// Send it over this link, and it leaves this node.
    Forward {
        /// Over which link.
        link: LinkId,
        /// To which neighbour.
        next_hop: NodeId,
        /// Not before then (the contact's start), where the router knows.
        not_before: Instant,
        /// Ask again if it has not left by then (the contact's end).
        until: Instant,
        /// When the route is expected to deliver it, where the router knows.
        arrival: Option<Instant>,
    },
    /// Send a copy over this link and keep it.
    Copy {
        /// Over which link.
        link: LinkId,
        /// To which neighbour.
        next_hop: NodeId,
        /// Copies handed over with it; the rest stay here.
        split: u32,
    },
    /// Nothing to do until then, or until something changes.
    Wait {
        /// When to ask again.
        until: Instant,
    },
}

/// A policy's message to the same policy at a neighbour; the agent carries it as a one-hop bundle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signal {
    /// To whom.
    pub peer: NodeId,
    /// What, in the policy's own format.
    pub bytes: Vec<u8>,
}
