//! `farlink manuals`: man pages, one per command.

use crate::CliError;
use std::path::PathBuf;

/// Arguments of `farlink manuals`.
#[derive(clap::Args)]
pub struct Args {
    /// Folder for farlink.1, farlink-node.1 and so on.
    folder: PathBuf,
}

pub fn run(args: &Args) -> Result<(), CliError> {
    crate::make_folder(&args.folder, "the argument")?;
    // Options that every command has would have a page of their own.
    let command = crate::command().disable_help_subcommand(true);
    clap_mangen::generate_to(command, &args.folder)
        .map_err(|why| crate::cannot_write(&args.folder, &why, "the argument"))
}
