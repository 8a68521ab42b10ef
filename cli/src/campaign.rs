//! `farlink campaign`: studies. A scenario, varied along axes and repeated, and the figures that come of it.

use crate::CliError;
use crate::campaign_bar::Bar;
use crate::campaign_cell::{self, CellArgs, InThreads, OnLab, WithChildren};
use crate::campaign_ray::{self, On};
use crate::values;
use farlink_campaign::{Campaign, Folder, Options, Plan, Results, Runner, Summary, World, run as run_cells};
use farlink_report::Quantity;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Arguments of `farlink campaign`.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    what: CampaignCommand,
}

#[derive(clap::Subcommand)]
enum CampaignCommand {
    /// Run a campaign: all its cells, then its report.
    Run(RunArgs),
    /// How far a campaign is.
    Status(StatusArgs),
    /// Go on with a campaign that was stopped or killed.
    Resume(ResumeArgs),
    /// Write the report of a campaign anew, of what there is so far.
    Report(ReportArgs),
    /// Run one cell, for `--isolate`.
    #[command(hide = true)]
    Cell(CellArgs),
}

#[derive(clap::Args)]
#[command(
    after_help = "A campaign is a folder with a campaign.toml. Its results are a folder, too: report.html, results.txt,\n\
    the tables cells and points (CSV and Parquet), figures as SVG and PDF, and a folder for each cell. Ctrl-C leaves the cells that\n\
    ended; `resume` goes on, with the same results.\n\n\
    Examples:\n\
    \x20 farlink campaign run campaigns/silva --smoke\n\
    \x20 farlink campaign run campaigns/silva --out runs/silva --jobs 8\n\
    \x20 farlink campaign run campaigns/silva --only fig8 --isolate\n\
    \x20 farlink campaign run campaigns/crossing --in lab\n\
    \x20 RAY_ADDRESS=10.0.0.1:6379 farlink campaign run campaigns/silva --on ray\n\n\
    Exit status: 0 done, 1 a cell failed or it was stopped, 2 bad input."
)]
struct RunArgs {
    /// The campaign's folder.
    #[arg(value_name = "CAMPAIGN")]
    campaign: PathBuf,
    /// Its small size, which ends in seconds.
    #[arg(long)]
    smoke: bool,
    /// Only this figure; several times for several.
    #[arg(long, value_name = "FIGURE")]
    only: Vec<String>,
    /// The world its cells run in, in place of the campaign's.
    #[arg(long = "in", value_name = "WORLD", conflicts_with = "on")]
    world: Option<Where>,
    /// Runs of each point, in place of the campaign's.
    #[arg(long, value_name = "N", allow_hyphen_values = true, value_parser = repetitions)]
    repetitions: Option<u64>,
    /// Folder of the results; `runs/<campaign>` with a number when not given.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Keep the run of each cell beside its numbers.
    #[arg(long, conflicts_with = "on")]
    keep_runs: bool,
    #[command(flatten)]
    how: How,
}

/// The worlds.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Where {
    /// In simulation.
    Sim,
    /// In the testbed on this machine: real node processes, one cell after the other, in real time.
    Lab,
}

impl From<Where> for World {
    fn from(place: Where) -> World {
        match place {
            Where::Sim => World::Sim,
            Where::Lab => World::Lab,
        }
    }
}

/// What running and resuming have in common.
#[derive(clap::Args)]
struct How {
    /// Cells at once; as many as there are processors when not given, and one in the testbed.
    #[arg(long, value_name = "N", allow_hyphen_values = true, value_parser = values::some)]
    jobs: Option<u64>,
    /// A child process for each cell, so that one that crashes takes no other with it.
    #[arg(long, conflicts_with = "on")]
    isolate: bool,
    /// Where cells run, if not here; needs the Python package: pip install 'farlink[ray]'.
    #[arg(long, value_name = "WHERE")]
    on: Option<On>,
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
}

impl How {
    /// The same for the Python package.
    fn words(&self) -> Vec<OsString> {
        let mut words = Vec::new();
        if let Some(jobs) = self.jobs {
            words.extend(["--jobs".into(), jobs.to_string().into()]);
        }
        words.extend(self.json.then(|| "--json".into()));
        words
    }
}

