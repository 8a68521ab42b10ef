//! Pieces of bundles that are arriving, kept as fragments before the rest is here (RFC 9171 5.8): the neighbour counts what
//! is acknowledged as held here, should the transfer break.
//!
//! While more arrives, a piece is held for no reason but that (`Whole`): nobody is offered it, and it takes no room but what
//! the whole was promised. With the whole on disk the pieces go; when the rest does not come, they are fragments like others.

use crate::agent::{Agent, Step};
use crate::debts::Debt;
use crate::edge::{Edge, Status};
use crate::io::{OfferToken, Output};
use crate::ranges::Ranges;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Range;
use farlink_base::{BundleMeta, DeleteReason, Event, Facts, HopState, Instant, LinkId, Sink};
use farlink_book::{Flags, Handle, New, RetentionConstraint, RetentionConstraints, Why};

/// Pieces of one arriving bundle.
#[derive(Debug, Default)]
struct Held {
    pieces: Vec<Handle>,
    /// How many are pieces still, and their bytes.
    size: (u64, u64),
    /// Bytes of it that are durable: the first ones are promised.
    durable: Ranges,
}

/// Pieces of all arriving bundles.
#[derive(Debug)]
pub(crate) struct Arriving {
    held: BTreeMap<OfferToken, Held>,
    of: BTreeMap<Handle, (OfferToken, u64)>,
    bytes: u64,
}

impl Arriving {
    pub const fn new() -> Self {
        Arriving { held: BTreeMap::new(), of: BTreeMap::new(), bytes: 0 }
    }
    /// A piece more.
    pub fn add(&mut self, token: OfferToken, piece: Handle, bytes: u64) {
        let held = self.held.entry(token).or_default();
        held.pieces.push(piece);
        held.size = (held.size.0 + 1, held.size.1 + bytes);
        self.of.insert(piece, (token, bytes));
        self.bytes += bytes;
    }
    /// Pieces of this arriving bundle are to be promised.
    pub fn begin(&mut self, token: OfferToken) {
        self.held.entry(token).or_default();
    }
    /// These bytes of an arriving bundle are durable; how many of its first ones may be promised, where those are more
    /// than before. None once it is over.
    pub fn promise(&mut self, token: OfferToken, (start, end): (u64, u64)) -> Option<u64> {
        let durable = &mut self.held.get_mut(&token)?.durable;
        let first = |durable: &Ranges| durable.first().filter(|first| first.start == 0).map_or(0, |first| first.end);
        let before = first(durable);
        durable.insert(start..end);
        Some(first(durable)).filter(|promised| *promised > before)
    }
    /// A piece is one no more; whether it was.
    pub fn end(&mut self, piece: Handle) -> bool {
        let Some((token, bytes)) = self.of.remove(&piece) else { return false };
        self.bytes -= bytes;
        if let Some(held) = self.held.get_mut(&token) {
            held.size = (held.size.0 - 1, held.size.1 - bytes);
        }
        true
    }
    /// Forgets an arriving bundle; its pieces.
    fn take(&mut self, token: OfferToken) -> Vec<Handle> {
        self.held.remove(&token).unwrap_or_default().pieces
    }
    fn is_known(&self, token: OfferToken) -> bool {
        self.held.contains_key(&token)
    }
    /// Whether a bundle is such a piece.
    pub fn has(&self, piece: Handle) -> bool {
        self.of.contains_key(&piece)
    }
    /// Bytes of all of them.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
    /// Bundles and bytes of all of them beyond what is promised to their wholes.
    pub fn beyond(&self, promised: impl Fn(OfferToken) -> Option<u64>) -> (u64, u64) {
        self.held.iter().fold((0, 0), |(bundles, bytes), (token, held)| {
            let promised = promised(*token);
            let first = u64::from(promised.is_some());
            (bundles + held.size.0.saturating_sub(first), bytes + held.size.1.saturating_sub(promised.unwrap_or(0)))
        })
    }
    /// Arriving bundles with pieces.
    #[cfg(any(test, feature = "audit"))]
    pub fn len(&self) -> usize {
        self.held.len()
    }
}

