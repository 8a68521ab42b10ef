//! What has arrived, as routers tell each other so that nobody carries it on. Whoever can speak to
//! such a router can purge a bundle by its identity: for networks whose neighbours are trusted.

use alloc::collections::{BTreeSet, VecDeque};
use alloc::vec::Vec;
use farlink_book::{News, Node, Order, Orders, Why, put_number};

/// Acknowledgments remembered, the latest.
pub const ACKS_MAX: usize = 4096;

/// Bundles that arrived.
#[derive(Default)]
pub struct Acks {
    known: BTreeSet<u128>,
    order: VecDeque<u128>,
}

impl Acks {
    /// Remembers that a bundle arrived; whether that is new.
    pub fn note(&mut self, id: u128) -> bool {
        let new = self.known.insert(id);
        if new {
            self.order.push_back(id);
            if self.order.len() > ACKS_MAX {
                self.order.pop_front().map(|oldest| self.known.remove(&oldest));
            }
        }
        new
    }
    /// A bundle that news say arrived, here or with its destination; it is remembered.
    pub fn hear(&mut self, node: &Node<'_>, news: &News<'_>) -> Option<u128> {
        let held = match *news {
            News::Sent { bundle, to, .. } => {
                let (held, peer) = node.get(bundle).zip(node.peers.get(to))?;
                peer.is(held.destination()).then_some(held)?
            }
            News::Gone { bundle, why: Why::Delivered } => node.get(bundle)?,
            _ => return None,
        };
        self.note(held.bundle.id);
        Some(held.bundle.id)
    }
    /// The latest, as many as there may be: their number, and both halves of each.
    pub fn write(&self, message: &mut Vec<u8>, most: usize) {
        let before = self.order.len().saturating_sub(most);
        put_number(message, (self.order.len() - before) as u64);
        for id in self.order.iter().skip(before) {
            put_number(message, (id >> 64) as u64);
            put_number(message, *id as u64);
        }
    }
    /// Reads those of a neighbour: what is new is refused from now on and let go; `each` is told of
    /// it.
    pub fn read(
        &mut self,
        node: &Node<'_>,
        numbers: &mut impl Iterator<Item = u64>,
        out: &mut Orders,
        mut each: impl FnMut(u128),
    ) -> Option<()> {
        for _ in 0..numbers.next()?.min(ACKS_MAX as u64) {
            let id = u128::from(numbers.next()?) << 64 | u128::from(numbers.next()?);
            if self.note(id) {
                each(id);
                out.push(Order::Ban { id });
                if let Some(held) = node.book.find(id) {
                    out.delete(held.handle(), Why::Acked);
                }
            }
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Site;
    use farlink_book::numbers;

    #[test]
    fn the_latest_are_remembered_and_told() {
        let mut acks = Acks::default();
        assert!((0..5000).all(|id| acks.note(id)) && !acks.note(4999));
        assert_eq!((acks.known.len(), acks.order.len()), (ACKS_MAX, ACKS_MAX));
        let mut message = Vec::new();
        acks.write(&mut message, 2);
        assert_eq!(numbers(&message).collect::<Vec<_>>(), [2, 0, 4998, 0, 4999]);
    }

    #[test]
    fn what_reached_its_destination_arrived() {
        let (mut site, mut acks) = (Site::new(), Acks::default());
        let (two, three, bundle) = (site.meet(2, 0), site.meet(3, 1), site.keep(3, 100));
        let id = site.held(bundle).bundle.id;
        let sent = |to| News::Sent { bundle, to, gave: 0, keep: true };
        assert_eq!(acks.hear(&site.node(), &sent(two)), None);
        assert_eq!(acks.hear(&site.node(), &News::Gone { bundle, why: Why::Overflow }), None);
        assert_eq!(acks.hear(&site.node(), &sent(three)), Some(id));
        assert_eq!(acks.hear(&site.node(), &News::Gone { bundle, why: Why::Delivered }), Some(id));
        assert_eq!(acks.order.len(), 1);
    }
}
