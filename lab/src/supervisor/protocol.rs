//! Requests to the supervisor and its replies, one JSON object per line.

use super::readings::{Reading, Role};
use crate::container::ContainerSetup;
use crate::emulator::capture::{CaptureSetup, CaptureSummary};
use crate::probes::retention::RetentionPart;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::Write;
use std::net::IpAddr;
use std::path::PathBuf;

/// Addresses of one interface, with prefix lengths.
pub type Addresses = Vec<(IpAddr, u8)>;

/// A request to the supervisor.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "do")]
pub enum Request {
    /// Creates hosts and cables. Sent once, as the first request. Reply: [`Reply::SetUp`].
    SetUp {
        /// The hosts.
        hosts: Vec<HostSetup>,
        /// Cables between the hosts.
        cables: Vec<CableSetup>,
        /// Routes of hosts to others over several cables; with any, all hosts forward packets.
        routes: Vec<HostRoute>,
    },
    /// Starts the emulator on all cables. Sent once, after `SetUp`. Replies: [`Reply::Emulating`], then [`Reply::Link`]
    /// each interval.
    Emulate {
        /// Link models, in the order of the cables.
        links: LinkModels,
        /// Seed of all random decisions.
        seed: u64,
        /// Start of the run in monotonic nanoseconds; without it, as soon as all links are up.
        start_ns: Option<u64>,
        /// Milliseconds between samples.
        interval_ms: u64,
        /// Links whose frames are written to files.
        captures: Vec<CaptureSetup>,
        /// Whether the retention times of all relays of a scenario are measured.
        retention: bool,
    },
    /// Starts a process. Reply: [`Reply::Started`], and later [`Reply::Exited`].
    Spawn(SpawnSetup),
    /// Sends a signal to a process that was started, unless it has ended.
    Signal {
        /// Number given to the process.
        id: u32,
        /// Signal to send.
        signal: SignalName,
    },
    /// Starts sampling all hosts each interval. Replies: [`Reply::Read`] and [`Reply::Waited`].
    Probe {
        /// Milliseconds between samples.
        interval_ms: u64,
        /// Whether TCP connections are sampled.
        tcp: bool,
        /// Folders whose size is sampled, with the number of their host.
        stores: Vec<(usize, PathBuf)>,
    },
    /// Begins a phase: reads the usage up to now and resets peaks of memory. Replies: [`Reply::Read`], then
    /// [`Reply::Phase`].
    Phase {
        /// Number of the phase.
        number: usize,
    },
    /// Stops the emulator after its last samples. Reply: [`Reply::EmulatorEnded`].
    StopEmulator,
}

/// A host to be made.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct HostSetup {
    /// Name, for its control groups.
    pub name: String,
    /// TCP settings.
    pub tcp: HostTcp,
    /// Bounds of all its programs together.
    pub limits: HostLimits,
    /// Container of its programs; without one they have the files of this machine.
    #[serde(default)]
    pub container: Option<ContainerSetup>,
}

/// Bounds of a host's programs.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct HostLimits {
    /// Numbers of the processors it may use; empty for all.
    pub cpus: Vec<usize>,
    /// Most processor time in real time, in processors.
    pub quota: Option<f64>,
    /// Most memory in bytes.
    pub memory: Option<u64>,
}

/// TCP settings of a host. Buffer sizes are in bytes of payload.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct HostTcp {
    /// Congestion control by the kernel's name; `None` for the machine's default.
    pub congestion: Option<String>,
    /// Most bytes sent and not yet acknowledged.
    pub send_buffer: u64,
    /// Most bytes received and not yet read.
    pub receive_buffer: u64,
    /// Whether selective acknowledgments are used.
    pub sack: bool,
    /// Whether windows beyond 64 kB are used.
    pub window_scaling: bool,
}

impl Default for HostTcp {
    /// Defaults of the Linux kernel.
    fn default() -> Self {
        HostTcp { congestion: None, send_buffer: 4 << 20, receive_buffer: 6 << 20, sack: true, window_scaling: true }
    }
}

/// A cable between two hosts.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CableSetup {
    /// Numbers of the hosts.
    pub hosts: [usize; 2],
    /// Addresses of both ends.
    pub addresses: [Addresses; 2],
    /// Largest IP packet in bytes.
    pub mtu: u32,
    /// Bytes of the receive rings at both ends ([`crate::emulator::rings`]).
    pub rings: [usize; 2],
}

/// A route of a host to one address.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct HostRoute {
    /// Number of the host.
    pub host: usize,
    /// Destination.
    pub to: IpAddr,
    /// Neighbour that forwards.
    pub via: IpAddr,
}

/// Source of the link models, passed as text, which is exact and small.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LinkModels {
    /// All links of a scenario.
    Scenario {
        /// Text of the scenario file.
        text: String,
        /// Folder to which its paths are relative.
        folder: PathBuf,
    },
    /// One link.
    One {
        /// Specification for `farlink_link::LinkSpec::parse`.
        specification: String,
        /// Whether each wire packet is handed over alone and at its time.
        exact: bool,
    },
}

