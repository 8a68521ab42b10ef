use super::*;
use crate::contact_plan::{ContactPlan, parse};
use crate::testing::RouterSite;
use farlink_base::{BundleMeta, Clock, EndpointId, Facts};
use farlink_book::{DeliveryForecast, Handle, Identity, New};
use std::string::ToString;

fn second(s: u64) -> Instant {
    Instant(s * 1_000_000_000)
}

fn index(text: &str) -> Arc<PlanIndex> {
    Arc::new(PlanIndex::new(parse(text).unwrap().plan))
}

/// Node 1 with a router whose group `i` uses link `i`, and all other nodes of the plan as neighbours.
struct SabrBench {
    site: RouterSite,
    router: Sabr,
    said: Actions,
}

impl SabrBench {
    fn new(text: &str) -> SabrBench {
        let mut bench =
            SabrBench { site: RouterSite::new(), router: Sabr::new(&[], &[NodeId(1)], 7), said: Actions::default() };
        bench.plan(&index(text));
        bench
    }
    fn plan(&mut self, index: &Arc<PlanIndex>) {
        let clock = Some(PlanClock::starting(Instant::ZERO));
        let links: Vec<_> = index.groups_from(NodeId(1)).map(|group| (group, LinkId(group.0))).collect();
        for (group, link) in &links {
            self.site.meet(index.ends(*group).1.0, link.0);
        }
        self.router.on_plan(&self.site.node(), &PlacedPlan { index, clock, links: &links }, &mut self.said);
        assert_eq!(self.said.drain().collect::<Vec<_>>(), [Action::RerouteAll]);
    }
    /// A bundle of 100 bytes created here.
    fn bundle(&mut self, to: u64) -> Handle {
        self.site.keep(to, 100)
    }
    fn with(&mut self, to: u64, change: impl Fn(&mut BundleMeta, &mut New)) -> Handle {
        self.site.keep_with(to, 100, change)
    }
    fn priority(&mut self, to: u64, priority: Priority) -> Handle {
        self.with(to, |bundle, _| bundle.priority = priority)
    }
    fn way(&mut self, now: u64, bundle: Handle, tried: &[PeerId]) -> RouteDecision {
        self.site.now = second(now);
        self.router.route(&self.site.node(), self.site.held(bundle), tried, &mut self.said)
    }
    /// Link and arrival in seconds of the route found at second `now`.
    fn ask(&mut self, now: u64, bundle: Handle) -> Option<(u32, u64)> {
        let way = self.way(now, bundle, &[]);
        self.seen(bundle, way)
    }
    fn seen(&self, bundle: Handle, way: RouteDecision) -> Option<(u32, u64)> {
        let RouteDecision::One(leg) = way else {
            assert_eq!(way, RouteDecision::Wait(self.site.held(bundle).expires));
            return None;
        };
        let prospect = self.router.prospect(&self.site.node(), self.site.held(bundle), None).unwrap();
        Some((leg.link.0, prospect.arrival.0 / 1_000_000_000))
    }
    fn on_event(&mut self, now: u64, event: PolicyEvent<'_>) {
        self.site.now = second(now);
        self.router.on(&self.site.node(), &event, &mut self.said);
    }
    fn peer(&self, number: u64) -> PeerId {
        self.site.peers.of(NodeId(number)).unwrap().id
    }
    fn said(&mut self) -> Vec<Action> {
        self.said.drain().collect()
    }
}

const TWO_LINKS: &str = "contact 1 2 link=ka +0..+20 rate 10 B/s\ncontact 1 2 link=laser +5..+100 rate 10 B/s";
const DIAMOND: &str = "contact 1 2 +0..+50 rate 10 B/s\ncontact 2 4 +0..+50 rate 10 B/s\n\
                       contact 1 3 +0..+90 rate 10 B/s\ncontact 3 4 +60..+90 rate 10 B/s";

