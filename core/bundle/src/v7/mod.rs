//! BPv7 for an engine that knows no wire format: a bundle is a [`BundleMeta`] and a [`HopState`], and
//! what this module writes from them.
//!
//! [`read`] and [`begin`] take bundles from the wire, [`read_parts`] from a store; [`render`] writes
//! what leaves on a hop, whole or cut; [`make`] and [`whole`] make new ones. Nothing here decides
//! anything. Only this module reads [`BundleMeta::head`]: the bytes before the payload's, as they
//! came but for blocks that their sender wanted discarded.

mod age;
mod begin;
pub mod custody;
mod facts;
mod make;
mod read;
mod records;
mod render;
mod rewrite;
#[cfg(test)]
mod tests;
pub mod tunnel;

pub use crate::check::Check;
pub use age::restamp;
pub use begin::{Begun, begin};
pub use custody::CustodyCodes;
pub use facts::facts_of;
pub use make::{Draft, make, whole};
pub use read::{read, read_parts, tail};
pub use records::{Record, Status, record, signal, status_report};
pub use render::{Piece, append, piece, render, render_loaded, size};
pub use tunnel::{Carried, TunnelCodes, TunnelSignal};

#[cfg(doc)]
use farlink_base::{BundleMeta, HopState};
