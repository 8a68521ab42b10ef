//! The agent: one node's bundles, from arrival to departure. This file holds its owners, the way
//! in, the work list and the budget of one call; each procedure of RFC 9171 5 has a file:
//!
//! | file | procedure |
//! |---|---|
//! | `originate.rs` | 5.2 transmission requests: bundles made here |
//! | `receive.rs` | 5.6 reception |
//! | `keep.rs` | into the book and the store; recovery |
//! | `lifetime.rs` | 5.5 expiration: how long a bundle is kept and remembered |
//! | `arriving.rs` | pieces of what is arriving, for when it breaks off |
//! | `evict.rs` | admission, making room |
//! | `dispatch.rs` | 5.3 dispatching, 5.4 the choice of a way |
//! | `forward.rs` | 5.4 forwarding: pace, priorities, offers; 5.8 fragmentation |
//! | `outcome.rs` | what became of transmissions |
//! | `deliver.rs` | 5.7 local delivery, registrations |
//! | `reassemble.rs` | 5.9 reassembly |
//! | `groups.rs` | 5.7 in a group: delivery that is no end |
//! | `depart.rs` | 5.10 deletion: the one way out |
//! | `reports.rs`, `compressed.rs` | 5.1 status reports; many in one (CCSDS 734.6-O-1) |
//! | `contacts.rs` | the contact plan; links as they come, change and go |
//! | `custody.rs`, `custody_says.rs`, `custody_hears.rs` | custody: RFC 5050 5.10 to 5.12, 6.3 |
//! | `tunnel.rs`, `tunnel_out.rs`, `tunnel_hears.rs`, `tunnel_in.rs` | bundles in bundles: draft-ietf-dtn-bibect |
//! | `signals.rs`, `hearing.rs` | hellos: what neighbours and their policies tell each other; how much of it is heard |
//!
//! What is known about a bundle has one owner each, with private fields: the book itself and, by
//! reason, `debts` (Commit), `queues` (Queue), `sends` (Send), `custody` (Custody), `deliveries` (Deliver), `fragments`
//! (Fragment, and Whole with `deliveries`); aside `cuts`, `waits`, `rests`, `offers`, `promises`, `remembered`. A
//! bundle leaves when no reason holds it.

use crate::app::AppInput;
use crate::compressed::Compressed;
use crate::contacts::Plan;
use crate::creation::Creation;
use crate::custody::Custody;
use crate::custody_hears::Heard;
use crate::cuts::Cuts;
use crate::debts::Debts;
use crate::deliveries::Deliveries;
use crate::edge::Edge;
use crate::fragments::Fragments;
use crate::io::{Input, OfferToken, Output};
use crate::memory::Memory;
use crate::neighbours::Neighbours;
use crate::offers::{Offers, Turn};
use crate::policies::{Policies, Seen};
use crate::promises::Promises;
use crate::queues::{ListId, Queues};
use crate::remembered::Remembered;
use crate::reports::Reports;
use crate::rests::Rests;
use crate::sends::Sends;
use crate::settings::Settings;
use crate::shares::Shares;
use crate::signals::Hellos;
use crate::sweeps::Sweeps;
use crate::tunnel::Tunnels;
use crate::tunnel_hears::Told;
use crate::waits::Waits;
use crate::wall::Wall;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use farlink_base::{
    BundleMeta, DeleteReason, Empty, EndpointId, Event, EventClass, Instant, Lazy, LinkId, NodeId, PeerId, Rng, Sink,
    TimerQueue,
};
use farlink_book::{Action, Book, Handle, PolicyEvent, Side, Why};
use farlink_congestion::Control;
use farlink_routing::{PlanIndex, Router};

/// Requests of applications kept while the store is opening.
const DEFERRED_MAX: usize = 100_000;
/// Units of follow-up work of one call: what remains makes [`Agent::next_timeout`] now.
const SLICE: u32 = 256;

