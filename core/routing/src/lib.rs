//! Routers and contact plans, one file per router and per plan dialect.
//!
//! This crate never sees a bundle's bytes and never decides whether a bundle is kept (`core/congestion`). Start with
//! [`Router`], [`PlanIndex`] and [`ContactPlan`].
#![no_std]
#![forbid(unsafe_code)]
#[cfg(any(clippy, test))]
extern crate std;

extern crate alloc;

mod acks;
mod answer;
pub mod contact_plan;
mod direct_delivery;
mod epidemic;
mod first_contact;
mod journey;
mod maxprop;
pub mod plan_index;
mod prophet;
mod rapid;
mod registry;
mod router;
pub mod sabr;
mod spray;
mod static_routes;
#[cfg(test)]
mod testing;

pub use answer::{RouteAnswer, RouteRequest, answer, parse_time};
pub use contact_plan::{Contact, ContactPlan, PlanTime};
pub use farlink_base::NodeId;
pub use journey::PlannedJourney;
pub use plan_index::{GroupId, PlacedContact, PlacedPlan, PlanIndex};
pub use registry::{RouterInfo, make_router, routers};
pub use router::Router;
