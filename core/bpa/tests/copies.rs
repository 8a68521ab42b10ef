//! Copies: offered to a neighbour when one of its links has room.

use crate::support;

use crate::support::meeting::{alone, carried, data, fail_all, hello, names, nine};
use crate::support::{Bundle, Net, Node, Rule, Script, Sent, from_two, link, settings};
use farlink_base::{Duration, EndpointId, LinkId, Priority, Refusal};
use farlink_book::{CopyOffer, EventMask, PolicyEvent};

#[test]
fn carried_bundle_offered_once_per_neighbour() {
    // The node remembers who has which bundle across link changes.
    let mut node = alone(Script::flood());
    for n in 1..=3 {
        carried(&mut node, n, nine());
    }
    node.carrier(0, true);
    let first = data(&mut node);
    assert_eq!(names(&first), [(0, 1), (0, 2), (0, 3)]);
    first.iter().for_each(|sent| node.confirm(sent.id));
    node.carrier(1, true);
    let second = data(&mut node);
    assert_eq!(names(&second), [(1, 1), (1, 2), (1, 3)]);
    second.iter().for_each(|sent| node.confirm(sent.id));
    for link in [0, 1, 0] {
        node.carrier(link, false);
        node.carrier(link, true);
    }
    assert_eq!(names(&data(&mut node)), [], "they have them");
    assert_eq!(
        node.held(),
        3 + node
            .agent
            .bundles(node.now, farlink_base::BundleHandle(0), 99)
            .iter()
            .filter(|b| b.destination != nine())
            .count() as u64
    );
}

#[test]
fn destination_served_first_ends_offers() {
    // The destination precedes all other neighbours, and its copy makes further ones useless.
    let mut node = alone(Script::flood());
    carried(&mut node, 1, nine());
    carried(&mut node, 2, EndpointId::ipn(3, 1));
    node.carrier(1, true);
    let sent = data(&mut node);
    assert_eq!(names(&sent), [(1, 2), (1, 1)]);
    sent.iter().for_each(|sent| node.confirm(sent.id));
    node.carrier(0, true);
    assert_eq!(names(&data(&mut node)), [(0, 1)], "what its destination has is not copied");
}

#[test]
fn holders_are_not_offered_bundle() {
    let mut node = alone(Script::flood());
    node.carrier(0, true);
    node.carrier(1, true);
    node.take_sent();
    // Node 3 is the source of the first bundle, so only the second may go to it; node 2 sent both.
    node.receive_over(0, 1, Bundle::new(EndpointId::ipn(3, 5), nine(), 1));
    node.receive_over(0, 2, Bundle::new(EndpointId::ipn(5, 5), nine(), 2));
    node.receive_over(1, 3, Bundle::new(EndpointId::ipn(5, 5), nine(), 2));
    let sent = data(&mut node);
    assert!(names(&sent).iter().all(|name| *name == (1, 2)), "{:?}", names(&sent));
}

#[test]
fn anonymous_bundles_go_to_destination_only() {
    // Copies of an anonymous bundle could not be recognized as duplicates.
    let mut node = alone(Script::flood());
    node.receive(1, Bundle::new(EndpointId::Null, nine(), 1));
    node.receive(2, Bundle::new(EndpointId::Null, EndpointId::ipn(3, 1), 1));
    node.carrier(0, true);
    node.carrier(1, true);
    assert_eq!(
        data(&mut node).iter().map(|s| (s.link.0, s.bundle.destination.clone())).collect::<Vec<_>>(),
        [(1, EndpointId::ipn(3, 1))]
    );
}

#[test]
fn unsent_copy_offered_to_next_neighbour() {
    // The copies queued for link 0 never left, so the same bundles may be offered over link 1.
    let mut node = alone(Script::flood());
    for n in 1..=3 {
        carried(&mut node, n, nine());
    }
    node.ready(0, false);
    node.carrier(0, true);
    node.carrier(0, false);
    assert_eq!(data(&mut node).len(), 0);
    node.carrier(1, true);
    assert_eq!(names(&data(&mut node)), [(1, 1), (1, 2), (1, 3)]);
}

#[test]
fn lost_copy_reoffered_at_once_refused_later() {
    // A lost session gives no evidence about room; a refusal does.
    let mut node = alone(Script::flood());
    carried(&mut node, 1, nine());
    node.carrier(0, true);
    let sent = data(&mut node);
    node.fail(sent[0].id, None);
    let sent = data(&mut node);
    assert_eq!(names(&sent), [(0, 1)], "at once");
    node.fail(sent[0].id, Some(Refusal::NoResources));
    assert_eq!(names(&data(&mut node)), []);
    node.wait_ms(2500);
    let sent = data(&mut node);
    assert_eq!(names(&sent), [(0, 1)], "after its back-off");
    node.fail(sent[0].id, Some(Refusal::Duplicate));
    node.wait_ms(30_000);
    assert_eq!(names(&data(&mut node)), [], "it has it");
}

