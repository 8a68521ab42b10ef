//! Sender of the transfers of one session (RFC 9174 5.2): cuts bundles into segments, sends them without waiting for
//! answers, and keeps track until the peer acknowledges or refuses. Only the next bytes of a long bundle are in memory;
//! more are requested while it leaves.

use super::wire::{END, START, put_segment};
use crate::streams::chunk_queue::{ChunkQueue, SHORT};
use crate::streams::waiting::{BundleQueue, Filling, OVERHEAD, WaitingBundle};
use crate::tcpcl_v3::{self, Terms};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use farlink_base::layer::SendId;
use farlink_base::{Bytes, Instant, Payload};

/// Data of the transfer being sent.
#[derive(Debug)]
struct TransferRest {
    /// Bytes in memory that are not in a segment yet.
    queue: ChunkQueue,
    filling: Filling,
}

/// A bundle that has begun to leave.
#[derive(Debug)]
struct UnackedTransfer {
    transfer: u64,
    send: SendId,
    total: u64,
    /// Bytes put into segments.
    sent: u64,
    acked: u64,
    /// Bytes by which the age update lengthened the bundle.
    grown: u64,
    /// Segments sent and not answered; in version 3 also the LENGTH message, which the peer may refuse as well.
    unanswered: u64,
    /// Whether a LENGTH message was sent (version 3).
    announced: bool,
    /// Stream offset of the bundle's end.
    end: u64,
}

/// Reason why an acknowledgment or refusal is invalid.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Nonsense {
    /// The transfer ID was never used.
    UnknownTransfer,
    /// More bytes are acknowledged than were sent, or the final acknowledgment covers less than the bundle.
    Miscounted,
}

/// Sending half of a session.
#[derive(Debug, Default)]
pub struct OutgoingTransfers {
    waiting: BundleQueue,
    /// Data of the transfer being sent, which is the last one in `flights`.
    rest: Option<TransferRest>,
    /// Transfers that have begun and are not finished, ordered by transfer ID.
    flights: VecDeque<UnackedTransfer>,
    /// Unacknowledged bytes of `flights`, and [`OVERHEAD`] for each.
    flight_bytes: u64,
    /// Bundles that expired, or became too long for the peer, before they could begin.
    late: Vec<SendId>,
    next_transfer: u64,
    /// Segments of a refused transfer that had left before the refusal arrived; a peer of version 3 may refuse each of
    /// them.
    crossing: u64,
    /// Largest segment, bytes: the smaller of both sides' limits.
    pub segment_limit: u64,
    /// Largest bundle that the peer accepts, bytes.
    pub transfer_limit: u64,
    /// Whether the peer keeps the acknowledged part of a broken transfer.
    pub keeps_parts: bool,
}

