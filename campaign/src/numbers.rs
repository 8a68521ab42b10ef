//! Means and their 95 % intervals (Student's t).

use farlink_report::plot::Estimate;

/// A mean with its interval.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Interval {
    /// How many values.
    pub count: usize,
    /// Their mean.
    pub mean: f64,
    /// Standard deviation of the sample; `None` of a single value.
    pub deviation: Option<f64>,
    /// Half of the width of the 95 % interval of the mean; `None` of a single value.
    pub half: Option<f64>,
}

impl Interval {
    /// Of these values; `None` of none.
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
    /// Lower and upper end; without an interval there is none.
    pub fn ends(&self) -> Option<(f64, f64)> {
        self.half.map(|half| (self.mean - half, self.mean + half))
    }
    /// For a plot.
    pub fn estimate(&self) -> Estimate {
        Estimate { mean: self.mean, half: self.half }
    }
}

/// The 0.975 quantile of Student's t with so many degrees of freedom.
pub fn student_t(freedom: usize) -> f64 {
    /// NIST/SEMATECH e-Handbook of Statistical Methods, 1.3.6.7.2, from 1 degree of freedom.
    const TABLE: [f64; 30] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
        2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
    ];
    /// Of the normal distribution.
    const Z: f64 = 1.959_964;
    match freedom.checked_sub(1).map(|place| TABLE.get(place)) {
        None => f64::INFINITY,
        Some(Some(t)) => *t,
        // Cornish and Fisher (1937), the first two terms: to 0.0001 from here on.
        Some(None) => {
            let n = freedom as f64;
            let first = (Z.powi(3) + Z) / (4.0 * n);
            let second = (5.0 * Z.powi(5) + 16.0 * Z.powi(3) + 3.0 * Z) / (96.0 * n * n);
            Z + first + second
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_is_that_of_the_textbook() {
        // Five values: mean 3, deviation sqrt(2.5), t(4) = 2.776.
        let five = Interval::of(&[1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
        assert_eq!((five.count, five.mean), (5, 3.0));
        assert!((five.deviation.unwrap() - 2.5f64.sqrt()).abs() < 1e-12);
        assert!((five.half.unwrap() - 1.9629).abs() < 1e-3, "{five:?}");
    }

    #[test]
    fn one_value_has_no_interval_and_equal_ones_have_none_to_speak_of() {
        let one = Interval::of(&[7.0]).unwrap();
        assert_eq!((one.mean, one.half, one.ends()), (7.0, None, None));
        assert_eq!(Interval::of(&[2.0, 2.0]).unwrap().ends(), Some((2.0, 2.0)));
        assert_eq!(Interval::of(&[]), None);
        assert_eq!(Interval::of(&[f64::NAN, 1.0]), None);
    }

    #[test]
    fn quantiles_beyond_the_table_join_it_and_end_at_the_normal() {
        // Of the same handbook: 40, 60, 100 degrees of freedom.
        for (freedom, t) in [(40, 2.021), (60, 2.000), (100, 1.984)] {
            assert!((student_t(freedom) - t).abs() < 6e-4, "{freedom}: {}", student_t(freedom));
        }
        assert!(student_t(30) > student_t(31) && student_t(1_000_000) - 1.95996 < 1e-4);
        assert_eq!(student_t(0), f64::INFINITY);
    }
}
