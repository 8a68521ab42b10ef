//! `farlink ping`: send bundles to an echo service and time the answers.

use crate::Failure;

/// Arguments of `farlink ping`.
#[derive(clap::Args)]
pub struct Args {}

/// Runs the subcommand.
pub fn run(_args: Args) -> Result<(), Failure> {
    Err(Failure::Run(anyhow::anyhow!("not built yet")))
}
