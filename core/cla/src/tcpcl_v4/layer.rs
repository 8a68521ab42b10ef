//! The layer's state machine: assigns streams to sessions and sessions to links, and dispatches inputs and timers.

use super::due::SessionDue;
use super::incoming::session_of;
use super::links::{Serving, TcpclLink};
use super::peers::Unwelcome;
use super::session::{ReadStep, SessionPhase, TcpclSession};
use super::wire::{refuse_code, term};
use super::{Config, LinkParams};
use crate::streams::links::LinkTable;
use crate::streams::timing::arm;
use crate::streams::waiting::WaitingBundle;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;
use farlink_base::layer::{ConvergenceLayer, Input, LinkState, Output, SendId, Ticket, stream_base};
use farlink_base::socket;
use farlink_base::{
    Duration, EndpointId, Event, EventClass, Instant, LinkId, NodeId, Payload, Sink, StreamId, TimerQueue,
};

/// Purpose of a timer.
#[derive(Clone, Copy, Debug)]
pub(super) enum SessionTimer {
    Session(StreamId),
    Connect(LinkId),
    Park(LinkId),
}

/// Resources that an entity holds now.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Usage {
    /// Links, configured and dynamic.
    pub links: usize,
    /// Sessions, counted from the request to connect until the stream has ended.
    pub sessions: usize,
    /// Armed timers.
    pub timers: usize,
}

/// The TCPCL entity of one node, for version 4, 3 or both, with all its sessions.
// 9171-5.4-4
#[derive(Debug)]
pub struct TcpclV4 {
    pub(super) config: Config,
    pub(super) links: LinkTable<LinkParams, Serving>,
    /// Boxed, because a node of a `BTreeMap` has room for eleven entries, and most TCPCL entities have few sessions.
    pub(super) sessions: BTreeMap<StreamId, Box<TcpclSession>>,
    /// Sessions by the number in their tickets.
    numbers: BTreeMap<u32, StreamId>,
    pub(super) timers: TimerQueue<SessionTimer>,
    next_stream: u32,
    next_session: u32,
    pub(super) next_dynamic: u32,
    pub(super) shutdown: bool,
}

impl TcpclV4 {
    /// Creates an entity with links to these neighbours; the links start down.
    pub fn new(config: Config, spans: Vec<LinkParams>) -> Self {
        let links = spans.into_iter().map(|span| (span.link, Box::new(TcpclLink::configured(span)))).collect();
        TcpclV4 {
            config,
            links,
            sessions: BTreeMap::new(),
            numbers: BTreeMap::new(),
            timers: TimerQueue::new(),
            next_stream: 0,
            next_session: 0,
            next_dynamic: 0,
            shutdown: false,
        }
    }

    /// Resources held now.
    pub fn usage(&self) -> Usage {
        debug_assert_eq!(self.numbers.len(), self.sessions.len());
        Usage { links: self.links.len(), sessions: self.sessions.len(), timers: self.timers.len() }
    }

    fn open_session(&mut self, now: Instant, stream: StreamId, link: Option<LinkId>) {
        // Numbers wrap around, so the next one may still be in use.
        while self.numbers.contains_key(&self.next_session) {
            self.next_session = self.next_session.wrapping_add(1);
        }
        let number = self.next_session;
        self.next_session = number.wrapping_add(1);
        self.numbers.insert(number, stream);
        self.sessions.insert(stream, Box::new(TcpclSession::new(now, number, stream, link, &self.config)));
    }

    /// Connects to a link's peer, if the link needs a session.
    // 9174-4.1-1
    fn connect(&mut self, now: Instant, link_id: LinkId, out: &mut impl Sink<Output>) {
        let Some(link) = self.links.get_mut(&link_id) else { return };
        if self.shutdown || !link.wants_session() {
            return;
        }
        // Numbers wrap around, so the next one may still be in use.
        let stream = loop {
            let stream = StreamId(stream_base(self.config.layer) | u64::from(self.next_stream));
            self.next_stream = self.next_stream.wrapping_add(1);
            if !self.sessions.contains_key(&stream) {
                break stream;
            }
        };
        link.by.opening = Some(stream);
        self.open_session(now, stream, Some(link_id));
        out.push(Output::Socket(socket::Output::Connect { stream, link: link_id }));
    }

