//! Reception (RFC 9171 sections 5.2, 5.6): an accepted bundle is a stored one.

use crate::support;

use crate::support::{Bundle, Node, from_two, request, settings, token};
use farlink_base::layer::SendId;
use farlink_base::{
    BundleHandle, Clock, DeleteReason, DtnTime, Duties, EndpointId, Event, LinkId, Malformed, Payload, Priority,
    Refusal, store,
};
use farlink_bpa::app::{AdminInput, SendRequest};
use farlink_bpa::{Input, Output, Settings};

fn here() -> EndpointId {
    EndpointId::ipn(1, 1)
}

/// Keeps 9171-5.2-1, 5050-5.2-3.
#[test]
fn application_answered_after_commit() {
    // Forwarding overtakes the commit; the application's answer does not.
    let mut node = Node::new();
    node.commit = false;
    node.send(EndpointId::ipn(2, 1), Priority::Normal);
    assert_eq!(node.sent().len(), 1, "forwarding does not wait for the disk");
    assert!(node.results().is_empty(), "the application waits for it");
    node.stored(1);
    assert_eq!(node.results(), [true]);
}

/// Keeps 9171-5.4-6, 9171-5.4-11, 5050-3.1-6, 5050-5.4-7, 5050-5.4-11.
#[test]
fn confirmed_bundle_leaves_with_verdict() {
    // The next node's confirmation settles the pending verdict; no commit is needed any more.
    let mut node = Node::new();
    node.commit = false;
    node.receive(4, from_two(1, EndpointId::ipn(3, 1)));
    let sent = node.sent()[0].clone();
    assert_eq!(sent.link, LinkId(1));
    assert!(node.verdicts().is_empty(), "it is nowhere yet but in memory");
    node.confirm(sent.id);
    assert_eq!(node.forgotten(), [(1, false)]);
    assert_eq!(node.verdicts(), [(4, Ok(()))], "its next custodian has it");
    node.stored(1);
    assert_eq!(node.verdicts().len(), 1, "said once");
    assert_eq!(node.held(), 0);
}

#[test]
fn full_disk_refuses_arrival() {
    let mut node = Node::new();
    node.commit = false;
    node.receive(4, from_two(1, here()));
    node.store_refuses(1);
    assert_eq!(node.verdicts(), [(4, Err(Refusal::NoResources))]);
    assert_eq!((node.held(), node.forgotten()), (0, vec![]), "the store has no record to forget");
}

#[test]
fn duplicate_acknowledged_after_first_commit() {
    let mut node = Node::new();
    node.commit = false;
    node.receive(1, from_two(1, here()));
    node.receive(2, from_two(1, here()));
    assert!(node.verdicts().is_empty());
    node.stored(1);
    assert_eq!(node.verdicts(), [(1, Ok(())), (2, Ok(()))]);
    node.receive(3, from_two(1, here()));
    assert_eq!(node.verdicts().last(), Some(&(3, Ok(()))));
    assert_eq!(node.held(), 1);
}

/// Keeps 9171-5.6-1.
#[test]
fn received_bundle_dispatched_when_route_appears() {
    let mut node = Node::new();
    node.receive(1, from_two(1, EndpointId::ipn(8, 1)));
    assert_eq!((node.held(), node.put().len(), node.sent().len(), node.deliveries().len()), (1, 1, 0, 0));
    node.receive(2, from_two(2, EndpointId::ipn(1, 7)));
    assert_eq!((node.held(), node.put().len(), node.deliveries().len()), (2, 2, 0));
    node.admin(AdminInput::AddRoute { pattern: "ipn:8.*".into(), next_hop: EndpointId::ipn(3, 0) });
    node.register(7);
    assert_eq!((node.sent_over(1), node.deliveries().len()), (vec![1], 1));
}

/// Keeps 9171-5.4-2, 9171-5.6-1, 9171-5.6-4, 5050-5.6-2.
#[test]
fn hop_limit_and_block_flags_obeyed() {
    let mut node = Node::new();
    node.receive(1, from_two(1, EndpointId::ipn(3, 1)).hops(3, 2));
    node.receive(2, from_two(2, EndpointId::ipn(3, 1)).duties(Duties::DELETE));
    node.receive(3, from_two(3, EndpointId::ipn(3, 1)));
    assert_eq!(node.deleted(), [DeleteReason::HopLimit, DeleteReason::BlockUnsupported]);
    assert_eq!(node.sent_over(1), [3]);
}

