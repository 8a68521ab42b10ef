//! Flows of plain TCP and UDP between hosts: their paths over the links, and the IP routes of the hosts on them.

use crate::types::Scenario;
use farlink_base::{DataRate, Duration};
use std::collections::{BTreeMap, VecDeque};
use std::net::Ipv4Addr;

/// Transport protocol of a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FlowTransport {
    /// One TCP connection.
    Tcp,
    /// UDP datagrams.
    Udp,
}

impl FlowTransport {
    /// Word of the key.
    pub const fn name(self) -> &'static str {
        match self {
            FlowTransport::Tcp => "tcp",
            FlowTransport::Udp => "udp",
        }
    }
}

/// A flow between two hosts.
#[derive(Clone, PartialEq, Debug)]
pub struct Flow {
    /// Name of the flow in reports.
    pub name: String,
    /// Index of the node whose host sends.
    pub from: usize,
    /// Index of the node whose host receives.
    pub to: usize,
    /// Transport protocol.
    pub transport: FlowTransport,
    /// Rate of payload; `None`: as fast as TCP can.
    pub rate: Option<DataRate>,
    /// Payload bytes of each UDP datagram.
    pub datagram_bytes: u64,
    /// Beginning, from the start of the run.
    pub start: Duration,
    /// End, from the start of the run.
    pub stop: Duration,
    /// Port at which it is received.
    pub port: u16,
    /// Path of its packets, from the sender.
    pub path: Vec<FlowHop>,
}

/// A link on the path of a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlowHop {
    /// Index of the link in [`Scenario::links`].
    pub link: usize,
    /// Whether packets to the receiver cross it forward.
    pub forward: bool,
}

/// A route of one host to one address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IpRoute {
    /// Index of the node whose host has the route.
    pub node: usize,
    /// Destination address.
    pub to: Ipv4Addr,
    /// Address of the neighbour that forwards.
    pub via: Ipv4Addr,
}

impl Scenario {
    /// Links of each bottleneck, in the order of its first link.
    pub fn bottlenecks(&self) -> Vec<Vec<usize>> {
        let mut found: Vec<(&str, Vec<usize>)> = Vec::new();
        for (index, link) in self.links.iter().enumerate() {
            let Some(share) = link.shares.as_deref() else { continue };
            match found.iter_mut().find(|(name, _)| *name == share) {
                Some((_, links)) => links.push(index),
                None => found.push((share, vec![index])),
            }
        }
        found.into_iter().map(|(_, links)| links).collect()
    }

    /// Path of the fewest links from one node to another; of several, at each node over the link that stands first.
    /// `None` if there is none.
    pub(crate) fn shortest_path(&self, from: usize, to: usize) -> Option<Vec<FlowHop>> {
        let mut links_of = vec![Vec::new(); self.nodes.len()];
        for (index, link) in self.links.iter().enumerate() {
            link.between.iter().for_each(|node| links_of[*node].push(index));
        }
        // Distances from the destination, so that each node on the way knows which neighbour is closer.
        let mut distance = vec![usize::MAX; self.nodes.len()];
        let mut queue = VecDeque::from([to]);
        distance[to] = 0;
        while let Some(node) = queue.pop_front() {
            for link in &links_of[node] {
                let [a, b] = self.links[*link].between;
                let peer = if a == node { b } else { a };
                if distance[peer] == usize::MAX {
                    distance[peer] = distance[node] + 1;
                    queue.push_back(peer);
                }
            }
        }
        let (mut here, mut path) = (from, Vec::new());
        while distance[here] > 0 {
            let hop = |link: &usize| {
                let [a, b] = self.links[*link].between;
                let peer = if a == here { b } else { a };
                let closer = distance[here] != usize::MAX && distance[peer] + 1 == distance[here];
                closer.then_some((FlowHop { link: *link, forward: a == here }, peer))
            };
            let (hop, peer) = links_of[here].iter().find_map(hop)?;
            path.push(hop);
            here = peer;
        }
        Some(path)
    }

