use super::*;
use crate::contact_plan::parse;
use crate::testing::view;
use std::string::ToString;

fn second(s: u64) -> Instant {
    Instant(s * 1_000_000_000)
}

/// A router at node 1 whose contact `i` uses link `i`.
fn router(plan: &str) -> (Sabr, Arc<ContactPlan>) {
    let plan = Arc::new(parse(plan).unwrap().plan);
    let mut router = Sabr::new(&[], &[NodeId(1)], 7);
    router.on_plan(second(0), &Clock::UNTRUSTED, &plan, &local(&plan), &mut Vec::new());
    (router, plan)
}

fn local(plan: &ContactPlan) -> Vec<(u32, LinkId)> {
    let own = plan.contacts.iter().enumerate().filter(|(_, c)| c.from == NodeId(1));
    own.map(|(index, _)| (index as u32, LinkId(index as u32))).collect()
}

fn ask(router: &mut Sabr, now: u64, bundle: &BundleView) -> Vec<Proposal> {
    let mut out = Vec::new();
    router.propose(second(now), Question::Bundle(bundle), &mut out);
    out
}

/// Link and arrival in seconds of the proposal to forward.
fn forward(proposals: &[Proposal]) -> Option<(u32, u64)> {
    match proposals.last()? {
        Proposal::Forward { link, arrival, .. } => Some((link.0, arrival.unwrap().0 / 1_000_000_000)),
        _ => None,
    }
}

/// Asks and follows the answer.
fn queue(router: &mut Sabr, now: u64, bundle: &BundleView) -> (Option<(u32, u64)>, Vec<RouterOutput>) {
    let answer = forward(&ask(router, now, bundle));
    let mut said = Vec::new();
    if let Some((link, _)) = answer {
        router.on_outcome(second(now), bundle, Outcome::Queued { link: LinkId(link) }, &mut said);
    }
    (answer, said)
}

const TWO_LINKS: &str = "contact 1 2 link=ka +0..+20 rate 10 B/s\ncontact 1 2 link=laser +5..+100 rate 10 B/s";

#[test]
fn bookings_fill_a_link_and_then_its_sibling() {
    let (mut router, _) = router(TWO_LINKS);
    let answers: Vec<_> = (1..=4).map(|n| queue(&mut router, 0, &view(n, 2)).0.unwrap()).collect();
    assert_eq!(answers, [(0, 10), (1, 15), (0, 20), (1, 25)]);
    assert_eq!(router.booked(), (2, 4));
    // Followed or not, a question changes nothing.
    assert_eq!(forward(&ask(&mut router, 0, &view(5, 2))), Some((1, 35)));
    assert_eq!(forward(&ask(&mut router, 0, &view(6, 2))), Some((1, 35)));
}

#[test]
fn bookings_are_conserved() {
    let (mut router, _) = router(TWO_LINKS);
    for n in 1..=6 {
        queue(&mut router, 0, &view(n, 2));
    }
    let mut said = Vec::new();
    for n in 1..=6 {
        let outcome = if n % 2 == 0 { Outcome::Gone } else { Outcome::Failed { link: LinkId(0) } };
        router.on_outcome(second(0), &view(n, 2), outcome, &mut said);
        router.on_outcome(second(0), &view(n, 2), Outcome::Gone, &mut said);
    }
    assert_eq!(router.booked(), (0, 0));
    assert!(said.is_empty());
}

#[test]
fn a_failed_bundle_is_routed_around_the_neighbour_it_failed_for() {
    let (mut router, _) = router(
        "contact 1 2 +0..+50 rate 10 B/s\ncontact 2 4 +0..+50 rate 10 B/s\n\
                                  contact 1 3 +0..+90 rate 10 B/s\ncontact 3 4 +60..+90 rate 10 B/s",
    );
    let mut bundle = view(1, 4);
    assert_eq!(queue(&mut router, 0, &bundle).0, Some((0, 20)));
    router.on_outcome(second(3), &bundle, Outcome::Failed { link: LinkId(0) }, &mut Vec::new());
    bundle.excluded = [NodeId(2)].into();
    assert_eq!(queue(&mut router, 3, &bundle).0, Some((2, 70)));
    bundle.received_from = Some(NodeId(3));
    assert_eq!(queue(&mut router, 3, &bundle).0, None, "not back to the sender");
    router.return_to_sender = true;
    assert_eq!(queue(&mut router, 3, &bundle).0, Some((2, 70)));
}

