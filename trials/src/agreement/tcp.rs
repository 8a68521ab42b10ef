//! Goodput of one TCPCLv4 session by loss and round-trip time: the simulated TCP against the kernel's.

use super::{WorldPair, compared, disturbances_of, one_run, put_row};
use crate::tools;
use anyhow::{Result, anyhow, bail};
use std::path::{Path, PathBuf};

pub const MARKS: [&str; 2] = ["<!-- tcp:begin -->", "<!-- tcp:end -->"];
pub const HEAD: &str = "| control, round trip | no loss | 0.1 % | 1 % | 5 % |\n|---|---|---|---|---|\n";
const LOSSES: [&str; 4] = ["0", "0.1 %", "1 %", "5 %"];
const ROUND_TRIPS_MS: [u64; 4] = [2, 50, 300, 600];
/// Seeds 1 to 3 in either world, so that the same packets are lost.
const SEEDS: u64 = 3;
/// Measurements at once. Each needs only a few hundredths of a processor, but more of them would not be woken in time.
const AT_ONCE: usize = 2;

/// Measures all losses with one congestion control, for all round trips or only `only`, and writes its rows.
pub fn run(farlink: &Path, readme: &Path, control: &str, only: Option<&str>) -> Result<()> {
    let round_trips = ROUND_TRIPS_MS.iter().filter(|ms| only.is_none_or(|only| only == ms.to_string()));
    let cells: Vec<(u64, &str)> = round_trips.flat_map(|ms| LOSSES.iter().map(move |loss| (*ms, *loss))).collect();
    if cells.is_empty() {
        bail!("no such round trip; there are {ROUND_TRIPS_MS:?} ms");
    }
    let mut found: Vec<String> = Vec::new();
    // Simulations run first: computing would disturb the measurements.
    eprintln!("{control}: simulating");
    let simulated: Vec<Vec<PathBuf>> =
        cells.iter().map(|cell| runs(farlink, control, *cell, "sim")).collect::<Result<_>>()?;
    let cells: Vec<_> = cells.into_iter().zip(simulated).collect();
    for some in cells.chunks(AT_ONCE) {
        let results: Vec<Result<String>> = std::thread::scope(|scope| {
            let threads: Vec<_> =
                some.iter().map(|(cell, runs)| scope.spawn(|| measure(farlink, control, *cell, runs))).collect();
            let ended = |t: std::thread::ScopedJoinHandle<'_, Result<String>>| {
                t.join().unwrap_or_else(|_| Err(anyhow!("a measurement panicked")))
            };
            threads.into_iter().map(ended).collect()
        });
        for ((cell, _), result) in some.iter().zip(results) {
            found.push(result?);
            eprintln!("{control}, {} ms, {}: {}", cell.0, cell.1, found.last().map_or("", String::as_str));
        }
        // A row is complete when all its losses are measured.
        if found.len().is_multiple_of(LOSSES.len()) {
            let name = format!("{control}, {:>3} ms", some[0].0.0);
            let line = format!("| {name} | {} |", found[found.len() - LOSSES.len()..].join(" | "));
            let text = std::fs::read_to_string(readme)?;
            std::fs::write(readme, put_row(&text, MARKS, HEAD, &name, &line)?)?;
        }
    }
    Ok(())
}

fn runs(farlink: &Path, control: &str, (round_trip_ms, loss): (u64, &str), world: &str) -> Result<Vec<PathBuf>> {
    let place = format!("{control}-{round_trip_ms}-{}", LOSSES.iter().position(|l| *l == loss).unwrap_or(0));
    let folder = tools::target().join("agreement/tcp").join(place);
    std::fs::create_dir_all(&folder)?;
    let file = folder.join("scenario.toml");
    std::fs::write(&file, scenario(control, round_trip_ms, loss))?;
    let out = |seed: u64| folder.join(format!("{world}-{seed}"));
    // The folder's name has the position of the loss in the list, since `%` and spaces do not belong in it.
    (1..=SEEDS).try_for_each(|seed| one_run(farlink, &file, world, seed, &out(seed)))?;
    Ok((1..=SEEDS).map(out).collect())
}

fn measure(farlink: &Path, control: &str, cell: (u64, &str), simulated: &[PathBuf]) -> Result<String> {
    let measured = runs(farlink, control, cell, "lab")?;
    let disturbed = measured.iter().map(|run| disturbances_of(run)).collect::<Result<Vec<_>>>()?.concat();
    let all = [simulated, &measured].concat();
    let numbers = compared(farlink, &all, SEEDS as usize)?;
    let pair = numbers.get("goodput_bit_s").and_then(WorldPair::of).ok_or_else(|| anyhow!("no goodput"))?;
    let far = match pair.difference().abs() > super::CLOSE_WITH_TCP_LOSS {
        true if disturbed.is_empty() => " apart",
        true => " apart, disturbed",
        false => "",
    };
    Ok(format!("{}{far}", pair.cell(|v| format!("{:.3}", v / 1e6))))
}

fn scenario(control: &str, round_trip_ms: u64, loss: &str) -> String {
    // Half of the round trip each way; 6,000 bundles keep the session busy for all 20 s.
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
