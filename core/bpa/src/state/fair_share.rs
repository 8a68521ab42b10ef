//! Shares of the store, so that no previous node locks out others: one for all unauthenticated neighbours together, one
//! for each source, one for each neighbour and each local application. Some room is reserved for bundles that leave
//! soon or free room, such as expedited ones. Heads of bundles, which stay in memory, have bounds of their own.
//!
//! Without reserved room, two nodes that are full of bundles for each other would refuse each other's bundles until
//! lifetimes end. The reserved room admits bundles that local applications wait for. No previous node fills the other
//! room alone: each may have a multiple of the room that stays free (dynamic thresholds: Choudhury and Hahne, 1998),
//! counted in bytes and in bundles.

use crate::state::quotas::Quotas;
use alloc::collections::BTreeMap;
use farlink_base::Limits;
use farlink_base::node::SHORT_HEAD_BYTES;
use farlink_base::{Empty, EndpointId, NodeId, PeerId, Refusal};
use farlink_book::{Flags, Held};

/// Flags of a held bundle that the store keeps, because shares depend on them after a restart.
pub(crate) const KEPT_FLAGS: u8 = Flags::STRANGE;
/// Store flag of a bundle that names this node as source but arrived from elsewhere. Without it such a bundle would
/// count as made here after a restart, when its previous node is unknown.
pub(crate) const KEPT_CAME: u32 = 1 << 9;

/// Party that a bundle is charged to. Applications are parties, too: an application that sends faster than its bundles
/// leave must not shut out others.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum PreviousNode {
    Neighbour(PeerId),
    /// All unauthenticated neighbours together: the previous node that their bundles name proves nothing.
    Strangers,
    /// Local applications that send from this endpoint.
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

/// Amounts that each party holds.
#[derive(Debug, Default)]
pub(crate) struct FairShare {
    /// Number and bytes of bundles from unauthenticated neighbours.
    strange: (u64, u64),
    /// Bytes of heads beyond the usual length: those from unauthenticated neighbours, and all.
    heads: (u64, u64),
    /// Bytes of each source, if sources are bounded.
    sources: BTreeMap<NodeId, u64>,
    /// Bundles and bytes of each previous node, if room is reserved.
    previous_nodes: BTreeMap<PreviousNode, (u64, u64)>,
    /// Quotas set by the operator.
    pub quotas: Quotas,
}

/// Contents and capacity of the store.
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

// Allocated on first use: most nodes have nothing to count, since they hold no bundles of unauthenticated neighbours
// and bound no source.
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

/// Bytes by which a bundle's head exceeds the usual length.
pub(crate) fn long_head(held: &Held) -> u64 {
    held.bundle.head_bytes().saturating_sub(SHORT_HEAD_BYTES)
}

/// Checks that `more` fits beside the amount already `there`.
///
/// # Errors
/// `NoResources` if it does not fit now, `TooLarge` if it never will.
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
    /// Whether a bundle is charged to any share. The outer bundle of a tunnel is not, since the inner one is.
    pub fn is_anyones(held: &Held) -> bool {
        !(held.flags.has(Flags::VIRTUAL) && held.flags.has(Flags::UNRECORDED))
    }
    /// Whether charging a bundle matters to any bound in force.
    pub fn counts(&self, held: &Held, limits: &Limits) -> bool {
        if !FairShare::is_anyones(held) {
            return false;
        }
        let bounded = limits.source_bytes < u64::MAX || limits.reserved_bytes > 0 || self.quotas.counts();
        bounded || is_strange(held) || long_head(held) > 0
    }
    /// Checks that a new bundle fits the shares of unauthenticated neighbours, of its source, and of heads.
    ///
    /// # Errors
    /// `NoResources` if a share has no room now, `TooLarge` if it never will.
    pub fn admit(&self, new: &Held, limits: &Limits) -> Result<(), Refusal> {
        self.admit_beside(new, limits, (0, 0))
    }
    /// Whether a new bundle fits its shares and every quota if this many bundles and bytes are counted in addition.
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
            // Half of all places for bundles stay free for those that are vouched for.
            fits(bundles, 1, limits.bundles.div_ceil(2))?;
            fits(self.heads.0, long_head(new), limits.head_bytes / 2)?;
        }
        fits(self.heads.1, long_head(new), limits.head_bytes)?;
        if limits.source_bytes < u64::MAX && !new.is_own() && !is_strange(new) {
            fits(self.of(new.bundle.source.node()).saturating_add(more), size, limits.source_bytes)?;
        }
        Ok(())
    }
    /// Whether the previous node, with this bundle, leaves room for others while `reserved` bytes are kept free. Its
    /// bundles may take at most the free room times the ratio of unreserved to reserved room; a like bound holds for
    /// their number.
    pub fn leaves_room(&self, new: &Held, fill: Fill, reserved: u64) -> bool {
        // A previous node without bundles has no entry.
        let (bundles, bytes) = self.previous_nodes.get(&PreviousNode::of(new)).copied().unwrap_or_default();
        let most = fill.capacity.saturating_sub(reserved);
        let (times, part) = (u128::from(most), u128::from(reserved));
        let leaves = |there: u64, all: u64, more: u64, most: u64| {
            let free = most.saturating_sub(all.saturating_add(more));
            // Cross-multiplied in 128 bits: a division would round away small shares.
            u128::from(there.saturating_add(more)) * part <= u128::from(free) * times
        };
        let places = u128::from(fill.bundles_max) * times / u128::from(fill.capacity.max(1));
        leaves(bytes, fill.bytes, new.size(), most)
            && leaves(bundles, fill.bundles, 1, u64::try_from(places).unwrap_or(u64::MAX))
    }
    /// Charges a bundle that is now held or arriving.
    pub fn come(&mut self, held: &Held, limits: &Limits, previous: &EndpointId) {
        self.quotas.come(held, previous);
        if is_strange(held) {
            self.strange.0 += 1;
            self.strange.1 += held.size();
            self.heads.0 += long_head(held);
        }
        self.heads.1 += long_head(held);
        // A source that an unauthenticated bundle names must not be charged for it.
        if limits.source_bytes < u64::MAX && !is_strange(held) {
            *self.sources.entry(held.bundle.source.node()).or_insert(0) += held.size();
        }
        if limits.reserved_bytes > 0 {
            let (bundles, bytes) = self.previous_nodes.entry(PreviousNode::of(held)).or_default();
            (*bundles, *bytes) = (*bundles + 1, *bytes + held.size());
        }
    }
    /// Uncharges a bundle that departs or will not arrive.
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
    /// Checks all sums against held bundles and reservations.
    ///
    /// # Panics
    /// If they do not agree.
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
    /// Number and bytes of bundles from unauthenticated neighbours.
    pub fn strange(&self) -> (u64, u64) {
        self.strange
    }
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
    fn vouched_bundle_is_charged_to_source() {
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
        // The same bundle before and after it is vouched for.
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
