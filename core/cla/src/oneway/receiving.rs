//! Streams opened by peers, over which bundles arrive. The protocol gives the sender no answer, so bundles that the
//! node has no room for are kept and offered again. Meanwhile the stream is not read, and TCP holds the sender back.

use super::Config;
use super::framing::Framing;
use super::kept::{BUNDLE_MAX, BundleCopy, CopyMemory, RetryWait};
use crate::streams::PART_BYTES;
use crate::streams::inbox::Inbox;
use crate::streams::timing::Deadlines;
use alloc::collections::VecDeque;
use core::net::IpAddr;
use farlink_base::layer::{Output, Ticket};
use farlink_base::{Duration, Instant, LinkId, Payload, PayloadReader, Sink, StreamId, TimerKey};

/// Most bytes of all streams together that wait until they make up a part to offer; divided equally among the streams.
const PARTS_BYTES: u64 = 4 << 20;
/// Least length of a part, bytes, however many streams there are.
const PART_LEAST: u64 = 1 << 10;
/// Fewest bytes of a bundle offered at once, given the number of streams. Data already offered belongs to the agent and
/// does not count.
pub(super) fn least_part(streams: usize) -> u64 {
    (PARTS_BYTES / (streams as u64).max(1)).clamp(PART_LEAST, PART_BYTES)
}
/// Most bundles awaiting a verdict, and most bytes of them, before reading stops.
const UNDECIDED_MAX: usize = 1024;
const UNDECIDED_BYTES: u64 = 16 << 20;
/// Most bundles that were refused for lack of room and not accepted since, and most bytes of them, before reading
/// stops. Until then reading goes on, because other bundles may fit.
const REFUSED_MAX: usize = 256;
const REFUSED_BYTES: u64 = 1 << 20;
/// Most bundles begun at one instant; the rest of the input waits for the next instant. A read buffer of genuine
/// bundles holds fewer.
const BEGUN_MAX: u32 = 4096;
/// Smallest step of time, for a timer at the next instant.
const NEXT: Duration = Duration::from_nanos(1);
/// A bundle of which bytes are missing.
#[derive(Debug)]
pub(super) struct ArrivingBundle {
    pub total: u64,
    pub received: u64,
    pub copy: BundleCopy,
    pub offered: Instant,
    pub refused: Option<Instant>,
    pub state: ArrivalState,
}
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ArrivalState {
    /// Offered to the agent part by part.
    Offered(Ticket),
    /// Refused for lack of room, and offered again later from its copy. If a copy can hold the whole bundle, the
    /// remaining bytes are still read.
    Refused,
    /// Decided by the agent already; the remaining bytes are read and dropped.
    Unwanted,
}
/// A complete bundle that awaits a verdict or its next offer.
#[derive(Debug)]
pub(super) struct Whole {
    pub total: u64,
    pub copy: BundleCopy,
    /// Time of the bundle's first offer, and of its first refusal for lack of room (`None`: not refused).
    pub offered: Instant,
    pub refused: Option<Instant>,
}

/// Result of checking the deadlines of a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ReceivingDue {
    /// Check again at this time; `None`: no deadline.
    Later(Option<Instant>),
    /// Offer the refused bundles again now.
    Offer,
    /// Close the stream, because the peer is silent or stalled.
    Dead,
}

