//! Congestion control: admission, eviction, moving to a neighbour, deletion.

use crate::support;

use crate::support::{Bundle, NoRouter, Node, OnlyRoom, Rule, Script, from_two, settings};
use farlink_base::{DeleteReason, EndpointId, Event, LinkId, NodeId, Payload, Priority, Refusal};
use farlink_book::{Action, EventMask, PolicyEvent, Why};
use farlink_bpa::{Input, Settings};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

fn away() -> EndpointId {
    EndpointId::ipn(8, 1)
}

/// A node with room for three bundles of 1,041 bytes.
fn small(control: Rule) -> Node {
    Node::of(Settings { capacity_bytes: 3500, ..settings() }, None, NoRouter, control)
}
/// A control by which the oldest bundle is worth least.
fn drop_oldest() -> Rule {
    Rule { worth: Box::new(|held| Some(held.number as f64)), ..Rule::default() }
}
fn held(node: &Node) -> Vec<u64> {
    node.agent.bundles(node.now, farlink_base::BundleHandle(0), 99).iter().map(|b| b.handle.0).collect()
}

#[test]
fn control_refuses_received_and_local_bundles() {
    // The control is asked for arrivals, for heads of arrivals and for local requests alike.
    let control = Rule {
        admit: Box::new(|held| if held.bundle.sequence == 1 { Ok(1.0) } else { Err(Refusal::NoResources) }),
        ..Rule::default()
    };
    let mut node = small(control);
    node.receive(1, from_two(1, away()));
    node.receive(2, from_two(2, away()));
    node.begins(0, 3, from_two(3, away()));
    node.send(away(), Priority::Normal);
    assert_eq!(node.verdicts(), [(1, Ok(())), (2, Err(Refusal::NoResources)), (3, Err(Refusal::NoResources))]);
    assert_eq!(node.results(), [false], "push-back to the source");
}

#[test]
fn least_worth_evicted_as_needed() {
    // Evictions stop as soon as the arrival fits.
    let mut node = small(drop_oldest());
    for n in 1..=5 {
        node.receive(n, from_two(n, away()));
    }
    assert_eq!((held(&node), node.deleted()), (vec![3, 4, 5], vec![DeleteReason::DepletedStorage; 2]));
    node.receive(6, from_two(6, away()).payload(Payload::fill(0, 2000)));
    assert_eq!(held(&node), [5, 6], "two for one");
}

#[test]
fn worth_asked_once_per_bundle() {
    // 600 of 1,000 bundles must go; a control may be slow, so it values each bundle once.
    let asked = Arc::new(AtomicU64::new(0));
    let count = asked.clone();
    let worth = move |held: &farlink_book::Held| {
        count.fetch_add(1, Ordering::Relaxed);
        // The newer half is worth less; within it the oldest is evicted first.
        Some(f64::from(u8::from(held.number <= 500)))
    };
    let control = Rule { worth: Box::new(worth), ..Rule::default() };
    let settings = Settings { capacity_bytes: 1000 * 1041, ..settings() };
    let mut node = Node::of(settings, None, NoRouter, control);
    for n in 1..=1000 {
        node.receive(n, from_two(n, away()));
    }
    let numbers = |node: &Node| {
        node.agent.bundles(node.now, farlink_base::BundleHandle(0), 2000).iter().map(|b| b.handle.0).collect::<Vec<_>>()
    };
    assert_eq!((numbers(&node).len(), asked.load(Ordering::Relaxed)), (1000, 0));
    node.receive(1001, from_two(1001, away()).payload(Payload::fill(0, 600 * 1041 - 41)));
    assert_eq!(numbers(&node), (101..=500).chain([1001]).collect::<Vec<u64>>());
    assert_eq!(asked.load(Ordering::Relaxed), 1000);
}

#[test]
fn eviction_orders_negative_zero_and_nan_worth() {
    // -0.0 and 0.0 are equal; a worth that is no number protects its bundle.
    let worths = [-2.0, f64::NAN, 0.0, -0.0, -1.0];
    let worth = move |held: &farlink_book::Held| worths.get(held.number as usize - 1).copied();
    let control = Rule { worth: Box::new(worth), ..Rule::default() };
    let mut node = Node::of(Settings { capacity_bytes: 5 * 1041, ..settings() }, None, NoRouter, control);
    for n in 1..=9 {
        node.receive(n, from_two(n, away()));
    }
    assert_eq!(held(&node), [2, 6, 7, 8, 9]);
    let gone = |e: &Event| if let Event::Deleted { bundle, .. } = e { Some(bundle.0) } else { None };
    assert_eq!(node.events().iter().filter_map(gone).collect::<Vec<_>>(), [1, 5, 3, 4]);
}

