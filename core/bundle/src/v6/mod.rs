//! BPv6 (RFC 5050, with RFC 6260's compressed headers) for an engine that knows no wire format, with the same interface
//! as [`crate::v7`].
//!
//! [`read`] and [`begin`] parse bundles from the wire, [`read_parts`] from a store; [`render`] writes a bundle that
//! leaves, whole or as a fragment; [`make`] and [`whole`] create new ones. Tools that show every block use [`decode`].
//! One parser fills all of them. This module makes no decisions.
//!
//! Only this module reads [`BundleMeta::head`]: all bytes around the payload as received, without the blocks whose
//! sender wanted them discarded, and with unknown blocks marked as unprocessed (RFC 5050 4.6). Its last
//! [`BundleMeta::tail`] bytes follow the payload; [`BundleMeta::tail_len`] is 0.
//!
//! Times are seconds on the wire and milliseconds in the engine; ages in ION's block are microseconds.

mod age;
mod block;
mod end;
mod facts;
mod head;
mod make;
mod names;
mod primary;
mod read;
mod records;
mod render;
mod rewrite;
#[cfg(test)]
mod tests;
mod view;
mod wire;

pub use crate::v7::{BundleDraft, StatusAssertion};
pub use age::restamp;
pub use block::{ExtendedClass, Meaning, block_flags, kind};
pub use end::end;
pub use head::MAX_TAIL_BYTES;
pub use make::{make, whole};
pub use names::text;
pub(crate) use primary::peek_identity;
pub use primary::{Primary, flags};
pub use read::{Begun, begin, head, read, read_parts, tail};
pub use records::{
    AggregateSignal, CustodyFill, CustodySignal, ParsedRecord, StatusReport, custody_reason, record, signal,
    status_report,
};
pub use render::{append, render, render_loaded, size};
pub use view::{BlockView, BundleView, decode};

/// Version of the bundle protocol, and the first byte of its bundles.
pub const VERSION: u8 = primary::VERSION;

#[cfg(doc)]
use farlink_base::BundleMeta;
