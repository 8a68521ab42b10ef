//! `farlink compare`: compares runs side by side.

use crate::CliError;
use farlink_report::{Comparison, RunReader, Statistics};
use std::path::{Path, PathBuf};

/// Arguments of `farlink compare`.
#[derive(clap::Args)]
#[command(
    after_help = "Differences are relative to the first run; more than 10 % is marked, except for the utilization\n\
    of links that are busy less than 1 % of the time in all runs.\n\n\
    Examples:\n\
    \x20 farlink compare runs/iss-sim runs/iss-lab\n\
    \x20 farlink compare runs/iss-sim runs/iss-lab --json | jq '.metrics[\"latency_s.mean\"].within_10_percent'"
)]
pub struct Args {
    /// Run directories, two or more.
    #[arg(value_name = "RUN", required = true, num_args = 2..)]
    runs: Vec<PathBuf>,
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
}

pub fn run(args: Args) -> Result<(), CliError> {
    let readers = args.runs.iter().map(|path| open(path)).collect::<Result<Vec<_>, _>>()?;
    let numbers = readers.iter().map(Statistics::read).collect::<Result<Vec<_>, _>>()?;
    let runs: Vec<_> = readers
        .iter()
        .zip(&numbers)
        .map(|(reader, numbers)| (reader.folder().display().to_string(), reader.manifest(), numbers))
        .collect();
    // Names are the paths given, as two runs may have the same title.
    let comparison = Comparison::of(&runs);
    if args.json {
        println!("{:#}", comparison.to_json());
    } else {
        print!("{}", comparison.to_text());
    }
    Ok(())
}

/// Opens a run directory; anything else is bad input (exit 2).
pub fn open(path: &Path) -> Result<RunReader, CliError> {
    RunReader::open(path).map_err(|error| CliError::Input(format!("{error:#}")))
}
