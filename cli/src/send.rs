//! `farlink send`: sends files or text.

use crate::{CliError, bar, socket, values};
use farlink_apps::file::{self, SendOptions};
use farlink_base::{DataRate, DataVolume};
use serde_json::json;
use std::path::PathBuf;
use std::time::Duration;

/// Hint for a file that cannot be read.
const NO_FILE: &str = "hint: name a file that can be read, `-` for standard input, or --text for text";

/// Arguments of `farlink send`.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  farlink send report.pdf --to ipn:2.64 --at farlink.sock\n  \
    farlink send data/*.csv --to ipn:2.64 --bundle-size '1 MB' --priority bulk\n  \
    echo hello | farlink send - --to ipn:2.64\n  farlink send --raw --text hello --to ipn:2.64\n\n\
    Each bundle carries a small header, by which `farlink recv --out DIR` reassembles files and verifies\n\
    their SHA-256; `--raw` sends bare payloads.\n\n\
    Exit status: 0 the node accepted all, 1 it did not, or Control-C came first, 2 bad input.")]
pub struct Args {
    /// Files to send; `-` is standard input.
    files: Vec<PathBuf>,
    /// Endpoint ID of the destination.
    #[arg(long)]
    to: String,
    #[command(flatten)]
    at: socket::SocketArgs,
    /// Text to send instead of files.
    #[arg(long, conflicts_with = "files")]
    text: Option<String>,
    /// Send bare payloads, without the header for `farlink recv`.
    #[arg(long)]
    raw: bool,
    /// Payload of each bundle.
    #[arg(long, default_value = "1 MB", allow_hyphen_values = true)]
    bundle_size: DataVolume,
    /// Payload rate; default, without --interval: as fast as the node accepts bundles.
    #[arg(long, allow_hyphen_values = true, value_parser = values::rate)]
    rate: Option<DataRate>,
    /// Time between bundles.
    #[arg(long, conflicts_with = "rate", allow_hyphen_values = true, value_parser = farlink_base::parse_duration)]
    interval: Option<Duration>,
    /// File with the payload size of each bundle in order, one number of bytes per line, instead of --bundle-size.
    #[arg(long, value_name = "FILE")]
    sizes: Option<PathBuf>,
    /// Lifetime of the bundles.
    #[arg(long, default_value = "1 d", allow_hyphen_values = true, value_parser = values::lifetime)]
    lifetime: Duration,
    /// Class of service of the bundles.
    #[arg(long, default_value = "normal", value_parser = ["bulk", "normal", "expedited"])]
    priority: String,
    /// Request custody: a custodian keeps the bundles until the next one has accepted custody. Refused for groups, and
    /// by a node without [custody] or a durable store, or with a router that copies.
    #[arg(long)]
    custody: bool,
    /// Status reports to request; nodes send them if `status_reports` allows it.
    #[arg(long, value_name = "KIND", value_delimiter = ',', requires = "report_to",
        value_parser = ["reception", "forwarding", "delivery", "deletion"])]
    report: Vec<String>,
    /// Endpoint ID that status reports are sent to.
    #[arg(long, value_name = "EID", requires = "report")]
    report_to: Option<String>,
    /// Most bundles submitted to the node and not yet accepted.
    #[arg(long, default_value = "16", allow_hyphen_values = true, value_parser = values::some)]
    window: u64,
    /// Service number (or demux) of this sender; default: random.
    #[arg(long)]
    service: Option<String>,
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
}

pub fn run(args: Args) -> Result<(), CliError> {
    if args.files.is_empty() && args.text.is_none() {
        return Err(CliError::Input("nothing to send\nhint: name a file, `-` for standard input, or --text".into()));
    }
    // Wrong endpoint IDs are refused before a node is contacted.
    crate::check_destination(&args.to)?;
    args.report_to.as_deref().map_or(Ok(()), crate::check_endpoint)?;
    if args.bundle_size.0 == 0 && args.sizes.is_none() {
        return Err(CliError::Input("--bundle-size: must be at least 1 B\nhint: 1 MB suits most files".into()));
    }
    let options = SendOptions {
        to: args.to,
        bundle_size: args.bundle_size.0,
        lifetime_ms: args.lifetime.as_millis() as u64,
        // AAP2 counts priorities from 1; 0 is the default.
        priority: ["bulk", "normal", "expedited"].iter().position(|p| **p == args.priority).unwrap_or(1) as u32 + 1,
        window: args.window,
        service: args.service,
        raw: args.raw,
        pace: match (args.rate, args.interval) {
            (Some(rate), _) => file::SendPace::Rate(rate),
            (None, Some(interval)) => file::SendPace::Interval(interval),
            (None, None) => file::SendPace::Flat,
        },
        custody: args.custody,
        reports: args.report.iter().fold(0, |all, kind| all | report_flag(kind)),
        report_to: args.report_to.unwrap_or_default(),
        sizes: args.sizes.as_deref().map(read_sizes).transpose()?.unwrap_or_default(),
    };
    // All files are opened before the first is sent: a wrong name must not interrupt a transfer.
    let mut sources = Vec::new();
    for path in &args.files {
        sources.push(
            file::SendSource::open(path)
                .map_err(|why| CliError::Input(format!("{}: {why}\n{NO_FILE}", path.display())))?,
        );
    }
    if let Some(text) = args.text {
        sources.push(file::SendSource::text(text));
    }
    let (mut sent, at, count) = (Vec::new(), args.at.find()?, sources.len());
    // Until here Control-C ends the program, as reading a pipe or a search may block.
    let stop = farlink_os::process::watch_termination()?;
    let mut cut = None;
    for source in sources {
        let length = source.length();
        let bar = bar::bytes(source.length(), "sent", args.json);
        // Files are sent one by one, each over a connection of its own.
        let report = file::send(&at, source, &options, &stop, |bytes| bar.set_position(bytes));
        // An error must start on a line of its own.
        bar.finish_and_clear();
        let report = report?;
        let (bundles, bytes) = (values::counted(report.bundles, "bundle"), DataVolume(report.bytes));
        let Some(sha256) = &report.sha256 else {
            let of = length.map_or_else(String::new, |length| format!(" of {}", DataVolume(length)));
            let accepted = format!("{}: {bundles}, {bytes}{of} accepted by the node", shown(&report.name));
            cut = Some((accepted, report.failed));
            break;
        };
        if !args.json {
            eprintln!("{}: {bundles}, {bytes}, sha256 {sha256}", shown(&report.name));
        }
        sent.push(json!({
            "name": report.name, "bundles": report.bundles, "bytes": report.bytes, "sha256": report.sha256,
        }));
    }
    if args.json {
        println!("{}", json!({ "files": sent }));
    }
    match cut {
        None => Ok(()),
        Some((accepted, None)) => Err(CliError::Run(anyhow::anyhow!(
            "stopped with {} of {count} files sent; {accepted}\n{RESENT}",
            sent.len()
        ))),
        Some((accepted, Some(failed))) => {
            let (what, hint) = failed.split_once('\n').unwrap_or((&failed, ""));
            let sent = format!("{} of {count} files sent; {accepted}", sent.len());
            Err(CliError::Run(anyhow::anyhow!("{what}\n{sent}\n{hint}\n{RESENT}")))
        }
    }
}

/// Hint for a source of which the node accepted a part.
const RESENT: &str = "hint: what the node accepted goes on its way; a file that is sent again is sent whole";

/// Name of a file without characters that would steer the terminal.
fn shown(name: &str) -> String {
    name.replace(char::is_control, "_")
}

/// Bundle processing control flag that requests this kind of report (RFC 9171 section 4.2.3).
fn report_flag(kind: &str) -> u64 {
    match kind {
        "reception" => 0x00_4000,
        "forwarding" => 0x01_0000,
        "delivery" => 0x02_0000,
        _ => 0x04_0000,
    }
}

/// Reads a file with a number of bytes on each line.
pub(crate) fn read_sizes(path: &std::path::Path) -> Result<Vec<u64>, CliError> {
    let bad = |why: &dyn std::fmt::Display| {
        CliError::Input(format!(
            "{}: {why}\nhint: --sizes takes a text file with a number of bytes on each line",
            path.display()
        ))
    };
    let text = std::fs::read_to_string(path).map_err(|why| bad(&why))?;
    let size = |line: &str| line.trim().parse().map_err(|_| bad(&format!("`{line}` is not a number of bytes")));
    text.lines().filter(|line| !line.trim().is_empty()).map(size).collect()
}
