//! Receiving half: reorders segments, acknowledges them and advertises the window.

use super::Config;
use super::segment::{Segment, Selective};
use alloc::collections::BTreeMap;
use farlink_base::{Duration, Instant, Payload};

/// Delay of the acknowledgment of a single segment (Linux `TCP_DELACK_MIN`).
const ACK_DELAY: Duration = Duration::from_millis(40);
/// Segments of one burst that arrive within this time reach Linux as one packet, which it acknowledges once (receive
/// offload: the coalescing delay of the interface, and the time grain of our emulator).
const TRAIN: Duration = Duration::from_micros(200);
/// Segments acknowledged immediately at the beginning of a connection (Linux `TCP_MAX_QUICKACKS`).
const QUICK_ACKS: u32 = 16;

#[derive(Clone, Debug)]
pub(super) struct Receiver {
    buffer: u64,
    /// Next expected sequence number; `None` before the SYN.
    next: Option<u64>,
    /// Out-of-order segments: start to (payload, whether it is the FIN).
    early: BTreeMap<u64, (Payload, bool)>,
    selective: Selective,
    paused: bool,
    /// Bytes in order, not yet read.
    held: Payload,
    finished: bool,
    /// Segments since the last acknowledgment left.
    unacknowledged: u32,
    quick: u32,
    ack_at: Option<Instant>,
    train: Train,
    /// Last acknowledgment sent, and the timestamp to echo (RFC 7323 4.3).
    last_acknowledged: u64,
    echo: Option<Instant>,
    /// Window last advertised.
    advertised: u64,
}

/// Burst of segments that arrives as one packet.
#[derive(Clone, Copy, Default, Debug)]
struct Train {
    start: Instant,
    last: Instant,
    /// Whether the last segment announced another.
    more: bool,
    /// Time between two segments of the burst.
    pace: Duration,
}

impl Train {
    /// Adds a segment. Returns when its packet reaches the receiver: at the end of the burst or of the coalescing
    /// delay.
    fn join(&mut self, now: Instant, more: bool) -> Instant {
        if self.more {
            self.pace = now.since(self.last);
        }
        if !self.more || now.since(self.start) > TRAIN {
            self.start = now;
        }
        (self.last, self.more) = (now, more);
        if more && self.pace <= TRAIN { self.start + TRAIN } else { now }
    }
}

impl Receiver {
    pub fn new(config: &Config) -> Receiver {
        Receiver {
            buffer: config.receive_buffer,
            next: None,
            early: BTreeMap::new(),
            selective: Selective::default(),
            paused: false,
            held: Payload::new(),
            finished: false,
            unacknowledged: 0,
            quick: QUICK_ACKS,
            ack_at: None,
            train: Train::default(),
            last_acknowledged: 0,
            echo: None,
            advertised: config.receive_buffer,
        }
    }

    /// Acknowledgment number; `None` before the SYN.
    pub fn next(&self) -> Option<u64> {
        self.next
    }
    pub fn selective(&self) -> Selective {
        self.selective
    }
    pub fn window(&self) -> u64 {
        self.buffer.saturating_sub(self.held.len())
    }
    /// Whether the peer's FIN was received and all bytes before it were read.
    pub fn is_finished(&self) -> bool {
        self.finished && self.held.is_empty()
    }
    /// Timestamp to echo in the next segment.
    pub fn echo(&self) -> Option<Instant> {
        self.echo
    }
    pub fn ack_deadline(&self) -> Option<Instant> {
        self.ack_at
    }

    /// Notes that an acknowledgment was sent.
    pub fn acknowledged(&mut self) {
        self.unacknowledged = 0;
        self.ack_at = None;
        self.advertised = self.window();
        self.last_acknowledged = self.next.unwrap_or(0);
    }

    /// Processes a segment that occupies sequence numbers (or repeats old ones).
    pub fn take(&mut self, now: Instant, segment: Segment) {
        if segment.sequence <= self.last_acknowledged {
            // RFC 7323 4.3: the stamp of the segment that the next acknowledgment answers.
            self.echo = Some(segment.stamp);
        }
        let Some(next) = self.next else {
            self.next = segment.syn.then(|| segment.sequence + 1);
            self.ack_at = Some(now);
            return;
        };
        let end = segment.sequence + segment.length();
        if end <= next || end > next + self.window() + u64::from(segment.fin) {
            // Old, or beyond the window: acknowledge the expected number (RFC 9293 3.10.7.4).
            self.ack_at = Some(now);
            return;
        }
        self.unacknowledged += 1;
        let handed_over = self.train.join(now, segment.more);
        let in_order = segment.sequence <= next;
        if segment.sequence == next && self.early.is_empty() {
            // Fast path: in order, without a gap behind it.
            self.held.append(segment.payload);
            self.finished |= segment.fin;
            self.next = Some(end);
            self.selective.acknowledge(end);
        } else if in_order {
            self.early.entry(segment.sequence).or_insert((segment.payload, segment.fin));
            self.advance(next);
        } else {
            self.early.entry(segment.sequence).or_insert((segment.payload, segment.fin));
            let (start, end) = self.block_around(segment.sequence, end);
            self.selective.push_front(start, end);
        }
        // Loss is under repair: the sender needs every acknowledgment (RFC 5681 4.2).
        let hole = !in_order || !self.early.is_empty();
        let at_once = hole || self.finished || self.quick > 0 || self.unacknowledged >= 2;
        self.quick = self.quick.saturating_sub(1);
        let deadline = if at_once { handed_over } else { now + ACK_DELAY };
        // The end of a burst may come before the coalescing delay ends.
        self.ack_at = Some(self.ack_at.map_or(deadline, |at| at.min(deadline)));
    }

    /// Takes the bytes in order, unless the reader paused.
    pub fn read(&mut self) -> Option<Payload> {
        (!self.paused && !self.held.is_empty()).then(|| core::mem::take(&mut self.held))
    }

    pub fn pause(&mut self) {
        self.paused = true;
    }
    /// Resumes reading; a window that had become small is advertised immediately.
    pub fn resume(&mut self, now: Instant) {
        self.paused = false;
        if self.advertised < self.buffer / 2 {
            self.ack_at = Some(now);
        }
    }

    /// Moves segments that are now in order to the reader.
    fn advance(&mut self, mut next: u64) {
        while let Some(entry) = self.early.first_entry() {
            if *entry.key() > next {
                break;
            }
            let (start, (mut payload, fin)) = entry.remove_entry();
            let end = start + payload.len() + u64::from(fin);
            if end <= next {
                continue;
            }
            // Bytes received before are dropped: the first copy stays.
            drop(payload.split_to((next - start).min(payload.len())));
            self.held.append(payload);
            self.finished |= fin;
            next = end;
        }
        self.next = Some(next);
        self.selective.acknowledge(next);
    }

    /// Range of contiguous received segments around one.
    fn block_around(&self, sequence: u64, end: u64) -> (u64, u64) {
        let known = self.selective.ranges().iter().copied();
        let (mut start, mut end) = (sequence, end);
        for (s, e) in known {
            // Ranges reported before need no second walk.
            if s <= end && e >= start {
                start = start.min(s);
                end = end.max(e);
            }
        }
        for (s, (payload, fin)) in self.early.range(end..) {
            if *s != end {
                break;
            }
            end = s + payload.len() + u64::from(*fin);
        }
        for (s, (payload, fin)) in self.early.range(..start).rev() {
            if s + payload.len() + u64::from(*fin) != start {
                break;
            }
            start = *s;
        }
        (start, end)
    }
}
