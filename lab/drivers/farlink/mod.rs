//! Driver of Farlink's own node, started as a separate program: `farlink node`, with the applications `farlink send`,
//! `recv` and `ping` attached to its socket. The node's code is not linked here.

mod certificates;
mod configuration;
mod counted;
mod events;
mod lives;

use crate::attached::{self, AppRecords, Attachment};
use crate::driver::{BundleTally, Driver, NodeContext, Program};
use anyhow::{Context, Result};
use counted::Counted;
use events::EventReader;
use farlink_base::exact_duration;
use farlink_events::Word;
use farlink_report::EventRow;
use farlink_scenario::{Fault, FaultKind, LinkChange, Pace, SENDER_SERVICE, Traffic, TrafficKind};
use std::fmt::Display;
use std::fs;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Configuration file in the node's folder.
pub const CONFIGURATION: &str = "node.toml";
/// Contact plan file in the node's folder.
pub const PLAN: &str = "contacts.plan";
/// Event file in the node's folder, with one JSON object per line.
pub const EVENTS: &str = "events.jsonl";
/// Unix socket in the node's folder, to which applications attach.
pub const SOCKET: &str = "farlink.sock";

/// File in the node's folder with the keys that security rules and links name.
pub const KEYS: &str = "node.keys";
/// Socket of the control API, present if the node's links change.
pub const CONTROL: &str = "control.sock";

// Searched for in the log, because no event reports that a node reduced a bound.
const LOG: &str = "node.log";
const LOWERED: &str = "its share of the memory budget";

/// Service of the node's own echo.
pub const ECHO: u32 = 128;
// Maximum number of bundles that a sender hands to the node before the node has accepted the first of them, if the
// scenario sets no limit.
const WINDOW: u32 = 64;

/// Names and texts of the files with which `farlink node` can run a node of the scenario by hand, on a machine outside
/// the testbed: configuration and contact plan.
pub fn node_files(node: &NodeContext<'_>) -> [(&'static str, String); 2] {
    [(CONFIGURATION, configuration::node_toml(node, None)), (PLAN, configuration::contact_plan(node))]
}

/// Driver of one Farlink node, with its state.
#[derive(Debug, Default)]
pub struct Farlink {
    /// Number of bytes of the event file that were counted already.
    seen: u64,
    counted: Counted,
    /// Number of kills, each of which left an event file.
    lives: u32,
    /// Bundles that the node's applications report in their output; used in runs with other implementations.
    records: AppRecords,
}

impl Driver for Farlink {
    fn name(&self) -> &str {
        "farlink"
    }

