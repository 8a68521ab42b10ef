//! Checks the retention probe against known times: relays that only copy, and relays that also compute for 200 µs for
//! each bundle or block. `cargo xtask bench retention` runs it.

mod traffic;
mod world;

use farlink_lab::probes::retention::{RelayRetention, RetentionReport};
use std::time::Duration;
use traffic::Traffic;
use world::RelayRun;

/// Number of bundles per run.
const BUNDLES: u64 = 1000;
const WORK: Duration = Duration::from_micros(200);

fn main() {
    let only = std::env::args().nth(1).unwrap_or_default();
    println!(
        "| layer | bundles found | a relay that copies: p50 (p10..p90), µs | one that works 200 µs | difference of the medians |"
    );
    println!("|---|---|---|---|---|");
    for (traffic, name) in Traffic::ALL.into_iter().filter(|(_, name)| name.contains(&only)) {
        let measured = [Duration::ZERO, WORK].map(|work| measure(traffic, work));
        match measured {
            [Ok(copies), Ok(works)] => println!("{}", row(name, &copies, &works)),
            [Err(error), _] | [_, Err(error)] => {
                eprintln!("{name}: {error}");
                std::process::exit(1);
            }
        }
    }
}

/// Runs a relay that computes for `work` per unit, and returns the findings about it.
fn measure(traffic: Traffic, work: Duration) -> Result<RetentionReport, std::io::Error> {
    let units = BUNDLES / traffic.bundles();
    let run = RelayRun { traffic, units, pace: Duration::from_micros(1500), work, real_time: true };
    let thread = std::thread::spawn(move || world::run(run));
    thread.join().unwrap_or_else(|_| Err(std::io::Error::other("the run panicked")))
}

fn row(name: &str, copies: &RetentionReport, works: &RetentionReport) -> String {
    let (floor, relay) = (&copies.relays[0], &works.relays[0]);
    if let Some(reason) = relay.not_available() {
        return format!("| {name} | n/a: {reason} | n/a | n/a | n/a |");
    }
    let missed = match copies.missed + works.missed {
        0 => String::new(),
        missed => format!(", {missed} frames missed: void"),
    };
    let found = format!("{} and {} of {BUNDLES}{missed}", floor.bundles.len(), relay.bundles.len());
    let difference = part(relay, 50) - part(floor, 50);
    format!("| {name} | {found} | {} | {} | {difference:.1} |", spread(floor), spread(relay))
}
/// Percentile of the time until the first byte left, in µs; NaN without bundles.
fn part(relay: &RelayRetention, percent: usize) -> f64 {
    let times = relay.sorted_first_ns(0);
    times.get(times.len() * percent / 100).map_or(f64::NAN, |ns| *ns as f64 / 1e3)
}
fn spread(relay: &RelayRetention) -> String {
    format!("{:.1} ({:.1}..{:.1})", part(relay, 50), part(relay, 10), part(relay, 90))
}
