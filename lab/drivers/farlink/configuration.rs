//! Generation of the node's configuration file and contact plan from the scenario.

use super::certificates::Files;
use super::{CONTROL, EVENTS, KEYS, PLAN, SOCKET};
use crate::driver::NodeContext;
use farlink_base::node::{Given, params_of};
use farlink_base::security::{PAYLOAD, PRIMARY, Role, Rule, Service};
use farlink_base::{
    CUSTODY_TERMS, LINK_TERMS, LayerParam, REPORT_TERMS, Rng, Setting, TUNNEL_TERMS, exact_duration, nanoseconds,
};
use farlink_scenario::{Custody, LinkEnd, Medium, Node, StoreKind, Tls, first_delay, first_rate};
use std::fmt::{Display, Write};

// `hand_over_ahead`, in ns, of a node without real-time priority: the scheduling delay of nodes on a loaded machine.
// Nodes with that priority keep the default, as in simulation.
const AHEAD_WHEN_LATE: u64 = 100_000_000;
// Largest difference between the clocks of hosts on one machine, ns.
const CLOCK_ERROR: u64 = 1_000_000;
// Default port of `[discovery]`, stated because unicast addresses need a port.
const ANNOUNCED_AT: u16 = 3003;
// Interval between announcements: the shortest that nodes accept.
const ANNOUNCED_EVERY: &str = "1 s";

/// Text of one node's configuration file; `shows` are its certificate files if its sessions use TLS.
pub fn node_toml(node: &NodeContext<'_>, shows: Option<&Files>) -> String {
    let here = &node.scenario.nodes[node.index];
    let mut toml = Toml::default();
    toml.comment(&format!("node `{}` of scenario `{}`", here.name, node.scenario.name));
    toml.value("node_ids", list(&here.ids));
    let rows = rows(node);
    toml.rows("", &rows);

    toml.table("store");
    match here.store {
        StoreKind::Memory => toml.text("kind", "memory"),
        StoreKind::Durable => {
            toml.text("kind", "durable");
            toml.text("dir", "store");
        }
    }
    toml.rows("store", &rows);
    for table in ["limits", "log"] {
        if params_of(table).any(|row| rows.iter().any(|(path, _)| *path == row.path)) {
            toml.table(table);
            toml.rows(table, &rows);
        }
    }
    links(node, shows, &mut toml);

    if !here.routes.is_empty() {
        toml.table("routes");
        for route in &here.routes {
            toml.text(&quoted(&route.to), &node.scenario.nodes[route.via].ids[0]);
        }
    }
    toml.table("plan");
    toml.text("file", PLAN);
    toml.text("epoch", &node.epoch.to_string());
    for (table, policy) in [("router", &here.router), ("control", &here.control)] {
        toml.table(table);
        toml.text("name", &policy.name);
        for (name, value) in &policy.params {
            toml.value(name, format!("{value:?}"));
        }
    }
    if here.custody != Custody::None {
        toml.table("custody");
        let rules = &here.custody_rules;
        toml.value("from", list(&rules.from));
        toml.value("to", list(&rules.to));
        if !here.custody_request.is_empty() {
            toml.value("request", list(&here.custody_request));
        }
        if let Some(capacity) = rules.capacity {
            toml.text("capacity", &bytes(capacity.bytes()));
        }
        toml.terms(CUSTODY_TERMS, &rules.terms);
    }
    reports_and_quotas(here, &mut toml);
    discovery(node, &mut toml);
    for tunnel in &here.tunnels {
        toml.table("[tunnel]");
        toml.text("end", &node.scenario.nodes[tunnel.end].ids[0]);
        toml.value("to", list(&tunnel.to));
        toml.terms(TUNNEL_TERMS, &tunnel.terms);
    }
    toml.table("app");
    toml.text("socket", SOCKET);
    toml.rows("app", &rows);
    toml.machine("app", here);
    let told = |end: &LinkEnd| !node.scenario.links[end.link].lasts() && !node.scenario.links[end.link].found;
    let changes = node.scenario.ends_of(node.index).iter().any(told);
    toml.table("api");
    toml.text("socket", if changes { CONTROL } else { "" });
    toml.machine("api", here);
    security(&here.security, &rows, &mut toml);
    toml.table("events");
    toml.text("file", EVENTS);
    toml.value("segments", node.scenario.measure.segments);
    toml.text
}

