//! Results of one run, as a whole or narrowed to a phase and a node: input of the metrics.

use crate::run_samples::RunSamples;
use farlink_report::{
    BundleRow, Manifest, PhaseFacts, RetentionFacts, RoleUse, RoundTrip, Spread, Statistics, TrafficFacts,
};
use std::collections::BTreeMap;

/// Results of one run, narrowed to a phase and a node.
pub(crate) struct Ran<'a> {
    pub manifest: &'a Manifest,
    /// Statistics of the bundles created in the phase, or in the whole run if `phase` is `None`.
    pub statistics: &'a Statistics,
    /// Bundles created in the phase, or in the whole run if `phase` is `None`.
    pub bundles: &'a [BundleRow],
    /// Round-trip times in s of pings sent in the phase, or in the whole run if `phase` is `None`.
    pub round_trips: &'a [f64],
    pub samples: &'a RunSamples,
    /// Bundles that applications tried to send before the end.
    pub offered: u64,
    pub phase: Option<&'a PhaseFacts>,
    pub node: Option<&'a str>,
}

/// Mean retention at one relay and its parts, in s.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct MeanRetention {
    /// Mean retention time, less that of the zero-work relay.
    pub net: f64,
    /// Mean time from the first byte that leaves the relay to the last.
    pub leaving: Option<f64>,
    pub parse: Option<f64>,
    pub make: Option<f64>,
}

impl MeanRetention {
    /// Mean time until the last byte leaves the relay, less the time of the zero-work relay.
    pub fn until_last(&self) -> Option<f64> {
        Some(self.net + self.leaving?)
    }

    /// Part of the net time that the relay spends neither parsing nor encoding bundles; `None` if either time is
    /// unknown.
    pub fn other(&self) -> Option<f64> {
        Some(self.net - self.parse? - self.make?)
    }
}

impl Ran<'_> {
    fn phases(&self) -> &[PhaseFacts] {
        self.phase.map_or(&self.manifest.phases, std::slice::from_ref)
    }

    fn is_here(&self, node: Option<&str>) -> bool {
        self.node.is_none_or(|wanted| node == Some(wanted))
    }

    fn roles(&self, role: &str) -> impl Iterator<Item = &RoleUse> {
        let roles = self.phase.map_or(&self.manifest.roles, |phase| &phase.roles);
        roles.iter().filter(move |used| used.role == role && self.is_here(used.node.as_deref()))
    }

    /// Largest value of `of` for a role, over the nodes.
    pub fn most(&self, role: &str, of: fn(&RoleUse) -> u64) -> Option<f64> {
        self.roles(role).map(of).max().map(|most| most as f64)
    }

    /// Processor use of a role at the node where its mean is largest.
    pub fn busiest(&self, role: &str) -> Option<Spread> {
        most_by_mean(self.roles(role).filter_map(|used| used.cpu_percent))
    }

    /// Processor use of all roles together at the node where its mean is largest.
    pub fn processor_use(&self) -> Option<Spread> {
        most_by_mean(self.samples.processor_use(self.phase, self.node).into_iter().filter_map(Spread::of))
    }

    fn relays(&self) -> impl Iterator<Item = (&PhaseFacts, &RetentionFacts)> {
        let all = self.phases().iter().flat_map(|phase| phase.retention.iter().map(move |relay| (phase, relay)));
        all.filter(|(_, relay)| self.is_here(Some(&relay.relay)))
    }

    /// Largest value of `of` over relays and phases.
    pub fn longest(&self, of: fn(&RetentionFacts) -> Option<f64>) -> Option<f64> {
        self.relays().filter_map(|(_, relay)| of(relay)).max_by(f64::total_cmp)
    }

    /// Mean retention time, and its parts, of the relay with the longest mean.
    pub fn retention(&self) -> Option<MeanRetention> {
        let of = |(phase, relay): (&PhaseFacts, &RetentionFacts)| {
            let mean = |metric| mean(&self.samples.retention(metric, Some(phase), Some(&relay.relay)));
            // The zero-work relay's time is subtracted from every bundle's. So the difference of the raw and the net
            // median is also that of the means.
            let floor = relay.first_out_s?.p50 - relay.net_first_out_s?.p50;
            let [raw, last, parse, make] = RunSamples::RETENTION.map(mean);
            Some(MeanRetention { net: raw? - floor, leaving: last.zip(raw).map(|(last, raw)| last - raw), parse, make })
        };
        self.relays().filter_map(of).max_by(|a, b| a.net.total_cmp(&b.net))
    }

    /// Retention times of all bundles at relays, in s.
    pub fn retention_times(&self) -> Vec<f64> {
        self.samples.retention(RunSamples::RETENTION[0], self.phase, self.node)
    }

    /// Delivered bundles among those that the scenario's traffic offers. Answers to pings carry the name of their
    /// traffic, too, and nobody offered them.
    pub fn delivered_of_offered(&self) -> u64 {
        let traffic: BTreeMap<&str, &TrafficFacts> =
            self.manifest.topology.traffic.iter().map(|facts| (facts.name.as_str(), facts)).collect();
        let answers = |bundle: &BundleRow| {
            let facts = bundle.traffic.as_deref().and_then(|name| traffic.get(name));
            facts.is_some_and(|facts| facts.is_answer(bundle))
        };
        self.bundles.iter().filter(|bundle| bundle.delivered_ns.is_some() && !answers(bundle)).count() as u64
    }

    /// Latencies of delivered bundles, in s.
    pub fn latencies(&self) -> Vec<f64> {
        self.bundles.iter().filter_map(|bundle| bundle.latency_ns).map(|ns| ns as f64 / 1e9).collect()
    }

    /// Rate of plain TCP through the slowest link, in bit/s: in the phase, or in any phase if `phase` is `None`.
    pub fn baseline(&self) -> Option<f64> {
        slowest(self.phases())
    }

    /// Rate of plain TCP through the slowest link in any phase of the run, in bit/s.
    pub fn baseline_of_run(&self) -> Option<f64> {
        slowest(&self.manifest.phases)
    }
}

