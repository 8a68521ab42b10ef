//! The bundle protocol agent of one node: every bundle from arrival to departure. This file holds the owners of state,
//! the input path, and the order of steps within one call. Procedures decide and keep no state; owners keep state and
//! decide nothing.
//!
//! | `procedures/` | RFC 9171 section 5, one file each |
//! |---|---|
//! | `originate.rs` | 5.2 transmission requests: bundles created here |
//! | `receive.rs`, `identity.rs`, `pieces.rs` | 5.6 reception; duplicates; pieces of arriving bundles |
//! | `keep.rs` | storage in book and store; recovery |
//! | `lifetime.rs` | 5.5 expiration of bundles, and of the records of their delivery |
//! | `evict.rs` | admission and eviction |
//! | `dispatch.rs`, `returns.rs` | 5.3 dispatching, 5.4 the choice of a route; bundles that come back |
//! | `forward.rs`, `mtu.rs` | 5.4 forwarding: pace, priorities, offers; 5.8 fragmentation |
//! | `outcome.rs` | results of transmissions |
//! | `deliver.rs`, `groups.rs` | 5.7 local delivery, registrations; groups, whose bundles are also forwarded |
//! | `reassemble.rs` | 5.9 reassembly |
//! | `depart.rs` | 5.10 deletion: the only exit of a bundle |
//! | `events.rs`, `policy_events.rs` | events for listeners and policies, and the actions of policies |
//!
//! | folder | further duties of a node: procedures with owners of their own |
//! |---|---|
//! | `neighbours/` | links from creation to removal; the contact plan; hellos and their budget |
//! | `custody/` | custody: RFC 5050 5.10 to 5.12, 6.3 |
//! | `tunnel/` | bundles in bundles: draft-ietf-dtn-bibect |
//! | `reports/` | 5.1 status reports; compressed reports, each about many bundles (CCSDS 734.6-O-1) |
//! | `inspect/` | requests of operators and their answers |
//!
//! The state of a bundle has one owner for each aspect, a file of `state/` with private fields. By retention
//! constraint: `pending_commits` (Commit), `queues` (Queue), `transmissions` (Send), `custody` (Custody), `deliveries`
//! (Deliver), `fragments` (Fragment, and Whole with `deliveries`). A bundle leaves once no constraint holds it. Beside
//! those:
//!
//! | owner | state |
//! |---|---|
//! | `outbound` | queues, transmissions, `partial_sends`, `offers`; retries: `waits`, `backoff`, `reroute_scan` |
//! | `bounds` | bounds of the store: `memory`, `fair_share` with `quotas`, `reservations` for arriving bundles |
//! | `remembered` | identities: delivered, banned, reported, recently forwarded (`loops`) |
//! | `work` | follow-up steps, timers, the budget of one call |
//! | `policies` | the router and the congestion control |
//!
//! A new router is a file of `core/routing/src`, a new congestion control is a file of `core/congestion/src`; neither
//! is named here. [`Policies`] calls them: `dispatch.rs` and `forward.rs` ask *where* a bundle goes, `evict.rs` asks
//! *whether* it is kept.
//!
//! Each call runs in its [`Context`]: the current time, the edge to wire formats, and the sink for outputs.

use crate::context::Context;
use crate::custody::Custody;
use crate::edge::Edge;
use crate::io::{Input, Output};
use crate::neighbours::Neighbours;
use crate::neighbours::hellos::Hellos;
use crate::neighbours::plan::Plan;
use crate::policies::Policies;
use crate::reports::Reports;
use crate::settings::{LinkSettings, Settings};
use crate::state::creation::Creation;
use crate::state::deliveries::Deliveries;
use crate::state::fragments::Fragments;
use crate::state::offers::Turn;
use crate::state::outbound::Outbound;
use crate::state::pending_commits::PendingCommits;
use crate::state::remembered::Remembered;
use crate::state::store_bounds::StoreBounds;
use crate::state::wall_clock::WallClock;
use crate::tunnel::Tunnels;
use crate::work::{Step, Timer, Work};
use alloc::boxed::Box;
use alloc::sync::Arc;
use farlink_base::{BundleMeta, EndpointId, Instant, Lazy, LinkId, LinkTerms, NodeId, PeerId, Refusal, Rng, Sink};
use farlink_book::{Book, Origin, PolicyEvent, Why};
use farlink_congestion::Control;
use farlink_routing::{PlanIndex, Router};

