//! Tables of settings against their users: every parameter of a convergence layer and every setting of a node is set
//! through a node file, through a scenario in the simulator, and through a scenario in the testbed.

use farlink_base::node::params;
use farlink_base::{LINK_TERMS, LinkTerms, NodeParam, NodeSettings, Setting, Unit};
use farlink_cla::registry::{LAYERS, LayerInfo, Medium};
use farlink_config::Key;
use farlink_lab::driver::{Driver, NodeContext};
use farlink_lab::drivers::farlink::{CONFIGURATION, Farlink};
use farlink_node::config::NodeConfig;
use farlink_scenario::Scenario;
use farlink_stack::{Config, Stack};
use std::path::Path;
use std::sync::Arc;

/// Scope of a parameter: a whole layer, or one link.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Scope {
    Layer,
    Link,
}

/// A valid value other than the default, as a number and in TOML.
fn other(setting: &Setting) -> (u64, String) {
    let value = match setting.unit {
        Unit::Flag => 1 - setting.default,
        // One step from the default stays in range and still fits a packet.
        _ if setting.default < setting.max => setting.default + 1,
        _ => setting.default - 1,
    };
    assert!(setting.check(value).is_ok() && value != setting.default, "{}", setting.name);
    (value, setting.in_toml(value))
}

/// Value of a parameter in the configuration of a node with one layer and one link.
fn told(config: &Config, scope: Scope, name: &str) -> u64 {
    let value = match scope {
        Scope::Layer => config.layers[0].kind.value(name),
        Scope::Link => config.links[0].params.value(name),
    };
    value.expect("the row")
}

fn node_text(layer: &LayerInfo, scope: Scope, line: &str) -> String {
    let (of_layer, of_link) = if scope == Scope::Layer { (line, "") } else { ("", line) };
    format!(
        "node_ids = \"ipn:1.0\"\n[layer.l]\nkind = \"{}\"\n{of_layer}\n\
         [link.x]\nlayer = \"l\"\npeer = \"ipn:2.0\"\naddress = \"h:1\"\n{of_link}\n",
        layer.name
    )
}

fn node_file(layer: &LayerInfo, scope: Scope, line: &str) -> Config {
    let text = node_text(layer, scope, line);
    NodeConfig::parse(&text, Path::new("node.toml")).unwrap_or_else(|e| panic!("{e:#?}\n{text}")).stack
}

fn scenario_text(layer: &LayerInfo, scope: Scope, line: &str) -> String {
    let table = format!("{} = {{ {line} }}", layer.name);
    let (of_node, of_link) = if scope == Scope::Layer { (table.as_str(), "") } else { ("", table.as_str()) };
    format!(
        "name = \"p\"\nduration = \"1 s\"\n[node_defaults]\n{of_node}\n[[node]]\nname = \"a\"\nid = \"ipn:1.0\"\n\
         [[node]]\nname = \"b\"\nid = \"ipn:2.0\"\n[[link]]\nname = \"x\"\nbetween = [\"a\", \"b\"]\n\
         layer = \"{}\"\n{of_link}\n",
        layer.name
    )
}

fn scenario(layer: &LayerInfo, scope: Scope, line: &str) -> Scenario {
    let text = scenario_text(layer, scope, line);
    Scenario::parse(&text).unwrap_or_else(|e| panic!("{e:#?}\n{text}"))
}

fn simulated(scenario: &Scenario) -> Config {
    let plan = Arc::new(farlink_routing::PlanIndex::new(scenario.contact_plan()));
    farlink_sim::node_config(scenario, 0, plan).unwrap_or_else(|why| panic!("{why}")).0
}

fn in_the_testbed(scenario: &Scenario) -> Config {
    written_by_testbed(scenario).stack
}

