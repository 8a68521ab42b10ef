//! Recognition of duplicates: two bundles of one identity are the same only if the immutable fields of their primary
//! blocks and their payloads agree (decision 0035). An identity alone proves nothing, because anyone can write it.

use crate::agent::Agent;
use crate::context::Context;
use crate::edge::Edge;
use crate::io::Output;
use crate::state::content::{number_of, primary_facts, same_primary};
use crate::work::Step;
use alloc::sync::Arc;
use farlink_base::{BundleMeta, Facts, Refusal, Sink, hash128};
use farlink_book::{Flags, Handle, RetentionConstraint, Why};

/// Relation of an arriving bundle to those held or delivered.
#[derive(Debug)]
pub(crate) enum Place {
    /// The bundle is neither held nor was it delivered. Contains the bundle to hold, whose identity in this node may be
    /// derived from its content.
    New(Arc<BundleMeta>),
    /// The same bundle is held.
    Here(Handle),
    /// The same bundle was delivered.
    Delivered,
    /// A bundle with other content has this identity, and no link vouches for the arriving one.
    Forged,
}

impl Agent {
    /// Whether two bundles of one identity are the same. `None` if that cannot be decided: a payload is encrypted and
    /// there is no key, or a payload is not in memory and its digest was not kept.
    fn same(&self, a: &BundleMeta, b: &BundleMeta, edge: &mut dyn Edge) -> Option<bool> {
        if !same_primary(a, b) {
            return Some(false);
        }
        let sealed = a.facts.has(Facts::SEALED) || b.facts.has(Facts::SEALED);
        let in_memory = if edge.guards(a) || edge.guards(b) { None } else { a.payload.same(&b.payload) };
        let same = in_memory.or_else(|| match (edge.digest(a), edge.digest(b)) {
            (0, _) | (_, 0) => None,
            (a, b) => Some(a == b),
        });
        // Different ciphertexts may have one plaintext, so a difference proves nothing.
        same.filter(|same| *same || !sealed)
    }

    /// Keyed hash of a bundle's content. Collisions are accidental, since nobody without this node's key can construct
    /// one. 0 if the payload is not in memory and its digest was not kept.
    pub(crate) fn content(&self, meta: &BundleMeta, edge: &mut dyn Edge) -> u64 {
        let digest = edge.digest(meta);
        if digest == 0 {
            return 0;
        }
        let place = meta.fragment().map_or([0; 2], |place| [place.offset + 1, place.total]);
        let facts = u64::from(meta.facts.0 & primary_facts(meta.version));
        let class = if meta.version == 6 { u64::from(meta.priority.number()) + 1 } else { 0 };
        let [destination, report_to] = [&meta.destination, meta.report_to()].map(number_of);
        let mut bytes = [0; 80];
        let numbers = [
            digest,
            meta.lifetime_ms,
            facts,
            class,
            place[0],
            place[1],
            destination.0,
            destination.1,
            report_to.0,
            report_to.1,
        ];
        for (at, number) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(numbers) {
            *at = number.to_le_bytes();
        }
        // Bit 1 keeps the hash from being 0; bit 0 is left free for the mark of vouched deliveries.
        (hash128(&[&bytes]) as u64 | 2) & !1
    }

