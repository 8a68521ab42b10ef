//! Sessions of a link: whether the link needs one, and which one sends bundles.

use super::LinkParams;
use crate::streams::links::{self, StreamLinkParams};
use alloc::vec::Vec;
use core::net::IpAddr;
use farlink_base::{Duration, LinkId, StreamId};

/// Sessions that serve a link.
#[derive(Debug, Default)]
pub struct Serving {
    /// Established sessions, oldest first.
    pub sessions: Vec<StreamId>,
    /// Session that this side is opening.
    pub opening: Option<StreamId>,
}
/// The link of a neighbour, configured or dynamic.
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
    /// Whether a peer at this address may claim to be the neighbour: the neighbour roams, has this address, or has no
    /// known address.
    pub(super) fn may_be_at(&self, from: Option<IpAddr>) -> bool {
        self.config.roams || self.addresses.is_none() || from.is_none_or(|from| self.is_at(from))
    }
    /// Session that sends bundles: the newest, because a peer that connects again has lost the older sessions.
    pub(super) fn primary(&self) -> Option<StreamId> {
        self.by.sessions.last().copied()
    }
    /// Whether this side should open a session now.
    pub(super) fn wants_session(&self) -> bool {
        self.may_connect() && self.by.sessions.is_empty() && self.by.opening.is_none()
    }
}
