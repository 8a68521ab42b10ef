//! The layer: which stream is which session, which session serves which link, and what time brings.

use super::incoming::session_of;
use super::links::Link;
use super::session::{Due, Phase, Session, Step};
use super::wire::{SessionInit, refuse_code, term};
use super::{Config, SpanConfig};
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use farlink_base::layer::{ConvergenceLayer, Input, LinkState, Output, SendId, Ticket, dynamic_link_base, stream_base};
use farlink_base::{Duration, Event, EventClass, Instant, LinkId, Payload, Sink, StreamId, TimerQueue};

/// A link that is down this long gives up what is under way: TCP would come back from a longer
/// silence with its timers backed off by as much again.
const PARK: Duration = Duration::from_secs(5);

/// What a timer is for.
#[derive(Clone, Copy, Debug)]
enum Timer {
    Session(StreamId),
    Connect(LinkId),
    Park(LinkId),
}

/// The TCPCLv4 entity of one node, with all its sessions.
pub struct TcpclV4 {
    config: Config,
    links: BTreeMap<LinkId, Link>,
    sessions: BTreeMap<StreamId, Session>,
    /// Sessions by the number in their tickets.
    numbers: BTreeMap<u32, StreamId>,
    timers: TimerQueue<Timer>,
    next_stream: u64,
    next_session: u32,
    next_dynamic: u32,
    shutdown: bool,
}

impl TcpclV4 {
    /// An entity with these neighbours. Links are down until told otherwise.
    pub fn new(config: Config, spans: Vec<SpanConfig>) -> Self {
        let links = spans.into_iter().map(|span| (span.link, Link::new(span, true, LinkState::DOWN))).collect();
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

    fn open_session(&mut self, now: Instant, stream: StreamId, link: Option<LinkId>) {
        let number = self.next_session;
        self.next_session = self.next_session.wrapping_add(1);
        self.numbers.insert(number, stream);
        self.sessions.insert(stream, Session::new(now, number, stream, link, &self.config));
    }

    /// Connects to a link's peer if that is due.
    fn connect(&mut self, now: Instant, link_id: LinkId, out: &mut impl Sink<Output>) {
        let Some(link) = self.links.get_mut(&link_id) else { return };
        if self.shutdown || !link.wants_session() {
            return;
        }
        let stream = StreamId(stream_base(self.config.layer) | self.next_stream);
        self.next_stream = (self.next_stream + 1) & ((1 << 48) - 1);
        link.opening = Some(stream);
        self.open_session(now, stream, Some(link_id));
        out.push(Output::StreamConnect { stream, link: link_id });
    }

    fn on_opened(&mut self, now: Instant, stream: StreamId, out: &mut impl Sink<Output>) {
        let full = self.sessions.len() >= self.config.sessions as usize;
        match self.sessions.get_mut(&stream) {
            Some(session) if session.phase == Phase::Connecting => session.on_opened(now),
            Some(_) => {}
            None if !stream.is_passive() || self.shutdown || full => {
                out.push(Output::StreamClose { stream, abort: true });
                return;
            }
            None => self.open_session(now, stream, None),
        }
        self.settle(now, stream, out);
    }

    /// Reads what a session has received, writes what it may, and sees to what follows.
    fn settle(&mut self, now: Instant, stream: StreamId, out: &mut impl Sink<Output>) {
        while let Some(session) = self.sessions.get_mut(&stream) {
            match session.read(now, &self.config, out) {
                Step::Wait => break,
                Step::Established(init) => {
                    let welcome = self.introduce(now, stream, &init, out);
                    if let Err(reason) = welcome {
                        if let Some(session) = self.sessions.get_mut(&stream) {
                            session.reject_contact();
                        }
                        self.fail(now, stream, reason, out);
                    }
                }
                Step::Over(reason) => self.fail(now, stream, reason, out),
            }
        }
        self.flush(now, stream, out);
    }

    /// The peer has said who it is: finds or makes the link (RFC 9174 4.6). The reason when the
    /// session is not wanted.
    fn introduce(
        &mut self,
        now: Instant,
        stream: StreamId,
        peer: &SessionInit,
        out: &mut impl Sink<Output>,
    ) -> Result<(), &'static str> {
        let Some(session) = self.sessions.get_mut(&stream) else { return Ok(()) };
        let link_id = match session.link {
            Some(link) => link,
            None => self.link_of(&peer.node_id).ok_or("a node this one does not know")?,
        };
        let (Some(session), Some(link)) = (self.sessions.get_mut(&stream), self.links.get_mut(&link_id)) else {
            return Err("its link is gone");
        };
        let expected = &link.config.node_id;
        if !session.passive && !expected.is_empty() && !peer.node_id.is_empty() && !same_node(expected, &peer.node_id) {
            return Err("the peer is not the node this link leads to");
        }
        if self.shutdown {
            return Err("the node is shutting down");
        }
        if peer.segment_mru == 0 {
            return Err("the peer takes no segment at all");
        }
        session.establish(now, link_id, peer, &link.config, &self.config);
        if link.opening == Some(stream) {
            link.opening = None;
        }
        let before = link.primary();
        link.sessions.push(stream);
        match before {
            None => {
                let node_id = (!peer.node_id.is_empty()).then(|| peer.node_id.clone());
                out.push(Output::PeerUp { link: link_id, node_id, node: None });
            }
            Some(older) => self.hand_over(older, stream, link_id, out),
        }
        Ok(())
    }

