//! Peers that are not configured. What they send is taken; nothing is sent to them until they said
//! their name and that they listen (draft sections 3.5.3 and 3.5.4), and answered a number that only one at their
//! address can know: an address may be forged, and a bundle is much longer than a claim.

use super::LinkParams;
use super::entity::Udpcl;
use super::packet::{Probe, confirmation_packet, probe_packet};
use super::span::UdpclSpan;
use alloc::boxed::Box;
use alloc::string::String;
use core::net::SocketAddr;
use farlink_base::layer::{DatagramBatch, Destination, LinkState, Output, dynamic_link_base};
use farlink_base::{Bytes, Duration, Instant, LayerId, LinkId, Map, Payload, Rng, Sink, map, socket};

/// Strangers met at once, and those asked at once.
const MET_MAX: usize = 1024;
const ASKED_MAX: usize = 1024;
/// An answer of so many bytes is given to the shortest question.
const SHORT: u64 = 16;
/// Headers of IP and UDP around each answer: the question had them once.
const HEADERS: u64 = 28;
/// How long an answer is waited for.
const ANSWER: Duration = Duration::from_secs(10);
/// How long a stranger that says that it listens is believed to, in the intervals it names, and their
/// bounds.
const INTERVALS: u32 = 3;
const INTERVAL: core::ops::RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(60);

/// One that was asked whether it is there.
#[derive(Debug)]
struct PendingProbe {
    nonce: u64,
    name: String,
    listens: Duration,
    until: Instant,
}

/// What may be said in answer to one packet, however much it asks: a sign of life and a question, and hardly more bytes
/// than it had, for its address may be forged.
#[derive(Debug)]
pub(super) struct AnswerBudget {
    bytes: u64,
    answers: u32,
}
impl AnswerBudget {
    /// For a packet of this length.
    pub const fn new(len: u64) -> AnswerBudget {
        AnswerBudget { bytes: if len < SHORT { SHORT } else { len }, answers: 2 }
    }
    /// Whether an answer of this length may be given; then less is left for the next one.
    fn take(&mut self, len: u64) -> bool {
        let fits = len <= self.bytes && self.answers > 0;
        if fits {
            self.bytes = self.bytes.saturating_sub(len + HEADERS);
            self.answers -= 1;
        }
        fits
    }
}

/// Those that were asked and those that answered.
#[derive(Debug)]
pub(super) struct DynamicPeers {
    base: u32,
    number: u32,
    seed: u64,
    asked_ever: u64,
    asked: Map<SocketAddr, PendingProbe>,
    /// When to look who did not answer.
    look: Option<Instant>,
    met: Map<SocketAddr, LinkId>,
}

impl DynamicPeers {
    pub(super) const fn new(layer: LayerId, seed: u64) -> DynamicPeers {
        let base = dynamic_link_base(layer);
        DynamicPeers { base, number: 0, seed, asked_ever: 0, asked: map(seed), look: None, met: map(seed) }
    }
    /// The link of what comes from those of whom nothing is known: nothing is ever sent over it.
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
    /// Forgets who did not answer.
    pub(super) fn expire(&mut self, now: Instant) {
        if self.look.is_some_and(|at| at <= now) {
            self.asked.retain(|_, asked| asked.until > now);
            self.asked.shrink_to_fit();
            self.look = (!self.asked.is_empty()).then(|| now + ANSWER);
        }
    }
    /// The number to ask a stranger for.
    fn ask(&mut self, now: Instant, from: SocketAddr, name: String, listens: Duration) -> u64 {
        if let Some(asked) = self.asked.get(&from).filter(|asked| asked.name == name) {
            return asked.nonce;
        }
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
    /// A stranger answered; what it said, if that is what it was asked.
    fn answers(&mut self, from: SocketAddr, nonce: u64) -> Option<PendingProbe> {
        self.asked.get(&from).filter(|asked| asked.nonce == nonce)?;
        self.asked.remove(&from)
    }
}

impl Udpcl {
    /// What a stranger says of itself.
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
    /// Answers a probe that wants it at once; others are not answered.
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
    /// Says something in answer to a packet, as far as there is room for it.
    fn answer(&self, from: SocketAddr, packet: Bytes, room: &mut AnswerBudget, out: &mut impl Sink<Output>) {
        if room.take(packet.len() as u64) {
            let train = DatagramBatch::single(Payload::from(packet));
            out.push(Output::Socket(socket::Output::Datagrams { to: Destination::Address(from), train }));
        }
    }
    /// A stranger is where it says: it has a link as long as it listens.
    fn meet(&mut self, now: Instant, from: SocketAddr, asked: PendingProbe, out: &mut impl Sink<Output>) {
        if self.dynamic.met.len() >= MET_MAX || self.dynamic.met.contains_key(&from) {
            return;
        }
        let numbers = 0x00ff_ffff;
        let mut link = LinkId(self.dynamic.base | self.dynamic.number);
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
