//! The stack: a work list joins agent, edge, store and layers. An output of one machine becomes work for another or
//! an output of the stack; nothing calls anything by recursion.

use crate::arrivals::{self, Arrivals, Bounds};
use crate::build;
use crate::config::{Config, LinkConfig, StoreKind};
use crate::edge::{BpV7, Codec, Edges};
use crate::edge_v6::BpV6;
use crate::io::{Input, MessageInput, MessageOutput, Output};
use crate::kinds::{Layer, LinkParams, has_key};
use crate::outgoing::{Outgoing, is_for_good};
use crate::outputs::{LayerOutputs, Outputs, arrived, departed};
use crate::pieces::Kept;
use crate::reads::{Departure, Load, Reads, Waiting};
use crate::reporting;
use crate::security::{KeyRing, Secured, Security, SecurityCounts};
use crate::shards::{self, Across};
use crate::store::Store;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::IpAddr;
use farlink_base::layer;
use farlink_base::store::{self, IndexEntry};
use farlink_base::{
    AgentSettings, BundleHandle, BundleMeta, Bytes, ConfigError, EndpointId, Event, Instant, LayerId, Lazy, Leaving,
    Limits, LinkId, Malformed, Payload, Refusal, Sink, StreamId,
};
use farlink_bpa::app::{AppInput, AppOutput, BundleStatus, RegistrationId, RequestId, SendRequest, Status, Sum};
use farlink_bpa::{Agent, CursorId, OfferToken, Origin, Quota, Reading};
use farlink_routing::PlanIndex;

/// One step of work. Rare and large contents are boxed, which keeps the frequent steps small.
#[derive(Debug)]
pub(crate) enum Work {
    Layer(LayerId, layer::Input),
    /// Write all that a layer has for a stream by now, together.
    Write(LayerId, StreamId),
    Agent(farlink_bpa::Input),
    Store(store::Input),
    /// A whole bundle arrived; the agent or the disk may know of it already.
    Whole {
        token: OfferToken,
        link: LinkId,
        rope: Payload,
        known: bool,
        /// Digest of its payload if it was computed on arrival, else 0.
        digest: u64,
    },
    /// A whole bundle with parts on disk is faulty.
    Damaged(OfferToken, LinkId, Box<(Malformed, Payload)>),
    /// A fragment of an arriving bundle is on disk.
    Piece(OfferToken, LinkId, Box<Kept>),
    Send(Departure),
    Deliver(Box<(AppOutput, Payload)>),
    /// A delivery whose security is to be checked.
    Open(Box<(AppOutput, Arc<BundleMeta>)>),
    /// A bundle that came inside another.
    Inside(OfferToken, Payload),
    /// Push this output to the driver.
    Tell(Box<Output>),
    /// Take a transmission back.
    Cancel(LinkId, layer::SendId),
    /// Read the rest of a cancelled transmission that its layer finishes, unless it has ended.
    Rescue(layer::SendId),
    /// A link went down.
    Down(LinkId),
    Put(BundleHandle, IndexEntry, Arc<BundleMeta>),
    Recover(BundleHandle, Box<IndexEntry>, Box<(Bytes, Payload, Bytes)>),
    Loaded(u64, Result<Payload, Refusal>),
    /// Message of another shard.
    Across(LayerId, u8, Box<Across>),
}

/// First number for loads of sends that are under way; other loads have lower numbers.
const FIRST_SEND_LOAD: u64 = 1 << 62;
/// Longest piece of a stored payload that is read once and kept for its CRC; a longer one is read twice.
const PIECE_BYTES: u64 = 16 << 20;

/// One node, driven by the owner of clocks, sockets and disks.
#[derive(Debug)]
pub struct Stack {
    agent: Agent,
    edges: Edges,
    store: Store,
    layers: Vec<Layer>,
    /// Layer of each configured link, by its number.
    link_layer: Vec<LayerId>,
    arrivals: Lazy<Arrivals>,
    outgoing: Lazy<Outgoing>,
    reads: Lazy<Reads>,
    /// Actions of arrivals; empty between calls.
    todo: Vec<arrivals::Do>,
    work: VecDeque<Work>,
    /// Next timeout of the agent, [`Instant::MAX`] for none; asked after each input of the agent.
    agent_at: Instant,
    started: bool,
}

pub(crate) fn layer_of(link_layer: &[LayerId], link: LinkId) -> LayerId {
    if link.is_dynamic() {
        return LayerId(((link.0 >> 24) & 0x7f) as u16);
    }
    link_layer.get(link.0 as usize).copied().unwrap_or(NO_LAYER)
}
/// Layer of a removed link.
const NO_LAYER: LayerId = LayerId(u16::MAX);
/// Bound on link numbers: their table is as long as the largest number.
pub const LINKS_MAX: u32 = 1 << 20;

/// A delivery with this payload.
fn with_payload(mut output: AppOutput, payload: Payload) -> AppOutput {
    if let AppOutput::Deliver { bundle, .. } = &mut output {
        bundle.payload = payload;
    }
    output
}

