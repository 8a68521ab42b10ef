//! The TCP convergence layer, version 4 (RFC 9174), without TLS.
//!
//! A session is a state machine over one byte stream ([`TcpclV4`] holds them all); a link is a
//! neighbour, served by any number of sessions: bundles leave by the newest and arrive by all.
//! It does not parse bundles, and it gives a bundle back only when the session that carried it died.

mod chunk_queue;
mod incoming;
mod layer;
mod links;
mod outgoing;
mod session;
mod wire;

pub use layer::TcpclV4;

use alloc::string::String;
use farlink_base::{Duration, LayerId, LinkId};

/// One TCPCLv4 entity.
#[derive(Clone, Debug)]
pub struct Config {
    /// This instance's number in its stack (keeps stream and dynamic link numbers apart).
    pub layer: LayerId,
    /// Node ID put into SESS_INIT.
    pub node_id: String,
    /// Keepalive interval offered; zero disables.
    pub keepalive: Duration,
    /// Largest segment accepted.
    pub segment_mru: u64,
    /// Largest bundle accepted.
    pub transfer_mru: u64,
    /// Sessions at once.
    pub sessions: u32,
    /// Whether nodes without a configured link may connect (their link is dynamic).
    pub accept_unknown: bool,
    /// A peer that has not sent contact header and SESS_INIT by then is dropped.
    pub contact_timeout: Duration,
    /// A session without transfers ends after this; zero never.
    pub idle: Duration,
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
        }
    }
}

/// One neighbour.
#[derive(Clone, Debug)]
pub struct SpanConfig {
    /// Which link it is.
    pub link: LinkId,
    /// The neighbour's node ID as it will say it in SESS_INIT.
    pub node_id: String,
    /// Whether this side connects (both sides may).
    pub connect: bool,
    /// First wait before connecting again; doubles up to `reconnect_max`.
    pub reconnect_min: Duration,
    /// Longest wait.
    pub reconnect_max: Duration,
    /// Segment size used when the peer allows.
    pub segment_bytes: u64,
    /// Bytes handed to the stream or waiting for acknowledgment at once.
    pub window_bytes: u64,
}
impl Default for SpanConfig {
    fn default() -> Self {
        SpanConfig {
            link: LinkId(0),
            node_id: String::new(),
            connect: true,
            reconnect_min: Duration::from_millis(100),
            reconnect_max: Duration::from_secs(30),
            segment_bytes: 256 << 10,
            window_bytes: 64 << 20,
        }
    }
}
