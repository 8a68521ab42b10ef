//! Medians and spreads of the runs of a row.

/// Median, minimum and maximum over the runs of a row.
#[derive(Clone, Copy, Debug)]
pub struct Runs {
    /// Median of the values; NaN for an empty list.
    pub median: f64,
    least: f64,
    most: f64,
}
impl Runs {
    /// Summarizes the values, leaving out NaN and infinities.
    pub fn new(values: impl IntoIterator<Item = f64>) -> Runs {
        let values: Vec<f64> = values.into_iter().filter(|value| value.is_finite()).collect();
        // `f64::min` and `f64::max` ignore the initial NaN.
        let end = |of: fn(f64, f64) -> f64| values.iter().copied().fold(f64::NAN, of);
        Runs { median: median(&values), least: end(f64::min), most: end(f64::max) }
    }
    /// Maximum less minimum, as a fraction of the median.
    pub fn spread(&self) -> f64 {
        (self.most - self.least) / self.median
    }
    /// Median with the range, as text: `0.64 (0.62..0.66)`.
    pub fn text(&self, digits: usize) -> String {
        match self.median.is_nan() {
            true => "-".into(),
            false => format!("{:.digits$} ({:.digits$}..{:.digits$})", self.median, self.least, self.most),
        }
    }
}

/// Median; for an even number of values the mean of the middle two, without values NaN.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => f64::NAN,
        odd if odd % 2 == 1 => sorted[middle],
        _ => (sorted[middle - 1] + sorted[middle]) / 2.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_ignore_missing_values() {
        assert!(median(&[]).is_nan());
        assert_eq!((median(&[3.0, 1.0, 2.0]), median(&[4.0, 1.0, 2.0, 3.0])), (2.0, 2.5));
        let runs = Runs::new([1.0, f64::NAN, 3.0, 4.0]);
        assert_eq!((runs.median, runs.spread()), (3.0, 1.0));
        assert_eq!((runs.text(1), Runs::new([]).text(1)), ("3.0 (1.0..4.0)".into(), "-".into()));
    }
}
