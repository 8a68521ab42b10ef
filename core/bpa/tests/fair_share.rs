//! Shares of the store for unauthenticated neighbours (`strangers`), sources and previous nodes, and the reserve.

use crate::support;

use crate::support::{Bundle, NoRouter, Node, OnlyRoom, Rule, Script, settings};
use farlink_base::{BundleHandle, Chunk, EndpointId, Extent, HopState, LinkId, Payload, Priority, Refusal, store};
use farlink_bpa::app::{AdminInput, AppInput, RegistrationId};
use farlink_bpa::{Input, Limits, Output, Pressure, SHORT_HEAD_BYTES, Settings};

const SIZE: u64 = 1000;

fn node(limits: Limits) -> Node {
    Node::with(Settings { capacity_bytes: 10 * SIZE + 500, ..crate::support::bounded(limits) }, None)
}
/// A bundle of about `SIZE` bytes for a remote node; its lifetime begins at arrival.
fn bundle(source: u64, sequence: u64) -> Bundle {
    let mut bundle = Bundle::new(EndpointId::ipn(source, 5), EndpointId::ipn(77, 1), sequence);
    bundle.meta.created_ms = 0;
    bundle.meta.payload = vec![1; (SIZE - bundle.meta.overhead()) as usize].into();
    bundle
}
/// Recovers in `after` all records that `before` stored.
fn recover(before: &Node, after: &mut Node) {
    for output in &before.said {
        let Output::Put { bundle, index, meta } = output else { continue };
        let (bundle, index, meta) = (*bundle, *index, meta.clone());
        after.tell(Input::Recovered { bundle, index, meta, hop: Box::new(HopState::default()) });
    }
}
fn taken(node: &Node) -> usize {
    node.verdicts().iter().filter(|(_, verdict)| verdict.is_ok()).count()
}

#[test]
fn strangers_fill_their_share_only() {
    let mut node = node(Limits { stranger_bytes: 4 * SIZE, ..Default::default() });
    for n in 0..6 {
        // Each bundle comes from another unauthenticated peer under another name; the last peer has no entry among the
        // neighbours.
        let link = if n < 5 { node.comes(n as u32, EndpointId::ipn(10 + n, 0)) } else { LinkId::DYNAMIC | 99 };
        node.receive_over(link, n, bundle(10 + n, n));
    }
    assert_eq!(taken(&node), 4);
    assert_eq!(node.verdicts()[5].1, Err(Refusal::NoResources));
    for n in 10..20 {
        node.receive_over(0, n, bundle(2, n));
    }
    assert_eq!(taken(&node), 10, "all the room there is");
    assert_eq!(node.held(), 10);
}

#[test]
fn forged_source_fills_no_share() {
    let limits = Limits { source_bytes: 3 * SIZE, stranger_bytes: 5 * SIZE, ..Default::default() };
    let mut before = node(limits);
    let stranger = before.comes(0, EndpointId::ipn(2, 0));
    for n in 0..9 {
        // The peer also forges the previous node block, from which alone the node knows the bundle's origin after a
        // restart.
        before.receive_over(stranger, n, bundle(2, n).previous(2));
    }
    assert_eq!(taken(&before), 5, "the strangers' share");
    let mut after = node(limits);
    for output in &before.said {
        let Output::Put { bundle, index, meta } = output else { continue };
        let hop = Box::new(HopState { previous: EndpointId::ipn(2, 0), ..HopState::default() });
        after.tell(Input::Recovered { bundle: *bundle, index: *index, meta: meta.clone(), hop });
    }
    assert_eq!(after.agent.status(after.now).strangers.0, after.held());
    for node in [&mut before, &mut after] {
        for n in 20..24 {
            node.receive_over(0, n, bundle(2, n));
        }
        let of_two = node.verdicts().into_iter().filter(|(ticket, _)| *ticket >= 20);
        let of_two: Vec<bool> = of_two.map(|(_, verdict)| verdict.is_ok()).collect();
        assert_eq!(of_two, [true, true, true, false], "its own share, whole");
    }
}

