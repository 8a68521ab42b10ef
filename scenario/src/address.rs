//! IPv4 addresses of the ends of links: the same in the simulator and in the testbed, so that a capture of one explains
//! a trace of the other.

use crate::types::{LinkChange, Scenario};
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
    /// Whether this end is at the link's first node, which sends in the forward direction.
    pub first: bool,
    /// Address of this end.
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
        // At most 65,536 links are parsed, so both octets fit.
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
    /// All link ends of the node with this index, by time of appearance, then in the order of links.
    pub fn ends_of(&self, node: usize) -> Vec<LinkEnd> {
        let ends = (0..self.links.len()).flat_map(|link| self.ends(link)).filter(|end| end.node == node);
        let mut ends: Vec<LinkEnd> = ends.collect();
        // The sort is stable, so links that appear at the same time keep the order of the file.
        ends.sort_by_key(|end| self.links[end.link].appears);
        ends
    }
    /// For each link, its index in the list of [`Scenario::ends_of`] at its first and at its second node.
    pub fn places(&self) -> Vec<[usize; 2]> {
        let mut order: Vec<usize> = (0..self.links.len()).collect();
        order.sort_by_key(|link| self.links[*link].appears);
        // One pass over all links: calling `ends_of` for each node would take links times nodes.
        let (mut places, mut count) = (vec![[0; 2]; self.links.len()], vec![0; self.nodes.len()]);
        for link in order {
            places[link] = self.links[link].between.map(|node| {
                count[node] += 1;
                count[node] - 1
            });
        }
        places
    }
    /// Links that appear or disappear during the run, in order of time.
    pub fn link_changes(&self) -> Vec<LinkChange> {
        let mut changes = Vec::new();
        for (link, l) in self.links.iter().enumerate() {
            // A link that exists from the start is part of the nodes' configuration, and no change.
            let appears = (!l.appears.is_zero()).then_some(LinkChange { at: l.appears, link, appears: true });
            let disappears = l.disappears.map(|at| LinkChange { at, link, appears: false });
            changes.extend(appears.into_iter().chain(disappears));
        }
        changes.sort_by_key(|change| change.at);
        changes
    }
}
