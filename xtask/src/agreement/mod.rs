//! `cargo xtask agreement`: simulates and measures the small scenarios of `campaigns/agreement/` and writes
//! how far the two worlds are apart into its README.
//!
//! Every number is one that `farlink compare` gives; the simulated one is the mean over five seeds.

mod tcp;

use crate::{Chore, tools};
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The chore.
pub const CHORE: Chore = Chore {
    name: "agreement",
    usage: "[--all] [--only NAME] [--seeds N] [--check] [--tcp CONTROL]",
    help: "Simulates and measures small scenarios and writes how far the worlds are apart.\n\
           \n\
           The rows of campaigns/agreement/README.md that were run are replaced, the others stay. --all runs the\n\
           slow ones, too (Mars in real time); --only one of them; --tcp (newreno, cubic, hybla) instead the table of the\n\
           simulated TCP against the kernel's; --check fails where a scenario is apart on an\n\
           undisturbed machine. Builds with `--profile quick` first; FARLINK_BIN names a ready binary instead.",
    run,
};

const MARKS: [&str; 2] = ["<!-- agreement:begin -->", "<!-- agreement:end -->"];
const HEAD: &str = "| scenario | delivered | mean latency | 95 % faster than | goodput | same order | verdict |\n\
                    |---|---|---|---|---|---|---|\n";

/// Scenarios that take many minutes.
const SLOW: [&str; 1] = ["mars"];
/// Largest difference that counts as the same.
const CLOSE: f64 = 0.05;
/// The same where single losses decide what a congestion control does next.
const CLOSE_WITH_TCP_LOSS: f64 = 0.15;
const TCP_LOSS: [&str; 1] = ["tcp-loss"];
/// Times a disturbed run is made before its numbers are taken.
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
    let mut names = scenarios(&campaign)?;
    match &only {
        Some(name) if !names.contains(name) => bail!("no scenario `{name}`; there are {}", names.join(", ")),
        Some(name) => names.retain(|n| n == name),
        None => names.retain(|n| all || !SLOW.contains(&n.as_str())),
    }
    let farlink = tools::farlink()?;
    let readme = campaign.join("README.md");
    if let Some(control) = tcp {
        return tcp::run(&farlink, &readme, &control);
    }
    let mut apart = Vec::new();
    for (number, name) in names.iter().enumerate() {
        eprint!("[{}/{}] {name}: ", number + 1, names.len());
        let (numbers, disturbances) = both_worlds(&farlink, &campaign.join(format!("{name}.toml")), name, seeds)?;
        let row = row(name, &numbers, &disturbances);
        eprintln!("{}", row.verdict);
        if row.apart {
            apart.push(name.as_str());
        }
        // After each scenario, so that an interrupted chore has written what it found.
        let text = std::fs::read_to_string(&readme).context("campaigns/agreement/README.md")?;
        std::fs::write(&readme, put_row(&text, MARKS, HEAD, name, &row.line)?)?;
    }
    if check && !apart.is_empty() {
        bail!("the worlds are apart in {}", apart.join(", "));
    }
    Ok(())
}

/// Names of the scenarios, in order.
fn scenarios(campaign: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(campaign)? {
        let path = entry?.path();
        if path.extension().is_some_and(|end| end == "toml") {
            names.extend(path.file_stem().map(|stem| stem.to_string_lossy().into_owned()));
        }
    }
    names.sort();
    Ok(names)
}

/// Metrics by name: one value for each seed, then the testbed's; and what disturbed the testbed.
type Numbers = BTreeMap<String, Vec<Option<f64>>>;

fn both_worlds(farlink: &Path, scenario: &Path, name: &str, seeds: u64) -> Result<(Numbers, Vec<String>)> {
    let folder = tools::target().join("agreement").join(name);
    std::fs::create_dir_all(&folder)?;
    let mut runs: Vec<PathBuf> = Vec::new();
    eprint!("simulated");
    for seed in 1..=seeds {
        let out = folder.join(format!("sim-{seed}"));
        one_run(farlink, scenario, "sim", seed, &out)?;
        runs.push(out);
    }
    let out = folder.join("lab");
    let mut disturbances = Vec::new();
    for _ in 0..TRIES {
        eprint!(", measured");
        one_run(farlink, scenario, "lab", 1, &out)?;
        disturbances = disturbances_of(&out)?;
        if disturbances.is_empty() {
            break;
        }
        eprint!(" (disturbed)");
    }
    eprint!(": ");
    runs.push(out);
    let text = tools::output(Command::new(farlink).arg("compare").args(&runs).arg("--json"))?;
    Ok((numbers(&serde_json::from_str(&text)?), disturbances))
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
    let manifest: Value = serde_json::from_str(&std::fs::read_to_string(run.join("manifest.json"))?)?;
    let list = manifest["validity"]["disturbances"].as_array().cloned().unwrap_or_default();
    Ok(list.iter().filter_map(|d| d.as_str().map(str::to_string)).collect())
}

