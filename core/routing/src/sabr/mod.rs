//! Schedule-aware bundle routing (CCSDS 734.3-B-1): the route that delivers a bundle first, given
//! the contact plan and what is already booked of its contacts.
//!
//! Parts: [`Planner`] searches ([`find_route`] for one question), [`Booked`] keeps volumes, the
//! ledger which bundle holds them, [`Profile`] says whose overheads count, `ways.rs` asks what a
//! bundle can do from here; [`Sabr`] is the router of one node, which books.

mod booking;
mod bounds;
mod ledger;
mod profile;
mod question;
mod search;
mod ways;

pub use booking::Booked;
pub use bounds::{Bounds, Guide};
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
use ledger::Ledger;
use ways::{Planned, excluded, names};

/// How often volumes of contacts that are over are forgotten.
const FORGET_EVERY: Duration = Duration::from_secs(60);
/// Neighbours a critical bundle is copied to at most.
const CRITICAL_COPIES_MAX: usize = 16;
/// Bundles of a failed contact that are asked about again in one call.
const SLICE: usize = 256;

/// A plan placed on the node's clock. The index is shared by all nodes of the process.
#[derive(Debug)]
struct Loaded {
    index: Arc<PlanIndex>,
    /// `None` while the plan is in wall time and the node has no clock it trusts.
    clock: Option<PlanClock>,
    /// Link of each group this node transmits in, in order.
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

/// The router of one node.
#[derive(Debug)]
pub struct Sabr {
    profile: Profile,
    return_to_sender: bool,
    local: Vec<NodeId>,
    seed: u64,
    loaded: Option<Loaded>,
    planner: Planner,
    /// What guides searches, where somebody does.
    bounds: Option<Arc<Bounds>>,
    ledger: Ledger,
    outside: BTreeMap<LinkId, Outside>,
    /// Links of the plan that went down while a contact was running.
    down: BTreeSet<LinkId>,
    /// Contacts that failed, with bundles that are to be asked about again.
    abandoned: BTreeSet<u32>,
    forget_at: PlanTime,
}

impl Sabr {
    /// Parameters.
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

    /// A router for the node with these identifiers; `params` are values of [`Sabr::PARAMS`].
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
            ledger: Ledger::new(seed),
            outside: BTreeMap::new(),
            down: BTreeSet::new(),
            abandoned: BTreeSet::new(),
            forget_at: PlanTime(0),
        }
    }

    /// Contacts with volume booked, and legs that hold some.
    pub fn booked(&self) -> (usize, usize) {
        (self.ledger.booked.len(), self.ledger.len())
    }

    /// Contacts of the plan that a bundle's route goes over, in order; a link outside the plan is none.
    pub fn planned(&self, bundle: Handle) -> Option<&[u32]> {
        self.ledger.arrival(bundle).map(|(_, contacts)| contacts)
    }

    /// [`Router::route`] with a guide that several nodes share: it finds the same route, sooner.
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

    /// Books a way, and asks again about what no longer fits.
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

    /// A critical bundle goes over every neighbour that leads there.
    fn copies(
        &mut self,
        planner: &mut Planner,
        node: &Node<'_>,
        held: &Held,
        mut avoid: Vec<NodeId>,
        first: Planned,
        out: &mut Actions,
    ) -> RouteDecision {
        let (mut legs, mut last) = (alloc::vec![first.leg], first);
        while legs.len() < CRITICAL_COPIES_MAX {
            let Some(hop) = last.route.next_hop() else { break };
            avoid.push(hop);
            avoid.extend(node.peers.of(hop).into_iter().flat_map(names));
            let Some(way) = self.another(planner, node, held, &avoid) else { break };
            self.book(node.now, held, &way, out);
            legs.push(way.leg);
            last = way;
        }
        if legs.len() == 1 { RouteDecision::One(legs[0]) } else { RouteDecision::All(legs) }
    }

    /// Overbooking (CCSDS 734.3-B-1, overbooking management): while less urgent bundles were
    /// promised more of the contact than is left, the latest of the least urgent is asked about
    /// again.
    fn bump(&mut self, contact: u32, by: Priority, out: &mut Actions) {
        let Some(loaded) = &self.loaded else { return };
        while self.ledger.booked.is_overbooked(&loaded.index, contact, Priority::Bulk) {
            let Some(victim) = self.ledger.least(contact, by) else { return };
            self.ledger.release(victim, |_| true);
            out.push(Action::Reroute(victim));
        }
    }

    /// Asks again about bundles whose contact failed, some at a time.
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
        out.push(Action::Wake(now));
    }

    fn link_up(&mut self, node: &Node<'_>, link: LinkId, outside: Outside, out: &mut Actions) {
        let Some(loaded) = self.loaded.as_ref().filter(|loaded| loaded.has(link)) else {
            let names = node.peers.get(outside.peer).map_or(&[][..], |peer| &peer.names);
            let known = |id: NodeId| self.loaded.as_ref().is_some_and(|l| l.index.place(id).is_some());
            // A neighbour the plan knows may be the way to anywhere; another only to itself.
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
            self.abandoned.retain(|contact| over(*contact) != Some(link));
            out.push(Action::RerouteAll);
        }
    }

    /// A link of the plan that fails while its contact runs: the bundles that wait for it are asked
    /// about again, and may take a sibling. At the end of its contact nothing needs to be done.
    fn link_down(&mut self, now: Instant, link: LinkId, out: &mut Actions) {
        if self.outside.remove(&link).is_some() {
            return; // the agent asks again about what was queued for it
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

/// Whether a leg to this node is one to this neighbour; one without a name may be any.
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
            // Indices mean other contacts now: bookings and the index go together.
            self.ledger = Ledger::new(self.seed);
            self.abandoned.clear();
        }
        self.forget_at = PlanTime(0);
        let mut links = plan.links.to_vec();
        links.sort_unstable();
        let loaded = Loaded { index: plan.index.clone(), clock: plan.clock, links };
        self.outside.retain(|link, _| !loaded.has(*link));
        self.down.retain(|link| loaded.has(*link));
        // Links the plan no longer names stay in use while they are up.
        for peer in node.peers.up() {
            let outside = Outside { peer: peer.id, rate: peer.rate, until: Instant::MAX };
            for link in peer.up.iter().filter(|link| !loaded.has(**link)) {
                self.outside.entry(*link).or_insert(outside);
            }
        }
        self.loaded = Some(loaded);
        out.push(Action::RerouteAll);
    }

    fn on(&mut self, node: &Node<'_>, news: &PolicyEvent<'_>, out: &mut Actions) {
        match *news {
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
        // What the bundle held so far must not stand in its own way.
        self.ledger.release(held.handle(), |_| true);
        let mut planner = core::mem::take(&mut self.planner);
        let way = self.best(&mut planner, node, held, held.size(), tried).map(|way| {
            self.book(node.now, held, &way, out);
            if held.bundle.facts.has(Facts::CRITICAL) {
                return self.copies(&mut planner, node, held, excluded(node, tried, held.from), way, out);
            }
            RouteDecision::One(way.leg)
        });
        self.planner = planner;
        way.unwrap_or(RouteDecision::Wait(held.expires))
    }

    fn route_part(&self, node: &Node<'_>, held: &Held, size: u64, tried: &[PeerId]) -> Option<NextHop> {
        Some(self.best(&mut Planner::default(), node, held, size, tried)?.leg)
    }
}

#[cfg(test)]
mod tests;
