//! The stack: a work list joins agent, edge, store and layers. What one machine pushes becomes work
//! for another or an output; nothing calls anything by recursion.

use crate::arrivals::{self, Arrivals, Bounds};
use crate::build;
use crate::config::{Config, StoreKind};
use crate::edge::{BpV7, Codec, Edges};
use crate::io::{Input, Output};
use crate::joints::{Joint, LayerJoint, departed};
use crate::outgoing::{Outgoing, is_for_good};
use crate::parts::{Layer, Store};
use crate::reads::{Departure, Load, Reads, Waiting};
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use farlink_base::layer;
use farlink_base::store::{self, IndexEntry};
use farlink_base::{
    BundleHandle, BundleMeta, Bytes, ConfigError, EndpointId, Event, Instant, LayerId, LinkId, Payload, Refusal, Sink,
    StreamId,
};
use farlink_bpa::app::{AppOutput, BundleStatus, Status};
use farlink_bpa::{Agent, OfferToken};
use farlink_routing::PlanIndex;

/// One step of work.
pub(crate) enum Work {
    Layer(LayerId, layer::Input),
    Agent(farlink_bpa::Input),
    Store(store::Input),
    /// A whole bundle came; the agent or the disk may have known of it before.
    Whole {
        token: OfferToken,
        link: LinkId,
        rope: Payload,
        known: bool,
    },
    Send(Departure),
    Deliver(AppOutput, Payload),
    /// Take a transmission back.
    Cancel(LinkId, layer::SendId),
    /// The layer goes on with a transmission that was taken back, unless it is over by now.
    Rescue(layer::SendId),
    /// A link went down.
    Down(LinkId),
    Put(BundleHandle, IndexEntry, Arc<BundleMeta>),
    Recover(BundleHandle, Box<IndexEntry>, Bytes, Payload, Bytes),
    Loaded(u64, Result<Payload, Refusal>),
}

/// Loads of sends as they leave are numbered from here on, other loads below.
const FIRST_SEND_LOAD: u64 = 1 << 62;
/// A piece of a payload on disk up to this long is read once and kept for its CRC; a longer one is
/// read twice.
const PIECE_BYTES: u64 = 16 << 20;

/// One node, driven by whoever owns clocks, sockets and disks.
pub struct Stack {
    agent: Agent,
    edges: Edges,
    store: Store,
    layers: Vec<Layer>,
    /// Layer of each configured link.
    link_layer: Vec<LayerId>,
    streams: BTreeMap<StreamId, LayerId>,
    arrivals: Arrivals,
    outgoing: Outgoing,
    reads: Reads,
    /// What arrivals want done; empty between calls.
    todo: Vec<arrivals::Do>,
    work: VecDeque<Work>,
    started: bool,
}

pub(crate) fn layer_of(link_layer: &[LayerId], link: LinkId) -> LayerId {
    if link.is_dynamic() {
        return LayerId(((link.0 >> 24) & 0x7f) as u16);
    }
    link_layer.get(link.0 as usize).copied().unwrap_or_default()
}

/// Room for so much work is given back at once.
const FEW: usize = 8;

impl Stack {
    /// A node as configured. It begins with the first [`Input::Clock`].
    ///
    /// # Errors
    /// Names the key that cannot be used and what to write instead.
    pub fn new(config: Config) -> Result<Stack, ConfigError> {
        let codec = BpV7 { profile: config.profile, crc: config.crc, accel: config.accel };
        Stack::speaking(config, Vec::from([Box::new(codec) as Box<dyn Codec>]))
    }
    /// A node that speaks these versions of the bundle protocol; what it makes is of the first.
    ///
    /// # Errors
    /// Names the key that cannot be used and what to write instead.
    pub fn speaking(config: Config, codecs: Vec<Box<dyn Codec>>) -> Result<Stack, ConfigError> {
        build::peers_named(&config)?;
        let durable = config.store.kind == StoreKind::Durable;
        let bounds = Bounds {
            memory: config.limits.arriving_bytes,
            bundle: config.limits.bundle_bytes,
            spill_from: if durable { config.spill_from.bytes() } else { 0 },
        };
        let agent = build::agent(&config, codecs.first().map_or(7, |codec| codec.version()))?;
        let layers = build::layers(&config)?;
        Ok(Stack {
            agent,
            edges: Edges::new(codecs),
            store: build::store(&config),
            layers,
            link_layer: config.links.iter().map(|l| LayerId(l.layer as u16)).collect(),
            streams: BTreeMap::new(),
            arrivals: Arrivals::new(bounds),
            outgoing: Outgoing::new(FIRST_SEND_LOAD),
            reads: Reads::new(config.limits.memory_bytes),
            todo: Vec::new(),
            work: VecDeque::new(),
            started: false,
        })
    }

