//! Bundle-in-bundle encapsulation (draft-ietf-dtn-bibect): entry, exit, and which signals are accepted.

use crate::support;

use crate::support::tunnels::*;
use crate::support::{Bundle, Node, Toy, from_two};
use farlink_base::{
    BundleHandle, Chunk, DeleteReason, Duration, EndpointId, Event, Extent, LinkId, Malformed, Payload, Priority,
    Refusal,
};
use farlink_bpa::app::DeliveryId;
use farlink_bpa::{Answer, Edge, Input, Output, Reading, Settings, TunnelCodes};

#[test]
fn inner_bundle_stays_until_outer_sent() {
    let mut node = plain();
    node.receive(1, to_nine(1));
    let [sent] = &inside(&node)[..] else { panic!("one") };
    assert!(sent.cut.is_none() && outer(&node).is_empty());
    assert_eq!(wrap(&mut node), [0], "nobody is to say anything about it");
    let [left] = &outer(&node)[..] else { panic!("one") };
    assert_eq!((left.link, &left.bundle.destination), (LinkId(1), &EndpointId::ipn(3, 0)));
    assert!(left.bundle.is_administrative() && left.bundle.lifetime_ms <= 60_000);
    assert_eq!((node.held(), node.put().len()), (2, 0), "the one around it is never on disk");
    assert_eq!(node.why(1), "the way through the tunnel to ipn:3.0, in bundle 2");
    let id = left.id;
    node.confirm(id);
    assert_eq!((node.held(), node.forgotten()), (0, vec![(1, false)]));
}

#[test]
fn inner_bundle_stays_until_far_end_signals() {
    let mut node = node();
    let given = through(&mut node, 1);
    assert_eq!((node.held(), node.forgotten().len()), (1, 0));
    assert_eq!(node.why(1), "the signal of ipn:3.0 at the tunnel's end, 10 s more");
    signal(&mut node, 3, 1, Answer::Taken, &run(given, given));
    assert_eq!((node.held(), ignored(&node)), (0, 0));
    assert_eq!(count(&node, |event| matches!(event, Event::CustodyReleased { .. })), 1);
}

#[test]
fn unsignalled_bundle_repeats_with_backoff() {
    let mut node = node();
    let first = through(&mut node, 1);
    node.wait(Duration::from_secs(11));
    assert_eq!(count(&node, |event| matches!(event, Event::CustodyRepeated { .. })), 1);
    node.wait(Duration::from_secs(5));
    let given = wrap(&mut node);
    assert_eq!(given, [first + 1], "a transmission of its own");
    let left = outer(&node)[0].id;
    node.said.clear();
    node.confirm(left);
    assert!(node.why(1).ends_with("20 s more"), "{}", node.why(1));
    signal(&mut node, 3, 1, Answer::Taken, &run(first, first));
    assert_eq!((node.held(), ignored(&node)), (0, 0));
}

#[test]
fn late_signal_ends_queued_repeat() {
    for rendered in [false, true] {
        let mut node = node();
        let first = through(&mut node, 1);
        node.wait(Duration::from_secs(16));
        if rendered {
            wrap(&mut node);
        }
        let (waiting, left) = (inside(&node), outer(&node));
        signal(&mut node, 3, 1, Answer::Redundant, &run(first, first));
        // Transmissions still under way must end without effect.
        waiting.iter().for_each(|sent| node.tell(Input::Rendered { id: sent.id, rope: Payload::from(vec![1]) }));
        left.iter().for_each(|sent| node.fail(sent.id, None));
        assert_eq!(node.held(), 0, "{rendered}");
    }
}

#[test]
fn forged_signals_end_nothing() {
    // Transmission numbers start at a random value: a forged signal names numbers that were never used.
    let mut node = node();
    let given = through(&mut node, 1);
    for (n, runs) in
        [run(0, u64::MAX - 1), run(given - 1, given), run(given, given + 1), run(0, 0), vec![]].iter().enumerate()
    {
        signal(&mut node, 3, n as u64, Answer::Taken, runs);
        assert_eq!((node.held(), ignored(&node)), (1, n + 1), "{runs:?}");
    }
    // A signal from another node is an ordinary record for a registered application.
    let payload = Toy.tunnel_signal(TunnelCodes::default(), Answer::Taken, &run(given, given));
    node.receive_over(0, 50, record(2, 50, payload));
    assert!(open(&mut node).is_empty());
    assert_eq!(node.why(1), "the signal of ipn:3.0 at the tunnel's end, 10 s more");
    signal(&mut node, 3, 60, Answer::Taken, &run(given, given));
    signal(&mut node, 3, 61, Answer::Taken, &run(given, given));
    assert_eq!(ignored(&node), 5, "what is over is over");
}

