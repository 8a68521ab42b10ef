//! Means with confidence intervals (Student's t), paired t-tests, effect sizes, and correction for many comparisons.

use crate::student;
use farlink_report::plot::Estimate;

/// Confidence of intervals; claims are judged at the same level.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ConfidenceLevel {
    /// An interval that misses the mean once in 20 times.
    #[default]
    P95,
    /// An interval that misses the mean once in 100 times.
    P99,
}

impl ConfidenceLevel {
    /// Levels in the order of [`crate::keys::INTERVALS`].
    pub const ALL: [ConfidenceLevel; 2] = [ConfidenceLevel::P95, ConfidenceLevel::P99];
    /// Word in files and texts.
    pub const fn word(self) -> &'static str {
        match self {
            ConfidenceLevel::P95 => "95 %",
            ConfidenceLevel::P99 => "99 %",
        }
    }
    /// Probability that an interval misses the mean, which is also the largest p-value that decides a comparison.
    pub const fn error(self) -> f64 {
        match self {
            ConfidenceLevel::P95 => 0.05,
            ConfidenceLevel::P99 => 0.01,
        }
    }
}

/// Relative difference up to which values count as equal: rounding, such as of 0.1 + 0.2 and 0.3, decides nothing.
pub(crate) const EQUALITY: f64 = 1e-9;
// Largest magnitude of Hedges' g that is reported: runs that hardly vary would give numbers without a meaning.
const EFFECT_MAX: f64 = 1000.0;

/// A sample mean with its confidence interval.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Interval {
    /// Number of values.
    pub count: usize,
    /// Arithmetic mean.
    pub mean: f64,
    /// Sample standard deviation; `None` for a single value.
    pub deviation: Option<f64>,
    /// Half-width of the confidence interval of the mean; `None` for a single value.
    pub half: Option<f64>,
}

impl Interval {
    /// Computes the 95 % interval of these values; `None` for an empty list or a mean that is not finite.
    pub fn of(values: &[f64]) -> Option<Interval> {
        Interval::at(values, ConfidenceLevel::P95)
    }
    /// Computes the interval of these values at a confidence level; `None` as for [`Interval::of`].
    pub fn at(values: &[f64], level: ConfidenceLevel) -> Option<Interval> {
        let scale = values.iter().fold(0.0f64, |most, value| most.max(value.abs()));
        Interval::of_scale(values, level, scale)
    }
    /// As [`Interval::at`], for values computed from numbers up to `scale`: values count as equal, and their mean as 0,
    /// if they differ by no more than the rounding of such numbers.
    pub(crate) fn of_scale(values: &[f64], level: ConfidenceLevel, scale: f64) -> Option<Interval> {
        let (count, floor) = (values.len(), EQUALITY * scale);
        let least = values.iter().copied().fold(f64::INFINITY, f64::min);
        let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        // The mean of equal values must not differ from them by rounding.
        let first = values.first().copied()?;
        let are_same = values.iter().all(|value| *value == first);
        let mean = if are_same { first } else { values.iter().sum::<f64>() / count as f64 };
        if !mean.is_finite() {
            return None;
        }
        let mean = if mean.abs() <= floor { 0.0 } else { mean };
        let squares: f64 = values.iter().map(|value| (value - mean) * (value - mean)).sum();
        let squares = if most - least <= floor { 0.0 } else { squares };
        let deviation = (count > 1).then(|| (squares / (count - 1) as f64).sqrt());
        let half = deviation.map(|deviation| student_t(count - 1, level) * deviation / (count as f64).sqrt());
        Some(Interval { count, mean, deviation, half })
    }
    /// Two-sided p-value of the t-test for a true mean of 0; for paired differences, that of the paired test. `None`
    /// for a single value, and for equal ones: without a deviation there is no test.
    pub fn chance(&self) -> Option<f64> {
        self.chance_of(0.0)
    }
    /// Two-sided p-value of the t-test for this true mean; `None` as for [`Interval::chance`].
    pub fn chance_of(&self, mean: f64) -> Option<f64> {
        let error = self.deviation.filter(|deviation| *deviation > 0.0)? / (self.count as f64).sqrt();
        Some(student::two_sided((self.mean - mean) / error, self.count - 1))
    }
    /// Whether there are several values, and all are equal but for rounding.
    pub(crate) fn is_constant(&self) -> bool {
        self.deviation == Some(0.0)
    }
    /// Lower and upper end of the interval; `None` for a single value.
    pub fn ends(&self) -> Option<(f64, f64)> {
        self.half.map(|half| (self.mean - half, self.mean + half))
    }
    /// Converts to the form that plots draw.
    pub fn estimate(&self) -> Estimate {
        Estimate { mean: self.mean, half: self.half }
    }
}

