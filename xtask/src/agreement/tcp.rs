//! The simulated TCP against the kernel's: goodput of one TCPCLv4 session by loss and round trip.

use super::{Pair, numbers, one_run, put_row};
use crate::tools;
use anyhow::{Result, anyhow};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Marks of the table in the README.
pub const MARKS: [&str; 2] = ["<!-- tcp:begin -->", "<!-- tcp:end -->"];
pub const HEAD: &str = "| control, round trip | no loss | 0.1 % | 1 % | 5 % |\n|---|---|---|---|---|\n";
const LOSSES: [&str; 4] = ["0", "0.1 %", "1 %", "5 %"];
const ROUND_TRIPS_MS: [u64; 4] = [2, 50, 300, 600];
/// Seeds of either world: losses are drawn anew in each.
const SIMULATED: u64 = 5;
const MEASURED: u64 = 3;
/// Measured at once: each needs a few hundredths of a processor.
const AT_ONCE: usize = 4;

/// Measures all losses and round trips with one congestion control and writes its rows.
pub fn run(farlink: &Path, readme: &Path, control: &str) -> Result<()> {
    let cells: Vec<(u64, &str)> =
        ROUND_TRIPS_MS.iter().flat_map(|ms| LOSSES.iter().map(move |loss| (*ms, *loss))).collect();
    let mut found: Vec<String> = Vec::new();
    for some in cells.chunks(AT_ONCE) {
        let results: Vec<Result<String>> = std::thread::scope(|scope| {
            let threads: Vec<_> = some.iter().map(|cell| scope.spawn(|| measure(farlink, control, *cell))).collect();
            let ended = |t: std::thread::ScopedJoinHandle<'_, Result<String>>| {
                t.join().unwrap_or_else(|_| Err(anyhow!("a measurement panicked")))
            };
            threads.into_iter().map(ended).collect()
        });
        for (cell, result) in some.iter().zip(results) {
            found.push(result?);
            eprintln!("{control}, {} ms, {}: {}", cell.0, cell.1, found.last().map_or("", String::as_str));
        }
        if found.len().is_multiple_of(LOSSES.len()) {
            let name = format!("{control}, {:>3} ms", some[0].0);
            let line = format!("| {name} | {} |", found[found.len() - LOSSES.len()..].join(" | "));
            let text = std::fs::read_to_string(readme)?;
            std::fs::write(readme, put_row(&text, MARKS, HEAD, &name, &line)?)?;
        }
    }
    Ok(())
}

/// Goodput in both worlds of one cell.
fn measure(farlink: &Path, control: &str, (round_trip_ms, loss): (u64, &str)) -> Result<String> {
    let place = format!("{control}-{round_trip_ms}-{}", LOSSES.iter().position(|l| *l == loss).unwrap_or(0));
    let folder = tools::target().join("agreement/tcp").join(place);
    std::fs::create_dir_all(&folder)?;
    let file = folder.join("scenario.toml");
    std::fs::write(&file, scenario(control, round_trip_ms, loss))?;
    let runs = |world: &str, seeds: u64| -> Result<Vec<PathBuf>> {
        (1..=seeds)
            .map(|seed| {
                let out = folder.join(format!("{world}-{seed}"));
                one_run(farlink, &file, world, seed, &out)?;
                Ok(out)
            })
            .collect()
    };
    let goodputs = |runs: Vec<PathBuf>| -> Result<Vec<f64>> {
        let text = tools::output(Command::new(farlink).arg("compare").args(&runs).arg("--json"))?;
        let all = numbers(&serde_json::from_str(&text)?);
        let values = all.get("goodput_bit_s").cloned().unwrap_or_default();
        Ok(values.into_iter().map(|v| v.unwrap_or(0.0)).collect())
    };
    let simulated = goodputs(runs("sim", SIMULATED)?)?;
    let measured = goodputs(runs("lab", MEASURED)?)?;
    let mean = measured.iter().sum::<f64>() / measured.len() as f64;
    let values: Vec<Option<f64>> = simulated.into_iter().chain([mean]).map(Some).collect();
    let pair = Pair::of(&values).ok_or_else(|| anyhow!("no goodput"))?;
    let far = if pair.difference().abs() > super::CLOSE_WITH_TCP_LOSS { " apart" } else { "" };
    Ok(format!("{}{far}", pair.cell(|v| format!("{:.3}", v / 1e6))))
}

/// Two nodes, one session, more bundles than it carries.
fn scenario(control: &str, round_trip_ms: u64, loss: &str) -> String {
    let loss = if loss == "0" { "0".to_string() } else { format!("\"{loss}\"") };
    format!(
        "name = \"tcp\"\nduration = \"20 s\"\nnode_defaults = {{ tcp = {{ congestion = \"{control}\" }} }}\n\
         [[node]]\nname = \"a\"\nid = \"ipn:1.0\"\n[[node]]\nname = \"b\"\nid = \"ipn:2.0\"\n\
         [[link]]\nname = \"path\"\nbetween = [\"a\", \"b\"]\nlayer = \"tcpclv4\"\nrate = \"20 Mbit/s\"\n\
         delay = \"{} us\"\nqueue = \"256 kB\"\n[link.forward]\nloss = {loss}\n\
         [[traffic]]\nfrom = \"a\"\nto = \"b\"\nwindow = 500\nbundles = {{ count = 6000, size = \"10 kB\" }}\n\
         [measure]\ntables = [\"bundles\", \"links\", \"events\"]\n",
        round_trip_ms * 500
    )
}
