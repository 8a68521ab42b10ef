//! Builds a [`NodeConfig`] from the tables of a file.

use super::keys;
use super::{ApiSettings, AppSettings, EventsSettings, Findings, LinkSettings, NodeConfig, policies};
use farlink_base::{Accel, ConfigError, DataVolume, NodeSettings};
use farlink_bundle::EndpointId;
use farlink_config::machine::{permission_bits, socket_address};
use farlink_config::node::{RowsAt, node_settings};
use farlink_config::{Errors, Input, Reader, Section};
use farlink_stack::{Config, LayerConfig, LinkConfig, Quota, StoreConfig, StoreKind};
use std::net::SocketAddr;
use std::path::Path;
use toml::de::DeTable;

pub fn parse(text: &str, file: &Path) -> Result<NodeConfig, Vec<ConfigError>> {
    let found = read(text, file, Places::None);
    found.config.ok_or(found.mistakes)
}

/// Parses the file and checks the places it names: contact plan, folders, certificates.
pub fn look(text: &str, file: &Path) -> Findings {
    read(text, file, Places::All)
}
/// The same for a running node, whose sockets and files are open already.
pub fn look_again(text: &str, file: &Path) -> Findings {
    read(text, file, Places::Read)
}

/// Places named by the file that are checked.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Places {
    /// A text alone is parsed without touching the disk.
    None,
    /// Those that are read.
    Read,
    /// Those that are read or written.
    All,
}

fn read(text: &str, file: &Path, places: Places) -> Findings {
    let name = file.display().to_string();
    let errors = Errors::new(Some(&name), text);
    // A file of another kind gets one clear message instead of hundreds about syntax or unknown keys.
    let root = match super::foreign::kind(text) {
        Some((what, hint)) => {
            errors.push(&name, what, hint);
            None
        }
        None => errors.parse().filter(|root| !is_a_scenario(&errors, root.get_ref(), &name)),
    };
    let folder = file.parent().unwrap_or(Path::new(""));
    let config = root.as_ref().map(|root| {
        let top = Reader::checked(&errors, &keys::NODE, "", root.get_ref());
        let mut config = node(&top, folder, file);
        super::conflicts::addresses(&top);
        super::codes::distinct(&top, &config.stack);
        super::shards::look(&top, &config);
        super::advice::all(&top, &config);
        if places != Places::None {
            super::places::look(&top, &mut config);
        }
        if places == Places::All {
            super::places::written(&top, &config);
        }
        config
    });
    drop(root);
    let (mistakes, warnings) = errors.into_findings();
    Findings { config: config.filter(|_| mistakes.is_empty()), mistakes, warnings }
}

/// Returns whether the tables are those of a scenario; reports the mistake if so.
fn is_a_scenario(errors: &Errors<'_>, root: &DeTable<'_>, file: &str) -> bool {
    let array = |name: &&str| root.get(*name).is_some_and(|value| value.get_ref().is_array());
    let found = !root.contains_key("node_ids") && ["node", "link", "traffic", "contact"].iter().any(array);
    if found {
        let hint = format!("`farlink run {file} --in sim` runs it; `farlink init two-nodes` writes node files");
        errors.push(file, "this is a scenario file, not a node file", hint);
    }
    found
}

pub fn parse_links(
    text: &str,
    layers: &[LayerConfig],
    own: &[EndpointId],
) -> Result<Vec<(LinkConfig, LinkSettings)>, Vec<ConfigError>> {
    let errors = Errors::new(None, text);
    let root = errors.parse();
    let known: Vec<String> = layers.iter().map(|layer| layer.name.clone()).collect();
    let links = root.as_ref().map(|root| {
        let top = Reader::checked(&errors, &keys::LINKS, "", root.get_ref());
        let links = super::links::links(&top, layers, &known, own);
        // Probably a mistyped table; without a message, nothing would happen.
        if links.0.is_empty() && errors.is_empty() {
            errors.push("link", "there is no link here", "write `[link.NAME]` and its keys below");
        }
        links
    });
    drop(root);
    let list = errors.into_list();
    match links {
        Some((links, settings)) if list.is_empty() => Ok(links.into_iter().zip(settings).collect()),
        _ => Err(list),
    }
}

