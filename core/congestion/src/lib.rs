//! Congestion controls: admission, replication limits, eviction and migration. One file per control.
//!
//! This crate never sees a bundle's bytes and never decides where a bundle goes (`core/routing`). Start with
//! [`Control`].
#![no_std]
#![forbid(unsafe_code)]
#[cfg(any(clippy, test))]
extern crate std;

extern crate alloc;

mod afner;
mod afner_local;
mod ccc;
mod control;
mod drop;
mod gbsd;
mod hbsd;
mod history;
mod ion;
mod marginal;
mod none;
mod registry;
mod rrcc;
mod storage_routing;
#[cfg(test)]
mod testing;
mod trust;

pub use control::Control;
pub use registry::{ControlInfo, controls, make_control};