    /// Knowledge no node can have, for policies registered for it; simulations only.
    pub fn set_oracle(&mut self, oracle: Box<dyn farlink_bpa::Oracle + Send>) {
        self.agent.set_oracle(oracle);
    }

    /// When to call with [`Input::Wake`] at the latest.
    pub fn next_timeout(&self) -> Option<Instant> {
        let machines = self.layers.iter().filter_map(Layer::next_timeout);
        machines.chain(self.agent.next_timeout()).chain(self.store.next_timeout()).min()
    }

    /// Takes one input at `now`; pushes what follows from it.
    pub fn handle<S: Sink<Output>>(&mut self, now: Instant, input: Input, out: &mut S) {
        self.take(now, input);
        while let Some(work) = self.work.pop_front() {
            self.step(now, work, out);
        }
        if self.work.capacity() <= FEW && self.agent.is_empty() {
            // Thousands of nodes with nothing to do hold no room for it; one that is busy keeps its own.
            self.work = VecDeque::new();
        }
    }

    fn take(&mut self, now: Instant, input: Input) {
        use farlink_bpa::Input as A;
        let agent = match input {
            Input::Wake => return self.wake(now),
            Input::Clock(clock) => {
                self.work.push_back(Work::Agent(A::Clock(clock)));
                if !self.started {
                    self.started = true;
                    self.work.push_back(Work::Store(store::Input::Open));
                }
                return;
            }
            Input::Datagrams { layer, from, train } => {
                return self.work.push_back(Work::Layer(layer, layer::Input::Datagrams { from, train }));
            }
            Input::StreamOpened { layer, stream, from } => {
                self.streams.insert(stream, layer);
                return self.work.push_back(Work::Layer(layer, layer::Input::StreamOpened { stream, from }));
            }
            Input::StreamData { stream, data } => {
                return self.stream(stream, |stream| layer::Input::StreamData { stream, data });
            }
            Input::StreamWritable { stream, room } => {
                return self.stream(stream, |stream| layer::Input::StreamWritable { stream, room });
            }
            Input::Secured { stream, proven } => {
                return self.stream(stream, |stream| layer::Input::Secured { stream, proven });
            }
            Input::StreamClosed { stream, error } => {
                self.stream(stream, |stream| layer::Input::StreamClosed { stream, error });
                self.streams.remove(&stream);
                return;
            }
            Input::DiskDone(done) => return self.work.push_back(Work::Store(store::Input::DiskDone(done))),
            Input::LinkUp { link } => A::Carrier { link, up: true },
            Input::LinkDown { link } => A::Carrier { link, up: false },
            Input::App(input) => A::App(input),
            Input::Admin(input) => A::Admin(input),
            Input::Message { link, ticket, bundle, hop } => {
                let token = OfferToken { layer: layer_of(&self.link_layer, link), ticket };
                A::Arrived { link, token, bundle, hop }
            }
            Input::MessageReady { link, ready } => A::TakesOne { link, ready },
            Input::MessageDone { id, result: Ok(()) } => A::Sent { id },
            Input::MessageDone { id, result: Err(refused) } => A::SendFailed { id, refused },
        };
        self.work.push_back(Work::Agent(agent));
    }

    /// Input for the layer that owns a stream; streams the layer has closed are no one's.
    fn stream(&mut self, stream: StreamId, input: impl FnOnce(StreamId) -> layer::Input) {
        if let Some(layer) = self.streams.get(&stream) {
            self.work.push_back(Work::Layer(*layer, input(stream)));
        }
    }

    fn wake(&mut self, now: Instant) {
        for (index, layer) in self.layers.iter().enumerate() {
            if layer.next_timeout().is_some_and(|t| t <= now) {
                self.work.push_back(Work::Layer(LayerId(index as u16), layer::Input::Wake));
            }
        }
        if self.store.next_timeout().is_some_and(|t| t <= now) {
            self.work.push_back(Work::Store(store::Input::Wake));
        }
        if self.agent.next_timeout().is_some_and(|t| t <= now) {
            self.work.push_back(Work::Agent(farlink_bpa::Input::Wake));
        }
    }

