//! The contract of congestion controls.

use alloc::vec::Vec;
use farlink_base::{BundleHandle, BundleView, Instant, NodeId, Param, Proposal, Refusal, Signal, Sink};

/// How full the node is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StoreView {
    /// Bytes kept.
    pub bytes: u64,
    /// Most bytes it may keep.
    pub capacity: u64,
    /// Bundles kept.
    pub bundles: u64,
}

/// What to do when a bundle does not fit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Overflow {
    /// Delete this stored bundle.
    Drop(BundleHandle),
    /// Send this stored bundle to that neighbour to make room.
    Migrate {
        /// Which.
        bundle: BundleHandle,
        /// To whom.
        to: NodeId,
    },
    /// Refuse the newcomer.
    Refuse,
}

/// What a control says unasked.
#[derive(Clone, PartialEq, Debug)]
pub enum ControlOutput {
    /// Tell a neighbour's control something.
    Signal(Signal),
}

/// A congestion control of one node.
pub trait Control: Send {
    /// Its name in configuration.
    fn name(&self) -> &'static str;
    /// Its parameters.
    fn params(&self) -> &'static [Param] {
        &[]
    }
    /// May this newcomer in?
    fn admit(&mut self, now: Instant, bundle: &BundleView, store: &StoreView) -> Result<(), Refusal> {
        let _ = (now, bundle, store);
        Ok(())
    }
    /// May the router's proposal be followed?
    fn allow(&mut self, now: Instant, bundle: &BundleView, proposal: &Proposal, store: &StoreView) -> bool {
        let _ = (now, bundle, proposal, store);
        true
    }
    /// `need` bytes are missing; `stored` are the candidates, oldest first.
    fn on_overflow(
        &mut self,
        now: Instant,
        need: u64,
        stored: &mut dyn Iterator<Item = BundleView>,
        out: &mut Vec<Overflow>,
    ) {
        let _ = (now, need, stored);
        out.push(Overflow::Refuse);
    }
    /// A neighbour's control says something.
    fn on_signal(&mut self, now: Instant, from: NodeId, bytes: &[u8], out: &mut dyn Sink<ControlOutput>) {
        let _ = (now, from, bytes, out);
    }
}
