//! Standalone link emulator: two empty hosts joined by one link, for any programs and any IP traffic.

use crate::emulator::capture::{CaptureSetup, CaptureSummary};
use crate::emulator::{MachineWatch, rings};
use crate::gate::Signs;
use crate::supervisor::{CableSetup, HostSetup, LinkModels, LinkReport, Reply, Request, Role, SpawnSetup, Supervisor};
use anyhow::{Result, bail};
use farlink_base::{DataRate, DataVolume};
use farlink_link::{DropReason, LinkSpec};
use serde::Serialize;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Names of the hosts, in the order of the link's ends.
pub const HOSTS: [&str; 2] = ["a", "b"];
// Time between the starts of the two programs; the first is usually a server, which needs it to get ready.
const HEAD_START: Duration = Duration::from_millis(300);
// As for the samples of a run; the status line, once a second, needs no shorter interval.
const INTERVAL: Duration = Duration::from_millis(100);

/// Options of [`emulate`].
#[derive(Clone, Debug)]
pub struct EmulateOptions {
    /// Link specification as [`LinkSpec::parse`] takes it; the forward direction leads from a to b.
    pub link: String,
    /// Largest IP packet in bytes.
    pub mtu: u32,
    /// Seed of all random decisions.
    pub seed: u64,
    /// Time after which the emulation ends; `None` for no limit.
    pub duration: Option<Duration>,
    /// Shell commands to run in hosts a and b. The emulation ends when the command of b ends, or that of a if b has
    /// none.
    pub commands: [Option<String>; 2],
    /// Whether each wire packet is handed over alone at its exact due time, which costs more processor time.
    pub exact: bool,
    /// File to which the frames of the link are written, as pcapng.
    pub capture: Option<PathBuf>,
}

/// Result of an emulation.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// Length of the emulation in seconds.
    pub duration_s: f64,
    /// Results of the directions from a to b and from b to a, in this order.
    pub directions: Vec<DirectionSummary>,
    /// Reasons to doubt the results; empty if none was found.
    pub doubts: Vec<String>,
    /// Exit status of each command by host; `None` if a signal ended it.
    pub exits: BTreeMap<String, Option<i32>>,
}

/// Results of one direction of the link.
#[derive(Clone, Debug, Serialize)]
pub struct DirectionSummary {
    /// Name of the sending host.
    pub from: String,
    /// Number of packets that the host sent into the link.
    pub sent_packets: u64,
    /// Number of packets that arrived or are still in flight.
    pub delivered_packets: u64,
    /// Bytes of packets that arrived or are still in flight, headers and overhead included.
    pub delivered_bytes: u64,
    /// Number of packets lost, by reason.
    pub dropped: BTreeMap<&'static str, u64>,
    /// Median delay added by the emulator, in microseconds.
    pub late_p50_us: f64,
    /// 99th percentile of the delay added by the emulator, in microseconds.
    pub late_p99_us: f64,
    /// Largest delay added by the emulator, in microseconds.
    pub late_max_us: f64,
    /// Packets lost by the emulator, not by the link model, plus changes of the link for which the emulator was late.
    pub own_losses: u64,
}

