//! Reasons for which bundles did not arrive: where each was at the end, or how it ended.

use crate::column::Text;
use crate::run::RunReader;
use crate::schema::{BundleRow, EventRow};
use crate::statistics::Statistics;
use anyhow::Result;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet, HashMap};

// Most undelivered bundles that are followed, and most places that a sentence names.
const FOLLOWED: usize = 200_000;
const PLACES: usize = 3;

/// Undelivered bundles that share a fate.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct MissingBundles {
    /// Number of bundles.
    pub count: u64,
    /// Their fate in words, with the places, such as `expired (2 at relay)`.
    pub fate: String,
}

impl MissingBundles {
    /// Reads the fates of undelivered bundles from the events of a run, the most frequent first. Empty if all were
    /// delivered, and if the run recorded no events of nodes.
    ///
    /// # Errors
    /// When the events cannot be read.
    pub fn read(run: &RunReader, bundles: &[BundleRow]) -> Result<Vec<MissingBundles>> {
        let mut followed = FollowedBundles::new(bundles);
        if followed.bundles.is_empty() {
            return Ok(Vec::new());
        }
        run.events(&mut |row: EventRow| {
            followed.note(&row);
            Ok(())
        })?;
        let nodes = &run.manifest().topology.nodes;
        let forgetful = nodes.iter().filter(|node| node.store == "memory").map(|node| node.name.as_str()).collect();
        Ok(followed.fates(&forgetful))
    }

    /// Count and fate in one phrase, such as `2 expired (2 at relay)`.
    pub fn text(&self) -> String {
        format!("{} {}", crate::format::grouped(self.count as f64), self.fate)
    }
}

/// Bundle identity: creation time, sequence number, service, source.
type BundleIdentity = (u64, u64, u64, Text);

/// Last event of a copy at a node: its time, and what it says of the copy.
type CopyState = (u64, CopyMark);

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum CopyMark {
    Held,
    /// No route was known.
    Routeless,
    Gone,
}

#[derive(Default)]
struct FollowedBundle {
    copies: BTreeMap<Text, CopyState>,
    /// Last deletion of a copy for any reason but that it was needed no longer: its reason and its node.
    deleted: Option<(u64, Text, Text)>,
    /// Last link over which a copy was sent.
    sent: Option<(u64, Text)>,
    /// Whether a node that the bundle was offered to had no room for it.
    unroomy: bool,
}

/// Undelivered bundles with what the events say of them.
struct FollowedBundles {
    bundles: HashMap<BundleIdentity, FollowedBundle>,
    /// Nodes whose engine records events; of others only the applications do.
    recording: BTreeSet<Text>,
    /// Times at which nodes went down.
    downs: BTreeMap<Text, Vec<u64>>,
}

impl FollowedBundles {
    fn new(bundles: &[BundleRow]) -> FollowedBundles {
        let missing = bundles.iter().filter(|bundle| bundle.delivered_ns.is_none()).take(FOLLOWED);
        let followed =
            missing.map(|b| ((b.creation_ms, b.sequence, b.service, b.source.clone()), FollowedBundle::default()));
        FollowedBundles { bundles: followed.collect(), recording: BTreeSet::new(), downs: BTreeMap::new() }
    }

    fn note(&mut self, row: &EventRow) {
        let mark = match &*row.event {
            "fault" if row.reason.as_deref() == Some("node down") => {
                self.downs.entry(row.node.clone()).or_default().push(row.time_ns);
                return;
            }
            "created" | "received" | "recovered" | "reassembled" | "forward_failed" => CopyMark::Held,
            "waiting" => CopyMark::Routeless,
            "deleted" => CopyMark::Gone,
            "transmitting" | "routed" => CopyMark::Held,
            "refused" if row.reason.as_deref() == Some("no_resources") => {
                if let Some(bundle) = self.followed(row) {
                    bundle.unroomy = true;
                }
                return;
            }
            _ => return,
        };
        if &*row.event != "created" && !self.recording.contains(&row.node) {
            self.recording.insert(row.node.clone());
        }
        let Some(bundle) = self.followed(row) else { return };
        let copy = bundle.copies.entry(row.node.clone()).or_insert((0, CopyMark::Held));
        // Events of one moment may stand in any order: then the copy is gone if any says so.
        *copy = (*copy).max((row.time_ns, mark));
        if &*row.event == "transmitting"
            && let Some(link) = &row.link
        {
            bundle.sent = bundle.sent.take().max(Some((row.time_ns, link.clone())));
        }
        if let (CopyMark::Gone, Some(reason)) = (mark, row.reason.as_ref().filter(|reason| ***reason != *"done")) {
            bundle.deleted = bundle.deleted.take().max(Some((row.time_ns, reason.clone(), row.node.clone())));
        }
    }

