//! Transfers this side receives over one session (RFC 9174 5.2): offered while they arrive,
//! acknowledged in order. The last acknowledgment of a transfer waits for its verdict, and every
//! later one waits behind it: peers match acknowledgments with what they sent in the order sent.

use super::wire::{END, START, SegmentHead, put_ack, put_refuse, refuse};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use farlink_base::layer::{Output, Ticket};
use farlink_base::{LinkId, Payload, Sink};

/// Transfers received and not yet decided, beyond which reading stops.
const MAX_UNDECIDED: usize = 1024;

/// One transfer, until the last word about it is sent.
#[derive(Debug)]
struct Transfer {
    id: u64,
    /// What it is offered as; tickets in the queue have no gaps.
    ticket: Ticket,
    received: u64,
    total: Option<u64>,
    /// Acknowledgments owed: segment flags, bytes so far.
    acks: VecDeque<(u8, u64)>,
    complete: bool,
    /// Accepted, or refused with this code.
    verdict: Option<Result<(), u8>>,
}

/// The segment whose data is arriving.
#[derive(Debug)]
struct Segment {
    flags: u8,
    left: u64,
    discard: bool,
}

/// The receiving half of a session.
#[derive(Debug)]
pub struct Incoming {
    /// Oldest first; only the last can be incomplete.
    transfers: VecDeque<Transfer>,
    segment: Option<Segment>,
    /// A refused transfer whose segments may still come.
    discarding: Option<u64>,
    undecided_bytes: u64,
    /// The transfer that is arriving is not welcome for now.
    held: bool,
    segment_mru: u64,
    transfer_mru: u64,
    /// Number of the session, the upper half of its tickets.
    session: u32,
    next_ticket: u32,
    /// Largest transfer ID so far.
    highest: Option<u64>,
}

impl Incoming {
    /// Nothing received yet. `session` is the upper half of its tickets.
    pub fn new(session: u32, segment_mru: u64, transfer_mru: u64) -> Self {
        Incoming {
            session,
            next_ticket: 0,
            highest: None,
            transfers: VecDeque::new(),
            segment: None,
            discarding: None,
            undecided_bytes: 0,
            held: false,
            segment_mru,
            transfer_mru,
        }
    }
    /// Data bytes of the current segment still to come.
    pub fn data_left(&self) -> Option<u64> {
        self.segment.as_ref().map(|segment| segment.left)
    }
    /// Whether more of a transfer is to come.
    pub fn is_arriving(&self) -> bool {
        self.segment.is_some() || self.transfers.back().is_some_and(|transfer| !transfer.complete)
    }
    /// Whether every transfer is answered.
    pub fn is_idle(&self) -> bool {
        self.transfers.is_empty() && self.segment.is_none() && self.discarding.is_none()
    }
    /// Whether so much waits for verdicts that reading should stop; it may go on at half of it.
    pub fn is_full(&self, window_bytes: u64, was_full: bool) -> bool {
        let half = u32::from(was_full);
        self.held || self.undecided_bytes > window_bytes >> half || self.transfers.len() > MAX_UNDECIDED >> half
    }

    /// The parts of this transfer are not welcome for now, or are again; whether that changes
    /// anything.
    pub fn hold(&mut self, ticket: Ticket, held: bool) -> bool {
        let arriving =
            |transfer: &&Transfer| transfer.ticket == ticket && !transfer.complete && transfer.verdict.is_none();
        let held = held && self.transfers.back().filter(arriving).is_some();
        core::mem::replace(&mut self.held, held) != held
    }

