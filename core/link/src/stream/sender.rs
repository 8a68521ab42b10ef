//! The sending half: cuts bytes into segments, keeps them until acknowledged, finds losses and
//! sends again.
//!
//! Every transmission has a number, and what later ones overtook is lost (`rack`), so a lost
//! retransmission is found like any other.

use super::Config;
use super::congestion::{Congestion, Path, Window};
use super::lane::Lane;
use super::rack::Rack;
use super::repair::Repair;
use super::round_trip::RoundTrip;
use super::segment::Segment;
use alloc::collections::{BTreeSet, VecDeque};
use farlink_base::{Chunk, Duration, Instant, Payload};

/// What one segment carries.
#[derive(Clone, Debug)]
pub(super) struct Outgoing {
    pub sequence: u64,
    pub payload: Payload,
    pub syn: bool,
    pub fin: bool,
}
impl Outgoing {
    fn length(&self) -> u64 {
        self.payload.len() + u64::from(self.syn) + u64::from(self.fin)
    }
}

/// A segment not yet known to have arrived.
#[derive(Clone, Debug)]
struct Sent {
    content: Outgoing,
    /// Number of its latest transmission.
    order: u64,
    at: Instant,
    again: bool,
}

/// What was so before a timeout.
#[derive(Clone, Copy, Debug)]
struct Undo {
    at: Instant,
    window: Window,
    recovery: u64,
}

#[derive(Clone, Debug)]
pub(super) struct Sender {
    segment: u64,
    buffer: u64,
    give_up: Duration,
    /// Pieces not yet sent; each is one chunk.
    unsent: VecDeque<Payload>,
    unsent_bytes: u64,
    finish: bool,
    fin_sent: bool,
    /// By sequence number.
    flight: Lane<Sent>,
    /// Transmissions on the way: order to sequence number.
    pipe: Lane<u64>,
    pipe_bytes: u64,
    /// Sequence numbers to send again.
    lost: BTreeSet<u64>,
    order: u64,
    rack: Rack,
    /// When what was overtaken is lost.
    overtaken_at: Option<Instant>,
    /// Losses of earlier transmissions belong to the recovery already under way, which lasts until this is
    /// acknowledged.
    recovery: u64,
    recovery_end: u64,
    /// How fast losses are repaired, unless the timer found them.
    repair: Option<Repair>,
    acknowledged: u64,
    next: u64,
    /// First sequence number the peer cannot take.
    edge: u64,
    congestion: Congestion,
    window: Window,
    round_trip: RoundTrip,
    /// What is acknowledged beyond this was sent a round trip later.
    round_end: u64,
    timeout_at: Option<Instant>,
    timeouts: u32,
    /// How to go on if the last timeout came too early.
    undo: Option<Undo>,
    probe_at: Option<Instant>,
    probe: bool,
    last_progress: Instant,
    last_sent: Instant,
    /// Room last told, less what was written since.
    told: u64,
}

impl Sender {
    pub fn new(config: &Config) -> Sender {
        Sender {
            segment: config.segment_bytes.max(1),
            buffer: config.send_buffer,
            give_up: config.give_up,
            unsent: VecDeque::new(),
            unsent_bytes: 0,
            finish: false,
            fin_sent: false,
            flight: Lane::new(),
            pipe: Lane::new(),
            pipe_bytes: 0,
            lost: BTreeSet::new(),
            order: 0,
            rack: Rack::default(),
            overtaken_at: None,
            recovery: 0,
            recovery_end: 0,
            repair: None,
            acknowledged: 0,
            next: 0,
            edge: 1,
            congestion: config.congestion,
            window: Window::new(config.congestion, config.segment_bytes.max(1), 0),
            round_trip: RoundTrip::default(),
            round_end: 0,
            timeout_at: None,
            timeouts: 0,
            undo: None,
            probe_at: None,
            probe: false,
            last_progress: Instant::ZERO,
            last_sent: Instant::ZERO,
            told: 0,
        }
    }

    /// Sends the SYN.
    pub fn open(&mut self, now: Instant) -> Outgoing {
        self.last_progress = now;
        let syn = Outgoing { sequence: 0, payload: Payload::new(), syn: true, fin: false };
        self.next = 1;
        self.transmit(now, syn.clone(), false);
        syn
    }