#[test]
fn strangers_share_survives_restart() {
    // The store keeps a flag for each bundle of an unauthenticated neighbour, so that their share is known after a
    // restart.
    let limits = Limits { stranger_bytes: 2 * SIZE, ..Default::default() };
    let mut before = node(limits);
    let link = before.comes(0, EndpointId::ipn(10, 0));
    before.receive_over(link, 1, bundle(10, 1));
    before.receive_over(0, 2, bundle(2, 2));
    let mut after = node(limits);
    recover(&before, &mut after);
    assert_eq!(after.agent.status(after.now).strangers.0, 1);
    let link = after.comes(0, EndpointId::ipn(11, 0));
    (3..6).for_each(|n| after.receive_over(link, n, bundle(11, n)));
    assert_eq!((taken(&after), after.held()), (1, 3));
}

#[test]
fn strangers_share_frees_with_its_bundles() {
    let mut node = node(Limits { stranger_bytes: 2 * SIZE, ..Default::default() });
    let link = node.comes(0, EndpointId::ipn(10, 0));
    for round in 0..5u64 {
        for n in 0..3 {
            node.receive_over(link, 10 * round + n, bundle(10, 10 * round + n));
        }
        assert_eq!((taken(&node), node.held()), (2 * (round as usize + 1), 2), "round {round}");
        node.wait_ms(u64::from(u32::MAX) * 10);
        assert_eq!(node.held(), 0, "their lifetimes ended");
    }
    let mut large = bundle(10, 99);
    large.meta.payload = vec![1; 2 * SIZE as usize].into();
    node.receive_over(link, 99, large);
    assert_eq!(node.verdicts().last().map(|v| v.1), Some(Err(Refusal::TooLarge)), "it never fits its share");
}

#[test]
fn strangers_hold_half_the_bundles() {
    let mut node = node(Limits { bundles: 6, ..Default::default() });
    let link = node.comes(0, EndpointId::ipn(10, 0));
    (0..6).for_each(|n| node.receive_over(link, n, bundle(10, n)));
    assert_eq!(node.held(), 3);
    (6..12).for_each(|n| node.receive_over(0, n, bundle(2, n)));
    assert_eq!(node.held(), 6);
}

#[test]
fn source_share_spans_previous_nodes() {
    let mut node = node(Limits { source_bytes: 3 * SIZE, ..Default::default() });
    for n in 0..4 {
        node.receive_over((n % 2) as u32, n, bundle(50, n));
    }
    node.receive_over(0, 4, bundle(51, 4));
    assert_eq!(taken(&node), 4, "three of one, one of the other");
    for _ in 0..4 {
        node.send_bytes(EndpointId::ipn(77, 1), SIZE - 100);
    }
    assert_eq!(node.results(), [true; 4]);
}

#[test]
fn reserve_serves_urgent_and_local_bundles() {
    let mut node = node(Limits { reserved_bytes: 4 * SIZE, ..Default::default() });
    node.register(7);
    (0..12).for_each(|n| node.receive_over(0, n, bundle(2, n)));
    let there = taken(&node);
    let urgent = |n| {
        let mut urgent = bundle(2, n);
        urgent.meta.priority = Priority::Expedited;
        urgent
    };
    node.receive_over(0, 20, urgent(20));
    assert_eq!(taken(&node), there + 1);
    let deliveries = node.deliveries().len();
    let mut unread = bundle(2, 21);
    unread.meta.destination = EndpointId::ipn(1, 8);
    node.receive_over(0, 21, unread);
    assert_eq!(taken(&node), there + 1, "nobody waits for it");
    let mut awaited = bundle(2, 22);
    awaited.meta.destination = EndpointId::ipn(1, 7);
    node.receive_over(0, 22, awaited);
    assert_eq!((taken(&node), node.deliveries().len()), (there + 2, deliveries + 1));
}

