//! Benchmark of shards: one node forwards for several pairs of generator and sink, with a layer per pair. It is
//! measured with one shard and with several. The baseline is the same number of simultaneous copies from socket to
//! socket.

use super::baseline;
use super::nodes::{BenchOptions, DRAIN, NodeProcess, SERVICE, free_ports};
use crate::http;
use anyhow::Context;
use farlink_base::layer::Medium;
use serde_json::{Value, json};
use std::net::TcpStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Time without new bundles after which the sinks count as done.
const STILL: Duration = Duration::from_millis(700);
/// Node number of the forwarding node.
const BETWEEN: u32 = 1;

/// Parameters varied by this benchmark.
#[derive(Clone, Copy, Debug)]
pub struct Shards {
    /// Number of shards of the forwarding node, and of pairs.
    pub shards: u32,
    /// Whether each generator sends to the next pair's sink, so that every bundle crosses shards.
    pub cross: bool,
}

/// Node numbers and ports of a generator and a sink, and the forwarding node's port for them.
#[derive(Clone, Copy)]
struct ShardPair {
    generator: (u32, u16),
    sink: (u32, u16),
    between: u16,
}

/// Runs the benchmark with one shard and with several; returns both results as JSON.
///
/// # Errors
/// If a node cannot be started or gives no report.
pub fn shards(options: &BenchOptions, wanted: Shards) -> anyhow::Result<Value> {
    let time = Duration::from_secs_f64(options.seconds.clamp(0.2, 2.0));
    // The baseline copies streams only.
    let copies = match options.medium {
        Medium::Streams => Some((copies(1, time)?, copies(wanted.shards, time)?)),
        Medium::Datagrams => None,
    };
    let one = run(options, Shards { shards: 1, ..wanted }, wanted.shards)?;
    let more = run(options, wanted, wanted.shards)?;
    let goodput = |of: &Value| of["goodput_bit_s"].as_f64().unwrap_or(0.0);
    let busiest = |of: &Value| of["busiest_owner_us_per_bundle"].as_f64().unwrap_or(0.0);
    let mut result = json!({
        "cla": options.layer,
        "bundle_size": options.bundle_size,
        "store": if options.durable { "durable" } else { "memory" },
        "pairs": wanted.shards,
        "cross": wanted.cross,
        "speedup": each(goodput(&more), goodput(&one)),
        "owners_speedup": each(busiest(&one), busiest(&more)),
        "one": one,
        "more": more,
    });
    if let Some((alone, at_once)) = copies {
        result["copy_bit_s"] = alone.into();
        result["copies_bit_s"] = at_once.into();
        result["copies_speedup"] = each(at_once, alone).into();
    }
    Ok(result)
}

/// Total rate of `count` copies at once, in bit/s.
fn copies(count: u32, time: Duration) -> anyhow::Result<f64> {
    let threads: Vec<_> =
        (0..count).map(|_| std::thread::spawn(move || baseline::two_hops(256 << 10, false, time))).collect();
    let rate = |thread: std::thread::JoinHandle<anyhow::Result<baseline::Copied>>| {
        Ok(thread.join().map_err(|_| anyhow::anyhow!("a copy panicked"))??.bit_s)
    };
    threads.into_iter().map(rate).sum()
}

