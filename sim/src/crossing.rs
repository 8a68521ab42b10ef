//! Whole bundles in transfer between nodes in message-level simulation: which bundle is on which link, when it arrives,
//! and the receiver's answer on its way back. The bundle itself is shared, never copied.

use crate::build;
use crate::messages::{Messages, Output, Place, Token};
use crate::sim_event::{Queue, SimEvent};
use crate::weights;
use farlink_base::layer::{SendId, Ticket};
use farlink_base::{BundleMeta, Duration, HopState, Instant, LinkId, Refusal, TimerKey};
use farlink_scenario::{LayerInfo, Scenario};
use farlink_stack::{Input, MessageInput};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Number of the low bits of a token that hold the index of its link.
const LINK_BITS: u32 = 24;

/// Bundle in transfer.
struct CrossingFlight {
    /// Index of the sending node.
    from: usize,
    /// Life of the sender in which the bundle was sent; an answer to an earlier life is dropped.
    life: u32,
    id: SendId,
    bundle: Arc<BundleMeta>,
    hop: Box<HopState>,
    /// Time at which the last bit left.
    left: Instant,
    /// One-way delay of the answer.
    light: Duration,
}

/// Node at one end of a link, with the number that it has for the link.
#[derive(Clone, Copy)]
struct At {
    node: usize,
    link: LinkId,
}

/// All links of a message-level simulation.
pub(crate) struct Crossings {
    messages: Messages,
    ends: Vec<[At; 2]>,
    /// Convergence layer whose behaviour each link imitates.
    layers: Vec<&'static LayerInfo>,
    /// Token of the bundle that each end sends or sent last.
    sending: Vec<[u64; 2]>,
    alarms: Vec<[Option<TimerKey>; 2]>,
    /// Per link, bundles in transfer by token.
    flights: Vec<BTreeMap<u64, CrossingFlight>>,
    /// Number of bundles sent so far; tokens combine it with the link.
    count: u64,
    said: Vec<Output>,
}

