//! Returning bundles and routing loops.

use crate::support;

use crate::support::{Bundle, Net, Node, Toy, from_two, link, settings};
use farlink_base::{DeleteReason, Duration, EndpointId, Event, Facts, LinkId, Payload};
use farlink_bpa::Settings;

/// A bundle from ipn:2 (link 0) to ipn:9 by way of ipn:3 (link 1).
fn through(sequence: u64) -> Bundle {
    from_two(sequence, EndpointId::ipn(9, 1)).hops(1, 5)
}

#[test]
fn late_confirmation_keeps_returned_bundle() {
    // The larger hop count proves a return, so the confirmation of the first send must not release it.
    let mut node = Node::new();
    node.receive(1, through(1));
    let first = node.take_sent();
    node.receive_over(1, 2, through(1).hops(3, 5));
    assert_eq!(node.verdicts(), [(2, Ok(()))]);
    assert_eq!(node.sent().len(), 0, "its giver counts as tried");
    node.confirm(first[0].id);
    assert_eq!((node.held(), node.deleted()), (1, vec![]), "the confirmation is of what came back since");
    node.wait_ms(1500);
    let again = node.take_sent();
    assert_eq!(again.iter().map(|s| (s.link, s.hop.hops)).collect::<Vec<_>>(), [(LinkId(1), 4)], "hops: the larger");
    node.confirm(again[0].id);
    assert_eq!((node.held(), node.deleted()), (0, vec![DeleteReason::Done]));
}

#[test]
fn repeat_without_hop_count_counts_as_return() {
    // In a ring of relays the bundle returns from its previous node while the next one's confirmation is late. Without
    // a hop count, a retransmission looks alike; treating it as a return loses nothing.
    let mut node = Node::new();
    let bundle = || from_two(1, EndpointId::ipn(9, 1));
    node.receive(1, bundle());
    let first = node.take_sent();
    node.receive(2, bundle());
    assert_eq!(node.verdicts(), [(2, Ok(()))]);
    node.confirm(first[0].id);
    assert_eq!((node.held(), node.deleted()), (1, vec![]), "the confirmation is of what came first");
    node.wait_ms(1500);
    let again = node.take_sent();
    assert_eq!(again.len(), 1);
    node.confirm(again[0].id);
    assert_eq!((node.held(), node.deleted()), (0, vec![DeleteReason::Done]));
}

#[test]
fn returned_bundle_takes_another_route() {
    // ipn:2 and ipn:3 both lead to ipn:9, and the router prefers ipn:3.
    let script = support::Script {
        route: Box::new(|node, _, tried| {
            let way = [3, 2].map(|n| node.peers.of(farlink_base::NodeId::ipn(n)).unwrap());
            let free = way.iter().find(|peer| !tried.contains(&peer.id));
            let leg = |link| farlink_book::NextHop { link, not_before: node.now, until: farlink_base::Instant::MAX };
            free.map_or(farlink_book::RouteDecision::Wait(farlink_base::Instant::MAX), |peer| {
                farlink_book::RouteDecision::One(leg(peer.links[0]))
            })
        }),
        ..support::Script::default()
    };
    let mut node = Node::routed(script);
    node.send(EndpointId::ipn(9, 1), farlink_base::Priority::Normal);
    let out = node.sent()[0].clone();
    assert_eq!(out.link, LinkId(1));
    let mut back = out.arrives();
    back.hop.hops = 2;
    node.receive_over(1, 1, back);
    assert_eq!(node.sent().iter().map(|s| s.link.0).collect::<Vec<_>>(), [1, 0]);
}

#[test]
fn idle_bundles_second_arrival_ignored() {
    let mut node = Node::new();
    node.ready(1, false);
    node.receive(1, through(1));
    node.receive_over(1, 2, through(1).hops(3, 5));
    assert_eq!((node.verdicts(), node.held()), (vec![(1, Ok(())), (2, Ok(()))], 1));
    node.ready(1, true);
    assert_eq!(node.sent().len(), 1);
}

