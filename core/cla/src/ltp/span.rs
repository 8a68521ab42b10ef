//! One neighbour: state of its link, queues, and pacing.

use super::SpanConfig;
use super::authentication::Seal;
use super::block_bundles::BlockBundle;
use super::pace::PaceControl;
use super::segment::SessionId;
use super::timers::{Timers, Wait};
use crate::batches::BATCH_BYTES;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use bytes::Bytes;
use core::net::SocketAddr;
use farlink_base::layer::{Destination, LinkState, Output};
use farlink_base::{DataRate, Duration, Empty, Event, Instant, Lazy, LinkId, LtpSegmentEvent, NodeId, Sink, TimerKey};

/// Longest burst at a known rate, as time on the link. If the driver is late by at most this time, sending still
/// catches up.
const BURST: Duration = Duration::from_millis(2);
/// Most new data queued without a known rate, bytes; more stays with the agent.
const QUEUE_BYTES: u64 = 4 * BATCH_BYTES;
/// Most new data queued at a known rate, as the time that sending takes.
const QUEUE_TIME: Duration = Duration::from_millis(50);

/// A queued segment without block data.
#[derive(Debug)]
pub(super) struct ControlSegment {
    pub(super) bytes: Bytes,
    /// Answer to wait for once the segment has left.
    pub(super) after: Option<Wait>,
    pub(super) event: LtpSegmentEvent,
}

/// Block that gathers bundles, and the time at which it is closed.
#[derive(Default, Debug)]
pub(super) struct Pending {
    pub(super) bundles: Vec<BlockBundle>,
    pub(super) bytes: u64,
    pub(super) until: Option<Instant>,
}

/// State of a span that has had segments to send.
#[derive(Debug)]
pub(super) struct Traffic {
    /// Source address of the peer's latest segment; `None` before the first.
    pub(super) heard: Option<SocketAddr>,
    pub(super) control: VecDeque<ControlSegment>,
    pub(super) resends: VecDeque<u64>,
    pub(super) fresh: VecDeque<u64>,
    pub(super) pending: Pending,
    /// Number of bytes of blocks in sessions, and number of these that were never sent.
    pub(super) in_flight: u64,
    pub(super) unsent: u64,
    pub(super) armed: Option<TimerKey>,
    /// Next session number; 0 until a session was numbered.
    pub(super) next_session: u64,
    /// Congestion control; `None` if the link has a known rate, or no session was open since memory was released.
    pub(super) pace: Option<Box<PaceControl>>,
    /// Whether new data waits until congestion control allows another block.
    pub(super) held: bool,
    /// Answer time beyond the propagation delay, ns: smoothed value and variation; `None` before the first answer.
    pub(super) answer: Option<(u64, u64)>,
    /// Transmission time of the latest answered checkpoint.
    pub(super) news_of: Instant,
    /// Start of the interval in which `asked` counts; it is one margin long.
    pub(super) asked_at: Instant,
    /// Number of unanswered checkpoints considered for repetition since `asked_at`.
    pub(super) asked: u32,
    /// Number of checkpoints that may be repeated in that interval.
    pub(super) asks_max: u32,
    /// Number of times that all timers were doubled because answers were missing.
    pub(super) patience: u8,
    /// Time at which the timers were last doubled.
    pub(super) patient_at: Instant,
    /// Time of the latest answer.
    pub(super) answered_at: Instant,
    /// Time at which a session was last given up although the peer answered others.
    pub(super) overtaxed_at: Instant,
    /// Level of caution: each lowers the rate and the number of sessions for a peer that cancels sessions.
    pub(super) caution: u8,
    /// Number of sessions completed since the level of caution last changed.
    pub(super) trust: u8,
    /// Whether the peer has proved that it receives at its address.
    pub(super) proven: bool,
    /// Time until which the transmitter is busy with everything sent so far.
    pub(super) busy_until: Instant,
    was_idle: bool,
    /// Rate that is charged, and time that a full datagram takes at this rate.
    charged: DataRate,
    full_cost: Duration,
    /// Fraction of data missing according to reports, smoothed, in units of 1/65536.
    loss: u32,
}
impl Traffic {
    const fn new() -> Self {
        Traffic {
            heard: None,
            control: VecDeque::new(),
            resends: VecDeque::new(),
            fresh: VecDeque::new(),
            pending: Pending { bundles: Vec::new(), bytes: 0, until: None },
            in_flight: 0,
            unsent: 0,
            armed: None,
            next_session: 0,
            pace: None,
            held: false,
            answer: None,
            news_of: Instant::ZERO,
            asked_at: Instant::ZERO,
            asked: 0,
            asks_max: 1,
            patience: 0,
            patient_at: Instant::ZERO,
            answered_at: Instant::ZERO,
            overtaxed_at: Instant::ZERO,
            caution: 0,
            trust: 0,
            proven: false,
            busy_until: Instant::ZERO,
            was_idle: true,
            charged: DataRate(1),
            full_cost: Duration::ZERO,
            loss: 0,
        }
    }
}
impl Traffic {
    fn is_empty(&self) -> bool {
        self.control.is_empty() && self.resends.is_empty() && (self.fresh.is_empty() || self.is_held())
    }
    /// Whether new data waits for reports to make room in the window.
    fn is_held(&self) -> bool {
        self.held && self.pace.as_ref().is_some_and(|pace| !pace.is_open())
    }
    /// Releases the memory of queues, if everything has left, and of congestion control, if nothing is in use.
    fn give_back(&mut self, in_use: bool) {
        if self.is_empty() && self.fresh.is_empty() {
            // Keep congestion control while it is in use: reports on the data in flight are still to come, and
            // retransmissions need the rate.
            if !in_use {
                (self.pace, self.held) = (None, false);
            }
            (self.control, self.resends, self.fresh) = (VecDeque::new(), VecDeque::new(), VecDeque::new());
        }
    }
}
impl Empty for Traffic {
    type From = ();
    const EMPTY: &'static Self = &Traffic::new();
    fn make((): ()) -> Self {
        Traffic::new()
    }
}

