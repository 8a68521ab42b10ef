//! Links with an MTU: bundles that leave over them are cut so that each encoded fragment fits (RFC 9171 5.8). Bundles
//! that must not be fragmented take another route; without another route, that is reported once.

use crate::agent::Agent;
use crate::context::Context;
use crate::edge::Edge;
use crate::io::Output;
use crate::neighbours::link::Link;
use alloc::vec::Vec;
use core::ops::Range;
use farlink_base::{Instant, LinkId, LinkTerms, PeerId, Refusal, Sink};
use farlink_book::{CopyOffer, Handle, Held, RouteDecision};

/// Most bytes that a hop adds to a bundle beside this node's name: age, hop count, labels, heads.
const HOP_MAX: u64 = 256;
/// Most bytes that a hop adds by giving blocks another CRC ([`farlink_base::HopCrc`]): 5 for each of 128 extension
/// blocks and the payload.
const CRC_MAX: u64 = 5 * 129;

/// Part of a bundle that fits a link.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Fitting {
    /// Range of the bundle's payload; `None`: all of it.
    pub range: Option<Range<u64>>,
    /// Encoded length, including the fields of this hop.
    pub size: u64,
}

impl Agent {
    /// Next part of a bundle that fits a link with the MTU `most`; `None` if none fits. Copies are not fragmented.
    pub(super) fn fitting(
        &self,
        now: Instant,
        held: &Held,
        want: &CopyOffer,
        (link, most): (LinkId, u64),
        edge: &dyn Edge,
    ) -> Option<Fitting> {
        let meta = &held.bundle;
        let hop = self.outgoing(now, held, link, want.labels.map(|split| split.theirs));
        let size_of = |range: &Option<Range<u64>>| edge.size(meta, &hop, range.clone());
        let range = if want.keep { None } else { self.outbound.partial_sends.next(held.handle(), u64::MAX) };
        let size = size_of(&range);
        if size <= most {
            return Some(Fitting { range, size });
        }
        // The receiver of a hello does not reassemble fragments of it.
        if want.keep || !meta.may_fragment() || self.is_hello(held) {
            return None;
        }
        let Range { start, end } = range.unwrap_or(0..meta.payload.len());
        let last = end.checked_sub(1).filter(|last| *last > start)?;
        let around = size_of(&Some(start..last)).saturating_sub(last - start);
        // A fragment whose payload is less than a quarter of its overhead would waste the link.
        let payload = most.checked_sub(around).filter(|payload| payload.saturating_mul(4) >= around && *payload > 0)?;
        // The last fragment carries the blocks behind the payload (RFC 5050 5.8). If they exceed the MTU even with only
        // the last byte of the payload, no fragment leaves at all.
        if size_of(&Some(last..end)) > most {
            return None;
        }
        let range = Some(start..last.min(start + payload));
        let size = size_of(&range);
        (size <= most).then_some(Fitting { range, size })
    }

    /// Most bytes that forwarding over a link adds to a bundle here.
    fn hop_bytes(&self, link: &Link) -> u64 {
        let crc = if link.terms == LinkTerms::default() { 0 } else { CRC_MAX };
        HOP_MAX + crc + self.node_id().name_bytes()
    }
    /// Whether a bundle, whole or in fragments, certainly fits a link's MTU.
    pub(super) fn surely_fits(&self, held: &Held, link: LinkId) -> bool {
        let Some(link) = self.neighbours.link(link) else { return true };
        let (Some(most), added) = (link.largest(), self.hop_bytes(link)) else { return true };
        let pieces = held.bundle.may_fragment() && 2 * (held.bundle.overhead() + added) <= most;
        pieces || held.size() + added <= most
    }
    /// Links whose MTU is too small for any part of the bundle.
    pub(super) fn too_narrow(&self, now: Instant, bundle: Handle, edge: &dyn Edge) -> Vec<LinkId> {
        let Some(held) = self.book.get(bundle).filter(|_| self.neighbours.has_narrow()) else { return Vec::new() };
        let want = CopyOffer::give(held, 0);
        let takes = |link: &Link, most: u64| {
            held.size() + self.hop_bytes(link) <= most
                || self.fitting(now, held, &want, (link.id, most), edge).is_some()
        };
        let narrow = self.neighbours.links().filter(|link| link.largest().is_some_and(|most| !takes(link, most)));
        narrow.map(|link| link.id).collect()
    }
    /// Neighbours that have no links but these.
    pub(super) fn only_over(&self, narrow: &[LinkId]) -> Vec<PeerId> {
        let only = |id: &PeerId| {
            let peer = self.neighbours.peers().get(*id);
            peer.is_some_and(|peer| peer.links.iter().all(|link| narrow.contains(link)))
        };
        narrow.iter().map(|link| self.neighbours.peer_of(*link)).filter(only).collect()
    }
    /// Reports, once for each bundle, that the MTU of its only route is too small.
    pub(super) fn say_too_narrow<S: Sink<Output>>(&mut self, bundle: Handle, link: LinkId, out: &mut S) {
        if !self.outbound.waits.note_unfit(&mut self.book, bundle) {
            return;
        }
        let Some(meta) = self.book.get(bundle).map(|held| held.bundle.clone()) else { return };
        self.event_refused(Some(link), Some(&meta), Refusal::TooLarge, out);
    }
    /// Takes a bundle that does not fit the MTU out of its link's queue and routes it again. Returns whether there was
    /// such a bundle.
    pub(super) fn turn_back<S: Sink<Output>>(
        &mut self,
        cx: &mut Context<'_, S>,
        link: LinkId,
        (look, most): (usize, u64),
    ) -> bool {
        let unfit =
            |held: &Held, copy: bool| self.fitting(cx.now, held, &wish(held, copy), (link, most), cx.edge).is_none();
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

/// Form in which a bundle leaves from a queue: as a copy, or itself with its labels.
pub(crate) fn wish(held: &Held, copy: bool) -> CopyOffer {
    if copy { CopyOffer::copy(held, 0) } else { CopyOffer::give(held, 0) }
}

/// First link that a route decision chose, if it chose only links with too small an MTU (`narrow`).
pub(crate) fn chosen(way: &RouteDecision, narrow: &[LinkId]) -> Option<LinkId> {
    match way {
        RouteDecision::One(leg) => Some(leg.link).filter(|link| narrow.contains(link)),
        RouteDecision::All(legs) if legs.iter().all(|leg| narrow.contains(&leg.link)) => {
            legs.first().map(|leg| leg.link)
        }
        _ => None,
    }
}
