//! `cargo xtask agreement`: runs the small scenarios of `campaigns/agreement/` in the simulator and on the testbed, and
//! writes the differences, as `farlink compare` gives them, into the README there.
//!
//! Simulated values are means over `--seeds` runs (default 5). The testbed runs once, or once per seed if the simulated
//! values vary with the seed or the first measurement deviates. `--tcp` always uses three seeds.

mod tcp;

use crate::{Chore, tools};
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The chore `cargo xtask agreement`.
pub const CHORE: Chore = Chore {
    name: "agreement",
    usage: "[--all] [--only NAME] [--seeds N] [--check] [--tcp CONTROL]",
    help: "Simulates and measures small scenarios and writes how far the worlds are apart.\n\
           \n\
           The rows of campaigns/agreement/README.md that were run are replaced, the others stay. --all runs the\n\
           slow ones, too (Mars in real time); --only one of them; --tcp (newreno, cubic, hybla) instead the table of the\n\
           simulated TCP against the kernel's, with --only MS those of one round trip; --check fails where a scenario is apart on an\n\
           undisturbed machine. Builds with `--profile quick` first; FARLINK_BIN names a ready binary instead.",
    run,
};

const MARKS: [&str; 2] = ["<!-- agreement:begin -->", "<!-- agreement:end -->"];
const HEAD: &str = "| scenario | delivered | mean latency | 95 % faster than | goodput | same order | verdict |\n\
                    |---|---|---|---|---|---|---|\n";

/// Scenarios that take many minutes; run only with `--all`.
const SLOW: [&str; 1] = ["mars"];
/// Largest relative difference that counts as agreement.
const CLOSE: f64 = 0.05;
/// Bound instead of [`CLOSE`] where single losses decide the next step of a congestion control.
const CLOSE_WITH_TCP_LOSS: f64 = 0.15;
/// Scenarios whose queue loses some 200 packets as slow start overruns it, in both worlds.
const TCP_LOSS: [&str; 2] = ["tcp", "tcp-loss"];
/// Metrics whose spread over seeds decides whether the testbed is measured with every seed.
const COMPARED: [&str; 3] = ["latency_s.mean", "latency_s.p95", "goodput_bit_s"];
/// Most runs of one measurement, which is repeated while the machine is disturbed.
const TRIES: u32 = 2;

fn run(arguments: &[String]) -> Result<()> {
    let mut arguments = tools::Arguments::new(arguments);
    let (all, check) = (arguments.flag("--all"), arguments.flag("--check"));
    let only = arguments.word("--only")?.map(str::to_string);
    let seeds = arguments.number("--seeds", 5)?.max(1);
    let tcp = arguments.word("--tcp")?.map(str::to_string);
    if let Some(extra) = arguments.rest()?.first() {
        bail!("`{extra}` is not an argument of agreement");
    }
    let campaign = tools::root().join("campaigns/agreement");
    let readme = campaign.join("README.md");
    if let Some(control) = tcp {
        return tcp::run(&tools::farlink()?, &readme, &control, only.as_deref());
    }
    // A scenario asked for by name runs even if it is slow.
    let mut names = scenarios(&campaign)?;
    match &only {
        Some(name) if !names.contains(name) => bail!("no scenario `{name}`; there are {}", names.join(", ")),
        Some(name) => names.retain(|n| n == name),
        None => names.retain(|n| all || !SLOW.contains(&n.as_str())),
    }
    let farlink = tools::farlink()?;
    let mut apart = Vec::new();
    for (number, name) in names.iter().enumerate() {
        eprint!("[{}/{}] {name}: ", number + 1, names.len());
        let (numbers, disturbances) = both_worlds(&farlink, &campaign.join(format!("{name}.toml")), name, seeds)?;
        let row = row(name, &numbers, &disturbances);
        eprintln!("{}", row.verdict);
        if row.apart {
            apart.push(name.as_str());
        }
        // Written after each scenario, so that an interrupted chore keeps its results.
        let text = std::fs::read_to_string(&readme).context("campaigns/agreement/README.md")?;
        std::fs::write(&readme, put_row(&text, MARKS, HEAD, name, &row.line)?)?;
    }
    if check && !apart.is_empty() {
        bail!("the worlds are apart in {}", apart.join(", "));
    }
    Ok(())
}

/// Names of the scenarios, sorted.
fn scenarios(campaign: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    // No list is kept: a new file in the folder is compared without further change.
    for entry in std::fs::read_dir(campaign)? {
        let path = entry?.path();
        if path.extension().is_some_and(|end| end == "toml") {
            names.extend(path.file_stem().map(|stem| stem.to_string_lossy().into_owned()));
        }
    }
    names.sort();
    Ok(names)
}

