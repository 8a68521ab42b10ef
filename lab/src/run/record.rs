//! Writer of a run: puts the results of the live part into the same tables that a simulation writes.

use super::baseline;
use super::flows;
use super::folder::RunFolder;
use super::outages::Outages;
use super::outcome::{ProcessRecord, SessionOutcome};
use super::session::PROBE_INTERVAL;
use crate::attached;
use crate::driver::NodeContext;
use crate::gate::{Late, Signs};
use crate::hybla;
use anyhow::{Context, Result};
use farlink_report::schema::{STORED_BUNDLES, STORED_BYTES};
use farlink_report::{
    Accounting, EventRow, FileCheck, Lateness, LinkRow, MachineLoad, ProcessRow, RunWriter, SampleRow, Text,
};
use farlink_scenario::{HostKind, Scenario, StoreKind, Table, TrafficKind};
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::time::Duration;

/// Writes all tables and the manifest; returns the path of the run directory. `begun` is the time at which the run
/// began to be set up.
pub fn write(
    scenario: &Scenario,
    mut writer: RunWriter,
    mut outcome: SessionOutcome,
    folder: &RunFolder,
    files: Vec<FileCheck>,
    begun: std::time::Instant,
) -> Result<PathBuf> {
    let tables = &scenario.measure.tables;
    // The bundles table is aggregated from the events even if these are not written.
    if !tables.contains(&Table::Events) {
        writer.without_events();
    }
    let mut arrivals = Arrivals::new(scenario);
    let mut samples = std::mem::take(&mut outcome.samples);
    for (index, mut driver) in std::mem::take(&mut outcome.drivers).into_iter().enumerate() {
        let node = NodeContext {
            scenario,
            index,
            folder: folder.node(index),
            epoch: outcome.epoch,
            program: &outcome.program,
            real_time: outcome.real_time,
        };
        let name = &scenario.nodes[index].name;
        if scenario.counts_by_applications() {
            samples.extend(attached::round_trips(&node)?.into_iter().map(|mut sample| {
                sample.time_ns = sample.time_ns.saturating_sub(outcome.starts_ns[index]);
                sample
            }));
        }
        for (traffic, count) in attached::arrivals_from_outside(&node)? {
            let entry = &scenario.traffic[traffic];
            let (flow, from) = (&entry.name, &scenario.nodes[entry.from].name);
            let text = format!("Traffic {flow}: {count} bundles arrived from {from}, which no table counts.");
            writer.manifest().validity.notes.push(text);
        }
        let otherwise = driver.deviations(&node);
        let disturbances = &mut writer.manifest().validity.disturbances;
        disturbances.extend(otherwise.iter().map(|what| format!("Node {name}: {what}.")));
        let mut outages = Outages::new(scenario, index);
        let mut stored = Stored::new(&scenario.nodes[index].name, scenario.measure.interval);
        driver
            .events(&node, &mut |mut row| {
                row.time_ns = row.time_ns.saturating_sub(outcome.starts_ns[index]);
                stored.observe(&row, &mut samples);
                arrivals.observe(&row);
                outages.before(row.time_ns, &mut |row| writer.event(row))?;
                writer.event(&row)
            })
            .with_context(|| format!("the events of node `{}`", scenario.nodes[index].name))?;
        let elapsed_ns = (outcome.progress.elapsed_s * 1e9) as u64;
        outages.before(elapsed_ns, &mut |row| writer.event(row))?;
        stored.flush_until(elapsed_ns, &mut samples);
    }
    // The session notices completion only at its next count, so the last delivery is the end of the run.
    let phases_end_ns = outcome.phases.0.last().map_or(0, |phase| (phase.end_s * 1e9) as u64);
    let end_ns = match arrivals.last {
        Some(last) if outcome.complete && scenario.stop_when_delivered => last.max(phases_end_ns),
        // Without counted bundles, as to machines outside, the run ended when it was noticed.
        None if outcome.complete && scenario.stop_when_delivered => {
            ((outcome.progress.elapsed_s * 1e9) as u64).max(phases_end_ns)
        }
        _ if outcome.stopped => (outcome.progress.elapsed_s * 1e9) as u64,
        _ => u64::try_from(scenario.duration.as_nanos()).unwrap_or(u64::MAX),
    };
    let manifest = writer.manifest();
    let (phases, missed) = std::mem::take(&mut outcome.phases);
    manifest.phases = phases;
    manifest.roles = std::mem::take(&mut outcome.roles);
    // A phase that ended with the last delivery was closed only later.
    manifest.phases.iter_mut().for_each(|phase| phase.end_s = phase.end_s.min(end_ns as f64 / 1e9));
    manifest.phases.retain(|phase| phase.end_s > phase.start_s);
    manifest.validity.notes.extend(missed.iter().map(|name| format!("The run ended before phase {name} began.")));
    if tables.contains(&Table::Samples) {
        samples.retain(|s| s.time_ns <= end_ns);
        samples.sort_by_key(|s| s.time_ns);
        samples.iter().try_for_each(|row| writer.sample(row))?;
    }
    if tables.contains(&Table::Links) {
        links(scenario, &outcome, &mut writer);
    }
    if tables.contains(&Table::Processes) {
        processes(scenario, &outcome, &mut writer);
    }
    let manifest = writer.manifest();
    manifest.start_utc = outcome.epoch.to_string();
    manifest.duration_s = end_ns as f64 / 1e9;
    manifest.wall_s = begun.elapsed().as_secs_f64();
    manifest.files = arrivals.complete_files(scenario, files);
    manifest.flows = flows::results(scenario, folder, &outcome.congestion);
    validity(scenario, &outcome, &mut manifest.validity);
    background(scenario, &outcome, manifest);
    for phase in &manifest.phases {
        let signs = Signs { baseline_spread: baseline::spread(&phase.baseline), ..Signs::default() };
        let doubts = signs.doubts();
        manifest.validity.disturbances.extend(doubts.iter().map(|doubt| format!("Phase {}: {doubt}.", phase.name)));
    }
    if outcome.stopped { writer.interrupted() } else { writer.finish() }
}

