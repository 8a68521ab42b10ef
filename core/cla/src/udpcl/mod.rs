//! UDP convergence layer: bundles in datagrams (RFC 7122 3.2), and the extensions of UDPCLv2
//! (draft-ietf-dtn-udpcl-04).
//!
//! [`Udpcl`] is one entity, driven as a [`farlink_base::layer::ConvergenceLayer`]. A bundle leaves as one datagram or,
//! to a peer of version 2, in segments. There are no acknowledgments: a bundle counts as sent when all of it has been
//! handed to the driver, at the link's rate. Both versions are received, without DTLS. [`packet`] is the encoding.
//! Bundles are not parsed: a function in [`Config`] finds their end.
//!
//! A peer is identified by its address. Bundles from unknown addresses are accepted if [`Config`] allows. Nothing but
//! short answers is sent to such an address until its peer has announced a node ID and that it listens, and has proved
//! by a nonce that it receives there.

mod arriving;
mod dynamic;
mod entity;
mod finished;
pub mod packet;
mod params;
mod peers;
mod protocol;
mod reading;
mod sending;
mod span;
mod transfers;

pub use crate::ltp::{Split, whole_block};
pub use entity::{Udpcl, Usage};
pub use params::{LINK_PARAMS, PARAMS};
pub use reading::UdpclReader;

use alloc::string::String;
use farlink_base::{Duration, LayerId, LinkId, Refusal};

/// Longest bundle in one datagram of IPv4, bytes.
pub const DATAGRAM_MAX: u64 = 65_507;
/// Shortest keepalive interval (RFC 7122 3.4).
pub const KEEPALIVE_MIN: Duration = Duration::from_secs(15);

/// Result that the sender of a refused bundle sees: always success, because UDPCL conveys no refusal.
pub fn sender_result(_: Refusal) -> Result<(), Refusal> {
    Ok(())
}

/// Configuration of one entity.
#[derive(Clone, Debug)]
pub struct Config {
    /// Number of this layer in its stack; part of the numbers of its dynamic links, so that two layers use no number
    /// twice.
    pub layer: LayerId,
    /// Node ID announced to peers of version 2. If empty, announcements carry only the time for which this node
    /// listens.
    pub node_id: String,
    /// Whether datagrams from addresses without a link are accepted.
    pub accept_unknown: bool,
    /// Seed of transfer numbers and nonces. A real node must use another one after a restart, because its peers
    /// remember earlier transfers.
    pub seed: u64,
    /// Most transfers being received at once; peers without a configured link may use a quarter.
    pub transfers: u32,
    /// Most bytes of transfers being received; peers without a configured link may use a quarter.
    pub memory_bytes: u64,
    /// Longest bundle accepted in segments, bytes.
    pub transfer_bytes: u64,
    /// Time without a new segment after which a transfer is dropped.
    pub idle: Duration,
    /// Finds the end of a bundle in a datagram that holds several.
    pub split: Split,
}
impl Default for Config {
    fn default() -> Self {
        Config {
            layer: LayerId(0),
            node_id: String::new(),
            accept_unknown: true,
            seed: 0,
            transfers: 4096,
            memory_bytes: 256 << 20,
            transfer_bytes: 64 << 20,
            idle: Duration::from_secs(60),
            split: whole_block,
        }
    }
}

/// Parameters of one neighbour's link.
#[derive(Clone, PartialEq, Debug)]
pub struct LinkParams {
    /// Number of the link.
    pub link: LinkId,
    /// Node ID of the neighbour; announcements of other node IDs are rejected. If empty, the first one that the
    /// neighbour announces is taken.
    pub node_id: String,
    /// Protocol version for sending: 1 (RFC 7122) or 2 (draft-ietf-dtn-udpcl).
    pub version: u8,
    /// Longest datagram, bytes. Longer bundles leave in segments with version 2, and as fragments with version 1
    /// ([`LinkParams::largest`]).
    pub datagram_bytes: u32,
    /// Length of the headers that the medium adds to each datagram, bytes (IP and UDP: 28); they count against the
    /// rate.
    pub overhead_bytes: u32,
    /// Sending rate while the rate of the link is not known, bytes per second, headers included.
    pub pace_bytes: u64,
    /// Longest silence before a keepalive is sent, so that address translators keep the path open; at least
    /// [`KEEPALIVE_MIN`]. Zero: no keepalives.
    pub keepalive: Duration,
}
impl Default for LinkParams {
    fn default() -> Self {
        LinkParams {
            link: LinkId(0),
            node_id: String::new(),
            version: 1,
            datagram_bytes: 1400,
            overhead_bytes: 28,
            pace_bytes: 125_000,
            keepalive: Duration::ZERO,
        }
    }
}
impl LinkParams {
    /// Longest bundle that the link takes, bytes; `None`: no limit.
    pub fn largest(&self) -> Option<u64> {
        (self.version < 2).then_some(u64::from(self.datagram_bytes).min(DATAGRAM_MAX))
    }
}
