//! From the file's tables to [`NodeConfig`].

use super::reader::{Reader, Section, nearest};
use super::{AppSettings, EventsSettings, LayerSettings, LinkSettings, NodeConfig, Transport};
use farlink_base::{Accel, ConfigError, DataVolume, Duration, LayerId, LinkId, NodeId};
use farlink_bundle::{CrcType, EndpointId, Profile};
use farlink_cla::{ltp, tcpcl_v4};
use farlink_stack::{Config, LayerConfig, LayerKind, Limits, LinkConfig, SpanConfig, StoreConfig, StoreKind};
use std::path::Path;
use toml::de::DeTable;

pub fn parse(text: &str, file: &Path) -> Result<NodeConfig, Vec<ConfigError>> {
    let name = file.display().to_string();
    let table = DeTable::parse(text).map_err(|why| {
        let line = why.span().map_or(1, |span| text[..span.start.min(text.len())].matches('\n').count() + 1);
        vec![ConfigError {
            path: format!("{name}:{line}"),
            expected: format!("not TOML: {}", why.message()),
            hint: "strings and quantities go in quotes, tables in [brackets]".into(),
        }]
    })?;
    let reader = Reader::new(&name, text);
    let config =
        Builder { reader: &reader, folder: file.parent().unwrap_or(Path::new("")) }.node(table.get_ref(), file);
    let errors = reader.into_errors();
    if errors.is_empty() { Ok(config) } else { Err(errors) }
}

struct Builder<'a> {
    reader: &'a Reader<'a>,
    folder: &'a Path,
}

impl<'a> Builder<'a> {
    fn node(&self, table: &'a DeTable<'a>, file: &Path) -> NodeConfig {
        let root = Section::root(self.reader, table);
        let node_ids = self.node_ids(&root);
        let (layers, layer_settings) = self.layers(&root, &node_ids);
        let (links, link_settings) = self.links(&root, &layers);
        let (store, store_dir) = self.store(&root);
        let plan = root.section("plan");
        let (router, control) = (root.section("router"), root.section("control"));
        let seed = root.integer("seed", 0..=u64::MAX);
        let stack = Config {
            node_ids,
            layers,
            links,
            plan: None,
            router: router.string("name").unwrap_or_else(|| "sabr".into()),
            router_params: router.free_numbers(),
            routes: self.routes(&root),
            control: control.string("name").unwrap_or_else(|| "none".into()),
            control_params: control.free_numbers(),
            store,
            limits: limits(&root),
            crc: root
                .choice("crc", &[("crc32c", CrcType::Crc32c), ("crc16", CrcType::Crc16), ("none", CrcType::None)])
                .unwrap_or_default(),
            profile: root
                .choice("profile", &[("permissive", Profile::Permissive), ("strict", Profile::Strict)])
                .unwrap_or_default(),
            status_reports: root.boolean("status_reports").unwrap_or(false),
            previous_node_block: root.boolean("previous_node_block").unwrap_or(true),
            hop_limit: root.integer("hop_limit", 0..=255).unwrap_or(64) as u8,
            seed: seed.unwrap_or(0),
            accel: Accel::default(),
        };
        let log = root.section("log");
        let levels = ["error", "warn", "info", "debug", "trace"].map(|level| (level, level));
        let api = root.section("api");
        let config = NodeConfig {
            stack,
            trusted_clock: root.choice("clock", &[("trusted", true), ("untrusted", false)]).unwrap_or(true),
            clock_error_ms: root.duration("clock_error").map_or(100, |d| d.as_millis() as u64),
            store_dir,
            layers: layer_settings,
            links: link_settings,
            plan_file: plan.string("file").map(|path| self.folder.join(path)),
            epoch: self.epoch(&plan),
            seed_given: seed.is_some(),
            app: self.app(&root),
            api: api.parsed("listen", "an address with a port", "127.0.0.1:4280"),
            log_level: log.choice("level", &levels).unwrap_or("info").into(),
            log_json: log.choice("format", &[("text", false), ("json", true)]).unwrap_or(false),
            events: self.events(&root),
            shutdown_timeout: root.duration("shutdown_timeout").unwrap_or(Duration::from_secs(10)),
            file: file.to_path_buf(),
        };
        for section in [&plan, &log, &api, &root] {
            section.finish();
        }
        config
    }