    /// The link of a peer that connected: configured, met before, or new.
    fn link_of(&mut self, node_id: &str) -> Option<LinkId> {
        let known = |(id, link): (&LinkId, &Link)| {
            let named = !node_id.is_empty() && same_node(&link.config.node_id, node_id);
            named.then_some(*id)
        };
        if let Some(id) = self.links.iter().find_map(known) {
            return Some(id);
        }
        if !self.config.accept_unknown {
            return None;
        }
        let base = dynamic_link_base(self.config.layer);
        let mut link = LinkId(base | self.next_dynamic);
        while self.links.contains_key(&link) {
            self.next_dynamic = (self.next_dynamic + 1) & 0x00ff_ffff;
            link = LinkId(base | self.next_dynamic);
        }
        self.next_dynamic = (self.next_dynamic + 1) & 0x00ff_ffff;
        let config = SpanConfig { link, node_id: String::from(node_id), connect: false, ..SpanConfig::default() };
        self.links.insert(link, Link::new(config, false, LinkState::UP));
        Some(link)
    }

    /// Bundles not begun move from one session of a link to another.
    fn hand_over(&mut self, from: StreamId, to: StreamId, link: LinkId, out: &mut impl Sink<Output>) {
        let waiting = self.sessions.get_mut(&from).map(|session| session.outgoing.take_waiting()).unwrap_or_default();
        let Some(session) = self.sessions.get_mut(&to) else { return };
        for (id, bundle) in waiting {
            if !session.outgoing.push(id, bundle) {
                out.push(Output::SendFailed { id, link, refused: Some(farlink_base::Refusal::TooLarge) });
            }
        }
    }

    /// A session is over: what is written may leave, everything else is given back.
    fn fail(&mut self, now: Instant, stream: StreamId, reason: &'static str, out: &mut impl Sink<Output>) {
        let Some(session) = self.sessions.get_mut(&stream) else { return };
        if out.wants(EventClass::Link) {
            out.push(Output::Event(Event::Malformed { link: session.link, offset: 0, reason }));
        }
        session.close(now);
        self.detach(now, stream, out);
    }

    /// Takes a session from its link and gives back what it carried.
    fn detach(&mut self, now: Instant, stream: StreamId, out: &mut impl Sink<Output>) {
        let Some(session) = self.sessions.get_mut(&stream) else { return };
        if let Some(ticket) = session.incoming.unfinished_offer() {
            out.push(Output::OfferAborted { ticket });
        }
        session.incoming.forget();
        let sends = session.outgoing.take_all();
        let established = session.established;
        let Some((link_id, link)) = session.link.take().and_then(|id| self.links.get_mut(&id).map(|link| (id, link)))
        else {
            return;
        };
        let served = link.sessions.contains(&stream);
        link.sessions.retain(|other| *other != stream);
        if link.opening == Some(stream) {
            link.opening = None;
        }
        let last = served && link.sessions.is_empty();
        if last && core::mem::take(&mut link.ready) {
            out.push(Output::Ready { link: link_id, ready: false });
        }
        for id in sends {
            out.push(Output::SendFailed { id, link: link_id, refused: None });
        }
        if last {
            link.on_session_end(established, now);
            out.push(Output::PeerDown { link: link_id });
            if !link.configured {
                self.links.remove(&link_id);
                return;
            }
        }
        self.update_ready(link_id, out);
        self.connect_later(now, link_id);
    }

    fn connect_later(&mut self, now: Instant, link_id: LinkId) {
        let Some(link) = self.links.get_mut(&link_id) else { return };
        if !self.shutdown && link.wants_session() {
            let wait = link.next_backoff();
            link.retry = Some(self.timers.arm(now + wait, Timer::Connect(link_id)));
        }
    }

