//! The layer's state machine: assigns streams to links, and dispatches inputs and timers.

use super::framing::Framing;
use super::kept::CopyMemory;
use super::links::{OneWayLink, Serving};
use super::receiving::{self, ReceivingStream};
use super::sending::{self, SendingStream, StreamPhase};
use super::{Config, LinkParams};
use crate::streams::links::LinkTable;
use crate::streams::waiting::WaitingBundle;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::net::IpAddr;
use farlink_base::layer::{ConvergenceLayer, Input, LinkState, Output, SendId, Ticket};
use farlink_base::socket;
use farlink_base::{Duration, Event, Instant, LinkId, Payload, Refusal, Sink, StreamId, TimerQueue};

/// Most bytes of bundles that wait for a stream; few, so that the agent decides late which bundle leaves next.
pub(super) const QUEUE: u64 = 512 << 10;

/// Purpose of a timer.
#[derive(Clone, Copy, Debug)]
pub(super) enum StreamTimer {
    Sending(StreamId),
    Receiving(StreamId),
    Connect(LinkId),
    Park(LinkId),
}

/// Resources that an entity holds now.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Usage {
    /// Links, configured and dynamic.
    pub links: usize,
    /// Streams, counted from the request to connect until the last verdict on a bundle received over them.
    pub sessions: usize,
    /// Armed timers.
    pub timers: usize,
    /// Bytes of received bundles kept until the node accepts them.
    pub kept: u64,
}

/// The STCP or MTCP entity of one node, with all its streams.
#[derive(Debug)]
pub struct OneWay {
    pub(super) framing: Framing,
    pub(super) config: Config,
    pub(super) links: LinkTable<LinkParams, Serving>,
    pub(super) sending: BTreeMap<StreamId, Box<SendingStream>>,
    pub(super) receiving: BTreeMap<StreamId, Box<ReceivingStream>>,
    /// Receiving streams by the number in their tickets.
    pub(super) numbers: BTreeMap<u32, StreamId>,
    pub(super) room: CopyMemory,
    pub(super) timers: TimerQueue<StreamTimer>,
    pub(super) next_stream: u64,
    pub(super) next_number: u32,
    pub(super) next_dynamic: u32,
    pub(super) shutdown: bool,
}

impl OneWay {
    /// Creates an entity for the protocol of the configuration and these neighbours; the links start down.
    pub fn new(config: Config, spans: Vec<LinkParams>) -> Self {
        let link = |span: LinkParams| (span.link, Box::new(OneWayLink::configured(span)));
        OneWay {
            framing: config.framing,
            room: CopyMemory::new(config.kept),
            config,
            links: spans.into_iter().map(link).collect(),
            sending: BTreeMap::new(),
            receiving: BTreeMap::new(),
            numbers: BTreeMap::new(),
            timers: TimerQueue::new(),
            next_stream: 0,
            next_number: 0,
            next_dynamic: 0,
            shutdown: false,
        }
    }
    /// Resources held now.
    pub fn usage(&self) -> Usage {
        debug_assert_eq!(self.numbers.len(), self.receiving.len());
        let sessions = self.sending.len() + self.receiving.len();
        Usage { links: self.links.len(), sessions, timers: self.timers.len(), kept: self.room.used() }
    }

    fn on_opened(&mut self, now: Instant, stream: StreamId, from: IpAddr, out: &mut impl Sink<Output>) {
        if let Some(sending) = self.sending.get_mut(&stream) {
            let link = sending.link;
            sending.on_opened(now);
            out.push(Output::Socket(socket::Output::Confirm { stream }));
            self.note_peer(link, out);
            return self.settle_sending(now, stream, out);
        }
        match self.admit(now, stream, from, out) {
            Ok(()) => self.settle_receiving(now, stream, out),
            Err((link, reason)) => {
                self.say(out, Event::SessionRefused { link, peer: None, reason });
                out.push(Output::Socket(socket::Output::Close { stream, abort: true }));
            }
        }
    }

    fn on_closed(&mut self, now: Instant, stream: StreamId, error: bool, out: &mut impl Sink<Output>) {
        if self.sending.contains_key(&stream) {
            // A peer that closes its half may have closed both; data sent from now on may be lost.
            if error { self.lose(now, stream, out) } else { self.leave(now, stream, true, out) }
        } else if self.receiving.get(&stream).is_some_and(|receiving| receiving.open) {
            if !error {
                out.push(Output::Socket(socket::Output::Close { stream, abort: false }));
            }
            self.hang_up(now, stream, out);
        }
    }
    fn on_data(&mut self, now: Instant, stream: StreamId, data: Payload, out: &mut impl Sink<Output>) {
        if let Some(receiving) = self.receiving.get_mut(&stream).filter(|receiving| receiving.open) {
            receiving.on_data(now, data);
            self.settle_receiving(now, stream, out);
        } else if let Some(sending) = self.sending.get_mut(&stream)
            && let Err(reason) = sending.on_data(data)
        {
            let link = Some(sending.link);
            self.say(out, Event::Malformed { link, offset: 0, reason });
            self.leave(now, stream, true, out);
        }
    }

