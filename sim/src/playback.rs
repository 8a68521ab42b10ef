//! Data for the playback of moving nodes in a report: the legs of their movement, one row each instead of sampled
//! positions, and their contacts.

use crate::contacts::ContactEdge;
use crate::mobility::ways::Ways;
use anyhow::Result;
use farlink_base::Instant;
use farlink_report::{LegRow, Text};
use std::collections::BTreeMap;

/// Largest number of legs in a run: a file of some 100 MB.
const LEGS: usize = 4_000_000;

/// Passes the legs of all nodes until `until_s` to `each`; returns whether the table is complete.
///
/// # Errors
/// Returns the first error of `each`.
pub(crate) fn legs(
    ways: &mut Ways,
    nodes: &[Text],
    until_s: f64,
    each: &mut dyn FnMut(&LegRow) -> Result<()>,
) -> Result<bool> {
    // Each node gets an equal share, so that one fast node cannot displace the others.
    let share = LEGS / nodes.len().max(1);
    let mut all = true;
    for (node, name) in nodes.iter().enumerate() {
        let mut left = share;
        while let Some(leg) = ways.leg(node).filter(|leg| leg.start < until_s) {
            if left == 0 {
                all = false;
                break;
            }
            left -= 1;
            each(&LegRow {
                node: name.clone(),
                start_s: leg.start,
                end_s: leg.end.min(until_s),
                x: leg.from[0],
                y: leg.from[1],
                velocity_x: leg.velocity[0],
                velocity_y: leg.velocity[1],
            })?;
            ways.go_on(node);
        }
    }
    Ok(all)
}

/// Radio and nodes, by index.
pub(crate) type Pair = (u16, u32, u32);

/// Current contacts with their start times.
#[derive(Default)]
pub(crate) struct Meetings {
    since: BTreeMap<Pair, Instant>,
}

impl Meetings {
    /// Handles an edge; at the end of a contact it returns the start.
    pub fn see(&mut self, edge: &ContactEdge) -> Option<Instant> {
        let pair = (edge.radio, edge.a, edge.b);
        if edge.up {
            self.since.insert(pair, edge.at);
            return None;
        }
        self.since.remove(&pair)
    }
    /// Contacts that are still open.
    pub fn rest(&self) -> impl Iterator<Item = (Pair, Instant)> + '_ {
        self.since.iter().map(|(pair, since)| (*pair, *since))
    }
}

#[cfg(test)]
mod tests {
    use crate::contacts::kinetic::Kinetic;
    use crate::contacts::{Contacts, ways};
    use crate::{Options, record};
    use farlink_base::{Instant, Rng};
    use farlink_report::{LegRow, MeetingRow, RunReader};
    use farlink_scenario::Scenario;

    fn scenario() -> Scenario {
        let text = "name = \"x\"\nduration = \"20 min\"\nfidelity = \"message\"\nstop_when_delivered = false\nseed = 5\n\
            [[mobility]]\nname = \"walk\"\nmodel = \"random_walk\"\narea = \"300 m\"\nspeed = [\"1 m/s\", \"9 m/s\"]\n\
            step = [\"10 m\", \"90 m\"]\npause = [\"0 s\", \"5 s\"]\n\
            [[mobility]]\nname = \"streets\"\nmodel = \"map\"\ncity = { columns = 5, rows = 5, block = \"60 m\" }\n\
            speed = \"5 m/s\"\n\
            [[radio]]\nname = \"wifi\"\nrange = \"60 m\"\n\
            [[group]]\nname = \"w\"\ncount = 6\nfirst_id = 1\nmobility = \"walk\"\nradio = \"wifi\"\n\
            [[group]]\nname = \"s\"\ncount = 6\nfirst_id = 11\nmobility = \"streets\"\nradio = \"wifi\"\n";
        Scenario::parse(text).unwrap_or_else(|errors| panic!("{errors:#?}"))
    }

    fn played(scenario: &Scenario) -> (Vec<LegRow>, Vec<MeetingRow>) {
        // Read back from the run directory, so that writing the tables is tested, too.
        let folder = tempfile::tempdir().unwrap();
        let options = Options { folder: folder.path().join("run"), ..Options::default() };
        record::run(scenario, &options, &mut |_| {}).unwrap();
        let run = RunReader::open(&options.folder).unwrap();
        let (mut legs, mut meetings) = (Vec::new(), Vec::new());
        run.legs(&mut |row| {
            legs.push(row);
            Ok(())
        })
        .unwrap();
        run.meetings(&mut |row| {
            meetings.push(row);
            Ok(())
        })
        .unwrap();
        (legs, meetings)
    }

    #[test]
    fn recorded_positions_match_the_world() {
        let scenario = scenario();
        let (legs, _) = played(&scenario);
        let named = ways(&scenario).into_iter().enumerate();
        let moving = named.filter_map(|(node, motion)| Some((node as u32, motion?))).collect();
        let mut world = Kinetic::new(0, 60.0, moving);
        let mut random = Rng::new(9);
        let mut times: Vec<u64> = (0..300).map(|_| random.next_u64() % 1_200_000_000_000).collect();
        times.sort_unstable();
        for at in times {
            while world.next(Instant(at)).is_some() {}
            let time_s = at as f64 / 1e9;
            for (node, facts) in scenario.nodes.iter().enumerate() {
                let holds = |leg: &&LegRow| *leg.node == *facts.name && leg.start_s <= time_s && time_s < leg.end_s;
                let found: Vec<&LegRow> = legs.iter().filter(holds).collect();
                let [leg] = found[..] else { panic!("{time_s}: {found:?}") };
                let there = world.position(node as u32, time_s).unwrap();
                assert_eq!([leg.at(time_s).0, leg.at(time_s).1], there, "{} at {time_s}", facts.name);
            }
        }
    }

    #[test]
    fn recorded_meetings_match_the_world() {
        let scenario = scenario();
        let (_, meetings) = played(&scenario);
        let mut lines: Vec<String> = crate::contacts::as_lines(&scenario).unwrap().collect();
        assert!(meetings.len() > 20 && lines.len() >= 2 * meetings.len() - 15, "{} {}", meetings.len(), lines.len());
        let line = |at: u64, row: &MeetingRow, word: &str| {
            let (whole, rest) = (at / 1_000_000_000, at % 1_000_000_000);
            format!("{whole}.{rest:09} CONN {} {} {word} {}", row.node, row.peer, row.radio)
        };
        for row in &meetings {
            for (at, word) in [(row.start_ns, "up"), (row.end_ns, "down")] {
                let place = lines.iter().position(|known| *known == line(at, row, word));
                match place {
                    Some(place) => drop(lines.remove(place)),
                    None => assert_eq!((at, word), (1_200_000_000_000, "down"), "{row:?}"),
                }
            }
        }
        assert_eq!(lines, [""; 0], "none is left");
    }

    #[test]
    fn unrequested_tables_are_not_written() {
        let mut scenario = scenario();
        scenario.measure.tables = vec![farlink_scenario::Table::Bundles];
        assert_eq!(played(&scenario), (Vec::new(), Vec::new()));
    }
}
