//! First contact: a single copy moves to the first neighbour met, until that is the destination.
//!
//! S. Jain, K. Fall, R. Patra: "Routing in a Delay Tolerant Network", SIGCOMM 2004. As in The ONE, a bundle is not
//! given back to a node that forwarded it: among several nodes in range it would circulate until its hop limit. So
//! nodes exchange the identities they forwarded. A bundle that comes back nevertheless is accepted, because some layers
//! cannot report a refusal to the sender; it then waits for a neighbour met later. A bundle for a group is never given
//! away and stays at its source. Fragments that other nodes cut differently count as new bundles and may return to a
//! node.

use crate::router::Router;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use farlink_base::{Instant, PeerId};
use farlink_book::{
    Action, Actions, CopyOffer, DeliveryForecast, EventMask, Handle, Held, Node, Peer, PolicyEvent, Why, numbers,
    put_number,
};

/// Maximum number of forwarded bundles remembered; the oldest is forgotten first.
const GAVE_MAX: usize = 4096;
/// Maximum number of forwarded bundles reported to a neighbour when it comes up.
const TOLD_MAX: usize = 256;

/// A neighbour that is up.
#[derive(Default, Debug)]
struct UpNeighbour {
    /// Number of neighbours that had come up so far, this one included.
    since: u32,
    /// Bundles that it reported as forwarded.
    gave: BTreeSet<u128>,
}

/// Router that passes the only copy on.
#[derive(Default, Debug)]
pub struct FirstContact {
    /// Forwarded bundles with the ends of their lifetimes, oldest first.
    gave: VecDeque<(u128, Instant)>,
    known: BTreeSet<u128>,
    /// Number of neighbours that came up so far.
    encounters: u32,
    up: BTreeMap<PeerId, UpNeighbour>,
    /// Bundle that was sent last, and the neighbour that took it.
    taker: Option<(Handle, PeerId)>,
}

impl FirstContact {
    /// Remembers that a bundle was forwarded, and reports it to all neighbours that are up except the one that took it.
    fn give(&mut self, held: &Held, out: &mut Actions) {
        let id = held.bundle.id;
        // Anonymous bundles cannot be recognised when they come back.
        if held.bundle.is_anonymous() || !self.known.insert(id) {
            return;
        }
        self.gave.push_back((id, held.expires));
        if self.gave.len() > GAVE_MAX {
            self.gave.pop_front().map(|(oldest, _)| self.known.remove(&oldest));
        }
        // The neighbour that received the bundle knows that this node forwarded it.
        let taker = self.taker.filter(|(bundle, _)| *bundle == held.handle()).map(|(_, peer)| peer);
        let others = self.up.keys().filter(|peer| Some(**peer) != taker);
        others.for_each(|peer| out.tell(*peer, message([id].into_iter())));
    }
    fn meet(&mut self, now: Instant, peer: PeerId, out: &mut Actions) {
        self.encounters = self.encounters.saturating_add(1);
        self.up.insert(peer, UpNeighbour { since: self.encounters, gave: BTreeSet::new() });
        // Expired bundles cannot come back, so they need no report.
        let lives = self.gave.iter().rev().filter(|(_, expires)| *expires > now);
        let told = message(lives.map(|(id, _)| *id).take(TOLD_MAX));
        if !told.is_empty() {
            out.tell(peer, told);
        }
    }
    fn read_message(&mut self, from: PeerId, bytes: &[u8], out: &mut Actions) {
        let Some(met) = self.up.get_mut(&from) else { return };
        let mut numbers = numbers(bytes);
        while let (Some(high), Some(low)) = (numbers.next(), numbers.next()) {
            // A neighbour that reports without end must not fill the memory.
            if met.gave.len() < GAVE_MAX {
                met.gave.insert(u128::from(high) << 64 | u128::from(low));
            }
        }
        // Bundles that it forwarded are no longer offered to it.
        out.push(Action::Reask(from));
    }
}

/// Whether the bundle is in the set, or is a fragment of a bundle in it.
fn is_of(given: &BTreeSet<u128>, held: &Held) -> bool {
    given.contains(&held.bundle.id) || given.contains(&held.bundle.original_id())
}

/// Message with both halves of each identity.
fn message(ids: impl Iterator<Item = u128>) -> Vec<u8> {
    let mut message = Vec::new();
    for id in ids {
        put_number(&mut message, (id >> 64) as u64);
        put_number(&mut message, id as u64);
    }
    message
}

impl DeliveryForecast for FirstContact {}

