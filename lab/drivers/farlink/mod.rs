//! Our own node, started as the program it is: `farlink node`, with the applications `farlink send`,
//! `recv` and `ping` attached to its socket. Nothing of it is linked here.

mod configuration;
mod events;

use crate::driver::{Driver, NodeContext, Program, Tally};
use anyhow::{Context, Result};
use events::EventReader;
use farlink_base::Priority;
use farlink_report::EventRow;
use farlink_scenario::{Pace, Traffic, TrafficKind};
use std::fs;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

/// Names of files in the node's folder.
pub const CONFIGURATION: &str = "node.toml";
/// Contact plan.
pub const PLAN: &str = "contacts.plan";
/// Events, a JSON line each.
pub const EVENTS: &str = "events.jsonl";
/// Where applications attach.
pub const SOCKET: &str = "farlink.sock";

/// Service that traffic entry 0 is sent from; the simulator uses the same.
const FIRST_SERVICE: u32 = 10_000;

/// Runs one node of ours.
#[derive(Debug, Default)]
pub struct Farlink {
    /// How far the events file was looked at.
    seen: u64,
    tally: Tally,
}

impl Driver for Farlink {
    fn name(&self) -> &'static str {
        "farlink"
    }

    fn prepare(&self, node: &NodeContext<'_>) -> Result<Program> {
        let write = |name: &str, text: String| {
            let path = node.folder.join(name);
            fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
        };
        write(CONFIGURATION, configuration::node_toml(node))?;
        write(PLAN, configuration::contact_plan(node))?;
        Ok(run(node, &["node", "--config", CONFIGURATION]))
    }

    fn ready(&self, node: &NodeContext<'_>) -> bool {
        // Made by the node once its layers listen. Its path may be too long to connect to from here.
        node.folder.join(SOCKET).exists()
    }

    fn receiver(&self, node: &NodeContext<'_>, traffic: usize, file: Option<&Path>) -> Option<Program> {
        let entry = &node.scenario.traffic[traffic];
        let service = entry.service.to_string();
        match (&entry.kind, file) {
            (TrafficKind::Ping { .. }, _) => None,
            (_, Some(file)) => {
                let file = file.display().to_string();
                Some(run(node, &["recv", "--at", SOCKET, "--service", &service, "--file", &file, "--json"]))
            }
            (_, None) => Some(run(node, &["recv", "--at", SOCKET, "--service", &service, "--discard", "--json"])),
        }
    }

    fn sender(&self, node: &NodeContext<'_>, traffic: usize, file: Option<&Path>) -> Program {
        let entry = &node.scenario.traffic[traffic];
        let mut arguments = vec![verb(entry).to_string(), "--at".into(), SOCKET.into(), "--json".into()];
        let mut option = |name: &str, value: String| arguments.extend([name.to_string(), value]);
        option("--service", (FIRST_SERVICE + traffic as u32).to_string());
        option("--lifetime", configuration::duration(entry.lifetime));
        option("--priority", priority_name(entry.priority).into());
        if entry.window > 0 {
            option("--window", entry.window.to_string());
        }
        match &entry.kind {
            TrafficKind::File { bundle_size, pace, .. } => {
                option("--bundle-size", format!("{} B", bundle_size.bytes()));
                pace_options(*pace, &mut option);
            }
            TrafficKind::Bundles { count, size, pace } => {
                option("--count", count.to_string());
                option("--size", format!("{} B", size.min.bytes()));
                if size.max != size.min {
                    option("--size-max", format!("{} B", size.max.bytes()));
                    option("--seed", node.scenario.seed.to_string());
                }
                pace_options(*pace, &mut option);
            }
            TrafficKind::Ping { count, interval, size } => {
                option("--count", count.to_string());
                option("--interval", configuration::duration(*interval));
                option("--size", format!("{} B", size.bytes()));
            }
        }
        arguments.push(destination(node, entry));
        arguments.extend(file.map(|f| f.display().to_string()));
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        run(node, &arguments)
    }

    fn tally(&mut self, node: &NodeContext<'_>) -> Tally {
        // Errors mean "nothing new yet"; the run ends by its time limit at the latest.
        let _ = self.read_on(&node.folder.join(EVENTS));
        self.tally
    }

    fn events(&mut self, node: &NodeContext<'_>, each: &mut dyn FnMut(EventRow) -> Result<()>) -> Result<()> {
        EventReader::new(node.scenario, node.index).read(&node.folder.join(EVENTS), each)
    }
}

impl Farlink {
    /// Looks at the whole lines the node has written since the last time.
    fn read_on(&mut self, path: &Path) -> std::io::Result<()> {
        let mut file = fs::File::open(path)?;
        file.seek(SeekFrom::Start(self.seen))?;
        let mut text = Vec::new();
        file.read_to_end(&mut text)?;
        let whole = text.iter().rposition(|b| *b == b'\n').map_or(0, |end| end + 1);
        for line in text[..whole].split(|b| *b == b'\n') {
            let has = |word: &[u8]| line.windows(word.len()).any(|w| w == word);
            if has(b"\"event\":\"created\"") {
                self.tally.created += 1;
            } else if has(b"\"event\":\"delivered\"") {
                self.tally.delivered += 1;
            }
        }
        self.seen += whole as u64;
        Ok(())
    }
}

fn run(node: &NodeContext<'_>, arguments: &[&str]) -> Program {
    let mut command = vec![node.program.display().to_string()];
    command.extend(arguments.iter().map(|a| a.to_string()));
    Program { command, ..Program::default() }
}

fn verb(traffic: &Traffic) -> &'static str {
    match traffic.kind {
        TrafficKind::File { .. } => "send",
        TrafficKind::Bundles { .. } => "perf",
        TrafficKind::Ping { .. } => "ping",
    }
}

fn pace_options(pace: Pace, option: &mut impl FnMut(&str, String)) {
    match pace {
        Pace::Flat => {}
        Pace::Rate(rate) => option("--rate", format!("{} bit/s", rate.bits_per_second())),
        Pace::Interval(interval) => option("--interval", configuration::duration(interval)),
    }
}

/// Endpoint ID of the receiving application.
fn destination(node: &NodeContext<'_>, traffic: &Traffic) -> String {
    let service = match traffic.kind {
        TrafficKind::Ping { .. } => 128,
        _ => traffic.service,
    };
    let id = &node.scenario.nodes[traffic.to].ids[0];
    match id.strip_prefix("ipn:").and_then(|numbers| numbers.rsplit_once('.')) {
        Some((number, _)) => format!("ipn:{number}.{service}"),
        None if service == 128 => format!("{id}echo"),
        None => format!("{id}{service}"),
    }
}

fn priority_name(priority: Priority) -> &'static str {
    match priority {
        Priority::Bulk => "bulk",
        Priority::Normal => "normal",
        Priority::Expedited => "expedited",
    }
}
