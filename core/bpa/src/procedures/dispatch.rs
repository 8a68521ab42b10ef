//! Dispatching (RFC 9171 5.3) and the choice of a route (5.4): the router decides first; if it names no usable next
//! hop, a static route is tried, then a link to the destination itself, then a fragment.

use crate::agent::Agent;
use crate::context::Context;
use crate::io::Output;
use crate::procedures::mtu::chosen;
use crate::state::queues::Taken;
use crate::state::waits::back_off;
use crate::work::Step;
use alloc::string::ToString;
use alloc::vec::Vec;
use farlink_base::{DeleteReason, EndpointId, Event, Instant, LinkId, NodeId, PeerId, Sink, pattern_rank};
use farlink_book::{
    Flags, Handle, Held, NextHop, PolicyEvent, RetentionConstraint, RetentionConstraints, RouteDecision, Why,
};

/// Smallest payload of a fragment that is cut to find a route, bytes.
const PIECE_MIN: u64 = 1024;

impl Agent {
    /// Whether a bundle is to be forwarded or delivered, is in no queue, and does not wait for custody to be accepted.
    pub(crate) fn waits_for_a_way(&self, held: &Held) -> bool {
        held.has(RetentionConstraint::Route) && !held.has(RetentionConstraint::Queue) && !self.awaits_custody(held)
    }

    /// Decides the next step of a bundle that is new, waits, or came back: deletion, delivery, a tunnel, or a route.
    // 9171-5.3-1, 9171-5.4-2, 9171-5.4.2-3, 5050-5.3-1, 5050-5.4-2, 5050-5.4.2-3
    pub(crate) fn dispatch<S: Sink<Output>>(&mut self, cx: &mut Context<'_, S>, bundle: Handle) {
        let now = cx.now;
        let Some(held) = self.book.get(bundle).filter(|held| self.waits_for_a_way(held)) else { return };
        if held.expires <= now {
            return self.depart(cx, bundle, Why::Deleted(self.over(now, held)), None);
        }
        if self.is_for_us(&held.bundle) {
            return self.deliver_locally(cx, bundle);
        }
        self.await_delivery(bundle);
        let Some(held) = self.book.get(bundle) else { return };
        if held.is_tired() {
            // 9171-5.4.2-2, 5050-5.4.2-2
            if held.has(RetentionConstraint::Whole) {
                // Forwarding ends here, but members of its group may still receive it.
                let last = self.book.release(bundle, RetentionConstraint::Route);
                debug_assert!(!last, "it is to be delivered");
                return;
            }
            return self.depart(cx, bundle, Why::Deleted(DeleteReason::HopLimit), None);
        }
        if self.is_hello(held) {
            return self.repeat_hello(cx, bundle);
        }
        if let Some((until, _)) = self.held_back(now, held) {
            // A request to route it earlier changes nothing: the delay breaks routing loops.
            return self.outbound.waits.until(&mut self.book, bundle, until);
        }
        self.outbound.waits.cancel(bundle);
        if let Some(backoff) = self.outbound.backoff.made() {
            backoff.leave(bundle);
        }
        if self.has_tunnels() && self.tunnel(cx, bundle) {
            return;
        }
        self.route(cx, bundle);
    }

    /// End of the delay of a bundle that came back, and the number of its returns; `None` if it is not delayed now.
    pub(crate) fn held_back(&self, now: Instant, held: &Held) -> Option<(Instant, u8)> {
        if held.flags.has(Flags::ASIDE) { self.outbound.waits.held_back(held.handle(), now) } else { None }
    }
    /// Neighbours that refused the bundle since they last came up.
    pub(crate) fn tried(&self, held: &Held) -> Vec<PeerId> {
        if held.flags.has(Flags::ASIDE) {
            self.outbound.waits.tried(held.handle(), |peer| self.neighbours.ups(peer))
        } else {
            Vec::new()
        }
    }

