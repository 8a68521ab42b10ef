//! `farlink perf`: measure goodput between two nodes.

use crate::Failure;

/// Arguments of `farlink perf`.
#[derive(clap::Args)]
pub struct Args {}

/// Runs the subcommand.
pub fn run(_args: Args) -> Result<(), Failure> {
    Err(Failure::Run(anyhow::anyhow!("not built yet")))
}
