//! State of a run so far, as shown by the view: counters, contacts, and the times links were up.

use crate::facts::Facts;
use farlink_base::{BundleHandle, BundleKey, DeleteReason, Event, Instant};
use farlink_events::Word as _;
use farlink_sim::contacts::ContactEdge;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// Number of equal parts of the run for which the state of a link is recorded.
pub const PARTS: usize = 600;
/// Most pairs of nodes that get a lane of the timeline; pairs that first meet later get none.
const LANES: usize = 2000;

/// Times at which a link, or the contact of a pair of nodes, was up.
#[derive(Clone, Debug)]
pub struct TimelineLane {
    pub name: String,
    pub nodes: [usize; 2],
    /// Time since which the link or contact has been up; `None` if it is down.
    pub since: Option<Instant>,
    /// For each part of the run, whether the link or contact was up in it; the parts since `since` are not marked yet.
    parts: Vec<bool>,
}
impl TimelineLane {
    fn new(name: String, nodes: [usize; 2]) -> TimelineLane {
        TimelineLane { name, nodes, since: None, parts: vec![false; PARTS] }
    }
    fn set(&mut self, at: Instant, up: bool, end: Instant) {
        match (up, self.since) {
            (true, None) => self.since = Some(at),
            (false, Some(since)) => {
                let (from, to) = (part(since, end), part(at, end));
                // Both ends are included, so that a short contact marks at least one part.
                self.parts[from..=to].fill(true);
                self.since = None;
            }
            _ => {}
        }
    }
    /// Whether the link or contact was up in any of these parts, up to `now`.
    pub fn was_up(&self, parts: std::ops::Range<usize>, now: Instant, end: Instant) -> bool {
        let open = self.since.is_some_and(|since| part(since, end) < parts.end && parts.start <= part(now, end));
        open || self.parts.get(parts).is_some_and(|parts| parts.contains(&true))
    }
}

/// Index of the part of the run in which a time lies.
pub fn part(at: Instant, end: Instant) -> usize {
    let share = at.as_secs_f64() / end.as_secs_f64().max(1e-9);
    ((share * PARTS as f64) as usize).min(PARTS - 1)
}

/// Counters and timelines of a run.
#[derive(Default)]
pub struct WatchTally {
    pub created: u64,
    /// Bundles delivered, counted once each.
    pub delivered: u64,
    /// Arrivals of bundles over links, including copies.
    pub received: u64,
    /// Bytes of the bundles that arrived over links, including copies.
    pub received_bytes: u64,
    /// Copies of bundles that nodes hold now.
    pub copies: u64,
    pub refused: u64,
    /// Copies dropped, by reason.
    pub dropped: BTreeMap<&'static str, u64>,
    /// Current radio contacts: number of the radio, and both nodes.
    pub hears: BTreeSet<(u16, u32, u32)>,
    pub contacts: u64,
    /// Lanes of the links, then of pairs of nodes that have met.
    pub lanes: Vec<TimelineLane>,
    pairs: HashMap<(u16, u32, u32), usize>,
    /// For each link, whether it is up at its first end and at its second.
    ups: Vec<[bool; 2]>,
    known: HashMap<(usize, BundleHandle), (BundleKey, u64)>,
    arrived: HashSet<BundleKey>,
}

impl WatchTally {
    pub fn new(facts: &Facts) -> WatchTally {
        let lanes: Vec<TimelineLane> =
            facts.links.iter().map(|(name, nodes)| TimelineLane::new(name.clone(), *nodes)).collect();
        WatchTally { ups: vec![[false; 2]; lanes.len()], lanes, ..WatchTally::default() }
    }

    /// Records an event of a node.
    pub fn event(&mut self, facts: &Facts, at: Instant, node: usize, event: &Event) {
        match event {
            Event::Seen { bundle, key, size, .. } => {
                // A repeated event must not count a copy twice.
                let before = self.known.insert((node, *bundle), (*key, *size));
                self.copies += u64::from(before.is_none());
            }
            Event::Created { .. } => self.created += 1,
            Event::Received { bundle, .. } => {
                self.received += 1;
                self.received_bytes += self.known.get(&(node, *bundle)).map_or(0, |(_, size)| *size);
            }
            Event::Delivered { bundle } => {
                if let Some((key, _)) = self.known.get(&(node, *bundle)) {
                    // Several copies of a bundle may be delivered: it counts once.
                    self.delivered += u64::from(self.arrived.insert(*key));
                }
            }
            Event::Deleted { bundle, reason } => {
                if self.known.remove(&(node, *bundle)).is_some() {
                    self.copies -= 1;
                }
                // `Done` follows delivery or forwarding: not a loss.
                if *reason != DeleteReason::Done {
                    *self.dropped.entry(reason.word()).or_default() += 1;
                }
            }
            Event::Refused { .. } => self.refused += 1,
            Event::LinkUp { link, .. } => self.link(facts, at, node, *link, true),
            Event::LinkDown { link } => self.link(facts, at, node, *link, false),
            Event::Fault { what: "node down", .. } => {
                // A killed node reports no deletions.
                self.known.retain(|(of, _), _| *of != node);
                self.copies = self.known.len() as u64;
            }
            _ => {}
        }
    }

    fn link(&mut self, facts: &Facts, at: Instant, node: usize, link: farlink_base::LinkId, up: bool) {
        let Some((link, first)) = facts.link(node, link) else { return };
        if let (Some(ends), Some(lane)) = (self.ups.get_mut(link), self.lanes.get_mut(link)) {
            ends[usize::from(!first)] = up;
            // A link counts as up while at least one of its ends reports it up.
            lane.set(at, ends[0] || ends[1], facts.end);
        }
    }

