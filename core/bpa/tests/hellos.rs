//! Hellos: one-hop messages that neighbours exchange when they meet.

use crate::support;

use crate::support::meeting::{alone, carried, data, hello, hello_of, names, nine};
use crate::support::{Bundle, Script};
use farlink_base::{EndpointId, Facts, LinkId, Payload, Priority, Refusal};
use farlink_book::{EventMask, PolicyEvent};

#[test]
fn hello_accepted_from_its_sender_only() {
    // With a summary in use, no copy leaves before the neighbour's summary.
    let mut node = alone(Script::epidemic());
    carried(&mut node, 1, nine());
    let id = node.agent.bundles(node.now, farlink_base::BundleHandle(0), 1)[0].id.fingerprint_in(support::toy::VERSION);
    node.carrier(0, true);
    let sent = node.take_sent();
    assert_eq!(sent.len(), 1, "nothing is copied before the summary is here");
    assert_eq!((sent[0].bundle.is_administrative(), &sent[0].bundle.destination), (true, &EndpointId::ipn(2, 0)));
    // A neighbour may speak only for itself, or it could end the wait for another's summary.
    let content = [&[b'H', 1, 1][..], &[0; 24]].concat();
    hello_of(&mut node, 0, EndpointId::ipn(3, 0), content);
    assert_eq!(names(&data(&mut node)), []);
    hello(&mut node, 0, &[id], true);
    assert_eq!(names(&data(&mut node)), [], "it has it");
    node.carrier(1, true);
    hello(&mut node, 1, &[id ^ 1], true);
    assert_eq!(names(&data(&mut node)), [(1, 1)]);
}

#[test]
fn summary_wait_ends() {
    let mut node = alone(Script::epidemic());
    carried(&mut node, 1, nine());
    node.carrier(0, true);
    node.wait_ms(1990);
    assert_eq!(names(&data(&mut node)), []);
    node.wait_ms(20);
    assert_eq!(names(&data(&mut node)), [(0, 1)]);
}

#[test]
fn summary_lists_held_and_delivered_bundles() {
    let mut node = alone(Script::epidemic());
    for n in 1..=3 {
        carried(&mut node, n, nine());
    }
    node.register(1);
    carried(&mut node, 4, EndpointId::ipn(1, 1));
    node.carrier(1, true);
    node.carrier(1, false);
    node.carrier(1, true);
    let sent = node.take_sent();
    let hello = sent.iter().rfind(|s| s.bundle.is_administrative()).unwrap();
    let bytes = hello.bundle.payload.to_bytes().unwrap();
    assert_eq!(u32::from_be_bytes(bytes[19..23].try_into().unwrap()), 4, "other hellos are no bundles to have");
}

#[test]
fn failed_hello_repeated_to_same_neighbour() {
    // A hello is for one neighbour; after its link goes down the content is out of date.
    let mut node = alone(Script::flood());
    node.carrier(0, true);
    let hello = node.take_sent();
    assert_eq!(hello.len(), 1);
    node.fail(hello[0].id, None);
    node.carrier(1, true);
    node.wait_ms(2500);
    let sent = node.take_sent();
    assert!(
        !sent.is_empty() && sent.iter().all(|s| s.bundle.destination == EndpointId::ipn(u64::from(s.link.0) + 2, 0)),
        "{sent:?}"
    );
    assert_eq!(sent.iter().filter(|s| s.link == LinkId(0)).count(), 1);
    node.fail(sent.iter().find(|s| s.link == LinkId(0)).unwrap().id, Some(Refusal::NoResources));
    node.carrier(0, false);
    assert!(
        node.agent
            .bundles(node.now, farlink_base::BundleHandle(0), 9)
            .iter()
            .all(|b| b.destination != EndpointId::ipn(2, 0)),
        "out of date"
    );
}

#[test]
fn policies_see_no_hellos() {
    let (said, heard) = std::sync::mpsc::channel();
    let script = Script {
        hears: EventMask::ALL,
        on: Box::new(move |_, news, _| match news {
            PolicyEvent::Up { .. }
            | PolicyEvent::Down { .. }
            | PolicyEvent::LinkUp { .. }
            | PolicyEvent::LinkDown { .. } => {}
            news => said.send(format!("{news:?}")).unwrap_or_default(),
        }),
        ..Script::flood()
    };
    let mut node = alone(script);
    node.carrier(0, true);
    let hello = node.take_sent();
    node.fail(hello[0].id, None);
    let again = node.take_sent();
    node.confirm(again[0].id);
    assert_eq!(heard.try_iter().collect::<Vec<_>>(), Vec::<String>::new());
    assert_eq!(node.held(), 0);
}

