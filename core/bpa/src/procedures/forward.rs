//! Forwarding (RFC 9171 5.4): from a link's queue, or from a neighbour's offer, to the convergence layer, at the link's
//! pace and within its contacts; fragments are cut here (5.8).

use crate::agent::Agent;
use crate::context::Context;
use crate::edge::Edge;
use crate::io::{Output, Pressure};
use crate::neighbours::link::Takes;
use crate::procedures::mtu::{Fitting, wish};
use crate::state::backoff::Alike;
use crate::state::transmissions::Sending;
use crate::state::waits::Turned;
use crate::work::{Step, Timer};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ops::Range;
use farlink_base::{Duration, Event, Facts, HopCrc, HopState, Instant, LinkId, PeerId, Refusal, Sink};
use farlink_book::{CopyOffer, Handle, Held, LabelSplit, PolicyEvent, RetentionConstraint, Side};

/// Most entries of a queue that are examined for a bundle that still fits the contact.
const FIT_SCAN: usize = 64;
/// Smallest remainder of a contact, in payload bytes, that is filled with a fragment; for less, the repeated blocks
/// cost too much.
const FRAGMENT_MIN: u64 = 4096;
/// Most bytes that a fragment adds to the blocks around its payload.
const FRAGMENT_OVERHEAD: u64 = 64;

/// Upper bounds of the encoded length of the next bundle.
#[derive(Clone, Copy, Debug)]
struct Most {
    /// Bytes left in the contact.
    contact: u64,
    /// MTU of the link, if any.
    link: Option<u64>,
}

/// Bundle or fragment that is about to leave.
#[derive(Debug)]
struct Parting {
    bundle: Handle,
    labels: [LabelSplit; 2],
    keep: bool,
    range: Option<Range<u64>>,
}

impl Agent {
    /// Notes whether a link's layer takes bundles; `one`: one at a time.
    pub(crate) fn on_ready(&mut self, link: LinkId, ready: bool, one: bool) {
        let Some(l) = self.neighbours.link_mut(link).filter(|l| one || l.takes == Takes::Many) else { return };
        (l.ready, l.takes) = (ready, if one { Takes::One } else { Takes::Many });
        if ready {
            self.work.push(Step::Pump(link));
        }
    }
    /// Begins the turn of a link, which lasts until the end of this call.
    pub(crate) fn on_turn(&mut self, link: LinkId) {
        let Some(l) = self.neighbours.link_mut(link) else { return };
        (l.ready, l.takes) = (true, l.takes.called(false));
        self.work.push(Step::Pump(link));
    }
    /// Ends the turn of a link, used or not.
    pub(crate) fn end_turn(&mut self, link: LinkId) {
        if let Some(l) = self.neighbours.link_mut(link) {
            l.ready = false;
        }
    }
    /// Reports once that a bundle waits for a link whose turn it is not.
    fn call_for_turn<S: Sink<Output>>(&mut self, link: LinkId, out: &mut S) {
        let queued = self.outbound.queues.of(link).0 > 0;
        let Some(l) = self.neighbours.link_mut(link) else { return };
        if l.takes.may_call() && (queued || self.outbound.offers.has(l.peer)) {
            l.takes = l.takes.called(true);
            out.push(Output::Waits { link });
        }
    }

    /// Applies a link's pace to a bundle of another shard. Returns the time at which the bundle may leave; `None`: now,
    /// and the bundle is added to the link's backlog.
    pub fn pace(&mut self, now: Instant, link: LinkId, size: u64) -> Option<Instant> {
        let (plan, ahead) = (self.plan.placed(), self.settings.node.hand_over_ahead);
        let link = self.neighbours.link_mut(link)?;
        let at = link.may_send_at(ahead);
        if at > now {
            return Some(at);
        }
        link.charge(plan, now, size);
        None
    }
    /// Hands one bundle from a link's queue, or from its neighbour's offer, to the link's layer if state, pace and
    /// memory permit; then queues itself again.
    pub(crate) fn pump<S: Sink<Output>>(&mut self, cx: &mut Context<'_, S>, link: LinkId) {
        let now = cx.now;
        // Looked up only while memory is full: at other times `holds_back` ignores it.
        let strange = self.bounds.memory.pressure() == Pressure::Full && self.neighbours.is_strange(link);
        let plan = self.plan.placed();
        let Some(l) = self.neighbours.link_mut(link) else { return };
        if !l.ready && !l.takes.may_call() {
            return;
        }
        let turns = l.takes.turns();
        if !l.is_up(plan, now) || self.bounds.memory.holds_back(l, strange) {
            return;
        }
        if !l.ready {
            return self.call_for_turn(link, cx.out);
        }
        // During a turn the radio itself sets the pace.
        let ahead = if turns { Duration::MAX } else { self.settings.node.hand_over_ahead };
        let (at, peer) = (l.may_send_at(ahead), l.peer);
        if at > now {
            let nothing = self.outbound.queues.of(link).0 == 0 && !self.outbound.offers.has(peer);
            // One timer suffices: once it fires, bundles are handed over until the link is busy again.
            if !l.pace_armed && !nothing {
                l.pace_armed = true;
                self.work.arm(at, Timer::Pace(link));
            }
            return;
        }
        let most = Most { contact: l.room_in_contact(plan, now).unwrap_or(u64::MAX), link: l.largest() };
        let mut parting = self.next_queued(now, link, most, cx.edge);
        if parting.is_none() {
            if let Some(most) = most.link
                && self.turn_back(cx, link, (FIT_SCAN, most))
            {
                return self.work.push(Step::Pump(link));
            }
            parting = self.next_wanted(cx, (peer, link), most);
        }
        if let Some(parting) = parting {
            // The neighbour may have refused another bundle while this one was queued.
            if self.is_held_back(now, peer, &parting) {
                self.work.push(Step::Dispatch(parting.bundle));
            } else if self.book.get(parting.bundle).is_some_and(|held| held.expires > now) {
                self.transmit(cx, link, parting);
            }
            self.work.push(Step::Pump(link));
        }
    }

