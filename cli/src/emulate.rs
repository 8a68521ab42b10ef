//! `farlink emulate`: the link emulator without nodes.

use crate::{CliError, values};
use anyhow::Context;
use farlink_lab::emulate::{EmulateOptions, Summary, emulate};
use std::path::PathBuf;
use std::time::Duration;

/// Arguments of `farlink emulate`.
#[derive(clap::Args)]
#[command(after_help = "\
Creates two empty hosts, a and b, joined by one emulated link, and prints its state until
Control-C. Needs neither root nor any file; nothing is left behind. The link carries unicast IP.

Examples:
  farlink emulate --link geo
  farlink emulate --link 'rate=10 Mbit/s,delay=600 ms,loss=1 %' --run-b 'ping -c 5 10.77.0.1'
  farlink emulate --link 'geo,forward.rate=50 Mbit/s,reverse.rate=1 Mbit/s' \\
      --run-a 'iperf3 -s -1' --run-b 'iperf3 -c 10.77.0.1 -t 30'
  farlink emulate --link 'delay=1.3 s,loss=gilbert 0.01 0.1,windows=0 s .. 20 s; 40 s .. 60 s'
Forward is from a to b. Presets: mars-relay, geo, leo-optical, lunar-relay, iss-ku. Keys: rate, delay,
jitter, loss, bit_error_rate, duplicate, reorder, corrupt, queue, overhead, windows, outages.")]
pub struct Args {
    /// The link: a preset, `key=value` pairs, or both, separated by commas.
    #[arg(long, value_name = "SPEC")]
    link: String,
    /// Largest IP packet, bytes.
    #[arg(long, default_value_t = 1500, allow_hyphen_values = true, value_parser = mtu)]
    mtu: u32,
    /// Random seed: the same seed loses the same packets.
    #[arg(long, default_value_t = 1, allow_hyphen_values = true, value_parser = values::whole)]
    seed: u64,
    /// End after this time, e.g. "30 s".
    #[arg(long, allow_hyphen_values = true, value_parser = farlink_base::parse_duration)]
    duration: Option<Duration>,
    /// Shell command to run in host a (10.77.0.1, fd77::1), started first.
    #[arg(long, value_name = "COMMAND")]
    run_a: Option<String>,
    /// Shell command to run in host b (10.77.0.2, fd77::2); the emulation ends with it.
    #[arg(long, value_name = "COMMAND")]
    run_b: Option<String>,
    /// Hand over each packet alone and at its time, for two to four times the processor time. Otherwise packets due
    /// within 200 µs, or a fiftieth of the delay if that is less, may arrive together.
    #[arg(long)]
    exact: bool,
    /// Write the packets to this file, for Wireshark (pcapng): as their host sends them, and as the other gets them.
    #[arg(long, value_name = "FILE")]
    capture: Option<PathBuf>,
    /// Print the totals as JSON on standard output.
    #[arg(long)]
    json: bool,
}

/// Reads an MTU within the limits of both IP versions.
fn mtu(text: &str) -> Result<u32, String> {
    // IPv4 hosts accept 576 bytes at least (RFC 791); the length field has 16 bits.
    let mtu = text.parse().ok().filter(|mtu| (576..=65_535).contains(mtu));
    mtu.ok_or_else(|| format!("`{text}` is not a number of bytes from 576 to 65535\nhint: 1500 suits most links"))
}

pub fn run(args: Args) -> Result<(), CliError> {
    if args.link.trim().is_empty() {
        return Err(CliError::Input("--link: is empty\nhint: write e.g. geo, or \"rate=1 Mbit/s,delay=1 s\"".into()));
    }
    // Checked here: a wrong specification is bad input, not a failure of the emulator.
    farlink_link::LinkSpec::parse(&args.link).map_err(|e| CliError::Input(e.to_string()))?;
    let options = EmulateOptions {
        link: args.link,
        mtu: args.mtu,
        seed: args.seed,
        duration: args.duration,
        commands: [args.run_a, args.run_b],
        exact: args.exact,
        capture: args.capture,
    };
    let program = std::env::current_exe().context("the path of this program")?;
    let summary = emulate(&program, &options, &mut |line| eprintln!("{line}"))?;
    if args.json {
        println!("{}", serde_json::to_string_pretty(&summary).context("the summary as JSON")?);
    } else {
        print_summary(&summary);
    }
    // `exits` has an entry for each host whose command ended, and none without commands.
    let failed = summary.exits.iter().find(|(_, code)| **code != Some(0));
    match failed {
        Some((host, code)) if options.commands.iter().any(Option::is_some) => Err(CliError::Run(match code {
            Some(code) => anyhow::anyhow!("the command in host {host} ended with status {code}"),
            None => anyhow::anyhow!("the command in host {host} was ended by a signal"),
        })),
        _ => Ok(()),
    }
}

fn print_summary(summary: &Summary) {
    println!("{:.1} s emulated", summary.duration_s);
    for direction in &summary.directions {
        let lost: Vec<String> =
            direction.dropped.iter().filter(|(_, n)| **n > 0).map(|(why, n)| format!("{n} {why}")).collect();
        println!(
            "from {}: {} packets sent, {} delivered ({} bytes), lost: {}; emulator lateness p50 {:.0} us, p99 {:.0} us, max {:.0} us",
            direction.from,
            direction.sent_packets,
            direction.delivered_packets,
            direction.delivered_bytes,
            if lost.is_empty() { "none".to_string() } else { lost.join(", ") },
            direction.late_p50_us,
            direction.late_p99_us,
            direction.late_max_us,
        );
    }
    for doubt in &summary.doubts {
        println!("warning: {doubt}");
    }
}
