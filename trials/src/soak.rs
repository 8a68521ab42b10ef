//! `cargo xtask soak`: a durable node carries bundles for half an hour and must not grow.
//!
//! Nodes and applications are those of `cargo xtask attack`, without an attacker: bundles both ways, over TCPCLv4 to
//! one neighbour and over LTP to the other.

use crate::attack::honest::{Account, Honest, NAMES, PAYLOAD};
use crate::attack::raise_descriptor_limit;
use crate::attack::setting::Setting;
use crate::attack::stage::{Abilities, Stage};
use crate::harness::Node;
use crate::{Chore, tools};
use anyhow::{Result, bail};
use std::path::Path;
use std::time::{Duration, Instant};

/// The chore `cargo xtask soak`.
pub const CHORE: Chore = Chore {
    name: "soak",
    usage: "[--minutes N] [--rate N]",
    help: "Bundles both ways over TCPCLv4 and LTP at 80 % of the maximum for 32 minutes: nothing may grow.\n\
           \n\
           The maximum is measured first; --rate gives the bundles per second of each of the four directions \
           instead. Memory, descriptors and files of the store are read every 10 s (every second of a soak \
           below five minutes). A hundred times nothing is sent for a moment, and what the nodes have then is \
           what the slopes are of, that of the bytes allocated and, for comparison, of those resident, where what \
           the allocator keeps counts, too. The first quarter, five minutes at most, is left out. Builds with \
           `--profile quick` first; FARLINK_BIN names a ready binary instead. --seconds N makes it shorter than a \
           minute. Exit 1 beyond 1 MiB an hour, with a descriptor gained, files of the store kept or a bundle \
           lost; a soak below five minutes tells the slope and does not judge it.",
    run,
};

/// Growth of a node allowed, MiB per hour.
const SLOPE_MAX: f64 = 1.0;
/// Shortest soak whose slope is judged.
const JUDGED_FROM: Duration = Duration::from_secs(300);
/// File bytes of an empty store: the file being written, of 64 MiB, one being cleaned, and four kept for reuse.
const EMPTY_STORE_MAX: u64 = 384 << 20;
/// Longest wait for acknowledged bundles to arrive, and for files and descriptors to be released.
const SETTLE_MAX: Duration = Duration::from_secs(60);

/// Longest time in which the highest rates are measured.
const MEASURED_MAX: Duration = Duration::from_secs(20);

/// Number of pauses in which nodes are measured.
const RESTS: u32 = 100;
/// Measurements in each pause.
const LOOKS: u32 = 4;
/// Silence before each measurement: deletions wait that long to be committed together.
const REST: Duration = Duration::from_millis(300);

/// State of a node at one moment.
struct Sample {
    at: Duration,
    /// Resident memory, bytes.
    memory: u64,
    /// Memory during a pause of the traffic; `None` between pauses.
    at_rest: Option<Rest>,
    descriptors: usize,
    stored: u64,
}

/// Memory of a node while no bundle is in transit.
#[derive(Clone)]
struct Rest {
    /// Allocated bytes.
    in_use: u64,
    /// Resident bytes.
    resident: u64,
    /// Use of each counted share of the node's memory budget.
    shares: Vec<(String, u64)>,
}

fn run(arguments: &[String]) -> Result<()> {
    let mut arguments = tools::Arguments::new(arguments);
    let minutes = arguments.number("--minutes", 32)?;
    let seconds = arguments.number("--seconds", 60 * minutes)?.max(4);
    let rate = arguments.number("--rate", 0)?;
    if let Some(word) = arguments.rest()?.first() {
        bail!("`{word}` is not an argument of soak");
    }
    raise_descriptor_limit();
    let binary = std::path::absolute(tools::farlink()?)?;
    let dir = std::env::temp_dir().join(format!("farlink-soak-{}", std::process::id()));
    std::fs::create_dir_all(&dir)?;
    let abilities = Abilities::of(&binary, &dir)?;
    let lasts = Duration::from_secs(seconds);
    let rates = match rate {
        // 80 %: below the maximum, so that queues do not grow by overload.
        0 => maximum(&binary, &dir, abilities, (lasts / 10).min(MEASURED_MAX))?.map(|most| (most * 8 / 10).max(1)),
        given => [given; 4],
    };
    println!("soak: {seconds} s, bundles of {PAYLOAD} B a second: {}", shown(rates));
    let complaints = soak(&binary, &dir, abilities, rates, lasts)?;
    if complaints.is_empty() {
        std::fs::remove_dir_all(&dir)?;
        return Ok(());
    }
    bail!("{}\nconfigurations and logs are in {}", complaints.join("\n"), dir.display())
}

