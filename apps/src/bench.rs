//! The loopback benchmark: two node processes, load inside them, and plain socket copies measured in
//! the same call.

pub mod baseline;
pub mod delivery;

use anyhow::{Context, bail};
use baseline::Baselines;
use farlink_base::layer::Medium;
use farlink_base::{DataRate, Duration};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::net::{TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

/// Service of the sink.
const SERVICE: u32 = 9;
/// How long what is on the way at the end may take.
const DRAIN: Duration = Duration::from_secs(10);
/// Bytes a second that UDPCL sends: what is received without loss on most machines.
const UDPCL_PACE: u64 = 125_000_000;
/// Bytes the generator keeps in its node.
const IN_NODE: u64 = 32 << 20;

/// What to measure.
#[derive(Clone, Debug)]
pub struct Options {
    /// The convergence layer, as files call it.
    pub layer: &'static str,
    /// What carries it.
    pub medium: Medium,
    /// Payload of each bundle.
    pub bundle_size: u64,
    /// How long.
    pub seconds: f64,
    /// Whether bundles are kept on disk.
    pub durable: bool,
    /// Lines for the layer of each node, beside those of the benchmark.
    pub layer_lines: [String; 2],
    /// Bytes of one datagram.
    pub mtu: u32,
    /// Payload rate of the generator; as fast as it goes when `None`.
    pub rate: Option<DataRate>,
    /// Where to keep files of the run (configuration, logs, store).
    pub folder: PathBuf,
    /// The `farlink` binary.
    pub program: PathBuf,
}

/// Runs the benchmark.
///
/// # Errors
/// When a node cannot be started or says nothing.
pub fn loopback(options: &Options) -> anyhow::Result<Value> {
    let baselines = baseline::measure(options)?;
    let ports = [free_port()?, free_port()?];
    let receiver_file = write_config(options, 2, ports)?;
    let sender_file = write_config(options, 1, ports)?;
    let mut receiver = start(options, &receiver_file, "receiver", &["--sink".into(), SERVICE.to_string()])?;
    std::thread::sleep(Duration::from_millis(300));
    let mut generate: Vec<String> = Vec::new();
    let window = (IN_NODE / options.bundle_size.max(1)).clamp(16, 20_000);
    for (name, value) in [
        ("--generate", format!("ipn:2.{SERVICE}")),
        ("--generate-size", options.bundle_size.to_string()),
        ("--generate-seconds", options.seconds.to_string()),
        ("--generate-window", window.to_string()),
    ] {
        generate.extend([name.to_string(), value]);
    }
    if let Some(rate) = options.rate {
        generate.extend(["--generate-rate".into(), rate.to_string()]);
    }
    let mut sender = start(options, &sender_file, "sender", &generate)?;
    // The sender ends by itself when everything has arrived.
    let until = Instant::now() + Duration::from_secs_f64(options.seconds) + DRAIN;
    while sender.try_wait()?.is_none() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(20));
    }
    let sent = finish(&mut sender, &options.folder.join("sender.json"))?;
    let got = finish(&mut receiver, &options.folder.join("receiver.json"))?;
    Ok(result(options, &baselines, &sent, &got))
}

fn result(options: &Options, baselines: &Baselines, sent: &Value, got: &Value) -> Value {
    let goodput = got["goodput_bit_s"].as_f64().unwrap_or(0.0);
    let mut result = json!({
        "cla": options.layer,
        "bundle_size": options.bundle_size,
        "store": if options.durable { "durable" } else { "memory" },
        "goodput_bit_s": goodput,
        "bundles_s": got["bundles_s"],
        "sent": sent["sent"],
        "received": got["received"],
        "cpu_s_sender": sent["cpu_s"],
        "cpu_s_receiver": got["cpu_s"],
        "rss_bytes_sender": sent["rss_bytes"],
        "rss_bytes_receiver": got["rss_bytes"],
        "baseline": baselines.name,
        "baseline_bit_s": baselines.plain_bit_s,
        "ratio": if baselines.plain_bit_s > 0.0 { goodput / baselines.plain_bit_s } else { 0.0 },
    });
    if let Some(offload) = baselines.offload_bit_s {
        result["baseline_offload_bit_s"] = offload.into();
        result["mtu"] = options.mtu.into();
    }
    result
}

