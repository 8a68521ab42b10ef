//! `farlink plan`: routes, charts, checks, conversions and forecasts of contact plans; plans computed from orbits and
//! from the movement of nodes.

use crate::{CliError, plan_forecast, plan_orbits};
use anyhow::Context as _;
use clap::{Subcommand, ValueEnum};
use farlink_routing::contact_plan::{self, Contact, Parsed, Warning};
use farlink_routing::sabr::Route;
use farlink_routing::{NodeId, RouteAnswer, RouteRequest, answer};
use serde_json::{Value, json};
use std::io::{IsTerminal, Read};
use std::path::{Path, PathBuf};

/// Most nodes that an error lists.
const NAMED_MAX: usize = 12;

/// Arguments of `farlink plan`.
#[derive(clap::Args)]
#[command(after_help = "Plans are read in two dialects, detected automatically:\n\
    \x20 farlink  contact earth mars link=ka +0..+3600 rate 2 Mbit/s delay 600 s\n\
    \x20 ION      a contact +0 +3600 1 3 250000, with a range +0 +3600 1 3 600\n\n\
    Examples:\n\
    \x20 farlink plan route --plan mars.plan --from 1 --to 3 --at +0 --size '100 kB'\n\
    \x20 farlink plan show --plan mars.plan\n\
    \x20 farlink plan convert --plan contacts.ionrc --to farlink > mars.plan\n\
    \x20 farlink plan from-orbits leo.toml --from 2026-11-20T09:00:00Z --for '1 d' -o leo.plan\n\n\
    Exit status: 0 done, 1 no route, 2 bad input.")]
pub struct Args {
    #[command(subcommand)]
    command: PlanCommand,
}

#[derive(Subcommand)]
enum PlanCommand {
    /// Compute the route that SABR chooses for a bundle.
    Route(RouteArgs),
    /// Draw the plan, one row per link and direction.
    Show(FileArgs),
    /// Find contacts that overlap, have no capacity, end before they begin, or lack a range.
    Check(FileArgs),
    /// Convert the plan to another dialect.
    Convert(ConvertArgs),
    /// Forecast the store occupancy of nodes if every contact is used.
    Forecast(plan_forecast::Args),
    /// Compute a plan from orbits and ground stations.
    FromOrbits(plan_orbits::Args),
    /// Print the contacts between the radios of a scenario.
    Meetings(crate::meetings::Args),
}

#[derive(clap::Args)]
struct FileArgs {
    /// The plan; `-` reads standard input.
    #[arg(long, value_name = "FILE")]
    plan: PathBuf,
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
struct RouteArgs {
    #[command(flatten)]
    file: FileArgs,
    /// Node that holds the bundle: 1, ipn:1.0, or a name defined in the plan.
    #[arg(long, value_name = "NODE")]
    from: String,
    /// Destination node.
    #[arg(long, value_name = "NODE")]
    to: String,
    /// Time of departure: UTC, +s, or seconds from the plan's epoch.
    #[arg(long, value_name = "TIME", default_value = "0", allow_hyphen_values = true)]
    at: String,
    /// Size of the encoded bundle.
    #[arg(long, value_name = "SIZE")]
    size: String,
    /// Time at which the bundle expires.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    expires: Option<String>,
    /// Class of service: bulk, normal or expedited.
    #[arg(long, default_value = "normal")]
    priority: String,
    /// Overhead added to the size: exact (none), sabr (3 %, at least 100 B), ion (1/16, light-time margin).
    #[arg(long, default_value = "exact")]
    profile: String,
    /// Neighbour not to use as first hop; may be repeated.
    #[arg(long, value_name = "NODE")]
    exclude: Vec<String>,
}

#[derive(clap::Args)]
struct ConvertArgs {
    /// The plan; `-` reads standard input.
    #[arg(long, value_name = "FILE")]
    plan: PathBuf,
    /// Dialect of the output.
    #[arg(long)]
    to: OutputDialect,
}

/// Dialects that can be written.
#[derive(Clone, Copy, ValueEnum)]
pub enum OutputDialect {
    /// Commands of ION's `ionadmin`.
    Ion,
    /// Farlink's own dialect.
    Farlink,
}

pub fn run(args: Args) -> Result<(), CliError> {
    match args.command {
        PlanCommand::Route(args) => route(&args),
        PlanCommand::Show(args) => show(&args),
        PlanCommand::Check(args) => check(&args),
        PlanCommand::Convert(args) => convert(&args),
        PlanCommand::Forecast(args) => plan_forecast::run(&args),
        PlanCommand::FromOrbits(args) => plan_orbits::run(&args),
        PlanCommand::Meetings(args) => crate::meetings::run(&args),
    }
}

/// Reads a plan from a file, or standard input for `-`.
pub fn load(path: &Path) -> Result<Parsed, CliError> {
    let text = if path == Path::new("-") {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).context("cannot read standard input")?;
        text
    } else {
        std::fs::read_to_string(path).map_err(|error| {
            CliError::Input(format!("cannot read {}: {error}\nhint: name the file of a contact plan", path.display()))
        })?
    };
    contact_plan::parse(&text).map_err(|error| CliError::Input(format!("{}: {error}", path.display())))
}