impl RunArgs {
    /// The same for the Python package, into this folder.
    fn words(&self, folder: &Path) -> Vec<OsString> {
        let mut words: Vec<OsString> = vec!["run".into(), self.campaign.clone().into_os_string()];
        words.extend(["--out".into(), folder.into()]);
        words.extend(self.smoke.then(|| "--smoke".into()));
        self.only.iter().for_each(|figure| words.extend(["--only".into(), figure.into()]));
        if let Some(count) = self.repetitions {
            words.extend(["--repetitions".into(), count.to_string().into()]);
        }
        words.extend(self.how.words());
        words
    }
}

/// A campaign that began.
#[derive(clap::Args)]
struct Of {
    /// Folder of the results.
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// The campaign's folder, where that is not where it was.
    #[arg(long, value_name = "CAMPAIGN")]
    campaign: Option<PathBuf>,
}

#[derive(clap::Args)]
struct StatusArgs {
    #[command(flatten)]
    of: Of,
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
#[command(
    after_help = "Cells that ended are not run again; those that failed are. A cell whose scenario has changed since is run anew.\n\n\
    Examples:\n\
    \x20 farlink campaign resume runs/silva\n\
    \x20 farlink campaign resume runs/silva --repetitions 20     # narrower intervals, of the same seeds and more"
)]
struct ResumeArgs {
    #[command(flatten)]
    of: Of,
    /// Runs of each point from now on: more, and those that ended stay.
    #[arg(long, value_name = "N", allow_hyphen_values = true, value_parser = repetitions)]
    repetitions: Option<u64>,
    #[command(flatten)]
    how: How,
}

#[derive(clap::Args)]
struct ReportArgs {
    #[command(flatten)]
    of: Of,
    /// Show it in the browser.
    #[arg(long)]
    open: bool,
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
}

fn repetitions(text: &str) -> Result<u64, String> {
    let most = farlink_campaign::REPETITIONS_MAX;
    match values::some(text)? {
        number if number > most => Err(format!("more than {most} runs of each point\nhint: write fewer")),
        number => Ok(number),
    }
}

/// Runs the subcommand.
pub fn run(args: Args) -> Result<(), CliError> {
    match args.what {
        CampaignCommand::Run(args) => begin(&args),
        CampaignCommand::Status(args) => status(&args),
        CampaignCommand::Resume(args) => resume(&args),
        CampaignCommand::Report(args) => report(&args),
        CampaignCommand::Cell(args) => campaign_cell::run(&args),
    }
}

fn begin(args: &RunArgs) -> Result<(), CliError> {
    let world = args.world.map(World::from);
    let plan = plan_of(&args.campaign, args.smoke, &args.only, args.repetitions, world)?;
    let folder = args.out.clone().unwrap_or_else(|| {
        let name = &plan.campaign.name;
        let base = if args.smoke { format!("{name}-smoke") } else { name.clone() };
        fresh(Path::new("runs"), &base)
    });
    if args.how.on == Some(On::Ray) {
        return campaign_ray::run(&args.words(&folder));
    }
    let folder = Folder::create(&folder, &plan, &args.only, args.keep_runs, crate::VERSION)
        .map_err(|why| CliError::Input(format!("{why:#}")))?;
    go(&folder, &plan, &args.how)
}

fn resume(args: &ResumeArgs) -> Result<(), CliError> {
    // Looked at before anything is kept of it: what cannot be run is not begun.
    let (mut folder, plan) = open(&args.of, args.repetitions)?;
    if args.of.campaign.is_some() || args.repetitions.is_some() {
        folder.change(args.of.campaign.as_ref().map(|_| plan.campaign.file.as_path()), args.repetitions)?;
    }
    if args.how.on != Some(On::Ray) {
        return go(&folder, &plan, &args.how);
    }
    let mut words = vec!["resume".into(), args.of.folder.clone().into_os_string()];
    words.extend(args.how.words());
    campaign_ray::run(&words)
}

/// A folder that is not there yet.
fn fresh(parent: &Path, base: &str) -> PathBuf {
    let numbered = (2..).map(|number| parent.join(format!("{base}-{number}")));
    let mut names = std::iter::once(parent.join(base)).chain(numbered);
    names.find(|folder| !folder.exists()).unwrap_or_else(|| parent.join(base))
}

