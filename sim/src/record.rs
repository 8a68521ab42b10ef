//! Run directory: records a simulation in the schema that both worlds share.

use crate::contacts::ContactEdge;
use crate::inputs;
use crate::mobility::ways::Ways;
use crate::naming::DEFAULT_EPOCH;
use crate::observe::{Nodes, Observer};
use crate::own::{OwnPolicies, Registered};
use crate::playback::{Meetings, Pair, legs};
use crate::radio::radios::RadioOutcome;
use crate::samples::Changes;
use crate::traffic::TrafficOutcome;
use crate::world::{Outcome, World};
use anyhow::Result;
use farlink_base::store::Usage;
use farlink_base::{Event, EventClass, Instant, LinkId};
use farlink_link::Statistics;
use farlink_report::schema::{LINK_QUEUE_BYTES, LINK_SENT_BYTES, STORED_BUNDLES, STORED_BYTES};
use farlink_report::{
    FileCheck, LinkRow, Manifest, MeetingRow, NodeNames, PhaseFacts, Recorder, RunWriter, SampleRow, Text, Topology,
};
use farlink_scenario::{Fidelity, Scenario, Table};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Options of a run.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Path of the run directory.
    pub folder: PathBuf,
    /// Command that repeats the run, for the manifest.
    pub command: String,
    /// Flag set by another thread to end the run, which is then written as far as it came.
    pub stop: Arc<AtomicBool>,
}

/// Progress of a run.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Simulated time so far, seconds.
    pub simulated_s: f64,
    /// Largest simulated time, seconds.
    pub duration_s: f64,
    /// Bundles delivered so far.
    pub delivered: u64,
}

/// Simulates a scenario, writes its run directory and returns the outcome.
///
/// # Errors
/// Fails if the scenario cannot be simulated (with place and hint), or if the directory cannot be written.
pub fn run(scenario: &Scenario, options: &Options, progress: &mut dyn FnMut(Progress)) -> Result<(PathBuf, Outcome)> {
    run_with(scenario, options, &Registered, progress)
}

/// As [`run`], with routers and controls of the caller.
///
/// # Errors
/// As [`run`].
pub fn run_with(
    scenario: &Scenario,
    options: &Options,
    own: &dyn OwnPolicies,
    progress: &mut dyn FnMut(Progress),
) -> Result<(PathBuf, Outcome)> {
    simulate(scenario, options, own, None, progress)
}

/// As [`run`], with an observer, which does not affect the simulation. The observer gets events, contacts and times
/// only; its [`Observer::stopped`] is not called.
///
/// # Errors
/// As [`run`].
pub fn run_watched(scenario: &Scenario, options: &Options, watcher: &mut dyn Observer) -> Result<(PathBuf, Outcome)> {
    simulate(scenario, options, &Registered, Some(watcher), &mut |_| {})
}

fn simulate<'a>(
    scenario: &Scenario,
    options: &Options,
    own: &dyn OwnPolicies,
    watcher: Option<&'a mut dyn Observer>,
    progress: &'a mut dyn FnMut(Progress),
) -> Result<(PathBuf, Outcome)> {
    let begun = std::time::Instant::now();
    // The directory is created first: an unwritable one must fail before the simulation.
    let writer = RunWriter::create(&options.folder, manifest(scenario, options)?)?;
    inputs::keep(scenario, &options.folder)?;
    let mut recording = Recording::new(scenario, writer, options.stop.clone(), progress);
    recording.watcher = watcher;
    let world = World::with_policies(scenario, recording, own)?;
    let (outcome, recording) = world.run();
    let folder = recording.finish(scenario, &outcome, begun.elapsed().as_secs_f64())?;
    Ok((folder, outcome))
}

