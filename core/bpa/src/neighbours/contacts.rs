//! The contact plan on the monotonic clock, and links from creation to removal: changes of their state are reported to
//! layers, policies and listeners. Each link has one timer, for the next begin or end of a contact.

use crate::agent::Agent;
use crate::context::Context;
use crate::io::Output;
use crate::neighbours::Met;
use crate::neighbours::link::{Cursor, Takes};
use crate::settings::LinkSettings;
use crate::work::{Step, Timer};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use farlink_base::{Clock, Duration, EndpointId, Event, Instant, LinkId, LinkTerms, NodeId, PeerId, Sink};
use farlink_book::{Identity, Origin, Peer, PolicyEvent};
use farlink_routing::{GroupId, PlacedPlan, PlanIndex};

/// Least step of the wall clock, ms, that is reported and reroutes queued bundles; less counts as drift.
const STEP_MS: u64 = 50;

impl Agent {
    /// Takes a reading of the wall clock. Lifetimes run on the monotonic clock from arrival, so a step expires no
    /// bundle; it only moves the contact plan.
    pub(crate) fn on_clock<S: Sink<Output>>(&mut self, cx: &mut Context<'_, S>, clock: Clock) {
        let step_ms = self.wall_clock.set(clock);
        let stepped = step_ms.unsigned_abs() >= STEP_MS;
        if stepped {
            self.event(cx.out, Event::ClockStepped { step_ms });
        }
        self.judge_clock(cx);
        self.bind_plan(cx);
        if stepped && self.policies.uses_plan() {
            self.let_queues_go();
        }
    }

    /// Wall time at `now`; `None` without a trusted clock.
    pub fn utc(&self, now: Instant) -> Option<farlink_base::DtnTime> {
        self.wall_clock.utc_at(now)
    }
    /// Time for which the node ran in all its runs so far, as far as known, ms.
    pub fn ran_ms(&self, now: Instant) -> u64 {
        self.wall_clock.ran_ms(now)
    }
    /// Checks the clock against the record of earlier runs, and reports it when doubt begins.
    pub(crate) fn judge_clock<S: Sink<Output>>(&mut self, cx: &mut Context<'_, S>) {
        if let Some(off_ms) = self.wall_clock.judge(cx.now) {
            self.event(cx.out, Event::ClockDoubted { off_ms });
        }
    }

    pub(crate) fn set_plan<S: Sink<Output>>(&mut self, cx: &mut Context<'_, S>, plan: Arc<PlanIndex>) {
        self.plan.preload(plan);
        self.bind_plan(cx);
        if self.policies.uses_plan() {
            // Queued bundles may be booked for contacts that the new plan lacks.
            self.let_queues_go();
        }
    }

    /// Routes all queued and waiting bundles again, because their routes rest on outdated assumptions.
    pub(crate) fn let_queues_go(&mut self) {
        for link in self.neighbours.links().map(|link| link.id).collect::<Vec<_>>() {
            for timer in self.outbound.queues.let_link_go(link) {
                self.work.cancel(timer);
            }
        }
        self.work.push(Step::RerouteAll);
    }

