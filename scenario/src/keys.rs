//! Every key of a scenario file, defined once: for the parser, for defaults, and for the generated
//! `docs/reference/scenario.md`. Plain settings of nodes come from their own table (`core/base/src/node.rs`),
//! parameters of convergence layers from those of the layers (`core/cla`).

use crate::settings::row_keys;
use farlink_base::{CUSTODY_TERMS, LINK_TERMS, REPORT_TERMS, TUNNEL_TERMS, settings};
use farlink_cla::registry::{LAYERS, LayerInfo, Medium, NAMES};
use farlink_config::{Fallback, Key, Kind, Section, key, machine, other, quota, reports, setting_keys};
use std::sync::LazyLock;

const NODE_NAME: Kind = other("name of a node", "\"ground\"");
const NODE_OR_GROUP: Kind = other("name of a node or a group", "\"ground\"");
const INTERVAL: Kind = other("duration, or [least, most]", "\"10 s\"");
const LINK_NAME: Kind = other("name of a link", "\"space\"");
const NODE_PAIR: Kind = other("two names of nodes", "[\"orbiter\", \"ground\"]");
const RATE_OVER_TIME: Kind = other("rate, or list of [time, rate]", "\"100 Mbit/s\"");
const DELAY_OVER_TIME: Kind = other("duration, or list of [time, duration]", "\"600 ms\"");
const VOLUME_RANGE: Kind = other("volume, or [smallest, largest]", "\"100 kB\"");
const ENDPOINT_IDS: Kind = other("node ID, or list of them", "\"ipn:1.0\"");
const PARAMS: Kind = other("table of numbers or quantities", "{ copies = 8 }");
const ROUTES: Kind = other("table: pattern = node", "{ \"ipn:4.*\" = \"relay\" }");
const CAPTURE: Kind = other("true, or name of the file", "true");
const POINT: Kind = other("[x, y], each 0 to 1", "[0.1, 0.5]");

use Fallback::{Absent, Is, Required};
use Kind::{Choice, Choices, Count, Flag, Share, Text};

/// Keys before the first table.
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
            "shared_routes",
            Flag,
            Is("false"),
            "For thousands of satellites: nodes with the router `sabr` take over for 10 s what another found for the same destination, and do not search at each hop. What others booked of contacts they do not know. Simulations only.",
        ),
        key(
            "fidelity",
            Choice(&["message", "full"]),
            Is("full"),
            "Simulation only: `full` sends packets with convergence layers, as nodes do; `message` sends whole bundles at the links' rate and delay, without loss and without the set-up and slow start of sessions, for many nodes and long runs: over TCPCLv4 bundles arrive earlier than in `full`. A bundle cut short by the end of a contact or an outage goes on with the rest when the link is up again: over LTP however long that takes, over TCPCLv4 if it is within 5 s, else it starts anew.",
        ),
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
            "forecast",
            Kind::File,
            Absent,
            "Contact plan file that nodes know besides, and that no link follows: for nodes with radios, whose contacts come as they come, and for plans that are wrong. Congestion controls may ask it; routers send nothing by it.",
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
        key("node", Kind::Tables("node"), Absent, "The nodes; at least one, here or in a group."),
        key("group", Kind::Tables("group"), Absent, "Nodes that differ in nothing but their names and IDs."),
        key("mobility", Kind::Tables("mobility"), Absent, "How nodes move."),
        key(
            "radio",
            Kind::Tables("radio"),
            Absent,
            "Radios: links of nodes that hear each other. Only in simulations.",
        ),
        key("link", Kind::Tables("link"), Absent, "The links between them."),
        key("contact", Kind::Tables("contact"), Absent, "When links are up. A link without any contact is always up."),
        key("traffic", Kind::Tables("traffic"), Absent, "Who sends what to whom."),
        key("flow", Kind::Tables("flow"), Absent, "Plain TCP and UDP between hosts, beside the bundles."),
        key("tunnel", Kind::Tables("tunnel"), Absent, "Bundles that travel in others (BIBE)."),
        key("security", Kind::Tables("security"), Absent, "What nodes do for the security of bundles (BPSec)."),
        key("quota", Kind::Tables("quota"), Absent, "What some may fill of stores."),
        key("fault", Kind::Tables("fault"), Absent, "What goes wrong."),
        key("phase", Kind::Tables("phase"), Absent, "Named spans of the run, for which results are told apart."),
        key("measure", Kind::Table("measure"), Absent, "What is recorded."),
        key("expect", Kind::Table("expect"), Absent, "What the author expects; a run that misses it says so."),
    ],
};

