//! Into a tunnel (draft-ietf-dtn-bibect): a bundle that a tunnel is for becomes the payload of another one to its far
//! end. It stays here until that one has left, or, with custody, until the far end says that it has it.

use crate::agent::{Agent, Step};
use crate::edge::{Answer, Draft, Edge, Numbers};
use crate::io::Output;
use crate::sends::Sending;
use crate::tunnel::{Due, End};
use crate::waits::back_off;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cmp::Reverse;
use farlink_base::layer::SendId;
use farlink_base::{
    DeleteReason, EndpointId, Event, Facts, Instant, LinkId, NodeId, Payload, PeerId, Refusal, Sink, format_duration,
    pattern_rank,
};
use farlink_book::{Birth, Flags, Handle, Held, New, Reason, Reasons, Why};

/// Bundles around one another, at most: what is so deep already goes in no tunnel, and is not taken out.
pub(crate) const DEPTH_MAX: usize = 4;
/// Bundles of one signal that one step looks at.
const STEP: usize = 8;

/// A signal that is worked off.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Told {
    pub source: NodeId,
    pub rule: usize,
    pub answer: Answer,
    /// Numbers of transmissions, the next ones at the end.
    pub runs: Vec<Numbers>,
}

impl Agent {
    /// The tunnel that a bundle is to go into: that of the pattern that says most. What is around another goes into none.
    fn tunnel_for(&self, held: &Held, edge: &dyn Edge) -> Option<usize> {
        let tunnels = self.tunnels.as_ref().filter(|tunnels| !tunnels.is_outer(held.number))?;
        let (destination, text) = (&held.bundle.destination, format!("{}", held.bundle.destination));
        let rank = |pattern: &String| pattern_rank(pattern, destination, &text);
        let ranked = tunnels.all().filter_map(|(rule, tunnel)| Some((tunnel.to.iter().filter_map(rank).max()?, rule)));
        let (_, rule) = ranked.max_by_key(|(rank, rule)| (*rank, Reverse(*rule)))?;
        let codes = tunnels.settings(rule)?.codes;
        // Two tunnels that lead into each other would make a bundle grow for ever.
        let deep = held.bundle.is_administrative() && edge.depth(&held.bundle, codes, DEPTH_MAX) >= DEPTH_MAX;
        (!deep && !held.bundle.is_for_group()).then_some(rule)
    }

    /// A bundle to be forwarded goes into a tunnel, if one is for it; or waits for room in it.
    pub(crate) fn tunnel<S: Sink<Output>>(
        &mut self,
        now: Instant,
        bundle: Handle,
        edge: &mut dyn Edge,
        out: &mut S,
    ) -> bool {
        let Some(held) = self.book.get(bundle) else { return false };
        let Some(rule) = self.tunnel_for(held, edge) else { return false };
        let (number, name) = (held.number, held.name());
        if self.tunnels.as_mut().is_some_and(|tunnels| tunnels.is_full(rule, held)) {
            self.event(out, Event::Waiting { bundle: name });
            return true;
        }
        self.leave_behind(now, number, edge, out);
        let Some(held) = self.book.get(bundle) else { return false };
        let mut hop = self.outgoing(now, held, [0; 2]);
        self.say_custody(held, &mut hop);
        let (meta, reliable) = (held.bundle.clone(), !held.bundle.facts.has(Facts::UNRELIABLE));
        let sending = Sending {
            bundle,
            link: LinkId::TUNNEL,
            peer: PeerId::NONE,
            range: None,
            // No transfer of its own breaks.
            around: 0,
            gave: [0; 2],
            keep: false,
            reliable,
        };
        let id = self.sends.begin(&mut self.book, sending);
        let last = self.book.release(bundle, Reason::Route);
        debug_assert!(!last, "it is being sent");
        if let (Some(tunnels), Some(held)) = (&mut self.tunnels, self.book.get(bundle)) {
            tunnels.enter(held, rule, id);
        }
        if let Some(custody) = &mut self.custody {
            custody.handed(number, PeerId::NONE);
        }
        self.event(out, Event::Transmitting { bundle: name, link: LinkId::TUNNEL });
        let (link, hop) = (LinkId::TUNNEL, Box::new(hop));
        out.push(Output::Send { link, id, bundle: meta, hop, cut: None, reliable });
        true
    }

