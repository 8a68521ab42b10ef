//! Comparison of runs: every metric of each run, and its relative difference from the first run.

use crate::custody::CustodyUse;
use crate::format::{Quantity, difference};
use crate::manifest::Manifest;
use crate::order::same_order;
use crate::retention::RetentionFacts;
use crate::statistics::{FlowUse, Statistics};
use serde::Serialize;
use std::collections::BTreeMap;

// Largest relative difference that still counts as agreement.
const CLOSE: f64 = 0.1;

/// Identity of one run in a comparison.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct RunLabel {
    /// Path of the run directory.
    pub run: String,
    /// World, followed by the fidelity unless that is full: `sim`, `lab`, `sim, message`.
    pub world: String,
    /// Name of the scenario.
    pub scenario: String,
    /// Hash of the scenario and contact plan texts, 16 hex digits.
    pub scenario_hash: String,
    /// Seed of the run.
    pub seed: u64,
    /// Whether the run reached its end.
    pub finished: bool,
    /// Disturbances that make the run less trustworthy, one sentence each.
    pub disturbances: Vec<String>,
}

/// One metric across all runs.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ComparedMetric {
    /// Name in JSON, such as `latency_s.mean`.
    pub name: String,
    /// Label shown to people.
    #[serde(skip)]
    pub title: String,
    /// Unit; empty for ratios and counts.
    pub unit: String,
    /// Kind of quantity, which selects unit and number format.
    #[serde(skip)]
    pub quantity: Quantity,
    /// Value of each run; absent where the run has none.
    pub values: Vec<Option<f64>>,
    /// Relative difference of each run from the first: 0.05 is 5 % more. Absent where a value is missing, or where the
    /// first run's is 0 and this one's is not.
    pub difference: Vec<Option<f64>>,
    /// Whether all differences are within 10 %; absent if a run lacks the value or there is only one run.
    pub within_10_percent: Option<bool>,
}

/// Metrics of several runs side by side.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Comparison {
    /// Runs in the order given; the first is the reference.
    pub runs: Vec<RunLabel>,
    /// Whether all runs have the same scenario and contact plan, by their hashes.
    pub same_scenario: bool,
    /// Metrics in the order of the report.
    pub metrics: Vec<ComparedMetric>,
}

impl ComparedMetric {
    /// Whether a run differs from the first by more than 10 %, and the metric is not the utilisation of an idle link.
    pub fn notable(&self) -> bool {
        self.within_10_percent == Some(false) && self.excuse().is_none()
    }
    /// Reason to ignore a difference; present only for the utilisation of a link that is almost idle in all runs.
    fn excuse(&self) -> Option<&'static str> {
        // A relative difference between two tiny utilisations carries no information.
        let idle = self.name.starts_with("utilisation.") && self.values.iter().flatten().all(|v| *v < 0.01);
        idle.then_some("idle: utilisation below 1 %")
    }
    /// Remark about the differences: that one exceeds 10 %, why it does not matter, or which values are missing. Empty
    /// if all are within 10 %, and for a single run.
    pub fn remark(&self) -> &'static str {
        let there = self.values.iter().flatten().count();
        match (self.within_10_percent, self.excuse()) {
            (Some(true), _) => "",
            (Some(false), Some(why)) => why,
            (Some(false), None) => "more than 10 %",
            (None, _) if there == 0 => "in no run",
            (None, _) if there < self.values.len() => "not in all runs",
            (None, _) => "",
        }
    }
}

impl Comparison {
    /// Compares runs, each given by its directory, manifest and statistics.
    pub fn of(runs: &[(String, &Manifest, &Statistics)]) -> Comparison {
        let labels = runs.iter().map(|(run, manifest, _)| RunLabel {
            run: run.clone(),
            // Full fidelity is the default and is not mentioned.
            world: match manifest.fidelity.as_deref() {
                None | Some("full") => manifest.world.name().to_string(),
                Some(part) => format!("{}, {part}", manifest.world.name()),
            },
            scenario: manifest.scenario.clone(),
            scenario_hash: manifest.scenario_hash.clone(),
            seed: manifest.seed,
            finished: manifest.finished,
            disturbances: manifest.validity.disturbances.clone(),
        });
        let statistics: Vec<&Statistics> = runs.iter().map(|(_, _, s)| *s).collect();
        Comparison {
            runs: labels.collect(),
            same_scenario: runs.windows(2).all(|w| w[0].1.scenario_hash == w[1].1.scenario_hash),
            metrics: metrics(&statistics),
        }
    }

