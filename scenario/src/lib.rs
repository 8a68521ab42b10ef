//! The scenario: one TOML file with nodes, links, contact plan, traffic and measurements. The simulator and the testbed
//! read the same file, and it parses the same on every machine.
//!
//! This crate opens no socket, reads no clock and starts nothing. It draws bundles among groups; all other random
//! things are only described here. Read [`Scenario`] and [`Link`] first.
#![forbid(unsafe_code)]

mod address;
mod defaults;
mod docs;
mod doubts;
mod draw;
mod fault;
mod flow;
mod host;
mod implementation;
pub mod keys;
mod keys_flow;
mod keys_group;
pub mod keys_host;
pub mod keys_moving;
mod layers;
pub mod motion;
mod names;
mod oracle;
mod parse;
mod parse_contact;
mod parse_fault;
mod parse_flow;
mod parse_forecast;
mod parse_host;
mod parse_link;
mod parse_moving;
mod parse_node;
mod parse_quota;
mod parse_sky;
mod parse_traffic;
mod parse_tunnel;
mod plan;
mod radios;
mod settings;
mod shared;
mod topology;
mod types;

pub use address::{LinkEnd, PREFIX_LENGTH};
pub use docs::{EXAMPLE, reference, schema};
pub use farlink_base::ConfigError;
pub use farlink_cla::registry::{LAYERS, LayerInfo, Medium};
pub use farlink_cla::tcpcl_v4::Tls;
pub use farlink_config::custody::CustodyRules;
pub use farlink_config::quota::Quota;
pub use farlink_config::reports::ReportRules;
pub use farlink_link::{DirectionSpec, LinkSpec};
pub use fault::Down;
pub use flow::{Flow, FlowHop, FlowTransport, IpRoute};
pub use host::{ContainerImage, HostKind, HostSpec, Phase, PhaseEnd, PhaseKind, Processors, SshMachine};
pub use implementation::Implementation;
pub use layers::NodeLayer;
pub use shared::{ConnectSide, Layer, Settings, SizeRange};
pub use topology::{first_delay, first_rate};
pub use types::{
    CAPTURES_MAX, Contact, Custody, Expect, Fault, FaultKind, Fidelity, Lie, Link, LinkChange, Measure, Node, Pace,
    Policy, Route, SENDER_SERVICE, Scenario, StoreKind, Table, Tcp, Traffic, TrafficKind, Tunnel,
};
