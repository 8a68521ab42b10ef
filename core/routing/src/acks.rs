//! Acknowledgments of delivery that routers exchange, so that delivered bundles are not carried on. As published
//! (MaxProp 4.2, RAPID 4.2.3), both routers delete a bundle on a neighbour's acknowledgment, which lets a trusted
//! neighbour delete any bundle by its identity. The default here is the same, for neighbours at configured addresses.
//! With `hearsay` 1 such an acknowledgment deletes nothing: the bundle gets no more copies and stays while there is
//! space (`docs/decisions/0029-trust-in-delivery-notices.md`). Unless `hearsay` is 0, an acknowledgment by the
//! destination itself deletes.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use farlink_base::{NodeId, Param};
use farlink_book::{Action, Actions, Held, Identity, Node, Peer, PolicyEvent, Reporters, Why, put_number};

/// Maximum number of acknowledgments remembered; beyond it, the oldest of the largest reporter is forgotten.
pub const ACKS_MAX: usize = 4096;

/// Parameter for the effect of acknowledgments from third parties; 0 turns all acknowledgments off.
pub const HEARSAY: Param = Param {
    name: "hearsay",
    help: "Bundles that third parties acknowledge: 1 get no more copies, 2 are deleted and refused; 0 ignores all \
           acknowledgments, also the destination's.",
    unit: "",
    default: 2.0,
    min: 0.0,
    max: 2.0,
};
/// Parameter for the neighbours whose acknowledgments count.
pub const TRUST: Param = Param {
    name: "trust",
    help: "Neighbours whose acknowledgments count: 0 all, 1 those that claim a name, 2 those at a configured address, \
           3 those with a proven name.",
    unit: "",
    default: 2.0,
    min: 0.0,
    max: 3.0,
};

/// Bundles known to be delivered.
#[derive(Default, Debug)]
pub struct Acks {
    hearsay: u8,
    trust: u8,
    known: BTreeMap<u128, u64>,
    /// Bundle by order of learning.
    order: BTreeMap<u64, u128>,
    learnt: u64,
    reporters: Reporters<u128>,
}

