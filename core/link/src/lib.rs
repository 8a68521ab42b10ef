//! The emulated link, one model for both worlds: rate, delay, loss, queue and contact windows of a
//! space link as a state machine, and a reliable byte stream over such a link for simulations.
//!
//! It holds no packets, no sockets and no clock: the driver asks what becomes of a packet and keeps
//! it until then; it never looks inside one. Read [`LinkDirection`] and [`DirectionSpec`] first,
//! then [`stream::StreamEnd`].
#![no_std]
#![forbid(unsafe_code)]
#[cfg(any(clippy, test))]
extern crate std;

extern crate alloc;

mod availability;
mod direction;
mod impairment;
mod message;
mod preset;
mod schedule;
#[cfg(feature = "serde")]
mod serde_impl;
mod spec;
mod statistics;
pub mod stream;
mod text;

pub use direction::{Deliveries, Delivery, LinkDirection, Verdict, direction_seed};
pub use message::{MessageFate, Transmission};
pub use preset::PRESETS;
pub use spec::{Delay, DirectionSpec, Jitter, JitterShape, LinkSpec, Loss, Outages, Rate, Reorder, Spread, Window};
pub use statistics::{DropReason, Statistics};

/// IPv4 and UDP headers of one datagram, in bytes: what a driver adds to a payload's length.
pub const UDP_IPV4_HEADERS: u64 = 28;