/// A process to start.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SpawnSetup {
    /// Number by which later messages refer to it.
    pub id: u32,
    /// Number of its host.
    pub host: usize,
    /// Account that it belongs to.
    pub role: Role,
    /// Program and arguments.
    pub command: Vec<String>,
    /// Environment variables in addition to ours.
    pub environment: BTreeMap<String, String>,
    /// Working directory of the process.
    pub directory: PathBuf,
    /// File for its standard output; by default that goes to our standard error.
    pub stdout: Option<PathBuf>,
    /// File for its standard error; by default that goes to our standard error.
    pub stderr: Option<PathBuf>,
    /// Real-time priority (`SCHED_RR`) of its threads; `None` for ordinary scheduling.
    #[serde(default)]
    pub real_time: Option<i32>,
}

/// Signals by name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SignalName {
    /// SIGTERM, a request to end.
    Terminate,
    /// SIGKILL, which ends the process at once.
    Kill,
    /// SIGINT, as sent by Control-C.
    Interrupt,
    /// SIGSTOP, which pauses the process.
    Stop,
    /// SIGCONT, which resumes the process.
    Continue,
}

/// A reply of the supervisor.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "say")]
pub enum Reply {
    /// The supervisor is isolated and accepts requests.
    Ready {
        /// Process ID as seen from outside.
        process: u32,
        /// Whether a user namespace was needed, as for ordinary users.
        user_namespace: bool,
        /// Name of the control groups of this supervisor, should it make any.
        groups: String,
        /// Control groups of ended runs that were removed, and directories that could not be.
        swept: [Vec<String>; 2],
    },
    /// Hosts and cables are set up.
    SetUp {
        /// Descriptors of the hosts' network namespaces in the supervisor.
        descriptors: Vec<i32>,
        /// Whether processes may be given real-time scheduling.
        real_time: bool,
        /// Why no control groups could be made, and `/proc` counts; `None` with groups.
        no_groups: Option<String>,
    },
    /// All links are up and receive packets.
    Emulating {
        /// Start of the run, in monotonic nanoseconds.
        start_ns: u64,
    },
    /// A process was started.
    Started {
        /// Number given to the process.
        id: u32,
    },
    /// A process has ended.
    Exited {
        /// Number given to the process.
        id: u32,
        /// Time of the exit, in monotonic nanoseconds.
        at_ns: u64,
        /// Exit status, unless a signal ended the process.
        code: Option<i32>,
        /// Signal that ended the process.
        signal: Option<i32>,
        /// Resource use over its lifetime.
        usage: ProcessUsage,
    },
    /// Values read by the probes at one time.
    Read {
        /// Time of reading, in monotonic nanoseconds.
        at_ns: u64,
        /// The values.
        readings: Vec<Reading>,
    },
    /// A phase has begun.
    Phase {
        /// Number of the phase.
        number: usize,
        /// Time, in monotonic nanoseconds.
        at_ns: u64,
        /// Samples left out since the start, because reading took too long.
        dropped: u64,
    },
    /// Waits of a running process for a processor.
    Waited {
        /// Number given to the process.
        id: u32,
        /// Time of the report, in monotonic nanoseconds.
        at_ns: u64,
        /// Waits of its threads for a processor since the last report: for each thread the mean wait in nanoseconds,
        /// and the number of waits.
        waits: Vec<[u64; 2]>,
    },
    /// Counters of one direction of a link.
    Link(Box<LinkReport>),
    /// Result of a capture, before the emulator ends.
    Captured(CaptureSummary),
    /// Part of the findings about relays, before the emulator ends.
    Retention(RetentionPart),
    /// The emulator has ended.
    EmulatorEnded {
        /// Resource use of the emulator.
        usage: ProcessUsage,
        /// Processes of each host that the kernel killed for reaching the memory limit.
        killed_for_memory: Vec<u64>,
        /// Samples left out because reading took too long.
        dropped: u64,
    },
    /// A failure, after which the supervisor ends.
    Failed {
        /// Description of the failure.
        reason: String,
    },
}

/// Resource use of a process.
#[derive(Clone, Copy, Default, PartialEq, Debug, Serialize, Deserialize)]
pub struct ProcessUsage {
    /// Processor time in user mode, in seconds; user and kernel time while the process runs.
    pub cpu_user_s: f64,
    /// Processor time in the kernel, in seconds; known once the process has ended.
    pub cpu_system_s: f64,
    /// Resident memory in bytes: the current size while the process runs, the peak once it has ended.
    pub rss_bytes: u64,
    /// Whether a control group measured this, not `/proc`.
    pub cgroup: bool,
}

