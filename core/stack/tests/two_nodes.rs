//! Two whole nodes in virtual time, joined by the plainest network there is: datagrams and stream
//! bytes arrive after a fixed delay. One bundle and many, over every convergence layer and store.

use farlink_base::layer::{DatagramBatch, Destination, SendId, Ticket};
use farlink_base::socket;
use farlink_base::store::{DiskAction, DiskAnswer, DiskDone};
use farlink_base::{
    Bytes, Chunk, Clock, DataVolume, DtnTime, Duration, EndpointId, Event, Facts, Instant, LayerId, LinkId, Payload,
    Priority, StreamId,
};
use farlink_bpa::app::{AdminInput, AppInput, AppOutput, DeliveryId, RegistrationId, RequestId, SendRequest};
use farlink_cla::{ltp, tcpcl_v4};
use farlink_stack::{
    Config, Input, LayerConfig, LayerKind, LinkConfig, LinkParams, MessageInput, MessageOutput, Output, Stack,
    StoreKind,
};
use std::collections::BTreeMap;
use std::net::SocketAddr;

const EPOCH: DtnTime = DtnTime(800_000_000_000);
const ROOM: u64 = 1 << 20;

#[derive(Clone, Copy, PartialEq, Debug)]
enum TestedLayer {
    Ltp,
    TcpclV4,
    Message,
}

/// Node `index` (0 or 1) is `ipn:1.0` or `ipn:2.0`.
fn config(layer: TestedLayer, index: u64, store: StoreKind, delay: Duration) -> Config {
    let (own, peer) = (index + 1, 2 - index);
    let mut config = Config::new(EndpointId::ipn(own, 0));
    let node_id = |n: u64| format!("ipn:{n}.0");
    let (kind, span) = match layer {
        TestedLayer::Ltp => (
            LayerKind::Ltp(ltp::Config { engine: own, ..ltp::Config::default() }),
            LinkParams::Ltp(ltp::SpanConfig {
                engine: peer,
                node: farlink_base::NodeId::ipn(peer),
                ..ltp::SpanConfig::default()
            }),
        ),
        TestedLayer::TcpclV4 => (
            LayerKind::Tcpcl(tcpcl_v4::Config { node_id: node_id(own), ..tcpcl_v4::Config::default() }),
            LinkParams::Tcpcl(tcpcl_v4::LinkParams {
                node_id: node_id(peer),
                connect: index == 0,
                ..tcpcl_v4::LinkParams::default()
            }),
        ),
        TestedLayer::Message => (LayerKind::Message, LinkParams::Message { wire_bytes_per_million: 1_000_000 }),
    };
    config.layers = vec![LayerConfig { name: "layer".into(), kind }];
    config.links = vec![LinkConfig {
        name: "link".into(),
        peer: EndpointId::ipn(peer, 0),
        layer: 0,
        rate: None,
        one_way_delay: delay,
        terms: Default::default(),
        params: span,
    }];
    config.keep_in(store, DataVolume(1 << 30));
    config.router = "static".into();
    config.seed = index;
    config
}

#[derive(Default)]
struct PlainDisk {
    files: BTreeMap<u32, Vec<u8>>,
}
impl PlainDisk {
    fn perform(&mut self, action: DiskAction) -> DiskAnswer {
        match action {
            DiskAction::List => {
                return DiskAnswer::Files(self.files.iter().map(|(n, f)| (*n, f.len() as u64)).collect());
            }
            DiskAction::Create { file, .. } => drop(self.files.insert(file, Vec::new())),
            DiskAction::Write { file, offset, data } => {
                let bytes = data.to_bytes().expect("writes carry bytes");
                let content = self.files.entry(file).or_default();
                let end = offset as usize + bytes.len();
                content.resize(content.len().max(end), 0);
                content[offset as usize..end].copy_from_slice(&bytes);
            }
            DiskAction::Sync { .. } | DiskAction::Settle { .. } => {}
            DiskAction::Read { file, offset, len } => {
                let content = self.files.get(&file).map_or(&[][..], |f| f);
                let start = content.len().min(offset as usize);
                let end = content.len().min((offset + len) as usize);
                return DiskAnswer::Data(Bytes::copy_from_slice(&content[start..end]));
            }
            DiskAction::Truncate { file, len } => self.files.entry(file).or_default().truncate(len as usize),
            DiskAction::Remove { file, .. } => drop(self.files.remove(&file)),
            DiskAction::Reserve { .. } => {}
        }
        DiskAnswer::Done
    }
}