/// Keeps 9172-5.1.1-9.
#[test]
fn insecure_arrival_blocks_no_genuine_bundle() {
    // The edge marks the arrival; it is acknowledged, deleted, and never remembered as a duplicate.
    let insecure = Duties::default().with_security(DeleteReason::FailedSecurity).0;
    let mut node = Node::new();
    node.register(7);
    node.receive(1, from_two(1, EndpointId::ipn(1, 7)).duties(insecure));
    assert_eq!((node.verdicts(), node.deleted()), (vec![(1, Ok(()))], vec![DeleteReason::FailedSecurity]));
    assert_eq!((node.deliveries().len(), node.held()), (0, 0));
    node.receive(2, from_two(1, EndpointId::ipn(1, 7)));
    assert_eq!(node.deliveries().len(), 1, "the same identity, and right");
    node.receive(3, from_two(1, EndpointId::ipn(1, 7)).duties(insecure));
    assert_eq!((node.held(), node.verdicts().last()), (1, Some(&(3, Ok(())))), "it only says it is that one");
}

#[test]
fn insecure_delivery_deletes_bundle() {
    let mut node = Node::new();
    node.register(7);
    node.receive(1, from_two(1, EndpointId::ipn(1, 7)));
    let delivery = node.deliveries()[0].0;
    node.tell(Input::Insecure { delivery, reason: DeleteReason::MissingSecurity });
    assert_eq!((node.deleted(), node.held()), (vec![DeleteReason::MissingSecurity], 0));
    node.receive(2, from_two(2, EndpointId::ipn(1, 7)));
    assert_eq!(node.deliveries().len(), 2, "its window is open again");
    node.tell(Input::Insecure { delivery, reason: DeleteReason::MissingSecurity });
    assert_eq!(node.held(), 1, "said of a delivery that is over, it says nothing");
}

#[test]
fn full_node_refuses_without_acknowledging() {
    let mut node = Node::with(Settings { capacity_bytes: 2500, ..settings() }, None);
    for n in 1..=3 {
        node.receive(n, from_two(n, here()));
    }
    assert_eq!(node.verdicts(), [(1, Ok(())), (2, Ok(())), (3, Err(Refusal::NoResources))]);
}

/// Keeps 9171-4.2.7-2, 9171-4.4.2-2.
#[test]
fn clockless_node_numbers_durably_and_ages() {
    let mut node = Node::closed(settings(), None, support::NoRouter, support::Rule::default());
    node.tell(Input::Clock(Clock::UNTRUSTED));
    node.open();
    node.send(EndpointId::ipn(2, 1), Priority::Normal);
    assert!(node.sent().is_empty(), "no number before one is durable");
    let value = node.said.iter().find_map(|o| match o {
        Output::Store(store::Input::SetCounter { value }) => Some(*value),
        _ => None,
    });
    node.tell(Input::Store(store::Output::CounterSet { value: value.unwrap() }));
    let sent = &node.sent()[0];
    assert_eq!((sent.bundle.creation().time, sent.hop.age_ms), (DtnTime(0), 0));
    assert!(sent.bundle.facts.has(farlink_base::Facts::AGE));
}

/// Keeps 9171-5.6-2, 9171-5.6-3.
#[test]
fn malformed_arrival_is_refused() {
    let mut node = Node::new();
    let error = Malformed { offset: 7, reason: "a block" };
    node.tell(Input::Malformed { link: LinkId(0), token: token(3), error });
    assert_eq!(node.verdicts(), [(3, Err(Refusal::NotAcceptable))]);
    assert!(node.events().iter().any(|e| matches!(e, Event::Malformed { offset: 7, .. })));
}

