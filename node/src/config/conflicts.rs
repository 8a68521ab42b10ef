//! Conflicting places within one file: addresses served twice, links to this node itself, one path for two sockets.

use super::keys;
use farlink_cla::registry::{LayerInfo, Medium};
use farlink_config::{Reader, SpannedValue};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::Path;
use toml::de::DeTable;

/// Longest path of a Unix socket, bytes (unix(7)).
const SOCKET_PATH_MAX: usize = 107;

/// Address in the file, with its position.
struct SocketPlace {
    path: String,
    offset: usize,
    medium: Medium,
    /// Kind of the layer that serves the address, if any.
    kind: Option<&'static str>,
    address: SocketAddr,
}

/// Reports addresses that the file serves twice, and links to an address that this node serves.
pub fn addresses(top: &Reader<'_>) {
    let served = served(top);
    for place in served.iter().filter(|place| place.address.port() == 0 && place.path.starts_with("layer.")) {
        let what = "port 0: the system chooses another at each start, which no neighbour knows";
        top.errors.warn(&place.path, Some(place.offset), what, "give a port, or leave `listen` out to connect only");
    }
    // Indexed by port, so that the time for a file with many layers is linear in its length.
    let mut by_port: HashMap<u16, Vec<&SocketPlace>> = HashMap::new();
    for place in served.iter().filter(|place| place.address.port() != 0) {
        let others = by_port.entry(place.address.port()).or_default();
        if let Some(other) = others.iter().find(|other| other.medium == place.medium && overlap(other, place)) {
            let line = top.errors.line(other.offset);
            let what = format!("{} is served by `{}` in line {line} already", place.address, other.path);
            let hint = match both_versions(other, place) {
                true => "serve it by the layer of `tcpclv4` alone, with `v3 = true`",
                false => "choose another port, or serve it once",
            };
            top.errors.at(&place.path, Some(place.offset), what, hint);
        }
        others.push(place);
    }
    for place in linked(top) {
        let others = by_port.get(&place.address.port()).into_iter().flatten();
        if let Some(own) = others.clone().find(|own| own.medium == place.medium && reaches(&place, own)) {
            let line = top.errors.line(own.offset);
            let what =
                format!("{} is this node itself, which serves it by `{}` in line {line}", place.address, own.path);
            top.errors.at(&place.path, Some(place.offset), what, "give the address of the neighbour");
        }
    }
}

/// Returns whether the two layers are TCPCL of versions 3 and 4: one layer of version 4 can replace both, as it also
/// speaks version 3.
fn both_versions(one: &SocketPlace, other: &SocketPlace) -> bool {
    let kinds = [one.kind, other.kind];
    ["tcpclv3", "tcpclv4"].iter().all(|kind| kinds.contains(&Some(kind)))
}

/// Returns whether binding one address prevents binding the other, given that their ports are equal.
fn overlap(one: &SocketPlace, other: &SocketPlace) -> bool {
    let (one, other) = (one.address.ip(), other.address.ip());
    let all = |ip: std::net::IpAddr| ip.is_unspecified();
    one == other || (one.is_ipv4() == other.is_ipv4() && (all(one) || all(other)))
}

/// Returns whether the link's address reaches the served one, given that their ports are equal.
fn reaches(link: &SocketPlace, own: &SocketPlace) -> bool {
    let (to, own) = (link.address.ip(), own.address.ip());
    to == own || (to.is_ipv4() == own.is_ipv4() && own.is_unspecified() && to.is_loopback())
}

/// Addresses that this node serves, in the order of the file.
fn served(top: &Reader<'_>) -> Vec<SocketPlace> {
    let mut found = Vec::new();
    for (name, path, table) in tables(top, "layer") {
        let Some(layer) = layer_of(top, name) else { continue };
        push(&mut found, &format!("{path}.listen"), layer.medium, Some(layer.name), table.get("listen"));
    }
    for (name, medium) in [("app", Medium::Streams), ("api", Medium::Streams), ("discovery", Medium::Datagrams)] {
        let table = top.get(name).and_then(|value| value.get_ref().as_table());
        let listen = table.and_then(|table| table.get("listen"));
        push(&mut found, &format!("{name}.listen"), medium, None, listen);
    }
    found.sort_by_key(|place| place.offset);
    found
}

