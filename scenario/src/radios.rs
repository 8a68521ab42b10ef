//! Where a scenario with radios can be run.

use crate::types::{Fidelity, Scenario};
use farlink_base::ConfigError;

impl Scenario {
    /// Why packets cannot be simulated here: links of radios carry whole bundles.
    pub fn needs_messages(&self) -> Option<ConfigError> {
        let radio = self.radios.first().filter(|_| self.fidelity == Fidelity::Full)?;
        Some(ConfigError {
            path: format!("radio[{}]", radio.name),
            expected: "links of radios carry whole bundles, and `fidelity` is `full`".into(),
            hint: "write fidelity = \"message\", or run it with --fidelity message".into(),
        })
    }
    /// Why no testbed can run it: real nodes do not move.
    pub fn needs_simulation(&self) -> Option<ConfigError> {
        let radio = self.radios.first()?;
        Some(ConfigError {
            path: format!("radio[{}]", radio.name),
            expected: "the testbed has no radios".into(),
            hint: "run it --in sim".into(),
        })
    }
}
