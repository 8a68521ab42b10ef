//! What simulations cost: `cargo run --profile quick -p farlink-sim --example cost -- SCENARIO...` runs each
//! with nobody watching and prints a line of JSON: processor time of its parts, the most memory so far, and what
//! became of it. `cargo xtask bench sim` runs it.

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
        let [contacts, sent, arrived, refused] =
            outcome.radios.iter().fold([0; 4], |[contacts, sent, arrived, refused], radio| {
                let counted = &radio.counted;
                [contacts + radio.contacts, sent + counted.sent, arrived + counted.delivered, refused + radio.refused]
            });
        println!(
            "{{\"read_s\": {:.3}, \"build_s\": {:.3}, \"built_mb\": {built_mb:.1}, \"run_s\": {:.3}, \"memory_mb\": {:.1}, \
             \"happenings\": {}, \"contacts\": {contacts}, \"sent\": {sent}, \"arrived\": {arrived}, \"refused\": {refused}, \
             \"created\": {created}, \"delivered\": {delivered}}}",
            read - begun,
            built - read,
            run - built,
            memory_mb(),
            outcome.happenings
        );
    }
}
