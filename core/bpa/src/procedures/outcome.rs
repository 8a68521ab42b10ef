//! Results of transmissions: confirmed, failed, refused, or unreadable.

use crate::agent::Agent;
use crate::context::Context;
use crate::edge::Status;
use crate::io::{Output, Pressure, Reading};
use crate::neighbours::link::Takes;
use crate::state::backoff::Alike;
use crate::state::transmissions::Sending;
use crate::state::waits::{Turned, back_off};
use crate::work::Step;
use farlink_base::layer::SendId;
use farlink_base::{DeleteReason, Event, Facts, Instant, LinkId, Refusal, Sink};
use farlink_book::{Flags, Handle, PolicyEvent, RetentionConstraint, RetentionConstraints, Side, Why};

/// Successive failures of a bundle after which a further one counts as a refusal by the neighbour.
const FAILURES_MAX: u8 = 3;

impl Agent {
    /// Takes a layer's confirmation: the neighbour has the bundle, or the layer gets no acknowledgments.
    pub(crate) fn on_sent<S: Sink<Output>>(&mut self, cx: &mut Context<'_, S>, id: SendId) {
        let Some((sending, last)) = self.end_send(id, cx.out, true) else { return };
        let bundle = sending.bundle;
        let Some(held) = self.book.get_mut(bundle) else { return };
        held.failures = 0;
        if let Some(oracle) = self.policies.oracle().filter(|_| !held.flags.has(Flags::VIRTUAL)) {
            oracle.forwarded(held.bundle.id);
        }
        if let Some(backoff) = self.outbound.backoff.made() {
            for more in backoff.took(sending.peer, Alike::to(&held.bundle), cx.now) {
                self.outbound.waits.forgive(more);
                self.work.push(Step::Dispatch(more));
            }
        }
        if self.is_part(bundle, sending.range.as_ref()) {
            // The neighbour that got this fragment should get the remainder, too.
            self.work.push(Step::Offer(bundle));
        } else {
            self.note_has(&sending);
        }
        for side in [Side::Router, Side::Control] {
            let (to, keep, gave) = (sending.peer, sending.keep, sending.gave[side as usize]);
            self.notify_if_subscribed(cx.now, side, &PolicyEvent::Sent { bundle, to, gave, keep });
        }
        self.bounds.memory.try_again(&mut self.book, bundle);
        self.after_send(cx, &sending, last);
    }

    /// Lets a bundle depart after its last transmission if no other constraint holds it.
    // 9171-5.4-10, 9171-5.4-11, 5050-3.1-6, 5050-5.4-10, 5050-5.4-11
    pub(crate) fn after_send<S: Sink<Output>>(&mut self, cx: &mut Context<'_, S>, sending: &Sending, last: bool) {
        let bundle = sending.bundle;
        let done = last || self.is_done(bundle);
        let Some(held) = self.book.get(bundle) else { return };
        let moved = held.flags.has(Flags::MOVES) && !sending.keep;
        if done || !held.has(RetentionConstraint::Route) {
            self.report(cx, bundle, Status::Forwarded, DeleteReason::Done);
        }
        if done {
            let why = if moved { Why::Migrated(sending.peer) } else { Why::Forwarded };
            self.depart(cx, bundle, why, None);
        } else if self.deals_in_custody() {
            self.await_signal(cx.now, bundle, sending.link, sending.peer);
        }
    }

    /// Whether at most the pending commit holds a bundle. Then the bundle was sent as a whole, and the commit is no
    /// longer needed.
    pub(crate) fn is_done(&self, bundle: Handle) -> bool {
        const UNCOMMITTED: RetentionConstraints = RetentionConstraints::of(&[RetentionConstraint::Commit]);
        self.book.get(bundle).is_some_and(|held| held.reasons().within(UNCOMMITTED))
    }

    fn notify_if_subscribed(&mut self, now: Instant, side: Side, news: &PolicyEvent<'_>) {
        if self.is_subscribed(side, news) {
            self.notify_policy(now, side, news);
        }
    }

