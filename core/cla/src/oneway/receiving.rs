//! A stream a peer opened: bundles arrive over it. Its sender cannot be told what becomes of them, so what the node has
//! no room for is kept and offered again, and the stream is not read meanwhile: TCP pushes back.

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

/// Parts of a bundle are shorter where there are so many streams that what waits in them would be more than this in all.
const PARTS_BYTES: u64 = 4 << 20;
const PART_LEAST: u64 = 1 << 10;
/// Bytes offered at least, of each of so many streams: what is offered counts, what waits to be does not.
pub(super) fn least_part(streams: usize) -> u64 {
    (PARTS_BYTES / (streams as u64).max(1)).clamp(PART_LEAST, PART_BYTES)
}
/// Bundles, and their bytes, that wait for a verdict, beyond which reading stops.
const UNDECIDED_MAX: usize = 1024;
const UNDECIDED_BYTES: u64 = 16 << 20;
/// Bundles, and their bytes, that were refused for want of room and not taken since, beyond which reading stops: up to
/// there others may fit.
const REFUSED_MAX: usize = 256;
const REFUSED_BYTES: u64 = 1 << 20;
/// Bundles begun at one moment, beyond which the rest of what came waits for the next: of bundles that are any, a read
/// buffer holds no more.
const BEGUN_MAX: u32 = 4096;
/// The next moment.
const NEXT: Duration = Duration::from_nanos(1);
/// A bundle that has not come whole.
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
    /// It is offered as it comes.
    Offered(Ticket),
    /// There was no room for it: all that came is kept, and is offered again. Of a short one the rest is kept too.
    Refused,
    /// Nobody wants it: it is read over.
    Unwanted,
}
/// A bundle that came whole, and is offered or waits to be offered again.
#[derive(Debug)]
pub(super) struct Whole {
    pub total: u64,
    pub copy: BundleCopy,
    /// When it was offered first, and when it was first refused for want of room.
    pub offered: Instant,
    pub refused: Option<Instant>,
}

/// What time demands of a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ReceivingDue {
    /// Look again then; `None`: nothing to wait for.
    Later(Option<Instant>),
    /// What was refused is to be offered again.
    Offer,
    /// The peer says nothing.
    Dead,
}

/// One stream of a peer.
#[derive(Debug)]
pub(super) struct ReceivingStream {
    pub stream: StreamId,
    pub link: LinkId,
    pub from: IpAddr,
    /// Number of the session, the upper half of its tickets.
    pub number: u32,
    pub timer: Option<TimerKey>,
    /// It belongs to this link from the next bundle on.
    pub moves_to: Option<LinkId>,
    /// Whether the stream is still there: afterwards it waits for the verdicts on what came.
    pub open: bool,
    /// Whether it is not read from.
    pub paused: bool,
    /// Whether the peer ever sent a byte.
    pub heard: bool,
    pub last_received: Instant,
    /// What came and was not read.
    inbox: Inbox,
    pub arrival: Option<ArrivingBundle>,
    /// The node wants no more of the arriving bundle for now.
    pub held: bool,
    /// In the order offered.
    pub undecided: VecDeque<(Ticket, Whole)>,
    pub undecided_bytes: u64,
    /// Waiting to be offered again.
    pub refused: VecDeque<Whole>,
    /// Bundles, and their bytes, that were refused once and not taken since, whether they are offered at the moment or
    /// not.
    pressing: (usize, u64),
    /// When what was taken had been offered first, at the latest.
    pub newest_taken: Option<Instant>,
    /// One more may come, however many press: whether the node takes that one tells whether it is full.
    pub probing: bool,
    pub rest: RetryWait,
    /// Bundles begun at the moment they were begun last.
    begun: (Instant, u32),
    next_ticket: u32,
    /// When something last came, or could.
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
    /// Bytes came.
    pub fn on_data(&mut self, now: Instant, data: Payload) {
        (self.last_received, self.progress, self.heard) = (now, now, true);
        self.inbox.add(data);
    }
    /// Whether no bundle is half here.
    pub fn is_between(&self) -> bool {
        self.arrival.is_none()
    }
    /// Whether nothing is lost if it ends now.
    pub fn is_idle(&self) -> bool {
        self.arrival.is_none() && self.inbox.is_empty() && self.undecided.is_empty() && self.refused.is_empty()
    }
    /// Whether reading should stop; once stopped it goes on at half of what stopped it.
    pub fn is_full(&self, now: Instant) -> bool {
        let half = u32::from(self.paused);
        let long = |arrival: &ArrivingBundle| arrival.state == ArrivalState::Refused && arrival.total > BUNDLE_MAX;
        self.held
            || self.arrival.as_ref().is_some_and(long)
            || self.is_behind(now, half)
            // A short bundle that has begun comes to its end: nothing is lost if the stream ends then.
            || (self.arrival.is_none() && !self.probing && self.is_pressed(half))
    }
    /// Whether what follows is read only when something of what was read is decided, or time has passed.
    fn is_behind(&self, now: Instant, half: u32) -> bool {
        self.has_begun_all(now)
            || self.undecided.len() > UNDECIDED_MAX >> half
            || self.undecided_bytes > UNDECIDED_BYTES >> half
    }
    fn has_begun_all(&self, now: Instant) -> bool {
        self.begun.0 == now && self.begun.1 >= BEGUN_MAX
    }
    /// Whether the stream is over, and all that came was read.
    pub fn is_read_out(&self, now: Instant) -> bool {
        !self.open && !self.is_behind(now, 0)
    }
    pub fn is_pressed(&self, half: u32) -> bool {
        self.pressing.0 > REFUSED_MAX >> half || self.pressing.1 > REFUSED_BYTES >> half
    }
    /// Whether only the beginning of a bundle is here, and nothing has come for so long.
    pub fn is_stalled(&self, now: Instant, silent: Duration) -> bool {
        let nothing_else = self.undecided.is_empty() && self.refused.is_empty();
        nothing_else && !self.paused && now.since(self.last_received) >= silent
    }
    /// It is read from again: what did not come until now could not.
    pub fn on_resumed(&mut self, now: Instant) {
        self.progress = now;
    }