#[test]
fn insufficient_eviction_evicts_nothing() {
    // Only the bundle worth 1 may go for an arrival worth 1.5; alone it frees too little for a long arrival.
    let control = Rule {
        admit: Box::new(|held| Ok(if held.bundle.sequence > 3 { 1.5 } else { 9.0 })),
        worth: Box::new(|held| [Some(1.0), Some(2.0), None][(held.number - 1) as usize % 3]),
        ..Rule::default()
    };
    let mut node = small(control);
    for n in 1..=3 {
        node.receive(n, from_two(n, away()));
    }
    node.receive(4, from_two(4, away()).payload(Payload::fill(0, 2000)));
    assert_eq!((held(&node), node.deleted()), (vec![1, 2, 3], vec![]));
    node.receive(5, from_two(5, away()));
    assert_eq!(held(&node), [2, 3, 4]);
}

#[test]
fn busy_bundles_are_not_evicted() {
    // Bundle 1 is being sent, 2 is for an application, 3 is not durable yet.
    let mut node = small(drop_oldest());
    node.receive(1, from_two(1, EndpointId::ipn(3, 1)));
    node.receive(2, from_two(2, EndpointId::ipn(1, 1)));
    node.commit = false;
    node.receive(3, from_two(3, away()));
    node.receive(4, from_two(4, away()));
    assert_eq!((held(&node), node.verdicts().last()), (vec![1, 2, 3], Some(&(4, Err(Refusal::NoResources)))));
    node.stored(3);
    node.receive(5, from_two(5, away()));
    assert_eq!(held(&node), [1, 2, 4]);
}

#[test]
fn bundles_for_this_node_not_evicted() {
    let here = EndpointId::ipn(1, 1);
    // 600 earlier actions exceed the 256 units of a slice, so the call ends before the bundle for this node is
    // processed.
    let router = Script {
        hears: EventMask::KEPT,
        route: Box::new(|_, _, _| farlink_book::RouteDecision::Wait(farlink_base::Instant::MAX)),
        on: Box::new(|node, news, out| match *news {
            PolicyEvent::Kept { bundle, .. } if node.get(bundle).is_some_and(|held| held.destination() == node.me) => {
                let gone = farlink_book::Handle { stamp: 99, slot: 99 };
                (0..600).for_each(|_| out.delete(gone, Why::Acked));
            }
            _ => {}
        }),
        ..Script::default()
    };
    let control = Rule {
        worth: Box::new(|held| Some(if held.number == 3 { 0.0 } else { held.number as f64 })),
        ..Rule::default()
    };
    let settings = Settings { capacity_bytes: 3500, durable: false, ..settings() };
    let mut node = Node::of(settings, None, router, control);
    for (n, to) in [(1, away()), (2, away()), (3, here), (4, away())] {
        let (bundle, hop) = from_two(n, to).parts();
        node.once(Input::Arrived { link: LinkId(0), token: support::token(n), bundle, hop });
    }
    assert!(node.agent.next_timeout().is_some_and(|at| at <= node.now), "its turn has not come");
    assert_eq!(held(&node), [2, 3, 4]);
}

#[test]
fn reserved_room_not_given_twice() {
    // Reservations of arrivals count as used room until they are settled.
    let settings = Settings { capacity_bytes: 3500, durable: false, ..settings() };
    let mut node = Node::of(settings, None, NoRouter, OnlyRoom);
    assert_eq!(node.agent.room(), Some(3500));
    node.receive(1, from_two(1, away()));
    node.begins(0, 2, from_two(2, away()));
    assert_eq!(node.agent.room(), Some(3500 - 2 * 1041));
    node.begins(0, 3, from_two(3, away()));
    node.tell(Input::Abandoned { token: support::token(3) });
    node.receive(2, from_two(2, away()));
    assert_eq!(node.agent.room(), Some(3500 - 2 * 1041), "it came, and the other will not");
    node.begins(0, 4, from_two(4, away()));
    node.begins(0, 5, from_two(5, away()));
    node.receive(6, from_two(6, away()));
    let full = Err(Refusal::NoResources);
    assert_eq!(node.verdicts(), [(1, Ok(())), (2, Ok(())), (5, full), (6, full)]);
}

