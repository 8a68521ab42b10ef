use super::*;
use crate::contact_plan::{Contact, ContactPlan};
use crate::sabr::{Booked, Origin, OutsideLink, Profile, Query, Route};
use farlink_base::{Duration, LinkId, Priority, Rng};

const SECOND: u64 = 1_000_000_000;
const COLUMNS: u64 = 25;
const ROWS: u64 = 24;

fn contact(from: u64, to: u64, [start, end]: [u64; 2], delay_ns: u64) -> Contact {
    Contact {
        from: NodeId(from),
        to: NodeId(to),
        link: None,
        start: PlanTime(start * SECOND),
        end: PlanTime(end * SECOND),
        rate: DataRate(1_000_000),
        one_way_delay: Duration::from_nanos(delay_ns),
        confidence: 1.0,
    }
}

/// Six hundred nodes in a torus, each always in contact with the four beside it, and ten nodes with occasional
/// contacts.
fn plan(rng: &mut Rng) -> Arc<PlanIndex> {
    let mut contacts = Vec::new();
    let mut both = |one: u64, other: u64, times: [u64; 2], delay: u64| {
        contacts.extend([contact(one, other, times, delay), contact(other, one, times, delay)]);
    };
    let node = |column: u64, row: u64| 100 + column % COLUMNS * ROWS + row % ROWS;
    for (column, row) in (0..COLUMNS).flat_map(|column| (0..ROWS).map(move |row| (column, row))) {
        both(node(column, row), node(column + 1, row), [0, 2000], 1_000_000 + rng.below(9_000_000));
        both(node(column, row), node(column, row + 1), [0, 2000], 1_000_000 + rng.below(9_000_000));
    }
    for station in 1..=10 {
        for _ in 0..60 {
            let start = rng.below(1500);
            let times = [start, start + 1 + rng.below(100)];
            both(station, node(rng.below(COLUMNS), rng.below(ROWS)), times, 2_000_000 + rng.below(9_000_000));
        }
    }
    Arc::new(PlanIndex::new(ContactPlan { contacts, ..ContactPlan::default() }))
}

/// Routes with and without bounds.
fn routes(
    index: &Arc<PlanIndex>,
    guide: &mut Guide,
    [from, to]: [u64; 2],
    at: u64,
    booked: &Booked,
) -> [Option<Route>; 2] {
    let query = Query {
        from: NodeId(from),
        to: NodeId(to),
        at: PlanTime(at),
        size: 10_000,
        expires: PlanTime::MAX,
        priority: Priority::Normal,
        excluded: &[],
        profile: Profile::Exact,
    };
    let origin = Origin { nodes: &[query.from], usable: &|_| Some(PlanTime(0)), outside: &[] };
    let bounds = guide.bounds(index, query.to, query.at, query.size).expect("a large plan");
    assert!(bounds.serves(index, query.to, query.at, query.size));
    let guided = Planner::default().route_guided(index, &origin, &query, booked, Some(&bounds));
    [guided, Planner::default().route(index, &query, booked)]
}

#[test]
fn guided_search_finds_same_route_waiting() {
    let mut rng = Rng::new(5);
    let (mut found, mut waited) = (0, 0);
    for _ in 0..4 {
        let (index, mut guide, mut booked) = (plan(&mut rng), Guide::default(), Booked::new(7));
        for _ in 0..60 {
            let at = rng.below(1500 * SECOND);
            let from = 1 + rng.below(10);
            let to = 1 + (from + rng.below(9)) % 10;
            let [guided, alone] = routes(&index, &mut guide, [from, to], at, &booked);
            assert_eq!(guided, alone, "{from} to {to} at {at}");
            let Some(route) = alone else { continue };
            // Routes with a wait test the bounds of contacts that have not begun.
            (found, waited) = (found + 1, waited + usize::from(route.arrival.0 > at + SECOND));
            for contact in route.path.iter().filter_map(|hop| hop.contact) {
                booked.add(contact, 300_000, Priority::Normal);
            }
        }
    }
    assert!(found > 100 && waited > 30, "{found} found, {waited} of them with a wait");
}

