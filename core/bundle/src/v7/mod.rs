//! BPv7 for an engine that knows no wire format: a bundle is a [`BundleMeta`] and a [`HopState`], from which this
//! module encodes it.
//!
//! [`read`] and [`begin`] parse bundles from the wire, [`read_parts`] from a store; [`render`] writes a bundle that
//! leaves, whole or as a fragment; [`make`] and [`whole`] create new ones. This module makes no decisions. Only it
//! reads [`BundleMeta::head`]: the bytes before the payload as received, without the blocks whose sender wanted them
//! discarded.

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

pub use crate::check::PayloadCheck;
pub use age::restamp;
pub use begin::{Begun, begin};
pub use custody::CustodyCodes;
pub use facts::facts_of;
pub use make::{BundleDraft, make, whole};
pub use read::{read, read_parts, tail};
pub use records::{ParsedRecord, StatusAssertion, record, signal, status_report};
pub use render::{PendingFragment, append, computes_crc, piece, render, render_loaded, size};
pub use tunnel::{Carried, TunnelCodes, TunnelSignal};

#[cfg(doc)]
use farlink_base::{BundleMeta, HopState};