    fn node_ids(&self, root: &Section<'a>) -> Vec<EndpointId> {
        let Some(texts) = root.strings("node_ids") else {
            if !root_has_error(root, "node_ids") {
                root.error("node_ids", "missing", "add e.g. node_ids = [\"ipn:1.0\"]");
            }
            return Vec::new();
        };
        if texts.is_empty() {
            root.error("node_ids", "expected at least one node ID", "e.g. [\"ipn:1.0\"]");
        }
        texts.iter().filter_map(|text| endpoint(root, "node_ids", text)).collect()
    }

    fn layers(&self, root: &Section<'a>, node_ids: &[EndpointId]) -> (Vec<LayerConfig>, Vec<LayerSettings>) {
        let mut layers = Vec::new();
        let mut settings = Vec::new();
        for (index, (name, section)) in root.sections("layer").into_iter().enumerate() {
            let id = LayerId(u16::try_from(index).unwrap_or(u16::MAX));
            let kinds = [("tcpclv4", Transport::Tcp), ("ltp", Transport::Udp)];
            let kind = section.choice("kind", &kinds);
            if kind.is_none() && section.string("kind").is_none() {
                section.error("kind", "missing", "add kind = \"tcpclv4\" or kind = \"ltp\"");
            }
            let transport = kind.unwrap_or(Transport::Tcp);
            let listen = self.listen(&section);
            let offload = transport == Transport::Udp && section.boolean("offload").unwrap_or(true);
            let config = match transport {
                Transport::Tcp => tcpcl_layer(&section, id, node_ids),
                Transport::Udp => ltp_layer(&section, id, node_ids),
            };
            section.finish();
            layers.push(LayerConfig { name: name.clone(), kind: config });
            settings.push(LayerSettings { name, transport, listen, offload });
        }
        (layers, settings)
    }

    fn listen(&self, section: &Section<'a>) -> Vec<std::net::SocketAddr> {
        let texts = section.strings("listen").unwrap_or_default();
        let read = |text: &String| {
            let address = text.parse().ok();
            if address.is_none() {
                section.error(
                    "listen",
                    format!("`{text}` is not an address with a port"),
                    "write e.g. \"0.0.0.0:4556\" or \"[::]:4556\"",
                );
            }
            address
        };
        texts.iter().filter_map(read).collect()
    }

    fn links(&self, root: &Section<'a>, layers: &[LayerConfig]) -> (Vec<LinkConfig>, Vec<LinkSettings>) {
        let mut links = Vec::new();
        let mut settings = Vec::new();
        for (index, (name, section)) in root.sections("link").into_iter().enumerate() {
            let id = LinkId(u32::try_from(index).unwrap_or(0));
            let layer = self.layer_of(&section, layers);
            let peer = section
                .required_string("peer", "ipn:2.0")
                .and_then(|text| endpoint(&section, "peer", &text))
                .unwrap_or(EndpointId::Null);
            let address = section.string("address");
            if let Some(address) = &address {
                check_address(&section, address);
            }
            let span = match layer.and_then(|layer| layers.get(layer)).map(|layer| &layer.kind) {
                Some(LayerKind::Ltp(_)) => SpanConfig::Ltp(ltp_span(&section, id, &peer)),
                Some(LayerKind::TcpclV4(_)) => SpanConfig::TcpclV4(tcpcl_span(&section, id, &peer, address.is_some())),
                Some(LayerKind::Message) | None => SpanConfig::TcpclV4(tcpcl_v4::SpanConfig::default()),
            };
            let layer = layer.unwrap_or(usize::MAX);
            links.push(LinkConfig {
                name: name.clone(),
                peer,
                layer,
                rate: section.rate("rate"),
                one_way_delay: section.duration("one_way_delay").unwrap_or_default(),
                span,
            });
            if layer != usize::MAX {
                section.finish();
            }
            settings.push(LinkSettings { name, address, layer });
        }
        (links, settings)
    }

