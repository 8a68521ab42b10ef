//! The engine's state machine: tables, timers, and dispatch of inputs.

use super::block_bundles::BlockBundle;
use super::ending::SessionEnd;
use super::export::Export;
use super::guard::ClosedSessions;
use super::guests::Guests;
use super::import::Import;
use super::segment::SessionId;
use super::span::{ControlSegment, LtpSpan};
use super::timers::Wait;
use super::{Config, SpanConfig};
use alloc::boxed::Box;
use alloc::vec::Vec;
use bytes::Bytes;
use core::net::SocketAddr;
use farlink_base::layer::{ConvergenceLayer, DatagramBatch, Destination, Input, Output, SendId, Ticket};
use farlink_base::socket;
use farlink_base::{
    Empty, Event, EventClass, Few, Instant, Lazy, LinkId, Map, Payload, Refusal, Rng, Sink, TimerQueue, map,
};

/// Most control segments queued in one span. Further ones are dropped, and the peer's timers make it ask again.
const CONTROL_MAX: usize = 65_536;

/// Room for further blocks within the limits that all spans share.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum FlightRoom {
    None,
    /// There is room only for spans without an export session.
    Little,
    Much,
}

/// A session that this engine cancelled, until the peer acknowledges the cancellation.
#[derive(Debug)]
pub(super) struct Cancelled {
    pub(super) span: usize,
    pub(super) bytes: Bytes,
    pub(super) attempts: u32,
}

/// An engine whose link was removed.
#[derive(Debug)]
pub(super) struct Parted {
    /// Time until which late segments of the engine make no dynamic link.
    pub(super) until: Instant,
    /// Cancel segments that a new link to the engine continues to send; kept only for the engine removed last.
    pub(super) cancels: Vec<(SessionId, Bytes)>,
}

/// Resources that an engine holds now; all are zero when it is idle.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Usage {
    /// Export sessions.
    pub exports: usize,
    /// Import sessions.
    pub imports: usize,
    /// Sessions that this engine cancelled and the peer has not acknowledged.
    pub cancelled: usize,
    /// Bytes of blocks being received, including the memory that their fragmentation costs.
    pub arriving_bytes: u64,
    /// Bytes of blocks being sent.
    pub in_flight_bytes: u64,
    /// Armed timers.
    pub timers: usize,
    /// Offers awaiting a verdict.
    pub offers: usize,
}

/// Sessions of an engine, closed sessions that it remembers, and the addresses of senders.
#[derive(Debug)]
pub(super) struct Sessions {
    /// Link that each source address used last.
    pub(super) by_address: Map<SocketAddr, LinkId>,
    pub(super) exports: Map<u64, Export>,
    /// Number of the session that carries each bundle.
    pub(super) by_send: Map<SendId, u64>,
    pub(super) imports: Map<SessionId, Import>,
    pub(super) tickets: Map<Ticket, SessionId>,
    pub(super) cancelled: Map<SessionId, Cancelled>,
    pub(super) closed: ClosedSessions,
    pub(super) guests: Option<Box<Guests>>,
    /// Timers of idle sessions.
    pub(super) idle: TimerQueue<SessionId>,
}
impl Sessions {
    const fn new(seed: u64) -> Self {
        Sessions {
            by_address: map(seed),
            exports: map(seed),
            by_send: map(seed),
            imports: map(seed),
            tickets: map(seed),
            cancelled: map(seed),
            closed: ClosedSessions::new(seed),
            guests: None,
            idle: TimerQueue::new(),
        }
    }
}
impl Sessions {
    /// Releases spare capacity of the tables, if no session is open.
    pub(super) fn give_back(&mut self) {
        if self.exports.is_empty() && self.imports.is_empty() {
            self.exports.shrink_to_fit();
            self.by_send.shrink_to_fit();
            self.imports.shrink_to_fit();
            self.tickets.shrink_to_fit();
            self.cancelled.shrink_to_fit();
        }
    }
}
impl Empty for Sessions {
    type From = u64;
    const EMPTY: &'static Self = &Sessions::new(0);
    fn make(seed: u64) -> Self {
        Sessions::new(seed)
    }
}

/// The LTP engine of one node.
#[derive(Debug)]
pub struct Ltp {
    pub(super) config: Config,
    pub(super) spans: Vec<LtpSpan>,
    /// Index into `spans`, by link number.
    pub(super) by_link: Few<LinkId, usize>,
    pub(super) by_engine: Few<u64, usize>,
    /// Unused indices of `spans`.
    pub(super) vacant: Vec<usize>,
    /// Engines whose links were removed a short time ago.
    pub(super) parted: Few<u64, Parted>,
    /// Number of spans that are dynamic links.
    pub(super) dynamic: usize,
    pub(super) dynamic_number: u32,
    pub(super) sessions: Lazy<Sessions>,
    pub(super) agenda: TimerQueue<usize>,
    /// Number of spans that have assigned a session number; the random first session number of a span depends on it.
    pub(super) numbered: u64,
    pub(super) next_ticket: u64,
    pub(super) arriving_bytes: u64,
    /// Weight of all export blocks, bytes.
    pub(super) in_flight_bytes: u64,
    pub(super) closing: bool,
    /// Whether any link authenticates its segments.
    pub(super) sealed: bool,
    /// Whether any session ever had a cookie.
    pub(super) had_cookies: bool,
    /// Room for further blocks when the readiness of all spans was last updated.
    had_room: FlightRoom,
    touched: Vec<usize>,
}