    // 9171-5.4-5, 5050-5.4-3
    fn route<S: Sink<Output>>(&mut self, cx: &mut Context<'_, S>, bundle: Handle) {
        let now = cx.now;
        let Some(held) = self.book.get(bundle) else { return };
        let mut tried = self.tried(held);
        let narrow = self.too_narrow(now, bundle, cx.edge);
        let mut way = self.ask(now, bundle, &tried);
        // A link with too small an MTU is reported only if routing would have chosen it.
        let mut too_narrow = chosen(&way, &narrow);
        if !narrow.is_empty() && matches!(way, RouteDecision::Wait(_)) {
            let leg = self.static_leg(bundle, &tried, &[], now);
            too_narrow = leg.map(|leg| leg.link).filter(|link| narrow.contains(link));
        }
        if too_narrow.is_some() {
            tried.extend(self.only_over(&narrow));
            way = self.ask(now, bundle, &tried);
        }
        let until = match way {
            RouteDecision::Carry => {
                self.say_unfit(bundle, too_narrow, cx.out);
                return self.carry(cx, bundle, Instant::MAX);
            }
            RouteDecision::One(leg) if self.may_follow(now, bundle, leg, &narrow) => {
                return self.queue(bundle, leg, false, cx.out);
            }
            RouteDecision::All(legs) if self.queue_all(cx, bundle, &legs, &narrow) => return,
            RouteDecision::Wait(until) => until,
            RouteDecision::One(_) | RouteDecision::All(_) => Instant::MAX,
        };
        let leg = self.static_leg(bundle, &tried, &narrow, now);
        if let Some(leg) = leg.or_else(|| self.leg_for_a_piece(now, bundle, &tried, &narrow)) {
            return self.queue(bundle, leg, false, cx.out);
        }
        self.say_unfit(bundle, too_narrow, cx.out);
        self.carry(cx, bundle, until);
    }
    fn say_unfit<S: Sink<Output>>(&mut self, bundle: Handle, link: Option<LinkId>, out: &mut S) {
        if let Some(link) = link {
            self.say_too_narrow(bundle, link, out);
        }
    }

    /// The router's decision on a bundle.
    fn ask(&mut self, now: Instant, bundle: Handle, tried: &[PeerId]) -> RouteDecision {
        let Some(held) = self.book.get(bundle) else { return RouteDecision::Carry };
        let seen = crate::policies::seen((&self.book, &self.neighbours, &self.plan), &self.settings, &self.local, now);
        let way = match self.outbound.partial_sends.left(bundle) {
            // Only the rest needs a route: earlier fragments of the bundle have left already.
            Some(left) => {
                let size = left + held.bundle.overhead();
                self.policies
                    .route_part(seen, held, size, tried)
                    .map_or(RouteDecision::Wait(Instant::MAX), RouteDecision::One)
            }
            None => self.policies.route(seen, held, tried),
        };
        self.follow_orders(now, farlink_book::Side::Router);
        way
    }

    /// Whether a link is usable for a bundle and the congestion control permits it.
    fn may_follow(&self, now: Instant, bundle: Handle, leg: NextHop, narrow: &[LinkId]) -> bool {
        let link = self.neighbours.link(leg.link).filter(|link| link.enabled && !narrow.contains(&link.id));
        let Some(link) = link else { return false };
        let (Some(held), Some(peer)) = (self.book.get(bundle), self.neighbours.peers().get(link.peer)) else {
            return false;
        };
        leg.until > now && self.policies.allows(self.seen(now), peer, held)
    }

    fn queue_all<S: Sink<Output>>(
        &mut self,
        cx: &mut Context<'_, S>,
        bundle: Handle,
        legs: &[NextHop],
        narrow: &[LinkId],
    ) -> bool {
        let anonymous = self.book.get(bundle).is_none_or(|held| held.bundle.is_anonymous());
        let usable: Vec<NextHop> =
            legs.iter().copied().filter(|leg| self.may_follow(cx.now, bundle, *leg, narrow)).collect();
        // The first link gets the bundle itself, the others copies. Anonymous bundles are not copied, since duplicates
        // could not be recognised.
        for (n, leg) in usable.iter().take(if anonymous { 1 } else { usize::MAX }).enumerate() {
            self.queue(bundle, *leg, n > 0, cx.out);
        }
        !usable.is_empty()
    }

    // 9171-5.4-1, 5050-5.4-1
    pub(crate) fn queue<S: Sink<Output>>(&mut self, bundle: Handle, leg: NextHop, copy: bool, out: &mut S) {
        if let Some(held) = self.book.get_mut(bundle).filter(|_| !copy) {
            held.flags.set(Flags::MOVES, false);
        }
        if let Some(list) = self.outbound.queues.put(&mut self.book, bundle, leg, copy) {
            if leg.until < Instant::MAX {
                let timer = self.work.arm(leg.until, crate::work::Timer::List(list));
                self.outbound.queues.set_timer(list, timer);
            }
        }
        let next_hop = self.node_of(self.neighbours.peer_of(leg.link));
        self.event(out, Event::Routed { bundle: self.number(bundle), link: leg.link, next_hop });
        self.work.push(Step::Pump(leg.link));
    }

