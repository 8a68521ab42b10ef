//! A stream this side opened: bundles leave over it, and count as sent when the peer's host has them.

use super::Config;
use super::framing::{Framing, HEAD_MAX};
use crate::streams::chunk_queue::ChunkQueue;
use crate::streams::timing::Deadlines;
use crate::streams::waiting::{BundleQueue, Filling, OVERHEAD, WaitingBundle};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use farlink_base::layer::{Output, SendId};
use farlink_base::socket;
use farlink_base::{Bytes, Duration, Instant, LinkId, Payload, Sink, StreamId, TimerKey};

/// How long a stream that is to end waits for its last bytes to be confirmed.
const GOODBYE: Duration = Duration::from_secs(10);

/// A bundle that was begun.
#[derive(Debug)]
struct BegunBundle {
    send: SendId,
    /// Bytes of the stream up to its last.
    end: u64,
}

/// How far a stream has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum StreamPhase {
    /// It is being opened.
    Opening,
    /// Bundles leave.
    Open,
    /// What was begun leaves and is confirmed, then it closes.
    Ending,
}

/// What time demands of a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum SendingDue {
    /// Look again then; `None`: nothing to wait for.
    Later(Option<Instant>),
    /// Say that this side lives.
    Keepalive,
    /// The peer takes nothing.
    Dead,
}

/// One stream of ours.
#[derive(Debug)]
pub(super) struct SendingStream {
    pub stream: StreamId,
    pub link: LinkId,
    pub phase: StreamPhase,
    /// When it was opened.
    pub since: Instant,
    pub timer: Option<TimerKey>,
    framing: Framing,
    /// Bytes the stream takes now.
    room: u64,
    waiting: BundleQueue,
    /// What was begun and is not written.
    pending: ChunkQueue,
    /// The last that was begun, while some of it is to come.
    filling: Option<Filling>,
    /// In the order begun.
    flights: VecDeque<BegunBundle>,
    /// Bytes of the stream: up to the end of what was begun, written, and known to have reached the peer's host.
    end: u64,
    written: u64,
    confirmed: u64,
    /// What the peer says, up to the next whole head.
    heard: Payload,
    last_written: Instant,
    /// When the peer's host last took something.
    progress: Instant,
}

