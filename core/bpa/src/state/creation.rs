//! Unique creation timestamps (RFC 9171 4.2.7), with or without a clock.

use crate::app::{RequestId, SendRequest};
use alloc::collections::VecDeque;
use farlink_base::{CreationTimestamp, DtnTime, Empty, Lazy};

/// Sequence numbers reserved on disk at a time.
const RESERVE: u64 = 10_000;
/// Most requests that wait for a reservation.
const WAITING_MAX: usize = 10_000;

/// Timestamps assigned so far.
#[derive(Debug, Default)]
pub(crate) struct Creation {
    /// Last timestamp with a time: DTN ms, and sequence number.
    last: (u64, u64),
    /// First sequence number of each millisecond: above those of all earlier runs, so that no timestamp repeats if the
    /// clock was set back between runs.
    first: u64,
    /// Last sequence number assigned without a clock.
    counter: u64,
    /// Highest durably reserved number.
    reserved: u64,
    /// Highest number whose reservation was requested.
    asked: u64,
    /// Requests that wait for a reservation.
    waiting: Lazy<StampLine>,
}

#[derive(Debug)]
struct StampLine(VecDeque<(RequestId, SendRequest)>);
// Allocated on first use: with a clock no request waits.
impl Empty for StampLine {
    type From = ();
    const EMPTY: &'static Self = &StampLine(VecDeque::new());
    fn make((): ()) -> Self {
        StampLine(VecDeque::new())
    }
}

/// A timestamp, or the reservation that must precede it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Next {
    /// The timestamp; `None` while numbers are being reserved.
    pub timestamp: Option<CreationTimestamp>,
    /// Highest number to be reserved; `None` if enough are reserved.
    pub reserve: Option<u64>,
}

impl Creation {
    /// Starts above the numbers of earlier runs, the highest being `counter`. Returns the highest number to reserve
    /// now.
    pub fn resume(&mut self, counter: u64) -> u64 {
        (self.first, self.counter, self.reserved) = (counter, counter, counter);
        self.asked = counter + RESERVE;
        self.asked
    }
    /// Notes that numbers up to `value` are durably reserved.
    pub fn reserved(&mut self, value: u64) {
        self.reserved = value;
    }
    /// Makes a timestamp at the wall time `utc`, or, for `None`, without a time. A reservation is awaited only without
    /// a clock. With a clock, a timestamp repeats after a restart only if the crash lost the reservation and the clock
    /// is set back to the same millisecond.
    // 9171-4.2.7-2, 9171-4.2.7-3, 5050-4.5.1-1
    pub fn next(&mut self, utc: Option<DtnTime>) -> Next {
        let Some(utc) = utc else {
            let reserve = self.reserve_beyond(self.counter);
            if self.counter >= self.reserved {
                return Next { timestamp: None, reserve };
            }
            self.counter += 1;
            let timestamp = CreationTimestamp { time: DtnTime::UNKNOWN, sequence: self.counter };
            return Next { timestamp: Some(timestamp), reserve };
        };
        // RFC 9171 4.2.7: a clock that steps back must not repeat a timestamp.
        self.last = if utc.0 > self.last.0 { (utc.0, self.first) } else { (self.last.0, self.last.1 + 1) };
        let timestamp = CreationTimestamp { time: DtnTime(self.last.0), sequence: self.last.1 };
        Next { timestamp: Some(timestamp), reserve: self.reserve_beyond(self.last.1) }
    }
    /// Highest number to reserve next, once half of the last reservation is used.
    fn reserve_beyond(&mut self, number: u64) -> Option<u64> {
        (number + RESERVE / 2 >= self.asked).then(|| {
            self.asked = self.asked.max(number) + RESERVE;
            self.asked
        })
    }
    /// Keeps a request until numbers are reserved. Returns its number as the error if too many wait.
    pub fn wait(&mut self, request: RequestId, wanted: SendRequest) -> Result<(), RequestId> {
        if self.waiting.0.len() >= WAITING_MAX {
            return Err(request);
        }
        self.waiting.0.push_back((request, wanted));
        Ok(())
    }
    /// Takes the request that has waited longest.
    pub fn pop_waiting(&mut self) -> Option<(RequestId, SendRequest)> {
        self.waiting.made()?.0.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    /// Keeps 9171-4.2.7-2, 9171-4.2.7-3, 5050-4.5.1-1.
    #[test]
    fn clock_step_back_repeats_no_timestamp() {
        // RFC 9171 4.2.7: sequence numbers distinguish bundles of one creation time.
        let mut creation = Creation::default();
        let mut at = |ms| creation.next(Some(DtnTime(ms))).timestamp.map(|t| (t.time.0, t.sequence));
        assert_eq!([at(5), at(5), at(4), at(6)], [Some((5, 0)), Some((5, 1)), Some((5, 2)), Some((6, 0))]);
    }

    #[test]
    fn restart_with_earlier_clock_repeats_nothing() {
        let mut creation = Creation::default();
        let mut reserved = creation.resume(0);
        // Several runs at one clock reading stand for a clock set back in between.
        let (at, mut used) = (Some(DtnTime(5)), Vec::new());
        for run in 0..3 {
            for _ in 0..2 * RESERVE {
                let next = creation.next(at);
                used.extend(next.timestamp.map(|t| (t.time.0, t.sequence)));
                reserved = next.reserve.unwrap_or(reserved);
            }
            assert!(run > 0 || used.starts_with(&[(5, 0), (5, 1)]));
            creation = Creation::default();
            reserved = creation.resume(reserved);
        }
        let made = used.len();
        used.sort_unstable();
        used.dedup();
        assert_eq!((used.len(), made), (made, 6 * RESERVE as usize));
    }

    /// Keeps 9171-4.2.7-3.
    #[test]
    fn numbers_are_reserved_before_use() {
        let mut creation = Creation::default();
        assert_eq!(creation.resume(70), 70 + RESERVE);
        assert_eq!(creation.next(None), Next { timestamp: None, reserve: None });
        creation.reserved(70 + RESERVE);
        let next = creation.next(None);
        assert_eq!(next.timestamp.map(|t| (t.time.0, t.sequence)), Some((0, 71)));
        assert_eq!(next.reserve, None, "there are enough");
        let low = (0..RESERVE / 2).map(|_| creation.next(None)).find_map(|next| next.reserve);
        assert_eq!(low, Some(70 + 2 * RESERVE), "more are reserved in good time");
    }
}
