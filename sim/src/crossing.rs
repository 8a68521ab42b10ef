//! Whole bundles on their way between nodes, in simulations of messages: which bundle is on which
//! link, when it arrives, and the answer on its way back. The bundle itself is shared, never copied.

use crate::build;
use crate::messages::{Framing, Messages, Output, Place, Token};
use crate::world::{Happening, Queue};
use farlink_base::layer::{SendId, Ticket};
use farlink_base::{BundleMeta, Duration, Hop, Instant, LinkId, Refusal, TimerKey};
use farlink_scenario::{LayerInfo, Scenario};
use farlink_stack::Input;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// One bundle on its way.
struct Flight {
    /// Who sends it, and under which number.
    from: usize,
    id: SendId,
    /// Over which link of the scenario.
    cable: usize,
    bundle: Arc<BundleMeta>,
    hop: Box<Hop>,
    /// When its last bit left.
    left: Instant,
    /// How long its answer travels.
    light: Duration,
}

/// A node and its number for the link.
#[derive(Clone, Copy)]
struct At {
    node: usize,
    link: LinkId,
}

/// All links of a world of messages.
pub(crate) struct Crossings {
    messages: Messages,
    ends: Vec<[At; 2]>,
    /// The layer each link stands for.
    layers: Vec<&'static LayerInfo>,
    /// What each end sends, or sent last.
    sending: Vec<[u64; 2]>,
    alarms: Vec<[Option<TimerKey>; 2]>,
    flights: BTreeMap<u64, Flight>,
    last: u64,
    said: Vec<Output>,
}

