//! Peers without a configured link. Bundles from them are accepted. None are sent to such a peer until it has announced
//! a node ID and that it listens (draft-ietf-dtn-udpcl sections 3.5.3 and 3.5.4), and has echoed a nonce sent to its
//! address: source addresses can be forged, and a bundle is much longer than an announcement.

use super::LinkParams;
use super::entity::Udpcl;
use super::packet::{Probe, confirmation_packet, probe_packet};
use super::span::UdpclSpan;
use alloc::boxed::Box;
use alloc::string::String;
use core::net::SocketAddr;
use farlink_base::layer::{DatagramBatch, Destination, LinkState, Output, dynamic_link_base};
use farlink_base::{Bytes, Duration, Instant, LayerId, LinkId, Map, Payload, Rng, Sink, map, socket};

/// Most dynamic peers, and most peers with a probe pending.
const MET_MAX: usize = 1024;
const ASKED_MAX: usize = 1024;
/// Length, in bytes, that shorter packets are treated as having, so that each may get one answer.
const SHORT: u64 = 16;
/// Length of IP and UDP headers, bytes; charged for a second answer. The packet's own headers cover the first.
const HEADERS: u64 = 28;
/// Shortest time for which a probe may be answered; the longest is twice this.
const ANSWER: Duration = Duration::from_secs(10);
/// Number of announced intervals without an announcement after which a dynamic peer is dropped, and bounds of the
/// interval.
const INTERVALS: u32 = 3;
const INTERVAL: core::ops::RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(60);

/// A probe that awaits its answer, with the announcement that caused it.
#[derive(Debug)]
struct PendingProbe {
    nonce: u64,
    name: String,
    listens: Duration,
    until: Instant,
}

/// Budget for the answers to one packet: at most two, and hardly more bytes than the packet had, so that packets with
/// forged source addresses are not amplified.
#[derive(Debug)]
pub(super) struct AnswerBudget {
    bytes: u64,
    answers: u32,
}
impl AnswerBudget {
    /// Creates the budget for answers to a packet of `len` bytes.
    pub const fn new(len: u64) -> AnswerBudget {
        AnswerBudget { bytes: if len < SHORT { SHORT } else { len }, answers: 2 }
    }
    /// Charges an answer of `len` bytes to the budget; returns false if it does not fit.
    fn take(&mut self, len: u64) -> bool {
        let fits = len <= self.bytes && self.answers > 0;
        if fits {
            self.bytes = self.bytes.saturating_sub(len + HEADERS);
            self.answers -= 1;
        }
        fits
    }
}

/// Dynamic peers, and peers being probed.
#[derive(Debug)]
pub(super) struct DynamicPeers {
    base: u32,
    number: u32,
    seed: u64,
    asked_ever: u64,
    asked: Map<SocketAddr, PendingProbe>,
    /// Time of the next check for unanswered probes; `None` without probes.
    look: Option<Instant>,
    met: Map<SocketAddr, LinkId>,
}

impl DynamicPeers {
    pub(super) const fn new(layer: LayerId, seed: u64) -> DynamicPeers {
        let base = dynamic_link_base(layer);
        DynamicPeers { base, number: 0, seed, asked_ever: 0, asked: map(seed), look: None, met: map(seed) }
    }
    /// Link on which bundles from unknown addresses are offered; nothing is ever sent over it.
    pub(super) const fn nobody(&self) -> LinkId {
        LinkId(self.base | 0x00ff_ffff)
    }
    pub(super) fn link_at(&self, address: SocketAddr) -> Option<LinkId> {
        self.met.get(&address).copied()
    }
    pub(super) fn met(&self) -> usize {
        self.met.len()
    }
    pub(super) fn forget(&mut self, address: SocketAddr) {
        self.met.remove(&address);
    }
    pub(super) fn next_timeout(&self) -> Option<Instant> {
        self.look
    }
    /// Forgets probes that were not answered in time.
    pub(super) fn expire(&mut self, now: Instant) {
        // One timer serves all probes, so each of them lasts between one and two times `ANSWER`.
        if self.look.is_some_and(|at| at <= now) {
            self.asked.retain(|_, asked| asked.until > now);
            self.asked.shrink_to_fit();
            self.look = (!self.asked.is_empty()).then(|| now + ANSWER);
        }
    }
    /// Returns the nonce with which to probe a peer: that of its pending probe, if it announced the same node ID, or a
    /// new one.
    fn ask(&mut self, now: Instant, from: SocketAddr, name: String, listens: Duration) -> u64 {
        if let Some(asked) = self.asked.get(&from).filter(|asked| asked.name == name) {
            return asked.nonce;
        }
        // A flood of addresses empties the table instead of growing it; genuine peers announce themselves again.
        if self.asked.len() >= ASKED_MAX {
            self.asked.clear();
        }
        self.asked_ever += 1;
        let nonce = Rng::stream(self.seed ^ 0x9a5e, self.asked_ever).next_u64();
        let until = now + ANSWER;
        self.asked.insert(from, PendingProbe { nonce, name, listens, until });
        self.look.get_or_insert(until);
        nonce
    }
    /// Removes and returns the pending probe that a confirmation with this nonce answers.
    fn answers(&mut self, from: SocketAddr, nonce: u64) -> Option<PendingProbe> {
        self.asked.get(&from).filter(|asked| asked.nonce == nonce)?;
        self.asked.remove(&from)
    }
}

