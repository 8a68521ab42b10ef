//! The bundle stores of the engine: [`LogStore`], a log of checksummed records on disk with group
//! commit, and [`MemoryStore`], which keeps nothing through a restart.
//!
//! It never opens a file, reads a clock or parses a bundle: a store is a state machine over disk
//! operations that keeps opaque bytes and a small index entry each.
//! Read [`farlink_base::store::BundleStore`] (the contract) and [`LogStore`] first.
#![no_std]
#![forbid(unsafe_code)]
#[cfg(clippy)]
extern crate std;

extern crate alloc;

mod log;
mod memory;
mod quota;

pub use log::{Config, LogStore};
pub use memory::MemoryStore;
