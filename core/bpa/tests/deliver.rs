//! Local delivery (RFC 9171 5.7).

use crate::support::{Node, from_two};
use farlink_base::{DeleteReason, Duration, EndpointId, Event, Facts, Priority, Refusal};
use farlink_bpa::app::{AppInput, AppOutput, RegistrationId};
use farlink_bpa::{Input, Output};

fn here() -> EndpointId {
    EndpointId::ipn(1, 1)
}

#[test]
fn encrypted_payload_forwarded_not_delivered() {
    // This node has no key for the payload; another node may have it.
    let mut node = Node::new();
    node.register(7);
    node.receive(1, from_two(1, EndpointId::ipn(1, 7)).facts(Facts::SEALED));
    node.receive(2, from_two(2, EndpointId::ipn(3, 7)).facts(Facts::SEALED));
    assert!(node.deliveries().is_empty());
    assert_eq!(node.sent().len(), 1, "others may have the key");
    assert_eq!(node.deleted(), [DeleteReason::UnknownSecurity]);
}

/// Keeps 9171-5.7-3, 5050-3.1-4, 5050-5.7-3.
#[test]
fn next_delivery_awaits_previous_commit() {
    let mut node = Node::new();
    node.register(1);
    node.commit = false;
    for n in 1..=2 {
        node.receive(n, from_two(n, here()));
        assert_eq!(node.deliveries().len() as u64, n - 1, "a crash now would deliver it again, unmarked");
        node.stored(n);
    }
    assert_eq!(node.deliveries().len(), 1);
    let (delivery, bundle) = node.deliveries()[0].clone();
    assert!(!bundle.redelivered);
    node.done(delivery, true);
    assert_eq!(node.forgotten(), [(1, true)]);
    assert_eq!(node.deliveries().len(), 1, "a crash now repeats one delivery, not two");
    node.tell(Input::Store(farlink_base::store::Output::Deleted { bundle: farlink_base::BundleHandle(1) }));
    assert_eq!(node.deliveries().len(), 2);
    // A neighbour that missed the acknowledgment retransmits: acknowledged, not delivered again.
    node.receive(9, from_two(1, here()));
    assert_eq!(node.verdicts().last(), Some(&(9, Ok(()))));
    assert_eq!(node.deliveries().len(), 2);
}

/// Keeps 9171-5.7-4, 9171-5.7-5, 5050-3.1-3, 5050-3.1-5, 5050-5.7-4.
#[test]
fn unanswered_delivery_repeats_marked() {
    let mut node = Node::new();
    node.receive(1, from_two(1, here()));
    assert!(node.waits_for().contains("an application at ipn:1.1"));
    node.register(1);
    assert!(node.waits_for().contains("the answer of the application at ipn:1.1"));
    node.tell(Input::App(AppInput::Unregister { registration: RegistrationId(1) }));
    node.register(1);
    let redelivered: Vec<bool> = node.deliveries().iter().map(|(_, d)| d.redelivered).collect();
    assert_eq!(redelivered, [false, true]);
}

/// Keeps 9171-5.7-4, 9171-5.7-5, 5050-3.1-3.
#[test]
fn failed_delivery_repeats_marked() {
    // The application may have processed part of the bundle, so the repetition carries the mark.
    let mut node = Node::new();
    node.register(1);
    node.receive(1, from_two(1, here()));
    node.done(node.deliveries()[0].0, false);
    assert_eq!(node.deliveries().iter().map(|(_, d)| d.redelivered).collect::<Vec<_>>(), [false, true]);
    let last = node.deliveries()[1].0;
    node.tell(Input::App(AppInput::DeliveryDone { registration: RegistrationId(2), delivery: last, taken: true }));
    assert_eq!(node.held(), 1, "another registration cannot answer for it");
    node.done(last, true);
    node.done(last, true);
    assert_eq!((node.held(), node.agent.counts().deliveries), (0, 0));
}

