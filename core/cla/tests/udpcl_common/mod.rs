//! World for tests of UDPCL: two entities, and a channel that loses, delays, reorders and duplicates datagrams, in
//! virtual time. Every run is determined by its seed.
#![allow(dead_code, reason = "each test file uses another part")]

use farlink_base::layer::{ConvergenceLayer, DatagramBatch, Destination, Input, LinkState, Output, SendId};
use farlink_base::{Bytes, Duration, Event, Instant, Leaving, LinkId, Malformed, Payload, Refusal, Rng, socket};
use farlink_cla::udpcl::{Config, LinkParams, Udpcl, Usage};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;

pub const LINK: LinkId = LinkId(0);

/// Test bundle: head of an array, length (4 bytes), number (8 bytes), then bytes that depend on the number.
pub fn bundle(number: u64, len: usize) -> Payload {
    let mut bytes = vec![0x9f];
    bytes.extend((len.max(13) as u32).to_be_bytes());
    bytes.extend(number.to_be_bytes());
    bytes.extend((13..len.max(13)).map(|i| (number as usize * 31 + i * 7) as u8));
    Payload::from(bytes)
}
pub fn number_of(bundle: &Payload) -> u64 {
    let mut head = [0; 13];
    bundle.copy_to(0, &mut head);
    u64::from_be_bytes(head[5..].try_into().unwrap())
}
/// Length of the first bundle in a datagram; `None` if it is incomplete.
pub fn split(datagram: &Payload) -> Result<Option<u64>, Malformed> {
    let mut head = [0; 5];
    if !datagram.reader().read_exact(&mut head) {
        return Ok(None);
    }
    if head[0] != 0x9f {
        return Err(Malformed { offset: 0, reason: "no bundle" });
    }
    let len = u64::from(u32::from_be_bytes(head[1..].try_into().unwrap()));
    Ok((len <= datagram.len()).then_some(len))
}
pub fn seconds(seconds: f64) -> Instant {
    Instant((seconds * 1e9) as u64)
}
pub fn address(side: usize) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, side as u8 + 1], 4556))
}
pub fn located(link: LinkId, address: SocketAddr) -> Input {
    Input::Socket(socket::Input::Located { link, addresses: vec![address] })
}
pub fn datagram(from: SocketAddr, bytes: impl Into<Bytes>) -> Input {
    let train = DatagramBatch::single(Payload::from(bytes.into()));
    Input::Socket(socket::Input::Datagrams { from, train })
}
/// Datagrams sent by an entity, with their destinations.
pub fn sent(out: &[Output]) -> Vec<(Destination, Bytes)> {
    let trains = out.iter().filter_map(|o| match o {
        Output::Socket(socket::Output::Datagrams { to, train }) => Some((*to, train)),
        _ => None,
    });
    trains.flat_map(|(to, train)| train.datagrams().map(move |d| (to, d.to_bytes().unwrap()))).collect()
}
/// Offered bundles, with their links.
pub fn offers(out: &[Output]) -> Vec<(LinkId, Payload)> {
    let offer = |o: &Output| match o {
        Output::Offer { link, part, last: true, reliable: false, total, .. } => {
            assert_eq!(*total, Some(part.len()));
            Some((*link, part.clone()))
        }
        Output::Offer { .. } => panic!("{o:?}"),
        _ => None,
    };
    out.iter().filter_map(offer).collect()
}
pub fn malformed(out: &[Output]) -> Vec<&'static str> {
    let reason = |o: &Output| match o {
        Output::Event(Event::Malformed { reason, .. }) => Some(*reason),
        _ => None,
    };
    out.iter().filter_map(reason).collect()
}
pub fn refused(out: &[Output]) -> Vec<Refusal> {
    let reason = |o: &Output| match o {
        Output::Event(Event::Refused { reason, .. }) => Some(*reason),
        _ => None,
    };
    out.iter().filter_map(reason).collect()
}

