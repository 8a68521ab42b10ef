//! One neighbour: state of its link, bundles to send, and pacing.

use super::LinkParams;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use core::net::SocketAddr;
use farlink_base::layer::{Destination, LinkState, SendId, WINDOW};
use farlink_base::{DataRate, Duration, Instant, Leaving, Payload, TimerKey};

/// Longest burst, as time on the link. If the driver is late by at most this time, sending still catches up.
const BURST: Duration = Duration::from_millis(2);
/// Longest time that queued bundles take at the link's rate. Others stay with the agent, which can still reorder them.
const QUEUE_TIME: Duration = Duration::from_millis(50);
/// Most bytes queued here, whatever the rate.
const QUEUE_BYTES: u64 = 64 << 20;
/// Data per IP packet of a fragmented datagram, bytes: 1500 less the IP header.
const PACKET_DATA: u64 = 1480;
/// UDP header, bytes; only the first IP packet has it.
const UDP_HEADER: u64 = 8;

/// A bundle to send.
#[derive(Debug)]
pub(super) struct OutgoingBundle {
    pub(super) id: SendId,
    pub(super) total: u64,
    /// Bytes that have left.
    pub(super) at: u64,
    /// Next bytes to leave, and the bytes after them: two ropes, because cutting a short rope repeatedly is cheap.
    window: Payload,
    rest: Payload,
    /// End of the range requested so far, as an offset in the bundle.
    asked: u64,
    /// Age update to apply at departure, and number of bytes that it added.
    leaving: Leaving,
    grown: u64,
    /// Transfer number; `None` until the first segment leaves.
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
    /// Updates the age for departure at `now`; returns false if the bundle has expired.
    pub(super) fn begin(&mut self, now: Instant) -> bool {
        let grown = self.leaving.stamp(now, &mut self.rest);
        (self.total, self.asked, self.grown) = (self.total + grown, self.asked + grown, self.grown + grown);
        !self.leaving.is_over(now)
    }
    /// Bytes in memory that have not left.
    pub(super) fn have(&self) -> u64 {
        self.window.len() + self.rest.len()
    }
    /// Whether the next `len` bytes are in memory.
    pub(super) fn has(&self, len: u64) -> bool {
        self.have() >= len.min(self.total - self.at)
    }
    /// Next range to request, as first byte and length; `None` while enough is in memory or a request is pending.
    pub(super) fn want(&mut self) -> Option<(u64, u64)> {
        let (from, here) = (self.asked, self.at + self.have());
        // One request at a time.
        let open = self.asked > here;
        if open || self.asked >= self.total || self.have() > WINDOW / 2 {
            return None;
        }
        let len = WINDOW.min(self.total - from);
        self.asked += len;
        Some((from - self.grown, len))
    }
    /// Takes bytes that were requested; others are ignored.
    pub(super) fn give(&mut self, from: u64, part: Payload) {
        let expected = self.at + self.have();
        if from.saturating_add(self.grown) == expected && part.len() <= self.asked - expected && !part.is_stored() {
            self.rest.append(part);
        }
    }
    /// Takes the next `len` bytes, which must be in memory.
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

#[derive(Debug)]
pub(super) struct UdpclSpan {
    pub(super) config: LinkParams,
    pub(super) to: Destination,
    /// Address of the peer; `None` if the driver has not given it.
    pub(super) home: Option<SocketAddr>,
    pub(super) state: LinkState,
    pub(super) queue: VecDeque<OutgoingBundle>,
    /// Bytes queued that have not left, in memory or not.
    pub(super) unsent: u64,
    /// Time until which the transmitter is busy with everything sent so far.
    pub(super) busy_until: Instant,
    was_idle: bool,
    /// Time of the next keepalive; `None` if none is sent.
    pub(super) alive_at: Option<Instant>,
    /// Time at which the link of a dynamic peer is removed, unless the peer announces itself again; `None` for a
    /// configured link.
    pub(super) until: Option<Instant>,
    /// Node ID that the peer announced and that was reported to the agent.
    pub(super) claimed: Option<Box<str>>,
    pub(super) armed: Option<TimerKey>,
    pub(super) ready: bool,
    pub(super) touched: bool,
}

impl UdpclSpan {
    pub(super) fn new(mut config: LinkParams, to: Destination) -> UdpclSpan {
        // At least the head of a segment and some data must fit into a datagram.
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
    /// Handles a change of the link's state.
    pub(super) fn set_state(&mut self, now: Instant, state: LinkState) {
        let before = core::mem::replace(&mut self.state, state);
        if before.rate != state.rate {
            // The time on the wire was computed at the old rate; if that was zero, it would never end.
            self.busy_until = self.busy_until.min(now);
        }
        if state.transmit != before.transmit || self.alive_at.is_none() {
            let first = if self.announces() { Duration::ZERO } else { self.alive_every() };
            let alive = state.transmit && !self.alive_every().is_zero() && !self.config.link.is_dynamic();
            self.alive_at = alive.then(|| now + first);
        }
    }
    /// Keepalive interval; zero: no keepalives. With version 2 at most a minute, because a listening node must announce
    /// itself within a minute (draft-ietf-dtn-udpcl section 3.5.3).
    pub(super) fn alive_every(&self) -> Duration {
        match self.announces() {
            true => self.config.keepalive.min(Duration::from_secs(60)),
            false => self.config.keepalive,
        }
    }
    /// Whether keepalives are announcements of version 2, not the four zeros of version 1.
    pub(super) fn announces(&self) -> bool {
        self.config.version >= 2
    }
    /// Rate of the link, which includes headers.
    pub(super) fn rate(&self) -> DataRate {
        self.state.rate.unwrap_or(DataRate::from_bytes_per_second(self.config.pace_bytes))
    }
    pub(super) fn may_send(&self) -> bool {
        self.state.transmit && self.rate().0 > 0
    }
    /// Length of a datagram on the link, bytes, with headers; a long one is sent as several IP fragments, each with its
    /// own IP header.
    fn wire_bytes(&self, datagram: u64) -> u64 {
        let packets = (datagram + UDP_HEADER).div_ceil(PACKET_DATA).max(1);
        let header = u64::from(self.config.overhead_bytes).saturating_sub(UDP_HEADER);
        datagram + UDP_HEADER.min(self.config.overhead_bytes.into()) + packets * header
    }
    // A datagram keeps address translators open, so it postpones the keepalive; an announcement has its own schedule.
    pub(super) fn charge(&mut self, datagram: u64) {
        let cost = self.rate().time_for(self.wire_bytes(datagram));
        self.busy_until += cost;
        if !self.announces() && self.alive_at.is_some() {
            self.alive_at = Some(self.busy_until + self.alive_every());
        }
    }
    /// Starts a burst; the caller may send while `busy_until` is not after the returned time.
    pub(super) fn begin_burst(&mut self, now: Instant) -> Instant {
        let catch_up = if self.was_idle { Duration::ZERO } else { BURST };
        let earliest = Instant(now.0.saturating_sub(catch_up.as_nanos() as u64));
        self.busy_until = self.busy_until.max(earliest);
        let full = self.rate().time_for(self.wire_bytes(self.config.datagram_bytes.into()));
        now + BURST.saturating_sub(full)
    }
    pub(super) fn end_burst(&mut self) {
        self.was_idle = !self.has_work();
        // Release the memory of the queue when it is empty.
        if self.queue.is_empty() {
            self.queue = VecDeque::new();
        }
    }
    /// Whether a datagram can leave: its bytes are in memory.
    pub(super) fn has_work(&self) -> bool {
        self.queue.front().is_some_and(|job| job.has(self.step(job)))
    }
    /// Number of bytes that must be in memory for the next datagram.
    fn step(&self, job: &OutgoingBundle) -> u64 {
        if self.in_segments(job.total) { self.config.datagram_bytes.into() } else { job.total }
    }
    /// Whether a bundle of this length leaves in segments.
    pub(super) fn in_segments(&self, total: u64) -> bool {
        self.config.version >= 2 && total > u64::from(self.config.datagram_bytes)
    }
    /// Time of the next action; `None` if nothing is scheduled.
    pub(super) fn deadline(&self, now: Instant) -> Option<Instant> {
        let send = (self.may_send() && self.has_work()).then(|| self.busy_until.max(now));
        let alive = self.alive_at.filter(|_| self.may_send());
        Instant::earliest([send, alive, self.until])
    }
    /// Whether the agent may give another bundle: the queue is below a limit, or below half of it while the span is not
    /// ready.
    pub(super) fn wants_more(&self) -> bool {
        let mark = self.rate().volume_in(QUEUE_TIME).clamp(1, QUEUE_BYTES);
        let mark = if self.ready { mark } else { mark / 2 + 1 };
        self.may_send() && self.unsent < mark
    }
    /// Removes a bundle from the queue; `None` if the queue does not have it.
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
    fn long_datagram_is_charged_per_packet() {
        // Each IP packet has headers of its own.
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
        assert!((25..=27).contains(&burst(&mut span, late)), "with the lost millisecond");
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
    fn streamed_bundle_is_read_in_windows() {
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
