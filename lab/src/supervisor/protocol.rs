//! What the supervisor is told and what it answers: one JSON object per line.

use crate::cable::Method;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::Write;
use std::net::IpAddr;
use std::path::PathBuf;

/// Addresses of one interface, each with the length of its network's prefix.
pub type Addresses = Vec<(IpAddr, u8)>;

/// What the supervisor is told.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "do")]
pub enum Request {
    /// Makes hosts and joins them. Once, first. Answer: [`Reply::SetUp`].
    SetUp {
        /// TCP of each host; there are as many hosts.
        hosts: Vec<HostTcp>,
        /// What joins them.
        cables: Vec<CableSetup>,
        /// How; the best this machine permits when not given.
        method: Option<Method>,
    },
    /// Starts the emulator on all cables. Once, after `SetUp`. Answers: [`Reply::Emulating`], then
    /// [`Reply::Link`] each interval.
    Emulate {
        /// Models, in the order of the cables.
        links: Links,
        /// Seed of everything random.
        seed: u64,
        /// Monotonic nanoseconds of the start of the run; without it, as soon as all links are there.
        start_ns: Option<u64>,
        /// Milliseconds between samples.
        interval_ms: u64,
    },
    /// Starts a process. Answer: [`Reply::Started`], later [`Reply::Exited`].
    Spawn(SpawnSetup),
    /// Sends a signal to a process of ours; nothing when it has ended.
    Signal {
        /// Its number.
        id: u32,
        /// Which.
        signal: SignalName,
    },
    /// Reports what every process uses, each interval from now on. Answers: [`Reply::Usage`].
    Account {
        /// Milliseconds between reports.
        interval_ms: u64,
    },
    /// Stops the emulator after its last samples. Answer: [`Reply::EmulatorEnded`].
    StopEmulator,
}

/// TCP of a host. Buffers hold this much payload.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct HostTcp {
    /// Congestion control, by the kernel's name; the machine's own when not given.
    pub congestion: Option<String>,
    /// Most bytes written and not yet acknowledged.
    pub send_buffer: u64,
    /// Most bytes received and not yet read.
    pub receive_buffer: u64,
}

impl Default for HostTcp {
    /// As Linux is delivered.
    fn default() -> Self {
        HostTcp { congestion: None, send_buffer: 4 << 20, receive_buffer: 6 << 20 }
    }
}

/// A cable between two hosts.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CableSetup {
    /// Numbers of the hosts.
    pub hosts: [usize; 2],
    /// Addresses of either end.
    pub addresses: [Addresses; 2],
    /// Largest IP packet.
    pub mtu: u32,
}

/// Where the link models come from. Text, because text is exact and small.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Links {
    /// The links of a scenario.
    Scenario {
        /// Its text.
        text: String,
        /// Folder its paths are relative to.
        folder: PathBuf,
    },
    /// One link by its specification (`farlink_link::LinkSpec::parse`).
    Specification(String),
}

/// A process to start.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SpawnSetup {
    /// Number it is known by from now on.
    pub id: u32,
    /// Number of its host.
    pub host: usize,
    /// Program and arguments.
    pub command: Vec<String>,
    /// Environment beyond our own.
    pub environment: BTreeMap<String, String>,
    /// Working directory.
    pub directory: PathBuf,
    /// File for its standard output; none goes to our standard error.
    pub stdout: Option<PathBuf>,
    /// File for its standard error; none goes to our standard error.
    pub stderr: Option<PathBuf>,
    /// Real-time priority (`SCHED_RR`) of its threads; none: ordinary scheduling.
    #[serde(default)]
    pub real_time: Option<i32>,
}

/// Signals by name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SignalName {
    /// Please end.
    Terminate,
    /// End now.
    Kill,
    /// Control-C.
    Interrupt,
    /// Stand still.
    Stop,
    /// Go on.
    Continue,
}

