//! Implementations that the testbed can run: our own node, and all that a folder describes; and nodes on machines
//! outside.

use crate::driver::Driver;
use anyhow::{Context, Result};
use farlink_scenario::Scenario;

#[path = "drivers/declared/mod.rs"]
pub mod declared;
#[path = "../drivers/farlink/mod.rs"]
pub mod farlink;
mod outside;

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
    if node.host.is_outside() {
        let name = &node.implementation.name;
        let echo = match node.implementation.is_farlink() {
            true => Some(farlink::ECHO),
            // Its programs are not needed here; an unknown implementation is only a name.
            false => declared::DriverFolder::find(name, &scenario.folder).ok().and_then(|folder| folder.echo()),
        };
        return Ok(Box::new(outside::Outside::new(name, echo)));
    }
    if node.implementation.is_farlink() {
        return Ok(new_default());
    }
    let make = || {
        let folder = declared::DriverFolder::find(&node.implementation.name, &scenario.folder)?;
        let programs = node.implementation.programs.as_ref().map(|programs| scenario.folder.join(programs));
        declared::Declared::new(folder, programs.as_deref())
    };
    Ok(Box::new(make().with_context(|| format!("node `{}`", node.name))?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_stand_beside_scenario() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("build")).unwrap();
        std::fs::write(dir.path().join("build/python3"), "").unwrap();
        let text = "name = \"s\"\nduration = \"9 s\"\n[[node]]\nname = \"a\"\nid = \"ipn:1.0\"\n\
            implementation = \"toy@build\"\n";
        let mut scenario = Scenario::parse(text).unwrap();
        scenario.folder = dir.path().into();
        assert_eq!(make(&scenario, 0).unwrap().name(), "toy");
        scenario.folder = "/nowhere".into();
        let why = format!("{:#}", make(&scenario, 0).err().unwrap());
        assert_eq!(why, "node `a`: `python3` not found in /nowhere/build");
    }
}
