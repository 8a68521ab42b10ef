//! Nodes of a benchmark: their configuration files and processes, and the processor time and memory that they use.

use anyhow::{Context, bail, ensure};
use farlink_base::DataRate;
use farlink_base::layer::Medium;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::net::{TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Node number of the generator.
pub const GENERATOR: u32 = 1;
/// Node number of the sink.
pub const SINK: u32 = 2;
/// Node number of the forwarding node.
pub const MIDDLE: u32 = 3;
/// Service number of the sink.
pub const SERVICE: u32 = 9;
/// Rate of UDPCL in bytes per second, which most machines receive without loss.
const UDPCL_PACE: u64 = 125_000_000;
/// Payload bytes of the bundles that may wait in the generator's node; at this amount the generator pauses.
const IN_NODE: u64 = 32 << 20;

/// Time for bundles in flight to arrive after the generator has stopped.
pub(super) const DRAIN: Duration = Duration::from_secs(10);
/// Longest wait for a condition, e.g. that a node answers.
const PATIENCE: Duration = Duration::from_secs(30);

/// Parameters of benchmarks with several nodes.
#[derive(Clone, Debug)]
pub struct BenchOptions {
    /// Convergence layer, by its name in configuration files.
    pub layer: &'static str,
    /// Medium of the layer: streams or datagrams.
    pub medium: Medium,
    /// Payload length of each bundle, in bytes.
    pub bundle_size: u64,
    /// Time for which the generator sends, in s.
    pub seconds: f64,
    /// Whether the nodes' stores are on disk.
    pub durable: bool,
    /// Further lines for the layer's table in the file of each node: generator, sink, forwarding node.
    pub layer_lines: [String; 3],
    /// Further tables in the file of each node: generator, sink, forwarding node.
    pub tables: [String; 3],
    /// Certificate of a node (also for `localhost`), its key, and the authority, if sessions use TLS.
    pub tls: Option<[PathBuf; 3]>,
    /// Whether the forwarding node encrypts each payload, so that the baseline must, too.
    pub enciphers: bool,
    /// Whether to measure the baseline, too.
    pub baseline: bool,
    /// Maximum bytes per datagram.
    pub mtu: u32,
    /// Payload rate of the generator; `None` for no limit.
    pub rate: Option<DataRate>,
    /// Folder of configuration files, logs and stores.
    pub folder: PathBuf,
    /// Path of the `farlink` binary.
    pub program: PathBuf,
}

/// Ports on loopback at which the measured layer listens.
#[derive(Clone, Copy, Debug)]
pub struct Ports {
    /// Port of the generator, node 1.
    pub generator: u16,
    /// Port of the sink, node 2.
    pub sink: u16,
    /// Port of the forwarding node, node 3.
    pub middle: u16,
}
impl Ports {
    /// Chooses ports that are currently free for both TCP and UDP.
    ///
    /// # Errors
    /// If no port is free.
    pub fn free() -> anyhow::Result<Ports> {
        let ports = free_ports(3)?;
        Ok(Ports { generator: ports[0], sink: ports[1], middle: ports[2] })
    }
    fn of(&self, node: u32) -> u16 {
        match node {
            GENERATOR => self.generator,
            SINK => self.sink,
            _ => self.middle,
        }
    }
}

/// Implementation that forwards from generator to sink: node `ipn:3.0`, which sends bundles for `ipn:2.*` to its
/// neighbour `ipn:2.0`.
pub trait Middle {
    /// Name of the implementation in the result.
    fn name(&self) -> String;
    /// Prepares a program that listens at `ports.middle` and connects to `ports.sink`, with its files in `folder`;
    /// returns the command that starts it.
    ///
    /// # Errors
    /// If it does not support the options, or a file cannot be written.
    fn prepare(&mut self, options: &BenchOptions, ports: &Ports, folder: &Path) -> anyhow::Result<Command>;
}

/// Farlink's own node.
#[derive(Clone, Copy, Debug)]
pub struct Farlink;
impl Middle for Farlink {
    fn name(&self) -> String {
        "farlink".into()
    }
    fn prepare(&mut self, options: &BenchOptions, ports: &Ports, _: &Path) -> anyhow::Result<Command> {
        let file = options.write(MIDDLE, ports, &[(GENERATOR, false), (SINK, true)])?;
        let mut command = Command::new(&options.program);
        command.args(["node", "--config"]).arg(file);
        Ok(command)
    }
}

impl BenchOptions {
    /// Writes the configuration file of a node with these neighbours, each with a flag: whether this node connects to
    /// it.
    pub(super) fn write(&self, node: u32, ports: &Ports, neighbours: &[(u32, bool)]) -> anyhow::Result<PathBuf> {
        let at = node as usize - 1;
        let mut text = format!(
            "{}[layer.main]\nkind = \"{}\"\nlisten = [\"127.0.0.1:{}\"]\n{}\n{}\n",
            self.head(node),
            self.layer,
            ports.of(node),
            self.layer_lines[at],
            self.tables[at],
        );
        for (other, connects) in neighbours {
            text += &format!(
                "[link.to-{other}]\nlayer = \"main\"\npeer = \"ipn:{other}.0\"\naddress = \"127.0.0.1:{}\"\n{}\n\n",
                ports.of(*other),
                self.link_lines(*connects)
            );
        }
        // A neighbour is its own next hop; the first neighbour leads to all others.
        text += "[routes]\n";
        for other in [GENERATOR, SINK].into_iter().filter(|other| *other != node) {
            let through = neighbours.iter().map(|(neighbour, _)| *neighbour).find(|neighbour| neighbour == &other);
            if let Some(through) = through.or(neighbours.first().map(|(neighbour, _)| *neighbour)) {
                text += &format!("\"ipn:{other}.*\" = \"ipn:{through}.0\"\n");
            }
        }
        self.keep(node, &text)
    }
    /// First part of every node's configuration file.
    pub(super) fn head(&self, node: u32) -> String {
        let store = match self.durable {
            true => format!("kind = \"durable\"\ndir = \"store-{node}\""),
            false => "kind = \"memory\"".to_string(),
        };
        format!(
            // With hop_limit 0, bundles have no hop count block.
            "node_ids = [\"ipn:{node}.0\"]\nhop_limit = 0\nprevious_node_block = true\n\n[store]\n{store}\n\
             capacity = \"4 GB\"\n\n[app]\nsocket = \"node-{node}.sock\"\n\n[log]\nlevel = \"warn\"\n\n"
        )
    }
    /// Writes the configuration file of a node; returns its path.
    pub(super) fn keep(&self, node: u32, text: &str) -> anyhow::Result<PathBuf> {
        let file = self.folder.join(format!("node-{node}.toml"));
        std::fs::write(&file, text)?;
        Ok(file)
    }
    pub(super) fn link_lines(&self, connects: bool) -> String {
        match self.medium {
            Medium::Streams => format!("connect = {connects}"),
            // UDPCL has no flow control, so the sender is paced.
            Medium::Datagrams if self.layer == "udpcl" => {
                format!("version = 2\ndatagram = \"{} B\"\npace = \"{UDPCL_PACE} B\"", self.mtu)
            }
            // Loopback has no rate to pace by, so the receiver's socket buffer bounds the window instead.
            Medium::Datagrams => {
                format!("datagram = \"{} B\"\nwindow = \"{} B\"\nmargin = \"50 ms\"", self.mtu, self.window())
            }
        }
    }
    /// Bytes per datagram of a plain copy: the MTU, or the payload if it is smaller.
    pub(super) fn datagram(&self) -> usize {
        u64::from(self.mtu).min(self.bundle_size).max(1) as usize
    }
    /// Maximum bytes in flight over LTP, and in a plain copy of datagrams: a quarter of the receiver's socket buffer,
    /// whose limit ordinary users cannot raise. The kernel charges about 2.3 kB per datagram.
    pub(super) fn window(&self) -> u64 {
        let root = rustix::process::geteuid().is_root();
        let limit = std::fs::read_to_string("/proc/sys/net/core/rmem_max").ok();
        let limit = limit.and_then(|text| text.trim().parse().ok());
        // Root may exceed the limit (SO_RCVBUFFORCE); 212,992 is Linux's default limit.
        let buffer: u64 = if root { 64 << 20 } else { limit.unwrap_or(212_992) };
        (buffer / 4).clamp(64 << 10, 8 << 20).max(2 * u64::from(self.mtu))
    }
    /// Starts a node that counts and discards bundles.
    pub(super) fn sink(&self, file: &Path) -> anyhow::Result<NodeProcess> {
        self.start(file, "sink", &["--sink".into(), SERVICE.to_string()])
    }
    /// Starts a node that sends to the sink and exits when all its bundles have left.
    pub(super) fn generator(&self, file: &Path) -> anyhow::Result<NodeProcess> {
        self.generate(file, "generator", SINK)
    }
    /// Starts a generator that sends to the sink at the node with this number.
    pub(super) fn generate(&self, file: &Path, name: &str, sink: u32) -> anyhow::Result<NodeProcess> {
        // At least 16 bundles, so that sending does not pause for one long bundle; at most 20,000 short ones, as each
        // costs the node memory beside its payload.
        let window = (IN_NODE / self.bundle_size.max(1)).clamp(16, 20_000);
        let mut load: Vec<String> = Vec::new();
        for (name, value) in [
            ("--generate", format!("ipn:{sink}.{SERVICE}")),
            ("--generate-size", self.bundle_size.to_string()),
            ("--generate-seconds", self.seconds.to_string()),
            ("--generate-window", window.to_string()),
        ] {
            load.extend([name.to_string(), value]);
        }
        if let Some(rate) = self.rate {
            load.extend(["--generate-rate".into(), rate.to_string()]);
        }
        self.start(file, name, &load)
    }
    /// Starts a node with these command-line options for its load.
    pub(super) fn start(&self, file: &Path, name: &str, load: &[String]) -> anyhow::Result<NodeProcess> {
        let mut command = Command::new(&self.program);
        command.args(["node", "--config"]).arg(file).args(load);
        NodeProcess::start(command, &self.folder, name)
    }
}

/// Process of a benchmark; killed on drop, and by the kernel if this process ends in any way.
pub struct NodeProcess {
    child: Child,
    /// Set by Control-C, which ends the benchmark; its temporary folder is then removed.
    stop: Arc<AtomicBool>,
    log: PathBuf,
    report: PathBuf,
}
impl NodeProcess {
    /// Starts a program; its standard output goes to `NAME.json` in the folder, its standard error to `NAME.log`.
    pub fn start(mut command: Command, folder: &Path, name: &str) -> anyhow::Result<NodeProcess> {
        let (report, log) = (folder.join(format!("{name}.json")), folder.join(format!("{name}.log")));
        let said = std::fs::File::create(&report)?;
        // Appended, so that a restart keeps the log of the previous run.
        let errors = std::fs::OpenOptions::new().create(true).append(true).open(&log)?;
        // Some programs exit when standard input ends, so the pipe stays open.
        command.stdin(Stdio::piped()).stdout(said).stderr(errors);
        let stop = farlink_os::process::watch_termination()?;
        // The kernel kills the child if this process dies.
        farlink_os::process::start_in(&mut command, None, None);
        let child = command.spawn().with_context(|| command.get_program().to_string_lossy().into_owned())?;
        Ok(NodeProcess { child, stop, log, report })
    }
    /// Sleeps; fails if Control-C was pressed.
    fn pause(&self, moment: Duration) -> anyhow::Result<()> {
        std::thread::sleep(moment);
        ensure!(!self.stop.load(Ordering::Relaxed), "stopped");
        Ok(())
    }
    /// Whether the process has exited.
    pub fn ended(&mut self) -> anyhow::Result<bool> {
        Ok(self.child.try_wait()?.is_some())
    }
    /// Waits until the process exits, at most for `patience`.
    pub fn wait(&mut self, patience: Duration) -> anyhow::Result<()> {
        let begun = Instant::now();
        while !self.ended()? && begun.elapsed() < patience {
            self.pause(Duration::from_millis(20))?;
        }
        Ok(())
    }
    /// Waits until `so` returns true; fails if the process exits before, or after 30 s. `what` describes the condition.
    pub fn until(&mut self, what: &str, mut so: impl FnMut() -> anyhow::Result<bool>) -> anyhow::Result<()> {
        let begun = Instant::now();
        while !so()? {
            ensure!(!self.ended()?, "a program ended before {what}: {}", self.last_words());
            ensure!(begun.elapsed() < PATIENCE, "waited {PATIENCE:?} until {what}");
            self.pause(Duration::from_millis(5))?;
        }
        Ok(())
    }
    /// Last error of the process's log, or the last line if the log has no error; taken from the output if the log is
    /// empty.
    pub fn last_words(&self) -> String {
        let last = |file: &Path| last_words(&std::fs::read_to_string(file).ok()?).map(str::to_string);
        last(&self.log).or_else(|| last(&self.report)).unwrap_or_default()
    }
    /// Processor time of the process so far, in s.
    pub fn cpu_s(&self) -> f64 {
        let text = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap_or_default();
        // proc(5): user and system time, in ticks of which a second has 100.
        let after = text.rsplit_once(')').map_or("", |(_, after)| after);
        let ticks = after.split_whitespace().skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok());
        ticks.sum::<f64>() / 100.0
    }
    /// Processor time of each owner thread, in s: the first thread of the process, and those of its shards.
    pub fn owners_cpu_s(&self) -> Vec<f64> {
        self.threads_cpu_s().into_iter().filter_map(|(owner, cpu_s)| owner.then_some(cpu_s)).collect()
    }
    /// Processor time of each living thread in s, and whether it owns a stack; finer than [`NodeProcess::cpu_s`].
    pub fn threads_cpu_s(&self) -> Vec<(bool, f64)> {
        let folder = format!("/proc/{}/task", self.child.id());
        let mut threads = Vec::new();
        for task in std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()) {
            let name = std::fs::read_to_string(task.join("comm")).unwrap_or_default();
            let first = task.file_name().is_some_and(|id| *id == *self.child.id().to_string());
            // Documentation/scheduler/sched-stats.rst: time spent on the processor in ns, then other numbers.
            let text = std::fs::read_to_string(task.join("schedstat")).unwrap_or_default();
            let ns = text.split_whitespace().next().and_then(|ns| ns.parse::<f64>().ok());
            threads.push((first || name.starts_with("shard "), ns.unwrap_or_default() / 1e9));
        }
        threads
    }
    /// Peak of the resident memory, in bytes.
    pub fn memory(&self) -> u64 {
        let text = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap_or_default();
        let peak = text.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or("");
        peak.split_whitespace().next().and_then(|kilobytes| kilobytes.parse::<u64>().ok()).unwrap_or(0) * 1024
    }
    /// Terminates the process, if it still runs, and returns the report of its load.
    pub fn finish(mut self) -> anyhow::Result<Value> {
        if self.child.try_wait()?.is_none() {
            // SIGTERM lets the node print the report of its load.
            kill_process(Pid::from_child(&self.child), Signal::TERM)?;
        }
        let status = self.child.wait()?;
        let text = std::fs::read_to_string(&self.report)?;
        serde_json::from_str(&text).with_context(|| {
            format!("a node ended with {status} and no report; its last message: {}", self.last_words())
        })
    }
}
impl Drop for NodeProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Last error in a text, with its hint, or the last line.
fn last_words(text: &str) -> Option<&str> {
    let text = text.trim_end();
    // From the last error to the end, so that its hint is included.
    let error = text.rfind("\nerror: ").map(|at| at + 1).or(text.starts_with("error: ").then_some(0));
    error.map(|at| &text[at..]).or(text.lines().last())
}