impl OutgoingTransfers {
    /// Queues a bundle; returns false if it is too large for the peer.
    // 9174-4.6-2
    pub fn push(&mut self, bundle: WaitingBundle) -> bool {
        let fits = bundle.total <= self.transfer_limit && bundle.part.len() <= bundle.total;
        if fits {
            self.waiting.push(bundle);
        }
        fits
    }
    /// Whether this bundle is being sent, and its next missing byte is `from` of the stored bundle.
    fn lacks(&self, send: SendId, from: u64) -> bool {
        self.rest.as_ref().is_some_and(|rest| rest.filling.lacks(send, from))
    }
    /// Takes further bytes of the bundle being sent; returns whether they are the next ones missing.
    pub fn give(&mut self, send: SendId, from: u64, part: &Payload) -> bool {
        let wanted = self.lacks(send, from);
        if let Some(rest) = self.rest.as_mut().filter(|_| wanted) {
            rest.queue.push(part);
            rest.filling.given += part.len();
        }
        wanted
    }
    /// Next range to request from the agent: transmission, first byte, length.
    pub fn want(&mut self) -> Option<(SendId, u64, u64)> {
        let (rest, flight) = (self.rest.as_mut()?, self.flights.back()?);
        rest.filling.want(flight.sent)
    }
    /// Whether this bundle has begun to leave and is not completely in segments.
    pub fn is_sending(&self, send: SendId) -> bool {
        self.rest.as_ref().is_some_and(|rest| rest.filling.send == send)
    }
    /// Bytes of bundles that have not begun to leave, including [`OVERHEAD`] for each.
    pub fn waiting_bytes(&self) -> u64 {
        self.waiting.bytes()
    }
    /// Bytes of all bundles not acknowledged, begun or not, including [`OVERHEAD`] for each.
    pub fn held_bytes(&self) -> u64 {
        self.waiting.bytes() + self.flight_bytes
    }
    /// Whether the peer owes an acknowledgment.
    pub fn is_unanswered(&self) -> bool {
        // All transfers but the last were sent completely, and one that is fully acknowledged is removed.
        self.flights.len() > 1 || self.flights.back().is_some_and(|flight| flight.sent > flight.acked)
    }
    /// Whether a bundle has begun to leave and is not answered.
    pub fn in_flight(&self) -> bool {
        !self.flights.is_empty()
    }
    /// Withdraws a bundle that has not begun to leave; returns whether it was queued.
    pub fn cancel(&mut self, send: SendId) -> bool {
        self.waiting.cancel(send)
    }
    /// Withdraws all bundles that have not begun to leave, in order.
    pub fn take_waiting(&mut self) -> VecDeque<WaitingBundle> {
        self.waiting.take()
    }
    /// Withdraws all bundles, for a session that has ended; each with the number of bytes that the peer keeps of it.
    pub fn take_all(&mut self) -> Vec<(SendId, u64)> {
        self.rest = None;
        self.flight_bytes = 0;
        let (keeps, flights) = (self.keeps_parts, core::mem::take(&mut self.flights));
        let waiting = self.take_waiting();
        let begun = flights
            .into_iter()
            .map(|flight| (flight.send, if keeps { flight.acked.saturating_sub(flight.grown) } else { 0 }));
        begun.chain(waiting.into_iter().map(|bundle| (bundle.send, 0))).collect()
    }

    /// Takes the bundles that expired, or became too long for the peer, before they could begin.
    pub fn take_late(&mut self) -> Vec<SendId> {
        core::mem::take(&mut self.late)
    }
    /// Takes the next bundle that can leave at `now`, and the number of bytes that its age update added.
    fn next_bundle(&mut self, now: Instant) -> Option<(WaitingBundle, u64)> {
        loop {
            match self.waiting.pop()?.leaves(now, self.transfer_limit) {
                Ok(leaves) => return Some(leaves),
                Err(send) => self.late.push(send),
            }
        }
    }

    /// Appends the next segment. Returns false if nothing is left to send, or if its bytes are not in memory. `begin`:
    /// current time if a new transfer may start, otherwise `None`. `old`: terms of a session of version 3.
    // 9174-4.6-1, 9174-5.2-1, 9174-5.2-2, 9174-5.2-3, 9174-5.2.1-1, 9174-5.2.1-3, 9174-5.2.2-1
    // 9174-5.2.2-4, 9174-5.2.2-5, 9174-5.2.2-6, 9174-5.2.2-7, 7242-3-1, 7242-5.2-1, 7242-5.2-2, 7242-5.2-3
    // 7242-5.2-4, 7242-5.2-5, 7242-5.5-1, 7242-5.5-2
    pub fn next_segment(&mut self, begin: Option<Instant>, old: Option<Terms>, out: &mut ChunkQueue) -> bool {
        let mut flags = 0;
        if self.rest.is_none() {
            let Some(now) = begin.filter(|_| self.segment_limit > 0) else { return false };
            let Some((WaitingBundle { send, total, part, .. }, grown)) = self.next_bundle(now) else { return false };
            self.flight_bytes += total + OVERHEAD;
            let transfer = self.next_transfer;
            self.next_transfer += 1;
            self.flights.push_back(UnackedTransfer {
                transfer,
                send,
                total,
                sent: 0,
                acked: 0,
                grown,
                unanswered: 0,
                announced: false,
                end: 0,
            });
            // Copying a short bundle into the queue costs less than sharing its chunk.
            if part.len() == total && total < SHORT.min(self.segment_limit) && old.is_none() {
                return self.put_whole(&part, out);
            }
            let filling = Filling::new(send, total, part.len(), grown);
            let mut rest = TransferRest { queue: ChunkQueue::default(), filling };
            rest.queue.push(&part);
            self.rest = Some(rest);
            flags |= START;
        }
        let (Some(rest), Some(flight)) = (&mut self.rest, self.flights.back_mut()) else { return false };
        if rest.queue.is_empty() && flight.sent < flight.total {
            return false;
        }
        let data = rest.queue.take(self.segment_limit);
        flight.sent += data.len();
        flight.unanswered += 1;
        if flight.sent == flight.total {
            flags |= END;
        }
        // RFC 9174 5.2.5.1: a transfer of one segment needs no length extension.
        let total = (flags & END == 0).then_some(flight.total);
        let mut head = Vec::with_capacity(35);
        match old {
            None => put_segment(&mut head, flags, flight.transfer, total, data.len()),
            Some(terms) => {
                if let Some(total) = total.filter(|_| terms.lengths && flags & START != 0) {
                    tcpcl_v3::put_length(&mut head, total);
                    (flight.announced, flight.unanswered) = (true, flight.unanswered + 1);
                }
                tcpcl_v3::put_segment(&mut head, flags, data.len());
            }
        }
        out.push_bytes(Bytes::from(head));
        out.push(&data);
        if flags & END != 0 {
            self.rest = None;
        }
        true
    }

