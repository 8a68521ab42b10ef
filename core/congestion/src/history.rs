//! History of bundles: which nodes held them and when, as nodes report it to each other, and the resulting numbers of
//! nodes that held and had seen bundles of a given age.
//!
//! A. Krifa, C. Barakat, T. Spyropoulos: "Optimal Buffer Management Policies for Delay Tolerant Networks", SECON 2008,
//! sections on distributed estimation. Everything is bounded: beyond 128 bundles the one not reported for longest is
//! forgotten (if a reporter has more than half of them, one of its own), beyond 64 nodes of a bundle later ones are
//! ignored, and nodes that nobody mentioned for a day are forgotten.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use farlink_base::{Duration, Instant, NodeId};
use farlink_book::{Held, Node, Reporters, numbers, put_number};

/// Maximum number of bundles remembered.
const BUNDLES_MAX: usize = 128;
/// Maximum number of nodes remembered per bundle.
const HOLDERS_MAX: usize = 64;
/// Maximum number of nodes remembered.
const NODES_MAX: usize = 1024;
/// Silence after which a node is forgotten.
const SILENT: Duration = Duration::from_secs(86_400);
/// Maximum number of ages distinguished; older bundles count at the last one.
const BINS: usize = 256;
/// Maximum number of bundles that count at an age: those reported last.
const SAMPLES_MAX: usize = 32;
/// Longest message, bytes.
const MESSAGE_MAX: usize = 64 << 10;
/// End of a period that has not ended: the node still holds the bundle.
const STILL: u32 = u32::MAX;

/// Period in which a node held a bundle, in seconds of the bundle's age.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Had {
    from: u32,
    until: u32,
    /// Age of the bundle at the time of the report.
    said: u32,
}

/// Record of one bundle: creation, source, and the nodes that held it or hold it.
#[derive(Debug)]
struct HistoryRecord {
    /// Time of creation, s on this process's clock; negative before its start.
    made_s: i64,
    source: NodeId,
    holders: BTreeMap<NodeId, Had>,
    /// Value of the change counter at the last change of the record.
    changed: u64,
}
impl HistoryRecord {
    fn age_s(&self, now: Instant) -> u32 {
        (seconds(now) - self.made_s).clamp(0, i64::from(u32::MAX - 1)) as u32
    }
}
fn seconds(at: Instant) -> i64 {
    (at.0 / 1_000_000_000) as i64
}

/// Age of a bundle, s: its elapsed lifetime.
pub(crate) fn age_s(node: &Node<'_>, held: &Held) -> u32 {
    let left_ms = held.remaining(node.now).as_millis() as u64;
    (held.bundle.lifetime_ms.saturating_sub(left_ms) / 1000) as u32
}

/// Number of nodes besides the source that had seen a bundle at some age, and number of nodes that held it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct HistorySample {
    pub seen: f64,
    pub copies: f64,
}

/// Records of past and present bundles.
#[derive(Debug)]
pub(crate) struct History {
    bin_s: u32,
    records: BTreeMap<u128, HistoryRecord>,
    /// Bundles by last change; the first is evicted first.
    order: BTreeSet<(u64, u128)>,
    changes: u64,
    /// Reporter of each bundle that this node never had.
    reporters: Reporters<u128>,
    nodes: HistoryNodes,
    /// Number of the last change sent to each neighbour.
    told: BTreeMap<NodeId, u64>,
    samples: Vec<Vec<HistorySample>>,
    counted: Option<Instant>,
}

/// Other nodes, with the time of their last mention.
#[derive(Default, Debug)]
struct HistoryNodes {
    last: BTreeMap<NodeId, Instant>,
    /// Reporters of nodes that this node never met.
    reporters: Reporters<NodeId>,
}
impl HistoryNodes {
    /// Records a node that a neighbour reported, or that this node met (`None`). Without space, a node of the largest
    /// reporter is forgotten.
    fn note(&mut self, now: Instant, node: NodeId, reporter: Option<NodeId>) {
        let known = self.last.contains_key(&node);
        if !known && self.last.len() >= NODES_MAX {
            let Some(loser) = self.reporters.loser() else { return };
            self.reporters.forget(loser);
            self.last.remove(&loser);
        }
        self.last.insert(node, now);
        match reporter {
            None => self.reporters.forget(node),
            // A node that this node met itself has no reporter.
            Some(reporter) if !known || self.reporters.has(node) => self.reporters.note(node, reporter),
            Some(_) => {}
        }
    }
    fn forget_silent(&mut self, now: Instant) {
        self.last.retain(|_, last| *last + SILENT > now);
        self.reporters.retain(|node| self.last.contains_key(node));
    }
}