/// Round-trip times of pings sent in a phase, in s.
pub(crate) fn round_trips_in(all: &[RoundTrip], phase: Option<&PhaseFacts>) -> Vec<f64> {
    let here = all.iter().filter(|trip| phase.is_none_or(|phase| phase.holds(trip.sent_ns)));
    here.map(|trip| trip.seconds).collect()
}

fn most_by_mean(spreads: impl Iterator<Item = Spread>) -> Option<Spread> {
    spreads.max_by(|a, b| a.mean.total_cmp(&b.mean))
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Mean rate of a link's TCP flows in bit/s, for the link with the lowest mean.
fn slowest(phases: &[PhaseFacts]) -> Option<f64> {
    let flows: Vec<_> =
        phases.iter().flat_map(|phase| &phase.baseline).filter(|flow| flow.transport == "tcp").collect();
    let rate = |link: &str| {
        // A flow of which nothing arrived counts as 0 bit/s.
        let rates: Vec<f64> = flows.iter().filter(|flow| flow.link == link).map(|f| f.bit_s.unwrap_or(0.0)).collect();
        mean(&rates)
    };
    flows.iter().filter_map(|flow| rate(&flow.link)).min_by(f64::total_cmp)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use farlink_report::{BaselineFlow, RetentionTimes, RunWorld, SampleRow};

    /// A run of the testbed with a baseline and a load phase at two nodes.
    pub fn manifest() -> Manifest {
        let used = |node: &str, role: &str, mean: f64, peak: u64| RoleUse {
            node: Some(node.into()),
            role: role.into(),
            cpu_percent: Some(Spread { mean, sd: mean / 2.0, p25: 0.0, p50: mean, p75: mean, samples: 9 }),
            memory_peak_bytes: peak,
            shared_peak_bytes: peak / 10,
            ..RoleUse::default()
        };
        let flow = |link: &str, transport: &str, bit_s| BaselineFlow {
            link: link.into(),
            transport: transport.into(),
            bit_s,
            ..BaselineFlow::default()
        };
        let mut manifest = Manifest::new(RunWorld::Lab, "x", "", None);
        let baseline = vec![
            flow("l", "tcp", Some(90.0)),
            flow("l", "udp", Some(1.0)),
            flow("l", "tcp", Some(110.0)),
            flow("m", "tcp", Some(300.0)),
        ];
        let kind = |name: &str| name.to_string();
        manifest.phases = vec![
            PhaseFacts {
                name: "before".into(),
                kind: kind("baseline"),
                start_s: 0.0,
                end_s: 2.0,
                baseline,
                ..PhaseFacts::default()
            },
            PhaseFacts {
                name: "load".into(),
                kind: kind("load"),
                start_s: 2.0,
                end_s: 8.0,
                roles: vec![
                    used("a", "implementation", 20.0, 1000),
                    used("b", "implementation", 5.0, 3000),
                    used("a", "application", 30.0, 500),
                ],
                ..PhaseFacts::default()
            },
        ];
        manifest
    }

    /// Narrows a run without bundles and samples.
    pub fn with<T>(manifest: &Manifest, phase: Option<usize>, node: Option<&str>, of: impl FnOnce(&Ran<'_>) -> T) -> T {
        of(&Ran {
            manifest,
            statistics: &Statistics::default(),
            bundles: &[],
            round_trips: &[],
            samples: &RunSamples::default(),
            offered: 0,
            phase: phase.map(|phase| &manifest.phases[phase]),
            node,
        })
    }

    #[test]
    fn baseline_is_that_of_slowest_link() {
        let manifest = manifest();
        let rates = [None, Some(0), Some(1)].map(|phase| with(&manifest, phase, None, |ran| ran.baseline()));
        assert_eq!(rates, [Some(100.0), Some(100.0), None]);
        assert_eq!(with(&manifest, Some(1), None, |ran| ran.baseline_of_run()), Some(100.0));
    }

    #[test]
    fn node_narrows_roles() {
        let manifest = manifest();
        let peak =
            |node| with(&manifest, Some(1), node, |ran| ran.most("implementation", |used| used.memory_peak_bytes));
        assert_eq!([None, Some("a"), Some("c")].map(peak), [Some(3000.0), Some(1000.0), None]);
        let busy = |node| with(&manifest, Some(1), node, |ran| ran.busiest("implementation").map(|spread| spread.mean));
        assert_eq!([None, Some("b")].map(busy), [Some(20.0), Some(5.0)]);
        assert_eq!(with(&manifest, None, None, |ran| ran.busiest("implementation")), None, "no use of the whole run");
    }

    #[test]
    fn retention_has_time_to_first_and_last_byte() {
        let times = |p50| Some(RetentionTimes { p50, ..RetentionTimes::default() });
        let relay = RetentionFacts {
            relay: "r".into(),
            first_out_s: times(0.5),
            net_first_out_s: times(0.4),
            ..RetentionFacts::default()
        };
        let mut manifest = manifest();
        manifest.phases[1].retention = vec![relay];
        let mut samples = RunSamples::default();
        let [first_out, last_out, ..] = RunSamples::RETENTION;
        for (metric, value) in [(first_out, 0.5), (last_out, 0.75), (first_out, 1.0), (last_out, 1.75)] {
            let (node, metric) = (Some("r".into()), metric.into());
            samples.note(SampleRow { time_ns: 3_000_000_000, node, link: None, metric, value, phase: None });
        }
        let found = with(&manifest, Some(1), None, |ran| Ran { samples: &samples, ..*ran }.retention()).unwrap();
        assert!((found.net - 0.65).abs() < 1e-9, "{found:?}");
        assert_eq!(found.leaving, Some(0.5));
        assert!((found.until_last().unwrap() - 1.15).abs() < 1e-9, "{found:?}");
        assert_eq!(found.other(), None, "no probe gave parts");
    }

    #[test]
    fn slowest_relay_gives_retention() {
        let relay = |name: &str, p50: f64| RetentionFacts {
            relay: name.into(),
            net_first_out_s: Some(RetentionTimes { p50, ..RetentionTimes::default() }),
            ..RetentionFacts::default()
        };
        let mut manifest = Manifest::new(RunWorld::Lab, "x", "", None);
        let retention = vec![relay("r", 0.1), RetentionFacts::default(), relay("s", 0.3)];
        manifest.phases = vec![PhaseFacts { retention, ..PhaseFacts::default() }, PhaseFacts::default()];
        let median =
            |node| with(&manifest, None, node, |ran| ran.longest(|relay| relay.net_first_out_s.map(|times| times.p50)));
        assert_eq!([None, Some("r"), Some("t")].map(median), [Some(0.3), Some(0.1), None]);
    }
}
