//! One node: its agent, store and convergence layers joined by a work list. Drivers (real node, simulator, embedded
//! port) drive nothing else.
//!
//! It contains no protocol and no policy. Read [`Input`], [`Output`] and [`Config`] first, then `stack.rs`.
#![no_std]
#![forbid(unsafe_code)]
#[cfg(clippy)]
extern crate std;

extern crate alloc;

mod arrivals;
mod build;
mod config;
mod custody;
mod edge;
mod edge_v6;
mod io;
mod kinds;
#[cfg(test)]
mod mtu_tests;
mod outgoing;
mod outputs;
mod pieces;
mod reads;
mod reporting;
mod security;
mod shards;
mod spools;
mod stack;
mod store;
mod tunnel;
mod work;

pub use config::{Config, LayerConfig, LinkConfig, StoreConfig, StoreKind};
pub use custody::CustodyConfig;
pub use edge::{BpV7, Codec, Opening, Piece, Watch};
pub use edge_v6::BpV6;
pub use farlink_bpa::{
    CompressedSettings, CursorId, CustodySettings, Limits, Pressure, Quota, SHORT_HEAD_BYTES, TunnelCodes,
    TunnelSettings,
};
pub use io::{Input, MessageInput, MessageOutput, Output};
pub use kinds::{Identity, LayerKind, LinkParams, Neighbour};
pub use reporting::CompressedConfig;
pub use security::{KeyRing, Secret, SecurityAlarm, SecurityConfig, SecurityCounts};
pub use shards::{Across, HeadBudget, SHARD_BUNDLES_MAX, SHARDS_MAX, ShardConfig};
pub use stack::{LINKS_MAX, Stack};
