//! The only exit of bundles (RFC 9171 5.10): a bundle leaves every table, the store deletes it, and answers that wait
//! for its commit are given.

use crate::agent::Agent;
use crate::context::Context;
use crate::edge::{Fate, Status};
use crate::io::Output;
use crate::work::Step;
use farlink_base::store::Remembered;
use farlink_base::{DeleteReason, Event, Sink, store};
use farlink_book::{Flags, Handle, PolicyEvent, RetentionConstraint, Why};

impl Agent {
    /// Removes a bundle from the node, whatever holds it; the parts of a reassembled bundle depart with it. `remember`:
    /// the store notes its identity as delivered, in the same commit.
    // 9171-5.10-1, 5050-3.1-6, 5050-5.13-2
    pub(crate) fn depart<S: Sink<Output>>(
        &mut self,
        cx: &mut Context<'_, S>,
        bundle: Handle,
        why: Why,
        remember: Option<Remembered>,
    ) {
        let now = cx.now;
        self.dissolve_whole_of(cx, bundle);
        self.ends_arriving(bundle);
        let Some(held) = self.book.get(bundle) else { return };
        let (name, reason, aside) = (held.name(), why.reason(), held.flags.has(Flags::ASIDE));
        let sends = held.sends;
        let remember = remember.or_else(|| self.remembrance_of_group(now, held, cx.edge));
        // A displaced bundle is not reported: the report's receivers would take it for the other bundle of its
        // identity.
        if reason != DeleteReason::Done && why != Why::Displaced {
            let (meta, ours) = (held.bundle.clone(), held.has(RetentionConstraint::Custody));
            if ours {
                self.report_compressed(now, &meta, Fate::Deleted, cx.edge);
                // 5050-5.13-1
                // RFC 5050 5.13: deletion of a bundle in custody is reported even if no report was requested.
                self.report_if(cx, &meta, 0, Status::Deleted, reason);
            } else {
                self.report_about(cx, &meta, Status::Deleted, reason);
            }
        }
        self.leave_custody(cx, bundle, why);
        if self.has_tunnels() {
            self.leave_tunnel(cx, bundle, why);
        }
        // Policies can still look the bundle up in the book.
        self.notify_policies(now, &PolicyEvent::Gone { bundle, why });
        self.pay_all(bundle, cx.out);
        self.leave_queues(bundle);
        if sends > 0 {
            self.cancel_sends(bundle, cx.out);
        }
        self.withdraw(bundle);
        if let Some(delivered) = remember {
            self.remembered.deliver(delivered.fingerprint, delivered.content);
        }
        if aside {
            self.outbound.forget(bundle);
        }
        self.event(cx.out, Event::Deleted { bundle: name, reason });
        let parts = self.fragments.take_parts(bundle);
        let Some(held) = self.book.get(bundle) else { return };
        let has_record = self.settings.durable && !held.flags.has(Flags::VIRTUAL) && !held.flags.has(Flags::UNRECORDED);
        self.fragments.forget(held);
        self.bounds.memory.go(held);
        if self.bounds.fair_share.counts(held, &self.settings.limits) {
            self.bounds.fair_share.go(held);
        }
        if let Some(oracle) = self.policies.oracle().filter(|_| !held.flags.has(Flags::VIRTUAL)) {
            oracle.gone(held.bundle.id);
        }
        self.book.remove(bundle);
        if has_record {
            cx.out.push(Output::Store(store::Input::Delete { bundle: name, remember }));
        }
        // A reassembled bundle has no record: its identity is noted with the deletion of its first part.
        let mut remember = remember.filter(|_| !has_record);
        for part in parts {
            self.depart(cx, part, why, remember.take());
        }
    }

    /// Dissolves the reassembled bundle of a part that departs before it; the other parts wait for reassembly again.
    fn dissolve_whole_of<S: Sink<Output>>(&mut self, cx: &mut Context<'_, S>, part: Handle) {
        if self.book.get(part).is_some_and(|held| held.has(RetentionConstraint::Whole)) {
            if let Some(whole) = self.fragments.whole_of(part) {
                // The departing part is among them, but has departed by the time they are dispatched.
                let parts = self.fragments.dissolve(&mut self.book, whole);
                self.work.extend(parts.into_iter().map(Step::Dispatch));
                self.depart(cx, whole, Why::Forwarded, None);
            }
        }
    }

    /// Cancels the transmissions of a departing bundle that have not begun.
    fn cancel_sends<S: Sink<Output>>(&mut self, bundle: Handle, out: &mut S) {
        for (id, sending) in self.outbound.transmissions.of(bundle) {
            out.push(Output::Cancel { link: sending.link, id });
        }
    }
}
