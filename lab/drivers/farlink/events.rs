//! The node's events file (a JSON object per line, see `node/src/events.rs`) as rows of the run.

use anyhow::{Context, Result};
use farlink_report::EventRow;
use farlink_scenario::Scenario;
use serde::Deserialize;
use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

/// One line. Fields that an event does not have are absent.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Line {
    time_ns: u64,
    event: String,
    bundle: Option<u64>,
    into: Option<u64>,
    link: Option<String>,
    source: Option<String>,
    created_ms: Option<u64>,
    sequence: Option<u64>,
    fragment_offset: Option<u64>,
    destination: Option<String>,
    payload: Option<u64>,
    size: Option<u64>,
    priority: Option<String>,
    from: Option<String>,
    next_hop: Option<String>,
    peer: Option<String>,
    reason: Option<String>,
    engine: Option<u64>,
    session: Option<u64>,
    kind: Option<u64>,
    offset: Option<u64>,
    length: Option<u64>,
    len: Option<u64>,
    file: Option<u64>,
    checkpoint: Option<u64>,
    report: Option<u64>,
    sent: Option<bool>,
    resend: Option<bool>,
    cancelled: Option<bool>,
    step_ms: Option<i64>,
}

/// Identity of a bundle, from its first line.
struct Known {
    source: Option<(String, u64)>,
    created_ms: Option<u64>,
    sequence: Option<u64>,
    fragment_offset: Option<u64>,
    destination: Option<(String, u64)>,
    payload: Option<u64>,
    size: Option<u64>,
    priority: Option<String>,
}

/// Reads the events of one node.
pub struct EventReader {
    node: String,
    names: HashMap<u64, String>,
    bundles: HashMap<u64, Known>,
}

impl EventReader {
    pub fn new(scenario: &Scenario, index: usize) -> Self {
        let names = scenario.nodes.iter().map(|n| (n.number.0, n.name.clone())).collect();
        EventReader { node: scenario.nodes[index].name.clone(), names, bundles: HashMap::new() }
    }

    /// Gives each row; a last line that was not finished is left out.
    pub fn read(&mut self, path: &Path, each: &mut dyn FnMut(EventRow) -> Result<()>) -> Result<()> {
        let file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
        let mut reader = BufReader::with_capacity(1 << 20, file);
        let mut text = String::new();
        let mut number = 0;
        while reader.read_line(&mut text)? > 0 && text.ends_with('\n') {
            number += 1;
            let line: Line =
                serde_json::from_str(&text).with_context(|| format!("{} line {number}", path.display()))?;
            if let Some(row) = self.row(line) {
                each(row)?;
            }
            text.clear();
        }
        Ok(())
    }

    fn row(&mut self, line: Line) -> Option<EventRow> {
        if line.event == "seen" {
            let known = Known {
                source: line.source.map(|s| self.endpoint(&s)),
                created_ms: line.created_ms,
                sequence: line.sequence,
                fragment_offset: line.fragment_offset,
                destination: line.destination.map(|d| self.endpoint(&d)),
                payload: line.payload,
                size: line.size,
                priority: line.priority,
            };
            self.bundles.insert(line.bundle?, known);
            return None;
        }
        let mut row = EventRow::new(line.time_ns, self.node.as_str().into(), &line.event);
        row.link = line.link.as_ref().map(|l| l.replace("dynamic:", "dynamic-").into());
        let peer = line.from.as_ref().or(line.next_hop.as_ref()).or(line.peer.as_ref());
        row.peer = peer.map(|p| self.endpoint(p).0.into());
        row.reason = line.reason.as_ref().map(|r| r.as_str().into());
        if let Some(bundle) = line.into.or(line.bundle) {
            self.about(&mut row, bundle);
            if line.event == "deleted" {
                self.bundles.remove(&bundle);
            }
        }
        self.details(&mut row, &line);
        Some(row)
    }

    fn about(&self, row: &mut EventRow, bundle: u64) {
        let Some(known) = self.bundles.get(&bundle) else { return };
        let (source, service) = known.source.clone().unzip();
        let (destination, destination_service) = known.destination.clone().unzip();
        row.source = source.map(Into::into);
        row.service = service;
        row.creation_ms = known.created_ms;
        row.sequence = known.sequence;
        row.fragment_offset = known.fragment_offset;
        row.destination = destination.map(Into::into);
        row.destination_service = destination_service;
        row.size = known.payload;
        row.priority = known.priority.as_deref().map(Into::into);
        row.bundle_bytes = known.size;
    }

