//! Fragmentation of forwarded bundles (RFC 9171 section 5.8).

use crate::support;

use crate::support::{Bundle, Node, Script, contacts, plan, settings};
use farlink_base::{DeleteReason, Duration, EndpointId, Event, Instant, LinkId, Priority, Refusal, Rng};
use farlink_book::{NextHop, RouteDecision};
use farlink_bpa::Settings;
use std::ops::Range;

/// Whether these ranges cover `len` bytes, each once.
fn each_once(mut ranges: Vec<Range<u64>>, len: u64) -> bool {
    ranges.sort_by_key(|range| range.start);
    let mut end = 0;
    ranges.into_iter().all(|range| core::mem::replace(&mut end, range.end) == range.start) && end == len
}

#[test]
fn bundle_above_free_space_is_fragmented() {
    let mut node = Node::new();
    node.send_bytes(EndpointId::ipn(2, 1), 50_000);
    let (mut confirmed, mut answered) = (0, 0);
    while answered < node.sent().len() {
        let sent = node.sent()[answered].clone();
        answered += 1;
        if sent.len() > 16_000 {
            node.fail(sent.id, Some(Refusal::TooLarge));
        } else {
            confirmed += sent.len();
            node.confirm(sent.id);
        }
    }
    assert_eq!(confirmed, 50_000, "every byte, in pieces the neighbour takes");
    assert_eq!(node.held(), 0);
}

#[test]
fn refused_bundle_halves_down_to_head_length() {
    // Each refusal as too large halves the piece until the neighbour takes it.
    for (limit, payload) in [(8000, 8100), (8000, 8191), (4000, 50_000), (300, 8191), (50, 100)] {
        let mut node = Node::new();
        node.send_bytes(EndpointId::ipn(2, 1), payload);
        let (mut confirmed, mut answered) = (0, 0);
        while answered < node.sent().len() {
            let sent = node.sent()[answered].clone();
            answered += 1;
            if sent.len() > limit {
                node.fail(sent.id, Some(Refusal::TooLarge));
            } else {
                confirmed += sent.len();
                node.confirm(sent.id);
            }
        }
        assert_eq!((confirmed, node.held()), (payload, 0), "{payload} B to one that takes {limit} B");
    }
}

#[test]
fn smallest_piece_waits_and_retries() {
    // One byte cannot be split; an immediate retry would loop.
    let mut node = Node::new();
    node.send_bytes(EndpointId::ipn(2, 1), 1);
    node.fail(node.sent()[0].id, Some(Refusal::TooLarge));
    assert_eq!((node.sent().len(), node.held()), (1, 1), "not at once for ever");
    node.wait_ms(1500);
    assert_eq!(node.sent().len(), 2);
}

#[test]
fn pieces_of_accepted_bundle_survive_full_disk() {
    let mut node = Node::new();
    node.send_bytes(EndpointId::ipn(2, 1), 20_000);
    node.commit = false;
    node.fail(node.sent()[0].id, Some(Refusal::TooLarge));
    assert_eq!(node.put(), [1], "pieces are no records of their own: there is nothing to refuse");
    let sent: u64 = node.sent()[1..].iter().map(|s| s.len()).sum();
    assert_eq!((sent, node.held()), (20_000, 1), "still here until the neighbour has them");
}

#[test]
fn node_with_one_bundles_room_fragments() {
    // Pieces share the payload of the bundle, so fragmentation needs no room.
    let mut roomy = Node::new();
    roomy.send_bytes(EndpointId::ipn(2, 1), 20_000);
    let capacity_bytes = roomy.agent.status(roomy.now).bytes;
    let mut node = Node::with(Settings { capacity_bytes, ..settings() }, None);
    node.send_bytes(EndpointId::ipn(2, 1), 20_000);
    node.send_bytes(EndpointId::ipn(2, 1), 1);
    assert_eq!(node.results(), [true, false], "there is room for nothing more");
    node.fail(node.sent()[0].id, Some(Refusal::TooLarge));
    let pieces = node.sent().split_off(1);
    assert!(pieces.len() > 1);
    for piece in &pieces {
        assert_eq!((node.held(), node.forgotten()), (1, vec![]), "it stays until the neighbour has all of it");
        node.confirm(piece.id);
    }
    assert_eq!((node.held(), node.deleted()), (0, vec![DeleteReason::Done]));
}

#[test]
fn full_store_settles_with_last_piece() {
    // The store refused, so the pending result depends on the last transmission.
    let mut node = Node::new();
    node.commit = false;
    node.send_bytes(EndpointId::ipn(2, 1), 20_000);
    node.fail(node.sent()[0].id, Some(Refusal::TooLarge));
    node.store_refuses(1);
    let pieces = node.sent().split_off(1);
    for piece in &pieces {
        assert_eq!(node.results(), []);
        node.confirm(piece.id);
    }
    assert_eq!((node.results(), node.held()), (vec![true], 0));
}

