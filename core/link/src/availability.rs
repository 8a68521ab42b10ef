//! Availability of a direction: contact windows, and random outages inside them.

use crate::spec::{DirectionSpec, Outages, Spread};
use alloc::vec::Vec;
use farlink_base::{Duration, Instant, Rng};

/// Up or down state over time. The times of queries must not decrease.
#[derive(Clone, Debug)]
pub(crate) struct Availability {
    /// Contact windows as `start..end`, in order, with adjacent ones joined; `None` if the link is always up.
    windows: Option<Vec<(u64, u64)>>,
    /// Index of the first window that has not ended.
    current: usize,
    outages: Option<OutageProcess>,
}

impl Availability {
    pub fn new(spec: &DirectionSpec, rng: Rng) -> Availability {
        let windows = spec.windows.as_ref().map(|windows| {
            let mut joined: Vec<(u64, u64)> = Vec::with_capacity(windows.len());
            for window in windows {
                match joined.last_mut() {
                    Some(last) if last.1 == window.start.0 => last.1 = window.end.0,
                    _ => joined.push((window.start.0, window.end.0)),
                }
            }
            joined
        });
        let outages = spec.outages.map(|outages| OutageProcess::new(outages, rng));
        Availability { windows, current: 0, outages }
    }

    /// State at `now` (true: up), and the first later instant at which it may change.
    pub fn at(&mut self, now: Instant) -> (bool, Instant) {
        let (window_up, window_change) = self.window_at(now);
        let Some(outages) = &mut self.outages else { return (window_up, Instant(window_change)) };
        if !window_up {
            // Outside the windows the outage process is not queried; the first query inside a window brings it up to
            // date.
            return (false, Instant(window_change));
        }
        let (outage_up, outage_change) = outages.at(now);
        (outage_up, Instant(outage_change.min(window_change)))
    }

    fn window_at(&mut self, now: Instant) -> (bool, u64) {
        let Some(windows) = &self.windows else { return (true, u64::MAX) };
        while windows.get(self.current).is_some_and(|w| w.1 <= now.0) {
            // No search is needed, because times do not decrease.
            self.current += 1;
        }
        match windows.get(self.current) {
            Some(window) if window.0 <= now.0 => (true, window.1),
            Some(window) => (false, window.0),
            None => (false, u64::MAX),
        }
    }
}

/// Alternating up and down periods, drawn one after the other.
#[derive(Clone, Debug)]
struct OutageProcess {
    outages: Outages,
    rng: Rng,
    up: bool,
    until: u64,
}

impl OutageProcess {
    fn new(outages: Outages, rng: Rng) -> OutageProcess {
        let mut process = OutageProcess { outages, rng, up: true, until: 0 };
        process.until = process.draw(outages.up);
        process
    }

    fn at(&mut self, now: Instant) -> (bool, u64) {
        while self.until <= now.0 {
            self.up = !self.up;
            let mean = if self.up { self.outages.up } else { self.outages.down };
            self.until = self.until.saturating_add(self.draw(mean));
        }
        (self.up, self.until)
    }

    /// Draws the length of a period, ns: at least a microsecond, so that a mean near zero cannot stall the caller.
    fn draw(&mut self, mean: Duration) -> u64 {
        let nanoseconds = match self.outages.spread {
            Spread::Fixed => mean.as_nanos() as f64,
            // Inverse of the exponential distribution; 1 - unit() is never 0.
            Spread::Exponential => -libm::log(1.0 - self.rng.unit()) * mean.as_nanos() as f64,
        };
        (nanoseconds as u64).max(1000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::ContactWindow;

    fn windows(list: &[(u64, u64)]) -> DirectionSpec {
        let windows = list.iter().map(|(a, b)| ContactWindow::new(Instant(*a), Instant(*b))).collect();
        DirectionSpec { windows: Some(windows), ..DirectionSpec::default() }
    }

    #[test]
    fn adjacent_windows_merge() {
        let mut up = Availability::new(&windows(&[(10, 20), (20, 30), (40, 50)]), Rng::new(1));
        let at: Vec<_> = [0, 10, 25, 30, 45, 50].map(|t| up.at(Instant(t))).into();
        let want = [(false, 10), (true, 30), (true, 30), (false, 40), (true, 50), (false, u64::MAX)];
        assert_eq!(at, want.map(|(up, change)| (up, Instant(change))));
    }

    #[test]
    fn outages_keep_mean_and_start_up() {
        let outages = Outages { up: Duration::from_secs(9), down: Duration::from_secs(1), spread: Spread::Exponential };
        let spec = DirectionSpec { outages: Some(outages), ..DirectionSpec::default() };
        let mut availability = Availability::new(&spec, Rng::new(3));
        let (mut now, mut up_time, mut changes) = (Instant(0), 0u64, 0);
        // The mean over 10,000 cycles has a standard error of 1 %.
        while changes < 20_000 {
            let (up, until) = availability.at(now);
            assert!(until > now);
            assert!(changes > 0 || up);
            up_time += if up { until.0 - now.0 } else { 0 };
            now = until;
            changes += 1;
        }
        let share = up_time as f64 / now.0 as f64;
        assert!((share - 0.9).abs() < 0.01, "{share}");
        assert!((now.as_secs_f64() / 1e5 - 1.0).abs() < 0.03, "{now:?} for 10,000 cycles of 10 s");
    }

    #[test]
    fn window_end_cuts_outage() {
        let outages = Outages { up: Duration::from_secs(4), down: Duration::from_secs(2), spread: Spread::Fixed };
        let s = 1_000_000_000;
        let spec = DirectionSpec { outages: Some(outages), ..windows(&[(s, 9 * s)]) };
        let mut availability = Availability::new(&spec, Rng::new(3));
        // Up 4 s, down 2 s, from time 0; the window is open from 1 s to 9 s.
        let at = [0, 1, 4, 6, 9].map(|t| availability.at(Instant(t * s)));
        assert_eq!(at.map(|a| a.0), [false, true, false, true, false]);
        assert_eq!([at[0], at[1], at[2], at[3]].map(|a| a.1.0 / s), [1, 4, 6, 9]);
    }
}