#[test]
fn refused_bundle_repeats_after_backoff() {
    let mut node = node();
    let given = through(&mut node, 1);
    signal(&mut node, 3, 1, Answer::Depleted, &run(given, given));
    assert!(node.held() >= 1 && inside(&node).is_empty(), "not at once");
    node.wait(Duration::from_secs(10));
    assert_eq!(wrap(&mut node), [given + 1]);
}

#[test]
fn failed_outer_bundle_repeats_inner() {
    // If the outer bundle is lost, the inner bundle is sent again in a new outer bundle.
    let mut node = plain();
    node.receive(1, to_nine(1));
    wrap(&mut node);
    let around = node.agent.bundles(node.now, farlink_base::BundleHandle(1), 9)[0].handle;
    node.admin(farlink_bpa::app::AdminInput::Cancel { bundle: around });
    let under_way = outer(&node);
    under_way.iter().for_each(|sent| node.fail(sent.id, None));
    node.said.clear();
    node.wait(Duration::from_secs(20));
    assert_eq!((inside(&node).len(), node.held()), (1, 1), "the bundle goes in another one");
}

#[test]
fn inner_bundles_end_deletes_outer() {
    // An outer bundle that outlived the inner one would deliver a deleted bundle.
    for stage in 0..3 {
        let mut node = node();
        node.carrier(1, false);
        node.receive(1, to_nine(1));
        if stage > 0 {
            wrap(&mut node);
        }
        match stage {
            1 => node.admin(farlink_bpa::app::AdminInput::Cancel { bundle: farlink_base::BundleHandle(1) }),
            _ => node.wait(Duration::from_secs(61)),
        }
        let waiting = inside(&node);
        waiting.iter().for_each(|sent| node.tell(Input::Rendered { id: sent.id, rope: Payload::from(vec![1]) }));
        assert_eq!(node.held(), 0, "stage {stage}");
    }
}

#[test]
fn tunnel_window_serves_urgent_first() {
    // Bundles wait outside the tunnel, so that an expedited one can overtake.
    let mut node = Node::with(tunnel(|tunnel| (tunnel.bundles, tunnel.custody) = (2, false)), None);
    for n in 1..=5 {
        let priority = if n == 5 { Priority::Expedited } else { Priority::Normal };
        node.receive(n, to_nine(n).priority(priority));
    }
    assert_eq!(inside(&node).iter().map(|sent| sent.bundle.sequence).collect::<Vec<_>>(), [1, 2]);
    wrap(&mut node);
    let left = outer(&node);
    node.said.clear();
    node.confirm(left[0].id);
    assert_eq!(inside(&node).iter().map(|sent| sent.bundle.sequence).collect::<Vec<_>>(), [5]);
    node.confirm(left[1].id);
    assert_eq!(inside(&node).iter().map(|sent| sent.bundle.sequence).collect::<Vec<_>>(), [5, 3]);
}

#[test]
fn unreadable_inner_bundle_is_retried() {
    let mut node = node();
    node.receive(1, to_nine(1));
    let sent = inside(&node)[0].id;
    node.said.clear();
    node.unreadable(Reading::Send(sent), false);
    assert!(inside(&node).is_empty());
    node.wait(Duration::from_secs(10));
    assert_eq!(inside(&node).len(), 1);
    assert_eq!(wrap(&mut node).len(), 1);
}

#[test]
fn outer_bundle_stays_until_inner_stored() {
    // A crash before the commit would lose an acknowledged inner bundle.
    let mut node = node();
    node.receive_over(1, 1, record(3, 1, carried(77)));
    let [delivery] = open(&mut node)[..] else { panic!("one") };
    assert!(node.said.iter().any(|o| matches!(o, Output::Inside { .. })));
    node.commit = false;
    comes_out(&mut node, delivery, from_two(5, EndpointId::ipn(2, 1)));
    judge(&mut node);
    assert_eq!((node.held(), signals(&node)), (2, vec![]), "nothing is said before the store has it");
    let number = node.put().last().copied().unwrap();
    node.commit = true;
    node.stored(number);
    judge(&mut node);
    assert!(node.forgotten().contains(&(1, true)), "the one around it is done, and remembered");
    node.wait(Duration::from_secs(2));
    assert_eq!(signals(&node), [(EndpointId::ipn(3, 0), 0)]);
}