fn manifest(scenario: &Scenario, options: &Options) -> Result<Manifest> {
    let plan = scenario.plan_file.as_ref().map(|(_, text)| text.as_str());
    let mut manifest = Manifest::new(farlink_report::RunWorld::Sim, &scenario.name, &scenario.text, plan);
    manifest.description = scenario.description.clone();
    manifest.seed = scenario.seed;
    manifest.duration_limit_s = scenario.duration.as_secs_f64();
    manifest.start_utc = scenario.epoch.unwrap_or(DEFAULT_EPOCH).to_string();
    manifest.topology = Topology::from_json(&scenario.topology_json())?;
    manifest.expect.delivery_ratio = scenario.expect.delivery_ratio;
    manifest.expect.finished_within_s = scenario.expect.finished_within.map(|d| d.as_secs_f64());
    manifest.expect.wall_time_lab_s = scenario.expect.wall_time_lab.map(|d| d.as_secs_f64());
    manifest.command = options.command.clone();
    manifest.phases = (0..scenario.phases.len()).filter_map(|phase| phase_facts(scenario, phase)).collect();
    manifest.fidelity = match scenario.fidelity {
        Fidelity::Message => Some("message".to_string()),
        Fidelity::Full => Some("full".to_string()),
    };
    Ok(manifest)
}

/// The latest span of a phase that the scenario allows: in a simulation no event ends a phase early. `None` for a phase
/// that only an event can begin.
fn phase_facts(scenario: &Scenario, phase: usize) -> Option<PhaseFacts> {
    let (start, end) = scenario.latest_span(phase)?;
    Some(PhaseFacts {
        name: scenario.phases[phase].name.clone(),
        kind: scenario.phases[phase].kind.word().to_string(),
        start_s: start.as_secs_f64(),
        end_s: end.unwrap_or(scenario.duration).as_secs_f64(),
        ..PhaseFacts::default()
    })
}

/// Names of a link direction.
struct DirectionNames {
    link: Text,
    from: Text,
    to: Text,
}

/// Observer that writes the tables.
struct Recording<'a> {
    writer: RunWriter,
    recorders: Vec<Recorder>,
    nodes: Vec<Text>,
    /// Names of each link's two directions, forward and reverse.
    links: Vec<[DirectionNames; 2]>,
    segments: bool,
    /// Whether the tables of events and samples are wanted.
    events: bool,
    samples: bool,
    /// Sampled values: two of each node, then two of each direction of each link.
    changes: Changes,
    /// First error of writing.
    failed: Option<anyhow::Error>,
    duration_s: f64,
    stop: Arc<AtomicBool>,
    progress: &'a mut dyn FnMut(Progress),
    /// Open contacts, if that table is wanted, and the names of radios.
    meetings: Option<Meetings>,
    radios: Vec<Text>,
    /// Additional observer of the caller.
    watcher: Option<&'a mut dyn Observer>,
}