fn failed(bundle: Handle, to: PeerId) -> PolicyEvent<'static> {
    PolicyEvent::Failed { bundle, to, gave: 0, keep: false }
}

#[test]
fn bookings_fill_link_then_sibling() {
    let mut bench = SabrBench::new(TWO_LINKS);
    let bundles = [(); 4].map(|()| bench.bundle(2));
    // Each bundle takes ten seconds of a contact; the second link starts at second 5.
    assert_eq!(bundles.map(|b| bench.ask(0, b).unwrap()), [(0, 10), (1, 15), (0, 20), (1, 25)]);
    assert_eq!(bench.router.booked(), (2, 4));
    // A bundle that is routed again gives up its booking, and books at the end of the contact's queue.
    assert_eq!(bench.ask(0, bundles[1]), Some((1, 25)));
    assert_eq!(bench.router.booked(), (2, 4));
}

#[test]
fn bookings_are_conserved() {
    let mut bench = SabrBench::new(TWO_LINKS);
    let bundles = [(); 6].map(|()| bench.bundle(2));
    for bundle in bundles {
        bench.ask(0, bundle).unwrap();
    }
    let to = bench.peer(2);
    for (n, bundle) in bundles.into_iter().enumerate() {
        if n % 2 == 0 {
            bench.on_event(0, failed(bundle, to));
        }
        bench.on_event(0, PolicyEvent::Gone { bundle, why: farlink_book::Why::Forwarded });
    }
    assert_eq!(bench.router.booked(), (0, 0));
    assert!(bench.router.ledger.least(0, Priority::Expedited).is_none() && bench.said().is_empty());
}

#[test]
fn refused_bundle_avoids_the_neighbour() {
    let mut bench = SabrBench::new(DIAMOND);
    let bundle = bench.bundle(4);
    assert_eq!(bench.ask(0, bundle), Some((0, 20)));
    let (two, three) = (bench.peer(2), bench.peer(3));
    bench.on_event(3, failed(bundle, two));
    let way = bench.way(3, bundle, &[two]);
    assert_eq!(bench.seen(bundle, way), Some((1, 70)));
    // A late failure of the first next hop leaves the booking for the second alone.
    bench.on_event(4, failed(bundle, two));
    assert_eq!(bench.router.booked().1, 1);
    bench.site.held_mut(bundle).from = three;
    assert_eq!(bench.way(3, bundle, &[two]), RouteDecision::Wait(Instant::MAX), "not back to the sender");
    bench.router.return_to_sender = true;
    let way = bench.way(3, bundle, &[two]);
    assert_eq!(bench.seen(bundle, way), Some((1, 70)));
}

#[test]
fn sent_volume_stays_booked() {
    let mut bench = SabrBench::new("contact 1 2 +0..+30 rate 10 B/s");
    let bundles = [(); 4].map(|()| bench.bundle(2));
    assert_eq!(bench.ask(0, bundles[0]), Some((0, 10)));
    let to = bench.peer(2);
    bench.on_event(10, PolicyEvent::Sent { bundle: bundles[0], to, gave: 0, keep: false });
    // Idle from second 10 to 15: that volume cannot be booked any more.
    assert_eq!(bench.ask(15, bundles[1]), Some((0, 25)));
    assert_eq!(bench.ask(15, bundles[2]), None);
    assert_eq!(bench.ask(90, bundles[3]), None);
    assert_eq!(bench.router.booked().0, 0, "contacts that are over are forgotten");
}

#[test]
fn urgent_bundles_displace_bookings() {
    let mut bench = SabrBench::new(TWO_LINKS.split('\n').next().unwrap());
    let (normal, bulk) = (bench.bundle(2), bench.priority(2, Priority::Bulk));
    let urgent = [(); 3].map(|()| bench.priority(2, Priority::Expedited));
    assert_eq!((bench.ask(0, normal), bench.ask(0, bulk)), (Some((0, 10)), Some((0, 20))));
    assert_eq!(bench.ask(0, urgent[0]), Some((0, 10)), "as if nothing else were booked");
    assert_eq!(bench.said(), [Action::Reroute(bulk)], "the least urgent first");
    assert_eq!(bench.ask(0, bulk), None);
    bench.ask(0, urgent[1]);
    assert_eq!(bench.said(), [Action::Reroute(normal)]);
    assert_eq!(bench.ask(0, urgent[2]), None);
    assert_eq!(bench.router.booked(), (1, 2));
}

