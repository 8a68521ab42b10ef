//! Discovery: sockets around [`farlink_cla::announce`], and the links made for discovered neighbours.

use crate::config::{DiscoverySettings, LayerSettings};
use anyhow::{Context, anyhow};
use farlink_base::{EndpointId, Instant, LayerId, LinkId};
use farlink_cla::announce::beacon::BEACON_MAX;
use farlink_cla::announce::{
    AnnouncedNode, AnnouncedService, Announcer, Around, BeaconCounts, Config, DiscoveredId, Input, Output,
};
use farlink_os::multicast;
use farlink_os::poll::Poller;
use farlink_stack::LayerConfig;
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, UdpSocket};

/// Most datagrams read from one socket in one turn, so that a flood does not keep the node from its work.
const TURN: usize = 64;
/// Maximum number of sockets; there is one for each address on each interface.
const SOCKETS_MAX: usize = 64;

/// Description of this node, for its announcements.
pub struct Own<'a> {
    /// Node IDs announced.
    pub node_ids: &'a [EndpointId],
    /// Configuration of the node's layers.
    pub layers: &'a [LayerConfig],
    /// Driver settings of the same layers.
    pub settings: &'a [LayerSettings],
    /// Bound addresses of the layers.
    pub addresses: &'a [(LayerId, SocketAddr)],
    /// Seed of the announcer's random numbers.
    pub seed: u64,
}

/// Discovery of a node.
pub struct Discovery {
    settings: DiscoverySettings,
    announcer: Announcer,
    /// Indices of the node's layers, in the order of the announcer's configuration.
    layers: Vec<usize>,
    sockets: Vec<FoundPlace>,
    /// Number and name of the link made for each discovered neighbour.
    links: BTreeMap<DiscoveredId, (LinkId, String)>,
}

struct FoundPlace {
    socket: UdpSocket,
    to: Vec<SocketAddr>,
    readable: bool,
    /// Whether the last beacon could not be sent; only the first failure is logged.
    failed: bool,
}

