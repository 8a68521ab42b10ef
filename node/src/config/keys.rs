//! Keys of a node's file: the reader checks against them, and `docs/reference/node.md` is made from them.
//!
//! Plain settings come from the table in `core/base/src/node.rs`, parameters of convergence layers from the tables of
//! `core/cla`.

use farlink_base::{CUSTODY_TERMS, LINK_TERMS, REPORT_TERMS, TUNNEL_TERMS, settings};
use farlink_cla::registry::{Introduction, LAYERS, LayerInfo, Medium, NAMES};
use farlink_config::custody::PATTERNS;
use farlink_config::machine;
use farlink_config::node::row_keys;
use farlink_config::security::RULE as RULE_KEYS;
use farlink_config::{Fallback, Key, Kind, Section, custody, key, other, quota, reports, setting_keys};
use std::sync::LazyLock;

use Fallback::{Absent, Is, Required};
use Kind::{Choice, Count, Flag, Text};

const NODE_IDS: Kind = other("node ID, or list of them", "[\"ipn:1.0\"]");
const NODE_ID: Kind = other("node ID", "\"ipn:2.0\"");
const ROUTES: Kind = other("table: pattern = node ID", "{ \"ipn:5.*\" = \"ipn:2.0\" }");
const SOCKET: Kind = other("file, relative to this one", "\"farlink.sock\"");
const CONTROL_SOCKET: Kind = other("file, relative to this one", "\"node.control.sock\"");
const PRIVATE: Kind = other("file, relative to this one", "\"node.key\"");
const PEM: Kind = other("file, relative to this one", "\"node.pem\"");
const FOLDER: Kind = other("folder, relative to this file", "\"store\"");

/// Section of a table with the keys `own`, the plain settings of this table (rows of `core/base/src/node.rs`), and
/// `tables`.
fn with_rows(name: &'static str, help: &'static str, own: &[Key], tables: &[Key]) -> Section {
    let table = if name == "node" { "" } else { name };
    Section { name, help, keys: [own, &row_keys(table), tables].concat().leak() }
}

/// Keys of the top level.
pub static NODE: LazyLock<Section> = LazyLock::new(|| {
    let own = [key("node_ids", NODE_IDS, Required, "The first is the node's own name, others are aliases.")];
    with_rows("node", "The top of the file, before the first table.", &own, NODE_TABLES)
});
const NODE_TABLES: &[Key] = &[
    key("store", Kind::Table("store"), Absent, "Where bundles wait."),
    key("layer", Kind::Tables("layer"), Absent, "Convergence layers, each with sockets of its own."),
    key("link", Kind::Tables("link"), Absent, "Neighbours."),
    key("discovery", Kind::Table("discovery"), Absent, "Neighbours found by announcements; without it, none."),
    key("security", Kind::Table("security"), Absent, "Security of bundles (BPSec)."),
    key("routes", ROUTES, Absent, "Static routes, tried when the router has none."),
    key("plan", Kind::Table("plan"), Absent, "The contact plan."),
    key("router", Kind::Table("router"), Absent, "The router."),
    key("control", Kind::Table("control"), Absent, "The congestion control."),
    key("custody", Kind::Table("custody"), Absent, "Custody of bundles; without it, none is taken or asked for."),
    key("tunnel", Kind::Tables("tunnel"), Absent, "Bundles that travel in others (BIBE), and what comes so."),
    key(
        "compressed_reports",
        Kind::Table("compressed_reports"),
        Absent,
        "Reports about many bundles in one (CCSDS 734.6-O-1); without it, none.",
    ),
    key("limits", Kind::Table("limits"), Absent, "Bounds."),
    key(
        "quota",
        Kind::Tables("quota"),
        Absent,
        "What some sources, or what some neighbours give, may fill of the store.",
    ),
    key("app", Kind::Table("app"), Absent, "The application interface."),
    key("api", Kind::Table("api"), Absent, "The control API."),
    key("log", Kind::Table("log"), Absent, "The log."),
    key("events", Kind::Table("events"), Absent, "The events file."),
];

