//! The contact plan as seen by the congestion control.

use crate::neighbours::plan::Plan;
use farlink_base::{Instant, NodeId};
use farlink_book::{Journey, Journeys};
use farlink_routing::PlanTime;

impl Journeys for Plan {
    /// Computed from the plan's address in memory and its start on the clock: a new plan is allocated before the old
    /// one is freed, so their addresses differ.
    fn edition(&self) -> u64 {
        let place = self.index().map_or(0, |index| alloc::sync::Arc::as_ptr(index).addr() as u64);
        // The plan's clock is represented by the conversion of one time; 2^62 ns is far from both ends, where it would
        // saturate.
        place ^ self.clock.map_or(0, |clock| clock.instant(PlanTime(1 << 62)).0)
    }
    /// Zero without a plan, and while the plan is in wall time and the node has no trusted clock.
    fn nodes(&self) -> u32 {
        self.clock.and(self.index()).map_or(0, |index| index.node_count())
    }
    fn place(&self, node: NodeId) -> Option<u32> {
        self.index()?.place_of(node)
    }
    fn journey(&self, from: u32, to: u32, at: Instant, size: u64, avoid: &[u32]) -> Option<Journey> {
        let (clock, index) = (self.clock?, self.index()?);
        let way = index.journey(from, to, clock.plan_time(at).0, size, avoid)?;
        let on_clock = |time| clock.instant(PlanTime(time));
        Some(Journey {
            departs: on_clock(way.departs),
            departs_by: on_clock(way.departs_by),
            arrives: on_clock(way.arrives),
        })
    }
    fn contact_end(&self, from: u32, to: u32, now: Instant) -> Option<Instant> {
        let (clock, index) = (self.clock?, self.index()?);
        index.contact_end(from, to, clock.plan_time(now).0).map(|end| clock.instant(PlanTime(end)))
    }
}