/// One entity driven by hand; its neighbour over link 0 is at [`address`] 0.
pub struct UdpclBench {
    pub layer: Udpcl,
    pub now: Instant,
}
impl UdpclBench {
    pub fn new(tune: impl Fn(&mut Config, &mut LinkParams)) -> UdpclBench {
        let mut config = Config { node_id: "ipn:2.0".into(), seed: 5, split, ..Config::default() };
        let mut span = LinkParams { link: LINK, node_id: "ipn:1.0".into(), ..LinkParams::default() };
        tune(&mut config, &mut span);
        let mut bench = UdpclBench { layer: Udpcl::new(config, vec![span]), now: seconds(1.0) };
        bench.input(located(LINK, address(0)));
        bench.input(Input::Link { link: LINK, state: LinkState::UP });
        bench
    }
    pub fn input(&mut self, input: Input) -> Vec<Output> {
        let mut out = Vec::new();
        self.layer.handle(self.now, input, &mut out);
        for _ in 0..1000 {
            if self.layer.next_timeout().is_none_or(|t| t > self.now) {
                return out;
            }
            self.layer.handle(self.now, Input::Wake, &mut out);
        }
        panic!("it is due again and again at {:?}", self.now);
    }
    pub fn receive(&mut self, from: SocketAddr, bytes: impl Into<Bytes>) -> Vec<Output> {
        self.input(datagram(from, bytes))
    }
    pub fn send(&mut self, id: u64, bundle: Payload) -> Vec<Output> {
        self.input(Input::send(LINK, SendId(id), bundle, false))
    }
    /// Advances time, and handles all deadlines.
    pub fn later(&mut self, after: f64) -> Vec<Output> {
        let until = Instant(self.now.0 + (after * 1e9) as u64);
        let mut out = Vec::new();
        while let Some(due) = self.layer.next_timeout().filter(|due| *due <= until) {
            self.now = self.now.max(due);
            self.layer.handle(self.now, Input::Wake, &mut out);
        }
        self.now = until;
        out
    }
}

/// Impairments of the channel.
#[derive(Clone, Default)]
pub struct Channel {
    pub loss: f64,
    pub delay: Duration,
    /// Largest random delay of a datagram, which causes reordering.
    pub jitter: Duration,
    pub duplicate: f64,
    pub state: Option<LinkState>,
}

#[derive(Default)]
pub struct UdpclAgent {
    pub waiting: VecDeque<(u64, Payload)>,
    pub open: BTreeMap<SendId, (u64, Payload)>,
    pub sent: BTreeSet<u64>,
    pub failed: u32,
    pub ready: bool,
    /// Number of offers per bundle.
    pub offers: BTreeMap<u64, u32>,
    pub malformed: Vec<&'static str>,
    /// Bytes put on the wire, headers included, with their times.
    pub wire: Vec<(Instant, u64)>,
    pub datagrams: u64,
    pub asked: u64,
    next_send: u64,
}

enum UdpclEvent {
    Arrive(usize, Payload),
    More { side: usize, id: SendId, from: u64, len: u64 },
}

pub struct UdpclPair {
    pub now: Instant,
    pub layers: [Udpcl; 2],
    pub agents: [UdpclAgent; 2],
    pub channel: Channel,
    pub span: LinkParams,
    /// Length above which bundles are sent in parts, bytes.
    pub stream_from: u64,
    /// Datagrams that left each side, and those of them that arrived, with the times.
    pub left: [Vec<(Instant, Payload)>; 2],
    pub arrived: [Vec<(Instant, Payload)>; 2],
    rng: Rng,
    queue: BTreeMap<(Instant, u64), UdpclEvent>,
    order: u64,
}

