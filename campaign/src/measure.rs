//! Numbers of a cell: metrics of the whole run, of its phases and nodes, and distributions within it.

use crate::metrics::{METRICS, Metric, MetricScope, MetricSource};
use crate::ran::{Ran, round_trips_in};
use crate::run_samples::RunSamples;
use anyhow::{Context, Result};
use farlink_base::Duration;
use farlink_report::{
    BundleRow, Latency, Manifest, NagleReport, PhaseFacts, RoundTrip, RunReader, Spread, Statistics, percentile,
};
use farlink_scenario::{Pace, Scenario, Traffic, TrafficKind};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

// Most values kept of a distribution; finer steps are invisible in a figure.
const KEPT: usize = 2001;

/// A metric, with the phase and the node for which it is computed.
#[derive(Clone, PartialEq, Debug)]
pub struct Measured {
    /// Metric or distribution.
    pub metric: &'static Metric,
    /// Name of the phase; `None` for the whole run.
    pub phase: Option<String>,
    /// Name of the node; `None` for all nodes together.
    pub node: Option<String>,
}

impl Measured {
    /// Key of this metric's number in a cell's record.
    pub(crate) fn key(&self) -> String {
        key(self.metric.name, self.phase.as_deref(), self.node.as_deref())
    }
    /// Whether the metric is of the whole run, at all nodes.
    pub(crate) fn is_whole(&self) -> bool {
        self.phase.is_none() && self.node.is_none()
    }
    /// Whether this is a metric of a phase or node, or a distribution: not among the metrics of the whole run.
    pub fn is_narrow(&self) -> bool {
        !self.is_whole() || self.metric.is_sample()
    }
    /// Title with phase and node.
    pub fn title(&self) -> String {
        let phase = self.phase.as_ref().map_or(String::new(), |phase| format!(" in phase {phase}"));
        let node = self.node.as_ref().map_or(String::new(), |node| format!(" at {node}"));
        format!("{}{phase}{node}", self.metric.title)
    }
}

fn key(metric: &str, phase: Option<&str>, node: Option<&str>) -> String {
    match (phase, node) {
        (None, None) => metric.to_string(),
        // Names of phases and nodes contain no slash.
        _ => format!("{metric}/{}/{}", phase.unwrap_or_default(), node.unwrap_or_default()),
    }
}

/// Numbers of one run.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct CellNumbers {
    /// Metrics of the whole run by name; `None` where the run yields no value.
    pub metrics: BTreeMap<String, Option<f64>>,
    /// Metrics of phases and nodes, by metric, phase and node.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub narrowed: BTreeMap<String, f64>,
    /// Spreads of distributions and of metrics that are means of samples, by metric, phase and node.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub spreads: BTreeMap<String, Spread>,
    /// Distributions that figures of the campaign draw, by metric, phase and node.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub samples: BTreeMap<String, KeptSample>,
    /// Findings about the run, one sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<String>,
}

impl CellNumbers {
    /// Value of a metric. If the metric is a distribution, the value of its `quantile` (0 to 1).
    pub(crate) fn value(&self, measured: &Measured, quantile: f64) -> Option<f64> {
        match (measured.metric.is_sample(), measured.is_whole()) {
            (true, _) => self.samples.get(&measured.key())?.quantile(quantile),
            (false, true) => self.metrics.get(measured.metric.name).copied().flatten(),
            (false, false) => self.narrowed.get(&measured.key()).copied(),
        }
    }
    /// Whether the run has a value of a metric, of a distribution at least one.
    pub(crate) fn has_value(&self, measured: &Measured) -> bool {
        self.value(measured, 0.5).is_some() || self.spread(measured).is_some()
    }
    /// Whether the run was measured with all of these distributions, empty ones included.
    pub(crate) fn has_all(&self, samples: &[Measured]) -> bool {
        samples.iter().all(|one| self.samples.contains_key(&one.key()))
    }
    /// Spread of the samples within the run; `None` for a metric that is not computed from samples.
    pub(crate) fn spread(&self, measured: &Measured) -> Option<Spread> {
        self.spreads.get(&measured.key()).copied()
    }
}

impl From<BTreeMap<String, Option<f64>>> for CellNumbers {
    fn from(metrics: BTreeMap<String, Option<f64>>) -> CellNumbers {
        CellNumbers { metrics, ..CellNumbers::default() }
    }
}

