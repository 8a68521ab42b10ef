//! Two layers joined by byte streams in virtual time, with the impairments of networks: arbitrary chunks, stalls,
//! resets at any byte, outages, restarts. An agent at each end sends until every bundle is confirmed, and keeps the
//! bundles that it accepted.

mod agent;
mod wire;

use agent::StreamAgent;
use farlink_base::layer::{ConvergenceLayer, Input, LinkState, Output};
use farlink_base::socket;
use farlink_base::{Duration, Instant, LinkId, Payload, Rng, StreamId};
use std::collections::BTreeMap;
use wire::StreamPipe;

/// Address of both sides.
const PLACE: &str = "127.0.0.1:4556";
/// Link between the two sides; both use the same number.
pub const LINK: LinkId = LinkId(0);

/// Parameters of one run.
#[derive(Clone, Debug)]
pub struct StreamPlan {
    pub seed: u64,
    /// Lengths of the bundles that each side sends.
    pub bundles: [Vec<usize>; 2],
    /// Capacity of a stream in each direction, bytes.
    pub capacity: u64,
    /// Largest chunk delivered at once, bytes.
    pub chunk: u64,
    /// Longest delay of a chunk.
    pub delay: Duration,
    /// Longest delay of a verdict.
    pub verdict: Duration,
    /// Number of refusals for lack of room per 1000 offers.
    pub refused: u64,
    /// Length above which bundles are sent in parts, bytes.
    pub stream_from: usize,
    /// Number of read failures per 1000 requests.
    pub broken: u64,
    /// Number of holds per 1000 parts.
    pub held: u64,
    /// Side and number of bytes: after this many from that side, the first stream is reset.
    pub reset: Option<(usize, u64)>,
    /// Start and end of link outages.
    pub gaps: Vec<(Duration, Duration)>,
    /// Times at which a side loses everything but the bundles on disk, and the side.
    pub restarts: Vec<(Duration, usize)>,
    /// Whether the layer cannot convey refusals; a restart then loses bundles that were kept to be offered again.
    pub forgetful: bool,
    /// Node IDs that each side's certificate proves; `None`: no TLS.
    pub certificates: Option<[Vec<String>; 2]>,
}
impl Default for StreamPlan {
    fn default() -> Self {
        StreamPlan {
            seed: 1,
            bundles: [vec![200; 20], vec![300; 20]],
            capacity: 4096,
            chunk: 1000,
            delay: Duration::from_millis(5),
            verdict: Duration::from_millis(20),
            refused: 0,
            stream_from: usize::MAX,
            broken: 0,
            held: 0,
            reset: None,
            gaps: Vec::new(),
            restarts: Vec::new(),
            forgetful: false,
            certificates: None,
        }
    }
}
impl StreamPlan {
    /// Whether a bundle that was reported as sent may be lost.
    fn may_lose(&self) -> bool {
        self.forgetful && !self.restarts.is_empty() && self.refused + self.held > 0
    }
}

/// Result of a run.
#[derive(Debug)]
pub struct StreamOutcome {
    /// Time from the start to the last confirmation.
    pub took: Duration,
    /// Number of bundles that arrived again, because their confirmation was lost.
    pub repeated: u64,
    pub streams: usize,
    /// Number of bytes delivered over the first stream, by sending side.
    pub first: [u64; 2],
    /// Identities of the peer as reported to each side, in order: claimed and proven node ID.
    pub peers: [Vec<(Option<String>, Option<String>)>; 2],
    /// Bytes that passed over each stream, by sending side, with their times.
    pub wire: Vec<[Vec<(Instant, Payload)>; 2]>,
}

enum Todo {
    Opened(usize),
    Refused(usize, StreamId),
    Deliver(usize, usize),
    /// Confirmation that bytes from this side have arrived.
    Confirmed(usize, usize, u64),
    /// Verdict of an agent, with the number of restarts that its side had when the verdict was scheduled.
    Verdict(usize, usize, Input),
    /// Answer to a request, or a resume, with the number of restarts that its side had when it was scheduled.
    Tell(usize, usize, Input),
    Retry(usize),
    Link(LinkState),
    Restart(usize),
    Secured(usize),
}