    /// Classifies an arriving bundle; `strange`: no link vouches for it. A vouched bundle that did not fail its
    /// security check displaces a held one with other content that no link vouches for.
    pub(crate) fn place<S: Sink<Output>>(
        &mut self,
        cx: &mut Context<'_, S>,
        bundle: &Arc<BundleMeta>,
        strange: bool,
    ) -> Place {
        if bundle.is_anonymous() {
            return Place::New(bundle.clone());
        }
        let counts = bundle.duties.security().is_none();
        if let Some(held) = self.book.find(bundle.id) {
            let own = held.is_own() && self.is_local(held.bundle.source.node());
            let (here, held) = (held.handle(), held.bundle.clone());
            // A bundle made here cannot have other content elsewhere, so a copy that cannot be compared counts as the
            // same.
            let same = self.same(&held, bundle, cx.edge).or(Some(true).filter(|_| own && same_primary(&held, bundle)));
            match (same, self.is_unvouched(here)) {
                // The record on disk marks the bundle as not vouched for, and the mark would return after a restart. So
                // the vouched copy replaces the bundle and is stored.
                (Some(true), true) if !strange && counts && self.settings.durable && !self.is_for_members(bundle) => {
                    self.depart(cx, here, Why::Displaced, None);
                }
                (Some(true), unvouched) => {
                    if unvouched && !strange && counts {
                        self.vouch(cx, here);
                    }
                    return Place::Here(here);
                }
                _ if strange => return Place::Forged,
                (Some(false), true) if counts => self.displace(cx, here),
                _ => return self.place_beside(bundle, cx.edge),
            }
        }
        if !self.is_for_members(bundle) {
            return Place::New(bundle.clone());
        }
        let Some(delivered) = self.remembered.delivered(bundle.original_id()) else {
            return Place::New(bundle.clone());
        };
        if bundle.fragment().is_some() {
            // A fragment cannot be compared with the delivered whole: a vouched one is trusted if the whole was vouched
            // for.
            return match (strange, delivered.vouched) {
                (true, _) => Place::Forged,
                (false, true) => Place::Delivered,
                (false, false) => Place::New(bundle.clone()),
            };
        }
        let content = self.content(bundle, cx.edge);
        if content == delivered.content && content != 0 || delivered.content == 0 && !strange && delivered.vouched {
            return Place::Delivered;
        }
        if strange { Place::Forged } else { self.place_beside(bundle, cx.edge) }
    }

    /// Classifies a vouched bundle that differs, or may differ, from the one held or delivered under its identity.
    /// Neither can be shown to be false, and their senders may have released them: the new one is held under a local
    /// identity derived from its content.
    fn place_beside(&mut self, bundle: &Arc<BundleMeta>, edge: &mut dyn Edge) -> Place {
        let Some(beside) = self.beside(bundle, edge) else { return Place::Forged };
        if let Some(held) = self.book.find(beside.id) {
            return Place::Here(held.handle());
        }
        if self.is_for_members(&beside) && self.remembered.delivered(beside.original_id()).is_some() {
            return Place::Delivered;
        }
        Place::New(Arc::new(beside))
    }
    fn beside(&self, bundle: &BundleMeta, edge: &mut dyn Edge) -> Option<BundleMeta> {
        let content = self.content(bundle, edge);
        let id = bundle.id ^ hash128(&[&content.to_le_bytes()]);
        (content != 0).then(|| BundleMeta { id, ..bundle.clone() })
    }
    /// Bundle of an earlier run, under the identity it gets here; `None` if it is held already or was delivered, so
    /// that its record is to be deleted.
    pub(super) fn place_recovered(&self, bundle: &Arc<BundleMeta>, edge: &mut dyn Edge) -> Option<Arc<BundleMeta>> {
        let here = self.book.find(bundle.id).map(|held| held.bundle.clone());
        let delivered = self.is_for_members(bundle).then(|| self.remembered.delivered(bundle.original_id())).flatten();
        let differs = match (here, delivered) {
            (Some(held), _) => self.same(&held, bundle, edge) != Some(true),
            (None, Some(delivered)) => {
                let content = self.content(bundle, edge);
                let known = delivered.content != 0;
                bundle.fragment().is_none() && if known { content != delivered.content } else { !delivered.vouched }
            }
            (None, None) => return Some(bundle.clone()),
        };
        let beside = if differs { self.beside(bundle, edge) } else { None };
        beside.filter(|beside| self.book.find(beside.id).is_none()).map(Arc::new)
    }

    /// Whether a bundle is for this node or for a group, so that it may have been delivered here.
    fn is_for_members(&self, bundle: &BundleMeta) -> bool {
        self.is_local(bundle.destination_node()) || bundle.is_for_group()
    }
    /// Whether a bundle of this identity, or its original, was delivered here.
    pub(super) fn has_memory_of(&self, bundle: &BundleMeta) -> bool {
        self.is_for_members(bundle) && self.remembered.delivered(bundle.original_id()).is_some()
    }
    /// Whether no link vouches for a held bundle or for one of its parts.
    pub(super) fn is_unvouched(&self, bundle: Handle) -> bool {
        let strange = |bundle: &Handle| self.book.get(*bundle).is_some_and(|held| held.flags.has(Flags::STRANGE));
        strange(&bundle) || self.fragments.parts(bundle).iter().any(strange)
    }
    /// Whether a piece of an arriving bundle equals a held one. If the held one has no digest and is on disk, vouched
    /// pieces are trusted: the whole bundle is compared once it is here.
    pub(super) fn is_same_piece(&self, piece: Handle, bundle: &BundleMeta, strange: bool, edge: &mut dyn Edge) -> bool {
        let Some(held) = self.book.get(piece) else { return false };
        let vouched = !strange && !held.flags.has(Flags::STRANGE);
        self.same(&held.bundle, bundle, edge).unwrap_or(vouched)
    }