impl Agent {
    /// A piece of an arriving bundle is on disk: it gets a record. Bundles for a group, and those that ask for custody, are
    /// taken whole or not at all.
    pub(crate) fn on_piece<S: Sink<Output>>(
        &mut self,
        now: Instant,
        link: LinkId,
        token: OfferToken,
        bundle: Arc<BundleMeta>,
        hop: &HopState,
        promises: Range<u64>,
        edge: &mut dyn Edge,
        out: &mut S,
    ) {
        let promises = (promises.start, promises.end);
        if bundle.is_for_group() || bundle.facts.has(Facts::CUSTODY) || self.has_memory_of(&bundle) {
            return;
        }
        let strange = hop.unvouched || self.neighbours.is_strange(link);
        if let Some((number, piece)) = self.known(&bundle).map(|held| (held.number, held.handle())) {
            if self.fragments.is_arriving(piece) || !self.is_same_piece(piece, &bundle, strange, edge) {
                // It goes when its own whole is damaged, and nobody sends these bytes again; or is another's.
                return;
            }
            // It came before, by a transfer that broke.
            self.fragments.begin_arriving(token);
            if !self.debts.add(number, Debt::Piece(token, promises)) {
                self.promise(token, promises, out);
            }
            return;
        }
        let from = self.giver(link, hop);
        let mut new = self.newcomer(now, bundle, from, hop);
        new.flags.set(Flags::STRANGE, strange);
        let full = self.book.len() as u64 >= self.settings.limits.bundles || self.memory.refuses(&new);
        // What is promised cannot be refused any more: it must find room with all pieces there are, should all their
        // transfers break.
        if full
            || new.is_tired()
            || self.judge(now, &new).and_then(|()| self.may_join(&new)).is_err()
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
        let piece =
            self.keep(New { bundle: new.bundle, number: None, born, expires, from, hops, labels, reasons, flags }, out);
        self.uncount(piece);
        let giver = self.node_of(from);
        self.event(out, Event::Received { bundle: self.number(piece), link, from: giver });
        self.fragments.begin_piece(token, piece, size);
        let debt = Debt::Piece(token, promises);
        if self.settings.durable {
            self.debts.begin(&mut self.book, piece, Some(debt));
            self.put(now, piece, out);
        } else {
            self.pay(piece, Some(debt), Ok(()), out);
        }
    }

