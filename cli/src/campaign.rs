//! `farlink campaign`: studies. A scenario varied along axes, repeated with other seeds, and evaluated in figures.

use crate::CliError;
use crate::campaign_bar::Bar;
use crate::campaign_cell::{self, CellArgs, InThreads, OnLab, WithChildren};
use crate::campaign_ray::{self, On};
use crate::values;
use farlink_campaign::{
    Campaign, CampaignFolder, CampaignOptions, CampaignPlan, CellWorld, Results, Runner, Summary, run as run_cells,
};
use farlink_report::Quantity;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

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
    /// Show the progress of a campaign.
    Status(StatusArgs),
    /// Continue a campaign that was stopped or killed.
    Resume(ResumeArgs),
    /// Write the report of a campaign again, from the cells completed so far.
    Report(ReportArgs),
    /// Run one cell, for `--isolate`.
    #[command(hide = true)]
    Cell(CellArgs),
}

#[derive(clap::Args)]
#[command(after_help = "A campaign is a folder with a campaign.toml. Results go to another folder: report.html,\n\
    results.txt, the tables cells and points (CSV and Parquet), figures as SVG and PDF, and a folder\n\
    per cell. Ctrl-C keeps completed cells; `resume` continues, with the same results.\n\n\
    Examples:\n\
    \x20 farlink campaign run campaigns/silva --smoke\n\
    \x20 farlink campaign run campaigns/silva --out runs/silva --jobs 8\n\
    \x20 farlink campaign run campaigns/silva --only fig8 --isolate\n\
    \x20 farlink campaign run campaigns/crossing --in lab\n\
    \x20 RAY_ADDRESS=10.0.0.1:6379 farlink campaign run campaigns/silva --on ray\n\n\
    Exit status: 0 done, 1 a cell failed or the campaign was stopped, 2 bad input.")]
struct RunArgs {
    /// Folder of the campaign.
    #[arg(value_name = "CAMPAIGN")]
    campaign: PathBuf,
    /// Run the small size of the campaign, which takes seconds.
    #[arg(long)]
    smoke: bool,
    /// Run only this figure; may be repeated.
    #[arg(long, value_name = "FIGURE")]
    only: Vec<String>,
    /// World to run the cells in, instead of the campaign's.
    #[arg(long = "in", value_name = "WORLD", conflicts_with = "on")]
    world: Option<Where>,
    /// Runs per point, instead of the campaign's.
    #[arg(long, value_name = "N", allow_hyphen_values = true, value_parser = repetitions)]
    repetitions: Option<u64>,
    /// Folder of the results; default: `runs/<campaign>`, numbered if it exists.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Keep the run directory of each cell, not only its numbers.
    #[arg(long, conflicts_with = "on")]
    keep_runs: bool,
    #[command(flatten)]
    how: How,
}

/// Worlds that cells can run in.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Where {
    /// Simulation in virtual time.
    Sim,
    /// Testbed on this machine: real node processes in real time, one cell at a time.
    Lab,
}

impl From<Where> for CellWorld {
    fn from(place: Where) -> CellWorld {
        match place {
            Where::Sim => CellWorld::Sim,
            Where::Lab => CellWorld::Lab,
        }
    }
}

/// Options that `run` and `resume` share.
#[derive(clap::Args)]
struct How {
    /// Cells run at once; default: one per processor, and one in the testbed.
    #[arg(long, value_name = "N", allow_hyphen_values = true, value_parser = values::some)]
    jobs: Option<u64>,
    /// Run each cell in a child process, so that a crash affects no other cell.
    #[arg(long, conflicts_with = "on")]
    isolate: bool,
    /// Where to run the cells, if not here; needs the Python package and Ray: docs/how-to/use-from-python.md.
    #[arg(long, value_name = "WHERE")]
    on: Option<On>,
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
}

