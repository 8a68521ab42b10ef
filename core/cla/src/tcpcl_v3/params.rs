//! Parameters of TCPCLv3 for node files, scenarios, references and forms. Its links have the parameters of TCPCLv4
//! links.

use crate::streams::params::{LONGEST, bytes, duration, flag, sessions};
use crate::tcpcl_v4::{Config, REACTIVE};
use farlink_base::LayerParam;

/// Longest keepalive interval, ns: RFC 7242 4.1 has 16 bits of seconds.
const KEEPALIVE_MAX: u64 = 65_535 * 1_000_000_000;

/// Parameters of the whole entity.
pub const PARAMS: &[LayerParam<Config>] = &[
    duration!(keepalive, 0, KEEPALIVE_MAX, "Keepalive interval offered; 0 s disables."),
    duration!(contact_timeout, 1_000_000, LONGEST, "Longest time for a peer to introduce itself before it is dropped."),
    duration!(idle, 0, LONGEST, "Time without transfers after which a session is terminated; 0 s: never."),
    duration!(
        progress,
        0,
        LONGEST,
        "Longest time without progress of a transfer, or of the peer's acknowledgments or reading, before a session is dropped; 0 s: never."
    ),
    bytes!("transfer_mru", transfer_mru, 1, 1 << 50, "Largest bundle accepted."),
    sessions!("Most sessions at once."),
    flag!(accept_unknown, "Whether nodes without a link may connect."),
    bytes!("reactive", reactive, 0, 1 << 50, REACTIVE),
];
