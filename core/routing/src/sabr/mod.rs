//! Schedule-aware bundle routing (CCSDS 734.3-B-1): the route with the earliest delivery, given the contact plan and
//! the volume already booked.
//!
//! Parts: [`Planner`] searches ([`find_route`] for a single request), [`Booked`] keeps volumes, the ledger keeps
//! which bundle booked them, [`Profile`] selects overheads, `ways.rs` finds routes from this node; [`Sabr`] is the
//! router of one node, which books.

mod booking;
mod bounds;
mod ledger;
mod profile;
mod question;
mod search;
mod ways;

pub use booking::Booked;
pub use bounds::{Guide, SearchBounds};
pub use profile::Profile;
pub use question::{Hop, Origin, OutsideLink, Query, Route};
pub use search::{Planner, find_route};

use crate::contact_plan::PlanClock;
use crate::router::Router;
use crate::{GroupId, PlacedPlan, PlanIndex, PlanTime};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;
use farlink_base::{DataRate, Duration, Facts, Instant, LinkId, NodeId, Param, PeerId, Priority};
use farlink_book::{Action, Actions, EventMask, Handle, Held, NextHop, Node, PolicyEvent, RouteDecision};
use ledger::BookingLedger;
use ways::{Planned, excluded, names};

/// Interval after which volumes of past contacts are forgotten.
const FORGET_EVERY: Duration = Duration::from_secs(60);
/// Maximum number of neighbours to which a critical bundle is copied.
const CRITICAL_COPIES_MAX: usize = 16;
/// Maximum number of bundles of failed contacts that are rerouted per call.
const SLICE: usize = 256;

/// A plan placed on the node's clock. All nodes of a process share its index.
#[derive(Debug)]
struct Loaded {
    index: Arc<PlanIndex>,
    /// Clock of the plan; `None` if the plan is in wall time and this node has no trusted clock.
    clock: Option<PlanClock>,
    /// Links of the groups in which this node transmits, ordered by group.
    links: Vec<(GroupId, LinkId)>,
}

impl Loaded {
    fn link(&self, group: GroupId) -> Option<LinkId> {
        let place = self.links.binary_search_by_key(&group, |(group, _)| *group).ok()?;
        Some(self.links[place].1)
    }
    fn has(&self, link: LinkId) -> bool {
        self.links.iter().any(|(_, planned)| *planned == link)
    }
    /// Contacts of a link that run now.
    fn running(&self, link: LinkId, now: Instant) -> impl Iterator<Item = u32> {
        let at = self.clock.map_or(PlanTime(0), |clock| clock.plan_time(now)).0;
        let groups = self.links.iter().filter(move |(_, l)| self.clock.is_some() && *l == link);
        groups.flat_map(move |(group, _)| {
            let edges = &self.index.contacts(*group)[self.index.first_after(*group, PlanTime(at))..];
            let begun = edges.iter().take_while(move |edge| edge.start <= at);
            begun.filter(move |edge| at < edge.end).map(|edge| edge.contact)
        })
    }
}

/// A link outside the plan that is up.
#[derive(Clone, Copy, Debug)]
struct Outside {
    peer: PeerId,
    rate: Option<DataRate>,
    until: Instant,
}

/// SABR router of one node.
#[derive(Debug)]
pub struct Sabr {
    profile: Profile,
    return_to_sender: bool,
    local: Vec<NodeId>,
    seed: u64,
    loaded: Option<Loaded>,
    planner: Planner,
    /// Bounds that guide the current search, if any.
    bounds: Option<Arc<SearchBounds>>,
    ledger: BookingLedger,
    outside: BTreeMap<LinkId, Outside>,
    /// Links of the plan that went down during a contact.
    down: BTreeSet<LinkId>,
    /// Failed contacts with bundles that must be rerouted.
    abandoned: BTreeSet<u32>,
    forget_at: PlanTime,
}