impl How {
    /// These options as arguments of the Python package.
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
    /// These options as arguments of the Python package, with results into `folder`.
    fn words(&self, folder: &Path) -> Vec<OsString> {
        let mut words: Vec<OsString> = vec!["run".into(), self.campaign.clone().into_os_string()];
        // The package gets the folder chosen here: it would look for a free number by itself otherwise.
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

/// A campaign that was started before.
#[derive(clap::Args)]
struct Of {
    /// Folder of the campaign's results.
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Folder of the campaign, if it was moved.
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
#[command(after_help = "Completed cells are kept; failed ones, and those whose scenario changed since, run again.\n\n\
    Examples:\n\
    \x20 farlink campaign resume runs/silva\n\
    \x20 farlink campaign resume runs/silva --repetitions 20     # narrower intervals: the same seeds and more")]
struct ResumeArgs {
    #[command(flatten)]
    of: Of,
    /// Runs per point from now on; completed cells are kept.
    #[arg(long, value_name = "N", allow_hyphen_values = true, value_parser = repetitions)]
    repetitions: Option<u64>,
    #[command(flatten)]
    how: How,
}

#[derive(clap::Args)]
struct ReportArgs {
    #[command(flatten)]
    of: Of,
    /// Open the report in the browser.
    #[arg(long)]
    open: bool,
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
}

fn repetitions(text: &str) -> Result<u64, String> {
    let most = farlink_campaign::REPETITIONS_MAX;
    match values::some(text)? {
        number if number > most => Err(format!("more than {most} runs per point\nhint: write fewer")),
        number => Ok(number),
    }
}

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
    let world = args.world.map(CellWorld::from);
    let plan = plan_of(&args.campaign, args.smoke, &args.only, args.repetitions, world)?;
    let folder = args.out.clone().unwrap_or_else(|| {
        let name = &plan.campaign.name;
        // Results of the small size are kept apart from those of the study.
        let base = if args.smoke { format!("{name}-smoke") } else { name.clone() };
        fresh(Path::new("runs"), &base)
    });
    // The Python package then does all of the work, including the report.
    if args.how.on == Some(On::Ray) {
        return campaign_ray::run(&args.words(&folder));
    }
    let folder = CampaignFolder::create(&folder, &plan, &args.only, args.keep_runs, crate::VERSION)
        .map_err(|why| CliError::Input(format!("{why:#}")))?;
    go(&folder, &plan, &args.how)
}

fn resume(args: &ResumeArgs) -> Result<(), CliError> {
    // Options are recorded only after the plan was checked: a campaign that cannot run stays as it was.
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

/// First folder name, numbered if necessary, that does not exist.
fn fresh(parent: &Path, base: &str) -> PathBuf {
    // Numbers begin with 2: the folder without a number is the first.
    let numbered = (2..).map(|number| parent.join(format!("{base}-{number}")));
    let mut names = std::iter::once(parent.join(base)).chain(numbered);
    names.find(|folder| !folder.exists()).unwrap_or_else(|| parent.join(base))
}

fn plan_of(
    path: &Path,
    small: bool,
    only: &[String],
    repetitions: Option<u64>,
    world: Option<CellWorld>,
) -> Result<CampaignPlan, CliError> {
    let campaign = Campaign::load(path).map_err(|list| CliError::mistakes(path, &list))?;
    // The order matters: [smoke] may remove figures that --only then cannot find.
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
            "no figure is left to run\nhint: `--only` must not name a figure that [smoke] leaves out".into(),
        ));
    }
    CampaignPlan::new(campaign).map_err(|list| CliError::mistakes(path, &list))
}

