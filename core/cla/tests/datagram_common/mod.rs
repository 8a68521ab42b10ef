//! World for tests of datagram layers: two engines, a lossy channel and two simple agents, in virtual time. Every run
//! is determined by its seed.
#![allow(dead_code, reason = "each test file uses another part")]

use farlink_base::layer::{ConvergenceLayer, DatagramBatch, Destination, Input, LinkState, Output, SendId, Ticket};
use farlink_base::socket;
use farlink_base::{
    Chunk, DataRate, Duration, Event, Instant, Leaving, LinkId, LtpSegmentEvent, Malformed, NodeId, Payload, Refusal,
    Rng,
};
use farlink_cla::ltp::{Config, Ltp, SpanConfig, Usage};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;

pub const LINK: LinkId = LinkId(0);

/// Impairments of the channel, by direction.
#[derive(Clone, Debug)]
pub struct Channel {
    pub loss: [f64; 2],
    pub delay: [Duration; 2],
    /// Largest random delay of a datagram, which causes reordering.
    pub jitter: Duration,
    pub duplicate: f64,
    pub rate: Option<DataRate>,
    /// Outages, as start and end, s.
    pub down: Vec<(f64, f64)>,
    /// Whether the engines get a link-down and a link-up for each outage.
    pub told: bool,
}
impl Default for Channel {
    fn default() -> Self {
        Channel {
            loss: [0.0; 2],
            delay: [Duration::from_millis(10); 2],
            jitter: Duration::ZERO,
            duplicate: 0.0,
            rate: Some(DataRate(100_000_000)),
            down: Vec::new(),
            told: true,
        }
    }
}
impl Channel {
    fn is_down(&self, at: Instant) -> bool {
        self.down.iter().any(|(from, to)| (instant(*from)..instant(*to)).contains(&at))
    }
}

/// Test bundle: length (4 bytes), number (8 bytes), then bytes that depend on the number.
pub fn bundle(number: u64, len: usize) -> Payload {
    let mut bytes = Vec::with_capacity(len.max(12));
    bytes.extend((len.max(12) as u32).to_be_bytes());
    bytes.extend(number.to_be_bytes());
    bytes.extend((12..len.max(12)).map(|i| (number as usize * 31 + i * 7) as u8));
    Payload::from(bytes)
}
pub fn number_of(bundle: &Payload) -> u64 {
    let mut head = [0; 12];
    bundle.copy_to(0, &mut head);
    u64::from_be_bytes(head[4..].try_into().unwrap())
}
/// Length of the first bundle in a block; `None` if it is incomplete.
pub fn split(block: &Payload) -> Result<Option<u64>, Malformed> {
    let mut head = [0; 4];
    if !block.reader().read_exact(&mut head) {
        return Ok(None);
    }
    let len = u64::from(u32::from_be_bytes(head));
    Ok((len <= block.len()).then_some(len))
}

/// One node: an engine, and an agent with durable memory.
pub struct EngineSide {
    pub ltp: Ltp,
    pub config: Config,
    pub span: SpanConfig,
    pub waiting: VecDeque<(u64, Payload, bool)>,
    pub open: BTreeMap<SendId, (u64, Payload, bool)>,
    pub done: BTreeSet<u64>,
    /// Numbers of bundles offered since the last start, or kept before.
    pub known: BTreeSet<u64>,
    /// Numbers of bundles kept; and number of offers of each bundle.
    pub accepted: BTreeSet<u64>,
    pub offers: BTreeMap<u64, u32>,
    pub failed: u32,
    pub ready: bool,
    pub ready_changes: u32,
    pub events: Vec<LtpSegmentEvent>,
    pub peers: Vec<LinkId>,
    pub sent_bytes: u64,
    pub malformed: u32,
    /// Number of sessions that ended, by kind of end.
    pub ends: BTreeMap<&'static str, u32>,
    /// Bundles offered in part so far.
    arriving: BTreeMap<Ticket, Payload>,
    pub aborted: u32,
    /// Number of bytes that the layer requested.
    pub asked: u64,
    /// Largest number of bytes that the engine held of incoming blocks.
    pub most_arriving: u64,
    held: BTreeSet<Ticket>,
    next_send: u64,
}

