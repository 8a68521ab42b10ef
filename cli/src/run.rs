//! `farlink run`: run a scenario in simulation or in the testbed.

use crate::Failure;

/// Arguments of `farlink run`.
#[derive(clap::Args)]
pub struct Args {}

/// Runs the subcommand.
pub fn run(_args: Args) -> Result<(), Failure> {
    Err(Failure::Run(anyhow::anyhow!("not built yet")))
}
