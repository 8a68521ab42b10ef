//! The live part of a run, from the first namespace to the last exit.

use super::flows;
use super::folder::RunFolder;
use super::restarts::Restarts;
use super::{LabOptions, LabProgress};
use crate::driver::{BundleTally, Driver, NodeContext, Program};
use crate::drivers;
use crate::emulator::capture::{self, CaptureSetup, CaptureSummary};
use crate::emulator::{Lateness, MachineWatch, rings};
use crate::hybla;
use crate::supervisor::{
    CableSetup, HostRoute, HostTcp, LinkModels, LinkReport, ProcessUsage, Reply, Request, SignalName, SpawnSetup,
    Supervisor,
};
use anyhow::{Context, Result, bail};
use farlink_base::DtnTime;
use farlink_report::SampleRow;
use farlink_report::schema::{CPU_S, LINK_QUEUE_BYTES, LINK_SENT_BYTES, RSS_BYTES};
use farlink_scenario::{LinkChange, PREFIX_LENGTH, Scenario, TrafficKind};
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

// Time for nodes to get ready before the run starts, and additional time per node.
const LEAD: Duration = Duration::from_millis(1200);
const LEAD_PER_NODE: Duration = Duration::from_millis(200);
// Longest wait for the supervisor in one turn of the loop.
const TURN: Duration = Duration::from_millis(10);
// Interval at which deliveries are counted.
const LOOK: Duration = Duration::from_millis(200);
// Time for processes to end after a signal.
const GRACE: Duration = Duration::from_secs(5);
// Real-time priorities, where permitted: nodes above applications, as a separate machine would
// serve its network first. Both are below the emulator (50), which serves all nodes.
const NODE_PRIORITY: i32 = 20;
const APPLICATION_PRIORITY: i32 = 10;
/// First process number of applications; nodes count from 0.
pub const FIRST_APPLICATION: u32 = 1 << 16;
// First process number of programs that change links.
const FIRST_CHANGE: u32 = 1 << 24;

/// Result of the live part.
pub struct SessionOutcome {
    /// Start of the run, in monotonic nanoseconds.
    pub start_ns: u64,
    /// Wall-clock time of the start.
    pub epoch: DtnTime,
    /// Progress at the end of the run.
    pub progress: LabProgress,
    /// Whether everything was sent and delivered.
    pub complete: bool,
    /// Whether the run was stopped early.
    pub stopped: bool,
    /// Nodes that were killed at least once, and those that were not ready again at the end.
    pub restarted: Vec<usize>,
    pub unready: Vec<usize>,
    /// Drivers of the nodes, which hold the event records.
    pub drivers: Vec<Box<dyn Driver>>,
    /// Final counters of each link, forward and reverse.
    pub links: Vec<[LinkReport; 2]>,
    /// Results of the captures.
    pub captures: Vec<CaptureSummary>,
    /// TCP congestion control of each host, by its name in the kernel.
    pub congestion: Vec<String>,
    /// Samples of links and processes.
    pub samples: Vec<SampleRow>,
    /// Resource use of each process: node, name, usage.
    pub processes: Vec<(Option<usize>, String, ProcessUsage)>,
    /// Distribution of each node's waits for a processor.
    pub waits: Vec<Lateness>,
    /// Whether nodes and applications had real-time scheduling.
    pub real_time: bool,
    /// Load of the machine during the run.
    pub watch: MachineWatch,
    /// Whether a user namespace was needed.
    pub user_namespace: bool,
    /// Path of the `farlink` program.
    pub program: PathBuf,
}

/// A process of the run.
#[derive(Clone, Debug)]
pub struct SessionProcess {
    pub id: u32,
    name: String,
    pub node: usize,
    /// Index of the traffic flow it sends.
    sends: Option<usize>,
    /// Index of the traffic flow it receives.
    pub receives: Option<usize>,
    pub exited: Option<(Option<i32>, Option<i32>)>,
    /// Whether the session killed it on purpose.
    pub killed: bool,
}

