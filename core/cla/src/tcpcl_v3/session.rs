//! Sessions of version 3 where they differ from version 4: contact, messages, termination.

use super::wire::{self, V3Message, can};
use crate::tcpcl_v4::Config;
use crate::tcpcl_v4::incoming::Complaint;
use crate::tcpcl_v4::outgoing::Nonsense;
use crate::tcpcl_v4::session::{ReadStep, SessionPhase, TcpclSession};
use crate::tcpcl_v4::wire::{NoMessage, START, SegmentHead, SessionInit, term};
use farlink_base::layer::{Output, SendId};
use farlink_base::{Duration, Instant, LinkId, Payload, PayloadReader, Refusal, Sink};

/// Flags of this side's contact header.
// 7242-4.1-1, 7242-4.1-2
const fn flags(config: &Config) -> u8 {
    can::ACKS | can::REFUSALS | can::LENGTHS | if config.reactive > 0 { can::PARTS } else { 0 }
}
/// Wait before reconnecting if the peer asks for 0 s, which means never (RFC 7242 6.1).
const NEVER: Duration = Duration::from_secs(3650 * 86_400);

/// Features negotiated by the contact headers (RFC 7242 4.2).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Terms {
    /// Whether segments are acknowledged.
    pub acks: bool,
    /// Whether bundles may be refused.
    pub refusals: bool,
    /// Whether the peer asked for LENGTH messages.
    pub lengths: bool,
}

/// State of a session that only version 3 has.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct V3State {
    pub terms: Terms,
    /// Reason for ending the session, once it shall end; SHUTDOWN is sent when no transfer is in progress.
    pub leaving: Option<u8>,
    /// Time for which the peer asked this node not to connect to it.
    pub rest: Duration,
    /// Length from a LENGTH message whose bundle has not begun.
    announced: Option<u64>,
    /// Number of bundles begun by the peer, which serves as transfer ID: version 3 has none.
    begun: u64,
}

impl TcpclSession {
    /// Starts a session of version 3: sends this side's contact header without waiting for the peer's (RFC 7242 4).
    // 7242-4-3, 7242-6.1-4
    pub(crate) fn begin_old(&mut self, config: &Config) {
        self.old = Some(V3State::default());
        self.incoming.without_segment_limit();
        wire::put_contact(&mut self.control, flags(config), config.keepalive_s(), &config.node_id);
    }

    /// Reads the peer's contact header from after its version.
    // 7242-4.1-1, 7242-4.1-2, 7242-4.2-2
    pub(crate) fn read_old_contact(
        &mut self,
        now: Instant,
        reader: &mut PayloadReader<'_>,
        config: &Config,
    ) -> ReadStep {
        let contact = match wire::read_contact(reader) {
            Ok(contact) => contact,
            Err(NoMessage::Broken(reason)) => {
                self.terminate(now, term::CONTACT_FAILURE);
                return ReadStep::Over(reason);
            }
            Err(_) => return ReadStep::Wait,
        };
        // A feature is in use only if both sides have it, except LENGTH, which the receiver alone asks for.
        let both = |flag: u8| flags(config) & contact.flags & flag != 0;
        let terms = Terms {
            acks: both(can::ACKS),
            refusals: both(can::ACKS) && both(can::REFUSALS),
            lengths: contact.flags & can::LENGTHS != 0,
        };
        self.old = self.old.map(|old| V3State { terms, ..old });
        self.incoming.set_reliable(terms.acks);
        self.phase = SessionPhase::Init;
        let (segment_mru, transfer_mru) = (u64::MAX, u64::MAX);
        let keepalive_s = contact.keepalive;
        // Without acknowledgments this side cannot know how much of a broken transfer the peer kept (RFC 7242 5.3).
        let (node_id, critical, keeps_parts) = (contact.eid, false, both(can::ACKS) && both(can::PARTS));
        let init = SessionInit { keepalive_s, segment_mru, transfer_mru, node_id, critical, keeps_parts };
        ReadStep::Established(init)
    }

    /// Reads the next message; `None` if reading goes on.
    pub(crate) fn read_old_message(
        &mut self,
        now: Instant,
        reader: &mut PayloadReader<'_>,
        out: &mut impl Sink<Output>,
    ) -> Option<ReadStep> {
        let before = reader.clone();
        let message = match wire::read_message(reader) {
            Ok(message) => message,
            Err(NoMessage::Incomplete) => {
                *reader = before;
                return Some(ReadStep::Wait);
            }
            Err(NoMessage::UnknownType(_)) => return self.is_lost(now, "a message of unknown type"),
            Err(NoMessage::Broken(reason)) => return self.is_lost(now, reason),
        };
        if message != V3Message::Keepalive {
            self.last_used = now;
        }
        match message {
            V3Message::Keepalive => None,
            V3Message::Segment { flags, len } => self.on_old_segment(now, flags, len, out),
            V3Message::Length(total) => {
                let old = self.old.as_mut()?;
                let twice = old.announced.replace(total).is_some();
                // 7242-4.2-3
                // Two LENGTH messages in a row are the start of a second contact header, whose first bytes parse as
                // such.
                if twice { self.is_lost(now, "a LENGTH without a bundle") } else { None }
            }
            V3Message::Ack(acked) => {
                let before = self.outgoing.held_bytes();
                let result = self.outgoing.on_next_ack(acked);
                if self.outgoing.held_bytes() < before {
                    self.progress.answers = now;
                }
                self.on_old_answer(now, result, out, |id, link| Output::Sent { id, link })
            }
            V3Message::Refuse(code) => {
                let result = self.outgoing.on_next_refuse();
                self.progress.answers = now;
                let refused = wire::refusal_of(code);
                self.on_old_answer(now, result, out, |id, link| match refused {
                    // The peer already has the whole bundle (RFC 7242 5.4).
                    Some(Refusal::Duplicate) => Output::Sent { id, link },
                    _ => Output::SendFailed { id, link, refused },
                })
            }
            V3Message::Shutdown { delay_s, .. } => {
                // 7242-6.1-3
                let rest = |s: u64| if s == 0 { NEVER } else { Duration::from_secs(s).min(NEVER) };
                let leaving = Some(term::UNKNOWN);
                self.old = self.old.map(|old| V3State { rest: delay_s.map_or(old.rest, rest), leaving, ..old });
                Some(ReadStep::Left)
            }
        }
    }

