//! What each giver may fill of the store, so that nobody locks the others out: neighbours nobody configured together,
//! each source, each neighbour and each application here, and what is kept free for what leaves at once. And what all
//! of them may fill of memory with heads, which no disk takes over.
//!
//! Two nodes that are full of bundles for each other, and refuse, would wait until lifetimes end. So where room is kept
//! free, bundles for applications here find some, and no giver fills the rest alone: each may have a multiple of what
//! it leaves free (dynamic thresholds: Choudhury and Hahne, 1998), of bytes and of the bundles that may be kept.

use crate::state::quotas::Quotas;
use alloc::collections::BTreeMap;
use farlink_base::Limits;
use farlink_base::node::SHORT_HEAD_BYTES;
use farlink_base::{Empty, EndpointId, NodeId, PeerId, Refusal};
use farlink_book::{Flags, Held};

/// What the store keeps of a bundle's flags: whose share it counts to, also after a restart.
pub(crate) const KEPT_FLAGS: u8 = Flags::STRANGE;
/// What the store keeps of a bundle that names this node as its source, and was given to it: nothing else tells it
/// from one made here, where whoever gave it is not known after a restart.
pub(crate) const KEPT_CAME: u32 = 1 << 9;

/// Whom a store's room is shared among: one application that sends more than leaves shuts out no other.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum PreviousNode {
    Neighbour(PeerId),
    /// All neighbours nobody configured together: what such a bundle says of who gave it, after a restart too, proves
    /// nothing.
    Strangers,
    /// Whatever sends from this endpoint here.
    Application(EndpointId),
}

impl PreviousNode {
    fn of(held: &Held) -> PreviousNode {
        match (is_strange(held), held.is_own()) {
            (true, _) => PreviousNode::Strangers,
            (false, true) => PreviousNode::Application(held.bundle.source.clone()),
            (false, false) => PreviousNode::Neighbour(held.from),
        }
    }
}

/// Who holds how much.
#[derive(Debug, Default)]
pub(crate) struct FairShare {
    /// Bundles and bytes of neighbours nobody configured.
    strange: (u64, u64),
    /// Bytes of long heads: of neighbours nobody configured, and of all.
    heads: (u64, u64),
    /// Bytes of each source, where sources are bounded.
    sources: BTreeMap<NodeId, u64>,
    /// Bundles and bytes of each giver, where room is kept free.
    previous_nodes: BTreeMap<PreviousNode, (u64, u64)>,
    /// What operators allow.
    pub quotas: Quotas,
}

/// What a store holds, and may hold.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fill {
    pub bundles: u64,
    pub bundles_max: u64,
    pub bytes: u64,
    pub capacity: u64,
}

fn is_strange(held: &Held) -> bool {
    held.flags.has(Flags::STRANGE)
}

