//! Main loop: take the earliest event, apply it to one node, carry the node's outputs to their destinations, until the
//! end of the run.

use crate::build::{self, Change};
use crate::cable::{Arrival, Cable, SharedTransmitters};
use crate::contacts::sky::Ephemeris;
use crate::crossing::Crossings;
use crate::faults::Faults;
use crate::flows::{self, Flows};
use crate::messages::Place;
use crate::node::{Said, SimulatedNode, Wanted, wanted};
use crate::observe::{Nodes, Observer, Trace};
use crate::own::{OwnPolicies, Registered};
use crate::radio::radios::{Offered, RadioOutcome, Radios};
use crate::radio::transfers::Transfers;
use crate::sim_event::{Queue, SimEvent};
use crate::streams::{StreamSignal, Streams};
use crate::traffic::{Applications, TrafficOutcome};
use farlink_base::layer::{DatagramBatch, Destination};
use farlink_base::socket;
use farlink_base::{ConfigError, EventClass, Instant, LayerId};
use farlink_link::Statistics;
use farlink_report::PlainFlow;
use farlink_scenario::{Fidelity, Scenario};
use farlink_stack::{Input, MessageOutput, Output};
use std::collections::VecDeque;

mod faults;
mod radio;
mod transfer;

/// Result of a run.
#[derive(Clone, PartialEq, Debug)]
pub struct Outcome {
    /// Time at which the run ended.
    pub ended: Instant,
    /// Whether the observer stopped the run early.
    pub stopped: bool,
    /// Number of events processed.
    pub happenings: u64,
    /// Hash of the run's course, equal for equal scenario and seed.
    pub trace: u64,
    /// Results by traffic entry of the scenario.
    pub traffic: Vec<TrafficOutcome>,
    /// Counters of each link, forward and reverse.
    pub links: Vec<[Statistics; 2]>,
    /// Results by radio of the scenario.
    pub radios: Vec<RadioOutcome>,
    /// Number of faults that began.
    pub faults: u64,
    /// Results of plain flows.
    pub flows: Vec<PlainFlow>,
}

/// Running simulation of a scenario.
pub struct World<O> {
    now: Instant,
    end: Instant,
    queue: Queue,
    nodes: Vec<SimulatedNode>,
    cables: Vec<Cable>,
    bottlenecks: Vec<SharedTransmitters>,
    flows: Flows,
    changes: Vec<Change>,
    streams: Streams,
    /// Links of a message-level simulation.
    crossings: Option<Crossings>,
    /// Radio contacts, and the links that follow from them.
    radios: Radios,
    applications: Applications,
    faults: Option<Box<Faults>>,
    injected: u64,
    /// Inputs for nodes at the present time.
    todo: VecDeque<(usize, Input)>,
    /// Output lists, one per nesting depth, kept for reuse.
    said: Vec<Vec<Output>>,
    /// Event classes that the observer or the trace needs.
    wanted: Wanted,
    arrivals: Vec<Arrival>,
    trace: Trace,
    /// Whether events enter the trace; not in message-level simulation, so that its hash does not depend on the
    /// observer.
    traced: bool,
    observer: O,
    sample_every: farlink_base::Duration,
    stop_when_delivered: bool,
    happenings: u64,
}

impl<O: Observer> World<O> {
    /// Builds all nodes, links and applications of a scenario.
    ///
    /// # Errors
    /// Names the part of the scenario that cannot be simulated.
    pub fn new(scenario: &Scenario, observer: O) -> Result<World<O>, ConfigError> {
        World::with_policies(scenario, observer, &Registered)
    }
    /// As [`World::new`], with routers or congestion controls of the caller.
    ///
    /// # Errors
    /// Names the part of the scenario that cannot be simulated.
    pub fn with_policies(scenario: &Scenario, observer: O, own: &dyn OwnPolicies) -> Result<World<O>, ConfigError> {
        if let Some(error) = scenario.needs_messages().or_else(|| scenario.needs_packets()) {
            return Err(error);
        }
        let mut queue = Queue::new();
        let ephemeris = Ephemeris::of(scenario)?;
        let plan = build::plan(scenario, ephemeris.as_deref());
        let mut world = World {
            now: Instant::ZERO,
            end: Instant::ZERO + scenario.duration,
            flows: Flows::new(scenario, &mut queue),
            queue,
            nodes: build::nodes(scenario, &plan, own)?,
            cables: build::cables(scenario),
            bottlenecks: build::bottlenecks(scenario),
            changes: build::changes(scenario)?,
            streams: Streams::new(scenario.nodes.iter().map(|node| node.ids.clone()).collect()),
            crossings: (scenario.fidelity == Fidelity::Message).then(|| Crossings::new(scenario)),
            radios: Radios::new(scenario, ephemeris)?,
            applications: Applications::new(scenario)?,
            faults: Faults::new(scenario, &plan, own)?,
            injected: 0,
            todo: VecDeque::new(),
            said: Vec::new(),
            wanted: wanted(|class| {
                scenario.fidelity == Fidelity::Full && class != EventClass::Segment || observer.wants(class)
            }),
            traced: scenario.fidelity == Fidelity::Full,
            arrivals: Vec::new(),
            trace: Trace::default(),
            observer,
            sample_every: scenario.measure.interval,
            // A scenario that has flows but no bundles runs for the whole duration.
            stop_when_delivered: scenario.stop_when_delivered && (scenario.flows.is_empty() || has_traffic(scenario)),
            happenings: 0,
        };
        world.start(scenario);
        Ok(world)
    }

