//! Groups (RFC 9171 4.2.5.1.1): a bundle for one is never satisfied. It goes on its way, and while members here are to
//! have it, it is held for them too.
//!
//! Shares the reason `Whole` with `fragments`; who has what of a bundle is `deliveries`' to know.

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
    /// A bundle for a group is held for the members here, each of which has it once. What is enciphered or in pieces
    /// only goes on its way.
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

    /// Bundles that a member which left was still to have.
    pub(crate) fn forsake<S: Sink<Output>>(&mut self, cx: &mut Context<'_, S>, mut bundles: Vec<Handle>) {
        let Some(bundle) = bundles.pop() else { return };
        self.work.push(Step::Forsake(bundles));
        self.settle_members(cx, bundle);
    }

    /// Once no member here is to have a bundle any more, it is held for its way only, and leaves if it has none.
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

    /// The store refused a bundle that is on its way: only that is left of it.
    pub(super) fn forgo(&mut self, bundle: Handle) {
        self.withdraw(bundle);
        if self.book.get(bundle).is_some_and(|held| held.bundle.is_for_group()) {
            let last = self.book.release(bundle, RetentionConstraint::Whole);
            debug_assert!(!last, "it is being sent");
        }
    }

    /// How a bundle that leaves is remembered where members of its group had it; what is over comes no more.
    pub(super) fn remembrance_of_group(&self, now: Instant, held: &Held, edge: &mut dyn Edge) -> Option<Remembered> {
        let had = self.deliveries.was_had(held.handle()) && held.expires > now && !held.bundle.is_anonymous();
        had.then(|| self.remembrance(now, held, edge))
    }
}
