//! Links with an MTU: the encoded length of every transmission fits it. Bundles that must not be fragmented take
//! another link, or one event reports that no link remains (RFC 9171 section 5.8, RFC 7122 section 3.1).

use crate::support;

use crate::support::{Node, Rule, Script, Sent, Toy, link, request, settings};
use farlink_base::{DataVolume, EndpointId, Event, Facts, Instant, LinkId, Priority, Refusal, Rng};
use farlink_book::{CopyOffer, NextHop, RouteDecision};
use farlink_bpa::{Edge, LinkSettings, Settings};
use std::ops::Range;

/// Bytes around a payload and around a fragment's payload.
const AROUND: u64 = 41;
const AROUND_PIECE: u64 = 51;

fn with_mtu(n: u32, most: u64) -> LinkSettings {
    LinkSettings { largest: Some(DataVolume(most)), ..link(n) }
}
/// A node whose link to `ipn:2.0` takes at most `most` bytes.
fn taking(most: u64) -> Node {
    let links = vec![with_mtu(0, most), link(1)];
    Node::with(Settings { links, capacity_bytes: 1 << 30, ..settings() }, None)
}
fn size(sent: &Sent) -> u64 {
    Toy.size(&sent.bundle, &sent.hop, sent.cut.clone())
}
fn uncut(to: EndpointId, bytes: u64) -> farlink_bpa::app::SendRequest {
    let payload = farlink_base::Payload::fill(1, bytes);
    farlink_bpa::app::SendRequest { facts: Facts(Facts::NO_FRAGMENT), payload, ..request(to, Priority::Normal) }
}
fn two() -> EndpointId {
    EndpointId::ipn(2, 1)
}
/// Whether these ranges cover `len` bytes, each once.
fn each_once(mut ranges: Vec<Range<u64>>, len: u64) -> bool {
    ranges.sort_by_key(|range| range.start);
    let mut end = 0;
    ranges.into_iter().all(|range| core::mem::replace(&mut end, range.end) == range.start) && end == len
}
/// Number of events about bundles that do not fit.
fn complaints(node: &Node) -> usize {
    let complaint = |e: &Event| matches!(e, Event::Refused { link: Some(_), key: Some(_), reason: Refusal::TooLarge });
    node.events().iter().filter(|event| complaint(event)).count()
}

#[test]
fn bundle_above_mtu_leaves_in_two() {
    let mut node = taking(1400);
    node.send_bytes(two(), 1400 - AROUND);
    let sent = node.take_sent();
    assert_eq!((sent.len(), &sent[0].cut, size(&sent[0])), (1, &None, 1400));
    node.confirm(sent[0].id);
    node.send_bytes(two(), 1401 - AROUND);
    let sent = node.take_sent();
    let lengths: Vec<u64> = sent.iter().map(size).collect();
    assert_eq!(lengths, [1400, 1360 - 1349 + AROUND_PIECE]);
    assert_eq!(node.held(), 1);
    sent.iter().for_each(|sent| node.confirm(sent.id));
    assert_eq!((node.held(), node.agent.counts().cuts), (0, 0));
}

#[test]
fn fragments_fill_mtu_and_failed_ones_repeat() {
    for (seed, most) in (0..).zip([64, 100, 1400, 4000, 65_507]) {
        let (mut node, mut rng) = (taking(most), Rng::new(seed));
        let payload = 40 * most + 17;
        node.send_bytes(two(), payload);
        let (mut open, mut got) = (Vec::new(), Vec::new());
        for _ in 0..20_000 {
            open.extend(node.take_sent());
            if open.is_empty() {
                if node.held() == 0 {
                    break;
                }
                node.wait_ms(500);
                continue;
            }
            let sent: Sent = open.swap_remove(rng.below(open.len() as u64) as usize);
            assert!(size(&sent) <= most, "{} B over a link that takes {most} B", size(&sent));
            if rng.chance(0.1) {
                node.fail(sent.id, None);
            } else {
                got.push(sent.cut.unwrap());
                node.confirm(sent.id);
            }
        }
        assert!(each_once(got, payload), "{most}");
        assert_eq!((node.held(), node.agent.counts().cuts, complaints(&node)), (0, 0, 0));
    }
}

#[test]
fn forwarded_fragment_is_fragmented_again() {
    let mut node = taking(300);
    let whole = support::Bundle::new(EndpointId::ipn(3, 5), two(), 1).payload(farlink_base::Payload::fill(2, 5000));
    node.receive_over(1, 1, whole.piece(1000..2000));
    let sent = node.take_sent();
    assert!(sent.len() > 3 && sent.iter().all(|sent| size(sent) <= 300));
    assert!(each_once(sent.into_iter().map(|sent| sent.cut.unwrap()).collect(), 1000));
}

