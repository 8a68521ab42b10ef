//! Metrics taken from each cell.

use anyhow::{Context, Result};
use farlink_base::Duration;
use farlink_report::{Manifest, Quantity, RetentionFacts, RunReader, Statistics};
use farlink_scenario::{Pace, Scenario, Traffic, TrafficKind};
use std::collections::BTreeMap;
use std::path::Path;

/// One metric of a run.
#[derive(Debug)]
pub struct Metric {
    /// Name in files.
    pub name: &'static str,
    /// Title in figures.
    pub title: &'static str,
    /// Kind of quantity, which determines the unit.
    pub quantity: Quantity,
    /// Definition, as shown in the reference.
    pub help: &'static str,
    of: fn(&Ran<'_>) -> Option<f64>,
}
impl PartialEq for Metric {
    fn eq(&self, other: &Metric) -> bool {
        self.name == other.name
    }
}

/// Results of one run, as input of the metrics.
pub(crate) struct Ran<'a> {
    pub manifest: &'a Manifest,
    pub statistics: &'a Statistics,
    /// Bundles that applications tried to send before the end.
    pub offered: u64,
}

macro_rules! metrics {
    ($( $name:literal, $title:literal, $quantity:ident, $help:literal, $of:expr; )*) => {
        /// All metrics, in the order of the reference.
        pub static METRICS: &[Metric] = &[$( Metric {
            name: $name, title: $title, quantity: Quantity::$quantity, help: $help, of: $of,
        }, )*];
        /// Names of all metrics, in the order of [`METRICS`].
        pub const NAMES: &[&str] = &[$( $name, )*];
    };
}

metrics! {
    "created", "bundles created", Count, "Bundles that applications created.", |ran| Some(ran.statistics.created as f64);
    "delivered", "bundles delivered", Count, "Bundles delivered at least once.", |ran| Some(ran.statistics.delivered as f64);
    "offered", "bundles offered", Count, "Bundles that the scenario's traffic sends before the end, whether a node accepted them or not.",
        |ran| Some(ran.offered as f64);
    "delivery_ratio", "delivery ratio", Ratio,
        "Delivered over offered: bundles refused by a full node count as not delivered, so that all series refer to the same bundles.",
        |ran| Some(ran.statistics.delivered as f64 / ran.offered as f64);
    "delivery_of_created", "delivery ratio of created bundles", Ratio, "Delivered over created, as reported by `farlink run`.",
        |ran| ran.statistics.delivery_ratio;
    "latency_mean_s", "mean latency", Seconds, "From creation to first delivery, mean over delivered bundles.",
        |ran| Some(ran.statistics.latency_s?.mean);
    "latency_median_s", "median latency", Seconds, "From creation to first delivery, median (p50) over delivered bundles.", |ran| Some(ran.statistics.latency_s?.p50);
    "overhead", "overhead", Ratio,
        "Overhead ratio: arrivals of copies at any node, first deliveries excluded, over deliveries: (relayed - delivered) / delivered.",
        |ran| ran.statistics.overhead_ratio;
    "relayed", "copies relayed", Count, "Copies that arrived at any node, the destination included.", |ran| Some(ran.statistics.relayed as f64);
    "hops_mean", "nodes reached", Ratio, "Nodes that received a delivered bundle, over all its copies, mean.",
        |ran| ran.statistics.hops_mean;
    "drops", "copies dropped", Count, "Copies that nodes deleted undelivered, for any reason.",
        |ran| Some(ran.manifest.given_up.values().sum::<u64>() as f64);
    "drops_room", "copies dropped from full stores", Count, "Copies deleted because a store was full.",
        |ran| Some(ran.manifest.given_up.get("depleted_storage").copied().unwrap_or(0) as f64);
    "goodput_bit_s", "goodput", Rate, "Goodput: delivered payload over the time from the first creation to the last delivery.",
        |ran| ran.statistics.goodput_bit_s;
    "retention_median_s", "median retention", Seconds,
        "Time from a bundle's last byte in to its first byte out at a relay, median, less that of a zero-work relay in the same host; of the relay with the longest, over all phases of kind `retention`. Testbed only.",
        |ran| longest(ran, |relay| relay.net_first_out_s.map(|times| times.p50));
    "retention_p99_s", "99th percentile of retention", Seconds, "The same, 99th percentile.",
        |ran| longest(ran, |relay| relay.net_first_out_s.map(|times| times.p99));
    "retention_raw_median_s", "median retention with the wire", Seconds, "The same median without subtraction.",
        |ran| longest(ran, |relay| relay.first_out_s.map(|times| times.p50));
    "last_delivery_s", "last delivery", Seconds, "Time of the last delivery, from the start of the run.",
        |ran| ran.statistics.last_delivery_s;
}

