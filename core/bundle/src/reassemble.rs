//! Reassembly of fragments (RFC 9171 5.9).
//!
//! Fragments of different cuts may overlap: bytes that arrived first stay. The total length a fragment claims is
//! compared, never allocated. Fragments of one bundle with different claimed totals are assembled separately, so that a
//! false claim cannot spoil the genuine ones.

use crate::{Bundle, BundleFlags, BundleId, CreationTimestamp, EndpointId};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use farlink_base::{Instant, Payload, Refusal, TimerKey, TimerQueue};

/// Bounds of a [`Reassembler`].
#[derive(Clone, Copy, Debug)]
pub struct ReassemblyLimits {
    /// Bundles under reassembly at once.
    pub bundles: usize,
    /// Fragments held of one bundle.
    pub fragments: usize,
    /// Payload bytes held of all bundles.
    pub bytes: u64,
}
impl Default for ReassemblyLimits {
    fn default() -> Self {
        ReassemblyLimits { bundles: 10_000, fragments: 100_000, bytes: 64 << 30 }
    }
}

/// Result of adding a fragment.
#[derive(Clone, PartialEq, Debug)]
pub enum Reassembly<K> {
    /// The fragment is kept; more are needed.
    Waiting,
    /// All its bytes are known already: it may be forgotten.
    Redundant,
    /// The fragment is refused: a limit is reached, or it contradicts itself.
    Refused(Refusal),
    /// The bundle is complete.
    Complete {
        /// The whole bundle; its payload shares the fragments' bytes or extents.
        bundle: Box<Bundle>,
        /// Keys of its fragments in order of arrival, including the last one.
        keys: Vec<K>,
    },
}

/// Source, creation timestamp and claimed total length of the original bundle.
type Original = (EndpointId, CreationTimestamp, u64);

/// Fragment held for reassembly.
#[derive(Debug)]
struct Member<K> {
    key: K,
    timer: TimerKey,
}

/// Bundle under reassembly.
#[derive(Debug)]
struct Assembly<K> {
    original: Original,
    /// Non-overlapping pieces by offset, each with the number of its fragment.
    pieces: BTreeMap<u64, (u64, Payload)>,
    covered: u64,
    members: BTreeMap<u64, Member<K>>,
    /// Fragment at offset 0, whose blocks the whole bundle gets; its payload is taken out.
    first: Option<(u64, Box<Bundle>)>,
}

/// Bounded reassembler. `K` is the caller's key of a fragment.
#[derive(Debug)]
pub struct Reassembler<K> {
    limits: ReassemblyLimits,
    assemblies: BTreeMap<u64, Assembly<K>>,
    index: BTreeMap<Original, u64>,
    timers: TimerQueue<(u64, u64)>,
    next: u64,
    bytes: u64,
}

impl<K: Clone + Ord> Reassembler<K> {
    /// Creates a reassembler without fragments.
    pub fn new(limits: ReassemblyLimits) -> Self {
        Reassembler {
            limits,
            assemblies: BTreeMap::new(),
            index: BTreeMap::new(),
            timers: TimerQueue::new(),
            next: 0,
            bytes: 0,
        }
    }

    /// Adds a fragment that expires at `expires`.
    pub fn add(&mut self, key: K, mut fragment: Bundle, expires: Instant) -> Reassembly<K> {
        let Some(info) = fragment.primary.fragment else { return Reassembly::Refused(Refusal::NotAcceptable) };
        let len = fragment.payload.len();
        if info.offset.checked_add(len).is_none_or(|end| end > info.total) {
            return Reassembly::Refused(Refusal::NotAcceptable);
        }
        let original = (fragment.primary.source.clone(), fragment.primary.creation, info.total);
        let id = match self.index.get(&original) {
            Some(id) => *id,
            None if self.index.len() >= self.limits.bundles => return Reassembly::Refused(Refusal::NoResources),
            None => self.begin(original),
        };
        let Some(assembly) = self.assemblies.get_mut(&id) else {
            return Reassembly::Refused(Refusal::NotAcceptable);
        };
        let gaps = assembly.gaps(info.offset, len);
        let fresh: u64 = gaps.iter().map(|(_, len)| len).sum();
        // The fragment at offset 0 is needed for its blocks even if all its bytes are known.
        let brings_blocks = info.offset == 0 && assembly.first.is_none();
        if fresh == 0 && !brings_blocks {
            self.drop_if_empty(id);
            return Reassembly::Redundant;
        }
        if assembly.members.len() >= self.limits.fragments || self.bytes.saturating_add(fresh) > self.limits.bytes {
            self.drop_if_empty(id);
            return Reassembly::Refused(Refusal::NoResources);
        }
        let number = self.next;
        self.next += 1;
        self.bytes += fresh;
        assembly.covered += fresh;
        // Only the pieces hold payload: blocks of the first fragment are kept without it.
        let payload = core::mem::take(&mut fragment.payload);
        for (start, len) in gaps {
            assembly.pieces.insert(start, (number, payload.slice(start - info.offset, len)));
        }
        if brings_blocks {
            assembly.first = Some((number, Box::new(fragment)));
        }
        let timer = self.timers.arm(expires, (id, number));
        assembly.members.insert(number, Member { key, timer });
        if assembly.covered == assembly.original.2 && assembly.first.is_some() {
            return self.complete(id);
        }
        Reassembly::Waiting
    }

