//! Interrupted transfers: acknowledged bytes are not sent again, and promised bytes of an arrival are kept.

use crate::support;

use crate::support::{Bundle, Node, settings, token};
use farlink_base::{DeleteReason, Duration, EndpointId, Event, Facts, LinkId, Malformed, Payload, Refusal};
use farlink_bpa::{Input, Limits, LinkSettings, Origin, Output, Settings};
use std::ops::Range;

const LEN: u64 = 10_000;
/// Offset of the payload in a test bundle on the wire: the length of the head in the toy format, bytes.
const AT: u64 = 40;

fn bundle(sequence: u64) -> Bundle {
    Bundle::new(EndpointId::ipn(2, 5), EndpointId::ipn(9, 1), sequence).payload(Payload::fill(1, LEN))
}
/// Spills payload bytes `range` of the arrival with this ticket to disk.
fn keep(node: &mut Node, ticket: u64, whole: &Bundle, range: Range<u64>) {
    let (bundle, hop) = whole.piece(range.clone()).parts();
    let start = if range.start == 0 { 0 } else { AT + range.start };
    let promises = start..AT + range.end;
    node.tell(Input::Piece { link: LinkId(0), token: token(ticket), bundle, hop, promises });
}
/// Tickets and promised bytes of all `Output::Kept`, in order.
fn kept(node: &Node) -> Vec<(u64, u64)> {
    let pick = |o: &Output| if let Output::Kept { token, bytes } = o { Some((token.ticket.0, *bytes)) } else { None };
    node.said.iter().filter_map(pick).collect()
}
fn abandon(node: &mut Node, ticket: u64) {
    node.tell(Input::Abandoned { token: token(ticket) });
}

#[test]
fn acknowledged_part_is_not_resent() {
    // The peer keeps acknowledged bytes (with TCPCL: XFER_ACK, RFC 9174 section 5.2.3), so the rest leaves as a
    // fragment.
    let mut node = Node::new();
    node.send_bytes(EndpointId::ipn(2, 1), LEN);
    let (mut confirmed, mut broke) = (0, 0);
    while let Some(sent) = node.take_sent().first().cloned() {
        if broke == 3 {
            confirmed += sent.len();
            node.confirm(sent.id);
            continue;
        }
        broke += 1;
        // A fragment's primary block has two more fields (RFC 9171 section 4.3.1).
        let around = sent.bundle.overhead() + if sent.cut.is_some() { 10 } else { 0 };
        assert_eq!(sent.len(), LEN - confirmed);
        node.tell(Input::SentInPart { id: sent.id, bytes: around + 2000 });
        node.fail(sent.id, None);
        confirmed += 2000;
    }
    assert_eq!(confirmed, LEN, "each byte once");
    assert_eq!(node.held(), 0);
}

#[test]
fn partial_acknowledgment_ignored_where_cutting_forbidden() {
    // The first three counts acknowledge no payload byte; the last two bundles must not be cut, because one forbids
    // fragmentation and the other requests custody.
    for (bytes, facts) in [(0, 0), (30, 0), (AT, 0), (5000, Facts::NO_FRAGMENT), (5000, Facts::CUSTODY)] {
        let mut node = Node::new();
        let to = EndpointId::ipn(3, 1);
        let bundle = Bundle::new(EndpointId::ipn(2, 5), to, 1).payload(Payload::fill(1, LEN)).facts(facts);
        node.receive(1, bundle);
        let id = node.take_sent()[0].id;
        node.tell(Input::SentInPart { id, bytes });
        node.fail(id, None);
        let again = node.take_sent();
        assert_eq!((again.len(), again[0].len(), again[0].cut.clone()), (1, LEN, None), "{bytes} B, facts {facts}");
    }
}

#[test]
fn breaks_with_progress_cause_no_backoff() {
    // While bytes get through, a link that breaks repeatedly does not count as a refusal by the neighbour.
    let mut node = Node::new();
    node.send_bytes(EndpointId::ipn(2, 1), 1_000_000);
    for _ in 0..50 {
        let sent = node.take_sent();
        assert_eq!(sent.len(), 1, "it goes at once");
        node.tell(Input::SentInPart { id: sent[0].id, bytes: 5000 });
        node.fail(sent[0].id, None);
    }
    assert!(node.sent()[0].len() < 1_000_000 - 50 * 4900);
}

