//! Parameters of TCPCLv4: the one table from which node files, scenarios, references and forms are made.

use super::{Config, LinkParams, Tls, Versions};
use crate::streams::params::{LONGEST, bytes, duration, flag, sessions};
use farlink_base::{LayerParam, Unit};

/// Longest keepalive interval, ns: RFC 9174 4.6 has 16 bits of seconds.
const KEEPALIVE_MAX: u64 = 65_535 * 1_000_000_000;

/// Parameters of the whole entity.
pub const PARAMS: &[LayerParam<Config>] = &[
    duration!(keepalive, 0, KEEPALIVE_MAX, "Keepalive interval offered; 0 s disables."),
    duration!(contact_timeout, 1_000_000, LONGEST, "A peer that has not introduced itself by then is dropped."),
    duration!(idle, 0, LONGEST, "A session without transfers ends after this; 0 s never."),
    duration!(
        progress,
        0,
        LONGEST,
        "A session whose transfer brings nothing for so long, or whose peer acknowledges or reads nothing, is dropped; 0 s never."
    ),
    bytes!("segment_mru", segment_mru, 1, 1 << 50, "Largest segment accepted."),
    bytes!("transfer_mru", transfer_mru, 1, 1 << 50, "Largest bundle accepted."),
    sessions!("Sessions at once."),
    flag!(accept_unknown, "Whether nodes without a link may connect."),
    bytes!("reactive", reactive, 0, 1 << 50, REACTIVE),
    LayerParam {
        name: "v3",
        help: "Whether neighbours that speak TCPCLv3 (RFC 7242) are served too, at the same port; never those that must be secured.",
        unit: Unit::Flag,
        min: 0,
        max: 1,
        get: |c| (c.versions == Versions::Both).into(),
        set: |c, v| c.versions = if v != 0 { Versions::Both } else { Versions::Four },
    },
    LayerParam {
        name: "tls",
        help: "Whether sessions are secured by TLS: never, where the peer can, or not without. Both sides then show a certificate.",
        unit: Unit::Choice(&["forbid", "allow", "require"]),
        min: 0,
        max: TLS.len() as u64 - 1,
        get: |c| TLS.iter().position(|tls| *tls == c.tls).unwrap_or(0) as u64,
        set: |c, v| c.tls = TLS.get(v as usize).copied().unwrap_or_default(),
    },
];
/// Help text of `reactive` in both versions.
pub(crate) const REACTIVE: &str = "Where the peer offers it too: a transfer that broke is kept as far as it was acknowledged, in pieces of this many bytes at least, and only the rest is sent again; 0 B: all of it is.";
/// Values of `tls`, in the order of its choices.
const TLS: [Tls; 3] = [Tls::Forbid, Tls::Allow, Tls::Require];

/// Parameters of one link.
pub const LINK_PARAMS: &[LayerParam<LinkParams>] = &[
    flag!(
        roams,
        "Whether the neighbour may connect from other addresses than this one's: then whoever says its name is it."
    ),
    bytes!("segment", segment_bytes, 1, 1 << 40, "Segment size used when the peer allows."),
    bytes!("window", window_bytes, 1, 1 << 50, "Bytes handed to the stream or waiting for acknowledgment at once."),
    duration!(reconnect_min, 1_000_000, LONGEST, "First wait before connecting again; doubles up to `reconnect_max`."),
    duration!(reconnect_max, 1_000_000, LONGEST, "Longest wait before connecting again."),
];