fn links(scenario: &Scenario, outcome: &SessionOutcome, writer: &mut RunWriter) {
    for (link, reports) in scenario.links.iter().zip(&outcome.links) {
        let [a, b] = link.between.map(|node| scenario.nodes[node].name.as_str());
        writer.link(LinkRow::new(&link.name, a, b, &reports[0].statistics()));
        writer.link(LinkRow::new(&link.name, b, a, &reports[1].statistics()));
    }
}

fn processes(scenario: &Scenario, outcome: &SessionOutcome, writer: &mut RunWriter) {
    for ProcessRecord { node, name, role, usage } in &outcome.processes {
        writer.process(ProcessRow {
            node: node.map(|n| scenario.nodes[n].name.as_str().into()),
            process: name.as_str().into(),
            cpu_user_s: usage.cpu_user_s,
            cpu_system_s: usage.cpu_system_s,
            rss_peak_bytes: usage.rss_bytes,
            source: "proc".into(),
            role: Some(role.word().into()),
            phase: None,
        });
    }
    let source = if outcome.groups { "cgroup" } else { "proc" };
    for phase in writer.manifest().phases.clone() {
        for used in &phase.roles {
            writer.process(ProcessRow {
                node: used.node.as_deref().map(Into::into),
                process: used.role.as_str().into(),
                cpu_user_s: used.cpu_user_s,
                cpu_system_s: used.cpu_system_s,
                rss_peak_bytes: used.memory_peak_bytes,
                // The emulator is in no control group.
                source: if used.node.is_some() { source } else { "proc" }.into(),
                role: Some(used.role.as_str().into()),
                phase: Some(phase.name.as_str().into()),
            });
        }
    }
}