/// Finds different ports that are currently free for both TCP and UDP.
pub(super) fn free_ports(count: usize) -> anyhow::Result<Vec<u16>> {
    // All are held until the last is found: the kernel may give a port again once it is free.
    let held = (0..count).map(|_| free_port()).collect::<anyhow::Result<Vec<_>>>()?;
    Ok(held.into_iter().map(|(port, _)| port).collect())
}

fn free_port() -> anyhow::Result<(u16, (TcpListener, UdpSocket))> {
    for _ in 0..100 {
        let tcp = TcpListener::bind("127.0.0.1:0")?;
        let port = tcp.local_addr()?.port();
        // Another program could take the port once the sockets close, which is unlikely in so short a time.
        if let Ok(udp) = UdpSocket::bind(("127.0.0.1", port)) {
            return Ok((port, (tcp, udp)));
        }
    }
    bail!("no free port on loopback")
}

#[cfg(test)]
mod tests {
    use super::{free_ports, last_words};
    use std::collections::BTreeSet;

    #[test]
    fn free_ports_differ() {
        for _ in 0..50 {
            assert_eq!(free_ports(40).unwrap().into_iter().collect::<BTreeSet<u16>>().len(), 40);
        }
    }

    #[test]
    fn log_excerpt_keeps_error_with_hint() {
        let told = "error: `10 B` is not between 64 B and 64 kB\nhint: write e.g. `datagram = \"1360 B\"`";
        assert_eq!(last_words(&format!("{told}\n")), Some(told));
        assert_eq!(last_words(&format!("error: first\nwarning: so\n{told}\n")), Some(told));
        assert_eq!((last_words("one\ntwo\n"), last_words("")), (Some("two"), None));
    }
}
