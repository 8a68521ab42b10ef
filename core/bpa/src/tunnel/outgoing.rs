//! Entrance of a tunnel (draft-ietf-dtn-bibect): a bundle becomes the payload of another one, which is addressed to the
//! far end. The inner bundle stays here until the outer one has left, or, with custody, until the far end acknowledges
//! it.

use crate::agent::Agent;
use crate::context::Context;
use crate::edge::{Draft, Edge};
use crate::io::Output;
use crate::state::transmissions::Sending;
use crate::state::waits::back_off;
use crate::tunnel::{DEPTH_MAX, End, Inner};
use crate::work::Step;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use core::cmp::Reverse;
use farlink_base::layer::SendId;
use farlink_base::{
    DeleteReason, EndpointId, Event, Facts, Instant, LinkId, Payload, PeerId, Refusal, Sink, pattern_rank,
};
use farlink_book::{Birth, Flags, Handle, Held, New, RetentionConstraint, RetentionConstraints, Why};

impl Agent {
    /// Index of the tunnel that a bundle enters: the one with the most specific pattern for its destination. Outer
    /// bundles and bundles for groups enter no tunnel.
    fn tunnel_for(&self, held: &Held, edge: &dyn Edge) -> Option<usize> {
        let tunnels = self.tunnels.as_ref().filter(|tunnels| !tunnels.is_outer(held.number))?;
        let (destination, text) = (&held.bundle.destination, format!("{}", held.bundle.destination));
        let rank = |pattern: &String| pattern_rank(pattern, destination, &text);
        let ranked = tunnels.all().filter_map(|(rule, tunnel)| Some((tunnel.to.iter().filter_map(rank).max()?, rule)));
        let (_, rule) = ranked.max_by_key(|(rank, rule)| (*rank, Reverse(*rule)))?;
        let codes = tunnels.settings(rule)?.codes;
        // Two tunnels that lead into each other would wrap a bundle again and again, without bound.
        let deep = held.bundle.is_administrative() && edge.depth(&held.bundle, codes, DEPTH_MAX) >= DEPTH_MAX;
        (!deep && !held.bundle.is_for_group()).then_some(rule)
    }

    /// Whether the far end is asked for a signal about a bundle: in tunnels with custody, except for this node's own
    /// records to the far end, because signals about signals would never end.
    fn wants_signal(&self, rule: usize, held: &Held) -> bool {
        let Some(settings) = self.tunnels.as_ref().and_then(|tunnels| tunnels.settings(rule)) else { return false };
        let meta = &held.bundle;
        let told = meta.is_administrative() && self.is_local(meta.source.node());
        settings.custody && !(told && meta.destination.node() == settings.end.node())
    }

    /// Whether this node has any tunnels.
    pub(crate) fn has_tunnels(&self) -> bool {
        self.tunnels.is_some()
    }
    /// Number of outer bundles, and their total size. They take no room in the store, since they share their payloads
    /// with the inner bundles.
    pub(crate) fn around(&self) -> (u64, u64) {
        self.tunnels.as_ref().map_or((0, 0), |tunnels| tunnels.around())
    }
    /// Notes that a bundle which left through a tunnel came back: earlier answers about it no longer count.
    pub(crate) fn note_back_from_tunnel(&mut self, number: u64) {
        if let Some(tunnels) = &mut self.tunnels {
            tunnels.came_back(number);
        }
    }

    /// Sends a bundle into the tunnel that applies to it, or lets it wait for room there. Returns false if no tunnel
    /// applies.
    pub(crate) fn tunnel<S: Sink<Output>>(&mut self, cx: &mut Context<'_, S>, bundle: Handle) -> bool {
        let Some(held) = self.book.get(bundle) else { return false };
        let Some(rule) = self.tunnel_for(held, cx.edge) else { return false };
        let (number, name) = (held.number, held.name());
        if self.tunnels.as_mut().is_some_and(|tunnels| tunnels.is_full(rule, held)) {
            self.event(cx.out, Event::Waiting { bundle: name });
            return true;
        }
        self.leave_behind(cx, number);
        let Some(held) = self.book.get(bundle) else { return false };
        let mut hop = self.outgoing(cx.now, held, LinkId::TUNNEL, [0; 2]);
        self.say_custody(held, &mut hop);
        let (meta, reliable) = (held.bundle.clone(), !held.bundle.facts.has(Facts::UNRELIABLE));
        let sending = Sending {
            bundle,
            link: LinkId::TUNNEL,
            peer: PeerId::NONE,
            range: None,
            // A tunnel has no transfer that could break in part.
            around: 0,
            gave: [0; 2],
            keep: false,
        };
        let id = self.outbound.transmissions.begin(&mut self.book, sending);
        let last = self.book.release(bundle, RetentionConstraint::Route);
        debug_assert!(!last, "it is being sent");
        if let (Some(tunnels), Some(held)) = (&mut self.tunnels, self.book.get(bundle)) {
            tunnels.enter(held, rule, id);
        }
        self.note_handed(number, PeerId::NONE);
        self.event(cx.out, Event::Transmitting { bundle: name, link: LinkId::TUNNEL });
        let (link, hop) = (LinkId::TUNNEL, Box::new(hop));
        cx.out.push(Output::Send {
            link,
            id,
            bundle: meta,
            hop,
            cut: None,
            size: 0,
            reliable,
            lives: [cx.now, Instant::MAX],
        });
        true
    }