struct TwoNodes {
    now: Instant,
    delay: Duration,
    stacks: [Stack; 2],
    disks: [PlainDisk; 2],
    pending: BTreeMap<(Instant, u64), (usize, Input)>,
    order: u64,
    /// The other end of each stream.
    peers: BTreeMap<(usize, StreamId), StreamId>,
    delivered: Vec<Bytes>,
    /// Registrations of the deliveries that are being read from disk.
    reading: BTreeMap<DeliveryId, RegistrationId>,
    /// Number of deliveries that failed because their bytes on disk were lost.
    unreadable: usize,
    sent: usize,
    events: Vec<(usize, Event)>,
}

fn address(node: usize) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, node as u8 + 1], 1113))
}

impl TwoNodes {
    fn new(layer: TestedLayer, store: StoreKind, delay: Duration) -> TwoNodes {
        TwoNodes::tuned(layer, store, delay, |_| {})
    }
    fn tuned(layer: TestedLayer, store: StoreKind, delay: Duration, tune: impl Fn(&mut Config)) -> TwoNodes {
        let stack = |i| {
            let mut config = config(layer, i, store, delay);
            tune(&mut config);
            Stack::new(config).expect("the configuration is right")
        };
        let mut world = TwoNodes {
            now: Instant::ZERO,
            delay,
            stacks: [stack(0), stack(1)],
            disks: Default::default(),
            pending: BTreeMap::new(),
            order: 0,
            peers: BTreeMap::new(),
            delivered: Vec::new(),
            reading: BTreeMap::new(),
            unreadable: 0,
            sent: 0,
            events: Vec::new(),
        };
        for node in [0, 1] {
            world.tell(node, Input::Clock(Clock { at: Instant::ZERO, utc: Some(EPOCH), error_ms: 0 }));
        }
        world
    }
    fn later(&mut self, delay: Duration, node: usize, input: Input) {
        self.order += 1;
        self.pending.insert((self.now + delay, self.order), (node, input));
    }
    fn tell(&mut self, node: usize, input: Input) {
        let mut out = Vec::new();
        self.stacks[node].handle(self.now, input, &mut out);
        for output in out {
            self.follow(node, output);
        }
    }
    fn follow(&mut self, node: usize, output: Output) {
        let peer = 1 - node;
        let stream_peer = |world: &TwoNodes, stream| world.peers.get(&(node, stream)).copied();
        match output {
            Output::Socket(layer, socket::Output::Datagrams { to, train }) => {
                assert!(matches!(to, Destination::Link(LinkId(0)) | Destination::Address(_)));
                let train = DatagramBatch { stride: train.stride, data: flat(&train.data) };
                self.later(
                    self.delay,
                    peer,
                    Input::Socket(layer, socket::Input::Datagrams { from: address(node), train }),
                );
            }
            Output::Socket(layer, socket::Output::Connect { stream, .. }) => {
                // The driver numbers accepted streams; the marked number of the other end is unique.
                let other = StreamId(StreamId::PASSIVE | stream.0);
                self.peers.insert((node, stream), other);
                self.peers.insert((peer, other), stream);
                let from = address(node);
                self.later(self.delay, peer, Input::Socket(layer, socket::Input::Opened { stream: other, from }));
                self.later(
                    self.delay,
                    peer,
                    Input::Socket(LayerId(0), socket::Input::Writable { stream: other, room: ROOM }),
                );
                let twice = self.delay * 2;
                self.later(twice, node, Input::Socket(layer, socket::Input::Opened { stream, from: address(peer) }));
                self.later(twice, node, Input::Socket(LayerId(0), socket::Input::Writable { stream, room: ROOM }));
            }
            Output::Socket(_, socket::Output::Write { stream, data }) => {
                assert!(data.len() <= ROOM, "writes stay within the room");
                if let Some(other) = stream_peer(self, stream) {
                    self.later(
                        self.delay,
                        peer,
                        Input::Socket(LayerId(0), socket::Input::Data { stream: other, data: flat(&data) }),
                    );
                    self.later(
                        Duration::ZERO,
                        node,
                        Input::Socket(LayerId(0), socket::Input::Writable { stream, room: ROOM }),
                    );
                }
            }
            Output::Socket(_, socket::Output::Close { stream, abort }) => {
                if let Some(other) = stream_peer(self, stream) {
                    self.later(
                        self.delay,
                        peer,
                        Input::Socket(LayerId(0), socket::Input::Closed { stream: other, error: abort }),
                    );
                }
            }
            Output::Socket(_, socket::Output::Pause { .. }) | Output::Socket(_, socket::Output::Resume { .. }) => {}
            Output::Socket(_, socket::Output::StartTls { .. } | socket::Output::Confirm { .. }) => {
                panic!("no layer was told to")
            }
            Output::Disk(op) => {
                let answer = self.disks[node].perform(op.action);
                let done = DiskDone { id: op.id, result: Ok(answer) };
                self.later(Duration::from_micros(200), node, Input::DiskDone(done));
            }
            Output::App(AppOutput::Deliver { registration, delivery, bundle }) => {
                let Some(bytes) = bundle.payload.to_bytes() else {
                    // A long payload stays on disk until the application reads it.
                    self.reading.insert(delivery, registration);
                    return self.later(Duration::ZERO, node, Input::Read { delivery, part: bundle.payload });
                };
                self.delivered.push(bytes);
                let done = AppInput::DeliveryDone { registration, delivery, taken: true };
                self.later(Duration::ZERO, node, Input::App(done));
            }
            Output::Read { delivery, result } => {
                let registration = self.reading.remove(&delivery).expect("it was to be read");
                let Ok(part) = result else { return self.unreadable += 1 };
                self.delivered.push(part.to_bytes().expect("read"));
                let done = AppInput::DeliveryDone { registration, delivery, taken: true };
                self.later(Duration::ZERO, node, Input::App(done));
            }
            Output::App(AppOutput::SendResult { result, .. }) => {
                assert!(result.is_ok(), "{result:?}");
                self.sent += 1;
            }
            Output::App(AppOutput::Registered { result, .. }) => assert!(result.is_ok()),
            Output::Event(event) => self.events.push((node, event)),
            Output::Message(MessageOutput::Send { id, bundle, hop, .. }) => {
                // The sender's number serves as the ticket, so that the verdict finds its way back.
                let ticket = Ticket(id.0);
                self.later(
                    self.delay,
                    peer,
                    Input::Message(MessageInput::Arrived { link: LinkId(0), ticket, bundle, hop }),
                );
            }
            Output::Message(
                MessageOutput::Cancel { .. } | MessageOutput::Hello { .. } | MessageOutput::Waits { .. },
            )
            | Output::Across { .. }
            | Output::Spooled { .. } => {}
            Output::Message(MessageOutput::Verdict { ticket, result }) => {
                let done = Input::Message(MessageInput::Done { id: SendId(ticket.0), result: result.map_err(Some) });
                self.later(self.delay, peer, done);
            }
        }
    }
    fn run(&mut self, duration: Duration) {
        let end = self.now + duration;
        loop {
            let pending = self.pending.first_key_value().map(|((t, _), _)| *t);
            let timers = self.stacks.iter().filter_map(Stack::next_timeout);
            // Nothing happens between events, so virtual time skips to the next one.
            let Some(next) = timers.chain(pending).min().filter(|t| *t <= end) else { break };
            self.now = self.now.max(next);
            if pending.is_some_and(|t| t <= self.now) {
                if let Some((_, (node, input))) = self.pending.pop_first() {
                    self.tell(node, input);
                }
                continue;
            }
            for node in [0, 1] {
                self.tell(node, Input::Wake);
            }
        }
        self.now = end;
    }
    fn register(&mut self, node: usize) {
        let endpoint = EndpointId::ipn(node as u64 + 1, 1);
        self.tell(node, Input::App(AppInput::Register { registration: RegistrationId(1), endpoint, window: 4 }));
    }
    fn send(&mut self, from: usize, payload: Payload) {
        let to = 1 - from as u64;
        let bundle = SendRequest {
            source: EndpointId::ipn(from as u64 + 1, 1),
            destination: EndpointId::ipn(to + 1, 1),
            report_to: EndpointId::Null,
            facts: Facts::default(),
            lifetime_ms: 3_600_000,
            priority: Priority::Normal,
            hop_limit: 0,
            reliable: true,
            payload,
        };
        self.tell(from, Input::App(AppInput::Send { request: RequestId(0), bundle }));
    }
}