#[test]
fn deadlines_hold() {
    let mut bench = SabrBench::new("contact 1 2 +5..+30 rate 10 B/s delay 7 s");
    // 5 s until the contact, 10 s to send and 7 s of light.
    let [in_time, late] = [22, 21].map(|end| bench.with(2, |_, new| new.expires = second(end)));
    assert_eq!((bench.ask(0, in_time), bench.ask(0, late)), (Some((0, 22)), None));
}

#[test]
fn next_hop_uses_node_clock() {
    let index = index("epoch 2026-11-20T09:00:00Z\ncontact 1 2 +100..+200 rate 10 B/s");
    let mut bench = SabrBench::new("");
    let (bundle, links) = (bench.bundle(2), [(GroupId(0), LinkId(0))]);
    bench.site.now = second(50);
    bench.router.on_plan(
        &bench.site.node(),
        &PlacedPlan { index: &index, clock: None, links: &links },
        &mut Actions::default(),
    );
    assert_eq!(bench.ask(50, bundle), None, "without a clock the plan cannot be placed");
    let utc = index.plan().epoch.map(|e| e.saturating_add_ms(90_000));
    let clock = PlanClock::of_epoch(index.plan(), &Clock { at: second(50), utc, error_ms: 1 });
    bench.router.on_plan(
        &bench.site.node(),
        &PlacedPlan { index: &index, clock, links: &links },
        &mut Actions::default(),
    );
    let leg = NextHop { link: LinkId(0), not_before: second(60), until: second(160) };
    assert_eq!(bench.way(50, bundle, &[]), RouteDecision::One(leg));
}

#[test]
fn bookings_stay_with_their_plan() {
    let text = "contact 1 2 +10..+100 rate 10 B/s";
    let mut bench = SabrBench::new(text);
    let bundle = bench.bundle(2);
    assert_eq!(bench.ask(0, bundle), Some((0, 20)));
    bench.plan(&index(text));
    assert_eq!(bench.router.booked(), (1, 1), "the same plan again");
    bench.plan(&index("contact 1 2 +40..+100 rate 10 B/s"));
    assert_eq!(bench.router.booked(), (0, 0));
    assert_eq!(bench.ask(5, bundle), Some((0, 50)));
}

#[test]
fn first_hops_need_a_local_link() {
    let index = index("contact 1 2 +0..+50 rate 10 B/s\ncontact 1 2 link=b +5..+50 rate 10 B/s");
    let mut bench = SabrBench::new("");
    let clock = Some(PlanClock::starting(Instant::ZERO));
    let placed = PlacedPlan { index: &index, clock, links: &[(GroupId(1), LinkId(9))] };
    bench.router.on_plan(&bench.site.node(), &placed, &mut Actions::default());
    let bundle = bench.bundle(2);
    assert_eq!(bench.ask(0, bundle), Some((9, 15)));
}

#[test]
fn failed_link_hands_over_to_sibling() {
    let mut bench = SabrBench::new(TWO_LINKS);
    let (bundle, later, peer) = (bench.bundle(2), bench.bundle(2), bench.peer(2));
    bench.ask(0, bundle);
    let link = LinkId(0);
    bench.on_event(2, PolicyEvent::LinkDown { peer, link });
    assert_eq!(bench.said(), [Action::Reroute(bundle)]);
    assert_eq!(bench.ask(2, bundle), Some((1, 15)));
    bench.on_event(3, PolicyEvent::LinkUp { peer, link, rate: None, until: None });
    assert_eq!(bench.said(), [Action::RerouteAll]);
    assert_eq!(bench.ask(3, later), Some((0, 13)));
    // At the end of its contact nothing needs to be done.
    bench.on_event(20, PolicyEvent::LinkDown { peer, link });
    bench.on_event(30, PolicyEvent::LinkUp { peer, link, rate: None, until: None });
    assert_eq!(bench.said(), []);
}