    /// Whether a piece would find room in its shares beside all other pieces, whosever they are. What is promised to a
    /// whole counts until its transfer ends; then its pieces take that room.
    fn share_keeps(&mut self, token: OfferToken, piece: &farlink_book::Held) -> bool {
        let giver = self.giver_name(piece.from);
        let (limits, own) = (&self.settings.limits, self.promises.of(token));
        let promised = |other| self.promises.of(other).filter(|_| other != token).map(farlink_book::Held::size);
        let beside = self.fragments.arriving().map_or((0, 0), |arriving| arriving.beyond(promised));
        if let Some(own) = own {
            self.shares.go(own);
        }
        let keeps = self.shares.keeps(piece, limits, || giver.clone(), beside);
        if let Some(own) = own {
            self.shares.come(own, limits, &giver);
        }
        keeps
    }
    /// A piece is durable: what is promised of its bundle grows by it.
    pub(crate) fn promise<S: Sink<Output>>(&mut self, token: OfferToken, promises: (u64, u64), out: &mut S) {
        let promised = self.fragments.arriving().and_then(|arriving| arriving.promise(token, promises));
        if let Some(bytes) = promised {
            out.push(Output::Kept { token, bytes });
        }
    }
    /// The whole is here: its pieces stay until it is durable.
    pub(crate) fn pieces_await(&mut self, token: OfferToken, whole: Handle) {
        let has = self.fragments.arriving().is_some_and(|arriving| arriving.is_known(token));
        let Some(number) = self.book.get(whole).map(|held| held.number).filter(|_| has) else { return };
        if !self.debts.add(number, Debt::Pieces(token)) {
            self.pieces_end(token, false);
        }
    }
    /// No more is arriving: the pieces stay as fragments, or go.
    pub(crate) fn pieces_end(&mut self, token: OfferToken, stay: bool) {
        if self.fragments.arriving().is_some_and(|arriving| arriving.is_known(token)) {
            self.steps.push_back(Step::Pieces(token, stay));
        }
    }
    pub(crate) fn settle_pieces<S: Sink<Output>>(
        &mut self,
        now: Instant,
        token: OfferToken,
        stay: bool,
        edge: &mut dyn Edge,
        out: &mut S,
    ) {
        let pieces = self.fragments.arriving().map(|arriving| arriving.take(token)).unwrap_or_default();
        for piece in pieces {
            if !self.ends_arriving(piece) {
                continue;
            }
            if !stay {
                self.depart(now, piece, Why::Forwarded, None, edge, out);
                continue;
            }
            self.book.hold(piece, RetentionConstraint::Route);
            let last = self.book.release(piece, RetentionConstraint::Whole);
            debug_assert!(!last, "it is to be routed");
            self.report(now, piece, Status::Received, DeleteReason::Done, edge, out);
            self.tell_kept(now, piece, None, out);
            self.steps.push_back(Step::Dispatch(piece));
        }
    }
    /// A piece is one no more: it counts to the shares of its source and its giver. Whether it was one.
    pub(crate) fn ends_arriving(&mut self, piece: Handle) -> bool {
        let ended = self.fragments.arriving().is_some_and(|arriving| arriving.end(piece));
        let limits = &self.settings.limits;
        if let Some(held) = self.book.get(piece).filter(|held| ended && self.shares.counts(held, limits)) {
            let giver = self.giver_name(held.from);
            self.shares.come(held, limits, &giver);
        }
        ended
    }
    /// What the whole was promised counts to no share twice.
    fn uncount(&mut self, piece: Handle) {
        if let Some(held) = self.book.get(piece).filter(|held| self.shares.counts(held, &self.settings.limits)) {
            self.shares.go(held);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farlink_base::LayerId;
    use farlink_base::layer::Ticket;

    #[test]
    fn only_what_follows_on_what_was_promised_is_promised() {
        let token = |ticket| OfferToken { layer: LayerId(0), ticket: Ticket(ticket) };
        let piece = |slot| Handle { stamp: 1, slot };
        let mut arriving = Arriving::new();
        arriving.add(token(1), piece(1), 100);
        arriving.add(token(1), piece(2), 50);
        arriving.add(token(2), piece(3), 7);
        assert_eq!(arriving.promise(token(3), (0, 100)), None, "it is over");
        assert_eq!(arriving.promise(token(1), (100, 150)), None, "the first bytes are not durable");
        assert_eq!(arriving.promise(token(1), (170, 180)), None, "a gap");
        assert_eq!(arriving.promise(token(1), (0, 100)), Some(150), "all that follows on it");
        assert_eq!((arriving.promise(token(1), (0, 100)), arriving.promise(token(1), (20, 20))), (None, None));
        assert_eq!(arriving.promise(token(1), (150, 170)), Some(180));
        assert_eq!(arriving.promise(token(2), (0, 7)), Some(7));
        assert_eq!((arriving.bytes(), arriving.len()), (157, 2));
        assert!(arriving.end(piece(2)) && !arriving.end(piece(2)) && !arriving.has(piece(2)));
        assert_eq!(arriving.take(token(1)), [piece(1), piece(2)]);
        assert_eq!((arriving.bytes(), arriving.len()), (107, 1));
    }
}