    /// Whether a backoff keeps bundles of this source from the neighbour, which had no room for them; the bundle then
    /// counts as refused.
    fn is_held_back(&mut self, now: Instant, peer: PeerId, parting: &Parting) -> bool {
        let Some(held) = self.book.get(parting.bundle).filter(|_| !parting.keep) else { return false };
        let held_back = self.outbound.backoff.hold(peer, Alike::to(&held.bundle), now);
        if held_back {
            let (ups, why) = (self.neighbours.ups(peer), Turned::Away(Refusal::NoResources));
            self.outbound.waits.refuse(&mut self.book, parting.bundle, peer, ups, why);
        }
        held_back
    }

    /// Takes the most urgent queued bundle that fits the rest of the contact, or else a fragment of the first one that
    /// may be cut to fit.
    fn next_queued(&mut self, now: Instant, link: LinkId, most: Most, edge: &mut dyn Edge) -> Option<Parting> {
        let limit = most.contact;
        let fits = |held: &Held, copy: bool| match most.link {
            Some(most) => {
                self.fitting(now, held, &wish(held, copy), (link, most), edge).is_some_and(|fit| fit.size <= limit)
            }
            None => self.size_of_next(now, held, link, edge) <= limit,
        };
        let whole = self.outbound.queues.first(link, &self.book, FIT_SCAN, fits);
        let leg = whole.or_else(|| {
            let wide = most.link.is_none_or(|most| limit < most);
            let cut = |held: &Held, copy: bool| wide && !copy && self.may_cut_for(held, limit);
            self.outbound.queues.first(link, &self.book, FIT_SCAN, cut)
        })?;
        let taken = self.outbound.queues.take(&mut self.book, leg)?;
        if let Some(timer) = taken.timer {
            self.work.cancel(timer);
        }
        let held = self.book.get(taken.bundle)?;
        let want = wish(held, taken.copy);
        let range = match most.link.filter(|_| whole.is_some()) {
            Some(most) => self.fitting(now, held, &want, (link, most), edge).and_then(|fit| fit.range),
            None if taken.copy => None,
            None => self.next_range(taken.bundle, whole.is_none(), limit),
        };
        if taken.copy {
            // The bundle itself may have been sent before; then it waited only for this copy.
            self.work.push(Step::Dispatch(taken.bundle));
        }
        self.leaves_in_pieces(taken.bundle, range.as_ref());
        Some(Parting { bundle: taken.bundle, labels: want.labels, keep: taken.copy, range })
    }

    /// Begins to track the remainder of a bundle that leaves in fragments.
    fn leaves_in_pieces(&mut self, bundle: Handle, range: Option<&Range<u64>>) {
        if range.is_some() && !self.outbound.partial_sends.has(bundle) {
            self.outbound.partial_sends.limit(&mut self.book, bundle, u64::MAX);
        }
    }

    /// Payload range of the next fragment; `None`: the whole payload. With `cut` its encoded length is at most `room`.
    fn next_range(&mut self, bundle: Handle, cut: bool, room: u64) -> Option<Range<u64>> {
        let overhead = self.book.get(bundle)?.bundle.overhead() + FRAGMENT_OVERHEAD;
        let payload = if cut { room.saturating_sub(overhead) } else { u64::MAX };
        if cut && !self.outbound.partial_sends.has(bundle) {
            self.outbound.partial_sends.limit(&mut self.book, bundle, u64::MAX);
        }
        self.outbound.partial_sends.next(bundle, payload)
    }

