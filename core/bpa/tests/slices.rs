//! Slices: the follow-up work of one input runs at most 256 units per call.

use crate::support;

use crate::support::{Bundle, Node, Rule, Script, from_two, link, settings};
use farlink_base::{Duration, EndpointId, Event, LinkId, Payload};
use farlink_bpa::app::AdminInput;
use farlink_bpa::{Input, LinkSettings, Output, Settings};

const MANY: u64 = 20_000;
const SLICE: usize = 256;

/// A node whose store is in memory.
fn node(router: Option<Script>) -> Node {
    let settings = Settings { capacity_bytes: 1 << 40, durable: false, ..settings() };
    match router {
        Some(router) => Node::of(settings, None, router, Rule::default()),
        None => Node::with(settings, None),
    }
}

fn fill(node: &mut Node, to: &EndpointId) {
    // The bundles must not come from their own destination.
    let link = u32::from(to.node() == EndpointId::ipn(2, 0).node());
    for n in 0..MANY {
        node.receive_over(link, n, from_two(n, to.clone()).payload(Payload::fill(0, 10)));
        node.said.clear();
    }
}

fn count(said: &[Output], want: fn(&Event) -> bool) -> usize {
    said.iter().filter(|o| matches!(o, Output::Event(event) if want(event))).count()
}

/// Wakes the node until it is idle; returns the number of wanted events per call.
fn calls(node: &mut Node, want: fn(&Event) -> bool) -> Vec<usize> {
    let mut calls = Vec::new();
    while node.agent.next_timeout().is_some_and(|at| at <= node.now) {
        let before = node.said.len();
        node.once(Input::Wake);
        calls.push(count(&node.said[before..], want));
        assert!(calls.len() < 10_000, "it comes to rest");
    }
    calls
}

#[test]
fn mass_expiry_runs_in_slices() {
    let mut node = node(None);
    fill(&mut node, &EndpointId::ipn(8, 1));
    node.now += Duration::from_secs(100);
    let calls = calls(&mut node, |e| matches!(e, Event::Deleted { .. }));
    assert!(calls.iter().all(|deleted| *deleted <= SLICE), "{calls:?}");
    assert_eq!((calls.iter().sum::<usize>() as u64, node.held()), (MANY, 0));
    assert!(calls.len() < MANY as usize / 200, "and no slower than that");
}

#[test]
fn arrival_served_during_mass_expiry() {
    // A new input is processed before the follow-up work of earlier inputs.
    let mut node = node(None);
    fill(&mut node, &EndpointId::ipn(8, 1));
    node.now += Duration::from_secs(100);
    let late = Bundle::new(EndpointId::ipn(2, 5), EndpointId::ipn(3, 1), MANY).created_ms(0);
    let (bundle, hop) = late.parts();
    node.once(Input::Arrived { link: LinkId(0), token: support::token(MANY), bundle, hop });
    assert_eq!((node.verdicts().len(), node.sent().len()), (1, 1));
    assert!(count(&node.said, |e| matches!(e, Event::Deleted { .. })) <= SLICE);
}

#[test]
fn removed_links_queue_rerouted_in_slices() {
    let mut node = node(None);
    node.add_link(&LinkSettings { peer: EndpointId::ipn(2, 0), name: "spare".into(), ..link(5) });
    node.ready(0, false);
    node.ready(5, false);
    // Link 0 has all bundles in its queue; after its removal each must be routed again, within the slices.
    fill(&mut node, &EndpointId::ipn(2, 1));
    node.said.clear();
    node.agent.remove_link(node.now, LinkId(0), &mut node.edge, &mut node.said);
    assert!(node.said.len() < 20, "nothing is walked at once");
    let calls = calls(&mut node, |e| matches!(e, Event::Routed { .. }));
    assert!(calls.iter().all(|routed| *routed <= SLICE), "{calls:?}");
    assert_eq!(node.agent.status(node.now).links.iter().find(|l| l.name == "spare").unwrap().queued, MANY);
    assert!(calls.iter().sum::<usize>() > 1000);
}

