//! Convergence layers of a node: links of one kind and port share a layer, others have one each, with its own sockets.
//! The same in the simulator and in the testbed.

use crate::types::Scenario;
use farlink_cla::registry::{LAYERS, LayerInfo};
use farlink_cla::tcpcl_v4::Tls;

/// One convergence layer of one node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NodeLayer {
    /// Name of its kind, followed by the port unless that is the kind's assigned port.
    pub name: String,
    /// Entry of the layer in the registry.
    pub kind: &'static LayerInfo,
    /// Port it listens on.
    pub port: u16,
    /// Indices of its links in [`Scenario::links`].
    pub links: Vec<usize>,
}

impl Scenario {
    /// Whether the sessions of a link are secured by TLS; `None`: one end requires TLS and the other forbids it, so
    /// there are no sessions.
    pub fn is_secured(&self, link: usize) -> Option<bool> {
        let link = &self.links[link];
        match link.between.map(|node| self.nodes[node].tls(link.layer.kind)) {
            [Tls::Forbid, Tls::Require] | [Tls::Require, Tls::Forbid] => None,
            ends => Some(!ends.contains(&Tls::Forbid)),
        }
    }
    /// The layers of the node with this index: in the order of the registry, those of a kind in the order of their
    /// first links. A layer's index seeds its random numbers, so every world keeps this order.
    pub fn layers_of(&self, node: usize) -> Vec<NodeLayer> {
        let mut layers: Vec<NodeLayer> = Vec::new();
        for end in self.ends_of(node) {
            let kind = self.links[end.link].layer.kind;
            let same = |layer: &&mut NodeLayer| layer.kind == kind && layer.port == end.port;
            match layers.iter_mut().find(same) {
                Some(layer) => layer.links.push(end.link),
                None => {
                    let apart = if end.port == kind.port { String::new() } else { format!("-{}", end.port) };
                    let name = format!("{}{apart}", kind.name);
                    layers.push(NodeLayer { name, kind, port: end.port, links: vec![end.link] });
                }
            }
        }
        // A stable sort: layers of one kind stay in the order of their links.
        layers.sort_by_key(|layer| LAYERS.iter().position(|kind| kind == layer.kind));
        layers
    }
}
