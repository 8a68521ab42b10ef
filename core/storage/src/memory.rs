//! The store of simulations, relays that may forget, and tests: acknowledged at once, gone at exit.

use crate::quota::Quotas;
use alloc::collections::BTreeMap;
use farlink_base::store::{BundleStore, Input, Output, Usage};
use farlink_base::{BundleHandle, Instant, Payload, Refusal, Sink};

/// Keeps bundles in memory: `Stored` follows `Put` in the same call, nothing survives a restart.
/// It never emits a disk operation or asks for a timeout.
#[derive(Debug)]
pub struct MemoryStore {
    capacity: u64,
    bytes: u64,
    counter: u64,
    kept: BTreeMap<BundleHandle, Kept>,
    quotas: Quotas,
}

#[derive(Debug)]
struct Kept {
    payload: Payload,
    size: u64,
    quota: u64,
}

impl MemoryStore {
    /// Keeps up to `capacity` bytes of encoded bundles.
    pub fn new(capacity: u64) -> Self {
        MemoryStore { capacity, bytes: 0, counter: 0, kept: BTreeMap::new(), quotas: Quotas::new(u64::MAX) }
    }
    /// Also holds each quota key ([`farlink_base::store::IndexEntry::quota`]) to `limit` bytes.
    pub fn with_quota(mut self, limit: u64) -> Self {
        self.quotas = Quotas::new(limit);
        self
    }
    fn has_room(&self, bytes: u64) -> bool {
        self.bytes.saturating_add(bytes) <= self.capacity
    }
    fn put(&mut self, bundle: BundleHandle, kept: Kept) -> Result<(), Refusal> {
        if self.kept.contains_key(&bundle) {
            return Err(Refusal::Duplicate);
        }
        if !self.has_room(kept.size) || !self.quotas.allows(kept.quota, kept.size) {
            return Err(Refusal::NoResources);
        }
        self.bytes += kept.size;
        self.quotas.add(kept.quota, kept.size);
        self.kept.insert(bundle, kept);
        Ok(())
    }
    fn delete(&mut self, bundle: BundleHandle) {
        if let Some(kept) = self.kept.remove(&bundle) {
            self.bytes -= kept.size;
            self.quotas.remove(kept.quota, kept.size);
        }
    }
}

impl BundleStore for MemoryStore {
    fn handle(&mut self, _now: Instant, input: Input, out: &mut impl Sink<Output>) {
        match input {
            Input::Open => out.push(Output::Opened { counter: self.counter, last_bundle: 0 }),
            Input::Put { bundle, index, head, payload, tail } => {
                let size = head.len() as u64 + payload.len() + tail.len() as u64;
                out.push(match self.put(bundle, Kept { payload, size, quota: index.quota }) {
                    Ok(()) => Output::Stored { bundle, payload: None },
                    Err(reason) => Output::Refused { bundle, reason },
                });
            }
            // Memory is where the bytes are already: they count once the bundle is whole, and the
            // agent bounds what is still arriving.
            Input::Spill { spill, data } => {
                let result = if self.has_room(data.len()) { Ok(data) } else { Err(Refusal::NoResources) };
                out.push(Output::Spilled { spill, result });
            }
            Input::Delete { bundle, .. } => {
                self.delete(bundle);
                out.push(Output::Deleted { bundle });
            }
            Input::Load { bundle } => {
                let result = self.kept.get(&bundle).map(|kept| kept.payload.clone()).ok_or(Refusal::Unknown);
                out.push(Output::Loaded { bundle, result });
            }
            Input::SetCounter { value } => {
                self.counter = value;
                out.push(Output::CounterSet { value });
            }
            Input::Wake | Input::DropSpill { .. } | Input::DiskDone(_) => {}
        }
    }
    fn next_timeout(&self) -> Option<Instant> {
        None
    }
    fn usage(&self) -> Usage {
        Usage { bundles: self.kept.len() as u64, bytes: self.bytes, file_bytes: self.bytes, capacity: self.capacity }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use farlink_base::store::IndexEntry;
    use farlink_base::{Bytes, Priority};

    fn index(quota: u64) -> IndexEntry {
        IndexEntry {
            priority: Priority::Normal,
            expires: None,
            stored_at: None,
            age_ms: 0,
            quota,
            fingerprint: 1,
            flags: 0,
        }
    }
    fn say(store: &mut MemoryStore, input: Input) -> Output {
        let mut out = Vec::new();
        store.handle(Instant::ZERO, input, &mut out);
        assert_eq!(out.len(), 1);
        out.remove(0)
    }
    fn put(store: &mut MemoryStore, number: u64, quota: u64, payload: u64) -> Option<Refusal> {
        let input = Input::Put {
            bundle: BundleHandle(number),
            index: index(quota),
            head: Bytes::from_static(b"head"),
            payload: Payload::fill(number, payload),
            tail: Bytes::from_static(b"t"),
        };
        match say(store, input) {
            Output::Stored { payload: None, .. } => None,
            Output::Refused { reason, .. } => Some(reason),
            other => unreachable!("{other:?}"),
        }
    }

    #[test]
    fn keeps_until_full_and_gives_room_back() {
        let mut store = MemoryStore::new(210);
        assert!(matches!(say(&mut store, Input::Open), Output::Opened { counter: 0, last_bundle: 0 }));
        assert_eq!(put(&mut store, 1, 0, 100), None);
        assert_eq!(put(&mut store, 1, 0, 1), Some(Refusal::Duplicate));
        assert_eq!(put(&mut store, 2, 0, 101), Some(Refusal::NoResources));
        assert_eq!(put(&mut store, 2, 0, 100), None);
        assert_eq!(store.usage(), Usage { bundles: 2, bytes: 210, file_bytes: 210, capacity: 210 });
        for _ in 0..2 {
            let deleted = say(&mut store, Input::Delete { bundle: BundleHandle(1), remember: None });
            assert!(matches!(deleted, Output::Deleted { bundle: BundleHandle(1) }));
        }
        assert_eq!(store.usage().bytes, 105);
        let loaded = say(&mut store, Input::Load { bundle: BundleHandle(2) });
        assert!(matches!(loaded, Output::Loaded { result: Ok(p), .. } if p == Payload::fill(2, 100)));
        let gone = say(&mut store, Input::Load { bundle: BundleHandle(1) });
        assert!(matches!(gone, Output::Loaded { result: Err(Refusal::Unknown), .. }));
    }

    #[test]
    fn a_source_is_held_to_its_quota() {
        let mut store = MemoryStore::new(1000).with_quota(110);
        assert_eq!(put(&mut store, 1, 7, 100), None);
        assert_eq!(put(&mut store, 2, 7, 1), Some(Refusal::NoResources));
        assert_eq!(put(&mut store, 2, 8, 100), None);
    }

    #[test]
    fn spilled_bytes_stay_in_memory() {
        let mut store = MemoryStore::new(10);
        let spilled = say(&mut store, Input::Spill { spill: 3, data: Payload::fill(1, 10) });
        assert!(matches!(spilled, Output::Spilled { spill: 3, result: Ok(p) } if !p.is_stored()));
        let refused = say(&mut store, Input::Spill { spill: 3, data: Payload::fill(1, 11) });
        assert!(matches!(refused, Output::Spilled { result: Err(Refusal::NoResources), .. }));
        assert!(matches!(say(&mut store, Input::SetCounter { value: 9 }), Output::CounterSet { value: 9 }));
    }
}
