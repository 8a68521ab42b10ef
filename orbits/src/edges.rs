//! Windows in which a condition holds: safe steps through time, then a root search between two states.

use crate::moment::{SECOND, whole};

/// State of a condition at one time.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Look {
    /// Margin in seconds: the condition holds while the margin is not negative, and the margin changes by at most 1 per
    /// second.
    pub value: f64,
    /// Number of seconds for which the state certainly persists.
    pub hold: f64,
}

/// Shortest step in nanoseconds; a state that lasts less may be missed.
pub const RESOLUTION: i64 = SECOND / 1000;

/// Interval of time in nanoseconds during which a condition holds, start included and end excluded.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SightWindow {
    /// First nanosecond of the interval.
    pub start: i64,
    /// First nanosecond after the interval.
    pub end: i64,
}

/// Windows within `span` in which the condition holds, in order. Every window longer than [`RESOLUTION`] is found,
/// because a longer step is only taken where `look` guarantees the state. Edges are whole nanoseconds, the first of the
/// new state.
///
/// # Errors
/// An error of `look`.
pub fn windows<E>(span: SightWindow, look: &mut impl FnMut(i64) -> Result<Look, E>) -> Result<Vec<SightWindow>, E> {
    let mut found = Vec::new();
    if span.start >= span.end {
        return Ok(found);
    }
    let (mut time, mut here) = (span.start, look(span.start)?);
    let mut open = (here.value >= 0.0).then_some(span.start);
    while time < span.end {
        // A NaN bound guarantees nothing, so the step is the shortest.
        let step = if here.hold > 0.0 { (here.hold * 1e9) as i64 } else { 0 };
        let next = time.saturating_add(step.max(RESOLUTION)).min(span.end);
        let there = look(next)?;
        if (there.value >= 0.0) != (here.value >= 0.0) {
            let edge = edge((time, here.value), (next, there.value), look)?;
            match open.take() {
                None => open = Some(edge),
                Some(start) => found.push(SightWindow { start, end: edge }),
            }
        }
        (time, here) = (next, there);
    }
    if let Some(start) = open.filter(|start| *start < span.end) {
        found.push(SightWindow { start, end: span.end });
    }
    Ok(found)
}

/// First nanosecond of the new state between two times of different states, by the ITP method (Oliveira and Takahashi
/// 2020, with k1 = 0.2 / width, k2 = 2, n0 = 1).
fn edge<E>(before: (i64, f64), after: (i64, f64), look: &mut impl FnMut(i64) -> Result<Look, E>) -> Result<i64, E> {
    // ITP picks a point between the secant and the midpoint. It needs few steps where the values
    // are smooth, and never many more than bisection.
    let (mut low, mut high) = (before, after);
    let first_width = (high.0 - low.0) as f64;
    let mut most = libm::log2(first_width).ceil() + 1.0;
    while high.0 - low.0 > 1 {
        let width = (high.0 - low.0) as f64;
        let middle = 0.5 * width;
        // Root of the secant, in nanoseconds from `low`.
        let line = width * low.1 / (low.1 - high.1);
        let line = if line.is_finite() { line } else { middle };
        let side = if middle >= line { 1.0 } else { -1.0 };
        let truncated = 0.2 * width * width / first_width;
        let truncated = if truncated <= (middle - line).abs() { line + side * truncated } else { middle };
        let radius = (0.5 * libm::exp2(most) - middle).max(0.0);
        let chosen = if (truncated - middle).abs() <= radius { truncated } else { middle - side * radius };
        most -= 1.0;
        // Strictly between the ends, so that every step shrinks the interval.
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

    /// Windows of a value that changes by at most 1 per second, and the number of evaluations.
    fn of(span: i64, value: impl Fn(f64) -> f64) -> (Vec<SightWindow>, u32) {
        let mut asked = 0;
        let mut look = |time: i64| {
            asked += 1;
            let value = value(time as f64 / 1e9);
            Ok::<_, Infallible>(Look { value, hold: value.abs() })
        };
        let found = windows(SightWindow { start: 0, end: span }, &mut look).unwrap();
        (found, asked)
    }

    #[test]
    fn edges_are_exact_to_the_nanosecond() {
        let (found, asked) = of(100 * SECOND, |t| (t - 10.000_000_000_3).min(70.5 - t));
        assert_eq!(found, [SightWindow { start: 10_000_000_001, end: 70_500_000_001 }], "70.5 s itself still holds");
        assert!(asked < 60, "{asked}");
    }

    #[test]
    fn windows_are_cut_at_span_ends() {
        assert_eq!(of(9, |_| 5.0).0, [SightWindow { start: 0, end: 9 }]);
        assert_eq!(of(9, |_| 0.0).0, [SightWindow { start: 0, end: 9 }]);
        assert!(of(9, |_| -5.0).0.is_empty() && of(0, |_| 5.0).0.is_empty());
        assert!(of(SECOND, |t| t - 1.0).0.is_empty(), "a window that begins at the end is outside");
        assert_eq!(of(SECOND, |t| 0.5 - t).0, [SightWindow { start: 0, end: SECOND / 2 + 1 }]);
    }

    #[test]
    fn periodic_windows_need_few_steps() {
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
    fn short_peaks_are_found() {
        // The condition holds for only 1.6 ms within an hour.
        let bump =
            |height: f64| move |t: f64| 0.99 * (libm::cos(t - 1800.0) - 1.0 + height - 0.001 * (t - 1800.0).abs());
        assert_eq!(of(3600 * SECOND, bump(1.1e-6)).0.len(), 1);
        assert_eq!(of(3600 * SECOND, bump(-1e-6)).0.len(), 0);
    }

    #[test]
    fn non_finite_values_terminate() {
        assert!(of(20 * RESOLUTION, |_| f64::NAN).0.is_empty());
        let (found, _) = of(20 * RESOLUTION, |t| if t < 0.005 { -1.0 } else { f64::INFINITY });
        assert!(found.len() <= 1);
        let (found, asked) = of(SECOND, |t| if t < 0.3 { -1e-3 } else { 1e-3 });
        assert_eq!(
            found,
            [SightWindow { start: 300_000_000, end: SECOND }],
            "a step function is located to the nanosecond"
        );
        assert!(asked < 1200);
    }
}