#[test]
fn waiting_bundles_rerouted_in_slices() {
    let mut node = node(None);
    fill(&mut node, &EndpointId::ipn(8, 1));
    let route = AdminInput::AddRoute { pattern: "*".into(), next_hop: EndpointId::ipn(3, 0) };
    node.ready(1, false);
    node.said.clear();
    node.once(Input::Admin(route));
    let first = count(&node.said, |e| matches!(e, Event::Routed { .. }));
    let calls = calls(&mut node, |e| matches!(e, Event::Routed { .. }));
    assert!(first <= SLICE && calls.iter().all(|routed| *routed <= SLICE), "{first} {calls:?}");
    assert_eq!((first + calls.iter().sum::<usize>()) as u64, MANY);
}

#[test]
fn carried_bundles_offered_in_slices() {
    let mut node = node(Some(Script::flood()));
    for link in [0, 1] {
        node.carrier(link, false);
    }
    fill(&mut node, &EndpointId::ipn(8, 1));
    let own = from_two(MANY, EndpointId::ipn(3, 1)).payload(Payload::fill(0, 10));
    node.receive(MANY, own);
    node.said.clear();
    node.once(Input::Carrier { link: LinkId(1), up: true });
    let calls = calls(&mut node, |e| matches!(e, Event::Transmitting { .. }));
    assert!(calls.iter().all(|sent| *sent <= SLICE), "{calls:?}");
    let sent: Vec<u64> =
        node.sent().iter().filter(|s| !s.bundle.is_administrative()).map(|s| s.bundle.sequence).collect();
    assert_eq!((sent[0], sent.len() as u64), (MANY, MANY + 1));
}

#[test]
fn due_timers_fire_in_slices() {
    let mut node = node(Some(Script {
        route: Box::new(|node, _, _| farlink_book::RouteDecision::Wait(node.now + Duration::from_secs(1))),
        ..Script::default()
    }));
    fill(&mut node, &EndpointId::ipn(8, 1));
    node.now += Duration::from_millis(1001);
    let calls = calls(&mut node, |e| matches!(e, Event::Waiting { .. }));
    assert!(calls.iter().all(|asked| *asked <= SLICE), "{calls:?}");
    assert_eq!(calls.iter().sum::<usize>() as u64, MANY);
}

#[test]
fn fragments_expire_at_usual_cost() {
    // All fragments share one original; removing each must not scan the others.
    let limits = farlink_bpa::Limits { fragments: 1 << 20, ..Default::default() };
    let settings = Settings { capacity_bytes: 1 << 40, durable: false, ..crate::support::bounded(limits) };
    let mut node = Node::with(settings, None);
    let whole = from_two(1, EndpointId::ipn(1, 1)).payload(Payload::fill(0, 2 * MANY));
    for n in 0..MANY {
        node.receive(n, whole.piece(2 * n..2 * n + 1));
        node.said.clear();
    }
    node.now += Duration::from_secs(100);
    let calls = calls(&mut node, |e| matches!(e, Event::Deleted { .. }));
    assert!(calls.iter().all(|deleted| *deleted <= SLICE), "{calls:?}");
    assert_eq!((node.held(), node.agent.counts().fragments), (0, 0));
}

#[test]
fn long_hellos_use_up_slice() {
    // Four messages of 1 MiB cost the 256 units of a call, at 16 KiB each.
    type News<'a> = farlink_book::PolicyEvent<'a>;
    let tells = |node: &farlink_book::Node<'_>, _: &News<'_>, out: &mut farlink_book::Actions| {
        node.peers.up().for_each(|peer| out.tell(peer.id, vec![7; 1 << 20]));
    };
    let hears = farlink_book::EventMask::KEPT;
    let router = Script { hears, on: Box::new(tells), ..Script::default() };
    let mut node = Node::of(settings(), None, router, Rule { hears, on: Box::new(tells), ..Rule::default() });
    let (bundle, hop) = from_two(1, EndpointId::ipn(8, 1)).parts();
    node.once(Input::Arrived { link: LinkId(0), token: support::token(1), bundle, hop });
    assert_eq!(node.sent().len(), 0, "they leave in the next call");
    node.settle();
    assert_eq!(node.sent().len(), 2);
}
