//! Node: one thread that owns the stack and its sockets, and its interface for other threads.

use crate::apps::Apps;
use crate::budget::{Budget, Share};
use crate::buffers::Buffers;
use crate::clock::{self, WallClock};
use crate::config::{LayerSettings, NodeConfig, needs_restart};
use crate::datagrams::{Datagrams, Lookup};
use crate::discovery::Discovery;
use crate::disk::{Disk, DiskState};
use crate::events::{EventHub, EventNames};
use crate::lists::Lists;
use crate::log::{Crowd, LogLevel, more};
use crate::metrics::Metrics;
use crate::resolve::{Resolver, Wanted};
use crate::security::{self, SealedBundles};
use crate::shards::Mesh;
use crate::streams::{Connector, Streams};
use anyhow::Context;
use farlink_base::layer::Medium;
use farlink_base::node::params;
use farlink_base::socket;
use farlink_base::{Clock, DataVolume, Duration, Instant, LayerId, StreamId};
use farlink_bpa::app::AdminInput;
use farlink_os::poll::{Poller, Readiness, Waker, precise_timers};
use farlink_routing::PlanIndex;
use farlink_stack::{Input, SecurityCounts, Stack, StoreKind};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, Sender, channel};

mod found;
mod io;
mod links;
mod shards;

pub use found::Announced;
use io::Io;
pub use links::GivenLink;
use links::Links;

// The highest byte of a poll token names the kind of socket; the rest is its number within the kind.
const STREAM: u64 = 1 << 56;
const LISTENER: u64 = 2 << 56;
const DATAGRAM: u64 = 3 << 56;
const APP: u64 = 4 << 56;
const DISCOVERY: u64 = 5 << 56;
const KIND: u64 = 0xff << 56;

/// Idle time after which read buffers are freed.
const QUIET: Duration = Duration::from_millis(100);
/// Number of queued inputs at which the sockets are no longer read.
const INPUTS_WAIT: usize = 64;
/// Most deadlines of the stack handled in one turn; handling one may set the next.
const WAKES: usize = 16;
/// Interval at which the node records in its store that it is alive, and for how long it has run.
const NOTED_EACH: Duration = Duration::from_secs(600);
/// Interval used instead of [`NOTED_EACH`] without a trusted clock: after a power cut, the ages of bundles are computed
/// from the last record.
const NOTED_EACH_WITHOUT_TIME: Duration = Duration::from_secs(1);
/// Most time by which a deadline may be late while inputs wait, as one of them may be the answer that the deadline is
/// for.
const LATE: Duration = Duration::from_millis(20);
/// Most inputs handled before sockets are polled again; `INPUTS_TIME` bounds the same by time.
const INPUTS_TURN: usize = 10_000;
const INPUTS_TIME: Duration = Duration::from_micros(1500);

/// Task of another thread for the owner of the stack.
pub type Job = Box<dyn FnOnce(&mut Node) + Send>;

/// Sends tasks of other threads to the owner of the stack.
#[derive(Clone)]
pub struct Handle {
    jobs: Sender<Job>,
    waker: Waker,
}
impl Handle {
    /// Runs `job` in the owner's thread; returns false if the node has ended.
    pub fn run(&self, job: impl FnOnce(&mut Node) + Send + 'static) -> bool {
        let sent = self.jobs.send(Box::new(job)).is_ok();
        self.waker.wake();
        sent
    }
    /// Asks the owner's thread; `None` if the node has ended.
    pub async fn ask<T: Send + 'static>(&self, question: impl FnOnce(&mut Node) -> T + Send + 'static) -> Option<T> {
        let (reply, answer) = tokio::sync::oneshot::channel();
        self.run(move |node| {
            let _ = reply.send(question(node));
        });
        answer.await.ok()
    }
}

/// Running node.
pub struct Node {
    /// Engine.
    pub stack: Stack,
    /// Configuration in effect.
    pub config: NodeConfig,
    /// Configuration as read at the start, before the memory budget lowered bounds.
    configured: NodeConfig,
    /// Log level.
    pub log: LogLevel,
    io: Io,
    clock: WallClock,
    jobs: Receiver<Job>,
    handle: Handle,
    names: Resolver<Wanted>,
    links: Resolver<Lookup>,
    addresses: Vec<(LayerId, SocketAddr)>,
    known: Links,
    discovery: Option<Box<Discovery>>,
    budget: Budget,
    pub(crate) lists: Lists,
    stopping: Option<Instant>,
    /// Limits log lines about bundles that fail a rule of security.
    alarms: Crowd,
    /// Encrypted bundles for this node that no rule of it concerned.
    unruled: u64,
    /// Failures of rules that the engine had counted at the last turn.
    failed: u64,
    /// Time at which this run last recorded its time in the store.
    noted: Option<Instant>,
    /// Other shards of the node until their threads start; empty except in shard 0.
    siblings: Vec<Node>,
}

