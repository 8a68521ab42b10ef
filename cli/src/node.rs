//! `farlink node`: runs a DTN node, or queries and changes a running one.

use crate::{CliError, certs, node_store, values};
use farlink_apps::http;
use farlink_base::{DataVolume, EndpointId};
use farlink_node::apps::load::LoadSettings;
use farlink_node::config::NodeConfig;
use farlink_node::run::NodeSignals;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// Arguments of `farlink node`.
#[derive(clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:\n  farlink init two-nodes\n  farlink node --config node-a.toml --check\n  farlink node --keys\n  \
        farlink node --config node-a.toml\n  farlink node status --at node-a.control.sock\n  \
        farlink node routes add 'ipn:5.*' ipn:2.0 --at node-a.control.sock\n  \
        farlink node links add new-relay.toml --at http://192.168.1.7:4280 --token-file token"
)]
pub struct Args {
    /// Configuration file of the node.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Check the configuration only: print every mistake with its line and a hint; exit 2 if there is one.
    #[arg(long, requires = "config")]
    check: bool,
    /// Take over the store of another node: bundles destined to that node are forwarded like any others.
    #[arg(long, requires = "config")]
    adopt: bool,
    /// Print a configuration file with every key: its default or an example, and what it does.
    #[arg(long, conflicts_with = "config")]
    keys: bool,
    /// Print the JSON schema of configuration files, by which editors complete and check them.
    #[arg(long, conflicts_with_all = ["config", "keys"])]
    schema: bool,
    #[command(flatten)]
    load: LoadArgs,
    #[command(subcommand)]
    question: Option<NodeQuery>,
}

/// Load generator and sink inside the node, for `farlink bench`.
#[derive(clap::Args)]
struct LoadArgs {
    /// Generate bundles to this endpoint.
    #[arg(long, hide = true)]
    generate: Option<String>,
    #[arg(long, hide = true, default_value = "100000")]
    generate_size: u64,
    #[arg(long, hide = true, default_value = "256")]
    generate_window: u64,
    #[arg(long, hide = true)]
    generate_rate: Option<String>,
    #[arg(long, hide = true, default_value = "5")]
    generate_seconds: f64,
    /// Count and discard bundles at this service.
    #[arg(long, hide = true)]
    sink: Option<u32>,
}

#[derive(clap::Subcommand)]
enum NodeQuery {
    /// Show the node's identity, store, memory and links.
    Status(ControlArgs),
    /// List the bundles stored and why each waits.
    #[command(after_help = "Examples:\n  farlink node bundles --at node-a.control.sock\n  \
        farlink node bundles --limit 1000 --after 1000\n  farlink node bundles --summary --json")]
    Bundles {
        /// Most bundles to list.
        #[arg(long, default_value = "100", allow_hyphen_values = true, value_parser = values::whole)]
        limit: u64,
        /// List bundles that arrived after this one: the next page.
        #[arg(long, value_name = "BUNDLE", default_value = "0", allow_hyphen_values = true,
            value_parser = values::whole)]
        after: u64,
        /// Show totals by destination, reason and departure instead.
        #[arg(long)]
        summary: bool,
        #[command(flatten)]
        at: ControlArgs,
    },
    /// List, add, remove or replace contacts of the plan.
    Contacts {
        #[command(subcommand)]
        change: Option<ContactsChange>,
        #[command(flatten)]
        at: ControlArgs,
    },
    /// List, add, remove or replace static routes.
    Routes {
        #[command(subcommand)]
        change: Option<RoutesChange>,
        #[command(flatten)]
        at: ControlArgs,
    },
    /// List, add, remove, enable or disable links.
    #[command(after_help = "Examples:\n  farlink node links\n  farlink node links add new-relay.toml\n  \
        farlink node links disable moon --at node-a.control.sock")]
    Links {
        #[command(subcommand)]
        change: Option<LinksChange>,
        #[command(flatten)]
        at: ControlArgs,
    },
    /// List the endpoints that applications registered.
    Registrations(ControlArgs),
    /// Show or set the log level.
    Log {
        /// New level: error, warn, info, debug (one line per bundle event) or trace.
        level: Option<String>,
        #[command(flatten)]
        at: ControlArgs,
    },
    /// Reload the configuration file: links, discovery, plan, routes, quotas, keys, certificates, log level.
    Reload(ControlArgs),
    /// Confirm the clock, if the node distrusts it after a restart.
    ConfirmClock(ControlArgs),
    /// Shut the node down cleanly.
    Shutdown(ControlArgs),
    /// Check, export or import the store of a stopped node.
    Store {
        #[command(subcommand)]
        what: node_store::Args,
    },
    /// Create a certificate authority and node certificates for TLS.
    Certs(certs::Args),
}

