//! Every key of a scenario file: the one definition that the parser checks against, that gives
//! defaults, and that `docs/reference/scenario.md` is generated from.

/// How a value is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Free text.
    Text,
    /// Letters, digits, `-`, `_` and `.`; unique among its kind.
    Name,
    /// The name of a node.
    Node,
    /// The name of a link.
    Link,
    /// The names of two nodes.
    NodePair,
    /// A file, relative to the scenario.
    File,
    /// A duration with its unit.
    Duration,
    /// A data rate with its unit.
    Rate,
    /// A data rate, or a list of `[time, rate]`.
    RateOverTime,
    /// A duration, or a list of `[time, delay]`.
    DelayOverTime,
    /// A data volume with its unit.
    Volume,
    /// A data volume, or `[smallest, largest]`.
    VolumeRange,
    /// A UTC time.
    Time,
    /// A whole number from the first to the second.
    Count(u64, u64),
    /// A number from 0 to 1, or a percentage such as `"0.1 %"`.
    Share,
    /// `true` or `false`.
    Flag,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A list of these words.
    Choices(&'static [&'static str]),
    /// One or several endpoint IDs.
    EndpointIds,
    /// Parameters of a policy: a table of numbers or quantities.
    Params,
    /// A table of endpoint ID patterns and the nodes they go through.
    Routes,
    /// Two numbers from 0 to 1.
    Point,
    /// A table, described in the section of this name.
    Table(&'static str),
    /// Any number of tables, described in the section of this name.
    Tables(&'static str),
}

/// What holds when a key is not given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fallback {
    /// The key must be given.
    Required,
    /// Nothing, or what the help says.
    Absent,
    /// This value.
    Is(&'static str),
}

/// One key.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// As written in the file.
    pub name: &'static str,
    /// How its value is written.
    pub kind: Kind,
    /// What holds without it.
    pub default: Fallback,
    /// What it does.
    pub help: &'static str,
}

/// The keys of one table.
#[derive(Clone, Copy, Debug)]
pub struct Section {
    /// As written in the file, such as `[[link]]`.
    pub name: &'static str,
    /// What it is for.
    pub help: &'static str,
    /// Its keys.
    pub keys: &'static [Key],
}

const fn key(name: &'static str, kind: Kind, default: Fallback, help: &'static str) -> Key {
    Key { name, kind, default, help }
}

use Fallback::{Absent, Is, Required};
use Kind::{Choice, Choices, Count, Flag, Share, Text};

/// Top level.
pub const SCENARIO: Section = Section {
    name: "scenario",
    help: "The top of the file, before the first table.",
    keys: &[
        key("name", Kind::Name, Required, "Short name; run directories are called after it."),
        key("description", Text, Is(""), "What the scenario shows, for people; appears in reports."),
        key(
            "seed",
            Count(0, u64::MAX >> 1),
            Is("1"),
            "Seed of everything random: losses, contents, random times. The same seed replays a simulation to the last event.",
        ),
        key("duration", Kind::Duration, Required, "The run ends then at the latest."),
        key("stop_when_delivered", Flag, Is("true"), "End as soon as all traffic was sent and delivered."),
        key(
            "epoch",
            Kind::Time,
            Absent,
            "Wall time at the start of the run, such as \"2026-11-20T09:00:00Z\"; without it the plan's, or the moment the run starts.",
        ),
        key(
            "plan",
            Kind::File,
            Absent,
            "Contact plan file, in Farlink's or ION's dialect. Its contacts join those of the [[contact]] tables.",
        ),
        key(
            "node_defaults",
            Kind::Table("node"),
            Absent,
            "Keys of [[node]] that hold for each node that does not give them.",
        ),
        key(
            "link_defaults",
            Kind::Table("link"),
            Absent,
            "Keys of [[link]] that hold for each link that does not give them.",
        ),
        key("node", Kind::Tables("node"), Required, "The nodes; at least one."),
        key("link", Kind::Tables("link"), Absent, "The links between them."),
        key("contact", Kind::Tables("contact"), Absent, "When links are up. A link without any contact is always up."),
        key("traffic", Kind::Tables("traffic"), Absent, "Who sends what to whom."),
        key("measure", Kind::Table("measure"), Absent, "What is recorded."),
        key("expect", Kind::Table("expect"), Absent, "What the author expects; a run that misses it says so."),
    ],
};

