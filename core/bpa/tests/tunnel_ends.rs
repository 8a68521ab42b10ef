//! Bundle-in-bundle encapsulation (draft-ietf-dtn-bibect): the end of a tunnel transmission in all circumstances.

use crate::support;

use crate::support::tunnels::*;
use crate::support::{Node, from_two};
use farlink_base::{Duration, EndpointId, Event, Payload, Refusal};
use farlink_bpa::{Answer, CustodySettings, Input, Numbers, Settings};

fn custody(change: impl FnOnce(&mut farlink_bpa::TunnelSettings)) -> Node {
    let custody = CustodySettings { timeout: Duration::from_secs(10), ..CustodySettings::default() };
    Node::with(Settings { custody: Some(Box::new(custody)), ..tunnel(change) }, None)
}
/// Outer bundles that left.
fn around(node: &Node) -> Vec<support::Sent> {
    let is = |sent: &support::Sent| sent.bundle.payload.to_bytes().is_some_and(|bytes| bytes.first() == Some(&b'I'));
    outer(node).into_iter().filter(is).collect()
}

#[test]
fn signal_from_before_return_ends_nothing() {
    // The far end forwarded the bundle, and another node returned it here before the far end's signal came. That node
    // no longer has it: if the signal released the bundle here, it would be lost.
    for begun in [false, true] {
        let mut node = node();
        let first = through(&mut node, 1);
        node.said.clear();
        if begun {
            // The bundle comes back while it waits for its retransmission.
            node.wait(Duration::from_millis(10_500));
            assert!(inside(&node).is_empty());
            node.begins(1, 2, to_nine(1));
            assert_eq!(node.verdicts(), [(2, Err(Refusal::Duplicate))], "it is here");
        } else {
            node.receive_over(1, 2, to_nine(1));
            assert_eq!(node.verdicts(), [(2, Ok(()))]);
        }
        signal(&mut node, 3, 1, Answer::Taken, &run(first, first));
        assert_eq!(node.held(), 1, "begun: {begun}");
        node.wait(Duration::from_secs(5));
        let given = wrap(&mut node);
        assert_eq!(given, [first + 1]);
        let left = outer(&node)[0].id;
        node.confirm(left);
        signal(&mut node, 3, 2, Answer::Taken, &run(first, first + 1));
        assert_eq!(node.held(), 0, "the new one counts");
    }
}

#[test]
fn previous_nodes_repeat_keeps_transmissions() {
    // The previous node missed the acknowledgment; the hop count shows that the bundle took no other path.
    let mut node = node();
    node.receive(1, to_nine(1).hops(1, 9));
    let given = wrap(&mut node);
    let left = outer(&node);
    node.confirm(left[0].id);
    node.receive(2, to_nine(1).hops(1, 9));
    signal(&mut node, 3, 1, Answer::Taken, &run(given[0], given[0]));
    assert_eq!(node.held(), 0);
}

#[test]
fn signals_request_no_signals() {
    // The tunnel also takes bundles for its far end. So this node's signals to the far end enter the tunnel, where each
    // would request another signal.
    let mut node = Node::with(tunnel(|tunnel| tunnel.to = vec!["*".into()]), None);
    node.receive_over(1, 1, record(3, 1, carried(77)));
    let [delivery] = open(&mut node)[..] else { panic!("one") };
    comes_out(&mut node, delivery, from_two(5, EndpointId::ipn(1, 1)));
    judge(&mut node);
    node.said.clear();
    node.wait(Duration::from_secs(2));
    assert_eq!(inside(&node).len(), 1, "the signal goes in");
    assert_eq!(wrap(&mut node), [0], "and nothing is to be said about it");
    let left = outer(&node)[0].id;
    node.confirm(left);
    assert_eq!(node.held(), 1, "only what was inside is here");
    // Any other bundle for the far end requests a signal.
    node.receive(2, from_two(6, EndpointId::ipn(3, 1)));
    assert!(wrap(&mut node)[0] > 0);
}

