//! Farlink's own world compared with The ONE's, which `one/` reproduces to the byte: equal parameters of people, radios
//! and messages, several seeds each. Where an exact permutation test rejects equality, the models differ.

use super::cells::{Cell, scenario};
use crate::tools;
use anyhow::{Context, Result};
use serde_json::Value;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

/// Significance level of the test.
const LEVEL: f64 = 0.05;

/// Settings of The ONE for a scenario of the table.
pub fn settings(cell: &Cell) -> String {
    let Cell { nodes, range, duration_s, store, interval: [least, most], .. } = cell;
    // 312,500 bytes/s are 2.5 Mbit/s; a TTL of 720 minutes is 12 h.
    let side_m = cell.side_m();
    let router = if cell.router == "epidemic" { "EpidemicRouter" } else { "SprayAndWaitRouter" };
    format!(
        "Scenario.name = {}\nScenario.simulateConnections = true\nScenario.updateInterval = 0.1\n\
         Scenario.endTime = {duration_s}\nScenario.nrofHostGroups = 1\n\
         radio.type = SimpleBroadcastInterface\nradio.transmitSpeed = 312500\nradio.transmitRange = {range}\n\
         Group.groupID = n\nGroup1.groupID = n\nGroup.nrofHosts = {nodes}\nGroup.nrofInterfaces = 1\n\
         Group.interface1 = radio\nGroup.movementModel = RandomWaypoint\nGroup.router = {router}\n\
         Group.bufferSize = {store}k\nGroup.waitTime = 0, 120\nGroup.speed = 0.5, 1.5\nGroup.msgTtl = 720\n\
         Events.nrof = 1\nEvents1.class = MessageEventGenerator\nEvents1.interval = {least},{most}\n\
         Events1.size = 50k,100k\nEvents1.hosts = 0,{nodes}\nEvents1.prefix = M\nMovementModel.rngSeed = 1\n\
         MovementModel.worldSize = {side_m:.0}, {side_m:.0}\nMovementModel.warmup = 0\n\
         SprayAndWaitRouter.nrofCopies = 10\nSprayAndWaitRouter.binaryMode = true\n\
         Optimization.cellSizeMult = 1\nOptimization.randomizeUpdateOrder = true\n\
         Report.nrofReports = 1\nReport.warmup = 0\nReport.reportDir = reports\nReport.report1 = MessageStatsReport\n",
        cell.name
    )
}

/// Compared figures of one run.
struct Figures([f64; 3]);
const NAMES: [&str; 3] = ["delivered, %", "latency, s", "overhead"];

impl Figures {
    fn of(measured: &Value) -> Figures {
        let number = |key: &str| measured[key].as_f64().unwrap_or(f64::NAN);
        let (created, delivered, arrived) = (number("created"), number("delivered"), number("arrived"));
        // Overhead as MessageStatsReport defines it: relayed copies that were no deliveries, divided by the deliveries.
        Figures([100.0 * delivered / created, number("latency_s"), (arrived - delivered) / delivered])
    }
}

/// Runs a scenario in both worlds with `seeds` seeds and returns one row for each figure.
pub fn compare(program: &Path, folder: &Path, cell: &Cell, seeds: u64) -> Result<String> {
    let (ours, theirs) = (folder.join(format!("{}.toml", cell.name)), folder.join(format!("{}.txt", cell.name)));
    std::fs::write(&ours, scenario(cell))?;
    std::fs::write(&theirs, settings(cell))?;
    let mut all = [Vec::new(), Vec::new()];
    let mut cpu = [0.0; 2];
    for seed in 1..=seeds {
        for (world, (flag, file)) in [("--one", &theirs), ("--seed", &ours)].into_iter().enumerate() {
            let text = tools::output(Command::new(program).args([flag, &seed.to_string()]).arg(file))?;
            let measured: Value = serde_json::from_str(&text).with_context(|| format!("what it said: {text}"))?;
            // The cost is reported without a test of significance, so its mean is enough.
            cpu[world] += measured["run_s"].as_f64().unwrap_or(f64::NAN) / seeds as f64;
            all[world].push(Figures::of(&measured));
        }
    }
    let mut rows = String::new();
    for (place, name) in NAMES.into_iter().enumerate() {
        let of = |world: usize| all[world].iter().map(|figures| figures.0[place]).collect::<Vec<f64>>();
        let _ = writeln!(rows, "{}", row(cell.name, name, &of(0), &of(1)));
    }
    let _ = write!(rows, "| {} | processor, s | {:.2} | {:.2} | | |", cell.name, cpu[0], cpu[1]);
    Ok(rows)
}