    fn on_opened(&mut self, now: Instant, stream: StreamId, from: IpAddr, out: &mut impl Sink<Output>) {
        let new = !self.sessions.contains_key(&stream);
        if new {
            if !stream.is_passive() || self.shutdown || !self.make_room(now, from, out) {
                out.push(Output::Socket(socket::Output::Close { stream, abort: true }));
                return;
            }
            self.open_session(now, stream, None);
        }
        if let Some(session) = self.sessions.get_mut(&stream) {
            session.from = Some(from);
            if session.phase == SessionPhase::Connecting || new {
                let older = session.link.and_then(|id| self.links.get(&id)).is_some_and(|link| link.config.older);
                session.on_opened(now, &self.config, older);
            }
        }
        self.settle(now, stream, out);
    }

    /// Parses a session's input, acts on each result, and writes the session's output.
    fn settle(&mut self, now: Instant, stream: StreamId, out: &mut impl Sink<Output>) {
        while let Some(session) = self.sessions.get_mut(&stream) {
            match session.read(now, &self.config, out) {
                ReadStep::Wait => break,
                ReadStep::Crowded => {
                    self.flush(now, stream, out);
                    if self.sessions.get(&stream).is_none_or(|session| session.incoming.is_crowded()) {
                        return;
                    }
                }
                ReadStep::Established(init) => {
                    let welcome = self.introduce(now, stream, &init, out);
                    if let Err(why) = welcome {
                        let claimed = init.node_id.parse().ok().map(|claimed: EndpointId| claimed.node());
                        self.refuse(now, stream, why, claimed, out);
                    }
                }
                ReadStep::OtherVersion => {
                    let link = self.sessions.get(&stream).and_then(|session| session.link);
                    self.try_other_version(stream);
                    let reason = "the peer uses another version, which is tried next";
                    self.fail(now, stream, Event::SessionRefused { link, peer: None, reason }, out);
                }
                ReadStep::Left => {
                    if let Some(session) = self.sessions.get_mut(&stream) {
                        session.answer_rest(now);
                    }
                    self.detach(now, stream, out);
                }
                ReadStep::Over(reason) => {
                    let link = self.sessions.get(&stream).and_then(|session| session.link);
                    self.fail(now, stream, Event::Malformed { link, offset: 0, reason }, out);
                }
            }
        }
        self.flush(now, stream, out);
    }

    /// If both versions are in use, makes the link's next session use the other version, because the peer rejected the
    /// version of this session or did not answer (RFC 9174 4.3).
    fn try_other_version(&mut self, stream: StreamId) {
        let session = self.sessions.get(&stream).filter(|session| !session.passive && self.config.adapts());
        let link = session.and_then(|session| session.link).and_then(|id| self.links.get_mut(&id));
        if let Some(link) = link {
            link.config.older = !link.config.older;
        }
    }

    /// Rejects a peer, which claims to be this node: terminates the session with a code and reports the reason.
    fn refuse(
        &mut self,
        now: Instant,
        stream: StreamId,
        (code, reason): Unwelcome,
        peer: Option<NodeId>,
        out: &mut impl Sink<Output>,
    ) {
        let Some(session) = self.sessions.get_mut(&stream) else { return };
        session.terminate(now, code);
        let link = session.link;
        self.fail(now, stream, Event::SessionRefused { link, peer, reason }, out);
    }

    /// Ends a session and reports the reason. Written bytes may still leave; bundles not acknowledged return to the
    /// agent.
    fn fail(&mut self, now: Instant, stream: StreamId, why: Event, out: &mut impl Sink<Output>) {
        let Some(session) = self.sessions.get_mut(&stream) else { return };
        if out.wants(EventClass::Link) {
            out.push(Output::Event(why));
        }
        session.close(now);
        self.detach(now, stream, out);
    }