#[test]
fn what_was_sent_stays_used_and_what_passed_is_gone() {
    let (mut router, _) = router("contact 1 2 +0..+30 rate 10 B/s");
    assert_eq!(queue(&mut router, 0, &view(1, 2)).0, Some((0, 10)));
    router.on_outcome(second(10), &view(1, 2), Outcome::Sent { link: LinkId(0) }, &mut Vec::new());
    // Idle from 10 to 15: that volume cannot be promised any more.
    assert_eq!(queue(&mut router, 15, &view(2, 2)).0, Some((0, 25)));
    assert_eq!(queue(&mut router, 15, &view(3, 2)).0, None);
    assert_eq!(queue(&mut router, 90, &view(4, 2)).0, None);
    assert_eq!(router.booked.len(), 0, "contacts that are over are forgotten");
}

#[test]
fn urgent_bundles_overtake_and_bump_what_no_longer_fits() {
    let (mut router, _) = router(TWO_LINKS.split('\n').next().unwrap());
    let urgent = |n| BundleView { priority: Priority::Expedited, ..view(n, 2) };
    let bulk = |n| BundleView { priority: Priority::Bulk, ..view(n, 2) };
    assert_eq!(queue(&mut router, 0, &view(1, 2)).0, Some((0, 10)));
    assert_eq!(queue(&mut router, 0, &bulk(2)).0, Some((0, 20)));
    let (answer, said) = queue(&mut router, 0, &urgent(3));
    assert_eq!(answer, Some((0, 10)), "as if nothing else were booked");
    assert_eq!(said, [RouterOutput::Bump(BundleHandle(2))], "the least urgent first");
    assert_eq!(queue(&mut router, 0, &bulk(2)).0, None);
    assert_eq!(queue(&mut router, 0, &urgent(4)).1, [RouterOutput::Bump(BundleHandle(1))]);
    assert_eq!(queue(&mut router, 0, &urgent(5)).0, None);
    assert_eq!(router.bookings.len(), 2);
}

#[test]
fn deadlines_hold() {
    let (mut router, _) = router("contact 1 2 +5..+30 rate 10 B/s delay 7 s");
    assert_eq!(forward(&ask(&mut router, 0, &BundleView { expires: second(22), ..view(1, 2) })), Some((0, 22)));
    assert_eq!(forward(&ask(&mut router, 0, &BundleView { expires: second(21), ..view(1, 2) })), None);
}

#[test]
fn a_proposal_carries_the_contact_on_the_nodes_clock() {
    let plan = Arc::new(parse("epoch 2026-11-20T09:00:00Z\ncontact 1 2 +100..+200 rate 10 B/s").unwrap().plan);
    let mut router = Sabr::new(&[], &[NodeId(1)], 0);
    router.on_plan(second(50), &Clock::UNTRUSTED, &plan, &local(&plan), &mut Vec::new());
    assert_eq!(ask(&mut router, 50, &view(1, 2)), [], "without a clock the plan cannot be placed");
    let utc = plan.epoch.map(|e| e.saturating_add_ms(90_000));
    let clock = Clock { at: second(50), utc, error_ms: 1 };
    let mut said = Vec::new();
    router.on_plan(second(50), &clock, &plan, &local(&plan), &mut said);
    assert_eq!(said, [RouterOutput::Reconsider]);
    let expected = Proposal::Forward {
        link: LinkId(0),
        next_hop: NodeId(2),
        not_before: second(60),
        until: second(160),
        arrival: Some(second(70)),
    };
    assert_eq!(ask(&mut router, 50, &view(1, 2)), [expected]);
}

#[test]
fn a_plan_without_epoch_keeps_its_beginning_when_replaced() {
    let (mut router, plan) = router("contact 1 2 +10..+100 rate 10 B/s");
    queue(&mut router, 0, &view(1, 2));
    router.on_plan(second(5), &Clock::UNTRUSTED, &plan, &local(&plan), &mut Vec::new());
    assert_eq!(router.booked(), (1, 1), "the same plan again");
    let other = Arc::new(parse("contact 1 2 +40..+100 rate 10 B/s").unwrap().plan);
    router.on_plan(second(5), &Clock::UNTRUSTED, &other, &local(&other), &mut Vec::new());
    assert_eq!(router.booked(), (0, 0));
    assert_eq!(queue(&mut router, 5, &view(1, 2)).0, Some((0, 50)));
}

