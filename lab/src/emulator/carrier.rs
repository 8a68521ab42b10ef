//! When the carrier of a link rises and falls: up from shortly before either direction opens until both are closed and
//! nothing is in flight.

use farlink_base::{Duration, Instant};
use farlink_link::LinkDirection;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Notice before a link opens, so that the carrier is up in time.
const NOTICE: Duration = Duration::from_millis(50);
/// Time after the closing, or after the last arrival, for which frames sent before may still be on their way to the link
/// model or, late, to the host.
const SETTLE_NS: u64 = 10_000_000;
/// Time by which a carrier may fall late after that, so that no change is more than 50 ms late.
const LATE_NS: u64 = 40_000_000;

/// State of a direction that the thread of the carriers reads without a lock.
#[derive(Debug)]
pub struct DirectionState {
    /// Whether the direction may transmit now or within the notice time.
    pub up: AtomicBool,
    /// Monotonic nanoseconds at which everything in flight has arrived.
    pub drained_ns: AtomicU64,
    /// Monotonic nanoseconds of the next opening, or of the last one if it is open.
    pub opens_ns: AtomicU64,
    /// Monotonic nanoseconds of the last closing; 0 before any.
    pub closed_ns: AtomicU64,
    /// Changes for which the carrier came too late. Packets sent before a late rise are dropped by the host.
    pub missed: AtomicU64,
}

impl DirectionState {
    /// State of a direction that is up from the start.
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

    /// Records that the carrier is up from now on, and counts an opening it missed.
    pub fn carrier_up(&self, now_ns: u64) {
        let late = self.up.load(Ordering::Relaxed) && now_ns > self.opens_ns.load(Ordering::Relaxed);
        self.missed.fetch_add(u64::from(late), Ordering::Relaxed);
    }

    /// Monotonic nanoseconds from which the carrier is needed no longer.
    pub fn idle_ns(&self) -> u64 {
        self.drained_ns.load(Ordering::Relaxed).max(self.closed_ns.load(Ordering::Relaxed)).saturating_add(SETTLE_NS)
    }

    /// Records that a carrier needed until `idle_ns` is down from now on, and counts it if it is late.
    pub fn carrier_down(&self, now_ns: u64, idle_ns: u64) {
        let late = self.closed_ns.load(Ordering::Relaxed) > 0 && now_ns > idle_ns.saturating_add(LATE_NS);
        self.missed.fetch_add(u64::from(late), Ordering::Relaxed);
    }
}

/// Openings and closings of a direction. They are asked at the real time, ahead of the link model, whose time is that of
/// the last frame: a quiet link opens and closes too.
pub struct CarrierSchedule {
    link: LinkDirection,
    start_ns: u64,
    next_ns: u64,
    /// Whether it is open, and the next change after that.
    last: (bool, Instant),
}

impl CarrierSchedule {
    /// Schedule of a link model that has carried nothing yet.
    pub fn new(link: LinkDirection) -> CarrierSchedule {
        CarrierSchedule { link, start_ns: 0, next_ns: 0, last: (false, Instant::ZERO) }
    }

    /// Sets the monotonic nanoseconds of model time 0.
    pub fn begin(&mut self, start_ns: u64) {
        self.start_ns = start_ns;
    }

    /// Monotonic nanoseconds at which [`CarrierSchedule::publish`] has something to do.
    pub fn next_ns(&self) -> u64 {
        self.next_ns
    }

    /// Brings the state up to date. Call it with times that never go back.
    pub fn publish(&mut self, now_ns: u64, state: &DirectionState) {
        let now = Instant(now_ns.saturating_sub(self.start_ns));
        let mut closed = None;
        // A late caller missed several changes.
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
        // Released after the times, which the reader compares.
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
        // Windows 20 ms apart are one for the carrier.
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
