//! What a scenario says that does not change while it runs.

use farlink_base::{CreationTimestamp, EndpointId, Instant, LinkId};
use farlink_scenario::{Fidelity, Scenario};
use std::collections::HashMap;

/// Names and places of a scenario.
pub struct Facts {
    pub name: String,
    pub seed: u64,
    pub fidelity: &'static str,
    pub end: Instant,
    /// Milliseconds since 2000 at which the run begins.
    epoch_ms: u64,
    pub nodes: Vec<String>,
    /// Of each node, the links of the scenario it has, in the order of its numbers for them, and whether it is their
    /// first end.
    ends: Vec<Vec<(usize, bool)>>,
    /// Name and nodes of each link.
    pub links: Vec<(String, [usize; 2])>,
    /// When the plan has each link up, in either direction; empty: always.
    pub planned: Vec<Vec<(Instant, Instant)>>,
    /// Names by node ID.
    names: HashMap<EndpointId, usize>,
}

impl Facts {
    pub fn new(scenario: &Scenario) -> Facts {
        let ends_of = |node: usize| scenario.ends_of(node).iter().map(|end| (end.link, end.first)).collect();
        let mut names = HashMap::new();
        for (place, node) in scenario.nodes.iter().enumerate() {
            let ids = node.ids.iter().filter_map(|id| id.parse::<EndpointId>().ok());
            names.extend(ids.map(|id| (id.node_id(), place)));
        }
        let mut planned = vec![Vec::new(); scenario.links.len()];
        for contact in &scenario.contacts {
            planned[contact.link].push((Instant::ZERO + contact.start, Instant::ZERO + contact.end));
        }
        Facts {
            name: scenario.name.clone(),
            seed: scenario.seed,
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
    /// The link of the scenario that a node calls so, and whether it is its first end; `None`: one by a radio.
    pub fn link(&self, node: usize, link: LinkId) -> Option<(usize, bool)> {
        self.ends.get(node)?.get(link.0 as usize).copied()
    }
    /// What people call the node of an endpoint.
    pub fn node_of(&self, endpoint: &EndpointId) -> String {
        let place = self.names.get(&endpoint.node_id());
        place.map_or_else(|| endpoint.to_string(), |place| self.nodes[*place].clone())
    }
    /// When in the run a bundle was made, which tells those of a node apart: with its number, where several were at once.
    pub fn made_at(&self, creation: &CreationTimestamp) -> String {
        let seconds = creation.time.0.saturating_sub(self.epoch_ms) as f64 / 1e3;
        let at = crate::clock(seconds, self.tenths());
        if creation.sequence > 0 { format!("{at} #{}", creation.sequence) } else { at }
    }
    /// Whether times are so short that tenths of seconds matter.
    pub fn tenths(&self) -> bool {
        self.end.as_secs_f64() < 120.0
    }
}
