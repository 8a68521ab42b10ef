//! Nodes: names and IDs, store, policies, parameters of layers.

use crate::defaults::defaults;
use crate::keys::{self, LayerSections, ROW_TABLES};
use crate::keys_group::GROUP;
use crate::motion::Group;
use crate::names::Names;
use crate::parse_moving::Equipment;
use crate::types::{Custody, Node, Policy, Route, Settings, StoreKind, TCP_CONTROLS, Tcp};
use farlink_base::{Duration, EndpointId, NodeId, Priority, TunnelTerms};
use farlink_cla::registry::{LAYERS, LayerInfo};
use farlink_config::codes::report_clashes;
use farlink_config::custody::CustodyRules;
use farlink_config::machine::{self, MachineKey, machine_keys};
use farlink_config::reports::{ReportRules, reports};
use farlink_config::security::{is_shadowed, refuse_second_service, rule, shadowed};
use farlink_config::{Input, Reader, SpannedValue, choose};
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use toml::Spanned;

/// Most nodes of a scenario, with those of groups.
const NODES_MAX: u64 = 200_000;

/// Reads all nodes, those of groups after the others, and all groups.
pub fn nodes(top: &Reader<'_>, equipment: &mut Equipment<'_>) -> (Vec<Node>, Vec<Group>) {
    let defaults = defaults(top, "node_defaults", &[&keys::NODE]);
    let mut all = NodeTables::default();
    // Routes name nodes, so tables are read again once all names are known.
    let mut readers: Vec<(Reader<'_>, Range<usize>)> = Vec::new();
    for (path, table) in top.tables("node") {
        Reader::check_keys(top.errors, &path, table, &[&keys::NODE]);
        let mut layers = vec![(path, table)];
        layers.extend(defaults.clone());
        let reader = Reader::new(top.errors, &keys::NODE, layers);
        let ids = reader.custom("id", endpoint_ids).unwrap_or_default();
        let nodes = all.add(&reader, vec![(reader.name("name").unwrap_or_default(), ids)]);
        readers.push((reader, nodes));
    }
    let mut groups = Vec::new();
    for (path, table) in top.tables("group") {
        let own = Reader::checked(top.errors, &GROUP, &path, table);
        let mut layers = vec![(path, table)];
        layers.extend(defaults.clone());
        let reader = Reader::new(top.errors, &keys::NODE, layers);
        let (name, count, first) = (own.name("name"), own.count("count"), own.count("first_id"));
        let Some(name) = name else { continue };
        // A group with a mistake has no nodes but keeps its name, so that references to it are no further mistakes.
        let (mut count, first) = count.zip(first).unwrap_or_default();
        // Checked before the nodes are made: many groups of 100,000 would exhaust memory.
        if all.nodes.len() as u64 + count > NODES_MAX {
            reader.fail("count", format!("more than {NODES_MAX} nodes"), "write fewer");
            count = 0;
        }
        let members = (0..count).map(|n| (format!("{name}{}", n + 1), vec![format!("ipn:{}.0", first + n)]));
        let nodes = all.add(&reader, members.collect());
        if all.names.place(&name).is_some() || groups.iter().any(|group: &Group| group.name == name) {
            reader.fail("name", format!("a second group or node called `{name}`"), "each needs its own name");
        }
        groups.push(Group { name, nodes: nodes.clone() });
        readers.push((reader, nodes));
    }
    let NodeTables { mut nodes, names, .. } = all;
    if nodes.is_empty() && !top.given("group") {
        top.fail("node", "a scenario needs at least one node", "add `[[node]]` with `name` and `id`");
    }
    for (reader, places) in readers {
        let routes = reader.custom("routes", |input| routes(input, &names)).unwrap_or_default();
        nodes[places.clone()].iter_mut().for_each(|node| node.routes.clone_from(&routes));
        equipment.equip(&reader, places);
    }
    // Tables that name nodes are read last, when all names are known.
    security(top, &names, &mut nodes);
    crate::parse_quota::quotas(top, &names, &mut nodes);
    crate::parse_tunnel::tunnels(top, &names, &mut nodes);
    nodes.iter().for_each(|node| distinct_types(top, node));
    (nodes, groups)
}

/// Reports types of blocks and records that a node would use for two purposes, as the node itself would.
fn distinct_types(top: &Reader<'_>, node: &Node) {
    let path = |table: &str| format!("node.{}.{table}", node.name);
    let (mut blocks, mut records) = (Vec::new(), Vec::new());
    if node.custody != Custody::None {
        let terms = &node.custody_rules.terms;
        blocks.push(("transfer_block", path("custody_rules"), terms.transfer_block));
        records.push(("signal_record", path("custody_rules"), terms.signal_record));
    }
    if let Some(ReportRules { terms, .. }) = &node.compressed_reports {
        blocks.push(("block", path("compressed_reports"), terms.block));
        records.push(("record", path("compressed_reports"), terms.record));
    }
    let tunnel = |terms: &TunnelTerms| {
        [("record", path("tunnel"), terms.record), ("signal_record", path("tunnel"), terms.signal_record)]
    };
    let tunnels: Vec<_> = node.tunnels.iter().map(|own| tunnel(&own.terms)).collect();
    report_clashes(top.errors, &blocks, &records, &tunnels);
}

/// Nodes read so far, with their names and the owner of each node ID.
#[derive(Default)]
struct NodeTables {
    nodes: Vec<Node>,
    names: Names,
    owners: HashMap<String, usize>,
}
impl NodeTables {
    /// Adds the nodes of one table, given by names and IDs; returns their indices.
    fn add(&mut self, reader: &Reader<'_>, members: Vec<(String, Vec<String>)>) -> Range<usize> {
        let start = self.nodes.len();
        // Read once for all nodes of a group: its mistakes would otherwise repeat for each member.
        let template = node(reader);
        for (name, ids) in members {
            if !self.names.add(&name) {
                reader.fail("name", format!("a second node called `{name}`"), "each node needs its own name");
            }
            for id in &ids {
                let owner = self.owners.insert(id.clone(), self.nodes.len());
                if let Some(other) = owner.and_then(|other| self.nodes.get(other)) {
                    let found = format!("`{id}` belongs to node `{}`, too", other.name);
                    // The mistake is reported at the key that gave the ID, which for groups is the number of the first.
                    let key = if reader.given_here("first_id") { "first_id" } else { "id" };
                    reader.fail(key, found, "each node needs its own ID");
                }
            }
            let number = ids.first().and_then(|id| id.parse::<EndpointId>().ok()).map_or(NodeId::NULL, |id| id.node());
            self.nodes.push(Node { name, ids, number, ..template.clone() });
        }
        start..self.nodes.len()
    }
}

fn security(top: &Reader<'_>, names: &Names, nodes: &mut [Node]) {
    // Rules keep the order of the file. A node does not get a rule if its earlier rules already match all of that
    // rule's bundles; the rule is a mistake only if no node that it names gets it. A name stands for one key, the same
    // at every node, and a key serves one security service.
    let mut uses = BTreeMap::new();
    for (path, table) in top.tables("security") {
        let reader = Reader::checked(top.errors, &keys::SECURITY, &path, table);
        let Some(rule) = rule(&reader) else { continue };
        let (service, first) = uses.entry(rule.key.clone()).or_insert_with(|| (rule.service, path.clone()));
        if *service != rule.service {
            refuse_second_service(&reader, &rule, &rule.key, first);
        }
        let (mut asked, mut shadow) = (false, false);
        for index in names.of_nodes(&reader) {
            let node = &mut nodes[index];
            if is_shadowed(&rule, node.security.iter()) {
                shadow = true;
            } else {
                asked = true;
                node.security.push(rule.clone());
            }
        }
        if shadow && !asked {
            shadowed(&reader);
        }
    }
}

/// Template of a table's nodes, without names and IDs.
fn node(reader: &Reader<'_>) -> Node {
    let params = |key: &str| reader.custom(key, params).unwrap_or_default();
    let router = Policy { name: reader.text("router").unwrap_or_default(), params: params("router_params") };
    let control = Policy { name: reader.text("control").unwrap_or_default(), params: params("control_params") };
    check_policies(reader, &router, &control);
    let custody = custody(reader, &router, &control);
    let (custody_rules, custody_request) = custody_rules(reader, custody);
    let lifetime = reader.duration("lifetime").unwrap_or_default();
    if lifetime < Duration::from_millis(1) && reader.given("lifetime") {
        reader.fail("lifetime", "a lifetime of at least 1 ms", "bundles without lifetime are dropped at once");
    }
    Node {
        name: String::new(),
        ids: Vec::new(),
        number: NodeId::NULL,
        store: if reader.choice("store") == Some(1) { StoreKind::Durable } else { StoreKind::Memory },
        router,
        control,
        routes: Vec::new(),
        custody,
        tunnels: Vec::new(),
        custody_rules,
        custody_request,
        given: crate::settings::given(reader),
        compressed_reports: reader.table("compressed_reports", &keys::REPORTS).map(|table| reports(&table)),
        quotas: Vec::new(),
        lifetime,
        priority: Priority::ALL[reader.choice("priority").unwrap_or(1)],
        implementation: crate::implementation::implementation(reader),
        host: crate::parse_host::host(reader),
        tcp: tcp(reader),
        layers: layers(reader),
        machine: machine(reader),
        security: Vec::new(),
        position: reader.custom("position", point),
    }
}

fn custody(reader: &Reader<'_>, router: &Policy, control: &Policy) -> Custody {
    // Custody has one custodian (RFC 5050 section 5.10), so no policy may copy the bundle; and a custodian must still
    // have it after a restart.
    let custody = [Custody::None, Custody::Take, Custody::Ask][reader.choice("custody").unwrap_or(0)];
    let copies = farlink_routing::make_router(&router.name, &[], &[], 0).is_ok_and(|router| router.copies())
        || farlink_congestion::make_control(&control.name, &[], 0).is_ok_and(|control| control.wishes());
    if custody != Custody::None && copies {
        let hint = "use a router that gives a bundle to one neighbour, as `sabr` or `static`";
        reader.fail("custody", "no custody with copies: there is no single custodian", hint);
    }
    if custody == Custody::Ask && reader.choice("store") != Some(1) {
        reader.fail("custody", "custody is only of what is kept through a restart", "give store = \"durable\"");
    }
    custody
}
/// Rules of custody, and the destinations for which bundles created here request it.
fn custody_rules(reader: &Reader<'_>, custody: Custody) -> (CustodyRules, Vec<String>) {
    let table = reader.table_or_empty("custody_rules", &keys::CUSTODY);
    let request = farlink_config::custody::patterns(&table, "request");
    // `[node_defaults]` may serve nodes with and without custody, so only a node's own rules are a mistake.
    if custody == Custody::None && reader.given_here("custody_rules") {
        reader.fail("custody_rules", "rules of custody where there is none", "write custody = \"take\" or \"ask\"");
    }
    if request.is_some() && custody == Custody::Take && table.given_here("request") {
        table.fail("request", "no bundle asks for custody here", "write custody = \"ask\", or take `request` out");
    }
    let asks = custody == Custody::Ask;
    let request = request.or(Some(vec!["*".to_string()])).filter(|_| asks).unwrap_or_default();
    let mut rules = farlink_config::custody::custody(&table);
    rules.terms.timeout = custody_timeout(reader);
    (rules, request)
}
fn custody_timeout(reader: &Reader<'_>) -> Duration {
    let timeout = reader.duration("custody_timeout").unwrap_or_default();
    if timeout < Duration::from_millis(1) && reader.given("custody_timeout") {
        reader.fail("custody_timeout", "a timeout of at least 1 ms", "every bundle would be sent again at once");
    }
    timeout
}

fn tcp(reader: &Reader<'_>) -> Tcp {
    let table = reader.table_or_empty("tcp", &keys::TCP);
    let buffer = |name: &str| {
        let volume = table.volume(name).unwrap_or_default();
        if !(4096..=1 << 30).contains(&volume.bytes()) {
            table.fail(name, "a buffer of 4096 B to 1 GiB", "the most a round trip carries is enough");
        }
        volume
    };
    Tcp {
        congestion: TCP_CONTROLS[table.choice("congestion").unwrap_or(0)].0,
        send_buffer: buffer("send_buffer"),
        receive_buffer: buffer("receive_buffer"),
        sack: table.flag("sack").unwrap_or(true),
        window_scaling: table.flag("window_scaling").unwrap_or(true),
        rx_queue: table.count("rx_queue").map(|frames| frames as u32),
    }
}

fn layers(reader: &Reader<'_>) -> Vec<(&'static str, Settings)> {
    // Parameters of a layer for all links of a node; those of a single link stand in the link's table.
    let sections = LAYERS.iter().zip(keys::LAYER_SECTIONS.iter());
    let given = |(layer, sections): (&'static LayerInfo, &'static LayerSections)| {
        Some((layer.name, reader.table(layer.name, &sections.node)?.settings()))
    };
    sections.filter_map(given).collect()
}

/// Keys about the node's machine, of its layers and of its tables.
fn machine(reader: &Reader<'_>) -> Vec<MachineKey> {
    let mut all = Vec::new();
    let shards = reader.setting("shards").unwrap_or(1);
    for (layer, sections) in LAYERS.iter().zip(keys::LAYER_SECTIONS.iter()) {
        let Some(table) = reader.table(layer.name, &sections.node) else { continue };
        let given = machine_keys(&table, layer.name, &keys::layer_keys(layer));
        let shard = given.iter().find(|given| given.key == "shard").and_then(|given| given.value.parse().ok());
        if let Some(shard) = shard.filter(|shard: &u64| *shard >= shards) {
            table.fail("shard", format!("there is no shard {shard}: `shards` is {shards}"), "they count from 0");
        }
        all.extend(given);
    }
    let app = ROW_TABLES.iter().find(|(table, _)| *table == "app").map(|(_, section)| section);
    let [discovery, api] = &*keys::MACHINE_TABLES;
    let tables = [
        ("app", app, machine::APP),
        ("discovery", Some(discovery), machine::DISCOVERY),
        ("api", Some(api), machine::API),
    ];
    for (table, section, keys) in tables {
        all.extend(section.into_iter().flat_map(|section| machine_keys(&reader.overlaid(table, section), table, keys)));
    }
    let api = reader.overlaid("api", api);
    // Whoever runs a scenario of somebody else expects no file outside the folder of the run.
    if api.text("token_file").is_some_and(|file| file.contains('/') || !file.ends_with(".token")) {
        api.fail(
            "token_file",
            "names no `.token` file in the node's folder",
            "write e.g. token_file = \"control.token\"",
        );
    }
    if api.given("listen") && !api.given("token_file") {
        api.fail("listen", "needs a `token_file`", "write e.g. token_file = \"control.token\"");
    }
    all
}

fn check_policies(reader: &Reader<'_>, router: &Policy, control: &Policy) {
    // Making the policy is the check: the registries know names, parameters and their ranges. The object itself is not
    // used.
    let made = [
        farlink_routing::make_router(&router.name, &router.params, &[], 0).err(),
        farlink_congestion::make_control(&control.name, &control.params, 0).err(),
    ];
    for (key, error) in ["router", "control"].into_iter().zip(made) {
        let Some(error) = error else { continue };
        // `router.sabr.profil` is about a parameter, `router` about the name.
        match error.path.rsplit_once('.') {
            None => reader.fail(key, error.expected, error.hint),
            Some((_, param)) => {
                reader.fail(&format!("{key}_params"), format!("`{param}`: {}", error.expected), error.hint);
            }
        }
    }
}

fn point(input: Input<'_, '_>) -> Result<(f64, f64), String> {
    let items = input.items()?;
    let [x, y] = items else { return Err(format!("expected two numbers, found {}", items.len())) };
    let (x, y) = (Input::Given(x.get_ref()).number()?, Input::Given(y.get_ref()).number()?);
    if [x, y].iter().all(|v| (0.0..=1.0).contains(v)) {
        Ok((x, y))
    } else {
        Err("expected two numbers from 0 to 1".into())
    }
}

fn endpoint_ids(input: Input<'_, '_>) -> Result<Vec<String>, String> {
    let ids = input.texts()?;
    // The first ID is the node's own, so one is needed.
    if ids.is_empty() {
        return Err("expected at least one node ID".into());
    }
    for id in &ids {
        if !id.parse::<EndpointId>().is_ok_and(|id| id.is_node_id() && id.node() != NodeId::NULL) {
            return Err(format!("`{id}` is not a node ID: `ipn:NUMBER.0` or `dtn://NAME/`"));
        }
    }
    Ok(ids)
}

fn params(input: Input<'_, '_>) -> Result<Vec<(String, f64)>, String> {
    // Values may be numbers or quantities, in the unit that the policy declares.
    let one = |(key, value): (&Spanned<Cow<'_, str>>, &SpannedValue<'_>)| {
        let read = Input::Given(value.get_ref()).parameter();
        Ok((key.get_ref().to_string(), read.map_err(|why| format!("`{}`: {why}", key.get_ref()))?))
    };
    input.table()?.iter().map(one).collect()
}

fn routes(input: Input<'_, '_>, names: &Names) -> Result<Vec<Route>, String> {
    let route = |(pattern, via): (&Spanned<Cow<'_, str>>, &SpannedValue<'_>)| {
        let name = Input::Given(via.get_ref()).text()?;
        if !EndpointId::is_pattern(pattern.get_ref()) {
            let given = pattern.get_ref();
            return Err(format!("`{given}` matches no endpoint: write `ipn:5.*`, `dtn://node/` or `*`"));
        }
        let words = || names.list().collect::<Vec<_>>();
        let via = names.place(name).map_or_else(|| choose(name, &words()), Ok)?;
        Ok(Route { to: pattern.get_ref().to_string(), via })
    };
    input.table()?.iter().map(route).collect()
}

#[cfg(test)]
mod tests {
    use crate::Scenario;
    use farlink_base::security::Role;

    fn parse(rules: &str) -> Result<Scenario, String> {
        let nodes = "name = \"s\"\nduration = \"1 s\"\n[[node]]\nname = \"a\"\nid = \"ipn:1.0\"\n[[node]]\nname = \"b\"\nid = \"ipn:2.0\"\n";
        Scenario::parse(&format!("{nodes}{rules}"))
            .map_err(|errors| errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
    }
    fn rule(role: &str, more: &str) -> String {
        format!("[[security]]\nrole = \"{role}\"\nservice = \"integrity\"\nkey = \"k\"\n{more}\n")
    }

    #[test]
    fn rules_reach_named_nodes_in_order() {
        // A rule without `nodes` is for all nodes.
        let acceptor = rule("acceptor", "nodes = [\"b\"]\nto = \"ipn:2.*\"");
        let rules = [rule("source", "nodes = \"a\""), acceptor, rule("verifier", "")];
        let scenario = parse(&rules.concat()).unwrap();
        let roles = |node: usize| scenario.nodes[node].security.iter().map(|rule| rule.role).collect::<Vec<_>>();
        assert_eq!(roles(0), [Role::Source, Role::Verifier]);
        assert_eq!(roles(1), [Role::Acceptor, Role::Verifier]);
        assert_eq!(scenario.security_key("k"), scenario.security_key("k"));
        assert_ne!(scenario.security_key("k"), scenario.security_key("l"));
    }

    #[test]
    fn own_rule_precedes_general_rule() {
        // A rule that one node never reaches is no mistake while another node uses it.
        let own = rule("verifier", "nodes = \"a\"\nrequired = false");
        let scenario = parse(&[own.clone(), rule("verifier", "")].concat()).unwrap();
        let required = |node: usize| scenario.nodes[node].security.iter().map(|rule| rule.required).collect::<Vec<_>>();
        assert_eq!(
            (required(0), required(1)),
            (vec![false], vec![true]),
            "as their node files, which hold no idle rule"
        );
        let said = parse(&[own.clone(), own].concat()).unwrap_err();
        assert!(said.contains("security[2].from") && said.contains("no bundle comes to this rule"), "{said}");
    }

    #[test]
    fn invalid_rules_are_refused_with_hints() {
        // Unknown node, idle rule, one key for two services, unknown key of the table, no node at all.
        let said = parse(&rule("source", "nodes = \"c\"")).unwrap_err();
        assert!(said.contains("security[1].nodes") && said.contains("`c` is none of `a`, `b`"), "{said}");
        let said = parse(&[rule("verifier", ""), rule("verifier", "")].concat()).unwrap_err();
        assert!(said.contains("security[2].from") && said.contains("no bundle comes to this rule"), "{said}");
        let second = rule("acceptor", "nodes = \"b\"").replace("integrity", "confidentiality");
        let said = parse(&[rule("source", "nodes = \"a\""), second].concat()).unwrap_err();
        assert!(said.contains("security[2].key") && said.contains("in security[1], and a key serves one"), "{said}");
        assert!(parse(&rule("source", "target = \"x\"")).unwrap_err().contains("did you mean `targets`"));
        assert!(parse(&rule("source", "nodes = []")).unwrap_err().contains("names no node"));
    }
}
