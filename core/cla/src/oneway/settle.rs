//! Follow-up work after each event of a stream: connect, write, read, close, forget.

use super::layer::{OneWay, QUEUE, StreamTimer};
use super::receiving::{ReceivingDue, ReceivingStream, least_part};
use super::sending::{SendingDue, SendingStream, StreamPhase};
use crate::streams::timing::arm;
use alloc::boxed::Box;
use core::net::IpAddr;
use farlink_base::layer::{LinkState, Output, stream_base};
use farlink_base::socket;
use farlink_base::{Event, EventClass, Instant, LinkId, Sink, StreamId};

impl OneWay {
    /// Whether the link sends, and whether it carries bytes in both directions.
    pub(super) fn carries(&self, link: LinkId) -> (bool, bool) {
        let state = self.links.get(&link).map_or(LinkState::UP, |link| link.state);
        (state.transmit, state.transmit && state.receive)
    }
    pub(super) fn say(&self, out: &mut impl Sink<Output>, event: Event) {
        if out.wants(EventClass::Link) {
            out.push(Output::Event(event));
        }
    }
    /// Registers a stream opened by a peer.
    pub(super) fn receive(&mut self, now: Instant, stream: StreamId, link: LinkId, from: IpAddr) {
        // Numbers wrap around, so the next one may still be in use.
        while self.numbers.contains_key(&self.next_number) {
            self.next_number = self.next_number.wrapping_add(1);
        }
        let number = self.next_number;
        self.next_number = number.wrapping_add(1);
        self.numbers.insert(number, stream);
        self.receiving.insert(stream, Box::new(ReceivingStream::new(now, number, stream, link, from)));
    }

    /// Opens a stream to a link's peer, if the link needs one.
    pub(super) fn connect(&mut self, now: Instant, link_id: LinkId, out: &mut impl Sink<Output>) {
        let Some(link) = self.links.get_mut(&link_id) else { return };
        if self.shutdown || !link.wants_stream() {
            return;
        }
        let stream = StreamId(stream_base(self.config.layer) | self.next_stream);
        self.next_stream = (self.next_stream + 1) & ((1 << 48) - 1);
        link.by.sending = Some(stream);
        self.sending.insert(stream, Box::new(SendingStream::new(now, stream, link_id, self.framing)));
        out.push(Output::Socket(socket::Output::Connect { stream, link: link_id }));
    }
    fn connect_later(&mut self, now: Instant, link_id: LinkId) {
        let Some(link) = self.links.get_mut(&link_id) else { return };
        if !self.shutdown && link.wants_stream() {
            let wait = link.next_backoff();
            link.retry = Some(self.timers.arm(now + wait, StreamTimer::Connect(link_id)));
        }
    }

    /// Writes output, closes a finished stream, and updates the link's readiness.
    pub(super) fn settle_sending(&mut self, now: Instant, stream: StreamId, out: &mut impl Sink<Output>) {
        let Some(sending) = self.sending.get_mut(&stream) else { return };
        let link_id = sending.link;
        let window = self.links.get(&link_id).map_or(0, |link| link.config.window_bytes);
        let (sends, up) = self.carries(link_id);
        let Some(sending) = self.sending.get_mut(&stream) else { return };
        if sends {
            sending.flush(now, window, out);
        }
        if sending.is_done() {
            return self.leave(now, stream, false, out);
        }
        let at = match sending.due(now, &self.config, sends, up) {
            SendingDue::Later(at) => at,
            _ => Some(now),
        };
        arm(&mut self.timers, &mut sending.timer, at, StreamTimer::Sending(stream));
        self.update_ready(link_id, out);
    }
    /// Parses input, pauses or resumes reading, and forgets a stream that is finished.
    pub(super) fn settle_receiving(&mut self, now: Instant, stream: StreamId, out: &mut impl Sink<Output>) {
        let bounds = (self.config.transfer_mru, least_part(self.receiving.len()));
        let Some(receiving) = self.receiving.get_mut(&stream) else { return };
        if receiving.open && receiving.paused && !receiving.is_full(now) {
            receiving.paused = false;
            receiving.on_resumed(now);
            out.push(Output::Socket(socket::Output::Resume { stream }));
        }
        if let Err(reason) = receiving.read(now, self.framing, bounds, &mut self.room, out) {
            let link = Some(receiving.link);
            self.say(out, Event::Malformed { link, offset: 0, reason });
            return self.turn_away(now, stream, out);
        }
        // A stream changes its link only between bundles, so that each bundle is offered on one link.
        let moves = receiving.moves_to.filter(|_| receiving.is_between());
        if let Some(link) = moves {
            self.move_to(stream, link, out);
        }
        let Some(receiving) = self.receiving.get_mut(&stream) else { return };
        if receiving.open && !receiving.paused && receiving.is_full(now) {
            receiving.paused = true;
            out.push(Output::Socket(socket::Output::Pause { stream }));
        }
        if receiving.is_read_out(now) {
            receiving.end(&mut self.room, out);
            if receiving.is_idle() {
                return self.forget(stream, out);
            }
        }
        let link = receiving.link;
        let (_, up) = self.carries(link);
        let Some(receiving) = self.receiving.get_mut(&stream) else { return };
        let at = match receiving.due(now, &self.config, up) {
            ReceivingDue::Later(at) => at,
            _ => Some(now),
        };
        arm(&mut self.timers, &mut receiving.timer, at, StreamTimer::Receiving(stream));
    }

