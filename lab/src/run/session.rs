//! Live part of a run, from the creation of the hosts to the exit of the last process.

use super::baseline::Baseline;
use super::crew::Crew;
use super::flows;
use super::folder::RunFolder;
use super::nodes::{FIRST_COMPANION, FIRST_HELPER};
use super::outcome::{ProcessRecord, Remarks, SessionOutcome};
use super::phases::Phases;
use super::restarts::Restarts;
use super::retention::{FIRST_ZERO_WORK, Retention};
use super::usage::Usages;
use super::zero_work::ZeroWorks;
use super::{LabOptions, LabProgress, hosts};
use crate::attached::{self, Outside};
use crate::container;
use crate::driver::{BundleTally, Driver, NodeContext, Program};
use crate::drivers;
use crate::emulator::capture::CaptureSummary;
use crate::emulator::{Lateness, MachineWatch};
use crate::supervisor::{LinkModels, LinkReport, ProcessUsage, Reply, Request, Role, SignalName, SpawnSetup};
use anyhow::{Context, Result, bail};
use farlink_base::DtnTime;
use farlink_report::SampleRow;
use farlink_report::schema::{LINK_QUEUE_BYTES, LINK_SENT_BYTES};
use farlink_scenario::{LinkChange, Medium, Scenario, TrafficKind};
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

// Time for nodes to get ready before the run starts: a base, and an addition for each node.
const LEAD: Duration = Duration::from_millis(1200);
const LEAD_PER_NODE: Duration = Duration::from_millis(200);
// Longest wait for nodes that need not know when the run starts.
const LONGEST_START: Duration = Duration::from_secs(3600);
// An OCI runtime starts a program in 0.2 to 0.5 s on a loaded machine.
const LEAD_PER_CONTAINER: Duration = Duration::from_millis(500);
// Longest wait for the supervisor in one turn of the loop.
const TURN: Duration = Duration::from_millis(10);
// Interval at which bundles are counted; nodes write their events every 200 ms.
const LOOK: Duration = Duration::from_millis(200);
// Time for processes to end after each signal; the end of the supervisor kills the rest.
const GRACE: Duration = Duration::from_secs(5);
// Real-time priorities, where permitted: nodes above applications, as a separate machine would serve its network first.
// Both are below the priority of the emulator (50), which serves all nodes.
const NODE_PRIORITY: i32 = 20;
const APPLICATION_PRIORITY: i32 = 10;
/// First process number of applications; a node's process has the index of the node.
pub const FIRST_APPLICATION: u32 = 1 << 16;
// First process numbers of programs that change links, and of programs of baselines.
const FIRST_CHANGE: u32 = 1 << 24;
pub const FIRST_BASELINE: u32 = 1 << 25;
/// Time between two samples of the probes.
pub const PROBE_INTERVAL: Duration = Duration::from_millis(100);

/// Process of the run at a node: the node itself or an application.
#[derive(Clone, Debug)]
pub struct SessionProcess {
    pub id: u32,
    name: String,
    pub node: usize,
    /// Index of the traffic flow that the process sends.
    pub sends: Option<usize>,
    /// Index of the traffic flow that the process receives.
    pub receives: Option<usize>,
    pub exited: Option<(Option<i32>, Option<i32>)>,
    /// Whether the session killed the process on purpose, or tolerates its failure.
    pub killed: bool,
}