/// Keys of `[[node]]`.
pub static NODE: LazyLock<Section> = LazyLock::new(|| {
    let help = "One node: `[[node]]` for each.";
    let (store, top) = (row_keys("store"), row_keys(""));
    let table =
        |(table, section): &(&'static str, Section)| key(table, Kind::Table(section.name), Absent, section.help);
    let mut tables: Vec<Key> = ROW_TABLES.iter().map(table).collect();
    tables.extend(MACHINE_TABLES.iter().map(|section| {
        let name = section.name.trim_start_matches("node.");
        key(name, Kind::Table(section.name), Absent, section.help)
    }));
    let keys = [
        NODE_STORE,
        &store,
        NODE_WAYS,
        &top,
        NODE_KEYS,
        &tables,
        crate::keys_host::NODE_KEYS,
        crate::implementation::NODE_KEYS,
        crate::keys_moving::NODE_KEYS,
    ]
    .concat();
    Section { name: "node", help, keys: with_layers(&keys, |layer| layer.node.name) }
});

/// Tables that node files and nodes of scenarios share, with the settings that each holds.
pub static ROW_TABLES: LazyLock<Vec<(&'static str, Section)>> = LazyLock::new(|| {
    let tables = [
        ("limits", "node.limits", "Bounds of a node, as in `[limits]` of a node's file."),
        ("security", "node.security", "Bounds of the security of bundles, as in `[security]` of a node's file."),
        ("app", "node.app", "The application interface, as in `[app]` of a node's file."),
        ("log", "node.log", "The log, as in `[log]` of a node's file."),
    ];
    let keys = |table| match table {
        "app" => [row_keys(table), unsimulated(machine::APP)].concat(),
        _ => row_keys(table),
    };
    tables.map(|(table, name, help)| (table, Section { name, help, keys: keys(table).leak() })).into()
});

/// Tables about a node's machine, without settings; they have the names of tables of a node file.
pub static MACHINE_TABLES: LazyLock<[Section; 2]> = LazyLock::new(|| {
    [
        Section {
            name: "node.discovery",
            help: "How the node announces itself on its links with `found = true`, as in `[discovery]` of a node's file; its other keys follow from these links.",
            keys: unsimulated(machine::DISCOVERY).leak(),
        },
        Section {
            name: "node.api",
            help: "The control API over TCP, as in `[api]` of a node's file.",
            keys: unsimulated(machine::API).leak(),
        },
    ]
});

/// Declares keys about a node's machine, which simulations ignore.
fn unsimulated(keys: &[Key]) -> Vec<Key> {
    let noted = |key: &Key| {
        // Sections are made once for the life of the program, so their texts may leak.
        let help = format!("{} Simulations ignore it: a simulated node has no machine.", key.help).leak();
        // The testbed's own defaults are its links' (`[discovery]`) and a node file's.
        Key { help, ..*key }
    };
    keys.iter().map(noted).collect()
}