    /// Ends the session after a fault. Transfers have no numbers, so both sides must count them alike; after a fault,
    /// nothing that follows can be trusted.
    // 7242-6.1-5
    fn is_lost(&mut self, now: Instant, reason: &'static str) -> Option<ReadStep> {
        self.terminate(now, term::UNKNOWN);
        Some(ReadStep::Over(reason))
    }

    // 7242-5.5-2
    fn on_old_segment(&mut self, now: Instant, flags: u8, len: u64, out: &mut impl Sink<Output>) -> Option<ReadStep> {
        self.progress.data = now;
        let ending = self.is_ending();
        let old = self.old.as_mut()?;
        let (total, refusals) = (old.announced.take(), old.terms.refusals);
        if flags & START != 0 {
            old.begun += 1;
        } else if total.is_some() {
            return self.is_lost(now, "a LENGTH without a bundle");
        }
        let head = SegmentHead { flags, id: old.begun, total, unacceptable: false, len };
        if let Err(Complaint { reason, .. }) = self.incoming.on_head(head, ending, out) {
            return self.is_lost(now, reason);
        }
        // A peer without refusals would take silence for acceptance, so the session must end.
        if self.incoming.is_refusing() && !refusals {
            self.terminate(now, term::BUSY);
            return Some(ReadStep::Over("a bundle to refuse, from a peer without refusals"));
        }
        // No data follows an empty segment, so its effects are due now.
        if len == 0 {
            self.incoming.on_data(Payload::new(), self.link.unwrap_or_default(), out);
        }
        None
    }

    fn on_old_answer(
        &mut self,
        now: Instant,
        result: Result<Option<SendId>, Nonsense>,
        out: &mut impl Sink<Output>,
        tell: impl FnOnce(SendId, LinkId) -> Output,
    ) -> Option<ReadStep> {
        match (result, self.link) {
            (Ok(Some(id)), Some(link)) => {
                self.note_read();
                out.push(tell(id, link));
            }
            (Ok(_), _) => {}
            (Err(Nonsense::UnknownTransfer), _) => return self.is_lost(now, "an answer without a bundle"),
            (Err(Nonsense::Miscounted), _) => return self.is_lost(now, "an answer out of order"),
        }
        None
    }

    /// Verdict as it can be sent to the peer. To a peer without refusals, lack of room cannot be expressed (`None`),
    /// and any other rejection is acknowledged as if accepted.
    pub(crate) fn sayable(&self, verdict: Result<(), u8>) -> Option<Result<(), u8>> {
        let silent = self.old.is_some_and(|old| !old.terms.refusals);
        match verdict {
            Err(code) if silent && wire::refusal_code(code) == 2 => None,
            Err(_) if silent => Some(Ok(())),
            verdict => Some(verdict),
        }
    }
    /// Whether the peer, of version 3, acknowledges nothing; a bundle then counts as sent when the peer's host has it.
    pub(crate) fn is_unacknowledged(&self) -> bool {
        self.old.is_some_and(|old| !old.terms.acks)
    }
    /// Handles a confirmation that the peer's host has the first `bytes` bytes of the stream; of use only without
    /// acknowledgments.
    pub(crate) fn on_confirmed(&mut self, now: Instant, bytes: u64, out: &mut impl Sink<Output>) {
        let Some(link) = self.link.filter(|_| self.is_unacknowledged()) else { return };
        for id in self.outgoing.on_confirmed(bytes) {
            self.progress.answers = now;
            out.push(Output::Sent { id, link });
        }
        self.note_read();
    }
    /// Queues SHUTDOWN if the session shall end and it was not queued yet. Nothing may follow it.
    // 7242-6.1-1, 7242-6.1-6
    pub(crate) fn put_goodbye(&mut self) {
        if let Some(reason) = self.old.and_then(|old| old.leaving).filter(|_| !self.term_sent) {
            self.term_sent = true;
            wire::put_shutdown(&mut self.control, reason);
        }
    }
    /// Whether this side has queued SHUTDOWN, after which it may send nothing (version 3).
    pub(crate) fn is_mute(&self) -> bool {
        self.old.is_some() && self.term_sent
    }
    /// The KEEPALIVE message of the session's version.
    pub(crate) fn keepalive_byte(&self) -> u8 {
        if self.old.is_some() { wire::KEEPALIVE } else { crate::tcpcl_v4::wire::kind::KEEPALIVE }
    }
}