/// Opens the results of a campaign and its current plan, with this number of repetitions instead of the recorded one.
fn open(of: &Of, repetitions: Option<u64>) -> Result<(CampaignFolder, CampaignPlan), CliError> {
    let folder = CampaignFolder::open(&of.folder).map_err(|why| CliError::Input(format!("{why:#}")))?;
    let about = folder.about().clone();
    let campaign = of.campaign.as_ref().unwrap_or(&about.campaign);
    if !campaign.exists() {
        return Err(CliError::Input(format!(
            "{}, the campaign of {}, does not exist any more\nhint: --campaign names its folder",
            campaign.display(),
            of.folder.display()
        )));
    }
    // Small size, figures and world are those of the start: other cells would not match the completed ones.
    let repetitions = repetitions.unwrap_or(about.repetitions);
    let plan = plan_of(campaign, about.small, &about.figures, Some(repetitions), about.world)?;
    // Results of another campaign would be overwritten.
    if of.campaign.is_some() && plan.campaign.name != about.name {
        return Err(CliError::Input(format!(
            "{} is campaign `{}`, and {} has results of `{}`\nhint: `farlink campaign run {}` makes its own",
            campaign.display(),
            plan.campaign.name,
            of.folder.display(),
            about.name,
            campaign.display()
        )));
    }
    Ok((folder, plan))
}

fn go(folder: &CampaignFolder, plan: &CampaignPlan, how: &How) -> Result<(), CliError> {
    let stop = farlink_os::process::watch_termination()?;
    let status = folder.status(plan, crate::VERSION)?;
    for warning in warnings(folder, plan, &status) {
        eprintln!("warning: {warning}");
    }
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    // Real-time cells would disturb each other's measurements: one at a time.
    let jobs = match plan.campaign.world {
        CellWorld::Sim => how.jobs.map_or(processors, |jobs| usize::try_from(jobs).unwrap_or(processors)),
        CellWorld::Lab => 1,
    };
    let runner = runner(plan.campaign.world, how.isolate, folder.about().keep_runs, &stop)?;
    let mut bar = Bar::new(plan.cells().len());
    let options = CampaignOptions { jobs, stop: &stop, version: crate::VERSION };
    let begun = Instant::now();
    let summary = run_cells(plan, folder, options, &*runner, &mut |progress| bar.show(progress));
    bar.finish();
    // The bar is removed first: an error must start on a line of its own.
    let summary = summary?;
    let took = Quantity::Seconds.text(begun.elapsed().as_secs_f64());
    eprintln!("took {took} for {}", farlink_report::counted(summary.ran as u64, "cell"));
    tell(folder, plan, &summary, how.json, stop.load(Ordering::Relaxed))
}

fn runner(world: CellWorld, isolate: bool, keep: bool, stop: &Arc<AtomicBool>) -> Result<Box<dyn Runner>, CliError> {
    let program = std::env::current_exe()?;
    Ok(match (world, isolate) {
        (CellWorld::Sim, false) => Box::new(InThreads { stop: stop.clone(), keep }),
        (CellWorld::Sim, true) => Box::new(WithChildren { program, keep }),
        // The testbed's nodes are separate processes in any case.
        (CellWorld::Lab, _) => Box::new(OnLab { program, stop: stop.clone() }),
    })
}

fn warnings(folder: &CampaignFolder, plan: &CampaignPlan, status: &farlink_campaign::CampaignStatus) -> Vec<String> {
    let unmeasured = |(figure, metric): (&str, &str)| {
        format!(
            "figure {figure}: no simulated run has `{metric}`: only the testbed measures it\n\
             hint: write `world = \"lab\"` in the figure, or run the campaign with `--in lab`"
        )
    };
    let mut warnings: Vec<String> = plan.campaign.unmeasured().into_iter().map(unmeasured).collect();
    if status.surplus > 0 {
        warnings.push(format!(
            "{} cells have seeds after the last repetition and are not used\n\
             hint: they are kept; `farlink campaign resume {} --repetitions {}` uses them again",
            status.surplus,
            folder.path().display(),
            status.surplus_repetitions
        ));
    }
    if status.strangers > 0 {
        warnings.push(format!(
            "{} cells belong to no point of the current campaign and are not used\n\
             hint: the campaign or its scenario changed; remove them, or start in another --out",
            status.strangers
        ));
    }
    if status.other_versions > 0 {
        warnings.push(format!(
            "{} cells were run by another version of farlink\nhint: if that matters, start again in another --out",
            status.other_versions
        ));
    }
    warnings
}

