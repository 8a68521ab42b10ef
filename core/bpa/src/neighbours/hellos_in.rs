//! Arriving hellos: charged to the neighbour's budget, then evaluated.

use crate::agent::Agent;
use crate::neighbours::hello_budget::{
    AHEAD, BYTE, CLAIMING_MAX, DeferredHellos, HELD, HELLO, LOOK, WAITING_MAX, is_sure,
};
use crate::neighbours::hellos::{HelloContent, IDS_MAX, LIFETIME_MS, read};
use crate::work::Timer;
use core::time::Duration;
use farlink_base::{CreationTimestamp, Instant, PeerId};
use farlink_book::{PolicyEvent, Side};

impl Agent {
    /// Whether a hello is newer than all others since the neighbour came up; if so, it is noted as the newest. After a
    /// restart, a neighbour without a clock may begin its sequence numbers again: they are accepted once the newest
    /// hello is older than a hello's lifetime.
    pub(crate) fn is_news(&mut self, now: Instant, from: PeerId, made: CreationTimestamp) -> bool {
        let Some(peer) = self.neighbours.peer_mut(from) else { return false };
        peer.newest_hello.is_news(made, now, core::time::Duration::from_millis(LIFETIME_MS))
    }

    /// Takes a neighbour's hello: notes its free space at once, and evaluates the rest within the budget.
    pub(crate) fn on_hello(&mut self, now: Instant, from: PeerId, content: &[u8]) {
        let Some(hello) = read(content) else { return };
        let Some(peer) = self.neighbours.peer_mut(from) else { return };
        (peer.free, peer.capacity) = (Some(hello.free), Some(hello.capacity));
        self.process_or_defer_hello(now, from, &hello);
    }

    /// Evaluates a hello: notes the bundles it lists, passes messages to the policies, and offers bundles to the
    /// neighbour again.
    fn apply_hello(&mut self, now: Instant, from: PeerId, hello: &HelloContent<'_>) {
        let Some(peer) = self.neighbours.peer_mut(from) else { return };
        // A summary replaces everything noted earlier about the neighbour's bundles.
        if hello.summary {
            peer.heard = true;
            peer.forget();
        }
        let ids = hello.ids.as_chunks::<8>().0;
        ids.iter().take(IDS_MAX).for_each(|id| peer.note_has(u64::from_be_bytes(*id)));
        for side in [Side::Router, Side::Control] {
            let bytes = hello.messages[side as usize];
            if !bytes.is_empty() {
                self.notify_policy(now, side, &PolicyEvent::Heard { from, bytes });
            }
        }
        // Offers wait for the summary, so that no bundle is sent to a neighbour that has it.
        if hello.summary || !self.policies.asks_summaries() {
            if let Some(timer) = self.outbound.offers.end_summary_wait(from) {
                self.work.cancel(timer);
            }
            self.outbound.offers.reask(&mut self.book, from);
        }
    }

    /// Evaluates a neighbour's hello now, or keeps it for later.
    fn process_or_defer_hello(&mut self, now: Instant, from: PeerId, hello: &HelloContent<'_>) {
        if let Some(at) = self.next_hello_at(from).filter(|at| *at > now) {
            return self.defer_hello(from, at, hello);
        }
        // Waiting hellos are older and are evaluated first.
        self.process_deferred_hellos(now, from);
        self.process_hello(now, from, hello);
    }

    fn process_hello(&mut self, now: Instant, from: PeerId, hello: &HelloContent<'_>) {
        let cost = self.cost_of(hello);
        let Some(peer) = self.neighbours.peer_mut(from) else { return };
        let until = if is_sure(peer) { &mut peer.hellos_until } else { &mut self.hellos.hello_budget().claiming };
        *until = (*until).max(now) + cost;
        self.apply_hello(now, from, hello);
    }
    /// Estimated processing time of a hello.
    fn cost_of(&self, hello: &HelloContent<'_>) -> Duration {
        let bytes = hello.ids.len() + hello.messages.iter().map(|message| message.len()).sum::<usize>();
        // Only a summary or a message to the router causes held bundles to be offered again, unless offers need no
        // summaries.
        let anew = hello.summary || !self.policies.asks_summaries() || !hello.messages[0].is_empty();
        let times = |each: Duration, count: usize| each.saturating_mul(u32::try_from(count).unwrap_or(u32::MAX));
        let looked_at = if anew { self.book.len() } else { 0 };
        let looks = if hello.messages[0].is_empty() { 0 } else { self.policies.looks() };
        HELLO + times(BYTE, bytes) + times(HELD, looked_at) + times(LOOK, looks)
    }
    /// Earliest time at which the budget admits the neighbour's next hello; `None` for an unknown neighbour.
    fn next_hello_at(&self, from: PeerId) -> Option<Instant> {
        let peer = self.neighbours.peers().get(from)?;
        let until = if is_sure(peer) { peer.hellos_until } else { self.hellos.claiming() };
        Some(Instant(until.0.saturating_sub(AHEAD.as_nanos() as u64)))
    }

    fn defer_hello(&mut self, from: PeerId, at: Instant, hello: &HelloContent<'_>) {
        let sure = self.neighbours.peers().get(from).is_some_and(is_sure);
        let hello_budget = self.hellos.hello_budget();
        let taken: usize = hello_budget.waiting.values().map(DeferredHellos::len).sum();
        // Neighbours that only claim a name must not fill the memory.
        if !sure && hello_budget.waiting.len() >= CLAIMING_MAX && !hello_budget.waiting.contains_key(&from) {
            return;
        }
        let new = !hello_budget.waiting.contains_key(&from);
        let deferred = hello_budget.waiting.entry(from).or_default();
        deferred.add(hello, WAITING_MAX.saturating_sub(taken));
        if new {
            deferred.rings = at;
            self.work.arm(at, Timer::Hello(from));
        }
    }
    /// Evaluates a neighbour's waiting hellos if the budget admits them by now, else arms the timer again.
    pub(crate) fn on_hello_timer(&mut self, now: Instant, from: PeerId) {
        let later = self.next_hello_at(from).filter(|at| *at > now);
        let waiting = self.hellos.hello_budget.as_mut().and_then(|hello_budget| hello_budget.waiting.get_mut(&from));
        // A timer of an earlier encounter may still fire.
        let Some(deferred) = waiting.filter(|deferred| deferred.rings <= now) else { return };
        match later {
            Some(at) => {
                deferred.rings = at;
                self.work.arm(at, Timer::Hello(from));
            }
            None => self.process_deferred_hellos(now, from),
        }
    }
    fn process_deferred_hellos(&mut self, now: Instant, from: PeerId) {
        if !self.hellos.waits(from) {
            return;
        }
        if let Some(deferred) = self.hellos.hello_budget().waiting.remove(&from) {
            self.process_hello(now, from, &deferred.joined());
        }
    }
}