/// Capacity of the work list that is kept while idle.
const FEW: usize = 8;

impl Stack {
    /// A node as configured, which speaks versions 7 and 6 of the bundle protocol. It begins with the first
    /// [`Input::Clock`].
    ///
    /// # Errors
    /// Names the key that cannot be used, and a value to write instead.
    pub fn new(config: Config) -> Result<Stack, ConfigError> {
        let custody = config.custody.as_ref();
        let codes = reporting::codes(custody.map(|custody| custody.codes), config.compressed.as_ref()).map(Box::new);
        let v7 = BpV7 { profile: config.node.profile, crc: config.node.crc, accel: config.accel, custody: codes };
        let v6 = BpV6 { profile: config.node.profile, numbers: custody.is_some_and(|custody| custody.aggregate) };
        // A node without rules pays nothing for security: its codec has no BPSec at all.
        let v7: Box<dyn Codec> = match &config.security {
            Some(security) => Box::new(Secured::new(v7, Security::new(security, &config))),
            None => Box::new(v7),
        };
        let mut codecs = Vec::from([v7, Box::new(v6)]);
        // The first codec makes this node's own bundles.
        codecs.sort_by_key(|codec| codec.version() != config.node.bundle_version);
        Stack::speaking(config, codecs)
    }
    /// A node that speaks these versions of the bundle protocol; its own bundles are of the first.
    ///
    /// # Errors
    /// Names the key that cannot be used, and a value to write instead.
    pub fn speaking(config: Config, codecs: Vec<Box<dyn Codec>>) -> Result<Stack, ConfigError> {
        let durable = config.store.kind == StoreKind::Durable;
        let bounds = Bounds {
            memory: config.node.limits.arriving_bytes,
            bundle: config.node.limits.bundle_bytes,
            spill_from: if durable { config.node.store.spill_from.bytes() } else { 0 },
        };
        let mut agent = build::agent(&config, codecs.first().map_or(7, |codec| codec.version()))?;
        agent.set_quotas(config.quotas.clone());
        let layers = build::layers(&config)?;
        Ok(Stack {
            agent,
            edges: Edges::new(codecs, durable),
            store: build::store(&config),
            layers,
            link_layer: config.links.iter().map(|l| LayerId(l.layer as u16)).collect(),
            arrivals: Lazy::new(bounds),
            outgoing: Lazy::new(FIRST_SEND_LOAD),
            reads: Lazy::new(config.node.limits.memory_bytes),
            todo: Vec::new(),
            work: VecDeque::new(),
            agent_at: Instant::MAX,
            started: false,
        })
    }

    /// Replaces the configured router by one that no registry has; before the first input.
    pub fn set_router(&mut self, router: Box<dyn farlink_routing::Router>) {
        self.agent.set_router(router);
    }
    /// Replaces the configured congestion control by one that no registry has; before the first input.
    pub fn set_control(&mut self, control: Box<dyn farlink_congestion::Control>) {
        self.agent.set_control(control);
    }
    /// Sets the source of knowledge that no real node has, for policies registered for it; simulations only.
    pub fn set_oracle(&mut self, oracle: Box<dyn farlink_bpa::Oracle + Send>) {
        self.agent.set_oracle(oracle);
    }

    /// Latest time for the next [`Input::Wake`].
    pub fn next_timeout(&self) -> Option<Instant> {
        let first = Instant::earliest([self.agent_at(), self.store.next_timeout()]);
        self.layers.iter().fold(first, |first, layer| Instant::earliest([first, layer.next_timeout()]))
    }

    /// Takes one input at `now` and pushes the resulting outputs.
    pub fn handle(&mut self, now: Instant, input: Input, out: &mut dyn Sink<Output>) {
        // Most inputs are one step of work: it needs no place in the list.
        let next = self.take(now, input);
        self.work_off(now, next, out);
    }

    /// Gives back the room of a busy time, while nothing happens.
    pub fn rest(&mut self) {
        self.work = VecDeque::new();
        self.todo = Vec::new();
        self.agent.rest();
        self.store.rest();
        if let Some(reads) = self.reads.made() {
            reads.rest();
        }
        self.layers.iter_mut().for_each(Layer::shrink);
    }

    fn work_off(&mut self, now: Instant, mut next: Option<Work>, out: &mut dyn Sink<Output>) {
        let (mut agent, mut rests) = (false, false);
        while let Some(work) = next.take().or_else(|| self.work.pop_front()) {
            agent |= matches!(work, Work::Agent(_));
            rests |= matches!(work, Work::Down(_));
            self.step(now, work, out);
        }
        // Asking the agent for its timeout is not free; only an input of the agent can change it.
        if agent {
            self.agent_at = self.agent.next_timeout().unwrap_or(Instant::MAX);
        }
        if (self.work.capacity() <= FEW || rests) && self.agent.is_empty() {
            // Thousands of idle nodes hold no room for it; a busy one keeps its room until its contact ends.
            self.work = VecDeque::new();
        }
    }

