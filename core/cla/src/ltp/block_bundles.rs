//! Bundles of a block being sent. When its first byte leaves, a bundle has its age updated, or is dropped if it has
//! expired. Retransmissions repeat the bytes first sent.

use super::segment::SERVICE_BUNDLE;
use super::source::BlockSource;
use alloc::vec::Vec;
use bytes::Bytes;
use farlink_base::layer::SendId;
use farlink_base::{Instant, Leaving, Payload};

/// Mark before each bundle in a marked block: its client service number as an SDNV.
pub(super) const MARK: &[u8] = &[SERVICE_BUNDLE as u8];

/// A bundle of a block.
#[derive(Debug)]
pub(super) struct BlockBundle {
    pub(super) id: SendId,
    /// All or the first bytes of the bundle; empty once it has begun to leave.
    pub(super) bytes: Payload,
    pub(super) leaving: Leaving,
    /// Whether the bundle is still to be sent; false once it was withdrawn.
    wanted: bool,
}
impl BlockBundle {
    pub(super) fn new(id: SendId, bytes: Payload, leaving: Leaving) -> BlockBundle {
        BlockBundle { id, bytes, leaving, wanted: true }
    }
}

/// Bundles of a block, in order.
#[derive(Debug)]
pub(super) struct BlockBundles {
    all: Vec<BlockBundle>,
    /// Number of bundles that have begun to leave.
    begun: usize,
    marked: bool,
}
impl BlockBundles {
    /// Creates the list; `marked`: a mark precedes each bundle.
    pub(super) fn new(all: Vec<BlockBundle>, marked: bool) -> BlockBundles {
        BlockBundles { all, begun: 0, marked }
    }
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }
    pub(super) fn ids(&self) -> impl Iterator<Item = SendId> + '_ {
        self.all.iter().map(|bundle| bundle.id)
    }
    /// Whether any bundle has not begun to leave.
    pub(super) fn are_to_begin(&self) -> bool {
        self.begun < self.all.len()
    }
    /// Number of bytes of the next bundle and its mark that are in memory.
    fn next_len(&self) -> u64 {
        let mark = if self.marked { MARK.len() as u64 } else { 0 };
        self.all.get(self.begun).map_or(0, |bundle| mark + bundle.bytes.len())
    }
    /// Begins to send the bundles whose first byte is before offset `until` of the block. Returns those that have
    /// expired, which are dropped instead.
    pub(super) fn begin(&mut self, now: Instant, until: u64, source: &mut BlockSource) -> Vec<SendId> {
        let mut late = Vec::new();
        while source.end() < until {
            let len = self.next_len();
            let Some(bundle) = self.all.get_mut(self.begun) else { break };
            if bundle.leaving.is_over(now) {
                source.leave_out(len);
                late.push(self.all.remove(self.begun).id);
                continue;
            }
            if self.marked {
                source.begin(Payload::from(Bytes::from_static(MARK)), 0);
            }
            let mut bytes = core::mem::take(&mut bundle.bytes);
            let grown = bundle.leaving.stamp(now, &mut bytes);
            source.begin(bytes, grown);
            self.begun += 1;
        }
        late
    }
    /// Records that a bundle is no longer wanted. If its first byte has left, all of it is still sent, because a block
    /// cannot be cut. Returns whether any bundle of the block is still wanted.
    pub(super) fn take_back(&mut self, id: SendId) -> bool {
        if let Some(at) = self.all.iter().position(|bundle| bundle.id == id) {
            let bundle = &mut self.all[at];
            bundle.wanted = false;
            if at >= self.begun {
                // As an expired bundle, it is dropped by `begin` instead of sent.
                bundle.leaving.expires = Instant::ZERO;
            }
        }
        self.all.iter().any(|bundle| bundle.wanted)
    }
    /// Bundles still wanted, with their bytes. Those begun are cut out of `block`: `split` returns the length of the
    /// bundle at the beginning of its argument. `None` if the block cannot be split.
    pub(super) fn apart(
        &self,
        mut block: Payload,
        split: impl Fn(&Payload) -> Option<u64>,
    ) -> Option<Vec<BlockBundle>> {
        let mut bytes_of = |(at, bundle): (usize, &BlockBundle)| {
            if at >= self.begun {
                return Some(bundle.bytes.clone());
            }
            if self.marked && block.len() >= MARK.len() as u64 {
                drop(block.split_to(MARK.len() as u64));
            }
            let len = split(&block).filter(|len| (1..=block.len()).contains(len))?;
            Some(block.split_to(len))
        };
        let bytes = self.all.iter().enumerate().map(&mut bytes_of).collect::<Option<Vec<_>>>()?;
        let bundles = self.all.iter().zip(bytes).filter(|(bundle, _)| bundle.wanted);
        block
            .is_empty()
            .then(|| bundles.map(|(bundle, bytes)| BlockBundle::new(bundle.id, bytes, bundle.leaving)).collect())
    }
}
