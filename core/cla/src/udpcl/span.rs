//! One neighbour: what the link can do, what waits to be sent over it, and when it may leave.

use super::LinkParams;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use core::net::SocketAddr;
use farlink_base::layer::{Destination, LinkState, SendId, WINDOW};
use farlink_base::{DataRate, Duration, Instant, Leaving, Payload, TimerKey};

/// Longest burst: what one train may hold, and how much a late driver may catch up.
const BURST: Duration = Duration::from_millis(2);
/// Bundles that wait here, time at the link's rate: beyond it the agent keeps them.
const QUEUE_TIME: Duration = Duration::from_millis(50);
/// The same in bytes, at most.
const QUEUE_BYTES: u64 = 64 << 20;
/// Data in one packet of IP, of a datagram that is cut into several: 1500 bytes less the header.
const PACKET_DATA: u64 = 1480;
/// Header of UDP: the first packet has it.
const UDP_HEADER: u64 = 8;

/// A bundle to send.
#[derive(Debug)]
pub(super) struct OutgoingBundle {
    pub(super) id: SendId,
    pub(super) total: u64,
    /// Bytes of it that have left.
    pub(super) at: u64,
    /// What leaves next, and what comes behind: cutting a short rope again and again is cheap.
    window: Payload,
    rest: Payload,
    /// Where what was asked for ends.
    asked: u64,
    /// How it ages until it leaves, and by how many bytes it has grown since it was given.
    leaving: Leaving,
    grown: u64,
    /// The number of its transfer, once it has one.
    pub(super) transfer: Option<u64>,
}
impl OutgoingBundle {
    pub(super) fn new(id: SendId, total: u64, part: Payload, leaving: Leaving) -> OutgoingBundle {
        let asked = part.len();
        OutgoingBundle {
            id,
            total,
            at: 0,
            window: Payload::new(),
            rest: part,
            asked,
            leaving,
            grown: 0,
            transfer: None,
        }
    }
    /// It is to leave at `now` and gets its age; false: it expired.
    pub(super) fn begin(&mut self, now: Instant) -> bool {
        let grown = self.leaving.stamp(now, &mut self.rest);
        (self.total, self.asked, self.grown) = (self.total + grown, self.asked + grown, self.grown + grown);
        !self.leaving.is_over(now)
    }
    /// Bytes of it that are here and have not left.
    pub(super) fn have(&self) -> u64 {
        self.window.len() + self.rest.len()
    }
    /// Whether the next `len` bytes are here.
    pub(super) fn has(&self, len: u64) -> bool {
        self.have() >= len.min(self.total - self.at)
    }
    /// The next range to ask for, once little is left.
    pub(super) fn want(&mut self) -> Option<(u64, u64)> {
        let (from, here) = (self.asked, self.at + self.have());
        let open = self.asked > here;
        if open || self.asked >= self.total || self.have() > WINDOW / 2 {
            return None;
        }
        let len = WINDOW.min(self.total - from);
        self.asked += len;
        Some((from - self.grown, len))
    }
    /// What was asked for came.
    pub(super) fn give(&mut self, from: u64, part: Payload) {
        let expected = self.at + self.have();
        if from.saturating_add(self.grown) == expected && part.len() <= self.asked - expected && !part.is_stored() {
            self.rest.append(part);
        }
    }
    /// Takes the next bytes, of which so many are here.
    pub(super) fn take(&mut self, len: u64) -> Payload {
        if self.window.len() < len {
            let more = len.max(WINDOW).min(self.rest.len());
            let more = if more == self.rest.len() { core::mem::take(&mut self.rest) } else { self.rest.split_to(more) };
            self.window.append(more);
        }
        self.at += len;
        if len == self.window.len() { core::mem::take(&mut self.window) } else { self.window.split_to(len) }
    }
    pub(super) fn is_done(&self) -> bool {
        self.at >= self.total
    }
}

