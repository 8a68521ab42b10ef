//! Trial of the relation between the identity of a bundle and its content: honest nodes, a relay between them, and an
//! attacker that copies and alters their bundles, or sends forged ones before them. It drives real stacks with real
//! codecs and, where the setup asks for them, real log stores on virtual disks. Time is virtual and nothing is shared
//! between runs.
//!
//! Read `history.rs` (a run as data) and `world.rs` (the effect of a step) first; `ledger.rs` has the promises.
#![allow(dead_code, reason = "tests and campaign use different parts")]

pub mod campaign;
pub mod exhaust;
pub mod forgery;
pub mod history;
pub mod ledger;
#[path = "../../../storage/tests/common/disk.rs"]
mod sim_disk;
pub mod world;
