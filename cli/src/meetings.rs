//! `farlink plan meetings`: contacts between the radios of a scenario, without a run.

use crate::CliError;
use farlink_scenario::Scenario;
use std::io::Write;
use std::path::PathBuf;

/// Arguments of `farlink plan meetings`.
#[derive(clap::Args)]
pub struct Args {
    /// Scenario file with radios.
    #[arg(value_name = "SCENARIO")]
    scenario: PathBuf,
    /// Random seed, instead of the scenario's.
    #[arg(long, value_name = "NUMBER")]
    seed: Option<u64>,
}

/// Prints beginning and end of each contact in The ONE's format, which a radio's `contacts` reads.
pub fn run(args: &Args) -> Result<(), CliError> {
    let mut scenario = Scenario::load(&args.scenario).map_err(|errors| {
        let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
        CliError::Input(format!("{} cannot be read\n{}", args.scenario.display(), lines.join("\n")))
    })?;
    if let Some(seed) = args.seed {
        scenario.set_seed(seed);
    }
    if scenario.radios.is_empty() {
        let hint = "add `[[radio]]` and `[[mobility]]`; docs/reference/scenario.md says how";
        return Err(CliError::Input(format!("{} has no radios\nhint: {hint}", args.scenario.display())));
    }
    let lines = farlink_sim::contacts::as_lines(&scenario).map_err(|error| CliError::Input(error.to_string()))?;
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    for line in lines {
        writeln!(out, "{line}").unwrap_or_else(|why| crate::print::stdout_failed(&why));
    }
    out.flush().unwrap_or_else(|why| crate::print::stdout_failed(&why));
    Ok(())
}