#[test]
fn moving_victim_stays_until_taken() {
    // An eviction by moving frees no room before the neighbour has confirmed.
    let control =
        Rule { rehome: Box::new(|node, _| node.peers.of(NodeId::ipn(3)).map(|peer| peer.id)), ..drop_oldest() };
    let mut node = small(control);
    for n in 1..=3 {
        node.receive(n, from_two(n, away()));
    }
    node.receive(4, from_two(4, away()));
    assert_eq!(node.verdicts().last(), Some(&(4, Err(Refusal::NoResources))), "there is no room yet");
    assert_eq!((held(&node), node.sent_over(1)), (vec![1, 2, 3], vec![1]));
    node.confirm(node.sent()[0].id);
    assert_eq!((held(&node), node.deleted()), (vec![2, 3], vec![DeleteReason::Done]));
    node.receive(5, from_two(4, away()));
    assert_eq!(node.verdicts().last(), Some(&(5, Ok(()))));
}

#[test]
fn failed_move_keeps_bundle() {
    // The neighbour refused the bundle that was to move there, so the bundle must stay here.
    let control =
        Rule { rehome: Box::new(|node, _| node.peers.of(NodeId::ipn(3)).map(|peer| peer.id)), ..drop_oldest() };
    let mut node = small(control);
    for n in 1..=4 {
        node.receive(n, from_two(n, away()));
    }
    node.fail(node.sent()[0].id, Some(Refusal::NoResources));
    assert_eq!(held(&node), [1, 2, 3]);
    assert!(node.deleted().is_empty());
}

/// A router that requests `order` for each kept bundle.
fn ordering(order: impl Fn(farlink_book::Handle, u128) -> Action + Send + 'static) -> Script {
    Script {
        hears: EventMask::KEPT,
        route: Box::new(|_, _, _| farlink_book::RouteDecision::Wait(farlink_base::Instant::MAX)),
        on: Box::new(move |node, news, out| {
            if let PolicyEvent::Kept { bundle, .. } = *news {
                out.push(order(bundle, node.get(bundle).unwrap().bundle.id));
            }
        }),
        ..Script::default()
    }
}

#[test]
fn delete_action_spares_deliveries_and_sends() {
    // A router's deletion ends forwarding; local applications still get the bundle.
    for commit in [true, false] {
        let mut node = Node::routed(ordering(|bundle, _| Action::Delete { bundle, why: Why::Acked }));
        node.commit = commit;
        node.receive(1, from_two(1, away()));
        assert_eq!((node.held(), node.deleted()), (0, vec![DeleteReason::Done]), "committed: {commit}");
        assert_eq!(node.verdicts(), [(1, Ok(()))]);
    }
    let mut node = Node::routed(ordering(|bundle, _| Action::Delete { bundle, why: Why::Acked }));
    node.receive(2, from_two(2, EndpointId::ipn(1, 1)));
    assert_eq!(node.held(), 1, "for an application here");
    node.register(1);
    node.done(node.deliveries()[0].0, true);
    assert_eq!(node.deleted(), [DeleteReason::Done]);
}

#[test]
fn send_continues_after_eviction() {
    // A bundle in transmission cannot be taken back, so it stays until the outcome.
    let script = Script {
        hears: EventMask::HANDED,
        route: Box::new(|_, _, _| farlink_book::RouteDecision::Wait(farlink_base::Instant::MAX)),
        on: Box::new(|_, news, out| {
            if let PolicyEvent::Handed { bundle, .. } = *news {
                out.delete(bundle, Why::Overflow);
            }
        }),
        ..Script::default()
    };
    let mut node = Node::routed(script);
    node.receive(1, from_two(1, EndpointId::ipn(3, 1)));
    assert_eq!((node.held(), node.sent().len()), (1, 1));
    node.confirm(node.sent()[0].id);
    assert_eq!(node.deleted(), [DeleteReason::Done]);
}

#[test]
fn banned_bundle_refused_unless_local() {
    // The ban concerns forwarding; this node is the destination of the second bundle.
    let mine = from_two(2, EndpointId::ipn(1, 1));
    let id = mine.meta.id;
    for (bundle, verdict) in [(from_two(2, EndpointId::ipn(3, 1)), Err(Refusal::NotAcceptable)), (mine, Ok(()))] {
        let mut node = Node::routed(ordering(move |_, _| Action::Ban { id }));
        node.receive(1, from_two(1, away()));
        node.begins(0, 3, bundle.clone());
        node.receive(2, bundle);
        let verdicts: Vec<_> = node.verdicts().into_iter().filter(|(ticket, _)| *ticket > 1).collect();
        assert!(verdicts.contains(&(2, verdict)) && verdicts.iter().all(|v| v.1 == verdict), "{verdicts:?}");
    }
}

