//! Neighbour discovery: nodes announce at intervals their node ID, and the layers and ports at which they can be
//! reached.
//!
//! [`Announcer`] decides when to send a beacon and which announced nodes to connect to; it has no socket and makes no
//! link. Its driver sends each beacon to every multicast group, answers the queries of [`Around`], makes a link for
//! each [`Output::Discovered`] and removes it at [`Output::Lost`]. Discovery is not a convergence layer: no bundle
//! passes through it. Read [`beacon`] for the encoding, then [`Announcer::handle`].
//!
//! Beacons are unauthenticated. So a beacon causes at most one attempt at a time to connect to the announced address;
//! the rate of attempts is limited, and failures back off per address. A claim never displaces a configured neighbour
//! or one that has a session.

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

/// Number of announced periods without a beacon after which a neighbour counts as gone.
pub const SILENCE: u32 = 3;
/// Number of announced periods without a beacon after which a neighbour counts as gone although a session with
/// keepalives is up. Greater than [`SILENCE`], because beacons get lost on a busy link.
pub const SILENCE_ANSWERING: u32 = 12;
/// Longest time of one attempt to connect.
pub const ATTEMPT: Duration = Duration::from_secs(10);
/// Most attempts started within any interval of [`ATTEMPT`], whatever their outcome.
pub const ATTEMPTS_MAX: usize = 8;
/// Backoff of an address after its first failure; doubles with each further failure.
pub const AGAIN_MIN: Duration = Duration::from_secs(10);
/// Longest backoff of an address.
pub const AGAIN_MAX: Duration = Duration::from_secs(640);
/// Most node IDs kept per source address.
pub const NAMES_MAX: usize = 4;
/// Most announced nodes without a link that are kept.
pub const HEARD_MAX: usize = 256;
/// Longest beacon period; a longer announced one counts as this.
pub const PERIOD_MAX: Duration = Duration::from_secs(600);

/// Configuration of an announcer.
#[derive(Clone, PartialEq, Debug)]
pub struct Config {
    /// Node IDs of this node. Its beacons carry the first; received beacons with any of them are ignored as its own.
    pub node_ids: Vec<EndpointId>,
    /// Layers that this node announces.
    pub services: Vec<AnnouncedService>,
    /// Time between beacons, announced in them; each wait varies by 10 % at random.
    pub interval: Duration,
    /// Layers by which this node connects to neighbours, in order of preference.
    pub reach: Vec<&'static LayerInfo>,
    /// Patterns ([`EndpointId::is_pattern`]) of the node IDs whose beacons are used.
    pub accept: Vec<String>,
    /// Most links to discovered neighbours at once, including those not up yet.
    pub neighbours_max: usize,
    /// Seed of the random numbers.
    pub seed: u64,
}

/// Number of a discovered neighbour's link; not reused before 2^32 links.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct DiscoveredId(pub u32);

/// Input of an announcer.
#[derive(Clone, Copy, Debug)]
pub enum Input<'a> {
    /// A deadline passed ([`Announcer::next_timeout`]).
    Wake,
    /// A datagram arrived at the discovery port.
    Heard {
        /// Source address.
        from: SocketAddr,
        /// Payload of the datagram.
        bytes: &'a [u8],
    },
    /// The node shuts down: send a last beacon.
    Leave,
}

/// Output of an announcer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Output {
    /// Send this datagram to every multicast group.
    Announce(Vec<u8>),
    /// Make a link to this neighbour; it lasts until [`Output::Lost`].
    Discovered {
        /// Number of the neighbour.
        id: DiscoveredId,
        /// Claimed node ID, not proved.
        node: EndpointId,
        /// Index of the layer in [`Config::reach`].
        layer: usize,
        /// Address to connect to.
        address: SocketAddr,
    },
    /// Remove the neighbour's link.
    Lost {
        /// Number of the neighbour.
        id: DiscoveredId,
        /// Reason, for logs.
        why: &'static str,
    },
}

/// Queries to the node, answered by the driver.
pub trait Around {
    /// Whether a node can be reached without a new link: a configured link leads to it or to the address, a reachable
    /// neighbour has proven the node ID, or a session with this node ID from this address is open.
    fn is_known(&self, node: &EndpointId, layer: usize, address: SocketAddr) -> bool;
    /// State of the link made for a discovered neighbour.
    fn state(&self, id: DiscoveredId) -> LinkNow;
}

/// State of a link made for a neighbour.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LinkNow {
    /// The link can send bundles.
    Up,
    /// The link has no session, or does not exist.
    Down,
    /// An operator disabled the link.
    Off,
}
