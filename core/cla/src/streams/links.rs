//! Links of a stream layer: who connects when, where a neighbour is, and how many strangers there may be.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};
use farlink_base::layer::{LinkState, Output, dynamic_link_base};
use farlink_base::{Duration, Few, Instant, LayerId, LinkId, Sink, TimerKey, TimerQueue};

use super::PARK;

/// Addresses kept of one neighbour.
const ADDRESSES_MAX: usize = 16;

/// What is configured of a link.
pub(crate) trait StreamLinkParams {
    /// Which link it is.
    fn link(&self) -> LinkId;
    /// Whether this side connects.
    fn connects(&self) -> bool;
    /// First and longest wait before connecting again.
    fn reconnect(&self) -> (Duration, Duration);
}

/// The links of a layer.
pub(crate) type LinkTable<C, S> = Few<LinkId, Box<StreamLink<C, S>>>;

/// One neighbour, configured or met, and the streams `S` it is served by.
#[derive(Debug)]
pub(crate) struct StreamLink<C, S> {
    pub config: C,
    pub configured: bool,
    /// It was turned off, and has not been up since.
    pub closed: bool,
    /// What the agent was told last.
    pub ready: bool,
    pub state: LinkState,
    /// Where the peer is, once the driver said so.
    pub addresses: Option<Vec<IpAddr>>,
    pub by: S,
    /// When to connect again.
    pub retry: Option<TimerKey>,
    /// When a link that is down gives up what is under way.
    pub park: Option<TimerKey>,
    backoff: Duration,
}

impl<C: StreamLinkParams, S: Default> StreamLink<C, S> {
    /// A neighbour that files name: its link is down until told otherwise.
    pub fn configured(config: C) -> Self {
        StreamLink::new(config, true, LinkState::DOWN)
    }
    /// One that came by itself.
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
    /// Where the peer is from now on.
    pub fn locate(&mut self, addresses: &[SocketAddr]) {
        self.addresses = Some(addresses.iter().take(ADDRESSES_MAX).map(SocketAddr::ip).collect());
    }
    /// Whether it is known that the peer is at this address.
    pub fn is_at(&self, from: IpAddr) -> bool {
        self.addresses.iter().flatten().any(|address| *address == from)
    }
    /// Whether this side may open a stream now, where none serves the link.
    pub fn may_connect(&self) -> bool {
        self.configured && self.config.connects() && self.state.transmit && !self.closed && self.retry.is_none()
    }
    /// How long to wait before the next attempt; doubles each time.
    // 9174-4.1-2, 9174-4.1-3, 7242-4-1, 7242-4-2
    pub fn next_backoff(&mut self) -> Duration {
        let (min, max) = self.config.reconnect();
        let wait = self.backoff;
        self.backoff = (self.backoff * 2).min(max).max(min);
        wait
    }
    /// A stream that lived longer than the last wait was a good one: begin with the shortest wait.
    pub fn on_stream_end(&mut self, opened: Instant, now: Instant) {
        if now.since(opened) > self.backoff {
            self.reset_backoff();
        }
    }
    /// Contact begins: whatever failed before says nothing about it.
    fn reset_backoff(&mut self) {
        (self.backoff, _) = self.config.reconnect();
    }
    /// What the link can do changed; whether it came back, one way or both. A link that went down is parked after a
    /// while.
    pub fn on_state<T>(&mut self, now: Instant, state: LinkState, timers: &mut TimerQueue<T>, park: T) -> bool {
        let before = core::mem::replace(&mut self.state, state);
        self.closed &= !(state.transmit || state.receive);
        if state.transmit {
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
    /// It is turned off: no stream follows those that end, and none of them is ready meanwhile.
    pub fn turn_off<T>(&mut self, timers: &mut TimerQueue<T>) {
        self.closed = true;
        self.state = LinkState::DOWN;
        for timer in [self.retry.take(), self.park.take()].into_iter().flatten() {
            timers.cancel(timer);
        }
    }
    /// Tells the agent whether the link takes another bundle, where that is news.
    pub fn say_ready(&mut self, ready: bool, out: &mut impl Sink<Output>) {
        let ready = ready && self.state.transmit;
        if ready != self.ready {
            self.ready = ready;
            out.push(Output::Ready { link: self.config.link(), ready });
        }
    }
}

/// How many links are configured.
pub(crate) fn configured<C, S>(links: &LinkTable<C, S>) -> usize {
    links.values().filter(|link| link.configured).count()
}
/// As many strangers as there may be: each configured neighbour finds room, at least in half of the house.
pub(crate) fn stranger_room<C, S>(links: &LinkTable<C, S>, sessions: u32) -> usize {
    let all = sessions as usize;
    all - configured(links).min(all / 2)
}
/// A link number for a peer that no link was configured for. `next` counts them.
pub(crate) fn dynamic_link<C, S>(links: &LinkTable<C, S>, layer: LayerId, next: &mut u32) -> LinkId {
    let base = dynamic_link_base(layer);
    loop {
        let link = LinkId(base | *next);
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
    fn backoff_doubles_and_resets_after_session() {
        let mut link: StreamLink<TestParams, ()> = StreamLink::met(TestParams);
        let waits: Vec<u128> = (0..10).map(|_| link.next_backoff().as_millis()).collect();
        assert_eq!(waits[..4], [100, 200, 400, 800]);
        assert_eq!(waits[9], 30_000);
        link.on_stream_end(Instant::ZERO, Instant(1_000_000_000));
        assert_eq!(link.next_backoff(), Duration::from_secs(30), "it lived too short to be good");
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
        assert_eq!([10, 4, 1].map(|sessions| stranger_room(&links, sessions)), [7, 2, 1]);
        let (layer, mut next) = (LayerId(2), 0x00ff_ffff);
        let first = dynamic_link(&links, layer, &mut next);
        links.insert(first, Box::new(StreamLink::met(TestParams)));
        next = 0x00ff_ffff;
        let second = dynamic_link(&links, layer, &mut next);
        assert_eq!((first.0 & 0x00ff_ffff, second.0 & 0x00ff_ffff, configured(&links)), (0x00ff_ffff, 0, 3));
    }
}
