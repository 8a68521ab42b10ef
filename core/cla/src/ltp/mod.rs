//! The Licklider Transmission Protocol (RFC 5326, CCSDS 734.1-B-1).
//!
//! [`Ltp`] is one engine: all its spans, sessions and timers, driven as a
//! [`farlink_base::layer::ConvergenceLayer`]. It never looks inside a bundle (a function in
//! [`Config`] tells where one ends) and never reads a clock. Sessions it sends live in `export`,
//! those it receives in `import`; [`segment`] is the wire.
//!
//! Segments leave on `Wake` only (the deadline is *now* when something can leave), so that what one
//! round of the driver gathers leaves in few long batches.

mod adapting;
mod assembly;
mod authentication;
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
mod ranges;
mod receiving;
mod report;
mod reported;
mod riders;
pub mod segment;
mod sending;
mod source;
mod span;
mod timers;

/// Bytes of headers in a typical data segment: control byte, session, offsets and lengths.
pub const HEADER_BYTES: u64 = 20;

pub use authentication::{Authentication, GENERATIONS_MAX, KEY_ID_MAX, LinkKey};
pub use cookies::AskCookies;
pub use engine::{Ltp, Usage};
pub use params::{LINK_PARAMS, PARAMS};
pub use sending::told;

use farlink_base::{Duration, LayerId, LinkId, Malformed, NodeId, Payload};

/// Tells the length of the first complete item of a block (a bundle): `Ok(None)` when the bytes end
/// before the item does, an error when it cannot be read. What cannot be split is offered whole.
pub type Split = fn(&Payload) -> Result<Option<u64>, Malformed>;

/// The [`Split`] of a block that is one item.
pub fn whole_block(_: &Payload) -> Result<Option<u64>, Malformed> {
    Ok(None)
}

/// One LTP engine.
#[derive(Clone, Debug)]
pub struct Config {
    /// This instance's number in its stack (keeps dynamic link numbers apart).
    pub layer: LayerId,
    /// This engine's number; by convention the ipn node number.
    pub engine: u64,
    /// Sessions open at once, in and out, over all spans.
    pub sessions: u32,
    /// Whether segments from engines without a span are served (their link is dynamic).
    pub accept_unknown: bool,
    /// When who may have forged the address it sends from must echo a cookie first (RFC 5327 2.2).
    pub cookies: AskCookies,
    /// Seed of session and serial numbers. A real node must not reuse one after a restart: its peers
    /// remember the sessions of before.
    pub seed: u64,
    /// Bytes of blocks that are still arriving, over all spans; what exceeds it is not taken (and so
    /// not claimed, and sent again later). Of a long red part only what has not been handed on counts.
    pub memory_bytes: u64,
    /// Bytes of blocks in sessions of this engine's own, over all spans, of a bundle sent in parts those in memory;
    /// beyond it none is welcome. The last quarter is for spans that have no session: peers that never answer do not
    /// stop the others. What is handed over at once may exceed it, as one block longer than that does.
    pub in_flight_bytes: u64,
    /// Longest block taken.
    pub block_bytes: u64,
    /// Where a bundle in a block ends, for blocks of several.
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

/// One neighbour.
#[derive(Clone, PartialEq, Debug)]
pub struct SpanConfig {
    /// Which link it is.
    pub link: LinkId,
    /// The neighbour's engine number.
    pub engine: u64,
    /// The node it stands for.
    pub node: NodeId,
    /// Bytes of one datagram (LTP segment, headers of LTP included).
    pub datagram_bytes: u32,
    /// Bytes of headers the medium adds to each datagram (IP and UDP: 28); charged to the rate.
    pub overhead_bytes: u32,
    /// Export sessions open at once.
    pub sessions: u32,
    /// Bytes in flight at once (all export sessions of the span).
    pub window_bytes: u64,
    /// Join bundles to blocks up to this size; 0 sends each alone. Only for peers that split.
    pub aggregate_bytes: u64,
    /// Say of each bundle of a shared block which service it is for (CCSDS 734.1, service data aggregation).
    pub aggregate_marked: bool,
    /// Longest a bundle waits for others to join.
    pub aggregate_wait: Duration,
    /// Added to the round trip for each timer, for queueing and processing at both ends, until answers
    /// were measured.
    pub margin: Duration,
    /// Times a checkpoint, report or cancel is sent before the session is given up.
    pub attempts: u32,
    /// Extra checkpoints inside a block, every this many bytes; 0 for only the last.
    pub checkpoint_every: u64,
    /// Times each checkpoint and report leaves at once, where loss was seen. Each that is lost costs a
    /// round trip; a copy costs a datagram. 1 sends no copies. More only to peers that know a copy of a
    /// checkpoint by its serial number, as this engine does: ION answers each with a new report, and gives
    /// the session up when those are too many (RFC 5326 6.11).
    pub copies: u32,
    /// As receiver, report a visible gap unasked once this many bytes came since the last report and
    /// the end of the block is not known (RFC 5326 6.11 "asynchronous"); 0 for never.
    pub report_every: u64,
    /// Import sessions idle longer than this are dropped.
    pub idle: Duration,
    /// The same for blocks without a red part: what is missing of them does not come again.
    pub idle_green: Duration,
    /// Bytes of a block behind these are green: sent once, and lost if they are; 0: none are.
    pub green_from: u64,
    /// What segments of this link show, both ways.
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