#[test]
fn refused_commit_settled_by_open_send() {
    // The store refused, but an open transmission can still bring the bundle to the next node.
    let mut node = Node::new();
    node.commit = false;
    node.receive(4, from_two(1, EndpointId::ipn(9, 1)));
    node.receive_over(1, 5, from_two(1, EndpointId::ipn(9, 1)).previous(3));
    let id = node.sent()[0].id;
    node.store_refuses(1);
    assert!(node.verdicts().is_empty(), "the debt waits for the send");
    // The bundle came back while it was being sent, so the confirmation of the first transmission does not release it.
    node.confirm(id);
    node.wait_ms(5000);
    let again = node.sent()[1].id;
    node.confirm(again);
    assert_eq!(node.verdicts(), [(4, Ok(())), (5, Ok(()))]);
    assert_eq!((node.held(), node.forgotten()), (0, vec![]));
}

#[test]
fn refused_commit_and_failed_send_refuse() {
    let mut node = Node::new();
    node.commit = false;
    node.send(EndpointId::ipn(2, 1), Priority::Normal);
    node.receive(4, from_two(1, EndpointId::ipn(3, 1)));
    let sent: Vec<SendId> = node.sent().iter().map(|s| s.id).collect();
    node.store_refuses(1);
    node.store_refuses(2);
    assert_eq!((node.results(), node.verdicts()), (vec![], vec![]));
    for id in sent {
        node.fail(id, None);
    }
    assert_eq!((node.results(), node.verdicts()), (vec![false], vec![(4, Err(Refusal::NoResources))]));
    assert_eq!((node.held(), node.agent.counts().debts), (0, 0));
}

#[test]
fn late_store_answer_is_ignored() {
    let mut node = Node::new();
    node.commit = false;
    node.receive(4, from_two(1, EndpointId::ipn(3, 1)));
    node.confirm(node.sent()[0].id);
    node.store_refuses(1);
    node.stored(1);
    node.stored(99);
    assert_eq!(node.verdicts(), [(4, Ok(()))]);
}

#[test]
fn anonymous_bundles_are_no_duplicates() {
    let mut node = Node::new();
    let anonymous = || Bundle::new(EndpointId::Null, EndpointId::ipn(3, 1), 1);
    node.receive(1, anonymous());
    node.receive(2, anonymous());
    assert_eq!((node.verdicts(), node.sent().len()), (vec![(1, Ok(())), (2, Ok(()))], 2));
    // Anonymous bundles have no identity that could be remembered as delivered.
    node.register(1);
    for ticket in 3..=4 {
        node.receive(ticket, Bundle::new(EndpointId::Null, here(), 2));
        let delivery = node.deliveries().last().unwrap().0;
        node.done(delivery, true);
    }
    assert_eq!((node.deliveries().len(), node.verdicts().len()), (2, 4));
    assert!(node.forgotten().iter().all(|(_, remembered)| !remembered));
}

#[test]
fn arrival_refused_early_at_head() {
    let mut node = Node::with(Settings { capacity_bytes: 5000, ..settings() }, None);
    node.receive(1, from_two(1, here()));
    node.begins(0, 2, from_two(1, here()));
    node.begins(0, 3, from_two(3, here()).payload(Payload::fill(0, 10_000)));
    node.begins(0, 4, from_two(4, here()).payload(Payload::fill(0, 4500)));
    node.begins(0, 5, from_two(5, EndpointId::Null));
    node.begins(0, 6, from_two(6, here()));
    let refusals = [Refusal::Duplicate, Refusal::TooLarge, Refusal::NoResources, Refusal::NotAcceptable];
    let want: Vec<_> = (2..).zip(refusals.map(Err)).collect();
    assert_eq!(node.verdicts()[1..], want, "the last may come");
    // While the payload is still arriving, the content cannot be compared.
    let standing_in = Payload::fill(77, from_two(1, here()).meta.payload.len());
    node.begins(0, 7, from_two(1, here()).payload(standing_in));
    assert_eq!(node.verdicts().len(), 5);
}

#[test]
fn bundle_above_length_limit_refused() {
    let limits = farlink_bpa::Limits { bundle_bytes: 4000, ..farlink_bpa::Limits::default() };
    let mut node = Node::with(crate::support::bounded(limits), None);
    node.receive(1, from_two(1, here()).payload(Payload::fill(0, 3900)));
    node.receive(2, from_two(2, here()).payload(Payload::fill(0, 4000)));
    node.begins(0, 3, from_two(3, here()).payload(Payload::fill(0, 4000)));
    node.send_bytes(EndpointId::ipn(2, 1), 4000);
    let too_large = |token| (token, Err(Refusal::TooLarge));
    assert_eq!(node.verdicts(), [(1, Ok(())), too_large(2), too_large(3)]);
    assert_eq!((node.results(), node.held()), (vec![false], 1));
}

