//! Registry of the implementations that the testbed can run, each in its own folder under `lab/drivers/`.

use crate::driver::Driver;

#[path = "../drivers/farlink/mod.rs"]
pub mod farlink;

/// Creates a driver for the default implementation, Farlink's own node.
pub fn new_default() -> Box<dyn Driver> {
    Box::new(farlink::Farlink::default())
}