fn numbers(comparison: &Value) -> Numbers {
    let values = |metric: &Value| {
        let list = metric["values"].as_array().cloned().unwrap_or_default();
        list.iter().map(Value::as_f64).collect()
    };
    let metrics = comparison["metrics"].as_object().cloned().unwrap_or_default();
    metrics.iter().map(|(name, metric)| (name.clone(), values(metric))).collect()
}

/// One metric in both worlds.
#[derive(Clone, Copy, Debug)]
struct Pair {
    simulated: f64,
    least: f64,
    most: f64,
    measured: f64,
}

impl Pair {
    /// Mean and extremes of the seeds, and the testbed's; nothing where one is missing.
    fn of(values: &[Option<f64>]) -> Option<Pair> {
        let (measured, seeds) = values.split_last()?;
        let seeds: Vec<f64> = seeds.iter().copied().collect::<Option<_>>()?;
        Some(Pair {
            simulated: seeds.iter().sum::<f64>() / seeds.len() as f64,
            least: seeds.iter().copied().fold(f64::INFINITY, f64::min),
            most: seeds.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            measured: (*measured)?,
        })
    }
    fn difference(&self) -> f64 {
        if self.measured == self.simulated { 0.0 } else { (self.measured - self.simulated) / self.simulated.abs() }
    }
    /// Whether the testbed gave what one of the seeds gave, or less extreme, that close.
    fn among_seeds(&self, close: f64) -> bool {
        (self.least * (1.0 - close)..=self.most * (1.0 + close)).contains(&self.measured)
    }
    fn cell(&self, write: impl Fn(f64) -> String) -> String {
        format!("{} / {} ({:+.1} %)", write(self.simulated), write(self.measured), self.difference() * 100.0)
    }
}

struct Row {
    line: String,
    verdict: String,
    apart: bool,
}

fn row(name: &str, numbers: &Numbers, disturbances: &[String]) -> Row {
    let close = if TCP_LOSS.contains(&name) { CLOSE_WITH_TCP_LOSS } else { CLOSE };
    let pair = |metric: &str| numbers.get(metric).and_then(|values| Pair::of(values));
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
            Some(p) if p.among_seeds(close) => spread = true,
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
    Row { line, verdict, apart: !off.is_empty() && disturbances.is_empty() }
}

fn seconds(s: f64) -> String {
    if s < 1.0 { format!("{:.1} ms", s * 1e3) } else { format!("{s:.3} s") }
}

/// The text with one row of the table between two marks replaced, or added in its place by name.
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

    fn numbers(mean: [f64; 3]) -> Numbers {
        let values = |v: [f64; 3]| v.map(Some).to_vec();
        BTreeMap::from([
            ("delivered".to_string(), values([10.0; 3])),
            ("latency_s.mean".to_string(), values(mean)),
            ("latency_s.p95".to_string(), values([2.0, 2.0, 2.06])),
            ("goodput_bit_s".to_string(), values([1e6; 3])),
            ("order".to_string(), values([1.0, 1.0, 0.999])),
        ])
    }

    #[test]
    fn a_row_says_how_far_apart_the_worlds_are() {
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
        lost.insert("delivered".into(), vec![Some(1000.0), Some(1000.0), Some(999.0)]);
        assert_eq!(row("geo", &lost, &[]).verdict, "apart: delivered");
        let mut missing = numbers([0.25; 3]);
        missing.remove("order");
        assert!(row("geo", &missing, &[]).apart, "nothing to compare is not agreement");
    }

    #[test]
    fn a_disturbed_run_says_so_and_proves_nothing() {
        let disturbed = row("geo", &numbers([0.25, 0.25, 0.3]), &["Node a: late.".into(), "Machine: busy.".into()]);
        assert!(!disturbed.apart && disturbed.verdict.ends_with("disturbed: Node a: late (and 1 more)"));
    }

    #[test]
    fn only_the_row_that_was_run_changes() {
        let [begin, end] = MARKS;
        let text = format!("a\n{begin}\n{HEAD}| b | old |\n| a | old |\n{end}\nz\n");
        let fresh = put_row(&text, MARKS, HEAD, "b", "| b | new |").unwrap();
        assert_eq!(fresh, format!("a\n{begin}\n{HEAD}| a | old |\n| b | new |\n{end}\nz\n"));
        let more = put_row(&fresh, MARKS, HEAD, "c", "| c | new |").unwrap();
        assert!(more.contains("| b | new |\n| c | new |\n"));
        assert!(put_row("nothing", MARKS, HEAD, "b", "").is_err());
    }
}