/// A stream opened by a peer.
#[derive(Debug)]
pub(super) struct ReceivingStream {
    pub stream: StreamId,
    pub link: LinkId,
    pub from: IpAddr,
    /// Number of the stream, which is the upper half of its tickets.
    pub number: u32,
    pub timer: Option<TimerKey>,
    /// Link to which the stream moves before its next bundle.
    pub moves_to: Option<LinkId>,
    /// Whether the stream is open; once closed it only awaits verdicts.
    pub open: bool,
    /// Whether reading is paused.
    pub paused: bool,
    /// Whether the peer has sent any byte.
    pub heard: bool,
    pub last_received: Instant,
    /// Received bytes not parsed yet.
    inbox: Inbox,
    pub arrival: Option<ArrivingBundle>,
    /// Whether the agent paused the arriving bundle ([`Input::Hold`](farlink_base::layer::Input::Hold)).
    pub held: bool,
    /// Complete bundles awaiting a verdict, in the order offered.
    pub undecided: VecDeque<(Ticket, Whole)>,
    pub undecided_bytes: u64,
    /// Bundles waiting to be offered again.
    pub refused: VecDeque<Whole>,
    /// Number and bytes of the complete bundles that were refused once and not accepted since; those offered again
    /// count, too.
    pressing: (usize, u64),
    /// Latest time of first offer among the accepted bundles; `None` before a verdict.
    pub newest_taken: Option<Instant>,
    /// Whether one more bundle may be read despite the bounds on refused ones, to find out whether the node still lacks
    /// room.
    pub probing: bool,
    pub rest: RetryWait,
    /// Latest instant at which a bundle began, and the number of bundles begun then.
    begun: (Instant, u32),
    next_ticket: u32,
    /// Latest time at which data arrived, or reading resumed.
    progress: Instant,
}

impl ReceivingStream {
    pub fn new(now: Instant, number: u32, stream: StreamId, link: LinkId, from: IpAddr) -> Self {
        ReceivingStream {
            stream,
            link,
            from,
            number,
            timer: None,
            moves_to: None,
            open: true,
            paused: false,
            heard: false,
            last_received: now,
            inbox: Inbox::default(),
            arrival: None,
            held: false,
            undecided: VecDeque::new(),
            undecided_bytes: 0,
            refused: VecDeque::new(),
            pressing: (0, 0),
            newest_taken: None,
            probing: false,
            rest: RetryWait::new(),
            begun: (now, 0),
            next_ticket: 0,
            progress: now,
        }
    }
    /// Takes in received bytes.
    pub fn on_data(&mut self, now: Instant, data: Payload) {
        (self.last_received, self.progress, self.heard) = (now, now, true);
        self.inbox.add(data);
    }
    /// Whether the stream is between two bundles.
    pub fn is_between(&self) -> bool {
        self.arrival.is_none()
    }
    /// Whether closing the stream now would lose nothing.
    pub fn is_idle(&self) -> bool {
        self.arrival.is_none() && self.inbox.is_empty() && self.undecided.is_empty() && self.refused.is_empty()
    }
    /// Whether reading must pause. A paused stream resumes only at half of each bound.
    pub fn is_full(&self, now: Instant) -> bool {
        let half = u32::from(self.paused);
        let long = |arrival: &ArrivingBundle| arrival.state == ArrivalState::Refused && arrival.total > BUNDLE_MAX;
        self.held
            || self.arrival.as_ref().is_some_and(long)
            || self.is_behind(now, half)
            // A short bundle that has begun is read to its end, so that closing the stream then loses nothing.
            || (self.arrival.is_none() && !self.probing && self.is_pressed(half))
    }
    /// Whether reading waits for verdicts, or for the next instant because too many bundles began at this one.
    fn is_behind(&self, now: Instant, half: u32) -> bool {
        self.has_begun_all(now)
            || self.undecided.len() > UNDECIDED_MAX >> half
            || self.undecided_bytes > UNDECIDED_BYTES >> half
    }
    fn has_begun_all(&self, now: Instant) -> bool {
        self.begun.0 == now && self.begun.1 >= BEGUN_MAX
    }
    /// Whether the stream is closed and nothing keeps its remaining input from being parsed.
    pub fn is_read_out(&self, now: Instant) -> bool {
        !self.open && !self.is_behind(now, 0)
    }
    pub fn is_pressed(&self, half: u32) -> bool {
        self.pressing.0 > REFUSED_MAX >> half || self.pressing.1 > REFUSED_BYTES >> half
    }
    /// Whether reading is not paused, nothing arrived for `silent`, and no complete bundle awaits a verdict or room.
    pub fn is_stalled(&self, now: Instant, silent: Duration) -> bool {
        let nothing_else = self.undecided.is_empty() && self.refused.is_empty();
        nothing_else && !self.paused && now.since(self.last_received) >= silent
    }
    /// Restarts the progress timer when reading resumes, because no data could arrive before.
    pub fn on_resumed(&mut self, now: Instant) {
        self.progress = now;
    }

