//! Construction of nodes and links from a scenario; the counterpart of the node's configuration file in the testbed.

use crate::cable::{Cable, SharedTransmitters};
use crate::contacts::sky::Ephemeris;
use crate::naming::{DEFAULT_EPOCH, node_id, parse_id};
use crate::node::{NodeLink, SimulatedNode};
use crate::oracle::Network;
use crate::own::OwnPolicies;
use crate::shared_routes::Shared;
use crate::sim_event::End;
use crate::weights::{framing, message_span};
use farlink_base::{
    Clock, ClockTrust, ConfigError, DataVolume, DtnTime, Instant, LayerId, LinkId, NodeId, NodeSettings, Rng,
};
use farlink_cla::ltp::{Authentication, LinkKey};
use farlink_link::{DirectionSpec, LinkDirection, Transmitter, direction_seed, stream};
use farlink_routing::PlanIndex;
use farlink_scenario::{
    Custody, Fidelity, Link, LinkChange, LinkEnd, Node, NodeLayer, ReportRules, Scenario, StoreKind, first_delay,
    first_rate,
};
use farlink_stack::{
    CompressedConfig, CompressedSettings, Config, CustodyConfig, CustodySettings, Identity, KeyRing, LayerConfig,
    LayerKind, LinkConfig, LinkParams, Neighbour, Quota, Secret, SecurityConfig, Stack, TunnelSettings,
};
use std::sync::Arc;

fn epoch(scenario: &Scenario) -> DtnTime {
    scenario.epoch.unwrap_or(DEFAULT_EPOCH)
}

/// Clock of a node at the start: trusted and correct unless its settings differ.
pub(crate) fn clock(scenario: &Scenario, node: usize) -> Clock {
    let settings = scenario.nodes[node].settings();
    if settings.clock == ClockTrust::Untrusted {
        return Clock { at: Instant::ZERO, ..Clock::UNTRUSTED };
    }
    let utc = epoch(scenario).0.saturating_add_signed(settings.clock_offset / 1_000_000).max(1);
    Clock { at: Instant::ZERO, utc: Some(DtnTime(utc)), error_ms: settings.clock_error.as_millis() as u64 }
}

/// Contact plan shared by all nodes; includes the passes of satellites if a router uses the plan.
pub(crate) fn plan(scenario: &Scenario, ephemeris: Option<&Ephemeris>) -> Arc<PlanIndex> {
    let mut plan = scenario.contact_plan();
    let goes_by_it = |node: &Node| farlink_routing::make_router(&node.router.name, &node.router.params, &[], 0);
    let goes_by_it = |node: &Node| goes_by_it(node).is_ok_and(|router| router.uses_plan());
    if let Some(ephemeris) = ephemeris.filter(|_| scenario.nodes.iter().any(goes_by_it)) {
        plan.contacts.extend(ephemeris.plan(scenario));
    }
    plan.epoch = Some(epoch(scenario));
    Arc::new(PlanIndex::new(plan))
}

/// All nodes, with their stacks.
pub(crate) fn nodes(
    scenario: &Scenario,
    plan: &Arc<PlanIndex>,
    own: &dyn OwnPolicies,
) -> Result<Vec<SimulatedNode>, ConfigError> {
    // If one policy needs the oracle, all nodes report to it.
    let oracle = scenario.needs_oracle().map(|_| Network::of_nodes(scenario.nodes.len()));
    let own = &Shared::new(own, scenario);
    let node = |index: usize| node(scenario, index, plan.clone(), 0, oracle.as_ref(), own);
    (0..scenario.nodes.len()).map(node).collect()
}

/// Builds one node. `life` is the number of its earlier starts in the run: 0 at first, more after restarts.
pub(crate) fn node(
    scenario: &Scenario,
    index: usize,
    plan: Arc<PlanIndex>,
    life: u32,
    oracle: Option<&Network>,
    own: &dyn OwnPolicies,
) -> Result<SimulatedNode, ConfigError> {
    let (mut config, ends) = node_config(scenario, index, plan)?;
    let (router, control) = (own.router(index), own.control(index));
    // A policy of the caller is in no registry, whatever its name: a registered stand-in is configured first.
    if router.is_some() {
        (config.router, config.router_params) = ("static".into(), Vec::new());
    }
    if control.is_some() {
        (config.control, config.control_params) = ("none".into(), Vec::new());
    }
    if life > 0 {
        // A restarted node draws other random numbers, and security needs fresh start values.
        config.seed = Rng::stream(config.seed, u64::from(life)).next_u64();
        config.security.iter_mut().for_each(|security| security.start = life);
    }
    let layers = scenario.layers_of(index);
    let links = ends.iter().map(|end| NodeLink {
        cable: end.link,
        end: usize::from(!end.first),
        layer: LayerId(layers.iter().position(|layer| layer.links.contains(&end.link)).unwrap_or(0) as u16),
        peer: (end.peer_address, end.port).into(),
        sockets: scenario.fidelity == Fidelity::Full,
    });
    let mut stack = Stack::new(config)?;
    router.into_iter().for_each(|router| stack.set_router(router));
    control.into_iter().for_each(|control| stack.set_control(control));
    if let Some(oracle) = oracle {
        stack.set_oracle(Box::new(oracle.at(index)));
    }
    Ok(SimulatedNode::new(stack, links.collect()))
}