/// Run in progress, with everything that it has measured so far.
pub struct LabSession<'a> {
    pub scenario: &'a Scenario,
    pub folder: &'a RunFolder,
    pub program: PathBuf,
    pub crew: Crew,
    pub drivers: Vec<Box<dyn Driver>>,
    pub start_ns: u64,
    pub epoch: DtnTime,
    pub processes: Vec<SessionProcess>,
    pub restarts: Restarts,
    pub phases: Phases,
    pub baseline: Baseline,
    pub zero_works: ZeroWorks,
    pub retention: Option<Retention>,
    pub usages: Usages,
    pub records: Vec<ProcessRecord>,
    groups: bool,
    pub remarks: Remarks,
    /// Whether all bundles created so far were delivered when they were last counted.
    pub delivered: bool,
    /// Whether the last values of usage and samples were read.
    pub closed: bool,
    pub samples_dropped: u64,
    links: Vec<[LinkReport; 2]>,
    /// Whether the counters of each link's two directions are final.
    frozen: Vec<[bool; 2]>,
    /// Frames that the networks to other machines lost: link, direction, number.
    pub lost_in_tunnels: Vec<(usize, usize, u64)>,
    captures: Vec<CaptureSummary>,
    congestion: Vec<String>,
    pub ended: bool,
    pub stopping: bool,
    pub samples: Vec<SampleRow>,
    waiting: Vec<usize>,
    /// Link changes that are still to come, and the number of programs started for past ones.
    changes: VecDeque<LinkChange>,
    changed: u32,
    /// Programs started so far that belong to nodes, and those that wait for nodes or end them.
    pub companions: u32,
    pub helpers: u32,
    /// Whether the emulator has reported that all links are up.
    emulating: bool,
    pub waits: Vec<Lateness>,
    real_time: bool,
    watch: MachineWatch,
}