/// Keeps 9171-5.8-3.
#[test]
fn each_byte_sent_once_failures_repeat() {
    for seed in 0..20 {
        let mut rng = Rng::new(seed);
        let mut node = Node::new();
        node.send_bytes(EndpointId::ipn(2, 1), 200_000);
        let (mut open, mut got) = (Vec::new(), Vec::new());
        for _ in 0..5000 {
            open.extend(node.take_sent());
            if open.is_empty() {
                if node.held() == 0 {
                    break;
                }
                node.wait_ms(500);
                continue;
            }
            let sent = open.swap_remove(rng.below(open.len() as u64) as usize);
            match rng.below(4) {
                _ if sent.len() > 30_000 => node.fail(sent.id, Some(Refusal::TooLarge)),
                0 => node.fail(sent.id, None),
                1 if rng.chance(0.2) => node.fail(sent.id, Some(Refusal::NoResources)),
                _ => {
                    got.push(sent.cut.unwrap());
                    node.confirm(sent.id);
                }
            }
        }
        assert!(each_once(got.clone(), 200_000), "seed {seed}: {got:?}");
        assert_eq!((node.held(), node.agent.counts().cuts), (0, 0));
    }
}

#[test]
fn bundle_stays_until_last_piece_confirmed() {
    let mut node = Node::with(Settings { capacity_bytes: 1 << 30, ..settings() }, None);
    node.send_bytes(EndpointId::ipn(2, 1), 8 << 20);
    let mut pieces = node.take_sent();
    while pieces.iter().any(|piece| piece.len() > 8192) {
        pieces.drain(..).for_each(|piece| node.fail(piece.id, Some(Refusal::TooLarge)));
        pieces = node.take_sent();
    }
    assert!(pieces.len() > 1000);
    for piece in pieces {
        assert_eq!(node.held(), 1, "its pieces are under way");
        node.confirm(piece.id);
    }
    assert_eq!((node.held(), node.deleted()), (0, vec![DeleteReason::Done]));
}

#[test]
fn contact_end_filled_rest_in_next() {
    // The first contact has room for about 10,000 of the 15,000 bytes.
    let mut two = plan(0, 1, 80_000);
    two.contacts.extend(contacts(2, 20, 21, 80_000));
    let mut node = Node::with(settings(), Some(two));
    node.send_bytes(EndpointId::ipn(2, 1), 15_000);
    let first = node.take_sent();
    assert!(first.len() == 1 && first[0].len() > 9800, "{first:?}");
    node.confirm(first[0].id);
    node.wait(Duration::from_millis(19_900));
    assert_eq!((node.sent().len(), node.held()), (0, 1));
    node.wait(Duration::from_millis(200));
    let second = node.take_sent();
    let ranges = first.iter().chain(&second).filter_map(|piece| piece.cut.clone()).collect();
    assert!(each_once(ranges, 15_000), "{first:?} {second:?}");
    node.confirm(second[0].id);
    assert_eq!(node.held(), 0);
}

#[test]
fn bundle_above_contact_volume_is_split() {
    let leg = NextHop { link: LinkId(0), not_before: Instant::ZERO, until: Instant::MAX };
    let part = move |_: &farlink_book::Node<'_>, size| (size <= 15_000).then_some(leg);
    let script = Script {
        uses_plan: true,
        route: Box::new(|_, _, _| RouteDecision::Wait(Instant::MAX)),
        part: Box::new(part),
        ..Script::default()
    };
    let mut node = Node::of(settings(), Some(plan(0, 100, 80_000_000)), script, support::Rule::default());
    for (payload, ranges) in [(24_000, [0..12_000, 12_000..24_000]), (20_001, [0..10_001, 10_001..20_001])] {
        node.send_bytes(EndpointId::ipn(2, 1), payload);
        let mut cuts = Vec::new();
        for sent in [node.take_sent(), node.take_sent()].concat() {
            cuts.push(sent.cut.clone().unwrap());
            node.confirm(sent.id);
        }
        cuts.extend(node.take_sent().into_iter().filter_map(|sent| sent.cut));
        assert_eq!(cuts, ranges, "of {payload}");
    }
}

