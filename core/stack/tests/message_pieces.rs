//! Pieces of bundles that cross as values, in simulations of messages.

use crate::reads::Reads;
use farlink_base::{
    Clock, DataRate, DtnTime, Duration, EndpointId, Event, Facts, Instant, LinkCrc, LinkId, LinkTerms, Malformed,
    Payload, Priority,
};
use farlink_bpa::app::{AppInput, RequestId, SendRequest};
use farlink_routing::{PlanIndex, contact_plan};
use farlink_stack::{
    BpV6, BpV7, Codec, Config, Input, LayerConfig, LayerKind, LinkConfig, LinkParams, MessageInput, MessageOutput,
    Output, Stack, StoreKind,
};

/// BPv7 that cannot read the pieces it makes.
fn blind(codec: BpV7) -> Box<dyn Codec> {
    let read = |codec: &BpV7, rope: &Payload| match codec.read(rope)? {
        (bundle, _) if bundle.fragment().is_some() => {
            Err(Malformed { offset: 0, reason: "this codec reads no fragments" })
        }
        read => Ok(read),
    };
    Box::new(Reads(codec, read))
}

/// Two contacts: the first has room for half a megabyte.
const PLAN: &str = "contact 1 2 +5..+9 rate 1 Mbit/s\ncontact 2 1 +5..+9 rate 1 Mbit/s\n\
    contact 1 2 +20..+40 rate 1 Mbit/s\ncontact 2 1 +20..+40 rate 1 Mbit/s";

/// A node, and its outputs up to a time.
struct Sender(Stack, Vec<Output>);
impl Sender {
    fn new(codec: impl Fn(BpV7) -> Box<dyn Codec>) -> Sender {
        Sender::over(LinkTerms::default(), codec)
    }
    fn over(terms: LinkTerms, codec: impl Fn(BpV7) -> Box<dyn Codec>) -> Sender {
        let mut config = Config::new(EndpointId::ipn(1, 0));
        config.layers = vec![LayerConfig { name: "messages".into(), kind: LayerKind::Message }];
        let span = LinkParams::Message { wire_bytes_per_million: 1_000_000 };
        let peer = EndpointId::ipn(2, 0);
        let (rate, one_way_delay) = (Some(DataRate(1_000_000)), Duration::ZERO);
        config.links =
            vec![LinkConfig { name: "link".into(), peer, layer: 0, rate, one_way_delay, terms, params: span }];
        config.store.kind = StoreKind::Memory;
        config.router = "static".into();
        config.plan = Some(PlanIndex::new(contact_plan::parse(PLAN).expect("a plan").plan).into());
        let v7 = BpV7 { profile: config.node.profile, crc: config.node.agent.crc, accel: config.accel, custody: None };
        let mut sender = Sender(Stack::speaking(config, vec![codec(v7)]).expect("right"), Vec::new());
        let utc = Some(DtnTime(800_000_000_000));
        sender.tell(0, Input::Clock(Clock { at: Instant::ZERO, utc, error_ms: 0 }));
        sender.tell(0, Input::Message(MessageInput::Ready { link: LinkId(0), ready: true }));
        sender
    }
    fn tell(&mut self, seconds: u64, input: Input) {
        self.0.handle(Instant(seconds * 1_000_000_000), input, &mut self.1);
    }
    fn send(&mut self, seconds: u64, len: u64) {
        let bundle = SendRequest {
            source: EndpointId::ipn(1, 1),
            destination: EndpointId::ipn(2, 1),
            report_to: EndpointId::Null,
            facts: Facts::default(),
            lifetime_ms: 3_600_000,
            priority: Priority::Normal,
            hop_limit: 0,
            reliable: true,
            payload: Payload::fill(1, len),
        };
        self.tell(seconds, Input::App(AppInput::Send { request: RequestId(0), bundle }));
    }
    fn run(&mut self, seconds: u64) {
        let end = Instant(seconds * 1_000_000_000);
        for _ in 0..10_000 {
            let Some(at) = self.0.next_timeout().filter(|at| *at <= end) else { return };
            self.0.handle(at, Input::Wake, &mut self.1);
        }
        panic!("it does not come to rest");
    }
    /// Payload bytes and sizes of the bundles that left.
    fn left(&self) -> Vec<(u64, u64)> {
        let left = |o: &Output| match o {
            Output::Message(MessageOutput::Send { bundle, size, .. }) if !bundle.is_administrative() => {
                Some((bundle.payload.len(), *size))
            }
            _ => None,
        };
        self.1.iter().filter_map(left).collect()
    }
    /// Pieces cut, and transmissions that failed.
    fn tried(&self) -> (usize, usize) {
        let count = |want: fn(&Event) -> bool| {
            self.1.iter().filter(|o| matches!(o, Output::Event(event) if want(event))).count()
        };
        (count(|e| matches!(e, Event::Fragmented { .. })), count(|e| matches!(e, Event::ForwardFailed { .. })))
    }
}

#[test]
fn fragment_leaves_with_own_size() {
    let codecs: [fn(BpV7) -> Box<dyn Codec>; 2] =
        [|codec| Box::new(codec), |codec| Box::new(BpV6 { profile: codec.profile, numbers: true })];
    for codec in codecs {
        let mut sender = Sender::new(codec);
        sender.send(1, 600_000);
        sender.run(6);
        let [(payload, size)] = sender.left()[..] else { panic!("{:?}", sender.left()) };
        assert!(payload > 400_000 && payload < 500_000 && (payload..payload + 200).contains(&size), "{size}");
        assert_eq!(sender.tried(), (1, 0));
    }
}

#[test]
fn unreadable_fragment_never_leaves() {
    let mut sender = Sender::new(blind);
    sender.send(1, 600_000);
    sender.run(6);
    assert_eq!((sender.left(), sender.tried()), (vec![], (1, 1)));
    assert_eq!(sender.0.status(Instant(6_000_000_000)).bundles, 1, "it is kept");
    // The failed fragment left the link ready, and the next contact has room for the whole bundle.
    sender.run(30);
    assert!(matches!(sender.left()[..], [(600_000, size)] if size > 600_000), "{:?}", sender.left());
}

#[test]
fn message_has_crc_of_its_link() {
    let sizes = [LinkCrc::Node, LinkCrc::Crc16, LinkCrc::None].map(|crc| {
        let mut sender = Sender::over(LinkTerms { crc, crc_forwarded: false }, |codec| Box::new(codec));
        sender.send(1, 1000);
        sender.run(6);
        let bundle = sender.1.iter().find_map(|output| match output {
            Output::Message(MessageOutput::Send { bundle, .. }) if !bundle.is_administrative() => Some(bundle.clone()),
            _ => None,
        });
        let [(1000, size)] = sender.left()[..] else { panic!("{:?}", sender.left()) };
        assert_eq!(bundle.expect("it left").size(), size, "{crc:?}: the neighbour gets what was charged");
        size
    });
    // Payload and hop-count block have a CRC of 4 B, 2 B or none behind a head of 1 B.
    assert_eq!([sizes[0] - sizes[1], sizes[1] - sizes[2]], [2 * 2, 2 * 3]);
}