impl Sabr {
    /// Parameters of the router.
    pub const PARAMS: &'static [Param] = &[
        Param {
            name: "profile",
            help: "Overheads counted: 0 exact (none, what the plan says), 1 sabr (3 %, at least 100 B), 2 ion (1/16, \
                   at least 36 B, and a light-time margin).",
            unit: "",
            default: 0.0,
            min: 0.0,
            max: 2.0,
        },
        Param {
            name: "return_to_sender",
            help: "1: a bundle may go back to the neighbour it came from when no other route is left; 0: it waits, so \
                   that two nodes with different plans cannot play ping-pong.",
            unit: "",
            default: 0.0,
            min: 0.0,
            max: 1.0,
        },
    ];

    /// Router for the node with these identifiers, with values of [`Sabr::PARAMS`].
    pub fn new(params: &[f64], local: &[NodeId], seed: u64) -> Self {
        let param = |index: usize| params.get(index).copied().unwrap_or(0.0);
        Sabr {
            profile: Profile::from_number(param(0)),
            return_to_sender: param(1) >= 0.5,
            local: local.to_vec(),
            seed,
            loaded: None,
            planner: Planner::default(),
            bounds: None,
            ledger: BookingLedger::new(seed),
            outside: BTreeMap::new(),
            down: BTreeSet::new(),
            abandoned: BTreeSet::new(),
            forget_at: PlanTime(0),
        }
    }

    /// Number of contacts with booked volume, and of next hops with a booking.
    pub fn booked(&self) -> (usize, usize) {
        (self.ledger.booked.len(), self.ledger.len())
    }

    /// Contacts of a bundle's booked route, in order; of several routes (critical bundle), the one that arrives first.
    /// Hops over links outside the plan have no contact and are left out. `None` without a booking.
    pub fn planned(&self, bundle: Handle) -> Option<&[u32]> {
        self.ledger.arrival(bundle).map(|(_, contacts)| contacts)
    }

    /// Like [`Router::route`], with a guide that several nodes share: it finds the same route sooner.
    pub fn route_guided(
        &mut self,
        guide: &mut Guide,
        node: &Node<'_>,
        held: &Held,
        tried: &[PeerId],
        out: &mut Actions,
    ) -> RouteDecision {
        let volume = self.profile.volume(held.size());
        self.bounds = self.loaded.as_ref().and_then(|loaded| {
            let at = loaded.clock?.plan_time(node.now);
            guide.bounds(&loaded.index, held.destination(), at, volume)
        });
        core::mem::swap(&mut self.planner, guide.planner());
        let way = self.route(node, held, tried, out);
        core::mem::swap(&mut self.planner, guide.planner());
        self.bounds = None;
        way
    }

    /// Books a route, and reroutes less urgent bundles that no longer fit.
    fn book(&mut self, now: Instant, held: &Held, way: &Planned, out: &mut Actions) {
        let (clock, priority) = (self.clock(), held.bundle.priority);
        if let (Some(loaded), Some(first)) = (&self.loaded, way.route.first_contact()) {
            self.ledger.booked.pass(&loaded.index, first, clock.plan_time(now));
        }
        self.ledger.book(held.handle(), &way.route, priority, way.arrival);
        for contact in way.route.path.iter().filter_map(|hop| hop.contact) {
            self.bump(contact, priority, out);
        }
    }

    /// Routes a critical bundle over every neighbour that leads to its destination.
    fn copies(
        &mut self,
        planner: &mut Planner,
        node: &Node<'_>,
        held: &Held,
        mut avoid: Vec<NodeId>,
        first: Planned,
        out: &mut Actions,
    ) -> RouteDecision {
        let (mut legs, mut last): (Vec<_>, _) = (first.leg.into_iter().collect(), first);
        while legs.len() < CRITICAL_COPIES_MAX {
            let Some(hop) = last.route.next_hop() else { break };
            avoid.push(hop);
            // A neighbour may be in the plan under several names.
            avoid.extend(node.peers.of(hop).into_iter().flat_map(names));
            let Some(way) = self.another(planner, node, held, &avoid) else { break };
            if let Some(leg) = way.leg {
                self.book(node.now, held, &way, out);
                legs.push(leg);
            }
            last = way;
        }
        match legs[..] {
            [] => RouteDecision::Wait(held.expires),
            [leg] => RouteDecision::One(leg),
            _ => RouteDecision::All(legs),
        }
    }

    /// Overbooking management (CCSDS 734.3-B-1): while more of the contact is booked than it carries, reroutes the
    /// latest of the least urgent bundles, as long as they are less urgent than `by`.
    fn bump(&mut self, contact: u32, by: Priority, out: &mut Actions) {
        let Some(loaded) = &self.loaded else { return };
        while self.ledger.booked.is_overbooked(&loaded.index, contact, Priority::Bulk) {
            // Bundles of equal urgency keep their bookings.
            let Some(victim) = self.ledger.least(contact, by) else { return };
            self.ledger.release(victim, |_| true);
            out.push(Action::Reroute(victim));
        }
    }

    /// Reroutes bundles of failed contacts, at most [`SLICE`] per call.
    fn sweep(&mut self, now: Instant, out: &mut Actions) {
        for _ in 0..SLICE {
            let Some(contact) = self.abandoned.first().copied() else { return };
            match self.ledger.first_on(contact) {
                Some(bundle) => {
                    self.ledger.release(bundle, |_| true);
                    out.push(Action::Reroute(bundle));
                }
                None => drop(self.abandoned.pop_first()),
            }
        }
        // Further bundles are rerouted in the next call, which `Wake` requests.
        out.push(Action::Wake(now));
    }

    fn link_up(&mut self, node: &Node<'_>, link: LinkId, outside: Outside, out: &mut Actions) {
        let Some(loaded) = self.loaded.as_ref().filter(|loaded| loaded.has(link)) else {
            let names = node.peers.get(outside.peer).map_or(&[][..], |peer| &peer.names);
            let known = |id: NodeId| self.loaded.as_ref().is_some_and(|l| l.index.place(id).is_some());
            // A neighbour in the plan may lead anywhere, any other only to itself.
            if names.iter().any(|name| known(name.id.node())) {
                out.push(Action::RerouteAll);
            } else {
                names.iter().for_each(|name| out.push(Action::RerouteTo(name.id.node())));
            }
            self.outside.insert(link, outside);
            return;
        };
        if self.down.remove(&link) {
            let over = |contact: u32| loaded.index.group_of(contact).and_then(|group| loaded.link(group));
            // The contact may be used again.
            self.abandoned.retain(|contact| over(*contact) != Some(link));
            out.push(Action::RerouteAll);
        }
    }

    /// Handles the failure of a planned link during a contact: its bundles are rerouted and may take another link. At
    /// the end of a contact nothing needs to be done.
    fn link_down(&mut self, now: Instant, link: LinkId, out: &mut Actions) {
        if self.outside.remove(&link).is_some() {
            return; // the agent reroutes the bundles queued for it
        }
        let Some(loaded) = &self.loaded else { return };
        let before = self.abandoned.len();
        self.abandoned.extend(loaded.running(link, now));
        if self.abandoned.len() > before {
            self.down.insert(link);
            self.sweep(now, out);
        }
    }

    fn forget_past(&mut self, now: Instant) {
        let Some(loaded) = &self.loaded else { return };
        let Some(at) = loaded.clock.map(|clock| clock.plan_time(now)) else { return };
        if at >= self.forget_at {
            self.ledger.booked.forget_before(&loaded.index, at);
            self.forget_at = at.saturating_add(FORGET_EVERY);
        }
    }
}