    fn start(&mut self, scenario: &Scenario) {
        for node in 0..self.nodes.len() {
            self.input(node, Input::Clock(build::clock(scenario, node)));
            let places = self.nodes[node].places(None);
            places.into_iter().for_each(|place| self.input(node, place));
        }
        for link in 0..self.cables.len() {
            self.queue.arm(Instant::ZERO, SimEvent::Carrier(link));
        }
        for (index, change) in self.changes.iter().enumerate() {
            self.queue.arm(change.at, SimEvent::Change(index));
        }
        if let Some(crossings) = &mut self.crossings {
            crossings.start(self.now, &mut self.queue, &mut self.todo);
        }
        self.await_faults();
        self.todo.extend(self.applications.registrations());
        self.applications.start(&mut self.queue);
        if !self.sample_every.is_zero() {
            // Sampling starts at zero, so that every series begins with the run.
            self.queue.arm(Instant::ZERO, SimEvent::Sample);
        }
        self.settle();
    }

    /// Runs to the end: the scenario's duration, or earlier once everything is delivered, if so configured, or the
    /// observer stops it.
    pub fn run(mut self) -> (Outcome, O) {
        let mut stopped = false;
        while self.step() {
            stopped = self.observer.stopped();
            if stopped {
                break;
            }
            if self.stop_when_delivered && self.applications.all_delivered() {
                break;
            }
        }
        if !(stopped || self.stop_when_delivered && self.applications.all_delivered()) {
            self.now = self.end;
        }
        self.sample();
        let outcome = Outcome {
            ended: self.now,
            stopped,
            happenings: self.happenings,
            trace: self.trace.value(),
            traffic: self.applications.outcomes(self.now),
            links: (0..self.cables.len()).map(|link| self.statistics(link)).collect(),
            radios: self.radio_outcomes(),
            faults: self.injected,
            flows: self.flows.results(),
        };
        (outcome, self.observer)
    }

    fn step(&mut self) -> bool {
        // Process the next event, a contact edge before others of its time; false at the end of the run.
        // The end of the run also bounds the search for contacts.
        let next = self.queue.next_deadline().unwrap_or(Instant::MAX).min(self.end);
        if let Some(edge) = self.radios.next_edge(next) {
            self.come_to(edge.at);
            self.edge(edge);
        } else if let Some((at, happening)) = self.queue.pop_due(next) {
            self.come_to(at);
            self.happen(happening);
        } else {
            self.observer.reach(self.end, &Nodes(&self.nodes));
            return false;
        }
        self.settle();
        true
    }

    fn come_to(&mut self, at: Instant) {
        self.observer.reach(at, &Nodes(&self.nodes));
        self.now = at;
    }

    fn settle(&mut self) {
        // A turn is granted only when no input is left, so that all bundles that nodes have at this time compete for
        // it.
        self.drain();
        while self.take_turn() {
            self.drain();
        }
    }

