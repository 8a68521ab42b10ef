//! MaxProp: young bundles first, then those with the likeliest path; acknowledgments are flooded and purge bundles.
//!
//! J. Burgess, B. Gallagher, D. Jensen, B. Levine: "MaxProp: Routing for Vehicle-Based Disruption-Tolerant Networks",
//! INFOCOM 2006. The paper derives the hop threshold from the bytes of a mean contact; here it is a parameter. Other
//! parameters set which acknowledgments delete besides those of the destination (`acks.rs`).

use crate::acks::{ACKS_MAX, Acks, HEARSAY, TRUST};
use crate::router::Router;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use farlink_base::{NodeId, Param};
use farlink_book::{
    Action, Actions, CopyOffer, DeliveryEstimate, DeliveryForecast, EventMask, Held, Node, Peer, PolicyEvent,
    Reporters, numbers, put_number,
};

/// Maximum number of nodes whose meetings are known.
const NODES_MAX: usize = 1024;
/// Maximum number of likelihoods over all nodes, which bounds a search of paths.
const MEETINGS_MAX: usize = 65_536;
/// Cost of a destination without a path.
const NO_PATH: f64 = 1e6;

type MeetingLikelihoods = BTreeMap<NodeId, f64>;

/// Meeting likelihoods of all nodes, and the cheapest paths by them.
#[derive(Debug)]
pub struct MaxProp {
    threshold: u8,
    likely_max: usize,
    meetings: BTreeMap<NodeId, MeetingLikelihoods>,
    /// Number of likelihoods in all tables.
    count: usize,
    /// Reporter of each node's table.
    reporters: Reporters<NodeId>,
    cost: BTreeMap<NodeId, f64>,
    acks: Acks,
}