/// Rates by direction, for people.
fn shown(rates: [u64; 4]) -> String {
    let named = NAMES.iter().zip(rates).map(|(name, rate)| format!("{rate} {name}"));
    named.collect::<Vec<_>>().join(", ")
}

/// Highest rate of each direction while all are in use, bundles per second.
fn maximum(binary: &Path, dir: &Path, abilities: Abilities, lasts: Duration) -> Result<[u64; 4]> {
    let mut stage = Stage::start(binary, &dir.join("maximum"), abilities, Setting::of("soak", 1))?;
    let honest = Honest::start(&stage, [0; 4]);
    let warm = honest.wait_flowing();
    let before = honest.delivered();
    std::thread::sleep(lasts);
    let after = honest.delivered();
    honest.drain(SETTLE_MAX);
    let ended = stage.end();
    honest.end();
    warm.and(ended)?;
    let mut rates = [0; 4];
    for ((rate, after), before) in rates.iter_mut().zip(after).zip(before) {
        *rate = ((after - before) as f64 / lasts.as_secs_f64()) as u64;
    }
    println!("maximum, bundles a second: {}", shown(rates));
    Ok(rates)
}

/// Runs the soak; returns the complaints.
fn soak(binary: &Path, dir: &Path, abilities: Abilities, rates: [u64; 4], lasts: Duration) -> Result<Vec<String>> {
    let mut stage = Stage::start(binary, &dir.join("soak"), abilities, Setting::of("soak", 1))?;
    let honest = Honest::start(&stage, rates);
    let samples = honest.wait_flowing().and_then(|()| watch(&mut stage, &honest, lasts));
    let account = honest.drain(SETTLE_MAX);
    let complaints = samples.map(|samples| judge(&stage, &samples, account, lasts));
    let ended = stage.end();
    honest.end();
    ended?;
    complaints
}

/// Collects samples of each node for `lasts`.
fn watch(stage: &mut Stage, honest: &Honest, lasts: Duration) -> Result<Vec<Vec<Sample>>> {
    let every = Duration::from_secs(if lasts < JUDGED_FROM { 1 } else { 10 });
    let begun = Instant::now();
    let mut samples: Vec<Vec<Sample>> = stage.nodes.iter().map(|_| Vec::new()).collect();
    let (mut told, mut delivered) = (Instant::now(), honest.delivered());
    let (rest_every, mut rested) = (lasts / RESTS, Instant::now());
    while begun.elapsed() < lasts {
        std::thread::sleep(every.min(lasts.saturating_sub(begun.elapsed())));
        let mut at_rest = vec![None; stage.nodes.len()];
        if rested.elapsed() >= rest_every {
            rested = Instant::now();
            at_rest = honest.pause(SETTLE_MAX, || least_at_rest(&stage.nodes));
        }
        for ((node, samples), at_rest) in stage.nodes.iter_mut().zip(&mut samples).zip(at_rest) {
            if !node.alive() {
                bail!("node {} ended:\n{}", node.name(), node.log_tail());
            }
            // Steps between two pauses show which share grew.
            let before = samples.iter().rev().find_map(|sample| sample.at_rest.as_ref());
            if let Some(step) = before.zip(at_rest.as_ref()).and_then(|(before, after)| step(before, after)) {
                println!("  {:>5.0} s: node {}, {step}", begun.elapsed().as_secs_f64(), node.name());
            }
            samples.push(Sample { at_rest, ..sample(node, begun.elapsed()) });
        }
        if told.elapsed() >= Duration::from_secs(60) {
            let now = honest.delivered();
            let rate = now.iter().sum::<u64>() - delivered.iter().sum::<u64>();
            let last_rest = |of: &Vec<Sample>| of.iter().rev().find_map(|sample| Some(sample.at_rest.as_ref()?.in_use));
            let memory: Vec<String> =
                samples.iter().filter_map(last_rest).map(|memory| format!("{:.2}", mebibytes(memory))).collect();
            println!(
                "  {:>5.0} s: {:.0} bundles/s, at rest {} MiB",
                begun.elapsed().as_secs_f64(),
                rate as f64 / told.elapsed().as_secs_f64(),
                memory.join(", ")
            );
            // A soak without traffic would pass without proving anything.
            if now == delivered {
                bail!("nothing was delivered for a minute");
            }
            (told, delivered) = (Instant::now(), now);
        }
    }
    Ok(samples)
}

