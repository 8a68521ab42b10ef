//! TCP convergence layer, version 4 (RFC 9174). The driver runs TLS; this layer decides when TLS starts and checks the
//! identity that the peer proves by it.
//!
//! A session is a state machine over one byte stream; [`TcpclV4`] holds all sessions. A link leads to one neighbour and
//! is served by any number of sessions: bundles leave by the newest and arrive by all. Bundles are not parsed, and a
//! bundle in transfer returns to the agent only when its session ends.
//!
//! The same state machine serves sessions of version 3 if [`Versions`] includes it; the differences are in
//! [`tcpcl_v3`](crate::tcpcl_v3).

mod admission;
pub(crate) mod contact;
mod due;
pub(crate) mod incoming;
mod layer;
mod links;
pub(crate) mod outgoing;
mod params;
mod peers;
mod protocol;
mod reading;
pub(crate) mod session;
mod used;
pub(crate) mod wire;

pub use crate::streams::PARK;
pub use layer::{TcpclV4, Usage};
pub(crate) use params::REACTIVE;
pub use params::{LINK_PARAMS, PARAMS};
pub use reading::TcpclReader;
pub use wire::sender_result;

use alloc::boxed::Box;
use alloc::string::String;
use farlink_base::{Duration, LayerId, LinkId};

/// Policy for TLS (RFC 9174 4.3, 4.4).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Tls {
    /// Never used: the contact header offers no TLS.
    #[default]
    Forbid,
    /// Used if the peer supports it.
    Allow,
    /// Required: peers without TLS are rejected.
    Require,
}

/// TCPCL versions of an entity.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Versions {
    /// Version 4 only (RFC 9174). A peer of another version is rejected, with the reason where RFC 9174 4.3 allows.
    #[default]
    Four,
    /// Version 3 only (RFC 7242).
    Three,
    /// Both at one port. Incoming connections are answered in their version; neighbours are contacted in version 4
    /// until their answers show that they use version 3 (RFC 9174 4.3). Where TLS is required, only version 4 is used.
    Both,
}

/// Configuration of one TCPCL entity.
#[derive(Clone, Debug)]
pub struct Config {
    /// Number of this layer in its stack; part of the numbers of its streams and dynamic links, so that two layers use
    /// no number twice.
    pub layer: LayerId,
    /// Node ID for SESS_INIT.
    pub node_id: String,
    /// Keepalive interval offered; zero disables keepalives.
    pub keepalive: Duration,
    /// Largest segment accepted, bytes.
    pub segment_mru: u64,
    /// Largest bundle accepted, bytes.
    pub transfer_mru: u64,
    /// Most sessions at once.
    pub sessions: u32,
    /// Whether peers without a configured link may connect; their link is dynamic.
    pub accept_unknown: bool,
    /// Longest time for opening a session (contact header, TLS, SESS_INIT), and for the peer to react when a session
    /// ends, before the peer is dropped.
    pub contact_timeout: Duration,
    /// Time without transfers after which a session is terminated; zero: never.
    pub idle: Duration,
    /// Longest time without progress before a session is dropped, for each of: data of a transfer from the peer, its
    /// acknowledgments, and its reading; zero: never.
    pub progress: Duration,
    /// Least number of payload bytes for which a receiver, this node or the peer, keeps the received part of a broken
    /// transfer. Parts are kept only if both sides offer to keep them. 0: none are kept.
    pub reactive: u64,
    /// Policy for TLS.
    pub tls: Tls,
    /// Versions in use.
    pub versions: Versions,
}
impl Config {
    /// Whether peers of version 3 are served beside peers of version 4. False where TLS is required, because version 3
    /// has no TLS.
    pub(crate) fn adapts(&self) -> bool {
        self.versions == Versions::Both && self.tls != Tls::Require
    }
    /// Keepalive interval for SESS_INIT, s; rounded up, because 0 would disable keepalives.
    pub(crate) fn keepalive_s(&self) -> u16 {
        let seconds = self.keepalive.as_nanos().div_ceil(1_000_000_000);
        u16::try_from(seconds).unwrap_or(u16::MAX)
    }
}
impl Default for Config {
    fn default() -> Self {
        Config {
            layer: LayerId(0),
            node_id: String::new(),
            keepalive: Duration::from_secs(30),
            segment_mru: 1 << 20,
            transfer_mru: 4 << 30,
            sessions: 1000,
            accept_unknown: true,
            contact_timeout: Duration::from_secs(10),
            idle: Duration::ZERO,
            progress: Duration::from_secs(120),
            reactive: 0,
            tls: Tls::Forbid,
            versions: Versions::Four,
        }
    }
}

/// Parameters of one neighbour's link.
#[derive(Clone, PartialEq, Debug)]
pub struct LinkParams {
    /// Number of the link.
    pub link: LinkId,
    /// Node ID that the neighbour gives in SESS_INIT.
    pub node_id: String,
    /// Whether this side connects; the neighbour may do so as well.
    pub connect: bool,
    /// Whether the neighbour may connect from any address, identified by the node ID that it claims.
    pub roams: bool,
    /// Whether the node ID is known from announcements only. The neighbour is then the peer at the link's address, and
    /// sessions with that node ID elsewhere, or established before, are left alone.
    pub hearsay: bool,
    /// Whether the neighbour is expected to use version 3. Updated from its answers if both versions are in use.
    pub older: bool,
    /// Server name for TLS; `None` stands for the host in the link's address.
    pub tls_name: Option<Box<str>>,
    /// First wait before reconnecting; doubles up to `reconnect_max`.
    pub reconnect_min: Duration,
    /// Longest wait before reconnecting.
    pub reconnect_max: Duration,
    /// Segment size, bytes, unless the peer's limit is smaller.
    pub segment_bytes: u64,
    /// Most bytes of bundles that wait to be sent or are not yet acknowledged.
    pub window_bytes: u64,
}
impl Default for LinkParams {
    fn default() -> Self {
        LinkParams {
            link: LinkId(0),
            node_id: String::new(),
            connect: true,
            roams: false,
            hearsay: false,
            older: false,
            tls_name: None,
            reconnect_min: Duration::from_millis(100),
            reconnect_max: Duration::from_secs(30),
            segment_bytes: 256 << 10,
            window_bytes: 64 << 20,
        }
    }
}