    /// Closes a stream opened by this side; unconfirmed bundles return to the agent.
    pub(super) fn leave(&mut self, now: Instant, stream: StreamId, abort: bool, out: &mut impl Sink<Output>) {
        out.push(Output::Socket(socket::Output::Close { stream, abort }));
        self.lose(now, stream, out);
    }
    /// Handles the end of a stream opened by this side; unconfirmed bundles return to the agent.
    pub(super) fn lose(&mut self, now: Instant, stream: StreamId, out: &mut impl Sink<Output>) {
        let Some(mut sending) = self.sending.remove(&stream) else { return };
        if let Some(timer) = sending.timer.take() {
            self.timers.cancel(timer);
        }
        let link_id = sending.link;
        if let Some(link) = self.links.get_mut(&link_id) {
            link.by.sending = None;
            if core::mem::take(&mut link.ready) {
                out.push(Output::Ready { link: link_id, ready: false });
            }
            // A failed attempt to connect must not reset the backoff.
            if sending.phase != StreamPhase::Opening {
                link.on_stream_end(sending.since, now);
            }
        }
        for id in sending.take_all() {
            out.push(Output::SendFailed { id, link: link_id, refused: None });
        }
        self.note_peer(link_id, out);
        self.connect_later(now, link_id);
    }
    /// Resets a peer's stream at once, which shows the peer that its data is not read.
    pub(super) fn turn_away(&mut self, now: Instant, stream: StreamId, out: &mut impl Sink<Output>) {
        let Some(receiving) = self.receiving.get_mut(&stream) else { return };
        if receiving.open {
            out.push(Output::Socket(socket::Output::Close { stream, abort: true }));
        }
        receiving.end(&mut self.room, out);
        self.settle_receiving(now, stream, out);
    }
    /// Handles the end of a peer's stream: bundles already received are still offered and await their verdicts.
    pub(super) fn hang_up(&mut self, now: Instant, stream: StreamId, out: &mut impl Sink<Output>) {
        if let Some(receiving) = self.receiving.get_mut(&stream) {
            receiving.open = false;
        }
        self.settle_receiving(now, stream, out);
    }
    /// Removes a peer's stream from all tables.
    pub(super) fn forget(&mut self, stream: StreamId, out: &mut impl Sink<Output>) {
        let Some(mut receiving) = self.receiving.remove(&stream) else { return };
        receiving.end(&mut self.room, out);
        receiving.forget(&mut self.room);
        self.numbers.remove(&receiving.number);
        if let Some(timer) = receiving.timer.take() {
            self.timers.cancel(timer);
        }
        if let Some(link) = self.links.get_mut(&receiving.link) {
            link.by.receiving.retain(|other| *other != stream);
        }
        self.note_peer(receiving.link, out);
    }

    pub(super) fn update_ready(&mut self, link_id: LinkId, out: &mut impl Sink<Output>) {
        let Some(link) = self.links.get_mut(&link_id) else { return };
        let sending = link.by.sending.and_then(|stream| self.sending.get(&stream));
        let room = sending.is_some_and(|sending| {
            // The gap between the two bounds keeps readiness from alternating with every bundle.
            let window = link.config.window_bytes;
            let (queue, window) = if link.ready { (QUEUE, window) } else { (QUEUE / 2, window - window / 8) };
            sending.phase == StreamPhase::Open && sending.waiting_bytes() < queue && sending.held_bytes() < window
        });
        link.say_ready(room && !self.shutdown, out);
    }
}
