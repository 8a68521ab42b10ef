//! The contact plan: when links may be used, and how many bytes fit.

use crate::support;

use crate::support::{Node, Rule, plan, request, settings};
use farlink_base::{Duration, EndpointId, LinkId, NodeId, Payload, Priority};
use farlink_bpa::Input;
use farlink_bpa::app::{AdminInput, SendRequest};
use farlink_routing::sabr::Sabr;

#[test]
fn planned_link_obeys_contact_and_rate() {
    // 80 kbit/s send a bundle of 1,000 bytes in about 0.1 s, so the others follow later in the contact.
    let mut node = Node::with(settings(), Some(plan(10, 20, 80_000)));
    for _ in 0..3 {
        node.send(EndpointId::ipn(2, 1), Priority::Normal);
    }
    assert!(node.sent().is_empty());
    assert_eq!(node.waits_for(), "contact with ipn:2.0 starts in 10 s");
    node.wait(Duration::from_millis(10_001));
    assert_eq!(node.sent().len(), 1, "the others wait for their turn at 80 kbit/s");
    assert!(node.why(2).starts_with("its turn on link to2 to ipn:2.0 (2 bundles"), "{}", node.why(2));
    node.wait(Duration::from_millis(300));
    assert_eq!(node.sent().len(), 3);
    node.wait(Duration::from_secs(10));
    node.send(EndpointId::ipn(2, 1), Priority::Normal);
    assert_eq!(node.sent().len(), 3, "the contact is over");
}

#[test]
fn timers_are_exact_edges_of_contacts() {
    // A timer that depends on anything but the plan, such as an address in memory, makes two equal runs differ.
    let mut node = Node::with(settings(), Some(plan(10, 20, 80_000)));
    let last = farlink_base::Instant::ZERO + Duration::from_secs(30);
    let mut edges = 0;
    while let Some(at) = node.agent.next_timeout().filter(|at| *at < last) {
        let since_start = at - farlink_base::Instant::ZERO;
        // The contacts begin and end at whole seconds; signals take 600 ms.
        assert_eq!(since_start.as_nanos() % 200_000_000, 0, "{at:?}");
        node.wait(at - node.now);
        edges += 1;
    }
    assert!(edges >= 2, "{edges}");
}

#[test]
fn fragment_fills_contact_after_urgent_bundle() {
    let mut node = Node::with(settings(), Some(plan(0, 1, 80_000)));
    node.ready(0, false);
    node.admin(AdminInput::AddRoute { pattern: "*".into(), next_hop: EndpointId::ipn(2, 0) });
    let big = SendRequest { payload: Payload::fill(3, 50_000), ..request(EndpointId::ipn(2, 1), Priority::Bulk) };
    node.ask(big);
    node.send(EndpointId::ipn(2, 1), Priority::Expedited);
    node.tell(Input::Ready { link: LinkId(0), ready: true });
    node.wait(Duration::from_millis(900));
    let sent = node.sent();
    assert_eq!(sent[0].len(), 1000, "the urgent one first");
    // 80 kbit/s for 1 s are 10,000 bytes; a fragment of the long bundle takes those that are left.
    assert!(sent[1].cut.is_some() && sent[1].len() > 7000, "{:?}", sent[1].cut);
    assert!(sent.iter().map(|s| s.len() + 51).sum::<u64>() <= 10_000);
}

#[test]
fn thousand_contacts_arm_one_timer_per_link() {
    // A link needs a timer for its next edge only, however long the plan is.
    let contacts = (0..1000u64)
        .flat_map(|n| {
            [support::contacts(2, 20 * n + 10, 20 * n + 20, 80_000), support::contacts(3, 7 * n, 7 * n + 3, 8_000)]
        })
        .flatten()
        .collect();
    let plan = farlink_routing::ContactPlan { epoch: Some(support::NOW_UTC), contacts };
    let mut node = Node::with(settings(), Some(plan));
    for _ in 0..50 {
        assert_eq!(node.agent.counts().timers, 2);
        node.wait(Duration::from_secs(33));
    }
    // Each clock reading shifts the plan on the monotonic clock; timers of earlier readings must be cancelled.
    for _ in 0..10 {
        node.tell(Input::Clock(support::clock_at(node.now)));
        assert_eq!(node.agent.counts().timers, 2);
    }
    node.wait(Duration::from_secs(20_000));
    assert_eq!(node.agent.counts().timers, 0, "all contacts are over");
}

