//! Spans of an engine, configured and dynamic: how they are added and removed while sessions are open.

use super::SpanConfig;
use super::authentication::{Authentication, Seal};
use super::block_bundles::BlockBundle;
use super::cookies::with_cookies;
use super::ending::SessionEnd;
use super::engine::{Ltp, Parted};
use super::segment::{Segment, SegmentBody, SessionId, reason};
use super::span::LtpSpan;
use crate::batches::BatchBuilder;
use alloc::sync::Arc;
use alloc::vec::Vec;
use bytes::Bytes;
use core::net::SocketAddr;
use farlink_base::layer::{Destination, LinkState, Output, dynamic_link_base};
use farlink_base::{Duration, Instant, LinkId, NodeId, Sink};

const DYNAMIC_MAX: usize = 1024;
/// Most source addresses remembered, by which segments are attributed to spans.
const ADDRESSES_MAX: usize = 4096;
/// Time after a link's removal during which its engine gets no dynamic link; twice the link's round-trip delay is
/// added.
const PARTED: Duration = Duration::from_secs(60);
/// Most cancel segments sent, once each, when a link is removed. Further sessions end by the peer's timers, unless a
/// new link to the same engine cancels them.
const FAREWELLS_MAX: usize = 4096;

impl Ltp {
    /// Adds a neighbour; its link starts down. A dynamic link to the same engine is removed. Returns false if the link
    /// number is taken, or is that of a dynamic link.
    #[must_use]
    pub fn add_span(&mut self, now: Instant, span: SpanConfig, out: &mut impl Sink<Output>) -> bool {
        if self.by_link.contains_key(&span.link) || span.link.is_dynamic() {
            return false;
        }
        if let Some(met) = self.by_engine.get(&span.engine).map(|index| self.spans[*index].link)
            && met.is_dynamic()
        {
            self.remove_link(met, out);
        }
        self.place_configured(span);
        self.settle(now, out);
        true
    }
    /// Changes the keys of an authenticated link from the next segment on; its sessions continue. Returns false if
    /// there is no such link, or if authentication would be switched on or off: then the link must be removed and added
    /// again.
    pub fn replace_keys(&mut self, link: LinkId, authentication: &Authentication) -> bool {
        let Some(&index) = self.by_link.get(&link) else { return false };
        let span = &mut self.spans[index];
        let rules = Seal::new(authentication).and_then(|seal| span.rules.rekeyed(seal));
        rules.map(|rules| span.rules = Arc::new(rules)).is_some()
    }
    pub(super) fn place_configured(&mut self, mut span: SpanConfig) {
        let parted = self.parted.remove(&span.engine);
        let authentication = span.authentication.bytes() as u32;
        self.sealed |= authentication > 0;
        span.datagram_bytes = span.datagram_bytes.clamp(64 + authentication, 65_000);
        let to = Destination::Link(span.link);
        let index = self.place(&span, to, LinkState::DOWN);
        // A link that replaces a removed one continues to cancel its sessions until the peer acknowledges (RFC 5326
        // 6.15, 6.16).
        for (session, bytes) in parted.into_iter().flat_map(|parted| parted.cancels) {
            self.cancel_with(index, session, bytes, 1);
        }
    }
    fn place(&mut self, config: &SpanConfig, to: Destination, state: LinkState) -> usize {
        let (link, engine) = (config.link, config.engine);
        let mut span = LtpSpan::new(config, &self.spans, to, state, self.config.seed);
        let index = self.vacant.pop().unwrap_or(self.spans.len());
        self.by_link.insert(link, index);
        self.dynamic += usize::from(link.is_dynamic());
        match self.by_engine.get(&engine).copied() {
            // The first span of an engine stays the head of the chain.
            Some(first) => span.sibling = self.spans[first].sibling.replace(index),
            None => drop(self.by_engine.insert(engine, index)),
        }
        match self.spans.get_mut(index) {
            Some(place) => {
                span.touched = place.touched;
                *place = span;
            }
            None => self.spans.push(span),
        }
        index
    }
    /// Removes a span without sessions from all tables.
    fn vacate(&mut self, index: usize) {
        let nobody = SpanConfig::default();
        let mut none = LtpSpan::new(&nobody, &self.spans, Destination::Link(LinkId(0)), LinkState::DOWN, 0);
        none.touched = self.spans[index].touched;
        let old = core::mem::replace(&mut self.spans[index], none);
        self.by_link.remove(&old.link);
        self.dynamic -= usize::from(old.link.is_dynamic());
        if let Some(from) = old.traffic.heard {
            self.sessions.by_address.remove(&from);
        }
        if let Some(key) = old.traffic.armed {
            self.agenda.cancel(key);
        }
        self.unchain(old.engine, index, old.sibling);
        self.vacant.push(index);
    }
    fn unchain(&mut self, engine: u64, index: usize, next: Option<usize>) {
        let Some(mut at) = self.by_engine.get(&engine).copied() else { return };
        if at == index {
            match next {
                Some(next) => drop(self.by_engine.insert(engine, next)),
                None => drop(self.by_engine.remove(&engine)),
            }
            return;
        }
        while let Some(sibling) = self.spans[at].sibling {
            if sibling == index {
                self.spans[at].sibling = next;
                return;
            }
            at = sibling;
        }
    }