impl Crossings {
    /// The links of a scenario, at rest.
    pub fn new(scenario: &Scenario) -> Crossings {
        let framing = |link: &farlink_scenario::Link| build::framing(&link.layer);
        let links = scenario.links.iter().enumerate();
        let messages = Messages::new(links.map(|(index, link)| (build::directions(scenario, index), framing(link))));
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
            flights: BTreeMap::new(),
            last: 0,
            said: Vec::new(),
        }
    }
    /// Wakes every end for the first time.
    pub fn start(&mut self, now: Instant, queue: &mut Queue, todo: &mut VecDeque<(usize, Input)>) {
        for (link, ends) in self.ends.clone().iter().enumerate() {
            for (end, at) in ends.iter().enumerate() {
                // Until its end says so, no link is ready.
                todo.push_back((at.node, Input::MessageReady { link: at.link, ready: false }));
                self.wake(now, Place { link, end }, queue, todo);
            }
        }
    }
    /// Both nodes have got a link.
    pub fn join(&self, link: usize, todo: &mut VecDeque<(usize, Input)>) {
        for (end, at) in self.ends[link].iter().enumerate() {
            let ready = self.messages.is_ready(Place { link, end });
            todo.push_back((at.node, Input::MessageReady { link: at.link, ready: false }));
            if ready {
                todo.push_back((at.node, Input::MessageReady { link: at.link, ready }));
            }
        }
    }
    /// Both nodes are to lose a link: what is on its way over it is lost, and its senders know.
    pub fn part(&mut self, now: Instant, link: usize, queue: &mut Queue, todo: &mut VecDeque<(usize, Input)>) {
        let mut said = std::mem::take(&mut self.said);
        self.messages.abort(now, link, &mut said);
        for output in said.drain(..) {
            self.follow(now, output, queue, todo);
        }
        self.said = said;
        let lost: Vec<u64> = self.flights.iter().filter(|(_, flight)| flight.cable == link).map(|(n, _)| *n).collect();
        lost.into_iter().for_each(|token| self.done(Token(token), Err(None), todo));
        (0..2).for_each(|end| self.set_alarm(Place { link, end }, queue));
    }
    /// A node sends a bundle.
    #[expect(clippy::too_many_arguments, reason = "what a node says, and where what follows goes")]
    pub fn send(
        &mut self,
        now: Instant,
        node: usize,
        place: Place,
        (link, id): (LinkId, SendId),
        (bundle, hop, size): (Arc<BundleMeta>, Box<Hop>, u64),
        queue: &mut Queue,
        todo: &mut VecDeque<(usize, Input)>,
    ) {
        self.last += 1;
        if !self.messages.send(now, place, size, Token(self.last)) {
            todo.push_back((node, Input::MessageDone { id, result: Err(None) }));
            todo.push_back((node, Input::MessageReady { link, ready: false }));
            return;
        }
        let flight = Flight { from: node, id, cable: place.link, bundle, hop, left: now, light: Duration::ZERO };
        self.flights.insert(self.last, flight);
        self.sending[place.link][place.end] = self.last;
        todo.push_back((node, Input::MessageReady { link, ready: false }));
        self.set_alarm(place, queue);
    }
    /// A node takes a bundle back. One that has left, or cannot be stopped, is answered by its neighbour.
    pub fn cancel(
        &mut self,
        now: Instant,
        (node, place, id): (usize, Place, SendId),
        queue: &mut Queue,
        todo: &mut VecDeque<(usize, Input)>,
    ) {
        let token = Token(self.sending[place.link][place.end]);
        if !self.flights.get(&token.0).is_some_and(|flight| flight.from == node && flight.id == id) {
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
    /// A deadline of one end of a link.
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
                todo.push_back((at.node, Input::MessageReady { link: at.link, ready: true }));
            }
            Output::Arrives(place, token, at) => {
                if let Some(flight) = self.flights.get_mut(&token.0) {
                    (flight.left, flight.light) = (now, at.since(now));
                }
                queue.arm(at, Happening::Message(place, token));
            }
            // Confirmed when its answer is back; one that is lost the sender cannot know of.
            Output::Sent(_, token) => {
                if self.flights.get(&token.0).is_some_and(|flight| flight.left != now) {
                    self.done(token, Ok(()), todo);
                }
            }
            Output::Failed(_, token) => self.done(token, Err(None), todo),
        }
    }
    fn done(&mut self, token: Token, result: Result<(), Option<Refusal>>, todo: &mut VecDeque<(usize, Input)>) {
        if let Some(flight) = self.flights.remove(&token.0) {
            todo.push_back((flight.from, Input::MessageDone { id: flight.id, result }));
        }
    }
    /// A bundle arrives at an end of a link.
    pub fn arrive(&mut self, place: Place, token: Token, todo: &mut VecDeque<(usize, Input)>) {
        let Some(flight) = self.flights.get(&token.0) else { return };
        let at = self.ends[place.link][place.end];
        let (bundle, hop) = (flight.bundle.clone(), flight.hop.clone());
        todo.push_back((at.node, Input::Message { link: at.link, ticket: Ticket(token.0), bundle, hop }));
    }
    /// The node that got a bundle has judged it: the answer travels back, in the words of the link's
    /// layer. A copy that was no news comes back as one, with its labels.
    pub fn judged(&mut self, now: Instant, ticket: Ticket, result: Result<(), Refusal>, queue: &mut Queue) {
        let Some(flight) = self.flights.remove(&ticket.0) else { return };
        let layer = self.layers[flight.cable];
        let result = result.or_else(|why| if why == Refusal::Duplicate { Err(why) } else { layer.told(why) });
        let done = Input::MessageDone { id: flight.id, result: result.map_err(Some) };
        queue.arm(now + flight.light, Happening::Tell(flight.from, Box::new(done)));
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
        *alarm = wanted.map(|at| queue.arm(at, Happening::MessageWake(place)));
    }
    /// Counters of a link: forward, reverse.
    pub fn statistics(&self, link: usize) -> [farlink_link::Statistics; 2] {
        [0, 1].map(|end| *self.messages.statistics(Place { link, end }))
    }
}

/// What bundles weigh on a link: the packets a layer would cut them into.
pub(crate) const fn framing(layer: &LayerInfo, payload_bytes: u64, header_bytes: u64) -> Framing {
    // A layer beneath is thought to repair losses.
    Framing { payload_bytes, header_bytes, losses: false, outlives: layer.outlives, stops: layer.stops }
}