    fn layer_of(&self, section: &Section<'a>, layers: &[LayerConfig]) -> Option<usize> {
        let name = section.required_string("layer", layers.first().map_or("tcp", |layer| &layer.name))?;
        let found = layers.iter().position(|layer| layer.name == name);
        if found.is_none() {
            let hint = match nearest(&name, layers.iter().map(|layer| layer.name.as_str())) {
                Some(near) => format!("did you mean \"{near}\"?"),
                None => format!("add a table [layer.{name}]"),
            };
            section.error("layer", format!("there is no layer `{name}`"), hint);
        }
        found
    }

    fn store(&self, root: &Section<'a>) -> (StoreConfig, Option<std::path::PathBuf>) {
        let store = root.section("store");
        let kinds = [("memory", StoreKind::Memory), ("durable", StoreKind::Durable)];
        let dir = store.string("dir").map(|dir| self.folder.join(dir));
        let default = if dir.is_some() { StoreKind::Durable } else { StoreKind::Memory };
        let kind = store.choice("kind", &kinds).unwrap_or(default);
        if kind == StoreKind::Durable && dir.is_none() {
            store.error("dir", "missing: a durable store needs a folder", "add dir = \"store\"");
        }
        let capacity = DataVolume(store.volume("capacity").unwrap_or(10_000_000_000));
        store.finish();
        (StoreConfig { kind, capacity }, dir)
    }

    fn routes(&self, root: &Section<'a>) -> Vec<(String, EndpointId)> {
        let section = root.section("routes");
        let entries = section.free_strings();
        entries
            .into_iter()
            .filter_map(|(pattern, hop)| Some((pattern.clone(), endpoint(&section, &pattern, &hop)?)))
            .collect()
    }

    fn epoch(&self, plan: &Section<'a>) -> Option<farlink_base::DtnTime> {
        let text = plan.string("epoch")?;
        let epoch = farlink_base::DtnTime::parse_utc(&text);
        if epoch.is_none() {
            plan.error("epoch", format!("`{text}` is not a UTC time"), "write e.g. \"2026-11-20T09:00:00Z\"");
        }
        epoch
    }

    fn app(&self, root: &Section<'a>) -> AppSettings {
        let app = root.section("app");
        let settings = AppSettings {
            socket: app.string("socket").map(|path| self.folder.join(path)),
            listen: app.parsed("listen", "an address with a port", "127.0.0.1:4242"),
            echo: app.boolean("echo").unwrap_or(true),
            echo_rate: app.integer("echo_rate", 1..=10_000_000).unwrap_or(1000),
        };
        app.finish();
        settings
    }

    fn events(&self, root: &Section<'a>) -> Option<EventsSettings> {
        let events = root.section("events");
        let segments = events.boolean("segments").unwrap_or(false);
        let file = if events.present() { events.required_string("file", "events.jsonl") } else { None };
        events.finish();
        file.map(|file| EventsSettings { file: self.folder.join(file), segments })
    }
}

fn root_has_error(root: &Section<'_>, key: &'static str) -> bool {
    // A key that is there but of the wrong kind was reported when it was read.
    root.strings(key).is_some()
}

fn endpoint(section: &Section<'_>, key: &str, text: &str) -> Option<EndpointId> {
    match text.parse::<EndpointId>() {
        Ok(endpoint) => Some(endpoint),
        Err(_) => {
            section.error(key, format!("`{text}` is not an endpoint ID"), "write e.g. \"ipn:2.0\" or \"dtn://mars/\"");
            None
        }
    }
}

fn check_address(section: &Section<'_>, address: &str) {
    let port =
        address.rsplit_once(':').and_then(|(host, port)| (!host.is_empty()).then(|| port.parse::<u16>().ok())?);
    if port.is_none_or(|port| port == 0) {
        section.error(
            "address",
            format!("`{address}` is not a host and a port"),
            "write e.g. \"moon.example:1113\", \"10.0.0.2:4556\" or \"[fd00::2]:4556\"",
        );
    }
}

fn ipn_number(endpoint: &EndpointId) -> Option<u64> {
    if let EndpointId::Ipn { node, .. } = endpoint { Some(*node) } else { None }
}

fn count(section: &Section<'_>, key: &'static str, default: u32) -> u32 {
    section.integer(key, 1..=u64::from(u32::MAX)).map_or(default, |n| n as u32)
}

