//! The one way out (RFC 9171 5.10): a bundle leaves every table, the store forgets it, and whoever
//! is owed something about it is answered.

use crate::agent::{Agent, Step};
use crate::edge::{Edge, Fate, Status};
use crate::io::Output;
use farlink_base::store::{self, Remembered};
use farlink_base::{DeleteReason, Event, Instant, Sink};
use farlink_book::{Flags, Handle, PolicyEvent, RetentionConstraint, Why};

impl Agent {
    /// Ends to hold a bundle, whatever reasons there are to. `remember`: the store keeps its
    /// identity as delivered, in the same commit.
    // 9171-5.10-1, 5050-3.1-6, 5050-5.13-2
    pub(crate) fn depart<S: Sink<Output>>(
        &mut self,
        now: Instant,
        bundle: Handle,
        why: Why,
        remember: Option<Remembered>,
        edge: &mut dyn Edge,
        out: &mut S,
    ) {
        self.dissolve_whole_of(now, bundle, edge, out);
        self.ends_arriving(bundle);
        let Some(held) = self.book.get(bundle) else { return };
        let (name, reason, aside) = (held.name(), why.reason(), held.flags.has(Flags::ASIDE));
        let sends = held.sends;
        let remember = remember.or_else(|| self.remembrance_of_group(now, held, edge));
        // Of what had another's identity nobody is told: they would take it for the other.
        if reason != DeleteReason::Done && why != Why::Displaced {
            let (meta, ours) = (held.bundle.clone(), held.has(RetentionConstraint::Custody));
            if ours {
                self.report_compressed(now, &meta, Fate::Deleted, edge);
                // 5050-5.13-1
                // RFC 5050 5.13: of what was in custody it is told whether asked for or not.
                self.report_if(now, &meta, 0, Status::Deleted, reason, edge, out);
            } else {
                self.report_about(now, &meta, Status::Deleted, reason, edge, out);
            }
        }
        self.leave_custody(now, bundle, why, edge, out);
        if self.tunnels.is_some() {
            self.leave_tunnel(now, bundle, why, edge, out);
        }
        self.tell(now, &PolicyEvent::Gone { bundle, why }, out);
        self.pay_all(bundle, out);
        self.leave_queues(bundle);
        if sends > 0 {
            self.cancel_sends(bundle, out);
        }
        self.withdraw(bundle);
        if let Some(delivered) = remember {
            self.remembered.deliver(delivered.fingerprint, delivered.content);
        }
        if aside {
            self.cuts.forget(bundle);
            self.waits.forget(bundle);
            if let Some(rests) = self.rests.made() {
                rests.leave(bundle);
            }
        }
        self.event(out, Event::Deleted { bundle: name, reason });
        let parts = self.fragments.take_parts(bundle);
        let Some(held) = self.book.get(bundle) else { return };
        let has_record = self.settings.durable && !held.flags.has(Flags::VIRTUAL) && !held.flags.has(Flags::UNRECORDED);
        self.fragments.forget(held);
        self.memory.go(held);
        if self.shares.counts(held, &self.settings.limits) {
            self.shares.go(held);
        }
        if let Some(oracle) = self.policies.oracle().filter(|_| !held.flags.has(Flags::VIRTUAL)) {
            oracle.gone(held.bundle.id);
        }
        self.book.remove(bundle);
        if has_record {
            out.push(Output::Store(store::Input::Delete { bundle: name, remember }));
        }
        // A whole has no record: its first part's deletion remembers it.
        let mut remember = remember.filter(|_| !has_record);
        for part in parts {
            self.depart(now, part, why, remember.take(), edge, out);
        }
    }

    /// A part that leaves before its whole takes the whole with it; the other parts wait again.
    fn dissolve_whole_of<S: Sink<Output>>(&mut self, now: Instant, part: Handle, edge: &mut dyn Edge, out: &mut S) {
        if self.book.get(part).is_some_and(|held| held.has(RetentionConstraint::Whole)) {
            if let Some(whole) = self.fragments.whole_of(part) {
                // This one among them, which is gone by then.
                let parts = self.fragments.dissolve(&mut self.book, whole);
                self.steps.extend(parts.into_iter().map(Step::Dispatch));
                self.depart(now, whole, Why::Forwarded, None, edge, out);
            }
        }
    }

    /// Transmissions of a bundle that leaves are taken back where they have not begun.
    fn cancel_sends<S: Sink<Output>>(&mut self, bundle: Handle, out: &mut S) {
        for (id, sending) in self.sends.of(bundle) {
            out.push(Output::Cancel { link: sending.link, id });
        }
    }
}
