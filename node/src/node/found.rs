//! Links for neighbours found by discovery.

use super::links::Links;
use super::{DISCOVERY, GivenLink, Node};
use crate::clock;
use crate::config::{DiscoverySettings, LinkSettings};
use crate::discovery::{Discovery, Own};
use farlink_base::{Duration, EndpointId, Instant, LayerId, LinkTerms, NodeId};
use farlink_cla::announce::{ATTEMPT, Around, BeaconCounts, DiscoveredId, LinkNow, Output};
use farlink_stack::{Identity, LinkConfig, Neighbour, Stack};
use std::net::SocketAddr;

/// Discovered neighbour, for operators.
#[derive(Clone, Debug)]
pub struct Announced {
    /// Node ID that the neighbour announces.
    pub node: EndpointId,
    /// Layer of this node that reaches the neighbour.
    pub layer: String,
    /// Address of the service.
    pub address: SocketAddr,
    /// Link made for the neighbour; `None` if not yet, or if a better link exists.
    pub link: Option<String>,
    /// Time since the neighbour's first beacon.
    pub since: Duration,
    /// Time since the neighbour's last beacon.
    pub silent: Duration,
    /// Interval between the neighbour's beacons, as announced.
    pub period: Duration,
    /// Number of beacons received.
    pub beacons: u64,
    /// Sequence number of the last beacon.
    pub sequence: Option<u32>,
}

/// State of this node that the announcer queries: the links that lead to a neighbour, and whether they are up.
struct Known<'a> {
    now: Instant,
    stack: &'a Stack,
    links: &'a Links,
    own: &'a [(LayerId, SocketAddr)],
    discovery: &'a dyn Fn(DiscoveredId) -> Option<(farlink_base::LinkId, String)>,
    layer: &'a dyn Fn(usize) -> Option<usize>,
}
impl Around for Known<'_> {
    fn is_known(&self, node: &EndpointId, layer: usize, address: SocketAddr) -> bool {
        // An unknown layer cannot be used: treat the neighbour as known, so that no link is made.
        let Some(layer) = (self.layer)(layer) else { return true };
        let id = LayerId(layer as u16);
        self.stack.is_surely_known(node)
            || self.links.leads_to(layer, &address.to_string())
            || self.own.contains(&(id, address))
            || self.stack.serves(id, node, address.ip())
    }
    fn state(&self, id: DiscoveredId) -> LinkNow {
        // The name may by now belong to another link, made by an operator.
        let link = (self.discovery)(id).filter(|(link, name)| self.links.named(name) == Some(*link));
        match link.and_then(|(link, _)| self.stack.link_state(self.now, link)) {
            Some("up") => LinkNow::Up,
            Some("disabled") => LinkNow::Off,
            _ => LinkNow::Down,
        }
    }
}

