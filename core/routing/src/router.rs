//! Contract of routers, which decide *where* a bundle goes.

use crate::plan_index::PlacedPlan;
use core::fmt;
use farlink_base::PeerId;
use farlink_book::{
    Actions, CopyOffer, DeliveryForecast, EventMask, Held, NextHop, Node, Peer, PolicyEvent, RouteDecision,
};

/// A router of one node. [`Router::on`], [`Router::on_plan`] and [`Router::route`] may change its state; the other
/// decisions only read it.
///
/// Planned bundles are pushed: [`Router::route`] assigns them to a link. Copies are pulled: while a neighbour is up,
/// [`Router::wants`] decides which bundles it gets next. The agent itself first passes carried bundles to their
/// destination, and offers no neighbour a bundle that it has, created, sent here or failed to take: routers need not
/// check that again.
///
/// [`fmt::Debug`] writes all of a router's state: nodes with equal output continue in the same way.
///
/// Each router is one file, registered by one entry in `registry.rs`.
pub trait Router: DeliveryForecast + fmt::Debug + Send {
    /// Events that the router handles.
    fn hears(&self) -> EventMask {
        EventMask::NOTHING
    }
    /// Whether [`Router::wants`] is asked about carried bundles.
    fn copies(&self) -> bool {
        false
    }
    /// Whether neighbours exchange lists of their bundles before copies are made (summary vectors).
    fn asks_summaries(&self) -> bool {
        false
    }
    /// Whether the router reads the contact plan. Links of the plan are then used during contacts only.
    fn uses_plan(&self) -> bool {
        false
    }
    /// Handles a new or replaced contact plan, or a change of the clock that places it.
    fn on_plan(&mut self, node: &Node<'_>, plan: &PlacedPlan<'_>, out: &mut Actions) {
        let _ = (node, plan, out);
    }
    /// Handles an event in constant time, or in slices with the help of wake-ups.
    fn on(&mut self, node: &Node<'_>, event: &PolicyEvent<'_>, out: &mut Actions) {
        let _ = (node, event, out);
    }
    /// Number of table entries examined for one message of a neighbour, besides the bytes of the message and the held
    /// bundles. The more there are, the less often messages of a neighbour are read.
    fn looks(&self) -> usize {
        0
    }
    /// Decides where a bundle goes. `tried` are neighbours that recently refused it. Earlier bookings of the bundle
    /// become void.
    fn route(&mut self, node: &Node<'_>, held: &Held, tried: &[PeerId], out: &mut Actions) -> RouteDecision {
        let _ = (node, held, tried, out);
        RouteDecision::Carry
    }
    /// Finds a next hop for a fragment of `size` encoded bytes where the whole bundle has no route (RFC 9171 5.8).
    /// Called after [`Router::route`] found none; books nothing.
    fn route_part(&self, node: &Node<'_>, held: &Held, size: u64, tried: &[PeerId]) -> Option<NextHop> {
        let _ = (node, held, size, tried);
        None
    }
    /// Decides whether a neighbour that is up and lacks this carried bundle should get it.
    fn wants(&self, node: &Node<'_>, peer: &Peer, held: &Held) -> Option<CopyOffer> {
        let _ = (node, peer, held);
        None
    }
}