    /// Takes bytes to send. Those beyond the room given are taken all the same.
    pub fn write(&mut self, data: Payload) {
        self.told = self.told.saturating_sub(data.len());
        self.unsent_bytes += data.len();
        if data.chunks().len() == 1 {
            return self.unsent.push_back(data);
        }
        for chunk in data.chunks() {
            let mut piece = Payload::new();
            piece.push(chunk.clone());
            self.unsent.push_back(piece);
        }
    }
    /// No more bytes will come: the FIN follows the last.
    pub fn finish(&mut self) {
        self.finish = true;
    }
    /// Next sequence number, for segments without content.
    pub fn next_sequence(&self) -> u64 {
        self.next
    }
    /// Whether the SYN was acknowledged.
    pub fn is_open(&self) -> bool {
        self.acknowledged > 0
    }
    /// Whether everything and the FIN were acknowledged.
    pub fn is_finished(&self) -> bool {
        self.fin_sent && self.acknowledged == self.next
    }
    /// Bytes written and acknowledged: the SYN and the FIN are none.
    pub fn acknowledged(&self) -> u64 {
        self.acknowledged.saturating_sub(1 + u64::from(self.is_finished()))
    }
    /// Bytes written and not acknowledged.
    fn outstanding(&self) -> u64 {
        self.unsent_bytes + self.next.saturating_sub(self.acknowledged.max(1))
    }
    /// Room to tell the writer, when it grew by enough to matter.
    pub fn new_room(&mut self) -> Option<u64> {
        let room = self.buffer.saturating_sub(self.outstanding());
        let all = self.outstanding() == 0 && room > self.told;
        if room >= self.told + self.buffer / 4 || all {
            self.told = room;
            return Some(room);
        }
        None
    }
    pub fn deadline(&self) -> Option<Instant> {
        Instant::earliest([self.timeout_at, self.probe_at, self.overtaken_at])
    }

    /// Takes an acknowledgment.
    pub fn acknowledge(&mut self, now: Instant, segment: &Segment, acknowledgment: u64) {
        if acknowledgment > self.next {
            return;
        }
        self.edge = self.edge.max(acknowledgment.saturating_add(segment.window));
        let opens = !self.is_open() && acknowledgment > 0;
        self.undo_early_timeout(segment, acknowledgment);
        let limited = self.pipe_bytes + self.segment >= self.window.size();
        let (mut grown, mut arrived) = (0, 0);
        let mut any = acknowledgment > self.acknowledged;
        let (cumulative, latest) = ((self.acknowledged, acknowledgment), self.rack.latest());
        self.acknowledged = self.acknowledged.max(acknowledgment);
        let mut measured = None;
        for (start, end) in core::iter::once(cumulative).chain(segment.selective.ranges().iter().copied()) {
            while let Some((sequence, sent)) = self.flight.from(start) {
                // Also where it begins beyond the end.
                if sequence + sent.content.length() > end {
                    break;
                }
                let Some(sent) = self.remove(sequence) else { break };
                any = true;
                arrived += sent.content.length();
                self.rack.arrived(now, sent.order, sent.at, sent.again, latest);
                if sent.order > self.recovery {
                    grown += sent.content.length();
                }
                if !sent.again {
                    measured = measured.max(Some(sent.at));
                }
            }
        }
        // Timestamps tell which transmission was answered; without them only lone ones count (Karn).
        let stamp = segment.echo.filter(|_| acknowledgment > cumulative.0);
        let (taken, round) = (stamp.or(measured).map(|at| now - at), self.acknowledged > self.round_end);
        if let Some(taken) = taken {
            if round {
                self.round_end = self.next;
            }
            self.round_trip.sample(taken, round);
        }
        if opens {
            // On a path longer than the first timeout the SYN was repeated in vain (timestamps show it, and
            // Linux undoes it too): begin with the initial window.
            self.window = Window::new(self.congestion, self.segment, self.round_trip.smoothed_ns());
        } else if any {
            let measured_ns = taken.map(|t| u64::try_from(t.as_nanos()).unwrap_or(u64::MAX));
            let path = Path { now, round_trip_ns: self.round_trip.smoothed_ns(), measured_ns, round };
            self.window.delivered(grown, limited, &path);
        }
        let lost = self.find_losses(now);
        let repaired = acknowledgment > cumulative.0 && !lost;
        self.repair = self.repair.filter(|_| self.acknowledged < self.recovery_end);
        if let Some(repair) = &mut self.repair {
            repair.arrived(arrived, self.pipe_bytes, self.window.size(), self.segment, repaired);
        }
        if any {
            self.progress(now);
        } else if self.flight.is_empty() {
            // The answer to a probe: the peer lives, its window is closed.
            self.last_progress = now;
        }
    }

