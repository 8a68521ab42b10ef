//! Neighbours and links that come, change and go while the node runs.

use crate::support;

use crate::support::{Node, Script, from_two, link, settings};
use farlink_base::{Duration, EndpointId, LinkId, NodeId, Priority};
use farlink_book::EventMask;
use farlink_bpa::Input;
use farlink_bpa::app::AdminInput;
use std::sync::mpsc;

#[test]
fn ten_thousand_dynamic_links_leave_nothing() {
    let mut node = Node::routed(Script::epidemic());
    node.wait(Duration::from_secs(61));
    let before = node.agent.counts();
    for n in 0..10_000u32 {
        let link = node.comes(n % 7, EndpointId::ipn(100 + u64::from(n % 1000), 0));
        if n % 3 == 0 {
            node.receive_over(link, u64::from(n), from_two(u64::from(n), EndpointId::ipn(100, 1)).lifetime_ms(10));
        }
        node.goes(link);
        for sent in node.take_sent() {
            node.fail(sent.id, None);
        }
        node.now += Duration::from_millis(1);
    }
    node.wait(Duration::from_secs(61));
    assert_eq!(node.agent.counts(), before);
    assert_eq!(node.agent.status(node.now).links.len(), 2);
}

#[test]
fn claimed_name_displaces_no_configured_one() {
    let mut node = Node::new();
    node.comes(0, EndpointId::ipn(2, 0));
    node.send(EndpointId::ipn(2, 1), Priority::Normal);
    assert_eq!(node.sent()[0].link, LinkId(0));
}

#[test]
fn claimed_name_displaces_no_proven_one() {
    let mut node = Node::new();
    let four = EndpointId::ipn(4, 0);
    node.comes(0, four.clone());
    let proven = LinkId(LinkId::DYNAMIC | 1);
    node.tell(Input::PeerUp { link: proven, claimed: Some(four.clone()), node: None, proven: Some(four.clone()) });
    node.ready(proven.0, true);
    node.comes(2, four);
    node.send(EndpointId::ipn(4, 1), Priority::Normal);
    assert_eq!(node.sent()[0].link, proven);
}

#[test]
fn bundle_waits_for_stranger_to_connect() {
    // A merely claimed name suffices as a route while no neighbour has proven the name or is configured with it.
    let mut node = Node::new();
    node.send(EndpointId::ipn(4, 1), Priority::Normal);
    assert_eq!(node.waits_for(), "no route to ipn:4.0");
    let link = node.comes(0, EndpointId::ipn(4, 0));
    assert_eq!(node.sent_over(link).len(), 1);
}

#[test]
fn removed_links_queue_reroutes_or_waits() {
    let mut node = Node::new();
    let spare = farlink_bpa::LinkSettings { peer: EndpointId::ipn(2, 0), name: "spare".into(), ..link(5) };
    node.ready(0, false);
    for _ in 0..3 {
        node.send(EndpointId::ipn(2, 1), Priority::Normal);
    }
    node.add_link(&spare);
    node.ready(5, false);
    node.remove_link(0);
    assert_eq!(node.agent.status(node.now).links.iter().find(|l| l.name == "spare").map(|l| l.queued), Some(3));
    node.remove_link(5);
    assert_eq!((node.held(), node.waits_for().as_str()), (3, "no route to ipn:2.0"));
    node.add_link(&link(0));
    assert_eq!(node.sent_over(0).len(), 3, "it is back");
    assert!(!node.agent.add_link(node.now, &link(0), &mut node.edge, &mut node.said), "once");
}

#[test]
fn schemes_distinguish_equal_node_numbers() {
    // A dtn name of digits must not equal the ipn node number.
    for number in [2, (1 << 63) + 5, u64::MAX - 1] {
        let named = EndpointId::dtn(&number.to_string(), "");
        let numbered = EndpointId::ipn(number, 0);
        assert_ne!(named.node(), numbered.node());
        let own = farlink_bpa::Settings { node_ids: vec![named.clone()], ..settings() };
        let mut node = Node::with(farlink_bpa::Settings { links: vec![], routes: vec![], ..own }, None);
        let to_it = farlink_bpa::LinkSettings { peer: numbered.clone(), ..link(0) };
        node.add_link(&to_it);
        node.add_link(&link(1));
        node.receive_over(1, 1, support::Bundle::new(EndpointId::ipn(7, 5), EndpointId::ipn(number, 1), 1));
        assert_eq!(node.sent().len(), 1, "it is for the neighbour, {numbered}, and not for {named}");
    }
}

