//! Orbits and ground stations become contact plans: where everything is at any time, who sees whom, how long light
//! takes, and from which nanosecond to which.
//!
//! It knows no node, no bundle and no scenario, reads no clock and draws nothing: the command `farlink plan
//! from-orbits` writes down what it finds. It does not integrate forces: satellites follow their two-line elements
//! (SGP4) or an ellipse that drifts with its body's flattening, planets their mean elements; the air bends nothing.
//!
//! Read [`Network`] (who is where, who may be linked to whom) and [`contacts`] first; then [`sight`] (what makes a
//! line of sight, and how long it surely stays) and [`edges`] (how beginnings and ends are found, none missing).
#![forbid(unsafe_code)]

mod axes;
pub mod beams;
pub mod bodies;
pub mod edges;
mod file;
pub mod kepler;
pub mod moment;
mod moon;
mod network;
pub mod place;
mod plan;
mod quantity;
mod reach;
pub mod satellite;
pub mod sight;
pub mod sky;
pub mod tle;
pub mod vector;
pub mod walker;

pub use file::{load, parse, reference};
pub use network::{Link, Network, Node};
pub use plan::{CONTACTS_MAX, contacts};
pub use reach::Reach;
