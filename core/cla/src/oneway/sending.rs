//! Streams opened by this side, over which bundles leave. A bundle counts as sent when the peer's host has confirmed
//! its last byte.

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

/// Longest wait for the confirmation of the last bytes before an ending stream is closed.
const GOODBYE: Duration = Duration::from_secs(10);

/// A bundle that has begun to leave.
#[derive(Debug)]
struct BegunBundle {
    send: SendId,
    /// Stream offset of the bundle's end.
    end: u64,
}

/// Phase of a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum StreamPhase {
    Opening,
    Open,
    /// The bundles begun are finished, then the stream closes.
    Ending,
}

/// Result of checking the deadlines of a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum SendingDue {
    /// Check again at this time; `None`: no deadline.
    Later(Option<Instant>),
    Keepalive,
    /// Close the stream, because the peer's host accepts or confirms no bytes.
    Dead,
}

/// A stream opened by this side.
#[derive(Debug)]
pub(super) struct SendingStream {
    pub stream: StreamId,
    pub link: LinkId,
    pub phase: StreamPhase,
    /// Time at which the stream was opened.
    pub since: Instant,
    pub timer: Option<TimerKey>,
    framing: Framing,
    /// Bytes that the socket accepts now.
    room: u64,
    waiting: BundleQueue,
    /// Framed bytes not written yet.
    pending: ChunkQueue,
    /// The bundle that began last, while the agent has not given all its bytes.
    filling: Option<Filling>,
    /// Bundles begun and not confirmed, in order.
    flights: VecDeque<BegunBundle>,
    /// Stream offsets: end of the last bundle begun, bytes written, bytes confirmed by the peer's host.
    end: u64,
    written: u64,
    confirmed: u64,
    /// Input from the peer that is shorter than a head.
    heard: Payload,
    last_written: Instant,
    /// Latest time at which the peer's host confirmed bytes, or this side did not wait for it.
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
    /// Handles a confirmation that the peer's host has the first `bytes` bytes of the stream, and reports the bundles
    /// that end within them as sent.
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
    /// Parses input from the peer: keepalives are ignored, a bundle is an error.
    ///
    /// # Errors
    ///
    /// The reason why the stream must end.
    pub fn on_data(&mut self, data: Payload) -> Result<(), &'static str> {
        self.heard.append(data);
        let heard = core::mem::take(&mut self.heard);
        let mut reader = heard.reader();
        loop {
            match self.framing.read_head(&mut reader)? {
                Some(0) => {}
                Some(_) => return Err("a bundle on a stream for sending only"),
                None => break,
            }
        }
        // An incomplete head is copied, so that it does not pin a whole read buffer.
        debug_assert!(reader.remaining() < HEAD_MAX);
        self.heard = heard.slice(reader.position(), u64::MAX).own();
        Ok(())
    }

    /// Bytes of bundles that have not begun to leave, including [`OVERHEAD`] for each.
    pub fn waiting_bytes(&self) -> u64 {
        self.waiting.bytes()
    }
    /// Bytes of all bundles not confirmed, begun or not, including [`OVERHEAD`] for each.
    pub fn held_bytes(&self) -> u64 {
        self.waiting.bytes() + (self.end - self.confirmed) + OVERHEAD * self.flights.len() as u64
    }
    /// Whether a bundle that has begun to leave is not confirmed.
    pub fn has_unfinished(&self) -> bool {
        !self.flights.is_empty()
    }
    /// Whether the stream is ending and every bundle begun is confirmed.
    pub fn is_done(&self) -> bool {
        self.phase == StreamPhase::Ending && self.flights.is_empty()
    }

    /// Queues a bundle; returns false if a frame cannot carry it.
    pub fn push(&mut self, bundle: WaitingBundle) -> bool {
        let fits = (1..=self.framing.longest()).contains(&bundle.total) && bundle.part.len() <= bundle.total;
        if fits {
            self.waiting.push(bundle);
        }
        fits
    }
    /// Takes further bytes of the leaving bundle; returns whether they are the next ones missing.
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
    /// Whether this bundle has begun to leave and bytes of it are missing.
    pub fn is_filling(&self, send: SendId) -> bool {
        self.filling.as_ref().is_some_and(|filling| filling.send == send)
    }
    /// Withdraws a bundle that has not begun to leave; returns whether it was queued.
    pub fn cancel(&mut self, send: SendId) -> bool {
        self.waiting.cancel(send)
    }
    /// Withdraws all bundles that have not begun to leave, in order.
    pub fn take_waiting(&mut self) -> Vec<SendId> {
        self.waiting.take().into_iter().map(|bundle| bundle.send).collect()
    }
    /// Withdraws all bundles not confirmed; for a stream that has ended.
    pub fn take_all(&mut self) -> Vec<SendId> {
        let mut all: Vec<SendId> = self.flights.drain(..).map(|flight| flight.send).collect();
        all.append(&mut self.take_waiting());
        self.filling = None;
        all
    }

    /// Begins the next bundle that has not expired; expired ones are reported as failed. Returns false if there is
    /// none, or if bytes of the bundle before are missing.
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
    /// Next range to request from the agent: transmission, first byte, length.
    fn want(&mut self) -> Option<(SendId, u64, u64)> {
        let here = self.pending.len();
        let filling = self.filling.as_mut()?;
        filling.want(filling.given.saturating_sub(here))
    }

    /// Queues a keepalive if nothing is to be written: inside a bundle it would corrupt the bundle.
    pub fn put_keepalive(&mut self) {
        if self.phase == StreamPhase::Open && self.is_silent() {
            self.put_head(0);
        }
    }
    /// Whether there is nothing to write.
    fn is_silent(&self) -> bool {
        self.pending.is_empty() && self.filling.is_none() && self.waiting.is_empty()
    }
    /// Restarts the progress timer when the link is back, because silence during the outage proves nothing.
    pub fn on_resumed(&mut self, now: Instant, keepalive: bool) {
        self.progress = now;
        if keepalive {
            self.put_keepalive();
        }
    }
    /// Ends the stream once all bundles begun are confirmed. The caller withdraws the bundles that have not begun
    /// first.
    pub fn end_soon(&mut self, now: Instant) {
        (self.phase, self.progress) = (StreamPhase::Ending, now);
    }

    /// Whether this side waits for the peer's host: written bytes are not confirmed, or a full socket buffer delays
    /// further ones.
    fn is_owed(&self) -> bool {
        let has_more = !self.pending.is_empty() || !self.waiting.is_empty();
        self.written > self.confirmed || (self.room == 0 && has_more)
    }
    /// Writes as much as socket and window allow, and requests missing bytes.
    pub fn flush(&mut self, now: Instant, window: u64, out: &mut impl Sink<Output>) {
        // The progress timer runs only while this side waits for the peer's host.
        if !self.is_owed() {
            self.progress = now;
        }
        if self.phase == StreamPhase::Opening {
            return;
        }
        let allowed = self.room.min(window.saturating_sub(self.written - self.confirmed));
        // Begin bundles as late as possible: their age is updated then, and until then they can be withdrawn.
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

    /// Next action due. `sends`: whether the link carries bytes out; `up`: whether in both directions.
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