impl Node {
    /// Opens sockets, store and applications.
    ///
    /// # Errors
    /// If a socket, the store or an application cannot be opened; the error names it.
    pub fn new(config: NodeConfig, log: LogLevel) -> anyhow::Result<Node> {
        let count = crate::shards::count(&config).with_context(|| {
            let dir = config.store_dir.as_deref().unwrap_or(std::path::Path::new("the store"));
            format!("listing {}: a shard would be overlooked", dir.display())
        })?;
        if let (StoreKind::Durable, Some(dir)) = (&config.stack.store.kind, &config.store_dir) {
            // All folders are checked before any is opened, so that a refusal changes nothing.
            let folders: Vec<_> = (0..count).map(|shard| crate::shards::folder(dir, shard)).collect();
            crate::store::examine(&folders, &config.stack.node_ids, config.adopt)?;
        }
        match count {
            1 => Node::open(config, log, None),
            count => Node::of_shards(config, &log, count),
        }
    }
    /// Opens one shard; `hub` is the events hub of the first one, if this is another.
    fn open(mut config: NodeConfig, log: LogLevel, hub: Option<&EventHub>) -> anyhow::Result<Node> {
        let configured = config.clone();
        let (budget, lowered) = Budget::apply(&mut config);
        // Every shard lowers the same bounds; one warning is enough.
        let lowered = if hub.is_none() { lowered } else { Vec::new() };
        lowered.iter().for_each(|why| tracing::warn!("{why}\nhint: give [limits] memory more"));
        prepare(&mut config)?;
        let stack = Stack::new(config.stack.clone()).map_err(anyhow::Error::new)?;
        let poller = Poller::new().context("epoll")?;
        let (jobs_in, jobs) = channel();
        let handle = Handle { jobs: jobs_in, waker: poller.waker() };
        let metrics = Arc::new(Metrics::default());
        // Sockets before the store: if a port is in use, the store stays untouched.
        let (streams, mut addresses) = open_streams(&config, &budget, &poller)?;
        let datagrams = open_datagrams(&config, &poller)?;
        addresses.extend(datagrams.local_addresses());
        let disk = match (&config.stack.store.kind, &config.store_dir) {
            (StoreKind::Durable, Some(dir)) => {
                let disk = Disk::start(dir, poller.waker());
                Some(disk.map_err(|why| crate::unwritable("store", &dir.display().to_string(), &why))?)
            }
            _ => None,
        };
        let spill_from = config.stack.node.store.spill_from.bytes();
        // Security operations need the whole payload in memory.
        let longest = config.stack.node.security.longest.bytes();
        let secured = config.stack.security.as_ref().map_or(0, |_| longest.min(budget.applications()));
        let spools = config.stack.store.kind == StoreKind::Durable && spill_from > 0;
        let spool_from = spools.then_some(spill_from.max(secured));
        let bounds = (config.stack.node.limits.bundle_bytes, budget.applications(), spool_from);
        let mut apps = Apps::new(&config.app, &config.stack.node.app, &config.stack.node_ids, bounds)?;
        apps.watch(&poller, APP)?;
        disk.iter().for_each(|disk| apps.set_disk(disk.state().clone()));
        let node_id = config.stack.node_ids.first().map(ToString::to_string).unwrap_or_default();
        let names = EventNames::new(node_id, config.stack.links.iter().map(|link| link.name.clone()).collect());
        let events = match hub {
            Some(hub) => hub.beside(metrics.clone()),
            None => EventHub::start(metrics.clone(), names, config.events.as_ref()).map_err(|why| {
                let place = config.events.as_ref().map(|events| events.file.display().to_string()).unwrap_or_default();
                crate::unwritable("events file", &place, &why)
            })?,
        };
        let config_links = config.stack.links.iter().cloned().zip(config.links.iter().cloned());
        let config_links: Vec<_> = config_links.collect();
        let mesh = Mesh::of(&config);
        let sealed = SealedBundles::new(config.stack.node_ids.iter().map(|id| id.node()).collect());
        let mut node = Node {
            stack,
            log,
            clock: WallClock::new(&config.stack.node),
            config,
            configured,
            jobs,
            names: Resolver::start(poller.waker())?,
            // Lookups for datagram links have keys of another type, and so a resolver of their own.
            links: Resolver::start(poller.waker())?,
            handle,
            addresses,
            known: Links::new(config_links),
            discovery: None,
            lists: Lists::default(),
            stopping: None,
            alarms: Crowd::default(),
            unruled: 0,
            failed: 0,
            noted: None,
            io: Io {
                poller,
                streams,
                datagrams,
                disk,
                apps,
                events,
                metrics,
                buffers: Buffers::keeping(budget.read_buffers()),
                inputs: VecDeque::new(),
                connects: Vec::new(),
                now: clock::now(),
                stream: None,
                mesh,
                sealed,
            },
            budget,
            siblings: Vec::new(),
        };
        node.place_links();
        node.discovery = node.open_discovery(node.config.discovery.clone())?;
        Ok(node)
    }
    /// Handle for other threads.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }
    /// UTC of an instant, if the machine's clock is trusted.
    pub fn utc(&self, at: Instant) -> Option<farlink_base::DtnTime> {
        let Clock { at: read, utc, .. } = self.clock.reading();
        // The reading belongs to an instant of its own; the difference is added in either direction.
        let (ahead_ms, behind_ms) = (at.since(read).as_millis() as u64, read.since(at).as_millis() as u64);
        utc.map(|utc| farlink_base::DtnTime(utc.saturating_add_ms(ahead_ms).0.saturating_sub(behind_ms)))
    }
    /// Counters of this shard.
    pub fn metrics(&self) -> Arc<Metrics> {
        self.io.metrics.clone()
    }
    /// Counters of all shards; once [`Node::run`] has started the other shards, of this one only.
    pub fn all_metrics(&self) -> Vec<Arc<Metrics>> {
        let others = self.siblings.iter().map(Node::metrics);
        std::iter::once(self.metrics()).chain(others).collect()
    }
    /// Memory budget, and bound and use of each share.
    pub fn memory(&self) -> (&Budget, Vec<Share>) {
        // Only a store in memory counts to the budget.
        let in_memory = self.config.stack.store.kind == StoreKind::Memory;
        let capacity = in_memory.then_some(self.config.stack.node.store.capacity.bytes());
        let bundles = (self.stack.held(), self.stack.heads());
        (&self.budget, self.budget.shares(self.stack.memory(), capacity, bundles, self.io.buffers.pieces()))
    }
    /// Capacity of the store; what bundles may take of it is less.
    pub fn capacity(&self) -> u64 {
        self.config.stack.node.store.capacity.bytes()
    }
    /// Disk of a durable store.
    pub fn disk(&self) -> Option<Arc<DiskState>> {
        self.io.disk.as_ref().map(|disk| disk.state().clone())
    }
    /// Live event stream.
    pub fn live(&self) -> tokio::sync::broadcast::Sender<Arc<str>> {
        self.io.events.live()
    }
    /// Bound addresses of the sockets.
    pub fn addresses(&self) -> &[(LayerId, SocketAddr)] {
        &self.addresses
    }
    /// Applications of the node.
    pub fn apps(&mut self) -> &mut Apps {
        &mut self.io.apps
    }
    /// Passes an input to the stack, after all inputs that wait.
    pub fn input(&mut self, input: Input) {
        self.io.inputs.push_back(input);
        // All waiting inputs are handled, however many, as the caller reports this one as done.
        for _ in 0..self.io.inputs.len() {
            self.handle_next();
        }
        self.connect();
    }
    /// Ends all sessions, and makes [`Node::run`] return once transfers and disk writes are complete, at the latest
    /// after the configured time; a second call makes it return at once.
    pub fn stop(&mut self) {
        if self.stopping.is_none() {
            tracing::info!("shutting down");
            crate::run::notify("STOPPING=1");
            let now = clock::now();
            self.stopping = Some(now + self.config.stack.node.shutdown_timeout);
            // Neighbours learn of the end before the links close, and do not wait for a timeout.
            self.leave(now);
            self.input(Input::Admin(AdminInput::Shutdown));
        } else {
            // A second request: the operator does not want to wait for sessions and bundles in flight.
            self.stopping = Some(Instant::ZERO);
        }
        // The first and the second request are both passed on, so that the second ends all shards at once.
        self.each_other(Node::stop);
    }

