//! Data behind the report's charts, reduced so that a run of any length becomes a few hundred points.

use crate::column::Text;
use crate::manifest::Manifest;
use crate::missing::MissingBundles;
use crate::nagle::NagleReport;
use crate::page::axis::nice_step;
use crate::page::map::Play;
use crate::round_trip::RoundTrip;
use crate::run::RunReader;
use crate::schema::{BundleRow, EventRow, LinkRow, ProcessRow, STORED_BYTES};
use crate::statistics::{FlowUse, Statistics};
use anyhow::Result;
use std::collections::{BTreeMap, HashMap};

// Most points of one line: a point per two pixels of the widest figure.
const POINTS: usize = 600;
// Most bundles whose path is followed step by step; more would hardly change the means.
const FOLLOWED: usize = 200_000;

/// Points of a line: seconds from the start, and value.
pub type Points = Vec<(f64, f64)>;

/// One run, prepared for drawing.
pub struct RunData {
    /// Name in legends.
    pub label: String,
    pub folder: String,
    pub manifest: Manifest,
    pub statistics: Statistics,
    /// Bin width of `goodput`, in seconds.
    pub bin_s: f64,
    /// Payload delivered in each bin in bit/s, by the start of the bin in seconds.
    pub goodput: Points,
    /// Stored bytes of each node over time; nodes in the order of the scenario.
    pub stored: Vec<(String, Points)>,
    /// Latencies of delivered bundles in seconds, sorted.
    pub latencies: Vec<f64>,
    /// Data of each traffic flow, in order of the flows' first bundles; empty if there is only one.
    pub flows: Vec<FlowData>,
    /// Number of answered pings.
    pub round_trips: usize,
    /// Facts about Nagle's algorithm; absent with few pings.
    pub nagle: Option<NagleReport>,
    /// Mean time of delivered bundles in each step of their path.
    pub steps: Vec<PathStep>,
    /// Fates of the bundles that were not delivered.
    pub missing: Vec<MissingBundles>,
    /// Data of the animated map, if nodes have positions.
    pub map: Option<Play>,
    pub links: Vec<LinkRow>,
    pub processes: Vec<ProcessRow>,
}

/// Data of one traffic flow.
pub struct FlowData {
    pub name: String,
    /// Number of bundles created.
    pub created: usize,
    /// Payload delivered in each bin, in bit/s.
    pub goodput: Points,
    /// Latencies in seconds, sorted.
    pub latencies: Vec<f64>,
}

impl FlowData {
    fn all(bundles: &[BundleRow], names: &[FlowUse], bin_s: f64, duration_s: f64) -> Vec<FlowData> {
        if names.len() < 2 {
            return Vec::new();
        }
        let flow = |f: &FlowUse| {
            let mine = || bundles.iter().filter(|b| b.traffic.as_deref() == Some(f.traffic.as_str()));
            FlowData {
                name: f.traffic.clone(),
                created: mine().count(),
                goodput: goodput(mine(), bin_s, duration_s),
                latencies: sorted_latencies(mine()),
            }
        };
        names.iter().map(flow).collect()
    }
}

fn sorted_latencies<'a>(bundles: impl Iterator<Item = &'a BundleRow>) -> Vec<f64> {
    let mut latencies: Vec<f64> = bundles.filter_map(|b| b.latency_ns).map(|ns| ns as f64 / 1e9).collect();
    latencies.sort_by(f64::total_cmp);
    latencies
}

/// Label of the time in steps that the most frequent path lacks.
pub const OTHER_PATHS: &str = "on other paths";

/// One step of the path of bundles.
#[derive(Clone, PartialEq, Debug)]
pub struct PathStep {
    /// Label such as `at onboard` or `from onboard to ground`.
    pub label: String,
    /// Mean over the delivered bundles that were followed, in seconds; the steps of a run add up to their mean latency.
    pub mean_s: f64,
}

