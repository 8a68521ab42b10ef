//! What a node holds and knows, and the words its policies use: the book of held bundles, its
//! peers, what a policy sees ([`Node`]), hears ([`PolicyEvent`]) and says ([`Action`]).
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
mod reporters;

pub use book::{Book, CursorId};
pub use forecast::{Flow, Forecast, Level, forecast};
pub use held::{Birth, Flags, Handle, Held, New, RetentionConstraint, RetentionConstraints};
pub use journeys::{Journey, Journeys};
pub use peers::{Identity, Newest, Origin, Peer, PeerName, Peers};
pub use policy::{
    Action, Actions, CopyOffer, DeliveryEstimate, DeliveryForecast, EventMask, LabelSplit, NextHop, Node, Oracle,
    PolicyEvent, Ranking, RouteDecision, Side, Why, numbers, put_number,
};
pub use reporters::Reporters;