impl Crossings {
    /// Makes the idle links of a scenario.
    pub fn new(scenario: &Scenario) -> Crossings {
        let link = |index: usize| (build::directions(scenario, index), weights::framing(scenario, index));
        let messages = Messages::new((0..scenario.links.len()).map(link));
        let places = scenario.places();
        let at = |index: usize| {
            let [first, second] = scenario.ends(index);
            [(first, 0), (second, 1)].map(|(end, side)| At { node: end.node, link: LinkId(places[index][side] as u32) })
        };
        Crossings {
            messages,
            ends: (0..scenario.links.len()).map(at).collect(),
            layers: scenario.links.iter().map(|link| link.layer.kind).collect(),
            sending: vec![[0; 2]; scenario.links.len()],
            alarms: vec![[None; 2]; scenario.links.len()],
            flights: scenario.links.iter().map(|_| BTreeMap::new()).collect(),
            count: 0,
            said: Vec::new(),
        }
    }
    /// Wakes every end for the first time.
    pub fn start(&mut self, now: Instant, queue: &mut Queue, todo: &mut VecDeque<(usize, Input)>) {
        (0..self.ends.len()).for_each(|link| self.begin(now, link, queue, todo));
    }
    /// Wakes both ends of a link for the first time.
    pub fn begin(&mut self, now: Instant, link: usize, queue: &mut Queue, todo: &mut VecDeque<(usize, Input)>) {
        for (end, at) in self.ends[link].into_iter().enumerate() {
            // A link counts as not ready until its end reports that it is.
            todo.push_back((at.node, Input::Message(MessageInput::Ready { link: at.link, ready: false })));
            self.wake(now, Place { link, end }, queue, todo);
        }
    }
    /// Reports a new link's readiness to both nodes.
    pub fn join(&self, link: usize, todo: &mut VecDeque<(usize, Input)>) {
        for (end, at) in self.ends[link].iter().enumerate() {
            let ready = self.messages.is_ready(Place { link, end });
            todo.push_back((at.node, Input::Message(MessageInput::Ready { link: at.link, ready: false })));
            if ready {
                todo.push_back((at.node, Input::Message(MessageInput::Ready { link: at.link, ready })));
            }
        }
    }
    /// Removes a link: bundles in transfer over it are lost, and their senders are notified.
    pub fn part(&mut self, now: Instant, link: usize, queue: &mut Queue, todo: &mut VecDeque<(usize, Input)>) {
        let mut said = std::mem::take(&mut self.said);
        self.messages.abort(now, link, &mut said);
        for output in said.drain(..) {
            self.follow(now, output, queue, todo);
        }
        self.said = said;
        for (_, flight) in std::mem::take(&mut self.flights[link]) {
            todo.push_back((flight.from, Input::Message(MessageInput::Done { id: flight.id, result: Err(None) })));
        }
        (0..2).for_each(|end| self.set_alarm(Place { link, end }, queue));
    }
    /// Reports to both nodes that the link accepts nothing.
    pub fn rest(&self, link: usize, todo: &mut VecDeque<(usize, Input)>) {
        let not_ready = |at: &At| (at.node, Input::Message(MessageInput::Ready { link: at.link, ready: false }));
        todo.extend(self.ends[link].iter().map(not_ready));
    }
    /// Sends a bundle from a node.
    #[expect(clippy::too_many_arguments, reason = "what a node says, and where what follows goes")]
    pub fn send(
        &mut self,
        now: Instant,
        (node, life): (usize, u32),
        place: Place,
        (link, id): (LinkId, SendId),
        (bundle, hop, size): (Arc<BundleMeta>, Box<HopState>, u64),
        queue: &mut Queue,
        todo: &mut VecDeque<(usize, Input)>,
    ) {
        self.count += 1;
        let token = self.count << LINK_BITS | place.link as u64;
        if !self.messages.send(now, place, size, Token(token)) {
            todo.push_back((node, Input::Message(MessageInput::Done { id, result: Err(None) })));
            todo.push_back((node, Input::Message(MessageInput::Ready { link, ready: false })));
            return;
        }
        let flight = CrossingFlight { from: node, life, id, bundle, hop, left: now, light: Duration::ZERO };
        self.flights[place.link].insert(token, flight);
        self.sending[place.link][place.end] = token;
        todo.push_back((node, Input::Message(MessageInput::Ready { link, ready: false })));
        self.set_alarm(place, queue);
    }
    /// Cancels a bundle that a node is sending. A bundle that has left, or that its layer cannot stop, goes on; its
    /// result is the neighbour's answer.
    pub fn cancel(
        &mut self,
        now: Instant,
        (node, place, id): (usize, Place, SendId),
        queue: &mut Queue,
        todo: &mut VecDeque<(usize, Input)>,
    ) {
        let token = Token(self.sending[place.link][place.end]);
        if !self.flights[place.link].get(&token.0).is_some_and(|flight| flight.from == node && flight.id == id) {
            return;
        }
        let mut said = std::mem::take(&mut self.said);
        self.messages.cancel(now, place, token, &mut said);
        let stopped = !said.is_empty();
        for output in said.drain(..) {
            self.follow(now, output, queue, todo);
        }
        self.said = said;
        if stopped {
            self.wake(now, place, queue, todo);
        }
    }
    /// Handles a deadline of one end of a link.
    pub fn wake(&mut self, now: Instant, place: Place, queue: &mut Queue, todo: &mut VecDeque<(usize, Input)>) {
        self.alarms[place.link][place.end] = None;
        let mut said = std::mem::take(&mut self.said);
        self.messages.wake(now, place, &mut said);
        for output in said.drain(..) {
            self.follow(now, output, queue, todo);
        }
        self.said = said;
        self.set_alarm(place, queue);
    }
    fn follow(&mut self, now: Instant, output: Output, queue: &mut Queue, todo: &mut VecDeque<(usize, Input)>) {
        match output {
            Output::Ready(place) => {
                let at = self.ends[place.link][place.end];
                todo.push_back((at.node, Input::Message(MessageInput::Ready { link: at.link, ready: true })));
            }
            Output::Arrives(place, token, at) => {
                if let Some(flight) = self.flights[place.link].get_mut(&token.0) {
                    (flight.left, flight.light) = (now, at.since(now));
                }
                queue.arm(at, SimEvent::Message(place, token));
            }
            // A bundle that arrives is confirmed by its answer. The sender does not learn of a loss: the bundle counts
            // as sent.
            Output::Sent(place, token) => {
                // `left` equals `now` only if the bundle arrives, as set above; then its answer confirms it.
                if self.flights[place.link].get(&token.0).is_some_and(|flight| flight.left != now) {
                    self.done(place.link, token, Ok(()), todo);
                }
            }
            Output::Failed(place, token) => self.done(place.link, token, Err(None), todo),
        }
    }
    fn done(
        &mut self,
        link: usize,
        token: Token,
        result: Result<(), Option<Refusal>>,
        todo: &mut VecDeque<(usize, Input)>,
    ) {
        if let Some(flight) = self.flights[link].remove(&token.0) {
            todo.push_back((flight.from, Input::Message(MessageInput::Done { id: flight.id, result })));
        }
    }
    /// Delivers a bundle to the end of a link.
    pub fn arrive(&mut self, place: Place, token: Token, todo: &mut VecDeque<(usize, Input)>) {
        let Some(flight) = self.flights[place.link].get(&token.0) else { return };
        let at = self.ends[place.link][place.end];
        let (bundle, hop) = (flight.bundle.clone(), flight.hop.clone());
        todo.push_back((
            at.node,
            Input::Message(MessageInput::Arrived { link: at.link, ticket: Ticket(token.0), bundle, hop }),
        ));
    }
    /// Sends the receiver's verdict back, translated into the codes of the link's layer. A refusal as a duplicate stays
    /// one, with its labels, so that the sender knows that the neighbour has the bundle.
    pub fn judged(&mut self, now: Instant, ticket: Ticket, result: Result<(), Refusal>, queue: &mut Queue) {
        let link = (ticket.0 & ((1 << LINK_BITS) - 1)) as usize;
        let Some(flight) = self.flights[link].remove(&ticket.0) else { return };
        let layer = self.layers[link];
        let result = result.or_else(|why| if why == Refusal::Duplicate { Err(why) } else { layer.sender_result(why) });
        let done = Input::Message(MessageInput::Done { id: flight.id, result: result.map_err(Some) });
        queue.arm(
            now + flight.light,
            SimEvent::Reply { node: flight.from as u32, life: flight.life, says: Box::new(done) },
        );
    }
    fn set_alarm(&mut self, place: Place, queue: &mut Queue) {
        let wanted = Some(self.messages.next_timeout(place)).filter(|at| *at < Instant::MAX);
        let alarm = &mut self.alarms[place.link][place.end];
        if alarm.map(|key| key.deadline()) == wanted {
            return;
        }
        if let Some(old) = alarm.take() {
            queue.cancel(old);
        }
        *alarm = wanted.map(|at| queue.arm(at, SimEvent::MessageWake(place)));
    }
    /// Counters of a link, forward and reverse.
    pub fn statistics(&self, link: usize) -> [farlink_link::Statistics; 2] {
        [0, 1].map(|end| *self.messages.statistics(Place { link, end }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farlink_base::{Accel, CreationTimestamp, EndpointId, Facts, Payload, Priority};
    use farlink_bundle::{CrcType, v7};

    const MS: u64 = 1_000_000;

    /// Links between `a` and `b`: 1 kB a millisecond, 100 ms one way.
    struct CrossingBench {
        crossings: Crossings,
        queue: Queue,
        todo: VecDeque<(usize, Input)>,
    }
    impl CrossingBench {
        fn new(layer: &str, links: usize) -> CrossingBench {
            let link = |n: usize| {
                format!(
                    "[[link]]\nname = \"l{n}\"\nbetween = [\"a\", \"b\"]\nlayer = \"{layer}\"\n\
                    rate = \"8 Mbit/s\"\ndelay = \"100 ms\"\n"
                )
            };
            let nodes = "[[node]]\nname = \"a\"\nid = \"ipn:1.0\"\n[[node]]\nname = \"b\"\nid = \"ipn:2.0\"\n";
            let links: String = (0..links).map(link).collect();
            let text = format!("name = \"x\"\nduration = \"1 min\"\nfidelity = \"message\"\n{nodes}{links}");
            let scenario = Scenario::parse(&text).unwrap_or_else(|errors| panic!("{errors:#?}"));
            let mut bench =
                CrossingBench { crossings: Crossings::new(&scenario), queue: Queue::new(), todo: VecDeque::new() };
            bench.crossings.start(Instant::ZERO, &mut bench.queue, &mut bench.todo);
            bench.todo.clear();
            bench
        }
        fn send(&mut self, ms: u64, link: usize, id: u64) {
            // A bundle of 10 kB takes 10 ms and a little for headers.
            let draft = v7::BundleDraft {
                source: EndpointId::ipn(1, 1),
                destination: EndpointId::ipn(2, 1),
                report_to: EndpointId::Null,
                facts: Facts::default(),
                lifetime_ms: 1000,
                priority: Priority::Normal,
                hop_limit: 0,
                ..v7::BundleDraft::default()
            };
            let meta =
                v7::make(&draft, CreationTimestamp::default(), Payload::fill(1, 9), CrcType::None, &Accel::default());
            let what = (Arc::new(meta), Box::new(HopState::default()), 10_000);
            let (place, over) = (Place { link, end: 0 }, (LinkId(link as u32), SendId(id)));
            let CrossingBench { crossings, queue, todo } = self;
            crossings.send(Instant(ms * MS), (0, 0), place, over, what, queue, todo);
        }
        fn run(&mut self, until_ms: u64, verdict: Result<(), Refusal>) -> Vec<(u64, u64, Result<(), Option<Refusal>>)> {
            // Returns results at `a` with their times in milliseconds; `b` gives its verdict at once.
            let mut heard = Vec::new();
            let mut now = Instant::ZERO;
            loop {
                while let Some((node, input)) = self.todo.pop_front() {
                    match input {
                        Input::Message(MessageInput::Arrived { ticket, .. }) => {
                            assert_eq!(node, 1);
                            self.crossings.judged(now, ticket, verdict, &mut self.queue);
                        }
                        Input::Message(MessageInput::Done { id, result }) => {
                            assert_eq!(node, 0);
                            heard.push((now.0 / MS, id.0, result));
                        }
                        _ => {}
                    }
                }
                let Some((at, what)) = self.queue.pop_due(Instant(until_ms * MS)) else { return heard };
                now = at;
                match what {
                    SimEvent::MessageWake(place) => {
                        self.crossings.wake(now, place, &mut self.queue, &mut self.todo);
                    }
                    SimEvent::Message(place, token) => self.crossings.arrive(place, token, &mut self.todo),
                    SimEvent::Reply { node, says, .. } => self.todo.push_back((node as usize, *says)),
                    _ => {}
                }
            }
        }
        fn flights(&self) -> usize {
            self.crossings.flights.iter().map(BTreeMap::len).sum()
        }
    }

    #[test]
    fn verdict_returns_one_light_time_later() {
        let mut bench = CrossingBench::new("ltp", 1);
        bench.send(0, 0, 7);
        assert_eq!(bench.run(200, Ok(())), [], "10 ms and a little to send, 100 ms to arrive, 100 ms back");
        assert_eq!(bench.flights(), 0, "judged, and told once");
        let heard = bench.run(1000, Ok(()));
        assert!(matches!(heard[..], [(210..=212, 7, Ok(()))]), "{heard:?}");
    }

    #[test]
    fn removed_link_fails_bundles_in_flight() {
        let mut bench = CrossingBench::new("ltp", 3);
        // Each link has one bundle in flight; the second link sends another.
        (0..3).for_each(|link| bench.send(0, link, 10 + link as u64));
        assert_eq!(bench.run(50, Ok(())), []);
        bench.send(50, 1, 20);
        assert_eq!(bench.flights(), 4);
        bench.crossings.part(Instant(51 * MS), 1, &mut bench.queue, &mut bench.todo);
        let mut lost: Vec<_> = bench
            .todo
            .iter()
            .filter_map(|(node, input)| match input {
                Input::Message(MessageInput::Done { id, result }) => Some((*node, id.0, *result)),
                _ => None,
            })
            .collect();
        lost.sort_by_key(|(_, id, _)| *id);
        assert_eq!(lost, [(0, 11, Err(None)), (0, 20, Err(None))]);
        assert_eq!(bench.flights(), 2, "the other links keep theirs");
        bench.todo.clear();
        let heard = bench.run(1000, Ok(()));
        assert!(matches!(heard[..], [(_, 10, Ok(())), (_, 12, Ok(()))]), "nothing of the lost arrives: {heard:?}");
    }

    #[test]
    fn refusal_and_duplicate_reach_the_sender() {
        for layer in ["ltp", "tcpclv4"] {
            let mut said = Vec::new();
            for verdict in [Refusal::Duplicate, Refusal::NotAcceptable, Refusal::NoResources] {
                let mut bench = CrossingBench::new(layer, 1);
                let words = bench.crossings.layers[0].sender_result(verdict).map_err(Some);
                bench.send(0, 0, 1);
                let heard = bench.run(1000, Err(verdict));
                let [(at, 1, result)] = heard[..] else { panic!("{layer}: {heard:?}") };
                assert!((210..=212).contains(&at), "{layer}: {at} ms");
                said.push((verdict, result, words));
            }
            assert_eq!(said[0].1, Err(Some(Refusal::Duplicate)), "{layer}: its label comes back");
            assert_ne!(said[0].1, said[0].2, "{layer} has another word for it");
            assert!(said[1..].iter().all(|(_, result, words)| result == words), "{layer}: {said:?}");
        }
    }
}