struct StreamWorld<'a, L> {
    plan: &'a StreamPlan,
    make: &'a dyn Fn(usize) -> L,
    rng: Rng,
    now: Instant,
    order: u64,
    todo: BTreeMap<(Instant, u64), Todo>,
    layers: [L; 2],
    agents: [StreamAgent; 2],
    connections: Vec<StreamPipe>,
    up: bool,
    lives: [usize; 2],
}

/// Runs the plan until both sides are done; panics with the plan if a bundle is lost, duplicated or stuck.
pub fn run<L: ConvergenceLayer>(plan: &StreamPlan, make: &dyn Fn(usize) -> L) -> StreamOutcome {
    let mut world = StreamWorld {
        plan,
        make,
        rng: Rng::new(plan.seed),
        now: Instant::ZERO,
        order: 0,
        todo: BTreeMap::new(),
        layers: [make(0), make(1)],
        agents: [0, 1].map(|side| StreamAgent::new(side, plan)),
        connections: Vec::new(),
        up: true,
        lives: [0; 2],
    };
    (0..2).for_each(|side| world.locate(side));
    world.at(Duration::ZERO, Todo::Link(LinkState::UP));
    for (down, up) in &plan.gaps {
        world.at(*down, Todo::Link(LinkState::DOWN));
        world.at(*up, Todo::Link(LinkState::UP));
    }
    for (when, side) in &plan.restarts {
        world.at(*when, Todo::Restart(*side));
    }
    while !world.is_done() {
        assert!(world.step(), "nothing will ever happen again: {plan:?}\n{:?}", world.agents);
        assert!(world.now < Instant(36_000_000_000_000), "stuck: {plan:?}\n{:?}", world.agents);
    }
    for side in 0..2 {
        world.agents[1 - side].check_accepted(&plan.bundles[side], plan);
    }
    let first = world.connections.first().map_or([0; 2], |connection| connection.delivered);
    let peers = world.agents.each_mut().map(|agent| std::mem::take(&mut agent.met));
    let repeated = world.agents.iter().map(|agent| agent.repeated).sum();
    let took = world.now.since(Instant::ZERO);
    let wire: Vec<_> = world.connections.into_iter().map(|connection| connection.wire).collect();
    StreamOutcome { took, repeated, streams: wire.len(), first, peers, wire }
}