    /// Removes a session from its link and returns its bundles to the agent.
    // 9174-6.1-8
    pub(super) fn detach(&mut self, now: Instant, stream: StreamId, out: &mut impl Sink<Output>) {
        let Some(session) = self.sessions.get_mut(&stream) else { return };
        if let Some(ticket) = session.incoming.unfinished_offer() {
            out.push(Output::OfferAborted { ticket });
        }
        if session.phase == SessionPhase::Answering {
            session.incoming.forget_unfinished();
        } else {
            session.incoming.forget();
        }
        let sends = session.outgoing.take_all();
        let established = session.established;
        let rest = session.old.map_or(Duration::ZERO, |old| old.rest);
        let Some((link_id, link)) = session.link.take().and_then(|id| self.links.get_mut(&id).map(|link| (id, link)))
        else {
            return;
        };
        let served = link.by.sessions.contains(&stream);
        link.by.sessions.retain(|other| *other != stream);
        if link.by.opening == Some(stream) {
            link.by.opening = None;
        }
        let last = served && link.by.sessions.is_empty();
        if last && core::mem::take(&mut link.ready) {
            out.push(Output::Ready { link: link_id, ready: false });
        }
        for (id, bytes) in sends {
            if bytes > 0 {
                out.push(Output::SentInPart { id, link: link_id, bytes });
            }
            out.push(Output::SendFailed { id, link: link_id, refused: None });
        }
        if last {
            link.on_stream_end(established, now);
            out.push(Output::PeerDown { link: link_id });
            if !link.configured {
                self.links.remove(&link_id);
                return;
            }
        }
        self.update_ready(link_id, out);
        self.connect_later(now, link_id, rest);
    }

    /// Arms the timer for reconnecting, after the backoff but not before `rest` has passed.
    // 9174-4.1-2, 9174-4.1-3, 7242-4-1, 7242-4-2
    fn connect_later(&mut self, now: Instant, link_id: LinkId, rest: Duration) {
        let Some(link) = self.links.get_mut(&link_id) else { return };
        if !self.shutdown && link.wants_session() {
            let wait = link.next_backoff().max(rest);
            link.retry = Some(self.timers.arm(now + wait, SessionTimer::Connect(link_id)));
        }
    }

    /// Handles the end of the peer's half of a stream. The peer may still read, and received transfers "SHOULD" be
    /// acknowledged before the end (RFC 9174 6.1).
    fn on_end(&mut self, now: Instant, stream: StreamId, out: &mut impl Sink<Output>) {
        let crowded = self.sessions.get_mut(&stream).filter(|session| session.incoming.is_crowded());
        if let Some(session) = crowded {
            session.incoming.end();
            self.settle(now, stream, out);
        }
        let Some(session) = self.sessions.get_mut(&stream) else { return };
        let unfinished = session.incoming.unfinished_offer();
        if let Some(ticket) = unfinished {
            out.push(Output::OfferAborted { ticket });
        }
        if session.end_reading(now) {
            self.detach(now, stream, out);
            self.flush(now, stream, out);
        } else {
            // Close in order, so that bytes which the driver still holds can leave.
            let abort =
                !matches!(session.phase, SessionPhase::Established | SessionPhase::Answering | SessionPhase::Closing);
            out.push(Output::Socket(socket::Output::Close { stream, abort }));
            self.remove(now, stream, out);
        }
    }

    /// Removes a session whose stream has ended from all tables.
    pub(super) fn remove(&mut self, now: Instant, stream: StreamId, out: &mut impl Sink<Output>) {
        self.detach(now, stream, out);
        if let Some(session) = self.sessions.remove(&stream) {
            self.numbers.remove(&session.incoming.number());
            if let Some(timer) = session.timer {
                self.timers.cancel(timer);
            }
        }
    }
    /// Terminates a session without waiting for the peer's reply; written bytes may still leave.
    pub(super) fn leave(&mut self, now: Instant, stream: StreamId, code: u8, out: &mut impl Sink<Output>) {
        let Some(session) = self.sessions.get_mut(&stream) else { return };
        session.terminate(now, code);
        session.close(now);
        self.detach(now, stream, out);
        self.flush(now, stream, out);
    }
    pub(super) fn abort(&mut self, now: Instant, stream: StreamId, out: &mut impl Sink<Output>) {
        out.push(Output::Socket(socket::Output::Close { stream, abort: true }));
        self.remove(now, stream, out);
    }

