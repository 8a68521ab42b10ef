//! `farlink plan forecast`: store occupancy if every contact is used, as text, table and JSON.

use crate::CliError;
use crate::plan::{date, in_plan, load, node_json, print, tell};
use farlink_base::{DataRate, DataVolume};
use farlink_routing::contact_plan::{Forecast, ForecastRequest, Parsed, draw_forecast, forecast};
use farlink_routing::{ContactPlan, NodeId, PlanTime, parse_time};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::str::FromStr;

/// Most lines of the table of levels.
const LINES_MAX: usize = 40;

/// Arguments of `farlink plan forecast`.
#[derive(clap::Args)]
#[command(after_help = "Occupancy is the initial volume plus the volume received in contacts minus the volume sent,\n\
    at the rates of the plan, plus production and minus consumption of applications; never below zero.\n\n\
    Examples:\n\
    \x20 farlink plan forecast --plan mars.plan --capacity '1 GB'\n\
    \x20 farlink plan forecast --plan mars.plan --node orbiter --capacity '1 GB' --production '50 kbit/s'\n\n\
    Exit status: 0 done, also if congestion is forecast; 2 bad input.")]
pub struct Args {
    /// The plan; `-` reads standard input.
    #[arg(long, value_name = "FILE")]
    plan: PathBuf,
    /// Node to forecast: 1, ipn:1.0, or a name defined in the plan; may be repeated; default: all nodes.
    #[arg(long, value_name = "NODE")]
    node: Vec<String>,
    /// Capacity of a node's store; without it, only the occupancy is shown.
    #[arg(long, value_name = "SIZE")]
    capacity: Option<String>,
    /// Initial occupancy.
    #[arg(long, value_name = "SIZE", default_value = "0 B")]
    occupied: String,
    /// Average rate at which applications at a node send.
    #[arg(long, value_name = "RATE", default_value = "0 bit/s")]
    production: String,
    /// Average rate at which applications at a node receive from its store.
    #[arg(long, value_name = "RATE", default_value = "0 bit/s")]
    consumption: String,
    /// Start of the forecast: UTC, +s, or seconds from the plan's epoch.
    #[arg(long, value_name = "TIME", default_value = "0", allow_hyphen_values = true)]
    from: String,
    /// End of the forecast; default: the end of the last contact.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    until: Option<String>,
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
}

fn quantity<T: FromStr<Err = String>>(option: &str, text: &str) -> Result<T, CliError> {
    let hint = "write `100 kB`, `64 MiB` or `2 Mbit/s`";
    text.parse().map_err(|error| CliError::Input(format!("{option}: {error}\nhint: {hint}")))
}

