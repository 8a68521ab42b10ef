//! Applications of runs with several implementations: `farlink app` at every node, through whatever interface the node
//! has. Their output shows which bundles were created and delivered, because other implementations do not report this.

use crate::driver::{BundleTally, NodeContext, Program};
use anyhow::{Context, Result, bail};
use farlink_base::{Priority, Rng, exact_duration};
use farlink_report::{EventRow, SampleRow};
use farlink_scenario::{Pace, SENDER_SERVICE, Scenario, Traffic, TrafficKind};
use serde::Deserialize;
use std::collections::HashSet;
use std::fs::File;
use std::io::{BufRead, BufReader, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// Longest line, in bytes, that is parsed; a longer one cannot be a bundle report.
const LINE_MAX: u64 = 4096;

/// Interface of a node to applications.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Attachment {
    /// Adapter of `farlink app --via`.
    pub via: String,
    /// Address, or path in the node's folder.
    pub at: String,
    /// Service at which the node answers pings; `None` if it answers none.
    pub echo: Option<u32>,
}

/// Endpoint ID of a service at a node.
pub fn endpoint(id: &str, service: u32) -> String {
    match id.strip_prefix("ipn:").and_then(|numbers| numbers.rsplit_once('.')) {
        Some((number, _)) => format!("ipn:{number}.{service}"),
        None => format!("{id}{service}"),
    }
}

/// Number that marks the bundles of a traffic flow.
pub fn flow(scenario: &Scenario, traffic: usize) -> u64 {
    Rng::stream(scenario.seed, 3 << 32 | traffic as u64).next_u64()
}

/// Name of a traffic flow in the names of its applications' files; has the flow's index if another flow has the same
/// name.
pub fn label(scenario: &Scenario, traffic: usize) -> String {
    let name = &scenario.traffic[traffic].name;
    let alone = scenario.traffic.iter().filter(|other| &other.name == name).count() == 1;
    if alone { name.clone() } else { format!("{name}+{traffic}") }
}

/// Program that sends a traffic flow from a node with this interface. `echo` is the service at which the destination
/// node answers pings; if it is `None`, an application at the destination answers them.
///
/// # Errors
/// Traffic that these applications cannot make.
pub fn sender(
    node: &NodeContext<'_>,
    traffic: usize,
    content: Option<&Path>,
    attachment: &Attachment,
    echo: Option<u32>,
) -> Result<Program> {
    let scenario = node.scenario;
    let entry = &scenario.traffic[traffic];
    let to = &scenario.nodes[entry.to];
    check_traffic(entry)?;
    let mut words = Words::new(node, if matches!(entry.kind, TrafficKind::Ping { .. }) { "ping" } else { "send" });
    words.attach(attachment);
    words.option("--source", &endpoint(&scenario.nodes[node.index].ids[0], SENDER_SERVICE + traffic as u32));
    if let TrafficKind::Ping { count, interval, size } = &entry.kind {
        words.option("--to", &endpoint(&to.ids[0], echo.unwrap_or(entry.service)));
        words.option("--count", &count.to_string());
        words.option("--interval", &exact_duration(*interval));
        words.option("--size", &format!("{} B", size.bytes()));
        words.option("--timeout", &exact_duration(scenario.duration));
        return Ok(words.program());
    }
    words.option("--to", &endpoint(&to.ids[0], entry.service));
    words.option("--flow", &flow(scenario, traffic).to_string());
    words.option("--lifetime", &exact_duration(entry.lifetime));
    if entry.window > 0 {
        words.option("--window", &entry.window.to_string());
    }
    let pace = match &entry.kind {
        TrafficKind::File { bundle_size, pace, .. } => {
            words.option("--bundle-size", &format!("{} B", bundle_size.bytes()));
            words.option("--file", &content.context("no file to send")?.display().to_string());
            *pace
        }
        TrafficKind::Bundles { count, size, pace, .. } => {
            words.option("--count", &count.to_string());
            match content.map(|path| path.with_extension("sizes")).filter(|sizes| sizes.exists()) {
                Some(sizes) => words.option("--sizes", &sizes.display().to_string()),
                None => words.option("--size", &format!("{} B", size.min.bytes())),
            }
            *pace
        }
        TrafficKind::Ping { .. } => Pace::Flat,
    };
    match pace {
        Pace::Flat => {}
        Pace::Rate(rate) => words.option("--rate", &format!("{} bit/s", rate.bits_per_second())),
        Pace::Interval(interval) => words.option("--interval", &exact_duration(interval)),
    }
    Ok(words.program())
}