#[test]
fn each_contact_edge_emits_one_event() {
    let contacts = (0..100u64).flat_map(|n| support::contacts(2, 20 * n + 10, 20 * n + 20, 80_000)).collect();
    let plan = farlink_routing::ContactPlan { epoch: Some(support::NOW_UTC), contacts };
    let mut node = Node::with(settings(), Some(plan));
    node.wait(Duration::from_secs(2100));
    let count = |want: fn(&farlink_base::Event) -> bool| node.events().iter().filter(|e| want(e)).count();
    assert_eq!(count(|e| matches!(e, farlink_base::Event::LinkUp { .. })), 100);
    assert_eq!(count(|e| matches!(e, farlink_base::Event::LinkDown { .. })), 100);
}

#[test]
fn adjacent_contact_is_used() {
    // The second contact begins when the first ends, at a tenth of its rate.
    let mut plan = plan(0, 10, 80_000);
    plan.contacts.extend(support::contacts(2, 10, 20, 8_000));
    let mut node = Node::with(settings(), Some(plan));
    node.wait(Duration::from_secs(11));
    node.send(EndpointId::ipn(2, 1), Priority::Normal);
    node.send(EndpointId::ipn(2, 1), Priority::Normal);
    assert_eq!(node.sent().len(), 1, "at its own rate");
    node.wait(Duration::from_secs(2));
    assert_eq!(node.sent().len(), 2);
}

#[test]
fn missed_contact_reroutes_bundle() {
    // Bundles queued for a contact share one timer, which reroutes all of them.
    let leg = |node: &farlink_book::Node<'_>| farlink_book::NextHop {
        link: LinkId(0),
        not_before: node.now,
        until: node.now + Duration::from_secs(5),
    };
    let script = support::Script {
        route: Box::new(move |node, _, _| farlink_book::RouteDecision::One(leg(node))),
        ..support::Script::default()
    };
    let mut node = Node::routed(script);
    node.ready(0, false);
    for _ in 0..3 {
        node.send(EndpointId::ipn(2, 1), Priority::Normal);
    }
    let routed = |node: &Node| node.events().iter().filter(|e| matches!(e, farlink_base::Event::Routed { .. })).count();
    assert_eq!((routed(&node), node.agent.counts().timers), (3, 1), "one timer for the list");
    node.wait(Duration::from_secs(6));
    assert_eq!((routed(&node), node.agent.counts().timers), (6, 1));
    node.ready(0, true);
    assert_eq!((node.sent().len(), node.agent.counts().timers), (3, 0));
}

#[test]
fn replicated_bundle_survives_missed_contact() {
    let script = support::Script {
        route: Box::new(|node, _, tried| {
            let leg = |link, seconds| farlink_book::NextHop {
                link: LinkId(link),
                not_before: node.now,
                until: node.now + Duration::from_secs(seconds),
            };
            let _ = tried;
            farlink_book::RouteDecision::All(vec![leg(0, 5), leg(1, 50)])
        }),
        ..support::Script::default()
    };
    let mut node = Node::routed(script);
    node.ready(0, false);
    node.ready(1, false);
    node.send(EndpointId::ipn(9, 1), Priority::Normal);
    node.wait(Duration::from_secs(6));
    // The contact of link 0 passed unused: the copy for link 1 leaves, and the bundle itself is routed again.
    node.ready(1, true);
    for sent in node.sent() {
        node.confirm(sent.id);
    }
    node.wait(Duration::from_secs(1));
    node.ready(0, true);
    let links: Vec<u32> = node.sent().iter().map(|s| s.link.0).collect();
    assert!(links.contains(&0) && links.contains(&1), "{links:?}");
    for sent in node.sent() {
        node.confirm(sent.id);
    }
    assert_eq!(node.held(), 0);
}

