//! Shards: several threads, each with its own stack, that form one node. Divides the configuration and connects them.
//!
//! Messages of one turn for another shard cross as one batch. A sleeping shard is woken; a busy one polls by itself.

use crate::config::{AppSettings, NodeConfig};
use crate::node::Handle;
use farlink_base::{Event, LayerId, LinkId};
use farlink_os::poll::Waker;
use farlink_stack::{Across, Input, SHARD_BUNDLES_MAX, ShardConfig, StoreKind};
use std::collections::{HashMap, VecDeque};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};

/// Prefix of shards' folders; the number follows.
const FOLDER: &str = "shard-";
/// Divisor of the bound of arriving bytes; the quotient bounds the bytes offered to other shards without a verdict.
const OFFERED_PART: u64 = 2;

/// Messages of one turn for another shard.
struct Batch {
    from: u8,
    what: Vec<(LayerId, Box<Across>)>,
    unheard: Unheard,
}

/// Bytes of bundles sent to a shard that has not received them yet.
struct Unheard {
    bytes: u64,
    /// Sum over all batches from one shard to the other.
    all: Arc<AtomicU64>,
    /// Bound at which the sender stops reading; it is woken once the sum is below.
    max: u64,
    sender: Waker,
}
impl Unheard {
    fn new(bytes: u64, all: Arc<AtomicU64>, max: u64, sender: Waker) -> Unheard {
        all.fetch_add(bytes, Ordering::SeqCst);
        Unheard { bytes, all, max, sender }
    }
}
impl Drop for Unheard {
    fn drop(&mut self) {
        let before = self.all.fetch_sub(self.bytes, Ordering::SeqCst);
        // Only the batch with which the sum falls below the bound wakes the sender; to wake it at others would be a
        // needless system call.
        if before >= self.max && before - self.bytes < self.max {
            self.sender.wake();
        }
    }
}

/// Channel to another shard.
struct MeshPath {
    queued: Vec<(LayerId, Box<Across>)>,
    unheard: Arc<AtomicU64>,
    channel: Sender<Batch>,
    waker: Waker,
    asleep: Arc<AtomicBool>,
    end: Arc<MeshEnd>,
}

/// Progress of a shard's end.
#[derive(Default)]
struct MeshEnd {
    /// The shard was asked to end and has nothing left to do.
    ready: AtomicBool,
    /// The shard has ended.
    over: AtomicBool,
}

/// One shard's ends of the channels.
pub(crate) struct Mesh {
    own: u8,
    /// Sending end of this shard's own channel.
    channel: Sender<Batch>,
    inbox: Receiver<Batch>,
    /// Channel to each shard, except itself.
    ways: Vec<Option<MeshPath>>,
    asleep: Arc<AtomicBool>,
    end: Arc<MeshEnd>,
    /// Wakes this shard.
    waker: Option<Waker>,
    /// For each layer, whether it belongs to another shard.
    foreign: Vec<bool>,
    links: HashMap<LinkId, usize>,
    /// Other shards, for forwarding settings of the whole node; only shard 0 has them.
    pub others: Vec<Handle>,
    /// Bytes offered without a verdict, or not received yet, at which this shard stops reading.
    offered_max: u64,
    /// Whether `offered_max` is reached.
    full: bool,
}

