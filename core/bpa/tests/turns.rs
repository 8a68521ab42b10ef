//! Links to neighbours in radio contact ([`Origin::Met`]) take turns: one bundle leaves in each turn, and a request for
//! the next turn follows while bundles are left.

use crate::support::meeting::{alone, carried, nine};
use crate::support::{Bundle, Node, Script, link};
use farlink_base::{EndpointId, LinkId};
use farlink_bpa::{Input, LinkSettings, Origin, Output};

/// A node whose links are down, with `bundles` bundles for remote nodes.
fn node(bundles: u64) -> Node {
    let mut node = alone(Script::epidemic());
    (1..=bundles).for_each(|n| carried(&mut node, n, nine()));
    node.said.clear();
    node
}
fn meet(node: &mut Node, n: u32) {
    let settings = LinkSettings { name: format!("radio{n}"), ..link(n) };
    assert!(node.agent.add_link_of(node.now, &settings, Origin::Met, &mut node.edge, &mut node.said));
    node.agent.free_hellos(LinkId(n));
    node.tell(Input::Wake);
}
fn turn(node: &mut Node, n: u32) -> usize {
    node.tell(Input::Turn { link: LinkId(n) });
    node.take_sent().len()
}
fn hellos(node: &Node) -> Vec<(u32, Vec<u8>)> {
    let pick =
        |o: &Output| if let Output::Hello { link, content } = o { Some((link.0, content.clone())) } else { None };
    node.said.iter().filter_map(pick).collect()
}
fn calls(node: &Node) -> usize {
    node.said.iter().filter(|o| matches!(o, Output::Waits { .. })).count()
}
/// Receives a hello without identities over link `n`.
fn receive_hello(node: &mut Node, n: u32) {
    let mut other = self::node(0);
    meet(&mut other, n);
    let content = hellos(&other).remove(0).1;
    node.tell(Input::Hello { link: LinkId(n), content });
}

#[test]
fn one_bundle_leaves_per_turn() {
    // `Output::Waits` requests a turn, and each turn lets one bundle leave.
    let mut node = node(3);
    meet(&mut node, 4);
    assert_eq!((hellos(&node).len(), node.sent().len(), calls(&node)), (1, 0, 0), "its summary is awaited");
    assert_eq!(turn(&mut node, 4), 0);
    receive_hello(&mut node, 4);
    assert_eq!((node.sent().len(), calls(&node)), (0, 1), "it calls once, for three");
    node.said.clear();
    for left in [2, 1, 0] {
        node.tell(Input::Turn { link: LinkId(4) });
        assert_eq!((node.sent().len(), calls(&node)), (1, usize::from(left > 0)), "{left} are left");
        node.said.clear();
    }
    assert_eq!(turn(&mut node, 4), 0);
    // Two later bundles cause one request for a turn.
    for n in [4, 5] {
        node.receive_over(0, n, Bundle::new(EndpointId::ipn(5, 5), nine(), n));
    }
    assert_eq!((node.sent().len(), calls(&node)), (0, 1));
    node.said.clear();
    assert_eq!(turn(&mut node, 4), 1);
}

#[test]
fn failed_send_requests_another_turn() {
    let mut node = node(1);
    meet(&mut node, 4);
    receive_hello(&mut node, 4);
    node.said.clear();
    node.tell(Input::Turn { link: LinkId(4) });
    let sent = node.take_sent();
    node.fail(sent[0].id, None);
    assert_eq!((node.sent().len(), calls(&node)), (0, 1), "not before its turn");
    assert_eq!(turn(&mut node, 4), 1);
}

#[test]
fn met_neighbour_forgotten_with_last_link() {
    let mut node = node(1);
    meet(&mut node, 4);
    receive_hello(&mut node, 4);
    assert_eq!(turn(&mut node, 4), 1);
    node.remove_link(4);
    node.said.clear();
    assert_eq!(turn(&mut node, 4), 0, "there is no such link");
    node.tell(Input::Hello { link: LinkId(4), content: vec![1; 40] });
    meet(&mut node, 4);
    assert_eq!(hellos(&node).len(), 1, "and is greeted as if for the first time");
    assert_eq!(turn(&mut node, 4), 0, "it was not heard yet");
}

#[test]
fn malformed_hello_is_ignored() {
    let mut node = node(1);
    meet(&mut node, 4);
    for content in [vec![], vec![9; 3], vec![1; 26], vec![0xff; 4000]] {
        node.tell(Input::Hello { link: LinkId(4), content });
    }
    assert_eq!(turn(&mut node, 4), 0, "its summary is still awaited");
    node.wait_ms(2100);
    assert_eq!(calls(&node), 1, "for two seconds");
}

#[test]
fn hello_leaves_in_its_turn() {
    let mut node = node(0);
    let settings = LinkSettings { name: "radio4".into(), ..link(4) };
    assert!(node.agent.add_link_of(node.now, &settings, Origin::Met, &mut node.edge, &mut node.said));
    assert_eq!(turn(&mut node, 4), 1);
}