fn node(top: &Reader<'_>, folder: &Path, file: &Path) -> NodeConfig {
    let node_ids = node_ids(top);
    let (layers, layer_settings) = super::links::layers(top, &node_ids, folder);
    // Names of layers with mistakes are included, so that their links are not reported as well.
    let known: Vec<String> = top.named_tables("layer").into_iter().map(|(name, ..)| name).collect();
    let (links, link_settings) = super::links::links(top, &layers, &known, &node_ids);
    let (store, store_dir) = store(top, folder);
    let settings = settings(top);
    let plan = top.table_or_empty("plan", &keys::PLAN);
    let (router, router_params) = policies::router(top);
    let (control, control_params) = policies::control(top);
    let capacity = settings.store.capacity;
    let has_disk = store.kind == StoreKind::Durable;
    let copies = super::custody::copies(&router, &control);
    let tunnels = super::tunnels::tunnels(top, &node_ids);
    let stack = Config {
        node_ids,
        layers,
        links,
        plan: None,
        router,
        router_params,
        routes: routes(top),
        control,
        control_params,
        store,
        node: settings,
        quotas: quotas(top, capacity),
        custody: super::custody::custody(top, capacity, has_disk, copies),
        compressed: super::tunnels::compressed(top),
        tunnels,
        seed: settings.seed.unwrap_or(0),
        accel: Accel::default(),
        security: None,
        shards: None,
    };
    let own = stack.node_ids.first().and_then(EndpointId::ipn_node);
    // A larger node number has an allocator identifier in its upper 32 bits.
    if settings.bundle_version == 6 && own.is_some_and(|node| node > u64::from(u32::MAX)) {
        let what = "6: bundles of this version have no source with an allocator (RFC 9758 section 7.4)";
        top.fail(
            "bundle_version",
            what,
            "write bundle_version = 7, or a node ID of two numbers, the first below 4294967296",
        );
    }
    let (app, api) = (app(top, folder), api(top, folder, file));
    let security = super::security::read(top, folder, store_dir.as_deref());
    let stack = Config { security: security.as_ref().map(|(told, _)| told.clone()), ..stack };
    let discovery = super::discovery::read(top, &stack.layers);
    super::conflicts::sockets(top, app.socket.as_deref(), api.socket.as_deref(), api.socket_given);
    NodeConfig {
        stack,
        store_dir,
        adopt: false,
        layers: layer_settings,
        links: link_settings,
        discovery,
        plan_file: plan.text("file").map(|path| folder.join(path)),
        epoch: plan.time("epoch"),
        app,
        api,
        events: events(top, folder),
        security: security.map(|(_, files)| files),
        file: file.to_path_buf(),
    }
}

fn node_ids(top: &Reader<'_>) -> Vec<EndpointId> {
    let read = |input: Input<'_, '_>| {
        let texts = input.texts()?;
        if texts.is_empty() {
            return Err("expected at least one node ID".into());
        }
        let mut ids: Vec<EndpointId> = Vec::new();
        for text in texts {
            let id = own_name(&text)?;
            if ids.contains(&id) {
                return Err(format!("`{text}` is given twice"));
            }
            ids.push(id);
        }
        Ok(ids)
    };
    top.custom("node_ids", read).unwrap_or_default()
}

/// Parses a node ID of this node.
// 9758-5.4-4, 9758-5.4-5, 9758-5.4-6
fn own_name(text: &str) -> Result<EndpointId, String> {
    let id = endpoint(text)?;
    match id {
        EndpointId::Null => Err(format!("`{text}` is no node")),
        // LocalNode of RFC 9758.
        _ if id.is_here() => Err(format!("`{text}` is no node: whoever reads it takes it for itself")),
        _ if !id.is_node_id() => Err(format!("`{text}` is not a node ID; the node of it is `{}`", id.node_id())),
        _ => Ok(id),
    }
}

