//! First contact: there is one copy, and it moves to whoever is met first, until that is the
//! destination.
//!
//! S. Jain, K. Fall, R. Patra: "Routing in a Delay Tolerant Network", SIGCOMM 2004. What a node gave
//! on does not come back to it, as with The ONE: where several are in range of each other, it would
//! go round until it had no hops left.

use crate::router::Router;
use farlink_book::{Hears, Held, News, Node, Order, Orders, Outlook, Peer, Want, Why};

/// One copy, on and on.
#[derive(Default)]
pub struct FirstContact;

impl Outlook for FirstContact {}

impl Router for FirstContact {
    fn hears(&self) -> Hears {
        Hears::GONE
    }
    fn copies(&self) -> bool {
        true
    }
    fn on(&mut self, node: &Node<'_>, news: &News<'_>, out: &mut Orders) {
        if let News::Gone { bundle, why: Why::Forwarded } = *news
            && let Some(held) = node.get(bundle)
        {
            out.push(Order::Ban { id: held.bundle.id });
        }
    }
    fn wants(&self, _node: &Node<'_>, _peer: &Peer, held: &Held) -> Option<Want> {
        Some(Want::give(held, held.number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Site;

    #[test]
    fn whoever_is_met_gets_the_bundle_itself_the_oldest_first() {
        let mut site = Site::new();
        let (older, newer) = (site.keep(9, 100), site.keep(9, 100));
        let peer = site.meet(2, 0);
        let want = |bundle| FirstContact.wants(&site.node(), site.peer(peer), site.held(bundle)).unwrap();
        assert!(!want(older).keep && want(older).rank < want(newer).rank);
    }

    #[test]
    fn what_was_given_on_does_not_come_back_and_what_was_lost_may() {
        let mut site = Site::new();
        let bundle = site.keep(9, 100);
        let id = site.held(bundle).bundle.id;
        let said = |why| {
            let mut out = Orders::default();
            FirstContact.on(&site.node(), &News::Gone { bundle, why }, &mut out);
            out.drain().collect::<std::vec::Vec<_>>()
        };
        assert_eq!(said(Why::Forwarded), [Order::Ban { id }]);
        assert_eq!(said(Why::Overflow), []);
    }
}
