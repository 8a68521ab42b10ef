//! Quantities that change with time: the rate in steps, the delay along straight lines.

use crate::spec::{Delay, DirectionSpec, Rate, Window};
use alloc::vec::Vec;
use farlink_base::{Duration, Instant};

const NANOSECONDS: u128 = 1_000_000_000;

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Rate as steps: (from, bits per second; `None` is unlimited). The first step is at 0.
#[derive(Clone, Debug)]
pub(crate) struct RateSchedule {
    steps: Vec<(u64, Option<u64>)>,
    /// Step in force when last asked; time only moves forward.
    current: usize,
}

impl RateSchedule {
    pub fn new(spec: &DirectionSpec) -> RateSchedule {
        let mut own: Vec<(u64, Option<u64>)> = match &spec.rate {
            Rate::Unlimited => Vec::from([(0, None)]),
            Rate::Constant(rate) => Vec::from([(0, Some(rate.0))]),
            Rate::Steps(steps) => steps.iter().map(|(at, rate)| (nanoseconds(*at), Some(rate.0))).collect(),
        };
        if own.first().is_none_or(|first| first.0 > 0) {
            own.insert(0, (0, Some(0)));
        }
        let windows: Vec<&Window> = spec.windows.iter().flatten().filter(|w| w.rate.is_some()).collect();
        let mut times: Vec<u64> = own.iter().map(|s| s.0).collect();
        times.extend(windows.iter().flat_map(|w| [w.start.0, w.end.0]));
        times.sort_unstable();
        times.dedup();
        let mut steps: Vec<(u64, Option<u64>)> = Vec::with_capacity(times.len());
        for at in times {
            let base = own.iter().rev().find(|s| s.0 <= at).and_then(|s| s.1);
            // Windows are sorted: the last one that began decides.
            let begun = windows.partition_point(|w| w.start.0 <= at);
            let inside = begun.checked_sub(1).map(|i| windows[i]).filter(|w| at < w.end.0);
            let rate = inside.map_or(base, |w| w.rate.map(|r| r.0));
            if steps.last().is_none_or(|last| last.1 != rate) {
                steps.push((at, rate));
            }
        }
        RateSchedule { steps, current: 0 }
    }

    /// Rate in force at `at`, bits per second; `None` is unlimited.
    pub fn at(&self, at: Instant) -> Option<u64> {
        let index = self.steps.partition_point(|s| s.0 <= at.0);
        self.steps[index.saturating_sub(1)].1
    }

    /// When `bytes` whose transmission begins at `start` are out, rounded up to a nanosecond;
    /// [`Instant::MAX`] for never. `start` must not go back from call to call.
    pub fn finish(&mut self, start: Instant, bytes: u64) -> Instant {
        while self.steps.get(self.current + 1).is_some_and(|next| next.0 <= start.0) {
            self.current += 1;
        }
        let mut at = start.0;
        // In bit-nanoseconds, so that a change of rate in the middle of a packet loses nothing.
        let mut left = u128::from(bytes) * 8 * NANOSECONDS;
        for (index, (_, rate)) in self.steps.iter().enumerate().skip(self.current) {
            let Some(rate) = rate else { return Instant(at) };
            let until = self.steps.get(index + 1).map_or(u64::MAX, |next| next.0);
            let capacity = u128::from(*rate) * u128::from(until - at);
            if left <= capacity {
                return match u64::try_from(left.div_ceil(u128::from(*rate).max(1))) {
                    Ok(time) => Instant(at.saturating_add(time)),
                    Err(_) => Instant::MAX,
                };
            }
            left -= capacity;
            at = until;
        }
        Instant::MAX
    }

    /// Whole bytes out by `end` of a transmission that began at `start`; all, where there is no rate.
    pub fn out_by(&self, start: Instant, end: Instant) -> u64 {
        let (mut at, mut out) = (start.0, 0u128);
        while at < end.0 {
            let index = self.steps.partition_point(|s| s.0 <= at);
            let Some(rate) = self.steps[index.saturating_sub(1)].1 else { return u64::MAX };
            let until = self.steps.get(index).map_or(end.0, |next| next.0.min(end.0));
            out += u128::from(rate) * u128::from(until - at);
            at = until;
        }
        u64::try_from(out / (8 * NANOSECONDS)).unwrap_or(u64::MAX)
    }
}

/// Delay along straight lines between points, with windows that override it.
#[derive(Clone, Debug)]
pub(crate) struct DelaySchedule {
    points: Vec<(u64, u64)>,
    windows: Vec<(u64, u64, u64)>,
}

impl DelaySchedule {
    pub fn new(spec: &DirectionSpec) -> DelaySchedule {
        let points = match &spec.delay {
            Delay::Constant(delay) => Vec::from([(0, nanoseconds(*delay))]),
            Delay::Table(points) => points.iter().map(|(at, d)| (nanoseconds(*at), nanoseconds(*d))).collect(),
        };
        let windows = spec.windows.iter().flatten();
        let windows = windows.filter_map(|w| Some((w.start.0, w.end.0, nanoseconds(w.delay?)))).collect();
        DelaySchedule { points, windows }
    }

