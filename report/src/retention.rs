//! How long relays kept bundles, by the wire.

use crate::statistics::percentile;
use serde::{Deserialize, Serialize};

/// Retention times at one relay in one phase: of the bundles that arrived in it and left again.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RetentionFacts {
    /// Name of the relay.
    pub relay: String,
    /// Reason why there are no times, such as TLS; absent where there are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unavailable: Option<String>,
    /// Bundles that arrived and left.
    pub bundles: u64,
    /// Bundles that arrived and did not leave: lost, kept to the end, or for the relay itself.
    pub missing: u64,
    /// Bundles that left before one that had arrived earlier.
    pub overtaking: u64,
    /// From the last byte in to the first byte out, as measured.
    pub first_out_s: Option<RetentionTimes>,
    /// From the last byte in to the last byte out, as measured.
    pub last_out_s: Option<RetentionTimes>,
    /// Relays that do no work, measured in the same host; empty where there was no time or no way.
    pub zero_work: Vec<ZeroWorkTimes>,
    /// `first_out_s` less the median of the zero-work relay over the same transport.
    pub net_first_out_s: Option<RetentionTimes>,
    /// `last_out_s` less the same.
    pub net_last_out_s: Option<RetentionTimes>,
    /// Frames of any link that the probe missed in the phase; with any, bundles may be missing.
    pub frames_missed: u64,
    /// Conversations of the relay enciphered from some point on, in the whole run.
    pub enciphered: u64,
    /// Gaps in its conversations, bundles cut off and bundles without a readable identity, in the whole run.
    pub unreadable: u64,
    /// Bytes of its conversations that could not be read, in the whole run.
    pub unread_bytes: u64,
}

impl RetentionFacts {
    /// Fills in the times, given in s with the median of the zero-work relay for each bundle, where there is one.
    pub fn set_times(&mut self, bundles: &[BundleTimes]) {
        let times = |of: &dyn Fn(&BundleTimes) -> Option<f64>| {
            bundles.iter().map(of).collect::<Option<Vec<f64>>>().and_then(RetentionTimes::of)
        };
        self.first_out_s = times(&|b| Some(b.first_s));
        self.last_out_s = times(&|b| Some(b.last_s));
        self.net_first_out_s = times(&|b| Some(b.first_s - b.floor_s?));
        self.net_last_out_s = times(&|b| Some(b.last_s - b.floor_s?));
    }
}

/// Times of one bundle at a relay, in s.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct BundleTimes {
    /// Until the first byte out; negative for a bundle that is forwarded while it arrives.
    pub first_s: f64,
    /// Until the last byte out.
    pub last_s: f64,
    /// Median of the zero-work relay over the transport by which it left.
    pub floor_s: Option<f64>,
}

/// Quantiles of retention times, in s.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct RetentionTimes {
    /// Median.
    pub p50: f64,
    /// The 95th percentile.
    pub p95: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// Largest.
    pub max: f64,
}

impl RetentionTimes {
    /// Quantiles of times in any order; `None` without any.
    pub fn of(mut times: Vec<f64>) -> Option<RetentionTimes> {
        times.sort_by(f64::total_cmp);
        let at = |q| percentile(&times, q);
        Some(RetentionTimes { p50: at(0.5)?, p95: at(0.95)?, p99: at(0.99)?, max: at(1.0)? })
    }
}

/// Times of a zero-work relay.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct ZeroWorkTimes {
    /// `tcp` or `udp`.
    pub transport: String,
    /// Bundles by which it was measured.
    pub bundles: u64,
    /// Median from the last byte in to the first byte out, in s.
    pub p50_s: f64,
    /// The 99th percentile.
    pub p99_s: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_work_is_subtracted_from_each_bundle() {
        let bundle = |first_s, last_s, floor_s| BundleTimes { first_s, last_s, floor_s };
        let mut relay = RetentionFacts::default();
        relay.set_times(&[bundle(5.0, 9.0, Some(1.0)), bundle(3.0, 4.0, Some(2.0)), bundle(2.0, 3.0, Some(1.0))]);
        let p50 = |times: Option<RetentionTimes>| times.unwrap().p50;
        assert_eq!((p50(relay.first_out_s), p50(relay.last_out_s)), (3.0, 4.0));
        assert_eq!((p50(relay.net_first_out_s), relay.net_first_out_s.unwrap().max), (1.0, 4.0));
        assert_eq!(p50(relay.net_last_out_s), 2.0);
    }

    #[test]
    fn unknown_zero_work_leaves_net_absent() {
        let mut relay = RetentionFacts::default();
        let floors = [Some(1.0), None];
        relay.set_times(&floors.map(|floor_s| BundleTimes { floor_s, ..BundleTimes::default() }));
        assert!(relay.first_out_s.is_some() && relay.net_first_out_s.is_none());
        relay.set_times(&[]);
        assert_eq!((relay.first_out_s, relay.net_first_out_s), (None, None));
    }
}
