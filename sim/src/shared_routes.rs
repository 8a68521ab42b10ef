//! Shared routes: a route computed by one node is adopted for some seconds by later nodes on its path. A search covers
//! all satellites; without sharing, each node on a path of dozens of hops would search again, only to find the rest of
//! the same path.
//!
//! Real nodes do not share this knowledge, so a scenario must request it (`shared_routes`). Bookings of contacts are
//! not shared: where contacts are full, nodes that search choose other paths, and nodes that adopt a route wait.

use crate::own::OwnPolicies;
use farlink_base::{Duration, EndpointId, Facts, Instant, NodeId, PeerId, Rng};
use farlink_book::{
    Actions, DeliveryEstimate, DeliveryForecast, EventMask, Held, NextHop, Node, Peer, PolicyEvent, RouteDecision,
    StoreFlow,
};
use farlink_congestion::Control;
use farlink_routing::sabr::{Guide, Sabr};
use farlink_routing::{PlacedPlan, PlanIndex, Router};
use farlink_scenario::Scenario;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

/// Validity of a shared route: a contact that begins later might offer a faster one.
const HOLDS: Duration = Duration::from_secs(10);
/// Largest number of hops kept; beyond it the table is cleared.
const HOPS_MAX: usize = 1 << 20;

/// Next hop of a shared route.
#[derive(Clone, Copy, Debug)]
struct Hop {
    to: NodeId,
    until: Instant,
}

/// Routes found by the nodes of a simulation.
#[derive(Default, Debug)]
pub(crate) struct Found {
    /// Hops by node and destination; never iterated.
    hops: Mutex<HashMap<(NodeId, NodeId), Hop>>,
    /// Search guide, which affects the computing time but not the routes.
    guide: Mutex<Guide>,
}

impl Found {
    fn hop(&self, here: NodeId, to: NodeId, now: Instant) -> Option<NodeId> {
        let hops = self.hops.lock().ok()?;
        hops.get(&(here, to)).filter(|hop| now <= hop.until).map(|hop| hop.to)
    }
    fn insert(&self, to: NodeId, way: impl Iterator<Item = (NodeId, NodeId)>, until: Instant) {
        let Ok(mut hops) = self.hops.lock() else { return };
        if hops.len() >= HOPS_MAX {
            // Clearing is simple and rare; the next searches fill the table again.
            hops.clear();
        }
        hops.extend(way.map(|(from, hop)| ((from, to), Hop { to: hop, until })));
    }
}

/// Router of one node that follows shared routes and searches without one.
#[derive(Debug)]
pub(crate) struct Follower {
    own: Sabr,
    found: Arc<Found>,
    plan: Option<Arc<PlanIndex>>,
}

impl Follower {
    pub fn new(own: Sabr, found: Arc<Found>) -> Follower {
        Follower { own, found, plan: None }
    }

    fn follow(&self, node: &Node<'_>, held: &Held) -> Option<NextHop> {
        // A shared route is followed only to a next hop in contact, and never back to the previous node.
        let hop = self.found.hop(node.me, held.destination(), node.now)?;
        let peer = node.peers.of(hop).filter(|peer| peer.id != held.from)?;
        Some(NextHop { link: *peer.up.first()?, not_before: node.now, until: Instant::MAX })
    }

    fn share(&self, node: &Node<'_>, held: &Held, leg: &NextHop) {
        // Share only a route whose contacts are all open now: a later one could still be improved.
        let Some(plan) = self.plan.as_ref().filter(|_| leg.not_before <= node.now) else { return };
        let Some(next) = node.peers.up().find(|peer| peer.up.contains(&leg.link)) else { return };
        let mut until = node.now + HOLDS;
        let mut way = vec![(node.me, next.node)];
        for contact in self.own.planned(held.handle()).unwrap_or(&[]) {
            let Some(contact) = plan.contact(*contact) else { return };
            if contact.start.0 > node.now.0 {
                return;
            }
            until = until.min(Instant(contact.end.0));
            way.push((contact.from, contact.to));
        }
        self.found.insert(held.destination(), way.into_iter(), until);
    }
}