impl Node {
    /// Opens the sockets of discovery.
    pub(super) fn open_discovery(&self, settings: Option<DiscoverySettings>) -> anyhow::Result<Option<Box<Discovery>>> {
        let Some(settings) = settings else { return Ok(None) };
        let own = Own {
            node_ids: &self.config.stack.node_ids,
            layers: &self.config.stack.layers,
            settings: &self.config.layers,
            addresses: &self.addresses,
            seed: self.config.stack.seed,
        };
        let discovery = Discovery::open(settings, &own, clock::now(), (&self.io.poller, DISCOVERY))?;
        Ok(Some(Box::new(discovery)))
    }
    /// Replaces discovery, and ends the links that the previous one made.
    pub(super) fn set_discovery(&mut self, fresh: Option<Box<Discovery>>) {
        let old = std::mem::replace(&mut self.discovery, fresh);
        for (link, name) in old.iter().flat_map(|old| old.links().values()) {
            self.end_found(*link, name);
        }
        self.name_links();
    }
    /// Handles beacons, and makes and ends links accordingly.
    pub(super) fn discover(&mut self, now: Instant) {
        let due = |discovery: &Discovery| discovery.busy() || discovery.next_timeout().is_some_and(|at| at <= now);
        if self.stopping.is_some() || !self.discovery.as_deref().is_some_and(due) {
            return;
        }
        let outputs = self.ask_announcer(|discovery, known| discovery.turn(now, known)).unwrap_or_default();
        let changed = !outputs.is_empty();
        for output in outputs {
            match output {
                Output::Discovered { id, node, layer, address } => self.make_found(id, &node, layer, address),
                Output::Lost { id, why } => {
                    let ended = self.discovery.as_mut().and_then(|discovery| discovery.ended(id));
                    if let Some((link, name)) = ended {
                        tracing::info!("neighbour lost: link {name}: {why}");
                        self.end_found(link, &name);
                    }
                }
                Output::Announce(_) => {}
            }
        }
        if changed {
            self.name_links();
        }
    }
    /// Announces that this node leaves.
    pub(super) fn leave(&mut self, now: Instant) {
        self.ask_announcer(|discovery, known| discovery.leave(now, known));
    }
    fn ask_announcer<T>(&mut self, ask: impl FnOnce(&mut Discovery, &Known<'_>) -> T) -> Option<T> {
        // Discovery is taken out of the node for the call, as the answers in `Known` borrow the rest of the node.
        let mut discovery = self.discovery.take()?;
        let links = discovery.links().clone();
        let layers: Vec<usize> = (0..).map_while(|place| discovery.layer(place)).collect();
        let known = Known {
            now: clock::now(),
            stack: &self.stack,
            links: &self.known,
            own: &self.addresses,
            discovery: &|id| links.get(&id).cloned(),
            layer: &|place| layers.get(place).copied(),
        };
        let answer = ask(&mut discovery, &known);
        self.discovery = Some(discovery);
        Some(answer)
    }

    fn make_found(&mut self, id: DiscoveredId, node: &EndpointId, place: usize, address: SocketAddr) {
        let layer = self.discovery.as_ref().and_then(|discovery| discovery.layer(place));
        let Some(layer) = layer.filter(|layer| *layer < self.config.stack.layers.len()) else { return };
        let name = format!("found:{node}@{address}");
        let given = found_link(&self.config.stack.layers[layer].kind, node, layer, &name, address);
        let made = self.set_found_link(given);
        match (made, self.discovery.as_mut()) {
            (Ok(link), Some(discovery)) => discovery.made(id, link, name),
            (Err(why), _) => tracing::warn!("no link to the neighbour found: {why}"),
            _ => {}
        }
    }
    fn end_found(&mut self, link: farlink_base::LinkId, name: &str) {
        // An operator may have removed the link.
        if self.known.named(name) == Some(link) {
            self.end_link(link);
        }
    }
    /// Ends discovered links to a node that now has a configured one.
    pub(super) fn end_found_links_to(&mut self, node: NodeId) {
        let found: Vec<_> = self.discovery.iter().flat_map(|discovery| discovery.links().values()).cloned().collect();
        for (link, name) in found {
            if self.known.peer_of(link) == Some(node) {
                self.end_found(link, &name);
            }
        }
    }

    /// Discovered neighbours and counters of beacons; `None` without discovery.
    pub fn announced(&self) -> Option<(Vec<Announced>, BeaconCounts)> {
        let discovery = self.discovery.as_ref()?;
        let now = clock::now();
        let one = |(node, heard): (&EndpointId, &farlink_cla::announce::AnnouncedNode)| Announced {
            node: node.clone(),
            layer: discovery.layer(heard.layer).map_or_else(String::new, |at| self.config.layers[at].name.clone()),
            address: heard.address,
            link: heard.link_id().and_then(|id| discovery.link(id)).map(|(_, name)| name.clone()),
            since: now.since(heard.first),
            silent: now.since(heard.last),
            period: heard.period,
            beacons: heard.beacons,
            sequence: heard.sequence,
        };
        Some((discovery.announced().map(one).collect(), discovery.counts()))
    }
}

/// Configuration of a link to a discovered neighbour.
fn found_link(
    kind: &farlink_stack::LayerKind,
    node: &EndpointId,
    layer: usize,
    name: &str,
    address: SocketAddr,
) -> GivenLink {
    let number = node.ipn_node();
    let to = Neighbour {
        identity: Identity { node_id: node.to_string(), engine: number.unwrap_or_default() },
        node: number.map_or(NodeId::NULL, |_| node.node()),
        connect: true,
    };
    let link = LinkConfig {
        name: name.to_string(),
        peer: node.clone(),
        layer,
        rate: None,
        one_way_delay: Duration::ZERO,
        terms: LinkTerms::default(),
        params: kind.link(to, &[]).discovered(ATTEMPT * 2),
    };
    (link, LinkSettings { address: Some(address.to_string()), key: None })
}