impl<'a> LabSession<'a> {
    /// Sets up hosts and links, starts the nodes, and waits until all are ready. Then starts the receivers.
    pub fn start(
        scenario: &'a Scenario,
        options: &LabOptions,
        folder: &'a RunFolder,
        progress: &mut dyn FnMut(&'static str),
    ) -> Result<Self> {
        let program = super::absolute(&options.program)?;
        // Missing programs must fail the run before anything is set up.
        hosts::check_outside(scenario)?;
        hosts::check_machines(scenario)?;
        let drivers =
            (0..scenario.nodes.len()).map(|node| drivers::make(scenario, node)).collect::<Result<Vec<_>>>()?;
        let (containers, images): (Vec<_>, Vec<_>) =
            container::prepare(scenario, folder.root(), &program)?.into_iter().map(Option::unzip).unzip();
        let congestion = hosts::congestion(scenario);
        let contained = containers.iter().flatten().count() as u32;
        let (crew, made) = Crew::start(scenario, folder, &program, &congestion, containers, &options.stop, progress)?;
        let mut remarks = Remarks { disturbances: hosts::short_queues(scenario), ..Remarks::default() };
        remarks.notes.push(match &made.no_groups {
            None => "CPU and memory of each role were counted by control groups, limits kept by them.".to_string(),
            Some(why) => format!(
                "CPU and memory of each role were counted by /proc, processes told apart by an environment mark, since \
                 no control group could be made: {}.",
                why.lines().next().unwrap_or_default()
            ),
        });
        remarks.notes.extend(images.into_iter().flatten());
        let [removed, left] = &crew.local().swept;
        if !removed.is_empty() {
            remarks.notes.push(format!("Control groups of ended runs were removed: {}.", removed.join(", ")));
        }
        remarks.notes.extend(hosts::notes_of_outside(scenario));
        if !left.is_empty() {
            remarks.notes.push(format!("Control groups of ended runs could not be removed: {}.", left.join(", ")));
        }
        let lead = LEAD + LEAD_PER_NODE * scenario.nodes.len() as u32 + LEAD_PER_CONTAINER * contained;
        // A provisional start, which is chosen again once the nodes that start early are ready.
        let (start_ns, epoch) = choose_start(LONGEST_START);
        let started = |traffic: &usize| drivers[scenario.traffic[*traffic].from].is_started();
        let mut waiting: Vec<usize> = (0..scenario.traffic.len()).filter(started).collect();
        // Latest first, so that the next sender to start is cheap to remove from the end.
        waiting.sort_by_key(|t| std::cmp::Reverse(scenario.traffic[*t].start));
        let mut session = LabSession {
            scenario,
            folder,
            program,
            crew,
            drivers,
            start_ns,
            epoch,
            processes: Vec::new(),
            restarts: Restarts::new(scenario),
            phases: Phases::new(scenario),
            baseline: Baseline::default(),
            zero_works: ZeroWorks::default(),
            retention: Retention::new(scenario),
            usages: Usages::new(scenario),
            records: Vec::new(),
            groups: made.no_groups.is_none(),
            remarks,
            delivered: false,
            closed: false,
            samples_dropped: 0,
            links: vec![Default::default(); scenario.links.len()],
            frozen: vec![[false; 2]; scenario.links.len()],
            lost_in_tunnels: Vec::new(),
            captures: Vec::new(),
            congestion,
            ended: false,
            stopping: false,
            samples: Vec::new(),
            waiting,
            // A link that the nodes must discover appears without an instruction to them.
            changes: scenario.link_changes().into_iter().filter(|change| !scenario.links[change.link].found).collect(),
            changed: 0,
            companions: 0,
            helpers: 0,
            emulating: false,
            waits: vec![Lateness::default(); scenario.nodes.len()],
            real_time: made.real_time,
            watch: MachineWatch::start(),
        };
        session.check_restarts()?;
        session.note_versions();
        session.start_early_nodes(&options.stop)?;
        (session.start_ns, session.epoch) = session.agree_start(lead, &options.stop)?;
        session.emulate()?;
        session.start_nodes()?;
        Ok(session)
    }

    /// Chooses the start of the run, at least `lead` from now. Machines outside begin their contact plan at the
    /// scenario's `epoch`, so with them the run waits for it.
    fn agree_start(&mut self, lead: Duration, stop: &AtomicBool) -> Result<(u64, DtnTime)> {
        let scenario = self.scenario;
        let outside = scenario.nodes.iter().any(|node| node.host.is_outside());
        let Some(epoch) = scenario.epoch.filter(|_| outside) else { return Ok(choose_start(lead)) };
        let left = || {
            let until = Duration::from_millis(epoch.as_unix_ms());
            until.checked_sub(Duration::from_nanos(farlink_os::realtime_ns()) + lead)
        };
        if left().is_none() {
            bail!(
                "`epoch = \"{epoch}\"` is less than {:.1} s ahead\nhint: machines outside begin their contact plan \
                 then; write a later one, and start the run before it",
                lead.as_secs_f64()
            );
        }
        while left().is_some() {
            if stop.load(Ordering::Relaxed) {
                bail!("stopped");
            }
            self.turn()?;
        }
        // The clock may have been stepped past the epoch; the nodes are then not ready in time.
        let epoch_ns = Duration::from_millis(epoch.as_unix_ms()).as_nanos() as u64;
        let wait = epoch_ns.saturating_sub(farlink_os::realtime_ns());
        Ok((farlink_os::monotonic_ns() + wait, epoch))
    }

    fn emulate(&mut self) -> Result<()> {
        let interval_ms = self.scenario.measure.interval.as_millis().max(1) as u64;
        let text = self.scenario.text.clone();
        let folder = super::absolute(&self.scenario.folder)?;
        self.crew.tell(&Request::Emulate {
            links: LinkModels::Scenario { text, folder },
            seed: self.scenario.seed,
            start_ns: Some(self.start_ns),
            interval_ms,
            captures: hosts::captures(self.scenario, self.folder),
            retention: self.retention.is_some(),
        })?;
        let store = |index: usize| Some((index, self.drivers[index].store(&self.context(index))?));
        let stores = (0..self.drivers.len()).filter_map(store).collect();
        let tcp = self.scenario.links.iter().any(|link| link.layer.kind.medium == Medium::Streams);
        // Reading is costly, so the probes read ten times a second, whatever interval the scenario wants between rows.
        let interval_ms = PROBE_INTERVAL.as_millis() as u64;
        self.crew.tell(&Request::Probe { interval_ms, start_ns: self.start_ns, tcp, stores })
    }

    pub fn context(&self, index: usize) -> NodeContext<'_> {
        NodeContext {
            scenario: self.scenario,
            index,
            folder: self.folder.node(index),
            epoch: self.epoch_at(index),
            program: &self.program,
            real_time: self.real_time,
        }
    }

    fn note_versions(&mut self) {
        for (index, driver) in self.drivers.iter().enumerate().filter(|(_, driver)| !driver.needs_epoch()) {
            let node = &self.scenario.nodes[index];
            let version = driver.version(self.folder.node(index)).unwrap_or_else(|| "of unknown version".into());
            self.remarks.notes.push(format!("Node {} ran {} {version}.", node.name, driver.name()));
        }
    }