#[test]
fn anonymous_bundle_is_not_replicated() {
    // Copies of an anonymous bundle could not be recognized as duplicates.
    let script = support::Script {
        route: Box::new(|node, _, _| {
            let until = farlink_base::Instant::MAX;
            let leg = |link| farlink_book::NextHop { link: LinkId(link), not_before: node.now, until };
            farlink_book::RouteDecision::All(vec![leg(0), leg(1)])
        }),
        ..support::Script::default()
    };
    let mut node = Node::routed(script);
    node.receive(1, support::Bundle::new(EndpointId::Null, EndpointId::ipn(9, 1), 1));
    assert_eq!(node.sent_over(0).len() + node.sent_over(1).len(), 1);
    node.receive(2, support::from_two(2, EndpointId::ipn(9, 1)));
    assert_eq!(node.sent_over(0).len() + node.sent_over(1).len(), 3);
}

/// A router that sends a copy over each link, within `seconds`.
fn both_sides(seconds: u64) -> support::Script {
    support::Script {
        route: Box::new(move |node, _, _| {
            let until = node.now + Duration::from_secs(seconds);
            let leg = |link| farlink_book::NextHop { link: LinkId(link), not_before: node.now, until };
            farlink_book::RouteDecision::All(vec![leg(0), leg(1)])
        }),
        ..support::Script::default()
    }
}

#[test]
fn copy_leaves_after_original_confirmed() {
    // The confirmation over one link does not cancel the copy for the other.
    let mut node = Node::routed(both_sides(5));
    node.ready(1, false);
    node.send(EndpointId::ipn(9, 1), Priority::Normal);
    node.confirm(node.sent()[0].id);
    assert_eq!(node.held(), 1, "a copy is to go over the other");
    node.ready(1, true);
    node.confirm(node.sent()[1].id);
    assert_eq!(node.held(), 0);
}

#[test]
fn copy_with_missed_contact_holds_nothing() {
    // A copy that cannot leave any more must not keep the confirmed bundle.
    for commit in [true, false] {
        let mut node = Node::routed(both_sides(5));
        node.commit = commit;
        node.ready(1, false);
        node.send(EndpointId::ipn(9, 1), Priority::Normal);
        node.confirm(node.sent()[0].id);
        node.wait(Duration::from_secs(6));
        assert_eq!((node.held(), node.results()), (0, vec![true]));
    }
}

/// Contacts with the neighbours 2 and 3 as (peer, start, end) in s; both neighbours reach node 9.
fn ways_to_nine(contacts: &[(u64, u64, u64)]) -> farlink_routing::ContactPlan {
    let onward = [2, 3].map(|via| farlink_routing::Contact {
        from: farlink_base::NodeId::ipn(via),
        to: farlink_base::NodeId::ipn(9),
        ..support::contacts(2, 0, 900, 80_000)[0].clone()
    });
    let own = contacts.iter().flat_map(|(peer, start, end)| support::contacts(*peer, *start, *end, 80_000));
    farlink_routing::ContactPlan { epoch: Some(support::NOW_UTC), contacts: own.chain(onward).collect() }
}

/// A node with SABR whose only bundle is queued for a contact with node 2 in 40 s.
fn looking_ahead(later: &[(u64, u64, u64)]) -> Node {
    let router = farlink_routing::sabr::Sabr::new(&[0.0, 0.0], &[farlink_base::NodeId::ipn(1)], 1);
    let plan = ways_to_nine(&[&[(2, 40, 55)], later].concat());
    let settings = farlink_bpa::Settings { routes: Vec::new(), ..settings() };
    let mut node = Node::of(settings, Some(plan), router, support::Rule::default());
    node.send(EndpointId::ipn(9, 1), Priority::Normal);
    assert_eq!(node.waits_for(), "contact with ipn:2.0 starts in 40 s");
    node
}

#[test]
fn clock_step_past_contact_reroutes_queue() {
    // The clock steps by 120 s, past the contact that was to start in 40 s.
    let mut node = looking_ahead(&[(3, 130, 200)]);
    let clock = support::clock_at(node.now);
    node.tell(Input::Clock(farlink_base::Clock { utc: clock.utc.map(|utc| utc.saturating_add_ms(120_000)), ..clock }));
    node.wait_ms(11_000);
    assert_eq!(node.sent_over(1).len(), 1, "{}", node.waits_for());
}