/// Fills in the measures of the run's validity, and the reasons to doubt it.
fn validity(scenario: &Scenario, outcome: &SessionOutcome, validity: &mut farlink_report::Validity) {
    let reports = || outcome.links.iter().flatten().filter(|r| r.handed_over > 0);
    let worst = |f: fn(&crate::supervisor::LinkReport) -> f64| reports().map(f).fold(0.0, f64::max);
    let lateness = Lateness {
        count: reports().map(|r| r.handed_over).sum(),
        p50_us: worst(|r| r.late_p50_us),
        p99_us: worst(|r| r.late_p99_us),
        max_us: worst(|r| r.late_max_us),
        real_time: reports().all(|r| r.real_time),
    };
    let (cpu_waiting, steal) = outcome.watch.shares();
    let (memory_waiting, io_waiting) = outcome.watch.memory_and_io();
    validity.pressure = Some(MachineLoad { cpu_waiting, memory_waiting, io_waiting, steal });
    validity.emulator_lateness = Some(lateness);
    validity.accounting = if outcome.groups { Accounting::Cgroup } else { Accounting::Proc };
    validity.disturbances.extend(outcome.remarks.disturbances.iter().cloned());
    // Each direction is judged by its own delay: lateness that disturbs a terrestrial link is negligible for a space
    // link.
    for (index, link) in scenario.links.iter().enumerate() {
        for (report, spec) in outcome.links[index].iter().zip([&link.forward, &link.reverse]) {
            let from = &scenario.nodes[link.between[usize::from(!report.forward)]].name;
            let outside = |node: usize| match &scenario.nodes[node].host.kind {
                HostKind::Interface(name) => Some(name),
                HostKind::Namespace | HostKind::Container(_) | HostKind::Ssh(_) => None,
            };
            let interface = link.between.into_iter().find_map(outside);
            if let Some(interface) = interface.filter(|_| report.interface_losses > 0) {
                validity.disturbances.push(format!(
                    "Link {} from {from}: {} packets were lost at interface {interface}: it was gone, down or without a \
                     carrier, or they were larger than its MTU or that of the link.",
                    link.name, report.interface_losses
                ));
            }
            if report.other_hardware {
                validity.disturbances.push(format!(
                    "Link {}: the hardware address of {from} changed, and what was sent to it since then was lost.",
                    link.name
                ));
            }
            let signs = Signs {
                late_p99: Duration::from_secs_f64(report.late_evident_us / 1e6),
                delay: spec.longest_delay(),
                own_losses: report.own_losses,
                ..Signs::default()
            };
            let doubts = signs.doubts();
            validity.disturbances.extend(doubts.iter().map(|d| format!("Link {} from {from}: {d}.", link.name)));
        }
    }
    nodes(scenario, outcome, validity);
    // If emulator, nodes and applications have real-time priority, processes that wait are mostly others of this
    // machine. Whether the run's own waited is judged above, by lateness.
    let cpu_wait = cpu_waiting.filter(|_| !(outcome.real_time && lateness.real_time));
    let durable = scenario.nodes.iter().any(|node| node.store == StoreKind::Durable);
    // Without durable stores no node waits for a disk.
    let disk_wait = io_waiting.filter(|_| durable);
    let expected = outcome.progress.elapsed_s / PROBE_INTERVAL.as_secs_f64();
    let machine = Signs {
        cpu_wait,
        busy: outcome.watch.busy(),
        stolen: steal,
        memory_wait: memory_waiting,
        disk_wait,
        samples_lost: Some(outcome.samples_dropped as f64 / expected.max(1.0)),
        ..Signs::default()
    };
    validity.disturbances.extend(machine.doubts().iter().map(|d| format!("Machine: {d}.")));
    let name = |node: &usize| scenario.nodes[*node].name.as_str();
    let unready = outcome.unready.iter().map(name);
    let hangs = |name: &str| format!("Node {name}: it was started again and took no applications up to the end.");
    validity.disturbances.extend(unready.map(hangs));
    validity.unmeasured.extend(outcome.remarks.unmeasured.iter().cloned());
    validity.notes.extend(outcome.remarks.notes.iter().cloned());
    validity.notes.extend(notes(outcome, &lateness));
    validity.notes.extend(limits(scenario));
    let restarted: Vec<&str> = outcome.restarted.iter().map(name).collect();
    validity.notes.extend(note_of_restarts(&restarted));
}

/// Adds doubts and notes about flows, congestion controls and captures.
fn background(scenario: &Scenario, outcome: &SessionOutcome, manifest: &mut farlink_report::Manifest) {
    let validity = &mut manifest.validity;
    for flow in &manifest.flows {
        validity.disturbances.extend(flow.failure.iter().map(|failure| format!("Flow {}: {failure}.", flow.name)));
    }
    let mut controls: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let here = outcome.congestion.iter().zip(&scenario.nodes).filter(|(_, node)| !node.host.is_outside());
    for (control, node) in here {
        controls.entry(control).or_default().push(&node.name);
    }
    let words =
        |(control, nodes): (&&str, &Vec<&str>)| format!("{} at {}", hybla::described(control), nodes.join(", "));
    let words: Vec<String> = controls.iter().map(words).collect();
    validity.notes.push(format!("TCP congestion control: {}.", words.join("; ")));
    for capture in &outcome.captures {
        let link = &scenario.links[capture.link];
        validity.disturbances.extend(capture.doubt().map(|doubt| format!("Link {}: {doubt}.", link.name)));
        let file = link.capture.as_deref().unwrap_or_default();
        validity.notes.push(format!("Capture captures/{file}.pcapng holds {} frames.", capture.frames));
    }
}