    /// Reads what has come and offers it, of a bundle `part` bytes at least. A stream that is over is read to its end,
    /// however full the node is, as what came before is decided.
    ///
    /// # Errors
    /// Why the stream must end.
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
                    Some(total) if total > transfer_mru => return Err("a bundle longer than this node takes"),
                    Some(total) => self.begin(now, total),
                }
                continue;
            };
            let (have, left) = (reader.remaining(), arrival.total - arrival.received);
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
    /// The next bytes of the arriving bundle.
    fn take(&mut self, part: Payload, room: &mut CopyMemory, out: &mut impl Sink<Output>) {
        let Some(mut arrival) = self.arrival.take() else { return };
        arrival.received += part.len();
        if arrival.state != ArrivalState::Unwanted {
            arrival.copy.add(&part, room);
        }
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
    /// Nobody is told the verdict.
    pub fn offer(&self, ticket: Ticket, part: Payload, last: bool, total: u64) -> Output {
        Output::Offer { ticket, link: self.link, part, last, total: Some(total), reliable: false }
    }
    pub fn decide(&mut self, ticket: Ticket, whole: Whole) {
        self.undecided_bytes += whole.total;
        self.undecided.push_back((ticket, whole));
    }
    /// It is offered again later, where it could be kept; else it is lost, and the node has said that it refused it.
    pub fn keep(&mut self, whole: Whole) {
        if whole.copy.whole().is_some() {
            self.refused.push_back(whole);
        } else {
            self.release(whole.total);
        }
    }

    /// The stream is over: what has not come whole never does.
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
    /// Forgets what waits for a verdict or for room.
    pub fn forget(&mut self, room: &mut CopyMemory) {
        for (_, mut whole) in self.undecided.drain(..) {
            whole.copy.forget(room);
        }
        for mut whole in self.refused.drain(..) {
            whole.copy.forget(room);
        }
        (self.undecided_bytes, self.pressing) = (0, (0, 0));
    }
    /// Lets go of the read buffers it shares.
    pub fn unshare(&mut self) {
        self.inbox.unshare();
        self.arrival.iter_mut().for_each(|arrival| arrival.copy.unshare());
        self.undecided.iter_mut().for_each(|(_, whole)| whole.copy.unshare());
    }

    /// What is due at `now`. `up`: whether the link carries bytes both ways.
    pub fn due(&self, now: Instant, config: &Config, up: bool) -> ReceivingDue {
        let mut deadlines = Deadlines::at(now);
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