    /// What belongs to events of one kind only.
    fn details(&self, row: &mut EventRow, line: &Line) {
        match line.event.as_str() {
            "refused" => {
                let (source, service) = line.source.as_ref().map(|s| self.endpoint(s)).unzip();
                row.source = source.map(Into::into);
                row.service = service;
                row.creation_ms = line.created_ms;
                row.sequence = line.sequence;
                row.fragment_offset = line.fragment_offset;
                row.reason = line.reason.as_ref().map(|r| r.replace('_', " ").into());
            }
            "malformed" => row.offset = line.offset,
            "ltp_segment" => {
                row.engine = line.engine;
                row.session = line.session;
                row.segment = line.kind;
                row.offset = line.offset;
                row.size = line.length;
                row.checkpoint = line.checkpoint.filter(|c| *c != 0);
                row.report = line.report.filter(|r| *r != 0);
                row.sent = line.sent;
                row.resend = line.resend;
            }
            "ltp_session_end" => {
                row.engine = line.engine;
                row.session = line.session;
                let cancelled = line.cancelled == Some(true);
                row.reason = Some(if cancelled { "cancelled" } else { "completed" }.into());
            }
            "clock_stepped" => row.reason = line.step_ms.map(|ms| format!("{ms} ms").into()),
            "store_damage" | "store_failed" => {
                row.offset = line.offset;
                row.size = line.len;
                row.reason = line.file.map(|f| format!("file {f}").into());
            }
            _ => {}
        }
    }

    /// `ipn:2.64` as the name of node 2 and 64; `dtn#1/2a` as it is, with the hash of its demux.
    fn endpoint(&self, text: &str) -> (String, u64) {
        if let Some((node, service)) = text.strip_prefix("ipn:").and_then(|rest| rest.rsplit_once('.')) {
            let name = node.parse().ok().and_then(|n: u64| self.names.get(&n).cloned());
            return (name.unwrap_or_else(|| format!("ipn:{node}")), service.parse().unwrap_or(0));
        }
        match text.split_once('/') {
            Some((node, service)) => (node.to_string(), u64::from_str_radix(service, 16).unwrap_or(0)),
            None => (text.to_string(), 0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(lines: &str) -> Vec<EventRow> {
        let scenario = Scenario::parse(
            "name = \"s\"\nduration = \"1 s\"\n[[node]]\nname = \"probe\"\nid = \"ipn:1.0\"\n[[node]]\nname = \"ground\"\nid = \"ipn:2.0\"\n",
        );
        let path = std::env::temp_dir().join(format!("farlink-events-{}-{}", std::process::id(), lines.len()));
        std::fs::write(&path, lines).unwrap();
        let mut rows = Vec::new();
        let mut reader = EventReader::new(&scenario.unwrap(), 0);
        reader
            .read(&path, &mut |row| {
                rows.push(row);
                Ok(())
            })
            .unwrap();
        std::fs::remove_file(&path).unwrap();
        rows
    }

    #[test]
    fn lines_become_rows_with_names_and_identity() {
        let rows = rows(concat!(
            "{\"time_ns\":10,\"utc_ns\":5,\"node\":\"ipn:1.0\",\"event\":\"seen\",\"bundle\":7,\"source\":\"ipn:1.64\",",
            "\"created_ms\":9,\"sequence\":3,\"destination\":\"ipn:2.9\",\"payload\":100,\"size\":160,\"priority\":\"bulk\",\"lifetime_ms\":5}\n",
            "{\"time_ns\":11,\"event\":\"created\",\"bundle\":7}\n",
            "{\"time_ns\":12,\"event\":\"routed\",\"bundle\":7,\"link\":\"space\",\"next_hop\":\"ipn:2.0\"}\n",
            "{\"time_ns\":13,\"event\":\"deleted\",\"bundle\":7,\"reason\":\"done\"}\n",
            "{\"time_ns\":14,\"event\":\"link_up\",\"link\":\"dynamic:3\",\"peer\":\"ipn:9.0\"}\n",
            "{\"time_ns\":15,\"event\":\"ltp_session_end\",\"link\":\"space\",\"engine\":1,\"session\":2,\"cancelled\":true}\n",
            "{\"time_ns\":16,\"event\":\"unfini",
        ));
        assert_eq!(rows.len(), 5);
        let created = &rows[0];
        assert_eq!((created.source.as_deref(), created.service), (Some("probe"), Some(64)));
        assert_eq!((created.destination.as_deref(), created.destination_service), (Some("ground"), Some(9)));
        assert_eq!(
            (created.size, created.bundle_bytes, created.priority.as_deref()),
            (Some(100), Some(160), Some("bulk"))
        );
        assert_eq!((rows[1].link.as_deref(), rows[1].peer.as_deref()), (Some("space"), Some("ground")));
        assert_eq!((rows[2].reason.as_deref(), rows[2].sequence), (Some("done"), Some(3)));
        assert_eq!((rows[3].link.as_deref(), rows[3].peer.as_deref()), (Some("dynamic-3"), Some("ipn:9")));
        assert_eq!(rows[4].reason.as_deref(), Some("cancelled"));
    }

    #[test]
    fn a_damaged_line_names_its_place() {
        let path = std::env::temp_dir().join(format!("farlink-events-bad-{}", std::process::id()));
        std::fs::write(&path, "{}\nnot json\n").unwrap();
        let scenario =
            Scenario::parse("name = \"s\"\nduration = \"1 s\"\n[[node]]\nname = \"a\"\nid = \"ipn:1.0\"\n").unwrap();
        let error = EventReader::new(&scenario, 0).read(&path, &mut |_| Ok(())).unwrap_err();
        std::fs::remove_file(&path).unwrap();
        assert!(error.to_string().contains("line 2"), "{error}");
    }
}
