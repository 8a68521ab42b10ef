//! From a scenario to nodes and links: what the node's configuration file says in the testbed.

use crate::cable::Cable;
use crate::node::{NodeLink, SimulatedNode};
use crate::world::End;
use farlink_base::{Clock, ConfigError, DataRate, DtnTime, Duration, Instant, LayerId, LinkId, NodeId, Rng};
use farlink_bundle::{CrcType, EndpointId};
use farlink_cla::{ltp, tcpcl_v4};
use farlink_link::{Delay, DirectionSpec, LinkDirection, Rate, UDP_IPV4_HEADERS, direction_seed};
use farlink_routing::ContactPlan;
use farlink_scenario::{ConnectSide, Crc, Layer, Link, LinkEnd, Ltp, Node, Scenario, StoreKind, TcpclV4};
use farlink_stack::{Config, LayerConfig, LayerKind, LinkConfig, SpanConfig, Stack, StoreConfig};
use std::sync::Arc;

/// Wall time at the start of a run whose scenario names none: 2026-01-01T00:00:00Z. Fixed, so that
/// a seed replays.
pub const DEFAULT_EPOCH: DtnTime = DtnTime(820_540_800_000);

/// The clock of every node: trusted, and right.
pub(crate) fn clock(scenario: &Scenario) -> Clock {
    Clock { at: Instant::ZERO, utc: Some(scenario.epoch.unwrap_or(DEFAULT_EPOCH)), error_ms: 0 }
}

/// All nodes, with their stacks.
pub(crate) fn nodes(scenario: &Scenario) -> Result<Vec<SimulatedNode>, ConfigError> {
    let mut plan = scenario.contact_plan();
    plan.epoch = clock(scenario).utc;
    let plan = Arc::new(plan);
    let node = |index: usize| {
        let (config, ends) = node_config(scenario, index, plan.clone())?;
        let layers: Vec<LayerId> = config.links.iter().map(|l| LayerId(l.layer as u16)).collect();
        let links = ends.iter().zip(layers).map(|(end, layer)| NodeLink {
            cable: end.link,
            end: usize::from(!end.first),
            layer,
            peer: (end.peer_address, end.port).into(),
        });
        Ok(SimulatedNode::new(Stack::new(config)?, links.collect()))
    };
    (0..scenario.nodes.len()).map(node).collect()
}

/// All links, with their two directions.
pub(crate) fn cables(scenario: &Scenario) -> Vec<Cable> {
    let cable = |(index, link): (usize, &Link)| {
        let spec = scenario.link_spec(index);
        let ends = scenario.ends(index).map(|end| End {
            node: end.node,
            link: number_at_node(scenario, &end),
            address: (end.address, end.port).into(),
        });
        let direction =
            |spec: DirectionSpec, forward| LinkDirection::new(spec, direction_seed(scenario.seed, index, forward));
        let directions = [direction(spec.forward, true), direction(spec.reverse, false)];
        Cable::new(ends, directions, u64::from(link.mtu_bytes))
    };
    scenario.links.iter().enumerate().map(cable).collect()
}

/// A node's number for a link: its place among the node's links.
fn number_at_node(scenario: &Scenario, end: &LinkEnd) -> LinkId {
    let place = scenario.ends_of(end.node).iter().position(|e| e.link == end.link);
    LinkId(place.unwrap_or(0) as u32)
}

/// The endpoint of a service at a node.
pub(crate) fn endpoint(node: &Node, service: u32) -> Result<EndpointId, ConfigError> {
    Ok(match node_id(node)? {
        EndpointId::Ipn { node, .. } => EndpointId::ipn(node, service),
        EndpointId::Dtn { node, .. } => EndpointId::dtn(&node, &service.to_string()),
        other => other,
    })
}

fn node_id(node: &Node) -> Result<EndpointId, ConfigError> {
    parse_id(node, node.ids.first().map_or("", String::as_str))
}

fn parse_id(node: &Node, text: &str) -> Result<EndpointId, ConfigError> {
    text.parse().map_err(|error| ConfigError {
        path: format!("node.{}.id", node.name),
        expected: format!("a node ID, not `{text}`: {error}"),
        hint: "write e.g. \"ipn:1.0\"".into(),
    })
}