/// The bundle protocol agent of one node.
#[derive(Debug)]
pub struct Agent {
    pub(crate) settings: Settings,
    pub(crate) local: Box<[NodeId]>,
    pub(crate) wall_clock: WallClock,
    pub(crate) creation: Creation,
    pub(crate) rng: Rng,
    pub(crate) now: Instant,
    pub(crate) open: bool,
    pub(crate) terminating: bool,
    /// Follow-up steps of inputs, and timers.
    pub(crate) work: Work,
    pub(crate) policies: Policies,
    pub(crate) book: Book,
    pub(crate) pending_commits: PendingCommits,
    pub(crate) remembered: Remembered,
    /// Bounds on the bundles held.
    pub(crate) bounds: StoreBounds,
    /// Bundles that are to leave over links.
    pub(crate) outbound: Outbound,
    pub(crate) deliveries: Lazy<Deliveries>,
    pub(crate) fragments: Fragments,
    pub(crate) neighbours: Neighbours,
    pub(crate) plan: Plan,
    pub(crate) hellos: Lazy<Hellos>,
    pub(crate) reports: Reports,
    pub(crate) custody: Option<Box<Custody>>,
    pub(crate) tunnels: Option<Box<Tunnels>>,
}

impl Agent {
    /// An agent with its policies. It accepts bundles once the store has reported `Opened`.
    pub fn new(mut settings: Settings, router: Box<dyn Router>, control: Box<dyn Control>) -> Self {
        let (seed, limits) = (settings.seed, settings.limits);
        let mut neighbours = Neighbours::new(seed ^ 1);
        for link in core::mem::take(&mut settings.links) {
            neighbours.add(&link, farlink_book::Origin::Configured);
        }
        let rare = settings.rare.take().map(|rare| *rare).unwrap_or_default();
        let wanted = rare.tunnels;
        Agent {
            local: settings.node_ids.iter().map(EndpointId::node).collect(),
            wall_clock: WallClock::UNKNOWN,
            creation: Creation::default(),
            rng: Rng::stream(seed, 7),
            now: Instant::ZERO,
            open: false,
            terminating: false,
            work: Work::new(),
            policies: Policies::new(router, control),
            book: Book::new(seed),
            pending_commits: PendingCommits::default(),
            remembered: Remembered::new(limits.remembered),
            bounds: StoreBounds::default(),
            outbound: Outbound::new(),
            deliveries: Lazy::default(),
            fragments: Fragments::new(limits.fragments),
            neighbours,
            plan: Plan::default(),
            hellos: Lazy::default(),
            reports: Reports::new(limits.reports_per_second, rare.compressed),
            custody: settings.custody.take().map(|settings| Box::new(Custody::new(*settings))),
            // Numbers of tunnel transmissions come from a random stream of their own: they must not be guessable.
            tunnels: (!wanted.is_empty()).then(|| Box::new(Tunnels::new(wanted, &mut Rng::stream(seed, 8)))),
            settings,
        }
    }
    /// Sets the initial contact plan; the first clock reading places it in time.
    pub fn preload_plan(&mut self, plan: Arc<PlanIndex>) {
        self.plan.preload(plan);
    }
    /// Replaces the configured router by one that is in no registry. Must precede the first input.
    pub fn set_router(&mut self, router: Box<dyn Router>) {
        self.policies.set_router(router);
    }
    /// Replaces the configured congestion control by one that is in no registry. Must precede the first input.
    pub fn set_control(&mut self, control: Box<dyn Control>) {
        self.policies.set_control(control);
    }
    /// Sets the oracle of the policies that use one: knowledge that no real node has, for simulations only.
    pub fn set_oracle(&mut self, oracle: Box<dyn farlink_book::Oracle + Send>) {
        self.policies.set_oracle(oracle);
    }
    /// Frees memory that earlier load needed. The driver calls this when it expects no work.
    pub fn rest(&mut self) {
        self.book.rest();
        self.work.rest();
    }
    /// Payload bytes of deliveries that applications have not answered yet.
    pub fn unanswered(&self) -> u64 {
        self.deliveries.unanswered_bytes()
    }
    /// Payload bytes of held bundles that are in memory.
    pub fn resident(&self) -> u64 {
        self.bounds.memory.resident()
    }
    /// Bytes of heads (all before the payload) beyond the usual 256 of each held bundle;
    /// [`Limits::head_bytes`](crate::Limits::head_bytes) bounds them.
    pub fn heads(&self) -> u64 {
        self.bounds.fair_share.heads()
    }
    /// Whether the bundles of earlier runs have been read from the store; until then no bundle is accepted.
    pub fn is_open(&self) -> bool {
        self.open
    }
    /// Whether no bundle is held.
    pub fn is_empty(&self) -> bool {
        self.book.is_empty()
    }

