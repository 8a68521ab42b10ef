//! One session: the order of its messages from contact header to the end of the stream (RFC 9174 3.3).

use super::due::PeerProgress;
use super::incoming::{Complaint, IncomingTransfers};
use super::outgoing::{Nonsense, OutgoingTransfers};
use super::wire::{self, NoMessage, SegmentHead, SessionInit, V4Message, kind, reject, term};
use super::{Config, LinkParams};
use crate::streams::PART_BYTES;
use crate::streams::chunk_queue::ChunkQueue;
use crate::streams::inbox::Inbox;
use crate::tcpcl_v3::V3State;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;
use farlink_base::layer::Output;
use farlink_base::socket;
use farlink_base::{Duration, Event, EventClass, Instant, LinkId, Payload, PayloadReader, Sink, StreamId, TimerKey};

/// Number of bytes sent that the peer has not read, above which this side stops reading from it.
const UNREAD_MAX: u64 = 256 << 10;
/// Bytes of waiting answers (58,000 acknowledgments) above which a session is given up.
const ANSWERS_MAX: u64 = 1 << 20;
/// Capacity of the buffer for answers that is kept after they have left, bytes.
const CONTROL_KEPT: usize = 256;
/// Longest head of a segment with the length extension, bytes (RFC 9174 5.2.2).
const SEGMENT_HEAD_MAX: u64 = 64;
/// Number of unread bytes that may all be keepalives. Reading so few proves no progress with a bundle.
const KEEPALIVES: u64 = 64;

/// Phase of a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SessionPhase {
    /// The stream is being opened.
    Connecting,
    /// Waiting for the peer's contact header.
    Contact,
    /// TLS was negotiated. The driver starts it once this side's header has left.
    Securing,
    /// Waiting for the peer's SESS_INIT.
    Init,
    Established,
    /// The peer sends nothing more, but still reads: its complete transfers are answered, then the stream is closed.
    Answering,
    /// Written bytes leave, then the stream is closed.
    Closing,
}

/// Result of reading from the stream.
#[derive(Debug)]
pub enum ReadStep {
    /// More bytes are needed.
    Wait,
    /// Too many answers are pending; some must be sent before reading goes on.
    Crowded,
    /// The peer introduced itself. Reading goes on once the layer has found the session's link.
    Established(SessionInit),
    /// The session must end, for this reason: a fault, or the peer ended it.
    Over(&'static str),
    /// The peer sent SHUTDOWN and sends nothing more (version 3).
    Left,
    /// The peer uses the other version, which this node supports, too.
    OtherVersion,
}

/// One TCPCL session, of version 4 or 3.
#[derive(Debug)]
pub struct TcpclSession {
    pub stream: StreamId,
    pub passive: bool,
    /// Link that the session serves. An active session has it from the start, a passive one after SESS_INIT.
    pub link: Option<LinkId>,
    pub phase: SessionPhase,
    /// State that only version 3 has; `None` in version 4.
    pub old: Option<V3State>,
    pub outgoing: OutgoingTransfers,
    pub incoming: IncomingTransfers,
    /// Bytes that the socket accepts now.
    pub room: u64,
    /// Most bytes that the socket accepted at once. The peer has not read the difference to `room`.
    room_max: u64,
    /// Address of the peer.
    pub from: Option<IpAddr>,
    /// Time at which the stream was opened, or the session began to close.
    pub since: Instant,
    /// Time at which the session was established.
    pub established: Instant,
    pub timer: Option<TimerKey>,
    pub term_sent: bool,
    pub term_received: bool,
    pub paused: bool,
    /// Whether writing is postponed so that further messages can join.
    pub is_to_write: bool,
    /// Whether the driver was asked to start TLS already.
    pub tls_asked: bool,
    /// Node IDs that the peer's certificate proves.
    pub certified: Vec<String>,
    /// Node ID that the peer claims and its certificate proves.
    pub proven: Option<String>,
    pub keepalive: Duration,
    inbox: Inbox,
    pub control: Vec<u8>,
    pending: ChunkQueue,
    /// Stream offset at which the pending bytes begin.
    written: u64,
    pub last_received: Instant,
    pub last_sent: Instant,
    /// Time of the last message in either direction, other than a keepalive.
    pub last_used: Instant,
    /// Times of the peer's latest progress in each activity that this side may wait for.
    pub progress: PeerProgress,
}

impl TcpclSession {
    pub fn new(now: Instant, number: u32, stream: StreamId, link: Option<LinkId>, config: &Config) -> Self {
        let passive = stream.is_passive();
        TcpclSession {
            stream,
            passive,
            link,
            phase: if passive { SessionPhase::Contact } else { SessionPhase::Connecting },
            old: None,
            outgoing: OutgoingTransfers::default(),
            incoming: IncomingTransfers::new(number, config.segment_mru, config.transfer_mru),
            room: 0,
            room_max: 0,
            from: None,
            since: now,
            established: now,
            timer: None,
            term_sent: false,
            term_received: false,
            paused: false,
            is_to_write: false,
            tls_asked: false,
            certified: Vec::new(),
            proven: None,
            keepalive: Duration::ZERO,
            inbox: Inbox::default(),
            control: Vec::new(),
            pending: ChunkQueue::default(),
            written: 0,
            last_received: now,
            last_sent: now,
            last_used: now,
            progress: PeerProgress::at(now),
        }
    }