#[derive(clap::Args)]
struct ControlArgs {
    /// Control socket of the node, or http://HOST:PORT if it listens on TCP; default: the only `*.control.sock` in this
    /// folder.
    #[arg(long = "at", value_name = "PLACE", global = true)]
    place: Option<String>,
    /// File with the token that the node requires over TCP.
    #[arg(long, value_name = "FILE", global = true)]
    token_file: Option<PathBuf>,
    /// Print one JSON document.
    #[arg(long, global = true)]
    json: bool,
}
impl ControlArgs {
    /// Sends a request to the node; returns the body of a 200 response, or the error.
    fn ask(&self, method: &str, path: &str, body: &str) -> Result<Value, CliError> {
        let place = self.place.clone().map_or_else(only_socket, Ok)?;
        let token = self.token_file.as_ref().map(read).transpose()?;
        // Token files usually end with a line break.
        let (code, answer) = http::request_with(method, &place, token.as_deref().map(str::trim), path, body)?;
        let value: Value = serde_json::from_str(&answer).unwrap_or(Value::Null);
        if code == 200 {
            // All answers of the API are JSON; an empty one becomes null.
            return Ok(value);
        }
        let error = value["error"].as_str().unwrap_or("the node refused the request");
        let hint = value["hint"].as_str().filter(|hint| !hint.is_empty());
        let message = hint.map_or_else(|| error.to_string(), |hint| format!("{error}\nhint: {hint}"));
        // 4xx: the request was wrong (exit 2); 5xx: the node failed (exit 1).
        Err(if code < 500 { CliError::Input(message) } else { CliError::Run(anyhow::anyhow!(message)) })
    }
    /// Fetches a whole list, page by page.
    fn list(&self, path: &str) -> Result<Value, CliError> {
        // Below the API's limit of 10,000: a page shorter than this is the last.
        const PAGE: usize = 1000;
        let mut all = Vec::new();
        loop {
            let page = self.ask("GET", &format!("{path}?limit={PAGE}&offset={}", all.len()), "")?;
            let page = page.as_array().cloned().unwrap_or_default();
            let last = page.len() < PAGE;
            all.extend(page);
            if last {
                return Ok(all.into());
            }
        }
    }
    fn print(&self, value: &Value, print: impl Fn(&Value)) {
        if self.json { println!("{value}") } else { print(value) }
    }
}

/// Name of the only control socket in this folder; an error for no socket, or several.
fn only_socket() -> Result<String, CliError> {
    let found = farlink_apps::while_starting(|| {
        let entries = std::fs::read_dir(".")?.filter_map(Result::ok);
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        let sockets: Vec<String> = names.filter(|name| name.ends_with(".control.sock")).collect();
        if sockets.is_empty() { Err(std::io::ErrorKind::NotFound.into()) } else { Ok(sockets) }
    });
    let mut sockets = found.unwrap_or_default();
    sockets.sort();
    match (sockets.pop(), sockets.is_empty()) {
        (Some(only), true) => Ok(only),
        (None, _) => Err(CliError::Run(anyhow::anyhow!(
            "no node has its control socket in this folder\n\
             hint: is it running? --at names it: NAME.control.sock beside NAME.toml, or http://HOST:PORT of its `[api] \
             listen`"
        ))),
        (Some(last), false) => {
            let all = format!("{}, {last}", sockets.join(", "));
            Err(CliError::Input(format!(
                "several nodes have their control socket here: {all}\nhint: name one with --at"
            )))
        }
    }
}

