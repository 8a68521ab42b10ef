//! `farlink lab bisect`: finds among builds of an implementation the first with a different value of a metric.

use crate::CliError;
use crate::campaign_cell::OnLab;
use anyhow::{Context, Result, anyhow, bail};
use farlink_campaign::{
    Campaign, CampaignFolder, CampaignOptions, CampaignPlan, ConfidenceLevel, Interval, METRICS, run as run_cells,
};
use farlink_scenario::Scenario;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Runs of each build before its interval is looked at.
const FEWEST: u64 = 3;
/// Confidence of the intervals: they are looked at after each run, which takes more chances to be wrong.
const LEVEL: ConfidenceLevel = ConfidenceLevel::P99;

#[derive(clap::Args)]
#[command(after_help = "Runs the scenario with the good and the bad build until their intervals (99 %) part, then\n\
    halves the builds between them: a build belongs to the side of the middle on which its interval lies.\n\n\
    Examples:\n\
    \x20 farlink lab bisect ion scenario.toml --good /opt/ion-4.1.0/bin --bad /opt/ion-4.1.3/bin\n\
    \x20 farlink lab bisect mine scenario.toml --good v1 --bad v9 v2 v3 v4 --metric goodput_bit_s")]
pub struct BisectArgs {
    /// Name of a driver, which nodes of the scenario have as their `implementation`.
    name: String,
    /// Scenario file.
    scenario: PathBuf,
    /// Folder with the programs of a build that is as it should be.
    #[arg(long, value_name = "BUILD")]
    good: PathBuf,
    /// Folder of a later build that is not.
    #[arg(long, value_name = "BUILD")]
    bad: PathBuf,
    /// Folders of the builds between them, oldest first.
    #[arg(value_name = "BUILD")]
    between: Vec<PathBuf>,
    /// Metric of a whole run, as in campaigns.
    #[arg(long, default_value = "rtt_p90_s")]
    metric: String,
    /// Most runs of a build.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u64).range(FEWEST..=1000))]
    most: u64,
    /// Folder for the results; it must not exist, or be empty.
    #[arg(long, value_name = "DIR", default_value = "runs/bisect")]
    out: PathBuf,
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
}

pub fn run(args: &BisectArgs) -> Result<(), CliError> {
    let metric = METRICS.iter().find(|metric| metric.name == args.metric && !metric.is_sample());
    if metric.is_none() {
        let names: Vec<&str> = METRICS.iter().filter(|metric| !metric.is_sample()).map(|metric| metric.name).collect();
        return Err(CliError::Input(format!("unknown metric `{}`\nhint: one of {}", args.metric, names.join(", "))));
    }
    let folders = [&args.good].into_iter().chain(&args.between).chain([&args.bad]);
    let scenario = Scenario::load(&args.scenario).map_err(|list| CliError::mistakes(&args.scenario, &list))?;
    let stop = farlink_os::process::watch_termination()?;
    let mut builds = Vec::new();
    for (number, folder) in folders.enumerate() {
        let build = Build::new(args, &scenario, number, folder).map_err(|why| CliError::Input(format!("{why:#}")))?;
        builds.push(build);
    }
    let bisection = Bisection { metric: &args.metric, most: args.most, stop, builds };
    report(args, &bisection.find()?)
}

/// A build with the values of its runs.
struct Build {
    path: PathBuf,
    folder: CampaignFolder,
    campaign: Campaign,
    /// Value of each run.
    values: Vec<f64>,
    /// Number of runs that were disturbed.
    disturbed: usize,
    /// Whether it is like the bad build; `None` if it was not looked at.
    bad: Option<bool>,
}

