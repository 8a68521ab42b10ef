//! `farlink plan from-orbits`: computes a contact plan from orbits and ground stations.

use crate::plan::{OutputDialect, contact_json, count, print};
use crate::{CliError, bar, cannot_write};
use farlink_base::{DtnTime, format_duration};
use farlink_orbits::Network;
use farlink_routing::contact_plan::{self, ContactPlan, Warning};
use serde_json::json;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// Arguments of `farlink plan from-orbits`.
#[derive(clap::Args)]
#[command(
    after_help = "FILE is TOML: stations by latitude and longitude, satellites by two-line elements or an ellipse, \
    whole constellations:\n\
    \x20 [[station]]\n\
    \x20 name = \"svalbard\"\n\
    \x20 id = \"ipn:1.0\"\n\
    \x20 position = [\"78.23 N\", \"15.39 E\", \"450 m\"]\n\
    \x20 [[constellation]]\n\
    \x20 name = \"leo\"\n\
    \x20 first_id = \"ipn:100.0\"\n\
    \x20 walker = { planes = 6, per_plane = 11, inclination = \"86.4 deg\", altitude = \"780 km\", pattern = \"star\" }\n\
    \x20 [[link]]\n\
    \x20 between = [\"svalbard\", \"leo\"]\n\
    \x20 rate = \"50 Mbit/s\"\n\n\
    Examples:\n\
    \x20 farlink plan from-orbits leo.toml --from 2026-11-20T09:00:00Z --for '1 d' -o leo.plan\n\
    \x20 farlink plan from-orbits leo.toml --for '6 h' --to ion -o leo.ionrc\n\
    \x20 farlink plan from-orbits leo.toml --for '90 min' --json | jq '.contacts | length'\n\n\
    Every key: docs/reference/orbits.md. Exit status: 0 done, 1 the plan cannot be made, 2 bad input."
)]
pub struct Args {
    /// File of orbits and stations.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Start of the plan, UTC; default: the file's `epoch`.
    #[arg(long, value_name = "TIME", value_parser = utc)]
    from: Option<DtnTime>,
    /// Length of the plan, e.g. '1 d' or '90 min'.
    #[arg(long = "for", value_name = "DURATION", value_parser = length)]
    duration: Duration,
    /// File to write the plan to; default: standard output.
    #[arg(short, long, value_name = "PLAN")]
    out: Option<PathBuf>,
    /// Dialect of the output.
    #[arg(long, value_name = "DIALECT", default_value = "farlink")]
    to: OutputDialect,
    /// Print nodes and contacts as one JSON document, in addition to the plan in --out.
    #[arg(long)]
    json: bool,
    /// Threads used for the computation; default: one per processor.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
}

fn utc(text: &str) -> Result<DtnTime, String> {
    DtnTime::parse_utc(text)
        .ok_or_else(|| format!("`{text}` is not a time in UTC\nhint: write it as 2026-11-20T09:00:00Z"))
}

fn length(text: &str) -> Result<Duration, String> {
    let length = farlink_base::parse_duration(text)?;
    match length.as_secs() {
        0 if length.is_zero() => Err("the plan would have no length\nhint: write e.g. '1 d'".into()),
        // Orbit models are of no use that far ahead.
        secs if secs > 100 * 366 * 86_400 => Err(format!("`{text}` is longer than a century\nhint: write e.g. '30 d'")),
        _ => Ok(length),
    }
}

/// Age in days from which orbital elements get a warning: errors of low orbits then reach kilometres.
const OLD_D: i64 = 14;

pub fn run(args: &Args) -> Result<(), CliError> {
    let network = farlink_orbits::load(&args.file, args.from).map_err(|errors| {
        let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
        CliError::Input(format!("{} is not a file of orbits\n{}", args.file.display(), errors.join("\n")))
    })?;
    // `length` allows a century at most: it fits.
    let duration = i64::try_from(args.duration.as_nanos()).unwrap_or(i64::MAX);
    warn_of_old_elements(&network, duration);
    let threads = args.threads.map(usize::from);
    let threads = threads.or_else(|| std::thread::available_parallelism().ok().map(usize::from)).unwrap_or(1);
    let bar = bar::steps(network.pairs() as u64, "pairs");
    let plan = farlink_orbits::contacts(&network, duration, threads, &|done| bar.set_position(done as u64));
    bar.finish_and_clear();
    let plan = plan.map_err(CliError::Input)?;
    for (name, time) in network.fallen() {
        match Duration::from_nanos(time.unsigned_abs()) {
            Duration::ZERO => {
                eprintln!("warning: {name} came down before the start, by its elements: it has no contacts")
            }
            time => eprintln!(
                "warning: {name} comes down {} after the start, by its elements: its contacts end before",
                format_duration(time)
            ),
        }
    }
    if plan.contacts.is_empty() {
        eprintln!("warning: no two nodes see each other in this time: the plan has no contacts");
    }
    let text = match args.to {
        OutputDialect::Farlink => {
            let names: Vec<_> = network.nodes.iter().map(|node| (node.name.clone(), node.id)).collect();
            contact_plan::emit_farlink(&plan, &names)
        }
        OutputDialect::Ion => {
            let (text, warnings) = contact_plan::emit_ion(&plan);
            tell_once_each(&warnings);
            text
        }
    };
    match &args.out {
        Some(file) => std::fs::write(file, &text).map_err(|why| cannot_write(file, &why, "--out"))?,
        None if !args.json => return print(&text),
        None => {}
    }
    if args.json {
        return print_json(&network, &plan, args.duration);
    }
    eprintln!("{} between {} nodes", count(plan.contacts.len(), "contact"), network.nodes.len());
    Ok(())
}

fn warn_of_old_elements(network: &Network, duration: i64) {
    // Elements may be fresh at the start and too old at the end.
    for (time, when) in [(0, "starts"), (duration, "ends")] {
        if let Some((name, days)) = network.oldest(time).filter(|(_, days)| *days > OLD_D) {
            eprintln!("warning: the elements of {name} are {days} days old when the plan {when}: use newer ones");
            return;
        }
    }
}

/// Prints each kind of warning once, with the number of contacts affected.
fn tell_once_each(warnings: &[Warning]) {
    let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
    for warning in warnings {
        // The part before the colon names the contact.
        let what = warning.message.split_once(": ").map_or(warning.message.as_str(), |(_, what)| what);
        *kinds.entry(what).or_default() += 1;
    }
    for (what, many) in kinds {
        eprintln!("warning: {}: {what}", count(many, "contact"));
    }
}

/// Prints the plan as JSON with one contact per line, as plans may be long.
fn print_json(network: &Network, plan: &ContactPlan, duration: Duration) -> Result<(), CliError> {
    let nodes: Vec<_> = network.nodes.iter().map(|node| json!({"name": node.name, "id": node.id.0})).collect();
    let epoch = plan.epoch.map(|epoch| epoch.to_string());
    let mut text = format!(
        "{{\"epoch\": {}, \"duration_s\": {}, \"pairs\": {},\n\"nodes\": {},\n\"contacts\": [",
        json!(epoch),
        json!(duration.as_secs_f64()),
        network.pairs(),
        json!(nodes)
    );
    for (index, contact) in plan.contacts.iter().enumerate() {
        text.push_str(if index == 0 { "\n" } else { ",\n" });
        text.push_str(&contact_json(contact).to_string());
    }
    text.push_str("\n]}\n");
    print(&text)
}
