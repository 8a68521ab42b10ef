//! The parameters of TCPCLv4: the one table that node files, scenarios, references and forms are made
//! of.

use super::{Config, SpanConfig, Tls};
use farlink_base::{Duration, LayerParam, Unit, nanoseconds};

/// Longest duration: ten years.
const LONGEST: u64 = 3650 * 86_400 * 1_000_000_000;
/// RFC 9174 4.6: the keepalive interval is 16 bits of seconds.
const KEEPALIVE_MAX: u64 = 65_535 * 1_000_000_000;

/// Of the whole entity.
pub const PARAMS: &[LayerParam<Config>] = &[
    LayerParam {
        name: "keepalive",
        help: "Keepalive interval offered; 0 s disables.",
        unit: Unit::Nanoseconds,
        min: 0,
        max: KEEPALIVE_MAX,
        get: |c| nanoseconds(c.keepalive),
        set: |c, v| c.keepalive = Duration::from_nanos(v),
    },
    LayerParam {
        name: "contact_timeout",
        help: "A peer that has not introduced itself by then is dropped.",
        unit: Unit::Nanoseconds,
        min: 1_000_000,
        max: LONGEST,
        get: |c| nanoseconds(c.contact_timeout),
        set: |c, v| c.contact_timeout = Duration::from_nanos(v),
    },
    LayerParam {
        name: "idle",
        help: "A session without transfers ends after this; 0 s never.",
        unit: Unit::Nanoseconds,
        min: 0,
        max: LONGEST,
        get: |c| nanoseconds(c.idle),
        set: |c, v| c.idle = Duration::from_nanos(v),
    },
    LayerParam {
        name: "progress",
        help: "A session whose transfer brings nothing for so long, or whose peer acknowledges or reads nothing, is dropped; 0 s never.",
        unit: Unit::Nanoseconds,
        min: 0,
        max: LONGEST,
        get: |c| nanoseconds(c.progress),
        set: |c, v| c.progress = Duration::from_nanos(v),
    },
    LayerParam {
        name: "segment_mru",
        help: "Largest segment accepted.",
        unit: Unit::Bytes,
        min: 1,
        max: 1 << 50,
        get: |c| c.segment_mru,
        set: |c, v| c.segment_mru = v,
    },
    LayerParam {
        name: "transfer_mru",
        help: "Largest bundle accepted.",
        unit: Unit::Bytes,
        min: 1,
        max: 1 << 50,
        get: |c| c.transfer_mru,
        set: |c, v| c.transfer_mru = v,
    },
    LayerParam {
        name: "sessions",
        help: "Sessions at once.",
        unit: Unit::Count,
        min: 1,
        max: 1_000_000,
        get: |c| c.sessions.into(),
        set: |c, v| c.sessions = v as u32,
    },
    LayerParam {
        name: "accept_unknown",
        help: "Whether nodes without a link may connect.",
        unit: Unit::Flag,
        min: 0,
        max: 1,
        get: |c| c.accept_unknown.into(),
        set: |c, v| c.accept_unknown = v != 0,
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
/// What the words of `tls` mean.
const TLS: [Tls; 3] = [Tls::Forbid, Tls::Allow, Tls::Require];

/// Of one link.
pub const LINK_PARAMS: &[LayerParam<SpanConfig>] = &[
    LayerParam {
        name: "roams",
        help: "Whether the neighbour may connect from other addresses than this one's: then whoever says its name is it.",
        unit: Unit::Flag,
        min: 0,
        max: 1,
        get: |c| c.roams.into(),
        set: |c, v| c.roams = v != 0,
    },
    LayerParam {
        name: "segment",
        help: "Segment size used when the peer allows.",
        unit: Unit::Bytes,
        min: 1,
        max: 1 << 40,
        get: |c| c.segment_bytes,
        set: |c, v| c.segment_bytes = v,
    },
    LayerParam {
        name: "window",
        help: "Bytes handed to the stream or waiting for acknowledgment at once.",
        unit: Unit::Bytes,
        min: 1,
        max: 1 << 50,
        get: |c| c.window_bytes,
        set: |c, v| c.window_bytes = v,
    },
    LayerParam {
        name: "reconnect_min",
        help: "First wait before connecting again; doubles up to `reconnect_max`.",
        unit: Unit::Nanoseconds,
        min: 1_000_000,
        max: LONGEST,
        get: |c| nanoseconds(c.reconnect_min),
        set: |c, v| c.reconnect_min = Duration::from_nanos(v),
    },
    LayerParam {
        name: "reconnect_max",
        help: "Longest wait before connecting again.",
        unit: Unit::Nanoseconds,
        min: 1_000_000,
        max: LONGEST,
        get: |c| nanoseconds(c.reconnect_max),
        set: |c, v| c.reconnect_max = Duration::from_nanos(v),
    },
];
