//! Who had which bundle from when to when, as nodes tell each other; and by that, how many had and
//! saw bundles of an age.
//!
//! A. Krifa, C. Barakat, T. Spyropoulos: "Optimal Buffer Management Policies for Delay Tolerant
//! Networks", SECON 2008, sections on distributed estimation. Everything is bounded: of more than
//! 128 bundles those are forgotten of which nothing was heard longest (of whoever told more than half of them, its
//! own), of more than 64 nodes of a bundle the later ones, and nodes of which nothing was heard for a day.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use farlink_base::{Duration, Instant, NodeId};
use farlink_book::{Held, Node, Reporters, numbers, put_number};

/// Bundles remembered.
const BUNDLES_MAX: usize = 128;
/// Nodes remembered of a bundle.
const HOLDERS_MAX: usize = 64;
/// Nodes remembered.
const NODES_MAX: usize = 1024;
/// How long a node is remembered of which nothing is heard.
const SILENT: Duration = Duration::from_secs(86_400);
/// Ages told apart; what is older counts as the last.
const BINS: usize = 256;
/// Bundles that count at an age, the latest heard of.
const SAMPLES_MAX: usize = 32;
/// Bytes of one message at most.
const MESSAGE_MAX: usize = 64 << 10;
/// It has it still.
const STILL: u32 = u32::MAX;

/// That a node had a bundle; all in seconds of the bundle's age.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Had {
    from: u32,
    until: u32,
    /// When it said so.
    said: u32,
}

/// One bundle.
#[derive(Debug)]
struct Record {
    /// When it was made, s on this process's clock; negative where that was before.
    made_s: i64,
    source: NodeId,
    holders: BTreeMap<NodeId, Had>,
    /// Of all changes which was the last of this one.
    changed: u64,
}
impl Record {
    fn age_s(&self, now: Instant) -> u32 {
        (seconds(now) - self.made_s).clamp(0, i64::from(u32::MAX - 1)) as u32
    }
}
fn seconds(at: Instant) -> i64 {
    (at.0 / 1_000_000_000) as i64
}

/// A bundle's age, s: what of its lifetime is over.
pub(crate) fn age_s(node: &Node<'_>, held: &Held) -> u32 {
    let left_ms = held.remaining(node.now).as_millis() as u64;
    (held.bundle.lifetime_ms.saturating_sub(left_ms) / 1000) as u32
}

/// How many nodes had seen a bundle at some age, where it was made not counted, and had it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Sample {
    pub seen: f64,
    pub copies: f64,
}

/// What is known of bundles of the past and of today.
#[derive(Debug)]
pub(crate) struct History {
    bin_s: u32,
    records: BTreeMap<u128, Record>,
    /// The order in which they are forgotten.
    order: BTreeSet<(u64, u128)>,
    changes: u64,
    /// Who told of each bundle, of those this node never had.
    tellers: Reporters<u128>,
    nodes: Nodes,
    /// Changes that each neighbour was told.
    told: BTreeMap<NodeId, u64>,
    samples: Vec<Vec<Sample>>,
    counted: Option<Instant>,
}

/// Other nodes, and when each was heard of last.
#[derive(Default, Debug)]
struct Nodes {
    last: BTreeMap<NodeId, Instant>,
    /// Of those this node never met.
    tellers: Reporters<NodeId>,
}
impl Nodes {
    /// Somebody tells of a node, or, `None`, it is met: where there is no room, one that whoever told most told leaves.
    fn hear(&mut self, now: Instant, node: NodeId, teller: Option<NodeId>) {
        let known = self.last.contains_key(&node);
        if !known && self.last.len() >= NODES_MAX {
            let Some(loser) = self.tellers.loser() else { return };
            self.tellers.forget(loser);
            self.last.remove(&loser);
        }
        self.last.insert(node, now);
        match teller {
            None => self.tellers.forget(node),
            // Whom it met itself nobody tells it of.
            Some(teller) if !known || self.tellers.has(node) => self.tellers.note(node, teller),
            Some(_) => {}
        }
    }
    fn forget_silent(&mut self, now: Instant) {
        self.last.retain(|_, last| *last + SILENT > now);
        self.tellers.retain(|node| self.last.contains_key(node));
    }
}

