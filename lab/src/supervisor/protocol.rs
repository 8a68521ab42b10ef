//! Requests to the supervisor and its replies, one JSON object per line.

use super::readings::{Reading, Role};
use crate::container::ContainerSetup;
use crate::emulator::capture::{CaptureSetup, CaptureSummary};
use crate::emulator::tunnel::TunnelSetup;
use crate::probes::retention::RetentionPart;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::Write;
use std::net::IpAddr;
use std::path::PathBuf;

/// Addresses of one interface, with prefix lengths.
pub type Addresses = Vec<(IpAddr, u8)>;

/// Request to the supervisor.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "do")]
pub enum Request {
    /// Create hosts and cables. Sent once, as the first request. Reply: [`Reply::SetUp`].
    SetUp {
        /// Hosts to create; other requests refer to them by their index.
        hosts: Vec<HostSetup>,
        /// Cables to create between the hosts.
        cables: Vec<CableSetup>,
        /// Routes of hosts to others over several cables; if there are any, all hosts forward packets.
        routes: Vec<HostRoute>,
    },
    /// Start the emulator on all cables. Sent once, after `SetUp`. Replies: [`Reply::Emulating`], then a
    /// [`Reply::Link`] for each direction every interval.
    Emulate {
        /// Link models, in the order of the cables.
        links: LinkModels,
        /// Seed of all random decisions.
        seed: u64,
        /// Start of the run in monotonic nanoseconds; `None` to start as soon as all links are up.
        start_ns: Option<u64>,
        /// Time between two samples of a link, in milliseconds.
        interval_ms: u64,
        /// Links whose frames are written to files.
        captures: Vec<CaptureSetup>,
        /// Whether to measure the retention times of all relays of the scenario.
        retention: bool,
    },
    /// Start a process. Reply: [`Reply::Started`], and later [`Reply::Exited`].
    Spawn(SpawnSetup),
    /// Send a signal to a started process, unless it has ended. No reply.
    Signal {
        /// Number given to the process.
        id: u32,
        /// Signal to send.
        signal: SignalName,
    },
    /// Start to sample all hosts every interval. Replies: [`Reply::Read`] and [`Reply::Waited`], for each sample.
    Probe {
        /// Time between two samples, in milliseconds.
        interval_ms: u64,
        /// Start of the run in monotonic ns of this machine; samples missed before it do not count as left out.
        start_ns: u64,
        /// Whether TCP connections are sampled.
        tcp: bool,
        /// Folders whose size is sampled, each with the index of its host.
        stores: Vec<(usize, PathBuf)>,
    },
    /// Begin a phase: read the usage up to now and reset peaks of memory. Replies: [`Reply::Read`], then
    /// [`Reply::Phase`].
    Phase {
        /// Number of the phase.
        number: usize,
    },
    /// Start the relay between the hosts of this machine and the emulator of another one. Reply: [`Reply::Relaying`].
    Relay {
        /// Secret of the run, which every datagram carries.
        token: u64,
    },
    /// Stop the emulator, or the relay, after its last samples. Reply: [`Reply::EmulatorEnded`].
    StopEmulator,
}

/// Host to create.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct HostSetup {
    /// Name of the host, for its control groups and its container.
    pub name: String,
    /// TCP settings.
    pub tcp: HostTcp,
    /// Bounds of all programs of the host together.
    pub limits: HostLimits,
    /// Container in which the host's programs run; without one they see the files of this machine.
    #[serde(default)]
    pub container: Option<ContainerSetup>,
    /// Interface of this machine behind which the host is, if the testbed does not make it.
    #[serde(default)]
    pub interface: Option<String>,
    /// Whether another supervisor, on another machine, has the host.
    #[serde(default)]
    pub elsewhere: bool,
}

/// Bounds of a host's programs.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct HostLimits {
    /// Numbers of the processors that the programs may use; empty for all.
    pub cpus: Vec<usize>,
    /// Maximum processor time per real time, in processors; `None` for no limit.
    pub quota: Option<f64>,
    /// Maximum memory in bytes; `None` for no limit.
    pub memory: Option<u64>,
}

/// TCP settings of a host. Buffer sizes are in bytes of payload.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct HostTcp {
    /// Congestion control by the kernel's name; `None` for the machine's default.
    pub congestion: Option<String>,
    /// Maximum bytes sent and not yet acknowledged, per connection.
    pub send_buffer: u64,
    /// Maximum bytes received and not yet read, per connection.
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

