//! Findings at the top of the page, in sentences: delivery, differences between the runs, and trustworthiness.

use super::data::RunData;
use crate::compare::Comparison;
use crate::expect::Missed;
use crate::format::{Quantity, counted, difference};
use crate::manifest::{RunWorld, Validity};
use crate::missing::{self, with_refused};
use crate::nagle::NagleVerdict;

/// Severity mark of a finding.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Severity {
    /// Result as desired.
    Good,
    /// Remark without judgement.
    Note,
    /// Result not as desired.
    Bad,
}

/// One finding, of one or two sentences.
#[derive(Clone, PartialEq, Debug)]
pub struct Finding {
    pub level: Severity,
    /// Plain text, not yet escaped.
    pub text: String,
}

fn finding(level: Severity, text: impl Into<String>) -> Finding {
    Finding { level, text: text.into() }
}

// Thresholds above which a number is marked as a note. Only disturbances are marked as bad: they come from the world,
// which knows the delays of its links and can judge whether a run is spoilt.
// Fraction of time in which some task waited.
const WAITING: f64 = 0.5;
// Fraction of processor time taken by other virtual machines.
const STEAL: f64 = 0.05;
// Delay of the emulator in 1 % of packets, or of a node in 1 % of its turns, in µs.
const LATE_US: f64 = 5000.0;

fn mark(look: bool) -> Severity {
    if look { Severity::Note } else { Severity::Good }
}

/// Lists all findings about these runs, in the order of the page.
pub fn findings(runs: &[RunData], comparison: &Comparison) -> Vec<Finding> {
    let mut all = Vec::new();
    for run in runs {
        let prefix = if runs.len() > 1 { format!("{}: ", run.label) } else { String::new() };
        for mut found in outcome(run) {
            found.text = format!("{prefix}{}", found.text);
            all.push(found);
        }
    }
    if runs.len() > 1 {
        all.extend(agreement(runs, comparison));
    }
    for run in runs {
        let disturbed = validity(run).iter().filter(|f| f.level == Severity::Bad).count();
        // The load of the machine cannot disturb a simulation.
        if run.manifest.world != RunWorld::Sim {
            all.push(match disturbed {
                0 => finding(Severity::Good, format!("{}: nothing disturbed the measurement.", run.label)),
                _ => finding(
                    Severity::Bad,
                    format!(
                        "{}: the measurement was disturbed; see \u{201c}Validity: can it be trusted?\u{201d}.",
                        run.label
                    ),
                ),
            });
        }
    }
    all
}

/// Delivery, files and expectations of one run.
fn outcome(run: &RunData) -> Vec<Finding> {
    let (s, expect) = (&run.statistics, &run.manifest.expect);
    let mut all = Vec::new();
    if let Some(how) = run.manifest.interruption() {
        all.push(finding(Severity::Bad, format!("the run was {how}; the numbers below cover only that part.")));
    }
    let count = |n: u64| Quantity::Count.text(n as f64);
    all.push(match (s.delivered, s.wanted()) {
        (_, 0) if s.round_trip_s.is_some() => finding(Severity::Note, "no bundles but pings were counted."),
        (_, 0) => finding(Severity::Note, "no bundles were created."),
        (delivered, created) if delivered == created => {
            let last = s
                .last_delivery_s
                .map_or(String::new(), |t| format!("; the last one after {}", Quantity::Seconds.text(t)));
            let all = if created == 1 { "the only bundle".into() } else { format!("all {} bundles", count(created)) };
            finding(Severity::Good, format!("{all} arrived{last}."))
        }
        (delivered, created) => {
            let share = Quantity::Share.text(delivered as f64 / created as f64);
            // Losses that the author expected are not a failure.
            let fine = expect.delivery_ratio.is_some_and(|wanted| delivered as f64 >= wanted * created as f64);
            let text = format!("{} of {} arrived ({share}).", count(delivered), counted(created, "bundle"));
            finding(if fine { Severity::Note } else { Severity::Bad }, text)
        }
    });
    if let Some(text) = missing::sentence(&with_refused(s, run.missing.clone())) {
        all.push(finding(Severity::Note, text));
    }
    for file in &run.manifest.files {
        let size = Quantity::Bytes.text(file.sent_bytes as f64);
        all.push(match file.equal() {
            Some(true) => finding(
                Severity::Good,
                format!("the file of {size} ({}) arrived as it was sent: checksums are equal.", file.traffic),
            ),
            Some(false) => {
                finding(Severity::Bad, format!("the file of {size} ({}) was corrupted or is incomplete.", file.traffic))
            }
            // Simulated payloads have lengths but no contents, so only the size can be compared.
            None => finding(
                Severity::Note,
                format!("the file of {size} ({}) arrived complete; its contents are not simulated.", file.traffic),
            ),
        });
    }
    all.extend(round_trips(run));
    for Missed { key, expected, found } in Missed::of(&run.manifest, s) {
        all.push(finding(Severity::Bad, format!("expectation missed ({key}): {found}; expected {expected}.")));
    }
    if let Some(text) = Missed::unjudged(&run.manifest, s) {
        all.push(finding(Severity::Note, format!("expectation {text}.")));
    }
    if s.redelivered > 0 {
        let were = if s.redelivered == 1 { "was" } else { "were" };
        let text = format!("{} {were} delivered more than once.", counted(s.redelivered, "bundle"));
        all.push(finding(Severity::Bad, text));
    }
    let unmeasured = run.manifest.validity.unmeasured.iter();
    all.extend(unmeasured.map(|text| finding(Severity::Bad, format!("not measured: {text}"))));
    all
}

