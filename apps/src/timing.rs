//! Quantiles of round-trip times and other durations.

use serde_json::{Value, json};

/// Quantiles of a set of durations.
#[derive(Clone, Debug, Default)]
pub struct Quantiles {
    sorted_ms: Vec<f64>,
}
impl Quantiles {
    /// Computes the quantiles of durations in ns.
    pub fn new(durations_ns: &[u64]) -> Self {
        let mut sorted_ms: Vec<f64> = durations_ns.iter().map(|ns| *ns as f64 / 1e6).collect();
        sorted_ms.sort_by(f64::total_cmp);
        Quantiles { sorted_ms }
    }
    /// Quantile by nearest rank, in ms: `share` of the durations are not above it. `None` without durations.
    pub fn at(&self, share: f64) -> Option<f64> {
        let last = self.sorted_ms.len().checked_sub(1)?;
        let rank = (share * self.sorted_ms.len() as f64).ceil() as usize;
        self.sorted_ms.get(rank.saturating_sub(1).min(last)).copied()
    }
    /// JSON object `{min, p50, p90, p99, max}` in ms; nulls without durations.
    pub fn json(&self) -> Value {
        json!({
            "min": self.sorted_ms.first(),
            "p50": self.at(0.5),
            "p90": self.at(0.9),
            "p99": self.at(0.99),
            "max": self.sorted_ms.last(),
        })
    }
    /// Text `min/p50/p99/max` in ms; `-` without durations.
    pub fn text(&self) -> String {
        let show = |value: Option<f64>| value.map_or_else(|| "-".into(), |ms| format!("{ms:.3}"));
        let (min, max) = (self.sorted_ms.first().copied(), self.sorted_ms.last().copied());
        format!("{}/{}/{}/{} ms", show(min), show(self.at(0.5)), show(self.at(0.99)), show(max))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_use_nearest_rank() {
        let quantiles = Quantiles::new(&(1..=100).rev().map(|n| n * 1_000_000).collect::<Vec<_>>());
        assert_eq!((quantiles.at(0.5), quantiles.at(0.99), quantiles.at(1.0)), (Some(50.0), Some(99.0), Some(100.0)));
        assert_eq!(Quantiles::new(&[2_000_000]).json()["p99"], 2.0);
        assert_eq!(Quantiles::default().json()["p50"], Value::Null);
    }
}