#[test]
fn failed_contact_is_rerouted_in_slices() {
    let mut bench = SabrBench::new("contact 1 2 +0..+900 rate 1 kB/s");
    let bundles: Vec<Handle> = (0..600).map(|_| bench.bundle(2)).collect();
    for bundle in &bundles {
        bench.ask(0, *bundle);
    }
    let event = PolicyEvent::LinkDown { peer: bench.peer(2), link: LinkId(0) };
    bench.on_event(1, event);
    let (mut asked, mut turns) = (Vec::new(), 0);
    loop {
        let said = bench.said();
        turns += 1;
        assert!(said.len() <= SLICE + 1);
        asked.extend(said.iter().filter_map(|o| if let Action::Reroute(b) = o { Some(*b) } else { None }));
        if said.last() != Some(&Action::Wake(second(1))) {
            break;
        }
        bench.on_event(1, PolicyEvent::Wake);
    }
    assert_eq!((asked, turns), (bundles, 3));
    assert_eq!(bench.router.booked(), (0, 0));
}

#[test]
fn unplanned_links_used_while_up() {
    let mut bench = SabrBench::new("contact 1 2 +50..+100 rate 10 B/s\ncontact 5 2 +0..+100 rate 10 B/s");
    let bundles = [2, 2, 77, 2].map(|to| bench.bundle(to));
    let (five, far) = (bench.site.meet(5, 40), bench.site.meet(77, 41));
    let up = |peer, link| PolicyEvent::LinkUp { peer, link: LinkId(link), rate: Some(DataRate(800)), until: None };
    assert_eq!(bench.ask(0, bundles[0]), Some((0, 60)));
    bench.on_event(0, up(five, 40));
    assert_eq!(bench.ask(0, bundles[1]), Some((40, 11)), "through a node of the plan");
    bench.on_event(0, up(far, 41));
    assert_eq!(bench.ask(0, bundles[2]), Some((41, 1)), "to a node the plan does not know");
    bench.site.peers.learn(far, EndpointId::dtn("rover", ""), Identity::Claimed);
    let named = bench.with(0, |bundle, _| bundle.destination = EndpointId::dtn("rover", "app"));
    assert_eq!(bench.ask(0, named), Some((41, 1)), "by another of its names");
    let group = bench.with(0, |bundle, _| bundle.destination = EndpointId::dtn("rover", "~all"));
    assert_eq!(bench.ask(0, group), None, "a group is no neighbour");
    bench.on_event(0, PolicyEvent::LinkDown { peer: five, link: LinkId(40) });
    bench.on_event(0, PolicyEvent::Gone { bundle: bundles[0], why: farlink_book::Why::Forwarded });
    assert_eq!(bench.ask(0, bundles[3]), Some((0, 60)));
}

