//! Settings of convergence layers and links.

use super::build::endpoint;
use super::keys::{self, LayerSections};
use super::{LayerSettings, LinkSettings};
use crate::tls::Files;
use farlink_base::layer::LAYERS_MAX;
use farlink_base::{LINK_TERMS, NodeId};
use farlink_bundle::EndpointId;
use farlink_cla::ltp::Authentication;
use farlink_cla::registry::{Introduction, LAYERS, LayerInfo, Medium};
use farlink_config::custody::terms;
use farlink_config::machine::socket_address;
use farlink_config::{Errors, Input, Reader, Tables, nearest};
use farlink_stack::{Identity, LayerConfig, LayerKind, LinkConfig, LinkParams, Neighbour};
use std::path::{Path, PathBuf};

/// Reads the `[layer.NAME]` tables.
pub fn layers(top: &Reader<'_>, node_ids: &[EndpointId], folder: &Path) -> (Vec<LayerConfig>, Vec<LayerSettings>) {
    let mut layers = Vec::new();
    let mut settings = Vec::new();
    for (name, path, table) in top.named_tables("layer") {
        let (reader, info) = layer_reader(top.errors, vec![(path, table)]);
        let Some(info) = info else { continue };
        let datagrams = info.medium == Medium::Datagrams;
        let Some(kind) = layer(&reader, info, node_ids) else { continue };
        layers.push(LayerConfig { name: name.clone(), kind });
        settings.push(LayerSettings {
            name,
            medium: info.medium,
            // Without `listen` the layer only connects.
            listen: reader.custom("listen", addresses).unwrap_or_default(),
            shard: super::shards::owner(top, &reader, settings.len()),
            offload: datagrams && reader.flag("offload").unwrap_or_default(),
            keys: link_key_file(&reader, info, folder),
            tls: tls(&reader, folder),
            credentials: None,
        });
    }
    if layers.len() > LAYERS_MAX {
        top.fail("layer", format!("a node has at most {LAYERS_MAX} layers"), "let links share a layer");
    }
    (layers, settings)
}

/// File with the keys of a layer's links; `None` for layers other than LTP, or if not given.
fn link_key_file(reader: &Reader<'_>, info: &LayerInfo, folder: &Path) -> Option<PathBuf> {
    // Only layers with engine numbers, LTP, authenticate segments by such keys.
    let known = info.introduction == Introduction::Engine;
    known.then(|| reader.text("keys").map(|file| folder.join(file))).flatten()
}

/// Reader for the keys of the layer's kind, and that kind; `None` if the kind is unknown.
fn layer_reader<'a>(errors: &'a Errors<'a>, tables: Tables<'a>) -> (Reader<'a>, Option<&'static LayerInfo>) {
    let first = &keys::LAYER_SECTIONS[0].layer;
    let chosen = Reader::new(errors, first, tables.clone()).choice("kind");
    // An unknown kind was reported; any section serves to read the rest.
    let section = chosen.map_or(first, |index| &keys::LAYER_SECTIONS[index].layer);
    if chosen.is_some() {
        tables.iter().for_each(|(path, table)| Reader::check_keys(errors, path, table, &[section]));
    }
    (Reader::new(errors, section, tables), chosen.map(|index| &LAYERS[index]))
}

fn addresses(input: Input<'_, '_>) -> Result<Vec<std::net::SocketAddr>, String> {
    input.texts()?.iter().map(|text| socket_address(text)).collect()
}

fn layer(reader: &Reader<'_>, info: &LayerInfo, node_ids: &[EndpointId]) -> Option<LayerKind> {
    let own = || node_ids.first().map(ToString::to_string).unwrap_or_default();
    let identity = match info.introduction {
        Introduction::Engine => {
            // Unreadable node IDs were reported already; the missing number is no further mistake.
            let ipn = if node_ids.is_empty() { Some(0) } else { node_ids.iter().find_map(ipn_number) };
            Identity { engine: engine(reader, ipn, "this node"), ..Identity::default() }
        }
        Introduction::NodeId => {
            Identity { node_id: introduced(reader, "node_id").unwrap_or_else(own), ..Identity::default() }
        }
        Introduction::None => Identity::default(),
    };
    let kind = LayerKind::new(info, identity, &reader.settings());
    if kind.is_none() {
        reader.fail("kind", format!("this node has no layer `{}`", info.name), "");
    }
    kind
}