/// Largest of a time over all relays and phases; `None` if no relay has it.
fn longest(ran: &Ran<'_>, of: fn(&RetentionFacts) -> Option<f64>) -> Option<f64> {
    ran.manifest.phases.iter().flat_map(|phase| &phase.retention).filter_map(of).max_by(f64::total_cmp)
}

/// Reads the run of a scenario in this folder and computes all metrics; absent where the run has none.
///
/// # Errors
/// When the folder holds no run, or a damaged one.
pub fn measure(scenario: &Scenario, folder: &Path) -> Result<BTreeMap<String, Option<f64>>> {
    let run = RunReader::open(folder).context("its run")?;
    let statistics = Statistics::read(&run)?;
    let (manifest, offered) = (run.manifest(), offered(scenario));
    let ran = Ran { manifest, statistics: &statistics, offered };
    Ok(all(&ran).into_iter().map(|(name, value)| (name.to_string(), value)).collect())
}

/// Number of bundles that applications try to send before the end, by the scenario's traffic. Traffic without an
/// interval counts in full if it starts before the end.
pub(crate) fn offered(scenario: &Scenario) -> u64 {
    let begins = |start: Duration| start < scenario.duration;
    let of = |traffic: &Traffic| match &traffic.kind {
        // Traffic that starts after the end offers nothing.
        _ if !begins(traffic.start) => 0,
        TrafficKind::File { size, bundle_size, .. } => size.bytes().div_ceil(bundle_size.bytes().max(1)),
        TrafficKind::Bundles { count, pace: Pace::Interval(interval), .. } => {
            in_time(scenario, traffic, *count, *interval)
        }
        TrafficKind::Bundles { count, .. } => *count,
        TrafficKind::Ping { count, interval, .. } => in_time(scenario, traffic, *count, *interval),
    };
    scenario.traffic.iter().map(of).sum()
}

/// Number of sends, at most `count` at the given interval, that start before the end.
fn in_time(scenario: &Scenario, traffic: &Traffic, count: u64, interval: Duration) -> u64 {
    let left = scenario.duration.saturating_sub(traffic.start).as_nanos();
    let most = if interval.is_zero() { u128::from(count) } else { left.div_ceil(interval.as_nanos()) };
    count.min(u64::try_from(most).unwrap_or(u64::MAX))
}

pub(crate) fn metric(name: &str) -> Option<&'static Metric> {
    METRICS.iter().find(|metric| metric.name == name)
}