/// Refuses traffic with status reports or a priority, which some interfaces cannot request.
fn check_traffic(entry: &Traffic) -> Result<()> {
    let asked =
        [("status reports", !entry.report_words().is_empty()), ("a priority", entry.priority != Priority::Normal)];
    let Some((what, _)) = asked.iter().find(|(_, asked)| *asked) else { return Ok(()) };
    bail!("traffic `{}` asks for {what}, which not every interface can\nhint: take it out", entry.name)
}

/// Program that receives a traffic flow at a node with this interface; `None` for pings that the node itself answers.
pub fn receiver(
    node: &NodeContext<'_>,
    traffic: usize,
    into: Option<&Path>,
    attachment: &Attachment,
) -> Option<Program> {
    let entry = &node.scenario.traffic[traffic];
    let service = endpoint(&node.scenario.nodes[node.index].ids[0], entry.service);
    let mut words = Words::new(node, "receive");
    words.attach(attachment);
    words.option("--service", &service);
    match &entry.kind {
        TrafficKind::Ping { .. } if attachment.echo.is_some() => return None,
        TrafficKind::Ping { .. } => {
            let mut words = Words::new(node, "echo");
            words.attach(attachment);
            words.option("--service", &service);
            return Some(words.program());
        }
        TrafficKind::File { path, size, .. } => {
            // The received file gets the name of the sent one; a generated one is called by the index of its flow.
            let name = match path {
                Some(path) => path.file_name()?.to_owned(),
                None => format!("{traffic}.sent").into(),
            };
            words.option("--out", &into?.join(name).display().to_string());
            let bytes = match path {
                Some(path) => std::fs::metadata(node.scenario.folder.join(path)).ok()?.len(),
                None => size.bytes(),
            };
            words.option("--file-size", &format!("{bytes} B"));
            // A restarted node does not deliver again what the receiver had before the kill.
            words.0.push("--resume".into());
        }
        TrafficKind::Bundles { count, .. } => words.option("--count", &count.to_string()),
    }
    Some(words.program())
}

/// Command of `farlink app`.
struct Words(Vec<String>);

impl Words {
    fn new(node: &NodeContext<'_>, verb: &str) -> Words {
        let mut words = Words([&node.program.display().to_string(), "app", verb].map(String::from).to_vec());
        // An echo prints nothing.
        words.0.extend((verb != "echo").then(|| "--json".to_string()));
        words
    }
    fn attach(&mut self, attachment: &Attachment) {
        self.option("--via", &attachment.via);
        self.option("--at", &attachment.at);
    }
    fn option(&mut self, name: &str, value: &str) {
        self.0.extend([name.to_string(), value.to_string()]);
    }
    fn program(self) -> Program {
        Program { command: self.0, ..Program::default() }
    }
}

/// Line printed by an application.
#[derive(Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
enum AppLine {
    Created {
        number: u64,
        at_ns: u64,
        bytes: u64,
    },
    Delivered {
        flow: Option<u64>,
        number: Option<u64>,
        at_ns: u64,
        bytes: u64,
    },
    RoundTrip {
        at_ns: u64,
        rtt_s: f64,
    },
    #[serde(other)]
    Other,
}

/// End of a traffic flow that is on a machine outside the testbed, of whose applications nothing is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outside {
    /// Neither end.
    Neither,
    /// The receiver: whether bundles were delivered is not known, and pings are counted by their answers.
    Receiver,
    /// The sender, and perhaps the receiver: bundles count as created once they arrive.
    Sender,
}

impl Outside {
    /// The end of this traffic flow.
    pub fn of(scenario: &Scenario, traffic: usize) -> Outside {
        let entry = &scenario.traffic[traffic];
        match [entry.from, entry.to].map(|node| scenario.nodes[node].host.is_outside()) {
            [true, _] => Outside::Sender,
            [false, true] => Outside::Receiver,
            [false, false] => Outside::Neither,
        }
    }
}

/// Number of bundles that arrived at a node from machines outside the testbed, for each traffic flow with any.
pub fn arrivals_from_outside(node: &NodeContext<'_>) -> Result<Vec<(usize, u64)>> {
    let mut arrivals = Vec::new();
    for (traffic, file) in outputs(node) {
        let entry = &node.scenario.traffic[traffic];
        if Outside::of(node.scenario, traffic) != Outside::Sender || entry.to != node.index {
            continue;
        }
        let Ok(file) = File::open(&file) else { continue };
        let mut count = 0;
        lines(&mut BufReader::new(file), |line| count += u64::from(matches!(line, AppLine::Delivered { .. })))?;
        arrivals.push((traffic, count));
    }
    Ok(arrivals)
}

