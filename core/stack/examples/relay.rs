//! A node between two others, in memory and without a system call, which measures its computation for each relayed
//! bundle.
//!
//! `cargo run --release -p farlink-stack --example relay -- tcpclv4 1000 100000` prints the time of a processor that
//! the node in the middle took. Under callgrind with `--toggle-collect='*relay_turn*'` only that node is counted;
//! `cargo xtask profile` does so.

use farlink_base::layer::{DatagramBatch, Destination};
use farlink_base::socket;
use farlink_base::{
    Accel, Bytes, BytesMut, Clock, DataVolume, DtnTime, Duration, EndpointId, Facts, Instant, LayerId, NodeId, Payload,
    Priority, StreamId,
};
use farlink_bpa::app::{AppInput, AppOutput, RegistrationId, RequestId, SendRequest};
use farlink_cla::{ltp, tcpcl_v4};
use farlink_stack::{Config, Input, LayerConfig, LayerKind, LinkConfig, LinkParams, Output, Stack, StoreKind};
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;

const EPOCH: DtnTime = DtnTime(800_000_000_000);
/// Number of nodes: sender, relay, receiver.
const NODES: usize = 3;
/// Bytes read from a stream at once, and bytes that a layer may have queued on a stream: the values of the node.
const READ: usize = 256 << 10;
const QUEUE: u64 = 4 << 20;
/// Length of the memory blocks that are read into, bytes.
const PIECE: usize = 1 << 20;
/// Time between two turns.
const TURN: Duration = Duration::from_micros(100);
/// Payload bytes that are on the way at once.
const ON_THE_WAY: u64 = 8 << 20;

/// Processor seconds of this thread, without other load on the machine. Not read under callgrind, which counts
/// instructions instead.
fn cpu(counted: bool) -> f64 {
    if counted {
        return 0.0;
    }
    let t = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    t.tv_sec as f64 + t.tv_nsec as f64 / 1e9
}

/// One turn of the node in the middle; callgrind collects by this name.
#[inline(never)]
fn relay_turn(stack: &mut Stack, now: Instant, inputs: &mut VecDeque<Input>, out: &mut Vec<Output>) {
    turn(stack, now, inputs, out);
    // Keeps the compiler from merging this function with `turn`, which has the same body.
    std::hint::black_box(inputs);
}
fn turn(stack: &mut Stack, now: Instant, inputs: &mut VecDeque<Input>, out: &mut Vec<Output>) {
    while let Some(input) = inputs.pop_front() {
        stack.handle(now, input, out);
    }
    if stack.next_timeout().is_some_and(|at| at <= now) {
        stack.handle(now, Input::Wake, out);
    }
}

fn config(layer: &str, index: usize) -> Config {
    let own = index as u64 + 1;
    let mut config = Config::new(EndpointId::ipn(own, 0));
    let node_id = |n: u64| format!("ipn:{n}.0");
    let kind = match layer {
        "ltp" => LayerKind::Ltp(ltp::Config { engine: own, ..ltp::Config::default() }),
        _ => LayerKind::Tcpcl(tcpcl_v4::Config { node_id: node_id(own), ..tcpcl_v4::Config::default() }),
    };
    config.layers = vec![LayerConfig { name: "layer".into(), kind }];
    let peers = [index.checked_sub(1), Some(index + 1).filter(|next| *next < NODES)].into_iter().flatten();
    config.links = peers
        .map(|peer| {
            let to = peer as u64 + 1;
            let span = match layer {
                "ltp" => LinkParams::Ltp(ltp::SpanConfig {
                    engine: to,
                    node: NodeId::ipn(to),
                    margin: Duration::from_millis(50),
                    window_bytes: 8 << 20,
                    ..ltp::SpanConfig::default()
                }),
                _ => LinkParams::Tcpcl(tcpcl_v4::LinkParams {
                    node_id: node_id(to),
                    connect: index < peer,
                    ..tcpcl_v4::LinkParams::default()
                }),
            };
            let (name, peer) = (format!("to-{to}"), EndpointId::ipn(to, 0));
            LinkConfig {
                name,
                peer,
                layer: 0,
                rate: None,
                one_way_delay: Duration::ZERO,
                terms: Default::default(),
                params: span,
            }
        })
        .collect();
    for to in (index + 2)..=NODES {
        config.routes.push((format!("ipn:{to}.*"), EndpointId::ipn(own + 1, 0)));
    }
    for to in 1..=index {
        config.routes.push((format!("ipn:{to}.*"), EndpointId::ipn(own - 1, 0)));
    }
    config.keep_in(StoreKind::Memory, DataVolume(4 << 30));
    // The plain case: bundles without a hop count block.
    config.node.agent.hop_limit = 0;
    config.seed = own;
    let accel = Accel { crc32c: crc32c::crc32c_append, ..Default::default() };
    assert!(accel.agrees_with_portable());
    config.accel = accel;
    config
}