/// `[[node]]`.
pub const NODE: Section = Section {
    name: "node",
    help: "One node: `[[node]]` for each.",
    keys: &[
        key("name", Kind::Name, Required, "Its name here, in host names and in reports."),
        key(
            "id",
            Kind::EndpointIds,
            Required,
            "Node ID such as \"ipn:1.0\" or \"dtn://probe/\"; a list gives aliases after the first.",
        ),
        key(
            "store",
            Choice(&["memory", "durable"]),
            Is("memory"),
            "Where bundles are kept: `memory` acknowledges at once, `durable` after they are on disk.",
        ),
        key(
            "store_capacity",
            Kind::Volume,
            Is("1 GB"),
            "Most bytes the store may keep; beyond it the control decides.",
        ),
        key("router", Text, Is("sabr"), "Router by name; see below."),
        key("router_params", Kind::Params, Absent, "Parameters of the router."),
        key("control", Text, Is("none"), "Congestion control by name; see below. `none` refuses what does not fit."),
        key("control_params", Kind::Params, Absent, "Parameters of the control."),
        key(
            "routes",
            Kind::Routes,
            Absent,
            "Static routes, tried when the router has none: { \"ipn:4.*\" = \"relay\" }.",
        ),
        key("hop_limit", Count(0, 255), Is("32"), "Hop limit of bundles created here; 0 puts no hop count block."),
        key(
            "crc",
            Choice(&["none", "crc16", "crc32c"]),
            Is("crc32c"),
            "CRC on blocks made here; a primary block always has one.",
        ),
        key("status_reports", Flag, Is("false"), "Whether status reports are generated."),
        key("lifetime", Kind::Duration, Is("1 h"), "Lifetime of bundles created here whose [[traffic]] names none."),
        key(
            "priority",
            Choice(&["bulk", "normal", "expedited"]),
            Is("normal"),
            "Class of service of bundles created here whose [[traffic]] names none.",
        ),
        key("position", Kind::Point, Absent, "Where the topology shows it: [from left, from top], each 0 to 1."),
    ],
};

/// `[[link]]`.
pub const LINK: Section = Section {
    name: "link",
    help: "One link between two nodes: `[[link]]` for each. The keys of a direction may stand here, too, and then hold for both directions.",
    keys: &[
        key("name", Kind::Name, Required, "Its name in contacts and reports."),
        key("between", Kind::NodePair, Required, "Its two nodes; `forward` goes from the first to the second."),
        key("layer", Choice(&["ltp", "tcpclv4"]), Required, "Convergence layer."),
        key(
            "preset",
            Text,
            Absent,
            "Link model to start from (see below); the keys given here and in `forward` and `reverse` change it. Presets go forward towards the spacecraft: name the ground first in `between`.",
        ),
        key("mtu", Kind::Volume, Is("1500 B"), "Largest IP packet."),
        key("ltp", Kind::Table("link.ltp"), Absent, "Parameters of LTP."),
        key("tcpclv4", Kind::Table("link.tcpclv4"), Absent, "Parameters of TCPCLv4."),
        key("forward", Kind::Table("link.direction"), Absent, "From the first node to the second."),
        key("reverse", Kind::Table("link.direction"), Absent, "From the second node to the first."),
    ],
};

