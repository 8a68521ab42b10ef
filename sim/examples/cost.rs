//! What simulations cost: `cargo run --profile quick -p farlink-sim --example cost -- SCENARIO...` runs each
//! with nobody watching and prints processor time, memory and what became of it. (Memory is the most of all so far.)

use farlink_scenario::Scenario;
use farlink_sim::{Silent, World};
use std::path::Path;

/// User and system time of this process, in seconds.
fn cpu_s() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or("").split_whitespace().collect();
    let ticks = |index: usize| fields.get(index).and_then(|field| field.parse::<f64>().ok()).unwrap_or(0.0);
    (ticks(11) + ticks(12)) / 100.0
}

/// Most memory resident so far, in MB.
fn memory_mb() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse::<f64>().ok()).unwrap_or(0.0) / 1000.0
}

fn main() {
    for file in std::env::args().skip(1) {
        let begun = cpu_s();
        let scenario = match Scenario::load(Path::new(&file)) {
            Ok(scenario) => scenario,
            Err(errors) => return errors.iter().for_each(|error| eprintln!("{error}")),
        };
        let read = cpu_s();
        let world = match World::new(&scenario, Silent) {
            Ok(world) => world,
            Err(error) => return eprintln!("{error}"),
        };
        let (built, built_mb) = (cpu_s(), memory_mb());
        let (outcome, Silent) = world.run();
        let run = cpu_s();
        let created: u64 = outcome.traffic.iter().map(|traffic| traffic.created).sum();
        let delivered: u64 = outcome.traffic.iter().map(|traffic| traffic.delivered).sum();
        println!(
            "{file}: read {:.2} s, build {:.2} s {built_mb:.0} MB, run {:.2} s {:.0} MB, {} happenings, {delivered} of {created}",
            read - begun,
            built - read,
            run - built,
            memory_mb(),
            outcome.happenings
        );
        for radio in &outcome.radios {
            let counted = &radio.counted;
            println!(
                "  {}: {} contacts, {} sent, {} arrived, {} refused before",
                radio.name, radio.contacts, counted.sent, counted.delivered, radio.refused
            );
        }
    }
}