#[test]
fn promise_covers_durable_contiguous_bytes_only() {
    // The peer deletes bytes that were promised. So only committed bytes may be promised, and only up to the first gap.
    let mut node = Node::new();
    node.commit = false;
    node.begins(0, 1, bundle(1));
    keep(&mut node, 1, &bundle(1), 0..2000);
    keep(&mut node, 1, &bundle(1), 2000..5000);
    keep(&mut node, 1, &bundle(1), 5000..8000);
    assert_eq!((node.put().len(), kept(&node)), (3, vec![]));
    let put = node.put();
    node.stored(put[0]);
    assert_eq!(kept(&node), [(1, AT + 2000)]);
    node.store_refuses(put[1]);
    node.stored(put[2]);
    assert_eq!(kept(&node), [(1, AT + 2000)], "what lies before it is not kept");
    assert!(node.sent().is_empty() && node.verdicts().is_empty(), "the rest may still come");
    assert_eq!(node.why(put[0]), "the rest of it, which is arriving");
    abandon(&mut node, 1);
    let ranges: Vec<(u64, u64)> =
        node.sent().iter().map(|sent| (sent.bundle.fragment().unwrap().offset, sent.len())).collect();
    assert_eq!(ranges, [(0, 2000), (5000, 3000)], "they are fragments like others");
}

#[test]
fn stored_whole_replaces_its_pieces() {
    // The neighbour was promised the pieces, so they stay until the whole bundle is durable.
    for refused in [false, true] {
        let mut node = Node::new();
        node.carrier(1, false);
        node.begins(0, 1, bundle(1));
        keep(&mut node, 1, &bundle(1), 0..4000);
        keep(&mut node, 1, &bundle(1), 4000..8000);
        assert_eq!((kept(&node), node.held()), (vec![(1, AT + 4000), (1, AT + 8000)], 2));
        node.commit = false;
        node.receive(1, bundle(1));
        assert_eq!((node.held(), node.verdicts()), (3, vec![]), "they stay until then");
        let whole = *node.put().last().unwrap();
        if refused {
            node.store_refuses(whole);
            assert_eq!((node.held(), node.verdicts()), (2, vec![(1, Err(Refusal::NoResources))]), "what is promised");
        } else {
            node.stored(whole);
            assert_eq!((node.held(), node.verdicts()), (1, vec![(1, Ok(()))]));
        }
        node.carrier(1, true);
        assert_eq!(node.sent().len(), if refused { 2 } else { 1 });
    }
}

#[test]
fn discovered_neighbours_pieces_count_as_strangers() {
    // Discovery proves no name, so the pieces are charged to the share of unauthenticated neighbours.
    let mut node = Node::new();
    let found = LinkSettings { peer: EndpointId::ipn(30, 0), name: "found".into(), ..support::link(9) };
    assert!(node.agent.add_link_of(node.now, &found, Origin::Discovered, &mut node.edge, &mut node.said));
    let whole = bundle(1);
    node.begins(9, 1, whole.clone());
    let (piece, hop) = whole.piece(0..4000).parts();
    node.tell(Input::Piece { link: LinkId(9), token: token(1), bundle: piece, hop, promises: 0..AT + 4000 });
    abandon(&mut node, 1);
    assert_eq!((node.held(), node.agent.status(node.now).strangers.0), (1, 1));
}

#[test]
fn pieces_take_no_room_twice() {
    // When its head arrives, room is reserved for the whole bundle; its pieces use that reservation.
    let limits = Limits { source_bytes: LEN + 200, ..Limits::default() };
    let settings = Settings { capacity_bytes: LEN + 300, ..crate::support::bounded(limits) };
    let mut node = Node::with(settings, None);
    node.carrier(1, false);
    node.begins(0, 1, bundle(1));
    keep(&mut node, 1, &bundle(1), 0..4000);
    keep(&mut node, 1, &bundle(1), 4000..9000);
    node.receive(2, bundle(2));
    assert_eq!(node.verdicts(), [(2, Err(Refusal::NoResources))], "the room is promised");
    node.receive(1, bundle(1));
    assert_eq!((node.verdicts().last(), node.held()), (Some(&(1, Ok(()))), 1));
    // Pieces that stay after an interrupted transfer take room in the store, too.
    let mut node = Node::with(Settings { capacity_bytes: LEN + 300, ..crate::support::bounded(limits) }, None);
    node.carrier(1, false);
    node.begins(0, 1, bundle(1));
    keep(&mut node, 1, &bundle(1), 0..9000);
    abandon(&mut node, 1);
    node.receive(2, bundle(2));
    assert_eq!(node.verdicts(), [(2, Err(Refusal::NoResources))]);
}