    /// Adds a link. The neighbour counts as configured unless the link's number is a dynamic one. Returns false if the
    /// number is in use.
    pub fn add_link<S: Sink<Output>>(
        &mut self,
        now: Instant,
        settings: &LinkSettings,
        edge: &mut dyn Edge,
        out: &mut S,
    ) -> bool {
        let origin = if settings.link.is_dynamic() { Origin::Came } else { Origin::Configured };
        self.add_link_of(now, settings, origin, edge, out)
    }
    /// Adds a link; `origin` is the way in which its neighbour became known. Returns false if the number is in use.
    pub fn add_link_of<S: Sink<Output>>(
        &mut self,
        now: Instant,
        settings: &LinkSettings,
        origin: Origin,
        edge: &mut dyn Edge,
        out: &mut S,
    ) -> bool {
        self.take_link(&mut Context { now, edge, out }, settings, origin)
    }
    /// Replaces those settings of a link that do not depend on its layer, for bundles handed over from now on.
    pub fn set_link_terms(&mut self, id: LinkId, terms: LinkTerms) {
        if let Some(link) = self.neighbours.link_mut(id) {
            link.terms = terms;
        }
    }
    /// Removes a link and routes its queued bundles again. Its layer still reports the results of transmissions in
    /// progress.
    pub fn remove_link<S: Sink<Output>>(&mut self, now: Instant, id: LinkId, edge: &mut dyn Edge, out: &mut S) {
        self.drop_link(&mut Context { now, edge, out }, id);
    }

    /// Time by which [`Input::Wake`] must follow: at once while work is left over. `None`: nothing is due.
    pub fn next_timeout(&self) -> Option<Instant> {
        if self.has_work() {
            return Some(self.now);
        }
        let custody = self.custody.as_ref().and_then(|custody| custody.next());
        let tunnels = self.tunnels.as_ref().and_then(|tunnels| tunnels.next());
        let own = Instant::earliest([self.work.next_deadline(), self.book.next_expiry(), self.outbound.next()]);
        // A report is a new bundle and needs a sequence number; unused numbers are known only once the store was read.
        let reports = self.open.then(|| self.reports.next()).flatten();
        Instant::earliest([own, custody, tunnels, reports])
    }

    /// Whether [`Input::Wake`] at `now` would find any work.
    pub fn is_due(&self, now: Instant) -> bool {
        !self.hellos.is_idle() || self.next_timeout().is_some_and(|at| at <= now)
    }

    /// Takes one input at `now` and pushes the outputs that follow. Follow-up work that exceeds one slice is left to
    /// later calls.
    pub fn handle<S: Sink<Output>>(&mut self, now: Instant, input: Input, edge: &mut dyn Edge, out: &mut S) {
        self.now = now;
        self.work.begin();
        let turn = if let Input::Turn { link } = input { Some(link) } else { None };
        let cx = &mut Context { now, edge, out };
        self.take(cx, input);
        self.fire_timers(cx);
        self.drain(cx);
        // Hellos are built last, so that they describe the state after this input.
        if !self.hellos.is_idle() {
            self.flush_hellos(cx);
            self.drain(cx);
        }
        if let Some(link) = turn {
            self.end_turn(link);
        }
    }