    /// Parses received bytes, and offers a bundle in parts of at least `part` bytes. A closed stream is read to its end
    /// even if the node has no room, as fast as verdicts on earlier bundles arrive.
    ///
    /// # Errors
    ///
    /// The reason why the stream must end.
    pub fn read(
        &mut self,
        now: Instant,
        framing: Framing,
        (transfer_mru, part): (u64, u64),
        room: &mut CopyMemory,
        out: &mut impl Sink<Output>,
    ) -> Result<(), &'static str> {
        if self.inbox.is_empty() || !self.reads(now) {
            return Ok(());
        }
        let inbox = self.inbox.take();
        let mut reader = inbox.reader();
        let result = self.read_from(now, &mut reader, framing, (transfer_mru, part), room, out);
        let read = reader.position();
        self.inbox.put_back(inbox, read);
        result
    }
    fn reads(&self, now: Instant) -> bool {
        if self.open { !(self.paused || self.is_full(now)) } else { !self.is_behind(now, 0) }
    }
    fn read_from(
        &mut self,
        now: Instant,
        reader: &mut PayloadReader<'_>,
        framing: Framing,
        (transfer_mru, part): (u64, u64),
        room: &mut CopyMemory,
        out: &mut impl Sink<Output>,
    ) -> Result<(), &'static str> {
        while self.reads(now) {
            let Some(arrival) = &self.arrival else {
                match framing.read_head(reader)? {
                    None => break,
                    Some(0) => {}
                    Some(total) if total > transfer_mru => return Err("a bundle longer than this node accepts"),
                    Some(total) => self.begin(now, total),
                }
                continue;
            };
            let (have, left) = (reader.remaining(), arrival.total - arrival.received);
            // Data to skip is taken as it comes; parts to offer have a minimum length.
            let least = if arrival.state == ArrivalState::Unwanted { 1 } else { left.min(part) };
            if have < least {
                break;
            }
            let Some(part) = reader.take(have.min(left)) else { break };
            self.take(part, room, out);
        }
        Ok(())
    }
    fn begin(&mut self, now: Instant, total: u64) {
        let before = if self.begun.0 == now { self.begun.1 } else { 0 };
        self.begun = (now, before + 1);
        let (state, copy) = (ArrivalState::Offered(self.ticket()), BundleCopy::new(self.link.is_dynamic()));
        self.arrival = Some(ArrivingBundle { total, received: 0, copy, offered: now, refused: None, state });
        self.probing = false;
    }
    pub fn ticket(&mut self) -> Ticket {
        let ticket = Ticket(u64::from(self.number) << 32 | u64::from(self.next_ticket));
        self.next_ticket = self.next_ticket.wrapping_add(1);
        ticket
    }
    /// Takes the next bytes of the arriving bundle.
    fn take(&mut self, part: Payload, room: &mut CopyMemory, out: &mut impl Sink<Output>) {
        let Some(mut arrival) = self.arrival.take() else { return };
        arrival.received += part.len();
        if arrival.state != ArrivalState::Unwanted {
            arrival.copy.add(&part, room);
        }
        // Without a copy the bundle cannot be offered again.
        if arrival.state == ArrivalState::Refused && arrival.copy.whole().is_none() {
            arrival.state = ArrivalState::Unwanted;
        }
        let (total, last) = (arrival.total, arrival.received == arrival.total);
        if let ArrivalState::Offered(ticket) = arrival.state {
            out.push(self.offer(ticket, part, last, total));
        }
        if !last {
            self.arrival = Some(arrival);
            return;
        }
        self.held = false;
        let whole = Whole { total, copy: arrival.copy, offered: arrival.offered, refused: arrival.refused };
        if whole.refused.is_some() && arrival.state != ArrivalState::Unwanted {
            self.press(total);
        }
        match arrival.state {
            ArrivalState::Offered(ticket) => self.decide(ticket, whole),
            ArrivalState::Refused => self.keep(whole),
            ArrivalState::Unwanted => {}
        }
    }
    pub fn press(&mut self, total: u64) {
        self.pressing = (self.pressing.0 + 1, self.pressing.1 + total);
    }
    pub fn release(&mut self, total: u64) {
        self.pressing = (self.pressing.0.saturating_sub(1), self.pressing.1.saturating_sub(total));
    }
    /// Builds an offer that is not reliable, because the sender never learns the verdict.
    pub fn offer(&self, ticket: Ticket, part: Payload, last: bool, total: u64) -> Output {
        Output::Offer { ticket, link: self.link, part, last, total: Some(total), reliable: false }
    }
    pub fn decide(&mut self, ticket: Ticket, whole: Whole) {
        self.undecided_bytes += whole.total;
        self.undecided.push_back((ticket, whole));
    }
    /// Keeps a refused bundle for its next offer. One without a copy is lost; the node has reported the refusal.
    pub fn keep(&mut self, whole: Whole) {
        if whole.copy.whole().is_some() {
            self.refused.push_back(whole);
        } else {
            self.release(whole.total);
        }
    }

    /// Ends reading: unparsed input is dropped, and an incomplete bundle aborted.
    pub fn end(&mut self, room: &mut CopyMemory, out: &mut impl Sink<Output>) {
        (self.open, self.inbox, self.held) = (false, Inbox::default(), false);
        if let Some(mut arrival) = self.arrival.take() {
            arrival.copy.forget(room);
            if let ArrivalState::Offered(ticket) = arrival.state
                && arrival.received > 0
            {
                out.push(Output::OfferAborted { ticket });
            }
        }
    }
    /// Forgets all bundles that await a verdict or room.
    pub fn forget(&mut self, room: &mut CopyMemory) {
        for (_, mut whole) in self.undecided.drain(..) {
            whole.copy.forget(room);
        }
        for mut whole in self.refused.drain(..) {
            whole.copy.forget(room);
        }
        (self.undecided_bytes, self.pressing) = (0, (0, 0));
    }
    /// Releases read buffers shared with the driver.
    pub fn unshare(&mut self) {
        self.inbox.unshare();
        self.arrival.iter_mut().for_each(|arrival| arrival.copy.unshare());
        self.undecided.iter_mut().for_each(|(_, whole)| whole.copy.unshare());
    }

    /// Next action due. `up`: whether the link carries bytes in both directions.
    pub fn due(&self, now: Instant, config: &Config, up: bool) -> ReceivingDue {
        let mut deadlines = Deadlines::at(now);
        // An outage or a pause does not count as silence: both timers below run only while bytes can arrive.
        let mut at = |deadline: Instant| deadlines.passed(deadline);
        if self.rest.until.is_some_and(&mut at) {
            return ReceivingDue::Offer;
        }
        if self.has_begun_all(now) {
            at(now + NEXT);
        }
        if self.open && up && !self.paused {
            let arriving = self.arrival.is_some() || !self.inbox.is_empty();
            if arriving && config.progress > Duration::ZERO && at(self.progress + config.progress) {
                return ReceivingDue::Dead;
            }
            if config.idle > Duration::ZERO && self.is_idle() && at(self.last_received + config.idle) {
                return ReceivingDue::Dead;
            }
        }
        ReceivingDue::Later(deadlines.next)
    }
}
