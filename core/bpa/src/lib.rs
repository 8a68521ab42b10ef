//! The bundle protocol agent of one node: receive, dispatch, forward, deliver, expire, fragment,
//! reassemble, report (RFC 9171 5).
//!
//! It knows convergence layers and stores only by their contracts, and routers and congestion
//! controls by their traits. Read `agent.rs` first, then [`app`].
#![no_std]
#![forbid(unsafe_code)]
#[cfg(clippy)]
extern crate std;

extern crate alloc;

mod agent;
pub mod app;
mod contacts;
mod deliver;
mod dispatch;
mod forward;
mod held;
mod io;
mod lifetime;
mod link;
mod names;
mod receive;
mod remembered;
mod report;
mod settings;
mod status;

pub use agent::Agent;
pub use io::{Input, OfferToken, Output};
pub use settings::{Limits, LinkSettings, Settings};