/// Numeric addresses of links.
fn linked(top: &Reader<'_>) -> Vec<SocketPlace> {
    let mut found = Vec::new();
    for (_, path, table) in tables(top, "link") {
        let layer = table.get("layer").and_then(|value| value.get_ref().as_str());
        let Some(layer) = layer.and_then(|layer| layer_of(top, layer)) else { continue };
        push(&mut found, &format!("{path}.address"), layer.medium, Some(layer.name), table.get("address"));
    }
    found
}

/// Tables `[of.NAME]` of the file, each as NAME, its path `of.NAME`, and the table.
fn tables<'a>(top: &Reader<'a>, of: &str) -> Vec<(&'a str, String, &'a DeTable<'a>)> {
    let outer = top.get(of).and_then(|value| value.get_ref().as_table());
    let named = outer.into_iter().flatten();
    let named = named.filter_map(|(name, value)| Some((name.get_ref().as_ref(), value.get_ref().as_table()?)));
    named.map(|(name, table)| (name, format!("{of}.{name}"), table)).collect()
}

/// Protocol of the layer with this name.
fn layer_of(top: &Reader<'_>, layer: &str) -> Option<&'static LayerInfo> {
    let layers = top.get("layer")?.get_ref().as_table()?;
    let kind = layers.get(layer)?.get_ref().as_table()?.get("kind")?.get_ref().as_str()?;
    LayerInfo::named(kind)
}

fn push(
    found: &mut Vec<SocketPlace>,
    path: &str,
    medium: Medium,
    kind: Option<&'static str>,
    value: Option<&SpannedValue<'_>>,
) {
    let Some(value) = value else { return };
    let items = value.get_ref().as_array();
    let mut one = |value: &SpannedValue<'_>| {
        let text = value.get_ref().as_str().map(|text| text.replacen("localhost:", "127.0.0.1:", 1));
        if let Some(address) = text.and_then(|text| text.parse().ok()) {
            found.push(SocketPlace { path: path.into(), offset: value.span().start, medium, kind, address });
        }
    };
    match items {
        Some(items) => items.iter().for_each(one),
        None => one(value),
    }
}

/// Reports socket paths that are too long or equal. Unless the file sets the path of the control socket (`given`), its
/// length is not checked.
pub fn sockets(top: &Reader<'_>, app: Option<&Path>, api: Option<&Path>, given: bool) {
    let readers = [("app", &*keys::APP, app), ("api", &*keys::API, api.filter(|_| given))];
    for (name, section, path) in readers {
        let Some(path) = path else { continue };
        let length = path.as_os_str().len();
        if length > SOCKET_PATH_MAX {
            let what = format!("{} has {length} bytes; a socket's path has {SOCKET_PATH_MAX} at most", path.display());
            let hint = "give a shorter path, e.g. below /tmp or /run, or start in the folder of the file";
            top.table_or_empty(name, section).fail("socket", what, hint);
        }
    }
    if app.is_some() && app == api {
        let (table, section, other) = if given { ("api", &*keys::API, "app") } else { ("app", &*keys::APP, "api") };
        let what = format!("is the socket of [{other}] too");
        top.table_or_empty(table, section).fail("socket", what, "give each a path of its own");
    }
}

#[cfg(test)]
mod tests {
    use crate::config::NodeConfig;
    use std::path::Path;