fn run(options: &BenchOptions, Shards { shards, cross }: Shards, count: u32) -> anyhow::Result<Value> {
    let ports = free_ports(3 * count as usize)?;
    let pair = |(ports, n): (&[u16], u32)| ShardPair {
        generator: (10 + 2 * n, ports[0]),
        sink: (11 + 2 * n, ports[1]),
        between: ports[2],
    };
    let pairs: Vec<ShardPair> = ports.chunks_exact(3).zip(0..).map(pair).collect();
    let mut sinks = Vec::new();
    for pair in &pairs {
        let file = outer(options, pair.sink, pair.between, false)?;
        let (number, _) = pair.sink;
        let mut sink = options.start(&file, &format!("sink-{number}"), &["--sink".into(), SERVICE.to_string()])?;
        sink.until("a sink serves", || Ok(delivered(options, number).is_ok()))?;
        sinks.push(sink);
    }
    let mut between = options.start(&between(options, shards, &pairs)?, "middle", &[])?;
    let served = |pair: &ShardPair| options.medium == Medium::Datagrams || connects(pair.between);
    between.until("the node between serves", || Ok(pairs.iter().all(served)))?;
    std::thread::sleep(Duration::from_millis(500));
    let (idle, owners_idle) = (between.cpu_s(), between.owners_cpu_s());
    let mut generators = Vec::new();
    for (n, pair) in pairs.iter().enumerate() {
        // With `cross`, the sink of the next pair, whose link is in another shard.
        let to = &pairs[(n + usize::from(cross)) % pairs.len()];
        let file = outer(options, pair.generator, pair.between, true)?;
        generators.push(options.generate(&file, &format!("generator-{}", pair.generator.0), to.sink.0)?);
    }
    for generator in &mut generators {
        generator.wait(Duration::from_secs_f64(options.seconds) + DRAIN)?;
    }
    let counted = || pairs.iter().map(|pair| delivered(options, pair.sink.0)).sum::<anyhow::Result<u64>>();
    let (mut count, mut since, last) = (counted()?, Instant::now(), Instant::now() + DRAIN);
    while since.elapsed() < STILL && Instant::now() < last {
        std::thread::sleep(Duration::from_millis(50));
        let now = counted()?;
        if now != count {
            (count, since) = (now, Instant::now());
        }
    }
    let (cpu_s, memory) = (between.cpu_s() - idle, between.memory());
    // With enough cores, the busiest owner thread bounds the node's throughput.
    let owners = between.owners_cpu_s().into_iter().zip(owners_idle).map(|(now, before)| now - before);
    let busiest = owners.fold(0.0, f64::max);
    let reports =
        |nodes: Vec<NodeProcess>| nodes.into_iter().map(NodeProcess::finish).collect::<anyhow::Result<Vec<Value>>>();
    let (sent, got) = (reports(generators)?, reports(sinks)?);
    let sum = |of: &[Value], key: &str| of.iter().filter_map(|one| one[key].as_f64()).sum::<f64>();
    let received = sum(&got, "received");
    Ok(json!({
        "shards": shards,
        "goodput_bit_s": sum(&got, "goodput_bit_s"),
        "bundles_s": sum(&got, "bundles_s"),
        "sent": sum(&sent, "sent"),
        "received": received,
        "cpu_s_node": cpu_s,
        "cpu_us_per_bundle": each(cpu_s * 1e6, received),
        "busiest_owner_us_per_bundle": each(busiest * 1e6, received),
        "rss_bytes_node": memory,
    }))
}

/// Quotient, or 0 if the divisor is 0.
fn each(whole: f64, of: f64) -> f64 {
    if of > 0.0 { whole / of } else { 0.0 }
}
fn connects(port: u16) -> bool {
    TcpStream::connect(("127.0.0.1", port)).is_ok()
}

/// Writes the configuration file of a generator or sink, whose only neighbour is the forwarding node.
fn outer(options: &BenchOptions, (number, port): (u32, u16), between: u16, connect: bool) -> anyhow::Result<PathBuf> {
    let mut text = options.head(number);
    text += &layer(options, "main", port, "");
    text += &link(options, "between", "main", BETWEEN, between, connect);
    text += &format!("[routes]\n\"*\" = \"ipn:{BETWEEN}.0\"\n");
    options.keep(number, &text)
}
/// Writes the configuration file of the forwarding node: one layer per pair, distributed over its shards.
fn between(options: &BenchOptions, shards: u32, pairs: &[ShardPair]) -> anyhow::Result<PathBuf> {
    let mut text = format!("shards = {shards}\n{}", options.head(BETWEEN));
    for (n, pair) in pairs.iter().enumerate() {
        let name = format!("pair-{n}");
        text += &layer(options, &name, pair.between, &format!("shard = {}\n", n as u32 % shards));
        for ((number, port), connect) in [(pair.generator, false), (pair.sink, true)] {
            text += &link(options, &format!("to-{number}"), &name, number, port, connect);
        }
    }
    text += "[routes]\n";
    for (number, _) in pairs.iter().flat_map(|pair| [pair.generator, pair.sink]) {
        text += &format!("\"ipn:{number}.*\" = \"ipn:{number}.0\"\n");
    }
    options.keep(BETWEEN, &text)
}
fn layer(options: &BenchOptions, name: &str, port: u16, more: &str) -> String {
    let kind = options.layer;
    format!("[layer.{name}]\nkind = \"{kind}\"\nlisten = [\"127.0.0.1:{port}\"]\n{more}\n")
}
fn link(options: &BenchOptions, name: &str, layer: &str, peer: u32, port: u16, connect: bool) -> String {
    let lines = options.link_lines(connect);
    format!("[link.{name}]\nlayer = \"{layer}\"\npeer = \"ipn:{peer}.0\"\naddress = \"127.0.0.1:{port}\"\n{lines}\n\n")
}

/// Number of bundles that a sink's node has delivered so far.
fn delivered(options: &BenchOptions, number: u32) -> anyhow::Result<u64> {
    let control = options.folder.join(format!("node-{number}.control.sock")).display().to_string();
    let (_, text) = http::request("GET", &control, "/metrics", "")?;
    let line = text.lines().find_map(|line| line.strip_prefix("farlink_bundles_delivered_total "));
    line.and_then(|count| count.parse().ok()).context("a sink's metrics lack the count of delivered bundles")
}
