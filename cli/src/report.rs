//! `farlink report`: write the HTML report of a run.

use crate::Failure;

/// Arguments of `farlink report`.
#[derive(clap::Args)]
pub struct Args {}

/// Runs the subcommand.
pub fn run(_args: Args) -> Result<(), Failure> {
    Err(Failure::Run(anyhow::anyhow!("not built yet")))
}