    /// Handles a change of the number of bytes that the socket accepts.
    pub fn on_writable(&mut self, now: Instant, room: u64) {
        if room > self.room {
            self.progress.reading = now;
            // Reading a few bytes proves no progress of a bundle: they may be keepalives.
            if self.unread() > KEEPALIVES {
                self.progress.answers = now;
            }
        }
        // If the room shrinks without a write, the socket buffer shrank; the peer need not be slow.
        self.room_max = if room < self.room { room } else { self.room_max.max(room) };
        self.room = room;
    }
    /// Forgets unread bytes once all transfers are answered: the peer has read them, but the socket reports no room
    /// while nothing more is written.
    pub fn note_read(&mut self) {
        if !self.outgoing.in_flight() {
            self.room_max = self.room;
        }
    }
    /// Bytes that the peer has not read, estimated from the socket's room.
    pub fn unread(&self) -> u64 {
        self.room_max.saturating_sub(self.room) + self.pending.len()
    }
    /// Whether the peer does not read its answers, so that its input is paused. Never while bundles are in transfer to
    /// the peer, because then both sides could wait for each other.
    pub fn is_deaf(&self) -> bool {
        !self.outgoing.in_flight() && self.unread() > UNREAD_MAX
    }
    /// Whether the pending answers exceed their limit.
    pub fn is_flooded(&self) -> bool {
        // Besides answers, at most one segment can be pending.
        self.pending.len() > ANSWERS_MAX + self.outgoing.segment_limit + SEGMENT_HEAD_MAX
    }

    /// Takes in received bytes.
    pub fn on_data(&mut self, now: Instant, data: Payload) {
        self.last_received = now;
        // Input after the end of reading is dropped.
        if matches!(self.phase, SessionPhase::Answering | SessionPhase::Closing) {
            return;
        }
        if self.incoming.data_left().is_some() {
            self.progress.data = now;
        }
        self.inbox.add(data);
    }
    /// Copies unparsed bytes out of read buffers that the driver shares.
    pub fn unshare(&mut self) {
        self.inbox.unshare();
    }
    /// Whether no new transfer may begin.
    // 9174-6.1-5
    pub fn is_ending(&self) -> bool {
        let leaving = self.old.is_some_and(|old| old.leaving.is_some());
        self.term_sent || self.term_received || leaving || self.phase == SessionPhase::Closing
    }
    /// Whether ending the session now would lose transfers.
    pub fn has_unfinished(&self) -> bool {
        self.outgoing.in_flight() || !self.incoming.is_idle()
    }

