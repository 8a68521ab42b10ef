//! Links that take no bundle longer than so much: what leaves over them is cut to fit (RFC 9171 5.8),
//! whole encoded lengths counted. What must not be cut takes another way; where there is none, that is
//! said once.

use crate::agent::Agent;
use crate::context::Context;
use crate::edge::Edge;
use crate::io::Output;
use alloc::vec::Vec;
use core::ops::Range;
use farlink_base::{Instant, LinkId, PeerId, Refusal, Sink};
use farlink_book::{CopyOffer, Handle, Held, RouteDecision};

/// Bytes a hop adds to a bundle beside the name of this node, at most: its age, its hops, its labels, heads.
const HOP_MAX: u64 = 256;

/// What leaves of a bundle, as far as its length goes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Fitting {
    /// Which bytes of its payload; `None`: all.
    pub range: Option<Range<u64>>,
    /// Encoded length, with what this hop adds.
    pub size: u64,
}

impl Agent {
    /// What of a bundle leaves next over a link that takes so many bytes; `None`: nothing of it fits. A
    /// copy is not cut.
    pub(super) fn fitting(
        &self,
        now: Instant,
        held: &Held,
        want: &CopyOffer,
        most: u64,
        edge: &dyn Edge,
    ) -> Option<Fitting> {
        let meta = &held.bundle;
        let hop = self.outgoing(now, held, want.labels.map(|split| split.theirs));
        let size_of = |range: &Option<Range<u64>>| edge.size(meta, &hop, range.clone());
        let range = if want.keep { None } else { self.outbound.partial_sends.next(held.handle(), u64::MAX) };
        let size = size_of(&range);
        if size <= most {
            return Some(Fitting { range, size });
        }
        // A hello is nobody's bundle but its neighbour's, who joins no pieces of it.
        if want.keep || !meta.may_fragment() || self.is_hello(held) {
            return None;
        }
        let Range { start, end } = range.unwrap_or(0..meta.payload.len());
        let last = end.checked_sub(1).filter(|last| *last > start)?;
        let around = size_of(&Some(start..last)).saturating_sub(last - start);
        let payload = most.checked_sub(around).filter(|payload| payload.saturating_mul(4) >= around && *payload > 0)?;
        // The last piece has what follows a payload (RFC 5050 5.8): where that is what exceeds the link, it leaves with
        // the last byte, and where it does not even then, no piece leaves at all.
        if size_of(&Some(last..end)) > most {
            return None;
        }
        let range = Some(start..last.min(start + payload));
        let size = size_of(&range);
        (size <= most).then_some(Fitting { range, size })
    }

    /// Bytes that leaving here adds to a bundle, at most.
    fn hop_bytes(&self) -> u64 {
        HOP_MAX + self.node_id().name_bytes()
    }
    /// Whether a bundle surely fits a link, or pieces of it do.
    pub(super) fn surely_fits(&self, held: &Held, link: LinkId) -> bool {
        let Some(most) = self.neighbours.link(link).and_then(|link| link.largest()) else { return true };
        let pieces = held.bundle.may_fragment() && 2 * (held.bundle.overhead() + self.hop_bytes()) <= most;
        pieces || held.size() + self.hop_bytes() <= most
    }
    /// Links that take nothing of a bundle.
    pub(super) fn too_narrow(&self, now: Instant, bundle: Handle, edge: &dyn Edge) -> Vec<LinkId> {
        let Some(held) = self.book.get(bundle).filter(|_| self.neighbours.has_narrow()) else { return Vec::new() };
        let want = CopyOffer::give(held, 0);
        let takes =
            |most: u64| held.size() + self.hop_bytes() <= most || self.fitting(now, held, &want, most, edge).is_some();
        let narrow = self.neighbours.links().filter(|link| link.largest().is_some_and(|most| !takes(most)));
        narrow.map(|link| link.id).collect()
    }
    /// Neighbours to whom only these links lead.
    pub(super) fn only_over(&self, narrow: &[LinkId]) -> Vec<PeerId> {
        let only = |id: &PeerId| {
            let peer = self.neighbours.peers().get(*id);
            peer.is_some_and(|peer| peer.links.iter().all(|link| narrow.contains(link)))
        };
        narrow.iter().map(|link| self.neighbours.peer_of(*link)).filter(only).collect()
    }
    /// A bundle has no way but over a link that takes nothing of it: said once.
    pub(super) fn say_too_narrow<S: Sink<Output>>(&mut self, bundle: Handle, link: LinkId, out: &mut S) {
        if !self.outbound.waits.note_unfit(&mut self.book, bundle) {
            return;
        }
        let Some(meta) = self.book.get(bundle).map(|held| held.bundle.clone()) else { return };
        self.event_refused(Some(link), Some(&meta), Refusal::TooLarge, out);
    }
    /// Takes a bundle that does not fit out of the queue of its link: it is routed anew. Whether there was
    /// one.
    pub(super) fn turn_back<S: Sink<Output>>(
        &mut self,
        cx: &mut Context<'_, S>,
        link: LinkId,
        (look, most): (usize, u64),
    ) -> bool {
        let unfit = |held: &Held, copy: bool| self.fitting(cx.now, held, &wish(held, copy), most, cx.edge).is_none();
        let Some(leg) = self.outbound.queues.first(link, &self.book, look, unfit) else { return false };
        let Some(taken) = self.outbound.queues.take(&mut self.book, leg) else { return false };
        if let Some(timer) = taken.timer {
            self.work.cancel(timer);
        }
        let bundle = taken.bundle;
        if self.book.get(bundle).is_some_and(|held| self.is_hello(held)) {
            self.depart(cx, bundle, farlink_book::Why::Forwarded, None);
        } else {
            self.on_loose(cx, taken);
        }
        true
    }
}

/// How a bundle leaves from a queue.
pub(crate) fn wish(held: &Held, copy: bool) -> CopyOffer {
    if copy { CopyOffer::copy(held, 0) } else { CopyOffer::give(held, 0) }
}

/// A link too narrow that a router chose, where it chose no other.
pub(crate) fn chosen(way: &RouteDecision, narrow: &[LinkId]) -> Option<LinkId> {
    match way {
        RouteDecision::One(leg) => Some(leg.link).filter(|link| narrow.contains(link)),
        RouteDecision::All(legs) if legs.iter().all(|leg| narrow.contains(&leg.link)) => {
            legs.first().map(|leg| leg.link)
        }
        _ => None,
    }
}