impl<'a> Recording<'a> {
    fn new(
        scenario: &Scenario,
        mut writer: RunWriter,
        stop: Arc<AtomicBool>,
        progress: &'a mut dyn FnMut(Progress),
    ) -> Recording<'a> {
        let tables = &scenario.measure.tables;
        if !tables.contains(&Table::Events) {
            writer.without_events();
        }
        let nodes: Vec<Text> = scenario.nodes.iter().map(|n| Text::from(n.name.as_str())).collect();
        let names = Arc::new(NodeNames::new(scenario.nodes.iter().map(|n| (n.number, n.name.as_str()))));
        let recorder = |index: usize| {
            let ends = scenario.ends_of(index);
            let links: Vec<&str> = ends.iter().map(|end| scenario.links[end.link].name.as_str()).collect();
            Recorder::new(&nodes[index], &links, names.clone())
        };
        let links = scenario.links.iter().map(|link| {
            let direction = |from: usize, to: usize| DirectionNames {
                link: link.name.as_str().into(),
                from: nodes[link.between[from]].clone(),
                to: nodes[link.between[to]].clone(),
            };
            [direction(0, 1), direction(1, 0)]
        });
        Recording {
            recorders: (0..nodes.len()).map(recorder).collect(),
            links: links.collect(),
            nodes,
            writer,
            segments: scenario.measure.segments,
            events: tables.contains(&Table::Events),
            samples: tables.contains(&Table::Samples),
            changes: Changes::new(2 * scenario.nodes.len() + 4 * scenario.links.len()),
            failed: None,
            duration_s: scenario.duration.as_secs_f64(),
            stop,
            progress,
            meetings: tables.contains(&Table::Meetings).then(Meetings::default),
            radios: scenario.radios.iter().map(|radio| Text::from(radio.name.as_str())).collect(),
            watcher: None,
        }
    }

    fn note(&mut self, result: Result<()>) {
        if let Err(error) = result {
            self.failed.get_or_insert(error);
        }
    }

    fn see(&mut self, series: usize, at: Instant, value: u64) {
        // Unchanged values are not written again.
        for (at, value) in self.changes.see(series, at, value) {
            self.write_sample(series, at, value);
        }
    }

    fn write_sample(&mut self, series: usize, at: Instant, value: u64) {
        let of_nodes = 2 * self.nodes.len();
        let (node, link, metric) = match series.checked_sub(of_nodes) {
            None => (&self.nodes[series / 2], None, series % 2),
            Some(place) => {
                let names = &self.links[place / 4][place / 2 % 2];
                (&names.from, Some(names.link.clone()), 2 + place % 2)
            }
        };
        let metric = Text::word([STORED_BYTES, STORED_BUNDLES, LINK_SENT_BYTES, LINK_QUEUE_BYTES][metric]);
        let row = SampleRow { time_ns: at.0, node: Some(node.clone()), link, metric, value: value as f64, phase: None };
        let result = self.writer.sample(&row);
        self.note(result);
    }

    fn write_meeting(&mut self, (radio, a, b): Pair, start: Instant, end: Instant) {
        // The run may end as a contact begins: a row of no duration shows nothing.
        if start < end {
            let [node, peer] = [a, b].map(|node| self.nodes[node as usize].clone());
            let radio = self.radios[usize::from(radio)].clone();
            let result = self.writer.meeting(&MeetingRow { radio, node, peer, start_ns: start.0, end_ns: end.0 });
            self.note(result);
        }
    }

    fn write_playback(&mut self, scenario: &Scenario, ended: Instant) {
        // Contacts still open have no edge that would write them: the end of the run closes them.
        let rest: Vec<_> = self.meetings.iter().flat_map(Meetings::rest).collect();
        rest.into_iter().for_each(|(pair, since)| self.write_meeting(pair, since, ended));
        if scenario.measure.tables.contains(&Table::Legs) {
            let (mut ways, writer) = (Ways::of_scenario(scenario), &mut self.writer);
            let written = legs(&mut ways, &self.nodes, ended.as_secs_f64(), &mut |row| writer.leg(row));
            if let Ok(false) = written {
                let note = "The table of legs is not whole: nodes have more of them than it holds.";
                self.writer.manifest().validity.notes.push(note.into());
            }
            self.note(written.map(drop));
        }
    }

    fn finish(mut self, scenario: &Scenario, outcome: &Outcome, wall_s: f64) -> Result<PathBuf> {
        let rest: Vec<_> = self.changes.rest().collect();
        rest.into_iter().for_each(|(series, at, value)| self.write_sample(series, at, value));
        self.write_playback(scenario, outcome.ended);
        if let Some(error) = self.failed {
            return Err(error);
        }
        if scenario.measure.tables.contains(&Table::Links) {
            for (names, counted) in self.links.iter().flatten().zip(outcome.links.iter().flatten()) {
                self.writer.link(LinkRow::new(&names.link, &names.from, &names.to, counted));
            }
        }
        let manifest = self.writer.manifest();
        manifest.duration_s = outcome.ended.as_secs_f64();
        let end_s = manifest.duration_s;
        manifest.phases.retain(|phase| phase.start_s < end_s);
        manifest.phases.iter_mut().for_each(|phase| phase.end_s = phase.end_s.min(end_s));
        manifest.wall_s = wall_s;
        manifest.files = outcome.traffic.iter().filter_map(file_check).collect();
        for facts in &mut manifest.topology.traffic {
            let mine = outcome.traffic.iter().filter(|entry| entry.flow == facts.name);
            facts.offered = Some(mine.map(|entry| entry.offered).sum());
        }
        manifest.flows.clone_from(&outcome.flows);
        let trace = format!(
            "Trace hash {:016x} of {} happenings: the same scenario and seed give the same.",
            outcome.trace, outcome.happenings
        );
        manifest.validity.notes.push(trace);
        manifest.validity.notes.extend(scenario.notes_of_simulation());
        manifest.validity.notes.extend(outcome.radios.iter().map(radio_note));
        if (0..scenario.links.len()).any(|link| scenario.is_secured(link) == Some(true)) {
            manifest.validity.notes.push(modelled(scenario.fidelity));
        }
        // An interrupted run is complete up to its end, but marked as unfinished.
        if outcome.stopped { self.writer.interrupted() } else { self.writer.finish() }
    }
}

