//! A node with a tunnel to `ipn:3.0`, the stack's part in it, and inputs from the far end.

use super::{Bundle, Node, Sent, Toy, from_two, settings, toy};
use farlink_base::layer::Ticket;
use farlink_base::{Duration, EndpointId, Event, Facts, LinkId, Payload};
use farlink_bpa::app::{AppOutput, DeliveryId, RegistrationId};
use farlink_bpa::{
    Answer, Edge, Input, Numbers, OfferToken, Output, RareSettings, Settings, TunnelCodes, TunnelSettings,
};

/// Settings with a tunnel to `ipn:3.0` for bundles to `ipn:9`.
pub fn tunnel(change: impl FnOnce(&mut TunnelSettings)) -> Settings {
    let mut tunnel = TunnelSettings {
        to: vec!["ipn:9.*".into()],
        custody: true,
        timeout: Duration::from_secs(10),
        version: toy::VERSION,
        ..TunnelSettings::new(EndpointId::ipn(3, 0))
    };
    change(&mut tunnel);
    let rare = RareSettings { tunnels: vec![tunnel], ..RareSettings::default() };
    Settings { rare: Some(Box::new(rare)), ..settings() }
}
pub fn node() -> Node {
    Node::with(tunnel(|_| {}), None)
}
pub fn plain() -> Node {
    Node::with(tunnel(|tunnel| tunnel.custody = false), None)
}
pub fn to_nine(sequence: u64) -> Bundle {
    from_two(sequence, EndpointId::ipn(9, 1))
}
/// Bundles that wait to be rendered for the tunnel.
pub fn inside(node: &Node) -> Vec<Sent> {
    node.sent().into_iter().filter(|sent| sent.link == LinkId::TUNNEL).collect()
}
/// Transmissions over real links.
pub fn outer(node: &Node) -> Vec<Sent> {
    node.sent().into_iter().filter(|sent| sent.link != LinkId::TUNNEL).collect()
}
/// Renders all waiting bundles so that they leave; returns their transmission numbers.
pub fn wrap(node: &mut Node) -> Vec<u64> {
    let waiting = inside(node);
    node.said.clear();
    for sent in &waiting {
        node.tell(Input::Rendered { id: sent.id, rope: Payload::from(vec![7; 50]) });
    }
    outer(node).iter().map(number_of).collect()
}
pub fn number_of(sent: &Sent) -> u64 {
    let bytes = sent.bundle.payload.to_bytes().unwrap();
    u64::from_be_bytes(bytes[1..9].try_into().unwrap())
}
/// Sends a bundle through the tunnel and confirms the outer one; returns its transmission number.
pub fn through(node: &mut Node, sequence: u64) -> u64 {
    node.receive(sequence, to_nine(sequence));
    let given = wrap(node);
    let left = outer(node);
    node.said.clear();
    node.confirm(left[0].id);
    given[0]
}
pub fn run(first: u64, last: u64) -> Vec<Numbers> {
    vec![Numbers { sequence: 0, destination: EndpointId::Null, first, last }]
}
pub fn record(by: u64, sequence: u64, payload: Payload) -> Bundle {
    Bundle::new(EndpointId::ipn(by, 0), EndpointId::ipn(1, 0), sequence)
        .facts(Facts::ADMIN)
        .payload(payload)
        .lifetime_ms(10_000_000)
}
/// Opens the outer bundles that the node asks for, as a stack does.
pub fn open(node: &mut Node) -> Vec<DeliveryId> {
    let pick = |o: &Output| match o {
        Output::Open { output: AppOutput::Deliver { registration, delivery, bundle }, .. } => {
            assert_eq!(*registration, RegistrationId::TUNNEL);
            Some((*delivery, bundle.payload.clone()))
        }
        _ => None,
    };
    let wanted: Vec<_> = node.said.iter().filter_map(pick).collect();
    node.said.retain(|output| !matches!(output, Output::Open { .. }));
    for (delivery, payload) in wanted.clone() {
        node.tell(Input::Outer { delivery, payload });
    }
    wanted.into_iter().map(|(delivery, _)| delivery).collect()
}
pub fn signal(node: &mut Node, by: u64, sequence: u64, answer: Answer, runs: &[Numbers]) {
    let payload = Toy.tunnel_signal(TunnelCodes::default(), answer, runs);
    node.receive_over(1, 1000 + sequence, record(by, sequence, payload));
    open(node);
}
pub fn count(node: &Node, which: fn(&Event) -> bool) -> usize {
    node.events().iter().filter(|event| which(event)).count()
}
pub fn ignored(node: &Node) -> usize {
    count(node, |event| matches!(event, Event::CustodySignalIgnored { .. }))
}

/// Plays the stack: an inner bundle arrives.
pub fn comes_out(node: &mut Node, delivery: DeliveryId, bundle: Bundle) {
    let (bundle, hop) = bundle.parts();
    let token = OfferToken { layer: OfferToken::TUNNEL, ticket: Ticket(delivery.0) };
    node.tell(Input::Arrived { link: LinkId::TUNNEL, token, bundle, hop });
}
/// Passes verdicts on inner bundles to their deliveries.
pub fn judge(node: &mut Node) {
    let pick = |o: &Output| match o {
        Output::Verdict { token, result } if token.layer == OfferToken::TUNNEL => Some((token.ticket.0, *result)),
        _ => None,
    };
    let verdicts: Vec<_> = node.said.iter().filter_map(pick).collect();
    node.said.retain(|o| !matches!(o, Output::Verdict { token, .. } if token.layer == OfferToken::TUNNEL));
    for (delivery, result) in verdicts {
        node.tell(Input::Judged { delivery: DeliveryId(delivery), result });
    }
}
pub fn carried(number: u64) -> Payload {
    Toy.carry(TunnelCodes::default(), number, None, Payload::from(&b"bundle"[..]))
}
pub fn signals(node: &Node) -> Vec<(EndpointId, u8)> {
    let of = |sent: &Sent| {
        let bytes = sent.bundle.payload.to_bytes()?;
        (bytes.first() == Some(&b'T')).then(|| (sent.bundle.destination.clone(), bytes[1]))
    };
    node.sent().iter().filter_map(of).collect()
}