/// Emulates a link until its duration is over, the last command ends ([`EmulateOptions::commands`]), or the user
/// interrupts it. `program` is the path of the `farlink` program; `talk` receives lines for the user.
pub fn emulate(program: &Path, options: &EmulateOptions, talk: &mut dyn FnMut(&str)) -> Result<Summary> {
    let spec = LinkSpec::parse(&options.link)?;
    let interrupted = farlink_os::process::watch_termination()?;
    let mut supervisor = Supervisor::start(program, None)?;
    introduce(&mut supervisor, options, &spec, talk)?;
    let watch = MachineWatch::start();
    // Made absolute, since the supervisor has another working folder.
    let captures = options.capture.as_ref().map(|path| {
        let interfaces = HOSTS.map(String::from);
        std::path::absolute(path).map(|path| CaptureSetup { link: 0, path, interfaces })
    });
    supervisor.tell(&Request::Emulate {
        links: LinkModels::One { specification: options.link.clone(), exact: options.exact },
        seed: options.seed,
        start_ns: None,
        interval_ms: INTERVAL.as_millis() as u64,
        captures: captures.transpose()?.into_iter().collect(),
        retention: false,
    })?;
    let emulating = |r: &Reply| matches!(r, Reply::Emulating { .. }).then_some(());
    supervisor.wait_for(Duration::from_secs(20), emulating, |_| {})?;
    let mut state =
        EmulationState { commands: options.commands.clone().map(|c| c.is_some()), ..EmulationState::default() };
    let begin = Instant::now();
    let (mut started, mut shown) = (0, Instant::now());
    while !state.over(options) && !interrupted.load(Ordering::Relaxed) {
        if options.duration.is_some_and(|most| begin.elapsed() >= most) {
            break;
        }
        while started < 2 && begin.elapsed() >= HEAD_START * started as u32 {
            if let Some(command) = &options.commands[started] {
                supervisor.tell(&spawn(started, command))?;
            }
            started += 1;
        }
        if let Some(reply) = supervisor.next(Duration::from_millis(50))? {
            state.note(reply);
        }
        if shown.elapsed() >= Duration::from_secs(1) {
            talk(&state.line(begin.elapsed(), shown.elapsed()));
            shown = Instant::now();
        }
    }
    supervisor.tell(&Request::StopEmulator)?;
    let ended = |r: &Reply| matches!(r, Reply::EmulatorEnded { .. }).then_some(());
    supervisor.wait_for(Duration::from_secs(5), ended, |reply| state.note(reply))?;
    let summary = state.summary(begin.elapsed(), &spec, &watch);
    supervisor.end()?;
    Ok(summary)
}

fn hosts() -> Vec<HostSetup> {
    HOSTS.map(|name| HostSetup { name: name.into(), ..HostSetup::default() }).to_vec()
}

/// Creates the hosts and the cable between them, and tells the user how to enter the hosts.
fn introduce(
    supervisor: &mut Supervisor,
    options: &EmulateOptions,
    spec: &LinkSpec,
    talk: &mut dyn FnMut(&str),
) -> Result<()> {
    if !(576..=65_535).contains(&options.mtu) {
        bail!("MTU {} is not between 576 and 65535", options.mtu);
    }
    let addresses = [1, 2].map(addresses);
    let rings = rings(std::slice::from_ref(spec))[0];
    let cable =
        CableSetup { hosts: [0, 1], addresses: addresses.clone(), mtu: options.mtu, rings, tunnels: [None, None] };
    supervisor.tell(&Request::SetUp { hosts: hosts(), cables: vec![cable], routes: Vec::new() })?;
    let set_up = |r: &Reply| match r {
        Reply::SetUp { descriptors, .. } => Some(descriptors.clone()),
        _ => None,
    };
    let descriptors = supervisor.wait_for(Duration::from_secs(10), set_up, |_| {})?;
    talk(&format!("link {} between two hosts", options.link));
    for ((name, addresses), descriptor) in HOSTS.iter().zip(&addresses).zip(descriptors) {
        let all: Vec<String> = addresses.iter().map(|(address, _)| address.to_string()).collect();
        talk(&format!("  host {name}: {}", all.join("  ")));
        let process = supervisor.process;
        let user =
            if supervisor.user_namespace { format!("-t {process} -U --preserve-credentials ") } else { String::new() };
        talk(&format!("    a shell in it: nsenter {user}--net=/proc/{process}/fd/{descriptor}"));
    }
    Ok(())
}

fn addresses(host: u8) -> Vec<(IpAddr, u8)> {
    let v6 = Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, u16::from(host));
    vec![(Ipv4Addr::new(10, 77, 0, host).into(), 24), (v6.into(), 64)]
}