#[test]
fn refused_inner_bundle_signalled_or_retried() {
    // Transmission number 0 requests no signal, so the near end does not learn of the refusal; this node must retry.
    for number in [0, 77] {
        let mut node = node();
        node.receive_over(1, 1, record(3, 1, carried(number)));
        let [delivery] = open(&mut node)[..] else { panic!("one") };
        node.tell(Input::Judged { delivery, result: Err(Refusal::NoResources) });
        node.wait(Duration::from_secs(10));
        let told = signals(&node).len();
        assert_eq!((node.held() - told as u64, told), if number == 0 { (1, 0) } else { (0, 1) }, "{number}");
        assert_eq!(open(&mut node).len(), usize::from(number == 0), "{number}");
    }
    let mut node = node();
    node.receive_over(1, 1, record(3, 1, carried(0)));
    let [delivery] = open(&mut node)[..] else { panic!("one") };
    node.tell(Input::Judged { delivery, result: Err(Refusal::NotAcceptable) });
    assert_eq!(node.held(), 0, "what breaks a rule breaks it tomorrow");
}

#[test]
fn inner_bundle_inherits_previous_node() {
    let mut node = node();
    let stranger = node.comes(5, EndpointId::ipn(8, 0));
    for (ticket, link) in [(1, 1), (2, stranger)] {
        node.receive_over(link, ticket, record(3, ticket, carried(0)));
        let [delivery] = open(&mut node)[..] else { panic!("one") };
        comes_out(&mut node, delivery, from_two(ticket, EndpointId::ipn(44, 1)));
        judge(&mut node);
        assert_eq!(node.agent.status(node.now).strangers.0, u64::from(link == stranger));
    }
}

#[test]
fn inner_bundle_from_strangers_pieces_is_strangers() {
    // The outer bundle was joined from fragments of an unauthenticated peer. It has no such mark itself, yet its inner
    // bundle must be charged to unauthenticated peers.
    let mut node = node();
    let stranger = node.comes(5, EndpointId::ipn(8, 0));
    let whole = record(3, 1, carried(0));
    let len = whole.meta.payload.len();
    node.receive_over(stranger, 1, whole.piece(0..5));
    node.receive_over(stranger, 2, whole.piece(5..len));
    let [delivery] = open(&mut node)[..] else { panic!("one") };
    comes_out(&mut node, delivery, from_two(1, EndpointId::ipn(44, 1)));
    judge(&mut node);
    assert_eq!((node.held(), node.agent.status(node.now).strangers.0), (1, 1));
}

#[test]
fn inner_bundle_charges_far_ends_quota() {
    // The inner bundle is charged to the node at the other end of the tunnel, which could otherwise exceed its quota by
    // encapsulation.
    let mut node = node();
    let (sources, neighbours) = (vec![], vec!["ipn:3.0".to_string()]);
    node.agent.set_quotas(vec![farlink_bpa::Quota { sources, neighbours, bytes: 1 << 20, bundles: 2 }]);
    for n in 1..=4 {
        node.receive(n, record(3, n, carried(n)));
        let [delivery] = open(&mut node)[..] else { panic!("one") };
        comes_out(&mut node, delivery, Bundle::new(EndpointId::ipn(100 + n, 5), EndpointId::ipn(44, 1), n));
        judge(&mut node);
    }
    let quota = &node.agent.status(node.now).quotas[0];
    assert_eq!((quota.bundles, quota.refused, node.held()), (2, 2, 2));
    node.wait(Duration::from_secs(2));
    assert_eq!(signals(&node).iter().map(|(_, answer)| *answer).collect::<Vec<_>>(), [0, 2], "taken, and no room");
}

#[test]
fn broken_tunnel_records_are_deleted() {
    let mut node = node();
    node.receive_over(1, 1, record(3, 1, Payload::from(&b"R another record"[..])));
    open(&mut node);
    assert_eq!(node.held(), 0, "nobody listens");
    node.receive_over(1, 2, record(3, 2, Payload::from(&b"I!"[..])));
    open(&mut node);
    let malformed = |event: &Event| matches!(event, Event::Malformed { link: Some(LinkId::TUNNEL), .. });
    assert_eq!((node.held(), count(&node, malformed)), (0, 1));
    let _ = Malformed { offset: 0, reason: "" };
    // Repeated inputs about a finished delivery do nothing.
    node.tell(Input::Outer { delivery: DeliveryId(99), payload: Payload::new() });
    node.tell(Input::Judged { delivery: DeliveryId(99), result: Ok(()) });
}

