//! Reassembly (RFC 9171 5.9).

use crate::support;

use crate::support::{Bundle, Node, from_two, settings};
use farlink_base::{BundleHandle, DeleteReason, EndpointId, Event, Facts, Payload, Refusal};
use farlink_bpa::app::AdminInput;
use farlink_bpa::{Limits, Reading, Settings};
use std::ops::Range;

fn content() -> Vec<u8> {
    (0..=255).collect()
}

/// A bundle of 256 bytes for service 1 of this node.
fn whole() -> Bundle {
    from_two(1, EndpointId::ipn(1, 1)).payload(Payload::from(content()))
}

/// A node with a registered application that received these fragments of the whole.
fn with(ranges: &[Range<u64>]) -> Node {
    let mut node = Node::new();
    node.register(1);
    for (ticket, range) in (1..).zip(ranges) {
        node.receive(ticket, whole().piece(range.clone()));
    }
    node
}

fn payloads(node: &Node) -> Vec<Vec<u8>> {
    node.deliveries().iter().map(|(_, d)| d.payload.to_bytes().unwrap().to_vec()).collect()
}

/// Keeps 9171-5.7-1, 9171-5.7-2, 9171-5.9-1, 5050-5.7-1, 5050-5.9-1.
#[test]
fn fragments_joined_before_delivery() {
    let node = with(&[200..256, 0..100, 100..200]);
    assert_eq!(payloads(&node), [content()]);
    assert_eq!(node.verdicts().len(), 3);
    assert_eq!(node.put(), [1, 2, 3], "the whole is no record of its own");
    assert_eq!(node.held(), 4, "the whole and its parts");
    assert!(node.events().iter().any(|e| matches!(e, Event::Reassembled { .. })));
    assert_eq!(node.why(1), "the delivery of what it is part of");
}

#[test]
fn reassembly_needs_no_double_room() {
    // The whole shares the payload of its parts, so the store needs no room for both.
    let thirds = [0..86, 86..172, 172..256];
    let roomy = with(&thirds[..2]);
    let capacity_bytes = roomy.agent.status(roomy.now).bytes / 2 * 3;
    let mut node = Node::with(Settings { capacity_bytes, ..settings() }, None);
    node.register(1);
    for (ticket, range) in (1..).zip(thirds) {
        node.receive(ticket, whole().piece(range));
    }
    node.receive(4, from_two(2, EndpointId::ipn(1, 1)).payload(Payload::from(vec![0; 64])));
    assert_eq!(node.verdicts()[3], (4, Err(Refusal::NoResources)), "there is room for nothing more");
    assert_eq!(payloads(&node), [content()]);
    assert!(node.forgotten().is_empty(), "the parts stay until the whole is taken");
    node.done(node.deliveries()[0].0, true);
    assert_eq!(node.held(), 0);
}

#[test]
fn whole_awaits_durable_parts() {
    // A delivery before the commits would be repeated unmarked after a crash.
    let mut node = Node::new();
    node.register(1);
    node.commit = false;
    for (ticket, range) in (1..).zip([0..100, 100..200, 200..256]) {
        node.receive(ticket, whole().piece(range));
    }
    for part in [2, 3] {
        node.stored(part);
        assert!(node.deliveries().is_empty());
    }
    node.stored(1);
    assert_eq!(payloads(&node), [content()]);
}

#[test]
fn accepted_whole_replaces_its_fragments() {
    // The whole may still expire or fail, so the fragments stay until it is delivered.
    let mut node = with(&[100..200, 0..10]);
    node.receive(3, whole());
    assert_eq!((payloads(&node), node.held()), (vec![content()], 3), "until then the whole may expire");
    node.done(node.deliveries()[0].0, true);
    assert_eq!((node.held(), node.agent.counts().fragments), (0, 0));
    assert_eq!(node.forgotten().len(), 3);
}

/// Keeps 9171-5.9-2, 5050-5.9-2.
#[test]
fn late_fragments_of_delivered_whole_acknowledged() {
    // One record remembers the original; fragments that arrive later are duplicates of it.
    let mut node = with(&[0..128, 128..256]);
    let delivery = node.deliveries()[0].0;
    node.done(delivery, true);
    assert_eq!((node.forgotten(), node.held()), (vec![(1, true), (2, false)], 0));
    assert_eq!(node.agent.counts().fragments, 0);
    node.receive(8, whole().piece(0..50));
    node.receive(9, whole());
    assert_eq!(node.verdicts()[2..], [(8, Ok(())), (9, Ok(()))]);
    node.begins(0, 10, whole().piece(50..256));
    assert_eq!(node.verdicts()[4], (10, Err(Refusal::Duplicate)));
    assert_eq!((node.held(), node.deliveries().len()), (0, 1));
}

