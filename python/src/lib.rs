//! Engine of the Python package `farlink`: scenarios, runs in simulation, policies written in Python, and the folder of
//! a campaign whose cells run elsewhere.
//!
//! Errors have the same text as those of the command `farlink`. Python reads tables from the run directory, without
//! this engine. The only unsafe code is PyO3's. Read `run.rs` first, then `policy.rs`.

mod campaign;
mod control;
mod errors;
mod policy;
mod router;
mod run;
mod scenario;
mod views;
mod copy_offer;

use pyo3::prelude::*;

/// Version of the package, with the commit of the build.
pub const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (", env!("FARLINK_COMMIT"), ", Python)");

#[pymodule]
fn _engine(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    module.add("VERSION", VERSION)?;
    module
        .add("METRICS", pyo3::types::PyTuple::new(py, farlink_campaign::METRICS.iter().map(|metric| metric.name))?)?;
    module.add("REPETITIONS_MAX", farlink_campaign::REPETITIONS_MAX)?;
    module.add("ConfigError", py.get_type::<errors::ConfigError>())?;
    module.add("RunError", py.get_type::<errors::RunError>())?;
    module.add_class::<scenario::Scenario>()?;
    module.add_class::<views::Node>()?;
    module.add_class::<views::Peer>()?;
    module.add_class::<views::Bundle>()?;
    module.add_class::<views::PolicyEvent>()?;
    module.add_class::<copy_offer::CopyOffer>()?;
    module.add_class::<copy_offer::Wait>()?;
    module.add_class::<campaign::Campaign>()?;
    module.add_class::<run::Stop>()?;
    module.add_function(wrap_pyfunction!(run::simulate, module)?)?;
    module.add_function(wrap_pyfunction!(run::summary, module)?)?;
    module.add_function(wrap_pyfunction!(run::numbers, module)?)?;
    module.add_function(wrap_pyfunction!(run::policies, module)?)?;
    module.add_function(wrap_pyfunction!(run::interval, module)?)?;
    Ok(())
}
