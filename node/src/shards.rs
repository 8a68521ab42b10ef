//! Several owner threads, each with a stack of its own, as one node: how its configuration is divided, and the channels
//! between them.
//!
//! What one turn has for another shard crosses as one batch; who sleeps is woken, who works looks by itself.

use crate::config::{AppSettings, NodeConfig};
use crate::node::Handle;
use farlink_base::{Event, LayerId, LinkId};
use farlink_os::poll::Waker;
use farlink_stack::{Across, Input, SHARD_BUNDLES_MAX, ShardConfig, StoreKind};
use std::collections::{HashMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};

/// Folders of shards are called so, with their number behind.
const FOLDER: &str = "shard-";
/// Bytes offered to others and not decided are this part, as a divisor, of what may be arriving.
const OFFERED_PART: u64 = 2;

/// What one turn of a shard has for another.
struct Batch {
    from: u8,
    what: Vec<(LayerId, Box<Across>)>,
}

/// The way to another shard.
struct Way {
    queued: Vec<(LayerId, Box<Across>)>,
    channel: Sender<Batch>,
    waker: Waker,
    asleep: Arc<AtomicBool>,
    ended: Arc<AtomicBool>,
}

/// One shard's ends of the channels.
pub(crate) struct Mesh {
    own: u8,
    /// Leads to this shard.
    channel: Sender<Batch>,
    inbox: Receiver<Batch>,
    /// To each shard; none to itself.
    ways: Vec<Option<Way>>,
    asleep: Arc<AtomicBool>,
    /// Said when this shard is no more.
    ended: Arc<AtomicBool>,
    /// Whether each layer is another shard's.
    foreign: Vec<bool>,
    links: HashMap<LinkId, usize>,
    /// The other shards, of shard 0: what it is told about the node they are told.
    pub others: Vec<Handle>,
    /// Bytes offered to others that have no verdict, at which no more is read.
    offered_max: u64,
}

impl Mesh {
    /// That of a shard, not joined yet; `None`: it is all of its node.
    pub fn of(config: &NodeConfig) -> Option<Box<Mesh>> {
        let ShardConfig { own, count, owners } = config.stack.shards.as_ref().filter(|shards| shards.count > 1)?;
        let (channel, inbox) = channel();
        Some(Box::new(Mesh {
            own: *own,
            channel,
            inbox,
            ways: (0..*count).map(|_| None).collect(),
            asleep: Arc::default(),
            ended: Arc::default(),
            foreign: owners.iter().map(|owner| owner != own).collect(),
            links: HashMap::new(),
            others: Vec::new(),
            offered_max: (config.stack.limits.arriving_bytes / OFFERED_PART).max(1),
        }))
    }
    /// What others need to reach this shard, which this wakes.
    pub fn door(&self, waker: Waker) -> MeshDoor {
        let (asleep, ended) = (self.asleep.clone(), self.ended.clone());
        MeshDoor { channel: self.channel.clone(), waker, asleep, ended }
    }
    /// Joins it with the others, in their order.
    pub fn join(&mut self, doors: &[MeshDoor]) {
        let way = |(shard, door): (usize, &MeshDoor)| {
            let MeshDoor { channel, waker, asleep, ended } = door.clone();
            (shard != usize::from(self.own)).then_some(Way { queued: Vec::new(), channel, waker, asleep, ended })
        };
        self.ways = doors.iter().enumerate().map(way).collect();
    }
    /// Its number.
    pub fn own(&self) -> u8 {
        self.own
    }
    /// Whether a layer is another shard's.
    pub fn is_foreign(&self, layer: usize) -> bool {
        self.foreign.get(layer).copied().unwrap_or(false)
    }
    /// A link is of this layer from now on.
    pub fn place_link(&mut self, link: LinkId, layer: usize) {
        self.links.insert(link, layer);
    }
    /// Whether another shard tells this, too, and better.
    pub fn is_told_elsewhere(&self, event: &Event) -> bool {
        match event {
            Event::LinkUp { link, .. } | Event::LinkDown { link } => {
                let dynamic = link.is_dynamic().then_some(((link.0 >> 24) & 0x7f) as usize);
                dynamic.or_else(|| self.links.get(link).copied()).is_some_and(|layer| self.is_foreign(layer))
            }
            Event::ClockStepped { .. } | Event::ClockDoubted { .. } => self.own > 0,
            _ => false,
        }
    }
    /// Whether so many bytes offered to others are too many to read on.
    pub fn is_full(&self, offered: u64) -> bool {
        offered >= self.offered_max
    }

