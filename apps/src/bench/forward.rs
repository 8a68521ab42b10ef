//! Forwarding benchmark: a generator, a forwarding node and a sink, all on this machine. The forwarding node is Farlink
//! or another implementation. The baseline is a thread that copies from socket to socket.

use super::baseline;
use super::nodes::{BenchOptions, DRAIN, GENERATOR, MIDDLE, Middle, NodeProcess, Ports, SINK};
use crate::http;
use anyhow::Context;
use farlink_base::layer::Medium;
use serde_json::{Value, json};
use std::net::TcpStream;
use std::time::{Duration, Instant};

pub use super::nodes::Farlink;

/// Time without new bundles after which the sink counts as done.
const STILL: Duration = Duration::from_millis(700);

/// Runs the benchmark with this implementation as the forwarding node; returns the result as JSON.
///
/// # Errors
/// If a node cannot be started or gives no report.
pub fn forward(options: &BenchOptions, middle: &mut dyn Middle) -> anyhow::Result<Value> {
    // Before the nodes start, so that they do not compete for processors.
    let copied = options.baseline.then(|| baseline::between(options)).transpose()?;
    let ports = Ports::free()?;
    let mut sink = options.sink(&options.write(SINK, &ports, &[(MIDDLE, false)])?)?;
    let control = options.folder.join(format!("node-{SINK}.control.sock")).display().to_string();
    sink.until("the sink serves", || Ok(counted(&control).is_ok()))?;
    let command = middle.prepare(options, &ports, &options.folder)?;
    let mut between = NodeProcess::start(command, &options.folder, "middle")?;
    // Only TCP can be probed by connecting; datagram layers get the pause below instead.
    let serves = || Ok(options.medium == Medium::Datagrams || TcpStream::connect(("127.0.0.1", ports.middle)).is_ok());
    between.until("the node between serves", serves).with_context(|| middle.name())?;
    std::thread::sleep(Duration::from_millis(500));
    // The node used this half second to open its sessions; their processor time is not part of the result.
    let idle = between.cpu_s();
    let mut generator = options.generator(&options.write(GENERATOR, &ports, &[(MIDDLE, true)])?)?;
    generator.wait(Duration::from_secs_f64(options.seconds) + DRAIN)?;
    let (mut count, mut since) = (counted(&control)?, Instant::now());
    // Bundles that arrive after the drain time are not counted.
    let last = Instant::now() + DRAIN;
    while since.elapsed() < STILL && Instant::now() < last {
        std::thread::sleep(Duration::from_millis(50));
        let now = counted(&control)?;
        if now != count {
            (count, since) = (now, Instant::now());
        }
    }
    let cost = Cost { cpu_s: between.cpu_s() - idle, memory: between.memory() };
    let sent = generator.finish()?;
    let got = sink.finish()?;
    drop(between);
    let mut result = result(options, &middle.name(), &sent, &got, &cost);
    if let Some(copied) = copied {
        copied.write(&mut result);
    }
    Ok(result)
}

/// Processor time (s) and peak memory (bytes) of the forwarding node.
struct Cost {
    cpu_s: f64,
    memory: u64,
}

fn result(options: &BenchOptions, name: &str, sent: &Value, got: &Value, cost: &Cost) -> Value {
    let goodput = got["goodput_bit_s"].as_f64().unwrap_or(0.0);
    let received = got["received"].as_f64().unwrap_or(0.0);
    let gigabytes = got["received_bytes"].as_f64().unwrap_or(0.0) / 1e9;
    let each = |whole: f64, of: f64| if of > 0.0 { whole / of } else { 0.0 };
    json!({
        "node": name,
        "cla": options.layer,
        "bundle_size": options.bundle_size,
        "store": if options.durable { "durable" } else { "memory" },
        "goodput_bit_s": goodput,
        "bundles_s": got["bundles_s"],
        "sent": sent["sent"],
        "received": got["received"],
        "cpu_s_node": cost.cpu_s,
        "cpu_s_per_gb": each(cost.cpu_s, gigabytes),
        "cpu_us_per_bundle": each(cost.cpu_s * 1e6, received),
        "rss_bytes_node": cost.memory,
    })
}

/// Number of bundles that the sink's node has delivered so far.
fn counted(control: &str) -> anyhow::Result<u64> {
    let (_, text) = http::request("GET", control, "/metrics", "")?;
    let line = text.lines().find_map(|line| line.strip_prefix("farlink_bundles_delivered_total "));
    line.and_then(|count| count.parse().ok()).context("the sink's metrics lack the count of delivered bundles")
}
