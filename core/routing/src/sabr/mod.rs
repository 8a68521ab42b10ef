//! Schedule-aware bundle routing (CCSDS 734.3-B-1): the route that delivers a bundle first, given
//! the contact plan and what is already booked of its contacts.
//!
//! Parts: [`Planner`] searches ([`find_route`] for one question), [`Booked`] keeps volumes,
//! [`Profile`] says whose overheads count, [`Sabr`] is the router of one node.

mod booking;
mod graph;
mod profile;
mod search;

pub use booking::Booked;
pub use graph::Graph;
pub use profile::Profile;
pub use search::{Hop, Origin, OutsideLink, Planner, Query, Route, find_route};

use crate::contact_plan::PlanClock;
use crate::router::{ContactChange, Outcome, Question, Router, RouterOutput};
use crate::{ContactPlan, PlanTime};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;
use farlink_base::{
    BundleHandle, BundleView, Clock, Duration, Instant, LinkId, NodeId, Param, Priority, Proposal, Sink,
};

/// How often volumes of contacts that are over are forgotten.
const FORGET_EVERY: Duration = Duration::from_secs(60);
/// Neighbours a critical bundle is copied to at most.
const CRITICAL_COPIES_MAX: usize = 16;

/// What a queued bundle holds of the plan.
#[derive(Clone, Debug)]
struct Booking {
    contacts: Vec<u32>,
    volume: u64,
    priority: Priority,
    /// Later bookings are bumped first.
    number: u64,
}

/// A route and the link its first hop takes.
#[derive(Clone, Debug)]
struct Way {
    link: LinkId,
    route: Route,
}

/// A plan loaded and placed on the node's clock.
struct Loaded {
    plan: Arc<ContactPlan>,
    /// `None` while the plan is in wall time and the node has no clock it trusts.
    clock: Option<PlanClock>,
    /// Link of each contact of this node.
    links: BTreeMap<u32, LinkId>,
}