/// Cable between two hosts.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CableSetup {
    /// Indexes of the two hosts.
    pub hosts: [usize; 2],
    /// Addresses of the interfaces at both ends.
    pub addresses: [Addresses; 2],
    /// Largest IP packet in bytes.
    pub mtu: u32,
    /// Bytes of the receive rings at both ends ([`crate::emulator::rings`]).
    pub rings: [usize; 2],
    /// Tunnels to ends that are on other machines.
    #[serde(default)]
    pub tunnels: [Option<TunnelSetup>; 2],
}

/// Route of a host to one address.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct HostRoute {
    /// Number of the host.
    pub host: usize,
    /// Destination address.
    pub to: IpAddr,
    /// Address of the neighbour that forwards packets.
    pub via: IpAddr,
}

/// Source of the link models, as text, which is exact and small.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LinkModels {
    /// All links of a scenario.
    Scenario {
        /// Text of the scenario file.
        text: String,
        /// Folder to which paths in the scenario are relative.
        folder: PathBuf,
    },
    /// One link on its own.
    One {
        /// Link specification as `farlink_link::LinkSpec::parse` takes it.
        specification: String,
        /// Whether each wire packet is handed over alone at its exact due time.
        exact: bool,
    },
}

/// Process to start.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SpawnSetup {
    /// Number by which later messages refer to the process.
    pub id: u32,
    /// Index of the host in which the process runs.
    pub host: usize,
    /// Role in whose account the process is counted.
    pub role: Role,
    /// Program and arguments.
    pub command: Vec<String>,
    /// Environment variables in addition to those of the supervisor.
    pub environment: BTreeMap<String, String>,
    /// Working directory of the process.
    pub directory: PathBuf,
    /// File for standard output; `None` for the supervisor's standard error.
    pub stdout: Option<PathBuf>,
    /// File for standard error; `None` for the supervisor's standard error.
    pub stderr: Option<PathBuf>,
    /// Real-time priority (`SCHED_RR`) of the process's threads; `None` for ordinary scheduling.
    #[serde(default)]
    pub real_time: Option<i32>,
}

/// Signals that the supervisor can send.
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

/// Reply of the supervisor.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "say")]
pub enum Reply {
    /// The supervisor is isolated and accepts requests.
    Ready {
        /// Process ID of the supervisor's PID 1, as seen from outside.
        process: u32,
        /// Whether a user namespace was needed, as for ordinary users.
        user_namespace: bool,
        /// Name that all control groups of this supervisor carry, if it creates any.
        groups: String,
        /// Control groups of ended runs that the supervisor removed, and directories of control groups that it could
        /// not remove.
        swept: [Vec<String>; 2],
    },
    /// Hosts and cables are set up.
    SetUp {
        /// Descriptors of the hosts' network namespaces in the supervisor's process, by host.
        descriptors: Vec<i32>,
        /// Whether processes may be given real-time scheduling.
        real_time: bool,
        /// Reason for which no control groups could be created and `/proc` counts instead; `None` with control groups.
        no_groups: Option<String>,
    },
    /// All links are up and receive packets.
    Emulating {
        /// Start of the run, in monotonic nanoseconds.
        start_ns: u64,
    },
    /// The relay passes frames.
    Relaying,
    /// Frames to hosts of this machine that the network or the hosts lost, by number of the tunnel; sent before
    /// [`Reply::EmulatorEnded`].
    Relayed {
        /// Number of the tunnel and of its lost frames.
        lost: Vec<(u16, u64)>,
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
        /// Values of one message; those of one time may come in several.
        readings: Vec<Reading>,
    },
    /// A phase has begun; the values up to now were sent before.
    Phase {
        /// Number of the phase.
        number: usize,
        /// Beginning of the phase, in monotonic nanoseconds.
        at_ns: u64,
        /// Number of samples left out since the start, because reading took too long.
        dropped: u64,
    },
    /// Times for which the threads of a running process waited for a processor.
    Waited {
        /// Number given to the process.
        id: u32,
        /// Time of the report, in monotonic nanoseconds.
        at_ns: u64,
        /// For each thread that waited since the last report: the mean wait in nanoseconds, and the number of waits.
        /// Only the threads with the longest mean waits, if there are many.
        waits: Vec<[u64; 2]>,
    },
    /// Counters of one direction of a link.
    Link(Box<LinkReport>),
    /// Result of a capture; sent before [`Reply::EmulatorEnded`].
    Captured(CaptureSummary),
    /// Part of the findings about retention times; sent before [`Reply::EmulatorEnded`].
    Retention(RetentionPart),
    /// The emulator has ended.
    EmulatorEnded {
        /// Resource use of the emulator.
        usage: ProcessUsage,
        /// Number of processes of each host that the kernel killed because the host reached its memory limit.
        killed_for_memory: Vec<u64>,
        /// Number of samples left out because reading took too long.
        dropped: u64,
    },
    /// A failure, after which the supervisor ends.
    Failed {
        /// Description of the failure.
        reason: String,
    },
}

