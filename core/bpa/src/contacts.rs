//! The contact plan on this process's clock, and links as they come, change and go: what layers,
//! policies and listeners are told of them. One timer per link, for its next edge only.

use crate::agent::{Agent, Step, Timer};
use crate::io::Output;
use crate::link::{Cursor, Placed, Takes};
use crate::neighbours::Met;
use crate::settings::LinkSettings;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use farlink_base::{Clock, Duration, EndpointId, Event, Instant, LinkId, NodeId, Sink};
use farlink_book::{Identity, Origin, PolicyEvent};
use farlink_routing::contact_plan::PlanClock;
use farlink_routing::{GroupId, PlacedPlan, PlanIndex};

/// Steps of the wall clock below this are drift.
const STEP_MS: u64 = 50;

/// The plan of one node.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    index: Option<Arc<PlanIndex>>,
    pub(crate) clock: Option<PlanClock>,
    /// Where a plan without epoch begins: when the first one was loaded.
    bound: Option<Instant>,
    /// Link of each group this node transmits in.
    links: Vec<(GroupId, LinkId)>,
}

impl Plan {
    /// The plan to begin with; it is placed by the first clock reading.
    pub fn preload(&mut self, index: Arc<PlanIndex>) {
        self.index = Some(index);
    }
    /// The plan.
    pub fn index(&self) -> Option<&Arc<PlanIndex>> {
        self.index.as_ref()
    }
    /// The plan on this node's clock.
    pub fn placed(&self) -> Option<Placed<'_>> {
        self.index.as_deref().map(|index| Placed { index, clock: self.clock })
    }
    fn place(&mut self, now: Instant, clock: &Clock) {
        let bound = *self.bound.get_or_insert(now);
        self.clock = self.index.as_ref().and_then(|index| match index.plan().epoch {
            Some(_) => PlanClock::of_epoch(index.plan(), clock),
            None => Some(PlanClock::starting(bound)),
        });
    }
}

impl Agent {
    /// The wall clock was read. Lifetimes run on the monotonic clock from arrival, so a step
    /// expires nothing; it only moves the contact plan.
    pub(crate) fn on_clock<S: Sink<Output>>(&mut self, now: Instant, clock: Clock, out: &mut S) {
        let step_ms = self.wall.set(clock);
        let stepped = step_ms.unsigned_abs() >= STEP_MS;
        if stepped {
            self.event(out, Event::ClockStepped { step_ms });
        }
        self.judge_clock(now, out);
        self.bind_plan(now, out);
        if stepped && self.policies.uses_plan() {
            self.let_queues_go();
        }
    }

    /// Wall time, where the clock is believed.
    pub fn utc(&self, now: Instant) -> Option<farlink_base::DtnTime> {
        self.wall.utc_at(now)
    }
    /// Operating time of the node, all runs together, as far as it is known, ms.
    pub fn ran_ms(&self, now: Instant) -> u64 {
        self.wall.ran_ms(now)
    }
    /// Holds the clock against what the store said, and tells when it is doubted.
    pub(crate) fn judge_clock<S: Sink<Output>>(&mut self, now: Instant, out: &mut S) {
        if let Some(off_ms) = self.wall.judge(now) {
            self.event(out, Event::ClockDoubted { off_ms });
        }
    }

    /// Loads or replaces the plan.
    pub(crate) fn set_plan<S: Sink<Output>>(&mut self, now: Instant, plan: Arc<PlanIndex>, out: &mut S) {
        self.plan.preload(plan);
        self.bind_plan(now, out);
        if self.policies.uses_plan() {
            // What was queued by the old one, for contacts this one may lack.
            self.let_queues_go();
        }
    }

    /// Ways were chosen by what holds no more: what is queued is routed anew, with what waits.
    pub(crate) fn let_queues_go(&mut self) {
        for link in self.neighbours.links().map(|link| link.id).collect::<Vec<_>>() {
            for timer in self.queues.let_link_go(link) {
                self.timers.cancel(timer);
            }
        }
        self.steps.push_back(Step::RerouteAll);
    }