impl Ltp {
    /// Releases spare capacity after a busy period.
    pub fn rest(&mut self) {
        self.spans.iter_mut().for_each(LtpSpan::give_back);
        if let Some(sessions) = self.sessions.made() {
            sessions.give_back();
        }
    }
    /// Creates an engine with links to these neighbours; the links start down.
    pub fn new(config: Config, spans: Vec<SpanConfig>) -> Ltp {
        let seed = config.seed;
        let mut ltp = Ltp {
            spans: Vec::with_capacity(spans.len()),
            by_link: Few::new(),
            by_engine: Few::new(),
            vacant: Vec::new(),
            parted: Few::new(),
            dynamic: 0,
            dynamic_number: 0,
            sessions: Lazy::new(seed),
            agenda: TimerQueue::new(),
            numbered: 0,
            next_ticket: 1,
            arriving_bytes: 0,
            in_flight_bytes: 0,
            closing: false,
            sealed: false,
            had_cookies: false,
            had_room: FlightRoom::Much,
            touched: Vec::new(),
            config,
        };
        spans.into_iter().for_each(|span| ltp.place_configured(span));
        ltp
    }
    /// Resources held now.
    pub fn usage(&self) -> Usage {
        Usage {
            exports: self.sessions.exports.len(),
            imports: self.sessions.imports.len(),
            cancelled: self.sessions.cancelled.len(),
            arriving_bytes: self.arriving_bytes,
            in_flight_bytes: self.spans.iter().map(|s| s.traffic.in_flight + s.traffic.pending.bytes).sum(),
            timers: self.spans.iter().map(|s| s.timers.len()).sum::<usize>() + self.sessions.idle.len(),
            offers: self.sessions.tickets.len(),
        }
    }
    /// Size of the span table, including unused entries.
    pub fn places(&self) -> usize {
        debug_assert_eq!(self.by_link.len() + self.vacant.len(), self.spans.len());
        self.spans.len()
    }
    /// First serial number of a session, from 1 to 16383 (ION's limit); it cannot be guessed from those of other
    /// sessions.
    // 5326-3.2.1-3, 5326-3.2.1-6, 5326-3.2.2-1, 5326-3.2.2-4, 5326-9.1-1, 5326-9.3-2, 5326-9.3-3
    pub(super) fn first_serial(&self, session: SessionId) -> u64 {
        let seed = self.config.seed ^ session.engine.rotate_left(32);
        1 + Rng::stream(seed, session.number).below(16_383)
    }

    /// Marks a span whose deadline or readiness may have changed, for [`Self::settle`].
    pub(super) fn touch(&mut self, index: usize) {
        if !core::mem::replace(&mut self.spans[index].touched, true) {
            self.touched.push(index);
        }
    }
    /// Queues a control segment on a span; without a span, sends it at once to the source address.
    pub(super) fn reply(
        &mut self,
        span: Option<usize>,
        from: SocketAddr,
        control: impl FnOnce(Option<&LtpSpan>) -> ControlSegment,
        out: &mut impl Sink<Output>,
    ) {
        match span {
            Some(index) if self.spans[index].traffic.control.len() >= CONTROL_MAX => {}
            Some(index) => {
                let control = control(Some(&self.spans[index]));
                self.spans[index].traffic.control.push_back(control);
                self.touch(index);
            }
            None => {
                let train = DatagramBatch::single(Payload::from(control(None).bytes));
                out.push(Output::Socket(socket::Output::Datagrams { to: Destination::Address(from), train }));
            }
        }
    }