/// Copies a rope into one piece of memory, as a network does.
fn flat(rope: &Payload) -> Payload {
    Payload::from(rope.to_bytes().expect("the wire carries bytes"))
}

fn content(seed: u64, len: usize) -> Bytes {
    Payload::fill(seed, len as u64).to_bytes().expect("a pattern has bytes")
}

fn exchange(layer: TestedLayer, store: StoreKind, delay: Duration) {
    let mut world = TwoNodes::new(layer, store, delay);
    world.register(0);
    world.register(1);
    // Time for sessions to come up, also over a long delay.
    world.run(Duration::from_secs(20));
    let mut expected = Vec::new();
    for n in 0..40u64 {
        let bytes = content(n, [3, 1000, 40_000, 300_000][n as usize % 4]);
        expected.push(bytes.clone());
        world.send((n % 2) as usize, Payload::from(bytes));
    }
    world.run(Duration::from_secs(60));
    let mut got = world.delivered.clone();
    got.sort();
    // Bundles may overtake one another between retransmissions.
    expected.sort();
    assert_eq!(got.len(), expected.len(), "{layer:?} {store:?} {delay:?}");
    assert!(got == expected, "every byte arrives as it was sent");
    assert_eq!(world.sent, 40);
    let held: Vec<u64> = world.stacks.iter().map(|s| s.status(world.now).bundles).collect();
    assert_eq!(held, [0, 0], "nothing stays behind");
}

