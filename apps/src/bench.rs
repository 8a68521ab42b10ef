//! Benchmarks of real nodes, each with a baseline measured in the same call: the fastest copy that this machine makes
//! without a protocol.
//!
//! [`loopback`] measures two nodes; [`forward`] a node between them, Farlink or another implementation; [`round_trip`]
//! pings; [`delivery`] deliveries to an application; [`shards`] a node with several shards.

pub mod baseline;
pub mod delivery;
pub mod forward;
pub mod loopback;
mod nodes;
pub mod round_trip;
pub mod shards;

pub use nodes::{BenchOptions, Middle, Ports};