#[test]
fn bounds_fit_window_destination_size() {
    let index = plan(&mut Rng::new(6));
    let mut guide = Guide::default();
    let mut ask = |to, at: u64, volume| guide.bounds(&index, NodeId(to), PlanTime(at * SECOND), volume).unwrap();
    let first = ask(2, 100, 10_000);
    assert!(Arc::ptr_eq(&first, &ask(2, 220, 10_001)), "a little more, within the window");
    assert!(!Arc::ptr_eq(&first, &ask(3, 220, 10_000)) && !Arc::ptr_eq(&first, &ask(2, 220, 20_000)));
    assert!(!Arc::ptr_eq(&first, &ask(2, 221, 10_000)), "a window later");
    let serves = |to, at, volume| first.serves(&index, NodeId(to), PlanTime(at * SECOND), volume);
    assert!(serves(2, 100, 10_000) && !serves(3, 100, 10_000) && !serves(2, 99, 10_000) && !serves(2, 230, 10_000));
    assert!(!serves(2, 100, 9_000), "a smaller volume arrives sooner");
    let small = Arc::new(PlanIndex::new(crate::contact_plan::parse("contact 1 2 +0..+9 rate 1 B/s").unwrap().plan));
    assert!(guide.bounds(&small, NodeId(2), PlanTime(0), 1).is_none());
}

#[test]
fn cached_bounds_are_limited() {
    let index = plan(&mut Rng::new(3));
    let mut guide = Guide::default();
    for stranger in 0..1000 {
        assert!(guide.bounds(&index, NodeId(1_000_000 + stranger), PlanTime(0), 1000).is_none());
    }
    assert!(guide.window.is_none(), "not even a window");
    let most = KEPT_MAX / (index.nodes.len() * size_of::<u64>());
    assert!(guide.bounds(&index, NodeId(1), PlanTime(0), 1000).is_some());
    // One result under many keys is as good as many requests, and much faster.
    let window = guide.window.as_mut().unwrap();
    let one = window.found.values().next().unwrap().clone();
    window.found.extend((0..most as u64).map(|n| ((NodeId(n), n), one.clone())));
    assert!(guide.bounds(&index, NodeId(2), PlanTime(0), 1000).is_some());
    assert_eq!(guide.window.as_ref().unwrap().found.len(), 1);
}

/// A small plan full of ties: few distinct times, rates and light times, and often two links between the same nodes.
fn tied(rng: &mut Rng, nodes: u64) -> Arc<PlanIndex> {
    let mut contacts = Vec::new();
    // The fewer kinds of contacts, the more paths are alike.
    let kinds = 1 + rng.below(4);
    for _ in 0..nodes * (2 + rng.below(4)) {
        let from = rng.below(nodes);
        let start = rng.below(6).min(kinds - 1) * 10;
        contacts.push(Contact {
            link: rng.chance(0.3).then(|| "b".into()),
            rate: DataRate([80, 160, 7, 81][rng.below(kinds) as usize]),
            ..contact(
                from,
                // Sometimes a node to itself, which the index must leave out.
                rng.below(nodes),
                [start, start + [100, 60, 20, 0][rng.below(kinds) as usize]],
                [SECOND, 0, 10 * SECOND, 7][rng.below(kinds) as usize],
            )
        });
    }
    Arc::new(PlanIndex::new(ContactPlan { contacts, ..ContactPlan::default() }))
}

/// A random route request: with deadline, excluded neighbours, links outside the plan, priority and overhead.
struct RandomRequest {
    at: u64,
    to: u64,
    size: u64,
    expires: PlanTime,
    priority: Priority,
    excluded: Vec<NodeId>,
    profile: Profile,
    usable: PlanTime,
    outside: Vec<OutsideLink>,
}