#[test]
fn ban_never_matches_anonymous_bundles() {
    // Anonymous bundles of two nodes without a clock share an identity (RFC 9171 section 4.2.3).
    let nameless = || Bundle::new(EndpointId::Null, away(), 1);
    let id = nameless().meta.id;
    let mut node = Node::routed(ordering(move |_, _| Action::Ban { id }));
    node.receive(1, nameless());
    node.receive(2, nameless());
    assert_eq!(node.verdicts(), [(1, Ok(())), (2, Ok(()))]);
}

#[test]
fn move_action_ignored_for_departed_bundle() {
    let script = ordering(|bundle, _| Action::Migrate { bundle, to: farlink_base::PeerId(2) });
    let mut node = Node::routed(script);
    node.receive(1, from_two(1, away()));
    assert_eq!(node.sent_over(1), [1]);
    node.receive(2, from_two(2, EndpointId::ipn(3, 1)).hops(9, 3));
    assert_eq!(node.held(), 1);
}

#[test]
fn moved_and_forwarded_events_differ() {
    // A policy must distinguish its own move from a forwarding.
    let (told, gone) = std::sync::mpsc::channel();
    let script = Script {
        hears: EventMask::KEPT.and(EventMask::GONE),
        on: Box::new(move |_, news, out| match news {
            PolicyEvent::Kept { bundle, .. } => {
                let to = farlink_base::PeerId(2);
                out.push(Action::Migrate { bundle: *bundle, to });
            }
            PolicyEvent::Gone { why, .. } => told.send(*why).unwrap(),
            _ => {}
        }),
        ..Script::default()
    };
    let mut node = Node::routed(script);
    node.receive(1, from_two(1, away()));
    let sent = node.sent();
    assert_eq!(sent.len(), 1);
    node.confirm(sent[0].id);
    assert_eq!(gone.try_iter().collect::<Vec<_>>(), [Why::Migrated(farlink_base::PeerId(2))]);
    assert_eq!(node.held(), 0);
}

#[test]
fn reroute_action_is_followed() {
    let script = Script {
        hears: EventMask::KEPT,
        route: Box::new(|node, held, _| {
            if held.number == 1 && node.book.len() == 1 {
                return farlink_book::RouteDecision::Wait(farlink_base::Instant::MAX);
            }
            let until = farlink_base::Instant::MAX;
            farlink_book::RouteDecision::One(farlink_book::NextHop {
                link: farlink_base::LinkId(1),
                not_before: node.now,
                until,
            })
        }),
        on: Box::new(|_, news, out| {
            if let PolicyEvent::Kept { .. } = news {
                out.push(Action::RerouteAll);
            }
        }),
        ..Script::default()
    };
    let mut node = Node::routed(script);
    node.receive(1, from_two(1, away()));
    assert_eq!(node.sent_over(1), []);
    node.receive(2, from_two(2, away()));
    let mut sent = node.sent_over(1);
    sent.sort_unstable();
    assert_eq!(sent, [1, 2]);
}

#[test]
fn policy_woken_at_requested_time() {
    let (said, heard) = std::sync::mpsc::channel();
    let script = Script {
        hears: EventMask::KEPT,
        on: Box::new(move |node, news, out| match news {
            PolicyEvent::Kept { .. } => out.push(Action::Wake(node.now + farlink_base::Duration::from_secs(7))),
            PolicyEvent::Wake => said.send(node.now.as_secs_f64()).unwrap_or_default(),
            _ => {}
        }),
        ..Script::default()
    };
    let mut node = Node::routed(script);
    node.receive(1, from_two(1, away()));
    node.wait_ms(6999);
    assert_eq!(heard.try_iter().count(), 0);
    node.wait_ms(2);
    assert_eq!(heard.try_iter().collect::<Vec<_>>(), [7.0]);
}

