//! A simulated disk, and an agent that remembers the store's promises.
#![allow(dead_code)]

pub mod disk;

use disk::SimDisk;
use farlink_base::store::{
    BundleStore, DiskAction, DiskAnswer, DiskDone, DiskError, DiskOp, IndexEntry, Input, Output, Remembered,
};
use farlink_base::{BundleHandle, Bytes, DtnTime, Duration, Event, Instant, Payload, Priority, Refusal, Rng};
use farlink_storage::{Config, LogStore};
use std::collections::{BTreeMap, BTreeSet};

/// A bundle as the agent knows it.
#[derive(Clone, Debug)]
pub struct PutBundle {
    pub index: IndexEntry,
    pub head: Bytes,
    pub payload: Bytes,
    /// The payload as the agent holds it: bytes, or extents once the store returned them.
    pub rope: Payload,
    pub tail: Bytes,
    pub stored: bool,
    pub answered: bool,
    pub delete_asked: bool,
    pub remember: Option<Remembered>,
    pub delete_answered: bool,
}

/// A bundle that arrives in parts.
#[derive(Clone, Debug)]
pub struct ArrivingBundle {
    bytes: Vec<u8>,
    rope: Payload,
    left: u32,
    failed: bool,
}

impl ArrivingBundle {
    pub fn failed(&self) -> bool {
        self.failed
    }
    /// Extents that the store returned for the bundle so far.
    pub fn rope(&self) -> Payload {
        self.rope.clone()
    }
}

/// One node's store on a simulated disk.
pub struct StoreWorld {
    pub config: Config,
    pub store: LogStore,
    pub disk: SimDisk,
    pub now: Instant,
    pub rng: Rng,
    pub outstanding: Vec<DiskOp>,
    pub known: BTreeMap<u64, PutBundle>,
    pub arriving: BTreeMap<u64, ArrivingBundle>,
    pub counter: u64,
    /// Highest value that the store was asked to keep.
    pub counter_asked: u64,
    pub next_bundle: u64,
    pub next_spill: u64,
    pub opened: Option<(u64, u64)>,
    /// Operations performed when the store opened.
    pub opened_at: Option<u64>,
    /// Secret that the store gave when it opened.
    pub secret: u64,
    pub recovered: BTreeMap<u64, (IndexEntry, Bytes, Payload, Bytes)>,
    /// Bundles in the order of recovery.
    pub recovered_order: Vec<u64>,
    pub deliveries: BTreeSet<u128>,
    pub loaded: BTreeMap<u64, Result<Payload, Refusal>>,
    pub damage: usize,
    pub failures: usize,
    pub refused: usize,
    pub syncs: usize,
    /// Bundles deleted while the store was at rest, and so for good.
    pub gone: BTreeSet<u64>,
    /// Bundles in the order in which they were reported stored.
    pub stored: Vec<u64>,
    /// Files made of kept ones.
    pub remade: usize,
    /// Writes begun while another was not durable yet.
    pub overlapped: usize,
}

pub fn small(capacity: u64) -> Config {
    Config { segment_bytes: 8192, read_bytes: 4096, second_group: 1500, seed: 42, ..Config::new(capacity) }
}

