//! Links of a stream layer: reconnection, addresses of neighbours, and the limit on dynamic links.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};
use farlink_base::layer::{LinkState, Output, dynamic_link_base};
use farlink_base::{Duration, Few, Instant, LayerId, LinkId, Sink, TimerKey, TimerQueue};

use super::PARK;

/// Most addresses kept per neighbour.
const ADDRESSES_MAX: usize = 16;

/// Settings of a link that all stream layers have.
pub(crate) trait StreamLinkParams {
    /// Number of the link.
    fn link(&self) -> LinkId;
    /// Whether this side connects.
    fn connects(&self) -> bool;
    /// Shortest and longest wait before reconnecting.
    fn reconnect(&self) -> (Duration, Duration);
}

/// Links of a layer, by number.
pub(crate) type LinkTable<C, S> = Few<LinkId, Box<StreamLink<C, S>>>;

/// The link of a neighbour, configured or dynamic, and the streams `S` that serve it.
#[derive(Debug)]
pub(crate) struct StreamLink<C, S> {
    pub config: C,
    pub configured: bool,
    /// Whether an operator disabled the link, and it has not been up since.
    pub closed: bool,
    /// Readiness as last reported to the agent.
    pub ready: bool,
    pub state: LinkState,
    /// IP addresses of the peer; `None` until they are known.
    pub addresses: Option<Vec<IpAddr>>,
    pub by: S,
    pub retry: Option<TimerKey>,
    /// Timer for giving up transfers in progress while the link is down.
    pub park: Option<TimerKey>,
    backoff: Duration,
}

impl<C: StreamLinkParams, S: Default> StreamLink<C, S> {
    /// Creates the link of a configured neighbour; it starts down.
    pub fn configured(config: C) -> Self {
        StreamLink::new(config, true, LinkState::DOWN)
    }
    /// Creates the dynamic link of a peer that connected.
    pub fn met(config: C) -> Self {
        StreamLink::new(config, false, LinkState::UP)
    }
    fn new(config: C, configured: bool, state: LinkState) -> Self {
        let (backoff, _) = config.reconnect();
        let (closed, ready) = (false, false);
        let by = S::default();
        StreamLink { config, configured, closed, ready, state, addresses: None, by, retry: None, park: None, backoff }
    }
}
impl<C: StreamLinkParams, S> StreamLink<C, S> {
    /// Sets the addresses of the peer.
    pub fn locate(&mut self, addresses: &[SocketAddr]) {
        self.addresses = Some(addresses.iter().take(ADDRESSES_MAX).map(SocketAddr::ip).collect());
    }
    /// Whether the peer is known to be at this address.
    pub fn is_at(&self, from: IpAddr) -> bool {
        self.addresses.iter().flatten().any(|address| *address == from)
    }
    /// Whether this side may open a stream now; the caller checks that no stream serves the link already.
    pub fn may_connect(&self) -> bool {
        self.configured && self.config.connects() && self.state.transmit && !self.closed && self.retry.is_none()
    }
    /// Returns the wait before the next attempt to connect, and doubles the one after it, up to the configured maximum.
    // 9174-4.1-2, 9174-4.1-3, 7242-4-1, 7242-4-2
    pub fn next_backoff(&mut self) -> Duration {
        let (min, max) = self.config.reconnect();
        let wait = self.backoff;
        self.backoff = (self.backoff * 2).min(max).max(min);
        wait
    }
    /// Resets the backoff if the stream that ended lasted longer than the next wait.
    pub fn on_stream_end(&mut self, opened: Instant, now: Instant) {
        if now.since(opened) > self.backoff {
            self.reset_backoff();
        }
    }
    /// Resets the backoff to the shortest wait.
    fn reset_backoff(&mut self) {
        (self.backoff, _) = self.config.reconnect();
    }
    /// Handles a change of the link's state; returns whether sending or receiving became possible. When the link goes
    /// down for sending, the timer `park` is armed to expire [`PARK`] later.
    pub fn on_state<T>(&mut self, now: Instant, state: LinkState, timers: &mut TimerQueue<T>, park: T) -> bool {
        let before = core::mem::replace(&mut self.state, state);
        // A link that comes up is no longer disabled by the operator.
        self.closed &= !(state.transmit || state.receive);
        if state.transmit {
            // Failed attempts before a contact must not delay the first attempt in it.
            let retry = if before.transmit { None } else { self.retry.take() };
            for timer in self.park.take().into_iter().chain(retry) {
                timers.cancel(timer);
            }
            if !before.transmit {
                self.reset_backoff();
            }
        } else if before.transmit {
            self.park = Some(timers.arm(now + PARK, park));
        }
        (state.transmit && !before.transmit) || (state.receive && !before.receive)
    }
    /// Disables the link: no stream is opened or accepted, and the link is not ready.
    pub fn turn_off<T>(&mut self, timers: &mut TimerQueue<T>) {
        self.closed = true;
        self.state = LinkState::DOWN;
        for timer in [self.retry.take(), self.park.take()].into_iter().flatten() {
            timers.cancel(timer);
        }
    }
    /// Reports a change of the link's readiness to the agent: `ready` if the stream takes another bundle. A link that
    /// is down for sending is never ready.
    pub fn say_ready(&mut self, ready: bool, out: &mut impl Sink<Output>) {
        let ready = ready && self.state.transmit;
        if ready != self.ready {
            self.ready = ready;
            out.push(Output::Ready { link: self.config.link(), ready });
        }
    }
}