    /// Places the plan on the monotonic clock, anew after each change of clock or plan.
    fn bind_plan<S: Sink<Output>>(&mut self, now: Instant, out: &mut S) {
        self.plan.place(now, self.wall.clock());
        self.plan.links.clear();
        self.neighbours.links_mut().for_each(|link| link.contacts.clear());
        if let Some(index) = self.plan.index.clone() {
            for node in self.local.clone().into_vec() {
                for group in index.groups_from(node) {
                    self.bind_group(&index, group, index.ends(group).1, false);
                }
                for group in index.groups_to(node) {
                    self.bind_group(&index, group, index.ends(group).0, true);
                }
            }
            let plan = PlacedPlan { index: &index, clock: self.plan.clock, links: &self.plan.links };
            let seen = crate::agent::seen((&self.book, &self.neighbours, &self.plan), &self.settings, &self.local, now);
            self.policies.plan(seen, &plan);
            self.follow_orders(now, farlink_book::Side::Router, out);
            // A clock that drifts moves the plan again and again: what waits for other reasons is left alone.
            if self.policies.uses_plan() {
                self.steps.push_back(Step::RerouteAll);
            }
        }
        for link in self.neighbours.links().map(|link| link.id).collect::<Vec<_>>() {
            self.refresh_link(now, link, out);
        }
    }

    /// Contacts that name a link are for it; others for the first link to that neighbour.
    fn bind_group(&mut self, index: &PlanIndex, group: GroupId, peer: NodeId, incoming: bool) {
        if self.is_local(peer) {
            return;
        }
        let name = index.link_name(group);
        let peers = self.neighbours.peers();
        // What claims to be that neighbour has no contacts of it.
        let leads_there = |link: &&crate::link::Link| {
            peers.get(link.peer).is_some_and(|p| p.origin == Origin::Configured && p.is(peer))
        };
        let fits = |link: &&crate::link::Link| leads_there(link) && name.is_none_or(|name| *name == link.name);
        let Some(link) = self.neighbours.links().find(fits).map(|link| link.id) else { return };
        if !incoming {
            self.plan.links.push((group, link));
        }
        if let Some(link) = self.neighbours.link_mut(link) {
            link.contacts.push(Cursor::new(group, incoming));
        }
    }

    /// A link's contact begins or ends.
    pub(crate) fn on_edge<S: Sink<Output>>(&mut self, now: Instant, link: LinkId, out: &mut S) {
        if let Some(link) = self.neighbours.link_mut(link) {
            link.edge_timer = None;
        }
        self.refresh_link(now, link, out);
    }

    /// Tells layer, policies and listeners what a link can do now, and arms its next edge.
    pub(crate) fn refresh_link<S: Sink<Output>>(&mut self, now: Instant, id: LinkId, out: &mut S) {
        if !self.open {
            return;
        }
        let plan = self.plan.placed();
        let Some(link) = self.neighbours.link_mut(id) else { return };
        let next = link.next_change(plan, now);
        if link.edge_timer.map(|timer| timer.deadline()) != next {
            if let Some(timer) = link.edge_timer.take() {
                self.timers.cancel(timer);
            }
            link.edge_timer = next.map(|at| self.timers.arm(at, Timer::Edge(id)));
        }
        let state = link.state(plan, now);
        if link.told != Some(state) {
            link.told = Some(state);
            out.push(Output::Link { link: id, state });
        }
        let up = link.is_up(plan, now);
        let was_up = core::mem::replace(&mut link.said_up, up);
        if up != was_up {
            link.busy_until = now;
        }
        let (peer, met) = (link.peer, up && link.session != Some(false));
        let (was_met, until) = (link.said_met, link.contact(plan, now).map(|w| w.end));
        if up && !was_up {
            self.event(out, Event::LinkUp { link: id, peer: self.node_of(peer) });
            self.tell(now, &PolicyEvent::LinkUp { peer, link: id, rate: state.rate, until }, out);
        }
        if met != was_met {
            self.meet(now, id, met, state.delay_out, out);
        }
        if !up && was_up {
            self.event(out, Event::LinkDown { link: id });
            self.tell(now, &PolicyEvent::LinkDown { peer, link: id }, out);
            self.leave_link(id, peer);
        }
        if up {
            self.steps.push_back(Step::Pump(id));
        }
    }

