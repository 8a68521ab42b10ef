//! `cargo xtask bench`: measures the node on this machine and writes the tables of the README.
//!
//! The first is of `farlink bench loopback` runs: two node processes over loopback, and a plain
//! socket copy measured in the same call, so that the ratio holds on a noisy machine too. The second is of
//! `farlink bench delivery` runs: what an application takes from a node that is full.

use crate::{Chore, tools};
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::fmt::Write;
use std::process::Command;

/// The chore.
pub const CHORE: Chore = Chore {
    name: "bench",
    usage: "[--seconds N]",
    help: "Measures goodput between two nodes, and to an application, and writes the tables of the README.\n\
           \n\
           Builds with `--profile quick` (what `make demo` runs) first; FARLINK_BIN names a ready binary instead.",
    run,
};

const BEGIN: &str = "<!-- bench:begin -->";
const END: &str = "<!-- bench:end -->";

/// What is measured in a row.
struct Row {
    name: &'static str,
    /// Of `farlink bench loopback`.
    layer: &'static [&'static str],
    size: &'static str,
    store: &'static str,
}

const TCPCL: (&str, &[&str]) = ("TCPCLv4", &["tcpclv4"]);
const LTP: (&str, &[&str]) = ("LTP, 1360 B datagrams", &["ltp"]);

/// One without a disk.
const fn in_memory((name, layer): (&'static str, &'static [&'static str]), size: &'static str) -> Row {
    Row { name, layer, size, store: "memory" }
}

const ROWS: [Row; 11] = [
    in_memory(TCPCL, "100 kB"),
    in_memory(TCPCL, "1 kB"),
    Row { store: "durable", ..in_memory(TCPCL, "100 kB") },
    Row { store: "durable", ..in_memory(TCPCL, "1 kB") },
    in_memory(("TCPCLv4 with TLS 1.3", &["tcpclv4", "--tls"]), "100 kB"),
    in_memory(("TCPCLv3", &["tcpclv3"]), "100 kB"),
    in_memory(("STCP", &["stcp"]), "100 kB"),
    in_memory(("MTCP", &["mtcp"]), "100 kB"),
    in_memory(LTP, "100 kB"),
    in_memory(LTP, "1 kB"),
    in_memory(("UDPCL", &["udpcl"]), "1 kB"),
];

/// What an application takes: bundles of this length, and whether into files.
const DELIVERIES: [(&str, bool); 4] = [("5 kB", false), ("5 kB", true), ("100 kB", false), ("100 kB", true)];

fn run(arguments: &[String]) -> Result<()> {
    let mut arguments = tools::Arguments::new(arguments);
    let seconds = arguments.number("--seconds", 5)?;
    if let Some(extra) = arguments.rest()?.first() {
        bail!("`{extra}` is not an argument of bench");
    }
    let farlink = tools::farlink()?;
    let mut rows = Vec::new();
    for wanted in &ROWS {
        let Row { name, layer, size, store } = wanted;
        eprintln!("{name}, {size}, {store} store: {seconds} s and the plain copy");
        let mut command = Command::new(&farlink);
        command.args(["bench", "loopback", "--cla"]).args(*layer);
        command.args(["--bundle-size", size, "--store", store, "--json"]);
        let text = tools::output(command.args(["--seconds", &seconds.to_string()]))?;
        let result: Value = serde_json::from_str(&text).context("the answer of `farlink bench`")?;
        rows.push(row(wanted, &result));
    }
    let mut deliveries = Vec::new();
    for (size, files) in DELIVERIES {
        eprintln!("deliveries of {size}{}", if files { " into files" } else { "" });
        let mut command = Command::new(&farlink);
        command.args(["bench", "delivery", "--json", "--bundle-size", size]).args(files.then_some("--files"));
        let result: Value = serde_json::from_str(&tools::output(&mut command)?).context("`farlink bench delivery`")?;
        let (goodput, bundles) = (number(&result, "goodput_bit_s") / 1e9, number(&result, "bundles_s"));
        let to = if files { "files, synced before they are answered" } else { "nowhere" };
        deliveries.push(format!("| {size} | {to} | {bundles:.0} | {goodput:.2} Gbit/s |"));
    }
    let table = table(&rows) + &deliveries_table(&deliveries);
    print!("{table}");
    let readme = tools::root().join("README.md");
    let text = std::fs::read_to_string(&readme)?;
    std::fs::write(&readme, replace(&text, &table)?)?;
    eprintln!("wrote the tables of README.md");
    Ok(())
}

fn number(result: &Value, key: &str) -> f64 {
    result[key].as_f64().unwrap_or(f64::NAN)
}

fn row(Row { name, size, store, .. }: &Row, result: &Value) -> String {
    let gigabytes = number(result, "received") * number(result, "bundle_size") / 1e9;
    let cpu = (number(result, "cpu_s_sender") + number(result, "cpu_s_receiver")) / gigabytes;
    let memory = number(result, "rss_bytes_sender").max(number(result, "rss_bytes_receiver")) / 1e6;
    format!(
        "| {name} | {size} | {store} | {:.2} Gbit/s | {:.0} | {cpu:.1} s | {memory:.0} MB | {:.1} Gbit/s | {:.2} |",
        number(result, "goodput_bit_s") / 1e9,
        number(result, "bundles_s"),
        number(result, "baseline_bit_s") / 1e9,
        number(result, "ratio"),
    )
}

fn table(rows: &[String]) -> String {
    let mut text = String::from(
        "| layer | bundles of | store | goodput | bundles/s | CPU per GB, both nodes | memory, larger node | plain copy | ratio |\n\
         |---|---|---|---|---|---|---|---|---|\n",
    );
    for row in rows {
        let _ = writeln!(text, "{row}");
    }
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let _ = writeln!(
        text,
        "\nTwo node processes over loopback on {processors} processors; the plain copy is a socket copy measured in the \
         same call (TCP: 128 KiB writes; UDP: one datagram a system call). `cargo xtask bench` measures and writes this."
    );
    text
}

fn deliveries_table(rows: &[String]) -> String {
    let head = "| an application takes bundles of | to | bundles/s | goodput |\n|---|---|---|---|";
    let what = "Of what waits in a node with a durable store, over its socket, 256 at once; each answer is committed.";
    format!("\n{head}\n{}\n\n{what}\n", rows.join("\n"))
}

/// The text with the part between the marks replaced.
fn replace(text: &str, table: &str) -> Result<String> {
    let (Some(begin), Some(end)) = (text.find(BEGIN), text.find(END)) else {
        bail!("README.md has no `{BEGIN}` and `{END}`");
    };
    Ok(format!("{}{BEGIN}\n{table}{}", &text[..begin], &text[end..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_part_between_the_marks_changes() {
        let text = format!("a\n{BEGIN}\nold\n{END}\nb\n");
        assert_eq!(replace(&text, "new\n").unwrap(), format!("a\n{BEGIN}\nnew\n{END}\nb\n"));
        assert!(replace("nothing", "new").is_err());
    }
}