#[test]
fn window_opens_at_first_part_deletion() {
    let mut node = with(&[0..128, 128..256]);
    node.receive(3, from_two(2, EndpointId::ipn(1, 1)));
    node.commit = false;
    node.done(node.deliveries()[0].0, true);
    assert_eq!(node.deliveries().len(), 1);
    node.tell(farlink_bpa::Input::Store(farlink_base::store::Output::Deleted { bundle: BundleHandle(1) }));
    assert_eq!(node.deliveries().len(), 2);
}

#[test]
fn whole_expires_with_earliest_part() {
    let mut node = Node::new();
    // The source has no clock, so lifetimes run on the bundle age.
    node.receive(1, whole().created_ms(0).age_ms(0).piece(0..128));
    node.receive(2, whole().created_ms(0).age_ms(51_000).piece(128..256));
    assert_eq!(node.held(), 3, "the second says that less of its lifetime is left");
    node.wait_ms(9500);
    assert_eq!((node.held(), node.agent.counts().fragments), (0, 0));
    assert_eq!(node.deleted(), [DeleteReason::Expired; 3]);
    assert_eq!(node.forgotten(), [(1, false), (2, false)]);
}

/// Keeps 9171-5.7-2, 9171-5.10-1, 5050-5.7-2, 5050-5.13-2.
#[test]
fn incomplete_fragments_expire_without_trace() {
    let mut node = with(&[0..100, 150..256]);
    assert_eq!(node.waits_for(), "the other fragments: 206 of 256 B are here, in 2 of them");
    node.wait_ms(61_000);
    assert_eq!((node.held(), node.agent.counts().fragments), (0, 0));
}

/// Keeps 9171-5.9-1, 9171-5.9-2, 5050-5.9-1.
#[test]
fn overlapping_fragments_give_same_bytes() {
    for ranges in [
        vec![0..100, 50..150, 100..256],
        vec![50..150, 0..256],
        vec![0..10, 0..100, 0..150, 140..256],
        vec![100..200, 50..120, 190..256, 0..60],
        vec![0..100, 0..100, 20..30, 100..256],
    ] {
        let mut node = with(&ranges);
        assert_eq!(payloads(&node), [content()], "{ranges:?}");
        assert!(node.verdicts().iter().all(|(_, result)| result.is_ok()));
        node.done(node.deliveries()[0].0, true);
        assert_eq!((node.held(), node.agent.counts().fragments), (0, 0), "{ranges:?}");
    }
}

#[test]
fn contradicting_fragments_left_out() {
    let first = 0..100;
    let mut node = with(&[first]);
    // Neither another total length nor an offset beyond the end may spoil the genuine original.
    let mut longer = whole().payload(Payload::fill(0, 300)).piece(100..200);
    longer.meta.id ^= 1;
    node.receive(7, longer);
    let beyond = Bundle { meta: support::piece(&whole().piece(200..256).meta, 0..56), hop: Default::default() };
    let beyond = beyond.change(|m| {
        let mut rare = *m.rare.take().unwrap();
        rare.fragment = rare.fragment.map(|mut f| {
            f.offset = u64::MAX - 10;
            f
        });
        m.rare = rare.boxed();
    });
    node.receive(8, beyond);
    assert!(payloads(&node).is_empty());
    node.receive(9, whole().piece(100..256));
    assert_eq!(payloads(&node), [content()]);
}

#[test]
fn remote_fragments_forwarded_unjoined() {
    // Reassembly is a step of delivery (RFC 9171 section 5.9); relays forward fragments as they are.
    let mut node = Node::new();
    let bundle = from_two(1, EndpointId::ipn(3, 1));
    node.receive(1, bundle.piece(0..500));
    node.receive(2, bundle.piece(500..1000));
    let sent: Vec<_> = node.sent().iter().map(|s| s.bundle.fragment().unwrap().offset).collect();
    assert_eq!(sent, [0, 500]);
}