#[test]
fn pass_that_brings_its_link_is_awaited() {
    // As in a constellation: neighbours are met, and no planned contact has a link before it begins.
    let index = index(
        "contact 1 2 +30..+100 rate 10 B/s\ncontact 5 2 +50..+100 rate 10 B/s\ncontact 6 2 +10..+100 rate 10 B/s",
    );
    let mut bench = SabrBench::new("");
    let clock = Some(PlanClock::starting(Instant::ZERO));
    bench.router.on_plan(&bench.site.node(), &PlacedPlan { index: &index, clock, links: &[] }, &mut bench.said);
    let (five, six, two) = (bench.site.meet(5, 40), bench.site.meet(6, 41), bench.site.meet(2, 42));
    let up = |peer, link| PolicyEvent::LinkUp { peer, link: LinkId(link), rate: Some(DataRate(800)), until: None };
    let [bundle, urgent] = [2, 2].map(|to| bench.bundle(to));
    let critical = bench.with(2, |bundle, _| bundle.facts = Facts(Facts::CRITICAL));
    bench.on_event(0, up(five, 40));
    assert_eq!(bench.ask(0, bundle), None, "its own pass is better than that of the neighbour");
    let prospect = bench.router.prospect(&bench.site.node(), bench.site.held(bundle), None);
    assert_eq!((prospect.map(|p| p.arrival), bench.router.booked()), (Some(second(40)), (0, 0)));
    bench.on_event(0, up(six, 41));
    assert_eq!(bench.ask(0, urgent), Some((41, 20)), "a better pass of a neighbour");
    bench.on_event(0, PolicyEvent::LinkDown { peer: six, link: LinkId(41) });
    assert_eq!(bench.ask(0, critical), Some((40, 60)), "a copy leaves all the same");
    bench.on_event(30, up(two, 42));
    assert_eq!(bench.ask(30, bundle), Some((42, 31)));
}

#[test]
fn critical_bundles_go_over_every_neighbour() {
    let mut bench = SabrBench::new(DIAMOND);
    let critical = bench.with(4, |bundle, _| bundle.facts = Facts(Facts::CRITICAL));
    let RouteDecision::All(legs) = bench.way(0, critical, &[]) else { panic!("one next hop only") };
    assert_eq!(legs.iter().map(|leg| leg.link.0).collect::<Vec<_>>(), [0, 1]);
    assert_eq!(bench.router.booked(), (4, 2));
    let to = bench.peer(3);
    bench.on_event(0, failed(critical, to));
    assert_eq!(bench.router.booked(), (2, 1), "the other next hop keeps its booking");
}

#[test]
fn fragment_takes_narrower_contact() {
    let mut bench = SabrBench::new("contact 1 2 +0..+9 rate 10 B/s\ncontact 1 3 +5..+7 rate 10 B/s");
    let bundle = bench.bundle(2);
    assert_eq!(bench.ask(0, bundle), None);
    let part = |bench: &SabrBench, size| {
        bench.router.route_part(&bench.site.node(), bench.site.held(bundle), size, &[]).map(|leg| leg.until)
    };
    // 9 s at 10 B/s.
    assert_eq!((part(&bench, 91), part(&bench, 90)), (None, Some(second(9))));
    assert_eq!(bench.router.booked(), (0, 0));
}

#[test]
fn estimates_give_arrival_and_confidence() {
    let mut bench = SabrBench::new(
        &DIAMOND.replace("contact 2 4 +0..+50 rate 10 B/s", "contact 2 4 +0..+50 rate 10 B/s confidence 0.5"),
    );
    let (bundle, nowhere) = (bench.bundle(4), bench.bundle(8));
    let at = |bench: &SabrBench, bundle, via: Option<u64>| {
        let via = via.map(|number| bench.site.peer(bench.peer(number)));
        let prospect = bench.router.prospect(&bench.site.node(), bench.site.held(bundle), via)?;
        Some((prospect.arrival.0 / 1_000_000_000, prospect.chance))
    };
    assert_eq!(at(&bench, bundle, None), Some((20, 0.5)), "before it is booked");
    bench.ask(0, bundle);
    assert_eq!(at(&bench, bundle, None), Some((20, 0.5)), "and after");
    assert_eq!(at(&bench, bundle, Some(3)), Some((70, 1.0)));
    assert_eq!((at(&bench, nowhere, None), at(&bench, nowhere, Some(2))), (None, None));
}

#[test]
fn unbooked_node_costs_little() {
    assert!(size_of::<Sabr>() <= 512, "{}", size_of::<Sabr>());
    let text: std::string::String =
        (1..1000).map(|n| std::format!("contact {n} {} +0..+90 rate 1 kB/s\n", n + 1)).collect();
    let mut bench = SabrBench::new(&text);
    let bundle = bench.bundle(700);
    bench.ask(0, bundle);
    assert_eq!(bench.router.planner.memory(), 0, "a search over many nodes leaves nothing behind");
}