/// Number of configured links.
pub(crate) fn configured<C, S>(links: &LinkTable<C, S>) -> usize {
    links.values().filter(|link| link.configured).count()
}
/// Most sessions on dynamic links: room for every configured neighbour is reserved, up to half of all sessions.
pub(crate) fn dynamic_max<C, S>(links: &LinkTable<C, S>, sessions: u32) -> usize {
    let all = sessions as usize;
    all - configured(links).min(all / 2)
}
/// Allocates an unused number for a dynamic link; `next` is the counter.
pub(crate) fn dynamic_link<C, S>(links: &LinkTable<C, S>, layer: LayerId, next: &mut u32) -> LinkId {
    let base = dynamic_link_base(layer);
    loop {
        let link = LinkId(base | *next);
        // The counter has 24 bits; the upper bits are the layer's.
        *next = (*next + 1) & 0x00ff_ffff;
        if !links.contains_key(&link) {
            return link;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct TestParams;
    impl StreamLinkParams for TestParams {
        fn link(&self) -> LinkId {
            LinkId(1)
        }
        fn connects(&self) -> bool {
            true
        }
        fn reconnect(&self) -> (Duration, Duration) {
            (Duration::from_millis(100), Duration::from_secs(30))
        }
    }

    /// Keeps 9174-4.1-2, 9174-4.1-3, 7242-4-1, 7242-4-2.
    #[test]
    fn backoff_resets_after_lasting_session() {
        let mut link: StreamLink<TestParams, ()> = StreamLink::met(TestParams);
        let waits: Vec<u128> = (0..10).map(|_| link.next_backoff().as_millis()).collect();
        assert_eq!(waits[..4], [100, 200, 400, 800]);
        assert_eq!(waits[9], 30_000);
        link.on_stream_end(Instant::ZERO, Instant(1_000_000_000));
        assert_eq!(link.next_backoff(), Duration::from_secs(30), "the session was too short");
        link.on_stream_end(Instant::ZERO, Instant(60_000_000_000));
        assert_eq!(link.next_backoff(), Duration::from_millis(100));
    }

    #[test]
    fn link_connects_only_while_wanted() {
        let (mut timers, mut link) = (TimerQueue::new(), StreamLink::<TestParams, ()>::configured(TestParams));
        assert!(!link.may_connect());
        assert!(link.on_state(Instant::ZERO, LinkState::UP, &mut timers, ()) && link.may_connect());
        assert!(!link.on_state(Instant::ZERO, LinkState::UP, &mut timers, ()), "it was up");
        link.retry = Some(timers.arm(Instant(1), ()));
        assert!(!link.may_connect());
        assert!(!link.on_state(Instant::ZERO, LinkState::DOWN, &mut timers, ()) && link.park.is_some());
        assert!(link.on_state(Instant::ZERO, LinkState::UP, &mut timers, ()) && link.may_connect());
        assert!(timers.is_empty(), "neither parked nor waiting");
        link.turn_off(&mut timers);
        assert!(link.closed && !link.may_connect());
        link.on_state(Instant::ZERO, LinkState::DOWN, &mut timers, ());
        assert!(link.closed, "until it is up");
        link.on_state(Instant::ZERO, LinkState::UP, &mut timers, ());
        assert!(link.may_connect());
    }

    #[test]
    fn dynamic_sessions_leave_room_for_neighbours() {
        let mut links: LinkTable<TestParams, ()> = LinkTable::new();
        for n in 0..3 {
            links.insert(LinkId(n), Box::new(StreamLink::configured(TestParams)));
        }
        assert_eq!([10, 4, 1].map(|sessions| dynamic_max(&links, sessions)), [7, 2, 1]);
        let (layer, mut next) = (LayerId(2), 0x00ff_ffff);
        let first = dynamic_link(&links, layer, &mut next);
        links.insert(first, Box::new(StreamLink::met(TestParams)));
        next = 0x00ff_ffff;
        let second = dynamic_link(&links, layer, &mut next);
        assert_eq!((first.0 & 0x00ff_ffff, second.0 & 0x00ff_ffff, configured(&links)), (0x00ff_ffff, 0, 3));
    }
}
