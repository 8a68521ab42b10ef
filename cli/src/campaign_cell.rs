//! Runs one cell of a campaign: in a thread, in a child process, or in the testbed.

use crate::CliError;
use anyhow::{Context as _, Result, bail};
use farlink_campaign::{CellEnd, CellJob, Runner};
use farlink_report::RunReader;
use farlink_scenario::{Scenario, Table};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Arguments of the hidden `farlink campaign cell`.
#[derive(clap::Args)]
pub struct CellArgs {
    /// File with the scenario's text, every axis set.
    #[arg(long)]
    scenario: PathBuf,
    /// Folder that paths in the scenario are relative to.
    #[arg(long)]
    folder: PathBuf,
    /// Seed of the run.
    #[arg(long)]
    seed: u64,
    /// Directory of the run.
    #[arg(long)]
    out: PathBuf,
    /// Keep the complete run.
    #[arg(long)]
    keep: bool,
}

/// Runs one cell in this process, which [`WithChildren`] started.
pub fn run(args: &CellArgs) -> Result<(), CliError> {
    let text = std::fs::read_to_string(&args.scenario)?;
    let mut scenario = Scenario::parse_in(&text, &args.folder)
        .map_err(|list| CliError::Input(list.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")))?;
    // The text of a cell is the same for all repetitions: only the seed differs.
    scenario.set_seed(args.seed);
    let stop = farlink_os::process::watch_termination()?;
    match simulate(scenario, &args.out, args.keep, &stop)? {
        CellEnd::Done => Ok(()),
        CellEnd::Stopped => Err(CliError::Run(anyhow::anyhow!("stopped"))),
    }
}

fn scenario_of(job: &CellJob<'_>) -> Result<Scenario> {
    let said = |list: Vec<farlink_base::ConfigError>| {
        anyhow::anyhow!(list.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
    };
    job.plan.scenario(job.cell).map_err(said)
}

fn simulate(mut scenario: Scenario, folder: &Path, keep: bool, stop: &Arc<AtomicBool>) -> Result<CellEnd> {
    if !keep {
        // The campaign's metrics read only these two tables.
        scenario.measure.tables = vec![Table::Bundles, Table::Links];
        scenario.measure.segments = false;
    }
    let command = "a cell of a campaign".to_string();
    let options = farlink_sim::Options { folder: folder.to_path_buf(), command, stop: stop.clone() };
    let (_, outcome) = farlink_sim::run(&scenario, &options, &mut |_| {})?;
    Ok(if outcome.stopped { CellEnd::Stopped } else { CellEnd::Done })
}

/// Runs cells in threads of this process.
pub struct InThreads {
    /// Stop flag of the campaign.
    pub stop: Arc<AtomicBool>,
    /// Whether complete runs are kept.
    pub keep: bool,
}
impl Runner for InThreads {
    fn run(&self, job: &CellJob<'_>) -> Result<CellEnd> {
        simulate(scenario_of(job)?, job.folder, self.keep, &self.stop)
    }
}

/// Runs each cell in a child process.
pub struct WithChildren {
    /// Path of this program.
    pub program: PathBuf,
    /// Whether complete runs are kept.
    pub keep: bool,
}
impl Runner for WithChildren {
    fn run(&self, job: &CellJob<'_>) -> Result<CellEnd> {
        let text = job.folder.join("scenario.toml");
        std::fs::write(&text, &job.plan.configurations[job.cell.configuration].text)?;
        let mut command = Command::new(&self.program);
        let folder = &job.plan.folder(job.cell);
        // A campaign named without a folder lies in the current one; an empty argument would not parse.
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder.as_path() };
        command.args(["campaign", "cell", "--seed", &job.cell.seed.to_string()]);
        command.arg("--scenario").arg(&text).arg("--folder").arg(folder).arg("--out").arg(job.folder);
        // Without `--keep` the child writes only the tables that metrics read.
        if self.keep {
            command.arg("--keep");
        }
        let log = job.folder.join("child.log");
        let said = std::fs::File::create(&log)?;
        // The child must die with this process: a resumed campaign runs the cell again in the same folder.
        farlink_os::process::start_in(&mut command, None, None);
        let child =
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(said).spawn().context("a child process")?;
        let ended = wait(child, job.stop)?;
        let said = std::fs::read_to_string(&log).unwrap_or_default();
        match ended {
            // Killed by `wait` after a stop was requested.
            None => Ok(CellEnd::Stopped),
            Some(status) if status.success() => {
                // A campaign of thousands of cells would leave as many logs.
                let _ = std::fs::remove_file(&log);
                Ok(CellEnd::Done)
            }
            // Control-C reaches the child too: it may end before it is killed.
            Some(_) if job.stop.load(Ordering::Relaxed) => Ok(CellEnd::Stopped),
            Some(status) => bail!("the cell's process ended with {status}: {}", said.trim()),
        }
    }
}

/// Waits until the child ends; `None` if it was stopped.
fn wait(mut child: Child, stop: &AtomicBool) -> Result<Option<std::process::ExitStatus>> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if stop.load(Ordering::Relaxed) {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        // Short against the shortest cells, which take some tens of milliseconds.
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Runs cells in the testbed.
pub struct OnLab {
    /// Path of this program, which is also the node's.
    pub program: PathBuf,
    /// Stop flag of the campaign.
    pub stop: Arc<AtomicBool>,
}
impl Runner for OnLab {
    fn run(&self, job: &CellJob<'_>) -> Result<CellEnd> {
        let scenario = scenario_of(job)?;
        let options = farlink_lab::run::LabOptions {
            folder: job.folder.to_path_buf(),
            command: "a cell of a campaign".into(),
            program: self.program.clone(),
            stop: self.stop.clone(),
        };
        farlink_lab::run::run(&scenario, &options, &mut |_| {})?;
        // A stopped testbed run also returns success: only its manifest shows the difference.
        let whole = RunReader::open(job.folder)?.manifest().finished;
        Ok(if whole { CellEnd::Done } else { CellEnd::Stopped })
    }
}
