//! Links and the sessions that serve them: who connects when, and over which session bundles leave.

use super::SpanConfig;
use alloc::vec::Vec;
use core::net::IpAddr;
use farlink_base::layer::LinkState;
use farlink_base::{Duration, Instant, StreamId, TimerKey};

/// One neighbour, configured or met.
#[derive(Debug)]
pub struct Link {
    pub config: SpanConfig,
    pub configured: bool,
    /// Where the peer is, once the driver said so.
    pub addresses: Option<Vec<IpAddr>>,
    pub state: LinkState,
    /// It was turned off, and has not been up since.
    pub closed: bool,
    /// Established sessions in the order they were made.
    pub sessions: Vec<StreamId>,
    /// The session this side is opening.
    pub opening: Option<StreamId>,
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
            addresses: None,
            state,
            closed: false,
            sessions: Vec::new(),
            opening: None,
            ready: false,
            retry: None,
            park: None,
            backoff,
        }
    }
    /// Whether a peer at this address is taken for the neighbour when it says so: it is where the neighbour is, or
    /// nobody knows where that is.
    pub fn may_be_at(&self, from: Option<IpAddr>) -> bool {
        let elsewhere = self.addresses.as_ref().zip(from).is_some_and(|(known, from)| !known.contains(&from));
        self.config.roams || !elsewhere
    }
    /// The session bundles leave by: the newest, because a peer that comes again has lost the one
    /// before.
    pub fn primary(&self) -> Option<StreamId> {
        self.sessions.last().copied()
    }
    /// Whether this side should open a session now.
    pub fn wants_session(&self) -> bool {
        self.configured
            && self.config.connect
            && self.state.transmit
            && !self.closed
            && self.sessions.is_empty()
            && self.opening.is_none()
            && self.retry.is_none()
    }
    /// How long to wait before the next attempt; doubles each time.
    pub fn next_backoff(&mut self) -> Duration {
        let wait = self.backoff;
        self.backoff = (self.backoff * 2).min(self.config.reconnect_max).max(self.config.reconnect_min);
        wait
    }
    /// A session that lived longer than the last wait was a good one: begin with the shortest wait.
    pub fn on_session_end(&mut self, established: Instant, now: Instant) {
        if now.since(established) > self.backoff {
            self.backoff = self.config.reconnect_min;
        }
    }
    /// Contact begins: whatever failed before says nothing about it.
    pub fn reset_backoff(&mut self) {
        self.backoff = self.config.reconnect_min;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_doubles_to_its_limit_and_begins_again_after_a_good_session() {
        let mut link = Link::new(SpanConfig::default(), true, LinkState::UP);
        let waits: Vec<u128> = (0..10).map(|_| link.next_backoff().as_millis()).collect();
        assert_eq!(waits[..4], [100, 200, 400, 800]);
        assert_eq!(waits[9], 30_000);
        link.on_session_end(Instant::ZERO, Instant(1_000_000_000));
        assert_eq!(link.next_backoff(), Duration::from_secs(30), "it lived too short to be good");
        link.on_session_end(Instant::ZERO, Instant(60_000_000_000));
        assert_eq!(link.next_backoff(), Duration::from_millis(100));
    }
}