impl RandomRequest {
    fn draw(rng: &mut Rng, nodes: u64) -> RandomRequest {
        let link = |rng: &mut Rng, number| OutsideLink {
            link: LinkId(number),
            peer: NodeId(1 + rng.below(nodes)),
            rate: rng.chance(0.5).then_some(DataRate(80)),
            until: if rng.chance(0.5) { PlanTime::MAX } else { PlanTime::from_secs(rng.below(60)) },
        };
        RandomRequest {
            at: rng.below(8) * 5 * SECOND,
            to: 1 + rng.below(nodes),
            size: [0, 5, 50, 51][rng.below(4) as usize],
            expires: if rng.chance(0.3) { PlanTime::from_secs(rng.below(120)) } else { PlanTime::MAX },
            priority: Priority::ALL[rng.below(3) as usize],
            excluded: (0..rng.below(3)).map(|_| NodeId(rng.below(nodes))).collect(),
            profile: [Profile::Exact, Profile::Sabr, Profile::Ion][rng.below(3) as usize],
            usable: PlanTime::from_secs([0, 0, 20][rng.below(3) as usize]),
            outside: (0..rng.below(3)).map(|number| link(rng, number as u32)).collect(),
        }
    }
    /// Route found with the bounds of a window, or with none.
    fn ask(&self, index: &PlanIndex, booked: &Booked, bounds: Option<&SearchBounds>) -> Option<Route> {
        let query = Query {
            expires: self.expires,
            priority: self.priority,
            excluded: &self.excluded,
            profile: self.profile,
            ..Query::new(NodeId(0), NodeId(self.to), PlanTime(self.at), self.size)
        };
        let origin = Origin { nodes: &[query.from], usable: &|group| self.usable(group), outside: &self.outside };
        if let Some(bounds) = bounds {
            assert!(bounds.serves(index, query.to, query.at, query.profile.volume(query.size)));
        }
        Planner::default().route_guided(index, &origin, &query, booked, bounds)
    }

    /// Reference search without heap, time order or bounds: the best path to each node for each number of hops, from
    /// the best paths with one hop less.
    fn plain(&self, plan: &ContactPlan, index: &PlanIndex, booked: &Booked) -> Option<Plain> {
        let mut round: BTreeMap<u64, Plain> = BTreeMap::new();
        round.insert(0, Plain { arrival: self.at, until: Reverse(u64::MAX), entry: 0, over: Vec::new() });
        let (mut best, mut straight): (Option<Plain>, Option<Plain>) = (None, None);
        for hops in 1..=index.nodes.len() {
            let mut next: BTreeMap<u64, Plain> = BTreeMap::new();
            let mut reach = |node: u64, way: Plain| {
                // A path back to the origin would start again, with neighbours that were excluded.
                if node != 0 && way.arrival <= self.expires.0 && next.get(&node).is_none_or(|known| way < *known) {
                    next.insert(node, way);
                }
            };
            for (link, way) in self.outside.iter().filter(|_| hops == 1).filter_map(|link| Some((link, self.up(link)?)))
            {
                if link.peer.0 != self.to {
                    reach(link.peer.0, way);
                } else if straight.as_ref().is_none_or(|known| way.arrival < known.arrival) {
                    straight = Some(way);
                }
            }
            for (number, contact) in (0..).zip(&plan.contacts) {
                let Some(way) = round.get(&contact.from.0).filter(|_| contact.from != contact.to) else { continue };
                let usable = hops > 1 || self.starts(index, number, contact);
                let Some(arrival) = self.over(contact, number, way.arrival, booked).filter(|_| usable) else {
                    continue;
                };
                let over = way.over.iter().copied().chain([Some(number)]).collect();
                let entry = if hops == 1 { contact.to.0 } else { way.entry };
                let until = Reverse(way.until.0.min(contact.end.0));
                reach(contact.to.0, Plain { arrival, until, entry, over });
            }
            let way = next.get(&self.to).filter(|way| best.as_ref().is_none_or(|best| way.arrival < best.arrival));
            best = way.cloned().or(best);
            round = next;
        }
        // On equal arrival a direct link that is up is preferred to a planned route.
        match (best, straight) {
            (Some(best), Some(straight)) if best.arrival < straight.arrival => Some(best),
            (best, straight) => straight.or(best),
        }
    }
    /// Path over a link outside the plan.
    fn up(&self, link: &OutsideLink) -> Option<Plain> {
        let arrival = self.at + link.rate.map_or(0, |rate| nanoseconds(rate.time_for(self.volume())));
        let goes = arrival <= link.until.0 && arrival <= self.expires.0 && !self.excluded.contains(&link.peer);
        goes.then(|| Plain { arrival, until: Reverse(link.until.0), entry: link.peer.0, over: alloc::vec![None] })
    }
    fn volume(&self) -> u64 {
        self.profile.volume(self.size)
    }
    /// Whether the first hop may use this contact.
    fn starts(&self, index: &PlanIndex, number: u32, contact: &Contact) -> bool {
        let from = index.group_of(number).and_then(|group| self.usable(group));
        from.is_some_and(|from| contact.start >= from) && !self.excluded.contains(&contact.to)
    }
    fn usable(&self, group: crate::GroupId) -> Option<PlanTime> {
        (group.0 % 7 != 3).then_some(self.usable)
    }
    /// Arrival of the last byte over a contact.
    fn over(&self, contact: &Contact, number: u32, ready: u64, booked: &Booked) -> Option<u64> {
        let time = |bytes| nanoseconds(contact.rate.time_for(bytes));
        let taken = booked.bytes(number, self.priority);
        let (free, both) = (contact.start.0 + time(taken), contact.start.0 + time(taken + self.volume()));
        let waits = taken > 0 && free >= ready;
        let first = if waits { free } else { ready.max(contact.start.0) };
        let last = if waits { both } else { first + time(self.volume()) };
        let fits = first < contact.end.0 && last <= contact.end.0;
        fits.then(|| last + self.profile.delay_ns(contact.one_way_delay))
    }
}

