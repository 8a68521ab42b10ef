//! The engine: tables, deadlines, and which part answers which input.

use super::export::Export;
use super::guard::ClosedSessions;
use super::import::Import;
use super::segment::SessionId;
use super::span::{Control, Span};
use super::timers::Wait;
use super::{Config, SpanConfig};
use alloc::vec::Vec;
use bytes::Bytes;
use core::net::SocketAddr;
use farlink_base::layer::{
    ConvergenceLayer, Destination, Input, LinkState, Output, SendId, Ticket, Train, dynamic_link_base,
};
use farlink_base::{Event, EventClass, Instant, LinkId, Map, NodeId, Payload, Refusal, Rng, Sink, TimerQueue, map};

/// Unconfigured peers served at once.
const DYNAMIC_MAX: usize = 1024;
/// Answers waiting in one span; further ones are dropped (the peer asks again).
const CONTROL_MAX: usize = 65_536;
/// Addresses remembered to know which span something came over.
const ADDRESSES_MAX: usize = 4096;

/// A session we cancelled, until the peer acknowledges it.
pub(super) struct Cancelled {
    pub(super) span: usize,
    pub(super) bytes: Bytes,
    pub(super) attempts: u32,
}

/// What an engine holds at the moment; all zero when it is idle.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Usage {
    /// Sessions it sends.
    pub exports: usize,
    /// Sessions it receives.
    pub imports: usize,
    /// Sessions it cancelled whose acknowledgment has not come.
    pub cancelled: usize,
    /// Bytes of arriving blocks (and what their fragmentation costs).
    pub arriving_bytes: u64,
    /// Bytes of blocks it sends.
    pub in_flight_bytes: u64,
    /// Timers waiting for a peer.
    pub timers: usize,
    /// Offers without a verdict.
    pub offers: usize,
}

/// One LTP engine.
pub struct Ltp {
    pub(super) config: Config,
    pub(super) spans: Vec<Span>,
    pub(super) by_link: Map<LinkId, usize>,
    pub(super) by_engine: Map<u64, usize>,
    by_address: Map<SocketAddr, usize>,
    /// The first spans are configured, the others dynamic.
    configured: usize,
    dynamic_number: u32,
    pub(super) exports: Map<u64, Export>,
    pub(super) imports: Map<SessionId, Import>,
    pub(super) tickets: Map<Ticket, SessionId>,
    pub(super) cancelled: Map<SessionId, Cancelled>,
    pub(super) closed: ClosedSessions,
    agenda: TimerQueue<usize>,
    pub(super) idle: TimerQueue<SessionId>,
    pub(super) next_session: u64,
    pub(super) next_ticket: u64,
    pub(super) arriving_bytes: u64,
    pub(super) closing: bool,
    /// Whether sessions were left for new blocks when spans last learned of it.
    had_room: bool,
    touched: Vec<usize>,
}

impl Ltp {
    /// An engine with its neighbours. Links are down until told otherwise.
    pub fn new(config: Config, spans: Vec<SpanConfig>) -> Ltp {
        let seed = config.seed;
        let mut ltp = Ltp {
            spans: Vec::with_capacity(spans.len()),
            by_link: map(seed),
            by_engine: map(seed),
            by_address: map(seed),
            configured: 0,
            dynamic_number: 0,
            exports: map(seed),
            imports: map(seed),
            tickets: map(seed),
            cancelled: map(seed),
            closed: ClosedSessions::new(seed),
            agenda: TimerQueue::new(),
            idle: TimerQueue::new(),
            // 31 bits: a restarted engine hardly meets numbers its peers remember.
            next_session: 1 + Rng::stream(seed, config.engine).below(1 << 31),
            next_ticket: 1,
            arriving_bytes: 0,
            closing: false,
            had_room: true,
            touched: Vec::new(),
            config,
        };
        for mut span in spans {
            span.datagram_bytes = span.datagram_bytes.clamp(64, 65_000);
            let to = Destination::Link(span.link);
            ltp.add_span(span, to, LinkState::DOWN);
        }
        ltp.configured = ltp.spans.len();
        ltp
    }
    fn add_span(&mut self, config: SpanConfig, to: Destination, state: LinkState) -> usize {
        let index = self.spans.len();
        self.by_link.insert(config.link, index);
        let engine = config.engine;
        let mut span = Span::new(config, to, state, self.config.seed);
        match self.by_engine.get(&engine).copied() {
            // The first span stays the head of the chain.
            Some(first) => span.sibling = self.spans[first].sibling.replace(index),
            None => drop(self.by_engine.insert(engine, index)),
        }
        self.spans.push(span);
        index
    }
    /// What the engine holds.
    pub fn usage(&self) -> Usage {
        Usage {
            exports: self.exports.len(),
            imports: self.imports.len(),
            cancelled: self.cancelled.len(),
            arriving_bytes: self.arriving_bytes,
            in_flight_bytes: self.spans.iter().map(|s| s.in_flight + s.pending.bytes).sum(),
            timers: self.spans.iter().map(|s| s.timers.len()).sum::<usize>() + self.idle.len(),
            offers: self.tickets.len(),
        }
    }
    /// The first serial number of a session, 1 to 16383 (ION's limit): the same whatever else
    /// happened before.
    pub(super) fn first_serial(&self, session: SessionId) -> u64 {
        let seed = self.config.seed ^ session.engine.rotate_left(32);
        1 + Rng::stream(seed, session.number).below(16_383)
    }