fn sample(node: &Node, at: Duration) -> Sample {
    Sample { at, memory: node.memory(), at_rest: None, descriptors: node.descriptors(), stored: node.stored() }
}

/// Memory of each node during a pause: the minimum of several measurements, since buffers are released gradually.
fn least_at_rest(nodes: &[Node]) -> Vec<Option<Rest>> {
    let mut least: Vec<Option<Rest>> = vec![None; nodes.len()];
    for _ in 0..LOOKS {
        std::thread::sleep(REST);
        for (node, least) in nodes.iter().zip(&mut least) {
            *least = [least.take(), at_rest_now(node)].into_iter().flatten().min_by_key(|rest| rest.in_use);
        }
    }
    least
}

/// Memory of a node now, from its status.
fn at_rest_now(node: &Node) -> Option<Rest> {
    let status: serde_json::Value = serde_json::from_str(&node.ask("status", SETTLE_MAX).ok()??.1).ok()?;
    let share = |share: &serde_json::Value| Some((share["name"].as_str()?.to_owned(), share["used"].as_u64()?));
    let shares = status["memory"]["shares"].as_array().map_or(&[][..], Vec::as_slice);
    Some(Rest {
        in_use: status["memory"]["in_use"].as_u64()?,
        resident: node.memory(),
        shares: shares.iter().filter_map(share).collect(),
    })
}

/// Message about a step of at least 0.5 MiB between two pauses, with the shares that changed.
fn step(before: &Rest, after: &Rest) -> Option<String> {
    if before.in_use.abs_diff(after.in_use) < 1 << 19 {
        return None;
    }
    let changed: Vec<String> = (before.shares.iter().zip(&after.shares))
        // Shares that changed by less than 64 KiB are noise.
        .filter(|((_, before), (_, after))| before.abs_diff(*after) >= 1 << 16)
        .map(|((name, before), (_, after))| format!("{name} {:.2} to {:.2}", mebibytes(*before), mebibytes(*after)))
        .collect();
    let by = if changed.is_empty() { "no share that is counted".into() } else { changed.join(", ") };
    Some(format!("{:.2} to {:.2} MiB at rest: {by}", mebibytes(before.in_use), mebibytes(after.in_use)))
}

fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