#[test]
fn lost_handover_is_repeated() {
    let mut node = alone(Script::flood());
    carried(&mut node, 1, EndpointId::ipn(2, 1));
    node.carrier(0, true);
    let sent = data(&mut node);
    node.fail(sent[0].id, None);
    assert_eq!(names(&data(&mut node)), [(0, 1)]);
}

#[test]
fn refusing_neighbour_reoffered_at_next_up() {
    // The neighbour may have made room since its refusal.
    let mut node = alone(Script::flood());
    carried(&mut node, 1, nine());
    node.carrier(0, true);
    let sent = data(&mut node);
    node.fail(sent[0].id, Some(Refusal::NoResources));
    node.carrier(0, false);
    node.carrier(0, true);
    assert_eq!(names(&data(&mut node)), [(0, 1)]);
}

#[test]
fn bundle_returned_in_flight_offered_to_neighbours() {
    // A bundle that came back is carried like a new arrival.
    let mut node = alone(Script::flood());
    carried(&mut node, 1, EndpointId::ipn(2, 1));
    node.carrier(0, true);
    node.carrier(1, true);
    let first = data(&mut node);
    assert_eq!(names(&first), [(0, 1)], "to its destination only");
    let stranger = node.comes(3, EndpointId::ipn(33, 0));
    node.receive_over(stranger, 9, Bundle::new(EndpointId::ipn(5, 5), EndpointId::ipn(2, 1), 1));
    assert!(data(&mut node).iter().any(|s| s.link == LinkId(1)), "it is carried again");
}

#[test]
fn failed_copy_of_delivered_bundle_leaves_nothing() {
    // The destination has confirmed the bundle, so a failed copy must not bring it back.
    let mut node = alone(Script::flood());
    carried(&mut node, 1, EndpointId::ipn(3, 1));
    node.carrier(0, true);
    let copy = data(&mut node);
    node.carrier(1, true);
    let gift = data(&mut node);
    assert_eq!((names(&copy), names(&gift)), (vec![(0, 1)], vec![(1, 1)]));
    node.confirm(gift[0].id);
    node.fail(copy[0].id, None);
    let left: Vec<_> = node
        .agent
        .bundles(node.now, farlink_base::BundleHandle(0), 9)
        .into_iter()
        .filter(|b| b.id.creation.sequence == 1)
        .collect();
    assert!(left.iter().all(|b| b.destination != EndpointId::ipn(3, 1)), "{left:?}");
}

#[test]
fn split_labels_restored_on_failure() {
    let script = Script {
        hears: EventMask::KEPT.and(EventMask::OUTCOMES),
        on: Box::new(|node, news, out| match *news {
            PolicyEvent::Kept { bundle, wire } => out.label(bundle, wire.unwrap_or(8)),
            PolicyEvent::Failed { bundle, gave, .. } => out.label(bundle, node.label(node.get(bundle).unwrap()) + gave),
            _ => {}
        }),
        wants: Box::new(|node, _, held| {
            let left = node.label(held);
            (left > 1).then(|| CopyOffer::copy(held, held.number).with(node, left - left / 2, left / 2))
        }),
        ..Script::flood()
    };
    let mut node = alone(script);
    node.send(nine(), Priority::Normal);
    node.take_sent();
    let labels = |sent: &[Sent]| sent.iter().map(|s| s.hop.labels.map(|l| l[0])).collect::<Vec<_>>();
    node.carrier(0, true);
    let first = data(&mut node);
    assert_eq!(labels(&first), [Some(4)]);
    node.fail(first[0].id, Some(Refusal::Duplicate));
    node.carrier(1, true);
    let second = data(&mut node);
    assert_eq!(labels(&second), [Some(4)], "eight again, of which half is given");
    node.fail(second[0].id, None);
    let third = data(&mut node);
    assert_eq!(labels(&third), [Some(4)]);
    node.confirm(third[0].id);
    let stranger = node.comes(1, EndpointId::ipn(44, 0));
    let fourth = data(&mut node);
    assert_eq!(labels(&fourth), [Some(2)]);
    // A labelled copy is refused as a duplicate, so that its sender restores its label.
    node.receive_over(stranger, 50, fourth[0].arrives().labels([3, 0]));
    assert_eq!(node.verdicts(), [(50, Err(Refusal::Duplicate))]);
}