/// Round trips of pings, and whether Nagle's algorithm delays them.
fn round_trips(run: &RunData) -> Vec<Finding> {
    let text = |s: f64| Quantity::Seconds.text(s);
    let times = run.statistics.round_trip_s.map(|times| {
        let (p50, p90, p99) = (text(times.p50), text(times.p90), text(times.p99));
        match run.round_trips {
            1 => finding(Severity::Note, format!("1 ping was answered, after {p50}.")),
            many => {
                let count = Quantity::Count.text(many as f64);
                finding(Severity::Note, format!("{count} pings were answered: median {p50}, 90 % {p90}, 99 % {p99}."))
            }
        }
    });
    let nagle = run.nagle.as_ref().and_then(|nagle| {
        let level = if nagle.verdict() == NagleVerdict::Found { Severity::Bad } else { Severity::Note };
        Some(finding(level, nagle.finding()?))
    });
    times.into_iter().chain(nagle).collect()
}

/// Agreement of two runs, and the step in which a difference in latency arises.
fn agreement(runs: &[RunData], comparison: &Comparison) -> Vec<Finding> {
    let mut all = Vec::new();
    if !comparison.same_scenario {
        all.push(finding(Severity::Note, "These runs have different scenarios, so differences are expected."));
    }
    let Some(latency) = comparison.metric("latency_s.mean") else { return all };
    if let ([Some(a), Some(b), ..], Some(relative)) = (&latency.values[..], latency.difference[1]) {
        let (first, second) = (Quantity::Seconds.text(*a), Quantity::Seconds.text(*b));
        let text = format!(
            "Mean latency: {first} ({}), {second} ({}); {}.",
            runs[0].label.to_lowercase(),
            runs[1].label.to_lowercase(),
            match difference(relative).as_str() {
                "equal" => "equal".to_string(),
                text => format!("a difference of {text}"),
            }
        );
        let close = latency.within_10_percent == Some(true);
        all.push(finding(if close { Severity::Good } else { Severity::Bad }, text));
        // Only a notable difference needs an explanation.
        if !close && let Some(text) = largest_step(runs) {
            all.push(finding(Severity::Note, text));
        }
    }
    let far: Vec<&str> = comparison
        .metrics
        .iter()
        .filter(|m| m.notable() && m.name != "latency_s.mean")
        .map(|m| m.title.as_str())
        .collect();
    all.push(match far[..] {
        [] => finding(Severity::Good, "All other key numbers agree within 10 %."),
        _ => finding(Severity::Note, format!("More than 10 % apart: {}.", far.join("; "))),
    });
    all
}

/// Step of the path that contributes most to a difference in latency.
fn largest_step(runs: &[RunData]) -> Option<String> {
    let other = |label: &str| runs[1].steps.iter().find(|s| s.label == label).map_or(0.0, |s| s.mean_s);
    let differences = runs[0].steps.iter().map(|s| (s.label.as_str(), other(&s.label) - s.mean_s));
    let (label, seconds) = differences.max_by(|a, b| a.1.abs().total_cmp(&b.1.abs()))?;
    let more = if seconds > 0.0 { "more" } else { "less" };
    let amount = Quantity::Seconds.text(seconds.abs());
    Some(format!("The largest part of that arises {label}: {amount} {more} per bundle in the second run."))
}

/// Remarks on how far to trust one run.
pub fn validity(run: &RunData) -> Vec<Finding> {
    let v: &Validity = &run.manifest.validity;
    let mut all = Vec::new();
    if run.manifest.world == RunWorld::Sim {
        let seed = run.manifest.seed;
        all.push(finding(Severity::Good, format!("Virtual time: the machine's load has no influence on the results. Seed {seed} repeats this run to the last event.")));
    }
    if let Some(late) = v.emulator_lateness {
        let us = |us: f64| Quantity::Seconds.text(us / 1e6);
        let text = format!(
            "Delay added by the link emulator over {}: median {}, 99th percentile {}, maximum {}.",
            counted(late.count, "packet"),
            us(late.p50_us),
            us(late.p99_us),
            us(late.max_us)
        );
        all.push(finding(mark(late.p99_us > LATE_US), text));
        if !late.real_time {
            all.push(finding(
                Severity::Note,
                "The emulator had no real-time priority; other work of the machine can delay it.",
            ));
        }
    }
    if let Some(late) = v.node_lateness {
        let us = |us: f64| Quantity::Seconds.text(us / 1e6);
        let how = if late.real_time { "with" } else { "without" };
        let text = format!(
            "Wait of the nodes for a processor, {how} real-time priority: median {}, 99th percentile {}, maximum {}.",
            us(late.p50_us),
            us(late.p99_us),
            us(late.max_us)
        );
        all.push(finding(mark(late.p99_us > LATE_US), text));
    }
    if let Some(p) = v.pressure {
        let waits = [("a processor", p.cpu_waiting), ("memory", p.memory_waiting), ("a disk", p.io_waiting)];
        for (what, waiting) in waits.into_iter().filter_map(|(what, w)| Some((what, w?))) {
            let share = Quantity::Share.text(waiting);
            all.push(finding(mark(waiting > WAITING), format!("For {share} of the time some task waited for {what}.")));
        }
        if let Some(steal) = p.steal {
            let share = Quantity::Share.text(steal);
            all.push(finding(
                mark(steal > STEAL),
                format!("Other virtual machines took {share} of the processor time."),
            ));
        }
    }
    all.extend(v.disturbances.iter().map(|text| finding(Severity::Bad, text.clone())));
    all.extend(v.notes.iter().map(|text| finding(Severity::Note, text.clone())));
    if all.is_empty() {
        all.push(finding(Severity::Note, "Nothing was recorded about the machine."));
    }
    all
}