#[test]
fn unfragmentable_bundle_takes_wider_link() {
    let spare = LinkSettings { peer: EndpointId::ipn(2, 0), name: "spare".into(), ..link(5) };
    let mut node = Node::with(Settings { links: vec![with_mtu(0, 1400), link(1), spare], ..settings() }, None);
    node.ready(5, true);
    node.take_sent();
    node.ask(uncut(two(), 5000));
    node.ask(uncut(two(), 100));
    let sent = node.take_sent();
    assert_eq!(
        sent.iter().map(|sent| (sent.link, sent.len())).collect::<Vec<_>>(),
        [(LinkId(5), 5000), (LinkId(0), 100)]
    );
    assert_eq!(complaints(&node), 0);
}

#[test]
fn unfragmentable_bundle_waits_with_one_event() {
    // The long bundle that must not be cut must not hold up shorter ones, and link changes must not repeat its event.
    let mut node = taking(1400);
    node.ask(uncut(two(), 5000));
    node.send_bytes(two(), 100);
    assert_eq!(node.sent().iter().map(Sent::len).collect::<Vec<_>>(), [100], "others do not wait behind it");
    assert_eq!(node.waits_for(), "a link towards ipn:2.0 that takes a bundle of its length");
    node.carrier(0, false);
    node.carrier(0, true);
    node.wait_ms(20_000);
    assert_eq!((complaints(&node), node.agent.status(node.now).links[0].queued), (1, 0));
    node.add_link(&LinkSettings { peer: EndpointId::ipn(2, 0), name: "wide".into(), ..link(5) });
    let sent = node.sent();
    assert_eq!((sent.last().unwrap().link, sent.last().unwrap().len()), (LinkId(5), 5000));
    let open: Vec<_> = node.take_sent();
    open.iter().for_each(|sent| node.confirm(sent.id));
    assert_eq!((node.held(), node.agent.counts().waits), (0, 0));
}

#[test]
fn long_head_yields_no_tiny_fragments() {
    // A fragment carries payload of at least a quarter of its overhead; smaller ones would be mostly heads.
    let mut node = taking(AROUND_PIECE + 5);
    node.send_bytes(two(), 1000);
    assert_eq!((node.sent().len(), complaints(&node), node.held()), (0, 1, 1));
    node.wait_ms(61_000);
    assert_eq!((node.held(), node.agent.counts().waits), (0, 0), "it expires like others");
    let mut node = taking(AROUND_PIECE + 13);
    node.send_bytes(two(), 1000);
    assert_eq!(node.sent().len(), 77);
}

#[test]
fn narrow_route_asks_router_again() {
    let leg = |link| RouteDecision::One(NextHop { link: LinkId(link), not_before: Instant::ZERO, until: Instant::MAX });
    let route = move |_: &farlink_book::Node<'_>, _: &farlink_book::Held, tried: &[farlink_base::PeerId]| {
        leg(u32::from(!tried.is_empty()))
    };
    let script = Script { route: Box::new(route), ..Script::default() };
    let links = vec![with_mtu(0, 1400), link(1)];
    let mut node = Node::of(Settings { links, ..settings() }, None, script, Rule::default());
    node.ask(uncut(EndpointId::ipn(9, 1), 5000));
    node.ask(uncut(EndpointId::ipn(9, 1), 500));
    assert_eq!(node.sent().iter().map(|sent| (sent.link.0, sent.len())).collect::<Vec<_>>(), [(1, 5000), (0, 500)]);
    assert_eq!(complaints(&node), 0);
    // Without another link the bundle must wait, and the operator must learn why.
    let script = Script { route: Box::new(move |_, _, _| leg(0)), ..Script::default() };
    let mut node = Node::of(Settings { links: vec![with_mtu(0, 1400)], ..settings() }, None, script, Rule::default());
    node.ask(uncut(EndpointId::ipn(9, 1), 5000));
    node.wait_ms(10_000);
    assert_eq!((node.sent().len(), complaints(&node)), (0, 1));
}

#[test]
fn long_bundle_fragmented_in_its_turn() {
    let mut node = taking(1400);
    node.ready(0, false);
    node.send_bytes(two(), 3000);
    (0..5).for_each(|_| node.send_bytes(two(), 100));
    node.ready(0, true);
    assert!(node.sent()[0].cut.is_some(), "it came first");
}

