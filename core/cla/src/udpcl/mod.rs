//! Bundles in datagrams: the UDP convergence layer (RFC 7122 3.2), and what UDPCLv2 adds to it
//! (draft-ietf-dtn-udpcl-04).
//!
//! [`Udpcl`] is one entity, driven as a [`farlink_base::layer::ConvergenceLayer`]. A bundle leaves as
//! one datagram, or, to a peer that speaks version 2, in segments; nobody confirms it, so it counts as
//! sent when it has left, at a pace that is kept. What arrives is heard in both versions, without DTLS.
//! [`packet`] is the wire. It never looks inside a bundle: a function in [`Config`] tells where one ends.
//!
//! A peer is known by its address. What comes from elsewhere is taken too, where [`Config`] says so,
//! but nothing is sent there until whoever is there says its name, that it listens, and what only one
//! at that address can know.

mod arriving;
mod dynamic;
mod entity;
mod finished;
pub mod packet;
mod params;
mod peers;
mod sending;
mod span;
mod transfers;

pub use crate::ltp::{Split, whole_block};
pub use entity::{Udpcl, Usage};
pub use params::{LINK_PARAMS, PARAMS};

use alloc::string::String;
use farlink_base::{Duration, LayerId, LinkId, Refusal};

/// Longest bundle that fits one datagram of IPv4.
pub const DATAGRAM_MAX: u64 = 65_507;
/// Shortest interval of keepalives (RFC 7122 3.4).
pub const KEEPALIVE_MIN: Duration = Duration::from_secs(15);

/// What the sender of a bundle hears when it is refused for this reason: nothing. For it, the bundle is
/// as good as kept.
pub fn told(_: Refusal) -> Result<(), Refusal> {
    Ok(())
}

/// One entity.
#[derive(Clone, Debug)]
pub struct Config {
    /// This instance's number in its stack (keeps dynamic link numbers apart).
    pub layer: LayerId,
    /// The node ID this entity says it is, to peers of version 2; empty: it says none.
    pub node_id: String,
    /// Whether datagrams from addresses without a link are taken.
    pub accept_unknown: bool,
    /// Seed of transfer numbers and probes. A real node must not reuse one after a restart: its peers
    /// remember the transfers of before.
    pub seed: u64,
    /// Transfers that arrive at once, over all links; of strangers a quarter.
    pub transfers: u32,
    /// Bytes of transfers that are still arriving, over all links; of strangers a quarter.
    pub memory_bytes: u64,
    /// Longest transfer taken.
    pub transfer_bytes: u64,
    /// A transfer that gets no segment for so long is dropped.
    pub idle: Duration,
    /// Where a bundle in a datagram ends, for datagrams of several.
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

/// One neighbour.
#[derive(Clone, PartialEq, Debug)]
pub struct LinkParams {
    /// Which link it is.
    pub link: LinkId,
    /// The neighbour's node ID; of another name it claims nothing is believed. Empty: any.
    pub node_id: String,
    /// Version of the protocol it is sent: 1 (RFC 7122) or 2 (draft-ietf-dtn-udpcl).
    pub version: u8,
    /// Bytes of one datagram: longer bundles go in segments with version 2, and as fragments with version 1
    /// ([`LinkParams::largest`]).
    pub datagram_bytes: u32,
    /// Bytes of headers the medium adds to each datagram (IP and UDP: 28); charged to the rate.
    pub overhead_bytes: u32,
    /// Bytes per second, headers counted, where no rate of the link is known.
    pub pace_bytes: u64,
    /// Something is sent this often at least, so that address translators on the way remember the
    /// neighbour; zero: nothing is. At least [`KEEPALIVE_MIN`].
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
    /// Longest bundle it takes, in bytes; `None`: any.
    pub fn largest(&self) -> Option<u64> {
        (self.version < 2).then_some(u64::from(self.datagram_bytes).min(DATAGRAM_MAX))
    }
}