/// Things to do when a deadline passes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Timer {
    /// A link's contact begins or ends.
    Edge(LinkId),
    /// The contact a list waits for is over.
    List(ListId),
    /// A link is no longer busy.
    Pace(LinkId),
    /// A neighbour's summary was waited for long enough.
    Summary(PeerId),
    /// There may be time for what a neighbour said.
    Hear(PeerId),
    /// A policy wants to be woken.
    Policy(Side),
}

/// Steps that follow from an input; drained within the budget, never by recursion.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Step {
    /// Decide what happens with a bundle.
    Dispatch(Handle),
    /// Move bundles from a link's queue to its layer.
    Pump(LinkId),
    /// Hand bundles to the applications of an endpoint.
    Deliver(EndpointId),
    /// See whether neighbours want a carried bundle, or want it still.
    Offer(Handle),
    /// Members left their group: what was still to come to them may be held for nothing else.
    Forsake(Vec<Handle>),
    /// Ask again about every bundle that waits.
    RerouteAll,
    /// A hello is out of date.
    DropHello(Handle),
    /// A custody signal is to be heeded.
    Custody(Box<Heard>),
    /// A signal about transmissions through a tunnel is to be heeded.
    Signal(Box<Told>),
    /// A bundle that came through a tunnel is to be opened.
    Outer(Handle),
    /// The bundle around this one left the node, or was given up.
    Tunnel(u64, bool),
    /// Who waits for room in a tunnel may have it.
    Line,
    /// A policy ordered something.
    Action(Side, Action),
    /// The pieces of what was arriving stay as fragments, or the whole is here and they go.
    Pieces(OfferToken, bool),
}

/// What applications asked while the store was opening.
#[derive(Debug)]
pub(crate) struct Deferred(pub Vec<AppInput>);
/// Most nodes are open before anybody asks.
impl Empty for Deferred {
    type From = ();
    const EMPTY: &'static Self = &Deferred(Vec::new());
    fn make((): ()) -> Self {
        Deferred(Vec::new())
    }
}

/// The bundle protocol agent of one node.
#[derive(Debug)]
pub struct Agent {
    pub(crate) settings: Settings,
    pub(crate) local: Box<[NodeId]>,
    pub(crate) wall: Wall,
    pub(crate) now: Instant,
    pub(crate) open: bool,
    pub(crate) terminating: bool,
    pub(crate) deferred: Lazy<Deferred>,
    pub(crate) rng: Rng,
    pub(crate) book: Book,
    pub(crate) memory: Memory,
    pub(crate) shares: Lazy<Shares>,
    pub(crate) debts: Debts,
    pub(crate) promises: Promises,
    /// Bytes of the bundle that others make room for just now.
    pub(crate) newcomer: u64,
    pub(crate) queues: Queues,
    pub(crate) sends: Sends,
    pub(crate) custody: Option<Box<Custody>>,
    pub(crate) tunnels: Option<Box<Tunnels>>,
    pub(crate) compressed: Option<Box<Compressed>>,
    pub(crate) cuts: Cuts,
    pub(crate) waits: Waits,
    pub(crate) rests: Lazy<Rests>,
    pub(crate) offers: Lazy<Offers>,
    pub(crate) deliveries: Lazy<Deliveries>,
    pub(crate) fragments: Fragments,
    pub(crate) remembered: Remembered,
    pub(crate) neighbours: Neighbours,
    pub(crate) plan: Plan,
    pub(crate) policies: Policies,
    pub(crate) hellos: Lazy<Hellos>,
    pub(crate) reports: Reports,
    pub(crate) creation: Creation,
    pub(crate) timers: TimerQueue<Timer>,
    pub(crate) steps: VecDeque<Step>,
    pub(crate) sweeps: Sweeps,
    pub(crate) budget: u32,
}

