//! Storage of bundles in book and store, the store's answers, and recovery of bundles of an earlier run. A bundle is
//! accepted only once it is kept: verdicts wait for the store's answer.

use crate::agent::Agent;
use crate::app::AppOutput;
use crate::context::Context;
use crate::io::{OfferToken, Output};
use crate::settings::SHARD_NUMBERS;
use crate::state::fair_share;
use crate::state::pending_commits::Debt;
use alloc::sync::Arc;
use core::time::Duration;
use farlink_base::store::IndexEntry;
use farlink_base::{BundleHandle, BundleMeta, DeleteReason, Event, HopState, Instant, PeerId, Refusal, Sink, store};
use farlink_book::{
    Birth, Flags, Handle, Held, New, PolicyEvent, RetentionConstraint, RetentionConstraints, Side, Why,
};

impl Agent {
    /// Entry of a new bundle as the book would hold it, for checks before it is kept.
    pub(crate) fn newcomer(&self, now: Instant, bundle: Arc<BundleMeta>, from: PeerId, hop: &HopState) -> Held {
        let expires = now + self.lifetime_here(self.remaining_lifetime(now, &bundle, hop.age_ms));
        let labels = hop.labels.unwrap_or_default();
        Held::newcomer(New {
            bundle,
            number: None,
            born: Birth::of(now, hop.age_ms),
            expires,
            from,
            hops: hop.hops,
            labels,
            reasons: RetentionConstraints::of(&[RetentionConstraint::Route]),
            flags: Flags::default(),
        })
    }

    /// Puts a bundle into the book under a new number.
    pub(crate) fn keep<S: Sink<Output>>(&mut self, new: New, out: &mut S) -> Handle {
        let handle = self.book.keep(new);
        if let Some(held) = self.book.get(handle) {
            self.bounds.memory.come(held);
            if self.bounds.fair_share.counts(held, &self.settings.limits) {
                let previous_node = self.previous_name(held.from);
                self.bounds.fair_share.come(held, &self.settings.limits, &previous_node);
            }
            if let Some(oracle) = self.policies.oracle().filter(|_| !held.flags.has(Flags::VIRTUAL)) {
                oracle.kept(held.bundle.id);
            }
        }
        self.event_seen(handle, out);
        handle
    }

    /// Puts an admitted bundle into the book and hands it to the store.
    // 9171-5.6-1, 5050-5.6-1
    pub(super) fn take_in<S: Sink<Output>>(
        &mut self,
        cx: &mut Context<'_, S>,
        new: Held,
        hop: &HopState,
        debt: Option<Debt>,
    ) -> Handle {
        let mut flags = new.flags;
        flags.set(Flags::DURABLE, !self.settings.durable);
        // A bundle that failed its security check is deleted at once: a record on disk would return after a crash
        // without the reason for deletion.
        let fails = new.bundle.duties.security().is_some() && !new.bundle.payload.is_stored();
        flags.set(Flags::UNRECORDED, fails);
        let handle = self.keep(
            New {
                bundle: new.bundle,
                number: None,
                born: new.born,
                expires: new.expires,
                from: new.from,
                hops: new.hops,
                labels: new.labels,
                reasons: RetentionConstraints::of(&[RetentionConstraint::Route]),
                flags,
            },
            cx.out,
        );
        if self.deals_in_custody() {
            let carrier = match debt {
                Some(Debt::Offer(token)) if token.layer == OfferToken::TUNNEL => self.previous_of_inside(token).0,
                _ => new.from,
            };
            self.enter_custody(handle, hop, carrier);
        }
        if self.settings.durable && !fails {
            self.pending_commits.begin(&mut self.book, handle, debt);
            self.put(cx, handle);
        } else {
            self.pay(handle, debt, Ok(()), cx.out);
        }
        handle
    }

    /// Store flag for bundles that claim this node as source but arrived from elsewhere; 0 for others.
    fn kept_came(&self, held: &Held) -> u32 {
        let came = !held.is_own() && self.is_local(held.bundle.source.node());
        if came { fair_share::KEPT_CAME } else { 0 }
    }

