//! How long a bundle is kept here and remembered (RFC 9171 5.5).

use crate::agent::Agent;
use crate::context::Context;
use crate::edge::Edge;
use crate::io::Output;
use crate::state::remembered::Delivered;
use core::time::Duration;
use farlink_base::{BundleMeta, DeleteReason, DtnTime, Instant, Sink, store};
use farlink_book::{Handle, Held, Why};

/// A difference of lifetimes that clocks do not make.
const SHORTENED: Duration = Duration::from_millis(100);

impl Agent {
    /// Lifetime left on arrival: by the clock when both the source's and ours are known, else by
    /// the age block, else all of it (RFC 9171 5.5).
    // 9171-5.5-1
    pub(super) fn remaining_lifetime(&self, now: Instant, bundle: &BundleMeta, age_ms: u64) -> Duration {
        let age = match (bundle.created_ms, self.wall_clock.utc_at(now)) {
            (0, _) | (_, None) => age_ms,
            (created, Some(utc)) => utc.saturating_since_ms(DtnTime(created)),
        };
        Duration::from_millis(bundle.lifetime_ms.saturating_sub(age))
    }

    /// How long a bundle of this lifetime is kept here: as long, or less where this node overrides it.
    // 9171-4.3.1-7
    pub(super) fn lifetime_here(&self, lifetime: Duration) -> Duration {
        match self.settings.limits.lifetime_s {
            0 => lifetime,
            most => lifetime.min(Duration::from_secs(most.into())),
        }
    }

    /// Whether this node keeps a bundle for a shorter time than its lifetime.
    pub(crate) fn is_shortened(&self, now: Instant, held: &Held) -> bool {
        let lives = || self.remaining_lifetime(now, &held.bundle, held.age_ms(now));
        self.settings.limits.lifetime_s > 0 && lives() > held.remaining(now) + SHORTENED
    }

    /// Why a bundle goes whose time here is over (RFC 9171 5.5).
    // 9171-5.5-2
    pub(super) fn over(&self, now: Instant, held: &Held) -> DeleteReason {
        if self.is_shortened(now, held) { DeleteReason::TrafficPared } else { DeleteReason::Expired }
    }

    /// How a delivered bundle is remembered.
    pub(crate) fn remembrance(&self, now: Instant, held: &Held, edge: &mut dyn Edge) -> store::Remembered {
        // As long as another copy of it may live elsewhere.
        let lives = self.remaining_lifetime(now, &held.bundle, held.age_ms(now));
        let remaining_ms = held.remaining(now).max(lives).as_millis() as u64;
        let until = match (self.wall_clock.utc_at(now), held.bundle.created_ms) {
            (Some(utc), _) => utc.saturating_add_ms(remaining_ms),
            // Nobody knows when that is: as long as there is room.
            (None, 0) => DtnTime(u64::MAX),
            (None, created_ms) => DtnTime(created_ms).saturating_add_ms(held.bundle.lifetime_ms),
        };
        let vouched = !self.is_unvouched(held.handle());
        let content = Delivered { content: self.content(&held.bundle, edge), vouched }.kept();
        store::Remembered { fingerprint: held.bundle.original_id(), until, content }
    }

    /// The end of a lifetime (RFC 9171 5.5). Parts of a whole leave with it.
    // 9171-5.5-1, 9171-5.5-2, 5050-5.5-1
    pub(crate) fn on_lifetime_end<S: Sink<Output>>(&mut self, cx: &mut Context<'_, S>, bundle: Handle) {
        if self.fragments.whole_of(bundle).is_none() {
            let Some(why) = self.book.get(bundle).map(|held| self.over(cx.now, held)) else { return };
            self.depart(cx, bundle, Why::Deleted(why), None);
        }
    }
}