#[test]
fn inner_bundle_may_return_to_carrier() {
    // The neighbour that carries the outer bundle has not seen the inner one, which may be for it or for forwarding by
    // it.
    for number in [0, 77] {
        let mut node = node();
        node.receive(1, record(3, 1, carried(number)));
        let [delivery] = open(&mut node)[..] else { panic!("one") };
        comes_out(&mut node, delivery, Bundle::new(EndpointId::ipn(44, 5), EndpointId::ipn(2, 1), 5));
        judge(&mut node);
        let back: Vec<_> = node.sent_over(0);
        assert_eq!(back, [5], "number {number}");
    }
    let mut node = Node::of(tunnel(|_| {}), None, support::Script::flood(), support::Rule::default());
    node.receive(1, record(3, 1, carried(0)));
    let [delivery] = open(&mut node)[..] else { panic!("one") };
    comes_out(&mut node, delivery, Bundle::new(EndpointId::ipn(44, 5), EndpointId::ipn(45, 1), 5));
    judge(&mut node);
    let mut over: Vec<LinkId> = node.sent().iter().filter(|s| s.bundle.sequence == 5).map(|s| s.link).collect();
    over.sort();
    assert_eq!(over, [LinkId(0), LinkId(1)], "copies go to all");
}

#[test]
fn hello_inside_tunnel_is_ignored() {
    // Inner hellos and custody signals do not count: with an outer bundle that a neighbour carries, any node could
    // speak in that neighbour's name.
    let mut told = tunnel(|_| {});
    told.custody = Some(Box::new(farlink_bpa::CustodySettings::default()));
    let mut node = Node::with(told, None);
    // This bundle is in custody here, and was sent to `ipn:2.0`.
    node.receive_over(1, 1, Bundle::new(EndpointId::ipn(3, 5), EndpointId::ipn(2, 1), 1).custody(3, None));
    let sent = outer(&node).into_iter().find(|sent| !sent.bundle.is_administrative()).unwrap();
    node.confirm(sent.id);
    let about = farlink_bpa::About::One(sent.arrives().meta.identity());
    let signal = farlink_bpa::Signal { answer: Answer::Taken, about };
    let payload = Toy.custody_signal(support::toy::VERSION, &signal, None).unwrap();
    for (ticket, inside) in [(2, record(2, 9, payload)), (3, record(2, 10, Toy.hello(b"routes")))] {
        node.receive(ticket, record(3, ticket, carried(0)));
        let [delivery] = open(&mut node)[..] else { panic!("one") };
        comes_out(&mut node, delivery, inside);
        judge(&mut node);
    }
    assert_eq!(count(&node, |event| matches!(event, Event::CustodyReleased { .. })), 0);
    assert_eq!(ignored(&node), 1);
    node.receive(20, record(2, 20, Toy.custody_signal(support::toy::VERSION, &signal, None).unwrap()));
    assert_eq!(count(&node, |event| matches!(event, Event::CustodyReleased { .. })), 1, "over its link it is believed");
}

#[test]
fn long_bundles_enter_one_by_one() {
    // Once 64 MiB or more are on their way into the tunnel, no further bundle enters.
    let mut node = Node::with(Settings { capacity_bytes: 1 << 30, ..tunnel(|tunnel| tunnel.custody = false) }, None);
    for n in 1..=4 {
        node.receive(n, to_nine(n).payload(Payload::fill(n, 40 << 20)));
    }
    assert_eq!(inside(&node).len(), 2, "64 MiB are exceeded by the second");
    wrap(&mut node);
    let left = outer(&node);
    node.said.clear();
    node.confirm(left[0].id);
    assert_eq!(inside(&node).len(), 1);
}