    /// What a link that went down had queued moves to a sibling that is up, or on by another way the
    /// plan knows; else it waits for the link.
    fn leave_link(&mut self, id: LinkId, peer: farlink_base::PeerId) {
        let siblings = self.neighbours.peers().get(peer).is_some_and(farlink_book::Peer::is_up);
        let planned = self.neighbours.link(id).is_some_and(crate::link::Link::is_planned);
        if siblings || (self.policies.uses_plan() && !planned) {
            for timer in self.queues.let_link_go(id) {
                self.timers.cancel(timer);
            }
        }
    }

    /// A neighbour is met over a link, or no longer.
    fn meet<S: Sink<Output>>(&mut self, now: Instant, link: LinkId, met: bool, delay: Duration, out: &mut S) {
        let peer = self.neighbours.peer_of(link);
        match self.neighbours.note(link, met, self.plan.placed(), now) {
            Met::Up => {
                if let Some(rests) = self.rests.made() {
                    rests.end(peer, now);
                }
                self.tell(now, &PolicyEvent::Up { peer }, out);
                self.greet(now, peer, delay);
            }
            Met::Down => self.part(now, peer, out),
            Met::Same => {}
        }
    }

    /// A neighbour cannot be reached any more: nothing is offered to it, and what was said to it is
    /// out of date.
    fn part<S: Sink<Output>>(&mut self, now: Instant, peer: farlink_base::PeerId, out: &mut S) {
        if let Some(timer) = self.offers.made().and_then(|offers| offers.end(&mut self.book, peer)) {
            self.timers.cancel(timer);
        }
        if let Some(hello) = self.hellos.made().and_then(|hellos| hellos.forget(peer)) {
            self.steps.push_back(Step::DropHello(hello));
        }
        self.tell(now, &PolicyEvent::Down { peer }, out);
    }

    /// The medium under a link works or not.
    pub(crate) fn on_carrier<S: Sink<Output>>(&mut self, now: Instant, id: LinkId, up: bool, out: &mut S) {
        if let Some(link) = self.neighbours.link_mut(id) {
            link.carrier = up;
            self.refresh_link(now, id, out);
        }
    }

    /// An operator allows a link, or not: then its sessions end, so that the neighbour knows.
    pub(crate) fn enable_link<S: Sink<Output>>(&mut self, now: Instant, name: &str, enabled: bool, out: &mut S) {
        let Some(id) = self.neighbours.named(name) else { return };
        let Some(link) = self.neighbours.link_mut(id) else { return };
        let was_enabled = core::mem::replace(&mut link.enabled, enabled);
        self.refresh_link(now, id, out);
        if was_enabled && !enabled {
            out.push(Output::Close { link: id });
        }
    }

    /// A new link. False: there is one of this number.
    pub fn add_link<S: Sink<Output>>(&mut self, now: Instant, settings: &LinkSettings, out: &mut S) -> bool {
        let origin = if settings.link.is_dynamic() { Origin::Came } else { Origin::Configured };
        self.add_link_of(now, settings, origin, out)
    }
    /// The same, to a neighbour that came to be known so.
    pub fn add_link_of<S: Sink<Output>>(
        &mut self,
        now: Instant,
        settings: &LinkSettings,
        origin: Origin,
        out: &mut S,
    ) -> bool {
        if !self.neighbours.add(settings, origin) {
            return false;
        }
        if origin == Origin::Configured && self.is_in_plan(settings.peer.node()) {
            self.bind_plan(now, out);
            return true;
        }
        self.refresh_link(now, settings.link, out);
        // Bundles that found no way may go over it: those for this neighbour, or for whom it is the next hop.
        let next_hop = |(_, hop): &(String, EndpointId)| hop.node() == settings.peer.node();
        match self.settings.routes.iter().any(next_hop) {
            true => self.steps.push_back(Step::RerouteAll),
            false => self.sweeps.to(settings.peer.node()),
        }
        true
    }
    /// What is said to a neighbour of this node, is said beside this link, and costs nothing (simulations that
    /// neglect it). To be said before the link has had its first call.
    pub fn free_hellos(&mut self, link: LinkId) {
        if let Some(link) = self.neighbours.link_mut(link).filter(|link| link.takes.turns()) {
            link.takes = Takes::FreeTurns;
        }
    }
    /// Whether there is a link of this name that did not come by itself.
    pub fn has_link(&self, name: &str) -> bool {
        self.neighbours.named(name).is_some_and(|link| !link.is_dynamic())
    }
    /// Whether nobody but an announcement could say more of a node: it is this one, a link to it was configured, or
    /// somebody who is known to be it by more than a claim can be reached.
    pub fn is_surely_known(&self, node: NodeId) -> bool {
        let sure = |peer: &farlink_book::Peer| {
            let links = peer.origin == Origin::Configured && !peer.links.is_empty();
            peer.identity_as(node) > Some(Identity::Claimed) && (links || peer.is_up())
        };
        self.is_local(node) || self.neighbours.peers().of(node).is_some_and(sure)
    }
    /// Whether the plan has contacts between this node and a neighbour.
    fn is_in_plan(&self, peer: NodeId) -> bool {
        let Some(index) = &self.plan.index else { return false };
        self.local.iter().any(|node| {
            index.groups_from(*node).any(|group| index.ends(group).1 == peer)
                || index.groups_to(*node).any(|group| index.ends(group).0 == peer)
        })
    }