fn written_by_testbed(scenario: &Scenario) -> NodeConfig {
    let folder = tempfile::tempdir().expect("a folder");
    let epoch = farlink_base::DtnTime(1_000);
    let context = NodeContext {
        scenario,
        index: 0,
        folder: folder.path(),
        epoch,
        program: Path::new("farlink"),
        real_time: true,
    };
    Farlink::default().prepare(&context).expect("the node's files");
    NodeConfig::load(&folder.path().join(CONFIGURATION)).unwrap_or_else(|e| panic!("{e:#?}"))
}

/// Calls `check` with every parameter that a scenario can set for a layer or its links.
fn each(mut check: impl FnMut(&LayerInfo, Scope, &Setting)) {
    for layer in LAYERS {
        // TLS needs certificate files: `node_tls.rs` and `worlds_tls.rs` test it.
        let settings = layer.settings().into_iter().filter(|setting| setting.name != "tls");
        settings.for_each(|setting| check(layer, Scope::Layer, &setting));
        layer.link_settings().iter().for_each(|setting| check(layer, Scope::Link, setting));
    }
}

#[test]
fn all_parameters_reach_the_engine() {
    let mut checked = 0;
    each(|layer, scope, setting| {
        let (value, text) = other(setting);
        let line = format!("{} = {text}", setting.name);
        let scenario = scenario(layer, scope, &line);
        let configs = [node_file(layer, scope, &line), simulated(&scenario), in_the_testbed(&scenario)]
            .map(|c| told(&c, scope, setting.name));
        assert_eq!(configs, [value; 3], "{} {scope:?} {}: node file, simulator, testbed", layer.name, setting.name);
        checked += 1;
    });
    // An empty walk over the tables would pass everything.
    assert!(checked > 20, "{checked}");
}

#[test]
fn link_terms_reach_the_engine() {
    let layer = &LAYERS[0];
    for row in LINK_TERMS {
        let (value, text) = other(&row.setting());
        let line = format!("{} = {text}", row.name);
        let scenario = scenario_text(layer, Scope::Link, "") + &line;
        let scenario = Scenario::parse(&scenario).unwrap_or_else(|e| panic!("{e:#?}\n{scenario}"));
        let configs = [node_file(layer, Scope::Link, &line), simulated(&scenario), in_the_testbed(&scenario)];
        let found = configs.map(|config| (row.get)(&config.links[0].terms));
        assert_eq!(found, [value; 3], "{}: node file, simulator, testbed", row.name);
        let defaults = Scenario::parse(&scenario_text(layer, Scope::Link, "")).expect("a scenario");
        let configs = [node_file(layer, Scope::Link, ""), simulated(&defaults), in_the_testbed(&defaults)];
        assert!(configs.iter().all(|config| config.links[0].terms == LinkTerms::default()), "{}", row.name);
    }
}

#[test]
fn parameter_defaults_agree() {
    each(|layer, scope, setting| {
        let scenario = scenario(layer, Scope::Link, "");
        let configs = [node_file(layer, scope, ""), simulated(&scenario), in_the_testbed(&scenario)];
        assert_eq!(
            configs.map(|c| told(&c, scope, setting.name)),
            [setting.default; 3],
            "{} {}",
            layer.name,
            setting.name
        );
    });
}

#[test]
fn out_of_range_values_are_refused() {
    each(|layer, scope, setting| {
        if setting.unit == Unit::Flag {
            return;
        }
        let (wrong, because) = match setting.unit {
            Unit::Choice(_) => ("\"maybe\"".to_string(), "is none of"),
            _ => (setting.in_toml(setting.max * 2), "is not between"),
        };
        let line = format!("{} = {wrong}", setting.name);
        let node = NodeConfig::parse(&node_text(layer, scope, &line), Path::new("n")).expect_err("refused");
        let scenario = Scenario::parse(&scenario_text(layer, scope, &line)).expect_err("refused");
        for said in [node, scenario] {
            assert!(said[0].expected.contains(because), "{said:?}");
        }
    });
}

