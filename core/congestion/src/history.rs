//! Who had which bundle from when to when, as nodes tell each other; and by that, how many had and
//! saw bundles of an age.
//!
//! A. Krifa, C. Barakat, T. Spyropoulos: "Optimal Buffer Management Policies for Delay Tolerant
//! Networks", SECON 2008, sections on distributed estimation. Everything is bounded: of more than
//! 128 bundles those are forgotten of which nothing was heard longest, of more than 64 nodes of a
//! bundle the later ones.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use farlink_base::{Instant, NodeId};
use farlink_book::{Held, Node, numbers, put_number};

/// Bundles remembered.
const BUNDLES_MAX: usize = 128;
/// Nodes remembered of a bundle.
const HOLDERS_MAX: usize = 64;
/// Nodes remembered.
const NODES_MAX: usize = 1024;
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
pub(crate) struct History {
    bin_s: u32,
    records: BTreeMap<u128, Record>,
    /// The order in which they are forgotten.
    order: BTreeSet<(u64, u128)>,
    changes: u64,
    nodes: BTreeSet<NodeId>,
    /// Changes that each neighbour was told.
    told: BTreeMap<NodeId, u64>,
    samples: Vec<Vec<Sample>>,
    counted: Option<Instant>,
}

impl History {
    /// Ages are told apart by so many seconds.
    pub fn new(bin_s: u32) -> Self {
        History {
            bin_s: bin_s.max(1),
            records: BTreeMap::new(),
            order: BTreeSet::new(),
            changes: 0,
            nodes: BTreeSet::new(),
            told: BTreeMap::new(),
            samples: Vec::new(),
            counted: None,
        }
    }
    /// Other nodes known.
    pub fn others(&self) -> f64 {
        self.nodes.len().max(1) as f64
    }
    /// A node is met.
    pub fn met(&mut self, me: NodeId, node: NodeId) {
        if node != me && node != NodeId::NULL && self.nodes.len() < NODES_MAX {
            self.nodes.insert(node);
        }
    }
    /// This node has a bundle from now on, or has it no more.
    pub fn have(&mut self, node: &Node<'_>, held: &Held, has: bool) {
        let age = age_s(node, held);
        let before = self.records.get(&held.bundle.id).and_then(|record| record.holders.get(&node.me));
        let from = before.filter(|_| !has).map_or(age, |had| had.from.min(age));
        let had = Had { from, until: if has { STILL } else { age }, said: age };
        let made_s = seconds(node.now) - i64::from(age);
        self.learn(node, held.bundle.id, made_s, held.bundle.source.node(), &[(node.me, had)]);
    }

    /// Notes what is newer than what is known.
    fn learn(&mut self, node: &Node<'_>, id: u128, made_s: i64, source: NodeId, holders: &[(NodeId, Had)]) {
        self.changes += 1;
        if !self.records.contains_key(&id) {
            if self.records.len() >= BUNDLES_MAX {
                self.order.pop_first().map(|(_, oldest)| self.records.remove(&oldest));
            }
            self.records.insert(id, Record { made_s, source, holders: BTreeMap::new(), changed: self.changes });
            self.order.insert((self.changes, id));
        }
        let Some(record) = self.records.get_mut(&id) else { return };
        let mut news = false;
        for (holder, had) in holders {
            let room = record.holders.len() < HOLDERS_MAX;
            let newer = record.holders.get(holder).map_or(room, |known| had.said > known.said);
            let again = *holder == node.me && record.holders.contains_key(holder);
            if newer || again {
                news |= record.holders.insert(*holder, *had) != Some(*had);
                if *holder != node.me && self.nodes.len() < NODES_MAX {
                    self.nodes.insert(*holder);
                }
            }
        }
        if news {
            self.order.remove(&(record.changed, id));
            record.changed = self.changes;
            self.order.insert((self.changes, id));
        }
    }