    /// What is acknowledged first after a timeout left before it: nothing was lost, only late (RFC 3522; Linux
    /// tells by the time stamps, too).
    fn undo_early_timeout(&mut self, segment: &Segment, acknowledgment: u64) {
        let Some(undo) = self.undo.filter(|_| acknowledgment > self.acknowledged) else { return };
        self.undo = None;
        if segment.echo.is_none_or(|left| left >= undo.at) {
            return;
        }
        (self.window, self.recovery, self.recovery_end) = (undo.window, undo.recovery, 0);
        self.repair = None;
        for sequence in core::mem::take(&mut self.lost) {
            if let Some(sent) = self.flight.get(sequence) {
                self.pipe_bytes += sent.content.length();
                self.pipe.insert(sent.order, sequence);
            }
        }
    }

    /// Acts on deadlines; `false` when the connection is to be given up.
    pub fn on_time(&mut self, now: Instant) -> bool {
        if self.overtaken_at.is_some_and(|at| at <= now) {
            self.find_losses(now);
            if let Some(repair) = &mut self.repair {
                repair.arrived(0, self.pipe_bytes, self.window.size(), self.segment, false);
            }
        }
        if self.timeout_at.is_some_and(|at| at <= now) {
            if now - self.last_progress >= self.give_up {
                return false;
            }
            if self.timeouts == 0 {
                self.undo = Some(Undo { at: now, window: self.window, recovery: self.recovery });
            }
            self.window.timeout(self.timeouts > 0);
            self.timeouts += 1;
            self.round_trip.back_off();
            (self.recovery, self.recovery_end) = (self.order, self.next);
            (self.overtaken_at, self.repair) = (None, None);
            self.lost.extend(self.pipe.take_all().map(|(_, sequence)| sequence));
            self.pipe_bytes = 0;
            self.timeout_at = Some(now + self.round_trip.timeout());
        }
        if self.probe_at.is_some_and(|at| at <= now) {
            if now - self.last_progress >= self.give_up {
                return false;
            }
            self.probe = true;
            self.round_trip.back_off();
            self.probe_at = Some(now + self.round_trip.timeout());
        }
        true
    }

    /// Whether to ask for the peer's window with an empty old segment.
    pub fn take_probe(&mut self) -> bool {
        core::mem::take(&mut self.probe)
    }

    /// The next segment that may leave now.
    pub fn next_segment(&mut self, now: Instant) -> Option<Outgoing> {
        if let Some(&sequence) = self.lost.first() {
            let length = self.flight.get(sequence)?.content.length();
            if !self.fits(length) {
                return None;
            }
            self.lost.remove(&sequence);
            let content = self.flight.get(sequence)?.content.clone();
            self.transmit(now, content.clone(), true);
            return Some(content);
        }
        if !self.is_open() || self.fin_sent {
            return None;
        }
        if self.unsent_bytes == 0 {
            return self.finish.then(|| self.send_fin(now));
        }
        self.restart_after_idle(now);
        let length = self.unsent_bytes.min(self.segment);
        if self.next + length > self.edge {
            if self.flight.is_empty() && self.probe_at.is_none() {
                self.probe_at = Some(now + self.round_trip.timeout());
            }
            return None;
        }
        if !self.fits(length) {
            return None;
        }
        let payload = self.cut(length);
        let content = Outgoing { sequence: self.next, payload, syn: false, fin: false };
        self.next += length;
        self.transmit(now, content.clone(), false);
        Some(content)
    }

