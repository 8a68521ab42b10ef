//! Stream layers without acknowledgments: STCP and MTCP, one state machine with two framings.
//!
//! Neither has a standard in force, or a handshake; their only messages are bundles and keepalives. The side that
//! connects only sends and the other only receives, so two neighbours that both send use two streams. A sender is
//! identified by its address alone.
//!
//! A bundle counts as sent when the peer's host has its last byte ([`socket::Output::Confirm`]), not when it is
//! written. If the peer dies, bundles that its host has but that it has not read are lost. A receiver without room
//! stops reading; bundles that its node refused are kept within bounds and offered again. Bundles are not parsed. Read
//! [`OneWay`], then `sending.rs` and `receiving.rs`, the two kinds of streams.
//!
//! [`socket::Output::Confirm`]: farlink_base::socket::Output::Confirm

mod admission;
mod framing;
mod kept;
mod layer;
mod links;
mod mtcp;
mod params;
mod peers;
mod protocol;
mod reading;
mod receiving;
mod sending;
mod settle;
mod stcp;
mod verdicts;

pub use crate::streams::PARK;
pub use framing::Framing;
pub use layer::{OneWay, Usage};
pub use params::{LINK_PARAMS, PARAMS};
pub use reading::OneWayReader;

use farlink_base::{Duration, LayerId, LinkId, Refusal};

/// Configuration of one entity: all streams of one node that use one of the protocols.
#[derive(Clone, PartialEq, Debug)]
pub struct Config {
    /// Number of this layer in its stack; part of the numbers of its streams and dynamic links, so that two layers use
    /// no number twice.
    pub layer: LayerId,
    /// Protocol that the entity speaks.
    pub framing: Framing,
    /// Time without output after which a keepalive is sent; zero: none.
    pub keepalive: Duration,
    /// Largest bundle accepted, bytes.
    pub transfer_mru: u64,
    /// Most streams at once, both ways.
    pub sessions: u32,
    /// Whether peers without a configured link may connect; their link is dynamic.
    pub accept_unknown: bool,
    /// Silence of a peer after which its stream is closed; a keepalive ends the silence. Zero: never.
    pub idle: Duration,
    /// Longest time without progress of a bundle, in either direction, before its stream is dropped; zero: never.
    pub progress: Duration,
    /// Memory for copies of received bundles until the node accepts them, all streams together, bytes; peers without a
    /// configured link may use half of it.
    pub kept: u64,
}
impl Default for Config {
    fn default() -> Self {
        Config {
            layer: LayerId(0),
            framing: Framing::Stcp,
            // STCP_KEEPALIVE_PERIOD of ION.
            keepalive: Duration::from_secs(15),
            transfer_mru: 4 << 30,
            sessions: 1000,
            accept_unknown: true,
            idle: Duration::ZERO,
            progress: Duration::from_secs(120),
            kept: 16 << 20,
        }
    }
}

impl Config {
    /// Default configuration of a protocol. MTCP sends no keepalives, because its draft has none, and dtn7-rs and
    /// pyD3TN treat an empty byte string as an error, which costs the stream and the bundle after it.
    pub fn of(framing: Framing) -> Config {
        let whole = Config::default();
        match framing {
            Framing::Stcp => whole,
            Framing::Mtcp => Config { framing, keepalive: Duration::ZERO, ..whole },
        }
    }
}

/// Parameters of one neighbour's link.
#[derive(Clone, PartialEq, Debug)]
pub struct LinkParams {
    /// Number of the link.
    pub link: LinkId,
    /// Whether this side connects; required for sending.
    pub connect: bool,
    /// First wait before reconnecting; doubles up to `reconnect_max`.
    pub reconnect_min: Duration,
    /// Longest wait before reconnecting.
    pub reconnect_max: Duration,
    /// Most bytes of bundles that wait to be sent or are not yet confirmed by the peer's host.
    pub window_bytes: u64,
}
impl Default for LinkParams {
    fn default() -> Self {
        LinkParams {
            link: LinkId(0),
            connect: true,
            reconnect_min: Duration::from_millis(100),
            reconnect_max: Duration::from_secs(30),
            window_bytes: 8 << 20,
        }
    }
}

/// Whether a refusal is for lack of room. The bundle is then kept and offered again, and its sender is held back.
pub(crate) const fn wants_room(why: Refusal) -> bool {
    matches!(why, Refusal::NoResources | Refusal::NotOpen | Refusal::StoreFailed)
}

/// Result that the sender of a refused bundle sees. These protocols convey no refusal: for lack of room the sender is
/// held back, and after any other refusal it takes the bundle for sent.
///
/// # Errors
///
/// [`Refusal::NoResources`] if there is no room.
pub fn sender_result(why: Refusal) -> Result<(), Refusal> {
    if wants_room(why) { Err(Refusal::NoResources) } else { Ok(()) }
}