    /// Ends a transmission and announces its result. Also returns whether no constraint holds the bundle any more.
    pub(crate) fn end_send<S: Sink<Output>>(
        &mut self,
        id: SendId,
        out: &mut S,
        confirmed: bool,
    ) -> Option<(Sending, bool)> {
        let (sending, last) = self.outbound.transmissions.end(&mut self.book, id)?;
        let link = sending.link;
        if let Some(l) = self.neighbours.link_mut(link) {
            l.in_flight = l.in_flight.saturating_sub(1);
            // While memory is full a link sends one bundle at a time.
            if l.in_flight == 0 && self.bounds.memory.pressure() == Pressure::Full {
                self.work.push(Step::Pump(link));
            }
        }
        if self.book.get(sending.bundle).is_some() {
            let bundle = self.number(sending.bundle);
            let event =
                if confirmed { Event::Forwarded { bundle, link } } else { Event::ForwardFailed { bundle, link } };
            self.event(out, event);
        }
        Some((sending, last))
    }

    /// Counts the first bytes of a broken transmission as sent, as a fragment. Copies and bundles that request custody
    /// are sent again as a whole.
    // 9171-5.8-1
    pub(crate) fn on_sent_in_part<S: Sink<Output>>(&mut self, id: SendId, bytes: u64, out: &mut S) {
        let Some(Sending { bundle, link, range, around, keep: false, .. }) =
            self.outbound.transmissions.get(id).cloned()
        else {
            return;
        };
        let Some(held) = self.book.get_mut(bundle) else { return };
        let all = 0..held.bundle.payload.len();
        let whole = range.is_none();
        let range = range.unwrap_or(all.clone());
        // Bytes before the payload do not count. The blocks behind it were not received, so the last byte is sent again
        // with them.
        let kept = bytes.saturating_sub(around).min((range.end - range.start).saturating_sub(1));
        if kept == 0 || !held.bundle.may_fragment() || held.bundle.facts.has(Facts::CUSTODY) {
            return;
        }
        // A neighbour to which bytes get through does not refuse the bundle, however often its link breaks.
        held.failures = 0;
        let (length, number) = (kept, held.name());
        if whole {
            if self.outbound.partial_sends.has(bundle) {
                return;
            }
            self.outbound.partial_sends.limit(&mut self.book, bundle, u64::MAX);
            self.outbound.partial_sends.take(bundle, &all);
        }
        self.outbound.transmissions.narrow(id, range.start + kept..range.end);
        self.event(out, Event::Fragmented { bundle: number, link, offset: range.start, length });
    }

    /// Takes the failure or refusal of a transmission.
    pub(crate) fn on_send_failed<S: Sink<Output>>(
        &mut self,
        cx: &mut Context<'_, S>,
        id: SendId,
        refused: Option<Refusal>,
    ) {
        let now = cx.now;
        let Some(sending) = self.outbound.transmissions.get(id).cloned() else { return };
        if sending.link == LinkId::TUNNEL {
            return self.tunnel_broken(cx, id, sending.bundle);
        }
        // The neighbour already had the bundle: for a bundle that moves there, this is as good as a confirmation.
        if refused == Some(Refusal::Duplicate) && !sending.keep {
            return self.on_sent(cx, id);
        }
        let bundle = sending.bundle;
        // Routing must hold the bundle before the transmission ends, or it would be released.
        if !sending.keep && self.book.get(bundle).is_some() {
            self.go_again(&sending);
        }
        let Some((sending, last)) = self.end_send(id, cx.out, false) else { return };
        if self.book.get(bundle).is_none() {
            return;
        }
        self.bounds.memory.try_again(&mut self.book, bundle);
        if self.refuse_at_last(cx, bundle) {
            return;
        }
        if refused == Some(Refusal::Duplicate) {
            self.note_has(&sending);
        } else {
            self.note_failure(now, &sending, refused);
        }
        self.notify_failed(now, &sending);
        if last || self.is_done(bundle) {
            // Only the failed copy still held the bundle, which itself has reached another node.
            self.depart(cx, bundle, Why::Forwarded, None);
        } else if sending.keep {
            self.retry_copy(now, &sending);
            self.await_signal(now, bundle, sending.link, sending.peer);
        } else {
            self.work.extend([Step::Dispatch(bundle), Step::Offer(bundle)]);
        }
    }

