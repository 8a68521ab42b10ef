//! Exit of a tunnel (draft-ietf-dtn-bibect): the inner bundle is taken in like one from a neighbour. The outer bundle
//! stays until the verdict on the inner one, so that an accepted bundle survives a crash of this node. If the inner
//! one is refused only for now, and its sender wants no signal, the outer one stays and is tried again later.

use crate::agent::Agent;
use crate::app::{AppOutput, Delivery, DeliveryId, RegistrationId};
use crate::context::Context;
use crate::edge::{Answer, Carried};
use crate::io::{OfferToken, Output};
use crate::state::ranges::Ranges;
use crate::state::waits::back_off;
use crate::tunnel::{DEPTH_MAX, Opened, ReceivedTunnelSignal, TunnelSignalGroup, runs_of};
use crate::work::Step;
use farlink_base::layer::Ticket;
use farlink_base::{
    DeleteReason, EndpointId, Event, Facts, LinkId, Malformed, Payload, PeerId, Priority, Refusal, Sink,
};
use farlink_book::{Flags, Handle, Held, Origin, RetentionConstraint, Why};

/// Most ranges of numbers in one signal, which bounds its length.
const RUNS_MAX: usize = 2048;

impl Agent {
    /// Far end of the tunnel that a bundle came through, if its previous node stands for a tunnel.
    pub(crate) fn far_end(&self, from: PeerId) -> Option<EndpointId> {
        self.tunnels.as_ref()?.far_end(from).cloned()
    }
    /// Whether a bundle is a record from a tunnel's far end; false once it was found to carry neither a bundle nor a
    /// signal.
    pub(crate) fn comes_through_tunnel(&self, held: &Held) -> bool {
        let Some(tunnels) = &self.tunnels else { return false };
        let meta = &held.bundle;
        meta.is_administrative()
            && meta.fragment().is_none()
            && meta.destination.is_node_id()
            && self.is_for_us(meta)
            && tunnels.with_end(meta.source.node()).is_some()
            && !tunnels.is_plain(held.number)
    }

    /// Requests the payload of an outer bundle, read from disk if needed and with its security checked.
    pub(crate) fn open_outer<S: Sink<Output>>(&mut self, bundle: Handle, out: &mut S) {
        let Some(held) = self.book.get(bundle).filter(|held| self.comes_through_tunnel(held)) else { return };
        if self.deliveries.is_open(bundle) {
            return;
        }
        let meta = held.bundle.clone();
        if held.has(RetentionConstraint::Route) {
            self.book.hold(bundle, RetentionConstraint::Deliver);
            let last = self.book.release(bundle, RetentionConstraint::Route);
            debug_assert!(!last, "it is to be opened");
        }
        let delivery = self.deliveries.open_inside(bundle, meta.payload.len());
        let inside = Delivery {
            source: meta.source.clone(),
            destination: meta.destination.clone(),
            creation: meta.creation(),
            lifetime_ms: meta.lifetime_ms,
            facts: meta.facts,
            redelivered: false,
            payload: meta.payload.clone(),
        };
        let output = AppOutput::Deliver { registration: RegistrationId::TUNNEL, delivery, bundle: inside };
        out.push(Output::Open { output, bundle: meta });
    }

    /// Takes the payload of an outer bundle: offers the inner bundle or applies a signal; if it is another record, the
    /// bundle is dispatched again for ordinary delivery.
    pub(crate) fn on_opened_outer<S: Sink<Output>>(
        &mut self,
        cx: &mut Context<'_, S>,
        delivery: DeliveryId,
        payload: &Payload,
    ) {
        let Some(bundle) = self.deliveries.bundle_of(delivery) else { return };
        let found = self.book.get(bundle).and_then(|held| {
            let rule = self.tunnels.as_ref()?.with_end(held.bundle.source.node())?;
            let codes = self.tunnels.as_ref()?.settings(rule)?.codes;
            Some((held.bundle.clone(), held.number, rule, codes))
        });
        let Some((meta, number, rule, codes)) = found else { return self.put_back(delivery, false) };
        if payload.is_stored() {
            // A payload that is still on disk is longer than one read may be, so the inner bundle cannot be extracted.
            self.put_back(delivery, false);
            self.event_refused(Some(LinkId::TUNNEL), Some(&meta), Refusal::TooLarge, cx.out);
            return self.depart(cx, bundle, Why::Deleted(DeleteReason::DepletedStorage), None);
        }
        let source = meta.source.clone();
        match cx.edge.carried(&meta, payload, codes, DEPTH_MAX) {
            Ok(Carried::Nothing) => {
                self.put_back(delivery, false);
                if let Some(tunnels) = &mut self.tunnels {
                    tunnels.note_plain(number);
                }
                self.book.hold(bundle, RetentionConstraint::Route);
                let last = self.book.release(bundle, RetentionConstraint::Deliver);
                debug_assert!(!last, "it is looked at again");
                self.work.push(Step::Dispatch(bundle));
            }
            Ok(Carried::Signal(answer, runs)) => {
                self.put_back(delivery, false);
                self.on_tunnel_signal(ReceivedTunnelSignal { source: source.node(), rule, answer, runs }, cx.out);
                self.depart(cx, bundle, Why::Delivered, None);
            }
            Ok(Carried::Inside(given, inside)) => {
                if let Some(tunnels) = &mut self.tunnels {
                    tunnels.open(delivery, Opened { rule, to: source.node_id(), number: given });
                }
                let token = OfferToken { layer: OfferToken::TUNNEL, ticket: Ticket(delivery.0) };
                cx.out.push(Output::Inside { token, bundle: inside });
            }
            Err(Malformed { offset, reason }) => {
                self.put_back(delivery, false);
                self.event(cx.out, Event::Malformed { link: Some(LinkId::TUNNEL), offset, reason });
                self.depart(cx, bundle, Why::Deleted(DeleteReason::BlockUnintelligible), None);
            }
        }
    }