    /// Writes output, pauses or resumes input, and updates the link's readiness.
    pub(super) fn flush(&mut self, now: Instant, stream: StreamId, out: &mut impl Sink<Output>) {
        let Some(session) = self.sessions.get_mut(&stream) else { return };
        let link = session.link.and_then(|id| self.links.get(&id));
        let (sends, hears) = link.map_or((true, true), |link| (link.state.transmit, link.state.receive));
        let window = link.map_or(u64::MAX, |link| link.config.window_bytes);
        if session.is_finished() {
            session.close(now);
        }
        let done = session.flush(now, sends, out);
        // 9174-4.4.3-3
        if session.begins_tls() {
            let name = link.and_then(|link| link.config.tls_name.as_deref().map(String::from));
            out.push(Output::Socket(socket::Output::StartTls { stream, server: session.passive, name }));
        }
        if session.is_flooded() {
            return self.abort(now, stream, out);
        }
        let full = session.incoming.is_full(window, session.paused) || session.is_deaf();
        if full != session.paused {
            session.paused = full;
            out.push(if full {
                Output::Socket(socket::Output::Pause { stream })
            } else {
                Output::Socket(socket::Output::Resume { stream })
            });
            // Silence of the peer is not observed while reading is paused.
            session.on_received(now);
        }
        let at = match session.due(now, &self.config, sends, hears) {
            SessionDue::Later(at) => at,
            _ => Some(now),
        };
        arm(&mut self.timers, &mut session.timer, at, SessionTimer::Session(stream));
        let (ending, closing) = (session.is_ending(), session.phase == SessionPhase::Closing);
        if let Some(link) = session.link {
            if ending {
                self.give_back(link, stream, out);
            }
            self.update_ready(link, out);
        }
        if done {
            out.push(Output::Socket(socket::Output::Close { stream, abort: false }));
            self.remove(now, stream, out);
        } else if closing {
            self.detach(now, stream, out);
        }
    }

    /// Returns the waiting bundles of an ending session to the agent, because it begins no more transfers.
    fn give_back(&mut self, link_id: LinkId, stream: StreamId, out: &mut impl Sink<Output>) {
        let Some(session) = self.sessions.get_mut(&stream) else { return };
        if !session.is_ending() || session.outgoing.waiting_bytes() == 0 {
            return;
        }
        for bundle in session.outgoing.take_waiting() {
            out.push(Output::SendFailed { id: bundle.send, link: link_id, refused: None });
        }
    }

    fn update_ready(&mut self, link_id: LinkId, out: &mut impl Sink<Output>) {
        let Some(link) = self.links.get_mut(&link_id) else { return };
        let session = link.primary().and_then(|stream| self.sessions.get(&stream));
        let room = session.is_some_and(|session| {
            // The queue is small, so that the agent decides late which bundle leaves next. The gap between the two
            // bounds keeps readiness from alternating with every bundle.
            let (queue, window) = (link.config.segment_bytes.max(1 << 16) * 2, link.config.window_bytes);
            let (queue, window) = if link.ready { (queue, window) } else { (queue / 2, window - window / 8) };
            let outgoing = &session.outgoing;
            !session.is_ending() && outgoing.waiting_bytes() < queue && outgoing.held_bytes() < window
        });
        link.say_ready(room && !self.shutdown, out);
    }

    /// Takes one input like [`ConvergenceLayer::handle`], but may leave output to a later [`TcpclV4::write`] of the
    /// returned stream, so that many small bundles share one write. `None`: no write is needed, or it was requested
    /// before.
    pub fn handle_soon(&mut self, now: Instant, input: Input, out: &mut impl Sink<Output>) -> Option<StreamId> {
        let stream = match input {
            Input::Send { link, id, total, part, leaving, .. } => {
                self.take_send(link, WaitingBundle { send: id, total, part, leaving }, out)
            }
            Input::Accepted { ticket } => self.on_verdict(now, ticket, Ok(()), out),
            other => {
                self.handle(now, other, out);
                None
            }
        }?;
        let session = self.sessions.get_mut(&stream)?;
        (!core::mem::replace(&mut session.is_to_write, true)).then_some(stream)
    }
    /// Writes output that [`TcpclV4::handle_soon`] postponed.
    pub fn write(&mut self, now: Instant, stream: StreamId, out: &mut impl Sink<Output>) {
        if let Some(session) = self.sessions.get_mut(&stream) {
            session.is_to_write = false;
            self.flush(now, stream, out);
        }
    }