/// Values of all runs by metric.
type AgreementNumbers = BTreeMap<String, Values>;

/// Values of one metric: one for each simulation and one for each measurement.
#[derive(Clone, Debug, Default)]
struct Values {
    simulated: Vec<Option<f64>>,
    measured: Vec<Option<f64>>,
}

/// Metrics of both worlds, and the disturbances of the testbed.
fn both_worlds(farlink: &Path, scenario: &Path, name: &str, seeds: u64) -> Result<(AgreementNumbers, Vec<String>)> {
    let folder = tools::target().join("agreement").join(name);
    std::fs::create_dir_all(&folder)?;
    let mut runs: Vec<PathBuf> = Vec::new();
    eprint!("simulated");
    for seed in 1..=seeds {
        let out = folder.join(format!("sim-{seed}"));
        one_run(farlink, scenario, "sim", seed, &out)?;
        runs.push(out);
    }
    let simulated = runs.len();
    // Metrics that depend on the seed are measured with as many seeds as they are simulated with.
    let by_chance = compared(farlink, &runs, simulated)?.into_iter().any(|(metric, values)| {
        COMPARED.contains(&metric.as_str()) && Sample::of(&values.simulated).is_some_and(|s| s.spread() > CLOSE)
    });
    let mut disturbances = Vec::new();
    for seed in 1..=seeds {
        let out = folder.join(format!("lab-{seed}"));
        disturbances.extend(measure(farlink, scenario, seed, &out)?);
        runs.push(out);
        // Where all simulations agree, one measurement suffices. If it deviates, more are made: the scheduler of this
        // machine adds chance that no simulation has.
        if seed == 1 && !by_chance && !row(name, &compared(farlink, &runs, simulated)?, &disturbances).apart {
            break;
        }
    }
    eprint!(": ");
    Ok((compared(farlink, &runs, simulated)?, disturbances))
}

/// Measures once, and again while the machine was disturbed; returns the last disturbances.
fn measure(farlink: &Path, scenario: &Path, seed: u64, out: &Path) -> Result<Vec<String>> {
    let mut disturbances = Vec::new();
    for _ in 0..TRIES {
        eprint!(", measured");
        one_run(farlink, scenario, "lab", seed, out)?;
        disturbances = disturbances_of(out)?;
        if disturbances.is_empty() {
            break;
        }
        eprint!(" (disturbed)");
    }
    Ok(disturbances)
}

/// Metrics of these runs from `farlink compare`; the first `simulated` of them are simulations.
fn compared(farlink: &Path, runs: &[PathBuf], simulated: usize) -> Result<AgreementNumbers> {
    let text = tools::output(Command::new(farlink).arg("compare").args(runs).arg("--json"))?;
    Ok(numbers(&serde_json::from_str(&text)?, simulated))
}

