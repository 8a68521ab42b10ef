//! Metrics taken from each cell.

use crate::ran::Ran;
use farlink_report::{Quantity, Spread};

/// One metric of a run.
#[derive(Debug)]
pub struct Metric {
    /// Name in files.
    pub name: &'static str,
    /// Title in figures.
    pub title: &'static str,
    /// Kind of quantity, which determines the unit.
    pub quantity: Quantity,
    /// Parts of a run for which it can be taken.
    pub scope: MetricScope,
    /// Definition, as shown in the reference.
    pub help: &'static str,
    pub(crate) of: MetricSource,
}
impl PartialEq for Metric {
    fn eq(&self, other: &Metric) -> bool {
        self.name == other.name
    }
}
impl Metric {
    /// Whether it is a distribution of values within a run.
    pub fn is_sample(&self) -> bool {
        matches!(self.of, MetricSource::Sample(_))
    }
    /// Whether only the testbed measures it.
    pub fn is_of_testbed(&self) -> bool {
        let parts = ["cpu_percent", "memory_peak_", "retention_", "goodput_of_baseline", "baseline_bit_s"];
        parts.iter().any(|part| self.name.starts_with(part))
    }
    /// Least and largest value that it can have, infinite where it has no such limit.
    pub(crate) fn limits(&self) -> (f64, f64) {
        // The time at a zero-work relay is subtracted from retention, and may be longer.
        let least = if self.name.starts_with("retention_") { f64::NEG_INFINITY } else { 0.0 };
        let is_share = matches!(self.name, "delivery_ratio" | "delivery_of_created");
        (least, if is_share { 1.0 } else { f64::INFINITY })
    }
    /// Value of a run; `None` where the run has none, and for distributions.
    pub(crate) fn value(&self, ran: &Ran<'_>) -> Option<f64> {
        match self.of {
            MetricSource::Value(of) => of(ran).filter(|value| value.is_finite()),
            MetricSource::Spread(of) => of(ran).map(|spread| spread.mean).filter(|mean| mean.is_finite()),
            MetricSource::Sample(_) => None,
        }
    }
}

/// Parts of a run for which a metric can be taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MetricScope {
    /// The whole run.
    Run,
    /// The whole run or a phase.
    Phase,
    /// The whole run or a phase, at all nodes or at one.
    Node,
}
impl MetricScope {
    /// Words for the reference.
    pub const fn word(self) -> &'static str {
        match self {
            MetricScope::Run => "run",
            MetricScope::Phase => "run, phase",
            MetricScope::Node => "run, phase, node",
        }
    }
}

