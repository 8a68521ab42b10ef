//! The bundles that a node holds, its neighbours, and the vocabulary of its policies: the book of held bundles, the
//! table of neighbours, a policy's view of the node ([`Node`]), the events it receives ([`PolicyEvent`]) and the
//! actions it returns ([`Action`]).
//!
//! This crate decides nothing and knows no wire format: the agent (`core/bpa`) keeps the book, and routers
//! (`core/routing`) and congestion controls (`core/congestion`) read it. Start with [`Held`] and [`Node`].
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
pub use forecast::{Forecast, StoreFlow, StoreLevel, forecast};
pub use held::{Birth, Flags, Handle, Held, New, RetentionConstraint, RetentionConstraints};
pub use journeys::{Journey, Journeys};
pub use peers::{Identity, Newest, Origin, Peer, PeerName, Peers};
pub use policy::{
    Action, Actions, CopyOffer, DeliveryEstimate, DeliveryForecast, EventMask, LabelSplit, NextHop, Node, Oracle,
    PolicyEvent, Ranking, RouteDecision, Side, Why, numbers, put_number,
};
pub use reporters::Reporters;