#[test]
fn returning_inner_bundle_repeats() {
    // A routing loop: the far end returns the bundle before its outer bundle has left, or before its signal arrives.
    for stage in 0..3 {
        let mut node = node();
        node.receive(1, to_nine(1));
        let mut first = Vec::new();
        if stage > 0 {
            first = wrap(&mut node);
        }
        let left = outer(&node);
        if stage > 1 {
            node.confirm(left[0].id);
        }
        let waiting = inside(&node);
        node.said.clear();
        node.receive_over(1, 2, to_nine(1));
        assert_eq!(inside(&node).len(), 1, "stage {stage}");
        let given = wrap(&mut node);
        // Transmissions still under way must end without effect.
        waiting.iter().for_each(|sent| node.tell(Input::Rendered { id: sent.id, rope: Payload::from(vec![1]) }));
        if stage == 1 {
            node.confirm(left[0].id);
        }
        assert!(node.held() >= 1 && given.len() == 1, "stage {stage}: {given:?}");
        let again = outer(&node).last().unwrap().id;
        node.confirm(again);
        signal(&mut node, 3, 1, Answer::Taken, &run(given[0], given[0]));
        assert_eq!((node.held(), ignored(&node)), (0, 0), "stage {stage}, {first:?}");
    }
}

#[test]
fn many_pending_signals_leave_at_once() {
    let change = |tunnel: &mut farlink_bpa::TunnelSettings| {
        (tunnel.signal_delay, tunnel.signal_bundles) = (Duration::from_secs(3600), 2);
    };
    let mut node = Node::with(tunnel(change), None);
    for n in 1..=4 {
        node.receive_over(1, n, record(3, n, carried(76 + n)));
        let [delivery] = open(&mut node)[..] else { panic!("one") };
        comes_out(&mut node, delivery, from_two(n, EndpointId::ipn(44, 1)));
        judge(&mut node);
        assert_eq!(signals(&node).len() as u64, n / 2, "after {n}");
    }
}

#[test]
fn far_ends_record_is_answered() {
    let told = Toy.tunnel_signal(TunnelCodes::default(), Answer::Taken, &run(5, 5));
    for payload in [told, Payload::from(&b"I!"[..]), Payload::from(&b"R another record"[..]), carried(0)] {
        let mut node = node();
        node.receive_over(1, 1, record(3, 1, payload));
        assert!(node.agent.unanswered() > 0);
        for delivery in open(&mut node) {
            node.tell(Input::Judged { delivery, result: Ok(()) });
        }
        assert_eq!((node.held(), node.agent.unanswered()), (0, 0));
    }
}

#[test]
fn tunnel_entry_and_wait_emit_events() {
    let mut node = Node::with(tunnel(|tunnel| tunnel.bundles = 1), None);
    (1..=2).for_each(|n| node.receive(n, to_nine(n)));
    let enters = |event: &Event| matches!(event, Event::Transmitting { link: LinkId::TUNNEL, .. });
    let waits = |event: &Event| matches!(event, Event::Waiting { .. });
    assert_eq!((count(&node, enters), count(&node, waits)), (1, 1));
}

#[test]
fn tunnel_failure_admits_next_bundle() {
    let mut node = Node::with(tunnel(|tunnel| tunnel.bundles = 1), None);
    (1..=2).for_each(|n| node.receive(n, to_nine(n)));
    let first = inside(&node);
    node.said.clear();
    node.unreadable(Reading::Send(first[0].id), false);
    assert_eq!(inside(&node).iter().map(|sent| sent.bundle.sequence).collect::<Vec<_>>(), [2], "at once");
}

#[test]
fn outer_bundle_charges_no_quota() {
    let mut node = node();
    let (sources, neighbours) = (vec!["*".to_string()], vec![]);
    node.agent.set_quotas(vec![farlink_bpa::Quota { sources, neighbours, bytes: 1 << 20, bundles: 10 }]);
    node.receive(1, to_nine(1));
    wrap(&mut node);
    assert_eq!((node.held(), node.agent.status(node.now).quotas[0].bundles), (2, 1));
}

#[test]
fn router_sees_outer_bundle() {
    let (said, heard) = std::sync::mpsc::channel();
    let router = support::Script {
        hears: farlink_book::EventMask::KEPT,
        on: Box::new(move |node, news, _| {
            if let farlink_book::PolicyEvent::Kept { bundle, .. } = *news {
                said.send(node.get(bundle).unwrap().destination()).unwrap();
            }
        }),
        ..support::Script::default()
    };
    let mut node = Node::of(tunnel(|_| {}), None, router, support::Rule::default());
    node.receive(1, to_nine(1));
    wrap(&mut node);
    let nodes = [9, 3].map(farlink_base::NodeId::ipn);
    assert_eq!(heard.try_iter().collect::<Vec<_>>(), nodes);
}