    /// Places the plan on the monotonic clock and assigns its contacts to links; repeated after each reading of the
    /// clock and each change of plan or links.
    fn bind_plan<S: Sink<Output>>(&mut self, cx: &mut Context<'_, S>) {
        let now = cx.now;
        self.plan.place(now, self.wall_clock.clock());
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
            let seen =
                crate::policies::seen((&self.book, &self.neighbours, &self.plan), &self.settings, &self.local, now);
            self.policies.plan(seen, &plan);
            self.follow_orders(now, farlink_book::Side::Router);
            // A drifting clock moves the plan again and again: only waiting bundles are routed again, queued ones stay.
            if self.policies.uses_plan() {
                self.work.push(Step::RerouteAll);
            }
        }
        for link in self.neighbours.links().map(|link| link.id).collect::<Vec<_>>() {
            self.refresh_link(cx, link);
        }
    }

    /// Assigns a group of contacts between this node and `peer` to a link to `peer`: the one that the group names, or
    /// the first if it names none. Only links to configured neighbours count.
    fn bind_group(&mut self, index: &PlanIndex, group: GroupId, peer: NodeId, incoming: bool) {
        if self.is_local(peer) {
            return;
        }
        let name = index.link_name(group);
        let peers = self.neighbours.peers();
        // A neighbour that only claims this name gets none of its contacts.
        let leads_there = |link: &&crate::neighbours::link::Link| {
            peers.get(link.peer).is_some_and(|p| p.origin == Origin::Configured && p.is(peer))
        };
        let fits =
            |link: &&crate::neighbours::link::Link| leads_there(link) && name.is_none_or(|name| *name == *link.name);
        let Some(link) = self.neighbours.links().find(fits).map(|link| link.id) else { return };
        if !incoming {
            self.plan.links.push((group, link));
        }
        if let Some(link) = self.neighbours.link_mut(link) {
            link.contacts.push(Cursor::new(group, incoming));
        }
    }

    /// Handles the begin or end of a link's contact.
    pub(crate) fn on_edge<S: Sink<Output>>(&mut self, cx: &mut Context<'_, S>, link: LinkId) {
        if let Some(link) = self.neighbours.link_mut(link) {
            link.edge_timer = None;
        }
        self.refresh_link(cx, link);
    }

    /// Reports changes of a link's state to its layer, policies and listeners, and arms the timer of the next begin or
    /// end of a contact.
    pub(crate) fn refresh_link<S: Sink<Output>>(&mut self, cx: &mut Context<'_, S>, id: LinkId) {
        let now = cx.now;
        // Until the store was read every bundle would be refused, so links stay down.
        if !self.open {
            return;
        }
        let plan = self.plan.placed();
        let Some(link) = self.neighbours.link_mut(id) else { return };
        let next = link.next_change(plan, now);
        if link.edge_timer.map(|timer| timer.deadline()) != next {
            if let Some(timer) = link.edge_timer.take() {
                self.work.cancel(timer);
            }
            link.edge_timer = next.map(|at| self.work.arm(at, Timer::Edge(id)));
        }
        let state = link.state(plan, now);
        if link.told != Some(state) {
            link.told = Some(state);
            cx.out.push(Output::Link { link: id, state });
        }
        let up = link.is_up(plan, now);
        let was_up = core::mem::replace(&mut link.said_up, up);
        if up != was_up {
            // A backlog of the former contact does not delay the new one.
            link.busy_until = now;
        }
        let (peer, met) = (link.peer, up && link.session != Some(false));
        let (was_met, until) = (link.said_met, link.contact(plan, now).map(|w| w.end));
        if up && !was_up {
            self.event(cx.out, Event::LinkUp { link: id, peer: self.node_of(peer) });
            self.notify_policies(now, &PolicyEvent::LinkUp { peer, link: id, rate: state.rate, until });
        }
        if met != was_met {
            self.meet(now, id, met, state.delay_out);
        }
        if !up && was_up {
            self.event(cx.out, Event::LinkDown { link: id });
            self.notify_policies(now, &PolicyEvent::LinkDown { peer, link: id });
            self.leave_link(id, peer);
        }
        if up {
            self.work.push(Step::Pump(id));
        }
    }

    /// Reroutes the queue of a link that went down if the neighbour has another link that is up, or if the router uses
    /// the plan and the link is not in it. Otherwise the bundles stay in the queue until the link comes up or the
    /// contact that they are booked for is over.
    fn leave_link(&mut self, id: LinkId, peer: farlink_base::PeerId) {
        let siblings = self.neighbours.peers().get(peer).is_some_and(farlink_book::Peer::is_up);
        let planned = self.neighbours.link(id).is_some_and(crate::neighbours::link::Link::is_planned);
        if siblings || (self.policies.uses_plan() && !planned) {
            for timer in self.outbound.queues.let_link_go(id) {
                self.work.cancel(timer);
            }
        }
    }

    /// Notes that a neighbour became reachable over a link (`met`) or is no longer so; a neighbour that came up gets a
    /// hello.
    fn meet(&mut self, now: Instant, link: LinkId, met: bool, delay: Duration) {
        let peer = self.neighbours.peer_of(link);
        match self.neighbours.note(link, met, self.plan.placed(), now) {
            Met::Up => {
                if let Some(backoff) = self.outbound.backoff.made() {
                    backoff.end(peer, now);
                }
                self.notify_policies(now, &PolicyEvent::Up { peer });
                self.greet(now, peer, delay);
            }
            Met::Down => self.part(now, peer),
            Met::Same => {}
        }
    }

    /// Ends the offers to a neighbour out of reach, and drops unsent hellos to it.
    fn part(&mut self, now: Instant, peer: farlink_base::PeerId) {
        if let Some(timer) = self.outbound.offers.made().and_then(|offers| offers.end(&mut self.book, peer)) {
            self.work.cancel(timer);
        }
        if let Some(hello) = self.hellos.made().and_then(|hellos| hellos.forget(peer)) {
            self.work.push(Step::DropHello(hello));
        }
        self.notify_policies(now, &PolicyEvent::Down { peer });
    }

    /// Applies a change of a link's carrier.
    pub(crate) fn on_carrier<S: Sink<Output>>(&mut self, cx: &mut Context<'_, S>, id: LinkId, up: bool) {
        if let Some(link) = self.neighbours.link_mut(id) {
            link.carrier = up;
            self.refresh_link(cx, id);
        }
    }

    /// Enables or disables a link for an operator. Disabling it ends its sessions, so that the neighbour notices.
    pub(crate) fn enable_link<S: Sink<Output>>(&mut self, cx: &mut Context<'_, S>, name: &str, enabled: bool) {
        let Some(id) = self.neighbours.named(name) else { return };
        let Some(link) = self.neighbours.link_mut(id) else { return };
        let was_enabled = core::mem::replace(&mut link.enabled, enabled);
        self.refresh_link(cx, id);
        if was_enabled && !enabled {
            cx.out.push(Output::Close { link: id });
        }
    }

    /// Adds a link, and reroutes bundles that may go over it; `origin` is the way in which its neighbour became known.
    /// Returns false if the number is in use.
    pub(crate) fn take_link<S: Sink<Output>>(
        &mut self,
        cx: &mut Context<'_, S>,
        settings: &LinkSettings,
        origin: Origin,
    ) -> bool {
        if !self.neighbours.add(settings, origin) {
            return false;
        }
        if origin == Origin::Configured && self.is_in_plan(settings.peer.node()) {
            self.bind_plan(cx);
            return true;
        }
        self.refresh_link(cx, settings.link);
        // Bundles without a route may go over the new link: those for its neighbour, or with it as next hop.
        let next_hop = |(_, hop): &(String, EndpointId)| hop.node() == settings.peer.node();
        match self.settings.routes.iter().any(next_hop) {
            true => self.work.push(Step::RerouteAll),
            false => self.outbound.reroute_scan.to(settings.peer.node()),
        }
        true
    }
    /// Makes hellos over this link cost no transmission time, for simulations that neglect them. Must precede the
    /// link's first turn.
    pub fn free_hellos(&mut self, link: LinkId) {
        if let Some(link) = self.neighbours.link_mut(link).filter(|link| link.takes.turns()) {
            link.takes = Takes::FreeTurns;
        }
    }
    /// Whether a link of this name exists that is not dynamic.
    pub fn has_link(&self, name: &str) -> bool {
        self.neighbours.named(name).is_some_and(|link| !link.is_dynamic())
    }
    /// Whether a discovery announcement would add nothing about a node: the node is this one, or a neighbour that a
    /// link vouches for and that has a configured link or is reachable.
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

    /// Removes a link and routes its queued bundles again. The link's layer still reports the results of transmissions
    /// in progress.
    pub(crate) fn drop_link<S: Sink<Output>>(&mut self, cx: &mut Context<'_, S>, id: LinkId) {
        let Some(link) = self.neighbours.link_mut(id) else { return };
        link.carrier = false;
        self.refresh_link(cx, id);
        for timer in self.outbound.queues.let_link_go(id) {
            self.work.cancel(timer);
        }
        let Some(link) = self.neighbours.remove(id) else { return };
        if let Some(timer) = link.edge_timer {
            self.work.cancel(timer);
        }
        // The removed link's contacts may now be assigned to another link to that neighbour.
        if link.is_planned() {
            self.bind_plan(cx);
        }
    }

    /// Whether this is the node ID of another node. Application endpoints (RFC 9171 4.2.5.2) and names local to this
    /// node (RFC 9758 5.4) are not.
    pub(crate) fn names_another(&self, name: &EndpointId) -> bool {
        name.is_node_id() && !name.is_here() && !self.is_local(name.node())
    }

    /// Learns a neighbour's name or a better proof of it; quotas then follow the new name.
    pub(crate) fn learn(&mut self, peer: PeerId, name: EndpointId, identity: Identity) {
        self.neighbours.learn(peer, name, identity);
        let name = self.neighbours.peers().get(peer).map(Peer::endpoint);
        if let Some((fair_share, name)) = self.bounds.fair_share.made().zip(name) {
            fair_share.quotas.rename(peer, name);
        }
    }

    pub(crate) fn on_peer_up<S: Sink<Output>>(
        &mut self,
        cx: &mut Context<'_, S>,
        link: LinkId,
        claimed: Option<EndpointId>,
        node: Option<NodeId>,
        proven: Option<EndpointId>,
    ) {
        // An LTP engine number stands for the ipn node of that number.
        let numbered = node.filter(|node| !node.is_named()).map(|node| EndpointId::ipn(node.0, 0));
        let another = |name: Option<EndpointId>| name.filter(|name| self.names_another(name));
        let (claimed, proven, numbered) = (another(claimed), another(proven), another(numbered));
        let name = proven.clone().or(claimed.clone()).or(numbered).unwrap_or_default();
        // The bound on dynamic links keeps unknown peers from filling the table.
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
                terms: LinkTerms::default(),
                wire_bytes_per_million: 1_000_000,
                sessions: false,
                largest: None,
            };
            self.take_link(cx, &settings, Origin::Came);
        }
        let peer = self.neighbours.peer_of(link);
        for (name, identity) in [(claimed, Identity::Claimed), (proven, Identity::Proven)] {
            if let Some(name) = name {
                self.learn(peer, name, identity);
            }
        }
        self.note_session(cx, link, true);
    }

    pub(crate) fn on_peer_down<S: Sink<Output>>(&mut self, cx: &mut Context<'_, S>, link: LinkId) {
        if link.is_dynamic() {
            self.drop_link(cx, link);
        } else {
            self.note_session(cx, link, false);
        }
    }

    fn note_session<S: Sink<Output>>(&mut self, cx: &mut Context<'_, S>, id: LinkId, there: bool) {
        if let Some(link) = self.neighbours.link_mut(id).filter(|link| link.session.is_some()) {
            link.session = Some(there);
            self.refresh_link(cx, id);
        }
    }

    /// Name of a link, for operators; "?" if there is no such link.
    pub(crate) fn link_name(&self, link: LinkId) -> String {
        self.neighbours.link(link).map_or_else(|| String::from("?"), |link| String::from(&*link.name))
    }
}