#[test]
fn new_plan_reroutes_queued_bundles() {
    // Routes computed from the old plan are void.
    let sabr = Sabr::new(&[], &[NodeId::ipn(1)], 7);
    let mut node = Node::of(settings(), Some(plan(10, 20, 80_000)), sabr, Rule::default());
    node.send(EndpointId::ipn(2, 1), Priority::Normal);
    assert_eq!(node.waits_for(), "contact with ipn:2.0 starts in 10 s");
    // In the new plan the contact with node 2 is later, and a route over node 3 is sooner.
    let mut contacts = support::contacts(3, 5, 9, 80_000);
    contacts.push(farlink_routing::Contact { from: NodeId::ipn(3), to: NodeId::ipn(2), ..contacts[0].clone() });
    contacts.extend(support::contacts(2, 100, 110, 80_000));
    let new = farlink_routing::ContactPlan { epoch: Some(support::NOW_UTC), contacts };
    node.admin(AdminInput::SetPlan(std::sync::Arc::new(farlink_routing::PlanIndex::new(new))));
    node.wait(Duration::from_secs(6));
    assert_eq!(node.sent_over(1), [0], "over the neighbour the new plan names: {}", node.why(1));
}

#[test]
fn clock_drift_reasks_plan_routers_only() {
    // A shift of the clock moves contacts; only a router that reads the plan can decide differently.
    let asked = |uses_plan| {
        let router = support::Script { uses_plan, ..support::Script::default() };
        let mut node = Node::of(settings(), Some(plan(10, 20, 80_000)), router, Rule::default());
        for _ in 0..3 {
            node.send(EndpointId::ipn(9, 1), Priority::Normal);
        }
        node.said.clear();
        let clock = support::clock_at(node.now);
        node.tell(Input::Clock(farlink_base::Clock { utc: clock.utc.map(|utc| utc.saturating_add_ms(1)), ..clock }));
        node.events().iter().filter(|event| matches!(event, farlink_base::Event::Waiting { .. })).count()
    };
    assert_eq!([asked(true), asked(false)], [3, 0]);
}

fn set_plan(node: &mut Node, contacts: Vec<farlink_routing::Contact>) {
    let plan = farlink_routing::ContactPlan { epoch: Some(support::NOW_UTC), contacts };
    node.admin(AdminInput::SetPlan(std::sync::Arc::new(farlink_routing::PlanIndex::new(plan))));
}
/// A router that queues every bundle for one link, for a contact that ends in 1,000 s.
fn for_link(link: u32) -> support::Script {
    let until = farlink_base::Instant(1_000_000_000_000);
    support::Script {
        route: Box::new(move |node, _, _| {
            farlink_book::RouteDecision::One(farlink_book::NextHop { link: LinkId(link), not_before: node.now, until })
        }),
        ..support::Script::default()
    }
}
/// A second link to `ipn:2.0`.
fn sibling() -> farlink_bpa::LinkSettings {
    farlink_bpa::LinkSettings { peer: EndpointId::ipn(2, 0), name: "sibling".into(), ..support::link(5) }
}

#[test]
fn link_absent_from_new_plan_is_free() {
    // A link without any contact in the plan is not limited to contacts.
    let mut node = Node::with(settings(), Some(plan(10, 20, 80_000)));
    node.send(EndpointId::ipn(2, 1), Priority::Normal);
    assert!(node.sent().is_empty());
    set_plan(&mut node, support::contacts(3, 100, 110, 80_000));
    assert_eq!(node.sent_over(0), [0]);
}

#[test]
fn link_receives_in_return_contacts_only() {
    // Contacts have a direction: reception follows the contacts from the neighbour.
    let mut node = Node::new();
    let [out, back] = <[_; 2]>::try_from(support::contacts(2, 0, 100, 80_000)).unwrap();
    let back = farlink_routing::Contact { start: farlink_routing::PlanTime::from_secs(50), ..back };
    set_plan(&mut node, vec![out, back]);
    let hears = |node: &Node| {
        let pick = |o: &farlink_bpa::Output| match o {
            farlink_bpa::Output::Link { link: LinkId(0), state } => Some((state.transmit, state.receive)),
            _ => None,
        };
        node.said.iter().filter_map(pick).next_back()
    };
    assert_eq!(hears(&node), Some((true, false)));
    node.wait(Duration::from_secs(51));
    assert_eq!(hears(&node), Some((true, true)));
}

