//! The streams that serve a link: one of ours, over which bundles leave, and those of the neighbour.

use super::LinkParams;
use crate::streams::links::{self, StreamLinkParams};
use alloc::vec::Vec;
use farlink_base::{Duration, LinkId, StreamId};

/// What a link is served by.
#[derive(Debug, Default)]
pub(super) struct Serving {
    /// The stream this side opened, or is opening.
    pub sending: Option<StreamId>,
    /// The streams the neighbour opened.
    pub receiving: Vec<StreamId>,
    /// Whether the agent was told that the neighbour is there.
    pub up: bool,
}
/// One neighbour, configured or met.
pub(super) type OneWayLink = links::StreamLink<LinkParams, Serving>;

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

impl OneWayLink {
    /// Whether this side should open a stream now.
    pub(super) fn wants_stream(&self) -> bool {
        self.may_connect() && self.by.sending.is_none()
    }
}