    /// Parses received bytes up to the next result that the layer must act on.
    pub fn read(&mut self, now: Instant, config: &Config, out: &mut impl Sink<Output>) -> ReadStep {
        let inbox = self.inbox.take();
        let mut reader = inbox.reader();
        let step = loop {
            let step = match self.phase {
                SessionPhase::Contact => self.read_contact(now, &mut reader, config),
                SessionPhase::Established if self.incoming.is_crowded() => Some(ReadStep::Crowded),
                SessionPhase::Init | SessionPhase::Established => match self.incoming.data_left() {
                    Some(left) => self.read_data(&mut reader, left, out),
                    None if self.old.is_some() => self.read_old_message(now, &mut reader, out),
                    None => self.read_message(now, &mut reader, out),
                },
                SessionPhase::Securing if reader.remaining() > 0 => Some(self.refuse_plain_bytes()),
                SessionPhase::Connecting | SessionPhase::Securing | SessionPhase::Answering | SessionPhase::Closing => {
                    Some(ReadStep::Wait)
                }
            };
            if let Some(step) = step {
                break step;
            }
        };
        let read = reader.position();
        // The input of a closing session was dropped.
        if self.phase != SessionPhase::Closing {
            self.inbox.put_back(inbox, read);
        }
        step
    }

    fn read_data(
        &mut self,
        reader: &mut PayloadReader<'_>,
        left: u64,
        out: &mut impl Sink<Output>,
    ) -> Option<ReadStep> {
        let have = reader.remaining();
        // Wait for a larger part, so that slow input does not make one offer per byte.
        if have < left.min(PART_BYTES) {
            return Some(ReadStep::Wait);
        }
        let (Some(link), Some(part)) = (self.link, reader.take(have.min(left))) else { return Some(ReadStep::Wait) };
        self.incoming.on_data(part, link, out);
        None
    }

    fn read_message(
        &mut self,
        now: Instant,
        reader: &mut PayloadReader<'_>,
        out: &mut impl Sink<Output>,
    ) -> Option<ReadStep> {
        let before = reader.clone();
        match wire::read_message(reader) {
            Ok(message) => {
                if message != V4Message::Keepalive {
                    self.last_used = now;
                }
                if matches!(message, V4Message::Segment(_)) {
                    self.progress.data = now;
                }
                self.on_message(now, message, out)
            }
            Err(NoMessage::Incomplete) => {
                *reader = before;
                Some(ReadStep::Wait)
            }
            // 9174-5.1.2-1
            Err(NoMessage::UnknownType(message)) => {
                wire::put_reject(&mut self.control, reject::UNKNOWN_TYPE, message);
                Some(ReadStep::Over("a message of unknown type"))
            }
            Err(NoMessage::Broken(reason)) => {
                let code = if self.phase == SessionPhase::Init { term::CONTACT_FAILURE } else { term::EXHAUSTED };
                self.terminate(now, code);
                Some(ReadStep::Over(reason))
            }
        }
    }

    /// Rejects a message that does not fit the session's state; the session goes on (RFC 9174 5.1.2).
    // 9174-4.7-3, 9174-5.1.2-3
    fn unexpected(&mut self, message: u8, reason: &'static str, out: &mut impl Sink<Output>) -> Option<ReadStep> {
        wire::put_reject(&mut self.control, reject::UNEXPECTED, message);
        if out.wants(EventClass::Link) {
            out.push(Output::Event(Event::Malformed { link: self.link, offset: 0, reason }));
        }
        None
    }

