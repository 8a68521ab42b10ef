//! `farlink perf`: measures goodput between two nodes through their application sockets.

use crate::{CliError, socket, values};
use farlink_apps::perf::{self, ClientOptions, StopRule};
use farlink_base::{DataRate, DataVolume};
use std::path::PathBuf;
use std::time::Duration;

/// Arguments of `farlink perf`.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  farlink perf --serve --at node-b.sock\n  \
    farlink perf ipn:2.2000 --seconds 10 --bundle-size '100 kB' --window 64 --at node-a.sock --json\n  \
    farlink perf ipn:2.2000 --rate '10 Mbit/s' --count 1000 --at node-a.sock\n\n\
    Window mode limits the bundles sent and not yet answered; rate mode sends at a fixed rate regardless\n\
    of answers. The server answers every bundle with its number, which shows delivery and round-trip time.\n\
    Without --json, a line a second goes to standard error. Control-C ends the measurement, with its summary, and the server.\n\n\
    Exit status: 0 at least one answer, or the server was ended by Control-C, 1 no answer, 2 bad input.")]
pub struct Args {
    /// Endpoint of the server (not with --serve).
    #[arg(required_unless_present = "serve")]
    destination: Option<String>,
    /// Run as the server.
    #[arg(long, conflicts_with = "destination")]
    serve: bool,
    #[command(flatten)]
    at: socket::SocketArgs,
    /// Service of the server.
    #[arg(long, default_value = "2000")]
    service: String,
    /// Payload of each bundle.
    #[arg(long, default_value = "100 kB", allow_hyphen_values = true)]
    bundle_size: DataVolume,
    /// Window mode: most bundles sent and not yet answered.
    #[arg(long, default_value = "32", conflicts_with = "rate", allow_hyphen_values = true, value_parser = values::some)]
    window: u64,
    /// Rate mode: payload rate.
    #[arg(long, allow_hyphen_values = true, value_parser = values::rate)]
    rate: Option<DataRate>,
    /// Stop after this many seconds.
    #[arg(long, default_value = "10", allow_hyphen_values = true, value_parser = values::seconds)]
    seconds: Duration,
    /// Stop after this many bundles.
    #[arg(long, conflicts_with = "seconds", allow_hyphen_values = true, value_parser = values::some)]
    count: Option<u64>,
    /// Send the content of this file once.
    #[arg(long, conflicts_with_all = ["seconds", "count"])]
    file: Option<PathBuf>,
    /// Time to wait for answers after the last bundle.
    #[arg(long, default_value = "10 s", allow_hyphen_values = true, value_parser = farlink_base::parse_duration)]
    timeout: Duration,
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
}

pub fn run(args: Args) -> Result<(), CliError> {
    let Some(destination) = args.destination else {
        let at = args.at.find()?;
        let stop = farlink_os::process::watch_termination()?;
        let served = perf::serve(&at, &args.service, &stop)?;
        eprintln!("stopped: {} answered, {}", values::counted(served.bundles, "bundle"), DataVolume(served.bytes));
        return Ok(());
    };
    crate::check_destination(&destination)?;
    let shortest = DataVolume(perf::HEADER as u64);
    if args.bundle_size < shortest {
        let hint = "every payload begins with a header of this length";
        return Err(CliError::Input(format!("--bundle-size: at least {shortest}\nhint: {hint}")));
    }
    // Read before the measurement, so that the disk does not slow it.
    let content = args.file.as_deref().map(read).transpose()?;
    // --count and --file conflict, and both override the default of --seconds.
    let stop = match (args.count, &args.file) {
        (Some(count), _) => StopRule::Count(count),
        (None, Some(_)) => StopRule::Bytes(content.as_ref().map_or(0, Vec::len) as u64),
        (None, None) if args.seconds.is_zero() => {
            return Err(CliError::Input("--seconds: in no time nothing is sent\nhint: write e.g. 10 or 0.5".into()));
        }
        (None, None) => StopRule::After(args.seconds),
    };
    let options = ClientOptions {
        destination,
        bundle_size: args.bundle_size.0,
        window: args.window,
        rate: args.rate,
        stop,
        content,
        timeout: args.timeout,
    };
    let (at, quiet) = (args.at.find()?, args.json);
    let stop = farlink_os::process::watch_termination()?;
    let report = perf::run(&at, &options, &stop, |line| {
        if !quiet {
            eprintln!("{line}");
        }
    })?;
    if args.json {
        println!("{}", report.json());
    } else {
        println!("{}", report.summary());
    }
    if let Some(why) = report.failed() {
        eprintln!("warning: the measurement ended early: {why}");
    }
    // The report is printed first: it shows how many bundles were sent.
    if report.sent() == 0 {
        return Err(CliError::Run(anyhow::anyhow!("nothing was sent\nhint: measure for longer")));
    }
    if report.answered() == 0 {
        return Err(CliError::Run(anyhow::anyhow!("no answer\n{}", perf::SILENT)));
    }
    Ok(())
}

/// Reads the content to send.
fn read(file: &std::path::Path) -> Result<Vec<u8>, CliError> {
    let bad = |why: &dyn std::fmt::Display| {
        CliError::Input(format!(
            "{}: {why}\nhint: --file names a file that can be read, of a byte at least",
            file.display()
        ))
    };
    let content = std::fs::read(file).map_err(|why| bad(&why))?;
    if content.is_empty() { Err(bad(&"is empty: nothing would be sent")) } else { Ok(content) }
}
