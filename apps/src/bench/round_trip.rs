//! Round-trip benchmark: bundles to the echo service of a neighbour, one at a time. The baseline is a chain of plain
//! sockets that passes the same bytes with as many threads to wake. Both are measured back to back, and with pauses,
//! since an idle machine is slower to wake and its caches are cold.

use super::baseline;
use super::nodes::{BenchOptions, GENERATOR, NodeProcess, Ports, SINK};
use crate::client::Client;
use crate::{Quantiles, ping};
use anyhow::ensure;
use serde_json::{Value, json};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Pause between paced pings: longer than nearly all round trips.
const INTERVAL: Duration = Duration::from_millis(3);

/// Runs the benchmark with `count` bundles of `options.bundle_size`; returns the result as JSON.
///
/// # Errors
/// If a node cannot be started, or an answer is missing.
pub fn round_trip(options: &BenchOptions, count: u64) -> anyhow::Result<Value> {
    let folder = options.durable.then_some(options.folder.as_path());
    let chain = |count: u64, pause: Duration| match options.baseline {
        true => baseline::chain(options.bundle_size, count, pause, folder).map(Some),
        false => Ok(None),
    };
    // 2,000 messages give stable quantiles.
    let floor = chain(count.min(2_000), Duration::ZERO)?;
    let floor_paced = chain(count.min(1_000), INTERVAL)?;
    let ports = Ports::free()?;
    let mut nodes = Vec::new();
    for (node, name, neighbour) in [(SINK, "echo", (GENERATOR, false)), (GENERATOR, "pinging", (SINK, true))] {
        let mut process = options.start(&options.write(node, &ports, &[neighbour])?, name, &[])?;
        let at = options.folder.join(format!("node-{node}.sock")).display().to_string();
        process.until("a node starts", || Ok(Client::connect(&at).is_ok()))?;
        nodes.push(process);
    }
    let at = options.folder.join(format!("node-{GENERATOR}.sock")).display().to_string();
    let mut pings = ping::PingOptions {
        destination: format!("ipn:{SINK}.7"),
        count: 200,
        interval: INTERVAL,
        size: options.bundle_size,
        timeout: Duration::from_secs(10),
    };
    let stop = AtomicBool::new(false);
    // 200 pings warm caches and sessions up; their times are dropped.
    ping::run(ping::attach(&at)?, &pings, &stop, |_| {})?;
    pings.count = count;
    let paced = ping::run(ping::attach(&at)?, &pings, &stop, |_| {})?;
    // Back to back: each ping follows the answer to the previous one.
    pings.interval = Duration::ZERO;
    let cpu_s =
        |nodes: &[NodeProcess]| nodes.iter().flat_map(NodeProcess::threads_cpu_s).map(|(_, cpu_s)| cpu_s).sum::<f64>();
    let before = cpu_s(&nodes);
    let report = ping::run(ping::attach(&at)?, &pings, &stop, |_| {})?;
    let gigabytes = |count: u64| (count * options.bundle_size) as f64 / 1e9;
    let cpu_s_per_gb = (cpu_s(&nodes) - before) / gigabytes(report.received);
    for report in [&paced, &report] {
        ensure!(report.received == report.sent, "{} of {} answers", report.received, report.sent);
    }
    let mut result = json!({
        "cla": options.layer,
        "bundle_size": options.bundle_size,
        "store": if options.durable { "durable" } else { "memory" },
        "count": report.received,
        "rtt_ms": report.rtt.json(),
        "rtt_paced_ms": paced.rtt.json(),
        "cpu_s_per_gb": cpu_s_per_gb,
        "rss_bytes_node": nodes.iter().map(NodeProcess::memory).max(),
    });
    if let (Some((floor, cpu)), Some((floor_paced, _))) = (floor, floor_paced) {
        let (messages, floor) = (floor.len() as u64, Quantiles::new(&floor).json());
        let and = if options.durable { ", written and synced before each delivery" } else { "" };
        result["baseline"] = format!("chain of sockets{and}").into();
        result["ratio"] = ratio(&result["rtt_ms"], &floor).into();
        result["floor_ms"] = floor;
        result["floor_paced_ms"] = Quantiles::new(&floor_paced).json();
        result["baseline_cpu_s_per_gb"] = (cpu.as_secs_f64() / gigabytes(messages)).into();
    }
    Ok(result)
}

/// Ratio of the medians; 0 without a baseline.
fn ratio(ours: &Value, floor: &Value) -> f64 {
    let median = |value: &Value| value["p50"].as_f64().unwrap_or(0.0);
    if median(floor) > 0.0 { median(ours) / median(floor) } else { 0.0 }
}