    fn step<S: Sink<Output>>(&mut self, now: Instant, work: Work, out: &mut S) {
        match work {
            Work::Layer(id, input) => self.step_layer(now, id, input, out),
            Work::Agent(input) => {
                let Stack { agent, edges, work, link_layer, layers, arrivals, .. } = self;
                agent.handle(now, input, edges, &mut Joint { work, out, link_layer, layers, arrivals });
            }
            Work::Store(input) => self.step_store(now, input, out),
            Work::Whole { token, link, rope, known } => {
                // Its beginning may have been refused meanwhile.
                if !known || self.arrivals.awaits(token) {
                    let input = self.edges.arrived(token, link, &rope);
                    self.work.push_back(Work::Agent(input));
                }
            }
            Work::Send(departure) => self.send(departure, out),
            Work::Deliver(output, payload) => self.read(Waiting::Delivery(output), payload),
            Work::Cancel(link, id) => self.cancel(link, id, out),
            Work::Rescue(id) => {
                if let Some((load, payload)) = self.outgoing.rescue(id) {
                    self.step_store(now, store::Input::Load { load, payload }, out);
                }
            }
            Work::Down(link) => {
                let mut todo = Vec::new();
                self.outgoing.down(link, &mut todo);
                departed(todo, &mut self.work, &self.link_layer);
            }
            Work::Put(bundle, index, meta) => {
                let (head, tail) = self.edges.around(&meta);
                let payload = meta.payload.clone();
                self.step_store(now, store::Input::Put { bundle, index: Box::new(index), head, payload, tail }, out);
            }
            Work::Recover(bundle, index, head, payload, tail) => {
                self.recover(bundle, *index, &head, payload, &tail, out)
            }
            Work::Loaded(load, result) => self.loaded(load, result, out),
        }
    }

    fn step_store<S: Sink<Output>>(&mut self, now: Instant, input: store::Input, out: &mut S) {
        let Stack { store, work, link_layer, layers, arrivals, .. } = self;
        store.handle(now, input, &mut Joint { work, out, link_layer, layers, arrivals });
    }

    fn step_layer<S: Sink<Output>>(&mut self, now: Instant, id: LayerId, input: layer::Input, out: &mut S) {
        let Stack { layers, work, streams, arrivals, outgoing, edges, link_layer, todo, .. } = self;
        let refused = match &input {
            layer::Input::Refused { ticket, .. } => Some(OfferToken { layer: id, ticket: *ticket }),
            _ => None,
        };
        let Some(layer) = layers.get_mut(usize::from(id.0)) else { return };
        let joint = &mut LayerJoint { layer: id, work, out, streams, arrivals, outgoing, edges, link_layer, todo };
        layer.handle(now, input, joint);
        if let Some(token) = refused {
            self.arrivals.refused(token);
        }
    }

    /// Hands a bundle to its link's layer, rendered for this hop. One on disk leaves from there; a piece
    /// of it is read before, for its CRC.
    fn send<S: Sink<Output>>(&mut self, departure: Departure, out: &mut S) {
        let layer = layer_of(&self.link_layer, departure.link);
        let message = matches!(self.layers.get(usize::from(layer.0)), Some(Layer::Message));
        let payload = departure.payload();
        match &departure.cut {
            _ if message && payload.is_stored() => self.read(Waiting::Departure(departure), payload),
            _ if message => self.send_message(departure, payload, out),
            Some(_) if payload.is_stored() && payload.len() <= PIECE_BYTES => {
                self.read(Waiting::Departure(departure), payload);
            }
            Some(cut) if payload.is_stored() => {
                let Some(piece) = self.edges.piece(&departure.bundle, &departure.hop, cut.clone()) else {
                    return self.read(Waiting::Departure(departure), payload);
                };
                if piece.wants_bytes() {
                    return self.read(Waiting::Piece(departure, piece), payload);
                }
                self.leave(departure.link, departure.id, piece.finish(payload).into_payload(), departure.reliable);
            }
            _ => self.render(departure, payload),
        }
    }
    fn render(&mut self, departure: Departure, payload: Payload) {
        let Departure { link, id, bundle, hop, cut, reliable } = departure;
        let rope = self.edges.render(&bundle, payload, &hop, cut);
        self.leave(link, id, rope, reliable);
    }
    /// Hands an encoded bundle over, in the order of its link.
    fn leave(&mut self, link: LinkId, id: layer::SendId, rope: Payload, reliable: bool) {
        if !rope.is_stored() && !self.outgoing.waits(link) {
            let input = layer::Input::send(link, id, rope, reliable);
            return self.work.push_back(Work::Layer(layer_of(&self.link_layer, link), input));
        }
        let mut todo = Vec::new();
        self.outgoing.send(link, id, rope, reliable, &mut todo);
        departed(todo, &mut self.work, &self.link_layer);
    }
    fn read(&mut self, waiting: Waiting, payload: Payload) {
        let mut loads = Vec::new();
        self.reads.begin(waiting, payload, &mut loads);
        self.load(loads);
    }
    fn load(&mut self, loads: Vec<Load>) {
        self.work.extend(loads.into_iter().map(|(load, payload)| Work::Store(store::Input::Load { load, payload })));
    }
    /// What its layer does not have yet is forgotten here; else the layer is asked.
    fn cancel<S: Sink<Output>>(&mut self, link: LinkId, id: layer::SendId, out: &mut S) {
        let (mut loads, mut todo) = (Vec::new(), Vec::new());
        let here = self.reads.cancel(id, &mut loads) || self.outgoing.cancel(link, id, &mut todo);
        self.load(loads);
        departed(todo, &mut self.work, &self.link_layer);
        let layer = layer_of(&self.link_layer, link);
        if here {
            return self.work.push_back(Work::Agent(farlink_bpa::Input::SendFailed { id, refused: None }));
        }
        if matches!(self.layers.get(usize::from(layer.0)), Some(Layer::Message)) {
            return out.push(Output::MessageCancel { link, id });
        }
        // What goes on to its end is read before the store forgets it.
        self.work.push_front(Work::Rescue(id));
        self.work.push_front(Work::Layer(layer, layer::Input::CancelSend { link, id }));
    }