#[test]
fn repeated_piece_needs_no_second_record() {
    // The peer starts again from the first byte; pieces that are on disk already need no second record.
    let mut node = Node::new();
    node.carrier(1, false);
    node.begins(0, 1, bundle(1));
    keep(&mut node, 1, &bundle(1), 0..4000);
    abandon(&mut node, 1);
    node.begins(0, 2, bundle(1));
    keep(&mut node, 2, &bundle(1), 0..4000);
    keep(&mut node, 2, &bundle(1), 4000..8000);
    assert_eq!(kept(&node), [(1, AT + 4000), (2, AT + 4000), (2, AT + 8000)]);
    assert_eq!(node.put().len(), 2);
    abandon(&mut node, 2);
    node.carrier(1, true);
    assert_eq!(node.sent().len(), 2);
}

#[test]
fn group_and_custody_bundles_spill_no_pieces() {
    // Pieces would become fragments if the transfer broke; members of a group need the whole, and custody is taken of
    // whole bundles only.
    let group = Bundle::new(EndpointId::ipn(2, 5), EndpointId::dtn("any", "~news"), 1).payload(Payload::fill(1, LEN));
    let custody = bundle(1).facts(Facts::CUSTODY);
    for whole in [group, custody] {
        let mut node = Node::new();
        node.begins(0, 1, whole.clone());
        keep(&mut node, 1, &whole, 0..4000);
        assert_eq!((kept(&node), node.held()), (vec![], 0));
        abandon(&mut node, 1);
    }
}

#[test]
fn damaged_arrival_drops_pieces_refused_keeps_them() {
    // In a damaged bundle any piece may be wrong, so all are dropped. If the node refuses the bundle, the pieces stay,
    // because they were promised.
    let mut node = Node::new();
    node.carrier(1, false);
    node.begins(0, 1, bundle(1));
    keep(&mut node, 1, &bundle(1), 0..4000);
    let error = Malformed { offset: 1, reason: "a CRC" };
    node.tell(Input::Malformed { link: LinkId(0), token: token(1), error });
    assert_eq!((node.held(), node.deleted()), (0, vec![DeleteReason::Done]));
    node.begins(0, 2, bundle(2).lifetime_ms(1000));
    keep(&mut node, 2, &bundle(2).lifetime_ms(60_000), 0..4000);
    node.wait(Duration::from_secs(2));
    node.receive(2, bundle(2).lifetime_ms(1000));
    assert_eq!((node.verdicts().last(), node.held()), (Some(&(2, Err(Refusal::Expired))), 1));
}

#[test]
fn piece_expires_during_arrival() {
    // The lifetime runs on while the rest is still arriving.
    let mut node = Node::new();
    let short = bundle(1).lifetime_ms(1000);
    node.begins(0, 1, short.clone());
    keep(&mut node, 1, &short, 0..4000);
    node.wait(Duration::from_secs(5));
    assert_eq!((node.held(), node.deleted()), (0, vec![DeleteReason::Expired]));
    abandon(&mut node, 1);
    assert_eq!(node.held(), 0);
}

#[test]
fn local_pieces_join_with_late_fragment() {
    let mut node = Node::new();
    node.register(1);
    let whole = Bundle::new(EndpointId::ipn(2, 5), EndpointId::ipn(1, 1), 1).payload(Payload::fill(1, LEN));
    node.begins(0, 1, whole.clone());
    keep(&mut node, 1, &whole, 0..4000);
    assert!(node.deliveries().is_empty());
    abandon(&mut node, 1);
    node.receive(2, whole.piece(3990..LEN));
    let (id, delivery) = node.deliveries().pop().expect("it is whole");
    assert_eq!(delivery.payload.len(), LEN);
    node.done(id, true);
    assert_eq!(node.held(), 0);
}

#[test]
fn piece_promised_to_its_own_arrival_only() {
    // Two neighbours send the same bundle at once; if one of them damages it, the other must not rely on its pieces.
    let mut node = Node::new();
    node.carrier(1, false);
    node.begins(0, 1, bundle(1));
    keep(&mut node, 1, &bundle(1), 0..4000);
    node.begins(1, 2, bundle(1));
    keep(&mut node, 2, &bundle(1), 0..4000);
    assert_eq!(kept(&node), [(1, AT + 4000)]);
    let error = Malformed { offset: 1, reason: "a CRC" };
    node.tell(Input::Malformed { link: LinkId(0), token: token(1), error });
    let promised = kept(&node).iter().any(|(ticket, _)| *ticket == 2);
    abandon(&mut node, 2);
    assert_eq!((node.held(), promised), (0, false), "nothing is left, and nothing was promised");
}