impl Discovery {
    /// Opens the sockets, watched by `poller` under `tag` plus their index.
    ///
    /// # Errors
    /// If an address or interface is unavailable; the error names it.
    pub fn open(
        settings: DiscoverySettings,
        own: &Own<'_>,
        now: Instant,
        (poller, tag): (&Poller, u64),
    ) -> anyhow::Result<Discovery> {
        let mut layers = Vec::new();
        for name in &settings.layers {
            let place = own.layers.iter().position(|layer| layer.name == *name);
            let info = place.and_then(|place| Some((place, own.layers[place].kind.info()?)));
            layers.push(info.ok_or_else(|| {
                anyhow!("discovery.layers: the node did not start with layer `{name}`\nhint: start the node anew")
            })?);
        }
        let served = layers.iter().filter_map(|(place, info)| {
            let bound = own.addresses.iter().find(|(layer, _)| usize::from(layer.0) == *place);
            // A layer that does not listen cannot be reached.
            bound.filter(|_| own.settings.get(*place).is_some_and(|layer| !layer.listen.is_empty()))?;
            bound.map(|(_, address)| AnnouncedService { layer: info, port: address.port() })
        });
        let config = Config {
            node_ids: own.node_ids.to_vec(),
            services: served.collect(),
            interval: settings.interval,
            reach: layers.iter().map(|(_, info)| *info).collect(),
            accept: settings.accept.clone(),
            neighbours_max: settings.neighbours,
            seed: own.seed,
        };
        let sockets = open(&settings)?;
        for (place, socket) in sockets.iter().enumerate() {
            poller.add(&socket.socket, tag | place as u64)?;
        }
        Ok(Discovery {
            announcer: Announcer::new(config, now),
            layers: layers.into_iter().map(|(place, _)| place).collect(),
            links: BTreeMap::new(),
            settings,
            sockets,
        })
    }
    /// Settings in effect.
    pub fn settings(&self) -> &DiscoverySettings {
        &self.settings
    }
    /// Converts a layer's index in the announcer's configuration to its index among the node's layers; `None` if
    /// unknown.
    pub fn layer(&self, place: usize) -> Option<usize> {
        self.layers.get(place).copied()
    }
    /// Returns whether the next turn has work without waiting for the kernel.
    pub fn busy(&self) -> bool {
        self.sockets.iter().any(|place| place.readable)
    }
    /// Deadline for [`Discovery::turn`].
    pub fn next_timeout(&self) -> Option<Instant> {
        self.announcer.next_timeout()
    }
    /// Marks a socket as readable.
    pub fn on_readable(&mut self, place: usize) {
        if let Some(place) = self.sockets.get_mut(place) {
            place.readable = true;
        }
    }
    /// Reads beacons and sends due ones; returns the remaining outputs: links to make and to end.
    pub fn turn(&mut self, now: Instant, around: &impl Around) -> Vec<Output> {
        let mut out = Vec::new();
        let mut bytes = [0; BEACON_MAX + 1];
        for place in self.sockets.iter_mut().filter(|place| place.readable) {
            for _ in 0..TURN {
                match place.socket.recv_from(&mut bytes) {
                    Ok((length, from)) => {
                        let input = Input::Heard { from, bytes: &bytes[..length] };
                        self.announcer.handle(now, input, around, &mut out);
                    }
                    Err(why) if why.kind() == ErrorKind::WouldBlock => {
                        place.readable = false;
                        break;
                    }
                    // Errors of earlier sends surface here; the socket is fine.
                    Err(why) => tracing::trace!("hearing an announcement: {why}"),
                }
            }
        }
        if self.next_timeout().is_some_and(|at| at <= now) {
            self.announcer.handle(now, Input::Wake, around, &mut out);
        }
        self.said(out)
    }
    /// Announces that this node leaves.
    pub fn leave(&mut self, now: Instant, around: &impl Around) {
        let mut out = Vec::new();
        self.announcer.handle(now, Input::Leave, around, &mut out);
        self.said(out);
    }
    /// Sends announcements; returns all other outputs.
    fn said(&mut self, out: Vec<Output>) -> Vec<Output> {
        let mut rest = Vec::new();
        for output in out {
            match output {
                Output::Announce(bytes) => self.sockets.iter_mut().for_each(|place| place.say(&bytes)),
                other => rest.push(other),
            }
        }
        rest
    }
    /// Records the link made for a discovered neighbour.
    pub fn made(&mut self, id: DiscoveredId, link: LinkId, name: String) {
        self.links.insert(id, (link, name));
    }
    /// Forgets a lost neighbour; returns its link.
    pub fn ended(&mut self, id: DiscoveredId) -> Option<(LinkId, String)> {
        self.links.remove(&id)
    }
    /// Link of a discovered neighbour.
    pub fn link(&self, id: DiscoveredId) -> Option<&(LinkId, String)> {
        self.links.get(&id)
    }
    /// Links of all discovered neighbours.
    pub fn links(&self) -> &BTreeMap<DiscoveredId, (LinkId, String)> {
        &self.links
    }
    /// Neighbours discovered so far.
    pub fn announced(&self) -> impl Iterator<Item = (&EndpointId, &AnnouncedNode)> {
        self.announcer.announced()
    }
    /// Counters of beacons.
    pub fn counts(&self) -> BeaconCounts {
        self.announcer.counts()
    }
}

impl FoundPlace {
    fn say(&mut self, bytes: &[u8]) {
        let mut failed = false;
        for to in &self.to {
            if let Err(why) = self.socket.send_to(bytes, to) {
                failed = true;
                if !self.failed {
                    let hint = "[discovery] interfaces = [\"NAME\"] says by which way";
                    tracing::warn!("this node cannot announce itself to {to}: {why}\nhint: {hint}");
                }
            }
        }
        self.failed = failed;
    }
}

/// Opens a socket for each address on each interface.
fn open(settings: &DiscoverySettings) -> anyhow::Result<Vec<FoundPlace>> {
    let groups: Vec<IpAddr> = settings.to.iter().map(SocketAddr::ip).filter(IpAddr::is_multicast).collect();
    let every = [None];
    let named: Vec<Option<&str>> = settings.interfaces.iter().map(|name| Some(&name[..])).collect();
    let interfaces = if named.is_empty() { &every[..] } else { &named };
    anyhow::ensure!(
        settings.listen.len() * interfaces.len() <= SOCKETS_MAX,
        "discovery: more than {SOCKETS_MAX} addresses on interfaces\nhint: name fewer"
    );
    let mut places = Vec::new();
    for listen in &settings.listen {
        let to: Vec<SocketAddr> = settings.to.iter().filter(|to| to.is_ipv4() == listen.is_ipv4()).copied().collect();
        for interface in interfaces {
            let socket = multicast::open(listen, &groups, *interface).map_err(|why| match why.kind() {
                ErrorKind::NotFound | ErrorKind::Other => anyhow!("{why}\nhint: `ip link` lists the interfaces"),
                _ => anyhow!("{why}{}", crate::hint(&why)),
            });
            let socket = socket.with_context(|| format!("announcements at UDP {listen}"))?;
            places.push(FoundPlace { socket, to: to.clone(), readable: true, failed: false });
        }
    }
    Ok(places)
}