const NODE_STORE: &[Key] = &[
    key("name", Kind::Name, Required, "Its name here, in host names and in reports."),
    key(
        "id",
        ENDPOINT_IDS,
        Required,
        "Node ID such as \"ipn:1.0\" or \"dtn://probe/\"; a list gives aliases after the first.",
    ),
    key(
        "store",
        Choice(&["memory", "durable"]),
        Is("memory"),
        "Where bundles are kept: `memory` acknowledges at once, `durable` after they are on disk.",
    ),
];
const NODE_WAYS: &[Key] = &[
    key("router", Text, Is("sabr"), "Router by name; see below."),
    key("router_params", PARAMS, Absent, "Parameters of the router."),
    key("control", Text, Is("none"), "Congestion control by name; see below. `none` refuses what does not fit."),
    key("control_params", PARAMS, Absent, "Parameters of the control."),
    key("routes", ROUTES, Absent, "Static routes, tried when the router has none: { \"ipn:4.*\" = \"relay\" }."),
];
const NODE_KEYS: &[Key] = &[
    key(
        "custody",
        Choice(&["none", "take", "ask"]),
        Is("none"),
        "`take`: custody is taken of bundles that ask for it, where the store is `durable`, and answered. `ask`: bundles made here ask for it besides.",
    ),
    key(
        "custody_timeout",
        Kind::Duration,
        Is("30 s"),
        "How long a custody signal is waited for, besides the way there and back; doubles with each repetition.",
    ),
    key(
        "custody_rules",
        Kind::Table("node.custody_rules"),
        Absent,
        "What custody is taken of, and how it is signalled, where `custody` is not `none`.",
    ),
    key(
        "compressed_reports",
        Kind::Table("node.compressed_reports"),
        Absent,
        "Reports on many bundles at once (CCSDS 734.6-O-1), of bundles that ask for these; without it, none.",
    ),
    key("lifetime", Kind::Duration, Is("1 h"), "Lifetime of bundles created here whose [[traffic]] names none."),
    key(
        "priority",
        Choice(&["bulk", "normal", "expedited"]),
        Is("normal"),
        "Class of service of bundles created here whose [[traffic]] names none.",
    ),
    key("tcp", Kind::Table("node.tcp"), Absent, "TCP of this node's host, for layers over streams."),
    key("position", POINT, Absent, "Where the topology shows it: [from left, from top], each 0 to 1."),
];

/// Keys of `[node.custody_rules]`.
pub static CUSTODY: LazyLock<Section> = LazyLock::new(|| {
    let help = "Rules of custody at a node, as in `[custody]` of a node's file.";
    // The timeout is a key of the node itself, `custody_timeout`.
    let terms = setting_keys(&settings(CUSTODY_TERMS)).into_iter().filter(|key| key.name != "timeout");
    let own = [ASKS].into_iter().chain(farlink_config::custody::RULES.iter().copied());
    Section { name: "node.custody_rules", help, keys: own.chain(terms).collect::<Vec<_>>().leak() }
});
const ASKS: Key = Key {
    help: "Destinations for which bundles made here ask for it, where `custody` is `ask`; without it, all.",
    ..farlink_config::custody::REQUEST
};

/// Keys of `[node.compressed_reports]`.
pub static REPORTS: LazyLock<Section> = LazyLock::new(|| {
    let help = "Compressed reporting at a node, as in `[compressed_reports]` of a node's file: who is told of bundles by \
                numbers, and which bundles made here ask for it.";
    let keys = [reports::RULES, &setting_keys(&settings(REPORT_TERMS))].concat().leak();
    Section { name: "node.compressed_reports", help, keys }
});

/// Keys of `[node.tcp]`.
pub const TCP: Section = Section {
    name: "node.tcp",
    help: "TCP of a node's host. Congestion control and buffers hold in both worlds: simulated streams behave so, and the testbed's hosts are set so. The other keys are of the testbed; simulated streams have selective acknowledgments and scaled windows.",
    keys: &[
        key(
            "congestion",
            Choice(&["newreno", "cubic", "hybla"]),
            Is("newreno"),
            "Congestion control. The testbed needs it in the kernel (`modprobe tcp_hybla`) and refuses to run without.",
        ),
        key("send_buffer", Kind::Volume, Is("4 MiB"), "Most bytes written and not yet acknowledged."),
        key("receive_buffer", Kind::Volume, Is("6 MiB"), "Most bytes received and not yet read: the largest window."),
        key("sack", Flag, Is("true"), "Testbed: selective acknowledgments."),
        key("window_scaling", Flag, Is("true"), "Testbed: windows beyond 64 kB."),
        key(
            "rx_queue",
            Count(1, 10_000_000),
            Absent,
            "Testbed: frames that may wait for the host's processor. Linux has one such bound for the whole machine (`net.core.netdev_max_backlog`); a run on a machine with a lower one is marked as disturbed.",
        ),
    ],
};

/// Keys of `[[link]]`.
pub static LINK: LazyLock<Section> = LazyLock::new(|| {
    let help = "One link between two nodes: `[[link]]` for each. The keys of a direction may stand here, too, and then hold for both directions.";
    let mut keys = LINK_KEYS.to_vec();
    let after = keys.iter().position(|key| key.name == "layer").map_or(keys.len(), |place| place + 1);
    keys.insert(after, port());
    keys.extend(setting_keys(&settings(LINK_TERMS)));
    Section { name: "link", help, keys: with_layers(&keys, |layer| layer.link.name) }
});