/// Parses an endpoint ID.
pub fn endpoint(text: &str) -> Result<EndpointId, String> {
    text.parse().map_err(|_| {
        // A `dtn` node ID without its final slash is a common mistake.
        let whole = format!("{text}/");
        let near = whole.parse::<EndpointId>().map_or_else(|_| String::new(), |_| format!("; did you mean `{whole}`?"));
        format!("`{text}` is not an endpoint ID{near}")
    })
}

/// Reads an address of this machine.
fn address(reader: &Reader<'_>, key: &str) -> Option<SocketAddr> {
    reader.custom(key, |input| socket_address(input.text()?))
}

fn store(top: &Reader<'_>, folder: &Path) -> (StoreConfig, Option<std::path::PathBuf>) {
    let store = top.table_or_empty("store", &keys::STORE);
    let dir = store.text("dir");
    if dir.as_ref().is_some_and(|dir| dir.trim().is_empty()) {
        store.fail("dir", "names no folder", "write e.g. dir = \"store\"");
    }
    let dir = dir.map(|dir| folder.join(dir));
    // A folder alone means a durable store, none a store in memory.
    let default = usize::from(dir.is_none());
    let kind = [StoreKind::Durable, StoreKind::Memory][store.choice("kind").unwrap_or(default)];
    if kind == StoreKind::Durable && dir.is_none() {
        store.fail("dir", "missing: a durable store needs a folder", "add dir = \"store\"");
    }
    if kind == StoreKind::Memory && dir.is_some() {
        store.warn("dir", "does nothing: the store is in memory", "take it out, or write kind = \"durable\"");
    }
    (StoreConfig { kind, file_max: DataVolume(u64::MAX) }, dir)
}

/// Reads the settings that have rows in the table of `farlink_base`.
fn settings(top: &Reader<'_>) -> NodeSettings {
    let tables: [(&str, &'static Section); 5] = [
        ("store", &keys::STORE),
        ("limits", &keys::LIMITS),
        ("security", &keys::SECURITY),
        ("app", &keys::APP),
        ("log", &keys::LOG),
    ];
    // Rules written as in a scenario, an array, are reported elsewhere.
    let is_table = |table: &str| !(table == "security" && top.get(table).is_some_and(|own| own.get_ref().is_array()));
    let tables = tables.into_iter().filter(|(table, _)| is_table(table));
    let readers: Vec<_> = tables.map(|(table, section)| (table, top.table_or_empty(table, section))).collect();
    let tables = readers.iter().map(|(table, reader)| RowsAt { table, prefix: "", reader });
    let places: Vec<_> = tables.chain([RowsAt { table: "", prefix: "", reader: top }]).collect();
    let (mut settings, given) = node_settings(&places, NodeSettings::default());
    // Defaults that depend on other settings are completed last.
    settings.settle(|path| given.iter().any(|(known, _)| *known == path));
    settings
}

/// Hint for a static route whose pattern matches nothing.
pub const PATTERN_HINT: &str = "write `ipn:5.*`, `dtn://node/` or `*`";

fn routes(top: &Reader<'_>) -> Vec<(String, EndpointId)> {
    let Some((path, table)) = top.raw_table("routes") else { return Vec::new() };
    let mut routes = Vec::new();
    for (pattern, hop) in table {
        let given = pattern.get_ref();
        if !EndpointId::is_pattern(given) {
            let (path, whole) = (format!("{path}.{given}"), format!("{given}.*"));
            let near =
                if EndpointId::is_pattern(&whole) { format!("did you mean `{whole}`?") } else { PATTERN_HINT.into() };
            top.errors.at(&path, Some(pattern.span().start), "matches no endpoint", near);
            continue;
        }
        match Input::Given(hop.get_ref()).text().and_then(endpoint) {
            Ok(hop) => routes.push((pattern.span().start, (pattern.get_ref().to_string(), hop))),
            Err(why) => {
                let path = format!("{path}.{}", pattern.get_ref());
                top.errors.at(&path, Some(hop.span().start), why, "write e.g. \"ipn:2.0\" or \"dtn://mars/\"");
            }
        }
    }
    // Routes keep the order of the file: the first match wins.
    routes.sort_by_key(|(at, _)| *at);
    routes.into_iter().map(|(_, route)| route).collect()
}

/// Reads the quotas of the store.
fn quotas(top: &Reader<'_>, capacity: DataVolume) -> Vec<Quota> {
    let tables = top.tables("quota").into_iter();
    let readers = tables.map(|(path, table)| Reader::checked(top.errors, &keys::QUOTA, &path, table));
    let quota = |reader: Reader<'_>| {
        let given = farlink_config::quota::quota(&reader);
        let (bytes, bundles) = (given.bytes_of(capacity), given.bundles.unwrap_or(u64::MAX));
        Quota { sources: given.sources, neighbours: given.neighbours, bytes, bundles }
    };
    readers.map(quota).collect()
}

