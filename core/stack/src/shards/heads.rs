//! Memory for bundles whose heads are incomplete, at all layers of all shards of a node.

use core::sync::atomic::{AtomicU64, Ordering};

/// Bound on the bytes of incomplete heads, for all shards together. Unconfigured neighbours have half of it, so that
/// heads without end lock no configured neighbour out.
#[derive(Debug)]
pub struct HeadBudget {
    used: AtomicU64,
    strange: AtomicU64,
    most: u64,
}

impl HeadBudget {
    /// A budget of this many bytes, all free.
    pub const fn new(most: u64) -> Self {
        HeadBudget { used: AtomicU64::new(0), strange: AtomicU64::new(0), most }
    }
    /// Bound of all heads together, in bytes.
    pub fn most(&self) -> u64 {
        self.most
    }
    /// Bytes that are taken now.
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }
    /// Takes bytes from the budget, for an unconfigured neighbour if `stranger`; returns whether they were available.
    pub(crate) fn take(&self, bytes: u64, stranger: bool) -> bool {
        // Unconfigured neighbours get half: heads that they never complete must leave room for configured ones.
        if !reserve(&self.used, bytes, self.most) {
            return false;
        }
        let fits = !stranger || reserve(&self.strange, bytes, self.most / 2);
        if !fits {
            self.used.fetch_sub(bytes, Ordering::Relaxed);
        }
        fits
    }
    /// Returns bytes taken by [`HeadBudget::take`].
    pub(crate) fn give_back(&self, bytes: u64, stranger: bool) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
        if stranger {
            self.strange.fetch_sub(bytes, Ordering::Relaxed);
        }
    }
}

/// Budgets are equal if their bounds are, whatever is in use: configurations are compared.
impl PartialEq for HeadBudget {
    fn eq(&self, other: &Self) -> bool {
        self.most == other.most
    }
}
impl Eq for HeadBudget {}

fn reserve(sum: &AtomicU64, bytes: u64, most: u64) -> bool {
    let more = |sum: u64| sum.checked_add(bytes).filter(|sum| *sum <= most);
    sum.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
}
