//! Receiver of the transfers of one session (RFC 9174 5.2): offers bundles while they arrive, and answers in order. The
//! final acknowledgment of a transfer waits for the agent's verdict, and every later acknowledgment waits behind it,
//! because peers match acknowledgments to segments in the order sent.

use super::used::UsedIds;
use super::wire::{END, START, SegmentHead, put_ack, put_refuse, refuse};
use crate::tcpcl_v3::{self, Terms};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use farlink_base::layer::{Output, Ticket};
use farlink_base::{LinkId, Payload, Sink};

/// Most transfers without a verdict before reading stops.
const MAX_UNDECIDED: usize = 1024;
/// Most pending acknowledgments before reading stops. A bound on bytes would not do, because segments may be empty.
const MAX_ACKS: usize = 1 << 16;

/// One incoming transfer, until its last answer is sent.
#[derive(Debug)]
struct IncomingTransfer {
    id: u64,
    /// Ticket of the transfer's offer; tickets in the queue are consecutive.
    ticket: Ticket,
    received: u64,
    /// Bytes that this node keeps even if the transfer breaks.
    kept: u64,
    total: Option<u64>,
    /// Pending acknowledgments: flags of the segment, bytes received up to its end.
    acks: VecDeque<(u8, u64)>,
    complete: bool,
    /// Verdict: accepted, or refused with this code; `None` if it is pending.
    verdict: Option<Result<(), u8>>,
}

/// The segment whose data is arriving.
#[derive(Debug)]
struct PartialSegment {
    flags: u8,
    left: u64,
    of: Of,
}
/// Transfer that a segment belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Of {
    Transfer,
    Refused(RefusedTransfer),
    /// No known transfer.
    Nothing,
}
/// A refused transfer, and the code of the refusal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct RefusedTransfer {
    id: u64,
    code: u8,
}

/// Fault of a segment; its data is still read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Complaint {
    pub reason: &'static str,
    /// Whether the session must end; otherwise the segment is rejected.
    pub fatal: bool,
}
const fn unexpected(reason: &'static str) -> Complaint {
    Complaint { reason, fatal: false }
}

/// Receiving half of a session.
#[derive(Debug)]
pub struct IncomingTransfers {
    /// Transfers not fully answered, oldest first; only the last can be incomplete.
    transfers: VecDeque<IncomingTransfer>,
    segment: Option<PartialSegment>,
    /// Refused transfer whose further segments may still arrive.
    discarding: Option<RefusedTransfer>,
    /// Refusals to repeat: one for each segment that arrived after its transfer was refused.
    again: Vec<RefusedTransfer>,
    undecided_bytes: u64,
    /// Number of pending acknowledgments of all transfers.
    acks: usize,
    /// Whether the peer has closed its half of the stream.
    ended: bool,
    /// Whether the agent paused the arriving transfer.
    held: bool,
    /// Whether the peer learns the verdicts on its transfers.
    reliable: bool,
    /// Least number of payload bytes for which the received part of a broken transfer is kept as a fragment. 0: no part
    /// is kept, because the peer does not count on acknowledged bytes being kept.
    parts: u64,
    segment_mru: u64,
    transfer_mru: u64,
    /// Number of the session, which is the upper half of its tickets.
    session: u32,
    next_ticket: u32,
    used: UsedIds,
}

