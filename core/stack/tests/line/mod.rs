//! Nodes in a row, in virtual time, each on a disk of its own. Nodes can be killed and restarted, and the memory of
//! each can be measured.
#![allow(dead_code, reason = "each test file uses another part")]

use farlink_base::layer::{DatagramBatch, Destination};
use farlink_base::security::{PAYLOAD, Role, Rule, Service};
use farlink_base::socket;
use farlink_base::store::{DiskAction, DiskAnswer, DiskDone};
use farlink_base::{
    Bytes, Clock, DataRate, DataVolume, DtnTime, Duration, EndpointId, Event, Facts, Instant, LayerId, LinkId, NodeId,
    Payload, Priority, Refusal, StreamId,
};
use farlink_bpa::app::{AppInput, AppOutput, DeliveryId, RegistrationId, RequestId, SendRequest};
use farlink_cla::{ltp, tcpcl_v4};
use farlink_stack::{Codec, Config, Input, LayerConfig, LayerKind, LinkConfig, LinkParams, Output, Stack, StoreKind};
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;

/// Bytes in use in the whole process.
pub type Meter = fn() -> usize;
/// Makes the codecs of a node, that of its own bundles first.
pub type Speak = Box<dyn Fn(usize, &Config) -> Vec<Box<dyn Codec>>>;

/// Memory of each node: growth and shrinkage of the process during the node's steps.
#[derive(Default)]
struct CountedMemory {
    meter: Option<Meter>,
    held: Vec<isize>,
    most: Vec<isize>,
}
impl CountedMemory {
    fn of<T>(&mut self, node: usize, what: impl FnOnce() -> T) -> T {
        let Some(meter) = self.meter else { return what() };
        let before = meter();
        let result = what();
        // Memory may be freed in another node's step, so the balance of one step can be negative.
        self.held[node] += meter() as isize - before as isize;
        self.most[node] = self.most[node].max(self.held[node]);
        result
    }
}

const EPOCH: DtnTime = DtnTime(800_000_000_000);
const ROOM: u64 = 1 << 20;
const DELAY: Duration = Duration::from_millis(2);
/// Delay of messages between shards of a node.
const CROSSING: Duration = Duration::from_micros(50);

#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Layer {
    Ltp,
    TcpclV4,
}

/// Node `index` of the row is `ipn:(index + 1).0`, all on disk, with little memory.
fn config(layer: Layer, index: usize, count: usize) -> Config {
    let own = index as u64 + 1;
    let mut config = Config::new(EndpointId::ipn(own, 0));
    let node_id = |n: u64| format!("ipn:{n}.0");
    let kind = match layer {
        Layer::Ltp => LayerKind::Ltp(ltp::Config { engine: own, memory_bytes: 4 << 20, ..ltp::Config::default() }),
        Layer::TcpclV4 => LayerKind::Tcpcl(tcpcl_v4::Config { node_id: node_id(own), ..tcpcl_v4::Config::default() }),
    };
    config.layers = vec![LayerConfig { name: "layer".into(), kind }];
    config.links = peers(index, count)
        .map(|peer| {
            let to = peer as u64 + 1;
            let span = match layer {
                Layer::Ltp => {
                    LinkParams::Ltp(ltp::SpanConfig { engine: to, node: NodeId::ipn(to), ..ltp::SpanConfig::default() })
                }
                Layer::TcpclV4 => LinkParams::Tcpcl(tcpcl_v4::LinkParams {
                    node_id: node_id(to),
                    connect: index < peer,
                    ..tcpcl_v4::LinkParams::default()
                }),
            };
            let (name, peer) = (format!("to-{to}"), EndpointId::ipn(to, 0));
            let rate = (layer == Layer::Ltp).then_some(DataRate(100_000_000));
            LinkConfig { name, peer, layer: 0, rate, one_way_delay: DELAY, terms: Default::default(), params: span }
        })
        .collect();
    if index + 1 < count {
        config.routes = vec![(format!("ipn:{count}.*"), EndpointId::ipn(own + 1, 0))];
    }
    config.keep_in(StoreKind::Durable, DataVolume(1 << 30));
    config.router = "static".into();
    // Little memory, so that long bundles have to go to disk.
    config.node.limits.memory_bytes = 0;
    config.node.limits.arriving_bytes = 4 << 20;
    config.node.store.spill_from = DataVolume(1 << 20);
    config.seed = own;
    config
}
/// The neighbours of a node, in the order of its links.
fn peers(index: usize, count: usize) -> impl Iterator<Item = usize> {
    [index.checked_sub(1), Some(index + 1).filter(|next| *next < count)].into_iter().flatten()
}