#[test]
fn bundles_cross_by_ltp() {
    exchange(TestedLayer::Ltp, StoreKind::Memory, Duration::from_millis(1));
    exchange(TestedLayer::Ltp, StoreKind::Durable, Duration::from_millis(600));
}

/// Keeps 9171-5.4-4.
#[test]
fn bundles_cross_by_tcpcl_v4() {
    exchange(TestedLayer::TcpclV4, StoreKind::Memory, Duration::from_millis(1));
    exchange(TestedLayer::TcpclV4, StoreKind::Durable, Duration::from_millis(300));
}

#[test]
fn bundles_cross_at_message_level() {
    exchange(TestedLayer::Message, StoreKind::Memory, Duration::from_secs(1));
}

/// Two nodes; the first has long bundles for the second on disk, and the link does not take bundles yet.
fn long_bundles(layer: TestedLayer) -> (TwoNodes, Vec<Bytes>) {
    let mut world = TwoNodes::tuned(layer, StoreKind::Durable, Duration::from_millis(2), |config| {
        config.node.limits.memory_bytes = 0;
        config.node.store.spill_from = DataVolume(2 << 20);
    });
    world.register(1);
    world.run(Duration::from_secs(2));
    world.tell(0, Input::LinkDown { link: LinkId(0) });
    let contents: Vec<Bytes> = [7_300_000, 900, 3_000_000, 200_000].map(|len| content(len as u64, len)).into();
    contents.iter().for_each(|bytes| world.send(0, Payload::from(bytes.clone())));
    world.run(Duration::from_secs(20));
    assert_eq!((world.sent, world.delivered.len()), (4, 0));
    (world, contents)
}