    /// Starts the nodes that know when the run starts, and all receivers.
    fn start_nodes(&mut self) -> Result<()> {
        let late = |node: &usize| self.drivers[*node].needs_epoch() && self.drivers[*node].is_started();
        for node in (0..self.scenario.nodes.len()).filter(late).collect::<Vec<_>>() {
            let program = self.drivers[node].prepare(&self.context(node))?;
            self.spawn(node as u32, node, "node", program)?;
        }
        for node in 0..self.scenario.nodes.len() {
            while !self.drivers[node].ready(&self.context(node)) {
                let name = &self.scenario.nodes[node].name;
                self.turn_before_start(|| format!("node `{name}` was"))?;
            }
        }
        while !self.emulating {
            self.turn_before_start(|| "the links were".to_string())?;
        }
        for traffic in 0..self.scenario.traffic.len() {
            self.start_receiver(traffic, &attached::label(self.scenario, traffic))?;
        }
        self.start_flow_receivers()
    }

    fn turn_before_start(&mut self, who: impl FnOnce() -> String) -> Result<()> {
        self.turn()?;
        // Fail if less than 20 ms are left to the start.
        if farlink_os::monotonic_ns() + 20_000_000 > self.start_ns {
            let hint = "hint: this machine may be too busy; `farlink doctor` looks at it";
            bail!("{} not ready in time\n{hint}", who());
        }
        Ok(())
    }

    pub fn spawn(&mut self, id: u32, node: usize, name: &str, program: Program) -> Result<&mut SessionProcess> {
        let folder = self.folder.node(node);
        self.crew.tell(&Request::Spawn(SpawnSetup {
            id,
            host: node,
            role: role_of(id),
            command: program.command,
            environment: program.environment,
            directory: folder.to_path_buf(),
            stdout: Some(folder.join(format!("{name}.out"))),
            stderr: Some(folder.join(format!("{name}.log"))),
            real_time: self.real_time.then_some(match id {
                // A zero-work relay gets the priority of the node that it replaces.
                ..FIRST_APPLICATION | FIRST_ZERO_WORK.. => NODE_PRIORITY,
                _ => APPLICATION_PRIORITY,
            }),
        }))?;
        let name = name.to_string();
        self.processes.push(SessionProcess {
            id,
            name,
            node,
            sends: None,
            receives: None,
            exited: None,
            killed: false,
        });
        self.processes.last_mut().context("it was added")
    }