fn spawn(host: usize, command: &str) -> Request {
    Request::Spawn(SpawnSetup {
        id: host as u32,
        host,
        role: Role::Application,
        command: vec!["/bin/sh".into(), "-c".into(), command.into()],
        environment: BTreeMap::new(),
        directory: std::env::current_dir().unwrap_or_else(|_| "/".into()),
        stdout: None,
        stderr: None,
        real_time: None,
    })
}

/// State of a running emulation.
#[derive(Default)]
struct EmulationState {
    now: [LinkReport; 2],
    shown: [LinkReport; 2],
    commands: [bool; 2],
    exits: BTreeMap<String, Option<i32>>,
    capture: Option<CaptureSummary>,
}

impl EmulationState {
    fn note(&mut self, reply: Reply) {
        match reply {
            Reply::Link(report) => {
                let index = usize::from(!report.forward);
                self.now[index] = *report;
            }
            Reply::Exited { id, code, .. } => {
                self.exits.insert(HOSTS[id as usize & 1].to_string(), code);
            }
            Reply::Captured(summary) => self.capture = Some(summary),
            _ => {}
        }
    }

    fn over(&self, options: &EmulateOptions) -> bool {
        // The program of b is usually the client, whose end is the end of the experiment.
        let last = if options.commands[1].is_some() { 1 } else { 0 };
        self.commands[last] && self.exits.contains_key(HOSTS[last])
    }

    fn line(&mut self, elapsed: Duration, since: Duration) -> String {
        let direction = |i: usize| {
            let (now, before) = (&self.now[i], &self.shown[i]);
            let bytes = now.delivered[1].saturating_sub(before.delivered[1]);
            let rate = DataRate((bytes as f64 * 8.0 / since.as_secs_f64().max(1e-3)) as u64);
            // Counters grow from the start, so the line shows the difference.
            let lost = now.dropped.iter().sum::<u64>() - before.dropped.iter().sum::<u64>();
            let state = if now.up { "" } else { " DOWN" };
            format!(
                "{}->{}{state} {rate}, lost {lost}, queue {}, late {:.0}/{:.0} us",
                HOSTS[i],
                HOSTS[1 - i],
                DataVolume(now.queued_bytes),
                now.late_p50_us,
                now.late_p99_us
            )
        };
        let line = format!("{:5.0} s   {}   |   {}", elapsed.as_secs_f64(), direction(0), direction(1));
        self.shown = self.now.clone();
        line
    }

    fn summary(&self, elapsed: Duration, spec: &LinkSpec, watch: &MachineWatch) -> Summary {
        let (cpu_wait, stolen) = watch.shares();
        let late_p99 = Duration::from_secs_f64(self.now.iter().map(|r| r.late_evident_us).fold(0.0, f64::max) / 1e6);
        let signs = Signs {
            late_p99,
            delay: spec.forward.longest_delay().min(spec.reverse.longest_delay()),
            own_losses: self.now.iter().map(|r| r.own_losses).sum(),
            cpu_wait,
            stolen,
            ..Signs::default()
        };
        let directions = self.now.iter().zip(HOSTS).map(|(report, from)| DirectionSummary {
            from: from.to_string(),
            sent_packets: report.sent[0],
            delivered_packets: report.delivered[0],
            delivered_bytes: report.delivered[1],
            dropped: DropReason::ALL.iter().map(|r| (r.name(), report.dropped[*r as usize])).collect(),
            late_p50_us: report.late_p50_us,
            late_p99_us: report.late_p99_us,
            late_max_us: report.late_max_us,
            own_losses: report.own_losses,
        });
        Summary {
            duration_s: elapsed.as_secs_f64(),
            directions: directions.collect(),
            doubts: signs.doubts().into_iter().chain(self.capture.as_ref().and_then(CaptureSummary::doubt)).collect(),
            exits: self.exits.clone(),
        }
    }
}