    /// A segment begins; `ending` refuses new transfers.
    pub fn on_head(
        &mut self,
        head: SegmentHead,
        ending: bool,
        out: &mut impl Sink<Output>,
    ) -> Result<(), &'static str> {
        if head.len > self.segment_mru {
            return Err("a segment longer than this node takes");
        }
        if head.flags & START != 0 {
            self.begin(head, ending)?;
        }
        let open = self.transfers.back_mut().filter(|transfer| !transfer.complete && transfer.id == head.id);
        let Some(transfer) = open else {
            if self.discarding != Some(head.id) {
                return Err("a segment of no transfer");
            }
            self.segment = Some(Segment { flags: head.flags, left: head.len, discard: true });
            return Ok(());
        };
        if transfer.verdict.is_none() {
            let refusal = transfer.judge(head, self.transfer_mru);
            if let Some(code) = refusal {
                transfer.verdict = Some(Err(code));
                if transfer.received > 0 {
                    out.push(Output::OfferAborted { ticket: transfer.ticket });
                }
            }
        }
        let discard = !matches!(transfer.verdict, None | Some(Ok(())));
        self.segment = Some(Segment { flags: head.flags, left: head.len, discard });
        Ok(())
    }

    fn begin(&mut self, head: SegmentHead, ending: bool) -> Result<(), &'static str> {
        // RFC 9174 5.2.3: a transfer not refused ends before the next begins.
        if let Some(last) = self.transfers.back_mut().filter(|transfer| !transfer.complete) {
            if !matches!(last.verdict, Some(Err(_))) {
                return Err("a transfer that begins before the last one ended");
            }
            last.complete = true;
        }
        self.discarding = None;
        // Nearly every peer counts up: then there is nothing to look through.
        let new = self.highest.is_none_or(|highest| head.id > highest);
        if !new && self.transfers.iter().any(|transfer| transfer.id == head.id) {
            return Err("a transfer ID used twice");
        }
        self.highest = self.highest.max(Some(head.id));
        let verdict = if ending {
            Some(Err(refuse::TERMINATING))
        } else if head.unacceptable {
            Some(Err(refuse::EXTENSION))
        } else {
            None
        };
        let ticket = Ticket(u64::from(self.session) << 32 | u64::from(self.next_ticket));
        self.next_ticket = self.next_ticket.wrapping_add(1);
        self.transfers.push_back(Transfer {
            id: head.id,
            ticket,
            received: 0,
            total: head.total,
            acks: VecDeque::new(),
            complete: false,
            verdict,
        });
        Ok(())
    }

    /// Data of the current segment, at most [`Incoming::data_left`].
    pub fn on_data(&mut self, part: Payload, link: LinkId, out: &mut impl Sink<Output>) {
        let Some(segment) = &mut self.segment else { return };
        segment.left = segment.left.saturating_sub(part.len());
        let (ended, last) = (segment.left == 0, segment.left == 0 && segment.flags & END != 0);
        let (flags, discard) = (segment.flags, segment.discard);
        if ended {
            self.segment = None;
        }
        let Some(transfer) = self.transfers.back_mut().filter(|transfer| !transfer.complete) else {
            if last {
                self.discarding = None;
            }
            return;
        };
        transfer.received += part.len();
        if !discard && transfer.verdict.is_none() && (last || !part.is_empty()) {
            let Transfer { ticket, total, .. } = *transfer;
            out.push(Output::Offer { ticket, link, part, last, total, reliable: true });
        }
        if ended {
            transfer.acks.push_back((flags, transfer.received));
        }
        if last {
            transfer.complete = true;
            self.held = false;
            if transfer.verdict.is_none() {
                self.undecided_bytes += transfer.received;
            }
        }
    }

    /// The agent decided; whether the transfer was waiting for it.
    pub fn on_verdict(&mut self, ticket: Ticket, verdict: Result<(), u8>) -> bool {
        let first = self.transfers.front().map_or(0, |transfer| transfer.ticket.0 as u32);
        let at = (ticket.0 as u32).wrapping_sub(first) as usize;
        let Some(transfer) = self.transfers.get_mut(at).filter(|transfer| transfer.verdict.is_none()) else {
            return false;
        };
        transfer.verdict = Some(verdict);
        self.held &= transfer.complete;
        if transfer.complete {
            self.undecided_bytes -= transfer.received;
        }
        true
    }

    /// Appends every acknowledgment and refusal that may leave now.
    pub fn put_answers(&mut self, out: &mut Vec<u8>) {
        while let Some(transfer) = self.transfers.front_mut() {
            if let Some(Err(code)) = transfer.verdict {
                put_refuse(out, code, transfer.id);
                // The peer may have sent more of it before it reads the refusal.
                self.discarding = (!transfer.complete).then_some(transfer.id).or(self.discarding);
                self.transfers.pop_front();
                continue;
            }
            let accepted = transfer.complete && transfer.verdict.is_some();
            while let Some((flags, bytes)) = transfer.acks.front().copied() {
                if flags & END != 0 && !accepted {
                    return;
                }
                put_ack(out, flags, transfer.id, bytes);
                transfer.acks.pop_front();
            }
            if !accepted {
                return;
            }
            self.transfers.pop_front();
        }
    }

    /// Number of the session.
    pub fn number(&self) -> u32 {
        self.session
    }
    /// Forgets every transfer: the session is over, verdicts come too late.
    pub fn forget(&mut self) {
        self.transfers.clear();
        self.segment = None;
        self.discarding = None;
        self.undecided_bytes = 0;
        self.held = false;
    }
    /// The offer to be called off when the session is over: that of a transfer not complete.
    pub fn unfinished_offer(&self) -> Option<Ticket> {
        let last = self.transfers.back()?;
        let offered = !last.complete && last.verdict.is_none() && last.received > 0;
        offered.then_some(last.ticket)
    }
}

