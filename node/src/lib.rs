//! The real node: sockets, disk, clock, applications and a control API around one stack.
//!
//! It contains no protocol and decides nothing about bundles: it moves bytes and time in and out of
//! [`farlink_stack::Stack`]. Read [`config`] (what a node is told) and [`node::Node`] (the one
//! thread that owns the stack) first.

pub mod aap2;
mod api;
pub mod apps;
pub mod bench;
mod buffers;
pub mod clock;
pub mod config;
mod datagrams;
mod disk;
pub mod events;
pub mod http;
pub mod log;
pub mod metrics;
pub mod node;
mod plan;
mod resolve;
pub mod run;
mod streams;
