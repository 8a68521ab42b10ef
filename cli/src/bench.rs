//! `farlink bench`: benchmarks with a baseline measured beside them.

use crate::Failure;

/// Arguments of `farlink bench`.
#[derive(clap::Args)]
pub struct Args {}

/// Runs the subcommand.
pub fn run(_args: Args) -> Result<(), Failure> {
    Err(Failure::Run(anyhow::anyhow!("not built yet")))
}
