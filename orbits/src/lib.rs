//! Contact plans from orbits and ground stations: positions at any time, lines of sight, light times, and windows exact
//! to the nanosecond.
//!
//! This crate contains no node, bundle or scenario, reads no clock and uses no random numbers; the command
//! `farlink plan from-orbits` writes its results. It integrates no forces: satellites follow their two-line elements (SGP4) or an
//! ellipse that drifts with the body's flattening, and planets follow mean elements. Refraction is ignored.
//!
//! Read [`Network`] (nodes and possible links) and [`contacts`] first, then [`sight`] (lines of sight, and how long
//! their state certainly persists) and [`edges`] (the search for windows, which misses none).
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
pub use network::{Network, NetworkLink, NetworkNode};
pub use plan::{CONTACTS_MAX, contacts};
pub use reach::MotionBounds;