#[test]
fn full_store_evicts_reports_before_data() {
    // Reports about evicted bundles must not evict further data.
    let settings = Settings { capacity_bytes: 3500, ..crate::support::reporting(true) };
    let mut node = Node::of(settings, None, NoRouter, drop_oldest());
    let facts = farlink_base::Facts::REPORT_DELETION;
    for n in 1..=20 {
        node.receive(
            n,
            from_two(n, away()).facts(facts).report_to(EndpointId::ipn(4, 0)).payload(Payload::fill(0, 800)),
        );
    }
    // 841 bytes each: four fit, and no report beside them.
    assert_eq!(
        node.agent
            .bundles(node.now, farlink_base::BundleHandle(0), 9)
            .iter()
            .filter(|b| b.destination == away())
            .count(),
        4
    );
    assert!(node.agent.fill().1 <= 3500);
    let overflow = |e: &Event| matches!(e, Event::Deleted { reason: DeleteReason::DepletedStorage, .. });
    assert!(node.events().iter().filter(|e| overflow(e)).count() == 16);
}

/// A node that moves bundles to `ipn:3.0` 1 s after arrival, and the reasons why they left.
fn moving() -> (Node, std::sync::mpsc::Receiver<Why>) {
    let (told, gone) = std::sync::mpsc::channel();
    let script = Script {
        hears: EventMask::KEPT.and(EventMask::GONE),
        route: Box::new(|_, _, _| farlink_book::RouteDecision::Wait(farlink_base::Instant::MAX)),
        on: Box::new(move |node, news, out| match news {
            PolicyEvent::Kept { .. } => out.push(Action::Wake(node.now + farlink_base::Duration::from_secs(1))),
            PolicyEvent::Wake => {
                let to = node.peers.of(NodeId::ipn(3)).unwrap().id;
                node.book.all().for_each(|held| out.push(Action::Migrate { bundle: held.handle(), to }));
            }
            PolicyEvent::Gone { why, .. } => told.send(*why).unwrap_or_default(),
            _ => {}
        }),
        ..Script::default()
    };
    let mut node = Node::routed(script);
    node.ready(0, false);
    node.send(EndpointId::ipn(2, 1), Priority::Normal);
    assert!(node.sent().is_empty());
    node.wait_ms(1500);
    (node, gone)
}

#[test]
fn moved_bundle_leaves_old_queue() {
    let (mut node, _gone) = moving();
    assert_eq!(node.sent_over(1), [0]);
    node.ready(0, true);
    assert_eq!(node.sent_over(0), [0; 0]);
}

#[test]
fn bundle_with_failed_move_is_forwarded() {
    let (mut node, gone) = moving();
    let id = node.take_sent()[0].id;
    node.fail(id, None);
    node.ready(0, true);
    let sent = node.take_sent();
    assert_eq!((sent.len(), sent[0].link), (1, LinkId(0)));
    node.confirm(sent[0].id);
    assert_eq!(gone.try_iter().collect::<Vec<_>>(), [Why::Forwarded]);
}

/// A router that requests `order` for each held bundle 1 s after an arrival; routes over link 0 first, then link 1.
fn second_thoughts(order: fn(farlink_book::Handle) -> Action) -> Script {
    let mut asked = 0;
    Script {
        hears: EventMask::KEPT,
        route: Box::new(move |node, _, _| {
            asked += 1;
            let link = LinkId(u32::from(asked > 1));
            farlink_book::RouteDecision::One(farlink_book::NextHop {
                link,
                not_before: node.now,
                until: farlink_base::Instant::MAX,
            })
        }),
        on: Box::new(move |node, news, out| match news {
            PolicyEvent::Kept { .. } => out.push(Action::Wake(node.now + farlink_base::Duration::from_secs(1))),
            PolicyEvent::Wake => node.book.all().for_each(|held| out.push(order(held.handle()))),
            _ => {}
        }),
        ..Script::default()
    }
}

#[test]
fn rerouted_bundle_leaves_old_queue() {
    let mut node = Node::routed(second_thoughts(Action::Reroute));
    node.ready(0, false);
    node.send(away(), Priority::Normal);
    node.wait_ms(1500);
    assert_eq!(node.sent_over(1), [0]);
    node.ready(0, true);
    assert_eq!(node.sent().len(), 1);
}

#[test]
fn evicted_replicated_bundle_leaves_queues() {
    let script = Script {
        route: Box::new(|node, _, _| {
            let until = farlink_base::Instant::MAX;
            let leg = |link| farlink_book::NextHop { link: LinkId(link), not_before: node.now, until };
            farlink_book::RouteDecision::All(vec![leg(0), leg(1)])
        }),
        ..second_thoughts(|bundle| Action::Delete { bundle, why: Why::Acked })
    };
    let mut node = Node::routed(script);
    node.ready(0, false);
    node.send(away(), Priority::Normal);
    node.wait_ms(1500);
    node.ready(0, true);
    assert_eq!((node.sent_over(1), node.sent_over(0)), (vec![0], vec![]));
    node.confirm(node.sent()[0].id);
    assert_eq!(node.held(), 0);
}

