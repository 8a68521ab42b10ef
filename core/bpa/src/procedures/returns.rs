//! Delay of the routing of bundles that come back ([`Loops`](crate::state::loops::Loops)).

use crate::agent::Agent;
use crate::context::Context;
use crate::edge::Edge;
use crate::io::Output;
use crate::state::loops::{known_by, mix};
use crate::state::waits::back_off;
use farlink_base::{BundleMeta, Event, Facts, Instant, Payload, Sink};
use farlink_book::Handle;

impl Agent {
    /// Whether only its lifetime ends a routing loop of a bundle: it has no hop count, and the policies make no copies
    /// (if they do, the node remembers which neighbours have the bundle).
    fn may_loop(&self, bundle: &BundleMeta) -> bool {
        !bundle.facts.has(Facts::HOPS) && !bundle.is_anonymous() && !self.policies.offers()
    }
    /// Notes that a bundle is forwarded, since it may come back.
    pub(super) fn note_forwarded(&mut self, now: Instant, bundle: Handle, edge: &mut dyn Edge) {
        let Some(held) = self.book.get(bundle).filter(|held| self.may_loop(&held.bundle)) else { return };
        let strange = self.is_unvouched(bundle);
        let tag = tag(&held.bundle, strange, edge);
        self.remembered.loops().forwarded(tag, strange, now);
    }
    /// Delays an arrived bundle if this node forwarded it before. `strange`: no link vouches for the arrival.
    pub(super) fn hold_back_return<S: Sink<Output>>(&mut self, cx: &mut Context<'_, S>, bundle: Handle, strange: bool) {
        let now = cx.now;
        let passes = |bundle: &BundleMeta| self.may_loop(bundle) && !self.is_for_us(bundle);
        let Some(held) = self.book.get(bundle).filter(|held| passes(&held.bundle)) else { return };
        let (number, copy) = (held.name(), strange && !self.is_unvouched(bundle));
        let loops = self.remembered.loops_met().filter(|loops| copy || loops.knows_any(strange));
        let Some(loops) = loops else { return };
        let tag = tag(&held.bundle, strange, cx.edge);
        let mut returns = loops.returned(tag, strange, now);
        if copy && returns.is_none() {
            // This vouched bundle was noted as forwarded in the other table only. So it is noted here, and the arrival
            // counts as its first return.
            loops.forwarded(tag, strange, now);
            returns = loops.returned(tag, strange, now);
        }
        let Some(returns) = returns else { return };
        self.outbound.waits.hold_back(&mut self.book, bundle, now + back_off(returns), returns, strange);
        self.event(cx.out, Event::Returned { bundle: number });
    }
}

/// Hash by which a bundle that comes back is recognised. An encrypted payload is left out, because it may be encrypted
/// differently in each round. For vouched bundles the ends of the payload suffice, because forged bundles cannot enter
/// their table; a digest of the whole payload would cost as much as the checksum.
fn tag(meta: &BundleMeta, strange: bool, edge: &mut dyn Edge) -> u64 {
    let payload = if meta.facts.has(Facts::SEALED) {
        0
    } else if strange || meta.digest != 0 || edge.guards(meta) {
        edge.digest(meta)
    } else {
        ends(&meta.payload)
    };
    known_by(meta, payload)
}
/// Hash of a payload's first and last 32 bytes, as far as they are in memory.
fn ends(payload: &Payload) -> u64 {
    let mut bytes = [0; 64];
    let (first, last) = bytes.split_at_mut(32);
    payload.copy_to(0, first);
    payload.copy_to(payload.len().saturating_sub(32), last);
    bytes.as_chunks().0.iter().fold(0, |sum, word| mix(sum, u64::from_le_bytes(*word)))
}