impl History {
    /// Empty history with ages in steps of `bin_s` seconds.
    pub fn new(bin_s: u32) -> Self {
        History {
            bin_s: bin_s.max(1),
            records: BTreeMap::new(),
            order: BTreeSet::new(),
            changes: 0,
            reporters: Reporters::default(),
            nodes: HistoryNodes::default(),
            told: BTreeMap::new(),
            samples: Vec::new(),
            counted: None,
        }
    }
    /// Number of other nodes known, at least 1.
    pub fn others(&self) -> f64 {
        self.nodes.last.len().max(1) as f64
    }
    /// Records a meeting with a node.
    pub fn met(&mut self, me: NodeId, now: Instant, node: NodeId) {
        if node != me && node != NodeId::NULL {
            self.nodes.note(now, node, None);
        }
    }
    /// Records that this node now has, or no longer has, a bundle.
    pub fn have(&mut self, node: &Node<'_>, held: &Held, has: bool) {
        // The end of a period keeps its beginning; a new copy begins a new period.
        let age = age_s(node, held);
        let before = self.records.get(&held.bundle.id).and_then(|record| record.holders.get(&node.me));
        let from = before.filter(|_| !has).map_or(age, |had| had.from.min(age));
        let had = Had { from, until: if has { STILL } else { age }, said: age };
        let made_s = seconds(node.now) - i64::from(age);
        let source = held.bundle.source.node();
        self.learn(node, (held.bundle.id, made_s, source), &[(node.me, had)], None);
        // This node's own observation replaces earlier reports, which may have been false. Up to 60 s may be
        // differences of clocks and rounding.
        let wrong = |record: &&mut HistoryRecord| record.source != source || record.made_s.abs_diff(made_s) > 60;
        if let Some(record) = self.records.get_mut(&held.bundle.id).filter(wrong) {
            (record.made_s, record.source) = (made_s, source);
        }
    }

    /// Learns newer periods of a bundle, given its identity, time of creation and source.
    fn learn(
        &mut self,
        node: &Node<'_>,
        (id, made_s, source): (u128, i64, NodeId),
        holders: &[(NodeId, Had)],
        reporter: Option<NodeId>,
    ) {
        self.changes += 1;
        if !self.records.contains_key(&id) {
            if self.records.len() >= BUNDLES_MAX {
                self.forget_one();
            }
            self.records.insert(id, HistoryRecord { made_s, source, holders: BTreeMap::new(), changed: self.changes });
            self.order.insert((self.changes, id));
        }
        match reporter {
            Some(reporter) => self.reporters.note(id, reporter),
            None => self.reporters.forget(id),
        }
        let Some(record) = self.records.get_mut(&id) else { return };
        let mut updated = false;
        for (holder, had) in holders {
            // This node's own record finds space, however many holders are reported.
            let room = record.holders.len() < HOLDERS_MAX || *holder == node.me;
            let newer = record.holders.get(holder).map_or(room, |known| had.said > known.said);
            let again = *holder == node.me && record.holders.contains_key(holder);
            if newer || again {
                updated |= record.holders.insert(*holder, *had) != Some(*had);
                if *holder != node.me {
                    self.nodes.note(node.now, *holder, reporter);
                }
            }
        }
        if updated {
            self.order.remove(&(record.changed, id));
            record.changed = self.changes;
            self.order.insert((self.changes, id));
        }
    }

    /// Makes space: forgets the bundle not reported for longest, or one of a reporter with more than half of all.
    fn forget_one(&mut self) {
        // A reporter of at most half of the records does not flood the table.
        let flood = self.reporters.loser().filter(|_| self.reporters.most() > BUNDLES_MAX / 2);
        let Some(id) = flood.or(self.order.first().map(|(_, id)| *id)) else { return };
        self.reporters.forget(id);
        if let Some(record) = self.records.remove(&id) {
            self.order.remove(&(record.changed, id));
        }
    }

