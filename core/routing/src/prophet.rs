//! PRoPHETv2: nodes that met often will meet again; a copy goes to neighbours more likely to meet the destination.
//!
//! A. Lindgren, A. Doria, E. Davies, S. Grasic: "Probabilistic Routing Protocol for Intermittently Connected
//! Networks", RFC 6693; forwarding strategy GRTR (3.6), equations of 2.1.2. Not implemented: its messages (hellos and
//! summary vectors are the agent's, so it does not interoperate), its acknowledgments of delivery, and its weighting
//! of long meetings.

use crate::router::Router;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use farlink_base::{Instant, NodeId, Param, PeerId};
use farlink_book::{
    Action, Actions, CopyOffer, DeliveryEstimate, DeliveryForecast, EventMask, Held, Identity, Node, Peer, PolicyEvent,
    Reporters, numbers, put_number,
};

/// Maximum number of nodes known, here and for each neighbour.
const NODES_MAX: usize = 4096;
/// Predictabilities below this are forgotten.
const CHANCE_MIN: f64 = 1e-4;

/// Predictability of a node, and the last meeting with it.
#[derive(Clone, Copy, Default, Debug)]
struct NodePredictability {
    /// Delivery predictability, P.
    chance: f64,
    met: Option<Instant>,
}

/// Router with the delivery predictabilities of RFC 6693.
#[derive(Debug)]
pub struct Prophet {
    encounter_max: f64,
    encounter_first: f64,
    first_threshold: f64,
    beta: f64,
    gamma: f64,
    delta: f64,
    typical_s: f64,
    unit_s: f64,
    claimed: f64,
    known: BTreeMap<NodeId, NodePredictability>,
    /// Reporter of each node that this node knows from reports only.
    reporters: Reporters<NodeId>,
    theirs: BTreeMap<PeerId, BTreeMap<NodeId, f64>>,
    aged: Instant,
}

const fn share(name: &'static str, help: &'static str, default: f64) -> Param {
    Param { name, help, unit: "", default, min: 0.0, max: 1.0 }
}
const fn seconds(name: &'static str, help: &'static str, default: f64) -> Param {
    Param { name, help, unit: "s", default, min: 0.001, max: 1e9 }
}

