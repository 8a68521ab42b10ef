//! The contract of routers: *where* a bundle goes.

use crate::plan_index::PlacedPlan;
use core::fmt;
use farlink_base::PeerId;
use farlink_book::{
    Actions, CopyOffer, DeliveryForecast, EventMask, Held, NextHop, Node, Peer, PolicyEvent, RouteDecision,
};

/// A router of one node. Decisions look; only [`Router::on`], [`Router::on_plan`] and
/// [`Router::route`], which may book, change it.
///
/// Planned bundles are pushed: [`Router::route`] says which link they belong to. Copies are pulled:
/// while a neighbour is up, [`Router::wants`] says what it should get next. The agent itself gives
/// a carried bundle to its destination first, and offers no neighbour what it has, made, gave or
/// failed at: no router repeats that.
///
/// [`fmt::Debug`] writes all of its state: nodes that write the same go on in the same way.
///
/// One file each, registered by one line in `registry.rs`.
pub trait Router: DeliveryForecast + fmt::Debug + Send {
    /// Which news it wants.
    fn hears(&self) -> EventMask {
        EventMask::NOTHING
    }
    /// Whether [`Router::wants`] is to be asked about carried bundles.
    fn copies(&self) -> bool {
        false
    }
    /// Whether neighbours tell each other what they hold before anything is copied (summary
    /// vectors).
    fn asks_summaries(&self) -> bool {
        false
    }
    /// Whether it reads the contact plan. Links of the plan are then used as it says only.
    fn uses_plan(&self) -> bool {
        false
    }
    /// The contact plan was loaded or replaced, or the clock that places it moved.
    fn on_plan(&mut self, node: &Node<'_>, plan: &PlacedPlan<'_>, out: &mut Actions) {
        let _ = (node, plan, out);
    }
    /// Something happened. O(1), or sliced by asking to be woken.
    fn on(&mut self, node: &Node<'_>, news: &PolicyEvent<'_>, out: &mut Actions) {
        let _ = (node, news, out);
    }
    /// Things that weighing a neighbour's message looks at, beside its own bytes and what is held. Who says much is
    /// heard the more seldom the more these are.
    fn looks(&self) -> usize {
        0
    }
    /// Where should this bundle go? `tried` are neighbours that refused it lately. What was booked
    /// for it before is void.
    fn route(&mut self, node: &Node<'_>, held: &Held, tried: &[PeerId], out: &mut Actions) -> RouteDecision {
        let _ = (node, held, tried, out);
        RouteDecision::Carry
    }
    /// Would a piece of this many encoded bytes go where the whole bundle does not (RFC 9171 5.8)?
    /// Asked after [`Router::route`] found no way for the whole; books nothing.
    fn route_part(&self, node: &Node<'_>, held: &Held, size: u64, tried: &[PeerId]) -> Option<NextHop> {
        let _ = (node, held, size, tried);
        None
    }
    /// Should this neighbour, which is up and lacks it, get this carried bundle?
    fn wants(&self, node: &Node<'_>, peer: &Peer, held: &Held) -> Option<CopyOffer> {
        let _ = (node, peer, held);
        None
    }
}
