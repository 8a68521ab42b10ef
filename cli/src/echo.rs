//! `farlink echo`: answer pings.

use crate::Failure;
use farlink_apps::echo;

/// Arguments of `farlink echo`.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  farlink echo --at farlink.sock\n  \
    farlink echo --at farlink.sock --service 9002\n\n\
    A node answers on 128, 7 and 2047 itself unless its file says `[app] echo = false`.")]
pub struct Args {
    /// The node's application socket: a path, or host:port.
    #[arg(long = "at", value_name = "SOCKET", default_value = "farlink.sock")]
    at: String,
    /// Services to answer on: ipn service numbers (or demuxes of a dtn node).
    #[arg(long, default_values_t = ["128".to_string(), "7".to_string(), "2047".to_string()])]
    service: Vec<String>,
    /// Answers per second at most.
    #[arg(long, default_value = "1000")]
    rate: u32,
}

/// Runs the subcommand.
pub fn run(args: Args) -> Result<(), Failure> {
    echo::run(&args.at, &args.service, args.rate)?;
    Ok(())
}
