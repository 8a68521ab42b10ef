//! The end of bundles: expiration (RFC 9171 5.5) and deletion (5.10); clocks and residence.

use crate::agent::{Agent, Timer};
use crate::held::Place;
use crate::io::Output;
use farlink_base::store;
use farlink_base::{BundleHandle, Clock, DeleteReason, DtnTime, Duration, Event, Instant, Sink};
use farlink_bundle::Bundle;

/// Steps of the wall clock below this are drift.
const STEP_MS: u64 = 50;

impl Agent {
    /// The wall clock was read. Lifetimes run on the monotonic clock from arrival, so a step
    /// expires nothing; it only moves the contact plan.
    pub(crate) fn on_clock<S: Sink<Output>>(&mut self, now: Instant, clock: Clock, out: &mut S) {
        if let (Some(expected), Some(utc)) = (self.clock.utc_at(clock.at), clock.utc) {
            let step_ms = utc.0 as i64 - expected.0 as i64;
            if step_ms.unsigned_abs() >= STEP_MS {
                self.event(out, Event::ClockStepped { step_ms });
            }
        }
        self.clock = clock;
        self.bind_plan(now, out);
    }

    /// Lifetime left on arrival: by the clock when both the source's and ours are known, else by
    /// the age block, else all of it (RFC 9171 5.5).
    pub(crate) fn remaining_lifetime(&self, now: Instant, bundle: &Bundle, age_ms: Option<u64>) -> Duration {
        let primary = &bundle.primary;
        let age = match (primary.creation.time, self.clock.utc_at(now)) {
            (DtnTime::UNKNOWN, _) | (_, None) => age_ms.unwrap_or(0),
            (created, Some(utc)) => utc.saturating_since_ms(created),
        };
        Duration::from_millis(primary.lifetime_ms.saturating_sub(age))
    }

    /// Age of a held bundle now, ms, for its age block.
    pub(crate) fn age_now_ms(&self, now: Instant, received: Instant, age_ms: u64) -> u64 {
        age_ms.saturating_add(now.since(received).as_millis() as u64)
    }

    pub(crate) fn on_lifetime_end<S: Sink<Output>>(&mut self, now: Instant, handle: BundleHandle, out: &mut S) {
        let Some(held) = self.bundles.get_mut(&handle) else { return };
        held.expiry = None;
        self.delete(now, handle, DeleteReason::Expired, out);
    }

    /// Removes a bundle for a reason other than success, with its report.
    pub(crate) fn delete<S: Sink<Output>>(
        &mut self,
        now: Instant,
        handle: BundleHandle,
        reason: DeleteReason,
        out: &mut S,
    ) {
        if !self.bundles.get(&handle).is_some_and(|h| h.place != Place::Leaving) {
            return;
        }
        self.report_deletion(now, handle, reason, out);
        self.release(now, handle, reason, None, out);
    }

    /// Takes a bundle out of every queue and tells the store; its acknowledgments still follow.
    pub(crate) fn release<S: Sink<Output>>(
        &mut self,
        now: Instant,
        handle: BundleHandle,
        reason: DeleteReason,
        remember: Option<store::Remembered>,
        out: &mut S,
    ) {
        self.unlink(handle);
        let Some(held) = self.bundles.get_mut(&handle) else { return };
        held.place = Place::Leaving;
        if let Some(key) = held.expiry.take() {
            self.timers.cancel(key);
        }
        let durable = held.durable;
        let view = held.view.clone();
        self.event(out, Event::Deleted { bundle: handle, reason });
        self.tell_router_outcome(now, &view, farlink_routing::Outcome::Gone);
        // A bundle whose Put is not answered yet stays until it is: its verdict is still owed.
        if durable {
            self.forget(handle);
        }
        out.push(Output::Store(store::Input::Delete { bundle: handle, remember }));
    }

    /// Takes a bundle out of queues and tables other than `bundles`.
    pub(crate) fn unlink(&mut self, handle: BundleHandle) {
        let Some(held) = self.bundles.get_mut(&handle) else { return };
        let id = held.bundle.id();
        match core::mem::replace(&mut held.place, Place::New) {
            Place::Waiting { retry } => {
                self.waiting.remove(&handle);
                if let Some(key) = retry {
                    self.timers.cancel(key);
                }
            }
            Place::Queued { link, key, until } => {
                if let Some(l) = self.links.get_mut(&link) {
                    l.dequeue(&key);
                }
                if let Some(key) = until {
                    self.timers.cancel(key);
                }
            }
            Place::InFlight { send, .. } => {
                self.sends.remove(&send);
            }
            Place::Loading { link } => {
                if let Some(l) = self.links.get_mut(&link) {
                    l.loading.remove(&handle);
                    l.loaded.retain(|(bundle, _)| *bundle != handle);
                }
            }
            Place::ForDelivery => {
                if let Some(endpoint) = self.endpoints.get_mut(&held.bundle.primary.destination) {
                    endpoint.waiting.retain(|(_, bundle)| *bundle != handle);
                }
            }
            Place::Delivering { delivery } => {
                if let Some((registration, _)) = self.deliveries.remove(&delivery) {
                    if let Some(r) = self.registrations.get_mut(&registration) {
                        r.in_flight = r.in_flight.saturating_sub(1);
                    }
                }
            }
            Place::Fragment => {
                self.reassembler.remove(&id, &handle);
            }
            Place::New | Place::Cutting { .. } | Place::Leaving => {}
        }
        // Copies on their way over other links.
        if self.bundles.get(&handle).is_some_and(|h| !h.given.is_empty()) {
            for link in self.links.values_mut() {
                let keys: alloc::vec::Vec<_> = link.queue.keys().filter(|k| k.bundle == handle).copied().collect();
                for key in keys {
                    link.dequeue(&key);
                }
                link.loading.remove(&handle);
                link.loaded.retain(|(bundle, _)| *bundle != handle);
            }
        }
    }

    /// Frees what is known of a bundle.
    pub(crate) fn forget(&mut self, handle: BundleHandle) {
        let Some(held) = self.bundles.remove(&handle) else { return };
        self.waiting.remove(&handle);
        if let Some(key) = held.expiry {
            self.timers.cancel(key);
        }
        if self.by_fingerprint.get(&held.fingerprint) == Some(&handle) {
            self.by_fingerprint.remove(&held.fingerprint);
        }
        self.kept_bytes = self.kept_bytes.saturating_sub(held.view.size);
        self.resident_bytes = self.resident_bytes.saturating_sub(held.bundle.payload.resident_len());
    }

    pub(crate) fn on_route_deadline<S: Sink<Output>>(&mut self, now: Instant, handle: BundleHandle, out: &mut S) {
        let Some(held) = self.bundles.get_mut(&handle) else { return };
        match &mut held.place {
            Place::Waiting { retry } => {
                *retry = None;
                held.view.excluded.clear();
            }
            Place::Queued { link, key, until } => {
                let (link, key) = (*link, *key);
                *until = None;
                let view = held.view.clone();
                if let Some(l) = self.links.get_mut(&link) {
                    l.dequeue(&key);
                }
                held.place = Place::New;
                self.tell_router_outcome(now, &view, farlink_routing::Outcome::Failed { link });
            }
            _ => return,
        }
        self.dispatch(now, handle, out);
    }

    pub(crate) fn arm_route(&mut self, at: Instant, handle: BundleHandle) -> Option<farlink_base::TimerKey> {
        (at < Instant::MAX).then(|| self.timers.arm(at, Timer::Route(handle)))
    }
}