    /// Keeps a bundle for which there is no route now. It is routed again at `until`, or earlier if an event such as a
    /// new link requests that; meanwhile it is offered to neighbours.
    // 9171-5.4-5, 9171-5.4.1-1, 5050-5.4-5, 5050-5.4.1-1
    fn carry<S: Sink<Output>>(&mut self, cx: &mut Context<'_, S>, bundle: Handle, until: Instant) {
        let Some(held) = self.book.get(bundle) else { return };
        let (expires, failures, number) = (held.expires, held.failures, held.name());
        let aside = held.flags.has(Flags::ASIDE) && self.outbound.waits.first_refusal(bundle).is_some();
        let tried = if aside { self.tried(held) } else { Vec::new() };
        // A wait that ends now would ask the router again within this call.
        if until < expires {
            self.outbound.waits.until(&mut self.book, bundle, until.max(Instant(cx.now.0 + 1)));
        }
        let backs_off = self.outbound.backoff.made().is_some_and(|backoff| backoff.wait(&self.book, bundle, &tried));
        if aside && !backs_off {
            // Refusals are forgotten when the backoff ends.
            self.outbound.waits.until(&mut self.book, bundle, cx.now + back_off(failures));
        }
        self.event(cx.out, Event::Waiting { bundle: number });
        if self.policies.offers() {
            self.outbound.wake_offers();
        }
    }

    /// Next hop by a static route; without one, by a link to the destination itself.
    fn static_leg(&self, bundle: Handle, tried: &[PeerId], narrow: &[LinkId], now: Instant) -> Option<NextHop> {
        let destination = &self.book.get(bundle)?.bundle.destination;
        let next_hop = self.next_hop(destination).unwrap_or_else(|| destination.node());
        self.link_to(next_hop, tried, narrow, now).map(|link| NextHop { link, not_before: now, until: Instant::MAX })
    }

    /// Next hop's node by the static route with the most specific pattern, if any matches.
    pub(crate) fn next_hop(&self, destination: &EndpointId) -> Option<NodeId> {
        if self.settings.routes.is_empty() {
            return None;
        }
        let text = destination.to_string();
        let routes = self.settings.routes.iter();
        let ranked = routes.filter_map(|(pattern, hop)| Some((pattern_rank(pattern, destination, &text)?, hop)));
        ranked.max_by_key(|(rank, _)| *rank).map(|(_, hop)| hop.node())
    }

    /// Link to a node: one that is up before others, then the one with the fewest queued bytes. Links of the plan are
    /// left to the router if it reads the plan.
    // 9171-5.4-3, 5050-5.4-4
    fn link_to(&self, node: NodeId, tried: &[PeerId], narrow: &[LinkId], now: Instant) -> Option<LinkId> {
        if node == NodeId::NULL {
            return None;
        }
        let peer = self.neighbours.of_node(node).filter(|peer| !tried.contains(&peer.id))?;
        let (plan_rules, plan) = (self.policies.uses_plan(), self.plan.placed());
        let links = peer.links.iter().filter_map(|link| self.neighbours.link(*link));
        let usable =
            links.filter(|link| link.enabled && !narrow.contains(&link.id) && !(link.is_planned() && plan_rules));
        usable
            .min_by_key(|link| (!link.is_up(plan, now), self.outbound.queues.of(link.id).1, link.id))
            .map(|link| link.id)
    }

    /// Next hop for a fragment of a bundle that no contact takes whole: the payload is halved until a contact takes the
    /// part (RFC 9171 5.8). Bounds the next fragment to that size.
    fn leg_for_a_piece(
        &mut self,
        now: Instant,
        bundle: Handle,
        tried: &[PeerId],
        narrow: &[LinkId],
    ) -> Option<NextHop> {
        let held = self.book.get(bundle)?;
        let payload = self.outbound.partial_sends.left(bundle).unwrap_or(held.bundle.payload.len());
        let overhead = held.bundle.overhead() + 32;
        if !held.bundle.may_fragment() || !self.policies.uses_plan() {
            return None;
        }
        // Each fragment repeats the blocks, so fragments should be few: halves leave no short last fragment.
        let mut piece = payload;
        while piece >= 2 * PIECE_MIN {
            piece = piece.div_ceil(2);
            let leg = self.policies.route_part(self.seen(now), held, piece + overhead, tried);
            if let Some(leg) = leg.filter(|leg| self.may_follow(now, bundle, *leg, narrow)) {
                self.outbound.partial_sends.limit_next(&mut self.book, bundle, piece);
                return Some(leg);
            }
        }
        None
    }