impl Prophet {
    /// Parameters; the defaults are those of RFC 6693 3.3.
    pub const PARAMS: &'static [Param] = &[
        share("encounter_max", "Weight of a meeting after a typical time or more (P_encounter_max).", 0.7),
        share("encounter_first", "Predictability after a first meeting (P_encounter_first).", 0.5),
        share("first_threshold", "Below this a meeting counts as the first (P_first_threshold).", 0.1),
        share("beta", "Weight of a neighbour's predictabilities (transitivity).", 0.9),
        share("gamma", "Factor on a predictability per unit of time (aging).", 0.999),
        share("delta", "Distance of the highest predictability from 1.", 0.01),
        seconds("typical_interval", "Typical time between meetings; sooner ones weigh less (I_typ).", 1800.0),
        seconds("unit", "Unit of time of aging.", 1.0),
        share(
            "claimed",
            "Factor on predictabilities of neighbours that only claim a name; below 1 it weakens black holes.",
            1.0,
        ),
    ];

    /// PRoPHET with values of [`Prophet::PARAMS`].
    pub fn new(params: &[f64]) -> Self {
        let param = |index: usize| params.get(index).copied().unwrap_or(Self::PARAMS[index].default);
        Prophet {
            encounter_max: param(0),
            encounter_first: param(1),
            first_threshold: param(2),
            beta: param(3),
            gamma: param(4),
            delta: param(5),
            typical_s: param(6),
            unit_s: param(7),
            claimed: param(8),
            known: BTreeMap::new(),
            reporters: Reporters::default(),
            theirs: BTreeMap::new(),
            aged: Instant::ZERO,
        }
    }

    fn chance(&self, node: NodeId) -> f64 {
        self.known.get(&node).map_or(0.0, |known| known.chance)
    }

    /// Ages all predictabilities (equation 2) by whole units of time.
    fn age(&mut self, now: Instant) {
        let unit_ns = (self.unit_s * 1e9) as u64;
        let units = now.0.saturating_sub(self.aged.0) / unit_ns.max(1);
        if units > 0 {
            let (left, before) = (power(self.gamma, units), self.known.len());
            self.known.retain(|_, known| {
                known.chance *= left;
                known.chance > CHANCE_MIN
            });
            // Reporters must not keep entries of forgotten nodes.
            if self.known.len() < before {
                self.reporters.retain(|node| self.known.contains_key(node));
            }
            // The rest of a unit counts next time.
            self.aged = Instant(self.aged.0 + units * unit_ns);
        }
    }

    /// Raises the predictability of a neighbour met (equation 1).
    fn meet(&mut self, now: Instant, peer: NodeId) {
        if self.known.len() >= NODES_MAX && !self.known.contains_key(&peer) && !self.evict_reported() {
            let least = self.known.iter().min_by(|a, b| a.1.chance.total_cmp(&b.1.chance)).map(|(node, _)| *node);
            least.map(|node| self.known.remove(&node));
        }
        self.reporters.forget(peer);
        let known = self.known.entry(peer).or_default();
        known.chance = if known.chance < self.first_threshold {
            self.encounter_first
        } else {
            // A meeting soon after the last one adds little: its weight grows with the interval.
            let since_s = known.met.map_or(f64::INFINITY, |met| now.since(met).as_secs_f64());
            let weight = self.encounter_max * (since_s / self.typical_s).min(1.0);
            known.chance + (1.0 - self.delta - known.chance) * weight
        };
        known.met = Some(now);
    }

    /// Makes space by forgetting a node known from reports only. Returns whether one was forgotten.
    fn evict_reported(&mut self) -> bool {
        let Some(loser) = self.reporters.loser() else { return false };
        self.reporters.forget(loser);
        self.known.remove(&loser).is_some()
    }

    /// Learns predictabilities through a neighbour (equation 3).
    fn learn(&mut self, me: NodeId, peer: &Peer, table: &BTreeMap<NodeId, f64>) {
        // A node that wants all bundles for itself (a black hole) claims to meet every node, so predictabilities count
        // less if the sender only claimed its name.
        let trust = if peer.identity() <= Identity::Claimed { self.claimed } else { 1.0 };
        let (through, reporter) = (self.chance(peer.node) * self.beta * trust, Reporters::<NodeId>::name(peer));
        for (node, chance) in table.iter().filter(|(node, _)| **node != me) {
            let chance = through * chance;
            if chance <= CHANCE_MIN {
                continue;
            }
            let room = self.known.contains_key(node) || self.known.len() < NODES_MAX || self.evict_reported();
            if room {
                let known = self.known.entry(*node).or_default();
                known.chance = known.chance.max(chance);
                // Only nodes never met are subject to eviction by reporter.
                if known.met.is_none() {
                    self.reporters.note(*node, reporter);
                }
            }
        }
    }

    fn table(&self) -> Vec<u8> {
        let mut message = Vec::with_capacity(self.known.len() * 16);
        for (node, known) in &self.known {
            put_number(&mut message, node.0);
            put_number(&mut message, known.chance.to_bits());
        }
        message
    }
}

fn power(base: f64, mut exponent: u64) -> f64 {
    // By squaring, because the units may be many.
    let (mut result, mut square) = (1.0, base);
    while exponent > 0 {
        if exponent & 1 == 1 {
            result *= square;
        }
        square *= square;
        exponent >>= 1;
    }
    result
}

fn read_table(message: &[u8]) -> BTreeMap<NodeId, f64> {
    let (mut table, mut numbers) = (BTreeMap::new(), numbers(message));
    while let (Some(node), Some(bits)) = (numbers.next(), numbers.next()) {
        let chance = f64::from_bits(bits);
        // Invalid predictabilities are ignored rather than clamped.
        if table.len() < NODES_MAX && (0.0..=1.0).contains(&chance) {
            table.insert(NodeId(node), chance);
        }
    }
    table
}

impl DeliveryForecast for Prophet {
    fn prospect(&self, _node: &Node<'_>, held: &Held, via: Option<&Peer>) -> Option<DeliveryEstimate> {
        let to = held.destination();
        let chance = match via {
            None => self.chance(to),
            Some(peer) if peer.is(to) => 1.0,
            Some(peer) => self.theirs.get(&peer.id)?.get(&to).copied().unwrap_or(0.0),
        };
        Some(DeliveryEstimate { chance, arrival: held.expires })
    }
}

