//! Cost of simulations: `cargo run --profile quick -p farlink-trials --example cost -- SCENARIO...` runs each without
//! observers and prints a line of JSON: processor time by part, peak memory so far, and the outcome. `--seed N` applies
//! to the scenarios that follow it; `--one N` to settings of The ONE, which run in that simulator's own world. `cargo
//! xtask bench sim` starts it.

use farlink_one::{Setup, Values};
use farlink_scenario::Scenario;
use farlink_sim::{Silent, World};
use std::path::{Path, PathBuf};

/// The allocator of the `farlink` command, so that both cost alike.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// User and system time of this process, s.
fn cpu_s() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name in brackets may contain spaces: fields are counted after the last bracket. 11 and 12 are utime and
    // stime.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or("").split_whitespace().collect();
    let ticks = |index: usize| fields.get(index).and_then(|field| field.parse::<f64>().ok()).unwrap_or(0.0);
    // Linux reports them in ticks of 10 ms.
    (ticks(11) + ticks(12)) / 100.0
}

fn json(number: f64) -> String {
    // JSON knows no NaN, which is the mean of no values.
    if number.is_finite() { format!("{number:.3}") } else { "null".into() }
}

/// Peak resident memory so far, MB.
fn memory_mb() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse::<f64>().ok()).unwrap_or(0.0) / 1000.0
}

fn main() {
    let (mut seed, mut one) = (None, None);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut number = || arguments.next().and_then(|number| number.parse::<u64>().ok());
        let done = match argument.as_str() {
            "--seed" => {
                seed = number();
                Ok(())
            }
            "--one" => {
                one = number();
                Ok(())
            }
            file => match one {
                Some(seed) => as_the_one(file, seed),
                None => as_ours(Path::new(file), seed),
            },
        };
        if let Err(error) = done {
            eprintln!("{argument}: {error}");
            std::process::exit(2);
        }
    }
}

fn as_ours(file: &Path, seed: Option<u64>) -> Result<(), String> {
    let begun = cpu_s();
    let told = |errors: Vec<farlink_scenario::ConfigError>| {
        errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    };
    let mut scenario = Scenario::load(file).map_err(told)?;
    if let Some(seed) = seed {
        scenario.set_seed(seed);
    }
    let read = cpu_s();
    let world = World::new(&scenario, Silent).map_err(|error| error.to_string())?;
    let (built, built_mb) = (cpu_s(), memory_mb());
    let (outcome, Silent) = world.run();
    let run = cpu_s();
    // A scenario may draw thousands of flows among groups; the line of output has one figure for all.
    let created: u64 = outcome.traffic.iter().map(|traffic| traffic.created).sum();
    let delivered: u64 = outcome.traffic.iter().map(|traffic| traffic.delivered).sum();
    // Time from a flow's start to its last delivery. For flows of one bundle each, such as all flows drawn among
    // groups, this is the bundle's latency.
    let latencies: Vec<f64> = outcome
        .traffic
        .iter()
        .zip(&scenario.traffic)
        .filter_map(|(came, wanted)| Some(came.complete_at?.0 as f64 / 1e9 - wanted.start.as_secs_f64()))
        .collect();
    let latency = json(latencies.iter().sum::<f64>() / latencies.len() as f64);
    let [contacts, sent, arrived, refused] =
        outcome.radios.iter().fold([0; 4], |[contacts, sent, arrived, refused], radio| {
            let counted = &radio.counted;
            [contacts + radio.contacts, sent + counted.sent, arrived + counted.delivered, refused + radio.refused]
        });
    println!(
        "{{\"read_s\": {:.3}, \"build_s\": {:.3}, \"built_mb\": {built_mb:.1}, \"run_s\": {:.3}, \"memory_mb\": {:.1}, \
         \"happenings\": {}, \"contacts\": {contacts}, \"sent\": {sent}, \"arrived\": {arrived}, \"refused\": {refused}, \
         \"created\": {created}, \"delivered\": {delivered}, \"latency_s\": {latency}, \"trace\": \"{:016x}\"}}",
        read - begun,
        built - read,
        run - built,
        memory_mb(),
        outcome.happenings,
        outcome.trace
    );
    Ok(())
}

fn as_the_one(file: &str, seed: u64) -> Result<(), String> {
    let begun = cpu_s();
    // The prefix keeps the message names of different seeds apart.
    let overrides = [format!("MovementModel.rngSeed={seed}"), format!("Events1.prefix=M{seed}")];
    let values = Values::read(&[PathBuf::from(file)], &overrides).map_err(|mistake| mistake.to_string())?;
    let setup = Setup::of(&values.of_run(0)).map_err(|mistake| mistake.to_string())?;
    let folder = Path::new(file).parent().unwrap_or(Path::new(""));
    let outcome = farlink_one::run(&setup, Some(folder), &mut |_| ()).map_err(|failure| format!("{failure:?}"))?;
    let figure = |name: &str| outcome.figures.values().find(|(known, _)| *known == name).map_or(0.0, |(_, v)| v);
    println!(
        "{{\"run_s\": {:.3}, \"memory_mb\": {:.1}, \"created\": {}, \"delivered\": {}, \"arrived\": {}, \"latency_s\": {}}}",
        cpu_s() - begun,
        memory_mb(),
        figure("created"),
        figure("delivered"),
        figure("relayed"),
        json(figure("latency_avg"))
    );
    Ok(())
}
