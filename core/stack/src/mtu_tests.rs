//! A link with an MTU, from application to application: agent, codec and convergence layer of two nodes, joined by
//! hand.

use crate::edge::{BpV7, Codec, Edges};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::SocketAddr;
use farlink_base::layer::{self, ConvergenceLayer};
use farlink_base::{
    Accel, AgentSettings, Clock, DataVolume, DtnTime, Duration, EndpointId, Facts, Instant, LayerId, LinkId, LinkTerms,
    Payload, Priority, Refusal, socket, store,
};
use farlink_bpa::app::{AppInput, AppOutput, RegistrationId, RequestId, SendRequest};
use farlink_bpa::{Agent, Input, LinkSettings, OfferToken, Output, Settings};
use farlink_bundle::{CrcType, Profile, decode};
use farlink_cla::udpcl;

const LINK: LinkId = LinkId(0);

struct MtuNode {
    agent: Agent,
    edges: Edges,
    layer: udpcl::Udpcl,
    now: Instant,
    /// Encoded bundles that were handed to the layer, and payloads delivered here.
    handed: Vec<Payload>,
    delivered: Vec<Payload>,
    said: Vec<Output>,
}

fn settings(own: u64, largest: Option<u64>) -> Settings {
    let link = LinkSettings {
        link: LINK,
        name: "link".into(),
        peer: EndpointId::ipn(3 - own, 0),
        rate: None,
        one_way_delay: Duration::ZERO,
        terms: LinkTerms::default(),
        wire_bytes_per_million: 1_000_000,
        sessions: false,
        largest: largest.map(DataVolume),
    };
    Settings {
        node_ids: Vec::from([EndpointId::ipn(own, 0)]),
        links: Vec::from([link]),
        routes: Vec::new(),
        limits: Default::default(),
        node: AgentSettings { hop_limit: 30, ..AgentSettings::default() },
        capacity_bytes: 1 << 30,
        record_bytes: 0,
        durable: false,
        custody: None,
        rare: None,
        version: 7,
        shard: 0,
        seed: own,
    }
}

