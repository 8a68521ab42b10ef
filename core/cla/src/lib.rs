//! Convergence layers: each is a state machine over opaque bytes, one folder or file per protocol.
//!
//! A convergence layer never parses a bundle, opens a socket or reads a clock. Read [`farlink_base::layer`] (the
//! contract) first, then [`protocol`] and [`ltp`]. [`announce`] is not a layer: it discovers neighbours.
#![no_std]
#![forbid(unsafe_code)]
#[cfg(clippy)]
extern crate std;

extern crate alloc;

pub mod announce;
mod batches;
mod cbor;
pub mod ltp;
pub mod oneway;
pub mod protocol;
pub mod reading;
#[cfg(test)]
mod reading_toy;
pub mod registry;
mod streams;
pub mod tcpcl_v3;
pub mod tcpcl_v4;
pub mod udpcl;

pub use farlink_base::sdnv;