    /// Neighbour that sent the outer bundle around an inner one, and whether the inner bundle counts as not vouched
    /// for.
    pub(crate) fn previous_of_inside(&self, token: OfferToken) -> (PeerId, bool) {
        let held = self.deliveries.bundle_of(DeliveryId(token.ticket.0)).and_then(|bundle| self.book.get(bundle));
        // After a restart the previous node is unknown: the bundle gets no privileges.
        held.map_or((PeerId::NONE, true), |held| {
            // A reassembled outer bundle does not carry the flags of its fragments, so its neighbour must be
            // configured, too.
            let peer = self.neighbours.peers().get(held.from);
            let configured = peer.is_some_and(|peer| peer.origin == Origin::Configured);
            (held.from, held.flags.has(Flags::STRANGE) || !configured)
        })
    }
    /// Previous node of a bundle that came through a tunnel: the number that stands for the tunnel
    /// ([`PeerId::tunnel`]).
    pub(crate) fn tunnel_of(&self, token: OfferToken) -> PeerId {
        let place = self.tunnels.as_ref().and_then(|tunnels| tunnels.place_of(DeliveryId(token.ticket.0)));
        PeerId::tunnel(place.unwrap_or(0) as u32)
    }

    /// Takes the verdict on an inner bundle: gathers an answer if the sender wants one, and ends the outer bundle or
    /// retries it later.
    pub(crate) fn on_inside_judged<S: Sink<Output>>(
        &mut self,
        cx: &mut Context<'_, S>,
        delivery: DeliveryId,
        result: Result<(), Refusal>,
    ) {
        let now = cx.now;
        let Some(opened) = self.tunnels.as_mut().and_then(|tunnels| tunnels.close(delivery)) else { return };
        let Some(bundle) = self.deliveries.bundle_of(delivery) else { return };
        self.put_back(delivery, false);
        let answer = match result {
            Ok(()) => Answer::Taken,
            Err(Refusal::Duplicate) => Answer::Redundant,
            Err(Refusal::NoResources | Refusal::TooLarge | Refusal::StoreFailed) => Answer::Depleted,
            Err(Refusal::NotAcceptable) => Answer::BadBlock,
            Err(_) => Answer::Refused,
        };
        let later = matches!(
            result,
            Err(Refusal::NoResources | Refusal::Terminating | Refusal::NotOpen | Refusal::StoreFailed)
        );
        if opened.number > 0 {
            let Opened { rule, to, number } = opened;
            if let Some(tunnels) = &mut self.tunnels {
                tunnels.gather(now, TunnelSignalGroup { rule, to, answer }, number);
            }
        } else if let Some(held) = self.book.get_mut(bundle).filter(|_| later) {
            // A sender that wants no signal would not repeat the bundle, so this node tries again.
            held.failures = held.failures.saturating_add(1);
            let at = now + back_off(held.failures);
            return self.outbound.waits.until(&mut self.book, bundle, at);
        }
        let remember = self.book.get(bundle).map(|held| self.remembrance(now, held, cx.edge));
        self.depart(cx, bundle, Why::Delivered, remember);
    }

    /// Sends gathered answers about transmissions, in as many signals as needed.
    pub(super) fn send_tunnel_signal<S: Sink<Output>>(
        &mut self,
        cx: &mut Context<'_, S>,
        group: &TunnelSignalGroup,
        numbers: &Ranges,
    ) {
        let settings = self.tunnels.as_ref().and_then(|tunnels| tunnels.settings(group.rule));
        let Some((codes, version)) = settings.map(|settings| (settings.codes, settings.version)) else { return };
        for runs in runs_of(numbers).chunks(RUNS_MAX) {
            let bundles = runs.iter().fold(0u64, |sum, run| sum.saturating_add(run.last - run.first + 1));
            let payload = cx.edge.tunnel_signal(codes, group.answer, runs);
            let (to, node): (EndpointId, _) = (group.to.clone(), group.to.node());
            let facts = Facts(Facts::ADMIN | Facts::NO_FRAGMENT);
            if self.send_record(cx, to, version, facts, payload, Priority::Expedited) {
                self.event(cx.out, Event::CustodySignalled { to: node, taken: group.answer.releases(), bundles });
            }
        }
    }
}
