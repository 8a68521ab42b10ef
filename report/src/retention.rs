//! Retention times of relays, measured on the links.

use crate::statistics::percentile;
use serde::{Deserialize, Serialize};

/// Retention times at one relay, of the bundles that arrived there in one phase and left again.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RetentionFacts {
    /// Name of the relay.
    pub relay: String,
    /// Reason why there are no times, such as TLS; absent if there are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unavailable: Option<String>,
    /// Bundles that arrived and left.
    pub bundles: u64,
    /// Bundles that arrived and did not leave: lost, kept to the end, or destined for the relay itself.
    pub missing: u64,
    /// Bundles that left before one that had arrived earlier.
    pub overtaking: u64,
    /// From the last byte in to the first byte out, as measured.
    pub first_out_s: Option<RetentionTimes>,
    /// From the last byte in to the last byte out, as measured.
    pub last_out_s: Option<RetentionTimes>,
    /// Zero-work relays, measured in the same host; empty if the phase was too short, or the measurement impossible.
    pub zero_work: Vec<ZeroWorkTimes>,
    /// `first_out_s` less the median of the zero-work relay over the same transport; absent if any bundle has no such
    /// median.
    pub net_first_out_s: Option<RetentionTimes>,
    /// `last_out_s` less the median that `net_first_out_s` subtracts.
    pub net_last_out_s: Option<RetentionTimes>,
    /// Frames of any link that the probe missed in the phase; above 0, `bundles` and `missing` may be wrong.
    pub frames_missed: u64,
    /// Connections of the relay that became encrypted (TLS), counted over the whole run.
    pub enciphered: u64,
    /// Gaps in the data seen at the relay, bundles that ended incomplete, and bundles without a readable identity, in
    /// the whole run.
    pub unreadable: u64,
    /// Payload bytes to and from the relay that the probe could not read, in the whole run.
    pub unread_bytes: u64,
}

impl RetentionFacts {
    /// Computes the distributions from the times of each bundle. Net times need a zero-work median for every bundle.
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
    /// From the last byte in to the first byte out; negative for a bundle that is forwarded while it arrives.
    pub first_s: f64,
    /// From the last byte in to the last byte out.
    pub last_s: f64,
    /// Median of the zero-work relay over the transport by which the bundle left; absent if none was measured.
    pub floor_s: Option<f64>,
}

/// Quantiles of retention times, in s.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct RetentionTimes {
    /// Median, the 50th percentile.
    pub p50: f64,
    /// The 95th percentile.
    pub p95: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// Largest retention time.
    pub max: f64,
}

impl RetentionTimes {
    /// Computes the quantiles of times in any order; `None` without any.
    pub fn of(mut times: Vec<f64>) -> Option<RetentionTimes> {
        times.sort_by(f64::total_cmp);
        let at = |q| percentile(&times, q);
        Some(RetentionTimes { p50: at(0.5)?, p95: at(0.95)?, p99: at(0.99)?, max: at(1.0)? })
    }
}

/// Retention times of a zero-work relay over one transport.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct ZeroWorkTimes {
    /// `tcp` or `udp`.
    pub transport: String,
    /// Number of bundles by which it was measured.
    pub bundles: u64,
    /// Median from the last byte in to the first byte out, in s.
    pub p50_s: f64,
    /// The 99th percentile of the same time, in s.
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