#[test]
fn long_bundles_cross_disk_to_disk() {
    for layer in [TestedLayer::TcpclV4, TestedLayer::Ltp] {
        let (mut world, mut contents) = long_bundles(layer);
        world.tell(0, Input::LinkUp { link: LinkId(0) });
        world.run(Duration::from_secs(120));
        world.delivered.sort();
        contents.sort();
        assert!(world.delivered == contents, "{layer:?}: {} delivered", world.delivered.len());
        for stack in &world.stacks {
            assert_eq!((stack.status(world.now).bundles, stack.store_usage().bytes), (0, 0), "{layer:?}");
        }
    }
}

#[test]
fn disk_damage_loses_one_bundle() {
    for layer in [TestedLayer::TcpclV4, TestedLayer::Ltp] {
        let (mut world, contents) = long_bundles(layer);
        // The longest bundle is first in the file; its sixth megabyte is damaged.
        let file = world.disks[0].files.values_mut().next().expect("it is kept");
        file[6_000_000] ^= 1;
        world.tell(0, Input::LinkUp { link: LinkId(0) });
        world.run(Duration::from_secs(200));
        let mut lengths: Vec<usize> = world.delivered.iter().map(Bytes::len).collect();
        lengths.sort_unstable();
        assert_eq!(lengths, [900, 200_000, 3_000_000], "{layer:?}");
        assert!(world.delivered.iter().all(|bytes| contents.contains(bytes)));
        let held: Vec<u64> = world.stacks.iter().map(|s| s.status(world.now).bundles).collect();
        assert_eq!(held, [0, 0], "{layer:?}: the lost one is not tried for ever");
        let damage = |(node, event): &(usize, Event)| *node == 0 && matches!(event, Event::StoreDamage { .. });
        assert!(world.events.iter().any(damage), "{layer:?}: the operator hears of it");
    }
}

#[test]
fn damaged_delivery_is_lost_alone() {
    // Short deliveries are read whole before they are handed on, long ones by their application.
    for (len, read_by_application) in [(300_000, 0), (30_000_000, 1)] {
        let mut world = TwoNodes::tuned(TestedLayer::TcpclV4, StoreKind::Durable, Duration::from_millis(2), |config| {
            (config.node.limits.memory_bytes, config.node.store.spill_from) = (0, DataVolume(2 << 20));
        });
        world.run(Duration::from_secs(2));
        let contents = [content(1, len), content(2, 900)];
        for payload in &contents {
            world.send(0, Payload::from(payload.clone()));
            world.run(Duration::from_secs(20));
        }
        let file = world.disks[1].files.values_mut().next().expect("it is kept");
        file[len / 2] ^= 1;
        world.register(1);
        world.run(Duration::from_secs(20));
        assert!(world.delivered == contents[1..], "{len}: {} delivered", world.delivered.len());
        let status = world.stacks[1].status(world.now);
        assert_eq!((world.unreadable, status.bundles), (read_by_application, 0), "{len}: it is not tried for ever");
    }
}

#[test]
fn shutdown_ends_sessions() {
    // RFC 9174 6.1: a node ends a session by `SESS_TERM`.
    let mut world = TwoNodes::new(TestedLayer::TcpclV4, StoreKind::Durable, Duration::from_millis(2));
    world.run(Duration::from_secs(2));
    let sessions = world.peers.len();
    assert!(sessions > 0 && world.stacks.iter().all(|stack| stack.status(world.now).links[0].up));
    world.tell(0, Input::Admin(AdminInput::Shutdown));
    world.run(Duration::from_secs(5));
    assert!(world.stacks.iter().all(|stack| !stack.status(world.now).links[0].up));
}