/// The router of one node.
pub struct Sabr {
    profile: Profile,
    return_to_sender: bool,
    local: Vec<NodeId>,
    seed: u64,
    loaded: Option<Loaded>,
    /// Where plans without epoch begin: when the first plan was loaded.
    started: Option<PlanClock>,
    planner: Planner,
    booked: Booked,
    bookings: BTreeMap<BundleHandle, Booking>,
    next_number: u64,
    outside: Vec<(LinkId, OutsideLink)>,
    /// Links of the plan that are down although a contact may be running.
    down: BTreeSet<LinkId>,
    /// What was proposed last; booked when the agent follows it.
    proposed: Option<(BundleHandle, Vec<Way>)>,
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
            started: None,
            planner: Planner::default(),
            booked: Booked::new(seed),
            bookings: BTreeMap::new(),
            next_number: 0,
            outside: Vec::new(),
            down: BTreeSet::new(),
            proposed: None,
            forget_at: PlanTime(0),
        }
    }

    /// Contacts with volume booked, and bundles that hold some.
    pub fn booked(&self) -> (usize, usize) {
        (self.booked.len(), self.bookings.len())
    }

    /// The best way for a bundle that avoids these neighbours.
    fn way(&mut self, now: Instant, bundle: &BundleView, excluded: &[NodeId]) -> Option<Way> {
        // Without a plan, or a clock to place it, only links outside it are known; any scale will do.
        let unplaced = PlanClock::starting(Instant::ZERO);
        let clock = self.loaded.as_ref().and_then(|l| l.clock).unwrap_or(unplaced);
        let at = clock.plan_time(now);
        let outside: Vec<OutsideLink> = self.outside.iter().map(|(_, link)| self.on_scale(link, &clock)).collect();
        let (loaded, down) = (&self.loaded, &self.down);
        let usable = |contact: u32| {
            let Some(loaded) = loaded.as_ref().filter(|l| l.clock.is_some()) else { return false };
            let Some(link) = loaded.links.get(&contact) else { return false };
            let running = || loaded.plan.contacts.get(contact as usize).is_some_and(|c| c.start <= at);
            !(down.contains(link) && running())
        };
        let query = Query {
            from: self.local.first().copied().unwrap_or_default(),
            to: bundle.destination,
            at,
            size: bundle.size,
            expires: if bundle.expires == Instant::MAX { PlanTime::MAX } else { clock.plan_time(bundle.expires) },
            priority: bundle.priority,
            excluded,
            profile: self.profile,
        };
        let origin = Origin { nodes: &self.local, usable: &usable, outside: &outside };
        let route = self.planner.route_from(&origin, &query, &self.booked)?;
        let first = route.path.first()?;
        let link = match first.contact {
            Some(contact) => self.loaded.as_ref()?.links.get(&contact).copied(),
            None => self.outside.iter().find(|(_, link)| link.peer == first.to).map(|(link, _)| *link),
        };
        Some(Way { link: link?, route })
    }

    /// Links outside the plan keep their end on the node's clock.
    fn on_scale(&self, link: &OutsideLink, clock: &PlanClock) -> OutsideLink {
        let until = if link.until == PlanTime::MAX { PlanTime::MAX } else { clock.plan_time(Instant(link.until.0)) };
        OutsideLink { until, ..*link }
    }

    /// Ways in order of preference: one, or for a critical bundle one over every neighbour.
    fn ways(&mut self, now: Instant, bundle: &BundleView) -> Vec<Way> {
        let mut avoid = bundle.excluded.clone();
        avoid.extend(bundle.received_from);
        let mut ways: Vec<Way> = self.way(now, bundle, &avoid).into_iter().collect();
        if ways.is_empty() && self.return_to_sender && bundle.received_from.is_some() {
            ways.extend(self.way(now, bundle, &bundle.excluded));
        }
        if bundle.critical && !ways.is_empty() {
            while ways.len() < CRITICAL_COPIES_MAX {
                avoid.extend(ways.last().and_then(|way| way.route.next_hop()));
                let Some(way) = self.way(now, bundle, &avoid) else { break };
                ways.push(way);
            }
        }
        ways
    }

    fn proposal(&self, way: &Way) -> Option<Proposal> {
        let hop = way.route.path.first()?;
        let clock = self.loaded.as_ref().and_then(|l| l.clock).unwrap_or(PlanClock::starting(Instant::ZERO));
        let contact = hop.contact.and_then(|c| self.loaded.as_ref()?.plan.contacts.get(c as usize));
        let (not_before, until) = match contact {
            Some(contact) => (clock.instant(contact.start), clock.instant(contact.end)),
            None => (clock.instant(hop.start), self.outside_until(way.link)),
        };
        let arrival = Some(clock.instant(way.route.arrival));
        Some(Proposal::Forward { link: way.link, next_hop: hop.to, not_before, until, arrival })
    }

    fn outside_until(&self, link: LinkId) -> Instant {
        self.outside.iter().find(|(l, _)| *l == link).map_or(Instant::MAX, |(_, o)| Instant(o.until.0))
    }

    /// Books the route the agent followed, and bumps what no longer fits.
    fn book(&mut self, now: Instant, bundle: &BundleView, link: LinkId, out: &mut dyn Sink<RouterOutput>) {
        self.release(bundle.bundle);
        let proposed = self.proposed.take().filter(|(handle, _)| *handle == bundle.bundle);
        let known = proposed.and_then(|(_, ways)| ways.into_iter().find(|way| way.link == link));
        let Some(way) = known.or_else(|| self.way(now, bundle, &bundle.excluded).filter(|way| way.link == link)) else {
            return;
        };
        let Some(loaded) = &self.loaded else { return };
        if let (Some(first), Some(clock)) = (way.route.first_contact(), loaded.clock) {
            self.booked.pass(&loaded.plan, first, clock.plan_time(now));
        }
        self.booked.book(&way.route, bundle.priority);
        let contacts: Vec<u32> = way.route.path.iter().filter_map(|hop| hop.contact).collect();
        self.next_number += 1;
        let booking = Booking {
            contacts: contacts.clone(),
            volume: way.route.volume,
            priority: bundle.priority,
            number: self.next_number,
        };
        self.bookings.insert(bundle.bundle, booking);
        for contact in contacts {
            self.bump(contact, bundle.priority, out);
        }
    }

    /// Overbooking (CCSDS 734.3-B-1, overbooking management): while less urgent bundles were
    /// promised more of the contact than is left, the latest of the least urgent is asked about
    /// again.
    fn bump(&mut self, contact: u32, by: Priority, out: &mut dyn Sink<RouterOutput>) {
        for level in Priority::ALL.into_iter().filter(|level| *level < by) {
            while self.loaded.as_ref().is_some_and(|l| self.booked.is_overbooked(&l.plan, contact, level)) {
                let on_contact = self.bookings.iter().filter(|(_, b)| b.priority < by && b.contacts.contains(&contact));
                let victim = on_contact.min_by_key(|(_, b)| (b.priority, core::cmp::Reverse(b.number)));
                let Some(handle) = victim.map(|(handle, _)| *handle) else { break };
                self.release(handle);
                out.push(RouterOutput::Bump(handle));
            }
        }
    }

    fn release(&mut self, bundle: BundleHandle) {
        if let Some(booking) = self.bookings.remove(&bundle) {
            for contact in booking.contacts {
                self.booked.release(contact, booking.volume, booking.priority);
            }
        }
    }

    /// A link of the plan failed while its contact runs: the bundles that wait for it are asked
    /// about again, and may take a sibling.
    fn abandon(&mut self, now: Instant, link: LinkId, out: &mut dyn Sink<RouterOutput>) {
        let Some(loaded) = &self.loaded else { return };
        let Some(at) = loaded.clock.map(|clock| clock.plan_time(now)) else { return };
        let is_running =
            |contact: u32| loaded.plan.contacts.get(contact as usize).is_some_and(|c| c.start <= at && at < c.end);
        let own = loaded.links.iter().filter(|(_, l)| **l == link).map(|(contact, _)| *contact);
        let running: Vec<u32> = own.filter(|contact| is_running(*contact)).collect();
        if running.is_empty() {
            return; // its contact ended, as planned
        }
        let waits = |booking: &Booking| booking.contacts.first().is_some_and(|first| running.contains(first));
        let moved: Vec<BundleHandle> = self.bookings.iter().filter(|(_, b)| waits(b)).map(|(h, _)| *h).collect();
        for handle in moved {
            self.release(handle);
            out.push(RouterOutput::Bump(handle));
        }
    }

    fn forget_past(&mut self, now: Instant) {
        let Some(loaded) = &self.loaded else { return };
        let Some(at) = loaded.clock.map(|clock| clock.plan_time(now)) else { return };
        if at >= self.forget_at {
            self.booked.forget_before(&loaded.plan, at);
            self.forget_at = at.saturating_add(FORGET_EVERY);
        }
    }
}