#[test]
fn ends_agree_who_connects() {
    for layer in LAYERS {
        let scenario = scenario(layer, Scope::Link, "");
        let text = |c: &Config| format!("{:?}", c.links[0].params);
        let (simulated, real) = (simulated(&scenario), in_the_testbed(&scenario));
        // Only parameters are compared: the numbering of layers and links may differ.
        assert_eq!(text(&simulated), text(&real), "{}", layer.name);
        assert_eq!(layer.medium == Medium::Streams, text(&real).contains("connect: true"));
    }
}

#[test]
fn shared_keys_have_one_default() {
    let layer = &LAYERS[0];
    let (node, simulated) = (node_file(layer, Scope::Link, ""), simulated(&scenario(layer, Scope::Link, "")));
    let shared = |c: &Config| {
        // Settings with other defaults in scenarios, on purpose.
        let apart = ["clock_error", "seed", "shutdown_timeout", "store.capacity", "store.strangers", "store.reserved"];
        let rows = params().filter(|row| !apart.contains(&row.path)).map(|row| (row.get)(&c.node));
        format!("{} {} {:?}", c.router, c.control, rows.collect::<Vec<_>>())
    };
    assert_eq!(shared(&node), shared(&simulated));
}

#[test]
fn store_shares_agree_between_worlds() {
    let scenario = scenario(&LAYERS[0], Scope::Link, "");
    let shared = |c: &Config| (c.node.store.capacity, c.node.limits.reserved_bytes);
    assert_eq!(shared(&simulated(&scenario)), shared(&in_the_testbed(&scenario)));
}

fn obeyed(config: Config, row: &NodeParam) -> Option<u64> {
    // The agent keeps its own copy of some settings; reading that copy shows that the value arrived.
    let told = config.node;
    let stack = Stack::new(config).unwrap_or_else(|why| panic!("{}: {why}", row.path));
    // Codecs, stores and clocks got the other settings and do not return them: these are read from the configuration.
    let (agent, limits) = stack.plain_settings();
    (row.get)(&NodeSettings { agent: *agent, limits: *limits, ..told })
}

/// A scenario whose first node has this setting, and a security rule, which some settings need.
fn scenario_of_row(row: &NodeParam, value: &str) -> Scenario {
    let line = match (row.table(), row.name()) {
        ("", name) => format!("{name} = {value}"),
        ("store", name) => format!("store_{name} = {value}"),
        (table, name) => format!("{table} = {{ {name} = {value} }}"),
    };
    let text = format!(
        "name = \"p\"\nduration = \"1 s\"\n[[node]]\nname = \"a\"\nid = \"ipn:1.0\"\nstore = \"durable\"\n{line}\n\
         [[node]]\nname = \"b\"\nid = \"ipn:2.0\"\n[[link]]\nname = \"x\"\nbetween = [\"a\", \"b\"]\nlayer = \"tcpclv4\"\n\
         [[security]]\nrole = \"source\"\nservice = \"integrity\"\nkey = \"k\"\nfrom = \"ipn:9.*\"\n"
    );
    Scenario::parse(&text).unwrap_or_else(|e| panic!("{e:#?}\n{text}"))
}

#[test]
fn all_node_settings_reach_the_engine() {
    for row in params() {
        let setting = row.setting();
        // Some durations are kept in whole seconds, so a second is the least change.
        let (value, text) = match setting.unit {
            Unit::Nanoseconds => (setting.default + 1_000_000_000, setting.in_toml(setting.default + 1_000_000_000)),
            _ => other(&setting),
        };
        let node = match row.table() {
            "" => format!("node_ids = \"ipn:1.0\"\n{} = {text}\n", row.name()),
            "security" => {
                format!("node_ids = \"ipn:1.0\"\n[security]\nkeys = \"k\"\nstarts = \"s\"\n{} = {text}\n", row.name())
            }
            table => format!("node_ids = \"ipn:1.0\"\n[{table}]\n{} = {text}\n", row.name()),
        };
        let node = NodeConfig::parse(&node, Path::new("node.toml")).unwrap_or_else(|e| panic!("{e:#?}\n{node}")).stack;
        let scenario = scenario_of_row(row, &text);
        let found = [node, simulated(&scenario), in_the_testbed(&scenario)].map(|config| obeyed(config, row));
        assert_eq!(found, [Some(value); 3], "{}: node file, simulator, testbed", row.path);
    }
}