    fn sending_of(&mut self, link: LinkId) -> Option<&mut Box<SendingStream>> {
        let stream = self.links.get(&link)?.by.sending?;
        self.sending.get_mut(&stream)
    }
    fn on_send(&mut self, now: Instant, link: LinkId, bundle: WaitingBundle, out: &mut impl Sink<Output>) {
        let id = bundle.send;
        let Some(sending) = self.sending_of(link).filter(|sending| sending.phase == StreamPhase::Open) else {
            return out.push(Output::SendFailed { id, link, refused: None });
        };
        let stream = sending.stream;
        if !sending.push(bundle) {
            return out.push(Output::SendFailed { id, link, refused: Some(Refusal::TooLarge) });
        }
        self.settle_sending(now, stream, out);
    }
    /// Withdraws a bundle that has not begun to leave; these protocols cannot abort one in progress.
    fn on_cancel(&mut self, link: LinkId, id: SendId, out: &mut impl Sink<Output>) {
        if self.sending_of(link).is_some_and(|sending| sending.cancel(id)) {
            out.push(Output::SendFailed { id, link, refused: None });
            self.update_ready(link, out);
        }
    }
    /// Handles a bundle that cannot be read. If it has begun to leave, its stream is closed: only that shows the peer
    /// that the bundle is incomplete.
    fn on_broken(&mut self, now: Instant, link: LinkId, id: SendId, out: &mut impl Sink<Output>) {
        self.on_cancel(link, id, out);
        if let Some(stream) = self.sending_of(link).filter(|sending| sending.is_filling(id)).map(|found| found.stream) {
            self.leave(now, stream, false, out);
        }
    }

    fn on_hold(&mut self, now: Instant, ticket: Ticket, held: bool, out: &mut impl Sink<Output>) {
        let Some(stream) = self.numbers.get(&number_of(ticket)).copied() else { return };
        if let Some(receiving) = self.receiving.get_mut(&stream) {
            receiving.hold(ticket, held);
            self.settle_receiving(now, stream, out);
        }
    }
    fn on_verdict(&mut self, now: Instant, ticket: Ticket, verdict: Result<(), Refusal>, out: &mut impl Sink<Output>) {
        let Some(stream) = self.numbers.get(&number_of(ticket)).copied() else { return };
        let Some(receiving) = self.receiving.get_mut(&stream) else { return };
        match receiving.on_verdict(now, ticket, verdict, &mut self.room) {
            Ok(()) => self.settle_receiving(now, stream, out),
            Err(reason) => {
                let link = Some(receiving.link);
                self.say(out, Event::SessionRefused { link, peer: None, reason });
                self.turn_away(now, stream, out);
            }
        }
    }

    fn on_link(&mut self, now: Instant, link_id: LinkId, state: LinkState, out: &mut impl Sink<Output>) {
        let Some(link) = self.links.get_mut(&link_id) else { return };
        let resumed = link.on_state(now, state, &mut self.timers, StreamTimer::Park(link_id));
        let (sending, receiving) = (link.by.sending, link.by.receiving.clone());
        let keepalive = self.config.keepalive > Duration::ZERO;
        if let Some(stream) = sending {
            if let Some(sending) = self.sending.get_mut(&stream).filter(|_| resumed) {
                sending.on_resumed(now, keepalive);
            }
            self.settle_sending(now, stream, out);
        }
        for stream in receiving {
            if let Some(receiving) = self.receiving.get_mut(&stream).filter(|_| resumed) {
                receiving.on_resumed(now);
            }
            self.settle_receiving(now, stream, out);
        }
        self.update_ready(link_id, out);
        self.connect(now, link_id, out);
    }
    /// Handles a link outage longer than [`super::PARK`]: closes the sending stream if a bundle on it is unconfirmed or
    /// it is not open.
    fn on_park(&mut self, now: Instant, link_id: LinkId, out: &mut impl Sink<Output>) {
        let Some(link) = self.links.get_mut(&link_id) else { return };
        link.park = None;
        let under_way =
            |sending: &&mut Box<SendingStream>| sending.phase != StreamPhase::Open || sending.has_unfinished();
        if let Some(stream) = self.sending_of(link_id).filter(under_way).map(|sending| sending.stream) {
            self.leave(now, stream, true, out);
        }
    }