/// Settings of a node: those of the scenario, and those of the testbed for the rest.
fn rows(node: &NodeContext<'_>) -> Given {
    let here = &node.scenario.nodes[node.index];
    let usual = here.settings();
    // The simulator derives a node's seed in the same way.
    let seed = Rng::stream(node.scenario.seed, 2 << 32 | node.index as u64).next_u64();
    let mut rows: Given = vec![
        ("clock_error", CLOCK_ERROR),
        ("shutdown_timeout", nanoseconds(usual.shutdown_timeout)),
        ("store.capacity", usual.store.capacity.bytes()),
        // No share is kept from unknown peers: in simulation every peer counts as a configured neighbour.
        ("store.strangers", usual.store.capacity.bytes()),
    ];
    // A machine outside runs on from run to run, and would take a session number that comes again for an old one.
    let outside = |index: usize| node.scenario.nodes[index].host.is_outside();
    let peers = node.scenario.ends_of(node.index).into_iter().map(|end| end.peer);
    if !peers.chain([node.index]).any(outside) {
        rows.push(("seed", seed));
    }
    if !node.real_time {
        rows.push(("hand_over_ahead", AHEAD_WHEN_LATE));
    }
    rows.retain(|(path, _)| !here.gives(path));
    rows.extend(&here.given);
    rows
}

/// Writes the tables of compressed reports and store quotas.
fn reports_and_quotas(here: &Node, toml: &mut Toml) {
    if let Some(reports) = &here.compressed_reports {
        toml.table("compressed_reports");
        toml.value("to", list(&reports.to));
        toml.value("request", list(&reports.request));
        toml.terms(REPORT_TERMS, &reports.terms);
    }
    for quota in &here.quotas {
        toml.table("[quota]");
        for (key, patterns) in [("sources", &quota.sources), ("neighbours", &quota.neighbours)] {
            if !patterns.is_empty() {
                toml.value(key, list(patterns));
            }
        }
        if let Some(volume) = quota.bytes {
            toml.text("bytes", &bytes(volume.bytes()));
        }
        for (key, bound) in [("bundles", quota.bundles), ("share", quota.share)] {
            if let Some(bound) = bound {
                toml.value(key, bound);
            }
        }
    }
}

/// Writes the table of discovery, if links of the node are to be discovered. Announcements go to unicast addresses,
/// because the links of a run have no multicast groups.
fn discovery(node: &NodeContext<'_>, toml: &mut Toml) {
    let ends = node.scenario.ends_of(node.index);
    let found: Vec<&LinkEnd> = ends.iter().filter(|end| node.scenario.links[end.link].found).collect();
    if found.is_empty() {
        return;
    }
    let to: Vec<String> = found.iter().map(|end| format!("{}:{ANNOUNCED_AT}", end.peer_address)).collect();
    let mut accept: Vec<String> = found.iter().map(|end| node.scenario.nodes[end.peer].ids[0].clone()).collect();
    // Several links may join the same pair of nodes.
    accept.dedup();
    let layers = node.scenario.layers_of(node.index).into_iter();
    let layers = layers.filter(|layer| found.iter().any(|end| layer.links.contains(&end.link)));
    toml.table("discovery");
    toml.value("to", list(&to));
    toml.value("listen", list(&[format!("0.0.0.0:{ANNOUNCED_AT}")]));
    let own = &node.scenario.nodes[node.index];
    if !own.machine.iter().any(|given| (given.table, given.key) == ("discovery", "interval")) {
        toml.text("interval", ANNOUNCED_EVERY);
    }
    toml.machine("discovery", own);
    toml.value("accept", list(&accept));
    toml.value("layers", list(&layers.map(|layer| layer.name).collect::<Vec<_>>()));
}