    /// Forgets a session whose stream is gone.
    fn remove(&mut self, now: Instant, stream: StreamId, out: &mut impl Sink<Output>) {
        self.detach(now, stream, out);
        if let Some(session) = self.sessions.remove(&stream) {
            self.numbers.remove(&session.incoming.number());
            if let Some(timer) = session.timer {
                self.timers.cancel(timer);
            }
        }
    }
    fn abort(&mut self, now: Instant, stream: StreamId, out: &mut impl Sink<Output>) {
        out.push(Output::StreamClose { stream, abort: true });
        self.remove(now, stream, out);
    }

    /// Writes, pushes back, and says whether more is welcome.
    fn flush(&mut self, now: Instant, stream: StreamId, out: &mut impl Sink<Output>) {
        let Some(session) = self.sessions.get_mut(&stream) else { return };
        let link = session.link.and_then(|id| self.links.get(&id));
        let (sends, hears) = link.map_or((true, true), |link| (link.state.transmit, link.state.receive));
        let window = link.map_or(u64::MAX, |link| link.config.window_bytes);
        if session.is_finished() {
            session.close(now);
        }
        let done = session.flush(now, sends, out);
        let full = session.incoming.is_full(window, session.paused);
        if full != session.paused {
            session.paused = full;
            out.push(if full { Output::PauseRead { stream } } else { Output::ResumeRead { stream } });
            session.on_heard(now);
        }
        let at = match session.due(now, &self.config, sends, hears) {
            Due::Later(at) => at,
            _ => Some(now),
        };
        if let Some(at) = at
            && session.timer.is_none_or(|timer| timer.deadline() > at)
        {
            if let Some(timer) = session.timer.take() {
                self.timers.cancel(timer);
            }
            session.timer = Some(self.timers.arm(at, Timer::Session(stream)));
        }
        if let Some(link) = session.link {
            self.give_back(link, stream, out);
            self.update_ready(link, out);
        }
        if done {
            out.push(Output::StreamClose { stream, abort: false });
            self.remove(now, stream, out);
        } else if self.sessions.get(&stream).is_some_and(|session| session.phase == Phase::Closing) {
            self.detach(now, stream, out);
        }
    }

    /// A session that is ending begins no more transfers: what waits goes elsewhere.
    fn give_back(&mut self, link_id: LinkId, stream: StreamId, out: &mut impl Sink<Output>) {
        let Some(session) = self.sessions.get_mut(&stream) else { return };
        if !session.is_ending() || session.outgoing.waiting_bytes() == 0 {
            return;
        }
        for (id, _) in session.outgoing.take_waiting() {
            out.push(Output::SendFailed { id, link: link_id, refused: None });
        }
    }

    fn update_ready(&mut self, link_id: LinkId, out: &mut impl Sink<Output>) {
        let Some(link) = self.links.get_mut(&link_id) else { return };
        let session = link.primary().and_then(|stream| self.sessions.get(&stream));
        let room = session.is_some_and(|session| {
            // The queue is small, so that the agent decides what goes next; some slack between full
            // and welcome keeps the two from alternating with every bundle.
            let (queue, window) = (link.config.segment_bytes.max(1 << 16) * 2, link.config.window_bytes);
            let (queue, window) = if link.ready { (queue, window) } else { (queue / 2, window - window / 8) };
            let outgoing = &session.outgoing;
            !session.is_ending() && outgoing.waiting_bytes() < queue && outgoing.held_bytes() < window
        });
        let ready = room && link.state.transmit && !self.shutdown;
        if ready != link.ready {
            link.ready = ready;
            out.push(Output::Ready { link: link_id, ready });
        }
    }

    fn on_send(&mut self, now: Instant, link: LinkId, id: SendId, bundle: Payload, out: &mut impl Sink<Output>) {
        let primary = self.links.get(&link).and_then(Link::primary);
        let session = primary.and_then(|stream| self.sessions.get_mut(&stream)).filter(|session| !session.is_ending());
        let Some(session) = session else {
            return out.push(Output::SendFailed { id, link, refused: None });
        };
        let stream = session.stream;
        if !session.outgoing.push(id, bundle) {
            return out.push(Output::SendFailed { id, link, refused: Some(farlink_base::Refusal::TooLarge) });
        }
        self.flush(now, stream, out);
    }

    fn on_cancel(&mut self, link: LinkId, id: SendId, out: &mut impl Sink<Output>) {
        let Some(found) = self.links.get(&link) else { return };
        let cancelled = found
            .sessions
            .iter()
            .any(|stream| self.sessions.get_mut(stream).is_some_and(|session| session.outgoing.cancel(id)));
        if cancelled {
            out.push(Output::SendFailed { id, link, refused: None });
            self.update_ready(link, out);
        }
    }