#[test]
fn added_route_takes_waiting_bundles() {
    let mut node = Node::new();
    node.send(EndpointId::ipn(7, 1), Priority::Normal);
    assert!(node.sent().is_empty());
    node.admin(AdminInput::AddRoute { pattern: "ipn:7.*".into(), next_hop: EndpointId::ipn(3, 0) });
    assert_eq!(node.sent()[0].link, LinkId(1));
    node.admin(AdminInput::RemoveRoute { pattern: "ipn:7.*".into() });
    node.send(EndpointId::ipn(7, 1), Priority::Normal);
    assert_eq!(node.sent().len(), 1);
}

#[test]
fn removed_route_empties_its_queue() {
    let mut node = Node::new();
    node.ready(1, false);
    node.admin(AdminInput::AddRoute { pattern: "ipn:7.*".into(), next_hop: EndpointId::ipn(3, 0) });
    node.send(EndpointId::ipn(7, 1), Priority::Normal);
    node.admin(AdminInput::RemoveRoute { pattern: "ipn:7.*".into() });
    node.ready(1, true);
    assert_eq!((node.sent().len(), node.waits_for().as_str()), (0, "no route to ipn:7.0"));
}

#[test]
fn plan_router_sees_link_changes() {
    let (said, heard) = mpsc::channel();
    let script = Script {
        uses_plan: true,
        on_plan: Box::new(move |plan| said.send(plan.links.len()).unwrap_or_default()),
        ..Script::default()
    };
    let mut node = Node::of(settings(), Some(support::plan(0, 100, 80_000)), script, support::Rule::default());
    assert_eq!(heard.try_iter().last(), Some(1));
    node.remove_link(0);
    assert_eq!(heard.try_iter().last(), Some(0));
    node.add_link(&link(0));
    assert_eq!(heard.try_iter().last(), Some(1));
}

#[test]
fn link_flaps_cost_constant_work() {
    // Outputs, timers and bundles of a flap must not grow with the number of flaps.
    for router in [Script::default(), Script::flood(), Script::epidemic()] {
        let hears = Script { hears: EventMask::ALL, ..router };
        let mut node = Node::of(settings(), Some(support::plan(0, 100_000, 80_000)), hears, support::Rule::default());
        for n in 0..20 {
            node.receive(n, from_two(n, EndpointId::ipn(7, 1)).lifetime_ms(1_000_000));
        }
        let flap = |node: &mut Node| {
            let before = node.said.len();
            node.carrier(0, false);
            node.carrier(0, true);
            let said = node.said.len() - before;
            // The layer fails the transmissions of the old session only.
            let sent = node.sent();
            node.said.drain(..before);
            let new = node.sent();
            for old in sent.iter().filter(|old| new.iter().all(|new| new.id != old.id)) {
                node.fail(old.id, None);
            }
            (said, node.agent.counts().timers, node.agent.counts().bundles)
        };
        let first: Vec<_> = (0..5).map(|_| flap(&mut node)).collect();
        for _ in 0..1000 {
            flap(&mut node);
        }
        let last: Vec<_> = (0..5).map(|_| flap(&mut node)).collect();
        assert_eq!(first[4], last[4], "{first:?} {last:?}");
    }
}

#[test]
fn session_start_meets_neighbour() {
    // With sessions, carrier alone does not mean that the neighbour is reachable.
    let (said, heard) = mpsc::channel();
    let script = Script {
        hears: EventMask::PEERS,
        on: Box::new(move |node, news, _| {
            let (up, peer) = match *news {
                farlink_book::PolicyEvent::Up { peer } => (true, peer),
                farlink_book::PolicyEvent::Down { peer } => (false, peer),
                _ => return,
            };
            said.send((up, node.peers.get(peer).map(|peer| peer.node))).unwrap_or_default();
        }),
        ..Script::default()
    };
    let with_sessions = farlink_bpa::LinkSettings { sessions: true, ..link(0) };
    let settings = farlink_bpa::Settings { links: vec![with_sessions], ..settings() };
    let mut node = Node::of(settings, None, script, support::Rule::default());
    let news = || heard.try_iter().map(|(up, _)| up).collect::<Vec<_>>();
    assert_eq!(news(), []);
    let up = |node: &mut Node| {
        node.tell(Input::PeerUp { link: LinkId(0), claimed: None, node: Some(NodeId::ipn(2)), proven: None });
    };
    up(&mut node);
    assert_eq!(news(), [true]);
    node.goes(0);
    node.carrier(0, false);
    node.carrier(0, true);
    assert_eq!(news(), [false]);
    up(&mut node);
    node.carrier(0, false);
    assert_eq!(news(), [true, false]);
}