    fn happen(&mut self, happening: SimEvent) {
        self.happenings += 1;
        match happening {
            SimEvent::Wake(node) => {
                self.nodes[node].woke();
                self.input(node, Input::Wake);
            }
            SimEvent::Tell(node, input) => self.input(node, *input),
            SimEvent::Reply { node, life, says } => {
                if self.nodes[node as usize].life == life {
                    self.input(node as usize, *says);
                }
            }
            SimEvent::Fault { index, ends } => self.fault(index, ends),
            SimEvent::Segment(connection, end, segment) => {
                self.trace.add(&[self.now.0, 1, connection as u64, end as u64, segment.sequence]);
                self.streams.segment(self.now, connection, end, segment);
                self.settle_streams(connection);
            }
            SimEvent::StreamWake(connection, end) => {
                self.streams.wake(self.now, connection, end);
                self.settle_streams(connection);
            }
            SimEvent::MessageWake(place) => {
                if let Some(crossings) = &mut self.crossings {
                    crossings.wake(self.now, place, &mut self.queue, &mut self.todo);
                }
            }
            SimEvent::Message(place, token) => {
                self.trace.add(&[self.now.0, 3, place.link as u64, place.end as u64]);
                if let Some(crossings) = &mut self.crossings {
                    crossings.arrive(place, token, &mut self.todo);
                }
            }
            SimEvent::Transfer(number) => self.left(number),
            SimEvent::Arrival(number) => self.arrive(number),
            SimEvent::Answer(number) => self.answered(number),
            SimEvent::Carrier(link) => self.carrier(link),
            SimEvent::Change(index) => self.change(index),
            SimEvent::Traffic(traffic) if self.nodes[self.applications.sender(traffic)].stopped => {
                self.applications.pass(traffic);
            }
            SimEvent::Traffic(traffic) => {
                // Senders know their node's free space, so that refusals need not be simulated one by one.
                let room = self.nodes[self.applications.sender(traffic)].room();
                self.applications.tick(self.now, traffic, room, &mut self.queue, &mut self.todo);
            }
            SimEvent::FlowTurn(flow) => {
                self.flows.turn(self.now, flow, &mut self.queue);
                self.carry_flows();
            }
            SimEvent::FlowWake(flow, side) => {
                self.flows.wake(self.now, flow, side, &mut self.queue);
                self.carry_flows();
            }
            SimEvent::FlowPacket(packet) => {
                self.trace.add(&[self.now.0, 4]);
                self.flows.arrive(self.now, *packet, &mut self.queue);
                self.carry_flows();
            }
            SimEvent::Sample => {
                self.sample();
                self.observer.progress(self.now, self.applications.delivered());
                self.queue.arm(self.now + self.sample_every, SimEvent::Sample);
            }
        }
    }

    fn carry_flows(&mut self) {
        flows::carry(self.now, &mut self.flows, &mut self.cables, &mut self.bottlenecks, &mut self.queue);
    }

    fn drain(&mut self) {
        // An input may cause others at the same time, at any node: they are handled in the order of their creation.
        while let Some((node, input)) = self.todo.pop_front() {
            self.input(node, input);
        }
    }

    fn input(&mut self, node: usize, input: Input) {
        self.at_node(node, |node, now, said| node.handle(now, input, said));
    }