    /// Message with everything that a neighbour was not sent yet, the latest first: identity, age, source and number
    /// of holders of each bundle, and for each holder its node, its period, and the age at the report.
    pub fn message(&mut self, now: Instant, to: NodeId) -> Vec<u8> {
        let since = self.told.get(&to).copied();
        if self.told.len() >= NODES_MAX && since.is_none() {
            // A forgotten neighbour is merely sent everything again.
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

    /// Reads a neighbour's message up to its first inconsistency. This node's own periods are never taken from
    /// others. `reporter` is the name under which the neighbour reports.
    pub fn read(&mut self, node: &Node<'_>, reporter: NodeId, message: &[u8]) -> Option<()> {
        let mut numbers = numbers(message.get(..MESSAGE_MAX).unwrap_or(message));
        while let Some(high) = numbers.next() {
            let id = u128::from(high) << 64 | u128::from(numbers.next()?);
            let age = u32::try_from(numbers.next()?).ok()?;
            let (source, count) = (NodeId(numbers.next()?), numbers.next()?);
            let mut holders = Vec::new();
            for _ in 0..count {
                let (holder, times, said) = (NodeId(numbers.next()?), numbers.next()?, numbers.next()?);
                let had = Had { from: (times >> 32) as u32, until: times as u32, said: u32::try_from(said).ok()? };
                // A period that ends before it begins, was reported before it began, or was reported at an age that the
                // bundle has not reached (with 60 s for differences of clocks and rounding) is an error or a lie.
                let sense = had.from <= had.until && had.from <= had.said && had.said <= age.saturating_add(60);
                if sense && holder != node.me && holders.len() < HOLDERS_MAX {
                    holders.push((holder, had));
                }
            }
            if !holders.is_empty() {
                self.learn(node, (id, seconds(node.now) - i64::from(age), source), &holders, Some(reporter));
            }
        }
        Some(())
    }

    /// Recounts all samples, unless the last recount was less than one step of ages ago.
    pub fn count(&mut self, now: Instant) {
        let bin = core::time::Duration::from_secs(u64::from(self.bin_s));
        if self.counted.is_some_and(|counted| now < counted + bin) {
            return;
        }
        self.counted = Some(now);
        // Every utility depends on the number of nodes, so silent ones must not be counted.
        self.nodes.forget_silent(now);
        self.samples = Vec::new();
        for (_, id) in self.order.iter().rev() {
            let Some(record) = self.records.get(id) else { continue };
            // Differences per step of age: their running sums are the counts at each age.
            let last = ((record.age_s(now) / self.bin_s) as usize).min(BINS - 1);
            let bin = |age: u32| (age / self.bin_s) as usize;
            let mut changes = alloc::vec![(0i32, 0i32); last + 2];
            for (holder, had) in &record.holders {
                let (from, until) = (bin(had.from).min(last + 1), bin(had.until).min(last + 1));
                changes[from].0 += i32::from(*holder != record.source);
                changes[from].1 += 1;
                // A period shorter than a step still counts in it.
                changes[until.max(from + 1).min(last + 1)].1 -= 1;
            }
            if self.samples.len() <= last {
                self.samples.resize(last + 1, Vec::new());
            }
            let (mut seen, mut copies) = (0, 0);
            for (samples, change) in self.samples.iter_mut().zip(&changes[..=last]) {
                (seen, copies) = (seen + change.0, copies + change.1);
                // Records are visited latest first, so the latest bundles fill the sample.
                if samples.len() < SAMPLES_MAX {
                    samples.push(HistorySample { seen: f64::from(seen), copies: f64::from(copies.max(1)) });
                }
            }
        }
    }
    /// Samples of the step before this age and of the step after it, and the position between the two, 0 to 1. Beyond
    /// the oldest step, both are that step's samples.
    pub fn samples(&self, age_s: u32) -> (&[HistorySample], &[HistorySample], f64) {
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