/// `[link.forward]`, `[link.reverse]`, and both in `[[link]]`.
pub const DIRECTION: Section = Section {
    name: "link.direction",
    help: "What one direction of a link does to packets: `[link.forward]` and `[link.reverse]`, or directly in `[[link]]` for both. Packets that meet a link that is down are lost; what is in flight when it goes down still arrives.",
    keys: &[
        key(
            "rate",
            Kind::RateOverTime,
            Is("unlimited"),
            "Transmission rate, or steps [[\"0 s\", \"10 Mbit/s\"], [\"60 s\", \"2 Mbit/s\"]]. IP packets plus `overhead` are charged.",
        ),
        key(
            "delay",
            Kind::DelayOverTime,
            Is("0 s"),
            "One-way delay, or points [[\"0 s\", \"1.2 s\"], [\"1 h\", \"1.4 s\"]] joined by straight lines.",
        ),
        key("jitter", Kind::Duration, Absent, "Largest random addition to the delay, which stays the least."),
        key(
            "jitter_shape",
            Choice(&["uniform", "normal"]),
            Is("uniform"),
            "Distribution of the jitter: every value equally likely, or normal around the middle.",
        ),
        key(
            "jitter_reorders",
            Flag,
            Is("false"),
            "Whether a packet may overtake another because of jitter; otherwise it waits behind.",
        ),
        key("loss", Share, Is("0"), "Probability that a packet is lost, each independently."),
        key(
            "burst",
            Kind::Table("link.direction.burst"),
            Absent,
            "In place of `loss`: losses in bursts (Gilbert-Elliott).",
        ),
        key(
            "bit_error_rate",
            Share,
            Is("0"),
            "Probability that a bit is wrong; a packet with a wrong bit is lost, so long packets are lost more often.",
        ),
        key("duplicate", Share, Is("0"), "Probability that a packet arrives twice."),
        key("reorder", Share, Is("0"), "Probability that a packet takes a detour of `reorder_gap`."),
        key("reorder_gap", Kind::Duration, Is("10 ms"), "How much later a reordered packet arrives."),
        key("corrupt", Share, Is("0"), "Probability that a packet arrives with a flipped bit."),
        key(
            "queue",
            Kind::Volume,
            Absent,
            "Most bytes waiting for transmission; what does not fit is dropped. Without it, a round trip at the rate, at least 100 ms and at most 1 s of it.",
        ),
        key("overhead", Kind::Volume, Is("0 B"), "Bytes the medium adds to each IP packet; charged to the rate."),
        key("outages", Kind::Table("link.direction.outages"), Absent, "Random outages besides the contact plan."),
    ],
};

/// `outages = { ... }`.
pub const OUTAGES: Section = Section {
    name: "link.direction.outages",
    help: "Random outages: up and down periods in turn, beginning with up.",
    keys: &[
        key("up", Kind::Duration, Required, "Mean time up."),
        key("down", Kind::Duration, Required, "Mean time down."),
        key(
            "spread",
            Choice(&["exponential", "fixed"]),
            Is("exponential"),
            "How the times are spread around their mean.",
        ),
    ],
};

/// `burst = { ... }`.
pub const BURST: Section = Section {
    name: "link.direction.burst",
    help: "A Gilbert-Elliott channel; transitions are drawn once for each packet. Mean loss is `to_bad / (to_bad + to_good)` when `loss_bad` is 1 and `loss_good` 0.",
    keys: &[
        key("to_bad", Share, Required, "Probability to go from the good to the bad state."),
        key(
            "to_good",
            Share,
            Required,
            "Probability to go from the bad to the good state; its inverse is the mean burst length in packets.",
        ),
        key("loss_bad", Share, Is("1"), "Loss probability in the bad state."),
        key("loss_good", Share, Is("0"), "Loss probability in the good state."),
    ],
};