#[test]
fn strangers_are_bounded() {
    // Above the limit, an unauthenticated peer gets no link entry, but its bundles are still accepted.
    let limits = farlink_bpa::Limits { dynamic_links: 2, ..Default::default() };
    let mut node = Node::with(crate::support::bounded(limits), None);
    for n in 0..4 {
        node.comes(n, EndpointId::ipn(10 + u64::from(n), 0));
    }
    assert_eq!(node.agent.status(node.now).links.len(), 4);
    node.receive_over(LinkId::DYNAMIC | 3, 1, from_two(1, EndpointId::ipn(1, 1)));
    assert_eq!(node.verdicts(), [(1, Ok(()))], "what it gives is taken still");
}

#[test]
fn removed_links_transmissions_are_rerouted() {
    // The layer answers for its open transmissions after the link has gone.
    let mut node = Node::new();
    let stranger = node.comes(0, EndpointId::ipn(4, 0));
    node.send(EndpointId::ipn(4, 1), Priority::Normal);
    let id = node.take_sent()[0].id;
    node.goes(stranger);
    assert_eq!(node.held(), 1);
    node.fail(id, None);
    let again = node.comes(1, EndpointId::ipn(4, 0));
    assert_eq!(node.sent_over(again).len(), 1);
}

#[test]
fn disabled_link_closed_once() {
    let mut node = Node::new();
    let closed =
        |node: &Node| node.said.iter().filter(|o| matches!(o, farlink_bpa::Output::Close { link: LinkId(0) })).count();
    node.carrier(0, false);
    node.carrier(0, true);
    assert_eq!(closed(&node), 0);
    let turn = |enabled| farlink_bpa::app::AdminInput::SetLink { link: "to2".into(), enabled };
    node.admin(turn(false));
    node.admin(turn(false));
    assert_eq!(closed(&node), 1);
    node.admin(turn(true));
    assert_eq!(closed(&node), 1);
    node.admin(turn(false));
    assert_eq!(closed(&node), 2);
}

/// Keeps 9171-4.2.5.2-1, 9171-4.4.1-1.
#[test]
fn invalid_name_claims_are_ignored() {
    // RFC 9171 section 4.2.5.2, RFC 9174 section 4.6, RFC 9758 section 5.4: the name must be a node ID, and not one
    // that every node calls itself.
    let here = EndpointId::Ipn { node: EndpointId::LOCAL_NODE, service: 0 };
    for (claimed, to, named) in [
        (EndpointId::ipn(77, 0), EndpointId::ipn(77, 1), 1),
        (EndpointId::ipn(77, 7), EndpointId::ipn(77, 1), 0),
        (EndpointId::dtn("b", "mail"), EndpointId::dtn("b", "x"), 0),
        (here.clone(), EndpointId::ipn(77, 1), 0),
    ] {
        // The claim stands in the session's introduction or in a previous node block.
        for introduced in [true, false] {
            let mut node = Node::new();
            let link = node.comes(0, if introduced { claimed.clone() } else { EndpointId::Null });
            let mut bundle = from_two(1, EndpointId::ipn(8, 1));
            bundle.hop.previous = claimed.clone();
            node.receive_over(link, 1, bundle);
            node.send(to.clone(), Priority::Normal);
            assert_eq!(node.sent_over(link).len(), named, "{claimed} {introduced}");
        }
    }
    for proven in [None, Some(here.clone())] {
        let mut node = Node::routed(Script::epidemic());
        let (link, engine) = (LinkId(LinkId::DYNAMIC), Some(NodeId::ipn(EndpointId::LOCAL_NODE)));
        node.tell(Input::PeerUp { link, claimed: Some(here.clone()), node: engine, proven });
        node.ready(link.0, true);
        assert!(node.sent().iter().all(|sent| !sent.bundle.destination.is_here()), "nor is it greeted so");
    }
}