    /// Notes that a span's deadline and readiness may have changed.
    pub(super) fn touch(&mut self, index: usize) {
        if !core::mem::replace(&mut self.spans[index].touched, true) {
            self.touched.push(index);
        }
    }
    /// The span to an engine, one that is up before others.
    pub(super) fn span_to(&self, engine: u64) -> Option<usize> {
        let first = *self.by_engine.get(&engine)?;
        let mut at = Some(first);
        while let Some(index) = at {
            let span = &self.spans[index];
            if span.state.transmit && span.state.receive {
                return Some(index);
            }
            at = span.sibling;
        }
        Some(first)
    }
    pub(super) fn span_at(&self, from: SocketAddr) -> Option<usize> {
        self.by_address.get(&from).copied()
    }
    /// Notes where a span's peer sends from.
    pub(super) fn hear(&mut self, index: usize, from: SocketAddr) {
        if self.spans[index].heard == Some(from) {
            return;
        }
        if self.by_address.len() >= ADDRESSES_MAX {
            self.by_address.clear();
        }
        self.by_address.insert(from, index);
        let span = &mut self.spans[index];
        span.heard = Some(from);
        if let Destination::Address(to) = &mut span.to {
            *to = from;
        }
    }
    /// A span for an engine that is not configured; `None` when it is not served.
    pub(super) fn make_dynamic(&mut self, engine: u64, from: SocketAddr, out: &mut impl Sink<Output>) -> Option<usize> {
        if !self.config.accept_unknown || self.closing || engine == 0 {
            return None;
        }
        let link = LinkId(dynamic_link_base(self.config.layer) | self.dynamic_number & 0x00ff_ffff);
        let config = SpanConfig { link, engine, node: NodeId(engine), ..SpanConfig::default() };
        let to = Destination::Address(from);
        let index = if self.spans.len() - self.configured < DYNAMIC_MAX {
            self.add_span(config, to, LinkState::UP)
        } else {
            self.reuse_dynamic(config, to, out)?
        };
        self.dynamic_number += 1;
        self.spans[index].introduced = true;
        out.push(Output::PeerUp { link, node_id: None, node: Some(NodeId(engine)) });
        self.touch(index);
        Some(index)
    }
    /// Gives the place of an unused dynamic span to another peer.
    fn reuse_dynamic(&mut self, config: SpanConfig, to: Destination, out: &mut impl Sink<Output>) -> Option<usize> {
        let unused = |s: &Span| s.exports == 0 && s.imports == 0 && s.timers.len() == 0 && !s.has_work();
        let index = (self.configured..self.spans.len()).find(|i| unused(&self.spans[*i]))?;
        let old = &self.spans[index];
        out.push(Output::PeerDown { link: old.config.link });
        self.by_link.remove(&old.config.link);
        self.by_engine.remove(&old.config.engine);
        if let Some(from) = old.heard {
            self.by_address.remove(&from);
        }
        if let Some(key) = old.armed {
            self.agenda.cancel(key);
        }
        self.by_link.insert(config.link, index);
        self.by_engine.insert(config.engine, index);
        let touched = old.touched;
        self.spans[index] = Span::new(config, to, LinkState::UP, self.config.seed);
        self.spans[index].touched = touched;
        Some(index)
    }

