//! Direct delivery: a bundle stays where it was made until that node meets its destination.
//!
//! T. Spyropoulos, K. Psounis, C. Raghavendra: "Single-Copy Routing in Intermittently Connected
//! Mobile Networks", SECON 2004. What it costs least any router can do; the last step of all that
//! copy is the agent's anyway. What is for a group is never given away, and so stays, too.

use crate::router::Router;
use farlink_book::DeliveryForecast;

/// Nothing but the last step.
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
    use crate::testing::Site;
    use farlink_book::{Actions, RouteDecision};

    #[test]
    fn bundle_is_carried_to_destination_only() {
        let mut site = Site::new();
        let (bundle, peer) = (site.keep(9, 100), site.meet(2, 0));
        assert_eq!(
            DirectDelivery.route(&site.node(), site.held(bundle), &[], &mut Actions::default()),
            RouteDecision::Carry
        );
        assert!(DirectDelivery.copies(), "else its destination is not offered it");
        assert_eq!(DirectDelivery.wants(&site.node(), site.peer(peer), site.held(bundle)), None);
    }
}