fn plan_of(
    path: &Path,
    small: bool,
    only: &[String],
    repetitions: Option<u64>,
    world: Option<World>,
) -> Result<Plan, CliError> {
    let campaign = Campaign::load(path).map_err(|list| CliError::mistakes(path, &list))?;
    let campaign = if small { campaign.smaller() } else { campaign };
    let campaign = campaign.only(only).map_err(CliError::Input)?;
    let campaign = match repetitions {
        Some(count) => campaign.repeated(count),
        None => campaign,
    };
    let campaign = match world {
        Some(world) => campaign.inside(world),
        None => campaign,
    };
    if campaign.figures.is_empty() {
        return Err(CliError::Input(
            "no figure is left to run\nhint: `--only` may name none that [smoke] leaves out".into(),
        ));
    }
    Plan::new(campaign).map_err(|list| CliError::mistakes(path, &list))
}

/// The folder of a campaign that began, and its plan as it is now, with so many repetitions in place of its own.
fn open(of: &Of, repetitions: Option<u64>) -> Result<(Folder, Plan), CliError> {
    let folder = Folder::open(&of.folder).map_err(|why| CliError::Input(format!("{why:#}")))?;
    let about = folder.about().clone();
    let campaign = of.campaign.as_ref().unwrap_or(&about.campaign);
    if !campaign.exists() {
        return Err(CliError::Input(format!(
            "{}, of which {} is, is not there any more\nhint: --campaign says where it is now",
            campaign.display(),
            of.folder.display()
        )));
    }
    let repetitions = repetitions.unwrap_or(about.repetitions);
    let plan = plan_of(campaign, about.small, &about.figures, Some(repetitions), about.world)?;
    Ok((folder, plan))
}

fn go(folder: &Folder, plan: &Plan, how: &How) -> Result<(), CliError> {
    let stop = farlink_os::process::watch_termination()?;
    let status = folder.status(plan, crate::VERSION)?;
    for warning in warnings(&status) {
        eprintln!("warning: {warning}");
    }
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let jobs = match plan.campaign.world {
        World::Sim => how.jobs.map_or(processors, |jobs| usize::try_from(jobs).unwrap_or(processors)),
        World::Lab => 1,
    };
    let runner = runner(plan.campaign.world, how.isolate, folder.about().keep_runs, &stop)?;
    let mut bar = Bar::new(plan.cells().len());
    let options = Options { jobs, stop: &stop, version: crate::VERSION };
    let summary = run_cells(plan, folder, options, &*runner, &mut |progress| bar.show(progress));
    bar.finish();
    let summary = summary?;
    tell(folder, plan, &summary, how.json, stop.load(Ordering::Relaxed))
}

fn runner(world: World, isolate: bool, keep: bool, stop: &Arc<AtomicBool>) -> Result<Box<dyn Runner>, CliError> {
    let program = std::env::current_exe()?;
    Ok(match (world, isolate) {
        (World::Sim, false) => Box::new(InThreads { stop: stop.clone(), keep }),
        (World::Sim, true) => Box::new(WithChildren { program, keep }),
        (World::Lab, _) => Box::new(OnLab { program, stop: stop.clone() }),
    })
}

fn warnings(status: &farlink_campaign::Status) -> Vec<String> {
    let mut warnings = Vec::new();
    if status.strangers > 0 {
        warnings.push(format!(
            "{} cells there are of no point of the campaign as it is now, and are not used\n\
             hint: the campaign or its scenario changed; remove them, or begin in another --out",
            status.strangers
        ));
    }
    if status.other_versions > 0 {
        warnings.push(format!(
            "{} cells were run by another version of farlink\nhint: begin anew in another --out where that matters",
            status.other_versions
        ));
    }
    warnings
}