#[test]
fn refused_part_is_awaited_again() {
    // The refused part was not acknowledged, so its sender offers it again.
    let mut node = Node::new();
    node.register(1);
    node.commit = false;
    node.receive(1, whole().piece(0..128));
    node.stored(1);
    node.receive(2, whole().piece(128..256));
    node.store_refuses(2);
    assert_eq!(node.verdicts(), [(1, Ok(())), (2, Err(Refusal::NoResources))]);
    assert_eq!(
        (node.held(), node.waits_for().as_str()),
        (1, "the other fragments: 128 of 256 B are here, in 1 of them")
    );
    node.commit = true;
    node.receive(3, whole().piece(128..256));
    assert_eq!(payloads(&node), [content()]);
}

#[test]
fn cancelled_part_is_awaited_again() {
    let mut node = Node::new();
    for (ticket, range) in (1..).zip([0..128, 128..256]) {
        node.receive(ticket, whole().piece(range));
    }
    node.admin(AdminInput::Cancel { bundle: BundleHandle(1) });
    assert_eq!(node.held(), 1);
    node.register(1);
    node.receive(3, whole().piece(0..128));
    assert_eq!(payloads(&node), [content()]);
}

#[test]
fn cancelled_whole_drops_its_parts() {
    let mut node = Node::new();
    for (ticket, range) in (1..).zip([0..128, 128..256]) {
        node.receive(ticket, whole().piece(range));
    }
    node.admin(AdminInput::Cancel { bundle: BundleHandle(3) });
    assert_eq!((node.held(), node.agent.counts().fragments), (0, 0));
}

#[test]
fn unreadable_whole_retried_damaged_one_dropped() {
    let mut node = with(&[0..128, 128..256]);
    node.unreadable(Reading::Delivery(node.deliveries()[0].0), false);
    node.wait_ms(1000);
    assert_eq!(payloads(&node).len(), 2);
    node.unreadable(Reading::Delivery(node.deliveries()[1].0), true);
    assert_eq!((node.held(), node.agent.counts().fragments), (0, 0));
    assert!(node.forgotten().iter().all(|(_, remembered)| !remembered), "it was not delivered");
}

#[test]
fn fragmented_record_without_listener_leaves_nothing() {
    let record = [vec![b'R'], content()].concat();
    let bundle = from_two(1, EndpointId::ipn(1, 0)).facts(Facts::ADMIN).payload(Payload::from(record));
    let mut node = Node::new();
    node.receive(1, bundle.piece(0..128));
    node.receive(2, bundle.piece(128..257));
    assert_eq!((node.held(), node.agent.counts().fragments), (0, 0));
}

#[test]
fn whole_not_acknowledged_for_undurable_parts() {
    // The acknowledgment of the whole would rest on parts that a crash can lose.
    let mut node = Node::new();
    node.commit = false;
    node.receive(1, whole().piece(0..128));
    node.receive(2, whole().piece(128..256));
    node.receive(3, whole());
    node.begins(0, 4, whole());
    assert!(node.verdicts().iter().all(|(_, result)| result.is_err()), "{:?}", node.verdicts());
    node.stored(1);
    node.stored(2);
    node.receive(5, whole());
    assert_eq!(node.verdicts().last(), Some(&(5, Ok(()))));
}

#[test]
fn whole_and_fragments_delivered_once() {
    let mut node = Node::new();
    node.receive(1, whole());
    node.receive(2, whole().piece(0..128));
    node.register(1);
    node.receive(3, whole().piece(128..256));
    for (delivery, _) in node.deliveries() {
        node.done(delivery, true);
    }
    assert_eq!(payloads(&node), [content()]);
    node.wait_ms(61_000);
    assert_eq!((payloads(&node).len(), node.held(), node.agent.counts().fragments), (1, 0, 0));
}

#[test]
fn fragment_limit_keeps_acknowledged_fragments() {
    // The limit refuses new fragments; acknowledged ones are never evicted for them.
    let limits = Limits { fragments: 2, ..Limits::default() };
    let mut node = Node::with(crate::support::bounded(limits), None);
    for n in 0..4 {
        node.receive(n, from_two(n, EndpointId::ipn(1, 1)).piece(0..500));
    }
    assert_eq!((node.held(), node.deleted()), (2, vec![]));
    let full = Err(Refusal::NoResources);
    assert_eq!(node.verdicts(), [(0, Ok(())), (1, Ok(())), (2, full), (3, full)]);
}