/// Keeps 9171-5.2-2.
#[test]
fn group_as_source_is_refused() {
    let mut node = Node::new();
    for (ticket, source) in [(1, "dtn://any/~news"), (2, "dtn://a/news")] {
        node.receive(ticket, Bundle::new(source.parse().unwrap(), EndpointId::ipn(3, 1), ticket));
    }
    assert_eq!(node.verdicts(), [(1, Err(Refusal::NotAcceptable)), (2, Ok(()))]);
}

#[test]
fn undurable_duplicate_may_come_again() {
    let mut node = Node::new();
    node.commit = false;
    node.receive(1, from_two(1, here()));
    node.begins(0, 2, from_two(1, here()));
    assert_eq!(node.verdicts(), [], "had is said of what is durable only");
}

#[test]
fn reservations_count_until_kept_or_abandoned() {
    let mut node = Node::with(Settings { capacity_bytes: 2500, ..settings() }, None);
    node.begins(0, 1, from_two(1, here()));
    node.begins(0, 2, from_two(2, here()));
    node.receive(3, from_two(3, here()));
    assert_eq!(node.verdicts(), [(3, Err(Refusal::NoResources))]);
    node.send(EndpointId::ipn(2, 1), Priority::Normal);
    assert_eq!(node.results(), [false], "applications are no exception");
    node.tell(Input::Abandoned { token: token(2) });
    assert_eq!(node.agent.counts().promises, 1);
    node.receive(4, from_two(4, here()));
    node.receive(1, from_two(1, here()));
    assert_eq!(node.verdicts()[1..], [(4, Ok(())), (1, Ok(()))]);
    assert_eq!(node.agent.counts().promises, 0);
}

#[test]
fn malformed_arrival_releases_reservation() {
    let mut node = Node::new();
    node.begins(0, 1, from_two(1, here()));
    let error = Malformed { offset: 7, reason: "a block" };
    node.tell(Input::Malformed { link: LinkId(0), token: token(1), error });
    assert_eq!(node.agent.counts().promises, 0);
}

#[test]
fn opening_and_closing_node_refuses() {
    let mut node = Node::closed(settings(), None, support::NoRouter, support::Rule::default());
    node.tell(Input::Clock(support::clock_at(node.now)));
    node.receive(1, from_two(1, here()));
    node.send(EndpointId::ipn(2, 1), Priority::Normal);
    assert_eq!((node.verdicts(), node.results()), (vec![(1, Err(Refusal::NotOpen))], vec![]));
    node.open();
    assert_eq!(node.results(), [true], "requests wait for the store");
    node.admin(AdminInput::Shutdown);
    node.receive(2, from_two(2, here()));
    node.send(EndpointId::ipn(2, 1), Priority::Normal);
    assert_eq!((node.verdicts()[1], node.results()[1]), ((2, Err(Refusal::Terminating)), false));
}

/// Keeps 9171-5.2-2, 5050-5.2-4.
#[test]
fn foreign_source_and_null_destination_refused() {
    let mut node = Node::new();
    node.ask(SendRequest { source: EndpointId::ipn(2, 1), ..request(EndpointId::ipn(3, 1), Priority::Normal) });
    node.ask(request(EndpointId::Null, Priority::Normal));
    assert_eq!((node.results(), node.held()), (vec![false, false], 0));
}

/// Keeps 9758-5.4-1, 9758-5.4-2, 9758-5.4-3, 9758-5.4-4.
#[test]
fn local_node_name_never_crosses_links() {
    // RFC 9758 section 5.4: the name of the local node never leaves it, and is not accepted from outside.
    let here = EndpointId::Ipn { node: EndpointId::LOCAL_NODE, service: 5 };
    let mut node = Node::new();
    node.receive(1, from_two(1, here.clone()));
    node.receive(2, support::Bundle::new(here.clone(), EndpointId::ipn(3, 1), 2));
    node.receive(3, from_two(3, EndpointId::ipn(3, 1)).report_to(here.clone()));
    assert_eq!(node.verdicts(), [1, 2, 3].map(|token| (token, Err(Refusal::NotAcceptable))));
    // The local name of a source is replaced by the node's own ID before the bundle leaves.
    let own =
        |to: EndpointId| SendRequest { source: here.clone(), report_to: here.clone(), ..request(to, Priority::Normal) };
    node.ask(own(EndpointId::ipn(3, 1)));
    node.ask(own(here.clone()));
    let sent = node.sent();
    let left = &sent.last().unwrap().bundle;
    assert_eq!((&left.source, left.report_to()), (&EndpointId::ipn(1, 5), &EndpointId::ipn(1, 5)));
    assert!(sent.iter().all(|sent| !sent.bundle.destination.is_here()));
    assert_eq!(node.results(), [true, true]);
}