    /// Takes a bundle out of its queues and routes it again, on the router's request.
    pub(super) fn reroute<S: Sink<Output>>(&mut self, cx: &mut Context<'_, S>, bundle: Handle) {
        if self.book.get(bundle).is_some_and(|held| held.has(RetentionConstraint::Route)) {
            self.leave_queues(bundle);
            self.dispatch(cx, bundle);
        }
    }

    /// Routes a bundle of a released queue list again: the list's contact is over, its link is down or removed, or all
    /// routes are reconsidered.
    pub(crate) fn on_loose<S: Sink<Output>>(&mut self, cx: &mut Context<'_, S>, taken: Taken) {
        let Taken { bundle, copy, link, .. } = taken;
        if !copy {
            let to = self.neighbours.peer_of(link);
            self.notify_policies(cx.now, &PolicyEvent::Failed { bundle, to, gave: 0, keep: false });
        }
        if self.is_done(bundle) {
            // Only a queued copy still held the bundle, which itself was sent before.
            return self.depart(cx, bundle, Why::Forwarded, None);
        }
        self.work.push(Step::Dispatch(bundle));
    }

    /// Removes a bundle from the queues of all links; it stays held.
    pub(crate) fn leave_queues(&mut self, bundle: Handle) {
        while let Some(taken) = self.outbound.queues.take_of(&mut self.book, bundle) {
            if let Some(timer) = taken.timer {
                self.work.cancel(timer);
            }
        }
    }

    /// Dispatches a bundle whose wait has ended.
    pub(crate) fn on_wait_end<S: Sink<Output>>(&mut self, cx: &mut Context<'_, S>, bundle: Handle) {
        self.await_delivery(bundle);
        if self.book.get(bundle).is_some_and(|held| self.waits_for_a_way(held)) {
            self.dispatch(cx, bundle);
            self.work.push(Step::Offer(bundle));
        }
    }

    /// Ends the forwarding of a bundle on a policy's request. The bundle departs unless delivery, custody or a
    /// transmission holds it; bundles for this node are left alone.
    pub(super) fn give_up<S: Sink<Output>>(&mut self, cx: &mut Context<'_, S>, bundle: Handle, why: Why) {
        let Some(held) = self.book.get(bundle).filter(|held| !self.is_for_us(&held.bundle)) else { return };
        if is_only_forwarded(held) {
            self.depart(cx, bundle, why, None);
        } else if held.has(RetentionConstraint::Route) && !held.has(RetentionConstraint::Custody) {
            self.leave_queues(bundle);
            let last = self.book.release(bundle, RetentionConstraint::Route);
            debug_assert!(!last, "it is held for another reason");
        }
    }

    /// Queues a bundle for a neighbour to make room here, if only forwarding holds the bundle. It stays held until the
    /// neighbour has received it.
    pub(super) fn migrate<S: Sink<Output>>(&mut self, bundle: Handle, to: PeerId, out: &mut S) {
        let removable = self
            .book
            .get(bundle)
            .is_some_and(|held| is_only_forwarded(held) && held.sends == 0 && !self.is_for_us(&held.bundle));
        let Some(link) = self.neighbours.peers().get(to).and_then(|peer| peer.up.first().copied()) else { return };
        let fits = self.book.get(bundle).is_some_and(|held| self.surely_fits(held, link));
        if removable && fits {
            self.leave_queues(bundle);
            self.queue(bundle, NextHop { link, not_before: Instant::ZERO, until: Instant::MAX }, false, out);
            if let Some(held) = self.book.get_mut(bundle) {
                held.flags.set(Flags::MOVES, true);
            }
        }
    }
}

/// Whether forwarding is the only duty left for a bundle; the store may not have it yet.
fn is_only_forwarded(held: &Held) -> bool {
    const FORWARDED: RetentionConstraints = RetentionConstraints::of(&[
        RetentionConstraint::Route,
        RetentionConstraint::Queue,
        RetentionConstraint::Commit,
    ]);
    held.has(RetentionConstraint::Route) && held.reasons().within(FORWARDED)
}
