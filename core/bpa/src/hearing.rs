//! How much of a neighbour is listened to. Weighing a hello takes time: policies learn from it, and what is held is
//! looked at anew. So each counts as taking some, and one that comes while a neighbour's time is spent is kept, joined
//! with those after it, and weighed when there is time again. Who says what neighbours say never notices; who says ten
//! thousand a second is heard eight times.
//!
//! Each neighbour whose name is sure has time of its own. All those that only claim one share what one has.

use crate::agent::{Agent, Timer};
use crate::io::Output;
use crate::signals::{Heard, MESSAGE_MAX};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::time::Duration;
use farlink_base::{Instant, PeerId, Sink};
use farlink_book::{Identity, Peer};

/// What a hello counts as taking by itself.
const HELLO: Duration = Duration::from_millis(125);
/// What each of its bytes does: 250 kB of them a second.
const BYTE: Duration = Duration::from_micros(4);
/// What each bundle held does that is looked at anew.
const HELD: Duration = Duration::from_micros(10);
/// What each thing does that the router looks at.
const LOOK: Duration = Duration::from_micros(2);
/// How much may be spent ahead: a meeting with a neighbour may be lost and found some times in a row.
const AHEAD: Duration = Duration::from_secs(4);
/// Bytes of hellos that wait, of all neighbours together. Beyond, they are not heard.
const WAITING_MAX: usize = 4 << 20;
/// Neighbours that only claim their names whose hellos wait.
const CLAIMING_MAX: usize = 64;

/// What a neighbour said while its time was spent.
#[derive(Debug, Default)]
pub(crate) struct Unheard {
    /// When its timer rings; another one is of an encounter before.
    rings: Instant,
    /// The identities of its newest summary, where there was one.
    summary: Option<Vec<u8>>,
    messages: [Vec<u8>; 2],
}
impl Unheard {
    fn len(&self) -> usize {
        self.summary.as_ref().map_or(0, Vec::len) + self.messages.iter().map(Vec::len).sum::<usize>()
    }
    /// Joins one more: of messages the newer is read last, as where its sender had joined them.
    fn add(&mut self, heard: &Heard<'_>, room: usize) {
        if heard.summary && heard.ids.len() <= room {
            self.summary = Some(heard.ids.to_vec());
        }
        for (message, more) in self.messages.iter_mut().zip(heard.messages) {
            if message.len() + more.len() <= MESSAGE_MAX.min(room) {
                message.extend_from_slice(more);
            }
        }
    }
    fn as_heard(&self) -> Heard<'_> {
        Heard {
            summary: self.summary.is_some(),
            free: 0,
            capacity: 0,
            ids: self.summary.as_deref().unwrap_or_default(),
            messages: [&self.messages[0], &self.messages[1]],
        }
    }
}

/// Hellos that wait, and the time of those that only claim a name.
#[derive(Debug, Default)]
pub(crate) struct Hearing {
    waiting: BTreeMap<PeerId, Unheard>,
    claiming: Instant,
}

impl Hearing {
    /// A neighbour is gone, and what it said does not count.
    pub fn forget(&mut self, peer: PeerId) {
        self.waiting.remove(&peer);
    }
    /// Neighbours whose hellos wait.
    #[cfg(feature = "audit")]
    pub fn len(&self) -> usize {
        self.waiting.len()
    }
}

/// Whether a neighbour has time of its own.
fn is_sure(peer: &Peer) -> bool {
    peer.identity() >= Identity::Address
}

impl Agent {
    /// Hears a neighbour's hello, now or later.
    pub(crate) fn hear<S: Sink<Output>>(&mut self, now: Instant, from: PeerId, heard: &Heard<'_>, out: &mut S) {
        if let Some(at) = self.heard_at(from).filter(|at| *at > now) {
            return self.hear_later(from, at, heard);
        }
        // What waits was said before, and its time has come as well.
        self.hear_waiting(now, from, out);
        self.hear_now(now, from, heard, out);
    }

    fn hear_now<S: Sink<Output>>(&mut self, now: Instant, from: PeerId, heard: &Heard<'_>, out: &mut S) {
        let cost = self.cost_of(heard);
        let Some(peer) = self.neighbours.peer_mut(from) else { return };
        let until = if is_sure(peer) { &mut peer.hellos_until } else { &mut self.hellos.hearing().claiming };
        *until = (*until).max(now) + cost;
        self.weigh_hello(now, from, heard, out);
    }
    /// What a hello counts as taking.
    fn cost_of(&self, heard: &Heard<'_>) -> Duration {
        let bytes = heard.ids.len() + heard.messages.iter().map(|message| message.len()).sum::<usize>();
        let anew = heard.summary || !self.policies.asks_summaries() || !heard.messages[0].is_empty();
        let times = |each: Duration, count: usize| each.saturating_mul(u32::try_from(count).unwrap_or(u32::MAX));
        let looked_at = if anew { self.book.len() } else { 0 };
        let looks = if heard.messages[0].is_empty() { 0 } else { self.policies.looks() };
        HELLO + times(BYTE, bytes) + times(HELD, looked_at) + times(LOOK, looks)
    }
    /// When a neighbour is heard again.
    fn heard_at(&self, from: PeerId) -> Option<Instant> {
        let peer = self.neighbours.peers().get(from)?;
        let until = if is_sure(peer) { peer.hellos_until } else { self.hellos.claiming() };
        Some(Instant(until.0.saturating_sub(AHEAD.as_nanos() as u64)))
    }

    fn hear_later(&mut self, from: PeerId, at: Instant, heard: &Heard<'_>) {
        let sure = self.neighbours.peers().get(from).is_some_and(is_sure);
        let hearing = self.hellos.hearing();
        let taken: usize = hearing.waiting.values().map(Unheard::len).sum();
        if !sure && hearing.waiting.len() >= CLAIMING_MAX && !hearing.waiting.contains_key(&from) {
            return;
        }
        let new = !hearing.waiting.contains_key(&from);
        let unheard = hearing.waiting.entry(from).or_default();
        unheard.add(heard, WAITING_MAX.saturating_sub(taken));
        if new {
            unheard.rings = at;
            self.timers.arm(at, Timer::Hear(from));
        }
    }
    /// There may be time for what a neighbour said.
    pub(crate) fn on_hear<S: Sink<Output>>(&mut self, now: Instant, from: PeerId, out: &mut S) {
        let later = self.heard_at(from).filter(|at| *at > now);
        let waiting = self.hellos.hearing.as_mut().and_then(|hearing| hearing.waiting.get_mut(&from));
        let Some(unheard) = waiting.filter(|unheard| unheard.rings <= now) else { return };
        match later {
            Some(at) => {
                unheard.rings = at;
                self.timers.arm(at, Timer::Hear(from));
            }
            None => self.hear_waiting(now, from, out),
        }
    }
    fn hear_waiting<S: Sink<Output>>(&mut self, now: Instant, from: PeerId, out: &mut S) {
        if !self.hellos.waits(from) {
            return;
        }
        if let Some(unheard) = self.hellos.hearing().waiting.remove(&from) {
            self.hear_now(now, from, &unheard.as_heard(), out);
        }
    }
}

impl crate::signals::Hellos {
    fn hearing(&mut self) -> &mut Hearing {
        self.hearing.get_or_insert_with(Box::default)
    }
    fn claiming(&self) -> Instant {
        self.hearing.as_ref().map_or(Instant::ZERO, |hearing| hearing.claiming)
    }
    fn waits(&self, from: PeerId) -> bool {
        self.hearing.as_ref().is_some_and(|hearing| hearing.waiting.contains_key(&from))
    }
}
