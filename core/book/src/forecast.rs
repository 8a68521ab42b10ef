//! How full a store will be, by the rates at which bundles are to come and to leave: what ION's
//! planners call a congestion forecast.
//!
//! Exact: occupancy is counted in bits times nanoseconds. What leaves is taken to leave as fast as
//! it may while there is something, so that a store that runs empty stays empty.

use alloc::vec::Vec;
use farlink_base::{DataRate, Instant};

/// Bits times nanoseconds in a byte that is there for a second.
const UNIT: i128 = 8_000_000_000;

/// Bundles that come, or leave, at a rate for some time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Flow {
    /// From when.
    pub start: Instant,
    /// Until when.
    pub end: Instant,
    /// How fast.
    pub rate: DataRate,
    /// Whether they come to the store; else they leave it.
    pub comes: bool,
}

/// How full a store is at a moment at which that begins to change in another way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Level {
    /// When.
    pub at: Instant,
    /// Bytes in it, rounded up.
    pub bytes: u64,
}

/// A forecast.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Forecast {
    /// From its beginning to its end, in order of time; between two the level changes evenly.
    pub levels: Vec<Level>,
    /// When the store is full for the first time; `None`: it never is.
    pub full: Option<Instant>,
}

impl Forecast {
    /// The highest level, the first where there are several; `None` where nothing was forecast.
    pub fn peak(&self) -> Option<Level> {
        self.levels.iter().copied().reduce(|most, level| if level.bytes > most.bytes { level } else { most })
    }
}

/// What becomes of a store that holds `occupied` bytes at `from`, by these flows, until `until`.
/// `capacity` bytes make it full; what it would take beyond is counted on, so that the peak says how
/// much room is needed. Flows may be of any order and number.
pub fn forecast(occupied: u64, capacity: u64, flows: &[Flow], from: Instant, until: Instant) -> Forecast {
    let mut forecast = Forecast::default();
    if until < from {
        return forecast;
    }
    let mut changes = Vec::with_capacity(2 * flows.len());
    for flow in flows.iter().filter(|flow| flow.start < flow.end && flow.end > from && flow.start < until) {
        let rate = if flow.comes { i128::from(flow.rate.0) } else { -i128::from(flow.rate.0) };
        changes.push((flow.start.max(from), rate));
        changes.push((flow.end.min(until), -rate));
    }
    changes.push((until, 0));
    changes.sort_unstable();
    let (full, mut at, mut growth) = (i128::from(capacity) * UNIT, from, 0);
    let mut level = i128::from(occupied) * UNIT;
    forecast.full = (level >= full).then_some(from);
    forecast.note(from, level);
    for (next, change) in changes {
        let time = i128::from(next.since(at).as_nanos() as u64);
        let before = level;
        let after = before.saturating_add(i128::saturating_mul(growth, time));
        if after < 0 {
            // It is empty before.
            forecast.note(Instant(at.0.saturating_add(ceil(before, -growth))), 0);
        }
        level = after.max(0);
        if forecast.full.is_none() && level >= full {
            forecast.full = Some(Instant(at.0.saturating_add(ceil(full - before, growth))));
        }
        forecast.note(next, level);
        (at, growth) = (next, growth + change);
    }
    forecast
}

/// A quotient of what is positive, rounded up.
fn ceil(what: i128, by: i128) -> u64 {
    u64::try_from(what.saturating_add(by - 1) / by).unwrap_or(u64::MAX)
}

impl Forecast {
    /// Notes a level once.
    fn note(&mut self, at: Instant, level: i128) {
        let bytes = ceil(level, UNIT);
        match self.levels.last_mut() {
            Some(last) if last.at == at => last.bytes = bytes,
            _ => self.levels.push(Level { at, bytes }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(s: u64) -> Instant {
        Instant(s * 1_000_000_000)
    }
    /// Kilobytes a second.
    fn flow(start: u64, end: u64, kilobytes: u64, comes: bool) -> Flow {
        Flow { start: at(start), end: at(end), rate: DataRate::from_bytes_per_second(kilobytes * 1000), comes }
    }
    fn levels(forecast: &Forecast) -> Vec<(u64, u64)> {
        forecast.levels.iter().map(|level| (level.at.0 / 1_000_000_000, level.bytes / 1000)).collect()
    }

    #[test]
    fn inflow_less_outflow_fills_store() {
        // 10 kB; +5 kB/s for 10 s, of these 4 s with -2 kB/s; then -4 kB/s for 30 s.
        let flows = [flow(30, 60, 4, false), flow(10, 20, 5, true), flow(12, 16, 2, false)];
        let seen = forecast(10_000, 50_000, &flows, at(5), at(70));
        let expected = [(5, 10), (10, 10), (12, 20), (16, 32), (20, 52), (30, 52), (43, 0), (60, 0), (70, 0)];
        assert_eq!(levels(&seen), expected);
        assert_eq!(seen.full, Some(Instant(19_600_000_000)), "32 kB at 16 s, and 5 kB/s more");
        assert_eq!(seen.peak(), Some(Level { at: at(20), bytes: 52_000 }));
    }

    #[test]
    fn empty_store_stays_empty() {
        let flows = [flow(0, 100, 3, false), flow(50, 100, 4, true)];
        let seen = forecast(0, 1_000_000, &flows, at(0), at(100));
        assert_eq!(levels(&seen), [(0, 0), (50, 0), (100, 50)]);
        assert_eq!(seen.full, None);
    }

    #[test]
    fn only_flows_within_interval_count() {
        let flows = [flow(0, 100, 1, true), flow(200, 300, 1, true), flow(40, 30, 9, true), flow(0, 10, 9, true)];
        assert_eq!(levels(&forecast(0, 1_000_000, &flows, at(50), at(80))), [(50, 0), (80, 30)]);
        assert_eq!(levels(&forecast(7_000, 0, &flows, at(50), at(50))), [(50, 7)]);
        assert_eq!(forecast(7_000, 7_000, &[], at(50), at(50)).full, Some(at(50)), "full already");
        assert_eq!(forecast(7_000, 0, &flows, at(50), at(49)), Forecast::default(), "ends before it begins");
    }

    #[test]
    fn absurd_numbers_saturate() {
        let much = Flow { start: Instant::ZERO, end: Instant::MAX, rate: DataRate(u64::MAX), comes: true };
        let seen = forecast(u64::MAX, u64::MAX, &[much; 3], Instant::ZERO, Instant::MAX);
        assert_eq!((seen.full, seen.levels.len()), (Some(Instant::ZERO), 2));
        assert_eq!(seen.peak().map(|level| level.bytes), Some(u64::MAX));
        let leaves = Flow { comes: false, ..much };
        assert_eq!(forecast(9, 10, &[leaves], Instant::ZERO, Instant::MAX).peak().map(|level| level.bytes), Some(9));
    }
}
