//! Parameters of UDPCL for node files, scenarios, references and forms.

use super::{Config, LinkParams};
use farlink_base::{Duration, LayerParam, Unit, nanoseconds};

/// Greatest value of a parameter that is a duration, ns: ten years.
const LONGEST: u64 = 3650 * 86_400 * 1_000_000_000;

/// Parameters of the whole entity.
pub const PARAMS: &[LayerParam<Config>] = &[
    LayerParam {
        name: "accept_unknown",
        help: "Whether bundles from addresses without a link are accepted.",
        unit: Unit::Flag,
        min: 0,
        max: 1,
        get: |c| c.accept_unknown.into(),
        set: |c, v| c.accept_unknown = v != 0,
    },
    LayerParam {
        name: "transfers",
        help: "Bundles arriving in segments at once, over all links; a quarter of them from addresses without a link.",
        unit: Unit::Count,
        min: 16,
        max: 10_000_000,
        get: |c| c.transfers.into(),
        set: |c, v| c.transfers = v as u32,
    },
    LayerParam {
        name: "memory",
        help: "Memory for bundles arriving in segments, over all links; segments beyond it are lost.",
        unit: Unit::Bytes,
        min: 1 << 16,
        max: 1 << 50,
        get: |c| c.memory_bytes,
        set: |c, v| c.memory_bytes = v,
    },
    LayerParam {
        name: "largest_transfer",
        help: "Longest bundle accepted in segments.",
        unit: Unit::Bytes,
        min: 1024,
        max: 1 << 50,
        get: |c| c.transfer_bytes,
        set: |c, v| c.transfer_bytes = v,
    },
    LayerParam {
        name: "idle",
        help: "Time without a new segment after which an incomplete bundle is dropped.",
        unit: Unit::Nanoseconds,
        min: 1_000_000,
        max: 60_000_000_000,
        get: |c| nanoseconds(c.idle),
        set: |c, v| c.idle = Duration::from_nanos(v),
    },
];

/// Parameters of one link.
pub const LINK_PARAMS: &[LayerParam<LinkParams>] = &[
    LayerParam {
        name: "version",
        help: "Protocol version for sending: 1, each bundle or fragment in one datagram (RFC 7122), or 2, long ones in segments (draft-ietf-dtn-udpcl). Both are received.",
        unit: Unit::Count,
        min: 1,
        max: 2,
        get: |c| c.version.into(),
        set: |c, v| c.version = v as u8,
    },
    LayerParam {
        name: "datagram",
        help: "Longest UDP payload: the MTU less 28 bytes of IP and UDP. Longer bundles leave as fragments, with version 2 in segments; more than the MTU is for peers that do not reassemble fragments, and for bundles that must not be fragmented.",
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
        name: "pace",
        help: "Sent per second while the link has no known rate. There is no congestion control: raise it only if the path carries more.",
        unit: Unit::Bytes,
        min: 100,
        max: 1 << 40,
        get: |c| c.pace_bytes,
        set: |c, v| c.pace_bytes = v,
    },
    LayerParam {
        name: "keepalive",
        help: "Longest silence before a keepalive is sent, which keeps firewalls open; with version 2 it announces this node's ID, at least once a minute; 0 s: never. Less than 15 s counts as 15 s.",
        unit: Unit::Nanoseconds,
        min: 0,
        max: LONGEST,
        get: |c| nanoseconds(c.keepalive),
        set: |c, v| c.keepalive = Duration::from_nanos(v),
    },
];