#[test]
fn copying_router_waits_for_meeting_not_route() {
    let mut node = Node::routed(Script::flood());
    node.send(EndpointId::ipn(4, 1), Priority::Normal);
    assert_eq!(node.waits_for(), "meeting ipn:4.0, or a neighbour that carries it on");
}

/// Adds a link `n` to an announced neighbour.
fn found(node: &mut Node, n: u32, name: EndpointId) {
    let settings = farlink_bpa::LinkSettings { peer: name, name: format!("found{n}"), ..link(n) };
    assert!(node.agent.add_link_of(
        node.now,
        &settings,
        farlink_bpa::Origin::Discovered,
        &mut node.edge,
        &mut node.said
    ));
    node.ready(n, true);
}

#[test]
fn bundle_waits_for_announced_neighbour() {
    let mut node = Node::new();
    let four = EndpointId::ipn(4, 0);
    node.send(EndpointId::ipn(4, 1), Priority::Normal);
    assert_eq!(node.waits_for(), "no route to ipn:4.0");
    found(&mut node, 7, four.clone());
    assert_eq!(node.sent_over(7).len(), 1);
    let sent = node.take_sent().remove(0).id;
    node.confirm(sent);
    node.remove_link(7);
    node.send(EndpointId::ipn(4, 1), Priority::Normal);
    assert_eq!((node.held(), node.waits_for().as_str()), (1, "no route to ipn:4.0"));
    found(&mut node, 7, four);
    assert_eq!(node.sent_over(7).len(), 1);
}

#[test]
fn announced_name_ranks_lowest() {
    let mut node = Node::new();
    let (two, four) = (EndpointId::ipn(2, 0), EndpointId::ipn(4, 0));
    assert!(node.agent.is_surely_known(two.node()) && node.agent.is_surely_known(NodeId::ipn(1)));
    assert!(!node.agent.is_surely_known(four.node()));
    found(&mut node, 7, two);
    node.send(EndpointId::ipn(2, 1), Priority::Normal);
    assert_eq!(node.sent()[0].link, LinkId(0));
    found(&mut node, 8, four.clone());
    assert!(!node.agent.is_surely_known(four.node()), "it only says so");
    let proven = LinkId(LinkId::DYNAMIC | 1);
    node.tell(Input::PeerUp { link: proven, claimed: None, node: None, proven: Some(four.clone()) });
    node.ready(proven.0, true);
    assert!(node.agent.is_surely_known(four.node()));
    node.send(EndpointId::ipn(4, 1), Priority::Normal);
    assert_eq!(node.sent()[1].link, proven);
    node.goes(proven.0);
    assert!(!node.agent.is_surely_known(four.node()), "and is gone");
}

#[test]
fn announced_neighbour_counts_as_stranger() {
    let mut node = Node::new();
    found(&mut node, 7, EndpointId::ipn(4, 0));
    node.receive_over(7, 1, from_two(1, EndpointId::ipn(99, 1)));
    assert_eq!(node.agent.status(node.now).strangers.0, 1);
    node.receive_over(0, 2, from_two(2, EndpointId::ipn(99, 1)));
    assert_eq!((node.agent.status(node.now).strangers.0, node.held()), (1, 2));
    // Pieces that an interrupted transfer left are charged to unauthenticated neighbours, too.
    let whole = from_two(3, EndpointId::ipn(99, 1)).payload(farlink_base::Payload::fill(1, 9000));
    node.begins(7, 3, whole.clone());
    let (bundle, hop) = whole.piece(0..5000).parts();
    let token = support::token(3);
    node.tell(Input::Piece { link: LinkId(7), token, bundle, hop, promises: 0..5040 });
    node.tell(Input::Abandoned { token });
    assert_eq!((node.agent.status(node.now).strangers.0, node.held()), (2, 3));
}