/// A node whose router asks to be woken 5 s after each route or plan, and the times of its wake-ups.
fn wakes_after_5_s() -> (Node, std::sync::mpsc::Receiver<farlink_base::Instant>) {
    let (woke, woken) = std::sync::mpsc::channel();
    let script = support::Script {
        when_asked: Box::new(|now, out| out.push(farlink_book::Action::Wake(now + Duration::from_secs(5)))),
        on: Box::new(move |node, _, _| woke.send(node.now).unwrap_or_default()),
        ..support::Script::default()
    };
    (Node::routed(script), woken)
}

#[test]
fn router_action_on_new_plan_is_followed() {
    let (mut node, woken) = wakes_after_5_s();
    set_plan(&mut node, support::contacts(2, 100, 200, 80_000));
    let at = node.now + Duration::from_secs(5);
    node.wait(Duration::from_secs(6));
    assert_eq!(woken.try_iter().collect::<Vec<_>>(), [at]);
}

#[test]
fn router_action_with_decision_is_followed() {
    let (mut node, woken) = wakes_after_5_s();
    node.send(EndpointId::ipn(9, 1), Priority::Normal);
    let at = node.now + Duration::from_secs(5);
    node.wait(Duration::from_secs(6));
    assert_eq!(woken.try_iter().collect::<Vec<_>>(), [at]);
}

#[test]
fn clock_drift_arms_no_timers() {
    // A shifted contact replaces its timer; old ones must not pile up with each clock reading.
    let mut node = Node::with(settings(), Some(plan(100, 200, 80_000)));
    assert_eq!(node.agent.counts().timers, 1);
    for seconds in 1..20 {
        let clock = support::clock_at(node.now);
        let utc = clock.utc.map(|utc| utc.saturating_add_ms(1000 * seconds));
        node.tell(Input::Clock(farlink_base::Clock { utc, ..clock }));
        assert_eq!(node.agent.counts().timers, 1);
    }
}

#[test]
fn removed_link_leaves_no_timer() {
    let mut node = Node::with(settings(), Some(plan(100, 200, 80_000)));
    assert_eq!(node.agent.counts().timers, 1);
    node.remove_link(0);
    assert_eq!(node.agent.counts().timers, 0);
}

#[test]
fn released_queue_leaves_no_timer() {
    // A queue for a contact has a timer; each way to release the queue must cancel it.
    let mut node = Node::routed(for_link(0));
    node.add_link(&sibling());
    node.ready(0, false);
    node.send(EndpointId::ipn(2, 1), Priority::Normal);
    assert_eq!(node.agent.counts().timers, 1);
    for n in 0..10 {
        // The queue is released by a new route, then by a link that goes down, and below by the bundle's cancellation.
        node.admin(AdminInput::AddRoute { pattern: format!("ipn:{n}.*"), next_hop: EndpointId::ipn(3, 0) });
        assert_eq!(node.agent.counts().timers, 1);
        node.carrier(0, false);
        node.carrier(0, true);
        assert_eq!(node.agent.counts().timers, 1);
    }
    node.admin(AdminInput::Cancel { bundle: farlink_base::BundleHandle(1) });
    assert_eq!(node.agent.counts().timers, 0);
    node.remove_link(5);
    node.send(EndpointId::ipn(9, 1), Priority::Normal);
    assert_eq!(node.agent.counts().timers, 1);
    node.remove_link(0);
    assert_eq!(node.agent.counts().timers, 0);
}

#[test]
fn router_sees_missed_contact() {
    let (said, heard) = std::sync::mpsc::channel();
    let leg = |node: &farlink_book::Node<'_>| farlink_book::NextHop {
        link: LinkId(0),
        not_before: node.now,
        until: node.now + Duration::from_secs(5),
    };
    let script = support::Script {
        hears: farlink_book::EventMask::OUTCOMES,
        route: Box::new(move |node, _, _| farlink_book::RouteDecision::One(leg(node))),
        on: Box::new(move |node, news, _| {
            if let farlink_book::PolicyEvent::Failed { to, .. } = *news {
                said.send((node.now, node.peers.get(to).map(|peer| peer.node))).unwrap_or_default();
            }
        }),
        ..support::Script::default()
    };
    let mut node = Node::routed(script);
    node.ready(0, false);
    node.send(EndpointId::ipn(2, 1), Priority::Normal);
    let at = node.now + Duration::from_secs(5);
    node.wait(Duration::from_secs(6));
    assert_eq!(heard.try_iter().collect::<Vec<_>>(), [(at, Some(NodeId::ipn(2)))]);
}