/// Sorted values of a distribution: all of a short one, quantiles at equal steps of a longer one.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct KeptSample {
    /// Number of values in the run.
    pub count: u64,
    /// Values in ascending order.
    pub values: Vec<f64>,
}

impl KeptSample {
    /// Sorts the values and drops those that are not finite; a list longer than `KEPT` is reduced to quantiles.
    pub fn of(mut values: Vec<f64>) -> KeptSample {
        values.retain(|value| value.is_finite());
        values.sort_by(f64::total_cmp);
        let count = values.len() as u64;
        if values.len() > KEPT {
            let at = |place: usize| percentile(&values, place as f64 / (KEPT - 1) as f64);
            values = (0..KEPT).filter_map(at).collect();
        }
        KeptSample { count, values }
    }
    /// Quantile of the distribution; `None` for an empty one.
    pub fn quantile(&self, q: f64) -> Option<f64> {
        percentile(&self.values, q)
    }
}

/// Reads the run of a scenario in this folder and computes all metrics of the whole run, by name; `None` where the run
/// yields no value.
///
/// # Errors
/// When the folder holds no run, or a damaged one.
pub fn measure(scenario: &Scenario, folder: &Path) -> Result<BTreeMap<String, Option<f64>>> {
    Ok(cell_numbers(scenario, folder, &[])?.metrics)
}

/// Computes all numbers of a cell, and keeps the distributions in `samples`.
///
/// # Errors
/// When the folder holds no run, or a damaged one.
pub fn cell_numbers(scenario: &Scenario, folder: &Path, samples: &[Measured]) -> Result<CellNumbers> {
    let run = RunReader::open(folder).context("its run")?;
    let bundles = run.bundles()?;
    let round_trips = RoundTrip::read(&run, &bundles)?;
    let nagle = NagleReport::read(&run, &round_trips);
    let read = RunNumbers {
        manifest: run.manifest(),
        statistics: Statistics::with(&run, &bundles, &round_trips)?,
        bundles,
        round_trips,
        samples: RunSamples::read(&run)?,
        offered: offered_in(run.manifest()).unwrap_or_else(|| offered(scenario)),
    };
    let mut found = read.all(samples);
    found.findings.extend(run.manifest().validity.unmeasured.iter().map(|text| format!("not measured: {text}")));
    found.findings.extend(nagle.and_then(|nagle| nagle.finding()));
    Ok(found)
}

/// Tables of one run, read from its folder.
struct RunNumbers<'a> {
    manifest: &'a Manifest,
    statistics: Statistics,
    bundles: Vec<BundleRow>,
    round_trips: Vec<RoundTrip>,
    samples: RunSamples,
    offered: u64,
}

impl RunNumbers<'_> {
    fn all(&self, samples: &[Measured]) -> CellNumbers {
        let mut found = CellNumbers::default();
        self.narrowed(None, &mut |ran| {
            for metric in METRICS.iter().filter(|_| ran.node.is_none()) {
                found.metrics.insert(metric.name.to_string(), metric.value(ran));
            }
            found.add(ran, samples);
        });
        // If several phases have one name, `add` keeps the numbers of the first.
        for phase in &self.manifest.phases {
            self.narrowed(Some(phase), &mut |ran| found.add(ran, samples));
        }
        // A distribution of a phase or node that the run lacks is stored as empty; an absent one was not measured.
        for one in samples {
            found.samples.entry(one.key()).or_default();
        }
        found
    }

    /// Calls `each` with the results of a phase, or of the whole run if `phase` is `None`: first for all nodes
    /// together, then for each node.
    fn narrowed(&self, phase: Option<&PhaseFacts>, each: &mut dyn FnMut(&Ran<'_>)) {
        let bundles: Vec<BundleRow>;
        let statistics: Statistics;
        let round_trips = round_trips_in(&self.round_trips, phase);
        let (of, all) = match phase {
            None => (&self.statistics, &self.bundles),
            Some(phase) => {
                bundles = self.bundles.iter().filter(|bundle| phase.holds(bundle.created_ns)).cloned().collect();
                let round_trip_s = Latency::of(round_trips.clone());
                statistics = Statistics { round_trip_s, ..Statistics::of(&bundles, &[]) };
                (&statistics, &bundles)
            }
        };
        let nodes = std::iter::once(None).chain(nodes(self.manifest).into_iter().map(Some));
        for node in nodes {
            each(&Ran {
                manifest: self.manifest,
                statistics: of,
                bundles: all,
                round_trips: &round_trips,
                samples: &self.samples,
                offered: self.offered,
                phase,
                node,
            });
        }
    }
}

