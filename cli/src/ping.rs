//! `farlink ping`: send bundles to an echo service and time the answers.

use crate::{CliError, socket, values};
use farlink_apps::ping;
use std::time::Duration;

/// Arguments of `farlink ping`.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  farlink ping ipn:2 --at farlink.sock\n  \
    farlink ping ipn:2.7 --count 100 --interval '10 ms' --size '1 kB' --json --at 127.0.0.1:4242\n\n\
    Without a service, 128 is tried first, then 7 and 2047. Control-C ends it with its summary.\n\n\
    Exit status: 0 something was answered, 1 nothing was, 2 bad input.")]
pub struct Args {
    /// Whom to ping: `ipn:N` (its echo service is found) or a whole endpoint ID.
    destination: String,
    #[command(flatten)]
    at: socket::SocketArgs,
    /// How many pings.
    #[arg(short, long, default_value = "4", allow_hyphen_values = true, value_parser = values::some)]
    count: u64,
    /// Time between pings; 0 s: each leaves once the one before is answered.
    #[arg(short, long, default_value = "1 s", allow_hyphen_values = true, value_parser = farlink_base::parse_duration)]
    interval: Duration,
    /// Payload of each.
    #[arg(short, long, default_value = "64 B", allow_hyphen_values = true)]
    size: farlink_base::DataVolume,
    /// How long to wait for the last answer, and for the node to take each ping.
    #[arg(short, long, default_value = "10 s", allow_hyphen_values = true, value_parser = farlink_base::parse_duration)]
    timeout: Duration,
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
}

/// Runs the subcommand.
pub fn run(args: Args) -> Result<(), CliError> {
    for candidate in ping::candidates(&args.destination) {
        crate::check_endpoint(&candidate).map_err(|_| crate::not_an_endpoint(&args.destination))?;
    }
    let options = ping::PingOptions {
        destination: args.destination,
        count: args.count,
        interval: args.interval,
        size: args.size.0,
        timeout: args.timeout,
    };
    let quiet = args.json;
    let inbox = ping::attach(&args.at.find()?)?;
    // From here on Control-C ends the pings, not this program.
    let stop = farlink_os::process::watch_termination()?;
    let report = ping::run(inbox, &options, &stop, |line| {
        if !quiet {
            println!("{line}");
        }
    })?;
    if args.json {
        println!("{}", report.json());
    } else {
        println!("{}", report.summary());
    }
    if report.received == 0 {
        return Err(CliError::Run(anyhow::anyhow!("no answer\n{}", ping::SILENT)));
    }
    Ok(())
}
