//! Joining fragments (RFC 9171 5.9).

use crate::{Bundle, BundleId};
use alloc::vec::Vec;
use farlink_base::{Instant, Refusal};

/// Bounds of a [`Reassembler`].
#[derive(Clone, Copy, Debug)]
pub struct ReassemblyLimits {
    /// Bundles being joined at once.
    pub bundles: usize,
    /// Fragments of one bundle.
    pub fragments: usize,
    /// Payload bytes held over all bundles.
    pub bytes: u64,
}
impl Default for ReassemblyLimits {
    fn default() -> Self {
        ReassemblyLimits { bundles: 10_000, fragments: 100_000, bytes: 64 << 30 }
    }
}

/// What became of a fragment.
#[derive(Clone, PartialEq, Debug)]
pub enum Reassembly<K> {
    /// Kept; more are needed.
    Waiting,
    /// Every byte of it is here already: it may be forgotten.
    Redundant,
    /// Not kept: a bound is reached or it contradicts itself.
    Refused(Refusal),
    /// The whole bundle, and the keys of the fragments it was made of.
    Complete {
        /// The bundle, no fragment any more.
        bundle: alloc::boxed::Box<Bundle>,
        /// Keys of its fragments, the last added included.
        keys: Vec<K>,
    },
}

/// Joins fragments to bundles. `K` is the caller's key of a fragment.
#[derive(Debug)]
pub struct Reassembler<K> {
    limits: ReassemblyLimits,
    keys: Vec<K>,
}
impl<K: Clone + Ord> Reassembler<K> {
    /// An empty one.
    pub fn new(limits: ReassemblyLimits) -> Self {
        Reassembler { limits, keys: Vec::new() }
    }
    /// Adds a fragment that lives until `expires`.
    pub fn add(&mut self, key: K, fragment: Bundle, expires: Instant) -> Reassembly<K> {
        let _ = (key, fragment, expires, self.limits);
        Reassembly::Refused(Refusal::NotAcceptable)
    }
    /// Forgets a fragment (it expired or was deleted); whether it was here.
    pub fn remove(&mut self, id: &BundleId, key: &K) -> bool {
        let _ = (id, key);
        false
    }
    /// Forgets every fragment expired at `now` and returns their keys.
    pub fn expire(&mut self, now: Instant) -> Vec<K> {
        let _ = now;
        core::mem::take(&mut self.keys)
    }
    /// When the next fragment expires.
    pub fn next_timeout(&self) -> Option<Instant> {
        None
    }
}