/// The session a ticket belongs to.
pub fn session_of(ticket: Ticket) -> u32 {
    (ticket.0 >> 32) as u32
}

impl Transfer {
    /// The code to refuse it with for what this segment announces.
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
    fn feed(incoming: &mut Incoming, head: SegmentHead, out: &mut Vec<Output>) -> Result<(), &'static str> {
        incoming.on_head(head, false, out)?;
        incoming.on_data(Payload::fill(1, head.len), LINK, out);
        Ok(())
    }
    fn answers(incoming: &mut Incoming) -> Vec<u8> {
        let mut out = Vec::new();
        incoming.put_answers(&mut out);
        out
    }

    #[test]
    fn last_acknowledgments_wait_for_their_verdicts_and_leave_in_order() {
        let mut incoming = Incoming::new(0, 1000, 10_000);
        let mut out = Vec::new();
        feed(&mut incoming, head(START, 0, 10), &mut out).unwrap();
        assert_eq!(answers(&mut incoming).len(), 18, "intermediate ones do not wait");
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

    #[test]
    fn a_transfer_refused_on_its_way_is_discarded_to_its_end_or_to_the_next() {
        for ends in [false, true] {
            let mut incoming = Incoming::new(0, 1000, 10_000);
            let mut out = Vec::new();
            feed(&mut incoming, head(START, 0, 10), &mut out).unwrap();
            assert!(incoming.on_verdict(Ticket(0), Err(refuse::NO_RESOURCES)));
            assert_eq!(answers(&mut incoming), [3, 2, 0, 0, 0, 0, 0, 0, 0, 0]);
            out.clear();
            feed(&mut incoming, head(0, 0, 10), &mut out).unwrap();
            if ends {
                feed(&mut incoming, head(END, 0, 10), &mut out).unwrap();
                assert!(incoming.is_idle());
            }
            assert!(out.is_empty());
            feed(&mut incoming, head(START | END, 1, 10), &mut out).unwrap();
            assert_eq!(out.len(), 1);
            assert!(feed(&mut incoming, head(END, 0, 1), &mut out).is_err());
        }
    }

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
            let mut incoming = Incoming::new(0, 1000, 10_000);
            let mut out = Vec::new();
            let result = feed(&mut incoming, head, &mut out);
            assert_eq!(result.is_ok(), code.is_some());
            assert!(out.is_empty());
            assert_eq!(answers(&mut incoming).get(1).copied(), code, "{head:?}");
        }
        let mut incoming = Incoming::new(0, 1000, 10_000);
        assert!(feed(&mut incoming, head(0, 0, 1), &mut Vec::new()).is_err(), "no START");
        feed(&mut incoming, head(START, 0, 1), &mut Vec::new()).unwrap();
        assert!(feed(&mut incoming, head(START, 1, 1), &mut Vec::new()).is_err(), "interleaved");
    }

    #[test]
    fn a_transfer_without_end_stops_at_the_limit() {
        let mut incoming = Incoming::new(0, 1000, 2500);
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
        let mut incoming = Incoming::new(0, 1000, 10_000);
        for id in 0..3 {
            feed(&mut incoming, head(START | END, id, 1000), &mut Vec::new()).unwrap();
        }
        assert!(incoming.is_full(2500, false));
        incoming.on_verdict(Ticket(0), Ok(()));
        assert!(!incoming.is_full(2500, false) && incoming.is_full(2500, true));
    }

    #[test]
    fn a_transfer_on_hold_stops_the_reading_until_it_is_resumed_refused_or_over() {
        for release in 0..3 {
            let mut incoming = Incoming::new(0, 1000, 10_000);
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
}
