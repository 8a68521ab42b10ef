//! The stack: a work list joins agent, edge, store and layers. An output of one of them becomes work for another or an
//! output of the stack; nothing calls anything by recursion.

mod inspect;
mod links;
mod reading;
mod sending;
mod steps;
#[cfg(test)]
mod tests;

use crate::arrivals::{self, Arrivals, Bounds};
use crate::build;
use crate::config::{Config, StoreKind};
use crate::edge::{BpV7, Codec, Edges};
use crate::edge_v6::BpV6;
use crate::io::{Input, MessageInput, Output};
use crate::kinds::Layer;
use crate::outgoing::Outgoing;
use crate::outputs::arrived;
use crate::reads::{Reads, Waiting};
use crate::reporting;
use crate::security::{KeyRing, Secured, Security};
use crate::store::Store;
use crate::work::{Work, layer_of};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use farlink_base::{ConfigError, Instant, LayerId, Lazy, Sink, layer, store};
use farlink_bpa::app::{AppInput, RequestId, SendRequest};
use farlink_bpa::{Agent, OfferToken, Quota};

/// First number of the reads from the store (loads) that [`Outgoing`] asks for; those of [`Reads`] have lower numbers.
const FIRST_SEND_LOAD: u64 = 1 << 62;

/// One node; a driver owns its clocks, sockets and disks.
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

/// Bound on link numbers: their table is as long as the largest number.
pub const LINKS_MAX: u32 = 1 << 20;

/// Capacity of the work list that is kept while idle.
const FEW: usize = 8;

impl Stack {
    /// A node as configured, which speaks versions 7 and 6 of the bundle protocol. It opens its store with the first
    /// [`Input::Clock`].
    ///
    /// # Errors
    /// Names the key that cannot be used, and a value to write instead.
    pub fn new(config: Config) -> Result<Stack, ConfigError> {
        let custody = config.custody.as_ref();
        let codes = reporting::codes(custody.map(|custody| custody.codes), config.compressed.as_ref()).map(Box::new);
        let v7 = BpV7 { profile: config.node.profile, crc: config.node.agent.crc, accel: config.accel, custody: codes };
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
    /// A node that speaks these versions of the bundle protocol; bundles that it makes are of the first.
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

    /// Replaces the configured router by one that is in no registry. Call it before the first input.
    pub fn set_router(&mut self, router: Box<dyn farlink_routing::Router>) {
        self.agent.set_router(router);
    }
    /// Replaces the configured congestion control by one that is in no registry. Call it before the first input.
    pub fn set_control(&mut self, control: Box<dyn farlink_congestion::Control>) {
        self.agent.set_control(control);
    }
    /// Sets the oracle: knowledge that no real node has, for policies that ask for it; simulations only.
    pub fn set_oracle(&mut self, oracle: Box<dyn farlink_bpa::Oracle + Send>) {
        self.agent.set_oracle(oracle);
    }

    /// Latest time for the next [`Input::Wake`]; `None` if nothing is scheduled.
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

    /// Releases memory that a busy period needed; call it while nothing happens.
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
            // Frees the work list: a simulation may have thousands of idle nodes. A busy node keeps its capacity until
            // its contact ends.
            self.work = VecDeque::new();
        }
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
        // Layers and store are woken first, so that the agent decides with their outputs.
        let layers = self.layers.iter().enumerate().filter(|(_, layer)| due(layer.next_timeout()));
        let layers = layers.map(|(index, _)| Work::Layer(LayerId(index as u16), layer::Input::Wake));
        let store = due(self.store.next_timeout()).then_some(Work::Store(store::Input::Wake));
        let agent = due(self.agent_at()).then_some(Work::Agent(farlink_bpa::Input::Wake));
        let mut works = layers.chain(store).chain(agent);
        let first = works.next();
        self.work.extend(works);
        first
    }

    fn agent_at(&self) -> Option<Instant> {
        Some(self.agent_at).filter(|at| *at < Instant::MAX)
    }
    /// Replaces rules and keys for the security of bundles; false, without effect, if the node began without any.
    pub fn set_security(&mut self, rules: Vec<farlink_base::security::Rule>, keys: KeyRing) -> bool {
        self.edges.security_mut().map(|security| security.set(rules, keys)).is_some()
    }
    /// Replaces the quotas of the store.
    pub fn set_quotas(&mut self, quotas: Vec<Quota>) {
        self.agent.set_quotas(quotas);
    }
}