enum PairEvent {
    Arrive(usize, DatagramBatch),
    Verdict { side: usize, ticket: Ticket, number: u64, verdict: Result<(), Refusal>, generation: u32 },
    More { side: usize, id: SendId, from: u64, len: u64, generation: u32 },
    Resume { side: usize, ticket: Ticket, generation: u32 },
    Window,
    Restart(usize),
}

pub struct EnginePair {
    pub now: Instant,
    pub sides: [EngineSide; 2],
    pub channel: Channel,
    rng: Rng,
    queue: BTreeMap<(Instant, u64), PairEvent>,
    order: u64,
    /// Time from an offer to the verdict of the agent on it.
    pub keep: Duration,
    /// Refusals by the agent of side 1, by number of the bundle.
    pub refuse: BTreeMap<u64, Refusal>,
    pub record: bool,
    /// Most datagrams that are joined to one arriving batch; 1: none are joined.
    pub join: usize,
    /// Length above which bundles are sent in parts.
    pub stream_from: u64,
    /// Numbers of bundles whose reading fails once.
    pub broken: BTreeSet<u64>,
    /// Probability that a part is answered by a hold, and duration of the hold.
    pub hold: (f64, Duration),
    /// Number of datagrams sent by each side; and the one to lose, as side and index.
    pub datagrams: [u64; 2],
    pub lose: Option<(usize, u64)>,
    /// If `record` is set: datagrams that left each side, and those of them that arrived, with the times.
    pub left: [Vec<(Instant, Payload)>; 2],
    pub arrived: [Vec<(Instant, Payload)>; 2],
    generation: [u32; 2],
}

fn instant(seconds: f64) -> Instant {
    Instant((seconds * 1e9) as u64)
}
fn address(side: usize) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, side as u8 + 1], 1113))
}

