//! `farlink emulate`: the link emulator by itself.

use crate::Failure;

/// Arguments of `farlink emulate`.
#[derive(clap::Args)]
pub struct Args {}

/// Runs the subcommand.
pub fn run(_args: Args) -> Result<(), Failure> {
    Err(Failure::Run(anyhow::anyhow!("not built yet")))
}