/// Configuration of a span without its identity, which similar spans share.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Rules {
    pub(super) datagram_bytes: u32,
    pub(super) overhead_bytes: u32,
    pub(super) sessions: u32,
    pub(super) window_bytes: u64,
    pub(super) aggregate_bytes: u64,
    pub(super) aggregate_wait: Duration,
    pub(super) margin: Duration,
    attempts: u16,
    pub(super) copies: u8,
    pub(super) checkpoint_every: u64,
    pub(super) report_every: u64,
    pub(super) idle: Duration,
    pub(super) idle_green: Duration,
    /// Settings that few links have.
    rare: Option<Box<Rare>>,
}

/// Settings that few links have.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Rare {
    pub(super) seal: Option<Seal>,
    /// Whether bundles in a shared block are marked with their client service number.
    pub(super) marked: bool,
    /// Offset from which blocks are green, bytes; 0: no green data.
    pub(super) green_from: u64,
}

impl Rules {
    /// Most transmissions of a checkpoint, report or cancel segment.
    pub(super) fn attempts(&self) -> u32 {
        self.attempts.into()
    }
    /// Authentication of segments; `None` without authentication.
    pub(super) fn seal(&self) -> Option<&Seal> {
        self.rare.as_ref()?.seal.as_ref()
    }
    /// Copy of the rules with another authentication; `None` if the link does not authenticate.
    pub(super) fn rekeyed(&self, seal: Seal) -> Option<Rules> {
        self.seal()?;
        let mut rules = self.clone();
        rules.rare.as_mut()?.seal = Some(seal);
        Some(rules)
    }
    /// Longest segment, without the bytes of authentication.
    pub(super) fn segment_bytes(&self) -> u32 {
        self.datagram_bytes - self.seal().map_or(0, Seal::bytes).min(self.datagram_bytes)
    }
    /// Whether bundles in a shared block are marked with their client service number.
    pub(super) fn is_marked(&self) -> bool {
        self.rare.as_ref().is_some_and(|rare| rare.marked)
    }
    /// Length of the red part of a block of this length, bytes.
    pub(super) fn red_of(&self, len: u64) -> u64 {
        let green_from = self.rare.as_ref().map_or(0, |rare| rare.green_from);
        if green_from == 0 { len } else { len.min(green_from) }
    }
}
impl From<&SpanConfig> for Rules {
    fn from(config: &SpanConfig) -> Self {
        Rules {
            datagram_bytes: config.datagram_bytes,
            overhead_bytes: config.overhead_bytes,
            sessions: config.sessions,
            window_bytes: config.window_bytes,
            aggregate_bytes: config.aggregate_bytes,
            aggregate_wait: config.aggregate_wait,
            margin: config.margin,
            attempts: config.attempts.try_into().unwrap_or(u16::MAX),
            copies: config.copies.try_into().unwrap_or(u8::MAX),
            checkpoint_every: config.checkpoint_every,
            report_every: config.report_every,
            idle: config.idle,
            idle_green: config.idle_green,
            rare: {
                let (marked, green_from) = (config.aggregate_marked, config.green_from);
                let seal = Seal::new(&config.authentication);
                let any = marked || green_from > 0 || seal.is_some();
                any.then(|| Box::new(Rare { seal, marked, green_from }))
            },
        }
    }
}