#[derive(clap::Subcommand)]
enum ContactsChange {
    /// Add the contacts of a plan file (`-`: standard input).
    Add {
        /// Plan in any dialect.
        plan: PathBuf,
    },
    /// Remove the contacts that match those of a plan file in nodes, link and start.
    Remove {
        /// Plan in any dialect.
        plan: PathBuf,
    },
    /// Replace the whole plan.
    Replace {
        /// Plan in any dialect.
        plan: PathBuf,
    },
}

#[derive(clap::Subcommand)]
enum RoutesChange {
    /// Add a route, or replace the one with this pattern.
    Add {
        /// Destination pattern: `ipn:5.*`, `dtn://node/` or `*`.
        pattern: String,
        /// Node ID of the neighbour.
        next_hop: String,
    },
    /// Remove the route with this pattern.
    Remove {
        /// Pattern of the route, as it was added.
        pattern: String,
    },
    /// Replace all routes; each is written `PATTERN=NEXT_HOP`.
    Replace {
        /// The new routes.
        routes: Vec<String>,
    },
}

#[derive(clap::Subcommand)]
enum LinksChange {
    /// Add links, or change links of the same name, from [link.NAME] tables as in a configuration file (`-`: standard
    /// input).
    #[command(
        after_help = "An example file, for a node that has a [layer.tcp]:\n\n  [link.relay]\n  layer = \"tcp\"\n  \
        peer = \"ipn:3.0\"\n  address = \"192.168.1.30:4556\"\n\ndocs/reference/node.md has every key."
    )]
    Add {
        /// File with these tables only.
        links: PathBuf,
    },
    /// Remove a link: its sessions end, its bundles are rerouted or wait.
    Remove {
        /// Its name.
        name: String,
    },
    /// Enable a link for bundles.
    Enable {
        /// Its name.
        name: String,
    },
    /// Disable a link: no bundles are sent over it.
    Disable {
        /// Its name.
        name: String,
    },
}

pub fn run(args: Args) -> Result<(), CliError> {
    if args.keys || args.schema {
        let text = if args.keys { farlink_node::config::example() } else { farlink_node::config::schema() };
        print!("{text}");
        return Ok(());
    }
    match (args.question, args.config) {
        (Some(question), _) => ask(question),
        (None, Some(file)) => {
            // Installed before the configuration is read, so that an early signal is not lost (see `NodeSignals`).
            let signals = if args.check { None } else { Some(NodeSignals::install()?) };
            let found = NodeConfig::look(&file);
            // A start that fails shows them, too: one of them may be why.
            if args.check || found.config.is_none() {
                found.warnings.iter().for_each(|warning| eprintln!("warning: {warning}"));
            }
            let mut config = found.config.ok_or_else(|| {
                let count = found.mistakes.len();
                // Every mistake is listed: a configuration file is short, and so is the list.
                let list: Vec<_> = found.mistakes.iter().map(ToString::to_string).collect();
                let plural = if count == 1 { "mistake" } else { "mistakes" };
                CliError::Input(format!("{count} {plural} in the configuration\n{}", list.join("\n")))
            })?;
            let Some(signals) = signals else { return check(&config) };
            // Not a key of the file: a store must not be taken over at every start.
            config.adopt = args.adopt;
            let load = load(&args.load)?;
            if let Some(report) = farlink_node::run::run(config, &found.warnings, load, signals)? {
                println!("{report}");
            }
            Ok(())
        }
        (None, None) => Err(CliError::Input(
            "a configuration file or a subcommand is needed\n\
             hint: farlink node --config FILE, or farlink node status --at SOCKET; `farlink init two-nodes` writes files"
                .into(),
        )),
    }
}