/// Writes the report and prints what came of it.
fn tell(folder: &Folder, plan: &Plan, summary: &Summary, json: bool, stopped: bool) -> Result<(), CliError> {
    let results = Results::new(plan, folder.records(plan)?);
    let page = results.write(folder)?;
    if json {
        println!("{:#}", to_json(folder, plan, &results, summary, &page));
    } else {
        print!("{}", results.text());
        eprintln!("{}", page.display());
    }
    if let Some((name, why)) = summary.failed.first() {
        let count = summary.failed.len();
        return Err(CliError::Run(anyhow::anyhow!(
            "{count} of {} cells failed, the first of them {name}: {why}\nhint: {} has the reasons; `farlink campaign resume {}` tries again",
            plan.cells().len(),
            folder.path().join("failed").display(),
            folder.path().display()
        )));
    }
    if stopped && summary.left > 0 {
        return Err(CliError::Run(anyhow::anyhow!(
            "stopped with {} cells left\nhint: `farlink campaign resume {}` goes on",
            summary.left,
            folder.path().display()
        )));
    }
    Ok(())
}

fn to_json(folder: &Folder, plan: &Plan, results: &Results<'_>, summary: &Summary, page: &Path) -> serde_json::Value {
    let claims: Vec<serde_json::Value> = plan
        .campaign
        .figures
        .iter()
        .flat_map(|figure| figure.claims.iter().map(move |claim| (figure, claim)))
        .map(|(figure, claim)| {
            let judged = results.judge(figure, claim);
            serde_json::json!({
                "figure": figure.name, "claim": claim.text, "verdict": judged.verdict.word(),
                "favour": judged.favour, "against": judged.against, "open": judged.open,
            })
        })
        .collect();
    serde_json::json!({
        "campaign": plan.campaign.name,
        "folder": folder.path().display().to_string(),
        "report": page.display().to_string(),
        "cells": plan.cells().len(),
        "done": summary.done,
        "ran": summary.ran,
        "left": summary.left,
        "failed": summary.failed.iter().map(|(name, why)| serde_json::json!({"cell": name, "why": why})).collect::<Vec<_>>(),
        "claims": claims,
        "points": results.points().json(),
    })
}

fn status(args: &StatusArgs) -> Result<(), CliError> {
    let (folder, plan) = open(&args.of, None)?;
    let status = folder.status(&plan, crate::VERSION)?;
    if args.json {
        let value = serde_json::to_value(&status).map_err(anyhow::Error::from)?;
        println!("{value:#}");
        return Ok(());
    }
    let small = if status.about.small { ", small size" } else { "" };
    println!("{}{small}: {} of {} cells done", status.about.name, status.done, plan.cells().len());
    println!("  took       {} of work", Quantity::Seconds.text(status.spent_s));
    println!("  at work    {}", if status.running { "yes" } else { "nobody" });
    for (name, why) in &status.failed {
        println!("  failed     {name}: {}", why.lines().next().unwrap_or_default());
    }
    for warning in warnings(&status) {
        eprintln!("warning: {warning}");
    }
    if status.left > 0 && !status.running {
        eprintln!("`farlink campaign resume {}` goes on with it", args.of.folder.display());
    }
    Ok(())
}

fn report(args: &ReportArgs) -> Result<(), CliError> {
    let (folder, plan) = open(&args.of, None)?;
    let results = Results::new(&plan, folder.records(&plan)?);
    let page = results.write(&folder)?;
    if args.json {
        println!("{:#}", serde_json::json!({ "report": page.display().to_string(), "whole": results.is_whole() }));
    } else {
        println!("{}", page.display());
    }
    if args.open && !crate::report::show(&page) {
        eprintln!("no browser could be started; open {} yourself", page.display());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn python_package_gets_all_arguments() {
        #[derive(clap::Parser)]
        struct CampaignLine {
            #[command(flatten)]
            args: RunArgs,
        }
        let parse = |line: &str| <CampaignLine as clap::Parser>::try_parse_from(line.split(' ')).map(|line| line.args);
        let all = "run silva --smoke --only fig3 --only fig5 --repetitions 2 --jobs 3 --json --on ray";
        let words = parse(all).unwrap().words(Path::new("there"));
        let expected = "run silva --out there --smoke --only fig3 --only fig5 --repetitions 2 --jobs 3 --json";
        assert_eq!(words, expected.split(' ').map(OsString::from).collect::<Vec<_>>());
        for here in ["--isolate", "--keep-runs"] {
            assert!(parse(&format!("run silva --on ray {here}")).is_err(), "{here} is of cells that run here");
        }
    }
}
