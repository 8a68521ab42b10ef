//! Pieces of arriving bundles, kept as fragments before the rest is here (RFC 9171 5.8): if the transfer breaks, the
//! neighbour need not repeat the acknowledged bytes.
//!
//! While more arrives, only `Whole` holds a piece: it is not forwarded, and its room is the one reserved for the whole
//! bundle. Once the whole bundle is durable the pieces go; if the rest does not come, they become ordinary fragments.

use crate::agent::Agent;
use crate::context::Context;
use crate::edge::Status;
use crate::io::{OfferToken, Output};
use crate::state::pending_commits::Debt;
use crate::work::Step;
use alloc::sync::Arc;
use core::ops::Range;
use farlink_base::{BundleMeta, DeleteReason, Event, Facts, HopState, LinkId, Sink};
use farlink_book::{Flags, Handle, New, RetentionConstraint, RetentionConstraints, Why};

impl Agent {
    /// Keeps a piece of an arriving bundle. Bundles for groups and bundles that request custody are taken whole or not
    /// at all.
    pub(crate) fn on_piece<S: Sink<Output>>(
        &mut self,
        cx: &mut Context<'_, S>,
        link: LinkId,
        token: OfferToken,
        bundle: Arc<BundleMeta>,
        hop: &HopState,
        promises: Range<u64>,
    ) {
        let promises = (promises.start, promises.end);
        if bundle.is_for_group() || bundle.facts.has(Facts::CUSTODY) || self.has_memory_of(&bundle) {
            return;
        }
        let strange = hop.unvouched || self.neighbours.is_strange(link);
        if let Some((number, piece)) = self.known(&bundle).map(|held| (held.number, held.handle())) {
            if self.fragments.is_arriving(piece) || !self.is_same_piece(piece, &bundle, strange, cx.edge) {
                // A piece of another transfer may be dropped with that transfer if it proves damaged, and the neighbour
                // would not repeat these bytes. A piece that differs belongs to another bundle.
                return;
            }
            // The piece arrived earlier, in a transfer that broke.
            self.fragments.begin_arriving(token);
            if !self.pending_commits.add(number, Debt::Piece(token, promises)) {
                self.report_durable_prefix(token, promises, cx.out);
            }
            return;
        }
        let from = self.previous_node(link, hop);
        let mut new = self.newcomer(cx.now, bundle, from, hop);
        new.flags.set(Flags::STRANGE, strange);
        let full = self.book.len() as u64 >= self.settings.limits.bundles || self.bounds.memory.refuses(&new);
        // Promised bytes cannot be refused later: the piece must find room beside all other pieces even if every
        // transfer breaks.
        if full
            || new.is_tired()
            || self.judge(cx.now, &new).and_then(|()| self.may_join(&new)).is_err()
            || !self.share_keeps(token, &new)
        {
            return;
        }
        let mut flags = Flags::default();
        flags.set(Flags::STRANGE, new.flags.has(Flags::STRANGE));
        flags.set(Flags::DURABLE, !self.settings.durable);
        let (born, expires, hops, labels) = (new.born, new.expires, new.hops, new.labels);
        let reasons = RetentionConstraints::of(&[RetentionConstraint::Whole]);
        let size = new.size();
        let piece = self
            .keep(New { bundle: new.bundle, number: None, born, expires, from, hops, labels, reasons, flags }, cx.out);
        self.uncount(piece);
        let previous_node = self.node_of(from);
        self.event(cx.out, Event::Received { bundle: self.number(piece), link, from: previous_node });
        self.fragments.begin_piece(token, piece, size);
        let debt = Debt::Piece(token, promises);
        if self.settings.durable {
            self.pending_commits.begin(&mut self.book, piece, Some(debt));
            self.put(cx, piece);
        } else {
            self.pay(piece, Some(debt), Ok(()), cx.out);
        }
    }

