//! The TCP convergence layer, version 4 (RFC 9174). TLS is the driver's; when it begins and whose
//! identity it must prove is decided here.
//!
//! A session is a state machine over one byte stream ([`TcpclV4`] holds them all); a link is a
//! neighbour, served by any number of sessions: bundles leave by the newest and arrive by all.
//! It does not parse bundles, and it gives a bundle back only when the session that carried it died.
//!
//! Sessions of version 3 are served by the same machine where [`Versions`] says so: what they say differently is
//! [`tcpcl_v3`](crate::tcpcl_v3)'s.

mod admission;
pub(crate) mod contact;
mod due;
pub(crate) mod incoming;
mod layer;
mod links;
pub(crate) mod outgoing;
mod params;
mod peers;
pub(crate) mod session;
mod used;
pub(crate) mod wire;

pub use crate::streams::PARK;
pub use layer::{TcpclV4, Usage};
pub(crate) use params::REACTIVE;
pub use params::{LINK_PARAMS, PARAMS};
pub use wire::told;

use alloc::boxed::Box;
use alloc::string::String;
use farlink_base::{Duration, LayerId, LinkId};

/// Whether sessions are secured (RFC 9174 4.3, 4.4).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Tls {
    /// Never: this side says that it cannot.
    #[default]
    Forbid,
    /// With peers that can.
    Allow,
    /// Always: a peer that cannot is turned away.
    Require,
}

/// Which versions of TCPCL an entity speaks.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Versions {
    /// Version 4 alone (RFC 9174): peers of another are told so.
    #[default]
    Four,
    /// Version 3 alone (RFC 7242).
    Three,
    /// Both at one port: who connects is answered in its version, and neighbours are asked in version 4 until they turn
    /// out to speak version 3 (RFC 9174 4.3). Sessions that must be secured are of version 4.
    Both,
}

/// One TCPCL entity.
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
    /// A session whose transfer brings nothing for this long, or whose peer acknowledges or reads nothing, is dropped;
    /// zero never.
    pub progress: Duration,
    /// Fewest payload bytes of a transfer that broke that are worth keeping, and counting as kept by the peer, where both
    /// sides offer that; 0: none are.
    pub reactive: u64,
    /// Whether sessions are secured.
    pub tls: Tls,
    /// Which versions it speaks.
    pub versions: Versions,
}
impl Config {
    /// Whether peers of version 3 are served beside others: what must be secured has none.
    pub(crate) fn adapts(&self) -> bool {
        self.versions == Versions::Both && self.tls != Tls::Require
    }
    /// The keepalive interval as peers are told it: whole seconds, of which 0 would be none at all.
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

/// One neighbour.
#[derive(Clone, PartialEq, Debug)]
pub struct LinkParams {
    /// Which link it is.
    pub link: LinkId,
    /// The neighbour's node ID as it will say it in SESS_INIT.
    pub node_id: String,
    /// Whether this side connects (both sides may).
    pub connect: bool,
    /// Whether the neighbour may connect from other addresses than the link's, known by what it claims alone.
    pub roams: bool,
    /// Whether its name is known by announcements alone: it is whoever is at the link's address, and who says that name
    /// elsewhere, or is there already, is left alone.
    pub hearsay: bool,
    /// Whether it is taken to speak version 3, by an entity that speaks both; learnt from what it answers.
    pub older: bool,
    /// Name its TLS server goes by; `None`: the host of the link's address.
    pub tls_name: Option<Box<str>>,
    /// First wait before connecting again; doubles up to `reconnect_max`.
    pub reconnect_min: Duration,
    /// Longest wait.
    pub reconnect_max: Duration,
    /// Segment size used when the peer allows.
    pub segment_bytes: u64,
    /// Bytes handed to the stream or waiting for acknowledgment at once.
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
