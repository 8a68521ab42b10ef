//! Settings files of The ONE: `values.rs` reads keys, `setup.rs` makes of them what a run needs,
//! `keys.rs` is the table of what is read and what is refused.

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