/// Keys of the table `[store]`.
pub static STORE: LazyLock<Section> = LazyLock::new(|| {
    let kind = key(
        "kind",
        Choice(&["durable", "memory"]),
        Absent,
        "Or \"memory\": gone at exit, acknowledged at once. Without it, durable where there is a `dir`.",
    );
    let dir = key("dir", FOLDER, Absent, "Required for \"durable\".");
    with_rows("store", "Where bundles wait.", &[kind, dir], &[])
});

/// Key of the convergence layer that a `[layer.NAME]` table configures.
const KIND: Key = key("kind", Choice(NAMES), Required, "Which convergence layer.");
fn listen(layer: &LayerInfo) -> Key {
    // The example in the reference page has one layer of each kind, so kinds with the same assigned port get successive
    // ones.
    let same = |other: &&LayerInfo| other.port == layer.port && other.medium == layer.medium;
    let earlier = LAYERS.iter().take_while(|other| *other != layer).filter(same).count() as u16;
    let example = format!("[\"0.0.0.0:{}\"]", layer.port + earlier).leak();
    let help = "Addresses served; a single one is also where this side comes from when it connects. Without it, none.";
    key("listen", other("addresses with ports", example), Absent, help)
}
const OWN_NODE_ID: Key = key(
    "node_id",
    other("node ID", "\"ipn:1.0\""),
    Absent,
    "What this node says it is; without it, the first of node_ids.",
);
const OWN_ENGINE: Key =
    key("engine", Count(1, u64::MAX), Absent, "Engine number; without it, the ipn number of the first of node_ids.");

const LINK_KEYS: Key = key(
    "keys",
    other("file, relative to this one", "\"ltp.keys\""),
    Absent,
    "Keys of links with `key`, in the form of those of [security], in a file that only its owner may read; read again on SIGHUP.",
);
const LINK_KEY: Key = key(
    "key",
    other("name of a key", "\"moon\""),
    Absent,
    "The key that both ends share: its newest generation makes, all are believed. With it `authentication` is \"hmac-sha1-80\" where nothing else is said; the `id` of a generation goes with each segment.",
);

/// Keys of layers whose sessions may use TLS.
const TLS: &[Key] = &[
    key(
        "certificate",
        PEM,
        Absent,
        "What this node shows, in PEM; with `tls` other than \"forbid\". `farlink node certs` makes one to try.",
    ),
    key("key", PRIVATE, Absent, "The private key of the certificate."),
    key("authorities", PEM, Absent, "Certificates of those whose word on other nodes is believed."),
];

/// Keys that every `[link.NAME]` has, beside the rows of [`LINK_TERMS`]; its layer's parameters follow.
const LINK: &[Key] = &[
    key("layer", Text, Required, "Name of a [layer]."),
    key("peer", NODE_ID, Required, "Node ID of the neighbour."),
    key(
        "address",
        other("host and port", "\"moon.example:1113\""),
        Absent,
        "Host name or IP, resolved again on every attempt.",
    ),
    key(
        "rate",
        Kind::Rate,
        Absent,
        "Obeyed when no contact gives one; without it, as fast as it goes, with LTP 256 kbit/s at least: a slower link must name its rate.",
    ),
    key("one_way_delay", Kind::Duration, Is("0 s"), "Used when no contact gives one."),
];
const PEER_NODE_ID: Key = key("node_id", NODE_ID, Absent, "What the neighbour says it is; without it, `peer`.");
const CONNECT: Key = key("connect", Flag, Absent, "Whether this side connects; without it, when there is an address.");
const PEER_ENGINE: Key =
    key("engine", Count(1, u64::MAX), Absent, "The neighbour's engine number; without it, the ipn number of `peer`.");

/// Sections of one convergence layer.
pub struct LayerSections {
    /// Keys of the table `[layer.NAME]`.
    pub layer: Section,
    /// Keys of the table `[link.NAME]`.
    pub link: Section,
}

/// Sections of all convergence layers, in the order of the registry; created once and never freed.
pub static LAYER_SECTIONS: LazyLock<Vec<LayerSections>> = LazyLock::new(|| LAYERS.iter().map(layer_sections).collect());