/// Number of bundles that the tunnel refused as too long.
fn too_large(node: &Node) -> usize {
    let is = |e: &Event| matches!(e, Event::Refused { link: Some(LinkId::TUNNEL), reason: Refusal::TooLarge, .. });
    count(node, is)
}
/// A payload on disk.
fn on_disk(len: u64) -> Payload {
    let mut payload = Payload::new();
    payload.push(Chunk::Stored { extent: Extent { record: 1, offset: 0 }, len });
    payload
}

#[test]
fn damaged_inner_bundle_is_deleted() {
    let mut node = node();
    node.receive(1, to_nine(1));
    let id = inside(&node)[0].id;
    node.unreadable(Reading::Send(id), true);
    assert_eq!((node.held(), node.deleted()), (0, vec![DeleteReason::DepletedStorage]));
}

#[test]
fn outer_bundle_beyond_memory_is_deleted() {
    // The payload is longer than one read may be, so the stack passes it on as it is on disk.
    let mut node = node();
    node.receive_over(1, 1, record(3, 1, carried(0)));
    let delivery = node.said.iter().find_map(|output| match output {
        Output::Open { output: farlink_bpa::app::AppOutput::Deliver { delivery, .. }, .. } => Some(*delivery),
        _ => None,
    });
    node.tell(Input::Outer { delivery: delivery.unwrap(), payload: on_disk(59) });
    assert_eq!((too_large(&node), node.deleted()), (1, vec![DeleteReason::DepletedStorage]));
    assert_eq!((node.held(), node.agent.unanswered()), (0, 0));
}

#[test]
fn too_long_outer_bundle_backs_off() {
    let limits = farlink_bpa::Limits { bundle_bytes: 2000, ..farlink_bpa::Limits::default() };
    let mut node = Node::with(Settings { limits, ..tunnel(|_| {}) }, None);
    node.receive(1, to_nine(1));
    let id = inside(&node)[0].id;
    node.tell(Input::Rendered { id, rope: Payload::from(vec![7; 2000]) });
    assert_eq!((too_large(&node), node.held()), (1, 1));
    assert_eq!(node.why(1), "the tunnel to ipn:3.0, tried again in 1 s");
}

#[test]
fn cancelled_inner_bundle_admits_next() {
    let mut node = Node::with(tunnel(|tunnel| tunnel.bundles = 1), None);
    (1..=2).for_each(|n| node.receive(n, to_nine(n)));
    node.said.clear();
    node.admin(farlink_bpa::app::AdminInput::Cancel { bundle: BundleHandle(1) });
    assert_eq!(inside(&node).iter().map(|sent| sent.bundle.sequence).collect::<Vec<_>>(), [2]);
}

/// A node whose bundle is on its way into the tunnel: its payload is on disk, and stays in memory while it is sent.
fn with_payload_in_use(settings: Settings, bundle: Bundle) -> Node {
    let limits = farlink_bpa::Limits { memory_bytes: 0, ..farlink_bpa::Limits::default() };
    let mut node = Node::with(Settings { limits, ..settings }, None);
    node.commit = false;
    node.receive(1, bundle.payload(Payload::from(vec![1; 1000])));
    let stored = farlink_base::store::Output::Stored { bundle: BundleHandle(1), payload: Some(on_disk(1000)) };
    node.tell(Input::Store(stored));
    assert!(node.agent.resident() >= 1000);
    node
}

#[test]
fn failed_tunnel_transmission_frees_payload() {
    let mut node = with_payload_in_use(tunnel(|_| {}), to_nine(1));
    let id = inside(&node)[0].id;
    node.said.clear();
    node.unreadable(Reading::Send(id), false);
    assert_eq!((node.held(), node.agent.resident(), node.agent.counts().on_disk), (1, 0, 0));
}

#[test]
fn signalled_bundle_in_custody_frees_payload() {
    let custody = Some(Box::new(farlink_bpa::CustodySettings::default()));
    let settings = Settings { custody, ..tunnel(|_| {}) };
    let mut node = with_payload_in_use(settings, to_nine(1).custody(2, None));
    let given = wrap(&mut node);
    let left = outer(&node);
    node.said.clear();
    left.iter().for_each(|sent| node.confirm(sent.id));
    drop(left);
    assert!(node.agent.resident() >= 1000);
    signal(&mut node, 3, 1, Answer::Taken, &run(given[0], given[0]));
    assert!(node.why(1).starts_with("in custody"), "{}", node.why(1));
    assert!(node.agent.resident() < 1000, "a custody signal to the bundle's former custodian is left");
    assert_eq!(node.agent.counts().on_disk, 0);
}