#[derive(Debug)]
pub(super) struct LtpSpan {
    pub(super) link: LinkId,
    pub(super) engine: u64,
    pub(super) node: NodeId,
    /// Rules, which are shared by spans with equal ones.
    pub(super) rules: Arc<Rules>,
    pub(super) to: Destination,
    /// Address of the peer; `None` if the driver has not given it.
    pub(super) home: Option<Box<SocketAddr>>,
    pub(super) state: LinkState,
    pub(super) introduced: bool,
    /// Index of another span to the same engine, if there is one.
    pub(super) sibling: Option<usize>,
    pub(super) traffic: Lazy<Traffic>,
    pub(super) timers: Timers,
    pub(super) exports: u32,
    pub(super) imports: u32,
    pub(super) ready: bool,
    pub(super) touched: bool,
}

/// Number of latest spans whose rules are compared with those of a new span.
const ALIKE: usize = 8;

impl LtpSpan {
    /// Creates a span; it shares its rules with one of the latest spans if they are equal.
    pub(super) fn new(
        config: &SpanConfig,
        others: &[LtpSpan],
        to: Destination,
        state: LinkState,
        seed: u64,
    ) -> LtpSpan {
        let rules = Rules::from(config);
        let alike = others.iter().rev().take(ALIKE).find(|other| *other.rules == rules);
        let mut span = LtpSpan {
            link: config.link,
            engine: config.engine,
            node: config.node,
            rules: alike.map_or_else(|| Arc::new(rules), |alike| alike.rules.clone()),
            to,
            home: None,
            state: LinkState::DOWN,
            introduced: false,
            sibling: None,
            traffic: Lazy::default(),
            timers: Timers::new(seed, false),
            exports: 0,
            imports: 0,
            ready: false,
            touched: false,
        };
        span.set_state(Instant::ZERO, state);
        span
    }
    /// Handles a change of the link's state.
    // 5326-5-4
    pub(super) fn set_state(&mut self, now: Instant, state: LinkState) {
        let before = core::mem::replace(&mut self.state, state);
        if (before.delay_out, before.delay_in) != (state.delay_out, state.delay_in)
            && let Some(pace) = self.traffic.made().and_then(|traffic| traffic.pace.as_mut())
        {
            pace.moved();
        }
        if state.receive {
            self.timers.resume(now)
        } else {
            self.timers.suspend(now)
        }
        if state.rate.is_some()
            && let Some(traffic) = self.traffic.made()
        {
            // A known rate replaces congestion control.
            (traffic.pace, traffic.held) = (None, false);
        }
    }
    /// Whether a source address may be the peer's: it has the peer's IP address, as far as that is known.
    pub(super) fn is_at(&self, from: SocketAddr) -> bool {
        match (&self.home, self.to) {
            (Some(home), _) => home.ip() == from.ip(),
            (None, Destination::Address(met)) => met.ip() == from.ip(),
            (None, Destination::Link(_)) => true,
        }
    }
    /// Whether no session, timer or queued control segment uses the span.
    pub(super) fn is_unused(&self) -> bool {
        self.exports == 0 && self.imports == 0 && self.timers.len() == 0 && self.traffic.control.is_empty()
    }
    /// Most transmissions of a cancel segment. A peer whose address may be forged gets one per segment received from
    /// it.
    pub(super) fn attempts(&self) -> u32 {
        if self.is_unproven() { 1 } else { self.rules.attempts() }
    }
    /// Whether the peer is dynamic and has not yet proved that it receives at its address.
    pub(super) fn is_unproven(&self) -> bool {
        self.link.is_dynamic() && !self.traffic.proven
    }
    /// Releases spare capacity.
    pub(super) fn give_back(&mut self) {
        self.timers.give_back();
        let in_use = self.exports > 0;
        if let Some(traffic) = self.traffic.made() {
            traffic.give_back(in_use);
        }
    }
    fn cost(&self, datagram: u64) -> Duration {
        self.traffic.charged.time_for(datagram + u64::from(self.rules.overhead_bytes))
    }
    /// Charges a datagram to the rate. A known rate is charged with everything on the wire, a measured one only with
    /// block data, because measuring counts arriving data.
    // 9171-7.2-1
    pub(super) fn charge(&mut self, datagram: u64, data: u64) {
        let full = datagram == u64::from(self.rules.datagram_bytes);
        let cost = match self.state.rate {
            _ if full && data > 0 => self.traffic.full_cost,
            Some(_) => self.cost(datagram),
            None => self.traffic.charged.time_for(data),
        };
        self.traffic.busy_until += cost;
    }
    /// Updates the loss estimate by a report that claims `claimed` of the `scope` bytes.
    pub(super) fn note_loss(&mut self, claimed: u64, scope: u64) {
        let missing = u128::from(scope - claimed.min(scope)) * 65_536 / u128::from(scope.max(1));
        self.traffic.loss = (self.traffic.loss * 15 + missing as u32) / 16;
    }
    /// Whether more than about 0.5 % of the data is lost.
    pub(super) fn is_lossy(&self) -> bool {
        self.traffic.loss > 327
    }
    pub(super) fn has_work(&self) -> bool {
        !self.traffic.is_empty()
    }
    /// Starts a burst at the current rate; the caller may send while `busy_until` is not after the returned time.
    pub(super) fn begin_burst(&mut self, now: Instant) -> Instant {
        let (rate, early) = (self.rate(), self.early());
        let traffic = &mut *self.traffic;
        // Decided again in each burst; a block that has begun continues up to its checkpoint.
        traffic.held = false;
        if rate != traffic.charged || traffic.full_cost == Duration::ZERO {
            traffic.charged = rate;
            let around = if self.state.rate.is_some() { self.rules.overhead_bytes } else { 0 };
            let datagram = self.rules.datagram_bytes + around;
            traffic.full_cost = rate.time_for(datagram.into());
        }
        let catch_up = if traffic.was_idle { Duration::ZERO } else { BURST };
        let earliest = Instant(now.0.saturating_sub(catch_up.as_nanos() as u64));
        traffic.busy_until = traffic.busy_until.max(earliest);
        // The next datagram may start while less than a burst is queued in the transmitter.
        now + BURST.saturating_sub(traffic.full_cost).max(early)
    }
    /// Earliest start of the next burst. Without a known rate, that is half a burst before the transmitter is idle, so
    /// that a few small segments do not wait for each other.
    pub(super) fn next_burst(&self) -> Instant {
        Instant(self.traffic.busy_until.0.saturating_sub(self.early().as_nanos() as u64))
    }
    fn early(&self) -> Duration {
        if self.state.rate.is_none() { BURST / 2 } else { Duration::ZERO }
    }
    pub(super) fn end_burst(&mut self, horizon: Instant) {
        self.traffic.was_idle = !self.has_work();
        let more = self.traffic.busy_until > horizon && !self.traffic.fresh.is_empty();
        if let Some(pace) = self.pace().filter(|_| more) {
            pace.hold();
        }
    }
    /// Whether congestion control forbids to begin another block now; records that it limits the sender.
    pub(super) fn holds_back(&mut self) -> bool {
        let Some(pace) = self.pace().filter(|pace| !pace.is_open()) else { return false };
        pace.hold();
        self.traffic.held = true;
        true
    }
    /// Starts the timer for the answer to a segment, which leaves by `busy_until`.
    // 5326-5-4, 5326-6.2-1, 5326-6.3-1
    pub(super) fn wait(&mut self, now: Instant, wait: Wait) {
        let left = self.traffic.busy_until.max(now);
        let half = self.margin() / 2;
        self.timers.start(wait, left + self.state.delay_out + half, self.state.delay_in + half);
    }
    /// Time without a segment after which an import session ends. With red data it exceeds the time for which the
    /// sender repeats segments, whatever the propagation delay.
    pub(super) fn idle_limit(&self, red: bool) -> Duration {
        let round_trip = self.state.delay_out + self.state.delay_in + self.rules.margin * 2;
        match red {
            true => self.rules.idle + round_trip.saturating_mul(self.rules.attempts()),
            false => self.rules.idle_green,
        }
    }
    /// Time of the next action; `None` if nothing is scheduled.
    pub(super) fn deadline(&self, now: Instant) -> Option<Instant> {
        let send = (self.state.transmit && self.has_work()).then(|| self.next_burst().max(now));
        [self.timers.next_deadline(), self.traffic.pending.until, send].into_iter().flatten().min()
    }
    /// Whether the agent may give another bundle: unsent data is below a limit, or below half of it while the span is
    /// not ready, and sessions and window have room. A block that gathers bundles accepts them until it is full,
    /// however slow the link.
    pub(super) fn wants_more(&self) -> bool {
        let mark = match self.state.rate {
            Some(rate) => rate.volume_in(QUEUE_TIME).max(1),
            None => QUEUE_BYTES,
        };
        let mark = if self.ready { mark } else { mark / 2 + 1 };
        let gathered = self.traffic.pending.bytes;
        let gathers = gathered > 0 && gathered < self.rules.aggregate_bytes;
        let waits = self.traffic.unsent + if gathers { 0 } else { gathered };
        self.state.transmit
            && waits < mark
            && self.exports < self.sessions_max()
            && self.traffic.in_flight + gathered < self.rules.window_bytes
    }
    /// Event about a segment, whose fields the caller sets.
    pub(super) fn event(&self, sent: bool, session: SessionId, kind: u8) -> LtpSegmentEvent {
        LtpSegmentEvent {
            link: self.link,
            sent,
            engine: session.engine,
            session: session.number,
            kind,
            offset: 0,
            length: 0,
            checkpoint: 0,
            report: 0,
            resend: false,
        }
    }
}

