//! Which convergence layers a node has: links of one kind and port share one, others are apart, each
//! with its own sockets. The same in the simulator and in the testbed.

use crate::types::Scenario;
use farlink_cla::registry::{LAYERS, LayerInfo};
use farlink_cla::tcpcl_v4::Tls;

/// One convergence layer of one node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NodeLayer {
    /// Its name: that of its kind, with the port if that is not the one it is assigned.
    pub name: String,
    /// Which one.
    pub kind: &'static LayerInfo,
    /// Port it listens on.
    pub port: u16,
    /// Indices of its links in [`Scenario::links`].
    pub links: Vec<usize>,
}

impl Scenario {
    /// Whether the sessions of a link are secured by TLS; `None`: one end wants it, the other never, and there are none.
    pub fn is_secured(&self, link: usize) -> Option<bool> {
        let link = &self.links[link];
        match link.between.map(|node| self.nodes[node].tls(link.layer.kind)) {
            [Tls::Forbid, Tls::Require] | [Tls::Require, Tls::Forbid] => None,
            ends => Some(!ends.contains(&Tls::Forbid)),
        }
    }
    /// The layers of the node with this index: in the order of the registry, those of a kind in the
    /// order of their first links. A layer's place seeds its numbers, so every world keeps this order.
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
        // Stable: layers of one kind stay in order of links.
        layers.sort_by_key(|layer| LAYERS.iter().position(|kind| kind == layer.kind));
        layers
    }
}
