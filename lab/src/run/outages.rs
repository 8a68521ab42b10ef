//! Outages of links as events of the nodes at their ends. The emulator makes the outages that the scenario schedules;
//! nodes are not notified, so the events come from the scenario.

use anyhow::Result;
use farlink_base::{Event, LinkId, NodeId};
use farlink_report::{EventRow, NodeNames, Recorder};
use farlink_scenario::{FaultKind, Scenario};
use std::collections::VecDeque;
use std::sync::Arc;

/// Remaining outage events of one node, in order of time.
pub struct Outages {
    rows: VecDeque<EventRow>,
}

impl Outages {
    /// Lists the outages of a node's links, as the rows that a simulation writes.
    pub fn new(scenario: &Scenario, node: usize) -> Outages {
        let ends = scenario.ends_of(node);
        let links: Vec<&str> = ends.iter().map(|end| scenario.links[end.link].name.as_str()).collect();
        let nobody: [(NodeId, &str); 0] = [];
        let mut recorder = Recorder::new(&scenario.nodes[node].name, &links, Arc::new(NodeNames::new(nobody)));
        let mut rows = Vec::new();
        for fault in &scenario.faults {
            let FaultKind::LinkDown { link } = fault.kind else { continue };
            // Only the nodes at the ends of a link report its outage.
            let Some(place) = ends.iter().position(|end| end.link == link) else { continue };
            for down in fault.beginnings(scenario.duration) {
                for (at, what) in [(down, "link down"), (down.saturating_add(fault.lasts), "link up")] {
                    let event = Event::Fault { link: Some(LinkId(place as u32)), what };
                    rows.extend(recorder.row(u64::try_from(at.as_nanos()).unwrap_or(u64::MAX), &event));
                }
            }
        }
        rows.sort_by_key(|row| row.time_ns);
        Outages { rows: rows.into() }
    }

    /// Removes the events before `time_ns`, in ns since the start of the run, and calls `each` with them.
    pub fn before(&mut self, time_ns: u64, each: &mut dyn FnMut(&EventRow) -> Result<()>) -> Result<()> {
        while let Some(row) = self.rows.pop_front_if(|row| row.time_ns < time_ns) {
            each(&row)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outages_appear_at_both_ends() {
        let node = |name: &str, n: u8| format!("[[node]]\nname = \"{name}\"\nid = \"ipn:{n}.0\"\n");
        let link = |name: &str, a: &str, b: &str| {
            format!("[[link]]\nname = \"{name}\"\nbetween = [\"{a}\", \"{b}\"]\nlayer = \"ltp\"\n")
        };
        let fault = "[[fault]]\nkind = \"link_down\"\nlink = \"m\"\nat = \"2 s\"\nlasts = \"1 s\"\nevery = \"5 s\"\n";
        let nodes = [("a", 1), ("b", 2), ("c", 3)].map(|(name, n)| node(name, n)).concat();
        let links = link("l", "a", "b") + &link("m", "b", "c");
        let text = format!("name = \"s\"\nduration = \"9 s\"\n{nodes}{links}{fault}");
        let scenario = Scenario::parse(&text).unwrap_or_else(|errors| panic!("{errors:#?}"));
        let told = |node: usize, until: u64| {
            let (mut outages, mut told) = (Outages::new(&scenario, node), Vec::new());
            let each = &mut |row: &EventRow| {
                let (link, what) = (row.link.as_deref().unwrap_or("-"), row.reason.as_deref().unwrap_or("-"));
                told.push(format!("{} {} {link} {what}", row.time_ns / 1_000_000_000, row.node));
                Ok(())
            };
            outages.before(until * 1_000_000_000, each).unwrap();
            told
        };
        assert_eq!(told(0, 9), [""; 0]);
        assert_eq!(told(1, 9), ["2 b m link down", "3 b m link up", "7 b m link down", "8 b m link up"]);
        assert_eq!(told(2, 8), ["2 c m link down", "3 c m link up", "7 c m link down"]);
    }
}
