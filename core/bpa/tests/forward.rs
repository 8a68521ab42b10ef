//! Forwarding (RFC 9171 section 5.4): transmissions and their outcomes.

use crate::support;

use crate::support::{Bundle, NOW_UTC, Node, from_two, link, settings};
use farlink_base::{DataRate, Duration, EndpointId, Instant, LinkId, Priority, Refusal};
use farlink_bpa::{LinkSettings, Settings};

/// Keeps 9171-5.4-5, 9171-5.4-6, 9171-5.4-11, 9171-5.4.1-1, 5050-5.4-5, 5050-5.4-7, 5050-5.4-11.
/// Keeps 5050-5.4.1-1.
#[test]
fn refusal_backs_off_lost_session_retries() {
    let mut node = Node::new();
    node.send(EndpointId::ipn(2, 1), Priority::Normal);
    assert!(node.waits_for().contains("acknowledgment on link to2"));
    node.fail(node.sent()[0].id, None);
    assert_eq!(node.sent().len(), 2);
    node.fail(node.sent()[1].id, Some(Refusal::NoResources));
    assert_eq!(node.sent().len(), 2);
    assert!(node.waits_for().contains("ipn:2.0 refused it"));
    node.wait_ms(5000);
    assert_eq!(node.sent().len(), 3);
    // A refusal as duplicate means that the neighbour has the bundle.
    node.fail(node.sent()[2].id, Some(Refusal::Duplicate));
    assert_eq!(node.held(), 0);
}

#[test]
fn full_neighbour_probed_then_resumed_in_order() {
    // One bundle probes for room after 1 s, then 2 s; after a success the others follow in order.
    let mut node = Node::new();
    (0..3).for_each(|_| node.send(EndpointId::ipn(2, 1), Priority::Normal));
    assert_eq!(node.sent_over(0), [0, 1, 2]);
    node.sent().iter().for_each(|sent| node.fail(sent.id, Some(Refusal::NoResources)));
    (3..6).for_each(|_| node.send(EndpointId::ipn(2, 1), Priority::Normal));
    assert_eq!(node.take_sent().len(), 3, "what has just been refused is not asked again");
    assert!(node.why(4).contains("ipn:2.0 refused it (no resources"), "{}", node.why(4));
    // A neighbour may have room for other sources.
    let other = Bundle::new(EndpointId::ipn(7, 1), EndpointId::ipn(2, 1), 3).created_ms(0);
    node.receive_over(1, 1, other);
    assert_eq!(node.take_sent().len(), 1);
    node.wait_ms(1100);
    assert_eq!(node.sent_over(0), [0]);
    let refused = node.take_sent()[0].id;
    node.fail(refused, Some(Refusal::NoResources));
    node.wait_ms(1100);
    assert_eq!(node.sent_over(0), [0; 0], "it rests for longer");
    node.wait_ms(1000);
    let mut sent = Vec::new();
    while !node.sent().is_empty() {
        sent.extend(node.sent_over(0));
        let confirmed: Vec<_> = node.take_sent().iter().map(|sent| sent.id).collect();
        confirmed.into_iter().for_each(|id| node.confirm(id));
    }
    assert_eq!(sent, [0, 1, 2, 3, 4, 5]);
}

#[test]
fn expedited_bundle_bypasses_full_neighbour_backoff() {
    // A neighbour may keep a reserve for expedited bundles (`reserved_bytes`).
    let mut node = Node::new();
    node.send(EndpointId::ipn(2, 1), Priority::Normal);
    let refused = node.take_sent()[0].id;
    node.fail(refused, Some(Refusal::NoResources));
    node.send(EndpointId::ipn(2, 1), Priority::Normal);
    node.send(EndpointId::ipn(2, 1), Priority::Expedited);
    let sent = node.take_sent();
    assert_eq!(sent.len(), 1, "what is kept free there may be free");
    node.confirm(sent[0].id);
    assert_eq!((node.sent().len(), node.held()), (0, 2), "it says nothing of the others");
    node.send(EndpointId::ipn(2, 1), Priority::Expedited);
    let refused = node.take_sent()[0].id;
    node.fail(refused, Some(Refusal::NoResources));
    node.send(EndpointId::ipn(2, 1), Priority::Expedited);
    assert_eq!(node.take_sent().len(), 0, "they rest, too, when they are refused themselves");
}