    fn send_fin(&mut self, now: Instant) -> Outgoing {
        let content = Outgoing { sequence: self.next, payload: Payload::new(), syn: false, fin: true };
        self.next += 1;
        self.fin_sent = true;
        self.transmit(now, content.clone(), false);
        content
    }

    /// Whether the congestion window takes so many bytes more; one segment always goes.
    fn fits(&self, length: u64) -> bool {
        let room = match &self.repair {
            Some(repair) => repair.room(),
            None => self.window.size().saturating_sub(self.pipe_bytes),
        };
        self.pipe_bytes == 0 || length <= room
    }

    fn restart_after_idle(&mut self, now: Instant) {
        if self.flight.is_empty() && now > self.last_sent {
            let timeout = self.round_trip.timeout_ns().max(1);
            self.window.idle(now.0.saturating_sub(self.last_sent.0) / timeout);
            self.last_sent = now;
        }
    }

    /// The first `length` unsent bytes.
    fn cut(&mut self, length: u64) -> Payload {
        let whole = self.unsent.front().is_some_and(|front| front.len() == length);
        let mut out = if whole { self.unsent.pop_front().unwrap_or_default() } else { Payload::new() };
        while out.len() < length {
            let Some(front) = self.unsent.front_mut() else { break };
            let left = length - out.len();
            if front.len() > left {
                out.append(front.split_to(left));
            } else {
                out.append(core::mem::take(front));
                self.unsent.pop_front();
            }
        }
        self.unsent_bytes -= out.len();
        debug_assert!(out.chunks().iter().all(|c| !matches!(c, Chunk::Stored { .. })), "bytes must be in memory");
        out
    }

    fn transmit(&mut self, now: Instant, content: Outgoing, again: bool) {
        self.order += 1;
        self.pipe_bytes += content.length();
        if let Some(repair) = &mut self.repair {
            repair.left(content.length());
        }
        self.pipe.insert(self.order, content.sequence);
        self.flight.insert(content.sequence, Sent { content, order: self.order, at: now, again });
        self.last_sent = now;
        self.probe_at = None;
        if self.timeout_at.is_none() {
            self.last_progress = if again { self.last_progress } else { now };
            self.timeout_at = Some(now + self.round_trip.timeout());
        }
    }

    /// Takes a segment out of the books.
    fn remove(&mut self, sequence: u64) -> Option<Sent> {
        let sent = self.flight.remove(sequence)?;
        if self.pipe.remove(sent.order).is_some() {
            self.pipe_bytes -= sent.content.length();
        }
        if !self.lost.is_empty() {
            self.lost.remove(&sequence);
        }
        Some(sent)
    }

    /// Whether there were any.
    fn find_losses(&mut self, now: Instant) -> bool {
        self.overtaken_at = None;
        let recovering = self.acknowledged < self.recovery_end;
        let (lost_to, before) = (self.rack.lost_to(recovering), self.lost.len());
        while let Some((order, sequence)) = self.pipe.first().map(|(order, sequence)| (order, *sequence)) {
            let sent = self.flight.get(sequence).map_or(now, |sent| sent.at);
            if order > lost_to && (order >= self.rack.latest() || self.rack.lost_at(sent) > now) {
                self.overtaken_at = (order < self.rack.latest()).then(|| self.rack.lost_at(sent));
                break;
            }
            self.pipe.pop_first();
            self.pipe_bytes -= self.flight.get(sequence).map_or(0, |sent| sent.content.length());
            self.lost.insert(sequence);
        }
        // What is lost while losses are repaired, of the repairs too, is not held against the path again.
        let found = self.lost.len() > before;
        if found && !recovering {
            self.repair = (!self.window.is_ideal()).then(|| Repair::new(self.window.size()));
            self.window.loss();
            (self.recovery, self.recovery_end) = (self.order, self.next);
        }
        found
    }

    fn progress(&mut self, now: Instant) {
        self.last_progress = now;
        self.timeouts = 0;
        self.round_trip.progress();
        self.probe_at = None;
        self.timeout_at = (!self.flight.is_empty()).then(|| now + self.round_trip.timeout());
    }
}