fn layer_sections(layer: &LayerInfo) -> LayerSections {
    let mut of_layer: Vec<Key> = Vec::new();
    let mut of_link: Vec<Key> = Vec::new();
    match layer.introduction {
        Introduction::Engine => {
            of_layer.extend([OWN_ENGINE, LINK_KEYS]);
            of_link.extend([PEER_ENGINE, LINK_KEY]);
        }
        Introduction::NodeId => {
            of_layer.push(OWN_NODE_ID);
            of_link.push(PEER_NODE_ID);
        }
        Introduction::None => {}
    }
    match layer.medium {
        Medium::Datagrams => of_layer.insert(0, machine::OFFLOAD),
        Medium::Streams => of_link.push(CONNECT),
    }
    if layer.settings().iter().any(|setting| setting.name == "tls") {
        of_layer.extend_from_slice(TLS);
    }
    let of_every_link = [LINK, &setting_keys(&settings(LINK_TERMS))].concat();
    let keys = |common: &[Key], own: &[Key], settings| -> &'static [Key] {
        [common, own, &setting_keys(settings)].concat().leak()
    };
    LayerSections {
        layer: Section {
            name: "layer",
            help: layer.title,
            keys: keys(&[KIND, listen(layer), machine::SHARD], &of_layer, &layer.settings()),
        },
        link: Section { name: "link", help: layer.title, keys: keys(&of_every_link, &of_link, &layer.link_settings()) },
    }
}

/// Top level of a text with links for a running node.
pub const LINKS: Section = Section {
    name: "links",
    help: "Links for a running node.",
    keys: &[key("link", Kind::Tables("link"), Required, "Neighbours.")],
};

const GROUPS: Kind = other("addresses with ports", "[\"224.0.0.26:3003\", \"[ff02::1]:3003\"]");
const HEARS: Kind = other("addresses with ports", "[\"0.0.0.0:3003\", \"[::]:3003\"]");
const INTERFACES: Kind = other("names of interfaces", "[\"eth0\"]");
const LAYER_NAMES: Kind = other("names of layers", "[\"tcpclv4\"]");

/// Keys of the table `[discovery]`.
pub static DISCOVERY: LazyLock<Section> = LazyLock::new(|| {
    let own = [
        key(
            "to",
            GROUPS,
            Absent,
            "Groups, broadcast addresses or hosts that this node announces itself to; without it, 224.0.0.26:3003.",
        ),
        key("listen", HEARS, Absent, "Where announcements are heard; without it, port 3003 of all addresses."),
        key("interfaces", INTERFACES, Absent, "Interfaces used for it; without it, those the kernel chooses."),
        key("accept", PATTERNS, Absent, "Node IDs of neighbours that are reached; without it, all."),
        key(
            "layers",
            LAYER_NAMES,
            Absent,
            "Layers announced, by which neighbours are reached, those preferred first; without it, all over TCP.",
        ),
    ];
    let help = "Neighbours found by announcements, as dtn7-rs makes them; read again on SIGHUP.";
    Section { name: "discovery", help, keys: [&own, machine::DISCOVERY].concat().leak() }
});

/// Keys of the table `[plan]`.
pub const PLAN: Section = Section {
    name: "plan",
    help: "The contact plan.",
    keys: &[
        key("file", Kind::File, Absent, "ION's dialect or ours."),
        key("epoch", Kind::Time, Absent, "Of `+s` times, when the plan declares none; without it, the start."),
    ],
};

/// Keys of the table `[router]`, without the router's parameters.
pub const ROUTER: Section = Section {
    name: "router",
    help: "The router.",
    keys: &[key("name", Text, Is("sabr"), "Its parameters follow as numbers or quantities.")],
};

/// Keys of the table `[control]`, without the control's parameters.
pub const CONTROL: Section = Section {
    name: "control",
    help: "The congestion control.",
    keys: &[key("name", Text, Is("none"), "Its parameters follow as numbers or quantities.")],
};

/// Keys of the table `[custody]`.
pub static CUSTODY: LazyLock<Section> = LazyLock::new(|| {
    let help = "Custody: bundles are kept until another node has taken custody of them.";
    let terms = setting_keys(&settings(CUSTODY_TERMS));
    Section { name: "custody", help, keys: [&[custody::REQUEST], custody::RULES, &terms].concat().leak() }
});