    /// The bundle crosses as it is; a piece of it becomes a bundle of its own.
    fn send_message<S: Sink<Output>>(&mut self, departure: Departure, payload: Payload, out: &mut S) {
        let Departure { link, id, bundle, hop, cut, .. } = departure;
        let size = farlink_bpa::Edge::size(&self.edges, &bundle, &hop, cut.clone());
        let bundle = match cut {
            // Another node cannot read this one's disk.
            None if bundle.payload.is_stored() => Arc::new(BundleMeta { payload, ..BundleMeta::clone(&bundle) }),
            None => bundle,
            Some(_) => {
                let rope = self.edges.render(&bundle, payload, &hop, cut);
                self.edges.read(&rope).map_or(bundle, |(piece, _)| Arc::new(piece))
            }
        };
        out.push(Output::Message { link, id, bundle, hop, size });
    }

    /// The store answered a load.
    fn loaded<S: Sink<Output>>(&mut self, load: u64, result: Result<Payload, Refusal>, out: &mut S) {
        if load >= FIRST_SEND_LOAD {
            let mut todo = Vec::new();
            self.outgoing.loaded(load, result, &mut todo);
            return departed(todo, &mut self.work, &self.link_layer);
        }
        let mut loads = Vec::new();
        let read = self.reads.loaded(load, result, &mut loads);
        self.load(loads);
        match read {
            None => {}
            Some((Waiting::Departure(departure), Ok(payload))) => {
                let layer = layer_of(&self.link_layer, departure.link);
                match self.layers.get(usize::from(layer.0)) {
                    Some(Layer::Message) => self.send_message(departure, payload, out),
                    _ => self.render(departure, payload),
                }
            }
            Some((Waiting::Piece(departure, piece), Ok(payload))) => {
                self.leave(departure.link, departure.id, piece.finish(payload).into_payload(), departure.reliable);
            }
            Some((Waiting::Delivery(AppOutput::Deliver { registration, delivery, mut bundle }), Ok(payload))) => {
                bundle.payload = payload;
                out.push(Output::App(AppOutput::Deliver { registration, delivery, bundle }));
            }
            Some((Waiting::Delivery(output), Ok(_))) => out.push(Output::App(output)),
            Some((waiting, Err(reason))) => {
                if let Some(what) = waiting.reading() {
                    let input = farlink_bpa::Input::Unreadable { what, for_good: is_for_good(reason) };
                    self.work.push_back(Work::Agent(input));
                }
            }
        }
    }

    fn recover<S: Sink<Output>>(
        &mut self,
        bundle: BundleHandle,
        index: IndexEntry,
        head: &Bytes,
        payload: Payload,
        tail: &Bytes,
        out: &mut S,
    ) {
        match self.edges.read_parts(head, payload, tail) {
            Ok((meta, hop)) => {
                let (meta, hop) = (Arc::new(meta), Box::new(hop));
                self.work.push_back(Work::Agent(farlink_bpa::Input::Recovered { bundle, index, meta, hop }));
            }
            Err(error) => {
                out.push(Output::Event(Event::Malformed { link: None, offset: error.offset, reason: error.reason }));
                self.work.push_back(Work::Store(store::Input::Delete { bundle, remember: None }));
            }
        }
    }

    /// A snapshot for operators.
    pub fn status(&self, now: Instant) -> Status {
        self.agent.status(now)
    }
    /// The first `limit` held bundles and why each is still here.
    pub fn bundles(&self, now: Instant, limit: usize) -> Vec<BundleStatus> {
        self.agent.bundles(now, limit)
    }
    /// Static routes: pattern and next hop.
    pub fn routes(&self) -> &[(String, EndpointId)] {
        self.agent.routes()
    }
    /// The contact plan in force.
    pub fn plan(&self) -> Option<&Arc<PlanIndex>> {
        self.agent.plan()
    }
    /// Fill of the store.
    pub fn store_usage(&self) -> store::Usage {
        self.store.usage(self.agent.fill())
    }
    /// The administrative endpoint of a node named in an event.
    pub fn node_name(&self, node: farlink_base::NodeId) -> EndpointId {
        self.agent.node_name(node)
    }
}
