//! Which end of which link has which IPv4 address: the same in the simulator and in the testbed,
//! so that a capture of one explains a trace of the other.

use crate::types::Scenario;
use std::net::Ipv4Addr;

/// One end of one link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LinkEnd {
    /// Index of the link in [`Scenario::links`].
    pub link: usize,
    /// Index of the node in [`Scenario::nodes`].
    pub node: usize,
    /// Index of the node at the other end.
    pub peer: usize,
    /// Whether it is the first of the link's two nodes: then it sends `forward`.
    pub first: bool,
    /// Its address.
    pub address: Ipv4Addr,
    /// The address of the other end.
    pub peer_address: Ipv4Addr,
    /// Port the convergence layer listens on, at both ends.
    pub port: u16,
}

/// Length of the network prefix of each link.
pub const PREFIX_LENGTH: u8 = 24;

impl Scenario {
    /// Both ends of the link with this index: link `n` is the network `10.(n / 256).(n % 256).0/24`,
    /// its first node `.1`, its second `.2`. Panics if there is no such link.
    pub fn ends(&self, link: usize) -> [LinkEnd; 2] {
        let here = &self.links[link];
        let address = |host: u8| Ipv4Addr::new(10, (link / 256) as u8, (link % 256) as u8, host);
        let end = |i: usize| LinkEnd {
            link,
            node: here.between[i],
            peer: here.between[1 - i],
            first: i == 0,
            address: address(1 + i as u8),
            peer_address: address(2 - i as u8),
            port: here.port,
        };
        [end(0), end(1)]
    }
    /// All link ends of the node with this index, in order of links.
    pub fn ends_of(&self, node: usize) -> Vec<LinkEnd> {
        (0..self.links.len()).flat_map(|link| self.ends(link)).filter(|end| end.node == node).collect()
    }
}
