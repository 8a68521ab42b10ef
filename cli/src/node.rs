//! `farlink node`: run a DTN node, or ask and change a running one.

use crate::Failure;

/// Arguments of `farlink node`.
#[derive(clap::Args)]
pub struct Args {}

/// Runs the subcommand.
pub fn run(_args: Args) -> Result<(), Failure> {
    Err(Failure::Run(anyhow::anyhow!("not built yet")))
}