#[test]
fn reconnect_ends_full_neighbour_backoff() {
    // A neighbour that comes up again may have room, whatever the backoff has grown to.
    let mut node = Node::new();
    node.send(EndpointId::ipn(2, 1), Priority::Normal);
    for seconds in [1, 2, 4, 8] {
        let refused = node.take_sent()[0].id;
        node.fail(refused, Some(Refusal::NoResources));
        node.wait_ms(1000 * seconds + 10);
    }
    let refused = node.take_sent()[0].id;
    node.fail(refused, Some(Refusal::NoResources));
    node.wait_ms(100);
    assert!(node.sent().is_empty());
    node.carrier(0, false);
    node.carrier(0, true);
    assert_eq!(node.sent_over(0), [0]);
}

#[test]
fn wait_causes_are_distinguished() {
    // Operators act differently on a full neighbour, an unknown endpoint, a silent neighbour and a loop.
    let waits_for = |refused: &[Option<Refusal>]| {
        let mut node = Node::new();
        node.send(EndpointId::ipn(2, 1), Priority::Normal);
        for refused in refused {
            let last = node.sent().last().unwrap().id;
            node.fail(last, *refused);
        }
        node.waits_for()
    };
    let full = "ipn:2.0 refused it (no resources: storage or memory is full); will be tried again";
    assert_eq!(waits_for(&[Some(Refusal::NoResources)]), full);
    let nobody = "ipn:2.0 has nobody who listens there; will be tried again";
    assert_eq!(waits_for(&[Some(Refusal::Unknown)]), nobody);
    assert_eq!(waits_for(&[None; 4]), "ipn:2.0 does not answer; will be tried again");
    let mut node = Node::new();
    let there = support::from_two(1, EndpointId::ipn(9, 1)).hops(1, 5);
    node.receive(1, there.clone());
    node.receive_over(1, 2, there.hops(3, 5));
    assert_eq!(node.waits_for(), "ipn:3.0 gave it back; will be tried again");
}

#[test]
fn bundle_not_returned_to_its_destination() {
    // dtn7-go forwards bundles that it delivered, even to their previous node.
    let mut node = Node::new();
    let to_two = |source, sequence| Bundle::new(EndpointId::ipn(source, 5), EndpointId::ipn(2, 1), sequence);
    node.begins(0, 1, to_two(1, 1));
    node.receive(2, to_two(1, 2));
    assert_eq!(node.verdicts(), [(1, Err(Refusal::NotAcceptable)), (2, Err(Refusal::NotAcceptable))]);
    node.send(EndpointId::ipn(2, 1), Priority::Normal);
    let under_way = node.take_sent()[0].clone();
    node.receive(3, under_way.arrives());
    node.confirm(under_way.id);
    node.receive(4, under_way.arrives());
    node.wait_ms(10_000);
    assert!(node.sent().is_empty(), "once is enough");
    node.receive_over(1, 5, to_two(3, 5));
    node.receive(6, Bundle::new(EndpointId::ipn(3, 5), EndpointId::ipn(9, 1), 6));
    assert_eq!((node.sent_over(0), node.sent_over(1)), (vec![5], vec![6]), "and nothing else is kept back");
}

/// Keeps 9171-4.4.1-1, 9171-4.4.1-2, 9171-5.4-8, 9171-5.4-9.
#[test]
fn forwarded_bundle_updates_hop_blocks() {
    let mut node = Node::new();
    let bundle = Bundle::new(EndpointId::ipn(2, 5), EndpointId::ipn(9, 1), 3).created_ms(0).hops(0, 3).age_ms(100);
    node.ready(1, false);
    node.receive(1, bundle);
    node.wait_ms(250);
    node.ready(1, true);
    let sent = node.sent()[0].clone();
    assert_eq!(sent.link, LinkId(1), "by the static route ipn:9.*");
    assert_eq!(sent.hop.previous, EndpointId::ipn(1, 0));
    assert_eq!((sent.hop.hops, sent.hop.age_ms), (1, 350));
}