#[test]
fn idle_application_fills_no_reserve() {
    // The reserve of 20 bundles is for applications that take their bundles (service 8), not for an idle one (service
    // 7). 150 bundles fit beside it.
    let limits = Limits { reserved_bytes: 20 * SIZE, ..Default::default() };
    let mut node =
        Node::of(Settings { capacity_bytes: 170 * SIZE, ..crate::support::bounded(limits) }, None, NoRouter, OnlyRoom);
    let awaited = |service, n| {
        let mut bundle = bundle(2, n);
        bundle.meta.destination = EndpointId::ipn(1, service);
        bundle
    };
    for service in [7, 8] {
        let (registration, endpoint) = (RegistrationId(service.into()), EndpointId::ipn(1, service));
        node.tell(Input::App(AppInput::Register { registration, endpoint, window: 4096 }));
    }
    (0..200).for_each(|n| node.receive_over(0, n, awaited(7, n)));
    assert!((125..140).contains(&taken(&node)), "{} of 150: 7.5 times what it leaves", taken(&node));
    (200..204).for_each(|n| node.receive_over(1, n, bundle(3, n)));
    (300..304).for_each(|n| node.receive_over(0, n, awaited(8, n)));
    let last: Vec<_> = node.verdicts().iter().rev().take(8).map(|(_, verdict)| verdict.is_ok()).collect();
    assert_eq!(last, [true; 8], "others find room, and who reads finds what is kept for it");
}

#[test]
fn previous_node_cannot_fill_store_alone() {
    // One previous node may fill at most 15 of 16 parts of the unreserved room.
    let limits = Limits { reserved_bytes: 10 * SIZE, ..Default::default() };
    let capacity_bytes = 160 * SIZE;
    let mut node = Node::of(Settings { capacity_bytes, ..crate::support::bounded(limits) }, None, NoRouter, OnlyRoom);
    let fill = |node: &mut Node, link, first: u64| {
        let before = taken(node);
        (first..first + 160).for_each(|n| node.receive_over(link, n, bundle(u64::from(link), n)));
        taken(node) - before
    };
    assert_eq!(fill(&mut node, 0, 1000), 140, "15 of 16 parts of 150");
    assert_eq!(fill(&mut node, 1, 2000), 9);
    (0..20).for_each(|_| node.send_bytes(EndpointId::ipn(77, 1), SIZE - 100));
    assert_eq!(node.results(), [false; 20], "less is left than one bundle");
    let mut node = Node::of(Settings { capacity_bytes, ..crate::support::bounded(limits) }, None, NoRouter, OnlyRoom);
    (0..160).for_each(|_| node.send_bytes(EndpointId::ipn(77, 1), SIZE - 100));
    assert!((140..160).contains(&node.results().iter().filter(|taken| **taken).count()), "applications neither");
    assert!(fill(&mut node, 0, 1000) > 0);
}

#[test]
fn flooding_application_excludes_no_other() {
    let limits = Limits { reserved_bytes: 10 * SIZE, ..Default::default() };
    let mut node =
        Node::of(Settings { capacity_bytes: 160 * SIZE, ..crate::support::bounded(limits) }, None, NoRouter, OnlyRoom);
    let mut send = |service, payload| {
        let before = node.results().iter().filter(|taken| **taken).count();
        for _ in 0..160 {
            let wanted = support::request(EndpointId::ipn(77, 1), Priority::Normal);
            let (source, payload) = (EndpointId::ipn(1, service), farlink_base::Payload::fill(3, payload));
            node.ask(farlink_bpa::app::SendRequest { source, payload, ..wanted });
        }
        node.results().iter().filter(|taken| **taken).count() - before
    };
    let all = [send(7, SIZE - 100), send(7, SIZE / 10), send(8, SIZE / 10)];
    assert!((130..160).contains(&all[0]) && all[1] < 5 && all[2] > 20, "its share; no more; another's own: {all:?}");
}