#[test]
fn incomplete_fragments_leave_room_for_others() {
    // One source may fill three quarters of the table; the excess is refused before it is acknowledged.
    let limits = Limits { fragments: 100, ..Limits::default() };
    let mut node = Node::with(crate::support::bounded(limits), None);
    node.register(1);
    for n in 0..200 {
        node.receive(n, from_two(n, EndpointId::ipn(1, 1)).piece(0..10));
    }
    let taken = node.verdicts().iter().filter(|(_, verdict)| verdict.is_ok()).count();
    assert_eq!((taken, node.held(), node.deleted()), (75, 75, vec![]), "three quarters, and all of those are kept");
    let honest = Bundle::new(EndpointId::ipn(5, 5), EndpointId::ipn(1, 1), 1);
    let len = honest.meta.payload.len();
    for (ticket, range) in (300..).zip([0..len / 2, len / 2..len]) {
        node.receive(ticket, honest.piece(range));
    }
    assert_eq!(node.verdicts()[200..], [(300, Ok(())), (301, Ok(()))]);
    assert_eq!(node.deliveries().len(), 1);
}

#[test]
fn strangers_fragments_charge_no_source() {
    // An unauthenticated peer may write any source, so its fragments count only towards the half for such peers.
    for names in [1, 200] {
        let limits = Limits { fragments: 100, ..Limits::default() };
        let mut node = Node::with(crate::support::bounded(limits), None);
        node.register(1);
        let stranger = node.comes(0, EndpointId::ipn(2, 0));
        for n in 0..200 {
            let named = Bundle::new(EndpointId::ipn(2 + n % names, 2), EndpointId::ipn(1, 1), n);
            node.receive_over(stranger, n, named.piece(0..10));
        }
        let taken = |node: &Node| node.verdicts().iter().filter(|(_, verdict)| verdict.is_ok()).count();
        assert_eq!((taken(&node), node.held()), (50, 50), "{names} names: half of the places");
        node.receive_over(stranger, 200, Bundle::new(EndpointId::ipn(900, 2), EndpointId::ipn(1, 1), 1).piece(0..10));
        assert_eq!(node.verdicts()[200], (200, Err(Refusal::NoResources)), "nor under a name that is new");
        for n in 300..400 {
            node.receive(n, from_two(n, EndpointId::ipn(1, 1)).piece(0..10));
        }
        assert_eq!(taken(&node), 50 + 38, "{names} names: three quarters of what strangers leave");
        let honest = Bundle::new(EndpointId::ipn(5, 5), EndpointId::ipn(1, 1), 1);
        let len = honest.meta.payload.len();
        for (ticket, range) in (500..).zip([0..len / 2, len / 2..len]) {
            node.receive(ticket, honest.piece(range));
        }
        assert_eq!(node.deliveries().len(), 1, "{names} names: another source finds room");
        node.wait_ms(61_000);
        assert_eq!((node.held(), node.agent.counts().fragments), (0, 0));
        for n in 600..700 {
            let later = from_two(n, EndpointId::ipn(1, 1)).lifetime_ms(600_000);
            node.receive_over(stranger, n, later.piece(0..10));
        }
        assert_eq!(node.held(), 50, "{names} names: they take their share again once theirs left");
    }
}

#[test]
fn wrong_total_length_blocks_no_reassembly() {
    // The fragment with the wrong total is the first, so it could block the genuine ones.
    let mut node = Node::new();
    node.register(1);
    let longer = from_two(1, EndpointId::ipn(1, 1)).payload(Payload::fill(9, 300));
    node.receive(1, longer.piece(50..60));
    for (ticket, range) in (2..).zip([0..100, 100..256]) {
        node.receive(ticket, whole().piece(range));
    }
    assert_eq!(payloads(&node), [content()]);
    node.done(node.deliveries()[0].0, true);
    node.wait_ms(61_000);
    assert_eq!((node.held(), node.agent.counts().fragments), (0, 0));
}

#[test]
fn expired_fragment_accepted_again() {
    let mut node = Node::new();
    node.register(1);
    // The source has no clock, so lifetimes run on the bundle age.
    let aged = |age_ms, range| whole().created_ms(0).age_ms(age_ms).piece(range);
    node.receive(1, aged(0, 0..128));
    node.receive(2, aged(51_000, 128..200));
    node.wait_ms(9500);
    assert_eq!((node.held(), node.deleted()), (1, vec![DeleteReason::Expired]));
    node.receive(3, aged(0, 128..200));
    node.receive(4, aged(0, 200..256));
    assert_eq!(payloads(&node), [content()]);
}