    fn on_message(&mut self, now: Instant, message: V4Message, out: &mut impl Sink<Output>) -> Option<ReadStep> {
        let established = self.phase == SessionPhase::Established;
        match message {
            V4Message::Init(init) if !established => {
                // 9174-4.8-4
                if init.critical {
                    // RFC 9174 4.8: an unknown critical extension ends the session.
                    self.terminate(now, term::CONTACT_FAILURE);
                    return Some(ReadStep::Over("an unknown critical session extension"));
                }
                Some(ReadStep::Established(init))
            }
            V4Message::Init(_) => self.unexpected(kind::SESS_INIT, "a second SESS_INIT", out),
            V4Message::Term { reply, reason } => self.on_term(established, reply, reason, out),
            V4Message::Reject { .. } if !established => Some(ReadStep::Over("the peer rejected the session")),
            // MSG_REJECT only aids "in troubleshooting" (RFC 9174 5.1.2). If a transfer stays unanswered because of it,
            // the progress timeout ends the session.
            V4Message::Reject { .. } | V4Message::Keepalive => None,
            V4Message::Segment(_) if !established => {
                self.unexpected(kind::XFER_SEGMENT, "a transfer before SESS_INIT", out);
                Some(ReadStep::Over("a transfer before SESS_INIT"))
            }
            V4Message::Segment(head) => self.on_segment(now, head, out),
            V4Message::Ack { id, acked, last } => {
                let before = self.outgoing.held_bytes();
                let result = self.outgoing.on_ack(id, acked, last);
                if self.outgoing.held_bytes() < before {
                    self.progress.answers = now;
                }
                self.on_answer(now, kind::XFER_ACK, id, result, out, |id, link| Output::Sent { id, link })
            }
            V4Message::Refuse { reason, id } => {
                let result = self.outgoing.on_refuse(id);
                self.on_answer(now, kind::XFER_REFUSE, id, result, out, |id, link| match reason {
                    // RFC 9174 5.2.4: the peer already has the whole bundle.
                    wire::refuse::COMPLETED => Output::Sent { id, link },
                    _ => Output::SendFailed { id, link, refused: wire::refusal_of(reason) },
                })
            }
        }
    }

    fn on_segment(&mut self, now: Instant, head: SegmentHead, out: &mut impl Sink<Output>) -> Option<ReadStep> {
        let complaint = self.incoming.on_head(head, self.is_ending(), out).err();
        if let Some(Complaint { reason, fatal }) = complaint {
            self.unexpected(kind::XFER_SEGMENT, reason, out);
            if fatal {
                self.terminate(now, term::EXHAUSTED);
                return Some(ReadStep::Over(reason));
            }
        }
        // No data follows an empty segment, so its effects are due now.
        if head.len == 0 {
            self.incoming.on_data(Payload::new(), self.link.unwrap_or_default(), out);
        }
        None
    }

    // 9174-5.1.2-3
    fn on_answer(
        &mut self,
        now: Instant,
        message: u8,
        transfer: u64,
        result: Result<Option<farlink_base::layer::SendId>, Nonsense>,
        out: &mut impl Sink<Output>,
        tell: impl FnOnce(farlink_base::layer::SendId, LinkId) -> Output,
    ) -> Option<ReadStep> {
        match (result, self.link) {
            (Ok(Some(id)), Some(link)) => {
                self.note_read();
                out.push(tell(id, link));
                None
            }
            (Ok(_), _) => None,
            (Err(Nonsense::UnknownTransfer), _) => {
                wire::put_reject(&mut self.control, reject::UNEXPECTED, message);
                None
            }
            (Err(Nonsense::Miscounted), link) => {
                let reason = "an acknowledgment of a wrong number of bytes";
                self.unexpected(message, reason, out);
                let (Some(link), Some(id)) = (link, self.outgoing.give_up(transfer)) else {
                    self.terminate(now, term::UNKNOWN);
                    return Some(ReadStep::Over(reason));
                };
                out.push(Output::SendFailed { id, link, refused: None });
                None
            }
        }
    }

    /// Handles SESS_TERM (RFC 9174 6.1): replies once with the same reason, even before SESS_INIT; transfers in
    /// progress are finished.
    // 9174-6.1-3, 9174-6.1-4
    fn on_term(&mut self, established: bool, reply: bool, reason: u8, out: &mut impl Sink<Output>) -> Option<ReadStep> {
        // The peer's judgment may come after this side has accepted the peer.
        let why = match reason {
            term::CONTACT_FAILURE => "the peer refused this node: its TLS, certificate or node ID",
            term::VERSION => "the peer refused this version of the protocol",
            term::BUSY => "the peer is too busy for a session",
            _ => "the peer ended the session before it began",
        };
        if established && !reply && reason == term::CONTACT_FAILURE && out.wants(EventClass::Link) {
            out.push(Output::Event(Event::SessionRefused { link: self.link, peer: None, reason: why }));
        }
        self.term_received = true;
        if !self.term_sent && !reply {
            wire::put_term(&mut self.control, wire::REPLY, reason);
        }
        self.term_sent = true;
        (!established).then_some(ReadStep::Over(why))
    }