/// Keeps 9171-5.10-1, 9171-5.12-1, 5050-5.13-2, 5050-5.15-1.
#[test]
fn operator_cancels_bundle() {
    let mut node = Node::new();
    node.receive(1, from_two(1, here()));
    node.admin(AdminInput::Cancel { bundle: BundleHandle(1) });
    node.admin(AdminInput::Cancel { bundle: BundleHandle(1) });
    assert_eq!((node.deleted(), node.forgotten()), (vec![DeleteReason::Cancelled], vec![(1, false)]));
}

#[test]
fn forged_own_source_takes_no_timestamp() {
    // Timestamps used by forgeries in this node's name must be skipped, or its own bundle would be a duplicate.
    let mut node = Node::new();
    for sequence in 0..50 {
        node.receive(sequence, Bundle::new(EndpointId::ipn(1, 5), EndpointId::ipn(8, 1), sequence));
        node.receive(100 + sequence, Bundle::new(EndpointId::ipn(1, 0), EndpointId::ipn(8, 1), sequence));
    }
    node.send(EndpointId::ipn(2, 1), Priority::Normal);
    assert_eq!(node.sent()[0].bundle.sequence, 50);
    assert_eq!((node.results(), node.held()), (vec![true], 101));
}

#[test]
fn unwanted_arrival_leaves_nothing() {
    let mut node = Node::new();
    let whole = from_two(1, EndpointId::ipn(9, 1)).payload(Payload::fill(1, 10_000));
    node.begins(0, 1, whole.clone());
    let (bundle, hop) = whole.piece(0..4000).parts();
    node.tell(Input::Piece { link: LinkId(0), token: token(1), bundle, hop, promises: 0..4040 });
    assert_eq!((node.agent.counts().promises, node.held()), (1, 1));
    let (bundle, _) = whole.parts();
    node.tell(Input::Unwanted { link: LinkId(0), token: token(1), bundle, reason: Refusal::NotAcceptable });
    assert_eq!((node.agent.counts().promises, node.agent.counts().fragments, node.held()), (0, 0, 0));
    assert_eq!(node.verdicts(), [(1, Err(Refusal::NotAcceptable))]);
    let refused = |event: &Event| matches!(event, Event::Refused { reason: Refusal::NotAcceptable, .. });
    assert!(node.events().iter().any(refused));
}

/// Refused local requests: whether the bundle had an identity, and the reason.
fn refusals_here(node: &Node) -> Vec<(bool, Refusal)> {
    let pick = |event: Event| match event {
        Event::Refused { link: None, key, reason } => Some((key.is_some(), reason)),
        _ => None,
    };
    node.events().into_iter().filter_map(pick).collect()
}

#[test]
fn store_and_request_refusals_emit_events() {
    let mut node = Node::new();
    node.commit = false;
    node.receive(1, from_two(1, here()));
    node.store_refuses(1);
    assert_eq!(refusals_here(&node), [(true, Refusal::NoResources)]);
    node.send(EndpointId::Null, Priority::Normal);
    assert_eq!(refusals_here(&node)[1..], [(false, Refusal::NotAcceptable)]);
}

#[test]
fn diskless_clockless_node_sends_at_once() {
    // Without a store there is no durable counter to wait for.
    let settings = Settings { durable: false, ..settings() };
    let mut node = Node::closed(settings, None, support::NoRouter, support::Rule::default());
    node.open();
    for n in 1..=20_000 {
        node.send(EndpointId::ipn(2, 1), Priority::Normal);
        assert_eq!(node.results(), [true], "request {n}");
        let sent = node.take_sent();
        assert_eq!((sent.len(), sent[0].bundle.created_ms), (1, 0), "request {n}");
        node.confirm(sent[0].id);
        node.said.clear();
    }
}