fn port() -> Key {
    // The default is that of the layer, which the registry knows.
    let assigned: Vec<String> = LAYERS.iter().map(|layer| format!("{} for `{}`", layer.port, layer.name)).collect();
    let help = format!(
        "Port both ends listen on; without it, {}. At a node, links of one layer and port share an instance of it; another port keeps links apart, each with sockets of its own.",
        assigned.join(", ")
    );
    key("port", Count(1, 65_535), Absent, help.leak())
}

const LINK_KEYS: &[Key] = &[
    key("name", Kind::Name, Required, "Its name in contacts and reports."),
    key("between", NODE_PAIR, Required, "Its two nodes; `forward` goes from the first to the second."),
    key("layer", Choice(NAMES), Required, "Convergence layer."),
    key(
        "preset",
        Text,
        Absent,
        "Link model to start from (see below); the keys given here and in `forward` and `reverse` change it. Presets go forward towards the spacecraft: name the ground first in `between`.",
    ),
    key("mtu", Kind::Volume, Is("1500 B"), "Largest IP packet."),
    key(
        "exact",
        Flag,
        Is("false"),
        "In the testbed: hand over each packet alone and at its time, for two to four times the processor time. Otherwise packets that are due within 200 µs, or a fiftieth of the delay if that is less, may arrive together.",
    ),
    key(
        "capture",
        CAPTURE,
        Absent,
        "In the testbed: write the packets of the link to `captures/NAME.pcapng` in the run's folder, for Wireshark: `true` takes the link's name. Each packet stands there as the sending host gave it, with the time at which it did, and again as the receiving host got it. Super-packets of segmentation offload stand as they are, with incomplete checksums. What the capture misses is counted; it never delays the link. At most 256 links.",
    ),
    key(
        "shares",
        Kind::Name,
        Absent,
        "Bottleneck: links with the same word have one transmitter, with one queue, in each direction. Give them the same `rate` and `queue`; delay and losses are each link's own.",
    ),
    key(
        "appears",
        Kind::Duration,
        Is("0 s"),
        "When its nodes get the link; before, neither knows of the other by it. A link that comes or goes is in the contact plan only with contacts of its own: with `sabr`, give it contacts; else use static routes or a copying router.",
    ),
    key("disappears", Kind::Duration, Absent, "When its nodes lose the link; without it, never."),
    key(
        "found",
        Flag,
        Is("false"),
        "Testbed: nobody tells its nodes of the link; they announce themselves and find each other (`[discovery]` of a node), some seconds after it appears. A simulation gives it to them when it appears. Over TCP only, and in no contact plan: use static routes, a copying router, or `sabr` for bundles to the neighbour itself.",
    ),
    key("forward", Kind::Table("link.direction"), Absent, "From the first node to the second."),
    key("reverse", Kind::Table("link.direction"), Absent, "From the second node to the first."),
];

