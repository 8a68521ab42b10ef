//! Trace of one world, node by node: the ordered decisions about each bundle, and the segments of each LTP session. The
//! lines have the format of `node/src/events.rs` in both worlds, so that the same code reads both.

use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

/// Identity of a bundle that is the same in both worlds: its source endpoint, its place among the bundles created
/// there, and its fragment (offset, length; 0, 0 for a whole bundle).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Bundle {
    source: String,
    place: usize,
    fragment: (u64, u64),
}
impl fmt::Display for Bundle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "bundle {} of {}", self.place, self.source)?;
        match self.fragment {
            (0, 0) => Ok(()),
            (offset, length) => write!(f, " (fragment {offset}+{length})"),
        }
    }
}

/// One LTP session: originating engine, number.
pub type Session = (u64, u64);

/// An event with its time from the start of the run.
#[derive(Clone, Debug)]
pub struct Step {
    /// Time of the event, compared only to find stalls of this machine.
    pub at: Duration,
    /// Event and all its fields.
    pub what: String,
}

/// One node of one world.
#[derive(Default, Debug)]
pub struct NodeTrace {
    /// Decisions in order; those about no bundle are under `None`.
    pub decisions: BTreeMap<Option<Bundle>, Vec<Step>>,
    /// For each session, in sorted order: segments sent (each as often as it was sent, except resends by a timer),
    /// segments that arrived (each once), and how the session ended.
    pub sessions: BTreeMap<Session, Vec<String>>,
    /// Changes of links, at the same times in both worlds.
    pub links: Vec<Step>,
}

/// Creation time and sequence number of the bundles of each source, in order; a bundle's position in it is its `place`.
struct TraceNames(BTreeMap<String, BTreeSet<(u64, u64)>>);

impl TraceNames {
    fn of(nodes: &[Vec<Map<String, Value>>]) -> TraceNames {
        let mut names: BTreeMap<String, BTreeSet<_>> = BTreeMap::new();
        for line in nodes.iter().flatten().filter(|line| line["event"] == "seen") {
            names
                .entry(text(line, "source"))
                .or_default()
                .insert((number(line, "created_ms"), number(line, "sequence")));
        }
        TraceNames(names)
    }
    fn bundle(&self, line: &Map<String, Value>) -> Option<Bundle> {
        let source = text(line, "source");
        let key = (number(line, "created_ms"), number(line, "sequence"));
        let place = 1 + self.0.get(&source)?.iter().position(|known| *known == key)?;
        Some(Bundle { source, place, fragment: (number(line, "fragment_offset"), number(line, "fragment_length")) })
    }
}

fn text(line: &Map<String, Value>, key: &str) -> String {
    line.get(key).and_then(Value::as_str).unwrap_or_default().to_string()
}
fn number(line: &Map<String, Value>, key: &str) -> u64 {
    line.get(key).and_then(Value::as_u64).unwrap_or_default()
}

/// Reads the lines of all nodes of a world whose run began at `start_utc_ns` and lasted `duration`.
pub fn read(nodes: &[Vec<String>], start_utc_ns: u64, duration: Duration) -> Vec<NodeTrace> {
    let parse = |line: &String| match serde_json::from_str(line) {
        Ok(Value::Object(line)) => line,
        other => panic!("{line} is not an event: {other:?}"),
    };
    let nodes: Vec<Vec<Map<String, Value>>> = nodes.iter().map(|lines| lines.iter().map(parse).collect()).collect();
    let names = TraceNames::of(&nodes);
    let end = start_utc_ns + duration.as_nanos() as u64;
    nodes.iter().map(|lines| node(lines, &names, start_utc_ns, end)).collect()
}

fn node(lines: &[Map<String, Value>], names: &TraceNames, start: u64, end: u64) -> NodeTrace {
    let mut trace = NodeTrace::default();
    let mut bundles: BTreeMap<u64, Option<Bundle>> = BTreeMap::new();
    for line in lines.iter().filter(|line| number(line, "utc_ns") <= end) {
        if line["event"] == "seen" {
            bundles.insert(number(line, "bundle"), names.bundle(line));
        }
        let known = |key: &str| bundles.get(&line.get(key)?.as_u64()?).cloned().flatten();
        let at = Duration::from_nanos(number(line, "utc_ns").saturating_sub(start));
        match line["event"].as_str().unwrap_or_default() {
            // Steps of the clock are no decisions; they appear as a stall of the run.
            "clock_stepped" => {}
            "link_up" | "link_down" => trace.links.push(Step { at, what: sentence(line, None) }),
            "ltp_segment" | "ltp_session_end" => segment(line, &mut trace.sessions),
            _ => {
                let bundle = known("bundle").or_else(|| names.bundle(line));
                let what = sentence(line, known("into"));
                trace.decisions.entry(bundle).or_default().push(Step { at, what });
            }
        }
    }
    // Sorted, since segments sent at one moment may overtake each other on a real network.
    trace.sessions.values_mut().for_each(|segments| segments.sort());
    trace
}

fn segment(line: &Map<String, Value>, sessions: &mut BTreeMap<Session, Vec<String>>) {
    let segments = sessions.entry((number(line, "engine"), number(line, "session"))).or_default();
    if line.get("resend") == Some(&Value::Bool(true)) {
        return;
    }
    let what = sentence(line, None);
    // A receiver cannot distinguish a timer's resend from the first copy: arrivals are a set.
    if line.get("sent") == Some(&Value::Bool(true)) || !segments.contains(&what) {
        segments.push(what);
    }
}

/// Event and fields, without times and without the numbers that name bundles and sessions.
fn sentence(line: &Map<String, Value>, into: Option<Bundle>) -> String {
    const NAMING: [&str; 15] = [
        "event",
        "time_ns",
        "utc_ns",
        "node",
        "bundle",
        "into",
        "source",
        "created_ms",
        "sequence",
        "fragment_offset",
        "fragment_length",
        "engine",
        "session",
        "resend",
        "step_ms",
    ];
    let fields = line.iter().filter(|(key, _)| !NAMING.contains(&key.as_str()));
    let fields = fields.map(|(key, value)| match value {
        Value::String(text) => format!(" {key}={text}"),
        other => format!(" {key}={other}"),
    });
    let into = into.map(|bundle| format!(" into {bundle}")).unwrap_or_default();
    text(line, "event") + &fields.collect::<String>() + &into
}
