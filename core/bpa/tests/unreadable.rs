//! Payloads that cannot be read from the store, for a time or for ever.

use crate::support;

use crate::support::{Node, Script, from_two};
use farlink_base::{DeleteReason, EndpointId, Priority};
use farlink_book::{CopyOffer, EventMask, PolicyEvent};
use farlink_bpa::Reading;

#[test]
fn unreadable_payload_backs_off_undeleted() {
    // A read error may be transient, so the retry backs off to 64 s and the bundle stays.
    let mut node = Node::new();
    let mut wanted = support::request(EndpointId::ipn(2, 1), Priority::Normal);
    wanted.lifetime_ms = 86_400_000;
    node.ask(wanted);
    let mut waits = Vec::new();
    for n in 0..9 {
        let (id, begun) = (node.sent()[n].id, node.now);
        node.unreadable(Reading::Send(id), false);
        assert_eq!(node.sent().len(), n + 1, "not at once");
        while node.sent().len() == n + 1 {
            node.wait_ms(500);
        }
        waits.push(node.now.since(begun).as_secs());
    }
    assert_eq!(waits, [1, 2, 4, 8, 16, 32, 64, 64, 64]);
    node.confirm(node.sent()[9].id);
    assert_eq!((node.held(), node.deleted()), (0, vec![DeleteReason::Done]));
}

#[test]
fn damaged_payload_deletes_own_bundle_only() {
    // Damage is permanent, unlike a read error.
    let mut node = Node::new();
    node.send(EndpointId::ipn(2, 1), Priority::Normal);
    node.send(EndpointId::ipn(2, 1), Priority::Normal);
    let sent = node.sent();
    node.unreadable(Reading::Send(sent[0].id), true);
    assert_eq!((node.held(), node.deleted()), (1, vec![DeleteReason::DepletedStorage]));
    node.confirm(sent[1].id);
    assert_eq!(node.held(), 0);
}

#[test]
fn unreadable_delivery_retried_damaged_deleted() {
    let mut node = Node::new();
    node.register(1);
    node.receive(1, from_two(1, EndpointId::ipn(1, 1)));
    for wait_ms in [1000, 2000, 4000] {
        let delivery = node.deliveries().last().unwrap().0;
        let before = node.deliveries().len();
        node.unreadable(Reading::Delivery(delivery), false);
        node.wait_ms(wait_ms - 1);
        assert_eq!(node.deliveries().len(), before);
        node.wait_ms(1);
        assert_eq!(node.deliveries().len(), before + 1);
    }
    assert!(node.deliveries().iter().all(|(_, d)| !d.redelivered), "no application saw it");
    node.receive(2, from_two(2, EndpointId::ipn(1, 1)));
    node.unreadable(Reading::Delivery(node.deliveries()[3].0), true);
    assert_eq!(node.deleted(), [DeleteReason::DepletedStorage]);
    let (delivery, bundle) = node.deliveries().pop().unwrap();
    assert_eq!(bundle.creation.sequence, 2, "the line goes on");
    node.done(delivery, true);
    assert_eq!(node.held(), 0);
}

#[test]
fn delivery_backoff_blocks_no_others() {
    let mut node = Node::new();
    node.register(1);
    for n in 1..=2 {
        node.receive(n, from_two(n, EndpointId::ipn(1, 1)));
    }
    node.unreadable(Reading::Delivery(node.deliveries()[0].0), false);
    assert_eq!(node.deliveries()[1].1.creation.sequence, 2);
}

#[test]
fn unreadable_copy_reoffered_with_label() {
    // Half of the label travels with the copy and returns on failure.
    let script = Script {
        hears: EventMask::KEPT.and(EventMask::OUTCOMES),
        on: Box::new(|node, news, out| match *news {
            PolicyEvent::Kept { bundle, .. } => out.label(bundle, 8),
            PolicyEvent::Failed { bundle, gave, .. } => out.label(bundle, node.label(node.get(bundle).unwrap()) + gave),
            _ => {}
        }),
        wants: Box::new(|node, _, held| {
            let left = node.label(held);
            (left > 1).then(|| CopyOffer::copy(held, 0).with(node, left - left / 2, left / 2))
        }),
        ..Script::flood()
    };
    let mut node = Node::routed(script);
    node.carrier(1, false);
    node.take_sent();
    node.send(EndpointId::ipn(9, 9), Priority::Normal);
    node.carrier(0, true);
    let first = node.sent().into_iter().find(|s| s.hop.labels.is_some()).unwrap();
    assert_eq!(first.hop.labels, Some([4, 0]));
    node.unreadable(Reading::Send(first.id), false);
    node.wait_ms(1500);
    let again: Vec<_> = node.sent().into_iter().filter(|s| s.hop.labels.is_some()).skip(1).collect();
    assert_eq!(again.iter().map(|s| s.hop.labels).collect::<Vec<_>>(), [Some([4, 0])]);
}

#[test]
fn unreadable_bundle_frees_link_for_another() {
    let mut node = Node::new();
    node.ready(0, false);
    node.send(EndpointId::ipn(2, 1), Priority::Normal);
    node.send(EndpointId::ipn(2, 1), Priority::Normal);
    node.tell(farlink_bpa::Input::TakesOne { link: farlink_base::LinkId(0), ready: true });
    let first = node.take_sent();
    assert_eq!(first.len(), 1);
    node.unreadable(Reading::Send(first[0].id), false);
    let second = node.take_sent();
    assert_eq!(second.len(), 1, "at once");
    assert_ne!(second[0].bundle.sequence, first[0].bundle.sequence);
}
