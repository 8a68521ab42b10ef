//! Times at which the carrier of a link rises and falls: it is up from shortly before either direction opens until both
//! are closed and nothing is in flight.

use farlink_base::{Duration, Instant};
use farlink_link::LinkDirection;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Time before a link opens at which its carrier is raised, so that it is up in time.
const NOTICE: Duration = Duration::from_millis(50);
/// Time for which a carrier stays up after the closing or the last arrival: frames sent before may still be on their
/// way to the link model, or late on their way to the host.
const SETTLE_NS: u64 = 10_000_000;
/// Tolerance for a carrier's fall after the settling time; with it, no fall is more than 50 ms late.
const LATE_NS: u64 = 40_000_000;

/// State of a direction that the polling thread, which sets the carriers, reads without a lock.
#[derive(Debug)]
pub struct DirectionState {
    /// Whether the direction may transmit now, or opens within the notice time.
    pub up: AtomicBool,
    /// Monotonic time, in ns, at which the last frame in flight arrives.
    pub drained_ns: AtomicU64,
    /// Monotonic time of the next opening, or of the last one if the direction is open, in ns.
    pub opens_ns: AtomicU64,
    /// Monotonic time of the last closing, in ns; 0 before the first.
    pub closed_ns: AtomicU64,
    /// Openings and closings for which the carrier was late. The host drops packets that it sends before a late rise.
    pub missed: AtomicU64,
}

impl DirectionState {
    /// Creates the state of a direction that is up from the start.
    pub fn new() -> DirectionState {
        let zero = || AtomicU64::new(0);
        DirectionState {
            up: AtomicBool::new(true),
            drained_ns: zero(),
            opens_ns: zero(),
            closed_ns: zero(),
            missed: zero(),
        }
    }

    /// Records that the carrier has risen, and counts an opening for which it was late.
    pub fn carrier_up(&self, now_ns: u64) {
        let late = self.up.load(Ordering::Relaxed) && now_ns > self.opens_ns.load(Ordering::Relaxed);
        self.missed.fetch_add(u64::from(late), Ordering::Relaxed);
    }

    /// Monotonic time, in ns, from which this direction no longer needs the carrier.
    pub fn idle_ns(&self) -> u64 {
        self.drained_ns.load(Ordering::Relaxed).max(self.closed_ns.load(Ordering::Relaxed)).saturating_add(SETTLE_NS)
    }

    /// Records that the carrier, needed until `idle_ns`, has fallen, and counts a closing for which it was late.
    pub fn carrier_down(&self, now_ns: u64, idle_ns: u64) {
        let late = self.closed_ns.load(Ordering::Relaxed) > 0 && now_ns > idle_ns.saturating_add(LATE_NS);
        self.missed.fetch_add(u64::from(late), Ordering::Relaxed);
    }
}

/// Openings and closings of a direction, computed for the real time. The link model advances only with frames, but a
/// quiet link must open and close, too.
pub struct CarrierSchedule {
    link: LinkDirection,
    start_ns: u64,
    next_ns: u64,
    /// Whether the direction is open, and the next time at which this changes.
    last: (bool, Instant),
}

impl CarrierSchedule {
    /// Creates the schedule of a link model that has carried nothing yet.
    pub fn new(link: LinkDirection) -> CarrierSchedule {
        CarrierSchedule { link, start_ns: 0, next_ns: 0, last: (false, Instant::ZERO) }
    }

    /// Sets the monotonic time of model time 0, in ns.
    pub fn begin(&mut self, start_ns: u64) {
        self.start_ns = start_ns;
    }

    /// Monotonic time, in ns, at which [`CarrierSchedule::publish`] must be called next.
    pub fn next_ns(&self) -> u64 {
        self.next_ns
    }