    /// Ends the earlier transmission of a bundle that came back and is about to enter a tunnel again.
    fn leave_behind<S: Sink<Output>>(&mut self, cx: &mut Context<'_, S>, number: u64) {
        let inner = self.tunnels.as_ref().and_then(|tunnels| tunnels.get(number));
        let Some((outer, id)) = inner.and_then(|inner| Some((inner.outer, inner.send?))) else { return };
        self.unwrap(cx, number, outer);
        let _ = self.end_send(id, cx.out, false);
    }

    /// Takes an encoded bundle, makes its outer bundle and dispatches that.
    pub(crate) fn on_rendered<S: Sink<Output>>(&mut self, cx: &mut Context<'_, S>, id: SendId, rope: Payload) {
        let now = cx.now;
        let Some(bundle) = self.outbound.transmissions.get(id).filter(|s| s.link == LinkId::TUNNEL).map(|s| s.bundle)
        else {
            return;
        };
        let Some(held) = self.book.get(bundle) else {
            // The bundle departed while it was being encoded.
            let _ = self.outbound.transmissions.end(&mut self.book, id);
            return;
        };
        let (number, failures, expires) = (held.number, held.failures, held.expires);
        let (priority, facts) = (held.bundle.priority, held.bundle.facts.0 & Facts::UNRELIABLE);
        let remaining = held.remaining(now).as_millis() as u64;
        let inner = self.tunnels.as_ref().and_then(|tunnels| tunnels.get(number));
        let Some(rule) = inner.filter(|inner| inner.send == Some(id)).map(|inner| inner.rule) else { return };
        let wants_signal = self.wants_signal(rule, held);
        let Some(tunnels) = self.tunnels.as_mut() else { return };
        let patience = tunnels.patience(rule, failures).as_millis() as u64;
        let Some(settings) = tunnels.settings(rule) else { return };
        let (codes, end, version) = (settings.codes, settings.end.clone(), settings.version);
        let (given, due) = match wants_signal {
            true => (tunnels.give(number), self.wall_clock.utc_at(now).map(|utc| utc.saturating_add_ms(patience))),
            false => (0, None),
        };
        let payload = cx.edge.carry(codes, given, due, rope);
        let draft = Draft {
            compressed: None,
            version,
            source: self.node_id(),
            destination: end,
            report_to: EndpointId::Null,
            facts: Facts(Facts::ADMIN | facts),
            lifetime_ms: remaining.max(1),
            priority,
            hop_limit: self.settings.node.hop_limit,
        };
        let creation = self.next_creation(cx, &draft.source);
        let made = match creation {
            Some(creation) => self.make_new(cx, draft, creation, payload),
            None => Err(Refusal::NotOpen),
        };
        let meta = match made {
            // This node would refuse such a bundle on arrival, and so may the far end.
            Ok(meta) if meta.size() > self.settings.limits.bundle_bytes => Err(Refusal::TooLarge),
            made => made,
        };
        match meta {
            Ok(meta) => {
                let mut flags = Flags::default();
                // The inner bundle is recorded and charged already.
                flags.set(Flags::UNRECORDED, true);
                flags.set(Flags::VIRTUAL, true);
                let new = New {
                    bundle: Arc::new(meta),
                    number: None,
                    born: Birth::of(now, 0),
                    expires,
                    from: PeerId::NONE,
                    hops: 0,
                    labels: [0; 2],
                    reasons: RetentionConstraints::of(&[RetentionConstraint::Route]),
                    flags,
                };
                let outer = self.keep(new, cx.out);
                if let (Some(tunnels), Some(held)) = (&mut self.tunnels, self.book.get(outer)) {
                    tunnels.wrapped(number, held);
                }
                // No `Created` event: statistics count only bundles that applications created.
                self.notify_kept(now, outer, None);
                self.work.push(Step::Dispatch(outer));
            }
            Err(reason) => {
                if reason != Refusal::NotOpen {
                    let meta = self.book.get(bundle).map(|held| held.bundle.clone());
                    self.event_refused(Some(LinkId::TUNNEL), meta.as_deref(), reason, cx.out);
                }
                self.tunnel_failed(cx, number);
            }
        }
    }

    /// Removes a departing bundle from the tunnels. With an inner bundle its outer one departs; the end of an outer
    /// bundle is handled in a later step.
    pub(crate) fn leave_tunnel<S: Sink<Output>>(&mut self, cx: &mut Context<'_, S>, bundle: Handle, why: Why) {
        let (Some(tunnels), Some(held)) = (&mut self.tunnels, self.book.get(bundle)) else { return };
        match tunnels.forget(held) {
            End::Nothing => {}
            End::Outer(inside) => {
                let left = why.reason() == DeleteReason::Done;
                self.work.push(Step::Tunnel(inside, left));
            }
            End::Inner(outer, send) => {
                if let Some(send) = send {
                    let _ = self.outbound.transmissions.end(&mut self.book, send);
                }
                if let Some(outer) = outer {
                    self.depart(cx, outer, Why::Forwarded, None);
                }
            }
        }
        self.work.push(Step::Line);
    }