    /// Notes that the neighbour of a transmission has the bundle, whatever its summary listed.
    fn note_has(&mut self, sending: &Sending) {
        let Some(meta) = self.book.get(sending.bundle).map(|held| &held.bundle) else { return };
        if self.policies.offers() && !meta.is_anonymous() {
            if let Some(peer) = self.neighbours.peer_mut(sending.peer) {
                peer.note_has(meta.id as u64);
            }
        }
    }

    /// Returns the labels of a failed transmission: to each policy that subscribed to the event, else to the bundle.
    fn notify_failed(&mut self, now: Instant, sending: &Sending) {
        // A transmission into a tunnel carries no labels.
        if sending.link == LinkId::TUNNEL {
            return;
        }
        for side in [Side::Router, Side::Control] {
            let (bundle, to, keep, gave) = (sending.bundle, sending.peer, sending.keep, sending.gave[side as usize]);
            let news = PolicyEvent::Failed { bundle, to, gave, keep };
            if self.is_subscribed(side, &news) {
                self.notify_policy(now, side, &news);
            } else if let Some(held) = self.book.get_mut(bundle) {
                let label = &mut held.labels[side as usize];
                *label = label.saturating_add(gave);
            }
        }
    }

    /// Makes the bundle of a failed transmission, or the fragment's range, subject to routing again.
    fn go_again(&mut self, sending: &Sending) {
        if let Some(range) = &sending.range {
            self.outbound.partial_sends.give_back(sending.bundle, range);
        }
        // A vouched bundle must not be delayed by copies that unauthenticated neighbours returned.
        if !self.is_unvouched(sending.bundle) {
            self.outbound.waits.ignore_strangers(sending.bundle);
        }
        self.book.hold(sending.bundle, RetentionConstraint::Route);
    }

    /// Offers a failed copy again: after the backoff if a neighbour refused the bundle, else at once.
    fn retry_copy(&mut self, now: Instant, sending: &Sending) {
        let bundle = sending.bundle;
        let Some(held) = self.book.get(bundle) else { return };
        let (failures, waits) = (held.failures, self.outbound.waits.first_refusal(bundle).is_some());
        if waits {
            self.outbound.waits.until(&mut self.book, bundle, now + back_off(failures));
        }
        self.work.push(Step::Offer(bundle));
    }

    /// Notes a failed transmission. After a refusal, or several failures, the neighbour is avoided for a while; a
    /// single lost session means nothing. A bundle that is too large is sent in smaller fragments instead.
    fn note_failure(&mut self, now: Instant, sending: &Sending, refused: Option<Refusal>) {
        let (bundle, peer) = (sending.bundle, sending.peer);
        let Some(held) = self.book.get_mut(bundle) else { return };
        let id = held.bundle.id as u64;
        if let Some(peer) = self.neighbours.peer_mut(peer) {
            peer.note_lacks(id);
        }
        if refused == Some(Refusal::TooLarge) && !sending.keep && self.halve(sending) {
            return;
        }
        let Some(held) = self.book.get_mut(bundle) else { return };
        held.failures = held.failures.saturating_add(1);
        let failures = held.failures;
        if refused.is_some() || failures > FAILURES_MAX {
            if refused == Some(Refusal::NoResources) && !sending.keep {
                self.outbound.backoff.begin(peer, Alike::to(&held.bundle), now);
            }
            let ups = self.neighbours.ups(peer);
            self.outbound.waits.refuse(&mut self.book, bundle, peer, ups, refused.map_or(Turned::Silent, Turned::Away));
        }
    }