/// A path of the reference search, ordered best first. Otherwise equal paths are ordered by their last contact, links
/// outside the plan first.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Plain {
    arrival: u64,
    until: Reverse<u64>,
    entry: u64,
    over: Vec<Option<u32>>,
}
impl Ord for Plain {
    fn cmp(&self, other: &Plain) -> core::cmp::Ordering {
        let key = |way: &Plain| (way.arrival, way.until, way.entry, way.over.last().copied());
        key(self).cmp(&key(other))
    }
}
impl PartialOrd for Plain {
    fn partial_cmp(&self, other: &Plain) -> Option<core::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

#[test]
fn route_is_independent_of_search_guidance() {
    let mut rng = Rng::new(8);
    let (mut found, mut hops) = (0, 0);
    for round in 0..3000 {
        let nodes = 4 + rng.below(20);
        let (index, mut booked) = (tied(&mut rng, nodes), Booked::new(7));
        for ask in 0..4 {
            let question = RandomRequest::draw(&mut rng, nodes);
            let alone = question.ask(&index, &booked, None);
            let plain = question.plain(index.plan(), &index, &booked);
            let way = alone.as_ref().map(|route| {
                let over = route.path.iter().map(|hop| hop.contact).collect();
                let entry = route.next_hop().map_or(0, |node| node.0);
                Plain { arrival: route.arrival.0, until: Reverse(route.until.0), entry, over }
            });
            assert_eq!(way, plain, "round {round}, question {ask}");
            let volume = question.volume();
            // Windows that begin now or earlier, for this size or less, and end soon or late.
            for (early, length, less) in [(0, 300, 0), (25, 300, 40), (5, 40, 1), (0, 5, 0)] {
                let from = question.at.saturating_sub(early * SECOND);
                let window = BoundsWindow::new(&index, from, question.at + length * SECOND);
                let bounds = window.bounds(NodeId(question.to), volume.saturating_sub(less));
                let guided = question.ask(&index, &booked, Some(&bounds));
                assert_eq!(guided, alone, "round {round}, question {ask}, window of {early} s, {length} s, {less} B");
            }
            let Some(route) = alone else { continue };
            (found, hops) = (found + 1, hops + route.hops());
            booked.book(&route, question.priority);
            if let Some(first) = route.first_contact() {
                booked.pass(&index, first, PlanTime(question.at));
            }
        }
    }
    assert!(found > 3000 && hops > 2 * found, "worth asking: {found} routes of {hops} hops");
}
