//! What a node holds and knows, and the words its policies use: the book of held bundles, its
//! peers, what a policy sees ([`Node`]), hears ([`News`]) and says ([`Order`]).
//!
//! It decides nothing and knows no wire format: the agent (`core/bpa`) keeps the book, routers
//! (`core/routing`) and congestion controls (`core/congestion`) look at it. Read [`Held`] and
//! [`Node`] first.
#![no_std]
#![forbid(unsafe_code)]
#[cfg(clippy)]
extern crate std;

extern crate alloc;

mod book;
mod buckets;
mod calendar;
mod cursors;
mod destinations;
mod forecast;
mod held;
mod identities;
mod journeys;
mod lists;
mod pages;
mod peers;
mod policy;
mod tellers;

pub use book::{Book, CursorId};
pub use forecast::{Flow, Forecast, Level, forecast};
pub use held::{Birth, Flags, Handle, Held, New, Reason, Reasons};
pub use journeys::{Journey, Journeys};
pub use peers::{Identity, Newest, Origin, Peer, PeerName, Peers};
pub use policy::{
    Hears, Leg, News, Node, Oracle, Order, Orders, Outlook, Prospect, Ranking, Side, Split, Want, Way, Why, numbers,
    put_number,
};
pub use tellers::Tellers;
