//! Constant properties of a scenario.

use farlink_base::{CreationTimestamp, EndpointId, Instant, LinkId};
use farlink_scenario::{Fidelity, Scenario};
use std::collections::HashMap;

/// Names and topology of a scenario.
pub struct Facts {
    pub name: String,
    pub seed: u64,
    pub fidelity: &'static str,
    pub end: Instant,
    /// Start of the run, DTN ms.
    epoch_ms: u64,
    pub nodes: Vec<String>,
    /// For each node, its links in the order of their numbers within the node: index of the link in the scenario, and
    /// whether the node is the link's first end.
    ends: Vec<Vec<(usize, bool)>>,
    /// Name and end nodes of each link.
    pub links: Vec<(String, [usize; 2])>,
    /// Planned contacts of each link, of both directions together; a link without contacts is always up.
    pub planned: Vec<Vec<(Instant, Instant)>>,
    /// Index of each node by node ID.
    names: HashMap<EndpointId, usize>,
}

impl Facts {
    pub fn new(scenario: &Scenario) -> Facts {
        // A node's events number its links in the order of `Scenario::ends_of`.
        let ends_of = |node: usize| scenario.ends_of(node).iter().map(|end| (end.link, end.first)).collect();
        let mut names = HashMap::new();
        for (place, node) in scenario.nodes.iter().enumerate() {
            let ids = node.ids.iter().filter_map(|id| id.parse::<EndpointId>().ok());
            // A node may have several IDs.
            names.extend(ids.map(|id| (id.node_id(), place)));
        }
        let mut planned = vec![Vec::new(); scenario.links.len()];
        for contact in &scenario.contacts {
            planned[contact.link].push((Instant::ZERO + contact.start, Instant::ZERO + contact.end));
        }
        Facts {
            name: scenario.name.clone(),
            seed: scenario.seed,
            // Shown in the head of the picture as `simulation by bundles`.
            fidelity: if scenario.fidelity == Fidelity::Message { "bundles" } else { "packets" },
            end: Instant::ZERO + scenario.duration,
            epoch_ms: scenario.epoch.unwrap_or(farlink_sim::DEFAULT_EPOCH).0,
            nodes: scenario.nodes.iter().map(|node| node.name.clone()).collect(),
            ends: (0..scenario.nodes.len()).map(ends_of).collect(),
            links: scenario.links.iter().map(|link| (link.name.clone(), link.between)).collect(),
            planned,
            names,
        }
    }
    /// Link of the scenario for a node's link number, and whether the node is its first end; `None` for a radio link.
    pub fn link(&self, node: usize, link: LinkId) -> Option<(usize, bool)> {
        self.ends.get(node)?.get(link.0 as usize).copied()
    }
    /// Name of the node that has an endpoint ID; the ID itself if it is of no node of the scenario.
    pub fn node_of(&self, endpoint: &EndpointId) -> String {
        let place = self.names.get(&endpoint.node_id());
        place.map_or_else(|| endpoint.to_string(), |place| self.nodes[*place].clone())
    }
    /// Creation time of a bundle, counted from the start of the run, followed by the sequence number unless it is 0.
    pub fn made_at(&self, creation: &CreationTimestamp) -> String {
        let seconds = creation.time.0.saturating_sub(self.epoch_ms) as f64 / 1e3;
        let at = crate::clock(seconds, self.tenths());
        if creation.sequence > 0 { format!("{at} #{}", creation.sequence) } else { at }
    }
    /// Whether the run is shorter than two minutes, so that times are shown with tenths of seconds.
    pub fn tenths(&self) -> bool {
        self.end.as_secs_f64() < 120.0
    }
}