/// Keys of the tables `[[tunnel]]`.
pub static TUNNEL: LazyLock<Section> = LazyLock::new(|| {
    let ends = [
        key("end", NODE_ID, Required, "The far end. What comes from there inside other bundles is taken out."),
        key("to", PATTERNS, Absent, "Destinations of bundles that go in; without it, they only come out here."),
    ];
    let help = "one for each far end; bundles travel to it inside others (draft-ietf-dtn-bibect)";
    Section { name: "tunnel", help, keys: [&ends[..], &setting_keys(&settings(TUNNEL_TERMS))].concat().leak() }
});

/// Keys of the table `[compressed_reports]`.
pub static COMPRESSED: LazyLock<Section> = LazyLock::new(|| {
    let help = "Compressed reporting (CCSDS 734.6-O-1): bundles that ask for it are reported by numbers, many at once.";
    Section {
        name: "compressed_reports",
        help,
        keys: [reports::RULES, &setting_keys(&settings(REPORT_TERMS))].concat().leak(),
    }
});
/// Keys of the table `[limits]`.
pub static LIMITS: LazyLock<Section> = LazyLock::new(|| with_rows("limits", "Bounds.", &[], &[]));

/// Keys of the tables `[[quota]]`.
pub const QUOTA: Section = Section {
    name: "quota",
    help: "What some sources, or what some neighbours give, may fill of the store: what is more is refused.",
    keys: quota::QUOTA,
};

/// Keys of the table `[app]`.
pub static APP: LazyLock<Section> = LazyLock::new(|| {
    let socket = key("socket", SOCKET, Absent, "AAP2 over a Unix socket; without it, none.");
    with_rows("app", "The application interface.", &[&[socket], machine::APP].concat(), &[])
});

/// Keys of the table `[api]`.
pub static API: LazyLock<Section> = LazyLock::new(|| {
    let socket = key(
        "socket",
        CONTROL_SOCKET,
        Absent,
        "Only its owner may connect; without it, beside this file and called after it; \"\": none.",
    );
    Section { name: "api", help: "The control API.", keys: [&[socket], machine::API].concat().leak() }
});

/// Keys of the table `[security]`.
pub static SECURITY: LazyLock<Section> = LazyLock::new(|| {
    let files = [
        key("keys", KEYS, Required, "The keys, which only its owner may read; read again on SIGHUP, with the rules."),
        key(
            "starts",
            STARTS,
            Absent,
            "Counts the starts of this node, so that no IV comes twice; keep it as long as the keys. Without it, \
             `security.starts` in the folder of the store.",
        ),
    ];
    let rule = key("rule", Kind::Tables("security.rule"), Absent, "The rules: the first that fits holds.");
    with_rows("security", "Security of bundles (BPSec, RFC 9172 and RFC 9173).", &files, &[rule])
});
const KEYS: Kind = other("file, relative to this one", "\"node.keys\"");
const STARTS: Kind = other("file, relative to this one", "\"security.starts\"");

/// Keys of the tables `[[security.rule]]`.
pub const RULE: Section =
    Section { name: "security.rule", help: "one for each service, side and kind of bundles", keys: RULE_KEYS };

/// Top level of the file of keys.
pub const KEY_FILE: Section = Section {
    name: "keys",
    help: "Keys for the security of bundles, or of links.",
    keys: &[key("key", Kind::Tables("key"), Required, "The keys.")],
};
/// Keys of the tables `[[key]]` in the file of keys.
pub const SECRET: Section = Section {
    name: "key",
    help: "One key; several of one name are its generations, the newest last.",
    keys: &[
        key("name", Text, Required, "What rules and links call it."),
        key(
            "id",
            Text,
            Absent,
            "What its owners call this generation, such as \"2026-11\"; LTP says it, up to 32 bytes.",
        ),
        key("secret", SECRET_HEX, Required, "Its bytes in hexadecimal digits: 16 to 128 of them."),
    ],
};
const SECRET_HEX: Kind = other("hexadecimal digits", "\"00112233445566778899aabbccddeeff\"");

/// Keys of the table `[log]`.
pub static LOG: LazyLock<Section> = LazyLock::new(|| with_rows("log", "The log.", &[], &[]));

/// Keys of the table `[events]`.
pub const EVENTS: Section = Section {
    name: "events",
    help: "One JSON line per event, for measurements.",
    keys: &[
        key("file", other("file, relative to this one", "\"events.jsonl\""), Required, "Where."),
        key("segments", Flag, Is("false"), "LTP segments too."),
    ],
};