    /// What a neighbour was not told yet, the newest first: identity, age, source and number of
    /// holders of each bundle, and of each holder its node, from when to when it had it, and when it
    /// said so.
    pub fn message(&mut self, now: Instant, to: NodeId) -> Vec<u8> {
        let since = self.told.get(&to).copied();
        if self.told.len() < NODES_MAX || since.is_some() {
            self.told.insert(to, self.changes);
        }
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
    /// what it had.
    pub fn heard(&mut self, node: &Node<'_>, message: &[u8]) -> Option<()> {
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
                self.learn(node, id, seconds(node.now) - i64::from(age), source, &holders);
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
mod tests {
    use super::*;
    use crate::testing::Site;
    use farlink_book::Handle;

    fn site_at(second: u64) -> Site {
        let mut site = Site::new(1 << 20);
        site.now = Instant(second * 1_000_000_000);
        site
    }
    /// A bundle made at second 1,000 of node 1, that lives for an hour.
    fn keep(site: &mut Site) -> Handle {
        site.keep_with(9, 100, |_, new| new.expires = Instant(4_600_000_000_000))
    }
    fn counts(history: &mut History, site: &Site, ages: &[u32]) -> Vec<(f64, f64)> {
        history.counted = None;
        history.count(site.now);
        ages.iter().map(|age| history.samples(*age).0[0]).map(|s| (s.seen, s.copies)).collect()
    }

    #[test]
    fn who_had_a_bundle_at_an_age_is_counted() {
        let (mut site, mut history) = (site_at(1000), History::new(100));
        let bundle = keep(&mut site);
        history.have(&site.node(), site.held(bundle), true);
        let id = site.held(bundle).bundle.id;
        // Node 2 had it from 150 s to 320 s, node 3 from 250 s on.
        let had = |from, until, said| Had { from, until, said };
        let holders = [(NodeId(2), had(150, 320, 320)), (NodeId(3), had(250, STILL, 250))];
        site.now = Instant(1_500_000_000_000);
        history.learn(&site.node(), id, 1000, NodeId(1), &holders);
        assert_eq!(
            counts(&mut history, &site, &[0, 199, 200, 300, 499, 9_000]),
            [(0.0, 1.0), (1.0, 2.0), (2.0, 3.0), (2.0, 2.0), (2.0, 2.0), (2.0, 2.0)]
        );
        assert_eq!(history.others(), 2.0);
        history.have(&site.node(), site.held(bundle), false);
        site.now = Instant(1_700_000_000_000);
        assert_eq!(counts(&mut history, &site, &[499, 500, 600]), [(2.0, 2.0), (2.0, 1.0), (2.0, 1.0)]);
        history.count(site.now);
        let (before, after, share) = history.samples(425);
        assert_eq!((before.len(), after[0].copies, share), (1, 1.0, 0.25));
    }

    #[test]
    fn what_one_knows_another_learns_once_and_the_newer_stays() {
        let (mut here, mut ours, mut theirs) = (site_at(1100), History::new(100), History::new(100));
        let bundle = keep(&mut here);
        ours.have(&here.node(), here.held(bundle), true);
        let there = Site { now: here.now, ..Site::new(9) };
        let other = Node { me: NodeId(2), ..there.node() };
        let message = ours.message(here.now, NodeId(2));
        assert_eq!(message.len(), 40 + 24);
        assert_eq!(theirs.heard(&other, &message), Some(()));
        assert_eq!((theirs.records.len(), theirs.nodes.len()), (1, 1));
        here.now = Instant(1_150_000_000_000);
        assert_eq!(ours.message(here.now, NodeId(2)), [], "nothing new");
        assert_eq!(ours.message(here.now, NodeId(3)).len(), 64);
        ours.have(&here.node(), here.held(bundle), false);
        let newer = ours.message(here.now, NodeId(2));
        let other = Node { now: here.now, me: NodeId(2), ..there.node() };
        for message in [&newer, &message] {
            assert_eq!(theirs.heard(&other, message), Some(()));
            let had = theirs.records.values().next().and_then(|record| record.holders.get(&NodeId(1)));
            assert_eq!(had, Some(&Had { from: 100, until: 150, said: 150 }), "the older one changes nothing");
        }
    }

    #[test]
    fn nobody_says_what_this_node_had_nor_what_makes_no_sense() {
        let (site, mut history) = (site_at(1000), History::new(100));
        let bundle = |said: u64, times: u64, holder: u64| {
            let mut message = Vec::new();
            [0, 7, 500, 4, 1, holder, times, said].iter().for_each(|number| put_number(&mut message, *number));
            message
        };
        for (said, times, holder) in [(100, 50 << 32 | 60, 1), (100, 60 << 32 | 50, 2), (40, 50 << 32 | 60, 2)] {
            assert_eq!(history.heard(&site.node(), &bundle(said, times, holder)), Some(()));
            assert!(history.records.is_empty(), "{said} {times} {holder}");
        }
        for (said, times) in [(u64::MAX, 50 << 32), (9_000, 50 << 32 | 60)] {
            let _ = history.heard(&site.node(), &bundle(said, times, 2));
            assert!(history.records.is_empty(), "said when it was older than it is");
        }
        let good = bundle(100, 50 << 32 | 60, 2);
        assert_eq!(history.heard(&site.node(), &good[..63]), None, "cut");
        assert!(history.records.is_empty());
        assert_eq!(history.heard(&site.node(), &good), Some(()));
        let lies =
            bundle(100, 50 << 32 | 60, 2).iter().copied().take(32).chain(u64::MAX.to_be_bytes()).collect::<Vec<_>>();
        assert_eq!(history.heard(&site.node(), &lies), None, "of so many holders none follows");
    }

    #[test]
    fn tables_are_bounded() {
        let (mut site, mut history) = (site_at(1), History::new(100));
        let had = |said| Had { from: 0, until: STILL, said };
        for id in 0..500 {
            site.now = Instant(site.now.0 + 1_000_000_000);
            let holders: Vec<(NodeId, Had)> = (0..100).map(|n| (NodeId(1_000 * id as u64 + n), had(0))).collect();
            history.learn(&site.node(), id, 0, NodeId(1), &holders);
        }
        assert_eq!(
            (history.records.len(), history.order.len(), history.nodes.len()),
            (BUNDLES_MAX, BUNDLES_MAX, NODES_MAX)
        );
        assert!(history.records.values().all(|record| record.holders.len() == HOLDERS_MAX));
        assert!(history.records.contains_key(&499) && !history.records.contains_key(&0));
        assert!(history.message(site.now, NodeId(7)).len() <= MESSAGE_MAX);
        site.now = Instant::MAX;
        history.count(site.now);
        assert_eq!((history.samples.len(), history.samples(u32::MAX).1.len()), (BINS, SAMPLES_MAX));
    }
}
