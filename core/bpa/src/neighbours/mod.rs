//! Neighbours: configured, discovered, met by radio, or connected on their own; added, changed and removed while the
//! node runs. A claimed name never displaces a proven one.

mod contacts;
pub(crate) mod hello_budget;
pub(crate) mod hellos;
mod hellos_in;
mod hellos_out;
mod journeys;
pub(crate) mod link;
pub(crate) mod plan;

use crate::neighbours::link::{Link, Placed, Takes};
use crate::settings::LinkSettings;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use farlink_base::{EndpointId, Few, Instant, LinkId, NodeId, PeerId};
use farlink_book::{Identity, Newest, Origin, Peer, Peers};

/// All neighbours and links of one node.
#[derive(Debug)]
pub(crate) struct Neighbours {
    peers: Peers,
    links: Few<LinkId, Box<Link>>,
    /// Number of times each neighbour became reachable.
    ups: BTreeMap<PeerId, u32>,
    dynamic: u32,
    /// Number of links with a bounded MTU.
    narrow: u32,
}

/// Change of a neighbour when one of its links changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Met {
    /// No change of the neighbour.
    Same,
    /// The first of the neighbour's links came up.
    Up,
    /// The last of the neighbour's links went down.
    Down,
}

impl Neighbours {
    pub fn new(seed: u64) -> Self {
        Neighbours { peers: Peers::new(seed), links: Few::new(), ups: BTreeMap::new(), dynamic: 0, narrow: 0 }
    }
    pub fn peers(&self) -> &Peers {
        &self.peers
    }
    /// Mutable access to the neighbour of this number.
    pub fn peer_mut(&mut self, peer: PeerId) -> Option<&mut Peer> {
        self.peers.get_mut(peer)
    }
    pub fn link(&self, link: LinkId) -> Option<&Link> {
        self.links.get(&link).map(|link| &**link)
    }
    pub fn link_mut(&mut self, link: LinkId) -> Option<&mut Link> {
        self.links.get_mut(&link).map(|link| &mut **link)
    }
    /// All links in order of their numbers.
    pub fn links(&self) -> impl Iterator<Item = &Link> {
        self.links.values().map(|link| &**link)
    }
    fn links_mut(&mut self) -> impl Iterator<Item = &mut Link> {
        self.links.values_mut().map(|link| &mut **link)
    }
    fn named(&self, name: &str) -> Option<LinkId> {
        self.links().find(|link| *link.name == *name).map(|link| link.id)
    }
    fn dynamic_links(&self) -> usize {
        self.dynamic as usize
    }
    /// Whether a link's neighbour is unauthenticated: named neither by the configuration nor by the simulation.
    pub fn is_strange(&self, link: LinkId) -> bool {
        link.is_dynamic() || self.peers.get(self.peer_of(link)).is_some_and(|peer| !peer.origin.is_vouched())
    }
    /// Whether any link has an MTU.
    pub fn has_narrow(&self) -> bool {
        self.narrow > 0
    }
    /// Neighbour at the other end of a link; [`PeerId::NONE`] without such a link.
    pub fn peer_of(&self, link: LinkId) -> PeerId {
        self.links.get(&link).map_or(PeerId::NONE, |link| link.peer)
    }
    /// Neighbour with this node number. A reachable one precedes others; among several, the one whose name is most
    /// certain.
    pub fn of_node(&self, node: NodeId) -> Option<&Peer> {
        let surest = self.peers.of(node)?;
        if surest.is_up() {
            return Some(surest);
        }
        self.peers.up().filter(|peer| peer.is(node)).max_by_key(|peer| peer.identity()).or(Some(surest))
    }
    pub fn ups(&self, peer: PeerId) -> u32 {
        self.ups.get(&peer).copied().unwrap_or(0)
    }
    /// Adds a link. It leads to the known neighbour of the name in the settings if `origin` vouches for that name;
    /// otherwise a neighbour is added, too. Returns false if the link exists.
    pub fn add(&mut self, settings: &LinkSettings, origin: Origin) -> bool {
        // A second link of the same number would take over the first one's queue.
        if self.links.contains_key(&settings.link) {
            return false;
        }
        let identity = if settings.peer.is_null() {
            Identity::Unknown
        } else if origin.is_vouched() {
            Identity::Address
        } else {
            Identity::Claimed
        };
        // An unauthenticated neighbour stays apart from the neighbour whose name it claims or proves.
        let same = |peer: &&Peer| peer.origin.is_vouched() && peer.names.iter().any(|name| name.id == settings.peer);
        let known = self.peers.of(settings.peer.node()).filter(same).filter(|_| origin.is_vouched());
        let known = known.map(|peer| peer.id);
        let peer = known.unwrap_or_else(|| self.peers.add(origin));
        if identity > Identity::Unknown {
            self.peers.learn(peer, settings.peer.clone(), identity);
        }
        if let Some(p) = self.peers.get_mut(peer) {
            p.links.reserve_exact(1);
            p.links.push(settings.link);
            if !p.is_up() {
                p.rate = p.rate.max(settings.rate);
            }
            if origin == Origin::Configured {
                p.origin = origin;
            }
        }
        self.dynamic += u32::from(settings.link.is_dynamic());
        let number = settings.link;
        let mut link = Link::new(settings, peer);
        if origin == Origin::Met {
            // A radio alternates between its links.
            link.takes = Takes::Turns;
        }
        self.narrow += u32::from(link.largest().is_some());
        self.links.insert(number, Box::new(link));
        true
    }
    /// Removes a link. The neighbour is removed with its last link, unless it is configured and has a name.
    pub fn remove(&mut self, link: LinkId) -> Option<Box<Link>> {
        let link = self.links.remove(&link)?;
        self.dynamic -= u32::from(link.id.is_dynamic());
        self.narrow -= u32::from(link.largest().is_some());
        let Some(peer) = self.peers.get_mut(link.peer) else { return Some(link) };
        peer.links.retain(|l| *l != link.id);
        // A configured neighbour with a name stays, since its links may return.
        if peer.links.is_empty() && (peer.origin != Origin::Configured || peer.names.is_empty()) {
            self.peers.remove(link.peer);
            self.ups.remove(&link.peer);
        }
        Some(link)
    }
    pub fn learn(&mut self, peer: PeerId, name: EndpointId, identity: Identity) {
        self.peers.learn(peer, name, identity);
    }
    /// Notes whether a neighbour is reachable over a link, and returns what that changes for the neighbour.
    fn note(&mut self, link: LinkId, met: bool, plan: Option<Placed<'_>>, now: Instant) -> Met {
        let Some(l) = self.links.get_mut(&link) else { return Met::Same };
        l.said_met = met;
        let (peer, links) = (l.peer, &self.links);
        let Some(p) = self.peers.get_mut(peer) else { return Met::Same };
        let was_up = p.is_up();
        p.up.retain(|up| *up != link);
        if met {
            p.up.push(link);
            // Sorted, so that the first link does not depend on the order in which links came up.
            p.up.sort();
        }
        let next = |link: &LinkId| links.get(link)?.next_contact(plan, now);
        p.next_up = p.links.iter().filter_map(next).map(|w| w.start).min();
        // Rate and end of the contact are the maximum over all links that are up, so it does not matter which link
        // changed last. A lost neighbour keeps its rate, by which policies measure the contact that has ended.
        if p.is_up() {
            let open = |up: &LinkId| links.get(up).map(|l| (l.rate, l.contact(plan, now)));
            let (mut rate, mut until) = (None, Instant::ZERO);
            for (steady, contact) in p.up.iter().filter_map(open) {
                rate = rate.max(contact.map(|w| w.rate).or(steady));
                until = until.max(contact.map_or(Instant::MAX, |w| w.end));
            }
            (p.rate, p.until) = (rate, Some(until).filter(|end| *end < Instant::MAX));
        }
        match (was_up, p.is_up()) {
            (false, true) => {
                *self.ups.entry(peer).or_insert(0) += 1;
                Met::Up
            }
            (true, false) => {
                // Cleared now, because clocks differ: the neighbour's next hello may arrive before the link is up here.
                p.heard = false;
                p.newest_hello = Newest::default();
                p.until = None;
                Met::Down
            }
            _ => Met::Same,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farlink_base::{DataRate, Duration, LinkTerms};

    fn settings(link: u32, peer: EndpointId) -> LinkSettings {
        LinkSettings {
            link: LinkId(link),
            name: alloc::format!("l{link}"),
            peer,
            rate: None,
            one_way_delay: Duration::ZERO,
            terms: LinkTerms::default(),
            wire_bytes_per_million: 1_000_000,
            sessions: false,
            largest: None,
        }
    }

    #[test]
    fn links_share_a_neighbour_by_name() {
        // The third link is dynamic, and its neighbour only claims the name.
        let mut all = Neighbours::new(0);
        let two = EndpointId::ipn(2, 0);
        assert!(all.add(&settings(0, two.clone()), Origin::Configured));
        assert!(all.add(&settings(1, two.clone()), Origin::Configured));
        assert!(!all.add(&settings(1, two.clone()), Origin::Configured), "it is there");
        assert!(all.add(&settings(LinkId::DYNAMIC, two), Origin::Came));
        let configured = all.peer_of(LinkId(0));
        assert_eq!(all.peer_of(LinkId(1)), configured);
        assert_ne!(all.peer_of(LinkId(LinkId::DYNAMIC)), configured);
        assert_eq!(all.of_node(NodeId::ipn(2)).map(|p| p.id), Some(configured));
        assert_eq!(all.note(LinkId(LinkId::DYNAMIC), true, None, Instant::ZERO), Met::Up);
        assert_ne!(all.of_node(NodeId::ipn(2)).map(|p| p.id), Some(configured), "it can be reached");
        assert_eq!(all.note(LinkId(0), true, None, Instant::ZERO), Met::Up);
        assert_eq!(all.note(LinkId(1), true, None, Instant::ZERO), Met::Same);
        assert_eq!(all.of_node(NodeId::ipn(2)).map(|p| p.id), Some(configured));
        assert_eq!(all.note(LinkId(0), false, None, Instant::ZERO), Met::Same);
        assert_eq!(all.note(LinkId(1), false, None, Instant::ZERO), Met::Down);
        assert_eq!((all.ups(configured), all.dynamic_links()), (1, 1));
    }

    #[test]
    fn peer_rate_is_fastest_link_up() {
        let mut all = Neighbours::new(0);
        let rates = [Some(DataRate(1000)), Some(DataRate(10)), None];
        for (link, rate) in (0..).zip(rates) {
            all.add(&LinkSettings { rate, ..settings(link, EndpointId::ipn(2, 0)) }, Origin::Configured);
        }
        let rate = |all: &Neighbours| all.peers.get(all.peer_of(LinkId(0))).unwrap().rate;
        for link in 0..3 {
            all.note(LinkId(link), true, None, Instant::ZERO);
            assert_eq!(rate(&all), rates[0], "{link}");
        }
        for (link, left) in [(0, rates[1]), (1, None), (2, None)] {
            all.note(LinkId(link), false, None, Instant::ZERO);
            assert_eq!(rate(&all), left, "{link}");
        }
    }

    #[test]
    fn added_link_that_is_down_leaves_rate() {
        let mut all = Neighbours::new(0);
        all.add(&LinkSettings { rate: Some(DataRate(10)), ..settings(0, EndpointId::ipn(2, 0)) }, Origin::Configured);
        all.note(LinkId(0), true, None, Instant::ZERO);
        all.add(&LinkSettings { rate: Some(DataRate(1000)), ..settings(1, EndpointId::ipn(2, 0)) }, Origin::Configured);
        assert_eq!(all.peers.get(all.peer_of(LinkId(0))).unwrap().rate, Some(DataRate(10)));
    }

    #[test]
    fn radio_contact_matches_configured_neighbour() {
        // Radio links first, then a configured cable to one of them.
        let mut all = Neighbours::new(0);
        let (two, three) = (EndpointId::ipn(2, 0), EndpointId::ipn(3, 0));
        assert!(all.add(&settings(0, two.clone()), Origin::Met) && all.add(&settings(1, three), Origin::Met));
        assert!(all.add(&settings(2, two.clone()), Origin::Configured), "a cable to one of them");
        assert_eq!(all.peer_of(LinkId(0)), all.peer_of(LinkId(2)));
        assert!(!all.is_strange(LinkId(0)) && !all.is_strange(LinkId(1)));
        assert_eq!(
            (all.link(LinkId(0)).unwrap().takes, all.link(LinkId(2)).unwrap().takes),
            (Takes::Turns, Takes::Many)
        );
        for link in [0, 1, 2] {
            assert!(all.remove(LinkId(link)).is_some());
        }
        assert_eq!((all.peers.len(), all.of_node(two.node()).is_some()), (1, true), "who was configured may come back");
    }

    #[test]
    fn dynamic_neighbour_leaves_with_last_link() {
        // A thousand dynamic neighbours come and go; no table may grow.
        let mut all = Neighbours::new(0);
        for n in 0..1000 {
            let link = LinkId::DYNAMIC | n;
            all.add(&settings(link, EndpointId::ipn(u64::from(n) + 5, 0)), Origin::Came);
            all.note(LinkId(link), true, None, Instant::ZERO);
            assert!(all.remove(LinkId(link)).is_some() && all.remove(LinkId(link)).is_none());
        }
        assert_eq!((all.peers.len(), all.links.len(), all.ups.len(), all.dynamic), (0, 0, 0, 0));
    }
}