/// All links, with their two directions.
pub(crate) fn cables(scenario: &Scenario) -> Vec<Cable> {
    let places = scenario.places();
    let cable = |(index, link): (usize, &Link)| {
        let [first, second] = scenario.ends(index);
        let ends = [(first, 0), (second, 1)].map(|(end, side)| End {
            node: end.node,
            link: LinkId(places[index][side] as u32),
            address: (end.address, end.port).into(),
        });
        // The same packet size bounds UDP fragments and TCP segments.
        let mtu = u64::from(link.mtu_bytes);
        let streams = [first.node, second.node].map(|node| stream(&scenario.nodes[node].tcp, mtu));
        Cable::new(ends, directions(scenario, index), mtu, streams)
    };
    let mut cables: Vec<Cable> = scenario.links.iter().enumerate().map(cable).collect();
    for (place, links) in scenario.bottlenecks().into_iter().enumerate() {
        links.into_iter().for_each(|link| cables[link].bottleneck = Some(place));
    }
    cables
}

/// Transmitters of the scenario's bottlenecks.
pub(crate) fn bottlenecks(scenario: &Scenario) -> Vec<SharedTransmitters> {
    let shared = |links: Vec<usize>| {
        let specs: Vec<_> = links.into_iter().map(|link| scenario.link_spec(link)).collect();
        let forward = Transmitter::shared(specs.iter().map(|spec| &spec.forward))?;
        Some([forward, Transmitter::shared(specs.iter().map(|spec| &spec.reverse))?])
    };
    scenario.bottlenecks().into_iter().filter_map(shared).collect()
}

/// Parameters of a host's TCP over links of this MTU.
pub(crate) fn stream(tcp: &farlink_scenario::Tcp, mtu: u64) -> stream::Config {
    // The packets of the link bound the segments of TCP.
    stream::Config {
        segment_bytes: mtu.saturating_sub(stream::HEADERS).max(1),
        send_buffer: tcp.send_buffer.bytes(),
        receive_buffer: tcp.receive_buffer.bytes(),
        congestion: tcp.congestion,
        ..stream::Config::default()
    }
}

/// The two directions of a link.
pub(crate) fn directions(scenario: &Scenario, index: usize) -> [LinkDirection; 2] {
    let spec = scenario.link_spec(index);
    let direction =
        |spec: DirectionSpec, forward| LinkDirection::new(spec, direction_seed(scenario.seed, index, forward));
    [direction(spec.forward, true), direction(spec.reverse, false)]
}

/// Change of a link between two nodes: it appears or disappears.
pub(crate) struct Change {
    pub at: Instant,
    /// Index of the link in the scenario.
    pub link: usize,
    /// Configuration for both ends when the link appears; `None` when it disappears.
    pub appears: Option<[LinkConfig; 2]>,
}

/// All changes of links in the run, in order of time.
pub(crate) fn changes(scenario: &Scenario) -> Result<Vec<Change>, ConfigError> {
    let config = |end: LinkEnd| {
        let layers = scenario.layers_of(end.node);
        let layer = layers.iter().position(|layer| layer.links.contains(&end.link)).unwrap_or(usize::MAX);
        let mut config = link_config(scenario, &end, layer)?;
        if scenario.fidelity == Fidelity::Message {
            by_message(&mut config, scenario, &end);
        }
        Ok(config)
    };
    let change = |change: LinkChange| {
        let [first, second] = scenario.ends(change.link);
        let appears = if change.appears { Some([config(first)?, config(second)?]) } else { None };
        Ok(Change { at: Instant::ZERO + change.at, link: change.link, appears })
    };
    scenario.link_changes().into_iter().map(change).collect()
}

fn by_messages(config: &mut Config, scenario: &Scenario, ends: &[LinkEnd]) {
    // In message-level simulation nodes have no convergence layers: links carry whole bundles.
    config.layers = vec![LayerConfig { name: "messages".into(), kind: LayerKind::Message }];
    config.links.iter_mut().zip(ends).for_each(|(link, end)| by_message(link, scenario, end));
}