    /// Runs until the scenario's duration is over, `stop` is set, or, with `stop_when_delivered`, all traffic is
    /// delivered and no phase remains; then takes everything down.
    pub fn run(mut self, stop: &AtomicBool, progress: &mut dyn FnMut(LabProgress)) -> Result<SessionOutcome> {
        let duration = self.scenario.duration;
        let mut state = LabProgress { phase: "running", duration_s: duration.as_secs_f64(), ..LabProgress::default() };
        let mut look_at = self.start_ns;
        let (mut complete, mut stopped, mut flows_begun) = (false, false, 0);
        while !complete || !self.scenario.stop_when_delivered || !self.phases.may_end() || !self.zero_works.is_over() {
            let now = farlink_os::monotonic_ns();
            let elapsed = Duration::from_nanos(now.saturating_sub(self.start_ns));
            stopped = stop.load(Ordering::Relaxed);
            if stopped || elapsed >= duration {
                state.elapsed_s = elapsed.min(duration).as_secs_f64();
                break;
            }
            if now >= self.start_ns {
                self.change_due_links(elapsed)?;
                self.restart_due_nodes(elapsed)?;
                self.start_due_flows(elapsed, &mut flows_begun)?;
            }
            self.start_due_senders(elapsed, now >= self.start_ns)?;
            if now >= self.start_ns {
                self.change_phase(elapsed)?;
            }
            if now >= look_at {
                look_at = now + LOOK.as_nanos() as u64;
                let tally = self.tally();
                state.elapsed_s = elapsed.as_secs_f64();
                (state.created, state.delivered) = (tally.created, tally.delivered);
                // Nodes write their events with a delay, so bundles that were already sent may not be counted yet.
                let all_counted = tally.created >= sent_at_least(self.scenario);
                // Of bundles to machines outside only the sending is known.
                let nothing = sent_at_least(self.scenario) == 0 && !self.scenario.traffic.is_empty();
                let delivered = (tally.created > 0 || nothing) && tally.delivered >= tally.created;
                self.delivered = delivered && tally.created >= self.begun_at_least();
                complete = self.all_sent() && all_counted && delivered;
                progress(state);
            }
            self.turn()?;
        }
        self.ended = true;
        let unready = self.restarts.unready();
        self.end_phases()?;
        let tally = self.take_down()?;
        self.note_fallen()?;
        let phases = self.collect_phases();
        let user_namespace = self.crew.local().user_namespace;
        let starts_ns = (0..self.scenario.nodes.len()).map(|node| self.start_at(node)).collect();
        let left = self.crew.end()?;
        self.remarks.disturbances.extend(left.iter().map(|path| {
            format!("Machine: the control group {} is left; `rmdir` it once it is empty.", path.display())
        }));
        (state.created, state.delivered) = (tally.created, tally.delivered);
        Ok(SessionOutcome {
            starts_ns,
            epoch: self.epoch,
            progress: state,
            complete,
            stopped,
            restarted: self.restarts.restarted(),
            unready,
            drivers: self.drivers,
            links: self.links,
            captures: self.captures,
            congestion: self.congestion,
            samples: self.samples,
            processes: self.records,
            phases,
            roles: self.usages.whole(),
            groups: self.groups,
            remarks: self.remarks,
            samples_dropped: self.samples_dropped,
            waits: self.waits,
            real_time: self.real_time,
            watch: self.watch,
            user_namespace,
            program: self.program,
        })
    }

    fn change_due_links(&mut self, elapsed: Duration) -> Result<()> {
        while let Some(change) = self.changes.pop_front_if(|change| change.at <= elapsed) {
            let between = self.scenario.links[change.link].between;
            for node in between.into_iter().filter(|node| self.drivers[*node].is_started()).collect::<Vec<_>>() {
                let program = self.drivers[node].change_link(&self.context(node), change)?;
                let word = if change.appears { "appears" } else { "disappears" };
                let name = format!("{}-{word}", self.scenario.links[change.link].name);
                self.spawn(FIRST_CHANGE + self.changed, node, &name, program)?;
                self.changed += 1;
            }
        }
        Ok(())
    }

    fn start_due_senders(&mut self, elapsed: Duration, started: bool) -> Result<()> {
        if !started {
            return Ok(());
        }
        while let Some(place) = next_due(self.scenario, &self.waiting, elapsed, |node| self.restarts.awaits(node)) {
            let traffic = self.waiting.remove(place);
            let entry = &self.scenario.traffic[traffic];
            // The last count does not include this sender's bundles.
            self.delivered = false;
            let content = self.folder.content(self.scenario, traffic);
            let echo = self.drivers[entry.to].attachment(&self.context(entry.to))?.echo;
            let context = self.context(entry.from);
            let program = self.drivers[entry.from].sender(&context, traffic, content.as_deref(), echo)?;
            let id = FIRST_APPLICATION + traffic as u32 * 2;
            self.spawn(id, entry.from, &format!("{}-sender", attached::label(self.scenario, traffic)), program)?
                .sends = Some(traffic);
        }
        Ok(())
    }