/// Keeps 9171-5.7-3.
#[test]
fn urgent_bundles_delivered_first() {
    let mut node = Node::new();
    node.receive(1, from_two(1, here()));
    node.receive(2, from_two(2, here()).priority(Priority::Expedited));
    node.receive(3, from_two(3, here()));
    node.register(1);
    for _ in 0..3 {
        let last = node.deliveries().last().unwrap().0;
        node.done(last, true);
    }
    let order: Vec<u64> = node.deliveries().iter().map(|(_, d)| d.creation.sequence).collect();
    assert_eq!(order, [2, 1, 3]);
}

/// Keeps 9171-5.7-3.
#[test]
fn window_counts_unanswered_deliveries() {
    let mut node = Node::new();
    let window = AppInput::Register { registration: RegistrationId(1), endpoint: here(), window: 3 };
    node.tell(Input::App(window));
    for n in 1..=5 {
        node.receive(n, from_two(n, here()));
    }
    assert_eq!(node.deliveries().len(), 3);
    node.done(node.deliveries()[1].0, true);
    assert_eq!(node.deliveries().len(), 4);
    // Waiting bundles are delivered at registration, up to the window.
    let mut node = Node::new();
    (1..=5).for_each(|n| node.receive(n, from_two(n, here())));
    node.tell(Input::App(AppInput::Register { registration: RegistrationId(1), endpoint: here(), window: 3 }));
    let order: Vec<u64> = node.deliveries().iter().map(|(_, d)| d.creation.sequence).collect();
    assert_eq!(order, [1, 2, 3]);
}

/// Keeps 9171-5.7-4, 9171-5.7-5.
#[test]
fn registrations_share_deliveries_evenly() {
    // Deliveries alternate; the window of 100 must not starve the window of 4.
    let mut node = Node::new();
    for (id, window) in [(1, 100), (2, 4)] {
        node.tell(Input::App(AppInput::Register { registration: RegistrationId(id), endpoint: here(), window }));
    }
    (1..=20).for_each(|n| node.receive(n, from_two(n, here())));
    let whose = |output: &Output| match output {
        Output::App(AppOutput::Deliver { registration, .. }) => Some(registration.0),
        _ => None,
    };
    let to: Vec<u64> = node.said.iter().filter_map(whose).collect();
    assert_eq!(to[..8], [1, 2, 1, 2, 1, 2, 1, 2]);
    assert_eq!(to[8..], [1; 12], "one whose window is full keeps nothing from the other");
}

#[test]
fn window_opens_on_deletion_in_any_order() {
    // A place in the window becomes free when the store has deleted the bundle: after an earlier crash the bundle is
    // delivered again.
    let mut node = Node::new();
    node.tell(Input::App(AppInput::Register { registration: RegistrationId(1), endpoint: here(), window: 4 }));
    for n in 1..=10 {
        node.receive(n, from_two(n, here()));
    }
    assert_eq!(node.deliveries().len(), 4);
    node.commit = false;
    for at in [2, 0, 3, 1] {
        node.done(node.deliveries()[at].0, true);
    }
    assert_eq!(node.forgotten(), [(3, true), (1, true), (4, true), (2, true)], "no answer waits for another's commit");
    assert_eq!(node.deliveries().len(), 4, "a crash now repeats four, not more");
    for (at, bundle) in [4, 1, 3, 2].into_iter().enumerate() {
        let bundle = farlink_base::BundleHandle(bundle);
        node.tell(Input::Store(farlink_base::store::Output::Deleted { bundle }));
        assert_eq!(node.deliveries().len(), 5 + at);
        node.tell(Input::Store(farlink_base::store::Output::Deleted { bundle }));
        assert_eq!(node.deliveries().len(), 5 + at, "said twice, it counts once");
    }
    let order: Vec<u64> = node.deliveries().iter().map(|(_, d)| d.creation.sequence).collect();
    assert_eq!(order, [1, 2, 3, 4, 5, 6, 7, 8]);
    assert!(node.deliveries().iter().all(|(_, delivery)| !delivery.redelivered));
}