    /// Runs until stopped.
    ///
    /// # Errors
    /// If the kernel's polling fails.
    pub fn run(&mut self) -> anyhow::Result<()> {
        let others = self.start_others()?;
        let result = self.run_alone();
        // A failure here must end the other shards too, or they would wait for this one.
        if result.is_err() {
            self.stop();
        }
        // All threads are joined even after a failure; the first error is returned.
        let results = others.into_iter().map(shards::end);
        let result = results.fold(result, |first, next| first.and(next));
        self.io.events.finish(&self.clock);
        tracing::info!("stopped");
        result
    }
    fn run_alone(&mut self) -> anyhow::Result<()> {
        precise_timers();
        // Before any bundle is handled, the stack gets the time at which the last run ended, and the current time.
        self.io.inputs.push_back(Input::Admin(self.last_run()));
        self.io.inputs.push_back(Input::Clock(self.clock.reading()));
        self.io.apps.start(clock::now(), &mut self.io.inputs);
        loop {
            // Waiting is not counted: a long turn means overload.
            let begun = clock::now();
            self.turn()?;
            self.io.metrics.turns.count(clock::now().since(begun));
            if self.finished() {
                break;
            }
            self.wait()?;
        }
        // A last record at the end: the next run computes the ages of bundles from it.
        self.noted = None;
        self.note_run(clock::now());
        self.io.events.flush(&self.clock);
        Ok(())
    }