fn judge(stage: &Stage, samples: &[Vec<Sample>], account: Account, lasts: Duration) -> Vec<String> {
    let mut complaints = Vec::new();
    // Caches and pools fill in the first quarter, five minutes at most.
    let warm = (lasts / 4).min(Duration::from_secs(300));
    println!(
        "\n{:<12}{:>14}{:>10}{:>14}{:>14}{:>14}{:>14}{:>14}",
        "node", "MiB at rest", "most", "MiB an hour", "resident", "descriptors", "most stored", "stored after"
    );
    for (node, samples) in stage.nodes.iter().zip(samples) {
        let steady: Vec<&Sample> = samples.iter().filter(|sample| sample.at >= warm).collect();
        let Some(first) = steady.first() else { continue };
        let of = |which: fn(&Rest) -> u64| -> Vec<(Duration, u64)> {
            steady.iter().filter_map(|s| Some((s.at, which(s.at_rest.as_ref()?)))).collect()
        };
        let (allocated, resident) = (of(|at_rest| at_rest.in_use), of(|at_rest| at_rest.resident));
        let last = allocated.last().map_or(0, |(_, memory)| *memory);
        let (slope, resident) = (slope(&allocated), slope(&resident));
        let most = samples.iter().map(|sample| sample.memory).max().unwrap_or(0);
        let most_stored = samples.iter().map(|sample| sample.stored).max().unwrap_or(0);
        let settled = settle(node, first.descriptors);
        let gained = settled.descriptors as i64 - first.descriptors as i64;
        println!(
            "{:<12}{:>14.1}{:>10.1}{slope:>14.2}{resident:>14.2}{gained:>+14}{:>10.1} MiB{:>10.1} MiB",
            node.name(),
            mebibytes(last),
            mebibytes(most),
            mebibytes(most_stored),
            mebibytes(settled.stored),
        );
        if lasts >= JUDGED_FROM && allocated.is_empty() {
            complaints.push(format!("node {} did not say what it has", node.name()));
        }
        if lasts >= JUDGED_FROM && slope > SLOPE_MAX {
            complaints.push(format!("node {} grows by {slope:.2} MiB an hour", node.name()));
        }
        if gained > 0 {
            complaints.push(format!("node {} gained {gained} descriptors", node.name()));
        }
        if settled.stored > EMPTY_STORE_MAX {
            let kept = mebibytes(settled.stored);
            complaints.push(format!("node {} keeps {kept:.1} MiB of files for nothing", node.name()));
        }
    }
    let status = stage.nodes[0].ask("status", SETTLE_MAX).ok().flatten().map(|(_, text)| text).unwrap_or_default();
    let status: serde_json::Value = serde_json::from_str(&status).unwrap_or_default();
    println!("the durable node says it holds {} bundles of {} bytes", status["bundles"], status["bytes"]);
    if status["bundles"] != 0 {
        complaints.push(format!("the durable node holds {} bundles that all arrived", status["bundles"]));
    }
    println!(
        "{} bundles acknowledged, {} lost, {} refused, {} corrupt",
        account.acknowledged, account.missing, account.refused, account.corrupt
    );
    if account.missing + account.corrupt > 0 {
        complaints.push(format!("{} bundles lost, {} corrupt", account.missing, account.corrupt));
    }
    complaints
}

/// Waits until descriptors and files of delivered bundles are released, at most [`SETTLE_MAX`].
fn settle(node: &Node, descriptors: usize) -> Sample {
    let begun = Instant::now();
    loop {
        let now = sample(node, begun.elapsed());
        if (now.descriptors <= descriptors && now.stored <= EMPTY_STORE_MAX) || now.at > SETTLE_MAX {
            return now;
        }
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// Slope of a least-squares line through memory, MiB per hour.
fn slope(samples: &[(Duration, u64)]) -> f64 {
    let count = samples.len() as f64;
    let hours = |at: Duration| at.as_secs_f64() / 3600.0;
    let mean_at = samples.iter().map(|(at, _)| hours(*at)).sum::<f64>() / count;
    let mean = samples.iter().map(|(_, memory)| mebibytes(*memory)).sum::<f64>() / count;
    let (mut above, mut below) = (0.0, 0.0);
    for (at, memory) in samples {
        above += (hours(*at) - mean_at) * (mebibytes(*memory) - mean);
        below += (hours(*at) - mean_at).powi(2);
    }
    if below > 0.0 { above / below } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn step_names_participating_shares() {
        let rest = |in_use: u64, buffers: u64| Rest {
            in_use: in_use << 20,
            resident: 0,
            shares: vec![("payloads".into(), 77), ("read buffers".into(), buffers << 20)],
        };
        assert_eq!(
            step(&rest(19, 1), &rest(20, 2)).as_deref(),
            Some("19.00 to 20.00 MiB at rest: read buffers 1.00 to 2.00")
        );
        assert!(step(&rest(19, 1), &rest(20, 1)).is_some_and(|step| step.ends_with("no share that is counted")));
        assert_eq!(step(&rest(19, 1), &rest(19, 2)), None);
    }

    #[test]
    fn slope_is_mebibytes_per_hour() {
        // 10 MiB an hour, and 1 MiB of noise that cancels out.
        let memory = |n: u64| (100 << 20) + n * ((10 << 20) / 100) + (((n / 2 + n) % 2) << 20);
        let samples: Vec<_> = (0..100).map(|n| (Duration::from_secs(36 * n), memory(n))).collect();
        let slope = slope(&samples);
        assert!((9.5..10.5).contains(&slope), "{slope}");
    }
}