#[test]
fn custody_continues_behind_far_end() {
    // A signal of the far end means that it has the bundle, not that it accepted custody.
    for late in [false, true] {
        let mut node = custody(|_| {});
        node.receive(1, to_nine(1).custody(2, None));
        let first = wrap(&mut node)[0];
        let left = around(&node)[0].id;
        node.said.clear();
        node.confirm(left);
        if late {
            node.wait(Duration::from_millis(10_500));
            assert!(inside(&node).is_empty());
            assert!(node.why(1).starts_with("the tunnel to ipn:3.0, tried again in"), "{}", node.why(1));
        }
        node.said.clear();
        signal(&mut node, 3, 1, Answer::Taken, &run(first, first));
        assert_eq!(count(&node, |event| matches!(event, Event::CustodyReleased { .. })), 0);
        let why = node.why(1);
        assert!(why.starts_with("in custody") && why.ends_with("10 s more"), "late: {late}: {why}");
        node.wait(Duration::from_secs(11));
        assert_eq!(count(&node, |event| matches!(event, Event::CustodyRepeated { .. })), 1, "late: {late}");
        assert_eq!(inside(&node).len(), 1, "it goes again");
    }
}

#[test]
fn late_signal_admits_waiting_bundle() {
    let mut node = custody(|tunnel| tunnel.bundles = 1);
    node.receive(1, to_nine(1).custody(2, None));
    let first = wrap(&mut node)[0];
    let left = around(&node)[0].id;
    node.confirm(left);
    // Bundle 1 enters the tunnel again, as a retransmission; bundle 2 must wait, because the tunnel takes one bundle at
    // a time.
    node.wait(Duration::from_secs(12));
    assert_eq!(inside(&node).len(), 1);
    node.receive(2, to_nine(2));
    node.said.clear();
    assert_eq!(node.why(1), "the tunnel to ipn:3.0");
    signal(&mut node, 3, 1, Answer::Taken, &run(first, first));
    let sequences: Vec<u64> = inside(&node).iter().map(|sent| sent.bundle.sequence).collect();
    assert_eq!(sequences, [2], "the first stays in custody, and is not on its way in any more");
}

#[test]
fn long_signals_end_admits_waiting_bundle() {
    // A long signal is processed after its own bundle has left, and the bundles it names stay in custody: no departure
    // would admit the waiting ones.
    let mut node = custody(|tunnel| tunnel.bundles = 20);
    (1..=20).for_each(|n| node.receive(n, to_nine(n).custody(2, None)));
    let given = wrap(&mut node);
    let leave = |node: &mut Node| around(node).into_iter().for_each(|sent| node.confirm(sent.id));
    leave(&mut node);
    // The bundles are retransmitted: 19 leave again, and the last is still entering the tunnel. New bundles take the 19
    // free places.
    node.wait(Duration::from_secs(12));
    let again = inside(&node);
    assert_eq!((again.len(), again[19].bundle.sequence), (20, 20));
    node.said.clear();
    for sent in &again[..19] {
        node.tell(Input::Rendered { id: sent.id, rope: Payload::from(vec![7; 50]) });
    }
    leave(&mut node);
    (21..=40).for_each(|n| node.receive(n, to_nine(n)));
    assert_eq!(inside(&node).iter().map(|sent| sent.bundle.sequence).collect::<Vec<_>>(), (21..40).collect::<Vec<_>>());
    node.said.clear();
    signal(&mut node, 3, 1, Answer::Taken, &run(given[0], given[19]));
    assert_eq!(inside(&node).iter().map(|sent| sent.bundle.sequence).collect::<Vec<_>>(), [40]);
}

#[test]
fn refusal_ends_signal_wait() {
    // A refusal is also a signal, so the timeout for a missing signal no longer applies.
    let mut node = Node::with(tunnel(|tunnel| tunnel.bundles = 1), None);
    let first = through(&mut node, 1);
    node.receive(2, to_nine(2));
    signal(&mut node, 3, 1, Answer::Depleted, &run(first, first));
    node.wait(Duration::from_secs(30));
    assert_eq!(count(&node, |event| matches!(event, Event::CustodyRepeated { .. })), 0, "nothing was waited for");
    assert_eq!(node.why(1), "room in the tunnel to ipn:3.0");
}