fn by_message(config: &mut LinkConfig, scenario: &Scenario, end: &LinkEnd) {
    let link = &scenario.links[end.link];
    let weight = framing(scenario, end.link);
    let overhead = u64::from(if end.first { link.forward.overhead } else { link.reverse.overhead });
    config.layer = 0;
    config.params = message_span(&weight, overhead);
}

/// Configuration of one node at its start, and all its link ends by link number, including links that appear later.
///
/// # Errors
/// Names the key of the scenario because of which no stack can be built.
pub fn node_config(
    scenario: &Scenario,
    index: usize,
    plan: Arc<PlanIndex>,
) -> Result<(Config, Vec<LinkEnd>), ConfigError> {
    let node = &scenario.nodes[index];
    let ends = scenario.ends_of(index);
    let mut config = Config::new(node_id(node)?);
    config.node_ids = node.ids.iter().map(|id| parse_id(node, id)).collect::<Result<_, _>>()?;
    // In the order of the testbed's configuration files: the index of a layer seeds its numbers.
    let layers = scenario.layers_of(index);
    config.layers = layers.iter().map(|layer| layer_config(node, layer)).collect::<Result<_, _>>()?;
    for end in ends.iter().filter(|end| scenario.links[end.link].appears.is_zero()) {
        let layer = layers.iter().position(|layer| layer.links.contains(&end.link)).unwrap_or(usize::MAX);
        config.links.push(link_config(scenario, end, layer)?);
    }
    config.plan = Some(plan);
    config.router = node.router.name.clone();
    config.router_params = node.router.params.clone();
    config.control = node.control.name.clone();
    config.control_params = node.control.params.clone();
    for route in &node.routes {
        config.routes.push((route.to.clone(), node_id(&scenario.nodes[route.via])?));
    }
    let kind = match node.store {
        StoreKind::Memory => farlink_stack::StoreKind::Memory,
        StoreKind::Durable => farlink_stack::StoreKind::Durable,
    };
    config.store.kind = kind;
    config.node = settings(scenario, node);
    config.compressed = node.compressed_reports.as_ref().map(compressed);
    config.quotas = quotas(node);
    config.custody = custody(node);
    config.tunnels = tunnels(scenario, node)?;
    // Random streams: 1 is for traffic, 2 for nodes, 3 for security, so that none shifts the draws of another.
    let drawn = || Rng::stream(scenario.seed, 2 << 32 | index as u64).next_u64();
    config.seed = config.node.seed.unwrap_or_else(drawn);
    config.security = security(scenario, index);
    if scenario.fidelity == Fidelity::Message {
        by_messages(&mut config, scenario, &ends);
    }
    Ok((config, ends))
}

fn settings(scenario: &Scenario, node: &Node) -> NodeSettings {
    // Dependent settings are computed as in the testbed's configuration file, with two exceptions. All peers are known
    // neighbours, so bundles of unknown ones need no limit; and at message level any bundle may use the whole store, so
    // nothing is reserved.
    let mut settings = node.settings();
    let stays = |path: &str| match path {
        "store.reserved" => scenario.fidelity == Fidelity::Message,
        path => path == "store.strangers",
    };
    settings.settle(|path| stays(path) || node.gives(path));
    settings
}

fn custody(node: &Node) -> Option<CustodyConfig> {
    // Derived from the scenario as the testbed's configuration file derives it.
    if node.custody == Custody::None {
        return None;
    }
    let rules = node.custody_rules.clone();
    let custody = CustodyConfig::of(&rules.terms);
    // Half of the store by default, so that custody never fills all of it.
    let bytes = rules.capacity.map_or(node.settings().store.capacity.bytes() / 2, DataVolume::bytes);
    let request = node.custody_request.clone();
    let settings = CustodySettings { from: rules.from, to: rules.to, request, bytes, ..custody.settings };
    Some(CustodyConfig { settings, ..custody })
}

fn compressed(reports: &ReportRules) -> CompressedConfig {
    // Derived from the scenario as the testbed's configuration file derives it.
    let ReportRules { to, request, terms } = reports.clone();
    let config = CompressedConfig::of(&terms);
    CompressedConfig { settings: CompressedSettings { to, request, ..config.settings }, ..config }
}

fn quotas(node: &Node) -> Vec<Quota> {
    // Derived from the scenario as the testbed's configuration file derives it.
    let quota = |given: &farlink_scenario::Quota| Quota {
        sources: given.sources.clone(),
        neighbours: given.neighbours.clone(),
        bytes: given.bytes_of(node.settings().store.capacity),
        bundles: given.bundles.unwrap_or(u64::MAX),
    };
    node.quotas.iter().map(quota).collect()
}

