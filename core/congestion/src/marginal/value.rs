//! What one more copy of a bundle adds to the chance that it arrives.

/// How often a copy's holder meets its destination, and how often the holders of others do, 1/s.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Rates {
    /// The holder's.
    pub own: f64,
    /// The mean.
    pub others: f64,
}

impl Rates {
    /// By how much the chance of arrival grows with a copy here, where there are so many others, and copies
    /// die at the rate `end` (1/s). With exponential times, n others arrive with the chance n m / (n m + e),
    /// and with one more of its own rate a with (n m + a) / (n m + a + e): this is the difference.
    pub fn gain(self, others: f64, end: f64) -> f64 {
        let before = others * self.others;
        self.own * end / ((before + end) * (before + self.own + end))
    }
}

/// `x` to a small power.
pub(super) fn power(x: f64, times: usize) -> f64 {
    (0..times).fold(1.0, |product, _| product * x)
}

/// A rank for offers, least first: the worthiest first, and behind them all those that only the control wants.
pub(super) fn rank(worth: f64, wished: bool) -> u64 {
    let order = (i64::MAX as u64 - worth.max(0.0).to_bits().min(i64::MAX as u64)) >> 2;
    order.max(1) | u64::from(wished) << 62
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_have_diminishing_worth() {
        let rates = |own| Rates { own, others: 0.001 };
        let gains = [rates(0.01).gain(0.0, 0.001), rates(0.01).gain(1.0, 0.001), rates(0.001).gain(1.0, 0.001)];
        assert!(gains.is_sorted_by(|a, b| a > b), "{gains:?}");
        assert!((gains[0] - 10.0 / 11.0).abs() < 1e-12, "alone: it meets before it dies");
    }

    #[test]
    fn worthiest_first_extra_copies_last() {
        let ranks = [rank(0.5, false), rank(1e-9, false), rank(0.0, false), rank(0.5, true), rank(1e-9, true)];
        assert!(ranks.is_sorted_by(|a, b| a < b) && ranks[0] > 0, "{ranks:?}");
        assert_eq!(rank(f64::INFINITY, false), rank(f64::INFINITY, false));
    }
}