impl Mesh {
    /// Mesh of a shard, not yet joined; `None` if the node has only one.
    pub fn of(config: &NodeConfig) -> Option<Box<Mesh>> {
        let shards = config.stack.shards.as_ref().filter(|shards| shards.count > 1)?;
        Some(Box::new(Mesh::new(shards, config.stack.node.limits.arriving_bytes / OFFERED_PART)))
    }
    fn new(ShardConfig { own, count, owners, heads: _ }: &ShardConfig, offered_max: u64) -> Mesh {
        let (channel, inbox) = channel();
        Mesh {
            own: *own,
            channel,
            inbox,
            ways: (0..*count).map(|_| None).collect(),
            asleep: Arc::default(),
            end: Arc::default(),
            waker: None,
            foreign: owners.iter().map(|owner| owner != own).collect(),
            links: HashMap::new(),
            others: Vec::new(),
            // With 0 this shard would never read.
            offered_max: offered_max.max(1),
            full: false,
        }
    }
    /// Access for others to this shard, woken by `waker`.
    pub fn door(&self, waker: Waker) -> MeshDoor {
        let (asleep, end) = (self.asleep.clone(), self.end.clone());
        MeshDoor { channel: self.channel.clone(), waker, asleep, end }
    }
    /// Connects to the others, in order of their numbers.
    pub fn join(&mut self, doors: &[MeshDoor]) {
        let way = |(shard, door): (usize, &MeshDoor)| {
            let MeshDoor { channel, waker, asleep, end } = door.clone();
            let (queued, unheard) = (Vec::new(), Arc::default());
            let way = MeshPath { queued, unheard, channel, waker, asleep, end };
            (shard != usize::from(self.own)).then_some(way)
        };
        self.ways = doors.iter().enumerate().map(way).collect();
        self.waker = doors.get(usize::from(self.own)).map(|door| door.waker.clone());
    }
    /// Number of this shard.
    pub fn own(&self) -> u8 {
        self.own
    }
    /// Returns whether a layer belongs to another shard.
    pub fn is_foreign(&self, layer: usize) -> bool {
        self.foreign.get(layer).copied().unwrap_or(false)
    }
    /// Assigns a link to a layer.
    pub fn place_link(&mut self, link: LinkId, layer: usize) {
        self.links.insert(link, layer);
    }
    /// Returns whether another shard reports this event: the owner of the link's layer, or shard 0 for the clock.
    pub fn is_reported_by_other_shard(&self, event: &Event) -> bool {
        match event {
            Event::LinkUp { link, .. } | Event::LinkDown { link } => {
                // Numbers of dynamic links contain their layer; others are looked up.
                let dynamic = link.is_dynamic().then_some(((link.0 >> 24) & 0x7f) as usize);
                dynamic.or_else(|| self.links.get(link).copied()).is_some_and(|layer| self.is_foreign(layer))
            }
            Event::ClockStepped { .. } | Event::ClockDoubted { .. } => self.own > 0,
            _ => false,
        }
    }
    /// Updates the bytes offered without a verdict; returns whether reading must stop.
    pub fn offered(&mut self, bytes: u64) -> bool {
        let unheard = |way: &MeshPath| way.unheard.load(Ordering::SeqCst);
        // The slowest receiver decides: its backlog is memory as well.
        let most = self.ways.iter().flatten().map(unheard).max();
        self.full = bytes.max(most.unwrap_or(0)) >= self.offered_max;
        self.full
    }
    /// Returns whether reading has stopped until others have room.
    pub fn is_full(&self) -> bool {
        self.full
    }