fn tcpcl_layer(section: &Section<'_>, layer: LayerId, node_ids: &[EndpointId]) -> LayerKind {
    let default = tcpcl_v4::Config::default();
    LayerKind::TcpclV4(tcpcl_v4::Config {
        layer,
        node_id: section.string("node_id").or_else(|| node_ids.first().map(ToString::to_string)).unwrap_or_default(),
        keepalive: section.duration("keepalive").unwrap_or(default.keepalive),
        segment_mru: section.volume("segment_mru").unwrap_or(default.segment_mru),
        transfer_mru: section.volume("transfer_mru").unwrap_or(default.transfer_mru),
        sessions: count(section, "sessions", default.sessions),
        accept_unknown: section.boolean("accept_unknown").unwrap_or(default.accept_unknown),
        contact_timeout: section.duration("contact_timeout").unwrap_or(default.contact_timeout),
        idle: section.duration("idle").unwrap_or(default.idle),
    })
}

fn ltp_layer(section: &Section<'_>, layer: LayerId, node_ids: &[EndpointId]) -> LayerKind {
    let default = ltp::Config::default();
    let engine = section.integer("engine", 1..=u64::MAX).or_else(|| node_ids.iter().find_map(ipn_number));
    if engine.is_none() {
        section.error("engine", "missing: this node has no ipn number to take it from", "add e.g. engine = 1");
    }
    LayerKind::Ltp(ltp::Config {
        layer,
        engine: engine.unwrap_or_default(),
        sessions: count(section, "sessions", default.sessions),
        accept_unknown: section.boolean("accept_unknown").unwrap_or(default.accept_unknown),
        ..default
    })
}

fn ltp_span(section: &Section<'_>, link: LinkId, peer: &EndpointId) -> ltp::SpanConfig {
    let default = ltp::SpanConfig::default();
    let engine = section.integer("engine", 1..=u64::MAX).or_else(|| ipn_number(peer));
    if engine.is_none() && *peer != EndpointId::Null {
        section.error("engine", "missing: the peer has no ipn number to take it from", "add e.g. engine = 2");
    }
    let datagram = section.volume("datagram").unwrap_or(u64::from(default.datagram_bytes));
    if !(64..=65_507).contains(&datagram) {
        section.error("datagram", "expected 64 to 65507 bytes", "1360 B passes every path of 1400 and more");
    }
    ltp::SpanConfig {
        link,
        engine: engine.unwrap_or_default(),
        node: ipn_number(peer).map_or(NodeId::NULL, NodeId::ipn),
        datagram_bytes: datagram.min(65_507) as u32,
        overhead_bytes: section.volume("overhead").map_or(default.overhead_bytes, |n| n.min(10_000) as u32),
        sessions: count(section, "sessions", default.sessions),
        window_bytes: section.volume("window").unwrap_or(default.window_bytes),
        aggregate_bytes: section.volume("aggregate").unwrap_or(default.aggregate_bytes),
        aggregate_wait: section.duration("aggregate_wait").unwrap_or(default.aggregate_wait),
        margin: section.duration("margin").unwrap_or(default.margin),
        attempts: count(section, "attempts", default.attempts),
        checkpoint_every: section.volume("checkpoint_every").unwrap_or(default.checkpoint_every),
        report_every: section.volume("report_every").unwrap_or(default.report_every),
        idle: section.duration("idle").unwrap_or(default.idle),
        idle_green: section.duration("idle_green").unwrap_or(default.idle_green),
        copies: count(section, "copies", default.copies),
    }
}

fn tcpcl_span(section: &Section<'_>, link: LinkId, peer: &EndpointId, addressed: bool) -> tcpcl_v4::SpanConfig {
    let default = tcpcl_v4::SpanConfig::default();
    let connect = section.boolean("connect").unwrap_or(addressed);
    if connect && !addressed {
        section.error("connect", "this side cannot connect without `address`", "add address = \"host:4556\"");
    }
    tcpcl_v4::SpanConfig {
        link,
        node_id: section.string("node_id").unwrap_or_else(|| peer.to_string()),
        connect,
        reconnect_min: section.duration("reconnect_min").unwrap_or(default.reconnect_min),
        reconnect_max: section.duration("reconnect_max").unwrap_or(default.reconnect_max),
        segment_bytes: section.volume("segment").unwrap_or(default.segment_bytes),
        window_bytes: section.volume("window").unwrap_or(default.window_bytes),
    }
}