/// Resource use of a process over its lifetime.
#[derive(Clone, Copy, Default, PartialEq, Debug, Serialize, Deserialize)]
pub struct ProcessUsage {
    /// Processor time in user mode, in seconds.
    pub cpu_user_s: f64,
    /// Processor time in the kernel, in seconds.
    pub cpu_system_s: f64,
    /// Peak of resident memory, in bytes.
    pub rss_bytes: u64,
    /// Whether a control group measured this, not `/proc`.
    pub cgroup: bool,
}

/// Counters of one direction of a link since the start of the run.
#[derive(Clone, Default, PartialEq, Debug, Serialize, Deserialize)]
pub struct LinkReport {
    /// Number of the link.
    pub link: usize,
    /// Whether this is the forward direction.
    pub forward: bool,
    /// Time of the report, in nanoseconds since the start of the run.
    pub at_ns: u64,
    /// Whether the direction may transmit.
    pub up: bool,
    /// Number and bytes of packets that the host sent into the link.
    pub sent: [u64; 2],
    /// Number and bytes of packets that arrived or are still in flight.
    pub delivered: [u64; 2],
    /// Number of packets lost by each reason, in the order of `farlink_link::DropReason::ALL`.
    pub dropped: [u64; 5],
    /// Bytes of all lost packets.
    pub dropped_bytes: u64,
    /// Number of packets duplicated, reordered, and corrupted.
    pub altered: [u64; 3],
    /// Peak of the transmission queue in bytes.
    pub queue_peak: u64,
    /// Time spent transmitting, in nanoseconds.
    pub busy_ns: u64,
    /// Bytes that wait for transmission.
    pub queued_bytes: u64,
    /// Bytes of the frames in flight.
    pub in_flight_bytes: u64,
    /// Number of frames ignored because they are not unicast IP.
    pub ignored: u64,
    /// Packets lost by the emulator, not by the link model, plus openings and closings for which the carrier was late.
    pub own_losses: u64,
    /// Packets lost at the interface of a machine outside.
    pub interface_losses: u64,
    /// Whether the machine outside that sends in this direction has changed its hardware address.
    pub other_hardware: bool,
    /// Number of frames handed over.
    pub handed_over: u64,
    /// Median delay beyond the due time, in microseconds.
    pub late_p50_us: f64,
    /// 99th percentile of the delay beyond the due time, in microseconds.
    pub late_p99_us: f64,
    /// The same with 95 % confidence, by which the run is judged.
    pub late_evident_us: f64,
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
            interface_losses: sample.interface_losses,
            other_hardware: sample.other_hardware,
            handed_over: sample.lateness.count(),
            late_p50_us: us(sample.lateness.quantile(0.5)),
            late_p99_us: us(sample.lateness.quantile(0.99)),
            late_evident_us: us(sample.lateness.evident_p99()),
            late_max_us: us(sample.lateness.max()),
            real_time: sample.real_time,
        }
    }
}

/// First 4000 characters of a text without control characters, which could steer a terminal, but line ends.
pub fn plain(text: &str) -> String {
    text.chars().filter(|c| !c.is_control() || *c == '\n').take(4000).collect()
}

/// Writes one reply to standard output.
pub fn say(reply: &Reply) {
    let reply = match reply {
        Reply::Failed { reason } => {
            // The write of a line below 4096 bytes is atomic (pipe(7)), so that lines of supervisor and emulator, which
            // share the pipe, never mix.
            &Reply::Failed { reason: plain(reason).chars().take(500).collect() }
        }
        other => other,
    };
    if let Ok(mut line) = serde_json::to_vec(reply) {
        line.push(b'\n');
        let mut out = std::io::stdout().lock();
        // If the reader is gone, the end of standard input shows it.
        let _ = out.write_all(&line).and_then(|()| out.flush());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_steer_no_terminal() {
        assert_eq!(plain("no\u{1b}[31m room\u{9b}\nhint: \u{7}\tless"), "no[31m room\nhint: less");
        assert_eq!(plain(&"x".repeat(9000)).len(), 4000);
    }

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
