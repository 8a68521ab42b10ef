//! Who can hear whom, and when: sources of contact edges, in order of time, each computed as it is
//! asked for.
//!
//! A source knows nothing of bundles and of links; the world makes a link of an edge that comes up and
//! takes it away with the one that ends it.

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
