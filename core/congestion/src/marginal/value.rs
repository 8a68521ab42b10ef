//! Increase in the chance of delivery through one more copy.

/// Rates of meeting the destination, 1/s.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Rates {
    /// Rate of this copy's holder.
    pub own: f64,
    /// Mean rate of other holders.
    pub others: f64,
}

impl Rates {
    /// Increase in the chance of delivery through a copy here, beside `others` copies, if copies are lost at the rate
    /// `end` (1/s). With exponential times, n other copies of meeting rate m deliver with the chance n m / (n m + end).
    /// One more copy of rate a makes it (n m + a) / (n m + a + end); the result is the difference.
    pub fn gain(self, others: f64, end: f64) -> f64 {
        let before = others * self.others;
        self.own * end / ((before + end) * (before + self.own + end))
    }
}

/// `x` to the power of `times`, for small exponents.
pub(super) fn power(x: f64, times: usize) -> f64 {
    (0..times).fold(1.0, |product, _| product * x)
}

/// Rank of an offer, lowest first: by worth; offers that only the control wants come last.
pub(super) fn rank(worth: f64, wished: bool) -> u64 {
    // Bit 62 marks offers that only the control wants; rank 0 is never used.
    let order = (i64::MAX as u64 - worth.max(0.0).to_bits().min(i64::MAX as u64)) >> 2;
    order.max(1) | u64::from(wished) << 62
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_have_diminishing_worth() {
        let rates = |own| Rates { own, others: 0.001 };
        // Three cases: a copy alone, a copy beside one other, and the latter at a holder with a lower meeting rate.
        let gains = [rates(0.01).gain(0.0, 0.001), rates(0.01).gain(1.0, 0.001), rates(0.001).gain(1.0, 0.001)];
        assert!(gains.is_sorted_by(|a, b| a > b), "{gains:?}");
        assert!((gains[0] - 10.0 / 11.0).abs() < 1e-12, "alone: the chance to meet before the copy is lost");
    }

    #[test]
    fn worthiest_first_extra_copies_last() {
        let ranks = [rank(0.5, false), rank(1e-9, false), rank(0.0, false), rank(0.5, true), rank(1e-9, true)];
        assert!(ranks.is_sorted_by(|a, b| a < b) && ranks[0] > 0, "{ranks:?}");
        assert_eq!(rank(f64::INFINITY, false), rank(f64::INFINITY, false));
    }
}
