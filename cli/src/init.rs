//! `farlink init`: write commented working files.

use crate::Failure;

/// Arguments of `farlink init`.
#[derive(clap::Args)]
pub struct Args {}

/// Runs the subcommand.
pub fn run(_args: Args) -> Result<(), Failure> {
    Err(Failure::Run(anyhow::anyhow!("not built yet")))
}