    fn on_verdict(&mut self, now: Instant, ticket: Ticket, verdict: Result<(), u8>, out: &mut impl Sink<Output>) {
        let Some(stream) = self.numbers.get(&session_of(ticket)).copied() else { return };
        let Some(session) = self.sessions.get_mut(&stream) else { return };
        if session.incoming.on_verdict(ticket, verdict) {
            self.flush(now, stream, out);
        }
    }

    fn on_link(&mut self, now: Instant, link_id: LinkId, state: LinkState, out: &mut impl Sink<Output>) {
        let Some(link) = self.links.get_mut(&link_id) else { return };
        let before = core::mem::replace(&mut link.state, state);
        let resumed = (state.transmit && !before.transmit) || (state.receive && !before.receive);
        if state.transmit {
            if let Some(timer) = link.park.take() {
                self.timers.cancel(timer);
            }
            if !before.transmit {
                link.reset_backoff();
                if let Some(timer) = link.retry.take() {
                    self.timers.cancel(timer);
                }
            }
        } else if before.transmit {
            link.park = Some(self.timers.arm(now + PARK, Timer::Park(link_id)));
        }
        for stream in link.sessions.clone() {
            if resumed && let Some(session) = self.sessions.get_mut(&stream) {
                session.on_resumed(now);
            }
            self.flush(now, stream, out);
        }
        self.update_ready(link_id, out);
        self.connect(now, link_id, out);
    }

    /// A link has been down for a while: what is under way would come too late.
    fn on_park(&mut self, now: Instant, link_id: LinkId, out: &mut impl Sink<Output>) {
        let Some(link) = self.links.get_mut(&link_id) else { return };
        link.park = None;
        let streams: Vec<StreamId> = link.sessions.iter().copied().chain(link.opening).collect();
        for stream in streams {
            let session = self.sessions.get(&stream);
            if session.is_some_and(|session| session.phase != Phase::Established || session.has_unfinished()) {
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
            Due::Later(_) => {}
            Due::Keepalive => session.put_keepalive(),
            Due::Idle => session.terminate(now, term::IDLE),
            Due::Dead => return self.abort(now, stream, out),
        }
        self.flush(now, stream, out);
    }

    fn on_wake(&mut self, now: Instant, out: &mut impl Sink<Output>) {
        while let Some((_, timer)) = self.timers.pop_due(now) {
            match timer {
                Timer::Session(stream) => self.on_session_timer(now, stream, out),
                Timer::Park(link) => self.on_park(now, link, out),
                Timer::Connect(link_id) => {
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
            if session.phase == Phase::Established {
                session.terminate(now, term::UNKNOWN);
                self.flush(now, stream, out);
            } else {
                out.push(Output::StreamClose { stream, abort: true });
                self.remove(now, stream, out);
            }
        }
    }
}

/// Whether two node IDs are the same; some peers leave out the slash that ends a dtn node ID.
fn same_node(a: &str, b: &str) -> bool {
    a.trim_end_matches('/') == b.trim_end_matches('/')
}

impl ConvergenceLayer for TcpclV4 {
    fn handle(&mut self, now: Instant, input: Input, out: &mut impl Sink<Output>) {
        match input {
            Input::Wake => self.on_wake(now, out),
            Input::Datagrams { .. } => {}
            Input::StreamOpened { stream, .. } => self.on_opened(now, stream, out),
            Input::StreamData { stream, data } => {
                if let Some(session) = self.sessions.get_mut(&stream) {
                    session.on_data(now, data);
                    self.settle(now, stream, out);
                }
            }
            Input::StreamWritable { stream, room } => {
                if let Some(session) = self.sessions.get_mut(&stream) {
                    session.room = room;
                    self.flush(now, stream, out);
                }
            }
            Input::StreamClosed { stream, error } => {
                if self.sessions.contains_key(&stream) {
                    if !error {
                        out.push(Output::StreamClose { stream, abort: true });
                    }
                    self.remove(now, stream, out);
                }
            }
            Input::Link { link, state } => self.on_link(now, link, state, out),
            Input::Send { link, id, bundle, .. } => self.on_send(now, link, id, bundle, out),
            Input::CancelSend { link, id } => self.on_cancel(link, id, out),
            Input::Accepted { ticket } => self.on_verdict(now, ticket, Ok(()), out),
            Input::Refused { ticket, reason } => self.on_verdict(now, ticket, Err(refuse_code(reason)), out),
            Input::Shutdown => self.on_shutdown(now, out),
        }
    }
    fn next_timeout(&self) -> Option<Instant> {
        self.timers.next_deadline()
    }
}