fn check(config: &NodeConfig) -> Result<(), CliError> {
    let ids: Vec<_> = config.stack.node_ids.iter().map(ToString::to_string).collect();
    farlink_node::run::check(config).map_err(|why| CliError::Input(format!("{}: {why}", config.file.display())))?;
    // On stderr: standard output is for data.
    eprintln!("{}: node {}, no mistakes", config.file.display(), ids.join(" "));
    Ok(())
}

fn load(args: &LoadArgs) -> Result<Option<LoadSettings>, CliError> {
    let wrong =
        |what: &str| CliError::Input(format!("`{what}` cannot be read\nhint: this option belongs to farlink bench"));
    let destination = args.generate.as_ref().map(|text| text.parse().map_err(|_| wrong(text))).transpose()?;
    let rate = args.generate_rate.as_ref().map(|text| text.parse().map_err(|_| wrong(text))).transpose()?;
    // The other options of load have defaults and mean nothing alone.
    if destination.is_none() && args.sink.is_none() {
        return Ok(None);
    }
    Ok(Some(LoadSettings {
        destination,
        size: args.generate_size,
        window: args.generate_window,
        rate,
        duration: std::time::Duration::from_secs_f64(args.generate_seconds),
        sink: args.sink,
    }))
}

fn ask(question: NodeQuery) -> Result<(), CliError> {
    match question {
        NodeQuery::Status(at) => show(&at, "GET", "/status", "", print_status),
        NodeQuery::Bundles { summary: true, at, .. } => {
            let columns = ["destination", "reason", "neighbour", "leaves", "bundles", "bytes", "oldest_ms"];
            show(&at, "GET", "/bundles/summary", "", |rows| table(rows, &columns))
        }
        NodeQuery::Bundles { limit, after, at, .. } => {
            bundles(&at, usize::try_from(limit).unwrap_or(usize::MAX), after)
        }
        NodeQuery::Contacts { change: None, at } => {
            list(&at, "/contacts", &["from", "to", "link", "start_s", "end_s", "rate_bit_s", "one_way_delay_s"])
        }
        NodeQuery::Contacts { change: Some(change), at } => {
            let (method, plan) = match change {
                ContactsChange::Add { plan } => ("POST", plan),
                ContactsChange::Remove { plan } => ("DELETE", plan),
                ContactsChange::Replace { plan } => ("PUT", plan),
            };
            show(&at, method, "/contacts", &read(&plan)?, print_done).map_err(|why| of_file(&plan, why))
        }
        NodeQuery::Routes { change: None, at } => list(&at, "/routes", &["pattern", "next_hop"]),
        NodeQuery::Routes { change: Some(change), at } => {
            let (method, body) = match change {
                RoutesChange::Add { pattern, next_hop } => {
                    ("POST", json!({ "pattern": pattern, "next_hop": next_hop }))
                }
                RoutesChange::Remove { pattern } => ("DELETE", json!({ "pattern": pattern })),
                RoutesChange::Replace { routes } => ("PUT", routes_of(&routes)?),
            };
            show(&at, method, "/routes", &body.to_string(), print_done)?;
            // Only an added or replaced route can lead to a neighbour without a link.
            if method == "DELETE" { Ok(()) } else { tell_of_missing_links(&at) }
        }
        NodeQuery::Links { change: None, at } => {
            at.print(&at.list("/links")?, print_links);
            Ok(())
        }
        NodeQuery::Links { change: Some(change), at } => {
            let enable = |enabled: bool| json!({ "enabled": enabled }).to_string();
            let mut file = None;
            let (method, path, body) = match change {
                LinksChange::Add { links } => {
                    let body = read(&links)?;
                    file = Some(links);
                    ("POST", "/links".into(), body)
                }
                LinksChange::Remove { name } => ("DELETE", link_path(&name), String::new()),
                LinksChange::Enable { name } => ("PUT", link_path(&name), enable(true)),
                LinksChange::Disable { name } => ("PUT", link_path(&name), enable(false)),
            };
            let shown = show(&at, method, &path, &body, print_done);
            match file {
                Some(file) => shown.map_err(|why| of_file(&file, why)),
                None => shown,
            }
        }
        NodeQuery::Registrations(at) => {
            at.print(&at.list("/registrations")?, |v| {
                v.as_array().into_iter().flatten().for_each(|endpoint| println!("{}", plain(endpoint)));
            });
            Ok(())
        }
        NodeQuery::Log { level: None, at } => show(&at, "GET", "/log", "", |v| println!("{}", plain(&v["level"]))),
        NodeQuery::Log { level: Some(level), at } => {
            show(&at, "PUT", "/log", &json!({ "level": level }).to_string(), print_done)
        }
        NodeQuery::Reload(at) => show(&at, "POST", "/reload", "", |value| {
            let keys: Vec<String> = value["needs_restart"].as_array().into_iter().flatten().map(plain).collect();
            match keys.is_empty() {
                true => eprintln!("done"),
                false => eprintln!("done; changed but needs a restart: {}", keys.join(", ")),
            }
        }),
        NodeQuery::ConfirmClock(at) => show(&at, "POST", "/clock", "", print_done),
        NodeQuery::Shutdown(at) => show(&at, "POST", "/shutdown", "", print_done),
        NodeQuery::Store { what } => node_store::run(what),
        NodeQuery::Certs(args) => certs::run(&args),
    }
}