    /// Records the beginning or end of a contact.
    pub fn contact(&mut self, facts: &Facts, edge: &ContactEdge) {
        let pair = (edge.radio, edge.a, edge.b);
        if edge.up {
            self.contacts += 1;
            self.hears.insert(pair);
        } else {
            self.hears.remove(&pair);
        }
        if !self.pairs.contains_key(&pair) && self.pairs.len() < LANES {
            let nodes = [edge.a as usize, edge.b as usize];
            let [a, b] = nodes.map(|node| facts.nodes[node].as_str());
            self.pairs.insert(pair, self.lanes.len());
            self.lanes.push(TimelineLane::new(format!("{a} - {b}"), nodes));
        }
        if let Some(lane) = self.pairs.get(&pair).and_then(|place| self.lanes.get_mut(*place)) {
            lane.set(edge.at, edge.up, facts.end);
        }
    }

    /// Nodes that are in radio contact with a node, once for each radio.
    pub fn neighbours(&self, node: usize) -> impl Iterator<Item = usize> + '_ {
        self.hears.iter().filter_map(move |(_, a, b)| match (*a as usize == node, *b as usize == node) {
            (true, _) => Some(*b as usize),
            (_, true) => Some(*a as usize),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farlink_base::{LinkId, NodeId, Priority};
    use farlink_scenario::Scenario;

    const S: u64 = 1_000_000_000;

    fn facts() -> Facts {
        let text = "name = \"x\"\nduration = \"600 s\"\n\
            [[node]]\nname = \"a\"\nid = \"ipn:1.0\"\n[[node]]\nname = \"b\"\nid = \"ipn:2.0\"\n\
            [[link]]\nname = \"l\"\nbetween = [\"a\", \"b\"]\nlayer = \"ltp\"\n";
        Facts::new(&Scenario::parse(text).unwrap_or_else(|errors| panic!("{errors:#?}")))
    }
    fn seen(bundle: BundleHandle) -> Event {
        let key = BundleKey { source: NodeId(1), service: 7, time: 5, sequence: 3, fragment: None };
        let (destination, priority) = (NodeId(2), Priority::Bulk);
        let (destination_service, payload, size, lifetime_ms) = (1, 50, 90, 1000);
        Event::Seen { bundle, key, destination, destination_service, payload, size, priority, lifetime_ms }
    }

    #[test]
    fn bundles_count_once_copies_each() {
        let (facts, bundle) = (facts(), BundleHandle(1));
        let mut tally = WatchTally::new(&facts);
        let mut say = |node, event: Event| tally.event(&facts, Instant(1), node, &event);
        say(0, seen(bundle));
        say(0, Event::Created { bundle });
        for node in [1, 1] {
            say(node, seen(bundle));
            say(node, Event::Received { bundle, link: LinkId(0), from: NodeId(1) });
            say(node, Event::Delivered { bundle });
        }
        say(0, Event::Deleted { bundle, reason: DeleteReason::Done });
        say(0, Event::Deleted { bundle, reason: DeleteReason::Expired });
        assert_eq!((tally.created, tally.delivered, tally.received, tally.received_bytes), (1, 1, 2, 180));
        assert_eq!((tally.copies, tally.dropped.get("expired")), (1, Some(&1)));
        tally.event(&facts, Instant(2), 1, &Event::Fault { link: None, what: "node down" });
        assert_eq!(tally.copies, 0, "what a killed node had is known no more");
    }

    #[test]
    fn either_end_keeps_link_up() {
        let facts = facts();
        let mut tally = WatchTally::new(&facts);
        let up = |link| Event::LinkUp { link: LinkId(link), peer: NodeId(2) };
        tally.event(&facts, Instant(100 * S), 0, &up(0));
        tally.event(&facts, Instant(101 * S), 1, &up(0));
        tally.event(&facts, Instant(150 * S), 0, &Event::LinkDown { link: LinkId(0) });
        let was_up = |tally: &WatchTally, part| tally.lanes[0].was_up(part..part + 1, Instant(200 * S), facts.end);
        assert!(was_up(&tally, 100) && was_up(&tally, 200) && !was_up(&tally, 99) && !was_up(&tally, 201));
        tally.event(&facts, Instant(160 * S), 1, &Event::LinkDown { link: LinkId(0) });
        assert!(was_up(&tally, 160) && !was_up(&tally, 161), "part {}", part(Instant(160 * S), facts.end));
        tally.event(&facts, Instant(170 * S), 1, &up(7));
        assert!(!was_up(&tally, 170), "a link by a radio is none of the scenario's");
    }

    #[test]
    fn contacts_create_lanes_and_neighbours() {
        let facts = facts();
        let mut tally = WatchTally::new(&facts);
        let edge = |at: u64, up| ContactEdge { at: Instant(at * S), a: 0, b: 1, radio: 0, up };
        tally.contact(&facts, &edge(10, true));
        assert_eq!(
            (tally.neighbours(0).collect::<Vec<_>>(), tally.neighbours(1).collect::<Vec<_>>()),
            (vec![1], vec![0])
        );
        tally.contact(&facts, &edge(20, false));
        tally.contact(&facts, &edge(30, true));
        assert_eq!((tally.lanes.len(), tally.contacts, tally.lanes[1].name.as_str()), (2, 2, "a - b"));
    }
}