impl EnginePair {
    pub fn new(seed: u64, channel: Channel, span: SpanConfig) -> EnginePair {
        EnginePair::with(seed, channel, span, |_, _| {})
    }
    pub fn with(seed: u64, channel: Channel, span: SpanConfig, tune: impl Fn(usize, &mut Config)) -> EnginePair {
        let side = |index: usize| {
            let mut config = Config { engine: index as u64 + 1, seed: seed + index as u64, split, ..Config::default() };
            tune(index, &mut config);
            let peer = 2 - index as u64;
            let span = SpanConfig { link: LINK, engine: peer, node: NodeId(peer), ..span.clone() };
            EngineSide {
                ltp: Ltp::new(config.clone(), vec![span.clone()]),
                config,
                span,
                waiting: VecDeque::new(),
                open: BTreeMap::new(),
                done: BTreeSet::new(),
                known: BTreeSet::new(),
                accepted: BTreeSet::new(),
                offers: BTreeMap::new(),
                failed: 0,
                ready: false,
                ready_changes: 0,
                events: Vec::new(),
                peers: Vec::new(),
                sent_bytes: 0,
                malformed: 0,
                ends: BTreeMap::new(),
                arriving: BTreeMap::new(),
                aborted: 0,
                asked: 0,
                most_arriving: 0,
                held: BTreeSet::new(),
                next_send: 0,
            }
        };
        let mut world = EnginePair {
            now: Instant::ZERO,
            sides: [side(0), side(1)],
            channel,
            rng: Rng::new(seed),
            queue: BTreeMap::new(),
            order: 0,
            keep: Duration::ZERO,
            refuse: BTreeMap::new(),
            record: false,
            join: 1,
            stream_from: u64::MAX,
            broken: BTreeSet::new(),
            hold: (0.0, Duration::ZERO),
            datagrams: [0; 2],
            lose: None,
            left: Default::default(),
            arrived: Default::default(),
            generation: [0; 2],
        };
        let edges: Vec<f64> = world.channel.down.iter().flat_map(|(a, b)| [*a, *b]).collect();
        for edge in edges {
            world.at(instant(edge), PairEvent::Window);
        }
        world.tell_links();
        world
    }
    fn at(&mut self, when: Instant, what: PairEvent) {
        self.order += 1;
        self.queue.insert((when, self.order), what);
    }
    pub fn restart_at(&mut self, seconds: f64, side: usize) {
        self.at(instant(seconds), PairEvent::Restart(side));
    }
    /// Queues a bundle for sending at a side.
    pub fn offer(&mut self, side: usize, number: u64, payload: Payload, reliable: bool) {
        self.sides[side].waiting.push_back((number, payload, reliable));
    }
    fn link_state(&self, side: usize) -> LinkState {
        let up = !(self.channel.told && self.channel.is_down(self.now));
        LinkState {
            transmit: up,
            receive: up,
            rate: self.channel.rate,
            delay_out: self.channel.delay[side],
            delay_in: self.channel.delay[1 - side],
        }
    }
    pub fn tell_links(&mut self) {
        for side in 0..2 {
            let state = self.link_state(side);
            self.input(side, Input::Link { link: LINK, state });
        }
    }
    /// Passes one input to a side, and handles everything that follows.
    pub fn input(&mut self, side: usize, input: Input) {
        let mut out = Vec::new();
        let s = &mut self.sides[side];
        s.ltp.handle(self.now, input, &mut out);
        s.most_arriving = s.most_arriving.max(s.ltp.usage().arriving_bytes);
        self.carry_out(side, out);
        while self.sides[side].ready {
            let Some((number, payload, reliable)) = self.sides[side].waiting.pop_front() else { break };
            let s = &mut self.sides[side];
            let id = SendId(s.next_send);
            s.next_send += 1;
            s.open.insert(id, (number, payload.clone(), reliable));
            let mut out = Vec::new();
            let total = payload.len();
            let first = if total > self.stream_from { 1 + self.rng.below(100_000) } else { total };
            let part = payload.slice(0, first);
            s.ltp.handle(
                self.now,
                Input::Send { link: LINK, id, total, part, reliable, leaving: Leaving::AS_IT_IS },
                &mut out,
            );
            self.carry_out(side, out);
        }
    }
    pub fn carry_out(&mut self, side: usize, out: Vec<Output>) {
        for output in out {
            let s = &mut self.sides[side];
            match output {
                Output::Socket(socket::Output::Datagrams { to, train }) => {
                    assert!(matches!(to, Destination::Link(LINK) | Destination::Address(_)));
                    s.sent_bytes += train.data.len() + train.count() * u64::from(s.span.overhead_bytes);
                    self.transmit(side, &train);
                }
                Output::Offer { ticket, part, last, total, reliable, .. } => {
                    let mut bundle = s.arriving.remove(&ticket).unwrap_or_default();
                    assert!(!bundle.is_empty() || !last || total == Some(part.len()));
                    bundle.append(part);
                    if last {
                        self.agent(side, ticket, &bundle, reliable);
                    } else {
                        s.arriving.insert(ticket, bundle);
                        self.part(side, ticket);
                    }
                }
                Output::OfferAborted { ticket } => {
                    assert!(s.arriving.remove(&ticket).is_some(), "{ticket:?} was not open");
                    s.aborted += 1;
                }
                Output::Want { id, from, len, .. } => {
                    s.asked += len;
                    let (when, generation) = (self.now + Duration::from_millis(1), self.generation[side]);
                    self.at(when, PairEvent::More { side, id, from, len, generation });
                }
                Output::Sent { id, .. } => {
                    let (number, _, reliable) = s.open.remove(&id).expect("sent once");
                    s.done.insert(number);
                    if reliable {
                        let accepted = self.sides[1 - side].accepted.contains(&number);
                        assert!(accepted, "bundle {number} is Sent but was never accepted");
                    }
                }
                Output::SendFailed { id, .. } => {
                    let again = s.open.remove(&id).expect("failed once");
                    s.failed += 1;
                    s.waiting.push_back(again);
                }
                Output::Ready { ready, .. } => {
                    assert_ne!(s.ready, ready);
                    s.ready = ready;
                    s.ready_changes += 1;
                }
                Output::PeerUp { link, .. } => s.peers.push(link),
                Output::PeerDown { link } => s.peers.retain(|other| *other != link),
                Output::Event(Event::LtpSegment(event)) => {
                    if self.record {
                        s.events.push(event);
                    }
                }
                Output::Event(Event::Malformed { .. }) => s.malformed += 1,
                Output::Event(Event::LtpSessionEnd { why, .. }) => *s.ends.entry(why).or_default() += 1,
                Output::Event(_) => {}
                other => panic!("unexpected {other:?}"),
            }
        }
    }
    /// Handles a received part; some parts are answered by a hold or a refusal.
    fn part(&mut self, side: usize, ticket: Ticket) {
        let s = &mut self.sides[side];
        let number = number_of(&s.arriving[&ticket]);
        if let Some(reason) = self.refuse.get(&number).copied().filter(|_| side == 1) {
            s.arriving.remove(&ticket);
            return self.answer(side, ticket, number, Err(reason));
        }
        if self.rng.chance(self.hold.0) && self.sides[side].held.insert(ticket) {
            let (when, generation) = (self.now + self.hold.1, self.generation[side]);
            self.at(when, PairEvent::Resume { side, ticket, generation });
            self.input(side, Input::Hold { ticket });
        }
    }
    fn more(&mut self, side: usize, id: SendId, from: u64, len: u64) {
        let Some((number, payload, _)) = self.sides[side].open.get(&id) else { return };
        let part = payload.slice(from, len);
        assert_eq!(part.len(), len, "asked for beyond the end");
        let input = if from > payload.len() / 2 && self.broken.remove(number) {
            Input::SendBroken { link: LINK, id }
        } else {
            Input::SendMore { link: LINK, id, from, part }
        };
        self.input(side, input);
    }
    /// Acts as the agent, which keeps each bundle once and refuses repetitions.
    fn agent(&mut self, side: usize, ticket: Ticket, part: &Payload, reliable: bool) {
        let s = &mut self.sides[side];
        if let [Chunk::Fill { seed, .. }] = part.chunks() {
            *s.offers.entry(*seed).or_default() += 1;
            return self.answer(side, ticket, *seed, Ok(()));
        }
        let number = number_of(part);
        assert_eq!(*part, bundle(number, part.len() as usize), "bundle {number} arrived damaged");
        *s.offers.entry(number).or_default() += 1;
        let verdict = match self.refuse.get(&number) {
            Some(reason) if side == 1 => Err(*reason),
            _ if !s.known.insert(number) => Err(Refusal::Duplicate),
            _ => Ok(()),
        };
        if reliable {
            self.answer(side, ticket, number, verdict);
        } else if verdict.is_ok() {
            s.accepted.insert(number);
        }
    }
    fn answer(&mut self, side: usize, ticket: Ticket, number: u64, verdict: Result<(), Refusal>) {
        let (when, generation) = (self.now + self.keep, self.generation[side]);
        self.at(when, PairEvent::Verdict { side, ticket, number, verdict, generation });
    }
    fn transmit(&mut self, side: usize, train: &DatagramBatch) {
        let mut joined: Vec<Payload> = Vec::new();
        if self.channel.is_down(self.now) {
            return;
        }
        for datagram in train.datagrams() {
            let number = self.datagrams[side];
            self.datagrams[side] += 1;
            if self.record {
                self.left[side].push((self.now, datagram.clone()));
            }
            if self.lose == Some((side, number)) || self.rng.chance(self.channel.loss[side]) {
                continue;
            }
            let copies = 1 + u32::from(self.rng.chance(self.channel.duplicate));
            for _ in 0..copies {
                joined.push(datagram.clone());
                let last_len = joined.last().map_or(0, Payload::len);
                if joined.len() >= self.join || joined.iter().any(|d| d.len() != last_len) {
                    self.arrive(side, &mut joined);
                }
            }
        }
        self.arrive(side, &mut joined);
    }
    fn arrive(&mut self, side: usize, joined: &mut Vec<Payload>) {
        let jitter = Duration::from_nanos(self.rng.below(self.channel.jitter.as_nanos() as u64 + 1));
        let when = self.now + self.channel.delay[side] + jitter;
        let mut rest = core::mem::take(joined).into_iter().peekable();
        while let Some(mut data) = rest.next() {
            let stride = data.len() as u32;
            while let Some(next) = rest.next_if(|next| next.len() == u64::from(stride)) {
                data.append(next);
            }
            self.at(when, PairEvent::Arrive(1 - side, DatagramBatch { stride, data }));
        }
    }
    fn restart(&mut self, side: usize) {
        self.generation[side] += 1;
        let s = &mut self.sides[side];
        s.config.seed += 1000;
        s.ltp = Ltp::new(s.config.clone(), vec![s.span.clone()]);
        s.ready = false;
        s.arriving.clear();
        s.held.clear();
        s.known = s.accepted.clone();
        for (_, again) in core::mem::take(&mut s.open) {
            s.waiting.push_back(again);
        }
        let state = self.link_state(side);
        self.input(side, Input::Link { link: LINK, state });
    }
    fn next(&self) -> Option<Instant> {
        let first = self.queue.first_key_value().map(|((at, _), _)| *at);
        [first, self.sides[0].ltp.next_timeout(), self.sides[1].ltp.next_timeout()].into_iter().flatten().min()
    }
    /// Handles the next event; returns false if no event waits.
    pub fn step(&mut self) -> bool {
        let Some(next) = self.next() else { return false };
        self.now = self.now.max(next);
        if self.queue.first_key_value().is_some_and(|((at, _), _)| *at <= self.now) {
            let (_, what) = self.queue.pop_first().unwrap();
            match what {
                PairEvent::Arrive(side, train) => {
                    if self.record {
                        self.arrived[1 - side].extend(train.datagrams().map(|datagram| (self.now, datagram)));
                    }
                    self.input(side, Input::Socket(socket::Input::Datagrams { from: address(1 - side), train }));
                }
                PairEvent::Verdict { side, ticket, number, verdict, generation }
                    if generation == self.generation[side] =>
                {
                    let input = match verdict {
                        Ok(()) => {
                            self.sides[side].accepted.insert(number);
                            Input::Accepted { ticket }
                        }
                        Err(reason) => Input::Refused { ticket, reason },
                    };
                    self.input(side, input);
                }
                PairEvent::More { side, id, from, len, generation } if generation == self.generation[side] => {
                    self.more(side, id, from, len);
                }
                PairEvent::Resume { side, ticket, generation } if generation == self.generation[side] => {
                    self.sides[side].held.remove(&ticket);
                    self.input(side, Input::Resume { ticket });
                }
                PairEvent::Verdict { .. } | PairEvent::More { .. } | PairEvent::Resume { .. } => {}
                PairEvent::Window if self.channel.told => self.tell_links(),
                PairEvent::Window => {}
                PairEvent::Restart(side) => self.restart(side),
            }
            return true;
        }
        for side in 0..2 {
            if self.sides[side].ltp.next_timeout().is_some_and(|t| t <= self.now) {
                self.input(side, Input::Wake);
            }
        }
        true
    }
    /// Runs until all bundles are done; panics if that takes more than `steps` steps.
    pub fn run(&mut self, steps: usize) {
        // The first input lets the agents send.
        for side in 0..2 {
            self.input(side, Input::Wake);
        }
        for _ in 0..steps {
            if self.is_done() {
                return;
            }
            assert!(self.step(), "stuck: nothing will happen any more; {:?}", self.usage());
        }
        panic!("not done after {steps} steps at {:?}: {:?}", self.now, self.usage());
    }
    pub fn is_done(&self) -> bool {
        self.sides.iter().all(|s| s.waiting.is_empty() && s.open.is_empty())
    }
    pub fn usage(&self) -> [Usage; 2] {
        [self.sides[0].ltp.usage(), self.sides[1].ltp.usage()]
    }
    /// Runs until nothing is under way, when nothing may be held any more.
    pub fn settle(&mut self) {
        for _ in 0..2_000_000 {
            if self.usage() == [Usage::default(); 2] && self.queue.is_empty() {
                return;
            }
            if !self.step() {
                break;
            }
        }
        assert_eq!(self.usage(), [Usage::default(); 2], "everything is given back");
    }
}
