//! `farlink doctor`: what this machine can isolate, emulate and measure.

use crate::Failure;

/// Arguments of `farlink doctor`.
#[derive(clap::Args)]
pub struct Args {}

/// Runs the subcommand.
pub fn run(_args: Args) -> Result<(), Failure> {
    Err(Failure::Run(anyhow::anyhow!("not built yet")))
}