fn one_run(farlink: &Path, scenario: &Path, world: &str, seed: u64, out: &Path) -> Result<()> {
    let mut command = Command::new(farlink);
    command.arg("run").arg(scenario).args(["--in", world, "--json", "--force", "--seed", &seed.to_string(), "--out"]);
    let output = command.arg(out).stdin(Stdio::null()).output()?;
    if !output.status.success() {
        bail!("`{}` failed: {}", tools::shown(&command), String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}

fn disturbances_of(run: &Path) -> Result<Vec<String>> {
    // The testbed's validity gate has judged the run already.
    let manifest: Value = serde_json::from_str(&std::fs::read_to_string(run.join("manifest.json"))?)?;
    let list = manifest["validity"]["disturbances"].as_array().cloned().unwrap_or_default();
    Ok(list.iter().filter_map(|d| d.as_str().map(str::to_string)).collect())
}

fn numbers(comparison: &Value, simulated: usize) -> AgreementNumbers {
    let values = |metric: &Value| {
        // The order of the values is that of the runs: simulations first.
        let mut list: Vec<Value> = metric["values"].as_array().cloned().unwrap_or_default();
        let measured = list.split_off(simulated.min(list.len()));
        let numbers = |list: Vec<Value>| list.iter().map(Value::as_f64).collect();
        Values { simulated: numbers(list), measured: numbers(measured) }
    };
    let metrics = comparison["metrics"].as_object().cloned().unwrap_or_default();
    metrics.iter().map(|(name, metric)| (name.clone(), values(metric))).collect()
}

/// Mean, variance and number of values.
#[derive(Clone, Copy, Debug)]
struct Sample {
    mean: f64,
    variance: f64,
    count: f64,
}

impl Sample {
    /// Statistics of the values; `None` if one run lacks the metric.
    fn of(values: &[Option<f64>]) -> Option<Sample> {
        let values: Vec<f64> = values.iter().copied().collect::<Option<_>>()?;
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let squares: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
        // The unbiased estimate; a single value has variance 0.
        (count > 0.0).then_some(Sample { mean, variance: squares / (count - 1.0).max(1.0), count })
    }
    /// Coefficient of variation: standard deviation over mean.
    fn spread(&self) -> f64 {
        if self.variance == 0.0 { 0.0 } else { self.variance.sqrt() / self.mean.abs() }
    }
}

/// Statistics of one metric in both worlds.
#[derive(Clone, Copy, Debug)]
struct WorldPair {
    simulated: Sample,
    measured: Sample,
}

impl WorldPair {
    fn of(values: &Values) -> Option<WorldPair> {
        Some(WorldPair { simulated: Sample::of(&values.simulated)?, measured: Sample::of(&values.measured)? })
    }
    fn difference(&self) -> f64 {
        let (simulated, measured) = (self.simulated.mean, self.measured.mean);
        if measured == simulated { 0.0 } else { (measured - simulated) / simulated.abs() }
    }
    /// Whether the difference of the means may be chance: at most twice its standard error.
    fn by_chance(&self) -> bool {
        // A single measurement has no variance of its own: it is taken to vary as the simulations do.
        let (s, m) = (self.simulated, self.measured);
        let measured = if m.count > 1.0 { m.variance } else { s.variance };
        (m.mean - s.mean).abs() <= 2.0 * (s.variance / s.count + measured / m.count).sqrt()
    }
    fn cell(&self, write: impl Fn(f64) -> String) -> String {
        let (simulated, measured) = (write(self.simulated.mean), write(self.measured.mean));
        format!("{simulated} / {measured} ({:+.1} %)", self.difference() * 100.0)
    }
}

struct AgreementRow {
    line: String,
    verdict: String,
    apart: bool,
}

fn row(name: &str, numbers: &AgreementNumbers, disturbances: &[String]) -> AgreementRow {
    let close = if TCP_LOSS.contains(&name) { CLOSE_WITH_TCP_LOSS } else { CLOSE };
    let pair = |metric: &str| numbers.get(metric).and_then(WorldPair::of);
    let cells = [
        ("delivered", pair("delivered"), (|v| format!("{v:.0}")) as fn(f64) -> String),
        ("mean latency", pair("latency_s.mean"), seconds),
        ("95 %", pair("latency_s.p95"), seconds),
        ("goodput", pair("goodput_bit_s"), |v| format!("{:.3} Mbit/s", v / 1e6)),
        ("order", pair("order"), |v| format!("{:.2} %", v * 100.0)),
    ];
    let (mut line, mut off, mut spread) = (format!("| {name} |"), Vec::new(), false);
    for (what, pair, write) in cells {
        // Bundles are counted, not measured.
        let close = if what == "delivered" { 0.0 } else { close };
        let _ = write!(line, " {} |", pair.map_or("-".into(), |p| p.cell(write)));
        match pair {
            Some(p) if p.difference().abs() <= close => {}
            Some(p) if p.by_chance() => spread = true,
            // A missing metric is a difference, too.
            _ => off.push(what),
        }
    }
    let mut verdict = match (off.is_empty(), spread) {
        (true, false) => format!("within {:.0} %", close * 100.0),
        (true, true) => "as far apart as its seeds".to_string(),
        (false, _) => format!("apart: {}", off.join(", ")),
    };
    if let Some(why) = disturbances.first() {
        let more =
            if disturbances.len() > 1 { format!(" (and {} more)", disturbances.len() - 1) } else { String::new() };
        let _ = write!(verdict, "; disturbed: {}{more}", why.trim_end_matches('.'));
    }
    let _ = write!(line, " {verdict} |");
    // A disturbed run proves neither agreement nor difference.
    AgreementRow { line, verdict, apart: !off.is_empty() && disturbances.is_empty() }
}

fn seconds(s: f64) -> String {
    if s < 1.0 { format!("{:.1} ms", s * 1e3) } else { format!("{s:.3} s") }
}

/// Replaces or adds one row of the table between two marks; rows are sorted by name.
fn put_row(text: &str, [begin, end]: [&str; 2], head: &str, name: &str, line: &str) -> Result<String> {
    let (Some(from), Some(to)) = (text.find(begin), text.find(end)) else {
        bail!("campaigns/agreement/README.md has no `{begin}` and `{end}`");
    };
    let named = |line: &str| line.split('|').nth(1).map(|cell| cell.trim().to_string());
    let title = head.lines().next().unwrap_or_default();
    let old = text[from..to].lines().filter(|line| line.starts_with("| ") && *line != title);
    let mut rows: BTreeMap<String, String> = old.filter_map(|line| Some((named(line)?, line.to_string()))).collect();
    rows.insert(name.to_string(), line.to_string());
    let table: String = rows.values().map(|row| format!("{row}\n")).collect();
    Ok(format!("{}{begin}\n{head}{table}{}", &text[..from], &text[to..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(mean: [f64; 3]) -> AgreementNumbers {
        let values = |[a, b, c]: [f64; 3]| Values { simulated: vec![Some(a), Some(b)], measured: vec![Some(c)] };
        BTreeMap::from([
            ("delivered".to_string(), values([10.0; 3])),
            ("latency_s.mean".to_string(), values(mean)),
            ("latency_s.p95".to_string(), values([2.0, 2.0, 2.06])),
            ("goodput_bit_s".to_string(), values([1e6; 3])),
            ("order".to_string(), values([1.0, 1.0, 0.999])),
        ])
    }

    #[test]
    fn row_shows_relative_differences() {
        let close = row("geo", &numbers([0.25, 0.25, 0.255]), &[]);
        assert!(
            close.line.starts_with("| geo | 10 / 10 (+0.0 %) | 250.0 ms / 255.0 ms (+2.0 %) | 2.000 s"),
            "{}",
            close.line
        );
        assert_eq!((close.verdict.as_str(), close.apart), ("within 5 %", false));
        let far = row("geo", &numbers([0.25, 0.25, 0.3]), &[]);
        assert_eq!((far.verdict.as_str(), far.apart), ("apart: mean latency", true));
        assert!(!row("geo", &numbers([0.2, 0.4, 0.25]), &[]).apart, "one of the seeds might have given it");
        assert!(!row("tcp-loss", &numbers([0.25, 0.25, 0.28]), &[]).apart, "12 % where losses decide");
        let mut lost = numbers([0.25; 3]);
        lost.insert("delivered".into(), Values { simulated: vec![Some(1000.0); 2], measured: vec![Some(999.0)] });
        assert_eq!(row("geo", &lost, &[]).verdict, "apart: delivered");
        let mut missing = numbers([0.25; 3]);
        missing.remove("order");
        assert!(row("geo", &missing, &[]).apart, "nothing to compare is not agreement");
    }

    #[test]
    fn several_measurements_use_their_mean() {
        let row_of = |measured: [f64; 4]| {
            let mut numbers = numbers([0.25; 3]);
            let simulated = [0.8, 1.0, 1.2, 1.0].map(|mbit| Some(mbit * 1e6)).to_vec();
            let measured = measured.map(|mbit| Some(mbit * 1e6)).to_vec();
            numbers.insert("goodput_bit_s".into(), Values { simulated, measured });
            row("lunar", &numbers, &[])
        };
        assert_eq!(row_of([0.7, 1.3, 0.9, 1.05]).verdict, "within 5 %");
        assert_eq!(row_of([0.7, 1.1, 0.9, 0.9]).verdict, "as far apart as its seeds");
        assert_eq!(row_of([0.70, 0.71, 0.69, 0.70]).verdict, "apart: goodput");
    }

    #[test]
    fn disturbed_run_proves_nothing() {
        let disturbed = row("geo", &numbers([0.25, 0.25, 0.3]), &["Node a: late.".into(), "Machine: busy.".into()]);
        assert!(!disturbed.apart && disturbed.verdict.ends_with("disturbed: Node a: late (and 1 more)"));
    }

    #[test]
    fn only_measured_row_changes() {
        let [begin, end] = MARKS;
        let text = format!("a\n{begin}\n{HEAD}| b | old |\n| a | old |\n{end}\nz\n");
        let fresh = put_row(&text, MARKS, HEAD, "b", "| b | new |").unwrap();
        assert_eq!(fresh, format!("a\n{begin}\n{HEAD}| a | old |\n| b | new |\n{end}\nz\n"));
        let more = put_row(&fresh, MARKS, HEAD, "c", "| c | new |").unwrap();
        assert!(more.contains("| b | new |\n| c | new |\n"));
        assert!(put_row("nothing", MARKS, HEAD, "b", "").is_err());
    }
}