/// Whether a next hop is this neighbour; an unnamed neighbour may be any.
fn leads_to(node: &Node<'_>, to: PeerId, next_hop: NodeId) -> bool {
    node.peers.get(to).is_none_or(|peer| peer.names.is_empty() || peer.is(next_hop))
}

impl Router for Sabr {
    fn hears(&self) -> EventMask {
        EventMask::LINKS.and(EventMask::OUTCOMES).and(EventMask::GONE)
    }
    fn uses_plan(&self) -> bool {
        true
    }

    fn on_plan(&mut self, node: &Node<'_>, plan: &PlacedPlan<'_>, out: &mut Actions) {
        let same = |loaded: &Loaded| Arc::ptr_eq(&loaded.index, plan.index) || loaded.index.plan() == plan.index.plan();
        if !self.loaded.as_ref().is_some_and(same) {
            // The indices now denote other contacts, so the bookings end with the old plan.
            self.ledger = BookingLedger::new(self.seed);
            self.abandoned.clear();
        }
        self.forget_at = PlanTime(0);
        let mut links = plan.links.to_vec();
        links.sort_unstable();
        let loaded = Loaded { index: plan.index.clone(), clock: plan.clock, links };
        self.outside.retain(|link, _| !loaded.has(*link));
        self.down.retain(|link| loaded.has(*link));
        // Links that the plan no longer names stay in use while they are up.
        for peer in node.peers.up() {
            let outside = Outside { peer: peer.id, rate: peer.rate, until: Instant::MAX };
            for link in peer.up.iter().filter(|link| !loaded.has(**link)) {
                self.outside.entry(*link).or_insert(outside);
            }
        }
        self.loaded = Some(loaded);
        out.push(Action::RerouteAll);
    }

    fn on(&mut self, node: &Node<'_>, event: &PolicyEvent<'_>, out: &mut Actions) {
        match *event {
            PolicyEvent::LinkUp { peer, link, rate, until } => {
                let until = until.unwrap_or(Instant::MAX);
                self.link_up(node, link, Outside { peer, rate, until }, out);
            }
            PolicyEvent::LinkDown { link, .. } => self.link_down(node.now, link, out),
            PolicyEvent::Sent { bundle, to, .. } => self.ledger.use_up(bundle, |hop| leads_to(node, to, hop)),
            PolicyEvent::Failed { bundle, to, .. } => self.ledger.release(bundle, |hop| leads_to(node, to, hop)),
            PolicyEvent::Gone { bundle, .. } => self.ledger.release(bundle, |_| true),
            PolicyEvent::Wake => self.sweep(node.now, out),
            _ => {}
        }
    }

    fn route(&mut self, node: &Node<'_>, held: &Held, tried: &[PeerId], out: &mut Actions) -> RouteDecision {
        self.forget_past(node.now);
        // The bundle's own booking must not block its new route.
        self.ledger.release(held.handle(), |_| true);
        // The planner is taken out of the router, because the search borrows the router.
        let mut planner = core::mem::take(&mut self.planner);
        let way = self.best(&mut planner, node, held, held.size(), tried).and_then(|way| {
            if way.leg.is_some() {
                self.book(node.now, held, &way, out);
            }
            if held.bundle.facts.has(Facts::CRITICAL) {
                return Some(self.copies(&mut planner, node, held, excluded(node, tried, held.from), way, out));
            }
            way.leg.map(RouteDecision::One)
        });
        self.planner = planner;
        way.unwrap_or(RouteDecision::Wait(held.expires))
    }

    fn route_part(&self, node: &Node<'_>, held: &Held, size: u64, tried: &[PeerId]) -> Option<NextHop> {
        self.best(&mut Planner::default(), node, held, size, tried)?.leg
    }
}

#[cfg(test)]
mod tests;