impl DeliveryForecast for Follower {
    fn prospect(&self, node: &Node<'_>, held: &Held, via: Option<&Peer>) -> Option<DeliveryEstimate> {
        self.own.prospect(node, held, via)
    }
    fn flows(&self, node: &Node<'_>, until: Instant) -> Vec<StoreFlow> {
        self.own.flows(node, until)
    }
}

impl Router for Follower {
    fn hears(&self) -> EventMask {
        self.own.hears()
    }
    fn uses_plan(&self) -> bool {
        true
    }
    fn on_plan(&mut self, node: &Node<'_>, plan: &PlacedPlan<'_>, out: &mut Actions) {
        self.plan = Some(plan.index.clone());
        self.own.on_plan(node, plan, out);
    }
    fn on(&mut self, node: &Node<'_>, news: &PolicyEvent<'_>, out: &mut Actions) {
        self.own.on(node, news, out);
    }
    fn route(&mut self, node: &Node<'_>, held: &Held, tried: &[PeerId], out: &mut Actions) -> RouteDecision {
        // Critical bundles, group bundles and retries need a search of their own.
        let alone = !tried.is_empty() || held.bundle.facts.has(Facts::CRITICAL) || held.bundle.is_for_group();
        if let Some(leg) = self.follow(node, held).filter(|_| !alone) {
            return RouteDecision::One(leg);
        }
        let way = match self.found.guide.lock() {
            Ok(mut guide) => self.own.route_guided(&mut guide, node, held, tried, out),
            Err(_) => self.own.route(node, held, tried, out),
        };
        if let (RouteDecision::One(leg), false) = (&way, alone) {
            self.share(node, held, leg);
        }
        way
    }
    fn route_part(&self, node: &Node<'_>, held: &Held, size: u64, tried: &[PeerId]) -> Option<NextHop> {
        self.own.route_part(node, held, size, tried)
    }
}

/// Policies with shared routes, if the scenario requests them; policies of the caller take precedence.
pub(crate) struct Shared<'a> {
    own: &'a dyn OwnPolicies,
    scenario: &'a Scenario,
    found: Arc<Found>,
}
impl<'a> Shared<'a> {
    pub fn new(own: &'a dyn OwnPolicies, scenario: &'a Scenario) -> Shared<'a> {
        Shared { own, scenario, found: Arc::default() }
    }
}
impl OwnPolicies for Shared<'_> {
    fn router(&self, node: usize) -> Option<Box<dyn Router>> {
        let brought = self.own.router(node);
        let here = self.scenario.nodes.get(node).filter(|here| here.router.name == "sabr");
        let Some(here) = here.filter(|_| self.scenario.shared_routes && brought.is_none()) else { return brought };
        // Errors in the parameters are reported when the unshared router is built.
        let params = farlink_base::resolve_params(Sabr::PARAMS, &here.router.params, "router.sabr").ok()?;
        let seed = Rng::stream(self.scenario.seed, 2 << 32 | node as u64).next_u64();
        let names: Vec<NodeId> = here.ids.iter().filter_map(|id| Some(id.parse::<EndpointId>().ok()?.node())).collect();
        Some(Box::new(Follower::new(Sabr::new(&params, &names, seed), self.found.clone())))
    }
    fn control(&self, node: usize) -> Option<Box<dyn Control>> {
        self.own.control(node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cached_routes_expire_within_bounds() {
        let (found, [a, b, c]) = (Found::default(), [1, 2, 3].map(NodeId));
        found.insert(c, [(a, b), (b, c)].into_iter(), Instant(10));
        assert_eq!([found.hop(a, c, Instant(10)), found.hop(b, c, Instant(0))], [Some(b), Some(c)]);
        assert_eq!([found.hop(a, c, Instant(11)), found.hop(c, a, Instant(0))], [None, None]);
        for n in 0..HOPS_MAX as u64 + 10 {
            found.insert(c, std::iter::once((NodeId(n), b)), Instant(10));
        }
        assert!(found.hops.lock().unwrap().len() <= HOPS_MAX);
    }
}