/// Bundles that the applications of one node created and received, as read from their output.
#[derive(Debug, Default)]
pub struct AppRecords {
    /// Number of bytes read of each application's output file.
    seen: Vec<(PathBuf, u64)>,
    /// Traffic flow and number of each bundle delivered here, so that repeated deliveries count once.
    delivered: HashSet<(usize, u64)>,
    /// Number of deliveries of payloads too short for an identity.
    anonymous: u64,
    tally: BundleTally,
}

impl AppRecords {
    /// Reads the applications' new output, and returns the counts since the start.
    pub fn tally(&mut self, node: &NodeContext<'_>) -> BundleTally {
        for (traffic, file) in outputs(node) {
            // An error means that nothing new can be read yet; the time limit ends the run at the latest.
            let _ = self.read_on(node, traffic, &file);
        }
        BundleTally { delivered: self.tally.delivered + self.anonymous, ..self.tally }
    }

    fn read_on(&mut self, node: &NodeContext<'_>, traffic: usize, file: &Path) -> std::io::Result<()> {
        let known = self.seen.iter().position(|(path, _)| path == file);
        let place = known.unwrap_or_else(|| {
            self.seen.push((file.to_path_buf(), 0));
            self.seen.len() - 1
        });
        let mut reader = BufReader::new(File::open(file)?);
        reader.seek(SeekFrom::Start(self.seen[place].1))?;
        let ends = Outside::of(node.scenario, traffic);
        let end = lines(&mut reader, |line| {
            match line {
                AppLine::Created { .. } if ends == Outside::Receiver => {}
                AppLine::Delivered { .. } if ends == Outside::Sender => {
                    self.tally.created += 1;
                    self.tally.delivered += 1;
                }
                AppLine::Created { .. } => self.tally.created += 1,
                AppLine::Delivered { flow: Some(flow), number: Some(number), .. } => {
                    let flow = (0..node.scenario.traffic.len()).find(|index| self::flow(node.scenario, *index) == flow);
                    if flow.is_some_and(|flow| self.delivered.insert((flow, number))) {
                        self.tally.delivered += 1;
                    }
                }
                // Payloads too short for an identity can only be counted.
                AppLine::Delivered { .. } => self.anonymous += 1,
                AppLine::RoundTrip { .. } => {
                    self.tally.created += 1;
                    self.tally.delivered += 1;
                }
                AppLine::Other => {}
            }
        })?;
        self.seen[place].1 += end;
        Ok(())
    }

    /// Calls `each` with an event for every bundle created or delivered at the node, by its applications.
    ///
    /// # Errors
    /// Those of `each`, and outputs that cannot be read.
    pub fn events(node: &NodeContext<'_>, each: &mut dyn FnMut(EventRow) -> Result<()>) -> Result<()> {
        let scenario = node.scenario;
        let mut rows = Vec::new();
        // Of the others nobody knows whether, or when, they were created or delivered.
        let inside = |(traffic, _): &(usize, PathBuf)| Outside::of(scenario, *traffic) == Outside::Neither;
        for (traffic, file) in outputs(node).into_iter().filter(inside) {
            let Ok(file) = File::open(&file) else { continue };
            let here = &scenario.nodes[node.index].name;
            lines(&mut BufReader::new(file), |line| {
                let (name, traffic, number, at_ns, bytes) = match line {
                    AppLine::Created { number, at_ns, bytes } => ("created", traffic, number, at_ns, bytes),
                    AppLine::Delivered { flow: Some(flow), number: Some(number), at_ns, bytes } => {
                        let of = (0..scenario.traffic.len()).find(|index| self::flow(scenario, *index) == flow);
                        let Some(of) = of else { return };
                        ("delivered", of, number, at_ns, bytes)
                    }
                    _ => return,
                };
                let entry = &scenario.traffic[traffic];
                let mut row = EventRow::new(at_ns, here.as_str().into(), name);
                row.source = Some(scenario.nodes[entry.from].name.as_str().into());
                row.service = Some((SENDER_SERVICE + traffic as u32).into());
                // Senders number their bundles; only their node knows the creation time.
                row.creation_ms = Some(0);
                row.sequence = Some(number);
                row.destination = Some(scenario.nodes[entry.to].name.as_str().into());
                row.destination_service = Some(entry.service.into());
                row.size = Some(bytes);
                rows.push(row);
            })?;
        }
        rows.sort_by_key(|row| row.time_ns);
        rows.into_iter().try_for_each(each)
    }
}