    /// Adds a link while the node runs; it starts up. The driver must know the link's address before.
    ///
    /// # Errors
    /// Names the key that cannot be used, and a value to write instead. Nothing has changed then.
    pub fn add_link(
        &mut self,
        now: Instant,
        link: LinkId,
        config: &LinkConfig,
        out: &mut dyn Sink<Output>,
    ) -> Result<(), ConfigError> {
        self.link_up(now, link, config, Origin::Configured, out)
    }
    /// Adds a link to a neighbour that was discovered by announcements: its name is only claimed, the contact plan
    /// does not list it, and bundles from it count as a stranger's.
    ///
    /// # Errors
    /// As [`Stack::add_link`].
    pub fn add_found_link(
        &mut self,
        now: Instant,
        link: LinkId,
        config: &LinkConfig,
        out: &mut dyn Sink<Output>,
    ) -> Result<(), ConfigError> {
        self.link_up(now, link, config, Origin::Discovered, out)
    }
    /// Adds a link to a neighbour in radio range (message-level simulation): the neighbour is forgotten with its
    /// last link, and the link takes turns, as [`MessageInput::Turn`] describes. With `free_hellos`, hellos need no
    /// bundles, but are [`MessageOutput::Hello`].
    ///
    /// # Errors
    /// As [`Stack::add_link`].
    pub fn add_met_link(
        &mut self,
        now: Instant,
        link: LinkId,
        config: &LinkConfig,
        free_hellos: bool,
        out: &mut dyn Sink<Output>,
    ) -> Result<(), ConfigError> {
        self.link_with(now, link, config, (Origin::Met, free_hellos), out)
    }
    fn link_up(
        &mut self,
        now: Instant,
        link: LinkId,
        config: &LinkConfig,
        origin: Origin,
        out: &mut dyn Sink<Output>,
    ) -> Result<(), ConfigError> {
        self.link_with(now, link, config, (origin, false), out)
    }
    fn link_with(
        &mut self,
        now: Instant,
        link: LinkId,
        config: &LinkConfig,
        (origin, free_hellos): (Origin, bool),
        out: &mut dyn Sink<Output>,
    ) -> Result<(), ConfigError> {
        let settings = build::link_settings(link, config, self.layers.len())?;
        has_key(config)?;
        let place = link.0 as usize;
        // Numbers are reused after removal, so a number below the end of the table may be free.
        let vacant = self.link_layer.get(place).is_none_or(|layer| *layer == NO_LAYER);
        if self.agent.has_link(&config.name) || link.0 >= LINKS_MAX || !vacant {
            let path = alloc::format!("link.{}", config.name);
            return Err(build::error(
                path,
                "a link this node does not have",
                "choose another name, or remove it before",
            ));
        }
        let id = LayerId(config.layer as u16);
        let Stack { layers, work, arrivals, outgoing, edges, link_layer, todo, .. } = self;
        link_layer.resize(link_layer.len().max(place + 1), NO_LAYER);
        let mut outputs =
            LayerOutputs { layer: id, work, out, arrivals, outgoing, edges, link_layer, todo, owner: None };
        let Some(layer) = layers.get_mut(config.layer) else { return Err(build::no_layer(&config.name)) };
        let layer = match layer {
            Layer::Shared(shared) => {
                shared.owner.add(link);
                outputs.owner = Some(&mut shared.owner);
                &mut shared.layer
            }
            layer => layer,
        };
        if layer.add_link(now, link, config.params.clone(), &mut outputs) != Some(true) {
            return Err(build::mismatch(&config.name, &alloc::format!("{}", config.layer)));
        }
        if let Layer::Remote(remote) = layer {
            // Earlier messages about the link went only to shards that had it, so the owner must repeat them.
            outputs.across(remote.owner(), Across::Known { link });
        }
        self.link_layer[place] = id;
        self.work_off(now, None, out);
        let Stack { agent, edges, work, link_layer, layers, arrivals, .. } = self;
        agent.add_link_of(now, &settings, origin, edges, &mut Outputs { work, out, link_layer, layers, arrivals });
        if free_hellos {
            agent.free_hellos(link);
        }
        self.wake_agent(now, out);
        Ok(())
    }
    /// Removes a link: its sessions end in good order, and bundles that it was sending or had queued take another
    /// way or wait. Its number may be used again.
    pub fn remove_link(&mut self, now: Instant, link: LinkId, out: &mut dyn Sink<Output>) {
        let layer = layer_of(&self.link_layer, link);
        if link.is_dynamic() || layer == NO_LAYER {
            return;
        }
        // The agent gives the link no more bundles from here on, so that its waiting bundles fail only once.
        self.work.push_back(Work::Agent(farlink_bpa::Input::Carrier { link, up: false }));
        self.work.push_back(Work::Layer(layer, layer::Input::RemoveLink { link }));
        // Bundles that the layer had return to the agent before the agent forgets the link.
        self.work_off(now, None, out);
        let Stack { agent, edges, work, link_layer, layers, arrivals, .. } = self;
        agent.remove_link(now, link, edges, &mut Outputs { work, out, link_layer, layers, arrivals });
        self.wake_agent(now, out);
        // Last, as the steps before still look the layer up.
        self.link_layer[link.0 as usize] = NO_LAYER;
    }
    /// Lets the agent act on changed links.
    fn wake_agent(&mut self, now: Instant, out: &mut dyn Sink<Output>) {
        self.agent_at = self.agent.next_timeout().unwrap_or(Instant::MAX);
        let wake = self.agent.is_due(now).then_some(Work::Agent(farlink_bpa::Input::Wake));
        self.work_off(now, wake, out);
    }

