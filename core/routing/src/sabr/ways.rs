//! Routes of a bundle from this node, given the plan, the links and the bookings. This module books nothing.

use super::{Loaded, Origin, OutsideLink, Planner, Query, Route, Sabr};
use crate::contact_plan::PlanClock;
use crate::{GroupId, PlanIndex, PlanTime};
use alloc::vec::Vec;
use farlink_base::{Instant, NodeId, PeerId};
use farlink_book::{DeliveryEstimate, DeliveryForecast, Held, NextHop, Node, Peer, StoreFlow};

/// A route with its next hop and its arrival on this node's clock.
#[derive(Debug)]
pub(super) struct Planned {
    pub route: Route,
    /// `None` while the first contact has no link: the bundle waits for it.
    pub leg: Option<NextHop>,
    pub arrival: Instant,
}

impl Sabr {
    /// The plan, if there is one and it can be placed on the clock.
    fn placed(&self) -> Option<(&Loaded, PlanClock)> {
        self.loaded.as_ref().and_then(|loaded| Some((loaded, loaded.clock?)))
    }
    /// Time scale of searches. Without a plan only links outside it count, for which any scale will do.
    pub(super) fn clock(&self) -> PlanClock {
        self.placed().map_or(PlanClock::starting(Instant::ZERO), |(_, clock)| clock)
    }

    fn query<'q>(&self, node: &Node<'_>, held: &Held, size: u64, excluded: &'q [NodeId]) -> Query<'q> {
        let clock = self.clock();
        Query {
            from: node.me,
            to: held.destination(),
            at: clock.plan_time(node.now),
            size,
            expires: if held.expires == Instant::MAX { PlanTime::MAX } else { clock.plan_time(held.expires) },
            priority: held.bundle.priority,
            excluded,
            profile: self.profile,
        }
    }

    /// The best route for this request.
    fn way(&self, planner: &mut Planner, node: &Node<'_>, query: &Query<'_>) -> Option<Planned> {
        let no_plan;
        let index: &PlanIndex = match self.placed() {
            Some((loaded, _)) => &loaded.index,
            None => {
                no_plan = PlanIndex::default();
                &no_plan
            }
        };
        let after_now = PlanTime(query.at.0.saturating_add(1));
        let usable = |group: GroupId| {
            let loaded = self.loaded.as_ref()?;
            let Some(link) = loaded.link(group) else {
                // Where no planned contact has a link, neighbours are met, and a link comes with its contact.
                return loaded.links.is_empty().then_some(after_now);
            };
            // A contact that runs over a failed link cannot be used; a later one can.
            Some(if self.down.contains(&link) { after_now } else { PlanTime(0) })
        };
        let outside = self.links_outside(node);
        let local = core::slice::from_ref(&node.me);
        let nodes = if self.local.is_empty() { local } else { &self.local };
        let origin = Origin { nodes, usable: &usable, outside: &outside };
        let volume = query.profile.volume(query.size);
        let bounds = self.bounds.as_deref().filter(|bounds| bounds.serves(index, query.to, query.at, volume));
        let route = planner.route_guided(index, &origin, query, &self.ledger.booked, bounds)?;
        let leg = self.leg(node.now, &route);
        let arrival = self.clock().instant(route.arrival);
        Some(Planned { route, leg, arrival })
    }

    /// Links outside the plan on its scale, one entry for each name of the neighbour.
    fn links_outside(&self, node: &Node<'_>) -> Vec<OutsideLink> {
        let clock = self.clock();
        let mut links = Vec::new();
        for (link, outside) in &self.outside {
            let Some(peer) = node.peers.get(outside.peer) else { continue };
            // `Instant::MAX` stands for no end and must not be converted.
            let never = outside.until == Instant::MAX;
            let until = if never { PlanTime::MAX } else { clock.plan_time(outside.until) };
            let named = |name| OutsideLink { link: *link, peer: name, rate: outside.rate, until };
            links.extend(names(peer).map(named));
        }
        links
    }

    fn leg(&self, now: Instant, route: &Route) -> Option<NextHop> {
        if let Some(link) = route.outside {
            let until = self.outside.get(&link)?.until;
            return Some(NextHop { link, not_before: now, until });
        }
        let (loaded, clock) = self.placed()?;
        let first = route.first_contact()?;
        let link = loaded.link(loaded.index.group_of(first)?)?;
        let contact = loaded.index.contact(first)?;
        Some(NextHop { link, not_before: clock.instant(contact.start), until: clock.instant(contact.end) })
    }

    /// The best route over a neighbour that is not in `avoid`, for a further copy of a critical bundle.
    pub(super) fn another(
        &self,
        planner: &mut Planner,
        node: &Node<'_>,
        held: &Held,
        avoid: &[NodeId],
    ) -> Option<Planned> {
        self.way(planner, node, &self.query(node, held, held.size(), avoid))
    }