/// Path of a link in the control API, its name percent-encoded (RFC 3986 section 2.1).
fn link_path(name: &str) -> String {
    // The unreserved characters of RFC 3986 section 2.3.
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let escaped = name.bytes().map(|b| if plain(b) { char::from(b).to_string() } else { format!("%{b:02X}") });
    format!("/links/{}", escaped.collect::<String>())
}

fn routes_of(texts: &[String]) -> Result<Value, CliError> {
    let route = |text: &String| match text.split_once('=') {
        Some((pattern, next_hop)) => Ok(json!({ "pattern": pattern, "next_hop": next_hop })),
        None => Err(CliError::Input(format!("`{text}` is not a route\nhint: write 'ipn:5.*=ipn:2.0'"))),
    };
    texts.iter().map(route).collect()
}

fn read(file: &PathBuf) -> Result<String, CliError> {
    if file.as_os_str() == "-" {
        return Ok(std::io::read_to_string(std::io::stdin())?);
    }
    std::fs::read_to_string(file).map_err(|why| {
        let hint = "name a file that can be read, or `-` for standard input";
        CliError::Input(format!("{}: {why}\nhint: {hint}", file.display()))
    })
}

/// Puts the name of a file before a mistake in it, which the node found without knowing the name.
fn of_file(file: &Path, why: CliError) -> CliError {
    match why {
        CliError::Input(why) if file.as_os_str() != "-" => CliError::Input(format!("{}: {why}", file.display())),
        other => other,
    }
}

/// Warns of routes whose next hop no link reaches.
fn tell_of_missing_links(at: &ControlArgs) -> Result<(), CliError> {
    let (routes, links) = (at.list("/routes")?, at.list("/links")?);
    let node = |value: &Value| value.as_str()?.parse::<EndpointId>().ok().map(|id| id.node());
    let list = |value: &Value, key: &str| -> Vec<Value> {
        value.as_array().into_iter().flatten().map(|entry| entry[key].clone()).collect()
    };
    let reached: Vec<_> = list(&links, "peer").iter().filter_map(node).collect();
    let mut told = Vec::new();
    for next_hop in list(&routes, "next_hop") {
        // One warning per next hop, however many routes lead to it.
        if node(&next_hop).is_some_and(|node| !reached.contains(&node)) && !told.contains(&next_hop) {
            let name = plain(&next_hop);
            eprintln!("warning: no link leads to {name}: bundles for it wait\nhint: `farlink node links add` adds one");
            told.push(next_hop);
        }
    }
    Ok(())
}

