//! Converts the node's event file to rows, with the recorder that the simulator uses, too.

use anyhow::{Context, Result, anyhow};
use farlink_report::{EventRow, Recorder};
use farlink_scenario::{LinkEnd, Scenario};
use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::sync::Arc;

// Prefix of the names that recorders give to links opened by peers.
const DYNAMIC: &str = "dynamic-";

/// Reader of one node's event file.
pub struct EventReader {
    names: farlink_events::EventNames,
    recorder: Recorder,
    /// Names of neighbours to be discovered, each with the name of the scenario's link to it.
    found: Vec<(String, String)>,
    /// Names of dynamic links that neighbours in `found` opened, each with the name of the scenario's link.
    opened: HashMap<String, String>,
}

impl EventReader {
    pub fn new(scenario: &Scenario, index: usize) -> Self {
        let node = &scenario.nodes[index];
        // In the order of the node's configuration file, which numbers the links.
        let ends = scenario.ends_of(index);
        let links: Vec<&str> = ends.iter().map(|end| scenario.links[end.link].name.as_str()).collect();
        let is_found = |end: &&LinkEnd| scenario.links[end.link].found;
        let neighbour = |end: &LinkEnd| &scenario.nodes[end.peer];
        // Nodes name a discovered link after the neighbour and its address.
        let known_as = |end: &LinkEnd| match is_found(&end) {
            true => format!("found:{}@{}:{}", neighbour(end).ids[0], end.peer_address, end.port),
            false => scenario.links[end.link].name.clone(),
        };
        let found = ends.iter().filter(is_found);
        let found = found.map(|end| (neighbour(end).name.clone(), scenario.links[end.link].name.clone())).collect();
        let nodes = farlink_report::NodeNames::new(scenario.nodes.iter().map(|n| (n.number, n.name.as_str())));
        EventReader {
            names: farlink_events::EventNames::new(node.name.clone(), ends.iter().map(known_as).collect()),
            recorder: Recorder::new(&node.name, &links, Arc::new(nodes)),
            found,
            opened: HashMap::new(),
        }
    }

    /// Gives a dynamic link the name of the scenario's link, if a neighbour to be discovered opened it.
    fn named(&mut self, mut row: EventRow) -> EventRow {
        let Some(link) = row.link.as_deref().filter(|_| !self.found.is_empty()) else { return row };
        if &*row.event == "link_up" {
            let same = |(neighbour, _): &&(String, String)| row.peer.as_deref() == Some(neighbour.as_str());
            match self.found.iter().find(same).filter(|_| link.starts_with(DYNAMIC)) {
                Some((_, name)) => drop(self.opened.insert(link.to_string(), name.clone())),
                // The number of a dynamic link may be reused for another neighbour.
                None => drop(self.opened.remove(link)),
            }
        }
        if let Some(name) = self.opened.get(link) {
            row.link = Some(name.as_str().into());
        }
        row
    }

