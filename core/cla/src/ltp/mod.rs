//! Licklider Transmission Protocol (RFC 5326, CCSDS 734.1-B-1).
//!
//! [`Ltp`] is one engine with all its spans, sessions and timers, driven as a
//! [`farlink_base::layer::ConvergenceLayer`]. Bundles are not parsed; a function in [`Config`] finds their end. Export
//! sessions, in which this engine sends, are in `export`; import sessions, in which it receives, are in `import`.
//! [`segment`] is the encoding.
//!
//! Segments leave only on `Wake`, whose deadline is *now* if something can leave. So everything gathered in one round
//! of the driver leaves in few long batches.

mod adapting;
mod assembly;
mod authentication;
mod block_bundles;
mod cookies;
mod ending;
mod engine;
mod export;
pub mod extension;
mod guard;
mod guests;
mod import;
mod offering;
mod offers;
mod pace;
mod params;
mod peers;
mod protocol;
pub(crate) mod ranges;
mod reading;
mod receiving;
mod report;
mod reported;
pub mod segment;
mod sending;
mod source;
mod span;
mod timers;

/// Length of the headers in a typical data segment, bytes: control byte, session, offsets and lengths.
pub const HEADER_BYTES: u64 = 20;

pub use authentication::{Authentication, GENERATIONS_MAX, KEY_ID_MAX, LinkKey};
pub use cookies::AskCookies;
pub use engine::{Ltp, Usage};
pub use params::{LINK_PARAMS, PARAMS};
pub use reading::{BYTES_MAX as READING_BYTES_MAX, LtpReader};
pub use sending::sender_result;

use farlink_base::{Duration, LayerId, LinkId, Malformed, NodeId, Payload};

/// Function that finds the length of the first complete item (a bundle) of a block: `Ok(None)` if the bytes end before
/// the item does, an error if it is malformed. A block that cannot be split is offered whole.
pub type Split = fn(&Payload) -> Result<Option<u64>, Malformed>;

/// [`Split`] function for blocks that always hold one item.
pub fn whole_block(_: &Payload) -> Result<Option<u64>, Malformed> {
    Ok(None)
}

/// Configuration of one LTP engine.
#[derive(Clone, Debug)]
pub struct Config {
    /// Number of this layer in its stack; part of the numbers of its dynamic links, so that two layers use no number
    /// twice.
    pub layer: LayerId,
    /// Engine number; by convention the ipn node number.
    pub engine: u64,
    /// Most open sessions, export and import, over all spans.
    pub sessions: u32,
    /// Whether segments of engines without a span are accepted; such an engine gets a dynamic link.
    pub accept_unknown: bool,
    /// When to request cookies (RFC 5327 2.2) from senders whose address may be forged.
    pub cookies: AskCookies,
    /// Seed of session and serial numbers. A real node must use another one after a restart, because its peers remember
    /// earlier sessions.
    pub seed: u64,
    /// Most bytes of blocks being received, over all spans. Data beyond this limit is dropped and not claimed, so the
    /// peer sends it again later if it is red. Of the red part of a long block, only bytes not offered yet count.
    pub memory_bytes: u64,
    /// Most bytes of blocks in export sessions, over all spans; a bundle given in parts counts only its bytes in
    /// memory. At the limit, links take no further bundles. The last quarter is reserved for spans without a session,
    /// so that peers that never answer do not block others. Bundles handed over at once, or a single longer block, may
    /// exceed the limit.
    pub in_flight_bytes: u64,
    /// Longest block accepted, bytes.
    pub block_bytes: u64,
    /// Finds the end of a bundle in a block that holds several.
    pub split: Split,
}
impl Default for Config {
    fn default() -> Self {
        Config {
            layer: LayerId(0),
            engine: 0,
            sessions: 100_000,
            accept_unknown: true,
            cookies: AskCookies::Pressed,
            seed: 0,
            memory_bytes: 1 << 30,
            in_flight_bytes: 4 << 30,
            block_bytes: 1 << 42,
            split: whole_block,
        }
    }
}

/// Parameters of one neighbour's span.
#[derive(Clone, PartialEq, Debug)]
pub struct SpanConfig {
    /// Number of the link.
    pub link: LinkId,
    /// Engine number of the neighbour.
    pub engine: u64,
    /// Node that the link leads to.
    pub node: NodeId,
    /// Longest datagram, bytes, LTP headers included.
    pub datagram_bytes: u32,
    /// Length of the headers that the medium adds to each datagram, bytes (IP and UDP: 28); they count against the
    /// rate.
    pub overhead_bytes: u32,
    /// Most open export sessions.
    pub sessions: u32,
    /// Most bytes in flight, over all export sessions of the span.
    pub window_bytes: u64,
    /// Length up to which bundles are aggregated in one block, bytes; 0: each is sent alone. Only for peers that split
    /// blocks.
    pub aggregate_bytes: u64,
    /// Whether each bundle in a shared block is marked with its client service number (CCSDS 734.1, service data
    /// aggregation).
    pub aggregate_marked: bool,
    /// Longest wait of a bundle for others to join its block.
    pub aggregate_wait: Duration,
    /// Time for queueing and processing at both ends, added to the round trip in each timer until answer times are
    /// measured.
    pub margin: Duration,
    /// Most transmissions of a checkpoint, report or cancel segment before the session is given up.
    pub attempts: u32,
    /// Number of bytes between additional checkpoints in a block; 0: only the last red segment is a checkpoint.
    pub checkpoint_every: u64,
    /// Number of times that each checkpoint and report is sent at once after loss was seen; 1: no copies. A lost
    /// segment costs a round trip, a copy only a datagram. Values above 1 are for peers that recognise a copy by its
    /// serial number, as this engine does. ION answers each copy with a new report, and cancels the session when its
    /// reports exceed their limit (RFC 5326 6.11).
    pub copies: u32,
    /// Number of bytes after which a receiver reports a gap without having been asked ("asynchronous", RFC 5326 6.11),
    /// counted from the last report, while the end of the block is unknown; 0: never.
    pub report_every: u64,
    /// Time without a segment after which an import session is dropped.
    pub idle: Duration,
    /// Time without a segment after which an import session without a red part, or lacking only green data, is dropped.
    /// Missing green data is not sent again.
    pub idle_green: Duration,
    /// Offset from which blocks are green: data from there on is sent once and not repaired; 0: no green data.
    pub green_from: u64,
    /// Authentication of the link's segments, in both directions.
    pub authentication: Authentication,
}
impl Default for SpanConfig {
    fn default() -> Self {
        SpanConfig {
            link: LinkId(0),
            engine: 0,
            node: NodeId::NULL,
            datagram_bytes: 1360,
            overhead_bytes: 28,
            sessions: 10_000,
            window_bytes: 1 << 30,
            aggregate_bytes: 0,
            aggregate_marked: false,
            aggregate_wait: Duration::from_millis(2),
            margin: Duration::from_millis(200),
            attempts: 20,
            checkpoint_every: 0,
            copies: 1,
            report_every: 1 << 20,
            idle: Duration::from_secs(3600),
            idle_green: Duration::from_secs(10),
            green_from: 0,
            authentication: Authentication::None,
        }
    }
}
