//! Parameters of TCPCLv4 for node files, scenarios, references and forms.

use super::{Config, LinkParams, Tls, Versions};
use crate::streams::params::{LONGEST, bytes, duration, flag, sessions};
use farlink_base::{LayerParam, Unit};

/// Longest keepalive interval, ns: RFC 9174 4.6 has 16 bits of seconds.
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
    bytes!("segment_mru", segment_mru, 1, 1 << 50, "Largest segment accepted."),
    bytes!("transfer_mru", transfer_mru, 1, 1 << 50, "Largest bundle accepted."),
    sessions!("Most sessions at once."),
    flag!(accept_unknown, "Whether nodes without a link may connect."),
    bytes!("reactive", reactive, 0, 1 << 50, REACTIVE),
    LayerParam {
        name: "v3",
        help: "Whether TCPCLv3 (RFC 7242) is supported at the same port; never for neighbours that require TLS.",
        unit: Unit::Flag,
        min: 0,
        max: 1,
        get: |c| (c.versions == Versions::Both).into(),
        set: |c, v| c.versions = if v != 0 { Versions::Both } else { Versions::Four },
    },
    LayerParam {
        name: "tls",
        help: "Whether sessions are secured by TLS: never, if the peer supports it, or always. Both sides then present a certificate.",
        unit: Unit::Choice(&["forbid", "allow", "require"]),
        min: 0,
        max: TLS.len() as u64 - 1,
        get: |c| TLS.iter().position(|tls| *tls == c.tls).unwrap_or(0) as u64,
        set: |c, v| c.tls = TLS.get(v as usize).copied().unwrap_or_default(),
    },
];
/// Help text of `reactive` in both versions.
pub(crate) const REACTIVE: &str = "Fewest bytes of a broken transfer that are kept. If the peer offers it too, the acknowledged part is kept and only the rest is sent again; 0 B: everything is sent again.";
/// Values of `tls`, in the order of its choices.
const TLS: [Tls; 3] = [Tls::Forbid, Tls::Allow, Tls::Require];

/// Parameters of one link.
pub const LINK_PARAMS: &[LayerParam<LinkParams>] = &[
    flag!(roams, "Whether the neighbour may connect from any address; its node ID alone then identifies it."),
    bytes!("segment", segment_bytes, 1, 1 << 40, "Segment size used when the peer allows."),
    bytes!("window", window_bytes, 1, 1 << 50, "Most bytes waiting or not acknowledged, at once."),
    duration!(reconnect_min, 1_000_000, LONGEST, "First wait before reconnecting; doubles up to `reconnect_max`."),
    duration!(reconnect_max, 1_000_000, LONGEST, "Longest wait before reconnecting."),
];