/// Judges the time for which each node waited for a processor, relative to the delay of the node's shortest link; a
/// delay that varies counts at its longest.
fn nodes(scenario: &Scenario, outcome: &SessionOutcome, validity: &mut farlink_report::Validity) {
    let us = |d: Duration| d.as_secs_f64() * 1e6;
    let worst =
        |f: &dyn Fn(&crate::emulator::Lateness) -> Duration| outcome.waits.iter().map(f).map(us).fold(0.0, f64::max);
    validity.node_lateness = outcome.waits.iter().any(|w| w.count() > 0).then(|| Lateness {
        count: outcome.waits.iter().map(crate::emulator::Lateness::count).sum(),
        p50_us: worst(&|w| w.quantile(0.5)),
        p99_us: worst(&|w| w.quantile(0.99)),
        max_us: worst(&|w| w.max()),
        real_time: outcome.real_time,
    });
    for (index, waits) in outcome.waits.iter().enumerate() {
        let own = |end: farlink_scenario::LinkEnd| {
            let link = &scenario.links[end.link];
            if end.first { link.forward.longest_delay() } else { link.reverse.longest_delay() }
        };
        let delay = scenario.ends_of(index).into_iter().map(own).min().unwrap_or_default();
        let signs = Signs { late: Late::HandOver, late_p99: waits.evident_p99(), delay, ..Signs::default() };
        let name = &scenario.nodes[index].name;
        validity.disturbances.extend(signs.doubts().iter().map(|d| format!("Node {name}: {d}.")));
    }
}

fn notes(outcome: &SessionOutcome, lateness: &Lateness) -> Vec<String> {
    let isolation = if outcome.user_namespace { "a user namespace, without root" } else { "namespaces made as root" };
    let mut notes = vec![
        format!("Hosts are isolated by {isolation}."),
        "The emulator delay shown is that of the worst direction of the worst link.".to_string(),
    ];
    if !outcome.real_time {
        let ahead =
            "Nodes had no real-time priority and handed over further ahead; `farlink doctor` shows how to grant it.";
        notes.push(ahead.to_string());
    }
    if !lateness.real_time {
        notes.push("The emulator had no real-time priority; `farlink doctor` shows how to grant it.".to_string());
    }
    notes
}

/// Notes on the limits of hosts, one for each limited host.
fn limits(scenario: &Scenario) -> Vec<String> {
    let limited = scenario.nodes.iter().filter(|node| !node.host.limits().is_empty());
    let note = |node: &farlink_scenario::Node| {
        let ordinary = if node.host.quota.is_some() { ", without real-time priority" } else { "" };
        format!("The host of {} was limited to {}{ordinary}.", node.name, node.host.limits().join(", "))
    };
    limited.map(note).collect()
}

/// Note about the events that killed nodes may have lost; `None` without killed nodes.
fn note_of_restarts(nodes: &[&str]) -> Option<String> {
    (!nodes.is_empty()).then(|| {
        format!(
            "Killed nodes ({}) had unwritten events: those of the last 200 ms before the kill may be missing, and with \
             them deliveries.",
            nodes.join(", ")
        )
    })
}

/// Identity of a bundle or fragment: source, service, creation time, sequence number, offset.
type StoredKey = (Option<Text>, Option<u64>, Option<u64>, Option<u64>, Option<u64>);

/// Store occupancy of a node over time, from its events.
struct Stored {
    node: Text,
    interval_ns: u64,
    next_ns: u64,
    kept: HashMap<StoredKey, u64>,
    bytes: u64,
}

impl Stored {
    fn new(node: &str, interval: Duration) -> Self {
        let interval_ns = (interval.as_nanos() as u64).max(1);
        Stored { node: node.into(), interval_ns, next_ns: 0, kept: HashMap::new(), bytes: 0 }
    }

    fn observe(&mut self, row: &EventRow, samples: &mut Vec<SampleRow>) {
        let killed = &*row.event == "fault" && row.reason.as_deref() == Some("node down");
        if !killed && !matches!(&*row.event, "accepted" | "recovered" | "deleted" | "reassembled") {
            return;
        }
        self.flush_until(row.time_ns, samples);
        if killed {
            // The restarted node will report the bundles that it recovers from disk.
            self.kept.clear();
            self.bytes = 0;
            return;
        }
        let key = (row.source.clone(), row.service, row.creation_ms, row.sequence, row.fragment_offset);
        if &*row.event == "deleted" {
            self.bytes -= self.kept.remove(&key).unwrap_or(0);
        } else {
            // Encoded size of the whole bundle, as in the store of a simulated node.
            let size = row.bundle_bytes.or(row.size).unwrap_or(0);
            self.bytes = self.bytes + size - self.kept.insert(key, size).unwrap_or(0);
        }
    }