    fn begin(&mut self, original: Original) -> u64 {
        let id = self.next;
        self.next += 1;
        self.index.insert(original.clone(), id);
        let assembly =
            Assembly { original, pieces: BTreeMap::new(), covered: 0, members: BTreeMap::new(), first: None };
        self.assemblies.insert(id, assembly);
        id
    }

    fn take(&mut self, id: u64) -> Option<Assembly<K>> {
        let assembly = self.assemblies.remove(&id)?;
        self.index.remove(&assembly.original);
        self.bytes -= assembly.covered;
        for member in assembly.members.values() {
            self.timers.cancel(member.timer);
        }
        Some(assembly)
    }

    fn complete(&mut self, id: u64) -> Reassembly<K> {
        let Some(assembly) = self.take(id) else { return Reassembly::Waiting };
        let Some((_, mut bundle)) = assembly.first else { return Reassembly::Waiting };
        // RFC 9171 5.9: the whole payload replaces that of the fragment at offset 0.
        bundle.primary.flags.0 &= !BundleFlags::FRAGMENT;
        bundle.primary.fragment = None;
        bundle.primary_raw = None;
        let mut payload = Payload::new();
        assembly.pieces.into_values().for_each(|(_, piece)| payload.append(piece));
        bundle.set_payload(payload);
        Reassembly::Complete { bundle, keys: assembly.members.into_values().map(|member| member.key).collect() }
    }

    fn drop_if_empty(&mut self, id: u64) {
        if self.assemblies.get(&id).is_some_and(|assembly| assembly.members.is_empty()) {
            self.take(id);
        }
    }

    /// Removes a fragment that was deleted, with its bytes. Returns whether it was held.
    pub fn remove(&mut self, id: &BundleId, key: &K) -> bool {
        // The claimed total is not part of the identity: look through all totals.
        let low = (id.source.clone(), id.creation, 0);
        let high = (id.source.clone(), id.creation, u64::MAX);
        let found = self.index.range(low..=high).find_map(|(_, assembly)| {
            let members = &self.assemblies.get(assembly)?.members;
            members.iter().find(|(_, member)| member.key == *key).map(|(number, _)| (*assembly, *number))
        });
        found.is_some_and(|(assembly, number)| self.remove_member(assembly, number).is_some())
    }

    fn remove_member(&mut self, id: u64, number: u64) -> Option<K> {
        let assembly = self.assemblies.get_mut(&id)?;
        let member = assembly.members.remove(&number)?;
        self.timers.cancel(member.timer);
        let mut gone = 0;
        // Bytes of others that this fragment made redundant are gone: they must arrive again.
        assembly.pieces.retain(|_, (owner, piece)| {
            let stays = *owner != number;
            gone += if stays { 0 } else { piece.len() };
            stays
        });
        assembly.covered -= gone;
        self.bytes -= gone;
        if assembly.first.as_ref().is_some_and(|(owner, _)| *owner == number) {
            assembly.first = None;
        }
        self.drop_if_empty(id);
        Some(member.key)
    }

    /// Removes every fragment expired at `now` and returns the keys.
    pub fn expire(&mut self, now: Instant) -> Vec<K> {
        let mut keys = Vec::new();
        while let Some((_, (id, number))) = self.timers.pop_due(now) {
            keys.extend(self.remove_member(id, number));
        }
        keys
    }
    /// Next expiry of a fragment.
    pub fn next_timeout(&self) -> Option<Instant> {
        self.timers.next_deadline()
    }
    /// Payload bytes held at present.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
    /// Bundles under reassembly at present.
    pub fn bundles(&self) -> usize {
        self.assemblies.len()
    }
}

impl<K> Assembly<K> {
    /// Parts of `offset .. offset + len` not covered yet, as (start, length).
    fn gaps(&self, offset: u64, len: u64) -> Vec<(u64, u64)> {
        let end = offset + len;
        let mut at = offset;
        let mut gaps = Vec::new();
        let before = self.pieces.range(..=offset).next_back();
        if let Some((start, (_, piece))) = before {
            at = at.max(start + piece.len());
        }
        for (start, (_, piece)) in self.pieces.range(offset..).take_while(|(start, _)| **start < end) {
            if *start > at {
                gaps.push((at, start - at));
            }
            at = at.max(start + piece.len());
        }
        if at < end {
            gaps.push((at, end - at));
        }
        gaps
    }
}

#[cfg(test)]
#[path = "reassemble_tests.rs"]
mod tests;
