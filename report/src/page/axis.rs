//! Axes: round tick steps, one unit for all ticks, and the position of a value.

use crate::format::{Quantity, Scale};

/// Axis from `from` to `to`.
#[derive(Clone, Debug)]
pub struct Axis {
    pub from: f64,
    pub to: f64,
    /// Values and texts of the ticks.
    pub ticks: Vec<(f64, String)>,
    /// Unit of the tick texts.
    pub unit: String,
    pub quantity: Quantity,
}

/// Smallest of 1, 2, 5 times a power of ten that is at least `value`.
pub fn nice_step(value: f64) -> f64 {
    if value <= 0.0 || !value.is_finite() {
        return 1.0;
    }
    let power = 10f64.powf(value.log10().floor());
    // The tolerance keeps a value that rounding pushed just above a step at that step.
    let factor = [1.0, 2.0, 5.0, 10.0].into_iter().find(|f| f * power >= value * (1.0 - 1e-9)).unwrap_or(10.0);
    factor * power
}

impl Axis {
    /// Creates an axis from 0 to a round value at or above `most`, with about `count` ticks.
    pub fn round(quantity: Quantity, most: f64, count: usize) -> Axis {
        let most = if most > 0.0 && most.is_finite() { most } else { 1.0 };
        let scale = quantity.scale(most);
        let step = step(quantity, &scale, most, count);
        let to = (most / step - 1e-9).ceil().max(1.0) * step;
        Axis::with_step(quantity, 0.0, to, step, &scale)
    }
    /// Creates an axis from `from` to `to` exactly, with ticks at round values between.
    pub fn exact(quantity: Quantity, from: f64, to: f64, count: usize) -> Axis {
        // An empty range would divide by zero in `place`.
        let to = if to > from { to } else { from + 1.0 };
        let scale = quantity.scale(to);
        let step = step(quantity, &scale, to - from, count);
        Axis::with_step(quantity, from, to, step, &scale)
    }
    fn with_step(quantity: Quantity, from: f64, to: f64, step: f64, scale: &Scale) -> Axis {
        // The tolerances keep ticks that rounding pushed just outside.
        let first = (from / step - 1e-9).ceil() as i64;
        let last = (to / step + 1e-9).floor() as i64;
        let scaled = step / scale.factor;
        // As many decimals as the step needs, so that all ticks show the same number of them.
        let decimals = (-(scaled * (1.0 + 1e-9)).log10().floor()).clamp(0.0, 9.0) as usize;
        let tick = |i: i64| {
            let value = i as f64 * step;
            (value, format!("{:.decimals$}", value / scale.factor))
        };
        Axis { from, to, ticks: (first..=last).map(tick).collect(), unit: scale.unit.clone(), quantity }
    }
    /// Maps a value to a position between `start` and `end`.
    pub fn place(&self, value: f64, start: f64, end: f64) -> f64 {
        start + (value - self.from) / (self.to - self.from) * (end - start)
    }
}

/// Chooses a round step in the unit of the scale; at least 1 for counts.
fn step(quantity: Quantity, scale: &Scale, span: f64, count: usize) -> f64 {
    let step = nice_step(span / scale.factor / count.max(1) as f64) * scale.factor;
    if quantity == Quantity::Count { step.max(1.0) } else { step }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(axis: &Axis) -> Vec<&str> {
        axis.ticks.iter().map(|(_, text)| text.as_str()).collect()
    }

    #[test]
    fn ticks_are_round_with_one_unit() {
        let axis = Axis::round(Quantity::Rate, 94e6, 4);
        assert_eq!((texts(&axis), axis.unit.as_str()), (vec!["0", "50", "100"], "Mbit/s"));
        let axis = Axis::round(Quantity::Seconds, 0.35, 4);
        assert_eq!((texts(&axis), axis.unit.as_str()), (vec!["0", "100", "200", "300", "400"], "ms"));
        let axis = Axis::round(Quantity::Share, 1.0, 5);
        assert_eq!((texts(&axis), axis.unit.as_str()), (vec!["0", "20", "40", "60", "80", "100"], "%"));
        let axis = Axis::round(Quantity::Bytes, 2.5e6, 5);
        assert_eq!(texts(&axis), ["0.0", "0.5", "1.0", "1.5", "2.0", "2.5"]);
        let axis = Axis::exact(Quantity::Seconds, 0.0, 33.7, 4);
        assert_eq!((texts(&axis), axis.to), (vec!["0", "10", "20", "30"], 33.7));
    }

    #[test]
    fn odd_input_still_gives_an_axis() {
        for most in [0.0, -3.0, f64::NAN, f64::INFINITY] {
            let axis = Axis::round(Quantity::Count, most, 4);
            assert!(axis.to > axis.from && axis.ticks.len() >= 2, "{most}");
        }
        assert_eq!(texts(&Axis::round(Quantity::Count, 2.0, 10)), ["0", "1", "2"]);
    }

    #[test]
    fn values_are_placed_in_proportion() {
        let axis = Axis::exact(Quantity::Seconds, 10.0, 20.0, 4);
        assert_eq!((axis.place(10.0, 0.0, 100.0), axis.place(15.0, 100.0, 0.0)), (0.0, 50.0));
    }
}
