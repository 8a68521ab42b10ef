use super::*;
use crate::contact_plan::{Contact, ContactPlan};
use crate::sabr::{Booked, Origin, Profile, Query, Route};
use farlink_base::{Duration, Priority, Rng};

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

/// Six hundred nodes in a torus of which each sees the four beside it all the time, and ten more that see some of them
/// now and then.
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

/// The route with and without a guide.
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
fn a_guided_search_finds_the_same_route_also_where_it_must_wait() {
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
            (found, waited) = (found + 1, waited + usize::from(route.arrival.0 > at + SECOND));
            for contact in route.path.iter().filter_map(|hop| hop.contact) {
                booked.add(contact, 300_000, Priority::Normal);
            }
        }
    }
    assert!(found > 100 && waited > 30, "{found} found, {waited} of them with a wait");
}

#[test]
fn bounds_are_of_one_window_destination_and_size_and_small_plans_have_none() {
    let index = plan(&mut Rng::new(6));
    let mut guide = Guide::default();
    let mut ask = |to, at: u64, volume| guide.bounds(&index, NodeId(to), PlanTime(at * SECOND), volume).unwrap();
    let first = ask(2, 100, 10_000);
    assert!(Arc::ptr_eq(&first, &ask(2, 220, 10_001)), "a little more, within the window");
    assert!(!Arc::ptr_eq(&first, &ask(3, 220, 10_000)) && !Arc::ptr_eq(&first, &ask(2, 220, 20_000)));
    assert!(!Arc::ptr_eq(&first, &ask(2, 221, 10_000)), "a window later");
    let serves = |to, at, volume| first.serves(&index, NodeId(to), PlanTime(at * SECOND), volume);
    assert!(serves(2, 100, 10_000) && !serves(3, 100, 10_000) && !serves(2, 99, 10_000) && !serves(2, 230, 10_000));
    assert!(!serves(2, 100, 9_000), "what takes less arrives sooner");
    let small = Arc::new(PlanIndex::new(crate::contact_plan::parse("contact 1 2 +0..+9 rate 1 B/s").unwrap().plan));
    assert!(guide.bounds(&small, NodeId(2), PlanTime(0), 1).is_none());
}

#[test]
fn what_is_kept_is_bounded_and_nothing_is_for_nodes_outside_the_plan() {
    let index = plan(&mut Rng::new(3));
    let mut guide = Guide::default();
    for stranger in 0..1000 {
        assert!(guide.bounds(&index, NodeId(1_000_000 + stranger), PlanTime(0), 1000).is_none());
    }
    assert!(guide.window.is_none(), "not even a window");
    let most = KEPT_MAX / (index.nodes.len() * size_of::<u64>());
    assert!(guide.bounds(&index, NodeId(1), PlanTime(0), 1000).is_some());
    // As if so many had been asked for.
    let window = guide.window.as_mut().unwrap();
    let one = window.found.values().next().unwrap().clone();
    window.found.extend((0..most as u64).map(|n| ((NodeId(n), n), one.clone())));
    assert!(guide.bounds(&index, NodeId(2), PlanTime(0), 1000).is_some());
    assert_eq!(guide.window.as_ref().unwrap().found.len(), 1);
}
