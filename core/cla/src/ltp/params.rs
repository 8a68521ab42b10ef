//! The parameters of LTP: the one table that node files, scenarios, references and forms are made of.

use super::{Config, SpanConfig};
use farlink_base::{Duration, LayerParam, Unit, nanoseconds};

/// Longest duration: ten years.
const LONGEST: u64 = 3650 * 86_400 * 1_000_000_000;

/// Of the whole engine.
pub const PARAMS: &[LayerParam<Config>] = &[
    LayerParam {
        name: "sessions",
        help: "Sessions open at once, in and out, over all links.",
        unit: Unit::Count,
        min: 1,
        max: 10_000_000,
        get: |c| c.sessions.into(),
        set: |c, v| c.sessions = v as u32,
    },
    LayerParam {
        name: "accept_unknown",
        help: "Whether segments of engines without a link are served.",
        unit: Unit::Flag,
        min: 0,
        max: 1,
        get: |c| c.accept_unknown.into(),
        set: |c, v| c.accept_unknown = v != 0,
    },
    LayerParam {
        name: "memory",
        help: "Bytes of blocks that are still arriving, over all links; what exceeds it is sent again later.",
        unit: Unit::Bytes,
        min: 1 << 16,
        max: 1 << 50,
        get: |c| c.memory_bytes,
        set: |c, v| c.memory_bytes = v,
    },
];

/// Of one link.
pub const LINK_PARAMS: &[LayerParam<SpanConfig>] = &[
    LayerParam {
        name: "datagram",
        help: "UDP payload of one segment, headers of LTP included; must fit the MTU less 28 bytes of IP and UDP.",
        unit: Unit::Bytes,
        min: 64,
        max: 65_507,
        get: |c| c.datagram_bytes.into(),
        set: |c, v| c.datagram_bytes = v as u32,
    },
    LayerParam {
        name: "overhead",
        help: "Headers the medium adds to each datagram, charged to the rate; a scenario adds those of its link.",
        unit: Unit::Bytes,
        min: 0,
        max: 10_000,
        get: |c| c.overhead_bytes.into(),
        set: |c, v| c.overhead_bytes = v as u32,
    },
    LayerParam {
        name: "sessions",
        help: "Export sessions open at once.",
        unit: Unit::Count,
        min: 1,
        max: 1_000_000,
        get: |c| c.sessions.into(),
        set: |c, v| c.sessions = v as u32,
    },
    LayerParam {
        name: "window",
        help: "Bytes in flight at once; below rate times round trip the link cannot be filled.",
        unit: Unit::Bytes,
        min: 1,
        max: 1 << 50,
        get: |c| c.window_bytes,
        set: |c, v| c.window_bytes = v,
    },
    LayerParam {
        name: "aggregate",
        help: "Join bundles to blocks up to this size; 0 B sends each alone. Only for peers that split.",
        unit: Unit::Bytes,
        min: 0,
        max: 1 << 40,
        get: |c| c.aggregate_bytes,
        set: |c, v| c.aggregate_bytes = v,
    },
    LayerParam {
        name: "aggregate_wait",
        help: "Longest a bundle waits for others to join.",
        unit: Unit::Nanoseconds,
        min: 0,
        max: LONGEST,
        get: |c| nanoseconds(c.aggregate_wait),
        set: |c, v| c.aggregate_wait = Duration::from_nanos(v),
    },
    LayerParam {
        name: "margin",
        help: "Added to the round trip for each timer, until it is known how long answers take.",
        unit: Unit::Nanoseconds,
        min: 0,
        max: LONGEST,
        get: |c| nanoseconds(c.margin),
        set: |c, v| c.margin = Duration::from_nanos(v),
    },
    LayerParam {
        name: "attempts",
        help: "Times a checkpoint, report or cancel is sent before the session is given up.",
        unit: Unit::Count,
        min: 1,
        max: 1000,
        get: |c| c.attempts.into(),
        set: |c, v| c.attempts = v as u32,
    },
    LayerParam {
        name: "checkpoint_every",
        help: "Extra checkpoints inside a block, every this many bytes; 0 B for only the last.",
        unit: Unit::Bytes,
        min: 0,
        max: 1 << 40,
        get: |c| c.checkpoint_every,
        set: |c, v| c.checkpoint_every = v,
    },
    LayerParam {
        name: "copies",
        help: "Times each checkpoint and report leaves at once, where loss was seen. More than 1 only to peers that tell copies apart: not to ION.",
        unit: Unit::Count,
        min: 1,
        max: 16,
        get: |c| c.copies.into(),
        set: |c, v| c.copies = v as u32,
    },
    LayerParam {
        name: "report_every",
        help: "As receiver, report a visible gap unasked once this much came; 0 B for never.",
        unit: Unit::Bytes,
        min: 0,
        max: 1 << 40,
        get: |c| c.report_every,
        set: |c, v| c.report_every = v,
    },
    LayerParam {
        name: "idle",
        help: "Import sessions idle longer are dropped.",
        unit: Unit::Nanoseconds,
        min: 1_000_000,
        max: LONGEST,
        get: |c| nanoseconds(c.idle),
        set: |c, v| c.idle = Duration::from_nanos(v),
    },
    LayerParam {
        name: "idle_green",
        help: "The same for blocks without a red part: what is missing of them does not come again.",
        unit: Unit::Nanoseconds,
        min: 1_000_000,
        max: LONGEST,
        get: |c| nanoseconds(c.idle_green),
        set: |c, v| c.idle_green = Duration::from_nanos(v),
    },
];