/// Keeps 9171-4.4.1-2.
#[test]
fn own_bundle_has_no_previous_node() {
    // RFC 9171 section 4.4.1: the source adds no previous node block, even when its own bundle returned. An anonymous
    // bundle that is forwarded gets one.
    let mut node = Node::new();
    node.send(EndpointId::ipn(2, 1), Priority::Normal);
    let sources = [EndpointId::ipn(1, 5), EndpointId::ipn(1, 0), EndpointId::ipn(2, 5), EndpointId::Null];
    for (sequence, source) in (1..).zip(sources) {
        node.receive_over(1, sequence, Bundle::new(source, EndpointId::ipn(2, 1), sequence).previous(3));
    }
    let said: Vec<_> = node.sent().into_iter().map(|sent| (sent.bundle.source.clone(), sent.hop.previous)).collect();
    let (none, ours) = (EndpointId::Null, EndpointId::ipn(1, 0));
    assert_eq!(said.len(), 5, "{said:?}");
    for (source, previous) in &said {
        let own = source.node() == ours.node();
        assert_eq!(*previous, if own { none.clone() } else { ours.clone() }, "{source}");
    }
}

/// Keeps 9171-5.4-3, 5050-5.4-4.
#[test]
fn broken_transfer_moves_to_sibling_link() {
    // Both links lead to the same neighbour, so no backoff is due.
    let spare = farlink_bpa::LinkSettings { peer: EndpointId::ipn(2, 0), name: "spare".into(), ..support::link(5) };
    let mut node = Node::new();
    node.add_link(&spare);
    node.send(EndpointId::ipn(2, 1), Priority::Normal);
    let first = node.take_sent()[0].clone();
    node.carrier(first.link.0, false);
    node.fail(first.id, None);
    let other = if first.link == LinkId(0) { 5 } else { 0 };
    assert_eq!(node.sent_over(other).len(), 1);
}

#[test]
fn queue_orders_by_class_then_arrival() {
    let mut node = Node::new();
    node.ready(0, false);
    for priority in [Priority::Normal, Priority::Bulk, Priority::Expedited, Priority::Normal, Priority::Expedited] {
        node.send(EndpointId::ipn(2, 1), priority);
    }
    node.ready(0, true);
    assert_eq!(node.sent_over(0), [2, 4, 0, 3, 1]);
}

#[test]
fn second_answer_is_ignored() {
    // A layer that answers twice, or about an unknown transmission, must not release another bundle.
    let mut node = Node::new();
    node.send(EndpointId::ipn(2, 1), Priority::Normal);
    node.send(EndpointId::ipn(2, 1), Priority::Normal);
    let id = node.sent()[0].id;
    node.confirm(id);
    node.confirm(id);
    node.fail(id, Some(Refusal::NoResources));
    node.fail(farlink_base::layer::SendId(987_654_321), None);
    assert_eq!((node.held(), node.sent().len()), (1, 2));
}

#[test]
fn repeated_failures_count_as_refusal() {
    // Three failures are retried at once; from the fourth on the backoff applies.
    let mut node = Node::new();
    node.send(EndpointId::ipn(2, 1), Priority::Normal);
    for n in 0..3 {
        node.fail(node.sent()[n].id, None);
        assert_eq!(node.sent().len(), n + 2, "at once");
    }
    node.fail(node.sent()[3].id, None);
    assert_eq!(node.sent().len(), 4);
    node.wait_ms(9000);
    assert_eq!(node.sent().len(), 5);
}

/// Keeps 9171-5.4-1, 9171-5.4-3, 9171-5.4-5, 9171-5.4.1-1, 5050-5.4-1, 5050-5.4-3, 5050-5.4-5, 5050-5.4.1-1.
#[test]
fn wait_cause_is_listed() {
    let mut node = Node::new();
    node.commit = false;
    node.send(EndpointId::ipn(8, 1), Priority::Normal);
    assert_eq!(node.waits_for(), "no route to ipn:8.0");
    node.send(EndpointId::ipn(2, 1), Priority::Normal);
    assert_eq!(node.why(2), "acknowledgment on link to2");
    node.receive(1, support::from_two(1, EndpointId::ipn(1, 1)));
    assert_eq!(node.why(3), "the store");
    node.stored(3);
    assert_eq!(node.why(3), "an application at ipn:1.1");
    node.ready(1, false);
    node.send(EndpointId::ipn(3, 1), Priority::Normal);
    assert_eq!(node.why(4), "its turn on link to3 to ipn:3.0 (1 bundles queued)");
    node.carrier(1, false);
    assert_eq!(node.why(4), "link to3 to ipn:3.0 is down");
    let status = node.agent.status(node.now);
    assert_eq!((status.links[1].queued, status.links[0].in_flight, status.links[1].up), (1, 1, false));
}