#[test]
fn previous_node_cannot_fill_table_alone() {
    let limits = Limits { reserved_bytes: 10 * SIZE, bundles: 160, ..Default::default() };
    let mut node =
        Node::of(Settings { capacity_bytes: 160 * SIZE, ..crate::support::bounded(limits) }, None, NoRouter, OnlyRoom);
    let little = |source: u64, n: u64| {
        let mut little = bundle(source, n);
        little.meta.payload = vec![1].into();
        little
    };
    (0..160).for_each(|n| node.receive_over(0, n, little(2, n)));
    assert_eq!(taken(&node), 140);
    node.receive_over(1, 200, little(3, 200));
    assert_eq!(taken(&node), 141);
    let mut large = bundle(4, 300);
    large.meta.payload = vec![1; 145 * SIZE as usize].into();
    node.receive_over(1, 300, large);
    assert_eq!(node.verdicts().last().map(|v| v.1), Some(Err(Refusal::TooLarge)), "not even alone");
}

#[test]
fn scarce_memory_refuses_strangers_first() {
    let mut node = node(Limits::default());
    let link = node.comes(0, EndpointId::ipn(10, 0));
    let offer = |node: &mut Node, link, n| {
        node.receive_over(link, n, bundle(link.into(), n));
        node.verdicts().last().unwrap().1
    };
    node.tell(Input::Pressure(Pressure::High));
    assert_eq!(offer(&mut node, link, 1), Err(Refusal::NoResources));
    assert_eq!(offer(&mut node, 0, 2), Ok(()));
    node.tell(Input::Pressure(Pressure::Full));
    assert_eq!(offer(&mut node, 0, 3), Err(Refusal::NoResources));
    node.send_bytes(EndpointId::ipn(77, 1), 10);
    assert_eq!(node.results(), [false]);
    node.tell(Input::Pressure(Pressure::None));
    assert_eq!(offer(&mut node, link, 4), Ok(()));
    assert_eq!(node.held(), 2);
}

/// A bundle whose head exceeds `SHORT_HEAD_BYTES` by `more` bytes.
fn long_headed(source: u64, sequence: u64, more: u64) -> Bundle {
    let mut bundle = bundle(source, sequence);
    bundle.meta.payload = vec![1].into();
    bundle.meta.head = vec![0; (SHORT_HEAD_BYTES + more) as usize].into();
    bundle
}
/// Offers a bundle by its head and then whole; returns the first verdict.
fn offer(node: &mut Node, link: u32, ticket: u64, bundle: Bundle) -> Result<(), Refusal> {
    node.begins(link, ticket, bundle.clone());
    if let Some((_, refused)) = node.verdicts().into_iter().find(|(given, _)| *given == ticket) {
        return refused;
    }
    node.receive_over(link, ticket, bundle);
    node.verdicts().last().expect("a verdict").1
}

#[test]
fn head_bytes_bounded_half_for_strangers() {
    // Heads stay in memory, so long ones have a bound apart from the store's.
    let limits = Limits { head_bytes: 5000, ..Default::default() };
    let mut node = Node::with(crate::support::bounded(limits), None);
    let stranger = node.comes(0, EndpointId::ipn(10, 0));
    let taken = |n| (n, Ok(()));
    let refused = |n| (n, Err(Refusal::NoResources));
    let strange: Vec<_> = (0..4).map(|n| (n, offer(&mut node, stranger, n, long_headed(10, n, 1000)))).collect();
    assert_eq!(strange, [taken(0), taken(1), refused(2), refused(3)]);
    let near: Vec<_> = (4..8).map(|n| (n, offer(&mut node, 0, n, long_headed(2, n, 1000)))).collect();
    assert_eq!(near, [taken(4), taken(5), taken(6), refused(7)]);
    assert_eq!(offer(&mut node, 0, 8, bundle(2, 8)), Ok(()), "a short head is no part of it");
    assert_eq!(offer(&mut node, 0, 9, long_headed(2, 9, 5001)), Err(Refusal::TooLarge), "it never fits");
    node.send_bytes(EndpointId::dtn(&"n".repeat(1000), "x"), 10);
    node.send_bytes(EndpointId::dtn("n", "x"), 10);
    assert_eq!(node.results(), [false, true], "names are heads, too");
    assert_eq!(node.agent.heads(), 5000);
    node.wait_ms(u64::from(u32::MAX) * 10);
    assert_eq!((node.held(), node.agent.heads()), (0, 0));
    assert_eq!(offer(&mut node, stranger, 10, long_headed(10, 10, 2500)), Ok(()));
}

