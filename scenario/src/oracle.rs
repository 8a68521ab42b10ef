//! Policies that need an oracle, a view of the whole network: only simulations have one.

use crate::types::Scenario;
use farlink_base::ConfigError;

impl Scenario {
    /// Error for the first router or control that only a simulator can serve; `None` if all can be served.
    pub fn needs_oracle(&self) -> Option<ConfigError> {
        let routers: Vec<_> = farlink_routing::routers().iter().map(|router| (router.name, router.oracle)).collect();
        let controls: Vec<_> =
            farlink_congestion::controls().iter().map(|control| (control.name, control.oracle)).collect();
        self.nodes.iter().find_map(|node| {
            let chosen = [("router", &node.router.name, &routers), ("control", &node.control.name, &controls)];
            chosen.into_iter().find_map(|(key, name, known)| {
                // The hint lists policies of the same kind that real nodes can run.
                known.iter().find(|(policy, oracle)| *oracle && policy == name)?;
                let real: Vec<&str> = known.iter().filter(|(_, oracle)| !oracle).map(|(policy, _)| *policy).collect();
                Some(ConfigError::needs_oracle(format!("node[{}].{key}", node.name), name, &real))
            })
        })
    }
}