impl IncomingTransfers {
    /// Creates the receiving half; `session` is the upper half of its tickets.
    pub fn new(session: u32, segment_mru: u64, transfer_mru: u64) -> Self {
        IncomingTransfers {
            session,
            next_ticket: 0,
            transfers: VecDeque::new(),
            segment: None,
            discarding: None,
            again: Vec::new(),
            used: UsedIds::default(),
            undecided_bytes: 0,
            acks: 0,
            ended: false,
            held: false,
            reliable: true,
            parts: 0,
            segment_mru,
            transfer_mru,
        }
    }
    /// Lifts the limit on the length of segments, which a receiver of version 3 cannot announce.
    pub fn without_segment_limit(&mut self) {
        self.segment_mru = u64::MAX;
    }
    /// Sets whether the peer learns the verdicts on its transfers.
    pub fn set_reliable(&mut self, reliable: bool) {
        self.reliable = reliable;
    }
    /// Makes acknowledgments cover only bytes that are kept if the transfer breaks; parts of fewer than `least` payload
    /// bytes are not kept. 0: bytes are acknowledged as they arrive.
    pub fn keep_parts(&mut self, least: u64) {
        self.parts = least;
    }
    /// Records how many bytes of a transfer are kept; returns whether an acknowledgment may leave now.
    pub fn on_kept(&mut self, ticket: Ticket, bytes: u64) -> bool {
        let Some(transfer) = self.find(ticket).filter(|transfer| transfer.verdict.is_none()) else { return false };
        transfer.kept = transfer.kept.max(bytes);
        transfer.acks.front().is_some_and(|(_, acked)| *acked <= transfer.kept)
    }
    fn find(&mut self, ticket: Ticket) -> Option<&mut IncomingTransfer> {
        let first = self.transfers.front().map_or(0, |transfer| transfer.ticket.0 as u32);
        self.transfers.get_mut((ticket.0 as u32).wrapping_sub(first) as usize)
    }
    /// Whether the arriving transfer was refused and has not ended; its further segments are discarded.
    pub fn is_refusing(&self) -> bool {
        self.transfers.back().is_some_and(|transfer| !transfer.complete && matches!(transfer.verdict, Some(Err(_))))
    }
    /// Bytes of the current segment that are still to come; `None` between segments.
    pub fn data_left(&self) -> Option<u64> {
        self.segment.as_ref().map(|segment| segment.left)
    }
    /// Whether a transfer or segment is incomplete.
    pub fn is_arriving(&self) -> bool {
        self.segment.is_some() || self.transfers.back().is_some_and(|transfer| !transfer.complete)
    }
    /// Whether every transfer that began is answered. Further segments of a refused transfer may still come.
    pub fn is_idle(&self) -> bool {
        self.transfers.is_empty() && self.segment.is_none() && self.again.is_empty()
    }
    /// Whether reading must pause, because the agent asked for it or too much awaits verdicts. `was_full`: reading is
    /// paused, and resumes only at half of each bound.
    pub fn is_full(&self, window_bytes: u64, was_full: bool) -> bool {
        let half = u32::from(was_full);
        self.held || self.undecided_bytes > window_bytes >> half || self.is_beyond(half)
    }
    /// Whether so many answers are pending that not even received bytes may be parsed.
    pub fn is_crowded(&self) -> bool {
        !self.ended && self.is_beyond(0)
    }
    /// Marks the end of input, so that everything received before is parsed regardless of the bounds.
    pub fn end(&mut self) {
        self.ended = true;
    }
    fn is_beyond(&self, half: u32) -> bool {
        self.transfers.len() > MAX_UNDECIDED >> half || self.acks > MAX_ACKS >> half
    }

    /// Pauses or resumes the transfer that arrives under this ticket; other tickets are ignored. Returns whether that
    /// changed anything.
    pub fn hold(&mut self, ticket: Ticket, held: bool) -> bool {
        let arriving = |transfer: &&IncomingTransfer| {
            transfer.ticket == ticket && !transfer.complete && transfer.verdict.is_none()
        };
        self.transfers.back().filter(arriving).is_some() && core::mem::replace(&mut self.held, held) != held
    }

    /// Handles the head of a segment. `ending`: the session is ending, so new transfers are refused.
    pub fn on_head(&mut self, head: SegmentHead, ending: bool, out: &mut impl Sink<Output>) -> Result<(), Complaint> {
        if head.len > self.segment_mru {
            return Err(Complaint { reason: "a segment longer than this node accepts", fatal: true });
        }
        let begun = if head.flags & START != 0 { self.begin(head, ending, out) } else { Ok(()) };
        let (flags, left) = (head.flags, head.len);
        let open = self.transfers.back_mut().filter(|transfer| !transfer.complete && transfer.id == head.id);
        let Some(transfer) = open else {
            let refused = self.discarding.filter(|refused| refused.id == head.id);
            self.segment = Some(PartialSegment { flags, left, of: refused.map_or(Of::Nothing, Of::Refused) });
            return if refused.is_some() { Ok(()) } else { Err(unexpected("a segment without a transfer")) };
        };
        if transfer.verdict.is_none() {
            let refusal = transfer.judge(head, self.transfer_mru);
            if let Some(code) = refusal {
                transfer.verdict = Some(Err(code));
                // The agent does not resume a transfer whose offer was aborted.
                self.held = false;
                if transfer.received > 0 {
                    out.push(Output::OfferAborted { ticket: transfer.ticket });
                }
            }
        }
        self.segment = Some(PartialSegment { flags, left, of: Of::Transfer });
        begun
    }