#[test]
fn ready_link_gets_next_bundle() {
    let mut node = Node::new();
    let takes = |ready| farlink_bpa::Input::TakesOne { link: LinkId(0), ready };
    node.tell(takes(false));
    for _ in 0..3 {
        node.send(EndpointId::ipn(2, 1), Priority::Normal);
    }
    node.ready(0, true);
    assert!(node.sent().is_empty(), "its contact may have begun; it is busy");
    for sent in 1..=3 {
        node.tell(takes(true));
        assert_eq!(node.sent().len(), sent);
    }
}

/// Keeps 9171-5.4-9.
#[test]
fn age_grows_by_residence_time() {
    // RFC 9171 section 5.4, step 4: the age grows by the residence time, whatever the wall clock reads.
    let times = [(NOW_UTC.0 - 1000, 60_000), (NOW_UTC.0 + 9000, 60_000), (NOW_UTC.0 - 30_000, 60_000), (0, u64::MAX)];
    let ages = times.map(|(created_ms, lifetime_ms)| {
        let mut node = Node::new();
        node.ready(1, false);
        let bundle = from_two(1, EndpointId::ipn(3, 1)).created_ms(created_ms).lifetime_ms(lifetime_ms);
        node.receive(1, bundle.age_ms(5000));
        node.wait_ms(2000);
        node.ready(1, true);
        node.sent()[0].hop.age_ms
    });
    assert_eq!(ages, [7000; 4]);
}

/// A node with bundles for two applications of `ipn:2.0`, both refused for lack of room.
fn two_refused() -> Node {
    let mut node = Node::new();
    node.send(EndpointId::ipn(2, 7), Priority::Normal);
    node.send(EndpointId::ipn(2, 1), Priority::Normal);
    let sent = node.take_sent();
    sent.iter().for_each(|sent| node.fail(sent.id, Some(Refusal::NoResources)));
    node
}

#[test]
fn cancelled_bundle_is_no_probe() {
    // After the backoff one bundle probes the neighbour. A cancelled bundle is never sent, so as the probe it would
    // never end the backoff.
    let mut node = two_refused();
    node.admin(farlink_bpa::app::AdminInput::Cancel { bundle: farlink_base::BundleHandle(1) });
    node.wait_ms(1100);
    assert_eq!(node.sent_over(0), [1]);
}

#[test]
fn bundle_sent_elsewhere_is_no_probe() {
    let mut node = two_refused();
    let route = ("ipn:2.7".into(), EndpointId::ipn(3, 0));
    node.admin(farlink_bpa::app::AdminInput::AddRoute { pattern: route.0, next_hop: route.1 });
    assert_eq!((node.sent_over(1), node.sent_over(0)), (vec![0], vec![]));
    node.wait_ms(1100);
    assert_eq!(node.sent_over(0), [1]);
}

#[test]
fn other_shards_bundles_use_link_time() {
    // Bundles of other shards use the same link, so its pacing counts them.
    let slow = LinkSettings { rate: Some(DataRate(8000)), ..link(0) };
    let mut node = Node::with(Settings { links: vec![slow], ..settings() }, None);
    assert_eq!(node.agent.pace(node.now, LinkId(0), 10_000), None);
    let busy = Instant::ZERO + Duration::from_secs(10);
    let at = node.agent.pace(node.now, LinkId(0), 10_000).expect("the link is busy");
    assert_eq!(at + settings().node.hand_over_ahead, busy, "10 kB at 1 kB/s");
    node.now = at;
    assert_eq!(node.agent.pace(node.now, LinkId(0), 10_000), None);
}

#[test]
fn renewed_refusal_restarts_backoff() {
    let mut node = Node::new();
    node.send(EndpointId::ipn(9, 1), Priority::Normal);
    let refuse = |node: &mut Node| {
        let sent = node.take_sent();
        assert_eq!(sent.len(), 1);
        node.fail(sent[0].id, Some(Refusal::NotAcceptable));
    };
    refuse(&mut node);
    node.wait_ms(500);
    // A new route leads to another neighbour before the first backoff, of 1 s, is over.
    let (pattern, next_hop) = ("ipn:9.1".into(), EndpointId::ipn(2, 0));
    node.admin(farlink_bpa::app::AdminInput::AddRoute { pattern, next_hop });
    refuse(&mut node);
    node.wait_ms(1900);
    assert_eq!(node.sent().len(), 0, "the second backoff lasts 2 s");
    node.wait_ms(200);
    assert_eq!(node.sent().len(), 1);
}