fn radio_note(radio: &RadioOutcome) -> String {
    // Returns a sentence for the notes of the manifest.
    let RadioOutcome { name, contacts, up, counted, refused } = radio;
    let mean_s = up.as_secs_f64() / (*contacts).max(1) as f64;
    let (sent, arrived) = (counted.sent, counted.delivered);
    format!(
        "Radio {name}: {contacts} contacts of {mean_s:.3} s on average, {sent} bundles sent, of which {arrived} arrived whole; {refused} more were refused before."
    )
}

fn modelled(fidelity: Fidelity) -> String {
    // Reports must state that TLS is modelled and not computed.
    let what = match fidelity {
        Fidelity::Full => {
            "the round trips and the bytes of its handshake, and the bytes of its records, as certificates of `farlink node certs` have them"
        }
        Fidelity::Message => "the bytes of its records",
    };
    format!("TLS is modelled, not computed: {what}; nothing is enciphered, and everybody is who the scenario says.")
}

fn file_check(traffic: &TrafficOutcome) -> Option<FileCheck> {
    let sent_bytes = traffic.file_bytes?;
    Some(FileCheck {
        traffic: traffic.name.clone(),
        sent_bytes,
        received_bytes: traffic.delivered_bytes,
        sent_checksum: None,
        received_checksum: None,
        complete_s: traffic.complete_at.map(Instant::as_secs_f64),
    })
}

impl Recording<'_> {
    fn records(&self, class: EventClass) -> bool {
        match class {
            EventClass::Segment => self.segments,
            // Recorded even without the table of events: the table of bundles is derived from them.
            EventClass::Bundle => true,
            EventClass::Link | EventClass::Node => self.events,
        }
    }
}

impl Observer for Recording<'_> {
    fn wants(&self, class: EventClass) -> bool {
        self.records(class) || self.watcher.as_ref().is_some_and(|watcher| watcher.wants(class))
    }
    fn event(&mut self, at: Instant, node: usize, event: &Event) {
        if let Some(watcher) = &mut self.watcher {
            watcher.event(at, node, event);
            if !self.records(event.class()) {
                return;
            }
        }
        if let Some(row) = self.recorders[node].row(at.0, event) {
            let result = self.writer.event(&row);
            self.note(result);
        }
    }
    fn link_named(&mut self, node: usize, link: LinkId, name: &str) {
        self.recorders[node].name_link(link, name);
        if let Some(watcher) = &mut self.watcher {
            watcher.link_named(node, link, name);
        }
    }
    fn contact(&mut self, edge: &ContactEdge) {
        if let Some(since) = self.meetings.as_mut().and_then(|meetings| meetings.see(edge)) {
            self.write_meeting((edge.radio, edge.a, edge.b), since, edge.at);
        }
        if let Some(watcher) = &mut self.watcher {
            watcher.contact(edge);
        }
    }
    fn reach(&mut self, at: Instant, nodes: &Nodes<'_>) {
        if let Some(watcher) = &mut self.watcher {
            watcher.reach(at, nodes);
        }
    }
    fn samples(&self) -> bool {
        self.samples
    }
    fn node_sample(&mut self, at: Instant, node: usize, usage: &Usage) {
        self.see(2 * node, at, usage.bytes);
        self.see(2 * node + 1, at, usage.bundles);
    }
    fn link_sample(&mut self, at: Instant, link: usize, forward: bool, queued: u64, counted: &Statistics) {
        let first = 2 * self.nodes.len() + 4 * link + 2 * usize::from(!forward);
        self.see(first, at, counted.sent_bytes);
        self.see(first + 1, at, queued);
    }
    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
    fn progress(&mut self, at: Instant, delivered: u64) {
        (self.progress)(Progress { simulated_s: at.as_secs_f64(), duration_s: self.duration_s, delivered });
    }
}