#[test]
fn recovered_heads_counted_not_refused() {
    // Stored bundles are kept even above the bound; new long heads are refused.
    let with = |head_bytes| Node::with(crate::support::bounded(Limits { head_bytes, ..Default::default() }), None);
    let (mut before, mut after) = (with(1 << 20), with(3000));
    (0..5).for_each(|n| before.receive_over(0, n, long_headed(2, n, 1000)));
    recover(&before, &mut after);
    assert_eq!((after.held(), after.agent.heads()), (5, 5000));
    assert_eq!(offer(&mut after, 0, 5, long_headed(2, 5, 1)), Err(Refusal::NoResources));
    assert_eq!(offer(&mut after, 0, 6, bundle(2, 6)), Ok(()));
}

#[test]
fn full_memory_serves_links_one_by_one() {
    let mut node = node(Limits::default());
    let stranger = node.comes(0, EndpointId::ipn(10, 0));
    node.tell(Input::Pressure(Pressure::Full));
    for n in 0..3 {
        node.send_bytes(EndpointId::ipn(2, 1), 10 + n);
        node.send_bytes(EndpointId::ipn(10, 1), 10 + n);
    }
    assert_eq!((node.sent_over(0).len(), node.sent_over(stranger).len()), (0, 0), "applications are refused, too");
    node.tell(Input::Pressure(Pressure::None));
    for link in [0, stranger] {
        node.ready(link, false);
    }
    for n in 0..3 {
        node.send_bytes(EndpointId::ipn(2, 1), 10 + n);
        node.send_bytes(EndpointId::ipn(10, 1), 10 + n);
    }
    node.tell(Input::Pressure(Pressure::Full));
    for link in [0, stranger] {
        node.ready(link, true);
    }
    assert_eq!((node.sent_over(0).len(), node.sent_over(stranger).len()), (1, 0));
    let first = node.sent()[0].id;
    node.confirm(first);
    assert_eq!(node.sent_over(0).len(), 2);
    node.tell(Input::Pressure(Pressure::None));
    assert_eq!((node.sent_over(0).len(), node.sent_over(stranger).len()), (3, 3));
}

#[test]
fn reservations_charge_previous_node() {
    // Bundles that a neighbour has begun to send reserve room. Together they may reserve no more than the share of one
    // previous node.
    let limits = Limits { reserved_bytes: 10 * SIZE, ..Default::default() };
    let capacity_bytes = 160 * SIZE;
    let mut node = Node::of(Settings { capacity_bytes, ..crate::support::bounded(limits) }, None, NoRouter, OnlyRoom);
    for n in 0..200 {
        node.begins(0, n, bundle(2, n));
    }
    assert_eq!(node.verdicts().len(), 60, "140 begin: 15 of 16 parts of 150");
    let mut long = bundle(3, 1000);
    long.meta.payload = vec![1; 8 * SIZE as usize].into();
    node.receive_over(1, 1000, long);
    assert_eq!(node.verdicts().last(), Some(&(1000, Ok(()))), "others find room still");
    (0..140).for_each(|n| node.receive_over(0, n, bundle(2, n)));
    assert!(node.verdicts().iter().filter(|(n, v)| *n < 140 && v.is_ok()).count() >= 132, "{:?}", node.verdicts());
}

