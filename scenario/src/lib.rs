//! The scenario: one TOML file with nodes, links, contact plan, traffic and what to measure, that
//! the simulator and the testbed both read and that parses the same on every machine.
//!
//! It opens no socket, reads no clock and never starts anything; random things are only described
//! here. Read [`Scenario`] and [`Link`] first.
#![forbid(unsafe_code)]

mod address;
mod plan;
mod types;

pub use address::{LTP_PORT, LinkEnd, PREFIX_LENGTH, TCPCL_PORT};
pub use farlink_base::ConfigError;
pub use types::{
    Burst, ConnectSide, Contact, Crc, Delay, Direction, Expect, Flapping, Jitter, JitterShape, Layer, Link, Ltp,
    Measure, Node, Pace, Policy, Queue, Rate, Reordering, Route, Scenario, SizeRange, StoreKind, Table, TcpclV4,
    Traffic, TrafficKind,
};