    /// Whether a piece fits its shares together with all other pieces. A reservation counts until its transfer ends;
    /// then the pieces take that room.
    fn share_keeps(&mut self, token: OfferToken, piece: &farlink_book::Held) -> bool {
        let previous_node = self.previous_name(piece.from);
        let (limits, own) = (&self.settings.limits, self.bounds.reservations.of(token));
        let promised =
            |other| self.bounds.reservations.of(other).filter(|_| other != token).map(farlink_book::Held::size);
        let beside = self.fragments.arriving().map_or((0, 0), |arriving| arriving.beyond(promised));
        if let Some(own) = own {
            self.bounds.fair_share.go(own);
        }
        let keeps = self.bounds.fair_share.keeps(piece, limits, || previous_node.clone(), beside);
        if let Some(own) = own {
            self.bounds.fair_share.come(own, limits, &previous_node);
        }
        keeps
    }
    /// Promises a longer prefix of an arriving bundle if newly durable bytes extend it.
    pub(crate) fn report_durable_prefix<S: Sink<Output>>(
        &mut self,
        token: OfferToken,
        promises: (u64, u64),
        out: &mut S,
    ) {
        let promised = self.fragments.arriving().and_then(|arriving| arriving.note_durable(token, promises));
        if let Some(bytes) = promised {
            out.push(Output::Kept { token, bytes });
        }
    }
    /// Lets the pieces of a bundle that arrived whole stay until it is durable.
    pub(super) fn pieces_await(&mut self, token: OfferToken, whole: Handle) {
        let has = self.fragments.arriving().is_some_and(|arriving| arriving.is_known(token));
        let Some(number) = self.book.get(whole).map(|held| held.number).filter(|_| has) else { return };
        if !self.pending_commits.add(number, Debt::Pieces(token)) {
            self.pieces_end(token, false);
        }
    }
    /// Ends a transfer in a later step: its pieces become fragments if they `stay`, else they are dropped.
    pub(crate) fn pieces_end(&mut self, token: OfferToken, stay: bool) {
        if self.fragments.arriving().is_some_and(|arriving| arriving.is_known(token)) {
            self.work.push(Step::Pieces(token, stay));
        }
    }
    pub(crate) fn settle_pieces<S: Sink<Output>>(&mut self, cx: &mut Context<'_, S>, token: OfferToken, stay: bool) {
        let pieces = self.fragments.arriving().map(|arriving| arriving.take(token)).unwrap_or_default();
        for piece in pieces {
            if !self.ends_arriving(piece) {
                continue;
            }
            if !stay {
                self.depart(cx, piece, Why::Forwarded, None);
                continue;
            }
            // Held by `Route` before `Whole` is released, so that the fragment is held throughout.
            self.book.hold(piece, RetentionConstraint::Route);
            let last = self.book.release(piece, RetentionConstraint::Whole);
            debug_assert!(!last, "it is to be routed");
            self.report(cx, piece, Status::Received, DeleteReason::Done);
            self.notify_kept(cx.now, piece, None);
            self.work.push(Step::Dispatch(piece));
        }
    }
    /// Stops treating a bundle as a piece and charges it to its source and previous node. Returns whether it was a
    /// piece.
    pub(super) fn ends_arriving(&mut self, piece: Handle) -> bool {
        let ended = self.fragments.arriving().is_some_and(|arriving| arriving.end(piece));
        let limits = &self.settings.limits;
        if let Some(held) = self.book.get(piece).filter(|held| ended && self.bounds.fair_share.counts(held, limits)) {
            let previous_node = self.previous_name(held.from);
            self.bounds.fair_share.come(held, limits, &previous_node);
        }
        ended
    }
    /// Uncharges a piece, since its room is charged to the reservation of the whole bundle.
    fn uncount(&mut self, piece: Handle) {
        if let Some(held) =
            self.book.get(piece).filter(|held| self.bounds.fair_share.counts(held, &self.settings.limits))
        {
            self.bounds.fair_share.go(held);
        }
    }
}
