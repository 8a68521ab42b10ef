//! Common parts of layers over byte streams: reconnection with backoff, bundles waiting to leave, unparsed input,
//! deadlines, and the limit on dynamic links.
//!
//! Nothing here knows a message of any protocol. Read [`links`] first.

pub(crate) mod chunk_queue;
pub(crate) mod inbox;
pub(crate) mod links;
pub(crate) mod params;
pub(crate) mod timing;
pub(crate) mod waiting;

use farlink_base::Duration;

/// Link outage after which transfers in progress are given up. After a longer outage TCP would wait about as long
/// again, because its retransmission timer has backed off.
pub const PARK: Duration = Duration::from_secs(5);
/// Bytes on the medium for 1,000,000 bytes of a stream: each packet of 1500 bytes carries 1448 bytes of data.
pub(crate) const WIRE_BYTES_PER_MILLION: u64 = 1_036_000;
/// Fewest bytes of an incomplete bundle that are offered at once, so that a slow stream does not make one part per
/// byte.
pub(crate) const PART_BYTES: u64 = 64 << 10;
