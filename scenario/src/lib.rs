//! The scenario: one TOML file with nodes, links, contact plan, traffic and what to measure, that
//! the simulator and the testbed both read and that parses the same on every machine.
//!
//! It opens no socket, reads no clock and never starts anything; random things are only described
//! here. Read [`Scenario`] and [`Link`] first.
#![forbid(unsafe_code)]

mod address;
mod docs;
pub mod keys;
mod parse;
mod parse_contact;
mod parse_link;
mod parse_traffic;
mod plan;
mod reader;
mod topology;
mod types;

pub use address::{LTP_PORT, LinkEnd, PREFIX_LENGTH, TCPCL_PORT};
pub use docs::{EXAMPLE, reference};
pub use farlink_base::ConfigError;
pub use farlink_link::{DirectionSpec, LinkSpec};
pub use types::{
    ConnectSide, Contact, Crc, Expect, Layer, Link, Ltp, Measure, Node, Pace, Policy, Route, Scenario, SizeRange,
    StoreKind, Table, TcpclV4, Traffic, TrafficKind,
};