impl MtuNode {
    fn new(own: u64, largest: Option<u64>, crc: CrcType) -> MtuNode {
        let node = Vec::from([farlink_base::NodeId::ipn(own)]);
        let router = farlink_routing::make_router("static", &[], &node, 1).unwrap();
        let control = farlink_congestion::make_control("none", &[], 1).unwrap();
        let codec = BpV7 { profile: Profile::Strict, crc, accel: Accel::default(), custody: None };
        let span = udpcl::LinkParams { link: LINK, pace_bytes: 1 << 30, ..udpcl::LinkParams::default() };
        let config = udpcl::Config { split: farlink_bundle::decode_prefix, ..udpcl::Config::default() };
        let mut node = MtuNode {
            agent: Agent::new(settings(own, largest), router, control),
            edges: Edges::new(Vec::from([Box::new(codec) as Box<dyn Codec>]), false),
            layer: udpcl::Udpcl::new(config, Vec::from([span])),
            now: Instant(1_000_000),
            handed: Vec::new(),
            delivered: Vec::new(),
            said: Vec::new(),
        };
        let peer = address(3 - own);
        node.layer(layer::Input::Socket(socket::Input::Located { link: LINK, addresses: Vec::from([peer]) }));
        let utc = Some(DtnTime(800_000_000_000));
        node.agent(Input::Clock(Clock { at: node.now, utc, error_ms: 0 }));
        node.agent(Input::Store(store::Output::Opened { counter: 0, last_bundle: 0, secret: 0 }));
        let endpoint = EndpointId::ipn(own, 1);
        let registration = RegistrationId(1);
        node.agent(Input::App(AppInput::Register { registration, endpoint, window: 100 }));
        node
    }
    /// Datagrams that leave the layer after an input.
    fn layer(&mut self, input: layer::Input) -> Vec<Payload> {
        let mut out = Vec::new();
        self.layer.handle(self.now, input, &mut out);
        let mut datagrams = Vec::new();
        for output in out {
            match output {
                layer::Output::Socket(socket::Output::Datagrams { train, .. }) => datagrams.extend(train.datagrams()),
                layer::Output::Ready { link, ready } => datagrams.extend(self.agent(Input::Ready { link, ready })),
                layer::Output::Sent { id, .. } => datagrams.extend(self.agent(Input::Sent { id })),
                layer::Output::SendFailed { id, refused, .. } => {
                    datagrams.extend(self.agent(Input::SendFailed { id, refused }));
                }
                layer::Output::Offer { ticket, link, part, .. } => {
                    let arrived = self.edges.arrived(OfferToken { layer: LayerId(0), ticket }, link, &part, 0);
                    datagrams.extend(self.agent(arrived));
                }
                _ => {}
            }
        }
        datagrams
    }
    fn agent(&mut self, input: Input) -> Vec<Payload> {
        let mut out = Vec::new();
        self.agent.handle(self.now, input, &mut self.edges, &mut out);
        while self.agent.next_timeout().is_some_and(|at| at <= self.now) {
            self.agent.handle(self.now, Input::Wake, &mut self.edges, &mut out);
        }
        let mut datagrams = Vec::new();
        for output in out {
            match output {
                Output::Link { link, state } => datagrams.extend(self.layer(layer::Input::Link { link, state })),
                Output::Send { link, id, bundle, hop, cut, reliable, .. } => {
                    let payload = match &cut {
                        Some(range) => bundle.payload.slice(range.start, range.end - range.start),
                        None => bundle.payload.clone(),
                    };
                    let rope = self.edges.render(&bundle, payload, &hop, cut);
                    self.handed.push(rope.clone());
                    datagrams.extend(self.layer(layer::Input::send(link, id, rope, reliable)));
                }
                Output::App(AppOutput::Deliver { bundle, .. }) => self.delivered.push(bundle.payload),
                other => self.said.push(other),
            }
        }
        datagrams
    }
    fn send(&mut self, bytes: u64, facts: u32) -> Vec<Payload> {
        let bundle = SendRequest {
            source: EndpointId::ipn(1, 5),
            destination: EndpointId::ipn(2, 1),
            report_to: EndpointId::Null,
            facts: Facts(facts),
            lifetime_ms: 60_000,
            priority: Priority::Normal,
            hop_limit: 0,
            reliable: true,
            payload: Payload::fill(3, bytes).to_bytes().unwrap_or_default().into(),
        };
        self.agent(Input::App(AppInput::Send { request: RequestId(7), bundle }))
    }
    /// Everything that leaves in some seconds.
    fn run(&mut self, seconds: u64) -> Vec<Payload> {
        let (end, mut datagrams) = (self.now + Duration::from_secs(seconds), Vec::new());
        loop {
            let due = Instant::earliest([self.layer.next_timeout(), self.agent.next_timeout()]);
            let Some(due) = due.filter(|due| *due <= end) else { break };
            self.now = self.now.max(due);
            datagrams.extend(self.layer(layer::Input::Wake));
            datagrams.extend(self.agent(Input::Wake));
        }
        self.now = end;
        datagrams
    }
}
fn address(node: u64) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, node as u8], 4556))
}

#[test]
fn long_bundle_fills_datagrams_within_mtu() {
    for crc in [CrcType::None, CrcType::Crc16, CrcType::Crc32c] {
        for (largest, bytes) in [(300u64, 20_000u64), (1400, 100_000), (65_507, 1_000_000)] {
            let (mut one, mut two) = (MtuNode::new(1, Some(largest), crc), MtuNode::new(2, None, crc));
            let mut datagrams = one.send(bytes, 0);
            datagrams.extend(one.run(2));
            let lengths: Vec<u64> = one.handed.iter().map(Payload::len).collect();
            assert!(lengths.len() > 10 && lengths.iter().all(|len| *len <= largest), "{largest}: {lengths:?}");
            // The first piece carries more blocks, and lengths take between 1 and 9 bytes: hence a tolerance of 8.
            let filled = lengths.iter().rev().skip(1).all(|len| len + 8 >= largest);
            assert!(filled, "{largest} B, {crc:?}: {lengths:?}");
            assert_eq!(datagrams.iter().map(Payload::len).collect::<Vec<u64>>(), lengths);
            for datagram in datagrams.into_iter().rev() {
                let piece = decode(&datagram, Profile::Strict, &Accel::default()).unwrap();
                assert!(piece.primary.fragment.is_some_and(|fragment| fragment.total == bytes));
                let train = layer::DatagramBatch::single(datagram);
                two.layer(layer::Input::Socket(socket::Input::Datagrams { from: address(1), train }));
            }
            assert_eq!(two.delivered.len(), 1);
            assert!(two.delivered[0] == Payload::fill(3, bytes));
        }
    }
}