#[test]
fn fragments_charge_rate_and_contact() {
    let mut node = Node::with(
        Settings { links: vec![with_mtu(0, 1000), link(1)], ..settings() },
        Some(support::plan(0, 1, 80_000)),
    );
    node.send_bytes(two(), 50_000);
    node.wait_ms(2000);
    let sent = node.take_sent();
    let total: u64 = sent.iter().map(size).sum();
    assert!((9000..=10_000).contains(&total), "a second at 10 kB/s: {total} B");
    assert!(sent.iter().all(|sent| size(sent) <= 1000));
}

#[test]
fn copies_unfragmented_handovers_fragmented() {
    // A copy is not fragmented, because other holders of the bundle could not supply a missing fragment. A handover
    // sends all fragments.
    let wants = |keep: bool| -> Script {
        let want =
            move |held: &farlink_book::Held| if keep { CopyOffer::copy(held, 0) } else { CopyOffer::give(held, 0) };
        Script { wants: Box::new(move |_, _, held| Some(want(held))), ..Script::flood() }
    };
    for keep in [true, false] {
        let links = vec![with_mtu(0, 1400)];
        let mut node = Node::of(Settings { links, routes: vec![], ..settings() }, None, wants(keep), Rule::default());
        node.send_bytes(EndpointId::ipn(9, 1), 3000);
        node.send_bytes(EndpointId::ipn(9, 1), 300);
        let mut data: Vec<Sent> = Vec::new();
        for _ in 0..10 {
            node.wait_ms(100);
            let sent = node.take_sent();
            sent.iter().for_each(|sent| node.confirm(sent.id));
            data.extend(sent.into_iter().filter(|sent| sent.bundle.payload.len() >= 300));
        }
        assert!(data.iter().all(|sent| size(sent) <= 1400), "{data:?}");
        assert!(data.iter().any(|sent| sent.len() == 300));
        let pieces: Vec<Range<u64>> = data.into_iter().filter_map(|sent| sent.cut).collect();
        assert_eq!((pieces.is_empty(), node.held()), (keep, if keep { 2 } else { 0 }));
        assert!(keep || each_once(pieces, 3000), "all of it is given away");
    }
}

#[test]
fn oversized_hello_is_not_sent() {
    for most in [45, 65] {
        let links = vec![with_mtu(0, most), link(1)];
        let mut node = Node::of(Settings { links, ..settings() }, None, Script::epidemic(), Rule::default());
        for _ in 0..10 {
            node.carrier(0, false);
            node.carrier(0, true);
        }
        node.wait_ms(60_000);
        assert!(node.sent().iter().all(|sent| sent.link == LinkId(1)), "and nothing goes round for ever");
    }
}

#[test]
fn oversized_copy_dropped_and_holds_nothing() {
    let leg = |link| NextHop { link: LinkId(link), not_before: Instant::ZERO, until: Instant::MAX };
    let route = move |_: &farlink_book::Node<'_>, _: &farlink_book::Held, _: &[farlink_base::PeerId]| {
        RouteDecision::All(vec![leg(1), leg(0)])
    };
    let script = Script { route: Box::new(route), ..Script::default() };
    let links = vec![with_mtu(0, 1400), link(1)];
    let mut node = Node::of(Settings { links, ..settings() }, None, script, Rule::default());
    node.send_bytes(EndpointId::ipn(8, 1), 5000);
    let sent = node.take_sent();
    assert_eq!(sent.iter().map(|sent| (sent.link.0, sent.len())).collect::<Vec<_>>(), [(1, 5000)]);
    node.confirm(sent[0].id);
    assert_eq!(node.held(), 0, "nothing waits in the queue of the other");
}

#[test]
fn router_asked_again_without_static_route() {
    let leg = |link| RouteDecision::One(NextHop { link: LinkId(link), not_before: Instant::ZERO, until: Instant::MAX });
    let route = move |_: &farlink_book::Node<'_>, _: &farlink_book::Held, tried: &[farlink_base::PeerId]| {
        leg(u32::from(!tried.is_empty()))
    };
    let script = Script { route: Box::new(route), ..Script::default() };
    let links = vec![with_mtu(0, 1400), link(1)];
    let mut node = Node::of(Settings { links, routes: vec![], ..settings() }, None, script, Rule::default());
    node.ask(uncut(EndpointId::ipn(8, 1), 5000));
    assert_eq!(node.sent().iter().map(|sent| sent.link.0).collect::<Vec<_>>(), [1]);
}

#[test]
fn oversized_bundle_emits_one_event() {
    let mut node = taking(1400);
    node.ask(uncut(two(), 5000));
    for n in 6..10 {
        // A new link to the next hop of a static route reroutes all waiting bundles.
        node.add_link(&LinkSettings { peer: EndpointId::ipn(3, 0), name: format!("more{n}"), ..link(n) });
    }
    assert_eq!((complaints(&node), node.sent().len()), (1, 0));
}