/// Keeps 9171-5.7-4, 9171-5.7-5, 5050-3.1-3.
#[test]
fn departed_application_repeats_unanswered_only() {
    // Bundles 1 and 3 were answered; 2 and 4 may have been processed, so they repeat with the mark.
    let mut node = Node::new();
    let window = || AppInput::Register { registration: RegistrationId(1), endpoint: here(), window: 4 };
    node.tell(Input::App(window()));
    for n in 1..=6 {
        node.receive(n, from_two(n, here()));
    }
    node.commit = false;
    node.done(node.deliveries()[0].0, true);
    node.done(node.deliveries()[2].0, true);
    node.tell(Input::App(AppInput::Unregister { registration: RegistrationId(1) }));
    // Late answers and answers to unknown deliveries change nothing.
    let (late, never) = (node.deliveries()[1].0, farlink_bpa::app::DeliveryId(99));
    node.done(late, true);
    node.done(never, true);
    node.tell(Input::App(window()));
    let came: Vec<(u64, bool)> =
        node.deliveries()[4..].iter().map(|(_, d)| (d.creation.sequence, d.redelivered)).collect();
    assert_eq!(came, [(2, true), (4, true), (5, false), (6, false)]);
    assert_eq!(node.forgotten().len(), 2);
}

#[test]
fn unanswered_bytes_bounded_each_and_total() {
    // One application may leave a quarter of `memory_bytes` unanswered. Once all applications exceed `memory_bytes`
    // together, each gets one delivery at a time.
    let limits = farlink_bpa::Limits { memory_bytes: 4000, ..Default::default() };
    let mut node = Node::with(crate::support::bounded(limits), None);
    let at = |app: u64| EndpointId::ipn(1, app as u32);
    for app in 1..=8 {
        let window = AppInput::Register { registration: RegistrationId(app), endpoint: at(app), window: 4096 };
        node.tell(Input::App(window));
    }
    let bundle = |n, to: u64, len| from_two(n, at(to)).payload(farlink_base::Payload::fill(n, len));
    for n in 0..10 {
        node.receive(n, bundle(n, 1, 400));
    }
    assert_eq!(node.deliveries().len(), 2, "a quarter of all is the part of one");
    node.done(node.deliveries()[0].0, true);
    assert_eq!(node.deliveries().len(), 3);
    node.receive(20, bundle(20, 2, 9000));
    assert_eq!(node.deliveries().len(), 4, "one alone may be as long as it is");
    for n in 30..40 {
        node.receive(n, bundle(n, 3 + n % 6, 100));
    }
    assert_eq!(node.deliveries().len(), 10, "beyond what all may have, each has one");
    for _ in 0..40 {
        let answer = |o: &Output| match o {
            Output::App(AppOutput::Deliver { registration, delivery, .. }) => {
                Some(AppInput::DeliveryDone { registration: *registration, delivery: *delivery, taken: true })
            }
            _ => None,
        };
        let answers: Vec<AppInput> = node.said.iter().filter_map(answer).collect();
        answers.into_iter().for_each(|answer| node.tell(Input::App(answer)));
    }
    assert_eq!((node.held(), node.deliveries().len()), (0, 21), "nothing is stuck");
}

#[test]
fn expired_delivery_keeps_window_slot() {
    // The application still has the expired bundle in its queue, so the delivery keeps its place in the window.
    let limits = farlink_bpa::Limits { memory_bytes: 4000, ..Default::default() };
    for limits in [farlink_bpa::Limits::default(), limits] {
        let few = limits.memory_bytes == 4000;
        let mut node = Node::with(crate::support::bounded(limits), None);
        let window = if few { 4096 } else { 3 };
        node.tell(Input::App(AppInput::Register { registration: RegistrationId(1), endpoint: here(), window }));
        let places = if few { 2 } else { 3 };
        let bundle = |n| from_two(n, here()).payload(farlink_base::Payload::fill(n, 400));
        for n in 0..6 {
            node.receive(n, bundle(n).lifetime_ms(1000));
        }
        node.wait_ms(2000);
        assert_eq!((node.held(), node.deliveries().len()), (0, places));
        for n in 10..16 {
            node.receive(n, bundle(n));
        }
        assert_eq!(node.deliveries().len(), places, "bytes that it does not read are on their way to it");
        // A late answer of either kind frees the window slot.
        node.done(node.deliveries()[0].0, true);
        node.done(node.deliveries()[1].0, false);
        let delivered = |event: &Event| matches!(event, Event::Delivered { .. });
        assert!(!node.events().iter().any(delivered), "it was deleted before");
        assert_eq!((node.held(), node.deliveries().len()), (6, places + 2));
        node.tell(Input::App(AppInput::Unregister { registration: RegistrationId(1) }));
        node.tell(Input::App(AppInput::Register { registration: RegistrationId(2), endpoint: here(), window }));
        assert_eq!(node.deliveries().len(), 2 * places + 2, "what it had is another's");
    }
}