    /// Encoded length of the bundle, or of its next fragment.
    fn size_of_next(&self, now: Instant, held: &Held, link: LinkId, edge: &dyn Edge) -> u64 {
        match self.outbound.partial_sends.next(held.handle(), u64::MAX) {
            Some(range) => edge.size(&held.bundle, &self.outgoing(now, held, link, [0; 2]), Some(range)),
            None => held.size(),
        }
    }

    fn may_cut_for(&self, held: &Held, room: u64) -> bool {
        let overhead = held.bundle.overhead() + FRAGMENT_OVERHEAD;
        held.bundle.may_fragment() && room >= overhead + FRAGMENT_MIN && room - overhead < held.bundle.payload.len()
    }

    /// Takes the neighbour's best candidate that the policies still offer to it and that fits the link's MTU and the
    /// contact.
    fn next_wanted<S: Sink<Output>>(
        &mut self,
        cx: &mut Context<'_, S>,
        (peer, link): (PeerId, LinkId),
        most: Most,
    ) -> Option<Parting> {
        while let Some(bundle) = self.outbound.offers.made().and_then(|offers| offers.best(&mut self.book, peer)) {
            let Some(want) = self.want(cx.now, peer, bundle) else { continue };
            let Some(held) = self.book.get(bundle) else { continue };
            let fitting = match most.link {
                Some(most) => self.fitting(cx.now, held, &want, (link, most), cx.edge),
                None => Some(Fitting { range: None, size: held.size() }),
            };
            let Some(Fitting { range, size }) = fitting else {
                self.say_too_narrow(bundle, link, cx.out);
                continue;
            };
            // A bundle that exceeds the rest of this contact is offered again in the next one.
            if size > most.contact {
                continue;
            }
            self.leaves_in_pieces(bundle, range.as_ref());
            return Some(Parting { bundle, labels: want.labels, keep: want.keep, range });
        }
        None
    }

    /// Copy offer on which both policies agree now, for a neighbour. `None` for bundles that the neighbour has,
    /// created, sent here or refused.
    fn want(&self, now: Instant, id: PeerId, bundle: Handle) -> Option<CopyOffer> {
        let (held, peer) = (self.book.get(bundle)?, self.neighbours.peers().get(id)?);
        let meta = &held.bundle;
        if self.is_hello(held) {
            return None;
        }
        let leaves = self.waits_for_a_way(held) && held.expires > now && !self.is_for_us(meta);
        if !leaves || held.is_tired() || peer.has(meta) || held.from == id || peer.is(meta.source.node()) {
            return None;
        }
        if self.tried(held).contains(&id)
            || self.outbound.transmissions.of(bundle).any(|(_, sending)| sending.peer == id)
        {
            return None;
        }
        // If several neighbours use the destination's name, only the one whose name is most certain counts as the
        // destination.
        let surest = self.neighbours.of_node(held.destination()).is_some_and(|surest| surest.id == id);
        let direct = surest && !meta.is_for_group();
        let want = self.policies.wish(self.seen(now), peer, held, direct)?;
        // Anonymous bundles have no identity to compare copies by (RFC 9171 4.2.3). A group's bundle never moves away,
        // since further members may lie elsewhere.
        let allowed = if want.keep { !meta.is_anonymous() } else { !meta.is_for_group() };
        allowed.then_some(want)
    }

    /// Adds a held bundle to a neighbour's candidates if the policies offer it.
    pub(crate) fn offer(&mut self, now: Instant, peer: PeerId, bundle: Handle) {
        if let Some(want) = self.want(now, peer, bundle) {
            let number = self.book.get(bundle).map_or(0, |held| held.number);
            self.outbound.offers.want(peer, want.rank, number, bundle);
        }
    }

    /// Considers a bundle again for all neighbours with an open offer: some of them may now get it.
    pub(crate) fn offer_to_all(&mut self, now: Instant, bundle: Handle) {
        if !self.book.get(bundle).is_some_and(|held| self.waits_for_a_way(held)) {
            return;
        }
        for peer in self.outbound.offers.peers().collect::<Vec<_>>() {
            self.offer(now, peer, bundle);
            let links = self.neighbours.peers().get(peer).map(|p| p.up.clone()).unwrap_or_default();
            self.work.extend(links.into_iter().map(Step::Pump));
        }
    }

