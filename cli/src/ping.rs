//! `farlink ping`: send bundles to an echo service and time the answers.

use crate::Failure;
use farlink_apps::ping;
use std::time::Duration;

/// Arguments of `farlink ping`.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  farlink ping ipn:2 --at farlink.sock\n  \
    farlink ping ipn:2.7 --count 100 --interval '10 ms' --size '1 kB' --json --at 127.0.0.1:4242\n\n\
    Without a service, 128 is tried first, then 7 and 2047.")]
pub struct Args {
    /// Whom to ping: `ipn:N` (its echo service is found) or a whole endpoint ID.
    destination: String,
    /// The node's application socket: a path, or host:port.
    #[arg(long = "at", value_name = "SOCKET", default_value = "farlink.sock")]
    at: String,
    /// How many pings.
    #[arg(short, long, default_value = "4")]
    count: u64,
    /// Time between pings.
    #[arg(short, long, default_value = "1 s", value_parser = farlink_base::parse_duration)]
    interval: Duration,
    /// Payload of each.
    #[arg(short, long, default_value = "64 B")]
    size: farlink_base::DataVolume,
    /// How long to wait for the last answer.
    #[arg(short, long, default_value = "10 s", value_parser = farlink_base::parse_duration)]
    timeout: Duration,
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
}

/// Runs the subcommand.
pub fn run(args: Args) -> Result<(), Failure> {
    for candidate in ping::candidates(&args.destination) {
        crate::check_endpoint(&candidate).map_err(|_| crate::not_an_endpoint(&args.destination))?;
    }
    let options = ping::Options {
        destination: args.destination,
        count: args.count,
        interval: args.interval,
        size: args.size.0,
        timeout: args.timeout,
    };
    let quiet = args.json;
    let report = ping::run(&args.at, &options, |line| {
        if !quiet {
            println!("{line}");
        }
    })?;
    if args.json {
        println!("{}", report.json());
    } else {
        println!("{}", report.summary());
    }
    if report.received == 0 && report.sent > 0 {
        return Err(Failure::Run(anyhow::anyhow!("no answer\n{}", ping::SILENT)));
    }
    Ok(())
}
