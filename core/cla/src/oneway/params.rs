//! The parameters of STCP and MTCP: the one table that node files, scenarios, references and forms are made of.

use super::{Config, SpanConfig};
use farlink_base::{Duration, LayerParam, Unit, nanoseconds};

/// Longest duration: ten years.
const LONGEST: u64 = 3650 * 86_400 * 1_000_000_000;

/// Of the whole entity.
pub const PARAMS: &[LayerParam<Config>] = &[
    LayerParam {
        name: "keepalive",
        help: "An empty frame leaves when nothing else did for so long; 0 s never.",
        unit: Unit::Nanoseconds,
        min: 0,
        max: LONGEST,
        get: |c| nanoseconds(c.keepalive),
        set: |c, v| c.keepalive = Duration::from_nanos(v),
    },
    LayerParam {
        name: "idle",
        help: "A stream over which nothing came for so long, not even a keepalive, is closed; 0 s never. Peers may have none.",
        unit: Unit::Nanoseconds,
        min: 0,
        max: LONGEST,
        get: |c| nanoseconds(c.idle),
        set: |c, v| c.idle = Duration::from_nanos(v),
    },
    LayerParam {
        name: "progress",
        help: "A stream whose bundle brings nothing for so long, or whose peer takes nothing, is dropped; 0 s never.",
        unit: Unit::Nanoseconds,
        min: 0,
        max: LONGEST,
        get: |c| nanoseconds(c.progress),
        set: |c, v| c.progress = Duration::from_nanos(v),
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
        help: "Streams at once.",
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
        name: "kept",
        help: "Memory for bundles that came and for which there is no room yet; what does not fit is lost, for its sender cannot be told.",
        unit: Unit::Bytes,
        min: 0,
        max: 1 << 50,
        get: |c| c.kept,
        set: |c, v| c.kept = v,
    },
];

/// Of one link.
pub const LINK_PARAMS: &[LayerParam<SpanConfig>] = &[
    LayerParam {
        name: "window",
        help: "Bytes waiting, or handed to the stream and not confirmed by the peer's host, at once: lost with the stream, they are sent again.",
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