impl CellNumbers {
    /// Adds numbers of one phase and node, or of the whole run: spreads, distributions in `samples`, and metrics.
    /// Metrics of the whole run are added elsewhere.
    fn add(&mut self, ran: &Ran<'_>, samples: &[Measured]) {
        let (phase, node) = (ran.phase.map(|phase| phase.name.as_str()), ran.node);
        let is_whole = phase.is_none() && node.is_none();
        let fits = |metric: &&Metric| match metric.scope {
            MetricScope::Run => is_whole,
            MetricScope::Phase => node.is_none(),
            MetricScope::Node => true,
        };
        for metric in METRICS.iter().filter(fits) {
            let key = key(metric.name, phase, node);
            if let MetricSource::Spread(of) = metric.of
                && let Some(spread) = of(ran)
            {
                self.spreads.entry(key.clone()).or_insert(spread);
            }
            if let Some(value) = metric.value(ran).filter(|_| !is_whole) {
                self.narrowed.entry(key).or_insert(value);
            }
        }
        let here = |one: &&Measured| one.phase.as_deref() == phase && one.node.as_deref() == node;
        for one in samples.iter().filter(here) {
            // If several phases have one name, the first counts.
            if let MetricSource::Sample(of) = one.metric.of
                && !self.samples.contains_key(&one.key())
            {
                let mut values = of(ran);
                values.retain(|value| value.is_finite());
                // The spread is computed from all values: among the quantiles kept, a single extreme value would count
                // as many.
                self.spreads.extend(Spread::of(values.clone()).map(|spread| (one.key(), spread)));
                self.samples.insert(one.key(), KeptSample::of(values));
            }
        }
    }
}

/// Names of the nodes for which the run has retention times or resource use.
fn nodes(manifest: &Manifest) -> BTreeSet<&str> {
    let relays = manifest.phases.iter().flat_map(|phase| &phase.retention).map(|relay| relay.relay.as_str());
    let roles = manifest.phases.iter().flat_map(|phase| &phase.roles).chain(&manifest.roles);
    relays.chain(roles.filter_map(|used| used.node.as_deref())).collect()
}

/// Number of bundles that applications wanted to send, as a simulation counted them.
fn offered_in(manifest: &Manifest) -> Option<u64> {
    let traffic = &manifest.topology.traffic;
    traffic.iter().map(|facts| facts.offered).sum::<Option<u64>>().filter(|_| !traffic.is_empty())
}