    /// Translates an input into its first step; further steps go to the list.
    fn take(&mut self, now: Instant, input: Input) -> Option<Work> {
        use farlink_bpa::Input as A;
        let agent = match input {
            Input::Wake => return self.wake(now),
            Input::Clock(clock) => {
                if !self.started {
                    self.started = true;
                    self.work.push_back(Work::Store(store::Input::Open));
                }
                A::Clock(clock)
            }
            Input::Socket(layer, input) => return Some(Work::Layer(layer, layer::Input::Socket(input))),
            Input::DiskDone(done) => return Some(Work::Store(store::Input::DiskDone(done))),
            Input::Across { from, layer, what } => return Some(Work::Across(layer, from, what)),
            Input::LinkUp { link } => A::Carrier { link, up: true },
            Input::LinkDown { link } => A::Carrier { link, up: false },
            Input::Pressure(pressure) => {
                // Only a rise is worth the copies: repeated reports of the same pressure find nothing more to free.
                if pressure > self.agent.pressure() {
                    self.unshare();
                }
                A::Pressure(pressure)
            }
            Input::App(AppInput::Send { request, bundle }) => match self.request(request, Some(bundle)) {
                Some(bundle) => A::App(AppInput::Send { request, bundle }),
                None => return None,
            },
            Input::App(input) => A::App(input),
            Input::Spool { request, source, part } => {
                let Stack { arrivals, todo, work, .. } = self;
                arrivals.spool(request, source, part, todo);
                arrived(todo, work);
                return None;
            }
            Input::Unspool { request } => {
                self.request(request, None);
                return None;
            }
            Input::Read { delivery, part } => {
                self.read(Waiting::Part(delivery), part);
                return None;
            }
            Input::Admin(input) => A::Admin(input),
            Input::Message(input) => self.message(input),
        };
        Some(Work::Agent(agent))
    }

    /// Translates a message driver's input for the agent.
    fn message(&mut self, input: MessageInput) -> farlink_bpa::Input {
        use farlink_bpa::Input as A;
        let token = |link, ticket| OfferToken { layer: layer_of(&self.link_layer, link), ticket };
        match input {
            MessageInput::Arrived { link, ticket, bundle, hop } => {
                let token = token(link, ticket);
                self.edges.message(token, link, bundle, hop)
            }
            MessageInput::Begun { link, ticket, bundle, hop } => {
                A::Begun { link, token: token(link, ticket), bundle, hop }
            }
            MessageInput::Abandoned { link, ticket } => A::Abandoned { token: token(link, ticket) },
            MessageInput::Hello { link, content } => A::Hello { link, content },
            MessageInput::Turn { link } => A::Turn { link },
            MessageInput::Ready { link, ready } => A::TakesOne { link, ready },
            MessageInput::Done { id, result: Ok(()) } => A::Sent { id },
            MessageInput::Done { id, result: Err(refused) } => A::SendFailed { id, refused },
        }
    }

    /// Completes or cancels a request of an application; returns it if nothing was spooled for it.
    fn request(&mut self, request: RequestId, wanted: Option<SendRequest>) -> Option<SendRequest> {
        let Stack { arrivals, todo, work, .. } = self;
        let Some(arrivals) = arrivals.made() else { return wanted };
        let wanted = arrivals.request(request, wanted, todo);
        arrived(todo, work);
        wanted
    }

    /// Frees read buffers that hold parts of arriving bundles.
    fn unshare(&mut self) {
        if let Some(arrivals) = self.arrivals.made() {
            arrivals.unshare();
        }
        let all = (0..self.layers.len()).map(|index| Work::Layer(LayerId(index as u16), layer::Input::Unshare));
        self.work.extend(all);
    }
    /// Queues the wake-ups that are due: layers, store, agent.
    fn wake(&mut self, now: Instant) -> Option<Work> {
        let due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        // Layers and store first, so that the agent decides with their news.
        let layers = self.layers.iter().enumerate().filter(|(_, layer)| due(layer.next_timeout()));
        let layers = layers.map(|(index, _)| Work::Layer(LayerId(index as u16), layer::Input::Wake));
        let store = due(self.store.next_timeout()).then_some(Work::Store(store::Input::Wake));
        let agent = due(self.agent_at()).then_some(Work::Agent(farlink_bpa::Input::Wake));
        let mut works = layers.chain(store).chain(agent);
        let first = works.next();
        self.work.extend(works);
        first
    }