    // 9174-5.2.2-7, 9174-5.2.5-4, 9174-6.1-6, 9174-6.1-7
    fn begin(&mut self, head: SegmentHead, ending: bool, out: &mut impl Sink<Output>) -> Result<(), Complaint> {
        let mut result = Ok(());
        // RFC 9174 5.2: a transfer ends before the next begins, unless it is refused. The part received of one that did
        // not end is no bundle.
        if let Some(last) = self.transfers.back_mut().filter(|transfer| !transfer.complete) {
            if !matches!(last.verdict, Some(Err(_))) {
                result = Err(unexpected("a transfer that begins before the last one ended"));
                if last.verdict.is_none() && last.received > 0 {
                    out.push(Output::OfferAborted { ticket: last.ticket });
                }
                last.verdict = Some(Err(refuse::RETRANSMIT));
            }
            last.complete = true;
            self.held = false;
        }
        self.discarding = None;
        // RFC 9174 5.2.1: each transfer ID is used once per session.
        let verdict = if !self.used.insert(head.id) {
            Some(Err(refuse::NOT_ACCEPTABLE))
        } else if ending {
            Some(Err(refuse::TERMINATING))
        } else if head.unacceptable {
            Some(Err(refuse::EXTENSION))
        } else {
            None
        };
        let ticket = Ticket(u64::from(self.session) << 32 | u64::from(self.next_ticket));
        self.next_ticket = self.next_ticket.wrapping_add(1);
        self.transfers.push_back(IncomingTransfer {
            id: head.id,
            ticket,
            received: 0,
            kept: 0,
            total: head.total,
            acks: VecDeque::new(),
            complete: false,
            verdict,
        });
        result
    }

    /// Handles data of the current segment: at most [`IncomingTransfers::data_left`] bytes.
    // 9174-5.2.3-3, 7242-5.3-1, 7242-5.3-2
    pub fn on_data(&mut self, part: Payload, link: LinkId, out: &mut impl Sink<Output>) {
        let Some(segment) = &mut self.segment else { return };
        segment.left = segment.left.saturating_sub(part.len());
        let (ended, last) = (segment.left == 0, segment.left == 0 && segment.flags & END != 0);
        let (flags, of) = (segment.flags, segment.of);
        if ended {
            self.segment = None;
            // RFC 9174 5.2.4: segments that arrive after the refusal are refused, too.
            // 9174-5.2.4-6
            if let Of::Refused(refused) = of {
                self.again.push(refused);
            }
        }
        if of == Of::Nothing {
            return;
        }
        let Some(transfer) = self.transfers.back_mut().filter(|transfer| !transfer.complete) else {
            if last {
                self.discarding = None;
            }
            return;
        };
        let first = transfer.received == 0;
        transfer.received += part.len();
        if transfer.verdict.is_none() && (last || !part.is_empty()) {
            let IncomingTransfer { ticket, total, .. } = *transfer;
            if first && !last && self.parts > 0 {
                out.push(Output::InParts { ticket, link, least: self.parts });
            }
            out.push(Output::Offer { ticket, link, part, last, total, reliable: self.reliable });
        }
        if ended {
            transfer.acks.push_back((flags, transfer.received));
            self.acks += 1;
        }
        if last {
            transfer.complete = true;
            self.held = false;
            if transfer.verdict.is_none() {
                self.undecided_bytes += transfer.received;
            }
        }
    }

    /// Records the agent's verdict; returns false if the transfer is unknown or already has one.
    pub fn on_verdict(&mut self, ticket: Ticket, verdict: Result<(), u8>) -> bool {
        let Some(transfer) = self.find(ticket).filter(|transfer| transfer.verdict.is_none()) else { return false };
        transfer.verdict = Some(verdict);
        let (complete, received) = (transfer.complete, transfer.received);
        // A verdict on the arriving transfer ends its hold.
        self.held &= complete;
        if complete {
            self.undecided_bytes -= received;
        }
        true
    }