/// A run in progress.
pub struct LabSession<'a> {
    pub scenario: &'a Scenario,
    pub folder: &'a RunFolder,
    pub program: PathBuf,
    pub supervisor: Supervisor,
    pub drivers: Vec<Box<dyn Driver>>,
    start_ns: u64,
    epoch: DtnTime,
    pub processes: Vec<SessionProcess>,
    pub restarts: Restarts,
    usages: Vec<(Option<usize>, String, ProcessUsage)>,
    links: Vec<[LinkReport; 2]>,
    /// Whether the counters of each direction are final.
    frozen: Vec<[bool; 2]>,
    captures: Vec<CaptureSummary>,
    congestion: Vec<String>,
    ended: bool,
    stopping: bool,
    samples: Vec<SampleRow>,
    waiting: Vec<usize>,
    /// Link changes still to come, and the number of those done.
    changes: VecDeque<LinkChange>,
    changed: u32,
    /// Whether the emulator has reported that all links are up.
    emulating: bool,
    waits: Vec<Lateness>,
    real_time: bool,
    watch: MachineWatch,
}

impl<'a> LabSession<'a> {
    /// Sets everything up and waits until all nodes are ready.
    pub fn start(scenario: &'a Scenario, options: &LabOptions, folder: &'a RunFolder) -> Result<Self> {
        let program = super::absolute(&options.program)?;
        let mut supervisor = Supervisor::start(&program, Some(&folder.supervisor_log()))?;
        let congestion = congestion(scenario);
        let real_time = set_up_hosts(scenario, &congestion, &mut supervisor)?;
        let (start_ns, epoch) = choose_start(LEAD + LEAD_PER_NODE * scenario.nodes.len() as u32);
        let mut waiting: Vec<usize> = (0..scenario.traffic.len()).collect();
        // The next sender to start is last, where it is cheap to take.
        waiting.sort_by_key(|t| std::cmp::Reverse(scenario.traffic[*t].start));
        let mut session = LabSession {
            scenario,
            folder,
            program,
            supervisor,
            drivers: scenario.nodes.iter().map(|_| drivers::new_default()).collect(),
            start_ns,
            epoch,
            processes: Vec::new(),
            restarts: Restarts::new(scenario),
            usages: Vec::new(),
            links: vec![Default::default(); scenario.links.len()],
            frozen: vec![[false; 2]; scenario.links.len()],
            captures: Vec::new(),
            congestion,
            ended: false,
            stopping: false,
            samples: Vec::new(),
            waiting,
            // Discovered links appear without an instruction to the nodes.
            changes: scenario.link_changes().into_iter().filter(|change| !scenario.links[change.link].found).collect(),
            changed: 0,
            emulating: false,
            waits: vec![Lateness::default(); scenario.nodes.len()],
            real_time,
            watch: MachineWatch::start(),
        };
        session.emulate()?;
        session.start_nodes()?;
        Ok(session)
    }

    fn emulate(&mut self) -> Result<()> {
        let interval_ms = self.scenario.measure.interval.as_millis().max(1) as u64;
        let text = self.scenario.text.clone();
        let folder = super::absolute(&self.scenario.folder)?;
        self.supervisor.tell(&Request::Emulate {
            links: LinkModels::Scenario { text, folder },
            seed: self.scenario.seed,
            start_ns: Some(self.start_ns),
            interval_ms,
            captures: captures(self.scenario, self.folder),
        })?;
        // Reading the process table is costly, so it is read at most ten times a second.
        self.supervisor.tell(&Request::Account { interval_ms: interval_ms.max(100) })
    }