    /// Handles the end of an outer bundle. If it left this node, the inner bundle waits for a signal or is done; else
    /// the inner bundle is sent again.
    pub(crate) fn on_outer_end<S: Sink<Output>>(&mut self, cx: &mut Context<'_, S>, number: u64, left: bool) {
        let inner = self.tunnels.as_ref().and_then(|tunnels| tunnels.get(number));
        let left_here = |inner: &&Inner| inner.send.is_some() && inner.made && inner.outer.is_none();
        let Some(inner) = inner.filter(left_here) else { return };
        let (rule, held) = (inner.rule, self.book.get(inner.bundle));
        if !left {
            return self.tunnel_failed(cx, number);
        }
        let awaited = held.filter(|held| self.wants_signal(rule, held)).map(|held| held.failures);
        if let Some((failures, tunnels)) = awaited.zip(self.tunnels.as_mut()) {
            let at = cx.now.saturating_add(tunnels.patience(rule, failures));
            return tunnels.repeat_at(number, at);
        }
        self.tunnel_done(cx, number);
    }

    /// Dispatches the next bundle that waited for room in a tunnel.
    pub(crate) fn next_in_tunnel(&mut self) {
        if let Some(bundle) = self.tunnels.as_mut().and_then(|tunnels| tunnels.next_in_line()) {
            self.work.extend([Step::Dispatch(bundle), Step::Line]);
        }
    }

    /// Completes a bundle's passage through its tunnel: the far end has acknowledged it, or the outer bundle left and
    /// no signal is wanted. The bundle departs unless another constraint holds it.
    pub(super) fn tunnel_done<S: Sink<Output>>(&mut self, cx: &mut Context<'_, S>, number: u64) {
        let Some(inner) = self.tunnels.as_ref().and_then(|tunnels| tunnels.get(number)) else { return };
        let (bundle, send, outer) = (inner.bundle, inner.send, inner.outer);
        self.unwrap(cx, number, outer);
        self.work.push(Step::Line);
        if let Some((sending, last)) = send.and_then(|id| self.end_send(id, cx.out, true)) {
            if let Some(held) = self.book.get_mut(bundle) {
                held.failures = 0;
            }
            self.bounds.memory.try_again(&mut self.book, bundle);
            return self.after_send(cx, &sending, last);
        }
        // No transmission was in progress: the signal came when the bundle already waited to be sent again.
        self.leave_queues(bundle);
        let last = self.book.release(bundle, RetentionConstraint::Route);
        if last || self.is_done(bundle) {
            return self.depart(cx, bundle, Why::Forwarded, None);
        }
        self.await_signal(cx.now, bundle, LinkId::TUNNEL, PeerId::NONE);
    }

    /// Ends a bundle's transmission in the tables of tunnels; its outer bundle departs if it is still held.
    fn unwrap<S: Sink<Output>>(&mut self, cx: &mut Context<'_, S>, number: u64, outer: Option<Handle>) {
        let Some(tunnels) = &mut self.tunnels else { return };
        if let Some(inner) = tunnels.get_mut(number) {
            inner.outer = None;
        }
        tunnels.leave(number);
        if let Some(outer) = outer {
            self.depart(cx, outer, Why::Forwarded, None);
        }
    }

    /// Ends a failed passage through a tunnel and schedules the bundle's next attempt after a backoff.
    pub(super) fn tunnel_failed<S: Sink<Output>>(&mut self, cx: &mut Context<'_, S>, number: u64) {
        let Some(inner) = self.tunnels.as_ref().and_then(|tunnels| tunnels.get(number)) else { return };
        let (bundle, outer) = (inner.bundle, inner.outer);
        let Some(id) = inner.send else { return };
        self.unwrap(cx, number, outer);
        // Routing must hold the bundle before the transmission ends, or it would be released.
        self.book.hold(bundle, RetentionConstraint::Route);
        let _ = self.end_send(id, cx.out, false);
        self.bounds.memory.try_again(&mut self.book, bundle);
        if self.refuse_at_last(cx, bundle) {
            return;
        }
        let Some(held) = self.book.get_mut(bundle) else { return };
        held.failures = held.failures.saturating_add(1);
        let at = cx.now + back_off(held.failures);
        self.outbound.waits.until(&mut self.book, bundle, at);
        self.work.push(Step::Line);
    }

    /// Handles a transmission into a tunnel whose bundle could not be encoded or has departed.
    pub(crate) fn tunnel_broken<S: Sink<Output>>(&mut self, cx: &mut Context<'_, S>, id: SendId, bundle: Handle) {
        match self.book.get(bundle).map(|held| held.number) {
            Some(number) => self.tunnel_failed(cx, number),
            None => drop(self.outbound.transmissions.end(&mut self.book, id)),
        }
    }
}