    fn on_send(&mut self, now: Instant, link: LinkId, bundle: WaitingBundle, out: &mut impl Sink<Output>) {
        if let Some(stream) = self.take_send(link, bundle, out) {
            self.flush(now, stream, out);
        }
    }
    /// Queues a bundle; returns the stream to write to, or `None` if it was reported as failed.
    fn take_send(&mut self, link: LinkId, bundle: WaitingBundle, out: &mut impl Sink<Output>) -> Option<StreamId> {
        let id = bundle.send;
        let primary = self.links.get(&link).and_then(|link| link.primary());
        let session = primary.and_then(|stream| self.sessions.get_mut(&stream)).filter(|session| !session.is_ending());
        let Some(session) = session else {
            out.push(Output::SendFailed { id, link, refused: None });
            return None;
        };
        let stream = session.stream;
        if !session.outgoing.push(bundle) {
            out.push(Output::SendFailed { id, link, refused: Some(farlink_base::Refusal::TooLarge) });
            return None;
        }
        Some(stream)
    }

    fn on_more(
        &mut self,
        now: Instant,
        link: LinkId,
        id: SendId,
        from: u64,
        part: &Payload,
        out: &mut impl Sink<Output>,
    ) {
        let Some(found) = self.links.get(&link) else { return };
        let takes = |stream: &&StreamId| {
            self.sessions.get_mut(stream).is_some_and(|session| session.outgoing.give(id, from, part))
        };
        if let Some(stream) = found.by.sessions.iter().find(takes).copied() {
            self.flush(now, stream, out);
        }
    }

    /// Handles a bundle that cannot be read. A sender cannot refuse (RFC 9174 5.2.4 is for the receiver), so once the
    /// transfer has begun, only the end of the session shows the peer that it is incomplete.
    fn on_broken(&mut self, now: Instant, link: LinkId, id: SendId, out: &mut impl Sink<Output>) {
        self.on_cancel(link, id, out);
        let Some(found) = self.links.get(&link) else { return };
        let sends = |stream: &&StreamId| self.sessions.get(stream).is_some_and(|s| s.outgoing.is_sending(id));
        let Some(stream) = found.by.sessions.iter().find(sends).copied() else { return };
        self.leave(now, stream, term::EXHAUSTED, out);
    }

    fn on_hold(&mut self, now: Instant, ticket: Ticket, held: bool, out: &mut impl Sink<Output>) {
        let Some(stream) = self.numbers.get(&session_of(ticket)).copied() else { return };
        if self.sessions.get_mut(&stream).is_some_and(|session| session.incoming.hold(ticket, held)) {
            self.flush(now, stream, out);
        }
    }

    fn on_kept(&mut self, now: Instant, ticket: Ticket, bytes: u64, out: &mut impl Sink<Output>) {
        let Some(stream) = self.numbers.get(&session_of(ticket)).copied() else { return };
        if self.sessions.get_mut(&stream).is_some_and(|session| session.incoming.on_kept(ticket, bytes)) {
            self.flush(now, stream, out);
        }
    }

    /// Withdraws a bundle that has not begun to leave. A transfer in progress goes on: RFC 9174 gives a sender no
    /// message to abort it, and the next transfer may not begin before its end (5.2.2).
    fn on_cancel(&mut self, link: LinkId, id: SendId, out: &mut impl Sink<Output>) {
        let Some(found) = self.links.get(&link) else { return };
        let cancelled = found
            .by
            .sessions
            .iter()
            .any(|stream| self.sessions.get_mut(stream).is_some_and(|session| session.outgoing.cancel(id)));
        if cancelled {
            out.push(Output::SendFailed { id, link, refused: None });
            self.update_ready(link, out);
        }
    }