/// `[link.ltp]`.
pub const LTP: Section = Section {
    name: "link.ltp",
    help: "Parameters of LTP (RFC 5326) on this link; both ends use the same.",
    keys: &[
        key(
            "datagram",
            Kind::Volume,
            Is("1360 B"),
            "UDP payload of one segment, headers of LTP included; must fit the MTU less 28 bytes of IP and UDP.",
        ),
        key("sessions", Count(1, 1_000_000), Is("10000"), "Export sessions open at once."),
        key(
            "window",
            Kind::Volume,
            Is("1 GiB"),
            "Bytes in flight at once; below rate times round trip the link cannot be filled.",
        ),
        key("aggregate", Kind::Volume, Is("0 B"), "Join bundles to blocks up to this size; 0 sends each alone."),
        key("aggregate_wait", Kind::Duration, Is("2 ms"), "Longest a bundle waits for others to join."),
        key(
            "margin",
            Kind::Duration,
            Is("200 ms"),
            "Added to the round trip for each timer: queueing and processing at both ends.",
        ),
        key(
            "attempts",
            Count(1, 1000),
            Is("20"),
            "Times a checkpoint, report or cancel is sent before the session is given up.",
        ),
        key(
            "checkpoint_every",
            Kind::Volume,
            Is("0 B"),
            "Extra checkpoints inside a block, every this many bytes; 0 for only the last.",
        ),
    ],
};

/// `[link.tcpclv4]`.
pub const TCPCLV4: Section = Section {
    name: "link.tcpclv4",
    help: "Parameters of TCPCLv4 (RFC 9174) on this link; both ends use the same.",
    keys: &[
        key(
            "connect",
            Choice(&["first", "second", "both"]),
            Is("first"),
            "Which node of `between` opens the connection.",
        ),
        key("keepalive", Kind::Duration, Is("30 s"), "Keepalive interval; 0 s disables."),
        key("segment", Kind::Volume, Is("256 KiB"), "Segment size used when the peer allows."),
        key("window", Kind::Volume, Is("64 MiB"), "Bytes handed to the stream or waiting for acknowledgment at once."),
        key(
            "reconnect_min",
            Kind::Duration,
            Is("100 ms"),
            "First wait before connecting again; doubles up to `reconnect_max`.",
        ),
        key("reconnect_max", Kind::Duration, Is("30 s"), "Longest wait before connecting again."),
    ],
};

/// `[[contact]]`.
pub const CONTACT: Section = Section {
    name: "contact",
    help: "A time in which a link is up: `[[contact]]` for each. Times count from the start of the run.",
    keys: &[
        key("link", Kind::Link, Required, "Which link."),
        key("from", Kind::Node, Absent, "The transmitting node; without it, both directions are up."),
        key("start", Kind::Duration, Required, "First moment of transmission."),
        key("end", Kind::Duration, Required, "Last moment of transmission; what is in flight then still arrives."),
        key("rate", Kind::Rate, Absent, "Rate in this contact; without it, the link's."),
        key("delay", Kind::Duration, Absent, "One-way delay in this contact; without it, the link's."),
        key(
            "confidence",
            Share,
            Is("1"),
            "How likely it comes to pass, as the plan tells the routers; here it always does.",
        ),
    ],
};

/// `[[traffic]]`.
pub const TRAFFIC: Section = Section {
    name: "traffic",
    help: "Bundles from one node to another: `[[traffic]]` for each, with exactly one of `file`, `bundles` and `ping`.",
    keys: &[
        key("name", Kind::Name, Absent, "Its name in reports; without it, made from the two nodes."),
        key("from", Kind::Node, Required, "Sending node."),
        key("to", Kind::Node, Required, "Receiving node."),
        key(
            "service",
            Count(1, u32::MAX as u64),
            Absent,
            "Service number the receiver registers; without it 1000 plus the place in the file. Pings go to 128 (echo).",
        ),
        key("start", Kind::Duration, Is("0 s"), "When it begins."),
        key("lifetime", Kind::Duration, Absent, "Lifetime of its bundles; without it, the sending node's."),
        key(
            "priority",
            Choice(&["bulk", "normal", "expedited"]),
            Absent,
            "Class of service; without it, the sending node's.",
        ),
        key(
            "window",
            Count(0, 1_000_000),
            Is("0"),
            "Bundles sent and not yet accepted by the sender's own node; 0 is 64.",
        ),
        key("file", Kind::Table("traffic.file"), Absent, "Send a file cut into bundles."),
        key("bundles", Kind::Table("traffic.bundles"), Absent, "Send bundles with content from the seed."),
        key("ping", Kind::Table("traffic.ping"), Absent, "Send echo requests and time the answers."),
    ],
};