#[test]
fn contact_plan_ignores_announced_neighbour() {
    let settings = farlink_bpa::Settings { links: Vec::new(), routes: Vec::new(), ..settings() };
    let mut node = Node::with(settings, Some(support::plan(1000, 2000, 1_000_000)));
    found(&mut node, 7, EndpointId::ipn(2, 0));
    assert_eq!(node.agent.link_state(node.now, LinkId(7)), Some("up"), "outside the contact");
    node.send(EndpointId::ipn(2, 1), Priority::Normal);
    assert_eq!(node.sent_over(7).len(), 1, "what is for it goes");
    assert_eq!(node.agent.link_state(node.now, LinkId(8)), None);
}

#[test]
fn downed_links_queue_takes_sibling() {
    let mut node = Node::new();
    node.add_link(&farlink_bpa::LinkSettings { peer: EndpointId::ipn(2, 0), name: "spare".into(), ..link(5) });
    node.ready(5, false);
    node.ready(0, false);
    node.send(EndpointId::ipn(2, 1), Priority::Normal);
    let busy = if node.agent.status(node.now).links.iter().any(|l| l.name == "to2" && l.queued > 0) { 0 } else { 5 };
    node.ready(5 - busy, true);
    assert!(node.sent().is_empty());
    node.carrier(busy, false);
    assert_eq!(node.sent_over(5 - busy), [0]);
}

#[test]
fn new_link_takes_waiting_bundles() {
    let mut node = Node::new();
    node.remove_link(1);
    node.send(EndpointId::ipn(9, 1), Priority::Normal);
    assert_eq!(node.waits_for(), "no route to ipn:9.0");
    node.add_link(&link(1));
    assert_eq!(node.sent_over(1), [0]);
}

#[test]
fn policy_sees_each_link_change() {
    let (said, heard) = mpsc::channel();
    let script = Script {
        hears: EventMask::LINKS,
        on: Box::new(move |_, news, _| {
            said.send(match *news {
                farlink_book::PolicyEvent::LinkUp { link, .. } => (link, true),
                farlink_book::PolicyEvent::LinkDown { link, .. } => (link, false),
                _ => return,
            })
            .unwrap_or_default();
        }),
        ..Script::default()
    };
    let mut node = Node::routed(script);
    assert_eq!(heard.try_iter().collect::<Vec<_>>(), [(LinkId(0), true), (LinkId(1), true)]);
    node.carrier(1, false);
    node.carrier(1, true);
    assert_eq!(heard.try_iter().collect::<Vec<_>>(), [(LinkId(1), false), (LinkId(1), true)]);
}

#[test]
fn removed_link_leaves_no_queue_timer() {
    let route = |node: &farlink_book::Node<'_>, _: &farlink_book::Held, _: &[farlink_base::PeerId]| {
        let until = node.now + Duration::from_secs(10);
        farlink_book::RouteDecision::One(farlink_book::NextHop { link: LinkId(0), not_before: node.now, until })
    };
    let mut node = Node::routed(Script { route: Box::new(route), ..Script::default() });
    node.ready(0, false);
    node.send(EndpointId::ipn(7, 1), Priority::Normal);
    assert_eq!(node.agent.counts().timers, 1);
    node.remove_link(0);
    assert_eq!((node.held(), node.agent.counts().timers), (1, 0));
}

#[test]
fn bundle_waits_for_named_neighbour() {
    let mut node = Node::new();
    node.send(EndpointId::ipn(4, 1), Priority::Normal);
    let link = LinkId(LinkId::DYNAMIC | 1);
    node.tell(Input::PeerUp { link, claimed: None, node: None, proven: None });
    node.ready(link.0, true);
    assert_eq!(node.sent_over(link.0).len(), 0, "nobody knows who that is");
    node.receive_over(link.0, 1, from_two(1, EndpointId::ipn(8, 1)).previous(4));
    assert_eq!(node.sent_over(link.0).len(), 1);
}

#[test]
fn repeated_route_replaces_previous() {
    let mut node = Node::new();
    for peer in [2, 3, 2] {
        node.admin(AdminInput::AddRoute { pattern: "ipn:7.*".into(), next_hop: EndpointId::ipn(peer, 0) });
    }
    let routes = node.agent.routes().iter().filter(|(pattern, _)| pattern == "ipn:7.*");
    assert_eq!(routes.map(|(_, hop)| hop.clone()).collect::<Vec<_>>(), [EndpointId::ipn(2, 0)]);
}