fn show(at: &ControlArgs, method: &str, path: &str, body: &str, print: impl Fn(&Value)) -> Result<(), CliError> {
    at.print(&at.ask(method, path, body)?, print);
    Ok(())
}

fn list(at: &ControlArgs, path: &str, columns: &[&str]) -> Result<(), CliError> {
    at.print(&at.list(path)?, |rows| table(rows, columns));
    Ok(())
}

/// Prints one page of bundles and mentions if there are more.
fn bundles(at: &ControlArgs, limit: usize, after: u64) -> Result<(), CliError> {
    // One more than is shown reveals whether others follow. `u64::MAX` is a valid limit.
    let asked = limit.saturating_add(1);
    let mut value = at.ask("GET", &format!("/bundles?limit={asked}&after={after}"), "")?;
    let cut = value.as_array_mut().is_some_and(|rows| {
        let cut = rows.len() > limit;
        rows.truncate(limit);
        cut
    });
    let columns = ["bundle", "source", "destination", "payload", "priority", "remaining_ms", "leaves", "waits_for"];
    at.print(&value, |rows| table(rows, &columns));
    let last = value.as_array().and_then(|rows| rows.last());
    if let Some(last) = last.filter(|_| cut) {
        eprintln!("more bundles follow: --after {} shows the next page, --limit sets its length", last["bundle"]);
    }
    Ok(())
}

fn print_done(_: &Value) {
    eprintln!("done");
}

fn print_status(status: &Value) {
    let list = |value: &Value| value.as_array().into_iter().flatten().map(plain).collect::<Vec<_>>().join(" ");
    println!("node           {}", list(&status["node_ids"]));
    println!("version        {}", plain(&status["version"]));
    let size = |value: &Value| value.as_u64().map_or_else(|| "-".into(), |bytes| DataVolume(bytes).to_string());
    let (bytes, most) = (size(&status["bytes"]), size(&status["capacity_bytes"]));
    println!("bundles        {} ({bytes} of {most})", status["bundles"]);
    let strangers = &status["strangers"];
    println!("  of them      {} ({}) unauthenticated", strangers["bundles"], size(&strangers["bytes"]));
    let capacity = size(&status["store_capacity_bytes"]);
    match &status["disk"] {
        Value::Null => println!("store          in memory, capacity {capacity}"),
        disk => {
            let (free, all) = (size(&disk["free_bytes"]), size(&disk["size_bytes"]));
            println!("store          {}, capacity {capacity}; its disk has {free} of {all} free", plain(&disk["dir"]));
            if let Some(full) = disk["full"].as_str() {
                println!("  full         {full}: new bundles are refused\n  hint: {}", plain(&disk["hint"]));
            }
        }
    }
    for quota in status["quotas"].as_array().into_iter().flatten() {
        print_quota(quota);
    }
    print_memory(&status["memory"]);
    println!("contacts       {}", status["contacts"]);
    println!("registrations  {}", list(&status["registrations"]));
    if let Some(security) = status["security"].as_object() {
        let count = |name: &str| security.get(name).map_or(String::new(), |number| format!("{number} {name}"));
        println!("security       {}", ["made", "verified", "failed", "missing"].map(count).join(", "));
    }
    println!("log level      {}", plain(&status["log_level"]));
    if let Some(announcements) = status["announcements"].as_object() {
        let heard = announcements["heard"].as_array().map_or(0, Vec::len);
        let count = |name: &str| announcements.get(name).map(plain).unwrap_or_default();
        println!(
            "announcements  {heard} nodes heard; {} accepted, {} ignored, {} malformed",
            count("wanted"),
            count("unwanted"),
            count("unreadable")
        );
    }
    print_links(&status["links"]);
}