/// Computation of a metric.
#[derive(Debug)]
pub(crate) enum MetricSource {
    /// One number of a run.
    Value(fn(&Ran<'_>) -> Option<f64>),
    /// The mean of samples, whose quartiles are kept beside it.
    Spread(fn(&Ran<'_>) -> Option<Spread>),
    /// All values of a distribution.
    Sample(fn(&Ran<'_>) -> Vec<f64>),
}

macro_rules! metrics {
    ($( $name:literal, $title:literal, $quantity:ident, $scope:ident, $help:literal, $source:ident $of:expr; )*) => {
        &[$( Metric {
            name: $name, title: $title, quantity: Quantity::$quantity, scope: MetricScope::$scope, help: $help,
            of: MetricSource::$source($of),
        }, )*]
    };
}

/// Names of all metrics and distributions.
pub const NAMES: &[&str] = &{
    let mut names = [""; METRICS.len() + SAMPLES.len()];
    let mut place = 0;
    while place < names.len() {
        let metric = if place < METRICS.len() { &METRICS[place] } else { &SAMPLES[place - METRICS.len()] };
        names[place] = metric.name;
        place += 1;
    }
    names
};

/// All metrics that are one number of a run, in the order of the reference.
pub const METRICS: &[Metric] = metrics! {
    "created", "bundles created", Count, Phase, "Bundles that applications created.",
        Value |ran| Some(ran.statistics.created as f64);
    "delivered", "bundles delivered", Count, Phase, "Bundles delivered at least once.",
        Value |ran| Some(ran.statistics.delivered as f64);
    "offered", "bundles offered", Count, Run,
        "Bundles that the scenario's traffic sends before the end, whether a node accepted them or not.",
        Value |ran| Some(ran.offered as f64);
    "delivery_ratio", "delivery ratio", Ratio, Run,
        "Delivered over offered: bundles refused by a full node count as not delivered, so that all series refer to the same bundles. Answers to pings count as neither.",
        Value |ran| Some(ran.delivered_of_offered() as f64 / ran.offered as f64);
    "delivery_of_created", "delivery ratio of created bundles", Ratio, Phase,
        "Delivered over created, as reported by `farlink run`.",
        Value |ran| (ran.statistics.created > 0).then(|| ran.statistics.delivered as f64 / ran.statistics.created as f64);
    "latency_mean_s", "mean latency", Seconds, Phase, "From creation to first delivery, mean over delivered bundles.",
        Value |ran| Some(ran.statistics.latency_s?.mean);
    "latency_median_s", "median latency", Seconds, Phase,
        "From creation to first delivery, median (p50) over delivered bundles.",
        Value |ran| Some(ran.statistics.latency_s?.p50);
    "rtt_median_s", "median round trip", Seconds, Phase,
        "From the sending of a ping to its answer, median over the answered ones; by the stamps of the application that pings, or by the bundles of request and answer.",
        Value |ran| Some(ran.statistics.round_trip_s?.p50);
    "rtt_p90_s", "90th percentile of round trips", Seconds, Phase, "The same, 90th percentile.",
        Value |ran| Some(ran.statistics.round_trip_s?.p90);
    "rtt_p99_s", "99th percentile of round trips", Seconds, Phase, "The same, 99th percentile.",
        Value |ran| Some(ran.statistics.round_trip_s?.p99);
    "overhead", "overhead", Ratio, Run,
        "Overhead ratio: arrivals of copies at any node, first deliveries excluded, over deliveries: (relayed - delivered) / delivered.",
        Value |ran| ran.statistics.overhead_ratio;
    "relayed", "copies relayed", Count, Run, "Copies that arrived at any node, the destination included.",
        Value |ran| Some(ran.statistics.relayed as f64);
    "hops_mean", "arrivals at nodes", Ratio, Run, "Arrivals of a delivered bundle at nodes, mean: its hops, where it has no other copies, returns and repetitions.",
        Value |ran| ran.statistics.hops_mean;
    "sent_bytes", "bytes on links", Bytes, Run,
        "Bytes sent on all links in both directions, headers, repetitions and link overhead included. Radios are no links: a scenario without links has no value.",
        Value |ran| (!ran.statistics.links.is_empty())
            .then(|| ran.statistics.links.iter().map(|link| link.sent_bytes).sum::<u64>() as f64);
    "drops", "copies dropped", Count, Run, "Copies that nodes deleted undelivered, for any reason.",
        Value |ran| Some(ran.manifest.given_up.values().sum::<u64>() as f64);
    "drops_room", "copies dropped from full stores", Count, Run, "Copies deleted because a store was full.",
        Value |ran| Some(ran.manifest.given_up.get("depleted_storage").copied().unwrap_or(0) as f64);
    "goodput_bit_s", "goodput", Rate, Phase,
        "Goodput: delivered payload over the time from the first creation to the last delivery.",
        Value |ran| ran.statistics.goodput_bit_s;
    "goodput_received_bit_s", "goodput at the receiver", Rate, Phase,
        "Goodput by the receiver's stamps alone: payload delivered after the first delivery over the time from the first to the last.",
        Value |ran| ran.statistics.goodput_received_bit_s;
    "goodput_of_baseline", "goodput over baseline", Ratio, Phase,
        "`goodput_received_bit_s` over `baseline_bit_s` of the run. Testbed only.",
        Value |ran| Some(ran.statistics.goodput_received_bit_s? / ran.baseline_of_run()?);
    "baseline_bit_s", "plain TCP", Rate, Phase,
        "Payload rate of plain TCP between the same hosts: mean of a link's flows in phases of kind `baseline`, of the slowest link. Testbed only.",
        Value |ran| ran.baseline();
    "cpu_percent", "processor use", Percent, Node,
        "Use of a processor by implementation and applications together, 100 being one processor: mean of the samples, one for each `interval` of `[measure]`; of the node with the most, unless the figure names one. Testbed only.",
        Spread |ran| ran.processor_use();
    "cpu_percent_implementation", "processor use of the implementation", Percent, Node,
        "The same, by the implementation alone, sampled ten times a second.",
        Spread |ran| ran.busiest(IMPLEMENTATION);
    "cpu_percent_application", "processor use of applications", Percent, Node, "The same, by applications alone.",
        Spread |ran| ran.busiest(APPLICATION);
    "memory_peak_implementation_bytes", "peak memory of the implementation", Bytes, Node,
        "Most memory of the implementation's processes at a time; of the node with the most, unless the figure names one. Testbed only.",
        Value |ran| ran.most(IMPLEMENTATION, |used| used.memory_peak_bytes);
    "memory_peak_implementation_anonymous_bytes", "anonymous memory", Bytes, Node,
        "The same of anonymous memory, such as heaps. Peaks of the three kinds of memory may come at different times.",
        Value |ran| ran.most(IMPLEMENTATION, |used| used.anonymous_peak_bytes);
    "memory_peak_implementation_shared_bytes", "shared memory", Bytes, Node, "The same of shared memory.",
        Value |ran| ran.most(IMPLEMENTATION, |used| used.shared_peak_bytes);
    "memory_peak_implementation_cache_bytes", "page cache", Bytes, Node, "The same of the page cache.",
        Value |ran| ran.most(IMPLEMENTATION, |used| used.cache_peak_bytes);
    "memory_peak_application_bytes", "peak memory of applications", Bytes, Node,
        "Most memory of the applications' processes at a time, as above.",
        Value |ran| ran.most(APPLICATION, |used| used.memory_peak_bytes);
    "memory_peak_application_anonymous_bytes", "anonymous memory", Bytes, Node, "The same of anonymous memory.",
        Value |ran| ran.most(APPLICATION, |used| used.anonymous_peak_bytes);
    "memory_peak_application_shared_bytes", "shared memory", Bytes, Node, "The same of shared memory.",
        Value |ran| ran.most(APPLICATION, |used| used.shared_peak_bytes);
    "memory_peak_application_cache_bytes", "page cache", Bytes, Node, "The same of the page cache.",
        Value |ran| ran.most(APPLICATION, |used| used.cache_peak_bytes);
    "retention_median_s", "median retention", Seconds, Node,
        "Time from a bundle's last byte in to its first byte out at a relay, median, less that of a zero-work relay in the same host; of the relay with the longest, unless the figure names one, over all phases of kind `retention`. Testbed only.",
        Value |ran| ran.longest(|relay| relay.net_first_out_s.map(|times| times.p50));
    "retention_p99_s", "99th percentile of retention", Seconds, Node, "The same, 99th percentile.",
        Value |ran| ran.longest(|relay| relay.net_first_out_s.map(|times| times.p99));
    "retention_raw_median_s", "median retention with the wire", Seconds, Node, "The same median without subtraction.",
        Value |ran| ran.longest(|relay| relay.first_out_s.map(|times| times.p50));
    "retention_mean_s", "mean retention", Seconds, Node,
        "Mean of the same times, less the median of the zero-work relay.",
        Value |ran| Some(ran.retention()?.net);
    "retention_leaving_mean_s", "leaving", Seconds, Node,
        "Mean time from a bundle's first byte out of the relay to its last: of serialising and sending, at the pace of the link.",
        Value |ran| ran.retention()?.leaving;
    "retention_to_last_mean_s", "mean retention to the last byte", Seconds, Node,
        "Sum of `retention_mean_s` and `retention_leaving_mean_s`: mean time from the last byte in to the last byte out.",
        Value |ran| ran.retention()?.until_last();
    "retention_parse_mean_s", "parsing", Seconds, Node,
        "Part of the mean retention in which the relay parses the bundle, where a probe samples `retention_parse_s`.",
        Value |ran| ran.retention()?.parse;
    "retention_make_mean_s", "making", Seconds, Node,
        "Part in which the relay makes the bundle that it sends, where a probe samples `retention_make_s`.",
        Value |ran| ran.retention()?.make;
    "retention_other_mean_s", "other work", Seconds, Node, "The rest: mean retention less both parts.",
        Value |ran| ran.retention()?.other();
    "last_delivery_s", "last delivery", Seconds, Phase, "Time of the last delivery, from the start of the run.",
        Value |ran| ran.statistics.last_delivery_s;
};

/// Distributions of values within a run, in the order of the reference.
pub const SAMPLES: &[Metric] = metrics! {
    "rtt_s", "round trip", Seconds, Phase, "Round-trip times of answered pings.",
        Sample |ran| ran.round_trips.to_vec();
    "latency_s", "latency", Seconds, Phase, "Latencies of delivered bundles.",
        Sample |ran| ran.latencies();
    "retention_raw_s", "retention with the wire", Seconds, Node,
        "Times from a bundle's last byte in to its first byte out at relays, the zero-work relay not subtracted. Testbed only.",
        Sample |ran| ran.retention_times();
};

// Names of roles, as in the manifest of a run.
const IMPLEMENTATION: &str = "implementation";
const APPLICATION: &str = "application";

/// Finds a metric or a distribution by name.
pub(crate) fn metric(name: &str) -> Option<&'static Metric> {
    METRICS.iter().chain(SAMPLES).find(|metric| metric.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_finds_its_metric() {
        assert_eq!(NAMES.len(), METRICS.len() + SAMPLES.len());
        for (place, name) in NAMES.iter().enumerate() {
            let found = metric(name).unwrap();
            assert_eq!((found.name, found.is_sample()), (*name, place >= METRICS.len()));
            assert!(found.help.ends_with('.') && !NAMES[..place].contains(name), "{name}");
            let unit = match found.quantity.unit() {
                "s" => "_s",
                "B" => "_bytes",
                "bit/s" => "_bit_s",
                _ => "",
            };
            assert!(name.ends_with(unit), "{name} is in {unit}");
            assert!(found.is_of_testbed() || !found.help.contains("Testbed"), "{name}");
        }
        assert!(metric("x").is_none());
    }
}