/// What the supervisor answers.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "say")]
pub enum Reply {
    /// It is isolated and waits for requests.
    Ready {
        /// Its process ID outside.
        process: u32,
        /// Whether it needed a user namespace: an ordinary user's way.
        user_namespace: bool,
    },
    /// Hosts stand and are joined.
    SetUp {
        /// How.
        method: Method,
        /// Descriptor of each host's network namespace in the supervisor.
        descriptors: Vec<i32>,
        /// Whether processes may be given real-time scheduling.
        real_time: bool,
    },
    /// Both directions of every link are there and take packets.
    Emulating {
        /// Monotonic nanoseconds of the start of the run.
        start_ns: u64,
    },
    /// A process runs.
    Started {
        /// Its number.
        id: u32,
    },
    /// A process ended.
    Exited {
        /// Its number.
        id: u32,
        /// Monotonic nanoseconds.
        at_ns: u64,
        /// Exit status, unless a signal ended it.
        code: Option<i32>,
        /// The signal.
        signal: Option<i32>,
        /// What it used.
        usage: ProcessUsage,
    },
    /// What a running process has used.
    Usage {
        /// Its number.
        id: u32,
        /// Monotonic nanoseconds.
        at_ns: u64,
        /// What.
        usage: ProcessUsage,
        /// How long its threads waited for a processor since the last report: for each thread the mean
        /// wait in nanoseconds, and how often it waited.
        waits: Vec<[u64; 2]>,
    },
    /// What a direction of a link has done.
    Link(Box<LinkReport>),
    /// The emulator has ended.
    EmulatorEnded {
        /// Its processor time and memory.
        usage: ProcessUsage,
    },
    /// Something failed; the supervisor ends.
    Failed {
        /// What, in words.
        reason: String,
    },
}

/// What a process has used.
#[derive(Clone, Copy, Default, PartialEq, Debug, Serialize, Deserialize)]
pub struct ProcessUsage {
    /// Seconds of processor time in user mode; all of it while the process runs.
    pub cpu_user_s: f64,
    /// Seconds of processor time in the kernel, once the process has ended.
    pub cpu_system_s: f64,
    /// Resident bytes: now while it runs, the peak once it has ended.
    pub rss_bytes: u64,
    /// Whether a control group counted, not `/proc`.
    pub cgroup: bool,
}

/// What a direction of a link has done since the start.
#[derive(Clone, Default, PartialEq, Debug, Serialize, Deserialize)]
pub struct LinkReport {
    /// Number of the link.
    pub link: usize,
    /// Whether it is the forward direction.
    pub forward: bool,
    /// Nanoseconds since the start of the run.
    pub at_ns: u64,
    /// Whether it may transmit.
    pub up: bool,
    /// Packets and bytes offered.
    pub sent: [u64; 2],
    /// Packets and bytes that arrive.
    pub delivered: [u64; 2],
    /// Packets lost, by reason in the order of `farlink_link::DropReason::ALL`.
    pub dropped: [u64; 5],
    /// Bytes lost.
    pub dropped_bytes: u64,
    /// Packets duplicated, reordered, corrupted.
    pub altered: [u64; 3],
    /// Most bytes that waited.
    pub queue_peak: u64,
    /// Nanoseconds spent transmitting.
    pub busy_ns: u64,
    /// Bytes waiting.
    pub queued_bytes: u64,
    /// Bytes on their way.
    pub in_flight_bytes: u64,
    /// Frames that were not unicast IP.
    pub ignored: u64,
    /// Packets lost by the emulator itself, and openings of the link it missed.
    pub own_losses: u64,
    /// Frames handed over, and their lateness in microseconds: median, 99 %, greatest.
    pub handed_over: u64,
    /// Median lateness, us.
    pub late_p50_us: f64,
    /// 99th percentile of lateness, us.
    pub late_p99_us: f64,
    /// Greatest lateness, us.
    pub late_max_us: f64,
    /// Whether the emulator has real-time scheduling.
    pub real_time: bool,
}

impl LinkReport {
    /// The counters as the link model counts them.
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

impl From<&crate::emulator::Sample> for LinkReport {
    fn from(sample: &crate::emulator::Sample) -> Self {
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

/// Writes one reply to standard output. A line stays below 4096 bytes, so that lines of supervisor
/// and emulator, which share the pipe, never mix (pipe(7)).
pub fn say(reply: &Reply) {
    let reply = match reply {
        Reply::Failed { reason } => {
            &Reply::Failed { reason: reason.chars().filter(|c| !c.is_control()).take(500).collect() }
        }
        other => other,
    };
    if let Ok(mut line) = serde_json::to_vec(reply) {
        line.push(b'\n');
        let mut out = std::io::stdout().lock();
        // Nobody listening is found out by the end of standard input.
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