    /// Looks up a metric by its JSON name.
    pub fn metric(&self, name: &str) -> Option<&ComparedMetric> {
        self.metrics.iter().find(|m| m.name == name)
    }

    /// Converts to one JSON document: the runs, and the metrics by name.
    pub fn to_json(&self) -> serde_json::Value {
        let metrics: BTreeMap<&str, &ComparedMetric> = self.metrics.iter().map(|m| (m.name.as_str(), m)).collect();
        serde_json::json!({ "runs": self.runs, "same_scenario": self.same_scenario, "metrics": metrics })
    }

    /// Formats the comparison as a table for a terminal, with notes on different scenarios and unfinished runs.
    pub fn to_text(&self) -> String {
        // The header starts with an empty cell above the labels.
        let mut rows = vec![vec![String::new()]];
        for run in &self.runs {
            rows[0].push(format!("{} ({})", run.run, run.world));
        }
        rows[0].push("difference".into());
        for metric in &self.metrics {
            let mut row = vec![metric.title.clone()];
            row.extend(metric.values.iter().map(|v| v.map_or("-".into(), |v| metric.quantity.text(v))));
            let differences: Vec<String> =
                // The first run is the reference and has no column of differences.
                metric.difference[1..].iter().map(|d| d.map_or("-".into(), difference)).collect();
            row.push(format!("{}  {}", differences.join(", "), metric.remark()));
            rows.push(row);
        }
        let mut text = align(&rows);
        if !self.same_scenario {
            text.push_str("\nThese runs have different scenarios.\n");
        }
        for run in &self.runs {
            if !run.finished {
                text.push_str(&format!("\n{} was interrupted: its numbers cover only part of the run.\n", run.run));
            }
            if !run.disturbances.is_empty() {
                text.push_str(&format!("\n{} was disturbed:\n  {}\n", run.run, run.disturbances.join("\n  ")));
            }
        }
        text
    }
}