    fn decided(&mut self, now: Instant, ticket: Ticket, verdict: Result<(), u8>, out: &mut impl Sink<Output>) {
        if let Some(stream) = self.on_verdict(now, ticket, verdict, out) {
            self.flush(now, stream, out);
        }
    }
    /// Handles a verdict of the agent; returns the stream to write to, or `None` if nothing is left to do.
    fn on_verdict(
        &mut self,
        now: Instant,
        ticket: Ticket,
        verdict: Result<(), u8>,
        out: &mut impl Sink<Output>,
    ) -> Option<StreamId> {
        let stream = self.numbers.get(&session_of(ticket)).copied()?;
        let session = self.sessions.get_mut(&stream)?;
        let (told, crowded) = (session.sayable(verdict), session.incoming.is_crowded());
        if !session.incoming.on_verdict(ticket, told.unwrap_or(verdict)) {
            return None;
        }
        match told {
            // Input may wait unparsed, because too many answers were pending; now there may be room for more.
            Some(_) if crowded => self.settle(now, stream, out),
            Some(_) => return Some(stream),
            // The peer must send the bundle again in a new session, when there may be room.
            None => self.leave(now, stream, term::BUSY, out),
        }
        None
    }

    fn on_link(&mut self, now: Instant, link_id: LinkId, state: LinkState, out: &mut impl Sink<Output>) {
        let Some(link) = self.links.get_mut(&link_id) else { return };
        let resumed = link.on_state(now, state, &mut self.timers, SessionTimer::Park(link_id));
        for stream in link.by.sessions.clone() {
            if resumed && let Some(session) = self.sessions.get_mut(&stream) {
                session.on_resumed(now);
            }
            self.flush(now, stream, out);
        }
        self.update_ready(link_id, out);
        self.connect(now, link_id, out);
    }

    /// Handles a link outage longer than [`super::PARK`]: sessions with transfers in progress, or not established, are
    /// dropped.
    fn on_park(&mut self, now: Instant, link_id: LinkId, out: &mut impl Sink<Output>) {
        let Some(link) = self.links.get_mut(&link_id) else { return };
        link.park = None;
        let streams: Vec<StreamId> = link.by.sessions.iter().copied().chain(link.by.opening).collect();
        for stream in streams {
            let session = self.sessions.get(&stream);
            if session.is_some_and(|session| session.phase != SessionPhase::Established || session.has_unfinished()) {
                self.abort(now, stream, out);
            }
        }
    }

    fn on_session_timer(&mut self, now: Instant, stream: StreamId, out: &mut impl Sink<Output>) {
        let Some(session) = self.sessions.get_mut(&stream) else { return };
        session.timer = None;
        let link = session.link.and_then(|id| self.links.get(&id));
        let (sends, hears) = link.map_or((true, true), |link| (link.state.transmit, link.state.receive));
        match session.due(now, &self.config, sends, hears) {
            SessionDue::Later(_) => {}
            SessionDue::Keepalive => session.put_keepalive(),
            SessionDue::Idle => session.terminate(now, term::IDLE),
            // RFC 9174 5.1.1 asks for a termination; a session that was terminated before is dropped.
            // 9174-5.1.1-2
            SessionDue::Dead if session.phase == SessionPhase::Established && !session.term_sent => {
                return self.leave(now, stream, term::IDLE, out);
            }
            SessionDue::Dead => {
                // The peer may wait for the rest of a contact header, because that of the other version is longer.
                if session.phase == SessionPhase::Contact {
                    self.try_other_version(stream);
                }
                return self.abort(now, stream, out);
            }
        }
        self.flush(now, stream, out);
    }

    fn on_wake(&mut self, now: Instant, out: &mut impl Sink<Output>) {
        while let Some((_, timer)) = self.timers.pop_due(now) {
            match timer {
                SessionTimer::Session(stream) => self.on_session_timer(now, stream, out),
                SessionTimer::Park(link) => self.on_park(now, link, out),
                SessionTimer::Connect(link_id) => {
                    if let Some(link) = self.links.get_mut(&link_id) {
                        link.retry = None;
                    }
                    self.connect(now, link_id, out);
                }
            }
        }
    }