    fn step(&mut self, now: Instant, work: Work, out: &mut dyn Sink<Output>) {
        match work {
            Work::Layer(id, input) => self.step_layer(now, id, Ok(input), out),
            Work::Write(id, stream) => self.step_layer(now, id, Err(stream), out),
            Work::Agent(input) => self.step_agent(now, input, out),
            Work::Store(input) => self.step_store(now, input, out),
            Work::Whole { token, link, rope, known, digest } => {
                // Its beginning may have been refused meanwhile.
                if !known || self.arrivals.awaits(token) {
                    let input = self.edges.arrived(token, link, &rope, digest);
                    self.work.push_back(Work::Agent(input));
                }
            }
            Work::Damaged(token, link, damaged) => {
                let input = self.edges.damaged(token, link, &damaged.1, damaged.0);
                self.work.push_back(Work::Agent(input));
            }
            Work::Piece(token, link, kept) => {
                let Kept { promises, encoded } = *kept;
                if let Some((bundle, hop)) = self.edges.piece_of(encoded) {
                    let (bundle, hop) = (Arc::new(bundle), Box::new(hop));
                    // At once: the report that the rest does not come may already be in the list.
                    self.step_agent(now, farlink_bpa::Input::Piece { link, token, bundle, hop, promises }, out);
                }
            }
            Work::Send(departure) => self.send(departure, out),
            Work::Deliver(read) if self.reads.stays(&read.1, self.agent.unanswered()) => out.push(Output::App(read.0)),
            Work::Deliver(read) => self.read(Waiting::Delivery(read.0, None), read.1),
            Work::Open(guarded) => {
                let (output, bundle) = *guarded;
                let payload = bundle.payload.clone();
                // A payload too long for memory cannot be checked, and is not handed out.
                match payload.is_stored() && !self.reads.exceeds(&payload) {
                    true => self.read(Waiting::Delivery(output, Some(bundle)), payload),
                    false => self.open(output, &bundle, payload, out),
                }
            }
            Work::Inside(token, rope) => {
                let input = self.edges.arrived(token, LinkId::TUNNEL, &rope, 0);
                self.work.push_back(Work::Agent(input));
            }
            Work::Tell(what) => out.push(*what),
            Work::Cancel(link, id) => self.cancel(link, id, out),
            Work::Rescue(id) => {
                if let Some((load, payload)) = self.outgoing.made().and_then(|outgoing| outgoing.rescue(id)) {
                    self.step_store(now, store::Input::Load { load, payload }, out);
                }
            }
            Work::Down(link) => self.down(link),
            Work::Put(bundle, index, meta) => {
                let (head, tail) = self.edges.around(&meta);
                let payload = meta.payload.clone();
                self.step_store(now, store::Input::Put { bundle, index: Box::new(index), head, payload, tail }, out);
            }
            Work::Recover(bundle, index, parts) => {
                let (head, payload, tail) = *parts;
                self.recover(now, bundle, *index, &head, payload, &tail, out);
            }
            Work::Loaded(load, result) => self.loaded(load, result, out),
            Work::Across(id, from, what) => self.step_across(now, id, from, *what, out),
        }
    }

    fn step_agent(&mut self, now: Instant, input: farlink_bpa::Input, out: &mut dyn Sink<Output>) {
        let Stack { agent, edges, work, link_layer, layers, arrivals, .. } = self;
        agent.handle(now, input, edges, &mut Outputs { work, out, link_layer, layers, arrivals });
    }

    fn step_store(&mut self, now: Instant, input: store::Input, out: &mut dyn Sink<Output>) {
        let Stack { store, work, link_layer, layers, arrivals, .. } = self;
        store.handle(now, input, &mut Outputs { work, out, link_layer, layers, arrivals });
    }

    /// Gives a layer an input, or has it write the bytes waiting for a stream.
    fn step_layer(
        &mut self,
        now: Instant,
        id: LayerId,
        input: Result<layer::Input, StreamId>,
        out: &mut dyn Sink<Output>,
    ) {
        let Stack { agent, layers, work, arrivals, outgoing, edges, link_layer, todo, .. } = self;
        let refused = match &input {
            Ok(layer::Input::Refused { ticket, .. }) => Some(OfferToken { layer: id, ticket: *ticket }),
            _ => None,
        };
        let Some(layer) = layers.get_mut(usize::from(id.0)) else { return };
        let outputs =
            &mut LayerOutputs { layer: id, work, out, arrivals, outgoing, edges, link_layer, todo, owner: None };
        let waits = match (layer, input) {
            (Layer::Shared(shared), input) => {
                shards::steps::on_input(now, shared, input, &mut |link, size| agent.pace(now, link, size), outputs);
                None
            }
            (Layer::Remote(remote), Ok(input)) => {
                shards::steps::step_remote(remote, Ok(input), outputs);
                None
            }
            (layer, Ok(input)) => layer.handle_soon(now, input, outputs),
            (layer, Err(stream)) => {
                layer.write(now, stream, outputs);
                None
            }
        };
        // Writes go behind the work in the list, so that further bundles for the same stream join them.
        self.work.extend(waits.map(|stream| Work::Write(id, stream)));
        if let Some(token) = refused {
            self.arrivals.refused(token);
        }
    }