/// Round-trip times that applications printed, as samples of their nodes; times are on the monotonic clock.
///
/// # Errors
/// Outputs that cannot be read.
pub fn round_trips(node: &NodeContext<'_>) -> Result<Vec<SampleRow>> {
    let mut samples = Vec::new();
    for (_, file) in outputs(node) {
        let Ok(file) = File::open(&file) else { continue };
        lines(&mut BufReader::new(file), |line| {
            if let AppLine::RoundTrip { at_ns, rtt_s } = line {
                samples.push(SampleRow {
                    time_ns: at_ns,
                    node: Some(node.scenario.nodes[node.index].name.as_str().into()),
                    link: None,
                    metric: farlink_report::schema::ROUND_TRIP_S.into(),
                    value: rtt_s,
                    phase: None,
                });
            }
        })?;
    }
    Ok(samples)
}

/// Output files of the node's applications, with the indexes of their traffic flows; restarted applications have a
/// number in these names.
fn outputs(node: &NodeContext<'_>) -> Vec<(usize, PathBuf)> {
    let entries = std::fs::read_dir(node.folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort_unstable();
    let traffic = node.scenario.traffic.iter().enumerate();
    let ends = traffic.flat_map(|(index, entry)| {
        [(entry.from, "-sender.out"), (entry.to, "-receiver.out")]
            .map(|(at, end)| (at, index, label(node.scenario, index), end))
    });
    let here = ends.filter(|(at, ..)| *at == node.index);
    let of = |(_, index, name, end): (usize, usize, String, &str)| {
        let is_output = |file: &&String| {
            let life = file.strip_suffix(end).and_then(|rest| rest.strip_prefix(name.as_str()));
            life.is_some_and(|life| life.is_empty() || life.strip_prefix('-').is_some_and(is_number))
        };
        let own: Vec<_> = names.iter().filter(is_output).map(|file| (index, node.folder.join(file))).collect();
        own
    };
    here.flat_map(of).collect()
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Calls `each` for every complete line; returns their length in bytes. Lines that are no reports count as `Other`.
fn lines(reader: &mut impl BufRead, mut each: impl FnMut(AppLine)) -> std::io::Result<u64> {
    let (mut end, mut line) = (0, Vec::new());
    loop {
        line.clear();
        let read = std::io::Read::take(&mut *reader, LINE_MAX).read_until(b'\n', &mut line)?;
        if read == 0 || (line.last() != Some(&b'\n') && (read as u64) < LINE_MAX) {
            return Ok(end);
        }
        end += read as u64;
        each(serde_json::from_slice(&line).unwrap_or(AppLine::Other));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farlink_base::DtnTime;

    const SCENARIO: &str = "name = \"s\"\nduration = \"9 s\"\n\
        [[node]]\nname = \"a\"\nid = \"ipn:1.0\"\n[[node]]\nname = \"b\"\nid = \"ipn:2.0\"\nimplementation = \"toy\"\n\
        [[link]]\nname = \"l\"\nbetween = [\"a\", \"b\"]\nlayer = \"tcpclv4\"\n\
        [[traffic]]\nname = \"t\"\nfrom = \"a\"\nto = \"b\"\nbundles = { count = 3, size = \"1 kB\" }\n\
        [[traffic]]\nname = \"p\"\nfrom = \"b\"\nto = \"a\"\nping = { count = 2 }\n";

    fn with_node<T>(index: usize, folder: &Path, what: impl FnOnce(&NodeContext<'_>) -> T) -> T {
        let scenario = Scenario::parse(SCENARIO).unwrap();
        let program = Path::new("/bin/farlink");
        what(&NodeContext { scenario: &scenario, index, folder, epoch: DtnTime(1), program, real_time: true })
    }

    fn delivered(flow: u64, number: u64, at_ns: u64) -> String {
        format!("{{\"event\":\"delivered\",\"flow\":{flow},\"number\":{number},\"at_ns\":{at_ns},\"bytes\":9}}\n")
    }

    #[test]
    fn deliveries_count_once_over_lives() {
        let dir = tempfile::tempdir().unwrap();
        with_node(1, dir.path(), |node| {
            let flow = flow(node.scenario, 0);
            let mut records = AppRecords::default();
            assert_eq!(records.tally(node), BundleTally::default());
            let first = delivered(flow, 0, 5) + &delivered(flow, 0, 6) + "{\"event\":\"deliv";
            std::fs::write(dir.path().join("t-receiver.out"), first).unwrap();
            std::fs::write(dir.path().join("other-receiver.out"), delivered(flow, 9, 5)).unwrap();
            assert_eq!(records.tally(node).delivered, 1);
            std::fs::write(dir.path().join("t-2-receiver.out"), delivered(flow, 0, 7) + &delivered(flow, 1, 8))
                .unwrap();
            assert_eq!(records.tally(node).delivered, 2);
            // Bundles of another run do not count.
            std::fs::write(dir.path().join("t-3-receiver.out"), delivered(flow ^ 1, 2, 9)).unwrap();
            assert_eq!(records.tally(node), BundleTally { created: 0, delivered: 2 });
        });
    }

    #[test]
    fn lines_become_events_with_one_identity() {
        let dir = tempfile::tempdir().unwrap();
        let events = |index: usize| {
            with_node(index, dir.path(), |node| {
                let mut rows = Vec::new();
                AppRecords::events(node, &mut |row| {
                    rows.push(row);
                    Ok(())
                })
                .unwrap();
                rows
            })
        };
        let flow = flow(&Scenario::parse(SCENARIO).unwrap(), 0);
        let created =
            format!("{{\"event\":\"created\",\"flow\":{flow},\"number\":4,\"at_ns\":70,\"bytes\":1000}}\nnoise\n");
        std::fs::write(dir.path().join("t-sender.out"), created).unwrap();
        std::fs::write(dir.path().join("t-receiver.out"), delivered(flow, 4, 90)).unwrap();
        let (sent, came) = (events(0), events(1));
        assert_eq!((sent.len(), came.len()), (1, 1));
        let identity = |row: &EventRow| (row.source.clone(), row.service, row.creation_ms, row.sequence);
        assert_eq!(identity(&sent[0]), identity(&came[0]));
        assert_eq!((&*sent[0].event, &*came[0].event, came[0].time_ns), ("created", "delivered", 90));
        assert_eq!(sent[0].destination_service, Some(1000));
    }

    #[test]
    fn traffic_beyond_interfaces_is_refused() {
        let attachment = Attachment { via: "frames".into(), at: "x".into(), echo: None };
        for (key, said) in [("reports = [\"delivery\"]", "status reports"), ("priority = \"expedited\"", "a priority")]
        {
            let flow = format!("[[traffic]]\n{key}\nname = \"t\"");
            let scenario = Scenario::parse(&SCENARIO.replace("[[traffic]]\nname = \"t\"", &flow)).unwrap();
            let (folder, program) = (Path::new("/run/a"), Path::new("/bin/farlink"));
            let node =
                NodeContext { scenario: &scenario, index: 0, folder, epoch: DtnTime(1), program, real_time: true };
            let why = sender(&node, 0, None, &attachment, None).unwrap_err().to_string();
            assert!(why.contains(&format!("traffic `t` asks for {said}")) && why.contains("hint: "), "{why}");
        }
    }

    #[test]
    fn pings_are_samples_and_find_an_echo_service() {
        let dir = tempfile::tempdir().unwrap();
        with_node(1, dir.path(), |node| {
            let line = "{\"event\":\"round_trip\",\"number\":0,\"at_ns\":50,\"rtt_s\":0.25}\n";
            std::fs::write(dir.path().join("p-sender.out"), line).unwrap();
            let samples = round_trips(node).unwrap();
            assert_eq!((samples.len(), samples[0].value), (1, 0.25));
            let attachment = Attachment { via: "frames".into(), at: "x".into(), echo: None };
            let ping = sender(node, 1, None, &attachment, None).unwrap().command.join(" ");
            assert!(ping.contains("--to ipn:1.128 "), "{ping}");
            let ping = sender(node, 1, None, &attachment, Some(7)).unwrap().command.join(" ");
            assert!(
                ping.contains("app ping --json --via frames --at x") && ping.contains("--to ipn:1.7 --count 2"),
                "{ping}"
            );
        });
        with_node(0, dir.path(), |node| {
            let attachment = Attachment { via: "frames".into(), at: "x".into(), echo: None };
            let echo = receiver(node, 1, None, &attachment).unwrap().command.join(" ");
            assert_eq!(echo, "/bin/farlink app echo --via frames --at x --service ipn:1.128");
            assert!(receiver(node, 1, None, &Attachment { echo: Some(7), ..attachment }).is_none());
        });
    }
}