/// Computes all metrics; non-finite values become absent.
pub(crate) fn all(ran: &Ran<'_>) -> Vec<(&'static str, Option<f64>)> {
    METRICS.iter().map(|metric| (metric.name, (metric.of)(ran).filter(|value| value.is_finite()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use farlink_report::{PhaseFacts, RetentionTimes, RunWorld};

    fn bundle(hops: u64, delivered_ns: Option<u64>) -> farlink_report::BundleRow {
        farlink_report::BundleRow {
            source: "a".into(),
            service: 1,
            creation_ms: 0,
            sequence: hops,
            destination: "b".into(),
            destination_service: 1,
            payload: 1000,
            size: 1040,
            priority: "normal".into(),
            created_ns: 0,
            delivered_ns,
            latency_ns: delivered_ns,
            hops,
            transmissions: hops + 3,
            deliveries: u64::from(delivered_ns.is_some()),
            deleted: None,
            traffic: None,
        }
    }

    #[test]
    fn overhead_matches_hand_computation() {
        let bundles = [bundle(4, Some(2_000_000_000)), bundle(2, Some(4_000_000_000)), bundle(3, None)];
        let mut manifest = Manifest::new(RunWorld::Sim, "x", "", None);
        manifest.given_up = [("depleted_storage".to_string(), 5), ("expired".to_string(), 2)].into();
        let ran = Ran { manifest: &manifest, statistics: &Statistics::of(&bundles, &[]), offered: 4 };
        // Two of three bundles delivered, and nine copies received in all.
        let numbers = all(&ran);
        let of = |name: &str| numbers.iter().find(|(known, _)| *known == name).unwrap().1;
        assert_eq!((of("relayed"), of("overhead")), (Some(9.0), Some(3.5)), "(9 - 2) / 2");
        assert_eq!((of("drops"), of("drops_room")), (Some(7.0), Some(5.0)));
        assert_eq!((of("latency_mean_s"), of("latency_median_s")), (Some(3.0), Some(3.0)));
        assert_eq!(
            (of("delivery_ratio"), of("delivery_of_created")),
            (Some(0.5), Some(2.0 / 3.0)),
            "one of the four offered was refused"
        );
    }

    #[test]
    fn slowest_relay_gives_retention() {
        let relay = |p50: f64| RetentionFacts {
            net_first_out_s: Some(RetentionTimes { p50, ..RetentionTimes::default() }),
            ..RetentionFacts::default()
        };
        let mut manifest = Manifest::new(RunWorld::Lab, "x", "", None);
        let retention = vec![relay(0.1), RetentionFacts::default(), relay(0.3)];
        manifest.phases = vec![PhaseFacts { retention, ..PhaseFacts::default() }, PhaseFacts::default()];
        let ran = Ran { manifest: &manifest, statistics: &Statistics::of(&[], &[]), offered: 4 };
        let numbers = all(&ran);
        let of = |name: &str| numbers.iter().find(|(known, _)| *known == name).unwrap().1;
        assert_eq!((of("retention_median_s"), of("retention_raw_median_s")), (Some(0.3), None));
    }

    #[test]
    fn offered_bundles_begin_before_end() {
        let scenario = |traffic: &str| {
            let text = format!(
                "name = \"x\"\nduration = \"10 s\"\n[[node]]\nname = \"a\"\nid = 1\n[[node]]\nname = \"b\"\nid = 2\n\
                 [[link]]\nname = \"l\"\nbetween = [\"a\", \"b\"]\nlayer = \"ltp\"\nrate = \"1 Mbit/s\"\n\
                 [[traffic]]\nfrom = \"a\"\nto = \"b\"\n{traffic}\n"
            );
            offered(
                &Scenario::parse(&text.replace("id = 1", "id = \"ipn:1.0\"").replace("id = 2", "id = \"ipn:2.0\""))
                    .unwrap(),
            )
        };
        assert_eq!(scenario("bundles = { count = 7, size = \"1 kB\" }"), 7);
        assert_eq!(scenario("bundles = { count = 70, size = \"1 kB\", interval = \"1 s\" }"), 10);
        assert_eq!(scenario("start = \"5500 ms\"\nbundles = { count = 70, size = \"1 kB\", interval = \"1 s\" }"), 5);
        assert_eq!(scenario("file = { size = \"25 kB\", bundle_size = \"10 kB\" }"), 3);
        assert_eq!(scenario("ping = { count = 3, interval = \"1 s\", size = \"8 B\" }"), 3);
    }

    #[test]
    fn no_delivery_has_no_latency() {
        let bundles = [bundle(3, None)];
        let manifest = Manifest::new(RunWorld::Sim, "x", "", None);
        let ran = Ran { manifest: &manifest, statistics: &Statistics::of(&bundles, &[]), offered: 4 };
        let absent: Vec<&str> = all(&ran).into_iter().filter(|(_, v)| v.is_none()).map(|(name, _)| name).collect();
        assert_eq!(
            absent,
            [
                "latency_mean_s",
                "latency_median_s",
                "overhead",
                "hops_mean",
                "goodput_bit_s",
                "retention_median_s",
                "retention_p99_s",
                "retention_raw_median_s",
                "last_delivery_s"
            ]
        );
        assert_eq!(NAMES.len(), METRICS.len());
        assert!(NAMES.iter().all(|name| metric(name).is_some()) && metric("x").is_none());
    }
}
