//! Node numbers for endpoint IDs: ipn nodes are their number, dtn nodes are interned.

use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use farlink_base::{Map, NodeId, map};
use farlink_bundle::EndpointId;

/// Most dtn names interned; later ones share one number, so that a hostile peer cannot fill memory.
const NAMES_MAX: usize = 1_000_000;

/// The interner of one agent.
pub struct Names {
    numbers: Map<Arc<str>, u32>,
    names: Vec<Arc<str>>,
}

impl Names {
    /// Nothing interned.
    pub fn new(seed: u64) -> Self {
        Names { numbers: map(seed), names: Vec::new() }
    }

    /// The node of an endpoint; [`NodeId::NULL`] for the null endpoint and unknown schemes.
    pub fn node(&mut self, endpoint: &EndpointId) -> NodeId {
        match endpoint {
            EndpointId::Ipn { node, .. } if *node < NodeId::INTERNED => NodeId::ipn(*node),
            EndpointId::Ipn { node, .. } => self.intern(&Arc::from(node.to_string().as_str())),
            EndpointId::Dtn { node, .. } => self.intern(node),
            EndpointId::Null | EndpointId::Unknown { .. } => NodeId::NULL,
        }
    }

    fn intern(&mut self, name: &Arc<str>) -> NodeId {
        if let Some(number) = self.numbers.get(name) {
            return NodeId::interned(*number);
        }
        if self.names.len() >= NAMES_MAX {
            return NodeId::interned(u32::MAX);
        }
        let number = self.names.len() as u32;
        self.names.push(name.clone());
        self.numbers.insert(name.clone(), number);
        NodeId::interned(number)
    }

    /// The administrative endpoint of a node, for people and for previous-node blocks.
    pub fn endpoint(&self, node: NodeId) -> EndpointId {
        match node.interned_index() {
            Some(index) => self
                .names
                .get(index as usize)
                .map_or(EndpointId::Null, |name| EndpointId::Dtn { node: name.clone(), demux: Arc::from("") }),
            None if node == NodeId::NULL => EndpointId::Null,
            None => EndpointId::Ipn { node: node.0, service: 0 },
        }
    }

    /// The same as text.
    pub fn text(&self, node: NodeId) -> String {
        self.endpoint(node).to_string()
    }
}
