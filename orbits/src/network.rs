//! Nodes with their positions and possible links, as described by a file of orbits.

use crate::place::Trajectory;
use crate::sight::Limits;
use crate::sky::Sky;
use farlink_base::{DataRate, NodeId};

/// One node of the network.
#[derive(Clone, Debug)]
pub struct NetworkNode {
    /// Name in the contact plan.
    pub name: String,
    /// Node ID in the contact plan.
    pub id: NodeId,
    /// Position as a function of time.
    pub place: Trajectory,
    /// Least elevation at which the node communicates, in radians; for nodes on the ground.
    pub mask: f64,
}

/// Pairs of nodes that may be linked, with the properties of the link.
#[derive(Clone, Debug)]
pub struct NetworkLink {
    /// Name in the contact plan, needed where several links join a pair.
    pub name: Option<String>,
    /// Pairs of indices into [`Network::nodes`].
    pub pairs: Vec<[u32; 2]>,
    /// Data rates from the first node to the second, and back.
    pub rates: [DataRate; 2],
    /// Limits on the line of sight.
    pub limits: Limits,
    /// Least elevation in radians in place of that of the nodes; `None` keeps the nodes' own.
    pub mask: Option<f64>,
    /// Most simultaneous links of a node at the first end, and at the second end; `None` for no limit.
    pub beams: [Option<u32>; 2],
    /// Least duration of a contact, in nanoseconds; shorter ones are dropped.
    pub shortest: i64,
}

/// Nodes and links, with the bodies around them.
#[derive(Clone, Debug)]
pub struct Network {
    /// Motion of the bodies.
    pub sky: Sky,
    /// Nodes of the plan, in the order of the file.
    pub nodes: Vec<NetworkNode>,
    /// Links of the plan, in the order of the file.
    pub links: Vec<NetworkLink>,
    /// Most change of the light time within one contact, in seconds; a larger change starts a new contact.
    pub delay_step_s: f64,
}

impl Network {
    /// Number of node pairs to examine.
    pub fn pairs(&self) -> usize {
        self.links.iter().map(|link| link.pairs.len()).sum()
    }
    /// Node with the oldest two-line elements at a time in nanoseconds from the start, and their age in days; `None` if
    /// no node has such elements.
    pub fn oldest(&self, time: i64) -> Option<(&str, i64)> {
        let ages = self.nodes.iter().filter_map(|node| Some((node.name.as_str(), node.place.age_days(time)?)));
        ages.max_by_key(|(_, days)| *days)
    }
    /// Satellites that left the orbit of their elements while contacts were computed, and when, in nanoseconds from the
    /// start. Their contacts end before.
    pub fn fallen(&self) -> impl Iterator<Item = (&str, i64)> {
        self.nodes.iter().filter_map(|node| Some((node.name.as_str(), node.place.by_elements()?.fallen()?)))
    }
}
