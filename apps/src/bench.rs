//! Benchmarks between real nodes, each beside the fastest the machine does without a protocol, measured in the same call.
//!
//! [`loopback`] is two nodes, [`forward`] a third between them (ours, or anyone's), [`round_trip`] the time of an
//! answer, [`delivery`] what an application takes, [`shards`] a node whose links are in several owner threads.

pub mod baseline;
pub mod delivery;
pub mod forward;
pub mod loopback;
mod nodes;
pub mod round_trip;
pub mod shards;

pub use nodes::{BenchOptions, Middle, Ports};