impl<L: ConvergenceLayer> StreamWorld<'_, L> {
    fn is_done(&self) -> bool {
        let here =
            |side: usize| self.plan.may_lose() || self.agents[side].accepted() == self.plan.bundles[1 - side].len();
        self.agents.iter().all(StreamAgent::is_done) && (0..2).all(here)
    }
    /// Passes the addresses of the other side to a side.
    fn locate(&mut self, side: usize) {
        let addresses = vec![PLACE.parse().unwrap()];
        self.give(side, Input::Socket(socket::Input::Located { link: LINK, addresses }));
    }
    fn at(&mut self, after: Duration, todo: Todo) {
        self.order += 1;
        self.todo.insert((self.now + after, self.order), todo);
    }
    fn random(&mut self, longest: Duration) -> Duration {
        Duration::from_micros(1 + self.rng.below(longest.as_micros().max(1) as u64))
    }

    /// Handles the next event: a timer of a layer, or an event of the network; returns false if no event waits.
    fn step(&mut self) -> bool {
        let timer = (0..2).filter_map(|side| self.layers[side].next_timeout().map(|at| (at, side))).min();
        let event = self.todo.first_key_value().map(|((at, _), _)| *at);
        match (timer, event) {
            (Some((at, side)), event) if event.is_none_or(|event| at < event) => {
                self.now = self.now.max(at);
                self.give(side, Input::Wake);
            }
            (_, Some(at)) => {
                self.now = self.now.max(at);
                let Some((_, todo)) = self.todo.pop_first() else { return false };
                self.perform(todo);
            }
            _ => return false,
        }
        true
    }

    fn perform(&mut self, todo: Todo) {
        match todo {
            Todo::Opened(index) => self.opened(index),
            Todo::Refused(side, stream) => {
                self.give(side, Input::Socket(socket::Input::Closed { stream, error: true }))
            }
            Todo::Deliver(index, from) => self.deliver(index, from),
            Todo::Confirmed(index, from, bytes) => {
                if let Some(stream) = self.connections[index].stream(from) {
                    self.give(from, Input::Socket(socket::Input::Confirmed { stream, bytes }));
                }
            }
            Todo::Verdict(side, life, input) if life == self.lives[side] => self.give(side, input),
            Todo::Tell(side, life, input) if life == self.lives[side] => self.give(side, input),
            Todo::Verdict(..) | Todo::Tell(..) => {}
            Todo::Retry(side) => {
                self.agents[side].retry();
                self.send(side);
            }
            Todo::Link(state) => {
                self.up = state.transmit;
                for side in 0..2 {
                    self.give(side, Input::Link { link: LINK, state });
                }
                (0..self.connections.len()).for_each(|index| (0..2).for_each(|from| self.schedule(index, from)));
            }
            Todo::Secured(index) => {
                for side in 0..2 {
                    let certificates = self.plan.certificates.as_ref().expect("only with certificates");
                    let proven = certificates[1 - side].clone();
                    if let Some(stream) = self.connections[index].stream(side) {
                        self.connections[index].in_tls[side] = false;
                        self.give(side, Input::Socket(socket::Input::Secured { stream, proven, contradicts: false }));
                    }
                }
            }
            Todo::Restart(side) => {
                for index in 0..self.connections.len() {
                    self.reset(index, Some(side));
                }
                self.lives[side] += 1;
                self.layers[side] = (self.make)(side);
                self.agents[side].restart();
                self.locate(side);
                let state = if self.up { LinkState::UP } else { LinkState::DOWN };
                self.give(side, Input::Link { link: LINK, state });
            }
        }
    }

    fn opened(&mut self, index: usize) {
        let from = PLACE.parse().unwrap();
        for side in [self.connections[index].active, 1 - self.connections[index].active] {
            let Some(stream) = self.connections[index].stream(side) else { continue };
            self.give(side, Input::Socket(socket::Input::Opened { stream, from }));
            let room = self.plan.capacity;
            if self.connections[index].stream(side).is_some() {
                self.connections[index].open[side] = true;
                self.give(side, Input::Socket(socket::Input::Writable { stream, room }));
            }
        }
    }

    /// Schedules the next delivery of a direction, if there is data.
    fn schedule(&mut self, index: usize, from: usize) {
        let ready = self.up && self.connections[index].may_deliver(from);
        if ready {
            self.connections[index].booked[from] = true;
            let wait = self.random(self.plan.delay);
            self.at(wait, Todo::Deliver(index, from));
        }
    }

    fn deliver(&mut self, index: usize, from: usize) {
        self.connections[index].booked[from] = false;
        if !self.up || !self.connections[index].may_deliver(from) {
            return;
        }
        let mut n = 1 + self.rng.below(self.plan.chunk);
        let reset = self.plan.reset.filter(|(side, _)| index == 0 && *side == from).map(|(_, at)| at);
        if let Some(at) = reset {
            n = n.min(at - self.connections[index].delivered[from]);
        }
        let connection = &mut self.connections[index];
        let data = connection.take(from, n);
        connection.wire[from].push((self.now, data.clone()));
        let (to, room) = (1 - from, self.plan.capacity - connection.buffers[from].len());
        if let Some(stream) = connection.stream(to).filter(|_| !data.is_empty()) {
            self.give(to, Input::Socket(socket::Input::Data { stream, data }));
        }
        if self.connections[index].confirms[from] {
            let (wait, bytes) = (self.random(self.plan.delay), self.connections[index].delivered[from]);
            self.at(wait, Todo::Confirmed(index, from, bytes));
        }
        if reset.is_some_and(|at| self.connections[index].delivered[from] >= at) {
            return self.reset(index, None);
        }
        if let Some(stream) = self.connections[index].stream(from) {
            self.give(from, Input::Socket(socket::Input::Writable { stream, room }));
        }
        if let Some(stream) = self.connections[index].finished(from) {
            self.give(to, Input::Socket(socket::Input::Closed { stream, error: false }));
        }
        self.schedule(index, from);
    }

    /// Breaks a stream; the side `silent`, which caused it, is not notified.
    fn reset(&mut self, index: usize, silent: Option<usize>) {
        for side in 0..2 {
            if let Some(stream) = self.connections[index].drop_side(side)
                && silent != Some(side)
            {
                self.give(side, Input::Socket(socket::Input::Closed { stream, error: true }));
            }
        }
    }

    fn give(&mut self, side: usize, input: Input) {
        let mut outputs = Vec::new();
        self.layers[side].handle(self.now, input, &mut outputs);
        for output in outputs {
            self.take(side, output);
        }
        self.send(side);
    }

    /// Gives bundles to the layer of a side while that is ready.
    fn send(&mut self, side: usize) {
        while let Some(input) = self.agents[side].next_send() {
            let mut outputs = Vec::new();
            self.layers[side].handle(self.now, input, &mut outputs);
            for output in outputs {
                self.take(side, output);
            }
        }
    }

    fn take(&mut self, side: usize, output: Output) {
        match output {
            Output::Socket(socket::Output::Connect { stream, link }) => {
                assert_eq!(link, LINK);
                let wait = self.random(self.plan.delay);
                if !self.up {
                    return self.at(wait, Todo::Refused(side, stream));
                }
                let index = self.connections.len();
                self.connections.push(StreamPipe::new(side, stream, index));
                self.at(wait, Todo::Opened(index));
            }
            Output::Socket(socket::Output::Write { stream, data }) => {
                let index = self.index(side, stream);
                self.connections[index].write(side, data, self.plan.capacity);
                self.schedule(index, side);
            }
            Output::Socket(socket::Output::Confirm { stream }) => {
                let index = self.index(side, stream);
                self.connections[index].confirms[side] = true;
            }
            Output::Socket(socket::Output::Close { stream, abort }) => {
                let Some(index) = self.find(side, stream) else { return };
                if abort {
                    self.connections[index].drop_side(side);
                    self.reset(index, Some(side));
                } else {
                    self.connections[index].close(side);
                    self.schedule(index, side);
                }
            }
            Output::Socket(socket::Output::StartTls { stream, server, .. }) => {
                let index = self.index(side, stream);
                let connection = &mut self.connections[index];
                assert_eq!(server, connection.active != side);
                connection.in_tls[side] = true;
                if self.plan.certificates.is_none() {
                    connection.drop_side(side);
                    self.give(side, Input::Socket(socket::Input::Closed { stream, error: true }));
                    self.reset(index, Some(side));
                } else if connection.in_tls == [true; 2] {
                    assert!(connection.buffers.iter().all(|buffer| buffer.is_empty()), "plain bytes under way");
                    let wait = self.random(self.plan.delay);
                    self.at(wait, Todo::Secured(index));
                }
            }
            Output::Socket(socket::Output::Pause { stream }) | Output::Socket(socket::Output::Resume { stream }) => {
                let paused = matches!(output, Output::Socket(socket::Output::Pause { .. }));
                let index = self.index(side, stream);
                self.connections[index].paused[side] = paused;
                self.schedule(index, 1 - side);
            }
            Output::Offer { ticket, part, last, .. } => {
                let refuse = self.rng.below(1000) < self.plan.refused;
                let life = self.lives[side];
                if !last && self.rng.below(1000) < self.plan.held {
                    self.at(Duration::ZERO, Todo::Tell(side, life, Input::Hold { ticket }));
                    self.at(self.plan.verdict, Todo::Tell(side, life, Input::Resume { ticket }));
                }
                if let Some(verdict) = self.agents[side].on_offer(ticket, part, last, refuse) {
                    let wait = self.random(self.plan.verdict);
                    self.at(wait, Todo::Verdict(side, life, verdict));
                }
            }
            Output::Want { id, from, len, .. } => {
                let broken = self.rng.below(1000) < self.plan.broken;
                let (input, life) = (self.agents[side].more(id, from, len, broken), self.lives[side]);
                // Answers arrive in the order of the requests.
                self.at(Duration::from_millis(1), Todo::Tell(side, life, input));
            }
            Output::SendFailed { id, .. } => {
                self.agents[side].on_failed(id);
                let wait = self.random(Duration::from_millis(50));
                self.at(wait, Todo::Retry(side));
            }
            other => self.agents[side].on_output(other),
        }
    }

    fn find(&self, side: usize, stream: StreamId) -> Option<usize> {
        self.connections.iter().position(|connection| connection.stream(side) == Some(stream))
    }
    fn index(&self, side: usize, stream: StreamId) -> usize {
        self.find(side, stream).unwrap_or_else(|| panic!("side {side} uses {stream:?}, which is closed"))
    }
}