/// Begins this many transfers, then spills two pieces of each, then abandons all. No piece is charged to a quota before
/// the last transfer has begun.
fn broken_transfers(node: &mut Node, transfers: u64) {
    for ticket in 1..=transfers {
        node.begins(0, ticket, bundle(ticket));
    }
    for range in [0..4000, 4000..9000] {
        (1..=transfers).for_each(|ticket| keep(node, ticket, &bundle(ticket), range.clone()));
    }
    (1..=transfers).for_each(|ticket| abandon(node, ticket));
}

#[test]
fn broken_transfers_stay_within_quota() {
    // 20 interrupted transfers exceed the quota: the excess is not promised, and no promised byte is lost.
    let quota = |bytes, bundles, of_sources| {
        let patterns = vec!["ipn:2.0".to_string()];
        let (sources, neighbours) = if of_sources { (patterns, Vec::new()) } else { (Vec::new(), patterns) };
        farlink_bpa::Quota { sources, neighbours, bytes, bundles }
    };
    for (bytes, bundles) in [(25_000, u64::MAX), (u64::MAX, 5)] {
        for of_sources in [true, false] {
            let mut node = Node::new();
            node.agent.set_quotas(vec![quota(bytes, bundles, of_sources)]);
            broken_transfers(&mut node, 20);
            let status = node.agent.status(node.now).quotas.remove(0);
            assert!(status.bytes <= bytes && status.bundles <= bundles, "{} B, {}", status.bytes, status.bundles);
            assert!(status.bundles >= 4, "what fits is kept");
            let promised: u64 = kept(&node).iter().fold([0; 21], |mut most, (ticket, bytes)| {
                most[*ticket as usize] = *bytes;
                most
            })[1..]
                .iter()
                .map(|bytes| bytes.saturating_sub(AT))
                .sum();
            let rows = node.agent.bundles(node.now, farlink_base::BundleHandle(0), 100);
            assert_eq!(rows.iter().map(|row| row.payload).sum::<u64>(), promised);
        }
    }
}

#[test]
fn broken_transfers_stay_within_source_share() {
    // Fewer than 25,000 of the 180,000 spilled bytes fit the share.
    let limits = Limits { source_bytes: 25_000, ..Limits::default() };
    let mut node = Node::with(crate::support::bounded(limits), None);
    broken_transfers(&mut node, 20);
    assert!((10_000..=25_000).contains(&node.agent.status(node.now).bytes));
}

#[test]
fn fragment_equal_to_arriving_piece_is_refused() {
    // The fragment equals a piece of a bundle that another neighbour is still sending. If the end of that bundle is
    // damaged, its pieces are dropped; an acknowledged fragment that relied on one of them would be lost.
    let mut node = Node::new();
    node.carrier(1, false);
    node.begins(0, 1, bundle(1));
    keep(&mut node, 1, &bundle(1), 0..4000);
    let fragment = bundle(1).piece(0..4000);
    node.receive_over(1, 2, fragment.clone());
    node.begins(1, 3, fragment.clone());
    node.receive_over(1, 3, fragment.clone());
    assert_eq!(node.verdicts(), [2, 3].map(|ticket| (ticket, Err(Refusal::NoResources))), "it may come again");
    let error = Malformed { offset: 1, reason: "a CRC" };
    node.tell(Input::Malformed { link: LinkId(0), token: token(1), error });
    assert_eq!(node.held(), 0);
    node.receive_over(1, 4, fragment.clone());
    assert_eq!((node.verdicts().last(), node.held()), (Some(&(4, Ok(()))), 1));
    // The fragment is also refused while the equal piece is not yet durable.
    let mut node = Node::new();
    node.carrier(1, false);
    node.commit = false;
    node.begins(0, 1, bundle(1));
    keep(&mut node, 1, &bundle(1), 0..4000);
    node.receive_over(1, 2, fragment);
    node.stored(node.put()[0]);
    assert_eq!(node.verdicts(), [(2, Err(Refusal::NoResources))]);
}

