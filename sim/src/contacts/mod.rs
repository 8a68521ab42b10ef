//! Contact sources: which nodes can communicate and when, in time order, computed on demand.
//!
//! A source knows no bundles and no links; the world turns a starting contact into a link and removes it when the
//! contact ends.

mod edge;
mod grid;
pub mod kinetic;
pub mod merge;
mod of_scenario;
pub mod sky;
pub mod trace;

pub use edge::{ContactEdge, Contacts, instant};
pub(crate) use of_scenario::ways;
pub use of_scenario::{as_lines, of_scenario};