/// Reads a node ID that sessions exchange: any text that a peer may use, except the LocalNode of RFC 9758.
// 9758-5.4-7
fn introduced(reader: &Reader<'_>, key: &str) -> Option<String> {
    reader.custom(key, |input| {
        let text = input.text()?;
        match text.parse::<EndpointId>() {
            Ok(id) if id.is_here() => Err(format!("`{text}` is no node: whoever reads it takes it for itself")),
            _ => Ok(text.to_string()),
        }
    })
}

/// Reads the certificate files of a layer whose sessions may use TLS; `None` without TLS, or if a file is missing.
fn tls(reader: &Reader<'_>, folder: &Path) -> Option<Files> {
    const FILES: [&str; 3] = ["certificate", "key", "authorities"];
    let wanted = reader.settings().iter().any(|(name, value)| *name == "tls" && *value > 0);
    if !wanted {
        if let Some(idle) = FILES.into_iter().find(|name| reader.given(name)) {
            let hint = "write tls = \"require\", or tls = \"allow\" for peers that cannot, too";
            reader.warn(idle, "has no effect: `tls` is \"forbid\"", hint);
        }
        return None;
    }
    let hint = "add certificate = \"node.pem\", key = \"node.key\" and authorities = \"authorities.pem\"; `farlink node certs` makes them to try";
    let file = |name: &str| {
        if !reader.given(name) {
            reader.fail(name, "missing: sessions cannot be secured without it", hint);
        }
        reader.text(name).map(|file| folder.join(file))
    };
    let [certificate, key, authorities] = FILES.map(file);
    Some(Files { certificate: certificate?, key: key?, authorities: authorities? })
}

/// Engine number, as given or from a node's ipn ID.
fn engine(reader: &Reader<'_>, ipn: Option<u64>, whose: &str) -> u64 {
    let engine = reader.count("engine").or(ipn);
    if engine.is_none() && !reader.given("engine") {
        let why = format!("missing: {whose} has no ipn number to take it from");
        reader.fail("engine", why, "add e.g. engine = 1");
    }
    engine.unwrap_or_default()
}

/// Reads the `[link.NAME]` tables.
///
/// `known` has the names of all layers, including unreadable ones; `own` has the node IDs of this node.
pub fn links(
    top: &Reader<'_>,
    layers: &[LayerConfig],
    known: &[String],
    own: &[EndpointId],
) -> (Vec<LinkConfig>, Vec<LinkSettings>) {
    let mut links = Vec::new();
    let mut settings = Vec::new();
    for (name, path, table) in top.named_tables("link") {
        if !is_a_name(&name) {
            let why = format!("{name:?} is not a name for a link");
            let hint =
                "write 1 to 64 printable characters; `dynamic:` and `found:` begin names of links nobody configured";
            top.errors.push("link", why, hint);
        }
        let tables = vec![(path, table)];
        let any = Reader::new(top.errors, &keys::LAYER_SECTIONS[0].link, tables.clone());
        let layer = layer_of(&any, layers, known);
        let sections = layer.and_then(|layer| sections(&layers[layer].kind));
        let possible: Vec<_> = keys::LAYER_SECTIONS.iter().map(|sections| &sections.link).collect();
        // With an unknown layer, keys of any layer are accepted: one mistake, one message.
        let possible = sections.map_or(possible, |sections| vec![&sections.link]);
        Reader::check_keys(top.errors, &tables[0].0, table, &possible);
        let reader = Reader::new(top.errors, sections.map_or(&keys::LAYER_SECTIONS[0].link, |s| &s.link), tables);
        let peer = reader.custom("peer", |input| neighbour(input.text()?, own)).unwrap_or(EndpointId::Null);
        let address = reader.custom("address", |input| host_and_port(input.text()?));
        let mut span = layer.map(|layer| span(&reader, &layers[layer].kind, &peer, address.is_some()));
        let key = span.as_mut().and_then(|span| authentication(&reader, span));
        // The configuration is refused anyway; the index is never used.
        let layer = layer.unwrap_or(usize::MAX);
        links.push(LinkConfig {
            name,
            peer,
            layer,
            rate: reader.rate("rate"),
            one_way_delay: reader.duration("one_way_delay").unwrap_or_default(),
            terms: terms(&reader, LINK_TERMS),
            params: span.unwrap_or(LinkParams::Message { wire_bytes_per_million: 1_000_000 }),
        });
        settings.push(LinkSettings { address, key });
    }
    (links, settings)
}

