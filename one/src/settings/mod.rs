//! Settings files of The ONE: `values.rs` reads keys, `setup.rs` turns them into the configuration of a run, `keys.rs`
//! lists supported and refused keys.

mod groups;
pub mod keys;
mod mistake;
#[cfg(test)]
mod page;
mod properties;
mod setup;
mod sources;
mod values;

pub use mistake::Mistake;
pub use setup::{Group, Model, ReportClass, Router, Setup};
pub use sources::{Generator, Source};
pub use values::Values;