#[test]
fn only_contacts_with_a_link_here_are_first_hops() {
    let plan = Arc::new(parse("contact 1 2 +0..+50 rate 10 B/s\ncontact 1 2 link=b +5..+50 rate 10 B/s").unwrap().plan);
    let mut router = Sabr::new(&[], &[NodeId(1)], 0);
    router.on_plan(second(0), &Clock::UNTRUSTED, &plan, &[(1, LinkId(9))], &mut Vec::new());
    assert_eq!(forward(&ask(&mut router, 0, &view(1, 2))), Some((9, 15)));
}

#[test]
fn a_link_that_fails_in_its_contact_gives_its_bundles_to_the_sibling() {
    let (mut router, _) = router(TWO_LINKS);
    queue(&mut router, 0, &view(1, 2));
    let mut said = Vec::new();
    router.on_contact(second(2), ContactChange::Down { peer: NodeId(2), link: LinkId(0) }, &mut said);
    assert_eq!(said, [RouterOutput::Bump(BundleHandle(1))]);
    assert_eq!(queue(&mut router, 2, &view(1, 2)).0, Some((1, 15)));
    said.clear();
    let up = ContactChange::Up { peer: NodeId(2), link: LinkId(0), rate: None, until: None };
    router.on_contact(second(3), up, &mut said);
    assert_eq!(said, [RouterOutput::Reconsider]);
    assert_eq!(queue(&mut router, 3, &view(2, 2)).0, Some((0, 13)));
}

#[test]
fn links_outside_the_plan_are_used_while_up() {
    let (mut router, _) = router("contact 1 2 +50..+100 rate 10 B/s\ncontact 5 2 +0..+100 rate 10 B/s");
    let up = |peer, link| ContactChange::Up {
        peer: NodeId(peer),
        link: LinkId(link),
        rate: Some(farlink_base::DataRate(800)),
        until: None,
    };
    assert_eq!(forward(&ask(&mut router, 0, &view(1, 2))), Some((0, 60)));
    router.on_contact(second(0), up(5, 40), &mut Vec::new());
    assert_eq!(queue(&mut router, 0, &view(1, 2)).0, Some((40, 11)), "through a node of the plan");
    router.on_contact(second(0), up(77, 41), &mut Vec::new());
    assert_eq!(queue(&mut router, 0, &view(2, 77)).0, Some((41, 1)), "to a node the plan does not know");
    router.on_contact(second(0), ContactChange::Down { peer: NodeId(5), link: LinkId(40) }, &mut Vec::new());
    assert_eq!(forward(&ask(&mut router, 0, &view(3, 2))), Some((0, 60)));
}

#[test]
fn critical_bundles_go_over_every_neighbour() {
    let (mut router, _) = router(
        "contact 1 2 +0..+50 rate 10 B/s\ncontact 2 4 +0..+50 rate 10 B/s\n\
                                  contact 1 3 +0..+50 rate 10 B/s\ncontact 3 4 +0..+50 rate 10 B/s",
    );
    let critical = BundleView { critical: true, ..view(1, 4) };
    let proposals = ask(&mut router, 0, &critical);
    assert_eq!(proposals[0], Proposal::Copy { link: LinkId(2), next_hop: NodeId(3), split: 1 });
    assert_eq!(forward(&proposals), Some((0, 20)));
}

#[test]
fn equal_routes_are_told_apart_by_the_entry_node() {
    let text = "contact 1 9 +0..+50 rate 10 B/s\ncontact 9 4 +0..+50 rate 10 B/s\n\
                contact 1 3 +0..+50 rate 10 B/s\ncontact 3 4 +0..+50 rate 10 B/s";
    let plan = parse(text).unwrap().plan;
    let route = find_route(&plan, &Query::new(NodeId(1), NodeId(4), PlanTime(0), 100), &Booked::default()).unwrap();
    assert_eq!(route.next_hop().unwrap().to_string(), "ipn:3");
    assert_eq!(route.until, PlanTime::from_secs(50));
}