#[test]
fn reservations_charge_shares_until_settled() {
    let limits = Limits { stranger_bytes: 4 * SIZE, source_bytes: 3 * SIZE, ..Default::default() };
    let mut node = node(limits);
    let link = node.comes(0, EndpointId::ipn(10, 0));
    (0..6).for_each(|n| node.begins(link, n, bundle(10 + n, n)));
    assert_eq!(node.verdicts().iter().map(|v| v.0).collect::<Vec<_>>(), [4, 5], "four begin");
    node.tell(Input::Abandoned { token: support::token(0) });
    node.begins(link, 6, bundle(10, 6));
    (1..4).for_each(|n| node.receive_over(link, n, bundle(10 + n, n)));
    assert_eq!((node.verdicts().len(), taken(&node), node.held()), (5, 3, 3));
    node.tell(Input::Abandoned { token: support::token(6) });
    (20..25).for_each(|n| node.begins(0, n, bundle(50, n)));
    assert_eq!(node.verdicts().len(), 7, "of one source three begin");
    (20..23).for_each(|n| node.tell(Input::Abandoned { token: support::token(n) }));
    node.receive_over(0, 30, bundle(50, 30));
    assert_eq!((taken(&node), node.held()), (4, 4));
}

#[test]
fn strangers_records_use_no_reserve() {
    // The peer has no entry because the table is full, and it is not this node, whose records may use the reserve.
    let mut node = node(Limits { reserved_bytes: 4 * SIZE, ..Default::default() });
    for n in 0..10 {
        node.receive_over(LinkId::DYNAMIC | 99, n, bundle(10, n).facts(farlink_base::Facts::ADMIN));
    }
    assert_eq!(taken(&node), 6);
}

#[test]
fn repeated_memory_pressure_leaves_nothing() {
    let mut node = node(Limits::default());
    (0..3).for_each(|n| node.receive_over(0, n, bundle(2, n)));
    let before = node.agent.counts();
    for _ in 0..5 {
        node.tell(Input::Pressure(Pressure::High));
        node.tell(Input::Pressure(Pressure::None));
    }
    assert_eq!(node.agent.counts(), before);
}

/// A node short of memory whose only bundle is on disk, and in memory while it is in use.
fn with_payload_in_use() -> Node {
    let mut node = Node::of(settings(), None, Script::flood(), Rule::default());
    node.commit = false;
    node.receive(1, bundle(2, 1));
    node.tell(Input::Pressure(Pressure::High));
    let mut on_disk = Payload::new();
    let len = node.sent()[0].bundle.payload.len();
    on_disk.push(Chunk::Stored { extent: Extent { record: 1, offset: 0 }, len });
    let bundle = BundleHandle(node.put()[0]);
    node.tell(Input::Store(store::Output::Stored { bundle, payload: Some(on_disk) }));
    assert_eq!((node.agent.resident(), node.agent.counts().on_disk), (len, 1));
    node
}

#[test]
fn stored_payload_leaves_memory_once_sent() {
    let mut node = with_payload_in_use();
    let sent = node.take_sent();
    let id = sent[0].id;
    drop(sent);
    node.confirm(id);
    assert_eq!((node.held(), node.agent.resident(), node.agent.counts().on_disk), (1, 0, 0));
}

#[test]
fn stored_payload_leaves_memory_after_failure() {
    let mut node = with_payload_in_use();
    let sent = node.take_sent();
    let id = sent[0].id;
    drop(sent);
    node.fail(id, Some(Refusal::NotAcceptable));
    assert_eq!((node.held(), node.agent.resident(), node.agent.counts().on_disk), (1, 0, 0));
}

#[test]
fn deleted_bundle_releases_its_memory() {
    let mut node = with_payload_in_use();
    let bundle = BundleHandle(node.put()[0]);
    node.admin(AdminInput::Cancel { bundle });
    assert_eq!((node.held(), node.agent.resident(), node.agent.counts().on_disk), (0, 0, 0));
}