/// A neighbour.
#[derive(Debug)]
pub(super) struct UdpclSpan {
    pub(super) config: LinkParams,
    pub(super) to: Destination,
    /// Where the peer is, as far as the driver knows.
    pub(super) home: Option<SocketAddr>,
    pub(super) state: LinkState,
    pub(super) queue: VecDeque<OutgoingBundle>,
    /// Bytes in the queue, whether they are here or not.
    pub(super) unsent: u64,
    /// When what was sent has left the transmitter.
    pub(super) busy_until: Instant,
    was_idle: bool,
    /// When something is to be said, so that the way there stays open.
    pub(super) alive_at: Option<Instant>,
    /// When a peer that was met no longer listens.
    pub(super) until: Option<Instant>,
    /// What the peer said it is called, where that was told.
    pub(super) claimed: Option<Box<str>>,
    pub(super) armed: Option<TimerKey>,
    pub(super) ready: bool,
    pub(super) touched: bool,
}

impl UdpclSpan {
    pub(super) fn new(mut config: LinkParams, to: Destination) -> UdpclSpan {
        config.datagram_bytes = config.datagram_bytes.clamp(64, super::DATAGRAM_MAX as u32);
        if !config.keepalive.is_zero() {
            // 7122-3.4-2
            config.keepalive = config.keepalive.max(super::KEEPALIVE_MIN);
        }
        UdpclSpan {
            config,
            to,
            home: None,
            state: LinkState::DOWN,
            queue: VecDeque::new(),
            unsent: 0,
            busy_until: Instant::ZERO,
            was_idle: true,
            alive_at: None,
            until: None,
            claimed: None,
            armed: None,
            ready: false,
            touched: false,
        }
    }
    /// What the link can do changed.
    pub(super) fn set_state(&mut self, now: Instant, state: LinkState) {
        let before = core::mem::replace(&mut self.state, state);
        if before.rate != state.rate {
            // At another rate what has left takes another time; at none it would take for ever.
            self.busy_until = self.busy_until.min(now);
        }
        if state.transmit != before.transmit || self.alive_at.is_none() {
            let first = if self.announces() { Duration::ZERO } else { self.alive_every() };
            let alive = state.transmit && !self.alive_every().is_zero() && !self.config.link.is_dynamic();
            self.alive_at = alive.then(|| now + first);
        }
    }
    /// How often something is to be said; zero: never. Who listens says so within a minute (draft
    /// section 3.5.3).
    pub(super) fn alive_every(&self) -> Duration {
        match self.announces() {
            true => self.config.keepalive.min(Duration::from_secs(60)),
            false => self.config.keepalive,
        }
    }
    /// Whether what is said is a name, rather than four zeros.
    pub(super) fn announces(&self) -> bool {
        self.config.version >= 2
    }
    /// Bits per second, headers counted.
    pub(super) fn rate(&self) -> DataRate {
        self.state.rate.unwrap_or(DataRate::from_bytes_per_second(self.config.pace_bytes))
    }
    pub(super) fn may_send(&self) -> bool {
        self.state.transmit && self.rate().0 > 0
    }
    /// What a datagram takes on the link: one that exceeds a packet of IP leaves as several.
    fn wire_bytes(&self, datagram: u64) -> u64 {
        let packets = (datagram + UDP_HEADER).div_ceil(PACKET_DATA).max(1);
        let header = u64::from(self.config.overhead_bytes).saturating_sub(UDP_HEADER);
        datagram + UDP_HEADER.min(self.config.overhead_bytes.into()) + packets * header
    }
    pub(super) fn charge(&mut self, datagram: u64) {
        let cost = self.rate().time_for(self.wire_bytes(datagram));
        self.busy_until += cost;
        if !self.announces() && self.alive_at.is_some() {
            self.alive_at = Some(self.busy_until + self.alive_every());
        }
    }
    /// Begins a burst: it may go on while `busy_until` is not beyond the result.
    pub(super) fn begin_burst(&mut self, now: Instant) -> Instant {
        let catch_up = if self.was_idle { Duration::ZERO } else { BURST };
        let earliest = Instant(now.0.saturating_sub(catch_up.as_nanos() as u64));
        self.busy_until = self.busy_until.max(earliest);
        let full = self.rate().time_for(self.wire_bytes(self.config.datagram_bytes.into()));
        now + BURST.saturating_sub(full)
    }
    pub(super) fn end_burst(&mut self) {
        self.was_idle = !self.has_work();
        if self.queue.is_empty() {
            self.queue = VecDeque::new();
        }
    }
    /// Whether something can leave.
    pub(super) fn has_work(&self) -> bool {
        self.queue.front().is_some_and(|job| job.has(self.step(job)))
    }
    /// Bytes of a bundle that must be here for the next datagram.
    fn step(&self, job: &OutgoingBundle) -> u64 {
        if self.in_segments(job.total) { self.config.datagram_bytes.into() } else { job.total }
    }
    /// Whether a bundle of this length leaves in segments.
    pub(super) fn in_segments(&self, total: u64) -> bool {
        self.config.version >= 2 && total > u64::from(self.config.datagram_bytes)
    }
    /// When something must be done.
    pub(super) fn deadline(&self, now: Instant) -> Option<Instant> {
        let send = (self.may_send() && self.has_work()).then(|| self.busy_until.max(now));
        let alive = self.alive_at.filter(|_| self.may_send());
        Instant::earliest([send, alive, self.until])
    }
    /// Whether another bundle is welcome. Once the mark is reached, half of it must leave first.
    pub(super) fn wants_more(&self) -> bool {
        let mark = self.rate().volume_in(QUEUE_TIME).clamp(1, QUEUE_BYTES);
        let mark = if self.ready { mark } else { mark / 2 + 1 };
        self.may_send() && self.unsent < mark
    }
    /// A bundle is no longer to be sent.
    pub(super) fn take_back(&mut self, id: SendId) -> Option<OutgoingBundle> {
        let place = self.queue.iter().position(|job| job.id == id)?;
        let job = self.queue.remove(place)?;
        self.unsent -= job.total - job.at;
        Some(job)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farlink_base::LinkId;

    fn span(rate: u64) -> UdpclSpan {
        let mut span = UdpclSpan::new(LinkParams::default(), Destination::Link(LinkId(1)));
        span.set_state(Instant::ZERO, LinkState { rate: Some(DataRate(rate)), ..LinkState::UP });
        span
    }

    #[test]
    fn long_datagram_is_charged_per_ip_fragment() {
        let span = span(1000);
        let wire = [100, 1472, 1473, 65_507].map(|len| span.wire_bytes(len));
        assert_eq!(wire, [128, 1500, 1473 + 8 + 40, 65_507 + 8 + 45 * 20]);
    }

    #[test]
    fn bursts_are_short_and_idle_unsaved() {
        let mut span = span(100_000_000);
        let burst = |span: &mut UdpclSpan, now: u64| {
            let horizon = span.begin_burst(Instant(now));
            let mut n = 0;
            while span.busy_until <= horizon {
                span.charge(1400);
                n += 1;
            }
            span.was_idle = false;
            n
        };
        assert_eq!(burst(&mut span, 1_000_000_000), 17, "2 ms at 100 Mbit/s");
        let late = span.busy_until.0 + 1_000_000;
        assert!((25..=27).contains(&burst(&mut span, late)), "and the millisecond that was lost");
        span.was_idle = true;
        let idle = span.busy_until.0 + 1_000_000_000;
        assert_eq!(burst(&mut span, idle), 17);
    }

    #[test]
    fn link_resumes_when_rate_returns() {
        let mut span = span(0);
        assert!(!span.may_send() && !span.wants_more());
        span.charge(10);
        assert_eq!(span.busy_until, Instant::MAX);
        span.set_state(Instant(5), LinkState { rate: Some(DataRate(1000)), ..LinkState::UP });
        assert!(span.may_send() && span.busy_until == Instant(5));
    }

    #[test]
    fn streamed_bundle_is_read_window_by_window() {
        let whole = Payload::fill(1, 5 * WINDOW + 10);
        let mut job = OutgoingBundle::new(SendId(1), whole.len(), whole.slice(0, 100), Leaving::AS_IT_IS);
        let (mut sent, mut asked) = (Payload::new(), 100);
        while !job.is_done() {
            while let Some((from, len)) = job.want() {
                assert_eq!((from, len), (asked, WINDOW.min(whole.len() - asked)));
                asked += len;
                job.give(from + 1, whole.slice(from + 1, len));
                job.give(from, whole.slice(from, len));
                assert!(job.have() < 2 * WINDOW);
            }
            assert!(job.has(1400));
            let len = 1400.min(job.total - job.at);
            sent.append(job.take(len));
        }
        assert_eq!(sent, whole);
    }
}
