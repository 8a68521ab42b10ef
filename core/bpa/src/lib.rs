//! The bundle protocol agent of one node: receive, dispatch, forward, deliver, expire, fragment, reassemble and report
//! (RFC 9171 section 5), for every version of the bundle protocol.
//!
//! The agent knows no wire format ([`Edge`] is the interface to them), convergence layers and stores only by their
//! contracts, and routers and congestion controls by their traits. Read `agent.rs` first, then [`app`].
#![no_std]
#![forbid(unsafe_code)]
#[cfg(clippy)]
extern crate std;

extern crate alloc;

mod agent;
pub mod app;
mod context;
mod custody;
mod edge;
mod inspect;
mod io;
mod neighbours;
mod patterns;
mod policies;
mod procedures;
mod reports;
mod settings;
mod state;
#[cfg(test)]
mod testing;
mod tunnel;
mod work;

pub use agent::Agent;
pub use edge::{About, Answer, Asked, Carried, Draft, Edge, Fate, Item, Numbers, Record, Signal, Status, TunnelCodes};
pub use farlink_base::Limits;
pub use farlink_base::node::SHORT_HEAD_BYTES;
pub use farlink_book::{CursorId, Oracle, Origin};
#[cfg(feature = "audit")]
pub use inspect::audit::Counts;
pub use io::{Input, OfferToken, Output, Pressure, Reading, endpoint_of};
pub use settings::{
    CompressedSettings, CustodySettings, LinkSettings, RareSettings, SHARD_NUMBERS, Settings, TunnelSettings,
};
pub use state::quotas::Quota;