    /// Whether a sender of the scenario has not been started yet.
    pub fn has_waiting_senders(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Number of bundles that the senders begun so far create; 0 (unknown) once a node was killed.
    fn begun_at_least(&self) -> u64 {
        // Killed senders stop in the middle, and killed nodes lose events.
        if !self.restarts.restarted().is_empty() {
            return 0;
        }
        let begun = self.processes.iter().filter_map(|process| process.sends);
        begun.map(|traffic| created_by(self.scenario, traffic)).sum()
    }

    fn all_sent(&self) -> bool {
        self.waiting.is_empty() && self.processes.iter().all(|p| p.sends.is_none() || p.exited.is_some())
    }

    fn tally(&mut self) -> BundleTally {
        let mut total = BundleTally::default();
        for node in 0..self.drivers.len() {
            let tally = self.with_driver(node, |driver, context| driver.tally(context));
            total.created += tally.created;
            total.delivered += tally.delivered;
        }
        total
    }

    /// Waits a moment for the supervisor and processes its replies.
    pub fn turn(&mut self) -> Result<()> {
        let mut reply = self.crew.next(TURN)?;
        while let Some((machine, said)) = reply {
            match machine {
                None => self.note(said)?,
                Some(machine) => self.note_there(machine, said)?,
            }
            reply = self.crew.next(Duration::ZERO)?;
        }
        Ok(())
    }

    fn note(&mut self, reply: Reply) -> Result<()> {
        match reply {
            Reply::Link(report) => self.note_link(*report),
            Reply::Read { at_ns, readings } => {
                let time_ns = at_ns.checked_sub(self.start_ns);
                self.usages.note(None, time_ns, &readings, &mut self.samples);
            }
            Reply::Waited { id, at_ns, waits } => {
                if let Some(own) = self.waits.get_mut(id as usize).filter(|_| at_ns >= self.start_ns) {
                    waits.iter().for_each(|[ns, times]| own.add_many(*ns, *times));
                }
            }
            Reply::Phase { at_ns, dropped, .. } => return self.note_boundary(at_ns, dropped),
            Reply::Exited { id, code, signal, usage, .. } => return self.note_exit(id, code, signal, usage),
            Reply::EmulatorEnded { usage, killed_for_memory, dropped } => {
                // Samples left out during the shutdown concern no result.
                if !self.closed {
                    self.samples_dropped = dropped;
                }
                for (node, killed) in self.scenario.nodes.iter().zip(killed_for_memory).filter(|(_, n)| *n > 0) {
                    let text = format!("Node {}: {killed} processes were killed at its memory limit.", node.name);
                    self.remarks.disturbances.push(text);
                }
                let record = ProcessRecord { node: None, name: "emulator".into(), role: Role::Emulator, usage };
                self.records.push(record);
                if !self.stopping {
                    bail!("the link emulator ended by itself");
                }
            }
            Reply::Emulating { .. } => self.emulating = true,
            Reply::Captured(summary) => self.captures.push(summary),
            Reply::Retention(part) => {
                if let Some(retention) = &mut self.retention {
                    retention.note(part);
                }
            }
            Reply::Ready { .. }
            | Reply::SetUp { .. }
            | Reply::Started { .. }
            | Reply::Relaying
            | Reply::Relayed { .. }
            | Reply::Failed { .. } => {}
        }
        Ok(())
    }

    fn note_link(&mut self, report: LinkReport) {
        let (link, direction) = (report.link, usize::from(!report.forward));
        // Traffic during the shutdown does not belong to the run.
        if self.frozen[link][direction] {
            return;
        }
        self.frozen[link][direction] = self.ended;
        let names = &self.scenario.links[link];
        let from = self.scenario.nodes[names.between[direction]].name.clone();
        let link_name = names.name.clone();
        if !self.ended {
            self.sample(report.at_ns, &from, Some(&link_name), LINK_SENT_BYTES, report.sent[1] as f64);
            self.sample(report.at_ns, &from, Some(&link_name), LINK_QUEUE_BYTES, report.queued_bytes as f64);
        }
        self.links[link][direction] = report;
    }

    fn sample(&mut self, time_ns: u64, node: &str, link: Option<&str>, metric: &str, value: f64) {
        let (node, link) = (Some(node.into()), link.map(Into::into));
        self.samples.push(SampleRow { time_ns, node, link, metric: metric.into(), value, phase: None });
    }

    /// Records the exit of a process. Fails, which ends the run, if a node exits early or an application without
    /// success.
    pub fn note_exit(&mut self, id: u32, code: Option<i32>, signal: Option<i32>, usage: ProcessUsage) -> Result<()> {
        let Some(process) = self.processes.iter_mut().find(|p| p.id == id && p.exited.is_none()) else { return Ok(()) };
        process.exited = Some((code, signal));
        let process = process.clone();
        let (node, role) = (Some(process.node), role_of(id));
        self.records.push(ProcessRecord { node, name: process.name.clone(), role, usage });
        let how = match (code, signal) {
            (Some(code), _) => format!("status {code}"),
            (None, Some(signal)) => format!("signal {signal}"),
            (None, None) => "no status".to_string(),
        };
        let is_node = id < FIRST_APPLICATION;
        // Status 0 is no failure of a companion, nor of a program that has started its node in the background.
        if is_node && code == Some(0) && (id >= FIRST_COMPANION || self.drivers[process.node].forks()) {
            return Ok(());
        }
        if id > FIRST_HELPER && !self.stopping && code != Some(0) && !process.killed {
            let (node, name) = (&self.scenario.nodes[process.node].name, self.drivers[process.node].name().to_string());
            bail!("node `{node}` ({name}) did not get ready: {how}\nhint: its log shows why");
        }
        // Background traffic that fails is a doubt about the run, not its end.
        if !self.stopping && !process.killed && !flows::is_flow(id) && (is_node || code != Some(0)) {
            let node = &self.scenario.nodes[process.node];
            let hint = match node.host.memory {
                Some(memory) if signal == Some(9) => {
                    format!("\nhint: its host has {memory} of memory, and who needs more is killed")
                }
                _ => String::new(),
            };
            bail!("`{}` at node `{}` ended by itself: {how}{hint}", process.name, node.name);
        }
        Ok(())
    }

    /// Ends applications first, so that receivers write buffered data, then nodes, and the emulator last. Returns the
    /// counts of bundles after the applications' end.
    fn take_down(&mut self) -> Result<BundleTally> {
        self.stopping = true;
        self.stop(|p| p.id >= FIRST_APPLICATION)?;
        self.crew.fetch()?;
        let tally = self.tally();
        self.stop_nodes()?;
        self.crew.fetch()?;
        self.remarks.notes.extend(self.crew.describe(self.scenario));
        self.crew.tell(&Request::StopEmulator)?;
        // One here, and a relay on each other machine.
        let emulators = |s: &Self| s.records.iter().filter(|record| record.role == Role::Emulator).count();
        self.turns_until(|s| emulators(s) > s.crew.machines())?;
        for (link, direction, lost) in std::mem::take(&mut self.lost_in_tunnels) {
            self.links[link][direction].own_losses += lost;
        }
        Ok(tally)
    }

    pub fn stop(&mut self, which: impl Fn(&SessionProcess) -> bool) -> Result<()> {
        let left = |s: &Self| -> Vec<u32> {
            s.processes.iter().filter(|p| which(p) && p.exited.is_none()).map(|p| p.id).collect()
        };
        for signal in [SignalName::Terminate, SignalName::Kill] {
            for id in left(self) {
                self.crew.tell(&Request::Signal { id, signal })?;
            }
            self.turns_until(|s| left(s).is_empty())?;
        }
        Ok(())
    }

    pub fn turns_until(&mut self, done: impl Fn(&Self) -> bool) -> Result<()> {
        self.turns_within(GRACE, done)
    }

    /// Processes the supervisor's replies until `done`, at most for `longest`.
    pub fn turns_within(&mut self, longest: Duration, done: impl Fn(&Self) -> bool) -> Result<()> {
        let deadline = std::time::Instant::now() + longest;
        while !done(self) && std::time::Instant::now() < deadline {
            self.turn()?;
        }
        Ok(())
    }
}

/// Role of a process by its number.
fn role_of(id: u32) -> Role {
    if id < FIRST_APPLICATION { Role::Implementation } else { Role::Application }
}

/// Number of bundles that all senders of a scenario create, without replies to pings.
fn sent_at_least(scenario: &Scenario) -> u64 {
    (0..scenario.traffic.len()).map(|traffic| created_by(scenario, traffic)).sum()
}

/// Number of bundles that one sender creates and that are counted.
fn created_by(scenario: &Scenario, traffic: usize) -> u64 {
    match &scenario.traffic[traffic].kind {
        TrafficKind::Ping { count, .. } => *count,
        _ if Outside::of(scenario, traffic) == Outside::Receiver => 0,
        TrafficKind::File { size, bundle_size, .. } => size.bytes().div_ceil(bundle_size.bytes().max(1)),
        TrafficKind::Bundles { count, .. } => *count,
    }
}

/// Index in `waiting` of the next sender to start; `None` if none is due. `waiting` is sorted with the earliest start
/// last. A sender whose node is down waits until the node is ready again, without holding up the others.
fn next_due(scenario: &Scenario, waiting: &[usize], elapsed: Duration, down: impl Fn(usize) -> bool) -> Option<usize> {
    let is_due = |traffic: &usize| scenario.traffic[*traffic].start <= elapsed;
    let due = waiting.iter().rev().take_while(|traffic| is_due(traffic));
    let place = due.enumerate().find(|(_, traffic)| !down(scenario.traffic[**traffic].from)).map(|(back, _)| back)?;
    Some(waiting.len() - 1 - place)
}

/// Start of the run on the monotonic clock (ns), at least `lead` from now, and the wall-clock time of the same moment:
/// a whole millisecond, the unit of DTN time.
fn choose_start(lead: Duration) -> (u64, DtnTime) {
    let (monotonic, wall) = (farlink_os::monotonic_ns(), farlink_os::realtime_ns());
    let lead = lead.as_nanos() as u64;
    // Rounded up to the next whole millisecond of the wall clock.
    let wait = lead + (1_000_000 - (wall + lead) % 1_000_000);
    (monotonic + wait, DtnTime::from_unix_ms((wall + wait) / 1_000_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_waits_for_all_sent_bundles() {
        let text = "name = \"s\"\nduration = \"9 s\"\n[[node]]\nname = \"a\"\nid = \"ipn:1.0\"\n[[node]]\nname = \"b\"\n\
            id = \"ipn:2.0\"\n[[link]]\nname = \"l\"\nbetween = [\"a\", \"b\"]\nlayer = \"ltp\"\n\
            [[traffic]]\nfrom = \"a\"\nto = \"b\"\nfile = { size = \"9 kB\", bundle_size = \"2 kB\" }\n\
            [[traffic]]\nfrom = \"a\"\nto = \"b\"\nping = { count = 3 }\n\
            [[traffic]]\nfrom = \"a\"\nto = \"b\"\nbundles = { count = 7, size = \"1 kB\" }\n";
        assert_eq!(sent_at_least(&Scenario::parse(text).unwrap()), 5 + 3 + 7);
    }

    #[test]
    fn sender_of_dead_node_holds_up_no_other() {
        let traffic = |from: &str, start: u8| {
            format!("[[traffic]]\nfrom = \"{from}\"\nto = \"b\"\nstart = \"{start} s\"\nping = {{}}\n")
        };
        let text = "name = \"s\"\nduration = \"9 s\"\n[[node]]\nname = \"a\"\nid = \"ipn:1.0\"\n[[node]]\nname = \"b\"\n\
            id = \"ipn:2.0\"\n[[node]]\nname = \"c\"\nid = \"ipn:3.0\"\n\
            [[link]]\nname = \"l\"\nbetween = [\"a\", \"b\"]\nlayer = \"ltp\"\n\
            [[link]]\nname = \"m\"\nbetween = [\"c\", \"b\"]\nlayer = \"ltp\"\n";
        let text = [text, &traffic("a", 1), &traffic("c", 2), &traffic("c", 4)].concat();
        let scenario = Scenario::parse(&text).unwrap();
        let next = |at, down: usize| next_due(&scenario, &[2, 1, 0], Duration::from_secs(at), |node| node == down);
        assert_eq!((next(0, 9), next(3, 9), next(3, 0), next(1, 0)), (None, Some(2), Some(1), None));
    }

    #[test]
    fn start_is_equal_on_both_clocks() {
        let (start_ns, epoch) = choose_start(Duration::from_millis(100));
        let (monotonic, wall) = (farlink_os::monotonic_ns(), farlink_os::realtime_ns());
        let until_monotonic = start_ns as i128 - monotonic as i128;
        let until_wall = epoch.as_unix_ms() as i128 * 1_000_000 - wall as i128;
        assert!((until_monotonic - until_wall).abs() < 5_000_000, "{until_monotonic} {until_wall}");
        assert!(until_monotonic > 0);
    }
}