    /// Addresses of both ends of a flow: those of its first link at the sender, and of its last link at the receiver.
    pub fn flow_addresses(&self, flow: &Flow) -> Option<[Ipv4Addr; 2]> {
        let (first, last) = (flow.path.first()?, flow.path.last()?);
        let near = self.ends(first.link)[usize::from(!first.forward)];
        let far = self.ends(last.link)[usize::from(last.forward)];
        Some([near.address, far.address])
    }

    /// Routes that hosts need for the flows, to both ends of each. Links need none to their own ends.
    pub fn ip_routes(&self) -> Vec<IpRoute> {
        let mut routes = BTreeMap::new();
        for flow in &self.flows {
            let Some([near, far]) = self.flow_addresses(flow) else { continue };
            for (index, hop) in flow.path.iter().enumerate() {
                let ends = self.ends(hop.link);
                let [sender, receiver] = if hop.forward { ends } else { [ends[1], ends[0]] };
                if index + 1 < flow.path.len() {
                    routes.entry((sender.node, far)).or_insert(receiver.address);
                }
                if index > 0 {
                    routes.entry((receiver.node, near)).or_insert(sender.address);
                }
            }
        }
        routes.into_iter().map(|((node, to), via)| IpRoute { node, to, via }).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write;

    /// A scenario of nodes a to f with these links, and a flow from the first node to the last one named.
    fn scenario(links: &[&str], flow: &str) -> Scenario {
        let mut text = String::from("name = \"s\"\nduration = \"9 s\"\n");
        for (index, name) in ["a", "b", "c", "d", "e", "f"].iter().enumerate() {
            let _ = writeln!(text, "[[node]]\nname = \"{name}\"\nid = \"ipn:{}.0\"", index + 1);
        }
        for link in links {
            let (a, b) = link.split_at(1);
            let _ = writeln!(text, "[[link]]\nname = \"{link}\"\nbetween = [\"{a}\", \"{b}\"]\nlayer = \"ltp\"");
        }
        let (from, to) = flow.split_at(1);
        let _ = writeln!(text, "[[flow]]\nfrom = \"{from}\"\nto = \"{to}\"");
        Scenario::parse(&text).unwrap_or_else(|errors| panic!("{errors:#?}"))
    }

    #[test]
    fn shortest_path_prefers_first_links() {
        let scenario = scenario(&["ab", "bc", "cd", "eb", "ae", "ed"], "ad");
        let path = &scenario.flows[0].path;
        assert_eq!(path, &[FlowHop { link: 4, forward: true }, FlowHop { link: 5, forward: true }]);
        assert_eq!(scenario.shortest_path(3, 0).unwrap()[0], FlowHop { link: 5, forward: false });
        assert_eq!(scenario.shortest_path(0, 5), None);
        assert_eq!(scenario.shortest_path(1, 1), Some(Vec::new()));
    }

    #[test]
    fn hosts_on_the_path_get_routes_both_ways() {
        let scenario = scenario(&["ba", "bc", "cd"], "ad");
        let address = |text: &str| text.parse::<Ipv4Addr>().unwrap();
        let (near, far) = (address("10.0.0.2"), address("10.0.2.2"));
        assert_eq!(scenario.flow_addresses(&scenario.flows[0]), Some([near, far]));
        let expected = [
            (0, far, address("10.0.0.1")),
            (1, far, address("10.0.1.2")),
            (2, near, address("10.0.1.1")),
            (3, near, address("10.0.2.1")),
        ];
        assert_eq!(scenario.ip_routes(), expected.map(|(node, to, via)| IpRoute { node, to, via }));
    }

    #[test]
    fn neighbours_need_no_routes() {
        assert_eq!(scenario(&["ab", "bc"], "ab").ip_routes(), []);
    }
}
