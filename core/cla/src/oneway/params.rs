//! Parameters of STCP and MTCP: the one table from which node files, scenarios, references and forms are made.

use super::{Config, LinkParams};
use crate::streams::params::{LONGEST, bytes, duration, flag, sessions};
use farlink_base::LayerParam;

/// Parameters of the whole entity.
pub const PARAMS: &[LayerParam<Config>] = &[
    duration!(keepalive, 0, LONGEST, "An empty frame leaves when nothing else did for so long; 0 s never."),
    duration!(
        idle,
        0,
        LONGEST,
        "A stream over which nothing came for so long, not even a keepalive, is closed; 0 s never. Peers may have none."
    ),
    duration!(
        progress,
        0,
        LONGEST,
        "A stream whose bundle brings nothing for so long, or whose peer takes nothing, is dropped; 0 s never."
    ),
    bytes!("transfer_mru", transfer_mru, 1, 1 << 50, "Largest bundle accepted."),
    sessions!("Streams at once."),
    flag!(accept_unknown, "Whether nodes without a link may connect."),
    bytes!(
        "kept",
        kept,
        0,
        1 << 50,
        "Memory for bundles that came and for which there is no room yet; what does not fit is lost, for its sender cannot be told."
    ),
];

/// Parameters of one link.
pub const LINK_PARAMS: &[LayerParam<LinkParams>] = &[
    bytes!(
        "window",
        window_bytes,
        1,
        1 << 50,
        "Bytes waiting, or handed to the stream and not confirmed by the peer's host, at once: lost with the stream, they are sent again."
    ),
    duration!(reconnect_min, 1_000_000, LONGEST, "First wait before connecting again; doubles up to `reconnect_max`."),
    duration!(reconnect_max, 1_000_000, LONGEST, "Longest wait before connecting again."),
];