    fn on_shutdown(&mut self, now: Instant, out: &mut impl Sink<Output>) {
        self.shutdown = true;
        let streams: Vec<StreamId> = self.sessions.keys().copied().collect();
        for stream in streams {
            let Some(session) = self.sessions.get_mut(&stream) else { continue };
            if session.phase == SessionPhase::Established {
                session.terminate(now, term::UNKNOWN);
                self.flush(now, stream, out);
            } else {
                out.push(Output::Socket(socket::Output::Close { stream, abort: true }));
                self.remove(now, stream, out);
            }
        }
    }
}

impl ConvergenceLayer for TcpclV4 {
    fn handle(&mut self, now: Instant, input: Input, out: &mut impl Sink<Output>) {
        match input {
            Input::Wake => self.on_wake(now, out),
            Input::Socket(socket::Input::Datagrams { .. }) => {}
            Input::Socket(socket::Input::Opened { stream, from }) => self.on_opened(now, stream, from.ip(), out),
            Input::Socket(socket::Input::Located { link, addresses }) => self.on_located(link, &addresses),
            Input::Socket(socket::Input::Data { stream, data }) => {
                if let Some(session) = self.sessions.get_mut(&stream) {
                    session.on_data(now, data);
                    self.settle(now, stream, out);
                }
            }
            Input::Socket(socket::Input::Writable { stream, room }) => {
                if let Some(session) = self.sessions.get_mut(&stream) {
                    session.on_writable(now, room);
                    self.flush(now, stream, out);
                }
            }
            Input::Socket(socket::Input::Confirmed { stream, bytes }) => {
                if let Some(session) = self.sessions.get_mut(&stream) {
                    session.on_confirmed(now, bytes, out);
                    self.flush(now, stream, out);
                }
            }
            // 9174-4.4.4.2-4
            Input::Socket(socket::Input::Secured { stream, contradicts: true, .. }) => {
                let why = "the peer's certificate names another host, and no node ID";
                self.refuse(now, stream, (term::CONTACT_FAILURE, why), None, out);
                self.flush(now, stream, out);
            }
            Input::Socket(socket::Input::Secured { stream, proven, .. }) => {
                if let Some(session) = self.sessions.get_mut(&stream) {
                    session.on_secured(proven, &self.config);
                    self.settle(now, stream, out);
                }
            }
            Input::Socket(socket::Input::Closed { stream, error }) => {
                if error {
                    self.remove(now, stream, out);
                } else {
                    self.on_end(now, stream, out);
                }
            }
            Input::Link { link, state } => self.on_link(now, link, state, out),
            Input::Send { link, id, total, part, leaving, .. } => {
                self.on_send(now, link, WaitingBundle { send: id, total, part, leaving }, out)
            }
            Input::SendMore { link, id, from, part } => self.on_more(now, link, id, from, &part, out),
            Input::SendBroken { link, id } => self.on_broken(now, link, id, out),
            Input::CancelSend { link, id } => self.on_cancel(link, id, out),
            Input::CloseLink { link } => self.close_link(now, link, out),
            Input::RemoveLink { link } => self.remove_link(now, link, out),
            Input::Accepted { ticket } => self.decided(now, ticket, Ok(()), out),
            Input::Refused { ticket, reason } => self.decided(now, ticket, Err(refuse_code(reason)), out),
            Input::Kept { ticket, bytes } => self.on_kept(now, ticket, bytes, out),
            Input::Hold { ticket } => self.on_hold(now, ticket, true, out),
            Input::Resume { ticket } => self.on_hold(now, ticket, false, out),
            Input::Unshare => self.sessions.values_mut().for_each(|session| session.unshare()),
            Input::Shutdown => self.on_shutdown(now, out),
        }
    }
    fn next_timeout(&self) -> Option<Instant> {
        self.timers.next_deadline()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn session_number_in_use_is_skipped() {
        let mut layer = TcpclV4::new(Config::default(), Vec::new());
        for stream in 0..3 {
            layer.open_session(Instant::ZERO, StreamId(stream), None);
        }
        // Session numbers start again after 2^32 sessions.
        layer.next_session = 1;
        layer.open_session(Instant::ZERO, StreamId(3), None);
        let streams: Vec<StreamId> = layer.numbers.into_values().collect();
        assert_eq!(streams, [0, 1, 2, 3].map(StreamId));
    }
}