    pub(crate) fn put<S: Sink<Output>>(&self, cx: &mut Context<'_, S>, handle: Handle) {
        let now = cx.now;
        let Some(held) = self.book.get(handle) else { return };
        let (utc, meta) = (self.wall_clock.utc_at(now), &held.bundle);
        let remaining_ms = held.remaining(now).as_millis() as u64;
        let index = IndexEntry {
            priority: meta.priority,
            expires: utc.map(|t| t.saturating_add_ms(remaining_ms)),
            stored_at: utc,
            ran_ms: utc.is_none().then(|| self.wall_clock.ran_ms(now)),
            age_ms: held.age_ms(now),
            quota: meta.source.node().0,
            fingerprint: meta.id,
            digest: meta.digest,
            flags: u32::from(held.flags.0 & fair_share::KEPT_FLAGS) | self.kept_custody(held) | self.kept_came(held),
        };
        cx.out.push(Output::Put { bundle: held.name(), index, meta: meta.clone() });
    }

    /// Gives the answers that waited for the commit.
    pub(super) fn pay<S: Sink<Output>>(
        &mut self,
        handle: Handle,
        debts: impl IntoIterator<Item = Debt>,
        result: Result<(), Refusal>,
        out: &mut S,
    ) {
        for debt in debts {
            match debt {
                Debt::Offer(token) => out.push(Output::Verdict { token, result }),
                Debt::Piece(token, promises) => {
                    if result.is_ok() {
                        self.report_durable_prefix(token, promises, out);
                    }
                }
                Debt::Pieces(token) => self.pieces_end(token, result.is_err()),
                Debt::Request(request) => {
                    let Some(held) = self.book.get(handle) else { continue };
                    let result = result.map(|()| held.bundle.identity());
                    out.push(Output::App(AppOutput::SendResult { request, result }));
                }
            }
        }
        // Listeners see acceptance only after the sender was answered.
        if result.is_ok() {
            self.event(out, Event::Accepted { bundle: self.number(handle) });
        }
    }

    /// Gives the answers that wait for the commit of a departing bundle, as if the bundle were durable: its record is
    /// not needed any more.
    pub(super) fn pay_all<S: Sink<Output>>(&mut self, handle: Handle, out: &mut S) {
        let Some(number) = self.book.get(handle).map(|held| held.number) else { return };
        if let Some(owed) = self.pending_commits.settle(number).filter(|owed| !owed.debts.is_empty()) {
            self.pay(handle, owed.debts, Ok(()), out);
        }
    }

    pub(crate) fn number(&self, handle: Handle) -> BundleHandle {
        self.book.get(handle).map_or(BundleHandle(0), Held::name)
    }

    /// Takes an output of the store.
    pub(crate) fn on_store<S: Sink<Output>>(&mut self, cx: &mut Context<'_, S>, output: store::Output) {
        match output {
            store::Output::Stored { bundle, payload } => self.on_stored(cx, bundle, payload),
            store::Output::Refused { bundle, reason } => self.on_store_refused(cx, bundle, reason),
            store::Output::Deleted { bundle } => self.on_deleted(bundle),
            store::Output::RecoveredDelivery(remembered) => {
                self.remembered.deliver(remembered.fingerprint, remembered.content)
            }
            store::Output::Opened { counter, last_bundle, secret } => {
                cx.edge.set_secret(if secret == 0 { self.settings.seed } else { secret });
                self.on_opened(cx, counter, last_bundle);
            }
            store::Output::CounterSet { value } => {
                self.creation.reserved(value);
                while let Some((request, bundle)) = self.creation.pop_waiting() {
                    self.on_send(cx, request, bundle);
                }
            }
            store::Output::Event(event) => self.event(cx.out, event),
            // The stack itself handles decoding of recovered bundles, reads of payloads, spills and disk operations.
            _ => {}
        }
    }

    fn on_stored<S: Sink<Output>>(
        &mut self,
        cx: &mut Context<'_, S>,
        bundle: BundleHandle,
        payload: Option<farlink_base::Payload>,
    ) {
        let Some(owed) = self.pending_commits.settle(bundle.0) else { return };
        let handle = owed.bundle;
        let Some(held) = self.book.get_mut(handle) else { return };
        held.flags.set(Flags::DURABLE, true);
        self.pay(handle, owed.debts, Ok(()), cx.out);
        if self.deals_in_custody() {
            self.on_custody_stored(cx, handle);
        }
        let last = self.book.release(handle, RetentionConstraint::Commit);
        debug_assert!(!last, "a bundle nobody needs has left by now");
        if let Some(on_disk) = payload.filter(|_| self.bounds.memory.is_scarce(self.settings.limits.memory_bytes)) {
            self.bounds.memory.let_go(&mut self.book, handle, on_disk);
        }
        self.await_delivery(handle);
        self.durable_part(handle);
    }