/// Prints the warnings of a plan.
pub fn tell(warnings: &[Warning]) {
    for warning in warnings {
        eprintln!("warning: {warning}");
    }
}

/// Prints data.
pub fn print(text: &str) -> Result<(), CliError> {
    print!("{text}");
    Ok(())
}

pub fn count(number: usize, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{number} {what}s") }
}

/// Node as JSON: the number of an ipn node, else the name.
pub fn node_json(node: NodeId) -> Value {
    if node.is_named() { json!(node.to_string()) } else { json!(node.0) }
}

fn route(args: &RouteArgs) -> Result<(), CliError> {
    let plan = load(&args.file.plan)?;
    let request = RouteRequest {
        from: &args.from,
        to: &args.to,
        at: &args.at,
        size: &args.size,
        expires: args.expires.as_deref(),
        priority: &args.priority,
        profile: &args.profile,
        excluded: &args.exclude,
    };
    for (option, text) in [("--from", &args.from), ("--to", &args.to)] {
        if let Some(node) = plan.node(text) {
            in_plan(&plan, option, text, node)?;
        }
    }
    let answer = answer(&plan, &request).map_err(|error| CliError::Input(error.to_string()))?;
    if args.file.json {
        print(&format!("{:#}\n", route_json(&plan, &answer)))?;
    } else {
        tell(&plan.warnings);
    }
    match (&answer.route, args.file.json) {
        (Some(route), false) => print(&route_text(&plan, route)),
        (Some(_), true) => Ok(()),
        (None, _) => Err(CliError::Run(anyhow::anyhow!(
            "no route from {} to {}: {}\nhint: `farlink plan show --plan {}` draws the contacts",
            args.from,
            args.to,
            answer.reason.as_deref().unwrap_or("none"),
            args.file.plan.display()
        ))),
    }
}

/// Checks that the plan mentions the node of an option.
///
/// # Errors
/// If it does not; the hint lists the nodes of the plan.
pub fn in_plan(plan: &Parsed, option: &str, text: &str, node: NodeId) -> Result<(), CliError> {
    let known = plan.plan.nodes();
    // A node that the file names may have no contacts yet; any other is a typing error.
    if known.binary_search(&node).is_ok() || plan.names.iter().any(|(_, named)| *named == node) {
        return Ok(());
    }
    let all = known.iter().take(NAMED_MAX).map(|node| plan.name(*node)).collect::<Vec<_>>().join(", ");
    let more = if known.len() > NAMED_MAX { ", ..." } else { "" };
    Err(CliError::Input(format!("{option}: node {text} is not in the plan\nhint: the plan has {all}{more}")))
}

fn route_json(plan: &Parsed, answer: &RouteAnswer) -> Value {
    let Some(route) = &answer.route else { return json!({"found": false, "reason": answer.reason}) };
    let hops = route.path.iter().map(|hop| {
        let contact = hop.contact.and_then(|c| plan.plan.contacts.get(c as usize));
        json!({
            "contact": hop.contact,
            "link": contact.and_then(|c| c.link.as_deref()),
            "from": node_json(hop.from),
            "to": node_json(hop.to),
            "tx_start": hop.start.as_secs_f64(),
            "arrival": hop.arrival.as_secs_f64(),
        })
    });
    json!({
        "found": true,
        "first_hop": route.next_hop().map(node_json),
        "first_contact": route.first_contact(),
        "arrival": route.arrival.as_secs_f64(),
        "hops": route.hops(),
        "path": hops.collect::<Vec<_>>(),
    })
}