/// Text of the contact plan, the same for all nodes; the configuration has its epoch.
pub fn contact_plan(node: &NodeContext<'_>) -> String {
    let mut plan = node.scenario.contact_plan();
    // The epoch is known only when the run starts, so it is in the configuration.
    plan.epoch = None;
    let named = node.scenario.nodes.iter().filter(|n| n.number.is_named());
    let names: Vec<_> = named.filter_map(|n| Some((n.ids.first()?.clone(), n.number))).collect();
    farlink_routing::contact_plan::farlink::emit(&plan, &names)
}

/// Writes the convergence layers that the node needs, then its links.
fn links(node: &NodeContext<'_>, shows: Option<&Files>, toml: &mut Toml) {
    let here = &node.scenario.nodes[node.index];
    for layer in node.scenario.layers_of(node.index) {
        toml.table(&format!("layer.{}", layer.name));
        toml.text("kind", layer.kind.name);
        toml.value("listen", list(&[format!("0.0.0.0:{}", layer.port)]));
        if layer.links.iter().any(|link| node.scenario.link_key(*link).is_some()) {
            toml.text("keys", KEYS);
        }
        toml.settings(&layer.kind.settings(), here.layer_settings(layer.kind));
        toml.machine(layer.kind.name, here);
        if let Some(files) = shows.filter(|_| here.tls(layer.kind) != Tls::Forbid) {
            toml.text("certificate", &files.certificate);
            toml.text("key", &files.key);
            toml.text("authorities", &files.authorities);
        }
    }
    for end in node.scenario.ends_of(node.index) {
        // Links that appear later are added at run time, and discovered links are not configured.
        let here = &node.scenario.links[end.link];
        if here.appears.is_zero() && !here.found {
            link(node, &end, toml);
        }
    }
}

/// Text of one link's table, for the running node to add.
pub fn link_toml(node: &NodeContext<'_>, index: usize) -> String {
    let mut toml = Toml::default();
    for end in node.scenario.ends(index).iter().filter(|end| end.node == node.index) {
        link(node, end, &mut toml);
    }
    toml.text
}

fn link(node: &NodeContext<'_>, end: &LinkEnd, toml: &mut Toml) {
    let link = &node.scenario.links[end.link];
    let layers = node.scenario.layers_of(node.index);
    let layer = layers.iter().find(|layer| layer.links.contains(&end.link)).map_or("", |layer| &layer.name);
    let own = if end.first { &link.forward } else { &link.reverse };
    toml.table(&format!("link.{}", quoted(&link.name)));
    toml.text("layer", layer);
    toml.text("peer", &node.scenario.nodes[end.peer].ids[0]);
    toml.text("address", &format!("{}:{}", end.peer_address, end.port));
    if let Some(rate) = first_rate(own) {
        toml.text("rate", &format!("{} bit/s", rate.bits_per_second()));
    }
    toml.text("one_way_delay", &exact_duration(first_delay(own)));
    toml.changed_terms(LINK_TERMS, &link.terms);
    // Datagram layers have no connection to open.
    if link.layer.kind.medium == Medium::Streams {
        toml.value("connect", link.layer.connect.connects(end.first));
    }
    toml.settings(&link.layer.kind.link_settings(), &link.layer.settings_towards(own));
    if let Some(name) = node.scenario.link_key(end.link) {
        toml.text("key", &name);
    }
}

