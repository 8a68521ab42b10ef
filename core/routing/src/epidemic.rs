//! Epidemic routing: a copy to every neighbour met, until the destination has the bundle.
//!
//! A. Vahdat, D. Becker: "Epidemic Routing for Partially-Connected Ad Hoc Networks", Duke CS-2000-06. The agent keeps
//! its summary vectors: a neighbour is not offered a bundle it has.

use crate::router::Router;
use farlink_book::{CopyOffer, DeliveryForecast, Held, Node, Peer};

/// Router that floods, oldest bundles first.
#[derive(Default, Debug)]
pub struct Epidemic;

impl DeliveryForecast for Epidemic {}

impl Router for Epidemic {
    fn copies(&self) -> bool {
        true
    }
    fn asks_summaries(&self) -> bool {
        true
    }
    fn wants(&self, _node: &Node<'_>, _peer: &Peer, held: &Held) -> Option<CopyOffer> {
        // Numbers grow with arrival, so the oldest goes first.
        Some(CopyOffer::copy(held, held.number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::RouterSite;
    use farlink_book::{Actions, RouteDecision};

    #[test]
    fn neighbours_get_copies_oldest_first() {
        let mut site = RouterSite::new();
        let (older, newer) = (site.keep(9, 100), site.keep(9, 100));
        let peer = site.meet(2, 0);
        let want = |bundle| Epidemic.wants(&site.node(), site.peer(peer), site.held(bundle)).unwrap();
        assert!(want(older).keep && want(older).rank < want(newer).rank);
        assert_eq!(Epidemic.route(&site.node(), site.held(older), &[], &mut Actions::default()), RouteDecision::Carry);
        assert!(Epidemic.copies() && Epidemic.asks_summaries());
    }
}
