//! `farlink ping`: sends bundles to an echo service and measures round-trip times.

use crate::{CliError, socket, values};
use farlink_apps::ping;
use std::time::Duration;

/// Arguments of `farlink ping`.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  farlink ping ipn:2 --at farlink.sock\n  \
    farlink ping ipn:2.7 --count 100 --interval '10 ms' --size '1 kB' --json --at 127.0.0.1:4242\n\n\
    Without a service, 128, 7 and 2047 are tried in this order. Control-C stops and prints the summary.\n\n\
    Exit status: 0 at least one answer, 1 no answer, 2 bad input.")]
pub struct Args {
    /// Node `ipn:N`, whose echo service is searched, or an endpoint ID.
    destination: String,
    #[command(flatten)]
    at: socket::SocketArgs,
    /// Number of pings.
    #[arg(short, long, default_value = "4", allow_hyphen_values = true, value_parser = values::some)]
    count: u64,
    /// Time between pings; 0 s sends each after the answer to the previous one.
    #[arg(short, long, default_value = "1 s", allow_hyphen_values = true, value_parser = farlink_base::parse_duration)]
    interval: Duration,
    /// Payload of each ping.
    #[arg(short, long, default_value = "64 B", allow_hyphen_values = true)]
    size: farlink_base::DataVolume,
    /// Time to wait for the last answer, and for the node to accept each ping.
    #[arg(short, long, default_value = "10 s", allow_hyphen_values = true, value_parser = farlink_base::parse_duration)]
    timeout: Duration,
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
}

pub fn run(args: Args) -> Result<(), CliError> {
    for candidate in ping::candidates(&args.destination) {
        // The error names the argument, not the endpoint derived from it.
        crate::check_endpoint(&candidate).map_err(|_| crate::not_an_endpoint(&args.destination))?;
        crate::check_destination(&candidate)?;
    }
    let options = ping::PingOptions {
        destination: args.destination,
        count: args.count,
        interval: args.interval,
        size: args.size.0,
        timeout: args.timeout,
    };
    let quiet = args.json;
    // Until here Control-C ends the program, as connecting may block.
    let inbox = ping::attach(&args.at.find()?)?;
    // From here on Control-C only stops the pings: the summary is still printed.
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
    if let Some(why) = &report.failed {
        eprintln!("warning: the pings ended early: {why}");
    }
    if report.received == 0 {
        return Err(CliError::Run(anyhow::anyhow!("no answer\n{}", ping::SILENT)));
    }
    Ok(())
}
