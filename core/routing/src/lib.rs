//! Where a bundle goes: contact plans and routers, one file per router and per plan dialect.
//!
//! It never sees a bundle's bytes and never decides whether a bundle is kept (`core/congestion`).
//! Read [`Router`] and [`ContactPlan`] first.
#![no_std]
#![forbid(unsafe_code)]
#[cfg(clippy)]
extern crate std;

extern crate alloc;

pub mod contact_plan;
mod router;

pub use contact_plan::{Contact, ContactPlan, PlanTime};
pub use router::{ContactChange, Outcome, Question, Router, RouterOutput};