    /// Establishes the session on a link, with the smaller of both keepalive intervals and the peer's limits on
    /// segments and transfers (RFC 9174 4.7).
    // 9174-4.6-1, 9174-4.7-3
    pub fn establish(&mut self, now: Instant, link: LinkId, peer: &SessionInit, span: &LinkParams, config: &Config) {
        self.link = Some(link);
        self.phase = SessionPhase::Established;
        self.established = now;
        self.last_used = now;
        self.keepalive = Duration::from_secs(u64::from(config.keepalive_s().min(peer.keepalive_s)));
        self.outgoing.segment_limit = span.segment_bytes.max(1).min(peer.segment_mru);
        self.outgoing.transfer_limit = peer.transfer_mru;
        let parts = peer.keeps_parts && config.reactive > 0;
        self.outgoing.keeps_parts = parts;
        self.incoming.keep_parts(if parts { config.reactive } else { 0 });
    }

    /// Asks the peer to end the session, unless that was done before (RFC 9174 6.1). In version 3 SHUTDOWN is the last
    /// message, and waits for transfers in progress (RFC 7242 6.1).
    // 9174-6.1-1, 9174-6.1-2, 9174-6.1-9
    pub fn terminate(&mut self, now: Instant, reason: u8) {
        if let Some(old) = &mut self.old {
            if old.leaving.is_none() {
                (old.leaving, self.last_used) = (Some(reason), now);
            }
        } else if !self.term_sent {
            self.term_sent = true;
            self.last_used = now;
            wire::put_term(&mut self.control, 0, reason);
        }
    }
    /// Handles the end of the peer's input. Returns true if answers to complete transfers, or other bytes, must still
    /// leave.
    pub fn end_reading(&mut self, now: Instant) -> bool {
        self.incoming.forget_unfinished();
        if let Some(old) = &mut self.old {
            old.leaving.get_or_insert(term::UNKNOWN);
        }
        let owing = self.phase == SessionPhase::Established && !(self.incoming.is_idle() && self.is_written());
        if owing {
            self.answer_rest(now);
        }
        owing
    }
    /// Stops reading. Complete transfers are still answered, then the session closes.
    pub fn answer_rest(&mut self, now: Instant) {
        (self.phase, self.since, self.inbox) = (SessionPhase::Answering, now, Inbox::default());
    }
    /// Stops reading. Written bytes still leave, then the stream is closed.
    pub fn close(&mut self, now: Instant) {
        self.put_goodbye();
        self.phase = SessionPhase::Closing;
        self.since = now;
        self.inbox = Inbox::default();
    }
    /// Whether both sides have terminated the session and no transfer is in progress.
    pub fn is_finished(&self) -> bool {
        self.phase == SessionPhase::Established && self.term_sent && self.term_received && !self.has_unfinished()
    }

    /// Whether all bytes produced so far have gone to the socket.
    pub fn is_written(&self) -> bool {
        self.pending.is_empty() && self.control.is_empty()
    }