impl RunData {
    /// Reads the data of a run; `span_s` is the length of the time axis, which two runs share.
    pub fn read(run: &RunReader, span_s: f64) -> Result<RunData> {
        let manifest = run.manifest().clone();
        let bundles = run.bundles()?;
        // About 120 bins: enough to show passes, few enough to draw.
        let bin_s = nice_step(span_s / 120.0);
        let round_trips = RoundTrip::read(run, &bundles)?;
        let statistics = Statistics::with(run, &bundles, &round_trips)?;
        Ok(RunData {
            round_trips: round_trips.len(),
            nagle: NagleReport::read(run, &round_trips),
            label: manifest.world_title(),
            folder: run.folder().display().to_string(),
            bin_s,
            goodput: goodput(bundles.iter(), bin_s, manifest.duration_s),
            flows: FlowData::all(&bundles, &statistics.traffic, bin_s, manifest.duration_s),
            latencies: sorted_latencies(bundles.iter()),
            statistics,
            stored: stored(run, &manifest)?,
            steps: steps(run, &bundles)?,
            missing: MissingBundles::read(run, &bundles)?,
            map: Play::read(run, &bundles)?,
            links: run.links()?,
            // Rows of phases have a table of their own.
            processes: run.processes()?.into_iter().filter(|row| row.phase.is_none()).collect(),
            manifest,
        })
    }
}

fn goodput<'a>(bundles: impl Iterator<Item = &'a BundleRow>, bin_s: f64, duration_s: f64) -> Points {
    let bins = ((duration_s / bin_s).ceil() as usize).clamp(1, 10_000);
    let mut bytes = vec![0u64; bins];
    for (bundle, delivered) in bundles.filter_map(|b| Some((b, b.delivered_ns?))) {
        let bin = (delivered as f64 / 1e9 / bin_s) as usize;
        // A bundle delivered at the very end belongs to the last bin.
        bytes[bin.min(bins - 1)] += bundle.payload;
    }
    let rate = |(i, bytes): (usize, &u64)| (i as f64 * bin_s, *bytes as f64 * 8.0 / bin_s);
    let mut points: Vec<(f64, f64)> = bytes.iter().enumerate().map(rate).collect();
    // The last bin ends at zero, so that its step is drawn.
    points.push((bins as f64 * bin_s, 0.0));
    points
}

fn stored(run: &RunReader, manifest: &Manifest) -> Result<Vec<(String, Points)>> {
    let mut lines: BTreeMap<Text, Vec<(f64, f64)>> = BTreeMap::new();
    run.samples(&mut |row| {
        if let (STORED_BYTES, Some(node)) = (&*row.metric, row.node) {
            lines.entry(node).or_default().push((row.time_ns as f64 / 1e9, row.value));
        }
        Ok(())
    })?;
    let mut ordered = Vec::new();
    for node in &manifest.topology.nodes {
        if let Some(line) = lines.remove(node.name.as_str()) {
            ordered.push((node.name.clone(), thin(line)));
        }
    }
    ordered.extend(lines.into_iter().map(|(node, line)| (node.to_string(), thin(line))));
    Ok(ordered)
}

/// Reduces a line to at most [`POINTS`] points: the largest of each group, because peaks matter for a store.
fn thin(line: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    let group = line.len().div_ceil(POINTS).max(1);
    let largest = |group: &[(f64, f64)]| group.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1));
    line.chunks(group).filter_map(largest).collect()
}

/// Events of a bundle that determine its path.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Mark {
    Arrived,
    Left,
    Delivered,
}

/// Bundle identity: creation time, sequence number, service, source.
type PathKey = (u64, u64, u64, Text);

