//! Routers and congestion controls outside any registry: those of a program that drives the simulator, as researchers
//! write them.

use farlink_congestion::Control;
use farlink_routing::Router;

/// Policies that replace a node's configured ones; nodes are given by index.
pub trait OwnPolicies {
    /// Whether the policy of any node is replaced.
    fn any(&self) -> bool {
        true
    }
    /// Router of a node; `None` keeps the scenario's.
    fn router(&self, node: usize) -> Option<Box<dyn Router>> {
        let _ = node;
        None
    }
    /// Congestion control of a node; `None` keeps the scenario's.
    fn control(&self, node: usize) -> Option<Box<dyn Control>> {
        let _ = node;
        None
    }
}

/// Policies of the scenario, unchanged.
#[derive(Clone, Copy, Debug)]
pub struct Registered;
impl OwnPolicies for Registered {
    fn any(&self) -> bool {
        false
    }
}