fn limits(root: &Section<'_>) -> Limits {
    let section = root.section("limits");
    let default = Limits::default();
    let number = |key, fallback: usize| section.integer(key, 1..=1 << 40).map_or(fallback, |n| n as usize);
    let limits = Limits {
        bundle_bytes: section.volume("bundle_bytes").unwrap_or(default.bundle_bytes),
        memory_bytes: section.volume("memory_bytes").unwrap_or(default.memory_bytes),
        arriving_bytes: section.volume("arriving_bytes").unwrap_or(default.arriving_bytes),
        bundles: section.integer("bundles", 1..=1 << 40).unwrap_or(default.bundles),
        remembered: number("remembered", default.remembered),
        registrations: number("registrations", default.registrations),
        fragments: number("fragments", default.fragments),
        dynamic_links: number("dynamic_links", default.dynamic_links),
    };
    section.finish();
    limits
}

#[cfg(test)]
mod tests {
    use super::*;
    use farlink_base::DataRate;

    fn errors(text: &str) -> Vec<String> {
        parse(text, Path::new("dir/node.toml"))
            .map_or_else(|errors| errors, |_| Vec::new())
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn the_documented_file_is_without_mistakes_and_is_the_one_in_the_manual() {
        let documented: String = include_str!("mod.rs")
            .lines()
            .skip_while(|line| !line.starts_with("//! ```toml"))
            .skip(1)
            .take_while(|line| !line.starts_with("//! ```"))
            .map(|line| format!("{}\n", line.get(4..).unwrap_or("")))
            .collect();
        assert!(
            include_str!("../../../docs/reference/node.md").contains(&documented),
            "docs/reference/node.md is behind"
        );
        // The example shows keys of both layers under one link; each layer takes its own.
        let (ltp, rest) = documented.split_once("# TCPCLv4 only:").unwrap();
        let (tcp, rest) = rest.split_once("[routes]").unwrap();
        let text =
            format!("{ltp}[link.ground]\nlayer = \"tcp\"\npeer = \"ipn:3.0\"\naddress = \"h:1\"\n{tcp}[routes]{rest}");
        let config = parse(&text, Path::new("dir/node.toml")).unwrap();
        assert_eq!(config.stack.links[0].rate, Some(DataRate(2_000_000)));
        assert_eq!(config.store_dir.unwrap(), Path::new("dir/store"));
        let SpanConfig::Ltp(span) = &config.stack.links[0].span else { panic!("an LTP span") };
        assert_eq!((span.engine, span.datagram_bytes), (2, 1360));
        assert_eq!(config.stack.routes.len(), 1);
        assert!(config.epoch.is_some() && config.seed_given);
    }

    #[test]
    fn defaults_need_only_a_name() {
        let config = parse("node_ids = \"ipn:5.0\"", Path::new("node.toml")).unwrap();
        assert_eq!(config.stack.router, "sabr");
        assert!(config.trusted_clock && config.app.echo && config.api.is_none() && config.events.is_none());
        assert_eq!(config.stack.store.kind, StoreKind::Memory);
    }

    #[test]
    fn every_mistake_names_its_line_and_what_to_try() {
        let text = "node_ids = [5]\ncrc = \"crc-32\"\n[layer.l]\nkind = \"ltp\"\nlisten = \"all\"\n[link.x]\nlayer = \"l\"\n\
                    peer = \"dtn://mars/\"\naddress = \"host\"\nrate = 5\nattempts = -1\n[limits]\nbundels = 1\n[router]\nname = 1\n";
        let said = errors(text).join("\n");
        for part in [
            "dir/node.toml:1: node_ids: expected strings, found 5",
            "node.toml:2: crc: `crc-32` is not one of",
            "did you mean \"crc32c\"?",
            "node.toml:5: layer.l.listen: `all` is not an address",
            "layer.l.engine: missing",
            "link.x.engine: missing",
            "node.toml:9: link.x.address: `host` is not a host and a port",
            "node.toml:10: link.x.rate: expected a string, found 5",
            "node.toml:11: link.x.attempts: expected a whole number",
            "node.toml:13: limits.bundels: unknown key\nhint: did you mean `bundles`?",
            "router.name: expected a string",
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