#[test]
fn received_bundle_keeps_its_labels() {
    // A policy that sets no labels passes on those of the arrival.
    let mut node = alone(Script { wants: Box::new(|_, _, held| Some(CopyOffer::give(held, 0))), ..Script::flood() });
    node.receive(1, from_two(1, nine()).labels([7, 9]));
    node.carrier(1, true);
    assert_eq!(data(&mut node)[0].hop.labels, Some([7, 9]));
}

#[test]
fn best_rank_leaves_first_control_may_refuse() {
    let control =
        Rule { allow: Box::new(|_, held, want| want.filter(|_| held.bundle.sequence != 2)), ..Rule::default() };
    let router =
        Script { wants: Box::new(|_, _, held| Some(CopyOffer::copy(held, 100 - held.number))), ..Script::flood() };
    let mut node = Node::of(farlink_bpa::Settings { routes: vec![], ..settings() }, None, router, control);
    node.carrier(0, false);
    node.carrier(1, false);
    for n in 1..=4 {
        carried(&mut node, n, nine());
    }
    node.carrier(0, true);
    assert_eq!(names(&data(&mut node)), [(0, 4), (0, 3), (0, 1)]);
}

#[test]
fn flood_reaches_each_node_once() {
    // In a line each copy crosses each wire once at most; summaries must keep it from going back.
    let node = |me: u64| {
        let to = |n: u32, peer| farlink_bpa::LinkSettings { peer: EndpointId::ipn(peer, 0), ..link(n) };
        let settings = farlink_bpa::Settings {
            node_ids: vec![EndpointId::ipn(me, 0)],
            links: vec![to(0, me - 1), to(1, me + 1)],
            routes: vec![],
            ..settings()
        };
        let mut node = Node::of(settings, None, Script::epidemic(), Rule::default());
        node.said.clear();
        node
    };
    let mut net = Net::new((11..15).map(node).collect(), Duration::from_millis(10));
    for n in 0..3 {
        net.wire((n, 1), (n + 1, 0));
    }
    net.run(Duration::from_secs(5));
    let mut wanted = support::request(EndpointId::ipn(99, 1), Priority::Normal);
    wanted.source = EndpointId::ipn(11, 5);
    net.nodes[0].ask(wanted);
    net.crossed.clear();
    net.run(Duration::from_secs(30));
    let data: Vec<_> = net.crossed.iter().map(|c| (c.0, c.1)).collect();
    assert_eq!(data, [(0, 1), (1, 2), (2, 3)]);
    net.run(Duration::from_secs(120));
    assert_eq!(net.nodes.iter().map(Node::held).sum::<u64>(), 0);
}

#[test]
fn offers_rotate_among_neighbours() {
    // One bundle is offered to all 20 unauthenticated neighbours, in the order in which they connected.
    let mut node = alone(Script::flood());
    let strangers: Vec<u32> = (0..20).map(|n| node.comes(n, EndpointId::ipn(100 + u64::from(n), 0))).collect();
    node.take_sent();
    node.send(nine(), Priority::Normal);
    let links: Vec<u32> = data(&mut node).iter().map(|s| s.link.0).collect();
    assert_eq!(links, strangers);
}

#[test]
fn stranger_claiming_destination_gets_nothing() {
    // The peer only claims the destination's name, which does not prove that it is the destination.
    let mut node = alone(Script { wants: Box::new(|_, _, _| None), ..Script::flood() });
    node.ready(1, false);
    node.carrier(1, true);
    let claims = node.comes(0, EndpointId::ipn(3, 0));
    fail_all(&mut node);
    node.receive_over(0, 1, Bundle::new(EndpointId::ipn(5, 5), EndpointId::ipn(3, 1), 1));
    assert_eq!(names(&data(&mut node)), [], "{claims} is not the neighbour of that name");
    node.ready(1, true);
    assert_eq!(names(&data(&mut node)), [(1, 1)]);
}

#[test]
fn failed_handover_restores_label() {
    // A policy that subscribes to outcomes restores the label itself; otherwise the agent does.
    for hears in [EventMask::KEPT, EventMask::KEPT.and(EventMask::OUTCOMES)] {
        let script = Script {
            hears,
            on: Box::new(|node, news, out| match *news {
                PolicyEvent::Kept { bundle, .. } => out.label(bundle, 8),
                PolicyEvent::Failed { bundle, gave, .. } => {
                    out.label(bundle, node.label(node.get(bundle).unwrap()) + gave)
                }
                _ => {}
            }),
            ..Script::flood()
        };
        let mut node = alone(script);
        carried(&mut node, 1, EndpointId::ipn(2, 1));
        node.carrier(0, true);
        for _ in 0..3 {
            let sent = data(&mut node);
            assert_eq!(sent[0].hop.labels, Some([8, 0]));
            node.fail(sent[0].id, None);
        }
    }
}

