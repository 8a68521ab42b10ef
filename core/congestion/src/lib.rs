//! Whether a bundle is kept or copied: admission, replication limits, eviction, migration. One file
//! per control.
//!
//! It never sees a bundle's bytes and never decides where a bundle goes (`core/routing`). Read
//! [`Control`] first.
#![no_std]
#![forbid(unsafe_code)]
#[cfg(clippy)]
extern crate std;

extern crate alloc;

mod control;
mod drop_oldest;
mod none;
mod registry;

pub use control::{Control, ControlOutput, Overflow, StoreView};
pub use registry::{ControlInfo, controls, make_control};