#[test]
fn bundle_at_mtu_leaves_whole() {
    let mut probe = MtuNode::new(1, None, CrcType::Crc32c);
    probe.send(1000, 0);
    probe.run(1);
    let len = probe.handed[0].len();
    for (largest, pieces) in [(len, 1), (len - 1, 2)] {
        let mut node = MtuNode::new(1, Some(largest), CrcType::Crc32c);
        node.send(1000, 0);
        node.run(1);
        assert_eq!(node.handed.len(), pieces, "{len} B over a link that takes {largest} B");
        assert!(node.handed.iter().all(|bundle| bundle.len() <= largest));
    }
}

#[test]
fn unfragmentable_oversize_bundle_never_leaves() {
    let mut node = MtuNode::new(1, Some(1400), CrcType::Crc32c);
    node.send(5000, Facts::NO_FRAGMENT);
    node.send(500, Facts::NO_FRAGMENT);
    node.run(20);
    assert_eq!(node.handed.len(), 1);
    let too_large = |output: &&Output| {
        matches!(
            output,
            Output::Event(farlink_base::Event::Refused { link: Some(LINK), reason: Refusal::TooLarge, .. })
        )
    };
    assert_eq!(node.said.iter().filter(too_large).count(), 1);
    let why: Vec<String> =
        node.agent.bundles(node.now, farlink_base::BundleHandle(0), 9).into_iter().map(|row| row.waits_for).collect();
    assert_eq!(why, ["a link towards ipn:2.0 that takes a bundle of its length"]);
}

#[test]
fn labels_count_toward_mtu() {
    // Blocks added at this hop count: age, hop count, previous node, and labels of policies.
    let labels = Some([5, 70_000]);
    let draft = farlink_bpa::Draft {
        compressed: None,
        version: 7,
        source: EndpointId::ipn(9, 1),
        destination: EndpointId::ipn(2, 1),
        report_to: EndpointId::Null,
        facts: Facts(0),
        lifetime_ms: 60_000,
        priority: Priority::Normal,
        hop_limit: 30,
    };
    let creation = farlink_base::CreationTimestamp { time: DtnTime(800_000_000_000), sequence: 1 };
    let handed = |largest: Option<u64>| {
        let mut node = MtuNode::new(1, largest, CrcType::Crc32c);
        let payload = Payload::from(alloc::vec![7; 1000]);
        let meta = farlink_bpa::Edge::make(&mut node.edges, draft.clone(), creation, payload).unwrap();
        let hop = farlink_base::HopState { labels, ..farlink_base::HopState::default() };
        let token = OfferToken { layer: LayerId(0), ticket: layer::Ticket(1) };
        // As at a relay, the bundle arrives over another link than it leaves by.
        let link = LinkId(LinkId::DYNAMIC | 99);
        node.agent(Input::Arrived { link, token, bundle: alloc::sync::Arc::new(meta), hop: Box::new(hop) });
        node.run(1);
        node.handed.iter().map(Payload::len).collect::<Vec<u64>>()
    };
    let [len] = handed(None)[..] else { panic!("it leaves whole") };
    assert_eq!(handed(Some(len)), [len]);
    for less in 1..30 {
        let pieces = handed(Some(len - less));
        assert!(pieces.len() == 2 && pieces.iter().all(|piece| *piece <= len - less), "{pieces:?}");
    }
}