impl Router for Prophet {
    fn hears(&self) -> EventMask {
        EventMask::PEERS
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
                self.age(node.now);
                let Some(known) = node.peers.get(peer).filter(|p| p.node != NodeId::NULL) else { return };
                self.meet(node.now, known.node);
                out.tell(peer, self.table());
            }
            PolicyEvent::Heard { from, bytes } => {
                self.age(node.now);
                let Some(peer) = node.peers.get(from).filter(|peer| peer.is_up()) else { return };
                let table = read_table(bytes);
                self.learn(node.me, peer, &table);
                self.theirs.insert(from, table);
                out.push(Action::Reask(from));
            }
            PolicyEvent::Down { peer } => drop(self.theirs.remove(&peer)),
            _ => {}
        }
    }
    fn wants(&self, _node: &Node<'_>, peer: &Peer, held: &Held) -> Option<CopyOffer> {
        let to = held.destination();
        let theirs = *self.theirs.get(&peer.id)?.get(&to)?;
        (theirs > self.chance(to)).then(|| CopyOffer::copy(held, ((1.0 - theirs) * 1e9) as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{RouterSite, greeting};

    #[test]
    fn meetings_raise_predictability_time_lowers_it() {
        let (mut site, mut router) = (RouterSite::new(), Prophet::new(&[]));
        let peer = site.meet(2, 0);
        greeting(&mut router, &site, peer);
        assert_eq!(router.chance(NodeId(2)), 0.5);
        site.now = Instant(1_800_000_000_000);
        greeting(&mut router, &site, peer);
        let aged = 0.5 * f64::powi(0.999, 1800);
        assert!(aged < 0.1, "so the next meeting is a first one again");
        assert_eq!(router.chance(NodeId(2)), 0.5);
        site.now = Instant(1_890_000_000_000);
        greeting(&mut router, &site, peer);
        let aged = 0.5 * f64::powi(0.999, 90);
        assert!((router.chance(NodeId(2)) - (aged + (0.99 - aged) * 0.7 * 0.05)).abs() < 1e-12);
    }

    #[test]
    fn a_copy_goes_to_the_likelier() {
        let (mut site, mut router) = (RouterSite::new(), Prophet::new(&[]));
        let (likely, bundle) = (site.meet(2, 0), site.keep(3, 100));
        let wants =
            |router: &Prophet, site: &RouterSite| router.wants(&site.node(), site.peer(likely), site.held(bundle));
        greeting(&mut router, &site, likely);
        assert_eq!(wants(&router, &site), None, "no table received yet");
        let mut table = Vec::new();
        put_number(&mut table, 3);
        put_number(&mut table, 0.8f64.to_bits());
        put_number(&mut table, 4);
        put_number(&mut table, f64::NAN.to_bits());
        let mut out = Actions::default();
        router.on(&site.node(), &PolicyEvent::Heard { from: likely, bytes: &table }, &mut out);
        assert_eq!(out.drain().collect::<Vec<_>>(), [Action::Reask(likely)]);
        assert_eq!(router.chance(NodeId(3)), 0.5 * 0.8 * 0.9, "through the neighbour");
        assert_eq!(router.chance(NodeId(4)), 0.0, "an invalid number is ignored");
        assert!(wants(&router, &site).unwrap().keep);
        let at = |via| router.prospect(&site.node(), site.held(bundle), via).unwrap().chance;
        assert_eq!((at(None), at(Some(site.peer(likely)))), (0.5 * 0.8 * 0.9, 0.8));
        router.on(&site.node(), &PolicyEvent::Down { peer: likely }, &mut out);
        assert_eq!(wants(&router, &site), None);
    }

    #[test]
    fn met_node_displaces_invented_nodes() {
        let (mut site, mut router, mut out) = (RouterSite::new(), Prophet::new(&[]), Actions::default());
        let (honest, liar) = (site.meet(2, 0), site.meet(3, 1));
        [honest, liar].into_iter().for_each(|peer| drop(greeting(&mut router, &site, peer)));
        let table = |nodes: core::ops::Range<u64>| {
            let mut table = Vec::new();
            nodes.for_each(|node| [node, 1f64.to_bits()].iter().for_each(|number| put_number(&mut table, *number)));
            table
        };
        let mut on_table = |router: &mut Prophet, from, bytes: &[u8]| {
            router.on(&site.node(), &PolicyEvent::Heard { from, bytes }, &mut out);
        };
        on_table(&mut router, honest, &table(10..60));
        (0..4)
            .for_each(|round| on_table(&mut router, liar, &table(10_000 * (round + 1)..10_000 * (round + 1) + 4_000)));
        assert!((10..60).all(|node| router.chance(NodeId(node)) > 0.4));
        assert_eq!((router.known.len(), router.reporters.len()), (NODES_MAX, NODES_MAX - 2));
        let met = site.meet(99, 2);
        greeting(&mut router, &site, met);
        assert_eq!(router.chance(NodeId(99)), 0.5, "a met node enters a table full of invented ones");
        // Long enough for all predictabilities to fade.
        site.now = Instant(20_000_000_000_000);
        greeting(&mut router, &site, met);
        assert_eq!((router.known.len(), router.reporters.len()), (1, 0), "forgotten nodes leave no reporter");
        (0..5_000).for_each(|node| router.meet(site.now, NodeId(1_000_000 + node)));
        router.meet(site.now, NodeId(7));
        assert!(router.known.len() <= NODES_MAX && router.chance(NodeId(7)) == 0.5, "even if all others were met");
    }

    fn table_of(chances: &[(u64, f64)]) -> Vec<u8> {
        let mut table = Vec::new();
        for (node, chance) in chances {
            [*node, chance.to_bits()].iter().for_each(|number| put_number(&mut table, *number));
        }
        table
    }
    fn on_table(router: &mut Prophet, site: &RouterSite, from: PeerId, chances: &[(u64, f64)]) {
        let bytes = table_of(chances);
        router.on(&site.node(), &PolicyEvent::Heard { from, bytes: &bytes }, &mut Actions::default());
    }

    #[test]
    fn received_predictability_never_lowers_own() {
        let (mut site, mut router) = (RouterSite::new(), Prophet::new(&[]));
        let [two, three] = [2, 3].map(|number| site.meet(number, number as u32));
        [two, three].into_iter().for_each(|peer| drop(greeting(&mut router, &site, peer)));
        on_table(&mut router, &site, two, &[(1, 0.9), (3, 0.5), (4, 0.8)]);
        assert_eq!([1, 3, 4].map(|node| router.chance(NodeId(node))), [0.0, 0.5, 0.5 * 0.8 * 0.9]);
        on_table(&mut router, &site, two, &[(3, 0.5), (4, 0.2)]);
        assert_eq!(router.chance(NodeId(4)), 0.5 * 0.8 * 0.9);
        // RFC 6693 3.6: only a greater predictability counts, and both have 0.5 for node 3.
        let bundle = site.keep(3, 100);
        assert_eq!(router.wants(&site.node(), site.peer(two), site.held(bundle)), None);
    }

    #[test]
    fn predictability_ages_by_whole_units() {
        let (mut site, mut router) = (RouterSite::new(), Prophet::new(&[]));
        let peers = [2, 3, 4].map(|number| site.meet(number, number as u32));
        for (peer, now_ms) in peers.into_iter().zip([0, 1_500, 2_000]) {
            site.now = Instant(now_ms * 1_000_000);
            greeting(&mut router, &site, peer);
        }
        assert!((router.chance(NodeId(2)) - 0.5 * 0.999 * 0.999).abs() < 1e-12);
        site.now = Instant(4_000_000_000);
        on_table(&mut router, &site, peers[1], &[]);
        assert!(
            (router.chance(NodeId(2)) - 0.5 * f64::powi(0.999, 4)).abs() < 1e-12,
            "aging also happens on a message"
        );
    }

    #[test]
    fn unauthenticated_neighbour_counts_by_share() {
        let mut params: Vec<f64> = Prophet::PARAMS.iter().map(|param| param.default).collect();
        // Messages of neighbours that only claim a name count half.
        params[8] = 0.5;
        let (mut site, mut router) = (RouterSite::new(), Prophet::new(&params));
        let claims = site.peers.add(farlink_book::Origin::Came);
        site.peers.learn(claims, farlink_base::EndpointId::ipn(5, 0), Identity::Claimed);
        site.peers.get_mut(claims).unwrap().up.push(farlink_base::LinkId(9));
        let known = site.meet(2, 0);
        for (peer, node, share) in [(claims, 7, 0.5), (known, 8, 1.0)] {
            greeting(&mut router, &site, peer);
            on_table(&mut router, &site, peer, &[(node, 1.0)]);
            assert_eq!(router.chance(NodeId(node)), 0.5 * 0.9 * share);
        }
    }
}
