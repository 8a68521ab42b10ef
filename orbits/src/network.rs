//! Who is where, and who may be linked to whom: what a file of orbits says.

use crate::place::Place;
use crate::sight::Limits;
use crate::sky::Sky;
use farlink_base::{DataRate, NodeId};

/// One node.
#[derive(Clone, Debug)]
pub struct Node {
    /// Its name in the plan.
    pub name: String,
    /// Its number in the plan.
    pub id: NodeId,
    /// Where it is.
    pub place: Place,
    /// The least elevation at which it sees, in radians; for what stands on the ground.
    pub mask: f64,
}

/// Nodes that may be linked, and how.
#[derive(Clone, Debug)]
pub struct Link {
    /// Name in the plan, where several join a pair.
    pub name: Option<String>,
    /// Pairs of nodes, by their places in [`Network::nodes`].
    pub pairs: Vec<[u32; 2]>,
    /// From the first of a pair to the second, and back.
    pub rates: [DataRate; 2],
    /// What it asks of a line of sight.
    pub limits: Limits,
    /// The least elevation in radians, instead of the nodes' own.
    pub mask: Option<f64>,
    /// How many such links a node may have at once: the first of a pair, the second.
    pub beams: [Option<u32>; 2],
    /// Contacts that are shorter are left out, in nanoseconds.
    pub shortest: i64,
}

/// Nodes and links under one sky.
#[derive(Clone, Debug)]
pub struct Network {
    /// Where the bodies are.
    pub sky: Sky,
    /// Every node.
    pub nodes: Vec<Node>,
    /// Every kind of link.
    pub links: Vec<Link>,
    /// By how many seconds the light time of one contact may change before another begins.
    pub delay_step_s: f64,
}

impl Network {
    /// How many pairs of nodes there are to look at.
    pub fn pairs(&self) -> usize {
        self.links.iter().map(|link| link.pairs.len()).sum()
    }
    /// The oldest elements at a time in nanoseconds from the start: whose they are, and their age in days.
    pub fn oldest(&self, time: i64) -> Option<(&str, i64)> {
        let ages = self.nodes.iter().filter_map(|node| Some((node.name.as_str(), node.place.age_days(time)?)));
        ages.max_by_key(|(_, days)| *days)
    }
}