/// Computes mean times at nodes and between them, along the path that most bundles took. Time in steps that this path
/// lacks is summed under `on other paths`, so that the steps add up to the mean latency.
fn steps(run: &RunReader, bundles: &[BundleRow]) -> Result<Vec<PathStep>> {
    let mut marks: HashMap<PathKey, Vec<(u64, Mark, Text)>> = HashMap::new();
    for b in bundles.iter().filter(|b| b.delivered_ns.is_some()).take(FOLLOWED) {
        marks.insert((b.creation_ms, b.sequence, b.service, b.source.clone()), Vec::new());
    }
    run.events(&mut |row: EventRow| {
        let mark = match &*row.event {
            "created" | "received" => Mark::Arrived,
            "transmitting" => Mark::Left,
            "delivered" => Mark::Delivered,
            _ => return Ok(()),
        };
        let (Some(creation), Some(sequence)) = (row.creation_ms, row.sequence) else { return Ok(()) };
        let (Some(service), Some(source)) = (row.service, row.source) else { return Ok(()) };
        if let Some(list) = marks.get_mut(&(creation, sequence, service, source)) {
            list.push((row.time_ns, mark, row.node));
        }
        Ok(())
    })?;
    let mut ways: BTreeMap<Vec<String>, (u64, Vec<f64>)> = BTreeMap::new();
    let mut total = 0u64;
    for way in marks.into_values().filter_map(way) {
        total += 1;
        let labels: Vec<String> = way.iter().map(|(label, _)| label.clone()).collect();
        let entry = ways.entry(labels).or_insert_with(|| (0, vec![0.0; way.len()]));
        entry.0 += 1;
        for (sum, (_, seconds)) in entry.1.iter_mut().zip(&way) {
            *sum += seconds;
        }
    }
    // The most frequent path gives the steps their order.
    let Some(main) = ways.iter().max_by_key(|(_, (count, _))| *count).map(|(labels, _)| labels.clone()) else {
        return Ok(Vec::new());
    };
    let mut steps: Vec<PathStep> = main.iter().map(|label| PathStep { label: label.clone(), mean_s: 0.0 }).collect();
    let mut other = 0.0;
    for (labels, (_, sums)) in &ways {
        for (label, sum) in labels.iter().zip(sums) {
            match steps.iter_mut().find(|s| s.label == *label) {
                Some(step) => step.mean_s += sum / total as f64,
                None => other += sum / total as f64,
            }
        }
    }
    if other > 0.0 {
        steps.push(PathStep { label: OTHER_PATHS.into(), mean_s: other });
    }
    Ok(steps)
}

/// Labels and seconds of the steps of one bundle, from creation to first delivery. `None` if it was not delivered, or
/// if the events do not begin with its creation.
fn way(mut marks: Vec<(u64, Mark, Text)>) -> Option<Vec<(String, f64)>> {
    marks.sort();
    let end = marks.iter().position(|(_, mark, _)| *mark == Mark::Delivered)?;
    let mut way = Vec::new();
    let (mut since, _, mut node) = marks.first().filter(|(_, mark, _)| *mark == Mark::Arrived)?.clone();
    let mut left: Option<u64> = None;
    let mut visited = vec![node.clone()];
    // Only events up to the first delivery count. A retransmission stays part of the step that
    // began with the first transmission. Of several fragments the first counts, so that the wait
    // for the others falls to the destination.
    for (time, mark, place) in &marks[1..=end] {
        let seconds = |from: u64| time.saturating_sub(from) as f64 / 1e9;
        match mark {
            Mark::Left if *place == node && left.is_none() => {
                way.push((format!("at {node}"), seconds(since)));
                left = Some(*time);
            }
            Mark::Arrived if !visited.contains(place) => {
                visited.push(place.clone());
                way.push((format!("from {node} to {place}"), seconds(left.unwrap_or(since))));
                (since, node, left) = (*time, place.clone(), None);
            }
            Mark::Delivered => way.push((format!("at {node}"), seconds(left.unwrap_or(since)))),
            _ => {}
        }
    }
    Some(way)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_steps_add_up_to_latency() {
        let mark = |time: u64, mark, node: &str| (time * 1_000_000_000, mark, Text::from(node));
        let found = way(vec![
            mark(1, Mark::Arrived, "a"),
            mark(3, Mark::Left, "a"),
            mark(4, Mark::Arrived, "b"),
            mark(9, Mark::Left, "b"),
            mark(12, Mark::Left, "b"), // retransmission: part of the step from b to c
            mark(13, Mark::Arrived, "c"),
            mark(13, Mark::Arrived, "b"), // another fragment
            mark(14, Mark::Delivered, "c"),
            mark(20, Mark::Delivered, "c"),
        ])
        .unwrap();
        let labels: Vec<(&str, f64)> = found.iter().map(|(label, s)| (label.as_str(), *s)).collect();
        assert_eq!(labels, [("at a", 2.0), ("from a to b", 1.0), ("at b", 5.0), ("from b to c", 4.0), ("at c", 1.0)]);
        assert_eq!(way(vec![mark(1, Mark::Arrived, "a")]), None, "never delivered");
    }

    #[test]
    fn thinning_keeps_peaks() {
        let line: Vec<(f64, f64)> = (0..100_000).map(|i| (f64::from(i), if i == 77_777 { 9.0 } else { 1.0 })).collect();
        let thinned = thin(line);
        assert!(thinned.len() <= POINTS);
        assert!(thinned.contains(&(77_777.0, 9.0)));
    }
}