    /// Appends a short bundle, all in memory, as one segment.
    // 9174-5.2.1-1, 9174-5.2.2-5
    fn put_whole(&mut self, part: &Payload, out: &mut ChunkQueue) -> bool {
        let Some(flight) = self.flights.back_mut() else { return false };
        (flight.sent, flight.unanswered) = (flight.total, 1);
        let mut head = Vec::with_capacity(35);
        put_segment(&mut head, START | END, flight.transfer, None, part.len());
        out.copy(&head);
        out.copy_rope(part);
        true
    }

    /// Records the stream offset at which the segment appended last ends.
    pub fn ends_at(&mut self, end: u64) {
        if let Some(flight) = self.flights.back_mut() {
            flight.end = end;
        }
    }
    /// Handles a confirmation that the peer's host has the first `bytes` bytes of the stream; returns the bundles that
    /// are completely within them.
    pub fn on_confirmed(&mut self, bytes: u64) -> Vec<SendId> {
        let whole = |flight: &&UnackedTransfer| flight.sent == flight.total && flight.end <= bytes;
        let count = self.flights.iter().take_while(whole).count();
        (0..count).filter_map(|_| self.remove(0)).collect()
    }

    /// Index of a transfer; `None` if it is finished already, because two answers to it crossed.
    // 9174-5.2.4-2
    fn find(&self, transfer: u64) -> Result<Option<usize>, Nonsense> {
        if transfer >= self.next_transfer {
            return Err(Nonsense::UnknownTransfer);
        }
        Ok(self.flights.binary_search_by_key(&transfer, |flight| flight.transfer).ok())
    }
    fn remove(&mut self, at: usize) -> Option<SendId> {
        let flight = self.flights.remove(at)?;
        self.flight_bytes -= flight.total - flight.acked + OVERHEAD;
        Some(flight.send)
    }
    /// Handles an acknowledgment; returns the bundle once all its bytes are acknowledged. `last`: the peer marked the
    /// acknowledgment as final. An acknowledgment of all bytes is final without the mark, too, because some peers never
    /// set it.
    pub fn on_ack(&mut self, transfer: u64, acked: u64, last: bool) -> Result<Option<SendId>, Nonsense> {
        let Some(at) = self.find(transfer)? else { return Ok(None) };
        let flight = &mut self.flights[at];
        if acked > flight.sent || (last && flight.sent == flight.total && acked < flight.total) {
            return Err(Nonsense::Miscounted);
        }
        let more = acked.saturating_sub(flight.acked);
        flight.acked += more;
        self.flight_bytes -= more;
        let complete = flight.acked == flight.total;
        Ok(if complete { self.remove(at) } else { None })
    }
    /// Handles an acknowledgment of version 3, which is for the first unfinished transfer (RFC 7242 5.3).
    pub fn on_next_ack(&mut self, acked: u64) -> Result<Option<SendId>, Nonsense> {
        let flight = self.flights.front_mut().ok_or(Nonsense::UnknownTransfer)?;
        if acked <= flight.acked {
            return Err(Nonsense::Miscounted);
        }
        self.crossing = 0;
        // An acknowledgment shows that the LENGTH message was not refused.
        let announced = u64::from(flight.announced && flight.acked == 0);
        flight.unanswered = flight.unanswered.saturating_sub(1 + announced);
        let transfer = flight.transfer;
        self.on_ack(transfer, acked, false)
    }
    /// Handles a refusal of version 3, which is for the first unfinished transfer. Some peers refuse a bundle once,
    /// some already at its LENGTH message (RFC 7242 5.5), some once per segment (5.4). A refusal that may repeat an
    /// earlier one or mean the next transfer is an error.
    // 7242-5.4-2, 7242-5.4-3, 7242-5.5-3
    pub fn on_next_refuse(&mut self) -> Result<Option<SendId>, Nonsense> {
        match self.flights.front() {
            None if self.crossing > 0 => {
                self.crossing -= 1;
                Ok(None)
            }
            None => Err(Nonsense::UnknownTransfer),
            Some(_) if self.crossing > 0 => Err(Nonsense::Miscounted),
            Some(flight) => {
                // This refusal answers one of the segments sent; the peer may refuse each of the others.
                self.crossing = flight.unanswered.saturating_sub(1);
                let transfer = flight.transfer;
                self.on_refuse(transfer)
            }
        }
    }
    /// Gives up a completely sent transfer, because the peer's state of it is unknown. `None` if part of it is still to
    /// be sent: a sender has no message to abort a transfer in progress.
    pub fn give_up(&mut self, transfer: u64) -> Option<SendId> {
        let at = self.find(transfer).ok()?.filter(|at| self.flights[*at].sent == self.flights[*at].total)?;
        self.remove(at)
    }
    /// Handles a refusal: no further segment of the transfer is begun. Returns its bundle, but only once: the peer
    /// repeats the refusal for each segment that crossed it (RFC 9174 5.2.4).
    // 9174-4.5-1, 9174-5.2.4-2, 9174-5.2.4-4, 9174-5.2.4-5
    pub fn on_refuse(&mut self, transfer: u64) -> Result<Option<SendId>, Nonsense> {
        let Some(at) = self.find(transfer)? else { return Ok(None) };
        if at + 1 == self.flights.len() {
            self.rest = None;
        }
        Ok(self.remove(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::streams::waiting::AHEAD;
    use farlink_base::Leaving;
    use farlink_base::layer::WINDOW;

    const NOW: Option<Instant> = Some(Instant(1));

    fn sender(limit: u64) -> OutgoingTransfers {
        OutgoingTransfers { segment_limit: limit, transfer_limit: 100, ..OutgoingTransfers::default() }
    }

    fn bundle(send: SendId, part: Payload) -> WaitingBundle {
        WaitingBundle { send, total: part.len(), part, leaving: Leaving::AS_IT_IS }
    }

    /// Keeps 9174-4.6-1, 9174-4.6-2, 9174-5.2-1, 9174-5.2-3, 9174-5.2.2-4, 9174-5.2.2-5.
    #[test]
    fn bundles_are_cut_pipelined_and_acknowledged() {
        let mut out = sender(4);
        assert!(out.push(bundle(SendId(1), Payload::from(&b"abcdefghij"[..]))));
        assert!(out.push(bundle(SendId(2), Payload::from(&b"xy"[..]))));
        assert!(!out.push(bundle(SendId(3), Payload::fill(0, 101))));
        let mut wire = ChunkQueue::default();
        let mut segments = 0;
        while out.next_segment(NOW, None, &mut wire) {
            segments += 1;
        }
        assert_eq!(segments, 4);
        // Three heads, the first with the length extension, and one of a bundle in a single segment.
        assert_eq!(wire.len(), 12 + (22 + 13) + 18 + 18 + 22);
        assert_eq!(out.on_ack(1, 2, false), Ok(Some(SendId(2))), "acknowledgments may overtake");
        assert_eq!(out.on_ack(0, 8, false), Ok(None));
        assert_eq!(out.on_ack(0, 4, false), Ok(None));
        assert_eq!(out.on_ack(0, 11, false), Err(Nonsense::Miscounted));
        assert_eq!(out.on_ack(0, 10, false), Ok(Some(SendId(1))));
        assert_eq!(out.on_ack(0, 10, false), Ok(None), "over");
        assert_eq!(out.on_ack(2, 10, false), Err(Nonsense::UnknownTransfer));
        assert_eq!((out.held_bytes(), out.in_flight()), (0, false));
    }

    /// Keeps 9174-4.5-1, 9174-5.2.4-4, 9174-5.2.4-5.
    #[test]
    fn refused_transfer_yields_to_next() {
        let mut out = sender(4);
        out.push(bundle(SendId(1), Payload::from(&b"abcdefghij"[..])));
        out.push(bundle(SendId(2), Payload::from(&b"xy"[..])));
        let mut wire = ChunkQueue::default();
        assert!(out.next_segment(NOW, None, &mut wire));
        assert_eq!(out.on_refuse(0), Ok(Some(SendId(1))));
        assert!(!out.next_segment(None, None, &mut wire), "no new transfer while ending");
        assert!(out.next_segment(NOW, None, &mut wire));
        assert_eq!(out.on_ack(1, 2, false), Ok(Some(SendId(2))));
        assert!(!out.next_segment(NOW, None, &mut wire));
    }

    #[test]
    fn unstarted_bundle_can_be_withdrawn() {
        let mut out = sender(4);
        out.push(bundle(SendId(1), Payload::from(&b"abcdefghij"[..])));
        out.push(bundle(SendId(2), Payload::from(&b"xy"[..])));
        out.next_segment(NOW, None, &mut ChunkQueue::default());
        assert!(!out.cancel(SendId(1)) && out.cancel(SendId(2)));
        out.push(bundle(SendId(3), Payload::from(&b"xy"[..])));
        assert_eq!(out.take_all(), [(SendId(1), 0), (SendId(3), 0)]);
        assert_eq!(out.held_bytes(), 0);
    }

    #[test]
    fn long_bundle_is_read_while_sent() {
        let total = 5 * WINDOW + 7;
        let mut out =
            OutgoingTransfers { segment_limit: WINDOW / 4, transfer_limit: u64::MAX, ..OutgoingTransfers::default() };
        assert!(out.push(WaitingBundle {
            send: SendId(1),
            total,
            part: Payload::fill(1, 100),
            leaving: Leaving::AS_IT_IS
        }));
        assert!(out.push(bundle(SendId(2), Payload::from(&b"xy"[..]))));
        assert_eq!(out.want(), None, "not begun");
        let (mut wire, mut asked) = (ChunkQueue::default(), VecDeque::new());
        let whole = Payload::fill(1, total);
        let mut most_here = 0;
        while out.next_segment(NOW, None, &mut wire) || !asked.is_empty() {
            while let Some(want) = out.want() {
                asked.push_back(want);
            }
            if let Some((send, from, len)) = asked.pop_front() {
                assert!(!out.give(send, from + 1, &whole.slice(from, len)), "not what was asked for");
                assert!(out.give(send, from, &whole.slice(from, len)));
                assert!(len <= WINDOW && from + len <= total);
            }
            most_here = most_here.max(out.rest.as_ref().map_or(0, |rest| rest.queue.len()));
        }
        assert!(most_here <= AHEAD + WINDOW, "{most_here} bytes in memory");
        assert!(!out.is_sending(SendId(1)) && out.flights.len() == 2, "both left completely");
        assert_eq!(out.on_ack(0, 4 * WINDOW, false), Ok(None));
        assert!(out.held_bytes() < 2 * WINDOW, "acknowledged bytes are released");
        assert_eq!(out.on_ack(0, total, false), Ok(Some(SendId(1))));
    }
}