impl Router for FirstContact {
    fn hears(&self) -> EventMask {
        EventMask::PEERS.and(EventMask::KEPT).and(EventMask::OUTCOMES).and(EventMask::GONE)
    }
    fn copies(&self) -> bool {
        true
    }
    fn asks_summaries(&self) -> bool {
        true
    }
    fn on(&mut self, node: &Node<'_>, event: &PolicyEvent<'_>, out: &mut Actions) {
        match *event {
            PolicyEvent::Up { peer } => self.meet(node.now, peer, out),
            PolicyEvent::Down { peer } => drop(self.up.remove(&peer)),
            PolicyEvent::Heard { from, bytes } => self.read_message(from, bytes, out),
            // The label counts the neighbours that had come up when the bundle came back; it does not travel.
            PolicyEvent::Kept { bundle, .. } => {
                // A label from the wire means nothing here.
                let back = node.get(bundle).is_some_and(|held| is_of(&self.known, held));
                out.label(bundle, if back { self.encounters } else { 0 });
            }
            // `Gone` follows and does not name the neighbour.
            PolicyEvent::Sent { bundle, to, .. } => self.taker = Some((bundle, to)),
            PolicyEvent::Gone { bundle, why: Why::Forwarded } => {
                if let Some(held) = node.get(bundle) {
                    self.give(held, out);
                }
            }
            _ => {}
        }
    }
    fn wants(&self, node: &Node<'_>, peer: &Peer, held: &Held) -> Option<CopyOffer> {
        let (met, back) = (self.up.get(&peer.id)?, node.label(held));
        // Only neighbours met after its return get a bundle that came back.
        let new = met.since > back && !is_of(&met.gave, held);
        new.then(|| CopyOffer::give(held, held.number).with(node, back, 0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::RouterSite;
    use farlink_base::{FragmentInfo, Rare};
    use farlink_book::LabelSplit;

    fn on(router: &mut FirstContact, site: &mut RouterSite, event: PolicyEvent<'_>) -> Vec<Action> {
        let mut out = Actions::default();
        router.on(&site.node(), &event, &mut out);
        let all: Vec<Action> = out.drain().collect();
        for action in &all {
            if let Action::Label { bundle, label } = *action {
                site.held_mut(bundle).labels[0] = label;
            }
        }
        all.into_iter().filter(|action| !matches!(action, Action::Label { .. })).collect()
    }
    fn meet(router: &mut FirstContact, site: &mut RouterSite, number: u64, link: u32) -> (PeerId, Vec<Action>) {
        let peer = site.meet(number, link);
        let said = on(router, site, PolicyEvent::Up { peer });
        (peer, said)
    }
    fn wants(router: &FirstContact, site: &RouterSite, peer: PeerId, bundle: Handle) -> Option<CopyOffer> {
        router.wants(&site.node(), site.peer(peer), site.held(bundle))
    }

    #[test]
    fn neighbours_get_bundles_oldest_first() {
        let (mut site, mut router) = (RouterSite::new(), FirstContact::default());
        let (older, newer) = (site.keep(9, 100), site.keep(9, 100));
        let (peer, _) = meet(&mut router, &mut site, 2, 0);
        let want = |bundle| wants(&router, &site, peer, bundle).unwrap();
        assert!(!want(older).keep && want(older).rank < want(newer).rank);
    }

    #[test]
    fn forwarded_identities_reach_all_neighbours() {
        let (mut site, mut router) = (RouterSite::new(), FirstContact::default());
        let bundles = [(); 3].map(|()| site.keep(9, 100));
        let ids = bundles.map(|bundle| site.held(bundle).bundle.id);
        let [(taker, _), (there, said)] =
            [(2, 0), (3, 1)].map(|(number, link)| meet(&mut router, &mut site, number, link));
        assert_eq!(said, [], "nothing yet");
        let told = |to, ids: &[u128]| Action::Tell { to, bytes: message(ids.iter().copied()) };
        let sent = |bundle| PolicyEvent::Sent { bundle, to: taker, gave: 0, keep: false };
        on(&mut router, &mut site, sent(bundles[0]));
        let gone = |bundle, why| PolicyEvent::Gone { bundle, why };
        assert_eq!(on(&mut router, &mut site, gone(bundles[0], Why::Forwarded)), [told(there, &ids[..1])]);
        assert_eq!(on(&mut router, &mut site, gone(bundles[1], Why::Overflow)), [], "a lost bundle may come again");
        site.held_mut(bundles[2]).expires = Instant(5);
        on(&mut router, &mut site, sent(bundles[2]));
        on(&mut router, &mut site, gone(bundles[2], Why::Forwarded));
        let (four, said) = meet(&mut router, &mut site, 4, 2);
        assert_eq!(said, [told(four, &[ids[2], ids[0]])], "the newest first");
        site.now = Instant(5);
        let (five, said) = meet(&mut router, &mut site, 5, 3);
        assert_eq!(said, [told(five, &ids[..1])], "unexpired bundles only");
    }

    #[test]
    fn earlier_holder_is_not_offered_again() {
        let (mut site, mut router) = (RouterSite::new(), FirstContact::default());
        let (bundle, other) = (site.keep(9, 100), site.keep(9, 100));
        let (peer, _) = meet(&mut router, &mut site, 2, 0);
        let bytes = message([site.held(bundle).bundle.id].into_iter());
        assert_eq!(on(&mut router, &mut site, PolicyEvent::Heard { from: peer, bytes: &bytes }), [Action::Reask(peer)]);
        let given = |router: &FirstContact, site: &RouterSite| {
            [bundle, other].map(|it| wants(router, site, peer, it).is_some())
        };
        assert_eq!(given(&router, &site), [false, true]);
        // A neighbour's report is forgotten when it leaves.
        on(&mut router, &mut site, PolicyEvent::Down { peer });
        assert_eq!(given(&router, &site), [false, false], "the neighbour is down");
        on(&mut router, &mut site, PolicyEvent::Up { peer });
        assert_eq!(given(&router, &site), [true, true], "until it reports the bundle again");
    }

    #[test]
    fn fragment_of_forwarded_bundle_waits() {
        let (mut site, mut router) = (RouterSite::new(), FirstContact::default());
        let piece = site.keep_with(9, 100, |bundle, _| {
            let fragment = Some(FragmentInfo { offset: 0, total: 200 });
            bundle.rare = Rare { fragment, ..Rare::default() }.boxed();
        });
        let whole = site.held(piece).bundle.original_id();
        let (peer, _) = meet(&mut router, &mut site, 2, 0);
        assert!(wants(&router, &site, peer, piece).is_some());
        on(&mut router, &mut site, PolicyEvent::Heard { from: peer, bytes: &message([whole].into_iter()) });
        assert_eq!(wants(&router, &site, peer, piece), None);
        let (other, _) = meet(&mut router, &mut site, 3, 1);
        // As if this node had forwarded the whole bundle.
        router.known.insert(whole);
        on(&mut router, &mut site, PolicyEvent::Kept { bundle: piece, wire: None });
        assert_eq!(wants(&router, &site, other, piece), None);
    }

    #[test]
    fn returned_bundle_waits_for_later_neighbour() {
        let (mut site, mut router) = (RouterSite::new(), FirstContact::default());
        let bundle = site.keep(9, 100);
        let (there, _) = meet(&mut router, &mut site, 2, 0);
        on(&mut router, &mut site, PolicyEvent::Kept { bundle, wire: Some(u32::MAX) });
        assert!(wants(&router, &site, there, bundle).is_some(), "a label from the wire is ignored");
        on(&mut router, &mut site, PolicyEvent::Gone { bundle, why: Why::Forwarded });
        on(&mut router, &mut site, PolicyEvent::Kept { bundle, wire: None });
        assert_eq!(wants(&router, &site, there, bundle), None);
        let (new, _) = meet(&mut router, &mut site, 3, 1);
        let want = wants(&router, &site, new, bundle).unwrap();
        assert_eq!(
            (want.keep, want.labels[0]),
            (false, LabelSplit { ours: 1, theirs: 0 }),
            "after a failure it still waits"
        );
    }

    #[test]
    fn memory_and_messages_are_bounded() {
        let (mut site, mut router) = (RouterSite::new(), FirstContact::default());
        let (liar, _) = meet(&mut router, &mut site, 2, 0);
        for _ in 0..GAVE_MAX + 10 {
            let bundle = site.keep(9, 1);
            on(&mut router, &mut site, PolicyEvent::Gone { bundle, why: Why::Forwarded });
        }
        assert_eq!((router.gave.len(), router.known.len()), (GAVE_MAX, GAVE_MAX));
        // The liar reports twice as many identities as are remembered.
        let bytes = message(0..2 * GAVE_MAX as u128);
        on(&mut router, &mut site, PolicyEvent::Heard { from: liar, bytes: &bytes });
        assert_eq!(router.up[&liar].gave.len(), GAVE_MAX);
        let (_, said) = meet(&mut router, &mut site, 3, 1);
        let [Action::Tell { bytes, .. }] = &said[..] else { panic!("{said:?}") };
        assert_eq!(bytes.len(), 16 * TOLD_MAX);
        let anonymous = site.keep_with(9, 1, |bundle, _| bundle.source = farlink_base::EndpointId::Null);
        assert_eq!(on(&mut router, &mut site, PolicyEvent::Gone { bundle: anonymous, why: Why::Forwarded }), []);
    }
}