#[test]
fn ltp_crosses_mars_distance() {
    let mut world = TwoNodes::new(TestedLayer::Ltp, StoreKind::Durable, Duration::from_secs(600));
    world.register(1);
    world.send(0, Payload::from(content(1, 100_000)));
    world.run(Duration::from_secs(599));
    assert!(world.delivered.is_empty());
    world.run(Duration::from_secs(2));
    assert_eq!(world.delivered.len(), 1, "one light time, no handshake");
    world.run(Duration::from_secs(600));
    assert_eq!(world.stacks[0].status(world.now).bundles, 0, "released when the report is in");
}

#[test]
fn restart_keeps_accepted_bundles() {
    let mut world = TwoNodes::new(TestedLayer::Ltp, StoreKind::Durable, Duration::from_millis(5));
    world.send(0, Payload::from(content(7, 5000)));
    world.run(Duration::from_secs(5));
    assert!(world.delivered.is_empty(), "nobody registered yet");
    assert_eq!(world.stacks[1].status(world.now).bundles, 1);
    world.stacks[1] = Stack::new(config(TestedLayer::Ltp, 1, StoreKind::Durable, world.delay)).expect("right");
    world.pending.retain(|_, (node, _)| *node != 1);
    let utc = Some(EPOCH.saturating_add_ms(5000));
    world.tell(1, Input::Clock(Clock { at: world.now, utc, error_ms: 0 }));
    world.run(Duration::from_secs(1));
    world.register(1);
    world.run(Duration::from_secs(1));
    assert!(world.delivered == [content(7, 5000)]);
    assert!(world.events.iter().any(|(node, e)| *node == 1 && matches!(e, Event::Recovered { .. })));
}

#[test]
fn stored_bundles_known_before_opening() {
    let mut world = TwoNodes::new(TestedLayer::Ltp, StoreKind::Durable, Duration::from_millis(5));
    world.send(0, Payload::from(content(7, 5000)));
    world.run(Duration::from_secs(3));
    world.stacks[1] = Stack::new(config(TestedLayer::Ltp, 1, StoreKind::Durable, world.delay)).expect("right");
    world.pending.retain(|_, (node, _)| *node != 1);
    // The clock is behind the times of the stored bundles. The node can find that out only if it has read the bundles
    // before it opens.
    world.tell(1, Input::Clock(Clock { at: world.now, utc: Some(EPOCH), error_ms: 0 }));
    world.run(Duration::from_secs(1));
    let doubted = |(node, event): &(usize, Event)| *node == 1 && matches!(event, Event::ClockDoubted { .. });
    assert!(world.events.iter().any(doubted), "the clock is older than what is stored");
}

#[test]
fn same_seed_gives_same_events() {
    let run = || {
        let mut world = TwoNodes::new(TestedLayer::Ltp, StoreKind::Durable, Duration::from_millis(50));
        world.register(1);
        for n in 0..10 {
            world.send(0, Payload::from(content(n, 10_000)));
        }
        world.run(Duration::from_secs(30));
        world.events
    };
    let (a, b) = (run(), run());
    assert!(a.len() > 100 && a == b);
}

#[test]
fn garbage_is_survived() {
    let mut world = TwoNodes::new(TestedLayer::Ltp, StoreKind::Memory, Duration::from_millis(1));
    world.register(1);
    for n in 0..200u64 {
        let bytes = content(n, (n % 60) as usize);
        let train = DatagramBatch { stride: 1 + n as u32 % 50, data: Payload::from(bytes) };
        world.tell(1, Input::Socket(LayerId(0), socket::Input::Datagrams { from: address(0), train }));
    }
    world.send(0, Payload::from(content(7, 5000)));
    world.run(Duration::from_secs(30));
    assert_eq!(world.delivered.len(), 1, "an honest peer is served all the same");
}

#[test]
fn length_only_payloads_cross() {
    let mut world = TwoNodes::new(TestedLayer::Message, StoreKind::Memory, Duration::from_millis(1));
    world.register(1);
    world.send(0, Payload::fill(9, 1_000_000));
    world.run(Duration::from_secs(1));
    assert_eq!(world.delivered.len(), 1);
    let rope = Payload::fill(9, 1_000_000);
    assert!(matches!(rope.chunks(), [Chunk::Fill { .. }]));
}
