//! Settings files of The ONE: `values.rs` reads keys, `setup.rs` with `groups.rs`, `movement.rs` and `sources.rs` turns
//! them into the configuration of a run, `keys.rs` lists supported and refused keys.

mod groups;
pub mod keys;
mod mistake;
mod movement;
#[cfg(test)]
mod page;
mod properties;
mod reporting;
mod setup;
mod sources;
mod values;

pub use mistake::Mistake;
pub use reporting::written;
pub use setup::{Active, Group, Model, ReportClass, ReportSetup, Router, Setup, Streets};
pub use sources::{Generator, Source};
pub use values::Values;