    /// The best route that avoids the neighbours `tried` and the previous node; with `return_to_sender`, the previous
    /// node is used if there is no other route. `None` without a route, and for a group.
    pub(super) fn best(
        &self,
        planner: &mut Planner,
        node: &Node<'_>,
        held: &Held,
        size: u64,
        tried: &[PeerId],
    ) -> Option<Planned> {
        // A group is no node of the plan.
        if held.bundle.is_for_group() {
            return None;
        }
        let avoid = excluded(node, tried, held.from);
        let way = self.way(planner, node, &self.query(node, held, size, &avoid));
        if way.is_some() || !self.return_to_sender {
            return way;
        }
        // The second search also considers the node from which the bundle came.
        let avoid = excluded(node, tried, PeerId::NONE);
        self.way(planner, node, &self.query(node, held, size, &avoid))
    }

    /// Probability that all of these contacts take place.
    fn chance(&self, contacts: impl Iterator<Item = u32>) -> f64 {
        let confidence = |contact| self.loaded.as_ref()?.index.contact(contact).map(|c| c.confidence);
        contacts.filter_map(confidence).product()
    }

    fn prospect_at(&self, node: &Node<'_>, held: &Held, peer: &Peer) -> Option<DeliveryEstimate> {
        if peer.is(held.destination()) {
            return Some(DeliveryEstimate { chance: 1.0, arrival: node.now });
        }
        let (loaded, clock) = self.placed()?;
        let nodes: Vec<NodeId> = names(peer).collect();
        let origin = Origin { nodes: &nodes, usable: &|_| Some(PlanTime(0)), outside: &[] };
        let query = self.query(node, held, held.size(), &self.local);
        let route = Planner::default().route_from(&loaded.index, &origin, &query, &self.ledger.booked)?;
        let chance = self.chance(route.path.iter().filter_map(|hop| hop.contact));
        Some(DeliveryEstimate { chance, arrival: clock.instant(route.arrival) })
    }
}

/// Maximum number of contacts in a forecast.
const FLOWS_MAX: usize = 1024;

/// All node numbers of a neighbour.
pub(super) fn names(peer: &Peer) -> impl Iterator<Item = NodeId> {
    peer.names.iter().map(|name| name.id.node()).filter(|node| *node != NodeId::NULL)
}

/// Node numbers of the excluded neighbours and the previous node.
pub(super) fn excluded(node: &Node<'_>, tried: &[PeerId], from: PeerId) -> Vec<NodeId> {
    tried.iter().chain([&from]).filter_map(|peer| node.peers.get(*peer)).flat_map(names).collect()
}

impl DeliveryForecast for Sabr {
    /// Arrival over the booked route, or else over the route that the bundle would take now. The chance is the joint
    /// confidence of the route's contacts.
    fn prospect(&self, node: &Node<'_>, held: &Held, via: Option<&Peer>) -> Option<DeliveryEstimate> {
        if let Some(peer) = via {
            return self.prospect_at(node, held, peer);
        }
        if let Some((arrival, contacts)) = self.ledger.arrival(held.handle()) {
            return Some(DeliveryEstimate { chance: self.chance(contacts.iter().copied()), arrival });
        }
        let way = self.best(&mut Planner::default(), node, held, held.size(), &[])?;
        let chance = self.chance(way.route.path.iter().filter_map(|hop| hop.contact));
        Some(DeliveryEstimate { chance, arrival: way.arrival })
    }
    /// Flows of contacts towards and from this node. As in ION, light time is ignored: otherwise bundles would seem to
    /// leave over a contact in both directions before any arrive.
    fn flows(&self, node: &Node<'_>, until: Instant) -> Vec<StoreFlow> {
        let Some((loaded, clock)) = self.placed() else { return Vec::new() };
        let local = if self.local.is_empty() { core::slice::from_ref(&node.me) } else { &self.local };
        let (from, until) = (clock.plan_time(node.now), clock.plan_time(until));
        let groups = local.iter().flat_map(|me| {
            let comes = loaded.index.groups_to(*me).map(|group| (group, true));
            comes.chain(loaded.index.groups_from(*me).map(|group| (group, false)))
        });
        let contacts = groups.flat_map(|(group, comes)| {
            let contacts = &loaded.index.contacts(group)[loaded.index.first_after(group, from)..];
            contacts.iter().take_while(move |edge| edge.start < until.0).map(move |edge| {
                let at = |time: u64| clock.instant(PlanTime(time));
                StoreFlow { start: at(edge.start), end: at(edge.end), rate: edge.rate, comes }
            })
        });
        // Odd plans may have contacts that ended before others that still run.
        contacts.filter(|flow| flow.end > node.now).take(FLOWS_MAX).collect()
    }
}