#[test]
fn bundle_expired_before_delivery_frees_window() {
    let mut node = Node::new();
    node.receive(1, from_two(1, here()).lifetime_ms(1000));
    // The application registers after the end of the lifetime, before the node's timer for it was served.
    node.now += Duration::from_millis(1500);
    node.tell(Input::App(AppInput::Register { registration: RegistrationId(1), endpoint: here(), window: 1 }));
    assert_eq!((node.held(), node.deliveries().len()), (0, 0));
    node.receive(2, from_two(2, here()));
    assert_eq!(node.deliveries().len(), 1, "the expired bundle holds no place in the window");
}

#[test]
fn registrations_local_and_bounded() {
    // Endpoints of other nodes and dtn:none are unknown here; the limit is three registrations.
    let limits = farlink_bpa::Limits { registrations: 3, ..Default::default() };
    let mut node = Node::with(crate::support::bounded(limits), None);
    let endpoints = [EndpointId::ipn(2, 1), EndpointId::Null, EndpointId::ipn(EndpointId::LOCAL_NODE, 7)];
    for (n, endpoint) in (1..).zip(endpoints.into_iter().chain((8..11).map(|service| EndpointId::ipn(1, service)))) {
        node.tell(Input::App(AppInput::Register { registration: RegistrationId(n), endpoint, window: 1 }));
    }
    let results: Vec<Result<EndpointId, Refusal>> = node
        .said
        .iter()
        .filter_map(
            |o| if let Output::App(AppOutput::Registered { result, .. }) = o { Some(result.clone()) } else { None },
        )
        .collect();
    let ok = |service| Ok(EndpointId::ipn(1, service));
    let (unknown, full) = (Err(Refusal::Unknown), Err(Refusal::NoResources));
    assert_eq!(results, [unknown.clone(), unknown, ok(7), ok(8), ok(9), full]);
}

/// Keeps 9171-5.3-1, 5050-5.3-1, 9758-5.1-2.
#[test]
fn bundle_to_own_node_delivered_locally() {
    let mut node = Node::new();
    node.register(1);
    node.send(here(), Priority::Normal);
    assert_eq!((node.deliveries().len(), node.sent().len(), node.results()), (1, 0, vec![true]));
}

#[test]
fn departed_applications_room_is_reused() {
    let limits = farlink_bpa::Limits { memory_bytes: 4000, ..Default::default() };
    let mut node = Node::with(crate::support::bounded(limits), None);
    for id in [1, 2] {
        node.tell(Input::App(AppInput::Register { registration: RegistrationId(id), endpoint: here(), window: 9 }));
    }
    let bundle = |n, len| from_two(n, here()).payload(farlink_base::Payload::fill(n, len));
    node.receive(1, bundle(1, 9000).lifetime_ms(1000));
    node.receive(2, bundle(2, 100));
    node.receive(3, bundle(3, 100));
    assert_eq!(node.deliveries().len(), 2, "beyond what all may leave unanswered, each has one");
    node.wait_ms(2000);
    node.tell(Input::App(AppInput::Unregister { registration: RegistrationId(1) }));
    assert_eq!(node.deliveries().len(), 3);
}

#[test]
fn unused_endpoint_leaves_nothing() {
    let mut node = Node::new();
    node.register(1);
    assert_eq!(node.agent.counts().endpoints, 1);
    node.tell(Input::App(AppInput::Unregister { registration: RegistrationId(1) }));
    assert_eq!(node.agent.counts().endpoints, 0);
    node.receive(1, from_two(1, here()).lifetime_ms(1000));
    assert_eq!(node.agent.counts().endpoints, 1, "it waits for somebody");
    node.wait_ms(2000);
    assert_eq!((node.held(), node.agent.counts().endpoints), (0, 0));
}