impl Acks {
    /// Table without acknowledgments; `hearsay` and `trust` are values of [`HEARSAY`] and [`TRUST`].
    pub fn new(hearsay: f64, trust: f64) -> Self {
        Acks { hearsay: hearsay as u8, trust: trust as u8, ..Acks::default() }
    }
    /// Whether the bundle is known to be delivered.
    pub fn has(&self, held: &Held) -> bool {
        self.known.contains_key(&held.bundle.id)
    }
    /// Remembers that a bundle was delivered; `reporter` is null if this node saw the delivery itself. Returns whether
    /// the delivery is new.
    pub fn note(&mut self, id: u128, reporter: NodeId) -> bool {
        if self.known.contains_key(&id) {
            return false;
        }
        if self.known.len() >= ACKS_MAX {
            // A flood of acknowledgments must not push out those of other neighbours.
            let loser = self.reporters.loser();
            loser.into_iter().for_each(|id| self.forget(id));
        }
        self.learnt += 1;
        self.known.insert(id, self.learnt);
        self.order.insert(self.learnt, id);
        self.reporters.note(id, reporter);
        true
    }
    fn forget(&mut self, id: u128) {
        self.reporters.forget(id);
        if let Some(number) = self.known.remove(&id) {
            self.order.remove(&number);
        }
    }
    /// If an event shows the delivery of a bundle, here or at its destination, remembers the bundle and returns its
    /// identity.
    pub fn observe(&mut self, node: &Node<'_>, event: &PolicyEvent<'_>) -> Option<u128> {
        let held = match *event {
            PolicyEvent::Sent { bundle, to, .. } => {
                let (held, peer) = node.get(bundle).zip(node.peers.get(to))?;
                // A neighbour other than the destination merely has a copy.
                peer.is(held.destination()).then_some(held)?
            }
            PolicyEvent::Gone { bundle, why: Why::Delivered } => node.get(bundle)?,
            _ => return None,
        };
        self.note(held.bundle.id, NodeId::NULL);
        Some(held.bundle.id)
    }
    /// Writes the latest acknowledgments, at most `most`: first their number, then the two halves of each identity.
    pub fn write(&self, message: &mut Vec<u8>, most: usize) {
        // `order` is ascending: the latest are kept if not all fit.
        let before = self.order.len().saturating_sub(most);
        put_number(message, (self.order.len() - before) as u64);
        for id in self.order.values().skip(before) {
            put_number(message, (id >> 64) as u64);
            put_number(message, *id as u64);
        }
    }
    /// Reads the acknowledgments in a neighbour's message, bans or deletes bundles accordingly, and calls `each` for
    /// every new one.
    pub fn read(
        &mut self,
        node: &Node<'_>,
        peer: &Peer,
        numbers: &mut impl Iterator<Item = u64>,
        out: &mut Actions,
        mut each: impl FnMut(u128),
    ) -> Option<()> {
        // The message is read even if ignored, to reach the fields behind it.
        let listens = self.hearsay > 0 && peer.identity() as u8 >= self.trust;
        let (reporter, mut heard) = (Reporters::<u128>::name(peer), BTreeSet::new());
        for _ in 0..numbers.next()?.min(ACKS_MAX as u64) {
            let id = u128::from(numbers.next()?) << 64 | u128::from(numbers.next()?);
            // A repeated acknowledgment in one message must not repeat its actions.
            if !listens || !heard.insert(id) {
                continue;
            }
            let new = self.note(id, reporter);
            if new {
                each(id);
            }
            let held = node.book.find(id);
            // An acknowledgment is certain only from the destination itself, if its address is configured or its
            // identity is proven.
            let vouched = |held: &&Held| peer.identity_as(held.destination()) >= Some(Identity::Address);
            let sure = held.filter(vouched).is_some();
            if new && self.hearsay > 1 || sure {
                out.push(Action::Ban { id });
                held.into_iter().for_each(|held| out.delete(held.handle(), Why::Acked));
            }
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::RouterSite;
    use farlink_base::EndpointId;
    use farlink_book::{Origin, numbers};

    fn said(ids: &[u128]) -> Vec<u64> {
        [&[ids.len() as u64][..], &ids.iter().flat_map(|id| [(id >> 64) as u64, *id as u64]).collect::<Vec<_>>()]
            .concat()
    }
    fn read(acks: &mut Acks, site: &RouterSite, peer: &Peer, ids: &[u128]) -> Vec<Action> {
        let mut out = Actions::default();
        acks.read(&site.node(), peer, &mut said(ids).into_iter(), &mut out, |_| ()).unwrap();
        out.drain().collect()
    }

    #[test]
    fn the_latest_are_remembered_and_told() {
        let mut acks = Acks::default();
        assert!((0..5000).all(|id| acks.note(id, NodeId::NULL)) && !acks.note(4999, NodeId::NULL));
        assert_eq!((acks.known.len(), acks.order.len(), acks.reporters.len()), (ACKS_MAX, ACKS_MAX, ACKS_MAX));
        let mut message = Vec::new();
        // Both halves of identities below 2^64: the upper ones are zero.
        acks.write(&mut message, 2);
        assert_eq!(numbers(&message).collect::<Vec<_>>(), [2, 0, 4998, 0, 4999]);
    }

    #[test]
    fn what_reached_its_destination_arrived() {
        let (mut site, mut acks) = (RouterSite::new(), Acks::default());
        let (two, three, bundle) = (site.meet(2, 0), site.meet(3, 1), site.keep(3, 100));
        let id = site.held(bundle).bundle.id;
        let sent = |to| PolicyEvent::Sent { bundle, to, gave: 0, keep: true };
        // Neighbour 2 is not the destination, and an eviction is no delivery.
        assert_eq!(acks.observe(&site.node(), &sent(two)), None);
        assert_eq!(acks.observe(&site.node(), &PolicyEvent::Gone { bundle, why: Why::Overflow }), None);
        assert_eq!(acks.observe(&site.node(), &sent(three)), Some(id));
        assert_eq!(acks.observe(&site.node(), &PolicyEvent::Gone { bundle, why: Why::Delivered }), Some(id));
        assert_eq!(acks.order.len(), 1);
    }

    #[test]
    fn hearsay_deletes_only_where_configured() {
        let mut site = RouterSite::new();
        let (neighbour, nine, bundle) = (site.meet(2, 0), site.meet(9, 1), site.keep(9, 100));
        let id = site.held(bundle).bundle.id;
        let gone = [Action::Ban { id }, Action::Delete { bundle, why: Why::Acked }];
        // Effects of a third party's acknowledgment, and of the destination's own.
        for (hearsay, by_hearsay, by_nine) in [(0.0, &[][..], &[][..]), (1.0, &[], &gone), (2.0, &gone, &gone)] {
            let mut acks = Acks::new(hearsay, 2.0);
            assert_eq!(read(&mut acks, &site, site.peer(neighbour), &[id]), by_hearsay, "{hearsay}");
            assert_eq!(acks.has(site.held(bundle)), hearsay > 0.0);
            assert_eq!(read(&mut acks, &site, site.peer(nine), &[id, id, id]), by_nine, "{hearsay}");
        }
        let mut acks = Acks::new(2.0, 2.0);
        // A bundle not held here is refused when it comes.
        assert_eq!(
            read(&mut acks, &site, site.peer(neighbour), &[77, 77]),
            [Action::Ban { id: 77 }],
            "not held, and once"
        );
    }

    #[test]
    fn unauthenticated_acks_are_ignored() {
        let (mut site, mut acks) = (RouterSite::new(), Acks::new(1.0, 2.0));
        let (honest, flood) = (site.meet(2, 0), site.meet(3, 1));
        let liar = site.peers.add(Origin::Came);
        site.peers.learn(liar, EndpointId::ipn(9, 0), Identity::Claimed);
        let bundle = site.keep(9, 100);
        let id = site.held(bundle).bundle.id;
        assert_eq!(read(&mut acks, &site, site.peer(liar), &[id]), []);
        assert!(!acks.has(site.held(bundle)));
        read(&mut acks, &site, site.peer(honest), &(1_000..1_100).collect::<Vec<_>>());
        // A flood of several times the table's size.
        for round in 1..10 {
            read(&mut acks, &site, site.peer(flood), &(0..4096).map(|n| round << 32 | n).collect::<Vec<_>>());
        }
        assert_eq!(acks.known.len(), ACKS_MAX);
        assert!((1_000..1_100).all(|id| acks.known.contains_key(&id)));
    }
}
