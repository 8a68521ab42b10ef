//! Settings of `[discovery]`: where this node announces itself, and which discovered neighbours it accepts.

use super::keys;
use farlink_base::Duration;
use farlink_base::layer::Medium;
use farlink_cla::tcpcl_v4::Tls;
use farlink_config::custody::patterns;
use farlink_config::machine::{self, socket_address};
use farlink_config::{Input, Reader, nearest};
use farlink_stack::{LayerConfig, LayerKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Default destination of beacons: the group and port of dtn7-rs.
const GROUP: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(224, 0, 0, 26)), PORT);
const PORT: u16 = 3003;
// Receivers accept no longer interval.
const _: () = assert!(machine::INTERVALS[1].as_nanos() == farlink_cla::announce::PERIOD_MAX.as_nanos());
/// Longest name of an interface, bytes (netdevice(7): IFNAMSIZ, less the terminating zero).
const INTERFACE_MAX: usize = 15;

/// Settings of discovery.
#[derive(Clone, PartialEq, Debug)]
pub struct DiscoverySettings {
    /// Destinations of beacons: groups, broadcast addresses, hosts.
    pub to: Vec<SocketAddr>,
    /// Addresses at which beacons are received.
    pub listen: Vec<SocketAddr>,
    /// Interfaces used; if empty, the kernel chooses.
    pub interfaces: Vec<String>,
    /// Interval between beacons.
    pub interval: Duration,
    /// Patterns of accepted node IDs.
    pub accept: Vec<String>,
    /// Names of layers to announce and to connect by, preferred ones first.
    pub layers: Vec<String>,
    /// Most neighbours discovered.
    pub neighbours: usize,
}

/// Reads `[discovery]`, if present.
pub fn read(top: &Reader<'_>, layers: &[LayerConfig]) -> Option<DiscoverySettings> {
    let table = top.table("discovery", &keys::DISCOVERY)?;
    let to = table.custom("to", addresses).unwrap_or_else(|| vec![GROUP]);
    let every = |v4: bool| match v4 {
        true => SocketAddr::from((Ipv4Addr::UNSPECIFIED, PORT)),
        false => SocketAddr::from((Ipv6Addr::UNSPECIFIED, PORT)),
    };
    let needed = [true, false].into_iter().filter(|v4| to.iter().any(|to| to.is_ipv4() == *v4));
    let listen = table.custom("listen", addresses).unwrap_or_else(|| needed.map(every).collect());
    if let Some(lost) = to.iter().find(|to| !listen.iter().any(|listen| listen.is_ipv4() == to.is_ipv4())) {
        let hint = format!("add \"{}\"", every(lost.is_ipv4()));
        table.fail("listen", format!("has no address of the family of {lost}, so nothing can be sent there"), hint);
    }
    Some(DiscoverySettings {
        to,
        listen,
        interfaces: table.custom("interfaces", interfaces).unwrap_or_default(),
        interval: machine::interval(&table).unwrap_or_default(),
        accept: patterns(&table, "accept").unwrap_or_else(|| vec!["*".into()]),
        layers: usable(&table, layers, top.named_tables("layer").len()),
        neighbours: table.count("neighbours").unwrap_or(1) as usize,
    })
}

/// Names of the layers to use: those given in the file, or by default all stream layers (only TLS-secured ones with
/// `require_tls`), because only a connection attempt shows that no neighbour answers.
///
/// `all` is the number of layers in the file, including unreadable ones.
fn usable(table: &Reader<'_>, layers: &[LayerConfig], all: usize) -> Vec<String> {
    let secured = table.flag("require_tls").unwrap_or_default();
    let is_secured = |layer: &LayerConfig| matches!(&layer.kind, LayerKind::Tcpcl(own) if own.tls == Tls::Require);
    let named = |input: Input<'_, '_>| {
        let names = input.texts()?;
        for name in &names {
            let Some(layer) = layers.iter().find(|layer| layer.name == *name) else {
                let near = nearest(name, layers.iter().map(|layer| layer.name.as_str()));
                let near = near.map_or_else(String::new, |near| format!(": did you mean `{near}`?"));
                return Err(format!("there is no layer `{name}`{near}"));
            };
            if secured && !is_secured(layer) {
                return Err(format!("layer `{name}` is not secured: it lacks tls = \"require\""));
            }
        }
        Ok(names)
    };
    if let Some(names) = table.custom("layers", named) {
        return names;
    }
    let streams = layers.iter().filter(|layer| layer.kind.medium() == Some(Medium::Streams));
    let fit: Vec<String> = streams.filter(|layer| !secured || is_secured(layer)).map(|l| l.name.clone()).collect();
    // Mistakes of layers and names were reported elsewhere.
    if fit.is_empty() && !table.given("layers") && all == layers.len() {
        match secured {
            true => table.fail("require_tls", "no layer has tls = \"require\"", "give one certificates, and that"),
            false => {
                let hint = "add a [layer] of kind \"tcpclv4\", or name others: layers = [\"NAME\"]";
                table.fail("layers", "there is no layer over TCP to reach neighbours by", hint);
            }
        }
    }
    fit
}