#[test]
fn out_of_order_commits_promised_together() {
    // A promise covers the bytes from the start on, so later pieces wait for the commits of earlier ones.
    let mut node = Node::new();
    node.commit = false;
    node.begins(0, 1, bundle(1));
    for range in [0..2000, 2000..4000, 4000..6000] {
        keep(&mut node, 1, &bundle(1), range);
    }
    for number in node.put().into_iter().rev() {
        node.stored(number);
    }
    assert_eq!(kept(&node), [(1, AT + 6000)], "all at once, when the first is");
    keep(&mut node, 1, &bundle(1), 6000..8000);
    node.stored(*node.put().last().unwrap());
    assert_eq!(kept(&node).last(), Some(&(1, AT + 8000)));
    abandon(&mut node, 1);
}

#[test]
fn pieces_of_hello_dropped_with_it() {
    // A hello with long policy messages is spilled in pieces before it is recognized.
    use farlink_bpa::Edge;
    let mut node = Node::new();
    let hello = Bundle::new(EndpointId::ipn(2, 0), EndpointId::ipn(1, 0), 1);
    let hello = hello.facts(Facts::ADMIN).payload(support::Toy.hello(&[0; 9000]));
    node.begins(0, 1, hello.clone());
    keep(&mut node, 1, &hello, 0..4000);
    assert_eq!(node.held(), 1);
    node.receive(1, hello);
    assert_eq!((node.verdicts(), node.held()), (vec![(1, Ok(()))], 0));
    assert_eq!(node.agent.counts().fragments, 0, "nothing is left of it");
}

#[test]
fn full_acknowledgment_at_break_resends_last_byte() {
    // Acknowledged bytes never include the end of the bundle (payload CRC and later blocks), so the last payload byte
    // is sent again as a fragment.
    for bytes in [LEN + AT, LEN + AT + 1, u64::MAX] {
        let mut node = Node::new();
        node.send_bytes(EndpointId::ipn(2, 1), LEN);
        let sent = node.take_sent()[0].clone();
        node.tell(Input::SentInPart { id: sent.id, bytes });
        node.fail(sent.id, None);
        let again = node.take_sent();
        assert_eq!(again.iter().map(|sent| sent.cut.clone()).collect::<Vec<_>>(), [Some(LEN - 1..LEN)], "{bytes}");
        node.confirm(again[0].id);
        assert_eq!(node.held(), 0);
    }
}

#[test]
fn piece_of_arrival_emits_received_event() {
    let mut node = Node::new();
    node.begins(0, 1, bundle(1));
    keep(&mut node, 1, &bundle(1), 0..4000);
    let two = farlink_base::NodeId::ipn(2);
    let told = farlink_base::Event::Received { bundle: farlink_base::BundleHandle(1), link: LinkId(0), from: two };
    assert!(node.events().contains(&told), "{:?}", node.events());
}

#[test]
fn pieces_without_disk_promised_at_once() {
    let mut node = Node::with(Settings { durable: false, ..settings() }, None);
    node.begins(0, 1, bundle(1));
    keep(&mut node, 1, &bundle(1), 0..4000);
    assert_eq!((kept(&node), node.put()), (vec![(1, AT + 4000)], vec![]));
}

#[test]
fn abandoned_piece_gets_reception_report() {
    // When the transfer breaks, the piece becomes a fragment that counts as received, so its reception is reported.
    let mut node = Node::with(crate::support::reporting(true), None);
    node.carrier(1, false);
    let whole = bundle(1).facts(Facts::REPORT_RECEPTION).report_to(EndpointId::ipn(2, 7));
    node.begins(0, 1, whole.clone());
    keep(&mut node, 1, &whole, 0..4000);
    assert_eq!(node.sent().len(), 0, "the whole may still come");
    abandon(&mut node, 1);
    let reports: Vec<u8> = node.sent().iter().map(|sent| support::Toy::report(&sent.bundle).0).collect();
    assert_eq!(reports, [farlink_bpa::Status::Received as u8]);
}

#[test]
fn policies_see_piece_after_abandon() {
    let (said, heard) = std::sync::mpsc::channel();
    let script = support::Script {
        hears: farlink_book::EventMask::KEPT,
        on: Box::new(move |_, news, _| {
            if let farlink_book::PolicyEvent::Kept { .. } = news {
                said.send(()).unwrap_or_default();
            }
        }),
        ..support::Script::default()
    };
    let mut node = Node::routed(script);
    node.begins(0, 1, bundle(1));
    keep(&mut node, 1, &bundle(1), 0..4000);
    assert_eq!(heard.try_iter().count(), 0);
    abandon(&mut node, 1);
    assert_eq!(heard.try_iter().count(), 1);
}

