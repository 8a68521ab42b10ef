//! The search against an exhaustive one: every sequence of contacts over small random plans full of ties.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "it measures, and takes its effort from whoever runs it"
)]

use farlink_base::{DataRate, Duration, Priority, Rng};
use farlink_routing::sabr::{Booked, Planner, Query, Route};
use farlink_routing::{Contact, ContactPlan, NodeId, PlanIndex, PlanTime};

const SECOND: u64 = 1_000_000_000;

/// A plan of small numbers, so that arrivals tie often.
fn random_plan(rng: &mut Rng, nodes: u64, contacts: u64) -> ContactPlan {
    let mut plan = ContactPlan::default();
    for _ in 0..contacts {
        let from = rng.below(nodes);
        let to = (from + 1 + rng.below(nodes - 1)) % nodes;
        let start = rng.below(12) * 10;
        plan.contacts.push(Contact {
            from: NodeId(from),
            to: NodeId(to),
            link: rng.chance(0.2).then(|| "b".to_string()),
            start: PlanTime::from_secs(start),
            end: PlanTime::from_secs(start + 5 + rng.below(6) * 10),
            rate: DataRate::from_bytes_per_second([5, 10, 10, 20][rng.below(4) as usize]),
            one_way_delay: Duration::from_secs([0, 0, 1, 10, 40][rng.below(5) as usize]),
            confidence: 1.0,
        });
    }
    plan
}

/// Search over every path without a repeated node, for the smallest (arrival, hops).
struct Exhaustive<'a> {
    plan: &'a ContactPlan,
    query: &'a Query<'a>,
    booked: &'a Booked,
    best: Option<(u64, usize)>,
}

impl Exhaustive<'_> {
    fn visit(&mut self, at: NodeId, ready: u64, path: &mut Vec<NodeId>) {
        if at == self.query.to {
            let found = (ready, path.len() - 1);
            self.best = Some(self.best.map_or(found, |best| best.min(found)));
            return;
        }
        for (index, c) in self.plan.contacts.iter().enumerate().filter(|(_, c)| c.from == at) {
            let excluded = path.len() == 1 && self.query.excluded.contains(&c.to);
            // A repeated node never arrives earlier, as waiting is allowed.
            if path.contains(&c.to) || excluded {
                continue;
            }
            let nanoseconds_per_byte = 8 * SECOND / c.rate.0;
            let taken = self.booked.bytes(index as u32, self.query.priority) * nanoseconds_per_byte;
            let first = ready.max(c.start.0 + taken);
            let last = first + self.query.size * nanoseconds_per_byte;
            let arrival = last + c.one_way_delay.as_nanos() as u64;
            if first >= c.end.0 || last > c.end.0 || arrival > self.query.expires.0 {
                continue;
            }
            path.push(c.to);
            self.visit(c.to, arrival, path);
            path.pop();
        }
    }
}

fn exhaustive(plan: &ContactPlan, query: &Query<'_>, booked: &Booked) -> Option<(u64, usize)> {
    let mut search = Exhaustive { plan, query, booked, best: None };
    search.visit(query.from, query.at.0, &mut vec![query.from]);
    search.best
}

/// Checks that each hop of a route follows from the one before.
fn assert_consistent(plan: &ContactPlan, query: &Query<'_>, route: &Route) {
    let (mut at, mut ready) = (query.from, query.at);
    for hop in &route.path {
        let c = &plan.contacts[hop.contact.unwrap() as usize];
        assert_eq!((hop.from, c.from, hop.to), (at, at, c.to));
        assert!(hop.start >= ready && hop.start >= c.start && hop.arrival >= hop.start);
        (at, ready) = (hop.to, hop.arrival);
    }
    assert_eq!((at, ready), (query.to, route.arrival));
    let ends = route.path.iter().map(|hop| plan.contacts[hop.contact.unwrap() as usize].end);
    assert_eq!(route.until, ends.min().unwrap());
}

/// Number of plans to try: `FARLINK_ROUNDS`, or ten thousand.
fn rounds() -> u64 {
    std::env::var("FARLINK_ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(10_000)
}

#[test]
fn found_route_is_the_best() {
    let mut rng = Rng::new(734);
    let (mut found, mut booked_ones) = (0, 0);
    for round in 0..rounds() {
        let nodes = 3 + rng.below(4);
        let contacts = 3 + rng.below(11);
        let plan = random_plan(&mut rng, nodes, contacts);
        let (mut planner, mut booked) = (Planner::default(), Booked::default());
        let index = PlanIndex::new(plan.clone());
        for ask in 0..3u64 {
            let excluded = [NodeId(rng.below(nodes))];
            let mut query =
                Query::new(NodeId(0), NodeId(1 + rng.below(nodes - 1)), PlanTime::from_secs(rng.below(40)), 0);
            query.size = [0, 50, 100, 100, 200][rng.below(5) as usize];
            query.excluded = if rng.chance(0.2) { &excluded } else { &[] };
            query.expires = if rng.chance(0.3) { PlanTime::from_secs(rng.below(120)) } else { PlanTime::MAX };
            query.priority = Priority::ALL[rng.below(3) as usize];
            let route = planner.route(&index, &query, &booked);
            let expected = exhaustive(&plan, &query, &booked);
            let got = route.as_ref().map(|r| (r.arrival.0, r.hops()));
            assert_eq!(got, expected, "seed 734, round {round}, question {ask}: {query:?} over {plan:?}");
            if let Some(route) = route {
                found += 1;
                booked_ones += u32::from(!booked.is_empty());
                assert_consistent(&plan, &query, &route);
                // Later searches meet occupied contacts.
                booked.book(&route, query.priority);
            }
        }
    }
    assert!(found > 3000 && booked_ones > 500, "the plans are worth searching: {found}, {booked_ones}");
}

#[test]
fn a_thousand_contacts_are_searched_quickly() {
    let mut rng = Rng::new(1);
    let mut plan = random_plan(&mut rng, 40, 4000);
    for (index, contact) in plan.contacts.iter_mut().enumerate() {
        let shift = Duration::from_secs(index as u64 % 100 * 120);
        (contact.start, contact.end) = (contact.start.saturating_add(shift), contact.end.saturating_add(shift));
    }
    let (index, mut planner) = (PlanIndex::new(plan), Planner::default());
    let (booked, asked) = (Booked::default(), 200);
    let before = std::time::Instant::now();
    let mut found = 0;
    for n in 0..asked {
        let query = Query::new(NodeId(n % 40), NodeId((n * 7 + 1) % 40), PlanTime::from_secs(n * 37), 100);
        found += u64::from(planner.route(&index, &query, &booked).is_some());
    }
    let each = before.elapsed() / asked as u32;
    println!("{found} of {asked} found among 4,000 contacts, {each:?} each");
    // 200 us in a release build; debug builds on a busy machine are far slower.
    assert!(each < Duration::from_millis(20), "{each:?}");
}
