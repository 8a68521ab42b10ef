//! Groups (RFC 9171 4.2.5.1.1): delivery never completes a group's bundle. The bundle is forwarded, and is also held
//! here until the local members have received it.
//!
//! Shares the retention constraint `Whole` with `fragments`. `deliveries` records which member has received which
//! bundle.

use crate::agent::Agent;
use crate::context::Context;
use crate::edge::Edge;
use crate::io::Output;
use crate::work::Step;
use alloc::vec::Vec;
use farlink_base::store::Remembered;
use farlink_base::{DeleteReason, Facts, Instant, Sink};
use farlink_book::{Flags, Handle, Held, RetentionConstraint, Why};

impl Agent {
    /// Holds a group's bundle until each local member has received it once. Encrypted bundles and fragments are only
    /// forwarded.
    pub(super) fn await_members(&mut self, bundle: Handle) {
        let Some(held) = self.book.get(bundle) else { return };
        let readable = !held.bundle.facts.has(Facts::SEALED) && held.bundle.fragment().is_none();
        if !readable || held.flags.has(Flags::UNRECORDED) {
            return;
        }
        let durable = self.is_durable(held);
        if self.deliveries.made().is_some_and(|deliveries| deliveries.share(held, durable)) {
            self.work.extend(durable.then(|| Step::Deliver(held.bundle.destination.clone())));
            self.book.hold(bundle, RetentionConstraint::Whole);
        }
    }

    /// Handles bundles that a departed member had still to receive, one per step: if no present member lacks a bundle,
    /// its hold for members ends.
    pub(crate) fn forsake<S: Sink<Output>>(&mut self, cx: &mut Context<'_, S>, mut bundles: Vec<Handle>) {
        let Some(bundle) = bundles.pop() else { return };
        self.work.push(Step::Forsake(bundles));
        self.settle_members(cx, bundle);
    }

    /// Ends the hold for members once all present ones have received the bundle; the bundle departs if nothing else
    /// holds it.
    pub(super) fn settle_members<S: Sink<Output>>(&mut self, cx: &mut Context<'_, S>, bundle: Handle) {
        if self.deliveries.owes(bundle) {
            return;
        }
        let last = self.book.release(bundle, RetentionConstraint::Whole);
        if !last && !self.is_done(bundle) {
            return;
        }
        let tired = self.book.get(bundle).is_some_and(Held::is_tired);
        let why = match self.deliveries.was_had(bundle) {
            true => Why::Delivered,
            false if tired => Why::Deleted(DeleteReason::HopLimit),
            false => Why::Forwarded,
        };
        self.depart(cx, bundle, why, None);
    }

    /// Ends the deliveries of a bundle that the store refused during a transmission of the bundle.
    pub(super) fn forgo(&mut self, bundle: Handle) {
        self.withdraw(bundle);
        if self.book.get(bundle).is_some_and(|held| held.bundle.is_for_group()) {
            let last = self.book.release(bundle, RetentionConstraint::Whole);
            debug_assert!(!last, "it is being sent");
        }
    }

    /// Record of the delivery of a departing group bundle; `None` if no member has received it, if it has expired, or
    /// if it is anonymous.
    pub(super) fn remembrance_of_group(&self, now: Instant, held: &Held, edge: &mut dyn Edge) -> Option<Remembered> {
        let had = self.deliveries.was_had(held.handle()) && held.expires > now && !held.bundle.is_anonymous();
        had.then(|| self.remembrance(now, held, edge))
    }
}