#[test]
fn stale_summary_causes_no_second_copy() {
    // The summary was made before the copy arrived; the confirmation of the copy is newer.
    let mut node = alone(Script::epidemic());
    carried(&mut node, 1, nine());
    node.carrier(0, true);
    node.wait_ms(2100);
    let copy = data(&mut node);
    assert_eq!(names(&copy), [(0, 1)]);
    hello(&mut node, 0, &[], true);
    node.confirm(copy[0].id);
    node.admin(farlink_bpa::app::AdminInput::AddRoute { pattern: "ipn:44.0".into(), next_hop: nine() });
    node.carrier(0, false);
    node.carrier(0, true);
    node.wait_ms(2100);
    assert_eq!(names(&data(&mut node)), []);
    // The neighbour refuses the copy as a duplicate. It has the bundle then, although its last summary did not list it,
    // and gets no further copy.
    node.send(nine(), Priority::Normal);
    let copy = data(&mut node);
    hello(&mut node, 0, &[], true);
    let again = data(&mut node);
    node.fail(copy[0].id, Some(Refusal::Duplicate));
    node.wait_ms(30_000);
    assert_eq!((copy.len(), names(&again), names(&data(&mut node))), (1, vec![(0, 1)], vec![]));
}

#[test]
fn stranger_claiming_own_name_is_nameless() {
    let mut node = alone(Script::epidemic());
    node.comes(1, EndpointId::ipn(1, 0));
    assert!(node.sent().is_empty(), "no hello to oneself");
    assert_eq!(node.held(), 0);
    let link = node.agent.status(node.now).links.into_iter().find(|link| link.name != "to2" && link.name != "to3");
    assert!(link.is_none_or(|link| link.peer.is_null()));
}

/// A hello of the neighbour with this sequence number.
fn hello_at(sequence: u64, ids: &[u128]) -> Bundle {
    let mut content = vec![b'H', 1, 1];
    content.extend_from_slice(&[0; 16]);
    content.extend_from_slice(&(ids.len() as u32).to_be_bytes());
    ids.iter().for_each(|id| content.extend_from_slice(&(*id as u64).to_be_bytes()));
    content.extend_from_slice(&[0; 4]);
    let hello = Bundle::new(EndpointId::ipn(2, 0), EndpointId::ipn(1, 0), sequence);
    hello.facts(Facts::ADMIN).payload(Payload::from(content))
}

#[test]
fn hello_needs_no_store_room() {
    // A full store must still learn which bundles its neighbours have, so hellos bypass admission.
    let mut node = alone(Script::epidemic());
    carried(&mut node, 1, nine());
    let id = node.agent.bundles(node.now, farlink_base::BundleHandle(0), 1)[0].id.fingerprint_in(support::toy::VERSION);
    node.send_bytes(nine(), (1 << 20) - 2000);
    node.said.clear();
    node.begins(0, 40, Bundle::new(EndpointId::ipn(5, 5), nine(), 2));
    assert_eq!(node.verdicts(), [(40, Err(Refusal::NoResources))], "the store is full");
    node.carrier(0, true);
    node.said.clear();
    let (full, long) = (hello_at(50, &[id]), hello_at(51, &[id]).payload(Payload::fill(1, 3 << 20)));
    node.begins(0, 41, full.clone());
    assert_eq!(node.verdicts(), [], "a hello in several parts is no data");
    node.receive(41, full);
    assert_eq!(node.verdicts(), [(41, Ok(()))]);
    assert!(!names(&data(&mut node)).contains(&(0, 1)), "and was heard");
    node.begins(0, 42, long);
    assert!(matches!(node.verdicts()[..], [(42, Err(_))]), "longer than any hello: {:?}", node.verdicts());
    // A record of another node needs room like any bundle.
    let other = hello_at(60, &[]).payload(Payload::fill(1, 1000));
    node.begins(0, 43, other.change(|meta| meta.source = EndpointId::ipn(3, 0)));
    assert_eq!(node.verdicts()[1..], [(43, Err(Refusal::NoResources))]);
}