    /// Adds the samples that are due before `time_ns`.
    fn flush_until(&mut self, time_ns: u64, samples: &mut Vec<SampleRow>) {
        while self.next_ns < time_ns {
            for (metric, value) in [(STORED_BYTES, self.bytes), (STORED_BUNDLES, self.kept.len() as u64)] {
                samples.push(SampleRow {
                    time_ns: self.next_ns,
                    node: Some(self.node.clone()),
                    link: None,
                    metric: metric.into(),
                    value: value as f64,
                    phase: None,
                });
            }
            self.next_ns += self.interval_ns;
        }
    }
}

/// Time of the last delivery of each traffic flow, and of all flows.
struct Arrivals {
    /// Destination node and service of each traffic flow.
    traffic: Vec<(Text, u64)>,
    at: Vec<Option<u64>>,
    last: Option<u64>,
}

impl Arrivals {
    fn new(scenario: &Scenario) -> Self {
        let to = |t: &farlink_scenario::Traffic| (scenario.nodes[t.to].name.as_str().into(), u64::from(t.service));
        let traffic: Vec<(Text, u64)> = scenario.traffic.iter().map(to).collect();
        Arrivals { at: vec![None; traffic.len()], traffic, last: None }
    }

    fn observe(&mut self, row: &EventRow) {
        if &*row.event != "delivered" {
            return;
        }
        self.last = self.last.max(Some(row.time_ns));
        for (at, (node, service)) in self.at.iter_mut().zip(&self.traffic) {
            if row.destination.as_ref() == Some(node) && row.destination_service == Some(*service) {
                *at = (*at).max(Some(row.time_ns));
            }
        }
    }

    /// Sets the completion time of files that arrived intact.
    fn complete_files(&self, scenario: &Scenario, mut files: Vec<FileCheck>) -> Vec<FileCheck> {
        let is_file = |kind: &TrafficKind| matches!(kind, TrafficKind::File { .. });
        let times = scenario.traffic.iter().zip(&self.at).filter(|(t, _)| is_file(&t.kind)).map(|(_, at)| *at);
        for (file, at) in files.iter_mut().zip(times) {
            let whole = file.equal() == Some(true);
            file.complete_s = at.filter(|_| whole).map(|ns| ns as f64 / 1e9);
        }
        files
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(time_ns: u64, name: &str, sequence: u64) -> EventRow {
        let mut row = EventRow::new(time_ns, "a".into(), name);
        row.source = Some("a".into());
        row.sequence = Some(sequence);
        (row.size, row.bundle_bytes) = (Some(60), Some(100));
        row
    }

    #[test]
    fn stored_bytes_follow_events() {
        let mut stored = Stored::new("a", Duration::from_nanos(10));
        let mut samples = Vec::new();
        let rows =
            [event(5, "accepted", 1), event(12, "accepted", 2), event(25, "deleted", 1), event(26, "deleted", 9)];
        rows.iter().for_each(|row| stored.observe(row, &mut samples));
        stored.flush_until(40, &mut samples);
        let bytes: Vec<(u64, f64)> =
            samples.iter().filter(|s| &*s.metric == STORED_BYTES).map(|s| (s.time_ns, s.value)).collect();
        assert_eq!(bytes, [(0, 0.0), (10, 100.0), (20, 200.0), (30, 100.0)]);
        let bundles = samples.iter().filter(|s| &*s.metric == STORED_BUNDLES).map(|s| s.value);
        assert_eq!(bundles.collect::<Vec<_>>(), [0.0, 1.0, 2.0, 1.0]);
    }

    #[test]
    fn killed_node_keeps_recovered_bundles() {
        let mut stored = Stored::new("a", Duration::from_nanos(10));
        let mut samples = Vec::new();
        let mut down = event(12, "fault", 0);
        down.reason = Some("node down".into());
        let rows = [event(5, "accepted", 1), event(6, "accepted", 2), down, event(25, "recovered", 2)];
        rows.iter().for_each(|row| stored.observe(row, &mut samples));
        stored.flush_until(40, &mut samples);
        let bundles = samples.iter().filter(|s| &*s.metric == STORED_BUNDLES).map(|s| s.value);
        assert_eq!(bundles.collect::<Vec<_>>(), [0.0, 2.0, 0.0, 1.0]);
    }
}
