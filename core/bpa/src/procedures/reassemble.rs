//! Reassembly (RFC 9171 5.9): the fragments of a bundle for this node are joined to an entry that refers to them.

use crate::agent::Agent;
use crate::context::Context;
use crate::io::Output;
use crate::procedures::identity::Place;
use crate::state::fragments::Joined;
use crate::work::Step;
use alloc::sync::Arc;
use alloc::vec::Vec;
use farlink_base::{Event, Instant, Payload, Refusal, Sink};
use farlink_book::{Flags, Handle, Held, New, RetentionConstraint, RetentionConstraints, Why};

impl Agent {
    /// Whether a bundle is durable. A reassembled bundle is durable if all its parts are.
    pub(crate) fn is_durable(&self, held: &Held) -> bool {
        let parts = self.fragments.parts(held.handle());
        held.flags.has(Flags::DURABLE)
            && parts.iter().all(|part| self.book.get(*part).is_some_and(|held| held.flags.has(Flags::DURABLE)))
    }

    /// Notes a part that became durable; the delivery of its reassembled bundle may have waited for that.
    pub(super) fn durable_part(&mut self, part: Handle) {
        if self.book.get(part).is_some_and(|held| held.has(RetentionConstraint::Whole)) {
            if let Some(whole) = self.fragments.whole_of(part) {
                self.await_delivery(whole);
            }
        }
    }

    /// Checks that a new fragment for this node can wait for the others.
    ///
    /// # Errors
    /// `NotAcceptable` if too many contents wait under the original's identity. (`NoResources` would also hold back the
    /// sender's other bundles.)
    pub(super) fn may_join(&self, new: &Held) -> Result<(), Refusal> {
        let joins = new.bundle.fragment().is_some() && self.is_for_us(&new.bundle);
        if joins && !self.fragments.have_room_for(&self.book, new) { Err(Refusal::NotAcceptable) } else { Ok(()) }
    }

    /// Adds a fragment addressed to this node, and reassembles the original if it is complete (RFC 9171 5.9).
    // 9171-5.7-1, 5050-5.7-1
    pub(crate) fn join<S: Sink<Output>>(&mut self, cx: &mut Context<'_, S>, bundle: Handle) {
        let joined = self.fragments.add(&mut self.book, bundle);
        match joined {
            Joined::Redundant => return self.depart(cx, bundle, Why::Forwarded, None),
            Joined::Waiting | Joined::Complete { .. } => {}
        }
        let last = self.book.release(bundle, RetentionConstraint::Route);
        debug_assert!(!last, "it waits for the others");
        if let Joined::Complete { first, payload, expires, parts } = joined {
            self.reassemble(cx, first, payload, expires, parts);
        }
    }

    /// Adds a reassembled bundle, which refers to its parts and has no record of its own. If it is invalid, or is held
    /// or delivered already, its parts depart.
    // 9171-5.9-1, 5050-5.9-1
    fn reassemble<S: Sink<Output>>(
        &mut self,
        cx: &mut Context<'_, S>,
        first: Handle,
        payload: Payload,
        expires: Instant,
        parts: Vec<Handle>,
    ) {
        let Some(held) = self.book.get(first) else { return };
        let (from, hops, born, seen_before) = (held.from, held.hops, held.born, held.flags.has(Flags::SEEN_BEFORE));
        let strange = held.flags.has(Flags::STRANGE);
        let made = cx.edge.whole(&held.bundle.clone(), payload).ok().map(|mut whole| {
            if self.settings.durable {
                // The payload may leave memory before another bundle of this identity arrives.
                whole.digest = cx.edge.digest(&whole);
            }
            Arc::new(whole)
        });
        let whole = made.and_then(|whole| match self.place(cx, &whole, strange) {
            Place::New(whole) => Some(whole),
            _ => None,
        });
        let Some(whole) = whole else {
            for part in parts {
                self.depart(cx, part, Why::Forwarded, None);
            }
            return;
        };
        let mut flags = Flags(Flags::DURABLE | Flags::VIRTUAL);
        flags.set(Flags::SEEN_BEFORE, seen_before);
        let handle = self.keep(
            New {
                bundle: whole,
                number: None,
                born,
                expires,
                from,
                hops,
                labels: [0; 2],
                reasons: RetentionConstraints::of(&[RetentionConstraint::Route]),
                flags,
            },
            cx.out,
        );
        self.fragments.refer(handle, parts);
        self.event(cx.out, Event::Reassembled { bundle: self.number(handle) });
        self.work.push(Step::Dispatch(handle));
    }
}
