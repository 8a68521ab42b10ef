//! All implementations the testbed can run, by name; each in its own folder under `lab/drivers/`.

use crate::driver::Driver;

#[path = "../drivers/farlink/mod.rs"]
pub mod farlink;

/// The implementation scenarios use when they name none.
pub fn new_default() -> Box<dyn Driver> {
    Box::new(farlink::Farlink::default())
}