/// Header of the comparison table.
pub const HEAD: &str =
    "| simulation | | The ONE's world (`--mode exact`) | Farlink's | p, two-sided | |\n|---|---|---|---|---|---|";

fn row(cell: &str, name: &str, exact: &[f64], fast: &[f64]) -> String {
    let p = told_apart(exact, fast);
    let verdict = if p < LEVEL { "different model" } else { "not told apart" };
    format!("| {cell} | {name} | {} | {} | {p:.3} | {verdict} |", spread(exact), spread(fast))
}

/// Mean, minimum and maximum.
fn spread(values: &[f64]) -> String {
    let (least, most) = values.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(l, m), v| (l.min(*v), m.max(*v)));
    format!("{:.1} ({least:.1} to {most:.1})", mean(values))
}
fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn told_apart(one: &[f64], other: &[f64]) -> f64 {
    // Fisher's exact permutation test, two-sided: the share of all splits into two lists of these lengths whose means
    // are at least as far apart. They are picked from all subsets, 2^12 for 12 values together.
    let all: Vec<f64> = one.iter().chain(other).copied().collect();
    let apart = |split: u32| {
        let of = |side: bool| {
            let own = all.iter().enumerate().filter(|(place, _)| (split >> place & 1 == 1) == side);
            mean(&own.map(|(_, value)| *value).collect::<Vec<f64>>())
        };
        (of(true) - of(false)).abs()
    };
    let found = apart((1 << one.len()) - 1);
    let splits = (0..1u32 << all.len()).filter(|split| split.count_ones() as usize == one.len());
    // Summing in another order changes the last digits, hence the tolerance.
    let (total, beyond) = splits.fold((0u32, 0u32), |(total, beyond), split| {
        (total + 1, beyond + u32::from(apart(split) >= found * (1.0 - 1e-12)))
    });
    f64::from(beyond) / f64::from(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permutation_test_counts_splits() {
        // Two of the 20 splits into three and three are this far apart: this one and its mirror image.
        assert!((told_apart(&[1.0, 2.0, 3.0], &[11.0, 12.0, 13.0]) - 0.1).abs() < 1e-12);
        assert_eq!(told_apart(&[1.0, 2.0, 3.0], &[3.0, 2.0, 1.0]), 1.0);
        // Two of 252 splits.
        let far = told_apart(&[1.0, 2.0, 3.0, 4.0, 5.0], &[6.0, 7.0, 8.0, 9.0, 10.0]);
        assert!((far - 2.0 / 252.0).abs() < 1e-12);
        let text = row("a", "b", &[1.0, 2.0, 3.0, 4.0, 5.0], &[6.0, 7.0, 8.0, 9.0, 10.0]);
        assert_eq!(text, "| a | b | 3.0 (1.0 to 5.0) | 8.0 (6.0 to 10.0) | 0.008 | different model |");
        assert!(row("a", "b", &[1.0, 2.0], &[2.0, 1.0]).ends_with("not told apart |"));
    }

    #[test]
    fn figures_match_the_one() {
        let measured = serde_json::json!({"created": 4, "delivered": 2, "arrived": 10, "latency_s": 7.5});
        assert_eq!(Figures::of(&measured).0, [50.0, 7.5, 4.0]);
    }
}