#[test]
fn retransmission_causes_no_second_copy() {
    // An equal hop count shows a retransmission after a lost acknowledgment.
    let mut node = Node::new();
    node.receive(1, through(1));
    node.receive(2, through(1));
    node.receive(3, through(1));
    assert_eq!((node.verdicts().len(), node.sent().len()), (3, 1));
    node.confirm(node.sent()[0].id);
    assert_eq!((node.held(), node.sent().len()), (0, 1));
}

/// Keeps 9171-5.4-2, 9171-5.4.2-3, 5050-5.4-2, 5050-5.4.2-3.
#[test]
fn hop_limit_ends_loop_with_report() {
    let mut node = Node::with(crate::support::reporting(true), None);
    let bundle = through(1).facts(Facts::REPORT_DELETION).report_to(EndpointId::ipn(2, 0));
    node.receive(1, bundle.clone());
    node.receive_over(1, 2, bundle.hops(5, 5));
    node.wait_ms(1500);
    assert_eq!(node.deleted()[0], DeleteReason::HopLimit);
    let report = node.sent().into_iter().find(|s| s.bundle.is_administrative()).unwrap();
    assert_eq!(Toy::report(&report.bundle).1, DeleteReason::HopLimit as u8);
    assert_eq!(report.link, LinkId(0));
}

/// Two nodes that each route to ipn:9 by way of the other.
fn mirrors(delay_ms: u64) -> Net {
    let node = |me: u64, other: u64| {
        let to = farlink_bpa::LinkSettings { peer: EndpointId::ipn(other, 0), ..link(0) };
        Node::with(
            Settings {
                node_ids: vec![EndpointId::ipn(me, 0)],
                links: vec![to],
                routes: vec![("ipn:9.*".into(), EndpointId::ipn(other, 0))],
                ..crate::support::reporting(true)
            },
            None,
        )
    };
    let mut net = Net::new(vec![node(1, 2), node(2, 1)], Duration::from_millis(delay_ms));
    net.wire((0, 0), (1, 0));
    net
}

#[test]
fn mutual_routes_end_at_hop_limit() {
    for delay_ms in [0, 1, 400, 3000] {
        let mut net = mirrors(delay_ms);
        let mut wanted = support::request(EndpointId::ipn(9, 1), farlink_base::Priority::Normal);
        wanted.facts = Facts(Facts::REPORT_DELETION);
        (wanted.report_to, wanted.hop_limit) = (EndpointId::ipn(1, 0), 6);
        net.nodes[0].ask(wanted);
        net.run(Duration::from_secs(59));
        let reasons: Vec<DeleteReason> = net.nodes.iter().flat_map(Node::deleted).collect();
        let ends = reasons.iter().filter(|reason| **reason != DeleteReason::Done).collect::<Vec<_>>();
        assert_eq!(ends, [&DeleteReason::HopLimit], "{delay_ms} ms: {reasons:?}");
        let hops: Vec<u8> = net.crossed.iter().filter(|c| c.2 == 0).map(|c| c.3).collect();
        assert_eq!(hops.iter().max(), Some(&6), "{hops:?}");
        assert_eq!(net.nodes.iter().map(Node::held).sum::<u64>(), 0, "{delay_ms} ms");
    }
}

/// Nodes in a ring that each route to ipn:9 by way of the next.
fn ring(nodes: u64) -> Net {
    let node = |me: u64| {
        let [before, next] = [(me + nodes - 2) % nodes + 1, me % nodes + 1].map(|node| EndpointId::ipn(node, 0));
        let links = match nodes {
            2 => vec![farlink_bpa::LinkSettings { peer: next.clone(), ..link(0) }],
            _ => [before, next.clone()]
                .into_iter()
                .zip(0..)
                .map(|(peer, n)| farlink_bpa::LinkSettings { peer, ..link(n) })
                .collect(),
        };
        let routes = vec![("ipn:9.*".into(), next)];
        Node::with(Settings { node_ids: vec![EndpointId::ipn(me, 0)], links, routes, ..settings() }, None)
    };
    let mut net = Net::new((1..=nodes).map(node).collect(), Duration::from_millis(1));
    match nodes {
        2 => net.wire((0, 0), (1, 0)),
        _ => (0..nodes as usize).for_each(|n| net.wire((n, 1), ((n + 1) % nodes as usize, 0))),
    }
    net
}