    /// Queues a message for another shard; it leaves at the end of the turn.
    pub fn push(&mut self, to: u8, layer: LayerId, what: Box<Across>) {
        if let Some(Some(way)) = self.ways.get_mut(usize::from(to)).filter(|_| to != self.own) {
            way.queued.push((layer, what));
        }
    }
    /// Sends the queued messages.
    pub fn flush(&mut self) {
        let Some(sender) = &self.waker else { return };
        for way in self.ways.iter_mut().flatten().filter(|way| !way.queued.is_empty()) {
            let what = std::mem::take(&mut way.queued);
            // Counted before sending: the receiver may handle the batch at once.
            let bytes = what.iter().map(|(_, what)| what.bytes()).sum();
            let unheard = Unheard::new(bytes, way.unheard.clone(), self.offered_max, sender.clone());
            // A shard that has ended receives nothing more; its layers are closed.
            let sent = way.channel.send(Batch { from: self.own, what, unheard }).is_ok();
            // Only the first message wakes a sleeping shard: each wake is a system call.
            if sent && way.asleep.swap(false, Ordering::SeqCst) {
                way.waker.wake();
            }
        }
    }
    /// Collects messages of others, a few batches at most.
    pub fn take(&mut self, inputs: &mut VecDeque<Input>) {
        // Bounded, so that busy senders do not keep this shard from its own sockets.
        for _ in 0..self.ways.len() * 4 {
            match self.inbox.try_recv() {
                Ok(batch) => inputs.extend(inputs_of(batch)),
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => return,
            }
        }
    }
    /// Announces that this shard is about to wait; returns whether it may. Senders wake it from now on.
    pub fn may_sleep(&mut self, inputs: &mut VecDeque<Input>) -> bool {
        // The flag is set before the inbox is checked for the last time: a message sent after the check finds the flag
        // set and wakes this shard, and one sent before is found by the check.
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
    /// Withdraws the announcement of [`Mesh::may_sleep`], so that senders do not wake this shard.
    pub fn wake_up(&self) {
        self.asleep.store(false, Ordering::SeqCst);
    }
    /// Returns whether another shard has ended without being ready to.
    pub fn is_broken(&self) -> bool {
        // A shard may end only after all were ready; an earlier end is a failure.
        let broken = |end: &MeshEnd| end.over.load(Ordering::SeqCst) && !end.ready.load(Ordering::SeqCst);
        self.ways.iter().flatten().any(|way| broken(&way.end))
    }
    /// Declares whether this shard is ready to end; returns whether all may end.
    pub fn may_end(&self, ready: bool) -> bool {
        self.end.ready.store(ready, Ordering::SeqCst);
        // A ready shard may still get work from another, so all must be ready at the same time.
        ready && self.ways.iter().flatten().all(|way| way.end.ready.load(Ordering::SeqCst))
    }
}

/// Access to a shard for others.
#[derive(Clone)]
pub(crate) struct MeshDoor {
    channel: Sender<Batch>,
    waker: Waker,
    asleep: Arc<AtomicBool>,
    end: Arc<MeshEnd>,
}

impl Drop for Mesh {
    fn drop(&mut self) {
        self.end.over.store(true, Ordering::SeqCst);
        // The others must learn of the end, also after a panic.
        self.ways.iter().flatten().for_each(|way| way.waker.wake());
    }
}

fn inputs_of(Batch { from, what, unheard }: Batch) -> impl Iterator<Item = Input> {
    // The bytes are received now, and the sender may read on.
    drop(unheard);
    what.into_iter().map(move |(layer, what)| Input::Across { from, layer, what })
}

/// Returns whether a layer belongs to another shard.
pub(crate) fn is_foreign(config: &NodeConfig, layer: usize) -> bool {
    let shards = config.stack.shards.as_ref();
    shards.is_some_and(|shards| shards.owners.get(layer).is_some_and(|owner| *owner != shards.own))
}
/// Number of shards: the configured number, raised by folders left over from a larger one.
///
/// # Errors
/// If the store's folder is there and cannot be listed: shards would be overlooked.
pub(crate) fn count(config: &NodeConfig) -> io::Result<u8> {
    let left = config.store_dir.as_deref().filter(|_| config.stack.store.kind == StoreKind::Durable);
    // Folders of removed shards are opened once more, so that their bundles are sent and none is lost.
    let left = left.map_or(Ok(Vec::new()), left_over)?.into_iter().max().map_or(0, |last| last + 1);
    Ok(config.stack.node.shards.max(left).max(1))
}
/// Numbers of the shards beside the first that have a folder in a store; none without a store.
///
/// # Errors
/// If the store's folder is there and cannot be listed.
pub(crate) fn left_over(dir: &Path) -> io::Result<Vec<u8>> {
    let names = match std::fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        names => names?,
    };
    let mut numbers = Vec::new();
    for entry in names {
        let entry = entry?;
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix(FOLDER)?.parse::<u8>().ok());
        let number = number.filter(|number| *number > 0 && *number < farlink_stack::SHARDS_MAX);
        // A name such as `shard-07` is ignored, as it would give the number 7 a second folder.
        let number = number.filter(|number| *name == *format!("{FOLDER}{number}"));
        if let Some(number) = number
            && std::fs::metadata(entry.path())?.is_dir()
        {
            numbers.push(number);
        }
    }
    Ok(numbers)
}
/// Folder of a shard's bundles.
pub(crate) fn folder(dir: &Path, shard: u8) -> PathBuf {
    if shard == 0 { dir.to_path_buf() } else { dir.join(format!("{FOLDER}{shard}")) }
}