#[test]
fn signal_releases_bundles_in_order() {
    let mut node = node();
    let given: Vec<u64> = (1..=3).map(|n| through(&mut node, n)).collect();
    let runs = [run(given[2], given[2]), run(given[0], given[0])].concat();
    signal(&mut node, 3, 9, Answer::Taken, &runs);
    let released = |e: &Event| if let Event::CustodyReleased { bundle } = e { Some(bundle.0) } else { None };
    let released: Vec<u64> = node.events().iter().filter_map(released).collect();
    let bundles: Vec<u64> = node.forgotten().iter().map(|(bundle, _)| *bundle).collect();
    assert_eq!(released, bundles[bundles.len() - 2..]);
    assert!(released[0] < released[1], "{released:?}");
}

#[test]
fn first_delivery_from_tunnel_is_unmarked() {
    let mut node = node();
    node.register(0);
    node.receive_over(1, 1, record(3, 1, carried(0)));
    let [delivery] = open(&mut node)[..] else { panic!("one") };
    comes_out(&mut node, delivery, record(2, 9, Payload::from(&b"R another record"[..])));
    judge(&mut node);
    let marks: Vec<bool> = node.deliveries().iter().map(|(_, delivery)| delivery.redelivered).collect();
    assert_eq!(marks, [false]);
}

#[test]
fn other_tunnels_signal_is_ignored() {
    let mut settings = tunnel(|_| {});
    let other = farlink_bpa::TunnelSettings {
        to: vec!["ipn:8.*".into()],
        ..farlink_bpa::TunnelSettings::new(EndpointId::ipn(2, 0))
    };
    settings.rare.as_mut().unwrap().tunnels.push(other);
    let mut node = Node::with(settings, None);
    let given = through(&mut node, 1);
    node.receive(50, record(2, 50, Toy.tunnel_signal(TunnelCodes::default(), Answer::Taken, &run(given, given))));
    open(&mut node);
    assert_eq!((node.held(), ignored(&node)), (1, 1));
    signal(&mut node, 3, 60, Answer::Taken, &run(given, given));
    assert_eq!((node.held(), ignored(&node)), (0, 1));
}

#[test]
fn signal_about_fifth_last_transmission_is_forgotten() {
    let mut node = node();
    let first = through(&mut node, 1);
    for n in 0..4 {
        signal(&mut node, 3, n, Answer::Depleted, &run(first + n, first + n));
        node.wait(Duration::from_secs(8));
        assert_eq!(wrap(&mut node), [first + n + 1]);
        let left = outer(&node)[0].id;
        node.confirm(left);
    }
    signal(&mut node, 3, 10, Answer::Taken, &run(first, first));
    assert_eq!(node.held(), 1);
    signal(&mut node, 3, 11, Answer::Taken, &run(first + 1, first + 1));
    assert_eq!(node.held(), 0);
}

#[test]
fn signalled_bundle_leaves_links_queue() {
    // A congestion control moves the bundle to a neighbour while it waits to enter the tunnel again.
    let mut first = None;
    let control = support::Rule {
        hears: farlink_book::EventMask::KEPT,
        on: Box::new(move |node, news, out| {
            let farlink_book::PolicyEvent::Kept { bundle, .. } = *news else { return };
            let first = *first.get_or_insert(bundle);
            if node.get(bundle).is_some_and(|held| held.bundle.destination == EndpointId::ipn(44, 1)) {
                let to = node.peers.of(farlink_base::NodeId::ipn(2)).unwrap().id;
                out.push(farlink_book::Action::Migrate { bundle: first, to });
            }
        }),
        ..support::Rule::default()
    };
    let mut node = Node::of(tunnel(|_| {}), None, support::NoRouter, control);
    node.ready(0, false);
    let given = through(&mut node, 1);
    signal(&mut node, 3, 1, Answer::Depleted, &run(given, given));
    node.receive(2, from_two(2, EndpointId::ipn(44, 1)));
    assert_eq!(node.agent.status(node.now).links[0].queued, 1);
    signal(&mut node, 3, 2, Answer::Taken, &run(given, given));
    assert_eq!((node.agent.status(node.now).links[0].queued, node.held()), (0, 1));
}