/// An oracle that records its calls.
#[derive(Debug)]
struct Witness(std::sync::mpsc::Sender<&'static str>);
impl farlink_bpa::Oracle for Witness {
    fn copies(&self, _: u128) -> u64 {
        1
    }
    fn forwards(&self, _: u128) -> u64 {
        0
    }
    fn mean_forwards(&self) -> f64 {
        0.0
    }
    fn kept(&mut self, _: u128) {
        self.0.send("kept").unwrap_or_default();
    }
    fn forwarded(&mut self, _: u128) {
        self.0.send("forwarded").unwrap_or_default();
    }
    fn gone(&mut self, _: u128) {
        self.0.send("gone").unwrap_or_default();
    }
}

#[test]
fn oracle_sees_kept_forwarded_and_gone() {
    let (said, heard) = std::sync::mpsc::channel();
    let mut node = Node::new();
    node.agent.set_oracle(Box::new(Witness(said)));
    node.send(EndpointId::ipn(3, 1), Priority::Normal);
    node.confirm(node.sent()[0].id);
    assert_eq!(heard.try_iter().collect::<Vec<_>>(), ["kept", "forwarded", "gone"]);
}

#[test]
fn policies_set_before_input_decide() {
    // Policies may be set before the store is open.
    let mut node = Node::closed(settings(), None, NoRouter, Rule::default());
    let router = Script {
        route: Box::new(|node, _, _| {
            let until = farlink_base::Instant::MAX;
            farlink_book::RouteDecision::One(farlink_book::NextHop { link: LinkId(1), not_before: node.now, until })
        }),
        ..Script::default()
    };
    node.agent.set_router(Box::new(router));
    let admit = |held: &farlink_book::Held| match held.bundle.sequence {
        1 => Ok(f64::INFINITY),
        _ => Err(Refusal::NoResources),
    };
    node.agent.set_control(Box::new(Rule { admit: Box::new(admit), ..Rule::default() }));
    node.tell(Input::Clock(support::clock_at(node.now)));
    node.open();
    node.receive(1, from_two(1, away()));
    node.receive(2, from_two(2, away()));
    assert_eq!(node.sent_over(1), [1]);
    assert_eq!(node.verdicts(), [(1, Ok(())), (2, Err(Refusal::NoResources))]);
}

#[test]
fn large_store_evicts_enough() {
    // Above 1,024 bundles the candidates for eviction are sampled.
    let (count, size) = (1100, 41 + 10);
    let settings = Settings { capacity_bytes: count * size, ..settings() };
    let mut node = Node::of(settings, None, NoRouter, drop_oldest());
    for n in 1..=count {
        node.receive(n, from_two(n, away()).payload(Payload::fill(0, 10)));
    }
    node.receive(2000, from_two(2000, away()).payload(Payload::fill(0, 400 * size)));
    assert_eq!(node.verdicts().last(), Some(&(2000, Ok(()))));
    let (_, bytes, capacity) = node.agent.fill();
    assert!(bytes <= capacity, "{bytes} B in {capacity} B");
}

#[test]
fn policies_see_transmission_and_confirmation() {
    let (said, heard) = std::sync::mpsc::channel();
    let router = Script {
        hears: EventMask::HANDED.and(EventMask::OUTCOMES),
        on: Box::new(move |_, news, _| match *news {
            PolicyEvent::Handed { to, keep, .. } => said.send(("handed", to.0, keep)).unwrap(),
            PolicyEvent::Sent { to, keep, .. } => said.send(("sent", to.0, keep)).unwrap(),
            _ => {}
        }),
        route: Box::new(|_, _, _| farlink_book::RouteDecision::Wait(farlink_base::Instant::MAX)),
        ..Script::default()
    };
    let mut node = Node::routed(router);
    node.receive(1, from_two(1, EndpointId::ipn(3, 1)));
    assert_eq!(heard.try_iter().collect::<Vec<_>>(), [("handed", 2, false)]);
    node.confirm(node.sent()[0].id);
    assert_eq!(heard.try_iter().collect::<Vec<_>>(), [("sent", 2, false)]);
}