/// Sections of a layer's kind.
fn sections(kind: &LayerKind) -> Option<&'static LayerSections> {
    let info = kind.info()?;
    LAYERS.iter().position(|layer| layer == info).map(|index| &keys::LAYER_SECTIONS[index])
}

/// Index of the layer that a link names; `known` has the names of all layers, including unreadable ones.
fn layer_of(reader: &Reader<'_>, layers: &[LayerConfig], known: &[String]) -> Option<usize> {
    let name = reader.text("layer")?;
    let found = layers.iter().position(|layer| layer.name == name);
    if found.is_none() && !known.contains(&name) {
        let hint = match nearest(&name, known.iter().map(String::as_str)) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("add a table [layer.{name}]"),
        };
        reader.fail("layer", format!("there is no layer `{name}`"), hint);
    }
    found
}

fn span(reader: &Reader<'_>, kind: &LayerKind, peer: &EndpointId, addressed: bool) -> LinkParams {
    let node = ipn_number(peer).map_or(NodeId::NULL, NodeId::ipn);
    let mut to = Neighbour { node, ..Neighbour::default() };
    let Some(info) = kind.info() else { return kind.link(to, &[]) };
    match info.introduction {
        Introduction::Engine => {
            // An unreadable peer was reported already; its missing number is no further mistake.
            let ipn = if *peer == EndpointId::Null { Some(0) } else { ipn_number(peer) };
            to.identity.engine = engine(reader, ipn, "the peer");
        }
        Introduction::NodeId => {
            to.identity.node_id = introduced(reader, "node_id").unwrap_or_else(|| peer.to_string());
        }
        Introduction::None => {}
    }
    if info.medium == Medium::Streams {
        to.connect = reader.flag("connect").unwrap_or(addressed);
        if to.connect && !addressed && !reader.given("address") {
            let why = "this side cannot connect without `address`";
            let hint = format!("add address = \"host:{}\"", info.port);
            reader.fail("connect", why, hint);
        }
    }
    reader.ascending("reconnect_min", "reconnect_max");
    kind.link(to, &reader.settings())
}

/// Name of the key that authenticates a link; its bytes are read later from the layer's file.
fn authentication(reader: &Reader<'_>, span: &mut LinkParams) -> Option<String> {
    let LinkParams::Ltp(span) = span else { return None };
    let key = reader.text("key");
    // A key implies the only authentication that uses one.
    if key.is_some() && !reader.given("authentication") {
        span.authentication = Authentication::HmacSha1(Vec::new());
    }
    match (&span.authentication, &key) {
        (Authentication::HmacSha1(_), None) => {
            let hint = "add key = \"...\", the name of one in the file `keys` of its layer";
            reader.fail("authentication", "needs a key that both ends share", hint);
        }
        (Authentication::None | Authentication::Null, Some(_)) => {
            reader.warn("key", "has no effect", "write authentication = \"hmac-sha1-80\", or leave it out");
            return None;
        }
        _ => {}
    }
    key
}

/// Parses the node ID of another node.
fn neighbour(text: &str, own: &[EndpointId]) -> Result<EndpointId, String> {
    let peer = endpoint(text)?;
    match peer {
        EndpointId::Null => Err(format!("`{text}` is no node")),
        _ if peer.is_here() => Err(format!("`{text}` is no node: whoever reads it takes it for itself")),
        _ if !peer.is_node_id() => Err(format!("`{text}` is not a node ID; the node of it is `{}`", peer.node_id())),
        // A link to itself would be a loop for every bundle.
        _ if own.iter().any(|own| own.node() == peer.node()) => Err(format!("`{text}` is this node itself")),
        _ => Ok(peer),
    }
}

/// Returns whether this may be the name of a link; it appears in logs, on terminals and in addresses of the control
/// API.
fn is_a_name(name: &str) -> bool {
    let short = (1..=64).contains(&name.chars().count());
    short
        && !name.chars().any(char::is_control)
        && !["dynamic:", "found:"].iter().any(|prefix| name.starts_with(prefix))
}

fn host_and_port(text: &str) -> Result<String, String> {
    let port = text.rsplit_once(':').and_then(|(host, port)| (!host.is_empty()).then(|| port.parse::<u16>().ok())?);
    match port {
        Some(port) if port > 0 => Ok(text.to_string()),
        _ => Err(format!("`{text}` is not a host and a port")),
    }
}

fn ipn_number(endpoint: &EndpointId) -> Option<u64> {
    if let EndpointId::Ipn { node, .. } = endpoint { Some(*node) } else { None }
}
