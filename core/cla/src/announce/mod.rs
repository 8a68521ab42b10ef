//! Neighbour discovery: nodes announce at intervals who they are and where they can be reached.
//!
//! [`Announcer`] decides when to send a beacon and which announced nodes to connect to; it has no socket and makes no
//! link. Its driver sends each beacon to every multicast group, answers the queries of [`Around`], makes a link for
//! each [`Output::Discovered`] and removes it at its [`Output::Lost`]. It is not a convergence layer: no bundle
//! passes through it. Read [`beacon`] for the encoding, then [`Announcer::handle`].
//!
//! Beacons are unauthenticated. So a beacon earns no more than one attempt to connect to the announced address; few
//! attempts run at once, and failures back off per address. A claim never displaces a configured neighbour or one
//! that has a session.

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

/// Beacon periods without a beacon after which a neighbour counts as gone.
pub const SILENCE: u32 = 3;
/// Beacon periods without a beacon while a session with keepalives is up: beacons get lost on a busy link.
pub const SILENCE_ANSWERING: u32 = 12;
/// Longest time of one attempt to connect.
pub const ATTEMPT: Duration = Duration::from_secs(10);
/// Most attempts at once.
pub const ATTEMPTS_MAX: usize = 8;
/// Backoff of an address after its first failure; doubles with each further one.
pub const AGAIN_MIN: Duration = Duration::from_secs(10);
/// Longest backoff of an address.
pub const AGAIN_MAX: Duration = Duration::from_secs(640);
/// Most names kept per source address.
pub const NAMES_MAX: usize = 4;
/// Most announced nodes kept, besides neighbours with a link.
pub const HEARD_MAX: usize = 256;
/// Longest beacon period that is accepted; longer ones count as this.
pub const PERIOD_MAX: Duration = Duration::from_secs(600);

/// Configuration of an announcer.
#[derive(Clone, PartialEq, Debug)]
pub struct Config {
    /// Names of this node; the first is announced.
    pub node_ids: Vec<EndpointId>,
    /// Layers announced.
    pub services: Vec<AnnouncedService>,
    /// Time between beacons, announced in them; each wait varies by 10 %.
    pub interval: Duration,
    /// Layers for connecting to neighbours, in order of preference.
    pub reach: Vec<&'static LayerInfo>,
    /// Patterns ([`EndpointId::is_pattern`]) of the node IDs whose beacons are used.
    pub accept: Vec<String>,
    /// Most neighbours at once, including those not connected yet.
    pub neighbours_max: usize,
    /// Seed of the random numbers.
    pub seed: u64,
}

/// Number of a discovered neighbour; never reused.
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
    /// Whether a node can be reached without the beacon: a configured link leads to it, a better proved session holds
    /// its name, or a session to that address is up.
    fn is_known(&self, node: &EndpointId, layer: usize, address: SocketAddr) -> bool;
    /// State of a neighbour's link.
    fn state(&self, id: DiscoveredId) -> LinkNow;
}

/// State of a link made for a neighbour.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LinkNow {
    /// Bundles may leave over it.
    Up,
    /// The link has no session, or does not exist.
    Down,
    /// An operator disabled the link.
    Off,
}
