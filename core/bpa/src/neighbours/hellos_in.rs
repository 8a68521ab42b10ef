//! Arriving hellos: their budget and their consequences.

use crate::agent::Agent;
use crate::neighbours::hello_budget::{AHEAD, BYTE, CLAIMING_MAX, HELD, HELLO, LOOK, Unheard, WAITING_MAX, is_sure};
use crate::neighbours::hellos::{Heard, IDS_MAX, LIFETIME_MS, read};
use crate::work::Timer;
use core::time::Duration;
use farlink_base::{CreationTimestamp, Instant, PeerId};
use farlink_book::{PolicyEvent, Side};

impl Agent {
    /// Whether a hello is newer than all others of this encounter; it is noted if so. A neighbour that lost its numbers
    /// in a restart, and has no clock, is accepted again after a hello's lifetime.
    pub(crate) fn is_news(&mut self, now: Instant, from: PeerId, made: CreationTimestamp) -> bool {
        let Some(peer) = self.neighbours.peer_mut(from) else { return false };
        peer.newest_hello.is_news(made, now, core::time::Duration::from_millis(LIFETIME_MS))
    }

    /// Takes a neighbour's hello.
    pub(crate) fn on_hello(&mut self, now: Instant, from: PeerId, content: &[u8]) {
        let Some(heard) = read(content) else { return };
        let Some(peer) = self.neighbours.peer_mut(from) else { return };
        (peer.free, peer.capacity) = (Some(heard.free), Some(heard.capacity));
        self.hear(now, from, &heard);
    }

    /// Evaluates a hello within the budget.
    fn weigh_hello(&mut self, now: Instant, from: PeerId, heard: &Heard<'_>) {
        let Some(peer) = self.neighbours.peer_mut(from) else { return };
        // A summary replaces everything noted earlier about the neighbour's bundles.
        if heard.summary {
            peer.heard = true;
            peer.forget();
        }
        let ids = heard.ids.as_chunks::<8>().0;
        ids.iter().take(IDS_MAX).for_each(|id| peer.note_has(u64::from_be_bytes(*id)));
        for side in [Side::Router, Side::Control] {
            let bytes = heard.messages[side as usize];
            if !bytes.is_empty() {
                self.tell_one(now, side, &PolicyEvent::Heard { from, bytes });
            }
        }
        // Offers wait for the summary, so that no bundle is sent to a neighbour that has it.
        if heard.summary || !self.policies.asks_summaries() {
            if let Some(timer) = self.outbound.offers.heard(from) {
                self.work.cancel(timer);
            }
            self.outbound.offers.reask(&mut self.book, from);
        }
    }

    /// Evaluates a neighbour's hello now, or keeps it for later.
    fn hear(&mut self, now: Instant, from: PeerId, heard: &Heard<'_>) {
        if let Some(at) = self.heard_at(from).filter(|at| *at > now) {
            return self.hear_later(from, at, heard);
        }
        // Waiting hellos are older and are evaluated first.
        self.hear_waiting(now, from);
        self.hear_now(now, from, heard);
    }

    fn hear_now(&mut self, now: Instant, from: PeerId, heard: &Heard<'_>) {
        let cost = self.cost_of(heard);
        let Some(peer) = self.neighbours.peer_mut(from) else { return };
        let until = if is_sure(peer) { &mut peer.hellos_until } else { &mut self.hellos.hello_budget().claiming };
        *until = (*until).max(now) + cost;
        self.weigh_hello(now, from, heard);
    }
    /// Estimated processing time of a hello.
    fn cost_of(&self, heard: &Heard<'_>) -> Duration {
        let bytes = heard.ids.len() + heard.messages.iter().map(|message| message.len()).sum::<usize>();
        // Only these hellos cause held bundles to be offered again.
        let anew = heard.summary || !self.policies.asks_summaries() || !heard.messages[0].is_empty();
        let times = |each: Duration, count: usize| each.saturating_mul(u32::try_from(count).unwrap_or(u32::MAX));
        let looked_at = if anew { self.book.len() } else { 0 };
        let looks = if heard.messages[0].is_empty() { 0 } else { self.policies.looks() };
        HELLO + times(BYTE, bytes) + times(HELD, looked_at) + times(LOOK, looks)
    }
    /// Earliest time of the neighbour's next evaluation.
    fn heard_at(&self, from: PeerId) -> Option<Instant> {
        let peer = self.neighbours.peers().get(from)?;
        let until = if is_sure(peer) { peer.hellos_until } else { self.hellos.claiming() };
        Some(Instant(until.0.saturating_sub(AHEAD.as_nanos() as u64)))
    }

    fn hear_later(&mut self, from: PeerId, at: Instant, heard: &Heard<'_>) {
        let sure = self.neighbours.peers().get(from).is_some_and(is_sure);
        let hello_budget = self.hellos.hello_budget();
        let taken: usize = hello_budget.waiting.values().map(Unheard::len).sum();
        // The shared budget bounds the memory of neighbours that only claim a name.
        if !sure && hello_budget.waiting.len() >= CLAIMING_MAX && !hello_budget.waiting.contains_key(&from) {
            return;
        }
        let new = !hello_budget.waiting.contains_key(&from);
        let unheard = hello_budget.waiting.entry(from).or_default();
        unheard.add(heard, WAITING_MAX.saturating_sub(taken));
        if new {
            unheard.rings = at;
            self.work.arm(at, Timer::Hear(from));
        }
    }
    /// Timer of a neighbour's waiting hellos.
    pub(crate) fn on_hear(&mut self, now: Instant, from: PeerId) {
        let later = self.heard_at(from).filter(|at| *at > now);
        let waiting = self.hellos.hello_budget.as_mut().and_then(|hello_budget| hello_budget.waiting.get_mut(&from));
        // A timer of an earlier encounter may still ring.
        let Some(unheard) = waiting.filter(|unheard| unheard.rings <= now) else { return };
        match later {
            Some(at) => {
                unheard.rings = at;
                self.work.arm(at, Timer::Hear(from));
            }
            None => self.hear_waiting(now, from),
        }
    }
    fn hear_waiting(&mut self, now: Instant, from: PeerId) {
        if !self.hellos.waits(from) {
            return;
        }
        if let Some(unheard) = self.hellos.hello_budget().waiting.remove(&from) {
            self.hear_now(now, from, &unheard.as_heard());
        }
    }
}
