//! Spray and wait among nodes that meet at random, refuse at random and lose copies in flight: copies are neither
//! lost nor created.

use farlink_base::{EndpointId, LinkId, NodeId, PeerId};
use farlink_book::{Action, Actions, Handle, Identity, Node, Origin, PolicyEvent};
use farlink_routing::{Router, make_router};
use proptest::prelude::*;

#[path = "../src/testing.rs"]
#[allow(dead_code)]
mod testing;
use testing::{RouterSite, bundle, new};

const NODES: usize = 6;
const COPIES: u32 = 8;
/// Destination of the bundle; no node meets it.
const DESTINATION: u64 = 99;

/// A copy in flight.
struct CopyInFlight {
    from: usize,
    to: usize,
    bundle: Handle,
    gave: u32,
}

/// Nodes that know each other, each with a router, and a minimal agent that serves them all.
struct SprayWorld {
    sites: Vec<(RouterSite, Box<dyn Router>)>,
    flights: Vec<CopyInFlight>,
}

impl SprayWorld {
    fn new(binary: f64) -> SprayWorld {
        let params = [("copies".to_string(), f64::from(COPIES)), ("binary".to_string(), binary)];
        let site = |_| {
            let mut site = RouterSite::new();
            for peer in 0..NODES {
                let id = site.peers.add(Origin::Discovered);
                site.peers.learn(id, EndpointId::ipn(peer as u64 + 1, 0), Identity::Address);
                site.peers.get_mut(id).unwrap().up.push(LinkId(peer as u32));
            }
            (site, make_router("spray-and-wait", &params, &[], 7).unwrap())
        };
        let mut world = SprayWorld { sites: (0..NODES).map(site).collect(), flights: Vec::new() };
        world.take(0, None);
        world
    }
    fn tell(&mut self, at: usize, event: PolicyEvent<'_>) {
        let (site, router) = &mut self.sites[at];
        let (mut out, node) = (Actions::default(), Node { me: NodeId(at as u64 + 1), ..site.node() });
        router.on(&node, &event, &mut out);
        for action in out.drain() {
            let Action::Label { bundle, label } = action else { panic!("{action:?}") };
            site.held_mut(bundle).labels[0] = label;
        }
    }
    fn held(&self, at: usize) -> Option<Handle> {
        self.sites[at].0.book.find(1).map(|held| held.handle())
    }
    /// Gives a node a copy: with this label, or as created there.
    fn take(&mut self, at: usize, wire: Option<u32>) {
        let mut new = new(bundle(1, 1, DESTINATION, 100));
        new.labels[0] = wire.unwrap_or(0);
        let bundle = self.sites[at].0.book.keep(new);
        self.tell(at, PolicyEvent::Kept { bundle, wire });
    }
    /// Hands a copy over if the router wants that.
    fn hand(&mut self, from: usize, to: usize) {
        let (site, router) = &self.sites[from];
        let (Some(bundle), Some(peer)) = (self.held(from), site.peers.of(NodeId(to as u64 + 1))) else { return };
        let Some(want) = router.wants(&site.node(), peer, site.held(bundle)) else { return };
        let (split, to_peer) = (want.labels[0], peer.id);
        // The last copy waits for the destination.
        assert!(want.keep && split.ours > 0 && split.theirs > 0);
        self.sites[from].0.held_mut(bundle).labels[0] = split.ours;
        self.tell(from, PolicyEvent::Handed { bundle, to: to_peer, gave: split.theirs, keep: true });
        self.flights.push(CopyInFlight { from, to, bundle, gave: split.theirs });
    }
    /// Lets a copy in flight arrive, or be refused or lost.
    fn land(&mut self, which: usize, arrives: bool) {
        if self.flights.is_empty() {
            return;
        }
        let flight = self.flights.remove(which % self.flights.len());
        let (bundle, gave, to) = (flight.bundle, flight.gave, PeerId(flight.to as u32 + 1));
        // A node refuses a bundle it holds.
        if arrives && self.held(flight.to).is_none() {
            self.take(flight.to, Some(gave));
            self.tell(flight.from, PolicyEvent::Sent { bundle, to, gave, keep: true });
        } else {
            self.tell(flight.from, PolicyEvent::Failed { bundle, to, gave, keep: true });
        }
    }
    fn copies(&self) -> u32 {
        let held = |at| self.held(at).map_or(0, |bundle| self.sites[at].0.held(bundle).labels[0]);
        (0..NODES).map(held).sum::<u32>() + self.flights.iter().map(|flight| flight.gave).sum::<u32>()
    }
}

proptest! {
    #[test]
    fn copies_are_conserved(
        binary in 0..2u8,
        steps in prop::collection::vec((0..NODES, 0..NODES, any::<bool>(), any::<bool>()), 1..80),
    ) {
        let mut world = SprayWorld::new(f64::from(binary));
        for (from, to, hands, arrives) in steps {
            match hands {
                true if from != to => world.hand(from, to),
                _ => world.land(to, arrives),
            }
            prop_assert_eq!(world.copies(), COPIES);
        }
        let holders = (0..NODES).filter(|at| world.held(*at).is_some()).count();
        prop_assert!(holders <= COPIES as usize);
    }
}