    fn prepare(&self, node: &NodeContext<'_>) -> Result<Program> {
        let write = |name: &str, text: String| {
            let path = node.folder.join(name);
            fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
        };
        write(CONFIGURATION, configuration::node_toml(node, certificates::make(node)?.as_ref()))?;
        write(PLAN, configuration::contact_plan(node))?;
        if let Some(keys) = configuration::key_file(node) {
            write(KEYS, keys)?;
            // Keys must be readable by their owner only.
            let path = node.folder.join(KEYS);
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600))
                .with_context(|| format!("cannot close {} to others", path.display()))?;
        }
        Ok(Arguments::of_node().run(node))
    }

    fn ready(&self, node: &NodeContext<'_>) -> bool {
        // The node creates the socket once its layers listen. Connecting would be a better test, but the path may be
        // too long.
        node.folder.join(SOCKET).exists()
    }

    fn deviations(&self, node: &NodeContext<'_>) -> Vec<String> {
        let log = fs::read(node.folder.join(LOG)).unwrap_or_default();
        let text = String::from_utf8_lossy(&log);
        let mut found: Vec<String> = Vec::new();
        for line in text.lines().filter(|line| line.contains(LOWERED)) {
            // Time, level and module come first; a report needs only the text.
            let said = line.split_once(": ").map_or(line, |(_, said)| said).to_string();
            // A restarted node repeats the warning.
            if !found.contains(&said) {
                found.push(said);
            }
        }
        found
    }

    fn attachment(&self, _: &NodeContext<'_>) -> Result<Attachment> {
        Ok(Attachment { via: "farlink".into(), at: SOCKET.into(), echo: Some(ECHO) })
    }

    fn receiver(&self, node: &NodeContext<'_>, traffic: usize, into: Option<&Path>) -> Result<Option<Program>> {
        if node.scenario.counts_by_applications() {
            return Ok(attached::receiver(node, traffic, into, &self.attachment(node)?));
        }
        let entry = &node.scenario.traffic[traffic];
        let mut arguments = Arguments::new("recv");
        arguments.option("--service", entry.service);
        match &entry.kind {
            // The node itself answers pings.
            TrafficKind::Ping { .. } => return Ok(None),
            TrafficKind::File { .. } => {
                arguments.option("--files", 1);
                arguments.option("--out", into.context("no folder for the file")?.display());
            }
            TrafficKind::Bundles { count, .. } => {
                arguments.option("--count", count);
                arguments.list.push("--discard".into());
            }
        }
        Ok(Some(arguments.run(node)))
    }

    fn sender(
        &self,
        node: &NodeContext<'_>,
        traffic: usize,
        content: Option<&Path>,
        echo: Option<u32>,
    ) -> Result<Program> {
        if node.scenario.counts_by_applications() {
            return attached::sender(node, traffic, content, &self.attachment(node)?, echo);
        }
        let entry = &node.scenario.traffic[traffic];
        let to = destination(node, entry);
        if let TrafficKind::Ping { count, interval, size } = &entry.kind {
            let mut arguments = Arguments::new("ping");
            arguments.option("--count", count);
            arguments.option("--interval", exact_duration(*interval));
            arguments.option("--size", format!("{} B", size.bytes()));
            // A reply may be late, but never later than the end of the run.
            arguments.option("--timeout", exact_duration(node.scenario.duration));
            arguments.list.push(to);
            return Ok(arguments.run(node));
        }
        let mut arguments = Arguments::new("send");
        arguments.option("--to", to);
        arguments.option("--service", SENDER_SERVICE + traffic as u32);
        arguments.option("--lifetime", exact_duration(entry.lifetime));
        arguments.option("--priority", entry.priority.word());
        arguments.option("--window", if entry.window > 0 { entry.window } else { WINDOW });
        let reports = entry.report_words();
        if !reports.is_empty() {
            arguments.option("--report", reports.join(","));
            arguments.option("--report-to", &node.scenario.nodes[entry.from].ids[0]);
        }
        match &entry.kind {
            TrafficKind::File { bundle_size, pace, .. } => {
                arguments.option("--bundle-size", format!("{} B", bundle_size.bytes()));
                arguments.pace(*pace);
            }
            TrafficKind::Bundles { size, pace, .. } => {
                arguments.list.push("--raw".into());
                arguments.option("--bundle-size", format!("{} B", size.min.bytes()));
                if let Some(sizes) = content.map(|c| c.with_extension("sizes")).filter(|s| s.exists()) {
                    arguments.option("--sizes", sizes.display());
                }
                arguments.pace(*pace);
            }
            TrafficKind::Ping { .. } => {}
        }
        arguments.list.extend(content.map(|c| c.display().to_string()));
        Ok(arguments.run(node))
    }

    fn change_link(&self, node: &NodeContext<'_>, change: LinkChange) -> Result<Program> {
        let name = &node.scenario.links[change.link].name;
        let mut list: Vec<String> = ["node", "links"].map(String::from).to_vec();
        if change.appears {
            let file = format!("link-{name}.toml");
            let path = node.folder.join(&file);
            fs::write(&path, configuration::link_toml(node, change.link))
                .with_context(|| format!("cannot write {}", path.display()))?;
            list.extend(["add".into(), file]);
        } else {
            list.extend(["remove".into(), name.clone()]);
        }
        list.extend(["--at".into(), CONTROL.into()]);
        Ok(Arguments { list }.run(node))
    }

    fn tally(&mut self, node: &NodeContext<'_>) -> BundleTally {
        if node.scenario.counts_by_applications() {
            return self.records.tally(node);
        }
        // Errors mean that nothing new can be read yet; the time limit ends the run at the latest.
        let _ = self.read_on(node);
        self.counted.tally
    }

    fn fell(&mut self, node: &NodeContext<'_>, killed_ns: u64) -> Result<()> {
        self.tally(node);
        lives::put_aside(node, self.lives, killed_ns)?;
        (self.lives, self.seen) = (self.lives + 1, 0);
        self.counted.begin_again();
        Ok(())
    }

    fn again(&mut self, node: &NodeContext<'_>) -> Result<Program> {
        lives::tell_up(node, self.lives.saturating_sub(1))?;
        Ok(Arguments::of_node().run(node))
    }

    fn events(&mut self, node: &NodeContext<'_>, each: &mut dyn FnMut(EventRow) -> Result<()>) -> Result<()> {
        let mut reader = EventReader::new(node.scenario, node.index);
        // One event file for each finished life, then that of the current one.
        let files = (0..self.lives).map(lives::events_of).chain([EVENTS.to_string()]);
        let by_applications = node.scenario.counts_by_applications();
        // Then bundle events of all nodes come from the applications, which identify bundles differently.
        let mut own = |row: EventRow| if by_applications && row.source.is_some() { Ok(()) } else { each(row) };
        for file in files {
            reader.read(&node.folder.join(file), &mut own)?;
        }
        if by_applications { AppRecords::events(node, each) } else { Ok(()) }
    }
}