impl StoreWorld {
    /// Opens a store on this disk.
    pub fn open(config: Config, disk: SimDisk, seed: u64) -> StoreWorld {
        let mut world = StoreWorld {
            config,
            store: LogStore::new(config),
            disk,
            now: Instant::ZERO,
            rng: Rng::new(seed),
            outstanding: Vec::new(),
            known: BTreeMap::new(),
            arriving: BTreeMap::new(),
            counter: 0,
            counter_asked: 0,
            next_bundle: 1,
            next_spill: 1,
            opened: None,
            opened_at: None,
            secret: 0,
            recovered: BTreeMap::new(),
            recovered_order: Vec::new(),
            deliveries: BTreeSet::new(),
            loaded: BTreeMap::new(),
            damage: 0,
            failures: 0,
            refused: 0,
            syncs: 0,
            gone: BTreeSet::new(),
            stored: Vec::new(),
            remade: 0,
            overlapped: 0,
        };
        world.input(Input::Open);
        world
    }
    pub fn input(&mut self, input: Input) {
        let mut out = Vec::new();
        self.store.handle(self.now, input, &mut out);
        for output in out {
            self.take(output);
        }
    }
    fn take(&mut self, output: Output) {
        match output {
            Output::Disk(op) => {
                let begins = |op: &DiskOp| matches!(op.action, DiskAction::Write { .. });
                let ends = |op: &DiskOp| matches!(op.action, DiskAction::Sync { .. });
                self.overlapped += usize::from(begins(&op) && self.outstanding.iter().any(ends));
                self.outstanding.push(op);
            }
            Output::Stored { bundle, payload } => {
                // Without extents the agent keeps its own bytes.
                let known = self.known.get_mut(&bundle.0).expect("stored a bundle that was put");
                known.rope = payload.unwrap_or(core::mem::take(&mut known.rope));
                assert!(!known.answered, "{bundle:?} answered twice");
                known.answered = true;
                known.stored = true;
                self.stored.push(bundle.0);
            }
            Output::Refused { bundle, .. } => {
                let known = self.known.get_mut(&bundle.0).expect("refused a bundle that was put");
                assert!(!known.answered, "{bundle:?} answered twice");
                known.answered = true;
                self.refused += 1;
            }
            Output::Deleted { bundle } => {
                let known = self.known.get_mut(&bundle.0).expect("deleted a bundle that was put");
                assert!(!known.delete_answered, "{bundle:?} deleted twice");
                known.delete_answered = true;
            }
            Output::Spilled { spill, result } => self.spilled(spill, result),
            Output::Loaded { load, result } => {
                self.loaded.insert(load, result);
            }
            Output::Recovered { bundle, index, head, payload, tail } => {
                assert!(self.opened.is_none());
                let before = self.recovered.insert(bundle.0, (*index, head, payload, tail));
                assert!(before.is_none(), "{bundle:?} recovered twice");
                self.recovered_order.push(bundle.0);
            }
            Output::RecoveredDelivery(remembered) => {
                self.deliveries.insert(remembered.fingerprint);
            }
            Output::CounterSet { value } => self.counter = self.counter.max(value),
            Output::Opened { counter, last_bundle, secret } => {
                self.opened = Some((counter, last_bundle));
                self.secret = secret;
                self.opened_at = Some(self.disk.count);
            }
            Output::Event(Event::StoreDamage { .. }) => self.damage += 1,
            Output::Event(Event::StoreFailed { .. }) => self.failures += 1,
            Output::Event(_) => {}
        }
    }
    fn spilled(&mut self, spill: u64, result: Result<Payload, Refusal>) {
        let Some(arriving) = self.arriving.get_mut(&spill) else { return };
        assert!(arriving.left > 0, "answered after a refusal");
        match result {
            Ok(extents) => {
                arriving.left -= 1;
                arriving.rope.append(extents);
            }
            // A refusal is the last answer for a spill.
            Err(_) => (arriving.left, arriving.failed) = (0, true),
        }
    }