impl SendingStream {
    pub fn new(now: Instant, stream: StreamId, link: LinkId, framing: Framing) -> Self {
        SendingStream {
            stream,
            link,
            phase: StreamPhase::Opening,
            since: now,
            timer: None,
            framing,
            room: 0,
            waiting: BundleQueue::default(),
            pending: ChunkQueue::default(),
            filling: None,
            flights: VecDeque::new(),
            end: 0,
            written: 0,
            confirmed: 0,
            heard: Payload::new(),
            last_written: now,
            progress: now,
        }
    }
    pub fn on_opened(&mut self, now: Instant) {
        (self.phase, self.since, self.last_written, self.progress) = (StreamPhase::Open, now, now, now);
    }
    pub fn on_writable(&mut self, room: u64) {
        self.room = room;
    }
    /// The peer's host has so many bytes of the stream: says which bundles are sent.
    pub fn on_confirmed(&mut self, now: Instant, bytes: u64, out: &mut impl Sink<Output>) {
        let bytes = bytes.min(self.written);
        if bytes <= self.confirmed {
            return;
        }
        (self.confirmed, self.progress) = (bytes, now);
        while let Some(flight) = self.flights.front().filter(|flight| flight.end <= bytes) {
            out.push(Output::Sent { id: flight.send, link: self.link });
            self.flights.pop_front();
        }
    }
    /// The peer says something. Keepalives are none of our business; bundles have no business here.
    ///
    /// # Errors
    /// Why the stream must end.
    pub fn on_data(&mut self, data: Payload) -> Result<(), &'static str> {
        self.heard.append(data);
        let heard = core::mem::take(&mut self.heard);
        let mut reader = heard.reader();
        loop {
            match self.framing.read_head(&mut reader)? {
                Some(0) => {}
                Some(_) => return Err("a bundle on a stream that only this side sends on"),
                None => break,
            }
        }
        debug_assert!(reader.remaining() < HEAD_MAX);
        self.heard = heard.slice(reader.position(), u64::MAX).own();
        Ok(())
    }

    /// Bytes of bundles not begun.
    pub fn waiting_bytes(&self) -> u64 {
        self.waiting.bytes()
    }
    /// Bytes of bundles not begun or not confirmed.
    pub fn held_bytes(&self) -> u64 {
        self.waiting.bytes() + (self.end - self.confirmed) + OVERHEAD * self.flights.len() as u64
    }
    /// Whether a bundle was begun and is not confirmed.
    pub fn has_unfinished(&self) -> bool {
        !self.flights.is_empty()
    }
    /// Whether it has nothing left to wait for.
    pub fn is_done(&self) -> bool {
        self.phase == StreamPhase::Ending && self.flights.is_empty()
    }

    /// Queues a bundle; false when a frame does not hold it.
    pub fn push(&mut self, bundle: WaitingBundle) -> bool {
        let fits = (1..=self.framing.longest()).contains(&bundle.total) && bundle.part.len() <= bundle.total;
        if fits {
            self.waiting.push(bundle);
        }
        fits
    }
    /// More of the bundle that is leaving; whether it was wanted here.
    pub fn give(&mut self, send: SendId, from: u64, part: &Payload) -> bool {
        let Some(filling) = self.filling.as_mut().filter(|filling| filling.lacks(send, from)) else { return false };
        let part = part.slice(0, filling.total - filling.given);
        filling.given += part.len();
        let whole = filling.given == filling.total;
        self.pending.push(&part);
        if whole {
            self.filling = None;
        }
        true
    }
    /// Whether some of this bundle is still to be given.
    pub fn is_filling(&self, send: SendId) -> bool {
        self.filling.as_ref().is_some_and(|filling| filling.send == send)
    }
    /// Takes back a bundle that was not begun; whether it was there.
    pub fn cancel(&mut self, send: SendId) -> bool {
        self.waiting.cancel(send)
    }
    /// Takes back everything not begun, in order.
    pub fn take_waiting(&mut self) -> Vec<SendId> {
        self.waiting.take().into_iter().map(|bundle| bundle.send).collect()
    }
    /// Takes back everything not confirmed: the stream is over.
    pub fn take_all(&mut self) -> Vec<SendId> {
        let mut all: Vec<SendId> = self.flights.drain(..).map(|flight| flight.send).collect();
        all.append(&mut self.take_waiting());
        self.filling = None;
        all
    }

    /// Begins the next bundle that may leave still; false when there is none, or the last one has not been given whole.
    fn begin(&mut self, now: Instant, out: &mut impl Sink<Output>) -> bool {
        if self.filling.is_some() {
            return false;
        }
        let (WaitingBundle { send, total, part, .. }, grown) = loop {
            let Some(first) = self.waiting.pop() else { return false };
            match first.leaves(now, self.framing.longest()) {
                Ok(leaves) => break leaves,
                Err(id) => out.push(Output::SendFailed { id, link: self.link, refused: None }),
            }
        };
        self.put_head(total);
        self.end += total;
        self.flights.push_back(BegunBundle { send, end: self.end });
        self.pending.push(&part);
        let given = part.len();
        self.filling = (given < total).then(|| Filling::new(send, total, given, grown));
        true
    }
    fn put_head(&mut self, total: u64) {
        let mut head = Vec::with_capacity(HEAD_MAX as usize);
        self.framing.put_head(&mut head, total);
        self.end += head.len() as u64;
        self.pending.push_bytes(Bytes::from(head));
    }
    /// What to ask for next: bundle, first byte, length.
    fn want(&mut self) -> Option<(SendId, u64, u64)> {
        let here = self.pending.len();
        let filling = self.filling.as_mut()?;
        filling.want(filling.given.saturating_sub(here))
    }

    /// Asks for a keepalive, where no bundle says as much, and it does not fall into one.
    pub fn put_keepalive(&mut self) {
        if self.phase == StreamPhase::Open && self.is_silent() {
            self.put_head(0);
        }
    }
    /// Whether it has nothing to write.
    fn is_silent(&self) -> bool {
        self.pending.is_empty() && self.filling.is_none() && self.waiting.is_empty()
    }
    /// The link is back: silence until now says nothing about the peer.
    pub fn on_resumed(&mut self, now: Instant, keepalive: bool) {
        self.progress = now;
        if keepalive {
            self.put_keepalive();
        }
    }
    /// Ends it once everything begun is confirmed. What was not begun is to be taken back first.
    pub fn end_soon(&mut self, now: Instant) {
        (self.phase, self.progress) = (StreamPhase::Ending, now);
    }

    /// Whether the peer's host owes us to take something.
    fn is_owed(&self) -> bool {
        let has_more = !self.pending.is_empty() || !self.waiting.is_empty();
        self.written > self.confirmed || (self.room == 0 && has_more)
    }
    /// Writes what room and window allow, and asks for what is lacking.
    pub fn flush(&mut self, now: Instant, window: u64, out: &mut impl Sink<Output>) {
        if !self.is_owed() {
            self.progress = now;
        }
        if self.phase == StreamPhase::Opening {
            return;
        }
        let allowed = self.room.min(window.saturating_sub(self.written - self.confirmed));
        while self.pending.len() < allowed && self.begin(now, out) {}
        let n = allowed.min(self.pending.len());
        if n > 0 {
            let data = self.pending.take(n);
            self.room -= n;
            self.written += n;
            self.last_written = now;
            out.push(Output::Socket(socket::Output::Write { stream: self.stream, data }));
        }
        while let Some((id, from, len)) = self.want() {
            out.push(Output::Want { link: self.link, id, from, len });
        }
    }

    /// What is due at `now`. `up`: whether the link carries bytes both ways.
    pub fn due(&self, now: Instant, config: &Config, sends: bool, up: bool) -> SendingDue {
        let mut deadlines = Deadlines::at(now);
        let mut at = |deadline: Instant| deadlines.passed(deadline);
        match self.phase {
            StreamPhase::Opening => {}
            StreamPhase::Ending => {
                if at(self.progress + GOODBYE) {
                    return SendingDue::Dead;
                }
            }
            StreamPhase::Open => {
                if up && config.progress > Duration::ZERO && self.is_owed() && at(self.progress + config.progress) {
                    return SendingDue::Dead;
                }
                if sends && self.is_silent() && self.room > 0 && config.keepalive > Duration::ZERO {
                    if at(self.last_written + config.keepalive) {
                        return SendingDue::Keepalive;
                    }
                }
            }
        }
        SendingDue::Later(deadlines.next)
    }
}