    /// Span to an engine; one that is up comes first. `None` if the engine has no span.
    pub(super) fn span_to(&self, engine: u64) -> Option<usize> {
        let first = *self.by_engine.get(&engine)?;
        let mut at = Some(first);
        while let Some(index) = at {
            let span = &self.spans[index];
            if span.state.transmit && span.state.receive {
                return Some(index);
            }
            at = span.sibling;
        }
        Some(first)
    }
    pub(super) fn span_at(&self, from: SocketAddr) -> Option<usize> {
        let heard = self.sessions.by_address.get(&from).and_then(|link| self.by_link.get(link)).copied();
        // No segment came from this address yet. If a link that authenticates leads there, the reply must be
        // authenticated, too.
        let at_home = |span: &LtpSpan| span.rules.seal().is_some() && span.home.as_deref() == Some(&from);
        heard.or_else(|| self.sealed.then(|| self.spans.iter().position(at_home))?)
    }
    /// Records the address from which a span's peer sends; segments over a dynamic link go there.
    pub(super) fn note_address(&mut self, index: usize, from: SocketAddr) {
        if self.spans[index].traffic.heard == Some(from) {
            return;
        }
        // Clear the table at its limit; later segments fill it again.
        if self.sessions.by_address.len() >= ADDRESSES_MAX {
            self.sessions.by_address.clear();
        }
        let span = &mut self.spans[index];
        self.sessions.by_address.insert(from, span.link);
        span.traffic.heard = Some(from);
        if let Destination::Address(to) = &mut span.to {
            *to = from;
        }
    }
    /// Whether an engine without a configured link may have a dynamic link now.
    pub(super) fn may_meet(&self, now: Instant, engine: u64) -> bool {
        // This engine's own number cannot be a peer's.
        let welcome = self.config.accept_unknown && !self.closing && engine != 0 && engine != self.config.engine;
        welcome && self.parted.get(&engine).is_none_or(|parted| parted.until <= now)
    }
    /// Makes a dynamic link for an engine, in place of an unused one at the limit; `None` if the engine is not accepted
    /// or there is no room.
    pub(super) fn make_dynamic(
        &mut self,
        now: Instant,
        engine: u64,
        from: SocketAddr,
        out: &mut impl Sink<Output>,
    ) -> Option<usize> {
        if !self.may_meet(now, engine) {
            return None;
        }
        if self.dynamic >= DYNAMIC_MAX {
            let unused = |s: &&LtpSpan| {
                s.is_unused() && !s.has_work() && self.by_link.contains_key(&s.link) && s.link.is_dynamic()
            };
            let link = self.spans.iter().find(unused)?.link;
            self.remove_link(link, out);
        }
        let base = dynamic_link_base(self.config.layer);
        let mut link = LinkId(base | self.dynamic_number);
        while self.by_link.contains_key(&link) {
            self.dynamic_number = (self.dynamic_number + 1) & 0x00ff_ffff;
            link = LinkId(base | self.dynamic_number);
        }
        self.dynamic_number = (self.dynamic_number + 1) & 0x00ff_ffff;
        let config = SpanConfig { link, engine, node: NodeId(engine), ..SpanConfig::default() };
        let index = self.place(&config, Destination::Address(from), LinkState::UP);
        self.spans[index].introduced = true;
        out.push(Output::PeerUp { link, claimed: None, proven: None, node: Some(NodeId(engine)) });
        self.touch(index);
        Some(index)
    }