/// Keys of `[link.forward]` and `[link.reverse]`; in `[[link]]` they hold for both.
pub const DIRECTION: Section = Section {
    name: "link.direction",
    help: "What one direction of a link does to packets: `[link.forward]` and `[link.reverse]`, or directly in `[[link]]` for both. Packets that meet a link that is down are lost; what is in flight when it goes down still arrives.",
    keys: &[
        key(
            "rate",
            RATE_OVER_TIME,
            Is("unlimited"),
            "Transmission rate, or steps [[\"0 s\", \"10 Mbit/s\"], [\"60 s\", \"2 Mbit/s\"]]. IP packets plus `overhead` are charged.",
        ),
        key(
            "delay",
            DELAY_OVER_TIME,
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

/// Keys of `outages = { ... }`.
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

/// Keys of `burst = { ... }`.
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

/// The sections of one convergence layer.
pub struct LayerSections {
    /// Keys of `[node.<layer>]`, for all links of a node.
    pub node: Section,
    /// Keys of `[link.<layer>]`, for one link.
    pub link: Section,
}

/// The sections of all convergence layers, in the order of the registry.
pub static LAYER_SECTIONS: LazyLock<Vec<LayerSections>> = LazyLock::new(|| LAYERS.iter().map(layer_sections).collect());

fn layer_sections(layer: &LayerInfo) -> LayerSections {
    // Sections are made once for the life of the program, so their texts may leak.
    let mut link = setting_keys(&layer.link_settings());
    if layer.medium == Medium::Streams {
        let which = Choice(&["first", "second", "both"]);
        let usual = if layer.one_way { "both" } else { "first" };
        link.insert(0, key("connect", which, Is(usual), "Which node of `between` opens the connection."));
    }
    let title = layer.title;
    LayerSections {
        node: Section {
            name: format!("node.{}", layer.name).leak(),
            help: format!("Parameters of {title} at this node, for all its links.{}", tls_help(layer)).leak(),
            keys: [setting_keys(&layer.settings()), unsimulated(&layer_keys(layer))].concat().leak(),
        },
        link: Section {
            name: format!("link.{}", layer.name).leak(),
            help: format!("Parameters of {title} on this link; both ends use the same.").leak(),
            keys: link.leak(),
        },
    }
}

/// Keys about the machine that a layer's table has.
pub fn layer_keys(layer: &LayerInfo) -> Vec<Key> {
    let offload = (layer.medium == Medium::Datagrams).then_some(machine::OFFLOAD);
    offload.into_iter().chain([machine::SHARD]).collect()
}

fn tls_help(layer: &LayerInfo) -> &'static str {
    // TLS works differently in the testbed and in simulations, which the key's row in the layer's table cannot state.
    match layer.knows_tls() {
        true => {
            " Certificates for `tls` are made for each run in the testbed. Simulations model TLS: the round trips and the \
             bytes of its handshake, the bytes of its records (of whole bundles: the records alone); they encipher \
             nothing."
        }
        false => "",
    }
}

fn with_layers(keys: &[Key], name: impl Fn(&'static LayerSections) -> &'static str) -> &'static [Key] {
    // Every layer of the registry gets a table of its own here, so that a new layer needs no change to this file.
    let of_layer = |(layer, sections): (&'static LayerInfo, &'static LayerSections)| {
        key(layer.name, Kind::Table(name(sections)), Absent, format!("Parameters of {}.", layer.title).leak())
    };
    let layers = LAYERS.iter().zip(LAYER_SECTIONS.iter()).map(of_layer);
    keys.iter().copied().chain(layers).collect::<Vec<_>>().leak()
}

/// Keys of `[[contact]]`.
pub const CONTACT: Section = Section {
    name: "contact",
    help: "A time in which a link is up: `[[contact]]` for each. Times count from the start of the run.",
    keys: &[
        key("link", LINK_NAME, Required, "Which link."),
        key("from", NODE_NAME, Absent, "The transmitting node; without it, both directions are up."),
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

/// Keys of `[[traffic]]`.
pub const TRAFFIC: Section = Section {
    name: "traffic",
    help: "Bundles from one node to another: `[[traffic]]` for each, with exactly one of `file`, `bundles` and `ping`. Where `from` or `to` is a group, each of the `bundles` goes from one of its nodes to one of its nodes, drawn for each bundle.",
    keys: &[
        key("name", Kind::Name, Absent, "Its name in reports; without it, made from the two nodes."),
        key("from", NODE_OR_GROUP, Required, "Sending node, or group."),
        key("to", NODE_OR_GROUP, Required, "Receiving node, or group."),
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
        key(
            "reports",
            Choices(crate::types::REPORT_WORDS),
            Absent,
            "Status reports that its bundles ask for, to the sending node. Nodes make them where `status_reports` says so, or in short where there is `compressed_reports`; they are bundles, and no row of the table of bundles.",
        ),
        key(
            "refused",
            Choice(&["again", "lost"]),
            Is("again"),
            "What becomes of a bundle that the sender's own node refuses, for it is full: it is offered again every tenth of a second, or lost, as studies of The ONE have it. `lost` only in simulations.",
        ),
        key("file", Kind::Table("traffic.file"), Absent, "Send a file cut into bundles."),
        key("bundles", Kind::Table("traffic.bundles"), Absent, "Send bundles with content from the seed."),
        key("ping", Kind::Table("traffic.ping"), Absent, "Send echo requests and time the answers."),
    ],
};

/// Keys of `file = { ... }`.
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

/// Keys of `bundles = { ... }`.
pub const TRAFFIC_BUNDLES: Section = Section {
    name: "traffic.bundles",
    help: "Bundles with content from the seed.",
    keys: &[
        key(
            "count",
            Count(1, 1_000_000_000),
            Required,
            "How many; among groups at most 100000, of which those are made that begin before the run ends.",
        ),
        key("size", VOLUME_RANGE, Required, "Payload: one size, or [smallest, largest] to draw it uniformly."),
        key("rate", Kind::Rate, Absent, "Create bundles at this rate of payload."),
        key(
            "interval",
            INTERVAL,
            Absent,
            "Create one bundle every so often; among groups also after a time drawn from [least, most]. Without `rate` and `interval`: as fast as the window allows.",
        ),
    ],
};

/// Keys of `ping = { ... }`.
pub const TRAFFIC_PING: Section = Section {
    name: "traffic.ping",
    help: "Echo requests, which the receiving node answers. A request and its answer are a bundle each, with a row and a latency of its own in the table of bundles: of its way, not of the round trip.",
    keys: &[
        key("count", Count(1, 1_000_000_000), Is("10"), "How many."),
        key("interval", Kind::Duration, Is("1 s"), "Time between two."),
        key("size", Kind::Volume, Is("64 B"), "Payload."),
    ],
};

/// Keys of `[[tunnel]]`.
pub static TUNNEL: LazyLock<Section> = LazyLock::new(|| {
    let ends = [
        key("from", NODE_NAME, Required, "Where they go in."),
        key("end", NODE_NAME, Required, "Where they come out."),
        key("to", PATTERNS, Required, "Destinations of the bundles that go in."),
    ];
    let help = "A tunnel, one way: bundles travel inside others from one node to another, which takes them out \
                (draft-ietf-dtn-bibect). Both ends have its terms.";
    Section { name: "tunnel", help, keys: [&ends[..], &setting_keys(&settings(TUNNEL_TERMS))].concat().leak() }
});
const PATTERNS: Kind = other("patterns", "[\"ipn:4.*\"]");

/// Keys of `[[security]]`.
pub static SECURITY: LazyLock<Section> = LazyLock::new(|| {
    let help = "A rule for the security of bundles (RFC 9172): `[[security]]` for each, as `[[security.rule]]` in a \
                node's file. The first that fits a bundle holds. Keys are made from the seed, by their names.";
    Section { name: "security", help, keys: [&[RULE_NODES], farlink_config::security::RULE].concat().leak() }
});
const RULE_NODES: Key = key("nodes", NODE_NAMES, Absent, "Nodes with this rule; without it, all.");
const NODE_NAMES: Kind = other("name of a node, or list of them", "[\"ground\"]");

/// Keys of `[[quota]]`.
pub static QUOTA: LazyLock<Section> = LazyLock::new(|| {
    let help = "What some sources, or what some neighbours give, may fill of a node's store: `[[quota]]` for each, as in a \
                node's file. What is more is refused.";
    Section { name: "quota", help, keys: [&[QUOTA_NODES], quota::QUOTA].concat().leak() }
});
const QUOTA_NODES: Key =
    key("nodes", NODE_NAMES, Absent, "Nodes whose stores it is about, each by itself; without it, all.");

/// Keys of `[measure]`.
pub const MEASURE: Section = Section {
    name: "measure",
    help: "What is recorded.",
    keys: &[
        key(
            "interval",
            Kind::Duration,
            Absent,
            "Time between two samples of stores, links and processes; without it a thousandth of `duration`, at least 100 ms. A simulation writes only values that changed.",
        ),
        key(
            "tables",
            Choices(&["events", "bundles", "samples", "links", "processes", "legs", "meetings"]),
            Absent,
            "Tables written; without it, all.",
        ),
        key("segments", Flag, Is("false"), "Whether each LTP segment is an event; many rows."),
    ],
};

/// Keys of `[expect]`.
pub const EXPECT: Section = Section {
    name: "expect",
    help: "What the author expects of a run; a run that misses it says so, in its report too, and `farlink run` exits with 1.",
    keys: &[
        key("delivery_ratio", Share, Absent, "Delivered over created, at least."),
        key("finished_within", Kind::Duration, Absent, "All delivered by then, from the start of the run."),
        key("wall_time_lab", Kind::Duration, Absent, "Real time a run in the testbed takes at most, set-up included."),
    ],
};
