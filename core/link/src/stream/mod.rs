//! Reliable ordered byte stream over the packet link: the behaviour of TCP without sockets, for stream layers in
//! simulations.
//!
//! Two [`StreamEnd`]s exchange [`Segment`]s, which the driver carries over two
//! [`LinkDirection`](crate::LinkDirection)s. Segments have 64-bit sequence numbers and carry ropes, so that payloads
//! which are only lengths pass unchanged. The behaviour follows Linux where it shows on a long path: initial window of
//! ten segments (RFC 6928), SACK (RFC 2018), losses detected by later deliveries (RFC 8985), a retransmission timeout
//! (RFC 6298) of at least 200 ms beyond the smoothed round trip, acknowledgments delayed by 40 ms, slow start after
//! idle time. Nagle's algorithm (stream layers set TCP_NODELAY), urgent data and simultaneous open are left out.

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

/// Parameters of one end of a stream.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Config {
    /// Payload bytes of a full segment; 1448 fill an Ethernet frame with TCP timestamps.
    pub segment_bytes: u64,
    /// Send buffer: most bytes written and not yet acknowledged (maximum of Linux `tcp_wmem`: 4 MiB).
    pub send_buffer: u64,
    /// Receive buffer: most bytes received and not yet read (maximum of Linux `tcp_rmem`: 6 MiB).
    pub receive_buffer: u64,
    /// Congestion control algorithm.
    pub congestion: Congestion,
    /// Time after which connecting fails (Linux: after six repetitions of the SYN, 127 s).
    pub connect_timeout: Duration,
    /// Time without an acknowledgment after which a connection fails (Linux: after 15 repetitions, about 924 s).
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
