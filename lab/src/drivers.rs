//! Implementations that the testbed can run: our own node, and all that a folder describes.

use crate::driver::Driver;
use anyhow::{Context, Result};
use farlink_scenario::Scenario;

#[path = "drivers/declared/mod.rs"]
pub mod declared;
#[path = "../drivers/farlink/mod.rs"]
pub mod farlink;

/// Creates a driver of our own node.
pub fn new_default() -> Box<dyn Driver> {
    Box::new(farlink::Farlink::default())
}

/// Creates the driver of a scenario's node.
///
/// # Errors
/// An unknown implementation, mistakes of its driver, missing programs.
pub fn make(scenario: &Scenario, node: usize) -> Result<Box<dyn Driver>> {
    let node = &scenario.nodes[node];
    if node.implementation.is_farlink() {
        return Ok(new_default());
    }
    let make = || {
        let folder = declared::DriverFolder::find(&node.implementation.name, &scenario.folder)?;
        declared::Declared::new(folder, node.implementation.programs.as_deref())
    };
    Ok(Box::new(make().with_context(|| format!("node `{}`", node.name))?))
}