    /// Sets the fields of this hop and hands the bundle or fragment to the link's layer (RFC 9171 5.4 step 4).
    // 9171-5.4-6, 5050-5.4-7
    fn transmit<S: Sink<Output>>(&mut self, cx: &mut Context<'_, S>, link: LinkId, parting: Parting) {
        let now = cx.now;
        let Parting { bundle, labels, keep, range } = parting;
        let Some(held) = self.book.get(bundle) else { return };
        let gave = labels.map(|split| split.theirs);
        let (meta, number, lives) = (held.bundle.clone(), held.name(), [now, held.expires]);
        let mut hop = self.outgoing(now, held, link, gave);
        self.say_custody(held, &mut hop);
        let size = cx.edge.size(&meta, &hop, range.clone());
        let peer = self.neighbours.peer_of(link);
        let reliable = !meta.facts.has(Facts::UNRELIABLE);
        // Every fragment carries the labels, but they are given away only with the whole bundle.
        let gave = if range.is_none() { gave } else { [0; 2] };
        let around = size - range.as_ref().map_or(meta.payload.len(), |range| range.end - range.start).min(size);
        let sending = Sending { bundle, link, peer, range: range.clone(), around, gave, keep };
        let id = self.outbound.transmissions.begin(&mut self.book, sending);
        // Of several fragments only the first one counts as forwarding.
        if range.as_ref().is_none_or(|range| range.start == 0) {
            self.note_forwarded(now, bundle, cx.edge);
        }
        self.note_handed(number.0, peer);
        if let Some(held) = self.book.get_mut(bundle).filter(|_| range.is_none()) {
            held.labels = labels.map(|split| split.ours);
        }
        if !keep {
            self.consume(bundle, range.as_ref());
        }
        let plan = self.plan.placed();
        if let Some(l) = self.neighbours.link_mut(link) {
            l.in_flight += 1;
            l.ready &= l.takes == Takes::Many;
            l.charge(plan, now, size);
        }
        // A neighbour with a fragment still lacks the bundle.
        if self.policies.offers() && !meta.is_anonymous() && !self.is_part(bundle, range.as_ref()) {
            if let Some(peer) = self.neighbours.peer_mut(peer) {
                peer.note_has(meta.id as u64);
            }
        }
        if let Some(range) = &range {
            let (offset, length) = (range.start, range.end - range.start);
            self.event(cx.out, Event::Fragmented { bundle: number, link, offset, length });
        }
        self.event(cx.out, Event::Transmitting { bundle: number, link });
        cx.out.push(Output::Send { link, id, bundle: meta, hop: Box::new(hop), cut: range, size, reliable, lives });
        for side in [Side::Router, Side::Control] {
            let news = PolicyEvent::Handed { bundle, to: peer, gave: gave[side as usize], keep };
            if self.is_subscribed(side, &news) {
                self.notify_policy(now, side, &news);
            }
        }
    }

    /// Whether a transmission is of a fragment while more of the bundle is still to be sent.
    pub(super) fn is_part(&self, bundle: Handle, range: Option<&Range<u64>>) -> bool {
        range.is_some() && self.outbound.partial_sends.left(bundle).is_some_and(|left| left > 0)
    }
    /// Ends the routing of the bundle or fragment that leaves: a remainder is routed again; without a remainder `Route`
    /// is released.
    fn consume(&mut self, bundle: Handle, range: Option<&Range<u64>>) {
        if range.is_some_and(|range| self.outbound.partial_sends.take(bundle, range)) {
            self.work.push(Step::Dispatch(bundle));
            return;
        }
        let last = self.book.release(bundle, RetentionConstraint::Route);
        debug_assert!(!last, "it is being sent");
    }

    /// Fields of this hop: previous node, age, hop count, labels, CRC type.
    // 9171-4.4.1-1, 9171-4.4.1-2, 9171-5.4-8, 9171-5.4-9
    pub(crate) fn outgoing(&self, now: Instant, held: &Held, link: LinkId, gave: [u32; 2]) -> HopState {
        // RFC 9171 4.4.1: no previous node block at the source, even if the bundle returned there. Whether an anonymous
        // bundle was made here shows only in its previous node, which a restart forgets.
        let came = || match held.bundle.is_anonymous() {
            true => held.from != PeerId::NONE,
            false => !self.is_local(held.bundle.source.node()),
        };
        let came = came();
        let said = self.settings.node.previous_node_block && came;
        HopState {
            previous: if said { self.node_id() } else { farlink_base::EndpointId::Null },
            age_ms: held.age_ms(now),
            hops: held.hops.saturating_add(1),
            labels: (gave != [0; 2]).then_some(gave),
            unvouched: self.is_unvouched(held.handle()),
            crc: Some(self.hop_crc(link, came)),
            ..HopState::default()
        }
    }
    /// CRC type of a bundle's blocks on this link; `came`: the bundle came from elsewhere.
    fn hop_crc(&self, link: LinkId, came: bool) -> HopCrc {
        // Links without configuration, and tunnels, use the CRC type that the node's settings state.
        let terms = self.neighbours.link(link).map(|link| link.terms).unwrap_or_default();
        let kind = terms.crc.kind();
        let all = if came { terms.crc_forwarded } else { kind.is_some() };
        HopCrc { kind: kind.unwrap_or(self.settings.node.crc), all }
    }
}