/// Pads columns to equal width: the first and the last are aligned left, the others right.
fn align(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |c: usize| rows.iter().filter_map(|r| r.get(c)).map(|t| t.chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (c, cell) in row.iter().enumerate() {
            let pad = " ".repeat(widths[c] - cell.chars().count());
            // The last column holds differences with a remark, which reads as text.
            let left = c == 0 || c + 1 == columns;
            line.push_str(&if left { format!("{cell}{pad}") } else { format!("{pad}{cell}") });
            line.push_str("  ");
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// JSON name, label, quantity and getter of a metric.
type Definition = (&'static str, &'static str, Quantity, fn(&Statistics) -> Option<f64>);

const METRICS: &[Definition] = &[
    ("created", "bundles created", Quantity::Count, |s| Some(s.created as f64)),
    ("delivered", "bundles delivered", Quantity::Count, |s| Some(s.delivered as f64)),
    ("delivery_ratio", "delivery ratio", Quantity::Share, |s| s.delivery_ratio),
    ("latency_s.mean", "mean latency", Quantity::Seconds, |s| Some(s.latency_s?.mean)),
    ("latency_s.p50", "median latency (p50)", Quantity::Seconds, |s| Some(s.latency_s?.p50)),
    ("latency_s.p95", "95th percentile latency (p95)", Quantity::Seconds, |s| Some(s.latency_s?.p95)),
    ("latency_s.p99", "99th percentile latency (p99)", Quantity::Seconds, |s| Some(s.latency_s?.p99)),
    ("goodput_bit_s", "goodput", Quantity::Rate, |s| s.goodput_bit_s),
    ("overhead", "link bytes sent per byte delivered", Quantity::Ratio, |s| s.overhead),
    ("overhead_ratio", "overhead ratio (extra transfers per delivery)", Quantity::Ratio, |s| s.overhead_ratio),
    ("hops_mean", "arrivals at nodes per delivered bundle", Quantity::Ratio, |s| s.hops_mean),
    ("last_delivery_s", "time of the last delivery", Quantity::Seconds, |s| s.last_delivery_s),
    ("redelivered", "bundles delivered more than once", Quantity::Count, |s| Some(s.redelivered as f64)),
];

fn metrics(runs: &[&Statistics]) -> Vec<ComparedMetric> {
    let mut metrics: Vec<ComparedMetric> = Vec::new();
    for (name, title, quantity, get) in METRICS {
        metrics.push(metric(name, title, *quantity, runs.iter().map(|s| get(s)).collect()));
    }
    if runs.iter().any(|s| s.refused.is_some_and(|count| count > 0)) {
        let refused = runs.iter().map(|s| s.refused.map(|count| count as f64)).collect();
        metrics.push(metric("refused", "bundles that the sender's node did not accept", Quantity::Count, refused));
    }
    // Runs without custody would only add rows of zeros.
    if runs.iter().any(|s| s.custody.is_some()) {
        for (name, title, get) in CUSTODY_METRICS {
            let values = runs.iter().map(|s| s.custody.as_ref().map(|custody| get(custody) as f64)).collect();
            metrics.push(metric(name, title, Quantity::Count, values));
        }
    }
    flows(runs, &mut metrics);
    retention(runs, &mut metrics);
    // A single run has nothing to be compared with.
    if runs.len() > 1 {
        let order = runs.iter().map(|s| same_order(&runs[0].order, &s.order)).collect();
        metrics.push(metric("order", "bundle pairs delivered in the order of the first run", Quantity::Share, order));
    }
    // Links are matched by name and sending node; a link may be missing from some runs.
    let mut links: Vec<(&str, &str)> = Vec::new();
    for link in runs.iter().flat_map(|s| &s.links) {
        let place = (link.link.as_str(), link.from.as_str());
        // Order of first appearance, which follows the scenario.
        if !links.contains(&place) {
            links.push(place);
        }
    }
    for (link, from) in links {
        let value = |s: &&Statistics| s.links.iter().find(|l| l.link == link && l.from == from)?.utilisation;
        let name = format!("utilisation.{link}.{from}");
        let title = format!("utilisation of link {link} from {from}");
        metrics.push(metric(&name, &title, Quantity::Share, runs.iter().map(value).collect()));
    }
    metrics
}

/// JSON name, label and getter of a custody counter.
type CustodyDefinition = (&'static str, &'static str, fn(&CustodyUse) -> u64);

const CUSTODY_METRICS: &[CustodyDefinition] = &[
    ("custody.taken", "custody accepted", |c| c.taken),
    ("custody.released", "custody released", |c| c.released),
    ("custody.repeated", "custodial retransmissions", |c| c.repeated),
    ("custody.signals", "custody signals sent", |c| c.signals),
    ("custody.signals_ignored", "custody signals ignored", |c| c.signals_ignored),
];

/// JSON name, label, quantity and getter of a metric of one traffic flow.
type FlowDefinition = (&'static str, &'static str, Quantity, fn(&FlowUse) -> Option<f64>);

const FLOW_METRICS: &[FlowDefinition] = &[
    ("delivered", "bundles delivered", Quantity::Count, |f| Some(f.delivered as f64)),
    ("latency_s.mean", "mean latency", Quantity::Seconds, |f| Some(f.latency_s?.mean)),
    ("goodput_bit_s", "goodput", Quantity::Rate, |f| f.goodput_bit_s),
];

/// Adds the metrics of each traffic flow, where there are several.
fn flows(runs: &[&Statistics], metrics: &mut Vec<ComparedMetric>) {
    let mut names: Vec<&str> = Vec::new();
    for flow in runs.iter().flat_map(|s| &s.traffic) {
        if !names.contains(&flow.traffic.as_str()) {
            names.push(&flow.traffic);
        }
    }
    // A single flow would repeat the totals.
    if names.len() < 2 {
        return;
    }
    for traffic in names {
        for (name, title, quantity, get) in FLOW_METRICS {
            let value = |s: &&Statistics| get(s.traffic.iter().find(|f| f.traffic == traffic)?);
            let (name, title) = (format!("traffic.{traffic}.{name}"), format!("{traffic}: {title}"));
            metrics.push(metric(&name, &title, *quantity, runs.iter().map(value).collect()));
        }
    }
}

/// JSON name, label, quantity and getter of a metric of one relay.
type RelayDefinition = (&'static str, &'static str, Quantity, fn(&RetentionFacts) -> Option<f64>);

const RELAY_METRICS: &[RelayDefinition] = &[
    ("bundles", "bundles that left", Quantity::Count, |r| r.unavailable.is_none().then_some(r.bundles as f64)),
    ("missing", "bundles that did not leave", Quantity::Count, |r| r.unavailable.is_none().then_some(r.missing as f64)),
    ("first_out_s.p50", "median retention", Quantity::Seconds, |r| Some(r.first_out_s?.p50)),
    ("first_out_s.p99", "99th percentile retention", Quantity::Seconds, |r| Some(r.first_out_s?.p99)),
    ("net_first_out_s.p50", "median retention, net", Quantity::Seconds, |r| Some(r.net_first_out_s?.p50)),
    ("net_first_out_s.p99", "99th percentile retention, net", Quantity::Seconds, |r| Some(r.net_first_out_s?.p99)),
];

/// Adds the metrics of each relay in each phase that measures retention.
fn retention(runs: &[&Statistics], metrics: &mut Vec<ComparedMetric>) {
    let mut relays: Vec<(&str, &str)> = Vec::new();
    for (phase, relay) in
        runs.iter().flat_map(|s| &s.phases).flat_map(|phase| phase.facts.retention.iter().map(move |r| (phase, r)))
    {
        let relay = (phase.facts.name.as_str(), relay.relay.as_str());
        if !relays.contains(&relay) {
            relays.push(relay);
        }
    }
    for (phase, relay) in relays {
        for (name, title, quantity, get) in RELAY_METRICS {
            let value = |s: &&Statistics| {
                let phase = s.phases.iter().find(|found| found.facts.name == phase)?;
                get(phase.facts.retention.iter().find(|found| found.relay == relay)?)
            };
            let (name, title) = (format!("retention.{phase}.{relay}.{name}"), format!("{phase}, {relay}: {title}"));
            metrics.push(metric(&name, &title, *quantity, runs.iter().map(value).collect()));
        }
    }
}

fn metric(name: &str, title: &str, quantity: Quantity, values: Vec<Option<f64>>) -> ComparedMetric {
    let first = values.first().copied().flatten();
    let relative = |value: Option<f64>| match (first?, value?) {
        // Equal values agree even when both are zero, where no ratio exists.
        (first, value) if first == value => Some(0.0),
        (0.0, _) => None,
        (first, value) => Some((value - first) / first.abs()),
    };
    let difference: Vec<Option<f64>> = values.iter().map(|v| relative(*v)).collect();
    // A value missing from one run leaves nothing to judge.
    let comparable = values.len() > 1 && values.iter().all(Option::is_some);
    let within = comparable.then(|| difference.iter().all(|d| d.is_some_and(|d| d.abs() <= CLOSE)));
    ComparedMetric {
        name: name.to_string(),
        title: title.to_string(),
        unit: quantity.unit().to_string(),
        quantity,
        values,
        difference,
        within_10_percent: within,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::RunWorld;
    use crate::phase::{PhaseFacts, PhaseUse};
    use crate::retention::RetentionTimes;
    use crate::statistics::tests::{bundle, link};

    fn comparison() -> Comparison {
        let sim = Statistics::of(&[bundle(0, 1000, 0.0, Some(2.0))], &[link(1, 100, 0, 1, 2)]);
        let lab = Statistics::of(&[bundle(0, 1000, 0.0, Some(2.1))], &[link(1, 150, 0, 1, 4)]);
        let manifests = [RunWorld::Sim, RunWorld::Lab].map(|world| Manifest::new(world, "s", "text", None));
        Comparison::of(&[("a".into(), &manifests[0], &sim), ("b".into(), &manifests[1], &lab)])
    }

    #[test]
    fn differences_are_relative_to_first_run() {
        let c = comparison();
        let latency = c.metric("latency_s.mean").unwrap();
        assert_eq!(latency.values, [Some(2.0), Some(2.1)]);
        assert!((latency.difference[1].unwrap() - 0.05).abs() < 1e-9);
        assert_eq!(latency.within_10_percent, Some(true));
        assert_eq!(c.metric("overhead").unwrap().within_10_percent, Some(false), "100 B against 150 B");
        let utilisation = c.metric("utilisation.l.a").unwrap();
        // The link is busy for 1 of 2 s in the first run, and for 1 of 4 s in the second.
        assert_eq!((utilisation.difference[1], utilisation.within_10_percent), (Some(-0.5), Some(false)));
        assert!(c.same_scenario && utilisation.notable());
        let idle = ComparedMetric { values: vec![Some(0.001), Some(0.002)], ..utilisation.clone() };
        assert!(!idle.notable() && idle.remark().starts_with("idle"), "differences of an idle link are ignored");
        assert_eq!((utilisation.remark(), latency.remark()), ("more than 10 %", ""));
    }

    #[test]
    fn zero_has_no_relative_difference() {
        let equal = metric("x", "x", Quantity::Count, vec![Some(0.0), Some(0.0)]);
        assert_eq!((equal.difference[1], equal.within_10_percent), (Some(0.0), Some(true)));
        let more = metric("x", "x", Quantity::Count, vec![Some(0.0), Some(3.0)]);
        assert_eq!((more.difference[1], more.within_10_percent), (None, Some(false)));
        let missing = metric("x", "x", Quantity::Count, vec![Some(1.0), None]);
        assert_eq!((missing.within_10_percent, missing.remark()), (None, "not in all runs"));
        assert_eq!(more.remark(), "more than 10 %");
    }

    #[test]
    fn interrupted_and_disturbed_runs_are_reported() {
        let s = Statistics::of(&[bundle(0, 1000, 0.0, Some(2.0))], &[]);
        let mut manifests = [RunWorld::Sim, RunWorld::Sim].map(|world| Manifest::new(world, "s", "text", None));
        manifests[0].finished = true;
        manifests[1].fidelity = Some("message".into());
        manifests[0].validity.disturbances.push("Machine: busy.".into());
        let c = Comparison::of(&[("a".into(), &manifests[0], &s), ("b".into(), &manifests[1], &s)]);
        let text = c.to_text();
        assert!(text.contains("a was disturbed:\n  Machine: busy.\n") && text.contains("b was interrupted"), "{text}");
        assert!(text.contains("b (sim, message)") && !text.contains("different scenarios"), "{text}");
    }

    #[test]
    fn custody_is_compared_if_used() {
        assert!(comparison().metric("custody.taken").is_none());
        let manifest = Manifest::new(RunWorld::Sim, "s", "text", None);
        let [mut a, b] = [(); 2].map(|()| Statistics::of(&[bundle(0, 1000, 0.0, Some(2.0))], &[]));
        a.custody = Some(CustodyUse { signals: 4, ..CustodyUse::default() });
        let c = Comparison::of(&[("a".into(), &manifest, &a), ("b".into(), &manifest, &b)]);
        assert_eq!(c.metric("custody.signals").unwrap().values, [Some(4.0), None]);
    }

    #[test]
    fn retention_is_compared_by_phase_and_relay() {
        let manifest = Manifest::new(RunWorld::Lab, "s", "text", None);
        let run = |p50: Option<f64>| {
            let relay = RetentionFacts {
                relay: "b".into(),
                bundles: 3,
                unavailable: p50.is_none().then(|| "TLS".into()),
                first_out_s: p50.map(|p50| RetentionTimes { p50, ..RetentionTimes::default() }),
                ..RetentionFacts::default()
            };
            let facts = PhaseFacts { name: "relay".into(), retention: vec![relay], ..PhaseFacts::default() };
            Statistics { phases: PhaseUse::all(&[facts], &[], &[]), ..Statistics::of(&[], &[]) }
        };
        let [a, b] = [run(Some(0.0002)), run(None)];
        let c = Comparison::of(&[("a".into(), &manifest, &a), ("b".into(), &manifest, &b)]);
        let values = |name: &str| c.metric(&format!("retention.relay.b.{name}")).unwrap().values.clone();
        assert_eq!(values("first_out_s.p50"), [Some(0.0002), None]);
        assert_eq!(values("bundles"), [Some(3.0), None]);
        assert_eq!(values("net_first_out_s.p50"), [None, None]);
    }

    #[test]
    fn text_and_json_agree() {
        let c = comparison();
        let text = c.to_text();
        assert!(text.contains("mean latency") && text.contains("+5 %") && text.contains("more than 10 %"), "{text}");
        let json = c.to_json();
        assert_eq!(json["metrics"]["latency_s.mean"]["values"][1], 2.1);
        assert_eq!(json["metrics"]["latency_s.mean"]["unit"], "s");
        assert_eq!(json["runs"][1]["world"], "lab");
    }
}
