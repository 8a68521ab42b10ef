//! What has arrived, as routers tell each other so that nobody carries it on. Both that do so (MaxProp 4.2, RAPID
//! 4.2.3) delete what a neighbour says arrived, and with it whoever is listened to deletes any bundle by its identity.
//! So it is here by default, at the word of neighbours at configured addresses. With `hearsay` 1 it deletes nothing: what is
//! said to have arrived gets no more copies, and stays as long as there is room
//! (`docs/decisions/0029-what-vouches-for-an-arrival.md`). The destination's own word always deletes.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use farlink_base::{NodeId, Param};
use farlink_book::{Action, Actions, Held, Identity, Node, Peer, PolicyEvent, Reporters, Why, put_number};

/// Acknowledgments remembered; beyond, of whoever told most the oldest is forgotten.
pub const ACKS_MAX: usize = 4096;

/// The parameter that says what acknowledgments of others do.
pub const HEARSAY: Param = Param {
    name: "hearsay",
    help: "What others say arrived: 0 is not listened to, 1 gets no more copies, 2 is deleted and refused.",
    unit: "",
    default: 2.0,
    min: 0.0,
    max: 2.0,
};
/// The parameter that says whose acknowledgments count.
pub const TRUST: Param = Param {
    name: "trust",
    help: "Whose word of an arrival counts: 0 anybody's, 1 of who says a name, 2 of who is at a configured address, \
           3 of who proved its name.",
    unit: "",
    default: 2.0,
    min: 0.0,
    max: 3.0,
};

/// Bundles that arrived.
#[derive(Default, Debug)]
pub struct Acks {
    hearsay: u8,
    trust: u8,
    known: BTreeMap<u128, u64>,
    /// In order of learning.
    order: BTreeMap<u64, u128>,
    learnt: u64,
    tellers: Reporters<u128>,
}

