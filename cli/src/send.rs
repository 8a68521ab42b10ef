//! `farlink send`: send a file, or text.

use crate::{CliError, bar, socket, values};
use farlink_apps::file::{self, SendOptions};
use farlink_base::{DataRate, DataVolume};
use serde_json::json;
use std::path::PathBuf;
use std::time::Duration;

/// What to try when a file cannot be read.
const NO_FILE: &str = "hint: name a file that can be read, `-` for standard input, or --text for text";

/// Arguments of `farlink send`.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  farlink send report.pdf --to ipn:2.64 --at farlink.sock\n  \
    farlink send data/*.csv --to ipn:2.64 --bundle-size '1 MB' --priority bulk\n  \
    echo hello | farlink send - --to ipn:2.64\n  farlink send --raw --text hello --to ipn:2.64\n\n\
    Each bundle carries a small header, so that `farlink recv --out DIR` puts files together again and\n\
    verifies their SHA-256; `--raw` sends bare payloads.")]
pub struct Args {
    /// Files; `-` is standard input.
    files: Vec<PathBuf>,
    /// Destination endpoint.
    #[arg(long)]
    to: String,
    #[command(flatten)]
    at: socket::SocketArgs,
    /// Text to send instead of files.
    #[arg(long, conflicts_with = "files")]
    text: Option<String>,
    /// Send bare payloads, without the header `farlink recv` understands.
    #[arg(long)]
    raw: bool,
    /// Payload of each bundle.
    #[arg(long, default_value = "1 MB", allow_hyphen_values = true)]
    bundle_size: DataVolume,
    /// Bytes sent at this rate; without it and --interval, as fast as the node takes them.
    #[arg(long, allow_hyphen_values = true)]
    rate: Option<DataRate>,
    /// One bundle every so often.
    #[arg(long, conflicts_with = "rate", allow_hyphen_values = true, value_parser = farlink_base::parse_duration)]
    interval: Option<Duration>,
    /// File with the payload bytes of each bundle in turn, one number per line, in place of --bundle-size.
    #[arg(long, value_name = "FILE")]
    sizes: Option<PathBuf>,
    /// Lifetime of the bundles.
    #[arg(long, default_value = "1 d", allow_hyphen_values = true, value_parser = values::lifetime)]
    lifetime: Duration,
    /// Class of service.
    #[arg(long, default_value = "normal", value_parser = ["bulk", "normal", "expedited"])]
    priority: String,
    /// Ask for custody: each node that takes it keeps the bundles until the next one has. Refused where the node has no
    /// [custody], no durable store or a router that copies, and for groups.
    #[arg(long)]
    custody: bool,
    /// Status reports to ask for; nodes send them where they are told to (`status_reports`).
    #[arg(long, value_name = "KIND", value_delimiter = ',', requires = "report_to",
        value_parser = ["reception", "forwarding", "delivery", "deletion"])]
    report: Vec<String>,
    /// Where status reports go.
    #[arg(long, value_name = "EID", requires = "report")]
    report_to: Option<String>,
    /// Bundles handed over before the first is answered.
    #[arg(long, default_value = "16", allow_hyphen_values = true, value_parser = values::some)]
    window: u64,
    /// Our own service number (or demux); default: chosen at random.
    #[arg(long)]
    service: Option<String>,
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
}

/// Runs the subcommand.
pub fn run(args: Args) -> Result<(), CliError> {
    if args.files.is_empty() && args.text.is_none() {
        return Err(CliError::Input("nothing to send\nhint: name a file, `-` for standard input, or --text".into()));
    }
    crate::check_endpoint(&args.to)?;
    args.report_to.as_deref().map_or(Ok(()), crate::check_endpoint)?;
    if args.bundle_size.0 == 0 && args.sizes.is_none() {
        return Err(CliError::Input(
            "--bundle-size: a bundle of no bytes carries nothing\nhint: at least 1 B; 1 MB suits most files".into(),
        ));
    }
    let options = SendOptions {
        to: args.to,
        bundle_size: args.bundle_size.0,
        lifetime_ms: args.lifetime.as_millis() as u64,
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
    let (mut sent, at) = (Vec::new(), args.at.find()?);
    for source in sources {
        let bar = bar::bytes(source.length(), "sent", args.json);
        let report = file::send(&at, source, &options, |bytes| bar.set_position(bytes))?;
        bar.finish_and_clear();
        if !args.json {
            eprintln!("{}: {} bundles, {} B, sha256 {}", report.name, report.bundles, report.bytes, report.sha256);
        }
        sent.push(json!({
            "name": report.name, "bundles": report.bundles, "bytes": report.bytes, "sha256": report.sha256,
        }));
    }
    if args.json {
        println!("{}", json!({ "files": sent }));
    }
    Ok(())
}

/// The bundle processing control flag of a kind of report (RFC 9171 4.2.3).
fn report_flag(kind: &str) -> u64 {
    match kind {
        "reception" => 0x00_4000,
        "forwarding" => 0x01_0000,
        "delivery" => 0x02_0000,
        _ => 0x04_0000,
    }
}

fn read_sizes(path: &std::path::Path) -> Result<Vec<u64>, CliError> {
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