/// The node as its policies see it; a function, so that a policy may be borrowed beside.
pub(crate) fn seen<'a>(
    (book, neighbours, plan): (&'a Book, &'a Neighbours, &'a Plan),
    settings: &Settings,
    local: &[NodeId],
    now: Instant,
) -> Seen<'a> {
    let me = local.first().copied().unwrap_or(NodeId::NULL);
    Seen { now, me, book, peers: neighbours.peers(), capacity: settings.capacity_bytes, plan }
}

impl Agent {
    /// An agent with its policies. It takes bundles once the store has said `Opened`.
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
            wall: Wall::UNKNOWN,
            now: Instant::ZERO,
            open: false,
            terminating: false,
            deferred: Lazy::default(),
            rng: Rng::stream(seed, 7),
            book: Book::new(seed),
            memory: Memory::default(),
            shares: Lazy::default(),
            debts: Debts::default(),
            promises: Promises::default(),
            newcomer: 0,
            queues: Queues::new(),
            sends: Sends::default(),
            custody: settings.custody.take().map(|settings| Box::new(Custody::new(*settings))),
            compressed: rare.compressed.map(|settings| Box::new(Compressed::new(settings))),
            tunnels: (!wanted.is_empty()).then(|| Box::new(Tunnels::new(wanted, &mut Rng::stream(seed, 8)))),
            cuts: Cuts::default(),
            waits: Waits::default(),
            rests: Lazy::default(),
            offers: Lazy::default(),
            deliveries: Lazy::default(),
            fragments: Fragments::new(limits.fragments),
            remembered: Remembered::new(limits.remembered),
            neighbours,
            plan: Plan::default(),
            policies: Policies::new(router, control),
            hellos: Lazy::default(),
            reports: Reports::new(limits.reports_per_second),
            creation: Creation::default(),
            timers: TimerQueue::new(),
            steps: VecDeque::new(),
            sweeps: Sweeps::default(),
            budget: SLICE,
            settings,
        }
    }
    /// The contact plan to begin with; it is placed by the first clock reading.
    pub fn preload_plan(&mut self, plan: Arc<PlanIndex>) {
        self.plan.preload(plan);
    }
    /// A router that no registry has, in place of the configured one; before the first input.
    pub fn set_router(&mut self, router: Box<dyn Router>) {
        self.policies.set_router(router);
    }
    /// A congestion control that no registry has, in place of the configured one; before the first input.
    pub fn set_control(&mut self, control: Box<dyn Control>) {
        self.policies.set_control(control);
    }
    /// Knowledge no node can have, for policies registered for it; simulations only.
    pub fn set_oracle(&mut self, oracle: Box<dyn farlink_book::Oracle + Send>) {
        self.policies.set_oracle(oracle);
    }
    /// Gives back room that a busy time needed: nothing happens for now.
    pub fn rest(&mut self) {
        self.book.rest();
        self.steps.shrink_to_fit();
    }
    /// Payload bytes of deliveries that applications did not answer.
    pub fn unanswered(&self) -> u64 {
        self.deliveries.unanswered_bytes()
    }
    /// Payload bytes of held bundles that are in memory.
    pub fn resident(&self) -> u64 {
        self.memory.resident()
    }
    /// Bytes of long heads of held bundles, by [`Limits::head_bytes`](crate::Limits::head_bytes).
    pub fn heads(&self) -> u64 {
        self.shares.heads()
    }
    /// Whether the store was read: from then on bundles are taken.
    pub fn is_open(&self) -> bool {
        self.open
    }
    /// Whether it holds no bundle.
    pub fn is_empty(&self) -> bool {
        self.book.is_empty()
    }

    /// When to call with [`Input::Wake`] at the latest: now, while work is left over.
    pub fn next_timeout(&self) -> Option<Instant> {
        if self.has_work() {
            return Some(self.now);
        }
        let custody = self.custody.as_ref().and_then(|custody| custody.next());
        let tunnels = self.tunnels.as_ref().and_then(|tunnels| tunnels.next());
        let compressed = self.compressed.as_ref().and_then(|compressed| compressed.next());
        let asked_again = Instant::earliest([self.waits.next(), self.rests.next(), custody, tunnels, compressed]);
        Instant::earliest([self.timers.next_deadline(), self.book.next_expiry(), asked_again])
    }

    /// Whether [`Input::Wake`] at `now` has anything to do.
    pub fn is_due(&self, now: Instant) -> bool {
        !self.hellos.is_idle() || self.next_timeout().is_some_and(|at| at <= now)
    }

    /// Takes one input at `now`; pushes what follows from it. Follow-up work beyond a slice is done
    /// by later calls.
    pub fn handle<S: Sink<Output>>(&mut self, now: Instant, input: Input, edge: &mut dyn Edge, out: &mut S) {
        self.now = now;
        self.budget = SLICE;
        let turn = if let Input::Turn { link } = input { Some(link) } else { None };
        self.take(now, input, edge, out);
        self.fire_timers(now, out);
        self.drain(now, edge, out);
        if !self.hellos.is_idle() {
            self.flush_hellos(now, edge, out);
            self.drain(now, edge, out);
        }
        if let Some(link) = turn {
            self.end_turn(link);
        }
    }

    fn take<S: Sink<Output>>(&mut self, now: Instant, input: Input, edge: &mut dyn Edge, out: &mut S) {
        match input {
            Input::Wake => {}
            Input::Clock(clock) => self.on_clock(now, clock, out),
            Input::Begun { link, token, bundle, hop } => self.on_begun(now, link, token, bundle, &hop, edge, out),
            Input::Piece { link, token, bundle, hop, promises } => {
                self.on_piece(now, link, token, bundle, &hop, promises, edge, out);
            }
            Input::Abandoned { token } => {
                self.promise_ends(token);
                self.pieces_end(token, true);
            }
            Input::Arrived { link, token, bundle, hop } => self.on_arrived(now, link, token, bundle, &hop, edge, out),
            Input::Malformed { link, token, error } => self.on_malformed(link, token, error, out),
            Input::Damaged { link, token, bundle, error } => {
                self.on_malformed(link, token, error, out);
                self.report_damaged(now, &bundle, edge, out);
            }
            Input::Carrier { link, up } => self.on_carrier(now, link, up, out),
            Input::Ready { link, ready } => self.on_ready(link, ready, false),
            Input::TakesOne { link, ready } => self.on_ready(link, ready, true),
            Input::Turn { link } => self.on_turn(link),
            Input::Hello { link, content } => {
                let from = self.neighbours.peer_of(link);
                self.on_hello(now, from, &content, out);
            }
            Input::Sent { id } => self.on_sent(now, id, edge, out),
            Input::SentInPart { id, bytes } => self.on_sent_in_part(id, bytes, out),
            Input::SendFailed { id, refused } => self.on_send_failed(now, id, refused, edge, out),
            Input::Unreadable { what, for_good } => self.on_unreadable(now, what, for_good, edge, out),
            Input::Insecure { delivery, reason } => self.on_insecure(now, delivery, reason, edge, out),
            Input::Rendered { id, rope } => self.on_rendered(now, id, rope, edge, out),
            Input::Outer { delivery, payload } => self.on_opened_outer(now, delivery, &payload, edge, out),
            Input::Judged { delivery, result } => self.on_inside_judged(now, delivery, result, edge, out),
            Input::Unwanted { link, token, bundle, reason } => self.on_unwanted(link, token, &bundle, reason, out),
            Input::PeerUp { link, claimed, node, proven } => self.on_peer_up(now, link, claimed, node, proven, out),
            Input::PeerDown { link } => self.on_peer_down(now, link, out),
            Input::Store(output) => self.on_store(now, output, edge, out),
            Input::Recovered { bundle, index, meta, hop } => {
                self.on_recovered(now, bundle, &index, meta, &hop, edge, out);
            }
            Input::Pressure(pressure) => {
                self.memory.press(&mut self.book, pressure);
                self.steps.extend(self.neighbours.links().map(|link| Step::Pump(link.id)));
            }
            Input::App(input) if !self.open => {
                if self.deferred.0.len() < DEFERRED_MAX {
                    self.deferred.0.push(input);
                }
            }
            Input::App(input) => self.on_app(now, input, edge, out),
            Input::Admin(input) => self.on_admin(now, input, edge, out),
        }
    }

    fn fire_timers<S: Sink<Output>>(&mut self, now: Instant, out: &mut S) {
        while self.budget > 0 {
            let Some((_, timer)) = self.timers.pop_due(now) else { return };
            self.budget -= 1;
            match timer {
                Timer::Edge(link) => self.on_edge(now, link, out),
                Timer::List(list) => self.queues.let_go(list),
                Timer::Pace(link) => {
                    if let Some(l) = self.neighbours.link_mut(link) {
                        l.pace_armed = false;
                        self.steps.push_back(Step::Pump(link));
                    }
                }
                Timer::Summary(peer) if self.offers.awaits(peer).is_some_and(|at| at <= now) => {
                    let _rang = self.offers.heard(peer);
                }
                Timer::Summary(_) => {}
                Timer::Hear(peer) => self.on_hear(now, peer, out),
                Timer::Policy(side) => self.tell_one(now, side, &PolicyEvent::Wake, out),
            }
        }
    }

    /// Works off what follows, urgent steps before walks, while the budget lasts.
    fn drain<S: Sink<Output>>(&mut self, now: Instant, edge: &mut dyn Edge, out: &mut S) {
        while self.budget > 0 {
            if let Some(step) = self.steps.pop_front() {
                self.budget -= 1;
                self.step(now, step, edge, out);
            } else if !self.walk(now, edge, out) {
                return;
            }
        }
    }

    fn step<S: Sink<Output>>(&mut self, now: Instant, step: Step, edge: &mut dyn Edge, out: &mut S) {
        match step {
            Step::Dispatch(bundle) => self.dispatch(now, bundle, edge, out),
            Step::Pump(link) => self.pump(now, link, edge, out),
            Step::Deliver(endpoint) => self.pump_deliveries(now, &endpoint, edge, out),
            Step::Forsake(bundles) => self.forsake(now, bundles, edge, out),
            Step::Offer(bundle) => self.offer_to_all(now, bundle),
            Step::RerouteAll => self.sweeps.all(&mut self.book),
            Step::DropHello(bundle) => {
                if self.book.get(bundle).is_some_and(|held| held.sends == 0) {
                    self.depart(now, bundle, Why::Forwarded, None, edge, out);
                }
            }
            Step::Custody(heard) => self.heed_custody(now, heard, edge, out),
            Step::Signal(told) => self.heed_of_tunnel(now, told, edge, out),
            Step::Outer(bundle) => self.open_outer(bundle, out),
            Step::Tunnel(number, left) => self.on_outer_end(now, number, left, edge, out),
            Step::Line => self.next_in_tunnel(),
            Step::Action(side, order) => self.follow(now, side, order, edge, out),
            Step::Pieces(token, stay) => self.settle_pieces(now, token, stay, edge, out),
        }
    }

    /// One unit of the walks; false when all are done.
    fn walk<S: Sink<Output>>(&mut self, now: Instant, edge: &mut dyn Edge, out: &mut S) -> bool {
        self.budget -= 1;
        if self.book.next_expiry().is_some_and(|at| at <= now) {
            if let Some(bundle) = self.book.pop_expired(now) {
                self.on_lifetime_end(now, bundle, edge, out);
                return true;
            }
        }
        if let Some(bundle) = self.waits.pop(now) {
            self.on_wait_end(now, bundle, edge, out);
        } else if let Some(bundle) = self.rests.made().and_then(|rests| rests.pop(now)) {
            self.waits.forgive(bundle);
            self.on_wait_end(now, bundle, edge, out);
        } else if let Some(due) = self.custody.as_mut().and_then(|custody| custody.pop(now)) {
            self.on_custody_due(now, due, edge, out);
        } else if let Some(due) = self.tunnels.as_mut().and_then(|tunnels| tunnels.pop(now)) {
            self.on_tunnel_due(now, due, edge, out);
        } else if let Some(due) = self.compressed.as_mut().and_then(|compressed| compressed.pop(now)) {
            self.say_compressed(now, due, edge, out);
        } else if let Some(taken) = self.queues.take_loose(&mut self.book) {
            self.on_loose(now, taken, edge, out);
        } else if !self.sweeps.is_idle() {
            self.sweep_one(now, edge, out);
        } else if self.memory.settle_one(&mut self.book) {
        } else if let Some(turn) = self.offers.made().and_then(|offers| offers.turn(&self.book)) {
            self.offer_turn(now, turn);
        } else {
            return false;
        }
        true
    }

    /// New bundles came: whoever is offered to sees them.
    pub(crate) fn wake_offers(&mut self) {
        if let Some(offers) = self.offers.made() {
            offers.wake_all();
        }
    }
    fn has_work(&self) -> bool {
        !self.steps.is_empty()
            || self.queues.has_loose()
            || !self.sweeps.is_idle()
            || !self.offers.is_idle()
            || self.memory.settles()
    }

    fn sweep_one<S: Sink<Output>>(&mut self, now: Instant, edge: &mut dyn Edge, out: &mut S) {
        let Some(bundle) = self.sweeps.next(&mut self.book) else { return };
        self.await_delivery(bundle);
        if self.book.get(bundle).is_some_and(|held| self.waits_for_a_way(held)) {
            self.dispatch(now, bundle, edge, out);
        }
    }

    fn offer_turn(&mut self, now: Instant, turn: Turn) {
        match turn {
            Turn::Look(peer, first, cursor) => {
                let mut here = first;
                self.offer(now, peer, here);
                // A unit each: what the neighbour has not seen stands in one row.
                while let Some(next) = self.book.after(here).filter(|_| self.budget > 0) {
                    self.budget -= 1;
                    here = next;
                    self.offer(now, peer, here);
                }
                self.book.stand(cursor, here);
            }
            Turn::Ready(peer) => {
                let links = self.neighbours.peers().get(peer).map(|p| p.up.clone()).unwrap_or_default();
                self.steps.extend(links.into_iter().map(Step::Pump));
            }
        }
    }

    /// The node as its policies see it.
    pub(crate) fn seen(&self, now: Instant) -> Seen<'_> {
        seen((&self.book, &self.neighbours, &self.plan), &self.settings, &self.local, now)
    }

    /// Tells both policies, those that want to hear it.
    pub(crate) fn tell<S: Sink<Output>>(&mut self, now: Instant, news: &PolicyEvent<'_>, out: &mut S) {
        for side in [Side::Router, Side::Control] {
            if self.is_told(side, news) {
                self.tell_one(now, side, news, out);
            }
        }
    }
    /// Whether a policy is to hear this: it asked for it, and it is not about a hello.
    pub(crate) fn is_told(&self, side: Side, news: &PolicyEvent<'_>) -> bool {
        self.policies.wants(side, news)
            && match *news {
                PolicyEvent::Handed { bundle, .. }
                | PolicyEvent::Sent { bundle, .. }
                | PolicyEvent::Failed { bundle, .. }
                | PolicyEvent::Gone { bundle, .. } => self.book.get(bundle).is_some_and(|held| !self.is_hello(held)),
                _ => true,
            }
    }
    /// Tells one policy.
    pub(crate) fn tell_one<S: Sink<Output>>(&mut self, now: Instant, side: Side, news: &PolicyEvent<'_>, out: &mut S) {
        let seen = seen((&self.book, &self.neighbours, &self.plan), &self.settings, &self.local, now);
        self.policies.tell(seen, side, news);
        self.follow_orders(now, side, out);
    }
    /// Follows what a policy just ordered: labels and the like at once, the rest as steps.
    pub(crate) fn follow_orders<S: Sink<Output>>(&mut self, now: Instant, side: Side, _out: &mut S) {
        for order in self.policies.orders() {
            match order {
                Action::Label { bundle, label } => {
                    if let Some(held) = self.book.get_mut(bundle) {
                        held.labels[side as usize] = label;
                        self.steps.push_back(Step::Offer(bundle));
                    }
                }
                Action::Ban { id } => self.remembered.ban(id),
                Action::Tell { to, bytes } => self.hellos.tell(to, side, &bytes),
                Action::Wake(at) => drop(self.timers.arm(at.max(now), Timer::Policy(side))),
                Action::RerouteAll => self.steps.push_back(Step::RerouteAll),
                Action::RerouteTo(node) => self.sweeps.to(node),
                Action::Reask(peer) => self.offers.reask(&mut self.book, peer),
                order => self.steps.push_back(Step::Action(side, order)),
            }
        }
    }
    /// Follows an order that moves bundles.
    fn follow<S: Sink<Output>>(&mut self, now: Instant, _side: Side, order: Action, edge: &mut dyn Edge, out: &mut S) {
        match order {
            Action::Reroute(bundle) => self.reroute(now, bundle, edge, out),
            // Policies end no custody, no delivery and no send: the bundle leaves when those end.
            Action::Delete { bundle, why } => self.give_up(now, bundle, why, edge, out),
            Action::Migrate { bundle, to } => self.migrate(bundle, to, out),
            _ => {}
        }
    }

    pub(crate) fn is_local(&self, node: NodeId) -> bool {
        self.local.contains(&node)
    }
    /// Whether a bundle is for this node and no other: delivery here is no end for a group's.
    // 9758-5.1-2
    pub(crate) fn is_for_us(&self, bundle: &BundleMeta) -> bool {
        self.is_local(bundle.destination_node()) && !bundle.is_for_group()
    }
    /// The node ID this node speaks as.
    pub(crate) fn node_id(&self) -> EndpointId {
        self.settings.node_ids.first().cloned().unwrap_or_default()
    }
    /// A neighbour's node in numbers.
    pub(crate) fn node_of(&self, peer: PeerId) -> NodeId {
        self.neighbours.peers().get(peer).map_or(NodeId::NULL, |peer| peer.node)
    }
    pub(crate) fn event<S: Sink<Output>>(&self, out: &mut S, event: Event) {
        if out.wants(event.class()) {
            out.push(Output::Event(event));
        }
    }
    /// Names a bundle to whoever follows events.
    pub(crate) fn event_seen<S: Sink<Output>>(&self, bundle: Handle, out: &mut S) {
        if !out.wants(EventClass::Bundle) {
            return;
        }
        let Some(held) = self.book.get(bundle) else { return };
        let meta = &held.bundle;
        out.push(Output::Event(Event::Seen {
            bundle: held.name(),
            key: meta.key(),
            destination: held.destination(),
            destination_service: meta.destination.service_number(),
            payload: meta.payload.len(),
            size: meta.size(),
            priority: meta.priority,
            lifetime_ms: meta.lifetime_ms,
        }));
    }
    /// Refuses something, telling whoever follows events.
    pub(crate) fn event_refused<S: Sink<Output>>(
        &self,
        link: Option<LinkId>,
        meta: Option<&BundleMeta>,
        reason: farlink_base::Refusal,
        out: &mut S,
    ) {
        self.event(out, Event::Refused { link, key: meta.map(BundleMeta::key), reason });
    }
}

/// Deleted for this reason.
pub(crate) const fn deleted(reason: DeleteReason) -> Why {
    Why::Deleted(reason)
}