    /// Performs one disk operation, or lets time pass. Returns false when nothing is left to happen.
    pub fn step(&mut self) -> bool {
        if let Some(op) = self.disk.choose(&mut self.outstanding, &mut self.rng) {
            self.perform(op);
            return true;
        }
        let Some(at) = self.store.next_timeout() else { return false };
        self.now = self.now.max(at);
        self.input(Input::Wake);
        true
    }
    pub fn perform(&mut self, op: DiskOp) {
        if matches!(op.action, DiskAction::Sync { .. }) {
            self.syncs += 1;
        }
        let creates = matches!(op.action, DiskAction::Create { .. });
        let result = self.disk.perform(op.action, &mut self.rng);
        self.remade += usize::from(creates && matches!(result, Ok(DiskAnswer::Kept(_))));
        self.input(Input::DiskDone(DiskDone { id: op.id, result }));
    }
    pub fn settle(&mut self) {
        let mut steps = 0;
        while self.step() {
            steps += 1;
            assert!(steps < 200_000, "never comes to rest");
        }
    }
    /// Settles the store; bundles deleted so far must never come back.
    pub fn rest(&mut self) {
        self.settle();
        self.gone.extend(self.known.iter().filter(|(_, known)| known.delete_asked).map(|(number, _)| *number));
    }
    pub fn index(&mut self, number: u64) -> IndexEntry {
        IndexEntry {
            priority: Priority::from_number(self.rng.below(3) as u8),
            expires: self.rng.chance(0.7).then(|| DtnTime(self.rng.next_u64())),
            stored_at: Some(DtnTime(1_000_000 + number)),
            ran_ms: None,
            age_ms: number,
            quota: number % 3,
            fingerprint: u128::from(number) << 64 | 7,
            flags: number as u32,
            digest: 0,
        }
    }
    pub fn bytes(&mut self, len: u64) -> Vec<u8> {
        (0..len).map(|_| self.rng.next_u64() as u8).collect()
    }
    /// Puts a new bundle with a payload of this length.
    pub fn put(&mut self, payload: u64) -> u64 {
        let payload = Bytes::from(self.bytes(payload));
        let mut rope = Payload::new();
        // Two chunks, so that the payload is a rope.
        let cut = self.rng.below(payload.len() as u64 + 1) as usize;
        rope.push_bytes(payload.slice(..cut));
        rope.push_bytes(payload.slice(cut..));
        self.put_rope(payload, rope)
    }
    pub fn put_bytes(&mut self, bytes: Vec<u8>) -> u64 {
        let bytes = Bytes::from(bytes);
        self.put_rope(bytes.clone(), bytes.into())
    }
    /// Puts a bundle of these extents, whose content is `bytes`.
    pub fn put_extents(&mut self, extents: Payload, bytes: &[u8]) -> u64 {
        self.put_rope(Bytes::copy_from_slice(bytes), extents)
    }
    fn put_rope(&mut self, payload: Bytes, rope: Payload) -> u64 {
        let number = self.next_bundle;
        self.next_bundle += 1;
        let index = self.index(number);
        let (head, tail) = (Bytes::from(self.bytes(number % 40 + 1)), Bytes::from(self.bytes(number % 5)));
        let known = PutBundle {
            index,
            head: head.clone(),
            payload,
            rope: rope.clone(),
            tail: tail.clone(),
            stored: false,
            answered: false,
            delete_asked: false,
            remember: None,
            delete_answered: false,
        };
        self.known.insert(number, known);
        self.input(Input::Put { bundle: BundleHandle(number), index: Box::new(index), head, payload: rope, tail });
        number
    }
    pub fn delete(&mut self, number: u64, remember: bool) {
        // The newest expire first, and some never, so that memory is not in order of expiry.
        let until = DtnTime(if number.is_multiple_of(3) { u64::MAX } else { u64::MAX / 2 - number });
        self.delete_until(number, remember.then_some(until));
    }
    /// Deletes a bundle; its delivery is remembered until this time.
    pub fn delete_until(&mut self, number: u64, until: Option<DtnTime>) {
        let known = self.known.get_mut(&number).expect("known");
        known.delete_asked = true;
        let fingerprint = known.index.fingerprint;
        let remember = until.map(|until| Remembered { fingerprint, until, content: 0 });
        known.remember = remember;
        self.input(Input::Delete { bundle: BundleHandle(number), remember });
    }
    /// Performs all operations under way except those of one kind.
    pub fn perform_all_but(&mut self, is: impl Fn(&DiskOp) -> bool) {
        while let Some(at) = self.outstanding.iter().position(|op| !is(op)) {
            let op = self.outstanding.remove(at);
            self.perform(op);
        }
    }
    /// Performs the first operation of a kind; with `error`, it fails.
    pub fn perform_first(&mut self, is: impl Fn(&DiskOp) -> bool, error: Option<DiskError>) {
        let at = self.outstanding.iter().position(is).expect("one is under way");
        let op = self.outstanding.remove(at);
        let next = self.disk.count + 1;
        self.disk.fail = error.map(|error| (next..next + 1, error));
        self.perform(op);
        self.disk.fail = None;
    }
    /// Whether an operation of a kind is under way.
    pub fn is_asked(&self, is: impl Fn(&DiskOp) -> bool) -> bool {
        self.outstanding.iter().any(is)
    }
    /// Lets milliseconds pass and wakes the store.
    pub fn wake_after_ms(&mut self, ms: u64) {
        self.now += Duration::from_millis(ms);
        self.input(Input::Wake);
    }
    /// Lets tenths of a second pass, with a disk that completes each operation at once.
    pub fn pass_tenths(&mut self, tenths: u64) {
        for _ in 0..tenths {
            self.wake_after_ms(100);
            while !self.outstanding.is_empty() {
                self.step();
            }
        }
    }
    /// Puts six bundles on a disk that fails from one of its next four operations on. Returns the first failing
    /// operation.
    pub fn put_while_failing(&mut self, seed: u64) -> u64 {
        let from = self.disk.count + 1 + seed % 4;
        self.disk.fail = Some((from..u64::MAX, DiskError::Io));
        for _ in 0..6 {
            self.put(700);
            for _ in 0..seed % 7 {
                self.step();
            }
        }
        from
    }
    /// Performs all operations under way without waiting.
    pub fn perform_all(&mut self) {
        self.perform_all_but(|_| false);
    }
    /// Loads a bundle's payload as the agent holds it.
    pub fn load(&mut self, number: u64) {
        let payload = self.known[&number].rope.clone();
        self.input(Input::Load { load: number, payload });
    }
    /// Loads this rope at once.
    pub fn load_rope(&mut self, payload: Payload) -> Result<Bytes, Refusal> {
        let load = 1 << 50;
        self.loaded.remove(&load);
        self.input(Input::Load { load, payload });
        self.settle();
        self.loaded[&load].clone().map(|rope| rope.to_bytes().expect("in memory"))
    }
    /// Begins a bundle of random parts.
    pub fn spill(&mut self) {
        let spill = self.next_spill;
        self.next_spill += 1;
        let pieces = 1 + self.rng.below(3) as u32;
        let mut piece = || {
            let len = self.rng.below(3000) + 1;
            self.bytes(len)
        };
        let parts: Vec<Vec<u8>> = (0..pieces).map(|_| piece()).collect();
        self.spill_parts_as(spill, parts);
    }
    /// Begins a bundle of these parts.
    pub fn spill_parts(&mut self, parts: Vec<Vec<u8>>) {
        let spill = self.next_spill;
        self.next_spill += 1;
        self.spill_parts_as(spill, parts);
    }
    fn spill_parts_as(&mut self, spill: u64, parts: Vec<Vec<u8>>) {
        let (bytes, left) = (parts.concat(), parts.len() as u32);
        let arriving = ArrivingBundle { bytes, rope: Payload::new(), left, failed: false };
        self.arriving.insert(spill, arriving);
        for data in parts {
            self.input(Input::Spill { spill, quota: spill % 3, data: data.into() });
        }
    }
    /// Puts or drops the bundles that arrived completely.
    pub fn finish_spills(&mut self) {
        self.finish_spills_or_drop(0.2);
    }
    pub fn finish_spills_surely(&mut self) {
        self.finish_spills_or_drop(0.0);
    }
    /// Parts that are not answered yet.
    pub fn finish_spills_due(&self) -> u32 {
        self.arriving.values().map(|arriving| arriving.left).sum()
    }
    /// Drops all bundles that are arriving.
    pub fn drop_spills(&mut self) {
        for spill in core::mem::take(&mut self.arriving).into_keys() {
            self.input(Input::DropSpill { spill });
        }
    }
    fn finish_spills_or_drop(&mut self, drop: f64) {
        let done: Vec<u64> = self.arriving.iter().filter(|(_, a)| a.left == 0).map(|(n, _)| *n).collect();
        for spill in done {
            let arriving = self.arriving.remove(&spill).expect("listed");
            if arriving.failed || self.rng.chance(drop) {
                self.input(Input::DropSpill { spill });
                continue;
            }
            // The first byte stands for the bundle's head; the last part stays in memory.
            let mut rope = arriving.rope.slice(1, u64::MAX);
            let mut bytes = arriving.bytes[1..].to_vec();
            let last = self.bytes(10);
            bytes.extend_from_slice(&last);
            rope.push_bytes(last.into());
            self.put_rope(bytes.into(), rope);
        }
    }
    /// Performs one random action of an agent.
    pub fn act(&mut self, most: u64) {
        let alive: Vec<u64> =
            self.known.iter().filter(|(_, k)| !k.delete_asked && (k.stored || !k.answered)).map(|(n, _)| *n).collect();
        let pick = |rng: &mut Rng| alive[rng.below(alive.len() as u64) as usize];
        match self.rng.below(12) {
            0..=4 => {
                let len = if self.rng.chance(0.1) { most } else { self.rng.below(most / 4 + 1) };
                self.put(len);
            }
            5..=7 if alive.len() > 5 => {
                let (number, remember) = (pick(&mut self.rng), self.rng.chance(0.5));
                self.delete(number, remember);
            }
            8 => {
                let value = self.counter + 1 + self.rng.below(5);
                self.counter_asked = self.counter_asked.max(value);
                self.input(Input::SetCounter { value });
            }
            9 => self.spill(),
            10 if !alive.is_empty() => {
                let number = pick(&mut self.rng);
                self.load(number);
            }
            _ => self.finish_spills(),
        }
    }

