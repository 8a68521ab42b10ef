//! Results of plain TCP and UDP flows between hosts.

use serde::{Deserialize, Serialize};

/// Result of one flow of the scenario's `[[flow]]`.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct PlainFlow {
    /// Name of the flow.
    pub name: String,
    /// Name of the sending node.
    pub from: String,
    /// Name of the receiving node.
    pub to: String,
    /// Transport protocol: `tcp` or `udp`.
    pub transport: String,
    /// Congestion control of TCP, by its name at the sending host; absent for UDP.
    pub congestion: Option<String>,
    /// Payload bytes sent; for TCP, bytes that the sending host accepted.
    pub sent_bytes: u64,
    /// Payload bytes received.
    pub received_bytes: u64,
    /// Time from the first byte received to the last, in seconds.
    pub seconds: f64,
    /// Rate in bit/s of the payload received after the first delivery, over the time in `seconds`.
    pub bit_s: f64,
    /// Datagrams sent; 0 for TCP.
    pub datagrams: u64,
    /// Datagrams that did not arrive; 0 for TCP.
    pub lost: u64,
    /// TCP segments sent again.
    pub retransmitted: u64,
    /// Failure of the sender or the receiver, in words; the counters of the failed end are then 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}