    /// Appends all answers that may leave now. `old`: the terms of a session of version 3, in which each bundle is
    /// refused only once, because a peer would apply a second refusal to its next bundle.
    // 9174-5.2.3-3, 9174-5.2.4-1, 9174-5.2.4-3, 7242-5.3-1, 7242-5.4-1
    pub fn put_answers(&mut self, old: Option<Terms>, out: &mut Vec<u8>) {
        let parts = self.parts > 0;
        let again = self.again.drain(..).filter(|_| old.is_none());
        again.for_each(|refused| put_refuse(out, refused.code, refused.id));
        while let Some(transfer) = self.transfers.front_mut() {
            if let Some(Err(code)) = transfer.verdict {
                match old {
                    None => put_refuse(out, code, transfer.id),
                    Some(terms) if terms.refusals => tcpcl_v3::put_refuse(out, code),
                    Some(_) => {}
                }
                // The peer may have sent more segments before it reads the refusal.
                let refused = RefusedTransfer { id: transfer.id, code };
                self.discarding = (!transfer.complete).then_some(refused).or(self.discarding);
                self.acks -= transfer.acks.len();
                self.transfers.pop_front();
                continue;
            }
            let accepted = transfer.complete && transfer.verdict.is_some();
            while let Some((flags, bytes)) = transfer.acks.front().copied() {
                if !accepted && (flags & END != 0 || (parts && bytes > transfer.kept)) {
                    return;
                }
                match old {
                    None => put_ack(out, flags, transfer.id, bytes),
                    Some(terms) if terms.acks => tcpcl_v3::put_ack(out, bytes),
                    Some(_) => {}
                }
                transfer.acks.pop_front();
                self.acks -= 1;
            }
            if !accepted {
                return;
            }
            self.transfers.pop_front();
        }
    }

    pub fn number(&self) -> u32 {
        self.session
    }
    /// Forgets all transfers, because the session has ended and verdicts come too late.
    pub fn forget(&mut self) {
        self.transfers.clear();
        self.forget_unfinished();
        (self.undecided_bytes, self.acks) = (0, 0);
    }
    /// Forgets the incomplete transfer, because its rest will not arrive.
    pub fn forget_unfinished(&mut self) {
        if let Some(unfinished) = self.transfers.pop_back_if(|transfer| !transfer.complete) {
            self.acks -= unfinished.acks.len();
        }
        self.segment = None;
        self.discarding = None;
        self.held = false;
    }
    /// Ticket of the incomplete transfer that was offered and not decided; its offer must be aborted when the session
    /// ends.
    pub fn unfinished_offer(&self) -> Option<Ticket> {
        let last = self.transfers.back()?;
        let offered = !last.complete && last.verdict.is_none() && last.received > 0;
        offered.then_some(last.ticket)
    }
}

/// Session number of a ticket, which is its upper half.
pub fn session_of(ticket: Ticket) -> u32 {
    (ticket.0 >> 32) as u32
}