#[derive(Default)]
pub struct Disk {
    pub files: BTreeMap<u32, Vec<u8>>,
}
impl Disk {
    pub fn perform(&mut self, action: &DiskAction) -> DiskAnswer {
        match action {
            DiskAction::List => {
                return DiskAnswer::Files(self.files.iter().map(|(n, f)| (*n, f.len() as u64)).collect());
            }
            DiskAction::Create { file, .. } => drop(self.files.insert(*file, Vec::new())),
            DiskAction::Write { file, offset, data } => {
                let content = self.files.entry(*file).or_default();
                let (start, end) = (*offset as usize, (offset + data.len()) as usize);
                content.resize(content.len().max(end), 0);
                assert_eq!(data.copy_to(0, &mut content[start..end]), end - start, "writes carry bytes");
            }
            DiskAction::Sync { .. } | DiskAction::Settle { .. } => {}
            DiskAction::Read { file, offset, len } => {
                let content = self.files.get(file).map_or(&[][..], |f| f);
                let start = content.len().min(*offset as usize);
                let end = content.len().min((offset + len) as usize);
                return DiskAnswer::Data(Bytes::copy_from_slice(&content[start..end]));
            }
            DiskAction::Truncate { file, len } => self.files.entry(*file).or_default().truncate(*len as usize),
            DiskAction::Remove { file, .. } => drop(self.files.remove(file)),
            DiskAction::Reserve { .. } => {}
        }
        DiskAnswer::Done
    }
}

enum Happening {
    Tell(Input),
    /// Bytes arrive at the end of a stream.
    Bytes(StreamId, Payload),
    /// A stream reports room for more bytes.
    Room(StreamId),
}

/// One end of a stream.
struct LineEnd {
    peer: (usize, StreamId),
    /// Bytes written that the other end has not read.
    unread: u64,
    paused: bool,
    /// Bytes that arrived while reading was paused.
    waiting: VecDeque<Payload>,
}

/// The request of [`Line::spool`].
pub const SPOOLED: RequestId = RequestId(9);

/// The nodes and all data under way between them.
pub struct Line {
    pub now: Instant,
    layer: Layer,
    tune: Box<dyn Fn(usize, &mut Config)>,
    speak: Option<Speak>,
    nodes: Vec<Option<Stack>>,
    pub disks: Vec<Disk>,
    runs: u64,
    pending: BTreeMap<(Instant, u64), (usize, Happening)>,
    order: u64,
    ends: BTreeMap<(usize, StreamId), LineEnd>,
    pub delivered: Vec<Bytes>,
    /// Deliveries that are read part by part: the rest still to be asked for, and the parts read.
    joining: BTreeMap<(usize, DeliveryId), (RegistrationId, Payload, Payload)>,
    pub accepted: usize,
    pub refused: Vec<Refusal>,
    /// Bytes of requests on their way to disk.
    pub spooled: u64,
    pub events: Vec<(usize, Event)>,
    /// Bytes that arrived at each node from its neighbours.
    pub heard: Vec<u64>,
    /// Bytes that the watched node wrote, with their times, if a test asks for them.
    pub left: Option<Vec<(Instant, Payload)>>,
    pub watched: usize,
    /// Delay of the nodes' timers, as of busy nodes; arrivals are not delayed.
    pub lag: Duration,
    /// The node that reads nothing for now.
    pub deaf: Option<usize>,
    /// Bytes read of streams whose writers asked for confirmations.
    confirmed: BTreeMap<(usize, StreamId), u64>,
    /// Number of requests to connect.
    pub connects: usize,
    /// Index of the first of the nodes that are shards of one node.
    pub shards: usize,
    /// Layer of each node's streams.
    layers: Vec<LayerId>,
    /// Number of messages between shards.
    pub crossed: usize,
    memory: CountedMemory,
    out: Vec<Output>,
}

