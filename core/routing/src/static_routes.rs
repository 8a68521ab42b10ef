//! Router of static networks: bundles for a neighbour go to it while a link is up. Everything else follows the
//! configured routes, which the agent keeps and tries if the router finds none.

use crate::router::Router;
use alloc::collections::BTreeMap;
use core::cmp::Reverse;
use farlink_base::{DataRate, Instant, LinkId, PeerId};
use farlink_book::{Action, Actions, DeliveryForecast, EventMask, Held, NextHop, Node, PolicyEvent, RouteDecision};

/// A link that is up.
#[derive(Debug)]
struct Up {
    peer: PeerId,
    rate: Option<DataRate>,
    until: Instant,
}

/// Router that knows direct neighbours only.
#[derive(Default, Debug)]
pub struct StaticRoutes {
    up: BTreeMap<LinkId, Up>,
}

impl DeliveryForecast for StaticRoutes {}

impl Router for StaticRoutes {
    fn hears(&self) -> EventMask {
        EventMask::LINKS
    }
    fn on(&mut self, node: &Node<'_>, event: &PolicyEvent<'_>, out: &mut Actions) {
        match *event {
            PolicyEvent::LinkUp { peer, link, rate, until } => {
                self.up.insert(link, Up { peer, rate, until: until.unwrap_or(Instant::MAX) });
                // Bundles may wait under any name of the neighbour.
                let names = node.peers.get(peer).map_or(&[][..], |peer| &peer.names);
                names.iter().for_each(|name| out.push(Action::RerouteTo(name.id.node())));
            }
            PolicyEvent::LinkDown { link, .. } => drop(self.up.remove(&link)),
            _ => {}
        }
    }
    fn route(&mut self, node: &Node<'_>, held: &Held, tried: &[PeerId], _out: &mut Actions) -> RouteDecision {
        let leads = |up: &Up| {
            let known = node.peers.get(up.peer).is_some_and(|peer| peer.is(held.destination()));
            known && up.until > node.now && !tried.contains(&up.peer) && !held.bundle.is_for_group()
        };
        // Link numbers follow the configuration: of equally fast links the first one configured wins.
        let fit = self.up.iter().filter(|(_, up)| leads(up));
        match fit.min_by_key(|(link, up)| (Reverse(up.rate), **link)) {
            Some((link, up)) => RouteDecision::One(NextHop { link: *link, not_before: node.now, until: up.until }),
            None => RouteDecision::Wait(Instant::MAX),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::RouterSite;

    fn link_up(peer: PeerId, link: u32, rate: u64) -> PolicyEvent<'static> {
        PolicyEvent::LinkUp { peer, link: LinkId(link), rate: Some(DataRate(rate)), until: None }
    }

    #[test]
    fn destination_is_reached_over_fastest_link() {
        let (mut site, mut router, mut out) = (RouterSite::new(), StaticRoutes::default(), Actions::default());
        let (bundle, other) = (site.keep(2, 100), site.keep(3, 100));
        let peer = site.meet(2, 0);
        let ask = |router: &mut StaticRoutes, bundle, tried: &[PeerId]| match router.route(
            &site.node(),
            site.held(bundle),
            tried,
            &mut Actions::default(),
        ) {
            RouteDecision::One(leg) => Some(leg.link.0),
            way => {
                assert_eq!(way, RouteDecision::Wait(Instant::MAX));
                None
            }
        };
        assert_eq!(ask(&mut router, bundle, &[]), None);
        // The rate must decide, not the order in which the links came up.
        router.on(&site.node(), &link_up(peer, 0, 10), &mut out);
        router.on(&site.node(), &link_up(peer, 1, 20), &mut out);
        assert_eq!(
            out.drain().collect::<std::vec::Vec<_>>()[..],
            [const { Action::RerouteTo(farlink_base::NodeId::ipn(2)) }; 2]
        );
        assert_eq!((ask(&mut router, bundle, &[]), ask(&mut router, other, &[])), (Some(1), None));
        assert_eq!(ask(&mut router, bundle, &[peer]), None, "the neighbour refused");
        router.on(&site.node(), &PolicyEvent::LinkDown { peer, link: LinkId(1) }, &mut out);
        assert_eq!(ask(&mut router, bundle, &[]), Some(0));
    }
}