    /// Handles a change of the link's state.
    pub(super) fn link(&mut self, now: Instant, link: LinkId, state: LinkState, out: &mut impl Sink<Output>) {
        let Some(&index) = self.by_link.get(&link) else { return };
        let span = &mut self.spans[index];
        span.set_state(now, state);
        if !state.transmit && !state.receive {
            // Nothing arrives before the next contact, so release memory until then.
            span.give_back();
            if let Some(sessions) = self.sessions.made() {
                sessions.give_back();
            }
        }
        if (state.transmit || state.receive) && !core::mem::replace(&mut span.introduced, true) {
            out.push(Output::PeerUp { link, claimed: None, proven: None, node: Some(span.node) });
        }
        self.touch(index);
    }
    /// Prepares the removal of a configured link: its engine gets no dynamic link while segments of it may still be
    /// under way.
    pub(super) fn part(&mut self, now: Instant, link: LinkId) {
        let Some(&index) = self.by_link.get(&link) else { return };
        if link.is_dynamic() {
            return;
        }
        let (engine, state) = (self.spans[index].engine, self.spans[index].state);
        let over: Vec<u64> = self.parted.iter().filter(|(_, p)| p.until <= now).map(|(e, _)| *e).collect();
        for engine in over {
            self.parted.remove(&engine);
        }
        // Keep cancel segments for the latest removal only, which bounds memory.
        self.parted.values_mut().for_each(|parted| parted.cancels = Vec::new());
        if self.parted.len() < DYNAMIC_MAX {
            let until = now + PARTED + (state.delay_out + state.delay_in) * 2;
            self.parted.insert(engine, Parted { until, cancels: Vec::new() });
        }
    }
    /// Removes a link: its sessions are cancelled, and unsent bundles return to the agent.
    pub(super) fn remove_link(&mut self, link: LinkId, out: &mut impl Sink<Output>) {
        let Some(&index) = self.by_link.get(&link) else { return };
        let span = &mut self.spans[index];
        let (to, transmit) = (span.to, span.state.transmit);
        if core::mem::take(&mut span.ready) {
            out.push(Output::Ready { link, ready: false });
        }
        for BlockBundle { id, .. } in core::mem::take(&mut span.traffic.pending).bundles {
            out.push(Output::SendFailed { id, link, refused: None });
        }
        let engine = span.engine;
        let mut farewells = self.cancels_of(index);
        let given_up = [self.give_up_exports(index, out), self.give_up_imports(index, out)].concat();
        farewells.extend(given_up);
        farewells.truncate(FAREWELLS_MAX);
        if transmit {
            let mut batches = BatchBuilder::new(to);
            for (_, bytes) in &farewells {
                let seal = self.spans[index].rules.seal();
                let bytes = seal.map_or_else(|| bytes.clone(), |seal| seal.seal(bytes).into());
                batches.begin(bytes.len() as u64, out);
                batches.rope.push_bytes(bytes);
            }
            batches.flush(out);
        }
        if let Some(parted) = self.parted.get_mut(&engine).filter(|_| !link.is_dynamic()) {
            parted.cancels = farewells;
        }
        if self.spans[index].introduced {
            out.push(Output::PeerDown { link });
        }
        self.vacate(index);
    }
    /// Takes the cancel segments of a span that are not acknowledged, ordered by session.
    fn cancels_of(&mut self, index: usize) -> Vec<(SessionId, Bytes)> {
        let Some(sessions) = self.sessions.made() else { return Vec::new() };
        let of_it = sessions.cancelled.iter().filter(|(_, cancelled)| cancelled.span == index);
        let mut cancels: Vec<_> = of_it.map(|(session, cancelled)| (*session, cancelled.bytes.clone())).collect();
        // Sort, because the order of a map must not show in outputs.
        cancels.sort_unstable_by_key(|(id, _)| (id.engine, id.number));
        sessions.cancelled.retain(|_, cancelled| cancelled.span != index);
        cancels
    }
    /// Fails all export sessions of a span; returns cancel segments for those that had begun.
    // 5327-2.2-2
    fn give_up_exports(&mut self, index: usize, out: &mut impl Sink<Output>) -> Vec<(SessionId, Bytes)> {
        let mut numbers: Vec<u64> =
            self.sessions.exports.iter().filter(|(_, e)| e.span == index).map(|(n, _)| *n).collect();
        // Sort, because the order of a map must not show in outputs: the same seed must give the same trace.
        numbers.sort_unstable();
        let mut farewells = Vec::new();
        for number in numbers {
            if let Some(export) = self.sessions.exports.get(&number).filter(|export| export.begun()) {
                let session = SessionId { engine: self.config.engine, number };
                let farewell = Segment { session, body: SegmentBody::Cancel { by_sender: true, reason: reason::USER } };
                farewells.push((session, with_cookies(farewell.emit(), export.cookies.as_deref())));
            }
            self.fail_export(number, (None, SessionEnd::Here(reason::USER)), out);
        }
        farewells
    }
    /// Drops all import sessions of a span; returns cancel segments for them.
    // 5327-2.2-2
    fn give_up_imports(&mut self, index: usize, out: &mut impl Sink<Output>) -> Vec<(SessionId, Bytes)> {
        let mut sessions: Vec<SessionId> =
            self.sessions.imports.iter().filter(|(_, i)| i.span == index).map(|(id, _)| *id).collect();
        // Sort, because the order of a map must not show in outputs.
        sessions.sort_unstable_by_key(|id| (id.engine, id.number));
        let mut farewells = Vec::new();
        for session in sessions {
            let cookies = self.sessions.imports.get_mut(&session).and_then(|import| import.cookies.take());
            self.close_import(session, SessionEnd::Here(reason::SYSTEM), out);
            self.sessions.closed.insert(session);
            let farewell = Segment { session, body: SegmentBody::Cancel { by_sender: false, reason: reason::SYSTEM } };
            farewells.push((session, with_cookies(farewell.emit(), cookies.as_deref())));
        }
        farewells
    }
}