#[test]
fn refused_next_hop_gets_no_fragment() {
    // The congestion control forbids the only next hop, so no half of the bundle may leave there, either.
    let leg = NextHop { link: LinkId(0), not_before: Instant::ZERO, until: Instant::MAX };
    for (allowed, count) in [(true, 1), (false, 0)] {
        let script = Script {
            uses_plan: true,
            route: Box::new(move |_, _, _| RouteDecision::One(leg)),
            part: Box::new(move |_, _| Some(leg)),
            ..Script::default()
        };
        let allow = move |_: &_, _: &_, want: Option<farlink_book::CopyOffer>| want.filter(|_| allowed);
        let rule = support::Rule { allow: Box::new(allow), ..support::Rule::default() };
        let mut node = Node::of(settings(), Some(plan(0, 100, 80_000_000)), script, rule);
        node.send_bytes(EndpointId::ipn(5, 1), 24_000);
        assert_eq!((node.sent().len(), node.held()), (count, 1));
    }
}

/// Keeps 5050-5.8-1.
#[test]
fn unfragmentable_bundle_stays_whole() {
    // Anonymous bundles must not be fragmented (RFC 9171 section 4.2.3).
    let mut node = Node::new();
    let anonymous = Bundle::new(EndpointId::Null, EndpointId::ipn(3, 1), 1);
    let whole = Bundle::new(EndpointId::ipn(2, 5), EndpointId::ipn(3, 1), 2).facts(farlink_base::Facts::NO_FRAGMENT);
    for bundle in [anonymous, whole] {
        node.receive(1, bundle.payload(farlink_base::Payload::fill(0, 50_000)));
        let id = node.take_sent()[0].id;
        node.fail(id, Some(Refusal::TooLarge));
        node.wait_ms(1500);
        let again = node.take_sent();
        assert!(again.len() == 1 && again[0].cut.is_none(), "whole, later");
        node.confirm(again[0].id);
    }
}

#[test]
fn anonymous_bundle_fills_no_contact_end() {
    let mut node = Node::with(settings(), Some(plan(0, 1, 80_000)));
    let mut wanted = support::request(EndpointId::ipn(2, 1), Priority::Normal);
    (wanted.source, wanted.payload) = (EndpointId::Null, farlink_base::Payload::fill(0, 50_000));
    node.ask(wanted);
    node.wait(Duration::from_secs(2));
    assert!(node.sent().is_empty());
}

#[test]
fn carried_bundle_fragmented_for_destination() {
    let mut node = Node::routed(Script::flood());
    node.take_sent();
    node.send_bytes(EndpointId::ipn(2, 1), 50_000);
    let (mut got, mut rounds) = (Vec::new(), 0);
    while node.agent.bundles(node.now, farlink_base::BundleHandle(0), 9).iter().any(|row| row.payload == 50_000)
        && rounds < 50
    {
        rounds += 1;
        for sent in node.take_sent() {
            if sent.link.0 == 1 {
                node.fail(sent.id, Some(Refusal::NoResources));
            } else if sent.len() > 16_000 {
                node.fail(sent.id, Some(Refusal::TooLarge));
            } else if !sent.bundle.is_administrative() {
                got.push(sent.cut.clone().unwrap());
                node.confirm(sent.id);
            }
        }
        node.wait_ms(100);
    }
    assert!(each_once(got.clone(), 50_000), "{got:?}");
}

#[test]
fn pieces_exceed_their_head() {
    // A piece shorter than its own head is not worth its transmission.
    let mut node = Node::new();
    node.send_bytes(EndpointId::ipn(2, 1), 1000);
    for answered in 0..100 {
        let Some(sent) = node.sent().get(answered).cloned() else { break };
        assert!(sent.len() >= sent.bundle.overhead(), "{} B", sent.len());
        node.fail(sent.id, Some(Refusal::TooLarge));
    }
    assert_eq!((node.sent().last().unwrap().len(), node.held()), (62, 1), "it waits");
}

#[test]
fn failed_halves_cause_no_backoff() {
    let mut node = Node::new();
    node.send_bytes(EndpointId::ipn(2, 1), 200_000);
    for _ in 0..5 {
        for sent in node.take_sent() {
            node.fail(sent.id, Some(Refusal::TooLarge));
        }
    }
    let piece = node.take_sent()[0].clone();
    node.fail(piece.id, None);
    assert!(node.sent().iter().any(|s| s.cut == piece.cut), "one lost session is not a refusal");
}

#[test]
fn each_piece_emits_fragmented_event() {
    let mut node = Node::new();
    node.send_bytes(EndpointId::ipn(2, 1), 20_000);
    node.fail(node.sent()[0].id, Some(Refusal::TooLarge));
    let pieces: Vec<(u64, u64)> = node
        .events()
        .iter()
        .filter_map(|e| if let Event::Fragmented { offset, length, .. } = e { Some((*offset, *length)) } else { None })
        .collect();
    assert_eq!(pieces, [(0, 10_000), (10_000, 10_000)]);
}