    /// Opens the store on this disk and checks all promises; the agent continues from there.
    pub fn reopen(&self, disk: SimDisk, what: &str) -> StoreWorld {
        let mut world = StoreWorld::open(self.config, disk, self.rng.clone().next_u64());
        world.settle();
        let (counter, last_bundle) = world.opened.unwrap_or_else(|| panic!("{what}: not opened"));
        assert!(counter >= self.counter, "{what}: counter {counter} < {}", self.counter);
        for (number, known) in &self.known {
            let recovered = world.recovered.get(number);
            if known.stored && !known.delete_asked {
                assert!(recovered.is_some(), "{what}: acknowledged bundle {number} lost");
            }
            if let Some(remember) = known.remember.filter(|_| known.delete_answered) {
                assert!(recovered.is_none(), "{what}: delivered bundle {number} came back");
                assert!(world.deliveries.contains(&remember.fingerprint), "{what}: delivery of {number} forgotten");
            }
            if known.stored && !known.delete_asked {
                assert!(last_bundle >= *number, "{what}: number {number} may be used again");
            }
        }
        let back = world.recovered.keys().find(|number| self.gone.contains(number));
        assert!(back.is_none(), "{what}: bundle {back:?} came back, deleted long ago");
        world.gone.clone_from(&self.gone);
        world.check_contents(self, what);
        world.known = self.known.clone();
        // Bundles that were neither acknowledged nor recovered are legitimately lost.
        world.known.retain(|number, _| world.recovered.contains_key(number) || self.known[number].remember.is_some());
        for (number, known) in &mut world.known {
            if world.recovered.contains_key(number) {
                (known.stored, known.answered, known.delete_asked, known.delete_answered) = (true, true, false, false);
                known.rope = world.recovered[number].2.clone();
                known.remember = None;
            } else {
                known.delete_asked = true;
                known.delete_answered = world.deliveries.contains(&known.index.fingerprint);
            }
        }
        (world.counter, world.counter_asked) = (counter, counter);
        world.next_bundle = self.next_bundle.max(last_bundle + 1);
        world
    }
    /// Checks that everything recovered is exactly as it was put.
    pub fn check_contents(&mut self, before: &StoreWorld, what: &str) {
        let recovered = self.recovered.clone();
        for (number, (index, head, rope, tail)) in &recovered {
            let known = before.known.get(number).unwrap_or_else(|| panic!("{what}: {number} was never put"));
            assert_eq!(*index, known.index, "{what}: index of {number}");
            assert_eq!((head, tail), (&known.head, &known.tail), "{what}: head of {number}");
            assert_eq!(rope.len(), known.payload.len() as u64, "{what}: payload length of {number}");
            self.input(Input::Load { load: *number, payload: rope.clone() });
        }
        self.settle();
        for number in recovered.keys() {
            match &self.loaded[number] {
                Ok(payload) => {
                    let bytes = payload.to_bytes().expect("loaded");
                    assert!(bytes == before.known[number].payload, "{what}: payload of {number} differs");
                }
                Err(reason) => panic!("{what}: payload of {number}: {reason}"),
            }
        }
    }
    /// Checks that every request was answered.
    pub fn assert_all_answered(&self, what: &str) {
        for (number, known) in &self.known {
            assert!(known.answered, "{what}: put of {number} unanswered");
            assert!(!known.delete_asked || known.delete_answered, "{what}: delete of {number} unanswered");
        }
    }
}

pub fn is_create(op: &DiskOp) -> bool {
    matches!(op.action, DiskAction::Create { .. })
}
pub fn is_write(op: &DiskOp) -> bool {
    matches!(op.action, DiskAction::Write { .. })
}
pub fn is_sync(op: &DiskOp) -> bool {
    matches!(op.action, DiskAction::Sync { .. })
}
pub fn is_read(op: &DiskOp) -> bool {
    matches!(op.action, DiskAction::Read { .. })
}
pub fn is_remove(op: &DiskOp) -> bool {
    matches!(op.action, DiskAction::Remove { .. })
}
pub fn is_reserve(op: &DiskOp) -> bool {
    matches!(op.action, DiskAction::Reserve { .. })
}

/// Number of points a test tries: `FARLINK_POINTS`, or a few by default.
#[allow(clippy::disallowed_methods, reason = "a test takes its effort from whoever runs it")]
pub fn points(usual: u64) -> u64 {
    std::env::var("FARLINK_POINTS").ok().and_then(|n| n.parse().ok()).unwrap_or(usual)
}