    /// Whether a bundle that begins to arrive is held or was delivered, as far as its head shows. In a real node its
    /// payload is a placeholder, which equals no other; in message-level simulations it is the real one.
    pub(super) fn is_here_or_was(&self, bundle: &BundleMeta, strange: bool, edge: &mut dyn Edge) -> bool {
        if bundle.is_anonymous() {
            return false;
        }
        if let Some(held) = self.known(bundle) {
            // A held bundle that no link vouches for can become vouched for only by a whole vouched copy.
            let alike = strange == self.is_unvouched(held.handle());
            return alike && self.same(&held.bundle, bundle, edge) == Some(true);
        }
        let delivered = self.is_for_members(bundle).then(|| self.remembered.delivered(bundle.original_id())).flatten();
        delivered.is_some_and(|delivered| match bundle.fragment() {
            Some(_) => !strange && delivered.vouched,
            None => delivered.content != 0 && self.content(bundle, edge) == delivered.content,
        })
    }

    /// Whether the same bundle is held and durable.
    pub(super) fn is_durably_here(&self, bundle: &BundleMeta, edge: &mut dyn Edge) -> bool {
        let Some(held) = self.known(bundle).filter(|held| self.is_durable(held)) else { return false };
        self.same(&held.bundle, bundle, edge) == Some(true)
    }

    /// Marks a held bundle as vouched for: it is charged to its source and previous node, and a fragment waits again
    /// for others that are vouched for.
    fn vouch<S: Sink<Output>>(&mut self, cx: &mut Context<'_, S>, bundle: Handle) {
        for bundle in core::iter::once(bundle).chain(self.fragments.parts(bundle).to_vec()) {
            self.count_as_vouched(bundle);
        }
        // Copies from unauthenticated neighbours must not delay a vouched bundle.
        if self.outbound.waits.ignore_strangers(bundle) {
            self.work.push(Step::Dispatch(bundle));
        }
        let Some(held) = self.book.get(bundle) else { return };
        let (waits, part) = (held.has(RetentionConstraint::Fragment), held.has(RetentionConstraint::Whole));
        if waits {
            self.fragments.forget(held);
        }
        if let Some(whole) = self.fragments.whole_of(bundle).filter(|_| part) {
            let parts = self.fragments.dissolve(&mut self.book, whole);
            self.work.extend(parts.into_iter().map(Step::Dispatch));
            self.depart(cx, whole, Why::Forwarded, None);
        } else if waits {
            self.book.hold(bundle, RetentionConstraint::Route);
            let last = self.book.release(bundle, RetentionConstraint::Fragment);
            debug_assert!(!last, "it is to be joined");
            self.work.push(Step::Dispatch(bundle));
        }
    }
    fn count_as_vouched(&mut self, bundle: Handle) {
        let counts = !self.fragments.is_arriving(bundle);
        let limits = &self.settings.limits;
        if let Some(held) = self.book.get(bundle).filter(|held| counts && self.bounds.fair_share.counts(held, limits)) {
            self.bounds.fair_share.go(held);
        }
        if let Some(held) = self.book.get_mut(bundle) {
            held.flags.set(Flags::STRANGE, false);
        }
        if let Some(held) = self.book.get(bundle).filter(|held| counts && self.bounds.fair_share.counts(held, limits)) {
            let previous_node = self.previous_name(held.from);
            self.bounds.fair_share.come(held, limits, &previous_node);
        }
    }
    /// Removes a bundle that no link vouches for, in favour of one that is vouched for. No report follows: its
    /// receivers would take it for the other bundle of that identity.
    fn displace<S: Sink<Output>>(&mut self, cx: &mut Context<'_, S>, bundle: Handle) {
        let meta = self.book.get(bundle).map(|held| held.bundle.clone());
        self.event_refused(None, meta.as_deref(), Refusal::NotAcceptable, cx.out);
        self.depart(cx, bundle, Why::Displaced, None);
    }
}