/// Number of bundles that applications try to send before the end, by the scenario's traffic.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::metric;
    use farlink_report::{LinkUse, RunWorld, TrafficFacts};

    fn bundle(hops: u64, created_s: u64, latency_s: Option<u64>) -> BundleRow {
        let ns = |s: u64| s * 1_000_000_000;
        BundleRow {
            source: "a".into(),
            service: 1,
            creation_ms: 0,
            sequence: hops,
            destination: "b".into(),
            destination_service: 1,
            payload: 1000,
            size: 1040,
            priority: "normal".into(),
            created_ns: ns(created_s),
            delivered_ns: latency_s.map(|latency| ns(created_s + latency)),
            latency_ns: latency_s.map(ns),
            hops,
            transmissions: hops + 3,
            deliveries: u64::from(latency_s.is_some()),
            deleted: None,
            traffic: None,
        }
    }

    fn numbers_of(manifest: &Manifest, bundles: Vec<BundleRow>, samples: &[Measured]) -> CellNumbers {
        let statistics = Statistics::of(&bundles, &[]);
        let (round_trips, run_samples) = (RoundTrip::pairs(&bundles), RunSamples::default());
        RunNumbers { manifest, statistics, bundles, round_trips, samples: run_samples, offered: 4 }.all(samples)
    }

    #[test]
    fn overhead_matches_hand_computation() {
        let bundles = vec![bundle(4, 0, Some(2)), bundle(2, 0, Some(4)), bundle(3, 0, None)];
        let mut manifest = Manifest::new(RunWorld::Sim, "x", "", None);
        manifest.given_up = [("depleted_storage".to_string(), 5), ("expired".to_string(), 2)].into();
        // Two of three bundles delivered, and nine copies received in all.
        let numbers = numbers_of(&manifest, bundles, &[]);
        let of = |name: &str| numbers.metrics[name];
        assert_eq!((of("relayed"), of("overhead")), (Some(9.0), Some(3.5)), "(9 - 2) / 2");
        assert_eq!((of("drops"), of("drops_room")), (Some(7.0), Some(5.0)));
        assert_eq!((of("latency_mean_s"), of("latency_median_s")), (Some(3.0), Some(3.0)));
        assert_eq!(
            (of("delivery_ratio"), of("delivery_of_created")),
            (Some(0.5), Some(2.0 / 3.0)),
            "one of the four offered was refused"
        );
        assert!(numbers.narrowed.is_empty() && numbers.spreads.is_empty() && numbers.samples.is_empty());
    }

    #[test]
    fn answered_pings_give_ratio_of_one() {
        let ping = |sequence| BundleRow { traffic: Some("p".into()), ..bundle(sequence, 0, Some(1)) };
        let answer = |sequence| BundleRow { source: "b".into(), destination: "a".into(), ..ping(sequence) };
        let mut manifest = Manifest::new(RunWorld::Sim, "x", "", None);
        let (name, from, to) = ("p".into(), "a".into(), "b".into());
        manifest.topology.traffic =
            vec![TrafficFacts { name, from, to, service: 2, sender_service: 1, senders: None, offered: None }];
        // Four pings were offered; the last was delivered and not answered.
        let bundles: Vec<BundleRow> = (1..=4).map(ping).chain((1..=3).map(answer)).collect();
        let numbers = numbers_of(&manifest, bundles.clone(), &[]);
        assert_eq!((numbers.metrics["delivery_ratio"], numbers.metrics["delivered"]), (Some(1.0), Some(7.0)));
        let numbers = numbers_of(&manifest, bundles[3..].to_vec(), &[]);
        assert_eq!(numbers.metrics["delivery_ratio"], Some(0.25));
    }

    #[test]
    fn sent_bytes_are_of_all_links() {
        let manifest = Manifest::new(RunWorld::Sim, "x", "", None);
        let [link, from, to] = ["l", "a", "b"].map(String::from);
        let one = LinkUse { link, from, to, sent_bytes: 9000, sent_packets: 6, loss: None, utilisation: None };
        let links = vec![LinkUse { sent_bytes: 500, ..one.clone() }, one];
        let statistics = Statistics { links, ..Statistics::default() };
        let (bundles, round_trips, samples) = (Vec::new(), Vec::new(), RunSamples::default());
        let run = RunNumbers { manifest: &manifest, statistics, bundles, round_trips, samples, offered: 0 };
        assert_eq!(run.all(&[]).metrics["sent_bytes"], Some(9500.0));
    }

    #[test]
    fn phases_have_numbers_of_their_own() {
        let manifest = crate::ran::tests::manifest();
        let bundles = vec![bundle(1, 1, Some(1)), bundle(1, 3, Some(2)), bundle(1, 4, Some(5)), bundle(1, 7, None)];
        let narrow = |name: &str, phase: Option<&str>| Measured {
            metric: metric(name).unwrap(),
            phase: phase.map(String::from),
            node: None,
        };
        let wanted = [narrow("latency_s", Some("load")), narrow("latency_s", None), narrow("rtt_s", Some("nothing"))];
        let numbers = numbers_of(&manifest, bundles, &wanted);
        let of = |key: &str| numbers.narrowed.get(key).copied();
        assert_eq!((of("created/load/"), of("latency_mean_s/load/")), (Some(3.0), Some(3.5)));
        // Deliveries at 5 and 9 s: 1000 B in 4 s, of a baseline of 100 bit/s.
        assert_eq!((of("goodput_received_bit_s/load/"), of("goodput_of_baseline/load/")), (Some(2000.0), Some(20.0)));
        assert_eq!((of("baseline_bit_s/before/"), of("baseline_bit_s/load/")), (Some(100.0), None));
        assert_eq!(numbers.metrics["baseline_bit_s"], Some(100.0));
        assert_eq!((of("cpu_percent_implementation/load/b"), of("relayed/load/")), (Some(5.0), None));
        assert_eq!(numbers.spreads["cpu_percent_application/load/a"].sd, 15.0);
        assert_eq!(numbers.samples["latency_s/load/"], KeptSample { count: 2, values: vec![2.0, 5.0] });
        assert_eq!(numbers.samples["latency_s"].values, [1.0, 2.0, 5.0]);
        assert_eq!(numbers.samples["rtt_s/nothing/"], KeptSample::default(), "the run lacks the phase");
        assert!(numbers.has_all(&wanted) && !numbers.has_all(&[narrow("latency_s", Some("before"))]));
    }

    #[test]
    fn far_value_of_long_distribution_weighs_once() {
        // 10,000 latencies of 1 s, and one of 10,000 s: mean 2 s, deviation 99.985 s.
        let latencies = (0..10_000).map(|_| 1).chain([10_000]);
        let bundles = latencies.map(|latency| bundle(1, 0, Some(latency))).collect();
        let wanted = [Measured { metric: metric("latency_s").unwrap(), phase: None, node: None }];
        let spread = numbers_of(&Manifest::new(RunWorld::Sim, "x", "", None), bundles, &wanted).spread(&wanted[0]);
        let spread = spread.unwrap();
        assert!((spread.mean - 20_000.0 / 10_001.0).abs() < 1e-9 && (spread.sd - 99.985).abs() < 1e-3, "{spread:?}");
        assert_eq!((spread.samples, spread.p75), (10_001, 1.0));
    }

    #[test]
    fn metrics_of_run_cover_all_nodes() {
        let mut manifest = crate::ran::tests::manifest();
        manifest.roles = manifest.phases[1].roles.clone();
        let numbers = numbers_of(&manifest, Vec::new(), &[]);
        let peak = "memory_peak_implementation_bytes";
        let narrowed = ["//a", "//b", "/load/", "/load/a"].map(|at| numbers.narrowed[&format!("{peak}{at}")]);
        assert_eq!((numbers.metrics[peak], narrowed), (Some(3000.0), [1000.0, 3000.0, 3000.0, 1000.0]));
        assert_eq!(numbers.metrics["cpu_percent_implementation"], Some(20.0));
        assert_eq!(numbers.spreads["cpu_percent_implementation"].mean, 20.0);
    }

    #[test]
    fn long_distribution_is_kept_as_quantiles() {
        let short = KeptSample::of(vec![3.0, 1.0, f64::NAN, 2.0]);
        assert_eq!((short.count, &short.values[..], short.quantile(0.25)), (3, &[1.0, 2.0, 3.0][..], Some(1.5)));
        let long = KeptSample::of((0..100_001).rev().map(f64::from).collect());
        assert_eq!((long.count, long.values.len()), (100_001, KEPT));
        assert_eq!([0.0, 0.5, 0.9, 1.0].map(|q| long.quantile(q).unwrap()), [0.0, 50_000.0, 90_000.0, 100_000.0]);
        assert_eq!(KeptSample::default().quantile(0.5), None);
    }

    #[test]
    fn offered_bundles_begin_before_end() {
        let scenario = |traffic: &str| {
            let text = format!(
                "name = \"x\"\nduration = \"10 s\"\n[[node]]\nname = \"a\"\nid = \"ipn:1.0\"\n\
                 [[node]]\nname = \"b\"\nid = \"ipn:2.0\"\n\
                 [[link]]\nname = \"l\"\nbetween = [\"a\", \"b\"]\nlayer = \"ltp\"\nrate = \"1 Mbit/s\"\n\
                 [[traffic]]\nfrom = \"a\"\nto = \"b\"\n{traffic}\n"
            );
            offered(&Scenario::parse(&text).unwrap())
        };
        assert_eq!(scenario("bundles = { count = 7, size = \"1 kB\" }"), 7);
        assert_eq!(scenario("bundles = { count = 70, size = \"1 kB\", interval = \"1 s\" }"), 10);
        assert_eq!(scenario("start = \"5500 ms\"\nbundles = { count = 70, size = \"1 kB\", interval = \"1 s\" }"), 5);
        assert_eq!(scenario("file = { size = \"25 kB\", bundle_size = \"10 kB\" }"), 3);
        assert_eq!(scenario("ping = { count = 3, interval = \"1 s\", size = \"8 B\" }"), 3);
    }

    #[test]
    fn no_delivery_has_no_latency() {
        let manifest = Manifest::new(RunWorld::Sim, "x", "", None);
        let numbers = numbers_of(&manifest, vec![bundle(3, 0, None)], &[]);
        let present: Vec<&str> = numbers.metrics.iter().filter(|(_, v)| v.is_some()).map(|(name, _)| &**name).collect();
        let expected = [
            "created",
            "delivered",
            "delivery_of_created",
            "delivery_ratio",
            "drops",
            "drops_room",
            "offered",
            "relayed",
        ];
        assert_eq!(present, expected);
        assert_eq!(numbers.metrics.len(), METRICS.len());
    }
}
