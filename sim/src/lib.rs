//! Discrete-event simulator: one event queue drives the stacks of all nodes of a scenario, joined by emulated links, in
//! virtual time; a seed replays a run to the last event.
//!
//! It contains no protocol: bundles, LTP, TCPCL, routing and stores are the engine's code, exactly as a real node runs
//! it. Payloads are represented by their length only. Read [`World`] first (the whole loop is on one page of
//! `world.rs`), then `build.rs`, which turns a scenario into nodes.
//!
//! | file | stands in for |
//! |---|---|
//! | `build.rs` | the node's configuration file |
//! | `world.rs` | time and causality |
//! | `sim_event.rs` | events and their queue |
//! | `node.rs` | one machine: a stack, its disk, its alarm clock |
//! | `cable.rs` | the radio or cable of a link, and UDP over it |
//! | `streams.rs` | TCP |
//! | `tls.rs` | TLS, as far as it takes time and bytes |
//! | `messages.rs` | a link that carries whole bundles |
//! | `mobility/`, `contacts/` | positions of nodes, and the contacts that follow |
//! | `disk.rs` | the disk |
//! | `oracle.rs` | knowledge that no node can have |
//! | `own.rs` | routers and controls of the program that drives a simulation |
//! | `shared_routes.rs` | routes that thousands of satellites compute only once |
//! | `naming.rs`, `weights.rs` | names of nodes, sizes of bundles on a link |
//! | `traffic/` | the applications |
//! | `flows.rs` | plain TCP and UDP between hosts |
//! | `faults.rs`, `world/faults.rs` | faults: kills, wrong clocks, radio silence |
//! | `byzantine.rs` | hellos of Byzantine nodes |
//! | `radio/` | a radio that nodes share: turns and transfers |
//! | `record.rs`, `samples.rs`, `playback.rs`, `inputs.rs` | the run directory |
#![forbid(unsafe_code)]

mod build;
mod byzantine;
mod cable;
pub mod contacts;
mod crossing;
mod disk;
mod faults;
mod flows;
mod inputs;
pub mod messages;
pub mod mobility;
mod naming;
mod node;
mod observe;
mod oracle;
mod own;
mod playback;
mod radio;
mod record;
mod samples;
mod shared_routes;
mod sim_event;
mod streams;
pub mod tls;
mod traffic;
mod weights;
mod world;

pub use build::node_config;
pub use naming::DEFAULT_EPOCH;
pub use observe::{Nodes, Observer, Silent, Trace};
pub use own::{OwnPolicies, Registered};
pub use radio::radios::RadioOutcome;
pub use record::{Options, Progress, run, run_watched, run_with};
pub use traffic::TrafficOutcome;
pub use world::{Outcome, World};
