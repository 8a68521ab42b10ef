//! Sending half: splits bytes into segments, keeps them until they are acknowledged, detects losses and retransmits.
//!
//! Every transmission has a number and is lost if later ones overtook it (see `rack`), so the loss of a retransmission
//! is detected as well.

use super::Config;
use super::congestion::{Congestion, CongestionWindow, Path};
use super::lane::FlightMap;
use super::rack::Rack;
use super::repair::Repair;
use super::round_trip::RoundTrip;
use super::segment::Segment;
use alloc::collections::{BTreeSet, VecDeque};
use farlink_base::{Chunk, Duration, Instant, Payload};

/// Content of a segment.
#[derive(Clone, Debug)]
pub(super) struct SegmentContent {
    pub sequence: u64,
    pub payload: Payload,
    pub syn: bool,
    pub fin: bool,
}
impl SegmentContent {
    fn length(&self) -> u64 {
        self.payload.len() + u64::from(self.syn) + u64::from(self.fin)
    }
}

/// Segment in flight, which is not acknowledged.
#[derive(Clone, Debug)]
struct SentSegment {
    content: SegmentContent,
    /// Number of the segment's latest transmission.
    order: u64,
    at: Instant,
    again: bool,
}

/// State before a timeout, which is restored if the timeout proves spurious.
#[derive(Clone, Copy, Debug)]
struct Undo {
    at: Instant,
    window: CongestionWindow,
    recovery: u64,
}

#[derive(Clone, Debug)]
pub(super) struct StreamSender {
    segment: u64,
    buffer: u64,
    give_up: Duration,
    /// Bytes not sent yet, as payloads of one chunk each.
    unsent: VecDeque<Payload>,
    unsent_bytes: u64,
    finish: bool,
    fin_sent: bool,
    /// Segments in flight, by sequence number.
    flight: FlightMap<SentSegment>,
    /// Transmissions in flight: sequence number of the segment, by number of the transmission.
    pipe: FlightMap<u64>,
    pipe_bytes: u64,
    /// Sequence numbers of segments to be retransmitted.
    lost: BTreeSet<u64>,
    order: u64,
    rack: Rack,
    /// Time at which the first overtaken transmission counts as lost; `None` if none was overtaken.
    overtaken_at: Option<Instant>,
    /// Number of the last transmission before the current recovery, and sequence number whose acknowledgment ends it.
    recovery: u64,
    recovery_end: u64,
    /// Rate reduction; `None` outside a recovery, and in a recovery after a timeout.
    repair: Option<Repair>,
    acknowledged: u64,
    next: u64,
    /// First sequence number that is beyond the peer's window.
    edge: u64,
    congestion: Congestion,
    window: CongestionWindow,
    round_trip: RoundTrip,
    /// Sequence number whose acknowledgment begins a new round trip.
    round_end: u64,
    timeout_at: Option<Instant>,
    timeouts: u32,
    /// State to be restored if the last timeout proves spurious.
    undo: Option<Undo>,
    probe_at: Option<Instant>,
    probe: bool,
    last_progress: Instant,
    last_sent: Instant,
    /// Room reported last, less the bytes written since.
    reported_room: u64,
}

impl StreamSender {
    pub fn new(config: &Config) -> StreamSender {
        StreamSender {
            segment: config.segment_bytes.max(1),
            buffer: config.send_buffer,
            give_up: config.give_up,
            unsent: VecDeque::new(),
            unsent_bytes: 0,
            finish: false,
            fin_sent: false,
            flight: FlightMap::new(),
            pipe: FlightMap::new(),
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
            window: CongestionWindow::new(config.congestion, config.segment_bytes.max(1), 0),
            round_trip: RoundTrip::default(),
            round_end: 0,
            timeout_at: None,
            timeouts: 0,
            undo: None,
            probe_at: None,
            probe: false,
            last_progress: Instant::ZERO,
            last_sent: Instant::ZERO,
            reported_room: 0,
        }
    }

    /// Records the transmission of the SYN and returns it.
    pub fn open(&mut self, now: Instant) -> SegmentContent {
        self.last_progress = now;
        let syn = SegmentContent { sequence: 0, payload: Payload::new(), syn: true, fin: false };
        self.next = 1;
        self.transmit(now, syn.clone(), false);
        syn
    }