impl UdpclPair {
    pub fn new(seed: u64, channel: Channel, span: LinkParams) -> UdpclPair {
        let layer = |side: u64| {
            let config =
                Config { node_id: format!("ipn:{}.0", side + 1), seed: seed + side, split, ..Config::default() };
            Udpcl::new(config, vec![LinkParams { link: LINK, ..span.clone() }])
        };
        let mut world = UdpclPair {
            now: Instant::ZERO,
            layers: [layer(0), layer(1)],
            agents: Default::default(),
            channel,
            span: span.clone(),
            stream_from: u64::MAX,
            left: Default::default(),
            arrived: Default::default(),
            rng: Rng::new(seed),
            queue: BTreeMap::new(),
            order: 0,
        };
        for side in 0..2 {
            world.input(side, located(LINK, address(1 - side)));
            let state = world.channel.state.unwrap_or(LinkState::UP);
            world.input(side, Input::Link { link: LINK, state });
        }
        world
    }
    pub fn give(&mut self, side: usize, number: u64, len: usize) {
        self.agents[side].waiting.push_back((number, bundle(number, len)));
    }
    fn at(&mut self, when: Instant, what: UdpclEvent) {
        self.order += 1;
        self.queue.insert((when, self.order), what);
    }
    pub fn input(&mut self, side: usize, input: Input) {
        let mut out = Vec::new();
        self.layers[side].handle(self.now, input, &mut out);
        self.carry_out(side, out);
        while self.agents[side].ready {
            let agent = &mut self.agents[side];
            let Some((number, bundle)) = agent.waiting.pop_front() else { break };
            let id = SendId(agent.next_send);
            agent.next_send += 1;
            agent.open.insert(id, (number, bundle.clone()));
            let total = bundle.len();
            let first = if total > self.stream_from { 1 + self.rng.below(100_000) } else { total };
            let mut out = Vec::new();
            let part = bundle.slice(0, first);
            self.layers[side].handle(
                self.now,
                Input::Send { link: LINK, id, total, part, reliable: false, leaving: Leaving::AS_IT_IS },
                &mut out,
            );
            self.carry_out(side, out);
        }
    }
    fn carry_out(&mut self, side: usize, out: Vec<Output>) {
        for (_, bundle) in offers(&out) {
            let number = number_of(&bundle);
            assert_eq!(bundle, self::bundle(number, bundle.len() as usize), "bundle {number} arrived damaged");
            *self.agents[side].offers.entry(number).or_default() += 1;
        }
        self.agents[side].malformed.extend(malformed(&out));
        for output in out {
            let agent = &mut self.agents[side];
            match output {
                Output::Socket(socket::Output::Datagrams { train, .. }) => {
                    assert!(train.count() == 1 || train.data.len() <= 65_000);
                    let bytes = train.data.len() + train.count() * u64::from(self.span.overhead_bytes);
                    agent.wire.push((self.now, bytes));
                    agent.datagrams += train.count();
                    for datagram in train.datagrams() {
                        self.carry(side, datagram);
                    }
                }
                Output::Sent { id, .. } => {
                    let (number, _) = agent.open.remove(&id).expect("sent once");
                    assert!(agent.sent.insert(number));
                }
                Output::SendFailed { id, .. } => {
                    let again = agent.open.remove(&id).expect("failed once");
                    agent.failed += 1;
                    agent.waiting.push_back(again);
                }
                Output::Ready { ready, .. } => {
                    assert_ne!(agent.ready, ready);
                    agent.ready = ready;
                }
                Output::Want { id, from, len, .. } => {
                    agent.asked += len;
                    let when = self.now + Duration::from_micros(300);
                    self.at(when, UdpclEvent::More { side, id, from, len });
                }
                Output::Offer { .. } | Output::Event(_) | Output::PeerUp { .. } => {}
                other => panic!("unexpected {other:?}"),
            }
        }
    }
    fn carry(&mut self, side: usize, datagram: Payload) {
        self.left[side].push((self.now, datagram.clone()));
        if self.rng.chance(self.channel.loss) {
            return;
        }
        let copies = 1 + u32::from(self.rng.chance(self.channel.duplicate));
        for _ in 0..copies {
            let late = Duration::from_nanos(self.rng.below(self.channel.jitter.as_nanos() as u64 + 1));
            let when = self.now + self.channel.delay + late;
            self.at(when, UdpclEvent::Arrive(1 - side, datagram.clone()));
        }
    }
    /// Handles the next event; returns false if no event waits.
    pub fn step(&mut self) -> bool {
        let first = self.queue.first_key_value().map(|((at, _), _)| *at);
        let due = Instant::earliest([first, self.layers[0].next_timeout(), self.layers[1].next_timeout()]);
        let Some(due) = due else { return false };
        self.now = self.now.max(due);
        if first.is_some_and(|at| at <= self.now) {
            match self.queue.pop_first().unwrap().1 {
                UdpclEvent::Arrive(side, data) => {
                    self.arrived[1 - side].push((self.now, data.clone()));
                    let from = address(1 - side);
                    let train = DatagramBatch::single(data);
                    self.input(side, Input::Socket(socket::Input::Datagrams { from, train }));
                }
                UdpclEvent::More { side, id, from, len } => {
                    if let Some((_, bundle)) = self.agents[side].open.get(&id) {
                        let part = bundle.slice(from, len);
                        assert_eq!(part.len(), len, "asked for beyond the end");
                        self.input(side, Input::SendMore { link: LINK, id, from, part });
                    }
                }
            }
            return true;
        }
        for side in 0..2 {
            if self.layers[side].next_timeout().is_some_and(|t| t <= self.now) {
                self.input(side, Input::Wake);
            }
        }
        true
    }
    /// Runs until nothing is left to do; asserts that everything handed over has left, and that all memory is released.
    pub fn run(&mut self) {
        (0..2).for_each(|side| self.input(side, Input::Wake));
        for _ in 0..5_000_000 {
            if !self.step() {
                assert!(self.agents.iter().all(|agent| agent.waiting.is_empty() && agent.open.is_empty()));
                assert_eq!(self.layers.each_ref().map(Udpcl::usage), [Usage::default(); 2]);
                return;
            }
        }
        panic!("still busy at {:?}: {:?}", self.now, self.layers.each_ref().map(Udpcl::usage));
    }
}