    /// Halves the fragment length for a neighbour that takes no bundle of this size (RFC 9171 5.8). Returns false if
    /// the bundle must not be fragmented, or the fragments would be shorter than their heads.
    fn halve(&mut self, sending: &Sending) -> bool {
        let Some(held) = self.book.get(sending.bundle) else { return false };
        let sent = sending.range.as_ref().map_or(held.bundle.payload.len(), |range| range.end - range.start);
        if !held.bundle.may_fragment() || sent < 2 * held.bundle.overhead().max(1) {
            return false;
        }
        self.outbound.partial_sends.limit(&mut self.book, sending.bundle, sent.div_ceil(2));
        true
    }

    /// Removes a bundle that the store refused during a transmission, once its last transmission has failed. Returns
    /// whether the bundle was removed.
    pub(crate) fn refuse_at_last<S: Sink<Output>>(&mut self, cx: &mut Context<'_, S>, bundle: Handle) -> bool {
        let Some(held) = self.book.get(bundle).filter(|held| held.sends == 0) else { return false };
        let Some((owed, reason)) = self.pending_commits.take_refused(held.number) else { return false };
        self.pay(bundle, owed.debts, Err(reason), cx.out);
        self.depart(cx, bundle, Why::Deleted(DeleteReason::DepletedStorage), None);
        true
    }

    /// Takes a failed read of a payload: the bundle is tried again later, or deleted if its record is damaged.
    pub(crate) fn on_unreadable<S: Sink<Output>>(&mut self, cx: &mut Context<'_, S>, what: Reading, for_good: bool) {
        let bundle = match what {
            Reading::Send(id) => self.outbound.transmissions.get(id).map(|sending| sending.bundle),
            Reading::Delivery(id) => self.deliveries.bundle_of(id),
        };
        let Some(bundle) = bundle else { return };
        if let Reading::Send(id) = what
            && self.outbound.transmissions.get(id).is_some_and(|sending| sending.link == LinkId::TUNNEL)
        {
            self.tunnel_broken(cx, id, bundle);
            if for_good {
                self.depart(cx, bundle, Why::Deleted(DeleteReason::DepletedStorage), None);
            }
            return;
        }
        match what {
            Reading::Send(id) => self.unsend(cx, id),
            Reading::Delivery(id) => self.put_back(id, false),
        }
        if for_good {
            return self.depart(cx, bundle, Why::Deleted(DeleteReason::DepletedStorage), None);
        }
        let Some(held) = self.book.get_mut(bundle) else { return };
        held.failures = held.failures.saturating_add(1);
        let at = cx.now + back_off(held.failures);
        self.outbound.waits.until(&mut self.book, bundle, at);
    }

    /// Undoes a transmission that never began.
    fn unsend<S: Sink<Output>>(&mut self, cx: &mut Context<'_, S>, id: SendId) {
        let Some(sending) = self.outbound.transmissions.get(id).cloned() else { return };
        if !sending.keep {
            self.go_again(&sending);
        }
        let Some((sending, last)) = self.end_send(id, cx.out, false) else { return };
        if let Some(l) = self.neighbours.link_mut(sending.link).filter(|l| l.takes != Takes::Many) {
            // A link that takes one bundle at a time is still free, because its layer did not receive this one.
            l.ready |= l.takes == Takes::One;
            self.work.push(Step::Pump(sending.link));
        }
        let Some(id) = self.book.get(sending.bundle).map(|held| held.bundle.id as u64) else { return };
        if let Some(peer) = self.neighbours.peer_mut(sending.peer) {
            peer.note_lacks(id);
        }
        self.notify_failed(cx.now, &sending);
        if last || self.is_done(sending.bundle) {
            self.depart(cx, sending.bundle, Why::Forwarded, None);
        } else {
            self.await_signal(cx.now, sending.bundle, sending.link, sending.peer);
        }
    }
}