    /// One-way delay in nanoseconds of a packet that leaves at `at`.
    pub fn at(&self, at: Instant) -> u64 {
        if !self.windows.is_empty() {
            // The last bit of a window leaves at its end, which still counts to it: `<=`.
            let begun = self.windows.partition_point(|w| w.0 <= at.0);
            if let Some(window) = begun.checked_sub(1).map(|i| self.windows[i]).filter(|w| at.0 <= w.1) {
                return window.2;
            }
        }
        let after = self.points.partition_point(|p| p.0 <= at.0);
        match (after.checked_sub(1).and_then(|i| self.points.get(i)), self.points.get(after)) {
            (Some(a), Some(b)) => {
                let (span, into) = (i128::from(b.0 - a.0), i128::from(at.0 - a.0));
                let change = i128::from(b.1) - i128::from(a.1);
                (i128::from(a.1) + change * into / span) as u64
            }
            (Some(only), None) | (None, Some(only)) => only.1,
            (None, None) => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farlink_base::DataRate;

    const S: u64 = 1_000_000_000;

    #[test]
    fn a_packet_across_a_change_of_rate_takes_both_rates() {
        let steps = Vec::from([(Duration::ZERO, DataRate(8000)), (Duration::from_secs(1), DataRate(800))]);
        let mut rate = RateSchedule::new(&DirectionSpec { rate: Rate::Steps(steps), ..DirectionSpec::default() });
        assert_eq!(rate.finish(Instant(0), 1000), Instant(S));
        assert_eq!(rate.finish(Instant(S / 2), 1000), Instant(6 * S), "500 B fast, 500 B slow");
        assert_eq!(rate.finish(Instant(2 * S), 100), Instant(3 * S));
        assert_eq!(rate.at(Instant(5)), Some(8000));
    }

    #[test]
    fn what_is_out_by_a_moment_is_what_would_end_then() {
        let steps = Vec::from([(Duration::ZERO, DataRate(8000)), (Duration::from_secs(1), DataRate(800))]);
        let rate = RateSchedule::new(&DirectionSpec { rate: Rate::Steps(steps), ..DirectionSpec::default() });
        let out = |from: u64, to: u64| rate.out_by(Instant(from * S / 10), Instant(to * S / 10));
        assert_eq!([out(0, 10), out(5, 60), out(20, 30), out(7, 7)], [1000, 1000, 100, 0]);
        assert_eq!(RateSchedule::new(&DirectionSpec::default()).out_by(Instant(0), Instant(1)), u64::MAX);
    }

    #[test]
    fn rate_zero_waits_and_rate_zero_for_ever_never_ends() {
        let late = Rate::Steps(Vec::from([(Duration::from_secs(9), DataRate(8))]));
        let mut rate = RateSchedule::new(&DirectionSpec { rate: late, ..DirectionSpec::default() });
        assert_eq!(rate.finish(Instant(0), 1), Instant(10 * S));
        let never = Rate::Constant(DataRate(0));
        let mut rate = RateSchedule::new(&DirectionSpec { rate: never, ..DirectionSpec::default() });
        assert_eq!(rate.finish(Instant(0), 1), Instant::MAX);
    }

    #[test]
    fn windows_bring_their_own_rate_and_delay() {
        let mut spec = DirectionSpec::new(DataRate(8000), Duration::from_secs(1));
        let window = |a: u64, b: u64, rate: u64, delay: u64| Window {
            start: Instant(a * S),
            end: Instant(b * S),
            rate: Some(DataRate(rate)),
            delay: Some(Duration::from_secs(delay)),
        };
        spec.windows = Some(Vec::from([window(10, 20, 80, 2), window(20, 30, 160, 3)]));
        let rate = RateSchedule::new(&spec);
        let rates = [5, 10, 19, 20, 29, 30].map(|s| rate.at(Instant(s * S)).unwrap());
        assert_eq!(rates, [8000, 80, 80, 160, 160, 8000]);
        let delay = DelaySchedule::new(&spec);
        let delays = [5, 11, 20, 21, 30, 31].map(|s| delay.at(Instant(s * S)) / S);
        assert_eq!(delays, [1, 2, 3, 3, 3, 1]);
    }

    #[test]
    fn delay_goes_straight_between_points_and_stays_outside() {
        let points = [(10, 100), (20, 200), (30, 50)].map(|(t, d)| (Duration::from_secs(t), Duration::from_nanos(d)));
        let delay =
            DelaySchedule::new(&DirectionSpec { delay: Delay::Table(points.into()), ..DirectionSpec::default() });
        let at = [0, 10, 15, 20, 24, 30, 99].map(|s| delay.at(Instant(s * S)));
        assert_eq!(at, [100, 100, 150, 200, 140, 50, 50]);
    }
}