fn route_text(plan: &Parsed, route: &Route) -> String {
    let mut text = String::new();
    for (number, hop) in route.path.iter().enumerate() {
        let contact = hop.contact.and_then(|c| plan.plan.contacts.get(c as usize));
        let link = contact.and_then(|c| c.link.as_deref()).map(|l| format!(" over {l}")).unwrap_or_default();
        let (from, to) = (plan.name(hop.from), plan.name(hop.to));
        let (start, arrival) = (hop.start.as_secs_f64(), hop.arrival.as_secs_f64());
        text += &format!("{}. {from} > {to}{link}: sent at +{start} s, there at +{arrival} s\n", number + 1);
    }
    let hops = count(route.hops(), "hop");
    let date = date(plan, route.arrival.0);
    text + &format!("arrives at +{} s{date} after {hops}\n", route.arrival.as_secs_f64())
}

/// Date, in brackets, of a time given in nanoseconds from the plan's epoch; empty for a plan without one.
pub fn date(plan: &Parsed, ns: u64) -> String {
    plan.plan.epoch.map(|epoch| format!(" ({})", epoch.saturating_add_ms(ns / 1_000_000))).unwrap_or_default()
}

/// Contact as JSON, times in seconds from the epoch.
pub fn contact_json(c: &Contact) -> Value {
    json!({
        "from": node_json(c.from), "to": node_json(c.to), "link": c.link,
        "start": c.start.as_secs_f64(), "end": c.end.as_secs_f64(),
        "rate_bit_s": c.rate.0, "delay_s": c.one_way_delay.as_secs_f64(), "confidence": c.confidence,
    })
}

fn show(args: &FileArgs) -> Result<(), CliError> {
    let plan = load(&args.plan)?;
    if args.json {
        let contacts = plan.plan.contacts.iter().map(contact_json);
        let epoch = plan.plan.epoch.map(|e| e.to_string());
        return print(&format!("{:#}\n", json!({"epoch": epoch, "contacts": contacts.collect::<Vec<_>>()})));
    }
    tell(&plan.warnings);
    // Shells rarely export COLUMNS; a wide default suits files and pipes.
    let columns = std::env::var("COLUMNS").ok().and_then(|c| c.parse().ok());
    let width = columns.unwrap_or(if std::io::stdout().is_terminal() { 100 } else { 120 });
    print(&contact_plan::gantt(&plan.plan, &plan.names, width))
}

fn check(args: &FileArgs) -> Result<(), CliError> {
    let mut plan = load(&args.plan)?;
    if plan.plan.contacts.is_empty() {
        // Line 0 stands for the whole file.
        let message = "the plan has no contacts: nothing can be sent".into();
        plan.warnings.push(Warning { line: 0, message });
    }
    let findings = contact_plan::check(&plan.plan);
    let errors = findings.iter().filter(|f| f.error).count();
    let line = |contact: usize| plan.lines.get(contact).copied().unwrap_or(0);
    if args.json {
        // Contacts are counted from 0 in JSON and from 1 in text.
        let found = findings.iter().map(|f| {
            json!({"line": line(f.contact), "contact": f.contact, "error": f.error, "message": f.message, "hint": f.hint})
        });
        let warnings = plan.warnings.iter().map(|w| json!({"line": w.line, "message": w.message}));
        let document = json!({
            "dialect": plan.dialect.to_string(), "contacts": plan.plan.contacts.len(), "errors": errors,
            "findings": found.collect::<Vec<_>>(), "warnings": warnings.collect::<Vec<_>>(),
        });
        print(&format!("{document:#}\n"))?;
    } else {
        tell(&plan.warnings);
        for f in &findings {
            let (kind, contact) = (if f.error { "error" } else { "note" }, f.contact + 1);
            print(&format!("line {}: {kind}: contact {contact} {}\n  hint: {}\n", line(f.contact), f.message, f.hint))?;
        }
        let (contacts, nodes) = (plan.plan.contacts.len(), plan.plan.nodes().len());
        print(&format!(
            "{} between {} ({} dialect), {}\n",
            count(contacts, "contact"),
            count(nodes, "node"),
            plan.dialect,
            count(errors, "error")
        ))?;
    }
    match errors {
        0 => Ok(()),
        _ => {
            Err(CliError::Input(format!("{}: {} found\nhint: see above", args.plan.display(), count(errors, "error"))))
        }
    }
}

fn convert(args: &ConvertArgs) -> Result<(), CliError> {
    let plan = load(&args.plan)?;
    tell(&plan.warnings);
    match args.to {
        OutputDialect::Farlink => print(&contact_plan::emit_farlink(&plan.plan, &plan.names)),
        OutputDialect::Ion => {
            let (text, warnings) = contact_plan::emit_ion(&plan.plan);
            // ION's dialect cannot express everything.
            tell(&warnings);
            print(&text)
        }
    }
}
