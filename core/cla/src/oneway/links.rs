//! Links and the streams that serve them: one of ours, over which bundles leave, and those of the neighbour.

use super::SpanConfig;
use alloc::vec::Vec;
use core::net::IpAddr;
use farlink_base::layer::LinkState;
use farlink_base::{Duration, Instant, StreamId, TimerKey};

/// One neighbour, configured or met.
#[derive(Debug)]
pub(super) struct Link {
    pub config: SpanConfig,
    pub configured: bool,
    /// Where the neighbour is, as far as the driver said so.
    pub addresses: Vec<IpAddr>,
    pub state: LinkState,
    /// It was turned off, and has not been up since.
    pub closed: bool,
    /// The stream this side opened, or is opening.
    pub sending: Option<StreamId>,
    /// The streams the neighbour opened.
    pub receiving: Vec<StreamId>,
    /// Whether the agent was told that the neighbour is there.
    pub up: bool,
    /// What the agent was told last.
    pub ready: bool,
    /// When to connect again.
    pub retry: Option<TimerKey>,
    /// When a link that is down gives up what is under way.
    pub park: Option<TimerKey>,
    backoff: Duration,
}

impl Link {
    pub fn new(config: SpanConfig, configured: bool, state: LinkState) -> Self {
        let backoff = config.reconnect_min;
        Link {
            config,
            configured,
            addresses: Vec::new(),
            state,
            closed: false,
            sending: None,
            receiving: Vec::new(),
            up: false,
            ready: false,
            retry: None,
            park: None,
            backoff,
        }
    }
    /// Whether this side should open a stream now.
    pub fn wants_stream(&self) -> bool {
        self.configured
            && self.config.connect
            && self.state.transmit
            && !self.closed
            && self.sending.is_none()
            && self.retry.is_none()
    }
    /// How long to wait before the next attempt; doubles each time.
    pub fn next_backoff(&mut self) -> Duration {
        let wait = self.backoff;
        self.backoff = (self.backoff * 2).min(self.config.reconnect_max).max(self.config.reconnect_min);
        wait
    }
    /// A stream that lived longer than the last wait was a good one: begin with the shortest wait.
    pub fn on_stream_end(&mut self, opened: Instant, now: Instant) {
        if now.since(opened) > self.backoff {
            self.backoff = self.config.reconnect_min;
        }
    }
    /// Contact begins: whatever failed before says nothing about it.
    pub fn reset_backoff(&mut self) {
        self.backoff = self.config.reconnect_min;
    }
}
