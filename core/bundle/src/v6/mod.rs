//! BPv6 (RFC 5050, with RFC 6260's compressed headers) for an engine that knows no wire format: the same outside as
//! [`crate::v7`].
//!
//! [`read`] and [`begin`] take bundles from the wire, [`read_parts`] from a store; [`render`] writes what leaves on a
//! hop, whole or cut; [`make`] and [`whole`] make new ones. Tools that show every block use [`decode`]; all are filled
//! by the same walk. Nothing here decides anything.
//!
//! Only this module reads [`BundleMeta::head`]: everything around the payload as it came, but for blocks that their
//! sender wanted discarded, and with blocks that nobody here understood marked so (RFC 5050 4.6). The last
//! [`BundleMeta::tail`] bytes of it follow the payload; [`BundleMeta::tail_len`] is 0.
//!
//! Times on the wire are seconds, those of the engine milliseconds; ages of ION's block are microseconds.

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

pub use crate::v7::{Draft, Status};
pub use age::restamp;
pub use block::{Meaning, Service, block_flags, kind};
pub use end::end;
pub use head::MAX_TAIL_BYTES;
pub use make::{make, whole};
pub use names::text;
pub use primary::{Primary, flags};
pub use read::{Begun, begin, head, read, read_parts, tail};
pub use records::{
    AggregateSignal, CustodySignal, Fill, Record, StatusReport, custody_reason, record, signal, status_report,
};
pub use render::{append, render, render_loaded, size};
pub use view::{BlockView, Bundle, decode};

/// The version of the bundle protocol, and the first byte of its bundles.
pub const VERSION: u8 = primary::VERSION;

#[cfg(doc)]
use farlink_base::BundleMeta;
