//! Link model of simulator and testbed: rate, delay, loss, queue and contact windows of a space link as a state
//! machine; and, for simulations, a reliable byte stream over such a link.
//!
//! The model contains no packets, no sockets and no clock, and never looks inside a packet: the driver asks for the
//! fate of a packet and keeps it until its arrival. Read [`LinkDirection`] and [`DirectionSpec`] first, then
//! [`stream::StreamEnd`].
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
mod transmitter;

pub use direction::{LinkDirection, PacketArrival, PacketArrivals, PacketFate, direction_seed};
pub use message::{MessageFate, Transmission};
pub use preset::PRESETS;
pub use spec::{
    ContactWindow, Delay, DirectionSpec, Jitter, JitterShape, LinkSpec, Loss, Outages, Rate, Reorder, Spread,
};
pub use statistics::{DropReason, Statistics};
pub use transmitter::Transmitter;

/// Length of the IPv4 and UDP headers of a datagram, bytes; a driver adds it to the length of the payload.
pub const UDP_IPV4_HEADERS: u64 = 28;