    /// Queues something for another shard; it leaves at the end of the turn.
    pub fn push(&mut self, to: u8, layer: LayerId, what: Box<Across>) {
        if let Some(Some(way)) = self.ways.get_mut(usize::from(to)).filter(|_| to != self.own) {
            way.queued.push((layer, what));
        }
    }
    /// Hands over what is queued.
    pub fn flush(&mut self) {
        for way in self.ways.iter_mut().flatten().filter(|way| !way.queued.is_empty()) {
            let what = std::mem::take(&mut way.queued);
            // Who ended hears nothing more.
            let sent = way.channel.send(Batch { from: self.own, what }).is_ok();
            if sent && way.asleep.swap(false, Ordering::SeqCst) {
                way.waker.wake();
            }
        }
    }
    /// Collects what others sent, of a few batches at most.
    pub fn take(&mut self, inputs: &mut VecDeque<Input>) {
        for _ in 0..self.ways.len() * 4 {
            match self.inbox.try_recv() {
                Ok(batch) => inputs.extend(inputs_of(batch)),
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => return,
            }
        }
    }
    /// This shard is about to wait: whether it may. From then on whoever sends wakes it.
    pub fn may_sleep(&mut self, inputs: &mut VecDeque<Input>) -> bool {
        self.asleep.store(true, Ordering::SeqCst);
        match self.inbox.try_recv() {
            Ok(batch) => {
                self.asleep.store(false, Ordering::SeqCst);
                inputs.extend(inputs_of(batch));
                false
            }
            Err(_) => true,
        }
    }
    /// This shard no longer waits.
    pub fn wake_up(&self) {
        self.asleep.store(false, Ordering::SeqCst);
    }
    /// Whether a shard ended.
    pub fn is_broken(&self) -> bool {
        self.ways.iter().flatten().any(|way| way.ended.load(Ordering::Relaxed))
    }
}

/// What others need to reach a shard.
#[derive(Clone)]
pub(crate) struct MeshDoor {
    channel: Sender<Batch>,
    waker: Waker,
    asleep: Arc<AtomicBool>,
    ended: Arc<AtomicBool>,
}

impl Drop for Mesh {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        // All are to know, however it came about.
        self.ways.iter().flatten().for_each(|way| way.waker.wake());
    }
}

fn inputs_of(Batch { from, what }: Batch) -> impl Iterator<Item = Input> {
    what.into_iter().map(move |(layer, what)| Input::Across { from, layer, what })
}

/// Whether a layer is another shard's.
pub(crate) fn is_foreign(config: &NodeConfig, layer: usize) -> bool {
    let shards = config.stack.shards.as_ref();
    shards.is_some_and(|shards| shards.owners.get(layer).is_some_and(|owner| *owner != shards.own))
}
/// How many shards a node has: as many as it was told, and one more for each folder of a shard that is no more.
pub(crate) fn count(config: &NodeConfig) -> u8 {
    let left = config.store_dir.as_deref().filter(|_| config.stack.store.kind == StoreKind::Durable);
    let left = left.map_or(0, |dir| left_over(dir).max().map_or(0, |last| last + 1));
    config.shards.max(left).max(1)
}
fn left_over(dir: &Path) -> impl Iterator<Item = u8> {
    let names = std::fs::read_dir(dir).into_iter().flatten().flatten();
    names.filter_map(|entry| {
        let name = entry.file_name();
        let number = name.to_str()?.strip_prefix(FOLDER)?.parse::<u8>().ok()?;
        (number > 0 && number < farlink_stack::SHARDS_MAX).then_some(number)
    })
}
/// Where a shard keeps its bundles.
pub(crate) fn folder(dir: &Path, shard: u8) -> PathBuf {
    if shard == 0 { dir.to_path_buf() } else { dir.join(format!("{FOLDER}{shard}")) }
}

/// The part of shard `own` of `count` in what the node was told.
pub(crate) fn part(config: &NodeConfig, own: u8, count: u8) -> NodeConfig {
    let mut part = config.clone();
    if count <= 1 {
        return part;
    }
    let told = u64::from(config.shards.max(1));
    let stack = &mut part.stack;
    let owners = config.layers.iter().map(|layer| layer.shard).collect();
    stack.shards = Some(ShardConfig { own, count, owners });
    let share = |bytes: u64| if bytes == u64::MAX { bytes } else { (bytes / told).max(1) };
    stack.store.capacity.0 = share(stack.store.capacity.0);
    let limits = &mut stack.limits;
    limits.bundles = limits.bundles.min(SHARD_BUNDLES_MAX);
    for bytes in [&mut limits.stranger_bytes, &mut limits.source_bytes] {
        *bytes = share(*bytes);
    }
    limits.reserved_bytes /= told;
    limits.reports_per_second = (u64::from(limits.reports_per_second) / told).max(1) as u32;
    for quota in &mut stack.quotas {
        (quota.bytes, quota.bundles) = (share(quota.bytes), share(quota.bundles));
    }
    for layer in part.layers.iter_mut().filter(|layer| layer.shard != own) {
        layer.listen.clear();
    }
    part.store_dir = part.store_dir.map(|dir| folder(&dir, own));
    if own > 0 {
        stack.seed = stack.seed.wrapping_add(u64::from(own) << 32);
        part.app = AppSettings { socket: None, listen: None, echo: false, ..part.app };
        part.discovery = None;
        part.events = None;
    }
    part
}