    fn on_sending_timer(&mut self, now: Instant, stream: StreamId, out: &mut impl Sink<Output>) {
        let Some(sending) = self.sending.get_mut(&stream) else { return };
        sending.timer = None;
        let link = sending.link;
        let (sends, up) = self.carries(link);
        let Some(sending) = self.sending.get_mut(&stream) else { return };
        match sending.due(now, &self.config, sends, up) {
            sending::SendingDue::Later(_) => {}
            sending::SendingDue::Keepalive => sending.put_keepalive(),
            sending::SendingDue::Dead => return self.leave(now, stream, true, out),
        }
        self.settle_sending(now, stream, out);
    }
    fn on_receiving_timer(&mut self, now: Instant, stream: StreamId, out: &mut impl Sink<Output>) {
        let Some(receiving) = self.receiving.get_mut(&stream) else { return };
        receiving.timer = None;
        let link = receiving.link;
        let (_, up) = self.carries(link);
        let Some(receiving) = self.receiving.get_mut(&stream) else { return };
        match receiving.due(now, &self.config, up) {
            receiving::ReceivingDue::Later(_) => {}
            receiving::ReceivingDue::Offer => receiving.offer_again(&self.room, out),
            receiving::ReceivingDue::Dead => return self.turn_away(now, stream, out),
        }
        self.settle_receiving(now, stream, out);
    }
    fn on_wake(&mut self, now: Instant, out: &mut impl Sink<Output>) {
        while let Some((_, timer)) = self.timers.pop_due(now) {
            match timer {
                StreamTimer::Sending(stream) => self.on_sending_timer(now, stream, out),
                StreamTimer::Receiving(stream) => self.on_receiving_timer(now, stream, out),
                StreamTimer::Park(link) => self.on_park(now, link, out),
                StreamTimer::Connect(link_id) => {
                    if let Some(link) = self.links.get_mut(&link_id) {
                        link.retry = None;
                    }
                    self.connect(now, link_id, out);
                }
            }
        }
    }
    /// Ends all streams: bundles in progress are still sent and confirmed, those that have not begun return to the
    /// agent. Incoming streams are dropped at once.
    fn on_shutdown(&mut self, now: Instant, out: &mut impl Sink<Output>) {
        self.shutdown = true;
        let streams: Vec<StreamId> = self.sending.keys().copied().collect();
        for stream in streams {
            let Some(sending) = self.sending.get_mut(&stream) else { continue };
            if sending.phase == StreamPhase::Opening {
                self.leave(now, stream, true, out);
                continue;
            }
            let (link, waiting) = (sending.link, sending.take_waiting());
            sending.end_soon(now);
            self.update_ready(link, out);
            for id in waiting {
                out.push(Output::SendFailed { id, link, refused: None });
            }
            self.settle_sending(now, stream, out);
        }
        let streams: Vec<StreamId> = self.receiving.keys().copied().collect();
        for stream in streams {
            self.turn_away(now, stream, out);
            self.forget(stream, out);
        }
    }
}

/// Number of the stream that a ticket belongs to: its upper half.
fn number_of(ticket: Ticket) -> u32 {
    (ticket.0 >> 32) as u32
}

impl ConvergenceLayer for OneWay {
    fn handle(&mut self, now: Instant, input: Input, out: &mut impl Sink<Output>) {
        match input {
            Input::Wake => self.on_wake(now, out),
            Input::Socket(socket::Input::Datagrams { .. } | socket::Input::Secured { .. }) => {}
            Input::Socket(socket::Input::Opened { stream, from }) => self.on_opened(now, stream, from.ip(), out),
            Input::Socket(socket::Input::Located { link, addresses }) => self.on_located(now, link, &addresses, out),
            Input::Socket(socket::Input::Data { stream, data }) => self.on_data(now, stream, data, out),
            Input::Socket(socket::Input::Writable { stream, room }) => {
                if let Some(sending) = self.sending.get_mut(&stream) {
                    sending.on_writable(room);
                    self.settle_sending(now, stream, out);
                }
            }
            Input::Socket(socket::Input::Confirmed { stream, bytes }) => {
                if let Some(sending) = self.sending.get_mut(&stream) {
                    sending.on_confirmed(now, bytes, out);
                    self.settle_sending(now, stream, out);
                }
            }
            Input::Socket(socket::Input::Closed { stream, error }) => self.on_closed(now, stream, error, out),
            Input::Link { link, state } => self.on_link(now, link, state, out),
            Input::Send { link, id, total, part, leaving, .. } => {
                self.on_send(now, link, WaitingBundle { send: id, total, part, leaving }, out)
            }
            Input::SendMore { link, id, from, part } => {
                if let Some(sending) = self.sending_of(link)
                    && sending.give(id, from, &part)
                {
                    let stream = sending.stream;
                    self.settle_sending(now, stream, out);
                }
            }
            Input::SendBroken { link, id } => self.on_broken(now, link, id, out),
            Input::CancelSend { link, id } => self.on_cancel(link, id, out),
            Input::CloseLink { link } => self.close_link(now, link, out),
            Input::RemoveLink { link } => self.remove_link(now, link, out),
            Input::Accepted { ticket } => self.on_verdict(now, ticket, Ok(()), out),
            Input::Refused { ticket, reason } => self.on_verdict(now, ticket, Err(reason), out),
            Input::Hold { ticket } => self.on_hold(now, ticket, true, out),
            Input::Resume { ticket } => self.on_hold(now, ticket, false, out),
            // These protocols have no message for partial reception.
            Input::Kept { .. } => {}
            Input::Unshare => self.receiving.values_mut().for_each(|receiving| receiving.unshare()),
            Input::Shutdown => self.on_shutdown(now, out),
        }
    }
    fn next_timeout(&self) -> Option<Instant> {
        self.timers.next_deadline()
    }
}