/// One direction of a stream, from its writer to its reader.
struct RelayPath {
    to: (usize, StreamId),
    bytes: BytesMut,
    written: bool,
    paused: bool,
}

struct RelayWorld {
    now: Instant,
    stacks: Vec<Stack>,
    inputs: Vec<VecDeque<Input>>,
    ways: BTreeMap<(usize, StreamId), RelayPath>,
    streams: u64,
    sent: u64,
    delivered: u64,
    datagrams: u64,
    cpu_s: f64,
    counted: bool,
}

fn address(node: usize) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, node as u8 + 1], 1113))
}

impl RelayWorld {
    fn new(layer: &str, counted: bool) -> RelayWorld {
        let stacks = (0..NODES).map(|n| Stack::new(config(layer, n)).expect("it is right")).collect();
        let inputs = (0..NODES).map(|_| VecDeque::new()).collect();
        let mut world = RelayWorld {
            now: Instant(1_000_000),
            stacks,
            inputs,
            ways: BTreeMap::new(),
            streams: 0,
            sent: 0,
            delivered: 0,
            datagrams: 0,
            cpu_s: 0.0,
            counted,
        };
        for inputs in &mut world.inputs {
            inputs.push_back(Input::Clock(Clock { at: world.now, utc: Some(EPOCH), error_ms: 0 }));
        }
        let endpoint = EndpointId::ipn(NODES as u64, 1);
        let register = AppInput::Register { registration: RegistrationId(1), endpoint, window: 1000 };
        world.inputs[NODES - 1].push_back(Input::App(register));
        world
    }
    fn tell(&mut self, node: usize, input: socket::Input) {
        self.inputs[node].push_back(Input::Socket(LayerId(0), input));
    }
    fn step(&mut self) {
        for node in 0..NODES {
            // Room for all outputs of a turn, so that the measured node does not pay for a growing list.
            let (mut out, inputs) = (Vec::with_capacity(65_536), &mut self.inputs[node]);
            if node == 1 {
                let begun = cpu(self.counted);
                relay_turn(&mut self.stacks[node], self.now, inputs, &mut out);
                self.cpu_s += cpu(self.counted) - begun;
            } else {
                turn(&mut self.stacks[node], self.now, inputs, &mut out);
            }
            for output in out {
                self.follow(node, output);
            }
        }
        self.read();
        self.now += TURN;
    }
    fn follow(&mut self, node: usize, output: Output) {
        match output {
            Output::Socket(_, socket::Output::Datagrams { to, train }) => {
                let Destination::Link(link) = to else { panic!("every node is configured") };
                let peer = if node == 0 { 1 } else { node - 1 + 2 * link.0 as usize };
                self.datagrams += if node == 0 { train.count() } else { 0 };
                let data = Payload::from(train.data.to_bytes().expect("it carries bytes"));
                let train = DatagramBatch { stride: train.stride, data };
                self.tell(peer, socket::Input::Datagrams { from: address(node), train });
            }
            Output::Socket(_, socket::Output::Connect { stream, .. }) => {
                let (peer, other) = (node + 1, StreamId(StreamId::PASSIVE | self.streams));
                self.streams += 1;
                for (from, to) in [((node, stream), (peer, other)), ((peer, other), (node, stream))] {
                    let way = RelayPath { to, bytes: BytesMut::with_capacity(PIECE), written: false, paused: false };
                    self.ways.insert(from, way);
                    self.tell(from.0, socket::Input::Opened { stream: from.1, from: address(to.0) });
                    self.tell(from.0, socket::Input::Writable { stream: from.1, room: QUEUE });
                }
            }
            Output::Socket(_, socket::Output::Write { stream, data }) => {
                let way = self.ways.get_mut(&(node, stream)).expect("it is open");
                for chunk in data.chunks() {
                    let farlink_base::Chunk::Bytes(bytes) = chunk else { panic!("it carries bytes") };
                    way.bytes.extend_from_slice(bytes);
                }
                way.written = true;
            }
            Output::Socket(_, socket::Output::Pause { stream }) => self.pause((node, stream), true),
            Output::Socket(_, socket::Output::Resume { stream }) => self.pause((node, stream), false),
            Output::App(AppOutput::Deliver { registration, delivery, .. }) => {
                self.delivered += 1;
                let done = AppInput::DeliveryDone { registration, delivery, taken: true };
                self.inputs[node].push_back(Input::App(done));
            }
            _ => {}
        }
    }
    fn pause(&mut self, reader: (usize, StreamId), paused: bool) {
        self.ways.values_mut().filter(|way| way.to == reader).for_each(|way| way.paused = paused);
    }
    /// The kernel's part: each node reads some of the bytes that came, and learns that there is room to write.
    fn read(&mut self) {
        for (writer, way) in &mut self.ways {
            if !way.bytes.is_empty() && !way.paused {
                // As after a read, the bytes lie in memory of their own.
                let mut piece = BytesMut::with_capacity(PIECE);
                piece.extend_from_slice(&way.bytes.split_to(way.bytes.len().min(READ)));
                let data = socket::Input::Data { stream: way.to.1, data: Payload::from(piece.freeze()) };
                self.inputs[way.to.0].push_back(Input::Socket(LayerId(0), data));
            }
            if way.written && way.bytes.len() < READ {
                way.written = false;
                let writable = socket::Input::Writable { stream: writer.1, room: QUEUE };
                self.inputs[writer.0].push_back(Input::Socket(LayerId(0), writable));
            }
        }
    }
    fn send(&mut self, payload: &Bytes) {
        self.sent += 1;
        let bundle = SendRequest {
            source: EndpointId::ipn(1, 1),
            destination: EndpointId::ipn(NODES as u64, 1),
            report_to: EndpointId::Null,
            facts: Facts::default(),
            lifetime_ms: 24 * 3_600_000,
            priority: Priority::Normal,
            hop_limit: 0,
            reliable: true,
            payload: Payload::from(payload.clone()),
        };
        self.inputs[0].push_back(Input::App(AppInput::Send { request: RequestId(self.sent), bundle }));
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let layer = arguments.next().unwrap_or_else(|| "tcpclv4".into());
    let mut number = |default| arguments.next().and_then(|n| n.parse().ok()).unwrap_or(default);
    let (size, bundles): (u64, u64) = (number(1000), number(100_000));
    let counted = arguments.next().is_some_and(|word| word == "counted");
    let payload = Payload::fill(7, size).to_bytes().expect("a pattern has bytes");
    // Enough bundles under way to keep the relay busy, within bounded memory.
    let window = (ON_THE_WAY / size).clamp(16, 4000);
    let mut world = RelayWorld::new(&layer, counted);
    // Sessions come up before the measurement begins.
    (0..100).for_each(|_| world.step());
    let (began, mut idle) = (world.now, 0);
    world.cpu_s = 0.0;
    while world.delivered < bundles {
        let before = world.delivered;
        while world.sent < bundles && world.sent - world.delivered < window {
            world.send(&payload);
        }
        world.step();
        idle = if world.delivered > before { 0 } else { idle + 1 };
        assert!(idle < 1_000_000, "{} of {} arrived", world.delivered, world.sent);
    }
    let each = world.cpu_s * 1e6 / bundles as f64;
    println!(
        "{layer} {size} B: {bundles} bundles, {each:.3} us each, {:.3} s per GB, {:.2} virtual s, {:.2} datagrams each",
        world.cpu_s * 1e9 / (bundles * size) as f64,
        (world.now - began).as_secs_f64(),
        world.datagrams as f64 / bundles as f64,
    );
}