/// A policy that offers no copy until, 5 s after the bundle was kept, `order` makes `wants` true and asks again.
fn changes_its_mind(
    order: fn(&farlink_book::Node<'_>, &mut farlink_book::Actions),
    wants: fn(&farlink_book::Node<'_>, &farlink_book::Held) -> bool,
) {
    let script = Script {
        hears: EventMask::KEPT,
        on: Box::new(move |node, news, out| match *news {
            PolicyEvent::Kept { .. } => out.push(farlink_book::Action::Wake(node.now + Duration::from_secs(5))),
            PolicyEvent::Wake => order(node, out),
            _ => {}
        }),
        wants: Box::new(move |node, _, held| wants(node, held).then(|| CopyOffer::copy(held, 0))),
        ..Script::flood()
    };
    let mut node = alone(script);
    node.carrier(0, true);
    node.send(nine(), Priority::Normal);
    assert_eq!(names(&data(&mut node)), []);
    node.wait(Duration::from_secs(6));
    assert_eq!(data(&mut node).iter().map(|sent| sent.link).collect::<Vec<_>>(), [LinkId(0)]);
}

#[test]
fn relabelled_bundle_is_offered_again() {
    changes_its_mind(
        |node, out| node.book.all().for_each(|held| out.label(held.handle(), 1)),
        |node, held| node.label(held) > 0,
    );
}

#[test]
fn neighbour_asked_again_gets_changed_bundle() {
    changes_its_mind(
        |node, out| node.peers.up().for_each(|peer| out.push(farlink_book::Action::Reask(peer.id))),
        |node, held| held.age_ms(node.now) > 4000,
    );
}

#[test]
fn inflight_copy_of_deleted_bundle_remembered() {
    let mut node = alone(Script::flood());
    carried(&mut node, 1, nine());
    node.carrier(0, true);
    let copy = data(&mut node);
    assert_eq!(names(&copy), [(0, 1)]);
    let bundle = node.agent.bundles(node.now, farlink_base::BundleHandle(0), 1)[0].handle;
    node.admin(farlink_bpa::app::AdminInput::Cancel { bundle });
    node.confirm(copy[0].id);
    node.receive_over(1, 9, Bundle::new(EndpointId::ipn(5, 5), nine(), 1));
    assert_eq!(node.verdicts(), [(9, Ok(()))]);
    assert_eq!(names(&data(&mut node)), [], "the neighbour has it");
}

#[test]
fn copies_use_first_link_up() {
    let mut node = alone(Script::flood());
    let spare = farlink_bpa::LinkSettings { peer: EndpointId::ipn(2, 0), name: "spare".into(), ..link(5) };
    node.add_link(&spare);
    node.carrier(0, true);
    fail_all(&mut node);
    carried(&mut node, 1, nine());
    node.receive_over(1, 2, Bundle::new(EndpointId::ipn(5, 5), nine(), 2));
    assert_eq!(names(&data(&mut node)), [(0, 2)], "in the order of links, not in that in which they came up");
}

#[test]
fn copies_follow_new_ranks_after_reroute() {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    let newest_first = Arc::new(AtomicBool::new(false));
    let turned = newest_first.clone();
    let rank = move |number: u64| if turned.load(Ordering::Relaxed) { 100 - number } else { 50 + number };
    let script =
        Script { wants: Box::new(move |_, _, held| Some(CopyOffer::copy(held, rank(held.number)))), ..Script::flood() };
    let mut node = alone(script);
    for n in 1..=3 {
        carried(&mut node, n, nine());
    }
    node.ready(0, false);
    node.carrier(0, true);
    newest_first.store(true, Ordering::Relaxed);
    // A hello makes the router evaluate its sender again.
    hello(&mut node, 0, &[], false);
    node.ready(0, true);
    assert_eq!(names(&data(&mut node)), [(0, 3), (0, 2), (0, 1)]);
}

#[test]
fn neighbour_that_sent_duplicate_gets_none() {
    let mut node = alone(Script::flood());
    let bundle = |n| Bundle::new(EndpointId::ipn(5, 5), nine(), n);
    (1..=2).for_each(|n| node.receive(n, bundle(n)));
    node.ready(1, false);
    node.carrier(1, true);
    node.receive_over(1, 9, bundle(1));
    node.ready(1, true);
    assert_eq!(names(&data(&mut node)), [(1, 2)]);
}