fn app(top: &Reader<'_>, folder: &Path) -> AppSettings {
    let app = top.table_or_empty("app", &keys::APP);
    AppSettings {
        socket: app.text("socket").map(|path| folder.join(path)),
        socket_mode: app.custom("socket_mode", |input| permission_bits(input.text()?)).unwrap_or(0o600),
        listen: address(&app, "listen"),
    }
}

/// Reads `[api]`. By default the API has a socket beside the file, named after it.
fn api(top: &Reader<'_>, folder: &Path, file: &Path) -> ApiSettings {
    let api = top.table_or_empty("api", &keys::API);
    let given = api.text("socket");
    let socket = match &given {
        // An empty path switches the socket off.
        Some(name) => (!name.is_empty()).then(|| folder.join(name)),
        None => Some(file.with_extension("control.sock")),
    };
    let settings = ApiSettings {
        socket,
        socket_given: given.is_some(),
        listen: address(&api, "listen"),
        token_file: api.text("token_file").map(|path| folder.join(path)),
    };
    if settings.listen.is_some() && settings.token_file.is_none() {
        let hint = "add token_file = \"control.token\" (the node makes it), or use the Unix socket, which needs none";
        api.fail("listen", "over TCP anyone who reaches the port could change this node: a token is needed", hint);
    }
    settings
}

fn events(top: &Reader<'_>, folder: &Path) -> Option<EventsSettings> {
    let events = top.table("events", &keys::EVENTS)?;
    let segments = events.flag("segments").unwrap_or_default();
    events.text("file").map(|file| EventsSettings { file: folder.join(file), segments })
}

#[cfg(test)]
mod tests {
    use super::*;
    use farlink_base::ClockTrust;

    #[test]
    fn quota_needs_subject_and_bound() {
        let quota = |keys: &str| {
            let text =
                format!("node_ids = \"ipn:5.0\"\n[store]\nkind = \"memory\"\ncapacity = \"1 GB\"\n[[quota]]\n{keys}");
            parse(&text, Path::new("node.toml")).map(|config| config.stack.quotas)
        };
        let one = quota("sources = [\"ipn:2.*\"]\nshare = 25\nbundles = 7").unwrap().remove(0);
        assert_eq!((one.bytes, one.bundles, one.neighbours.len()), (250_000_000, 7, 0));
        let one = quota("neighbours = [\"ipn:2.0\"]\nshare = 25\nbytes = \"1 MB\"").unwrap().remove(0);
        assert_eq!((one.bytes, one.bundles), (1_000_000, u64::MAX));
        for (keys, why) in [
            ("share = 25", "a quota is about somebody"),
            ("sources = [\"ipn:2.*\"]", "a quota has a bound"),
            ("sources = [\"ipn:2.*\"]\nneighbours = [\"*\"]\nbundles = 1", "a bundle counts once"),
            ("sources = [\"x\"]\nbundles = 1", "matches no endpoint"),
            ("sources = []\nbundles = 1", "names nobody"),
        ] {
            let told = quota(keys).unwrap_err();
            assert!(told.iter().any(|error| error.to_string().contains(why)), "{keys}: {told:?}");
        }
        let text = "node_ids = \"ipn:5.0\"\n[limits]\nlifetime = \"2 h\"";
        assert_eq!(parse(text, Path::new("node.toml")).unwrap().stack.node.limits.lifetime_s, 7200);
    }

