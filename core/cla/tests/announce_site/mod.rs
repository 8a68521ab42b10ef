//! A node that announces itself and receives beacons, in virtual time; a test decides which links come up.
#![allow(dead_code)]

use farlink_base::{Duration, EndpointId, Instant};
use farlink_cla::announce::{
    AnnouncedService, Announcer, Around, Beacon, Config, DiscoveredId, Input, LinkNow, Output,
};
use farlink_cla::registry::LayerInfo;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

pub fn layer(name: &str) -> &'static LayerInfo {
    LayerInfo::named(name).unwrap()
}
pub fn at(address: &str) -> SocketAddr {
    address.parse().unwrap()
}
pub fn s(seconds: f64) -> Instant {
    Instant((seconds * 1e9) as u64)
}
/// Beacon of a node that serves TCPCLv4 at port 4556.
pub fn beacon(node: &str, period: u64) -> Vec<u8> {
    numbered(node, period, 0)
}
pub fn numbered(node: &str, period: u64, sequence: u32) -> Vec<u8> {
    serving(node, period, sequence, &[("tcpclv4", 4556)])
}
pub fn serving(node: &str, period: u64, sequence: u32, services: &[(&str, u16)]) -> Vec<u8> {
    let services = services.iter().map(|(name, port)| AnnouncedService { layer: layer(name), port: *port }).collect();
    let period = Some(Duration::from_secs(period));
    Beacon { node: node.parse().unwrap(), sequence: Some(sequence), services, period }.emit()
}

/// Answers of the node to the announcer's queries.
#[derive(Default)]
pub struct SiteWorld {
    /// Node IDs of nodes that can be reached without a new link.
    pub known: BTreeSet<String>,
    /// Addresses that accept connections.
    pub answer: BTreeSet<SocketAddr>,
    /// Links disabled by an operator.
    pub off: BTreeSet<DiscoveredId>,
    links: RefCell<BTreeMap<DiscoveredId, SocketAddr>>,
}
impl Around for SiteWorld {
    fn is_known(&self, node: &EndpointId, _: usize, _: SocketAddr) -> bool {
        self.known.contains(&node.to_string())
    }
    fn state(&self, id: DiscoveredId) -> LinkNow {
        let links = self.links.borrow();
        match links.get(&id) {
            _ if self.off.contains(&id) => LinkNow::Off,
            Some(address) if self.answer.contains(address) => LinkNow::Up,
            _ => LinkNow::Down,
        }
    }
}

pub struct AnnounceSite {
    pub announcer: Announcer,
    pub world: SiteWorld,
    pub now: Instant,
    /// Beacons sent, with the times of sending.
    pub said: Vec<(Instant, Vec<u8>)>,
    /// Links made: time, number, node ID, address, layer.
    pub discovered: Vec<(Instant, DiscoveredId, String, SocketAddr, usize)>,
    /// Links ended: time, number, reason.
    pub lost: Vec<(Instant, DiscoveredId, &'static str)>,
}
impl AnnounceSite {
    /// Creates a site with this node ID and an interval of 5 s, which connects by TCPCLv4.
    pub fn new(name: &str, change: impl FnOnce(&mut Config)) -> AnnounceSite {
        let mut config = Config {
            node_ids: vec![name.parse().unwrap()],
            services: vec![AnnouncedService { layer: layer("tcpclv4"), port: 4556 }],
            interval: Duration::from_secs(5),
            reach: vec![layer("tcpclv4")],
            accept: vec!["*".into()],
            neighbours_max: 32,
            seed: 1,
        };
        change(&mut config);
        let announcer = Announcer::new(config, Instant::ZERO);
        let (world, now) = (SiteWorld::default(), Instant::ZERO);
        AnnounceSite { announcer, world, now, said: Vec::new(), discovered: Vec::new(), lost: Vec::new() }
    }
    fn give(&mut self, input: Input<'_>) {
        let mut out = Vec::new();
        self.announcer.handle(self.now, input, &self.world, &mut out);
        for output in out {
            match output {
                Output::Announce(bytes) => self.said.push((self.now, bytes)),
                Output::Discovered { id, node, layer, address } => {
                    self.world.links.borrow_mut().insert(id, address);
                    self.discovered.push((self.now, id, node.to_string(), address, layer));
                }
                Output::Lost { id, why } => {
                    assert!(self.world.links.borrow_mut().remove(&id).is_some(), "it was there");
                    self.lost.push((self.now, id, why));
                }
            }
        }
    }
    pub fn receive(&mut self, from: &str, bytes: &[u8]) {
        self.receive_at(at(from), bytes);
    }
    pub fn receive_at(&mut self, from: SocketAddr, bytes: &[u8]) {
        self.give(Input::Heard { from, bytes });
    }
    pub fn until(&mut self, end: f64) {
        let end = s(end);
        while let Some(next) = self.announcer.next_timeout().filter(|next| *next <= end) {
            assert!(next >= self.now, "time does not go back");
            self.now = next;
            self.give(Input::Wake);
            assert!(self.announcer.next_timeout().is_none_or(|after| after > next), "no endless loop");
        }
        self.now = end;
    }
    pub fn leave(&mut self) {
        self.give(Input::Leave);
    }
    /// Number of links that exist.
    pub fn links(&self) -> usize {
        self.world.links.borrow().len()
    }
    /// Node IDs of all nodes discovered so far, in order.
    pub fn names(&self) -> Vec<&str> {
        self.discovered.iter().map(|found| &found.2[..]).collect()
    }
}