    fn said(text: &str) -> Vec<String> {
        let text = format!("node_ids = \"ipn:1.0\"\n{text}");
        let errors = NodeConfig::parse(&text, Path::new("n.toml")).map_or_else(|errors| errors, |_| Vec::new());
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn an_address_is_served_once() {
        let two = |a: &str, b: &str| {
            said(&format!("[layer.a]\nkind = \"tcpclv4\"\nlisten = {a}\n[layer.b]\nkind = \"tcpclv4\"\nlisten = {b}\n"))
        };
        let wrong = two("\"127.0.0.1:1\"", "[\"127.0.0.1:2\", \"127.0.0.1:1\"]");
        assert_eq!(
            wrong,
            ["n.toml:7: layer.b.listen: 127.0.0.1:1 is served by `layer.a.listen` in line 4 already\n\
              hint: choose another port, or serve it once"]
        );
        assert_eq!(two("[\"[::1]:1\", \"[::1]:1\"]", "[]").len(), 1, "twice by one layer");
        assert_eq!(two("\"0.0.0.0:1\"", "\"127.0.0.1:1\"").len(), 1, "0.0.0.0 is every address");
        assert_eq!(two("\"127.0.0.1:0\"", "\"127.0.0.1:0\""), Vec::<String>::new(), "any port");
        assert_eq!(two("\"127.0.0.1:1\"", "\"127.0.0.2:1\""), Vec::<String>::new());
        let both = "[layer.a]\nkind = \"tcpclv4\"\nlisten = \"127.0.0.1:1\"\n[layer.b]\nkind = \"ltp\"\nlisten = \"127.0.0.1:1\"\n";
        assert_eq!(said(both), Vec::<String>::new(), "UDP and TCP do not meet");
        let versions = both.replace("\"ltp\"", "\"tcpclv3\"");
        assert!(said(&versions)[0].ends_with("hint: serve it by the layer of `tcpclv4` alone, with `v3 = true`"));
        let app = format!("{both}[app]\nlisten = \"127.0.0.1:1\"\n");
        assert!(said(&app)[0].starts_with("n.toml:9: app.listen: 127.0.0.1:1 is served by `layer.a.listen` in line 4"));
    }

    #[test]
    fn link_to_own_node_is_refused() {
        let link = |listen: &str, address: &str| {
            said(&format!(
                "[layer.a]\nkind = \"tcpclv4\"\nlisten = \"{listen}\"\n[link.x]\nlayer = \"a\"\npeer = \"ipn:2.0\"\naddress = \"{address}\"\n"
            ))
        };
        for (listen, address) in
            [("10.0.0.1:9", "10.0.0.1:9"), ("0.0.0.0:9", "127.0.0.1:9"), ("127.0.0.1:9", "localhost:9")]
        {
            let wrong = link(listen, address);
            assert!(wrong.len() == 1 && wrong[0].starts_with("n.toml:8: link.x.address: "), "{wrong:?}");
            assert!(wrong[0].contains("is this node itself, which serves it by `layer.a.listen` in line 4\nhint: "));
        }
        assert_eq!(link("0.0.0.0:9", "10.0.0.1:9"), Vec::<String>::new(), "another machine");
        assert_eq!(link("127.0.0.1:9", "127.0.0.1:8"), Vec::<String>::new());
    }

    #[test]
    fn paths_of_sockets_fit_and_differ() {
        let long = said(&format!("[app]\nsocket = \"/{}\"\n", "x".repeat(107)));
        assert!(
            long[0].starts_with("n.toml:3: app.socket: /xxx")
                && long[0].contains("108 bytes; a socket's path has 107 at most"),
            "{long:?}"
        );
        assert_eq!(said(&format!("[api]\nsocket = \"/{}\"\n", "x".repeat(106))), Vec::<String>::new());
        let same = said("[app]\nsocket = \"a\"\n[api]\nsocket = \"a\"\n");
        assert_eq!(same, ["n.toml:5: api.socket: is the socket of [app] too\nhint: give each a path of its own"]);
        assert_eq!(said("[app]\nsocket = \"n.control.sock\"\n").len(), 1, "where the control socket is by itself");
    }
}