fn addresses(input: Input<'_, '_>) -> Result<Vec<SocketAddr>, String> {
    let all: Vec<SocketAddr> = input.texts()?.iter().map(|text| socket_address(text)).collect::<Result<_, _>>()?;
    match all.iter().find(|address| address.port() == 0) {
        Some(none) => Err(format!("{none} names no port")),
        None if all.is_empty() => Err("expected at least one address".into()),
        None => Ok(all),
    }
}

fn interfaces(input: Input<'_, '_>) -> Result<Vec<String>, String> {
    let names = input.texts()?;
    let fits = |name: &&String| (1..=INTERFACE_MAX).contains(&name.len()) && !name.contains(['/', ' ']);
    match names.iter().find(|name| !fits(name)) {
        Some(name) => Err(format!("`{name}` is no name of an interface, such as \"eth0\"")),
        None => Ok(names),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::NodeConfig;
    use std::path::Path;

    fn parse(layers: &str, table: &str) -> Result<DiscoverySettings, String> {
        let text = format!("node_ids = \"ipn:1.0\"\n{layers}[discovery]\n{table}\n");
        let config = NodeConfig::parse(&text, Path::new("n.toml"));
        let config = config.map_err(|errors| errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))?;
        Ok(config.discovery.unwrap())
    }
    const TWO: &str = "[layer.tcp]\nkind = \"tcpclv4\"\nlisten = \"127.0.0.1:4556\"\n[layer.udp]\nkind = \"udpcl\"\n";

    #[test]
    fn empty_table_gives_dtn7_defaults() {
        let none = NodeConfig::parse("node_ids = \"ipn:1.0\"\n", Path::new("n.toml")).unwrap();
        assert!(none.discovery.is_none());
        let plain = parse(TWO, "").unwrap();
        assert_eq!(plain.to, ["224.0.0.26:3003".parse().unwrap()]);
        assert_eq!(plain.listen, ["0.0.0.0:3003".parse().unwrap()]);
        assert_eq!((plain.layers, plain.accept), (vec!["tcp".to_string()], vec!["*".to_string()]));
        assert_eq!((plain.interval, plain.neighbours), (Duration::from_secs(5), 32));
        let six = parse(TWO, "to = [\"[ff02::1]:3003\", \"224.0.0.26:3003\"]\nlayers = [\"udp\", \"tcp\"]").unwrap();
        assert_eq!(six.listen.iter().map(ToString::to_string).collect::<Vec<_>>(), ["0.0.0.0:3003", "[::]:3003"]);
        assert_eq!(six.layers, ["udp", "tcp"], "in this order");
    }

    #[test]
    fn invalid_discovery_names_place_and_hint() {
        let wrong = |layers: &str, table: &str| parse(layers, table).unwrap_err();
        for (table, says) in [
            ("interval = \"100 ms\"", "discovery.interval: is not between 1 s and 10 min"),
            ("interval = \"1 h\"", "discovery.interval"),
            ("to = \"224.0.0.26\"", "discovery.to"),
            ("to = \"224.0.0.26:0\"", "names no port"),
            ("to = []", "at least one address"),
            ("to = \"[ff02::1]:3003\"\nlisten = \"0.0.0.0:3003\"", "nothing can be sent there"),
            ("accept = \"ipn:x\"", "matches no endpoint"),
            ("layers = \"tpc\"", "there is no layer `tpc`: did you mean `tcp`?"),
            ("layers = \"tcp\"\nrequire_tls = true", "it lacks tls = \"require\""),
            ("require_tls = true", "no layer has tls = \"require\""),
            ("interfaces = [\"a/b\"]", "is no name of an interface"),
            ("neighbours = 0", "discovery.neighbours"),
            ("intervall = \"5 s\"", "interval"),
        ] {
            let said = wrong(TWO, table);
            assert!(said.contains(says) && said.contains("n.toml:"), "{table}: {said}");
        }
        assert!(wrong("", "").contains("there is no layer over TCP"));
        assert!(wrong("[layer.udp]\nkind = \"udpcl\"\n", "").contains("discovery.layers"));
        assert!(!wrong("[layer.tcp]\nkind = \"tcpcl\"\n", "").contains("discovery"), "the layer's mistake is enough");
    }
}