#[test]
fn loop_without_hop_count_backs_off() {
    // Without a hop limit only the backoff slows the loop until the lifetime ends.
    for nodes in [2, 3, 4] {
        let mut net = ring(nodes);
        let bundle = Bundle::new(EndpointId::ipn(7, 1), EndpointId::ipn(9, 1), 1).lifetime_ms(2 * 3_600_000);
        net.nodes[0].receive(1, bundle);
        net.run(Duration::from_secs(5));
        assert!(net.crossed.len() as u64 > nodes, "the first return waits a second only: {}", net.crossed.len());
        net.run(Duration::from_secs(3600));
        assert!(net.crossed.len() < 100, "{nodes} nodes: {} times in an hour", net.crossed.len());
        let held = net.nodes.iter().find(|node| node.held() == 1).expect("it is kept");
        let row = held.agent.bundles(held.now, farlink_base::BundleHandle(0), 1).remove(0);
        assert_eq!((row.reason, row.leaves.is_some()), ("came back", true), "{}", row.waits_for);
        let told =
            |node: &Node| node.events().iter().filter(|e| matches!(e, farlink_base::Event::Returned { .. })).count();
        assert!(net.nodes.iter().all(|node| told(node) > 5), "{nodes} nodes: each tells of returns");
        net.run(Duration::from_secs(3700));
        assert_eq!(net.nodes.iter().map(Node::held).sum::<u64>(), 0, "its lifetime ends");
    }
}

/// A bundle from ipn:2 to ipn:9 without a hop count block, with this payload.
fn plain(sequence: u64, byte: u8) -> Bundle {
    from_two(sequence, EndpointId::ipn(9, 1)).lifetime_ms(3_600_000).payload(Payload::from(vec![byte; 100]))
}
fn returns(node: &Node) -> usize {
    node.events().iter().filter(|event| matches!(event, Event::Returned { .. })).count()
}
fn confirm_all(node: &mut Node) -> usize {
    let sent = node.take_sent();
    sent.iter().for_each(|sent| node.confirm(sent.id));
    sent.len()
}
fn nodes() -> [Node; 2] {
    [true, false].map(|durable| Node::with(Settings { durable, ..settings() }, None))
}

#[test]
fn strangers_earlier_copy_is_no_return() {
    for exact in [true, false] {
        for mut node in nodes() {
            let stranger = node.comes(0, EndpointId::ipn(66, 0));
            for n in 0..4 {
                node.receive_over(stranger, n, plain(1, if exact { b'H' } else { b'F' + n as u8 * 3 }));
                node.wait_ms(100_000);
                assert_eq!(confirm_all(&mut node), 1, "{exact}: it is forwarded");
            }
            node.receive(10, plain(1, b'H'));
            assert_eq!((node.verdicts(), node.sent().len()), (vec![(10, Ok(()))], 1), "{exact}: at once");
            assert_eq!(returns(&node), 0);
            confirm_all(&mut node);
            node.receive(11, plain(1, b'H'));
            assert_eq!((returns(&node), node.sent().len()), (1, 0), "{exact}: that it is back is known still");
        }
    }
}

#[test]
fn distinct_contents_do_not_return_each_other() {
    for mut node in nodes() {
        for byte in [b'A', b'B'] {
            node.receive(1, plain(1, byte));
            assert_eq!((confirm_all(&mut node), returns(&node)), (1, 0));
        }
        for byte in [b'A', b'B'] {
            node.receive(1, plain(1, byte));
            assert_eq!((node.sent().len(), returns(&node)), (0, 1));
            node.wait_ms(1500);
            confirm_all(&mut node);
        }
    }
}