    /// Calls `each` with every row of the file; an unfinished last line is skipped.
    pub fn read(&mut self, path: &Path, each: &mut dyn FnMut(EventRow) -> Result<()>) -> Result<()> {
        let file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
        let mut reader = BufReader::with_capacity(1 << 20, file);
        let mut text = String::new();
        let mut number = 0;
        // A killed node leaves an unfinished last line.
        while reader.read_line(&mut text)? > 0 && text.ends_with('\n') {
            number += 1;
            let (at, event) =
                self.names.read(&text).map_err(|why| anyhow!("{} line {number}: {why}", path.display()))?;
            if let Some(row) = self.recorder.row(at.0, &event) {
                each(self.named(row))?;
            }
            text.clear();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCENARIO: &str = "name = \"s\"\nduration = \"1 s\"\n[[node]]\nname = \"probe\"\nid = \"ipn:1.0\"\n\
        [[node]]\nname = \"ground\"\nid = \"ipn:2.0\"\n\
        [[link]]\nname = \"space\"\nbetween = [\"probe\", \"ground\"]\nlayer = \"ltp\"\n";

    fn read(lines: &str) -> Result<Vec<EventRow>> {
        read_of(SCENARIO, lines)
    }
    fn read_of(scenario: &str, lines: &str) -> Result<Vec<EventRow>> {
        let path = std::env::temp_dir().join(format!("farlink-events-{}-{}", std::process::id(), lines.len()));
        std::fs::write(&path, lines).unwrap();
        let mut rows = Vec::new();
        let result = EventReader::new(&Scenario::parse(scenario).unwrap(), 0).read(&path, &mut |row| {
            rows.push(row);
            Ok(())
        });
        std::fs::remove_file(&path).unwrap();
        result.map(|()| rows)
    }

    #[test]
    fn event_lines_become_named_rows() {
        let rows = read(concat!(
            "{\"time_ns\":10,\"utc_ns\":5,\"node\":\"ipn:1.0\",\"event\":\"seen\",\"bundle\":7,\"source\":\"ipn:1.64\",",
            "\"created_ms\":9,\"sequence\":3,\"destination\":\"ipn:2.9\",\"payload\":100,\"size\":160,\"priority\":\"bulk\",\"lifetime_ms\":5}\n",
            "{\"time_ns\":11,\"event\":\"created\",\"bundle\":7}\n",
            "{\"time_ns\":12,\"event\":\"routed\",\"bundle\":7,\"link\":\"space\",\"next_hop\":\"ipn:2.0\"}\n",
            "{\"time_ns\":13,\"event\":\"deleted\",\"bundle\":7,\"reason\":\"done\"}\n",
            "{\"time_ns\":14,\"event\":\"link_up\",\"link\":\"dynamic:3\",\"peer\":\"ipn:9.0\"}\n",
            "{\"time_ns\":15,\"event\":\"ltp_session_end\",\"link\":\"space\",\"engine\":1,\"session\":2,\"cancelled\":true,\
             \"why\":\"cancelled by the peer: RLEXC\"}\n",
            "{\"time_ns\":16,\"event\":\"unfini",
        ))
        .unwrap();
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
        assert_eq!(rows[4].reason.as_deref(), Some("cancelled by the peer: RLEXC"));
    }

    #[test]
    fn discovered_link_keeps_scenario_name() {
        let text = SCENARIO.replace("layer = \"ltp\"", "layer = \"tcpclv4\"\nfound = true");
        let up = |link: &str, peer: &str| {
            format!("{{\"time_ns\":1,\"event\":\"link_up\",\"link\":\"{link}\",\"peer\":\"{peer}\"}}\n")
        };
        let down = |link: &str| format!("{{\"time_ns\":2,\"event\":\"link_down\",\"link\":\"{link}\"}}\n");
        let lines = [
            up("found:ipn:2.0@10.0.0.2:4556", "ipn:2.0"),
            down("found:ipn:2.0@10.0.0.2:4556"),
            up("dynamic:3", "ipn:2.0"),
            down("dynamic:3"),
            up("dynamic:3", "ipn:9.0"),
            down("dynamic:3"),
        ];
        let rows = read_of(&text, &lines.concat()).unwrap();
        let names: Vec<&str> = rows.iter().filter_map(|row| row.link.as_deref()).collect();
        assert_eq!(names, ["space", "space", "space", "space", "dynamic-3", "dynamic-3"]);
    }

    #[test]
    fn node_and_simulator_rows_are_equal() {
        let scenario = Scenario::parse(SCENARIO).unwrap();
        let names = farlink_events::EventNames::new("ipn:1.0".into(), vec!["space".into()]);
        let nodes = scenario.nodes.iter().map(|n| (n.number, n.name.as_str()));
        let mut simulated = Recorder::new("probe", &["space"], Arc::new(farlink_report::NodeNames::new(nodes)));
        let events = farlink_events::schema::samples();
        let lines: String = events.iter().map(|event| names.json(farlink_base::Instant(5), 6, event) + "\n").collect();
        let expected: Vec<EventRow> = events.iter().filter_map(|event| simulated.row(5, event)).collect();
        assert_eq!(read(&lines).unwrap(), expected);
    }

    #[test]
    fn damaged_line_error_names_line() {
        let error = read("{\"time_ns\":1,\"event\":\"created\",\"bundle\":1}\nnot json\n").unwrap_err();
        assert!(error.to_string().contains("line 2"), "{error}");
    }
}