    fn turn(&mut self) -> anyhow::Result<()> {
        let now = clock::now();
        let jobs: Vec<Job> = self.jobs.try_iter().collect();
        if !jobs.is_empty() {
            // Read pending socket input first, so that jobs see everything that preceded them.
            self.look(Duration::ZERO)?;
        }
        // After an idle time memory is returned; during a burst this would only cause allocations.
        if now - self.io.now > QUIET {
            self.give_back();
        }
        self.io.now = now;
        let was_open = self.stack.is_open();
        // The missing shard may own layers and bundles, which would be stuck.
        if self.stopping.is_none() && self.io.mesh.as_ref().is_some_and(|mesh| mesh.is_broken()) {
            tracing::error!("a shard has ended: so does the node");
            self.stop();
        }
        // Allocators keep free pages per thread, so the disk thread has to return its own.
        if self.budget.look(now, &mut self.io.inputs)
            && let Some(disk) = &self.io.disk
        {
            disk.give_back();
        }
        self.answers(now);
        self.look_at_start()?;
        let io = &mut self.io;
        // Handle received inputs before reading more. Unread input fills the kernel's buffers, which slows the sender
        // down; a growing list here would not.
        if io.inputs.len() < INPUTS_WAIT {
            let full = io.mesh.as_mut().is_some_and(|mesh| {
                mesh.take(&mut io.inputs);
                // Bundles offered to other shards still occupy memory here.
                mesh.offered(self.stack.offered_to_shards())
            });
            if !full {
                io.streams.read(&mut io.buffers, &mut io.inputs);
                io.datagrams.read(&mut io.buffers, &mut io.inputs);
            }
        }
        // The jobs come after the input just read, which preceded them.
        if !jobs.is_empty() {
            self.drain();
            jobs.into_iter().for_each(|job| job(self));
        }
        let io = &mut self.io;
        io.apps.turn(now, &mut io.buffers, &mut io.inputs);
        self.discover(now);
        // Inputs are handled before and after timeouts, since inputs set timeouts, and timeouts produce inputs.
        self.drain();
        self.timeouts();
        self.drain();
        // A store becomes this node's only after it was read without errors.
        if !was_open && self.stack.is_open() {
            self.own_store()?;
            if let Some(why) = self.budget.overfull(self.stack.held(), self.stack.heads()) {
                tracing::warn!("{why}");
            }
        }
        self.note_run(now);
        self.flush();
        Ok(())
    }
    /// Frees buffers that a busy time needed.
    fn give_back(&mut self) {
        self.io.buffers.give_back();
        self.io.datagrams.give_back();
        self.io.streams.give_back();
        self.io.apps.give_back();
        self.io.inputs.shrink_to_fit();
        self.stack.rest();
    }