impl MaxProp {
    /// Parameters of the router.
    pub const PARAMS: &'static [Param] = &[
        Param {
            name: "threshold",
            help: "Bundles that made fewer hops go first, by hops; the others by the cost of their path.",
            unit: "",
            default: 3.0,
            min: 0.0,
            max: 255.0,
        },
        Param {
            name: "meetings",
            help: "Neighbours remembered of each node, the likeliest; The ONE's probSetMaxSize.",
            unit: "",
            default: 50.0,
            min: 1.0,
            max: 1024.0,
        },
        HEARSAY,
        TRUST,
    ];

    /// MaxProp with values of [`MaxProp::PARAMS`].
    pub fn new(params: &[f64]) -> Self {
        let param = |index: usize| params.get(index).copied().unwrap_or(Self::PARAMS[index].default);
        MaxProp {
            threshold: param(0) as u8,
            likely_max: param(1) as usize,
            meetings: BTreeMap::new(),
            count: 0,
            reporters: Reporters::default(),
            cost: BTreeMap::new(),
            acks: Acks::new(param(2), param(3)),
        }
    }

    /// Incremental averaging: the neighbour met gains 1, then all are scaled to a sum of 1.
    fn meet(&mut self, me: NodeId, peer: NodeId) {
        let mine = self.meetings.entry(me).or_default();
        self.count -= mine.len();
        *mine.entry(peer).or_insert(0.0) += 1.0;
        if mine.len() > self.likely_max {
            // The neighbour just met stays, however unlikely it is.
            let others = mine.iter().filter(|(node, _)| **node != peer);
            let least = others.min_by(|a, b| a.1.total_cmp(b.1)).map(|(node, _)| *node);
            least.map(|node| mine.remove(&node));
        }
        let sum: f64 = mine.values().sum();
        mine.values_mut().for_each(|likely| *likely /= sum);
        self.count += mine.len();
    }
    /// Learns a node's meetings from a neighbour; without space, forgets entries of the reporter with most entries.
    fn learn(&mut self, who: NodeId, meetings: MeetingLikelihoods, reporter: NodeId) {
        let known = self.meetings.get(&who).map(MeetingLikelihoods::len);
        let fits = |all: &Self| {
            let nodes = all.meetings.len() < NODES_MAX || all.meetings.contains_key(&who);
            nodes && all.count + meetings.len() <= MEETINGS_MAX + known.unwrap_or(0)
        };
        while !fits(self) {
            // Only reported entries may be evicted: this node's own meetings stay.
            let Some(loser) = self.reporters.loser() else { return };
            self.forget(loser);
            // The evicted entry is the one that the report would replace: the report is dropped.
            if loser == who {
                return;
            }
        }
        self.count = self.count - known.unwrap_or(0) + meetings.len();
        self.meetings.insert(who, meetings);
        self.reporters.note(who, reporter);
    }
    fn forget(&mut self, who: NodeId) {
        self.reporters.forget(who);
        self.count -= self.meetings.remove(&who).map_or(0, |meetings| meetings.len());
    }

    /// Dijkstra: a hop from a to b costs 1 minus the likelihood that a meets b.
    fn find_paths(&mut self, me: NodeId) {
        let mut open = BTreeSet::from([(0u64, me)]);
        self.cost = BTreeMap::from([(me, 0.0)]);
        while let Some((bits, at)) = open.pop_first() {
            let cost = f64::from_bits(bits);
            // Bits of non-negative floats are ordered like the floats, so they can be keys.
            for (to, likely) in self.meetings.get(&at).into_iter().flatten() {
                let through = cost + 1.0 - likely;
                if self.cost.get(to).is_none_or(|known| through < *known) {
                    self.cost.insert(*to, through);
                    open.insert((through.to_bits(), *to));
                }
            }
        }
    }

    /// Hello: number of acknowledgments, acknowledgments, then each node with the number of its neighbours, and these
    /// with their likelihoods.
    fn hello(&self) -> Vec<u8> {
        let mut message = Vec::new();
        self.acks.write(&mut message, ACKS_MAX);
        for (node, meetings) in &self.meetings {
            put_number(&mut message, node.0);
            put_number(&mut message, meetings.len() as u64);
            for (peer, likely) in meetings {
                put_number(&mut message, peer.0);
                put_number(&mut message, likely.to_bits());
            }
        }
        message
    }

    /// Reads a hello up to its first inconsistency.
    fn read_hello(&mut self, node: &Node<'_>, peer: &Peer, message: &[u8], out: &mut Actions) -> Option<()> {
        let mut numbers = numbers(message);
        self.acks.read(node, peer, &mut numbers, out, |_| ())?;
        let reporter = Reporters::<NodeId>::name(peer);
        while let Some(who) = numbers.next().map(NodeId) {
            let mut meetings = MeetingLikelihoods::new();
            for _ in 0..numbers.next()? {
                let (peer, likely) = (NodeId(numbers.next()?), f64::from_bits(numbers.next()?));
                // A likelihood outside 0 to 1 would break the costs.
                if meetings.len() < self.likely_max && (0.0..=1.0).contains(&likely) {
                    meetings.insert(peer, likely);
                }
            }
            // This node knows its own meetings best.
            if who != node.me {
                self.learn(who, meetings, reporter);
            }
        }
        Some(())
    }

    fn cost(&self, held: &Held) -> f64 {
        self.cost.get(&held.destination()).copied().unwrap_or(NO_PATH)
    }
}

impl DeliveryForecast for MaxProp {
    /// Estimate by MaxProp's drop order: young bundles are dropped last; the others are dropped by the cost of their
    /// path, the highest first.
    fn prospect(&self, _node: &Node<'_>, held: &Held, via: Option<&Peer>) -> Option<DeliveryEstimate> {
        let young = held.hops < self.threshold || via.is_some_and(|peer| peer.is(held.destination()));
        Some(DeliveryEstimate {
            chance: if young { 1.0 } else { 1.0 / (1.0 + self.cost(held)) },
            arrival: held.expires,
        })
    }
}

