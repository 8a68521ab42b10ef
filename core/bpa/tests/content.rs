//! Duplicate detection by content: an equal identity is not enough, and vouched-for content displaces that of an
//! unauthenticated neighbour.

use crate::support::{Bundle, Node, from_two, piece, settings, token};
use farlink_base::{Bytes, EndpointId, LinkId, Payload, Refusal};
use farlink_bpa::{Input, Output, Settings};

fn here() -> EndpointId {
    EndpointId::ipn(1, 7)
}
/// A bundle of the same identity and length with another payload.
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
fn neighbours_content_displaces_strangers() {
    // An unauthenticated peer that guesses an identity must not suppress the genuine bundle.
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
fn neighbours_content_delivered_after_strangers() {
    // The record that a forged content was delivered must not suppress the genuine bundle either.
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
fn strangers_second_content_is_refused() {
    // A verdict of success would confirm a content that this node does not have.
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
fn two_vouched_contents_are_both_kept() {
    // Neither sender is more trustworthy, so both contents are delivered; repeats of each are duplicates.
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
fn first_of_two_strangers_contents_wins() {
    // Among unauthenticated neighbours the first content wins; the second is refused, not acknowledged.
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
fn strangers_fragments_never_join_neighbours() {
    // One forged fragment would spoil the reassembled bundle.
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
fn lifetime_and_report_to_distinguish_contents() {
    // An unauthenticated peer must not extend a lifetime or redirect reports under a known identity.
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

/// Both halves of a bundle of 100 bytes.
fn halves(of: &Bundle) -> [Bundle; 2] {
    [of.piece(0..50), of.piece(50..100)]
}
fn hundred(byte: u8) -> Bundle {
    from_two(1, here()).payload(Payload::from(vec![byte; 100])).lifetime_ms(3_600_000)
}
/// Fills the limit of eight contents of one identity, for 10 s.
fn fill(node: &mut Node, over: u32) {
    for n in 0..8 {
        let forged = hundred(b'F').lifetime_ms(10_000 + n);
        node.receive_over(over, 100 + n, forged.piece(0..60 + n));
        assert_eq!(node.verdicts().last(), Some(&(100 + n, Ok(()))));
    }
}

#[test]
fn piece_of_excess_content_taken_later() {
    // A refused piece stays with its sender, which offers it again after the forged contents expired.
    for mut node in nodes() {
        node.register(7);
        let [x, y] = [66, 67].map(|n| node.comes(n, EndpointId::ipn(n.into(), 0)));
        fill(&mut node, x);
        for (ticket, half) in (1..).zip(halves(&hundred(b'H'))) {
            node.receive_over(y, ticket, half);
            assert_eq!(node.verdicts().last(), Some(&(ticket, Err(Refusal::NotAcceptable))), "its sender keeps it");
        }
        let more = hundred(b'F').lifetime_ms(10_003).piece(60..64);
        node.receive_over(x, 3, more);
        assert_eq!(node.verdicts().last(), Some(&(3, Ok(()))), "what belongs to one that waits is taken");
        node.wait_ms(11_000);
        assert_eq!(node.held(), 0);
        for (ticket, half) in (4..).zip(halves(&hundred(b'H'))) {
            node.receive_over(y, ticket, half);
            assert_eq!(node.verdicts().last(), Some(&(ticket, Ok(()))));
        }
        assert_eq!(node.deliveries().len(), 1);
        assert!(is_honest(&node.deliveries()[0].1.payload));
    }
}

#[test]
fn strangers_contents_leave_vouched_room() {
    // The limit of eight contents of one identity counts contents of unauthenticated neighbours apart from vouched-for
    // ones.
    for mut node in nodes() {
        node.register(7);
        let stranger = node.comes(0, EndpointId::ipn(66, 0));
        fill(&mut node, stranger);
        for (ticket, half) in (1..).zip(halves(&hundred(b'H'))) {
            node.receive(ticket, half);
            assert_eq!(node.verdicts().last(), Some(&(ticket, Ok(()))));
        }
        assert_eq!(node.deliveries().len(), 1);
    }
}

#[test]
fn promised_piece_kept_despite_many_contents() {
    // The pieces were promised before the limit was reached, so the promise must be honoured.
    for mut node in nodes() {
        node.register(7);
        let [x, y] = [66, 67].map(|n| node.comes(n, EndpointId::ipn(n.into(), 0)));
        let [first, second] = halves(&hundred(b'H'));
        let (link, (bundle, hop)) = (LinkId(y), first.parts());
        node.tell(Input::Piece { link, token: token(1), bundle, hop, promises: 0..90 });
        fill(&mut node, x);
        node.tell(Input::Abandoned { token: token(1) });
        assert_eq!(node.held(), 9, "what was promised is held");
        node.receive_over(y, 2, second);
        assert_eq!(node.verdicts().last(), Some(&(2, Ok(()))));
        assert_eq!(node.deliveries().len(), 1);
        assert!(is_honest(&node.deliveries()[0].1.payload));
    }
}

#[test]
fn excess_content_gets_no_promise() {
    // The piece belongs to a ninth content of its identity, which the limit of eight refuses, so nothing may be
    // promised for it.
    for mut node in nodes() {
        let [x, y] = [66, 67].map(|n| node.comes(n, EndpointId::ipn(n.into(), 0)));
        fill(&mut node, x);
        let (link, (bundle, hop)) = (LinkId(y), hundred(b'H').piece(0..50).parts());
        node.tell(Input::Piece { link, token: token(1), bundle, hop, promises: 0..90 });
        assert_eq!(node.held(), 8);
        assert!(!node.said.iter().any(|output| matches!(output, Output::Kept { .. })));
    }
}

#[test]
fn pieces_join_after_other_content_left() {
    // The forged fragment has the lower bundle number. Once it has expired, the fragments of the genuine content must
    // still be found and joined.
    for mut node in nodes() {
        node.register(7);
        let stranger = node.comes(0, EndpointId::ipn(66, 0));
        node.receive_over(stranger, 1, hundred(b'F').lifetime_ms(1000).piece(0..40));
        let [first, second] = halves(&hundred(b'H'));
        node.receive_over(stranger, 2, first);
        node.wait_ms(2000);
        node.receive_over(stranger, 3, second);
        assert_eq!(node.deliveries().len(), 1, "{:?}", node.verdicts());
    }
}

#[test]
fn displaced_bundle_emits_refused_event() {
    let mut node = Node::new();
    let stranger = node.comes(0, EndpointId::ipn(66, 0));
    let true_one = honest(1, here());
    node.receive_over(stranger, 1, forged(&true_one));
    node.receive(2, true_one.clone());
    let key = Some(true_one.meta.key());
    let refused = farlink_base::Event::Refused { link: None, key, reason: Refusal::NotAcceptable };
    assert_eq!(node.events().iter().filter(|event| **event == refused).count(), 1);
}

#[test]
fn strangers_whole_rejoined_from_vouched_pieces() {
    // The fragments of an unauthenticated peer were joined already. The bundle is joined again once a vouched-for copy
    // of each fragment has come.
    let mut node = Node::new();
    let stranger = node.comes(0, EndpointId::ipn(66, 0));
    let parts = halves(&hundred(b'H'));
    for (n, part) in (1..).zip(parts.clone()) {
        node.receive_over(stranger, n, part);
    }
    assert!(node.waits_for().contains("part of"), "{}", node.waits_for());
    node.receive(3, parts[0].clone());
    node.register(7);
    assert_eq!(node.deliveries().len(), 0, "half of it is a stranger's");
    node.receive(4, parts[1].clone());
    assert_eq!(node.deliveries().len(), 1);
    answer_all(&mut node);
    assert_eq!(node.held(), 0);
}

#[test]
fn strangers_whole_awaits_vouched_pieces() {
    // The first vouched-for fragment dissolves the bundle that was joined from unauthenticated ones. Its other half is
    // not vouched for yet, so nothing is delivered.
    for mut node in nodes() {
        let stranger = node.comes(0, EndpointId::ipn(66, 0));
        let whole = honest(1, here());
        let len = whole.meta.payload.len();
        let halves = [0..len / 2, len / 2..len];
        for (ticket, range) in (1..).zip(halves.clone()) {
            node.receive_over(stranger, ticket, whole.piece(range));
        }
        assert_eq!((node.held(), node.agent.status(node.now).strangers.0), (3, 2), "two pieces and their whole");
        node.receive(11, whole.piece(halves[0].clone()));
        assert_eq!((node.held(), node.agent.status(node.now).strangers.0), (2, 1), "somebody vouches for one");
        node.register(7);
        assert_eq!(node.deliveries().len(), 0);
        node.receive(12, whole.piece(halves[1].clone()));
        assert!(node.deliveries().len() == 1 && is_honest(&node.deliveries()[0].1.payload));
        answer_all(&mut node);
        assert_eq!((node.held(), node.agent.counts().fragments), (0, 0));
    }
}