#[test]
fn partial_send_emits_fragmented_event() {
    let mut node = Node::new();
    node.receive(1, Bundle::new(EndpointId::ipn(2, 5), EndpointId::ipn(3, 1), 1).payload(Payload::fill(1, LEN)));
    let sent = node.take_sent();
    node.tell(Input::SentInPart { id: sent[0].id, bytes: sent[0].bundle.overhead() + 2000 });
    let fragments = |event: Event| match event {
        Event::Fragmented { link, offset, length, .. } => Some((link, offset, length)),
        _ => None,
    };
    assert_eq!(node.events().into_iter().filter_map(fragments).collect::<Vec<_>>(), [(LinkId(1), 0, 2000)]);
}

#[test]
fn pieces_of_unwanted_arrival_are_dropped() {
    let mut node = Node::new();
    node.begins(0, 1, bundle(1));
    keep(&mut node, 1, &bundle(1), 0..4000);
    let (whole, _) = bundle(1).parts();
    let reason = Refusal::NotAcceptable;
    node.tell(Input::Unwanted { link: LinkId(0), token: token(1), bundle: whole, reason });
    assert_eq!((node.held(), node.agent.counts().fragments), (0, 0));
}

#[test]
fn pieces_dropped_when_duplicate_completes() {
    // The bundle also arrives whole over another link; both senders get a verdict.
    let mut node = Node::new();
    node.carrier(1, false);
    node.begins(0, 1, bundle(1));
    keep(&mut node, 1, &bundle(1), 0..4000);
    node.receive_over(1, 2, bundle(1));
    assert_eq!(node.held(), 2);
    node.receive(1, bundle(1));
    assert_eq!(node.verdicts(), [(2, Ok(())), (1, Ok(()))]);
    assert_eq!((node.held(), node.agent.counts().fragments), (1, 0));
}

#[test]
fn pieces_of_refused_whole_are_forwarded() {
    let mut node = Node::new();
    node.begins(0, 1, bundle(1));
    keep(&mut node, 1, &bundle(1), 0..4000);
    node.tell(Input::Pressure(farlink_bpa::Pressure::Full));
    node.receive(1, bundle(1));
    assert_eq!(node.verdicts(), [(1, Err(Refusal::NoResources))]);
    node.tell(Input::Pressure(farlink_bpa::Pressure::None));
    assert_eq!((node.sent_over(1).len(), node.agent.counts().fragments), (1, 0), "it is no more arriving");
}

#[test]
fn pieces_of_delivered_bundle_are_dropped() {
    let mut node = Node::new();
    node.register(1);
    let whole = Bundle::new(EndpointId::ipn(2, 5), EndpointId::ipn(1, 1), 1).payload(Payload::fill(1, LEN));
    node.begins(0, 1, whole.clone());
    keep(&mut node, 1, &whole, 0..4000);
    node.receive_over(1, 2, whole.clone());
    let delivery = node.deliveries()[0].0;
    node.done(delivery, true);
    assert_eq!(node.held(), 1, "the piece");
    node.receive(1, whole);
    assert_eq!(node.verdicts(), [(2, Ok(())), (1, Ok(()))]);
    assert_eq!((node.held(), node.agent.counts().fragments), (0, 0));
}

#[test]
fn pieces_of_forged_arrival_stay_as_fragments() {
    // They were promised to the stranger before a vouched bundle with other content came.
    let mut node = Node::new();
    node.carrier(1, false);
    let stranger = node.comes(7, EndpointId::ipn(66, 0));
    let forged = bundle(1).payload(Payload::fill(6, LEN));
    node.begins(stranger, 1, forged.clone());
    let (piece, hop) = forged.piece(0..4000).parts();
    node.tell(Input::Piece { link: LinkId(stranger), token: token(1), bundle: piece, hop, promises: 0..AT + 4000 });
    node.receive(2, bundle(1));
    node.receive_over(stranger, 1, forged);
    assert_eq!(node.verdicts(), [(2, Ok(())), (1, Err(Refusal::NotAcceptable))]);
    let refused = |e: &Event| matches!(e, Event::Refused { link: Some(link), reason: Refusal::NotAcceptable, .. } if link.0 == stranger);
    assert_eq!(node.events().iter().filter(|event| refused(event)).count(), 1);
    assert_eq!((node.held(), node.agent.counts().fragments), (2, 0), "it is no more arriving");
}