    /// Writes as much as the socket accepts, answers before segments. Returns true if a closing session has nothing
    /// left to write.
    // 9174-4-1, 9174-6.1-1, 9174-6.1-5, 9174-6.1-13, 7242-6.1-1, 7242-6.1-6
    pub fn flush(&mut self, now: Instant, may_transmit: bool, out: &mut impl Sink<Output>) -> bool {
        self.note_debts(now);
        let terms = self.old.map(|old| old.terms);
        // After SHUTDOWN nothing may be sent, so answers are dropped.
        if self.is_mute() {
            self.incoming.put_answers(terms, &mut Vec::new());
        } else {
            self.incoming.put_answers(terms, &mut self.control);
        }
        if self.phase == SessionPhase::Answering && self.incoming.is_idle() {
            self.close(now);
        } else if self.phase == SessionPhase::Established && !self.has_unfinished() {
            self.put_goodbye();
        }
        if !self.control.is_empty() {
            self.pending.copy(&self.control);
            self.control.clear();
            // Release the memory of a burst of answers.
            self.control.shrink_to(CONTROL_KEPT);
        }
        if may_transmit {
            let begin = (!self.is_ending()).then_some(now);
            if self.phase == SessionPhase::Established {
                // Cut segments as late as possible, so that answers do not wait behind them.
                while self.pending.len() < self.room && self.outgoing.next_segment(begin, terms, &mut self.pending) {
                    self.last_used = now;
                    self.outgoing.ends_at(self.written + self.pending.len());
                }
                for (id, link) in self.outgoing.take_late().into_iter().zip(self.link.into_iter().cycle()) {
                    out.push(Output::SendFailed { id, link, refused: None });
                }
                while let (Some(link), Some((id, from, len))) = (self.link, self.outgoing.want()) {
                    out.push(Output::Want { link, id, from, len });
                }
            }
            let n = self.room.min(self.pending.len());
            if n > 0 {
                let data = self.pending.take(n);
                self.room -= n;
                self.written += n;
                self.last_sent = now;
                out.push(Output::Socket(socket::Output::Write { stream: self.stream, data }));
            }
        }
        self.phase == SessionPhase::Closing && self.pending.is_empty()
    }
    /// Queues a keepalive (RFC 9174 5.1.1), unless other bytes are pending, which serve the same purpose.
    // 9174-5.1.1-1
    pub fn put_keepalive(&mut self) {
        if self.pending.is_empty() && self.control.is_empty() && !self.is_mute() {
            self.control.push(self.keepalive_byte());
        }
    }
    /// Restarts the silence timer.
    pub fn on_received(&mut self, now: Instant) {
        self.last_received = now;
    }
    /// Restarts all timers when the link is back, because silence during the outage proves nothing.
    pub fn on_resumed(&mut self, now: Instant) {
        self.on_received(now);
        self.progress = PeerProgress::at(now);
        if self.phase == SessionPhase::Established && self.keepalive > Duration::ZERO {
            self.put_keepalive();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::streams::waiting::WaitingBundle;
    use farlink_base::Leaving;
    use farlink_base::layer::SendId;

    #[test]
    fn data_after_termination_is_dropped() {
        let mut session = TcpclSession::new(Instant(1), 1, StreamId(1), Some(LinkId(1)), &Config::default());
        session.phase = SessionPhase::Established;
        session.answer_rest(Instant(2));
        session.on_data(Instant(3), Payload::fill(1, 1 << 30));
        assert!(session.inbox.is_empty());
    }

    #[test]
    fn only_unsent_answers_count_as_waiting() {
        let mut session = TcpclSession::new(Instant(1), 1, StreamId(1), Some(LinkId(1)), &Config::default());
        session.phase = SessionPhase::Established;
        (session.outgoing.segment_limit, session.outgoing.transfer_limit) = (256 << 10, u64::MAX);
        let (mut out, mut next) = (Vec::new(), 0u64);
        // Many segments stay pending here, but all answers leave at once, so the session must not be given up.
        for turn in 2..10_000 {
            while session.outgoing.waiting_bytes() < 1 << 20 {
                session.outgoing.push(WaitingBundle {
                    send: SendId(next),
                    total: 100_000,
                    part: Payload::fill(1, 100_000),
                    leaving: Leaving::AS_IT_IS,
                });
                next += 1;
            }
            session.on_writable(Instant(turn), 64 << 10);
            session.control.extend_from_slice(&[0; 180]);
            session.flush(Instant(turn), true, &mut out);
            out.clear();
            assert!(!session.is_flooded(), "{} bytes wait in turn {turn}", session.pending.len());
        }
        // A peer that reads nothing: answers pile up until the session is given up.
        session.on_writable(Instant(10_000), 0);
        let turns = (1..).take_while(|turn| {
            session.control.extend_from_slice(&[0; 180]);
            session.flush(Instant(10_000 + turn), true, &mut out);
            !session.is_flooded()
        });
        assert!((4000..9000).contains(&turns.count()));
    }
}
