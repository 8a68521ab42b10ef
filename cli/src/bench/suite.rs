//! `farlink bench suite`: everything that is measured, as one table.

use super::nodes::{self, Folder};
use super::{codec, delivery, forward, routing};
use crate::{Failure, bar, values};
use farlink_apps::bench::{forward::Farlink, loopback, round_trip};
use farlink_base::DataVolume;
use serde_json::{Value, json};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

/// Marks in a file between which the table stands.
const BEGIN: &str = "<!-- bench:begin -->";
const END: &str = "<!-- bench:end -->";

/// Arguments of `farlink bench suite`.
#[derive(clap::Args)]
pub struct Args {
    /// Runs of each row; medians are shown.
    #[arg(long, default_value = "3", value_parser = values::some)]
    runs: u64,
    /// How long each run sends.
    #[arg(long, default_value = "4")]
    seconds: f64,
    /// Only rows with this in their name.
    #[arg(long)]
    only: Option<String>,
    /// Write the table into this file, between `<!-- bench:begin -->` and `<!-- bench:end -->`.
    #[arg(long, conflicts_with = "only")]
    write: Option<PathBuf>,
    /// Print one JSON document: all results of all runs.
    #[arg(long)]
    json: bool,
}

/// What is measured in a row.
#[derive(Clone, Copy)]
enum What {
    /// Two nodes: layer, store, secured.
    Loopback(&'static str, &'static str, bool),
    /// Three: layer, the one between enciphers.
    Forward(&'static str, bool),
    /// Pings: store.
    RoundTrip(&'static str),
    /// To an application: into files.
    Delivery(bool),
    Codec,
    Routing,
}

struct Row {
    name: &'static str,
    size: &'static str,
    what: What,
}

const fn row(name: &'static str, size: &'static str, what: What) -> Row {
    Row { name, size, what }
}

const ROWS: [Row; 28] = [
    row("forward, TCPCLv4", "100 kB", What::Forward("tcpclv4", false)),
    row("forward, TCPCLv4", "1 kB", What::Forward("tcpclv4", false)),
    row("forward, TCPCLv4, enciphering (BCB-AES-GCM)", "100 kB", What::Forward("tcpclv4", true)),
    row("forward, STCP", "100 kB", What::Forward("stcp", false)),
    row("forward, STCP", "1 kB", What::Forward("stcp", false)),
    row("forward, LTP, 1360 B datagrams", "100 kB", What::Forward("ltp", false)),
    row("forward, LTP, 1360 B datagrams", "1 kB", What::Forward("ltp", false)),
    row("node to node, TCPCLv4", "100 kB", What::Loopback("tcpclv4", "memory", false)),
    row("node to node, TCPCLv4", "1 kB", What::Loopback("tcpclv4", "memory", false)),
    row("node to node, TCPCLv4, durable", "100 kB", What::Loopback("tcpclv4", "durable", false)),
    row("node to node, TCPCLv4, durable", "1 kB", What::Loopback("tcpclv4", "durable", false)),
    row("node to node, TCPCLv4 with TLS 1.3", "100 kB", What::Loopback("tcpclv4", "memory", true)),
    row("node to node, TCPCLv3", "100 kB", What::Loopback("tcpclv3", "memory", false)),
    row("node to node, STCP", "100 kB", What::Loopback("stcp", "memory", false)),
    row("node to node, MTCP", "100 kB", What::Loopback("mtcp", "memory", false)),
    row("node to node, LTP, 1360 B datagrams", "100 kB", What::Loopback("ltp", "memory", false)),
    row("node to node, LTP, 1360 B datagrams", "1 kB", What::Loopback("ltp", "memory", false)),
    row("node to node, UDPCL", "1 kB", What::Loopback("udpcl", "memory", false)),
    row("round trip, TCPCLv4", "1 kB", What::RoundTrip("memory")),
    row("round trip, TCPCLv4, durable", "1 kB", What::RoundTrip("durable")),
    row("to an application", "5 kB", What::Delivery(false)),
    row("to an application", "100 kB", What::Delivery(false)),
    row("to an application, into files", "5 kB", What::Delivery(true)),
    row("to an application, into files", "100 kB", What::Delivery(true)),
    row("codec, CRC-32C", "1 kB", What::Codec),
    row("codec, CRC-32C", "100 kB", What::Codec),
    row("codec, CRC-32C", "1 MB", What::Codec),
    row("contact-graph routing, 206 nodes, 16,000 contacts", "100 kB", What::Routing),
];

impl Row {
    fn title(&self) -> String {
        format!("{}, {}", self.name, self.size)
    }
    /// One run.
    fn measure(&self, seconds: f64) -> Result<Value, Failure> {
        let size: DataVolume = self.size.parse().map_err(|_| Failure::Input(format!("`{}` is no size", self.size)))?;
        let folder = Folder::new(None)?;
        let nodes = |cla: &str, store: &str, tls: bool| {
            let (cla, store, bundle_size) = (cla.to_string(), store.to_string(), size);
            nodes::Args { cla, bundle_size, seconds, store, mtu: 1360, rate: None, tls, keep: None, json: true }
                .options(folder.path())
        };
        Ok(match self.what {
            What::Loopback(cla, store, tls) => loopback::loopback(&nodes(cla, store, tls)?)?,
            What::Forward(cla, enciphers) => {
                let mut options = nodes(cla, "memory", false)?;
                if enciphers {
                    forward::encipher(&mut options)?;
                }
                farlink_apps::bench::forward::forward(&options, &mut Farlink)?
            }
            What::RoundTrip(store) => round_trip::round_trip(&nodes("tcpclv4", store, false)?, 1_000)?,
            What::Delivery(files) => delivery::measure(size.0, files, folder.path())?,
            What::Codec => codec::measure(size.0)?,
            What::Routing => routing::measure(206, 16_000),
        })
    }
    /// A line of the table: what it says of the medians.
    fn line(&self, runs: &[Value]) -> String {
        let of = |key: &str| median_of(runs, key);
        let rate = || format!("{:.2} Gbit/s", of("goodput_bit_s") / 1e9);
        let (figure, cost, beside, ratio) = match self.what {
            What::Loopback(..) => {
                let gigabytes = of("received") * of("bundle_size") / 1e9;
                let cpu = (of("cpu_s_sender") + of("cpu_s_receiver")) / gigabytes;
                let memory = of("rss_bytes_sender").max(of("rss_bytes_receiver")) / 1e6;
                let figure = format!("{}, {:.0} bundles/s", rate(), of("bundles_s"));
                let cost = format!("{cpu:.2} s/GB both, {memory:.0} MB");
                (figure, cost, format!("plain copy {:.1} Gbit/s", of("baseline_bit_s") / 1e9), of("ratio"))
            }
            What::Forward(..) => {
                let figure = format!("{}, {:.0} bundles/s", rate(), of("bundles_s"));
                let (per_gb, each) = (of("cpu_s_per_gb"), of("cpu_us_per_bundle"));
                let cost = format!("{per_gb:.2} s/GB, {each:.1} us a bundle, {:.0} MB", of("rss_bytes_node") / 1e6);
                let copy = (of("copy_bit_s") / 1e9, of("copy_cpu_s_per_gb"));
                let beside = match copy.0.is_nan() {
                    true => "-".to_string(),
                    false => format!("copy through a thread {:.1} Gbit/s at {:.2} s/GB", copy.0, copy.1),
                };
                (figure, cost, beside, of("ratio"))
            }
            What::RoundTrip(_) => {
                let time = |of: &str, which: &str| median(&numbers(runs, |run| run[of][which].as_f64()));
                let (p50, p99) = (time("rtt_ms", "p50"), time("rtt_ms", "p99"));
                let paced = |of: &str| format!("every 3 ms p50 {:.3} ms", time(of, "p50"));
                let beside = format!("chain of sockets p50 {:.3} ms", time("floor_ms", "p50"));
                let beside = format!("{beside}, {}", paced("floor_paced_ms"));
                let figure = format!("p50 {p50:.3} ms, p99 {p99:.2} ms, {}", paced("rtt_paced_ms"));
                (figure, "-".into(), beside, of("ratio"))
            }
            What::Delivery(_) => {
                let cost = format!("{:.2} s in all", of("cpu_s_node"));
                (format!("{:.0} bundles/s, {}", of("bundles_s"), rate()), cost, "-".into(), f64::NAN)
            }
            What::Codec => {
                let figure = format!("write {:.0} ns, read {:.0} ns", of("encode_ns"), of("decode_ns"));
                let cost = format!("write {:.2}, read {:.2} checksums", of("encode_ratio"), of("decode_ratio"));
                (figure, cost, format!("checksum alone {:.0} ns", of("crc_ns")), of("decode_ratio"))
            }
            What::Routing => {
                let figure = format!("{:.0} routed/s", of("routed_s"));
                (figure, format!("a search p95 {:.0} us", of("p95_us")), "-".into(), f64::NAN)
            }
        };
        let ratio = if ratio.is_nan() { "-".into() } else { format!("{ratio:.2}") };
        format!("| {} | {} | {figure} | {cost} | {beside} | {ratio} |", self.name, self.size)
    }
}

/// Runs the subcommand.
pub fn run(args: Args) -> Result<(), Failure> {
    let wanted: Vec<&Row> =
        ROWS.iter().filter(|row| args.only.as_ref().is_none_or(|only| row.title().contains(only.as_str()))).collect();
    if wanted.is_empty() {
        let names: Vec<String> = ROWS.iter().map(Row::title).collect();
        return Err(Failure::Input(format!("--only: no row with it\nhint: there are: {}", names.join("; "))));
    }
    // Before minutes are spent: it is to be there, with its marks.
    args.write.as_deref().map(|file| rewritten(file, "")).transpose()?;
    let stop = farlink_os::process::watch_termination()?;
    let bar = bar::steps(wanted.len() as u64 * args.runs, "measuring");
    let (mut lines, mut all) = (Vec::new(), Vec::new());
    for row in wanted {
        let mut runs = Vec::new();
        for _ in 0..args.runs {
            if stop.load(Ordering::Relaxed) {
                return Err(Failure::Run(anyhow::anyhow!("stopped")));
            }
            bar.set_message(row.title());
            runs.push(row.measure(args.seconds)?);
            bar.inc(1);
        }
        let line = row.line(&runs);
        if !args.json {
            bar.suspend(|| println!("{line}"));
        }
        lines.push(line);
        all.push(json!({ "name": row.name, "bundles_of": row.size, "runs": runs }));
    }
    bar.finish_and_clear();
    let table = table(&lines, args.runs);
    if args.json {
        println!("{}", json!({ "machine": machine(), "rows": all }));
    }
    if let Some(file) = &args.write {
        std::fs::write(file, rewritten(file, &table)?)?;
        eprintln!("wrote the table of {}", file.display());
    }
    Ok(())
}

/// What it ran on.
fn machine() -> String {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = text.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or("");
    let model = model.trim_start_matches([' ', '\t', ':']).trim();
    format!("{processors} processors{}", if model.is_empty() { String::new() } else { format!(" ({model})") })
}

fn table(lines: &[String], runs: u64) -> String {
    let head =
        "| path | bundles of | figure | cost | beside it, in the same run | ratio |\n|---|---|---|---|---|---|\n";
    let mut text = format!("{head}{}\n", lines.join("\n"));
    let _ = writeln!(
        text,
        "\nMedians of {runs} runs over loopback on {}. Cost is processor time: of both nodes (node to node), of the node \
         between (forward), of the node with filling it (to an application, durable). `farlink bench suite --write \
         README.md` measures and writes this; docs/explanation/performance.md says where the time goes.",
        machine()
    );
    text
}

/// A file with the part between its marks anew.
fn rewritten(file: &Path, table: &str) -> Result<String, Failure> {
    let failed = |why: String| Failure::Input(format!("--write: {}: {why}", file.display()));
    replace(&std::fs::read_to_string(file).map_err(|why| failed(why.to_string()))?, table).map_err(failed)
}

fn replace(text: &str, table: &str) -> Result<String, String> {
    match (text.find(BEGIN), text.find(END)) {
        (Some(begin), Some(end)) if begin < end => Ok(format!("{}{BEGIN}\n{table}{}", &text[..begin], &text[end..])),
        _ => Err(format!("it has no `{BEGIN}` before `{END}`\nhint: write both where the table shall stand")),
    }
}

fn numbers(runs: &[Value], of: impl Fn(&Value) -> Option<f64>) -> Vec<f64> {
    runs.iter().filter_map(of).collect()
}

fn median_of(runs: &[Value], key: &str) -> f64 {
    median(&numbers(runs, |run| run[key].as_f64()))
}

/// The middle one, the mean of both where there are two; not a number of none.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => f64::NAN,
        odd if odd % 2 == 1 => sorted[middle],
        _ => (sorted[middle - 1] + sorted[middle]) / 2.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_part_between_the_marks_changes() {
        let text = format!("a\n{BEGIN}\nold\n{END}\nb\n");
        assert_eq!(replace(&text, "new\n").unwrap(), format!("a\n{BEGIN}\nnew\n{END}\nb\n"));
        assert!(replace("nothing", "new").is_err() && replace(&format!("{END}{BEGIN}"), "new").is_err());
    }

    #[test]
    fn medians_are_of_the_values_there_are() {
        assert!(median(&[]).is_nan());
        assert_eq!((median(&[3.0, 1.0, 2.0]), median(&[4.0, 1.0, 2.0, 3.0])), (2.0, 2.5));
        let runs = [json!({"x": 1.0}), json!({"y": 9.0}), json!({"x": 3.0})];
        assert_eq!(median_of(&runs, "x"), 2.0);
    }

    #[test]
    fn each_row_has_a_name_of_its_own_and_a_line_of_as_many_columns() {
        let names: std::collections::BTreeSet<String> = ROWS.iter().map(Row::title).collect();
        assert_eq!(names.len(), ROWS.len());
        for row in &ROWS {
            assert_eq!(row.line(&[json!({})]).matches('|').count(), 7, "{}", row.title());
            assert!(row.size.parse::<DataVolume>().is_ok());
        }
    }
}