fn tunnels(scenario: &Scenario, node: &Node) -> Result<Vec<TunnelSettings>, ConfigError> {
    // Derived from the scenario as the testbed's configuration file derives it.
    let tunnel = |tunnel: &farlink_scenario::Tunnel| {
        let end = node_id(&scenario.nodes[tunnel.end])?;
        Ok(TunnelSettings { to: tunnel.to.clone(), ..TunnelSettings::of(end, &tunnel.terms) })
    };
    node.tunnels.iter().map(tunnel).collect()
}

fn security(scenario: &Scenario, index: usize) -> Option<SecurityConfig> {
    // A node gets only the keys that its rules name; a node without rules has no security.
    let rules = scenario.nodes[index].security.clone();
    if rules.is_empty() {
        return None;
    }
    let mut random = Rng::stream(scenario.seed, 3 << 32 | index as u64);
    let mut seed = [0; 32];
    seed.chunks_mut(8).for_each(|part| part.copy_from_slice(&random.next_u64().to_be_bytes()));
    let mut names: Vec<&String> = rules.iter().map(|rule| &rule.key).collect();
    names.sort_unstable();
    names.dedup();
    let key = |name: &String| (name.clone(), Secret::new(scenario.security_key(name).to_vec()));
    let keys = KeyRing::new(names.into_iter().map(key));
    Some(SecurityConfig { rules, keys, start: 0, seed, aes_gcm: None })
}

fn layer_config(node: &Node, layer: &NodeLayer) -> Result<LayerConfig, ConfigError> {
    // A node introduces itself with the same identity over every layer.
    let own = identity(node);
    let kind = LayerKind::new(layer.kind, own, node.layer_settings(layer.kind));
    let kind = kind.ok_or_else(|| unknown_layer(layer.kind.name))?;
    Ok(LayerConfig { name: layer.name.clone(), kind })
}

fn identity(node: &Node) -> Identity {
    // The identity under which the layers of its neighbours know the node.
    Identity { node_id: node.ids.first().cloned().unwrap_or_default(), engine: engine(node.number) }
}

fn unknown_layer(name: &str) -> ConfigError {
    ConfigError {
        path: "link.layer".into(),
        expected: format!("the simulator has no layer `{name}`"),
        hint: "run it --in lab".into(),
    }
}

/// LTP engine number of a node: the ipn number, or 2^31 plus 31 bits of a dtn node's number.
fn engine(node: NodeId) -> u64 {
    if node.is_named() { 1 << 31 | (node.0 & 0x7fff_ffff) } else { node.0 }
}

fn link_config(scenario: &Scenario, end: &LinkEnd, layer: usize) -> Result<LinkConfig, ConfigError> {
    let link = &scenario.links[end.link];
    let peer = &scenario.nodes[end.peer];
    let own = if end.first { &link.forward } else { &link.reverse };
    let kind = link.layer.kind;
    let known = LayerKind::new(kind, Identity::default(), &[]).ok_or_else(|| unknown_layer(kind.name))?;
    let to = Neighbour { identity: identity(peer), node: peer.number, connect: link.layer.connect.connects(end.first) };
    let mut span = known.link(to, &link.layer.settings_towards(own));
    if let (LinkParams::Ltp(span), Some(name)) = (&mut span, scenario.link_key(end.link)) {
        let secret = Secret::new(scenario.security_key(&name).to_vec());
        span.authentication = Authentication::HmacSha1(vec![LinkKey { id: Vec::new(), secret }]);
    }
    Ok(LinkConfig {
        name: link.name.clone(),
        peer: node_id(peer)?,
        layer,
        rate: first_rate(own),
        one_way_delay: first_delay(own),
        terms: link.terms,
        params: span,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_clock_follows_settings() {
        let node = |n: u8, keys: &str| format!("[[node]]\nname = \"n{n}\"\nid = \"ipn:{n}.0\"\n{keys}\n");
        let keys = ["", "clock = \"untrusted\"", "clock_offset = \"-1 h\"\nclock_error = \"7 ms\""];
        let nodes: String = keys.iter().zip(1..).map(|(keys, n)| node(n, keys)).collect();
        let scenario = Scenario::parse(&format!("name = \"s\"\nduration = \"1 s\"\n{nodes}")).expect("a scenario");
        let shown = [0, 1, 2].map(|node| clock(&scenario, node));
        assert_eq!((shown[0].utc, shown[0].error_ms), (Some(DEFAULT_EPOCH), 0));
        assert_eq!(shown[1].utc, None);
        assert_eq!((shown[2].utc, shown[2].error_ms), (Some(DtnTime(DEFAULT_EPOCH.0 - 3_600_000)), 7));
    }
}
