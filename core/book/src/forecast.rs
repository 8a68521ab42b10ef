//! Fill level of a store over time, computed from the rates at which bundles will arrive and leave; ION's planners call
//! this a congestion forecast.
//!
//! The computation is exact: occupancy is counted in bits times nanoseconds. Bundles leave at the full rate until the
//! store is empty.

use alloc::vec::Vec;
use farlink_base::{DataRate, Instant};

/// Factor from bytes to the unit of occupancy (bits times nanoseconds).
const UNIT: i128 = 8_000_000_000;

/// Bundles that arrive or leave at a constant rate for some time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StoreFlow {
    /// Start of the flow.
    pub start: Instant,
    /// End of the flow.
    pub end: Instant,
    /// Data rate of the flow.
    pub rate: DataRate,
    /// Whether the bundles arrive at the store; if false, they leave it.
    pub comes: bool,
}

/// Fill level at a time at which its rate of change changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StoreLevel {
    /// Time of this level.
    pub at: Instant,
    /// Bytes in the store, rounded up.
    pub bytes: u64,
}

/// Course of a store's fill level.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Forecast {
    /// Levels in order of time, from start to end; between two of them the level changes linearly.
    pub levels: Vec<StoreLevel>,
    /// Time at which the store is first full; `None` if it never is.
    pub full: Option<Instant>,
}

impl Forecast {
    /// Highest level, the earliest of equal ones; `None` for an empty forecast.
    pub fn peak(&self) -> Option<StoreLevel> {
        self.levels.iter().copied().reduce(|most, level| if level.bytes > most.bytes { level } else { most })
    }
}

/// Forecasts the fill level of a store that holds `occupied` bytes at `from`, under these flows, until `until`. The
/// store is full at `capacity` bytes, but arrivals beyond that are still counted, so that the peak shows the space
/// needed. Flows may overlap and come in any order. Empty if `until` is before `from`.
pub fn forecast(occupied: u64, capacity: u64, flows: &[StoreFlow], from: Instant, until: Instant) -> Forecast {
    let mut forecast = Forecast::default();
    if until < from {
        return forecast;
    }
    // Each flow changes the rate of change at its start and at its end; what lies outside the interval moves to its
    // bounds.
    let mut changes = Vec::with_capacity(2 * flows.len());
    for flow in flows.iter().filter(|flow| flow.start < flow.end && flow.end > from && flow.start < until) {
        let rate = if flow.comes { i128::from(flow.rate.0) } else { -i128::from(flow.rate.0) };
        changes.push((flow.start.max(from), rate));
        changes.push((flow.end.min(until), -rate));
    }
    // This change by zero gives the forecast a level at its end.
    changes.push((until, 0));
    changes.sort_unstable();
    let (full, mut at, mut growth) = (i128::from(capacity) * UNIT, from, 0);
    let mut level = i128::from(occupied) * UNIT;
    // A store may be full from the start.
    forecast.full = (level >= full).then_some(from);
    forecast.note(from, level);
    for (next, change) in changes {
        let time = i128::from(next.since(at).as_nanos() as u64);
        let before = level;
        let after = before.saturating_add(i128::saturating_mul(growth, time));
        if after < 0 {
            // The store runs empty before the next change.
            forecast.note(Instant(at.0.saturating_add(ceil(before, -growth))), 0);
        }
        // A store cannot hold less than nothing, however much may leave.
        level = after.max(0);
        if forecast.full.is_none() && level >= full {
            forecast.full = Some(Instant(at.0.saturating_add(ceil(full - before, growth))));
        }
        forecast.note(next, level);
        (at, growth) = (next, growth + change);
    }
    forecast
}

/// Quotient of two positive numbers, rounded up.
fn ceil(what: i128, by: i128) -> u64 {
    u64::try_from(what.saturating_add(by - 1) / by).unwrap_or(u64::MAX)
}

impl Forecast {
    /// Appends a level; of several levels for one time the last counts.
    fn note(&mut self, at: Instant, level: i128) {
        let bytes = ceil(level, UNIT);
        match self.levels.last_mut() {
            // Several changes at one time make one level.
            Some(last) if last.at == at => last.bytes = bytes,
            _ => self.levels.push(StoreLevel { at, bytes }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(s: u64) -> Instant {
        Instant(s * 1_000_000_000)
    }
    /// A flow of `kilobytes` kB/s.
    fn flow(start: u64, end: u64, kilobytes: u64, comes: bool) -> StoreFlow {
        StoreFlow { start: at(start), end: at(end), rate: DataRate::from_bytes_per_second(kilobytes * 1000), comes }
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
        assert_eq!(seen.peak(), Some(StoreLevel { at: at(20), bytes: 52_000 }));
    }

    #[test]
    fn empty_store_stays_empty() {
        let flows = [flow(0, 100, 3, false), flow(50, 100, 4, true)];
        // Outflow before any arrival must not count as a debt.
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
        // Sums of such flows overflow 64 bits.
        let much = StoreFlow { start: Instant::ZERO, end: Instant::MAX, rate: DataRate(u64::MAX), comes: true };
        let seen = forecast(u64::MAX, u64::MAX, &[much; 3], Instant::ZERO, Instant::MAX);
        assert_eq!((seen.full, seen.levels.len()), (Some(Instant::ZERO), 2));
        assert_eq!(seen.peak().map(|level| level.bytes), Some(u64::MAX));
        let leaves = StoreFlow { comes: false, ..much };
        assert_eq!(forecast(9, 10, &[leaves], Instant::ZERO, Instant::MAX).peak().map(|level| level.bytes), Some(9));
    }
}