    /// The undelivered bundle of an event.
    fn followed(&mut self, row: &EventRow) -> Option<&mut FollowedBundle> {
        self.bundles.get_mut(&(row.creation_ms?, row.sequence?, row.service?, row.source.clone()?))
    }

    /// Fates, the most frequent first. `forgetful` are the nodes whose store is memory.
    fn fates(&self, forgetful: &BTreeSet<&str>) -> Vec<MissingBundles> {
        if self.recording.is_empty() {
            return Vec::new();
        }
        let mut fates: BTreeMap<String, BTreeMap<String, u64>> = BTreeMap::new();
        for bundle in self.bundles.values() {
            let (fate, place) = self.fate(bundle, forgetful);
            *fates.entry(fate).or_default().entry(place).or_default() += 1;
        }
        let told = |(fate, places): (String, BTreeMap<String, u64>)| {
            let count = places.values().sum();
            let mut places: Vec<(String, u64)> = places.into_iter().filter(|(place, _)| !place.is_empty()).collect();
            places.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
            let more = if places.len() > PLACES { ", and elsewhere" } else { "" };
            let named: Vec<String> = match &places[..] {
                // The number of all is said already.
                [(place, all)] if *all == count => vec![place.clone()],
                places => places.iter().take(PLACES).map(|(place, count)| format!("{count} {place}")).collect(),
            };
            let places = if named.is_empty() { named.concat() } else { format!(" ({}{more})", named.join(", ")) };
            MissingBundles { count, fate: format!("{fate}{places}") }
        };
        let mut all: Vec<MissingBundles> = fates.into_iter().map(told).collect();
        all.sort_by_key(|missing| std::cmp::Reverse(missing.count));
        all
    }

    /// Fate of a bundle, and the place where it met it; the place may be empty.
    fn fate(&self, bundle: &FollowedBundle, forgetful: &BTreeSet<&str>) -> (String, String) {
        let down_after = |node: &Text, at: u64| {
            forgetful.contains(&**node)
                && self.downs.get(node).is_some_and(|downs| downs.iter().any(|down| *down >= at))
        };
        let copies = || bundle.copies.iter().filter(|(_, (_, mark))| *mark != CopyMark::Gone);
        let held: Vec<_> = copies().filter(|(node, (at, _))| !down_after(node, *at)).collect();
        match held[..] {
            [] => {}
            [(node, _)] if !self.recording.contains(node) => {
                return ("without a trace, as the node records no events".into(), format!("at {node}"));
            }
            [(node, (_, CopyMark::Routeless))] if bundle.unroomy => {
                return ("still waiting at the end, refused by full neighbours".into(), format!("at {node}"));
            }
            [(node, (_, CopyMark::Routeless))] => {
                return ("still waiting for a route at the end".into(), format!("at {node}"));
            }
            [(node, _)] => return ("still stored at the end".into(), format!("at {node}")),
            _ => return ("still on the way at the end, with copies at several nodes".into(), String::new()),
        }
        if let Some((node, _)) = copies().next() {
            return ("lost with a store in memory, when its node went down".into(), format!("at {node}"));
        }
        if let Some((_, reason, node)) = &bundle.deleted {
            return (reason_text(reason), format!("at {node}"));
        }
        match &bundle.sent {
            Some((_, link)) => ("lost on the way".into(), format!("over {link}")),
            None => ("without a trace".into(), String::new()),
        }
    }
}

/// Words for the reason of a deletion.
fn reason_text(reason: &str) -> String {
    let text = match reason {
        "expired" => "expired",
        "depleted_storage" => "dropped from a full store",
        "no_route" => "given up without a route",
        "no_timely_contact" => "given up without a timely contact",
        "destination_unavailable" => "given up, as no application took them",
        "hop_limit" => "at the hop limit",
        "traffic_pared" => "dropped in favour of others",
        "cancelled" => "cancelled",
        "missing_security"
        | "unknown_security"
        | "unexpected_security"
        | "failed_security"
        | "conflicting_security" => {
            return format!("deleted by a rule of security ({})", reason.replace('_', " "));
        }
        other => return format!("deleted ({})", other.replace('_', " ")),
    };
    text.to_string()
}

