//! The bundle protocol agent of one node: receive, dispatch, forward, deliver, expire, fragment,
//! reassemble, report (RFC 9171 5), for every version of the bundle protocol.
//!
//! It knows no wire format ([`Edge`] is its door to them), convergence layers and stores only by
//! their contracts, and routers and congestion controls by their traits. Read `agent.rs` first,
//! then [`app`].
#![no_std]
#![forbid(unsafe_code)]
#[cfg(clippy)]
extern crate std;

extern crate alloc;

mod agent;
pub mod app;
mod arriving;
#[cfg(feature = "audit")]
mod audit;
mod causes;
mod compressed;
mod contacts;
mod content;
mod creation;
mod custody;
mod custody_hears;
mod custody_says;
mod cuts;
mod debts;
mod deliver;
mod deliveries;
mod depart;
mod dispatch;
mod edge;
mod evict;
mod forward;
mod fragments;
mod groups;
mod hearing;
mod io;
mod journeys;
mod keep;
mod lifetime;
mod link;
mod loops;
mod memory;
mod narrow;
mod neighbours;
mod offers;
mod originate;
mod outcome;
mod policies;
mod promises;
mod queues;
mod quotas;
mod ranges;
mod reassemble;
mod receive;
mod remembered;
mod repeats;
mod reports;
mod rests;
mod sends;
mod settings;
mod shares;
mod signals;
mod slab;
mod status;
mod sweeps;
#[cfg(test)]
mod testing;
mod tunnel;
mod tunnel_hears;
mod tunnel_in;
mod tunnel_out;
mod waits;
mod wall;

pub use agent::Agent;
#[cfg(feature = "audit")]
pub use audit::Counts;
pub use edge::{About, Answer, Asked, Carried, Draft, Edge, Fate, Item, Numbers, Record, Signal, Status, TunnelCodes};
pub use farlink_base::Limits;
pub use farlink_base::node::SHORT_HEAD_BYTES;
pub use farlink_book::{CursorId, Oracle, Origin};
pub use io::{Input, OfferToken, Output, Pressure, Reading, endpoint_of};
pub use quotas::Quota;
pub use settings::{
    CompressedSettings, CustodySettings, LinkSettings, RareSettings, SHARD_NUMBERS, Settings, TunnelSettings,
};