impl Router for MaxProp {
    fn hears(&self) -> EventMask {
        EventMask::PEERS.and(EventMask::OUTCOMES).and(EventMask::GONE)
    }
    fn copies(&self) -> bool {
        true
    }
    fn asks_summaries(&self) -> bool {
        true
    }
    fn on(&mut self, node: &Node<'_>, event: &PolicyEvent<'_>, out: &mut Actions) {
        match *event {
            PolicyEvent::Up { peer } => {
                let Some(known) = node.peers.get(peer).filter(|p| p.node != NodeId::NULL) else { return };
                self.meet(node.me, known.node);
                self.find_paths(node.me);
                out.tell(peer, self.hello());
            }
            PolicyEvent::Heard { from, bytes } => {
                let Some(peer) = node.peers.get(from).filter(|peer| peer.is_up()) else { return };
                let _ = self.read_hello(node, peer, bytes, out);
                self.find_paths(node.me);
                // New paths and acknowledgments change which bundles the neighbour should get.
                out.push(Action::Reask(from));
            }
            _ => drop(self.acks.observe(node, event)),
        }
    }
    fn looks(&self) -> usize {
        2 * self.count
    }
    fn wants(&self, _node: &Node<'_>, _peer: &Peer, held: &Held) -> Option<CopyOffer> {
        if self.acks.has(held) {
            return None;
        }
        // Bundles that are not young come after all young ones, by cost in millionths of a hop.
        let by_cost = || 1_000 + (self.cost(held) * 1e6) as u64;
        let rank = if held.hops < self.threshold { u64::from(held.hops) } else { by_cost() };
        Some(CopyOffer::copy(held, rank))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{RouterSite, greeting};
    use farlink_book::Why;

    #[test]
    fn young_bundles_precede_likely_paths() {
        let (mut site, mut router) = (RouterSite::new(), MaxProp::new(&[]));
        let (often, seldom) = (site.meet(2, 0), site.meet(3, 1));
        for peer in [often, seldom, often] {
            greeting(&mut router, &site, peer);
        }
        let rank = |site: &RouterSite, to, hops| {
            let mut other = RouterSite::new();
            let bundle = other.keep_with(to, 100, |_, new| new.hops = hops);
            router.wants(&site.node(), site.peer(often), other.held(bundle)).unwrap().rank
        };
        let ranks = [rank(&site, 9, 0), rank(&site, 9, 2), rank(&site, 2, 5), rank(&site, 3, 5), rank(&site, 9, 5)];
        assert!(ranks.is_sorted_by(|a, b| a < b), "{ranks:?}");
        assert!((router.meetings[&NodeId(1)].values().sum::<f64>() - 1.0).abs() < 1e-12);
    }

    #[test]
    fn acknowledgments_purge_and_are_told_on() {
        // Acknowledgments of third parties delete with this setting.
        let (mut site, mut router) = (RouterSite::new(), MaxProp::new(&[3.0, 50.0, 2.0]));
        let (peer, bundle) = (site.meet(2, 0), site.keep(9, 100));
        let id = site.held(bundle).bundle.id;
        let (mut there, mut other) = (RouterSite::new(), MaxProp::new(&[]));
        let (here, delivered) = (there.meet(1, 0), there.keep(9, 100));
        other.on(&there.node(), &PolicyEvent::Gone { bundle: delivered, why: Why::Delivered }, &mut Actions::default());
        let hello = greeting(&mut other, &there, here);
        let mut out = Actions::default();
        router.on(&site.node(), &PolicyEvent::Heard { from: peer, bytes: &hello }, &mut out);
        let said: Vec<Action> = out.drain().collect();
        assert_eq!(said, [Action::Ban { id }, Action::Delete { bundle, why: Why::Acked }, Action::Reask(peer)]);
        router.on(&site.node(), &PolicyEvent::Heard { from: peer, bytes: &hello[..20] }, &mut out);
        assert_eq!(out.drain().collect::<Vec<_>>(), [Action::Reask(peer)], "known, and cut short");
        assert_eq!(router.hello()[..24], hello[..24]);
    }

    #[test]
    fn acknowledged_bundle_gets_no_more_copies() {
        let (mut site, mut router, mut out) = (RouterSite::new(), MaxProp::new(&[3.0, 50.0, 1.0]), Actions::default());
        let (liar, bundle) = (site.meet(2, 0), site.keep(9, 100));
        let wants =
            |router: &MaxProp, site: &RouterSite| router.wants(&site.node(), site.peer(liar), site.held(bundle));
        assert!(wants(&router, &site).is_some());
        let mut hello = Vec::new();
        [1, 0, site.held(bundle).bundle.id as u64].iter().for_each(|number| put_number(&mut hello, *number));
        router.on(&site.node(), &PolicyEvent::Heard { from: liar, bytes: &hello }, &mut out);
        assert_eq!(out.drain().collect::<Vec<_>>(), [Action::Reask(liar)]);
        assert_eq!(wants(&router, &site), None);
    }

    #[test]
    fn invented_nodes_evict_only_their_own() {
        let (mut site, mut router, mut out) = (RouterSite::new(), MaxProp::new(&[3.0, 1024.0]), Actions::default());
        let (honest, liar) = (site.meet(2, 0), site.meet(3, 1));
        let says = |nodes: core::ops::Range<u64>, others: u64| {
            let mut hello = Vec::new();
            put_number(&mut hello, 0);
            for node in nodes {
                [node, others].iter().for_each(|number| put_number(&mut hello, *number));
                for other in 0..others {
                    [other, 0.5f64.to_bits()].iter().for_each(|number| put_number(&mut hello, *number));
                }
            }
            hello
        };
        let mut receive = |router: &mut MaxProp, from, bytes: &[u8]| {
            router.on(&site.node(), &PolicyEvent::Heard { from, bytes }, &mut out);
        };
        receive(&mut router, honest, &says(10..60, 10));
        // Many nodes with few neighbours, and few with many: both bounds are hit.
        for round in 0..20 {
            receive(&mut router, liar, &says(1_000 + 50 * round..1_050 + 50 * round, 1_024));
            receive(&mut router, liar, &says(50_000 + 100 * round..50_100 + 100 * round, 1));
        }
        assert!((10..60).all(|node| router.meetings.get(&NodeId(node)).is_some_and(|all| all.len() == 10)));
        assert!(
            router.meetings.len() <= NODES_MAX && router.count <= MEETINGS_MAX && router.looks() <= 2 * MEETINGS_MAX
        );
        assert_eq!(router.count, router.meetings.values().map(MeetingLikelihoods::len).sum::<usize>());
    }

    /// A hello without acknowledgments: the meetings of these nodes, with likelihoods.
    fn says(rows: &[(u64, &[(u64, f64)])]) -> Vec<u8> {
        let mut hello = Vec::new();
        put_number(&mut hello, 0);
        for (node, meetings) in rows {
            [*node, meetings.len() as u64].iter().for_each(|number| put_number(&mut hello, *number));
            for (other, likely) in *meetings {
                [*other, likely.to_bits()].iter().for_each(|number| put_number(&mut hello, *number));
            }
        }
        hello
    }

    #[test]
    fn received_meetings_make_paths_at_once() {
        let (mut site, mut router) = (RouterSite::new(), MaxProp::new(&[]));
        let two = site.meet(2, 0);
        greeting(&mut router, &site, two);
        let own = router.meetings[&NodeId(1)].clone();
        let bytes = says(&[(1, &[(9, 1.0)]), (2, &[(7, 0.75)])]);
        router.on(&site.node(), &PolicyEvent::Heard { from: two, bytes: &bytes }, &mut Actions::default());
        // Reports about this node itself are ignored.
        assert_eq!(router.meetings[&NodeId(1)], own);
        assert_eq!([7, 9].map(|node| router.cost.get(&NodeId(node)).copied()), [Some(0.25), None]);
        // A bundle at the threshold is no longer young: its path counts.
        let rank = |router: &MaxProp, hops| {
            let mut other = RouterSite::new();
            let bundle = other.keep_with(7, 100, |_, new| new.hops = hops);
            router.wants(&site.node(), site.peer(two), other.held(bundle)).unwrap().rank
        };
        assert_eq!([2, 3, 4].map(|hops| rank(&router, hops)), [2, 251_000, 251_000]);
    }

    #[test]
    fn likeliest_and_latest_neighbours_are_remembered() {
        let (mut site, mut router) = (RouterSite::new(), MaxProp::new(&[3.0, 2.0]));
        let peers = [2, 3, 4].map(|number| site.meet(number, number as u32));
        for peer in [0, 0, 1, 0, 2] {
            greeting(&mut router, &site, peers[peer]);
        }
        let known =
            |router: &MaxProp, node| router.meetings[&NodeId(node)].keys().map(|node| node.0).collect::<Vec<_>>();
        assert_eq!(known(&router, 1), [2, 4]);
        let bytes = says(&[(2, &[(7, 0.5), (8, 0.25), (9, 0.25)])]);
        router.on(&site.node(), &PolicyEvent::Heard { from: peers[0], bytes: &bytes }, &mut Actions::default());
        assert_eq!(known(&router, 2), [7, 8]);
        let mut one = MaxProp::new(&[3.0, 1.0]);
        [peers[1], peers[0]].into_iter().for_each(|peer| drop(greeting(&mut one, &site, peer)));
        assert_eq!(known(&one, 1), [2], "as likely as the one before, and met last");
    }
}