/// The configuration of one node, and its link ends in the order of its link numbers.
///
/// # Errors
/// Names the key of the scenario that no stack can be made of.
pub fn node_config(
    scenario: &Scenario,
    index: usize,
    plan: Arc<ContactPlan>,
) -> Result<(Config, Vec<LinkEnd>), ConfigError> {
    let node = &scenario.nodes[index];
    let ends = scenario.ends_of(index);
    let mut config = Config::new(node_id(node)?);
    config.node_ids = node.ids.iter().map(|id| parse_id(node, id)).collect::<Result<_, _>>()?;
    // LTP first, as in the testbed's configuration files: a layer's place seeds its numbers.
    let over_ltp = |end: &&LinkEnd| matches!(scenario.links[end.link].layer, Layer::Ltp(_));
    for end in ends.iter().filter(over_ltp).chain(&ends) {
        layer_for(&mut config, node, &scenario.links[end.link].layer);
    }
    for end in &ends {
        let layer = layer_for(&mut config, node, &scenario.links[end.link].layer);
        let link = link_config(scenario, end, layer)?;
        config.links.push(link);
    }
    config.plan = Some(plan);
    config.router = node.router.name.clone();
    config.router_params = node.router.params.clone();
    config.control = node.control.name.clone();
    config.control_params = node.control.params.clone();
    for route in &node.routes {
        config.routes.push((route.to.clone(), node_id(&scenario.nodes[route.via])?));
    }
    config.store = StoreConfig {
        kind: match node.store {
            StoreKind::Memory => farlink_stack::StoreKind::Memory,
            StoreKind::Durable => farlink_stack::StoreKind::Durable,
        },
        capacity: node.store_capacity,
    };
    config.crc = match node.crc {
        Crc::None => CrcType::None,
        Crc::Crc16 => CrcType::Crc16,
        Crc::Crc32c => CrcType::Crc32c,
    };
    config.status_reports = node.status_reports;
    config.hop_limit = node.hop_limit;
    config.seed = Rng::stream(scenario.seed, 2 << 32 | index as u64).next_u64();
    Ok((config, ends))
}

/// The node's layer of this kind; one serves all its links.
fn layer_for(config: &mut Config, node: &Node, layer: &Layer) -> usize {
    let same = |l: &LayerConfig| {
        matches!((&l.kind, layer), (LayerKind::Ltp(_), Layer::Ltp(_)) | (LayerKind::TcpclV4(_), Layer::TcpclV4(_)))
    };
    if let Some(index) = config.layers.iter().position(same) {
        return index;
    }
    let (name, kind) = match layer {
        Layer::Ltp(_) => {
            let settings = ltp::Config { engine: engine(node.number), ..ltp::Config::default() };
            ("ltp", LayerKind::Ltp(settings))
        }
        Layer::TcpclV4(tcpcl) => {
            let node_id = node.ids.first().cloned().unwrap_or_default();
            let settings = tcpcl_v4::Config { node_id, keepalive: tcpcl.keepalive, ..tcpcl_v4::Config::default() };
            ("tcpclv4", LayerKind::TcpclV4(settings))
        }
    };
    config.layers.push(LayerConfig { name: name.into(), kind });
    config.layers.len() - 1
}

/// LTP engine number of a node: its ipn number; dtn nodes count from 2^31.
fn engine(node: NodeId) -> u64 {
    node.interned_index().map_or(node.0, |index| (1 << 31) + u64::from(index))
}

fn link_config(scenario: &Scenario, end: &LinkEnd, layer: usize) -> Result<LinkConfig, ConfigError> {
    let link = &scenario.links[end.link];
    let peer = &scenario.nodes[end.peer];
    let own = if end.first { &link.forward } else { &link.reverse };
    let span = match &link.layer {
        Layer::Ltp(ltp) => SpanConfig::Ltp(ltp_span(ltp, peer.number, own)),
        Layer::TcpclV4(tcpcl) => SpanConfig::TcpclV4(tcpcl_span(tcpcl, peer, end.first)),
    };
    Ok(LinkConfig {
        name: link.name.clone(),
        peer: node_id(peer)?,
        layer,
        rate: first_rate(own),
        one_way_delay: first_delay(own),
        span,
    })
}

fn ltp_span(ltp: &Ltp, peer: NodeId, own: &DirectionSpec) -> ltp::SpanConfig {
    ltp::SpanConfig {
        engine: engine(peer),
        node: peer,
        datagram_bytes: ltp.datagram_bytes,
        overhead_bytes: UDP_IPV4_HEADERS as u32 + own.overhead,
        sessions: ltp.sessions,
        window_bytes: ltp.window_bytes,
        aggregate_bytes: ltp.aggregate_bytes,
        aggregate_wait: ltp.aggregate_wait,
        margin: ltp.margin,
        attempts: ltp.attempts,
        checkpoint_every: ltp.checkpoint_every_bytes,
        ..ltp::SpanConfig::default()
    }
}

fn tcpcl_span(tcpcl: &TcpclV4, peer: &Node, first: bool) -> tcpcl_v4::SpanConfig {
    tcpcl_v4::SpanConfig {
        node_id: peer.ids.first().cloned().unwrap_or_default(),
        connect: match tcpcl.connect {
            ConnectSide::First => first,
            ConnectSide::Second => !first,
            ConnectSide::Both => true,
        },
        reconnect_min: tcpcl.reconnect_min,
        reconnect_max: tcpcl.reconnect_max,
        segment_bytes: tcpcl.segment_bytes,
        window_bytes: tcpcl.window_bytes,
        ..tcpcl_v4::SpanConfig::default()
    }
}

/// The rate a node obeys when no contact gives one.
fn first_rate(direction: &DirectionSpec) -> Option<DataRate> {
    match &direction.rate {
        Rate::Unlimited => None,
        Rate::Constant(rate) => Some(*rate),
        Rate::Steps(steps) => steps.first().map(|(_, rate)| *rate),
    }
}

fn first_delay(direction: &DirectionSpec) -> Duration {
    match &direction.delay {
        Delay::Constant(delay) => *delay,
        Delay::Table(points) => points.first().map_or(Duration::ZERO, |(_, delay)| *delay),
    }
}