    /// Takes a message of another shard about a layer, owned by this shard or by the other.
    fn step_across(&mut self, now: Instant, id: LayerId, from: u8, what: Across, out: &mut dyn Sink<Output>) {
        let Stack { agent, layers, work, arrivals, outgoing, edges, link_layer, todo, .. } = self;
        let Some(layer) = layers.get_mut(usize::from(id.0)) else { return };
        let outputs =
            &mut LayerOutputs { layer: id, work, out, arrivals, outgoing, edges, link_layer, todo, owner: None };
        match (layer, what) {
            (Layer::Shared(shared), Across::Input(input)) => {
                shards::steps::on_shard_input(
                    now,
                    shared,
                    (from, input),
                    &mut |link, size| agent.pace(now, link, size),
                    outputs,
                );
            }
            (Layer::Shared(shared), Across::Known { link }) => {
                shards::steps::repeat_state(&shared.owner, (from, link), outputs);
            }
            (Layer::Remote(remote), what) if remote.owner() == from => {
                shards::steps::step_remote(remote, Err(what), outputs);
            }
            _ => {}
        }
    }

    /// Hands a bundle to its link's layer, rendered for this hop.
    fn send(&mut self, departure: Departure, out: &mut dyn Sink<Output>) {
        // A whole bundle on disk leaves from there; a short piece is read before, for its CRC.
        if departure.link == LinkId::TUNNEL {
            let payload = departure.payload();
            // Only a payload in memory can be secured; a longer one leaves from disk unchanged.
            return match payload.is_stored() && payload.len() <= PIECE_BYTES {
                true => self.read(Waiting::Departure(departure), payload),
                false => self.render(departure, payload),
            };
        }
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
                self.leave(&departure, piece.finish(payload).into_payload());
            }
            _ => self.render(departure, payload),
        }
    }
    fn render(&mut self, departure: Departure, payload: Payload) {
        let Departure { link, id, bundle, hop, cut, .. } = &departure;
        let rope = self.edges.render(bundle, payload, hop, cut.clone());
        if *link == LinkId::TUNNEL {
            return self.work.push_back(Work::Agent(farlink_bpa::Input::Rendered { id: *id, rope }));
        }
        self.leave(&departure, rope);
    }
    /// Hands an encoded bundle over, in the order of its link.
    fn leave(&mut self, departure: &Departure, rope: Payload) {
        let Departure { link, id, bundle, hop, reliable, lives: [written, expires], .. } = departure;
        let (link, id, reliable) = (*link, *id, *reliable);
        let restamp = self.edges.restamp(bundle);
        let leaving = Leaving { written: *written, age_ms: hop.age_ms, expires: *expires, restamp };
        // The common case skips the queue.
        if !rope.is_stored() && !self.outgoing.waits(link) {
            let input = layer::Input::Send { link, id, total: rope.len(), part: rope, reliable, leaving };
            return self.work.push_back(Work::Layer(layer_of(&self.link_layer, link), input));
        }
        let mut todo = Vec::new();
        self.outgoing.send(link, (id, rope), (reliable, leaving), &mut todo);
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
    /// Fails the bundles of a link that is down or gone, unless its layer has them.
    fn down(&mut self, link: LinkId) {
        let (mut loads, mut todo) = (Vec::new(), Vec::new());
        if let Some(reads) = self.reads.made() {
            let failed = reads.down(link, &mut loads).into_iter();
            self.work.extend(failed.map(|id| Work::Agent(farlink_bpa::Input::SendFailed { id, refused: None })));
        }
        if let Some(outgoing) = self.outgoing.made() {
            outgoing.down(link, &mut todo);
        }
        self.load(loads);
        departed(todo, &mut self.work, &self.link_layer);
    }
    /// Cancels a transmission.
    fn cancel(&mut self, link: LinkId, id: layer::SendId, out: &mut dyn Sink<Output>) {
        // The layer must be asked only if it already has part of the bundle.
        let (mut loads, mut todo) = (Vec::new(), Vec::new());
        let here = self.reads.made().is_some_and(|reads| reads.cancel(id, &mut loads))
            || self.outgoing.made().is_some_and(|outgoing| outgoing.cancel(link, id, &mut todo));
        self.load(loads);
        departed(todo, &mut self.work, &self.link_layer);
        // A tunnel has no layer to ask: once the bundle is rendered, only the agent knows it.
        if link == LinkId::TUNNEL && !here {
            return;
        }
        let layer = layer_of(&self.link_layer, link);
        if here {
            return self.work.push_back(Work::Agent(farlink_bpa::Input::SendFailed { id, refused: None }));
        }
        if matches!(self.layers.get(usize::from(layer.0)), Some(Layer::Message)) {
            return out.push(Output::Message(MessageOutput::Cancel { link, id }));
        }
        // A layer that cannot stop goes on to the end, so its bytes are read before the store forgets them.
        self.work.push_front(Work::Rescue(id));
        self.work.push_front(Work::Layer(layer, layer::Input::CancelSend { link, id }));
    }

    /// Sends a bundle without encoding it; a piece becomes a bundle of its own.
    fn send_message(&mut self, departure: Departure, payload: Payload, out: &mut dyn Sink<Output>) {
        let Departure { link, id, bundle, hop, cut, size, .. } = departure;
        let bundle = match cut {
            // Another node cannot read this one's disk.
            None if bundle.payload.is_stored() => Arc::new(BundleMeta { payload, ..BundleMeta::clone(&bundle) }),
            None => bundle,
            Some(_) => {
                let rope = self.edges.render(&bundle, payload, &hop, cut);
                let Ok((piece, _)) = self.edges.read(&rope) else {
                    // The piece is no valid bundle: nothing leaves, and the agent tries again later.
                    let what = Reading::Send(id);
                    let input = farlink_bpa::Input::Unreadable { what, for_good: false };
                    return self.work.push_back(Work::Agent(input));
                };
                Arc::new(piece)
            }
        };
        out.push(Output::Message(MessageOutput::Send { link, id, bundle, hop, size }));
    }

    /// Takes the store's answer to a load.
    fn loaded(&mut self, load: u64, result: Result<Payload, Refusal>, out: &mut dyn Sink<Output>) {
        if load >= FIRST_SEND_LOAD {
            let mut todo = Vec::new();
            // Numbers from `FIRST_SEND_LOAD` on belong to `Outgoing`, lower ones to `Reads`.
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
                    Some(Layer::Message) if departure.link != LinkId::TUNNEL => {
                        self.send_message(departure, payload, out)
                    }
                    _ => self.render(departure, payload),
                }
            }
            Some((Waiting::Piece(departure, piece), Ok(payload))) => {
                self.leave(&departure, piece.finish(payload).into_payload());
            }
            Some((Waiting::Delivery(output, Some(bundle)), Ok(payload))) => self.open(output, &bundle, payload, out),
            Some((Waiting::Delivery(output, None), Ok(payload))) => {
                out.push(Output::App(with_payload(output, payload)))
            }
            Some((Waiting::Part(delivery), Ok(part))) => out.push(Output::Read { delivery, result: Ok(part) }),
            Some((waiting, Err(reason))) => {
                if let Waiting::Part(delivery) = &waiting {
                    out.push(Output::Read { delivery: *delivery, result: Err(reason) });
                }
                if let Some(what) = waiting.reading() {
                    let input = farlink_bpa::Input::Unreadable { what, for_good: is_for_good(reason) };
                    self.work.push_back(Work::Agent(input));
                }
            }
        }
    }

    /// Hands out a delivery if its security holds.
    fn open(&mut self, output: AppOutput, bundle: &BundleMeta, payload: Payload, out: &mut dyn Sink<Output>) {
        let AppOutput::Deliver { registration, delivery, .. } = &output else { return };
        let opened = match farlink_bpa::Edge::guards(&self.edges, bundle) {
            true => self.edges.open(bundle, payload),
            false => Ok(payload),
        };
        match opened {
            Ok(payload) if *registration == RegistrationId::TUNNEL => {
                let input = farlink_bpa::Input::Outer { delivery: *delivery, payload };
                self.work.push_back(Work::Agent(input));
            }
            Ok(payload) => out.push(Output::App(with_payload(output, payload))),
            Err(reason) => {
                let input = farlink_bpa::Input::Insecure { delivery: *delivery, reason };
                self.work.push_back(Work::Agent(input));
            }
        }
    }

    fn recover(
        &mut self,
        now: Instant,
        bundle: BundleHandle,
        index: IndexEntry,
        head: &Bytes,
        payload: Payload,
        tail: &Bytes,
        out: &mut dyn Sink<Output>,
    ) {
        // The agent gets the bundle at once: a `Work::Agent` with `Opened`, which ends recovery, may already be in
        // the list.
        match self.edges.read_parts(head, payload, tail) {
            Ok((meta, hop)) => {
                let meta = farlink_base::BundleMeta { digest: index.digest, ..meta };
                let (meta, hop) = (Arc::new(meta), Box::new(hop));
                self.step_agent(now, farlink_bpa::Input::Recovered { bundle, index, meta, hop }, out);
            }
            Err(error) => {
                out.push(Output::Event(Event::Malformed { link: None, offset: error.offset, reason: error.reason }));
                // A record that no codec can read, as after a version was switched off, would otherwise stay for
                // ever.
                self.work.push_back(Work::Store(store::Input::Delete { bundle, remember: None }));
            }
        }
    }

    fn agent_at(&self) -> Option<Instant> {
        Some(self.agent_at).filter(|at| *at < Instant::MAX)
    }

    /// A snapshot for operators.
    pub fn status(&self, now: Instant) -> Status {
        self.agent.status(now)
    }
    /// Begins a list before the oldest bundle, for [`Stack::page`] and [`Stack::sums`]; [`Stack::end_list`] ends it.
    pub fn begin_list(&mut self) -> CursorId {
        self.agent.begin_list()
    }
    /// Ends a list.
    pub fn end_list(&mut self, list: CursorId) {
        self.agent.end_list(list);
    }
    /// The next bundles of a list, at most `limit` and all with numbers above `after`, and whether there may be more.
    /// A call looks at some hundreds of bundles at most, and may return none although there are more.
    pub fn page(&mut self, now: Instant, list: CursorId, after: u64, limit: usize) -> (Vec<BundleStatus>, bool) {
        self.agent.page(now, list, after, limit)
    }
    /// The next bundles of a list, summed by destination, reason and departure, and whether there are more.
    pub fn sums(&mut self, now: Instant, list: CursorId) -> (Vec<Sum>, bool) {
        self.agent.sums(now, list)
    }
    /// The first `limit` held bundles with numbers above `after`, and why each is still here. Walks all held bundles.
    pub fn bundles(&self, now: Instant, after: BundleHandle, limit: usize) -> Vec<BundleStatus> {
        self.agent.bundles(now, after, limit)
    }
    /// Number of bundles held.
    pub fn held(&self) -> u64 {
        self.agent.fill().0
    }
    /// Bytes of long heads in memory, as bounded by `limits.head_bytes`.
    pub fn heads(&self) -> u64 {
        self.agent.heads()
    }
    /// Wall time, if the clock is trusted.
    pub fn utc(&self, now: Instant) -> Option<farlink_base::DtnTime> {
        self.agent.utc(now)
    }
    /// Operating time of the node in ms, over all runs, if known.
    pub fn ran_ms(&self, now: Instant) -> u64 {
        self.agent.ran_ms(now)
    }
    /// Whether the store was read: only then are bundles accepted.
    pub fn is_open(&self) -> bool {
        self.agent.is_open()
    }
    /// Payload bytes in memory: of bundles held, and of bundles that are still arriving.
    pub fn memory(&self) -> (u64, u64) {
        (self.agent.resident(), self.arrivals.memory())
    }
    /// The plain settings and the bounds that the agent obeys.
    pub fn plain_settings(&self) -> (&AgentSettings, &Limits) {
        self.agent.plain_settings()
    }
    /// Static routes: pattern and next hop.
    pub fn routes(&self) -> &[(String, EndpointId)] {
        self.agent.routes()
    }
    /// The contact plan in force.
    pub fn plan(&self) -> Option<&Arc<PlanIndex>> {
        self.agent.plan()
    }
    /// Longest bundle that can be admitted now, if nothing else decides; a longer one is refused until another
    /// leaves. `None` where the congestion control or a disk decides.
    pub fn room(&self) -> Option<u64> {
        self.agent.room()
    }
    /// Least room in bytes for a bundle made of this request. `None` where it is not room that decides.
    pub fn needs(&mut self, now: Instant, wanted: SendRequest) -> Option<u64> {
        self.agent.needs(now, wanted, &mut self.edges)
    }
    /// Whether an announcement of a node adds nothing: it is this node, a link to it is configured, or a reachable
    /// neighbour is proven to be it.
    pub fn is_surely_known(&self, node: &EndpointId) -> bool {
        self.agent.is_surely_known(node.node())
    }
    /// Whether a session of a layer exists with a peer of this name and address.
    pub fn serves(&self, layer: LayerId, node: &EndpointId, at: IpAddr) -> bool {
        self.layers.get(usize::from(layer.0)).is_some_and(|layer| layer.serves(&node.to_string(), at))
    }
    /// State of a link now, as in [`farlink_bpa::app::LinkStatus::state`]; `None`: no such link.
    pub fn link_state(&self, now: Instant, link: LinkId) -> Option<&'static str> {
        self.agent.link_state(now, link)
    }
    /// Security operations performed, if the node has rules.
    pub fn security(&mut self) -> Option<SecurityCounts> {
        self.edges.security().map(|security| security.counts())
    }
    /// Replaces rules and keys for the security of bundles; false if the node began without any.
    pub fn set_security(&mut self, rules: Vec<farlink_base::security::Rule>, keys: KeyRing) -> bool {
        self.edges.security_mut().map(|security| security.set(rules, keys)).is_some()
    }
    /// Replaces the keys of an authenticated link whose other parameters stay as they are; its sessions go on.
    /// Returns false if the link must be removed and added for that.
    pub fn rekey_link(&mut self, link: LinkId, params: &LinkParams) -> bool {
        let layer = layer_of(&self.link_layer, link);
        self.layers.get_mut(usize::from(layer.0)).is_some_and(|layer| layer.rekey(link, params))
    }
    /// Bytes that layers of this shard offered to others, and that have no verdict yet.
    pub fn offered_to_shards(&self) -> u64 {
        let away = |layer: &Layer| if let Layer::Shared(shared) = layer { shared.owner.away() } else { 0 };
        self.layers.iter().map(away).sum()
    }
    /// Whether layers of this shard have, or will get, bundles of other shards.
    pub fn serves_others(&self) -> bool {
        self.layers.iter().any(|layer| matches!(layer, Layer::Shared(shared) if shared.owner.serves()))
    }
    /// Replaces the quotas of the store.
    pub fn set_quotas(&mut self, quotas: Vec<Quota>) {
        self.agent.set_quotas(quotas);
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
