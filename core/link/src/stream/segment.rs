//! Segments exchanged by the two ends of a stream.

use farlink_base::{Instant, Payload};

/// Selective acknowledgment (RFC 2018): up to three ranges received beyond the acknowledgment number, the newest first;
/// as many as fit beside timestamps.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Selective {
    ranges: [(u64, u64); 3],
    count: u8,
}
impl Selective {
    /// Ranges `start..end` of sequence numbers.
    pub fn ranges(&self) -> &[(u64, u64)] {
        &self.ranges[..usize::from(self.count)]
    }
    /// Inserts a range at the front and removes those that it covers; the oldest range is dropped if there are too
    /// many.
    pub(super) fn push_front(&mut self, start: u64, end: u64) {
        let mut next = Selective { ranges: [(start, end), (0, 0), (0, 0)], count: 1 };
        // Three ranges are the most that fit beside the timestamp option (RFC 2018 3).
        for range in self.ranges().iter().filter(|r| r.0 < start || r.1 > end).take(2) {
            next.ranges[usize::from(next.count)] = *range;
            next.count += 1;
        }
        *self = next;
    }
    /// Removes the ranges that an acknowledgment covers.
    pub(super) fn acknowledge(&mut self, acknowledgment: u64) {
        if self.count == 0 {
            return;
        }
        let mut next = Selective::default();
        for range in self.ranges().iter().filter(|r| r.1 > acknowledgment) {
            next.ranges[usize::from(next.count)] = *range;
            next.count += 1;
        }
        *self = next;
    }
}

/// IPv4 and TCP headers of a segment with timestamps, bytes.
pub const HEADERS: u64 = 52;

/// Segment like that of TCP. The SYN has sequence number 0, data begins at 1, and the FIN takes one number.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Segment {
    /// Whether the segment opens a connection (SYN flag).
    pub syn: bool,
    /// Whether no data follows the segment (FIN flag).
    pub fin: bool,
    /// Whether another segment of the same burst follows; on a fast link both reach the receiver as one packet.
    pub more: bool,
    /// Whether the sender of the segment has no such connection, or gives it up (RST flag).
    pub reset: bool,
    /// Sequence number of the first byte.
    pub sequence: u64,
    /// Sequence number of the next byte expected from the other end; `None` before the other's SYN.
    pub acknowledgment: Option<u64>,
    /// Ranges received beyond the acknowledgment number.
    pub selective: Selective,
    /// Time of sending (timestamps of RFC 7323).
    pub stamp: Instant,
    /// Timestamp of the segment that this acknowledgment answers.
    pub echo: Option<Instant>,
    /// Receive window: number of bytes beyond the acknowledgment number that the sender of the segment accepts.
    pub window: u64,
    /// Data bytes.
    pub payload: Payload,
}
impl Segment {
    /// Number of sequence numbers that the segment occupies.
    pub fn length(&self) -> u64 {
        self.payload.len() + u64::from(self.syn) + u64::from(self.fin)
    }
    /// Length with IPv4 and TCP headers and options, bytes.
    pub fn ip_bytes(&self) -> u64 {
        let selective = match self.selective.ranges().len() as u64 {
            0 => 0,
            n => 4 + 8 * n,
        };
        // A SYN has options for segment size, SACK, timestamps and window scale; other segments have timestamps.
        let options = if self.syn { 20 } else { 12 + selective };
        40 + options + self.payload.len()
    }
    /// Reset with which a host without such a connection answers; `None` if the segment is a reset, which is never
    /// answered.
    pub fn refusal(&self) -> Option<Segment> {
        (!self.reset).then(|| Segment { reset: true, sequence: self.acknowledgment.unwrap_or(0), ..Segment::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selective_ranges_are_newest_first() {
        let mut s = Selective::default();
        for range in [(10, 20), (30, 40), (50, 60), (28, 42), (70, 80)] {
            s.push_front(range.0, range.1);
        }
        assert_eq!(s.ranges(), [(70, 80), (28, 42), (50, 60)]);
        s.acknowledge(60);
        assert_eq!(s.ranges(), [(70, 80)]);
    }

    #[test]
    fn segment_lengths_match_linux() {
        let data = Segment { payload: Payload::fill(0, 1448), ..Segment::default() };
        // IPv4 20, TCP 20, timestamps 12: a full Ethernet frame.
        assert_eq!(data.ip_bytes(), 1500);
        assert_eq!(Segment { syn: true, ..Segment::default() }.ip_bytes(), 60);
        assert_eq!(Segment::default().ip_bytes(), 52);
        assert!(Segment { reset: true, ..Segment::default() }.refusal().is_none());
    }
}