/// Factor of the standard error in an interval: the two-sided quantile of Student's t distribution.
pub fn student_t(freedom: usize, level: ConfidenceLevel) -> f64 {
    student::critical(freedom, level.error())
}

/// Hedges' g: the difference of two means in units of the pooled standard deviation, corrected for bias. `None` if a
/// sample has fewer than two values, or if values hardly vary within each sample, so that g would exceed 1000.
pub fn hedges_g(one: &[f64], other: &[f64]) -> Option<f64> {
    let (a, b) = (Interval::of(one)?, Interval::of(other)?);
    let squares = |of: &Interval| of.deviation.map(|deviation| deviation * deviation * (of.count - 1) as f64);
    let freedom = a.count + b.count - 2;
    let pooled = ((squares(&a)? + squares(&b)?) / freedom as f64).sqrt();
    let effect = (a.mean - b.mean) / pooled * student::hedges_factor(freedom);
    (effect.abs() <= EFFECT_MAX).then_some(effect)
}

/// Adjusts p-values for their number by the method of Holm (1979): the probability that any true hypothesis is rejected
/// is at most the level of a single test. Results are in the order of `chances`.
pub fn holm(chances: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..chances.len()).collect();
    order.sort_by(|a, b| chances[*a].total_cmp(&chances[*b]));
    let mut adjusted = vec![0.0; chances.len()];
    let mut largest = 0.0f64;
    for (rank, place) in order.into_iter().enumerate() {
        let left = (chances.len() - rank) as f64;
        // The order of the p-values is kept: an adjusted one is never below that of a smaller p-value.
        largest = largest.max((chances[place] * left).min(1.0));
        adjusted[place] = largest;
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p_values_match_scipy() {
        // Two-sided p-values of SciPy 1.17's ttest_1samp.
        for (values, p) in CHANCES {
            let found = Interval::of(values).unwrap().chance().unwrap();
            assert!((found - p).abs() < 1e-10 * p.max(1e-3), "{values:?}: {found} is not {p}");
        }
        let of = |values: &[f64]| Interval::of(values).unwrap().chance();
        assert_eq!([of(&[1.0]), of(&[0.0, 0.0]), of(&[2.0, 2.0])], [None; 3], "no deviation, no test");
    }

    // Samples with the p-values of their tests.
    const CHANCES: [(&[f64], f64); 6] = [
        (&[1.0, 2.0], 0.20483276469913345),
        (&[0.1, -0.2, 0.3], 0.6913933000758161),
        (&[5.0, 5.5, 4.5, 6.0, 5.2], 3.071867769455039e-05),
        (&[-0.01, 0.02, -0.03, 0.01, 0.0], 0.8275647196020319),
        (&[100.0, 101.0, 99.5, 100.2, 100.1, 99.9, 100.4], 1.9697300280592607e-15),
        (
            &[
                -2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 3.5, -2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 3.5, -2.5, -1.5, -0.5, 0.5, 1.5,
                2.5, 3.5, -2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 3.5, -2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 3.5, -2.5, -1.5, -0.5,
                0.5, 1.5,
            ],
            0.24043355595899973,
        ),
    ];

    #[test]
    fn interval_matches_textbook_example() {
        // Sample 1 to 5: mean 3, standard deviation sqrt(2.5), t(4) = 2.776 and 4.604.
        let values = [1.0, 2.0, 3.0, 4.0, 5.0];
        let five = Interval::of(&values).unwrap();
        assert_eq!((five.count, five.mean), (5, 3.0));
        assert!((five.deviation.unwrap() - 2.5f64.sqrt()).abs() < 1e-12);
        assert!((five.half.unwrap() - 1.9632).abs() < 1e-4, "{five:?}");
        let wider = Interval::at(&values, ConfidenceLevel::P99).unwrap();
        assert!((wider.half.unwrap() - 3.2556).abs() < 1e-4, "{wider:?}");
    }

    #[test]
    fn single_value_has_no_interval() {
        let one = Interval::of(&[7.0]).unwrap();
        assert_eq!((one.mean, one.half, one.ends()), (7.0, None, None));
        assert_eq!(Interval::of(&[2.0, 2.0]).unwrap().ends(), Some((2.0, 2.0)));
        assert_eq!(Interval::of(&[]), None);
        assert_eq!([Interval::of(&[f64::NAN]), Interval::of(&[f64::INFINITY; 2])], [None; 2]);
        assert_eq!(Interval::of(&[f64::NAN, 1.0]), None);
    }

    #[test]
    fn equal_values_have_no_deviation() {
        // Three times 0.1 is more than 0.3 as a binary number.
        let three = Interval::of(&[0.1; 3]).unwrap();
        assert_eq!((three.mean, three.deviation, three.ends()), (0.1, Some(0.0), Some((0.1, 0.1))));
        assert_eq!((three.is_constant(), three.chance()), (true, None));
        assert_eq!(hedges_g(&[0.1; 3], &[0.2; 3]), None, "not -3e15");
        assert_eq!(hedges_g(&[84387915.0, 84387916.0], &[581295365.0, 581295364.0]), None, "not -5e8");
        // 0.1 + 0.2 is more than 0.3 as a binary number.
        let rounded = Interval::of_scale(&[0.1 + 0.2 - 0.3; 2], ConfidenceLevel::P95, 0.3).unwrap();
        assert_eq!((rounded.mean, rounded.deviation), (0.0, Some(0.0)));
        let near = Interval::of(&[0.3, 0.1 + 0.2, 0.3]).unwrap();
        assert!((near.mean - 0.3).abs() < 1e-12 && near.is_constant());
        assert!(Interval::of(&[1.0, 1.0 + 1e-8]).unwrap().deviation > Some(0.0), "more than rounding");
    }

    #[test]
    fn interval_end_has_p_value_of_level() {
        for level in ConfidenceLevel::ALL {
            let interval = Interval::at(&[1.0, 4.0, 2.5, 3.0], level).unwrap();
            let (low, high) = interval.ends().unwrap();
            let chances = [low, high].map(|end| interval.chance_of(end).unwrap());
            assert!(chances.iter().all(|p| (p - level.error()).abs() < 1e-10), "{level:?}: {chances:?}");
        }
    }

    #[test]
    fn effect_size_matches_hand_computation() {
        // -2 / sqrt(2.5), times the factor for 8 degrees of freedom, 0.90270.
        let g = hedges_g(&[1.0, 2.0, 3.0, 4.0, 5.0], &[3.0, 4.0, 5.0, 6.0, 7.0]).unwrap();
        assert!((g - -1.1418394343377742).abs() < 1e-10, "{g}");
        // Samples of different size; the expected value was computed in Python.
        let g = hedges_g(&[10.1, 9.8, 10.4, 10.0], &[9.1, 9.4, 8.9, 9.6, 9.0]).unwrap();
        assert!((g - 2.8311183952601957).abs() < 1e-10, "{g}");
        assert_eq!([hedges_g(&[1.0], &[1.0, 2.0]), hedges_g(&[1.0, 1.0], &[2.0, 2.0])], [None, None]);
    }

    #[test]
    fn holm_matches_hand_computation() {
        let near = |found: Vec<f64>, expected: &[f64]| {
            assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-12), "{found:?}");
        };
        // 0.005 * 4, 0.01 * 3, 0.03 * 2, and 0.04 raised to the one before.
        near(holm(&[0.01, 0.04, 0.03, 0.005]), &[0.03, 0.06, 0.06, 0.02]);
        near(holm(&[0.9, 0.6]), &[1.0, 1.0]);
        // Equal p-values are adjusted alike, all by the factor of the first.
        near(holm(&[0.02, 0.01, 0.02, 0.01]), &[0.04, 0.04, 0.04, 0.04]);
        assert_eq!((holm(&[]), holm(&[0.04])), (vec![], vec![0.04]));
    }
}
