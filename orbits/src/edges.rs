//! When something begins and ends to hold: safe steps from state to state, then a root between two times.

use crate::moment::{SECOND, whole};

/// What is known at one time.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Look {
    /// Holds where it is not negative. Seconds, in that it changes by at most 1 a second.
    pub value: f64,
    /// The state surely stays as it is for so many seconds.
    pub hold: f64,
}

/// The shortest step: what begins and ends again (or ends and begins again) within it may be missed.
pub const RESOLUTION: i64 = SECOND / 1000;

/// A span of time in nanoseconds: from the first at which something holds to the first at which it no longer
/// does.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Window {
    /// The first moment of it.
    pub start: i64,
    /// The first moment after it.
    pub end: i64,
}

/// The windows within `span` in which `look` holds, in order. Everything longer than [`RESOLUTION`] is
/// found: no step is longer than `look` says that the state stays as it is. Edges are whole nanoseconds, the
/// first of the new state.
///
/// # Errors
/// What `look` fails with.
pub fn windows<E>(span: Window, look: &mut impl FnMut(i64) -> Result<Look, E>) -> Result<Vec<Window>, E> {
    let mut found = Vec::new();
    if span.start >= span.end {
        return Ok(found);
    }
    let (mut time, mut here) = (span.start, look(span.start)?);
    let mut open = (here.value >= 0.0).then_some(span.start);
    while time < span.end {
        // A bound of no number is no bound: then steps are the shortest.
        let step = if here.hold > 0.0 { (here.hold * 1e9) as i64 } else { 0 };
        let next = time.saturating_add(step.max(RESOLUTION)).min(span.end);
        let there = look(next)?;
        if (there.value >= 0.0) != (here.value >= 0.0) {
            let edge = edge((time, here.value), (next, there.value), look)?;
            match open.take() {
                None => open = Some(edge),
                Some(start) => found.push(Window { start, end: edge }),
            }
        }
        (time, here) = (next, there);
    }
    if let Some(start) = open.filter(|start| *start < span.end) {
        found.push(Window { start, end: span.end });
    }
    Ok(found)
}

/// The first whole nanosecond of the new state between two times of different states: between the line
/// through both values and the middle, so that it takes few steps where the values are smooth and never
/// many more than halving would (the ITP method; Oliveira and Takahashi 2020, with k1 = 0.2 / width, k2 = 2,
/// n0 = 1).
fn edge<E>(before: (i64, f64), after: (i64, f64), look: &mut impl FnMut(i64) -> Result<Look, E>) -> Result<i64, E> {
    let (mut low, mut high) = (before, after);
    let first_width = (high.0 - low.0) as f64;
    let mut most = libm::log2(first_width).ceil() + 1.0;
    while high.0 - low.0 > 1 {
        let width = (high.0 - low.0) as f64;
        let middle = 0.5 * width;
        // From `low`, in nanoseconds.
        let line = width * low.1 / (low.1 - high.1);
        let line = if line.is_finite() { line } else { middle };
        let side = if middle >= line { 1.0 } else { -1.0 };
        let truncated = 0.2 * width * width / first_width;
        let truncated = if truncated <= (middle - line).abs() { line + side * truncated } else { middle };
        let radius = (0.5 * libm::exp2(most) - middle).max(0.0);
        let chosen = if (truncated - middle).abs() <= radius { truncated } else { middle - side * radius };
        most -= 1.0;
        let time = (low.0 + whole(chosen / 1e9)).clamp(low.0 + 1, high.0 - 1);
        let value = look(time)?.value;
        if (value >= 0.0) == (before.1 >= 0.0) {
            low = (time, value);
        } else {
            high = (time, value);
        }
    }
    Ok(high.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    /// Windows of a value that changes by at most 1 a second, and how often it was asked.
    fn of(span: i64, value: impl Fn(f64) -> f64) -> (Vec<Window>, u32) {
        let mut asked = 0;
        let mut look = |time: i64| {
            asked += 1;
            let value = value(time as f64 / 1e9);
            Ok::<_, Infallible>(Look { value, hold: value.abs() })
        };
        let found = windows(Window { start: 0, end: span }, &mut look).unwrap();
        (found, asked)
    }

    #[test]
    fn edges_are_the_first_whole_nanosecond_of_the_new_state() {
        let (found, asked) = of(100 * SECOND, |t| (t - 10.000_000_000_3).min(70.5 - t));
        assert_eq!(found, [Window { start: 10_000_000_001, end: 70_500_000_001 }], "70.5 s itself still holds");
        assert!(asked < 60, "{asked}");
    }

    #[test]
    fn what_holds_at_the_ends_is_cut_there() {
        assert_eq!(of(9, |_| 5.0).0, [Window { start: 0, end: 9 }]);
        assert_eq!(of(9, |_| 0.0).0, [Window { start: 0, end: 9 }]);
        assert!(of(9, |_| -5.0).0.is_empty() && of(0, |_| 5.0).0.is_empty());
        assert!(of(SECOND, |t| t - 1.0).0.is_empty(), "what begins at the end is not in it");
        assert_eq!(of(SECOND, |t| 0.5 - t).0, [Window { start: 0, end: SECOND / 2 + 1 }]);
    }

    #[test]
    fn waves_are_found_whole_and_in_few_steps() {
        let (found, asked) = of(1000 * SECOND, libm::sin);
        assert_eq!(found.len(), 160);
        for (turn, window) in found.iter().enumerate() {
            let start = turn as f64 * std::f64::consts::TAU;
            assert!((window.start as f64 - start * 1e9).abs() <= 2.0, "{turn}");
            assert!(((window.end - window.start) as f64 - std::f64::consts::PI * 1e9).abs() <= 2.0 || turn == 159);
        }
        assert!(asked < 160 * 2 * 45, "{asked}");
    }

    #[test]
    fn peaks_that_barely_reach_are_found_and_those_that_do_not_are_not() {
        // 1.6 ms long, in an hour.
        let bump =
            |height: f64| move |t: f64| 0.99 * (libm::cos(t - 1800.0) - 1.0 + height - 0.001 * (t - 1800.0).abs());
        assert_eq!(of(3600 * SECOND, bump(1.1e-6)).0.len(), 1);
        assert_eq!(of(3600 * SECOND, bump(-1e-6)).0.len(), 0);
    }

    #[test]
    fn values_that_are_no_numbers_end_all_the_same() {
        assert!(of(20 * RESOLUTION, |_| f64::NAN).0.is_empty());
        let (found, _) = of(20 * RESOLUTION, |t| if t < 0.005 { -1.0 } else { f64::INFINITY });
        assert!(found.len() <= 1);
        let (found, asked) = of(SECOND, |t| if t < 0.3 { -1e-3 } else { 1e-3 });
        assert_eq!(found, [Window { start: 300_000_000, end: SECOND }], "also a step is found to the nanosecond");
        assert!(asked < 1200);
    }
}
