//! The contact plan of one node, on the monotonic clock.

use crate::neighbours::link::Placed;
use alloc::sync::Arc;
use alloc::vec::Vec;
use farlink_base::{Clock, Instant, LinkId};
use farlink_routing::contact_plan::PlanClock;
use farlink_routing::{GroupId, PlanIndex};

/// Contact plan, the clock that maps it to this node's time, and the link of each group of contacts.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    pub(super) index: Option<Arc<PlanIndex>>,
    pub(super) clock: Option<PlanClock>,
    /// Start of plans without epoch: the time at which a plan was first placed.
    bound: Option<Instant>,
    /// Link of each group of contacts in which this node transmits.
    pub(super) links: Vec<(GroupId, LinkId)>,
}

impl Plan {
    /// Sets the plan; the next call of `place` maps it to this node's clock.
    pub fn preload(&mut self, index: Arc<PlanIndex>) {
        self.index = Some(index);
    }
    pub fn index(&self) -> Option<&Arc<PlanIndex>> {
        self.index.as_ref()
    }
    pub fn placed(&self) -> Option<Placed<'_>> {
        self.index.as_deref().map(|index| Placed { index, clock: self.clock })
    }
    pub(super) fn place(&mut self, now: Instant, clock: &Clock) {
        // A plan without epoch keeps its start when it is replaced.
        let bound = *self.bound.get_or_insert(now);
        self.clock = self.index.as_ref().and_then(|index| match index.plan().epoch {
            Some(_) => PlanClock::of_epoch(index.plan(), clock),
            None => Some(PlanClock::starting(bound)),
        });
    }
}