    #[test]
    fn contradicting_limits_are_refused() {
        let with = |store: &str, limits: &str| {
            errors(&format!("node_ids = \"ipn:1.0\"\n[store]\n{store}\n[limits]\n{limits}\n"))
        };
        let memory = "kind = \"memory\"\nspill_from = \"0 B\"";
        let said = with(memory, "bundle_bytes = \"2 GiB\"\narriving_bytes = \"1 MiB\"");
        assert_eq!(said.len(), 1, "{said:?}");
        for part in ["limits.arriving_bytes", "1.049 MB", "2.147 GB", "hint: raise `limits.arriving_bytes`"] {
            assert!(said[0].contains(part), "{part}: {}", said[0]);
        }
        assert!(with(memory, "bundle_bytes = \"2 GiB\"")[0].contains("limits.bundle_bytes"), "against the default");
        let durable = |from: &str| format!("dir = \"store\"\nspill_from = \"{from}\"");
        assert_eq!(with(&durable("2 MiB"), "arriving_bytes = \"1 MiB\"").len(), 1);
        let none = with("kind = \"memory\"\ncapacity = \"0 B\"", "");
        assert!(none.len() == 1 && none[0].contains("node.toml:4: store.capacity: leaves no room"), "{none:?}");
        // No warning: with this store, and with this spill threshold, every bundle fits the limit of arriving bytes.
        assert_eq!(with(memory, "arriving_bytes = \"1 MiB\""), Vec::<String>::new(), "bundles are no larger then");
        assert_eq!(with(&durable("1 MiB"), "arriving_bytes = \"1 MiB\""), Vec::<String>::new());
    }

    /// Keeps 9758-5.4-5, 9758-5.4-7.
    #[test]
    fn refused_values_get_usable_hints() {
        let link = "[layer.t]\nkind = \"tcpclv4\"\n[link.k]\nlayer = \"t\"\naddress = \"127.0.0.4:1\"\n";
        let to = |keys: &str| format!("node_ids = \"ipn:1.0\"\n{link}peer = \"ipn:4.0\"\n{keys}");
        let own = |keys: &str| format!("node_ids = \"ipn:1.0\"\n{keys}");
        for (text, parts) in [
            ("node_ids = \"ipn:!.0\"".into(), ["node_ids", "`ipn:!.0` is no node", "node_ids = "]),
            ("node_ids = [\"ipn:4294967295.0\"]".into(), ["node_ids", "is no node", "node_ids = "]),
            (
                "node_ids = \"ipn:977000.1.0\"\nbundle_version = 6".into(),
                ["bundle_version", "no source with an allocator", "bundle_version = 7"],
            ),
            (
                own("[layer.t]\nkind = \"tcpclv4\"\nnode_id = \"ipn:!.0\""),
                ["layer.t.node_id", "`ipn:!.0` is no node", "node_id = "],
            ),
            (format!("node_ids = \"ipn:1.0\"\n{link}peer = \"ipn:!.0\""), ["link.k.peer", "is no node", "peer = "]),
            (
                own("[store]\ndir = \"s\"\ncapacity = \"1\""),
                ["store.capacity", "`1` has no unit", "capacity = \"10 GB\""],
            ),
            (own("[limits]\nmemory = \"1e9\""), ["limits.memory", "has no unit", "memory = \"2 GiB\""]),
            (own("[limits]\nmemory = \"999999999\""), ["limits.memory", "has no unit", "memory = \"2 GiB\""]),
            (
                own("[limits]\nbundle_bytes = \"7000\""),
                ["limits.bundle_bytes", "`7000` has no unit", "bundle_bytes = "],
            ),
            (
                own("[app]\nsocket = \"a.sock\"\nsocket_mode = \"999\""),
                ["app.socket_mode", "octal", "socket_mode = \"660\""],
            ),
            (
                own("[app]\nsocket = \"a.sock\"\nsocket_mode = \"+660\""),
                ["app.socket_mode", "octal", "socket_mode = \"660\""],
            ),
            (
                to("reconnect_min = \"10 s\"\nreconnect_max = \"1 s\""),
                ["link.k.reconnect_min", "10 s is above `reconnect_max`, which is 1 s", "not above the second"],
            ),
            (to("reconnect_min = \"1 min\""), ["link.k.reconnect_min", "1 min is above", "which is 30 s"]),
            (to("reconnect_max = \"50 ms\""), ["link.k.reconnect_max", "50 ms is below", "which is 100 ms"]),
            (own("[store]\ndir = \"\""), ["store.dir", "names no folder", "dir = \"store\""]),
            (own("[store]\ndir = \" \""), ["store.dir", "names no folder", "dir = \"store\""]),
        ] {
            let said = errors(&text);
            assert!(said.len() == 1 && said[0].contains("\nhint: "), "{text}: {said:?}");
            parts.iter().for_each(|part| assert!(said[0].contains(part), "{part}: {}", said[0]));
        }
        let fine = "reconnect_min = \"1 s\"\nreconnect_max = \"1 s\"\n[store]\ndir = \".\"\nspill_from = \"0\"";
        assert_eq!(errors(&to(fine)), Vec::<String>::new());
    }

