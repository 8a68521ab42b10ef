//! Stream layers without acknowledgments: STCP and MTCP, one machine with two framings.
//!
//! Neither has a standard in force, a handshake or a word for anything but bundles and keepalives. Who connects only
//! sends, who accepts only receives, so two neighbours that both send have two streams. A sender is known by the
//! address it comes from, and by nothing else.
//!
//! A bundle counts as sent when the peer's host has its last byte ([`socket::Output::Confirm`]), not when it is
//! written; what a peer's host has and the peer has not read when it dies is lost all the same. A receiver that has no
//! room stops reading: what it was refused by its node it keeps, within bounds, and offers again. It does not parse
//! bundles. Read [`OneWay`], then `sending.rs` and `receiving.rs`, the two kinds of streams.
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
mod receiving;
mod sending;
mod settle;
mod stcp;
mod verdicts;

pub use crate::streams::PARK;
pub use framing::Framing;
pub use layer::{OneWay, Usage};
pub use params::{LINK_PARAMS, PARAMS};

use farlink_base::{Duration, LayerId, LinkId, Refusal};

/// One entity: all streams of one node that speak one of the protocols.
#[derive(Clone, PartialEq, Debug)]
pub struct Config {
    /// This instance's number in its stack (keeps stream and dynamic link numbers apart).
    pub layer: LayerId,
    /// A keepalive leaves when nothing else did for so long; zero: none.
    pub keepalive: Duration,
    /// Largest bundle accepted, bytes.
    pub transfer_mru: u64,
    /// Streams at once.
    pub sessions: u32,
    /// Whether nodes without a configured link may connect (their link is dynamic).
    pub accept_unknown: bool,
    /// A stream over which a peer sends nothing for this long, not even keepalives, is closed; zero never.
    pub idle: Duration,
    /// A stream whose bundle brings nothing for this long, or whose peer takes nothing, is dropped; zero never.
    pub progress: Duration,
    /// Bytes of arriving bundles kept, of all streams together, in case the node has no room for them; strangers have
    /// half of it.
    pub kept: u64,
}
impl Default for Config {
    fn default() -> Self {
        Config {
            layer: LayerId(0),
            // ION: STCP_KEEPALIVE_PERIOD.
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
    /// What an entity of this protocol begins with. MTCP sends no keepalives: its draft has none, and dtn7-rs and pyD3TN
    /// take an empty byte string for an error that costs the stream and the bundle behind it.
    pub fn of(framing: Framing) -> Config {
        let whole = Config::default();
        match framing {
            Framing::Stcp => whole,
            Framing::Mtcp => Config { keepalive: Duration::ZERO, ..whole },
        }
    }
}

/// One neighbour.
#[derive(Clone, PartialEq, Debug)]
pub struct LinkParams {
    /// Which link it is.
    pub link: LinkId,
    /// Whether this side connects, which it must to send.
    pub connect: bool,
    /// First wait before connecting again; doubles up to `reconnect_max`.
    pub reconnect_min: Duration,
    /// Longest wait.
    pub reconnect_max: Duration,
    /// Bytes handed to the stream and not confirmed by the peer's host, or waiting, at once.
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

/// Whether a refusal is for want of room: then the bundle is kept and offered again, and its sender pushed back.
pub(crate) const fn wants_room(why: Refusal) -> bool {
    matches!(why, Refusal::NoResources | Refusal::NotOpen | Refusal::StoreFailed)
}

/// What the sender of a bundle hears when it is refused for this reason: nothing, ever. For want of room it is held
/// back, as if it had heard so; what is refused for other reasons it takes for sent.
///
/// # Errors
/// That there is no room.
pub fn told(why: Refusal) -> Result<(), Refusal> {
    if wants_room(why) { Err(Refusal::NoResources) } else { Ok(()) }
}
