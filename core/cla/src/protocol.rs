//! The contract between a convergence layer's folder and everything that configures, builds and drives layers.
//!
//! A new layer is a folder with an `impl` of [`Protocol`] and one row in [`each_protocol`](crate::each_protocol). No
//! method has a default body, so the compiler demands each of them from a new layer.

use crate::registry::LayerInfo;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Debug;
use core::net::IpAddr;
use farlink_base::layer::{ConvergenceLayer, Input, Output};
use farlink_base::{Duration, Instant, LayerId, LayerParam, LinkId, Malformed, NodeId, Payload, Sink, StreamId};

/// Names of a node in its layers; each protocol uses the name that its messages carry.
#[derive(Clone, Default, Debug)]
pub struct Identity {
    /// Node ID as text (TCPCL, UDPCL).
    pub node_id: String,
    /// LTP engine number.
    pub engine: u64,
}

/// A neighbour as a layer is configured for it.
#[derive(Clone, Default, Debug)]
pub struct Neighbour {
    /// Names by which the layer identifies the neighbour.
    pub identity: Identity,
    /// Node number of the neighbour's node ID.
    pub node: NodeId,
    /// Whether this side opens streams to the neighbour.
    pub connect: bool,
}

/// Position of a layer within its stack.
#[derive(Clone, Copy, Debug)]
pub struct Position {
    /// Number of the layer; keeps stream and dynamic link numbers of several layers apart.
    pub layer: LayerId,
    /// Seed of numbers that peers remember, such as those of sessions; differs after a restart of a real node.
    pub seed: u64,
    /// Finds the length of the first complete bundle in some bytes, for protocols that carry several at once; `None` if
    /// it is incomplete.
    pub split: fn(&Payload) -> Result<Option<u64>, Malformed>,
}

/// One protocol: its rows in the registry, its settings, its links and its state machine.
pub trait Protocol: ConvergenceLayer + Debug + Sized {
    /// Settings of the whole layer.
    type Config: Clone + Debug + 'static;
    /// Settings of one link.
    type Link: Clone + PartialEq + Debug + 'static;

    /// Rows of the registry; more than one where names differ in settings only (STCP and MTCP).
    const LAYERS: &'static [LayerInfo];
    /// Table of the settings of one link.
    const LINK_PARAMS: &'static [LayerParam<Self::Link>];

    /// Default configuration for a row of [`LAYERS`](Self::LAYERS) at a node of this identity.
    fn config(info: &LayerInfo, own: Identity) -> Self::Config;
    /// Table of the settings of the whole layer, for a row of [`LAYERS`](Self::LAYERS).
    fn params(info: &LayerInfo) -> &'static [LayerParam<Self::Config>];
    /// Row of [`LAYERS`](Self::LAYERS) that a configuration belongs to.
    fn info(config: &Self::Config) -> &'static LayerInfo;
    /// Default settings of a link to `neighbour`.
    fn link(neighbour: Neighbour) -> Self::Link;
    /// The layer with its configured links, which are down.
    fn create(config: &Self::Config, position: Position, links: Vec<(LinkId, Self::Link)>) -> Self;

    /// Bytes on the medium for each 1,000,000 bytes of bundle.
    fn wire_bytes_per_million(link: &Self::Link) -> u64;
    /// Longest bundle that a link takes, bytes; `None`: any.
    fn largest_bundle(link: &Self::Link) -> Option<u64>;
    /// Whether a link is set to authenticate but has no key.
    fn lacks_key(link: &Self::Link) -> bool;
    /// Adapts the settings of a link to a neighbour known from announcements, which come every `interval`: its node ID
    /// is unverified, and stream layers wait `interval` between attempts to connect.
    fn discovered(link: Self::Link, interval: Duration) -> Self::Link;

    /// Adds a link while the layer runs; false if the layer already has a link of this number.
    fn add_link(&mut self, now: Instant, id: LinkId, link: Self::Link, out: &mut impl Sink<Output>) -> bool;
    /// Replaces the keys of a link without ending its sessions; false if the link must be removed and added again
    /// instead.
    fn rekey(&mut self, id: LinkId, link: &Self::Link) -> bool;
    /// Whether a session with a peer of this node ID at this address is open.
    fn serves(&self, node_id: &str, at: IpAddr) -> bool;
    /// Releases memory that a busy period needed.
    fn shrink(&mut self);
    /// Takes one input like [`ConvergenceLayer::handle`], but may leave bytes for the returned stream to a later
    /// [`write`](Self::write), so that inputs which come together leave in one write.
    fn handle_soon(&mut self, now: Instant, input: Input, out: &mut impl Sink<Output>) -> Option<StreamId>;
    /// Writes bytes that [`handle_soon`](Self::handle_soon) left for a stream.
    fn write(&mut self, now: Instant, stream: StreamId, out: &mut impl Sink<Output>);
}

/// Calls a macro with one `Variant: type` row for every protocol; the only list of them.
#[macro_export]
macro_rules! each_protocol {
    ($then:ident) => {
        $then! {
            Ltp: $crate::ltp::Ltp,
            Tcpcl: $crate::tcpcl_v4::TcpclV4,
            OneWay: $crate::oneway::OneWay,
            Udpcl: $crate::udpcl::Udpcl,
        }
    };
}