#[test]
fn machine_keys_reach_the_node() {
    let text = |found: &str, own: &str| {
        format!(
            "name = \"p\"\nduration = \"1 s\"\n[node_defaults]\nshards = 3\n[[node]]\nname = \"a\"\nid = \"ipn:1.0\"\n{own}\
             [[node]]\nname = \"b\"\nid = \"ipn:2.0\"\n[[link]]\nname = \"x\"\nbetween = [\"a\", \"b\"]\n\
             layer = \"tcpclv4\"\n{found}[[link]]\nname = \"y\"\nbetween = [\"a\", \"b\"]\nlayer = \"ltp\"\n"
        )
    };
    let keys = "ltp = { shard = 2, offload = false }\ntcpclv4 = { shard = 1 }\n\
        app = { socket_mode = \"660\", listen = \"127.0.0.1:7\" }\n\
        api = { listen = \"127.0.0.1:8\", token_file = \"words.token\" }\n";
    let scenario = Scenario::parse(&text("", keys)).unwrap_or_else(|e| panic!("{e:#?}"));
    let node = written_by_testbed(&scenario);
    let layers: Vec<_> = node.layers.iter().map(|layer| (layer.name.as_str(), layer.shard, layer.offload)).collect();
    assert_eq!(layers, [("ltp", 2, false), ("tcpclv4", 1, false)]);
    assert_eq!((node.app.socket_mode, node.app.listen), (0o660, Some("127.0.0.1:7".parse().unwrap())));
    assert_eq!(node.api.listen, Some("127.0.0.1:8".parse().unwrap()));
    assert!(node.api.token_file.is_some_and(|file| file.ends_with("words.token")));
    let notes = scenario.notes_of_simulation().join("\n");
    assert!(notes.contains("machine of a (ltp.offload, ltp.shard, tcpclv4.shard, app.socket_mode"), "{notes}");

    let keys = "shards = 1\ndiscovery = { interval = \"3 s\", neighbours = 0x20 }\n";
    let scenario = Scenario::parse(&text("found = true\n", keys)).unwrap_or_else(|e| panic!("{e:#?}"));
    let found = written_by_testbed(&scenario).discovery.expect("discovery");
    assert_eq!((found.interval.as_nanos(), found.neighbours), (3_000_000_000, 32));
    assert!(scenario.doubts().is_empty(), "{:?}", scenario.doubts());
    let scenario = Scenario::parse(&text("", keys)).expect("a scenario");
    assert!(scenario.doubts().join("\n").contains("`discovery` of node `a` has no effect"), "{:?}", scenario.doubts());

    for (wrong, because) in [
        ("ltp = { shard = 3 }\n", "there is no shard 3"),
        ("tcpclv4 = { offload = false }\n", "offload"),
        ("app = { socket_mode = \"999\" }\n", "not permission bits"),
        ("app = { listen = \"host\" }\n", "not an address"),
        ("api = { listen = \"127.0.0.1:8\" }\n", "token_file"),
        ("api = { token_file = \"../t\" }\n", "names no `.token` file"),
        ("discovery = { interval = \"1 ms\" }\n", "not between 1 s and 10 min"),
    ] {
        let errors = Scenario::parse(&text("", wrong)).expect_err(wrong);
        let errors: String = errors.iter().map(ToString::to_string).collect();
        assert!(errors.contains(because), "{wrong}: {errors}");
    }
}