    /// Queues bytes to be sent, even beyond the reported room.
    pub fn write(&mut self, data: Payload) {
        self.reported_room = self.reported_room.saturating_sub(data.len());
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
    /// Ends the data: the FIN follows the last byte written.
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
    /// Whether all bytes and the FIN were acknowledged.
    pub fn is_finished(&self) -> bool {
        self.fin_sent && self.acknowledged == self.next
    }
    /// Number of data bytes acknowledged, not counting SYN and FIN.
    pub fn acknowledged(&self) -> u64 {
        self.acknowledged.saturating_sub(1 + u64::from(self.is_finished()))
    }
    /// Number of bytes written and not yet acknowledged.
    fn outstanding(&self) -> u64 {
        self.unsent_bytes + self.next.saturating_sub(self.acknowledged.max(1))
    }
    /// Room to report to the writer; `None` unless it grew enough.
    pub fn new_room(&mut self) -> Option<u64> {
        let room = self.buffer.saturating_sub(self.outstanding());
        let all = self.outstanding() == 0 && room > self.reported_room;
        // Report in steps of a quarter of the buffer, so that writes are fewer and larger than one per acknowledgment.
        if room >= self.reported_room + self.buffer / 4 || all {
            self.reported_room = room;
            return Some(room);
        }
        None
    }
    pub fn deadline(&self) -> Option<Instant> {
        Instant::earliest([self.timeout_at, self.probe_at, self.overtaken_at])
    }

    /// Handles an acknowledgment.
    pub fn acknowledge(&mut self, now: Instant, segment: &Segment, acknowledgment: u64) {
        // A broken or hostile peer acknowledges bytes that were never sent.
        if acknowledgment > self.next {
            return;
        }
        self.edge = self.edge.max(acknowledgment.saturating_add(segment.window));
        let opens = !self.is_open() && acknowledgment > 0;
        self.undo_early_timeout(segment, acknowledgment);
        // With less than one segment of the window free, the window limits the sender (cwnd-limited).
        let limited = self.pipe_bytes + self.segment >= self.window.size();
        let (mut grown, mut arrived) = (0, 0);
        let mut any = acknowledgment > self.acknowledged;
        let (cumulative, latest) = ((self.acknowledged, acknowledgment), self.rack.latest());
        self.acknowledged = self.acknowledged.max(acknowledgment);
        let mut measured = None;
        for (start, end) in core::iter::once(cumulative).chain(segment.selective.ranges().iter().copied()) {
            while let Some((sequence, sent)) = self.flight.from(start) {
                // A segment that ends beyond this range is not acknowledged by it, and neither is any later segment.
                if sequence + sent.content.length() > end {
                    break;
                }
                let Some(sent) = self.remove(sequence) else { break };
                any = true;
                arrived += sent.content.length();
                self.rack.arrived(now, sent.order, sent.at, sent.again, latest);
                // Deliveries of data sent before the recovery do not make the window grow.
                if sent.order > self.recovery {
                    grown += sent.content.length();
                }
                if !sent.again {
                    measured = measured.max(Some(sent.at));
                }
            }
        }
        // Timestamps identify the transmission that was answered; without them, only segments sent once count (Karn's
        // algorithm).
        let stamp = segment.echo.filter(|_| acknowledgment > cumulative.0);
        let (taken, round) = (stamp.or(measured).map(|at| now - at), self.acknowledged > self.round_end);
        if let Some(taken) = taken {
            if round {
                self.round_end = self.next;
            }
            self.round_trip.sample(taken, round);
        }
        if opens {
            // On a path longer than the first timeout, the SYN is repeated needlessly (timestamps reveal that, and
            // Linux undoes it, too), so start again with the initial window.
            self.window = CongestionWindow::new(self.congestion, self.segment, self.round_trip.smoothed_ns());
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
            // The answer to a window probe shows that the peer is alive, though its window is closed.
            self.last_progress = now;
        }
    }

    /// Undoes a spurious timeout: the segment acknowledged first was sent before the timeout, so it was late and not
    /// lost (RFC 3522; Linux detects that by timestamps, too).
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

    /// Handles deadlines that have passed; returns false if the connection must be given up.
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
            // All transmissions in flight count as lost (RFC 8985 6.3).
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

    /// Whether a window probe, an empty segment with an old sequence number, must be sent now. Each probe is reported
    /// once.
    pub fn take_probe(&mut self) -> bool {
        core::mem::take(&mut self.probe)
    }

    /// Takes the next segment that may be sent now, retransmissions first.
    pub fn next_segment(&mut self, now: Instant) -> Option<SegmentContent> {
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
            // The window is closed and no acknowledgment is due, so only a probe can find out that it opened (RFC 9293
            // 3.8.6.1).
            if self.flight.is_empty() && self.probe_at.is_none() {
                self.probe_at = Some(now + self.round_trip.timeout());
            }
            return None;
        }
        if !self.fits(length) {
            return None;
        }
        let payload = self.cut(length);
        let content = SegmentContent { sequence: self.next, payload, syn: false, fin: false };
        self.next += length;
        self.transmit(now, content.clone(), false);
        Some(content)
    }

    fn send_fin(&mut self, now: Instant) -> SegmentContent {
        let content = SegmentContent { sequence: self.next, payload: Payload::new(), syn: false, fin: true };
        self.next += 1;
        self.fin_sent = true;
        self.transmit(now, content.clone(), false);
        content
    }

    /// Whether the congestion window allows this many more bytes; a single segment is always allowed.
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

    /// Takes the first `length` unsent bytes.
    fn cut(&mut self, length: u64) -> Payload {
        // A write of exactly one segment is passed on without copying chunks.
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

    fn transmit(&mut self, now: Instant, content: SegmentContent, again: bool) {
        self.order += 1;
        self.pipe_bytes += content.length();
        if let Some(repair) = &mut self.repair {
            repair.left(content.length());
        }
        self.pipe.insert(self.order, content.sequence);
        self.flight.insert(content.sequence, SentSegment { content, order: self.order, at: now, again });
        self.last_sent = now;
        self.probe_at = None;
        if self.timeout_at.is_none() {
            // Retransmissions are no progress, so that the connection to a dead peer is given up in time.
            self.last_progress = if again { self.last_progress } else { now };
            self.timeout_at = Some(now + self.round_trip.timeout());
        }
    }

    /// Removes a segment from all records.
    fn remove(&mut self, sequence: u64) -> Option<SentSegment> {
        let sent = self.flight.remove(sequence)?;
        if self.pipe.remove(sent.order).is_some() {
            self.pipe_bytes -= sent.content.length();
        }
        if !self.lost.is_empty() {
            self.lost.remove(&sequence);
        }
        Some(sent)
    }

    /// Detects lost transmissions; returns whether any were found.
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
        // Losses during a recovery, even of retransmissions, reduce the window only once.
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
