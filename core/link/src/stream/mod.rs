//! A reliable ordered byte stream over the packet link, for stream layers in simulation: what TCP
//! does to them, without sockets.
//!
//! Two [`StreamEnd`]s exchange [`Segment`]s that the driver carries over two
//! [`LinkDirection`](crate::LinkDirection)s. Segments have 64-bit sequence numbers and carry ropes,
//! so that length-only payloads pass untouched. Behaviour follows Linux where it shows on a long
//! path: initial window of ten segments (RFC 6928), SACK (RFC 2018), loss found by later
//! deliveries (RFC 8985), retransmission timeout (RFC 6298) of at least 200 ms beyond the smoothed
//! round trip, delayed acknowledgments of 40 ms, slow start after idle. It does not contain Nagle's
//! algorithm (stream layers set TCP_NODELAY), urgent data or simultaneous open.

mod congestion;
mod cubic;
mod end;
mod lane;
mod rack;
mod receiver;
mod repair;
mod round_trip;
mod segment;
mod sender;
#[cfg(test)]
mod tests;

pub use congestion::Congestion;
pub use end::{Input, Output, StreamEnd};
pub use segment::{HEADERS, Segment, Selective};

use farlink_base::Duration;

/// Parameters of one end.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Config {
    /// Payload bytes of a full segment. 1448: an Ethernet frame with TCP timestamps.
    pub segment_bytes: u64,
    /// Bytes written and not yet acknowledged that an end keeps (Linux `tcp_wmem`, most: 4 MiB).
    pub send_buffer: u64,
    /// Bytes received and not yet taken that an end keeps (Linux `tcp_rmem`, most: 6 MiB).
    pub receive_buffer: u64,
    /// What limits the data in flight.
    pub congestion: Congestion,
    /// Give up connecting after this time (Linux: six repetitions, 127 s).
    pub connect_timeout: Duration,
    /// Give up a connection when nothing was acknowledged for this time (Linux: 15 repetitions,
    /// about 924 s).
    pub give_up: Duration,
}
impl Default for Config {
    fn default() -> Self {
        Config {
            segment_bytes: 1448,
            send_buffer: 4 << 20,
            receive_buffer: 6 << 20,
            congestion: Congestion::NewReno,
            connect_timeout: Duration::from_secs(127),
            give_up: Duration::from_secs(924),
        }
    }
}