fn address(node: usize) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, node as u8 + 1], 1113))
}
pub fn content(seed: u64, len: usize) -> Bytes {
    Payload::fill(seed, len as u64).to_bytes().expect("a pattern has bytes")
}
/// Copies a rope into one piece of memory, as a network does.
fn flat(rope: &Payload) -> Payload {
    let mut bytes = vec![0; rope.len() as usize];
    assert_eq!(rope.copy_to(0, &mut bytes), bytes.len(), "the wire carries bytes");
    Payload::from(bytes)
}

impl Line {
    pub fn new(layer: Layer, count: usize, tune: impl Fn(usize, &mut Config) + 'static) -> Line {
        Line::metered(None, layer, count, tune)
    }
    /// Nodes with the codecs that `speak` makes.
    pub fn speaking(layer: Layer, count: usize, tune: impl Fn(usize, &mut Config) + 'static, speak: Speak) -> Line {
        Line::with(None, layer, count, tune, Some(speak))
    }
    pub fn metered(
        meter: Option<Meter>,
        layer: Layer,
        count: usize,
        tune: impl Fn(usize, &mut Config) + 'static,
    ) -> Line {
        Line::with(meter, layer, count, tune, None)
    }
    fn with(
        meter: Option<Meter>,
        layer: Layer,
        count: usize,
        tune: impl Fn(usize, &mut Config) + 'static,
        speak: Option<Speak>,
    ) -> Line {
        let mut line = Line {
            now: Instant::ZERO,
            layer,
            tune: Box::new(tune),
            speak,
            nodes: (0..count).map(|_| None).collect(),
            disks: (0..count).map(|_| Disk::default()).collect(),
            runs: 0,
            pending: BTreeMap::new(),
            order: 0,
            left: None,
            watched: 0,
            lag: Duration::ZERO,
            deaf: None,
            confirmed: BTreeMap::new(),
            connects: 0,
            shards: 0,
            layers: vec![LayerId(0); count],
            crossed: 0,
            ends: BTreeMap::new(),
            delivered: Vec::new(),
            joining: BTreeMap::new(),
            accepted: 0,
            refused: Vec::new(),
            spooled: 0,
            events: Vec::new(),
            heard: vec![0; count],
            memory: CountedMemory { meter, held: vec![0; count], most: vec![0; count] },
            out: Vec::with_capacity(10_000),
        };
        for node in 0..count {
            line.start(node);
        }
        line
    }
    pub fn start(&mut self, node: usize) {
        let mut config = config(self.layer, node, self.nodes.len());
        (self.tune)(node, &mut config);
        self.layers[node] = LayerId(config.shards.as_ref().map_or(0, |shards| shards.own.into()));
        self.runs += 1;
        // A restarted node draws other numbers, as a new process does.
        config.seed += 100 * self.runs;
        let codecs = self.speak.as_ref().map(|speak| speak(node, &config));
        let stack = || match codecs {
            Some(codecs) => Stack::speaking(config, codecs),
            None => Stack::new(config),
        };
        self.nodes[node] = self.memory.of(node, || Some(stack().expect("the configuration is right")));
        let utc = Some(EPOCH.saturating_add_ms(self.now.0 / 1_000_000));
        self.tell(node, Input::Clock(Clock { at: self.now, utc, error_ms: 0 }));
    }
    /// Ends a node at once; its disk stays as it is.
    pub fn kill(&mut self, node: usize) {
        let stack = self.nodes[node].take();
        self.memory.of(node, || drop(stack));
        let pending = &mut self.pending;
        // Data under way to a dead node is lost with its sockets.
        self.memory.of(node, || pending.retain(|_, (other, _)| *other != node));
        let streams: Vec<(usize, StreamId)> = self.ends.keys().copied().filter(|(n, _)| *n == node).collect();
        for stream in streams {
            if let Some(LineEnd { peer, .. }) = self.ends.remove(&stream) {
                self.ends.remove(&peer);
                self.later(
                    DELAY,
                    peer.0,
                    Input::Socket(self.layers[peer.0], socket::Input::Closed { stream: peer.1, error: true }),
                );
            }
        }
    }
    /// Breaks all streams; data under way on them is lost.
    pub fn break_streams(&mut self) {
        for ((node, stream), _) in std::mem::take(&mut self.ends) {
            let closed = socket::Input::Closed { stream, error: true };
            self.later(Duration::ZERO, node, Input::Socket(self.layers[node], closed));
        }
    }
    pub fn node(&self, node: usize) -> &Stack {
        self.nodes[node].as_ref().expect("it runs")
    }
    /// Number of bytes that a node holds, including data under way to it.
    pub fn held(&self, node: usize) -> i64 {
        self.memory.held[node] as i64
    }
    /// Largest number of bytes that a node held, including data under way to it.
    pub fn most_held(&self, node: usize) -> u64 {
        self.memory.most[node].max(0) as u64
    }