#[test]
fn shutdown_input_emits_shutdown() {
    let mut node = Node::new();
    node.admin(AdminInput::Shutdown);
    assert_eq!(node.said.iter().filter(|output| matches!(output, Output::Shutdown)).count(), 1);
}

/// Refused arrivals: link and reason.
fn refusals_of_links(node: &Node) -> Vec<(LinkId, Refusal)> {
    let pick = |event: Event| match event {
        Event::Refused { link: Some(link), key: Some(_), reason } => Some((link, reason)),
        _ => None,
    };
    node.events().into_iter().filter_map(pick).collect()
}

#[test]
fn unacceptable_bundle_is_refused() {
    let mut node = Node::new();
    node.begins(0, 1, from_two(1, EndpointId::ipn(8, 1)));
    assert_eq!(node.agent.counts().promises, 1);
    let (bundle, _) = from_two(1, EndpointId::ipn(8, 1)).parts();
    let reason = Refusal::NotAcceptable;
    node.tell(Input::Unwanted { link: LinkId(0), token: token(1), bundle, reason });
    assert_eq!(node.verdicts(), [(1, Err(reason))]);
    assert_eq!((refusals_of_links(&node), node.agent.counts().promises), (vec![(LinkId(0), reason)], 0));
}

#[test]
fn link_refusals_emit_events() {
    let mut node = Node::new();
    node.begins(0, 1, from_two(1, EndpointId::Null));
    assert_eq!(refusals_of_links(&node), [(LinkId(0), Refusal::NotAcceptable)]);
    // The destination itself forwards the bundle to this node.
    node.receive(2, Bundle::new(EndpointId::ipn(5, 5), EndpointId::ipn(2, 1), 2));
    assert_eq!(refusals_of_links(&node), [(LinkId(0), Refusal::NotAcceptable); 2]);
}

#[test]
fn second_head_replaces_reservation() {
    // A layer begins an interrupted transfer again under the same token.
    let mut node = Node::with(Settings { capacity_bytes: 2500, ..settings() }, None);
    node.begins(0, 1, from_two(1, here()));
    node.begins(0, 1, from_two(2, here()).payload(Payload::fill(0, 2000)));
    assert_eq!((node.verdicts(), node.agent.counts().promises), (vec![], 1));
    node.begins(0, 1, from_two(3, here()).payload(Payload::fill(0, 3000)));
    assert_eq!(node.verdicts(), [(1, Err(Refusal::TooLarge))]);
    assert_eq!(node.agent.counts().promises, 0);
}

#[test]
fn created_bundle_emits_event() {
    let mut node = Node::new();
    node.send(EndpointId::ipn(2, 1), Priority::Normal);
    assert!(node.events().contains(&Event::Created { bundle: BundleHandle(1) }), "{:?}", node.events());
}

#[test]
fn requests_without_number_wait_within_bound() {
    const WAITING: u64 = 10_000;
    let mut node = Node::closed(settings(), None, support::NoRouter, support::Rule::default());
    node.tell(Input::Clock(Clock::UNTRUSTED));
    node.open();
    (0..WAITING).for_each(|_| node.send(EndpointId::ipn(2, 1), Priority::Normal));
    assert_eq!(node.results(), [], "they wait for a number");
    node.send(EndpointId::ipn(2, 1), Priority::Normal);
    assert_eq!(node.results(), [false]);
}

#[test]
fn events_of_store_reach_listeners() {
    let mut node = Node::new();
    let damage = Event::StoreDamage { file: 3, offset: 70, len: 8 };
    node.tell(Input::Store(store::Output::Event(damage)));
    assert_eq!(node.events(), [damage]);
}

#[test]
fn needed_room_known_without_disk_only() {
    for (durable, needed) in [(false, Some(1041)), (true, None)] {
        let settings = Settings { durable, ..settings() };
        let mut node = Node::of(settings, None, support::NoRouter, support::OnlyRoom);
        let wanted = request(EndpointId::ipn(2, 1), Priority::Normal);
        assert_eq!(node.agent.needs(node.now, wanted, &mut node.edge), needed);
    }
}
