//! An identity alone does not say "I have it": the content must agree, and who is vouched for is believed before who is not.

mod support;

use farlink_base::{Bytes, EndpointId, Payload, Refusal};
use farlink_bpa::Settings;
use support::{Bundle, Node, from_two, piece, settings};

fn here() -> EndpointId {
    EndpointId::ipn(1, 7)
}
/// The same identity with another payload of the same length.
fn forged(bundle: &Bundle) -> Bundle {
    let mut forged = bundle.clone();
    forged.meta.payload = Payload::from(vec![b'F'; bundle.meta.payload.len() as usize]);
    forged
}
fn honest(sequence: u64, to: EndpointId) -> Bundle {
    let mut bundle = from_two(sequence, to);
    bundle.meta.payload = Payload::from(vec![b'H'; bundle.meta.payload.len() as usize]);
    bundle
}
fn answer_all(node: &mut Node) {
    for (delivery, _) in node.deliveries() {
        node.done(delivery, true);
    }
}
fn nodes() -> Vec<Node> {
    [true, false].map(|durable| Node::with(Settings { durable, ..settings() }, None)).into()
}
fn is_honest(payload: &Payload) -> bool {
    payload.to_bytes().is_some_and(|bytes: Bytes| bytes.iter().all(|byte| *byte == b'H'))
}

#[test]
fn stranger_first_then_neighbour_delivers_the_neighbours() {
    for mut node in nodes() {
        let stranger = node.comes(0, EndpointId::ipn(66, 0));
        let true_one = honest(1, here());
        node.receive_over(stranger, 1, forged(&true_one));
        node.receive(2, true_one.clone());
        assert_eq!(node.verdicts().last(), Some(&(2, Ok(()))));
        assert_eq!(node.held(), 1, "what the stranger gave is displaced");
        node.register(7);
        assert_eq!(node.deliveries().len(), 1);
        assert!(is_honest(&node.deliveries()[0].1.payload));
    }
}

#[test]
fn neighbours_bundle_is_delivered_though_a_strangers_was_before() {
    for mut node in nodes() {
        node.register(7);
        let stranger = node.comes(0, EndpointId::ipn(66, 0));
        for n in 1..=30 {
            node.receive_over(stranger, n, forged(&honest(n, here())));
            answer_all(&mut node);
        }
        for n in 1..=30 {
            node.receive(100 + n, honest(n, here()));
            assert_eq!(node.verdicts().last(), Some(&(100 + n, Ok(()))));
            answer_all(&mut node);
        }
        let payloads: Vec<_> = node.deliveries().iter().map(|(_, delivery)| delivery.payload.clone()).collect();
        assert_eq!(payloads.iter().filter(|payload| is_honest(payload)).count(), 30);
    }
}

#[test]
fn stranger_second_is_refused_and_changes_nothing() {
    for to in [here(), EndpointId::ipn(3, 1)] {
        for mut node in nodes() {
            let stranger = node.comes(0, EndpointId::ipn(66, 0));
            node.receive(1, honest(1, to.clone()));
            node.receive_over(stranger, 2, forged(&honest(1, to.clone())));
            assert_eq!(node.verdicts().last(), Some(&(2, Err(Refusal::NotAcceptable))));
            node.receive_over(stranger, 3, honest(1, to.clone()));
            assert_eq!(node.verdicts().last(), Some(&(3, Ok(()))), "the same content is had");
            node.receive(4, honest(1, to.clone()));
            assert_eq!((node.verdicts().last(), node.held()), (Some(&(4, Ok(()))), 1));
        }
    }
}

#[test]
fn of_two_vouched_for_neither_is_lost_and_repeats_are_had() {
    for mut node in nodes() {
        node.register(7);
        node.receive(1, honest(1, here()));
        node.receive(2, forged(&honest(1, here())));
        node.receive(20, forged(&honest(1, here())));
        answer_all(&mut node);
        assert_eq!(node.deliveries().len(), 2);
        answer_all(&mut node);
        for n in 3..6 {
            node.receive(n, honest(1, here()));
            node.receive(n + 10, forged(&honest(1, here())));
        }
        assert_eq!((node.deliveries().len(), node.verdicts().iter().all(|(_, result)| result.is_ok())), (2, true));
    }
}

#[test]
fn of_two_strangers_the_first_wins_and_the_second_is_not_acknowledged() {
    for mut node in nodes() {
        node.register(7);
        let stranger = node.comes(0, EndpointId::ipn(66, 0));
        node.receive_over(stranger, 1, honest(1, here()));
        node.receive_over(stranger, 2, forged(&honest(1, here())));
        answer_all(&mut node);
        node.receive_over(stranger, 3, forged(&honest(1, here())));
        node.receive_over(stranger, 4, honest(1, here()));
        let refused = Err(Refusal::NotAcceptable);
        assert_eq!(node.verdicts(), [(1, Ok(())), (2, refused), (3, refused), (4, Ok(()))]);
        assert_eq!(node.deliveries().len(), 1);
    }
}

#[test]
fn fragments_of_a_stranger_and_a_neighbour_are_never_joined() {
    for mut node in nodes() {
        node.register(7);
        let stranger = node.comes(0, EndpointId::ipn(66, 0));
        let whole = honest(1, here());
        let len = whole.meta.payload.len();
        let part = |of: &Bundle, range| Bundle { meta: piece(&of.meta, range), hop: of.hop.clone() };
        node.receive_over(stranger, 1, part(&forged(&whole), 0..len / 2));
        node.receive(2, part(&whole, len / 2..len));
        assert!(node.deliveries().is_empty());
        node.receive(3, part(&whole, 0..len / 2));
        assert_eq!(node.deliveries().len(), 1);
        assert!(is_honest(&node.deliveries()[0].1.payload));
    }
}

#[test]
fn another_lifetime_or_report_to_is_another_content() {
    for mut node in nodes() {
        let stranger = node.comes(0, EndpointId::ipn(66, 0));
        node.receive(1, honest(1, EndpointId::ipn(9, 1)));
        let mut longer = honest(1, EndpointId::ipn(9, 1));
        longer.meta.lifetime_ms += 1;
        node.receive_over(stranger, 2, longer);
        node.receive_over(stranger, 3, honest(1, EndpointId::ipn(9, 1)).report_to(EndpointId::ipn(66, 0)));
        assert!(node.verdicts()[1..].iter().all(|(_, result)| *result == Err(Refusal::NotAcceptable)));
    }
}