impl Build {
    fn new(args: &BisectArgs, scenario: &Scenario, number: usize, path: &Path) -> Result<Build> {
        let path = path.canonicalize().with_context(|| format!("build {}", path.display()))?;
        let build = format!("{}@{}", args.name, path.display());
        let named = |node: &&farlink_scenario::Node| node.implementation.name == args.name;
        // Strings of JSON are strings of TOML.
        let set: Vec<String> = scenario
            .nodes
            .iter()
            .filter(named)
            .map(|node| format!("{} = {}", json!(format!("node[{}].implementation", node.name)), json!(build)))
            .collect();
        if set.is_empty() {
            bail!(
                "no node of {} has `implementation = \"{}\"`\nhint: give it to the nodes that the builds concern",
                args.scenario.display(),
                args.name
            );
        }
        let text = format!(
            "name = \"bisect\"\nscenario = {}\nworld = \"lab\"\nrepetitions = {}\n[[axis]]\nname = \"build\"\n\
             [[axis.value]]\nlabel = {}\nset = {{ {} }}\n[[figure]]\nname = \"values\"\nmetric = {}\nx = \"build\"\n",
            json!(args.scenario.canonicalize()?),
            args.most,
            json!(path),
            set.join(", "),
            json!(args.metric),
        );
        let folder = args.out.join(format!("build-{number}"));
        let file = folder.join("campaign.toml");
        let mistakes = |list: Vec<farlink_base::ConfigError>| {
            anyhow!(list.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
        };
        let campaign = Campaign::parse(&text, &folder, &file.display().to_string()).map_err(mistakes)?;
        let plan = CampaignPlan::new(campaign.clone()).map_err(mistakes)?;
        if folder.exists() {
            bail!("{} exists\nhint: --out names another folder, or remove this one", folder.display());
        }
        let folder = CampaignFolder::create(&folder, &plan, &[], false, crate::VERSION)?;
        std::fs::write(&file, text)?;
        Ok(Build { path, folder, campaign, values: Vec::new(), disturbed: 0, bad: None })
    }

    /// Interval of the mean of the values so far.
    fn interval(&self) -> Option<Interval> {
        Interval::at(&self.values, LEVEL)
    }

    /// Ends of the interval of the mean; everything before the fewest runs.
    fn ends(&self) -> (f64, f64) {
        let known = self.interval().filter(|_| self.values.len() as u64 >= FEWEST).and_then(|interval| interval.ends());
        known.unwrap_or((f64::NEG_INFINITY, f64::INFINITY))
    }

    /// Runs until there are `count` runs.
    fn measure(&mut self, count: u64, metric: &str, stop: &Arc<AtomicBool>) -> Result<()> {
        let mistakes = |list: Vec<farlink_base::ConfigError>| anyhow!(list[0].to_string());
        let plan = CampaignPlan::new(self.campaign.clone().repeated(count)).map_err(mistakes)?;
        let runner = OnLab { program: std::env::current_exe()?, stop: stop.clone() };
        let options = CampaignOptions { jobs: 1, stop, version: crate::VERSION };
        let summary = run_cells(&plan, &self.folder, options, &runner, &mut |_| {})?;
        if let Some((_, why)) = summary.failed.first() {
            bail!("build {}: {why}", self.path.display());
        }
        if stop.load(Ordering::Relaxed) {
            bail!("stopped");
        }
        let records = self.folder.records(&plan)?;
        self.disturbed = records.iter().filter(|(_, record)| !record.disturbances.is_empty()).count();
        self.values.clear();
        for (_, record) in records {
            let value = record.numbers.metrics.get(metric).copied().flatten();
            self.values.push(value.with_context(|| {
                format!(
                    "a run with {} has no {metric}\nhint: add traffic for it, or choose another --metric",
                    self.path.display()
                )
            })?);
        }
        Ok(())
    }
}

/// Search for the first build that is like the bad one.
struct Bisection<'a> {
    metric: &'a str,
    most: u64,
    stop: Arc<AtomicBool>,
    /// Builds, the good one first, the bad one last.
    builds: Vec<Build>,
}

impl Bisection<'_> {
    fn find(mut self) -> Result<Vec<Build>> {
        let last = self.builds.len() - 1;
        let mut runs = FEWEST;
        let middle = loop {
            for number in [0, last] {
                self.measure(number, runs)?;
            }
            let (good, bad) = (self.builds[0].ends(), self.builds[last].ends());
            if good.1 < bad.0 || bad.1 < good.0 {
                let mean = |number: usize| self.builds[number].interval().map_or(0.0, |interval| interval.mean);
                break f64::midpoint(mean(0), mean(last));
            }
            self.more(&mut runs, "the good and the bad build cannot be told apart")?;
        };
        (self.builds[0].bad, self.builds[last].bad) = (Some(false), Some(true));
        let rises = self.builds[last].ends().0 > middle;
        let (mut good, mut bad) = (0, last);
        while bad - good > 1 {
            let number = usize::midpoint(good, bad);
            let mut runs = FEWEST;
            let is_bad = loop {
                self.measure(number, runs)?;
                let (least, most) = self.builds[number].ends();
                if least > middle || most < middle {
                    break (least > middle) == rises;
                }
                let build = self.builds[number].path.display().to_string();
                self.more(&mut runs, &format!("{build} can be told apart from neither the good nor the bad build"))?;
            };
            self.builds[number].bad = Some(is_bad);
            *(if is_bad { &mut bad } else { &mut good }) = number;
        }
        Ok(self.builds)
    }

    fn measure(&mut self, number: usize, runs: u64) -> Result<()> {
        let build = &mut self.builds[number];
        build.measure(runs, self.metric, &self.stop)?;
        let mean = build.interval().map_or(f64::NAN, |interval| interval.mean);
        eprintln!("{}: {} = {mean:.6} in the mean of {runs} runs", build.path.display(), self.metric);
        Ok(())
    }

    fn more(&self, runs: &mut u64, why: &str) -> Result<()> {
        if *runs == self.most {
            bail!(
                "{why} by {} in {runs} runs each\nhint: --most allows more runs; --metric takes another one",
                self.metric
            );
        }
        *runs += 1;
        Ok(())
    }
}

fn report(args: &BisectArgs, builds: &[Build]) -> Result<(), CliError> {
    let first = builds.iter().position(|build| build.bad == Some(true)).unwrap_or(builds.len() - 1);
    let looked_at = builds.iter().filter_map(|build| Some((build, build.bad?, build.interval()?)));
    if args.json {
        let row = |(build, bad, interval): (&Build, bool, Interval)| {
            json!({
                "build": build.path, "bad": bad, "mean": interval.mean, "half_width": interval.half,
                "runs": interval.count, "disturbed": build.disturbed,
            })
        };
        let builds_json: Vec<_> = looked_at.map(row).collect();
        println!("{:#}", json!({ "metric": args.metric, "first_bad": builds[first].path, "builds": builds_json }));
        return Ok(());
    }
    for (build, bad, interval) in looked_at {
        let word = if bad { "bad " } else { "good" };
        let half = interval.half.unwrap_or(f64::INFINITY);
        print!("{word}  {}  {:.6} ± {half:.6} of {} runs", build.path.display(), interval.mean, interval.count);
        println!("{}", if build.disturbed > 0 { format!(", {} disturbed", build.disturbed) } else { String::new() });
    }
    println!(
        "first bad build, by {}: {}\n  the one before it: {}",
        args.metric,
        builds[first].path.display(),
        builds[first - 1].path.display()
    );
    Ok(())
}