/// Most nodes hold nothing of strangers and bound no source.
impl Empty for FairShare {
    type From = ();
    const EMPTY: &'static Self = &FairShare {
        strange: (0, 0),
        heads: (0, 0),
        sources: BTreeMap::new(),
        previous_nodes: BTreeMap::new(),
        quotas: Quotas::new(),
    };
    fn make((): ()) -> Self {
        FairShare::default()
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

impl FairShare {
    /// Whether a bundle counts to anybody's share. What is around another in a tunnel does not: that one does.
    pub fn is_anyones(held: &Held) -> bool {
        !(held.flags.has(Flags::VIRTUAL) && held.flags.has(Flags::UNRECORDED))
    }
    /// Whether a bundle is counted at all.
    pub fn counts(&self, held: &Held, limits: &Limits) -> bool {
        if !FairShare::is_anyones(held) {
            return false;
        }
        let bounded = limits.source_bytes < u64::MAX || limits.reserved_bytes > 0 || self.quotas.counts();
        bounded || is_strange(held) || long_head(held) > 0
    }
    /// Whether this newcomer finds room in its share.
    ///
    /// # Errors
    /// The share has none now, or never has.
    pub fn admit(&self, new: &Held, limits: &Limits) -> Result<(), Refusal> {
        self.admit_beside(new, limits, (0, 0))
    }
    /// Whether it finds room in its share and every quota beside so many bundles and bytes that are not counted yet.
    pub fn keeps(
        &self,
        new: &Held,
        limits: &Limits,
        previous: impl FnOnce() -> EndpointId,
        beside: (u64, u64),
    ) -> bool {
        self.admit_beside(new, limits, beside).is_ok() && self.quotas.has_room(new, previous, beside)
    }
    fn admit_beside(&self, new: &Held, limits: &Limits, (bundles, bytes): (u64, u64)) -> Result<(), Refusal> {
        let size = new.size();
        let more = bytes;
        let (bundles, bytes) = (self.strange.0.saturating_add(bundles), self.strange.1.saturating_add(bytes));
        if is_strange(new) {
            fits(bytes, size, limits.stranger_bytes)?;
            fits(bundles, 1, limits.bundles.div_ceil(2))?;
            fits(self.heads.0, long_head(new), limits.head_bytes / 2)?;
        }
        fits(self.heads.1, long_head(new), limits.head_bytes)?;
        if limits.source_bytes < u64::MAX && !new.is_own() && !is_strange(new) {
            fits(self.of(new.bundle.source.node()).saturating_add(more), size, limits.source_bytes)?;
        }
        Ok(())
    }
    /// Whether whoever gives this newcomer still leaves room for others, where `reserved` bytes are kept free. Of what
    /// is not, and of the bundles in this proportion, it may have so many times what is free then as there is more of
    /// it than is kept free.
    pub fn leaves_room(&self, new: &Held, fill: Fill, reserved: u64) -> bool {
        let (bundles, bytes) = self.previous_nodes.get(&PreviousNode::of(new)).copied().unwrap_or_default();
        let most = fill.capacity.saturating_sub(reserved);
        let (times, part) = (u128::from(most), u128::from(reserved));
        let leaves = |there: u64, all: u64, more: u64, most: u64| {
            let free = most.saturating_sub(all.saturating_add(more));
            u128::from(there.saturating_add(more)) * part <= u128::from(free) * times
        };
        let places = u128::from(fill.bundles_max) * times / u128::from(fill.capacity.max(1));
        leaves(bytes, fill.bytes, new.size(), most)
            && leaves(bundles, fill.bundles, 1, u64::try_from(places).unwrap_or(u64::MAX))
    }
    /// A bundle is held from now on.
    pub fn come(&mut self, held: &Held, limits: &Limits, previous: &EndpointId) {
        self.quotas.come(held, previous);
        if is_strange(held) {
            self.strange.0 += 1;
            self.strange.1 += held.size();
            self.heads.0 += long_head(held);
        }
        self.heads.1 += long_head(held);
        // What a stranger writes as its source takes nothing from the one that is named.
        if limits.source_bytes < u64::MAX && !is_strange(held) {
            *self.sources.entry(held.bundle.source.node()).or_insert(0) += held.size();
        }
        if limits.reserved_bytes > 0 {
            let (bundles, bytes) = self.previous_nodes.entry(PreviousNode::of(held)).or_default();
            (*bundles, *bytes) = (*bundles + 1, *bytes + held.size());
        }
    }
    /// A bundle leaves.
    pub fn go(&mut self, held: &Held) {
        self.quotas.go(held);
        if is_strange(held) {
            self.strange.0 -= 1;
            self.strange.1 = self.strange.1.saturating_sub(held.size());
            self.heads.0 -= long_head(held);
        }
        self.heads.1 -= long_head(held);
        let source = held.bundle.source.node();
        if let Some(bytes) = self.sources.get_mut(&source).filter(|_| !is_strange(held)) {
            *bytes = bytes.saturating_sub(held.size());
            if *bytes == 0 {
                self.sources.remove(&source);
            }
        }
        if self.previous_nodes.is_empty() {
            return;
        }
        let previous = PreviousNode::of(held);
        if let Some((bundles, bytes)) = self.previous_nodes.get_mut(&previous) {
            (*bundles, *bytes) = (*bundles - 1, bytes.saturating_sub(held.size()));
            if *bundles == 0 {
                self.previous_nodes.remove(&previous);
            }
        }
    }
    /// Checks what is counted against these: what is held, and what room is promised to.
    ///
    /// # Panics
    /// When something does not agree.
    #[cfg(feature = "audit")]
    pub fn audit<'a>(&self, counted: impl Iterator<Item = &'a Held>, limits: &Limits) {
        let mut again = FairShare { quotas: self.quotas.as_before(), ..FairShare::default() };
        for held in counted.filter(|held| self.counts(held, limits)) {
            again.come(held, limits, &EndpointId::Null);
        }
        again.sources.retain(|_, bytes| *bytes > 0);
        assert_eq!(self.strange, again.strange, "bundles and bytes of strangers");
        assert_eq!(self.heads, again.heads, "long heads: of strangers, and of all");
        assert_eq!(self.sources, again.sources, "bytes by source");
        assert_eq!(self.previous_nodes, again.previous_nodes, "bundles and bytes by giver");
        self.quotas.audit(&again.quotas);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::book_with;
    use alloc::string::String;
    use alloc::vec::Vec;
    use farlink_base::Priority;

    #[test]
    fn vouched_bundle_moves_to_source_share() {
        let (mut book, handles) = book_with(&[Priority::Normal]);
        let limits = Limits { source_bytes: 1 << 20, reserved_bytes: 1, ..Limits::default() };
        let mut fair_share = FairShare::default();
        let quota = crate::Quota {
            sources: alloc::vec![String::from("*")],
            neighbours: Vec::new(),
            bytes: u64::MAX,
            bundles: u64::MAX,
        };
        fair_share.quotas.set(alloc::vec![quota]);
        let held = book.get_mut(handles[0]).unwrap();
        held.flags.set(Flags::STRANGE, true);
        let (size, source) = (held.size(), held.bundle.source.node());
        let copy = |held: &Held, strange: bool| {
            let mut flags = held.flags;
            flags.set(Flags::STRANGE, strange);
            Held::newcomer(farlink_book::New {
                bundle: held.bundle.clone(),
                number: None,
                born: held.born,
                expires: held.expires,
                from: PeerId(3),
                hops: 0,
                labels: [0; 2],
                reasons: held.reasons(),
                flags,
            })
        };
        let (before, after) = (copy(held, true), copy(held, false));
        fair_share.come(&before, &limits, &EndpointId::Null);
        assert_eq!((fair_share.strange(), fair_share.of(source)), ((1, size), 0));
        assert_eq!(fair_share.quotas.status()[0].strangers, (1, size));
        fair_share.go(&before);
        fair_share.come(&after, &limits, &EndpointId::Null);
        assert_eq!((fair_share.strange(), fair_share.of(source)), ((0, 0), size));
        let status = &fair_share.quotas.status()[0];
        assert_eq!((status.strangers, status.bundles), ((0, 0), 1));
        fair_share.go(&after);
        assert!(
            fair_share.sources.is_empty()
                && fair_share.previous_nodes.is_empty()
                && fair_share.quotas.status()[0].bundles == 0
        );
    }
}
