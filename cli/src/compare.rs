//! `farlink compare`: lay runs side by side.

use crate::Failure;

/// Arguments of `farlink compare`.
#[derive(clap::Args)]
pub struct Args {}

/// Runs the subcommand.
pub fn run(_args: Args) -> Result<(), Failure> {
    Err(Failure::Run(anyhow::anyhow!("not built yet")))
}
