//! Lifetime of bundles in this node, and of the records of their delivery (RFC 9171 5.5).

use crate::agent::Agent;
use crate::context::Context;
use crate::edge::Edge;
use crate::io::Output;
use crate::state::remembered::Delivered;
use core::time::Duration;
use farlink_base::{BundleMeta, DeleteReason, DtnTime, Instant, Sink, store};
use farlink_book::{Handle, Held, Why};

/// Least time between a bundle's deletion here and the end of its lifetime for which this node counts as having
/// shortened the lifetime; clock errors cause shorter ones.
const SHORTENED: Duration = Duration::from_millis(100);

impl Agent {
    /// Lifetime that a bundle has left: by creation time and clock if both are known, else by its age (RFC 9171 5.5).
    // 9171-5.5-1
    pub(super) fn remaining_lifetime(&self, now: Instant, bundle: &BundleMeta, age_ms: u64) -> Duration {
        let age = match (bundle.created_ms, self.wall_clock.utc_at(now)) {
            (0, _) | (_, None) => age_ms,
            (created, Some(utc)) => utc.saturating_since_ms(DtnTime(created)),
        };
        Duration::from_millis(bundle.lifetime_ms.saturating_sub(age))
    }

    /// Lifetime of a bundle in this node: the given one, or the node's limit if that is less.
    // 9171-4.3.1-7
    pub(super) fn lifetime_here(&self, lifetime: Duration) -> Duration {
        match self.settings.limits.lifetime_s {
            0 => lifetime,
            most => lifetime.min(Duration::from_secs(most.into())),
        }
    }

    /// Whether this node deletes a bundle before its lifetime ends.
    pub(crate) fn is_shortened(&self, now: Instant, held: &Held) -> bool {
        let lives = || self.remaining_lifetime(now, &held.bundle, held.age_ms(now));
        self.settings.limits.lifetime_s > 0 && lives() > held.remaining(now) + SHORTENED
    }

    /// Reason for deletion of a bundle whose time in this node is over: `TrafficPared` if the node cut its lifetime
    /// short, else `Expired` (RFC 9171 5.5).
    // 9171-5.5-2
    pub(super) fn over(&self, now: Instant, held: &Held) -> DeleteReason {
        if self.is_shortened(now, held) { DeleteReason::TrafficPared } else { DeleteReason::Expired }
    }

    /// Record of a bundle's delivery.
    pub(crate) fn remembrance(&self, now: Instant, held: &Held, edge: &mut dyn Edge) -> store::Remembered {
        // The record lasts as long as another copy may exist elsewhere.
        let lives = self.remaining_lifetime(now, &held.bundle, held.age_ms(now));
        let remaining_ms = held.remaining(now).max(lives).as_millis() as u64;
        let until = match (self.wall_clock.utc_at(now), held.bundle.created_ms) {
            (Some(utc), _) => utc.saturating_add_ms(remaining_ms),
            // Without clocks the end is unknown: the record stays while there is room.
            (None, 0) => DtnTime(u64::MAX),
            (None, created_ms) => DtnTime(created_ms).saturating_add_ms(held.bundle.lifetime_ms),
        };
        let vouched = !self.is_unvouched(held.handle());
        let content = Delivered { content: self.content(&held.bundle, edge), vouched }.kept();
        store::Remembered { fingerprint: held.bundle.original_id(), until, content }
    }

    /// Deletes a bundle whose lifetime here is over (RFC 9171 5.5). Parts of a reassembled bundle leave with it.
    // 9171-5.5-1, 9171-5.5-2, 5050-5.5-1
    pub(crate) fn on_lifetime_end<S: Sink<Output>>(&mut self, cx: &mut Context<'_, S>, bundle: Handle) {
        // A part lives as long as its reassembled bundle.
        if self.fragments.whole_of(bundle).is_none() {
            let Some(why) = self.book.get(bundle).map(|held| self.over(cx.now, held)) else { return };
            self.depart(cx, bundle, Why::Deleted(why), None);
        }
    }
}