    fn take<S: Sink<Output>>(&mut self, cx: &mut Context<'_, S>, input: Input) {
        match input {
            Input::Wake => {}
            Input::Clock(clock) => self.on_clock(cx, clock),
            Input::Begun { link, token, bundle, hop } => self.on_begun(cx, link, token, bundle, &hop),
            Input::Piece { link, token, bundle, hop, promises } => {
                self.on_piece(cx, link, token, bundle, &hop, promises);
            }
            Input::Abandoned { token } => {
                self.release_reservation(token);
                self.pieces_end(token, true);
            }
            Input::Arrived { link, token, bundle, hop } => self.on_arrived(cx, link, token, bundle, &hop),
            Input::Malformed { link, token, error } => self.on_malformed(link, token, error, cx.out),
            Input::Damaged { link, token, bundle, error } => {
                self.on_malformed(link, token, error, cx.out);
                self.report_damaged(cx, &bundle);
            }
            Input::Carrier { link, up } => self.on_carrier(cx, link, up),
            Input::Ready { link, ready } => self.on_ready(link, ready, false),
            Input::TakesOne { link, ready } => self.on_ready(link, ready, true),
            Input::Turn { link } => self.on_turn(link),
            Input::Hello { link, content } => {
                let from = self.neighbours.peer_of(link);
                self.on_hello(cx.now, from, &content);
            }
            Input::Sent { id } => self.on_sent(cx, id),
            Input::SentInPart { id, bytes } => self.on_sent_in_part(id, bytes, cx.out),
            Input::SendFailed { id, refused } => self.on_send_failed(cx, id, refused),
            Input::Unreadable { what, for_good } => self.on_unreadable(cx, what, for_good),
            Input::Insecure { delivery, reason } => self.on_insecure(cx, delivery, reason),
            Input::Rendered { id, rope } => self.on_rendered(cx, id, rope),
            Input::Outer { delivery, payload } => self.on_opened_outer(cx, delivery, &payload),
            Input::Judged { delivery, result } => self.on_inside_judged(cx, delivery, result),
            Input::Unwanted { link, token, bundle, reason } => self.on_unwanted(link, token, &bundle, reason, cx.out),
            Input::PeerUp { link, claimed, node, proven } => self.on_peer_up(cx, link, claimed, node, proven),
            Input::PeerDown { link } => self.on_peer_down(cx, link),
            Input::Store(output) => self.on_store(cx, output),
            Input::Recovered { bundle, index, meta, hop } => {
                self.on_recovered(cx, bundle, &index, meta, &hop);
            }
            Input::Pressure(pressure) => {
                self.bounds.memory.press(&mut self.book, pressure);
                self.work.extend(self.neighbours.links().map(|link| Step::Pump(link.id)));
            }
            // Requests need the recovered book: they wait until the store was read.
            Input::App(input) if !self.open => {
                if let Err(input) = self.work.defer(input) {
                    Self::refuse_app(input, Refusal::NoResources, cx.out);
                }
            }
            Input::App(input) => self.on_app(cx, input),
            Input::Admin(input) => self.on_admin(cx, input),
        }
    }

    fn fire_timers<S: Sink<Output>>(&mut self, cx: &mut Context<'_, S>) {
        let now = cx.now;
        while let Some(timer) = self.work.pop_timer(now) {
            match timer {
                Timer::Edge(link) => self.on_edge(cx, link),
                Timer::List(list) => self.outbound.queues.let_go(list),
                Timer::Pace(link) => {
                    if let Some(l) = self.neighbours.link_mut(link) {
                        l.pace_armed = false;
                        self.work.push(Step::Pump(link));
                    }
                }
                Timer::Summary(peer) if self.outbound.offers.awaits(peer).is_some_and(|at| at <= now) => {
                    let _rang = self.outbound.offers.end_summary_wait(peer);
                }
                Timer::Summary(_) => {}
                Timer::Hello(peer) => self.on_hello_timer(now, peer),
                Timer::Policy(side) => self.notify_policy(now, side, &PolicyEvent::Wake),
            }
        }
    }

    fn drain<S: Sink<Output>>(&mut self, cx: &mut Context<'_, S>) {
        // Steps go before background work, so that long background work delays an input's consequences by one unit at
        // most.
        while self.work.spend_one() {
            if let Some(step) = self.work.pop_step() {
                self.step(cx, step);
            } else if !self.walk(cx) {
                return;
            }
        }
    }

    fn step<S: Sink<Output>>(&mut self, cx: &mut Context<'_, S>, step: Step) {
        match step {
            Step::Dispatch(bundle) => self.dispatch(cx, bundle),
            Step::Pump(link) => self.pump(cx, link),
            Step::Deliver(endpoint) => self.pump_deliveries(cx, &endpoint),
            Step::Forsake(bundles) => self.forsake(cx, bundles),
            Step::Offer(bundle) => self.offer_to_all(cx.now, bundle),
            Step::RerouteAll => self.outbound.reroute_scan.all(&mut self.book),
            Step::DropHello(bundle) => {
                // A hello in transmission stays until its layer reports the result, like any other bundle.
                if self.book.get(bundle).is_some_and(|held| held.sends == 0) {
                    self.depart(cx, bundle, Why::Forwarded, None);
                }
            }
            Step::Custody(signal) => self.apply_custody_signal(cx, signal),
            Step::Signal(signal) => self.apply_tunnel_signal(cx, signal),
            Step::Outer(bundle) => self.open_outer(bundle, cx.out),
            Step::Tunnel(number, left) => self.on_outer_end(cx, number, left),
            Step::Line => self.next_in_tunnel(),
            Step::Action(side, order) => self.follow(cx, side, order),
            Step::Pieces(token, stay) => self.settle_pieces(cx, token, stay),
        }
    }

