//! Checks whether a world, or a fidelity of the simulator, can run a scenario.

use crate::types::{Fidelity, Scenario};
use farlink_base::ConfigError;

impl Scenario {
    /// Error for `fidelity` `full` in a scenario with radios or lies, which exist for whole bundles only; `None` if it
    /// can run.
    pub fn needs_messages(&self) -> Option<ConfigError> {
        if self.fidelity != Fidelity::Full {
            return None;
        }
        let hint = || "write fidelity = \"message\", or run it with --fidelity message".to_string();
        let lies = |fault: &crate::Fault| matches!(fault.kind, crate::FaultKind::Lie { .. });
        // A lie replaces the summaries that neighbours exchange, which exist apart from packets only at message
        // fidelity.
        if let Some(index) = self.faults.iter().position(lies) {
            return Some(ConfigError {
                path: format!("fault[{}]", index + 1),
                expected: "what neighbours tell each other is changed in whole bundles, and `fidelity` is `full`"
                    .into(),
                hint: hint(),
            });
        }
        let radio = self.radios.first()?;
        Some(ConfigError {
            path: format!("radio[{}]", radio.name),
            expected: "links of radios carry whole bundles, and `fidelity` is `full`".into(),
            hint: hint(),
        })
    }
    /// Error for `fidelity` `message` in a scenario with plain flows or shared transmitters, which need packets; `None`
    /// if it can run.
    pub fn needs_packets(&self) -> Option<ConfigError> {
        if self.fidelity == Fidelity::Full {
            return None;
        }
        let flow = self.flows.first().map(|flow| (format!("flow[{}]", flow.name), "plain TCP and UDP go in packets"));
        let shared = self.links.iter().find(|link| link.shares.is_some());
        let shares = || shared.map(|link| (format!("link[{}].shares", link.name), "a bottleneck is shared by packets"));
        let (path, why) = flow.or_else(shares)?;
        let expected = format!("{why}, and `fidelity` is `message`");
        Some(ConfigError { path, expected, hint: "write fidelity = \"full\", or take it out".into() })
    }
    /// Reason why the testbed cannot run the scenario; `None` if it can. Its nodes do not move or share routes, its
    /// applications offer refused bundles again, and it cannot inject every fault.
    pub fn needs_simulation(&self) -> Option<ConfigError> {
        if let Some(traffic) = self.traffic.iter().find(|traffic| traffic.lost) {
            return Some(ConfigError {
                path: format!("traffic[{}].refused", traffic.name),
                expected: "applications of the testbed offer again what a node refuses".into(),
                hint: "take `refused = \"lost\"` out, or run it --in sim".into(),
            });
        }
        if self.shared_routes {
            return Some(ConfigError {
                path: "shared_routes".into(),
                expected: "real nodes do not know what others find".into(),
                hint: "take it out, or run it --in sim".into(),
            });
        }
        if let Some(error) = self.faults_need_simulation() {
            return Some(error);
        }
        let radio = self.radios.first()?;
        Some(ConfigError {
            path: format!("radio[{}]", radio.name),
            expected: "the testbed has no radios".into(),
            hint: "run it --in sim".into(),
        })
    }
}
