//! Flows of plain TCP and UDP between hosts: their paths over the links, and the IP routes of the hosts on them.

use crate::types::Scenario;
use farlink_base::{DataRate, Duration};
use std::collections::BTreeMap;
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
    /// Word in the scenario file.
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
    /// Rate of payload; `None`: as fast as TCP allows.
    pub rate: Option<DataRate>,
    /// Payload bytes of each UDP datagram.
    pub datagram_bytes: u64,
    /// Beginning, from the start of the run.
    pub start: Duration,
    /// End, from the start of the run.
    pub stop: Duration,
    /// Port at which the receiver listens.
    pub port: u16,
    /// Path of the flow's packets, from the sender.
    pub path: Vec<FlowHop>,
}

/// A link on the path of a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlowHop {
    /// Index of the link in [`Scenario::links`].
    pub link: usize,
    /// Whether packets to the receiver cross the link forward.
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
    /// Links that share a bottleneck, one list for each, in the order of the lists' first links.
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

    /// Path with the fewest links from one node to another; `None` if no path exists. Of several, the path with the
    /// lower highest link index wins; on a tie the next highest index decides, and so on. As no tie remains, paths of
    /// all flows agree at every node: a host has one route to an address.
    pub(crate) fn shortest_path(&self, from: usize, to: usize) -> Option<Vec<FlowHop>> {
        let mut links_of = vec![Vec::new(); self.nodes.len()];
        for (index, link) in self.links.iter().enumerate() {
            link.between.iter().for_each(|node| links_of[*node].push(index));
        }
        // Best path to each node: its links by descending index, and the link by which the node is entered.
        let mut best: Vec<Option<(Vec<usize>, usize)>> = vec![None; self.nodes.len()];
        best[from] = Some((Vec::new(), usize::MAX));
        let mut reached = vec![from];
        while best[to].is_none() && !reached.is_empty() {
            let mut next: BTreeMap<usize, (Vec<usize>, usize)> = BTreeMap::new();
            for node in reached {
                let Some((links, _)) = &best[node] else { continue };
                for link in &links_of[node] {
                    let peer = self.peer(*link, node);
                    if best[peer].is_some() {
                        continue;
                    }
                    let mut way = links.clone();
                    way.insert(way.partition_point(|other| other > link), *link);
                    let better = next.get(&peer).is_none_or(|(known, _)| way < *known);
                    if better {
                        next.insert(peer, (way, *link));
                    }
                }
            }
            reached = next.keys().copied().collect();
            next.into_iter().for_each(|(node, way)| best[node] = Some(way));
        }
        let (mut here, mut path) = (to, Vec::new());
        while here != from {
            let link = best[here].as_ref()?.1;
            here = self.peer(link, here);
            path.push(FlowHop { link, forward: self.links[link].between[0] == here });
        }
        path.reverse();
        Some(path)
    }

    /// The node at the other end of a link.
    fn peer(&self, link: usize, node: usize) -> usize {
        let [a, b] = self.links[link].between;
        if a == node { b } else { a }
    }

    /// Addresses of both ends of a flow: those of its first link at the sender, and of its last link at the receiver.
    pub fn flow_addresses(&self, flow: &Flow) -> Option<[Ipv4Addr; 2]> {
        let (first, last) = (flow.path.first()?, flow.path.last()?);
        let near = self.ends(first.link)[usize::from(!first.forward)];
        let far = self.ends(last.link)[usize::from(last.forward)];
        Some([near.address, far.address])
    }

    /// Routes that hosts need to both ends of each flow. Hosts need none to the ends of their own links.
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
    fn routes_follow_the_paths_of_all_flows() {
        // Between e and d there are two shortest paths, by b and by c. The first links in the list would lead from e to
        // d by b, and back by c.
        let mut scenario = scenario(&["ae", "eb", "dc", "db", "ec", "cf", "fd"], "ad");
        let flows = [("back", 3, 0), ("f", 5, 0), ("g", 0, 5), ("h", 1, 2), ("i", 2, 1), ("k", 4, 3)];
        for (name, from, to) in flows {
            let path = scenario.shortest_path(from, to).unwrap();
            let name = name.to_string();
            scenario.flows.push(Flow { name, from, to, path, ..scenario.flows[0].clone() });
        }
        let routes = scenario.ip_routes();
        for flow in &scenario.flows {
            let back: Vec<FlowHop> =
                flow.path.iter().rev().map(|hop| FlowHop { forward: !hop.forward, ..*hop }).collect();
            let [near, far] = scenario.flow_addresses(flow).unwrap();
            for (path, to) in [(&flow.path, far), (&back, near)] {
                for hop in &path[..path.len() - 1] {
                    let [here, next] = scenario.ends(hop.link);
                    let [here, next] = if hop.forward { [here, next] } else { [next, here] };
                    let via = routes.iter().find(|route| (route.node, route.to) == (here.node, to)).unwrap().via;
                    assert_eq!(via, next.address, "{} to {to} at {}", flow.name, here.node);
                }
            }
        }
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