/// Adds the bundles that the senders' own nodes never accepted, of which no table knows.
pub fn with_refused(statistics: &Statistics, mut missing: Vec<MissingBundles>) -> Vec<MissingBundles> {
    if let Some(count) = statistics.refused.filter(|count| *count > 0) {
        let fate = "not accepted by the sender's own node by the end".to_string();
        missing.push(MissingBundles { count, fate });
        missing.sort_by_key(|missing| std::cmp::Reverse(missing.count));
    }
    missing
}

/// Sentence about the bundles that did not arrive; `None` if nothing is known of them.
pub(crate) fn sentence(missing: &[MissingBundles]) -> Option<String> {
    if missing.is_empty() {
        return None;
    }
    let told: Vec<String> = missing.iter().map(MissingBundles::text).collect();
    Some(format!("Missing: {}.", told.join("; ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::tests::bundle;

    fn event(time_ns: u64, node: &str, name: &str, sequence: u64, more: &str) -> EventRow {
        EventRow {
            source: Some("a".into()),
            service: Some(1),
            creation_ms: Some(5),
            sequence: Some(sequence),
            reason: matches!(name, "deleted" | "fault" | "refused").then(|| more.into()),
            link: (name == "transmitting").then(|| more.into()),
            ..EventRow::new(time_ns, node.into(), name)
        }
    }

    fn fates(events: &[EventRow], bundles: u64) -> Vec<String> {
        let rows: Vec<BundleRow> = (0..bundles).map(|sequence| bundle(sequence, 1000, 0.0, None)).collect();
        let mut followed = FollowedBundles::new(&rows);
        events.iter().for_each(|row| followed.note(row));
        followed.fates(&["m"].into()).iter().map(MissingBundles::text).collect()
    }

    #[test]
    fn each_fate_is_told_with_its_place() {
        let mut events: Vec<EventRow> = (0..7).map(|sequence| event(1, "a", "created", sequence, "")).collect();
        events.extend([
            event(2, "a", "waiting", 0, ""),
            event(2, "a", "waiting", 1, ""),
            event(3, "a", "transmitting", 2, "l"),
            event(4, "b", "received", 2, ""),
            event(4, "a", "deleted", 2, "done"),
            event(9, "b", "deleted", 2, "expired"),
            event(3, "a", "transmitting", 3, "l"),
            event(3, "a", "deleted", 3, "done"),
            event(4, "a", "transmitting", 4, "l"),
            event(5, "m", "received", 4, ""),
            event(6, "a", "deleted", 4, "done"),
            event(7, "m", "fault", 0, "node down"),
            event(5, "b", "received", 5, ""),
        ]);
        assert_eq!(
            fates(&events, 6),
            [
                "2 still waiting for a route at the end (at a)",
                "1 expired (at b)",
                "1 lost on the way (over l)",
                "1 lost with a store in memory, when its node went down (at m)",
                "1 still on the way at the end, with copies at several nodes",
            ]
        );
    }

    #[test]
    fn full_neighbours_are_no_missing_route() {
        let created = (0..2).map(|sequence| event(1, "a", "created", sequence, ""));
        let mut events: Vec<EventRow> = created.collect();
        events.extend([
            event(2, "a", "transmitting", 0, "l"),
            event(3, "b", "refused", 0, "no_resources"),
            event(4, "a", "waiting", 0, ""),
            event(4, "b", "refused", 1, "not_acceptable"),
            event(4, "a", "waiting", 1, ""),
        ]);
        let told = [
            "1 still waiting at the end, refused by full neighbours (at a)",
            "1 still waiting for a route at the end (at a)",
        ];
        assert_eq!(fates(&events, 2), told);
    }

    #[test]
    fn several_places_are_counted() {
        let events: Vec<EventRow> = (0..10)
            .flat_map(|sequence| {
                let node = ["a", "a", "a", "b", "b", "c", "d"][(sequence as usize).min(6)];
                [event(1, "a", "created", sequence, ""), event(2, node, "deleted", sequence, "depleted_storage")]
            })
            .collect();
        let mut found = fates(&events, 7);
        // What was created at `a` and deleted elsewhere still has its copy at `a`.
        assert_eq!(found.remove(0), "4 still stored at the end (at a)");
        assert_eq!(found, ["3 dropped from a full store (at a)"]);
    }

    #[test]
    fn nodes_without_events_give_no_reason() {
        assert!(fates(&[event(1, "a", "created", 0, "")], 1).is_empty());
        let others = [event(1, "a", "created", 0, ""), event(2, "b", "received", 9, "")];
        assert_eq!(fates(&others, 1), ["1 without a trace, as the node records no events (at a)"]);
        assert_eq!(sentence(&[]), None);
    }
}
