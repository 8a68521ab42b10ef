//! What each kind of giver may fill of the store, so that nobody locks the others out: neighbours nobody
//! configured together, each source, and what is kept free for expedited bundles and those made here. And what
//! all of them may fill of memory with heads, which no disk takes over.

use crate::settings::{Limits, SHORT_HEAD_BYTES};
use alloc::collections::BTreeMap;
use farlink_base::{Empty, NodeId, PeerId, Priority, Refusal};
use farlink_book::{Flags, Held};

/// What the store keeps of a bundle's flags: whose share it counts to, also after a restart.
pub(crate) const KEPT_FLAGS: u8 = Flags::STRANGE;

/// Who holds how much.
#[derive(Debug, Default)]
pub(crate) struct Shares {
    /// Bundles and bytes of neighbours nobody configured.
    strange: (u64, u64),
    /// Bytes of long heads: of neighbours nobody configured, and of all.
    heads: (u64, u64),
    /// Bytes of each source, where sources are bounded.
    sources: BTreeMap<NodeId, u64>,
}

/// Whether a share of their own is kept for bundles like this one.
pub(crate) fn is_privileged(new: &Held) -> bool {
    new.bundle.priority == Priority::Expedited || is_own(new)
}
fn is_own(held: &Held) -> bool {
    held.from == PeerId::NONE && !is_strange(held)
}
fn is_strange(held: &Held) -> bool {
    held.flags.has(Flags::STRANGE)
}

/// Most nodes hold nothing of strangers and bound no source.
impl Empty for Shares {
    type From = ();
    const EMPTY: &'static Self = &Shares { strange: (0, 0), heads: (0, 0), sources: BTreeMap::new() };
    fn make((): ()) -> Self {
        Shares::default()
    }
}

/// What a bundle's head takes beyond what is a matter of course.
pub(crate) fn long_head(held: &Held) -> u64 {
    held.bundle.head_bytes().saturating_sub(SHORT_HEAD_BYTES)
}

/// Whether so much more fits beside what is there already.
///
/// # Errors
/// It does not now, or never will.
fn fits(there: u64, more: u64, most: u64) -> Result<(), Refusal> {
    if more > most {
        Err(Refusal::TooLarge)
    } else if more > 0 && there.saturating_add(more) > most {
        Err(Refusal::NoResources)
    } else {
        Ok(())
    }
}

/// Whether a bundle is counted at all.
pub(crate) fn counts(held: &Held, limits: &Limits) -> bool {
    is_strange(held) || limits.source_bytes < u64::MAX || long_head(held) > 0
}

impl Shares {
    /// Whether this newcomer finds room in its share.
    ///
    /// # Errors
    /// The share has none now, or never has.
    pub fn admit(&self, new: &Held, limits: &Limits) -> Result<(), Refusal> {
        let size = new.size();
        let (bundles, bytes) = self.strange;
        if is_strange(new) {
            fits(bytes, size, limits.stranger_bytes)?;
            fits(bundles, 1, limits.bundles.div_ceil(2))?;
            fits(self.heads.0, long_head(new), limits.head_bytes / 2)?;
        }
        fits(self.heads.1, long_head(new), limits.head_bytes)?;
        if limits.source_bytes < u64::MAX && !is_own(new) {
            fits(self.of(new.bundle.source.node()), size, limits.source_bytes)?;
        }
        Ok(())
    }
    /// A bundle is held from now on.
    pub fn come(&mut self, held: &Held, limits: &Limits) {
        if is_strange(held) {
            self.strange.0 += 1;
            self.strange.1 += held.size();
            self.heads.0 += long_head(held);
        }
        self.heads.1 += long_head(held);
        if limits.source_bytes < u64::MAX {
            *self.sources.entry(held.bundle.source.node()).or_insert(0) += held.size();
        }
    }
    /// A bundle leaves.
    pub fn go(&mut self, held: &Held) {
        if is_strange(held) {
            self.strange.0 -= 1;
            self.strange.1 = self.strange.1.saturating_sub(held.size());
            self.heads.0 -= long_head(held);
        }
        self.heads.1 -= long_head(held);
        let source = held.bundle.source.node();
        if let Some(bytes) = self.sources.get_mut(&source) {
            *bytes = bytes.saturating_sub(held.size());
            if *bytes == 0 {
                self.sources.remove(&source);
            }
        }
    }
    fn of(&self, source: NodeId) -> u64 {
        self.sources.get(&source).copied().unwrap_or(0)
    }
    /// Bundles and bytes of neighbours nobody configured.
    pub fn strange(&self) -> (u64, u64) {
        self.strange
    }
    /// Bytes of long heads.
    pub fn heads(&self) -> u64 {
        self.heads.1
    }
}