impl History {
    /// Ages are told apart by so many seconds.
    pub fn new(bin_s: u32) -> Self {
        History {
            bin_s: bin_s.max(1),
            records: BTreeMap::new(),
            order: BTreeSet::new(),
            changes: 0,
            tellers: Reporters::default(),
            nodes: Nodes::default(),
            told: BTreeMap::new(),
            samples: Vec::new(),
            counted: None,
        }
    }
    /// Other nodes known.
    pub fn others(&self) -> f64 {
        self.nodes.last.len().max(1) as f64
    }
    /// A node is met.
    pub fn met(&mut self, me: NodeId, now: Instant, node: NodeId) {
        if node != me && node != NodeId::NULL {
            self.nodes.hear(now, node, None);
        }
    }
    /// This node has a bundle from now on, or has it no more.
    pub fn have(&mut self, node: &Node<'_>, held: &Held, has: bool) {
        let age = age_s(node, held);
        let before = self.records.get(&held.bundle.id).and_then(|record| record.holders.get(&node.me));
        let from = before.filter(|_| !has).map_or(age, |had| had.from.min(age));
        let had = Had { from, until: if has { STILL } else { age }, said: age };
        let made_s = seconds(node.now) - i64::from(age);
        let source = held.bundle.source.node();
        self.learn(node, (held.bundle.id, made_s, source), &[(node.me, had)], None);
        // Whoever told of it before may have lied.
        let wrong = |record: &&mut Record| record.source != source || record.made_s.abs_diff(made_s) > 60;
        if let Some(record) = self.records.get_mut(&held.bundle.id).filter(wrong) {
            (record.made_s, record.source) = (made_s, source);
        }
    }

    /// Notes what is newer than what is known of a bundle: its identity, when it was made, and by whom.
    fn learn(
        &mut self,
        node: &Node<'_>,
        (id, made_s, source): (u128, i64, NodeId),
        holders: &[(NodeId, Had)],
        teller: Option<NodeId>,
    ) {
        self.changes += 1;
        if !self.records.contains_key(&id) {
            if self.records.len() >= BUNDLES_MAX {
                self.forget_one();
            }
            self.records.insert(id, Record { made_s, source, holders: BTreeMap::new(), changed: self.changes });
            self.order.insert((self.changes, id));
        }
        match teller {
            Some(teller) => self.tellers.note(id, teller),
            None => self.tellers.forget(id),
        }
        let Some(record) = self.records.get_mut(&id) else { return };
        let mut news = false;
        for (holder, had) in holders {
            // Its own word finds room, whoever else is said to have had it.
            let room = record.holders.len() < HOLDERS_MAX || *holder == node.me;
            let newer = record.holders.get(holder).map_or(room, |known| had.said > known.said);
            let again = *holder == node.me && record.holders.contains_key(holder);
            if newer || again {
                news |= record.holders.insert(*holder, *had) != Some(*had);
                if *holder != node.me {
                    self.nodes.hear(node.now, *holder, teller);
                }
            }
        }
        if news {
            self.order.remove(&(record.changed, id));
            record.changed = self.changes;
            self.order.insert((self.changes, id));
        }
    }

    /// Room for a bundle: the one of which nothing was heard longest, of whoever told more than half of all its own.
    fn forget_one(&mut self) {
        let flood = self.tellers.loser().filter(|_| self.tellers.most() > BUNDLES_MAX / 2);
        let Some(id) = flood.or(self.order.first().map(|(_, id)| *id)) else { return };
        self.tellers.forget(id);
        if let Some(record) = self.records.remove(&id) {
            self.order.remove(&(record.changed, id));
        }
    }