#[test]
fn old_and_repeated_hellos_ignored() {
    // A replayed hello must not replace newer knowledge about the neighbour.
    let mut node = alone(Script::epidemic());
    carried(&mut node, 1, nine());
    let id = node.agent.bundles(node.now, farlink_base::BundleHandle(0), 1)[0].id.fingerprint_in(support::toy::VERSION);
    let copies = |node: &mut support::Node, hello: Bundle| {
        node.receive(5000, hello);
        let copies = data(node);
        copies.iter().for_each(|copy| node.fail(copy.id, Some(Refusal::Duplicate)));
        node.said.clear();
        copies.len()
    };
    node.carrier(0, true);
    assert_eq!(copies(&mut node, hello_at(50, &[id])), 0, "it has it");
    assert_eq!(copies(&mut node, hello_at(49, &[])), 0, "made before that");
    assert_eq!(copies(&mut node, hello_at(50, &[])), 0, "heard before");
    assert_eq!(copies(&mut node, hello_at(60, &[]).lifetime_ms(0)), 0, "expired");
    assert_eq!(copies(&mut node, hello_at(51, &[])), 1, "newer: it lacks it");
    // A new encounter starts a new sequence.
    node.carrier(0, false);
    node.carrier(0, true);
    assert_eq!(copies(&mut node, hello_at(2, &[])), 1);
    // A neighbour without clock or memory restarted its numbering.
    let forgot = |sequence| hello_at(sequence, &[]).created_ms(0);
    node.wait_ms(30_000);
    assert_eq!(copies(&mut node, forgot(1)), 0);
    node.wait_ms(30_000);
    node.send(nine(), Priority::Normal);
    data(&mut node).iter().for_each(|copy| node.fail(copy.id, Some(Refusal::Duplicate)));
    assert_eq!(copies(&mut node, forgot(2).age_ms(60_000)), 0, "expired");
    assert_eq!(copies(&mut node, forgot(2)), 1);
}

#[test]
fn policy_message_joins_pending_hello() {
    // The link is blocked, so the first hello is still pending when the second message comes.
    use farlink_book::Action;
    let script = Script {
        on: Box::new(|node, news, out| match *news {
            PolicyEvent::Up { peer } => {
                out.tell(peer, b"first ".to_vec());
                out.push(Action::Wake(node.now + core::time::Duration::from_secs(1)));
            }
            PolicyEvent::Wake => node.peers.up().for_each(|peer| out.tell(peer.id, b"second".to_vec())),
            _ => {}
        }),
        hears: EventMask::PEERS,
        ..Script::epidemic()
    };
    let mut node = alone(script);
    carried(&mut node, 1, nine());
    node.ready(0, false);
    node.carrier(0, true);
    node.wait_ms(1500);
    assert!(node.take_sent().is_empty());
    node.ready(0, true);
    let sent = node.take_sent();
    assert_eq!(sent.len(), 1, "one hello is enough");
    let bytes = sent[0].bundle.payload.to_bytes().unwrap();
    let said = |text: &[u8]| bytes.windows(text.len()).any(|window| window == text);
    assert!(said(b"first second"));
    assert_eq!(u32::from_be_bytes(bytes[19..23].try_into().unwrap()), 1, "and what it holds");
}

#[test]
fn refused_hello_repeated_after_backoff() {
    let mut node = alone(Script::flood());
    node.carrier(0, true);
    let hello = node.take_sent();
    node.fail(hello[0].id, Some(Refusal::NoResources));
    assert_eq!(node.take_sent().len(), 0, "not at once");
    node.wait_ms(1100);
    let again = node.take_sent();
    assert_eq!(
        again.iter().map(|sent| (sent.link, sent.bundle.is_administrative())).collect::<Vec<_>>(),
        [(LinkId(0), true)]
    );
}

#[test]
fn returned_hello_is_accepted() {
    let mut node = alone(Script::flood());
    node.carrier(0, true);
    let hello = node.take_sent();
    node.receive_over(1, 9, hello[0].arrives());
    assert_eq!(node.verdicts(), [(9, Ok(()))]);
}

#[test]
fn received_summary_ends_its_wait() {
    let mut node = alone(Script::epidemic());
    let before = node.agent.counts().timers;
    node.carrier(0, true);
    assert_eq!(node.agent.counts().timers, before + 1);
    hello(&mut node, 0, &[], true);
    assert_eq!(node.agent.counts().timers, before);
}

#[test]
fn messages_for_departed_neighbour_dropped() {
    use crate::support::{Node, Rule, settings};
    let script = Script {
        on: Box::new(|_, news, out| {
            if let PolicyEvent::Up { peer } = *news {
                out.tell(peer, b"word".to_vec());
            }
        }),
        hears: EventMask::PEERS,
        ..Script::epidemic()
    };
    // Without a clock no hello can leave before sequence numbers are reserved.
    let mut node = Node::closed(settings(), None, script, Rule::default());
    node.open();
    for _ in 0..3 {
        node.carrier(1, false);
        node.carrier(1, true);
    }
    let counter = |o: &farlink_bpa::Output| match o {
        farlink_bpa::Output::Store(farlink_base::store::Input::SetCounter { value }) => Some(*value),
        _ => None,
    };
    let value = node.said.iter().find_map(counter).expect("numbers are reserved");
    assert_eq!(node.take_sent().len(), 0);
    node.tell(farlink_bpa::Input::Store(farlink_base::store::Output::CounterSet { value }));
    let words = |sent: &crate::support::Sent| {
        let bytes = sent.bundle.payload.to_bytes().unwrap();
        bytes.windows(4).filter(|window| *window == b"word").count()
    };
    assert_eq!(node.sent().iter().map(words).collect::<Vec<_>>(), [1, 1], "of each neighbour the last");
}