    /// One that comes back while it is on its way goes anew: what is under way for it is nobody's any more.
    fn leave_behind<S: Sink<Output>>(&mut self, now: Instant, number: u64, edge: &mut dyn Edge, out: &mut S) {
        let inner = self.tunnels.as_ref().and_then(|tunnels| tunnels.get(number));
        let Some((outer, id)) = inner.and_then(|inner| Some((inner.outer, inner.send?))) else { return };
        self.unwrap(now, number, outer, edge, out);
        let _ = self.end_send(id, out, false);
    }

    /// A bundle for a tunnel is rendered: the one around it is made.
    pub(crate) fn on_rendered<S: Sink<Output>>(
        &mut self,
        now: Instant,
        id: SendId,
        rope: Payload,
        edge: &mut dyn Edge,
        out: &mut S,
    ) {
        let Some(bundle) = self.sends.get(id).filter(|s| s.link == LinkId::TUNNEL).map(|s| s.bundle) else { return };
        let Some(held) = self.book.get(bundle) else {
            // It left meanwhile.
            let _ = self.sends.end(&mut self.book, id);
            return;
        };
        let (number, failures, expires) = (held.number, held.failures, held.expires);
        let (priority, facts) = (held.bundle.priority, held.bundle.facts.0 & Facts::UNRELIABLE);
        let remaining = held.remaining(now).as_millis() as u64;
        let Some(tunnels) = self.tunnels.as_mut() else { return };
        let Some(rule) = tunnels.get(number).filter(|inner| inner.send == Some(id)).map(|inner| inner.rule) else {
            return;
        };
        let patience = tunnels.patience(rule, failures).as_millis() as u64;
        let Some(settings) = tunnels.settings(rule) else { return };
        let (codes, end, custody) = (settings.codes, settings.end.clone(), settings.custody);
        let version = settings.version;
        let (given, due) = match custody {
            true => (tunnels.give(number), self.wall.utc_at(now).map(|utc| utc.saturating_add_ms(patience))),
            false => (0, None),
        };
        let payload = edge.carry(codes, given, due, rope);
        let draft = Draft {
            compressed: None,
            version,
            source: self.node_id(),
            destination: end,
            report_to: EndpointId::Null,
            facts: Facts(Facts::ADMIN | facts),
            lifetime_ms: remaining.max(1),
            priority,
            hop_limit: self.settings.hop_limit,
        };
        let creation = self.next_creation(now, &draft.source, out);
        let made = match creation {
            Some(creation) => self.make_new(now, draft, creation, payload, edge, out),
            None => Err(Refusal::NotOpen),
        };
        let meta = match made {
            Ok(meta) if meta.size() > self.settings.limits.bundle_bytes => Err(Refusal::TooLarge),
            made => made,
        };
        match meta {
            Ok(meta) => {
                let mut flags = Flags::default();
                // What is inside is on disk, and counted, already.
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
                    reasons: Reasons::of(&[Reason::Route]),
                    flags,
                };
                let outer = self.keep(new, out);
                if let (Some(tunnels), Some(held)) = (&mut self.tunnels, self.book.get(outer)) {
                    tunnels.wrapped(number, held);
                }
                // No application created it: runs count what those hand over.
                self.tell_kept(now, outer, None, out);
                self.steps.push_back(Step::Dispatch(outer));
            }
            Err(reason) => {
                if reason != Refusal::NotOpen {
                    let meta = self.book.get(bundle).map(|held| held.bundle.clone());
                    self.event_refused(Some(LinkId::TUNNEL), meta.as_deref(), reason, out);
                }
                self.tunnel_failed(now, number, edge, out);
            }
        }
    }

    /// A bundle leaves every table: what that means for tunnels.
    pub(crate) fn leave_tunnel<S: Sink<Output>>(
        &mut self,
        now: Instant,
        bundle: Handle,
        why: Why,
        edge: &mut dyn Edge,
        out: &mut S,
    ) {
        let (Some(tunnels), Some(held)) = (&mut self.tunnels, self.book.get(bundle)) else { return };
        match tunnels.forget(held) {
            End::Nothing => {}
            End::Outer(inside) => {
                let left = why.reason() == DeleteReason::Done;
                self.steps.push_back(Step::Tunnel(inside, left));
            }
            End::Inner(outer, send) => {
                if let Some(send) = send {
                    let _ = self.sends.end(&mut self.book, send);
                }
                if let Some(outer) = outer {
                    self.depart(now, outer, Why::Forwarded, None, edge, out);
                }
            }
        }
        self.steps.push_back(Step::Line);
    }

    /// The bundle around this one is no longer here: it has left this node, or was given up.
    pub(crate) fn on_outer_end<S: Sink<Output>>(
        &mut self,
        now: Instant,
        number: u64,
        left: bool,
        edge: &mut dyn Edge,
        out: &mut S,
    ) {
        let Some(tunnels) = &mut self.tunnels else { return };
        let Some(inner) = tunnels.get(number).filter(|inner| inner.send.is_some() && inner.outer.is_none()) else {
            return;
        };
        let rule = inner.rule;
        if !inner.made {
            return;
        }
        if !left {
            return self.tunnel_failed(now, number, edge, out);
        }
        if tunnels.settings(rule).is_some_and(|settings| settings.custody) {
            let failures = self.book.get(inner.bundle).map_or(0, |held| held.failures);
            let at = now.saturating_add(tunnels.patience(rule, failures));
            return tunnels.repeat_at(number, at);
        }
        self.tunnel_done(now, number, edge, out);
    }

    /// The next one that waited for room in a tunnel.
    pub(crate) fn next_in_tunnel(&mut self) {
        if let Some(bundle) = self.tunnels.as_mut().and_then(|tunnels| tunnels.next_in_line()) {
            self.steps.extend([Step::Dispatch(bundle), Step::Line]);
        }
    }

    /// A bundle is through its tunnel, as far as this node can know.
    fn tunnel_done<S: Sink<Output>>(&mut self, now: Instant, number: u64, edge: &mut dyn Edge, out: &mut S) {
        let Some(inner) = self.tunnels.as_ref().and_then(|tunnels| tunnels.get(number)) else { return };
        let (bundle, send, outer) = (inner.bundle, inner.send, inner.outer);
        self.unwrap(now, number, outer, edge, out);
        if let Some((sending, last)) = send.and_then(|id| self.end_send(id, out, true)) {
            if let Some(held) = self.book.get_mut(bundle) {
                held.failures = 0;
            }
            self.memory.try_again(&mut self.book, bundle);
            return self.after_send(now, &sending, last, edge, out);
        }
        // It was to go again when the signal came.
        self.leave_queues(bundle);
        let last = self.book.release(bundle, Reason::Route);
        if last || self.is_done(bundle) {
            self.depart(now, bundle, Why::Forwarded, None, edge, out);
        }
    }

    /// Ends a transmission in the tables of tunnels, and the bundle around it where that is still here.
    fn unwrap<S: Sink<Output>>(
        &mut self,
        now: Instant,
        number: u64,
        outer: Option<Handle>,
        edge: &mut dyn Edge,
        out: &mut S,
    ) {
        let Some(tunnels) = &mut self.tunnels else { return };
        if let Some(inner) = tunnels.get_mut(number) {
            inner.outer = None;
        }
        tunnels.leave(number);
        if let Some(outer) = outer {
            self.depart(now, outer, Why::Forwarded, None, edge, out);
        }
    }

    /// A bundle did not get through its tunnel: it goes again after a while.
    fn tunnel_failed<S: Sink<Output>>(&mut self, now: Instant, number: u64, edge: &mut dyn Edge, out: &mut S) {
        let Some(inner) = self.tunnels.as_ref().and_then(|tunnels| tunnels.get(number)) else { return };
        let (bundle, outer) = (inner.bundle, inner.outer);
        let Some(id) = inner.send else { return };
        self.unwrap(now, number, outer, edge, out);
        self.book.hold(bundle, Reason::Route);
        let _ = self.end_send(id, out, false);
        self.memory.try_again(&mut self.book, bundle);
        if self.refuse_at_last(now, bundle, edge, out) {
            return;
        }
        let Some(held) = self.book.get_mut(bundle) else { return };
        held.failures = held.failures.saturating_add(1);
        let at = now + back_off(held.failures);
        self.waits.until(&mut self.book, bundle, at);
        self.steps.push_back(Step::Line);
    }

    /// A bundle could not be rendered for its tunnel, or left before it was.
    pub(crate) fn tunnel_broken<S: Sink<Output>>(
        &mut self,
        now: Instant,
        id: SendId,
        bundle: Handle,
        edge: &mut dyn Edge,
        out: &mut S,
    ) {
        match self.book.get(bundle).map(|held| held.number) {
            Some(number) => self.tunnel_failed(now, number, edge, out),
            None => drop(self.sends.end(&mut self.book, id)),
        }
    }

    /// Something of tunnels is due.
    pub(crate) fn on_tunnel_due<S: Sink<Output>>(&mut self, now: Instant, due: Due, edge: &mut dyn Edge, out: &mut S) {
        match due {
            Due::Say(said, numbers) => self.say_of_tunnel(now, &said, &numbers, edge, out),
            Due::Repeat(number) => {
                let inner = self.tunnels.as_ref().and_then(|tunnels| tunnels.get(number));
                if let Some(bundle) = inner.map(|inner| inner.bundle) {
                    self.event(out, Event::CustodyRepeated { bundle: self.number(bundle) });
                    self.tunnel_failed(now, number, edge, out);
                }
            }
        }
    }

    /// A signal about transmissions through a tunnel. One that names numbers never given is made up: it ends nothing.
    pub(crate) fn hear_of_tunnel<S: Sink<Output>>(&mut self, told: Told, out: &mut S) {
        let Some(tunnels) = &self.tunnels else { return };
        if told.runs.is_empty() || !told.runs.iter().all(|run| tunnels.gave(run.first, run.last)) {
            return self.event(out, Event::CustodySignalIgnored { from: told.source });
        }
        self.steps.push_back(Step::Signal(Box::new(told)));
    }
    /// A few bundles of it; then comes again.
    pub(crate) fn heed_of_tunnel<S: Sink<Output>>(
        &mut self,
        now: Instant,
        mut told: Box<Told>,
        edge: &mut dyn Edge,
        out: &mut S,
    ) {
        for _ in 0..STEP {
            let Some(run) = told.runs.pop() else { return };
            let Some((given, number)) =
                self.tunnels.as_ref().and_then(|tunnels| tunnels.first_given(run.first, run.last))
            else {
                continue;
            };
            if given < run.last {
                told.runs.push(Numbers { first: given + 1, ..run });
            }
            let inner = self.tunnels.as_ref().and_then(|tunnels| tunnels.get(number));
            let Some(inner) = inner.filter(|inner| inner.rule == told.rule) else {
                self.event(out, Event::CustodySignalIgnored { from: told.source });
                continue;
            };
            if told.answer.releases() {
                self.event(out, Event::CustodyReleased { bundle: self.number(inner.bundle) });
                self.tunnel_done(now, number, edge, out);
            } else {
                self.tunnel_failed(now, number, edge, out);
            }
        }
        if !told.runs.is_empty() {
            self.steps.push_back(Step::Signal(told));
        }
    }

    /// What a bundle in a tunnel waits for, in words; `None`: it is in none.
    pub(crate) fn waits_for_tunnel(&self, now: Instant, held: &Held) -> Option<String> {
        let tunnels = self.tunnels.as_ref()?;
        let inner = tunnels.get(held.number).filter(|inner| inner.send.is_some())?;
        let end = &tunnels.settings(inner.rule)?.end;
        Some(match (inner.outer.and_then(|outer| self.book.get(outer)), tunnels.due_of(held.number)) {
            (Some(outer), _) => format!("the way through the tunnel to {end}, in bundle {}", outer.number),
            (None, Some(at)) => {
                format!("the signal of {end} at the tunnel's end, {} more", format_duration(at.since(now)))
            }
            (None, None) => format!("the tunnel to {end}"),
        })
    }
}