/// Counters of one direction of a link since the start.
#[derive(Clone, Default, PartialEq, Debug, Serialize, Deserialize)]
pub struct LinkReport {
    /// Number of the link.
    pub link: usize,
    /// Whether this is the forward direction.
    pub forward: bool,
    /// Nanoseconds since the start of the run.
    pub at_ns: u64,
    /// Whether the direction may transmit.
    pub up: bool,
    /// Packets and bytes offered.
    pub sent: [u64; 2],
    /// Packets and bytes that arrived or will arrive.
    pub delivered: [u64; 2],
    /// Packets lost, by reason in the order of `farlink_link::DropReason::ALL`.
    pub dropped: [u64; 5],
    /// Bytes of all lost packets.
    pub dropped_bytes: u64,
    /// Packets duplicated, reordered, corrupted.
    pub altered: [u64; 3],
    /// Peak of the transmission queue in bytes.
    pub queue_peak: u64,
    /// Time spent transmitting, in nanoseconds.
    pub busy_ns: u64,
    /// Bytes waiting for transmission.
    pub queued_bytes: u64,
    /// Bytes in flight.
    pub in_flight_bytes: u64,
    /// Number of frames ignored because they are not unicast IP.
    pub ignored: u64,
    /// Packets lost by the emulator itself, plus link openings that it missed.
    pub own_losses: u64,
    /// Number of frames handed over.
    pub handed_over: u64,
    /// Median delay beyond the due time, in microseconds.
    pub late_p50_us: f64,
    /// 99th percentile of the delay beyond the due time, in microseconds.
    pub late_p99_us: f64,
    /// Largest delay beyond the due time, in microseconds.
    pub late_max_us: f64,
    /// Whether the emulator has real-time scheduling.
    pub real_time: bool,
}

impl LinkReport {
    /// Converts to the link model's counters.
    pub fn statistics(&self) -> farlink_link::Statistics {
        farlink_link::Statistics {
            sent: self.sent[0],
            sent_bytes: self.sent[1],
            delivered: self.delivered[0],
            delivered_bytes: self.delivered[1],
            dropped: self.dropped,
            dropped_bytes: self.dropped_bytes,
            duplicated: self.altered[0],
            reordered: self.altered[1],
            corrupted: self.altered[2],
            queue_peak: self.queue_peak,
            busy: std::time::Duration::from_nanos(self.busy_ns),
        }
    }
}

impl From<&crate::emulator::DirectionSample> for LinkReport {
    fn from(sample: &crate::emulator::DirectionSample) -> Self {
        let us = |d: std::time::Duration| d.as_secs_f64() * 1e6;
        let s = &sample.statistics;
        LinkReport {
            link: sample.link,
            forward: sample.forward,
            at_ns: sample.at_ns,
            up: sample.up,
            sent: [s.sent, s.sent_bytes],
            delivered: [s.delivered, s.delivered_bytes],
            dropped: s.dropped,
            dropped_bytes: s.dropped_bytes,
            altered: [s.duplicated, s.reordered, s.corrupted],
            queue_peak: s.queue_peak,
            busy_ns: u64::try_from(s.busy.as_nanos()).unwrap_or(u64::MAX),
            queued_bytes: sample.queued_bytes,
            in_flight_bytes: sample.in_flight_bytes,
            ignored: sample.ignored,
            own_losses: sample.own_losses,
            handed_over: sample.lateness.count(),
            late_p50_us: us(sample.lateness.quantile(0.5)),
            late_p99_us: us(sample.lateness.quantile(0.99)),
            late_max_us: us(sample.lateness.max()),
            real_time: sample.real_time,
        }
    }
}

/// Writes one reply to standard output.
pub fn say(reply: &Reply) {
    let reply = match reply {
        Reply::Failed { reason } => {
            // A line below 4096 bytes is written atomically, so that lines of supervisor and
            // emulator, which share the pipe, never mix (pipe(7)).
            &Reply::Failed { reason: reason.chars().filter(|c| !c.is_control()).take(500).collect() }
        }
        other => other,
    };
    if let Ok(mut line) = serde_json::to_vec(reply) {
        line.push(b'\n');
        let mut out = std::io::stdout().lock();
        // A missing reader is noticed by the end of standard input.
        let _ = out.write_all(&line).and_then(|()| out.flush());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_and_replies_survive_their_line() {
        let request = Request::Spawn(SpawnSetup {
            id: 3,
            host: 1,
            role: Role::Application,
            command: vec!["sh".into()],
            environment: BTreeMap::new(),
            directory: ".".into(),
            stdout: None,
            stderr: None,
            real_time: None,
        });
        let line = serde_json::to_string(&request).unwrap();
        assert!(line.contains("\"do\":\"spawn\"") && !line.contains('\n'), "{line}");
        let _: Request = serde_json::from_str(&line).unwrap();
        let report = LinkReport { busy_ns: u64::MAX, ..LinkReport::default() };
        let line = serde_json::to_string(&Reply::Link(Box::new(report.clone()))).unwrap();
        assert!(line.len() < 2000, "a report fits an atomic write");
        let Reply::Link(read) = serde_json::from_str(&line).unwrap() else { panic!("{line}") };
        assert_eq!(*read, report);
    }
}