/// Prints links; discovered ones with the age of their announcements, those without a session with their last error.
fn print_links(links: &Value) {
    let mut rows = links.clone();
    let (mut any, mut failed) = (false, false);
    for row in rows.as_array_mut().into_iter().flatten() {
        let seconds = |of: &str, name: &str| row[of][name].as_f64().map(|seconds| seconds.round() as u64);
        let error = row["last_error"]["what"].as_str().zip(seconds("last_error", "ago_s"));
        let error = error.map(|(what, ago)| format!("{ago} s ago: {what}"));
        let heard = seconds("found", "since_s").zip(seconds("found", "silent_s"));
        if let Some((since, silent)) = heard {
            row["found"] = format!("{since} s ago, last heard {silent} s ago").into();
            any = true;
        }
        if let Some(error) = error {
            row["last_error"] = error.into();
            failed = true;
        }
    }
    let mut columns = vec!["name", "peer", "state", "queued", "in_flight"];
    // The last columns are shown only if a link was discovered, or has an error.
    columns.extend(any.then_some("found"));
    columns.extend(failed.then_some("last_error"));
    table(&rows, &columns);
}

/// Prints the usage of a quota and the bundles refused because of it.
fn print_quota(quota: &Value) {
    let texts = |key: &str| quota[key].as_array().into_iter().flatten().map(plain).collect::<Vec<_>>();
    let of = [texts("sources"), texts("neighbours").iter().map(|name| format!("from {name}")).collect()].concat();
    let of_most = |most: &Value| most.as_u64().map_or_else(String::new, |most| format!(" of {most}"));
    let size = |value: &Value| value.as_u64().map(|bytes| DataVolume(bytes).to_string());
    let bundles = of_most(&quota["bundles_max"]);
    let bytes = size(&quota["bytes_max"]).map_or_else(String::new, |most| format!(" of {most}"));
    let strangers = match quota["strangers"]["bundles"].as_u64() {
        Some(strangers @ 1..) => format!("; {strangers} of them unauthenticated, bounded separately"),
        _ => String::new(),
    };
    println!(
        "quota          {}: {}{bundles} bundles, {}{bytes}; {} refused{strangers}",
        of.join(", "),
        quota["bundles"],
        size(&quota["bytes"]).unwrap_or_default(),
        quota["refused"]
    );
}

fn print_memory(memory: &Value) {
    // Null means unknown.
    let bytes = |value: &Value| value.as_u64().map_or_else(|| "-".into(), |n| DataVolume(n).to_string());
    let pressure = match plain(&memory["pressure"]).as_str() {
        "high" => "; scarce: unauthenticated bundles are refused",
        "full" => "; full: all bundles are refused",
        _ => "",
    };
    println!("memory         {} of {}{pressure}", bytes(&memory["in_use"]), bytes(&memory["budget"]));
    for share in memory["shares"].as_array().into_iter().flatten() {
        let (name, limit) = (plain(&share["name"]), bytes(&share["limit"]));
        match share["used"].as_u64() {
            Some(used) => println!("  {name:<26} {} of {limit}", DataVolume(used)),
            None => println!("  {name:<26} at most {limit}"),
        }
    }
}

/// Prints objects as aligned columns.
fn table(rows: &Value, columns: &[&str]) {
    let rows: Vec<Vec<String>> = rows
        .as_array()
        .into_iter()
        .flatten()
        .map(|row| columns.iter().map(|column| plain(&row[*column])).collect())
        .collect();
    let width = |i: usize| rows.iter().map(|row| row[i].chars().count()).chain([columns[i].len()]).max().unwrap_or(0);
    let widths: Vec<_> = (0..columns.len()).map(width).collect();
    let line = |cells: Vec<String>| {
        let cells: Vec<_> = cells.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        // The last column needs no padding.
        println!("{}", cells.join("  ").trim_end());
    };
    line(columns.iter().map(ToString::to_string).collect());
    rows.into_iter().for_each(line);
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => "-".into(),
        other => other.to_string(),
    }
}