/// Keys of a node's file that a scenario has by another name, or that follow from its nodes, links, tunnels and rules.
const DERIVED: &[(&str, &[&str])] = &[
    // `id`; `store`; a folder of the run.
    ("node", &["node_ids", "store", "layer", "link", "routes", "plan", "events", "quota", "tunnel"]),
    ("store", &["kind", "dir"]),
    // Of the links that use the layer, and of the node's certificate and keys, made for each run.
    ("layer", &["kind", "listen", "node_id", "engine", "keys", "certificate", "key", "authorities"]),
    // The link's layer, its other node, and the direction's rate and delay.
    ("link", &["layer", "peer", "address", "rate", "one_way_delay", "node_id", "engine", "key"]),
    ("discovery", &["to", "listen", "interfaces", "accept", "layers"]),
    ("app", &["socket"]),
    ("api", &["socket"]),
    ("security", &["keys", "starts", "rule"]),
];

#[test]
fn all_node_keys_are_scenario_keys() {
    use farlink_node::config::keys as node;
    use farlink_scenario::keys as scenario;
    let mut missing = Vec::new();
    let mut compare = |table: &str, here: &[Key], there: &[Key]| {
        let derived = DERIVED.iter().find(|(name, _)| *name == table).map_or(&[][..], |(_, keys)| keys);
        let has = |name: &str| there.iter().any(|key| key.name == name || key.name == format!("{table}_{name}"));
        missing.extend(
            here.iter()
                .filter(|key| !has(key.name) && !derived.contains(&key.name))
                .map(|key| format!("{table}.{}", key.name)),
        );
    };
    let own = scenario::NODE.keys;
    compare("node", node::NODE.keys, own);
    compare("store", node::STORE.keys, own);
    let tables = scenario::ROW_TABLES.iter().map(|(_, section)| section).chain(scenario::MACHINE_TABLES.iter());
    let tables: Vec<_> = tables.collect();
    let named = |name: &str| tables.iter().find(|section| section.name == format!("node.{name}")).expect(name).keys;
    for section in [&node::LIMITS, &node::APP, &node::API, &node::DISCOVERY, &node::LOG, &node::SECURITY] {
        compare(section.name, section.keys, named(section.name));
    }
    for (layer, sections) in node::LAYER_SECTIONS.iter().zip(scenario::LAYER_SECTIONS.iter()) {
        compare("layer", layer.layer.keys, sections.node.keys);
        compare("link", layer.link.keys, &[sections.link.keys, scenario::LINK.keys].concat());
    }
    compare("custody", node::CUSTODY.keys, &[scenario::CUSTODY.keys, own].concat());
    compare("compressed_reports", node::COMPRESSED.keys, scenario::REPORTS.keys);
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn out_of_range_settings_are_refused() {
    for row in params().filter(|row| row.table().is_empty()) {
        let setting = row.setting();
        let (wrong, because) = match setting.unit {
            Unit::Choice(_) => ("\"maybe\"".to_string(), "is none of"),
            Unit::Flag => ("7".to_string(), "expected `true` or `false`"),
            Unit::Count if setting.max < u64::MAX => ((setting.max + 1).to_string(), "is not between"),
            Unit::Nanoseconds => (setting.in_toml(setting.max * 2), "is not between"),
            _ => continue,
        };
        let line = format!("{} = {wrong}\n", row.name());
        let node = NodeConfig::parse(&format!("node_ids = \"ipn:1.0\"\n{line}"), Path::new("n")).expect_err("refused");
        let text = format!("name = \"p\"\nduration = \"1 s\"\n[[node]]\nname = \"a\"\nid = \"ipn:1.0\"\n{line}");
        let scenario = Scenario::parse(&text).expect_err("refused");
        for said in [node, scenario] {
            assert!(said[0].expected.contains(because), "{said:?}");
        }
    }
}
