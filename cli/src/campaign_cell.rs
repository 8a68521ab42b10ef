//! How a cell of a campaign is run: in a thread of this process, as a child, or in the testbed.

use crate::CliError;
use anyhow::{Context as _, Result, bail};
use farlink_campaign::{Ended, Job, Runner};
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
    /// The scenario's text, with everything set.
    #[arg(long)]
    scenario: PathBuf,
    /// What paths in it are relative to.
    #[arg(long)]
    folder: PathBuf,
    /// Its seed.
    #[arg(long)]
    seed: u64,
    /// Where its run goes.
    #[arg(long)]
    out: PathBuf,
    /// Whether the run is kept.
    #[arg(long)]
    keep: bool,
}

/// Runs one cell as a child.
pub fn run(args: &CellArgs) -> Result<(), CliError> {
    let text = std::fs::read_to_string(&args.scenario)?;
    let mut scenario = Scenario::parse_in(&text, &args.folder)
        .map_err(|list| CliError::Input(list.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")))?;
    scenario.set_seed(args.seed);
    let stop = farlink_os::process::watch_termination()?;
    match simulate(scenario, &args.out, args.keep, &stop)? {
        Ended::Done => Ok(()),
        Ended::Stopped => Err(CliError::Run(anyhow::anyhow!("stopped"))),
    }
}

fn scenario_of(job: &Job<'_>) -> Result<Scenario> {
    let said = |list: Vec<farlink_base::ConfigError>| {
        anyhow::anyhow!(list.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
    };
    job.plan.scenario(job.cell).map_err(said)
}

fn simulate(mut scenario: Scenario, folder: &Path, keep: bool, stop: &Arc<AtomicBool>) -> Result<Ended> {
    if !keep {
        // Of a run that is thrown away only these are read.
        scenario.measure.tables = vec![Table::Bundles, Table::Links];
        scenario.measure.segments = false;
    }
    let command = "a cell of a campaign".to_string();
    let options = farlink_sim::Options { folder: folder.to_path_buf(), command, stop: stop.clone() };
    let (_, outcome) = farlink_sim::run(&scenario, &options, &mut |_| {})?;
    Ok(if outcome.stopped { Ended::Stopped } else { Ended::Done })
}

/// Cells in threads of this process.
pub struct InThreads {
    /// Set from outside.
    pub stop: Arc<AtomicBool>,
    /// Whether runs are kept.
    pub keep: bool,
}
impl Runner for InThreads {
    fn run(&self, job: &Job<'_>) -> Result<Ended> {
        simulate(scenario_of(job)?, job.folder, self.keep, &self.stop)
    }
}

/// A child for each cell.
pub struct WithChildren {
    /// This program.
    pub program: PathBuf,
    /// Whether runs are kept.
    pub keep: bool,
}
impl Runner for WithChildren {
    fn run(&self, job: &Job<'_>) -> Result<Ended> {
        let text = job.folder.join("scenario.toml");
        std::fs::write(&text, &job.plan.configurations[job.cell.configuration].text)?;
        let mut command = Command::new(&self.program);
        let folder = &job.plan.campaign.folder;
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder.as_path() };
        command.args(["campaign", "cell", "--seed", &job.cell.seed.to_string()]);
        command.arg("--scenario").arg(&text).arg("--folder").arg(folder).arg("--out").arg(job.folder);
        if self.keep {
            command.arg("--keep");
        }
        let log = job.folder.join("child.log");
        let said = std::fs::File::create(&log)?;
        // It writes into a folder that is taken anew when this process is gone.
        farlink_os::process::start_in(&mut command, None, None);
        let child =
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(said).spawn().context("a child process")?;
        let ended = wait(child, job.stop)?;
        let said = std::fs::read_to_string(&log).unwrap_or_default();
        match ended {
            None => Ok(Ended::Stopped),
            Some(status) if status.success() => {
                let _ = std::fs::remove_file(&log);
                Ok(Ended::Done)
            }
            Some(_) if job.stop.load(Ordering::Relaxed) => Ok(Ended::Stopped),
            Some(status) => bail!("its process ended with {status}: {}", said.trim()),
        }
    }
}

/// Waits until a child ends; `None` where it was stopped.
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
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// One cell after the other in the testbed.
pub struct OnLab {
    /// This program: nodes are started as it.
    pub program: PathBuf,
    /// Set from outside.
    pub stop: Arc<AtomicBool>,
}
impl Runner for OnLab {
    fn run(&self, job: &Job<'_>) -> Result<Ended> {
        let scenario = scenario_of(job)?;
        let options = farlink_lab::run::Options {
            folder: job.folder.to_path_buf(),
            command: "a cell of a campaign".into(),
            program: self.program.clone(),
            method: None,
            stop: self.stop.clone(),
        };
        farlink_lab::run::run(&scenario, &options, &mut |_| {})?;
        let whole = RunReader::open(job.folder)?.manifest().finished;
        Ok(if whole { Ended::Done } else { Ended::Stopped })
    }
}