#[test]
fn repeated_ranges_cost_their_length() {
    // Ranges may overlap as often as the length of a record allows.
    let mut node = Node::with(Settings { capacity_bytes: 1 << 30, ..tunnel(|_| {}) }, None);
    let given: Vec<u64> = (1..=200).map(|n| through(&mut node, n)).collect();
    let run = Numbers { sequence: 0, destination: EndpointId::Null, first: given[0], last: given[199] };
    let payload = farlink_bpa::Edge::tunnel_signal(
        &support::Toy,
        farlink_bpa::TunnelCodes::default(),
        Answer::Depleted,
        &vec![run; 10_000],
    );
    node.receive_over(1, 5000, record(3, 5000, payload));
    let pick = |output: &farlink_bpa::Output| match output {
        farlink_bpa::Output::Open { output: farlink_bpa::app::AppOutput::Deliver { delivery, bundle, .. }, .. } => {
            Some((*delivery, bundle.payload.clone()))
        }
        _ => None,
    };
    let (delivery, payload) = node.said.iter().find_map(pick).expect("it is opened");
    node.said.clear();
    node.once(Input::Outer { delivery, payload });
    let mut calls = 0;
    while node.agent.next_timeout().is_some_and(|at| at <= node.now) {
        node.once(Input::Wake);
        calls += 1;
    }
    assert!(calls < 10, "{calls} calls");
    assert_eq!(count(&node, |event| matches!(event, Event::ForwardFailed { .. })), 200);
}

#[test]
fn restart_repeats_bundle_as_redundant() {
    // After a crash the bundles enter again under new numbers, which older signals do not name.
    let mut node = node();
    let first = through(&mut node, 1);
    let (meta, hop) = to_nine(1).parts();
    let mut again =
        Node::closed(Settings { seed: 99, ..tunnel(|_| {}) }, None, support::NoRouter, support::Rule::default());
    again.tell(Input::Clock(support::clock_at(again.now)));
    let index = farlink_base::store::IndexEntry {
        priority: farlink_base::Priority::Normal,
        expires: None,
        stored_at: None,
        ran_ms: None,
        age_ms: 0,
        quota: 0,
        fingerprint: meta.id,
        flags: 0,
        digest: 0,
    };
    again.tell(Input::Recovered { bundle: farlink_base::BundleHandle(1), index, meta, hop });
    again.open();
    let given = wrap(&mut again);
    assert!(given.len() == 1 && given[0] != first);
    let left = around(&again)[0].id;
    again.confirm(left);
    signal(&mut again, 3, 1, Answer::Taken, &run(first, first));
    assert_eq!((again.held(), ignored(&again)), (1, 1), "nobody gave that number");
    signal(&mut again, 3, 2, Answer::Redundant, &run(given[0], given[0]));
    assert_eq!(again.held(), 0);
}

#[test]
fn tunnelled_bundle_names_own_custodian() {
    let mut node = custody(|_| {});
    node.receive(1, to_nine(1).custody(2, None));
    assert_eq!(inside(&node)[0].hop.custodian, EndpointId::ipn(1, 0));
}

#[test]
fn custody_accepted_behind_tunnel_ends_here() {
    let mut node = custody(|tunnel| tunnel.custody = false);
    node.receive(1, to_nine(1).custody(2, None));
    let about = farlink_bpa::About::One(inside(&node)[0].arrives().meta.identity());
    wrap(&mut node);
    let left = around(&node)[0].id;
    node.confirm(left);
    assert!(node.why(1).starts_with("in custody"), "{}", node.why(1));
    let taken = farlink_bpa::Signal { answer: Answer::Taken, about };
    let payload = farlink_bpa::Edge::custody_signal(&support::Toy, support::toy::VERSION, &taken, None).unwrap();
    node.receive_over(1, 20, record(3, 20, payload));
    open(&mut node);
    assert_eq!(count(&node, |event| matches!(event, Event::CustodyReleased { .. })), 1);
}