#[test]
fn strangers_copy_delays_no_failed_send() {
    // A copy from an unauthenticated peer while the bundle is being sent could be a return, so it is not sent at once.
    // If the transmission fails, it is repeated without delay.
    for mut node in nodes() {
        let stranger = node.comes(0, EndpointId::ipn(66, 0));
        node.receive(1, plain(1, b'H'));
        let first = node.take_sent();
        node.receive_over(stranger, 2, plain(1, b'H'));
        assert_eq!((node.verdicts(), node.sent().len()), (vec![(2, Ok(()))], 0));
        node.fail(first[0].id, None);
        assert_eq!(node.sent().len(), 1, "it goes again at once");
    }
}

#[test]
fn strangers_returning_copies_back_off() {
    for mut node in nodes() {
        let stranger = node.comes(0, EndpointId::ipn(66, 0));
        node.receive(1, plain(1, b'H'));
        let mut sent = 0;
        for n in 0..1000 {
            node.receive_over(stranger, 10 + n, plain(1, b'H'));
            node.wait_ms(100);
            sent += node.take_sent().len();
        }
        assert!((3..=10).contains(&sent), "{sent} times in 100 s");
    }
}

#[test]
fn vouched_arrival_ends_loop_backoff() {
    for mut node in nodes() {
        let stranger = node.comes(0, EndpointId::ipn(66, 0));
        for n in 0..2 {
            node.receive_over(stranger, n, plain(1, b'H'));
            assert_eq!(confirm_all(&mut node), usize::from(n == 0));
        }
        assert_eq!(node.held(), 1);
        node.receive(10, plain(1, b'H'));
        assert_eq!((node.verdicts().last(), node.sent().len()), (Some(&(10, Ok(()))), 1));
    }
}

#[test]
fn unvouched_loop_backs_off() {
    for mut node in nodes() {
        let stranger = node.comes(0, EndpointId::ipn(66, 0));
        let mut sent = 0;
        for n in 0..1000 {
            node.receive_over(stranger, n, plain(1, b'H'));
            sent += confirm_all(&mut node);
            node.wait_ms(100);
            sent += confirm_all(&mut node);
        }
        assert!((3..=10).contains(&sent), "{sent} times in 100 s");
    }
}

#[test]
fn strangers_repeats_hide_no_loop() {
    const AT_ONCE: u64 = 1000;
    let mut node = Node::with(Settings { durable: false, ..settings() }, None);
    node.commit = false;
    let stranger = node.comes(0, EndpointId::ipn(66, 0));
    let payload = Payload::from(vec![1]);
    // Above 300 bundles the tests skip the audit after each call (`AUDIT_MAX`).
    for n in 0..301 {
        node.receive(n, from_two(n, EndpointId::ipn(55, 1)).lifetime_ms(3_600_000).payload(payload.clone()));
    }
    for batch in 0..16 {
        let of_it = |n: u64| {
            let bundle = Bundle::new(EndpointId::ipn(66, 5), EndpointId::ipn(9, 1), batch * AT_ONCE + n);
            (n, bundle.payload(payload.clone()))
        };
        for (n, bundle) in (0..AT_ONCE).map(of_it) {
            node.receive_over(stranger, n, bundle.clone());
            assert_eq!(confirm_all(&mut node), 1);
            node.receive_over(stranger, n, bundle);
        }
        node.wait_ms(1100);
        assert_eq!(confirm_all(&mut node) as u64, AT_ONCE, "each came back once");
    }
    let mut sent = 0;
    for sequence in 0..20 {
        node.receive(1, plain(sequence, b'H'));
        for _ in 0..30 {
            let around = node.take_sent();
            sent += around.len();
            for sent in around {
                node.confirm(sent.id);
                node.receive_over(1, 1, sent.arrives());
            }
            node.wait_ms(10);
        }
        node.wait_ms(5000);
        confirm_all(&mut node);
    }
    assert_eq!(sent, 20, "each once in its 0.3 s");
}

#[test]
fn contents_differing_at_one_end_are_distinct() {
    for at in [0, 99] {
        for mut node in nodes() {
            let mut other = vec![b'A'; 100];
            other[at] = b'B';
            for payload in [vec![b'A'; 100], other] {
                node.receive(1, plain(1, b'A').payload(Payload::from(payload)));
                assert_eq!((confirm_all(&mut node), returns(&node)), (1, 0), "byte {at}");
            }
        }
    }
}