    fn at_node(&mut self, node: usize, act: impl FnOnce(&mut SimulatedNode, Instant, &mut Said<'_>)) {
        // A node that is down receives nothing: inputs already scheduled for it are dropped.
        if self.nodes[node].stopped {
            return;
        }
        // Outputs may cause nested calls: each depth has a list of its own, which is reused.
        let mut said = self.said.pop().unwrap_or_default();
        act(&mut self.nodes[node], self.now, &mut Said { outputs: &mut said, wanted: self.wanted });
        for output in said.drain(..) {
            self.act(node, output);
        }
        self.said.push(said);
        self.nodes[node].set_alarm(node, &mut self.queue);
        if self.applications.waits(node) {
            self.applications.look(self.now, node, self.nodes[node].room(), &mut self.queue);
        }
    }

    fn act(&mut self, node: usize, output: Output) {
        match output {
            Output::Socket(layer, output) => self.socket(node, layer, output),
            Output::Disk(op) => {
                let (at, done) = self.nodes[node].disk.perform(self.now, op);
                let (life, says) = (self.nodes[node].life, Box::new(Input::DiskDone(done)));
                self.queue.arm(at, SimEvent::Reply { node: node as u32, life, says });
            }
            Output::App(output) => {
                let (now, sender) = (self.now, &mut self.nodes[node]);
                let needs = |wanted| sender.needs(now, wanted);
                self.applications.on_output(now, node, needs, output, &mut self.queue, &mut self.todo);
            }
            Output::Event(event) => {
                if self.traced {
                    self.trace.event(self.now, node, &event);
                }
                self.observer.event(self.now, node, &event);
            }
            Output::Message(output) => self.message(node, output),
            // Payloads are patterns, never on disk, and a simulated node is a single shard.
            Output::Spooled { .. } | Output::Read { .. } | Output::Across { .. } => {}
        }
    }

    fn message(&mut self, node: usize, output: MessageOutput) {
        // Radio links take turns, cables do not: the index decides which of them handles the output.
        match output {
            MessageOutput::Send { link, id, bundle, hop, size } => {
                let (cable, end) = self.nodes[node].link(link);
                let (bundle, size) = self.outgoing_bundle(node, bundle, size);
                if let Some(place) = self.radios.place(cable) {
                    let end = (place, end as u8);
                    self.offer(node, Offered { end, id, bundle, hop, size });
                } else if let Some(crossings) = &mut self.crossings {
                    let (queue, todo) = (&mut self.queue, &mut self.todo);
                    let (place, node) = (Place { link: cable, end }, (node, self.nodes[node].life));
                    crossings.send(self.now, node, place, (link, id), (bundle, hop, size), queue, todo);
                }
            }
            MessageOutput::Cancel { link, id } => {
                let (cable, end) = self.nodes[node].link(link);
                if let Some(place) = self.radios.place(cable) {
                    self.take_back((place, end as u8), id);
                } else if let Some(crossings) = &mut self.crossings {
                    let place = Place { link: cable, end };
                    crossings.cancel(self.now, (node, place, id), &mut self.queue, &mut self.todo);
                }
            }
            MessageOutput::Hello { link, content } => {
                let (cable, end) = self.nodes[node].link(link);
                if let Some(place) = self.radios.place(cable) {
                    let content = self.outgoing_hello(node, content);
                    self.deliver_hello((place, end as u8), content);
                }
            }
            MessageOutput::Waits { link } => {
                let (cable, end) = self.nodes[node].link(link);
                if let Some(place) = self.radios.place(cable) {
                    self.radios.table.wait((place, end as u8));
                }
            }
            MessageOutput::Verdict { ticket, result } => {
                if Transfers::is_one(ticket.0) {
                    self.judged(ticket.0, result);
                } else if let Some(crossings) = &mut self.crossings {
                    crossings.judged(self.now, ticket, result, &mut self.queue);
                }
            }
        }
    }

    fn socket(&mut self, node: usize, layer: LayerId, output: socket::Output) {
        use socket::Output as O;
        match output {
            O::Datagrams { to, train } => self.send_datagrams(node, to, &train),
            O::Connect { stream, link } => {
                let (cable, end) = self.nodes[node].link(link);
                let peer = &self.cables[cable].ends[1 - end];
                let (peer_node, peer_link) = (peer.node, peer.link);
                let peer_layer = self.nodes[peer_node].layer_of(peer_link);
                let ports = [(node, layer), (peer_node, peer_layer)];
                let streams = &self.cables[cable].streams;
                let configs = [streams[end], streams[1 - end]];
                let connection = self.streams.connect(self.now, cable, end, ports, configs, stream);
                self.settle_streams(connection);
            }
            O::Write { stream, data } => self.on_stream(node, stream, StreamSignal::Write(data)),
            O::Close { stream, abort } => self.on_stream(node, stream, StreamSignal::Close { abort }),
            O::StartTls { stream, server, .. } => self.on_stream(node, stream, StreamSignal::StartTls { server }),
            O::Pause { stream } => self.on_stream(node, stream, StreamSignal::Pause),
            O::Resume { stream } => self.on_stream(node, stream, StreamSignal::Resume),
            O::Confirm { stream } => self.on_stream(node, stream, StreamSignal::Confirm),
        }
    }

    fn send_datagrams(&mut self, node: usize, to: Destination, train: &DatagramBatch) {
        let (cable, end) = match to {
            Destination::Link(link) if !link.is_dynamic() => self.nodes[node].link(link),
            Destination::Link(_) => return,
            Destination::Address(address) => match self.nodes[node].link_towards(address) {
                Some(found) => found,
                None => return,
            },
        };
        let cable = &mut self.cables[cable];
        let (from, peer) = (cable.ends[end].address, &cable.ends[1 - end]);
        let peer_node = peer.node;
        let peer_layer = self.nodes[peer_node].layer_of(peer.link);
        let shared = cable.bottleneck.map(|place| &mut self.bottlenecks[place][end]);
        cable.send(self.now, end, train, shared, &mut self.arrivals);
        for Arrival { at, train } in self.arrivals.drain(..) {
            self.trace.add(&[self.now.0, 2, peer_node as u64, at.0, train.data.len()]);
            let input = Input::Socket(peer_layer, socket::Input::Datagrams { from, train });
            self.queue.arm(at, SimEvent::Tell(peer_node, Box::new(input)));
        }
    }

    fn on_stream(&mut self, node: usize, stream: farlink_base::StreamId, signal: StreamSignal) {
        if let Some(connection) = self.streams.signal(self.now, node, stream, signal) {
            self.settle_streams(connection);
        }
    }

    fn settle_streams(&mut self, connection: usize) {
        // Segments go to the link, all other outputs of the streams to the nodes.
        let cables = &self.cables;
        self.streams.take_news(self.now, |cable, end| cables[cable].ends[end].address, &mut self.todo);
        let mut departures = std::mem::take(&mut self.streams.departures);
        for (cable, end, to, segment) in departures.drain(..) {
            let cable = &mut self.cables[cable];
            let shared = cable.bottleneck.map(|place| &mut self.bottlenecks[place][end]);
            let (first, again) = cable.send_segment(self.now, end, &segment, shared);
            let again = again.map(|at| (at, segment.clone()));
            for (at, segment) in first.map(|at| (at, segment)).into_iter().chain(again) {
                self.queue.arm(at, SimEvent::Segment(connection, to, segment));
            }
        }
        self.streams.departures = departures;
        self.streams.set_alarms(connection, &mut self.queue);
    }

    fn carrier(&mut self, link: usize) {
        let cable = &mut self.cables[link];
        if let Some(up) = cable.carrier(self.now) {
            for end in &cable.ends {
                let input = if up { Input::LinkUp { link: end.link } } else { Input::LinkDown { link: end.link } };
                self.todo.push_back((end.node, input));
            }
        }
        let next = cable.next_carrier_change(self.now);
        if next < Instant::MAX {
            self.queue.arm(next, SimEvent::Carrier(link));
        }
    }

    fn change(&mut self, index: usize) {
        // Both nodes change at the same time: neither may use a link that the other lacks.
        let link = self.changes[index].link;
        let ends = self.cables[link].ends.map(|end| (end.node, end.link));
        let Some(configs) = self.changes[index].appears.take() else {
            if let Some(crossings) = &mut self.crossings {
                // Bundles in transfer fail before the link is removed, so that their senders keep them.
                crossings.part(self.now, link, &mut self.queue, &mut self.todo);
                self.drain();
            }
            for (node, id) in ends {
                self.at_node(node, |node, now, said| node.remove_link(now, id, said));
            }
            return;
        };
        for ((node, id), config) in ends.into_iter().zip(configs) {
            self.at_node(node, |node, now, said| {
                let added = node.add_link(now, id, &config, said);
                debug_assert!(added.is_ok(), "the scenario was checked: {added:?}");
            });
            let places = self.nodes[node].places(Some(id));
            places.into_iter().for_each(|place| self.input(node, place));
            // Stacks assume that the carrier is up.
            if !self.cables[link].has_carrier() {
                self.input(node, Input::LinkDown { link: id });
            }
        }
        if let Some(crossings) = &self.crossings {
            // A node that is down cannot receive: the link rests until its restart.
            match ends.iter().any(|(node, _)| self.nodes[*node].stopped) {
                true => crossings.rest(link, &mut self.todo),
                false => crossings.join(link, &mut self.todo),
            }
        }
    }

    fn statistics(&self, link: usize) -> [Statistics; 2] {
        match &self.crossings {
            Some(crossings) => crossings.statistics(link),
            None => self.cables[link].statistics(),
        }
    }

    fn sample(&mut self) {
        if !self.observer.samples() {
            return;
        }
        for (index, node) in self.nodes.iter().enumerate() {
            self.observer.node_sample(self.now, index, &node.usage());
        }
        for index in 0..self.cables.len() {
            let counted = self.statistics(index);
            for forward in [true, false] {
                let cable = &mut self.cables[index];
                let shared = cable.bottleneck.map(|place| &mut self.bottlenecks[place][usize::from(!forward)]);
                let queued = cable.queued(self.now, forward, shared);
                // Reported even if unchanged: the recorder compresses constant values.
                self.observer.link_sample(self.now, index, forward, queued, &counted[usize::from(!forward)]);
            }
        }
    }
}

/// Whether a scenario sends any bundles.
fn has_traffic(scenario: &Scenario) -> bool {
    !scenario.traffic.is_empty() || !scenario.group_traffic.is_empty()
}
