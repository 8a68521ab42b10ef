//! The sessions that serve a link: whether it needs one, and over which bundles leave.

use super::LinkParams;
use crate::streams::links::{self, StreamLinkParams};
use alloc::vec::Vec;
use core::net::IpAddr;
use farlink_base::{Duration, LinkId, StreamId};

/// What a link is served by.
#[derive(Debug, Default)]
pub struct Serving {
    /// Established sessions in the order they were made.
    pub sessions: Vec<StreamId>,
    /// The session this side is opening.
    pub opening: Option<StreamId>,
}
/// One neighbour, configured or met.
pub(super) type TcpclLink = links::StreamLink<LinkParams, Serving>;

impl StreamLinkParams for LinkParams {
    fn link(&self) -> LinkId {
        self.link
    }
    fn connects(&self) -> bool {
        self.connect
    }
    fn reconnect(&self) -> (Duration, Duration) {
        (self.reconnect_min, self.reconnect_max)
    }
}

impl TcpclLink {
    /// Whether a peer at this address is taken for the neighbour when it says so: it is where the neighbour is, or
    /// nobody knows where that is.
    pub(super) fn may_be_at(&self, from: Option<IpAddr>) -> bool {
        self.config.roams || self.addresses.is_none() || from.is_none_or(|from| self.is_at(from))
    }
    /// The session bundles leave by: the newest, because a peer that comes again has lost the one
    /// before.
    pub(super) fn primary(&self) -> Option<StreamId> {
        self.by.sessions.last().copied()
    }
    /// Whether this side should open a session now.
    pub(super) fn wants_session(&self) -> bool {
        self.may_connect() && self.by.sessions.is_empty() && self.by.opening.is_none()
    }
}
