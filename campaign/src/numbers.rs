//! Means with 95 % confidence intervals (Student's t), and paired t-tests.

use farlink_report::plot::Estimate;

/// A sample mean with its confidence interval.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Interval {
    /// Number of values.
    pub count: usize,
    /// Arithmetic mean.
    pub mean: f64,
    /// Sample standard deviation; `None` for a single value.
    pub deviation: Option<f64>,
    /// Half-width of the 95 % confidence interval of the mean; `None` for a single value.
    pub half: Option<f64>,
}

impl Interval {
    /// Computes the interval of these values; `None` for an empty list or a mean that is not finite.
    pub fn of(values: &[f64]) -> Option<Interval> {
        let count = values.len();
        let mean = values.iter().sum::<f64>() / count as f64;
        if count == 0 || !mean.is_finite() {
            return None;
        }
        let squares: f64 = values.iter().map(|value| (value - mean) * (value - mean)).sum();
        let deviation = (count > 1).then(|| (squares / (count - 1) as f64).sqrt());
        let half = deviation.map(|deviation| student_t(count - 1) * deviation / (count as f64).sqrt());
        Some(Interval { count, mean, deviation, half })
    }
    /// Two-sided p-value of the t-test for a true mean of 0; for paired differences, that of the paired test. `None`
    /// for a single value.
    pub fn chance(&self) -> Option<f64> {
        let error = self.deviation? / (self.count as f64).sqrt();
        let freedom = (self.count - 1) as f64;
        // Equal values leave no doubt: the mean is 0, or it is not.
        if error == 0.0 {
            return Some(if self.mean == 0.0 { 1.0 } else { 0.0 });
        }
        let t = self.mean / error;
        Some(beta_share(freedom / (freedom + t * t), freedom / 2.0, 0.5))
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

/// The 0.975 quantile of Student's t distribution; infinite without a degree of freedom.
pub fn student_t(freedom: usize) -> f64 {
    // NIST/SEMATECH e-Handbook of Statistical Methods, 1.3.6.7.2, from 1 degree of freedom.
    const TABLE: [f64; 30] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
        2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
    ];
    // The 0.975 quantile of the normal distribution.
    const Z: f64 = 1.959_964;
    match freedom.checked_sub(1).map(|place| TABLE.get(place)) {
        None => f64::INFINITY,
        Some(Some(t)) => *t,
        // Cornish and Fisher (1937), the first two terms: accurate to 0.0001 above 30 degrees of
        // freedom.
        Some(None) => {
            let n = freedom as f64;
            let first = (Z.powi(3) + Z) / (4.0 * n);
            let second = (5.0 * Z.powi(5) + 16.0 * Z.powi(3) + 3.0 * Z) / (96.0 * n * n);
            Z + first + second
        }
    }
}

/// The regularized incomplete beta function I_x(a, b) (NIST Digital Library of Mathematical Functions, 8.17).
fn beta_share(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return x.clamp(0.0, 1.0);
    }
    let front = (ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b) + a * x.ln() + b * (1.0 - x).ln()).exp();
    // The continued fraction converges quickly on this side (8.17.4, 8.17.22).
    if x < (a + 1.0) / (a + b + 2.0) {
        front * fraction(x, a, b) / a
    } else {
        1.0 - front * fraction(1.0 - x, b, a) / b
    }
}

/// Evaluates the continued fraction 8.17.22, from its first numerator on, by Lentz's method.
fn fraction(x: f64, a: f64, b: f64) -> f64 {
    // Replacement for a denominator of zero.
    const LEAST: f64 = 1e-300;
    let held = |value: f64| if value.abs() < LEAST { LEAST } else { value };
    let (mut c, mut d) = (1.0, 1.0 / held(1.0 - (a + b) * x / (a + 1.0)));
    let mut found = d;
    for n in 1..300 {
        let m = f64::from(n);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        let mut change = 1.0;
        for term in [even, odd] {
            d = 1.0 / held(1.0 + term * d);
            c = held(1.0 + term / c);
            change *= c * d;
        }
        found *= change;
        if (change - 1.0).abs() < 1e-15 {
            break;
        }
    }
    found
}

/// Logarithm of the gamma function for x > 0: Stirling's series (5.11.1) above 12, and the recurrence (5.5.1) below.
fn ln_gamma(x: f64) -> f64 {
    // At 12 the four terms of the series are accurate to about 1e-13.
    let steps = (12.0 - x).ceil().max(0.0) as u32;
    let below: f64 = (0..steps).map(|n| (x + f64::from(n)).ln()).sum();
    let z = x + f64::from(steps);
    let series = 1.0 / (12.0 * z) - 1.0 / (360.0 * z.powi(3)) + 1.0 / (1260.0 * z.powi(5)) - 1.0 / (1680.0 * z.powi(7));
    (z - 0.5) * z.ln() - z + 0.5 * (2.0 * std::f64::consts::PI).ln() + series - below
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
        assert_eq!([of(&[1.0]), of(&[0.0, 0.0]), of(&[2.0, 2.0])], [None, Some(1.0), Some(0.0)]);
    }

    #[test]
    fn interval_and_p_value_agree() {
        for freedom in [1, 2, 4, 9, 29, 60, 999] {
            let t = student_t(freedom);
            let p = beta_share(freedom as f64 / (freedom as f64 + t * t), freedom as f64 / 2.0, 0.5);
            // The handbook gives quantiles with three decimals.
            assert!((p - 0.05).abs() < 5e-5, "{freedom}: {p}");
        }
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
        // Sample 1 to 5: mean 3, standard deviation sqrt(2.5), t(4) = 2.776.
        let five = Interval::of(&[1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
        assert_eq!((five.count, five.mean), (5, 3.0));
        assert!((five.deviation.unwrap() - 2.5f64.sqrt()).abs() < 1e-12);
        assert!((five.half.unwrap() - 1.9629).abs() < 1e-3, "{five:?}");
    }

    #[test]
    fn single_value_has_no_interval() {
        let one = Interval::of(&[7.0]).unwrap();
        assert_eq!((one.mean, one.half, one.ends()), (7.0, None, None));
        assert_eq!(Interval::of(&[2.0, 2.0]).unwrap().ends(), Some((2.0, 2.0)));
        assert_eq!(Interval::of(&[]), None);
        assert_eq!(Interval::of(&[f64::NAN, 1.0]), None);
    }

    #[test]
    fn t_quantiles_continue_beyond_table() {
        // Quantiles of the same handbook for 40, 60 and 100 degrees of freedom.
        for (freedom, t) in [(40, 2.021), (60, 2.000), (100, 1.984)] {
            assert!((student_t(freedom) - t).abs() < 6e-4, "{freedom}: {}", student_t(freedom));
        }
        assert!(student_t(30) > student_t(31) && student_t(1_000_000) - 1.95996 < 1e-4);
        assert_eq!(student_t(0), f64::INFINITY);
    }
}
