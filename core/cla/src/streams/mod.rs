//! What layers over byte streams have in common, whatever they say over them: links that connect again and wait longer
//! each time, bundles that wait, bytes not read yet, deadlines, the room for strangers.
//!
//! It knows no message of any protocol. Read [`links`] first.

pub(crate) mod chunk_queue;
pub(crate) mod inbox;
pub(crate) mod links;
pub(crate) mod params;
pub(crate) mod timing;
pub(crate) mod waiting;

use farlink_base::Duration;

/// A link that is down this long gives up what is under way: TCP would come back from a longer
/// silence with its timers backed off by as much again.
pub const PARK: Duration = Duration::from_secs(5);
/// Bytes of packets for 1,000,000 bytes of a stream: 1448 bytes of data in each packet of 1500.
pub(crate) const WIRE_BYTES_PER_MILLION: u64 = 1_036_000;
/// Bytes of a bundle are offered in parts of at least this, so that a trickle does not become as many parts as bytes.
pub(crate) const PART_BYTES: u64 = 64 << 10;