/// Configuration of shard `own` of `count`.
pub(crate) fn part(config: &NodeConfig, own: u8, count: u8) -> NodeConfig {
    let mut part = config.clone();
    if count <= 1 {
        return part;
    }
    let told = u64::from(config.stack.node.shards.max(1));
    let stack = &mut part.stack;
    let owners = config.layers.iter().map(|layer| layer.shard).collect();
    stack.shards = Some(ShardConfig::new(own, count, owners));
    // Divided by the configured number: shards that only empty a former folder do not count.
    let share = |bytes: u64| if bytes == u64::MAX { bytes } else { (bytes / told).max(1) };
    stack.node.store.capacity.0 = share(stack.node.store.capacity.0);
    let limits = &mut stack.node.limits;
    // Transmissions are numbered by bundle, and eight bits of the number are for the shard.
    limits.bundles = limits.bundles.min(SHARD_BUNDLES_MAX);
    for bytes in [&mut limits.stranger_bytes, &mut limits.source_bytes] {
        *bytes = share(*bytes);
    }
    limits.reserved_bytes /= told;
    limits.reports_per_second = (u64::from(limits.reports_per_second) / told).max(1) as u32;
    for quota in &mut stack.quotas {
        (quota.bytes, quota.bundles) = (share(quota.bytes), share(quota.bundles));
    }
    // Layers of other shards stay in the list, since links refer to layers by index, but are not opened.
    for layer in part.layers.iter_mut().filter(|layer| layer.shard != own) {
        layer.listen.clear();
    }
    part.store_dir = part.store_dir.map(|dir| folder(&dir, own));
    // Applications, discovery, events and the API belong to shard 0; seeds must differ.
    if own > 0 {
        stack.seed = stack.seed.wrapping_add(u64::from(own) << 32);
        part.app = AppSettings { socket: None, listen: None, ..part.app };
        stack.node.app.echo = false;
        part.discovery = None;
        part.events = None;
    }
    part
}

#[cfg(test)]
mod tests {
    use super::*;
    use farlink_base::Payload;
    use farlink_base::layer::{Input as ToLayer, SendId};
    use farlink_os::poll::Poller;
    use std::time::Duration;

    const LAYER: LayerId = LayerId(0);

    /// Shards that own one layer each and stop reading at 1000 bytes, with their pollers.
    fn mesh(count: u8) -> Vec<(Mesh, Poller)> {
        let owners: Vec<u8> = (0..count).collect();
        let new = |own| Mesh::new(&ShardConfig::new(own, count, owners.clone()), 1000);
        let mut all: Vec<(Mesh, Poller)> = (0..count).map(|own| (new(own), Poller::new().unwrap())).collect();
        let doors: Vec<MeshDoor> = all.iter().map(|(mesh, poller)| mesh.door(poller.waker())).collect();
        all.iter_mut().for_each(|(mesh, _)| mesh.join(&doors));
        all
    }
    fn send(mesh: &mut Mesh, to: u8, bytes: usize) {
        let bundle = ToLayer::send(LinkId(0), SendId(1), Payload::from(vec![1; bytes]), true);
        mesh.push(to, LAYER, Box::new(Across::Input(bundle)));
    }
    /// Returns whether the poller is woken within 20 s.
    fn is_woken(poller: &mut Poller) -> bool {
        let begun = std::time::Instant::now();
        poller.wait(Some(Duration::from_secs(20)), |_| {}).unwrap();
        begun.elapsed() < Duration::from_secs(20)
    }
    fn take(mesh: &mut Mesh) -> usize {
        let mut inputs = VecDeque::new();
        mesh.take(&mut inputs);
        inputs.len()
    }