    fn on_store_refused<S: Sink<Output>>(&mut self, cx: &mut Context<'_, S>, bundle: BundleHandle, reason: Refusal) {
        let Some(held) = self.pending_commits.bundle(bundle.0).and_then(|handle| self.book.get_mut(handle)) else {
            return;
        };
        let (handle, meta) = (held.handle(), held.bundle.clone());
        held.flags.set(Flags::UNRECORDED, true);
        let sending = held.has(RetentionConstraint::Send);
        self.event_refused(None, Some(&meta), reason, cx.out);
        // A bundle in transmission may still reach the neighbour: the store's refusal counts only if the transmission
        // fails.
        if sending {
            self.forgo(handle);
            return self.pending_commits.refuse(bundle.0, reason);
        }
        let Some(owed) = self.pending_commits.settle(bundle.0) else { return };
        self.pay(handle, owed.debts, Err(reason), cx.out);
        self.depart(cx, handle, Why::Deleted(DeleteReason::DepletedStorage), None);
    }

    /// Takes a bundle that an earlier run kept. All of them come before `Opened`.
    pub(crate) fn on_recovered<S: Sink<Output>>(
        &mut self,
        cx: &mut Context<'_, S>,
        bundle: BundleHandle,
        index: &IndexEntry,
        meta: Arc<BundleMeta>,
        hop: &HopState,
    ) {
        let now = cx.now;
        // Downtime counts as age if the wall time was trusted both when the bundle was stored and now; otherwise only
        // the time for which the node ran counts.
        let down_ms = match (index.stored_at, index.ran_ms) {
            (Some(stored_at), _) => self.wall_clock.found(now, stored_at),
            (None, Some(ran_ms)) => self.wall_clock.found_ran(now, ran_ms),
            (None, None) => 0,
        };
        let stored_remaining_ms = match (index.expires, index.stored_at) {
            (Some(expires), Some(stored_at)) => expires.saturating_since_ms(stored_at),
            _ => meta.lifetime_ms.saturating_sub(index.age_ms),
        };
        let remaining = Duration::from_millis(stored_remaining_ms.saturating_sub(down_ms));
        let Some(meta) = self.place_recovered(&meta, cx.edge) else {
            return cx.out.push(Output::Store(store::Input::Delete { bundle, remember: None }));
        };
        let previous_node = self.neighbours.of_node(hop.previous.node()).map_or(PeerId::NONE, |peer| peer.id);
        let mut flags = Flags(Flags::DURABLE | Flags::SEEN_BEFORE | (index.flags as u8 & fair_share::KEPT_FLAGS));
        // A bundle that claims this node as source may be trusted only if this node made it.
        if index.flags & fair_share::KEPT_CAME != 0 && previous_node == PeerId::NONE {
            flags.set(Flags::STRANGE, true);
        }
        let handle = self.keep(
            New {
                bundle: meta,
                number: Some(bundle.0),
                born: Birth::of(now, index.age_ms.saturating_add(down_ms)),
                expires: now + remaining,
                from: previous_node,
                hops: hop.hops,
                labels: hop.labels.unwrap_or_default(),
                reasons: RetentionConstraints::of(&[RetentionConstraint::Route]),
                flags,
            },
            cx.out,
        );
        if self.deals_in_custody() {
            self.resume_custody(handle, index.flags, hop);
        }
        self.event(cx.out, Event::Recovered { bundle });
        self.notify_kept(now, handle, hop.labels);
        // The bundle may be one that is to be deleted at once: the node may have crashed between its commit and its
        // deletion.
        self.heed(cx, handle);
    }

    fn on_opened<S: Sink<Output>>(&mut self, cx: &mut Context<'_, S>, counter: u64, last_bundle: u64) {
        self.open = true;
        // Numbers of shards must not overlap: each begins at its own multiple.
        let first = u64::from(self.settings.shard) * SHARD_NUMBERS;
        self.book.skip_to(last_bundle.max(first));
        let reserve = self.creation.resume(counter.max(first));
        self.reserve(reserve, cx.out);
        self.judge_clock(cx);
        for link in self.neighbours.links().map(|link| link.id).collect::<alloc::vec::Vec<_>>() {
            self.refresh_link(cx, link);
        }
        for input in self.work.take_deferred() {
            self.on_app(cx, input);
        }
    }

    /// Notifies policies of a newly held bundle and the labels that it carried.
    pub(crate) fn notify_kept(&mut self, now: Instant, bundle: Handle, wire: Option<[u32; 2]>) {
        for side in [Side::Router, Side::Control] {
            let news = PolicyEvent::Kept { bundle, wire: wire.map(|labels| labels[side as usize]) };
            if self.policies.wants(side, &news) {
                self.notify_policy(now, side, &news);
            }
        }
    }
}
