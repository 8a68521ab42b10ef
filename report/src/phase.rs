//! Phases of a run with their results, and use of processors and memory by role.

use crate::retention::RetentionFacts;
use crate::round_trip::RoundTrip;
use crate::schema::BundleRow;
use crate::statistics::{BundleNumbers, Latency, percentile};
use serde::{Deserialize, Serialize};

/// A named span of a run, stored in the manifest.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct PhaseFacts {
    /// Name from the scenario.
    pub name: String,
    /// Kind of phase in the scenario, such as `load`.
    pub kind: String,
    /// Start in seconds from the start of the run.
    pub start_s: f64,
    /// End in seconds from the start of the run.
    pub end_s: f64,
    /// Use of processors and memory in the phase, by node and role; empty in simulations.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub roles: Vec<RoleUse>,
    /// Plain flows through the links; only a baseline of the testbed has any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub baseline: Vec<BaselineFlow>,
    /// Times for which relays kept bundles; only a retention phase of the testbed has any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub retention: Vec<RetentionFacts>,
}

impl PhaseFacts {
    /// Whether a time, in nanoseconds from the start of the run, is in the phase.
    pub fn holds(&self, time_ns: u64) -> bool {
        let time_s = time_ns as f64 / 1e9;
        time_s >= self.start_s && time_s < self.end_s
    }
}

/// Use of processors and memory by the processes of one role at a node.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct RoleUse {
    /// Node; absent for the emulator.
    pub node: Option<String>,
    /// `implementation`, `application` or `emulator`.
    pub role: String,
    /// Processor time in user mode, in seconds; for the emulator, its whole processor time.
    pub cpu_user_s: f64,
    /// Processor time in the kernel, in seconds.
    pub cpu_system_s: f64,
    /// Use of a processor over time in percent, 100 being one processor; absent in spans without two samples.
    pub cpu_percent: Option<Spread>,
    /// Peak of all memory in bytes.
    pub memory_peak_bytes: u64,
    /// Peak of anonymous memory in bytes, as sampled.
    pub anonymous_peak_bytes: u64,
    /// Peak of shared memory in bytes, as sampled.
    pub shared_peak_bytes: u64,
    /// Peak of the page cache in bytes, as sampled; where `/proc` is the source, of mapped files.
    pub cache_peak_bytes: u64,
}

impl RoleUse {
    /// Processor time in seconds.
    pub fn cpu_s(&self) -> f64 {
        self.cpu_user_s + self.cpu_system_s
    }
}

/// Mean, standard deviation and quartiles of samples.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Spread {
    /// Arithmetic mean.
    pub mean: f64,
    /// Sample standard deviation; 0 for a single sample.
    pub sd: f64,
    /// First quartile.
    pub p25: f64,
    /// Median.
    pub p50: f64,
    /// Third quartile.
    pub p75: f64,
    /// Number of samples.
    pub samples: u64,
}

impl Spread {
    /// Computes the spread of values in any order; `None` without any.
    pub fn of(mut values: Vec<f64>) -> Option<Spread> {
        values.sort_by(f64::total_cmp);
        let (p25, p50, p75) = (percentile(&values, 0.25)?, percentile(&values, 0.5)?, percentile(&values, 0.75)?);
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        // One value has no deviation.
        let sd = (squares / (count - 1.0).max(1.0)).sqrt();
        Some(Spread { mean, sd, p25, p50, p75, samples: values.len() as u64 })
    }
}

/// Result of a plain flow through one link.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct BaselineFlow {
    /// Name of the link.
    pub link: String,
    /// Name of the sending node.
    pub from: String,
    /// Name of the receiving node.
    pub to: String,
    /// `tcp` or `udp`.
    pub transport: String,
    /// Payload rate at the receiver in bit/s; absent where nothing arrived.
    pub bit_s: Option<f64>,
    /// Datagrams lost.
    pub lost: u64,
    /// TCP segments sent again.
    pub retransmitted: u64,
}

/// A phase and the delivery of the bundles created in it.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct PhaseUse {
    /// Phase as stored in the manifest.
    #[serde(flatten)]
    pub facts: PhaseFacts,
    /// Bundles created in the phase.
    pub created: u64,
    /// Number of these bundles delivered, at any time.
    pub delivered: u64,
    /// Latency of the delivered bundles, in seconds.
    pub latency_s: Option<Latency>,
    /// Delivered payload over the time from the first creation to the last delivery, in bit/s.
    pub goodput_bit_s: Option<f64>,
    /// Payload delivered after the first delivery over the time from the first to the last delivery, in bit/s.
    pub goodput_received_bit_s: Option<f64>,
    /// Round-trip times of pings sent in the phase, in seconds.
    pub round_trip_s: Option<Latency>,
}

impl PhaseUse {
    /// Phases with the bundles created and the pings sent in each.
    pub fn all(phases: &[PhaseFacts], bundles: &[BundleRow], round_trips: &[RoundTrip]) -> Vec<PhaseUse> {
        let of = |facts: &PhaseFacts| {
            let own: Vec<&BundleRow> = bundles.iter().filter(|bundle| facts.holds(bundle.created_ns)).collect();
            let numbers = BundleNumbers::of(&own);
            let trips = round_trips.iter().filter(|trip| facts.holds(trip.sent_ns)).map(|trip| trip.seconds);
            PhaseUse {
                facts: facts.clone(),
                created: own.len() as u64,
                delivered: numbers.delivered,
                latency_s: numbers.latency_s,
                goodput_bit_s: numbers.goodput_bit_s,
                goodput_received_bit_s: numbers.goodput_received_bit_s,
                round_trip_s: Latency::of(trips.collect()),
            }
        };
        phases.iter().map(of).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spread_matches_hand_computation() {
        let spread = Spread::of(vec![4.0, 1.0, 3.0, 2.0]).unwrap();
        assert_eq!((spread.mean, spread.p25, spread.p50, spread.p75), (2.5, 1.75, 2.5, 3.25));
        assert!((spread.sd - (5.0f64 / 3.0).sqrt()).abs() < 1e-12, "{spread:?}");
        assert_eq!(Spread::of(vec![7.0]).unwrap().sd, 0.0);
        assert_eq!(Spread::of(vec![]), None);
    }

    #[test]
    fn phase_begins_with_its_start() {
        let phase = PhaseFacts { start_s: 1.0, end_s: 2.0, ..PhaseFacts::default() };
        let holds = [999_999_999, 1_000_000_000, 1_999_999_999, 2_000_000_000].map(|time| phase.holds(time));
        assert_eq!(holds, [false, true, true, false]);
        let trip = |sent_ns| RoundTrip { sent_ns, seconds: 0.5 };
        let uses = PhaseUse::all(&[phase], &[], &[trip(999_999_999), trip(1_000_000_000)]);
        assert_eq!((uses[0].created, uses[0].latency_s), (0, None));
        assert_eq!(uses[0].round_trip_s.map(|times| times.max), Some(0.5));
    }
}