    /// Fails if the store cannot be read, immediately or after some retries.
    fn look_at_start(&self) -> anyhow::Result<()> {
        match &self.io.disk {
            Some(disk) if !self.stack.is_open() && self.stopping.is_none() => disk.given_up().map_or(Ok(()), Err),
            _ => Ok(()),
        }
    }
    /// Marks the store, now read, as this node's.
    fn own_store(&self) -> anyhow::Result<()> {
        let (Some(dir), Some(_)) = (&self.config.store_dir, &self.io.disk) else { return Ok(()) };
        let ids: Vec<String> = self.config.stack.node_ids.iter().map(ToString::to_string).collect();
        crate::store::set_owner(dir, &ids).map_err(|why| crate::unwritable("store", &dir.display().to_string(), &why))
    }
    /// Time and operating time of the previous run, from the store.
    fn last_run(&self) -> AdminInput {
        let dir = self.config.store_dir.as_deref().filter(|_| self.io.disk.is_some());
        let ran_ms = dir.map_or(0, crate::store::ran_before);
        let at = dir.and_then(crate::store::last_run).map(farlink_base::DtnTime::from_unix_ms);
        AdminInput::LastRun { at, downtime_max: self.config.stack.node.downtime_max, ran_ms }
    }
    /// Records from time to time that this run is alive: wall time, if trusted, and operating time.
    fn note_run(&mut self, now: Instant) {
        let known = self.stack.utc(now).is_some();
        let each = if known { NOTED_EACH } else { NOTED_EACH_WITHOUT_TIME };
        if self.stack.is_open()
            // Not more often, since each record is a write to disk.
            && self.noted.is_none_or(|at| now > at + each)
            && let (Some(dir), Some(_)) = (&self.config.store_dir, &self.io.disk)
        {
            self.noted = Some(now);
            if known {
                crate::store::note_run(dir, self.clock.unix_ns_at(now) / 1_000_000);
            }
            crate::store::note_ran(dir, self.stack.ran_ms(now));
        }
    }
    /// Collects answers of other threads: addresses and disk operations.
    fn answers(&mut self, now: Instant) {
        while let Some((wanted, found)) = self.names.answer() {
            let io = &mut self.io;
            let link = match wanted {
                Wanted::Stream(stream) => io.streams.link_of(stream),
                Wanted::Peer(link) => Some(link),
            };
            let addresses = io.streams.looked_up(link, found);
            let stream = match wanted {
                Wanted::Stream(stream) => stream,
                Wanted::Peer(link) => {
                    io.streams.located(link, &addresses, &mut io.inputs);
                    continue;
                }
            };
            let mut connector =
                Connector { register: (&io.poller, STREAM), resolver: &self.names, inputs: &mut io.inputs };
            io.streams.resolved(stream, addresses, now, &mut connector);
        }
        while let Some((lookup, found)) = self.links.answer() {
            let addresses = self.io.streams.looked_up(Some(lookup.link), found);
            self.io.datagrams.resolved(lookup, &addresses);
        }
        if let Some(disk) = &mut self.io.disk {
            disk.answers(&mut self.io.inputs);
        }
    }
    fn drain(&mut self) {
        // Bounded, so that sockets are polled again soon enough.
        let until = clock::now() + INPUTS_TIME;
        for _ in 0..INPUTS_TURN {
            if !self.handle_next() || self.io.now >= until {
                break;
            }
        }
        self.connect();
    }
    /// Handles the first input that waits; false if no input waits.
    fn handle_next(&mut self) -> bool {
        let Some(input) = self.io.inputs.pop_front() else { return false };
        // Each input gets the current time, as one call may take long.
        self.io.now = clock::now();
        // Plan, routes and other settings hold for all shards; they arrive at shard 0.
        if let (Some(_), Input::Admin(input)) = (&self.io.mesh, &input) {
            self.forward_to_shards(input);
        }
        self.io.stream = match &input {
            Input::Socket(_, input) => stream_of(input),
            _ => None,
        };
        self.stack.handle(self.io.now, input, &mut self.io);
        self.io.stream = None;
        true
    }
    fn connect(&mut self) {
        // Connecting needs the resolver, which `Io` lacks: the stack's requests were only recorded until here.
        for (layer, stream, link) in std::mem::take(&mut self.io.connects) {
            let io = &mut self.io;
            let mut connector =
                Connector { register: (&io.poller, STREAM), resolver: &self.names, inputs: &mut io.inputs };
            io.streams.connect(layer, stream, link, io.now, &mut connector);
        }
    }
    fn timeouts(&mut self) {
        let now = clock::now();
        self.io.now = now;
        // An answer that has already arrived is handled before its deadline.
        let patience = if self.io.inputs.is_empty() { Duration::ZERO } else { LATE };
        // Bounded: a deadline whose handling sets the next one must not keep sockets waiting.
        for _ in 0..WAKES {
            if self.stack.next_timeout().is_none_or(|at| at + patience > now) {
                break;
            }
            self.stack.handle(now, Input::Wake, &mut self.io);
        }
        if let Some(clock) = self.clock.check(now) {
            // Contacts and lifetimes depend on wall time, so the stack recomputes them.
            tracing::warn!("the wall clock stepped");
            self.io.inputs.push_back(Input::Clock(clock));
        }
        let io = &mut self.io;
        if io.streams.next_timeout().is_some_and(|at| at <= now) {
            io.streams.expire(now, &(&io.poller, STREAM), &mut io.inputs);
        }
        if io.datagrams.next_timeout().is_some_and(|at| at <= now) {
            io.datagrams.expire(now, &self.links);
        }
        let held = held(&io.metrics);
        io.apps.expire(now, held, &mut io.inputs);
        if held == 0 && self.stopping.is_none() && io.apps.load().is_some_and(|load| load.sent > 0 && load.finished()) {
            // A benchmark's generator has finished and all its bundles have arrived.
            self.stop();
        }
    }
    fn flush(&mut self) {
        let io = &mut self.io;
        // Deliveries leave before data that only acknowledges them to the previous node.
        let first = io.apps.delivers();
        if first {
            io.apps.flush(&mut io.inputs);
        }
        io.streams.flush(io.now, &mut io.inputs);
        if !first {
            io.apps.flush(&mut io.inputs);
        }
        // This follows all output, when it is known which sockets are full.
        io.apps.watch_room(&io.poller, APP);
        if let Some(disk) = &mut io.disk {
            disk.flush();
        }
        if let Some(mesh) = &mut io.mesh {
            mesh.flush();
        }
        io.events.flush(&self.clock);
        // Sockets count bytes without atomics; their totals are copied to the metrics once a turn.
        let metrics = &io.metrics;
        metrics.stream_bytes_received.store(io.streams.bytes.0, Relaxed);
        metrics.stream_bytes_sent.store(io.streams.bytes.1, Relaxed);
        metrics.datagram_bytes_received.store(io.datagrams.bytes.0, Relaxed);
        metrics.datagram_bytes_sent.store(io.datagrams.bytes.1, Relaxed);
        metrics.datagrams_dropped.store(io.datagrams.dropped, Relaxed);
        let (sealed, last) = io.sealed.take();
        // Bundles that failed a rule are counted by the engine, and those of them that it could not decrypt are seen here,
        // too.
        let failed = self.stack.security().map_or(0, |done| done.failed);
        let unruled = sealed.saturating_sub(failed.saturating_sub(self.failed));
        (self.failed, self.unruled) = (failed, self.unruled + unruled);
        let keys = self.config.security.as_ref().map(|files| files.keys.as_path()).unwrap_or(Path::new(""));
        let failure = self.stack.take_security_alarm().map(|alarm| security::words(&alarm, keys));
        let without_rule = (unruled > 0).then(|| security::sealed(last, self.config.security.is_some()));
        for alarm in failure.into_iter().chain(without_rule) {
            if let Some(times) = self.alarms.say(std::time::Instant::now()) {
                tracing::warn!("{alarm}{}", more(times));
            }
        }
        if let Some(done) = self.security() {
            let metrics = &self.io.metrics;
            metrics.security_made.store(done.made, Relaxed);
            metrics.security_verified.store(done.verified, Relaxed);
            metrics.security_failed.store(done.failed, Relaxed);
            metrics.security_missing.store(done.missing, Relaxed);
        }
    }
    /// Security operations performed; `None` if the node has no rules and received nothing that needs one.
    pub(crate) fn security(&mut self) -> Option<SecurityCounts> {
        let done = self.stack.security();
        let counted = (done.is_some() || self.unruled > 0).then(|| done.unwrap_or_default());
        counted.map(|done| SecurityCounts { failed: done.failed + self.unruled, ..done })
    }
    fn wait(&mut self) -> anyhow::Result<()> {
        let io = &mut self.io;
        let hears = self.discovery.as_ref().filter(|_| self.stopping.is_none());
        let heard = hears.is_some_and(|discovery| discovery.busy());
        // A shard whose receivers are full reads no more; they wake it once they have room.
        let reads = !io.mesh.as_ref().is_some_and(|mesh| mesh.is_full());
        let readable = reads && (io.streams.busy() || io.datagrams.busy());
        let busy = !io.inputs.is_empty() || readable || io.apps.busy() || heard;
        let speaks = hears.and_then(|discovery| discovery.next_timeout());
        let io_at = [io.streams.next_timeout(), io.datagrams.next_timeout(), io.apps.next_timeout()];
        let deadlines = io_at.into_iter().chain([self.stack.next_timeout(), speaks]);
        let next = deadlines.flatten().min().unwrap_or(Instant::MAX).min(self.clock.next_check());
        // With work left, the kernel is polled without waiting, so that work in progress does not delay new input.
        let mut timeout = if busy { Duration::ZERO } else { next.since(clock::now()) };
        // `may_sleep` checks the inbox again after it has announced the wait: a sender may have found this shard awake
        // and not woken it.
        let sleeps = |mesh: &mut Box<Mesh>| timeout.is_zero() || mesh.may_sleep(&mut io.inputs);
        if !io.mesh.as_mut().is_none_or(sleeps) {
            timeout = Duration::ZERO;
        }
        // Some conditions of the end have no event, so they are polled every 10 ms.
        if self.stopping.is_some() {
            timeout = timeout.min(Duration::from_millis(10));
        }
        self.look(timeout)
    }
    /// Waits for readiness of sockets and records it.
    fn look(&mut self, timeout: Duration) -> anyhow::Result<()> {
        let io = &mut self.io;
        let mut ready: Vec<Readiness> = Vec::new();
        io.poller.wait(Some(timeout), |report| ready.push(report)).context("epoll")?;
        if let Some(mesh) = &io.mesh {
            mesh.wake_up();
        }
        let now = clock::now();
        for report in ready {
            // The token's highest byte is the kind of socket, see `KIND`.
            let serial = report.token & !KIND;
            match report.token & KIND {
                STREAM => {
                    let mut connector =
                        Connector { register: (&io.poller, STREAM), resolver: &self.names, inputs: &mut io.inputs };
                    io.streams.on_ready(serial, report, now, &mut connector);
                }
                LISTENER => io.streams.accept(now, serial as usize, &(&io.poller, STREAM), &mut io.inputs),
                DATAGRAM => io.datagrams.on_ready(serial as usize, report),
                APP => io.apps.on_ready(serial, report, now, (&io.poller, APP)),
                DISCOVERY if report.readable => {
                    if let Some(discovery) = &mut self.discovery {
                        discovery.on_readable(serial as usize);
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }
    /// Returns whether a shutdown is complete or out of time.
    fn finished(&mut self) -> bool {
        let Some(until) = self.stopping else { return false };
        let now = clock::now();
        if now >= until {
            return true;
        }
        if self.io.mesh.as_ref().is_some_and(|mesh| mesh.is_broken()) {
            // The shard that ended answers nothing any more, so only queued inputs and open streams count.
            return self.io.inputs.is_empty() && self.io.streams.is_quiet();
        }
        // Bundles in flight get time to be acknowledged, else the peer would receive them twice.
        let on_the_way: u64 = self.stack.status(now).links.iter().map(|link| link.in_flight).sum();
        let disk_idle = self.io.disk.as_ref().is_none_or(Disk::is_idle);
        let quiet = self.io.inputs.is_empty() && self.io.streams.is_quiet() && disk_idle && on_the_way == 0;
        let Some(mesh) = &mut self.io.mesh else { return quiet };
        // A message from another shard is new work.
        mesh.take(&mut self.io.inputs);
        mesh.may_end(quiet && self.io.inputs.is_empty() && !self.stack.serves_others())
    }

    /// Reads the configuration file and its certificates again.
    ///
    /// Applies links, discovery, plan, routes, quotas, security rules and keys, and the log level; returns the other
    /// changed settings, which need a restart.
    ///
    /// # Errors
    /// All mistakes of the file; nothing is changed then.
    pub fn reload(&mut self) -> Result<Vec<String>, String> {
        let found = NodeConfig::look_again(&self.config.file);
        found.warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
        let mistakes = || found.mistakes.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
        let fresh = found.config.ok_or_else(mistakes)?;
        let whole = fresh.clone();
        let mut fresh = self.part_of(fresh);
        // Compared before the memory budget lowers bounds: another budget would change keys that nobody edited.
        let waiting = needs_restart(&self.configured, &fresh);
        let _ = Budget::apply(&mut fresh);
        let announces = self.discovery.as_ref().map(|discovery| discovery.settings());
        // Unchanged discovery keeps its sockets and its neighbours.
        let discovery = match announces == fresh.discovery.as_ref() {
            true => None,
            // New sockets are opened before any change: if one fails, the reload has no effect.
            false => Some(self.open_discovery(fresh.discovery.take()).map_err(|why| format!("{why:#}"))?),
        };
        let (links, settings) = (std::mem::take(&mut fresh.stack.links), std::mem::take(&mut fresh.links));
        // Links come first, as their failure must leave the rest unchanged.
        self.set_links(&fresh.stack.layers, links.into_iter().zip(settings).collect())?;
        if let Some(discovery) = discovery {
            self.set_discovery(discovery);
        }
        self.set_routes(std::mem::take(&mut fresh.stack.routes));
        if let Some(plan) = fresh.stack.plan.take() {
            self.set_plan(plan.plan().clone());
        }
        let level = fresh.stack.node.log.level;
        // Shard 0 changes itself; the others are asked.
        self.apply(fresh);
        self.each_other(move |node| {
            let fresh = node.part_of(whole.clone());
            node.apply(fresh);
        });
        self.log.set(level.word())?;
        tracing::info!("configuration read again");
        if !waiting.is_empty() {
            tracing::warn!("changed but needs a restart: {}", waiting.join(", "));
        }
        Ok(waiting)
    }
    /// Applies the settings that each shard has for itself.
    fn apply(&mut self, fresh: NodeConfig) {
        self.set_credentials(fresh.layers);
        if let Some(security) = fresh.stack.security {
            self.stack.set_security(security.rules, security.keys);
        }
        if fresh.stack.quotas != self.config.stack.quotas {
            self.stack.set_quotas(fresh.stack.quotas.clone());
            self.config.stack.quotas = fresh.stack.quotas;
        }
        for row in params().filter(|row| row.is_live) {
            (row.get)(&fresh.stack.node).into_iter().for_each(|value| (row.set)(&mut self.config.stack.node, value));
        }
        self.clock.set_wrong_by(fresh.stack.node.clock_offset);
    }
    /// Replaces the credentials of layers for new sessions; those under way keep theirs (RFC 9174 section 4.4).
    fn set_credentials(&mut self, fresh: Vec<LayerSettings>) {
        for layer in fresh {
            let running = self.config.layers.iter().position(|running| running.name == layer.name);
            // A layer that started without credentials needs a restart.
            let secured = running.filter(|index| self.config.layers[*index].credentials.is_some());
            if let (Some(index), Some(credentials)) = (secured, layer.credentials) {
                self.io.streams.set_credentials(LayerId(index as u16), credentials);
            }
        }
    }
    /// Replaces all static routes.
    pub fn set_routes(&mut self, routes: Vec<(String, farlink_bundle::EndpointId)>) {
        // Routes that stay are not removed, so that bundles never see a moment without them.
        let old: Vec<String> = self.stack.routes().iter().map(|(pattern, _)| pattern.clone()).collect();
        for pattern in old.into_iter().filter(|old| !routes.iter().any(|(kept, _)| kept == old)) {
            self.input(Input::Admin(AdminInput::RemoveRoute { pattern }));
        }
        for (pattern, next_hop) in routes {
            self.input(Input::Admin(AdminInput::AddRoute { pattern, next_hop }));
        }
    }
    /// Replaces the contact plan; a plan without an epoch gets the configured one, or else the start of the process.
    pub fn set_plan(&mut self, mut plan: farlink_routing::ContactPlan) {
        plan.epoch = plan.epoch.or(self.config.epoch);
        self.input(Input::Admin(AdminInput::SetPlan(Arc::new(PlanIndex::new(plan)))));
    }
}

/// Stream that an input is about.
fn stream_of(input: &socket::Input) -> Option<StreamId> {
    use socket::Input as I;
    match input {
        I::Opened { stream, .. }
        | I::Data { stream, .. }
        | I::Writable { stream, .. }
        | I::Confirmed { stream, .. }
        | I::Closed { stream, .. }
        | I::Secured { stream, .. } => Some(*stream),
        I::Datagrams { .. } | I::Located { .. } => None,
    }
}

/// Number of bundles that the node holds, from its counters.
fn held(metrics: &Metrics) -> u64 {
    let came = [&metrics.bundles_created, &metrics.bundles_received, &metrics.bundles_recovered];
    let gone = [&metrics.bundles_done, &metrics.bundles_deleted, &metrics.bundles_expired];
    let sum = |counters: [&std::sync::atomic::AtomicU64; 3]| counters.iter().map(|c| c.load(Relaxed)).sum::<u64>();
    sum(came).saturating_sub(sum(gone))
}

/// Sets values that are chosen at start: the seed, hardware functions, the length of files, the plan's epoch.
fn prepare(config: &mut NodeConfig) -> anyhow::Result<()> {
    // Without a seed in the file, two runs must not draw the same numbers.
    if config.stack.node.seed.is_none() {
        let mut seed = [0; 8];
        farlink_os::random(&mut seed)?;
        config.stack.seed = u64::from_ne_bytes(seed);
    }
    // IVs of earlier runs must not repeat, so the counter is raised before anything is encrypted.
    if let (Some(security), Some(files)) = (&mut config.stack.security, &config.security) {
        let begun = crate::security::begin(&files.starts);
        (security.start, security.seed) = begun.with_context(|| files.starts.display().to_string())?;
    }
    if let Some(dir) = &config.store_dir {
        config.stack.store.file_max = DataVolume(crate::disk::file_max(dir));
    }
    config.stack.accel = crate::accel();
    place_plan(config);
    Ok(())
}

/// Gives a plan without an epoch the configured one, or else the start of the process.
fn place_plan(config: &mut NodeConfig) {
    // The start of the process, also for plans that are loaded later.
    let started = farlink_base::DtnTime::from_unix_ms(clock::unix_ns() / 1_000_000);
    let epoch = *config.epoch.get_or_insert(started);
    if let Some(plan) = &mut config.stack.plan {
        if plan.plan().epoch.is_none() {
            let placed = farlink_routing::ContactPlan { epoch: Some(epoch), ..plan.plan().clone() };
            *plan = Arc::new(PlanIndex::new(placed));
        }
    }
}

fn open_streams(
    config: &NodeConfig,
    budget: &Budget,
    poller: &Poller,
) -> anyhow::Result<(Streams, Vec<(LayerId, SocketAddr)>)> {
    let mut listeners = Vec::new();
    let mut addresses = Vec::new();
    for (index, layer) in config.layers.iter().enumerate().filter(|(_, layer)| layer.medium == Medium::Streams) {
        for address in &layer.listen {
            let listener = farlink_os::stream::listen(address)
                .map_err(|why| anyhow::anyhow!("layer {}: TCP {address}: {why}{}", layer.name, crate::hint(&why)))?;
            poller.add(&listener, LISTENER | listeners.len() as u64)?;
            addresses.push((LayerId(index as u16), listener.local_addr()?));
            listeners.push((LayerId(index as u16), listener));
        }
    }
    let mut streams = Streams::new(listeners, budget.streams());
    for (index, layer) in config.layers.iter().enumerate() {
        if let Some(credentials) = &layer.credentials {
            streams.set_credentials(LayerId(index as u16), credentials.clone());
        }
    }
    Ok((streams, addresses))
}

fn open_datagrams(config: &NodeConfig, poller: &Poller) -> anyhow::Result<Datagrams> {
    let layers: Vec<_> = config
        .layers
        .iter()
        .enumerate()
        .filter(|(index, layer)| layer.medium == Medium::Datagrams && !crate::shards::is_foreign(config, *index))
        .map(|(index, layer)| (LayerId(index as u16), layer.listen.clone(), layer.offload))
        .collect();
    let datagrams = Datagrams::new(&layers)?;
    datagrams.watch(poller, DATAGRAM)?;
    Ok(datagrams)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn input_behind_others_is_handled_at_once() {
        let config = NodeConfig::parse("node_ids = \"ipn:1.0\"", std::path::Path::new("node.toml")).unwrap();
        let log = LogLevel::init(&config.stack.node.log);
        let mut node = Node::new(config, log).unwrap();
        node.io.inputs.extend((0..2 * INPUTS_TURN).map(|_| Input::Wake));
        node.input(Input::Admin(AdminInput::ConfirmClock));
        assert!(node.io.inputs.is_empty());
    }
}