fn free_port() -> anyhow::Result<u16> {
    // A port free for both protocols right now.
    for _ in 0..100 {
        let tcp = TcpListener::bind("127.0.0.1:0")?;
        let port = tcp.local_addr()?.port();
        if UdpSocket::bind(("127.0.0.1", port)).is_ok() {
            return Ok(port);
        }
    }
    bail!("no free port on loopback")
}

fn write_config(options: &Options, node: usize, ports: [u16; 2]) -> anyhow::Result<PathBuf> {
    let other = 3 - node;
    let (here, there) = (ports[node - 1], ports[other - 1]);
    let store = if options.durable {
        format!("kind = \"durable\"\ndir = \"store-{node}\"")
    } else {
        "kind = \"memory\"".to_string()
    };
    let link = match options.medium {
        Medium::Streams => format!("connect = {}", node == 1),
        // Nothing tells this layer what the other end takes.
        Medium::Datagrams if options.layer == "udpcl" => {
            format!("version = 2\ndatagram = \"{} B\"\npace = \"{} B\"", options.mtu, UDPCL_PACE)
        }
        // The window is what the receiver's socket buffer surely holds: loopback has no rate.
        Medium::Datagrams => {
            format!("datagram = \"{} B\"\nwindow = \"{} B\"\nmargin = \"50 ms\"", options.mtu, ltp_window(options))
        }
    };
    let kind = options.layer;
    let more = &options.layer_lines[node - 1];
    let text = format!(
        "node_ids = [\"ipn:{node}.0\"]\nhop_limit = 0\nprevious_node_block = true\n\n[store]\n{store}\n\
         capacity = \"4 GB\"\n\n[layer.main]\nkind = \"{kind}\"\nlisten = [\"127.0.0.1:{here}\"]\n{more}\n\
         [link.peer]\nlayer = \"main\"\npeer = \"ipn:{other}.0\"\naddress = \"127.0.0.1:{there}\"\n{link}\n\n\
         [routes]\n\"ipn:{other}.*\" = \"ipn:{other}.0\"\n\n[app]\necho = false\n\n[log]\nlevel = \"warn\"\n"
    );
    let file = options.folder.join(format!("node-{node}.toml"));
    std::fs::write(&file, text)?;
    Ok(file)
}

/// Bytes in flight over LTP: what fits the receiver's socket buffer, whose limit an ordinary user
/// cannot raise; each datagram is charged about 2.3 kB there.
fn ltp_window(options: &Options) -> u64 {
    let root = rustix::process::geteuid().is_root();
    let limit = std::fs::read_to_string("/proc/sys/net/core/rmem_max").ok().and_then(|text| text.trim().parse().ok());
    let buffer: u64 = if root { 64 << 20 } else { limit.unwrap_or(212_992) };
    (buffer / 4).clamp(64 << 10, 8 << 20).max(2 * u64::from(options.mtu))
}

fn start(options: &Options, config: &Path, name: &str, load: &[String]) -> anyhow::Result<Child> {
    let file = |kind: &str| std::fs::File::create(options.folder.join(format!("{name}.{kind}")));
    Command::new(&options.program)
        .args(["node", "--config"])
        .arg(config)
        .args(load)
        .stdin(Stdio::null())
        .stdout(file("json")?)
        .stderr(file("log")?)
        .spawn()
        .with_context(|| format!("{}", options.program.display()))
}

fn finish(child: &mut Child, report: &Path) -> anyhow::Result<Value> {
    if child.try_wait()?.is_none() {
        kill_process(Pid::from_child(child), Signal::TERM)?;
    }
    let status = child.wait()?;
    let text = std::fs::read_to_string(report)?;
    let log = std::fs::read_to_string(report.with_extension("log")).unwrap_or_default();
    let last = log.lines().last().unwrap_or("");
    serde_json::from_str(&text).with_context(|| format!("a node ended with {status} and no report; it said: {last}"))
}
