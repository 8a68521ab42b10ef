//! Settings files of The ONE: `values.rs` reads keys, `setup.rs` makes of them what a run needs,
//! `keys.rs` is the table of what is read and what is refused.

pub mod keys;
mod mistake;
mod properties;
mod sources;
mod setup;
mod values;

pub use mistake::Mistake;
pub use setup::{Group, Model, RadioKind, ReportClass, Reporting, Router, Setup};
pub use sources::{Generator, Source};
pub use values::{Value, Values};