    /// Updates the state for the monotonic time `now_ns`, which must never decrease between calls.
    pub fn publish(&mut self, now_ns: u64, state: &DirectionState) {
        let now = Instant(now_ns.saturating_sub(self.start_ns));
        let mut closed = None;
        // A late caller may have missed several changes.
        while self.last.1 <= now {
            let (was_open, at) = self.last;
            closed = was_open.then_some(at).or(closed);
            self.last = (self.link.is_up(at), self.link.next_change(at));
        }
        let (open, change) = self.last;
        let monotonic = |at: Instant| at.0.saturating_add(self.start_ns);
        if let Some(at) = closed {
            state.closed_ns.store(monotonic(at), Ordering::Relaxed);
        }
        let up = open || change <= now + NOTICE;
        if up && !state.up.load(Ordering::Relaxed) {
            state.opens_ns.store(if open { now_ns } else { monotonic(change) }, Ordering::Relaxed);
        }
        self.next_ns = if up { monotonic(change) } else { monotonic(change).saturating_sub(NOTICE.as_nanos() as u64) };
        // Stored last with release ordering, so that a reader of `up` sees the times above.
        state.up.store(up, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farlink_link::{ContactWindow, DirectionSpec};

    const MS: u64 = 1_000_000;

    #[test]
    fn late_carrier_counts_missed_changes() {
        let state = DirectionState::new();
        let missed = || state.missed.swap(0, Ordering::Relaxed);
        state.opens_ns.store(1000, Ordering::Relaxed);
        state.carrier_up(900);
        assert_eq!(missed(), 0, "in time");
        state.carrier_up(1001);
        assert_eq!(missed(), 1);
        state.up.store(false, Ordering::Relaxed);
        state.carrier_up(1001);
        assert_eq!(missed(), 0, "the other direction opens");
        state.carrier_down(1001 + 40 * MS, 1000);
        assert_eq!(missed(), 0, "closed from the start");
        state.closed_ns.store(900, Ordering::Relaxed);
        assert_eq!(state.idle_ns(), 900 + 10 * MS);
        state.drained_ns.store(950, Ordering::Relaxed);
        assert_eq!(state.idle_ns(), 950 + 10 * MS);
        state.carrier_down(1000 + 40 * MS, 1000);
        assert_eq!(missed(), 0, "in time");
        state.carrier_down(1001 + 40 * MS, 1000);
        assert_eq!(missed(), 1);
    }

    #[test]
    fn quiet_link_opens_and_closes() {
        let window = |from: u64, to: u64| ContactWindow::new(Instant(from * MS), Instant(to * MS));
        let windows = Some(vec![window(200, 300), window(320, 400), window(900, 1000)]);
        let link = LinkDirection::new(DirectionSpec { windows, ..DirectionSpec::default() }, 1);
        let (mut schedule, state) = (CarrierSchedule::new(link), DirectionState::new());
        const START: u64 = 5000 * MS;
        schedule.begin(START);
        let mut changes = Vec::new();
        // Before the start, too, the state is that of the start.
        let mut now = START - 10 * MS;
        while now < START + 2000 * MS {
            let before = state.up.load(Ordering::Relaxed);
            schedule.publish(now, &state);
            if state.up.load(Ordering::Relaxed) != before {
                let of = if before { &state.closed_ns } else { &state.opens_ns };
                changes.push((
                    (now as i64 - START as i64) / MS as i64,
                    of.load(Ordering::Relaxed).saturating_sub(START) / MS,
                ));
            }
            assert!(schedule.next_ns() > now);
            now = schedule.next_ns();
        }
        // The carrier stays up between windows that are only 20 ms apart.
        assert_eq!(changes, [(-10, 0), (150, 200), (400, 400), (850, 900), (1000, 1000)]);
    }

    #[test]
    fn late_caller_knows_the_last_closing() {
        let window = |from: u64, to: u64| ContactWindow::new(Instant(from * MS), Instant(to * MS));
        let windows = Some(vec![window(100, 101), window(200, 250), window(900, 901)]);
        let link = LinkDirection::new(DirectionSpec { windows, ..DirectionSpec::default() }, 1);
        let (mut schedule, state) = (CarrierSchedule::new(link), DirectionState::new());
        for (at, closed) in [(0, 0), (90, 0), (400, 250), (895, 250), (2000, 901)] {
            schedule.publish(at * MS, &state);
            assert_eq!(state.closed_ns.load(Ordering::Relaxed), closed * MS, "at {at} ms");
        }
        assert!(!state.up.load(Ordering::Relaxed));
    }
}