    fn at(&mut self, delay: Duration, node: usize, what: Happening) {
        self.order += 1;
        self.pending.insert((self.now + delay, self.order), (node, what));
    }
    fn later(&mut self, delay: Duration, node: usize, input: Input) {
        self.at(delay, node, Happening::Tell(input));
    }
    pub fn tell(&mut self, node: usize, input: Input) {
        let Some(stack) = &mut self.nodes[node] else { return };
        let now = self.now;
        // One list for all nodes, so that no node's memory includes it.
        let mut out = std::mem::take(&mut self.out);
        self.memory.of(node, || stack.handle(now, input, &mut out));
        out.drain(..).for_each(|output| self.follow(node, output));
        self.out = out;
    }
    /// Lets a node release the memory of a busy period.
    pub fn rest(&mut self, node: usize) {
        let stack = self.nodes[node].as_mut().expect("it runs");
        self.memory.of(node, || stack.rest());
    }
    /// Removes a link of a node.
    pub fn remove_link(&mut self, node: usize, link: LinkId) {
        let now = self.now;
        let mut out = Vec::new();
        self.nodes[node].as_mut().expect("it runs").remove_link(now, link, &mut out);
        out.into_iter().for_each(|output| self.follow(node, output));
    }
    /// Adds a removed link of a node again.
    pub fn add_link(&mut self, node: usize, link: LinkId) {
        let (now, count) = (self.now, self.nodes.len());
        let mut config = config(self.layer, node, count);
        (self.tune)(node, &mut config);
        let mut out = Vec::new();
        let stack = self.nodes[node].as_mut().expect("it runs");
        stack.add_link(now, link, &config.links[link.0 as usize], &mut out).expect("it was removed");
        out.into_iter().for_each(|output| self.follow(node, output));
    }
    fn peer(&self, node: usize, link: LinkId) -> usize {
        peers(node, self.nodes.len()).nth(link.0 as usize).expect("a configured link")
    }
    /// Carries a rope across the network: its bytes count as the receiver's from now on.
    fn carry(&mut self, from: usize, to: usize, rope: Payload) -> Payload {
        let data = self.memory.of(to, || flat(&rope));
        self.memory.of(from, || drop(rope));
        if let Some(left) = self.left.as_mut().filter(|_| from == self.watched) {
            left.push((self.now, data.clone()));
        }
        self.heard[to] += data.len();
        data
    }
    fn follow(&mut self, node: usize, output: Output) {
        match output {
            Output::Socket(_, socket::Output::Datagrams { to, train }) => {
                let peer = match to {
                    Destination::Link(link) => self.peer(node, link),
                    Destination::Address(to) => (0..self.nodes.len()).find(|n| address(*n) == to).expect("a node"),
                };
                let train = DatagramBatch { stride: train.stride, data: self.carry(node, peer, train.data) };
                let input = Input::Socket(self.layers[peer], socket::Input::Datagrams { from: address(node), train });
                match self.nodes[peer] {
                    Some(_) if self.deaf == Some(peer) => drop(input),
                    Some(_) => self.later(DELAY, peer, input),
                    None => self.memory.of(peer, || drop(input)),
                }
            }
            Output::Socket(layer, socket::Output::Connect { stream, link }) => {
                self.connects += 1;
                let peer = self.peer(node, link);
                // A connection attempt to a dead node fails after one round trip.
                if self.nodes[peer].is_none() {
                    return self.later(
                        DELAY * 2,
                        node,
                        Input::Socket(layer, socket::Input::Closed { stream, error: true }),
                    );
                }
                let other = StreamId(StreamId::PASSIVE | self.order);
                let end = |peer| LineEnd { peer, unread: 0, paused: false, waiting: VecDeque::new() };
                self.ends.insert((node, stream), end((peer, other)));
                self.ends.insert((peer, other), end((node, stream)));
                self.later(
                    DELAY,
                    peer,
                    Input::Socket(self.layers[peer], socket::Input::Opened { stream: other, from: address(node) }),
                );
                self.at(DELAY, peer, Happening::Room(other));
                self.later(
                    DELAY * 2,
                    node,
                    Input::Socket(layer, socket::Input::Opened { stream, from: address(peer) }),
                );
                self.at(DELAY * 2, node, Happening::Room(stream));
            }
            Output::Socket(_, socket::Output::Write { stream, data }) => {
                let Some(end) = self.ends.get_mut(&(node, stream)) else { return };
                end.unread += data.len();
                // The contract of `Writable`: a layer may write no more than the room it was given.
                assert!(end.unread <= ROOM, "writes stay within the room");
                let (peer, other) = end.peer;
                let data = self.carry(node, peer, data);
                self.at(DELAY, peer, Happening::Bytes(other, data));
            }
            Output::Socket(_, socket::Output::Close { stream, abort }) => {
                if let Some(LineEnd { peer, .. }) = self.ends.remove(&(node, stream)) {
                    self.later(
                        DELAY,
                        peer.0,
                        Input::Socket(self.layers[peer.0], socket::Input::Closed { stream: peer.1, error: abort }),
                    );
                }
            }
            Output::Socket(_, socket::Output::Pause { stream }) => self.pause(node, stream, true),
            Output::Socket(_, socket::Output::Resume { stream }) => {
                self.pause(node, stream, false);
                let waiting = self.ends.get_mut(&(node, stream)).map(|end| std::mem::take(&mut end.waiting));
                for data in waiting.into_iter().flatten() {
                    self.at(Duration::ZERO, node, Happening::Bytes(stream, data));
                }
            }
            Output::Disk(op) => {
                let disk = &mut self.disks[node];
                let answer = match op.action {
                    DiskAction::Read { .. } => self.memory.of(node, || disk.perform(&op.action)),
                    _ => disk.perform(&op.action),
                };
                // The operation's buffers are freed before the answer comes, as a driver does.
                let done = DiskDone { id: op.id, result: Ok(answer) };
                self.memory.of(node, || drop(op));
                self.later(Duration::from_micros(200), node, Input::DiskDone(done));
            }
            Output::App(AppOutput::Deliver { registration, delivery, bundle }) if bundle.payload.is_stored() => {
                let (rope, came) = (bundle.payload.clone(), Payload::new());
                self.memory.of(node, || drop(bundle));
                self.joining.insert((node, delivery), (registration, rope, came));
                self.read_on(node, delivery);
            }
            Output::Read { delivery, result } => {
                let part = result.expect("the disk can be read");
                // An application takes the part out of the node's memory, so the part is copied and dropped.
                let copy = flat(&part);
                self.memory.of(node, || drop(part));
                if let Some((_, _, came)) = self.joining.get_mut(&(node, delivery)) {
                    came.append(copy);
                    self.read_on(node, delivery);
                }
            }
            Output::Spooled { bytes, .. } => self.spooled -= bytes,
            Output::App(AppOutput::Deliver { registration, delivery, bundle }) => {
                // The copy frees the node's own buffer, so that the meter sees it go.
                self.delivered.push(flat(&bundle.payload).to_bytes().expect("payloads are delivered in memory"));
                self.memory.of(node, || drop(bundle));
                let done = AppInput::DeliveryDone { registration, delivery, taken: true };
                self.later(Duration::ZERO, node, Input::App(done));
            }
            Output::App(AppOutput::SendResult { request: SPOOLED, result: Err(why) }) => self.refused.push(why),
            Output::App(AppOutput::SendResult { result, .. }) => {
                assert!(result.is_ok(), "{result:?}");
                self.accepted += 1;
            }
            Output::App(AppOutput::Registered { result, .. }) => assert!(result.is_ok()),
            Output::Across { to, layer, what } => {
                let from = (node - self.shards) as u8;
                self.crossed += 1;
                self.later(CROSSING, self.shards + usize::from(to), Input::Across { from, layer, what });
            }
            Output::Event(event) => self.events.push((node, event)),
            Output::Socket(_, socket::Output::Confirm { stream }) => drop(self.confirmed.insert((node, stream), 0)),
            Output::Socket(_, socket::Output::StartTls { .. }) | Output::Message(_) => {
                panic!("no layer was told to")
            }
        }
    }
    /// Requests the next part of a delivery, or completes the delivery once all of it is there.
    fn read_on(&mut self, node: usize, delivery: DeliveryId) {
        let Some((registration, rest, came)) = self.joining.get_mut(&(node, delivery)) else { return };
        let next = if rest.is_empty() {
            self.delivered.push(came.to_bytes().expect("it is in memory"));
            let done = AppInput::DeliveryDone { registration: *registration, delivery, taken: true };
            self.joining.remove(&(node, delivery));
            Input::App(done)
        } else {
            Input::Read { delivery, part: rest.split_to((1 << 20).min(rest.len())) }
        };
        self.later(Duration::ZERO, node, next);
    }
    /// Lets the deaf node read again.
    pub fn resume_reads(&mut self) {
        let Some(node) = self.deaf.take() else { return };
        let all = self.ends.iter_mut().filter(|((of, _), _)| *of == node);
        let waiting: Vec<_> = all.map(|((_, stream), end)| (*stream, std::mem::take(&mut end.waiting))).collect();
        for (stream, data) in
            waiting.into_iter().flat_map(|(stream, all)| all.into_iter().map(move |one| (stream, one)))
        {
            self.at(Duration::ZERO, node, Happening::Bytes(stream, data));
        }
    }
    fn pause(&mut self, node: usize, stream: StreamId, paused: bool) {
        if let Some(end) = self.ends.get_mut(&(node, stream)) {
            end.paused = paused;
        }
    }
    fn happen(&mut self, node: usize, what: Happening) {
        match what {
            Happening::Tell(input) => self.tell(node, input),
            Happening::Room(stream) => {
                if let Some(end) = self.ends.get(&(node, stream)) {
                    let room = ROOM - end.unread;
                    self.tell(node, Input::Socket(self.layers[node], socket::Input::Writable { stream, room }));
                }
            }
            Happening::Bytes(stream, data) => {
                let Some(end) = self.ends.get_mut(&(node, stream)) else { return };
                // Unread bytes keep their room, so that the writer feels the back pressure.
                if end.paused || self.deaf == Some(node) {
                    return end.waiting.push_back(data);
                }
                let (peer, other) = end.peer;
                if let Some(writer) = self.ends.get_mut(&(peer, other)) {
                    writer.unread -= data.len();
                    self.at(DELAY, peer, Happening::Room(other));
                }
                if let Some(read) = self.confirmed.get_mut(&(peer, other)) {
                    *read += data.len();
                    let input = socket::Input::Confirmed { stream: other, bytes: *read };
                    self.later(DELAY, peer, Input::Socket(self.layers[peer], input));
                }
                self.tell(node, Input::Socket(self.layers[node], socket::Input::Data { stream, data }));
            }
        }
    }
    /// Runs until `until` holds, for `duration` at most; returns whether it held.
    pub fn run_until(&mut self, duration: Duration, until: impl Fn(&Line) -> bool) -> bool {
        let end = self.now + duration;
        while !until(self) {
            let pending = self.pending.first_key_value().map(|((t, _), _)| *t);
            // Only timers are late: a busy process still gets its sockets' data when it looks.
            let lag = self.lag;
            let timers = self.nodes.iter().flatten().filter_map(Stack::next_timeout).map(|at| at + lag);
            let Some(next) = timers.chain(pending).min().filter(|t| *t <= end) else {
                self.now = end;
                return until(self);
            };
            self.now = self.now.max(next);
            // One event at a time, in order of time and insertion, which makes runs repeatable.
            if pending.is_some_and(|t| t <= self.now) {
                if let Some((_, (node, what))) = self.pending.pop_first() {
                    self.happen(node, what);
                }
                continue;
            }
            for node in 0..self.nodes.len() {
                let now = self.now;
                if self.nodes[node].as_ref().and_then(Stack::next_timeout).is_some_and(|t| t + lag <= now) {
                    self.tell(node, Input::Wake);
                }
            }
        }
        true
    }
    pub fn run(&mut self, duration: Duration) {
        self.run_until(duration, |_| false);
    }
    /// Open streams of a node.
    pub fn streams(&self, node: usize) -> usize {
        self.ends.keys().filter(|(of, _)| *of == node).count()
    }
    pub fn register(&mut self, node: usize) {
        let endpoint = EndpointId::ipn(node as u64 + 1, 1);
        self.tell(node, Input::App(AppInput::Register { registration: RegistrationId(1), endpoint, window: 4 }));
    }
    /// Sends a payload from the first node to the last.
    pub fn send(&mut self, payload: Bytes) {
        self.send_from(0, payload);
    }
    /// Sends a payload from the first node to the last that is spooled to disk: `more` bytes at once, as long as fewer
    /// than `window` bytes are on their way there.
    pub fn spool(&mut self, payload: &Bytes, more: usize, window: u64) {
        let (source, mut at) = (NodeId::ipn(1), 0);
        while at + more < payload.len() && self.refused.is_empty() {
            if self.spooled + more as u64 > window {
                let before = self.spooled;
                let went_on = |line: &Line| line.spooled < before || !line.refused.is_empty();
                assert!(self.run_until(Duration::from_secs(60), went_on), "{before} bytes are on their way to disk");
                continue;
            }
            self.spooled += more as u64;
            let part = Payload::from(Bytes::copy_from_slice(&payload[at..at + more]));
            self.tell(0, Input::Spool { request: SPOOLED, source, part });
            at += more;
        }
        let bundle = self.wanted(0, Bytes::copy_from_slice(&payload[at..]));
        self.tell(0, Input::App(AppInput::Send { request: SPOOLED, bundle }));
    }
    /// Sends a payload from this node to the last.
    pub fn send_from(&mut self, node: usize, payload: Bytes) {
        let bundle = self.wanted(node, payload);
        self.tell(node, Input::App(AppInput::Send { request: RequestId(0), bundle }));
    }
    /// A request of this node for a bundle to the last.
    pub fn wanted(&self, node: usize, payload: Bytes) -> SendRequest {
        SendRequest {
            source: EndpointId::ipn(node as u64 + 1, 1),
            destination: EndpointId::ipn(self.nodes.len() as u64, 1),
            report_to: EndpointId::Null,
            facts: Facts::default(),
            lifetime_ms: 24 * 3_600_000,
            priority: Priority::Normal,
            hop_limit: 0,
            reliable: true,
            payload: Payload::from(payload),
        }
    }
    /// Asserts that no node holds anything.
    pub fn assert_empty(&self) {
        for node in self.nodes.iter().flatten() {
            assert_eq!((node.status(self.now).bundles, node.store_usage().bytes), (0, 0));
        }
    }
}

/// Rule that requires one security operation on the payload of bundles from `ipn:1.*`, with the key `key`.
pub fn payload_rule(role: Role, service: Service) -> Rule {
    Rule {
        role,
        service,
        from: String::from("ipn:1.*"),
        to: String::from("*"),
        targets: vec![PAYLOAD],
        key: String::from("key"),
        wrap: false,
        sha_bits: 384,
        aes_bits: 256,
        scope: 7,
        required: true,
        fragments: false,
    }
}