pub fn run(args: &Args) -> Result<(), CliError> {
    let parsed = load(&args.plan)?;
    let capacity: Option<DataVolume> = args.capacity.as_deref().map(|text| quantity("--capacity", text)).transpose()?;
    let capacity = capacity.map(DataVolume::bytes);
    let occupied: DataVolume = quantity("--occupied", &args.occupied)?;
    let (production, consumption): (DataRate, DataRate) =
        (quantity("--production", &args.production)?, quantity("--consumption", &args.consumption)?);
    let time =
        |option, text: &str| parse_time(&parsed, option, text).map_err(|error| CliError::Input(error.to_string()));
    let from = time("--from", &args.from)?;
    let last = parsed.plan.contacts.iter().map(|c| c.end).max();
    let until = args.until.as_deref().map(|text| time("--until", text)).transpose()?;
    // An empty plan, or a start behind the last contact, gives a forecast of no length.
    let until = until.or(last).unwrap_or(from).max(from);
    let nodes = if args.node.is_empty() { parsed.plan.nodes() } else { named(&parsed, &args.node)? };
    let question = |node| ForecastRequest {
        node,
        occupied: occupied.bytes(),
        capacity: capacity.unwrap_or(u64::MAX),
        production,
        consumption,
        from,
        until,
    };
    // Each node gets its own contacts only: forecasting all nodes of a large plan stays linear.
    let (mut plans, nobody) = (BTreeMap::<NodeId, ContactPlan>::new(), ContactPlan::default());
    for contact in &parsed.plan.contacts {
        for node in [contact.from, contact.to] {
            plans.entry(node).or_default().contacts.push(contact.clone());
        }
    }
    let seen = |node: &NodeId| forecast(plans.get(node).unwrap_or(&nobody), &question(*node));
    // A node without contacts still gets its own production and consumption.
    let asked: Vec<_> = nodes.iter().map(|node| (*node, seen(node))).collect();
    if args.json {
        let nodes: Vec<Value> = asked.iter().map(|(node, seen)| node_document(&parsed, *node, seen)).collect();
        let epoch = parsed.plan.epoch.map(|epoch| epoch.to_string());
        let (from, until) = (from.as_secs_f64(), until.as_secs_f64());
        let document =
            json!({"epoch": epoch, "from": from, "until": until, "capacity_bytes": capacity, "nodes": nodes});
        return print(&format!("{document:#}\n"));
    }
    tell(&parsed.warnings);
    let mut text = String::new();
    for (node, seen) in &asked {
        text += &sentence(&parsed, *node, seen);
    }
    if let [(_, seen)] = &asked[..] {
        // A single node gets a chart and its levels; of several, each gets one line only.
        let columns = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
        let width = columns.unwrap_or(if std::io::stdout().is_terminal() { 100 } else { 80 });
        let _ = writeln!(text, "\n{}\n{:>14}  occupied", draw_forecast(seen, capacity, width), "from the epoch");
        for level in seen.levels.iter().take(LINES_MAX) {
            let _ = writeln!(text, "{:>14}  {}", after(level.at.0), DataVolume(level.bytes));
        }
        if seen.levels.len() > LINES_MAX {
            let _ = writeln!(text, "and {} more: `--json` prints them all", seen.levels.len() - LINES_MAX);
        }
    }
    print(&text)
}

fn named(parsed: &Parsed, names: &[String]) -> Result<Vec<NodeId>, CliError> {
    let node = |name: &String| {
        let hint = "hint: write a node number, or a name defined in the plan; `farlink plan show` draws all";
        let node =
            parsed.node(name).ok_or_else(|| CliError::Input(format!("--node: `{name}` is not a node\n{hint}")))?;
        in_plan(parsed, "--node", name, node)?;
        Ok(node)
    };
    names.iter().map(node).collect()
}

fn after(ns: u64) -> String {
    format!("+{} s", PlanTime(ns).as_secs_f64())
}

/// Summary of a node in one line: the time of congestion, if any, and the peak.
fn sentence(parsed: &Parsed, node: NodeId, seen: &Forecast) -> String {
    let name = parsed.name(node);
    let Some(peak) = seen.peak() else { return format!("{name}: nothing to forecast\n") };
    let most = format!("{} at {} at most", DataVolume(peak.bytes), after(peak.at.0));
    match seen.full {
        Some(full) => format!("{name}: congestion at {}{}; {most}\n", after(full.0), date(parsed, full.0)),
        None => format!("{name}: no congestion; {most}\n"),
    }
}

fn node_document(parsed: &Parsed, node: NodeId, seen: &Forecast) -> Value {
    let seconds = |at: farlink_base::Instant| at.as_secs_f64();
    let levels = seen.levels.iter().map(|level| json!({"at": seconds(level.at), "bytes": level.bytes}));
    let peak = seen.peak();
    json!({
        "node": node_json(node),
        "name": parsed.name(node),
        "congestion": seen.full.is_some(),
        "congestion_at": seen.full.map(seconds),
        "peak_bytes": peak.map(|peak| peak.bytes),
        "peak_at": peak.map(|peak| seconds(peak.at)),
        "levels": levels.collect::<Vec<_>>(),
    })
}