    fn errors(text: &str) -> Vec<String> {
        parse(text, Path::new("dir/node.toml"))
            .map_or_else(|errors| errors, |_| Vec::new())
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn defaults_need_only_a_name() {
        let config = parse("node_ids = \"ipn:5.0\"", Path::new("node.toml")).unwrap();
        assert_eq!(config.stack.router, "sabr");
        let settings = &config.stack.node;
        assert!(settings.clock == ClockTrust::Trusted && settings.app.echo);
        assert!(config.api.listen.is_none() && config.events.is_none());
        let socket = |text: &str| parse(text, Path::new("dir/node-a.toml")).unwrap().api.socket;
        assert_eq!(socket("node_ids = \"ipn:5.0\"").unwrap(), Path::new("dir/node-a.control.sock"));
        assert_eq!(socket("node_ids = \"ipn:5.0\"\n[api]\nsocket = \"x\"").unwrap(), Path::new("dir/x"));
        assert_eq!(socket("node_ids = \"ipn:5.0\"\n[api]\nsocket = \"\""), None);
        assert_eq!(config.stack.store.kind, StoreKind::Memory);
        let none = parse("node_ids = \"ipn:5.0\"\n[store]\nspill_from = \"0 B\"", Path::new("node.toml")).unwrap();
        assert_eq!(none.stack.node.store.spill_from, DataVolume(0));
    }

    /// Keeps 9171-5.1-1.
    #[test]
    fn status_reports_are_off_by_default() {
        for (line, made) in [("", false), ("status_reports = false", false), ("status_reports = true", true)] {
            let config = parse(&format!("node_ids = \"ipn:5.0\"\n{line}"), Path::new("node.toml")).unwrap();
            assert_eq!(config.stack.node.agent.status_reports, made, "{line}");
        }
    }

    #[test]
    fn layer_count_is_bounded() {
        let file = |layers: usize| {
            let layer = |n| format!("[layer.l{n}]\nkind = \"tcpclv4\"\ntls = \"forbid\"\n");
            format!("node_ids = \"ipn:1.0\"\n{}", (0..layers).map(layer).collect::<String>())
        };
        assert_eq!(parse(&file(128), Path::new("node.toml")).unwrap().layers.len(), 128);
        let said = errors(&file(129)).join("\n");
        assert!(said.contains("a node has at most 128 layers") && said.contains("let links share a layer"), "{said}");
    }

    #[test]
    fn route_matching_nothing_is_refused() {
        let said =
            errors("node_ids = \"ipn:1.0\"\n[routes]\n\"ipn:2.*\" = \"ipn:2.0\"\n\"ipn:5\" = \"ipn:2.0\"\n").join("\n");
        assert!(
            said.contains("node.toml:4: routes.ipn:5: matches no endpoint\nhint: did you mean `ipn:5.*`?"),
            "{said}"
        );
        assert!(!said.contains("routes.ipn:2"), "{said}");
    }

    #[test]
    fn tcp_control_api_requires_token() {
        let open = "node_ids = \"ipn:1.0\"\n[api]\nlisten = \"127.0.0.1:4280\"\n";
        let said = errors(open).join("\n");
        assert!(said.contains("node.toml:3: api.listen: over TCP anyone") && said.contains("token_file"), "{said}");
        assert!(errors(&format!("{open}token_file = \"t\"\n")).is_empty());
    }

    #[test]
    fn link_is_named_by_its_table() {
        let links = |text| parse_links(text, &[], &[]).unwrap_err()[0].to_string();
        assert!(links("# nothing\n").contains("hint: write `[link.NAME]`"), "{}", links(""));
        let array = links("[[link]]\nlayer = \"tcp\"\n");
        assert!(array.contains("expected a table, found an array of tables\nhint: write `[link.NAME]`"), "{array}");
    }

    #[test]
    fn oracle_policy_is_refused_outside_simulators() {
        let (mut oracles, mut real) = (0, 0);
        let routers = farlink_routing::routers().iter().map(|router| ("router", router.name, router.oracle));
        let controls = farlink_congestion::controls().iter().map(|control| ("control", control.name, control.oracle));
        for (key, name, oracle) in routers.chain(controls) {
            let said = errors(&format!("node_ids = \"ipn:1.0\"\n[{key}]\nname = \"{name}\"\n")).join("\n");
            *(if oracle { &mut oracles } else { &mut real }) += 1;
            if !oracle {
                assert!(said.is_empty(), "{said}");
                continue;
            }
            let expected = format!(
                "node.toml:3: {key}.name: `{name}` needs knowledge of the whole network, which only a simulator has"
            );
            assert!(said.contains(&expected), "{said}");
            let hint = said.split_once("hint: use one of ").expect("what to use instead").1;
            assert!(
                hint.contains("drop-oldest") && hint.ends_with(&format!("or run `{name}` in `farlink run --in sim`")),
                "{said}"
            );
        }
        assert!(oracles > 0 && real > 5);
    }

    #[test]
    fn mistakes_name_line_and_hint() {
        let text = "node_ids = [5]\ncrc = \"crc-32\"\n[layer.l]\nkind = \"ltp\"\nlisten = \"all\"\n[link.x]\nlayer = \"l\"\n\
                    peer = \"dtn://mars/\"\naddress = \"host\"\nrate = 5\nattempts = -1\n[limits]\nbundels = 1\n[router]\nname = 1\n";
        let said = errors(text).join("\n");
        assert!(!said.contains("layer.l.engine"), "its node ID is unreadable, not missing: {said}");
        let named = errors("node_ids = \"dtn://a/\"\n[layer.l]\nkind = \"ltp\"\n");
        assert!(named.len() == 1 && named[0].contains("layer.l.engine: missing"), "{named:?}");
        for part in [
            "dir/node.toml:1: node_ids: expected text",
            "node.toml:2: crc: `crc-32` is none of",
            "did you mean `crc32c`?",
            "node.toml:5: layer.l.listen: `all` is not an address",
            "link.x.engine: missing",
            "node.toml:9: link.x.address: `host` is not a host and a port",
            "node.toml:10: link.x.rate: expected text, with its unit",
            "node.toml:11: link.x.attempts: `-1` is not a whole number",
            "node.toml:13: limits.bundels: unknown key\nhint: did you mean `bundles`?",
            "router.name: expected text",
        ] {
            assert!(said.contains(part), "`{part}` is not in\n{said}");
        }
        assert!(errors("node_ids = [").join("").contains("not TOML"));
        assert!(errors("").join("").contains("node_ids: missing"));
        assert!(
            errors("node_ids = \"ipn:1.0\"\n[link.a]\nlayer = \"no\"\npeer = \"ipn:2.0\"\nwindow = \"1 MB\"").len()
                == 1
        );
    }
}