/// Writes the report and prints the results.
fn tell(
    folder: &CampaignFolder,
    plan: &CampaignPlan,
    summary: &Summary,
    json: bool,
    stopped: bool,
) -> Result<(), CliError> {
    let results = Results::new(plan, folder.records(plan)?);
    let page = results.write(folder)?;
    if json {
        println!("{:#}", to_json(folder, plan, &results, summary, &page));
    } else {
        print!("{}", results.text());
        eprintln!("{}", page.display());
        if let Some((name, why)) = results.disturbed().first() {
            eprintln!(
                "warning: {} of {} cells are disturbed, repetitions included, first {name}: {why}\nhint: run it on a \
                 quieter machine; `farlink campaign status {}` names all",
                results.disturbed().len(),
                plan.cells().len(),
                folder.path().display()
            );
        }
    }
    // The report is written first: it shows the completed cells also if others failed.
    if let Some((name, why)) = summary.failed.first() {
        let count = summary.failed.len();
        return Err(CliError::Run(anyhow::anyhow!(
            "{count} of {} cells failed, first {name}: {why}\nhint: {} has the reasons; `farlink campaign resume {}` tries again",
            plan.cells().len(),
            folder.path().join("failed").display(),
            folder.path().display()
        )));
    }
    if stopped && summary.left > 0 {
        return Err(CliError::Run(anyhow::anyhow!(
            "stopped with {} cells left\nhint: `farlink campaign resume {}` continues",
            summary.left,
            folder.path().display()
        )));
    }
    Ok(())
}

fn to_json(
    folder: &CampaignFolder,
    plan: &CampaignPlan,
    results: &Results<'_>,
    summary: &Summary,
    page: &Path,
) -> serde_json::Value {
    let claims: Vec<serde_json::Value> = plan
        .campaign
        .figures
        .iter()
        .flat_map(|figure| figure.claims.iter().map(move |claim| (figure, claim)))
        .map(|(figure, claim)| {
            let judged = results.judge(figure, claim);
            serde_json::json!({
                "figure": figure.name, "claim": claim.text, "verdict": judged.verdict.word(),
                "favour": judged.counts.favour, "against": judged.counts.against, "open": judged.counts.open,
                "uncorrected": {
                    "verdict": judged.uncorrected.verdict().word(), "favour": judged.uncorrected.favour,
                    "against": judged.uncorrected.against, "open": judged.uncorrected.open,
                },
                "worst": judged.worst, "reasons": judged.reasons,
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
        "repeated": results.repeated(),
        "disturbed": results.disturbed().into_iter()
            .map(|(name, why)| serde_json::json!({"cell": name, "why": why})).collect::<Vec<_>>(),
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
    println!("  work       {} in total", Quantity::Seconds.text(status.spent_s));
    println!("  running    {}", if status.running { "yes" } else { "no" });
    for (name, why) in &status.failed {
        // Only the first line: the whole reason is in the folder `failed`.
        println!("  failed     {name}: {}", why.lines().next().unwrap_or_default());
    }
    if status.repeated > 0 {
        println!("  repeated   {} cells, because they were disturbed", status.repeated);
    }
    for (name, why) in &status.disturbed {
        println!("  disturbed  {name}: {why}");
    }
    for warning in warnings(&folder, &plan, &status) {
        eprintln!("warning: {warning}");
    }
    // While another process runs the campaign, nothing needs to be resumed.
    if status.left > 0 && !status.running {
        eprintln!("`farlink campaign resume {}` continues it", args.of.folder.display());
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
        eprintln!("no browser could be started; open {} in one", page.display());
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
        // Both options concern cells that run in this process.
        for here in ["--isolate", "--keep-runs"] {
            assert!(
                parse(&format!("run silva --on ray {here}")).is_err(),
                "{here} only applies to cells that run here"
            );
        }
    }
}
