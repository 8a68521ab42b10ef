//! `farlink run`: run a scenario in simulation or in the testbed.

use crate::Failure;
use anyhow::Context as _;
use clap::ValueEnum;
use farlink_base::DataRate;
use farlink_lab::cable::Method;
use farlink_report::{Missed, RunReader, Statistics};
use farlink_scenario::Scenario;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Arguments of `farlink run`.
#[derive(clap::Args)]
#[command(after_help = "A run is a directory: manifest.json and Parquet tables (events, bundles, samples, links).\n\n\
    Examples:\n\
    \x20 farlink run campaigns/iss/scenario.toml --in sim\n\
    \x20 farlink run campaigns/iss/scenario.toml --in lab --out runs/iss-lab\n\
    \x20 farlink run scenario.toml --in sim --seed 7 --json | jq .latency_s.mean\n\n\
    Exit status: 0 done, 1 the run failed or missed what the scenario's [expect] says, 2 bad input.")]
pub struct Args {
    /// The scenario file.
    #[arg(value_name = "SCENARIO")]
    scenario: PathBuf,
    /// The world it runs in.
    #[arg(long = "in", value_name = "WORLD")]
    world: World,
    /// Seed of everything random, in place of the scenario's.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Directory of the run; `runs/<scenario>-<world>` with a number when not given.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Replace the run, or whatever else is in the way, in that directory.
    #[arg(long, requires = "out")]
    force: bool,
    /// Testbed only: kind of interface that links use; the best that is permitted when not given.
    #[arg(long, value_name = "KIND", value_parser = ["tap", "packet"])]
    interface: Option<String>,
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
}

/// The worlds.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum World {
    /// In simulation, in virtual time.
    Sim,
    /// In the testbed on this machine: real node processes over emulated links.
    Lab,
}
impl World {
    fn name(self) -> &'static str {
        match self {
            World::Sim => "sim",
            World::Lab => "lab",
        }
    }
}

/// Runs the subcommand.
pub fn run(args: Args) -> Result<(), Failure> {
    let mut scenario = load(&args.scenario)?;
    if let Some(seed) = args.seed {
        scenario.seed = seed;
    }
    for doubt in scenario.doubts() {
        eprintln!("warning: {doubt}");
    }
    let folder = match &args.out {
        Some(folder) => folder.clone(),
        None => fresh_folder(Path::new("runs"), &scenario.name, args.world.name()),
    };
    farlink_report::free_for_run(&folder, args.force).map_err(|error| Failure::Input(error.to_string()))?;
    let command = command_line(&args, scenario.seed);
    match args.world {
        World::Sim => in_simulation(&scenario, &folder, command)?,
        World::Lab => in_testbed(&scenario, &folder, command, args.interface.as_deref())?,
    }
    tell(&folder, args.json)
}

fn load(path: &Path) -> Result<Scenario, Failure> {
    Scenario::load(path).map_err(|errors| {
        let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
        Failure::Input(format!("{} cannot be run\n{}", path.display(), lines.join("\n")))
    })
}

/// The command that repeats the run.
fn command_line(args: &Args, seed: u64) -> String {
    format!("farlink run {} --in {} --seed {seed}", args.scenario.display(), args.world.name())
}

/// A directory for a run that has no name: numbered when there is one already.
fn fresh_folder(parent: &Path, scenario: &str, world: &str) -> PathBuf {
    let base = format!("{scenario}-{world}");
    let numbered = (2..).map(|number| parent.join(format!("{base}-{number}")));
    let mut names = std::iter::once(parent.join(&base)).chain(numbered);
    names.find(|folder| !folder.exists()).unwrap_or_else(|| parent.join(base))
}

fn in_simulation(scenario: &Scenario, folder: &Path, command: String) -> Result<(), Failure> {
    let bar = progress_bar(scenario.duration, "simulating");
    let options = farlink_sim::Options { folder: folder.to_path_buf(), command };
    let show = &mut |progress: farlink_sim::Progress| {
        bar.set_position((progress.simulated_s * 1e3) as u64);
        bar.set_message(format!("{} bundles delivered", progress.delivered));
    };
    let result = farlink_sim::run(scenario, &options, show);
    bar.finish_and_clear();
    match result {
        Ok(_) => Ok(()),
        Err(error) => match error.downcast::<farlink_base::ConfigError>() {
            Ok(mistake) => Err(Failure::Input(mistake.to_string())),
            Err(error) => Err(Failure::Run(error)),
        },
    }
}

