//! Random nodes: bounds, tunnels, quotas, policies.

use super::LINKS;
use super::support::{self, NoRouter, Node, Rule, Script, contacts, settings};
use farlink_base::{AgentSettings, DataVolume, Duration, EndpointId, LinkId, Rng};
use farlink_bpa::{CustodySettings, Settings};

/// Settings of the node of this seed.
pub fn small(seed: u64) -> Settings {
    let mut rng = Rng::stream(seed, 8);
    let mut links = settings().links;
    for link in &mut links {
        link.largest = rng.chance(0.3).then(|| DataVolume(45 + rng.below(3000)));
    }
    Settings {
        links,
        capacity_bytes: 20_000 + rng.below(100_000),
        node: AgentSettings { status_reports: rng.chance(0.5), ..settings().node },
        limits: limits(seed),
        durable: rng.chance(0.8),
        custody: rng.chance(0.6).then(|| {
            Box::new(CustodySettings {
                bytes: 40_000,
                timeout: Duration::from_millis(300),
                signal_delay: Duration::from_millis(50),
                signal_bundles: 5,
                request: vec!["ipn:9.*".into()],
                ..CustodySettings::default()
            })
        }),
        rare: rare(seed),
        ..settings()
    }
}
/// The node of this seed with its policies, before its store is open.
pub fn closed(seed: u64, small: Settings) -> Node {
    let mut rng = Rng::stream(seed, 9);
    let plan = rng.chance(0.4).then(|| farlink_routing::ContactPlan {
        epoch: Some(support::NOW_UTC),
        contacts: (0..50).flat_map(|n| contacts(2, 7 * n + 1, 7 * n + 4, 200_000)).collect(),
    });
    let worth = rng.chance(0.5);
    let control = Rule {
        worth: Box::new(move |held| worth.then_some(held.number as f64)),
        rehome: Box::new(move |node, held| node.peers.up().next().map(|peer| peer.id).filter(|_| held.number % 5 == 0)),
        ..Rule::default()
    };
    match rng.below(4) {
        0 => Node::closed(small, plan, NoRouter, control),
        1 => Node::closed(small, plan, Script::flood(), control),
        2 => Node::closed(small, plan, Script::epidemic(), control),
        _ => Node::closed(small, plan, legs(), control),
    }
}

/// Limits of some shares, by seed.
fn limits(seed: u64) -> farlink_bpa::Limits {
    let mut rng = Rng::stream(seed, 6);
    let mut limits = farlink_bpa::Limits { fragments: 6, memory_bytes: 2000, ..Default::default() };
    if rng.chance(0.5) {
        limits.reserved_bytes = 1000 + rng.below(4000);
    }
    if rng.chance(0.3) {
        limits.source_bytes = 10_000 + rng.below(30_000);
    }
    if rng.chance(0.3) {
        limits.stranger_bytes = 10_000 + rng.below(30_000);
    }
    limits
}
/// A tunnel to `ipn:3`, with custody or without; `None` for some seeds.
pub fn rare(seed: u64) -> Option<Box<farlink_bpa::RareSettings>> {
    let mut rng = Rng::stream(seed, 7);
    let tunnel = farlink_bpa::TunnelSettings {
        to: vec!["ipn:8.*".into()],
        custody: rng.chance(0.5),
        timeout: Duration::from_millis(500),
        bundles: 1 + rng.below(4),
        version: support::toy::VERSION,
        ..farlink_bpa::TunnelSettings::new(EndpointId::ipn(3, 0))
    };
    let rare = farlink_bpa::RareSettings { tunnels: vec![tunnel], ..Default::default() };
    rng.chance(0.5).then(|| Box::new(rare))
}
/// Quotas, of a source and of a neighbour.
pub fn quotas(rng: &mut Rng) -> Vec<farlink_bpa::Quota> {
    let quota = |source: bool, bytes| farlink_bpa::Quota {
        sources: if source { vec!["ipn:5.*".into()] } else { vec![] },
        neighbours: vec!["ipn:2.*".into()],
        bytes,
        bundles: 20,
    };
    let all = [quota(true, 5000 + rng.below(50_000)), quota(false, 5000 + rng.below(50_000))];
    all.into_iter().filter(|_| rng.chance(0.7)).collect()
}

/// A router for contacts whose answers vary.
fn legs() -> Script {
    let mut rng = Rng::new(3);
    Script {
        route: Box::new(move |node, held, _| {
            use farlink_book::{NextHop, RouteDecision};
            let mut leg = || NextHop {
                link: LinkId(LINKS[rng.below(4) as usize]),
                not_before: node.now,
                until: node.now + Duration::from_millis(50 + 1000 * rng.below(5)),
            };
            match held.number % 4 {
                0 => RouteDecision::Wait(node.now + Duration::from_millis(700)),
                1 => RouteDecision::All(vec![leg(), leg(), leg()]),
                2 => RouteDecision::Carry,
                _ => RouteDecision::One(leg()),
            }
        }),
        ..Script::default()
    }
}