    /// What a neighbour was not told yet, the newest first: identity, age, source and number of
    /// holders of each bundle, and of each holder its node, from when to when it had it, and when it
    /// said so.
    pub fn message(&mut self, now: Instant, to: NodeId) -> Vec<u8> {
        let since = self.told.get(&to).copied();
        if self.told.len() >= NODES_MAX && since.is_none() {
            // Whoever it was is told everything again.
            self.told.pop_first();
        }
        self.told.insert(to, self.changes);
        let (mut message, since) = (Vec::new(), since.unwrap_or(0));
        for (_, id) in self.order.iter().rev().take_while(|(changed, _)| *changed > since) {
            let Some(record) = self.records.get(id) else { continue };
            if message.len() + 40 + 24 * record.holders.len() > MESSAGE_MAX {
                break;
            }
            let count = record.holders.len() as u64;
            let age = u64::from(record.age_s(now));
            for number in [(id >> 64) as u64, *id as u64, age, record.source.0, count] {
                put_number(&mut message, number);
            }
            for (holder, had) in &record.holders {
                put_number(&mut message, holder.0);
                put_number(&mut message, u64::from(had.from) << 32 | u64::from(had.until));
                put_number(&mut message, u64::from(had.said));
            }
        }
        message
    }

    /// Reads a neighbour's message as far as it makes sense. Nobody else knows better than this node
    /// what it had. `teller`: as whom the neighbour tells it.
    pub fn heard(&mut self, node: &Node<'_>, teller: NodeId, message: &[u8]) -> Option<()> {
        let mut numbers = numbers(message.get(..MESSAGE_MAX).unwrap_or(message));
        while let Some(high) = numbers.next() {
            let id = u128::from(high) << 64 | u128::from(numbers.next()?);
            let age = u32::try_from(numbers.next()?).ok()?;
            let (source, count) = (NodeId(numbers.next()?), numbers.next()?);
            let mut holders = Vec::new();
            for _ in 0..count {
                let (holder, times, said) = (NodeId(numbers.next()?), numbers.next()?, numbers.next()?);
                let had = Had { from: (times >> 32) as u32, until: times as u32, said: u32::try_from(said).ok()? };
                let sense = had.from <= had.until && had.from <= had.said && had.said <= age.saturating_add(60);
                if sense && holder != node.me && holders.len() < HOLDERS_MAX {
                    holders.push((holder, had));
                }
            }
            if !holders.is_empty() {
                self.learn(node, (id, seconds(node.now) - i64::from(age), source), &holders, Some(teller));
            }
        }
        Some(())
    }

    /// Counts anew, once in each difference of ages.
    pub fn count(&mut self, now: Instant) {
        let bin = core::time::Duration::from_secs(u64::from(self.bin_s));
        if self.counted.is_some_and(|counted| now < counted + bin) {
            return;
        }
        self.counted = Some(now);
        self.nodes.forget_silent(now);
        self.samples = Vec::new();
        for (_, id) in self.order.iter().rev() {
            let Some(record) = self.records.get(id) else { continue };
            // What changed at each age, then sums of it.
            let last = ((record.age_s(now) / self.bin_s) as usize).min(BINS - 1);
            let bin = |age: u32| (age / self.bin_s) as usize;
            let mut changes = alloc::vec![(0i32, 0i32); last + 2];
            for (holder, had) in &record.holders {
                let (from, until) = (bin(had.from).min(last + 1), bin(had.until).min(last + 1));
                changes[from].0 += i32::from(*holder != record.source);
                changes[from].1 += 1;
                // Whoever had it for less than a difference of ages had it.
                changes[until.max(from + 1).min(last + 1)].1 -= 1;
            }
            if self.samples.len() <= last {
                self.samples.resize(last + 1, Vec::new());
            }
            let (mut seen, mut copies) = (0, 0);
            for (samples, change) in self.samples.iter_mut().zip(&changes[..=last]) {
                (seen, copies) = (seen + change.0, copies + change.1);
                if samples.len() < SAMPLES_MAX {
                    samples.push(Sample { seen: f64::from(seen), copies: f64::from(copies.max(1)) });
                }
            }
        }
    }
    /// Bundles of the age told apart that is before this one, of that after it, and which share of the
    /// way to the latter it is; of the oldest that were counted where none was as old.
    pub fn samples(&self, age_s: u32) -> (&[Sample], &[Sample], f64) {
        let at = |bin: usize| {
            let bin = bin.min(self.samples.len().saturating_sub(1));
            self.samples.get(bin).map_or(&[][..], |samples| samples)
        };
        let bin = (age_s / self.bin_s) as usize;
        (at(bin), at(bin.saturating_add(1)), f64::from(age_s % self.bin_s) / f64::from(self.bin_s))
    }
}

#[cfg(test)]
#[path = "history_tests.rs"]
mod tests;