/// `file = { ... }`.
pub const TRAFFIC_FILE: Section = Section {
    name: "traffic.file",
    help: "A file cut into bundles; its checksum is compared at the receiver.",
    keys: &[
        key("path", Kind::File, Absent, "The file, relative to the scenario."),
        key("size", Kind::Volume, Absent, "Without `path`: size of a file made from the seed."),
        key("bundle_size", Kind::Volume, Is("1 MB"), "Payload of each bundle; the last may be shorter."),
        key("rate", Kind::Rate, Absent, "Create bundles at this rate of payload."),
        key(
            "interval",
            Kind::Duration,
            Absent,
            "Create one bundle every so often. Without `rate` and `interval`: as fast as the window allows.",
        ),
    ],
};

/// `bundles = { ... }`.
pub const TRAFFIC_BUNDLES: Section = Section {
    name: "traffic.bundles",
    help: "Bundles with content from the seed.",
    keys: &[
        key("count", Count(1, 1_000_000_000), Required, "How many."),
        key("size", Kind::VolumeRange, Required, "Payload: one size, or [smallest, largest] to draw it uniformly."),
        key("rate", Kind::Rate, Absent, "Create bundles at this rate of payload."),
        key(
            "interval",
            Kind::Duration,
            Absent,
            "Create one bundle every so often. Without `rate` and `interval`: as fast as the window allows.",
        ),
    ],
};

/// `ping = { ... }`.
pub const TRAFFIC_PING: Section = Section {
    name: "traffic.ping",
    help: "Echo requests; the latency of a ping is the round trip.",
    keys: &[
        key("count", Count(1, 1_000_000_000), Is("10"), "How many."),
        key("interval", Kind::Duration, Is("1 s"), "Time between two."),
        key("size", Kind::Volume, Is("64 B"), "Payload."),
    ],
};

/// `[measure]`.
pub const MEASURE: Section = Section {
    name: "measure",
    help: "What is recorded.",
    keys: &[
        key("interval", Kind::Duration, Is("100 ms"), "Time between two samples of stores, links and processes."),
        key(
            "tables",
            Choices(&["events", "bundles", "samples", "links", "processes"]),
            Absent,
            "Tables written; without it, all.",
        ),
        key("segments", Flag, Is("false"), "Whether each LTP segment is an event; many rows."),
    ],
};

/// `[expect]`.
pub const EXPECT: Section = Section {
    name: "expect",
    help: "What the author expects of a run; a run that misses it says so in its report.",
    keys: &[
        key("delivery_ratio", Share, Absent, "Delivered over created, at least."),
        key("finished_within", Kind::Duration, Absent, "All delivered by then, from the start of the run."),
        key("wall_time_lab", Kind::Duration, Absent, "Real time a run in the testbed takes at most, set-up included."),
    ],
};

/// All sections in the order of the reference.
pub const SECTIONS: &[&Section] = &[
    &SCENARIO,
    &NODE,
    &LINK,
    &DIRECTION,
    &BURST,
    &OUTAGES,
    &LTP,
    &TCPCLV4,
    &CONTACT,
    &TRAFFIC,
    &TRAFFIC_FILE,
    &TRAFFIC_BUNDLES,
    &TRAFFIC_PING,
    &MEASURE,
    &EXPECT,
];
