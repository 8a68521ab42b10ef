//! Rate and delay over time: the rate changes in steps, the delay along straight lines between points.

use crate::spec::{ContactWindow, Delay, DirectionSpec, Rate};
use alloc::vec::Vec;
use farlink_base::{Duration, Instant};

const NANOSECONDS: u128 = 1_000_000_000;

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Rate in steps, as (first instant, bits per second), with `None` for an unlimited rate. The first step is at 0.
#[derive(Clone, Debug)]
pub(crate) struct RateSchedule {
    steps: Vec<(u64, Option<u64>)>,
    /// Index of the step that held at the last query of [`Self::finish`].
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
            // Nothing is sent before the first step.
            own.insert(0, (0, Some(0)));
        }
        let windows: Vec<&ContactWindow> = spec.windows.iter().flatten().filter(|w| w.rate.is_some()).collect();
        // The rate can change at the direction's own steps, and at the edges of windows.
        let mut times: Vec<u64> = own.iter().map(|s| s.0).collect();
        times.extend(windows.iter().flat_map(|w| [w.start.0, w.end.0]));
        times.sort_unstable();
        times.dedup();
        let mut steps: Vec<(u64, Option<u64>)> = Vec::with_capacity(times.len());
        for at in times {
            let base = own.iter().rev().find(|s| s.0 <= at).and_then(|s| s.1);
            // Windows are sorted and disjoint, so the last one that began decides.
            let begun = windows.partition_point(|w| w.start.0 <= at);
            let inside = begun.checked_sub(1).map(|i| windows[i]).filter(|w| at < w.end.0);
            let rate = inside.map_or(base, |w| w.rate.map(|r| r.0));
            if steps.last().is_none_or(|last| last.1 != rate) {
                steps.push((at, rate));
            }
        }
        RateSchedule { steps, current: 0 }
    }

    /// Rate at `at`, bits per second; `None` if unlimited.
    pub fn at(&self, at: Instant) -> Option<u64> {
        let index = self.steps.partition_point(|s| s.0 <= at.0);
        self.steps[index.saturating_sub(1)].1
    }

    /// End of a transmission of `bytes` that begins at `start`, rounded up to a nanosecond; [`Instant::MAX`] if it
    /// never ends. `start` must not decrease from call to call.
    pub fn finish(&mut self, start: Instant, bytes: u64) -> Instant {
        while self.steps.get(self.current + 1).is_some_and(|next| next.0 <= start.0) {
            self.current += 1;
        }
        let mut at = start.0;
        // Count in bit-nanoseconds, so that a change of rate within a packet loses no fraction.
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

    /// Number of whole bytes that a transmission which began at `start` has sent by `end`; `u64::MAX` if the rate is
    /// unlimited.
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

/// Delay, interpolated linearly between points, except in windows that have their own.
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

    /// One-way delay of a packet that leaves at `at`, ns.
    pub fn at(&self, at: Instant) -> u64 {
        if !self.windows.is_empty() {
            // Includes the window's end, because the last bit of a window leaves then and still belongs to it.
            let begun = self.windows.partition_point(|w| w.0 <= at.0);
            if let Some(window) = begun.checked_sub(1).map(|i| self.windows[i]).filter(|w| at.0 <= w.1) {
                return window.2;
            }
        }
        let after = self.points.partition_point(|p| p.0 <= at.0);
        match (after.checked_sub(1).and_then(|i| self.points.get(i)), self.points.get(after)) {
            (Some(a), Some(b)) => {
                // Signed, because delays may fall; 128 bits, because the product of two times exceeds 64 bits.
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
    fn rate_change_splits_packet_time() {
        let steps = Vec::from([(Duration::ZERO, DataRate(8000)), (Duration::from_secs(1), DataRate(800))]);
        let mut rate = RateSchedule::new(&DirectionSpec { rate: Rate::Steps(steps), ..DirectionSpec::default() });
        assert_eq!(rate.finish(Instant(0), 1000), Instant(S));
        assert_eq!(rate.finish(Instant(S / 2), 1000), Instant(6 * S), "500 B fast, 500 B slow");
        assert_eq!(rate.finish(Instant(2 * S), 100), Instant(3 * S));
        assert_eq!(rate.at(Instant(5)), Some(8000));
    }

    #[test]
    fn out_by_inverts_finish() {
        let steps = Vec::from([(Duration::ZERO, DataRate(8000)), (Duration::from_secs(1), DataRate(800))]);
        let rate = RateSchedule::new(&DirectionSpec { rate: Rate::Steps(steps), ..DirectionSpec::default() });
        let out = |from: u64, to: u64| rate.out_by(Instant(from * S / 10), Instant(to * S / 10));
        assert_eq!([out(0, 10), out(5, 60), out(20, 30), out(7, 7)], [1000, 1000, 100, 0]);
        assert_eq!(RateSchedule::new(&DirectionSpec::default()).out_by(Instant(0), Instant(1)), u64::MAX);
    }

    #[test]
    fn rate_zero_waits_for_next_step() {
        let late = Rate::Steps(Vec::from([(Duration::from_secs(9), DataRate(8))]));
        // The first bit leaves when the first step begins.
        let mut rate = RateSchedule::new(&DirectionSpec { rate: late, ..DirectionSpec::default() });
        assert_eq!(rate.finish(Instant(0), 1), Instant(10 * S));
        let never = Rate::Constant(DataRate(0));
        let mut rate = RateSchedule::new(&DirectionSpec { rate: never, ..DirectionSpec::default() });
        assert_eq!(rate.finish(Instant(0), 1), Instant::MAX);
    }

    #[test]
    fn window_overrides_rate_and_delay() {
        let mut spec = DirectionSpec::new(DataRate(8000), Duration::from_secs(1));
        let window = |a: u64, b: u64, rate: u64, delay: u64| ContactWindow {
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
    fn delay_interpolates_between_points() {
        let points = [(10, 100), (20, 200), (30, 50)].map(|(t, d)| (Duration::from_secs(t), Duration::from_nanos(d)));
        let delay =
            DelaySchedule::new(&DirectionSpec { delay: Delay::Table(points.into()), ..DirectionSpec::default() });
        let at = [0, 10, 15, 20, 24, 30, 99].map(|s| delay.at(Instant(s * S)));
        // Outside the table its first and its last value hold.
        assert_eq!(at, [100, 100, 150, 200, 140, 50, 50]);
    }
}