fn in_testbed(scenario: &Scenario, folder: &Path, command: String, interface: Option<&str>) -> Result<(), Failure> {
    let bar = progress_bar(scenario.duration, "running");
    let program = std::env::current_exe().context("the path of this program")?;
    let method = interface.map(|kind| if kind == "tap" { Method::Tap } else { Method::Packet });
    let options = farlink_lab::run::Options { folder: folder.to_path_buf(), command, program, method };
    let show = &mut |progress: farlink_lab::run::Progress| {
        bar.set_position((progress.elapsed_s * 1e3) as u64);
        bar.set_message(format!(
            "{}: {} of {} bundles delivered",
            progress.phase, progress.delivered, progress.created
        ));
    };
    let result = farlink_lab::run::run(scenario, &options, show);
    bar.finish_and_clear();
    result.map(drop).map_err(Failure::Run)
}

/// A bar on stderr, in milliseconds of the run; it appears only when a run takes a while.
fn progress_bar(duration: Duration, doing: &str) -> ProgressBar {
    let bar = ProgressBar::new(duration.as_millis() as u64);
    if !std::io::stderr().is_terminal() {
        bar.set_draw_target(ProgressDrawTarget::hidden());
        return bar;
    }
    let template = format!("{doing} {{wide_bar}} {{percent}} %, {{msg}}, {{eta}} to go");
    if let Ok(style) = ProgressStyle::with_template(&template) {
        bar.set_style(style);
    }
    bar.set_draw_target(ProgressDrawTarget::stderr_with_hz(10));
    bar
}

/// Prints what came of a run; fails when it is not what the scenario expects.
fn tell(folder: &Path, json: bool) -> Result<(), Failure> {
    let run = RunReader::open(folder)?;
    let statistics = Statistics::read(&run)?;
    let missed = Missed::of(run.manifest(), &statistics);
    if json {
        let mut value = serde_json::to_value(&statistics).context("the statistics are not JSON")?;
        value["run"] = folder.display().to_string().into();
        value["missed"] = serde_json::to_value(&missed).context("what was missed is not JSON")?;
        println!("{value:#}");
        return judge(&missed, &run);
    }
    let manifest = run.manifest();
    println!("{}", manifest.title());
    println!("  delivered  {} of {} bundles", statistics.delivered, statistics.created);
    if let Some(latency) = statistics.latency_s {
        println!("  latency    mean {:.3} s, p50 {:.3} s, p99 {:.3} s", latency.mean, latency.p50, latency.p99);
    }
    if let Some(goodput) = statistics.goodput_bit_s {
        println!("  goodput    {}", DataRate(goodput as u64));
    }
    if let Some(overhead) = statistics.overhead {
        println!("  overhead   {overhead:.2} bytes on links per byte delivered");
    }
    for file in &manifest.files {
        let how = match (file.equal(), file.complete_s) {
            (Some(false), _) | (_, None) => "incomplete".to_string(),
            (Some(true), Some(at)) => format!("complete after {at:.1} s, checksum equal"),
            (None, Some(at)) => format!("complete after {at:.1} s"),
        };
        println!("  file       {}: {how}", file.traffic);
    }
    println!("  took       {:.1} s for {:.1} s of run", statistics.wall_s, statistics.duration_s);
    println!("  run        {}", folder.display());
    judge(&missed, &run)
}

/// Fails with what the scenario expects and the run missed.
fn judge(missed: &[Missed], run: &RunReader) -> Result<(), Failure> {
    if missed.is_empty() {
        return Ok(());
    }
    let line = |m: &Missed| format!("  {}: expected {}, found {}", m.key, m.expected, m.found);
    let lines: Vec<String> = missed.iter().map(line).collect();
    Err(Failure::Run(anyhow::anyhow!(
        "the run is not as the scenario expects\n{}\nhint: [expect] of the scenario says what is expected; \
         `farlink report {}` shows where bundles were",
        lines.join("\n"),
        run.folder().display()
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_exists_is_never_written_over() {
        let parent = std::env::temp_dir().join(format!("farlink-run-{}", std::process::id()));
        assert_eq!(fresh_folder(&parent, "iss", "sim"), parent.join("iss-sim"));
        std::fs::create_dir_all(parent.join("iss-sim")).unwrap();
        assert_eq!(fresh_folder(&parent, "iss", "sim"), parent.join("iss-sim-2"));
        std::fs::remove_dir_all(&parent).unwrap();
    }
}
