//! Nodes that meet neighbours and exchange hellos.

use super::{Bundle, NOW_UTC, Node, Rule, Script, Sent, settings};
use farlink_base::EndpointId;

/// Data transmissions since the last call.
pub fn data(node: &mut Node) -> Vec<Sent> {
    node.take_sent().into_iter().filter(|s| !s.bundle.is_administrative()).collect()
}
pub fn names(sent: &[Sent]) -> Vec<(u32, u64)> {
    sent.iter().map(|s| (s.link.0, s.bundle.sequence)).collect()
}
pub fn nine() -> EndpointId {
    EndpointId::ipn(9, 9)
}
/// A node whose links are down.
pub fn alone(router: Script) -> Node {
    let routes = farlink_bpa::Settings { routes: vec![], ..settings() };
    let mut node = Node::of(routes, None, router, Rule::default());
    node.tell(farlink_bpa::Input::Wake);
    node.carrier(0, false);
    node.carrier(1, false);
    fail_all(&mut node);
    node
}
/// Fails all open transmissions, as a link does that goes down.
pub fn fail_all(node: &mut Node) {
    for sent in node.take_sent() {
        node.fail(sent.id, None);
    }
}
/// Receives a bundle of `ipn:5` from an unconfigured peer that then disconnects.
pub fn carried(node: &mut Node, sequence: u64, to: EndpointId) {
    let link = node.comes(7, EndpointId::ipn(77, 0));
    node.receive_over(link, sequence, Bundle::new(EndpointId::ipn(5, 5), to, sequence));
    node.goes(link);
    for sent in node.take_sent() {
        node.confirm(sent.id);
    }
}
/// Receives a hello of the neighbour with these identities.
pub fn hello(node: &mut Node, link: u32, ids: &[u128], summary: bool) {
    let mut content = vec![b'H', 1, u8::from(summary)];
    content.extend_from_slice(&[0; 16]);
    content.extend_from_slice(&(ids.len() as u32).to_be_bytes());
    ids.iter().for_each(|id| content.extend_from_slice(&(*id as u64).to_be_bytes()));
    content.extend_from_slice(&0u32.to_be_bytes());
    hello_of(node, link, EndpointId::ipn(u64::from(link) + 2, 0), content);
}
pub fn hello_of(node: &mut Node, link: u32, source: EndpointId, content: Vec<u8>) {
    let sequence = node.now.0 + u64::from(link) + 1000;
    let hello = Bundle::new(source, EndpointId::ipn(1, 0), sequence).facts(farlink_base::Facts::ADMIN);
    node.receive_over(link, 5000, hello.created_ms(NOW_UTC.0).payload(farlink_base::Payload::from(content)));
}
