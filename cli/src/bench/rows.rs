//! Rows of the suite: the benchmark of each, and its figures beside those of the baseline.

use super::nodes::{self, BenchFolder};
use super::{codec, delivery, forward, routing};
use crate::CliError;
use anyhow::Context;
use farlink_apps::bench::{forward::Farlink, loopback, round_trip};
use farlink_base::DataVolume;
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Stdio};

/// Benchmark of a row, with its parameters.
#[derive(Clone, Copy)]
enum RowKind {
    /// Two nodes: layer, store, whether TLS is used.
    Loopback(&'static str, &'static str, bool),
    /// Three nodes: layer, whether the forwarding node encrypts.
    Forward(&'static str, bool),
    /// Pings between two nodes: store.
    RoundTrip(&'static str),
    /// Delivery to an application: whether into files.
    Delivery(bool),
    /// Encoding or decoding: key of the measured time in the benchmark's result.
    Codec(&'static str),
    Routing,
}

/// A row of the suite.
pub struct BenchRow {
    /// Name in the table: kind of benchmark, layer and options.
    pub name: &'static str,
    /// Payload of each bundle.
    pub size: &'static str,
    what: RowKind,
}

/// Figures of one run of a row; NaN where the benchmark has none.
#[derive(Clone, Copy, Debug)]
pub struct RowFigures {
    /// Processor time, s per GB of payload: of the nodes, and of the baseline.
    pub cost: [f64; 2],
    /// Speed in the row's unit: of the nodes, and of the baseline.
    pub speed: [f64; 2],
    /// Peak memory of the node that used most, bytes.
    pub memory: f64,
}

/// Unit of a row's speed.
pub struct Unit {
    /// Name as printed.
    pub name: &'static str,
    /// Whether a larger value is better.
    pub more_is_better: bool,
    /// Decimals printed.
    pub digits: usize,
}

const fn row(name: &'static str, size: &'static str, what: RowKind) -> BenchRow {
    BenchRow { name, size, what }
}

/// All rows, in the order of the table.
pub const ROWS: [BenchRow; 31] = [
    row("forward, TCPCLv4", "100 kB", RowKind::Forward("tcpclv4", false)),
    row("forward, TCPCLv4", "1 kB", RowKind::Forward("tcpclv4", false)),
    row("forward, TCPCLv4, enciphering (BCB-AES-GCM)", "100 kB", RowKind::Forward("tcpclv4", true)),
    row("forward, STCP", "100 kB", RowKind::Forward("stcp", false)),
    row("forward, STCP", "1 kB", RowKind::Forward("stcp", false)),
    row("forward, LTP, 1360 B datagrams", "100 kB", RowKind::Forward("ltp", false)),
    row("forward, LTP, 1360 B datagrams", "1 kB", RowKind::Forward("ltp", false)),
    row("node to node, TCPCLv4", "100 kB", RowKind::Loopback("tcpclv4", "memory", false)),
    row("node to node, TCPCLv4", "1 kB", RowKind::Loopback("tcpclv4", "memory", false)),
    row("node to node, TCPCLv4, durable", "100 kB", RowKind::Loopback("tcpclv4", "durable", false)),
    row("node to node, TCPCLv4, durable", "1 kB", RowKind::Loopback("tcpclv4", "durable", false)),
    row("node to node, TCPCLv4 with TLS 1.3", "100 kB", RowKind::Loopback("tcpclv4", "memory", true)),
    row("node to node, TCPCLv3", "100 kB", RowKind::Loopback("tcpclv3", "memory", false)),
    row("node to node, STCP", "100 kB", RowKind::Loopback("stcp", "memory", false)),
    row("node to node, MTCP", "100 kB", RowKind::Loopback("mtcp", "memory", false)),
    row("node to node, LTP, 1360 B datagrams", "100 kB", RowKind::Loopback("ltp", "memory", false)),
    row("node to node, LTP, 1360 B datagrams", "1 kB", RowKind::Loopback("ltp", "memory", false)),
    row("node to node, UDPCL", "1 kB", RowKind::Loopback("udpcl", "memory", false)),
    row("round trip, TCPCLv4", "1 kB", RowKind::RoundTrip("memory")),
    row("round trip, TCPCLv4, durable", "1 kB", RowKind::RoundTrip("durable")),
    row("to an application", "5 kB", RowKind::Delivery(false)),
    row("to an application", "100 kB", RowKind::Delivery(false)),
    row("to an application, into files", "5 kB", RowKind::Delivery(true)),
    row("to an application, into files", "100 kB", RowKind::Delivery(true)),
    row("codec, write with CRC-32C", "1 kB", RowKind::Codec("encode_ns")),
    row("codec, write with CRC-32C", "100 kB", RowKind::Codec("encode_ns")),
    row("codec, write with CRC-32C", "1 MB", RowKind::Codec("encode_ns")),
    row("codec, read with CRC-32C", "1 kB", RowKind::Codec("decode_ns")),
    row("codec, read with CRC-32C", "100 kB", RowKind::Codec("decode_ns")),
    row("codec, read with CRC-32C", "1 MB", RowKind::Codec("decode_ns")),
    row("contact-graph routing, 206 nodes, 16,000 contacts", "100 kB", RowKind::Routing),
];

impl BenchRow {
    /// Name with size: the text that `--rows` filters.
    pub fn title(&self) -> String {
        format!("{}, {}", self.name, self.size)
    }
    /// Unit of this row's speed.
    pub fn unit(&self) -> Unit {
        let unit = |name, more_is_better, digits| Unit { name, more_is_better, digits };
        match self.what {
            RowKind::Loopback(..) | RowKind::Forward(..) | RowKind::Delivery(_) => unit("Gbit/s", true, 2),
            RowKind::RoundTrip(_) => unit("ms p50", false, 3),
            RowKind::Codec(_) => unit("ns", false, 0),
            RowKind::Routing => unit("routed/s", true, 0),
        }
    }
    /// Runs the benchmark once with nodes of `program`; with `baseline`, the plain copies too.
    pub fn measure(&self, seconds: f64, program: &Path, baseline: bool) -> Result<Value, CliError> {
        let size: DataVolume = self.size.parse().map_err(|_| CliError::Input(format!("`{}` is no size", self.size)))?;
        let folder = BenchFolder::new(None)?;
        let nodes = |cla: &str, store: &str, tls: bool| {
            let (cla, store, bundle_size) = (cla.to_string(), store.to_string(), size);
            let args =
                nodes::Args { cla, bundle_size, seconds, store, mtu: 1360, rate: None, tls, keep: None, json: true };
            let mut options = args.options(folder.path())?;
            options.program = program.to_path_buf();
            options.baseline = baseline;
            Ok::<_, CliError>(options)
        };
        Ok(match self.what {
            RowKind::Loopback(cla, store, tls) => loopback::loopback(&nodes(cla, store, tls)?)?,
            RowKind::Forward(cla, enciphers) => {
                let mut options = nodes(cla, "memory", false)?;
                if enciphers {
                    forward::encipher(&mut options)?;
                }
                farlink_apps::bench::forward::forward(&options, &mut Farlink)?
            }
            RowKind::RoundTrip(store) => round_trip::round_trip(&nodes("tcpclv4", store, false)?, 1_000)?,
            RowKind::Delivery(files) => delivery::measure(size.0, files, folder.path(), program, baseline)?,
            RowKind::Codec(_) if baseline => codec::measure(size.0)?,
            RowKind::Routing if baseline => routing::measure(206, 16_000),
            // Codec and routing run inside the program, not in a node: ask the other program for its result.
            RowKind::Codec(_) => asked(program, &["codec", "--bundle-size", self.size])?,
            RowKind::Routing => asked(program, &["routing"])?,
        })
    }
    /// Extracts the figures from the result of a run.
    pub fn figures(&self, run: &Value) -> RowFigures {
        let of = |key: &str| run[key].as_f64().unwrap_or(f64::NAN);
        let median_ms = |key: &str| run[key]["p50"].as_f64().unwrap_or(f64::NAN);
        let bytes = self.size.parse::<DataVolume>().map_or(f64::NAN, |size| size.0 as f64);
        let cost = [of("cpu_s_per_gb"), of("baseline_cpu_s_per_gb")];
        let goodput = [of("goodput_bit_s") / 1e9, of("baseline_bit_s") / 1e9];
        let (cost, speed) = match self.what {
            RowKind::Loopback(..) | RowKind::Forward(..) | RowKind::Delivery(_) => (cost, goodput),
            RowKind::RoundTrip(_) => (cost, [median_ms("rtt_ms"), median_ms("floor_ms")]),
            // One ns per byte is one s per GB.
            RowKind::Codec(key) => ([of(key) / bytes, of("crc_ns") / bytes], [of(key), of("crc_ns")]),
            RowKind::Routing => ([1e9 / (of("routed_s") * bytes), f64::NAN], [of("routed_s"), f64::NAN]),
        };
        // `f64::max` ignores NaN, the value of absent keys.
        let memory = of("rss_bytes_node").max(of("rss_bytes_sender")).max(of("rss_bytes_receiver"));
        RowFigures { cost, speed, memory }
    }
    /// Name of the baseline of a run.
    pub fn baseline(&self, run: &Value) -> String {
        match self.what {
            RowKind::Codec(_) => "CRC-32C of the same bytes".into(),
            RowKind::Routing => "none: nothing simpler gives the same routes".into(),
            _ => run["baseline"].as_str().unwrap_or("-").into(),
        }
    }
}

/// Runs a benchmark of another program and returns its result.
fn asked(program: &Path, arguments: &[&str]) -> anyhow::Result<Value> {
    let mut command = Command::new(program);
    command.arg("bench").args(arguments).arg("--json").stderr(Stdio::inherit());
    let output = command.output().with_context(|| program.display().to_string())?;
    serde_json::from_slice(&output.stdout).with_context(|| format!("{}: {}", program.display(), output.status))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn named(title: &str) -> &'static BenchRow {
        static ALL: [BenchRow; 31] = ROWS;
        ALL.iter().find(|row| row.title() == title).unwrap()
    }

    #[test]
    fn row_names_are_unique() {
        let names: std::collections::BTreeSet<String> = ROWS.iter().map(BenchRow::title).collect();
        assert_eq!(names.len(), ROWS.len());
        assert!(ROWS.iter().all(|row| row.size.parse::<DataVolume>().is_ok()));
    }

    #[test]
    fn figures_pair_with_their_baseline() {
        let run = json!({ "cpu_s_per_gb": 2.0, "baseline_cpu_s_per_gb": 0.5, "goodput_bit_s": 3e9, "baseline_bit_s": 6e9,
            "rss_bytes_sender": 5, "rss_bytes_receiver": 7 });
        let figures = named("node to node, STCP, 100 kB").figures(&run);
        assert_eq!((figures.cost, figures.speed, figures.memory), ([2.0, 0.5], [3.0, 6.0], 7.0));
        let run = json!({ "encode_ns": 500.0, "decode_ns": 250.0, "crc_ns": 50.0 });
        let figures = named("codec, read with CRC-32C, 1 kB").figures(&run);
        assert_eq!((figures.cost, figures.speed), ([0.25, 0.05], [250.0, 50.0]));
        let run = json!({ "rtt_ms": { "p50": 0.2 }, "floor_ms": { "p50": 0.1 } });
        assert_eq!(named("round trip, TCPCLv4, 1 kB").figures(&run).speed, [0.2, 0.1]);
        let figures =
            named("contact-graph routing, 206 nodes, 16,000 contacts, 100 kB").figures(&json!({"routed_s": 1e4}));
        assert!((figures.cost[0] - 1.0).abs() < 1e-9 && figures.speed[1].is_nan());
    }
}