impl Router for Sabr {
    fn name(&self) -> &'static str {
        "sabr"
    }
    fn params(&self) -> &'static [Param] {
        Self::PARAMS
    }
    fn uses_plan(&self) -> bool {
        true
    }

    fn on_plan(
        &mut self,
        now: Instant,
        clock: &Clock,
        plan: &Arc<ContactPlan>,
        local: &[(u32, LinkId)],
        out: &mut dyn Sink<RouterOutput>,
    ) {
        let started = *self.started.get_or_insert(PlanClock::starting(now));
        let placed = if plan.epoch.is_some() { PlanClock::of_epoch(plan, clock) } else { Some(started) };
        let same = self.loaded.as_ref().is_some_and(|l| Arc::ptr_eq(&l.plan, plan) || l.plan == *plan);
        if !same {
            // Indices mean other contacts now: bookings, routes and the index go together.
            self.planner = Planner::new(plan);
            self.booked = Booked::new(self.seed);
            self.bookings.clear();
        }
        self.proposed = None;
        self.forget_at = PlanTime(0);
        let links: BTreeMap<u32, LinkId> = local.iter().copied().collect();
        let planned: BTreeSet<LinkId> = links.values().copied().collect();
        self.outside.retain(|(link, _)| !planned.contains(link));
        self.down.retain(|link| planned.contains(link));
        self.loaded = Some(Loaded { plan: plan.clone(), clock: placed, links });
        out.push(RouterOutput::Reconsider);
    }

    fn on_contact(&mut self, now: Instant, change: ContactChange, out: &mut dyn Sink<RouterOutput>) {
        let planned = |link: LinkId| self.loaded.as_ref().is_some_and(|l| l.links.values().any(|l| *l == link));
        self.proposed = None;
        match change {
            ContactChange::Up { link, .. } if planned(link) => {
                if self.down.remove(&link) {
                    out.push(RouterOutput::Reconsider);
                }
            }
            ContactChange::Up { peer, link, rate, until } => {
                let until = until.map_or(PlanTime::MAX, |until| PlanTime(until.0));
                self.outside.retain(|(l, _)| *l != link);
                self.outside.push((link, OutsideLink { peer, rate, until }));
                out.push(RouterOutput::Reconsider);
            }
            ContactChange::Down { link, .. } if planned(link) => {
                self.down.insert(link);
                self.abandon(now, link, out);
            }
            ContactChange::Down { link, .. } => self.outside.retain(|(l, _)| *l != link),
        }
    }

    fn propose(&mut self, now: Instant, question: Question<'_>, out: &mut Vec<Proposal>) {
        let Question::Bundle(bundle) = question else { return };
        self.forget_past(now);
        // What the bundle held so far must not stand in its own way.
        self.release(bundle.bundle);
        let ways = self.ways(now, bundle);
        // Copies first: the agent stops at the first `Forward` it can follow.
        for way in ways.iter().skip(1) {
            if let Some(Proposal::Forward { link, next_hop, .. }) = self.proposal(way) {
                out.push(Proposal::Copy { link, next_hop, split: 1 });
            }
        }
        out.extend(ways.first().and_then(|way| self.proposal(way)));
        self.proposed = Some((bundle.bundle, ways));
    }

    fn on_outcome(&mut self, now: Instant, bundle: &BundleView, outcome: Outcome, out: &mut dyn Sink<RouterOutput>) {
        match outcome {
            Outcome::Queued { link } => self.book(now, bundle, link, out),
            // Sent: the volume is used up, and no longer the bundle's to give back.
            Outcome::Sent { .. } => drop(self.bookings.remove(&bundle.bundle)),
            Outcome::Failed { .. } | Outcome::Gone => self.release(bundle.bundle),
        }
    }
}

#[cfg(test)]
mod tests;