impl Udpcl {
    /// Handles an announcement or confirmation of a peer without a configured link: makes or prolongs its link, or
    /// probes it.
    pub(super) fn introduces(
        &mut self,
        now: Instant,
        from: SocketAddr,
        (listens_ms, name, confirmation): (Option<u64>, Option<String>, Option<u64>),
        room: &mut AnswerBudget,
        out: &mut impl Sink<Output>,
    ) {
        if let Some(asked) = confirmation.and_then(|nonce| self.dynamic.answers(from, nonce)) {
            self.meet(now, from, asked, out);
        }
        let Some(listens) = listens_ms.map(|ms| Duration::from_millis(ms).clamp(*INTERVAL.start(), *INTERVAL.end()))
        else {
            return;
        };
        if let Some(index) = self.dynamic.link_at(from).and_then(|link| self.by_link.get(&link)).copied() {
            self.spans[index].until = Some(now + listens * INTERVALS);
            return self.touch(index);
        }
        let Some(name) = name.filter(|name| !name.is_empty()) else { return };
        let nonce = self.dynamic.ask(now, from, name, listens);
        let packet = probe_packet(Probe { nonce, sequence: 0, delay_ms: 0 });
        self.answer(from, packet.into(), room, out);
    }
    /// Answers a probe that asks for an immediate answer, and ignores others.
    pub(super) fn probed(
        &mut self,
        from: SocketAddr,
        probe: Probe,
        room: &mut AnswerBudget,
        out: &mut impl Sink<Output>,
    ) {
        if probe.delay_ms == 0 {
            let packet = confirmation_packet(probe.nonce, probe.sequence);
            self.answer(from, packet.into(), room, out);
        }
    }
    /// Sends an answer if the budget for the packet allows.
    fn answer(&self, from: SocketAddr, packet: Bytes, room: &mut AnswerBudget, out: &mut impl Sink<Output>) {
        if room.take(packet.len() as u64) {
            let train = DatagramBatch::single(Payload::from(packet));
            out.push(Output::Socket(socket::Output::Datagrams { to: Destination::Address(from), train }));
        }
    }
    /// Makes a link for a peer that confirmed its address; the link lasts while the peer announces that it listens.
    fn meet(&mut self, now: Instant, from: SocketAddr, asked: PendingProbe, out: &mut impl Sink<Output>) {
        if self.dynamic.met.len() >= MET_MAX || self.dynamic.met.contains_key(&from) {
            return;
        }
        let numbers = 0x00ff_ffff;
        let mut link = LinkId(self.dynamic.base | self.dynamic.number);
        // Numbers wrap around, so the next one may still be in use.
        while self.by_link.contains_key(&link) {
            self.dynamic.number = (self.dynamic.number + 1) % numbers;
            link = LinkId(self.dynamic.base | self.dynamic.number);
        }
        self.dynamic.number = (self.dynamic.number + 1) % numbers;
        let config = LinkParams { link, version: 2, ..LinkParams::default() };
        let mut span = UdpclSpan::new(config, Destination::Address(from));
        span.set_state(now, LinkState::UP);
        span.until = Some(now + asked.listens * INTERVALS);
        span.claimed = Some(Box::from(asked.name.as_str()));
        let index = self.place(span);
        self.dynamic.met.insert(from, link);
        out.push(Output::PeerUp { link, claimed: Some(asked.name), proven: None, node: None });
        self.touch(index);
    }
}
