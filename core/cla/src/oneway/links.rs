//! Streams of a link: one opened by this side, which sends bundles, and those opened by the neighbour.

use super::LinkParams;
use crate::streams::links::{self, StreamLinkParams};
use alloc::vec::Vec;
use farlink_base::{Duration, LinkId, StreamId};

/// Streams that serve a link.
#[derive(Debug, Default)]
pub(super) struct Serving {
    /// Stream that this side opened or is opening.
    pub sending: Option<StreamId>,
    /// Streams opened by the neighbour.
    pub receiving: Vec<StreamId>,
    /// Whether the neighbour was last reported to the agent as up.
    pub up: bool,
}
/// The link of a neighbour, configured or dynamic.
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