/// Pushes a segment event if events are wanted.
pub(super) fn push_event(wanted: bool, event: LtpSegmentEvent, out: &mut impl Sink<Output>) {
    if wanted {
        out.push(Output::Event(Event::LtpSegment(event)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measured_rate_charges_data_only() {
        let charged = |rate| {
            let state = LinkState { rate, ..LinkState::UP };
            let mut span = LtpSpan::new(&SpanConfig::default(), &[], Destination::Link(LinkId(1)), state, 1);
            let mut cost = |datagram, data| {
                span.begin_burst(Instant(1_000_000_000));
                let before = span.traffic.busy_until;
                span.charge(datagram, data);
                span.rate().volume_in(span.traffic.busy_until - before)
            };
            [cost(20, 0), cost(160, 145), cost(1360, 1340)]
        };
        assert_eq!(charged(Some(DataRate(100_000_000))), [48, 188, 1388], "headers of the medium are charged");
        assert_eq!(charged(None), [0, 145, 1360], "otherwise control segments would look like a slow link");
    }

    #[test]
    fn learned_rate_stays_while_sessions_are_open() {
        let state = LinkState::UP;
        let mut span = LtpSpan::new(&SpanConfig::default(), &[], Destination::Link(LinkId(1)), state, 1);
        let now = Instant(1_000_000_000);
        span.exports = 1;
        let unknown = span.rate();
        let pace = span.pace().unwrap();
        pace.sent(10_000_000, now);
        let mark = pace.mark(now);
        pace.report(now + Duration::from_millis(10), &mark, 10_000_000, 0);
        let learned = span.rate();
        assert!(learned > unknown);
        span.give_back();
        assert_eq!(span.rate(), learned);
        span.exports = 0;
        span.give_back();
        assert_eq!(span.rate(), unknown);
    }

    #[test]
    fn bursts_stay_near_two_milliseconds() {
        let state = LinkState { rate: Some(DataRate(100_000_000)), ..LinkState::UP };
        let mut span = LtpSpan::new(&SpanConfig::default(), &[], Destination::Link(LinkId(1)), state, 1);
        let burst = |span: &mut LtpSpan, now: u64| {
            let horizon = span.begin_burst(Instant(now));
            let mut n = 0;
            while span.traffic.busy_until <= horizon {
                span.charge(1360, 1340);
                n += 1;
            }
            span.traffic.was_idle = false;
            n
        };
        let now = 1_000_000_000;
        assert_eq!(burst(&mut span, now), 18, "2 ms at 100 Mbit/s");
        let late = span.traffic.busy_until.0 + 1_000_000;
        assert!((26..=28).contains(&burst(&mut span, late)), "with the lost millisecond");
        span.traffic.was_idle = true;
        let idle = span.traffic.busy_until.0 + 1_000_000_000;
        assert_eq!(burst(&mut span, idle), 18, "idle time earns no burst");
    }
}
