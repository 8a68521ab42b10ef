//! Direct delivery: a bundle stays at its source until that node meets the destination.
//!
//! T. Spyropoulos, K. Psounis, C. Raghavendra: "Single-Copy Routing in Intermittently Connected Mobile Networks",
//! SECON 2004. The last hop, common to all copying routers, belongs to the agent, so this router does nothing else. A
//! bundle for a group is never given away, and so stays as well.

use crate::router::Router;
use farlink_book::DeliveryForecast;

/// Router that leaves delivery to the agent.
#[derive(Default, Debug)]
pub struct DirectDelivery;

impl DeliveryForecast for DirectDelivery {}

impl Router for DirectDelivery {
    fn copies(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::RouterSite;
    use farlink_book::{Actions, RouteDecision};

    #[test]
    fn bundle_is_carried_to_destination_only() {
        let mut site = RouterSite::new();
        let (bundle, peer) = (site.keep(9, 100), site.meet(2, 0));
        assert_eq!(
            DirectDelivery.route(&site.node(), site.held(bundle), &[], &mut Actions::default()),
            RouteDecision::Carry
        );
        assert!(DirectDelivery.copies(), "otherwise it would not be offered to its destination");
        // The agent serves the destination; any other neighbour would be a relay.
        assert_eq!(DirectDelivery.wants(&site.node(), site.peer(peer), site.held(bundle)), None);
    }
}