    /// A link is no more: what it had queued is routed anew. Its layer answers for what it was
    /// sending.
    pub fn remove_link<S: Sink<Output>>(&mut self, now: Instant, id: LinkId, out: &mut S) {
        let Some(link) = self.neighbours.link_mut(id) else { return };
        link.carrier = false;
        self.refresh_link(now, id, out);
        for timer in self.queues.let_link_go(id) {
            self.timers.cancel(timer);
        }
        let Some(link) = self.neighbours.remove(id) else { return };
        if let Some(timer) = link.edge_timer {
            self.timers.cancel(timer);
        }
        if link.is_planned() {
            self.bind_plan(now, out);
        }
    }

    /// Whether this names another node: neither does an endpoint of an application (RFC 9171 4.2.5.2) nor what only
    /// this node is called (RFC 9758 5.4).
    pub(crate) fn names_another(&self, name: &EndpointId) -> bool {
        name.is_node_id() && !name.is_here() && !self.is_local(name.node())
    }

    /// A peer introduced itself.
    pub(crate) fn on_peer_up<S: Sink<Output>>(
        &mut self,
        now: Instant,
        link: LinkId,
        claimed: Option<EndpointId>,
        node: Option<NodeId>,
        proven: Option<EndpointId>,
        out: &mut S,
    ) {
        let numbered = node.filter(|node| !node.is_named()).map(|node| EndpointId::ipn(node.0, 0));
        let another = |name: Option<EndpointId>| name.filter(|name| self.names_another(name));
        let (claimed, proven, numbered) = (another(claimed), another(proven), another(numbered));
        let name = proven.clone().or(claimed.clone()).or(numbered).unwrap_or_default();
        if self.neighbours.link(link).is_none() {
            if !link.is_dynamic() || self.neighbours.dynamic_links() >= self.settings.limits.dynamic_links {
                return;
            }
            let text = if name.is_null() { alloc::format!("{}", link.0) } else { alloc::format!("{name}") };
            let settings = LinkSettings {
                link,
                name: text,
                peer: name,
                rate: None,
                one_way_delay: Duration::ZERO,
                wire_bytes_per_million: 1_000_000,
                sessions: false,
                largest: None,
            };
            self.add_link(now, &settings, out);
        }
        let peer = self.neighbours.peer_of(link);
        for (name, identity) in [(claimed, Identity::Claimed), (proven, Identity::Proven)] {
            if let Some(name) = name {
                self.learn(peer, name, identity);
            }
        }
        self.note_session(now, link, true, out);
    }

    /// A peer is gone; a dynamic link no longer exists.
    pub(crate) fn on_peer_down<S: Sink<Output>>(&mut self, now: Instant, link: LinkId, out: &mut S) {
        if link.is_dynamic() {
            self.remove_link(now, link, out);
        } else {
            self.note_session(now, link, false, out);
        }
    }

    fn note_session<S: Sink<Output>>(&mut self, now: Instant, id: LinkId, there: bool, out: &mut S) {
        if let Some(link) = self.neighbours.link_mut(id).filter(|link| link.session.is_some()) {
            link.session = Some(there);
            self.refresh_link(now, id, out);
        }
    }

    /// What a link is called; for operators.
    pub(crate) fn link_name(&self, link: LinkId) -> String {
        self.neighbours.link(link).map_or_else(|| String::from("?"), |link| link.name.clone())
    }
}