impl IncomingTransfer {
    /// Code with which a transfer is refused because of the head of its next segment; `None` if the head is acceptable.
    // 9174-5.2.5.1-2, 9174-5.2.5.1-4, 9174-5.2.5.1-5
    fn judge(&self, head: SegmentHead, transfer_mru: u64) -> Option<u8> {
        let end = self.received.saturating_add(head.len);
        let last = head.flags & END != 0;
        if end > transfer_mru || self.total.is_some_and(|total| total > transfer_mru) {
            return Some(refuse::NO_RESOURCES);
        }
        // RFC 9174 5.2.5.1: the announced length is authoritative. A bundle is never empty.
        let contradicts = self.total.is_some_and(|total| end > total || (last && end != total));
        (contradicts || (last && end == 0)).then_some(refuse::NOT_ACCEPTABLE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINK: LinkId = LinkId(1);

    fn head(flags: u8, id: u64, len: u64) -> SegmentHead {
        SegmentHead { flags, id, total: None, unacceptable: false, len }
    }
    fn feed(incoming: &mut IncomingTransfers, head: SegmentHead, out: &mut Vec<Output>) -> Result<(), Complaint> {
        incoming.on_head(head, false, out)?;
        incoming.on_data(Payload::fill(1, head.len), LINK, out);
        Ok(())
    }
    fn answers(incoming: &mut IncomingTransfers) -> Vec<u8> {
        let mut out = Vec::new();
        incoming.put_answers(None, &mut out);
        out
    }

    /// Keeps 9174-5.2.3-3, 9174-5.2.4-3.
    #[test]
    fn final_acknowledgments_await_verdicts_in_order() {
        let mut incoming = IncomingTransfers::new(0, 1000, 10_000);
        let mut out = Vec::new();
        feed(&mut incoming, head(START, 0, 10), &mut out).unwrap();
        assert_eq!(answers(&mut incoming).len(), 18, "intermediate acknowledgments do not wait");
        feed(&mut incoming, head(END, 0, 5), &mut out).unwrap();
        feed(&mut incoming, head(START | END, 1, 7), &mut out).unwrap();
        assert!(incoming.on_verdict(Ticket(1), Ok(())));
        assert!(answers(&mut incoming).is_empty());
        assert!(incoming.on_verdict(Ticket(0), Ok(())) && !incoming.on_verdict(Ticket(0), Ok(())));
        let bytes = answers(&mut incoming);
        assert_eq!((bytes.len(), bytes[9], bytes[17], bytes[27], bytes[35]), (36, 0, 15, 1, 7));
        assert!(incoming.is_idle());
        let lasts: Vec<bool> =
            out.iter().map(|o| if let Output::Offer { last, .. } = o { *last } else { panic!() }).collect();
        assert_eq!(lasts, [false, true, true]);
    }

    /// Keeps 9174-5.2.4-3.
    #[test]
    fn refusal_waits_for_earlier_answers() {
        let mut incoming = IncomingTransfers::new(0, 1000, 10_000);
        for id in 0..3 {
            feed(&mut incoming, head(START | END, id, 7), &mut Vec::new()).unwrap();
        }
        assert!(incoming.on_verdict(Ticket(1), Err(refuse::NO_RESOURCES)) && incoming.on_verdict(Ticket(2), Ok(())));
        assert!(answers(&mut incoming).is_empty());
        assert!(incoming.on_verdict(Ticket(0), Ok(())));
        let bytes = answers(&mut incoming);
        assert_eq!((bytes.len(), bytes[0], bytes[9]), (18 + 10 + 18, 2, 0));
        assert_eq!((&bytes[18..20], bytes[27], bytes[28], bytes[37]), (&[3, 2][..], 1, 2, 2));
    }

    /// Keeps 9174-5.2.4-6.
    #[test]
    fn refused_transfer_is_discarded() {
        for ends in [false, true] {
            let mut incoming = IncomingTransfers::new(0, 1000, 10_000);
            let mut out = Vec::new();
            feed(&mut incoming, head(START, 0, 10), &mut out).unwrap();
            assert!(incoming.on_verdict(Ticket(0), Err(refuse::NO_RESOURCES)));
            assert_eq!(answers(&mut incoming), [3, 2, 0, 0, 0, 0, 0, 0, 0, 0]);
            out.clear();
            feed(&mut incoming, head(0, 0, 10), &mut out).unwrap();
            assert_eq!(answers(&mut incoming), [3, 2, 0, 0, 0, 0, 0, 0, 0, 0], "each later segment is refused again");
            if ends {
                feed(&mut incoming, head(END, 0, 10), &mut out).unwrap();
                assert_eq!(answers(&mut incoming).len(), 10);
                assert!(incoming.is_idle());
            }
            assert!(out.is_empty());
            feed(&mut incoming, head(START | END, 1, 10), &mut out).unwrap();
            assert_eq!(out.len(), 1);
            assert!(feed(&mut incoming, head(END, 0, 1), &mut out).is_err());
        }
    }

    /// Keeps 9174-5.2.5-4, 9174-5.2.5.1-4, 9174-5.2.5.1-5.
    #[test]
    fn limits_and_lies_are_refused() {
        for (head, code) in [
            (head(START, 0, 1001), None),
            (SegmentHead { total: Some(10_001), ..head(START, 0, 5) }, Some(refuse::NO_RESOURCES)),
            (SegmentHead { total: Some(4), ..head(START, 0, 5) }, Some(refuse::NOT_ACCEPTABLE)),
            (SegmentHead { total: Some(6), ..head(START | END, 0, 5) }, Some(refuse::NOT_ACCEPTABLE)),
            (head(START | END, 0, 0), Some(refuse::NOT_ACCEPTABLE)),
            (SegmentHead { unacceptable: true, ..head(START, 0, 5) }, Some(refuse::EXTENSION)),
        ] {
            let mut incoming = IncomingTransfers::new(0, 1000, 10_000);
            let mut out = Vec::new();
            let result = feed(&mut incoming, head, &mut out);
            assert_eq!(result.is_ok(), code.is_some());
            assert!(out.is_empty());
            assert_eq!(answers(&mut incoming).get(1).copied(), code, "{head:?}");
        }
        let mut incoming = IncomingTransfers::new(0, 1000, 10_000);
        assert!(feed(&mut incoming, head(0, 0, 1), &mut Vec::new()).is_err(), "no START");
        feed(&mut incoming, head(START, 0, 1), &mut Vec::new()).unwrap();
        assert!(feed(&mut incoming, head(START, 1, 1), &mut Vec::new()).is_err(), "interleaved");
    }

    /// Keeps 9174-5.2.5.1-2.
    #[test]
    fn endless_transfer_stops_at_limit() {
        let mut incoming = IncomingTransfers::new(0, 1000, 2500);
        let mut out = Vec::new();
        feed(&mut incoming, head(START, 0, 1000), &mut out).unwrap();
        feed(&mut incoming, head(0, 0, 1000), &mut out).unwrap();
        out.clear();
        feed(&mut incoming, head(0, 0, 1000), &mut out).unwrap();
        assert!(matches!(out[..], [Output::OfferAborted { ticket: Ticket(0) }]));
        assert!(answers(&mut incoming).ends_with(&[3, 2, 0, 0, 0, 0, 0, 0, 0, 0]));
    }

    #[test]
    fn much_undecided_stops_the_reading() {
        // Reading resumes at half of the bound.
        let mut incoming = IncomingTransfers::new(0, 1000, 10_000);
        for id in 0..3 {
            feed(&mut incoming, head(START | END, id, 1000), &mut Vec::new()).unwrap();
        }
        assert!(incoming.is_full(2500, false));
        incoming.on_verdict(Ticket(0), Ok(()));
        assert!(!incoming.is_full(2500, false) && incoming.is_full(2500, true));
    }

    #[test]
    fn held_transfer_pauses_reading() {
        for release in 0..3 {
            let mut incoming = IncomingTransfers::new(0, 1000, 10_000);
            feed(&mut incoming, head(START, 0, 10), &mut Vec::new()).unwrap();
            assert!(!incoming.hold(Ticket(7), true), "another");
            assert!(incoming.hold(Ticket(0), true) && incoming.is_full(2500, true));
            match release {
                0 => assert!(incoming.hold(Ticket(0), false)),
                1 => assert!(incoming.on_verdict(Ticket(0), Err(refuse::NO_RESOURCES))),
                _ => feed(&mut incoming, head(END, 0, 10), &mut Vec::new()).unwrap(),
            }
            assert!(!incoming.is_full(2500, true));
            assert!(!incoming.hold(Ticket(0), true) || release == 0);
        }
    }

    #[test]
    fn late_resume_of_earlier_transfer_is_ignored() {
        let mut incoming = IncomingTransfers::new(0, 1000, 10_000);
        feed(&mut incoming, head(START | END, 0, 10), &mut Vec::new()).unwrap();
        feed(&mut incoming, head(START, 1, 10), &mut Vec::new()).unwrap();
        assert!(incoming.hold(Ticket(1), true));
        for held in [false, true] {
            assert!(!incoming.hold(Ticket(0), held) && incoming.is_full(2500, true));
        }
        assert!(incoming.hold(Ticket(1), false) && !incoming.is_full(2500, true));
    }

    #[test]
    fn held_transfer_refused_here_resumes_reading() {
        let mut incoming = IncomingTransfers::new(0, 1000, 15);
        feed(&mut incoming, head(START, 0, 10), &mut Vec::new()).unwrap();
        assert!(incoming.hold(Ticket(0), true));
        let mut out = Vec::new();
        feed(&mut incoming, head(0, 0, 10), &mut out).unwrap();
        assert!(matches!(out[..], [Output::OfferAborted { ticket: Ticket(0) }]), "longer than this node accepts");
        assert!(!incoming.is_full(2500, true));
    }
}
