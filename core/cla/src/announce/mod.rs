//! Neighbours found by announcements: a node says at intervals who it is and where it can be reached, and hears others
//! do so.
//!
//! [`Announcer`] decides what to say and when, and whom of those it hears to reach; it has no socket and makes no link.
//! Its driver sends what it says to every group, asks [`Around`] what it knows of the node, makes a link for each
//! [`Output::Discovered`] and ends it at its [`Output::Lost`]. It is no convergence layer: no bundle passes it. Read
//! [`beacon`] for the wire, then [`Announcer::handle`].
//!
//! What a beacon says anybody can say. So one that is heard is worth no more than an attempt to reach who is said to be
//! there, few at once, and after a failure none to that address for ever longer; what it claims displaces nobody who
//! was configured, or is there already.

mod announced;
mod announcer;
mod attempts;
pub mod beacon;

pub use announced::{AnnouncedNode, NodeState};
pub use announcer::{Announcer, BeaconCounts};
pub use beacon::{AnnouncedService, Beacon};

use crate::registry::LayerInfo;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::SocketAddr;
use farlink_base::{Duration, EndpointId};

/// Periods without a beacon after which a neighbour is taken to be gone.
pub const SILENCE: u32 = 3;
/// The same of one with a session that answers: beacons get lost where much is sent.
pub const SILENCE_ANSWERING: u32 = 12;
/// How long an attempt to reach somebody may take.
pub const ATTEMPT: Duration = Duration::from_secs(10);
/// Attempts under way at once.
pub const ATTEMPTS_MAX: usize = 8;
/// First wait after a failure until the next attempt at that address; doubles each time.
pub const AGAIN_MIN: Duration = Duration::from_secs(10);
/// The longest that becomes.
pub const AGAIN_MAX: Duration = Duration::from_secs(640);
/// Names heard from one address of which something is kept.
pub const NAMES_MAX: usize = 4;
/// Nodes heard, beside neighbours, of which something is kept.
pub const HEARD_MAX: usize = 256;
/// Longest period that a beacon is believed.
pub const PERIOD_MAX: Duration = Duration::from_secs(600);

/// What an announcer is told.
#[derive(Clone, PartialEq, Debug)]
pub struct Config {
    /// Names of this node; the first is announced.
    pub node_ids: Vec<EndpointId>,
    /// Layers that it announces.
    pub services: Vec<AnnouncedService>,
    /// Time between its beacons, give or take a tenth; it says so in them.
    pub interval: Duration,
    /// Layers by which neighbours may be reached, those preferred first.
    pub reach: Vec<&'static LayerInfo>,
    /// Whose beacons are acted upon: patterns ([`EndpointId::is_pattern`]) of node IDs.
    pub accept: Vec<String>,
    /// Most neighbours at once, those not yet reached included.
    pub neighbours_max: usize,
    /// Seed of what is random.
    pub seed: u64,
}

/// Number of a neighbour that was found; never given twice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct DiscoveredId(pub u32);

/// What an announcer hears.
#[derive(Clone, Copy, Debug)]
pub enum Input<'a> {
    /// Time passed.
    Wake,
    /// A datagram came.
    Heard {
        /// From where.
        from: SocketAddr,
        /// What it says.
        bytes: &'a [u8],
    },
    /// The node ends.
    Leave,
}

/// What an announcer decides.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Output {
    /// Send this to every group.
    Announce(Vec<u8>),
    /// Make a link to a neighbour; it lasts until it is [`Output::Lost`].
    Discovered {
        /// Its number.
        id: DiscoveredId,
        /// Its name, which nobody has proved.
        node: EndpointId,
        /// The layer: its place in [`Config::reach`].
        layer: usize,
        /// Where it is reached.
        address: SocketAddr,
    },
    /// End the link to it.
    Lost {
        /// Its number.
        id: DiscoveredId,
        /// Why, for logs.
        why: &'static str,
    },
}

/// What the node's driver knows.
pub trait Around {
    /// Whether the node needs no beacon to reach another, by a layer of [`Config::reach`] and at an address: it has a
    /// link to it already that was configured, it is surer of somebody else of that name, or is served from that
    /// address.
    fn is_known(&self, node: &EndpointId, layer: usize, address: SocketAddr) -> bool;
    /// What became of the link to a neighbour.
    fn state(&self, id: DiscoveredId) -> LinkNow;
}

/// A link that was made for a neighbour.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LinkNow {
    /// Bundles may leave over it.
    Up,
    /// It does not answer, or there is no such link.
    Down,
    /// An operator keeps bundles off it.
    Off,
}
