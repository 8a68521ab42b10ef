//! Receiving half: puts segments in order, acknowledges them, and advertises the window.

use super::Config;
use super::segment::{Segment, Selective};
use alloc::collections::BTreeMap;
use farlink_base::{Duration, Instant, Payload};

/// Delay of the acknowledgment of a single segment (Linux `TCP_DELACK_MIN`).
const ACK_DELAY: Duration = Duration::from_millis(40);
/// Longest time over which Linux merges arriving segments of a burst into one packet (receive offload), which it
/// acknowledges once. The value combines the coalescing delay of an interface and the time resolution of our emulator.
const TRAIN: Duration = Duration::from_micros(200);
/// Window advertised at the beginning. It grows by twice what arrives, up to the buffer (Linux `tcp_grow_window`), which
/// bounds only senders that more than triple their rate in a round trip, as Hybla does on long paths.
const FIRST_WINDOW: u64 = 65_535;
/// Number of segments at the beginning of a connection that are acknowledged at once (Linux `TCP_MAX_QUICKACKS`).
const QUICK_ACKS: u32 = 16;

#[derive(Clone, Debug)]
pub(super) struct Receiver {
    buffer: u64,
    /// Largest window to advertise so far.
    opened: u64,
    /// Next expected sequence number; `None` before the peer's SYN.
    next: Option<u64>,
    /// Segments that arrived out of order, by first sequence number: payload, and whether the FIN follows it.
    early: BTreeMap<u64, (Payload, bool)>,
    selective: Selective,
    paused: bool,
    /// Bytes that are in order and not yet read.
    held: Payload,
    finished: bool,
    /// Number of segments since the last acknowledgment left.
    unacknowledged: u32,
    quick: u32,
    ack_at: Option<Instant>,
    train: Train,
    /// Sequence number acknowledged last, and timestamp to echo (RFC 7323 4.3).
    last_acknowledged: u64,
    echo: Option<Instant>,
    /// Window advertised last.
    advertised: u64,
}

/// A burst of segments, which reaches the receiver as one packet.
#[derive(Clone, Copy, Default, Debug)]
struct Train {
    start: Instant,
    last: Instant,
    /// Whether the last segment announced another one.
    more: bool,
    /// Time between the last two segments of the burst.
    pace: Duration,
}

impl Train {
    /// Adds a segment. Returns when its packet reaches the receiver: at the end of the burst, or when the coalescing
    /// delay has passed.
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
            opened: config.receive_buffer.min(FIRST_WINDOW),
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
            advertised: config.receive_buffer.min(FIRST_WINDOW),
        }
    }

    /// Acknowledgment number; `None` before the peer's SYN.
    pub fn next(&self) -> Option<u64> {
        self.next
    }
    pub fn selective(&self) -> Selective {
        self.selective
    }
    pub fn window(&self) -> u64 {
        self.buffer.saturating_sub(self.held.len()).min(self.opened)
    }
    /// Whether the peer's FIN arrived and all bytes before it were read.
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

    /// Records that an acknowledgment was sent.
    pub fn acknowledged(&mut self) {
        self.unacknowledged = 0;
        self.ack_at = None;
        self.advertised = self.window();
        self.last_acknowledged = self.next.unwrap_or(0);
    }

    /// Handles a segment that occupies sequence numbers, or repeats old ones.
    pub fn take(&mut self, now: Instant, segment: Segment) {
        if segment.sequence <= self.last_acknowledged {
            // The stamp of the segment that the next acknowledgment answers (RFC 7323 4.3).
            self.echo = Some(segment.stamp);
        }
        let Some(next) = self.next else {
            self.next = segment.syn.then(|| segment.sequence + 1);
            self.ack_at = Some(now);
            return;
        };
        let end = segment.sequence + segment.length();
        if end <= next || end > next + self.window() + u64::from(segment.fin) {
            // The segment is old, or beyond the window: acknowledge the expected number (RFC 9293 3.10.7.4).
            self.ack_at = Some(now);
            return;
        }
        self.opened = (self.opened + 2 * segment.payload.len()).min(self.buffer);
        self.unacknowledged += 1;
        let handed_over = self.train.join(now, segment.more);
        let in_order = segment.sequence <= next;
        if segment.sequence == next && self.early.is_empty() {
            // Fast path: the segment is in order, and none waits behind a gap.
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
        // While losses are repaired, the sender needs every acknowledgment (RFC 5681 4.2).
        let hole = !in_order || !self.early.is_empty();
        let at_once = hole || self.finished || self.quick > 0 || self.unacknowledged >= 2;
        self.quick = self.quick.saturating_sub(1);
        let deadline = if at_once { handed_over } else { now + ACK_DELAY };
        // If a burst ends before the coalescing delay, its last segment brings the acknowledgment forward.
        self.ack_at = Some(self.ack_at.map_or(deadline, |at| at.min(deadline)));
    }

    /// Takes the bytes that are in order; `None` if nothing is in order or the reader paused.
    pub fn read(&mut self) -> Option<Payload> {
        (!self.paused && !self.held.is_empty()).then(|| core::mem::take(&mut self.held))
    }

    pub fn pause(&mut self) {
        self.paused = true;
    }
    /// Resumes reading; if the advertised window had become small, an acknowledgment advertises the new one at once.
    pub fn resume(&mut self, now: Instant) {
        self.paused = false;
        if self.advertised < self.opened / 2 {
            self.ack_at = Some(now);
        }
    }

    /// Moves segments that are in order now to the bytes for the reader.
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
            // Bytes received before are dropped, so that the first copy stays.
            drop(payload.split_to((next - start).min(payload.len())));
            self.held.append(payload);
            self.finished |= fin;
            next = end;
        }
        self.next = Some(next);
        self.selective.acknowledge(next);
    }

    /// Range of contiguous received data around a segment from `sequence` to `end`.
    fn block_around(&self, sequence: u64, end: u64) -> (u64, u64) {
        let known = self.selective.ranges().iter().copied();
        let (mut start, mut end) = (sequence, end);
        for (s, e) in known {
            // Ranges reported before are known to be contiguous and are not searched again.
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