impl Acks {
    /// None; values of [`HEARSAY`] and [`TRUST`].
    pub fn new(hearsay: f64, trust: f64) -> Self {
        Acks { hearsay: hearsay as u8, trust: trust as u8, ..Acks::default() }
    }
    /// Whether it arrived, as far as is known.
    pub fn has(&self, held: &Held) -> bool {
        self.known.contains_key(&held.bundle.id)
    }
    /// Remembers that a bundle arrived, as somebody told (null: this node saw it); whether that is new.
    pub fn note(&mut self, id: u128, teller: NodeId) -> bool {
        if self.known.contains_key(&id) {
            return false;
        }
        if self.known.len() >= ACKS_MAX {
            let loser = self.tellers.loser();
            loser.into_iter().for_each(|id| self.forget(id));
        }
        self.learnt += 1;
        self.known.insert(id, self.learnt);
        self.order.insert(self.learnt, id);
        self.tellers.note(id, teller);
        true
    }
    fn forget(&mut self, id: u128) {
        self.tellers.forget(id);
        if let Some(number) = self.known.remove(&id) {
            self.order.remove(&number);
        }
    }
    /// A bundle that news say arrived, here or with its destination; it is remembered.
    pub fn hear(&mut self, node: &Node<'_>, news: &PolicyEvent<'_>) -> Option<u128> {
        let held = match *news {
            PolicyEvent::Sent { bundle, to, .. } => {
                let (held, peer) = node.get(bundle).zip(node.peers.get(to))?;
                peer.is(held.destination()).then_some(held)?
            }
            PolicyEvent::Gone { bundle, why: Why::Delivered } => node.get(bundle)?,
            _ => return None,
        };
        self.note(held.bundle.id, NodeId::NULL);
        Some(held.bundle.id)
    }
    /// The latest, as many as there may be: their number, and both halves of each.
    pub fn write(&self, message: &mut Vec<u8>, most: usize) {
        let before = self.order.len().saturating_sub(most);
        put_number(message, (self.order.len() - before) as u64);
        for id in self.order.values().skip(before) {
            put_number(message, (id >> 64) as u64);
            put_number(message, *id as u64);
        }
    }
    /// Reads those of a neighbour; `each` is told of what is new.
    pub fn read(
        &mut self,
        node: &Node<'_>,
        peer: &Peer,
        numbers: &mut impl Iterator<Item = u64>,
        out: &mut Actions,
        mut each: impl FnMut(u128),
    ) -> Option<()> {
        let listens = self.hearsay > 0 && peer.identity() as u8 >= self.trust;
        let (teller, mut heard) = (Reporters::<u128>::name(peer), BTreeSet::new());
        for _ in 0..numbers.next()?.min(ACKS_MAX as u64) {
            let id = u128::from(numbers.next()?) << 64 | u128::from(numbers.next()?);
            // What a message says twice is heard once.
            if !listens || !heard.insert(id) {
                continue;
            }
            let new = self.note(id, teller);
            if new {
                each(id);
            }
            let held = node.book.find(id);
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
    use crate::testing::Site;
    use farlink_base::EndpointId;
    use farlink_book::{Origin, numbers};

    fn said(ids: &[u128]) -> Vec<u64> {
        [&[ids.len() as u64][..], &ids.iter().flat_map(|id| [(id >> 64) as u64, *id as u64]).collect::<Vec<_>>()]
            .concat()
    }
    fn read(acks: &mut Acks, site: &Site, peer: &Peer, ids: &[u128]) -> Vec<Action> {
        let mut out = Actions::default();
        acks.read(&site.node(), peer, &mut said(ids).into_iter(), &mut out, |_| ()).unwrap();
        out.drain().collect()
    }

    #[test]
    fn the_latest_are_remembered_and_told() {
        let mut acks = Acks::default();
        assert!((0..5000).all(|id| acks.note(id, NodeId::NULL)) && !acks.note(4999, NodeId::NULL));
        assert_eq!((acks.known.len(), acks.order.len(), acks.tellers.len()), (ACKS_MAX, ACKS_MAX, ACKS_MAX));
        let mut message = Vec::new();
        acks.write(&mut message, 2);
        assert_eq!(numbers(&message).collect::<Vec<_>>(), [2, 0, 4998, 0, 4999]);
    }

    #[test]
    fn what_reached_its_destination_arrived() {
        let (mut site, mut acks) = (Site::new(), Acks::default());
        let (two, three, bundle) = (site.meet(2, 0), site.meet(3, 1), site.keep(3, 100));
        let id = site.held(bundle).bundle.id;
        let sent = |to| PolicyEvent::Sent { bundle, to, gave: 0, keep: true };
        assert_eq!(acks.hear(&site.node(), &sent(two)), None);
        assert_eq!(acks.hear(&site.node(), &PolicyEvent::Gone { bundle, why: Why::Overflow }), None);
        assert_eq!(acks.hear(&site.node(), &sent(three)), Some(id));
        assert_eq!(acks.hear(&site.node(), &PolicyEvent::Gone { bundle, why: Why::Delivered }), Some(id));
        assert_eq!(acks.order.len(), 1);
    }

    #[test]
    fn hearsay_deletes_only_where_configured() {
        let mut site = Site::new();
        let (neighbour, nine, bundle) = (site.meet(2, 0), site.meet(9, 1), site.keep(9, 100));
        let id = site.held(bundle).bundle.id;
        let gone = [Action::Ban { id }, Action::Delete { bundle, why: Why::Acked }];
        for (hearsay, by_hearsay, by_nine) in [(0.0, &[][..], &[][..]), (1.0, &[], &gone), (2.0, &gone, &gone)] {
            let mut acks = Acks::new(hearsay, 2.0);
            assert_eq!(read(&mut acks, &site, site.peer(neighbour), &[id]), by_hearsay, "{hearsay}");
            assert_eq!(acks.has(site.held(bundle)), hearsay > 0.0);
            assert_eq!(read(&mut acks, &site, site.peer(nine), &[id, id, id]), by_nine, "{hearsay}");
        }
        let mut acks = Acks::new(2.0, 2.0);
        assert_eq!(
            read(&mut acks, &site, site.peer(neighbour), &[77, 77]),
            [Action::Ban { id: 77 }],
            "not held, and once"
        );
    }

    #[test]
    fn unauthenticated_acks_are_ignored() {
        let (mut site, mut acks) = (Site::new(), Acks::new(1.0, 2.0));
        let (honest, flood) = (site.meet(2, 0), site.meet(3, 1));
        let liar = site.peers.add(Origin::Came);
        site.peers.learn(liar, EndpointId::ipn(9, 0), Identity::Claimed);
        let bundle = site.keep(9, 100);
        let id = site.held(bundle).bundle.id;
        assert_eq!(read(&mut acks, &site, site.peer(liar), &[id]), []);
        assert!(!acks.has(site.held(bundle)));
        read(&mut acks, &site, site.peer(honest), &(1_000..1_100).collect::<Vec<_>>());
        for round in 1..10 {
            read(&mut acks, &site, site.peer(flood), &(0..4096).map(|n| round << 32 | n).collect::<Vec<_>>());
        }
        assert_eq!(acks.known.len(), ACKS_MAX);
        assert!((1_000..1_100).all(|id| acks.known.contains_key(&id)));
    }
}