    pub fn context(&self, index: usize) -> NodeContext<'_> {
        NodeContext {
            scenario: self.scenario,
            index,
            folder: self.folder.node(index),
            epoch: self.epoch,
            program: &self.program,
            real_time: self.real_time,
        }
    }

    fn start_nodes(&mut self) -> Result<()> {
        for node in 0..self.scenario.nodes.len() {
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
            self.start_receiver(traffic, &self.scenario.traffic[traffic].name)?;
        }
        self.start_flow_receivers()
    }

    fn turn_before_start(&mut self, who: impl FnOnce() -> String) -> Result<()> {
        self.turn()?;
        // 20 ms before the start is the last moment to be ready.
        if farlink_os::monotonic_ns() + 20_000_000 > self.start_ns {
            let hint = "hint: this machine may be too busy; `farlink doctor` looks at it";
            bail!("{} not ready in time\n{hint}", who());
        }
        Ok(())
    }

    pub fn spawn(&mut self, id: u32, node: usize, name: &str, program: Program) -> Result<&mut SessionProcess> {
        let folder = self.folder.node(node);
        self.supervisor.tell(&Request::Spawn(SpawnSetup {
            id,
            host: node,
            command: program.command,
            environment: program.environment,
            directory: folder.to_path_buf(),
            stdout: Some(folder.join(format!("{name}.out"))),
            stderr: Some(folder.join(format!("{name}.log"))),
            real_time: self.real_time.then_some(match id {
                ..FIRST_APPLICATION => NODE_PRIORITY,
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

    /// Runs to the end, then takes everything down.
    pub fn run(mut self, stop: &AtomicBool, progress: &mut dyn FnMut(LabProgress)) -> Result<SessionOutcome> {
        let duration = self.scenario.duration;
        let mut state = LabProgress { phase: "running", duration_s: duration.as_secs_f64(), ..LabProgress::default() };
        let mut look_at = self.start_ns;
        let (mut complete, mut stopped, mut flows_begun) = (false, false, 0);
        while !complete || !self.scenario.stop_when_delivered {
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
            if now >= look_at {
                look_at = now + LOOK.as_nanos() as u64;
                let tally = self.tally();
                state.elapsed_s = elapsed.as_secs_f64();
                (state.created, state.delivered) = (tally.created, tally.delivered);
                // Nodes write their events with a delay, so bundles already sent may not be counted
                // yet.
                let all_counted = tally.created >= sent_at_least(self.scenario) && tally.created > 0;
                complete = self.all_sent() && all_counted && tally.delivered >= tally.created;
                progress(state);
            }
            self.turn()?;
        }
        self.ended = true;
        let unready = self.restarts.unready();
        let tally = self.take_down()?;
        self.note_fallen()?;
        (state.created, state.delivered) = (tally.created, tally.delivered);
        Ok(SessionOutcome {
            start_ns: self.start_ns,
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
            processes: self.usages,
            waits: self.waits,
            real_time: self.real_time,
            watch: self.watch,
            user_namespace: self.supervisor.user_namespace,
            program: self.program,
        })
    }

    fn change_due_links(&mut self, elapsed: Duration) -> Result<()> {
        while let Some(change) = self.changes.pop_front_if(|change| change.at <= elapsed) {
            for node in self.scenario.links[change.link].between {
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
        while let Some(traffic) = self.waiting.last().copied() {
            let entry = &self.scenario.traffic[traffic];
            // A sender whose node is down waits until the node is ready again.
            if !started || entry.start > elapsed || self.restarts.awaits(entry.from) {
                return Ok(());
            }
            self.waiting.pop();
            let content = self.folder.content(self.scenario, traffic);
            let program = self.drivers[entry.from].sender(&self.context(entry.from), traffic, content.as_deref());
            let id = FIRST_APPLICATION + traffic as u32 * 2;
            self.spawn(id, entry.from, &format!("{}-sender", entry.name), program)?.sends = Some(traffic);
        }
        Ok(())
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
    fn turn(&mut self) -> Result<()> {
        let mut reply = self.supervisor.next(TURN)?;
        while let Some(said) = reply {
            self.note(said)?;
            reply = self.supervisor.next(Duration::ZERO)?;
        }
        Ok(())
    }

    fn note(&mut self, reply: Reply) -> Result<()> {
        match reply {
            Reply::Link(report) => self.note_link(*report),
            Reply::Usage { id, at_ns, usage, waits } => {
                if let Some(node) = self.scenario.nodes.get(id as usize).filter(|_| at_ns >= self.start_ns) {
                    waits.iter().for_each(|[ns, times]| self.waits[id as usize].add_many(*ns, *times));
                    let name = node.name.clone();
                    self.sample(at_ns - self.start_ns, &name, None, CPU_S, usage.cpu_user_s);
                    self.sample(at_ns - self.start_ns, &name, None, RSS_BYTES, usage.rss_bytes as f64);
                }
            }
            Reply::Exited { id, code, signal, usage, .. } => return self.note_exit(id, code, signal, usage),
            Reply::EmulatorEnded { usage } => {
                self.usages.push((None, "emulator".into(), usage));
                if !self.stopping {
                    bail!("the link emulator ended by itself");
                }
            }
            Reply::Emulating { .. } => self.emulating = true,
            Reply::Captured(summary) => self.captures.push(summary),
            Reply::Ready { .. } | Reply::SetUp { .. } | Reply::Started { .. } | Reply::Failed { .. } => {}
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
        self.samples.push(SampleRow { time_ns, node, link, metric: metric.into(), value });
    }

    /// Records the exit of a process. An early or failed exit ends the run.
    fn note_exit(&mut self, id: u32, code: Option<i32>, signal: Option<i32>, usage: ProcessUsage) -> Result<()> {
        let Some(process) = self.processes.iter_mut().find(|p| p.id == id && p.exited.is_none()) else { return Ok(()) };
        process.exited = Some((code, signal));
        let process = process.clone();
        self.usages.push((Some(process.node), process.name.clone(), usage));
        let how = match (code, signal) {
            (Some(code), _) => format!("status {code}"),
            (None, Some(signal)) => format!("signal {signal}"),
            (None, None) => "no status".to_string(),
        };
        let is_node = id < FIRST_APPLICATION;
        // Background traffic that fails is a doubt about the run, not its end.
        if !self.stopping && !process.killed && !flows::is_flow(id) && (is_node || code != Some(0)) {
            let host = &self.scenario.nodes[process.node].name;
            bail!("`{}` at node `{host}` ended by itself: {how}", process.name);
        }
        Ok(())
    }

    /// Ends receivers first, so that they write buffered data, then nodes, and the emulator last.
    fn take_down(&mut self) -> Result<BundleTally> {
        self.stopping = true;
        self.stop(|p| p.id >= FIRST_APPLICATION)?;
        let tally = self.tally();
        self.stop(|p| p.id < FIRST_APPLICATION)?;
        self.supervisor.tell(&Request::StopEmulator)?;
        let emulator_ended = |s: &Self| s.usages.iter().any(|(_, name, _)| name == "emulator");
        self.turns_until(emulator_ended)?;
        Ok(tally)
    }

    fn stop(&mut self, which: impl Fn(&SessionProcess) -> bool) -> Result<()> {
        let left = |s: &Self| -> Vec<u32> {
            s.processes.iter().filter(|p| which(p) && p.exited.is_none()).map(|p| p.id).collect()
        };
        for signal in [SignalName::Terminate, SignalName::Kill] {
            for id in left(self) {
                self.supervisor.tell(&Request::Signal { id, signal })?;
            }
            self.turns_until(|s| left(s).is_empty())?;
        }
        Ok(())
    }

    fn turns_until(&mut self, done: impl Fn(&Self) -> bool) -> Result<()> {
        let deadline = std::time::Instant::now() + GRACE;
        while !done(self) && std::time::Instant::now() < deadline {
            self.turn()?;
        }
        Ok(())
    }
}

/// Number of bundles the senders of a scenario have created when done, without replies to pings.
fn sent_at_least(scenario: &Scenario) -> u64 {
    let of = |kind: &TrafficKind| match kind {
        TrafficKind::File { size, bundle_size, .. } => size.bytes().div_ceil(bundle_size.bytes().max(1)),
        TrafficKind::Bundles { count, .. } | TrafficKind::Ping { count, .. } => *count,
    };
    scenario.traffic.iter().map(|traffic| of(&traffic.kind)).sum()
}

/// Sets up hosts and links; returns whether their programs may have real-time scheduling.
fn set_up_hosts(scenario: &Scenario, congestion: &[String], supervisor: &mut Supervisor) -> Result<bool> {
    let specs: Vec<_> = (0..scenario.links.len()).map(|link| scenario.link_spec(link)).collect();
    let mut rings = rings(&specs);
    for (rings, link) in rings.iter_mut().zip(&scenario.links) {
        // Frames of a bottleneck are put in the order of their sending, which those in a ring would come too late for.
        if link.shares.is_some() {
            *rings = [0; 2];
        }
    }
    let cable = |link: usize| {
        let ends = scenario.ends(link);
        CableSetup {
            hosts: ends.map(|end| end.node),
            addresses: ends.map(|end| vec![(end.address.into(), PREFIX_LENGTH)]),
            mtu: scenario.links[link].mtu_bytes,
            rings: rings[link],
        }
    };
    let cables = (0..scenario.links.len()).map(cable).collect();
    let tcp = |(node, control): (&farlink_scenario::Node, &String)| HostTcp {
        congestion: Some(control.clone()),
        send_buffer: node.tcp.send_buffer.bytes(),
        receive_buffer: node.tcp.receive_buffer.bytes(),
    };
    let hosts = scenario.nodes.iter().zip(congestion).map(tcp).collect();
    let route =
        |route: farlink_scenario::IpRoute| HostRoute { host: route.node, to: route.to.into(), via: route.via.into() };
    let routes = scenario.ip_routes().into_iter().map(route).collect();
    supervisor.tell(&Request::SetUp { hosts, cables, routes })?;
    let set_up = |r: &Reply| match r {
        Reply::SetUp { real_time, .. } => Some(*real_time),
        _ => None,
    };
    let most = Duration::from_secs(10 + scenario.links.len() as u64);
    supervisor.wait_for(most, set_up, |_| {}).context("setting up the hosts")
}

/// Names of the hosts' TCP congestion controls in this kernel.
fn congestion(scenario: &Scenario) -> Vec<String> {
    let available = hybla::available();
    let name =
        |node: &farlink_scenario::Node| hybla::name_in_kernel(node.tcp.control_in_linux(), &available).to_string();
    scenario.nodes.iter().map(name).collect()
}

/// Captures of the scenario's links, in the run's folder.
fn captures(scenario: &Scenario, folder: &RunFolder) -> Vec<CaptureSetup> {
    let setup = |(link, name): (usize, &String)| CaptureSetup {
        link,
        path: capture::file_in(folder.root(), name),
        interfaces: scenario.links[link].between.map(|node| scenario.nodes[node].name.clone()),
    };
    let wanted = scenario.links.iter().enumerate().filter_map(|(index, link)| Some((index, link.capture.as_ref()?)));
    wanted.map(setup).collect()
}

/// Start of the run on the monotonic clock, and the wall-clock time of the same moment: a whole millisecond, the unit
/// of DTN time.
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
    fn start_is_equal_on_both_clocks() {
        let (start_ns, epoch) = choose_start(Duration::from_millis(100));
        let (monotonic, wall) = (farlink_os::monotonic_ns(), farlink_os::realtime_ns());
        let until_monotonic = start_ns as i128 - monotonic as i128;
        let until_wall = epoch.as_unix_ms() as i128 * 1_000_000 - wall as i128;
        assert!((until_monotonic - until_wall).abs() < 5_000_000, "{until_monotonic} {until_wall}");
        assert!(until_monotonic > 0);
    }
}