impl Farlink {
    /// Counts the complete lines written since the last call.
    fn read_on(&mut self, node: &NodeContext<'_>) -> std::io::Result<()> {
        let mut file = fs::File::open(node.folder.join(EVENTS))?;
        file.seek(SeekFrom::Start(self.seen))?;
        let mut text = Vec::new();
        file.read_to_end(&mut text)?;
        let is_restart = |fault: &Fault| fault.kind == FaultKind::Restart { node: node.index };
        let restarts = node.scenario.faults.iter().any(is_restart);
        // The node may still be writing the last line.
        let whole = text.iter().rposition(|b| *b == b'\n').map_or(0, |end| end + 1);
        text[..whole].split(|b| *b == b'\n').for_each(|line| self.counted.count(line, restarts));
        self.seen += whole as u64;
        Ok(())
    }
}

/// Command-line arguments of the `farlink` program.
struct Arguments {
    list: Vec<String>,
}

impl Arguments {
    /// Arguments of the node itself.
    fn of_node() -> Self {
        Arguments { list: ["node", "--config", CONFIGURATION].map(String::from).to_vec() }
    }

    /// Arguments of an application attached to the node.
    fn new(application: &str) -> Self {
        Arguments { list: [application, "--at", SOCKET, "--json"].map(String::from).to_vec() }
    }

    fn option(&mut self, name: &str, value: impl Display) {
        self.list.extend([name.to_string(), value.to_string()]);
    }

    fn pace(&mut self, pace: Pace) {
        match pace {
            Pace::Flat => {}
            Pace::Rate(rate) => self.option("--rate", format!("{} bit/s", rate.bits_per_second())),
            Pace::Interval(interval) => self.option("--interval", exact_duration(interval)),
        }
    }

    fn run(self, node: &NodeContext<'_>) -> Program {
        let mut command = vec![node.program.display().to_string()];
        command.extend(self.list);
        Program { command, ..Program::default() }
    }
}