    /// Does one unit of background work: expiry, ended waits, due signals and reports, rerouting, offers. Returns false
    /// if none is left.
    fn walk<S: Sink<Output>>(&mut self, cx: &mut Context<'_, S>) -> bool {
        let now = cx.now;
        // Expired bundles leave before other background work is spent on them (RFC 9171 5.5).
        if self.book.next_expiry().is_some_and(|at| at <= now) {
            if let Some(bundle) = self.book.pop_expired(now) {
                self.on_lifetime_end(cx, bundle);
                return true;
            }
        }
        if let Some(bundle) = self.outbound.pop_due(now) {
            self.on_wait_end(cx, bundle);
        } else if let Some(due) = self.custody.as_mut().and_then(|custody| custody.pop(now)) {
            self.on_custody_due(cx, due);
        } else if let Some(due) = self.tunnels.as_mut().and_then(|tunnels| tunnels.pop(now)) {
            self.on_tunnel_due(cx, due);
        } else if let Some(due) = self.open.then(|| self.reports.pop(now)).flatten() {
            self.send_compressed(cx, due);
        } else if let Some(taken) = self.outbound.queues.take_loose(&mut self.book) {
            self.on_loose(cx, taken);
        } else if !self.outbound.reroute_scan.is_idle() {
            self.rescan_one(cx);
        } else if self.bounds.memory.settle_one(&mut self.book) {
        } else if let Some(turn) = self.outbound.offers.made().and_then(|offers| offers.turn(&self.book)) {
            self.offer_turn(now, turn);
        } else {
            return false;
        }
        true
    }

    fn has_work(&self) -> bool {
        self.work.has_steps() || self.outbound.has_work() || self.bounds.memory.settles()
    }

    fn rescan_one<S: Sink<Output>>(&mut self, cx: &mut Context<'_, S>) {
        let Some(bundle) = self.outbound.reroute_scan.next(&mut self.book) else { return };
        self.await_delivery(bundle);
        // Only waiting bundles: those in queues have a route that still holds.
        if self.book.get(bundle).is_some_and(|held| self.waits_for_a_way(held)) {
            self.dispatch(cx, bundle);
        }
    }

    fn offer_turn(&mut self, now: Instant, turn: Turn) {
        match turn {
            Turn::Look(peer, first, cursor) => {
                let mut here = first;
                self.offer(now, peer, here);
                // All later bundles of the book are still to be considered for this neighbour; each costs one unit of
                // the budget.
                while let Some(next) = self.book.after(here).filter(|_| self.work.spend_one()) {
                    here = next;
                    self.offer(now, peer, here);
                }
                self.book.stand(cursor, here);
            }
            Turn::Ready(peer) => {
                let links = self.neighbours.peers().get(peer).map(|p| p.up.clone()).unwrap_or_default();
                self.work.extend(links.into_iter().map(Step::Pump));
            }
        }
    }

    pub(crate) fn is_local(&self, node: NodeId) -> bool {
        self.local.contains(&node)
    }
    /// Whether a bundle is addressed to this node alone. A group's bundle is not: delivery to a member here does not
    /// end its journey.
    // 9758-5.1-2
    pub(crate) fn is_for_us(&self, bundle: &BundleMeta) -> bool {
        self.is_local(bundle.destination_node()) && !bundle.is_for_group()
    }
    /// Node ID that this node uses as source of its own bundles.
    pub(crate) fn node_id(&self) -> EndpointId {
        self.settings.node_ids.first().cloned().unwrap_or_default()
    }
    /// Node number of a neighbour; [`NodeId::NULL`] if the neighbour is unknown or has no name.
    pub(crate) fn node_of(&self, peer: PeerId) -> NodeId {
        self.neighbours.peers().get(peer).map_or(NodeId::NULL, |peer| peer.node)
    }
}