#[test]
fn equal_routes_differ_by_entry_node() {
    let text = "contact 1 9 +0..+50 rate 10 B/s\ncontact 9 4 +0..+50 rate 10 B/s\n\
                contact 1 3 +0..+50 rate 10 B/s\ncontact 3 4 +0..+50 rate 10 B/s";
    let index = index(text);
    let route = find_route(&index, &Query::new(NodeId(1), NodeId(4), PlanTime(0), 100), &Booked::default()).unwrap();
    assert_eq!(route.next_hop().unwrap().to_string(), "ipn:3");
    assert_eq!(route.until, PlanTime::from_secs(50));
    assert_eq!(ContactPlan::default(), *PlanIndex::default().plan());
}

#[test]
fn departed_bundles_leave_no_booking() {
    let mut rng = farlink_base::Rng::new(7);
    let mut bench = SabrBench::new(&DIAMOND.replace("10 B/s", "100 B/s"));
    let (two, three) = (bench.peer(2), bench.peer(3));
    let bundles: Vec<Handle> = (0..200)
        .map(|n| {
            let (priority, critical) = (Priority::ALL[n % 3], if n % 7 == 0 { Facts::CRITICAL } else { 0 });
            bench.with(4, |bundle, _| (bundle.priority, bundle.facts) = (priority, Facts(critical)))
        })
        .collect();
    for _ in 0..2000 {
        let bundle = bundles[rng.below(200) as usize];
        match rng.below(4) {
            0 => bench.on_event(0, failed(bundle, if rng.chance(0.5) { two } else { three })),
            1 => bench.on_event(0, PolicyEvent::Gone { bundle, why: farlink_book::Why::Forwarded }),
            _ => drop(bench.way(0, bundle, &[])),
        }
        for contact in 0..4 {
            let most =
                100 * bench.router.loaded.as_ref().unwrap().index.contacts(GroupId(contact))[0].end / 1_000_000_000;
            assert!(
                bench.router.ledger.booked.bytes(contact, Priority::Bulk) <= most,
                "bookings that no longer fit are displaced"
            );
        }
    }
    for bundle in bundles {
        bench.on_event(0, PolicyEvent::Gone { bundle, why: farlink_book::Why::Forwarded });
    }
    assert_eq!(bench.router.booked(), (0, 0));
}

#[test]
fn control_sees_flows_of_plan() {
    let mut bench = SabrBench::new(
        "contact 1 2 +0..+50 rate 10 B/s delay 5 s\ncontact 2 1 +0..+50 rate 20 B/s delay 5 s\n\
         contact 3 1 +90..+95 rate 1 B/s\ncontact 2 3 +0..+99 rate 7 B/s\ncontact 1 3 +200..+300 rate 3 B/s",
    );
    let flow = |start, end, bytes: u64, comes| farlink_book::StoreFlow {
        start: second(start),
        end: second(end),
        rate: DataRate::from_bytes_per_second(bytes),
        comes,
    };
    let mut flows = |now, until| {
        bench.site.now = second(now);
        let mut flows = bench.router.flows(&bench.site.node(), second(until));
        flows.sort_by_key(|flow| (flow.start, flow.comes));
        flows
    };
    let (to, from, late) = (flow(0, 50, 10, false), flow(0, 50, 20, true), flow(200, 300, 3, false));
    assert_eq!(flows(0, 90), [to, from], "a contact that begins at the end does not count");
    assert_eq!(flows(52, 300), [flow(90, 95, 1, true), late]);
    assert_eq!(flows(300, 900), []);
    assert_eq!(Sabr::new(&[], &[], 7).flows(&bench.site.node(), Instant::MAX), [], "no plan");
}
