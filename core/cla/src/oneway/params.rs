//! Parameters of STCP and MTCP for node files, scenarios, references and forms.

use super::{Config, LinkParams};
use crate::streams::params::{LONGEST, bytes, duration, flag, sessions};
use farlink_base::LayerParam;

/// Parameters of the whole entity.
pub const PARAMS: &[LayerParam<Config>] = &[
    duration!(keepalive, 0, LONGEST, "Time without output after which an empty frame is sent; 0 s: never."),
    duration!(
        idle,
        0,
        LONGEST,
        "Silence of the peer, keepalives included, after which a stream is closed; 0 s: never. Some peers send no keepalives."
    ),
    duration!(
        progress,
        0,
        LONGEST,
        "Longest time without progress of a bundle in either direction before its stream is dropped; 0 s: never."
    ),
    bytes!("transfer_mru", transfer_mru, 1, 1 << 50, "Largest bundle accepted."),
    sessions!("Most streams at once."),
    flag!(accept_unknown, "Whether nodes without a link may connect."),
    bytes!(
        "kept",
        kept,
        0,
        1 << 50,
        "Memory for received bundles that the node has no room for yet; bundles beyond it are lost, because the protocol conveys no refusal."
    ),
];

/// Parameters of one link.
pub const LINK_PARAMS: &[LayerParam<LinkParams>] = &[
    bytes!(
        "window",
        window_bytes,
        1,
        1 << 50,
        "Most bytes waiting, or written and not confirmed by the peer's host; they are sent again if the stream breaks."
    ),
    duration!(reconnect_min, 1_000_000, LONGEST, "First wait before reconnecting; doubles up to `reconnect_max`."),
    duration!(reconnect_max, 1_000_000, LONGEST, "Longest wait before reconnecting."),
];
