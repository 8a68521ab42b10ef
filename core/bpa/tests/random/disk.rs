//! A disk that survives a crash, and the restart of its node.

use super::RandomRun;
use super::nodes::{closed, small};
use super::support;
use farlink_base::{BundleHandle, BundleMeta, DeleteReason, LinkId, store};
use farlink_bpa::{Input, Settings};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The store's record of a bundle.
pub struct Record {
    pub index: store::IndexEntry,
    pub meta: Arc<BundleMeta>,
    /// Whether the record certainly survives a crash.
    pub durable: bool,
}

/// State that survives a crash.
#[derive(Default)]
pub struct Disk {
    pub records: BTreeMap<u64, Record>,
    /// Memories of deleted bundles.
    pub remembers: BTreeMap<u64, store::Remembered>,
    pub remembered: Vec<store::Remembered>,
    pub counter: u64,
    pub last: u64,
}

impl RandomRun {
    /// Crashes and restarts the node with all durable records and, at random, with unanswered ones.
    pub fn restart(&mut self) {
        let (seed, now) = (self.seed, self.node.now);
        let settings = small(seed);
        if !settings.durable {
            return;
        }
        for bundle in core::mem::take(&mut self.deletes) {
            if self.rng.chance(0.5) {
                self.forget(bundle);
            }
        }
        for bundle in self.accepted.intersection(&self.held) {
            let kept = self.disk.records.get(bundle).is_some_and(|record| record.durable);
            assert!(kept, "seed {seed}: {bundle} was accepted and is not kept");
        }
        let rng = &mut self.rng;
        self.disk.records.retain(|_, record| record.durable || rng.chance(0.5));
        self.restarts += 1;
        self.inputs.pop_front();
        self.inputs.push_back(format!("{now:?} restart {}", self.restarts));
        self.forget_this_run();
        self.node = closed(seed, Settings { seed: 1 + self.restarts, ..settings });
        (self.node.now, self.node.commit) = (now, false);
        self.tell(Input::Clock(support::clock_at(now)));
        for remembered in self.disk.remembered.clone() {
            self.tell(Input::Store(store::Output::RecoveredDelivery(remembered)));
        }
        let records: Vec<u64> = self.disk.records.keys().copied().collect();
        for number in records {
            let Some(record) = self.disk.records.get_mut(&number) else { continue };
            record.durable = true;
            let (meta, index) = (record.meta.clone(), record.index);
            if index.flags & (1 << 8) != 0 {
                self.in_custody.insert(number);
            }
            let hop = Box::new(self.hops.get(&meta.id).cloned().unwrap_or_default());
            self.tell(Input::Recovered { bundle: BundleHandle(number), index, meta, hop });
            if !self.held.contains(&number) {
                // The bundle has another record.
                self.deleted.entry(number).or_insert(DeleteReason::Cancelled);
            }
        }
        let Disk { counter, last, .. } = self.disk;
        self.tell(Input::Store(store::Output::Opened { counter, last_bundle: last, secret: 0 }));
        for link in [0, 1] {
            self.tell(Input::Ready { link: LinkId(link), ready: true });
        }
    }
    /// Drops the state that a crash loses.
    fn forget_this_run(&mut self) {
        self.begun.clear();
        self.given.clear();
        self.open.clear();
        self.answered.clear();
        self.deliveries.clear();
        self.puts.clear();
        self.opens.clear();
        self.insides.clear();
        self.judged.clear();
        self.tunnelled.clear();
        self.held.clear();
        self.in_custody.clear();
        self.registered.clear();
        self.tokens.retain(|_, verdict| verdict.is_some());
        self.requests.retain(|_, answer| answer.is_some());
    }
    /// Drops the disk's record of a bundle.
    pub fn forget(&mut self, bundle: u64) {
        self.disk.records.remove(&bundle);
        self.disk.remembered.extend(self.disk.remembers.remove(&bundle));
    }
}
