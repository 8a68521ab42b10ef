//! Bundle store of the engine: [`LogStore`], a log of checksummed records on disk with group commit. A node that
//! keeps bundles in memory only has them in its agent's book and needs no store.
//!
//! The store opens no file, reads no clock and parses no bundle: it is a state machine over disk operations that
//! keeps opaque bytes and a small index entry for each bundle. Read [`farlink_base::store::BundleStore`] (the
//! contract) and [`LogStore`] first.
#![no_std]
#![forbid(unsafe_code)]
#[cfg(clippy)]
extern crate std;

extern crate alloc;

mod log;
mod quota;

pub use log::{Config, FORMAT, FORMAT_BYTES, LogStore, format_of};