/// Endpoint ID of the receiving application.
fn destination(node: &NodeContext<'_>, traffic: &Traffic) -> String {
    let id = &node.scenario.nodes[traffic.to].ids[0];
    match traffic.kind {
        TrafficKind::Ping { .. } if !id.starts_with("ipn:") => format!("{id}echo"),
        TrafficKind::Ping { .. } => attached::endpoint(id, ECHO),
        _ => attached::endpoint(id, traffic.service),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farlink_base::DtnTime;
    use farlink_scenario::Scenario;

    #[test]
    fn traffic_becomes_commands() {
        let text = "name = \"s\"\nduration = \"9 s\"\n[[node]]\nname = \"a\"\nid = \"ipn:1.0\"\n[[node]]\nname = \"b\"\n\
            id = \"dtn://b/\"\n[[link]]\nname = \"l\"\nbetween = [\"a\", \"b\"]\nlayer = \"tcpclv4\"\n\
            [[traffic]]\nfrom = \"b\"\nto = \"a\"\nfile = { size = \"9 kB\", bundle_size = \"2 kB\", rate = \"1 Mbit/s\" }\n\
            [[traffic]]\nfrom = \"a\"\nto = \"b\"\nping = { count = 3 }\n\
            [[traffic]]\nfrom = \"a\"\nto = \"b\"\nreports = [\"delivery\", \"deletion\"]\n\
            bundles = { count = 5, size = \"1 kB\", interval = \"20 ms\" }\n";
        let scenario = Scenario::parse(text).unwrap();
        let program = Path::new("/bin/farlink");
        let (folder, epoch) = (Path::new("/tmp"), DtnTime(1));
        let node = NodeContext { scenario: &scenario, index: 0, folder, epoch, program, real_time: true };
        let driver = Farlink::default();
        let line = |p: Program| p.command.join(" ");
        let file = line(driver.sender(&node, 0, Some(Path::new("/f")), None).unwrap());
        for part in [
            "/bin/farlink send --at farlink.sock --json --to ipn:1.1000",
            "--rate 1000000 bit/s",
            "--bundle-size 2000 B /f",
            "--service 10000",
        ] {
            assert!(file.contains(part) || file.ends_with(" /f") && part.ends_with("/f"), "{part}: {file}");
        }
        let ping = line(driver.sender(&node, 1, None, None).unwrap());
        assert!(ping.contains("ping") && ping.ends_with("dtn://b/echo"), "{ping}");
        assert!(driver.receiver(&node, 1, None).unwrap().is_none());
        let bundles = line(driver.sender(&node, 2, Some(Path::new("/c")), None).unwrap());
        assert!(bundles.contains("--raw") && bundles.contains("--interval 20 ms"), "{bundles}");
        assert!(bundles.contains("--report delivery,deletion --report-to ipn:1.0") && !file.contains("--report"));
        let receiver = line(driver.receiver(&node, 2, None).unwrap().unwrap());
        assert!(receiver.contains("recv") && receiver.contains("--service 1002 --count 5 --discard"), "{receiver}");
    }

    #[test]
    fn lowered_bounds_are_read_from_log() {
        let folder = tempfile::tempdir().unwrap();
        let scenario =
            Scenario::parse("name = \"s\"\nduration = \"9 s\"\n[[node]]\nname = \"a\"\nid = \"ipn:1.0\"\n").unwrap();
        let (program, epoch) = (Path::new("x"), DtnTime(1));
        let node =
            NodeContext { scenario: &scenario, index: 0, folder: folder.path(), epoch, program, real_time: true };
        let driver = Farlink::default();
        assert!(driver.deviations(&node).is_empty());
        let lowered = "2026-01-01T00:00:00Z  WARN farlink_node::node: store.capacity is 3 GB, its share of the memory budget, \
                       not 8 GB\nhint: give [limits] memory more\n";
        let ready = "2026-01-01T00:00:00Z  INFO farlink_node::run: node ipn:1.0 serves\n";
        fs::write(folder.path().join(LOG), [lowered, ready, lowered].concat()).unwrap();
        assert_eq!(driver.deviations(&node), ["store.capacity is 3 GB, its share of the memory budget, not 8 GB"]);
    }

    #[test]
    fn tally_resumes_at_last_position() {
        let folder = std::env::temp_dir().join(format!("farlink-tally-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let scenario =
            Scenario::parse("name = \"s\"\nduration = \"9 s\"\n[[node]]\nname = \"a\"\nid = \"ipn:1.0\"\n").unwrap();
        let (program, epoch) = (Path::new("x"), DtnTime(1));
        let node = NodeContext { scenario: &scenario, index: 0, folder: &folder, epoch, program, real_time: true };
        let mut driver = Farlink::default();
        assert_eq!(driver.tally(&node), BundleTally::default());
        let created = "{\"event\":\"created\",\"bundle\":1}\n";
        fs::write(folder.join(EVENTS), format!("{created}{{\"event\":\"deliv")).unwrap();
        assert_eq!(driver.tally(&node), BundleTally { created: 1, delivered: 0 });
        fs::write(folder.join(EVENTS), format!("{created}{{\"event\":\"delivered\",\"bundle\":1}}\n")).unwrap();
        assert_eq!(driver.tally(&node), BundleTally { created: 1, delivered: 1 });
        fs::remove_dir_all(&folder).unwrap();
    }
}