#[test]
fn head_above_mtu_ends_routing() {
    let leg = NextHop { link: LinkId(0), not_before: Instant::ZERO, until: Instant::MAX };
    let script = Script {
        uses_plan: true,
        route: Box::new(|_, _, _| RouteDecision::Wait(Instant::MAX)),
        part: Box::new(move |_, _| Some(leg)),
        ..Script::default()
    };
    let links = || vec![with_mtu(0, AROUND_PIECE + 5)];
    let mut node = Node::of(Settings { links: links(), ..settings() }, None, script, Rule::default());
    node.send_bytes(two(), 10_000);
    assert_eq!(node.sent().len(), 0);
    let plan = support::plan(0, 1, 64_000);
    let mut node = Node::with(Settings { links: links(), ..settings() }, Some(plan));
    node.send_bytes(two(), 10_000);
    node.wait_ms(2000);
    assert_eq!(node.sent().len(), 0);
}

#[test]
fn bundle_carried_for_mtu_emits_event() {
    let script = Script {
        route: Box::new(|node, _, tried| match tried {
            [] => RouteDecision::One(NextHop { link: LinkId(0), not_before: node.now, until: Instant::MAX }),
            _ => RouteDecision::Carry,
        }),
        ..Script::default()
    };
    let links = vec![with_mtu(0, 1400), link(1)];
    let mut node = Node::of(Settings { links, ..settings() }, None, script, Rule::default());
    node.ask(uncut(two(), 5000));
    assert_eq!((node.sent().len(), complaints(&node)), (0, 1));
    assert!(node.waits_for().contains("takes a bundle of its length"), "{}", node.waits_for());
}

#[test]
fn oversized_carried_bundle_refused_once() {
    let links = vec![with_mtu(0, 1400)];
    let mut node = Node::of(Settings { links, routes: vec![], ..settings() }, None, Script::flood(), Rule::default());
    node.ask(uncut(EndpointId::ipn(9, 1), 5000));
    assert_eq!(complaints(&node), 1);
    for _ in 0..3 {
        node.carrier(0, false);
        node.carrier(0, true);
    }
    assert_eq!((complaints(&node), node.held() > 0), (1, true));
}

#[test]
fn hello_above_mtu_is_dropped() {
    let links = vec![with_mtu(0, 45)];
    let mut node = Node::of(Settings { links, ..settings() }, None, Script::epidemic(), Rule::default());
    node.carrier(0, false);
    node.carrier(0, true);
    assert_eq!((node.held(), node.sent().len()), (0, 0));
}

#[test]
fn copy_above_mtu_leaves_no_timer() {
    let route = move |node: &farlink_book::Node<'_>, _: &farlink_book::Held, _: &[farlink_base::PeerId]| {
        let until = node.now + farlink_base::Duration::from_secs(10);
        let leg = |link| NextHop { link: LinkId(link), not_before: Instant::ZERO, until };
        RouteDecision::All(vec![leg(1), leg(0)])
    };
    let script = Script { route: Box::new(route), ..Script::default() };
    let links = vec![with_mtu(0, 1400), link(1)];
    let mut node = Node::of(Settings { links, ..settings() }, None, script, Rule::default());
    for _ in 0..5 {
        node.send_bytes(EndpointId::ipn(8, 1), 5000);
        node.wait_ms(10);
    }
    assert_eq!((node.sent_over(0).len(), node.sent_over(1).len()), (0, 5));
    assert_eq!(node.agent.counts().timers, 0);
}

#[test]
fn oversized_last_copy_ends_bundle() {
    // The bundle itself, which may be fragmented, leaves before the copy for the narrow link has its turn.
    let leg = |link| NextHop { link: LinkId(link), not_before: Instant::ZERO, until: Instant::MAX };
    let script =
        Script { route: Box::new(move |_, _, _| RouteDecision::All(vec![leg(1), leg(0)])), ..Script::default() };
    let links = vec![with_mtu(0, 1400), link(1)];
    let mut node = Node::of(Settings { links, ..settings() }, None, script, Rule::default());
    node.ready(0, false);
    node.send_bytes(EndpointId::ipn(8, 1), 5000);
    let sent = node.take_sent();
    assert_eq!(sent.iter().map(|sent| (sent.link.0, sent.len())).collect::<Vec<_>>(), [(1, 5000)]);
    node.confirm(sent[0].id);
    assert_eq!(node.held(), 1);
    node.ready(0, true);
    assert_eq!((node.held(), node.sent().len()), (0, 0));
}