    /// Queues a segment without data; where no span is known it leaves at once, back to where the
    /// question came from.
    pub(super) fn reply(
        &mut self,
        span: Option<usize>,
        from: SocketAddr,
        control: impl FnOnce(Option<&Span>) -> Control,
        out: &mut impl Sink<Output>,
    ) {
        match span {
            Some(index) if self.spans[index].control.len() >= CONTROL_MAX => {}
            Some(index) => {
                let control = control(Some(&self.spans[index]));
                self.spans[index].control.push_back(control);
                self.touch(index);
            }
            None => {
                let train = Train::single(Payload::from(control(None).bytes));
                out.push(Output::Datagrams { to: Destination::Address(from), train });
            }
        }
    }

    fn link(&mut self, now: Instant, link: LinkId, state: LinkState, out: &mut impl Sink<Output>) {
        let Some(&index) = self.by_link.get(&link) else { return };
        let span = &mut self.spans[index];
        span.set_state(now, state);
        if (state.transmit || state.receive) && !core::mem::replace(&mut span.introduced, true) {
            out.push(Output::PeerUp { link, node_id: None, node: Some(span.config.node) });
        }
        self.touch(index);
    }
    fn wake(&mut self, now: Instant, out: &mut impl Sink<Output>) {
        let mut due = Vec::new();
        while let Some((_, index)) = self.agenda.pop_due(now) {
            self.spans[index].armed = None;
            due.push(index);
        }
        for index in due {
            self.touch(index);
            if self.spans[index].pending.until.is_some_and(|until| until <= now) {
                self.close_block(index);
            }
            while let Some(wait) = self.spans[index].timers.pop_due(now) {
                self.expired(now, wait, out);
            }
            self.transmit(index, now, out);
        }
        while let Some((_, session)) = self.idle.pop_due(now) {
            self.idle_check(now, session, out);
        }
    }
    fn expired(&mut self, now: Instant, wait: Wait, out: &mut impl Sink<Output>) {
        match wait {
            Wait::Checkpoint { session, serial } => self.checkpoint_expired(session, serial, out),
            Wait::Progress { session } => self.progress_expired(session, out),
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
    /// Brings deadline and readiness of every touched span up to date.
    fn settle(&mut self, now: Instant, out: &mut impl Sink<Output>) {
        let room = self.exports.len() < self.config.sessions as usize && !self.closing;
        if room != core::mem::replace(&mut self.had_room, room) {
            (0..self.spans.len()).for_each(|index| self.touch(index));
        }
        while let Some(index) = self.touched.pop() {
            let span = &mut self.spans[index];
            span.touched = false;
            let ready = room && span.wants_more();
            if ready != span.ready {
                span.ready = ready;
                out.push(Output::Ready { link: span.config.link, ready });
            }
            let deadline = span.deadline(now);
            if deadline != span.armed.map(|key| key.deadline()) {
                if let Some(key) = span.armed.take() {
                    self.agenda.cancel(key);
                }
                span.armed = deadline.map(|deadline| self.agenda.arm(deadline, index));
            }
        }
    }
    fn cancel_send(&mut self, link: LinkId, id: SendId, out: &mut impl Sink<Output>) {
        if let Some(&index) = self.by_link.get(&link) {
            self.take_back(index, id, out);
        }
    }
    pub(super) fn session_end(&self, index: usize, session: SessionId, cancelled: bool, out: &mut impl Sink<Output>) {
        if out.wants(EventClass::Link) {
            let (link, engine) = (self.spans[index].config.link, session.engine);
            out.push(Output::Event(Event::LtpSessionEnd { link, engine, session: session.number, cancelled }));
        }
    }
}

impl ConvergenceLayer for Ltp {
    fn handle(&mut self, now: Instant, input: Input, out: &mut impl Sink<Output>) {
        match input {
            Input::Wake => self.wake(now, out),
            Input::Datagrams { from, train } => self.datagrams(now, from, &train, out),
            Input::Link { link, state } => self.link(now, link, state, out),
            Input::Send { link, id, bundle, reliable } => self.send(now, link, (id, bundle), reliable, out),
            Input::CancelSend { link, id } => self.cancel_send(link, id, out),
            Input::Accepted { ticket } => self.verdict(now, ticket, Ok(()), out),
            Input::Refused { ticket, reason } => self.verdict(now, ticket, Err::<(), Refusal>(reason), out),
            Input::Shutdown => self.shutdown(out),
            // LTP has no streams.
            Input::StreamOpened { .. }
            | Input::StreamData { .. }
            | Input::StreamWritable { .. }
            | Input::StreamClosed { .. } => {}
        }
        self.settle(now, out);
    }
    fn next_timeout(&self) -> Option<Instant> {
        [self.agenda.next_deadline(), self.idle.next_deadline()].into_iter().flatten().min()
    }
}