/// Writes the security rules of the node.
fn security(rules: &[Rule], rows: &Given, toml: &mut Toml) {
    if rules.is_empty() {
        return;
    }
    toml.table("security");
    toml.text("keys", KEYS);
    toml.text("starts", "security.starts");
    toml.rows("security", rows);
    for rule in rules {
        let source = rule.role == Role::Source;
        toml.table("[security.rule]");
        toml.text("role", Role::WORDS[Role::ALL.iter().position(|role| *role == rule.role).unwrap_or(0)]);
        toml.text("service", Service::WORDS[rule.service as usize]);
        toml.text("from", &rule.from);
        toml.text("to", &rule.to);
        let target = |kind: &u64| match *kind {
            PRIMARY => quoted("primary"),
            PAYLOAD => quoted("payload"),
            kind => kind.to_string(),
        };
        toml.value("targets", format!("[{}]", rule.targets.iter().map(target).collect::<Vec<_>>().join(", ")));
        toml.text("key", &rule.key);
        if !source {
            toml.value("required", rule.required);
            continue;
        }
        toml.value("wrap", rule.wrap);
        if rule.service == Service::Integrity {
            toml.text("hash", &rule.sha_bits.to_string());
        } else if rule.wrap {
            toml.text("cipher", &rule.aes_bits.to_string());
        }
        // Names of the scope flags, from the lowest bit (RFC 9173 section 3.3.3).
        let parts = ["primary", "target", "security"].iter().enumerate();
        let parts: Vec<String> =
            parts.filter(|(bit, _)| rule.scope >> bit & 1 == 1).map(|(_, part)| part.to_string()).collect();
        toml.value("scope", list(&parts));
    }
}

/// Text of the key file with the keys named by the node's rules and links; `None` if they name none.
pub fn key_file(node: &NodeContext<'_>) -> Option<String> {
    let rules = node.scenario.nodes[node.index].security.iter().map(|rule| rule.key.clone());
    let links = node.scenario.ends_of(node.index).into_iter().filter_map(|end| node.scenario.link_key(end.link));
    let mut names: Vec<String> = rules.chain(links).collect();
    names.sort_unstable();
    // Rules and links may share a key.
    names.dedup();
    if names.is_empty() {
        return None;
    }
    let mut toml = Toml::default();
    for name in names {
        toml.table("[key]");
        toml.text("name", &name);
        let digits: String = node.scenario.security_key(&name).iter().map(|byte| format!("{byte:02x}")).collect();
        toml.text("secret", &digits);
    }
    Some(toml.text)
}

fn bytes(bytes: u64) -> String {
    format!("{bytes} B")
}

fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => {
                let _ = write!(out, "\\u{:04X}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

fn list(items: &[String]) -> String {
    let items: Vec<String> = items.iter().map(|i| quoted(i)).collect();
    format!("[{}]", items.join(", "))
}

#[derive(Default)]
struct Toml {
    text: String,
}

impl Toml {
    fn comment(&mut self, text: &str) {
        let _ = writeln!(self.text, "# {text}");
    }
    fn table(&mut self, name: &str) {
        let _ = writeln!(self.text, "\n[{name}]");
    }
    fn value(&mut self, key: &str, value: impl Display) {
        let _ = writeln!(self.text, "{key} = {value}");
    }
    fn text(&mut self, key: &str, value: &str) {
        self.value(key, quoted(value));
    }
    /// Writes those settings of one table that are given; for the rest, the node has the same defaults as the
    /// simulator.
    fn rows(&mut self, table: &str, given: &Given) {
        for row in params_of(table) {
            if let Some((_, value)) = given.iter().find(|(path, _)| *path == row.path) {
                self.value(row.name(), row.setting().in_toml(*value));
            }
        }
    }
    /// Writes those keys of one table about the node's machine that the scenario gives.
    fn machine(&mut self, table: &str, node: &Node) {
        for given in node.machine.iter().filter(|given| given.table == table) {
            self.value(given.key, &given.value);
        }
    }
    /// Writes every setting of a table, with its value in `terms`.
    fn terms<T: Default>(&mut self, table: &[LayerParam<T>], terms: &T) {
        for row in table {
            self.value(row.name, row.setting().in_toml((row.get)(terms)));
        }
    }
    /// Writes the settings of a table that differ from their defaults: older builds refuse settings that they do not
    /// know.
    fn changed_terms<T: Default>(&mut self, table: &[LayerParam<T>], terms: &T) {
        for (row, value) in table.iter().map(|row| (row.setting(), (row.get)(terms))) {
            if value != row.default {
                self.value(row.name, row.in_toml(value));
            }
        }
    }
    /// Writes the layer parameters given by the scenario; the node's defaults match the simulator's for the rest.
    fn settings(&mut self, known: &[Setting], given: &[(&str, u64)]) {
        for setting in known {
            let Some((_, value)) = given.iter().find(|(name, _)| *name == setting.name) else { continue };
            self.value(setting.name, setting.in_toml(*value));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farlink_base::{DtnTime, Duration};
    use farlink_scenario::Scenario;
    use std::path::Path;

    const SCENARIO: &str = r#"
        name = "two"
        duration = "10 s"
        [[node]]
        name = "a"
        id = "ipn:1.0"
        routes = { "ipn:9.*" = "b" }
        [[node]]
        name = "b"
        id = ["ipn:2.0", "dtn://b/"]
        store = "durable"
        [[link]]
        name = "space"
        between = ["a", "b"]
        layer = "ltp"
        delay = "600.5 ms"
        overhead = "24 B"
        forward = { rate = "2.5 Mbit/s" }
        [[link]]
        name = "cable"
        between = ["a", "b"]
        layer = "tcpclv4"
        [[contact]]
        link = "space"
        start = "1 s"
        end = "5 s"
    "#;

    fn context(scenario: &Scenario, index: usize) -> NodeContext<'_> {
        let epoch = DtnTime::parse_utc("2026-11-20T09:00:00.250Z").unwrap();
        NodeContext {
            scenario,
            index,
            folder: Path::new("/tmp"),
            epoch,
            program: Path::new("farlink"),
            real_time: true,
        }
    }

    #[test]
    fn configuration_follows_scenario() {
        let scenario = Scenario::parse(SCENARIO).unwrap();
        let (a, b) = (node_toml(&context(&scenario, 0), None), node_toml(&context(&scenario, 1), None));
        for line in [
            "node_ids = [\"ipn:1.0\"]",
            "[link.\"space\"]",
            "address = \"10.0.0.2:1113\"",
            "rate = \"2500000 bit/s\"",
            "one_way_delay = \"600500 us\"",
            "overhead = \"52 B\"",
            "address = \"10.0.1.2:4556\"",
            "connect = true",
            "\"ipn:9.*\" = \"ipn:2.0\"",
            "epoch = \"2026-11-20T09:00:00.250Z\"",
        ] {
            assert!(a.lines().any(|l| l == line), "{line}\n{a}");
        }
        for line in ["node_ids = [\"ipn:2.0\", \"dtn://b/\"]", "dir = \"store\"", "connect = false"] {
            assert!(b.lines().any(|l| l == line), "{line}\n{b}");
        }
        assert!(!a.contains("crc"), "older builds do not know this key of links:\n{a}");
    }

    #[test]
    fn custody_rules_are_written() {
        let given = "store = \"durable\"\ncustody = \"ask\"\ncustody_rules = { request = [\"ipn:9.*\"], \
            from = [\"ipn:2.*\"], capacity = \"5 MB\", aggregate = false, signal_bundles = 7 }";
        let with = SCENARIO.replace("store = \"durable\"", given);
        let scenario = Scenario::parse(&with).unwrap_or_else(|errors| panic!("{errors:#?}"));
        let text = node_toml(&context(&scenario, 1), None);
        let custody = text.split("\n[").find(|table| table.starts_with("custody]")).unwrap();
        for line in [
            "from = [\"ipn:2.*\"]",
            "to = [\"*\"]",
            "request = [\"ipn:9.*\"]",
            "capacity = \"5000000 B\"",
            "timeout = \"30 s\"",
            "timeout_max = \"1 h\"",
            "aggregate = false",
            "signal_delay = \"1 s\"",
            "signal_bundles = 7",
        ] {
            assert!(custody.lines().any(|l| l == line), "{line}\n{custody}");
        }
        assert!(!node_toml(&context(&scenario, 0), None).contains("[custody]"));
    }

    #[test]
    fn reports_and_quotas_are_written() {
        let reports = "id = \"ipn:1.0\"\ncompressed_reports = { request = \"ipn:2.*\", delay = \"3 s\", bundles = 7 }";
        let quotas = "[[quota]]\nnodes = \"a\"\nsources = [\"ipn:9.*\"]\nbytes = \"1 MB\"\nbundles = 5\n\
            [[quota]]\nneighbours = \"*\"\nshare = 20\n";
        let text = format!("{}{quotas}", SCENARIO.replace("id = \"ipn:1.0\"", reports));
        let scenario = Scenario::parse(&text).unwrap_or_else(|errors| panic!("{errors:#?}"));
        let (a, b) = (node_toml(&context(&scenario, 0), None), node_toml(&context(&scenario, 1), None));
        let table = "[compressed_reports]\nto = [\"*\"]\nrequest = [\"ipn:2.*\"]\ndelay = \"3 s\"\nbundles = 7\n";
        assert!(a.contains(table) && !b.contains("compressed_reports"), "{a}");
        let all = "[[quota]]\nneighbours = [\"*\"]\nshare = 20\n";
        assert!(a.contains("[[quota]]\nsources = [\"ipn:9.*\"]\nbytes = \"1000000 B\"\nbundles = 5\n"), "{a}");
        assert!(a.contains(all) && b.contains(all) && b.matches("[[quota]]").count() == 1, "{b}");
    }

    #[test]
    fn discovered_links_are_announced_not_configured() {
        let text = SCENARIO.replace("layer = \"tcpclv4\"", "layer = \"tcpclv4\"\nfound = true\nappears = \"2 s\"");
        let scenario = Scenario::parse(&text).unwrap_or_else(|errors| panic!("{errors:#?}"));
        let a = node_toml(&context(&scenario, 0), None);
        let announced = "[discovery]\nto = [\"10.0.1.2:3003\"]\nlisten = [\"0.0.0.0:3003\"]\ninterval = \"1 s\"\n\
            accept = [\"ipn:2.0\"]\nlayers = [\"tcpclv4\"]\n";
        assert!(a.contains(announced) && !a.contains("[link.\"cable\"]") && a.contains("[link.\"space\"]"), "{a}");
        assert!(a.contains("[api]\nsocket = \"\"\n"), "no link is added at run time: {a}");
        assert!(!contact_plan(&context(&scenario, 0)).contains("cable"));
        assert!(!node_toml(&context(&Scenario::parse(SCENARIO).unwrap(), 0), None).contains("[discovery]"));
    }

    #[test]
    fn authenticated_link_has_key_at_ends() {
        let text = SCENARIO.replace("overhead = \"24 B\"", "ltp = { authentication = \"hmac-sha1-80\" }");
        let scenario = Scenario::parse(&text).unwrap();
        let (a, b) = (context(&scenario, 0), context(&scenario, 1));
        let lines = ["keys = \"node.keys\"", "authentication = \"hmac-sha1-80\"", "key = \"link space\""];
        for node in [&a, &b] {
            let text = node_toml(node, None);
            lines.iter().for_each(|line| assert_eq!(text.matches(line).count(), 1, "{line}\n{text}"));
        }
        assert!(key_file(&a).is_some_and(|keys| keys.matches("[[key]]").count() == 1) && key_file(&a) == key_file(&b));
        let null = Scenario::parse(&text.replace("hmac-sha1-80", "null")).unwrap();
        assert!(key_file(&context(&null, 0)).is_none() && !node_toml(&context(&null, 0), None).contains("keys ="));
    }

    #[test]
    fn security_rules_and_keys_are_written() {
        let rules = "[[security]]\nrole = \"source\"\nservice = \"integrity\"\nkey = \"k\"\nnodes = \"a\"\nhash = \"512\"\n\
            scope = [\"primary\"]\ntargets = [\"payload\", \"primary\", 193]\n\
            [[security]]\nrole = \"acceptor\"\nservice = \"confidentiality\"\nkey = \"c\"\nfrom = \"ipn:1.*\"\nrequired = false\n";
        let scenario = Scenario::parse(&format!("{SCENARIO}{rules}")).unwrap();
        let (a, b) = (context(&scenario, 0), context(&scenario, 1));
        let text = node_toml(&a, None);
        for line in [
            "[[security.rule]]",
            "targets = [\"payload\", \"primary\", 193]",
            "hash = \"512\"",
            "scope = [\"primary\"]",
            "required = false",
        ] {
            assert!(text.lines().any(|l| l == line), "{line}\n{text}");
        }
        assert!(!node_toml(&b, None).contains("hash = "), "the first rule applies to the other node");
        assert_eq!(key_file(&a).unwrap().matches("[[key]]").count(), 2);
        assert!(key_file(&a).unwrap().contains(&key_file(&b).unwrap()), "both have the same key");
    }

    #[test]
    fn only_tls_layers_name_certificates() {
        let secured = SCENARIO.replace("id = \"ipn:1.0\"", "id = \"ipn:1.0\"\ntcpclv4 = { tls = \"require\" }");
        let scenario = Scenario::parse(&secured).unwrap();
        let [certificate, key, authorities] = ["c.pem", "c.key", "a.pem"].map(String::from);
        let files = Files { certificate, key, authorities };
        let layers = |index: usize| {
            let text = node_toml(&context(&scenario, index), Some(&files));
            let tables = text.split("\n[").filter(|table| table.starts_with("layer.")).map(str::to_string);
            tables.collect::<Vec<_>>()
        };
        let here = layers(0);
        assert!(here[0].starts_with("layer.ltp]") && !here[0].contains("c.pem"), "{here:?}");
        for line in ["tls = \"require\"", "certificate = \"c.pem\"", "key = \"c.key\"", "authorities = \"a.pem\""] {
            assert!(here[1].lines().any(|l| l == line), "{line}: {here:?}");
        }
        assert!(!layers(1).concat().contains("c.pem"), "it never uses TLS");
    }

    #[test]
    fn late_node_hands_over_further_ahead() {
        let scenario = Scenario::parse(SCENARIO).unwrap();
        let punctual = context(&scenario, 0);
        assert!(!node_toml(&punctual, None).contains("hand_over_ahead"), "as in simulation");
        let late = node_toml(&NodeContext { real_time: false, ..punctual }, None);
        assert!(late.lines().any(|line| line == "hand_over_ahead = \"100 ms\""), "{late}");
    }

    #[test]
    fn each_port_gets_own_layer() {
        let text = SCENARIO.replace("layer = \"tcpclv4\"", "layer = \"ltp\"\nport = 1114");
        let toml = node_toml(&context(&Scenario::parse(&text).unwrap(), 0), None);
        for line in ["[layer.ltp]", "[layer.ltp-1114]", "listen = [\"0.0.0.0:1114\"]", "address = \"10.0.1.2:1114\""] {
            assert!(toml.lines().any(|l| l == line), "{line}\n{toml}");
        }
        let layers = toml.lines().filter(|l| l.starts_with("layer = "));
        assert_eq!(layers.collect::<Vec<_>>(), ["layer = \"ltp\"", "layer = \"ltp-1114\""]);
    }

    #[test]
    fn plan_has_contacts_of_both_links() {
        let scenario = Scenario::parse(SCENARIO).unwrap();
        let text = contact_plan(&context(&scenario, 0));
        let plan = farlink_routing::contact_plan::parse(&text).unwrap().plan;
        assert_eq!(plan.contacts.len(), 4, "{text}");
        assert_eq!(plan.epoch, None);
        assert!(plan.contacts.iter().any(|c| c.link.as_deref() == Some("space") && c.end.0 == 5_000_000_000));
    }

    #[test]
    fn durations_are_exact_text_is_quoted() {
        assert_eq!(exact_duration(Duration::from_millis(1500)), "1500 ms");
        assert_eq!(exact_duration(Duration::from_nanos(1_234_567)), "1234567 ns");
        assert_eq!(quoted("a\"b\\\n"), "\"a\\\"b\\\\\\u000A\"");
    }
}