    #[test]
    fn full_mailbox_blocks_until_drained() {
        let mut shards = mesh(3);
        let [(first, poller), (second, _), (third, _)] = &mut shards[..] else { unreachable!() };
        send(first, 1, 600);
        first.flush();
        send(first, 2, 600);
        assert!(!first.offered(999), "each has its own");
        send(first, 1, 600);
        first.flush();
        assert!(first.offered(0) && first.is_full(), "the second has not heard of 1200 bytes");
        assert_eq!(take(third), 1);
        assert!(first.offered(0), "that was the third");
        assert_eq!(take(second), 2);
        assert!(is_woken(poller) && !first.offered(999) && !first.is_full());
        assert!(first.offered(1000), "what has no verdict counts, too");
    }

    #[test]
    fn message_wakes_sleeping_shard() {
        let mut shards = mesh(2);
        let [(first, _), (second, poller)] = &mut shards[..] else { unreachable!() };
        let mut inputs = VecDeque::new();
        send(first, 1, 1);
        first.flush();
        assert!(!second.may_sleep(&mut inputs) && inputs.len() == 1);
        assert!(second.may_sleep(&mut inputs));
        send(first, 1, 1);
        first.flush();
        assert!(is_woken(poller) && take(second) == 1);
        send(first, 0, 1);
        send(first, 9, 1);
        first.flush();
        assert_eq!((take(first), take(second)), (0, 0), "there is no way to itself, nor to who is not there");
    }

    #[test]
    fn idle_shards_end_together() {
        let mut shards = mesh(3);
        assert!(shards.iter().all(|(mesh, _)| !mesh.may_end(false)));
        assert!(!shards[0].0.may_end(true) && !shards[1].0.may_end(true));
        assert!(!shards[0].0.may_end(false), "something came");
        assert!(!shards[2].0.may_end(true) && !shards[1].0.may_end(true), "the first has not ended its work");
        assert!(shards[0].0.may_end(true) && shards[1].0.may_end(true));
        drop(shards.remove(0));
        assert!(shards.iter().all(|(mesh, _)| !mesh.is_broken()), "it ended in good order");
        assert!(!shards[0].0.may_end(false) && shards[0].0.may_end(true), "and is not waited for");
    }

    #[test]
    fn unlisted_store_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let store = dir.path().join("store");
        assert_eq!(left_over(&store).unwrap(), Vec::<u8>::new(), "no store yet");
        std::fs::write(&store, "").unwrap();
        assert!(left_over(&store).is_err(), "a file in its place");
        std::fs::remove_file(&store).unwrap();
        ["shard-2", "shard-0", "shard-x", "other"].iter().for_each(|name| {
            std::fs::create_dir_all(store.join(name.replace("shard-", FOLDER))).unwrap();
        });
        std::fs::create_dir(store.join("shard-03")).unwrap();
        std::fs::write(store.join("shard-4"), "").unwrap();
        assert_eq!(left_over(&store).unwrap(), [2]);
    }

    #[test]
    fn early_shard_end_fails_node() {
        let mut shards = mesh(2);
        drop(shards.remove(1));
        assert!(shards[0].0.is_broken() && is_woken(&mut shards[0].1));
        send(&mut shards[0].0, 1, 5000);
        shards[0].0.flush();
        assert!(!shards[0].0.offered(0), "what nobody hears does not count");
    }
}
