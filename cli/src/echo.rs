//! `farlink echo`: answers pings.

use crate::{CliError, socket, values};
use farlink_apps::echo;

/// Arguments of `farlink echo`.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  farlink echo --at farlink.sock\n  \
    farlink echo --at farlink.sock --service 9002\n\n\
    A node answers on 128, 7 and 2047 itself unless its file says `[app] echo = false`. Control-C ends it, with a summary.\n\n\
    Exit status: 0 ended by Control-C, 1 the node is absent, refuses or ends, 2 bad input.")]
pub struct Args {
    #[command(flatten)]
    at: socket::SocketArgs,
    /// Services to answer at: ipn service numbers, or demuxes of a dtn node.
    #[arg(long, default_values_t = ["128".to_string(), "7".to_string(), "2047".to_string()])]
    service: Vec<String>,
    /// Most answers per second.
    #[arg(long, default_value = "1000", allow_hyphen_values = true, value_parser = values::some)]
    rate: u64,
}

pub fn run(args: Args) -> Result<(), CliError> {
    let (at, rate) = (args.at.find()?, u32::try_from(args.rate).unwrap_or(u32::MAX));
    // A service that is named twice is answered once.
    let mut services = args.service;
    services.sort();
    services.dedup();
    let stop = farlink_os::process::watch_termination()?;
    let answered = echo::run(&at, &services, rate, &stop)?;
    eprintln!("stopped: {answered} answered");
    Ok(())
}
