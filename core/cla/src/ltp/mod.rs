//! The Licklider Transmission Protocol (RFC 5326, CCSDS 734.1-B-1).

use farlink_base::{Duration, LayerId, LinkId, NodeId};

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
    /// Seed of session and serial numbers.
    pub seed: u64,
}
impl Default for Config {
    fn default() -> Self {
        Config { layer: LayerId(0), engine: 0, sessions: 100_000, accept_unknown: true, seed: 0 }
    }
}

/// One neighbour.
#[derive(Clone, Debug)]
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
    /// Longest a bundle waits for others to join.
    pub aggregate_wait: Duration,
    /// Added to the round trip for each timer: queueing and processing at both ends.
    pub margin: Duration,
    /// Times a checkpoint, report or cancel is sent before the session is given up.
    pub attempts: u32,
    /// Extra checkpoints inside a block, every this many bytes; 0 for only the last.
    pub checkpoint_every: u64,
    /// Import sessions idle longer than this are dropped.
    pub idle: Duration,
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
            aggregate_wait: Duration::from_millis(2),
            margin: Duration::from_millis(200),
            attempts: 20,
            checkpoint_every: 0,
            idle: Duration::from_secs(3600),
        }
    }
}
