//! The files of the two nodes that `farlink init two-nodes` writes.

use super::{LayerChoice, TwoNodes};
use std::net::{IpAddr, SocketAddr};

/// Where nodes announce themselves.
const ANNOUNCED_AT: u16 = 3003;

/// One of the two.
pub struct InitNode {
    /// `a` or `b`.
    pub name: &'static str,
    /// Its node number.
    pub number: u64,
    /// The address of its computer.
    pub ip: IpAddr,
    /// Added to each port: on one computer the second takes the next ones.
    pub ports: u16,
}

impl InitNode {
    fn at(&self, port: u16) -> SocketAddr {
        SocketAddr::new(self.ip, port + self.ports)
    }
    /// The file of this node, whose neighbour is `there`.
    pub fn text(&self, there: &InitNode, args: &TwoNodes) -> String {
        let InitNode { name, number, .. } = self;
        let other = there.number;
        let way = match args.layer {
            _ if args.discovery => self.found(there, args),
            None => self.both_ways(there, args),
            Some(layer) => self.one_way(there, layer, args),
        };
        let routes = if args.discovery { String::new() } else { routes(other) };
        let security = if args.secure { security(*number, other) } else { String::new() };
        let custody = if args.custody { custody(other) } else { String::new() };
        format!(
            r#"# Node {name}: ipn:{number}.0, with one neighbour, ipn:{other}.0.
# `farlink node --config node-{name}.toml --check` finds mistakes; docs/reference/node.md has every key.

node_ids = ["ipn:{number}.0"]

[store]                        # where bundles wait
kind = "durable"               # on disk before they are acknowledged; or "memory"
dir = "store-{name}"
capacity = "1 GB"

{way}
{routes}{security}{custody}[app]                          # where applications attach
socket = "node-{name}.sock"

[api]                          # `farlink node status --at node-{name}.control.sock`
socket = "node-{name}.control.sock"

[log]
level = "info"                 # "debug" shows a line per bundle event
"#
        )
    }
    fn one_way(&self, there: &InitNode, layer: LayerChoice, args: &TwoNodes) -> String {
        let (kind, port, _) = layer.facts();
        let keyed = args.secure && layer == LayerChoice::Ltp;
        let more = match layer {
            LayerChoice::Ltp => {
                "one_way_delay = \"10 ms\"        # \"1.3 s\" to the Moon; LTP's timers follow from it\nrate = \"100 Mbit/s\"\n"
            }
            LayerChoice::Udpcl if args.custody => {
                "version = 2                    # in segments: what is in custody is not cut into fragments\nrate = \"10 Mbit/s\"             # what the way carries: nothing tells this layer of congestion\n"
            }
            LayerChoice::Udpcl => {
                "rate = \"10 Mbit/s\"             # what the way carries: nothing tells this layer of congestion\n"
            }
            _ => "",
        };
        format!(
            r#"{layer}
[link.{there}]                       # the way to the neighbour
layer = "{kind}"
peer = "ipn:{number}.0"
address = "{address}"
{more}{key}"#,
            layer = self.layer(layer, args),
            key = if keyed { "key = \"links\"                  # every segment shows a keyed hash\n" } else { "" },
            there = there.name,
            number = there.number,
            address = there.at(port),
        )
    }
    /// The table of a layer.
    fn layer(&self, layer: LayerChoice, args: &TwoNodes) -> String {
        let (kind, port, what) = layer.facts();
        let here = self.at(port);
        let more = match layer {
            _ if args.tls => self.tls(),
            LayerChoice::Ltp if args.secure => "keys = \"node.keys\"\n".into(),
            _ => String::new(),
        };
        let said = format!("kind = \"{kind}\"");
        format!("[layer.{kind}]\n{said:<30} # {what}\nlisten = [\"{here}\"]\n{more}")
    }
    /// Neighbours that find each other.
    fn found(&self, there: &InitNode, args: &TwoNodes) -> String {
        let layer = args.layer.unwrap_or(LayerChoice::Tcpclv4);
        let (here, other) = (self.at(ANNOUNCED_AT), there.at(ANNOUNCED_AT));
        let way = if self.ports != there.ports || self.ip.is_ipv6() {
            // On one computer each has a port of its own; a group of IPv6 is one of an interface nobody named.
            format!("to = \"{other}\"\nlisten = \"{here}\"\n")
        } else {
            "# interfaces = [\"eth0\"]        # where it is heard; without it, the kernel chooses\n".into()
        };
        let tls = if args.tls { "require_tls = true             # a name that is announced is a claim\n" } else { "" };
        format!(
            r#"{layer}
[discovery]                    # announces this node, and reaches those it hears
{way}accept = ["ipn:{number}.*"]           # whom this node reaches; without it, everybody who is heard
{tls}"#,
            layer = self.layer(layer, args),
            number = there.number,
        )
    }
    fn both_ways(&self, there: &InitNode, args: &TwoNodes) -> String {
        let (other, other_name) = (there.number, there.name);
        let (tcp, ltp) = (4556, 1113);
        format!(
            r#"[layer.tcp]                    # TCPCLv4, for links that are up most of the time
kind = "tcpclv4"
listen = ["{tcp_here}"]
{tls}{v3}
[layer.ltp]                    # LTP over UDP, for links with long delay or loss
kind = "ltp"
listen = ["{ltp_here}"]
{keys}
[link.{other_name}]                       # the way to the neighbour
layer = "tcp"
peer = "ipn:{other}.0"
address = "{tcp_there}"

# The same neighbour over LTP: take the `#` away here and put it before the lines above.
# [link.{other_name}-ltp]
# layer = "ltp"
# peer = "ipn:{other}.0"
# address = "{ltp_there}"
# one_way_delay = "1.3 s"      # the Moon; LTP's timers follow from it
# rate = "10 Mbit/s"
{key}"#,
            tcp_here = self.at(tcp),
            ltp_here = self.at(ltp),
            tcp_there = there.at(tcp),
            ltp_there = there.at(ltp),
            tls = if args.tls { self.tls() } else { String::new() },
            v3 = match args.tls {
                true => "",
                false => "# v3 = true                    # neighbours that speak TCPCLv3 too, such as ION and µD3TN\n",
            },
            keys = if args.secure { "keys = \"node.keys\"\n" } else { "" },
            key = if args.secure { "# key = \"links\"              # every segment shows a keyed hash\n" } else { "" },
        )
    }
    fn tls(&self) -> String {
        format!(
            r#"tls = "require"                # both sides show who they are, or there is no session
certificate = "certs/ipn-{number}.pem"
key = "certs/ipn-{number}.key"
authorities = "certs/authority.pem"
"#,
            number = self.number
        )
    }
}

fn routes(other: u64) -> String {
    format!(
        r#"[routes]                       # where bundles for the neighbour go; add "*" for those for everyone else
"ipn:{other}.*" = "ipn:{other}.0"

"#
    )
}

fn security(number: u64, other: u64) -> String {
    format!(
        r#"[security]                     # what goes between the two is enciphered from end to end
keys = "node.keys"

[[security.rule]]
role = "source"
service = "confidentiality"
from = "ipn:{number}.*"
to = "ipn:{other}.*"
key = "bundles"
wrap = true                    # each bundle gets a key of its own, which that one wraps

[[security.rule]]
role = "acceptor"
service = "confidentiality"
from = "ipn:{other}.*"
to = "ipn:{number}.*"
key = "bundles"

"#
    )
}

fn custody(other: u64) -> String {
    format!(
        r#"[custody]                      # takes custody of what asks for it
request = ["ipn:{other}.*"]          # what is made here for these destinations does

"#
    )
}