    fn wake(&mut self, now: Instant, out: &mut impl Sink<Output>) {
        let mut due = Vec::new();
        while let Some((_, index)) = self.agenda.pop_due(now) {
            self.spans[index].traffic.armed = None;
            due.push(index);
        }
        for index in due {
            self.touch(index);
            if self.spans[index].traffic.pending.until.is_some_and(|until| until <= now) {
                self.close_block(index);
            }
            while let Some(wait) = self.spans[index].timers.pop_due(now) {
                self.expired(now, wait, out);
            }
            self.transmit(index, now, out);
        }
        while let Some((_, session)) = self.sessions.made().and_then(|sessions| sessions.idle.pop_due(now)) {
            self.idle_check(now, session, out);
        }
    }
    fn expired(&mut self, now: Instant, wait: Wait, out: &mut impl Sink<Output>) {
        match wait {
            Wait::Checkpoint { session, serial } => self.checkpoint_expired(now, session, serial, out),
            Wait::Gather { session } => self.gathered(session),
            Wait::Progress { session } => self.progress_expired(now, session, out),
            Wait::Report { session, serial } => self.report_expired(now, session, serial, out),
            Wait::Cancel { session } => self.cancel_expired(session),
        }
    }
    fn shutdown(&mut self, out: &mut impl Sink<Output>) {
        self.closing = true;
        for index in 0..self.spans.len() {
            self.abandon_unsent(index, out);
            self.touch(index);
        }
    }
    fn room(&self) -> FlightRoom {
        let (held, limit) = (self.in_flight_bytes, self.config.in_flight_bytes);
        // Hysteresis: once three quarters are used, an eighth must become free before there is much room again, because
        // each change touches all spans.
        let much = if self.had_room == FlightRoom::Much { limit - limit / 4 } else { limit - limit / 8 * 3 };
        if self.closing || self.sessions.exports.len() >= self.config.sessions as usize || held >= limit {
            FlightRoom::None
        } else if held < much {
            FlightRoom::Much
        } else {
            FlightRoom::Little
        }
    }
    /// Updates the deadline and the readiness of every marked span.
    pub(super) fn settle(&mut self, now: Instant, out: &mut impl Sink<Output>) {
        let room = self.room();
        if room != core::mem::replace(&mut self.had_room, room) {
            (0..self.spans.len()).for_each(|index| self.touch(index));
        }
        while let Some(index) = self.touched.pop() {
            let span = &mut self.spans[index];
            span.touched = false;
            let room = room == FlightRoom::Much || (room == FlightRoom::Little && span.exports == 0);
            let ready = room && span.wants_more();
            if ready != span.ready {
                span.ready = ready;
                out.push(Output::Ready { link: span.link, ready });
            }
            let deadline = span.deadline(now);
            if deadline != span.traffic.armed.map(|key| key.deadline()) {
                if let Some(key) = span.traffic.armed.take() {
                    self.agenda.cancel(key);
                }
                span.traffic.armed = deadline.map(|deadline| self.agenda.arm(deadline, index));
            }
        }
    }
    fn cancel_send(&mut self, link: LinkId, id: SendId, out: &mut impl Sink<Output>) {
        if let Some(&index) = self.by_link.get(&link) {
            self.take_back(index, id, out);
        }
    }
    pub(super) fn session_end(&self, index: usize, session: SessionId, end: SessionEnd, out: &mut impl Sink<Output>) {
        if out.wants(EventClass::Link) {
            let (link, engine) = (self.spans[index].link, session.engine);
            let (session, cancelled, why) = (session.number, end.is_in_vain(), end.words());
            out.push(Output::Event(Event::LtpSessionEnd { link, engine, session, cancelled, why }));
        }
    }
}

impl ConvergenceLayer for Ltp {
    fn handle(&mut self, now: Instant, input: Input, out: &mut impl Sink<Output>) {
        match input {
            Input::Wake => self.wake(now, out),
            Input::Socket(socket::Input::Datagrams { from, train }) => self.datagrams(now, from, &train, out),
            Input::Socket(socket::Input::Located { link, addresses }) => {
                addresses.first().into_iter().for_each(|address| self.peer_is_at(link, *address));
            }
            Input::Link { link, state } => self.link(now, link, state, out),
            Input::Send { link, id, total, part, reliable, leaving } => {
                self.send(now, link, (BlockBundle::new(id, part, leaving), total), reliable, out);
            }
            Input::SendMore { id, from, part, .. } => self.send_more(id, from, part),
            Input::SendBroken { id, .. } => self.send_broken(id, out),
            Input::CancelSend { link, id } => self.cancel_send(link, id, out),
            Input::Accepted { ticket } => self.verdict(now, ticket, Ok(()), out),
            Input::Refused { ticket, reason } => self.verdict(now, ticket, Err::<(), Refusal>(reason), out),
            Input::RemoveLink { link } => {
                self.part(now, link);
                self.remove_link(link, out);
            }
            Input::Hold { ticket } => self.hold(ticket, true, out),
            Input::Resume { ticket } => self.hold(ticket, false, out),
            Input::Unshare => self.unshare(),
            Input::Shutdown => self.shutdown(out),
            // Nothing to do: LTP has no streams and no session longer than a block, and reports show the sender which
            // data was received.
            Input::CloseLink { .. } | Input::Kept { .. } | Input::Socket(_) => {}
        }
        self.settle(now, out);
    }
    fn next_timeout(&self) -> Option<Instant> {
        Instant::earliest([self.agenda.next_deadline(), self.sessions.idle.next_deadline()])
    }
}
