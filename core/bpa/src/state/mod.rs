//! The owners of state: each table about bundles is one file with private fields. They know the book and each other's
//! types, but not [`Agent`](crate::Agent): procedures decide, owners remember.

pub(crate) mod arriving;
pub(crate) mod backoff;
pub(crate) mod content;
pub(crate) mod creation;
pub(crate) mod deliveries;
pub(crate) mod fair_share;
pub(crate) mod fragments;
pub(crate) mod loops;
pub(crate) mod memory;
pub(crate) mod offers;
pub(crate) mod outbound;
pub(crate) mod partial_sends;
pub(crate) mod pending_commits;
pub(crate) mod queues;
pub(crate) mod quotas;
pub(crate) mod ranges;
pub(crate) mod remembered;
pub(crate) mod reroute_scan;
pub(crate) mod reservations;
pub(crate) mod slab;
pub(crate) mod store_bounds;
pub(crate) mod transmissions;
pub(crate) mod waits;
pub(crate) mod wall_clock;
