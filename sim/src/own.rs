//! Routers and congestion controls that no registry has: those of a program that drives the simulator, as
//! researchers write them.

use farlink_congestion::Control;
use farlink_routing::Router;

/// What takes the place of a node's configured policies; nodes by their places in the scenario.
pub trait OwnPolicies {
    /// Whether any node has one.
    fn any(&self) -> bool {
        true
    }
    /// The router of this node; `None`: as the scenario says.
    fn router(&self, node: usize) -> Option<Box<dyn Router>> {
        let _ = node;
        None
    }
    /// The congestion control of this node; `None`: as the scenario says.
    fn control(&self, node: usize) -> Option<Box<dyn Control>> {
        let _ = node;
        None
    }
}

/// Everything as the scenario says.
#[derive(Clone, Copy, Debug)]
pub struct Registered;
impl OwnPolicies for Registered {
    fn any(&self) -> bool {
        false
    }
}
